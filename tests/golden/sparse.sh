#!/usr/bin/env bash
# Models whose neurons are mostly 0: PowerInfer's files against their reference; ffn_down_t as convert and quantize write it;
# decoding that leaves neurons out gives the ids of decoding that does not.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

ids() { # PROGRAM FILE MODE N PROMPT_IDS
    local program=$1 file=$2 mode=$3 n=$4
    shift 4
    $program run -m "$file" --prompt-ids "$1" -n "$n" --ignore-eos --temp 0 --print-ids --sparse "$mode" -q
}
# same_ids NAME PROGRAM FILE N PROMPT_IDS: every mode gives the ids of `off`.
same_ids() {
    local name=$1 want got mode
    shift
    want=$(ids "$1" "$2" off "$3" "$4")
    for mode in exact auto; do
        got=$(ids "$1" "$2" $mode "$3" "$4")
        if [ -n "$want" ] && [ "$want" = "$got" ]; then
            ok "$name: --sparse $mode gives the ids of off"
        else
            not_ok "$name: --sparse $mode gives the ids of off" "off: $want"$'\n'"$mode: $got"
        fi
    done
}
tensor() { "$FERRY" inspect "$1" --json | jq -c --arg n "$2" '.tensors[] | select(.name == $n) | [.type, .shape]'; }
names() { "$FERRY" inspect "$1" --json | jq -r '.tensors[].name'; }

# --- PowerInfer's files ---------------------------------------------------------------------------------------------
for name in falcon opt; do
    dir=tests/data/sparse/$name f=$dir/model.powerinfer.gguf
    for mode in auto off; do
        check "$name.powerinfer.gguf, $mode" "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors" --sparse $mode
    done
    check "$name.powerinfer.gguf, scalar kernels" env FY_CPU_MASK=0 "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors"
    check "$name.powerinfer.gguf, arm64" $FERRY_ARM eval -m "$f" --golden "$dir/golden.safetensors"
    check "$name: quantize keeps the kind of the file" "$FERRY" quantize "$f" "$TMP/$name.gguf" q8_0 -q
    check_equal "$name: it begins as it did" PWRI "$(head -c 4 "$TMP/$name.gguf")"
    check "$name: and runs" "$FERRY" run -m "$TMP/$name.gguf" --prompt-ids 5,6,7 -n 8 -q --print-ids
done

# --- families -------------------------------------------------------------------------------------------------------
for name in llama-relu prosparse bamboo opt falcon-relu; do
    dir=tests/data/families/$name f=$TMP/$name.gguf
    check "$name converts with --transpose-down" "$FERRY" convert "$dir" --outtype f32 --transpose-down -q -o "$f"
    check_equal "$name: no ffn_down is left" "" "$(names "$f" | grep 'ffn_down\.')"
    for mode in auto exact off; do
        check "$name: logits, --sparse $mode" "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors" --sparse $mode
    done
    check "$name: logits, scalar kernels" env FY_CPU_MASK=0 "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors"
    check "$name: logits, arm64" $FERRY_ARM eval -m "$f" --golden "$dir/golden.safetensors"
    same_ids "$name" "$FERRY" "$f" 40 5,6,7,8
    same_ids "$name, arm64" "$FERRY_ARM" "$f" 20 5,6,7,8
    "$FERRY" convert "$dir" --outtype f32 -q -o "$TMP/plain.gguf"
    same_ids "$name with ffn_down" "$FERRY" "$TMP/plain.gguf" 40 5,6,7,8
    check "$name: quantize transposes it, too" "$FERRY" quantize "$TMP/plain.gguf" "$TMP/turned.gguf" f32 --transpose-down -q
    check_equal "$name: to the same tensors" "$("$FERRY" inspect "$f" --hash --json | jq -c '[.tensors[] | [.name, .sha256]]')" \
        "$("$FERRY" inspect "$TMP/turned.gguf" --hash --json | jq -c '[.tensors[] | [.name, .sha256]]')"
done

