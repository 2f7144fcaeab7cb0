#!/usr/bin/env bash
# ferry tune --spec: every setting is tried on a text, all give the same ids, and what it names as best runs.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

m=$TMP/tales.gguf d=$TMP/draft.gguf
"$FERRY" convert tests/data/tales --outtype q8_0 -q -o "$m" || exit 1
"$FERRY" convert tests/data/draft --outtype f32 -q -o "$d" || exit 1
text='Once upon a time, there was a little girl named Mia. Once upon a time, there was'
tune() { "$FERRY" tune --spec -m "$m" -q -r 1 -n 40 "$@"; }

got=$(tune -md "$d" -p "$text" --json)
check "one object" jq -e '.generated_tokens > 5 and (.settings | length) == 15' <<<"$got"
check "the first is without guesses" jq -e '.settings[0] | .options == "--spec none" and .to_none == 1 and .draft_n == 0' <<<"$got"
check "each method is there" jq -e '[.settings[].options | split(" ")[1]] | unique == ["auto", "draft", "lookahead", "lookup", "none", "tree"]' <<<"$got"
check "rates and steps are measured" jq -e '.settings | all(.tokens_per_s > 0 and .to_none > 0 and .steps > 0)' <<<"$got"
check "a draft takes fewer steps" jq -e '(.settings[] | select(.options == "--spec draft --draft-max 7")).steps < .settings[0].steps / 2' <<<"$got"
check "longer chains take no more" jq -e '[.settings[] | select(.options | startswith("--spec draft --draft-max")) | .steps] | .[0] >= .[1] and .[1] >= .[2]' <<<"$got"
want=$("$FERRY" run -m "$m" -q -p "$text" -n 40)
jq -r '.settings[].options' <<<"$got" >"$TMP/options"
while read -r options; do
    [[ $options != *"spec draft"* && $options != *tree* ]] || options+=" -md $d"
    # shellcheck disable=SC2086
    check_equal "run takes: ${options%% -md *}" "$want" "$("$FERRY" run -m "$m" -q -p "$text" -n 40 $options)"
done <"$TMP/options"
best=$(jq -r .best <<<"$got")
# shellcheck disable=SC2086
check_equal "and the best of them with its draft" "$want" "$("$FERRY" run -m "$m" -q -p "$text" -n 40 $best)"

printf %s "$text" >"$TMP/text"
tune -f "$TMP/text" >"$TMP/table"
check_equal "without a draft model there is a table of seven rows" 9 "$(grep -c '^|' "$TMP/table")"
check "which ends with the best" grep -qE '^best: --spec (none|lookup --draft-max (3|7|15)|lookahead --ngram 3 .*|auto)$' "$TMP/table"
check "sampled texts, too" jq -e '.settings | length == 7' <<<"$(tune -f - --temp 0.9 --seed 4 --json <"$TMP/text")"
"$FERRY" convert tests/data/families/lfm2 --outtype f32 -q -o "$TMP/lfm2.gguf"
check "a model with a state has chains" jq -e '[.settings[].options | split(" ")[1]] | unique == ["auto", "lookup", "none"]' \
    <<<"$("$FERRY" tune "$TMP/lfm2.gguf" -q -p a -n 8 -r 1 --json)"

check_status "a text is needed" 2 'no text: give a text' tune
check_status "one of them" 2 'two texts' tune -p a -f "$TMP/text"
check_status "a draft of another vocabulary" 2 'its vocabulary is another' tune -p a -md "$TMP/lfm2.gguf"
check_status "nothing to tune" 2 'spec is all that there is' tune --spec=no -p a
check_status "a text that does not fit" 3 'positions' tune -p "$text" -c 8
finish
