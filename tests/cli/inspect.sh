#!/usr/bin/env bash
# `ferry inspect` of files, checkpoint directories and workspaces, and of one tensor. Statistics are those that numpy
# computes of the values that gguf-py decodes.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

tales=tests/data/tales quantized=tests/data/quantized
"$FERRY" convert "$tales" --outtype q4_0 -o "$TMP/q4_0.gguf" -q
has() { # NAME PATTERN: in $TMP/text
    if grep -qE -- "$2" "$TMP/text"; then ok "$1"; else not_ok "$1" "$(head -n 30 "$TMP/text")"; fi
}

"$FERRY" inspect "$tales" >"$TMP/text"
has "a checkpoint is one" ": checkpoint$"
has "its traits are those of the model it becomes" '^  llama: 4 layers of width 256, vocabulary of 768'
has "its tokenizer" '^  "gpt2", pre-tokenizer "llama-bpe": 768 tokens, 507 merges, a text begins with bos'
has "its special tokens" '^  eos 767 "<\|eot_id\|>"$'
has "its chat template" '^  chat template of [0-9]+ bytes$'
has "its types" '^  BF16 +38 +2427136 +4854272  100.0 %$'
has "its tensors under their own names" '^  model.norm.weight +BF16 +\[256\] +512  model.safetensors$'
"$FERRY" inspect "$TMP/q4_0.gguf" >"$TMP/text"
has "the type of the file has a word" '^  general.file_type +u32 +2 \(Q4_0\)$'
"$FERRY" inspect "$TMP/q4_0.gguf" --json >"$TMP/gguf"
"$FERRY" inspect "$tales" --json >"$TMP/json"
check_equal "the JSON of both says the same of the model" "$(jq -c '.traits, .tokenizer' "$TMP/gguf")" "$(jq -c '.traits, .tokenizer' "$TMP/json")"
check_equal "what the types take is what the tensors take" "$(jq .bytes "$TMP/gguf")" "$(jq '[.types[].bytes] | add' "$TMP/gguf")"
check_equal "the one with most bytes is the first" "q4_0 29" "$(jq -r '.types[0] | "\(.type) \(.tensors)"' "$TMP/gguf")"

for dir in families/{llama-sharded,gemma3-mm,mixtral} containers/{torchbin,meta-llama3,meta-llama3-2parts,llama2c}; do
    "$FERRY" inspect "tests/data/$dir" --json >"$TMP/json" 2>"$TMP/err"
    check "$dir is shown" jq -e '.format == "checkpoint" and (.tensors | length) > 10 and (.traits | length) > 4 and .not_converted == null' "$TMP/json"
done

# a checkpoint of no family, and one without weights
mkdir "$TMP/other" "$TMP/none"
cp "$tales/model.safetensors" "$TMP/other"
echo '{"architectures": ["NobodysForCausalLM"]}' >"$TMP/other/config.json"
"$FERRY" inspect "$TMP/other" >"$TMP/text"
has "one that ferry does not convert is listed, with the reason" '^not converted by ferry: .*NobodysForCausalLM'
has "and its tensors" '^  model.norm.weight'
cp "$tales"/*.json "$TMP/none"
"$FERRY" inspect "$TMP/none" >"$TMP/text"
has "one without weights is reported" '^no weights: .*neither model.safetensors'
has "by its configuration" '^  llama: 4 layers of width 256'
has "and its tokenizer" ': 768 tokens, 507 merges'
head -c 1000000 "$tales/model.safetensors" >"$TMP/none/model.safetensors"
check_status "damaged weights are an error" 1 'model.safetensors' "$FERRY" inspect "$TMP/none"
mkdir "$TMP/empty"
check_status "an empty directory is an error" 1 'neither model.safetensors' "$FERRY" inspect "$TMP/empty"

# the head of an arm64 program is all that `create` looks at
{ printf '\177ELF\2\1\1'; head -c 9 /dev/zero; printf '\2\0\267\0'; head -c 44 /dev/zero; } >"$TMP/exe"
"$FERRY" create "$TMP/q4_0.gguf" --exe-path "$TMP/exe" --no-parity -o "$TMP/workspace" -q
"$FERRY" inspect "$TMP/workspace" >"$TMP/text"
has "a workspace is its main model" '/workspace: workspace; its main model:$'
check_equal "with everything that the file has" "$(jq 'del(.path)' "$TMP/gguf")" \
    "$("$FERRY" inspect "$TMP/workspace" --json | jq 'del(.path, .workspace)')"

numbers() { # FILE TENSOR
    "$FERRY" inspect "$1" --tensor "$2" --json |
        jq -r '"\(.min * 1e6 | round) \(.max * 1e6 | round) \(.mean * 1e7 | round) \(.std * 1e7 | round) \(.zeros)"'
}
check_equal "the statistics of q4_K" "-267483 286371 432 519612 6" "$(numbers "$quantized/tales-q4_K.gguf" blk.2.ffn_up.weight)"
check_equal "the statistics of q6_K" "-272224 290436 630 519833 3381" "$(numbers "$quantized/tales-q6_K.gguf" blk.2.ffn_up.weight)"
check_equal "the statistics of q5_1" "-221680 182671 15181 506578 1" "$(numbers "$quantized/q5_1.gguf" blk.1.ffn_gate.weight)"
check_equal "the statistics of q5_0" "-221680 182617 15298 506684 483" "$(numbers "$quantized/q5_0.gguf" blk.1.ffn_gate.weight)"
check_equal "the statistics of q4_0" "-239258 249023 3611 530586 1932" "$(numbers "$TMP/q4_0.gguf" blk.3.attn_v.weight)"
check_equal "a tensor of a checkpoint, by its own name" '"BF16",[256,256]' \
    "$("$FERRY" inspect "$tales" --tensor model.layers.0.self_attn.q_proj.weight --json | jq -c '.type, .shape' | paste -sd,)"
check_equal "or by that of the conversion" '"f32",[256,256]' \
    "$("$FERRY" inspect "$tales" --tensor blk.0.attn_q.weight --json | jq -c '.type, .shape' | paste -sd,)"
check_equal "values from an index on" "$("$FERRY" inspect "$TMP/q4_0.gguf" --tensor token_embd.weight --values 512 --json | jq -c '.values[256 + 9:256 + 12]')" \
    "$("$FERRY" inspect "$TMP/q4_0.gguf" --tensor token_embd.weight --at '[1, 9]' --values 3 --json | jq -c .values)"
check_status "a name that is not there names the nearest" 2 "nearest name is 'token_embd.weight'" "$FERRY" inspect "$TMP/q4_0.gguf" --tensor token_embed.weight
check_status "an index outside is refused" 2 'is not an index' "$FERRY" inspect "$TMP/q4_0.gguf" --tensor token_embd.weight --at 768,0
check_status "--at needs a tensor" 2 'goes with --tensor' "$FERRY" inspect "$TMP/q4_0.gguf" --at 1,2
check_status "hashes are those of a file" 2 'takes a file' "$FERRY" inspect "$tales" --hash

if [ -d "$REAL/hf-meta" ]; then
    for dir in "$REAL"/hf-meta/*/; do
        "$FERRY" inspect "$dir" >"$TMP/text" 2>&1
        status=$?
        case $status in
        0) has "configuration alone: $(basename "$dir")" '^no weights: ' ;;
        1) has "weights are absent: $(basename "$dir")" 'shards are absent|neither model.safetensors|line 2, column 1' ;;
        *) not_ok "$(basename "$dir")" "exit $status" ;;
        esac
    done
else
    skip "real configurations" "third-party data is absent"
fi
finish
