#!/usr/bin/env bash
# ferry run: where the prompt comes from, what goes out, and how it ends.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

m=$TMP/tales.gguf
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$m" || exit 1
prompt='Once upon a time'
run() { "$FERRY" run -m "$m" -ctk f32 -ctv f32 "$@"; }
want=", there was a little farmer's"

# --- the prompt --------------------------------------------------------------------------------------------------
check_equal "-p is a text" "$want" "$(run -p "$prompt" -n 7 -q)"
printf %s "$prompt" >"$TMP/prompt"
check_equal "-f is a file with the text" "$want" "$(run -f "$TMP/prompt" -n 7 -q)"
check_equal "-f - is standard input" "$want" "$(run -f - -n 7 -q <"$TMP/prompt")"
check_equal "-f takes a pipe" "$want" "$(run -f <(printf %s "$prompt") -n 7 -q)"
check_equal "--prompt-ids are ids" "$want" "$(run --prompt-ids 763,408,409,258,410 -n 7 -q)"
ids_of() { "$FERRY" run -m "$m" -n 0 -v "$@" 2>&1 | sed -n 's/^prompt ids: //p'; }
check_equal "-p - is a dash and not standard input" "$("$FERRY" tokenize -m "$m" -f <(printf -) | tr ' ' ,)" "$(ids_of -p -)"
printf 'a\n' >"$TMP/line"
check_equal "the last newline of a file is part of the prompt" "$("$FERRY" tokenize -m "$m" -f "$TMP/line" | tr ' ' ,)" \
    "$(ids_of -f "$TMP/line")"
printf 'a\0b\377' >"$TMP/bytes"
check_equal "any bytes are a prompt" "$("$FERRY" tokenize -m "$m" -f "$TMP/bytes" | tr ' ' ,)" "$(ids_of -f "$TMP/bytes")"
check_status "no prompt is an error that lists the ways" 2 'no prompt: .*-p.*-f.*--prompt-ids' run
check_status "two prompts are an error" 2 'more than one prompt' run -p a -f "$TMP/prompt"
check_status "so are text and ids" 2 'more than one prompt' run -p a --prompt-ids 1
check_status "an absent file is named" 1 'nowhere/prompt: cannot open' run -f "$TMP/nowhere/prompt"
check_status "a directory is no prompt" 2 'is a directory' run -f "$TMP"
check_status "closed standard input is an error" 1 'standard input: cannot read' bash -c "$FERRY run -m $m -f - <&-"
check "an empty file is an empty text" run -f /dev/null -n 1

# --- what goes out -----------------------------------------------------------------------------------------------
check_equal "--print-ids prints ids" '11 331 278 258 739' "$(run -p "$prompt" -n 5 -q --print-ids)"
check_equal "nothing but the text goes to standard output" "$want" "$(run -p "$prompt" -n 7 2>/dev/null)"
number='[0-9]+(\.[0-9])?'
line="^load $number ms \| prompt 5 tokens $number tok/s \| first token $number ms \| generated 7 tokens $number tok/s"
line+=" \| peak memory $number MB \(rss anon $number MB\) \| cpu\$"
check_status "the timing line says everything" 0 "$line" run -p "$prompt" -n 7
check_equal "-q says nothing" "" "$(run -p "$prompt" -n 7 -q 2>&1 >/dev/null)"
check_equal "-n 0 computes the prompt and prints nothing" "" "$(run -p "$prompt" -n 0 -q)"
check "--logits-out has a row for every token of the prompt" \
    test "$(run -p "$prompt" -n 0 -q --logits-out "$TMP/logits" && stat -c %s "$TMP/logits")" = $((5 * 768 * 4))

# --- stop strings ------------------------------------------------------------------------------------------------
check_equal "--stop ends the text before a string, across tokens" ", there was" "$(run -p "$prompt" -n 7 -q --stop ' a little')"
check_equal "of several the first counts" ", there" "$(run -p "$prompt" -n 7 -q --stop farmer --stop ' was' --stop little)"
check_equal "the beginning of one that does not come is shown" "$want" "$(run -p "$prompt" -n 7 -q --stop "farmer's wife")"
check_equal "one in the prompt does not count" "$want" "$(run -p "$prompt" -n 7 -q --stop time)"
check_equal "ids go on to the token that completes it" "11 331 278" "$(run -p "$prompt" -n 7 -q --print-ids --stop 'ere was')"
check_equal "JSON tells which" '[", there was a ","string","little"]' \
    "$(run --json -q -p "$prompt" -n 7 --stop nowhere --stop little | jq -c '[.text, .stop, .stop_string]')"
