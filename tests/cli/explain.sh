#!/usr/bin/env bash
# `ferry explain`: numbers, names and lines of text -> meaning, cause, remedy.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

names() { # CODE...: the names of the answers
    "$FERRY" explain --json "$@" | jq -r '[.matches[].name] | join(" ")'
}
check_equal "decimal" QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED "$(names 30002)"
check_equal "hexadecimal" AEE_EUNABLETOLOAD "$(names 0x80000406)"
check_equal "negative, without quotes or --" AEE_EUNABLETOLOAD "$(names -2147482618)"
check_equal "negative, the kernel's" EINVAL "$(names -22)"
check_equal "a name, whatever its case" QNN_CONTEXT_ERROR_BINARY_VERSION "$(names qnn_context_error_binary_version)"
check_equal "words as they come" QNN_COMMON_ERROR_MEM_ALLOC "$(names contextCreate failed, err 1002)"
check_equal "a line of adb's" adb-unauthorized "$(names 'error: device unauthorized.')"
check_equal "several in a line" "qnn-no-pd QNN_COMMON_ERROR_MEM_ALLOC" \
    "$(names 'Failed to find available PD for contextId 1, err 1002')"
check_equal "a number of two families" "FERRY_DEVICE AEE_EALREADYLOADED" "$(names 5)"
check_equal "a number between known ones belongs to its group" QNN_CONTEXT_ERROR "$(names 5099)"
check_equal "a number may have its family's name" "ferry 3 (0x3) FERRY_FIT" "$("$FERRY" explain 'ferry 3' | sed -n 1p)"
check_equal "and then is of that family alone" "FastRPC" "$("$FERRY" explain fastrpc 3 --json | jq -r '[.matches[].family] | join(" ")')"
check_status "a family without that number" 1 "'ferry 99' is not known" "$FERRY" explain ferry 99
check_status "a typo" 2 "did you mean QNN_CONTEXT_ERROR_BINARY_VERSION\?" "$FERRY" explain QNN_CONTXT_ERROR_BINARY_VERSION
check_status "an unknown number: what is known" 1 "'1234567' is not known. Known are ferry 1 to 6 and 130; .*QNN 1000 to 15999.*FastRPC 0x80000400" \
    "$FERRY" explain 1234567
check_status "nothing" 2 "give a number, a name or a line of text, or --list" "$FERRY" explain
check_status "too much" 2 "leave '5' out" "$FERRY" explain --list 5
check_status "control characters are shown as what they are" 1 "'a\\\\x1b\\[31mb'" "$FERRY" explain $'a\e[31mb'
text=$("$FERRY" explain 0x80000406)
for part in '^FastRPC 6 \(0x80000406\) AEE_EUNABLETOLOAD$' '^  meaning  ' '^  cause    ' '^  remedy   .*ADSP_LIBRARY_PATH'; do
    check "words: $part" grep -qE "$part" <<<"$text"
done
check_equal "words stay within 100 columns" "" "$("$FERRY" explain 1002 | awk 'length > 100')"
check_equal "nothing goes to stderr" "" "$("$FERRY" explain 5 2>&1 >/dev/null)"
check_equal "JSON has all of it" '["cause","code","family","hex","meaning","name","remedy"]' \
    "$("$FERRY" explain 30002 --json | jq -c '.matches[0] | keys')"
check_equal "and the question" 'err "5' "$("$FERRY" explain --json 'err "5' | jq -r .query)"
check_equal "texts have no number" "null null" "$("$FERRY" explain --json error: closed | jq -r '.matches[0] | "\(.code) \(.hex)"')"
check_equal "--list has a line for each" "$("$FERRY" explain --list --json | jq '.matches | length')" "$("$FERRY" explain --list | wc -l)"
check "of every family" test "$("$FERRY" explain --list | cut -d' ' -f1 | LC_ALL=C sort -u | xargs)" = "FastRPC QNN adb ferry program"
listed=$("$FERRY" doctor --list-quirks | sed -n 's/^\([a-z0-9-]*\): .*/\1/p')
for quirk in sa8295-power sa8295-package honor-3b android-15-sessions vtcm-4mb npu-no-fp16 htp-before-v73 termux; do
    check "the table of quirks has $quirk" grep -qx "$quirk" <<<"$listed"
done
finish
