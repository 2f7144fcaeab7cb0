#!/usr/bin/env bash
# The reference library for the NPU: damaged graphs, and whether the tests reach every row of its rule
# table and every fault, counted by the library itself.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
units=build/host/release/tests/unit/qnnref

[ -x $units/test_ref_mutation ] || {
    skip "the reference library" "no $units ('make programs' builds it)"
    finish
    exit
}
soak 3000 100000
check "a damaged field is refused or harmless" $units/test_ref_mutation

export FERRY_REF_COVERAGE=$TMP/coverage
for t in graph rules calls; do
    check "test_ref_$t passes while coverage is counted" $units/test_ref_$t
done
unset FERRY_REF_COVERAGE
check_equal "every row of the rule table is reached" "" \
    "$(awk '$1 == "rule" { n = $2; $1 = $2 = ""; sum[$0] += n } END { for (r in sum) if (sum[r] == 0) print r }' "$TMP/coverage")"
check_equal "there are rows" yes "$(grep -q '^rule [1-9]' "$TMP/coverage" && echo yes)"
check_equal "every fault has had an effect" \
    "abort alias arch blob build code config core encoding finalize hash_collision ignore_alias memory output providers reload segv sleep soc ssr supported system validate weights" \
    "$(awk '$1 == "fault" { print $3 }' "$TMP/coverage" | sort -u | tr '\n' ' ' | sed 's/ $//')"
finish
