#!/usr/bin/env bash
# What a user sees when something is wrong: one message that names the thing, and the documented exit status; never a
# file under the final name.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

check_status "no verb is a usage error" 2 '^usage: ferry VERB' "$FERRY"
check_status "an unknown verb names the nearest" 2 "unknown verb 'convrt'; did you mean 'convert'" "$FERRY" convrt
check_status "an unknown option names the nearest" 2 "did you mean --outtype" "$FERRY" convert x --outtyp q8_0
for word in show ps cp stop; do
    check_status "ollama's '$word' names what does it here" 2 "no verb '$word': .*'ferry |no verb '$word': .*cp and mv" "$FERRY" "$word" x
done
for option in -ngl -fa --jinja --no_warmup; do
    check_status "llama.cpp's $option is answered" 2 "ferry run: $option: .*leave it out" "$FERRY" run -m x "$option" 9
done
check_status "its -i names chat" 2 "ferry run: -i: 'ferry chat" "$FERRY" run -m x -i
check_status "in chat it is not needed" 2 "ferry chat: -cnv: chat is a conversation already" "$FERRY" chat -m x -cnv
check_status "its seed is not a phone" 5 "--seed 42" env ADB_SERVER_SOCKET=tcp:127.0.0.1:1 PATH=/nonexistent "$(realpath "$FERRY")" run -m "$0" -p x -s 42
check_status "pull is not ollama's" 5 "'ferry fetch ORG/NAME' downloads" env ADB_SERVER_SOCKET=tcp:127.0.0.1:1 PATH=/nonexistent "$(realpath "$FERRY")" pull org/name
check_status "llama-quantize's threads are an option" 2 "too many arguments: threads are given as -t 8" "$FERRY" quantize a.gguf b.gguf q4_0 8
check_status "a value that looks like a foreign option is a value" 1 "cannot open" "$FERRY" run -m /nonexistent -p -ngl
check_status "a wrong choice lists the right ones" 2 "'q9' is not one of auto\|f32" "$FERRY" convert x --outtype q9
check_status "a missing value is asked for" 2 'needs a value' "$FERRY" run -m
check_status "a number out of range says the range" 2 'out of range' "$FERRY" run -m x -p y -t 100000
check_status "too few arguments show the usage" 2 'too few arguments; usage: ferry convert' "$FERRY" convert
check_status "too many arguments show the usage" 2 'too many arguments' "$FERRY" inspect a b
check_status "run without a model says what to give" 2 'no model' "$FERRY" run -p x
check_status "a missing file is named" 1 '/nonexistent/m.gguf: cannot open' "$FERRY" run -m /nonexistent/m.gguf -p x
check_status "a missing checkpoint is named" 1 '/nonexistent: no such file or directory' "$FERRY" convert /nonexistent
check_status "a directory without config.json is named" 1 'config.json' "$FERRY" convert tests/data/families

out=$TMP/m.gguf
check "a checkpoint converts" "$FERRY" convert tests/data/tales --outtype q8_0 -o "$out"
check "no part file is left" test ! -e "$out.part"
check_status "a directory in place of a file is refused" 2 'is a directory' "$FERRY" quantize "$out" "$TMP" f16
check_status "a full context names the remedy" 3 'use a larger -c' "$FERRY" run -m "$out" -p hi -c 8 -n 20
check_status "an id out of range is refused" 2 'id' "$FERRY" run -m "$out" --prompt-ids 1,2,99999 -n 1
check_status "ids that are no numbers are refused" 2 'prompt-ids' "$FERRY" run -m "$out" --prompt-ids 1,x -n 1
check_status "a golden of another model is a plain failure" 1 "tensor 'logits' has shape" \
    "$FERRY" eval -m "$out" --golden tests/data/families/llama/golden.safetensors
check_status "logits beyond the tolerance exit 4" 4 'tolerance' \
    "$FERRY" eval -m "$out" --golden tests/data/tales/golden_long.safetensors
check_status "quantizing quantized weights is refused" 1 'q8_0 already' "$FERRY" quantize "$out" "$TMP/x.gguf" q4_0
check "and leaves nothing" test ! -e "$TMP/x.gguf" -a ! -e "$TMP/x.gguf.part"
check_status "input and output must differ" 2 'same file|input' "$FERRY" quantize "$out" "$out" f32

check "a vocabulary converts" "$FERRY" convert tests/data/tales --vocab-only -o "$TMP/v.gguf" -q
prompt=(-p x)
for verb in run chat bench; do
    check_status "$verb says what takes a vocabulary" 1 "v.gguf: holds a vocabulary and no weights .*'ferry tokenize' and 'ferry template' take it" \
        "$FERRY" "$verb" -m "$TMP/v.gguf" "${prompt[@]}"
    prompt=()
done
check "tokenize does" "$FERRY" tokenize -m "$TMP/v.gguf" hi
check_status "an offline fetch does not advise what was tried" 1 "none/none: .*; HF_HUB_OFFLINE is set: without it 'ferry fetch none/none' downloads it" \
    env HF_HUB_OFFLINE=1 HF_HOME="$TMP/hf" "$FERRY" fetch none/none
mkdir "$TMP/inf"
ln -s "$PWD"/tests/data/tales/* "$TMP/inf/"
rm "$TMP/inf/config.json"
jq . tests/data/tales/config.json | sed '1s/{/{ "some_limit": Infinity, "other": [-Infinity, NaN],/' >"$TMP/inf/config.json"
check_status "Python's Infinity in config.json is read" 0 "inf/config.json: has NaN or Infinity, read as null" "$FERRY" convert "$TMP/inf" --dry-run
check "and changes nothing" cmp <("$FERRY" convert "$TMP/inf" --dry-run --json -q 2>/dev/null | jq '.tensors[] | [.name, .type, .bytes]') <("$FERRY" convert tests/data/tales --dry-run --json -q | jq '.tensors[] | [.name, .type, .bytes]')

for n in 0 3 100 5000 100000; do
    head -c $n "$out" >"$TMP/cut.gguf"
    check_status "a file cut at $n bytes is refused" 1 'cut.gguf' "$FERRY" run -m "$TMP/cut.gguf" -p x
    check_status "inspect reports it too ($n bytes)" 1 'cut.gguf' "$FERRY" inspect "$TMP/cut.gguf"
done
mkdir "$TMP/cut"
cp tests/data/tales/* "$TMP/cut"
head -c 1000000 tests/data/tales/model.safetensors >"$TMP/cut/model.safetensors"
check_status "a checkpoint cut short is refused" 1 'model.safetensors' "$FERRY" convert "$TMP/cut" -o "$TMP/y.gguf"
check "and leaves nothing either" test ! -e "$TMP/y.gguf" -a ! -e "$TMP/y.gguf.part"

check_status "a closed pipe is an error of its own" 1 'standard output' bash -c "$FERRY inspect $out --json | true; exit \${PIPESTATUS[0]}"
check_status "a full device has its own status" 6 'standard output' bash -c "$FERRY inspect $out > /dev/full"

mkdir "$TMP/ro" && chmod 500 "$TMP/ro"
if [ "$(id -u)" -ne 0 ]; then
    check_status "a read-only directory is said" 1 'cannot create' "$FERRY" convert tests/data/tales -o "$TMP/ro/m.gguf"
else
    skip "a read-only directory is said" "root may write everywhere"
fi
finish
