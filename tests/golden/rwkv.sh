#!/usr/bin/env bash
# RWKV 5.0 to 7, from BlinkDL's files and from directories of Hugging Face: logits, hidden states and greedy ids of the
# author's package (tests/data/rwkv), on this machine and on emulated arm64; the same text from blocks of weights everywhere;
# the tokenizer's cases; what a conversation is made of; and what is refused.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

ids() { # PROGRAM FILE OPTIONS...
    local program=$1 file=$2
    shift 2
    $program run -m "$file" -p "User: tell me a story" -n 24 --ignore-eos --print-ids "$@" 2>/dev/null
}
for dir in tests/data/rwkv/*/; do
    name=$(basename "$dir")
    f=$TMP/$name.gguf golden=$dir/golden.safetensors
    check "$name converts to f32" "$FERRY" convert "$dir" --outtype f32 -o "$f"
    check "$name: logits, hidden states, greedy ids" "$FERRY" eval -m "$f" --golden "$golden"
    check "$name: the same one by one" "$FERRY" eval -m "$f" --golden "$golden" -b 1 -t 1
    check "$name: scalar kernels" env FY_CPU_MASK=0 "$FERRY" eval -m "$f" --golden "$golden"
    check "$name: arm64" $FERRY_ARM eval -m "$f" --golden "$golden"
    check "$name: tokenizer cases" "$FERRY" tokenize -m "$f" --verify "$dir/golden.json"
    check "$name: f16" "$FERRY" convert "$dir" --outtype f16 -o "$TMP/f16.gguf"
    check "$name: f16 within 1e-3" "$FERRY" eval -m "$TMP/f16.gguf" --golden "$golden" --tolerance 1e-3
    for type in q8_0 q4_0; do
        check "$name: $type" "$FERRY" convert "$dir" --outtype $type -o "$TMP/q.gguf"
        want=$(ids "$FERRY" "$TMP/q.gguf" -t 1)
        check_equal "$name, $type: 24 ids" 24 "$(wc -w <<<"$want")"
        check_equal "$name, $type: batches of 1, two threads" "$want" "$(ids "$FERRY" "$TMP/q.gguf" -t 2 -b 1)"
        check_equal "$name, $type: scalar kernels" "$want" "$(FY_CPU_MASK=0 ids "$FERRY" "$TMP/q.gguf" -t 2)"
        check_equal "$name, $type: arm64" "$want" "$(ids "$FERRY_ARM" "$TMP/q.gguf" -t 2)"
    done
    # Vectors, low-rank matrices and lerps stay f32.
    check_equal "$name: only large matrices are in blocks" "" "$("$FERRY" inspect --json "$TMP/q.gguf" | jq -r '.tensors[] |
        select(.type != "f32" and (.name | test("token_embd.weight|output.weight|(receptance|key|value|gate|output).weight$") | not)) | .name')"
done

# Six names and one tensor, older and newer: the files hold the same numbers.
check_equal "layer 0 of version 7 gets no values of another layer" "blk.0.time_mix_v0.weight blk.0.time_mix_a0.weight" "$("$FERRY" \
    inspect --hash --json "$TMP/v7.gguf" | jq -r '.tensors as $t | [$t[] | select(.name == "blk.0.time_mix_v0.weight" or
    .name == "blk.0.time_mix_a0.weight")] | sort_by(.name) | reverse | select(.[0].sha256 == .[1].sha256) | map(.name) | join(" ")')"

while IFS='|' read -r name sentence; do
    check "$name: $sentence" grep -qE "^  $sentence\$" <("$FERRY" inspect "$TMP/$name.gguf")
done <<'EOF2'
v5|RWKV 5.0: decay and token shift are the same for all tokens, without a gate
v5.2|RWKV 5.1 or 5.2: decay and token shift are the same for all tokens, with a gate
v6|RWKV 6: decay and token shift depend on the tokens \(low ranks 20 and 12\)
v6|no attention: 3 heads of 32, whose state takes 0.0[0-9]+ MB of each sequence
v7|RWKV 7: what a token writes replaces .* \(low ranks: decay 8, rate of learning 12, values of the first layer 4, gate 20\)
v7|a channel of the state keeps 0\.[0-9]+ to [0-9.]+ of itself from token to token, before what the tokens add
v7-hf|channel mix of width 512: relu\(up\)\^2
EOF2

# Conversations: the format of World, its two rules for lines (\r\n is \n; empty lines are none), id 0 in front.
cat >"$TMP/messages.json" <<'END'
[{"role": "user", "content": " Hi\r\n\n\nthere "}, {"role": "system", "content": "Be\n\nbrief."},
 {"role": "assistant", "content": "<think>x</think>one\n\ntwo"}, {"role": "user", "content": "Go"}]
END
check_equal "a conversation" $'<s>System: Be\nbrief.\n\nUser: Hi\nthere\n\nAssistant: one\ntwo\n\nUser: Go\n\nAssistant:' \
    "$("$FERRY" template -m "$TMP/v7.gguf" --messages "$TMP/messages.json")"
check_equal "its first token is id 0" 0 "$("$FERRY" template -m "$TMP/v7.gguf" --messages "$TMP/messages.json" --ids | cut -d" " -f1)"
check "an answer" bash -c "[ -n \"\$('$FERRY' chat -m '$TMP/v7.gguf' -n 12 --temp 0 -q <<<Hello 2>/dev/null)\" ]"

# One size for every length.
run() { "$FERRY" run -m "$TMP/v7.gguf" -p Hello -n 50 --ignore-eos "$@"; }
check_status "-c is no limit, and that is said" 0 "-c 16 means nothing to a rwkv7 model" run -c 16
check_equal "-c changes nothing" "$(run 2>/dev/null)" "$(run -c 16 2>/dev/null)"

# Cut into chunks: the states go from graph to graph, the values of version 7's first layer too, and padding changes nothing.
bits() { # PROGRAM MODEL TOKENS OPTIONS...: the ids of an answer; the logits of all tokens before it in $TMP/logits.f32
    local program=$1 model=$2 tokens=$3
    shift 3
    $program run -m "$model" --prompt-ids "$(seq -s, 1 "$tokens")" --logits-out "$TMP/logits.f32" -n 20 --ignore-eos --print-ids \
        --temp 0 -t 1 "$@" 2>"$TMP/err"
}
same_bits() { # MODEL CUT TOKENS OPTIONS...: what differs
    local want got
    want=$(bits "$FERRY" "$1" "$3")
    mv "$TMP/logits.f32" "$TMP/want.f32"
    got=$(bits "$FERRY" "${@:2}")
    [ "$(wc -w <<<"$want")" = 20 ] && [ "$want" = "$got" ] && cmp "$TMP/want.f32" "$TMP/logits.f32" 2>&1 ||
        echo "$*: ids '$want' and '$got' $(cat "$TMP/err")"
}
turn=0
for dir in tests/data/rwkv/*/; do
    name=$(basename "$dir")
    types=(f32 f16 q8_0 q4_0)
    batches=("16,1" 16 "8,4,1")
    layers=$("$FERRY" inspect --json "$TMP/$name.gguf" | jq '[.metadata | to_entries[] | select(.key | endswith(".block_count")).value] | first')
    bad=
    for chunks in 1 2 "$layers"; do
        type=${types[turn % 4]} batch=${batches[turn % 3]}
        rm -rf "$TMP/cut" "$TMP/again.gguf"
        "$FERRY" convert "$dir" --outtype "$type" -q -o "$TMP/m.gguf" 2>/dev/null
        "$FERRY" chunk "$TMP/m.gguf" --chunks "$chunks" --batch "$batch" -c 20 -q -o "$TMP/cut" 2>&1 || bad+="not cut "
        for tokens in $([ "$chunks" = 2 ] && echo 1 2 7 15 16 17 31 33 300 || echo 5 48); do
            bad+=$(same_bits "$TMP/m.gguf" "$TMP/cut" "$tokens")
        done
        "$FERRY" chunk --join "$TMP/cut" -q -o "$TMP/again.gguf" && cmp "$TMP/m.gguf" "$TMP/again.gguf" || bad+="not joined "
        turn=$((turn + 1))
    done
    check_equal "$name in 1, 2 and $layers chunks: the bits of the whole model" "" "$bad"
