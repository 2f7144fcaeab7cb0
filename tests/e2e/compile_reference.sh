#!/usr/bin/env bash
# The demo model, compiled with the reference library: whole directories, weights that are shared, and runs that are
# killed and go on. FERRY_SEED chooses the moments.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT

RANDOM=${FERRY_SEED:-8}
m=$TMP/m.gguf
check "a model" "$FERRY" convert tests/data/tales --outtype f16 -q -o "$m"
for batch in 32,1 32; do
    check "cut in three for $batch" "$FERRY" chunk "$m" --soc SM8650 --recipe fp16a8w --chunks 3 -c 160 --batch $batch -q -o "$TMP/cut-$batch"
done
cut=$TMP/cut-32,1
compile() { "$FERRY" compile --sdk reference "$@"; }
hashes() { (cd "$1" && find . -type f | sort | xargs sha256sum); }

# --- a directory ------------------------------------------------------------------------------------------------------
out=$TMP/out
check "it is compiled" compile "$cut" -q -o "$out"
check_equal "into these files" "ggml/weights.gguf qnn/canary.json qnn/chunk_0.bin qnn/chunk_0.json qnn/chunk_1.bin qnn/chunk_1.json qnn/chunk_2.bin qnn/chunk_2.json qnn/config.json qnn/lm_head.bin qnn/lm_head.json" \
    "$(cd "$out" && find . -type f -not -path '*/kv/*' | sort | sed 's,^\./,,' | tr '\n' ' ' | sed 's/ $//')"
check "the weights for the CPU are those of the cut" cmp "$cut/ggml/weights.gguf" "$out/ggml/weights.gguf"
check_equal "config.json names the binaries" "chunk_0.bin chunk_1.bin chunk_2.bin lm_head.bin" \
    "$(jq -r '[.graphs[], .embeddings[] | .model_path] | unique | join(" ")' "$out/qnn/config.json")"
check_equal "and nothing else of the cut's is changed" "$(jq -c 'del(.. | .model_path?) | del(.ferry)' "$cut/qnn/config.json")" \
    "$(jq -c 'del(.. | .model_path?) | del(.ferry)' "$out/qnn/config.json")"
check_equal "its stamp" '{"soc":"SM8650","arch":75,"vtcm_mb":8,"recipe":"fp16a8w","kv":"f16","mask":"f16"}' \
    "$(jq -c '.ferry.compiled | del(.build_id)' "$out/qnn/config.json")"
for name in chunk_0 chunk_1 chunk_2 lm_head; do
    check_equal "$name.json has the hash" "$(sha256sum <"$out/qnn/$name.bin" | cut -d' ' -f1)" "$(jq -r .binary.sha256 "$out/qnn/$name.json")"
    check_equal "$name.json has both graphs" "batch_32 batch_1" "$(jq -r '[.graphs[].name] | join(" ")' "$out/qnn/$name.json")"
done
check_equal "the ids of a context are different" true \
    "$(jq '[.graphs[].tensors[].id] | length == (unique | length)' "$out/qnn/chunk_0.json")"
check "one batch size" compile "$TMP/cut-32" -q -o "$TMP/one"
for name in chunk_0 lm_head; do
    one=$(stat -c %s "$TMP/one/qnn/$name.bin") two=$(stat -c %s "$out/qnn/$name.bin")
    check "$name: two batch sizes take at most 1.05 times one ($one, $two)" test $((two * 100)) -le $((one * 105))
done

# --- fixed numbers ----------------------------------------------------------------------------------------------------
fixed() { compile "$cut" --recipe "$1" --calibration tests/data/held.txt -o "$2"; }
for recipe in 16a8w 16a4w lpbq-32 powerserve; do
    check "$recipe, calibrated" fixed $recipe "$TMP/$recipe"
