#!/usr/bin/env bash
# Compiled graphs on the reference library: the verbs run them, and each recipe's predictions stay near the model's, over
# 6 KB of a text; under `make soak` over all of it.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT

m=$TMP/m.gguf cut=$TMP/cut
check "a model" "$FERRY" convert tests/data/tales --outtype f32 -q -o "$m"
check "its cut" "$FERRY" chunk "$m" --soc SM8650 --recipe fp16 --chunks 2 -c 544 --batch 32,1 -q -o "$cut"
for seed in {1..8}; do
    for begin in 'Once upon a time' 'One day' 'The old fox'; do
        echo "$begin$("$FERRY" run -m "$m" -p "$begin" -n 200 --temp 1 --seed "$seed" -q)"
    done
done >"$TMP/own.txt"
compile() { "$FERRY" compile "$cut" --sdk reference --recipe "$1" --calibration "$TMP/own.txt" -q -o "$TMP/$1"; }
qnn=(--backend qnn --qnn-lib reference)

# --- what a recipe costs ----------------------------------------------------------------------------------------------
soak 6 37
# shellcheck disable=SC2154
head -c "${rounds}000" tests/data/held.txt >"$TMP/text"
check "the model's predictions" "$FERRY" eval -m "$m" --text "$TMP/text" --kl-save "$TMP/base" -q
while read -r recipe most; do
    check "$recipe is compiled" compile "$recipe"
    kl=$("$FERRY" eval -m "$TMP/$recipe" "${qnn[@]}" --text "$TMP/text" --kl-base "$TMP/base" --json -q 2>/dev/null | jq .kl_divergence.mean)
    check "$recipe: KL $(printf %.2g "$kl"), at most $most" awk -v k="$kl" -v m="$most" 'BEGIN { exit !(k != "" && k != "null" && k + 0 <= m + 0) }'
done <<'END'
fp16       1e-6
fp16a8w    3e-5
16a8w      1e-4
lpbq-32    4e-3
16a4w      4e-3
powerserve 4e-3
END

# --- the verbs --------------------------------------------------------------------------------------------------------
d=$TMP/16a8w
say() { "$FERRY" run -m "$1" -p 'Once upon a time' -n 60 --temp 0 -q "${@:2}"; }
check_equal "run says what the whole model says" "$(say "$m")" "$(say "$TMP/fp16" "${qnn[@]}")"
check_equal "with one thread, too" "$(say "$d" "${qnn[@]}")" "$(say "$d" "${qnn[@]}" -t 1)"
check_equal "the batch sizes agree" "$(say "$d" "${qnn[@]}")" "$(say "$d" "${qnn[@]}" -b 1)"
check_status "auto is qnn where the rest is compiled" 0 'backend: qnn' "$FERRY" run -m "$d" --qnn-lib reference -p Once -n 1
check_status "the line of times says it" 0 '\| qnn$' "$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 1
check_status "the cache is the graphs'" 0 'KV cache: 512 positions x 4 layers, u8/u8' "$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 1 -v
check_equal "bench" "llama compiled qnn" "$("$FERRY" bench -m "$d" "${qnn[@]}" -p 8 -n 2 -r 1 -o json | jq -r '.[0] | .model_type + " " + .backends')"
check "chat" "$FERRY" chat -m "$d" "${qnn[@]}" -n 8 -q <<<'Once upon a time'

# --- what cannot be ---------------------------------------------------------------------------------------------------
fails() { check_status "$1" "$2" "$3" "$FERRY" run -p Once -n 1 "${@:4}"; }
fails "no library" 5 'no QNN library found; name an SDK' -m "$d" --backend qnn
fails "none there" 5 "expected libQnnHtp.so there" -m "$d" --backend qnn --qnn-lib "$TMP"
fails "chunks are not compiled" 2 "cut/qnn: holds GGUF chunks: 'ferry compile' makes" -m "$cut" "${qnn[@]}"
fails "what is compiled is not for the CPU" 2 'is compiled for an NPU, and the CPU computes GGUF chunks' -m "$d" --backend chunks
fails "a whole model has no graphs" 2 'm.gguf: --backend qnn needs a model that was cut' -m "$m" "${qnn[@]}"
fails "the cache has its type" 2 'compiled for one of u8: drop -ctk' -m "$d" "${qnn[@]}" -ctk q8_0
cp -r "$d" "$TMP/bad"
cp "$TMP/fp16/qnn/chunk_1.bin" "$TMP/bad/qnn/chunk_1.bin"
fails "another binary" 4 'chunk_1.bin: has SHA-256 .* as the .json beside it says' -m "$TMP/bad" "${qnn[@]}"
finish
