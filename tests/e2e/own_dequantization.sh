#!/usr/bin/env bash
# Every type that the engine reads, against `ferry quantize IN OUT f32` of the same file: only the rounding of activations
# to 8 bits is between them. The K-quants of the whole model are made by ggml's encoders (tests/data/quantized); the
# other types that ferry does not write are in cuts of it: tests/unit/quantize/test_readable_types.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

# Logits of FILE as a golden file of one's own: header, ids, logits.
golden_of() { # FILE IDS OUT
    local id n bytes header
    local -a ids
    IFS=, read -ra ids <<<"$2"
    n=${#ids[@]}
    "$FERRY" run -m "$1" --prompt-ids "$2" -n 0 -c "$n" -ctk f32 -ctv f32 --logits-out "$TMP/logits" -q || return
    bytes=$(stat -c %s "$TMP/logits")
    header=$(printf '{"input_ids":{"dtype":"I32","shape":[%d],"data_offsets":[0,%d]},"logits":{"dtype":"F32","shape":[%d,%d],"data_offsets":[%d,%d]}}' \
        "$n" $((4 * n)) "$n" $((bytes / 4 / n)) $((4 * n)) $((4 * n + bytes)))
    {
        # shellcheck disable=SC2059 # bytes, not text
        printf "\\x$(printf %02x ${#header})\0\0\0\0\0\0\0%s" "$header"
        for id in "${ids[@]}"; do
            # shellcheck disable=SC2059
            printf "\\x$(printf %02x $((id % 256)))\\x$(printf %02x $((id / 256)))\0\0"
        done
        cat "$TMP/logits"
    } >"$3"
}
# The RMS of the difference over that of the logits, at most LIMIT; the likeliest token the same at 95 % of the positions.
near_itself() { # FILE IDS LIMIT
    local out
    "$FERRY" quantize "$1" "$TMP/f32.gguf" f32 -q && golden_of "$TMP/f32.gguf" "$2" "$TMP/own.safetensors" || return
    out=$("$FERRY" eval -m "$1" --golden "$TMP/own.safetensors" --tolerance 1 --json -q) || return
    echo "# $1: RMS $(jq .logits.rms_ratio <<<"$out"), top-1 $(jq .logits.top1_agreement <<<"$out")"
    jq -e ".logits.rms_ratio <= $3 and .logits.top1_agreement >= 0.95" <<<"$out" >/dev/null
}

text_ids=$("$FERRY" tokenize -m tests/data/quantized/tales-q4_K.gguf -f tests/data/held.txt | cut -d' ' -f1-500 | tr ' ' ,)
for model in tales draft; do
    for type in f32 f16 bf16; do
        f=$TMP/$model-$type.gguf
        check "$model converts to $type" "$FERRY" convert tests/data/$model --outtype $type -o "$f" -q
        check "$model $type: nothing is rounded" near_itself "$f" "$text_ids" 1e-6
    done
    for type in q8_0 q4_0; do
        f=$TMP/$model-$type.gguf
        check "$model converts to $type" "$FERRY" convert tests/data/$model --outtype $type -o "$f" -q
        check "$model $type: within 5 %" near_itself "$f" "$text_ids" 0.05
    done
done
for type in q4_K q6_K; do
    check "tales $type: within 5 %" near_itself tests/data/quantized/tales-$type.gguf "$text_ids" 0.05
done
check_status "what is quantized is not quantized again" 1 'would only lose more' \
    "$FERRY" quantize tests/data/quantized/tales-q6_K.gguf "$TMP/again.gguf" q4_0
finish
