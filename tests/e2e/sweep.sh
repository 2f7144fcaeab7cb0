#!/usr/bin/env bash
# ferry farm FILE.json: models in types for a chip, one table. Its numbers are those of the single verbs; steps that are done stay
# through kills; what fails ends its own rows alone; and what is wrong in the file is named before anything starts.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
FERRY=$(realpath "$FERRY")
for d in tales draft; do cp -r "tests/data/$d" "$TMP"; done
head -c 3000 tests/data/held.txt >"$TMP/held.txt"
printf '#!/bin/sh\n' >"$TMP/runtime"
chmod +x "$TMP/runtime"
cd "$TMP" || exit 1
cat >sweep.json <<'END'
{"models": ["tales", "draft"], "types": ["q8_0", "Q4_0"], "chips": ["8650"], "recipes": ["fp16a8w"], "out": "out", "text": "held.txt",
 "options": {"eval": ["-c", "128"], "plan": ["-c", "160", "--batch", "32,1"], "create": ["--no-parity", "--exe-path", "runtime", "--exec", "bin/runtime"]}}
END
sweep() { "$FERRY" farm "$@"; }
edit() { jq "$1" sweep.json; } # FILTER: a sweep like it

# --- the table ------------------------------------------------------------------------------------------------------
check "a sweep" sweep sweep.json -q --table csv
sweep sweep.json --table json >table 2>log || cat log
check_equal "all is there then" "4 rows: 0 steps made, 24 were there" "$(grep -o '4 rows.*' log)"
check_equal "four rows, in order" "tales q8_0, tales q4_0, draft q8_0, draft q4_0" "$(jq -r '[.[] | .model + " " + .type] | join(", ")' table)"
check_equal "for the chip by its name" "SM8650 fp16a8w true" "$(jq -r '[.[] | "\(.chip) \(.recipe) \(.fits)"] | unique | join(" ")' table)"
for model in tales draft; do
    "$FERRY" convert $model -q -o $model.gguf
    "$FERRY" eval -m $model.gguf --text held.txt -c 128 -q --kl-save $model.klb >/dev/null
    for type in q8_0 q4_0; do
        "$FERRY" quantize $model.gguf m.gguf $type -q
        "$FERRY" eval -m m.gguf --text held.txt -c 128 -q --json --kl-base $model.klb >single
        "$FERRY" plan m.gguf --soc SM8650 --recipe fp16a8w -c 160 --batch 32,1 -q --json >planned
        check_equal "$model in $type: size, perplexity, KL, chunks as the single verbs have them" \
            "$(jq -c --slurpfile p planned --argjson bytes "$(stat -c %s m.gguf)" \
                '[$bytes, .perplexity, .error, .base_perplexity, .kl_divergence.mean, .kl_divergence.error, .same_top, ($p[0] | .fits, (.chunks | length), .sessions)]' single)" \
            "$(jq -c --arg m $model --arg t $type \
                '.[] | select(.model == $m and .type == $t) | [.bytes, .perplexity, .perplexity_error, .base_perplexity, .kl, .kl_error, .same_top, .fits, .chunks, .sessions]' table)"
        check "$model in $type: a workspace that verifies" "$FERRY" verify "$(jq -r --arg m $model --arg t $type '.[] | select(.model == $m and .type == $t).workspace' table)"
    done
done
sweep sweep.json -q --table csv >want.csv
check_equal "CSV has a line for each row" 5 "$(wc -l <want.csv)"
check_equal "text, too" 5 "$(sweep sweep.json -q | grep -cE '^(model|tales|draft) .*(workspace|out/.*/create/.*-SM8650-fp16a8w)$')"
sweep sweep.json -q --table html >page.html
check_equal "the page has a bar and a point for each type, and nothing from elsewhere" "4 4 0" \
    "$(grep -c '<rect' page.html) $(grep -c '<circle' page.html) $(grep -ciE '://|<script|<link|<img|@import|url\(' page.html)"

# --- kills ----------------------------------------------------------------------------------------------------------
done_steps() { grep -rls '"done": *true' out --include record.json | LC_ALL=C sort; }
files_of() { while read -r r; do find "${r%/*}" -type f -printf '%p %i %T@\n'; done | LC_ALL=C sort; } # of steps
mv out whole
kept=0 lost=0
for n in 2 7 13 20; do
    "$FERRY" farm sweep.json -q --table csv >killed.csv 2>&1 &
    pid=$!
    until [ "$(done_steps | wc -l)" -ge $n ] || ! kill -0 $pid 2>/dev/null; do :; done
    kill -STOP $pid
    child=$(tr -d ' ' <"/proc/$pid/task/$pid/children")
    kill -KILL $pid ${child:+"$child"} 2>/dev/null
    wait $pid 2>/dev/null
    until [ -z "$child" ] || [ ! -e "/proc/$child" ] || grep -q '^State:[[:space:]]*Z' "/proc/$child/status" 2>/dev/null; do sleep 0.05; done
    done_steps >steps
    files_of <steps >before
    kept=$((kept + $(wc -l <steps)))
    sweep sweep.json -q --table csv >got.csv 2>>log
    [ "$(files_of <steps)" = "$(cat before)" ] || lost=$((lost + 1))
    cmp -s got.csv want.csv || not_ok "after a kill at $n steps: another table"
    # the next one begins with what this one had
    done_steps | while read -r r; do grep -qxF "$r" steps || rm -rf "${r%/*}"; done
