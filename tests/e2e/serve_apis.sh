#!/usr/bin/env bash
# The APIs of ferry serve beyond OpenAI's texts and llama-server's: embeddings, responses, Ollama's, and filling in the
# middle. With the demo model; curl is the client.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/serve_lib.sh
. tests/serve_lib.sh

m=$TMP/tales.gguf
$FERRY convert tests/data/tales --outtype f32 -o "$m" -q
serve_options=(-ctk f32 -ctv f32)
refusal() { # NAME STATUS PATTERN PATH JSON
    local got
    got=$(curl -s -o "$TMP/body" -w '%{http_code}' "$url$4" -d "$5")
    if [ "$got" = "$2" ] && jq -e .error "$TMP/body" >/dev/null && grep -qE -- "$3" "$TMP/body"; then
        ok "refused: $1"
    else
        not_ok "refused: $1" "$got: $(head -c 500 "$TMP/body")"
    fi
}

# --- embeddings -----------------------------------------------------------------------------------------------------

start log -np 4 -c 256
texts='["Once upon a time there was a little fox","a",[1,2,3,4,5,6,7],["the ",40,"end"],"Once upon a time there was a dog"]'
post /v1/embeddings "{\"input\":$texts}" >"$TMP/list"
check_equal "a list of texts and ids has an embedding each" '["list","tales",[0,1,2,3,4],["embedding"],[256]]' \
    "$(jq -c '[.object, .model, [.data[].index], ([.data[].object] | unique), ([.data[].embedding | length] | unique)]' "$TMP/list")"
n_tokens() { post /tokenize "$(jq -nc --arg t "$1" --argjson s "$2" '{content: $t, add_special: $s}')" | jq '.tokens | length'; }
n=$(($(n_tokens 'Once upon a time there was a little fox' true) + $(n_tokens a true) + 7 + $(n_tokens 'the ' true) + 1 + $(n_tokens end false) +
    $(n_tokens 'Once upon a time there was a dog' true)))
check_equal "usage counts the tokens of all" "[$n,$n]" "$(jq -c '.usage | [.prompt_tokens, .total_tokens]' "$TMP/list")"
check_equal "their length is 1" true "$(jq '[.data[].embedding | map(. * .) | add | (. - 1 | fabs) < 1e-6] | all' "$TMP/list")"
alone() { for ((i = 0; i < 5; i++)); do post "$1" "{\"input\":$(jq -c ".[$i]" <<<"$texts")}" | jq -c "$2"; done; } # PATH FILTER
jq -c '.data[].embedding' "$TMP/list" >"$TMP/rows"
check "a text alone has the same bits" cmp "$TMP/rows" <(alone /embeddings '.data[0].embedding')
check "in llama-server's form, too" cmp "$TMP/rows" <(post /embedding "{\"input\":$texts}" | jq -c '.[] | .embedding[0]')
check "which has an older name for the text" cmp <(head -1 "$TMP/rows") \
    <(post /embedding "{\"content\":$(jq -c '.[0]' <<<"$texts")}" | jq -c '.[0].embedding[0]')
post /v1/embeddings "{\"input\":$texts,\"encoding_format\":\"base64\"}" | jq -r '.data[].embedding' >"$TMP/base64"
while read -r line; do base64 -d <<<"$line"; done <"$TMP/base64" | od -An -v -w4 -tf4 | paste - <(jq '.data[].embedding[]' "$TMP/list") >"$TMP/pairs"
check_equal "base64 is the same floats" "1280 0" \
    "$(awk 'function abs(x) { return x < 0 ? -x : x } abs($1 - $2) > 1e-7 * abs($2) { bad++ } END { print NR, bad + 0 }' "$TMP/pairs")"
one=$(post /v1/embeddings '{"input":[65]}' | jq -c '.data[0].embedding')
check_equal "embd_normalize: none, the largest is 32760, a sum of 1" '[false,true,true]' \
    "$(for n in -1 0 1; do post /v1/embeddings "{\"input\":\"a fox\",\"embd_normalize\":$n}"; done |
        jq -sc 'map(.data[0].embedding | map(fabs)) | [(.[0] | map(. * .) | add | . < 1.1), (.[1] | max == 32760), (.[2] | add | (. - 1 | fabs) < 1e-5)]')"
