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
gpt-oss|each head.s softmax has a sink: a score without a value
gpt-oss|YaRN scaling by 8 beyond 16 positions, its ramp not rounded to whole pairs
gpt-oss|feed-forward of width 64: g sigmoid\(1\.702 g\) \* \(up \+ 1\), g at most 7, up within 7 of 0
gpt-oss|experts and their router have biases
minicpm3|4 attention heads of 24, queries out of 48 values of a token, keys and values of 16 out of 32 \(latent attention\)
lfm2|no attention in layers 0, 1, 3: a gated short convolution over 3 positions
lfm2moe|no experts in the first 2 layers: a feed-forward of width 96
lfm2moe|a bias takes part in the choice of the experts, not in their weights
gemma4|4 attention heads of 32 share 1 of keys and values
gemma4|in layers with the window heads have 16 elements, and 1 of keys and values
gemma4|each layer gets 16 numbers of every token from a table of its own
gemma4|the last 3 layers have no keys and values: they read those of the last earlier layer of their kind
gemma4|in layers without the window a part of each head rotates \(rope_freqs\)
gemma4|of width 192 in layers 5, 6, 7
gemma4|scores are multiplied by 1 instead of 1/sqrt\(32\)
granite4|a Mamba-2 mixer instead of attention in layers 0, 1, 3, 4
granite4|8 heads of 16 in the mixer, a state of 32, 1 group, a convolution over 4 positions
granite4|no rotation: attention does not see positions
qwen35|a gated delta net instead of attention in layers 0, 1, 2, 4, 5, 6
qwen35|4 heads of 16 values in it share 2 of queries and keys of 16, a convolution over 4 positions
qwen35|what attention gives is multiplied by sigmoid\(gate\), of which q has the rows
qwen35|queries and keys are normed before they rotate
falcon-h1|attention and a Mamba-2 mixer side by side in every layer
falcon-h1|6 heads of 16 in the mixer, a state of 32, 1 group, a convolution over 4 positions
nemotron-h|a Mamba-2 mixer instead of attention in layers 0, 2, 5
nemotron-h|a feed-forward and nothing else in layers 1, 4, 6
nemotron-h|feed-forward of width 96: relu2\(up\)
lfm3|in 1 of 7 layers a token sees the 8 nearest positions only, in layers 2, 6 all
lfm3|in layers without the window a part of each head rotates \(rope_freqs\)
lfm3|what a head gives is multiplied by sigmoid\(gate\), one gate a head
lfm3|what attention and feed-forward add is normed first
gemma3n|4 residual streams: a layer computes one and predicts the others \(AltUp\)
gemma3n|a branch of rank 8 stands beside attention \(LAuReL\)
gemma3n|in layers 0, 1 gates below mean \+ 1\.282 deviations count 0
gemma3n|values are normed, without a weight
hunyuan|queries and keys are normed after they rotate
ministral3|a query at position p is multiplied by 1 \+ 0\.3 ln\(1 \+ floor\(p / 16\)\)
opt|positions are learned: no more than [0-9]+, and no rotation
EOF2
check_equal "the same in JSON" true "$("$FERRY" inspect "$TMP/opt.gguf" --json | jq '.traits | any(startswith("positions are learned"))')"
finish
