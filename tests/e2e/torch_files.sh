#!/usr/bin/env bash
# PyTorch files of many writers: names, types, shapes and bytes of every tensor are those that torch itself read (EXPECTED.json),
# the names of the other values too, and what torch refuses is refused.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

# What a file should give, one line per tensor and value. Torch calls its types otherwise.
# shellcheck disable=SC2016
wanted='def type: {float64: "F64", float32: "F32", float16: "F16", bfloat16: "BF16", int64: "I64", int32: "I32", int16: "I16",
                   int8: "I8", uint8: "U8", bool: "BOOL"}[.] // error("no type \(.)");
    .[$file] | "container \(if .container == "zip" then "zip" else "legacy" end)",
    (.tensors | to_entries[] | "tensor \(.key) \(.value.dtype | type) \(.value.shape) \(.value.sha256)"),
    ((.other_values // [])[] | "value \(.)")'
found='"container \(.container)", (.tensors[] | "tensor \(.name) \(.type) \(.shape) \(.sha256)"), (.values | keys_unsorted[] | "value \(.)")'

check_file() { # DIR FILE
    local want got
    if jq -e --arg file "$2" '.[$file] | has("error")' "$1/EXPECTED.json" >/dev/null; then
        check_status "$2 is refused" 1 "^ferry inspect: .*${2##*/}: " "$FERRY" inspect "$1/$2"
        return
    fi
    want=$(jq -r --arg file "$2" "$wanted" "$1/EXPECTED.json" | sort) || want="EXPECTED.json is not understood"
    got=$("$FERRY" inspect --hash --json "$1/$2" 2>&1 | jq -r "$found" 2>&1 | sort)
    if [ "$want" = "$got" ]; then
        ok "$2 ($(grep -c ^tensor <<<"$want") tensors)"
    else
        not_ok "$2" "$(diff <(printf '%s\n' "$want") <(printf '%s\n' "$got") | head -20; "$FERRY" inspect "$1/$2" 2>&1 >/dev/null)"
    fi
}
rwkv=$REAL/rwkv-tiny/tiny-rwkv-7v0-834K-bf16.pth
if [ -e "$rwkv" ]; then
    check_status "a vocabulary is asked for" 1 "wants rwkv_vocab_v20230424.txt next to it" "$FERRY" convert "$rwkv" -o "$TMP/no.gguf"
    cp "$rwkv" "$TMP"
    head -200 tests/data/rwkv/v7/rwkv_vocab_v20230424.txt >"$TMP/rwkv_vocab_v20230424.txt" # its 256 tokens are bytes
    check "a model of RWKV is known by its tensors" "$FERRY" convert "$TMP/${rwkv##*/}" --outtype f32 -o "$TMP/rwkv.gguf"
else
    skip "a model of RWKV is known by its tensors" "no $rwkv"
fi
for dir in pt-fixtures rwkv-tiny rwkv-pth executorch-llama-rand stories260K-hf-meta stories260K-hf-torchbin-legacy; do
    if [ ! -e "$REAL/$dir/EXPECTED.json" ]; then
        skip "$dir" "not here"
        continue
    fi
    while read -r file; do
        check_file "$REAL/$dir" "$file"
    done < <(jq -r 'keys[]' "$REAL/$dir/EXPECTED.json")
done

# The same weights in two formats: the reader of safetensors and the one of PyTorch agree. PyTorch's files name the tied matrix twice.
hashes() { # FILE
    "$FERRY" inspect --hash --json "$1" | jq -r '.tensors[] | select(.name != "lm_head.weight") | "\(.name) \(.type) \(.shape) \(.sha256)"' | sort
}
for pair in "f32 torchbin" "f32 torchbin-legacy" "bf16 torchbin-bf16"; do
    one=$REAL/stories260K-hf-${pair% *}/model.safetensors two=$REAL/stories260K-hf-${pair#* }/pytorch_model.bin
    if [ -e "$one" ] && [ -e "$two" ]; then
        hashes "$one" >"$TMP/one"
        hashes "$two" >"$TMP/two"
        check "$pair are read" test -s "$TMP/one"
        check_equal "$pair are equal" "" "$(diff "$TMP/one" "$TMP/two" | head -5)"
    else
        skip "$pair are equal" "not here"
    fi
done
finish
