#!/usr/bin/env bash
# Conversions of a checkpoint of Llama-3.2-1B's shape as ratios to copying its shards into one file (cat and sync),
# in turns, median of FERRY_BENCH_ROUNDS (5); then what planning and a large vocabulary take. Prints a table.
#   FERRY_BENCH_CHECKPOINT   another checkpoint directory
#   FERRY_BENCH_VOCABULARY   a directory or file with a tokenizer, for the row of the vocabulary
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh
ferry=build/ferry
build=${BUILD:-build/host/release}
work=${FERRY_BENCH_DIR:-build/bench}
rounds=${FERRY_BENCH_ROUNDS:-5}
checkpoint=${FERRY_BENCH_CHECKPOINT:-$work/checkpoint-1b}
mkdir -p "$work"

seconds() { # COMMAND...
    local begin end
    begin=$(date +%s.%N)
    "$@" >/dev/null 2>"$work/convert.log"
    end=$(date +%s.%N)
    echo "$end $begin" | awk '{ print $1 - $2 }'
}
copy() { cat "$checkpoint"/*.safetensors >"$work/copy.bin" && sync "$work/copy.bin"; }
convert() { $ferry convert "$checkpoint" --outtype "$1" -o "$work/convert.gguf"; }
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
peak_mb() { sed -n 's/.*peak RssAnon \([0-9.]*\) MB.*/\1/p' "$work/convert.log"; }

[ -d "$checkpoint" ] || "$build"/tests/bench/make_checkpoint "$checkpoint" >/dev/null
cat "$checkpoint"/*.safetensors >/dev/null
echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) processors; median of $rounds, alternated with the copy"
printf '%-12s %8s %8s %7s %6s  %s\n' row seconds copy ratio bar 'peak RssAnon'

row() { # TYPE BAR
    local ours='' copies='' peak=0
    for _ in $(seq "$rounds"); do
        copies+=$(seconds copy)$'\n'
        ours+=$(seconds convert "$1")$'\n'
        peak=$(peak_mb)
    done
    awk -v name="$1" -v ours="$(median <<<"${ours%$'\n'}")" -v copy="$(median <<<"${copies%$'\n'}")" -v bar="$2" -v peak="$peak" 'BEGIN {
        printf "%-12s %8.2f %8.2f %7.2f %6.2f  %s MB %s\n", name, ours, copy, ours / copy, bar, peak, (ours > bar * copy ? "below" : "ok") }'
}
row f16 1.15
row bf16 1.15
row q8_0 0.9
row q4_0 0.6
rm -f "$work/copy.bin" "$work/convert.gguf"

value() { # NAME BAR COMMAND...
    local name=$1 bar=$2 all=''
    shift 2
    for _ in $(seq "$rounds"); do
        all+=$(seconds "$@")$'\n'
    done
    awk -v name="$name" -v v="$(median <<<"${all%$'\n'}")" -v bar="$bar" -v peak="$(peak_mb)" 'BEGIN {
        printf "%-12s %8.2f %8s %7s %6.2f  %s %s\n", name, v, "", "", bar, (peak == "" ? "" : peak " MB"), (v > bar ? "below" : "ok") }'
}
experts=$work/checkpoint-experts
[ -d "$experts" ] || "$build"/tests/bench/make_checkpoint "$experts" layers=41 dim=2048 ffn=768 heads=32 kv=4 head_dim=128 \
    vocab=151936 shards=16 sparse=1 experts=128 tied=0 >/dev/null
value plan 0.5 $ferry convert "$experts" --outtype q4_0 --dry-run
[ -z "${FERRY_BENCH_VOCABULARY-}" ] ||
    value vocabulary 0.3 $ferry convert "$FERRY_BENCH_VOCABULARY" --vocab-only -o "$work/vocabulary.gguf"