for ((i = 0; i < 8; i++)); do
    post /completion "{\"prompt\":\"Once upon a time there was a $i\",\"n_predict\":150,\"temperature\":1,\"ignore_eos\":true,\"seed\":$i}" >"$TMP/text$i" &
    crowd+=($!)
done
check "among other requests, the same bits" cmp "$TMP/list" <(post /v1/embeddings "{\"input\":$texts}")
wait "${crowd[@]}"
check_equal "which are not disturbed" "$(jq -c .content "$TMP/text3")" \
    "$(post /completion '{"prompt":"Once upon a time there was a 3","n_predict":150,"temperature":1,"ignore_eos":true,"seed":3}' | jq -c .content)"
check_equal "300 texts at once" '[300,1]' \
    "$(post /v1/embeddings "$(jq -nc '{input: [range(300) | "a fox"]}')" | jq -c '[(.data | length), ([.data[].embedding] | unique | length)]')"
refusal "no text" 400 '"param":"input"' /v1/embeddings '{}'
refusal "an empty list" 400 'empty list' /v1/embeddings '{"input":[]}'
refusal "an object" 400 'an object' /v1/embeddings '{"input":{"a":1}}'
refusal "null among texts" 400 'null' /v1/embeddings '{"input":["a",null]}'
refusal "a fraction" 400 'a number' /v1/embeddings '{"input":[[1,2.5]]}'
refusal "an id beyond the vocabulary" 400 'expected 0 to 767' /v1/embeddings '{"input":[[1,768]]}'
refusal "an empty list of ids" 400 'text 1 is empty' /v1/embeddings '{"input":["a",[]]}'
refusal "other dimensions" 400 '"param":"dimensions"' /v1/embeddings '{"input":"a","dimensions":128}'
refusal "another encoding" 400 '"param":"encoding_format"' /v1/embeddings '{"input":"a","encoding_format":"int8"}'
refusal "a norm that is none" 400 'expected -1 to 64' /v1/embeddings '{"input":"a","embd_normalize":-2}'
refusal "2049 texts" 400 'at most 2048' /v1/embeddings "$(jq -nc '{input: [range(2049) | "a"]}')"
refusal "a text that is too large" 400 'text 1 is too large: 257 tokens, a slot has 256' /v1/embeddings "$(jq -nc '{input: ["a", [range(257)]]}')"
stop
start log -np 2 -c 256 -b 5 -t 1
check "with other slots, threads and batches, the same bits" cmp "$TMP/rows" <(post /v1/embeddings "{\"input\":$texts}" | jq -c '.data[].embedding')
stop
start log -np 2 -c 256 --pooling last
post /v1/embeddings "{\"input\":$texts}" | jq -c '.data[].embedding' >"$TMP/last"
check "--pooling last is another one" test "$(cat "$TMP/rows" "$TMP/last" | sort -u | wc -l)" -ge 9
check_equal "which a text of one token has in common" "$one" "$(post /v1/embeddings '{"input":[65]}' | jq -c '.data[0].embedding')"
check "and alone the same bits" cmp "$TMP/last" <(alone /v1/embeddings '.data[0].embedding')
stop
# The key of llama.cpp, and one more to keep the alignment, before the file's own.
{
    head -c 16 "$m"
    printf "\\x$(printf %x $(($(od -An -tu1 -j16 -N1 "$m") + 2)))\0\0\0\0\0\0\0"
    printf '\x12\0\0\0\0\0\0\0llama.pooling_type\x04\0\0\0\x03\0\0\0\x05\0\0\0\0\0\0\0x.pad\x08\0\0\0\x05\0\0\0\0\0\0\0texts'
    tail -c +25 "$m"
} >"$TMP/last.gguf"
m=$TMP/last.gguf start log -np 2 -c 256
check "a model that says last" cmp "$TMP/last" <(post /v1/embeddings "{\"input\":$texts}" | jq -c '.data[].embedding')
stop

# --- responses ------------------------------------------------------------------------------------------------------

m=$TMP/tales.gguf start log -np 2 -c 2000
said=$(post /v1/chat/completions '{"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Tell me a tale"}],"temperature":0,"max_tokens":20}' |
    jq -r '.choices[0].message.content')
