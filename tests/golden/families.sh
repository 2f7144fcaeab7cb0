#!/usr/bin/env bash
# Reference logits, hidden states and greedy ids of every family: convert to f32, evaluate; on this machine and on
# emulated arm64. The goldens come from the families' reference implementation (tests/data/families).
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

# The bound for q8_0 weights with 8-bit activations on random models: RMS of the difference at most 10 % of the RMS of
# the logits, top-1 equal at 85 % of the positions. With experts one position may be left out: where rounding lets
# another expert be chosen, the logits jump.
q8_close() { # FILE GOLDEN
    local out rms=rms_ratio
    [ "$("$FERRY" inspect "$1" --json | jq '.metadata | any(to_entries[]; .key | endswith(".expert_count"))')" = false ] ||
        rms=rms_ratio_but_worst
    out=$("$FERRY" eval -m "$1" --golden "$2" --tolerance 1 --json)
    jq -e ".logits.$rms <= 0.10 and .logits.top1_agreement >= 0.85" <<<"$out" >/dev/null || {
        echo "$out"
        return 1
    }
}

for dir in tests/data/families/*/; do
    name=$(basename "$dir")
    f=$TMP/$name.gguf
    check "$name converts to f32" "$FERRY" convert "$dir" --outtype f32 -o "$f"
    check "$name: logits, hidden states, greedy ids in f32" "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors"
    check "$name: the same in batches of 1" "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors" -b 1 -t 1
    check "$name: scalar kernels" env FY_CPU_MASK=0 "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors"
    check "$name: f16 KV within its wider bound" "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors" \
        -ctk f16 -ctv f16 --tolerance 1e-2
    check "$name: arm64, logits, hidden states, greedy ids" $FERRY_ARM eval -m "$f" --golden "$dir/golden.safetensors"
    if [ -f "$dir/golden_short.safetensors" ]; then
        check "$name: within the original context" "$FERRY" eval -m "$f" --golden "$dir/golden_short.safetensors"
    fi
    if [ -f "$dir/golden.json" ]; then
        check "$name: tokenizer cases" "$FERRY" tokenize -m "$f" --verify "$dir/golden.json"
    fi
    check "$name: q8_0 converts" "$FERRY" convert "$dir" --outtype q8_0 -o "$TMP/q8.gguf"
    check "$name: q8_0 keeps the top-1 and the shape of the logits" \
        q8_close "$TMP/q8.gguf" "$dir/golden.safetensors"
done
finish
