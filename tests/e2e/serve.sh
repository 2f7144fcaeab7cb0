#!/usr/bin/env bash
# ferry serve with the demo model: APIs, streams, the law that an answer depends on its request alone, clients that leave,
# limits, access, and the life of the process. curl and bash's own sockets are the clients.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/serve_lib.sh
. tests/serve_lib.sh

m=$TMP/tales.gguf
golden=tests/data/tales/golden.json
$FERRY convert tests/data/tales --outtype f32 -o "$m" -q 2>/dev/null || not_ok "the demo model converts"
serve_options=(-ctk f32 -ctv f32)

# --- what it says of itself ---------------------------------------------------------------------------------------

start main -np 4 -c 512 --api-key secret --queue 3
auth=(-H 'Authorization: Bearer secret')
check "the address is printed" grep -q '^listening on http://127.0.0.1:[0-9]*$' "$TMP/main"
check "the plan is printed before it" grep -q 'KV cache: 4 sequences x 512 positions' "$TMP/main"
check_equal "/health needs no key" '{"status":"ok"}' "$(curl -s "$url/health")"
check_equal "everything else does" "401 401 401 401" \
    "$(for p in v1/models props metrics slots; do status "$url/$p"; echo; done | xargs)"
check_equal "a wrong key is none" 401 "$(status "$url/props" -H 'Authorization: Bearer Secret')"
check_equal "both headers carry it" "200 200" \
    "$(status "$url/props" -H 'authorization: bearer secret') $(status "$url/props" -H 'X-Api-Key: secret')"
check "no key is among the arguments that others see" \
    test "$(tr '\0' '\n' <"/proc/$pid/cmdline" | grep -c secret)" -eq 0
check_equal "the model is named without its path" '["tales",512,768]' \
    "$(curl -s "$url/v1/models" "${auth[@]}" | jq -c '.data[0] | [.id, .meta.n_ctx, .meta.n_vocab]')"
check_equal "another model is not there" "200 404" \
    "$(status "$url/v1/models/tales" "${auth[@]}") $(status "$url/v1/models/other" "${auth[@]}")"
check_equal "no answer holds a path" 0 "$(for p in v1/models props slots; do curl -s "$url/$p" "${auth[@]}"; done | grep -c "$TMP")"
check_equal "slots have their own context" '[[0,512],[1,512],[2,512],[3,512]]' \
    "$(curl -s "$url/slots" "${auth[@]}" | jq -c 'map([.id, .n_ctx])')"
stop "$pid"

# --- texts --------------------------------------------------------------------------------------------------------

start texts -np 4 -c 512
ask='{"prompt":"Once upon a time","n_predict":40,"temperature":0}'
story=$("$FERRY" run -m "$m" -p 'Once upon a time' -n 40 --temp 0 -ctk f32 -ctv f32 2>/dev/null)
check_equal "/completion tells what run tells" "$story" "$(post /completion "$ask" | jq -r .content)"
check_equal "/v1/completions too" "$story" "$(post /v1/completions "${ask/n_predict/max_tokens}" | jq -r '.choices[0].text')"
check_equal "a stream gives the same text" "$story" \
    "$(post /completion "${ask/\}/,\"stream\":true\}}" | sed -n 's/^data: //p' | jq -rj .content)"
for i in 0 1 2 3; do
    jq -c ".chat[$i] | {messages, temperature: 0}" $golden >"$TMP/ask"
    check_equal "conversation $i has its golden answer" "$(jq -r ".chat[$i].text" $golden)" \
        "$(post /v1/chat/completions "@$TMP/ask" | jq -r '.choices[0].message.content')"
done
check_equal "all of the conversation before came from the cache" true \
    "$(post /v1/chat/completions "@$TMP/ask" | jq '.usage | .prompt_tokens_details.cached_tokens == .prompt_tokens - 1')"
