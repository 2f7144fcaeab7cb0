#!/usr/bin/env bash
# ferry list and ferry rm: the hub's cache and workspaces, and that nothing else goes.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/hub_lib.sh
. tests/hub_lib.sh
ferry=$PWD/$FERRY
drive=$PWD/build/host/release/tests/e2e/pty_drive
export XDG_STATE_HOME=$TMP/state
state=$XDG_STATE_HOME/ferry/workspaces

# --- a cache and workspaces ------------------------------------------------------------------------------------------
commit=0123456789abcdef0123456789abcdef01234567
files=$hub/files/bo/tales-GGUF/$commit
mkdir -p "$files"
"$ferry" convert tests/data/tales --outtype q4_0 -q -o "$files/tales-Q4_0.gguf"
"$ferry" convert tests/data/tales --outtype q8_0 -q -o "$files/tales-Q8_0.gguf"
describe bo/tales-GGUF $commit main
start_hub
fresh
{ printf '\177ELF\2\1\1'; head -c 9 /dev/zero; printf '\2\0\267\0'; head -c 44 /dev/zero; } >"$TMP/exe"
create() { # DIR
    "$ferry" create "$files/tales-Q8_0.gguf" --copy --exe-path "$TMP/exe" --no-parity -o "$1" -q
}
names() {
    "$ferry" list --json | jq -r '.[] | "\(.kind) \(.name)"'
}
mkdir -p "$TMP/here/sub" "$TMP/there" "$TMP/empty"
cd "$TMP/empty" || exit 1
check_status "nothing is there" 0 "no model is in the hub's cache, and no workspace is known" "$ferry" list
check_equal "as JSON" "[]" "$("$ferry" list --json)"
"$ferry" fetch bo/tales-GGUF:Q4_0 -q >/dev/null
"$ferry" fetch bo/tales-GGUF:Q8_0 -q >/dev/null
(cd "$TMP/here" && create sub/one) && (cd "$TMP/there" && create two)
check_equal "create records the workspace" "$TMP/here/sub/one $TMP/there/two" "$(xargs <"$state")"
check_equal "list shows the cache and what was recorded" "model bo/tales-GGUF workspace $TMP/here/sub/one workspace $TMP/there/two" "$(names | xargs)"
check_equal "with the types" "Q4_0, Q8_0|q8_0|q8_0" "$("$ferry" list --json | jq -r '[.[].type] | join("|")')"
check_equal "and all bytes" "$(($(stat -c %s "$files/tales-Q4_0.gguf") + $(stat -c %s "$files/tales-Q8_0.gguf")))" \
    "$("$ferry" list --json | jq -r '.[0].bytes')"
check "a line for each, with the size and the day" \
    grep -qE "^model +[0-9.]+ MB  $(date -u +%Y)-[0-9-]+  bo/tales-GGUF  Q4_0, Q8_0$" <("$ferry" list)
touch -a -d '2020-02-03' "$TMP/there/two"/*/ggml/weights.gguf
find "$TMP/there/two" -type f -exec touch -d 2020-02-03 {} +
check_equal "looking is not using" "2020-02-03" "$("$ferry" list >/dev/null; stat -c %x "$TMP/there/two"/*/ggml/weights.gguf | cut -d' ' -f1)"
check_equal "the last use" "2020-02-03" "$("$ferry" list | awk '/two/ { print $4 }')"
rm "$state"
check_equal "without a record those below the current directory" "model bo/tales-GGUF workspace $TMP/here/sub/one" "$(cd "$TMP/here" && names | xargs)"
mkdir -p "$TMP/here/foreign" && echo '{"version": 2, "projects": {}}' >"$TMP/here/foreign/workspace.json"
check_equal "a workspace.json of another program is none" 2 "$(cd "$TMP/here" && names | wc -l)"
ln -s "$TMP/there" "$TMP/here/link"
check_equal "no link is followed" 2 "$(cd "$TMP/here" && names | wc -l)"
printf '%s\n' /nowhere relative "$TMP/there/two" "$TMP/here/foreign" '' >"$state"
check_equal "lines that lead nowhere are left out" "model bo/tales-GGUF workspace $TMP/there/two" "$(names | xargs)"
create "$TMP/there/three"
check_equal "and dropped when it is written" "$TMP/there/two $TMP/here/foreign $TMP/there/three" "$(xargs <"$state")"
cp "$state" "$TMP/kept"
(cd "$TMP/there" && for i in 1 2 3 4; do create "many$i" & done; wait)
check_equal "several at once are all recorded" 4 "$(grep -c many "$state")"
rm -r "$TMP"/there/many* && cp "$TMP/kept" "$state"

# --- rm --------------------------------------------------------------------------------------------------------------
check_status "without a terminal nothing goes" 2 "nobody can be asked here whether to remove it; give --yes" "$ferry" rm bo/tales-GGUF
for name in "$TMP/there" "$TMP/here/foreign" bo/other ann/tales .. / "$HF_HOME/hub" "$TMP/exe"; do
    check_status "not in the list: ${name#"$TMP"}" 2 "is neither a model nor a workspace that 'ferry list' shows; nothing is removed" "$ferry" rm "$name" --yes
