#!/usr/bin/env bash
# chat --device at a terminal: editing, commands, history and files are this machine's, the phone computes.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

PTY=${PTY:-build/host/release/tests/e2e/pty_drive}
there=/data/local/tmp/ferry
exact=(--temp 0 -ctk f32 -ctv f32)
endless=(-c 300000 --logit-bias "764=-inf" --logit-bias "767=-inf")
FERRY_EXE_PATH=$(realpath "${FERRY_ARM##* }")
export FERRY_EXE_PATH XDG_CACHE_HOME=$TMP/cache XDG_STATE_HOME=$TMP/state TERM=xterm
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$TMP/tales.gguf"
"$FERRY" create "$TMP/tales.gguf" -o "$TMP/tales" --exe-path "$FERRY_EXE_PATH" --no-parity -q
phone_start
"$FERRY" push "$TMP/tales" -q
root=$(phone_root)
ferry=$(realpath "$FERRY")

# talk NAME STATUS ARGUMENT...: plays the script on standard input, which has to end with that status
talk() {
    local name=$1
    shift
    cat >"$TMP/script"
    check "$name" "$PTY" -o "$TMP/seen" "$TMP/script" "$ferry" chat --device "$@"
}
at_most() { [ "$1" -le "$2" ] || { echo "$1 > $2" && false; }; }
runs_there() { adb shell 'ps -A -o ARGS 2>/dev/null || ps' | grep 'ferry chat --json' | grep -v grep | wc -l; }

