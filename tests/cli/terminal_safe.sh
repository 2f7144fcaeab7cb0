#!/usr/bin/env bash
# Nothing that ferry did not write itself acts on a terminal: every string of a model, every file name and every
# argument carries an ESC sequence, a C1 control, an override of direction and a byte that is not UTF-8, and no verb lets
# one through. Files and pipes get the bytes.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

PTY=${PTY:-build/host/release/tests/e2e/pty_drive}
if [ ! -x "$PTY" ]; then
    skip "no verb lets a control sequence through to a terminal" "no pty_drive ('make programs' builds it)"
    finish
    exit
fi
export NO_COLOR=1 TERM=dumb LC_ALL=C.UTF-8 HOME=$TMP/home XDG_STATE_HOME=$TMP/state PTY_TIMEOUT=20
mkdir -p "$HOME"
esc=$'\e]0;x\a\e[31m' c1=$'\xc2\x9b' bidi=$'\xe2\x80\xae'
bad=$esc$c1$bidi
name=$bad$'\xff' # of a file: any bytes

# shown NAME STEPS COMMAND...: runs it at a pseudo-terminal; its exit status does not matter.
shown() {
    local label=$1 steps=$2 found
    shift 2
    printf '%s\n' "$steps" "end 0" >"$TMP/steps"
    rm -f "$TMP/seen"
    "$PTY" -o "$TMP/seen" "$TMP/steps" "$@" >/dev/null 2>&1 </dev/null
    found=$(LC_ALL=C grep -aoP '\x1b.?|\x07|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]' "$TMP/seen" | head -3 | od -An -c)
    [ -s "$TMP/seen" ] || found+="nothing was written"
    iconv -f UTF-8 -t UTF-8 "$TMP/seen" >/dev/null 2>&1 || found+=" bytes that are not UTF-8"
    check_equal "$label" "" "$found"
}
ferry() { shown "$1" "" "$FERRY" "${@:2}"; }

# --- a model whose every string is hostile -------------------------------------------------------------------------
dir=$TMP/hub/$bad
mkdir -p "$dir"
cp tests/data/tales/{config,generation_config}.json tests/data/tales/model.safetensors "$dir"
# Byte-level BPE writes ESC, C2 9B and E2 80 AE with the letters U+011B, U+00C2 U+013D and U+00E2 U+0122 U+00AE.
jq '.model.merges = [] | .model.vocab |= with_entries(if (.key | length) > 1 then .key += "\u011b[31m\u00c2\u013d\u00e2\u0122\u00ae" else . end)
    | .added_tokens[].content |= . + "\u001b[31m\u009b\u202e"
    | del(.post_processor)' tests/data/tales/tokenizer.json >"$dir/tokenizer.json"
jq '.added_tokens_decoder[].content |= . + "\u001b[31m\u009b\u202e"
    | .chat_template = "\u001b[31m\u009b\u202e{% for m in messages %}{{ m.content }}{% endfor %}"
    | del(.bos_token, .eos_token, .pad_token, .unk_token)' tests/data/tales/tokenizer_config.json >"$dir/tokenizer_config.json"
printf -- '---\nlicense: "\\e[31m\\x9b"\nbase_model: "a/\\e[31m\\u202e"\nlanguage: ["\\e[31m"]\n---\n' >"$dir/README.md"
m=$TMP/$name.gguf q=$TMP/$name.q8.gguf
ferry "convert" convert "$dir" -v --outtype f32 -o "$m"
check "the hostile model is there" test -s "$m"
ids=$(seq 300 340)

