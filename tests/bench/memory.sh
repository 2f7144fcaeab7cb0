#!/usr/bin/env bash
# Usage: tests/bench/memory.sh [DIR]   Models of three times the memory that they may take (a cgroup's limit, of version 1, as root):
# tokens/s and bytes read for a token, beside the rate that the storage of DIR gives. Skipped where no cgroup can be made.
set -euo pipefail
cd "$(dirname "$0")/../.."
ferry=${FERRY:-build/ferry}
dir=$(mktemp -d "${1:-/tmp}/ferry-memory-XXXXXX")
group=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/ferry-memory-$$
trap 'rm -rf "$dir"; rmdir "$group" 2>/dev/null || true' EXIT
if ! mkdir "$group" 2>/dev/null; then
    echo "memory: SKIP: no cgroup can be made ($group)"
    exit 0
fi
make_gguf=build/host/release/tests/bench/make_gguf

# A third of the file: with OPTION and without it. read_bytes of the process: what came from the storage.
measure() { # MODEL OPTION VERB...
    local model=$1 given=$2 third=$(($(stat -c %s "$1") / 3)) option
    shift 2
    sync
    echo "storage: $(dd if="$model" of=/dev/null bs=1M iflag=direct 2>&1 | tail -n 1)"
    echo $third >"$group/memory.limit_in_bytes"
    for option in "$given" ''; do
        dd if="$model" iflag=nocache count=0 status=none
        # shellcheck disable=SC2086
        bash -c 'echo $$ >"$1/cgroup.procs"; shift; "$@"; grep read_bytes /proc/$$/io >&2' - "$group" \
            "$ferry" "$@" -m "$model" $option 2>&1 | sed "s/^/${option:-plain}: /"
    done
}

model=$dir/hot.gguf
"$make_gguf" "$dir/plain.gguf" --arch mistral --type q4_0 --zeros 90 --transpose-down
head -n 2 tests/data/held.txt >"$dir/text"
"$ferry" eval -m "$dir/plain.gguf" --text "$dir/text" -c 64 --activations-out "$dir/counts.gguf" -q >/dev/null
"$ferry" plan "$dir/plain.gguf" --hot 0 --activations "$dir/counts.gguf" -o "$dir/hot.gpuidx" -q >/dev/null
"$ferry" quantize "$dir/plain.gguf" "$model" q4_0 --hot "$dir/hot.gpuidx" -q
rm "$dir/plain.gguf"
measure "$model" --mlock-hot run --prompt-ids 5 -n 12 --ignore-eos --print-ids -c 64
rm "$model"

model=$dir/experts.gguf
"$make_gguf" "$model" --arch smallthinker --type q4_0
memory=$(($(stat -c %s "$model") / 3 - 80000000)) # the rest: cache, scratch, the program
measure "$model" "--memory $memory" bench -p 0 -d 16 -n 24 -r 1 --no-warmup
