#!/usr/bin/env bash
# `ferry compare` in parts: what --finish prints is what one process prints, in any order, twice, and through kills; and what is
# refused. FERRY_SEED chooses the moments.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

RANDOM=${FERRY_SEED:-26}
root=$PWD f32=$TMP/f32.gguf q4=$TMP/q4.gguf
ferry=$(realpath "$FERRY")
"$FERRY" convert tests/data/tales --outtype f32 -o "$f32" -q
"$FERRY" convert tests/data/tales --outtype q4_0 -o "$q4" -q
mkdir "$TMP/parts"
cd "$TMP/parts" || exit 1

# same NAME N STATUS A B OPTION...: parts in any order, the first of them twice, and the end.
same() {
    local name=$1 n=$2 status=$3 want i got=0 failed=0
    shift 3
    want=$("$ferry" compare "$@" -q 2>&1)
    for i in $(seq "$n" | shuf --random-source="$root/tests/data/held.txt") 1; do
        "$ferry" compare "$@" -q --part "$i/$n" >"$TMP/out" 2>&1 || failed=1
        [ ! -s "$TMP/out" ] || failed=1
    done
    check_equal "$name in $n parts" 0 $failed
    check_equal "$name in $n parts: what one process prints" "$want" "$("$ferry" compare "$@" -q --finish "$n" 2>&1)"
    "$ferry" compare "$@" -q --finish "$n" >/dev/null 2>&1 || got=$?
    check_equal "$name in $n parts: and its status" $status $got
    rm -f compare-*
}
for n in 1 2 7 64; do
    same "a quantized file" $n 4 "$f32" "$q4" --all --json
done
same "within a tolerance" 3 0 "$f32" "$q4" --tolerance 0.5
same "a checkpoint" 5 0 "$root/tests/data/tales" "$f32" --all
same "two checkpoints" 2 4 "$root/tests/data/tales" "$root/tests/data/draft"
same "some tensors" 3 4 "$f32" "$q4" --tensor 'attn_[qk]'

differ() { "$ferry" compare "$f32" "$q4" -q "$@"; }
differ --part 2/3
check_status "a part that is missing is named with its command" 4 \
    "2 of 3 parts are missing; part 1 is not there: make it with '.*ferry compare .*f32.gguf .*q4.gguf -q --part 1/3'" differ --finish 3
differ --part 1/3
differ --part 3/3
check_equal "another tolerance, of the same parts" "$(differ --tolerance 0.01 2>&1)" "$(differ --tolerance 0.01 --finish 3 2>&1)"
check_status "other tensors are other work" 4 '3 of 3 parts are missing' differ --tensor attn --finish 3
part=$(echo compare-*.2-of-3.part)
printf 'x' | dd of="$part" bs=1 seek=$(($(stat -c %s "$part") / 2)) conv=notrunc status=none
check_status "a byte that nobody wrote" 4 "2-of-3.part: is damaged: remove it, and make it again" differ --finish 3
differ --part 2/3
check_equal "and again" "$(differ 2>&1)" "$(differ --finish 3 2>&1)"
rm -f compare-*

want=$(differ --all 2>&1)
soak 10 100
kills=0 wrong=0 failed=0
while [ $kills -lt "$rounds" ]; do
    for i in 1 2 3; do
        kill_often 4 "$ferry" compare "$f32" "$q4" -q --all -t 1 --part $i/3
        [ $status = 0 ] || differ --all -t 1 --part $i/3 || failed=$((failed + 1))
    done
    [ "$(differ --all --finish 3 2>&1)" = "$want" ] || wrong=$((wrong + 1))
    rm -f compare-*
done
check_equal "$rounds kills or more: results that differ, parts that failed" "0 0" "$wrong $failed"
finish
