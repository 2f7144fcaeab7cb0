#!/usr/bin/env bash
# `ferry compare` of models of every kind: what is equal is reported as one, what is not is found, and the numbers are those
# that numpy gets from gguf-py's reader (max |a - b|, the same over max |a|, rmse, cosine, values that differ).
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

tales=tests/data/tales quantized=tests/data/quantized
for type in f32 f16 bf16 q8_0 q4_0; do
    "$FERRY" convert "$tales" --outtype $type -o "$TMP/$type.gguf" -q
done

check "a checkpoint and its conversion to f32 are equal" "$FERRY" compare "$tales" "$TMP/f32.gguf"
check "so is the one that keeps its bf16" "$FERRY" compare "$TMP/bf16.gguf" "$tales"
check "a checkpoint is equal to itself" "$FERRY" compare "$tales" "$tales"
check "f16 is within its rounding" "$FERRY" compare "$tales" "$TMP/f16.gguf" --tolerance 5e-7
check_status "and not equal" 4 'the models differ: 28 tensors' "$FERRY" compare "$tales" "$TMP/f16.gguf"
check_status "q8_0 is beyond a small tolerance" 4 'tensors beyond the tolerance of 0.001' \
    "$FERRY" compare "$TMP/f32.gguf" "$TMP/q8_0.gguf" --tolerance 0.001
check "and within a larger one" "$FERRY" compare "$TMP/f32.gguf" "$TMP/q8_0.gguf" --tolerance 0.005

numbers() { # A B TENSOR
    "$FERRY" compare "$1" "$2" --tensor "^$3\$" --json 2>/dev/null | jq -r '.tensors[0] |
        "\(.max_diff * 1e7 | round) \(.relative * 1e7 | round) \(.rmse * 1e8 | round) \(.cosine * 1e8 | round) \(.different)"'
}
check_equal "q8_0's error" "13332 38785 27538 99998428 130728" "$(numbers "$TMP/f32.gguf" "$TMP/q8_0.gguf" blk.1.ffn_down.weight)"
check_equal "q4_0's" "209961 610795 440669 99598237 125963" "$(numbers "$TMP/f32.gguf" "$TMP/q4_0.gguf" blk.1.ffn_down.weight)"
check_equal "q4_K's" "148190 431099 360820 99730160 131054" "$(numbers "$TMP/f32.gguf" "$quantized/tales-q4_K.gguf" blk.1.ffn_down.weight)"
check_equal "q6_K's" "54016 157138 90500 99983028 130825" "$(numbers "$TMP/f32.gguf" "$quantized/tales-q6_K.gguf" blk.1.ffn_down.weight)"
check_equal "two quantized files" "166168 703125 451740 99567081 9021" "$(numbers "$quantized/q4_1.gguf" "$quantized/q5_0.gguf" blk.1.ffn_down.weight)"

# One f16 of blk.2.ffn_up.weight, row 3, element 9, becomes 1.0 (0x3C00).
at=$("$FERRY" inspect "$TMP/f16.gguf" --json | jq '.data_offset + (.tensors[] | select(.name == "blk.2.ffn_up.weight") | .offset + (3 * .shape[0] + 9) * 2)')
cp "$TMP/f16.gguf" "$TMP/changed.gguf"
printf '\x00\x3c' | dd of="$TMP/changed.gguf" bs=1 seek="$at" conv=notrunc status=none
"$FERRY" compare "$TMP/f16.gguf" "$TMP/changed.gguf" --json >"$TMP/json" 2>/dev/null
check_equal "the exit status of two that differ" 4 $?
check_equal "one changed element is found" '1 blk.2.ffn_up.weight 1 [3,9] 1' \
    "$(jq -r '"\(.tensors | length) \(.tensors[0] | "\(.name) \(.different) \(.first.index) \(.first.b)")"' "$TMP/json")"
for threads in 1 5; do
    "$FERRY" compare "$TMP/f16.gguf" "$TMP/q4_0.gguf" --json -t $threads >"$TMP/json$threads" 2>/dev/null