done
check "steps were done before the kills ($kept)" test $kept -ge 42
check_equal "and none of them was made again" 0 $lost
check "the table after kills" cmp got.csv want.csv

# --- through an engine, and what has changed --------------------------------------------------------------------------
rm -rf out
check "parts of all that has parts" sweep sweep.json -q -j 2 --engine local --table csv
sweep sweep.json -q --table csv >got.csv
check "the same table" cmp got.csv want.csv
rm -f eval-*
printf 'Once more.' >>held.txt
sweep sweep.json >/dev/null 2>log
check_equal "another text: what was measured is made again, and nothing else" "4 rows: 6 steps made, 18 were there" "$(grep -o '4 rows.*' log)"
edit '.options.plan = ["--memory", "1M"]' >small.json
sweep small.json -q --table json >table
check_equal "what does not fit is a result, and has no workspace" "false null" "$(jq -r '[.[] | "\(.fits) \(.workspace)"] | unique | join(" ")' table)"
check "with the reason" jq -e 'all(.[]; .why | length > 0)' table
edit 'del(.chips, .recipes, .text, .options.plan) | .types = ["q8_0"] | .models += ["empty"] | .workspaces = false' >few.json
mkdir empty
status=0
sweep few.json --table json >table 2>log || status=$?
check_equal "a model that is none ends its own rows: exit status" 1 $status
check_equal "the others are whole" "tales null, draft null, empty text" "$(jq -r '[.[] | "\(.model) \(.error | if . then "text" else "null" end)"] | join(", ")' table)"
check "the end tells" grep -q '1 of 3 rows failed; the same command makes them again' log

# --- what is refused --------------------------------------------------------------------------------------------------
wrong() { # NAME STATUS PATTERN FILTER
    edit "$4 | .out = \"none\"" >wrong.json
    check_status "$1" "$2" "^ferry farm: wrong.json: $3" sweep wrong.json
}
wrong "no models" 1 "lacks 'models'" 'del(.models)'
wrong "models that are not a list" 1 'models: ' '.models = "tales"'
wrong "a model that is not there" 1 "models: there is no 'nowhere'" '.models += ["nowhere"]'
wrong "two models of one name" 2 "models: 'tales' is there twice" '.models += ["./tales/"]'
wrong "an unknown type" 2 "types: 'q4_9' is not one of" '.types += ["q4_9"]'
wrong "a type twice" 2 "types: 'q4_0' is there twice" '.types += ["q4_0"]'
wrong "an unknown chip" 2 'chips: ' '.chips = ["SM9999x"]'
wrong "an unknown recipe" 2 'recipes: ' '.recipes = ["nothing"]'
wrong "a text that is not there" 1 "text: there is no 'nowhere'" '.text = "nowhere"'
wrong "an option that is none" 2 "options: eval: unknown option '--ctx-sise'" '.options.eval = ["--ctx-sise", "8"]'
wrong "an option that the sweep gives" 2 'options: eval: --json is for the sweep to give' '.options.eval = ["--json"]'
wrong "words that are not options" 2 'options: quantize: x: expected options alone' '.options.quantize = ["x"]'
wrong "a key that is none" 1 "unknown key 'modles'; did you mean 'models'" '.modles = []'
printf 'models: tales\n' >yaml.json
check_status "a file that is not JSON" 1 '^ferry farm: yaml.json: ' sweep yaml.json
check_status "a file that is not there" 1 'nothing.json' sweep nothing.json
check_status "a word too many" 2 'a sweep has its options in its file' sweep sweep.json --pure
check_status "--engine print" 2 'takes no --engine print' sweep sweep.json --engine print -j 2
check_status "--table of a verb" 2 'is for a sweep' sweep --table csv -j 2 --engine local quantize a b q4_0
check_equal "nothing was begun" "" "$(ls -d none 2>/dev/null)"
mkdir -p none/tales/convert
echo '{"mine": 1}' >none/tales/convert/record.json
edit '.out = "none"' >wrong.json
check_status "a directory of somebody else" 1 'is not of a sweep, expected another "out"' sweep wrong.json
check "is left alone" grep -q mine none/tales/convert/record.json
cd - >/dev/null || exit 1
finish