check_status "an empty one is refused" 2 '--stop: stop string 1 is empty' run -p a --stop ''
many=()
for i in $(seq 17); do many+=(--stop "$i"); done
check_status "so are more than sixteen" 2 '17 stop strings, at most 16' run -p a "${many[@]}"

# --- JSON --------------------------------------------------------------------------------------------------------
json() { run --json -q "$@" | jq -c "$filter"; }
filter='[.text, .ids, .stop, .seed, has("logprobs")]'
check_equal "--json has text, ids, reason and seed" \
    "[\"$want\",[11,331,278,258,739,500,499],\"length\",null,false]" "$(json -p "$prompt" -n 7)"
filter='[has("text"), .ids]'
check_equal "--json with --print-ids has no text" '[false,[11,331]]' "$(json -p "$prompt" -n 2 --print-ids)"
filter='[.text, .ids, .stop]'
check_equal "--json of nothing is whole" '["",[],"length"]' "$(json -p "$prompt" -n 0)"
check_equal "the model's own end is reported" '"stop"' "$(filter=.stop json -p "$prompt" -n 4000)"
filter='.timing | [.prompt_tokens, .cached_tokens, .generated_tokens,
    ([.load_ms, .prompt_ms, .first_token_ms, .generate_ms, .prompt_tokens_per_s, .generated_tokens_per_s,
      .peak_memory_bytes, .anonymous_memory_bytes] | map(type == "number" and . > 0) | all)]'
check_equal "the timing is part of it" '[5,0,7,true]' "$(json -p "$prompt" -n 7)"
check_equal "the seed is there when it counts" 41 "$(filter=.seed json -p "$prompt" -n 2 --temp 0.5 --seed 41)"
check_equal "a seed that was drawn gives the same text again" \
    "$(filter='[.text, .seed]' json -p "$prompt" -n 20 --temp 1.5 --seed \
        "$(filter=.seed json -p "$prompt" -n 20 --temp 1.5 | tee "$TMP/seed")" | jq -c .[1])" "$(cat "$TMP/seed")"
filter=.
check_equal "it is one line" 1 "$(run --json -q -p "$prompt" -n 30 | wc -l)"
check_status "a full context is reported and fails" 3 'use a larger -c' run --json -p "$prompt" -n 20 -c 8
check_status "a context beyond the machine's memory is refused before it is taken" 3 \
    'of memory are available; use a smaller -c' run -p "$prompt" -n 1 -c 2147483647
check "what a session takes is said with -v" grep -qE \
    '^KV cache: 64 positions x 4 layers, f32/f32: [0-9]+ MB; scratch: [0-9]+ MB$' \
    <(run -p "$prompt" -n 1 -c 64 -v 2>&1)
check_equal "with what there is" '["context",4]' "$(run --json -q -p "$prompt" -n 20 -c 8 2>/dev/null | jq -c '[.stop, (.ids | length)]')"
check_equal "text of bytes that are no characters is valid" 0 \
    "$(run --json -q -p 'é' -n 60 --temp 5 --top-k 0 --top-p 1 --min-p 0 --seed 3 --ignore-eos | iconv -f UTF-8 -t UTF-8 | jq -e .text >/dev/null; echo $?)"

# --- log probabilities -------------------------------------------------------------------------------------------
filter='.logprobs | [length, map(.id), (map(.top | length) | unique), (map(.id == .top[0].id) | all),
    (map(.logprob == .top[0].logprob and .logprob <= 0) | all), (map(.top | map(.logprob) | . == (sort | reverse)) | all)]'
check_equal "--logprobs tells the likeliest tokens, best first" '[3,[11,331,278],[4],true,true,true]' \
    "$(json -p "$prompt" -n 3 --logprobs 4)"
filter='.logprobs | map(.text) | add'
check_equal "their texts make the text" ", there was" "$(json -p "$prompt" -n 3 --logprobs 1 | jq -r .)"
filter='.logprobs | map(.top) | add'
check_equal "--logprobs 0 tells the chosen token's alone" '[]' "$(json -p "$prompt" -n 3 --logprobs 0)"
filter='.logprobs[0].top | [length, (map(.logprob | exp) | add | . > 0.9999 and . < 1.0001)]'
check_equal "all of the vocabulary together is certain" '[768,true]' "$(json -p "$prompt" -n 1 --logprobs 1000)"
filter='.logprobs[0] | has("text")'
check_equal "ids alone have no text" false "$(json --print-ids --prompt-ids 763,408 -n 1 --logprobs 2)"
check_status "--logprobs without --json reports it" 2 'give --json' run -p "$prompt" --logprobs 2
check_status "too many log probabilities are refused" 2 'out of range' run -p "$prompt" --json --logprobs 5000