ask='{"instructions":"Be kind.","input":"Tell me a tale","temperature":0,"max_output_tokens":20}'
post /v1/responses "$ask" >"$TMP/response"
check_equal "a response says what a conversation does" "$said" "$(jq -r '.output[0].content[0].text' "$TMP/response")"
check_equal "one that its limit cuts is incomplete" '["response","incomplete","max_output_tokens","incomplete",20,0,true]' \
    "$(jq -c '[.object, .status, .incomplete_details.reason, .output[0].status, .usage.output_tokens, .usage.output_tokens_details.reasoning_tokens,
        (.usage | .input_tokens + .output_tokens == .total_tokens)]' "$TMP/response")"
check_equal "the request is repeated, and nothing is stored" '["Be kind.",20,"auto",[],false,null]' \
    "$(jq -c '[.instructions, .max_output_tokens, .tool_choice, .tools, .store, .previous_response_id]' "$TMP/response")"
check_equal "input as messages, items and parts says the same" "$said $said" \
    "$(for input in '[{"role":"developer","content":"Be kind."},{"role":"user","content":[{"type":"input_text","text":"Tell me "},{"type":"input_text","text":"a tale"}]}]' \
        '[{"type":"message","role":"system","content":"Be kind."},{"type":"reasoning","summary":[]},{"type":"message","role":"user","content":"Tell me a tale"}]'; do
        post /responses "$(jq -c --argjson i "$input" 'del(.instructions) | .input = $i' <<<"$ask")" | jq -r '.output[0].content[0].text'; done | xargs)"
check_equal "input_tokens counts the prompt" "$(jq .usage.input_tokens "$TMP/response")" \
    "$(post /v1/responses/input_tokens "$ask" | jq .input_tokens)"
events() { sed -n 's/^data: //p' "$TMP/stream"; }
curl -sN "$url/v1/responses" -d "${ask/\}/,\"stream\":true\}}" >"$TMP/stream"
check_equal "a stream has OpenAI's events, in order" "response.created response.in_progress response.output_item.added response.content_part.added \
response.output_text.delta response.output_text.done response.content_part.done response.output_item.done response.incomplete" \
    "$(sed -n 's/^event: //p' "$TMP/stream" | uniq | xargs)"
check_equal "named and numbered" true "$(events | jq -sc --argjson names "$(sed -n 's/^event: //p' "$TMP/stream" | jq -R . | jq -s .)" \
    'map(.type) == $names and map(.sequence_number) == [range(length)]')"
check_equal "its deltas are the text, and its end the response" "$said $said" \
    "$(events | jq -rj 'select(.type == "response.output_text.delta").delta') $(events | jq -r 'select(.type == "response.incomplete").response.output[0].content[0].text')"

schema='{"type":"object","properties":{"city":{"enum":["Paris","Rome"]},"days":{"type":"integer","minimum":1,"maximum":9}},"required":["city","days"],"additionalProperties":false}'
fits='(keys == ["city", "days"]) and (.city | IN("Paris", "Rome")) and .days >= 1 and .days <= 9'
check_equal "text.format holds the text to a schema" true \
    "$(post /v1/responses "$(jq -nc --argjson s "$schema" '{input: "Hi", temperature: 1, seed: 3, text: {format: {type: "json_schema", name: "trip", strict: true, schema: $s}}}')" |
        jq -r '.output[0].content[0].text' | jq -c "$fits")"
tools="[{\"type\":\"function\",\"name\":\"get_weather\",\"description\":\"The weather\",\"parameters\":$schema,\"strict\":true},{\"type\":\"function\",\"name\":\"stop\"}]"
forced='{"input":"How warm is it?","temperature":1,"seed":3,"tools":'$tools',"tool_choice":{"type":"function","name":"get_weather"}}'
post /v1/responses "$forced" >"$TMP/response"
check_equal "a tool that has to be called is" '["completed","function_call","get_weather",true]' \
    "$(jq -c '[.status, .output[0].type, .output[0].name, (.output[0].arguments | fromjson | '"$fits"')]' "$TMP/response")"
curl -sN "$url/v1/responses" -d "${forced/\{/\{\"stream\":true,}" >"$TMP/stream"
check_equal "also in a stream, with its arguments" "$(jq -r '.output[0].arguments' "$TMP/response") completed" \
    "$(events | jq -rj 'select(.type == "response.function_call_arguments.delta").delta') $(events | jq -r 'select(.type == "response.completed").response.status')"