done
check "v7 is cut" "$FERRY" chunk "$TMP/v7.gguf" --chunks 2 -q -o "$TMP/v7"
check_equal "into graphs of 8 tokens and one" "[8,1]" "$(jq -c '[.graphs[].batch_size] | unique | reverse' "$TMP/v7/qnn/config.json")"
check "whose tensors are in the files" grep -qa "v_first_in" "$TMP/v7/qnn/chunk_1.gguf"
check "v6 is cut" "$FERRY" chunk "$TMP/v6.gguf" --chunks 2 -q -o "$TMP/v6"
check_equal "which has no such values" 0 "$(cat "$TMP"/v6/qnn/chunk_*.gguf | grep -cao v_first)"
check "the goldens hold" "$FERRY" eval -m "$TMP/v7" --golden tests/data/rwkv/v7/golden.safetensors
check "one by one too" "$FERRY" eval -m "$TMP/v7" --golden tests/data/rwkv/v7/golden.safetensors -b 1
check "on arm64" $FERRY_ARM eval -m "$TMP/v7" --golden tests/data/rwkv/v7/golden.safetensors
check_equal "more text than the graphs' context" "$("$FERRY" run -m "$TMP/v7.gguf" -p Hello -n 60 --ignore-eos --temp 0 2>/dev/null)" \
    "$("$FERRY" run -m "$TMP/v7" -p Hello -n 60 --ignore-eos --temp 0 2>/dev/null)"
chat() { printf 'Hello\n/undo\nHow are you?\nAnd now?\n' | "$FERRY" chat -m "$1" -n 12 --temp 0 -q 2>/dev/null; }
check_equal "a chat with a turn undone" "$(chat "$TMP/v7.gguf")" "$(chat "$TMP/v7")"
check_status "graphs of more tokens are refused" 2 "128 tokens, but a graph of a model with states \(RWKV\) has 16 at most: --batch 8,1" \
    "$FERRY" chunk "$TMP/v7.gguf" --chunks 1 --batch 128,1 -o "$TMP/no"

# Without configuration: one file, its own name and that of its directory.
check "the file by its own path" "$FERRY" convert tests/data/rwkv/v6/rwkv.pth --outtype f32 -o "$TMP/one.gguf"
check "gives what its directory gives" cmp "$TMP/one.gguf" "$TMP/v6.gguf"
check "resize: the quantizer takes a converted file" "$FERRY" quantize "$TMP/v6.gguf" "$TMP/v6-q.gguf" q8_0
head -c 300000 tests/data/rwkv/v6/rwkv.pth >"$TMP/cut.pth"
check_status "a truncated file" 1 "cut.pth: " "$FERRY" convert "$TMP/cut.pth" -o "$TMP/no.gguf"
if [ -e "$REAL/rwkv-pth/251105_reverse_L2.pth" ]; then
    check_status "other models of the same author" 1 "tensors without a configuration" \
        "$FERRY" convert "$REAL/rwkv-pth/251105_reverse_L2.pth" -o "$TMP/no.gguf"
fi
finish
