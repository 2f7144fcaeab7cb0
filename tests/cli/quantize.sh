#!/usr/bin/env bash
# ferry quantize: types by option, recipes, the plan, requantizing, splits.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

f16=$TMP/f16.gguf made=$TMP/made.gguf
check "a file to quantize" "$FERRY" convert tests/data/tales --outtype f16 -q -o "$f16"
types() { # FILE NAME...
    local file=$1 name
    shift
    for name in "$@"; do
        "$FERRY" inspect "$file" --json | jq -r --arg n "$name.weight" '.tensors[] | select(.name == $n).type'
    done | paste -sd' '
}
key() { "$FERRY" inspect "$1" --json | jq -c ".metadata[\"$2\"]"; }
quantize() { "$FERRY" quantize "$f16" "$made" "$@"; }

# --- types ----------------------------------------------------------------------------------------------------------
check "the pure recipe is the default" quantize q4_0 -q
cp "$made" "$TMP/pure.gguf"
check "--pure says the same" quantize q4_0 --pure -q
check "and makes the same file" cmp "$made" "$TMP/pure.gguf"
check_status "it is not llama's" 2 '--pure and --recipe llama: expected one' quantize q4_0 --pure --recipe llama
quantize q4_0 -q --tensor-type 'attn_[kv]=q8_0' --tensor-type 'blk\.0\.=f16' --token-embedding-type q6_K
check_equal "the first pattern counts, the embedding's option before any" "q6_K q8_0 f16 q4_0" \
    "$(types "$made" token_embd blk.0.attn_v blk.0.attn_q blk.1.attn_q)"
check_equal "what they do not name is as without" "$("$FERRY" inspect "$TMP/pure.gguf" --hash --json 2>/dev/null | jq -c '.tensors[] | select(.name == "blk.1.ffn_up.weight") | .sha256')" \
    "$("$FERRY" inspect "$made" --hash --json 2>/dev/null | jq -c '.tensors[] | select(.name == "blk.1.ffn_up.weight") | .sha256')"
check_status "a pattern for nothing" 2 '--tensor-type nothing=q8_0: no matrix' quantize q4_0 --tensor-type nothing=q8_0
check_status "one of a norm alone" 2 'no matrix' quantize q4_0 --tensor-type _norm=f16
check_status "no type" 2 'the type is none of f32' quantize q4_0 --tensor-type a=iq2_s
check_status "a type of an output that is not there" 2 'name its type with --token-embedding-type' \
    quantize q4_0 --output-tensor-type q8_0
quantize q4_0 -q --recipe llama --output-tensor-type q8_0
check_equal "in llama's recipe the embedding is the output" "q8_0" "$(types "$made" token_embd)"
quantize q4_K -q --recipe llama
check_equal "a mixture" "q6_K q6_K q4_K q6_K q4_K" "$(types "$made" token_embd blk.3.attn_v blk.0.attn_v blk.2.ffn_down blk.1.ffn_down)"
check_equal "is of file type Q4_K_M" 15 "$(key "$made" general.file_type)"
cp "$made" "$TMP/q4_K_M.gguf"
check "llama-quantize's name says the same, in any case" quantize Q4_K_M -q
check "and makes the same file" cmp "$made" "$TMP/q4_K_M.gguf"
check "its smaller mixture" quantize q4_k_s -q
check_equal "has others" "q6_K q5_K q4_K" "$(types "$made" token_embd blk.3.attn_v blk.1.ffn_down)"
check_equal "and is of file type Q4_K_S" 14 "$(key "$made" general.file_type)"
check "so is Q6_K any case" quantize Q6_K -q
check_status "a mixture is not pure" 2 'TYPE: q5_K_M is a mixture of types, which --recipe llama makes; pure: q5_K' quantize Q5_K_M --pure
check "Q3_K_M" quantize Q3_K_M -q
check_equal "has others" "q6_K q5_K q4_K q4_K 12" "$(types "$made" token_embd blk.1.attn_v blk.2.attn_v blk.3.ffn_down) $(key "$made" general.file_type)"
check "mxfp4" quantize mxfp4 -q
check_equal "is of one type" "mxfp4 mxfp4 38" "$(types "$made" token_embd blk.1.attn_v) $(key "$made" general.file_type)"
check "what is written runs" "$FERRY" run -m "$made" -p 'Once upon' -n 4 --temp 0 -q
check_status "a type that cannot be written" 2 "TYPE: 'IQ3_M' cannot be written yet; the smallest" quantize IQ3_M
check_status "nor in a conversion" 2 "--outtype: 'IQ4_XS' cannot be written yet" "$FERRY" convert tests/data/tales --outtype IQ4_XS
check_status "nor on the way to a workspace" 2 "--outtype: 'TQ1_0' cannot be written yet" "$FERRY" create tests/data/tales --outtype TQ1_0 -o "$TMP/w"
check_status "nor to a phone" 2 "--outtype: 'TQ1_0' cannot be written yet" "$FERRY" up tests/data/tales --outtype TQ1_0
check "convert takes mixtures" "$FERRY" convert tests/data/tales --outtype Q4_K_M -q -o "$TMP/{FTYPE}.gguf"
check_equal "and names them" "q6_K q4_K 15" "$(types "$TMP/Q4_K_M.gguf" token_embd blk.0.attn_v) $(key "$TMP/Q4_K_M.gguf" general.file_type)"
check_status "but not for a part of a model" 2 '--outtype q4_K_M is a mixture for a whole model' \
    "$FERRY" convert tests/data/tales --embedding-only --outtype Q4_K_M -o "$made"
