#!/usr/bin/env bash
# Tools through ferry serve: calls in answers, whole and in streams, calls that have to come, and conversations with them.
# A grammar makes the demo model, which knows no tools, write what a trained one would.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/serve_lib.sh
. tests/serve_lib.sh

m=$TMP/tales.gguf
$FERRY convert tests/data/tales --outtype q4_0 -o "$m" -q
# ask FILTER: the request of $TMP/request after a jq filter; its answer
ask() { jq "$1" "$TMP/request" | curl -s "$url/v1/chat/completions" -d @-; }
# says TEXT: a filter that makes the answer this text
says() { jq -n --arg t "$1" '".grammar = " + ("root ::= " + ($t | tojson) | tojson)' -r; }
cat >"$TMP/request" <<'END'
{"messages": [{"role": "user", "content": "How warm is it in Paris?"}], "temperature": 0, "max_tokens": 200, "tools": [
  {"type": "function", "function": {"name": "get_weather", "description": "The weather of a place", "parameters": {"type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}, "days": {"$ref": "#/$defs/days"}},
    "required": ["city", "days"], "additionalProperties": false, "$defs": {"days": {"type": "integer", "minimum": 1, "maximum": 9}}}}},
  {"type": "function", "function": {"name": "stop"}}]}
END
call='<tool_call>
{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}
</tool_call>'
wanted='["tool_calls","get_weather","{\"city\": \"Paris\", \"days\": 2}"]'
shown='.choices[0] | [.finish_reason, .message.tool_calls[0].function.name, .message.tool_calls[0].function.arguments]'

start log
check_equal "a call is found in an answer" "$wanted" "$(ask "$(says "$call")" | jq -c "$shown")"
check_equal "an answer of calls alone has no content" null "$(ask "$(says "$call")" | jq -c '.choices[0].message.content')"
check_equal "text before a call stays" '"I look."' "$(ask "$(says "I look.

$call")" | jq -c '.choices[0].message.content')"
check_equal "two calls have two ids" "2 9" "$(ask "$(says "$call
$call")" | jq -r '[.choices[0].message.tool_calls[].id] | "\(unique | length) \(.[0] | length)"')"
check_equal "a tool that is not there is content" '["stop","<tool_call>\n{\"name\": \"other\"}"]' \
    "$(ask "$(says '<tool_call>
{"name": "other"}')" | jq -c '.choices[0] | [.finish_reason, .message.content]')"
check_equal "a call that the limit cuts is not whole" length \
    "$(ask "$(says "$call") | .max_tokens = 60" | jq -r '.choices[0].finish_reason')"
check_equal "without tools a call is text" "$(jq -n --arg t "$call" '$t')" \
    "$(ask "$(says "$call") | del(.tools)" | jq '.choices[0].message.content')"
check_equal "tool_choice none shows none" "$(jq -n --arg t "$call" '$t')" \
    "$(ask "$(says "$call") | .tool_choice = \"none\"" | jq '.choices[0].message.content')"

