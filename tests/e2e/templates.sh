#!/usr/bin/env bash
# Real chat templates against what their reference implementation printed: through --verify, and as lines of JSON.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
export SOURCE_DATE_EPOCH=1721995200 # the reference's clock: 26 Jul 2024, 12:00 UTC

check "the language comes out as its 83 snippets say" "$FERRY" template --verify tests/data/jinja/cases.json

# The cases of a parity.json as requests, and whether the answers are the expected ones.
answers() { # TEMPLATE PARITY
    jq -c '. as $p | .cases[] | {messages, tools, extra, add_generation_prompt,
        bos_token: $p.bos_token, eos_token: $p.eos_token}' "$2" >"$TMP/requests"
    $FERRY template --file "$1" --jsonl <"$TMP/requests" >"$TMP/answers" || return
    jq -c '.cases[]' "$2" | paste -d '\n' - "$TMP/answers" | jq -cs '
        [range(0; length; 2) as $i | {want: .[$i], got: .[$i + 1]}] |
        map(select(if .want.error == null then .got.text != .want.expected
                   elif .want.kind == null then .got.error != .want.error
                   else .got.error == null end) | .want.name) | .[]' >"$TMP/wrong"
    cat "$TMP/wrong"
    [ ! -s "$TMP/wrong" ]
}

have_jq=$(command -v jq || true)
found=0
for dir in "$REAL"/templates/*/; do
    [ -f "$dir/parity.json" ] || continue
    found=$((found + 1))
    name=$(basename "$dir")
    check "$name renders as its reference" "$FERRY" template --file "$dir/template.jinja" --verify "$dir/parity.json"
    if [ -n "$have_jq" ]; then
        check "$name renders the same line by line" answers "$dir/template.jinja" "$dir/parity.json"
    else
        skip "$name renders the same line by line" "jq is absent"
    fi
done
[ "$found" -gt 0 ] || skip "real templates render as their reference" "$REAL/templates is absent"

printf '%s' "{{ bos_token | default('none') }} {{ eos_token | default('none') }}" >"$TMP/tokens.jinja"
# A checkpoint's own template, straight from its directory, with its own BOS and EOS.
for name in qwen3 llama3_2 internlm2 phi3 deepseek_v3 chatglm3 mistral_nemo granite-code; do
    dir=$REAL/tokenizers/$name
    parity=$REAL/templates/$name/parity.json
    if [ ! -d "$dir" ] || [ ! -f "$parity" ]; then
        skip "$name renders from its checkpoint" "$dir or $parity is absent"
    elif ! "$FERRY" convert "$dir" --vocab-only -o "$TMP/$name.gguf" >"$TMP/log" 2>&1; then
        skip "$name renders from its checkpoint" "its tokenizer is not converted yet: $(tail -1 "$TMP/log")"
    else
        check "$name renders from its checkpoint" "$FERRY" template -m "$TMP/$name.gguf" --verify "$parity"
        # chatglm3's SentencePiece model has a BOS that its tokenizer's class does not name
        [ -z "$have_jq" ] || [ "$name" = chatglm3 ] || check_equal "$name has the tokens that its reference was given" \
            "$(jq -r '"\(.bos_token // "none") \(.eos_token // "none")"' "$parity")" \
            "$("$FERRY" template -m "$TMP/$name.gguf" --file "$TMP/tokens.jinja")"
    fi
done
finish
