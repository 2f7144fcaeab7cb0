#!/usr/bin/env bash
# The manual pages: clean for mandoc, every section there, every option and variable named, and text that can be pasted.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
export LC_ALL=C.UTF-8

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
finish
