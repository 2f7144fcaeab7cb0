#!/usr/bin/env bash
# `ferry doctor --qnn` without a library that works: each way to be wrong has its message, and none ends ferry.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT VIRTUAL_ENV
export HOME=$TMP

check_status "a directory without a library" 5 "/none: no QNN library: expected libQnnHtp.so there, in lib/.* or in onnxruntime_qnn" \
    "$FERRY" doctor --qnn --sdk /none
FERRY_QNN_SDK=/other check_status "the environment is looked at" 5 "^ferry doctor: /other: no QNN library" "$FERRY" doctor --qnn
check_status "control characters of a name are shown as what they are" 5 'a\\x1b\[31mb: no QNN library' \
    "$FERRY" doctor --qnn --sdk $'a\e[31mb'
check_status "an unknown chip" 2 "'?SM1'? " "$FERRY" doctor --qnn --sdk /none --soc SM1
mkdir -p "$TMP/text/onnxruntime_qnn"
echo "this is not a library" >"$TMP/text/onnxruntime_qnn/libQnnHtp.so"
check_status "a file that is not a library" 5 "cannot load the QNN library: .*(invalid ELF header|file too short)" \
    "$FERRY" doctor --qnn --sdk "$TMP/text"

# Libraries of a few lines: what they do when they are loaded or asked.
library() { # NAME C-CODE
    mkdir -p "$TMP/$1"
    printf '#include <stdint.h>\n#include <stdlib.h>\n#include <unistd.h>\n%s\n' "$2" | ${CC:-cc} -shared -fPIC -x c -o "$TMP/$1/libQnnHtp.so" -
}
provider='typedef struct { uint32_t id; const char *name; uint32_t core[3], api[3]; void *f[51]; } provider;
static provider p = {%s}; static provider *list[] = {&p};
uint64_t QnnInterface_getProviders(provider ***l, uint32_t *n) { *l = list; *n = %s; return 0; }'
library empty 'int nothing;'
check_status "no entry point" 5 "cannot load the QNN library: .*QnnInterface_getProviders" "$FERRY" doctor --qnn --sdk "$TMP/empty"
# shellcheck disable=SC2059
library old "$(printf "$provider" '6, "x", {2, 17, 0}, {5, 24, 0}, {0}' 1)"
check_status "too old" 1 "offers backend 6 with core 2.17; expected backend 6 with core interface 2.18" "$FERRY" doctor --qnn --sdk "$TMP/old"
# shellcheck disable=SC2059
library next "$(printf "$provider" '6, "x", {3, 0, 0}, {6, 0, 0}, {0}' 1)"
check_status "another major version" 1 "offers backend 6 with core 3.0" "$FERRY" doctor --qnn --sdk "$TMP/next"
# shellcheck disable=SC2059
library cpu "$(printf "$provider" '3, "x", {2, 30, 0}, {5, 41, 0}, {0}' 1)"
check_status "another backend" 1 "offers backend 3 with core 2.30" "$FERRY" doctor --qnn --sdk "$TMP/cpu"
# shellcheck disable=SC2059
library none "$(printf "$provider" '6, "x", {2, 30, 0}, {5, 41, 0}, {0}' 0)"
check_status "no provider" 1 "offers nothing" "$FERRY" doctor --qnn --sdk "$TMP/none"
# shellcheck disable=SC2059
library hollow "$(printf "$provider" '6, "x", {2, 30, 0}, {5, 41, 0}, {0}' 1)"
check_status "no functions" 1 "has no function backendCreate" "$FERRY" doctor --qnn --sdk "$TMP/hollow"
library crash '__attribute__((constructor)) static void f(void) { abort(); }'
check_status "it crashes when it is loaded" 5 "the QNN library crashed when it was loaded" "$FERRY" doctor --qnn --sdk "$TMP/crash"
library loud '__attribute__((constructor)) static void f(void) { (void)!write(1, "noise\n", 6); (void)!write(2, "noise\n", 6); }'
check_equal "what it prints does not appear" "" "$("$FERRY" doctor --qnn --sdk "$TMP/loud" 2>&1 | grep noise)"
library hang '__attribute__((constructor)) static void f(void) { pause(); }'
"$FERRY" doctor --qnn --sdk "$TMP/hang" 2>"$TMP/err" &
pid=$!
is_loaded() { grep -q "$TMP/hang" "/proc/$(pgrep -P $pid)/maps"; }
check "a library hangs" wait_for 120 is_loaded
interrupt $pid
check_equal "Ctrl-C ends it" 130 $status
nothing_left() { ! pgrep -f "sdk $TMP/hang"; }
check "and its process" wait_for 120 nothing_left
finish
