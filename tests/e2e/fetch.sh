#!/usr/bin/env bash
# ferry fetch against a hub of our own (hub_server.c): the cache it writes, where the token goes, and everything that a
# network does to a download. Nothing leaves this machine.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

# shellcheck source=tests/hub_lib.sh
. tests/hub_lib.sh

commit=0123456789abcdef0123456789abcdef01234567
files=$hub/files/ann/tales/$commit

# --- a repository --------------------------------------------------------------------------------------------------
mkdir -p "$files"
cp tests/data/tales/{config.json,tokenizer.json,model.safetensors} "$files"
printf '{}' >"$files/generation_config.json"
printf -- '---\nlicense: mit\n---\n' >"$files/README.md"
: >"$files/merges.txt"
mkdir "$files/onnx" "$files/additional_chat_templates"
echo '{{ 1 }}' >"$files/additional_chat_templates/tool.jinja"
head -c 50000 /dev/zero >"$files/pytorch_model.bin"
echo big >"$files/onnx/model.safetensors"
describe ann/tales $commit main
cp "$hub/api/ann/tales/main" "$hub/api/ann/tales/$commit"

start_hub
port=${HF_ENDPOINT##*:}
storage=$HF_HOME/hub/models--ann--tales
weights=$(cat "$files/model.safetensors.etag")
blob=$storage/blobs/$weights
size=$(stat -c %s "$files/model.safetensors")

fetch() {
    "$FERRY" fetch "$@"
}
same() { # are the wanted files in the snapshot, as they are at the hub?
    local name
    for name in config.json tokenizer.json model.safetensors README.md merges.txt additional_chat_templates/tool.jinja; do
        cmp "$storage/snapshots/$commit/$name" "$files/$name" || return 1
    done
}
# --- the cache -----------------------------------------------------------------------------------------------------
fresh
table=$(fetch ann/tales --dry-run 2>/dev/null)
check_equal "--dry-run lists the files that a conversion needs" \
    "README.md additional_chat_templates/tool.jinja config.json generation_config.json merges.txt model.safetensors tokenizer.json" \
    "$(head -n -1 <<<"$table" | awk '{ print $2 }' | xargs)"
check_equal "and their bytes" "$(head -n -1 <<<"$table" | awk '{ n += $1 } END { print n }') bytes" \
    "$(tail -n 1 <<<"$table" | grep -oE '[0-9]+ bytes')"
check "and writes nothing" test ! -e "$HF_HOME/hub"
check_equal "fetch prints the snapshot and nothing else" "$storage/snapshots/$commit" "$(fetch ann/tales 2>"$TMP/words")"
check "its words are on stderr" grep -q "^ann/tales, commit 0123456789: 7 files" "$TMP/words"
check "the files are those of the hub" same
check_equal "a snapshot holds links to blobs" "../../blobs/$weights" "$(readlink "$storage/snapshots/$commit/model.safetensors")"
check_equal "from a directory below it too" ../../../blobs/ \
    "$(readlink "$storage/snapshots/$commit/additional_chat_templates/tool.jinja" | sed 's,[0-9a-f]*$,,')"
check_equal "a file that is not in LFS is named by git's hash" "$(git hash-object --no-filters "$files/config.json")" \
    "$(basename "$(readlink "$storage/snapshots/$commit/config.json")")"
check_equal "refs/main is the commit" $commit "$(cat "$storage/refs/main")"
check_equal "nothing else is left" "" "$(find "$storage" -name '*.incomplete' -o -name '*.part')"
check_equal "weights in one form come" "" "$(find "$storage/snapshots" -name '*.bin' -o -path '*/onnx/*')"
: >"$hub/log"
fetch ann/tales -q >/dev/null
check_equal "what is there is not fetched again" 1 "$(asked .)"
check_equal "by --json neither" "$storage/snapshots/$commit true 0" \
    "$(fetch ann/tales -q --json | jq -r '"\(.path) \([.files[].cached] | all) \(.bytes_to_fetch)"')"
fetch "ann/tales@$commit" --include '*.bin' -q >/dev/null
check "--include takes what it says" cmp "$storage/snapshots/$commit/pytorch_model.bin" "$files/pytorch_model.bin"
check_status "--exclude leaves out" 1 "none of its [0-9]+ files is wanted" fetch ann/tales --include '*.bin' --exclude 'pytorch*'

# --- its users -----------------------------------------------------------------------------------------------------
"$FERRY" convert "$files" --outtype q8_0 -q -o "$TMP/files.gguf" --chat-template none
check "convert ORG/NAME reads the cache" "$FERRY" convert ann/tales --outtype q8_0 -q -o "$TMP/want.gguf" --chat-template none
check "it is the model of those files" "$FERRY" compare "$TMP/files.gguf" "$TMP/want.gguf"
check_equal "and has both names" "Tales Ann" "$("$FERRY" inspect "$TMP/want.gguf" --json |
    jq -r '.metadata | "\(.["general.name"]) \(.["general.organization"])"')"
