#!/usr/bin/env bash
# On a terminal convert, create, pack and push end with the command that usually follows; a pipe gets no such line, and
# neither does a verb that another one calls. (push: tests/phone/push.sh)
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

PTY=$(realpath "${PTY:-build/host/release/tests/e2e/pty_drive}")
if [ ! -x "$PTY" ]; then
    skip "the next step on a terminal" "no pty_drive ('make programs' builds it)"
    finish
    exit
fi
export TERM=xterm
arm=$(realpath "${FERRY_ARM##* }")
ferry=$(realpath "$FERRY") tales=$PWD/tests/data/tales
mkdir "$TMP/work"
cd "$TMP/work" || exit 1
shown() { # COMMAND...: the lines "next: ..." that it shows at a pseudo-terminal of 200 columns
    printf '%s\n' 'resize 50 200' 'end 0' >"$TMP/steps"
    "$PTY" -o "$TMP/seen" "$TMP/steps" "$ferry" "$@" >/dev/null
    tr -d '\r' <"$TMP/seen" | sed 's/.*\x1b\[K//' | grep '^next: '
}
check_equal "convert: to chat, or to a workspace" "next: ferry chat -m tales.gguf, or for a phone: ferry create tales.gguf -o tales" \
    "$(shown convert "$tales" --outtype q8_0 -o tales.gguf)"
check_equal "names are quoted for the shell" "next: ferry chat -m 'my tales.gguf', or for a phone: ferry create 'my tales.gguf' -o 'my tales'" \
    "$(shown convert "$tales" --outtype q8_0 -o 'my tales.gguf')"
check_equal "of a split model the first file" "next: ferry chat -m parts-00001-of-00002.gguf" \
    "$(shown convert "$tales" --outtype q8_0 --split-max-size 2M -o parts.gguf)"
check_equal "a vocabulary has no next step" "" "$(shown convert "$tales" --vocab-only -o v.gguf)"
check_equal "create: push it; the conversion on the way says nothing" "next: ferry push tales" \
    "$(shown create "$tales" --outtype q8_0 --no-parity -o tales --exe-path "$arm")"
check_equal "pack: unpack it there" "next: ferry unpack tales.tar.zst -o DIR, there" "$(shown pack tales)"
check_equal "-q shows none" "" "$(shown pack tales -q -o quiet.tar.zst)"
"$ferry" convert "$tales" --outtype q8_0 -o piped.gguf 2>"$TMP/words"
check_equal "a pipe gets none" 0 "$(grep -c 'next:' "$TMP/words")"
finish
