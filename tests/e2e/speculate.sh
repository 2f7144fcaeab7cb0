#!/usr/bin/env bash
# Speculation: every method gives the ids of none, whatever the sampling, the settings, the end of the context and the backend;
# and what cannot speculate is refused.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/serve_lib.sh
. tests/serve_lib.sh

m=$TMP/tales.gguf d=$TMP/draft.gguf
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$m" || exit 1
"$FERRY" convert tests/data/draft --outtype f32 -q -o "$d" || exit 1
text='Once upon a time, there was a little girl named Mia. She lived near the castle. Once upon a time, there was'
methods=("lookup" "lookup --draft-max 3" "draft -md $d" "draft -md $d --draft-max 15 --draft-p-min 0" "tree -md $d"
    "tree -md $d --draft-batch-size 32 --token-tree-max-fan-out 8 --draft-sampler-p-base 0.1 --token-tree-min-prob 0.01 --token-tree-early-stop=no"
    "tree -md $d --draft-sampler-top-k 1 --draft-sampler-temperature 0.3" "lookahead" "lookahead --ngram 3 --window 3 --gcap 2"
    "auto" "auto -md $d" "auto --ngram 3 --window 4 --gcap 4 --draft-max 4")
samplings=("" "--ignore-eos -n 150" "--temp 1.1 --seed 7" "--temp 0.8 --seed 3 --repeat-penalty 1.3 --frequency-penalty 0.2"
    "--temp 1 --seed 5 --samplers ktpe --repeat-penalty 1.2" "--temp 1 --seed 11 --grammar root::=[a-zA-Z,.\x20]+ -n 60" "-c 60 -n 100" "--stop Tom" "-b 5")
run() { "$FERRY" run -m "$m" -q "$@"; }
ids() { run -p "$text" --json "$@" 2>/dev/null | jq -c '[.text, .ids, .stop]'; }
for sampling in "${samplings[@]}"; do
    # shellcheck disable=SC2086
    want=$(ids $sampling)
    bad=
    for method in "${methods[@]}"; do
        # shellcheck disable=SC2086
        [ "$want" = "$(ids --spec $method $sampling)" ] || bad+=" '$method'"
    done
    check_equal "the same text with ${sampling:-greedy choice}" "" "$bad"
    check "which is one" jq -e '.[1] | length > 3' <<<"$want"
done
check_equal "and the same log probabilities" "$(run -p "$text" --json --logprobs 2 | jq -c .logprobs)" \
    "$(run -p "$text" --json --logprobs 2 --spec tree -md "$d" | jq -c .logprobs)"
for type in q8_0 q4_0; do
    "$FERRY" quantize -q "$m" "$TMP/$type.gguf" $type
    want=$("$FERRY" run -q -m "$TMP/$type.gguf" -ctk $type -ctv $type -p "$text" -n 100)
    for method in lookup "draft -md $d" "tree -md $d" lookahead; do
        # shellcheck disable=SC2086
        check_equal "weights and cache of $type: $method" "$want" \
            "$("$FERRY" run -q -m "$TMP/$type.gguf" -ctk $type -ctv $type -p "$text" -n 100 --spec $method)"
    done
done
run -p "$text" -n 50 --prompt-cache "$TMP/a" >/dev/null
run -p "$text" -n 50 --prompt-cache "$TMP/b" --spec tree -md "$d" >/dev/null
check "the session holds the same to the last bit" cmp "$TMP/a" "$TMP/b"

# --- what happened is shown ----------------------------------------------------------------------------------------
got=$(run -p "$text" -n 100 --ignore-eos --json --spec draft -md "$d")
check "most guesses of the draft are right" jq -e '.timing | .draft_n_accepted > .draft_n / 2 and .steps < 50' <<<"$got"
check "by method" jq -e '.speculation | map(.method) == ["draft", "none"] and (.[0] | .steps > 0 and .accepted > 0 and .tokens_per_s > 0)' <<<"$got"
check "a table of the text is as long as it" jq -e '.timing | .steps + .draft_n_accepted == 99' <<<"$got"
check "without speculation there is nothing" jq -e '.timing.draft_n == null and .speculation == null' <<<"$(run -p a -n 3 --json)"
check_status "-v counts trees" 0 'tree: [0-9]+ of [0-9]+ guesses right in [0-9]+ steps, [0-9]+ of them trees' "$FERRY" run -m "$m" -v -p "$text" -n 60 --spec tree -md "$d"
check_status "-v says it, too" 0 'speculation: lookup: .* guesses right in [0-9]+ steps' "$FERRY" run -m "$m" -v -p "$text" -n 60 --spec lookup
check_status "and the line of times" 0 ' tokens a step' "$FERRY" run -m "$m" -p "$text" -n 60 --spec lookup
chat() { "$FERRY" chat -m "$m" --temp 0 -p 'Tell me a story.' "$@" 2>/dev/null; }
check_equal "chat, too" "$(chat)" "$(chat --spec tree -md "$d")"
check "with its numbers" jq -e 'select(.event == "answer").timing.draft_n > 0' <<<"$(chat --json --spec tree -md "$d")"

