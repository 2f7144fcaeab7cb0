#!/usr/bin/env bash
# The demo runs to its end and tells the same tale twice.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

out=$(scripts/demo_steps.sh 2>"$TMP/err")
status=$?
check_equal "the demo ends well" 0 "$status"
check_equal "it tells two equal tales" 2 "$(grep -c '^Once upon a time' <<<"$out")"
[ "$status" -eq 0 ] || tail -5 "$TMP/err" >&2
finish
