#!/usr/bin/env bash
# `ferry eval --imatrix-out`: what llama.cpp's engine collected on the same tokens, the same bytes whatever computes them, and
# the file's form.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

text=tests/data/held.txt tales=$TMP/tales.gguf moe=$TMP/moe.gguf
near() { # FOUND EXPECTED RATIO
    awk -v a="$1" -v b="$2" -v r="$3" 'BEGIN { d = a / b - 1; exit !(d < r && d > -r) }'
}
collect() { # MODEL OUT OPTION...
    "$FERRY" eval -m "$1" --text "$text" --imatrix-out "$2" -q "${@:3}"
}
value() { # FILE TENSOR INDEX
    "$FERRY" inspect "$1" --tensor "$2" --at "$3" --values 1 --json -q | jq '.values[0]'
}
check "the demo model converts" "$FERRY" convert tests/data/tales --outtype f32 -o "$tales" -q
check "and one with experts" "$FERRY" convert tests/data/families/qwen2moe --outtype f32 -o "$moe" -q

# What tests/peer/imatrix.py prints with --show.
out=$TMP/tales-imatrix.gguf
said=$(collect "$tales" "$out" --llama-cut)
while read -r name column want; do
    check "$name, column $column: llama.cpp's sum" near "$(value "$out" "$name.in_sum2" "$column")" "$want" 1e-4
    check_equal "over as many tokens" 9728 "$(value "$out" "$name.counts" 0)"
done <<'END'
blk.0.attn_q.weight 0 5672.343470
blk.1.ffn_up.weight 7 6813.120299
blk.2.attn_output.weight 100 3359.688750
blk.3.ffn_down.weight 511 27010.200394
END
# What llama-imatrix itself wrote; it adds up in f32.
theirs=tests/data/imatrix/qwen2moe.gguf
head -c 14000 $text >"$TMP/part.txt"
program=$(realpath "$FERRY")
(cd "$TMP" && "$program" eval -m moe.gguf --text part.txt --llama-cut --imatrix-out ours.gguf -q) >"$TMP/stdout"
check "experts: keys as llama-imatrix writes them, and its sums" "$FERRY" compare $theirs "$TMP/ours.gguf" --tolerance 5e-5 -q
check "its counts" "$FERRY" compare $theirs "$TMP/ours.gguf" --tensor '[.]counts$' -q
data=$("$FERRY" inspect $theirs --json -q | jq .data_offset)
check "its header, byte for byte" cmp -n "$data" $theirs "$TMP/ours.gguf"

check_equal "the perplexity is that of a run that collects nothing" \
    "$("$FERRY" eval -m "$tales" --text $text --llama-cut -q)" "$said"
"$FERRY" inspect "$out" --json -q >"$TMP/inspect.json"
check_equal "type, text, pieces and their size are said" '["imatrix",["'"$text"'"],19,512]' \
    "$(jq -c '.metadata | [.["general.type"], .["imatrix.datasets"].first, (.["imatrix.chunk_count", "imatrix.chunk_size"])]' \
        "$TMP/inspect.json")"
check_equal "every matrix of the layers, by name, sums before counts" \
    "$("$FERRY" inspect "$tales" --json -q |
        jq -r '.tensors[] | select((.name | startswith("blk.")) and (.shape | length) == 2) | .name' | LC_ALL=C sort |
        sed 's/.*/&.in_sum2\n&.counts/')" \
    "$(jq -r '.tensors[].name' "$TMP/inspect.json")"
check_equal "their shapes" '[[512],[1]]' \
    "$(jq -c '[.tensors[] | select(.name | startswith("blk.0.ffn_down.")) | .shape]' "$TMP/inspect.json")"

head -c 4000 $text >"$TMP/short.txt"
text=$TMP/short.txt
for model in "$tales" "$moe"; do
    collect "$model" "$TMP/a" -c 100 -t 2 >"$TMP/stdout"
    collect "$model" "$TMP/b" -c 100 -t 1 -b 17 >"$TMP/stdout"
    check "the same bytes for any number of threads and batch size: ${model##*/}" cmp "$TMP/a" "$TMP/b"
done
tokens=$("$FERRY" eval -m "$tales" --text "$text" -c 100 -q --json | jq .tokens)
collect "$tales" "$TMP/a" -c 100 >"$TMP/stdout"
check_equal "of each piece all tokens, the beginning and the last one, too" $((tokens * 100 / 99)) \
    "$(value "$TMP/a" blk.3.ffn_down.weight.counts 0)"
collect "$tales" "$TMP/b" --lines >"$TMP/stdout"
check "lines can be collected over, too" "$FERRY" inspect "$TMP/b" -q
echo x >"$TMP/word.txt"
text=$TMP/word.txt
check_status "experts that no token chose are reported" 0 "experts were chosen by no token, the first in blk.0.ffn_" \
    collect "$moe" "$TMP/c"

check_status "a text is needed" 2 "give --text" "$FERRY" eval -m "$tales" --golden tests/data/tales/golden_long.safetensors \
    --imatrix-out "$TMP/d"
check_status "the model is not written over" 2 "is the model" collect "$tales" "$tales"
check_status "what cannot be written is reported before the work" 1 "no such directory|No such file" collect "$tales" "$TMP/none/d"
text=/dev/null
check_status "an empty text collects nothing" 2 "no token to score" collect "$tales" "$TMP/d"
check_equal "and leaves nothing" "" "$(ls "$TMP"/d* 2>/dev/null)"
finish
