#!/usr/bin/env bash
# ferry chat: the golden conversation word for word and id for id, its cache, events, a full context, thinking, errors,
# and a user at a pseudo-terminal (tests/e2e/pty_drive.c plays the keys).
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

PTY=${PTY:-build/host/release/tests/e2e/pty_drive}
golden=tests/data/tales/golden.json
m=$TMP/tales.gguf
exact=(--temp 0 -ctk f32 -ctv f32)
never_ends=(-c 300000 --logit-bias "764=-inf" --logit-bias "767=-inf") # the two tokens that end an answer
export HOME=$TMP/home XDG_STATE_HOME=$TMP/state TERM=xterm
unset XDG_CONFIG_HOME FERRY_CONFIG NO_COLOR LC_ALL LC_CTYPE LANG
mkdir -p "$HOME"

$FERRY convert tests/data/tales --outtype f32 -o "$m" 2>/dev/null || not_ok "the demo model converts"
jq -r '.chat[].messages[-1].content' $golden >"$TMP/questions"
jq -r '.chat[].text' $golden >"$TMP/answers"
chat() { "$FERRY" chat -m "$m" "${exact[@]}" "$@"; }

# --- the golden conversation --------------------------------------------------------------------------------------

chat --json --show-prompt <"$TMP/questions" >"$TMP/events" 2>"$TMP/words" || not_ok "chat --json succeeds"
of() { jq -c "select(.event == \"$1\") | $2" "$TMP/events"; } # EVENT FILTER
check_equal "every answer is the golden one" "$(cat "$TMP/answers")" "$(of answer .text | jq -r .)"
check_equal "the ids of every prompt are the golden ones" "$(jq -c '.chat[].input_ids' $golden)" "$(of prompt .ids)"
check_equal "the ids of every answer are the golden ones" "$(jq -c '.chat[].output_ids[:-1]' $golden)" "$(of answer .ids)"
check_equal "every answer ends by itself" '"stop" "stop" "stop" "stop"' "$(of answer .stop | xargs -d '\n')"
# What a turn computes: all but the prompt and the answer before it, whose end token was never computed.
check_equal "a turn computes only its own tokens" \
    "$(jq -c '[.chat[].input_ids | length] as $p | [.chat[].output_ids | length - 1] as $a |
        [range(4)] | map(if . == 0 then 0 else $p[. - 1] + $a[. - 1] end)' $golden)" \
    "$(of answer .timing.cached_tokens | jq -sc .)"
check_equal "the second turn computes 27 tokens" 27 \
    "$(of answer '.timing.prompt_tokens - .timing.cached_tokens' | sed -n 2p)"
check_equal "token events make up the answers" "$(jq -r '.chat[].text' $golden | tr -d '\n')" \
    "$(of token .text | jq -j .)"
check_equal "the context used is reported" "$(jq -c '.chat[-1] | (.input_ids | length) + (.output_ids | length) - 1' $golden)" \
    "$(of answer .context_used | tail -1)"
check_equal "the first event says what is there" '["ready",1024]' "$(jq -c '[.event,.context_size]' "$TMP/events" | head -1)"

check_equal "lines in, lines out" "$(cat "$TMP/answers")" "$(chat <"$TMP/questions" 2>/dev/null)"
check_equal "lines in, lines out, on arm64" "$(cat "$TMP/answers")" \
    "$($FERRY_ARM chat -m "$m" "${exact[@]}" <"$TMP/questions" 2>/dev/null)"
check_equal "a last line needs no newline, empty lines are no messages" "$(head -1 "$TMP/answers")" \
    "$(printf '\n  \n%s' "$(head -1 "$TMP/questions")" | chat 2>/dev/null)"
check "--verbose tells what came from the cache" grep -q 'prompt 173 tokens (146 from the cache)' \
    <<<"$(chat -v <"$TMP/questions" 2>&1 >/dev/null)"
check_equal "without it stderr is empty" "" "$(chat <"$TMP/questions" 2>&1 >/dev/null)"
check_equal "the same seed gives the same answers" "$(chat --temp 1 --seed 7 -t 1 <"$TMP/questions" 2>/dev/null)" \
    "$(chat --temp 1 --seed 7 -t 2 <"$TMP/questions" 2>/dev/null)"
check_equal "--show-prompt shows it on stderr" "$(jq -r '.chat[0].messages[0].content' $golden)" \
    "$(head -1 "$TMP/questions" | chat -q --show-prompt 2>&1 >/dev/null | sed -n 's/<|eot_id|>.*//; /^Tell/p')"

