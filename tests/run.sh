#!/usr/bin/env bash
# Runs tests that print TAP and counts their results. Usage: tests/run.sh [-j N] ITEM...
# An item is a shell command line, printed as its name. A program that dies, times out or reports nothing
# counts as one failure. What fails beside other items runs once more, alone, when few do: a busy machine upsets tests of
# time, and the second result counts. Such items are listed. The last line is "N passed, N failed, N skipped"; exit 1
# when anything failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh

jobs=2
if [ "${1-}" = -j ]; then
    jobs=$2
    shift 2
fi
logs=build/test-logs
rm -rf "$logs"
mkdir -p "$logs"
export CMOCKA_MESSAGE_OUTPUT=TAP
# A test that calls make inherits the variables of the outer make, but not its job server.
MAKEFLAGS=$(sed -E 's/(^| )(-j[0-9]*|--jobserver-[^ ]*)//g' <<<"${MAKEFLAGS-}")
export MAKEFLAGS

run_one() { # INDEX COMMAND
    rm -f "$logs/$1.report"
    local log=$logs/$1 status=0 begin=$SECONDS
    timeout "${TEST_TIMEOUT:-900}" bash -c "$2" >"$log.out" 2>"$log.err" </dev/null || status=$?
    # cmocka writes a skip as "ok 3 # SKIP name" or "not ok 3 # SKIP name"
    local skip failed passed
    skip=$(grep -cE '^(not )?ok [0-9]+.*# SKIP' "$log.out")
    failed=$(grep -E '^not ok' "$log.out" | grep -cv '# SKIP')
    passed=$(grep -E '^ok' "$log.out" | grep -cv '# SKIP')
    local note=
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
        note="exit status $status"
    elif [ $((passed + failed + skip)) -eq 0 ]; then
        failed=1
        note="reported no result"
    fi
    echo "$passed $failed $skip" >"$log.count"
    if [ "$failed" -gt 0 ]; then
        {
            echo "FAILED  $2  ${note}"
            grep -E '^not ok' "$log.out" | grep -v '# SKIP' | head -20 | sed "s/^not ok/    $word/"
            # The first failure often causes the later ones.
            awk '{ line[NR] = $0 } END {
                for (i = 1; i <= NR; i++)
                    if (i <= 15 || i > NR - 15) print "    | " line[i]
                    else if (i == 16) print "    | [" NR - 30 " more lines]"
            }' "$log.err"
        } >"$log.report"
        cat "$log.report"
    else
        printf 'ok      %s  (%d passed%s, %d s)\n' "$2" "$passed" "$([ "$skip" -gt 0 ] && echo ", $skip skipped")" \
            $((SECONDS - begin))
    fi
}

items=("$@")
word="failed" # in reports; "not ok" once nothing ran beside
[ "$jobs" -gt 1 ] || word="not ok"
i=0
for item in "$@"; do
    i=$((i + 1))
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
        wait -n || true
    done
    run_one "$(printf '%03d' "$i")" "$item" &
done
wait

again=("$logs"/*.report)
if [ "$jobs" -gt 1 ] && [ -e "${again[0]}" ] && [ ${#again[@]} -le 10 ]; then
    echo "once more, one at a time:"
    word="not ok"
    for report in "${again[@]}"; do
        i=$(basename "$report" .report)
        cp "$report" "$logs/$i.beside"
        run_one "$i" "${items[10#$i - 1]}"
    done
fi

total_passed=0 total_failed=0 total_skipped=0
for f in "$logs"/*.count; do
    read -r p n s <"$f"
    total_passed=$((total_passed + p))
    total_failed=$((total_failed + n))
    total_skipped=$((total_skipped + s))
done
if [ "$total_skipped" -gt 0 ]; then
    echo "skipped:"
    grep -hE '# SKIP' "$logs"/*.out | sed -E 's/^(not )?ok [0-9]+( -)? ?/    /' | sort | uniq -c | sort -rn | head -40
fi
if compgen -G "$logs/*.beside" >/dev/null; then
    echo "failed beside other tests, then ran alone:"
    cat "$logs"/*.beside
fi
if [ "$total_failed" -gt 0 ]; then
    echo "all failures again:"
    cat "$logs"/*.report
fi
echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
[ "$total_failed" -eq 0 ]
