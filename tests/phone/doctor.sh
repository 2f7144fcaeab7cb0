#!/usr/bin/env bash
# ferry doctor: a healthy phone, and each of its ills with its verdict, remedy and exit status.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

ARM=${DEVICE_EXE:-build/aarch64/release/ferry}
ferry=$(realpath "$FERRY")
w=$TMP/tales
export FERRY_EXE_PATH=$ARM
"$ferry" convert tests/data/tales --outtype q4_0 -q -o "$TMP/tales.gguf" || not_ok "tales converts"
check "create makes a workspace" "$ferry" create "$TMP/tales.gguf" -o "$w" --no-parity

phone_start
root=$(phone_root)
status=0
json=''
doctor() { # OPTION...
    status=0
    json=$("$ferry" doctor --json "$@" 2>"$TMP/words") || status=$?
}
of() { # NAME [MEMBER]
    jq -r --arg n "$1" --arg m "${2-verdict}" '.checks[] | select(.name == $n)[$m]' <<<"$json"
}

# --- a healthy phone -------------------------------------------------------------------------------------------------
doctor
check_equal "a healthy phone is ok" "0 true" "$status $(jq .ok <<<"$json")"
check_equal "the checks, in their order" "phone android abi cpu memory storage execute thermal battery npu" \
    "$(jq -r '.checks[].name' <<<"$json" | xargs | sed 's/ [a-z0-9]*-.*//')"
check_equal "no check warns" "" "$(jq -r '.checks[] | select(.verdict == "warning" or .verdict == "fail").name' <<<"$json")"
check_equal "which phone it is" "Ferry Emulated Phone, chip SM8650 (pineapple)" "$(of phone found)"
check_equal "which Android" "Android 14 (API 34)" "$(of android found)"
check_equal "what its CPUs can" "neon dotprod i8mm fp16 bf16; 8 CPUs" "$(of cpu found)"
check_equal "our program starts there" "ferry $("$ferry" --version | cut -d' ' -f2) runs in /data/local/tmp" "$(of execute found)"
check_equal "nothing of it stays" "" "$(adb shell 'ls -A /data/local/tmp/ferry/.tmp 2>/dev/null')"
check_equal "the facts are there" "6700247040 41 30.5 34" \
    "$(jq -r '.facts | "\(.memory_available_bytes) \(.zones[0].celsius | floor) \(.battery_celsius) \(.sdk)"' <<<"$json")"
doctor -d "$w"
check_equal "with a workspace" 0 $status
check "its memory is named" grep -q 'the workspace takes 0...* GB' <<<"$(of memory found)"
check_equal "it is not there yet" "note: 'ferry push' puts it there" "$(of workspace): $(of workspace remedy)"
table=$("$ferry" doctor -d "$w" 2>/dev/null)
check_equal "the table has a line for each" "$(jq '.checks | length' <<<"$json")" "$(grep -cE '^(ok|note|warning|fail) ' <<<"$table")"
check_equal "of at most 100 columns" "" "$(awk 'length > 100' <<<"$table")"
check "push" "$ferry" push "$w"
doctor -d "$w"
check_equal "then it is there" ok "$(of workspace)"

# --- ills --------------------------------------------------------------------------------------------------------------
cp -r "$root/fake" "$TMP/fake"
cp "$root/system/build.prop" "$TMP/build.prop"
heal() {
    cp -r "$TMP/fake/." "$root/fake/"
    cp "$TMP/build.prop" "$root/system/build.prop"
    phone_set
}
prop() { sed -i "s/^$1=.*/$1=$2/" "$root/system/build.prop"; }
ill() { # NAME CHECK VERDICT STATUS PATTERN [OPTION...]
    local name=$1 which=$2 want=$3 code=$4 pattern=$5
    shift 5
    doctor "$@"
    check_equal "$name: verdict and exit status" "$want $code" "$(of "$which") $status"
    check "$name: what and what to do" grep -qE -- "$pattern" <<<"$(of "$which" found); $(of "$which" remedy)"
    heal
}
printf 'MemTotal: 2000000 kB\nMemAvailable: 20000 kB\n' >"$root/fake/meminfo"
ill "no free memory" memory fail 3 'takes .*; take a smaller model' -d "$w"
printf 'MemTotal: 30000 kB\nMemAvailable: 25000 kB\n' >"$root/fake/meminfo"
ill "too little memory" memory fail 3 'smaller context' -d "$w"
: >"$root/fake/meminfo"
ill "unknown memory" memory note 0 'does not say' -d "$w"
echo 96000 >"$root/fake/sys/class/thermal/thermal_zone0/temp"
ill "a hot chip" thermal warning 0 'chip 96 .*let it cool'
echo skin-therm >"$root/fake/sys/class/thermal/thermal_zone0/type"
echo 47500 >"$root/fake/sys/class/thermal/thermal_zone0/temp"
ill "a hot skin" thermal warning 0 'skin 48 .*let it cool'
echo 9 >"$root/fake/sys/class/power_supply/battery/capacity"
ill "a low battery" battery warning 0 '9 %, Discharging.*charge it'
echo 9 >"$root/fake/sys/class/power_supply/battery/capacity"
echo Charging >"$root/fake/sys/class/power_supply/battery/status"
ill "a low battery that is charged" battery ok 0 '9 %, Charging'
prop ro.product.cpu.abi x86_64
prop ro.product.cpu.abilist x86_64
ill "no ARM" abi fail 5 'x86_64; .*64-bit ARM'
prop ro.product.cpu.abi x86_64
prop ro.product.cpu.abilist x86_64,arm64-v8a
ill "translated ARM" abi warning 0 'translated'
prop ro.build.version.sdk 23
prop ro.build.version.release 6.0.1
ill "an old Android" android fail 5 'Android 6.0.1 .*update the phone'
sed -i 's/ asimddp//' "$root/fake/cpuinfo"
ill "an old CPU" cpu warning 0 'without dotprod.*slower'
phone_set noexec=1
ill "no programs in /data/local/tmp" execute fail 5 '[Pp]ermission denied.*adb.s user'

