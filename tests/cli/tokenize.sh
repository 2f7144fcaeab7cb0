#!/usr/bin/env bash
# ferry tokenize: text to ids and back, in every form.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

m=$TMP/tales.gguf
"$FERRY" convert tests/data/tales --vocab-only -q -o "$m" || exit 1
tok() { "$FERRY" tokenize -m "$m" "$@"; }
text='Once upon a time'
ids='763 408 409 258 410'

# --- text in -----------------------------------------------------------------------------------------------------
check_equal "an argument is a text" "$ids" "$(tok "$text")"
check_equal "without one it is standard input" "$ids" "$(printf %s "$text" | tok)"
check_equal "so it is with -" "$ids" "$(printf %s "$text" | tok -)"
printf %s "$text" >"$TMP/text"
check_equal "-f reads a file" "$ids" "$(tok -f "$TMP/text")"
check_equal "-f - reads standard input" "$ids" "$(tok -f - <"$TMP/text")"
check_equal "a newline counts" "$ids 198" "$(echo "$text" | tok)"
check_equal "options may stand after the text" "$ids" "$("$FERRY" tokenize "$text" -m "$m")"
check_equal "the empty text has its BOS" 763 "$(tok '')"
check_equal "and nothing without" "" "$(tok --no-bos '')"
check_equal "--no-bos leaves out what the model adds" "${ids#763 }" "$(tok --no-bos "$text")"
check_equal "control tokens in the text are recognised" "763 764" "$(tok '<|end_of_text|>')"
check "unless --no-parse-special" test "$(tok --no-parse-special '<|end_of_text|>' --count)" -gt 2
check_equal "bytes that are no UTF-8 are a text" "$(printf 'a\377\0b' | base64)" \
    "$(printf 'a\377\0b' | tok --no-bos | tok --ids --json | jq -r '.pieces[] | if type == "array" then .[] else explode[] end' |
        awk '{ printf "%c", $1 }' 2>/dev/null | base64)"

# --- ids in ------------------------------------------------------------------------------------------------------
check_equal "--ids gives the text" "<|begin_of_text|>$text" "$(tok --ids "$ids")"
# shellcheck disable=SC2086
check_equal "ids may be arguments of their own" "<|begin_of_text|>$text" "$(tok --ids $ids)"
check_equal "or separated by commas" "$text" "$(tok --ids 408,409,258,410)"
check_equal "or by both, over lines" "$text" "$(printf ' 408 ,409\n258\t, 410\r\n' | tok --ids)"
check_equal "from a file" "$text" "$(tok --ids -f <(echo 408 409 258 410))"
check_equal "no ids give no text" "" "$(tok --ids </dev/null)"
check_equal "half a character is marked" "$(printf 'a\357\277\275')" "$(tok --ids "$(tok --no-bos a) 127")"
check_status "an id out of range tells the range" 2 'id 2 is 768, but the vocabulary has 768 tokens \(0 to 767\)' tok --ids 0,768
check_status "however large it is" 2 'id 1 is 99999999999999999999.*768 tokens' tok --ids 99999999999999999999999999
check_status "a word is no id" 2 "id 2: found 'x 3', expected a number from 0 to 767" tok --ids '1 x 3'
check_status "nor is a number with a tail" 2 "found '12a'" tok --ids 12a
check_status "nor a negative number" 2 "found '-1'" tok --ids -- -1
check_status "two commas are refused" 2 "id 2: found ',2'" tok --ids 1,,2
check_status "so is one at the end" 2 'id 2: found the end' tok --ids 1,
check_status "control characters are shown harmlessly" 2 'found .\\x1b\[31m' tok --ids $'\e[31m'

# --- forms -------------------------------------------------------------------------------------------------------
check_equal "--count prints the number alone" 5 "$(tok --count "$text")"
check_equal "of ids too" 3 "$(tok --count --ids 1 2 3)"
check_equal "--show-pieces has a line for each token" \
    $'763\t\'<|begin_of_text|>\'\tcontrol\n39\t\'H\'\tnormal\n127\t\'\\xc3\'\tnormal\n102\t\'\\xa9\'\tnormal\n198\t\'\\n\'\tnormal' \
    "$(printf 'Hé\n' | tok --show-pieces)"
check_equal "--show-pieces shows a backslash as two" $'59\t\'\\\\\'\tnormal' "$(tok --no-bos --show-pieces "\\")"
check_equal "--show-pieces of ids" $'408\t\'Once\'\tnormal' "$(tok --ids 408 --show-pieces)"
check_equal "--json has ids, pieces and count" \
    '{"ids":[763,408,409,258,410],"pieces":["<|begin_of_text|>","Once"," upon"," a"," time"],"count":5}' \
    "$(tok --json "$text" | jq -c .)"
