#!/usr/bin/env bash
# `ferry compile` in parts: the directory of one process, byte for byte, whatever the order, twice, and through kills; and what
# is refused. FERRY_SEED chooses the moments.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT

RANDOM=${FERRY_SEED:-26}
"$FERRY" convert tests/data/tales --outtype f16 -q -o "$TMP/m.gguf"
cut=$TMP/cut out=$TMP/out
check "cut in three" "$FERRY" chunk "$TMP/m.gguf" --soc SM8650 --recipe fp16a8w --chunks 3 -c 160 --batch 32,1 -q -o "$cut"
compile() { "$FERRY" compile --sdk reference "$cut" -q "$@"; }
hashes() { (cd "$1" && find . -type f | sort | xargs sha256sum); }
shuffled() { seq "$1" | shuf --random-source=tests/data/held.txt; }

# same NAME N OPTION...: parts in any order, the first of them twice, the end, and once more a part.
same() {
    local name=$1 n=$2 i
    shift 2
    rm -rf "$out"
    for i in $(shuffled "$n") 1; do
        compile "$@" -o "$out" --part "$i/$n" || not_ok "$name: part $i of $n"
    done
    check "$name in $n parts: not whole before the end" test ! -e "$out/qnn/config.json"
    check "$name in $n parts: the end" compile "$@" -o "$out" --finish "$n"
    check_equal "$name in $n parts: the files of one process" "$(hashes "$TMP/want")" "$(hashes "$out")"
}
check "one process" compile -o "$TMP/want"
for n in 1 2 7 64; do
    same "floats" $n
done
check "a part that runs again after the end" compile -o "$out" --part 1/64
check_equal "changes nothing" "$(hashes "$TMP/want")" "$(hashes "$out")"
check "and the end again" compile -o "$out" --finish 64
check_equal "changes nothing, either" "$(hashes "$TMP/want")" "$(hashes "$out")"
rm -rf "$TMP/want"
check "one process with ranges" compile --recipe 16a4w --seq-mse 4 --calibration tests/data/held.txt --preset-bos -o "$TMP/want"
same "fixed numbers, calibrated" 2 --recipe 16a4w --seq-mse 4 --calibration tests/data/held.txt --preset-bos
check "a part that runs again after the end" compile --recipe 16a4w --seq-mse 4 --calibration tests/data/held.txt --preset-bos -o "$out" --part 2/2
check_equal "changes nothing" "$(hashes "$TMP/want")" "$(hashes "$out")"
check_equal "and leaves no directory" "" "$(find "$out" -name 'part-*')"

# --- what is missing ------------------------------------------------------------------------------------------------
rm -rf "$out"
compile -o "$out" --part 2/3
check_status "a chunk that is missing is named with its command" 4 \
    "of its 4 chunks are missing; part 1 of 3 has [a-z_0-9]*, which is not there: make it with '.*ferry compile --sdk reference .*cut -q -o .*out --part 1/3'" \
    compile -o "$out" --finish 3
check "nothing is whole then" test ! -e "$out/qnn/config.json"
compile -o "$out" --part 1/3
compile -o "$out" --part 3/3
printf 'x' | dd of="$out/qnn/lm_head.bin" bs=1 seek=1000 conv=notrunc status=none
check_status "a binary with other bytes is none" 4 "1 of its 4 chunks are missing; part . of 3 has lm_head, which is not there" compile -o "$out" --finish 3
check_status "other options are other work" 4 "4 of its 4 chunks are missing" compile --no-sharing -o "$out" --finish 3
check_status "a calibration that was not made" 4 "part 1 of 2 has not calibrated: make it with" \
    compile --recipe 16a8w --calibration tests/data/held.txt -o "$TMP/none" --finish 2
check_status "--only and --part" 2 "expected one of them" compile --only lm_head -o "$out" --part 1/2
check_equal "how equal they are" 1 "$("$FERRY" compile "$cut" -q --dry-run --part 1/2 | grep -c '^2 parts read and write .* MB: 1\.')"

# --- kills ----------------------------------------------------------------------------------------------------------
rm -rf "$TMP/want" "$out"
check "one process" compile -o "$TMP/want"
again() { # COMMAND...: once the library's process, which dies after its parent, has let go of its file
    for _ in {1..120}; do
        "$@" 2>"$TMP/err" && return
        grep -q 'another ferry is writing it now' "$TMP/err" || break
        sleep 1
    done
    cat "$TMP/err"
    return 1
}
soak 6 100
kills=0 wrong=0 failed=0
while [ $kills -lt "$rounds" ]; do
    for work in "--part 1/2" "--part 2/2" "--finish 2"; do
        # shellcheck disable=SC2086
        kill_often 30 "$FERRY" compile --sdk reference "$cut" -q -o "$out" -t 1 $work
        # shellcheck disable=SC2086
        [ $status = 0 ] || again compile -o "$out" -t 1 $work || failed=$((failed + 1))
    done
    [ "$(hashes "$TMP/want")" = "$(hashes "$out")" ] || wrong=$((wrong + 1))
    rm -rf "$out"
done
check_equal "$rounds kills or more: directories that differ, commands that failed" "0 0" "$wrong $failed"
finish
