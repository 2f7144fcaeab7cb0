#!/usr/bin/env bash
# A tokenizer.json whose way to cut words is not known: what is reported, and what --pre does about it.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

from=tests/data/families/gpt2
# change NAME JQ: a checkpoint's tokenizer with another tokenizer.json, in $TMP/NAME
change() {
    mkdir -p "$TMP/$1"
    cp $from/config.json $from/tokenizer_config.json "$TMP/$1"
    jq -c "$2" $from/tokenizer.json >"$TMP/$1/tokenizer.json"
}
split() { # PATTERN: a Split and ByteLevel
    jq -nc --arg p "$1" '{type: "Sequence", pretokenizers: [{type: "Split", pattern: {Regex: $p}, behavior: "Isolated",
        invert: false}, {type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false}]}'
}

change same .
check "the tokenizer as it is converts" "$FERRY" convert "$TMP/same" --vocab-only -o "$TMP/same.gguf"

change digits '.pre_tokenizer = {type: "Sequence", pretokenizers: [{type: "Digits", individual_digits: false}, .pre_tokenizer]}'
check_status "an unknown structure is printed flat" 1 \
    'normalizer: none; pre_tokenizer: Digits\(individual_digits=false\) \+ ByteLevel\(' \
    "$FERRY" convert "$TMP/digits" --vocab-only -o "$TMP/x.gguf"
check_status "with the nearest type and the first difference" 1 \
    'nearest is gpt-2, then [a-z0-9-]*: " 12345" -> " " "12345" instead of " 12345"; --pre gpt-2 forces it' \
    "$FERRY" convert "$TMP/digits" --vocab-only -o "$TMP/x.gguf"
check "no file is left" test ! -e "$TMP/x.gguf" -a ! -e "$TMP/x.gguf.part"
check "--pre forces a type" "$FERRY" convert "$TMP/digits" --vocab-only --pre gpt-2 -o "$TMP/forced.gguf"
check_equal "and it is the one that is written" \
    "$("$FERRY" tokenize -m "$TMP/same.gguf" 'it is 12345')" "$("$FERRY" tokenize -m "$TMP/forced.gguf" 'it is 12345')"
check_status "a type that ferry does not know is written with a warning" 0 "does not know the pre-tokenizer 'martian'" \
    "$FERRY" convert "$TMP/digits" --vocab-only --pre martian -o "$TMP/martian.gguf"
check_status "a misspelled type gets the nearest name" 0 "nearest name is gpt-2" \
    "$FERRY" convert "$TMP/digits" --vocab-only --pre gpt2 -o "$TMP/martian2.gguf"
check_status "and refused where it is read" 1 "'martian' is not supported" "$FERRY" tokenize -m "$TMP/martian.gguf" x

change lower '.normalizer = {type: "Lowercase"}'
check_status "a normalizer is named as the reason" 1 'known normalizers are none, NFC' \
    "$FERRY" convert "$TMP/lower" --vocab-only -o "$TMP/x.gguf"
change bert '.pre_tokenizer = {type: "BertPreTokenizer"}'
check_status "a step that cannot be tried is said" 1 'cannot be tried \(a step BertPreTokenizer\); known: gpt-2, ' \
    "$FERRY" convert "$TMP/bert" --vocab-only -o "$TMP/x.gguf"

# Expressions of a file are somebody else's: they must neither crash nor hang.
# shellcheck disable=SC2016
change work ".pre_tokenizer = $(split '(.*)*$(?<!x)(x+x+)+y')"
check_status "an expression that never ends gives up" 1 'takes too much work' timeout 300 \
    "$FERRY" convert "$TMP/work" --vocab-only -o "$TMP/x.gguf"
change size ".pre_tokenizer = $(split '(((a{1,999}){1,999}){1,999}){1,999}')"
check_status "a huge one is refused" 1 'too large' "$FERRY" convert "$TMP/size" --vocab-only -o "$TMP/x.gguf"
change deep ".pre_tokenizer = $(split "$(printf '(%.0s' {1..500})")"
check_status "a deep one is refused" 1 'cannot be tried' "$FERRY" convert "$TMP/deep" --vocab-only -o "$TMP/x.gguf"
change empty ".pre_tokenizer = $(split '(?=.)')"
check_status "one that matches nothing ends" 1 'nearest is' "$FERRY" convert "$TMP/empty" --vocab-only -o "$TMP/x.gguf"

# What the model says about whole words outlives a type that means otherwise.
change whole '.model.ignore_merges = true'
check "ignore_merges converts" "$FERRY" convert "$TMP/whole" --vocab-only -o "$TMP/whole.gguf"
check_equal "ignore_merges is kept where the type does not imply it" 1 \
    "$("$FERRY" inspect "$TMP/whole.gguf" | grep -c 'ferry.ignore_merges *bool *true')"
check_equal "and not written where it does" 0 "$("$FERRY" inspect "$TMP/same.gguf" | grep -c 'ferry.ignore_merges')"
finish
