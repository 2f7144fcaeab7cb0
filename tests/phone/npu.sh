#!/usr/bin/env bash
# The NPU on the emulated phone: the reference library as qnn_libs/, loaded by the dynamic arm64 program. ferry up compiles
# for the chip, pushes and chats there; what the phone says is what the same binaries say here.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT VIRTUAL_ENV
arm=build/aarch64-dynamic/release
ferry=$(realpath "$FERRY")
export XDG_CACHE_HOME=$TMP/cache
if [ ! -x $arm/ferry ]; then
    skip "the NPU of the emulated phone" "no $arm/ferry ('make TARGET=aarch64-dynamic all qnnref' builds it)"
    finish
    exit
fi

# The vendor's names; the DSP's half is never loaded here, only looked for.
mkdir "$TMP/libs"
cp $arm/qnn/libQnnRef.so "$TMP/libs/libQnnHtp.so"
cp $arm/qnn/libQnnRefSystem.so "$TMP/libs/libQnnSystem.so"
cp $arm/qnn/libQnnRefSystem.so "$TMP/libs/libQnnHtpV75Stub.so" # any library
{ printf '\177ELF\1\1\1' && head -c 9 /dev/zero && printf '\3\0\244\0\1' && head -c 200 /dev/zero; } >"$TMP/libs/libQnnHtpV75Skel.so"
phone_start
root=$(phone_root)
mkdir -p "$root/lib"
cp -L /usr/aarch64-linux-gnu/lib/{ld-linux-aarch64.so.1,libc.so.6,libm.so.6} "$root/lib/"
cp $arm/qnn/libcdsprpc.so "$root/vendor/lib64/"

echo Hello >"$TMP/questions"
up() {
    "$ferry" up tests/data/tales --device --soc SM8650 --sdk reference --recipe fp16a8w --qnn-libs "$TMP/libs" --exe-path $arm/ferry \
        --batch 32,1 --temp 0 -c 256 "$@" <"$TMP/questions" >"$TMP/out" 2>"$TMP/words"
}

# --- up ---------------------------------------------------------------------------------------------------------------
check "ferry up" up
compiled=$(echo "$TMP"/cache/ferry/up/compile-*/compiled)
check_equal "the phone says what the same binaries say here" \
    "$("$ferry" chat -m "$compiled" --backend qnn --qnn-lib reference --temp 0 -q <"$TMP/questions" 2>/dev/null)" "$(cat "$TMP/out")"
check "it computes on the NPU" grep -q '^backend: qnn' "$TMP/words"
check "again" up
check_equal "nothing is made twice" 0 "$(grep -cE '^(convert|compile|create|push): [^s]' "$TMP/words")"

# --- starts -----------------------------------------------------------------------------------------------------------
on_phone() { adb shell "cd /data/local/tmp/ferry/tales && bin/ferry run -d . -p Once -n 1 --temp 0 $*"; }
asked() { on_phone -v "$@" 2>&1 | grep -c 'canary: KL'; }
check_equal "the canary is not asked twice" 0 "$(asked)"
check_equal "unless it is wanted" 1 "$(asked --canary always)"
adb shell "touch /data/local/tmp/ferry/tales/tales/qnn/chunk_0.bin"
check_equal "a file that changed does not" 1 "$(asked)"
refused() { # FAULT: what the phone says with it, and its status
    echo "$1" >"$root/data/local/tmp/faults"
    adb shell "cd /data/local/tmp/ferry/tales && FERRY_REF_FAULTS=/data/local/tmp/faults bin/ferry run -d . -p Once -n 1 2>&1; echo status \$?" >"$TMP/refused" 2>&1
    grep -oE 'chunk_0.bin: was compiled for .*\)|^status 3' "$TMP/refused" | tr -d '\n'
}
compiled_for='chunk_0.bin: was compiled for V75 with 8 MB of VTCM (chip 57), and this NPU is'
check_equal "binaries for another architecture are refused" "$compiled_for V79 with 8 MB (chip 69)status 3" "$(refused 'soc 69')"
check_equal "and for more VTCM than this chip has" "$compiled_for V75 with 4 MB (chip 57)status 3" "$(refused 'vtcm 4')"
adb shell "cd /data/local/tmp/ferry/tales && bin/ferry selftest -d . --quick --json" >"$TMP/report" 2>"$TMP/words"
check_equal "selftest there shows the canary's answer" 1 "$(grep -c 'canary: KL divergence' "$TMP/words")"
check_equal "and asks the libraries" \
    "files true, library true, metadata true, memory true, device true, operation true; chip 57, V75, 8 MB of VTCM; libQnnHtp.so, libQnnHtpV75Skel.so, libQnnHtpV75Stub.so, libQnnSystem.so" \
    "$(jq -r '([.checks[] | select(.name | startswith("npu")) | "\(.name[4:]) \(.ok)"] | join(", ")) + "; " +
        ([.checks[] | select(.name == ("npu device", "npu files")) | .detail] | reverse | join("; "))' "$TMP/report")"
check_equal "with the DSP's path" 1 "$(grep -c 'the DSP looks in /data/[^ ;]*/qnn_libs;/vendor/dsp/cdsp;' "$TMP/report")"

rm "$root/vendor/lib64/libcdsprpc.so"
check_equal "memory that is not shared with the NPU is reported" 1 "$(on_phone 2>&1 | grep -c 'no memory is shared with the NPU (.*): each call copies')"
finish
