#!/usr/bin/env bash
# The vocabularies that llama.cpp tests itself with: its .inp/.out pairs on its own GGUF files, and
# files without a pair, which load and give a text back.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

dir=$REAL/tokenizers/llama.cpp-vocab
text=$'Hello  World, it\'s 12345 \u00e9t\u00e9s\n\n\t\u4f60\u597d!'

round_trip() { # FILE.gguf
    local ids
    ids=$("$FERRY" tokenize -q -m "$1" --no-bos "$text") || return
    # shellcheck disable=SC2086
    [ "$("$FERRY" tokenize -q -m "$1" --ids $ids)" = "$text" ] || [ \
        "$("$FERRY" tokenize -q -m "$1" --ids $ids)" = " $text" ]
}

for name in deepseek-coder deepseek-llm falcon gpt-2 llama-spm mpt phi-3 refact starcoder; do
    gguf=$dir/ggml-vocab-$name.gguf
    if [ -f "$gguf" ]; then
        check "$name agrees with llama.cpp's pair" "$FERRY" tokenize -m "$gguf" --verify "$gguf.inp"
    else
        skip "$name agrees with llama.cpp's pair" "$gguf is absent"
    fi
done
# Pairs without a GGUF, on the checkpoint's own tokenizer where it is there.
for pair in llama-bpe:llama3_2 qwen2:qwen2_5 deepseek-r1-qwen:qwen2_5; do
    inp=$dir/ggml-vocab-${pair%:*}.gguf.inp from=$REAL/tokenizers/${pair#*:}
    if [ -f "$inp" ] && [ -d "$from" ]; then
        check "${pair#*:} agrees with llama.cpp's pair of ${pair%:*}" "$FERRY" tokenize -m "$from" --verify "$inp"
    else
        skip "${pair#*:} agrees with llama.cpp's pair of ${pair%:*}" "$from is absent"
    fi
done
for name in baichuan gpt-neox falcon.powerinfer; do
    gguf=$dir/ggml-vocab-$name.gguf
    if [ -f "$gguf" ]; then
        check "$name gives a text back" round_trip "$gguf"
    else
        skip "$name gives a text back" "$gguf is absent"
    fi
done
gguf=$dir/ggml-vocab-bert-bge.gguf
if [ -f "$gguf" ]; then
    check_status "WordPiece is refused by name" 1 "'bert' is not supported" "$FERRY" tokenize -m "$gguf" x
else
    skip "WordPiece is refused by name" "$gguf is absent"
fi
# A file from before tokenizer.ggml.pre: the architecture stands for it, and the answers are those of the newer file.
gguf=$dir/ggml-vocab-falcon.powerinfer.gguf
if [ -f "$gguf" ]; then
    check_status "a missing pre is reported" 0 "pre' is missing; 'falcon' is taken" "$FERRY" tokenize -m "$gguf" x
    check "it cuts as the architecture does" "$FERRY" tokenize -m "$gguf" --verify "$dir/ggml-vocab-falcon.gguf.inp"
else
    skip "a missing pre is reported" "$gguf is absent"
fi

# The pair itself: texts and lines of ids must match up.
model=tests/data/families
gguf=$(find "$model" -maxdepth 2 -name config.json | sort | head -1)
pair=$TMP/p
printf 'a\n__ggml_vocab_test__\n' >"$pair.inp"
printf ' 1 2\n 3\n' >"$pair.out"
check_status "more ids than texts are refused" 1 "1 texts, but more lines" \
    "$FERRY" tokenize -m "$(dirname "$gguf")" --verify "$pair.inp"
: >"$pair.out"
check_status "a text without ids is refused" 1 "text 0 has no line of ids" \
    "$FERRY" tokenize -m "$(dirname "$gguf")" --verify "$pair.inp"
printf ' x\n' >"$pair.out"
check_status "ids are numbers" 1 "is not a token id" "$FERRY" tokenize -m "$(dirname "$gguf")" --verify "$pair.inp"
printf ' 999999 1\n' >"$pair.out"
check_status "a difference is exit 4" 4 "1 of 1 comparisons differ" \
    "$FERRY" tokenize -m "$(dirname "$gguf")" --verify "$pair.inp"
finish
