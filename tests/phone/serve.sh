#!/usr/bin/env bash
# serve --device: a server on the phone, reached through a forwarded port; how it ends, and what it leaves.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

FERRY_EXE_PATH=$(realpath "${FERRY_ARM##* }")
export FERRY_EXE_PATH XDG_CACHE_HOME=$TMP/cache
ferry=$(realpath "$FERRY")
there=/data/local/tmp/ferry
secret=geheim$$
exact=(-ctk f32 -ctv f32)
ask='{"prompt":"Once upon a time","n_predict":24,"temperature":0}'
endless='{"prompt":"Once upon a time","n_predict":300000,"ignore_eos":true,"temperature":0,"stream":true}'
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$TMP/tales.gguf"
"$FERRY" create "$TMP/tales.gguf" -o "$TMP/tales" --exe-path "$FERRY_EXE_PATH" --no-parity -q 2>/dev/null
story=$("$FERRY" run -m "$TMP/tales.gguf" -p 'Once upon a time' -n 24 --temp 0 "${exact[@]}" 2>/dev/null)
phone_start
root=$(phone_root)
cd "$TMP" || exit 1

# start NAME OPTION...: the command in the background; sets $pid, and $url when it listens. Its stderr is NAME.
start() {
    local name=$1
    shift
    : >"$name"
    "$ferry" serve --device --port 0 "${exact[@]}" "$@" 2>"$name" &
    pid=$!
    wait_for 120 listens_or_gone "$name"
    url=$(sed -n 's/^listening on \(http:[^ ]*\) .*/\1/p' "$name")
}
listens_or_gone() { grep -q '^listening on http:' "$1" || is_gone "$pid"; } # NAME
ended() { # sets $status, that of the command, which has to end
    wait_for 120 is_gone "$pid" || kill -KILL "$pid"
    status=0
    wait "$pid" || status=$?
}
servers() { # the processes of servers on this test's phone
    pgrep -f 'ferry[^ ]* serve --host=127.0.0.1' | while read -r p; do
        tr '\0' ' ' <"/proc/$p/cmdline" | grep -qE '^[^ ]*qemu-aarch64 .*-0 /data/[^ ]* /data/[^ ]* serve ' &&
            grep -q "$root" "/proc/$p/maps" 2>/dev/null && echo "$p"
    done
}
no_servers() { [ -z "$(servers)" ]; }
none_left() { wait_for 120 no_servers || { servers && false; }; }
state() { cat "$root$there/.serve" 2>/dev/null; }

# --- options ---------------------------------------------------------------------------------------------------------------
check_status "a workspace has to be pushed" 5 'push it first' "$ferry" serve --device -d tales
"$ferry" push tales -q
check_status "TLS is refused by name" 2 '--ssl-cert-file does not go with --device' "$ferry" serve --device -d tales --ssl-cert-file /dev/null
check_status "and so is another address" 2 '--host does not go with --device' "$ferry" serve --device -d tales --host 0.0.0.0
check_status "a server needs a model" 2 'no model' "$ferry" serve --device
check_status "--detach is for the phone" 2 '--detach is for the server on a phone' "$ferry" serve -m tales.gguf --detach
check_status "nothing runs that could be ended" 5 'no server of ferry runs there' "$ferry" serve --device --shutdown
check_status "what does not fit ends with that status" 3 'memory' "$ferry" serve --device -d tales --port 0 -c 2000000000
"$ferry" serve -m tales.gguf --port 0 -q 2>taken &
other=$!
wait_for 120 grep listening taken
port=$(sed -n 's/.*://p' taken)
check_status "a port that is taken is found before anything is loaded" 1 "port $port of this machine is taken" \
    "$ferry" serve --device -d tales --port "$port"
kill "$other"
check "and nothing has run there" none_left

# --- a server and its end ------------------------------------------------------------------------------------------------------
start first -d tales --api-key "$secret"
check "the address is printed, with the phone" grep -qx "listening on http://127.0.0.1:[0-9]* ($ANDROID_SERIAL)" first
check "the plan of the phone's program appears here" grep -q 'KV cache: 512 positions\|KV cache: ' first
key=(-H "x-api-key: $secret")
check_equal "an answer is that of this machine" "$story" "$(curl -s "$url/completion" "${key[@]}" -d "$ask" | jq -r .content)"
check_equal "a stream arrives" "$story" \
    "$(curl -sN "$url/completion" "${key[@]}" -d "${ask%\}},\"stream\":true}" | sed -n 's/^data: //p' | jq -rj '.content // empty')"
check_equal "the key counts" 401 "$(curl -s -o /dev/null -w '%{http_code}' "$url/props")"
check_equal "and is in no command line" "" "$(ps ax -o args | grep "$secret" | grep -v grep)"
check_equal "nor left on the phone" "" "$(grep -rl "$secret" "$root/data" 2>/dev/null)"
check "the state file is its user's alone" test "$(stat -c %a "$root$there/.serve")" = 600
check "metrics have the phone's temperatures" \
    grep -qx 'ferry_thermal_celsius{zone="cpu-1-0-0"} 41' <(curl -s "$url/metrics" "${key[@]}")
check_status "a second server is refused" 5 'a server runs there already' "$ferry" serve --device -d tales --port 0
curl -sN "$url/completion" "${key[@]}" -d "${endless/300000/60}" >running &
client=$!
wait_for 120 test -s running
kill -INT "$pid"
ended
check_equal "Ctrl-C ends it with 0" 0 "$status"
wait "$client"
check "after the running answer" grep -q '"stop":true' running
check "no process is left there" none_left
check_equal "no forward" "" "$(adb forward --list | xargs)"
check_equal "and no file" "" "$(state; ls "$root$there/.tmp" 2>/dev/null)"

