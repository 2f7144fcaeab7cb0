#!/usr/bin/env bash
# What programs written for llama-server ask for: answers that are begun, chosen members, progress, probabilities of the draw,
# timings, the prompt as the model got it, and llama-server's names (?compat=llama). curl and jq are the client.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/serve_lib.sh
. tests/serve_lib.sh

m=$TMP/tales.gguf
$FERRY convert tests/data/tales --outtype f32 -o "$m" -q 2>/dev/null || not_ok "the demo model converts"
serve_options=(-c 512 -ctk f32 -ctv f32 --chat-template chatml)
refused() { post "$1" "$2" | jq -r '"\(.error.code) \(.error.param)"'; } # PATH JSON: status and member of a refusal
events() { sed -n 's/^data: //p' | grep -v '^\[DONE\]'; }
ask='{"prompt":"Once upon a time","n_predict":12,"temperature":0'

start main -np 2 --seed 7

# --- an answer that is begun --------------------------------------------------------------------------------------

user='{"role":"user","content":"Tell a tale"}'
begun='{"role":"assistant","content":"Once upon "}'
open=$'<|im_start|>user\nTell a tale<|im_end|>\n<|im_start|>assistant\n'
prompt_of() { post /apply-template "$1" | jq .prompt; } # JSON: the rendered text, as JSON
check_equal "a last message of the assistant is the beginning of the answer" "$(jq -n --arg t "${open}Once upon " '$t')" \
    "$(prompt_of "{\"messages\":[$user,$begun]}")"
check_equal "without text it is nothing yet" "$(jq -n --arg t "$open" '$t')" \
    "$(prompt_of "{\"messages\":[$user,{\"role\":\"assistant\",\"content\":\"\"}]}")"
check_equal "continue_final_message false: it is a message like others" \
    "$(jq -n --arg t "${open}Once upon <|im_end|>"$'\n<|im_start|>assistant\n' '$t')" \
    "$(prompt_of "{\"messages\":[$user,$begun],\"continue_final_message\":false}")"
check_equal "vLLM's spelling" "$(jq -n --arg t "${open}Once upon " '$t')" \
    "$(prompt_of "{\"messages\":[$user,$begun],\"continue_final_message\":true,\"add_generation_prompt\":false}")"
check_equal "continued or begun, not both" "400 continue_final_message" \
    "$(refused /v1/chat/completions "{\"messages\":[$user,$begun],\"continue_final_message\":true,\"add_generation_prompt\":true}")"
check_equal "there has to be an answer to continue" "400 continue_final_message" \
    "$(refused /v1/chat/completions "{\"messages\":[$user],\"continue_final_message\":true}")"
check_equal "of two it is not clear which" "400 messages" \
    "$(refused /v1/chat/completions "{\"messages\":[$user,$begun,$begun]}")"
printf '{%% for m in messages %%}{{ m.content }}|{%% endfor %%}<think>\n' >"$TMP/thinks.jinja"
printf '{%% for m in messages %%}{{ m.content[:4] }}|{%% endfor %%}' >"$TMP/cuts.jinja"
whole=$(post /completion "{\"prompt\":$(jq -n --arg t "${open}Once upon " '$t'),\"n_predict\":12,\"temperature\":0}" | jq .content)
check_equal "the answer goes on there, and has the new text only" "$whole" \
    "$(post /v1/chat/completions "{\"messages\":[$user,$begun],\"max_tokens\":12,\"temperature\":0}" | jq '.choices[0].message.content')"
check_equal "in Anthropic's API too" "$whole" \
    "$(post /v1/messages "{\"messages\":[$user,$begun],\"max_tokens\":12,\"temperature\":0}" | jq '.content[0].text')"
check_equal "what its prompt counts" "$(post /tokenize "{\"content\":$(jq -n --arg t "${open}Once upon " '$t'),\"add_special\":true}" | jq '.tokens | length')" \
    "$(post /v1/chat/completions/input_tokens "{\"messages\":[$user,$begun]}" | jq .input_tokens)"

# --- members ------------------------------------------------------------------------------------------------------

