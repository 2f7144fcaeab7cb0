#!/usr/bin/env bash
# The runtime's verbs with --device: the same verb on the phone, its output, exit status, input, interrupts and terminal.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

ARM=${DEVICE_EXE:-build/aarch64/release/ferry}
PTY=${PTY:-build/host/release/tests/e2e/pty_drive}
golden=tests/data/tales/golden.json
exact=(--temp 0 -ctk f32 -ctv f32)
ferry=$(realpath "$FERRY")
w=$TMP/tales

check "tales converts" "$ferry" convert tests/data/tales --outtype f32 -o "$TMP/tales.gguf"
check "create makes a workspace" "$ferry" create "$TMP/tales.gguf" -o "$w" --exe-path "$ARM"
phone_start
check "push puts it on the phone" "$ferry" push "$w"

# --- the golden conversation ---------------------------------------------------------------------------------------
jq -r '.chat[].messages[-1].content' $golden >"$TMP/questions"
jq -r '.chat[].text' $golden >"$TMP/answers"
check_equal "the golden conversation, from the phone" "$(cat "$TMP/answers")" \
    "$("$ferry" chat --device -d "$w" "${exact[@]}" <"$TMP/questions" 2>"$TMP/words")"
check_equal "without a word beside it" "" "$(cat "$TMP/words")"
check_equal "with --device=SERIAL and the name on the phone" "$(head -1 "$TMP/answers")" \
    "$(env -u ANDROID_SERIAL "$ferry" chat --device="$ANDROID_SERIAL" -d tales "${exact[@]}" <<<"$(head -1 "$TMP/questions")")"
check_equal "with --serial" "$(head -1 "$TMP/answers")" \
    "$("$ferry" chat --serial "$ANDROID_SERIAL" -d /data/local/tmp/ferry/tales "${exact[@]}" <<<"$(head -1 "$TMP/questions")")"

# --- run, tokenize, template, eval ---------------------------------------------------------------------------------
story=(-d "$w" -n 12 "${exact[@]}")
check_equal "run gives what it gives here" "$("$ferry" run "${story[@]}" -p 'Once upon a time' 2>/dev/null)" \
    "$("$ferry" run --device "${story[@]}" -p 'Once upon a time' 2>"$TMP/words")"
check "its line of times is on stderr" grep -q 'generated 12 tokens' "$TMP/words"

# the same model in chunks: an own workspace, on the phone beside the other
check "it is cut" "$ferry" chunk "$TMP/tales.gguf" --chunks 3 --batch 16,1 -c 512 -q -o "$TMP/cut"
check "and packaged" "$ferry" create "$TMP/cut" -o "$TMP/tales-cut" --exe-path "$ARM" --no-parity -q
check "pushed" "$ferry" push -q "$TMP/tales-cut"
check_equal "graph after graph gives the same there" "$("$ferry" run "${story[@]}" -p 'Once upon a time' 2>/dev/null)" \
    "$("$ferry" run --device -d "$TMP/tales-cut" "${story[@]:2}" -p 'Once upon a time' 2>"$TMP/words")"
check "and says what ran it" grep -q '| chunks$' "$TMP/words"

text=$'One "day", a\t$HOME `id`\n\'brave\' \\n *? ; & | größer 小'
check_equal "any text arrives as it is" "$("$ferry" run "${story[@]}" -p "$text" --print-ids 2>/dev/null)" \
    "$("$ferry" run --device "${story[@]}" -p "$text" --print-ids 2>/dev/null)"
check_equal "standard input is the prompt" "$("$ferry" run "${story[@]}" -f - <<<"$text" 2>/dev/null)" \
    "$("$ferry" run --device "${story[@]}" -f - <<<"$text" 2>/dev/null)"
printf '%s' "$text" >"$TMP/a prompt's file"
check_equal "a file goes along" "$("$ferry" run "${story[@]}" -f "$TMP/a prompt's file" 2>/dev/null)" \
    "$("$ferry" run --device "${story[@]}" -f "$TMP/a prompt's file" 2>/dev/null)"
