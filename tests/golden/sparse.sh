#!/usr/bin/env bash
# Models whose neurons are mostly 0: PowerInfer's files against their reference; ffn_down_t as convert and quantize write it;
# decoding that leaves neurons out gives the ids of decoding that does not; predicted neurons against their reference.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

ids() { # PROGRAM FILE MODE N PROMPT_IDS
    local program=$1 file=$2 mode=$3 n=$4
    shift 4
    $program run -m "$file" --prompt-ids "$1" -n "$n" --ignore-eos --temp 0 --print-ids --sparse "$mode" -q
}
# same_ids NAME PROGRAM FILE N PROMPT_IDS: every mode gives the ids of `off`.
same_ids() {
    local name=$1 want got mode
    shift
    want=$(ids "$1" "$2" off "$3" "$4")
    for mode in exact auto; do
        got=$(ids "$1" "$2" $mode "$3" "$4")
        if [ -n "$want" ] && [ "$want" = "$got" ]; then
            ok "$name: --sparse $mode gives the ids of off"
        else
            not_ok "$name: --sparse $mode gives the ids of off" "off: $want"$'\n'"$mode: $got"
        fi
    done
}
tensor() { "$FERRY" inspect "$1" --json | jq -c --arg n "$2" '.tensors[] | select(.name == $n) | [.type, .shape]'; }
names() { "$FERRY" inspect "$1" --json | jq -r '.tensors[].name'; }

# --- PowerInfer's files ---------------------------------------------------------------------------------------------
for name in falcon opt; do
    dir=tests/data/sparse/$name f=$dir/model.powerinfer.gguf
    for mode in auto off; do
        check "$name.powerinfer.gguf, $mode" "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors" --sparse $mode
    done
    check "$name.powerinfer.gguf, scalar kernels" env FY_CPU_MASK=0 "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors"
    check "$name.powerinfer.gguf, arm64" $FERRY_ARM eval -m "$f" --golden "$dir/golden.safetensors"
    check "$name: quantize keeps the kind of the file" "$FERRY" quantize "$f" "$TMP/$name.gguf" q8_0 -q
    check_equal "$name: it begins as it did" PWRI "$(head -c 4 "$TMP/$name.gguf")"
    check "$name: and runs" "$FERRY" run -m "$TMP/$name.gguf" --prompt-ids 5,6,7 -n 8 -q --print-ids
done

# --- families -------------------------------------------------------------------------------------------------------
for name in llama-relu prosparse bamboo opt falcon-relu; do
    dir=tests/data/families/$name f=$TMP/$name.gguf
    check "$name converts with --transpose-down" "$FERRY" convert "$dir" --outtype f32 --transpose-down -q -o "$f"
    check_equal "$name: no ffn_down is left" "" "$(names "$f" | grep 'ffn_down\.')"
    for mode in auto exact off; do
        check "$name: logits, --sparse $mode" "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors" --sparse $mode
    done
    check "$name: logits, scalar kernels" env FY_CPU_MASK=0 "$FERRY" eval -m "$f" --golden "$dir/golden.safetensors"
    check "$name: logits, arm64" $FERRY_ARM eval -m "$f" --golden "$dir/golden.safetensors"
    same_ids "$name" "$FERRY" "$f" 40 5,6,7,8
    same_ids "$name, arm64" "$FERRY_ARM" "$f" 20 5,6,7,8
    "$FERRY" convert "$dir" --outtype f32 -q -o "$TMP/plain.gguf"
    same_ids "$name with ffn_down" "$FERRY" "$TMP/plain.gguf" 40 5,6,7,8
    check "$name: quantize transposes it, too" "$FERRY" quantize "$TMP/plain.gguf" "$TMP/turned.gguf" f32 --transpose-down -q
    check_equal "$name: to the same tensors" "$("$FERRY" inspect "$f" --hash --json | jq -c '[.tensors[] | [.name, .sha256]]')" \
        "$("$FERRY" inspect "$TMP/turned.gguf" --hash --json | jq -c '[.tensors[] | [.name, .sha256]]')"
done

