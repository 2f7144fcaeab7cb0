#!/usr/bin/env bash
# A model with experts in less memory than it has weights: of every family the same ids, and no more memory than allowed.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
make_gguf=${MAKE_GGUF:-build/host/release/tests/bench/make_gguf}
prompt=$(seq -s, 3 42)

run() { "$FERRY" run --prompt-ids "$prompt" --ignore-eos --print-ids -q "$@"; }
ids() { run -n 24 "$@"; }
# The least that a file needs, in KiB, as the refusal of one byte says.
least() { run -m "$1" -n 1 --memory 1 2>&1 | sed -n 's/.*use --memory \([0-9]*\)K or more.*/\1/p'; }

# --- every family ---------------------------------------------------------------------------------------------------
n=0
for dir in tests/data/families/*/; do
    grep -q expert "$dir/config.json" || continue
    name=$(basename "$dir") f=$TMP/$(basename "$dir").gguf
    "$FERRY" convert "$dir" --outtype f32 -q -o "$f" || exit 1
    "$FERRY" inspect "$f" --json | jq -e '.metadata | any(to_entries[]; (.key | endswith(".expert_count")) and .value > 0)' >/dev/null ||
        continue
    n=$((n + 1))
    need=$(least "$f")
    check "$name says what it needs, less than the file" test "${need:-0}" -gt 0 -a "${need:-0}" -lt $(($(stat -c %s "$f") / 1024))
    check_status "$name: less is refused" 3 "and the [0-9]+ experts of a token in one layer [0-9.]+ MB, twice" \
        run -m "$f" -n 1 --memory $((need - 1))K
    want=$(ids -m "$f")
    check_equal "$name: the same ids in $need KiB" "$want" "$(ids -m "$f" --memory "${need}K")"
    check_equal "$name: on one thread, in small batches" "$want" "$(ids -m "$f" --memory "${need}K" -t 1 -b 3)"
    rm "$f"
done
check "there are families with experts" test $n -ge 8

# --- how much memory ------------------------------------------------------------------------------------------------
m=$TMP/moe.gguf
"$make_gguf" "$m" --arch smallthinker --type q8_0 --layers 4 --embd 512 --heads 8 --heads-kv 2 --head-dim 64 --vocab 2000 --ctx 512 \
    --experts 16 --experts-used 2 --ff-exp 1024 || exit 1
weights=$("$FERRY" inspect "$m" --json | jq '[.tensors[].bytes] | add')
prompt=$(seq -s, 3 162)
timing() { run -m "$m" -n 32 --json "$@" | jq ".timing"; }
timing >"$TMP/all"
timing --memory $((weights / 3)) >"$TMP/third"
# What is mapped: the program, some 10 MB, and weights; beside those that are held the system maps what it has in its cache anyhow.
mapped() { jq '.peak_memory_bytes - .anonymous_memory_bytes' "$1"; }
check "all weights are mapped ($(mapped "$TMP/all") bytes)" test "$(mapped "$TMP/all")" -gt $((weights * 8 / 10))
check "a third of them, when that is the limit ($(mapped "$TMP/third") bytes)" \
    test "$(mapped "$TMP/third")" -lt $((weights * 6 / 10))
check_equal "to the same ids" "$(ids -m "$m")" "$(ids -m "$m" --memory $((weights / 3)))"
check_equal "each token used 2 experts in 4 layers" $((31 * 8)) "$(jq '.experts_held + .experts_read' "$TMP/third")"
check "some of them were there, others were read" jq -e '.experts_held > 0 and .experts_read > 0 and .expert_bytes_read > 0' "$TMP/third"
check "without a limit nothing is counted" jq -e 'has("experts_read") | not' "$TMP/all"
check_status "it says how much of what" 0 '[0-9.]+ MB are always needed, [0-9.]+ MB hold experts, of [0-9.]+ MB' \
    "$FERRY" run -m "$m" --prompt-ids 5 -n 4 --ignore-eos --memory $((weights / 3))
check_status "and what a token read" 0 ' \| [0-9.]+ % of the experts in memory, [0-9.]+ MB read for a token \| peak memory' \
    "$FERRY" run -m "$m" --prompt-ids 5 -n 4 --ignore-eos --memory $((weights / 3))
check_status "bench says it, too" 0 '^[0-9.]+ % of the experts in memory, [0-9.]+ MB read for a token$' \
    "$FERRY" bench -m "$m" -p 0 -n 8 -r 1 --memory $((weights / 3))
check_equal "what fits is not limited" "$(ids -m "$m")" "$(ids -m "$m" --memory 1G)"

# --- what does not go together --------------------------------------------------------------------------------------
for way in --no-mmap --mlock --mlock-hot; do
    check_status "--memory with $way" 2 'leave out --mlock, --mlock-hot and --no-mmap' run -m "$m" -n 1 --memory 20M $way
done
"$FERRY" convert tests/data/tales --outtype q8_0 -q -o "$TMP/tales.gguf"
check_status "a model without experts" 3 'more than the 1.0 MB of --memory, and it has no experts' \
    run -m "$TMP/tales.gguf" -n 1 --memory 1000000
finish