check_equal "pieces of a character are bytes" '[[195],[169]]' "$(tok --json --no-bos 'é' | jq -c .pieces)"
check_equal "--json of ids has their text" '{"text":"Once","ids":[408],"pieces":["Once"],"count":1}' \
    "$(tok --json --ids 408 | jq -c .)"
check_equal "--json of nothing is whole" '{"ids":[],"pieces":[],"count":0}' "$(tok --json --no-bos '' | jq -c .)"
check_equal "--jsonl answers line by line" '{"ids":[408],"decoded":"Once"} {"ids":[763],"decoded":"<|begin_of_text|>"}' \
    "$(printf '{"text":"Once","add_special":false}\n\n{"text":""}\n' | tok --jsonl | xargs -d '\n')"
cat >"$TMP/parity.json" <<END
{"cases": [{"text": "$text", "ids": [408,409,258,410], "ids_special": [763,408,409,258,410], "decoded": "$text"}],
 "specials_parsed": [{"text": "<|end_of_text|>", "ids": [764]}]}
END
check_equal "--verify counts what agrees" '4 comparisons, 0 differ' "$(tok --verify "$TMP/parity.json")"
sed 's/258/259/g' "$TMP/parity.json" >"$TMP/wrong.json"
check_status "and fails for what does not" 4 '3 of 4 comparisons differ' tok --verify "$TMP/wrong.json"
check_equal "showing it" 'cases[0].ids of "Once upon a time": position 2: expected 259 410, found 258 410' \
    "$(tok --verify "$TMP/wrong.json" 2>/dev/null | head -1)"

# --- where the tokenizer comes from ------------------------------------------------------------------------------
check_equal "a checkpoint is converted on the fly" "$ids" "$("$FERRY" tokenize -m tests/data/tales "$text")"
check_equal "without a file that a killed process would leave" "$ids" \
    "$(TMPDIR=/nonexistent "$FERRY" tokenize -m tests/data/tales "$text" 2>&1)"
mkdir "$TMP/tmp"
TMPDIR=$TMP/tmp "$FERRY" tokenize -m tests/data/tales "$text" >/dev/null
check_equal "and leaves nothing behind" "" "$(ls -A "$TMP/tmp")"
check_equal "in silence" "" "$("$FERRY" tokenize -m tests/data/tales "$text" 2>&1 >/dev/null)"
check_status "unless --verbose" 0 'vocab.gguf: vocabulary only' "$FERRY" tokenize -m tests/data/tales "$text" -v
check_status "a directory without tokenizer says what it lacks" 1 'config.json' "$FERRY" tokenize -m "$TMP/tmp" a
mkdir "$TMP/bad" && echo '{}' >"$TMP/bad/workspace.json"
check_status "a workspace without manifest is refused as such" 1 'manifest.json' "$FERRY" tokenize -m "$TMP/bad" a

# --- what does not go together -----------------------------------------------------------------------------------
check_status "no model asks for one" 2 'give -m' "$FERRY" tokenize a
check_status "two texts ask for quotes" 2 '2 texts: put quotes' tok a b
check_status "a text and a file are two" 2 "two texts, 'a' and --file" tok a -f "$TMP/text"
check_status "two forms exclude each other" 2 'count and --json exclude' tok a --json --count
check_status "--jsonl takes no text" 2 'takes no text' tok --jsonl a
check_status "--verify takes no file" 2 'takes no text argument and no --file' tok --verify x.json -f "$TMP/text"
check_status "--jsonl has its own flags" 2 'each line or case has its own' tok --jsonl --no-bos
check_status "--ids and --no-bos exclude each other" 2 'about text' tok --ids --no-bos 1
check_status "an absent file is named" 1 'nowhere: cannot open' tok -f "$TMP/nowhere"
check_status "a directory is not text" 2 'is a directory' tok -f "$TMP"

# --- much text ---------------------------------------------------------------------------------------------------
yes "$text, there was a cat. " | head -c 5000000 >"$TMP/much"
check_equal "five megabytes come back whole" "$(md5sum <"$TMP/much")" \
    "$(tok --no-bos -f "$TMP/much" | tok --ids | head -c -1 | md5sum)"
check_equal "so do five megabytes without a blank" "$(head -c 5000000 /dev/zero | tr '\0' a | md5sum)" \
    "$(head -c 5000000 /dev/zero | tr '\0' a | tok --no-bos | tok --ids | head -c -1 | md5sum)"
finish