if phone_can_limit; then
    phone_start small 3m
    doctor -d "$w"
    check_equal "a full phone: verdict and exit status" "fail 3" "$(of storage) $status"
    check "a full phone: what and what to do" grep -q 'make room' <<<"$(of storage remedy)"
    PHONE_NAME=phone
    ANDROID_SERIAL=127.0.0.1:$(cat "$TMP/phones/phone/port")
else
    skip "a full phone" "no user namespaces here"
fi

# --- the NPU and quirks ------------------------------------------------------------------------------------------------
touch "$root/vendor/lib64/libcdsprpc.so" "$root/vendor/lib64/libQnnHtpV75Stub.so"
doctor
check_equal "NPU libraries are found" "SM8650 has V75; libcdsprpc.so is there, and the maker's own libQnn" "$(of npu found)"
cat >"$root/system/bin/pm" <<'SH'
#!/system/bin/sh
echo package:com.termux
SH
cat >"$root/system/bin/dumpsys" <<'SH'
#!/system/bin/sh
[ "$1" = thermalservice ] && echo 'Thermal Status: 3'
exit 0
SH
chmod 755 "$root/system/bin/pm" "$root/system/bin/dumpsys"
check_equal "plan asks the phone for its chip" "SM8650" "$("$FERRY" plan tests/data/tales --device --json 2>"$TMP/asked" | jq -r .soc.name)"
check "and says what it has" grep -qE '^the phone has SM8650 and [0-9.]+ GB of memory$' "$TMP/asked"
check_equal "whose memory counts" "$("$FERRY" doctor --json 2>/dev/null | jq .facts.memory_total_bytes)" \
    "$("$FERRY" plan tests/data/tales --device --json -q | jq .options.memory_bytes)"
prop ro.soc.model MT6989
check_status "a chip without a Hexagon is refused" 1 "'MT6989' is not Qualcomm's but MediaTek's" "$FERRY" plan tests/data/tales --device
prop ro.soc.model SA8295P
prop ro.product.manufacturer HONOR
prop ro.build.version.release 13
doctor
check_equal "quirks of the chip, the maker, the version and Termux are notes without a workspace" \
    "note note note note" "$(of sa8295-power) $(of honor-3b) $(of android-15-sessions) $(of termux)"
check "they say what to do" grep -q POWERSERVE_ENABLE_HTPRPCPOLL <<<"$(of sa8295-power remedy)"
check_equal "Android's own thermal status counts" "warning" "$(of thermal)"
doctor -d "$w"
check_equal "what needs the NPU or a large model is no matter of this workspace" "" "$(of sa8295-power)$(of honor-3b)"
mkdir -p "$TMP/config/ferry"
cat >"$TMP/config/ferry/quirks.json" <<'JSON'
[{"id": "termux", "package": ["com.*"], "verdict": "warning", "found": "ours"},
 {"id": "mine", "model": ["emulated*"], "android_from": 13, "verdict": "fail", "found": "mine\u001b[31m", "remedy": "do it"}]
JSON
XDG_CONFIG_HOME=$TMP/config doctor
check_equal "the user's table replaces and adds" "warning ours fail 5" "$(of termux) $(of termux found) $(of mine) $status"
check_equal "control characters are shown" 'mine\x1b[31m' "$(of mine found)"
check "the table can be listed" grep -q '^mine: fail model=emulated\* android>=13' <<<"$(XDG_CONFIG_HOME=$TMP/config "$ferry" doctor --list-quirks)"
echo '[{"id": "x", "found": "y", "verdict": "bad"}]' >"$TMP/config/ferry/quirks.json"
check_status "what is wrong in it is named" 1 "quirks.json: .*verdict: 'bad', expected note, warning or fail" \
    env XDG_CONFIG_HOME="$TMP/config" "$ferry" doctor
heal

# --- no phone ----------------------------------------------------------------------------------------------------------
check_status "no workspace" 2 'is not a workspace' "$ferry" doctor -d tests/data/tales
check_status "another phone" 5 'nophone' "$ferry" doctor -s nophone
phone_set unauthorized=1
adb disconnect >/dev/null
adb connect "$ANDROID_SERIAL" >/dev/null 2>&1
check_status "a phone that does not trust this machine" 5 'unauthorized|authorized|debugging' "$ferry" doctor
phone_stop
adb disconnect >/dev/null 2>&1
check_status "no phone at all" 5 'phone|device' env -u ANDROID_SERIAL "$ferry" doctor
finish
