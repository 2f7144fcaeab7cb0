#!/usr/bin/env bash
# The trained 260K-parameter story teller: its published greedy story, word for word, from every container.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

if [ ! -d "$REAL/stories260K" ]; then
    skip "stories260K tells its story" "$REAL/stories260K is absent"
    finish
    exit
fi
story=$(awk '/-t 0.0$/ { on = 1; next } /^```/ { on = 0 } on' "$REAL/stories260K/stories260K.md")
tell() { # PROGRAM FILE
    $1 run -m "$2" -p '' -n 256 -ctk f32 -ctv f32 2>/dev/null | sed '1s/^ //'
}
for kind in f32 f16 bf16 sharded; do
    check "stories260K $kind converts" "$FERRY" convert "$REAL/stories260K-hf-$kind" --outtype "${kind/sharded/f32}" --model-name stories \
        -o "$TMP/$kind.gguf"
done
for kind in f32 f16 sharded; do
    got=$(tell "$FERRY" "$TMP/$kind.gguf")
    check_equal "stories260K $kind tells its story" "$story" "${got:0:${#story}}"
done
got=$(tell "$FERRY_ARM" "$TMP/f32.gguf")
check_equal "stories260K tells its story on arm64" "$story" "${got:0:${#story}}"
check "three shards give the bytes of one file" cmp "$TMP/f32.gguf" "$TMP/sharded.gguf"
check "its tokenizer agrees with the reference" "$FERRY" tokenize -m "$TMP/f32.gguf" --verify "$REAL/stories260K/parity.json"
finish
