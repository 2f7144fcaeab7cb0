#!/usr/bin/env bash
# The first ten minutes of somebody who comes from ollama, from llama.cpp, from adb: what the fingers type works, or the
# refusal names a command of ferry that is there. All at a terminal.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/hub_lib.sh
. tests/hub_lib.sh

commit=0123456789abcdef0123456789abcdef01234567
files=$hub/files/bo/tales-GGUF/$commit
mkdir -p "$files"
"$FERRY" convert tests/data/tales --outtype q4_0 -q -o "$files/tales-Q4_0.gguf"
"$FERRY" convert tests/data/tales --outtype q8_0 -q -o "$files/tales-Q8_0.gguf"
"$FERRY" convert tests/data/tales --outtype f16 -q -o "$TMP/f16.gguf"
describe bo/tales-GGUF $commit main
start_hub
m=$files/tales-Q4_0.gguf
cd "$TMP" || exit 1
root=$OLDPWD
FERRY=$(realpath "$root/$FERRY")
export XDG_STATE_HOME=$TMP/state TERM=xterm
# at_terminal SCRIPT ARGS...: ferry at a pseudo-terminal, by a script of pty_drive; what it wrote goes to $TMP/seen
at_terminal() {
    printf '%b\n' "$1" >"$TMP/script"
    shift
    "$root"/build/host/release/tests/e2e/pty_drive -o "$TMP/seen" "$TMP/script" "$FERRY" "$@"
}
works() { # NAME ARGS...
    local name=$1
    shift
    check "$name" at_terminal 'end 0' "$@"
}
# points NAME STATUS ARGS...: refused, and every 'ferry VERB' that the refusal names is a verb
points() {
    local name=$1 status=$2 verbs v
    shift 2
    at_terminal "end $status" "$@" 2>"$TMP/why" || { not_ok "$name" "$(cat "$TMP/why" "$TMP/seen")" && return; }
    verbs=$(grep -o "'ferry [a-z][a-z]*" "$TMP/seen" | sed 's/.* //' | sort -u)
    [ -n "$verbs" ] || { not_ok "$name" "names no command: $(cat "$TMP/seen")" && return; }
    for v in $verbs; do
        "$FERRY" "$v" --help >/dev/null 2>&1 || { not_ok "$name" "'ferry $v' is not a command" && return; }
    done
    ok "$name"
}

# --- from ollama ---
points "ollama: pull NAME" 5 pull llama3.2
points "ollama: run NAME" 1 run llama3.2 'Who are you?'
points "ollama: run NAME:TAG" 1 run llama3.2:1b 'Who are you?'
check "ollama: run of a repository asks, fetches and answers: one command" at_terminal \
    'wait ?\nline y\nwait Q4_0\nline \nend 0' run bo/tales-GGUF 'Tell me a story about a brave girl named Mia and an owl.' --temp 0
check "ollama: the answer is there" grep -q 'Once upon a time' "$TMP/seen"
works "ollama: and again, from the cache" run bo/tales-GGUF 'Who are you?' -n 8
works "ollama: list" list
check "ollama: list shows the model" grep -q 'bo/tales-GGUF' "$TMP/seen"
check "ollama: chat, /bye" at_terminal 'wait >\nline Hello.\nwait >\nline /bye\nend 0' chat bo/tales-GGUF -n 8
for c in 'ls' 'show bo/tales-GGUF' 'ps' 'stop bo/tales-GGUF' 'cp a b' 'create mine -f Modelfile'; do
    # shellcheck disable=SC2086
    points "ollama: $c" 2 $c
done
check "ollama: rm asks" at_terminal 'wait ?\nline y\nend 0' rm bo/tales-GGUF
check_status "ollama: and then it is gone, and how to get it is said" 1 "'ferry fetch bo/tales-GGUF'" "$FERRY" chat bo/tales-GGUF -p Hi

# --- from llama.cpp ---
works "llama.cpp: -m -p -n" run -m "$m" -p 'Once upon a time' -n 8
works "llama.cpp: --seed, --temp, --top-k" run -m "$m" -p 'Once upon a time' -n 8 --temp 0.8 --top-k 40 --seed 42
works "llama.cpp: -hf" run -hf bo/tales-GGUF:Q4_0 --fetch -p 'Once upon a time' -n 8
points "llama.cpp: options without a verb" 2 -m "$m" -p Hi
check_status "llama.cpp: -ngl" 2 'there is no GPU to choose.*leave it out' "$FERRY" run -m "$m" -p Hi -ngl 99
points "llama.cpp: -cnv" 2 run -m "$m" -cnv
points "llama.cpp: server" 2 server -m "$m"
points "llama.cpp: perplexity" 2 perplexity -m "$m"
works "llama.cpp: quantize IN OUT Q4_K_M" quantize f16.gguf q4_k_m.gguf Q4_K_M
works "llama.cpp: bench -p -n" bench -m "$m" -p 16 -n 4 -r 1
works "llama.cpp: tokenize" tokenize -m "$m" 'Once upon a time'
works "llama.cpp: a conversation in one call" chat -m "$m" -p 'Who are you?' -n 8

# --- from adb ---
for c in devices shell install logcat; do
    points "adb: $c" 2 $c
done
check_status "adb: push of a model says what goes to a phone" 2 'workspace' "$FERRY" push "$m"
check_status "adb: pull without a phone says how to connect one" 5 'USB debugging' "$FERRY" pull /data/local/tmp/x
check_status "adb: -s is the phone, as adb has it" 5 'phone' "$FERRY" run -s emulator-5554 -m "$m" -p Hi
works "adb: help" help
works "adb: version" version
stop_hub
finish
