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
head -c 30000 /dev/urandom >"$files/tales-Q4_0_4_4.gguf"
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
check_status "a type that is not there" 1 "bo/tales-GGUF: no model of type 'Q6_K'; its GGUF files are Q2_K, Q4_0_4_4, Q4_0, Q8_0, F16" \
    "$FERRY" fetch bo/tales-GGUF:Q6_K
check_status "one that ferry cannot run is fetched with a warning" 0 "warning: ferry cannot run Q4_0_4_4 yet" "$FERRY" fetch bo/tales-GGUF:Q4_0_4_4
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
check "what ferry cannot run is marked" grep -q 'Q4_0_4_4.*(ferry cannot run it)' "$TMP/transcript"
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


# the head of an arm64 program is all that create looks at
{ printf '\177ELF\2\1\1'; head -c 9 /dev/zero; printf '\2\0\267\0'; head -c 44 /dev/zero; } >"$TMP/exe"

# --- one name in every verb --------------------------------------------------------------------------------------------
fresh
check_status "run names the command that fetches" 1 "bo/tales-GGUF:q8_0: no such file or directory, and not in the cache .*'ferry fetch bo/tales-GGUF:q8_0' downloads it" \
    "$FERRY" run bo/tales-GGUF:q8_0 -p Once
check_equal "and asks the hub nothing" 0 "$(asked .)"
want=$("$FERRY" run -m "$files/tales-Q8_0.gguf" -p 'Once upon' -n 8 --temp 0 -q)
check_equal "run ORG/NAME:TYPE --fetch, in one command" "$want" "$("$FERRY" run bo/tales-GGUF:q8_0 --fetch -p 'Once upon' -n 8 --temp 0 -q)"
: >"$hub/log"
check_equal "afterwards without --fetch" "$want" "$("$FERRY" run bo/tales-GGUF:Q8_0 -p 'Once upon' -n 8 --temp 0 -q)"
check_equal "with --fetch what is there is taken" "$want" "$("$FERRY" run --fetch -hf bo/tales-GGUF -p 'Once upon' -n 8 --temp 0 -q)"
check_equal "the hub was not asked" 0 "$(asked .)"
check_equal "-m means the same" "$want" "$("$FERRY" run -m bo/tales-GGUF -p 'Once upon' -n 8 --temp 0 -q)"
for path in "$storage" "$snapshot" "$snapshot/tales-Q8_0.gguf"; do
    check_equal "so does $(sed "s,$TMP/,,; s,$commit,COMMIT," <<<"$path")" "$want" "$("$FERRY" run "$path" -p 'Once upon' -n 8 --temp 0 -q)"
done
fetch bo/tales-GGUF:F16 -q >/dev/null
check_equal "a split model, by its name" "$("$FERRY" run "$snapshot/F16/tales-F16-00001-of-0000$parts.gguf" -p Once -n 8 --temp 0 -q)" \
    "$("$FERRY" run bo/tales-GGUF:f16 -p Once -n 8 --temp 0 -q)"
check_status "run refuses what it cannot compute before it downloads" 1 "ferry cannot run Q4_0_4_4 yet; nothing is downloaded" \
    "$FERRY" run bo/tales-GGUF:Q4_0_4_4 --fetch -p Once
check_equal "chat" 1 "$(echo 'Hi' | "$FERRY" chat bo/tales-GGUF:Q8_0 -n 2 --temp 0 -q 2>/dev/null | wc -l)"
check_equal "bench" pp4 "$("$FERRY" bench bo/tales-GGUF:Q8_0 -p 4 -n 0 -r 1 -o json | jq -r '.[0].n_prompt | "pp\(.)"')"
check "eval" "$FERRY" eval bo/tales-GGUF:Q8_0 --text tests/data/held.txt -c 64
check_equal "template" "$("$FERRY" template -m tests/data/tales)" "$("$FERRY" template bo/tales-GGUF:Q8_0)"
check_equal "tokenize" "$("$FERRY" tokenize -m tests/data/tales 'Once upon')" "$("$FERRY" tokenize -m bo/tales-GGUF:Q8_0 'Once upon')"
check_equal "inspect" llama "$("$FERRY" inspect bo/tales-GGUF:Q8_0 --json | jq -r '.metadata["general.architecture"]')"
check "compare" "$FERRY" compare bo/tales-GGUF:Q8_0 "$files/tales-Q8_0.gguf"
check "plan" "$FERRY" plan bo/tales-GGUF:F16 --soc SM8650
check "plan -hf" "$FERRY" plan -hf bo/tales-GGUF:F16 --soc SM8650
check_equal "up" tales-GGUF "$(XDG_CACHE_HOME=$TMP/cache "$FERRY" up bo/tales-GGUF:Q8_0 --to create --exe-path "$TMP/exe" --no-parity -q && basename "$(find "$TMP/cache" -name workspace.json -printf '%h\n')")"
check "up -hf: the dry run finds what it would do" env XDG_CACHE_HOME="$TMP/cache" "$FERRY" up -hf bo/tales-GGUF:Q8_0 --to create --exe-path "$TMP/exe" --no-parity --dry-run
check_status "up refuses a split model as create would, in the dry run too" 1 "is one of $parts files, expected a model in a single one" env XDG_CACHE_HOME="$TMP/cache" "$FERRY" up bo/tales-GGUF:F16 --to create --exe-path "$TMP/exe" --no-parity --dry-run
check_status "-hf takes names only" 2 "-hf './x': expected ORG/NAME" "$FERRY" run -hf ./x -p Once
"$FERRY" chunk "$files/tales-Q8_0.gguf" --soc SM8650 -o "$TMP/cut" -q
check_equal "a cut model is one of run" "$want" "$("$FERRY" run "$TMP/cut" -p 'Once upon' -n 8 --temp 0 -q)"
check_status "and compare says what it takes instead" 2 "is a model that was cut; .ferry chunk --join" "$FERRY" compare "$TMP/cut" "$files/tales-Q8_0.gguf"
check_status "two models" 2 "two models: give one of -m, -d and -hf" "$FERRY" run -hf a/b -m x.gguf -p Once
check_status "an argument besides -m" 2 "an option names the model already" "$FERRY" chat -m x.gguf y.gguf
mkdir -p "$TMP/dir/only"
check_status "a file's name is not a repository's" 1 "only/nothing.gguf: cannot open: No such file" "$FERRY" run only/nothing.gguf -p Once
check_status "a checkpoint says what makes a GGUF file of it" 2 "tests/data/tales: is a checkpoint, and run takes a GGUF file; 'ferry convert tests/data/tales --outtype q8_0' makes one" \
    "$FERRY" run tests/data/tales -p Once
