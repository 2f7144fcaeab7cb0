#!/usr/bin/env bash
# ferry serve --slot-save-path: what a slot holds to a file and back, whose it is, and what is refused.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/serve_lib.sh
. tests/serve_lib.sh

m=$TMP/tales.gguf
$FERRY convert tests/data/tales --outtype f32 -o "$m" -q 2>/dev/null || not_ok "the demo model converts"
$FERRY quantize "$m" "$TMP/other.gguf" q8_0 -q 2>/dev/null || not_ok "another model"
serve_options=(-ctk f32 -ctv f32 -np 2 -c 512 --cache-ram 0)
key=()
post() { curl -s "$url$1" "${key[@]}" -d "$2"; } # PATH JSON
slot() { post "/slots/$1?action=$2" "{\"filename\":\"${3-}\"}"; } # NUMBER ACTION NAME
code() { curl -s -o "$TMP/body" -w '%{http_code}' "$url/slots/$1" "${key[@]}" -d "$2"; } # REST JSON
dir=$TMP/slots
mkdir "$dir"

check_status "the directory has to be there" 2 'is not a directory' "$FERRY" serve -m "$m" --slot-save-path "$TMP/none"
start none
check_equal "without the option: 501" "501 not_supported_error" \
    "$(code '0?action=save' '{"filename":"a"}') $(jq -r .error.type "$TMP/body")"
stop

# --- there and back --------------------------------------------------------------------------------------------------
ask='{"prompt":"Once upon a time there was an owl. The owl lived in a tree and she","n_predict":30,"temperature":0,"n_probs":3,"id_slot":0}'
more='{"prompt":"Once upon a time there was an owl. The owl lived in a tree and she was happy.","n_predict":30,"temperature":0,"n_probs":3,"id_slot":1}'
start first --slot-save-path "$dir"
want=$(post /completion "$more" | jq -cS '[.content,.completion_probabilities]')
post /completion "$ask" >"$TMP/first.json"
held=$(curl -s "$url/slots" | jq '.[0].n_cached_tokens')
saved=$(slot 0 save owl)
check_equal "a slot is saved" "[0,\"owl\",$held,$(stat -c %s "$dir/owl"),true]" \
    "$(jq -c '[.id_slot,.filename,.n_saved,.n_written,.timings.save_ms>=0]' <<<"$saved")"
check_equal "whole, and nothing else is left" owl "$(ls "$dir")"
check_equal "again to the same bytes" "$(sha256sum <"$dir/owl")" "$(slot 0 save again >/dev/null && sha256sum <"$dir/again")"
check_equal "a slot is erased" "[0,$held]" "$(slot 0 erase | jq -c '[.id_slot,.n_erased]')"
check_equal "and holds nothing" 0 "$(curl -s "$url/slots" | jq '.[0].n_cached_tokens')"
check_equal "which is not saved" 400 "$(code '0?action=save' '{"filename":"nothing"}')"
stop
start second --slot-save-path "$dir"
check_equal "another process restores it" "[1,\"owl\",$held,$(stat -c %s "$dir/owl"),true]" \
    "$(slot 1 restore owl | jq -c '[.id_slot,.filename,.n_restored,.n_read,.timings.restore_ms>=0]')"
got=$(post /completion "$more")
check "the next request takes its beginning from it" jq -e '.timings.cache_n > 10' <<<"$got"
check_equal "and its answer is that without, to the last digit" "$want" "$(jq -cS '[.content,.completion_probabilities]' <<<"$got")"

# --- a busy slot, other streams --------------------------------------------------------------------------------------
curl -sN "$url/completion" -d '{"prompt":"Once","n_predict":300,"ignore_eos":true,"id_slot":0,"stream":true}' >"$TMP/busy" &
busy=$!
curl -sN "$url/completion" -d '{"prompt":"A dog","n_predict":300,"ignore_eos":true,"temperature":0,"id_slot":1,"stream":true}' >"$TMP/beside" &
beside=$!
wait_for 120 test -s "$TMP/busy" -a -s "$TMP/beside"
n=$(slot 0 save busy | jq .n_saved)
check "a busy slot is waited for" test "$n" -ge 300
wait "$busy" "$beside"
alone=$(post /completion '{"prompt":"A dog","n_predict":300,"ignore_eos":true,"temperature":0,"cache_prompt":false}' | jq -r .content)
check_equal "a stream beside it is as it is alone" "$alone" \
    "$(sed -n 's/^data: //p' "$TMP/beside" | jq -rj '.content // empty')"
for i in $(seq 12); do
    slot 0 save "many$((i % 3))" >/dev/null &
    slot 0 restore owl >/dev/null &
done
check_equal "a request amid saves and restores" "$want" \
    "$(post /completion "${more/\"id_slot\":1/\"id_slot\":0}" | jq -cS '[.content,.completion_probabilities]')"
wait_metric slots_busy 0