# --- the front is here ---------------------------------------------------------------------------------------------------
PTY=$(realpath "$PTY")
cd "$TMP" || exit 1
mkdir -p notes
talk "a conversation, edited, saved and loaded here" -d tales "${exact[@]}" <<'EOF2'
wait tales
wait tokens of context
wait > 
send Tell me a story about a brave girl named Miaxx
send \x7f\x7f and an owl.\r
wait full of joy.
wait > 
line /tokens
wait of 1024 tokens
wait > 
line /save notes/talk.json
wait 2 messages saved to notes/talk.json
wait > 
line Who is the story about?
wait It is about a girl named Mia.
wait > 
line /undo
wait taken back
wait > 
line /params temp 0.5
wait temp
wait 0.5
wait > 
line /params temper
wait did you mean 'temp'
wait > 
line /params temp 0
wait > 
line /reset
wait a new conversation
wait > 
line /load notes/talk.json
wait 2 messages loaded
wait > 
line Who is the story about?
wait It is about a girl named Mia.
wait > 
line /sav\t
wait > 
line /regen
wait It is about a girl named Mia.
wait > 
send \e[A
wait /regen
send \x03
wait > 
send \x04
end 0
EOF2
check_equal "the file is here, with the conversation" "user assistant" "$(jq -r '.messages[].role' notes/talk.json | xargs)"
check_equal "and nothing of it on the phone" "" "$(find "$root" -name 'talk.json*')"
check "the history is here" grep -q 'Who is the story about' "$TMP/state/ferry/history"
check_equal "the answers are those of this machine" "$(jq -r '.messages[-1].content' notes/talk.json)" \
    "$("$ferry" chat -m tales.gguf "${exact[@]}" -p 'Tell me a story about a brave girl named Mia and an owl.' 2>/dev/null)"
nothing_runs_there() { [ "$(runs_there)" = 0 ]; }
check "the program there ends with the chat" wait_for 120 nothing_runs_there
talk "a model file and a system message" -m tales.gguf "${exact[@]}" -n 8 --system 'You tell tales.' -q <<'EOF2'
wait > 
line /system
wait You tell tales.
wait > 
line Tell me a tale.
wait (cut off after 8 tokens
wait > 
line /quit
end 0
EOF2
"$ferry" chat -m tales.gguf "${exact[@]}" -p 'Tell me a tale.' --system 'You tell tales.' -n 8 -q >here 2>/dev/null
check "which counts" grep -qF -- "$(head -c 20 here)" seen

talk "a full context, which the phone finds" -d tales "${exact[@]}" -c 256 <<'EOF2'
wait > 
line Tell me a story about a brave girl named Mia and an owl.
wait full of joy.
wait > 
line Tell me a story about a brave girl named Mia and an owl.
wait the context is full
wait > 
line Who is the story about?
wait oldest messages
wait It is about
wait > 
line /save notes/long.json
wait 6 messages saved
wait > 
line /tokens
wait of 256 tokens
wait > 
send \x04
end 0
EOF2

# --- Ctrl-C ----------------------------------------------------------------------------------------------------------------
talk "Ctrl-C stops an answer and not the chat" -d tales "${endless[@]}" <<'EOF2'
wait > 
line Tell me a tale.
wait a tale.
wait  a 
send \x03
wait (stopped; Ctrl-C again leaves)
wait > 
line /tokens
wait of 300000 tokens
wait > 
line And on.
wait  a 
send \x03
wait (stopped
wait > 
send \x03
end 130
EOF2
talk "Ctrl-C while the model is loaded ends it" -d tales -v <<'EOF2'
wait on the phone
send \x03
end 130
EOF2

# --- what goes wrong ---------------------------------------------------------------------------------------------------------
talk "a model that does not fit ends it with that status" -d tales -c 2000000000 <<'EOF2'
wait memory
end 3
EOF2
cat >"$TMP/steps" <<'EOF2'
wait > 
line Tell me a tale.
wait a tale.
wait  a 
wait error:
wait the conversation is kept here
wait > 
line /save notes/kept.json
wait saved to
wait > 
send \x04
end 0
EOF2
phone_set drop_after=20000
check "a lost cable is reported, the conversation is not lost" "$PTY" -c 300 -o "$TMP/seen" "$TMP/steps" "$ferry" chat --device -d tales "${endless[@]}"
phone_set
phone_wait
cat >kill_it <<EOF2
for pid in \$(pgrep -f 'ferry chat --json'); do # on this test's phone
    grep -q "$root" "/proc/\$pid/maps" 2>/dev/null && kill -9 "\$pid"
done
true
EOF2
cat >"$TMP/steps" <<'EOF2'
wait > 
line Tell me a tale.
wait  a 
shell sh ./kill_it
wait error:
wait the conversation is kept here
wait > 
line Tell me a tale.
wait starting the program on the phone again
wait  a 
send \x03
wait (stopped
wait > 
send \x04
end 0
EOF2
check "a program that ends is started again" "$PTY" -c 300 -o "$TMP/seen" "$TMP/steps" "$ferry" chat --device -d tales "${endless[@]}"

# --- a hostile program ------------------------------------------------------------------------------------------------------
esc=$'\e]0;x\a\e[31m'
cp -r tales "$root$there/odd"
says() { # EVENT...: the program on the phone writes these lines, waiting for one of ours after each
    {
        echo '#!/system/bin/sh'
        echo "echo 'words $esc' >&2"
        for event; do printf "printf '%%s\\\\n' '%s'; read -r x\n" "$event"; done
        echo 'exit 7'
    } >"$root$there/odd/bin/ferry"
}
ready='{"event":"ready","model":"m","template":"t","context_size":100}'
refuses() { # NAME TEXT EVENT: what follows the first message
    says "$ready" "$3"
    printf 'wait > \nline hello\nwait %s\nwait > \nsend \\x04\nend 0\n' "$2" >"$TMP/steps"
    check "$1" "$PTY" -o "$TMP/seen" "$TMP/steps" "$ferry" chat --device -d odd
    check_equal "and nothing acts on the terminal" "" "$(LC_ALL=C grep -aoP '\x1b\]|\x07|\x1b\[31m|\xc2[\x80-\x9f]' "$TMP/seen" | head -3 | od -An -c)"
}
refuses "what is not an event is refused" 'expected an event' "out $esc"
refuses "a token's text is escaped" 'x1b]0;x' $'{"event":"token","id":1,"text":"\\u001b]0;x\\u0007\\u009b"}\n{}'
refuses "an event out of place" 'has no place here' "$ready"
refuses "an error's text is escaped" 'x1b' '{"event":"error","message":"bad \u001b[31m","status":1}'
refuses "numbers have ranges" 'expected an event' '{"event":"token","id":99999999999,"text":"a"}'
says "hello"
printf 'wait expected an event\nend 5\n' >"$TMP/steps"
check "it has to begin with ready" "$PTY" -o "$TMP/seen" "$TMP/steps" "$ferry" chat --device -d odd
printf '#!/system/bin/sh\ncat /dev/zero | tr "\\0" a\n' >"$root$there/odd/bin/ferry"
printf '#!/system/bin/sh\nwhile :; do printf "%%01000000d" 1; done\n' >"$root$there/odd/bin/ferry"
printf 'wait a line of more than\nend 5\n' >"$TMP/steps"
check "a line that never ends is cut" "$PTY" -o "$TMP/seen" "$TMP/steps" "$ferry" chat --device -d odd
printf '#!/system/bin/sh\nexit 3\n' >"$root$there/odd/bin/ferry"
printf 'end 3\n' >"$TMP/steps"
check "its exit status is ours" "$PTY" -o "$TMP/seen" "$TMP/steps" "$ferry" chat --device -d odd
finish
