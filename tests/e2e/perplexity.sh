#!/usr/bin/env bash
# `ferry eval --text`: the perplexities that the reference implementation measured of every model of the demo, by both of
# its methods, and what 8-bit weights make of them.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

text=tests/data/held.txt
near() { # FOUND EXPECTED RATIO
    awk -v a="$1" -v b="$2" -v r="$3" 'BEGIN { d = a / b - 1; exit !(d < r && d > -r) }'
}
ppl() { "$FERRY" eval -m "$1" --text "$text" --json -q "${@:2}" | jq .perplexity; }

reference() { # MODEL DIR
    local f=$TMP/$1-f32.gguf q=$TMP/$1-q8.gguf want want_lines
    check "$1 converts to f32" "$FERRY" convert "$2" --outtype f32 -o "$f" -q
    check "$1 converts to q8_0" "$FERRY" convert "$2" --outtype q8_0 -o "$q" -q
    want=$(jq .perplexity.ppl "$2/golden.json")
    want_lines=$(jq .perplexity_lines.ppl "$2/golden.json")
    check "$1 in pieces: within 1e-4 of the reference" near "$(ppl "$f")" "$want" 1e-4
    check "$1 in lines: within 1e-4 of the reference" near "$(ppl "$f" --lines)" "$want_lines" 1e-4
    check "$1 in pieces: q8_0 within 0.5 % of f32" near "$(ppl "$q")" "$want" 0.005
    check "$1 in lines: q8_0 within 0.5 % of f32" near "$(ppl "$q" --lines)" "$want_lines" 0.005
}

reference tales tests/data/tales
reference draft tests/data/draft
reference relu tests/data/relu

dir=tests/data/tales q8=$TMP/tales-q8.gguf
want=$(jq .perplexity.ppl $dir/golden.json)
for type in q4_K q6_K; do
    check "$type by ggml's encoder within 0.5 % of f32" near "$(ppl tests/data/quantized/tales-$type.gguf)" "$want" 0.005
done
check_equal "the same for any number of threads and batch size" "$(ppl "$q8" -t 2)" "$(ppl "$q8" -t 1 -b 100)"
check_equal "tokens as the reference counts them" "$(jq .perplexity.tokens $dir/golden.json)" \
    "$("$FERRY" eval -m "$q8" --text $text --json -q | jq .tokens)"
# llama-perplexity scores the second half of each piece: 255 of 512 tokens. Its result for the f32 file is
# tests/peer/perplexity_cut.py's.
out=$("$FERRY" eval -m "$TMP/tales-f32.gguf" --text $text --json -q --llama-cut)
check_equal "the second half of each piece is scored with --llama-cut" "$((19 * 255))" "$(jq .tokens <<<"$out")"
check "and is what llama.cpp makes of it" near "$(jq .perplexity <<<"$out")" 1.651613 1e-6
check_equal "words are counted by blanks" 3 \
    "$(echo 'One day, a' | "$FERRY" eval -m "$q8" --text - --json -q --word-ppl | jq .words)"
check_status "an empty text has nothing to score" 2 "the text has no token to score" \
    "$FERRY" eval -m "$q8" --text /dev/null -q
check_status "one thing at a time" 2 "expected a model and one measure" \
    "$FERRY" eval -m "$q8" --text $text --golden $dir/golden_long.safetensors
check_status "one way to cut" 2 "--lines and --llama-cut exclude each other" "$FERRY" eval -m "$q8" --text $text --lines --llama-cut
check_status "a piece has two tokens at least" 2 "ctx-size" "$FERRY" eval -m "$q8" --text $text -c 1
finish
