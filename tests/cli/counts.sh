#!/usr/bin/env bash
# What the documentation counts is counted here: `make counts` prints each number with the page and the words that have it.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

while IFS=$'\t' read -r page phrase; do
    check "$page: $phrase" grep -qF -- "$phrase" "$page"
done < <(make -s counts FERRY="$FERRY")
check "there are some" test "$t_count" -ge 7
finish