check "an output file comes back" "$ferry" run --device "${story[@]}" -p 'Once' --logits-out "$TMP/there"
"$ferry" run "${story[@]}" -p 'Once' --logits-out "$TMP/here" >/dev/null 2>&1
check "the same as here" cmp "$TMP/here" "$TMP/there"
check_equal "nothing of it stays on the phone" "" "$(adb shell 'ls -A /data/local/tmp/ferry/.tmp 2>/dev/null')"
check_equal "tokens are the same" "$("$ferry" tokenize -m "$w" --json -- "$text")" \
    "$("$ferry" tokenize --device -m "$w" --json -- "$text")"
check_equal "tokens of standard input too" "$("$ferry" tokenize -m "$w" <"$TMP/questions")" \
    "$("$ferry" tokenize -s "$ANDROID_SERIAL" -m "$w" <"$TMP/questions")"
"$ferry" convert tests/data/families/llama3 --vocab-only -q -o "$TMP/vocab.gguf"
check "a small model goes along, and so does the program when there is not a workspace" env FERRY_EXE_PATH="$ARM" \
    "$ferry" tokenize --device -m "$TMP/vocab.gguf" --verify tests/data/families/llama3/golden.json
jq -c '.chat[0].messages' $golden >"$TMP/messages.json"
check_equal "the prompt of a conversation is the same" \
    "$("$ferry" template -m "$w" --messages "$TMP/messages.json" --template-arg 'x={"a": "b c"}')" \
    "$("$ferry" template --device -m "$w" --messages "$TMP/messages.json" --template-arg 'x={"a": "b c"}')"
check_equal "nothing but the program is needed for a list" "$("$ferry" template --list)" \
    "$(FERRY_EXE_PATH=$ARM "$ferry" template --device --list)"
