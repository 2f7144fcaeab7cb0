#!/usr/bin/env bash
# --backend chunks: a model that was cut computes what it computes whole, graph after graph.
cd "$(dirname "$0")/../.." || exit 1
[ ! -w /dev/shm ] || [ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -lt 1000000 ] || export TMPDIR=/dev/shm
# shellcheck source=tests/lib.sh
. tests/lib.sh

prompt=$(seq -s, 3 42)
run() { # PROGRAM MODEL LOGITS OPTIONS...: logits of the prompt, and greedy ids
    local program=$1 model=$2 logits=$3
    shift 3
    $program run -m "$model" --prompt-ids "$prompt" --logits-out "$logits" --print-ids -n 12 --ignore-eos -t 1 "$@" 2>"$TMP/err"
}

# --- every dense family, of every type, in one piece, two, and one a layer --------------------------------------------
types=(f32 f16 q8_0 q4_0)
graphs=("-c 192 --batch 128,1" "-c 96 --batch 32" "-c 72 --batch 8,4,1")
compare() { # DIRECTORY TYPE CHUNKS GRAPHS: what differs
    local m=$TMP/m.gguf d=$TMP/cut want got
    rm -rf "$d"
    "$FERRY" convert "$1" --outtype "$2" -q -o "$m" 2>/dev/null || echo "$1 $2: not converted"
    # shellcheck disable=SC2086
    "$FERRY" chunk "$m" --chunks "$3" $4 -q -o "$d" 2>&1 || echo "$1 $2: not cut"
    want=$(run "$FERRY" "$m" "$TMP/want.f32" -c 64)
    got=$(run "$FERRY" "$d" "$TMP/got.f32" -c 64)
    [ "$(wc -w <<<"$want")" = 12 ] && [ "$want" = "$got" ] || echo "$1 $2, $3 chunks, $4: ids '$want' and '$got' $(cat "$TMP/err")"
    cmp "$TMP/want.f32" "$TMP/got.f32" 2>&1 || echo "$1 $2, $3 chunks, $4: logits differ"
}
n=0 bad=
for f in tests/data/families/*; do
    jq -e '[.. | objects | (.num_experts, .num_local_experts, .moe_num_primary_experts, .conv_L_cache, .mamba_d_conv, .conv_kernel, .hidden_size_per_layer_input, .kv_lora_rank, .linear_conv_kernel_dim) // 0] | max > 0' "$f/config.json" >/dev/null && continue
    layers=$(jq '[.. | objects | .num_hidden_layers, .n_layer, .num_layers | numbers] | first' "$f/config.json")
    for t in 0 1 2 3; do
        chunks=(1 2 "$layers")
        bad+=$(compare "$f" "${types[t]}" "${chunks[(n + t) % 3]}" "${graphs[(n / 3 + t) % 3]}")
    done
    n=$((n + 1))
done
check_equal "$n dense families: the logits are the same bits, the greedy ids the same" "" "$bad"

# --- one model, more closely ------------------------------------------------------------------------------------------
m=$TMP/tales.gguf d=$TMP/tales
check "tales converts" "$FERRY" convert tests/data/tales --outtype q8_0 -q -o "$m"
check "and is cut" "$FERRY" chunk "$m" --chunks 2 -c 256 --batch 32,1 -q -o "$d"
text="Once upon a time there was a brave little girl named Mia who lived near the castle"
want=$("$FERRY" run -m "$m" -p "$text" -n 60 2>/dev/null)
check_equal "the same tale" "$want" "$("$FERRY" run -m "$d" -p "$text" -n 60 2>/dev/null)"
check_equal "with an f32 cache" "$("$FERRY" run -m "$m" -p "$text" -n 60 -ctk f32 -ctv f32 2>/dev/null)" \
    "$("$FERRY" run -m "$d" -p "$text" -n 60 -ctk f32 -ctv f32 2>/dev/null)"
check_equal "with smaller calls" "$want" "$("$FERRY" run -m "$d" -p "$text" -n 60 -b 7 2>/dev/null)"
check_equal "the chunks in memory of their own" "$want" "$("$FERRY" run -m "$d" -p "$text" -n 60 --no-mmap 2>/dev/null)"
run "$FERRY" "$m" "$TMP/want.f32" >"$TMP/want"
run "$FERRY_ARM" "$d" "$TMP/got.f32" >"$TMP/got"
check_equal "arm64: the same ids" "$(cat "$TMP/want")" "$(cat "$TMP/got")"
run "$FERRY_ARM" "$m" "$TMP/want.f32" >"$TMP/want"
check "arm64: the same bits as the whole model" cmp "$TMP/want.f32" "$TMP/got.f32"
check_equal "the measure of a text is the same" "$("$FERRY" eval -m "$m" --text tests/data/held.txt -c 128 -q 2>/dev/null | grep -v gguf)" \
    "$("$FERRY" eval -m "$d" --text tests/data/held.txt -c 128 -q 2>/dev/null | grep -v gguf)"
check "bench says what computed" bash -c "$FERRY bench -m $d -p 16 -n 4 -r 1 -o jsonl -q | jq -e '.backends == \"chunks\" and .model_n_params > 1000000'"
"$FERRY" bench -m "$m" -p 0 -n 1 -r 1 -o jsonl -q | jq .model_type >"$TMP/want"
check_equal "and of which model" "$(cat "$TMP/want")" "$("$FERRY" bench -m "$d" -p 0 -n 1 -r 1 -o jsonl -q | jq .model_type)"
check_equal "and how long each chunk took, and the rest" '["chunk_0","chunk_1","lm_head"],true' \
    "$("$FERRY" bench -m "$d" -p 16 -n 0 -r 2 -o json -q |
        jq -c '.[0] | [.chunks[].name], (([.chunks[] | .calls * .avg_ns] | add) + .host_ns) / .avg_ns > 0.99' | paste -sd,)"

# --- it is never silent about it ----------------------------------------------------------------------------------------
check_status "what computes is said" 0 'backend: chunks \(.*/ggml/weights.gguf holds the embedding alone\)' "$FERRY" run -m "$d" -p Once -n 1
check_status "and in the line of times" 0 'MB\) \| chunks$' "$FERRY" run -m "$d" -p Once -n 1 --backend chunks
check_status "of a whole model, too" 0 'MB\) \| cpu$' "$FERRY" run -m "$m" -p Once -n 1
check_equal "and in JSON" '"chunks"' "$("$FERRY" run -m "$d" -p Once -n 1 --json 2>/dev/null | jq .timing.backend)"