answer='<think>Hm, warm</think>Let me see.
<tool_call>
{"name": "stop", "arguments": {"now": 1}}
</tool_call>
<tool_call>
{"name": "stop", "arguments": {}}
</tool_call>'
thought=$(jq -nc --argjson t "$tools" --arg a "$answer" '{input: "Hi", temperature: 0, tools: $t, grammar: ("root ::= " + ($a | tojson))}')
post /v1/responses "$thought" >"$TMP/response"
check_equal "thinking, text and calls are items" '["reasoning","message","function_call","function_call"] Hm, warm | Let me see. | {"now": 1}' \
    "$(jq -c '[.output[].type]' "$TMP/response") $(jq -r '"\(.output[0].content[0].text) | \(.output[1].content[0].text) | \(.output[2].arguments)"' "$TMP/response")"
check_equal "with ids of their own, and tokens of thinking" '[4,2,true]' \
    "$(jq -c '[([.output[].id] | unique | length), ([.output[].call_id | values] | unique | length), (.usage | .output_tokens_details.reasoning_tokens > 0 and .output_tokens_details.reasoning_tokens < .output_tokens)]' "$TMP/response")"
reasoned=$(jq .usage.output_tokens_details.reasoning_tokens "$TMP/response")
curl -sN "$url/v1/responses" -d "${thought/\{/\{\"stream\":true,}" >"$TMP/stream"
same='[.output[] | del(.id, .call_id)]'
check_equal "the same in a stream" "$(jq -c "$same" "$TMP/response") $reasoned" \
    "$(events | jq -c "select(.type == \"response.completed\").response | $same") $(events | jq -c 'select(.type == "response.completed").response.usage.output_tokens_details.reasoning_tokens')"
check_equal "whose items are those of its end" true \
    "$(events | jq -sc '(map(select(.type == "response.output_item.done").item)) == (.[-1].response.output)')"
next=$(jq -c --slurpfile r "$TMP/response" '.input = [{role: "user", content: "Hi"}] + $r[0].output +
    [$r[0].output[] | select(.type == "function_call") | {type: "function_call_output", call_id, output: "ok"}] | del(.grammar) | .max_output_tokens = 4' <<<"$thought")
check_equal "they are the input of the next turn" incomplete "$(post /v1/responses "$next" | jq -r .status)"
prompt=$(post /apply-template "$(jq -nc --argjson t "$(jq -c 'map({type: "function", function: del(.type, .strict)})' <<<"$tools")" '{tools: $t, messages: [{role: "user", content: "Hi"},
    {role: "assistant", content: "Let me see.", reasoning_content: "Hm, warm", tool_calls: [{id: "a", type: "function", function: {name: "stop", arguments: "{\"now\": 1}"}}, {id: "b", type: "function", function: {name: "stop", arguments: "{}"}}]},
    {role: "tool", tool_call_id: "a", content: "ok"}, {role: "tool", tool_call_id: "b", content: "ok"}]}')" | jq .prompt)
check_equal "as the conversation that it is" "$(post /tokenize "{\"content\":$prompt,\"add_special\":false}" | jq '.tokens | length')" \
    "$(post /v1/responses/input_tokens "$next" | jq .input_tokens)"
refused() { # MEMBER VALUE [PARAM]
    refusal "$1 $2" 400 "\"param\":\"${3-$1}\"" /v1/responses "{\"input\":\"a\",\"$1\":$2}"
}
refused previous_response_id '"r"'
refused conversation '"c"'
refused background true
refused prompt '{"id":"p"}'
refused top_logprobs 2
refused max_output_tokens 0
refused instructions 7
refused temperature '"hot"'
refused text 7
refused text '{"format":{"type":"xml"}}' text.format
refused text '{"format":{"type":"json_schema","schema":{"not":{}}}}' text.format
refused tools 7
refused tools '[{"type":"web_search"}]'
refused tools '[{"type":"function"}]'
refused tool_choice '{"type":"custom"}'
refused tool_choice '{"type":"function","name":"x"}'
refusal "no input" 400 '"param":"input"' /v1/responses '{}'
for input in '[]' 7 '[7]' '[{"type":"item_reference","id":"x"}]' '[{"role":"user"}]' '[{"role":"king","content":"a"}]' '[{"type":"function_call","name":"x"}]' \
    '[{"type":"function_call_output","output":"x"}]' '[{"type":"function_call_output","call_id":"x","output":7}]'; do
    refusal "input $input" 400 '"param":"input"' /v1/responses "{\"input\":$input}"
