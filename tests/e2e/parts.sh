#!/usr/bin/env bash
# Work in parts: convert and quantize with --part and --finish write the file of one process, byte for byte, in any order,
# twice, and through kills; equal work for parts of a large model; and what is refused. FERRY_SEED chooses the moments.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

RANDOM=${FERRY_SEED:-26}
make_gguf=build/host/release/tests/bench/make_gguf
convert() { "$FERRY" convert tests/data/tales --outtype "$1" -t 1 -q "${@:2}"; }

# --- the same bytes -------------------------------------------------------------------------------------------------
for type in q8_0 q4_K_M; do
    convert $type -o "$TMP/want.gguf"
    for n in 1 2 7 64; do
        for i in $(seq $n | shuf --random-source=tests/data/held.txt) 1; do
            convert $type -o "$TMP/m.gguf" --part "$i/$n" || not_ok "part $i of $n"
        done
        check "convert to $type in $n parts: no file before the end" test ! -e "$TMP/m.gguf"
        check "the end" convert $type -o "$TMP/m.gguf" --finish $n
        check "the bytes of one process" cmp "$TMP/want.gguf" "$TMP/m.gguf"
        rm -f "$TMP/m.gguf"
    done
done
check_equal "nothing else is left" want.gguf "$(cd "$TMP" && echo *gguf*)"
convert f16 -o "$TMP/f16.gguf"
"$FERRY" quantize "$TMP/f16.gguf" "$TMP/want.gguf" q5_K -q
for i in 3 1 2; do
    SLURM_ARRAY_TASK_ID=$i "$FERRY" quantize "$TMP/f16.gguf" "$TMP/m.gguf" q5_K -q --part auto/3
done
check "quantize in the parts of an array job" "$FERRY" quantize "$TMP/f16.gguf" "$TMP/m.gguf" q5_K -q --finish 3
check "the bytes of one process" cmp "$TMP/want.gguf" "$TMP/m.gguf"
check "the end again" "$FERRY" quantize "$TMP/f16.gguf" "$TMP/m.gguf" q5_K -q --finish 3
rm "$TMP/m.gguf"
convert q8_0 --split-max-size 1M -o "$TMP/s.gguf"
mkdir "$TMP/split"
for i in 2 1; do convert q8_0 --split-max-size 1M -o "$TMP/split/s.gguf" --part $i/2; done
check "files of a split model" convert q8_0 --split-max-size 1M -o "$TMP/split/s.gguf" --finish 2
for f in "$TMP"/s-*; do cmp -s "$f" "$TMP/split/${f##*/}" || not_ok "${f##*/} differs"; done
check_equal "all of them" "$(cd "$TMP" && ls s-*)" "$(ls "$TMP/split")"

# two parts at once, one thread each
for i in 1 2; do convert q4_0 -o "$TMP/m.gguf" --part $i/2 & pids[i]=$!; done
wait "${pids[1]}" && wait "${pids[2]}"
check_equal "two parts at once" 0 $?
convert q4_0 -o "$TMP/want.gguf"
convert q4_0 -o "$TMP/m.gguf" --finish 2
check "the bytes of one process" cmp "$TMP/want.gguf" "$TMP/m.gguf"
rm "$TMP/m.gguf"

# --- what is missing, or of other work ------------------------------------------------------------------------------
out=$TMP/a\ b.gguf
convert q8_0 -o "$out" --part 2/3
check_status "a part that is missing is named with its command" 4 \
    "2 of 3 parts are missing; part 1 is not there: make it with '.*ferry convert tests/data/tales --outtype q8_0 -t 1 -q -o '.*a b.gguf' --part 1/3'" \
    convert q8_0 -o "$out" --finish 3
check_status "other options are other work" 2 'is of other work' convert q8_0 --fit -o "$out" --part 1/3
cp "$FERRY" "$TMP/ferry2" && printf 'x' >>"$TMP/ferry2"
check_status "another program, too" 2 'is of other work' "$TMP/ferry2" convert tests/data/tales --outtype q8_0 -o "$out" -q --part 1/3
cp "$FERRY" "$TMP/ferry3"
check "a copy of the program is the same one" "$TMP/ferry3" convert tests/data/tales --outtype q8_0 -o "$out" -q --part 1/3
cp -r tests/data/tales "$TMP/copy"
check "and a copy of the checkpoint the same checkpoint" "$FERRY" convert "$TMP/copy" --outtype q8_0 --model-name tales -o "$TMP/c.gguf" -q --part 1/1
rm -f "$out.part"
check_status "parts of a file that is lost are no parts of another" 4 'parts make it|is not there|is of other work' convert q8_0 -o "$out" --finish 3
for bad in 0/3 4/3 1/0 x/3 1/3/4 1/65536 3; do
    check_status "--part $bad" 2 'expected I/N' convert q8_0 -o "$TMP/b.gguf" --part $bad
done
check_status "auto without an array job" 2 'the environment names no part' convert q8_0 -o "$TMP/b.gguf" --part auto/4
check_status "auto beyond its parts" 2 "SLURM_ARRAY_TASK_ID is '5', expected 1 to 4" \
    env SLURM_ARRAY_TASK_ID=5 "$FERRY" convert tests/data/tales -o "$TMP/b.gguf" -q --part auto/4
