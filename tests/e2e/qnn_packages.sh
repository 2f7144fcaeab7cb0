#!/usr/bin/env bash
# Packages for an NPU as PowerServe publishes them: context binaries that nothing describes but the library of metadata,
# a preset of tokens that nobody names, the whole weights next to them, and no word of ferry.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT
libraries=build/host/release/qnn

m=$TMP/m.gguf cut=$TMP/cut
check "a model" "$FERRY" convert tests/data/tales --outtype f16 -q -o "$m"
check "its cut" "$FERRY" chunk "$m" --soc SM8650 --recipe powerserve --chunks 2 -c 320 --batch 128,1 -q -o "$cut"
compile() { "$FERRY" compile "$cut" --sdk reference --recipe "$2" --calibration tests/data/held.txt -q -o "$TMP/$1" "${@:3}"; }
publish() { # MODEL: MODEL.published, without all that is ferry's
    local to=$TMP/$1.published
    cp -r "$TMP/$1" "$to"
    rm "$to"/qnn/{chunk_0,chunk_1,lm_head,canary}.json
    jq 'del(.ferry)' "$TMP/$1/qnn/config.json" >"$to/qnn/config.json"
    cp --remove-destination "$m" "$to/ggml/weights.gguf"
}
qnn=(--backend qnn --qnn-lib reference)
say() { "$FERRY" run -m "$TMP/$1" "${qnn[@]}" -p 'One day' -n 40 --temp 0 -q "${@:2}"; }
fault() { echo "$1" >"$TMP/faults" && FERRY_REF_FAULTS=$TMP/faults "${@:2}"; }

# --- no description ---------------------------------------------------------------------------------------------------
check "compiled as PowerServe compiles" compile ps powerserve
publish ps
text=$(say ps)
check_equal "a package that nothing describes says the same" "$text" "$(say ps.published)"
for layout in 1 2 3; do
    check_equal "with a library that answers as BinaryInfo $layout" "$text" "$(fault "layout $layout"$'\n'"soc 57" say ps.published)"
done
check_status "an older library of metadata does not read it" 1 'chunk_[01].json, and the library of metadata does not help: systemContextGetMetaData: QNN error 30010' \
    env FERRY_REF_MINOR=20 "$FERRY" run -m "$TMP/ps.published" "${qnn[@]}" -p Once -n 1
check_status "the canary that it lacks is said" 0 'ps.published/qnn: has no canary.json' "$FERRY" run -m "$TMP/ps.published" "${qnn[@]}" -p Once -n 1
check_equal "its whole weights are for the CPU" cpu "$("$FERRY" run -m "$TMP/ps.published" -p Once -n 1 --json -q | jq -r .timing.backend)"
fails() { check_status "$1" "$2" "$3" "$FERRY" run -m "$TMP/ps.published" "${qnn[@]}" -p Once -n 1; }
export FERRY_REF_FAULTS=$TMP/faults
echo 'layout 7' >"$TMP/faults"
fails "an answer that ferry does not know" 1 'chunk_[01].bin: no .*chunk_[01].json, .*: the QNN system library answers in version 7, expected 1 to 3'
echo 'system absent' >"$TMP/faults"
fails "no library of metadata" 5 'the QNN system library names no provider'
unset FERRY_REF_FAULTS
jq '.graphs[].graph_name |= "graph_" + .' "$TMP/ps.published/qnn/config.json" >"$TMP/config"
cp -r "$TMP/ps.published" "$TMP/named.published" && cp "$TMP/config" "$TMP/named.published/qnn/config.json"
check_status "a graph that the binary does not have" 1 "chunk_[01].bin: has no graph 'graph_batch_128'" "$FERRY" run -m "$TMP/named.published" "${qnn[@]}" -p Once -n 1

# --- a workspace -------------------------------------------------------------------------------------------------------
{ printf '\177ELF\2\1\1' && head -c 9 /dev/zero && printf '\2\0\267\0\1' && head -c 200 /dev/zero; } >"$TMP/ferry" # an aarch64 program
check_status "a workspace whose program loads no library" 0 'tales: has context binaries, and bin/ferry is static' \
    "$FERRY" create "$m" --qnn-path "$TMP/ps.published" --exe-path "$TMP/ferry" --no-parity -q -o "$TMP/ws"
mkdir "$TMP/libs"
cp $libraries/libQnnRef.so "$TMP/libs/libQnnHtp.so"
cp $libraries/libQnnRefSystem.so "$TMP/libs/libQnnSystem.so"
check_equal "runs with libraries of the vendor's names" "$text" \
    "$("$FERRY" run -d "$TMP/ws" --backend qnn --qnn-lib "$TMP/libs" -p 'One day' -n 40 --temp 0 -q 2>/dev/null)"
rm "$TMP/libs/libQnnSystem.so"
check_status "and not without the one of metadata" 5 'does not help: cannot load the QNN library: .*libQnnSystem.so' \
    "$FERRY" run -d "$TMP/ws" --backend qnn --qnn-lib "$TMP/libs" -p Once -n 1

# --- a preset of unknown tokens ---------------------------------------------------------------------------------------
check "compiled after a token" compile bos 16a8w --preset-bos
publish bos
ids=$("$FERRY" tokenize -m "$m" --no-bos 'One day' | tr ' ' ,)
go_on() { "$FERRY" run -m "$TMP/$1" "${qnn[@]}" --prompt-ids "$2" -n 40 --temp 0 -q "${@:3}"; }
check_equal "a text goes on after a preset of unknown tokens" "$(go_on bos "763,$ids")" "$(go_on bos.published "$ids")"
check_equal "in batches, too" "$(go_on bos "763,$ids,$ids,$ids" -b 1)" "$(go_on bos.published "$ids,$ids,$ids")"
check_status "a message reports the preset" 0 'every text follows a preset of 1 tokens' \
    "$FERRY" run -m "$TMP/bos.published" "${qnn[@]}" -p Once -n 1
check_status "they take places of the cache" 3 'context of 192 positions, but the graphs have 191' \
    "$FERRY" run -m "$TMP/bos.published" "${qnn[@]}" -p Once -n 1 -c 192
check "compiled after a token, in floats" compile float fp16 --preset-bos
publish float
check_equal "--preset never computes it" "$("$FERRY" run -m "$m" -p 'One day' -n 40 --temp 0 -q)" "$(say float.published --preset never)"
check_status "with a warning" 0 'preset never: the graphs were calibrated for texts after a preset of 1 tokens' \
    "$FERRY" run -m "$TMP/float" "${qnn[@]}" -p Once -n 1 --preset never

# --- the lm_head on the CPU -------------------------------------------------------------------------------------------
check "compiled in floats" compile fp16 fp16
publish fp16
jq 'del(.embeddings)' "$TMP/fp16.published/qnn/config.json" >"$TMP/config" && cp "$TMP/config" "$TMP/fp16.published/qnn/config.json"
check_equal "without an lm_head for the NPU the CPU computes it" "$("$FERRY" run -m "$m" -p 'One day' -n 40 --temp 0 -q)" "$(say fp16.published)"
check_equal "with any number of threads" "$(say fp16.published)" "$(say fp16.published -t 1)"
cp "$cut/ggml/weights.gguf" "$TMP/fp16.published/ggml/weights.gguf"
check_status "where the weights have it" 1 'no graph computes the lm_head, and the weights for the CPU have none' \
    "$FERRY" run -m "$TMP/fp16.published" "${qnn[@]}" -p Once -n 1
finish