done
check "the numbers do not depend on the threads" cmp "$TMP/json1" "$TMP/json5"
check "the worst tensor is the first" jq -e '[.tensors[].relative] | . == (sort | reverse)' "$TMP/json1"
check_equal "equal ones are listed when asked for" 38 "$("$FERRY" compare "$TMP/f16.gguf" "$TMP/q4_0.gguf" --all --json 2>/dev/null | jq '.tensors | length')"

# What a conversion does to names, rows and values is undone by planning it; each container.
for model in families/{gpt2,falcon40,phi3,gemma,opt,mixtral-fused,codegen,internlm2} containers/torchbin; do
    "$FERRY" convert "tests/data/$model" --outtype f32 -o "$TMP/m.gguf" -q
    check "$model is equal to its conversion" "$FERRY" compare "tests/data/$model" "$TMP/m.gguf"
done
check "parts of a matrix in two files are the matrix" "$FERRY" compare tests/data/containers/meta-llama3{,-2parts}
check_status "two families differ" 4 'of another shape|shapes' "$FERRY" compare tests/data/families/llama tests/data/families/qwen2

# the head of an arm64 program is all that `create` looks at
{ printf '\177ELF\2\1\1'; head -c 9 /dev/zero; printf '\2\0\267\0'; head -c 44 /dev/zero; } >"$TMP/exe"
"$FERRY" create "$TMP/q8_0.gguf" --exe-path "$TMP/exe" --no-parity -o "$TMP/workspace" -q
check "a workspace is its main model" "$FERRY" compare "$TMP/workspace" "$TMP/q8_0.gguf"
mkdir "$TMP/bare"
cp "$tales/config.json" "$tales/model.safetensors" "$TMP/bare"
"$FERRY" compare "$TMP/bare" "$TMP/f32.gguf" >"$TMP/text" 2>&1
check_equal "a checkpoint without its tokenizer is compared" 0 $?
check "and that is said" grep -q '^the tokenizer was not compared: ' "$TMP/text"
check "a file of weights against a file of weights" "$FERRY" compare "$TMP/bare/model.safetensors" "$tales/model.safetensors"
sed -i 's/"rope_theta": *[0-9.]*/"rope_theta": 777.0/' "$TMP/bare/config.json"
cp "$tales"/*token* "$tales/generation_config.json" "$TMP/bare"
check_status "a key of the configuration counts" 4 'the models differ: 1 key' "$FERRY" compare "$TMP/bare" "$tales"

for n in 0 100 100000; do
    head -c $n "$TMP/f16.gguf" >"$TMP/cut.gguf"
    check_status "a file cut at $n bytes is refused" 1 'cut.gguf' "$FERRY" compare "$TMP/f16.gguf" "$TMP/cut.gguf"
done
check_status "one model is too few" 2 'too few arguments' "$FERRY" compare "$TMP/f16.gguf"
check_status "no tensor of that name" 2 "no tensor of either" "$FERRY" compare "$tales" "$tales" --tensor '^x$'

# Whatever inspect can show is equal to itself.
if [ -d "$REAL/edge/gguf" ]; then
    for file in "$REAL"/edge/gguf/*.gguf "$REAL"/st-fixtures/*.safetensors; do
        "$FERRY" inspect "$file" >"$TMP/text" 2>&1 || continue
        check "$(basename "$file") is equal to itself" "$FERRY" compare "$file" "$file"
    done
else
    skip "real files are equal to themselves" "third-party data is absent"
fi

# The same weights in every container that people have.
stories=$REAL/stories260K-hf
if [ -d "$stories-f32" ]; then
    for kind in torchbin torchbin-legacy sharded; do
        check "real weights: $kind is f32" "$FERRY" compare "$stories-$kind" "$stories-f32"
    done
    check "real weights: torchbin-bf16 is bf16" "$FERRY" compare "$stories-torchbin-bf16" "$stories-bf16"
    check "real weights: Meta's are within bf16's rounding" "$FERRY" compare "$stories-meta" "$stories-f32" --tolerance 0.004 --tensor ''
else
    skip "real weights" "third-party data is absent"
fi
finish
