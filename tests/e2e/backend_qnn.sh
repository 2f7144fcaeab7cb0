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

# --- keys and values --------------------------------------------------------------------------------------------------
# Of each layer, against the whole model's: RoPE of neighbours and halves, of a part of a head, in no layer, soft caps,
# norms of keys, and the Hadamard rotation of some recipes with codes of 8 and 16 bits.
while read -r family recipe most; do
    f=$TMP/$(basename "$family").gguf
    [ -e "$f" ] || "$FERRY" convert "tests/data/$family" --outtype f32 -q -o "$f" 2>/dev/null
    "$FERRY" eval -m "$f" --text "$TMP/text" -c 32 --golden-save "$TMP/golden" -q
    rm -rf "$TMP/part"
    "$FERRY" chunk "$f" --soc SM8650 --recipe "$recipe" -c 64 --batch 16,1 -q -o "$TMP/part"
    "$FERRY" compile "$TMP/part" --sdk reference --calibration "$TMP/own.txt" -q -o "$TMP/part/npu"
    worst=$("$FERRY" eval -m "$TMP/part/npu" "${qnn[@]}" --golden "$TMP/golden" --tolerance 1 --json -q | jq '[.keys[], .values[]] | length as $n | if $n < 4 then null else map(.max_ratio) | max end')
    check "$family, $recipe: differ by $(printf %.1g "$worst"), at most $most" awk -v w="$worst" -v m="$most" 'BEGIN { exit !(w != "" && w != "null" && w > 0 && w + 0 <= m + 0) }'
done <<'END'
tales             fp16                   5e-3
families/glm      fp16                   1e-2
families/gemma2   fp16                   1e-2
families/smollm3  fp16                   1e-2
families/qwen3    fp16                   1e-2
families/hunyuan  fp16                   1e-2
tales             16a8w                  5e-2
tales             executorch-qwen2.5-0.5b 3e-1
tales             executorch-qwen3-1.7b  3e-1
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

libraries=build/host/release/qnn # with the tests' libcdsprpc.so
check_status "memory that nobody shares is said" 0 'no memory is shared with the NPU .*: each call copies [0-9.]+ MB' \
    "$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 1 -v
check_equal "with shared memory nothing is" "" "$(LD_LIBRARY_PATH=$libraries "$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 1 -v 2>&1 | grep 'no memory')"
text=$(say "$d" "${qnn[@]}")
check_equal "and the text is the same" "$text" "$(LD_LIBRARY_PATH=$libraries say "$d" "${qnn[@]}")"

echo 'graphExecute 20 ssr' >"$TMP/restart"
export FERRY_REF_FAULTS=$TMP/restart
check_equal "a restart of the NPU changes nothing" "$text" "$(LD_LIBRARY_PATH=$libraries say "$d" "${qnn[@]}" 2>"$TMP/said")"
check "and is said" grep -q 'the NPU is lost, everything on it is made anew: .*graphExecute: QNN error 1007' "$TMP/said"
echo 'graphExecute ssr' >"$TMP/restart"
check_status "a graph that does it again is named" 5 'lost twice at the same place: it is the graph, .*chunk_0.bin, graph ' \
    "$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 1
echo 'graphExecute 3 sleep 600000' >"$TMP/restart"
export FERRY_REF_COVERAGE=$TMP/coverage # has the fault as soon as it is there
"$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 9 -q >"$TMP/said" 2>&1 &
wait_for 120 test -s "$TMP/coverage"
kill $!
wait_for 120 took_signal $!
kill $!
wait $!
check_equal "the second signal ends a call that hangs" 143 $?
unset FERRY_REF_FAULTS FERRY_REF_COVERAGE

# --- memory -----------------------------------------------------------------------------------------------------------
mkfifo "$TMP/in"
"$FERRY" chat -m "$d" "${qnn[@]}" -n 4 -q <"$TMP/in" >"$TMP/answer" 2>/dev/null &
exec 3>"$TMP/in"
echo 'Once upon a time' >&3
wait_for 120 test -s "$TMP/answer"
check "a binary is mapped only while it is loaded" bash -c "grep -q libQnnRef /proc/$!/maps && ! grep '[.]bin' /proc/$!/maps"
exec 3>&-
wait

# --- presets ----------------------------------------------------------------------------------------------------------
preset() { # NAME RECIPE OPTION...
    "$FERRY" compile "$cut" --sdk reference --recipe "$2" --calibration "$TMP/own.txt" -q -o "$TMP/$1" "${@:3}"
}
check "a preset of the first token" preset bos 16a8w --preset-bos
kl=$("$FERRY" eval -m "$TMP/bos" "${qnn[@]}" --text "$TMP/text" --kl-base "$TMP/base" --json -q 2>/dev/null | jq .kl_divergence.mean)
check "costs nothing: KL $(printf %.2g "$kl")" awk -v k="$kl" 'BEGIN { exit !(k != "" && k != "null" && k + 0 <= 1e-4) }'
check_equal "a file for each layer, head, key and value" 16 "$(find "$TMP/bos/qnn/kv" -size 128c | wc -l)"
check_equal "config.json counts its tokens" '[[1],1]' "$(jq -c '[([.graphs[].kv_size] | unique), (.ferry.compiled.preset_ids | length)]' "$TMP/bos/qnn/config.json")"
check "one of floats" preset float fp16 --preset-bos
check_equal "changes nothing" "$(say "$m")" "$(say "$TMP/float" "${qnn[@]}")"
echo "You tell short tales." >"$TMP/system.txt"
check "a system prompt" preset system 16a8w --system-file "$TMP/system.txt"
talk() { "$FERRY" chat -m "$1" -n 12 --temp 0 -q --system-file "$TMP/system.txt" "${@:2}" <<<'Hello'; }
check_equal "chat says what the whole model says" "$(talk "$m")" "$(talk "$TMP/system" "${qnn[@]}")"
check_status "other texts are refused" 2 'begin with a preset of [0-9]+ tokens' "$FERRY" run -m "$TMP/system" "${qnn[@]}" -p Once -n 1
check_status "its ranges are of no other use" 2 'ranges.json: was made after a preset of 1 tokens, not of 0' \
    "$FERRY" compile "$cut" --sdk reference --recipe 16a8w -q -o "$TMP/bos"
check_status "there is one preset" 2 'exclude each other' preset two 16a8w --preset-bos --system-file "$TMP/system.txt"
truncate -s 100 "$TMP/float/qnn/kv/layer_1_key_0.raw"
check_status "its files have their size" 1 'layer_1_key_0.raw: 100 bytes, expected 128' "$FERRY" run -m "$TMP/float" "${qnn[@]}" -p Once -n 1

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
