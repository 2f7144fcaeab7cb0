#!/usr/bin/env bash
# A compiled model (docs/npu-compile.md) in the verbs that carry it: create, verify, pack and unpack take what
# `ferry compile` writes, and each way in which it does not fit together has its message.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT VIRTUAL_ENV
export HOME=$TMP

elf() { # FILE CLASS TYPE MACHINE: the head of a program or library
    { printf "\177ELF\\$2\1\1" && head -c 9 /dev/zero && printf "\\$3\0\\$4\0\1" && head -c 200 /dev/zero; } >"$1"
}
library() { # FILE TEXT: for aarch64, with a dynamic section that is empty
    local z=\\0\\0\\0\\0
    printf "\\177ELF\\2\\1\\1\\0$z$z\\3\\0\\267\\0\\1\\0\\0\\0$z$z\\100\\0\\0\\0$z$z$z$z\\100\\0\\70\\0\\1\\0\\0\\0$z" >"$1"
    printf "\\2\\0\\0\\0$z\\170\\0\\0\\0$z$z$z$z$z\\20\\0\\0\\0$z\\20\\0\\0\\0$z$z$z$z$z$z$z" >>"$1"
    printf '%s\0' "${2-}" >>"$1"
}
elf "$TMP/ferry" 2 2 267
export FERRY_EXE_PATH=$TMP/ferry
m=$TMP/m.gguf
"$FERRY" convert tests/data/tales --outtype f16 -q -o "$m"
"$FERRY" chunk "$m" --soc SM8650 --recipe 16a8w --chunks 2 -c 160 --batch 32,1 -q -o "$TMP/cut"
check "a compiled model" "$FERRY" compile "$TMP/cut" --sdk reference --calibration tests/data/held.txt -q -o "$TMP/out"
check "one of floats" "$FERRY" compile "$TMP/cut" --sdk reference --recipe fp16 -q -o "$TMP/floats"
create() { "$FERRY" create "$@" -q; }

# --- create, verify, pack ---------------------------------------------------------------------------------------------
check_status "create takes it, and names what PowerServe lacks" 0 "graphs have caches of u8 and masks of u16, expected f16" "$FERRY" create "$TMP/out" -o "$TMP/ws"
check_equal "binaries and descriptions, and no ranges" "canary.json chunk_0.bin chunk_0.json chunk_1.bin chunk_1.json config.json lm_head.bin lm_head.json" \
    "$(cd "$TMP/ws/tales/qnn" && echo *)"
