#!/usr/bin/env bash
# The vendor's own x86-64 library, where $FERRY_QNN_SDK names one: every node of every recipe is accepted, finalized, and
# the graphs of a context share their weights.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
if [ -z "${FERRY_QNN_SDK-}" ]; then
    skip "compiling with the vendor's library" "FERRY_QNN_SDK does not name a directory with one"
    finish
    exit
fi
m=$TMP/m.gguf
check "a model" "$FERRY" convert tests/data/tales --outtype f16 -q -o "$m"

# Nodes and numbers of six families in eight recipes, for three architectures.
unit=build/host/release/tests/unit/workspace/compile/test_qemit
if [ -x $unit ]; then
    check "graphs are accepted and compute what they mean" $unit "$FERRY_QNN_SDK"
else
    skip "graphs are accepted and compute what they mean" "no $unit ('make programs' builds it)"
fi

compile() { # SOC RECIPE
    local d=$TMP/$1-$2 out=$TMP/$1-$2.out
    "$FERRY" chunk "$m" --soc "$1" --recipe "$2" -c 160 --batch 32,1 -q -o "$d" &&
        "$FERRY" compile "$d" --calibration tests/data/held.txt -q -o "$out" --report "$out.json" && rm -rf "$d" "$out"
}
for soc in SM8650 SM8750; do
    for recipe in fp16 fp16a8w fp16a4w 16a8w 16a4w lpbq-32 powerserve; do
        check "$recipe for $soc" compile $soc $recipe
    done
done
for recipe in 16a8w 16a4w lpbq-32; do
    check "$recipe for SM8450, which has V69" compile SM8450 $recipe
done

# What the library computes: as the reference does, with graphs of 32 tokens and of one.
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$TMP/f32.gguf"
for batch in 32 1; do
    "$FERRY" chunk "$TMP/f32.gguf" --soc SM8650 --recipe fp16 --chunks 2 -c 160 --batch $batch -q -o "$TMP/cut-$batch"
done
head -c 330 tests/data/held.txt >"$TMP/text"
predict() { "$FERRY" eval -m "$1" --backend qnn --text "$TMP/text" -c 33 -q "${@:2}"; }
near() { # NAME MODEL BASE MOST
    local kl
    kl=$(predict "$2" --kl-base "$3" --json 2>/dev/null | jq .kl_divergence.mean)
    check "$1: KL $(printf %.2g "$kl")" awk -v k="$kl" -v m="$4" 'BEGIN { exit !(k != "" && k != "null" && k + 0 <= m + 0) }'
}
for recipe in fp16 fp16a8w 16a8w 16a4w lpbq-32 powerserve; do
    "$FERRY" compile "$TMP/cut-32" --recipe $recipe --calibration tests/data/held.txt --sdk reference -q -o "$TMP/ours"
    ranges=("$TMP/ours/qnn/ranges.json")
    [ -e "${ranges[0]}" ] && ranges=(--ranges "${ranges[0]}") || ranges=()
    for batch in 32 1; do
        check "$recipe, $batch at a time" "$FERRY" compile "$TMP/cut-$batch" --recipe $recipe "${ranges[@]}" -q -o "$TMP/real-$batch"
    done
    predict "$TMP/ours" --qnn-lib reference --kl-save "$TMP/ours.kl" >/dev/null
    predict "$TMP/real-32" --kl-save "$TMP/real.kl" >/dev/null
    near "$recipe is what the reference computes" "$TMP/real-32" "$TMP/ours.kl" 1e-4
    near "$recipe, a token at a time" "$TMP/real-1" "$TMP/real.kl" 1e-5
    said=$(predict "$TMP/real-1" --json 2>/dev/null)
    rm "$TMP"/real-1/qnn/{chunk_0,chunk_1,lm_head}.json
    check_equal "$recipe, described by the library of metadata" "$said" "$(predict "$TMP/real-1" --json 2>/dev/null)"
    rm -rf "$TMP/ours" "$TMP"/real-*
done

# The demo's tale, with graphs that keep weights of their own: what the CPU writes.
"$FERRY" chunk "$m" --soc SM8650 --recipe fp16 --chunks 2 -c 256 --batch 32,1 -q -o "$TMP/cut-tale"
tell() { "$FERRY" run -p 'Once upon a time' -n 200 --temp 0 -q "$@" 2>/dev/null; }
for recipe in fp16 fp16a8w; do
    check "$recipe in both batch sizes" "$FERRY" compile "$TMP/cut-tale" --recipe $recipe --no-sharing -q -o "$TMP/tale"
    check_equal "tells the tale of the CPU" "$(tell -m "$m" | tee "$TMP/tale.txt")" "$(tell -m "$TMP/tale" --backend qnn)"
    check "of many words" test "$(wc -w <"$TMP/tale.txt")" -gt 80
    rm -rf "$TMP/tale"
done
check "compiled for a phone" "$FERRY" compile "$TMP/cut-tale" --recipe fp16 -q -o "$TMP/tale"
check_status "does not run here" 1 'chunk_[01].bin: the graphs share their weights, and the QNN library for PCs does not load' \
    "$FERRY" run -m "$TMP/tale" --backend qnn -p Once -n 1

# Every family of the tests, in a recipe of floats.
bad='' n=0
for f in tests/data/families/*; do
    "$FERRY" convert "$f" --outtype f16 -q -o "$TMP/f.gguf" 2>/dev/null || continue
    rm -rf "$TMP/f" "$TMP/f.out"
    "$FERRY" chunk "$TMP/f.gguf" --chunks 1 -c 96 --batch 32,1 -q -o "$TMP/f" 2>/dev/null || continue
    n=$((n + 1))
    "$FERRY" compile "$TMP/f" --soc SM8650 --recipe fp16a8w -q -o "$TMP/f.out" 2>"$TMP/err" || bad+="${f##*/}: $(cat "$TMP/err")"$'\n'
done
check_equal "$n dense models of the families compile" "" "$bad"
check "which are most of them" test "$n" -ge 30
finish