check_equal "without the cache the answer is the same" "$(jq -r ".chat[3].text" $golden) 0" \
    "$(jq -c '. + {cache_prompt: false}' "$TMP/ask" | post /v1/chat/completions @- |
        jq -r '"\(.choices[0].message.content) \(.usage.prompt_tokens_details.cached_tokens)"')"

chat='{"messages":[{"role":"user","content":"Tell me a tale"}],"max_tokens":12,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}'
post /v1/chat/completions "$chat" >"$TMP/stream"
check_equal "a stream ends with [DONE]" 'data: [DONE]' "$(grep . "$TMP/stream" | tail -1)"
grep '^data: {' "$TMP/stream" | sed 's/^data: //' >"$TMP/events"
check_equal "its first delta is the role, its last is empty" '["assistant",{}]' \
    "$(jq -sc '[.[0].choices[0].delta.role, .[-2].choices[0].delta]' "$TMP/events")"
check_equal "finish_reason comes once, then usage" '["length"] [12,true]' \
    "$(jq -sc '[.[].choices[0].finish_reason | values]' "$TMP/events") $(jq -sc '.[-1] | [.usage.completion_tokens, (.choices == [])]' "$TMP/events")"
check_equal "the deltas are the text" "$(post /v1/chat/completions "${chat/\"stream\":true/\"stream\":false}" | jq -r '.choices[0].message.content')" \
    "$(jq -rj '.choices[0].delta.content // ""' "$TMP/events")"
check_equal "usage counts every choice" '[[0,1,2],15]' \
    "$(post /v1/chat/completions "$(jq -c '.stream = false | .n = 3 | .max_tokens = 5' <<<"$chat")" |
        jq -c '[[.choices[].index], .usage.completion_tokens]')"
check_equal "a stop string ends the text, and is not in it" '["stop","Once upon"]' \
    "$(post /v1/chat/completions "$(jq -c '.stream = false | .stop = ["zzz", " a time"]' <<<"$chat")" |
        jq -c '.choices[0] | [.finish_reason, .message.content]')"
check_equal "/completion names it" '["word"," there was",", "]' \
    "$(post /completion '{"prompt":"Once upon a time","temperature":0,"stop":" there was"}' | jq -c '[.stop_type, .stopping_word, (.content | sub(",$"; ", "))]')"
check_equal "a full slot ends the text with length" '["limit",true,512]' \
    "$(post /completion '{"prompt":"Once upon a time","temperature":0,"ignore_eos":true}' | jq -c '[.stop_type, .truncated, .tokens_cached]')"

seeded='{"prompt":"Once upon a time","n_predict":30,"temperature":1,"seed":7}'
check_equal "the same seed gives the same text" "$(post /completion "$seeded" | jq -r .content)" "$(post /completion "$seeded" | jq -r .content)"
check_equal "another seed another" 1 \
    "$([ "$(post /completion "$seeded" | jq -r .content)" = "$(post /completion "${seeded/:7/:8}" | jq -r .content)" ] || echo 1)"
check_equal "choice i of n has seed + i" "$(post /v1/completions "${seeded/:7/:8}" | jq -r '.choices[0].text')" \
    "$(post /v1/completions "${seeded/:7/:7,\"n\":2}" | jq -r '.choices[1].text')"
check_equal "run says the same with that seed" "$("$FERRY" run -m "$m" -p 'Once upon a time' -n 30 --temp 1 --seed 7 -ctk f32 -ctv f32 2>/dev/null)" \
    "$(post /completion "$(jq -c '. + {top_p: 0.95, top_k: 40, min_p: 0.05}' <<<"$seeded")" | jq -r .content)"

# --- probabilities ------------------------------------------------------------------------------------------------

post /v1/chat/completions "$(jq -c '.stream = false | .logprobs = true | .top_logprobs = 3' <<<"$chat")" >"$TMP/probs"
check_equal "the texts of all tokens are the content" true \
    "$(jq '.choices[0] | ([.logprobs.content[].token] | add) == .message.content' "$TMP/probs")"