check_equal "response_fields chooses members" '{"content":true,"timings/prompt_n":true,"prompt":true}' \
    "$(post /completion "$ask,\"cache_prompt\":false,\"response_fields\":[\"content\",\"timings/prompt_n\",\"none\",\"prompt\"]}" |
        jq -c '.content |= (length > 0) | .prompt |= endswith("Once upon a time") | ."timings/prompt_n" |= (. > 0)')"
check_equal "of a stream the last event" '["content","stop"]' \
    "$(post /completion "$ask,\"stream\":true,\"response_fields\":[\"stop\",\"content\"]}" | events | tail -1 | jq -c keys)"
check_equal "they are names" "400 response_fields" "$(refused /completion "$ask,\"response_fields\":[1]}")"
check_equal "events of a stream have their tokens" true \
    "$(post /completion "$ask,\"stream\":true}" | events | jq -s '[.[] | select(.stop | not) | .tokens | length] | length > 0 and min == 1')"
check_equal "a prompt may be an object" "$(post /completion "$ask}" | jq .content)" \
    "$(post /completion "${ask/\"Once upon a time\"/{\"prompt_string\":\"Once upon a time\"\}}}" | jq .content)"
check_equal "of parts, too, in a list and alone" "$(post /embedding '{"input":["a tale","a tale"]}' | jq -c 'map(.embedding)')" \
    "$(post /embedding '{"input":[{"content":[{"type":"text","text":"a "},{"type":"text","text":"tale"}]},{"prompt_string":"a tale"}]}' |
        jq -c 'map(.embedding)')"
check_equal "its parts are texts" "400 input" "$(refused /v1/embeddings '{"input":{"content":[{"type":"image_url"}]}}')"
check_equal "but for texts" "400 prompt" \
    "$(refused /completion '{"prompt":{"prompt_string":"a <__media__>","multimodal_data":["AA=="]}}')"
check_equal "ignore_eos is a bias that forbids" '[{"token":true,"bias":null}]' \
    "$(post /completion "$ask,\"ignore_eos\":true}" | jq -c '.generation_settings.logit_bias | map(.token |= (. >= 0)) | unique')"
check_equal "no bias, no list" '[]' "$(post /completion "$ask}" | jq -c .generation_settings.logit_bias)"
check_equal "/props has the seed that requests get" 7 "$(curl -s "$url/props" | jq .default_generation_settings.params.seed)"
check_equal "the first event of a conversation has the role alone" '{"role":"assistant","content":null}' \
    "$(post /v1/chat/completions "{\"messages\":[$user],\"max_tokens\":2,\"stream\":true}" | events | head -1 | jq -c '.choices[0].delta')"

# --- probabilities of the draw ------------------------------------------------------------------------------------

probs() { post /completion "{\"prompt\":\"Once upon a time\",\"n_predict\":8,\"post_sampling_probs\":true,\"n_probs\":$1,$2}" | jq -c "[.completion_probabilities[]] | $3"; }
check_equal "post_sampling_probs: every token with its own probability, best first" true \
    "$(probs 5 '"seed":1,"temperature":1' 'length == 8 and all(.[]; .prob > 0 and .prob <= 1 and (.top_probs | length >= 1 and . == (sort_by(-.prob, .id))))')"
check_equal "all that may be drawn make one" true \
    "$(probs 768 '"seed":1,"temperature":1,"top_k":0,"top_p":1,"min_p":0' 'all(.[]; [.top_probs[].prob] | add | . > 0.9999 and . < 1.0001)')"
check_equal "top_k leaves as many" '[3,3,3,3,3,3,3,3]' "$(probs 10 '"seed":1,"top_k":3,"top_p":1,"min_p":0' 'map(.top_probs | length)')"
check_equal "the token is among them, with the same probability" true \
    "$(probs 3 '"seed":1,"top_k":3,"top_p":1,"min_p":0' 'all(.[]; .id as $i | .prob as $p | .top_probs | any(.id == $i and .prob == $p))')"