ask "$(says "I look. $call") | .stream = true" | sed -n 's/^data: {/{/p' >"$TMP/stream"
check_equal "a stream gives the call in pieces" "I look. get_weather {\"city\": \"Paris\", \"days\": 2} tool_calls" \
    "$(jq -rs '[.[].choices[0]] | (map(.delta.content // "") | add) + " " + (map(.delta.tool_calls // [] | .[].function.name // "") | add) + " "
        + (map(.delta.tool_calls // [] | .[].function.arguments // "") | add) + " " + (map(.finish_reason // "") | add)' "$TMP/stream")"
check_equal "its first piece has id, type and name" '[0,9,"function","get_weather"]' \
    "$(jq -sc '[.[].choices[0].delta.tool_calls // [] | .[]] | .[0] | [.index, (.id | length), .type, .function.name]' "$TMP/stream")"
check_equal "arguments come in more than one piece" true \
    "$(jq -s '[.[].choices[0].delta.tool_calls // [] | .[]] | length > 3' "$TMP/stream")"

# --- calls that have to come ---
forced=$(for seed in $(seq 20); do ask ".tool_choice = \"required\" | .parallel_tool_calls = false | .temperature = 1.5 | .seed = $seed"; done)
check_equal "required: twenty answers, each a call" "20 tool_calls" \
    "$(jq -rs '"\(length) \([.[].choices[0].finish_reason] | unique | join(" "))"' <<<"$forced")"
check_equal "their arguments are valid" 20 "$(jq -s '[.[].choices[0].message.tool_calls[] | .function | (.arguments | fromjson) as $a |
    select(.name == "stop" or (($a.city | . == "Paris" or . == "Rome") and $a.days >= 1 and $a.days <= 9))] | length' <<<"$forced")"
check_equal "nothing stands before them" 20 "$(jq -s '[.[].choices[0].message | select(.content == null)] | length' <<<"$forced")"
check_equal "by name: that tool" get_weather \
    "$(ask '.tool_choice = {type: "function", function: {name: "get_weather"}}' | jq -r '.choices[0].message.tool_calls[].function.name' | sort -u)"
check_equal "parallel_tool_calls false: one" 1 \
    "$(ask '.tool_choice = "required" | .parallel_tool_calls = false' | jq '.choices[0].message.tool_calls | length')"

# --- refusals ---
refusal() { ask "$1" | jq -r '.error | "\(.code) \(.param): \(.message)"'; }
check_equal "a name that is none" "400 tools: tools[0].function.name: 'a b': expected 1 to 64 letters, digits, '_', '-' or '.'" \
    "$(refusal '.tools[0].function.name = "a b"')"
check "arguments whose schema is not of an object are refused" grep -q '^400 tools: tools\[0\].function.parameters.type: expected "object"' \
    <(refusal '.tools[0].function.parameters = {type: "string"}')
check_equal "a choice that is not there" "400 tool_choice: 'tool_choice': no tool has the name 'x'" \
    "$(refusal '.tool_choice = {type: "function", function: {name: "x"}}')"
check "a schema that is not supported is named" grep -q "^400 tools: .*multipleOf" \
    <(refusal '.tool_choice = "required" | .tools[0].function.parameters.properties.days = {type: "integer", multipleOf: 3}')
check_equal "a choice without tools" "400 tool_choice: 'tool_choice': asks for a call, and the request has no tools" \
    "$(refusal '.tool_choice = "required" | del(.tools)')"

# --- conversations ---
history='.messages += [{role: "assistant", content: null, tool_calls: [{id: "a", type: "function", function: {name: "get_weather",
    arguments: "{\"city\": \"Paris\", \"days\": 1}"}}]}, {role: "tool", tool_call_id: "a", content: "21 degrees"}]'
prompt() { jq "$1" "$TMP/request" | curl -s "$url/apply-template" -d @- | jq -r .prompt; }
prompt "$history" >"$TMP/prompt"
check "a template that shows no tools gets them as text" grep -q '^{"name": "get_weather", "description": "The weather' "$TMP/prompt"
check "earlier calls as well" grep -q '^{"name": "get_weather", "arguments": {"city": "Paris", "days": 1}}$' "$TMP/prompt"
check "and results" grep -q '^21 degrees$' "$TMP/prompt"
check_equal "broken arguments of an earlier call do not fail" null \
    "$(ask "$history | .messages[1].tool_calls[0].function.arguments = \"{broken\"" | jq '.error')"
kill -TERM "$pid"
wait "$pid"

# --- Anthropic's form of the same ---
start log
jq '{model: "tales", max_tokens: 200, system: "Be brief.", temperature: 0, messages, tools: [.tools[].function | {name, description, input_schema: .parameters}]
    | map(with_entries(select(.value != null)))}' "$TMP/request" >"$TMP/messages"
message() { jq "$1" "$TMP/messages" | curl -s "$url/v1/messages" -d @- "${@:2}"; }
check_equal "a message has blocks, a reason and usage" '["message","assistant","text","max_tokens",20,true]' \
    "$(message 'del(.tools) | .max_tokens = 20' | jq -c '[.type, .role, .content[0].type, .stop_reason, .usage.output_tokens, (.id | startswith("msg_"))]')"
check_equal "a stop sequence is named" '["stop_sequence","was"]' \
    "$(message 'del(.tools) | .messages[0].content = "Tell me a story about a brave girl named Mia and an owl." | .stop_sequences = ["was"]' | jq -c '[.stop_reason, .stop_sequence]')"
check_equal "a call that has to come is a block" '["tool_use","tool_use","get_weather","object"]' \
    "$(message '.tool_choice = {type: "tool", name: "get_weather", disable_parallel_tool_use: true}' |
        jq -c '[.stop_reason, (.content[0] | .type, .name, (.input | type))]')"
message '.tool_choice = {type: "any", disable_parallel_tool_use: true} | .stream = true' -N >"$TMP/events"
check_equal "events come in Anthropic's order" "message_start content_block_start content_block_delta content_block_stop message_delta message_stop" \
    "$(sed -n 's/^event: //p' "$TMP/events" | uniq | xargs)"
check_equal "each event's data has its name" "$(sed -n 's/^event: //p' "$TMP/events")" "$(sed -n 's/^data: //p' "$TMP/events" | jq -r .type)"
check_equal "the pieces of the input are JSON" object \
    "$(sed -n 's/^data: //p' "$TMP/events" | jq -rs '[.[].delta.partial_json // empty] | add | fromjson | type')"
