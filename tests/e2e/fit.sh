#!/usr/bin/env bash
# `--fit`: what it gains on the weights of the demo, that it costs no perplexity, that every set of kernels and number of
# threads gives the same bytes.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

tales=tests/data/tales
convert() { "$FERRY" convert $tales -q "$@"; }
# The root mean square of the difference from the f32 file, of all matrices; and of how many.
rmse() { # FILE
    "$FERRY" compare "$TMP/f32.gguf" "$1" --json 2>/dev/null |
        jq -r '[.tensors[] | select(.rmse > 0)] | ((map(.rmse * .rmse * .elements) | add) / (map(.elements) | add) | sqrt)'
}
ppl() { "$FERRY" eval -m "$1" --text tests/data/held.txt --lines --json -q | jq .perplexity; }
at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }'; }

check "the demo as f32" convert --outtype f32 -o "$TMP/f32.gguf"
for row in q4_0:0.95 q5_0:0.95 q8_0:0.9 q4_1:0.9 q5_1:0.9; do
    type=${row%:*}
    convert --outtype "$type" -o "$TMP/$type.gguf"
    convert --outtype "$type" --fit -o "$TMP/$type-fit.gguf"
    plain=$(rmse "$TMP/$type.gguf") fit=$(rmse "$TMP/$type-fit.gguf")
    echo "# $type: RMSE $plain, with --fit $fit"
    check "$type: the error is at most ${row#*:} of the reference's" \
        at_most "$fit" "$(awk -v a="$plain" -v b="${row#*:}" 'BEGIN { print a * b }')"
done
check_equal "no other metadata, types or sizes" \
    "$("$FERRY" inspect "$TMP/q4_0.gguf" --json | jq -c '[.metadata, (.tensors | map([.name, .type, .offset]))]' | sha256sum)" \
    "$("$FERRY" inspect "$TMP/q4_0-fit.gguf" --json | jq -c '[.metadata, (.tensors | map([.name, .type, .offset]))]' | sha256sum)"
plain=$(ppl "$TMP/q4_0.gguf") fit=$(ppl "$TMP/q4_0-fit.gguf")
echo "# perplexity by line: q4_0 $plain, with --fit $fit"
check "perplexity is no worse" at_most "$fit" "$plain"

check "the scalar kernels give the same" \
    env FY_CPU_MASK=0 "$FERRY" convert $tales -q --outtype q4_0 --fit -t 1 -o "$TMP/scalar.gguf"
check "byte for byte" cmp "$TMP/scalar.gguf" "$TMP/q4_0-fit.gguf"
convert --outtype q4_K -o "$TMP/k.gguf"
convert --outtype q4_K --fit -o "$TMP/k-fit.gguf"
check "q4_K searches anyway" cmp "$TMP/k.gguf" "$TMP/k-fit.gguf"
check_status "a vocabulary has nothing to fit" 2 "fit is about tensors" \
    "$FERRY" convert $tales --vocab-only --fit -o "$TMP/no.gguf"
finish
