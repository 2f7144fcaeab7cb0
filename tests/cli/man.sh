#!/usr/bin/env bash
# The manual pages: clean for mandoc, every section there, every option and variable named, and text that can be pasted.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
export LC_ALL=C.UTF-8

# A terminal without man and mandoc gets our own rendering, with the words of mandoc's; one with them theirs.
PTY=$(realpath "${PTY:-build/host/release/tests/e2e/pty_drive}")
ferry=$(realpath "$FERRY")
mkdir "$TMP/bin" "$TMP/none"
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "rendered by ${0##*/}: $(/usr/bin/head -n 3 "$1" | /usr/bin/tail -n 1)"\n' >"$TMP/bin/man"
chmod +x "$TMP/bin/man"
words() { tr -s ' \n\r' '\n' | sed '/^$/d'; }
echo 'end 0' >"$TMP/steps"
on_terminal() { # NAME VERB PAGE
    if [ ! -x "$PTY" ]; then
        skip "$1 on a terminal" "no pty_drive ('make programs' builds it)"
        return
    fi
    PATH=$TMP/none TERM=xterm "$PTY" -o "$TMP/seen" "$TMP/steps" "$ferry" man "$2" >/dev/null
    check_equal "$1 has mandoc's words on a terminal without it" \
        "$(mandoc -T ascii -O width=200 "$3" | col -bx | sed '1d;$d' | words)" "$(words <"$TMP/seen")"
    check_equal "$1: no line is longer than the terminal" "" "$(tr -d '\r' <"$TMP/seen" | grep -E '^.{81,}' | grep -vE '^ {11}|auto[|]f32')"
}

verbs=$("$FERRY" --version --json | jq -r '.verbs[]')
for verb in '' $verbs; do
    name=ferry${verb:+-$verb}
    page=$TMP/$name.1
    # shellcheck disable=SC2086
    "$FERRY" man $verb >"$page"
    check_equal "$name is clean" "" "$(mandoc -T lint -W style "$page" 2>&1 | grep -v 'referenced manual not found')"
    text=$(mandoc -T utf8 -O width=200 "$page" | col -bx)
    sections=$(sed -n 's/^\([A-Z][A-Z ]*\)$/\1/p' <<<"$text" | tr '\n' ,)
    check_equal "$name has its sections" "NAME,SYNOPSIS,DESCRIPTION,ENVIRONMENT,FILES,EXIT STATUS,EXAMPLES,SEE ALSO," "$sections"
    for word in FERRY_CONFIG XDG_CONFIG_HOME NO_COLOR .config/ferry/config 130; do
        check "$name names $word" grep -qF -- "$word" <<<"$text"
    done
    # one that was pasted would not end where it should
    check_equal "$name has no typographic quotes" "" "$(LC_ALL=C grep -nP '\xE2\x80[\x98-\x9F]' <<<"$text")"
    for other in $(grep -oE 'ferry-[a-z]+\(1\)' <<<"$text" | sort -u | tr -d '()1'); do
        check "$name refers to a page that is there: $other" "$FERRY" man "${other#ferry-}"
    done
    [ -n "$verb" ] || continue
    on_terminal "$name" "$verb" "$page"
    help=$("$FERRY" "$verb" --help)
    missing=
    while read -r option; do
        grep -qF -- "$option" <<<"$text" || missing+="$option "
    done < <(grep -oE '^ +(-[A-Za-z]+, )?--[a-z-]+' <<<"$help" | grep -oE -- '--[a-z-]+')
    check_equal "$name names every option" "" "$missing"
    if grep -q -- '--serial' <<<"$help"; then
        check_equal "$name names what adb obeys" 3 "$(grep -cE '^ +(ANDROID_SERIAL|ADB_SERVER_SOCKET|FERRY_ADB_TIMEOUT)' <<<"$text")"
    fi
    check_equal "$name has the examples of --help" "$(sed -n '/^Examples:$/,/^$/s/^  //p' <<<"$help")" \
        "$(sed -n '/^EXAMPLES$/,/^[A-Z]/s/^ \{5,\}//p' <<<"$text")"
done
if [ -x "$PTY" ]; then
    PATH=$TMP/bin:$PATH TERM=xterm "$PTY" -o "$TMP/seen" "$TMP/steps" "$ferry" man run >/dev/null
    check_equal "man renders the page where it is" "rendered by man: .Os" "$(tr -d '\r' <"$TMP/seen")"
    mv "$TMP/bin/man" "$TMP/bin/mandoc"
    sed -i 's/\$1/$2/' "$TMP/bin/mandoc"
    PATH=$TMP/bin TERM=xterm "$PTY" -o "$TMP/seen" "$TMP/steps" "$ferry" man run >/dev/null
    check_equal "or mandoc" "rendered by mandoc: .Os" "$(tr -d '\r' <"$TMP/seen")"
fi
check_equal "a pipe gets the page as it is" .Dd "$("$FERRY" man run | head -c 3)"
finish
