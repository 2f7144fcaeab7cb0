#!/usr/bin/env bash
# The options of the machine: threads, CPUs, and how the file comes into memory. None of them changes an answer.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

m=$TMP/tales.gguf
"$FERRY" convert tests/data/tales --outtype q8_0 -q -o "$m" || exit 1
run() { "$FERRY" run -m "$m" -p 'Once upon a time' -n 12 "$@"; }
want=$(run -q -t 1)
check "there is an answer" test -n "$want"

# --- CPUs --------------------------------------------------------------------------------------------------------
usable=$(taskset -cp $$ | sed 's/.*: //')
first=${usable%%[,-]*}
mask=$(printf %x $((1 << first)))
for way in "-C $mask" "-C 0x$mask" "--cpu-mask=$mask -t 3" "-Cr $first-$first" "--cpu-range $first-" "-t 4" "-C $mask -Cr $first-$first"; do
    # shellcheck disable=SC2086
    check_equal "$way changes nothing" "$want" "$(run -q $way)"
done
check "it is said where it runs" grep -qx "runs on CPUs $first" <(run -v -C "$mask" 2>&1)
check "one CPU is one thread" grep -q 'threads: 1$' <(run -v -Cr "$first-$first" 2>&1)
check "unless another number is asked for" grep -q 'threads: 3$' <(run -v -Cr "$first-$first" -t 3 2>&1)
check "CPUs that are not there are left out" grep -q "runs on CPUs $first; of $first,900-901 this process may use no others" \
    <(run -v -C "$mask" -Cr 900-901 2>&1)
check_status "but one has to be there" 2 "--cpu-range: cannot run on CPUs 900-901: none of them is available" run -Cr 900-901
check_status "a mask is a number" 2 "--cpu-mask: '4-7' is not a mask of CPUs, expected a hexadecimal number" run -C 4-7
check_status "of at least one CPU" 2 "'0x0' is not a mask" run -C 0x0
check_status "a range has a dash" 2 "--cpu-range: '4' is not a range of CPUs, expected LO-HI" run -Cr 4
for verb in chat 'eval --golden none' bench; do
    # shellcheck disable=SC2086
    check_status "${verb%% *} has the same options" 2 "--cpu-mask: 'x' is not a mask" "$FERRY" $verb -m "$m" -C x
done </dev/null
check_equal "they may come from a variable" "runs on CPUs $first" "$(FERRY_CPU_MASK=$mask run -v 2>&1 | grep '^runs on')"

# --- memory ------------------------------------------------------------------------------------------------------
for way in --no-mmap --mlock '--mlock --no-mmap'; do
    # shellcheck disable=SC2086
    check_equal "$way changes nothing" "$want" "$(run -q $way)"
done
anonymous() { run --json -q "$@" | jq .timing.anonymous_memory_bytes; }
size=$(stat -c %s "$m")
check "a copy is memory of its own" test "$(($(anonymous --no-mmap) - $(anonymous)))" -gt $((size * 9 / 10))
answer() { echo hello | "$FERRY" chat -m "$m" --temp 0 -n 8 -q "$@"; }
check_equal "chat takes a copy, too" "$(answer)" "$(answer --no-mmap --mlock)"
check "eval as well" "$FERRY" eval -m "$m" --text tests/data/held.txt -c 32 --no-mmap --mlock -q
check_equal "bench says which it was" "true false" \
    "$(for w in 1 0; do "$FERRY" bench -m "$m" -p 2 -n 0 -r 1 -t 1 -q -mmp $w -o jsonl; done | jq .use_mmap | xargs)"
if setpriv --bounding-set=-ipc_lock bash -c 'ulimit -l 64' 2>/dev/null; then
    limited() { setpriv --bounding-set=-ipc_lock bash -c 'ulimit -l 64; exec "$@"' - "$FERRY" run -m "$m" -p 'Once upon a time' -n 12 --mlock "$@"; }
    check_equal "a limit that forbids it changes nothing" "$want" "$(limited -q 2>/dev/null)"
    check_equal "and is one warning, with the numbers and the remedy" \
        "warning: $m: 0.0 of its $(awk "BEGIN { printf \"%.1f\", $size / 1e6 }") MB are locked in memory: the limit is 0.1 MB (ulimit -l); raise it, or run without locking" \
        "$(limited -q 2>&1 >/dev/null)"
else
    skip "a limit on locked memory" "cannot be set here"
fi

# --- a file that changes under a run -----------------------------------------------------------------------------
cp "$m" "$TMP/cut.gguf"
"$FERRY" run -m "$TMP/cut.gguf" --no-mmap -p 'Once upon a time' -n 4000 -c 4100 --ignore-eos >"$TMP/text" 2>"$TMP/err" &
pid=$!
wait_for 120 test -s "$TMP/text"
truncate -s 4096 "$TMP/cut.gguf"
status=0
wait $pid || status=$?
check_equal "a copy goes on when its file is cut short" 0 "$status"
check_equal "and says the same" "$(run -q -n 4000 -c 4100 --ignore-eos 2>/dev/null | md5sum)" "$(md5sum <"$TMP/text")"
finish
