#!/usr/bin/env bash
# --gpu-hot: a GPU computes the hot neurons, with the CPU's results but for rounding; PoCL, which computes on the CPU, is the GPU
# here. And drivers that are absent, broken, or fail on the way.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
fake=${BUILD:-build/host/release}/tests/unit/backend
export POCL_CACHE_DIR=$TMP/pocl
relu=tests/data/relu
held=$TMP/text
head -n 12 tests/data/held.txt >"$held"
"$FERRY" convert $relu --outtype f16 -q -o "$TMP/plain.gguf"
hot() { # NEURONS OUT TYPE
    "$FERRY" plan "$TMP/plain.gguf" --hot "$1" --activations tests/data/sparse/relu/activation -o "$TMP/split" -q >"$TMP/log"
    "$FERRY" quantize "$TMP/plain.gguf" "$TMP/$2.gguf" "$3" --transpose-down --hot "$TMP/split" -q
}
check "some are hot, q4_0" hot 2048 q4_0 q4_0
check "q8_0" hot 2048 q8_0 q8_0
check "f16" hot 2048 f16 f16
check "all of them" hot 4096 all q4_0
check "none" hot 1 none q4_0
check "another type" hot 2048 q5_0 q5_0
"$FERRY" convert $relu --outtype f16 --predictors tests/data/sparse/relu/predictor -q -o "$TMP/plain.powerinfer.gguf"
check "with predictors" "$FERRY" quantize "$TMP/plain.powerinfer.gguf" "$TMP/predicts.gguf" q8_0 --hot "$TMP/split" -q

# --- on a device ----------------------------------------------------------------------------------------------------
ids() { "$FERRY" run --prompt-ids 5,6,7,8 -n 40 --ignore-eos --print-ids -q -m "$TMP/$1.gguf" "${@:2}"; }
if "$FERRY" run -m "$TMP/q4_0.gguf" -p Once -n 1 -q --gpu-hot >/dev/null 2>"$TMP/log"; then
    # (What a product with q8_0 or q4_0 reads is rounded to 8 bits: there last bits may become a code of 256.)
    for case in f16:1e-4 q8_0:4e-3 q4_0:4e-3 all:4e-3 none:0; do
        m=${case%:*} tolerance=${case#*:}
        "$FERRY" eval -m "$TMP/$m.gguf" --text "$held" -c 70 --golden-save "$TMP/$m.safetensors" -q
        check "logits and layers are the CPU's within rounding, $m" \
            "$FERRY" eval -m "$TMP/$m.gguf" --golden "$TMP/$m.safetensors" --tolerance "$tolerance" --gpu-hot
        check "and so they are token by token" \
            "$FERRY" eval -m "$TMP/$m.gguf" --golden "$TMP/$m.safetensors" --tolerance "$tolerance" --gpu-hot -b 1
        check_equal "the same ids, $m" "$(ids $m)" "$(ids $m --gpu-hot)"
    done
    check_equal "all neurons on either side" "$(ids q4_0)" "$(ids q4_0 --gpu-hot --sparse off)"
    check_equal "one thread, with the cold ones read on demand" "$(ids q4_0)" "$(ids q4_0 --gpu-hot --mlock-hot -t 1)"
    check_equal "the same bits in every run" "$("$FERRY" eval -m "$TMP/q4_0.gguf" --text "$held" --lines --json --gpu-hot -q)" \
        "$("$FERRY" eval -m "$TMP/q4_0.gguf" --text "$held" --lines --json --gpu-hot -q)"
    check_equal "where nothing is predicted to be hot, the GPU's half is computed" 'true' \
        "$("$FERRY" run -m "$TMP/predicts.gguf" -p Once -n 12 --json --sparse predict:inf --gpu-hot -q |
            jq '.timing.neurons_computed | . > 0.48 and . < 0.52')"
    check_status "it says who computes what" 0 'gpu-hot: .* computes 2048 of 4096 neurons; results differ' \
        "$FERRY" run -m "$TMP/q4_0.gguf" -p Once -n 1 --gpu-hot
    check_equal "run --json has it" 'cpu+gpu false true' \
        "$("$FERRY" run -m "$TMP/q4_0.gguf" -p Once -n 1 --json -q --gpu-hot |
            jq -r '.timing | "\(.backend) \(.equal_bits) \(.gpu | length > 0)"')"
    check_equal "eval --json, too" 'false' \
        "$("$FERRY" eval -m "$TMP/q4_0.gguf" --golden "$TMP/q4_0.safetensors" --json -q --gpu-hot --tolerance 1 | jq .equal_bits)"
    check_equal "and of a text" 'false' \
        "$("$FERRY" eval -m "$TMP/q4_0.gguf" --text "$held" --lines --json -q --gpu-hot | jq .equal_bits)"
    check_equal "bench -o json" 'cpu+gpu true' \
        "$("$FERRY" bench -m "$TMP/q4_0.gguf" -p 8 -n 4 -r 1 -o json -q --gpu-hot |
            jq -r '.[0] | "\(.backends) \(.gpu_info | length > 0)"')"
    check_status "the cache is not saved" 1 'a GPU has a share in' \
        "$FERRY" run -m "$TMP/q4_0.gguf" -p Once -n 1 --gpu-hot --prompt-cache "$TMP/cache"
    check_status "types that it has no kernel for" 1 'gate of layer 0 is q5_0, and the GPU computes with f16, q8_0 and q4_0' \
        "$FERRY" run -m "$TMP/q5_0.gguf" -p Once -n 1 --gpu-hot
    check_status "a file without hot neurons" 1 "gpu-hot: the file does not say which neurons of its 4 layers are hot" \
        "$FERRY" run -m "$TMP/plain.gguf" -p Once -n 1 --gpu-hot
    mkdir "$TMP/empty"
    check_status "no driver" 5 'the OpenCL library knows no device' \
        env OCL_ICD_VENDORS="$TMP/empty" "$FERRY" run -m "$TMP/q4_0.gguf" -p Once -n 1 --gpu-hot
