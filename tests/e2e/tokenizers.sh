#!/usr/bin/env bash
# Real tokenizers against the ids of their reference implementations, through the converted file.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

for name in gpt2 llama2 llama3_2 qwen2_5 qwen3; do
    dir=$REAL/tokenizers/$name
    if [ ! -d "$dir" ]; then
        skip "$name agrees with its reference" "$dir is absent"
        continue
    fi
    check "$name converts with its vocabulary only" "$FERRY" convert "$dir" --vocab-only -o "$TMP/$name.gguf"
    check "$name agrees with its reference" "$FERRY" tokenize -m "$TMP/$name.gguf" --verify "$dir/parity.json"
    check "$name agrees straight from its directory" "$FERRY" tokenize -m "$dir" --verify "$dir/parity.json"
done
finish