start second -d tales -c 300000
: >running
curl -sN "$url/completion" -d "$endless" >running &
wait_for 120 test -s running
kill -INT "$pid"
check "a signal waits for the answer" wait_for 120 grep 'requests are finished first' second
kill -INT "$pid"
ended
check_equal "a second signal ends it at once" 130 "$status"
check "no process is left there" none_left

start model -m tales.gguf -q
check_equal "a model file is sent, as for the other verbs" "$story" "$(curl -s "$url/completion" -d "$ask" | jq -r .content)"
check_equal "-q shows the address only" 1 "$(wc -l <model)"
kill -TERM "$pid"
ended
check_equal "SIGTERM ends it too" 0 "$status"
check "no process is left there" none_left

# --- what goes wrong -------------------------------------------------------------------------------------------------------------
phone_set lets_live=1
start lost -d tales
adb disconnect "$ANDROID_SERIAL" >/dev/null
ended
check_equal "a lost cable ends the command" 5 "$status"
check "and is reported" grep -q 'connection lost.*ends with the connection' lost
check "the server has ended by itself" none_left
check "and cleaned up" wait_for 120 test ! -e "$root$there/.serve"
phone_set
phone_wait

start killed -d tales
for p in $(servers); do kill -KILL "$p"; done
ended
check_equal "a server that the phone kills" 5 "$status"
check "is reported as that" grep -q 'exit status 137.*too little memory' killed

echo 96000 >"$root/fake/sys/class/thermal/thermal_zone0/temp"
start hot -d tales
wait_for 120 grep 'is hot' hot
check "a hot phone is reported" grep -q 'is hot (chip 96 °C) and computes slower' hot
kill -INT "$pid"
ended
check_equal "and serves" 0 "$status"
echo 41000 >"$root/fake/sys/class/thermal/thermal_zone0/temp"

esc=$'\e]0;x\a'
mkdir -p "$root$there/odd/bin"
cp tales/workspace.json tales/manifest.json "$root$there/odd/"
printf '#!/system/bin/sh\necho "%s words"\necho "listening on http://127.0.0.1:99999"\nexit 7\n' "$esc" >"$root$there/odd/bin/ferry"
chmod 755 "$root$there/odd/bin/ferry"
check_status "another program's lines and status" 7 'words' "$ferry" serve --device -d odd --port 0

# --- --stay-on -------------------------------------------------------------------------------------------------------------------
echo 2 >"$root/.setting-stay_on_while_plugged_in"
start awake -d tales --stay-on
check_equal "--stay-on keeps the phone awake" 7 "$(cat "$root/.setting-stay_on_while_plugged_in")"
kill -INT "$pid"
ended
check_equal "until the end" 2 "$(cat "$root/.setting-stay_on_while_plugged_in")"
start awake2 -d tales --stay-on
for p in $(servers); do kill -KILL "$(awk '{ print $4 }' "/proc/$p/stat")" "$p"; done # and the shell that waits for it
ended
check_equal "a shell that was killed cannot undo it" 7 "$(cat "$root/.setting-stay_on_while_plugged_in")"
start after -d tales
check_equal "the next server does" 2 "$(cat "$root/.setting-stay_on_while_plugged_in")"
kill -INT "$pid"
ended

# --- --detach ----------------------------------------------------------------------------------------------------------------------
start away -d tales --detach --api-key "$secret"
ended
check_equal "--detach returns" 0 "$status"
check "with the address" test -n "$url"
check "and the process" grep -q 'process [0-9]* on the phone runs on' away
check_equal "the server answers" "$story" "$(curl -s "$url/completion" "${key[@]}" -d "$ask" | jq -r .content)"
check_equal "no key in its command line" "" "$(ps ax -o args | grep "$secret" | grep -v grep)"
before=$(servers)
adb disconnect "$ANDROID_SERIAL" >/dev/null
sleep 1
phone_wait
check_equal "it outlives the cable" "$before" "$(servers)"
check_status "another one is refused" 5 'with another model or other options' "$ferry" serve --device -d tales --port 0 -c 64 --detach
start again -d tales --detach --api-key "$secret"
ended
check_equal "the same one is reached again" 0 "$status"
check "with a message" grep -q 'runs there already' again
check_equal "and answers" "$story" "$(curl -s "$url/completion" "${key[@]}" -d "$ask" | jq -r .content)"
check "--shutdown ends it" "$ferry" serve --device --shutdown
check "no process is left there" none_left
check_equal "no forward, no file" "" "$(adb forward --list | xargs; state)"

start away2 -d tales --detach
ended
cp "$root$there/.serve" kept
sleep 600 &
bystander=$!
sed -i "1s/^[0-9]*/$bystander/" "$root$there/.serve"
check_status "a number that another program has is not taken for the server" 5 'no server of ferry runs there' "$ferry" serve --device --shutdown
check "and that program goes on" kill -0 "$bystander"
kill "$bystander"
cp kept "$root$there/.serve"
for p in $(servers); do kill -KILL "$p"; done
wait_for 120 grep "^exit" "$root$there/.serve"
check_status "why a detached one died is said" 5 'of the last one: the phone killed it' "$ferry" serve --device --shutdown
check_status "a detached one that does not fit" 3 'memory' "$ferry" serve --device -d tales --port 0 --detach -c 2000000000
check "leaves nothing" none_left
finish
