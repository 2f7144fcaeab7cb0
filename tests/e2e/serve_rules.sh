#!/usr/bin/env bash
# ferry serve: limits, waiting, life and access, each with a request that shows it. What texts say is tested in serve.sh.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/serve_lib.sh
. tests/serve_lib.sh

m=$TMP/tales.gguf
$FERRY convert tests/data/tales --outtype f32 -o "$m" -q 2>/dev/null || not_ok "the demo model converts"
first_line() { head -1 | tr -d '\r'; }
repeat() { head -c "$1" /dev/zero | tr '\0' "$2"; } # N CHARACTER

# --- limits -------------------------------------------------------------------------------------------------------

start limits -np 2 -c 512
get='GET /health HTTP/1.1\r\nHost: localhost\r\n'
check_equal "a long target is refused" "HTTP/1.1 414 URI Too Long" "$(raw "GET /$(repeat 9000 a) HTTP/1.1\r\nHost: localhost\r\n\r\n" | first_line)"
check_equal "so are more than 100 fields" "HTTP/1.1 431 Request Header Fields Too Large" \
    "$(raw "$get$(printf 'X-%d: a\\r\\n' $(seq 101))\r\n" | first_line)"
check_equal "a body that says it is too long is not read" "HTTP/1.1 413 Content Too Large" \
    "$(raw 'POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99000000\r\n\r\n' | first_line)"
refused() { # NAME PATTERN JSON: /completion answers 400 with a message like it
    local got
    printf '%s' "$3" >"$TMP/ask"
    got=$(status "$url/completion" --data-binary @"$TMP/ask")
    if [ "$got" = 400 ] && jq -e '.error | .message and .type == "invalid_request_error"' "$TMP/body" >/dev/null && grep -qE -- "$2" "$TMP/body"; then
        ok "$1"
    else
        not_ok "$1" "$got: $(cat "$TMP/body")"
    fi
}
refused "JSON that is 65 deep" 'deep|nest|levels' "{\"prompt\":\"a\",\"x\":$(repeat 65 '[')$(repeat 65 ']')}"
refused "NaN" 'line 1' '{"prompt":"a","temperature":NaN}'
refused "a number that no double holds" 'line 1|temperature' '{"prompt":"a","temperature":1e999}'
refused "bytes that are not UTF-8" 'UTF-8' "$(printf '{"prompt":"\xff"}')"
refused "a stop string beyond 1 KB" '"param":"stop"' "{\"prompt\":\"a\",\"stop\":\"$(repeat 1025 a)\"}"
refused "1025 biases" '"param":"logit_bias"' "{\"prompt\":\"a\",\"logit_bias\":$(jq -nc '[range(1025) | [. % 700, 1]]')}"
refused "65 choices" 'answers|"param":"n"' '{"prompt":"a","n":65}'
refused "a grammar beyond 64 KB" 'grammar' "{\"prompt\":\"a\",\"grammar\":\"root ::= \\\"a\\\" # $(repeat 66000 a)\"}"
refused "counts that unroll to a million symbols" 'symbols|smaller' '{"prompt":"a","grammar":"root ::= ((\"a\"{1000}){1000}){1000}"}'
refused "a grammar that begins with itself" 'line 1|1:' '{"prompt":"a","grammar":"root ::= root \"a\""}'
refused "a schema that is 65 deep" 'deep|nest|levels' "{\"prompt\":\"a\",\"json_schema\":$(printf '{"items":%.0s' $(seq 66))true$(repeat 66 '}')}"
for k in '"not":{}' '"if":{}' '"multipleOf":3' '"uniqueItems":true' '"contains":{}' '"propertyNames":{}' '"dependentRequired":{}'; do
    refused "a schema with $k, with its place" "${k%%:*}.*#/properties/a|#/properties/a.*${k%%:*}|$(cut -d'"' -f2 <<<"$k")" \
        "{\"prompt\":\"a\",\"json_schema\":{\"properties\":{\"a\":{$k}}}}"
done
for field in mirostat dry_multiplier xtc_probability dynatemp_range min_keep; do
    refused "$field, which ferry lacks" "\"param\":\"$field\"" "{\"prompt\":\"a\",\"$field\":1}"
    check_equal "at its neutral value it is taken" 200 "$(status "$url/completion" -d "{\"prompt\":\"a\",\"n_predict\":1,\"$field\":0}")"
