#!/usr/bin/env bash
# ferry up: from the checkpoint to the golden conversation on the phone; what is there is not made again.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

ARM=${DEVICE_EXE:-build/aarch64/release/ferry}
golden=tests/data/tales/golden.json
ferry=$(realpath "$FERRY")
export XDG_CACHE_HOME=$TMP/cache
jq -r '.chat[].messages[-1].content' $golden >"$TMP/questions"
jq -r '.chat[].text' $golden >"$TMP/answers"
head -1 "$TMP/questions" >"$TMP/question"
up() { # OPTION...
    status=0
    "$ferry" up "${checkpoint:-tests/data/tales}" --exe-path "$ARM" --outtype f32 --temp 0 -ctk f32 -ctv f32 "$@" \
        <"$TMP/questions" >"$TMP/out" 2>"$TMP/words" || status=$?
}
steps() { sed -n 's/^\(convert\|create\|doctor\|push\): skipped.*/\1/p' "$TMP/words" | xargs; }

# --- without a phone -------------------------------------------------------------------------------------------------
phone_server
check_status "without a phone nothing is wrong before one is needed" 0 '' "$ferry" up tests/data/tales --exe-path "$ARM" --to create
check_status "and then it is said" 5 'phone|device' "$ferry" up tests/data/tales --exe-path "$ARM" --to doctor
check_equal "a dry run needs none" "convert create doctor push chat" \
    "$("$ferry" up tests/data/tales --exe-path "$ARM" --dry-run 2>/dev/null | sed -n 's/^\([a-z]*\): .*/\1/p' | grep -v phone | xargs)"
check "and makes nothing" bash -c "! ls -d $TMP/cache/ferry/up/convert-*/record 2>/dev/null | sed -n 2p | grep ."

# --- the bar ---------------------------------------------------------------------------------------------------------
phone_start
up --device
check_equal "the golden conversation, from the checkpoint" "$(cat "$TMP/answers")" "$(cat "$TMP/out")"
check_equal "with exit status 0" 0 $status
check_equal "nothing was there to be skipped" "" "$(steps)"
check "the doctor looked" grep -q '^doctor: .* checks' "$TMP/words"
up --device
check_equal "again the same" "$(cat "$TMP/answers")" "$(cat "$TMP/out")"
check_equal "the second run does nothing but start" "convert create doctor push" "$(steps)"
check "it says why" grep -q '^convert: skipped: tests/data/tales has not changed since' "$TMP/words"
up -s "$ANDROID_SERIAL" -q
check_equal "-s and -q" "$(cat "$TMP/answers")" "$(cat "$TMP/out" "$TMP/words")"

# --- what is made again ------------------------------------------------------------------------------------------------
cp -r tests/data/tales "$TMP/tales"
touch "$TMP/tales"/*
checkpoint=$TMP/tales up --to create
check_equal "the same contents elsewhere are the same" "convert create" "$(steps)"
touch -d '2 days ago' "$TMP/tales"/*
checkpoint=$TMP/tales up --to create
check_equal "other times mean nothing" "convert create" "$(steps)"
jq '.eos_token_id = [764]' tests/data/tales/generation_config.json >"$TMP/tales/generation_config.json"
checkpoint=$TMP/tales up --to create
check_equal "another file means a new model" "" "$(steps)"
check_equal "what its old contents made is gone" 1 \
    "$(grep -lx "$(realpath "$TMP/tales")" "$TMP"/cache/ferry/up/convert-*/record | wc -l)"
up --to create --outtype q8_0
check_equal "another type means a new model" "" "$(steps)"
up --to create --outtype f32 --no-parity
check_equal "another option of create means a new workspace only" "convert" "$(steps)"
gguf=$(ls "$TMP"/cache/ferry/up/convert-*/tales.gguf | head -1)
for gguf in "$TMP"/cache/ferry/up/convert-*/tales.gguf; do
    printf x | dd of="$gguf" bs=1 seek=5000 conv=notrunc status=none
done
up --to convert
check "a result that was changed is noticed" grep -q 'was changed since it was made' "$TMP/words"
rm -r "$TMP/cache"
up --to create
check_equal "without the cache all is made" "" "$(steps)"

# --- a workspace of one's own ------------------------------------------------------------------------------------------
up -o "$TMP/mine" --to create
check "-o says where" test -f "$TMP/mine/manifest.json"
up -o "$TMP/mine" --to create
check_equal "and it is kept" "convert create" "$(steps)"
up -o "$TMP/mine" --to create --no-parity
check_equal "and replaced when it was ours" "0 convert" "$status $(steps)"
check "whole" "$ferry" verify "$TMP/mine"
mkdir "$TMP/yours"
echo words >"$TMP/yours/file"
up -o "$TMP/yours" --to create
check_equal "but not when it is somebody's" "2 words" "$status $(cat "$TMP/yours/file")"
check_equal "its name is that on the phone" "$(head -1 "$TMP/answers")" \
    "$(up -o "$TMP/mine" <"$TMP/question" && head -1 "$TMP/out")"
check "" adb shell test -e /data/local/tmp/ferry/mine/manifest.json

# --- a GGUF file, options, failures ------------------------------------------------------------------------------------
"$ferry" convert tests/data/tales --outtype f32 -q -o "$TMP/story.gguf"
status=0
"$ferry" up "$TMP/story.gguf" --exe-path "$ARM" --temp 0 -ctk f32 -ctv f32 <"$TMP/question" >"$TMP/out" 2>"$TMP/words" || status=$?
check_equal "a GGUF file is taken as it is" "0 $(head -1 "$TMP/answers")" "$status $(cat "$TMP/out")"
check_status "and not converted" 2 "is not converted" "$ferry" up "$TMP/story.gguf" --outtype q8_0
check_status "an option that nobody has" 2 "unknown option '--tmep'" "$ferry" up tests/data/tales --tmep 0
check_status "a bad value of chat's" 2 'chat: --temp' "$ferry" up tests/data/tales --exe-path "$ARM" --temp hot
check_status "no such checkpoint" 1 'nothing' "$ferry" up "$TMP/nothing"
check_status "the chat's exit status" 3 'exit status 3' "$ferry" up tests/data/tales --exe-path "$ARM" --outtype f32 -c 16 <"$TMP/question"
printf 'MemTotal: 30000 kB\nMemAvailable: 2000 kB\n' >"$(phone_root)/fake/meminfo"
up -o "$TMP/new" --outtype q8_0
check_equal "what the doctor finds stops it" 3 $status
check "nothing was pushed" bash -c '! adb shell test -e /data/local/tmp/ferry/new'
check "it says why" grep -q 'doctor: memory: fail' "$TMP/words"
up -o "$TMP/new" --outtype q8_0 --force --to push
check_equal "--force goes on" 0 $status
check "and pushes" adb shell test -e /data/local/tmp/ferry/new/manifest.json
finish
