#!/usr/bin/env bash
# `ferry plan` against what PowerServe and ExecuTorch publish: into how many pieces they cut each of 20 models, with which
# weights (tests/data/configs/published.json). ferry never needs more than the largest of the published numbers; where it
# needs fewer, docs/npu.md says why. A model of 70 B fits no phone, and what is suggested for it does.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

configs=tests/data/configs
"$FERRY" plan --list-recipes --json >"$TMP/recipes.json"
# Of the recipes with the published words that of the model, or the first.
recipe_of() { # MODEL WORDS
    jq -r --arg model "$1" --arg words "$2" '[.recipes[] | select(.title == $words)] | (map(select(.models | index($model))) + .)[0].name' "$TMP/recipes.json"
}
n=0
while IFS=$'\t' read -r model most words; do
    name=$(recipe_of "$model" "$words")
    if ! "$FERRY" plan "$configs/$model" --soc SM8650 -c 2048 --batch 128,1 --recipe "$name" --json >"$TMP/json" 2>"$TMP/err"; then
        not_ok "$model fits with $name" "$(cat "$TMP/err")"
        continue
    fi
    chunks=$(jq '.chunks | length' "$TMP/json")
    check_equal "$model, $words: $chunks chunks, published up to $most" true "$([ "$chunks" -le "$most" ] && echo true)"
    check "$model keeps every limit" jq -e '.soc as $s | all(.chunks[], .heads[]; .bytes <= $s.context_bytes and .file_bytes <= $s.file_bytes)
        and .sessions <= $s.sessions and ([.chunks[], .heads[]] | group_by(.session) | all(map(.bytes) | add <= $s.session_bytes))
        and .npu_peak_bytes < .soc.memory_bytes' "$TMP/json"
    n=$((n + 1))
done < <(jq -r 'to_entries[] | select(.value.powerserve // .value.executorch) | [.key, ([.value.powerserve, .value.executorch, .value.executorch_later] | max), .value.recipe] | @tsv' "$configs/published.json")
check_equal "of 20 models" 20 "$n"

large=("$configs/llama-70b-shape" --soc SM8650 -c 2048 --batch "128,1" --json)
check_status "70 B fit no phone" 3 'at most [0-9]+ of 80 layers' "$FERRY" plan "${large[@]}"
mapfile -t options < <("$FERRY" plan "${large[@]}" 2>/dev/null | jq -r '.suggestion.options[]')
check "what is suggested for them does: ${options[*]}" "$FERRY" plan "${large[@]}" "${options[@]}"
layers=$(sed -n 's/^--layers //p' <<<"${options[*]}")
check_status "one layer more does not" 3 '' "$FERRY" plan "${large[@]}" --layers $((layers + 1))
finish
