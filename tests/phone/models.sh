#!/usr/bin/env bash
# A model file with --device: sent once, kept on the phone, resumed, capped, and never used unchecked.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

export FERRY_EXE_PATH=${FERRY_ARM##* } XDG_CACHE_HOME=$TMP/cache
PTY=${PTY:-build/host/release/tests/e2e/pty_drive}
make_checkpoint=${MAKE_CHECKPOINT:-build/host/release/tests/bench/make_checkpoint}
there=/data/local/tmp/ferry models=/data/local/tmp/ferry/.models/.versions
at_most() { [ "$1" -le "$2" ] || { echo "$1 > $2" && false; }; }
at_least() { [ "$1" -ge "$2" ] || { echo "$1 < $2" && false; }; }
kept() { adb shell "ls $models 2>/dev/null" | tr -d '\r' | sed 's/-[0-9a-f]*\(.part\)*$/\1/' | sort | xargs; }
on_host() { echo "$(phone_root)$models"; }
exact=(--temp 0 -ctk f32 -ctv f32)
moved() { # COMMAND...: bytes over the link while it runs; its status and output are kept
    local before
    before=$(phone_bytes 2>/dev/null)
    status=0
    "$@" >"$TMP/out" 2>"$TMP/err" || status=$?
    moved=$(($(phone_bytes) - ${before:-0}))
}
first() { moved "$FERRY" run --device -m "$@" -p 'Once upon a time' -n 6 "${exact[@]}"; }

"$FERRY" convert tests/data/tales --outtype f32 -q -o "$TMP/tales.gguf"
"$FERRY" convert tests/data/tales --outtype q8_0 -q -o "$TMP/other.gguf"
bytes=$(stat -c %s "$TMP/tales.gguf")
head -c 600 README.md >"$TMP/short"
phone_start

# --- sent once ---------------------------------------------------------------------------------------------------------
first "$TMP/tales.gguf"
check_equal "a model file runs there as here" "$("$FERRY" run -m "$TMP/tales.gguf" -p 'Once upon a time' -n 6 "${exact[@]}" 2>/dev/null)" "$(cat "$TMP/out")"
check "what was sent is said, and that it stays" grep -qE '^tales: 1\.[0-9] MB, sent 1\.[0-9] MB in .*it stays on the phone' <<<"$(grep -a MB "$TMP/err" | sed 's/^tales: [0-9.]* MB, sent [0-9.]*/tales: 1.0 MB, sent 1.0/')"
check_equal "it is kept" tales "$(kept)"
check_equal "and nothing else" "" "$(adb shell "ls -A $there/.tmp 2>/dev/null")"
before=$(phone_used '^SEND')
first "$TMP/tales.gguf"
check_equal "the next call sends no file" "$before" "$(phone_used '^SEND')"
check "and less than 100 KiB" at_most "$moved" 102400
check "and says nothing of it" bash -c '! grep -q "to the phone\|on the phone" "$0"' "$TMP/err"
cp "$TMP/tales.gguf" "$TMP/a model's name.gguf"
first "$TMP/a model's name.gguf"
check "another name of the same contents sends nothing" at_most "$moved" 102400
check_equal "but runs" 0 "$status"
check "a workspace with that model" "$FERRY" create "$TMP/tales.gguf" -o "$TMP/ws" --exe-path "$FERRY_EXE_PATH" --no-parity -q
moved "$FERRY" push "$TMP/ws" -q
check "is pushed without sending it again" at_most "$moved" 300000
"$FERRY" create "$TMP/other.gguf" -o "$TMP/ws2" --exe-path "$FERRY_EXE_PATH" --no-parity -q
"$FERRY" push "$TMP/ws2" -q
first "$TMP/other.gguf"
check "and a model that came with a workspace is there" at_most "$moved" 102400
check_equal "which runs" 0 "$status"
for verb in eval bench tokenize template; do
    case $verb in
    eval) words=(-m "$TMP/tales.gguf" --text "$TMP/short" -c 64) ;;
    bench) words=(-m "$TMP/tales.gguf" -p 0 -n 2 -r 1) ;;
    tokenize) words=(-m "$TMP/tales.gguf" hello) ;;
    template) words=(-m "$TMP/tales.gguf") ;;
    esac
    moved "$FERRY" "$verb" --device "${words[@]}"
    check_equal "$verb takes it, too" "0 1" "$status $((moved < 200000))"
done
printf 'hello' >"$TMP/text.gguf"
before=$(phone_used '^(exec|SEND)')
check_status "what is not a model is refused here" 1 'GGUF|magic' "$FERRY" run --device -m "$TMP/text.gguf" -p x
check_equal "before anything is sent or run" "$before" "$(phone_used '^(exec|SEND)')"
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$TMP/split.gguf" --split-max-size 500K 2>/dev/null || "$FERRY" convert tests/data/tales --outtype f32 -q -o "$TMP/split.gguf" --split-max-size 1M
part=$(find "$TMP" -maxdepth 1 -name 'split-00001-of-*.gguf')
first "$part"
check_equal "a split model goes as a whole" "$("$FERRY" run -m "$part" -p 'Once upon a time' -n 6 "${exact[@]}" 2>/dev/null)" "$(cat "$TMP/out")"

check "hashes of unchanged files are kept here" bash -c 'ls "$0"/ferry/phone/hashes-* >/dev/null' "$XDG_CACHE_HOME"