done
check_equal "2,048 tokens were seen" 2048 "$(jq .tokens "$TMP/16a8w/qnn/ranges.json")"
check "the weights of attention are [0, 1] in no range of their own" jq -e '.ranges | has("L0.h0.score") and (has("L0.h0.weights") | not)' "$TMP/16a8w/qnn/ranges.json"
check_equal "its stamp" u8,u16 "$(jq -r '.ferry.compiled | .kv + "," + .mask' "$TMP/16a8w/qnn/config.json")"
cp -r "$TMP/16a8w" "$TMP/again"
rm "$TMP/again/qnn/ranges.json"
check "on one processor" taskset -c 0 "$FERRY" compile --sdk reference "$cut" --recipe 16a8w --calibration tests/data/held.txt -q -o "$TMP/again"
check_equal "the bytes are the same" "$(hashes "$TMP/16a8w")" "$(hashes "$TMP/again")"
check "the ranges serve again" compile "$cut" --recipe 16a8w --ranges "$TMP/again/qnn/ranges.json" -q -o "$TMP/given"
check_equal "with the same binaries" "$(cd "$TMP/again/qnn" && sha256sum ./*.bin)" "$(cd "$TMP/given/qnn" && sha256sum ./*.bin)"
compile "$cut" --recipe 16a8w -o "$TMP/again" 2>"$TMP/err"
check_equal "ranges that are there make nothing again" 4 "$(grep -c ': is there already$' "$TMP/err")"
jq '.ranges["L0.h0.score"] = [2, 1, 0, 0]' "$TMP/again/qnn/ranges.json" >"$TMP/bad.json"
check_status "a range from high to low is refused" 1 "bad.json: .*'L0.h0.score': from 2 to 1, expected the smaller number first" \
    compile "$cut" --recipe 16a8w --ranges "$TMP/bad.json" -o "$TMP/bad"
echo "a short text" >"$TMP/short.txt"
cp "$TMP/given/qnn/config.json" "$TMP/whole.json"
check_status "ranges that are missing" 2 "need ranges: --calibration TEXT" compile "$cut" --recipe 16a8w -o "$out"
check_status "bad ranges for a model that is whole" 1 "the smaller number first" compile "$cut" --recipe 16a8w --ranges "$TMP/bad.json" -o "$TMP/given"
check "leave it whole" cmp "$TMP/whole.json" "$TMP/given/qnn/config.json"
check "and that one too" test -e "$out/qnn/config.json"
check_status "a text shorter than a batch is refused" 2 'short.txt: has [0-9]+ tokens, calibration wants 32 at least' \
    compile "$cut" --recipe 16a8w --calibration "$TMP/short.txt" -o "$TMP/bad"

# --- other calibrations -----------------------------------------------------------------------------------------------
by() { compile "$cut" --recipe 16a8w --only lm_head -q --calibration "$@"; }
ranges() { sha256sum <"$1/qnn/ranges.json"; }
check "the model writes its own text" by self -o "$TMP/self"
check_equal "of 2,048 tokens" 2048 "$(jq .tokens "$TMP/self/qnn/ranges.json")"
check "and again on one thread" by self -t 1 -o "$TMP/self-1"
check_equal "the same text" "$(ranges "$TMP/self")" "$(ranges "$TMP/self-1")"
head -c 4000 tests/data/held.txt | jq -R '{text: .}' -c >"$TMP/text.jsonl"
jq -c '{note: [1], prompt: .text}' "$TMP/text.jsonl" >"$TMP/prompts.jsonl"
echo >>"$TMP/prompts.jsonl"
check "texts in lines of JSON" by "$TMP/text.jsonl" -o "$TMP/text"
check "prompts, and a blank line" by "$TMP/prompts.jsonl" -o "$TMP/prompts"
check_equal "are the same" "$(ranges "$TMP/text")" "$(ranges "$TMP/prompts")"
jq -c '{messages: [{role: "user", content: .text}]}' "$TMP/text.jsonl" >"$TMP/chat.jsonl"
check "conversations, by the model's template" by "$TMP/chat.jsonl" -o "$TMP/chat"
check "which are longer" test "$(jq .tokens "$TMP/chat/qnn/ranges.json")" -gt "$(jq .tokens "$TMP/text/qnn/ranges.json")"
lines() { # LINE MESSAGE
    printf '{"text": "a"}\n%s\n' "$1" >"$TMP/bad.jsonl"
    check_status "a line of ${1:-nothing}: $2" 1 "bad.jsonl: line 2: .*$2" by "$TMP/bad.jsonl" -o "$TMP/bad"
}
lines '{"prompt": 1}' "expected"
lines '{"note": 1}' 'has none of "text", "prompt" and "messages"'
lines '{"prompt": "a", "text": "b"}' 'expected one of'
lines '{"prompt": "a"} x' "line 1, column"
lines '[1]' "expected"