check_equal "greedy leaves one" '[[1,1]]' "$(probs 4 '"temperature":0' 'map([.prob, (.top_probs | length)]) | unique')"
check_equal "without it they are the model's" true \
    "$(post /completion "$ask,\"n_probs\":2}" | jq '.completion_probabilities | all(has("logprob") and has("top_logprobs"))')"
check_equal "the older form of OpenAI has no place for them" "400 post_sampling_probs" \
    "$(refused /v1/completions '{"prompt":"a","logprobs":1,"post_sampling_probs":true}')"

# --- progress and time --------------------------------------------------------------------------------------------

stop_server() { kill -TERM "$pid"; wait "$pid"; }
stop_server
start parts -np 1 -b 64 --seed 7
long=$(printf 'Once upon a time there was a boy. %.0s' {1..20})
n=$(post /tokenize "{\"content\":\"$long\",\"add_special\":true}" | jq '.tokens | length')
progress() { jq -c 'select(.prompt_progress) | .prompt_progress | [.total, .cache, .processed]'; }
want=$(for ((i = 0; i < n; i += 64)); do echo "[$n,0,$i]"; done; echo "[$n,0,$n]")
check_equal "return_progress: when the prompt begins, and after each step" "$want" \
    "$(post /completion "{\"prompt\":\"$long\",\"n_predict\":2,\"stream\":true,\"return_progress\":true}" | events | progress)"
check_equal "what is in the cache is done when it begins" "[$n,$((n - 1)),$((n - 1))] [$n,$((n - 1)),$n]" \
    "$(post /v1/completions "{\"prompt\":\"$long\",\"max_tokens\":2,\"stream\":true,\"return_progress\":true}" | events | progress | xargs)"
check_equal "in conversations too" true \
    "$(post /v1/chat/completions "{\"messages\":[{\"role\":\"user\",\"content\":\"$long\"}],\"max_tokens\":2,\"stream\":true,\"return_progress\":true}" |
        events | progress | jq -s 'length > 2 and .[-1][2] == .[-1][0]')"
check_equal "without a stream it says nothing" false \
    "$(post /completion "{\"prompt\":\"$long\",\"n_predict\":2,\"return_progress\":true}" | jq 'has("prompt_progress")')"
check_equal "timings of each event: none before anything is computed, and they grow" true \
    "$(post /completion "{\"prompt\":\"$long\",\"n_predict\":6,\"stream\":true,\"return_progress\":true,\"timings_per_token\":true,\"cache_prompt\":false}" |
        events | jq -s 'map(.timings) | .[0].prompt_n == 0 and .[0].prompt_ms == 0 and map(.prompt_ms) == (map(.prompt_ms) | sort)
            and map(.predicted_ms) == (map(.predicted_ms) | sort) and .[-1].predicted_n == 6')"
check_equal "the first event of a conversation has none, the one with usage has" '[false,true]' \
    "$(post /v1/chat/completions "{\"messages\":[$user],\"max_tokens\":4,\"stream\":true,\"timings_per_token\":true,\"stream_options\":{\"include_usage\":true}}" |
        events | jq -sc '[(.[0] | has("timings")), (.[-1] | has("timings") and has("usage"))]')"
check_equal "the first token comes with the prompt: rates are the others'" '[1,0,0] [6,true,true]' \
    "$(post /completion "${ask/12/1}}" | jq -c '.timings | [.predicted_n, .predicted_ms, .predicted_per_second]') $(
        post /completion "${ask/12/6},\"ignore_eos\":true}" | jq -c '.timings | [.predicted_n,
            (1e3 / .predicted_ms * 5 - .predicted_per_second | fabs < 1e-6), (.predicted_ms / 5 - .predicted_per_token_ms | fabs < 1e-6)]')"
check_equal "t_max_predict_ms counts from the first token on" true \
    "$(post /completion "${ask/12/300},\"ignore_eos\":true,\"t_max_predict_ms\":20}" | jq '.tokens_predicted > 1 and .tokens_predicted <= 300')"
check_equal "it is a number" "400 t_max_predict_ms" "$(refused /completion "$ask,\"t_max_predict_ms\":\"20\"}")"