for path in "$storage" "$storage/snapshots/$commit" ann/tales@main "ann/tales@$commit"; do
    rm -f "$TMP/got.gguf"
    "$FERRY" convert "$path" --outtype q8_0 -q -o "$TMP/got.gguf" --chat-template none
    check "so it does for $(sed "s,$TMP/,,; s,$commit,COMMIT," <<<"$path")" cmp "$TMP/want.gguf" "$TMP/got.gguf"
done
check_equal "tokenize takes the name too" "$("$FERRY" tokenize -m tests/data/tales 'Once upon')" \
    "$("$FERRY" tokenize -m ann/tales 'Once upon' 2>/dev/null)"
check_status "a name that is not there says what to do" 1 \
    "ann/other: .* not in the cache .*models--ann--other.*'ferry fetch ann/other' downloads it" "$FERRY" convert ann/other
check_status "a revision too" 1 "neither refs/old nor snapshots/old is there" "$FERRY" convert ann/tales@old
fresh
"$FERRY" convert ann/tales --fetch --outtype q8_0 -q -o "$TMP/got.gguf" --chat-template none
check "convert --fetch downloads" cmp "$TMP/want.gguf" "$TMP/got.gguf"
fresh
check_status "up --dry-run --fetch does not" 1 "not in the cache" "$FERRY" up ann/tales --dry-run --fetch
check "up --fetch downloads" env XDG_CACHE_HOME="$TMP/cache" "$FERRY" up ann/tales --fetch --to convert --outtype q8_0 --chat-template none
check_equal "and the model has the repository's name" tales.gguf "$(find "$TMP/cache" -name '*.gguf' -printf '%f\n')"
check_equal "HF_HUB_OFFLINE: what is there" "$storage/snapshots/$commit" "$(HF_HUB_OFFLINE=1 fetch ann/tales 2>/dev/null)"
fresh
check_status "HF_HUB_OFFLINE: what is not" 1 "HF_HUB_OFFLINE is set: ann/tales: .*not in the cache" env HF_HUB_OFFLINE=1 "$FERRY" fetch ann/tales
check_equal "nobody was asked" 0 "$(asked .)"

# --- the token -----------------------------------------------------------------------------------------------------
fresh
echo hf_secretsecret >"$hub/token"
check_status "no token" 1 "ann/tales does not exist, or is private: set HF_TOKEN .*401" "$FERRY" fetch ann/tales
check_status "another token" 1 "the token may not read it" env HF_TOKEN=hf_other "$FERRY" fetch ann/tales
check "HF_TOKEN opens it" env HF_TOKEN=hf_secretsecret "$FERRY" fetch ann/tales -v
check "the files came" same
check_equal "the CDN was asked" 2 "$(asked '^cdn GET')"
check_equal "and did not see the token" 0 "$(asked '^cdn.*authorization=[^ ]')"
fresh
echo hf_secretsecret >"$HF_HOME/token"
check "so does the file in HF_HOME" fetch ann/tales
check_equal "not where HF_HUB_DISABLE_IMPLICIT_TOKEN is set" 1 \
    "$(HF_HUB_DISABLE_IMPLICIT_TOKEN=1 fetch ann/tales >/dev/null 2>&1; echo $?)"