else
    skip "computing" "no OpenCL device: $(tail -n 1 "$TMP/log")"
fi
check_status "statistics are the CPU's" 2 'leave out --gpu-hot' \
    "$FERRY" eval -m "$TMP/q4_0.gguf" --text "$held" --imatrix-out "$TMP/no" --gpu-hot

# --- broken drivers -------------------------------------------------------------------------------------------------
run_with() { # DIRECTORY OF A LIBRARY, [NAME=VALUE...]
    env LD_LIBRARY_PATH="$1" "${@:2}" "$FERRY" run -m "$TMP/q4_0.gguf" -p Once -n 2 --gpu-hot
}
mkdir "$TMP/lacks" "$TMP/words"
echo 'int clGetPlatformIDs(void); int clGetPlatformIDs(void) { return 0; }' | gcc -shared -fPIC -x c -o "$TMP/lacks/libOpenCL.so.1" -
check_status "a library that lacks functions" 5 "libOpenCL.so.1 has no function 'clGetDeviceIDs'" run_with "$TMP/lacks"
echo words | tee "$TMP/words/libOpenCL.so.1" >"$TMP/words/libOpenCL.so"
check_status "one that is none" 5 'cannot load the OpenCL library: .*file too short' run_with "$TMP/words"
check_status "a fake one runs" 0 'fake computes 2048 of 4096' run_with "$fake"
check_status "a device without room" 3 'make fewer hot' run_with "$fake" FAKE_OPENCL_MEMORY=100000
check_status "kernels that do not compile" 5 'did not compile the kernels: 1:1: .x1b\[31mno' \
    run_with "$fake" FAKE_OPENCL_FAIL=7:-11 FAKE_OPENCL_LOG="1:1: $(printf '\033')[31mno"
check_equal "and no control character reaches the terminal" 0 \
    "$(run_with "$fake" FAKE_OPENCL_FAIL=7:-11 FAKE_OPENCL_LOG="1:1: $(printf '\033')[31mno" 2>&1 | grep -c "$(printf '\033')")"
bad=
for at in 0 1 3 5 8 20 30 50 80 120 200 300; do
    status=0
    run_with "$fake" FAKE_OPENCL_FAIL=$at+ >"$TMP/out" 2>"$TMP/log" || status=$?
    [ $status = 5 ] && [ "$(grep -c 'gave error -5' "$TMP/log")" = 1 ] || bad+="$at: $status "
done
check_equal "a device that is lost at any time: one message, status 5" "" "$bad"

# --- the static program ---------------------------------------------------------------------------------------------
# shellcheck disable=SC2086 # the emulator is a word of its own
check_status "the static arm64 program says that it cannot" 1 'cannot load the OpenCL library \(it is static\)' \
    $FERRY_ARM run -m "$TMP/q4_0.gguf" -p Once -n 1 --gpu-hot
finish
