#!/usr/bin/env bash
# A conversion that is killed, or interrupted, at any moment goes on where it was, and the file has the same bytes as
# without. FERRY_SEED chooses the moments.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

RANDOM=${FERRY_SEED:-8}
seed=$RANDOM
make_checkpoint=build/host/release/tests/bench/make_checkpoint
c=$TMP/checkpoint model=$TMP/m.gguf
check "a checkpoint of 50 MB" $make_checkpoint "$c" layers=2 dim=1024 ffn=3072 heads=16 kv=4 vocab=4096 shards=2
convert() { # ARGUMENTS...
    exec "$FERRY" convert "$c" --outtype q8_0 -t 1 -o "$model" "$@"
}
hash() { sha256sum <"$1" | cut -d' ' -f1; }
check "an uninterrupted conversion" "$FERRY" convert "$c" --outtype q8_0 -t 1 -o "$model"
want=$(hash "$model")
bytes=$(stat -c %s "$model")
rm "$model"
if ! grep -q '^wchar' /proc/self/io 2>/dev/null; then
    skip "interrupted conversions go on" "this system does not count what a process writes (/proc/PID/io)"
    finish
    exit
fi

some() { # random, below a sixth of the file
    echo $(((RANDOM * 32768 + RANDOM) % (bytes / 6)))
}

# Every second process is stopped for longer than the time between two marks of the journal, so that there is something
# to resume, and each is killed at some moment. Every fifth one is followed by one that is left alone.
kills=0 wrong=0 failed=0
interrupted() { # SIGNAL: true when it was in time
    convert 2>>"$TMP/log" &
    local pid=$! first status
    first=$(some)
    wait_written $pid "$first"
    if [ $((tries % 2)) -eq 0 ] && kill -STOP $pid 2>/dev/null; then
        sleep 0.26
        kill -CONT $pid
    fi
    wait_written $pid $((first + $(some)))
    kill "-$1" $pid 2>/dev/null
    wait $pid 2>/dev/null
    status=$?
    case $status in
    0 | 130 | 137 | 143) ;;
    *) failed=$((failed + 1)) ;;
    esac
    [ $status -ne 0 ]
}
compare() { # the finished file
    [ "$(hash "$model")" = "$want" ] || wrong=$((wrong + 1))
    rm -f "$model"
}
signals=(KILL KILL KILL KILL KILL KILL KILL KILL INT TERM)
tries=0
soak 10 50
while [ $kills -lt "$rounds" ] && [ $tries -lt $((6 * rounds)) ]; do
    tries=$((tries + 1))
    if ! interrupted "${signals[kills % 10]}"; then
        compare
        continue
    fi
    kills=$((kills + 1))
    if [ $((kills % 5)) -eq 0 ]; then
        (convert --resume) 2>>"$TMP/log" || failed=$((failed + 1))
        compare
    fi
done
went_on=$(grep -c '^resuming ' "$TMP/log")
echo "# seed $seed, $kills interrupted of $tries, $went_on went on"
check_equal "$rounds interrupted conversions" "$rounds" "$kills"
check "some of them went on in the middle" test "$went_on" -ge $((rounds / 10))
check_equal "every file has the bytes of an uninterrupted one" "0 wrong, 0 failed" "$wrong wrong, $failed failed"
check "nothing is left beside it" test -z "$(find "$TMP" -name '*.part')"

# --- what is reported ---------------------------------------------------------------------------------------------------
half() { # leaves a part that is half done; again when the conversion was done before its interrupt
    local pid
    for _ in {1..30}; do
        rm -f "$model"
        convert "$@" 2>"$TMP/words" &
        pid=$!
        wait_written $pid $((bytes / 2))
        kill -INT $pid 2>/dev/null
        wait $pid
        [ $? -ne 130 ] || return 0
    done
    return 1
}
check "Ctrl-C leaves what is done" half
check "and says how to go on" grep -qE \
    "^ferry convert: interrupted: .*/m.gguf.part keeps the [0-9]+ % that are done; the same command resumes" "$TMP/words"
check "no file has the final name" test ! -e "$model"
(convert) 2>"$TMP/words"
check "the same command resumes" grep -qE '^resuming .*/m.gguf.part: [0-9]+ % of it is there' "$TMP/words"
check_equal "to the same bytes" "$want" "$(hash "$model")"

half
touch -d '2 hours ago' "$c"/model-00001-of-*.safetensors
(convert --resume) 2>"$TMP/words"
check "a changed source is reported" grep -qE "m.gguf.part is of another conversion and is replaced: 'source .*/model-00001" \
    "$TMP/words"
