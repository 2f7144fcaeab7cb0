#!/usr/bin/env bash
# The vendor's own x86-64 library, where $FERRY_QNN_SDK names one (docs/npu-real.md tells how to get it).
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
if [ -z "${FERRY_QNN_SDK-}" ]; then
    skip "the vendor's library" "FERRY_QNN_SDK does not name a directory with one"
    finish
    exit
fi
check "it is found, loaded and asked" "$FERRY" doctor --qnn
"$FERRY" doctor --qnn --json >"$TMP/report.json"
report() { jq -r "$1" "$TMP/report.json"; }
check_equal "the report names no path of the machine" "" "$(grep -F "$FERRY_QNN_SDK" "$TMP/report.json")"
check_equal "every check passes" "" "$(report '.checks[] | select(.verdict == "fail") | .found')"
check_equal "nothing crashes or hangs" 0 "$(report '[.qnn.cases[] | select(.crashed or .hung)] | length')"
check_equal "a binary of two graphs holds their weights once" true "$(report '.qnn.shared_binary_bytes < 1.3 * .qnn.binary_bytes')"
check_equal "at least 200 cases are accepted" true "$(report '[.qnn.cases[] | select(.codes == [0, 0, 0, 0, 0])] | length >= 200')"
minor=$(report '.qnn.core | split(".")[1] | tonumber')
recipes=$([ "$minor" -ge 37 ] && echo 6 || echo 3) # those of floats: from SDK 2.48 on
check_equal "a decoder layer compiles and runs, with its weights once" "$recipes" \
    "$(report '[.qnn.layers[] | select(.code == 0 and .shared_binary_bytes < 1.3 * .binary_bytes)] | length')"
beta=$([ "$minor" -ge 38 ] && echo '[0,0,0,0,0]' || echo '[0,0,0,1002,null]')
check_equal "RmsNorm without a beta: from SDK 2.49 on" "$beta" \
    "$(report '.qnn.cases[] | select(.name == "rms norm u16, gamma u16, no beta") | .codes | tojson')"
for soc in SM8350 SM8450 SM8550 SM8750 SM8850; do
    check "for $soc, too" "$FERRY" doctor --qnn --soc $soc
done
finish
