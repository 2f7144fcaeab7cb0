#!/usr/bin/env bash
# Ctrl-C ends a verb within 0.3 seconds, also where a file makes it work for minutes.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

# interrupted NAME COMMAND...: the command, which would run for long, gets SIGINT after half a second; sooner where it had ended
# by then. The best try counts.
interrupted() {
    local name=$1 status took best=999999 try delay=512
    shift
    for try in 1 2 3 4 5 6 7 8; do
        "$@" >/dev/null 2>"$TMP/err" &
        sleep "$(printf '0.%03d' $delay)"
        interrupt $!
        [ $status -ne 0 ] || { delay=$((delay / 2)) && continue; }
        [ $took -ge $best ] || best=$took
        [ $status -eq 130 ] && [ $best -gt 300 ] || break
    done
    if [ $status -eq 130 ] && [ $best -le 300 ]; then
        ok "$name"
    else
        not_ok "$name" "exit $status, $best ms after the signal at best, try $try: $(cat "$TMP/err")"
    fi
}
set -m # a command in the background hears SIGINT

# --- verbs at work -----------------------------------------------------------------------------------------------
m=$TMP/tales.gguf
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$m" || exit 1
yes 'Once upon a time, there was a little girl.' | head -c 60000000 >"$TMP/tale"
head -c 8000 "$TMP/tale" >"$TMP/prompt"
yes 300 | head -n 12000000 >"$TMP/ids"
interrupted "run, at a prompt" "$FERRY" run -m "$m" -p "$(head -c 60000 /dev/zero | tr '\0' a)" -n 1 -c 100000
interrupted "run, generating" "$FERRY" run -m "$m" -f "$TMP/prompt" -n 100000 -c 110000 --ignore-eos
interrupted "bench" "$FERRY" bench -m "$m" -p 512 -n 128 -r 500
interrupted "eval" "$FERRY" eval -m "$m" --text "$TMP/tale" -c 512
interrupted "selftest" "$FERRY" selftest -m "$m"
interrupted "tokenize" "$FERRY" tokenize -m "$m" -f "$TMP/tale"
for form in --show-pieces --json; do
    interrupted "tokenize $form of millions of ids" "$FERRY" tokenize -m "$m" --ids $form -f "$TMP/ids"
done

# --- a vocabulary ------------------------------------------------------------------------------------------------
command -v python3 >/dev/null || {
    skip "a vocabulary that takes long" "no python3"
    finish
    exit
}
python3 - "$TMP" <<'EOF'
import struct, sys
def text(s): return struct.pack("<Q", len(s)) + s
def string(key, s): return text(key) + struct.pack("<I", 8) + text(s)
def array(key, kind, n, data): return text(key) + struct.pack("<IIQ", 9, kind, n) + data
def gguf(name, *keys):
    with open(sys.argv[1] + "/" + name, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys))
def vocabulary(name, model, tokens, types):
    n = len(tokens)
    gguf(name, string(b"general.architecture", b"llama"), string(b"tokenizer.ggml.model", model),
         string(b"tokenizer.ggml.pre", b"gpt-2"),
         array(b"tokenizer.ggml.tokens", 8, n, b"".join(map(text, tokens))),
         array(b"tokenizer.ggml.token_type", 5, n, struct.pack("<%di" % n, *types)),
         array(b"tokenizer.ggml.scores", 6, n, struct.pack("<%df" % n, *range(0, -n, -1))),
         array(b"tokenizer.ggml.merges", 8, 0, b""))
long = [b"<unk>", b"a", b"b", b"a" * 1023 + b"b"]
vocabulary("unigram.gguf", b"t5", long, [2, 1, 1, 1])
vocabulary("rwkv.gguf", b"rwkv", long, [1, 1, 1, 1])
vocabulary("special.gguf", b"gpt2", long, [2, 1, 1, 4])
n = 3000000
vocabulary("many.gguf", b"gpt2", [b"<|reserved_%08x|>" % (i * 2654435761 % 2**32) for i in range(n)], [3] * n)
with open(sys.argv[1] + "/text", "wb") as f:
    f.write(b"a" * 30000000)
EOF
interrupted "while a vocabulary of millions of tokens is loaded" "$FERRY" tokenize -m "$TMP/many.gguf" hello
for kind in unigram rwkv special; do
    interrupted "while a text is searched for long tokens ($kind)" "$FERRY" tokenize -m "$TMP/$kind.gguf" -f "$TMP/text"
done

# --- a conversion ------------------------------------------------------------------------------------------------
mkdir "$TMP/checkpoint"
cp tests/data/tales/config.json "$TMP/checkpoint"
python3 - tests/data/tales "$TMP/checkpoint" <<'EOF'
import json, sys
t = json.load(open(sys.argv[1] + "/tokenizer.json"))
t["model"]["merges"] *= 30000
json.dump(t, open(sys.argv[2] + "/tokenizer.json", "w"))
EOF
interrupted "while millions of merges are converted" "$FERRY" convert "$TMP/checkpoint" --vocab-only -o "$TMP/merges.gguf"
interrupted "or read for a text" "$FERRY" tokenize -m "$TMP/checkpoint" hello
finish
