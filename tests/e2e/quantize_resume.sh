#!/usr/bin/env bash
# A quantization that is killed at any moment goes on where it was, and the file has the same bytes as without; what it
# cannot resume it begins again and reports it; a full disk, a read-only directory, a truncated input leave nothing.
# FERRY_SEED chooses the moments.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

RANDOM=${FERRY_SEED:-9}
seed=$RANDOM
source=$TMP/f16.gguf model=$TMP/m.gguf
check "a file of 50 MB" build/host/release/tests/bench/make_gguf "$source" --type f16 --layers 2 --embd 1024 --ff 3072 --heads 16 --heads-kv 4 --vocab 4096
quantize() { # ARGUMENTS...
    exec "$FERRY" quantize "$source" "$model" q8_0 -t 1 "$@"
}
hash() { sha256sum <"$1" | cut -d' ' -f1; }
check "an uninterrupted quantization" "$FERRY" quantize "$source" "$model" q8_0 -t 1
want=$(hash "$model")
bytes=$(stat -c %s "$model")
rm -f "$model"
if ! grep -q '^wchar' /proc/self/io 2>/dev/null; then
    skip "interrupted quantizations go on" "this system does not count what a process writes (/proc/PID/io)"
    finish
    exit
fi

# --- killed ---------------------------------------------------------------------------------------------------------
# Every second one is stopped for longer than the time between two marks of the journal; every third is followed by one
# that is left alone.
some() { echo $(((RANDOM * 32768 + RANDOM) % (bytes / 3))); }
kills=0 wrong=0 failed=0 tries=0
killed() { # true when it was in time
    quantize 2>>"$TMP/log" &
    local pid=$! first status
    first=$(some)
    wait_written $pid "$first"
    if [ $((tries % 2)) -eq 0 ] && kill -STOP $pid 2>/dev/null; then
        sleep 0.26
        kill -CONT $pid
    fi
    wait_written $pid $((first + $(some)))
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    status=$?
    [ $status -eq 0 ] || [ $status -eq 137 ] || failed=$((failed + 1))
    [ $status -ne 0 ]
}
compare() { # the finished file
    [ "$(hash "$model")" = "$want" ] || wrong=$((wrong + 1))
    rm -f "$model"
}
soak 9 30
while [ $kills -lt "$rounds" ] && [ $tries -lt $((6 * rounds)) ]; do
    tries=$((tries + 1))
    if ! killed; then
        compare
        continue
    fi
    kills=$((kills + 1))
    if [ $((kills % 3)) -eq 0 ]; then
        (quantize) 2>>"$TMP/log" || failed=$((failed + 1))
        compare
    fi
done
went_on=$(grep -c '^resuming ' "$TMP/log")
echo "# seed $seed, $kills killed of $tries, $went_on went on"
check_equal "$rounds killed quantizations" "$rounds" "$kills"
check "some of them went on in the middle" test "$went_on" -ge $((rounds / 10))
check_equal "every file has the bytes of an uninterrupted one" "0 wrong, 0 failed" "$wrong wrong, $failed failed"
check "nothing is left beside it" test -z "$(find "$TMP" -name '*.part')"

# --- what is reported ---------------------------------------------------------------------------------------------------
half() { # leaves a part that is half done; again when it was done before its interrupt
    local pid
    for _ in {1..30}; do
        rm -f "$model"
        quantize "$@" 2>"$TMP/words" &
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
    "^ferry quantize: interrupted: .*/m.gguf.part keeps the [0-9]+ % that are done; the same command resumes" "$TMP/words"
(quantize) 2>"$TMP/words"
check "the same command resumes" grep -qE '^resuming .*/m.gguf.part: [0-9]+ % of it is there' "$TMP/words"
check_equal "to the same bytes" "$want" "$(hash "$model")"
half
touch -d '2 hours ago' "$source"
(quantize) 2>"$TMP/words"
check "a changed input is reported" grep -qE "m.gguf.part is of another .* and is replaced: 'source .*/f16.gguf" "$TMP/words"
check_equal "and quantized from the beginning" "$want" "$(hash "$model")"
half
(quantize --fit) 2>"$TMP/words"
check "another way of encoding is reported" grep -qE "is replaced: '--fit'" "$TMP/words"
half
(quantize --token-embedding-type f16) 2>"$TMP/words"
check "so are other types" grep -qE "is replaced: 'keys and tensors: " "$TMP/words"
half
: >"$model.part"
check "an emptied part is started over, with more threads" "$FERRY" quantize "$source" "$model" q8_0
check_equal "to the same bytes" "$want" "$(hash "$model")"
rm -f "$model"
half --resume=no
check "with --resume=no nothing is kept" test ! -e "$model.part"

# --- inputs, no space, no permission --------------------------------------------------------------------------------
head -c $((bytes / 2)) "$source" >"$TMP/cut.gguf"
check_status "a truncated input is refused" 1 'cut.gguf: .*(end|truncated|bytes)' "$FERRY" quantize "$TMP/cut.gguf" "$model" q8_0
check_status "the input is not overwritten" 2 'is the input' "$FERRY" quantize "$source" "$source" q8_0
ln -s f16.gguf "$TMP/m2.gguf.part"
check_status "nor by the part" 2 'is the input' "$FERRY" quantize "$source" "$TMP/m2.gguf" q8_0
rm "$TMP/m2.gguf.part"
cat >"$TMP/small.sh" <<'EOS'
# SOURCE DIRECTORY CASE KIB
mkdir -p "$2" && mount -t tmpfs -o size=$(($4 * 1024)) tmpfs "$2" || exit 99
[ "$3" != read-only ] || mount -o remount,ro "$2"
"$FERRY" quantize "$1" "$2/m.gguf" q8_0
status=$?
[ -z "$(find "$2" -type f)" ] || exit 98
exit $status
EOS
small() { unshare -rm bash "$TMP/small.sh" "$source" "$TMP/small" "$1" "$2"; }
if unshare -rm true 2>/dev/null; then
    check_status "a full disk is reported before the work, and nothing is left" 6 \
        'm.gguf: needs [0-9]+ bytes, the file system has [0-9]+ free; free some space' small full $((bytes / 2048))
    check_status "a read-only directory is reported" 1 'm.gguf.part: cannot create: Read-only file system' \
        small read-only $((bytes / 512))
else
    skip "a full disk is reported before the work, and nothing is left" "no user namespaces here"
    skip "a read-only directory is reported" "no user namespaces here"
fi
limited() { (ulimit -f $((bytes / 2048)) && exec "$FERRY" quantize "$source" "$model" q8_0); }
check_status "a limit of the shell is no crash" 6 'm.gguf.part: cannot reserve [0-9]+ bytes: File too large' limited
check "nothing is left" test ! -e "$model.part" -a ! -e "$model"
stopped_writing "$model" quantize
check_status "two to one name are distinguished" 1 'm.gguf.part: another ferry is writing it now' \
    "$FERRY" quantize "$source" "$model" q8_0
kill -CONT $pid
wait $pid
check_equal "and the first one is whole" "$want" "$(hash "$model")"
finish
