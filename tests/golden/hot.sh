#!/usr/bin/env bash
# Which neurons are active: counted as the reference counts them; which of them are hot: as PowerInfer's solver chooses; and a model
# whose hot neurons come first.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
relu=tests/data/relu
counts=tests/data/sparse/relu/activation # PowerInfer's form, of the first 40 lines
head -n 40 tests/data/held.txt >"$TMP/text"
"$FERRY" convert $relu --outtype f32 -q -o "$TMP/plain.gguf"
count() { # OUT [OPTION...]
    "$FERRY" eval -m "$TMP/plain.gguf" --text "$TMP/text" --lines --activations-out "$TMP/$1" -q "${@:2}" >"$TMP/out"
}

# --- counting -------------------------------------------------------------------------------------------------------
check "eval counts active neurons" count counts.gguf
check "and again, in other batches" count again.gguf -t 1 -b 7
check "to the same bytes" cmp "$TMP/counts.gguf" "$TMP/again.gguf"
for i in 1 2 3; do
    check "part $i of 3" count parts.gguf --part $i/3
done
check "the parts are put together" count parts.gguf --finish 3
check "to the same bytes, too" cmp "$TMP/counts.gguf" "$TMP/parts.gguf"
check_equal "4,997 tokens" 'activations.tokens = 4997' \
    "$("$FERRY" inspect "$TMP/counts.gguf" --json | jq -r '.metadata["activations.tokens"] | "activations.tokens = \(.)"')"
check_status "--activations-out without a text" 2 'needs a text' \
    "$FERRY" eval -m "$TMP/plain.gguf" --golden $relu/golden_long.safetensors --activations-out "$TMP/no"
"$FERRY" convert tests/data/tales --outtype f16 -q -o "$TMP/silu.gguf"
check_status "of a SiLU model" 1 'activation of this model is silu' \
    "$FERRY" eval -m "$TMP/silu.gguf" --text "$TMP/text" --activations-out "$TMP/no"
check_status "over the model" 2 'is the model' \
    "$FERRY" eval -m "$TMP/plain.gguf" --text "$TMP/text" --activations-out "$TMP/plain.gguf"

# --- hot neurons ----------------------------------------------------------------------------------------------------
hot() { "$FERRY" plan "$TMP/plain.gguf" --hot "$@"; }
check "a plan of our counts" hot 2048 --activations "$TMP/counts.gguf" -o "$TMP/ours.gpuidx"
check "a plan of PowerInfer's" hot 2048 --activations $counts -o "$TMP/theirs.gpuidx"
check "the same neurons are hot" cmp "$TMP/ours.gpuidx" "$TMP/theirs.gpuidx"
check_equal "as many in each layer as the reference has" '[768,256,256,768]' \
    "$(hot 2048 --activations $counts --json | jq -c '[.layers[].hot]')"
check_equal "by their bytes: three rows of 1 KiB each" '[512,256,0,512]' \
    "$(hot 3840K --activations $counts --json | jq -c '[.layers[].hot]')"
hot 3840K --activations $counts -o "$TMP/cold.gpuidx" >/dev/null
check_equal "a layer that has none has an empty list" '[0]' \
    "$("$FERRY" inspect "$TMP/cold.gpuidx" --json | jq -c '.tensors[] | select(.name == "blk.2.gpu_bucket").shape')"
check "which quantize reads" "$FERRY" quantize "$TMP/plain.gguf" "$TMP/cold.gguf" f32 --transpose-down --hot "$TMP/cold.gpuidx" -q
check_equal "at least 1024 in a layer, or none" '[1024,0,0,0]' \
    "$(hot 2047 --hot-least 1024 --activations $counts --json | jq -c '[.layers[].hot]')"
check_status "a number that is none" 2 '--hot many: expected a number of neurons' hot many --activations $counts
check_status "--hot alone" 2 '--hot N and --activations FILE belong together' hot 5
check_status "counts of another model" 1 'layer 0: counts of 1024 neurons, but' \
    "$FERRY" plan "$TMP/silu.gguf" --hot 5 --activations $counts
check_status "over an input" 2 'is an input' hot 5 --activations "$TMP/counts.gguf" -o "$TMP/counts.gguf"
head -c 3000 "$TMP/ours.gpuidx" >"$TMP/cut.gpuidx"

# --- a model in that order ------------------------------------------------------------------------------------------
for type in f32 q8_0; do
    check "quantize puts them first, $type" "$FERRY" quantize "$TMP/plain.gguf" "$TMP/hot.gguf" $type \
        --transpose-down --hot "$TMP/ours.gpuidx" -q
    "$FERRY" quantize "$TMP/plain.gguf" "$TMP/turned.gguf" $type --transpose-down -q
    check "of a transposed file, $type" "$FERRY" quantize "$TMP/turned.gguf" "$TMP/hot2.gguf" $type \
        --hot "$TMP/ours.gpuidx" --allow-requantize -q
    check "to the same bytes, $type" cmp "$TMP/hot.gguf" "$TMP/hot2.gguf"
    for mode in exact off; do
        tolerance=1e-4
        [ $type = f32 ] || tolerance=0.1
        check "it computes the same, $type, --sparse $mode" "$FERRY" eval -m "$TMP/hot.gguf" --sparse $mode \
            --golden $relu/golden_long.safetensors --tolerance $tolerance
    done
done
ids() { "$FERRY" run --prompt-ids 5,6,7,8 -n 40 --ignore-eos --print-ids -q -m "$TMP/hot.gguf" "$@"; }
check_equal "--mlock-hot gives the same ids" "$(ids)" "$(ids --mlock-hot)"
check_equal "and so it does with all neurons" "$(ids)" "$(ids --mlock-hot --sparse off)"
check_status "it says what stays in memory" 0 'MB stay in memory, [0-9.]+ MB are read when needed' \
    "$FERRY" run -m "$TMP/hot.gguf" -p Once -n 1 --mlock-hot
check_status "--mlock-hot of another file" 1 "does not say which neurons of its 4 layers are hot; 'ferry quantize --hot'" \
    "$FERRY" run -m "$TMP/plain.gguf" -p Once -n 1 --mlock-hot
check_status "--mlock-hot of a copy" 2 'leave out --mlock and --no-mmap' \
    "$FERRY" run -m "$TMP/hot.gguf" -p Once -n 1 --mlock-hot --no-mmap
check_equal "bench measures with it" 'tg4' "$("$FERRY" bench -m "$TMP/hot.gguf" -p 0 -n 4 -r 1 --mlock-hot -o json -q | jq -r '"tg\(.[0].n_gen)"')"
check_status "and says what stays in memory" 0 'MB stay in memory, [0-9.]+ MB are read when needed' \
    "$FERRY" bench -m "$TMP/hot.gguf" -p 0 -n 1 -r 1 --mlock-hot
check_status "but not of a copy" 2 'bench: --mmap 0' "$FERRY" bench -m "$TMP/hot.gguf" -p 0 -n 1 --mlock-hot --mmap 0
check_status "a split file that is cut off" 1 'cut off' \
    "$FERRY" quantize "$TMP/plain.gguf" "$TMP/no" f32 --transpose-down --hot "$TMP/cut.gpuidx"
check_status "columns of ffn_down" 1 'give --transpose-down as well' \
    "$FERRY" quantize "$TMP/plain.gguf" "$TMP/no" f32 --hot "$TMP/ours.gpuidx"
check_status "a model that has them first already" 1 'has its hot neurons first already' \
    "$FERRY" quantize "$TMP/hot.gguf" "$TMP/no" q8_0 --hot "$TMP/ours.gpuidx"
finish
