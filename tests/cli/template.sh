#!/usr/bin/env bash
# The template verb's options, inputs and exit statuses.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

cat >"$TMP/t.jinja" <<'JINJA'
{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if tools %}<{{ tools | length }}>{% endif %}{% if add_generation_prompt %}[assistant]{% endif %}{{ eos_token }}{{ x }}
JINJA
cat >"$TMP/chat.json" <<'JSON'
[{"role": "user", "content": "héllo"}]
JSON
t() { "$FERRY" template --file "$TMP/t.jinja" "$@"; }

# --- one conversation ---
check_equal "a list of messages is rendered" "[user]héllo[assistant]" "$(t --messages "$TMP/chat.json")"
check_equal "standard input is a file too" "[user]héllo[assistant]" "$(t --messages - <"$TMP/chat.json")"
check_equal "an object carries tools and variables" "[user]a<1>7" \
    "$(t --messages - <<<'{"messages":[{"role":"user","content":"a"}],"tools":[{}],"extra":{"x":7},"add_generation_prompt":false}')"
echo '[{}, {}]' >"$TMP/tools.json"
check_equal "tools come from a file" "[user]héllo<2>[assistant]" "$(t --messages "$TMP/chat.json" --tools "$TMP/tools.json")"
check_equal "the words that begin an answer can be left out" "[user]héllo" \
    "$(t --messages "$TMP/chat.json" --no-generation-prompt)"
check_equal "without messages an example is shown" "[user]Hello[assistant]Hi there[user]How are you?[assistant]" "$(t)"
check_equal "tokens are given as text" "<s>[user]héllo[assistant]</s>" \
    "$(t --messages "$TMP/chat.json" --bos-token '<s>' --eos-token '</s>')"
check_equal "no newline is added" "$(printf '[user]h\303\251llo[assistant]' | od -c)" "$(t --messages "$TMP/chat.json" | od -c)"

arg() { t --messages "$TMP/chat.json" --no-generation-prompt --template-arg "$1" | sed 's/\[user\]héllo//'; }
check_equal "a variable is JSON where it reads as JSON" "3 3.0 [1, 'a'] x y " \
    "$(arg x=3) $(arg x=3.0) $(arg 'x=[1, "a"]') $(arg 'x=x y') $(arg x=null | sed 's/None//')"
check_equal "true and True are the constant" "True True" "$(arg x=true) $(arg x=True)"
check_equal "a string in quotes stays a string" "true" "$(arg 'x="true"')"
check_equal "an empty value is an empty text" "" "$(arg x=)"
check_equal "a large integer stays whole" "123456789012345678901234567890" "$(arg x=123456789012345678901234567890)"
check_status "a variable needs a name" 2 "expected KEY=VALUE" t --template-arg '=3'
check_status "and a value" 2 "expected KEY=VALUE" t --template-arg x

# --- which template ---
check_status "no template is a usage error" 2 'which template' "$FERRY" template
check_status "an unknown built-in names the nearest" 2 "nearest: llama3" "$FERRY" template --chat-template lama3
check "the built-in templates are listed" grep -q '^chatml ' <<<"$("$FERRY" template --list)"
for name in $("$FERRY" template --list | cut -d' ' -f1); do
    check "$name renders" "$FERRY" template --chat-template "$name"
done
check_equal "a built-in template by name" "<|im_start|>user
héllo<|im_end|>
<|im_start|>assistant" "$("$FERRY" template --chat-template chatml --messages "$TMP/chat.json")"
check_equal "or a file" "[user]héllo[assistant]" \
    "$("$FERRY" template --chat-template "$TMP/t.jinja" --messages "$TMP/chat.json")"
check_status "two templates are one too many" 2 'exclude' t --chat-template chatml
check_status "a missing file is named" 1 'no.jinja' "$FERRY" template --file "$TMP/no.jinja"

# --- of a model ---
out=$TMP/tales.gguf
check "a checkpoint converts" "$FERRY" convert tests/data/tales --vocab-only -o "$out"
want='<|begin_of_text|><|start_header_id|>user<|end_header_id|>

héllo<|eot_id|><|start_header_id|>assistant<|end_header_id|>'
check_equal "the model's template, with its BOS" "$want" "$("$FERRY" template -m "$out" --messages "$TMP/chat.json")"
check_equal "straight from the checkpoint" "$want" "$("$FERRY" template -m tests/data/tales --messages "$TMP/chat.json")"
ids=$("$FERRY" template -m "$out" --messages "$TMP/chat.json" --ids)
check_equal "the ids begin with one BOS" "763 765" "$(cut -d' ' -f1,2 <<<"$ids")"
check_equal "and are those of the text" "$("$FERRY" tokenize -m "$out" --no-bos "$want