done
refusal "a picture" 400 input_image /v1/responses '{"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}'
check_equal "return_progress is ignored: there is no event for it" "0 1" \
    "$(post /v1/responses '{"input":"Hi","max_output_tokens":2,"stream":true,"return_progress":true}' >"$TMP/events"; grep -c prompt_progress "$TMP/events") $(grep -c '^event: response.\(completed\|incomplete\)$' "$TMP/events")"
check_equal "in messages, too" "0 1" \
    "$(post /v1/messages '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"stream":true,"return_progress":true}' >"$TMP/events"; grep -c prompt_progress "$TMP/events") $(grep -c '^event: message_stop$' "$TMP/events")"
check_equal "responses are not kept" "400 response_id" "$(curl -s -w '%{http_code}' "$url/v1/responses/resp_1" | jq -rs '"\(.[1]) \(.[0].error.param)"')"
stop

# --- Ollama's API ---------------------------------------------------------------------------------------------------

m=$TMP/tales.gguf start log -np 2 -c 2000
said=$(post /v1/chat/completions '{"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Tell me a tale"}],"temperature":0,"max_tokens":20}' |
    jq -r '.choices[0].message.content')
ask='{"model":"tales","messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Tell me a tale"}],"options":{"temperature":0,"num_predict":20,"num_ctx":2000},"keep_alive":"5m"}'
curl -si "$url/api/chat" -d "$ask" | tr -d '\r' >"$TMP/stream"
check "a conversation streams unless it says otherwise, as lines" grep -qx 'Content-Type: application/x-ndjson' "$TMP/stream"
sed '1,/^$/d' "$TMP/stream" >"$TMP/lines"
check_equal "of JSON, whose texts are the answer" "$said" "$(jq -rj '.message.content' "$TMP/lines")"
check_equal "the last one is done, with counts and nanoseconds" '[true,"length","",20,true,true]' \
    "$(tail -1 "$TMP/lines" | jq -c '[.done, .done_reason, .message.content, .eval_count, (.total_duration > 1000 and .total_duration >= .eval_duration and .prompt_eval_duration > 0), .prompt_eval_count > 10]')"
check_equal "all others are not" 0 "$(head -n -1 "$TMP/lines" | jq -s 'map(select(.done)) | length')"
check_equal "each with model, role and time" true \
    "$(jq -sc 'map(.model == "tales" and .message.role == "assistant" and (.created_at | sub("[.][0-9]+Z$"; "Z") | fromdate > 1700000000)) | all' "$TMP/lines")"
whole() { post /api/chat "$(jq -c ".stream = false | $1" <<<"$ask")"; } # FILTER
check_equal "stream false: one object" "$said" "$(whole . | jq -r .message.content)"
check_equal "generate is the same conversation" "$said" \
    "$(post /api/generate "$(jq -c '{model, system: "Be kind.", prompt: "Tell me a tale", options}' <<<"$ask")" | jq -rj .response)"
check_equal "unless it is raw" "$(post /completion '{"prompt":"Once upon a time","temperature":0,"n_predict":12}' | jq -c .content)" \
    "$(post /api/generate '{"prompt":"Once upon a time","raw":true,"stream":false,"options":{"temperature":0,"num_predict":12}}' | jq -c .response)"
check_equal "options: seed" "$(whole '.options.temperature = 1 | .options.seed = 4' | jq -c .message.content)" "$(whole '.options.temperature = 1 | .options.seed = 4' | jq -c .message.content)"
check_equal "stop" '["stop","Once upon"]' "$(whole '.options.stop = [" a time"]' | jq -c '[.done_reason, .message.content]')"
check_equal "top_k" "$said" "$(whole '.options.temperature = 2 | .options.top_k = 1' | jq -r .message.content)"
check_equal "num_predict -2 is to the end of the slot" length "$(whole '.options.num_predict = -2 | .options.stop = ["zzz"] | .options.repeat_penalty = 1.9' | jq -r '.done_reason | if . == "stop" then "length" else . end')"
check_equal "format: a schema" true "$(whole "del(.options.num_predict) | .format = $schema" | jq -r .message.content | jq -c "$fits")"
check_equal "format: json" object "$(whole '.format = "json" | .options = {temperature: 1, seed: 1, num_predict: 800}' | jq -r 'if .done_reason == "stop" then .message.content | fromjson | type else "object" end')"
tools='[{"type":"function","function":{"name":"stop","description":"","parameters":{"type":"object","properties":{"now":{"type":"integer"}}}}}]'
# A schema whose only string is the answer would quote it; a bias towards its tokens makes the demo model say it.
printf '%s' "$answer" >"$TMP/answer"
check_equal "tools are shown to the model" true \
    "$(jq -n --argjson n "$(whole . | jq .prompt_eval_count)" --argjson m "$(whole ".tools = $tools" | jq .prompt_eval_count)" '$m > $n + 50')"
