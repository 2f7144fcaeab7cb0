#!/usr/bin/env bash
# Speed, as ratios inside one run: kernels against the scalar specification, and the engine on a model of 1B shape.
#   FERRY_BENCH_MODEL=DIR  a checkpoint directory to measure (default: one of Llama-3.2-1B's shape is made, 2.5 GB)
#   FERRY_PEER=DIR         a directory with bench.mjs and llama.cpp's node package (docs/measuring.md): measured on the
#                          same files, alternated with ferry; the best of three of each counts
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh

prompt=256 generate=64 threads=2 rounds=3
ferry=build/ferry
work=${FERRY_BENCH_DIR:-build/bench}
mkdir -p "$work"

lscpu | sed -n 's/^Model name: */cpu: /p'
build/host/release/tests/kcheck/kcheck --bench
make -s build/host/release/tests/bench/sample_bench
build/host/release/tests/bench/sample_bench

model=${FERRY_BENCH_MODEL:-$work/checkpoint}
if [ ! -d "$model" ]; then
    make -s build/host/release/tests/bench/make_checkpoint
    build/host/release/tests/bench/make_checkpoint "$model"
fi
ids=$(seq -s, 100 $((99 + prompt)))

peer() { # FILE -> "prefill decode", best of its repetitions
    node "$FERRY_PEER/bench.mjs" "$1" $prompt $generate 1 $threads | jq -r '"\(.pp_tok_s) \(.tg_tok_s)"'
}
ours() { # FILE
    $ferry run -m "$1" --prompt-ids "$ids" -n $generate --ignore-eos --print-ids -t $threads -c $((prompt + generate + 32)) \
        2>&1 >/dev/null | sed -nE 's/.*prompt [0-9]+ tokens ([0-9.]+) tok.*generated [0-9]+ tokens ([0-9.]+) tok.*/\1 \2/p'
}
best() { sort -k"$1,$1" -n -r | head -1 | cut -d' ' -f"$1"; }

printf '%-6s %10s %10s %12s %10s %10s %12s\n' type prefill peer ratio decode peer ratio
for type in q4_0 q8_0 f16; do
    file=$work/$type.gguf
    [ -f "$file" ] || $ferry convert "$model" --outtype $type -o "$file" -q
    a='' b=''
    for _ in $(seq $rounds); do
        a+=$(ours "$file")$'\n'
        [ -z "${FERRY_PEER-}" ] || b+=$(peer "$file")$'\n'
    done
    pp=$(best 1 <<<"$a") tg=$(best 2 <<<"$a")
    if [ -n "$b" ]; then
        ppp=$(best 1 <<<"$b") ptg=$(best 2 <<<"$b")
    else
        ppp=- ptg=-
    fi
    awk -v t=$type -v a="$pp" -v b="$ppp" -v c="$tg" -v d="$ptg" '
        function ratio(x, y) { return y + 0 > 0 ? sprintf("%.2f", x / y) : "-" }
        BEGIN { printf "%-6s %10s %10s %12s %10s %10s %12s\n", t, a, b, ratio(a, b), c, d, ratio(c, d) }'
done
