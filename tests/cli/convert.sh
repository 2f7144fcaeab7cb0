#!/usr/bin/env bash
# The options of `ferry convert`: what is written, under which name, with which keys, and what is refused.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
export LC_ALL=C.UTF-8
ferry=$(realpath "$FERRY") tales=$PWD/tests/data/tales llama=$PWD/tests/data/families/llama
convert() { "$ferry" convert "$@" -q; }
key() { # FILE KEY
    "$ferry" inspect "$1" --json | jq -c --arg k "$2" '.metadata[$k]'
}
type_of() { # FILE TENSOR
    "$ferry" inspect "$1" --json | jq -r --arg n "$2" '.tensors[] | select(.name == $n) | .type'
}

# --- where the output goes ---------------------------------------------------------------------------------------
mkdir "$TMP/here" "$TMP/out"
cd "$TMP/here" || exit 1
convert "$tales"
check_equal "the standard name, in the current directory" tales-2.4M-BF16.gguf "$(ls)"
convert "$tales" --outtype q8_0 -o "$TMP/out"
check_equal "or in a directory that is named" tales-2.4M-Q8_0.gguf "$(ls "$TMP/out")"
convert "$tales" --outtype q8_0 -o 'a-{ftype}-{FTYPE}.gguf'
check "{ftype} and {FTYPE} become the type" test -f a-q8_0-Q8_0.gguf
check "both are one file" cmp a-q8_0-Q8_0.gguf "$TMP/out/tales-2.4M-Q8_0.gguf"
convert "$tales" -o '{{x}}.gguf'
check "a brace is written twice" test -f '{x}.gguf'
check_status "another word in braces is refused" 2 'begins \{ftype\}' "$ferry" convert "$tales" -o 'a-{type}.gguf'
check_status "a directory that is not there is named" 1 'nowhere/: no such directory' "$ferry" convert "$tales" -o nowhere/
convert "$tales" --vocab-only
check "a vocabulary has its kind in the name" test -f tales-vocab.gguf
cp -r "$tales" 'Llama-3.2-1B-Instruct'
sed -i /model_name/d Llama-3.2-1B-Instruct/README.md
convert Llama-3.2-1B-Instruct -o "$TMP/out" --outtype q4_0
check "the directory's name in its parts" test -f "$TMP/out/Llama-3.2-2.4M-1b-Instruct-Q4_0.gguf"
for name in -rf .profile --.- ' - '; do
    mkdir names names/out
    cp -r "$tales" names/source
    printf -- '---\nmodel_name: "%s"\n---\n' "$name" >names/source/README.md
    (cd names/out && convert ../source)
    check "a card with the name '$name' gives no file that begins with - or ." \
        test -n "$(find names/out -name '[a-z]*.gguf')"
    rm -r names
done
mkdir taken
echo precious >taken/tales-2.4M-Q4_0.gguf
check_status "a name that was not given replaces no other file" 2 'tales-2.4M-Q4_0.gguf: exists.* give the name .* with -o' \
    "$ferry" convert "$tales" --outtype q4_0 -o taken