")" "$ids"
check_equal "another format gets its BOS from the model" 763 \
    "$("$FERRY" template -m "$out" --chat-template chatml --ids | cut -d' ' -f1)"
check_status "ids need a vocabulary" 2 'needs a vocabulary' t --ids
check "the model's template is checked" "$FERRY" template -m "$out" --check

# --- a template that does not parse ---
printf '{%% if a %%}\nx {%% include "y" %%}{%% endif %%}' >"$TMP/bad.jinja"
check_status "what the language lacks is refused by line and column" 1 'bad.jinja: line 2, column [0-9]+: .*include' \
    "$FERRY" template --file "$TMP/bad.jinja" --check
printf '{%% if a %%}' >"$TMP/bad.jinja"
check_status "an open block is refused" 1 'bad.jinja: line 1' "$FERRY" template --file "$TMP/bad.jinja"
check "a good one is reported as one" grep -q 't.jinja: ok' <<<"$(t --check)"

# --- conversion ---
mkdir "$TMP/ck"
cp tests/data/tales/*.json "$TMP/ck"
printf 'a\n{%% extends "b" %%}' >"$TMP/ck/chat_template.jinja"
check_status "convert refuses such a template, with file and place" 1 'chat_template.jinja: .*line 2, column [0-9]+: .*extends.*--chat-template none' \
    "$FERRY" convert "$TMP/ck" --vocab-only -o "$TMP/ck.gguf"
check "and writes nothing" test ! -e "$TMP/ck.gguf"
check "convert leaves it out when told" "$FERRY" convert "$TMP/ck" --vocab-only --chat-template none -o "$TMP/ck.gguf"
check_status "a model without a template says what to do" 1 'has no chat template.*--chat-template' "$FERRY" template -m "$TMP/ck.gguf"
check "convert takes another one" "$FERRY" convert "$TMP/ck" --vocab-only --chat-template chatml -o "$TMP/ck.gguf"
check_equal "which is then the model's" "$("$FERRY" template --chat-template chatml)" "$("$FERRY" template -m "$TMP/ck.gguf")"
check "or a file" "$FERRY" convert "$TMP/ck" --vocab-only --chat-template "$TMP/t.jinja" -o "$TMP/ck.gguf"
check_status "an unknown one is refused" 2 "neither a built-in" "$FERRY" convert "$TMP/ck" --vocab-only --chat-template nope -o "$TMP/x.gguf"
printf 'plain' >"$TMP/ck/chat_template.jinja"
mkdir "$TMP/ck/additional_chat_templates"
printf 'with {{ tools | length }}' >"$TMP/ck/additional_chat_templates/tool_use.jinja"
printf 'grounded' >"$TMP/ck/additional_chat_templates/rag.jinja"
check "named templates convert" "$FERRY" convert "$TMP/ck" --vocab-only -o "$TMP/ck.gguf"
check_equal "the main one without tools" plain "$("$FERRY" template -m "$TMP/ck.gguf")"
check_equal "tool_use with them" "with 2" "$("$FERRY" template -m "$TMP/ck.gguf" --tools "$TMP/tools.json")"
check_equal "another by its name" grounded "$("$FERRY" template -m "$TMP/ck.gguf" --chat-template rag)"
check_equal "all are checked" "tokenizer.chat_template: ok tokenizer.chat_template.rag: ok tokenizer.chat_template.tool_use: ok" \
    "$("$FERRY" template -m "$TMP/ck.gguf" --check | xargs)"

# --- errors of a conversation ---
printf '{{ raise_exception("no %%s here") }}' >"$TMP/raise.jinja"
check_status "a template that refuses is reported" 1 'raise.jinja: the template refuses this conversation: no %s here$' \
    "$FERRY" template --file "$TMP/raise.jinja"
printf 'a\n{{ messages.x.y }}' >"$TMP/run.jinja"
check_status "an error at run time names its line" 1 'run.jinja: line 2: ' "$FERRY" template --file "$TMP/run.jinja"
check_status "messages that are not JSON are refused" 1 'line 1' t --messages - <<<'[{]'
check_status "messages that are not a list are refused" 1 'expected a JSON list of messages' t --messages - <<<'"x"'
check_status "tools that are not a list are refused" 1 'expected a JSON list of tools' t --tools - <<<'{}'
check_status "one standard input serves one file" 2 'cannot both' t --messages - --tools -

# --- lines of JSON ---
check_equal "every line has an answer" '{"text": "[user]a[assistant]"}
{"error": "expected an object with \"messages\", or with \"context\""}
{"text": "[user]b"}' "$(t --jsonl <<<'{"messages":[{"role":"user","content":"a"}],"tools":null,"extra":null}
{"x":1}

{"messages":[{"role":"user","content":"b"}],"add_generation_prompt":false}')"
check_equal "a line that is not JSON has one too, and the status stays 0" '2 0' \
    "$(t --jsonl <<<'{"messages": [
{"messages": []}' | wc -l | xargs) ${PIPESTATUS[0]}"
check_status "nothing but such lines is a failure" 1 'no line' t --jsonl <<<'nonsense'
check_equal "raise_exception's text stands alone" '{"error": "no %s here"}' \
    "$("$FERRY" template --file "$TMP/raise.jinja" --jsonl <<<'{"messages":[]}')"
check_equal "a line brings its own template and variables" '{"text": "1.0 12345678901234567890 [True, None] ü"}' \
    "$("$FERRY" template --jsonl <<<'{"template":"{{ a }} {{ b }} {{ c }} {{ d }}{{ messages }}","context":{"a":1.0,"b":12345678901234567890,"c":[true,null],"d":"\u00fc"}}')"
check_equal "tokens of a line last for that line" '{"text": "<a>[user]x"}
{"text": "<b>[user]x"}
{"text": "[user]x"}' "$(t --no-generation-prompt --bos-token '<b>' --jsonl <<<'{"messages":[{"role":"user","content":"x"}],"bos_token":"<a>"}
{"messages":[{"role":"user","content":"x"}]}
{"messages":[{"role":"user","content":"x"}],"bos_token":null}')"
check_equal "a line without any template reports it" '{"error": "no \"template\", and none was loaded (-m, --file or --chat-template)"}' \
    "$("$FERRY" template --jsonl <<<'{"messages":[]}')"
mkfifo "$TMP/in" "$TMP/answers"
"$FERRY" template --jsonl <"$TMP/in" >"$TMP/answers" &
exec 8>"$TMP/in" 9<"$TMP/answers"
echo '{"template":"{{ a }}","context":{"a":1}}' >&8
line=
read -r -t 120 line <&9
check_equal "an answer is there before the next line is read" '{"text": "1"}' "$line"
exec 8>&- 9<&-
wait

# --- comparison ---
cat >"$TMP/parity.json" <<'JSON'
{"cases": [
  {"name": "same", "messages": [{"role": "user", "content": "ü"}], "expected": "<s>[user]ü[assistant]"},
  {"name": "another text", "messages": [{"role": "user", "content": "ab"}], "add_generation_prompt": false, "expected": "<s>[user]aü"},
  {"name": "no error", "messages": [], "error": "x", "kind": "runtime"},
  {"name": "own template", "template": "{{ raise_exception(x) }}", "context": {"x": "bad"}, "error": "bad"},
  {"name": "any error", "template": "{{ x.y }}", "context": {}, "error": "whatever", "kind": "runtime"},
  {"name": "another error", "template": "{{ raise_exception(x) }}", "context": {"x": "bad"}, "error": "good"}
 ], "bos_token": "<s>"}
JSON
report=$(t --verify "$TMP/parity.json" 2>/dev/null)
check_status "differences exit 4" 4 '3 of 6 cases differ' t --verify "$TMP/parity.json"
check_equal "and are named" 'cases[1] "another text" (no generation prompt): character 10: expected "ü", found "b"
cases[2] "no error": expected the error "x", found a text
cases[5] "another error": expected the error "good", found bad
6 cases, 3 differ' "$report"
check_status "cases need a template" 2 'cases\[0\]: has no template of its own' "$FERRY" template --verify "$TMP/parity.json"
check_status "a file without cases is refused" 1 'tools.json: line 1, column 1: found an array' t --verify "$TMP/tools.json"
echo '{"cases": []}' >"$TMP/none.json"
check_status "an empty one too" 1 'nothing to compare' t --verify "$TMP/none.json"
check_status "one job at a time" 2 'exclude' t --jsonl --verify "$TMP/parity.json"
check_status "jobs take no conversation" 2 'takes no' t --jsonl --messages "$TMP/chat.json"

# --- the clock ---
check_equal "SOURCE_DATE_EPOCH is the clock" "26 Jul 2024" \
    "$(SOURCE_DATE_EPOCH=1721995200 "$FERRY" template --jsonl <<<'{"template":"{{ strftime_now(\"%d %b %Y\") }}","context":{}}' | cut -d'"' -f4)"
finish
