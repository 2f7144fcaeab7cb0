#!/usr/bin/env bash
# A model that was cut goes into a workspace, alone and beside the complete model; verify finds each kind of damage,
# although every file has the hash that the manifest lists; inspect draws the chain.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

ferry=$(realpath "$FERRY")
"$ferry" convert tests/data/tales --outtype q4_0 -o "$TMP/tales.gguf" -q
check "tales is cut" "$ferry" chunk "$TMP/tales.gguf" --chunks 2 -c 512 --batch 64,1 -o "$TMP/cut" -q

# --- create --------------------------------------------------------------------------------------------------------
check_status "create takes what chunk made" 0 "PowerServe's runtime could not .*its layers are chunks" \
    "$ferry" create "$TMP/cut" -o "$TMP/npu"
check "every chunk as it was" diff -r "$TMP/cut/qnn" "$TMP/npu/tales/qnn"
check "the embedding, too" cmp "$TMP/cut/ggml/weights.gguf" "$TMP/npu/tales/ggml/weights.gguf"
check "verify is content" "$ferry" verify "$TMP/npu" -q
"$ferry" create --chunks "$TMP/cut" -o "$TMP/npu2" -q
check "--chunks without a model is the same" diff -r "$TMP/npu" "$TMP/npu2"
"$ferry" create "$TMP/tales.gguf" -o "$TMP/plain" -q
for file in model.json vocab.gguf parity.json; do
    check "$file is that of the whole model" cmp "$TMP/plain/tales/$file" "$TMP/npu/tales/$file"
done
check_status "chunks go beside the complete model" 0 "PowerServe's runtime needs --no-qnn" \
    "$ferry" create "$TMP/tales.gguf" --chunks "$TMP/cut" --no-parity -o "$TMP/both"
check "which is complete" cmp "$TMP/tales.gguf" "$TMP/both/tales/ggml/weights.gguf"
check "and has the chunks" diff -r "$TMP/cut/qnn" "$TMP/both/tales/qnn"
check "and is verified" "$ferry" verify "$TMP/both" -q
check_equal "and runs on the CPU as before" "$("$ferry" run -m "$TMP/tales.gguf" -p 'One day' -n 8 -q)" \
    "$("$ferry" run -d "$TMP/both" -p 'One day' -n 8 -q)"
check "a checkpoint that becomes the model that was cut" "$ferry" create tests/data/tales --chunks "$TMP/cut" --no-parity -o "$TMP/both2" -q
check "gives the same" diff -r "$TMP/both" "$TMP/both2"
check "selftest is content" "$ferry" selftest --quick -d "$TMP/npu"
check_status "another model is refused" 2 "chunk_0.gguf: 'blk.0.attn_q.weight' is q4_0, but q8_0" \
    "$ferry" create tests/data/tales --outtype q8_0 --chunks "$TMP/cut" -o "$TMP/none"
check_status "a chunk is not a model" 2 'chunk_0.gguf: is a chunk of a model that was cut, layers 0-1' \
    "$ferry" create "$TMP/cut/qnn/chunk_0.gguf" -o "$TMP/none"
check_status "nor is the embedding alone" 2 'is the embedding of a model that was cut' \
    "$ferry" create "$TMP/cut/ggml/weights.gguf" -o "$TMP/none"
check_status "chunks are not asked for twice" 2 'give one of them' \
    "$ferry" create "$TMP/tales.gguf" --chunks "$TMP/cut" --qnn-path "$TMP/cut" -o "$TMP/none"
make_package "$TMP/package" "$TMP/tales.gguf" "$TMP/plain/tales/model.json"
check_status "context binaries are no chunks" 2 'names no chunks' \
    "$ferry" create "$TMP/tales.gguf" --chunks "$TMP/package" -o "$TMP/none"
check "nothing is left of what was refused" test ! -e "$TMP/none" -a ! -e "$TMP/none.part"
check_status "a mixture of experts is not cut" 1 'cannot be cut for an NPU: it is a mixture of experts' \
    bash -c "'$ferry' convert tests/data/families/mixtral -o '$TMP/moe.gguf' -q && '$ferry' chunk '$TMP/moe.gguf' --chunks 2 -o '$TMP/none'"
check_status "nor are layers of attention and of a state" 1 "cannot be cut for an NPU: .* have a state" \
    bash -c "'$ferry' convert tests/data/families/lfm2 -o '$TMP/lfm2.gguf' -q && '$ferry' chunk '$TMP/lfm2.gguf' --chunks 2 -o '$TMP/none'"