check_equal "their bytes too" true \
    "$(jq '.choices[0] | ([.logprobs.content[].bytes[]] | implode) == .message.content' "$TMP/probs")"
check_equal "the likeliest was chosen, with its own probability" true \
    "$(jq '[.choices[0].logprobs.content[] | .logprob == .top_logprobs[0].logprob and (.top_logprobs | length == 3)] | all' "$TMP/probs")"
check_equal "they are run's" \
    "$("$FERRY" run -m "$m" -p 'Once upon a time' -n 6 --temp 0 --json --logprobs 2 -ctk f32 -ctv f32 2>/dev/null | jq -c '[.logprobs[].logprob * 1000 | round]')" \
    "$(post /completion '{"prompt":"Once upon a time","n_predict":6,"temperature":0,"n_probs":2}' | jq -c '[.completion_probabilities[].logprob * 1000 | round]')"
post /v1/completions '{"prompt":"Once upon a time there was","echo":true,"logprobs":1,"max_tokens":0}' >"$TMP/probs"
check_equal "a text is scored" '["Once upon a time there was",true,null]' \
    "$(jq -c '.choices[0] | [.text, ((.logprobs.tokens | add) == .text), .logprobs.token_logprobs[0]]' "$TMP/probs")"
check_equal "with offsets" true \
    "$(jq '.choices[0] | .text as $t | .logprobs | [range(.tokens | length) as $i | $t[.text_offset[$i]:][:(.tokens[$i] | length)] == .tokens[$i]] | all' "$TMP/probs")"

# --- grammars -----------------------------------------------------------------------------------------------------

asked() { post /completion "$(jq -nc --arg g "$1" '{prompt: "Once upon a time", n_predict: 40, temperature: 1, seed: 5, grammar: $g}')"; }
check_equal "a grammar is kept to" '["eos",true]' \
    "$(asked 'root ::= ("cat" | "dog") " and " [0-9]{3}' | jq -c '[.stop_type, (.content | test("^(cat|dog) and [0-9]{3}$"))]')"
check_equal "also by conversations, in streams, by every choice" true \
    "$(post /v1/chat/completions '{"messages":[{"role":"user","content":"Hi"}],"n":4,"temperature":1,"stream":true,"grammar":"root ::= \"<\" [a-f]{5} \">\""}' |
        sed -n 's/^data: {/{/p' | jq -sc '[group_by(.choices[0].index)[] | map(.choices[0].delta.content // "") | add | test("^<[a-f]{5}>$")] | length == 4 and all')"
check_equal "with ignore_eos it ends all the same" "yes" \
    "$(post /completion '{"prompt":"a","ignore_eos":true,"grammar":"root ::= \"yes\""}' | jq -r .content)"
check_equal "what is not a grammar is refused, with its place" 400 \
    "$(status "$url/completion" -d '{"prompt":"a","grammar":"root ::= \"a\" |\nx ::= nothing"}')"
check "by line and column" grep -qE "'grammar'.*[0-9]+:[0-9]+|line [0-9]+" "$TMP/body"
schema='{"type":"object","properties":{"name":{"enum":["fox","dog"]},"legs":{"type":"integer","minimum":1,"maximum":9}},"required":["name","legs"],"additionalProperties":false}'
fits() { jq -c '(keys == ["legs", "name"]) and (.name | IN("fox", "dog")) and .legs >= 1 and .legs <= 9'; }
check_equal "/completion keeps to a JSON schema" true \
    "$(post /completion "{\"prompt\":\"A fox\",\"temperature\":1,\"seed\":2,\"json_schema\":$schema}" | jq -r .content | fits)"
format="{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"animal\",\"strict\":true,\"schema\":$schema}}"
hi='"messages":[{"role":"user","content":"Hi"}],"temperature":1'
check_equal "conversations by response_format, every choice" "true true true" \
    "$(post /v1/chat/completions "{$hi,\"n\":3,\"response_format\":$format}" | jq -r '.choices[].message.content' | fits | xargs)"