history='[{"role":"user","content":"Hi"},{"role":"assistant","content":"","thinking":"Hm","tool_calls":[{"function":{"name":"stop","arguments":{"now":1}}}]},{"role":"tool","tool_name":"stop","content":"ok"}]'
same='[{"role":"user","content":"Hi"},{"role":"assistant","content":"","reasoning_content":"Hm","tool_calls":[{"id":"call00000","type":"function","function":{"name":"stop","arguments":{"now":1}}}]},{"role":"tool","name":"stop","tool_call_id":"call00000","content":"ok"}]'
check_equal "calls without ids and results by name are a conversation" \
    "$(post /v1/chat/completions "{\"messages\":$same,\"tools\":$tools,\"max_tokens\":1}" | jq .usage.prompt_tokens)" \
    "$(post /api/chat "$(jq -nc --argjson m "$history" --argjson t "$tools" '{messages: $m, tools: $t, stream: false, options: {num_predict: 1}}')" | jq .prompt_eval_count)"
check_equal "a text that is not there loads the model" '["load",true,"load"] unload' \
    "$(jq -sc '[.[0].done_reason, .[0].done, .[1].done_reason]' <(post /api/chat '{"model":"x"}') <(post /api/generate '{"model":"x","prompt":""}')) $(post /api/generate '{"model":"x","keep_alive":0}' | jq -r .done_reason)"
check_equal "tags, ps and show tell of the model" '["tales","gguf","F32"] ["tales",2000] ["llama","completion"] true' \
    "$(curl -s "$url/api/tags" | jq -c '.models[0] | [.name, .details.format, .details.quantization_level]') $(curl -s "$url/api/ps" | jq -c '.models[0] | [.model, .context_length]') \
$(post /api/show '{"model":"tales"}' | jq -c '[.model_info["general.architecture"], .capabilities[0]]') $(curl -s "$url/api/version" | jq 'has("version")')"
refuse_chat() { # MEMBERS PATTERN
    local got
    got=$(curl -s -o "$TMP/body" -w '%{http_code}' "$url/api/chat" -d "$(jq -c --argjson m "{$1}" '. + $m' <<<"$ask")")
    check_equal "refused: $1" "400 string 1" "$got $(jq -r '.error | type' "$TMP/body") $(grep -cE -- "$2" "$TMP/body")"
}
refuse_chat '"options":{"num_ctx":2001}' '2001.*2000'
refuse_chat '"options":{"num_ctx":"x"}' num_ctx
refuse_chat '"options":{"num_predict":1.5}' num_predict
refuse_chat '"options":{"temperature":"x"}' temperature
refuse_chat '"options":{"stop":7}' stop
refuse_chat '"options":{"mirostat":2}' mirostat
refuse_chat '"options":[]' options
refuse_chat '"format":"xml"' format
refuse_chat '"format":{"not":{}}' not
refuse_chat '"format":[1]' format
refuse_chat '"think":7' think
refuse_chat '"stream":"no"' stream
refuse_chat '"tools":[{}]' tools
refuse_chat '"messages":7' messages
refuse_chat '"messages":[7]' 'message 0'
refuse_chat '"messages":[{"role":"user","content":"a","images":["x"]}]' images
refuse_chat '"messages":[{"role":"assistant","tool_calls":[7]}]' tool_calls
check_equal "refused by generate" "400 400 400 400" "$(for j in '"images":["x"]' '"context":[1]' '"template":"x"' '"raw":7'; do
    curl -s -o /dev/null -w '%{http_code} ' "$url/api/generate" -d "{\"prompt\":\"a\",$j}"; done | xargs)"
