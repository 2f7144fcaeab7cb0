#!/usr/bin/env bash
# What guesses bring on this machine: rows that say how, and what bar they have (docs/measuring.md, docs/speculation.md).
#   FERRY_BENCH_ROUNDS  rounds of each row (5)
cd "$(dirname "$0")/../.." || exit 1
ferry=build/ferry
build=${BUILD:-build/host/release}
work=${FERRY_BENCH_DIR:-build/bench}
rounds=${FERRY_BENCH_ROUNDS:-5}
mkdir -p "$work"

# A tale twice, and the beginning of it again: the model goes on as it did before, with other words here and there.
tale=$(sed -n 1p tests/data/held.txt)
printf '%s\n%s\n%.120s' "$tale" "$tale" "$tale" >"$work/repeats.txt"
# Random letters, continued by chance: nothing repeats.
printf '%s' 'qz vkw jx pfu ygh wbd mxo rkt' >"$work/random.txt"
tune() { # TITLE MODEL OPTION...
    printf '\n%s\n' "$1"
    $ferry tune --spec "${@:2}" -r "$rounds" -q
}
# A trained model that costs what a large one does: the tales' sixteen times as wide, with zeros.
narrow=$work/tales-f32.gguf
[ -f "$narrow" ] || $ferry convert tests/data/tales --outtype f32 -q -o "$narrow" || exit 1
for type in q8_0 q4_0; do
    m=$work/wide-$type.gguf
    [ -f "$m" ] || "$build"/tests/bench/widen_gguf "$narrow" "$m" 16 $type || exit 1
    tune "A text with repetitions, $type: lookup at least 1.5 times" "$m" -f "$work/repeats.txt" -n 150 || exit 1
    tune "A random text, $type: auto at least 0.95 times" "$m" -f "$work/random.txt" -n 200 --temp 3 --top-k 0 --top-p 1 --min-p 0 --seed 7 || exit 1
done
for type in q8_0 q4_0; do
    m=$work/llama-$type.gguf
    [ -f "$m" ] || "$build"/tests/bench/make_gguf "$m" --arch llama --type $type || exit 1
    printf '\nThe shape of a 1B model, %s, 70 %% of the guesses right: at least 0.9 of the bound\n' $type
    $ferry bench -m "$m" -p 0 -n 64 --draft-max 0,1,3,7 --draft-accept 70 -r "$rounds" -q || exit 1
done
