#!/usr/bin/env bash
# `ferry compile` that cannot: each way has its message and status, and nothing is left behind.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT VIRTUAL_ENV
export HOME=$TMP

m=$TMP/m.gguf cut=$TMP/cut out=$TMP/out
compile() { "$FERRY" compile --sdk reference "$@"; }
check "a model" "$FERRY" convert tests/data/tales --outtype f16 -q -o "$m"
check "cut for a chip" "$FERRY" chunk "$m" --soc SM8650 --recipe fp16a8w -c 160 --batch 32,1 -q -o "$cut"
check "cut for none" "$FERRY" chunk "$m" --chunks 2 -c 160 --batch 32,1 -q -o "$TMP/plain"

# --- what is given ----------------------------------------------------------------------------------------------------
check_status "nowhere to write" 2 "where to\? Say -o DIR" compile "$cut"
check_status "no cut" 2 "/tales: has no qnn/config.json; expected a model that 'ferry chunk' has cut" compile tests/data/tales -o "$out"
check_status "a model" 2 "m.gguf: has no qnn/config.json" compile "$m" -o "$out"
check_status "no chip" 2 "for which chip\? The model was cut for none; --soc NAME" compile "$TMP/plain" -o "$out"
check_status "an unknown chip" 2 "'?SM1'? " compile "$cut" --soc SM1 -o "$out"
check_status "an unknown recipe" 2 "fp17.*fp16a8w" compile "$cut" --recipe fp17 -o "$out"
check_status "a chip without 16-bit floats" 3 "V69" compile "$cut" --soc SM8450 -o "$out"
check_status "a chunk that is not there" 2 "--only chunk_7: the model has no such chunk; its first one is chunk_0" compile "$cut" --only chunk_7 -o "$out"
check_status "activations without ranges" 2 "recipe 16a8w .* need ranges: --calibration TEXT" compile "$cut" --recipe 16a8w -o "$out"
check_status "too little memory" 3 "chunk_0: the library takes about 0.2 GB to compile it, 0.0 GB are available; cut the model into more chunks" \
    compile "$cut" --memory 1M -o "$out"
cat >"$TMP/other.json" <<JSON
{"version": 1, "model": "$(printf '0%.0s' {1..64})", "tokens": 1, "ranges": {}, "importance": {}}
JSON
check_status "ranges of another model" 2 "other.json: has the ranges of another model \(000000000000...\), not of [0-9a-f]{12}..." \
    compile "$cut" --recipe 16a8w --ranges "$TMP/other.json" -o "$out"
sed "s/\"model\": \"0*\"/\"model\": $(jq .ferry.model "$cut/qnn/config.json")/" "$TMP/other.json" >"$TMP/empty.json"
check_status "ranges with none of it" 1 "attn|x|L0" compile "$cut" --recipe 16a8w --ranges "$TMP/empty.json" -o "$out"

