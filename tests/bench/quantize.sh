#!/usr/bin/env bash
# `ferry quantize` of an f16 file of Llama-3.2-1B's shape, output flushed, on all threads: seconds, and with FERRY_PEER=DIR
# (docs/measuring.md) those of llama.cpp's llama_model_quantize on the same file, in turns, best of FERRY_BENCH_ROUNDS (3),
# and whether both wrote the same tensors. Then the encoders alone on one thread, in bytes of f32 input. Prints a table.
#   FERRY_BENCH_MODEL   another f16, bf16 or f32 file
#   FERRY_BENCH_FULL=1  also the types that search their scales, which takes llama.cpp minutes
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh
ferry=build/ferry
build=${BUILD:-build/host/release}
work=${FERRY_BENCH_DIR:-build/bench}
rounds=${FERRY_BENCH_ROUNDS:-3}
threads=$(nproc)
model=${FERRY_BENCH_MODEL:-$work/f16.gguf}
mkdir -p "$work"
ours=$work/quantized-ours.gguf theirs=$work/quantized-theirs.gguf
trap 'rm -f "$ours" "$theirs"' EXIT

seconds() { # COMMAND...
    local begin end
    begin=$(date +%s.%N)
    "$@" >/dev/null 2>"$work/quantize.log"
    end=$(date +%s.%N)
    echo "$end $begin" | awk '{ print $1 - $2 }'
}
peer() { # TYPE -> seconds of the call alone, without starting Python
    python3 tests/peer/quantize.py "$FERRY_PEER" "$model" "$theirs" "$1" --threads "$threads" 2>"$work/peer.log" || { tail -3 "$work/peer.log" >&2; exit 1; }
}
least() { sort -g | head -1; }

[ -f "$model" ] || "$build"/tests/bench/make_gguf "$model" --type f16
cat "$model" >/dev/null
echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) processors; best of $rounds, in turns"
printf '%-14s %8s %9s %7s %6s  %-8s %s\n' row ferry llama.cpp ratio bar tensors 'peak RssAnon'

row() { # NAME BAR TYPE OPTION...
    local name=$1 bar=$2 type=$3 mine='' other='' peak same=-
    shift 3
    for _ in $(seq "$rounds"); do
        mine+=$(seconds $ferry quantize "$model" "$ours" "$type" -t "$threads" --resume=no "$@")$'\n'
        peak=$(sed -n 's/.*peak RssAnon \([0-9.]*\) MB.*/\1/p' "$work/quantize.log")
        [ -z "${FERRY_PEER-}" ] || [ $# -gt 0 ] || other+=$(peer "$type")$'\n'
    done
    if [ -n "$other" ]; then
        same=differ
        $ferry compare -q "$ours" "$theirs" >/dev/null && same=equal
    fi
    awk -v name="$name" -v mine="$(least <<<"${mine%$'\n'}")" -v other="$(least <<<"${other%$'\n'}")" -v bar="$bar" -v same="$same" -v peak="$peak" 'BEGIN {
        if (other == "") { printf "%-14s %8.2f %9s %7s %6s  %-8s %s MB\n", name, mine, "-", "-", "-", same, peak; exit }
        printf "%-14s %8.2f %9.2f %7.2f %6s  %-8s %s MB%s\n", name, mine, other, other / mine, (bar == 0 ? "-" : bar), same, peak, (bar == 0 ? "" : other < bar * mine ? " below" : " ok") }'
}
row q4_0 3 q4_0
row q8_0 3 q8_0
row 'q4_0 --fit' 0 q4_0 --fit
for type in $([ -z "${FERRY_BENCH_FULL-}" ] || echo q4_1 q5_0 q5_1 q6_K q4_K q5_K); do
    row "$type" 0 "$type"
done

# Two processes that make a part each on one thread, and the end, against one process with two threads.
parts() {
    local pids=() i
    for i in 1 2; do $ferry quantize "$model" "$theirs" q4_0 -t 1 -q --part $i/2 & pids+=($!); done
    wait "${pids[0]}" && wait "${pids[1]}" && $ferry quantize "$model" "$theirs" q4_0 -t 1 -q --finish 2
}
mine='' other=''
for _ in $(seq "$rounds"); do
    mine+=$(seconds parts)$'\n'
    other+=$(seconds $ferry quantize "$model" "$ours" q4_0 -t 2 --resume=no)$'\n'
done
cmp -s "$ours" "$theirs" || { echo "parts: the file differs" >&2; exit 1; }
awk -v mine="$(least <<<"${mine%$'\n'}")" -v other="$(least <<<"${other%$'\n'}")" 'BEGIN {
    printf "\n%-14s %8.2f %9.2f %7.2f %6s  %s\n", "2 parts, 1t", mine, other, other / mine, 0.95,
        "against 1 process with 2 threads: " (other < 0.95 * mine ? "below" : "ok") }'

echo
"$build"/tests/kcheck/kcheck --bench --kernel encode | awk '/^encode/ {
    bar = $2 == "scalar" ? 0 : $1 == "encode_q8_0" ? 8 : $1 == "encode_q4_0" ? 5 : 0; rate = $3 * 4
    printf "%-20s %-8s %7.2f GB/s of f32, one thread%s\n", $1, $2, rate, bar == 0 ? "" : sprintf("   bar %g %s", bar, rate < bar ? "below" : "ok") }'