# --- every verb ---------------------------------------------------------------------------------------------------
ferry "inspect" inspect "$m"
ferry "inspect of a tensor" inspect --tensor "$bad" "$m"
ferry "inspect --json" inspect --json "$m"
ferry "compare" compare "$m" "$dir"
ferry "quantize" quantize -v "$m" "$q" q8_0
# shellcheck disable=SC2086
ferry "tokenize --ids" tokenize -m "$m" --ids $ids
# shellcheck disable=SC2086
ferry "tokenize --json" tokenize -m "$m" --json --ids $ids
ferry "tokenize --show-pieces" tokenize -m "$m" --show-pieces "$bad"
ferry "tokenize --verify" tokenize -m "$m" --verify "$m"
ferry "run" run -v -m "$m" -p "$bad" -n 60 --temp 5 --top-k 0 --top-p 1 --min-p 0 --seed 3 --ignore-eos -c 256
ferry "run --json" run --json --logprobs 2 -m "$m" -p "$bad" -n 20 --temp 5 --top-k 0 --seed 3 --ignore-eos -c 256
jq -n --arg t "$bad" '{messages: [{role: "user", content: $t}]}' >"$TMP/request.json"
ferry "template" template -m "$m" --messages "$TMP/request.json"
shown "chat" $'wait >\nline hi\nwait >\nline /system\nwait >\nline /load '"$TMP/request.json"$'\nwait >\nline /quit' \
    "$FERRY" chat -v -m "$m" --system "$bad" --show-prompt -n 30 --temp 5 --top-k 0 --seed 3 -c 512
printf '%s\n' "$bad" "$(seq 400 | tr '\n' "$c1")" >"$TMP/text"
ferry "eval" eval -v -m "$m" --text "$TMP/text" -c 32
ferry "eval --choices" eval -m "$m" --choices "$TMP/text"
ferry "bench" bench -v -m "$m" -p 4 -n 2 -r 1
w=$TMP/$bad.workspace
# the head of an arm64 program is all that create looks at
{ printf '\177ELF\2\1\1'; head -c 9 /dev/zero; printf '\2\0\267\0'; head -c 44 /dev/zero; } >"$TMP/exe"
ferry "create" create -v "$q" --exe-path "$TMP/exe" -o "$w"
ferry "verify" verify -v "$w"
ferry "run of a workspace" run -v -d "$w" -p "$bad" -n 4 --verify
ferry "plan" plan -v --chunks 2 --htp-arch 75 --vtcm 8 "$m"
ferry "chunk" chunk -v --chunks 2 "$m" -o "$TMP/$bad.cut"
ferry "pack" pack -v "$w" -o "$TMP/$bad.tar.zst"
ferry "unpack" unpack -v "$TMP/$bad.tar.zst" -o "$TMP/$bad.copy"
printf '{"%s":"%s"}' "$bad" "$bad" >"$TMP/broken.json"
tar --zstd -cf "$TMP/foreign.tar.zst" -C "$TMP" --transform "s,^,$bad/," text broken.json 2>/dev/null
ferry "unpack of a foreign archive" unpack "$TMP/foreign.tar.zst"
ferry "explain" explain "$bad"
ferry "selftest" selftest -v -d "$w"

# --- names and options of every verb --------------------------------------------------------------------------------
for v in $("$FERRY" --version --json | jq -r '.verbs[]'); do
    [ "$v" != agent ] || continue
    case $v in chat | tokenize) steps='send \x04' ;; *) steps= ;; esac
    shown "$v: an unknown option" "" "$FERRY" "$v" "--$bad"
    shown "$v: names of nothing" "$steps" "$FERRY" "$v" "$TMP/$name/1" "$TMP/$name/2" "$name"
    shown "$v: a model of nothing" "" "$FERRY" "$v" -m "$TMP/$name/1"
done
ferry "an unknown verb" "$bad"
printf '%s = %s\n' "$bad" "$bad" >"$TMP/config"
FERRY_CONFIG=$TMP/config ferry "settings" run -m "$m" -p a
truncated=$TMP/$bad.cut.gguf
head -c 20000 "$m" >"$truncated"
ferry "a broken file" run -m "$truncated" -p a

# --- pipes get the bytes --------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
check "a pipe gets the token's own bytes" grep -qaF "$c1$bidi" <("$FERRY" tokenize -m "$m" --ids $ids)
check "so does a file" bash -c '"$FERRY" template -m "$0" --messages "$1" >"$2" 2>/dev/null; grep -qaF "$3" "$2"' \
    "$m" "$TMP/request.json" "$TMP/rendered" $'\e[31m'"$c1$bidi"
finish
