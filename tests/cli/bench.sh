#!/usr/bin/env bash
# `ferry bench`: which rows it makes, and in which form. How fast anything is, is not looked at.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

m=$TMP/tales.gguf
check "there is a model" "$FERRY" convert tests/data/tales --outtype q8_0 -o "$m" -q
bench() {
    "$FERRY" bench -m "$m" -r 2 -t 1 -q "$@"
}

# --- which tests -----------------------------------------------------------------------------------------------------
check_equal "the defaults are a prompt and an answer" "512 0 0,0 128 0" \
    "$(bench -r 1 -o jsonl | jq -r '"\(.n_prompt) \(.n_gen) \(.n_depth)"' | paste -sd,)"
bench -p 4,8 -n 2-4+2 -n 1 -pg 4,2 -d 0,16 -b 4 -ctk f16,f32 -o jsonl >"$TMP/rows"
check_equal "every combination is measured, in llama-bench's order" \
    "4 0 0,8 0 0,0 2 0,0 4 0,0 1 0,4 2 0,4 0 16,8 0 16,0 2 16,0 4 16,0 1 16,4 2 16" \
    "$(jq -r '"\(.n_prompt) \(.n_gen) \(.n_depth)"' "$TMP/rows" | head -12 | paste -sd,)"
check_equal "with each type of the cache" "12 f16,12 f32" \
    "$(jq -r .type_k "$TMP/rows" | uniq -c | sed 's/^ *//' | paste -sd,)"
check_equal "and the batch size that was asked for" "4 4" \
    "$(jq -r '"\(.n_batch) \(.n_ubatch)"' "$TMP/rows" | sort -u)"
check_equal "threads may be a list" "1 2 4" \
    "$("$FERRY" bench -m "$m" -p 2 -n 0 -r 1 -t '1-4*2' -o jsonl | jq .n_threads | xargs)"
check_equal "an option may come from the environment" 3 "$(FERRY_N_PROMPT=3 bench -n 0 -o jsonl | jq .n_prompt)"

# --- forms -----------------------------------------------------------------------------------------------------------
columns='build_commit,build_number,cpu_info,gpu_info,backends,model_filename,model_type,model_size,model_n_params,n_batch'
columns+=',n_ubatch,n_threads,type_k,type_v,use_mmap,n_prompt,n_gen,n_depth,n_draft,draft_accept,test_time,avg_ns,stddev_ns,avg_ts,stddev_ts'
columns+=',bytes_per_token,bandwidth_share,draft_step_ns,draft_bound_ts'
bench -p 4 -n 2 -o json >"$TMP/json"
check "JSON is one array" jq -es 'length == 1 and (.[0] | type == "array" and length == 2)' "$TMP/json"
check_equal "with llama-bench's names" "$columns,samples_ns,samples_ts" "$(jq -r '.[0] | keys_unsorted | join(",")' "$TMP/json")"
check "numbers are numbers, and as many samples as repetitions" jq -e 'all(.[]; (.avg_ns, .avg_ts, .stddev_ts, .model_size
    | type == "number") and .use_mmap == true and (.samples_ns | length == 2) and (.samples_ts | length == 2))' "$TMP/json"
# shellcheck disable=SC2016
check "the mean is that of the samples" jq -e \
    'all(.[]; (.samples_ts | add / length) as $mean | .avg_ts / $mean | . > 0.9999 and . < 1.0001)' "$TMP/json"
# shellcheck disable=SC2016
check "and the deviation theirs" jq -e 'all(.[]; (.samples_ts | (.[0] - .[1]) * (.[0] - .[1]) / 2 | sqrt) as $d
    | .stddev_ts - $d | . < 0.001 and . > -0.001)' "$TMP/json"
check "only decoding has bytes and a share" jq -e '.[0].bytes_per_token == null and .[0].bandwidth_share == null and
    .[1].bytes_per_token > 0 and .[1].bandwidth_share > 0' "$TMP/json"
