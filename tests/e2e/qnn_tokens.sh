#!/usr/bin/env bash
# The right tokens: what ferry computes with compiled graphs on the reference library is, to the last bit of every logit,
# what a driver of that library computes that shares no code with ferry (qnn_driver.c): prompts of 1 to 300 tokens, 200
# tokens of greedy text, several batch sizes, in as many chunks as one likes.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT
build=build/host/release
chip=57 # SM8650

m=$TMP/m.gguf
check "a model" "$FERRY" convert tests/data/tales --outtype f32 -q -o "$m"
make_cut() { "$FERRY" chunk "$m" --soc SM8650 --recipe fp16 --chunks "$1" -c 640 --batch "$2" -q -o "$TMP/cut-$1-$2"; }
compile() { # NAME CUT RECIPE OPTION...
    "$FERRY" compile "$TMP/cut-$2" --sdk reference --recipe "$3" -q -o "$TMP/$1" "${@:4}"
}
driver() { "$build/tests/e2e/qnn_driver" $build/qnn $chip "$TMP/$1" "$TMP/$1.driver" "$2" >"$TMP/$1.driver.ids"; }
session() { "$build/tests/e2e/session_logits" $build/qnn/libQnnRef.so "$TMP/$1" "$TMP/$1.ferry" "$2" >"$TMP/$1.ferry.ids"; }
same() { # NAME MODEL N <PROMPTS: the logits of all prompts, and N tokens after each
    local n
    cat >"$TMP/prompts"
    driver "$2" "$3" <"$TMP/prompts" &
    session "$2" "$3" <"$TMP/prompts"
    wait $!
    n=$(stat -c %s "$TMP/$2.ferry")
    check "$1: the bits of $((n / 4)) logits" test "$n" -ge 3072 -a -z "$(cmp "$TMP/$2.driver" "$TMP/$2.ferry" 2>&1)"
    check_equal "$1: the tokens" "$(cat "$TMP/$2.driver.ids")" "$(cat "$TMP/$2.ferry.ids")"
}
"$FERRY" tokenize -m "$m" -f tests/data/held.txt >"$TMP/ids"
prompts() { for n in "$@"; do cut -d' ' -f"$((n + 1))-$((2 * n))" "$TMP/ids"; done; }

# --- prompts ----------------------------------------------------------------------------------------------------------
soak 8 300
lengths=(1 2 4 5 31 33 129 300)
# shellcheck disable=SC2154
[ "$rounds" -le 8 ] || mapfile -t lengths < <(seq "$rounds")
for batch in 128,1 32,4,1; do
    check "a cut of batch sizes $batch" make_cut 2 $batch
    check "compiled" compile 16a8w-$batch 2-$batch 16a8w --calibration tests/data/held.txt
    same "${#lengths[@]} prompts of 1 to 300 tokens, batch sizes $batch" 16a8w-$batch 1 < <(prompts "${lengths[@]}")
done
same "200 tokens, batch sizes 128,1" 16a8w-128,1 200 < <(prompts 7)
same "200 tokens after 300" 16a8w-32,4,1 200 < <(prompts 300)
"$FERRY" tokenize -m "$m" 'Once upon a time' | driver 16a8w-128,1 200
"$FERRY" run -m "$TMP/16a8w-128,1" --backend qnn --qnn-lib reference -p 'Once upon a time' -n 200 --temp 0 --json -q >"$TMP/run"
n=$(jq '.ids | length' "$TMP/run")
check_equal "ferry run says them until the text ends, after $n tokens" "$(cut -d' ' -f"1-$n" "$TMP/16a8w-128,1.driver.ids")" "$(jq -r '.ids | join(" ")' "$TMP/run")"

# --- chunks -----------------------------------------------------------------------------------------------------------
# What goes from one to the next is f32 between fixed numbers, and has the same range on both sides.
driver 16a8w-128,1 20 < <(prompts 150)
for chunks in 1 4; do
    check "a cut of $chunks chunks" make_cut $chunks 128,1
    check "compiled with the same ranges" compile $chunks $chunks-128,1 16a8w --ranges "$TMP/16a8w-128,1/qnn/ranges.json"
    session $chunks 20 < <(prompts 150)
    check "$chunks chunks: the bits of 2 chunks" cmp "$TMP/16a8w-128,1.driver" "$TMP/$chunks.ferry"
done

# --- arm64, emulated --------------------------------------------------------------------------------------------------
# A phone's library asks the chip what it is; the reference reads it from the faults.
arm=build/aarch64-dynamic/release
arm() { FERRY_REF_FAULTS=$TMP/chip qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="/usr/aarch64-linux-gnu/lib${shared:+:$shared}" "$@"; }
echo "soc $chip" >"$TMP/chip"
if [ -x $arm/ferry ]; then
    "$FERRY" tokenize -m "$m" 'Once upon a time' >"$TMP/prompts"
    session 16a8w-32,4,1 20 <"$TMP/prompts"
    for shared in '' $arm/qnn; do
        arm $arm/tests/e2e/session_logits $arm/qnn/libQnnRef.so "$TMP/16a8w-32,4,1" "$TMP/arm" 20 <"$TMP/prompts" >"$TMP/arm.ids"
        check "arm64${shared:+, with shared memory}: the bits of x86-64" cmp "$TMP/arm" "$TMP/16a8w-32,4,1.ferry"
        check_equal "arm64: the tokens" "$(cat "$TMP/16a8w-32,4,1.ferry.ids")" "$(cat "$TMP/arm.ids")"
    done
    text() { "${@:2}" run --qnn-lib "$1" -m "$TMP/16a8w-32,4,1" --backend qnn -p 'Once upon a time' -n 20 --temp 0 -q; }
    mkdir "$TMP/libs" && cp $arm/qnn/libQnnRef.so "$TMP/libs/libQnnHtp.so" && : >"$TMP/libs/libQnnHtpV75Skel.so"
    printf 'soc %s\nskel libQnnHtpV75Skel.so\n' $chip >"$TMP/chip"
    check_equal "arm64: the DSP finds its half beside the library" "$(text reference "$FERRY")" "$(text "$TMP/libs" arm $arm/ferry)"
    check_status "arm64: or the NPU does not open" 5 'deviceCreate: QNN error 14001' text $arm/qnn arm $arm/ferry
    # shellcheck disable=SC2086 # the emulator and its program
    check_status "a static program loads no library" 1 'this program cannot load the NPU' text reference $FERRY_ARM
    echo "soc $chip" >"$TMP/chip"
    check_equal "arm64: ferry run" "$(text reference "$FERRY")" "$(text $arm/qnn arm $arm/ferry)"
else
    skip "arm64 computes the same" "no $arm/ferry ('make TARGET=aarch64-dynamic all qnnref' builds it)"
fi

# --- recipes ----------------------------------------------------------------------------------------------------------
recipes=(fp16 powerserve)
[ "$rounds" -le 8 ] || recipes=(fp16 fp16a8w fp16a4w 16a4w lpbq-32 powerserve)
for recipe in "${recipes[@]}"; do
    check "$recipe is compiled" compile "$recipe" 2-32,4,1 "$recipe" --calibration tests/data/held.txt
    same "$recipe" "$recipe" 40 < <(prompts 1 37 131)
done
finish
