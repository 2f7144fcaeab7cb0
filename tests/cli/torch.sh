#!/usr/bin/env bash
# PyTorch files: what is in them, and that nothing in them is ever run.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

data=tests/data/containers
corpus=tests/fuzz/corpus/torch_zip
show() { # FILE FILTER
    "$FERRY" inspect --json "$1" | jq -rc "$2"
}
check_equal "a checkpoint of llama2.c has its arguments" "torch zip 64 352" \
    "$(show $data/llama2c/ckpt.pt '"\(.format) \(.container) \(.values."model_args.dim") \(.values."model_args.vocab_size")"')"
check_equal "and the state of its optimizer" '["optimizer.state.0.step","optimizer.state.0.exp_avg"]' \
    "$(show $data/llama2c/ckpt.pt '[.tensors[].name | select(startswith("optimizer."))]')"
check_equal "views of one storage are distinguished" '["w 0 true","t 0 false","s 0 true","z 1 true"]' \
    "$(show $corpus/state '[.tensors[] | "\(.name) \(.storage) \(.contiguous)"]')"
for file in "$data"/meta-llama3/consolidated.00.pth "$data"/meta-llama3-2parts/consolidated.01.pth; do
    check_equal "$file holds bf16" '["BF16"]' "$(show "$file" '[.tensors[].type] | unique')"
done
check_equal "the shards hold what their index says" "$(jq -r '.weight_map | to_entries[] | "\(.value) \(.key)"' $data/torchbin/pytorch_model.bin.index.json | sort)" \
    "$(for file in "$data"/torchbin/*.bin; do show "$file" ".tensors[] | \"${file##*/} \\(.name)\""; done | sort)"

# Sums by another program: the elements of a contiguous tensor are bytes of the file.
while read -r offset bytes hash; do
    check_equal "the hash is that of the bytes at $offset" "$hash" \
        "$(tail -c +$((offset + 1)) $data/meta-llama3/consolidated.00.pth | head -c "$bytes" | sha256sum | cut -d' ' -f1)"
done < <("$FERRY" inspect --hash --json $data/meta-llama3/consolidated.00.pth | jq -r '.tensors[:3][] | "\(.offset) \(.bytes) \(.sha256)"')
check_equal "rows of a transposed view are put together" "$(printf '\0\0\0\0\0\0\100\100\0\0\200\77\0\0\200\100\0\0\0\100\0\0\240\100' | sha256sum | cut -d' ' -f1)" \
    "$("$FERRY" inspect --hash --json $corpus/state | jq -r '.tensors[] | select(.name == "t") | .sha256')"

check_equal "what would be a command is only named" '{"args":"argparse.Namespace","evil":"posix.system"}' "$(show $corpus/opaque .opaque)"
for case in "evil_global the pickle asks for posix.system, which ferry never runs" \
    "evil_storage tensor 'w': its pickle asks for posix.system, which ferry never runs" \
    "evil_type tensor 'w': its pickle asks for os.system, which ferry never runs" \
    "script is a TorchScript archive" "compressed is compressed \(method 8\)" "encrypted is encrypted" \
    "big_endian is big-endian" "two_entries two entries 'm/data.pkl'" "cut it is incomplete; download it again" \
    "deep_lists nested deeper than 64 levels" "laughs are parts of each other too many times" \
    "extent reaches element 6 of a storage that has 6" "no_storage its storage '9' is not in the file"; do
    check_status "${case%% *} is refused" 1 "$corpus/${case%% *}: .*${case#* }" "$FERRY" inspect $corpus/"${case%% *}"
done
head -c 1000 $data/llama2c/ckpt.pt >"$TMP/cut.pt"
check_status "half a file" 1 "cut.pt: the zip archive has no directory at its end: it is incomplete" "$FERRY" inspect "$TMP/cut.pt"
printf abc >"$TMP/abc.pth"
check_status "another file of this name" 1 "abc.pth: is not a PyTorch checkpoint" "$FERRY" inspect --json "$TMP/abc.pth"
# (but for what depends on the version of Python)
if command -v python3 >/dev/null; then
    check_equal "the corpora are what their script makes" "" "$(python3 tests/fuzz/torch_corpus.py "$TMP/corpus" 2>&1
        for target in pickle torch_zip; do diff -r -x 'python*' "$TMP/corpus/$target" tests/fuzz/corpus/$target; done)"
else
    skip "the corpora are what their script makes" "no python3"
fi
finish