# --- the end -----------------------------------------------------------------------------------------------------
endless=(-n 300000 -c 300000 --ignore-eos)
"$FERRY" run -m "$m" -p "$prompt" "${endless[@]}" >"$TMP/out" 2>"$TMP/err" &
wait_for 120 test -s "$TMP/out"
interrupt $!
check_equal "Ctrl-C ends with 130" "130 1" "$status $(grep -c interrupted "$TMP/err")"
for computed in 300 1200 4800 19200; do # however slow the machine is
    "$FERRY" run -m "$m" -p "$prompt" "${endless[@]}" --json -q >"$TMP/cut.json" 2>/dev/null &
    wait_for 120 has_computed $! $computed
    interrupt $!
    jq -e '.ids | length > 10' "$TMP/cut.json" >/dev/null && break
done
check_equal "and what was generated is reported" '["interrupted",true]' "$(jq -c '[.stop, (.ids | length > 10)]' "$TMP/cut.json")"
mkfifo "$TMP/fifo"
exec 8<>"$TMP/fifo"
"$FERRY" run -m "$m" -f - <&8 >/dev/null 2>"$TMP/err" &
wait_for 120 hears_signals $!
interrupt $!
check_equal "Ctrl-C while the prompt is read ends with 130" "130 1" "$status $(grep -c interrupted "$TMP/err")"
exec 8>&-
head -c 60000 /dev/zero | tr '\0' a >"$TMP/long"
"$FERRY" run -m "$m" -f "$TMP/long" -c 100000 -n 1 >/dev/null 2>"$TMP/err" &
wait_for 120 has_computed $! 300
interrupt $!
check_equal "Ctrl-C while a long prompt is computed ends with 130" "130 1" "$status $(grep -c interrupted "$TMP/err")"
check "within moments: $took ms" test $took -lt 1000
check_status "a closed pipe is said" 1 'standard output' bash -c "$FERRY run -m $m -p a -n 3000 -c 4000 --ignore-eos | true; exit \${PIPESTATUS[0]}"
"$FERRY" convert tests/data/families/lfm2 --outtype f32 -o "$TMP/l2.gguf" -q
check_status "-v tells layers with a cache from those with a state" 0 'KV cache: 64 positions x 2 layers, f16/f16, states of 3 layers: ' \
    "$FERRY" run -m "$TMP/l2.gguf" -p a -n 1 -c 64 -ctk f16 -ctv f16 -v
# --- layers with a sliding window ---------------------------------------------------------------------------------
# gemma3's: a window of 8 in six of seven layers. They keep it and one batch, or, when the cache is saved, everything.
"$FERRY" convert tests/data/families/gemma3 --outtype f32 -o "$TMP/g3.gguf" -q 2>/dev/null
long() { "$FERRY" run -m "$TMP/g3.gguf" -p 'Once upon a time there was' -n 900 --ignore-eos -c 1000 --temp 0 -v "$@" 2>"$TMP/err"; }
want=$(long --full-window-cache)
check "all positions are kept when that is asked" grep -q 'KV cache: 1000 positions x 7 layers' "$TMP/err"
check_equal "the same text from a window and a batch" "$want" "$(long)"
check "they keep less" grep -q 'KV cache: 1000 positions (with a window: 576) x 7 layers' "$TMP/err"
check_equal "in steps of 5" "$want" "$(long -b 5)"
check "still less" grep -q '(with a window: 192)' "$TMP/err"
check_equal "with guesses" "$want" "$(long -b 5 --spec lookup)"
check_equal "a saved cache holds everything" "$want" "$(long --prompt-cache "$TMP/g3.cache")"
check "and is right" test -s "$TMP/g3.cache"
turns() { printf 'Tell me a tale\nAnd more\n/undo\nAnd less\n/regen\n' | "$FERRY" chat -m "$TMP/g3.gguf" --chat-template chatml -c 2000 -n 300 --temp 0 -ctk f32 -ctv f32 "$@" 2>/dev/null; }
want=$(turns --full-window-cache)
check_equal "a conversation that is taken back is the same" "$want" "$(turns -b 4)"
check "which says something" test ${#want} -gt 1000
finish
