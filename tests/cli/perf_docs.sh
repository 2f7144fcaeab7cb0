#!/usr/bin/env bash
# docs/perf is made by a program that the tests cannot run: what it names must be there.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

for page in docs/perf/*.md; do
    # shellcheck disable=SC2013  # one word each
    for path in $(grep -o '`[^` ]*/[^` ]*`' "$page" | tr -d '`' | sort -u); do
        check "$page names a file that is there: $path" test -e "$path"
    done
done
check "docs/perf says what made it" grep -q 'tests/bench/arm_loops.sh' docs/perf/arm64.md
finish
