#!/usr/bin/env bash
# Properties of the arm64 program: static, small, 16 KB pages, the runtime's verbs only.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

bin=${FERRY_ARM##* }
elf=$(LC_ALL=C aarch64-linux-gnu-readelf -hlW "$bin")
check_equal "it is for AArch64" 1 "$(grep -c 'Machine: *AArch64' <<<"$elf")"
check_equal "it needs no interpreter" 0 "$(grep -c INTERP <<<"$elf")"
check_equal "its segments suit pages of 16 KB" "" \
    "$(awk '$1 == "LOAD" && $NF !~ /^0x[4-9a-f]000$|^0x[0-9a-f]+0000$/' <<<"$elf")"
check_equal "it has the runtime's verbs" "run chat eval bench tokenize template selftest agent" \
    "$($FERRY_ARM --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' | xargs)"
for word in libarchive OpenSSL ZSTD_; do
    check_equal "$word is not in it" 0 "$(grep -ac "$word" "$bin")"
done
printf '%s\n' 'outtype = q4_0' '[convert]' 'threads = 1' >"$TMP/config"
check_status "names of verbs that it lacks are no error in a configuration file" 1 'none: cannot open' \
    env FERRY_CONFIG="$TMP/config" $FERRY_ARM run -m "$TMP/none" -p hi
check "a library that is linked is found this way" grep -aqi 'jansson\|duplicate object key' "$bin"
check "it stays below 3 MB" test "$(stat -c %s "$bin")" -le 3000000
finish
