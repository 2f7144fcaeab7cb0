#!/usr/bin/env bash
# What ferry itself costs in `ferry compile`, of four layers and a head of Llama-3.2-1B's shape (750 MB, f16):
#   calibrate  seconds for 2,048 tokens against the engine's own for that prompt, bar 3
#   chunk_0, lm_head  peak memory with a library that keeps nothing (qnn_noop.c), against the weights of the binary, bar 2
#   call-128, call-1  what the processor takes around the graphs of a call (docs/npu-graphs.md), of a model of the whole shape
#              in four chunks with a cache of 2048 slots, against the call of 128 tokens and of one that PowerServe publishes for it
#              on a Snapdragon 8 Gen 3 (1877 and 59 tokens/s), bar 0.05
# Best of FERRY_BENCH_ROUNDS (3), in turns. Prints a table.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh
ferry=$PWD/build/ferry
build=$PWD/${BUILD:-build/host/release}
work=${FERRY_BENCH_DIR:-build/bench}
rounds=${FERRY_BENCH_ROUNDS:-3}
mkdir -p "$work"
cd "$work"
trap 'rm -rf npu.out npu.cut npu.host npu.host.cut' EXIT

[ -f npu.gguf ] || "$build"/tests/bench/make_gguf npu.gguf --type f16 --layers 4 --embd 2048 --ff 8192 --heads 32 \
    --heads-kv 8 --head-dim 64 --vocab 32000
rm -rf npu.cut npu.out
"$ferry" chunk npu.gguf -o npu.cut --soc SM8650 -c 2048 --batch 128,1 --recipe 16a8w -q
seq 1 4000 >npu.txt
compile() {
    "$ferry" compile npu.cut -o npu.out --sdk "$build/tests/bench/noop" --calibration npu.txt --report npu.json 2>npu.log
}
echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) processors; best of $rounds, alternated with the engine"
ours='' engine=''
for _ in $(seq "$rounds"); do
    rm -rf npu.out
    compile
    ours+=$(sed -n 's/.*ranges of 2048 tokens, \([0-9.]*\) s$/\1/p' npu.log)$'\n'
    engine+=$("$ferry" bench -m npu.gguf -p 2048 -n 0 -r 1 -q -o json | awk '/"avg_ns"/ { print $2 / 1e9 }')$'\n'
done
least() { sort -g | head -1; }
row() { # NAME OURS THEIRS BAR UNIT
    awk -v name="$1" -v ours="$2" -v theirs="$3" -v bar="$4" -v unit="$5" 'BEGIN {
        printf "%-10s %8.2f %8.2f %-8s %6.3f %5.2f  %s\n", name, ours, theirs, unit, ours / theirs, bar, (ours < bar * theirs ? "ok" : "above") }'
}
printf '%-10s %8s %8s %-8s %6s %5s\n' row ferry against unit ratio bar
row calibrate "$(least <<<"${ours%$'\n'}")" "$(least <<<"${engine%$'\n'}")" 3 seconds
for name in chunk_0 lm_head; do
    peak=$(sed -n "s/.*$name.bin: .*peak \([0-9.]*\) GB/\1/p" npu.log)
    weights=$(sed -n "s/^$name: .*weights \([0-9.]*\) MB.*/\1/p" npu.log)
    row $name "$(awk -v gb="$peak" 'BEGIN { print gb * 1000 }')" "$weights" 2 MB
done

[ -f npu.host.gguf ] || "$build"/tests/bench/make_gguf npu.host.gguf
rm -rf npu.host.cut npu.host
"$ferry" chunk npu.host.gguf -o npu.host.cut --soc SM8650 --chunks 4 -c 2048 --batch 128,1 --recipe fp16 -q
"$ferry" compile npu.host.cut -o npu.host --sdk "$build/tests/bench/noop" -q 2>npu.log
host() { # PROMPT TOKENS CALLS: milliseconds a call
    for _ in $(seq "$rounds"); do
        "$ferry" bench -m npu.host --backend qnn --qnn-lib "$build/tests/bench/noop" -p "$1" -n "$2" -t 1 -q -o json |
            awk -v n="$3" '/"host_ns"/ { print $2 / 1e6 / n }'
    done | least
}
row call-128 "$(host 1024 0 8)" 68.2 0.05 ms
row call-1 "$(host 0 256 256)" 16.9 0.05 ms