# --- stop strings -------------------------------------------------------------------------------------------------

chat --json --stop ', the' --stop zebra <"$TMP/questions" >"$TMP/events" 2>/dev/null
first_answer=$(head -1 "$TMP/answers")
check_equal "--stop ends an answer before a string" "${first_answer%%, the*}" "$(of answer .text | jq -r . | head -1)"
check_equal "the event tells which" '["string",", the"]' "$(of answer '[.stop, .stop_string]' | head -1)"
check_equal "nothing of it was sent" "${first_answer%%, the*}" "$(sed '/"answer"/q' "$TMP/events" | jq -j 'select(.event == "token").text')"
check_equal "and the chat goes on" 4 "$(of answer .text | wc -l)"
check_equal "the conversation has the text before it" "${first_answer%%, the*}" \
    "$(head -2 "$TMP/questions" | chat --json --show-prompt --stop ', the' 2>/dev/null |
        jq -sr 'map(select(.event == "prompt"))[1].text | split("assistant<|end_header_id|>\n\n")[1] | split("<|eot_id|>")[0]')"

# --- one message --------------------------------------------------------------------------------------------------

check_equal "-p answers one message and exits" "$first_answer" "$(chat -p "$(head -1 "$TMP/questions")" 2>&1 </dev/null)"
check_equal "it reads nothing from standard input" "$(sed -n 2p "$TMP/questions")" \
    "$({ chat -p "$(head -1 "$TMP/questions")" >/dev/null 2>&1; cat; } < <(sed -n 2p "$TMP/questions"))"
check_equal "its events are those of a line" '"ready" "answer"' \
    "$(chat --json -p '{"role": "x"}' -n 2 2>/dev/null | jq -c 'select(.event != "token").event' | xargs -d '\n')"
check_equal "a newline in its answer stays one" $'\\\n.' \
    "$(chat --logit-bias 59+100 --logit-bias 198+150 --presence-penalty 100 --repeat-last-n 1 -n 2 -p hello 2>/dev/null; echo .)"
check_status "one that does not fit is an error" 3 'takes [0-9]+ tokens, the context has room for 8' chat -c 8 -p "$first_answer"
check_equal "run --chat applies the template" "$first_answer" \
    "$($FERRY run --chat -m "$m" -ctk f32 -ctv f32 -p "$(head -1 "$TMP/questions")" -n 300 2>/dev/null)"
check_equal "the same ids as chat" "$(jq -c '.chat[0].input_ids' $golden)" \
    "[$($FERRY run --chat -v -m "$m" -n 0 -p "$(head -1 "$TMP/questions")" 2>&1 | sed -n 's/^prompt ids: //p')]"
check_status "ids cannot be a message" 2 'not of ids' $FERRY run --chat -m "$m" --prompt-ids 1,2

# --- one line per answer ------------------------------------------------------------------------------------------

# A backslash (59), then a newline (198), whatever the model would like to say.
odd=$(chat --logit-bias 59+100 --logit-bias 198+150 --presence-penalty 100 --repeat-last-n 1 -n 2 <<<hello 2>/dev/null)
check_equal "backslash and newline in an answer are escaped" '\\\n' "$odd"
check_equal "printf %b shows it as it was" $'\\\n.' "$(printf '%b.' "$odd")"

# --- conversations as JSON ----------------------------------------------------------------------------------------

jq -c '.chat[2] | {messages}' $golden >"$TMP/in"
jq -c '{role: "user", content: .chat[3].messages[-1].content, name: "somebody"}' $golden >>"$TMP/in"
check_equal "a conversation and a message may be JSON" "$(tail -2 "$TMP/answers")" \
    "$(chat --json <"$TMP/in" | jq -r 'select(.event == "answer").text')"
printf '%s\n' '{"role":"user"' '{"role":"owl","content":"hu"}' '{"role":"user","content":"x"} y' '[1]' \
    '{"messages":[]}' "$(head -1 "$TMP/questions")" >"$TMP/in"
status=0
chat --json <"$TMP/in" >"$TMP/events" 2>"$TMP/words" || status=$?
check_equal "what is wrong is an event, and the program goes on" "$(head -1 "$TMP/answers")" "$(of answer .text | jq -r 'select(length > 60)')"
check_equal "two messages are not JSON" 2 "$(of error .message | grep -c 'the message: ')"
check_equal "the last failure is that of the program" 2 $status
check_equal "a system message counts" '"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"' \
    "$(printf '%s\n' '{"role":"system","content":"Be kind."}' hi | chat --json --show-prompt -n 1 |
        jq -c 'select(.event == "prompt").text | split("<|start_header_id|>user")[0]')"
