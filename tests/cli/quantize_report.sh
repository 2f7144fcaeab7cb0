#!/usr/bin/env bash
# The quality report of `ferry quantize`: the numbers that `ferry compare` finds in the written files, and shares of
# saturated values that numpy got from the bits of the blocks.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
PTY=${PTY:-build/host/release/tests/e2e/pty_drive}

"$FERRY" convert tests/data/tales --outtype f32 -o "$TMP/f32.gguf" -q

# Tensors in the order of compare, numbers with some digits less than both have.
of_report() {
    jq -r '.tensors | sort_by(.name)[] | "\(.name) \(.rmse * 1e12 | round) \(.max_error * 1e9 | round) \(.cosine * 1e12 | round)"' "$1"
}
of_compare() {
    "$FERRY" compare "$1" "$2" --all --json 2>/dev/null | jq -r --slurpfile report "$3" '
        ($report[0].tensors | map({(.name): 1}) | add) as $measured | .tensors | sort_by(.name)[] | select($measured[.name]) |
        "\(.name) \(.rmse * 1e12 | round) \(.max_diff * 1e9 | round) \(.cosine * 1e12 | round)"'
}
declare -A saturated=([f16]=0 [bf16]=0 [q8_0]=0 [q4_0]=12322 [q4_1]=0 [q5_0]=5789 [q5_1]=0 [q4_K]=3684 [q5_K]=6706 [q6_K]=333)
for type in f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_K q5_K q6_K; do
    check "$type is measured" "$FERRY" quantize "$TMP/f32.gguf" "$TMP/$type.gguf" $type --report "$TMP/$type.json" -q
    check_equal "$type: the numbers are those of compare" \
        "$(of_compare "$TMP/f32.gguf" "$TMP/$type.gguf" "$TMP/$type.json")" "$(of_report "$TMP/$type.json")"
    check_equal "$type: saturated values" "${saturated[$type]} 2424832" \
        "$(jq -r '.total | "\(.saturated * .measured | round) \(.measured)"' "$TMP/$type.json")"
done
check_equal "every tensor that changes is in it" 29 "$(of_report "$TMP/q4_0.json" | wc -l)"
check_equal "whole and tensor agree" 1 "$(jq '([.tensors[] | .rmse * .rmse * .measured] | add) as $e |
    .total | ($e / .measured | sqrt) / .rmse * 1e9 | round / 1e9' "$TMP/q4_0.json")"
check_equal "SQNR is the relative error in dB" true \
    "$(jq '[.tensors[] | (.relative | log10 * -20) - .sqnr_db | fabs < 1e-9] | all' "$TMP/q4_K.json")"
check_equal "what a type holds exactly has no ratio" "0 null" "$(jq -r '.total | "\(.rmse) \(.sqnr_db)"' "$TMP/bf16.json")"

for threads in 1 5; do
    "$FERRY" quantize "$TMP/f32.gguf" "$TMP/t.gguf" q4_K --report - -q -t $threads >"$TMP/t$threads.json"
done
check "the report does not depend on the threads" cmp "$TMP/t1.json" "$TMP/t5.json"
FY_CPU_MASK=0 "$FERRY" quantize "$TMP/f32.gguf" "$TMP/t.gguf" q4_K --report - -q >"$TMP/scalar.json"
check "nor on the CPU" cmp "$TMP/t1.json" "$TMP/scalar.json"
check "nor does the file on the report" cmp "$TMP/t.gguf" "$TMP/q4_K.gguf"
check_equal "widening has nothing to measure" "null 0" "$("$FERRY" quantize "$TMP/q4_0.gguf" "$TMP/w.gguf" f32 -q --report - |
    jq -r '"\(.total.rmse) \(.tensors | length)"')"

check_equal "words are one line where there is no terminal" \
    "quality: SQNR 20.94 dB, error 8.970 %, cosine 0.995986, saturated 0.508 %; worst: token_embd.weight (q4_0) 19.97 dB" \
    "$("$FERRY" quantize "$TMP/f32.gguf" "$TMP/o.gguf" q4_0 --report "$TMP/o.json" 2>&1 | grep quality)"