check_status "both at once" 2 'expected one of them' convert q8_0 -o "$TMP/b.gguf" --part 1/2 --finish 2
check_equal "nothing was begun" "" "$(ls "$TMP"/b.gguf* 2>/dev/null)"

# --- equal work -----------------------------------------------------------------------------------------------------
# A checkpoint of 140 GB whose weights take no space: a header, and a hole after it.
mkdir "$TMP/70b"
cp tests/data/tales/tokenizer*.json "$TMP/70b"
jq -n '{architectures: ["LlamaForCausalLM"], model_type: "llama", hidden_size: 8192, num_hidden_layers: 80, intermediate_size: 28672,
    num_attention_heads: 64, num_key_value_heads: 8, vocab_size: 128256, rms_norm_eps: 1e-5, max_position_embeddings: 8192,
    torch_dtype: "bfloat16"}' >"$TMP/70b/config.json"
jq -nc 'def t($n; $s): {n: $n, s: $s};
    [t("model.embed_tokens.weight"; [128256, 8192]),
     (range(80) | "model.layers.\(.)." as $l |
        t($l + "input_layernorm.weight"; [8192]), t($l + "post_attention_layernorm.weight"; [8192]),
        t($l + "self_attn.q_proj.weight"; [8192, 8192]), t($l + "self_attn.k_proj.weight"; [1024, 8192]),
        t($l + "self_attn.v_proj.weight"; [1024, 8192]), t($l + "self_attn.o_proj.weight"; [8192, 8192]),
        t($l + "mlp.gate_proj.weight"; [28672, 8192]), t($l + "mlp.up_proj.weight"; [28672, 8192]),
        t($l + "mlp.down_proj.weight"; [8192, 28672])),
     t("model.norm.weight"; [8192]), t("lm_head.weight"; [128256, 8192])]
    | reduce .[] as $t ({at: 0, h: {}}; (2 * ($t.s | reduce .[] as $d (1; . * $d))) as $n |
        .h[$t.n] = {dtype: "BF16", shape: $t.s, data_offsets: [.at, .at + $n]} | .at += $n)
    | .at, .h' >"$TMP/70b/header"
{ read -r bytes; read -r header; } <"$TMP/70b/header"
rm "$TMP/70b/header"
{
    for ((i = 0; i < 8; i++)); do printf '%b' "\\x$(printf %02x $((${#header} >> (8 * i) & 255)))"; done
    printf %s "$header"
} >"$TMP/70b/model.safetensors"
truncate -s $((8 + ${#header} + bytes)) "$TMP/70b/model.safetensors"
"$FERRY" convert "$TMP/70b" --outtype q4_0 --part 1/64 --dry-run -o "$TMP/l.gguf" >"$TMP/plan" 2>"$TMP/log" || cat "$TMP/log"
share=$(sed -n 's/.*: \([0-9.]*\) of that$/\1/p' "$TMP/plan")
check "64 parts of a 70B model: the largest does ${share:-?} of the mean" jq -en "${share:-9} <= 1.03"
check "and how long they take at once" grep -qE '^all at once about [0-9.]+ s, one after the other [0-9.]+ s$' "$TMP/plan"
"$FERRY" quantize "$TMP/f16.gguf" "$TMP/l.gguf" q4_0 -q --part 1/64 --dry-run >"$TMP/plan"
check "of quantize, too" grep -qE '^all at once about [0-9.]+ s, one after the other [0-9.]+ s$' "$TMP/plan"

# --- kills ----------------------------------------------------------------------------------------------------------
source=$TMP/k16.gguf
check "a file of 50 MB" $make_gguf "$source" --type f16 --layers 2 --embd 1024 --ff 3072 --heads 16 --heads-kv 4 --vocab 4096
"$FERRY" quantize "$source" "$TMP/want.gguf" q8_0 -t 2 -q
want=$(sha256sum <"$TMP/want.gguf")
soak 10 100
kills=0 wrong=0 done_twice=0
while [ $kills -lt "$rounds" ]; do
    for work in "--part 1/3" "--part 2/3" "--part 3/3" "--finish 3"; do
        while :; do
            # shellcheck disable=SC2086
            "$FERRY" quantize "$source" "$TMP/k.gguf" q8_0 -t 1 -q $work 2>/dev/null &
            pid=$!
            [ $((RANDOM % 2)) = 0 ] || sleep "0.0$((RANDOM % 9))"
            kill -KILL $pid 2>/dev/null
            wait $pid 2>/dev/null
            status=$?
            [ $status = 137 ] || break
            kills=$((kills + 1))
            [ $((kills % 4)) != 0 ] || break
        done
        # shellcheck disable=SC2086
        [ $status = 0 ] || "$FERRY" quantize "$source" "$TMP/k.gguf" q8_0 -t 1 -q $work || done_twice=$((done_twice + 1))
    done
    [ "$(sha256sum <"$TMP/k.gguf")" = "$want" ] || wrong=$((wrong + 1))
    rm -f "$TMP/k.gguf"
done
check_equal "$rounds kills or more, of parts and of the end: files that differ, commands that failed" "0 0" "$wrong $done_twice"
check_equal "and nothing is left" "" "$(ls "$TMP"/k.gguf* 2>/dev/null)"
finish