# every weight is read once (the output is the embedding), and 1.5 rows of 4 layers, 2 heads of 32 keys and values, f16
tensors=$("$FERRY" inspect "$m" --json 2>/dev/null | jq '[.tensors[].bytes] | add')
rows=$(jq '.num_hidden_layers * .num_key_value_heads * (.head_dim // .hidden_size / .num_attention_heads) * 2 * 2' tests/data/tales/config.json)
check_equal "bytes are those of the weights and of the cache" "$((tensors + rows * 3 / 2))" "$(jq '.[1].bytes_per_token' "$TMP/json")"
check_equal "the model is described" "llama 2M Q8_0 $tensors" "$(jq -r '.[0] | "\(.model_type) \(.model_size)"' "$TMP/json")"
check "the time is one of RFC 3339" jq -e '.[0].test_time | fromdateiso8601 > 0' "$TMP/json"
check_equal "lines of JSON have the same members" "$columns,samples_ns,samples_ts" \
    "$(bench -p 4 -n 0 -o jsonl | jq -r 'keys_unsorted | join(",")')"

bench -p 4 -n 2 -o csv >"$TMP/csv"
check_equal "CSV has the names" "$columns" "$(head -1 "$TMP/csv")"
check_equal "and a row for each test, every value quoted" "2 29" \
    "$(sed 1d "$TMP/csv" | awk -F'","' '{ n = NF } END { print NR, n }')"

bench -p 4 -n 2 -pg 4,2 -d 0,8 >"$TMP/md"
check_equal "Markdown has llama-bench's columns and two of ours" \
    "| model | size | params | backend | threads | test | t/s | bytes/token | bandwidth |" "$(head -1 "$TMP/md" | tr -s ' ')"
check_equal "and names of tests" "pp4,tg2,pp4+tg2,pp4 @ d8,tg2 @ d8,pp4+tg2 @ d8" \
    "$(awk -F'|' 'NR > 2 { gsub(/^ +| +$/, "", $7); print $7 }' "$TMP/md" | paste -sd,)"
check_equal "every row is as wide as the head" 1 "$(sed 's/±/+/' "$TMP/md" | awk '{ print length }' | sort -u | wc -l)"
check_equal "what differs from the default has a column" "| model | size | params | backend | threads | n_batch | type_v | test | t/s |" \
    "$(bench -p 4 -n 0 -b 2 -ctv f32 | sed -n 1p | tr -s ' ')"
check_equal "the rate of memory is said once for each number of threads" "1 thread,2 threads" \
    "$("$FERRY" bench -m "$m" -p 0 -n 1,2 -t 1,2 -r 1 2>&1 >/dev/null | sed -n 's/^memory is read at [0-9.]* GB.s by //p' | paste -sd,)"

# --- sustained -------------------------------------------------------------------------------------------------------
bench -n 4 --sustained 1s -o json >"$TMP/json"
check "a sustained run is one object" jq -e '.n_gen == 4 and (.intervals | length == 1) and .first_to_last == 1' "$TMP/json"
check "its intervals have tokens, a clock and a temperature" jq -e '.intervals[0] | .n_tokens > 0 and .avg_ts > 0 and
    .end_s >= 1 and has("clock_mhz") and has("temperature_c")' "$TMP/json"
bench --sustained 1s >"$TMP/md"
check_equal "as a table" "| model | threads | test | seconds | t/s | MHz | °C |" "$(head -1 "$TMP/md" | tr -s ' ')"
check "which ends with the first compared with the last" grep -qE \
    '^first interval : last interval = [0-9.]+ : [0-9.]+ = 1\.000$' "$TMP/md"

# --- guesses -------------------------------------------------------------------------------------------------------
check_equal "guesses vary decoding alone" "8 0 0,0 4 0,0 4 3,0 4 7" \
    "$("$FERRY" bench -m "$m" -p 8 -n 4 -r 1 --draft-max 0,3,7 -o jsonl -q | jq -r '"\(.n_prompt) \(.n_gen) \(.n_draft)"' | paste -sd,)"
