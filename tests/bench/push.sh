#!/usr/bin/env bash
# What a push takes beside `adb push` of the same bytes, in turns in one run, on the emulated phone with its link held at
# 40 MB/s (PUSH_RATE: bytes per second). The best of PUSH_ROUNDS (3) each; ratios above 1: ferry is faster. The workspace has
# 7.4 MB for each of PUSH_LAYERS (40) layers.
#   sync   the adb client's plain file transfer (tests/phone/adb_try) against adb's
#   push   `ferry push` of a workspace, hashed at both ends, against adb's transfer of the directory
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

exe=${FERRY_ARM##* }
try=${ADB_TRY:-build/host/release/tests/phone/adb_try}
make_gguf=${MAKE_GGUF:-build/host/release/tests/bench/make_gguf}
rate=${PUSH_RATE:-40000000}
rounds=${PUSH_ROUNDS:-3}
there=/data/local/tmp

milliseconds() { # COMMAND...
    local begin
    begin=$(date +%s%N)
    "$@" >/dev/null 2>"$TMP/words" || { cat "$TMP/words" >&2 && return 1; }
    echo $((($(date +%s%N) - begin) / 1000000))
}
smaller() { if [ -z "$1" ] || [ "$2" -lt "$1" ]; then echo "$2"; else echo "$1"; fi; }
compare() { # NAME BYTES THEIRS OURS: functions
    local theirs='' ours='' took
    for _ in $(seq "$rounds"); do
        took=$(milliseconds "$3") && theirs=$(smaller "$theirs" "$took")
        took=$(milliseconds "$4") && ours=$(smaller "$ours" "$took")
        adb shell "rm -rf $there/plain $there/file $there/ferry/fast $there/ferry/.versions" >/dev/null
    done
    awk -v name="$1" -v n="$2" -v a="$theirs" -v b="$ours" 'BEGIN {
        printf "%-6s %8.1f %12d %12d %10.1f %8.2f\n", name, n * 1e-6, a, b, n / b * 1e-3, a / b }'
}
adb_file() { adb push "$TMP/file" $there/file; }
our_file() { "$try" push "$TMP/file" $there/file; }
adb_workspace() { adb push "$TMP/fast" $there/plain; }
our_workspace() { "$FERRY" push "$TMP/fast" -q; }

lscpu | sed -n 's/^Model name: */cpu: /p'
echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) processors"
"$make_gguf" "$TMP/fast.gguf" --type f16 --layers "${PUSH_LAYERS:-40}" --embd 512 --ff 2048 --heads 8 --heads-kv 4 --head-dim 64 --vocab 8192
"$FERRY" create "$TMP/fast.gguf" --exe-path "$exe" -o "$TMP/fast" -q 2>/dev/null
head -c 30000000 /dev/urandom >"$TMP/file"
phone_start
our_workspace # the helper stays on the phone from now on, as it does for its owner
adb shell "rm -rf $there/ferry/fast $there/ferry/.versions" >/dev/null
phone_set rate="$rate"
printf '%-6s %8s %12s %12s %10s %8s\n' what MB 'adb ms' 'ferry ms' MB/s ratio
compare sync "$(stat -c %s "$TMP/file")" adb_file our_file
compare push "$(du -sbL "$TMP/fast" | cut -f1)" adb_workspace our_workspace
