#!/usr/bin/env bash
# --prompt-cache of run and chat: the same answer with less work, and files that are refused.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

m=$TMP/tales.gguf
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$m" || exit 1
cache=$TMP/one.cache
text='Once upon a time, there was a little girl named Mia. She lived near the castle.'
run() { "$FERRY" run -m "$m" -q "$@"; }
reused() { jq -c '[.timing.cached_tokens, .text]'; }
plain() { run --json -n 30 -p "$1" | jq -c .text; }

for type in f32 f16 q8_0 q4_0; do
    t=(-ctk "$type" -ctv "$type")
    rm -f "$cache"
    check "a cache of $type is made" run "${t[@]}" --prompt-cache "$cache" -p "$text" -n 0
    n=$(run "${t[@]}" --json -p "$text" -n 0 | jq .timing.prompt_tokens)
    check_equal "$type: what the prompts share comes from the file, and the answer is the same" \
        "[$n,$(run "${t[@]}" --json -n 30 -p "$text Mia and Tom" | jq -c .text)]" \
        "$(run "${t[@]}" --json -n 30 -p "$text Mia and Tom" --prompt-cache "$cache" | reused)"
    run "${t[@]}" -p "$text Mia and Tom" -n 0 --logits-out "$TMP/a"
    run "${t[@]}" --prompt-cache "$cache" -p "$text Mia and Tom" -n 0
    check_equal "$type: the file now holds the longer text" \
        "$(run "${t[@]}" --json -p "$text Mia and Tom" -n 0 | jq '.timing.prompt_tokens - 1')" \
        "$(run "${t[@]}" --json --prompt-cache "$cache" -p "$text Mia and Tom" -n 0 | jq .timing.cached_tokens)"
done

rm -f "$cache"
run --prompt-cache "$cache" -p "$text" -n 20 >/dev/null
before=$(sha256sum <"$cache")
run --prompt-cache "$cache" -p "$text" -n 10 >/dev/null
check_equal "a file that begins with what was computed stays as it is" "$before" "$(sha256sum <"$cache")"
check_equal "the same work makes the same bytes" "$before" \
    "$(run --prompt-cache "$TMP/two.cache" -p "$text" -n 20 -t 1 -b 3 >/dev/null && sha256sum <"$TMP/two.cache")"
check_equal "a prompt that shares only its BOS takes only that" "[1,$(plain 'Tom ran')]" \
    "$(run --json -n 30 -p 'Tom ran' --prompt-cache "$TMP/two.cache" | reused)"
ids=763,408,409,258,410
all=$ids,$(run --json --prompt-ids $ids -n 20 --prompt-cache "$TMP/small.cache" | jq -r '.ids | join(",")')
check_equal "a smaller context takes what it has room for" 9 \
    "$(run --json -c 12 -n 0 --prompt-ids "$(cut -d, -f1-10 <<<"$all")" --prompt-cache "$TMP/small.cache" | jq .timing.cached_tokens)"
check "nothing else is left" test -z "$(find "$TMP" -name "*part*")"

# --- chat ----------------------------------------------------------------------------------------------------------
q=$(jq -r '.chat[0].messages[0].content' tests/data/tales/golden.json)
want=$("$FERRY" chat -m "$m" --temp 0 -p "$q")
check_equal "chat writes one" "$want" "$("$FERRY" chat -m "$m" --temp 0 -p "$q" --prompt-cache "$TMP/chat.cache")"
check_equal "and reads it" "$want" "$("$FERRY" chat -m "$m" --temp 0 -p "$q" --prompt-cache "$TMP/chat.cache")"
check "it computes one token" test 1 = "$("$FERRY" chat --json -m "$m" --temp 0 -p "$q" --prompt-cache "$TMP/chat.cache" |
    jq 'select(.event == "answer").timing | .prompt_tokens - .cached_tokens')"

# --- what is refused -----------------------------------------------------------------------------------------------
check_status "another file" 1 "tales.gguf: not a prompt cache" run -p a -n 1 --prompt-cache "$m"
check "which stays" "$FERRY" inspect "$m"
head -c 3000 "$cache" >"$TMP/cut"
check_status "half a file" 1 'cut: 3000 bytes, expected [0-9]*: it was cut short' run -p a -n 1 --prompt-cache "$TMP/cut"
{ head -c 3000 "$cache"; printf X; tail -c +3002 "$cache"; } >"$TMP/bad"
check_status "a damaged one" 1 'bad: its hash is another' run -p a -n 1 --prompt-cache "$TMP/bad"
check_status "one of another type" 2 'one.cache: holds a cache of types f16 and f16' run -ctk f32 -ctv f32 -p a -n 1 --prompt-cache "$cache"
"$FERRY" quantize -q "$m" "$TMP/other.gguf" q8_0
check_status "one of another model" 2 'one.cache: holds the cache of another model' \
    "$FERRY" run -m "$TMP/other.gguf" -p a -n 1 --prompt-cache "$cache"
check_status "one of other kernels" 2 'kernels of another CPU' env FY_CPU_MASK=0 "$FERRY" run -m "$m" -p a -n 1 --prompt-cache "$cache"
check_status "a directory" 1 'directory' run -p a -n 1 --prompt-cache "$TMP"
check_status "a name that cannot be written" 1 'nowhere' run -p a -n 1 --prompt-cache "$TMP/nowhere/x"
finish