done
refusal_of() { status "$url$1" -d "$2"; echo " $(jq -r '.error | "\(.param) \(.type)"' "$TMP/body")"; } # PATH JSON
check_equal "best_of other than n" "400 best_of invalid_request_error" "$(refusal_of /v1/completions '{"prompt":"a","n":2,"best_of":3,"max_tokens":1}')"
check_equal "n answers are the best of n" 2 "$(post /v1/completions '{"prompt":"a","n":2,"best_of":2,"max_tokens":1}' | jq '.choices | length')"
check_equal "POST /props: 501" "501 null not_supported_error" "$(refusal_of /props '{"chat_template":"x"}')"
# Too many ways through it, but only after some text: the answer has begun, and fails.
late="root ::= .* ([0-9]$(printf ' | .{1400} "%d"' $(seq 20)))"
for form in '/completion prompt .content' '/v1/chat/completions messages .choices[0].delta.content'; do
    read -r path member text <<<"$form"
    value='"Once upon a time"'
    [ "$member" = prompt ] || value="[{\"role\":\"user\",\"content\":$value}]"
    jq -nc --arg g "$late" --argjson v "$value" --arg m "$member" '{($m): $v, max_tokens: 400, ignore_eos: true, stream: true, grammar: $g}' >"$TMP/ask"
    post "$path" @"$TMP/ask" | sed -n 's/^data: //p' >"$TMP/events"
    check_equal "$path: a failure after the first token is an event, the last one" "true true 0" \
        "$(jq -s "map($text // empty) | length > 0" <(grep -v DONE "$TMP/events")) $(tail -1 "$TMP/events" | jq '.error.message | contains("a mask takes too long")') $(grep -c DONE "$TMP/events")"
done
refused "a sampler that is none" 'samplers' '{"prompt":"a","samplers":["top_k","nothing"]}'
greedy=$(post /completion '{"prompt":"Once upon a time","n_predict":20,"temperature":0}' | jq -r .content)
check_equal "a chain of top_k 1 alone is greedy" "$greedy" \
    "$(post /completion '{"prompt":"Once upon a time","n_predict":20,"temperature":5,"top_k":1,"samplers":["top_k"]}' | jq -r .content)"
check_equal "steps that are left out do nothing" 1 \
    "$([ "$greedy" = "$(post /completion '{"prompt":"Once upon a time","n_predict":20,"temperature":5,"top_k":1,"seed":1,"samplers":["temperature"]}' | jq -r .content)" ] || echo 1)"
check_equal "a grammar wins over a bias that forbids all it allows" "yes" \
    "$(post /completion "{\"prompt\":\"a\",\"grammar\":\"root ::= \\\"yes\\\"\",\"logit_bias\":$(jq -nc '[range(768) | [., false]]')}" | jq -r .content)"

refused "more likeliest tokens than there are" '"param":"n_probs"' '{"prompt":"a","n_probs":769}'
hi='"messages":[{"role":"developer","content":"Be kind."},{"role":"user","content":"Hi"}]'
check_equal "a developer is a system to a template that knows none" "$(post /apply-template "{${hi/developer/system}}")" "$(post /apply-template "{$hi}")"
check_equal "members that change nothing are taken" 200 \
    "$(status "$url/v1/chat/completions" -d "{$hi,\"max_tokens\":1,\"user\":\"u\",\"service_tier\":\"auto\",\"metadata\":{\"a\":\"b\"},\"x\":1}")"

# --- streams ------------------------------------------------------------------------------------------------------

stream='{"prompt":"Once upon a time","n_predict":3,"temperature":0,"stream":true}'
check_equal "a stream has its headers" "text/event-stream no-cache no chunked" \
    "$(curl -siN "$url/completion" -d "$stream" | tr -d '\r' | awk -F': ' '{ h[tolower($1)] = $2 } END { print h["content-type"], h["cache-control"], h["x-accel-buffering"], h["transfer-encoding"] }')"
older=${stream/n_predict/max_tokens}
raw "POST /v1/completions HTTP/1.0\r\nContent-Length: ${#older}\r\n\r\n$older" >"$TMP/stream"
check_equal "HTTP/1.0 gets it as it is, until the end" "0 data: [DONE]" \
    "$(grep -ci '^transfer-encoding' "$TMP/stream") $(tr -d '\r' <"$TMP/stream" | grep . | tail -1)"
stop "$pid"

# An answer whose text is held back, as it may be the beginning of a stop string: its stream is silent.
FY_CPU_MASK=0 start silent -np 1 -c 1200 --timeout 1
post /completion "{\"prompt\":\"a\",\"n_predict\":1000,\"ignore_eos\":true,\"stream\":true,\"n_probs\":300,\"grammar\":\"root ::= \\\"b\\\" \\\"a\\\"{1100}\",\"stop\":\"$(repeat 1024 a)\",
    \"logit_bias\":$(jq -nc '[range(1024)] | map(select(. < 768 and . > 255) | [., -30])')}" -N >"$TMP/stream"
check "a silent stream gets comments" grep -q '^:' "$TMP/stream"
stop "$pid"

# --- who waits ----------------------------------------------------------------------------------------------------

start queue -np 1 -c 1000 --queue 2 -v
long='{"prompt":"Once upon a time","n_predict":400,"ignore_eos":true,"temperature":0,"stream":true,"n_probs":600}'
clients=()
hold "$long"
wait_metric requests_running 1
for i in 1 2; do
    status "$url/completion" -d "$long" >"$TMP/waits$i" &
    clients+=($!)
done
wait_metric requests_waiting 2
check_equal "beyond --queue: 429, and when to come again" "429 1" \
    "$(curl -si "$url/completion" -d "$long" | tr -d '\r' | sed -n 's/^HTTP.1.1 \([0-9]*\).*/\1/p; s/^Retry-After: //p' | xargs)"
for ((best = 1000, i = 0; i < 500 && best >= 10; i++)); do
    took=$(curl -s -o /dev/null -w '%{time_total}' "$url/health" | awk '{ print int($1 * 1000) }')
    [ "$took" -ge "$best" ] || best=$took
done
check "/health is answered within 10 ms: $best ms" test "$best" -lt 10
kill -TERM "$pid"
wait_for 120 grep 'requests are finished first' "$TMP/queue"
check "after SIGTERM nobody new gets in" test "$(status "$url/health")" = 000
take_held >"$TMP/answer"
wait "$pid"
check_equal "it ends with 0" 0 $?
wait "${clients[@]}"
check_equal "what ran was finished" 400 "$(grep -o '"tokens_predicted":[0-9]*' "$TMP/answer" | tail -1 | cut -d: -f2)"
check_equal "what waited got 503" "503 503" "$(cat "$TMP/waits1") $(cat "$TMP/waits2")"
check "-v has a line per request" grep -q '^request [0-9]*: /completion 200, ' "$TMP/queue"
check_equal "without texts" 0 "$(grep -c 'Once upon' "$TMP/queue")"

start second -np 1 -c 1000
hold "$long"
wait_metric requests_running 1
kill -INT "$pid"
wait_for 120 grep 'requests are finished first' "$TMP/second"
kill -INT "$pid"
wait "$pid"
check_equal "a second signal ends it at once, with 130" 130 $?
take_held >/dev/null

start slots -np 2 -c 1000
hold "${long%\}},\"id_slot\":1}"
wait_metric slots_busy 1
check_equal "with a slot left /slots is fine with fail_on_no_slot" 200 "$(status "$url/slots?fail_on_no_slot=1")"
post /completion '{"prompt":"A","n_predict":1,"id_slot":1}' >"$TMP/one" &
client=$!
check "id_slot waits for that one" wait_metric requests_waiting 1
take_held >/dev/null
wait $client
check_equal "and gets it" 1 "$(jq .id_slot "$TMP/one")"
stop "$pid"

# All connections busy: a new one waits, and is answered when there is room.
start full -np 4 -c 1000 --max-connections 2
for i in 1 2; do
    post /completion "$long" >/dev/null &
done
sleep 0.3
check_equal "a connection too many waits for its turn" "200" "$(status "$url/health")"
stop "$pid"

start without --no-slots --no-metrics --no-ui --log-jsonl -np 1 -c 1000
check_equal "what was switched off is not offered" "501 501 404" "$(for p in slots metrics ''; do status "$url/$p"; echo; done | xargs)"
post /completion '{"prompt":"Once upon a time","n_predict":2}' >/dev/null
check_equal "--log-jsonl: a line of JSON per request, without texts" '["/completion",200] 0' \
    "$(grep '^{' "$TMP/without" | tail -1 | jq -c '[.path, .status]') $(grep -c 'Once upon' "$TMP/without")"
stop "$pid"
start none -np 1 -c 1000
hold "$long"
wait_metric slots_busy 1
check_equal "without a free slot it is 503" 503 "$(status "$url/slots?fail_on_no_slot=1")"
take_held >/dev/null
stop "$pid"

# --- who may ask --------------------------------------------------------------------------------------------------

FERRY_API_KEY=hidden start env
check_equal "FERRY_API_KEY is a key" "401 200" "$(status "$url/props") $(status "$url/props" -H 'x-api-key: hidden')"
check_equal "the page's file and OPTIONS need none" "200 200" "$(status "$url/") $(status -X OPTIONS "$url/completion")"
stop "$pid"
start star --cors-origins '*' --api-key k
check_equal "with a key any page may be let in" "200 http://any.example" \
    "$(curl -si "$url/props" -H 'x-api-key: k' -H 'Origin: http://any.example' | tr -d '\r' | sed -n 's/^HTTP.1.1 \([0-9]*\).*/\1/p; s/^Access-Control-Allow-Origin: //p' | xargs)"
stop "$pid"
start open --host 0.0.0.0
check "beyond this machine without a key: said in capitals" grep -q 'EVERYBODY WHO REACHES 0.0.0.0 MAY USE THIS SERVER' "$TMP/open"
stop "$pid"

if command -v openssl >/dev/null; then
    make_certificate() { # NAME
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$TMP/key.pem" -out "$TMP/cert.pem" \
            -days 2 -subj "/CN=$1" -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
    }
    subject() { openssl s_client -connect "127.0.0.1:$port" </dev/null 2>/dev/null | openssl x509 -noout -subject | grep -o '[a-z]*$'; }
    make_certificate before
    start tls --ssl-cert-file "$TMP/cert.pem" --ssl-key-file "$TMP/key.pem"
    check_equal "the certificate that was given" before "$(subject)"
    make_certificate after
    kill -HUP "$pid"
    is_new() { [ "$(subject)" = after ]; }
    check "SIGHUP reads a new one" wait_for 120 is_new
    echo broken >"$TMP/cert.pem"
    kill -HUP "$pid"
    wait_for 120 grep 'the old certificate stays in use' "$TMP/tls"
    check_equal "one that is broken leaves the old one in use" after "$(subject)"
    check_equal "TLS 1.1 is refused" 1 "$(openssl s_client -tls1_1 -cipher 'ALL:@SECLEVEL=0' -connect "127.0.0.1:$port" </dev/null 2>/dev/null | grep -c 'Cipher is (NONE)')"
    stop "$pid"
else
    skip "certificates" "openssl is not there"
fi

# --- options, and what it says of itself --------------------------------------------------------------------------

printf '%s' '{% for m in messages %}{{ m.content }}|{% endfor %}{{ tail }}{{ reasoning_effort }}' >"$TMP/tail.jinja"
start options --alias fox --chat-template "$TMP/tail.jinja" --template-arg tail=end -n 3 --temp 0 -np 1 -c 512
hi='"messages":[{"role":"user","content":"Hi"}]'
prompt_of() { post /apply-template "$1" | jq -r .prompt; } # JSON
check_equal "--alias is the model's id, in answers too" "fox fox" \
    "$(curl -s "$url/v1/models" | jq -r '.data[0].id') $(post /v1/chat/completions "{$hi}" | jq -r .model)"
check_equal "--template-arg is a variable of the template" "Hi|end" "$(prompt_of "{$hi}")"
check_equal "one of a request comes first" "Hi|mine" "$(prompt_of "{$hi,\"chat_template_kwargs\":{\"tail\":\"mine\"}}")"
check_equal "reasoning_effort is one, too" "Hi|endlow" "$(prompt_of "{$hi,\"reasoning_effort\":\"low\"}")"
check_equal "-n and --temp are the defaults of requests" "[3,0]" \
    "$(post /completion '{"prompt":"a","ignore_eos":true}' | jq -c '[.tokens_predicted, .generation_settings.temperature]')"
check_equal "max_completion_tokens is max_tokens" 2 \
    "$(post /v1/chat/completions "{$hi,\"max_completion_tokens\":2,\"logit_bias\":{\"0\":false}}" | jq .usage.completion_tokens)"
post /completion '{"prompt":"Once upon a time","n_predict":20,"temperature":1}' >"$TMP/drawn"
check_equal "a seed that was drawn is shown, and gives the same text" "$(jq .content "$TMP/drawn")" \
    "$(post /completion "{\"prompt\":\"Once upon a time\",\"n_predict\":20,\"temperature\":1,\"seed\":$(jq .generation_settings.seed "$TMP/drawn")}" | jq .content)"
check_equal "another request has another one" 2 \
    "$(for i in 1 2; do post /completion '{"prompt":"a","n_predict":1}' | jq .generation_settings.seed; done | sort -u | wc -l)"
check_equal "the fingerprint is the version and the model's hash" "$("$FERRY" --version | sed -n '1s/^ferry \([0-9.]*\).*/\1/p')-hash" \
    "$(jq -r .system_fingerprint "$TMP/drawn" | grep -oE '[0-9]+[.][0-9.]+-[0-9a-f]{8}$' | sed -E 's/[0-9a-f]{8}$/hash/')"
curl -s "$url/metrics" >"$TMP/metrics"
check_equal "metrics have all that was promised, each with its type" "" "$(
    for name in requests_total requests_running requests_waiting requests_cancelled_total requests_refused_total prompt_tokens_total \
        prompt_tokens_cached_total tokens_predicted_total prompt_seconds_total predict_seconds_total decode_steps_total batch_tokens \
        time_to_first_token_seconds time_per_output_token_seconds request_seconds queue_seconds slots slots_busy cache_positions_used \
        cache_ram_bytes cache_evictions_total grammar_mask_seconds connections bytes_sent_total build_info; do
        grep -qE "^ferry_${name}(_bucket)?[{ ]" "$TMP/metrics" && grep -q "^# TYPE ferry_$name " "$TMP/metrics" || echo "$name"
    done
    for name in process_resident_memory_bytes process_start_time_seconds; do grep -q "^$name [1-9]" "$TMP/metrics" || echo "$name"; done)"
