#!/usr/bin/env bash
# --help: every verb under its task, every option with its default, examples, where values come from, the exit status.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

all=$("$FERRY" --help)
verbs=$(sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' <<<"$all")
of_task() { # HEADING: its verbs
    sed -n "/^$1:$/,/^$/s/^  \([a-z][a-z]*\)  .*/\1/p" <<<"$all" | xargs
}
check_equal "verbs that make a model" "fetch list rm convert quantize inspect compare farm" "$(of_task 'Make a model')"
check_equal "verbs that package it" "plan chunk compile create pack unpack keygen sign verify" "$(of_task 'Package it for the phone')"
check_equal "verbs that use it" "run chat serve eval bench tune tokenize template selftest" "$(of_task 'Use it')"
check_equal "every verb stands under a task" "$("$FERRY" --version --json | jq -r '.verbs[]' | sort)" "$(sort <<<"$verbs")"
check_equal "the help stays within 100 columns" "" "$(awk 'length > 100' <<<"$all")"
check_equal "help, --help and -h are the same" "$all$all" "$("$FERRY" help)$("$FERRY" -h)"
check "it shows a session" grep -q '^  ferry convert ' <<<"$all"
for verb in $verbs; do
    help=$("$FERRY" "$verb" --help)
    check "$verb --help shows its usage" grep -q "^usage: ferry $verb \[options\]" <<<"$help"
    check "$verb --help has an example" grep -qE "^  (.*\| )?ferry $verb( |$)" <<<"$help"
    check "$verb --help says where values may come from" grep -qE '(FERRY_[A-Z]+)' <<<"$help"
    check "$verb --help states the exit status" grep -q '^Exit status: 0 ok' <<<"$help"
    check_equal "$verb --help stays within 100 columns" "" "$(awk 'length > 100' <<<"$help")"
    check_equal "help $verb is the same" "$help" "$("$FERRY" help "$verb")"
    check_equal "$verb writes nothing to stderr for --help" "" "$("$FERRY" "$verb" --help 2>&1 >/dev/null)"
    for option in --quiet --verbose; do
        check "$verb has $option" grep -qE -- "$option" <<<"$help"
    done
done
check_equal "dashes and underscores are the same" "$("$FERRY" convert tests/data/tales --dry-run)" \
    "$("$FERRY" convert tests/data/tales --dry_run)"
check_equal "--x=y and --x y are the same" "$("$FERRY" convert tests/data/tales --dry-run --outtype q8_0 2>/dev/null)" \
    "$("$FERRY" convert --outtype=q8_0 --dry-run tests/data/tales 2>/dev/null)"

# --- typos -------------------------------------------------------------------------------------------------------
check_status "of a verb" 2 "unknown verb 'qantize'; did you mean 'quantize'\?" "$FERRY" qantize
check_status "of help" 2 "unknown verb 'hepl'; did you mean 'help'\?" "$FERRY" hepl
check_status "of a verb behind help" 2 "did you mean 'tokenize'" "$FERRY" help tokenise
check_status "of an option" 2 "unknown option '--thread'; did you mean --threads\?" "$FERRY" run --thread 2
check_status "of a choice" 2 "'q80' is not one of .*; did you mean q8_0\?" "$FERRY" convert x --outtype q80
check_status "of a type" 2 "TYPE: 'q40' is not one of .*; did you mean q4_0\?" "$FERRY" quantize a b q40
check_status "of what nobody knows" 2 "unknown verb 'xyzzy'; 'ferry --help' lists them" "$FERRY" xyzzy
check_status "too much for help" 2 'too many arguments; usage: ferry help' "$FERRY" help run chat

# --- version -----------------------------------------------------------------------------------------------------
check_equal "--version names the program" ferry "$("$FERRY" --version | cut -d' ' -f1)"
check_equal "version is the same" "$("$FERRY" --version)" "$("$FERRY" version)"
json=$("$FERRY" --version --json)
check_equal "--version --json has what a report needs" \
    '["compiler","cpu_features","dlopen","libraries","target","verbs","version"]' "$(jq -c keys <<<"$json")"
check_equal "with the version" "$("$FERRY" --version | cut -d' ' -f2)" "$(jq -r .version <<<"$json")"
check "with the versions of the libraries" jq -e '.libraries | .jansson and .pcre2 and .utf8proc and .libarchive and .zstd and .openssl and .libcurl' <<<"$json"
check_equal "version --json is the same" "$json" "$("$FERRY" version --json)"
check_equal "a mask of CPU features shows" '["scalar"]' "$(FY_CPU_MASK=0 "$FERRY" version --json | jq -c .cpu_features)"
check_status "nothing else may follow" 2 "unknown option '--jsn'; only --json" "$FERRY" --version --jsn

# --- colour ------------------------------------------------------------------------------------------------------
# A warning on a terminal: coloured, unless somebody says no.
"$FERRY" convert tests/data/tales --outtype q8_0 -q -o "$TMP/m.gguf"
colours() { # VARIABLE=VALUE...: does a warning at a terminal hold an escape sequence?
    env "$@" script -qec "$FERRY run -m $TMP/m.gguf -p hi -n 1 -c 5000" /dev/null 2>&1 </dev/null | grep -c $'\033' | sed 's/[1-9].*/yes/; s/0/no/'
}
check_equal "a terminal gets colour" yes "$(colours TERM=xterm)"
check_equal "not with NO_COLOR" no "$(colours TERM=xterm NO_COLOR=1)"
check_equal "an empty NO_COLOR is none" yes "$(colours TERM=xterm NO_COLOR=)"
check_equal "not where TERM is dumb" no "$(colours TERM=dumb)"
check_equal "nor where it is not set" no "$(colours -u TERM)"
check_equal "a file gets none" "" "$(TERM=xterm "$FERRY" run -m "$TMP/m.gguf" -p hi -n 1 -c 5000 2>&1 | grep $'\033')"
finish