# --- pack, unpack --------------------------------------------------------------------------------------------------
for ws in npu both; do
    check "$ws: pack and unpack" bash -c "'$ferry' pack $TMP/$ws -o $TMP/$ws.tar.zst -q && '$ferry' unpack $TMP/$ws.tar.zst -o $TMP/$ws-back -q"
    check "$ws: the same bytes" diff -r "$TMP/$ws" "$TMP/$ws-back"
    check "$ws: verify" "$ferry" verify "$TMP/$ws-back" -q
    check_equal "$ws: the chunks say what the whole model says" "$("$ferry" run -m "$TMP/tales.gguf" -p 'One day' -n 24 -q)" \
        "$("$ferry" run -d "$TMP/$ws-back" --backend chunks -p 'One day' -n 24 -q)"
done

# --- verify --------------------------------------------------------------------------------------------------------
# relist DIR FILE: the manifest lists what FILE has become, as its writer would.
relist() {
    local bytes sha text
    bytes=$(stat -c %s "$1/$2")
    sha=$(sha256sum "$1/$2" | cut -d' ' -f1)
    text=$(sed -E "\\,\"path\": \"$2\",{s/(\"size\": )[0-9]+/\1$bytes/;n;s/[0-9a-f]{64}/$sha/}; /^ ],$/,\$d" "$1/manifest.json")
    printf '%s\n ],\n "sha256": "%s"\n}\n' "$text" "$(printf '%s\n ]' "$text" | sha256sum | cut -d' ' -f1)" >"$1/manifest.json"
}
damaged() { # NAME PATTERN WORKSPACE FILE COMMAND...: the command changes a copy of the workspace's file
    local name=$1 pattern=$2 ws=$3 file=$4 found
    shift 4
    rm -rf "$TMP/bad"
    cp -r "$TMP/$ws" "$TMP/bad"
    "$@" "$TMP/bad/tales/$file"
    relist "$TMP/bad" "tales/$file"
    found=$("$ferry" verify "$TMP/bad" --json 2>/dev/null | jq -r '.problems[] | "\(.path): \(.problem)"')
    if grep -qE -- "$pattern" <<<"$found"; then ok "$name"; else not_ok "$name" "wanted $pattern in: $found"; fi
}
edit() { # FILTER FILE
    jq "$1" "$2" >"$TMP/edited" && cp "$TMP/edited" "$2"
}
"$ferry" chunk "$TMP/tales.gguf" --chunks 4 -o "$TMP/four" -q
"$ferry" convert tests/data/tales --outtype q8_0 -o "$TMP/q8.gguf" -q
"$ferry" chunk "$TMP/q8.gguf" --chunks 2 -o "$TMP/q8" -q
damaged "a chunk in another's place" 'start_layer_id 2, end_layer_id 4, but chunk_1.gguf holds 0 to 2' npu qnn/chunk_1.gguf cp "$TMP/cut/qnn/chunk_0.gguf"
damaged "one of another cut of the model" 'chunk_0.gguf holds 0 to 1' npu qnn/chunk_0.gguf cp "$TMP/four/qnn/chunk_0.gguf"
damaged "one of another model" 'chunk_1.gguf: is a chunk of model [0-9a-f]{12}' npu qnn/chunk_1.gguf cp "$TMP/q8/qnn/chunk_1.gguf"
damaged "a value in the first bytes of a layer" 'the chunks together are model' npu qnn/chunk_0.gguf bash -c "
    printf '\001' | dd of=\"\$0\" bs=1 seek=\$('$ferry' inspect --json \"\$0\" | jq .data_offset) conv=notrunc status=none"
# shellcheck disable=SC2016 # of the inner shell
damaged "a value in the first bytes of a tied output matrix" 'has other values than token_embd.weight' npu qnn/lm_head.gguf \
    bash -c 'printf "\001" | dd of="$0" bs=1 seek=$(($(stat -c %s "$0") - 110500)) conv=notrunc status=none'
