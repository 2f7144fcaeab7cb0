#!/usr/bin/env bash
# The canary of a compiled model: it passes on a library that computes the model, is asked once, and refuses models that
# were damaged in silence after it was made: a row of a matrix, two heads that are swapped, a scale, the encoding of
# another tensor. Whatever moves the predictions on a text by more than its bound is refused.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT

m=$TMP/m.gguf cut=$TMP/cut d=$TMP/d
qnn=(--backend qnn --qnn-lib reference)
check "a model" "$FERRY" convert tests/data/tales --outtype f32 -q -o "$m"
check "its cut" "$FERRY" chunk "$m" --soc SM8650 --recipe 16a8w --chunks 2 -c 576 --batch 64,1 -q -o "$cut"
for seed in {1..8}; do
    echo "Once upon a time$("$FERRY" run -m "$m" -p 'Once upon a time' -n 300 --temp 1 --seed "$seed" -q)"
done >"$TMP/own.txt"
check "compiled" "$FERRY" compile "$cut" --sdk reference --calibration "$TMP/own.txt" -q -o "$d"
check_equal "16 positions of 48 tokens" '[48,16,32]' "$(jq -c '[(.ids | length), (.top | length), (.top[0].ids | length)]' "$d/qnn/canary.json")"

# --- when it is asked -------------------------------------------------------------------------------------------------
asked() { "$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 1 -v "$@" 2>&1 >/dev/null | grep -c 'canary: KL'; }
kl=$("$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 1 -v 2>&1 | sed -n 's/.*canary: KL divergence \([^,]*\), .* about \(.*\)/\1 \2/p')
check "the library's answers are as far from the model as the CPU's that rounds: ${kl/ / and }" \
    awk -v kl="$kl" 'BEGIN { split(kl, x, " "); exit !(x[1] > 0 && x[2] > 0 && x[1] < 2 * x[2] && x[2] < 2 * x[1]) }'
check_equal "it is asked once" 0 "$(asked)"
check_equal "always when it is wanted" 1 "$(asked --canary always)"
touch "$d/qnn/chunk_0.bin"
check_equal "and when a binary may be another" 1 "$(asked)"
cp -a "$d" "$TMP/changed"
poke() { printf x | dd of="$TMP/changed/qnn/chunk_0.bin" bs=1 seek=1000 conv=notrunc status=none; }
again() { "$FERRY" run -m "$TMP/changed" "${qnn[@]}" -p Once -n 1 -q "$@"; }
check "another directory is asked again" again
cp -p "$TMP/changed/qnn/chunk_0.bin" "$TMP/time" && poke
check_status "a binary that changed is hashed again" 4 'chunk_0.bin: has SHA-256 ' again
touch -r "$TMP/time" "$TMP/changed/qnn/chunk_0.bin"
check_status "--canary always hashes it in any case" 4 'chunk_0.bin: has SHA-256 ' again --canary always
check_equal "selftest asks each time" 1 "$(FERRY_QNN_SDK=build/host/release/qnn "$FERRY" selftest -m "$d" --quick -v 2>&1 >/dev/null | grep -c "canary: KL")"
check_status "--canary off is said" 0 'what the NPU computes is not checked' "$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 1 --canary off
mv "$d/qnn/canary.json" "$TMP/canary"
check_status "one that is missing, too" 0 'has no canary.json, so what the NPU computes is not checked' "$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 1
sed 's/"kl": [^,]*/"kl": 1e999/' "$TMP/canary" >"$d/qnn/canary.json"
check_status "a broken one is refused" 1 'canary.json: ' "$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 1
sed 's/"model": "..../"model": "----/' "$TMP/canary" >"$d/qnn/canary.json"
check_status "that of another model, too" 1 'canary.json: is of model ----' "$FERRY" run -m "$d" "${qnn[@]}" -p Once -n 1
cp "$TMP/canary" "$d/qnn/canary.json"

# --- small batches ----------------------------------------------------------------------------------------------------
# The forecast rounds all tokens that the library computes, whatever their number: a model that is right is not refused.
for batch in 1 4; do
    check "a cut of batch $batch" "$FERRY" chunk "$m" --soc SM8650 --recipe 16a4w --chunks 2 -c 160 --batch $batch -q -o "$TMP/cut-$batch"
    check "compiled" "$FERRY" compile "$TMP/cut-$batch" --sdk reference --calibration "$TMP/own.txt" -q -o "$TMP/d-$batch"
    kl=$("$FERRY" run -m "$TMP/d-$batch" "${qnn[@]}" -p Once -n 1 -v 2>&1 | sed -n 's/.*canary: KL divergence \([^,]*\), .* about \(.*\)/\1 \2/p')
    check "is as far from the model as forecast: ${kl/ / and }" \
        awk -v kl="$kl" 'BEGIN { split(kl, x, " "); exit !(x[1] > 0 && x[2] > 0 && x[1] < 3 * x[2] && x[2] < 3 * x[1]) }'
done

# --- silent damage ----------------------------------------------------------------------------------------------------
soak 12 200
head -c 2500 tests/data/held.txt >"$TMP/text"
check "the model's predictions" "$FERRY" eval -m "$m" --text "$TMP/text" --kl-save "$TMP/base" -q
bound=$(jq '[4 * .kl, 0.01] | max' "$TMP/canary")
RANDOM=7
"$FERRY" inspect "$m" --json | jq -r '.data_offset as $o | .tensors[] | select(.name | startswith("blk")) |
    select(.shape | length == 2) | "\(.name) \(.offset + $o) \(.shape[0] * 4) \(.shape[1])"' >"$TMP/matrices"
damage_weights() { # rows that are zero, or those of two heads in each other's place
    local name at row n from to
    read -r name at row n < <(shuf -n 1 --random-source=<(yes "$1") "$TMP/matrices")
    local f=$TMP/bad.gguf k=$((n / 4))
    from=$((at + RANDOM % 3 * k * row)) to=$((at + 3 * k * row))
    if (($1 % 4 == 0)); then
        what="rows of $name are zero" && head -c $((k * row)) /dev/zero | dd of="$f" bs=4096 seek="$from" oflag=seek_bytes conv=notrunc status=none
    else
        what="rows of $name are swapped"
        dd if="$f" bs=4096 skip="$from" count=$((k * row)) iflag=skip_bytes,count_bytes of="$TMP/a" status=none
        dd if="$f" bs=4096 skip="$to" count=$((k * row)) iflag=skip_bytes,count_bytes of="$TMP/b" status=none
        dd if="$TMP/b" of="$f" bs=4096 seek="$from" oflag=seek_bytes conv=notrunc status=none
        dd if="$TMP/a" of="$f" bs=4096 seek="$to" oflag=seek_bytes conv=notrunc status=none
    fi
}
damage_ranges() { # a scale that is wrong, or the encoding of another tensor
    local n=$((RANDOM)) factor=$((2 + RANDOM % 200))
    if (($1 % 4 == 2)); then
        what=$(jq -r --argjson n $n '.ranges | keys_unsorted | .[$n % length]' "$d/qnn/ranges.json")" is 1/$factor of what it was"
        jq --argjson n $n --argjson f $factor '(.ranges | keys_unsorted | .[$n % length]) as $k | .ranges[$k] |= map(. / $f)' "$d/qnn/ranges.json"
    else
        what="two ranges are swapped"
        jq --argjson n $n '(.ranges | keys_unsorted) as $k | ($k[$n % ($k | length)]) as $a | ($k[($n * 7 + 3) % ($k | length)]) as $b |
            .ranges[$a] as $x | .ranges[$a] = .ranges[$b] | .ranges[$b] = $x' "$d/qnn/ranges.json"
    fi >"$TMP/ranges.json"
}
# Where a model goes wrong: what the f32 model computes, against the caches and what is between the chunks.
check "what the model computes is saved" "$FERRY" eval -m "$m" --text "$TMP/text" -c 64 --golden-save "$TMP/golden" -q
first_wrong() { "$FERRY" eval -m "$1" "${@:2}" --golden "$TMP/golden" --tolerance 0.2 --json -q 2>/dev/null | jq -r .first_wrong; }
check_equal "the chunks compute it, too" null "$(first_wrong "$cut")"
check_equal "and the library within a fifth" null "$(first_wrong "$d" "${qnn[@]}")"
for case in '0 layer 1 (its keys)' '3 layer 3 (its output)'; do
    read -r layer place <<<"$case"
    cp "$m" "$TMP/bad.gguf"
    read -r _ at row n < <(grep "^blk.$layer.ffn_down" "$TMP/matrices")
    head -c $((n / 2 * row)) /dev/zero | dd of="$TMP/bad.gguf" bs=4096 seek="$at" oflag=seek_bytes conv=notrunc status=none
    rm -rf "$TMP/bad" "$TMP/out"
    "$FERRY" chunk "$TMP/bad.gguf" --soc SM8650 --recipe 16a8w --chunks 2 -c 576 --batch 64,1 -q -o "$TMP/bad"
    "$FERRY" compile "$TMP/bad" --sdk reference --recipe fp16 -q -o "$TMP/out"
    check_equal "a matrix of layer $layer is found where it is first seen" "$place" "$(first_wrong "$TMP/out" "${qnn[@]}" --canary off)"
done

refused=0 moved=0 missed=0
for ((i = 0; i < rounds; i++)); do
    rm -rf "$TMP/bad" "$TMP/out"
    cp "$m" "$TMP/bad.gguf"
    cp "$d/qnn/ranges.json" "$TMP/ranges.json"
    what=
    if ((i % 4 < 2)); then damage_weights $i; else damage_ranges $i; fi
    "$FERRY" chunk "$TMP/bad.gguf" --soc SM8650 --recipe 16a8w --chunks 2 -c 576 --batch 64,1 -q -o "$TMP/bad"
    model=$(jq -r .ferry.model "$TMP/bad/qnn/config.json")
    sed -i "s/\"model\": \"[0-9a-f]*/\"model\": \"$model/" "$TMP/ranges.json"
    "$FERRY" compile "$TMP/bad" --sdk reference --ranges "$TMP/ranges.json" -q -o "$TMP/out" || { missed=$((missed + 1)) && echo "# $what: not compiled" && continue; }
    sed "s/\"model\": \"[0-9a-f]*/\"model\": \"$model/" "$TMP/canary" >"$TMP/out/qnn/canary.json"
    kl=$("$FERRY" eval -m "$TMP/out" "${qnn[@]}" --canary off --text "$TMP/text" --kl-base "$TMP/base" --json -q 2>/dev/null | jq .kl_divergence.mean)
    "$FERRY" run -m "$TMP/out" "${qnn[@]}" -p Once -n 1 >"$TMP/said" 2>"$TMP/why"
    status=$?
    above=$(awk -v k="$kl" -v b="$bound" 'BEGIN { print !(k <= b) }')
    moved=$((moved + above))
    [ $status -ne 4 ] || { refused=$((refused + 1)) && cp "$TMP/why" "$TMP/refusal"; }
    ok=$([ $status -eq 4 ] || { [ $status -eq 0 ] && [ "$above" -eq 0 ]; } && echo yes)
    [ "$status" -ne 4 ] || [ ! -s "$TMP/said" ] || ok=
    [ -n "$ok" ] || { missed=$((missed + 1)) && echo "# $what: KL $kl, status $status: $(tail -1 "$TMP/why")"; }
done
echo "# $rounds damages: $moved move the predictions by more than $bound, $refused are refused"
check_equal "every damage that matters is refused, before any text" 0 "$missed"
check "and many are refused" [ $((refused * 3)) -ge "$rounds" ]
check_equal "the refusal says how to find the wrong chunk" 1 "$(grep -c "'ferry eval --golden' finds the first wrong chunk" "$TMP/refusal")"
finish
