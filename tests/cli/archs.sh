#!/usr/bin/env bash
# Which models can be converted, and what is reported of one that cannot.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
tales=tests/data/tales

check "the list names a class, its architecture and its family" \
    grep -qE '^MixtralForCausalLM +llama +mixtral$' <("$FERRY" convert --list-archs)
check_equal "as JSON, too" mixtral \
    "$("$FERRY" convert --list-archs --json | jq -r '.[] | select(.classes[] == "MixtralForCausalLM") | .family')"
check_equal "both name the same classes" \
    "$("$FERRY" convert --list-archs | awk 'NR > 1 { print $1 }')" \
    "$("$FERRY" convert --list-archs --json | jq -r '.[].classes[]')"
check_status "the list takes no directory" 2 'takes no directory' "$FERRY" convert --list-archs $tales

unknown() { # CLASS -> a checkpoint of an unknown class, and its standard error
    cp -r $tales "$TMP/ck" 2>/dev/null
    chmod -R u+w "$TMP/ck"
    jq --arg c "$1" '.architectures = [$c] | .attention_sinks = 4' $tales/config.json >"$TMP/ck/config.json"
}
class=$(jq -r '.architectures[0]' $tales/config.json)
unknown "${class/ForCausalLM/2ForCausalLM}"
check_status "an unknown class is refused with the nearest" 1 "nearest name is $class" \
    "$FERRY" convert "$TMP/ck" -o "$TMP/no.gguf"
check_status "and in what it differs" 1 'keys of config.json that it does not have: attention_sinks' \
    "$FERRY" convert "$TMP/ck" -o "$TMP/no.gguf"
unknown ResembleNothing
check_status "one like no other by name is compared by its tensors" 1 '^compared with ' \
    "$FERRY" convert "$TMP/ck" -o "$TMP/no.gguf"
check "nothing was written" test ! -e "$TMP/no.gguf"
finish