# --- the trained model ----------------------------------------------------------------------------------------------
relu=tests/data/relu
check "relu converts to f16" "$FERRY" convert $relu --outtype f16 --transpose-down -q -o "$TMP/f16.gguf"
check "relu converts to q4_0" "$FERRY" convert $relu --outtype q4_0 --transpose-down -q -o "$TMP/q4_0.gguf"
check "relu converts to q8_0" "$FERRY" convert $relu --outtype q8_0 --transpose-down -q -o "$TMP/q8_0.gguf"
check "relu converts to q4_K" "$FERRY" convert $relu --outtype q4_K --transpose-down -q -o "$TMP/q4_K.gguf"
check_equal "a row is a neuron, quantized along the embedding" '["q4_0",[256,1024]]' "$(tensor "$TMP/q4_0.gguf" blk.0.ffn_down_t.weight)"
check "relu converts to f32" "$FERRY" convert $relu --outtype f32 --transpose-down -q -o "$TMP/f32.gguf"
check "relu in f32: 700 tokens" "$FERRY" eval -m "$TMP/f32.gguf" --golden $relu/golden_long.safetensors
soak 1 4
for ((i = 0; i < rounds; i++)); do
    prompt=$(jq -r ".plain[$i].input_ids | map(tostring) | join(\",\")" $relu/golden.json)
    for type in f16 q4_0 q8_0 q4_K; do
        same_ids "relu, $type, prompt $i" "$FERRY" "$TMP/$type.gguf" 700 "$prompt"
    done
    same_ids "relu, q4_0, AVX2, prompt $i" "env FY_CPU_MASK=avx2 $FERRY" "$TMP/q4_0.gguf" 300 "$prompt"
    same_ids "relu, q4_0, scalar, prompt $i" "env FY_CPU_MASK=0 $FERRY" "$TMP/q4_0.gguf" 100 "$prompt"
    same_ids "relu, q4_0, arm64, prompt $i" "$FERRY_ARM" "$TMP/q4_0.gguf" 100 "$prompt"
done
prompt=$(jq -r ".plain[0].input_ids | map(tostring) | join(\",\")" $relu/golden.json)
check_equal "arm64 has the ids of this machine" "$(ids "$FERRY" "$TMP/q4_0.gguf" auto 100 "$prompt")" \
    "$(ids "$FERRY_ARM" "$TMP/q4_0.gguf" auto 100 "$prompt")"
check_equal "and any number of threads" "$(ids "env FERRY_THREADS=1 $FERRY" "$TMP/q4_0.gguf" auto 100 "$prompt")" \
    "$(ids "env FERRY_THREADS=3 $FERRY" "$TMP/q4_0.gguf" auto 100 "$prompt")"

# --- predicted neurons ----------------------------------------------------------------------------------------------
data=tests/data/sparse
# The reference leaves out, of every token, what the predictor scores below the file's threshold. -b 1 lists neurons, a batch masks.
predicted() { # NAME FILE DIR SHARE
    local name=$1 file=$2 golden=$3/predicted.safetensors batch
    for batch in 1 512; do
        check_status "$name: predicted as the reference does, batches of $batch, with the share" 0 "computed $4 % of the neurons, as predicted" \
            "$FERRY" eval -m "$file" --golden "$golden" --sparse predict -b $batch
    done
    check "$name: predicted, scalar kernels" env FY_CPU_MASK=0 "$FERRY" eval -m "$file" --golden "$golden" --sparse predict -b 1
    check "$name: predicted, arm64" $FERRY_ARM eval -m "$file" --golden "$golden" --sparse predict -b 1
}
check "relu converts with its predictors" "$FERRY" convert $relu --outtype f16 --predictors $data/relu/predictor -q -o "$TMP/relu.gguf"
check "opt, whose layers are called as predictors are" \
    "$FERRY" convert $data/opt/model --outtype f16 --predictors $data/opt/predictor -q -o "$TMP/opt.gguf"
predicted relu "$TMP/relu.gguf" $data/relu 72.9
predicted opt "$TMP/opt.gguf" $data/opt 41.5
predicted opt.powerinfer.gguf $data/opt/model.powerinfer.gguf $data/opt 41.5
predicted falcon.powerinfer.gguf $data/falcon/model.powerinfer.gguf $data/falcon 50.5
check "relu: all of its neurons are those of the model" "$FERRY" eval -m "$TMP/relu.gguf" --golden $relu/golden_long.safetensors --tolerance 1e-2