fresh
check_equal "no word holds the token" 0 "$(fetch ann/tales -v 2>&1 | grep -c secret)"
check_status "nor of a refusal" 2 "^ferry fetch: HF_TOKEN: byte 6 cannot be part of a token; expected letters[^s]*s and '_'$" env HF_TOKEN='hf_se cret' "$FERRY" fetch ann/tales
rm "$HF_HOME/token"
# another port of the same machine is another host
fresh
faults "hub model.safetensors elsewhere http://localhost:$port/ann/tales/resolve/$commit/model.safetensors 1"
check_status "nor does another name of the machine" 1 "HTTP status 401" env HF_TOKEN=hf_secretsecret "$FERRY" fetch ann/tales
fresh
faults "hub model.safetensors elsewhere /ann/tales/resolve/$commit/model.safetensors?again 3"
check "the hub's own redirects do" env HF_TOKEN=hf_secretsecret "$FERRY" fetch ann/tales
faults "hub /api/ elsewhere /api/models/ann/tales/revision/main 0"
check_status "not for ever" 1 "more than 8 redirects" env HF_TOKEN=hf_secretsecret "$FERRY" fetch ann/tales
faults "hub /api/ elsewhere file:///etc/passwd 0"
check_status "a redirect to a file leads nowhere" 1 "Protocol \"file\"" env HF_TOKEN=hf_secretsecret "$FERRY" fetch ann/tales
rm "$hub/token"
touch "$hub/gated"
fresh
check_status "a gated repository says where its licence is" 1 "is gated: accept its licence at http://127.0.0.1:$port/ann/tales" "$FERRY" fetch ann/tales
rm "$hub/gated"
check_status "an unknown repository" 1 "ann/nothing, revision 'main', is not at http://127.0.0.1:$port" "$FERRY" fetch ann/nothing
check_status "an unknown revision" 1 "ann/tales has no revision 'old'" "$FERRY" fetch ann/tales --revision old

check_status "an endpoint with a password" 2 "HF_ENDPOINT: expected https://HOST, without" env HF_ENDPOINT=http://u:secret@127.0.0.1 "$FERRY" fetch ann/tales
check_status "an endpoint that is none" 2 "HF_ENDPOINT: 'ftp://x', expected https://HOST" env HF_ENDPOINT=ftp://x "$FERRY" fetch ann/tales

# --- a bad network -------------------------------------------------------------------------------------------------
fresh
faults "cdn model.safetensors cut 100000 1"
check "a cut connection is resumed" fetch ann/tales
check_equal "where it was cut" 1 "$(asked 'cdn GET .*model.safetensors 206 .*range=bytes=100000-$')"
check "and the file is whole" same
fresh
faults "cdn model.safetensors cut 60000 3" "hub /api/ status 503 1" "hub tokenizer.json status 500 1"
check "again and again, and after errors of the server" fetch ann/tales -v
check "the file is whole" same
fresh
faults "hub /api/ retry 1 1"
check "429 waits as it is reported" fetch ann/tales
check_equal "and asks twice" "429 200" "$(awk '$3 ~ /api/ { print $4 }' "$hub/log" | xargs)"
faults "hub /api/ retry 86400 1"
check_status "but not for a day" 1 "asks to wait for 86400 s" "$FERRY" fetch ann/tales
faults "hub /api/ status 503 0"
check_status "and not for ever" 1 "HTTP status 503 .*in 2 attempts" "$FERRY" fetch ann/tales --retries 1
fresh
faults "cdn model.safetensors hang 70000 1"
check "a connection that falls silent is given up" env HF_HUB_DOWNLOAD_TIMEOUT=5 "$FERRY" fetch ann/tales
check_equal "and gone on from" 1 "$(asked 'cdn GET .*range=bytes=70000-$')"
fresh
faults "cdn model.safetensors drip 50 0"
check_status "a hub whose bytes drip is given up" 1 'only [0-9]+ bytes came in 1 s .*in 3 attempts' \
    env HF_HUB_DOWNLOAD_TIMEOUT=1 timeout 300 "$FERRY" fetch ann/tales --retries 2
