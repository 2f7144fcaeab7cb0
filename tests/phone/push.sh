#!/usr/bin/env bash
# ferry push and pull on the emulated phone: what travels, and what is left when something goes wrong.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

exe=${FERRY_ARM##* }
make_checkpoint=${MAKE_CHECKPOINT:-build/host/release/tests/bench/make_checkpoint}
there=/data/local/tmp/ferry

workspace() { # DIR GGUF
    rm -rf "$1"
    "$FERRY" create "$2" --copy --exe-path "$exe" -o "$1" -q 2>"$TMP/create.log" || cat "$TMP/create.log" >&2
}
on_host() { echo "$(phone_root)$there/$1"; }
whole() { "$FERRY" verify "$(on_host "$1")"; } # what the phone has, seen from here
push() { "$FERRY" push "$@" --json 2>"$TMP/push.log" >"$TMP/push.json" || { cat "$TMP/push.log" >&2 && return 1; }; }
json() { jq -r ".$1" "$TMP/push.json"; }
at_most() { [ "$1" -le "$2" ] || { echo "$1 > $2" && false; }; }

"$FERRY" convert tests/data/tales --outtype q4_0 -o "$TMP/tales.gguf" -q
workspace "$TMP/tales" "$TMP/tales.gguf"
phone_start

# --- a first push, the same again, a small change --------------------------------------------------------------------
check "a workspace is pushed" push "$TMP/tales"
check_equal "with the helper" "true false" "$(json helper) $(json up_to_date)"
check "and whole on the phone" whole tales
check_equal "its program runs there" ferry "$(adb shell $there/tales/bin/ferry --version | cut -d' ' -f1)"
check_equal "the name is a link to the version" ".versions/tales-$(sha256sum "$TMP/tales/manifest.json" | cut -c1-12)" \
    "$(readlink "$(on_host tales)")"
check_equal "the program travelled once, as helper" 1 \
    "$(($(json sent_bytes) < $(json bytes) + 20000 ? 1 : 0))"
PTY=${PTY:-build/host/release/tests/e2e/pty_drive}
if [ -x "$PTY" ]; then
    printf '%s\n' 'resize 50 200' 'wait next: ferry chat --device -d tales' 'end 0' >"$TMP/steps"
    check "on a terminal the next step is shown" env TERM=xterm "$PTY" "$TMP/steps" "$FERRY" push "$TMP/tales"
fi
before=$(phone_bytes)
check "the same once more" push "$TMP/tales"
check_equal "is up to date" true "$(json up_to_date)"
check "and moves less than 100 KiB, by its own count" at_most "$(json sent_bytes)" 102400
moved=$(($(phone_bytes) - before))
check "and by the phone's" at_most $moved 102400
echo "# $(json bytes) bytes, unchanged: $(json sent_bytes) sent, $moved over the link both ways"
# --- a package for the NPU, as PowerServe publishes them ---------------------------------------------------------------
make_package "$TMP/package" "$TMP/tales.gguf" "$TMP/tales/tales/model.json"
check "a package goes through create" "$FERRY" create "$TMP/package" --exe-path "$exe" -o "$TMP/npu" -q
check "verify" "$FERRY" verify "$TMP/npu" -q
check "and push" push "$TMP/npu"
check "which sends nothing that another workspace has brought" at_most "$(json sent_bytes)" 600000
check_equal "to the last file" "" "$(diff -r "$TMP/npu" "$(on_host npu)" 2>&1)"
check "where it runs on the CPU" "$FERRY" run --device -d "$TMP/npu" -p 'One day' -n 2 -q

# --- a compiled model ------------------------------------------------------------------------------------------------
"$FERRY" convert tests/data/tales --outtype f16 -q -o "$TMP/f16.gguf"
"$FERRY" chunk "$TMP/f16.gguf" --soc SM8650 --recipe fp16 -q -o "$TMP/cut"
check "a compiled model" "$FERRY" compile "$TMP/cut" --sdk reference -q -o "$TMP/out"
check "goes through create" "$FERRY" create "$TMP/out" --exe-path "$exe" -o "$TMP/compiled" -q
check "and push" push "$TMP/compiled"
check_equal "with binaries, descriptions and empty presets" "" "$(diff -r "$TMP/compiled" "$(on_host compiled)" 2>&1)"
check "and whole" whole compiled

# --- large files -----------------------------------------------------------------------------------------------------
"$make_checkpoint" "$TMP/checkpoint" layers=7 dim=512 ffn=2048 heads=8 kv=4 head_dim=64 vocab=8192 shards=1 >/dev/null 2>&1
"$FERRY" convert "$TMP/checkpoint" --outtype f16 -o "$TMP/big.gguf" -q
workspace "$TMP/big" "$TMP/big.gguf"
before=$(phone_bytes)
check "64 MB are pushed" push "$TMP/big"
check "and whole" whole big
check "nothing travels twice" at_most "$(($(phone_bytes) - before))" $(($(json bytes) * 101 / 100))
check_equal "the helper was there" 1 "$(($(json sent_bytes) < $(json bytes) ? 1 : 0))"
offset=$("$FERRY" inspect "$TMP/big.gguf" --json | jq '.data_offset as $d | .tensors[] | select(.name == "blk.3.ffn_gate.weight") |
    if .bytes != 2097152 then error("not 2 MiB") else .offset end')
data=$("$FERRY" inspect "$TMP/big.gguf" --json | jq .data_offset)
cp "$TMP/big.gguf" "$TMP/changed.gguf"
head -c 2097152 /dev/zero | dd of="$TMP/changed.gguf" bs=4096 seek=$((data + offset)) oflag=seek_bytes conv=notrunc status=none
mkdir "$TMP/next"
cp "$TMP/changed.gguf" "$TMP/next/big.gguf"
workspace "$TMP/next/big" "$TMP/next/big.gguf"
before=$(phone_bytes)
check "a changed tensor of 2 MiB is pushed" push "$TMP/next/big"
check "and moves at most 8 MiB and 1 %, by its own count" at_most "$(json sent_bytes)" 8472494
moved=$(($(phone_bytes) - before))
check "and by the phone's" at_most $moved 8472494
echo "# $(json bytes) bytes, 2 MiB changed: $(json sent_bytes) sent, $moved over the link both ways"
check "the new version is whole" whole big
check_equal "the older one is kept, and said" "1 true" "$(json older_versions) $(grep -q 'older version kept.*--prune removes it' "$TMP/push.log" && echo true)"
check "its size is named" grep -qE 'kept there, 6[0-9]\.[0-9] MB' "$TMP/push.log"
before=$(phone_bytes)
check "going back needs no byte of it" push "$TMP/big"
check "by its own count" at_most "$(json sent_bytes)" 102400
moved=$(($(phone_bytes) - before))
check "and the phone's" at_most $moved 102400
echo "# $(json bytes) bytes, all there: $(json sent_bytes) sent, $moved over the link both ways"
check "--prune" push "$TMP/big" --prune
check_equal "removes it" "0 1" "$(json older_versions) $(find "$(phone_root)$there/.versions" -maxdepth 1 -name 'big-*' | wc -l)"

# --- pull ------------------------------------------------------------------------------------------------------------
check "a workspace is pulled" "$FERRY" pull tales -o "$TMP/back"
check_equal "as it was pushed" "" "$(diff -r "$TMP/tales" "$TMP/back" 2>&1)"
check "a file is pulled" "$FERRY" pull $there/tales/manifest.json -o "$TMP/manifest"
check "unchanged" cmp "$TMP/tales/manifest.json" "$TMP/manifest"
adb shell "mkdir -p $there/notes/sub; echo hello > $there/notes/sub/a; : > $there/notes/b"
check "a directory is pulled" "$FERRY" pull notes -o "$TMP/notes"
check_equal "with what is in it" "b sub sub/a" "$(cd "$TMP/notes" && find . -mindepth 1 | sed 's,^./,,' | sort | xargs)"
phone_set extra=20000000
check_status "a phone that sends more than a file's listed bytes is stopped" 5 'more bytes than it listed' \
    "$FERRY" pull /system/build.prop -o "$TMP/prop.more"
check_status "in a directory" 5 'more bytes than it listed' "$FERRY" pull notes -o "$TMP/notes.more"
check_status "and in a workspace" 5 'more bytes than it listed' "$FERRY" pull tales -o "$TMP/tales.more"
check_status "and for the output of a call on the phone" 5 'more bytes than it listed' \
    "$FERRY" run --device -d "$TMP/tales" -p 'One day' -n 1 --logits-out "$TMP/logits.more" -q
check_equal "and nothing of it is left" "" "$(ls -d "$TMP"/*.more* 2>/dev/null)"
phone_set
check_status "what is not there is said" 5 'there is nothing of this name' "$FERRY" pull nothing -o "$TMP/nothing"
printf x | dd of="$(on_host tales/hparams.json)" bs=1 seek=3 conv=notrunc status=none
check_status "damage on the phone is found by pull" 4 'hparams.json' "$FERRY" pull tales -o "$TMP/damaged"
check "which leaves nothing" bash -c '! [ -e "$0" ] && ! [ -e "$0.part" ]' "$TMP/damaged"
check "and mended by push" push "$TMP/tales"
check "with one file" at_most "$(json sent_bytes)" 102400
check "for good" whole tales

# --- without the helper ----------------------------------------------------------------------------------------------
check "every file is sent without it" push "$TMP/tales" --no-helper --to $there/plain
check_equal "and that is said" "false true" "$(json helper) $(grep -q 'every file is sent' "$TMP/push.log" && echo true)"
check "they are whole" whole plain
check "the helper goes on where plain sync was" push "$TMP/tales" --to $there/plain
check_equal "and finds it complete" true "$(json up_to_date)"
printf '#!/system/bin/sh\nexit 7\n' >"$TMP/broken"
chmod 755 "$TMP/broken"
truncate -s "$(stat -c %s "$exe")" "$TMP/broken"
mv "$TMP/broken" "$(find "$(phone_root)$there/.agent" -type f)"
check "a helper that is damaged on the phone is sent again" push "$TMP/tales"
check_equal "and used" "true true" "$(json helper) $(json up_to_date)"
mkdir "$TMP/foreign"
"$FERRY" create "$TMP/tales.gguf" --copy --exe-path "$exe" -o "$TMP/foreign/tales" -q
phone_set full_after=1000000
check_status "a phone that fills up is distinguished" 6 'No space left|no space' "$FERRY" push "$TMP/foreign/tales" --no-helper --to $there/full
phone_set exit_lost=1
check_status "a lost exit status is not success" 5 'exit status' "$FERRY" push "$TMP/tales" --no-helper --to $there/lost
check "and does not matter to the helper" push "$TMP/tales" --to $there/lost
phone_set
check_equal "nothing is left under a name" "" "$(ls -d "$(on_host full)" 2>/dev/null)"

# --- refusals --------------------------------------------------------------------------------------------------------
cp -r "$TMP/tales" "$TMP/signed"
reached() { phone_used '^(exec|SEND)'; } # requests to run or to write something, so far
before=$(reached)
check "the phone counts what it is asked for" test "$before" -gt 10
check_status "what nobody has signed is refused on demand" 4 'manifest.sig: not signed' "$FERRY" push "$TMP/signed" --require-signature
"$FERRY" keygen -o "$TMP/me" -q
"$FERRY" keygen -o "$TMP/other" -q
"$FERRY" sign "$TMP/signed" --key "$TMP/me.pem" -q
check_status "so is another signer" 4 'manifest.sig: WRONG signature' "$FERRY" push "$TMP/signed" --key "$TMP/other.pub.pem"
check_equal "nothing of either was sent or run" "$before" "$(reached)"
refused() { # NAME PATTERN DIR [OPTION]: exit status 4 (1: a manifest that cannot be read), one clear message, nothing installed
    local name=$1 pattern=$2 dir=$3 status=0 err
    shift 3
    err=$("$FERRY" push "$dir" "$@" 2>&1 >/dev/null) || status=$?
    if [[ $status = [14] ]] && grep -qE -- "$pattern" <<<"$err" && ! [ -e "$(on_host "${dir##*/}")" ]; then
        ok "$name"
    else
        not_ok "$name" "exit status $status: $err"
    fi
}
flip() { # FILE: one bit in its middle
    local at=$(($(stat -c %s "$1") / 2)) byte
    byte=$(od -An -tu1 -j $at -N 1 "$1")
    # shellcheck disable=SC2059
    printf "\\x$(printf %02x $((byte ^ 1 << at % 8)))" | dd of="$1" bs=1 seek=$at conv=notrunc status=none
}
files=0
while read -r path; do
    rm -rf "$TMP/bad"
    cp -r "$TMP/signed" "$TMP/bad"
    flip "$TMP/bad/$path"
    named=$path
    [ "$path" = manifest.pub.pem ] && named='manifest.(sig|pub.pem)'
    before=$(reached)
    refused "one flipped bit in $path is refused" "$named" "$TMP/bad"
    case $path in
    manifest.* | bin/ferry) check_equal "and nothing was sent or run" "$before" "$(reached)" ;;
    esac
    files=$((files + 1))
done < <(cd "$TMP/signed" && find . -type f | sed 's,^\./,,' | LC_ALL=C sort)
check "every file had its turn" test $files -ge 9
rm -rf "$TMP/bad"
cp -r "$TMP/signed" "$TMP/bad"
flip "$TMP/bad/hparams.json"
refused "without the helper too" 'hparams.json: changed' "$TMP/bad" --no-helper
check "the signer's own key counts" push "$TMP/signed" --key "$TMP/me.pub.pem"
check "and the signature is on the phone" cmp "$TMP/signed/manifest.sig" "$(on_host signed/manifest.sig)"
check_status "a place that is not a name is refused" 2 'expected an absolute path' "$FERRY" push "$TMP/tales" --to '/data/local/tmp/a b'
mkdir -p "$(on_host mine)"
check_status "what is in the way is left alone" 5 'not a link that a push made' "$FERRY" push "$TMP/tales" --to $there/mine
phone_set unauthorized=1
adb disconnect >/dev/null
adb connect "$ANDROID_SERIAL" >/dev/null 2>&1
check_status "an unauthorized phone is distinguished" 5 'unauthorized' "$FERRY" push "$TMP/tales"
phone_set
adb disconnect >/dev/null
phone_wait
first=$ANDROID_SERIAL
phone_start second
check_status "of two phones one has to be named" 5 'ANDROID_SERIAL|-s' env -u ANDROID_SERIAL "$FERRY" push "$TMP/tales"
check "-s does" env -u ANDROID_SERIAL "$FERRY" push "$TMP/tales" -s "$first" -q
export ANDROID_SERIAL=$first
PHONE_NAME=phone

# --- a cable that is pulled ------------------------------------------------------------------------------------------
seed=${SEED:-$RANDOM}
RANDOM=$seed
mkdir "$TMP/a" "$TMP/b"
"$FERRY" convert tests/data/tales --outtype q8_0 -o "$TMP/tales8.gguf" -q
workspace "$TMP/a/cut" "$TMP/tales.gguf"
workspace "$TMP/b/cut" "$TMP/tales8.gguf"
soak 12 100
dropped=0 pushed=0 bad='' target=a begin=$SECONDS
while [ "$dropped" -lt "$rounds" ] && [ $((SECONDS - begin)) -lt 400 ]; do
    size=$(stat -c %s "$TMP/$target/cut"/*/ggml/weights.gguf)
    phone_set drop_after=$(((RANDOM * 32768 + RANDOM) % (size + 100000) + 1))
    status=0
    "$FERRY" push "$TMP/$target/cut" --prune -q 2>"$TMP/push.log" || status=$?
    case $status in
    0)
        pushed=$((pushed + 1))
        cmp -s "$TMP/$target/cut/manifest.json" "$(on_host cut/manifest.json)" || bad+="not switched;"
        target=$([ $target = a ] && echo b || echo a)
        ;;
    5)
        dropped=$((dropped + 1))
        grep -qE 'lost|offline|not found|no device|is gone|went away' "$TMP/push.log" || bad+="$(cat "$TMP/push.log");"
        phone_wait || bad+="the phone did not come back;"
        ;;
    *) bad+="exit status $status: $(cat "$TMP/push.log");" ;;
    esac
    if [ -e "$(on_host cut)" ]; then
        whole cut >/dev/null || bad+="half a version under the name;"
    fi
done
phone_set
check_equal "$dropped drops at random bytes, seed $seed: a clear message, whole versions only ($pushed finished)" "" "$bad"
[ "$dropped" -ge "$rounds" ] || skip "$rounds drops" "only $dropped in 400 s on this machine"
check "then a push completes" push "$TMP/$target/cut" --prune
check "and is whole" whole cut
check_equal "nothing else is left of it" 1 "$(find "$(phone_root)$there/.versions" -maxdepth 1 -name 'cut-*' | wc -l)"
echo "# $dropped drops in $((SECONDS - begin)) s"

# --- Ctrl-C ----------------------------------------------------------------------------------------------------------
has_part() { compgen -G "$(phone_root)$there/.versions/$1-*.part"; } # NAME
phone_set rate=50000 # the tensor that changed takes 40 s
"$FERRY" push "$TMP/next/big" --to $there/stopped -q 2>"$TMP/stopped.log" &
pusher=$!
wait_for 120 has_part stopped
before=$(phone_bytes)
interrupt $pusher
check_equal "Ctrl-C ends a push" "130" "$status"
check "long before all is sent" at_most $(($(phone_bytes) - before)) 1000000
phone_set

# --- a helper that is killed ---------------------------------------------------------------------------------------
helper_of_phone() { # the process that runs the agent, below the phone's own
    local up pids
    pids=$(cat "$TMP/phones/$PHONE_NAME/pid")
    for _ in 1 2 3 4; do
        up=$(for p in $pids; do pgrep -P "$p"; done)
        [ -n "$up" ] && pids=$up
    done
    for p in $pids; do
        tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -q ' agent $' && echo "$p"
    done
}
phone_set rate=50000
"$FERRY" push "$TMP/next/big" --to $there/killed -q 2>"$TMP/killed.log" &
pusher=$!
helper_works() { has_part killed && helper=$(helper_of_phone) && [ -n "$helper" ]; }
wait_for 120 helper_works
for p in $helper; do kill -9 "$p"; done
status=0
wait $pusher || status=$?
check_equal "a helper that is killed" "5 1" "$status $(grep -c 'helper was ended' "$TMP/killed.log")"
check "leaves nothing under the name" bash -c '! [ -e "$0" ]' "$(on_host killed)"
phone_set
check "the next push goes on" push "$TMP/next/big" --to $there/killed
check "and is whole" whole killed

# --- a phone that is full --------------------------------------------------------------------------------------------
if phone_can_limit; then
    phone_start small 24m
    check_status "a phone without room says how much" 6 'needs [0-9.]+ MB more, [0-9.]+ MB are free' "$FERRY" push "$TMP/big"
    check "what fits is pushed" push "$TMP/tales"
    check_status "so does plain sync" 6 'needs [0-9.]+ MB, [0-9.]+ MB are free' "$FERRY" push "$TMP/big" --no-helper
    check_equal "nothing is left under the name" "no" "$(adb shell "[ -e $there/big ] && echo yes || echo no" | tr -d '\r')"
else
    skip "a full phone" "needs user namespaces"
fi
finish