check_equal "json_object is an object" object \
    "$(post /v1/chat/completions "{$hi,\"seed\":1,\"max_tokens\":400,\"logit_bias\":{\"}\":8},\"response_format\":{\"type\":\"json_object\"}}" | jq -r '.choices[0].message.content' | jq -r type)"
check_equal "what a schema cannot promise is refused, not left out" "400 400 400 400 400" \
    "$(for j in '"json_schema":{"type":"string","not":{}}' '"tools":[{}]' '"response_format":{"type":"xml"}' '"response_format":{"type":"json_schema"}' \
        '"grammar":"root ::= \"a\"","json_schema":{}'; do status "$url/v1/chat/completions" -d "{$hi,$j}"; echo; done | xargs)"

# --- tokens -------------------------------------------------------------------------------------------------------

ids=$(post /tokenize '{"content":"Once upon a time, naïve"}' | jq -c .tokens)
check_equal "ids are tokenize's" "$("$FERRY" tokenize -m "$m" --no-bos 'Once upon a time, naïve' | tr ' ' ',')" \
    "$(jq -r 'map(tostring) | join(",")' <<<"$ids")"
check_equal "and back" 'Once upon a time, naïve' "$(post /detokenize "{\"tokens\":$ids}" | jq -r .content)"
check_equal "pieces that are no characters are bytes" '[[195],[175]]' \
    "$(post /tokenize '{"content":"ï","with_pieces":true}' | jq -c '[.tokens[].piece]')"
check_equal "the template is applied" "$("$FERRY" template -m "$m" --messages - <<<'[{"role":"user","content":"Hi"}]')" \
    "$(post /apply-template '{"messages":[{"role":"user","content":[{"type":"text","text":"H"},{"type":"text","text":"i"}]}]}' | jq -r .prompt)"

