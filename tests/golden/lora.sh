#!/usr/bin/env bash
# LoRA adapters that PEFT saved, merged while converting: logits and greedy ids of the adapted model as transformers and
# PEFT compute them; the same bytes from any number of threads; what is refused.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

base=tests/data/families/llama
rank=tests/data/containers/llama-lora
root=tests/data/containers/llama-lora-rslora

for dir in "$rank" "$root"; do
    name=$(basename "$dir")
    f=$TMP/$name.gguf
    check "$name converts to f32" "$FERRY" convert $base --lora "$dir" --outtype f32 -o "$f"
    check "$name: logits and greedy ids" "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors"
    check "$name: one thread" "$FERRY" convert $base --lora "$dir:1" --outtype f32 -t 1 -o "$TMP/one.gguf"
    check "$name: the same bytes" cmp "$f" "$TMP/one.gguf"
    check "$name: seven threads, scalar kernels" env FY_CPU_MASK=0 \
        "$FERRY" convert $base --lora "$dir" --outtype f32 -t 7 -o "$TMP/seven.gguf"
    check "$name: the same bytes of them" cmp "$f" "$TMP/seven.gguf"
done

# An adapter that is taken away again leaves the base, up to rounding; one that is not does not.
check "there and back" "$FERRY" convert $base --lora $rank --lora $rank:-0.5 --lora $rank:-0.5 --outtype f32 -o "$TMP/back.gguf"
check_status "an adapter alone is another model" 4 'differ|tolerance|not' \
    "$FERRY" eval -m "$TMP/$(basename $rank).gguf" --golden $base/golden.safetensors
# lm_head.base_layer replaces the head by the base's own, so all of it is the base.
check "there and back is the base" "$FERRY" eval -m "$TMP/back.gguf" --golden $base/golden.safetensors

copy() { # NAME: an adapter whose configuration may be changed
    mkdir -p "$TMP/$1"
    cp $rank/adapter_model.safetensors "$TMP/$1"
    jq "$2" $rank/adapter_config.json >"$TMP/$1/adapter_config.json"
}
refused() { # NAME STATUS PATTERN FILTER
    copy "$1" "$4"
    check_status "$1 is refused" "$2" "$3" "$FERRY" convert $base --lora "$TMP/$1" -o "$TMP/no.gguf"
}
refused dora 1 'use_dora is set: DoRA' '.use_dora = true'
refused ia3 1 'peft_type is IA3' '.peft_type = "IA3"'
refused pissa 1 'init_lora_weights is "pissa"' '.init_lora_weights = "pissa"'
refused rank 1 'A \[8, 64\].*which is 4' '.rank_pattern = {}'
refused regex 1 'rank_pattern: .*not a regular expression' '.rank_pattern = {"(": 4}'
check_status "a directory without an adapter is refused" 1 'no adapter_config.json' \
    "$FERRY" convert $base --lora $base -o "$TMP/no.gguf"
check_status "another base is refused" 1 'do not fit .model.layers' \
    "$FERRY" convert tests/data/families/mistral --lora $root -o "$TMP/no.gguf"
check_status "no tensors, no adapter" 2 "vocab-only writes none" "$FERRY" convert $base --lora $rank --vocab-only -o "$TMP/no.gguf"
check_equal "nothing is left of them" "" "$(find "$TMP" -name 'no*')"
finish