check_equal "and count what was asked" "5 200" \
    "$(sed -n 's/^ferry_requests_total.*"\/completion",code="\([0-9]*\)"} \([0-9]*\)$/\2 \1/p' "$TMP/metrics")"
curl -si "$url/" | tr -d '\r' >"$TMP/page"
check "the page's policy lets nothing in that is not named" grep -q "^Content-Security-Policy: default-src 'none'" "$TMP/page"
check "it is small" test "$(wc -c <"$TMP/page")" -lt 100000
check_equal "and asks nobody else" 0 "$(grep -cE '(src|href)="(https?:)?//' "$TMP/page")"
stop "$pid"
start thinks --think none --chat-template "$TMP/tail.jinja" -np 1 -c 512
check_equal "--think none: thinking stays in the text" '"<think>x</think>y" null' \
    "$(post /v1/chat/completions "{$hi,\"grammar\":\"root ::= \\\"<think>x</think>y\\\"\"}" | jq -r '.choices[0].message | "\(.content | tojson) \(.reasoning_content)"')"
stop "$pid"

# --- a model that is cut short under it ---------------------------------------------------------------------------

cp "$m" "$TMP/short.gguf"
m=$TMP/short.gguf start short -np 1 -c 512
truncate -s 8192 "$TMP/short.gguf"
post /completion '{"prompt":"Once upon a time","n_predict":20}' >/dev/null
wait "$pid"
check_equal "a model that is cut short ends it with 1" 1 $?
check "with a sentence" grep -qi 'became shorter\|changed\|short' "$TMP/short"
finish