fresh
faults "hub /api/ drip 50 0"
check_status "also where it is the list of files" 1 'only [0-9]+ bytes came' \
    env HF_HUB_DOWNLOAD_TIMEOUT=1 timeout 300 "$FERRY" fetch ann/tales --retries 1
fresh
faults "cdn model.safetensors drip 50 1"
check "a connection that drips once is opened again" env HF_HUB_DOWNLOAD_TIMEOUT=1 timeout 300 "$FERRY" fetch ann/tales
check "and the file is whole" same
fresh
faults "cdn model.safetensors cut 100000 1"
fetch ann/tales --retries 0 >/dev/null 2>&1
check_equal "what came stays" 100000 "$(stat -c %s "$blob.incomplete")"
check "refs/main is written last" test ! -e "$storage/refs/main"
check_equal "--dry-run tells" 100000 "$(fetch ann/tales --dry-run | sed -n 's/.*model.safetensors (\([0-9]*\) in the cache)/\1/p')"
faults "cdn model.safetensors norange - 1"
check "a server without ranges sends all of it" fetch ann/tales
check "the file is whole" same
fresh
mkdir -p "$storage/blobs"
head -c "$size" /dev/zero >"$blob.incomplete"
check_status "rubbish that was left is noticed" 0 "what was there did not belong to it" "$FERRY" fetch ann/tales
check "and replaced" same
fresh
faults "cdn model.safetensors status 403 1"
check "a signed address that has expired is asked for again" fetch ann/tales

# --- what must not come through -------------------------------------------------------------------------------------
nothing_kept() {
    [ ! -e "$blob" ] && [ ! -e "$blob.incomplete" ] && [ ! -e "$storage/snapshots" ] && [ ! -e "$storage/refs" ]
}
fresh
faults "cdn model.safetensors flip 5000 0"
check_status "a wrong byte" 4 "model.safetensors: SHA-256 [0-9a-f]{64} of what came is not $weights" "$FERRY" fetch ann/tales
check "is not kept" nothing_kept
fresh
faults "hub config.json flip 3 0"
check_status "a wrong byte of a small file" 4 "config.json: git hash [0-9a-f]{40} of what came is not" "$FERRY" fetch ann/tales
fresh
faults "cdn model.safetensors more 10 0"
check_status "more bytes than there should be" 1 "model.safetensors: more bytes came than the $size" "$FERRY" fetch ann/tales
check "are not kept" nothing_kept
fresh
faults "hub model.safetensors etag $(sha256sum <<<x | cut -d' ' -f1) 0"
check_status "two hashes" 4 "the hub's list has SHA-256 $weights, its reply" "$FERRY" fetch ann/tales
check_equal "nothing was asked of the CDN" 0 "$(asked '^cdn.*model.safetensors')"
reply() { # FILTER: changes the reply
    jq "$1" "$hub/api/ann/tales/$commit" >"$hub/api/ann/tales/main"
}
fresh
for name in ../x a/../../x /etc/x a//b . 'a\\..\\x' 'a\nb'; do
    reply ".siblings[0].rfilename = \"$name\""
    check_status "a file named $name" 1 "expected a path below the repository" "$FERRY" fetch ann/tales --include '*'
