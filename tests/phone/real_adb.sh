#!/usr/bin/env bash
# The real adb client and server against the emulated phone: what every other phone test stands on.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

phone_start
check_equal "adb calls it a device" device "$(adb get-state)"
check_equal "commands run as arm64" aarch64 "$(adb shell uname -m)"
status=0
adb shell 'echo out; echo err >&2; exit 7' >"$TMP/out" 2>"$TMP/err" || status=$?
check_equal "exit status, output and errors come back apart" "7 out err" "$status $(cat "$TMP/out") $(cat "$TMP/err")"
check_equal "standard input arrives" "some words" "$(echo some words | adb shell cat)"
check_equal "getprop answers" SM8650 "$(adb shell getprop ro.soc.model)"
check_equal "exec is raw" "$(printf 'a\r\n\0b' | od -c)" "$(adb exec-out 'printf "a\r\n\0b"' | od -c)"

head -c 3000000 /dev/urandom >"$TMP/file"
check "a file is pushed" adb push "$TMP/file" /data/local/tmp/dir/file
check "and pulled" adb pull /data/local/tmp/dir/file "$TMP/back"
check "unchanged" cmp "$TMP/file" "$TMP/back"
mkdir -p "$TMP/tree/sub"
cp tests/data/tales/config.json "$TMP/tree/"
cp tests/lib.sh "$TMP/tree/sub/"
check "a directory is pushed" adb push --sync "$TMP/tree" /data/local/tmp/
check_equal "with its files" "$(sha256sum <tests/lib.sh)" "$(adb shell 'sha256sum < /data/local/tmp/tree/sub/lib.sh' | tr -d '\r')"
check "the arm64 program is pushed" adb push build/aarch64/release/ferry /data/local/tmp/ferry
check_equal "and runs" ferry "$(adb shell /data/local/tmp/ferry --version | cut -d' ' -f1)"
adb shell 'ln -s /data/local/tmp/tree /data/local/tmp/link'
check_equal "links of the phone lead to its own files" "$(sha256sum <tests/lib.sh)" \
    "$(adb pull /data/local/tmp/link/sub/lib.sh "$TMP/linked" >/dev/null && sha256sum <"$TMP/linked")"

phone_set drop_after=1000000
check "a cut cable fails a push" bash -c '! adb push "$0/file" /data/local/tmp/cut' "$TMP"
phone_set
check "the phone comes back" phone_wait
phone_set full_after=1000000
check_equal "a full phone reports it" "No space left on device" \
    "$(adb push "$TMP/file" /data/local/tmp/full 2>&1 | grep -o 'No space left on device' | head -1)"
phone_set unauthorized=1
adb disconnect >/dev/null
adb connect "$ANDROID_SERIAL" >/dev/null 2>&1
unauthorized() { adb devices | grep unauthorized; }
check "an unauthorized phone is distinguished" wait_for 120 unauthorized
phone_set
adb disconnect >/dev/null
check "and usable once it is not" phone_wait
finish
