#!/usr/bin/env bash
# Instructions per token of the arm64 build, counted by a plugin of QEMU's user emulation: what can be said about a
# phone's processor without one (docs/measuring.md).
#   FERRY_PEER_ARM64=DIR     a directory with llama.cpp's node packages for arm64: counted on the same files
#   FERRY_BENCH_TYPES=LIST   types to measure (default "q4_0"), FERRY_BENCH_CPUS=LIST processors of QEMU
#   FERRY_BENCH_PROMPT=N     tokens of the prompt (default 256)
#   FERRY_BENCH_TOP=N        also the N functions that take most (default 0)
# The model has two layers of Llama-3.2-1B and a vocabulary of 512. Programs run with several lengths and the counts are
# subtracted, so that loading does not show.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh

prompt=${FERRY_BENCH_PROMPT:-256} generate=8 top=${FERRY_BENCH_TOP:-0}
types=${FERRY_BENCH_TYPES:-q4_0} cpus=${FERRY_BENCH_CPUS:-max cortex-a76 cortex-a53}
work=${FERRY_BENCH_DIR:-build/bench}/instructions
plugin=$PWD/build/host/release/tests/bench/count_instructions.so
ferry=build/aarch64/release/tests/bench/ferry_named
sysroot=/usr/aarch64-linux-gnu
mkdir -p "$work"

die() {
    echo "instructions.sh: $1" >&2
    exit 1
}
qemu-aarch64 -h 2>/dev/null | grep -q -- -plugin ||
    die "qemu-aarch64 takes no plugins (Debian: package qemu-user; the static one cannot load them)"

if [ ! -d "$work/checkpoint" ]; then
    make -s build/host/release/tests/bench/make_checkpoint
    build/host/release/tests/bench/make_checkpoint "$work/checkpoint" layers=2 vocab=512 shards=1
fi
for type in $types; do
    [ -f "$work/$type.gguf" ] || build/ferry convert "$work/checkpoint" --outtype "$type" -o "$work/$type.gguf" -q
done

# The package holds the libraries; their headers are in the source that the other package brings along.
engines=ferry
if [ -n "${FERRY_PEER_ARM64-}" ]; then
    libraries=$FERRY_PEER_ARM64/node_modules/@node-llama-cpp/linux-arm64/bins/linux-arm64
    source=$FERRY_PEER_ARM64/node_modules/node-llama-cpp/llama/gitRelease.bundle
    [ -d "$libraries" ] || die "FERRY_PEER_ARM64: no $libraries"
    [ -d "$work/peer.git" ] || git clone -q --bare "$source" "$work/peer.git"
    mkdir -p "$work/headers"
    git -C "$work/peer.git" archive HEAD include ggml/include | tar x -C "$work/headers"
    aarch64-linux-gnu-gcc -O2 -I"$work/headers/include" -I"$work/headers/ggml/include" -o "$work/count_peer" \
        tests/bench/count_peer.c "$libraries"/libllama.*.so "$libraries"/libggml.*.so "$libraries"/libggml-base.so \
        -Wl,--unresolved-symbols=ignore-in-shared-libs
    engines+=" llama.cpp"
fi

# ENGINE CPU TYPE N_PROMPT N_GEN: the file with the counts, named after them
counts() {
    local out=$work/$1.$2.$3.$4.$5 model=$work/$3.gguf
    local emulate=(qemu-aarch64 -cpu "$2" -plugin "$plugin,out=$out")
    rm -f "$out"
    if [ "$1" = ferry ]; then
        "${emulate[@]}" "$ferry" run -m "$model" --prompt-ids "$(seq -s, 100 $((99 + $4)))" -n "$5" --ignore-eos \
            --print-ids -t 1 -c 320 >"$out.log" 2>&1
    else
        "${emulate[@]}" -L "$sysroot" -E LD_LIBRARY_PATH="$sysroot/lib:$libraries" "$work/count_peer" "$libraries" \
            "$model" "$4" "$5" >"$out.log" 2>&1
    fi || die "$1 failed: $out.log"
    echo "$out"
}

# A B C: "decode prefill" in millions per token from the runs of one token, of one and $generate more, of a prompt
per_token() {
    cat "$1" "$2" "$3" | awk -v g="$generate" -v p="$prompt" '
        $1 == "total" { n[++i] = $2 }
        END { d = (n[2] - n[1]) / g; printf "%.2f %.2f\n", d / 1e6, (n[3] - n[1] + d) / p / 1e6 }'
}
# WHAT LESS MORE TOKENS: the functions in which MORE exceeds LESS
where() {
    awk -F'\t' -v what="$1" -v tokens="$4" '
        $1 == "symbol" { n[$3 " " $4] += FNR == NR ? -$2 : $2 }
        END { for (f in n) if (n[f] > 0) printf "    %-8s %10.3f M  %s\n", what, n[f] / tokens / 1e6, f }' "$2" "$3" |
        sort -k2,2nr | sed -n "1,${top}p"
}

printf '%-6s %-12s %-10s %12s %12s   (millions of instructions per token; prompt of %d)\n' \
    type cpu engine decode prefill "$prompt"
for type in $types; do
    for cpu in $cpus; do
        numbers=()
        for engine in $engines; do
            one=$(counts "$engine" "$cpu" "$type" 1 1)
            more=$(counts "$engine" "$cpu" "$type" 1 $((1 + generate)))
            long=$(counts "$engine" "$cpu" "$type" "$prompt" 1)
            read -r decode prefill < <(per_token "$one" "$more" "$long")
            numbers+=("$decode" "$prefill")
            printf '%-6s %-12s %-10s %12s %12s\n' "$type" "$cpu" "$engine" "$decode" "$prefill"
            if [ "$top" -gt 0 ]; then
                where decode "$one" "$more" "$generate"
                where prefill "$one" "$long" "$prompt"
            fi
        done
        [ ${#numbers[@]} -lt 4 ] || awk -v t="$type" -v c="$cpu" -v n="${numbers[*]}" 'BEGIN {
            split(n, v, " "); printf "%-6s %-12s %-10s %12.2f %12.2f\n", t, c, "ratio", v[1] / v[3], v[2] / v[4] }'
    done
done