check_equal "and none where nobody asks" 0 "$("$FERRY" quantize "$TMP/f32.gguf" "$TMP/o.gguf" q4_0 2>&1 | grep -c 'SQNR')"
table=$("$FERRY" quantize "$TMP/f32.gguf" "$TMP/o.gguf" q4_0 --recipe llama -v 2>&1 | grep -A20 SQNR)
check_equal "--verbose shows a line per layer, the whole and the worst" \
    "token_embd blk.0 blk.1 blk.2 blk.3 whole worst: blk.2.ffn_down.weight blk.1.ffn_down.weight" \
    "$(awk 'NR > 1 { print $1 }' <<<"$table" | paste -sd ' ')"
check_equal "the largest error has the longest bar" "blk.3" "$(awk '{ print gsub("#", ""), $1 }' <<<"$table" | sort -n | awk 'END { print $2 }')"
if [ -x "$PTY" ]; then
    printf 'wait SQNR\nwait blk.3\nwait #\nwait whole model\nend 0\n' >"$TMP/script"
    check "on a terminal the table comes unasked" "$PTY" "$TMP/script" "$FERRY" quantize "$TMP/f32.gguf" "$TMP/o.gguf" q4_0
    printf 'wait every matrix in q4_0; what llama-quantize calls so is --recipe llama\nend 0\n' >"$TMP/script"
    check "one line there says what llama-quantize's Q4_0 is" "$PTY" "$TMP/script" "$FERRY" quantize "$TMP/f32.gguf" "$TMP/o.gguf" Q4_0
    check "in convert, too" "$PTY" "$TMP/script" "$FERRY" convert tests/data/tales --outtype Q4_0 -o "$TMP/o.gguf"
else
    skip "on a terminal the table comes unasked" "no pty_drive ('make programs' builds it)"
fi

# What fails leaves no report and says what it said before.
at=$("$FERRY" inspect "$TMP/f32.gguf" --json | jq '.data_offset + (.tensors[] | select(.name == "blk.2.ffn_up.weight") | .offset + (3 * .shape[0] + 9) * 4)')
cp "$TMP/f32.gguf" "$TMP/nan.gguf"
printf '\x00\x00\xc0\x7f' | dd of="$TMP/nan.gguf" bs=1 seek="$at" conv=notrunc status=none
check_status "NaN is refused with its place" 1 "tensor 'blk.2.ffn_up.weight', row 3, element 9: value nan" \
    "$FERRY" quantize "$TMP/nan.gguf" "$TMP/bad.gguf" q4_0 --report "$TMP/bad.json"
check_equal "and leaves nothing" "" "$(cd "$TMP" && ls -d bad* 2>/dev/null)"
check_status "the report is not a model that the call uses" 2 'model of this call' \
    "$FERRY" quantize "$TMP/f32.gguf" "$TMP/bad.gguf" q4_0 --report "$TMP/bad.gguf"
check_status "nor the input under another name" 2 'model of this call' \
    "$FERRY" quantize "$TMP/f32.gguf" "$TMP/bad.gguf" q4_0 --report "$TMP/../$(basename "$TMP")/f32.gguf"
"$FERRY" convert tests/data/tales --outtype f32 --split-max-size 6M -o "$TMP/split.gguf" -q
check_status "nor another file of the input" 2 'model of this call' \
    "$FERRY" quantize "$TMP/split-00001-of-00002.gguf" "$TMP/bad.gguf" q4_0 --report "$TMP/split-00002-of-00002.gguf"
check_status "a directory that is missing is found before the work" 1 'No such file' \
    "$FERRY" quantize "$TMP/f32.gguf" "$TMP/bad.gguf" q4_0 --report "$TMP/none/r.json"
check_equal "and nothing was written" "" "$(cd "$TMP" && ls -d bad* 2>/dev/null)"
finish