anonymous() { awk '/^RssAnon/ { print $2 }' "/proc/$pid/status"; }
case $FERRY in
*/asan/* | */tsan/*) skip "what a long request needed goes back to the system" "a sanitizer keeps it" ;;
*)
    before=$(anonymous)
    yes 'words and others' | head -c 6000000 | tr '\n' ' ' | jq -Rc '{content: .}' >"$TMP/long"
    for _ in 1 2 3; do post /tokenize "@$TMP/long" >/dev/null; done
    check "what a long request needed goes back to the system" test $(($(anonymous) - before)) -lt 4096
    ;;
esac

# --- the law ------------------------------------------------------------------------------------------------------

# What an answer says, its probabilities to the last digit included.
essence() { jq -c '[.content, .tokens, .completion_probabilities, .stop_type, .tokens_evaluated]'; }
one='{"prompt":"Once upon a time there was a fox","n_predict":60,"temperature":0.9,"seed":11,"n_probs":4,"return_tokens":true}'
alone=$(post /completion "$one" | essence)
check_equal "again, from the cache" "$alone" "$(post /completion "$one" | essence)"
check_equal "again, without it" "$alone" "$(post /completion "${one/\{/\{\"cache_prompt\":false,}" | essence)"
for ((i = 0; i < 15; i++)); do
    post /completion "{\"prompt\":\"$(printf 'Once upon a time there was a fox%.0s' $(seq $((i % 5)))) and $i\",\"n_predict\":$((20 + i * 6)),\"temperature\":1,\"seed\":$i}" >/dev/null &
    crowd+=($!)
done
for k in 1 2 3; do check_equal "among 15 others, $k" "$alone" "$(post /completion "$one" | essence)"; done
wait "${crowd[@]}"
stop "$pid"
start other -np 16 -c 512 -t 1 -b 32
for ((i = 0; i < 15; i++)); do
    post /completion "{\"prompt\":\"Once upon a time there was a $i\",\"n_predict\":150,\"temperature\":1,\"ignore_eos\":true,\"seed\":$i}" >/dev/null &
    crowd+=($!)
done
check_equal "with other slots, threads and batches, in a step with 15 others" "$alone" "$(post /completion "$one" | essence)"
wait "${crowd[@]}"
stop "$pid"

# --- thinking -----------------------------------------------------------------------------------------------------

# A model that thinks: "Once upon a time" begins with <think> and continues after </think>.
mkdir "$TMP/thinker"
cp tests/data/tales/*.json tests/data/tales/model.safetensors "$TMP/thinker"
jq '.model.vocab |= with_entries(if .value == 408 then .key = "<think>" elif .value == 410 then .key = "</think>" else . end)
    | .model.merges |= map(select((.[0] + .[1]) as $t | $t != "Once" and $t != "\u0120time"))' \
    tests/data/tales/tokenizer.json >"$TMP/thinker/tokenizer.json"
$FERRY convert "$TMP/thinker" --outtype f32 -o "$TMP/thinker.gguf" -q 2>/dev/null || not_ok "the thinker converts"
m=$TMP/thinker.gguf start think -c 512
first=$(jq -c '.chat[0] | {messages, temperature: 0}' $golden)
answer=$(jq -r '.chat[0].text' $golden)
post /v1/chat/completions "$first" >"$TMP/thought"
check_equal "thinking is apart from the answer" '[" upon a",true]' \
    "$(jq -c --arg a "${answer#Once upon a time}" '.choices[0].message | [.reasoning_content, .content == $a]' "$TMP/thought")"
check_equal "in a stream too" '[" upon a",true]' \
    "$(post /v1/chat/completions "$(jq -c '.stream = true' <<<"$first")" | sed -n 's/^data: {/{/p' |
        jq -sc --arg a "${answer#Once upon a time}" '[.[].choices[0].delta] | [(map(.reasoning_content // "") | add), (map(.content // "") | add) == $a]')"
check_equal "unless it is asked for as text" "<think> upon a</think>${answer#Once upon a time}" \
    "$(post /v1/chat/completions "$(jq -c '.reasoning_format = "none"' <<<"$first")" | jq -r '.choices[0].message.content')"
stop "$pid"

# --- texts that lost their slot -----------------------------------------------------------------------------------

for ram in 0 100M; do
    start ram -np 1 -c 512 -ctk q8_0 -ctv f16 --cache-ram $ram
    long=$(printf 'Once upon a time there was a little fox. %.0s' $(seq 8))
    ask_fox() { post /completion "$(jq -nc --arg p "$long" '{prompt: $p, n_predict: 20, temperature: 0.8, seed: 3, n_probs: 2}')"; }
    ask_fox | tee "$TMP/fox" | essence >"$TMP/first"
    post /completion '{"prompt":"A dog","n_predict":60,"temperature":0,"ignore_eos":true}' >/dev/null
    ask_fox | tee "$TMP/fox" | essence >"$TMP/second"
    check_equal "with $ram of memory for them: cached" "$([ $ram = 0 ] && echo 1 || echo all)" \
        "$(jq -r '.timings | if .prompt_n == 1 then "all" else .cache_n end' "$TMP/fox")"
    check "there is one" test -s "$TMP/first"
    check "the answer is the same" cmp "$TMP/first" "$TMP/second"
    check_equal "metrics tell how much is kept" "$([ $ram = 0 ] && echo 0 || echo 1)" "$(($(metric cache_ram_bytes) + 0 > 0))"
    stop "$pid"
done

# --- clients that leave -------------------------------------------------------------------------------------------

start leave -np 1 -c 1000
for kind in false true; do
    before=$(metric requests_cancelled_total)
    curl -sN "$url/completion" -d "{\"prompt\":\"Once upon a time\",\"ignore_eos\":true,\"n_predict\":900,\"n\":32,\"n_probs\":300,\"stream\":$kind}" >/dev/null &
    client=$!
    check "an answer runs (stream: $kind)" wait_metric slots_busy 1
    kill -KILL $client; wait $client 2>/dev/null
    check "its client leaves, and the slot is free" wait_metric slots_busy 0
    check "the choices that waited were dropped, and are counted" test "$(metric requests_cancelled_total)" -gt "$before"
done
check "one that resets its connection is noticed as well" test "$(build/host/release/tests/e2e/soak_clients "$port" reset)" -gt 0
stop "$pid"

# --- clients that do not read, and too many of them ---------------------------------------------------------------

start slow -np 2 -c 1000 --timeout 12 --max-connections 4
hold '{"prompt":"Once upon a time","n_predict":990,"ignore_eos":true,"stream":true,"n_probs":600,"id_slot":0}'
decoded() { curl -s "$url/slots" | jq '.[0].n_decoded'; }
last=-1
pauses() { now=$(decoded) && [ "$now" -gt 0 ] && [ "$now" -eq "$last" ] || { last=$now && sleep 0.3 && false; }; }
wait_for 120 pauses
check "an answer that nobody takes pauses: $now of 990 tokens" test "$now" -gt 0 -a "$now" -lt 990
check_equal "others are answered meanwhile" 20 "$(post /completion '{"prompt":"A","n_predict":20,"ignore_eos":true}' | jq .tokens_predicted)"
check "its client is dropped after --timeout" wait_metric slots_busy 0
exec 9>&-
for fd in 5 6 7; do eval "exec $fd<>/dev/tcp/127.0.0.1/$port"; done
check_equal "an idle connection makes room for a new one" '{"status":"ok"}{"status":"ok"}' "$(curl -s "$url/health")$(curl -s "$url/health")"
for fd in 5 6 7; do eval "exec $fd>&-"; done
stop "$pid"

# --- what is refused ----------------------------------------------------------------------------------------------

start refuse -np 2 -c 64 --max-body 4096 --max-head 2048
refusal() { # NAME STATUS PATTERN PATH JSON
    local got
    got=$(status "$url$4" -d "$5")
    if [ "$got" = "$2" ] && jq -e '.error | .message and .type and .code' "$TMP/body" >/dev/null && grep -qE -- "$3" "$TMP/body"; then
        ok "$1"
    else
        not_ok "$1" "$got: $(cat "$TMP/body")"
    fi
}
refusal "no JSON" 400 'line 1' /completion '{"prompt":'
refusal "a list as the body" 400 'a list' /completion '[]'
refusal "a member twice" 400 'prompt' /completion '{"prompt":"a","prompt":"b"}'
refusal "no prompt" 400 '"param":"prompt"' /completion '{}'
refusal "a temperature that is text" 400 '"param":"temperature"' /completion '{"prompt":"a","temperature":"hot"}'
refusal "a temperature below 0" 400 'expected 0 to 100' /completion '{"prompt":"a","temperature":-1}'
refusal "half a token" 400 'whole number' /completion '{"prompt":"a","n_predict":1.5}'
refusal "an id beyond the vocabulary" 400 'expected 0 to 767' /completion '{"prompt":[768]}'
refusal "an empty stop string" 400 '"param":"stop"' /completion '{"prompt":"a","stop":""}'
refusal "17 stop strings" 400 'more than 16' /completion "{\"prompt\":\"a\",\"stop\":$(jq -nc '[range(17) | "s\(.)"]')}"
refusal "65 prompts" 400 'prompt' /completion "{\"prompt\":$(jq -nc '[range(65) | "a"]')}"
refusal "a sampler that ferry lacks" 400 'mirostat' /completion '{"prompt":"a","mirostat":2}'
refusal "a slot that is not there" 400 'id_slot' /completion '{"prompt":"a","id_slot":9}'
refusal "a prompt that does not fit" 400 'exceed_context_size_error.*"n_prompt_tokens":80,"n_ctx":64' /completion \
    "{\"prompt\":$(jq -nc '[range(80)]')}"
refusal "the same of a stream, without one" 400 'exceed_context' /completion "{\"stream\":true,\"prompt\":$(jq -nc '[range(80)]')}"
refusal "a picture" 400 "image_url" /v1/chat/completions '{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}'
refusal "no messages" 400 'messages' /v1/chat/completions '{"messages":[]}'
refusal "top_logprobs without logprobs" 400 'top_logprobs' /v1/chat/completions '{"messages":[{"role":"user","content":"a"}],"top_logprobs":2}'
refusal "what is not offered" 501 'not offer' /rerank '{}'
refusal "a long body" 413 'max-body' /completion "{\"prompt\":\"$(head -c 5000 /dev/zero | tr '\0' a)\"}"
check_equal "another path is 404, another method 405 with Allow" "404 405 POST, OPTIONS" \
    "$(status "$url/nothing") $(status "$url/completion") $(curl -si "$url/completion" | tr -d '\r' | sed -n 's/^Allow: //p')"

# --- HTTP ---------------------------------------------------------------------------------------------------------

get='GET /health HTTP/1.1\r\nHost: localhost\r\n'
check_equal "requests in a row are answered in order" "200 400 200 404" \
    "$(raw "$get\\r\\nPOST /completion HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 2\\r\\n\\r\\n{}$get\\r\\nGET /nothing HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n" |
        grep -o 'HTTP/1.1 [0-9]*' | cut -d' ' -f2 | xargs)"
check_equal "HEAD has no body" "0 15" \
    "$(raw "HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" | tr -d '\r' | awk 'body { n += length($0) } /^$/ { body = 1 } /^Content-Length/ { l = $2 } END { print n + 0, l }')"
check "HTTP/1.0 gets its answer and the end" grep -q '"ok"' <<<"$(raw 'GET /health HTTP/1.0\r\n\r\n')"
check_equal "a body in chunks is read" 1 "$(curl -s "$url/tokenize" -H 'Transfer-Encoding: chunked' -d '{"content":"a"}' | jq '.tokens | length')"
check "Expect: 100-continue is answered" grep -q '100 Continue' \
    <<<"$(raw 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 15\r\nConnection: close\r\n\r\n{"content":"a"}')"
for bad in 'GET / HTTP/1.1\nHost: a\n\n' 'GET / HTTP/1.1\r\n\r\n' 'POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: +3\r\n\r\n' \
    'POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n' \
    'GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n'; do
    check_equal "refused: ${bad:0:60}" "HTTP/1.1 400 Bad Request" "$(raw "$bad" | head -1 | tr -d '\r')"
done
check_equal "a long head is refused" "HTTP/1.1 431 Request Header Fields Too Large" \
    "$(raw "${get}X: $(head -c 3000 /dev/zero | tr '\0' a)\r\n\r\n" | head -1 | tr -d '\r')"

# --- who may ask --------------------------------------------------------------------------------------------------

check_equal "another Host is refused" "403 200 200" \
    "$(status "$url/props" -H 'Host: evil.example') $(status "$url/props" -H "Host: localhost:$port") $(status "$url/props" -H 'Host: [::1]:80')"
check_equal "another page is refused, also to write" "403 403 200" \
    "$(status "$url/props" -H 'Origin: http://evil.example') $(status "$url/completion" -H 'Origin: null' -d '{}') $(status "$url/props" -H "Origin: $url")"
check_equal "a page has to send JSON as JSON" "415 400" \
    "$(status "$url/completion" -H "Origin: $url" -H 'Content-Type: text/plain' -d '{}') $(status "$url/completion" -H "Origin: $url" -H 'Content-Type: application/json' -d '{}')"
stop "$pid"
start impatient -np 1 -c 64 --header-timeout 0.6
check_equal "a slow head is refused" "HTTP/1.1 408 Request Timeout" "$(raw "$get" | head -1 | tr -d '\r')"
check_equal "a slow body is refused" "HTTP/1.1 408 Request Timeout" \
    "$(raw 'POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{' | head -1 | tr -d '\r')"
stop "$pid"
start origins --cors-origins http://a.example,http://b.example --allowed-hosts name.example --host "127.0.0.1,$TMP/s.sock"
check_equal "a listed origin may, and is named alone" "http://b.example" \
    "$(curl -si "$url/health" -H 'Origin: http://b.example' | tr -d '\r' | sed -n 's/^Access-Control-Allow-Origin: //p')"
check_equal "its preflight too" "200 GET, POST, OPTIONS" \
    "$(curl -si -X OPTIONS "$url/completion" -H 'Origin: http://a.example' | tr -d '\r' | sed -n 's/^HTTP.1.1 \([0-9]*\).*/\1/p; s/^Access-Control-Allow-Methods: //p' | xargs)"