check_equal "results and calls go back in" '["end_turn","max_tokens"]' "$(message '.messages += [{role: "assistant", content: [{type: "text", text: "I look."},
    {type: "tool_use", id: "toolu_1", name: "stop", input: {}}]}, {role: "user", content: [{type: "tool_result", tool_use_id: "toolu_1",
    content: [{type: "text", text: "done"}]}, {type: "text", text: "And now?"}]}]' | jq -c '["end_turn", "max_tokens", .stop_reason] | unique')"
check_equal "count_tokens counts what the message takes" true \
    "$([ "$(curl -s "$url/v1/messages/count_tokens" -d @"$TMP/messages" | jq .input_tokens)" = "$(message . | jq '.usage | .input_tokens + .cache_read_input_tokens')" ] && echo true)"
check_equal "errors have Anthropic's form" '["error","invalid_request_error","\u0027max_tokens\u0027: is missing, expected a whole number"]' \
    "$(message 'del(.max_tokens)' | jq -c '[.type, .error.type, .error.message]' | sed "s/'/\\\\u0027/g")"
check_equal "an image is refused by name" "'messages': a block of type 'image': the model reads text, tool_use, tool_result and thinking" \
    "$(message '.messages[0].content = [{type: "image", source: {}}]' | jq -r .error.message)"
kill -TERM "$pid"
wait "$pid"

# A template that shows tools gets them as a variable.
cat >"$TMP/hermes.jinja" <<'END'
{%- if tools %}<tool_call> TOOLS {%- for tool in tools %} {{ tool.function.name }}:{{ tool.function.parameters.type }}{%- endfor %}
{% endif %}
{%- for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls %}CALL {{ c.function.name }} {{ c.function.arguments.city }}{% endfor %}
{% endfor %}
END
start log --chat-template "$TMP/hermes.jinja"
check_equal "a template that shows tools gets them" "<tool_call> TOOLS get_weather:object stop:objectuser: How warm is it in Paris?assistant: CALL get_weather Paristool: 21 degrees|" \
    "$(prompt "$history" | tr '\n' '|' | sed 's/|*$/|/')"
check_equal "and its calls are found" "$wanted" "$(ask "$(says "$call")" | jq -c "$shown")"
kill -TERM "$pid"
wait "$pid"

# --- calls that may come ---

# A model with the mark as a token of its own, which a bias makes it like: what stands after it is the grammar's.
mkdir "$TMP/caller"
cp tests/data/tales/*.json tests/data/tales/model.safetensors "$TMP/caller"
jq '.model.vocab |= with_entries(if .value == 408 then .key = "<tool_call>" else . end)
    | .model.merges |= map(select((.[0] + .[1]) != "Once"))' tests/data/tales/tokenizer.json >"$TMP/caller/tokenizer.json"
$FERRY convert "$TMP/caller" --outtype q4_0 -o "$TMP/caller.gguf" -q 2>/dev/null || not_ok "the caller converts"
m=$TMP/caller.gguf start log
auto='del(.tools[1]) | .tool_choice = "auto" | .temperature = 1.5 | .max_tokens = 300 | .logit_bias = {"408": 7}'
free=$(for seed in $(seq 16); do ask "$auto | .seed = $seed"; done)
calls=$(jq -c '.choices[0] | select(.finish_reason != "length") | .message.tool_calls // [] | .[].function' <<<"$free")
check "auto: the model calls when it likes to" test "$(wc -l <<<"$calls")" -ge 6
check_equal "every call is valid" "" "$(jq -c '(.arguments | fromjson) as $a |
    select((($a.city | . == "Paris" or . == "Rome") and $a.days >= 1 and $a.days <= 9) | not)' <<<"$calls")"
check "text before calls is free" test "$(jq -s '[.[].choices[0].message | select(.content != null and .content != "" and .tool_calls)] | length' <<<"$free")" -ge 3
check_equal "no mark is left in the text" 0 "$(jq -r '.choices[0] | select(.finish_reason != "length") | .message.content // ""' <<<"$free" | grep -c '<tool_call>')"
check_equal "the same seed, the same answer" "$(jq -s '.[0].choices[0].message | del(.tool_calls[]?.id)' <<<"$free")" \
    "$(ask "$auto | .seed = 1 | .cache_prompt = false" | jq '.choices[0].message | del(.tool_calls[]?.id)')"
check_equal "parallel_tool_calls false: at most one" 1 \
    "$(for seed in 1 2 3 4 5; do ask "$auto | .parallel_tool_calls = false | .logit_bias = {\"408\": 12} | .seed = $seed"; done | jq -s '[.[].choices[0].message.tool_calls // [] | length] | max')"
check "a schema that is not supported is named" grep -q "^400 tools: .*multipleOf" \
    <(refusal '.tools[0].function.parameters.properties.days = {type: "integer", multipleOf: 3}')
kill -TERM "$pid"
wait "$pid"
finish