# --- what does not go -----------------------------------------------------------------------------------------------------
fails() { check_status "$1" "$2" "$3" "$FERRY" run -p Once -n 2 "${@:4}"; }
fails "the whole model is asked for" 2 'weights.gguf: holds the embedding alone.*--backend chunks or qnn, or the whole model' -m "$d" --backend cpu
fails "a whole model has no chunks" 2 'tales.gguf: --backend chunks needs a model that was cut' -m "$m" --backend chunks
fails "a chunk is not a model" 2 'chunk_0.gguf: is a chunk of a model that was cut: layers 0-1; run the directory' -m "$d/qnn/chunk_0.gguf"
fails "nor is the embedding" 2 'is a chunk of a model that was cut: embedding' -m "$d/ggml/weights.gguf"
fails "a directory that is none" 2 "qnn: is a directory, expected a GGUF file, or the directory of a model that was cut" -m "$d/qnn"
fails "more context than the graphs have" 3 'context of 225 positions, but the graphs have 224 \(cache_size; context_size is 256\); use -c 224 or less, or chunk' -m "$d" -c 225
fails "a cache of 8 bits" 2 'KV cache of types q8_0 and q8_0: that of the graphs is f16, or f32' -m "$d" -ctk q8_0 -ctv q8_0
check_status "the prompt fills the context" 3 'the context is full: 224 positions, 0 in use, 240 more asked for; the graphs have no more \(cache_size 224, context_size 256\): chunk the model again with a larger -c' \
    "$FERRY" run -m "$d" --prompt-ids "$(seq -s, 1 240)" -n 1
check_equal "a prompt up to the last position" context \
    "$("$FERRY" run -m "$d" --prompt-ids "$(seq -s, 1 223)" -n 5 --ignore-eos --json 2>/dev/null | jq -r .stop)"
check_status "an answer that fills it says what to do" 3 'full after 2 of 5 tokens: 224 positions, and the graphs have no more: chunk the model again with a larger -c' \
    "$FERRY" run -m "$d" --prompt-ids "$(seq -s, 1 223)" -n 5 --ignore-eos
check_status "compare wants it joined" 2 "is a model that was cut; 'ferry chunk --join' makes one file of it" "$FERRY" compare -q "$m" "$d"
check_status "no imatrix is collected" 1 'do not show what their matrices are multiplied with: use the whole model' "$FERRY" eval -m "$d" --text tests/data/held.txt -c 128 --imatrix-out "$TMP/i.gguf"
sed 's/chunk_1.gguf/chunk_1.bin/' "$d/qnn/config.json" >"$TMP/config.json"
cp "$d/qnn/config.json" "$TMP/kept.json"
cp "$TMP/config.json" "$d/qnn/config.json"
fails "graphs are compiled, or none is" 1 'config.json: [0-9]+ of its [0-9]+ graphs are GGUF chunks and the others compiled' -m "$d"
cp "$TMP/kept.json" "$d/qnn/config.json"
"$FERRY" convert tests/data/tales --outtype q4_0 -q -o "$TMP/other.gguf"
"$FERRY" chunk "$TMP/other.gguf" --chunks 2 -c 256 --batch 32,1 -q -o "$TMP/other"
cp "$TMP/other/qnn/chunk_1.gguf" "$d/qnn/chunk_1.gguf"
fails "a chunk of another model" 1 'chunk_1.gguf: is a chunk of model [0-9a-f]*\.\.\., expected' -m "$d"
cp "$TMP/other/qnn/chunk_0.gguf" "$TMP/other/qnn/chunk_1.gguf"
fails "the wrong chunk" 1 'chunk_1.gguf: holds layers 0-1, expected layers 2-3' -m "$TMP/other"
rm "$TMP/other/qnn/chunk_1.gguf"
fails "a chunk that is missing" 1 'chunk_1.gguf: cannot open' -m "$TMP/other"
finish