printf 'Be kind.\n' >"$TMP/system"
check_equal "--system-prompt-file is --system-file" \
    "$(chat --json --show-prompt -n 1 --system 'Be kind.' <<<hi | jq -c 'select(.event == "prompt").text')" \
    "$(chat --json --show-prompt -n 1 --system-prompt-file "$TMP/system" <<<hi | jq -c 'select(.event == "prompt").text')"
check_equal "--system and --system-file are the same" \
    "$(chat --json --show-prompt -n 1 --system 'Be kind.' <<<hi | jq -c 'select(.event == "prompt").text')" \
    "$(chat --json --show-prompt -n 1 --system-file "$TMP/system" <<<hi | jq -c 'select(.event == "prompt").text')"
# commands about the model, which `chat --device` asks for
printf '%s\n' '{"command":"/params temp 0.5"}' '{"command":"/tokens","messages":[{"role":"user","content":"hi"}]}' '{"command":"/save x"}' \
    '{"command":"/params temp much"}' | chat --json -n 1 >"$TMP/events" 2>/dev/null || status=$?
check_equal "commands give what they show, and no answer" 'ready command command error error' "$(jq -r .event "$TMP/events" | xargs)"
check_equal "a value is set" 'temp 0.5' "$(jq -r 'select(.event == "command").text' "$TMP/events" | head -1 | xargs)"
check "tokens are counted" grep -qE '^[0-9]+ of 1024 tokens' <<<"$(jq -r 'select(.event == "command").text' "$TMP/events")"
check_equal "others are refused" '"command": expected /params or /tokens' "$(jq -r 'select(.event == "error").message' "$TMP/events" | head -1)"
check "nothing is written" bash -c '! [ -e x ]'

# --- the context --------------------------------------------------------------------------------------------------

status=0
out=$(chat -c 160 <"$TMP/questions" 2>"$TMP/words") || status=$?
check_equal "a nearly full context gives what fits" "$(head -1 "$TMP/answers")" "$out"
check "it is said" grep -q 'the context is nearly full, 14 of 160 tokens are left: ' "$TMP/words"
check "a full one is an error that names the remedy" \
    grep -q 'the conversation takes 173 tokens, the context has room for 160: .* -c' "$TMP/words"
check_equal "its exit status is 3" 3 $status
status=0
chat -c 100 --json <<<"$(head -1 "$TMP/questions")"$'\n'"Who?"$'\n{"messages":[]}\n'"$(head -1 "$TMP/questions")" \
    >"$TMP/events" 2>/dev/null || status=$?
check_equal "an answer that fills the context stops, and the next conversation goes on" '["context","error","context"]' \
    "$(jq -c 'select(.event == "answer" or .event == "error") | .stop // "error"' "$TMP/events" | jq -sc .)"
check_equal "the context was used to its end" 100 "$(of answer .context_used | head -1)"

chat -c 160 --on-full drop --json --show-prompt <"$TMP/questions" >"$TMP/events" 2>"$TMP/words" || not_ok "--on-full drop goes on"
check_equal "--on-full drop answers all" 4 "$(of answer .text | wc -l)"
check_equal "the oldest turn is hidden, which an event says" '2 false' "$(of hidden '[.messages, has("summary")] | join(" ")' | jq -r . | head -1)"
check_equal "the model sees what came after it" '[true,false]' \
    "$(of prompt .text | sed -n 2p | jq -c '[contains("Who is the story about?"), contains("Tell me a story")]')"
chat -c 160 --on-full drop <"$TMP/questions" >"$TMP/out" 2>"$TMP/words"
check_equal "lines have the same answers" "$(of answer .text | jq -r .)" "$(cat "$TMP/out")"
check "and a warning" grep -q 'the context is full: the 2 oldest messages are not seen by the model any more' "$TMP/words"
chat -c 256 --on-full summarize --json --show-prompt --system 'Be kind.' <"$TMP/questions" >"$TMP/events" 2>"$TMP/words" ||
    not_ok "--on-full summarize goes on"
check_equal "the model sees its summary in their place" true "$(jq -sc '(map(select(.event == "hidden"))[0].summary) as $s |
    map(select(.event == "prompt"))[2].text | contains("Be kind.") and contains($s) and
    contains("Which animal is in the story?") and contains("Summarize") and (contains("Tell me a story") | not)' "$TMP/events")"
check_equal "a summary takes an eighth of the context at most" true \
    "$(of hidden '.summary | length > 0 and length < 200' | head -1)"