# What PowerInfer reads: the bytes of its own converter, but for those of position_embd, which it has in f16.
tensors() { "$FERRY" inspect "$1" --hash --json | jq -c '[.tensors[] | select(.name != "position_embd.weight") | [.name, .type, .shape, .sha256]] | sort'; }
check_equal "opt: the tensors of PowerInfer's converter" "$(tensors $data/opt/model.powerinfer.gguf)" "$(tensors "$TMP/opt.gguf")"
check_equal "opt: all rows of the positions" '["f32",[64,130]]' "$(tensor "$TMP/opt.gguf" position_embd.weight)"
check_equal "a tied output is there, too" '["f16",[256,768]]' "$(tensor "$TMP/relu.gguf" output.weight)"
check_equal "its magic" PWRI "$(head -c 4 "$TMP/relu.gguf")"
check_equal "its threshold" -1 "$("$FERRY" inspect "$TMP/relu.gguf" --json | jq '.metadata."powerinfer.sparse_threshold"')"
check_equal "predictors of the ranks that they have" '[["f16",[256,20]],["f16",[32,1024]]]' \
    "[$(tensor "$TMP/relu.gguf" blk.0.fc1.weight),$(tensor "$TMP/relu.gguf" blk.3.fc2.weight)]"

# TurboSparse-Mistral has its predictors among the weights.
if command -v python3 >/dev/null; then
    mkdir "$TMP/own"
    cp $relu/*.json "$TMP/own"
    python3 - $relu/model.safetensors $data/relu/predictor "$TMP/own/model.safetensors" <<'END'
import json, struct, sys, zipfile
model, folder, out = sys.argv[1:]
data = open(model, "rb").read()
size = struct.unpack("<Q", data[:8])[0]
head, body = json.loads(data[8:8 + size]), data[8 + size:]
for layer in range(4):
    with zipfile.ZipFile(f"{folder}/model_{layer}.pt") as z: # fc1 [rank, 256], fc2 [1024, rank]
        fc1, fc2 = sorted((z.read(n) for n in z.namelist() if "/data/" in n), key=len)
    rank = len(fc1) // 512
    for i, shape, part in (1, [rank, 256], fc1), (2, [1024, rank], fc2):
        head[f"model.layers.{layer}.mlp.predictor.fc{i}.weight"] = \
            {"dtype": "F16", "shape": shape, "data_offsets": [len(body), len(body) + len(part)]}
        body += part
text = json.dumps(head).encode()
open(out, "wb").write(struct.pack("<Q", len(text)) + text + body)
END
    check "predictors among the weights" "$FERRY" convert "$TMP/own" --outtype f16 --predictors "$TMP/own/." -q -o "$TMP/own.gguf"
    check_equal "are those of files" "$(tensors "$TMP/relu.gguf")" "$(tensors "$TMP/own.gguf")"
    check_equal "and have a threshold where config.json names one" null \
        "$("$FERRY" inspect "$TMP/own.gguf" --json | jq '.metadata."powerinfer.sparse_threshold"')"
    check_status "without the option they are left out" 0 'a predictor of neurons, which --predictors writes' \
        "$FERRY" convert "$TMP/own" --outtype f16 -v -o "$TMP/own_plain.gguf"
    check_equal "of the model" '' "$(names "$TMP/own_plain.gguf" | grep fc1)"
else
    skip "predictors among the weights" "no python3"
fi
check_status "a model's directory without" 1 "no 'model.layers.0.mlp.predictor.fc1.weight' among the weights" \
    "$FERRY" convert $relu --predictors $relu -o "$TMP/no.gguf"

# Alone or in a batch, on any number of threads, the same bits; all neurons are kept, or none.
head -c 3000 tests/data/held.txt >"$TMP/text"
golden_of() { # FILE OPTION...: what it computes of a text
    "$FERRY" eval -m "$1" --text "$TMP/text" -c 40 --golden-save "$TMP/saved.safetensors" -q "${@:2}" && sha256sum <"$TMP/saved.safetensors"
}
for file in "$TMP/relu.gguf" "$TMP/relu_q8.gguf"; do
    [ -f "$file" ] || check "quantize takes predictors, too" "$FERRY" quantize "$TMP/relu.gguf" "$file" q8_0 -q
    want=$(golden_of "$file" --sparse predict:-0.5)
    for how in "-b 1" "-b 7" "-t 3 -b 1" "-t 3"; do
        # shellcheck disable=SC2086
        check_equal "$(basename "$file"): the bits of a batch, $how" "$want" "$(golden_of "$file" --sparse predict:-0.5 $how)"
    done
    check_equal "$(basename "$file"): with no threshold those of all neurons" "$(golden_of "$file" --sparse off)" \
        "$(golden_of "$file" --sparse predict:-inf -b 1)"
done
measure() { "$FERRY" eval -m "$TMP/relu.gguf" --text "$TMP/text" -c 64 --json -q "$@"; }
found=$(measure --sparse predict)
check_equal "a text is measured beside all neurons" true "$(jq '.kl_divergence.mean > 0 and .kl_divergence.mean < 0.5 and .same_top > 0.8' <<<"$found")"
measure --kl-save "$TMP/base.kl" >/dev/null
check_equal "which is its distance from a saved base" true "$(jq -n --argjson a "$found" \
    --argjson b "$(measure --sparse predict --kl-base "$TMP/base.kl")" \
    '($a.kl_divergence.mean / $b.kl_divergence.mean - 1 | fabs) < 1e-3 and $a.same_top == $b.same_top')"
check_status "run -v says how many it computed" 0 '[|] 72\.[0-9] % of the neurons [|]' \
    "$FERRY" run -m "$TMP/relu.gguf" -p 'Once upon a time' -n 60 -v --sparse predict
check_equal "no neuron is an answer, too" 0 "$("$FERRY" run -m "$TMP/relu.gguf" -p a -n 4 --json --sparse predict:inf | jq .timing.neurons_computed)"

refuse_predictors() { # NAME WORDS DIR
    check_status "predictors: $1" 1 "$2" "$FERRY" convert $relu --predictors "$3" -o "$TMP/no.gguf"
}
copy() { rm -rf "$TMP/p" && cp -r $data/relu/predictor "$TMP/p"; }
check_status "predict without predictors" 2 "the file has no 'blk.0.fc1.weight'" \
    "$FERRY" run -m "$TMP/f16.gguf" -p a -n 1 --sparse predict
check_status "a threshold that is none" 2 "--sparse: 'x' is not a threshold" "$FERRY" run -m "$TMP/relu.gguf" -p a -n 1 --sparse predict:x
check_status "a mode that is none" 2 "--sparse: " "$FERRY" run -m "$TMP/relu.gguf" -p a -n 1 --sparse predicted
check_status "a prompt cache of predicted neurons" 1 'cannot be saved' \
    "$FERRY" run -m "$TMP/relu.gguf" -p a -n 1 --sparse predict --prompt-cache "$TMP/cache"
refuse_predictors "of another model" "opt/predictor: has 2 predictors \(\*.pt\), expected one for each of the model's 4 layers" $data/opt/predictor
copy && cp $data/opt/predictor/model_1.pt "$TMP/p/model_1.pt"
refuse_predictors "of another shape" "model_1.pt: 'fc1.weight' has shape \[24, 64\], expected \[rank, 256\], the width of the model" "$TMP/p"
copy && head -c 30000 $data/relu/predictor/model_2.pt >"$TMP/p/model_2.pt"
refuse_predictors "cut off" 'model_2.pt: ' "$TMP/p"
copy && mv "$TMP/p/model_3.pt" "$TMP/p/model_4.pt"
refuse_predictors "of another layer" 'model_3.pt: cannot open: No such file' "$TMP/p"
copy && cp $data/relu/predictor/config.json "$TMP/p/model_0.pt"
refuse_predictors "no checkpoint" 'model_0.pt: ' "$TMP/p"
copy && echo '{"sparse_threshold": "low"}' >"$TMP/p/config.json"
refuse_predictors "a threshold that is text" 'sparse_threshold is ' "$TMP/p"

# --- what is refused ------------------------------------------------------------------------------------------------
"$FERRY" convert tests/data/tales --outtype f16 -q -o "$TMP/silu.gguf"
check_status "--transpose-down of a SiLU model" 1 'transpose-down: silu, whose activations are hardly ever exactly 0' \
    "$FERRY" convert tests/data/tales --transpose-down -o "$TMP/no.gguf"
check_status "or of its file" 1 'transpose-down: silu' "$FERRY" quantize "$TMP/silu.gguf" "$TMP/no.gguf" q4_0 --transpose-down
check_status "--sparse exact of one" 2 'the activation of this model is silu' \
    "$FERRY" run -m "$TMP/silu.gguf" -p a -n 1 --sparse exact
"$FERRY" convert $relu --outtype q8_0 -q -o "$TMP/plain8.gguf"
check_status "a quantized file" 1 "'blk.0.ffn_down.weight' is q8_0: blocks lie along its rows" \
    "$FERRY" quantize "$TMP/plain8.gguf" "$TMP/no.gguf" q8_0 --transpose-down
check_status "one that has them already" 1 'ffn_down_t is there already' \
    "$FERRY" quantize "$TMP/f16.gguf" "$TMP/no.gguf" q4_0 --transpose-down
check_status "experts" 1 'the matrices of experts are not transposed' \
    "$FERRY" convert tests/data/families/smallthinker-4b --transpose-down -o "$TMP/no.gguf"
check_status "no layers" 2 'transpose-down is about the layers' \
    "$FERRY" convert $relu --transpose-down --vocab-only -o "$TMP/no.gguf"
finish