done
# a name that acts on a terminal: ESC, C1, and one that turns the direction of text
name=$(printf 'x\302\233\342\200\256y.bin')
printf 'not this one' >"$files/$name"
sha256sum </dev/null | cut -d' ' -f1 >"$files/$name.etag"
reply ".siblings[0].rfilename = \"$name\" | .siblings[0].size = 3"
raw=$(printf '\302\233|\342\200\256')
quiet_name() { # ARGS...: the name occurs in what fetch prints, and not as it is
    "$FERRY" fetch ann/tales --include '*.bin' "$@" >"$TMP/out" 2>&1
    grep -qF 'x\u{9b}\u{202e}y.bin' "$TMP/out" && ! grep -qE "$raw" "$TMP/out"
}
check "the table shows it harmlessly" quiet_name --dry-run
check "so do messages" quiet_name --retries 0
fresh
mkdir -p "$storage/snapshots/$commit"
rm "$files/$name"*
reply '.sha = "../../x"'
check_status "a commit that is a path" 1 '"sha" is not a commit' "$FERRY" fetch ann/tales
jq '.sha = "1123456789abcdef0123456789abcdef01234567"' "$hub/api/ann/tales/$commit" >"$hub/api/ann/tales/swap"
mv "$hub/api/ann/tales/$commit" "$hub/api/ann/tales/kept"
mv "$hub/api/ann/tales/swap" "$hub/api/ann/tales/$commit"
check_status "another commit than was asked for" 4 "asked for the commit 0123.*, the hub reports 1123" "$FERRY" fetch "ann/tales@$commit"
mv "$hub/api/ann/tales/kept" "$hub/api/ann/tales/$commit"
reply '.siblings[0].blobId = "../../../x"'
check_status "a hash that is a path" 1 "blobId '../../../x', expected 40 hex" "$FERRY" fetch ann/tales
reply '.siblings[].size = 1e15'
reply '(.siblings[] | select(.lfs) | .size, .lfs.size) = 900000000000000'
check_status "no room" 6 "MB are free and 1800000000.0 MB are to be downloaded" "$FERRY" fetch ann/tales --include '*.bin' --include 'model*'
echo '<html>' >"$hub/api/ann/tales/main"
check_status "a page instead of a reply" 1 "the hub's reply: .*expected" "$FERRY" fetch ann/tales
# a mirror may not tell sizes and hashes: they are asked for file by file
reply 'del(.siblings[].size, .siblings[].blobId, .siblings[].lfs)'
fresh
check "a list without hashes" fetch ann/tales
check "is completed by asking for each" same
cp "$hub/api/ann/tales/$commit" "$hub/api/ann/tales/main"
for name in 'a b/c' ../x a/b/c -x/y a/b.git 'a--b/c' ''; do
    check_status "'$name' is no repository" 2 "not the name of a repository" "$FERRY" fetch -- "$name"
done
check_status "'a/../b' is no revision" 2 "is not a revision" "$FERRY" fetch ann/tales@a/../b

# --- Ctrl-C, and two at once ----------------------------------------------------------------------------------------
fresh
faults "cdn model.safetensors hang 65536 0"
"$FERRY" fetch ann/tales >"$TMP/out" 2>"$TMP/err" &
fetcher=$!
until [ "$(stat -c %s "$blob.incomplete" 2>/dev/null)" = 65536 ]; do kill -0 $fetcher || break; done
check_status "what another one downloads is not touched" 1 "another program downloads it now" "$FERRY" fetch ann/tales
kill -INT $fetcher
wait $fetcher
check_equal "Ctrl-C ends with 130" 130 $?
check "and says how to resume" grep -qE 'interrupted: 0\.[1-9] of 4\.9 MB are there; the same command resumes' "$TMP/err"
check_equal "nothing is on stdout" "" "$(cat "$TMP/out")"
rm "$hub/faults" "$hub/log"
check "it does" fetch ann/tales
check_equal "from there" 1 "$(asked 'cdn GET .*range=bytes=65536-$')"
check "the file is whole" same

fresh
faults "cdn model.safetensors hang 131072 0"
"$FERRY" fetch ann/tales >/dev/null 2>&1 &
fetcher=$!
until [ "$(stat -c %s "$blob.incomplete" 2>/dev/null)" = 131072 ]; do kill -0 $fetcher || break; done
kill -KILL $fetcher
wait $fetcher 2>/dev/null
rm "$hub/faults" "$hub/log"
check "it resumes after kill -9 too" fetch ann/tales
check_equal "from where that was" 1 "$(asked 'cdn GET .*range=bytes=131072-$')"
check "and the file is whole" same

# --- disks -----------------------------------------------------------------------------------------------------------
check_status "a cache that cannot be made" 1 "/proc/nothing" env HF_HUB_CACHE=/proc/nothing "$FERRY" fetch ann/tales
stop_hub
finish