yes "$first_answer" | head -5 | paste -sd' ' >"$TMP/huge"
status=0
{ head -1 "$TMP/questions"; cat "$TMP/huge"; echo '{"messages":[]}'; } | chat -c 160 --on-full drop --json >"$TMP/events" 2>/dev/null || status=$?
check_equal "a message that is too large alone is an error and hides nothing" '3 answer error' \
    "$status $(jq -r 'select(.event != "token" and .event != "ready").event' "$TMP/events" | xargs)"

# --- thinking -----------------------------------------------------------------------------------------------------

# A model that thinks: "Once upon a time" begins with <think> and goes on behind </think>. As text neither is one token.
mkdir "$TMP/thinker"
cp tests/data/tales/*.json tests/data/tales/model.safetensors "$TMP/thinker"
jq '.model.vocab |= with_entries(if .value == 408 then .key = "<think>" elif .value == 410 then .key = "</think>" else . end)
    | .model.merges |= map(select((.[0] + .[1]) as $t | $t != "Once" and $t != "\u0120time"))' \
    tests/data/tales/tokenizer.json >"$TMP/thinker/tokenizer.json"
tm=$TMP/thinker.gguf
$FERRY convert "$TMP/thinker" --outtype f32 -o "$tm" 2>/dev/null || not_ok "the thinker converts"
think() { "$FERRY" chat -m "$tm" "${exact[@]}" "$@"; }
first=$(head -1 "$TMP/questions")
story=$(head -1 "$TMP/answers")
check_equal "thinking does not reach a script" "${story#Once upon a time}" "$(think <<<"$first" 2>/dev/null)"
check_equal "--think show shows it as it is" "<think> upon a</think>${story#Once upon a time}" \
    "$(think --think show <<<"$first" 2>/dev/null)"
check_equal "--think fold counts it" "thought for 3 tokens\\n${story#Once upon a time}" "$(think --think fold <<<"$first" 2>/dev/null)"
think --json --show-prompt >"$TMP/events" 2>/dev/null <"$TMP/questions"
check_equal "events tell thinking apart" '[" upon a"," upon a"]' \
    "$(jq -sc '[map(select(.event == "answer"))[0].thinking, (map(select(.thinking == true and .event == "token").text) | add)]' \
        "$TMP/events")"
check_equal "a template that keeps thinking gets it back, with the ids that were generated" '[146,true]' \
    "$(jq -sc '[(map(select(.event == "answer"))[1].timing.cached_tokens),
        (map(select(.event == "prompt"))[1].text | contains("<think> upon a</think>"))]' "$TMP/events")"
cat >"$TMP/strips.jinja" <<'EOF'
{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content.split('</think>')[-1] | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% if open is defined %}<think>
{% endif %}{% endif %}
EOF
think --json --show-prompt --chat-template "$TMP/strips.jinja" >"$TMP/events" 2>/dev/null <"$TMP/questions"
check_equal "a template that strips it strips it" '[0,true]' \
    "$(jq -sc '[(map(select(.event == "prompt")) | map(select(.text | contains("think"))) | length),
        (map(select(.event == "answer"))[1].timing.cached_tokens < 60)]' "$TMP/events")"
chat --json --show-prompt --chat-template "$TMP/strips.jinja" --template-arg open=true -n 3 \
    <<<$'Hello.\nHello.' >"$TMP/events" 2>/dev/null
check_equal "a section that the prompt opens is thinking" '["",true,"length"]' \
    "$(of answer '[.text, (.thinking | length > 0), .stop]' | head -1)"
check_equal "and is whole in the next prompt" true \
    "$(jq -sc '(map(select(.event == "prompt"))) as $p | map(select(.event == "answer"))[0] as $a |
        $p[1].text | contains("<think>\n" + ($a.thinking | rtrimstr(" ")))' "$TMP/events")"

# --- errors -------------------------------------------------------------------------------------------------------

mkdir "$TMP/plain"
cp tests/data/tales/*.json tests/data/tales/model.safetensors "$TMP/plain"
jq 'del(.chat_template)' tests/data/tales/tokenizer_config.json >"$TMP/plain/tokenizer_config.json"
$FERRY convert "$TMP/plain" --outtype f32 -o "$TMP/plain.gguf" 2>/dev/null
check_status "a model without a template names --chat-template" 1 'chat-template' \
    "$FERRY" chat -m "$TMP/plain.gguf" </dev/null
check_status "run --chat does, too" 1 'chat template' "$FERRY" run --chat -p hi -m "$TMP/plain.gguf"
check_equal "--chat-template takes a built-in one" "$story" \
    "$("$FERRY" chat -m "$TMP/plain.gguf" "${exact[@]}" --chat-template llama3 <<<"$first" 2>/dev/null)"
check_status "no model is a usage error" 2 'no model: ' "$FERRY" chat
check_status "two models are one, too" 2 '-m|-d' "$FERRY" chat -m "$m" -d "$TMP"
check_status "a template that is none is named" 2 'nonesuch' "$FERRY" chat -m "$m" --chat-template nonesuch
check_status "two system messages are refused" 2 'exclude each other' "$FERRY" chat -m "$m" --system a --system-file "$TMP/system"
check_status "a bad template variable is refused" 2 'template|=' "$FERRY" chat -m "$m" --template-arg nothing
check_status "a template's own refusal is reported" 2 'unknown role: owl' \
    bash -c "echo '{\"role\":\"owl\",\"content\":\"x\"}
{\"role\":\"user\",\"content\":\"x\"}' | '$FERRY' chat --json -m '$m'"
check_status "a closed standard input is an error" 1 'standard input' bash -c "'$FERRY' chat -m '$m' <&-"
check_status "a closed pipe ends it" 1 'standard output' bash -c "'$FERRY' chat -m '$m' <'$TMP/questions' >&-"

# --- interrupts ---------------------------------------------------------------------------------------------------

goes_on() { awk '/"stop":"interrupted"/ { a = 1 } a && /"token"/ { b = 1 } END { exit !b }' "$TMP/events"; }
mkfifo "$TMP/keys"
"$FERRY" chat -m "$m" "${exact[@]}" --json "${never_ends[@]}" <"$TMP/keys" >"$TMP/events" 2>"$TMP/words" &
pid=$!
exec 3>"$TMP/keys"
echo "Tell me a story." >&3
wait_for 120 grep '"event":"token"' "$TMP/events"
kill -INT $pid
check "SIGINT stops an answer" wait_for 120 grep '"stop":"interrupted"' "$TMP/events"
echo '{"messages":[{"role":"user","content":"Hello."}]}' >&3
check "and the program goes on" wait_for 120 goes_on
kill -TERM $pid
status=0
wait $pid || status=$?
exec 3>&-
check_equal "SIGTERM ends it with 130" 130 $status

"$FERRY" chat -m "$m" "${exact[@]}" "${never_ends[@]}" <<<"Tell me a story." >"$TMP/out" 2>"$TMP/words" &
pid=$!
wait_for 120 grep Once "$TMP/out"
kill -INT $pid
status=0
wait $pid || status=$?
check_equal "SIGINT ends chat without a terminal" 130 $status
check_equal "the line that was begun is ended" "" "$(tail -c 1 "$TMP/out" | tr -d '\n')"

# --- at a terminal ------------------------------------------------------------------------------------------------

# play NAME [CHAT OPTION...] <SCRIPT    with PROGRAM in place of the program under test, m as the model
play() {
    local name=$1 program
    shift
    read -ra program <<<"${PROGRAM:-$FERRY}"
    cat >"$TMP/script"
    check "$name" "$PTY" "$TMP/script" "${program[@]}" chat -m "$m" "${exact[@]}" "$@"
}
# What `run` says of a model with a template, on a terminal alone.
printf 'wait this model has a chat template: --chat answers\nwait , there\nend 0\n' >"$TMP/script"
check "run on a terminal says that the model has a template" "$PTY" "$TMP/script" $FERRY run -m "$m" -p 'Once upon a time' -n 2
printf 'end 0\n' >"$TMP/script"
for words in '--chat -p Hi' '-q -p Hi' '-p <|start_header_id|>user<|end_header_id|>' '--prompt-ids 5,6'; do
    # shellcheck disable=SC2086
    "$PTY" -o "$TMP/seen" "$TMP/script" $FERRY run -m "$m" -n 2 $words
    check_equal "it does not with $words" 0 "$(grep -c template "$TMP/seen")"
done

save=$TMP/saved.json
said() { jq -r '.messages[] | select(.role == "user").content' "$save"; }

play "the golden conversation, typed" <<EOF
wait > 
line $first
wait full of joy.
wait > 
line $(sed -n 2p "$TMP/questions")
wait It is about a girl named Mia.
wait > 
line $(sed -n 3p "$TMP/questions")
wait There is an owl in the story.
wait > 
line Thank you!
wait You are welcome.
wait > 
line /tokens
wait of 1024 tokens
wait > 
line /save $save
wait 8 messages saved
wait > 
send \x04
end 0
EOF
check_equal "what it saved is the conversation" "$(jq -c '.chat[3] | .messages + [{role: "assistant", content: .text}]' $golden)" \
    "$(jq -c .messages "$save")"
check_equal "the history is its owner's alone" 600 "$(stat -c %a "$TMP/state/ferry/history")"

# The arrow keys, a character of several bytes and one of two columns taken back, a line that goes on, a block, a paste
# with a newline, a message that begins with a slash; all of it in a window that changes its size.
edit() { # LOCALE
    LC_ALL=$1 play "typing and editing, locale $1" -n 2 <<EOF
wait > 
send caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd
wait \xe5\xa5\xbd
send \x7f\x7f\x7f\x7fe noir\r
wait tokens: -n)
wait > 
line one \\\\
wait ... 
line two
wait tokens: -n)
wait > 
line """
wait ... 
line   a
wait ... 
line b"""
wait tokens: -n)
wait > 
send \e[200~pasted\rtext\r\e[201~
wait text
send !\r
wait tokens: -n)
wait > 
resize 30 40
send //slash
wait //slash
resize 50 132
send  and more\r
wait tokens: -n)
wait > 
send \e[A
wait and more
send \e[A
wait pasted
send \e[B
wait and more
send \x01\e[3~\e[3~a \x05!\r
wait tokens: -n)
wait > 
line /save $save
wait 12 messages saved
wait > 
line /quit
end 0
EOF
    check_equal "what was meant is what was sent, locale $1" \
        '["cafe noir","one \ntwo","  a\nb","pasted\ntext!","/slash and more","a slash and more!"]' \
        "$(jq -c '[.messages[] | select(.role == "user").content]' "$save")"
}
edit C
edit C.UTF-8

play "the history outlives the program" <<EOF
wait > 
send \e[A
wait /quit
send \e[A\e[A
wait a slash and more!
send \x04\x03
wait > 
send \x04
end 0
EOF
play "--no-history forgets" --no-history <<EOF
wait > 
send \e[Ax\r
wait > 
line /save $save
wait 2 messages saved
wait > 
send \x04
end 0
EOF
check_equal "nothing of it is kept" "x 0" "$(said) $(grep -c '^x$' "$TMP/state/ferry/history")"

# At 40, 80 and 200 columns: the first line fits, answers end their lines at words. What a transcript shows once words
# that were taken back (CSI n G, CSI K) are gone:
shown() {
    sed 's/\r//; s/\x1b\[?2004.//g' "$TMP/seen" | awk '{ while (match($0, /\033\[[0-9]+G\033\[K/)) {
        n = substr($0, RSTART + 2, RLENGTH - 6) - 1; $0 = substr($0, 1, n) substr($0, RSTART + RLENGTH) } print }'
}
long=$TMP/a-model-with-quite-a-long-name-that-would-not-fit-any-line-of-a-terminal-f32.gguf
ln -s "$m" "$long"
for columns in 40 80 200; do
    printf '%s\n' 'wait > ' "line $first" 'wait joy.' 'wait > ' 'send \x04' 'end 0' >"$TMP/script"
    check "a chat at $columns columns" "$PTY" -o "$TMP/seen" -c $columns "$TMP/script" "$FERRY" chat -m "$long" "${exact[@]}"
    shown >"$TMP/rows"
    check_equal "its first line fits $columns columns" 1 \
        "$(head -1 "$TMP/rows" | awk -v n=$columns 'length($0) < n && /f32.gguf/ && /\/help/' | wc -l)"
    sed -n '/Once upon/,/joy\.$/p' "$TMP/rows" | sed 's/.*\(Once upon\)/\1/' >"$TMP/answer"
    check_equal "no line of its answer is longer" 0 "$(awk -v n=$columns 'length($0) > n' "$TMP/answer" | wc -l)"
    check_equal "its lines are as full as words allow" 0 "$(awk -v n=$columns 'NR > 1 { split($0, w, " ")
        if (length(last) + 1 + length(w[1]) <= n) print } { last = $0; sub(/ $/, "", last) }' "$TMP/answer" | wc -l)"
    check_equal "no word of it is broken" "$story" "$(sed 's/ $//' "$TMP/answer" | paste -sd' ')"
done

# A hundred characters, in rows of 80, 40, 200 and 51 columns: drawn again from where they began.
hundred=$(printf '0123456789%.0s' {1..10})
play "a resized terminal is drawn again in place" <<EOF
wait > 
send ${hundred}Q
wait Q
resize 24 40
wait \r\e[2A\e[J> 0123456789
resize 24 200
wait \r\e[J> 0123456789
resize 24 51
wait \r\e[2A\e[J> 0123456789
wait Q
send \x01Z
wait Z
resize 24 80
wait \r\e[J> Z0123456789
send \x05\x15x
wait x
resize 24 40
wait \r\e[J> x
send \x7f\x04
end 0
EOF

play "commands" -n 8 <<EOF
wait > 
send /he\t\r
wait this list
wait > 
send /re\t
wait /reset  /regen
wait > /re
send g\t\r
wait no message to answer again
wait > 
line /rest
wait did you mean '/reset'?
wait > 
line /undo
wait no message to take back
wait > 
line /system Be kind.
wait the system message is set
wait > 
line /system
wait Be kind.
wait > 
line Hello.
wait tokens: -n)
wait > 
line /regen
wait tokens: -n)
wait > 
line Hello again.
wait tokens: -n)
wait > 
line /undo
wait taken back: Hello again.
wait > 
line /save $TMP/undone.json
wait 3 messages saved
wait > 
line /params
wait n-predict          8
wait temp               0
wait > 
line /params n 2
wait n-predict          2
wait > 
line /params temp 0.5
wait temp               0.5
wait > 
line /params temp warm
wait 'warm'
wait > 
line /params tmp 1
wait did you mean 'temp'?
wait > 
line /params seed 5
wait seed               5
wait > 
line /reset
wait a new conversation, with the same system message
wait > 
line /load $TMP/undone.json
wait 3 messages loaded
wait > 
line /load $m
wait error:
wait > 
line /tokens
wait 3 messages
wait > 
line /tokens now
wait /tokens takes no argument
wait > 
line /save
wait /save FILE
wait > 
line /quit
end 0
EOF
cat >"$TMP/editor" <<'EOF'
#!/bin/sh
test "$1" = -x && sed -i 's/Hello/Good morning/; $a and good night' "$2"
EOF
chmod +x "$TMP/editor"
printf 'line %s\\r' {1..100} >"$TMP/paste"
play "what guesses brought" -n 4 --spec lookup <<EOF
wait > 
line /stats
wait nothing was computed yet
wait > 
line Hello.
wait tokens: -n)
wait > 
line /stats
wait none: 2 steps, 
wait > 
line /quit
end 0
EOF
EDITOR="$TMP/editor -x" play "the names of others, an editor, a long paste" -n 4 --timings --system-prompt-file "$TMP/system" <<EOF
wait > 
line Hello.
wait peak memory
wait > 
line /regenerate
wait peak memory
wait > 
line /stats
wait no guesses: --spec makes them
wait > 
line /timings
wait times are not shown
wait > 
line /edit
wait tokens: -n)
wait > 
line /export $TMP/talk.md
wait 3 messages exported to
wait > 
send \e[200~/not a command\r\r\tx \\\\\r$(cat "$TMP/paste")\e[201~
wait line 100
send \r
wait tokens: -n)
wait > 
line /save $save
wait 5 messages saved
wait > 
line /bye
end 0
EOF
check_equal "what the editor wrote is what was sent" $'Good morning.\nand good night' "$(said | head -2)"
check_equal "a paste is one message" "103 /not a command" "$(jq -r '[.messages[] | select(.role == "user").content][1] | split("\n") |
    "\(length) \(.[0])"' "$save")"
check_equal "the export is Markdown" '## System Be kind. ## User Good morning. and good night ## Assistant' \
    "$(head -n 10 "$TMP/talk.md" | xargs)"
EDITOR=false play "an editor that fails changes nothing" -n 4 <<EOF
wait > 
line Hello.
wait tokens: -n)
wait > 
line /edit
wait false failed
wait > 
send \x04
end 0
EOF
EDITOR="" VISUAL="" play "without an editor the message stands in the line" -n 4 <<EOF
wait > 
send \e[200~Hello\rthere\e[201~
wait there
send \r
wait tokens: -n)
wait > 
line /edit
wait there
send !\r
wait tokens: -n)
wait > 
line /save $save
wait 2 messages saved
wait > 
send \x04
end 0
EOF
check_equal "what was sent takes its place" $'Hello\nthere!' "$(said)"
check_equal "undo leaves what was before" '["system","user","assistant"]' "$(jq -c '[.messages[].role]' "$TMP/undone.json")"

play "Ctrl-C stops an answer, the answer stays, Ctrl-C then leaves" "${never_ends[@]}" <<EOF
wait > 
line Tell me a story.
wait there was
send \x03
wait (stopped; Ctrl-C again leaves)
wait > 
line /save $save
wait 2 messages saved
wait > 
line Tell me another one.
wait there was
send \x03
wait (stopped; Ctrl-C again leaves)
wait > 
send \x03
wait interrupted
end 130
EOF
check "what was said of a stopped answer is in the conversation" grep -q 'Once upon a time, there was' "$save"
jq -nc '{messages: [{role: "user", content: ([range(25000)] | map("a") | join(" "))}]}' >"$TMP/long.json"
play "Ctrl-C before an answer has begun takes the message back" "${never_ends[@]}" <<EOF
wait > 
line /load $TMP/long.json
wait 1 message loaded
wait > 
line /regen
wait \e[?2004l
send \x03
wait (stopped before the answer began
wait > 
line /tokens
wait 1 messages
wait > 
send \x04
end 0
EOF
play "Ctrl-C at the prompt empties the line, reports it, leaves" <<EOF
wait > 
send abc
wait abc
send \x03
wait > 
send \x03
wait (Ctrl-C again leaves
wait > 
line /tokens
wait 0 of 1024 tokens
wait > 
send \x03
wait (Ctrl-C again leaves
wait > 
send \x03
end 130
EOF
play "Ctrl-C takes back a message of several lines" <<EOF
wait > 
line """half
wait ... 
send \x03
wait > 
send \x04
end 0
EOF
play "Ctrl-Z stops it, and it goes on where it was" -n 1 <<EOF
wait > 
send abc
wait abc
send \x1a
stopped
signal CONT
wait abc
send d\r
wait tokens: -n)
wait > 
line /save $save
wait 2 messages saved
wait > 
send \x04
end 0
EOF
check_equal "the line it was stopped in is whole" abcd "$(said)"
play "SIGTERM at the prompt ends it" <<EOF
wait > 
signal TERM
end 130
EOF
play "a full context drops the oldest turn and tells" -c 160 <<EOF
wait > 
line $first
wait full of joy.
wait > 
line Who is the story about?
wait (the context is full: the 2 oldest messages are not seen by the model any more)
wait > 
line /save $save
wait 4 messages saved
wait > 
send \x04
end 0
EOF
play "a full context is said, and the conversation stays usable" -c 160 --on-full stop <<EOF
wait > 
line $first
wait full of joy.
wait the context is nearly full, 14 of 160 tokens are left: /undo
wait > 
line Who is the story about?
wait error:
wait the conversation takes 173 tokens, the context has room for 160: /undo
wait > 
line /tokens
wait 2 messages
wait > 
line /reset
wait a new conversation
wait > 
line $first
wait full of joy.
wait > 
send \x04
end 0
EOF
play "/regen keeps the old answer when there is no new one" -c 160 <<EOF
wait > 
line /load $TMP/undone.json
wait 3 messages loaded
wait > 
line /params n -1
wait -1
wait > 
line /system $first $first $first $first $first $first $first $first $first
wait is set
wait > 
line /regen
wait error:
wait > 
line /save $save
wait 3 messages saved
wait > 
send \x04
end 0
EOF

m=$tm play "thinking is paler than the answer" <<EOF
wait > 
line $first
wait \e[2m<think> upon a</think>\e[0m, there was
wait > 
send \x04
end 0
EOF
NO_COLOR=1 m=$tm play "not so with NO_COLOR" <<EOF
wait > 
line $first
wait \e[?2004l<think> upon a</think>, there was
wait > 
send \x04
end 0
EOF
m=$tm play "thinking is folded" --think fold <<EOF
wait > 
line $first
wait thought for 3 tokens\e[0m\r\n, there was
wait > 
send \x04
end 0
EOF
TERM=dumb play "a dumb terminal does" <<EOF
wait > 
line $first
wait full of joy.
wait > 
send \x04
end 0
EOF

# The device build edits lines as the terminal does.
PROGRAM=$FERRY_ARM play "the device build at a terminal" "${never_ends[@]}" <<EOF
wait > 
send \x03
wait (Ctrl-C again leaves
wait > 
send caf\xc3\xa9
wait caf\xc3\xa9
send \x7fe\r
wait there was
send \x03
wait (stopped; Ctrl-C again leaves)
wait > 
line /params n 2
wait n-predict          2
wait > 
line one \\\\
wait ... 
line two
wait tokens: -n)
wait > 
line /save $save
wait 4 messages saved
wait > 
send \x04
end 0
EOF
check_equal "what was meant is what was sent there, too" '["cafe","one \ntwo"]' \
    "$(jq -c '[.messages[] | select(.role == "user").content]' "$save")"
finish
