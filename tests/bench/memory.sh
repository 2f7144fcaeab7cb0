#!/usr/bin/env bash
# Usage: tests/bench/memory.sh [DIR]   A model of three times the memory that it may take (a cgroup's limit, of version 1, as root):
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
n=12
model=$dir/hot.gguf
build/host/release/tests/bench/make_gguf "$dir/plain.gguf" --arch mistral --type q4_0 --zeros 90 --transpose-down
head -n 2 tests/data/held.txt >"$dir/text"
"$ferry" eval -m "$dir/plain.gguf" --text "$dir/text" -c 64 --activations-out "$dir/counts.gguf" -q >/dev/null
"$ferry" plan "$dir/plain.gguf" --hot 0 --activations "$dir/counts.gguf" -o "$dir/hot.gpuidx" -q >/dev/null
"$ferry" quantize "$dir/plain.gguf" "$model" q4_0 --hot "$dir/hot.gpuidx" -q
rm "$dir/plain.gguf"
sync
uncached() { dd if="$model" iflag=nocache count=0 status=none; }
echo "storage: $(dd if="$model" of=/dev/null bs=1M iflag=direct 2>&1 | tail -n 1)"
echo $(($(stat -c %s "$model") / 3)) >"$group/memory.limit_in_bytes"
for option in --mlock-hot ''; do
    uncached
    # read_bytes of the process: what came from the storage
    bash -c 'echo $$ >"$1/cgroup.procs"; shift; "$@"; grep read_bytes /proc/$$/io >&2' - "$group" \
        "$ferry" run -m "$model" --prompt-ids 5 -n $n --ignore-eos -c 64 ${option:+"$option"} 2>&1 >/dev/null |
        sed "s/^/${option:-plain}: /"
done