check_equal "a listed Host may" 200 "$(status "$url/props" -H 'Host: name.example')"
check_equal "a Unix socket serves" '{"status":"ok"}' "$(curl -s --unix-socket "$TMP/s.sock" http://localhost/health)"
check_equal "for its owner" 600 "$(stat -c %a "$TMP/s.sock")"
stop "$pid"
check "its socket is gone with it" test ! -e "$TMP/s.sock"

if command -v openssl >/dev/null; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$TMP/key.pem" -out "$TMP/cert.pem" \
        -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
    start tls --ssl-cert-file "$TMP/cert.pem" --ssl-key-file "$TMP/key.pem"
    check_equal "TLS serves" '{"status":"ok"}' "$(curl -s --cacert "$TMP/cert.pem" "https://127.0.0.1:$port/health")"
    check_equal "a text too" "${story:0:10}" \
        "$(curl -s --cacert "$TMP/cert.pem" "https://127.0.0.1:$port/completion" -d "$ask" | jq -r '.content[:10]')"
    kill -HUP "$pid"
    check_equal "after the certificate was read again, too" '{"status":"ok"}' "$(curl -s --cacert "$TMP/cert.pem" "https://127.0.0.1:$port/health")"
    stop "$pid"
else
    skip "TLS serves" "openssl is not there"
