#!/usr/bin/env bash
# Tokenizers against the ids of their reference implementations, through the converted file: the
# checkpoints of tests/data/families, and published ones.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

# verify NAME DIR REFERENCE
verify() {
    check "$1 converts with its vocabulary only" "$FERRY" convert "$2" --vocab-only -o "$TMP/$1.gguf"
    check "$1 agrees with its reference" "$FERRY" tokenize -m "$TMP/$1.gguf" --verify "$3"
    check "$1 agrees straight from its directory" "$FERRY" tokenize -m "$2" --verify "$3"
    rm -f "$TMP/$1.gguf"
}

for golden in tests/data/families/*/golden.json; do
    dir=$(dirname "$golden")
    grep -q '"tokenizer_cases"' "$golden" && verify "$(basename "$dir")" "$dir" "$golden"
done

for name in gpt2 llama2 llama3_2 qwen2_5 qwen2-gpt2style qwen3 falcon gemma granite-code mistral_nemo phi3 internlm2; do
    dir=$REAL/tokenizers/$name
    if [ -d "$dir" ]; then
        verify "$name" "$dir" "$dir/parity.json"
    else
        skip "$name agrees with its reference" "$dir is absent"
    fi
done
# Their model classes, not the tokenizer.json that the reference ran, say what goes before a text.
for name in deepseek_v3 chatglm3; do
    dir=$REAL/tokenizers/$name
    if [ -d "$dir" ]; then
        jq 'del((.cases, .specials_parsed)[].ids_special)' "$dir/parity.json" >"$TMP/$name.json"
        verify "$name" "$dir" "$TMP/$name.json"
    else
        skip "$name agrees with its reference" "$dir is absent"
    fi
done
finish
