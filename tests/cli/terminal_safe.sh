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
export NO_COLOR=1 TERM=dumb LC_ALL=C.UTF-8 HOME=$TMP/home XDG_STATE_HOME=$TMP/state
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

# --- a workspace and an archive that others made --------------------------------------------------------------------
ferry "inspect of a workspace" inspect -v "$w"
ferry "inspect of a cut" inspect "$TMP/$bad.cut"
# The manifest's own hash is over its text before it.
seal() { # DIR TOOL: lists its files as they are now
    local dir=$1 path mode first=1
    {
        jq -n --arg t "$2" '$t' | sed 's/.*/{\n "format_version": 1,\n "tool": &,\n "target": "aarch64-linux",\n "files": [/'
        (cd "$dir" && find . -type f ! -name 'manifest.*' -printf '%P\n' | LC_ALL=C sort) | while read -r path; do
            [ $first = 1 ] || echo ,
            first=0
            mode=0644
            [ ! -x "$dir/$path" ] || mode=0755
            printf '  {"path": %s, "size": %s, "mode": "%s",\n   "sha256": "%s"}' "$(jq -n --arg p "$path" '$p')" \
                "$(stat -c %s "$dir/$path")" $mode "$(sha256sum <"$dir/$path" | cut -d' ' -f1)"
        done
        printf '\n ]'
    } >"$TMP/head"
    printf '%s,\n "sha256": "%s"\n}\n' "$(cat "$TMP/head")" "$(printf %s "$(cat "$TMP/head")" | sha256sum | cut -d' ' -f1)" >"$dir/manifest.json"
}
hostile=$TMP/hostile/$name
mkdir -p "$TMP/hostile"
"$FERRY" create "$q" --copy --exe-path "$TMP/exe" -q -o "$hostile"
jq --arg t "$bad" '.name = $t | .description = $t | .[$t] = {($t): [$t]} | .exec = $t | .devices = [$t]' "$hostile/workspace.json" >"$TMP/workspace.json"
cp "$TMP/workspace.json" "$hostile/workspace.json"
for what in "as it is" "its tool" "a listed name" "an unlisted name"; do
    case $what in
    as*) seal "$hostile" tool ;;
    its*) seal "$hostile" "$bad" ;;
    "a listed"*) printf '{}' >"$hostile/$bad" && seal "$hostile" tool ;;
    an*) rm "$hostile/$bad" && seal "$hostile" tool && mkdir "$hostile/d$name" && : >"$hostile/d$name/$name" && ln -s "$bad" "$hostile/l$name" ;;
    esac
    [ "$what" != "as it is" ] || check "the hostile workspace is a right one" "$FERRY" verify -q "$hostile"
    for verb in verify inspect "run -p a -d" "selftest -d" "pack -o $TMP/packed.tar" sign; do
        # shellcheck disable=SC2086
        ferry "hostile workspace, $what: $verb" $verb "$hostile"
    done
    # the manifest first; no control characters below U+0080 in the top's name, which no archive may have
    (cd "$hostile" && find . -type f -o -type l | sed 's,^\./,,' | grep -avxF manifest.json) >"$TMP/rest"
    (cd "$hostile" && tar -cf "$TMP/hostile.tar" --transform "s,^,$c1$bidi/," --verbatim-files-from manifest.json -T "$TMP/rest")
    rm -rf "$TMP/unpacked"
    ferry "its archive, $what: unpack" unpack -v "$TMP/hostile.tar" -o "$TMP/unpacked"
    [ "$what" != "as it is" ] || check "it was unpacked" test -s "$TMP/unpacked/workspace.json"
    ferry "its archive, $what: unpack under its own name" unpack -v "$TMP/hostile.tar"
done

# --- a key's name ------------------------------------------------------------------------------------------------------
openssl genpkey -algorithm ED25519 -aes256 -pass pass:word -out "$TMP/$name.pem" 2>/dev/null
"$FERRY" keygen -o "$TMP/plain" -q
shown "sign asks for a passphrase" $'wait passphrase of\nline wrong' "$FERRY" sign "$w" --key "$TMP/$name.pem"
check "by the file's name, escaped" grep -qaF 'passphrase of '"$TMP"'/\x1b]0;x\x07\x1b[31m\u{9b}' "$TMP/seen"
shown "and signs" $'wait passphrase of\nline word' "$FERRY" sign -v "$w" --key "$TMP/$name.pem"
ferry "keygen" keygen -v -o "$TMP/$name.new"
ferry "verify by a key" verify -v "$w" --key "$TMP/$name.new.pub"

# --- a hub's files -------------------------------------------------------------------------------------------------------
hub=$TMP/remote
commit=0123456789abcdef0123456789abcdef01234567
there=$'tok\u009b\u202e' # what a name may hold: no control characters below U+0080
coded=tok%C2%9B%E2%80%AE
mkdir -p "$hub/files/ann/tales/$commit" "$hub/api/ann/tales"
for f in config.json generation_config.json "$coded.json"; do
    printf '{}' >"$hub/files/ann/tales/$commit/$f"
    printf '{}' | git hash-object --stdin >"$hub/files/ann/tales/$commit/$f.etag"
done
list() { # NAME...
    jq -n --args --arg c $commit --arg h "$(printf '{}' | git hash-object --stdin)" \
        '{id: "ann/tales", sha: $c, siblings: [$ARGS.positional[] | {rfilename: ., size: 2, blobId: $h}]}' "$@" >"$hub/api/ann/tales/main"
    cp "$hub/api/ann/tales/main" "$hub/api/ann/tales/$commit"
}
mkfifo "$TMP/end"
build/host/release/tests/e2e/hub_server "$hub" <"$TMP/end" >"$TMP/ports" 2>/dev/null &
server=$!
exec 9>"$TMP/end"
until [ -s "$TMP/ports" ]; do kill -0 $server || break; sleep 0.05; done
read -r port _ <"$TMP/ports"
export HF_ENDPOINT=http://127.0.0.1:$port HF_HOME=$TMP/hf/$name
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY
list config.json generation_config.json "$there.json"
ferry "fetch" fetch -v ann/tales --include '*'
check "the hostile name is there" test -e "$HF_HOME/hub/models--ann--tales/snapshots/$commit/$there.json"
ferry "fetch again" fetch -v ann/tales --include '*'
ferry "fetch --dry-run" fetch --dry-run ann/tales --include '*'
list config.json "$there/$bidi.json" # the hub has no such file
ferry "fetch of what is not there" fetch -v ann/tales --include '*'
list config.json "$bad"
ferry "fetch of a name that is refused" fetch -v ann/tales --include '*'
exec 9>&-
wait $server 2>/dev/null
unset HF_ENDPOINT HF_HOME

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
