#!/usr/bin/env bash
# `ferry eval` in parts: what --finish prints and writes is what one process prints and writes, byte for byte, in any order,
# twice, and through kills; and what is refused. FERRY_SEED chooses the moments.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

RANDOM=${FERRY_SEED:-26}
root=$PWD f32=$TMP/f32.gguf q8=$TMP/q8.gguf text=$TMP/short.txt base=$TMP/base.klb
ferry=$(realpath "$FERRY")
"$FERRY" convert tests/data/tales --outtype f32 -o "$f32" -q
"$FERRY" convert tests/data/tales --outtype q8_0 -o "$q8" -q
head -c 3000 tests/data/held.txt >"$text"
mkdir "$TMP/parts" "$TMP/one"
cd "$TMP/parts" || exit 1 # what is printed keeps its parts here
shuffled() { seq "$1" | shuf --random-source="$root/tests/data/held.txt"; }

# same NAME N OPTION...: the parts in any order, the first of them twice, and the end. Files are named x: made here and in one/.
same() {
    local name=$1 n=$2 i want status=0
    shift 2
    want=$(cd "$TMP/one" && "$ferry" eval "$@" -q) || not_ok "$name: one process"
    for i in $(shuffled "$n") 1; do
        [ -z "$("$ferry" eval "$@" -q --part "$i/$n")" ] || status=1
    done
    check_equal "$name in $n parts: a part prints nothing" 0 $status
    check_equal "$name in $n parts: what one process prints" "$want" "$("$ferry" eval "$@" -q --finish "$n")"
    for i in x*; do
        [ ! -e "$i" ] || check "$name in $n parts: the bytes of one process" cmp "$i" "$TMP/one/$i"
    done
}

# --- the same numbers -----------------------------------------------------------------------------------------------
"$ferry" eval -m "$f32" --text "$text" -c 32 --kl-save "$base" -q >/dev/null
for n in 1 2 7 64; do
    same "everything" $n -m "$q8" --text "$text" -c 32 --kl-base "$base" --word-ppl --json --imatrix-out x.gguf
    check_equal "nothing but the file is left" x.gguf "$(echo *)"
    rm -f x.gguf
    same "multiple choice" $n -m "$q8" --choices "$root/tests/data/quality/choices.jsonl" --json
    rm -f eval-*
done
same "perplexity" 7 -m "$q8" --text "$text" -c 32 --word-ppl
check_equal "what a measurement keeps stays" 7 "$(find . -name 'eval-*.part' | wc -l)"
check_equal "so it can be shown in another form" "$("$ferry" eval -m "$q8" --text "$text" -c 32 --json -q)" \
    "$("$ferry" eval -m "$q8" --text "$text" -c 32 --json -q --finish 7)"
rm -f eval-*
same "lines" 7 -m "$q8" --text "$text" --lines --word-ppl --json
same "lines that are longer than a window" 5 -m "$q8" --text "$text" --lines -c 16 --word-ppl --json
same "llama-perplexity's cut" 3 -m "$q8" --text "$text" -c 32 --llama-cut --imatrix-out x.gguf
same "distributions" 7 -m "$q8" --text "$text" -c 32 --kl-save x.klb
same "distributions of lines" 3 -m "$q8" --text "$text" --lines --kl-save x2.klb --imatrix-out x2.gguf
same "last words" 7 -m "$q8" --last-word "$root/tests/data/quality/last_word.jsonl"
same "more parts than windows" 5 -m "$q8" --text "$text" -c 4096
rm -f eval-* x*
"$ferry" convert "$root/tests/data/families/qwen2moe" --outtype f32 -o "$TMP/moe.gguf" -q
same "experts" 3 -m "$TMP/moe.gguf" --text "$text" -c 32 --imatrix-out x.gguf
rm -f eval-* x*
for i in 2 1; do SLURM_ARRAY_TASK_ID=$i "$ferry" eval -m "$q8" --text "$text" -c 64 -q -t 1 -b 7 --part auto/2; done
check_equal "an array job, with other threads and batches" "$("$ferry" eval -m "$q8" --text "$text" -c 64 -q)" \
    "$("$ferry" eval -m "$q8" --text "$text" -c 64 -q --finish 2)"