"$ferry" convert tests/data/families/llama --outtype f32 -q -o "$TMP/tiny.gguf"
check "another workspace" "$ferry" create "$TMP/tiny.gguf" -o "$TMP/tiny" --exe-path "$ARM" --no-parity
check "pushed" "$ferry" push "$TMP/tiny"
tiny=$(realpath "$TMP"/tiny/*/ggml/weights.gguf)
check "eval finds what the reference found" "$ferry" eval --device -m "$tiny" --golden tests/data/families/llama/golden.safetensors
check_equal "bench measures there what was asked for" "0 4 1,0 4 2" \
    "$("$ferry" bench --device -m "$tiny" -p 0 -n 4 -t 1,2 -r 1 -o jsonl 2>/dev/null | jq -r '"\(.n_prompt) \(.n_gen) \(.n_threads)"' | paste -sd,)"
check_equal "what only this machine has stays here" "$(head -1 "$TMP/answers")" \
    "$(FERRY_NO_HISTORY=1 "$ferry" chat -s "$ANDROID_SERIAL" -d tales "${exact[@]}" <<<"$(head -1 "$TMP/questions")")"
check_equal "a variable here counts there" "$(FERRY_N_PREDICT=3 "$ferry" run -d "$w" -p Once --print-ids 2>/dev/null | wc -w)" \
    "$(FERRY_N_PREDICT=3 "$ferry" run --device -d "$w" -p Once --print-ids 2>/dev/null | wc -w)"
check_equal "a loop's input is left to the loop" "ab" \
    "$(printf 'a\nb\n' | while read -r x; do
        "$ferry" run --device "${story[@]}" -n 1 -p "$x" >/dev/null 2>&1
        printf %s "$x"
    done)"

# --- another runtime ---------------------------------------------------------------------------------------------------
mkdir "$TMP/runtime"
printf '#!/system/bin/sh\n[ "$4" != size ] || trap "exit 130" INT\n[ "$4" != size ] || while :; do stty size; sleep 1; done\nfor x; do printf "%%s|" "$x"; done; pwd; cat\n' >"$TMP/runtime/talk"
chmod +x "$TMP/runtime/talk"
check "a workspace with another runtime" "$ferry" create "$TMP/tales.gguf" -o "$TMP/theirs" --no-parity \
    --exe-path "$TMP/runtime" --exec 'A=1 bin/talk -d .'
check "is pushed" "$ferry" push "$TMP/theirs"
check_equal "run starts it in its directory, with what was given" "-d|.|-p|it's|-n|5|--temp|0|/data/local/tmp/ferry/theirs" \
    "$("$ferry" run --device -d "$TMP/theirs" -p "it's" -n 5 --temp 0 -q 2>/dev/null | sed 's,/.versions/theirs-.*,/theirs,')"
check "it is said" grep -q "runs A=1 bin/talk -d ." <<<"$("$ferry" run --device -d theirs -p x 2>&1 >/dev/null)"

printf 'wait \\n\nresize 31 97\nwait 31 97\nsend \\x03\nend 130\n' >"$TMP/script"
check "the size of the terminal is known there, and Ctrl-C typed here ends it" env TERM=xterm "$PTY" "$TMP/script" \
    "$ferry" run --device -d theirs -p size

# --- exit status ---------------------------------------------------------------------------------------------------
check_status "usage of the phone's program" 2 'no prompt' "$ferry" run --device -d "$w"
check_status "a full context" 3 'context is full' "$ferry" run --device -d "$w" -p Once -n 100 -c 20 --ignore-eos
check_status "a comparison that fails" 4 '' "$ferry" eval --device -m "$tiny" \
    --golden tests/data/families/llama/golden.safetensors --tolerance 0
check_status "a bad option is found here" 2 "did you mean --threads" "$ferry" run --device --thread 2
check_status "no such workspace" 5 "no workspace 'nothing' on the phone; push it first" "$ferry" run --device -d nothing -p x
check_status "two phones" 2 'name two phones' "$ferry" run --device=a -s b -d "$w" -p x
check_status "no such phone" 5 'nophone' "$ferry" run --device=nophone -d "$w" -p x
check_status "a file that is not there" 1 'missing' "$ferry" run --device -d "$w" -f missing
check_status "a checkpoint does not go along" 2 'neither a file nor a workspace' \
    "$ferry" tokenize --device -m tests/data/tales x
truncate -s 65M "$TMP/large"
check_status "nor does a large file" 2 'larger than the 64 MiB' "$ferry" run --device -d "$w" -f "$TMP/large"
cp -r "$w" "$TMP/elsewhere"
mkdir "$TMP/other"
check "another version" "$ferry" create "$TMP/tales.gguf" "$TMP/tales.gguf" -o "$TMP/other/tales" --exe-path "$ARM"
check_status "another version has to be pushed first" 5 'another version of tales .*push it first: ferry push' \
    "$ferry" run --device -d "$TMP/other/tales" -p x
check_status "a workspace that was never pushed" 5 "no workspace 'elsewhere' on the phone; push it first: ferry push .*elsewhere" \
    "$ferry" run --device -d "$TMP/elsewhere" -p x
phone_set exit_lost=1
check_status "a lost exit status is a failure" 5 'exit status' "$ferry" run --device "${story[@]}" -p x
phone_set

# --- Ctrl-C and the terminal ---------------------------------------------------------------------------------------
endless=(-c 300000 -n 300000 --ignore-eos --temp 0)
"$ferry" run --device -d "$w" -p Once "${endless[@]}" >"$TMP/out" 2>"$TMP/err" &
pid=$!
wait_for 120 test -s "$TMP/out"
interrupt $pid
check_equal "Ctrl-C ends the phone's program, whose status it is" 130 $status
check "what was made is shown" grep -q 'generated' "$TMP/err"
check_equal "nothing runs on" "" "$(adb shell 'ps -A -o ARGS 2>/dev/null || ps' | grep 'ferry run --work' | grep -v grep)"

# (the prompt is drawn once more after the resize: what follows the end of the answer is the next one)
printf 'wait >\nresize 31 97\nline Tell me a tale about a brave prince.\nwait joy.\nwait >\nsend \\x04\nend 0\n' >"$TMP/script"
check "a chat at the terminal" env TERM=xterm "$PTY" -o "$TMP/transcript" "$TMP/script" \
    "$ferry" chat --device -d "$w" "${exact[@]}"
printf 'wait >\nline Tell me a tale.\nwait a tale.\nwait  \nsend \\x03\nwait >\nsend \\x04\nend 0\n' >"$TMP/script"
check "Ctrl-C stops an answer there" env TERM=xterm "$PTY" -o "$TMP/transcript" "$TMP/script" \
    "$ferry" chat --device -d "$w" -c 300000 --logit-bias 764=-inf --logit-bias 767=-inf
finish
