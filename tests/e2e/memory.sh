#!/usr/bin/env bash
# Memory does not grow with the model: converting a checkpoint of 8B shape (sparse, so it takes no disk) stays below
# 64 MB of anonymous memory, tokenizer of 128k entries included.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

limit_kb=65536 name="an 8B checkpoint converts to q4_0 with less than 64 MB of anonymous memory"
if [ "$(df --output=avail -k "$TMP" | tail -1)" -lt 7000000 ]; then
    skip "$name" "less than 7 GB free for the output"
    finish
    exit
fi
make_checkpoint=build/host/release/tests/bench/make_checkpoint
tokenizer=$REAL/tokenizers/llama3_2
check "a sparse checkpoint of 8B shape" $make_checkpoint "$TMP/8b" layers=32 dim=4096 ffn=14336 heads=32 kv=8 \
    head_dim=128 shards=4 tied=0 sparse=1 tokenizer="$([ -d "$tokenizer" ] && echo 0 || echo 1)"
if [ -d "$tokenizer" ]; then
    cp "$tokenizer"/tokenizer*.json "$TMP/8b/"
else
    skip "with the tokenizer of Llama 3.2" "$tokenizer is absent"
fi
$FERRY convert "$TMP/8b" --outtype q4_0 -o "$TMP/8b.gguf" 2>"$TMP/err" &
pid=$!
peak=0
while kill -0 $pid 2>/dev/null; do
    now=$(awk '/^RssAnon/ { print $2 }' /proc/$pid/status 2>/dev/null)
    [ "${now:-0}" -gt "$peak" ] && peak=$now
    sleep 0.02
done
if wait $pid && [ "$peak" -gt 0 ] && [ "$peak" -lt $limit_kb ]; then
    ok "$name"
else
    not_ok "$name" "peak $peak kB; $(cat "$TMP/err")"
fi
check_equal "the file has the size its header says" "" "$($FERRY inspect "$TMP/8b.gguf" 2>&1 >/dev/null)"
finish
