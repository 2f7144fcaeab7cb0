#!/usr/bin/env bash
# ferry list --device and rm --device: what of ours is on the phone, and nothing else.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

PTY=$(realpath "${PTY:-build/host/release/tests/e2e/pty_drive}")
export FERRY_EXE_PATH=${FERRY_ARM##* } XDG_CACHE_HOME=$TMP/cache TERM=xterm
there=/data/local/tmp/ferry
listed() { "$FERRY" list --device --json | jq -r '.items[] | "\(.kind) \(.name)\(if .incomplete then " part" else "" end)"' | sort | paste -sd,; }

"$FERRY" convert tests/data/tales --outtype q8_0 -q -o "$TMP/story.gguf"
"$FERRY" convert tests/data/tales --outtype q4_0 -q -o "$TMP/tales.gguf"
"$FERRY" create "$TMP/tales.gguf" -o "$TMP/tales" --copy --exe-path "$FERRY_EXE_PATH" --no-parity -q
phone_start
root=$(phone_root)$there
check_equal "an empty phone" "nothing of ferry's is there" "$("$FERRY" list --device | head -1)"
"$FERRY" push "$TMP/tales" -q
rm -rf "$TMP/tales"
"$FERRY" create "$TMP/tales.gguf" "$TMP/story.gguf" -o "$TMP/tales" --copy --exe-path "$FERRY_EXE_PATH" --no-parity -q
"$FERRY" push "$TMP/tales" -q
"$FERRY" tokenize --device -m "$TMP/tales.gguf" a >/dev/null 2>&1
cp "$TMP/story.gguf" "$TMP/other.gguf"
printf x >>"$TMP/other.gguf" # bytes after the data are allowed, and make another model
"$FERRY" tokenize --device -m "$TMP/other.gguf" a >/dev/null 2>&1
mkdir -p "$root/.models/.versions/broken-0123456789ab.part" "$root/.tmp/0011223344556677"
before=$(listed)
check_equal "workspaces, older versions, models, programs, what is left of broken calls" \
    "files of a call 0011223344556677,model broken part,model other,model tales,older version tales,workspace tales" \
    "$(sed 's/,program [^,]*//g' <<<"$before")"
check "as a table, with sizes and dates" grep -qE "^model +other +[0-9.]+ MB  $(date +%Y-)" <<<"$("$FERRY" list --device)"
check_equal "what a workspace shares counts once" 1 \
    "$(("$("$FERRY" list --device --json | jq '.items[] | select(.kind == "model" and .name == "tales").bytes')" < 200000))"

# --- what is not ours ------------------------------------------------------------------------------------------------------
mkdir -p "$(phone_root)/sdcard/photos" "$root/mine"
echo a >"$(phone_root)/sdcard/photos/a"
ln -s /sdcard/photos "$root/.models/.versions/link-0123456789ab"
mkdir "$root/.versions/"$'\e]0;x\a-0123456789ab' "$root/.versions/"$'a\nb-0123456789ab' "$root/.versions/-rf-0123456789ab" "$root/.versions/notes"
check_equal "names that no push makes are not listed" "$before" "$(listed | sed 's/,model link//; s/,older version -rf//')"
check_status "and not removed" 2 "nothing on the phone is called 'mine'" "$FERRY" rm --device --yes mine
check "a link is removed, not what it leads to" "$FERRY" rm --device --yes link
check "which is there still" test -e "$(phone_root)/sdcard/photos/a"
check "a name like an option" "$FERRY" rm --device --yes -- -rf
check_equal "goes alone" "$before" "$(listed)"

# --- rm ----------------------------------------------------------------------------------------------------------------------
check_status "without a terminal nothing is removed unasked" 2 '\-\-yes' "$FERRY" rm --device other
check_status "an unknown name" 2 "nothing on the phone is called 'nothing'" "$FERRY" rm --device --yes other nothing
check_equal "and nothing of either goes" "$before" "$(listed)"
printf 'wait model\nwait other\nwait [y/N]\nline n\nend 0\n' >"$TMP/steps"
check "it asks" "$PTY" -o "$TMP/seen" "$TMP/steps" "$FERRY" rm --device other
check_equal "no is no" "$before" "$(listed)"
printf 'wait [y/N]\nsend \\x03\nend 130\n' >"$TMP/steps"
check "Ctrl-C is no" "$PTY" -o "$TMP/seen" "$TMP/steps" "$FERRY" rm --device other
printf 'wait [y/N]\nline y\nwait removed model other\nend 0\n' >"$TMP/steps"
check "yes removes" "$PTY" -o "$TMP/seen" "$TMP/steps" "$FERRY" rm --device other
check_equal "what was named" "$(sed 's/,model other//' <<<"$before")" "$(listed)"
version=$(basename "$(readlink "$root/tales")")
older=$(find "$root/.versions" -maxdepth 1 -name 'tales-????????????' ! -name "$version" -printf '%f')
check "one version by its own name" "$FERRY" rm --device --yes "$older" 0011223344556677 broken
check_equal "leaves the workspace" "model tales,workspace tales" "$(listed | sed 's/,program [^,]*//g')"
check "which runs" "$FERRY" run --device -d tales -p Once -n 1 -q
check "a name is all of it" "$FERRY" rm --device --yes tales
check_equal "workspace and model" "" "$(listed | sed 's/program [^,]*,*//g')"
check "and no name leads nowhere" bash -c '! [ -L "$0/tales" ] && ! [ -L "$0/.models/tales" ]' "$root"
check "others are left" test -d "$root/mine"
finish
