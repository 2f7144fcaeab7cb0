#!/usr/bin/env bash
# Checkpoints in other containers than safetensors: the logits of the reference implementation, and the tensors of
# the same weights in safetensors.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

for dir in tests/data/containers/{torchbin,meta-llama3,meta-llama3-2parts,llama2c,llama-fp8}; do
    name=$(basename "$dir")
    f=$TMP/$name.gguf
    check "$name converts to f32" "$FERRY" convert "$dir" --outtype f32 -o "$f"
    check "$name: golden logits and ids in f32" "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors"
    if grep -q '"tokenizer_cases"' "$dir/golden.json"; then
        check "$name: tokenizer cases" "$FERRY" tokenize -m "$f" --verify "$dir/golden.json"
    fi
    check "$name converts to q8_0" "$FERRY" convert "$dir" --outtype q8_0 -o "$TMP/q8.gguf"
done

# Parts are joined to what one file holds. (The name of the directory is in the file, too.)
for name in meta-llama3 meta-llama3-2parts; do
    mkdir "$TMP/$name"
    cp -r "tests/data/containers/$name" "$TMP/$name/model"
    "$FERRY" convert "$TMP/$name/model" --outtype f32 -o "$TMP/$name.gguf" -q
done
check "two parts give the bytes of one" cmp "$TMP/meta-llama3.gguf" "$TMP/meta-llama3-2parts.gguf"

# The same trained model in five containers. The last one has other names, other rows of q and k, and its own settings.
same_tensors() { # GGUF GGUF
    diff <("$FERRY" inspect --json --hash "$1" | jq -c '.tensors[] | [.name, .type, .shape, .sha256]' | sort) \
        <("$FERRY" inspect --json --hash "$2" | jq -c '.tensors[] | [.name, .type, .shape, .sha256]' | sort)
}
stories() { # CONTAINER TYPE REFERENCE
    local dir=$REAL/stories260K-hf-$1 as=$REAL/stories260K-hf-$3
    if [ ! -d "$dir" ] || [ ! -d "$as" ]; then
        skip "stories260K as $1 has the tensors of $3" "$dir is absent"
        return
    fi
    check "stories260K as $1 converts" "$FERRY" convert "$dir" --outtype "$2" -o "$TMP/a.gguf"
    check "so does its reference" "$FERRY" convert "$as" --outtype "$2" -o "$TMP/b.gguf"
    check "stories260K as $1 has the tensors of $3" same_tensors "$TMP/a.gguf" "$TMP/b.gguf"
}
stories torchbin f32 f32
stories torchbin-legacy f32 f32
stories torchbin-bf16 bf16 bf16
stories meta f32 bf16
finish