post /api/embed '{"model":"tales","input":["Once upon a time","a fox"],"truncate":true,"options":{"num_ctx":2000}}' >"$TMP/embed"
check_equal "embed: a vector for each text, of length 1" '["tales",2,[256],true,true]' \
    "$(jq -c '[.model, (.embeddings | length), (.embeddings | map(length) | unique), (.embeddings | map(map(. * .) | add | (. - 1 | fabs) < 1e-6) | all), (.prompt_eval_count > 3 and .total_duration > 0 and .load_duration == 0)]' "$TMP/embed")"
check_equal "as OpenAI's" "$(post /v1/embeddings '{"input":"a fox"}' | jq -c '[.data[0].embedding]')" "$(post /api/embed '{"input":"a fox"}' | jq -c .embeddings)"
check_equal "embeddings: one, as it is" "$(post /v1/embeddings '{"input":"a fox","embd_normalize":-1}' | jq -c '{embedding: .data[0].embedding}')" \
    "$(post /api/embeddings '{"model":"tales","prompt":"a fox"}')"
check_equal "without a text the model is loaded, which it is" '{"model":"tales","embeddings":[]} {"embedding":[]}' \
    "$(post /api/embed '{"model":"tales","input":[]}') $(post /api/embeddings '{"model":"tales"}')"
refusal "embed: a number" 400 "'input': found a number" /api/embed '{"input":7}'
refusal "embed: null among texts" 400 null /api/embed '{"input":["a",null]}'
refusal "embed: other dimensions" 400 dimensions /api/embed '{"input":"a","dimensions":7}'
refusal "embed: more context than a slot has" 400 '2001.*2000' /api/embed '{"input":"a","options":{"num_ctx":2001}}'
refusal "embed: nothing is cut" 400 'a slot has 2000' /api/embed "$(jq -nc '{input: ("a b " * 3000), truncate: true}')"
refusal "embeddings: a list" 400 "'prompt': found a list" /api/embeddings '{"prompt":["a"]}'
check_equal "a prompt that does not fit" 400 "$(curl -s -o "$TMP/body" -w '%{http_code}' "$url/api/chat" -d "$(jq -nc '{messages: [{role: "user", content: ("a b " * 3000)}]}')")"
stop
# A template whose calls are bare JSON: a schema makes the demo model write one.
cat >"$TMP/llama3.jinja" <<'END'
{% if tools %}"parameters": dictionary{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}
END
start log -c 2000 --chat-template "$TMP/llama3.jinja"
written='{"type":"object","properties":{"name":{"const":"stop"},"parameters":{"type":"object","properties":{"now":{"const":7}},"required":["now"],"additionalProperties":false}},"required":["name","parameters"],"additionalProperties":false}'
called=$(jq -c ".format = $written | .tools = $tools | del(.options.num_predict)" <<<"$ask")
check_equal "a call is one, with its arguments as an object" '["",["stop",{"now":7},"stop"]]' \
    "$(post /api/chat "$(jq -c '.stream = false' <<<"$called")" | jq -c '.done_reason as $d | .message | [.content, (.tool_calls[].function | [.name, .arguments, $d])]')"
check_equal "also in a stream" '[[["stop",{"now":7}]],1]' \
    "$(post /api/chat "$called" | jq -sc '[(map(.message.tool_calls | values | map(.function | [.name, .arguments])) | add), (map(select(.done)) | length)]')"
stop

# --- filling in the middle ------------------------------------------------------------------------------------------