done
check_status "one type of a repository" 2 "a repository goes as a whole.*'ferry rm bo/tales-GGUF'; nothing is removed" "$ferry" rm bo/tales-GGUF:Q8_0 --yes
check_status "one wrong name, and nothing goes" 2 "nothing is removed" "$ferry" rm bo/tales-GGUF bo/other --yes
check_equal "all are there" 3 "$(names | wc -l)"
echo mine >"$TMP/there/two/notes.txt"
echo outside >"$TMP/outside" && ln -s "$TMP/outside" "$TMP/there/two/out"
check_status "files of others stay" 0 "warning: 2 files in $TMP/there/two are not of the workspace and stay" "$ferry" rm "$TMP/there/two" --yes
check_equal "those alone" "notes.txt out" "$(cd "$TMP/there/two" && find . -mindepth 1 -printf '%P\n' | sort | xargs)"
check_equal "what a link leads to is there" outside "$(cat "$TMP/outside")"
check_equal "the list has it no more" "model bo/tales-GGUF workspace $TMP/there/three" "$(names | xargs)"
# a directory of the workspace that became a link
mkdir "$TMP/elsewhere" && mv "$TMP/there/three"/*/ggml/weights.gguf "$TMP/elsewhere"
ggml=$(find "$TMP/there/three" -type d -name ggml)
rmdir "$ggml" && ln -s "$TMP/elsewhere" "$ggml"
"$ferry" rm "$TMP/there/three" --yes >/dev/null 2>&1
check "what a linked directory holds stays" test -s "$TMP/elsewhere/weights.gguf"
check_status "frees what it reports" 0 "is removed; that freed [1-9][0-9.]* MB" bash -c "cd '$TMP/here' && '$ferry' rm sub/one --yes"
check "the workspace is gone" test ! -e "$TMP/here/sub/one"
"$ferry" create "$files/tales-Q8_0.gguf" --exe-path "$TMP/exe" --no-parity -o "$TMP/here/linked" -q
if [ "$(stat -c %h "$files/tales-Q8_0.gguf")" -gt 1 ]; then
    check_status "weights that are elsewhere too free nothing" 0 "that freed 0.[0-9] MB" bash -c "cd '$TMP/here' && '$ferry' rm linked --yes"
    check "and are there" test -s "$files/tales-Q8_0.gguf"
else
    skip "weights that are elsewhere too free nothing" "this file system clones"
fi
create "$TMP/here/plain" && rm "$TMP/here/plain/manifest.json"
check_status "a workspace that lost its manifest is not in the list" 2 "is neither a model nor a workspace" bash -c "cd '$TMP/here' && '$ferry' rm plain --yes"
# as PowerServe makes one: its programs, and no manifest
mv "$TMP/here/plain/bin/ferry" "$TMP/here/plain/bin/powerserve-run"
cp "$TMP/here/plain/bin/powerserve-run" "$TMP/here/plain/bin/powerserve-server"
rm -f "$TMP"/here/plain/*/parity.json
main=$(jq -r .model_main "$TMP/here/plain/workspace.json")
echo "{\"executables\": \"bin\", \"hparams_config\": \"hparams.json\", \"model_main\": \"$main\", \"model_draft\": \"\"}" >"$TMP/here/plain/workspace.json"
check_equal "one of PowerServe is" "workspace $TMP/here/plain" "$(cd "$TMP/here" && names 2>/dev/null | grep plain)"
check_status "but nothing says which files are its own" 2 "no manifest.json lists its files, so ferry does not know" bash -c "cd '$TMP/here' && '$ferry' rm plain --yes"
rm -r "$TMP/here/plain"

# --- the cache -------------------------------------------------------------------------------------------------------
storage=$HF_HOME/hub/models--bo--tales-GGUF
mkdir -p "$HF_HOME/hub/datasets--bo--x/blobs" "$HF_HOME/hub/models--ann--x" "$TMP/victim"
echo keep >"$TMP/victim/file"
ln -s "$TMP/victim" "$storage/snapshots/away"
exec 8>>"$HF_HOME/hub/.locks/models--bo--tales-GGUF/$(ls "$HF_HOME/hub/.locks/models--bo--tales-GGUF" | head -1)"
flock -n 8
check_status "not while a download goes on" 1 "bo/tales-GGUF: another program downloads into it now" "$ferry" rm bo/tales-GGUF --yes
exec 8>&-
at_terminal() { # SCRIPT ARGS...
    printf '%s\n' "$1" >"$TMP/script"
    shift
    TERM=xterm "$drive" "$TMP/script" "$ferry" "$@"
}
check "a terminal is asked, and Return is no" at_terminal 'wait model bo/tales-GGUF, 
wait remove it? [y/N]
line 
wait bo/tales-GGUF stays
end 0' rm bo/tales-GGUF
check "it is there" test -d "$storage"
check "yes removes it" at_terminal 'wait remove it? [y/N]
line y
wait bo/tales-GGUF is removed; that freed
end 0' rm bo/tales-GGUF
check "with its locks" test ! -e "$storage" -a ! -e "$HF_HOME/hub/.locks/models--bo--tales-GGUF"
check_equal "the others are there, and what a link led to" "datasets--bo--x models--ann--x keep" \
    "$(cd "$HF_HOME/hub" && echo *) $(cat "$TMP/victim/file")"
printf 'x' >"$TMP/state-file" 
check_status "a state directory that cannot be made is no failure" 0 "is not recorded for 'ferry list'" \
    env XDG_STATE_HOME="$TMP/state-file" "$ferry" create "$files/tales-Q8_0.gguf" --exe-path "$TMP/exe" --no-parity -o "$TMP/here/last" -v
cd "$OLDPWD" || exit 1
stop_hub
finish
