#!/usr/bin/env bash
# Checkpoint directories as people have them: which files are read, and one clear message for each way to be incomplete.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
llama=tests/data/families/llama parts=tests/data/containers/meta-llama3-2parts bin=tests/data/containers/torchbin
dir=$TMP/dir out=$TMP/out.gguf

copy() { # FROM [FILE...]: fresh $dir with these files of FROM, or all
    local from=$1
    shift
    rm -rf "$dir"
    mkdir "$dir"
    if [ $# -eq 0 ]; then
        cp "$from"/* "$dir"
    else
        (cd "$from" && cp "$@" "$dir")
    fi
}
refused() { # NAME PATTERN
    check_status "$1" 1 "$2" "$FERRY" convert "$dir" -o "$out" -q
}
same() { # NAME REFERENCE
    rm -f "$out"
    "$FERRY" convert "$dir" -o "$out" -q 2>"$TMP/err"
    check "$1" "$FERRY" compare "$2" "$out"
}

# --- Meta's form ---------------------------------------------------------------------------------------------------
"$FERRY" convert $parts -o "$TMP/parts.gguf" -q
copy $parts
same "two parts" "$TMP/parts.gguf"
echo '{"model_type": "llama"}' >"$dir/config.json"
same "a config.json beside Meta's files is not asked" "$TMP/parts.gguf"
copy $parts
mv "$dir/consolidated.01.pth" "$dir/consolidated.02.pth"
refused "a part in the middle is absent" 'consolidated\.01\.pth is absent, but there are parts up to number 2; download it'
copy $parts
rm "$dir/consolidated.00.pth"
refused "the first part is absent" 'consolidated\.00\.pth is absent, but there are parts up to number 1'
copy $parts
rm "$dir/consolidated.01.pth"
refused "the last part is absent" 'consolidated\.01\.pth is absent: by their sizes there are 2 parts; download it'
copy $parts
cp "$dir/consolidated.00.pth" "$dir/consolidated.01.pth"
refused "one part under two names" 'consolidated\.01\.pth: holds the same as another part'
copy $parts
cp tests/fuzz/corpus/torch_zip/state "$dir/consolidated.01.pth"
refused "a part of another model" "consolidated.01.pth: no tensor '.*', which .*consolidated.00.pth has"
copy $parts
jq '.vocab_size = 4000' $parts/params.json >"$dir/params.json"
refused "params.json of another model" 'vocab_size is 4000 in params.json, but tok_embeddings.weight has 320 rows'
jq '.vocab_size = -1' $parts/params.json >"$dir/params.json"
check "a vocabulary whose size only the tokenizer knows" "$FERRY" convert "$dir" -o "$out" -q
echo '<!DOCTYPE html><html>' >"$dir/params.json"
refused "a page in place of params.json" 'params.json: this is an HTML page saved in place of the file'
echo '{"dim": }' >"$dir/params.json"
refused "a params.json that is not JSON" 'params.json: line 1, column 9: '
copy $parts
rm "$dir/params.json"
refused "params.json is absent" "consolidated.0[01].pth is a part of a checkpoint in Meta's form, whose params.json is not next to it"

# --- Hugging Face's form -------------------------------------------------------------------------------------------
"$FERRY" convert $llama -o "$TMP/llama.gguf" -q
trainer() { # what a trainer leaves beside a model
    for file in optimizer.pt scheduler.pt rng_state.pth training_args.bin; do
        cp tests/fuzz/corpus/torch_zip/opaque "$dir/$file"
    done
}
copy $llama
trainer
cp tests/fuzz/corpus/torch_zip/cut "$dir/pytorch_model.bin"
same "safetensors is taken before .bin and whatever else is there" "$TMP/llama.gguf"
"$FERRY" convert $bin -o "$TMP/bin.gguf" -q
copy $bin
trainer
same "files of a trainer beside .bin" "$TMP/bin.gguf"
rm "$dir"/*.safetensors "$dir"/pytorch_model*
refused "files of a trainer alone" '(optimizer.pt|scheduler.pt|rng_state.pth|training_args.bin) is of a training, not of the model'
rm "$dir/config.json"
refused "and without config.json" '(optimizer.pt|scheduler.pt|rng_state.pth|training_args.bin) is of a training, not of the model'
copy $llama config.json tokenizer.json
cp $llama/model.safetensors "$dir/consolidated.safetensors"
refused "Mistral's own form" "consolidated.safetensors is the weights under Mistral's own names, .*; download the files of the Hugging Face form"
copy $llama config.json tokenizer.json
ln -s ../../blobs/0123 "$dir/model.safetensors"
refused "a link to a file that is gone" 'model.safetensors: is a link to a file that is not there; download it again'
copy $llama config.json tokenizer.json
cp $llama/model.safetensors "$dir/pytorch_model.bin"
refused "safetensors under the name of PyTorch" 'pytorch_model.bin: is not a PyTorch checkpoint but a safetensors file'
copy $llama config.json tokenizer.json
cp tests/fuzz/corpus/torch_zip/state "$dir/model.safetensors"
refused "PyTorch under the name of safetensors" 'model.safetensors: is not a safetensors file but a zip archive, as PyTorch writes'
copy tests/data/containers/llama-fp8
jq 'del(.quantization_config)' tests/data/containers/llama-fp8/config.json >"$dir/config.json"
refused "FP8 that config.json does not tell of" 'is of type F8_E4M3, which ferry does not convert without a quantization_config of method fp8 in config.json'
finish