m=$TMP/tales.gguf start log -np 2 -c 256
infill='{"input_prefix":"Once upon a ","input_suffix":" there was a fox","temperature":0,"n_predict":12}'
refusal "infill without tokens for it" 501 'no tokens for filling in the middle' /infill "$infill"
refusal "a suffix, too" 400 '"param":"suffix"' /v1/completions '{"prompt":"a","suffix":"b"}'
check_equal "an empty suffix is none" 200 "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/completions" -d '{"prompt":"a","suffix":"","max_tokens":1}')"
stop
# A model that has them: five tokens of the demo model get other names.
mkdir "$TMP/coder"
cp tests/data/tales/*.json tests/data/tales/model.safetensors "$TMP/coder"
jq '{"748": "<|repo_name|>", "750": "<|file_sep|>", "752": "<|fim_prefix|>", "754": "<|fim_suffix|>", "756": "<|fim_middle|>"} as $names
    | (.model.vocab | to_entries | map(select($names[.value | tostring]).key)) as $gone
    | .model.vocab |= with_entries(select($names[.value | tostring] | not))
    | .model.merges |= map(select([.[0], .[1], .[0] + .[1]] - $gone | length == 3))
    | .added_tokens += ($names | to_entries | map({id: (.key | tonumber), content: .value, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true}))' \
    tests/data/tales/tokenizer.json >"$TMP/coder/tokenizer.json"
$FERRY convert "$TMP/coder" --outtype f32 -o "$TMP/coder.gguf" -q 2>/dev/null || not_ok "the coder converts"
m=$TMP/coder.gguf start log -np 2 -c 256
tok() { post /tokenize "$(jq -nc --arg t "$1" '{content: $t, parse_special: false}')" | jq -c .tokens; }
by_hand() { post /completion "$(jq -nc --argjson p "$(jq -sc 'flatten' <<<"$*")" '{prompt: $p, temperature: 0, n_predict: 12}')" | jq -c '[.content, .tokens_evaluated]'; }
said() { jq -c '[.content, .tokens_evaluated]'; }
check_equal "prefix and suffix are marked" "$(by_hand "[763,752] $(tok 'Once upon a ') [754] $(tok ' there was a fox') [756]")" "$(post /infill "$infill" | said)"
check_equal "a prompt goes on after the prefix" "$(by_hand "[763,752] $(tok 'Once upon a ') $(tok 'time') [754] $(tok ' there was a fox') [756]")" \
    "$(post /infill "$(jq -c '.prompt = "time"' <<<"$infill")" | said)"
check_equal "files come first, by their names" \
    "$(by_hand "[763,748] $(tok $'myproject\n') [750] $(tok 'a.c') $(tok $'\n') $(tok 'A fox.') [750] $(tok tmp) $(tok $'\n') $(tok '') [750] $(tok filename) $(tok $'\n') [752] $(tok 'Once upon a ') [754] $(tok ' there was a fox') [756]")" \
    "$(post /infill "$(jq -c '.input_extra = [{filename: "a.c", text: "A fox."}, {text: ""}]' <<<"$infill")" | said)"
check_equal "a mark in a text is text" "$(by_hand "[763,752] $(tok '<|fim_middle|>') [754] $(tok '') [756]")" \
    "$(post /infill '{"input_prefix":"<|fim_middle|>","input_suffix":"","temperature":0,"n_predict":12}' | said)"
check_equal "suffix of completions is the same" "$(post /infill "$infill" | jq -c '[.content, .tokens_evaluated]')" \
    "$(post /v1/completions '{"prompt":"Once upon a ","suffix":" there was a fox","temperature":0,"max_tokens":12}' | jq -c '[.choices[0].text, .usage.prompt_tokens]')"
check_equal "in a stream, too" "$(post /infill "$infill" | jq -c .content)" \
    "$(post /infill "$(jq -c '.stream = true' <<<"$infill")" | sed -n 's/^data: //p' | jq -sc 'map(.content) | add')"
refuse_infill() { refusal "infill, $2" 400 "\"param\":\"$1\"" /infill "$(jq -c "$2" <<<"$infill")"; } # PARAM FILTER
refuse_infill input_prefix 'del(.input_prefix)'
refuse_infill input_suffix 'del(.input_suffix)'
refuse_infill input_prefix '.input_prefix = {}'
refuse_infill input_prefix '.input_prefix = [768]'
refuse_infill input_suffix '.input_suffix = 7'
refuse_infill prompt '.prompt = [1]'
refuse_infill input_extra '.input_extra = "a"'
refuse_infill input_extra '.input_extra = [7]'
refuse_infill input_extra '.input_extra = [{"filename": "a"}]'
refuse_infill input_extra '.input_extra = [{"text": "a", "filename": 7}]'
refuse_infill temperature '.temperature = -1'
refusal "infill, too long: nothing is cut" 400 exceed_context_size_error /infill "$(jq -c '.input_prefix = "a b " * 200' <<<"$infill")"
refusal "a suffix that is none" 400 '"param":"suffix"' /v1/completions '{"prompt":"a","suffix":7}'
refusal "echo before a suffix" 400 '"param":"echo"' /v1/completions '{"prompt":"a","suffix":"b","echo":true}'
stop

finish