check "and nothing is resumed" test "$(grep -c '^resuming' "$TMP/words")" -eq 0
check_equal "to the bytes of the source that is there" "$want" "$(hash "$model")"

half
(exec "$FERRY" convert "$c" --outtype f16 -o "$model") 2>"$TMP/words"
check "another type is reported" grep -qE "is replaced: 'keys and tensors: " "$TMP/words"
check "and converted from the beginning" test "$("$FERRY" inspect "$model" --json | jq -r .tensors[0].type)" = f16

half
(convert --fit) 2>"$TMP/words"
check "--fit is another conversion" grep -qE "m.gguf.part is of another conversion and is replaced: '--fit'" "$TMP/words"
check "with bytes of its own" test "$(hash "$model")" != "$want"

half
: >"$model.part"
check "an emptied part is started over" "$FERRY" convert "$c" --outtype q8_0 -o "$model"
check_equal "with the same bytes, and more threads" "$want" "$(hash "$model")"
half
size=$(stat -c %s "$model.part")
for at in 20 40 $((size - (size % 4096 ? size % 4096 : 4096) - 4096)); do # in the foot, and about a slot
    cp "$model.part" "$TMP/kept.part"
    printf '\xff' | dd of="$model.part" bs=1 seek=$((size - at > 0 ? size - at : 0)) conv=notrunc status=none
    (convert --resume) 2>/dev/null
    check_equal "a garbled byte of the journal, $at from the end" "$want" "$(hash "$model")"
    mv "$TMP/kept.part" "$model.part"
done
rm -f "$model" "$model.part"
half --resume=no
check "with --resume=no nothing is kept" test ! -e "$model.part"

# --- no space, no permission ----------------------------------------------------------------------------------------
half
cat >"$TMP/small.sh" <<'EOF'
# CHECKPOINT DIRECTORY CASE KIB
mkdir -p "$2" && mount -t tmpfs -o size=$(($4 * 1024)) tmpfs "$2" || exit 99
case $3 in
kept) cp --sparse=never "${2%/small}/m.gguf.part" "$2/" ;;
read-only) mount -o remount,ro "$2" ;;
esac
"$FERRY" convert "$1" --outtype q8_0 -o "$2/m.gguf"
status=$?
[ $status -ne 0 ] || sha256sum <"$2/m.gguf" | cut -d' ' -f1 >"${2%/small}/got"
[ -z "$(find "$2" -name '*.part')" ] || exit 98
exit $status
EOF
small() { unshare -rm bash "$TMP/small.sh" "$c" "$TMP/small" "$1" "$2"; }
if unshare -rm true 2>/dev/null; then
    check_status "a full disk is reported before the work" 6 \
        'm.gguf: needs [0-9]+ bytes, the file system has [0-9]+ free; free some space' small empty $((bytes / 2048))
    check_status "what is kept needs no second place" 0 'resuming .*/small/m.gguf.part: ' \
        small kept $((bytes / 1024 + 1024))
    check_equal "to the same bytes" "$want" "$(cat "$TMP/got")"
    check_status "a read-only directory is reported" 1 'm.gguf.part: cannot create: Read-only file system' \
        small read-only $((bytes / 512))
else
    skip "a full disk is reported before the work" "no user namespaces here"
    skip "what is kept needs no second place" "no user namespaces here"
    skip "a read-only directory is reported" "no user namespaces here"
fi
rm -f "$model.part"
limited() { (ulimit -f $((bytes / 2048)) && exec "$FERRY" "$@"); }
check_status "a limit of the shell is no crash" 6 'm.gguf.part: cannot reserve [0-9]+ bytes: File too large' \
    limited convert "$c" --outtype q8_0 -o "$model"
check "a file to quantize" "$FERRY" convert "$c" -q --outtype f16 -o "$TMP/f16.gguf"
check_status "nor for quantize" 6 'm.gguf.part: cannot reserve [0-9]+ bytes: File too large' \
    limited quantize "$TMP/f16.gguf" "$model" q8_0
check "nothing is left of either" test ! -e "$model.part" -a ! -e "$model"
stopped_writing "$model" convert
check_status "two conversions to one name are distinguished" 1 'm.gguf.part: another ferry is writing it now' \
    "$FERRY" convert "$c" --outtype q8_0 -o "$model"
kill -CONT $pid
wait $pid
check_equal "and the first one is whole" "$want" "$(hash "$model")"
finish
