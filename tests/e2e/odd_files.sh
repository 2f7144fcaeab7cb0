#!/usr/bin/env bash
# Shared file systems are slow and odd: writes that are short or interrupted, calls that fail once (a stale handle, a disk that
# does not flush), clocks that differ. Work in parts and in one process then has the right bytes, or one message and no file; and
# what is run again has the right bytes. FERRY_SEED chooses the calls.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

RANDOM=${FERRY_SEED:-26}
if ! ${CC:-cc} -D_GNU_SOURCE -O1 -Wall -Wextra -shared -fPIC -o "$TMP/odd.so" tests/e2e/odd_files.c -ldl 2>"$TMP/log"; then
    not_ok "the odd file system" "$(cat "$TMP/log")"
    finish
    exit
fi
mkdir "$TMP/odd"
file=$TMP/odd/m.gguf
convert() { "$FERRY" convert tests/data/draft --outtype q8_0 -t 1 -q -o "$file" "$@"; }
odd() { env LD_PRELOAD="$TMP/odd.so" ODD_HIT="$TMP/hit" "$1" "$FERRY" "${@:2}"; } # VARIABLE=VALUE VERB...
again() { rm -rf "$TMP/odd" "$TMP/hit"; mkdir "$TMP/odd"; }
convert
mv "$file" "$TMP/want.gguf"

# --- short and interrupted --------------------------------------------------------------------------------------------
same() { # NAME
    check "$1: the right bytes" cmp "$TMP/want.gguf" "$file"
    check_equal "$1: nothing else" m.gguf "$(ls "$TMP/odd")"
    again
}
check "a conversion" odd ODD_SHORT=1 convert tests/data/draft --outtype q8_0 -q -o "$file"
same "a conversion with short writes"
for i in "--part 2/2" "--part 1/2" "--finish 2"; do
    # shellcheck disable=SC2086
    check "$i" odd ODD_SHORT=1 convert tests/data/draft --outtype q8_0 -q -o "$file" $i
done
same "parts with short writes"
"$FERRY" eval -m "$TMP/want.gguf" --text tests/data/quality/last_word.jsonl -c 64 -q --kl-save "$TMP/want.klb" >/dev/null
check "a base" odd ODD_SHORT=1 eval -m "$TMP/want.gguf" --text tests/data/quality/last_word.jsonl -c 64 -q --kl-save "$TMP/odd/b.klb"
check "has the right bytes" cmp "$TMP/want.klb" "$TMP/odd/b.klb"
again

# --- calls that fail ----------------------------------------------------------------------------------------------------
# wrong COMMAND...: of this command under $fail, what is wrong.
wrong() {
    local status=0 lines
    rm -f "$TMP/hit"
    odd "ODD_FAIL=$fail" "$@" >/dev/null 2>"$TMP/log" || status=$?
    [ ! -e "$TMP/hit" ] || hits=$((hits + 1))
    [ $status -ne 0 ] || return 0
    lines=$(wc -l <"$TMP/log")
    [ "$lines" -eq 1 ] && grep -q '^ferry convert: ' "$TMP/log" || echo "$fail: $* -> $status: $(cat "$TMP/log")"
    [ ! -e "$file" ] || echo "$fail: $*: there is a file, with status $status"
}
hits=0 bad=''
soak 1 6
for call in open fstat pread pwrite fsync fdatasync ftruncate fallocate rename link; do
    for ((r = 0; r < rounds; r++)); do
        # EIO, ENOSPC, EINTR, ESTALE
        codes=(5 28 4 116)
        fail=$call:${codes[RANDOM % 4]}:$((1 + (rounds > 1 ? r : RANDOM % 3)))
        for step in "" "--part 1/2" "--finish 2"; do
            case $step in
            --finish*) convert --part 1/2 && convert --part 2/2 || bad+="$fail: parts before the end"$'\n' ;;
            esac
            # shellcheck disable=SC2086
            wrong convert tests/data/draft --outtype q8_0 -t 1 -q -o "$file" $step >"$TMP/wrong"
            bad+=$(cat "$TMP/wrong")
            case $step in
            "") convert 2>"$TMP/log" || bad+="$fail: again: $(cat "$TMP/log")"$'\n' ;;
            *)
                convert --finish 2 2>"$TMP/log" || { convert --part 1/2 && convert --part 2/2 && convert --finish 2; } 2>"$TMP/log" ||
                    bad+="$fail: $step, again: $(cat "$TMP/log")"$'\n'
                ;;
            esac
            cmp -s "$TMP/want.gguf" "$file" || bad+="$fail: $step: other bytes"$'\n'
            again
        done
    done
done
check_equal "a call that fails: the right bytes, or one message and no file; and again the right bytes" "" "$bad"
check "calls have failed ($hits)" test $hits -ge 12

# --- clocks that differ ------------------------------------------------------------------------------------------------
convert --part 1/2
touch -d '2099-01-01' "$TMP"/odd/*
convert --part 2/2
touch -d '1999-01-01' "$file.2-of-2.part"
check "files from the future and the past" convert --finish 2
same "clocks that differ"
finish