"$FERRY" create "$files/tales-Q8_0.gguf" --exe-path "$TMP/exe" --no-parity -o "$TMP/ws" -q
check_equal "a workspace as the first argument" "$("$FERRY" run -d "$TMP/ws" -p Once -n 8 -q)" "$("$FERRY" run "$TMP/ws" -p Once -n 8 -q)"
check_equal "or of -m" "$("$FERRY" run -d "$TMP/ws" -p Once -n 8 -q)" "$("$FERRY" run -m "$TMP/ws" -p Once -n 8 -q)"
check "eval of a workspace" "$FERRY" eval "$TMP/ws" --text tests/data/held.txt -c 64
check_equal "the argument goes before FERRY_MODEL" "$want" "$(FERRY_MODEL=nothing.gguf "$FERRY" run bo/tales-GGUF:Q8_0 -p 'Once upon' -n 8 --temp 0 -q)"
check_equal "a file goes before a name" "$want" "$(mkdir -p "$TMP/in/bo" && cp "$files/tales-Q8_0.gguf" "$TMP/in/bo/tales-GGUF" && here=$PWD && cd "$TMP/in" && HF_HUB_CACHE=$TMP/none "$here/$FERRY" run bo/tales-GGUF -p 'Once upon' -n 8 --temp 0 -q)"

# --- a question ------------------------------------------------------------------------------------------------------
fresh
question='Tell me a story about a brave girl named Mia and an owl.'
answer=$("$FERRY" chat "$files/tales-Q8_0.gguf" -p "$question" -n 20 --temp 0 -q)
check "there is an answer" test -n "$answer"
check_equal "the first answer from a repository, in one command" "$answer" "$("$FERRY" run bo/tales-GGUF:Q8_0 --fetch "$question" -n 20 --temp 0 -q)"
check_equal "with -m the only argument is the question" "$answer" "$("$FERRY" run -m "$files/tales-Q8_0.gguf" "$question" -n 20 --temp 0 -q)"
check_equal "--raw continues it" "$("$FERRY" run -m "$files/tales-Q8_0.gguf" -p "$question" -n 20 --temp 0 -q)" \
    "$("$FERRY" run bo/tales-GGUF:Q8_0 "$question" --raw -n 20 --temp 0 -q)"
check_status "a question alone" 2 "'Who are you.' is not a model; the question comes after it: ferry run MODEL 'QUESTION'" "$FERRY" run 'Who are you?'
check_status "two prompts" 2 "more than one prompt" "$FERRY" run m.gguf question -p text
check_status "a model and nothing to do" 2 "no prompt: give a question after the model.*'ferry chat' holds a conversation" "$FERRY" run "$files/tales-Q8_0.gguf"
check_status "--raw is for a question" 2 "--raw is for a question" "$FERRY" run m.gguf -p text --raw
check_status "--raw and --chat" 2 "exclude each other" "$FERRY" run m.gguf text --raw --chat
"$FERRY" convert tests/data/tales --outtype q8_0 --chat-template none -q -o "$TMP/plain.gguf"
check_status "a model without a template" 1 "plain.gguf: has no chat template .*--raw continues it as a text" "$FERRY" run "$TMP/plain.gguf" "$question"

# --- asked for at a terminal -----------------------------------------------------------------------------------------
fresh
check "a terminal is asked, which counts as --fetch" at_terminal 'wait bo/tales-GGUF:q8_0 is not in the cache; download it? [Y/n]
line y
wait load
end 0' run bo/tales-GGUF:q8_0 -p Once -n 4
check "and a question at the terminal is answered in the same command" at_terminal "wait $(cut -d' ' -f1-4 <<<"$answer")
end 0" run bo/tales-GGUF:q8_0 "$question" -n 20 --temp 0
check "the file is there" cmp "$snapshot/tales-Q8_0.gguf" "$files/tales-Q8_0.gguf"
fresh
check "no is no" at_terminal 'wait download it?
line n
wait not in the cache
end 1' run bo/tales-GGUF:q8_0 -p Once -n 4
check_equal "and the hub was asked nothing" 0 "$(asked .)"

stop_hub
finish