check_equal "which is as it was" precious "$(cat taken/*)"
ln -sf nowhere taken/tales-2.4M-Q5_0.gguf
check_status "nor a link to nothing" 2 'exists' "$ferry" convert "$tales" --outtype q5_0 -o taken
check "a name that was given does" "$ferry" convert "$tales" --outtype q4_0 -o taken/tales-2.4M-Q4_0.gguf -q
check "the same conversion may run again" "$ferry" convert "$tales" --outtype q4_0 -o taken -q
check_status "another one may not" 2 'exists' "$ferry" convert "$tales" --outtype q4_0 --keep token_embd=f16 -o taken
check "of a split model too" "$ferry" convert "$tales" --outtype q8_0 --split-max-size 1M -o taken -q
check "which may run again" "$ferry" convert "$tales" --outtype q8_0 --split-max-size 1M -o taken -q
rm taken/*-00001-of-*
check_status "all files of it count" 2 '00002-of-.*exists' "$ferry" convert "$tales" --outtype q8_0 --split-max-size 1M -o taken
mkdir -p "cache/models--org--Name-7B/snapshots"
cp -r "$tales" cache/models--org--Name-7B/snapshots/4567def
rm cache/models--org--Name-7B/snapshots/4567def/README.md
convert cache/models--org--Name-7B/snapshots/4567def -o cached.gguf
check_equal "a model of the hub's cache has its name there" '"Name 7B"' "$(key cached.gguf general.name)"
check_equal "and its organization" '"Org"' "$(key cached.gguf general.organization)"

# --- the dry run -------------------------------------------------------------------------------------------------
"$ferry" convert "$tales" --outtype q4_0 --dry-run -o x.gguf >plan 2>words
check_equal "nothing is written" "" "$(ls x.gguf 2>/dev/null)"
check "it lists tensors with type, bytes and source" \
    grep -qE '^blk.0.attn_q.weight +q4_0 +256 x 256 +36864  model.layers.0.self_attn.q_proj.weight \(BF16\), rows permuted$' plan
check "it sums up" grep -qE '^38 tensors, [0-9]+ bytes of tensors, [0-9]+ bytes in all, to x.gguf$' plan
check "it says how much space there is" grep -q '^free space there: ' words
check "and how long it would take" grep -qE '^(about [0-9.]+|less than 0.1) s with [0-9]+ threads?, by a sample' words
"$ferry" convert "$tales" --outtype q4_0 --dry-run -o x.gguf --json >plan.json 2>/dev/null
convert "$tales" --outtype q4_0 -o x.gguf --json >done.json
size=$(stat -c %s x.gguf)
check_equal "as JSON: the size is the one it gets" "$size true q4_0" "$(jq -r '"\(.file_bytes) \(.dry_run) \(.type)"' plan.json)"
check "free space, time, parameters" jq -e '.fits and .free_bytes > 0 and .estimated_seconds >= 0 and .parameters == 2427136' plan.json
check_equal "the tensors are those of the file" \
    "$("$ferry" inspect x.gguf --json | jq -c '[.tensors[] | [.name, .type, .shape, .bytes, .offset]]')" \
    "$(jq -c '[.tensors[] | [.name, .type, .shape, .bytes, .offset]]' plan.json)"
check "every tensor has its source" jq -e 'all(.tensors[]; .source and .source_type == "BF16" and (.file | endswith("model.safetensors")))' plan.json
check_equal "a conversion prints the same plan" "$(jq -c '[.tensors, .dropped]' plan.json)" "$(jq -c '[.tensors, .dropped]' done.json)"
check "with its time and memory" jq -e '.dry_run == false and .seconds >= 0 and .peak_rss_anon > 0' done.json
check "the end is said" grep -qE 'peak RssAnon [0-9.]+ MB' <("$ferry" convert "$tales" -o x.gguf 2>&1)
check_equal "but not with --quiet" "" "$("$ferry" convert "$tales" -o x.gguf -q 2>&1)"

# --- types -------------------------------------------------------------------------------------------------------
convert "$tales" --outtype q4_0 --keep 'token_embd=q8_0' --keep 'blk\.[01]\.ffn_=f16' --keep 'ffn_down=bf16' -o keep.gguf
check_equal "--keep" "q8_0 f16 bf16 q4_0" "$(type_of keep.gguf token_embd.weight) $(type_of keep.gguf blk.1.ffn_down.weight) \
$(type_of keep.gguf blk.2.ffn_down.weight) $(type_of keep.gguf blk.2.ffn_up.weight)"
check_equal "the file is still of its type" 2 "$(key keep.gguf general.file_type)"
check_status "a pattern for nothing is refused" 2 'nothing=q8_0: no matrix' "$ferry" convert "$tales" --keep nothing=q8_0 -o no.gguf
check_status "so is one of a norm" 2 'no matrix' "$ferry" convert "$tales" --keep _norm=f16 -o no.gguf
check_status "a wrong type" 2 'none of f32' "$ferry" convert "$tales" --keep output=iq2_s -o no.gguf
check_status "a wrong expression" 2 'regular expression is wrong' "$ferry" convert "$tales" --keep '[=f16' -o no.gguf
convert "$tales" --outtype q4_0 --recipe llama -o recipe.gguf
check_equal "llama's recipe: the embedding that is the output, too, is q6_K" "q6_K q4_0" \
    "$(type_of recipe.gguf token_embd.weight) $(type_of recipe.gguf blk.0.attn_v.weight)"
check_equal "the file is still a q4_0 one" 2 "$(key recipe.gguf general.file_type)"
convert "$tales" --outtype f32 -o float.gguf
"$ferry" quantize float.gguf quantized.gguf q4_0 --recipe llama -q
check "quantize makes the same of the f32 file" cmp recipe.gguf quantized.gguf
for type in q4_K q5_K; do
    convert "$tales" --outtype $type --recipe llama -o recipe.gguf
    "$ferry" quantize float.gguf quantized.gguf $type --recipe llama -q
    check "$type: the same mixture by quantize" cmp recipe.gguf quantized.gguf
done
check_equal "a mixture: the last layer's ffn_down is better" "q6_K q5_K 17" \
    "$(type_of recipe.gguf blk.2.ffn_down.weight) $(type_of recipe.gguf blk.2.ffn_up.weight) $(key recipe.gguf general.file_type)"
convert "$tales" --outtype q4_0 --token-embedding-type q8_0 -o typed.gguf
check_equal "the embedding has an option" "q8_0 q4_0" "$(type_of typed.gguf token_embd.weight) $(type_of typed.gguf blk.0.attn_v.weight)"
check_status "a missing output matrix has no type" 2 'name its type with --token-embedding-type' \
    "$ferry" convert "$tales" --output-tensor-type q8_0 -o no.gguf
for type in q4_1 q5_0 q5_1 q4_K q5_K q6_K; do
    convert "$tales" --outtype $type -o typed.gguf
    "$ferry" quantize float.gguf quantized.gguf $type -q
    check_equal "$type" $type "$(type_of typed.gguf blk.0.attn_q.weight)"
    check "the same bytes by quantize" cmp typed.gguf quantized.gguf
    made=${tales%/tales}/quantized/tales-$type.gguf # by ggml's encoders
    [ ! -e "$made" ] || check "they are ggml's" "$ferry" compare "$made" typed.gguf
done
"$ferry" convert "$llama" --outtype q6_K --dry-run --json -q >plan.json
check_equal "rows that are short for a type have the next one, which the plan shows" '["q8_0",true]' \
    "$(jq -c '.tensors[] | select(.name == "blk.0.attn_q.weight") | [.type, .fallback]' plan.json)"
check "and a sentence says" grep -q 'matrices get another type' <("$ferry" convert "$llama" --outtype q6_K -o typed.gguf 2>&1)
convert "$llama" --outtype q4_0 --recipe llama -o recipe.gguf
check_equal "where rows are short it is q8_0" q8_0 "$(type_of recipe.gguf output.weight)"
check_equal "and the embedding is not the output" q4_0 "$(type_of recipe.gguf token_embd.weight)"
convert "$tales" --outtype q8_0 --recipe llama -o recipe.gguf
check "q8_0 is the same in both" cmp recipe.gguf "$TMP/out/tales-2.4M-Q8_0.gguf"

convert "$tales" --embedding-only -o embd.gguf
check_equal "the embedding alone" '["token_embd.weight","f32"]' "$("$ferry" inspect embd.gguf --json | jq -c '.tensors[] | [.name, .type]')"
check_equal "with the keys of the whole model" 4 "$(key embd.gguf llama.block_count)"
for type in q8_0 q4_0; do
    convert "$tales" --embedding-only --outtype $type -o embd.gguf
    check_equal "in $type" $type "$(type_of embd.gguf token_embd.weight)"
done
check_status "an embedding alone is not a whole model" 1 'is missing' "$ferry" run -m embd.gguf -p hi -n 1
check_status "not with --vocab-only" 2 'has no tensor' "$ferry" convert "$tales" --embedding-only --vocab-only -o no.gguf

# --- keys --------------------------------------------------------------------------------------------------------
cp -r "$tales" card
cat >card/README.md <<'END'
---
model_name: Fine Tales
license: other
license_name: tale-license
base_model: [org/Base-7B-v0.1]
tags: [a, b]
language: no
---
END
convert card -o card.gguf
check_equal "the model card's name" '"Fine Tales"' "$(key card.gguf general.name)"
check_equal "licence" '"other" "tale-license"' "$(key card.gguf general.license) $(key card.gguf general.license.name)"
check_equal "base model" '1 "Base 7B v0.1" "https://huggingface.co/org/Base-7B-v0.1"' \
    "$(key card.gguf general.base_model.count) $(key card.gguf general.base_model.0.name) $(key card.gguf general.base_model.0.repo_url)"
check_equal "tags and languages" '["a","b"] ["no"]' \
    "$(key card.gguf general.tags | jq -c .first) $(key card.gguf general.languages | jq -c .first)"
convert card -o named.gguf --model-name 'My Own'
check_equal "--model-name goes before" '"My Own"' "$(key named.gguf general.name)"
check_equal "the size in two digits" '"2.4M"' "$(key card.gguf general.size_label)"
hash=$(key card.gguf ferry.source_sha256)
check_equal "the card does not change the source's hash" "$hash" "$(key x.gguf ferry.source_sha256)"
check "64 hexadecimal digits" grep -qE '^"[0-9a-f]{64}"$' <<<"$hash"
convert card -o again.gguf -t 1
check "the same bytes again" cmp card.gguf again.gguf

hostile() { # NAME TEXT
    printf '%b' "$2" >card/README.md
    check "a model is converted with $1" "$ferry" convert card -o hostile.gguf -q
    check_equal "under the directory's name" '"Card"' "$(key hostile.gguf general.name)"
}
hostile "a card that is not YAML" '---\nname: [1\n---\n'
hostile "an alias bomb" '---\na: &a [x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\nname: *c\n---\n'
hostile "deep nesting" "---\nname: $(printf '[%.0s' {1..5000})\n---\n"
hostile "a card that never ends" '---\nname: x\n'
hostile "bytes that are not text" '---\nname: "\xff\xfe"\n---\n'
hostile "an empty card" ''
head -c 3000000 /dev/zero | tr '\0' '-' >card/README.md
check "or with three megabytes of dashes" "$ferry" convert card -o hostile.gguf -q
rm card/README.md && mkdir card/README.md
check_status "a directory of its name is said" 0 'the model card says nothing' "$ferry" convert card -o hostile.gguf
rmdir card/README.md
printf -- '---\nname: ../../../etc/passwd\n---\n' >card/README.md
convert card -o "$TMP/out" --outtype f16
check "a name from a card leaves no directory" test -f "$TMP/out/etc-passwd-2.4M-F16.gguf"

# --- tensors that do not belong, values that do not fit ----------------------------------------------------------
le64() { # NUMBER
    local i hex=''
    for ((i = 0; i < 8; i++)); do hex+=$(printf '\\x%02x' $((($1 >> 8 * i) & 255))); done
    printf '%b' "$hex"
}
# A copy of the checkpoint with one more tensor after the others.
mkdir more && cp "$tales"/*.json more/
n=$(od -An -tu8 -N8 "$tales/model.safetensors" | tr -d ' ')
end=$(($(stat -c %s "$tales/model.safetensors") - 8 - n))
header=$(tail -c +9 "$tales/model.safetensors" | head -c "$n" |
    jq -c --argjson e $end '.["model.layers.0.self_attn.q_prj.weight"] = {dtype: "F32", shape: [1], data_offsets: [$e, $e + 4]}')
{ le64 ${#header} && printf %s "$header" && tail -c $end "$tales/model.safetensors" && printf '\0\0\0\0'; } >more/model.safetensors
check_status "an unknown tensor is named, with the nearest known one" 1 \
    'q_prj.weight is unknown \(the nearest known name is model.layers.0.self_attn.q_proj.weight\); --allow-unmapped' \
    "$ferry" convert more -o no.gguf
check_status "--allow-unmapped leaves it out and reports it" 0 'dropped model.layers.0.self_attn.q_prj.weight: not of this family' \
    "$ferry" convert more -o more.gguf --allow-unmapped
check_equal "the plan lists it" 'dropped: model.layers.0.self_attn.q_prj.weight (not of this family (--allow-unmapped))' \
    "$("$ferry" convert more --allow-unmapped --dry-run -q | grep ^dropped)"

mkdir odd && cp "$tales"/*.json "$tales/model.safetensors" odd/
at() { # TENSOR INDEX -> where element INDEX of a BF16 tensor is in the file
    echo $((8 + n + $(tail -c +9 "$tales/model.safetensors" | head -c "$n" | jq --arg t "$1" '.[$t].data_offsets[0]') + 2 * $2))
}
put() { # BYTES TENSOR INDEX
    printf '%b' "$1" | dd of=odd/model.safetensors bs=1 seek="$(at "$2" "$3")" conv=notrunc status=none
}
put '\xc0\x7f' model.layers.1.mlp.down_proj.weight 514 # NaN
check_status "NaN is refused with its place" 1 \
    "'blk.1.ffn_down.weight' \(model.layers.1.mlp.down_proj.weight\), row 1, element 2 is -?nan; .*--allow-nonfinite" \
    "$ferry" convert odd -o no.gguf
check_status "--allow-nonfinite keeps it" 0 '1 value is NaN' "$ferry" convert odd -o odd.gguf --allow-nonfinite
check_status "not in a quantized block" 1 'row 1, element 2 is -?nan' "$ferry" convert odd -o no.gguf --allow-nonfinite --outtype q8_0
put '\x00\x00' model.layers.1.mlp.down_proj.weight 514
put '\x00\x7f' model.embed_tokens.weight 3
check_status "what f16 cannot hold is refused" 1 "'token_embd.weight'.*row 0, element 3: 1.7.*e\+38 is too large for f16" \
    "$ferry" convert odd -o no.gguf --outtype f16
convert odd -o odd.gguf --outtype f16 --allow-nonfinite 2>/dev/null
offset=$(($(stat -c %s odd.gguf) - $("$ferry" convert odd --outtype f16 --allow-nonfinite --dry-run --json -q -o x | jq .tensor_bytes)))
check_equal "or becomes infinity" 7c00 "$(od -An -tx2 -j $((offset + 6)) -N2 odd.gguf | tr -d ' ')"
oss=${llama%/llama}/gpt-oss
types() { "$ferry" convert "$oss" --dry-run --json -q -o x "$@" | jq -r '[.tensors[] | select(.name | endswith("_exps.weight")) | .type] | unique | join(" ")'; }
check_equal "MXFP4 stays MXFP4 whatever the type asked for" "mxfp4 mxfp4 mxfp4" "$(types --outtype f32) $(types --outtype q4_0) $(types)"
check_equal "but for --keep" "f16 mxfp4" "$(types --outtype q4_0 --keep ffn_down_exps=f16)"
mkdir scales && cp "$oss"/*.json "$oss/model.safetensors" scales/
chmod u+w scales/*
n=$(od -An -tu8 -N8 scales/model.safetensors | tr -d ' ')
start=$(tail -c +9 "$oss/model.safetensors" | head -c "$n" | jq '.["model.layers.1.mlp.experts.down_proj_scales"].data_offsets[0]')
printf '\xff' | dd of=scales/model.safetensors bs=1 seek=$((8 + n + start + 3)) conv=notrunc status=none
check_status "a scale of NaN is refused" 1 \
    "'blk.1.ffn_down_exps.weight' \(model.layers.1.mlp.experts.down_proj_blocks\), row 1, element 32 is nan" \
    "$ferry" convert scales -o no.gguf
jq 'del(.quantization_config)' "$oss/config.json" >scales/config.json
check_status "MXFP4 has to be declared" 1 'down_proj_blocks is of type U8, which ferry does not convert without a quantization_config of method mxfp4' \
    "$ferry" convert scales -o no.gguf
check "nothing was left behind" bash -c "! ls no.gguf* 2>/dev/null | grep ."
finish