# --- what is refused -------------------------------------------------------------------------------------------------
echo secret >"$TMP/outside"
ln -s "$TMP/outside" "$dir/link"
mkdir "$dir/sub"
mkfifo "$dir/pipe"
for name in '' . .. .hidden ../outside sub/../owl /etc/passwd 'a\\b' 'a\u0000b' 'a\nb' owl.part; do
    check_equal "the name '$name'" "400 filename" \
        "$(code '0?action=restore' "{\"filename\":\"$name\"}") $(jq -r .error.param "$TMP/body")"
done
for name in link sub pipe; do
    check_equal "a $name is not read" 400 "$(code '0?action=restore' "{\"filename\":\"$name\"}")"
done
for name in pipe sub; do
    check_equal "a $name is not written" "400 filename" "$(code '1?action=save' "{\"filename\":\"$name\"}") $(jq -r .error.param "$TMP/body")"
    check "and the answer has no path" jq -e --arg d "$TMP" '.error.message | (contains($d) or contains("/proc")) | not' "$TMP/body"
done
code '1?action=save' '{"filename":"link"}' >/dev/null
check_equal "a link does not lead out" secret "$(cat "$TMP/outside")"
check_equal "a file that is not there" 404 "$(code '0?action=restore' '{"filename":"absent"}')"
check_equal "another slot, another action" "400 400 400 400" \
    "$(for a in '2?action=save' 'x?action=save' '0?action=eat' '0'; do code "$a" '{"filename":"a"}'; echo; done | xargs)"
check_equal "a body without a name" "400 400" "$(code '0?action=save' '{}') $(code '0?action=save' '{"filename":3}')"
cp "$dir/owl" "$dir/flipped"
printf 'x' | dd of="$dir/flipped" bs=1 seek=5000 conv=notrunc 2>/dev/null
head -c 3000 "$dir/owl" >"$dir/short"
for name in flipped short; do
    check_equal "a damaged file ($name)" 400 "$(code '0?action=restore' "{\"filename\":\"$name\"}")"
    check "is named, without its path" jq -e --arg n "$name" --arg d "$TMP" '.error.message | contains($n) and (contains($d) or contains("/proc") | not)' "$TMP/body"
done
check "a refused file leaves the slot as it was" test "$(curl -s "$url/slots" | jq '.[0].n_cached_tokens')" -gt 10
check_equal "which works" "$want" \
    "$(post /completion "${more/\"id_slot\":1/\"id_slot\":0}" | jq -cS '[.content,.completion_probabilities]')"
stop
m=$TMP/other.gguf start other --slot-save-path "$dir"
check_equal "a file of another model" 400 "$(code '0?action=restore' '{"filename":"owl"}')"
check "is refused by name" grep -q 'owl.*another model' "$TMP/body"
stop
start small --slot-save-path "$dir" -c 8
check_equal "one that is larger than a slot" 400 "$(code '0?action=restore' '{"filename":"owl"}')"
check "is refused with both numbers" grep -q "holds $held tokens, a slot has room for 8" "$TMP/body"
stop

# --- keys ------------------------------------------------------------------------------------------------------------
mkdir "$TMP/keyed"
start keys --slot-save-path "$TMP/keyed" --api-key anna --api-key bert
check_equal "a key is needed" 401 "$(code '0?action=save' '{"filename":"a"}')"
key=(-H 'x-api-key: anna')
post /completion "$ask" >/dev/null
check "one key saves its slot" jq -e '.n_saved > 10' <<<"$(slot 0 save tale)"
key=(-H 'x-api-key: bert')
check_equal "another one finds nothing to save, nothing to erase, no file" "400 0 404" \
    "$(code '0?action=save' '{"filename":"b"}') $(slot 0 erase | jq .n_erased) $(code '1?action=restore' '{"filename":"tale"}')"
key=(-H 'x-api-key: anna')
check "whose it is restores it" jq -e '.n_restored > 10' <<<"$(slot 1 restore tale)"
key=(-H 'x-api-key: bert')
check_equal "and nobody else is served from it" 0 "$(post /completion "$ask" | jq .timings.cache_n)"
check_equal "directories are their user's alone" 700 "$(stat -c %a "$TMP"/keyed/* | sort -u)"
check_equal "their names show no key" 0 "$(find "$TMP/keyed" -mindepth 1 -maxdepth 1 -printf '%f\n' | grep -cE "anna|bert|$(printf anna | sha256sum | cut -c1-16)")"
stop
# --- copies in memory ------------------------------------------------------------------------------------------------
key=()
start ram --slot-save-path "$dir" -np 1 --cache-ram 64M
long() { jq -nc --arg t "$1" '{prompt: ($t * 12), n_predict: 5}'; } # TEXT
cached() { post /completion "$(long 'Once upon a time. ')" | jq .timings.cache_n; }
cached >/dev/null
post /completion "$(long 'A dog and a cat. ')" >/dev/null
check "a text that lost its slot comes back from memory" test "$(cached)" -gt 30
slot 0 erase >/dev/null
check_equal "erased it does not" 0 "$(cached)"
stop
finish