check "an option for a type takes any case, too" quantize Q4_0 --token-embedding-type Q6_K --tensor-type attn_k=Q8_0 -q
check_equal "and means it" "q6_K q8_0 q4_0" "$(types "$made" token_embd blk.0.attn_k blk.0.attn_q)"
quantize q4_K -q
check_equal "all alike it is Q4_K_S" 14 "$(key "$made" general.file_type)"

# --- the plan -------------------------------------------------------------------------------------------------------
rm -f "$made"
quantize q4_K --recipe llama --tensor-type attn_q=q8_0 --dry-run >"$TMP/plan" 2>"$TMP/words"
check "a dry run writes nothing" test ! -e "$made"
check_equal "it has a line for each tensor, a head and an end" \
    $(($("$FERRY" inspect "$f16" --json | jq '.tensors | length') + 2)) "$(wc -l <"$TMP/plan")"
check_equal "a type by the recipe" "token_embd.weight f16 q6_K 161280 by the recipe" "$(sed -n 2p "$TMP/plan" | tr -s ' ')"
check "one by an option" grep -qE '^blk.0.attn_q.weight +f16 +q8_0 +[0-9]+  by an option$' "$TMP/plan"
check "one as asked for" grep -qE '^blk.0.attn_output.weight +f16 +q4_K +[0-9]+$' "$TMP/plan"
check "one that stays" grep -qE '^output_norm.weight +f32 +f32 +1024$' "$TMP/plan"
check "it fits on a terminal" test "$(sed '$d' "$TMP/plan" | wc -L)" -le 80
quantize q4_K --recipe llama --dry-run --json >"$TMP/plan.json" 2>/dev/null
quantize q4_K --recipe llama --json >"$TMP/done.json" 2>/dev/null
check_equal "the JSON plan is what is written" "$("$FERRY" inspect "$made" --json | jq -c '[.tensors[] | [.name, .type, .bytes]]')" \
    "$(jq -c '[.tensors[] | [.name, .type, .bytes]]' "$TMP/plan.json")"
check_equal "so are its bytes" "$(stat -c %s "$made")" "$(jq .file_bytes "$TMP/plan.json")"
check_equal "a dry run knows the space, the work the time" '[true,true] [false,true]' \
    "$(jq -c '[.dry_run, .fits]' "$TMP/plan.json") $(jq -c '[.dry_run, .seconds >= 0]' "$TMP/done.json")"
check_equal "the reasons" '["asked","kept","recipe"]' "$(jq -c '[.tensors[].why] | unique' "$TMP/plan.json")"

check_status "a dry run has nothing to report" 2 '--report measures what --dry-run does not' quantize q4_0 --dry-run --report -
check_status "one thing on standard output" 2 '--json and --report -: expected one' quantize q4_0 --json --report -
check "both, one of them in a file" quantize q4_0 --json --report "$TMP/report.json" -q
check "the report is there" jq -e '.total.sqnr_db > 10' "$TMP/report.json"

# --- quantized inputs -----------------------------------------------------------------------------------------------
check_status "a quantized file is refused" 1 "q4_0 already: .*--allow-requantize" "$FERRY" quantize "$TMP/pure.gguf" "$made" q8_0
check_status "unless it is asked for, with a warning" 0 '29 matrices are quantized a second time \(29 q4_0\)' \
    "$FERRY" quantize "$TMP/pure.gguf" "$made" q8_0 --allow-requantize
"$FERRY" quantize "$TMP/pure.gguf" "$TMP/wide.gguf" f32 -q
"$FERRY" quantize "$TMP/wide.gguf" "$TMP/wide8.gguf" q8_0 -q
check_equal "which goes through f32" "$("$FERRY" inspect "$TMP/wide8.gguf" --hash --json 2>/dev/null | jq -c '[.tensors[] | select(.type == "q8_0") | .sha256]')" \
    "$("$FERRY" inspect "$made" --hash --json 2>/dev/null | jq -c '[.tensors[] | select(.type == "q8_0") | .sha256]')"
"$FERRY" quantize "$TMP/pure.gguf" "$made" q4_0 --allow-requantize 2>"$TMP/words"
check "what has the type is copied" cmp "$made" "$TMP/pure.gguf"
check_equal "without a warning" 0 "$(grep -c second "$TMP/words")"

# --- splits ---------------------------------------------------------------------------------------------------------
mkdir "$TMP/split"
check "splits are written" "$FERRY" quantize "$f16" "$TMP/split/m.gguf" q4_0 --split-max-size 400K -q
first=("$TMP"/split/m-00001-of-*.gguf)
check "there are some" test -e "${first[0]}" -a "$(find "$TMP/split" -type f | wc -l)" -gt 2
check "splits are read" "$FERRY" quantize "${first[0]}" "$made" q4_0 -q
check "and are the one file again" cmp "$made" "$TMP/pure.gguf"
check_status "none of them may be the output" 2 'is the input' "$FERRY" quantize "${first[0]}" "$TMP/split/m.gguf" q4_0 --split-max-size 400K
check_status "no size" 2 '--split-max-size 1X: expected a size' quantize q4_0 --split-max-size 1X
finish
