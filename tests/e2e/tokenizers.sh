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

for golden in tests/data/families/*/golden.json tests/data/containers/meta-llama3/golden.json; do
    dir=$(dirname "$golden")
    grep -q '"tokenizer_cases"' "$golden" && verify "$(basename "$dir")" "$dir" "$golden"
done

# Runs of spaces and of literal U+2581 are tokens of Gemma: as each of the two references has them.
G=tests/data/families/gemma3 B=tests/data/tokenizers/blanks
verify blanks $G $B/gemma3.json
verify blanks-json $G/tokenizer.json $B/gemma3.json
verify blanks-model $G/tokenizer.model $B/gemma3-model.json
# Gemma 4 has no SentencePiece model: its merges are written, and kept.
mkdir "$TMP/gemma4"
cp tests/data/families/gemma4/{config,tokenizer,tokenizer_config}.json "$TMP/gemma4"
verify gemma4 "$TMP/gemma4" $B/gemma3.json
"$FERRY" convert -q "$TMP/gemma4" --vocab-only -o "$TMP/gemma4.gguf"
check_equal "its kind of vocabulary is named" 1 "$("$FERRY" inspect "$TMP/gemma4.gguf" | grep -c 'ggml.model .*"gemma4"')"
# Ranks with the special tokens of their own code.
verify kimi tests/data/tokenizers/ranks tests/data/tokenizers/ranks/kimi.json
# "eop" is a token of ChatGLM that no file lists, and "people" does not hold it.
mkdir "$TMP/chatglm-words"
cp tests/data/families/chatglm/{config.json,tokenizer.model} "$TMP/chatglm-words"
echo '{"tokenizer_class": "ChatGLMTokenizer"}' >"$TMP/chatglm-words/tokenizer_config.json"
check_equal "words are words to chatglm" "$("$FERRY" tokenize -q -m "$TMP/chatglm-words" --no-parse-special 'people of philosophy')" \
    "$("$FERRY" tokenize -q -m "$TMP/chatglm-words" 'people of philosophy')"
check_equal "and its prompt begins as it should" "344 346 349" \
    "$("$FERRY" tokenize -q -m "$TMP/chatglm-words" '[gMASK]sop<|user|>')"

# published NAME SOURCE [REFERENCE]: SOURCE under tokenizers/; REFERENCE is beside it if not given.
published() {
    local source=$REAL/tokenizers/$2 reference=${3:-$REAL/tokenizers/$2/parity.json}
    if [ -e "$source" ]; then
        verify "$1" "$source" "$reference"
    else
        skip "$1 agrees with its reference" "$source is absent"
    fi
}

for name in gpt2 llama2 llama3_2 qwen2_5 qwen2-gpt2style qwen3 falcon gemma granite-code mistral_nemo phi3 litert-lm internlm2; do
    published $name $name
done

# One file in place of a directory.
T=$REAL/tokenizers
published tokenizer-json litert-lm/tokenizer.json "$T/litert-lm/parity.json"
published litert-lm-unigram litert-lm/sentencepiece.model "$T/litert-lm/parity-spm.json"
for name in test_model test_ja_model; do
    published $name sentencepiece-test/$name.model "$T/sentencepiece-test/parity-$name.json"
done
for name in rwkv_vocab_v20230424 rwkv_vocab_v20230424.RWKV-v5-variant b_rwkv_vocab_v20230424; do
    published $name rwkv-world/$name.txt "$T/rwkv-world/parity.json"
done

# Where the reference file is not right about the model. "ids" are as it says everywhere.
#   chatglm3     its ids_special begin with <s>, which tokenizer.json's post-processor adds and the
#                model's own class does not: without it they agree
#   deepseek_v3  its ids_special lack the BOS that tokenizer_config.json asks for: with it they agree
if [ -d "$T/chatglm3" ]; then
    sed 's/"ids_special":\[1,/"ids_special":[/; s/"ids_special":\[1\]/"ids_special":[]/' "$T/chatglm3/parity.json" >"$TMP/chatglm3.json"
    published chatglm3 chatglm3 "$TMP/chatglm3.json"
    sed 's/"ids_special":\[/"ids_special":[0,/; s/:\[0,\]/:[0]/' "$T/deepseek_v3/parity.json" >"$TMP/deepseek_v3.json"
    published deepseek_v3 deepseek_v3 "$TMP/deepseek_v3.json"
else
    skip "chatglm3 and deepseek_v3 agree with their references" "$T/chatglm3 is absent"
fi

# Without the published ones: a file alone gives the ids of its directory, and files of small vocabularies work.
D=tests/data/families/qwen2
check_equal "one tokenizer.json is as good as its directory" \
    "$("$FERRY" tokenize -m $D --no-bos 'Once upon a time, 12 foxes')" \
    "$("$FERRY" tokenize -m $D/tokenizer.json --no-bos 'Once upon a time, 12 foxes')"
printf "1 'a' 1\n2 b'ab' 2\n3 '\\\\n' 1\n" >"$TMP/world.txt"
check_equal "an RWKV vocabulary takes the longest piece" "2 1 3" "$("$FERRY" tokenize -m "$TMP/world.txt" "aba
")"
check_equal "and is named like its file" "to World-vocab.gguf" \
    "$("$FERRY" convert -q --vocab-only --dry-run "$TMP/world.txt" | grep -o 'to [^ ]*$')"

# What a tokenizer file cannot be.
check_status "one file is for --vocab-only" 2 'or --vocab-only with a tokenizer file' \
    "$FERRY" convert tests/data/containers/meta-llama3/tokenizer.model -o "$TMP/x.gguf"
check_status "ranks alone do not say how to cut words" 1 'does not define how words are cut' \
    "$FERRY" convert --vocab-only tests/data/containers/meta-llama3/tokenizer.model -o "$TMP/x.gguf"
check "and --pre does" "$FERRY" convert --vocab-only --pre llama-bpe tests/data/containers/meta-llama3/tokenizer.model \
    -o "$TMP/x.gguf"
cp tests/data/containers/meta-llama3/tokenizer.model "$TMP/in.model"
check_status "the output is not the input" 2 'is the input' "$FERRY" convert --vocab-only --pre llama-bpe "$TMP/in.model" -o "$TMP/in.model"
check "which is untouched" cmp tests/data/containers/meta-llama3/tokenizer.model "$TMP/in.model"
finish