# --- the trained model ----------------------------------------------------------------------------------------------
relu=tests/data/relu
check "relu converts to f16" "$FERRY" convert $relu --outtype f16 --transpose-down -q -o "$TMP/f16.gguf"
check "relu converts to q4_0" "$FERRY" convert $relu --outtype q4_0 --transpose-down -q -o "$TMP/q4_0.gguf"
check "relu converts to q8_0" "$FERRY" convert $relu --outtype q8_0 --transpose-down -q -o "$TMP/q8_0.gguf"
check "relu converts to q4_K" "$FERRY" convert $relu --outtype q4_K --transpose-down -q -o "$TMP/q4_K.gguf"
check_equal "a row is a neuron, quantized along the embedding" '["q4_0",[256,1024]]' "$(tensor "$TMP/q4_0.gguf" blk.0.ffn_down_t.weight)"
check "relu converts to f32" "$FERRY" convert $relu --outtype f32 --transpose-down -q -o "$TMP/f32.gguf"
check "relu in f32: 700 tokens" "$FERRY" eval -m "$TMP/f32.gguf" --golden $relu/golden_long.safetensors
soak 1 4
for ((i = 0; i < rounds; i++)); do
    prompt=$(jq -r ".plain[$i].input_ids | map(tostring) | join(\",\")" $relu/golden.json)
    for type in f16 q4_0 q8_0 q4_K; do
        same_ids "relu, $type, prompt $i" "$FERRY" "$TMP/$type.gguf" 700 "$prompt"
    done
    same_ids "relu, q4_0, AVX2, prompt $i" "env FY_CPU_MASK=avx2 $FERRY" "$TMP/q4_0.gguf" 300 "$prompt"
    same_ids "relu, q4_0, scalar, prompt $i" "env FY_CPU_MASK=0 $FERRY" "$TMP/q4_0.gguf" 100 "$prompt"
    same_ids "relu, q4_0, arm64, prompt $i" "$FERRY_ARM" "$TMP/q4_0.gguf" 100 "$prompt"
done
prompt=$(jq -r ".plain[0].input_ids | map(tostring) | join(\",\")" $relu/golden.json)
check_equal "arm64 has the ids of this machine" "$(ids "$FERRY" "$TMP/q4_0.gguf" auto 100 "$prompt")" \
    "$(ids "$FERRY_ARM" "$TMP/q4_0.gguf" auto 100 "$prompt")"
check_equal "and any number of threads" "$(ids "env FERRY_THREADS=1 $FERRY" "$TMP/q4_0.gguf" auto 100 "$prompt")" \
    "$(ids "env FERRY_THREADS=3 $FERRY" "$TMP/q4_0.gguf" auto 100 "$prompt")"

# --- what is refused ------------------------------------------------------------------------------------------------
"$FERRY" convert tests/data/tales --outtype f16 -q -o "$TMP/silu.gguf"
check_status "--transpose-down of a SiLU model" 1 'transpose-down: silu, whose activations are hardly ever exactly 0' \
    "$FERRY" convert tests/data/tales --transpose-down -o "$TMP/no.gguf"
check_status "or of its file" 1 'transpose-down: silu' "$FERRY" quantize "$TMP/silu.gguf" "$TMP/no.gguf" q4_0 --transpose-down
check_status "--sparse exact of one" 2 'the activation of this model is silu' \
    "$FERRY" run -m "$TMP/silu.gguf" -p a -n 1 --sparse exact
"$FERRY" convert $relu --outtype q8_0 -q -o "$TMP/plain8.gguf"
check_status "a quantized file" 1 "'blk.0.ffn_down.weight' is q8_0: blocks lie along its rows" \
    "$FERRY" quantize "$TMP/plain8.gguf" "$TMP/no.gguf" q8_0 --transpose-down
check_status "one that has them already" 1 'ffn_down_t is there already' \
    "$FERRY" quantize "$TMP/f16.gguf" "$TMP/no.gguf" q4_0 --transpose-down
check_status "experts" 1 'the matrices of experts are not transposed' \
    "$FERRY" convert tests/data/families/smallthinker-4b --transpose-down -o "$TMP/no.gguf"
check_status "no layers" 2 'transpose-down is about the layers' \
    "$FERRY" convert $relu --transpose-down --vocab-only -o "$TMP/no.gguf"
finish
