#!/usr/bin/env bash
# The types of the KV cache: what they cost in perplexity, that any two go together, and that the phone computes the same.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

m=$TMP/tales.gguf
check "the model converts" "$FERRY" convert tests/data/tales -o "$m" -q

perplexity() { # PROGRAM K V [TEXT]
    $1 eval -m "$m" --text "${4:-tests/data/held.txt}" -ctk "$2" -ctv "$3" --json | jq -r .perplexity
}
near() { # FOUND EXPECTED [MOST]: within 0.1 %; about 0.002 % was measured
    awk -v a="$1" -v b="$2" -v most="${3:-0.001}" 'BEGIN { d = a / b - 1; exit !(a > 0 && d < most && d > -most) }'
}

f32=$(perplexity "$FERRY" f32 f32)
for pair in 'f16 f16' 'q8_0 q8_0' 'q8_0 f16' 'f16 q8_0' 'f32 q8_0'; do
    # shellcheck disable=SC2086
    check "$pair is within 0.1 % of f32" near "$(perplexity "$FERRY" $pair)" "$f32"
done
for pair in 'q4_0 q4_0' 'q8_0 q4_0' 'q4_0 f16'; do
    # shellcheck disable=SC2086
    check "$pair is within 1 % of f32" near "$(perplexity "$FERRY" $pair)" "$f32" 0.01 # 0.5 % was measured
done

head -c 1500 tests/data/held.txt >"$TMP/short.txt"
for type in q8_0 q4_0; do
    if [ -x "${FERRY_ARM##* }" ]; then
        check_equal "$type on arm64: the same perplexity" "$(perplexity "$FERRY" $type $type "$TMP/short.txt")" \
            "$(perplexity "$FERRY_ARM" $type $type "$TMP/short.txt")"
    else
        skip "$type on arm64: the same perplexity" "no ${FERRY_ARM##* }"
    fi
done
finish
