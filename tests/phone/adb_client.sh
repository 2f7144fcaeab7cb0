#!/usr/bin/env bash
# ferry's adb client (workspace/phone/adb.h, driven by tests/phone/adb_try.c) through the real adb server against the emulated
# phone: the script of real_adb.sh, then what can go wrong.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh
TRY=${ADB_TRY:-build/host/release/tests/phone/adb_try}
PTY=${PTY:-build/host/release/tests/e2e/pty_drive}

# --- the server ------------------------------------------------------------------------------------------------------
# phone_server's own settings, without its server: the client starts one.
export ANDROID_ADB_SERVER_PORT
ANDROID_ADB_SERVER_PORT=$(phone_free_port)
check_status "without adb the client says how to install it" 5 "apt install adb" \
    env PATH=/nowhere HOME="$TMP" ANDROID_HOME= ANDROID_SDK_ROOT= "$TRY" shell true

phone_start
adb kill-server
check_equal "the client starts the server" "" "$("$TRY" devices)"
check_status "no phone: what to do" 5 "no phone has the serial 127.0.0.1:[0-9]+|no phone is connected" "$TRY" shell true
check_status "and without a serial" 5 "no phone is connected: switch on USB debugging" env -u ANDROID_SERIAL "$TRY" shell true
check "the phone is connected" phone_wait
check_equal "and listed" "$ANDROID_SERIAL|device|emulated|Emulated_Phone|emulated" "$("$TRY" devices)"

# --- what real_adb.sh does -------------------------------------------------------------------------------------------
check_equal "commands run as arm64" aarch64 "$("$TRY" shell 'uname -m')"
for how in shell stream; do
    status=0
    "$TRY" $how 'echo out; echo err >&2; exit 7' >"$TMP/out" 2>"$TMP/err" </dev/null || status=$?
    check_equal "$how: exit status, output and errors come back apart" "7 out err" "$status $(cat "$TMP/out") $(cat "$TMP/err")"
done
check_equal "standard input arrives" "some words" "$(echo some words | "$TRY" stream cat)"
check_equal "getprop answers" SM8650 "$("$TRY" shell 'getprop ro.soc.model')"
check_equal "exec is raw" "$(printf 'a\r\n\0b' | od -c)" "$("$TRY" exec 'printf "a\r\n\0b"' </dev/null | od -c)"
head -c 3000000 /dev/urandom >"$TMP/file"
sum=$(sha256sum <"$TMP/file")
check_equal "exec takes input" "$sum" "$("$TRY" exec 'head -c 3000000 | sha256sum' <"$TMP/file")"
check_equal "so does a stream, to its end" "$sum" "$("$TRY" stream sha256sum <"$TMP/file")"
check_equal "a stream carries much" "$sum" "$("$TRY" stream cat <"$TMP/file" | sha256sum)"
check "a file is pushed" "$TRY" push "$TMP/file" /data/local/tmp/dir/file
check_equal "with its mode and time" "100644 3000000 $(stat -c %Y "$TMP/file") /data/local/tmp/dir/file" \
    "$("$TRY" stat /data/local/tmp/dir/file)"
check_equal "and is listed" "100644 3000000 $(stat -c %Y "$TMP/file") file" "$("$TRY" list /data/local/tmp/dir)"
check "and pulled" "$TRY" pull /data/local/tmp/dir/file "$TMP/back"
check "unchanged" cmp "$TMP/file" "$TMP/back"
check "the real client finds the same" test "$(adb shell 'sha256sum < /data/local/tmp/dir/file' | tr -d '\r')" = "$sum"
: >"$TMP/empty"
check "an empty file is pushed" "$TRY" push "$TMP/empty" /data/local/tmp/empty
check_equal "and is there" 0 "$("$TRY" stat /data/local/tmp/empty | cut -d' ' -f2)"
check_equal "what is not there has no mode" "0 0 0 /data/local/tmp/nothing" "$("$TRY" stat /data/local/tmp/nothing)"
check_status "what is not there cannot be pulled" 5 "reading /data/local/tmp/nothing: the phone says: open failed: No such file" \
    "$TRY" pull /data/local/tmp/nothing "$TMP/none"
check_equal "a refusal leaves the connection usable" "100644 0" \
    "$("$TRY" twice /data/local/tmp/nothing /data/local/tmp/empty | cut -d' ' -f1,2)"
check "the arm64 program is pushed" "$TRY" push build/aarch64/release/ferry /data/local/tmp/ferry
check_equal "and runs" ferry "$("$TRY" shell '/data/local/tmp/ferry --version' | cut -d' ' -f1)"
word="it's a \$HOME \"x\" \\ ; rm -rf * ~"
check_equal "words are quoted" "$word" "$("$TRY" quote "$word")"
port=$("$TRY" forward 0 7777)
check_equal "a port is forwarded" "$ANDROID_SERIAL tcp:$port tcp:7777" "$(adb forward --list | head -1)"
check "and not any more" "$TRY" unforward "$port"
check_status "only once" 5 "forwarded port $port: the adb server says 'listener" "$TRY" unforward "$port"