# --- what the model got -------------------------------------------------------------------------------------------

check_equal "verbose shows the prompt of an answer" true \
    "$(post /v1/chat/completions "{\"messages\":[$user],\"max_tokens\":2,\"verbose\":true}" |
        jq --arg t "$open" '.__verbose | (.prompt | endswith($t)) and .generation_settings.n_predict == 2')"
check_equal "nobody else sees it" false \
    "$(post /v1/chat/completions "{\"messages\":[$user],\"max_tokens\":2}" | jq 'has("__verbose")')"
check_equal "of a stream at its end" 1 \
    "$(post /v1/chat/completions "{\"messages\":[$user],\"max_tokens\":2,\"stream\":true,\"verbose\":true}" | events | grep -c __verbose)"

# --- llama-server's names -----------------------------------------------------------------------------------------

check_equal "?compat=llama: the fingerprint of a build" true \
    "$(post '/v1/chat/completions?compat=llama' "{\"messages\":[$user],\"max_tokens\":2}" | jq '.system_fingerprint | startswith("b")')"
check_equal "settings of samplers that ferry lacks, off" '[0,-1]' \
    "$(post '/completion?compat=llama' "$ask}" | jq -c '.generation_settings | [.mirostat, .adaptive_target]')"
check_equal "metrics under their names, with types" 15 \
    "$(curl -s "$url/metrics?compat=llama" | awk '/^# TYPE llamacpp:/ { type[$3] = 1 } /^llamacpp:/ && type[$1] && $2 >= 0' | wc -l)"
llama_metric() { curl -s "$url/metrics?compat=llama" | awk -v n="llamacpp:$1" '$1 == n { print $2 }'; }
ferry_metric() { curl -s "$url/metrics" | awk -v n="ferry_$1" '$1 == n { print $2 }'; }
check_equal "they count the same" "$(ferry_metric prompt_tokens_total) $(ferry_metric tokens_predicted_total) $(ferry_metric decode_steps_total)" \
    "$(llama_metric prompt_tokens_total) $(llama_metric tokens_predicted_total) $(llama_metric n_decode_total)"
check_equal "one slot was busy at a time" 1 "$(llama_metric n_busy_slots_per_decode)"
check "the longest text is known" test "$(llama_metric n_tokens_max)" -ge "$n"
check "and when the process began" grep -qi '^process-start-time-unix: [0-9]' <(curl -si "$url/metrics?compat=llama")
check_equal "without it they are ferry's" 0 "$(curl -s "$url/metrics" | grep -c llamacpp)"
stop_server

start shows -np 1 -vv
check_equal "-vv: every answer shows its prompt" '[true,true]' \
    "$(jq -c -n --argjson a "$(post /completion "$ask}")" --argjson b "$(post /v1/completions '{"prompt":"Once","max_tokens":1}')" \
        '[$a, $b] | map(.__verbose.prompt | contains("Once"))')"
stop_server
start thinks -np 1 --chat-template "$TMP/thinks.jinja"
tool='{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"up":{"const":true}},"required":["up"]}}}'
check_equal "a template that opens a section of thinking: an answer that a schema holds is content" '["{\"up\":true}",null]' \
    "$(post /v1/chat/completions "{\"messages\":[$user],\"json_schema\":{\"type\":\"object\",\"properties\":{\"up\":{\"const\":true}},\"required\":[\"up\"]}}" |
        jq -c '.choices[0].message | [(.content | gsub(" "; "")), .reasoning_content]')"
check_equal "calls that have to come are calls" '["look",null]' \
    "$(post /v1/chat/completions "{\"messages\":[$user],\"tools\":[$tool],\"tool_choice\":\"required\",\"parallel_tool_calls\":false}" |
        jq -c '.choices[0].message | [.tool_calls[0].function.name, .reasoning_content]')"
stop_server
start cuts -np 1 --chat-template "$TMP/cuts.jinja"
check_equal "a template that cuts the message: refused" "400 messages" \
    "$(refused /v1/chat/completions "{\"messages\":[$user,$begun]}")"
stop_server
finish