# --- the library ------------------------------------------------------------------------------------------------------
check_status "no library" 5 "/none: no QNN library" "$FERRY" compile "$cut" --sdk /none -o "$out"
mkdir -p "$TMP/arm"
printf '\177ELF\2\1\1%09d\3\0\267\0' 0 | head -c 4096 >"$TMP/arm/libQnnHtp.so"
check_status "a library of another machine" 5 "cannot load the QNN library" "$FERRY" compile "$cut" --sdk "$TMP/arm" -o "$out"
check "nothing has a final name" test -z "$(find "$out" -name '*.bin' -o -name '*.part' -o -name config.json 2>/dev/null)"
export FERRY_REF_FAULTS=$TMP/faults
fault() { # LINE NAME STATUS PATTERN
    echo "$1" >"$TMP/faults"
    check_status "$2" "$3" "$4" compile "$cut" -o "$out"
    check_equal "$2: no part is left" "" "$(find "$out" -name '*.part' -o -name config.json)"
}
fault $'validate Softmax refuse\nvalidate MatMul refuse' "all refusals come together" 1 "the QNN library refuses [0-9]+ nodes"
compile "$cut" -o "$out" 2>"$TMP/err"
check_equal "a line for each kind" 2 "$(grep -oE ': (Softmax|MatMul) f16\[1,1,32,160\]' "$TMP/err" | sort -u | wc -l)"
fault "graphFinalize segv" "a crash" 5 "the QNN library crashed or was killed while it was finalizing batch_32"
fault "graphFinalize code 1002" "a failure of finalize" 3 "graph batch_32: graphFinalize: QNN error 1002"
fault "contextGetBinary code 5005" "a failure at the end" 5 "chunk_0.bin: contextGetBinary"
: >"$TMP/faults"
echo "validate RotaryEmbedding refuse" >"$TMP/faults"
check "RotaryEmbedding may be refused" compile "$cut" -q -o "$out"
check_equal "and the description records it" true "$(jq .rope_nodes "$out/qnn/chunk_0.json")"
: >"$TMP/faults"
check_equal "graphs share their weights" true "$(jq .shared "$out/qnn/chunk_0.json")"
check "or each keeps its own" "$FERRY" compile --sdk reference "$cut" --recipe fp16 --no-sharing -q -o "$TMP/alone"
check_equal "which takes more" 1 "$(($(stat -c %s "$TMP/alone/qnn/chunk_0.bin") > $(stat -c %s "$out/qnn/chunk_0.bin") * 3 / 2))"
echo "reload refuse" >"$TMP/faults"
check "and runs where the others do not" "$FERRY" run -m "$TMP/alone" --backend qnn --qnn-lib reference -p Once -n 1 -q
check_status "as a PC's library" 1 'chunk_[0-9].bin: the graphs share their weights' "$FERRY" run -m "$out" --backend qnn --qnn-lib reference -p Once -n 1
echo "graphFinalize sleep 600000" >"$TMP/faults"
FERRY_REF_COVERAGE=$TMP/coverage "$FERRY" compile --sdk reference "$cut" --recipe fp16 -o "$out" 2>"$TMP/err" &
check "a compiler works" wait_for 120 test -s "$TMP/coverage"
interrupt $!
check_equal "Ctrl-C ends it" 130 $status
check_equal "and leaves no part" "" "$(find "$out" -name '*.part')"
unset FERRY_REF_FAULTS
rm -rf "$out"
check "a model" compile "$cut" -q -o "$out"
check_status "what is compiled is not compiled again" 2 "out: has context binaries; expected the chunks" compile "$out" -o "$TMP/again"
check_status "a cut is not overwritten" 2 "cut/qnn/config.json: is of a model that ferry has not compiled" compile "$cut" -o "$cut"
check "and stays as it is" test -e "$cut/qnn/config.json"
rm -rf "$out"

# --- without a library ------------------------------------------------------------------------------------------------
check_status "a dry run" 0 "chunk_0: 2 graphs, [0-9]+ nodes, weights 2.3 MB" "$FERRY" compile "$cut" --dry-run
check_status "of one chunk" 0 "lm_head: 2 graphs, 12 nodes" "$FERRY" compile "$cut" --dry-run --only lm_head
check "its report" "$FERRY" compile "$cut" --dry-run -q --report "$TMP/report.json"
check_equal "has every chunk" "chunk_0 lm_head" "$(jq -r '[.chunks[].name] | join(" ")' "$TMP/report.json")"
check "a model of 4 bits" "$FERRY" convert tests/data/tales --outtype q4_0 -q -o "$TMP/q4.gguf"
check "is cut as it is" "$FERRY" chunk "$TMP/q4.gguf" --soc SM8650 --recipe fp16a8w -c 160 --batch 32,1 -q -o "$TMP/q4"
check_status "weights that are quantized twice are reported" 0 "chunk_0 holds weights in q4_0, which are quantized a second time" \
    "$FERRY" compile "$TMP/q4" --dry-run
check_status "a dry run needs no ranges" 0 "chunk_0: 2 graphs" "$FERRY" compile "$cut" --recipe 16a8w --dry-run

# --- a full disk ------------------------------------------------------------------------------------------------------
if unshare -rm true 2>/dev/null; then
    cat >"$TMP/small.sh" <<'SH'
mkdir -p "$2" && mount -t tmpfs -o size=1M tmpfs "$2" || exit 99
"$FERRY" compile --sdk reference "$1" -o "$2"
status=$?
[ -z "$(find "$2" -name '*.part' -o -name config.json)" ] || exit 98
exit $status
SH
    check_status "a full disk is found before the work" 6 "small: needs about [0-9]+ bytes, the file system has [0-9]+ free" \
        unshare -rm bash "$TMP/small.sh" "$cut" "$TMP/small"
else
    skip "a full disk is found before the work" "no user namespaces here"
fi
finish