fi

# --- life ---------------------------------------------------------------------------------------------------------

start life -np 1 -c 1000
post /completion '{"prompt":"Once upon a time","n_predict":300,"ignore_eos":true,"temperature":0}' >"$TMP/answer" &
client=$!
wait_metric slots_busy 1
check_status "a taken port is said" 1 "is taken by another program" "$FERRY" serve -m "$m" --port "$port"
stop "$pid"
check_equal "SIGTERM ends it with status 0" 0 $?
wait $client
check_equal "after what it had begun" 300 "$(jq .tokens_predicted "$TMP/answer")"
check_status "no model" 2 "no model" "$FERRY" serve
check_status "a file that is not there" 1 "no-such" "$FERRY" serve -m "$TMP/no-such.gguf" --port 0
check_status "slots that do not fit" 3 "use a smaller -c or -np" "$FERRY" serve -m "$m" --port 0 -np 256 -c 2000000
check_status "every page without a key" 2 "give an --api-key" "$FERRY" serve -m "$m" --port 0 --cors-origins '*'
printf 'a\n# b\n\nc # d\n' >"$TMP/key_list"
chmod 644 "$TMP/key_list"
check_status "keys that others may read" 2 "chmod 600" "$FERRY" serve -m "$m" --port 0 --api-key-file "$TMP/key_list"
chmod 600 "$TMP/key_list"
start keys --api-key-file "$TMP/key_list"
check_equal "keys of a file" "200 200 401" "$(for k in a c b; do status "$url/props" -H "x-api-key: $k"; echo; done | xargs)"
for k in a c a; do
    post /completion '{"prompt":"Once upon a time there was a little","n_predict":2}' -H "x-api-key: $k" | jq .timings.cache_n
done >"$TMP/cached"
check_equal "what one key has asked is not used for another" "0 0 8" "$(xargs <"$TMP/cached")"
stop "$pid"
finish
