#!/usr/bin/env bash
# `ferry chunk` of an f16 file of Llama-3.2-1B's shape (2.5 GB) against a flushed copy of the same file (cp, sync), and
# `ferry chunk --join` of the pieces, in turns, best of FERRY_BENCH_ROUNDS (3). Prints a table; the ratio is the copy's
# seconds by ours, bar 0.9.
#   FERRY_BENCH_MODEL   another GGUF file
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh
ferry=build/ferry
build=${BUILD:-build/host/release}
work=${FERRY_BENCH_DIR:-build/bench}
rounds=${FERRY_BENCH_ROUNDS:-3}
model=${FERRY_BENCH_MODEL:-$work/f16.gguf}
mkdir -p "$work"
cut=$work/chunk.dir joined=$work/chunk.joined copy=$work/chunk.copy
trap 'rm -rf "$cut" "$joined" "$copy"' EXIT

seconds() { # COMMAND...
    local begin end
    begin=$(date +%s.%N)
    "$@" >/dev/null 2>"$work/chunk.log"
    end=$(date +%s.%N)
    echo "$end $begin" | awk '{ print $1 - $2 }'
}
# Each begins without its output, and with no other writes under way.
copy() { cp "$model" "$copy" && sync "$copy"; }
chunk() { $ferry chunk "$model" --chunks 4 -o "$cut" -q; }
join() { $ferry chunk --join "$cut" -o "$joined" -q; }
least() { sort -g | head -1; }

[ -f "$model" ] || "$build"/tests/bench/make_gguf "$model" --type f16
cat "$model" >/dev/null
bytes=$(stat -c %s "$model")
echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) processors; best of $rounds, alternated with the copy, $((bytes / 1000000)) MB"
copies='' chunks='' joins=''
for _ in $(seq "$rounds"); do
    rm -rf "$copy" "$cut" "$joined"
    sync
    copies+=$(seconds copy)$'\n'
    rm -f "$copy"
    sync
    chunks+=$(seconds chunk)$'\n'
    sync
    joins+=$(seconds join)$'\n'
done
same=differ
cmp -s "$model" "$joined" && same=same
printf '%-8s %8s %8s %8s %7s %6s\n' row seconds MB/s copy ratio bar
row() { # NAME SECONDS
    awk -v name="$1" -v ours="$(least <<<"${2%$'\n'}")" -v copy="$(least <<<"${copies%$'\n'}")" -v bytes="$bytes" 'BEGIN {
        printf "%-8s %8.2f %8.0f %8.2f %7.2f %6.2f  %s\n", name, ours, bytes / 1e6 / ours, copy, copy / ours, 0.9, (copy < 0.9 * ours ? "below" : "ok") }'
}
row chunk "$chunks"
row join "$joins"
echo "the joined file has the $same bytes"
