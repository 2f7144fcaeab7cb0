#!/usr/bin/env bash
# Greedy ids do not depend on threads, on how the prompt is split, or (quantized weights) on the machine.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

prompt='Once upon a time there was a brave little girl named Mia who lived near the castle and wanted to go to the lake'
ids() { # PROGRAM FILE OPTIONS...
    local program=$1 file=$2
    shift 2
    $program run -m "$file" -p "$prompt" -n 100 --ignore-eos --print-ids "$@" 2>/dev/null
}
for type in f32 f16 bf16 q8_0 q4_0; do
    f=$TMP/$type.gguf
    check "tales converts to $type" "$FERRY" convert tests/data/tales --outtype $type -o "$f"
    want=$(ids "$FERRY" "$f" -t 1 -b 512)
    check_equal "$type: 100 ids are generated" 100 "$(wc -w <<<"$want")"
    check_equal "$type: two threads" "$want" "$(ids "$FERRY" "$f" -t 2 -b 512)"
    check_equal "$type: the prompt one by one" "$want" "$(ids "$FERRY" "$f" -t 2 -b 1)"
    check_equal "$type: the prompt in batches of 7" "$want" "$(ids "$FERRY" "$f" -t 1 -b 7)"
    check_equal "$type: arm64" "$want" "$(ids "$FERRY_ARM" "$f" -t 2)"
    check_equal "$type: arm64 without dot product instructions" "$want" \
        "$(ids "qemu-aarch64 -cpu cortex-a53 ${FERRY_ARM##* }" "$f" -t 1)"
    check_equal "$type: scalar kernels" "$want" "$(FY_CPU_MASK=0 ids "$FERRY" "$f" -t 2)"
done
check "the same file on one thread and on two" bash -c "
    $FERRY convert tests/data/tales --outtype q4_0 -t 1 -o $TMP/t1.gguf && cmp $TMP/t1.gguf $TMP/q4_0.gguf"
check "quantize gives the bytes that convert gives (q8_0)" bash -c "
    $FERRY quantize $TMP/f32.gguf $TMP/q.gguf q8_0 && cmp $TMP/q.gguf $TMP/q8_0.gguf"
check "quantize gives the bytes that convert gives (q4_0)" bash -c "
    $FERRY quantize $TMP/bf16.gguf $TMP/q.gguf q4_0 && cmp $TMP/q.gguf $TMP/q4_0.gguf"
sample() { $FERRY run -m "$TMP/q8_0.gguf" -p "$prompt" -n 60 --temp 0.9 --seed "$1" -t "$2" 2>/dev/null; }
check_equal "the same seed gives the same text for any thread count" "$(sample 7 1)" "$(sample 7 2)"
if [ "$(sample 7 1)" != "$(sample 8 1)" ]; then ok "another seed gives another text"; else not_ok "another seed gives another text"; fi
finish