# --- checked ------------------------------------------------------------------------------------------------------------
model=$(find "$(on_host)" -path '*/tales-*/model.gguf')
printf x | dd of="$model" bs=1 seek=$((bytes / 2)) conv=notrunc status=none
first "$TMP/tales.gguf"
check "a model that changed on the phone is mended before it is used" cmp "$TMP/tales.gguf" "$(find "$(on_host)" -path '*/tales-*/model.gguf')"
program=$(find "$(phone_root)$there/.agent" -type f)
printf '#!/system/bin/sh\nexit 7\n' >"$TMP/broken"
truncate -s "$(stat -c %s "$program")" "$TMP/broken"
cp "$TMP/broken" "$program"
first "$TMP/tales.gguf"
check_equal "so is a program" 0 "$status"
check "which is then what it was" cmp "$FERRY_EXE_PATH" "$program"
touch -d '2001-01-01' "$TMP/tales.gguf"
cp "$TMP/other.gguf" "$TMP/tales2.gguf"
first "$TMP/tales2.gguf"
cat "$TMP/tales.gguf" >"$TMP/tales2.gguf"
first "$TMP/tales2.gguf"
check_equal "a file that changed here is another model" 0 "$status"
check "by its contents" cmp "$TMP/tales.gguf" "$(find "$(on_host)" -path '*/tales2-*/model.gguf' -size "$((bytes / 512 + 1))")"

# --- the bar --------------------------------------------------------------------------------------------------------------
"$make_checkpoint" "$TMP/checkpoint" layers=3 dim=256 ffn=1024 heads=8 kv=4 head_dim=32 vocab=8192 shards=1 >/dev/null 2>&1
"$FERRY" convert "$TMP/checkpoint" --outtype f16 -o "$TMP/big.gguf" -q
big=$(stat -c %s "$TMP/big.gguf")
phone_set rate=6000000
printf 'end any\n' >"$TMP/steps"
TERM=xterm "$PTY" -o "$TMP/seen" "$TMP/steps" "$FERRY" tokenize --device -m "$TMP/big.gguf" a >/dev/null 2>&1
check "a terminal sees how far it is" grep -qaE 'big to the phone \[#+\.*\] +[0-9]+ %' "$TMP/seen"
check "and that it was sent" grep -qaE 'big: [0-9.]+ MB, sent' "$TMP/seen"
check "no path of ours is shown" bash -c '! grep -qa "\.versions\|\.tmp" "$0"' "$TMP/seen"
rm -r "$(on_host)"/big-*

# --- Ctrl-C, and a lost cable -------------------------------------------------------------------------------------------
phone_set rate=500000 # all of it takes half a minute
"$FERRY" tokenize --device -m "$TMP/big.gguf" a >/dev/null 2>"$TMP/err" &
pid=$!
before=$(phone_bytes)
half_has_passed() { [ $(($(phone_bytes) - before)) -ge 5000000 ]; }
check "half of it is sent" wait_for 120 half_has_passed
before=$(phone_bytes)
interrupt $pid
check_equal "Ctrl-C ends it" 130 "$status"
check "long before all is sent" at_most $(($(phone_bytes) - before)) $((big / 3))
check "what happened is said" grep -qE 'interrupted while .*big.gguf was brought to the phone; .* the same command resumes' "$TMP/err"
check "without a path on the phone" bash -c '! grep -q /data "$0"' "$TMP/err"
phone_set
moved "$FERRY" tokenize --device -m "$TMP/big.gguf" a
check "what has arrived is not sent again" at_most "$moved" $((big - 1000000))
check_equal "the call succeeds" 0 "$status"
rm -r "$(on_host)"/big-*
phone_set drop_after=$((big / 2))
check_status "a lost cable is said, and what to do" 5 'same command again to resume|lost' "$FERRY" tokenize --device -m "$TMP/big.gguf" a
phone_wait
phone_set
moved "$FERRY" tokenize --device -m "$TMP/big.gguf" a
check "the rest is sent" at_most "$moved" $((big - 2000000))
check_equal "and used" 0 "$status"

# --- the cap ------------------------------------------------------------------------------------------------------------
adb shell "rm -rf $there/.models"
"$FERRY" convert tests/data/tales --outtype f16 -q -o "$TMP/third.gguf"
adb shell "rm -rf $there/.versions $there/ws $there/ws2"
first "$TMP/tales.gguf"
first "$TMP/other.gguf"
adb shell "touch -d '2020-01-01 00:00:00' $models/other-*"
first "$TMP/third.gguf" --cache-size $((bytes + $(stat -c %s "$TMP/third.gguf") + 150000))
check_equal "what was used longest ago goes when there are too many" "tales third" "$(kept)"
check "it is reported" grep -qE 'removed other from the phone.s cache of models: [0-9.]+ MB' "$TMP/err"
first "$TMP/other.gguf" --cache-size 0
check_equal "without a cache none stays" "0 " "$status $(kept)"
check "it is reported, too" grep -q 'it is removed after this call' "$TMP/err"
check_status "a size has to be one" 2 'cache-size' "$FERRY" run --device -m "$TMP/tales.gguf" --cache-size much -p x

# --- a full phone ---------------------------------------------------------------------------------------------------------
if phone_can_limit; then
    phone_start small 17m
    first "$TMP/tales.gguf"
    check_equal "a small phone takes a small model" "0 tales" "$status $(kept)"
    first "$TMP/other.gguf"
    moved "$FERRY" tokenize --device -m "$TMP/big.gguf" a
    check_equal "the cache gives way to a new one, the oldest first" "0 0" "$status $(kept | grep -c tales)"
    adb shell "rm -rf $there/.models; dd if=/dev/zero of=/data/local/tmp/full bs=1048576 count=8 2>/dev/null"
    first "$TMP/other.gguf"
    check_status "a full phone says how much" 6 'needs [0-9.]+ MB more, [0-9.]+ MB are free' "$FERRY" tokenize --device -m "$TMP/big.gguf" a
    check_equal "and keeps what it has" other "$(kept)"
else
    skip "a full phone" "needs user namespaces"
fi
finish