# --- serve ---------------------------------------------------------------------------------------------------------
serve_options=(-q -np 3)
ask() { # SEED TEMPERATURE
    curl -s "$url/completion" -d "{\"prompt\": \"$text\", \"n_predict\": 60, \"seed\": $1, \"temperature\": $2, \"repeat_penalty\": 1.1,
        \"ignore_eos\": true, \"return_tokens\": true, \"logprobs\": 1}"
}
answers() { # several at once
    for i in 1 2 3 4 5; do ask "$i" "0.$i" >"$TMP/answer-$i" & pids+=($!); done
    wait "${pids[@]}"
    pids=()
    cat "$TMP"/answer-[1-5] | jq -c '[.content, .tokens, .completion_probabilities]'
}
pids=()
start err
want=$(answers)
check "an answer without guesses counts none" jq -e '.timings.draft_n == null' "$TMP/answer-1"
stop
for o in lookup "draft -md $d" "auto -md $d"; do
    # shellcheck disable=SC2086
    start err --spec $o
    check_equal "serve answers the same: $o" "$want" "$(answers)"
    curl -s "$url/completion" -d '{"model": "tales+draft", "prompt": "Once upon a time", "n_predict": 80, "temperature": 0, "ignore_eos": true}' >"$TMP/one"
    [[ $o != draft* ]] || check "and counts" jq -e '.timings | .draft_n_accepted > 20 and .draft_n >= .draft_n_accepted' "$TMP/one"
    [[ $o != draft* ]] || check "in the metrics, too" grep -q '^ferry_draft_tokens_accepted_total [1-9]' <<<"$(curl -s "$url/metrics")"
    stop
done
check_status "serve has no trees" 2 "spec tree: a server verifies chains" "$FERRY" serve -m "$m" -q --port 0 --use-spec -md "$d"

# --- a workspace ---------------------------------------------------------------------------------------------------
{ printf '\177ELF\2\1\1'; head -c 9 /dev/zero; printf '\2\0\267\0'; head -c 44 /dev/zero; } >"$TMP/exe"
check "a workspace with a draft" "$FERRY" create "$m" --draft "$d" -o "$TMP/w" -q --exe-path "$TMP/exe" --no-parity
want=$("$FERRY" run -q -d "$TMP/w" -p "$text" -n 60)
check "runs as it is" test -n "$want"
for o in --use-spec "--spec auto" "--spec draft" "--draft-model draft" "--use-spec --draft-model draft"; do
    # shellcheck disable=SC2086
    check_equal "run -d with $o" "$want" "$("$FERRY" run -q -d "$TMP/w" -p "$text" -n 60 $o)"
done

# --- graphs --------------------------------------------------------------------------------------------------------
check "a cut model" "$FERRY" chunk "$m" --soc SM8650 --recipe fp16 --chunks 2 -c 256 --batch 64,16,1 -q -o "$TMP/cut"
check "compiled for the reference library" "$FERRY" compile "$TMP/cut" --sdk reference --recipe fp16 -q -o "$TMP/npu"
graph_methods=("lookup" "draft -md $d" "tree -md $d" "auto -md $d" "lookahead"
    "tree -md $d --draft-batch-size 32 --token-tree-max-fan-out 8 --draft-sampler-p-base 0.1 --token-tree-min-prob 0.01")
