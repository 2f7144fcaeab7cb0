#!/usr/bin/env bash
# Structured output in run and chat: the text follows the grammar, whatever the model would say; else nothing is printed.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

m=$TMP/tales.gguf
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$m" || exit 1
run() { "$FERRY" run -m "$m" -p 'Once upon a time' -q "$@"; }

check_equal "a grammar decides between words" yes "$(run --grammar 'root ::= "yes" | "nothing else"')"
printf 'root ::= "{" pair ("," pair){1,4} "}"\npair ::= ["] [a-z]{1,5} ["] ":" [1-9] [0-9]{,2}\n' >"$TMP/pairs.gbnf"
for seed in 1 2 3 4 5; do
    check "with seed $seed it gives JSON" jq -e 'type == "object" and (to_entries | all(.value < 1000))' \
        <<<"$(run --grammar-file "$TMP/pairs.gbnf" -n 4000 --temp 1.5 --seed $seed)"
done
check_equal "the same seed gives the same text" "$(run --grammar-file "$TMP/pairs.gbnf" -n 40 --temp 2 --seed 8)" \
    "$(run --grammar-file "$TMP/pairs.gbnf" -n 40 --temp 2 --seed 8 -t 1)"
check_equal "the end of the grammar is the end of the text" '["III.","stop"]' \
    "$(run --grammar 'root ::= "III."' --json | jq -c '[.text, .stop]')"
check_equal "an ignored end is no way out of it" '["ab","stop"]' \
    "$(run --grammar 'root ::= "a" "b"' --ignore-eos --json | jq -c '[.text, .stop]')"
check_equal "a text may be cut by -n" '["{","length"]' \
    "$(run --grammar-file "$TMP/pairs.gbnf" -n 1 --json | jq -c '[.text, .stop]')"
biases=()
for i in $(seq 0 767); do biases+=(--logit-bias "$i=-inf"); done
check_equal "a bias that forbids all that is allowed loses" yyy "$(run --grammar 'root ::= "y" "y" "y"' "${biases[@]}")"
check_equal "characters that tokens share are whole" 'é漢😀' "$(run --grammar 'root ::= [é] "漢" [😀]')"
check_equal "ids work without a prompt's text" 'true' \
    "$("$FERRY" run -m "$m" --prompt-ids 1,2,3 --grammar 'root ::= "ab"' --print-ids -q | grep -qE '^[0-9 ]+$' && echo true)"

check_status "a grammar that cannot be is refused before the model is read" 2 \
    '--grammar: line 1, column 10: found .\*., expected a symbol before the repetition' run --grammar 'root ::= *'
printf 'root ::= "a"\n  x\n' >"$TMP/bad.gbnf"
check_status "a file is named" 1 'bad.gbnf: line 2, column 4: ' run --grammar-file "$TMP/bad.gbnf"
check_status "left recursion is refused" 2 "rule 'root': left recursion" run --grammar 'root ::= root "a" | "b"'
check_status "two grammars are a mistake" 2 'exclude each other' run --grammar 'root ::= "a"' --grammar-file "$TMP/bad.gbnf"
check_status "an absent file is named" 1 'nowhere: cannot open' run --grammar-file "$TMP/nowhere"
check_equal "a grammar without a text gives none" "" "$(run --grammar 'root ::= *' 2>/dev/null)"
check_equal "a count that would fill the memory is refused at once" 2 \
    "$(ulimit -v 4000000; timeout 120 "$FERRY" run -m "$m" -p a --grammar 'root ::= "a"{1,99999999}' -q 2>/dev/null; echo $?)"

# --- JSON Schema -------------------------------------------------------------------------------------------------
person='{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":18,"maximum":99}},
    "required":["name","age"]}'
printf %s "$person" >"$TMP/person.json"
for seed in 1 2 3; do
    check "with seed $seed the JSON is valid under -j" jq -e 'keys == ["age", "name"] and .age >= 18 and .age <= 99
        and (.name | length <= 12)' <<<"$(run -j "$person" -n 200 --temp 1.5 --seed $seed)"
done
check_equal "-jf reads the schema from a file" "$(run -j "$person" -n 200)" "$(run -jf "$TMP/person.json" -n 200)"
check_status "a keyword that is not supported is named with its place" 2 \
    "--json-schema: schema, #/properties/a: 'multipleOf' is not supported" \
    run -j '{"properties":{"a":{"multipleOf":2}}}'
printf '{"not":{}}' >"$TMP/not.json"
check_status "and the file with it" 1 "not.json: schema, #: 'not' is not supported" run -jf "$TMP/not.json"
check_status "text that is not JSON is refused" 2 'json-schema: schema: line 1, column 2' run -j '{'
check_status "a grammar and a schema exclude each other" 2 '--grammar and --json-schema exclude' run -j '{}' --grammar 'root ::= "a"'

# --- chat --------------------------------------------------------------------------------------------------------
chat() { "$FERRY" chat -m "$m" --chat-template chatml -q "$@"; }
check_equal "every answer of a chat follows it" $'yes\nyes' \
    "$(printf 'one\ntwo\n' | chat --temp 0 --grammar 'root ::= "yes" | "nothing else"')"
printf '{%% for m in messages %%}{{ m.content }}{%% endfor %%}{%% if add_generation_prompt %%}<think>\n{%% endif %%}' >"$TMP/think.jinja"
check "and a schema" jq -e '.ok | type == "boolean"' <<<"$(chat --temp 0 \
    -j '{"properties":{"ok":{"type":"boolean"}},"required":["ok"]}' <<<hello)"
check_equal "what the template begins as thinking is free" true \
    "$("$FERRY" chat -m "$m" --chat-template "$TMP/think.jinja" -q --temp 0 -n 12 --json --grammar 'root ::= "yes"' <<<'Once upon a time' |
        jq -c 'select(.event == "answer" or .type == "answer") | (.thinking | length > 10) and (.text // .content // "") == ""' | head -1)"
finish
