#!/usr/bin/env bash
# --help of every verb: a usage line, every option with its default, examples, the exit status.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

verbs=$($FERRY --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
check_equal "the verbs of the host build" "convert quantize inspect create pack unpack verify run eval tokenize" \
    "$(xargs <<<"$verbs")"
check_equal "--version names the program" ferry "$($FERRY --version | cut -d' ' -f1)"
for verb in $verbs; do
    help=$($FERRY "$verb" --help)
    check "$verb --help shows its usage" grep -q "^usage: ferry $verb \[options\]" <<<"$help"
    check "$verb --help ends in examples" grep -qE "^  ferry $verb" <<<"$help"
    check "$verb --help states the exit status" grep -q '^Exit status: 0 ok' <<<"$help"
    check_equal "$verb --help stays within 100 columns" "" "$(awk 'length > 100 && !/^Exit|^[A-Z]/' <<<"$help")"
    check_equal "help $verb is the same" "$help" "$($FERRY help "$verb")"
    check_equal "$verb writes nothing to stderr for --help" "" "$($FERRY "$verb" --help 2>&1 >/dev/null)"
done
check_equal "dashes and underscores are the same" "$($FERRY convert tests/data/tales --dry-run)" \
    "$($FERRY convert tests/data/tales --dry_run)"
check_equal "--x=y and --x y are the same" "$($FERRY convert tests/data/tales --dry-run --outtype q8_0 2>/dev/null)" \
    "$($FERRY convert --outtype=q8_0 --dry-run tests/data/tales 2>/dev/null)"
finish