check "and are in the name of the test" grep -q 'tg4 +3 (100 %)' <<<"$("$FERRY" bench -m "$m" -p 0 -n 4 -r 1 --draft-max 3 --draft-accept 100 -q)"
"$FERRY" bench -m "$m" -p 0 -n 32 -r 2 --draft-max 0,3 --draft-accept 50 -o jsonl -q >"$TMP/guesses"
check "with the cost of a step and the bound that it sets" jq -es '.[0].draft_bound_ts == null and .[0].draft_step_ns == null and
    (.[1] | .draft_bound_ts * .draft_step_ns / 1e9 - 1.875 | . < 0.001 and . > -0.001)' "$TMP/guesses"
check_equal "and without guesses no such column" "" "$(bench -p 0 -n 2 | grep bound)"
check "which a table shows" grep -q '| *step ms | bound t/s | of bound |' <<<"$("$FERRY" bench -m "$m" -p 0 -n 8 -r 1 --draft-max 3 -q)"
check_status "more than a step holds" 2 "draft-max: 500 is out of range" "$FERRY" bench -m "$m" --draft-max 500

# --- what cannot be measured -----------------------------------------------------------------------------------------
check_status "no model" 2 "no model: give a GGUF file or a workspace" "$FERRY" bench
check_status "a form that is none" 2 "'jsno' is not one of md\|csv\|json\|jsonl; did you mean json" bench -o jsno
check_status "not a list" 2 "--n-prompt: '1,x' is not a list of numbers; expected" bench -p 1,x
check_status "a range without an end" 2 "range 1-4\*1 never advances" bench -p '1-4*1'
check_status "not a type" 2 "--cache-type-k: 'f17' is not a list of types" bench -ctk f17
check_status "a type that no cache has" 2 "KV cache of type i32" bench -ctk i32
check_status "too many threads" 2 "--threads: 1000 is out of range, expected 1 to 256" bench -t 1000
check_status "nothing at all" 2 "nothing to measure" bench -p 0 -n 0
check_status "more than the model knows" 3 "^ferry bench: pp512 @ d1000 takes 1512 positions, but the model was trained with 1024; use a smaller -p, -n or -d$" \
    bench -d 1000
check_equal "before anything is measured" "" "$(bench -p 4,2000 2>/dev/null)"
check_status "not a time" 2 "--sustained: '10x' is not a time" bench --sustained 10x
check_status "a sustained prompt" 2 "decodes only: leave out -p and -pg" bench --sustained 1s -p 4
check_status "several sustained runs" 2 "one test, but the lists make 3: give one value each" bench --sustained 1s -t 2,4
check_status "a file that is not a model" 1 "config.json" bench -m tests/data/tales/config.json
check_status "a directory that is not a workspace" 2 "tests/data/tales" "$FERRY" bench -m tests/data/tales
# Both streams into one file, as a terminal shows them.
"$FERRY" bench -m "$m" -p 4 -n 2,3 -r 1 -t 1,2 >"$TMP/both" 2>&1
check_equal "no message stands inside the Markdown table" "" \
    "$(awk '/^\|/ { seen = 1; if (other) print other; next } seen { other = $0 }' "$TMP/both")"
check_equal "the speed of memory is said once for each number of threads" 2 "$(grep -c 'memory is read at' "$TMP/both")"
"$FERRY" chunk "$m" --soc SM8650 -o "$TMP/cut" -q
"$FERRY" bench -m "$TMP/cut" -p 4 -n 2 -r 1 -t 1 >"$TMP/both" 2>&1
check_equal "nor of a cut model" "" \
    "$(awk '/^\|/ { seen = 1; if (other) print other; next } seen { other = $0 }' "$TMP/both")"
check "whose chunks are said after it" grep -q '^tg2: ' "$TMP/both"
finish