# --- what is missing, damaged, or of other work ---------------------------------------------------------------------
measure() { "$ferry" eval -m "$q8" --text "$text" -c 32 -q "$@"; }
rm -f eval-*
measure --part 2/3
check_status "a part that is missing is named with its command" 4 \
    "2 of 3 parts are missing; part 1 is not there: make it with '.*ferry eval -m .*q8.gguf --text .*short.txt -c 32 -q --part 1/3'" \
    measure --finish 3
measure --part 1/3
measure --part 3/3
check_status "another text is other work" 4 '3 of 3 parts are missing' "$ferry" eval -m "$q8" --text "$root/tests/data/held.txt" -c 32 -q --finish 3
check_status "another model, too" 4 '3 of 3 parts are missing' "$ferry" eval -m "$f32" --text "$text" -c 32 -q --finish 3
check_status "and another -c" 4 '3 of 3 parts are missing' measure -c 16 --finish 3
part=$(echo eval-*.2-of-3.part)
cp "$part" "$TMP/kept"
printf 'x' | dd of="$part" bs=1 seek=$(($(stat -c %s "$part") / 2)) conv=notrunc status=none
check_status "a byte that nobody wrote" 4 "2-of-3.part: is damaged: remove it, and make it again with '.* --part 2/3'" measure --finish 3
check_equal "and no number is shown" "" "$(measure --finish 3 2>/dev/null)"
truncate -s -100 "$part"
check_status "a part that was cut off" 4 'part 2 is not done' measure --finish 3
measure --part 2/3
check "which resumes before the damage" cmp "$part" "$TMP/kept"
rm "$part"
ln -s "$TMP/kept" "$part"
check_status "a link is not followed" 1 'is a symbolic link' measure --part 2/3
rm "$part"
mkdir "$part"
check_status "nor is a directory taken" 1 'Is a directory|is not a regular file|is a directory' measure --part 2/3
rmdir "$part"
cp "$TMP/kept" "$part"
check_equal "with all of them" "$(measure)" "$(measure --finish 3)"
for i in 1 2; do measure --imatrix-out x.gguf --part $i/2; done
check_status "parts of one file of another text" 2 'is of other work' measure -c 16 --imatrix-out x.gguf --part 1/2
check_status "both at once" 2 'expected one of them' measure --part 1/2 --finish 2
check_status "a golden file has no parts" 2 'not a golden file' \
    "$ferry" eval -m "$q8" --golden "$root/tests/data/tales/golden_long.safetensors" --part 1/2
check_status "no item, in a part" 2 'no line with an item' "$ferry" eval -m "$q8" --choices /dev/null -q --part 1/2
check_status "no token, in a part" 2 'no token to score' "$ferry" eval -m "$q8" --text /dev/null -q --part 1/2
cp "$base" "$TMP/hurt.klb"
printf '\x01\x02' | dd of="$TMP/hurt.klb" bs=1 seek=$(($(stat -c %s "$base") / 2 + 101)) conv=notrunc status=none
for i in 1 2; do measure --kl-base "$TMP/hurt.klb" --part $i/2; done
check_status "a base with other bytes" 1 "hurt.klb: damaged" measure --kl-base "$TMP/hurt.klb" --finish 2
rm -rf ./*

# --- kills ----------------------------------------------------------------------------------------------------------
want=$(measure --imatrix-out "$TMP/one/x.gguf")
soak 10 100
kills=0 wrong=0 failed=0
while [ $kills -lt "$rounds" ]; do
    for work in "--part 1/3" "--part 2/3" "--part 3/3"; do
        # shellcheck disable=SC2086
        kill_often 9 "$ferry" eval -m "$q8" --text "$text" -c 32 -q --imatrix-out x.gguf -t 1 $work
        # shellcheck disable=SC2086
        [ $status = 0 ] || measure --imatrix-out x.gguf -t 1 $work || failed=$((failed + 1))
    done
    [ "$(measure --imatrix-out x.gguf --finish 3)" = "$want" ] && cmp -s x.gguf "$TMP/one/x.gguf" || wrong=$((wrong + 1))
    rm -f x.gguf
done
check_equal "$rounds kills or more: results that differ, commands that failed" "0 0" "$wrong $failed"
check_equal "and nothing is left" "" "$(ls)"
finish