on_graphs() { # BACKEND OPTIONS...
    local where=("$TMP/cut" --backend chunks)
    [ "$1" = chunks ] || where=("$TMP/npu" --backend qnn --qnn-lib reference)
    "$FERRY" run -q -m "${where[@]}" -p "$text" --json "${@:2}"
}
for backend in chunks qnn; do
    for sampling in "-n 60" "-n 60 --temp 0.9 --seed 3 --repeat-penalty 1.2" "-c 60 -n 100"; do
        # shellcheck disable=SC2086
        want=$(on_graphs $backend $sampling | jq -c '[.text, .ids, .stop]')
        check "$backend tells a tale" jq -e '.[1] | length > 20' <<<"$want"
        for o in "${graph_methods[@]}"; do
            # shellcheck disable=SC2086
            check_equal "$backend, $sampling: $o" "$want" "$(on_graphs $backend $sampling --spec $o | jq -c '[.text, .ids, .stop]')"
        done
    done
    got=$(on_graphs $backend -n 60 --ignore-eos --spec tree -md "$d")
    check "$backend: trees are counted" jq -e '.speculation[0] | .method == "tree" and .trees > 5 and .trees <= .steps and .accepted > 2 * .steps' <<<"$got"
    check "$backend: calls, too" jq -e '.timing.steps < 30' <<<"$got"
    check "$backend: lookahead needs fewer calls than tokens" jq -e '.timing.steps < 50' <<<"$(on_graphs $backend -n 60 --ignore-eos --spec lookahead)"
done
check_status "the graphs are smaller than lookahead" 2 'lookahead: 72 tokens in a step .*, but the .* graphs compute 64 at most: chunk it with --batch 72,1' \
    on_graphs chunks -n 5 --spec lookahead --ngram 5 --window 10
check_status "auto knows what the CPU in place of an NPU is" 2 'lookahead of 64 tokens in a step .*, expected at most 16' on_graphs chunks -n 5 --spec auto --ngram 5
check "and what an NPU is" on_graphs qnn -n 5 --spec auto --ngram 5

# --- what is refused -----------------------------------------------------------------------------------------------
"$FERRY" convert tests/data/families/llama -q -o "$TMP/llama.gguf"
check_status "a draft of another vocabulary" 2 "llama.gguf: its vocabulary is another: token [0-9]+ is '.*', in the model '" \
    run -p a --spec draft -md "$TMP/llama.gguf"
check_status "no draft" 2 "spec tree: no draft model: give one" run -p a --use-spec
check_status "a file that is not there" 1 "nothing.gguf" run -p a -md "$TMP/nothing.gguf"
check_status "a draft that nobody asks" 2 "spec lookup has no draft model" run -p a --spec lookup -md "$d"
check_status "two methods" 2 "use-spec means --spec tree" run -p a --use-spec --spec lookup
check_status "lookahead of too many rows" 2 "at most 128" run -p a --spec lookahead --ngram 30
check_status "auto knows what never pays" 2 'lookahead of 64 tokens in a step .*, expected at most 16' run -p a --spec auto --ngram 5
check_status "llama.cpp's word" 2 "'--draft-max N' is the most guesses" run -p a --draft 5

# --- Ctrl-C --------------------------------------------------------------------------------------------------------
"$FERRY" run -m "$m" -q -p "$text" -n 1000000 -c 2000000 --ignore-eos --spec tree -md "$d" >"$TMP/out" 2>"$TMP/err" &
wait_written $! 2000
interrupt $!
check_equal "Ctrl-C ends it" 130 $status
check "with the text so far" test -s "$TMP/out"

# --- a model with a state ---------------------------------------------------------------------------------------------
f=$TMP/lfm2.gguf
"$FERRY" convert tests/data/families/lfm2 --outtype f32 -q -o "$f"
say_lfm2() { # OPTIONS...
    for seed in 1 2 3; do
        "$FERRY" run -m "$f" -p 'Once upon a time there was a Once upon a time' -n 60 --ignore-eos --print-ids --seed "$seed" "$@" 2>/dev/null
    done
}
want=$(say_lfm2)
check_equal "a model with a state: lookup changes nothing" "$want" "$(say_lfm2 --spec lookup)"
check_equal "nor does a draft with a state" "$want" "$(say_lfm2 --spec draft --draft-model "$f")"
check_equal "nor at other temperatures" "$(say_lfm2 --temp 0.7)" "$(say_lfm2 --temp 0.7 --spec draft --draft-model "$f")"
check_status "a tree is refused by name" 1 'the model has a state, which follows one path' \
    "$FERRY" run -m "$f" -p x -n 3 --spec lookahead
finish