check "as they were" diff -r --exclude ranges.json "$TMP/out/qnn" "$TMP/ws/tales/qnn"
check "verify" "$FERRY" verify "$TMP/ws" -q
check "pack and unpack" bash -c "'$FERRY' pack '$TMP/ws' -o '$TMP/ws.tar.zst' -q && '$FERRY' unpack '$TMP/ws.tar.zst' -o '$TMP/back' -q"
check "to the same bytes" diff -r "$TMP/ws" "$TMP/back"
check "complete weights may be next to the binaries" create "$m" --qnn-path "$TMP/out" -o "$TMP/both"
check "which verify accepts" "$FERRY" verify "$TMP/both" -q
check_equal "and which the CPU computes" "$("$FERRY" run -m "$m" -p 'One day' -n 4 -q)" "$("$FERRY" run -d "$TMP/both" --backend cpu -p 'One day' -n 4 -q)"
check_equal "graphs of floats have a preset of no tokens, as PowerServe's runtime opens it" "16 0" \
    "$(cd "$TMP/floats/qnn/kv" && echo "$(find . -name 'layer_*_*_*.raw' | wc -l) $(cat ./* | wc -c)")"
check "which goes along" create "$TMP/floats" -o "$TMP/fws"
check "to the workspace" diff -r "$TMP/floats/qnn" "$TMP/fws/tales/qnn"

check "a preset" "$FERRY" compile "$TMP/cut" --sdk reference --recipe fp16 --preset-bos -q -o "$TMP/preset"
check "is taken" create "$TMP/preset" -o "$TMP/pws"
check "to the workspace" diff -r "$TMP/preset/qnn" "$TMP/pws/tales/qnn"
check_equal "and shown" "1 1" "$("$FERRY" inspect "$TMP/pws" | grep -c 'after a preset of 1 tokens') $("$FERRY" inspect "$TMP/pws" --json | jq .chain.preset)"
truncate -s 4 "$TMP/preset/qnn/kv/layer_1_key_0.raw"
check_status "a file of it that is cut off" 2 "layer_1_key_0.raw: 4 bytes, expected 128 \(kv_size x head_size floats\)" create "$TMP/preset" -o "$TMP/none"

# --- run, inspect -----------------------------------------------------------------------------------------------------
check_equal "the workspace runs on the reference library as the directory does" \
    "$("$FERRY" run -m "$TMP/floats" --backend qnn --qnn-lib reference -p 'One day' -n 8 -q)" \
    "$("$FERRY" run -d "$TMP/fws" --backend qnn --qnn-lib reference -p 'One day' -n 8 -q)"
"$FERRY" inspect "$TMP/out/qnn/chunk_1.bin" >"$TMP/text"
check_equal "inspect shows chip, recipe and library of a binary" 1 \
    "$(grep -cE '^compiled for SM8650 \(V75, 8 MB of VTCM\), recipe 16a8w, by QNN v2\.51\.0\.reference, core interface 2\.40\.0$' "$TMP/text")"
check_equal "its graphs, with what goes in and out" "batch_32 32 12 9" "$(awk '$1 == "batch_32" { print $1, $2, $3, $4 }' "$TMP/text")"
check_equal "and their tensors" 2 "$(grep -cE '^  layer_2_value_1 +out +u8 +\[(32|1), 32\] +0\.[0-9e-]+ +-128 +[0-9]+$' "$TMP/text")"
check_equal "the JSON has all that the description has" \
    "$(jq -c '[.model, .recipe, .soc.name, .binary.sha256, [.graphs[].tensors[] | .name, .id, .dims, .type]]' "$TMP/out/qnn/chunk_1.json")" \
    "$("$FERRY" inspect "$TMP/out/qnn/chunk_1.bin" --json | jq -c '[.model, .recipe, .soc, .sha256, [.graphs[].tensors[] | .name, .id, .shape, .type]]')"
check_equal "the chain of the directory has the stamp" "$(jq -c .ferry.compiled "$TMP/out/qnn/config.json")" \
    "$("$FERRY" inspect "$TMP/out" --json | jq -c '.chain.compiled | {soc, arch, vtcm_mb, build_id, recipe, kv, mask}')"
check_equal "in words, too" "  V75, 8 MB of VTCM, caches of u8, masks of u16, by QNN v2.51.0.reference" "$("$FERRY" inspect "$TMP/ws" | grep VTCM)"
check_equal "a cut has none" null "$("$FERRY" inspect "$TMP/cut" --json | jq -c .chain.compiled)"
cp tests/data/containers/torchbin/pytorch_model-00001-of-00002.bin "$TMP/t.bin"
echo '{}' >"$TMP/t.json"
check_equal "PyTorch's NAME.bin may have a NAME.json, too" torch "$("$FERRY" inspect "$TMP/t.bin" --json | jq -r .format)"
check_status "tensors are not read from a binary" 2 "this is a context binary" "$FERRY" inspect "$TMP/out/qnn/chunk_0.bin" --tensor x
mkdir "$TMP/cut-off"
cp "$TMP"/out/qnn/lm_head.* "$TMP/cut-off/"
truncate -s 100 "$TMP/cut-off/lm_head.bin"
check_status "a binary that was cut off" 4 "lm_head.bin: 100 bytes, but its description says [0-9]+; 'ferry compile' makes it again" "$FERRY" inspect "$TMP/cut-off/lm_head.bin"
echo '{"version": 1, "model": "\u001b[31m"}' >"$TMP/cut-off/lm_head.json"
check_status "a hostile description" 1 "lm_head.json: model: '\\\\x1b\[31m', expected 64 hex digits" "$FERRY" inspect "$TMP/cut-off/lm_head.bin"

# --- what does not fit together ---------------------------------------------------------------------------------------
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$TMP/f32.gguf"
"$FERRY" chunk "$TMP/f32.gguf" --soc SM8650 --recipe fp16 --chunks 2 -c 160 --batch 32,1 -q -o "$TMP/cut32"
"$FERRY" compile "$TMP/cut32" --sdk reference --recipe fp16 -q -o "$TMP/other"
"$FERRY" compile "$TMP/cut" --sdk reference --recipe fp16 --soc SM8750 -q -o "$TMP/v79"
bad() { # NAME STATUS PATTERN COMMAND...: of a copy of the model, changed by the command in its qnn/
    local name=$1 status=$2 pattern=$3
    shift 3
    rm -rf "$TMP/bad" "$TMP/none"
    cp -r "$TMP/floats" "$TMP/bad"
    (cd "$TMP/bad/qnn" && "$@")
    check_status "$name" "$status" "$pattern" create "$TMP/bad" -o "$TMP/none"
    check "$name: nothing is left" test ! -e "$TMP/none" -a ! -e "$TMP/none.part"
}
edit() { jq "$1" "$2" >"$TMP/edited" && cp "$TMP/edited" "$2"; }
bad "a chunk of another model" 2 "/bad/qnn/chunk_1.bin: is of model [0-9a-f]{12}..., expected [0-9a-f]{12}... \(ferry.model of config.json\); 'ferry compile' makes it again" \
    cp "$TMP/other/qnn/chunk_1.bin" "$TMP/other/qnn/chunk_1.json" .
bad "a chunk for another chip" 2 "chunk_0.bin: is compiled for SM8750 \(V79, 8 MB of VTCM\) with recipe fp16, config.json says SM8650 \(V75" \
    cp "$TMP/v79/qnn/chunk_0.bin" "$TMP/v79/qnn/chunk_0.json" .
bad "a binary without its description" 2 "chunk_0.json: missing, config.json needs it" rm chunk_0.json
bad "one that is cut" 2 "chunk_1.bin: 4000 bytes, but its description says [0-9]+; 'ferry compile'" truncate -s 4000 chunk_1.bin
bad "one with another byte" 2 "tales/qnn/lm_head.bin: has the SHA-256 [0-9a-f]{12}..., but its description says [0-9a-f]{12}...: it was changed; 'ferry compile'" \
    bash -c "printf x | dd of=lm_head.bin bs=1 seek=1000 conv=notrunc status=none"
bad "one chunk under the name of the other" 2 "chunk_1.bin: has the SHA-256|chunk_1.bin: [0-9]+ bytes" cp chunk_0.bin chunk_1.bin
bad "a description that is not JSON" 1 "chunk_0.json: line 2" bash -c "echo '{' >chunk_0.json"
bad "one that lies of its hash" 1 "chunk_0.json: binary: sha256: 'x', expected 64 hex digits, in lower case" edit '.binary.sha256 = "x"' chunk_0.json
bad "a graph that is missing" 2 "chunk_0.bin: graph 'batch_1': has no graph of this name and batch 1" edit '.graphs |= .[:1]' chunk_0.json
bad "caches of another type than the model's" 2 "'layer_0_key_t_cache_0' is f16, config.json says u8" edit '.ferry.compiled.kv = "u8"' config.json
bad "a chip of no architecture" 1 "config.json: ferry: compiled: arch: 0, expected 1 to 999" edit '.ferry.compiled.arch = 0' config.json
bad "a chunk among binaries" 1 "'chunk_0.gguf' of a compiled model, expected NAME.bin" edit '(.graphs[] | select(.model_path == "chunk_0.bin")).model_path = "chunk_0.gguf"' config.json
check_status "weights of another model" 2 "is model [0-9a-f]{12}..., but the chunks are of [0-9a-f]{12}...; expected the model that was cut" \
    create "$TMP/f32.gguf" --qnn-path "$TMP/out" -o "$TMP/none"
cp -r "$TMP/floats" "$TMP/mixed"
cp --remove-destination "$TMP/other/ggml/weights.gguf" "$TMP/mixed/ggml/weights.gguf"
check_status "the embedding of another model" 2 "is the embedding of model [0-9a-f]{12}..., but qnn/config.json \(ferry.model\) was written for" create "$TMP/mixed" -o "$TMP/none"

# relist DIR FILE: the manifest lists what FILE has become, as its writer would.
relist() {
    local bytes sha text
    bytes=$(stat -c %s "$1/$2")
    sha=$(sha256sum "$1/$2" | cut -d' ' -f1)
    text=$(sed -E "\\,\"path\": \"$2\",{s/(\"size\": )[0-9]+/\1$bytes/;n;s/[0-9a-f]{64}/$sha/}; /^ ],$/,\$d" "$1/manifest.json")
    printf '%s\n ],\n "sha256": "%s"\n}\n' "$text" "$(printf '%s\n ]' "$text" | sha256sum | cut -d' ' -f1)" >"$1/manifest.json"
}
found() { "$FERRY" verify "$1" --json 2>/dev/null | jq -r '.problems[] | "\(.path): \(.problem)"'; }
cp -r "$TMP/back" "$TMP/changed"
printf x | dd of="$TMP/changed/tales/qnn/chunk_0.bin" bs=1 seek=500 conv=notrunc status=none
relist "$TMP/changed" tales/qnn/chunk_0.bin
check_equal "verify finds a binary that is not the one described, though it is the one listed" 1 \
    "$(found "$TMP/changed" | grep -cE "^tales/qnn/chunk_0.bin: has the SHA-256 [0-9a-f]{12}..., but its description says")"
cp -r "$TMP/back" "$TMP/relabelled"
edit '.model |= ("0" + .[1:])' "$TMP/relabelled/tales/qnn/chunk_1.json"
relist "$TMP/relabelled" tales/qnn/chunk_1.json
check_equal "and a description of another model" 1 "$(found "$TMP/relabelled" | grep -c '^tales/qnn/config.json: chunk_1.bin: is of model 0')"

# --- the phone's libraries --------------------------------------------------------------------------------------------
libraries() { # DIR ARCH BUILD
    mkdir -p "$1"
    library "$1/libQnnHtp.so" "$3"
    library "$1/libQnnSystem.so"
    library "$1/libQnnHtpV$2Stub.so"
    elf "$1/libQnnHtpV$2Skel.so" 1 3 244
}
libraries "$TMP/new" 75 v2.51.3.260929181845
libraries "$TMP/old" 75 v2.47.0.260601114230_100-auto
libraries "$TMP/v79libs" 79 v2.51.0.260929181845
check "the libraries of its release go with it" create "$TMP/out" --qnn-libs "$TMP/new" -o "$TMP/libs"
check_equal "of its architecture, which nobody has to name" "v75 libQnnHtp.so libQnnHtpV75Skel.so libQnnHtpV75Stub.so libQnnSystem.so" \
    "$(jq -r .htp "$TMP/libs/workspace.json") $(cd "$TMP/libs/qnn_libs" && echo *)"
check "and verify" "$FERRY" verify "$TMP/libs" -q
check_status "older ones cannot read its binaries" 2 "/old/libQnnHtp.so: is of SDK 2.47, but the model was compiled with 2.51, .*; take the libraries of SDK 2.51 or newer, or compile the model with 2.47" \
    create "$TMP/out" --qnn-libs "$TMP/old" -o "$TMP/none"
check_status "those of another chip do not go with it" 2 "libQnnHtpV75Stub.so: not found" create "$TMP/out" --qnn-libs "$TMP/v79libs" -o "$TMP/none"
check_status "nor does another chip" 2 "/out/qnn: is compiled for V75 \(SM8650\), expected V79; compile it for that chip" \
    create "$TMP/out" --soc SM8750 --qnn-libs "$TMP/v79libs" -o "$TMP/none"
cp "$TMP/old/libQnnHtp.so" "$TMP/libs/qnn_libs/"
relist "$TMP/libs" qnn_libs/libQnnHtp.so
check_equal "verify finds an older library" 1 "$(found "$TMP/libs" | grep -c '^qnn_libs/libQnnHtp.so: is of SDK 2.47, but')"
check "nothing is left of what was refused" test ! -e "$TMP/none" -a ! -e "$TMP/none.part"
finish