damaged "a chunk cut short" 'chunk_1.gguf' npu qnn/chunk_1.gguf truncate -s -1000
damaged "an empty one" 'chunk_1.gguf: is empty' npu qnn/chunk_1.gguf truncate -s 0
damaged "layers that nothing computes" 'covers 2 layers|graphs cover 2' npu qnn/config.json edit '.graphs |= map(select(.start_layer_id == 0))'
damaged "no lm_head" 'names no lm_head' npu qnn/config.json edit '.embeddings = []'
damaged "another name of the seam" "x_name is 'y', expected 'x'" npu qnn/config.json edit '.graphs[1].x_name = "y"'
damaged "a configuration of another cut" 'ferry.model\) was written for' npu qnn/config.json edit '.ferry.model |= (explode | map(if . == 97 then 98 else . end) | implode)'
damaged "another vocabulary" 'vocab_size is 769' npu qnn/config.json edit '.model_parameters.vocab_size = 769'
damaged "layers beside weights that are the embedding of another cut" 'q4_0|is a chunk of model' npu ggml/weights.gguf cp "$TMP/q8/ggml/weights.gguf"
damaged "weights that are layers" 'holds layers 0-1 of a model that was cut' both ggml/weights.gguf cp "$TMP/cut/qnn/chunk_0.gguf"
damaged "an embedding alone" 'weights.gguf: is the embedding of a model that was cut, expected its chunks' plain ggml/weights.gguf cp "$TMP/cut/ggml/weights.gguf"
rm -rf "$TMP/bad"
cp -r "$TMP/npu" "$TMP/bad"
rm "$TMP/bad/tales/qnn/chunk_1.gguf"
check_status "a missing chunk" 4 'chunk_1.gguf' "$ferry" verify "$TMP/bad"
check_status "and run reports it before it loads" 4 'chunk_1.gguf' "$ferry" run -d "$TMP/bad" -p x -n 1

# --- inspect -------------------------------------------------------------------------------------------------------
drawing='chain: context 512, 448 positions cached, batch size 64, 1
  embedding                           0.1 MB  ggml/weights.gguf
    | x [batch, 256] f32
  layers 0-1                          0.6 MB  qnn/chunk_0.gguf
    | x [batch, 256] f32
  layers 2-3                          0.6 MB  qnn/chunk_1.gguf
    | x [batch, 256] f32
  lm_head                             0.1 MB  qnn/lm_head.gguf
    | logits [batch, 768] f32'
for what in cut npu npu/tales; do
    check_equal "inspect draws the chain of $what" "$drawing" "$("$ferry" inspect "$TMP/$what" | sed -n '/^chain/,/^$/p')"
done
"$ferry" chunk "$TMP/tales.gguf" --soc SM8650 --recipe 16a4w -c 512 --batch 64,1 -o "$TMP/soc" -q
check_equal "and what it was cut for" 'chain: context 512, 448 positions cached, batch size 64, 1; for SM8650, recipe 16a4w' \
    "$("$ferry" inspect "$TMP/soc" | grep '^chain')"
check_equal "of a complete model with chunks, too" '  embedding                           1.4 MB  ggml/weights.gguf (the complete model)' \
    "$("$ferry" inspect "$TMP/both" | grep '^  embedding')"
check_equal "JSON has the bytes of every file" "$(cd "$TMP/cut" && stat -c '%n %s' ggml/weights.gguf qnn/chunk_0.gguf qnn/chunk_1.gguf qnn/lm_head.gguf)" \
    "$("$ferry" inspect "$TMP/cut" --json | jq -r '.chain.steps[] | "\(.file) \(.bytes)"')"
check_equal "and every layer once" '[0,2][2,4]' \
    "$("$ferry" inspect "$TMP/cut" --json | jq -cj '.chain.steps[] | select(.kind == "layers") | [.first_layer, .end_layer]')"
check_equal "a missing chunk is drawn as missing" '  layers 2-3                         missing  qnn/chunk_1.gguf' \
    "$(rm -r "$TMP/bad"; cp -r "$TMP/cut" "$TMP/bad"; rm "$TMP/bad/qnn/chunk_1.gguf"; "$ferry" inspect "$TMP/bad" | grep '^  layers 2')"
check_equal "a chunk says which one it is" \
    "chunk of a model that was cut: layers 2-3, 2 of 2; the tokenizer's keys are in the embedding, ggml/weights.gguf" \
    "$("$ferry" inspect "$TMP/cut/qnn/chunk_1.gguf" | grep '^chunk of')"
check_equal "in JSON, too" '["layers",2,4,1,2]' \
    "$("$ferry" inspect "$TMP/cut/qnn/chunk_1.gguf" --json | jq -c '.piece | [.kind, .first_layer, .end_layer, .index, .count]')"
for name in token_embd.weight blk.3.ffn_down.weight; do
    check_equal "--tensor finds $name in its chunk" "$("$ferry" inspect "$TMP/tales.gguf" --tensor $name | tail -n +2)" \
        "$("$ferry" inspect "$TMP/npu" --tensor $name | tail -n +2)"
done
check_equal "and tokenize the vocabulary in the embedding" "$("$ferry" tokenize -m "$TMP/tales.gguf" 'One day')" \
    "$("$ferry" tokenize -m "$TMP/cut" 'One day')"
check_equal "context binaries are drawn as well" '  layers 0-3                          0.3 MB  qnn/tales_0.bin' \
    "$("$ferry" inspect "$TMP/package" | grep '^  layers')"
finish
