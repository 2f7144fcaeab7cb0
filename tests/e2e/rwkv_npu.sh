#!/usr/bin/env bash
# RWKV for an NPU: the graphs of every version compute what the engine computes; compiled ones on the reference library keep their
# state from call to call, whatever the calls; and of a trained model the recipes cost no more than they may.
cd "$(dirname "$0")/../.." || exit 1
[ ! -w /dev/shm ] || [ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -lt 1000000 ] || export TMPDIR=/dev/shm
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT
qnn=(--backend qnn --qnn-lib reference)

# --- what graphs compute, in floats -----------------------------------------------------------------------------------
for dir in tests/data/rwkv/*/; do
    name=$(basename "$dir")
    rm -rf "$TMP/f"
    "$FERRY" convert "$dir" --outtype f32 -q -o "$TMP/f.gguf" 2>/dev/null
    "$FERRY" chunk "$TMP/f.gguf" --chunks 2 --batch 16,1 -q -o "$TMP/f" 2>"$TMP/err"
    worst=$(build/host/release/tests/e2e/compare_graphs "$TMP/f" fp16 39 2>&1)
    check "$name: the graphs differ from the engine by $worst of the largest logit" \
        awk -v w="$worst" 'BEGIN { exit !(w ~ /^[0-9]/ && w + 0 <= 1e-4) }'
done

# --- a trained model --------------------------------------------------------------------------------------------------
m=$TMP/m.gguf cut=$TMP/cut
check "a model" "$FERRY" convert tests/data/rwkv7 --outtype f32 -q -o "$m"
check "a plan" "$FERRY" plan "$m" --soc SM8650 --recipe 16a4w
check "its cut" "$FERRY" chunk "$m" --soc SM8650 --recipe fp16 --chunks 2 -q -o "$cut"
for seed in {1..8}; do
    for begin in 'Once upon a time' 'One day' 'The old fox'; do
        echo "$begin$("$FERRY" run -m "$m" -p "$begin" -n 200 --temp 1 --seed "$seed" -q 2>/dev/null)"
    done
done >"$TMP/own.txt"
head -c 3000 tests/data/held.txt >"$TMP/text"
perplexity() { "$FERRY" eval "$@" --text "$TMP/text" -c 256 --json -q 2>/dev/null | jq .perplexity; }
base=$(perplexity -m "$m")
while read -r recipe most; do
    check "$recipe is compiled" "$FERRY" compile "$cut" --sdk reference --recipe "$recipe" --calibration "$TMP/own.txt" -q -o "$TMP/$recipe"
    ppl=$(perplexity -m "$TMP/$recipe" "${qnn[@]}")
    [ "$recipe" != fp16 ] || floats=$ppl
    # shellcheck disable=SC2154
    ratio=$(awk -v p="$ppl" -v f="$floats" 'BEGIN { print (p > 0 && f > 0) ? p / f : "none" }')
    check "$recipe: perplexity $ppl, $ratio of fp16's ($base in f32), at most $most" \
        awk -v r="$ratio" -v m="$most" 'BEGIN { exit !(r + 0 > 0 && r + 0 <= m) }'
done <<'END'
fp16   1.00001
16a8w  1.03
16a4w  1.10
END
check "fp16 costs nothing" awk -v p="$floats" -v b="$base" 'BEGIN { exit !(p / b < 1.01 && p / b > 0.99) }'

# --- the state ----------------------------------------------------------------------------------------------------------
d=$TMP/16a8w
say() { "$FERRY" run -m "$1" -p 'Once upon a time there was a little girl who' -n 60 --temp 0 -q "${@:2}"; }
check_equal "of floats: what the whole model says" "$(say "$m")" "$(say "$TMP/fp16" "${qnn[@]}")"
check_equal "one by one is what many at once are" "$(say "$d" "${qnn[@]}")" "$(say "$d" "${qnn[@]}" -b 1)"
check_equal "in calls of any size" "$(say "$d" "${qnn[@]}")" "$(say "$d" "${qnn[@]}" -b 7)"
chat() { printf 'Hello\n/undo\nTell me a tale.\nAnd then?\n' | "$FERRY" chat -m "$1" -n 10 --temp 0 -q "${@:2}" 2>/dev/null; }
check_equal "a chat with a turn undone" "$(chat "$m")" "$(chat "$TMP/fp16" "${qnn[@]}")"
echo 'graphExecute 9 ssr' >"$TMP/restart"
check_equal "a restart of the NPU changes nothing" "$(say "$d" "${qnn[@]}")" \
    "$(FERRY_REF_FAULTS=$TMP/restart LD_LIBRARY_PATH=build/host/release/qnn say "$d" "${qnn[@]}" 2>/dev/null)"
check "a workspace" "$FERRY" create "$d" -o "$TMP/phone"
check "verify finds nothing" "$FERRY" verify "$TMP/phone"
check_equal "which runs" "$(say "$d" "${qnn[@]}")" "$("$FERRY" run -d "$TMP/phone" -p 'Once upon a time there was a little girl who' -n 60 --temp 0 -q "${qnn[@]}")"
check_status "a preset is refused" 1 'preset-bos: the model has states' "$FERRY" compile "$cut" --sdk reference --recipe fp16 --preset-bos -o "$TMP/no"
check_status "a chip without fp16 is refused by name" 3 'states of RWKV: fp16 needs HTP V73, SM8450 has V69; run it on the CPU' \
    "$FERRY" plan "$m" --soc SM8450
finish