# --- scales by their outputs ------------------------------------------------------------------------------------------
tried() { compile "$cut" --recipe 16a4w --seq-mse 8 "$@"; }
check "scales are tried on inputs" tried --calibration tests/data/held.txt -q -o "$TMP/tried" --report "$TMP/tried.json"
check "which calibration kept" test -s "$TMP/tried/qnn/inputs.gguf"
check_equal "the ranges are the same" "$(sha256sum <"$TMP/16a4w/qnn/ranges.json")" "$(sha256sum <"$TMP/tried/qnn/ranges.json")"
check "the binary is not" test "$(sha256sum <"$TMP/16a4w/qnn/chunk_0.bin")" != "$(sha256sum <"$TMP/tried/qnn/chunk_0.bin")"
check "the report has what outputs lose" jq -e '.seq_mse == 8 and (.chunks[0].outputs_sqnr_db > 15) and (.chunks[-1] | has("outputs_sqnr_db") | not)' "$TMP/tried.json"
check "on one processor" taskset -c 0 "$FERRY" compile --sdk reference "$cut" --recipe 16a4w --seq-mse 8 --calibration tests/data/held.txt -q -o "$TMP/tried-1"
check_equal "the bytes of that are the same" "$(hashes "$TMP/tried")" "$(hashes "$TMP/tried-1")"
tried -o "$TMP/tried" 2>"$TMP/err"
check_equal "what is there is kept with the same inputs" 4 "$(grep -c ': is there already$' "$TMP/err")"
check "a recipe of floats tries them as well" compile "$cut" --recipe fp16a4w --seq-mse 8 --ranges "$TMP/tried/qnn/ranges.json" -q -o "$TMP/tried-float"
check_status "inputs that were not kept" 2 "inputs.gguf: is not there; --seq-mse tries scales on inputs" \
    tried --ranges "$TMP/16a4w/qnn/ranges.json" -o "$TMP/bad"
check_status "no calibration at all" 2 "recipe fp16a4w and --seq-mse together need ranges" \
    compile "$cut" --recipe fp16a4w --seq-mse 8 -o "$TMP/none"
head -c 3000 "$TMP/tried/qnn/inputs.gguf" >"$TMP/inputs.gguf"
cp "$TMP/tried/qnn/ranges.json" "$TMP/ranges.json"
check_status "inputs that were cut off" 1 "inputs.gguf" tried --ranges "$TMP/ranges.json" -o "$TMP/bad"

# --- again ------------------------------------------------------------------------------------------------------------
want=$(hashes "$out")
compile "$cut" -o "$out" 2>"$TMP/err"
check_equal "what is there is kept" 4 "$(grep -c ': is there already$' "$TMP/err")"
printf x >>"$out/qnn/chunk_1.bin"
rm "$out/qnn/lm_head.json"
compile "$cut" -o "$out" 2>"$TMP/err"
check_equal "what was changed or removed is made again" 2 "$(grep -c ': is there already$' "$TMP/err")"
check_equal "to the same bytes" "$want" "$(hashes "$out")"
compile "$cut" --recipe fp16 -o "$out" 2>"$TMP/err"
check_equal "another recipe keeps nothing" 0 "$(grep -c ': is there already$' "$TMP/err")"
check "a part on this machine" compile "$cut" --only chunk_0 -q -o "$TMP/parts"
check "is not a model yet" test ! -e "$TMP/parts/qnn/config.json"
for name in chunk_1 chunk_2 lm_head; do
    compile "$cut" --only $name -q -o "$TMP/$name"
    cp "$TMP/$name"/qnn/* "$TMP/parts/qnn/"
done
compile "$cut" -o "$TMP/parts" 2>"$TMP/err"
check_equal "parts of several machines are kept" 4 "$(grep -c ': is there already$' "$TMP/err")"
check_equal "and are the model" "$want" "$(hashes "$TMP/parts")"

# --- killed -----------------------------------------------------------------------------------------------------------
soak 8 100
begin=$(date +%s%N)
compile "$cut" -q -o "$TMP/timed"
took=$((($(date +%s%N) - begin) / 1000))
wrong=0 kills=0
for ((i = 0; i < rounds; i++)); do
    d=$TMP/killed
    for ((k = 0; k < 3; k++)); do
        "$FERRY" compile --sdk reference "$cut" -q -o "$d" 2>/dev/null &
        pid=$!
        sleep "$(printf '0.%06d' $((RANDOM * 32768 % took + RANDOM % 1000)))"
        kill -KILL $pid 2>/dev/null && kills=$((kills + 1))
        wait $pid 2>/dev/null
    done
    compile "$cut" -q -o "$d" || wrong=$((wrong + 1))
    [ "$(hashes "$d")" = "$want" ] || wrong=$((wrong + 1))
    rm -rf "$d"
done
echo "# $kills kills"
check_equal "a run that is killed goes on to the same bytes" 0 "$wrong"
check "some were killed" test "$kills" -gt 0
finish