# --- terminal and interrupts -----------------------------------------------------------------------------------------
GRACE=60 "$TRY" stream 'trap "echo got it; exit 9" INT; echo begin; while :; do sleep 0.1; done' >"$TMP/trapped" 2>&1 </dev/null &
pid=$!
wait_for 120 grep begin "$TMP/trapped"
interrupt $pid
check_equal "Ctrl-C reaches the command, whose status comes back" "9 begin got it" "$status $(xargs <"$TMP/trapped")"
# A file of its own: the "begin" of the one before would let the interrupt come before its handler is there.
GRACE=0.5 "$TRY" stream 'trap "" INT; echo begin; while :; do sleep 0.1; done' >"$TMP/stubborn" 2>&1 </dev/null &
pid=$!
wait_for 120 grep begin "$TMP/stubborn"
interrupt $pid
check_equal "one that ignores it is cut off" "130 1" "$status $(grep -c 'did not end within 0.5 s' "$TMP/stubborn")"
cat >"$TMP/keys" <<'EOF'
resize 24 80
wait 24 80
resize 33 44
line next
wait 33 44
wait begin
send \x03
wait got it
end 9
EOF
# shellcheck disable=SC2016
check "a terminal: its size, changes of it, Ctrl-C" "$PTY" "$TMP/keys" "$TRY" tty \
    'until [ "$(stty size)" = "24 80" ]; do sleep 0.1; done; stty size; read x; stty size
     trap "echo got it; exit 9" INT; echo begin; while :; do sleep 0.1; done'

# --- faults ----------------------------------------------------------------------------------------------------------
phone_set chunk=1
check_equal "short reads change nothing" "a b c" "$("$TRY" shell 'echo a b c')"
phone_set exit_lost=1
check_status "a lost exit status is an error" 5 "running 'true': no exit status came: connection lost" "$TRY" shell true
check_status "of a stream too" 5 "no exit status came: connection lost" "$TRY" stream true </dev/null
phone_set full_after=1000000
check_status "a full phone is distinguished" 6 "writing /data/local/tmp/full: the phone says: .*No space left on device" \
    "$TRY" push "$TMP/file" /data/local/tmp/full
phone_set
failed=0
soak 20 100
for i in $(seq "$rounds"); do
    # Half of them while the conversation begins, the others anywhere in the file.
    at=$((1 + (RANDOM * 32768 + RANDOM) % (i % 2 == 0 ? 300 : 2900000)))
    phone_set drop_after=$at
    status=0
    case $((i / 2 % 3)) in
    0) "$TRY" push "$TMP/file" /data/local/tmp/cut ;;
    1) "$TRY" pull /data/local/tmp/dir/file "$TMP/cut" ;;
    2) "$TRY" stream 'cat /data/local/tmp/dir/file' </dev/null ;;
    esac >/dev/null 2>"$TMP/err" || status=$?
    if [ $status -ne 5 ] || ! grep -q 'connection lost' "$TMP/err"; then
        failed=$((failed + 1))
        echo "# cut after $at bytes: status $status, $(cat "$TMP/err")" >&2
    fi
    phone_set
    phone_wait || break
done
check_equal "of $rounds connections cut at random bytes each is reported" 0 $failed
check "the next push works" "$TRY" push "$TMP/file" /data/local/tmp/cut
check_equal "and is whole" "$sum" "$("$TRY" shell 'sha256sum < /data/local/tmp/cut')"
phone_set features=cmd,stat_v2
adb disconnect >/dev/null
check "a phone without shell v2 connects" phone_wait
check_status "and is refused" 5 "no shell v2: .*Android 7" "$TRY" shell true
phone_set features=shell_v2,cmd
adb disconnect >/dev/null
check "a phone without stat v2 connects" phone_wait
check_equal "and is looked at the old way" "100644 3000000 $(stat -c %Y "$TMP/file") /data/local/tmp/dir/file" \
    "$("$TRY" stat /data/local/tmp/dir/file)"
phone_set unauthorized=1
adb disconnect >/dev/null
adb connect "$ANDROID_SERIAL" >/dev/null 2>&1
unauthorized() { adb devices | grep -q unauthorized; }
wait_for 120 unauthorized
check_status "an unauthorized phone is distinguished" 5 "phone $ANDROID_SERIAL: unauthorized: .*accept 'Allow USB debugging\?'" "$TRY" shell true
phone_set
adb disconnect >/dev/null
check "and usable once it is not" phone_wait

# --- two phones ------------------------------------------------------------------------------------------------------
first=$ANDROID_SERIAL
phone_start second
second=$ANDROID_SERIAL
check_status "one of two has to be chosen" 5 "2 phones are connected: .*$first \(Emulated_Phone\).*choose one with -s SERIAL or ANDROID_SERIAL" \
    env -u ANDROID_SERIAL "$TRY" shell true
for serial in "$first" "$second"; do
    "$TRY" -s "$serial" shell "echo $serial > /data/local/tmp/name"
done
check_equal "-s chooses" "$first $second" "$("$TRY" -s "$first" shell 'cat /data/local/tmp/name') $(ANDROID_SERIAL=$first "$TRY" -s "$second" shell 'cat /data/local/tmp/name')"
check_equal "ANDROID_SERIAL too" "$first" "$(ANDROID_SERIAL=$first "$TRY" shell 'cat /data/local/tmp/name')"
check_status "an unknown serial lists what is there" 5 "no phone has the serial nobody; connected: .*$second" "$TRY" -s nobody shell true
finish
