#!/usr/bin/env bash
# `ferry eval --text`: the perplexity that the reference implementation measured, by both of its methods.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

dir=tests/data/tales text=tests/data/held.txt
near() { # FOUND EXPECTED RATIO
    awk -v a="$1" -v b="$2" -v r="$3" 'BEGIN { d = a / b - 1; exit !(d < r && d > -r) }'
}
ppl() { "$FERRY" eval -m "$1" --text "$text" --json -q "${@:2}" | jq .perplexity; }

check "tales converts to f32" "$FERRY" convert $dir --outtype f32 -o "$TMP/f32.gguf" -q
check "and to q8_0" "$FERRY" convert $dir --outtype q8_0 -o "$TMP/q8.gguf" -q
want=$(jq .perplexity.ppl $dir/golden.json)
check "in pieces: within 1e-4 of the reference" near "$(ppl "$TMP/f32.gguf")" "$want" 1e-4
check "in lines: within 1e-4 of the reference" near "$(ppl "$TMP/f32.gguf" --lines)" \
    "$(jq .perplexity_lines.ppl $dir/golden.json)" 1e-4
check "q8_0 within 0.5 % of f32" near "$(ppl "$TMP/q8.gguf")" "$want" 0.005
check_equal "the same for any number of threads and batch size" "$(ppl "$TMP/q8.gguf" -t 2)" "$(ppl "$TMP/q8.gguf" -t 1 -b 100)"
check_equal "tokens as the reference counts them" "$(jq .perplexity.tokens $dir/golden.json)" \
    "$("$FERRY" eval -m "$TMP/q8.gguf" --text $text --json -q | jq .tokens)"
# llama-perplexity scores the second half of each piece: 255 of 512 tokens
check_equal "the second half of each piece is scored with --llama-cut" "$((19 * 255))" \
    "$("$FERRY" eval -m "$TMP/q8.gguf" --text $text --json -q --llama-cut | jq .tokens)"
check_equal "words are counted by blanks" 3 \
    "$(echo 'One day, a' | "$FERRY" eval -m "$TMP/q8.gguf" --text - --json -q --word-ppl | jq .words)"
check_status "an empty text has nothing to score" 2 "the text has no token to score" \
    "$FERRY" eval -m "$TMP/q8.gguf" --text /dev/null -q
check_status "one thing at a time" 2 "one thing to measure it by" \
    "$FERRY" eval -m "$TMP/q8.gguf" --text $text --golden $dir/golden_long.safetensors
check_status "one way to cut" 2 "two ways to cut" "$FERRY" eval -m "$TMP/q8.gguf" --text $text --lines --llama-cut
check_status "a piece has two tokens at least" 2 "ctx-size" "$FERRY" eval -m "$TMP/q8.gguf" --text $text -c 1
finish
