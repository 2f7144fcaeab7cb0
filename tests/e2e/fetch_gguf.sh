#!/usr/bin/env bash
# Repositories of GGUF files at a hub of our own: which file is fetched, and what every verb makes of ORG/NAME[:TYPE].
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/hub_lib.sh
. tests/hub_lib.sh

commit=0123456789abcdef0123456789abcdef01234567
files=$hub/files/bo/tales-GGUF/$commit
storage=$HF_HOME/hub/models--bo--tales-GGUF
snapshot=$storage/snapshots/$commit

# --- a repository as publishers make it ----------------------------------------------------------------------------
mkdir -p "$files/F16"
"$FERRY" convert tests/data/tales --outtype q4_0 -q -o "$files/tales-Q4_0.gguf"
"$FERRY" convert tests/data/tales --outtype q8_0 -q -o "$files/tales-Q8_0.gguf"
"$FERRY" convert tests/data/tales --outtype f16 --split-max-size 2M -q -o "$files/F16/tales-F16.gguf"
parts=$(find "$files/F16" -name '*.gguf' | wc -l)
cp "$files/tales-Q8_0.gguf" "$files/mmproj-F16.gguf"
head -c 30000 /dev/urandom >"$files/tales-IQ4_XS.gguf"
head -c 25000 /dev/urandom >"$files/tales-Q2_K.gguf"
echo '# tales' >"$files/README.md"
echo x >"$files/imatrix.dat"
describe bo/tales-GGUF $commit main
start_hub
fetch() {
    "$FERRY" fetch "$@"
}

# --- which file ----------------------------------------------------------------------------------------------------
fresh
check "the split model has several files" test "$parts" -gt 1
check_equal "fetch prints the model's path: without a terminal that of Q4_0, where no Q4_K_M is" "$snapshot/tales-Q4_0.gguf" \
    "$(fetch bo/tales-GGUF 2>"$TMP/words")"
check "and names the other types" grep -q 'Q4_0 of 5 types (bo/tales-GGUF:TYPE takes another)' "$TMP/words"
check_equal "one file comes" tales-Q4_0.gguf "$(cd "$snapshot" && find . -type l -printf '%P\n')"
check "it is that of the hub" cmp "$snapshot/tales-Q4_0.gguf" "$files/tales-Q4_0.gguf"
check_equal ":TYPE in any case" "$snapshot/tales-Q8_0.gguf" "$(fetch bo/tales-GGUF:q8_0 -q)"
check_equal "all files of a split model, of a directory" "$snapshot/F16/tales-F16-00001-of-0000$parts.gguf" "$(fetch bo/tales-GGUF:F16@main -q)"
check_equal "came" "$parts" "$(find "$snapshot/F16" -type l | wc -l)"
check_status "a type that is not there" 1 "bo/tales-GGUF: no model of type 'Q6_K'; its GGUF files are Q2_K, IQ4_XS, Q4_0, Q8_0, F16" \
    "$FERRY" fetch bo/tales-GGUF:Q6_K
check_status "one that ferry cannot run is fetched with a warning" 0 "warning: ferry cannot run IQ4_XS yet" "$FERRY" fetch bo/tales-GGUF:IQ4_XS
check_status "another character in it" 2 "':a b' is not a type; expected ORG/NAME:TYPE" "$FERRY" fetch 'bo/tales-GGUF:a b'
check_status "the type goes before the revision" 2 "'main:F16' is not a revision" "$FERRY" fetch bo/tales-GGUF@main:F16
check_status "a type or patterns" 2 "give a type .:F16. or --include, not both" "$FERRY" fetch bo/tales-GGUF:F16 --include '*'
check_equal "--dry-run lists that model" tales-Q8_0.gguf "$(fetch bo/tales-GGUF:Q8_0 --dry-run | awk 'NR == 1 { print $2 }')"
check_equal "--json has its name" "tales-Q8_0.gguf $snapshot" "$(fetch bo/tales-GGUF:Q8_0 -q --json | jq -r '"\(.model) \(.path)"')"
check_equal "--exclude leaves types out" tales-Q8_0.gguf "$(fetch bo/tales-GGUF --exclude '*Q4_0*' --dry-run | awk 'NR == 1 { print $2 }')"
check_equal "offline: the model that is there" "$snapshot/tales-Q8_0.gguf" "$(HF_HUB_OFFLINE=1 fetch bo/tales-GGUF:Q8_0 2>/dev/null)"
check_equal "memory does not choose" "$snapshot/tales-Q4_0.gguf" "$(ulimit -v 2000000; fetch bo/tales-GGUF -q)"

# --- at a terminal --------------------------------------------------------------------------------------------------
at_terminal() { # SCRIPT ARGS...
    printf '%s\n' "$1" >"$TMP/script"
    shift
    TERM=xterm build/host/release/tests/e2e/pty_drive -o "$TMP/transcript" "$TMP/script" "$FERRY" "$@"
}
fresh
check "a terminal is asked, and Return is the default" at_terminal 'wait bo/tales-GGUF has several types:
wait    3  Q4_0
wait which one [Q4_0]?
line 
end 0' fetch bo/tales-GGUF
check_equal "which was fetched" tales-Q4_0.gguf "$(cd "$snapshot" && find . -type l -printf '%P\n')"
check "what ferry cannot run is marked" grep -q 'IQ4_XS.*(ferry cannot run it)' "$TMP/transcript"
fresh
check "a number or a name answers, other answers ask again" at_terminal 'wait which one
line 9
wait which one
line q8
wait no model of type
wait which one
line 4
end 0' fetch bo/tales-GGUF
check_equal "number 4" tales-Q8_0.gguf "$(cd "$snapshot" && find . -type l -printf '%P\n')"
fresh
check "Ctrl-C ends it" at_terminal 'wait which one
send \x03
end 130' fetch bo/tales-GGUF
check "Ctrl-D too" at_terminal 'wait which one
send \x04
wait no answer
end 2' fetch bo/tales-GGUF
check "with -q nothing is asked" at_terminal 'wait tales-Q4_0.gguf
end 0' fetch bo/tales-GGUF -q

# --- its users -------------------------------------------------------------------------------------------------------
fresh
check_status "convert refuses before it downloads" 1 "holds GGUF files, which need no conversion; 'ferry fetch bo/tales-GGUF' brings one" \
    "$FERRY" convert bo/tales-GGUF --fetch
check "nothing came" test ! -e "$storage"
check_status "up --dry-run promises nothing that is not there" 1 "not in the cache" "$FERRY" up bo/tales-GGUF --dry-run --fetch

stop_hub
finish
