#!/usr/bin/env bash
# `ferry inspect` says in words what changes the arithmetic of a model.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

# family: a sentence that has to be there, as an extended regular expression
while IFS='|' read -r name sentence; do
    f=$TMP/$name.gguf
    [ -f "$f" ] || "$FERRY" convert "tests/data/families/$name" --outtype f16 -o "$f" 2>"$TMP/err" ||
        not_ok "$name converts" "$(cat "$TMP/err")"
    "$FERRY" inspect "$f" >"$TMP/text" 2>&1
    if grep -qE "^  $sentence\$" "$TMP/text"; then
        ok "$name: $sentence"
    else
        not_ok "$name: $sentence" "$(sed -n '/^model$/,/^$/p' "$TMP/text")"
    fi
done <<'EOF2'
llama|RMS norms, epsilon [0-9.e-]+
llama|4 attention heads of [0-9]+ share 2 of keys and values
llama3|the rates of rotation are divided by rope_freqs \(llama3 scaling\)
llama3|the output matrix is the embedding \(tied\)
llama-linear|positions are divided by [0-9]+ \(linear scaling\)
llama-yarn|YaRN scaling by [0-9.]+ beyond [0-9]+ positions
llama-relu|feed-forward of width [0-9]+: relu\(gate\) \* up
prosparse|fatrelu passes values above 0\.[0-9]+
bamboo|feed-forward of width [0-9]+: relu\(gate\) \* relu\(up\)
mixtral|2 of 4 experts for each token, by softmax, weights divided by their sum
qwen2|queries, keys and values have biases
qwen2moe|[0-9] of [0-9]+ experts for each token, by softmax, weights as they are
qwen2moe|a shared expert of width [0-9]+ for every token, with a gate of its own
qwen3|queries and keys are normed before they rotate
gemma|the embedding is multiplied by 9\.[0-9]+
gemma2|scores are capped softly at 5
gemma2|logits are capped softly at [0-9.]+
gemma2|in 2 of [0-9] layers a token sees the 8 nearest positions only, in .* all
gemma3|layers with the window rotate with base 1000, unscaled
phi|attention and feed-forward work side by side on the layer's input
phi|layer norms, epsilon [0-9.e-]+
phi3|LongRoPE: a context above 32 positions turns by the long factors, others by the short ones
phi4mini|24 of the 32 elements of a head rotate
granite|logits are divided by [0-9.]+
granite|what a block adds is multiplied by [0-9.]+
smollm3|no RoPE in (layer 3|every 4th layer)
smallthinker-4b|[0-9] of [0-9]+ experts for each token, by sigmoid, weights divided by their sum
smallthinker-4b|experts are chosen by the residual stream as it enters the layer
smallthinker-21b|no RoPE in layers 0, 4
olmo2|attention and feed-forward read the residual stream without a norm
olmo2|what attention and feed-forward add is normed first
opt|positions are learned: no more than [0-9]+, and no rotation
EOF2
check_equal "the same in JSON" true "$("$FERRY" inspect "$TMP/opt.gguf" --json | jq '.traits | any(startswith("positions are learned"))')"
finish
