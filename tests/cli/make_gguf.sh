#!/usr/bin/env bash
# Model files with random weights (tests/bench/make_gguf) are models: they open and run, and the same options give the same bytes.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

make_gguf=${MAKE_GGUF:-build/host/release/tests/bench/make_gguf}
make_tiny() { # FILE OPTION...
    "$make_gguf" --layers 2 "$@" --embd 256 --ff 512 --heads 4 --heads-kv 2 --head-dim 64 --vocab 300 --ctx 512
}
runs() { # FILE
    "$FERRY" inspect "$1" -q >/dev/null && "$FERRY" run -m "$1" -p ab -n 2 -q >/dev/null
}

for type in f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q4_K q5_K q6_K; do
    check "a file of type $type is made" make_tiny "$TMP/$type.gguf" --type $type
    check_equal "all its matrices are" 15 \
        "$("$FERRY" inspect "$TMP/$type.gguf" --json | jq --arg t $type '[.tensors[] | select((.shape | length) == 2 and .type == $t)] | length')"
    check "and it runs" runs "$TMP/$type.gguf"
done
for family in qwen3 gemma3 phi3 gpt2; do
    check "a file of family $family is made" make_tiny "$TMP/$family.gguf" --arch $family
    check "and it runs" runs "$TMP/$family.gguf"
done
check "one with experts is made" make_tiny "$TMP/moe.gguf" --arch qwen3moe --experts 4 --experts-used 2 --ff-exp 64
check_equal "with as many" "4 2" \
    "$("$FERRY" inspect "$TMP/moe.gguf" --json | jq -r '.metadata | "\(."qwen3moe.expert_count") \(."qwen3moe.expert_used_count")"')"
check "and it runs" runs "$TMP/moe.gguf"
check "one of convolutions is made" make_tiny "$TMP/lfm2.gguf" --arch lfm2 --layers 3
check_equal "with attention in its third layer" 1 "$("$FERRY" inspect "$TMP/lfm2.gguf" --json | jq '[.tensors[] | select(.name | endswith("attn_q.weight"))] | length')"
check "and it runs" runs "$TMP/lfm2.gguf"
check "one of delta nets is made" make_tiny "$TMP/qwen35.gguf" --arch qwen35 --layers 4
check_equal "with attention in its fourth layer" 1 "$("$FERRY" inspect "$TMP/qwen35.gguf" --json | jq '[.tensors[] | select(.name | endswith("attn_q.weight"))] | length')"
check "and it runs" runs "$TMP/qwen35.gguf"
check "one of both is made" make_tiny "$TMP/lfm2moe.gguf" --arch lfm2moe --layers 4 --experts 4 --experts-used 2 --ff-exp 64
check "and it runs" runs "$TMP/lfm2moe.gguf"
check "one whose gate passes little is made" make_tiny "$TMP/sparse.gguf" --arch sparsellama
check_equal "with a threshold" true \
    "$("$FERRY" inspect "$TMP/sparse.gguf" --json | jq '.metadata."ferry.activation_threshold" > 1')"
check "and it runs" runs "$TMP/sparse.gguf"
check "one with predictors is made" make_tiny "$TMP/predicted.gguf" --arch mistral --embd 512 --heads 8 --ff 4096 --zeros 90 --transpose-down --predictor 128
check_status "and an eighth of the neurons is computed" 0 'computed 1[123]\.[0-9] % of the neurons' \
    "$FERRY" bench -m "$TMP/predicted.gguf" -p 0 -n 32 -r 1 --sparse predict
check "an output matrix of its own" make_tiny "$TMP/untied.gguf" --untied
check_equal "is one more" 16 "$("$FERRY" inspect "$TMP/untied.gguf" --json | jq '[.tensors[] | select((.shape | length) == 2)] | length')"

make_tiny "$TMP/again.gguf" --type q4_0
check "the same options give the same bytes" cmp "$TMP/q4_0.gguf" "$TMP/again.gguf"
FY_CPU_MASK=0 taskset -c 0 "$make_gguf" "$TMP/scalar.gguf" --type f16 --layers 2 --embd 256 --ff 512 --heads 4 --heads-kv 2 --head-dim 64 \
    --vocab 300 --ctx 512
check "on one processor without vector instructions, too" cmp "$TMP/f16.gguf" "$TMP/scalar.gguf"
make_tiny "$TMP/other.gguf" --seed 2
check "another seed gives others" bash -c "! cmp -s '$TMP/q4_0.gguf' '$TMP/other.gguf'"

check_status "no family of this name" 2 "no family 'nosuch'; ferry convert --list-archs has them" make_tiny "$TMP/no.gguf" --arch nosuch
check_status "no type of this name" 2 "no random weights of type 'iq4_xs'" make_tiny "$TMP/no.gguf" --type iq4_xs
check_status "rows that are not whole blocks" 2 "blk.0.ffn_down.weight: rows of 96 elements are not whole blocks of q4_K" \
    "$make_gguf" "$TMP/no.gguf" --type q4_K --ff 96
check_status "a vocabulary without the bytes" 2 "a vocabulary of 200: expected at least 259" "$make_gguf" "$TMP/no.gguf" --vocab 200
# --- a model made wider ----------------------------------------------------------------------------------------------
widen=$(dirname "$make_gguf")/widen_gguf
tale() { "$FERRY" run -m "$1" -q -p 'Once upon a time' -n 60 --temp 0; }
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$TMP/tales.gguf"
check "the tales' model four times as wide" "$widen" "$TMP/tales.gguf" "$TMP/wide.gguf" 4 q8_0
check_equal "says the same" "$(tale "$TMP/tales.gguf")" "$(tale "$TMP/wide.gguf")"
check "and is as large" test "$(stat -c %s "$TMP/wide.gguf")" -gt 30000000
check "nothing was written" test ! -e "$TMP/no.gguf"
finish
