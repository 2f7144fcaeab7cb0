#!/usr/bin/env bash
# Models are cut for an NPU and joined again to the same bytes; a cut that is killed at any moment goes on where it was; a
# full disk, a read-only directory, a limit leave nothing but finished pieces. FERRY_SEED chooses the moments.
cd "$(dirname "$0")/../.." || exit 1
[ ! -w /dev/shm ] || [ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -lt 1000000 ] || export TMPDIR=/dev/shm
# shellcheck source=tests/lib.sh
. tests/lib.sh

RANDOM=${FERRY_SEED:-10}
seed=$RANDOM
# --- every dense family ---------------------------------------------------------------------------------------------
types=(f32 f16 q8_0 q4_0)
there_and_back() { # DIRECTORY TYPE: what is wrong
    local m=$TMP/f.gguf d=$TMP/f j=$TMP/again.gguf
    rm -rf "$d"
    "$FERRY" convert "$1" --outtype "$2" -q -o "$m" 2>/dev/null || echo "$1 $2: not converted"
    "$FERRY" chunk "$m" --chunks 2 -c 64 --batch 8,1 -q -o "$d" 2>&1 || echo "$1 $2: not cut"
    "$FERRY" chunk --join "$d" -q -o "$j" 2>&1 && cmp "$m" "$j" 2>&1 || echo "$1 $2: not the same"
}
n=0 refused=0 bad=
for f in tests/data/families/*; do
    if jq -e '[.. | objects | (.num_experts, .num_local_experts, .moe_num_primary_experts, .conv_L_cache, .mamba_d_conv, .conv_kernel, .hidden_size_per_layer_input, .kv_lora_rank, .linear_conv_kernel_dim) // 0] | max > 0' "$f/config.json" >/dev/null; then
        "$FERRY" convert "$f" -q -o "$TMP/moe.gguf" 2>/dev/null
        "$FERRY" chunk "$TMP/moe.gguf" --chunks 2 -o "$TMP/moe" 2>&1 | grep -qE 'moe.gguf: .*(it is a mixture of experts|its (short convolutions|Mamba-2 mixers|gated delta nets) have a state|per-layer embeddings|its attention is latent)' && [ ! -e "$TMP/moe" ] &&
            refused=$((refused + 1)) || bad+="$f: not refused"$'\n'
        continue
    fi
    bad+=$(there_and_back "$f" "${types[n % 4]}")
    n=$((n + 1))
done
for type in "${types[@]}"; do
    bad+=$(there_and_back tests/data/families/llama "$type")
done
check_equal "every dense family is cut and joined to the same bytes" "" "$bad"
check_equal "their number, and that of those refused by name" "47 19" "$n $refused"
check "to compare it is the same model" "$FERRY" compare -q "$TMP/f.gguf" "$TMP/again.gguf"

# --- a larger one ---------------------------------------------------------------------------------------------------
source=$TMP/m.gguf d=$TMP/d
check "a file of 30 MB" build/host/release/tests/bench/make_gguf "$source" --type q8_0 --layers 4 --embd 768 --ff 2304 --heads 12 --heads-kv 4 --vocab 4096 --untied
chunk() { "$FERRY" chunk "$source" --chunks 3 -c 256 -o "$d" -t 1 "$@"; }
check "it is cut" chunk
cp -r "$d" "$TMP/want"
same() { diff -r "$TMP/want" "$d"; }
bytes=$(du -sb "$d" | cut -f1)
check_equal "the files" "ggml/weights.gguf qnn/chunk_0.gguf qnn/chunk_1.gguf qnn/chunk_2.gguf qnn/config.json qnn/lm_head.gguf " \
    "$(cd "$d" && find . -type f -printf '%P\n' | LC_ALL=C sort | tr '\n' ' ')"
check "a second time nothing is written" chunk
check "and all stays" same
rm -rf "$d"
check "with more threads" "$FERRY" chunk "$source" --chunks 3 -c 256 -o "$d" -t 7
check "the bytes are the same" same
check_status "another cut into the same directory is refused" 2 'd/qnn/chunk_2.gguf: is not of this cut; remove the directory' \
    "$FERRY" chunk "$source" --chunks 2 -c 256 -o "$d"
check "and nothing is changed" same
check "it is joined" "$FERRY" chunk --join "$d" -o "$TMP/again.gguf"
check "to the same bytes" cmp "$source" "$TMP/again.gguf"
check_status "the join goes nowhere" 2 'where to\? Say -o OUT.gguf' "$FERRY" chunk --join "$d"
truncate -s -1000 "$d/qnn/chunk_1.gguf"
check_status "a piece that was cut short" 4 'chunk_1.gguf: .*remove that file and cut the model into .*/d again' \
    "$FERRY" chunk --join "$d" -o "$TMP/again2.gguf"
check_status "is not silently replaced either" 2 'd/qnn/chunk_1.gguf: is of another cut or model' chunk
rm "$d/qnn/chunk_1.gguf"
check_status "a missing one" 4 'd/qnn/chunk_1.gguf: missing' "$FERRY" chunk --join "$d" -o "$TMP/again2.gguf"
check "nothing is left of that" test ! -e "$TMP/again2.gguf" -a ! -e "$TMP/again2.gguf.part"
check "the same command makes it" chunk
check "with the same bytes" same
check "a split model" "$FERRY" quantize "$source" "$TMP/s.gguf" q8_0 -q --allow-requantize --split-max-size 20M
first=$(echo "$TMP"/s-00001-of-*.gguf)
check "is cut" "$FERRY" chunk "$first" --chunks 2 -o "$TMP/s" -q
check "and joined" "$FERRY" chunk --join "$TMP/s" -o "$TMP/whole.gguf" -q
check "to one file of the same model" "$FERRY" compare -q "$TMP/whole.gguf" "$first"
rm -rf "$TMP"/s "$TMP"/s-* "$TMP/whole.gguf" "$TMP/again.gguf"

# --- as a plan says -------------------------------------------------------------------------------------------------
echo '{"defaults": {"sessions": 4, "session_mb": 256, "context_mb": 64, "file_mb": 64, "source": "none"},
    "socs": [{"name": "SMALL1", "htp_arch": 75, "vtcm_mb": 8, "memory_mb": 4096, "source": "none"}]}' >"$TMP/small.json"
small=(--soc SMALL1 --soc-table "$TMP/small.json" -c 16384 --batch "32,1" --recipe 16a8w)
check "a plan" "$FERRY" plan "$source" "${small[@]}"
"$FERRY" plan "$source" "${small[@]}" --json >"$TMP/plan.json"
check "of more than one chunk" jq -e '.chunks | length > 1' "$TMP/plan.json"
check "is cut" "$FERRY" chunk "$source" "${small[@]}" -o "$TMP/p" -q
check_equal "as it says" "$(jq -c '[.chunks[].end_layer], [.heads[].end_token]' "$TMP/plan.json")" \
    "$(jq -c '[.graphs[] | select(.batch_size == 1).end_layer_id], [.embeddings[] | select(.batch_size == 1).end_token]' "$TMP/p/qnn/config.json")"
check_equal "and for what" '["SMALL1","16a8w",8,16384,16352]' \
    "$(jq -c '[.ferry.soc, .ferry.recipe, .ferry.kv_bits, .graphs[0].context_size, .graphs[0].cache_size]' "$TMP/p/qnn/config.json")"
check "it is joined" "$FERRY" chunk --join "$TMP/p" -o "$TMP/again.gguf" -q
check "to the same bytes" cmp "$source" "$TMP/again.gguf"
check_status "what does not fit is not cut" 3 'try: ' "$FERRY" chunk "$source" "${small[@]}" --chunks 1 -o "$TMP/q"
check_status "nor what nobody computes" 3 'context of 100' "$FERRY" chunk "$source" --soc 8650 -c 100 -o "$TMP/q"
check_status "no chip and no number" 2 'for which chip\? --soc NAME' "$FERRY" chunk "$source" -o "$TMP/q"
check_status "a checkpoint is not a file" 2 'is a directory, expected a GGUF file' "$FERRY" chunk tests/data/families/llama --chunks 2 -o "$TMP/q"
check_status "more chunks than layers" 2 '9 chunks of 4 layers' "$FERRY" chunk "$source" --chunks 9 -o "$TMP/q"
check "nothing is left of these" test ! -e "$TMP/q"
rm -rf "$TMP/p"
check "a wide vocabulary" build/host/release/tests/bench/make_gguf "$TMP/wide.gguf" --type q4_0 --layers 1 --embd 1024 --ff 1024 --heads 16 --heads-kv 4 --vocab 70000
check "is cut into slices, too" "$FERRY" chunk "$TMP/wide.gguf" "${small[@]}" -o "$TMP/p" -q
check "of the lm_head" test -e "$TMP/p/qnn/lm_head_1.gguf" -a ! -e "$TMP/p/qnn/lm_head.gguf"
check "it is joined" "$FERRY" chunk --join "$TMP/p" -o "$TMP/again.gguf" -q
check "to the same bytes" cmp "$TMP/wide.gguf" "$TMP/again.gguf"
rm -rf "$TMP/p" "$TMP/again.gguf" "$TMP/wide.gguf"

# --- killed ---------------------------------------------------------------------------------------------------------
if ! grep -q '^wchar' /proc/self/io 2>/dev/null; then
    skip "interrupted cuts go on" "this system does not count what a process writes (/proc/PID/io)"
    finish
    exit
fi
rm -rf "$d"
again=("$FERRY" chunk "$source" --chunks 3 -c 256 -o "$d" -t 1)
kills=0 wrong=0 tries=0
soak 6 15
while [ $kills -lt "$rounds" ] && [ $tries -lt $((6 * rounds)) ]; do
    tries=$((tries + 1))
    if killed_after $(((RANDOM * 32768 + RANDOM) % (bytes * 3 / 4))) "${again[@]}"; then
        kills=$((kills + 1))
        [ $((kills % 3)) -eq 0 ] || continue
        "${again[@]}" 2>>"$TMP/log" || echo "exit $?" >>"$TMP/failed"
    fi
    same >/dev/null || wrong=$((wrong + 1))
    rm -rf "$d"
done
echo "# seed $seed, $kills killed of $tries"
check_equal "$rounds killed cuts" "$rounds" "$kills"
check_equal "every directory has the bytes of an uninterrupted cut" "0 wrong, " "$wrong wrong, $(cat "$TMP/failed" 2>/dev/null)"

half() { # leaves a cut that is half done, in the middle of a piece; again when the interrupt came beside one
    local pid
    for _ in {1..50}; do
        rm -rf "$d"
        "${again[@]}" 2>"$TMP/words" &
        pid=$!
        wait_written $pid $((bytes / 2))
        kill -INT $pid 2>/dev/null
        wait $pid
        [ $? -ne 130 ] || ! grep -q '[0-9] % that are done' "$TMP/words" || return 0
    done
    return 1
}
check "Ctrl-C leaves what is done" half
check "and says how to resume" grep -qE '^ferry chunk: interrupted: .*/d/.*.part keeps the .*; the same command resumes$' "$TMP/words"
check "without a configuration" test -e "$d/ggml/weights.gguf" -a ! -e "$d/qnn/config.json"
check_status "nothing is joined of that" 4 'd/qnn/config.json: missing' "$FERRY" chunk --join "$d" -o "$TMP/again.gguf"
"${again[@]}" 2>"$TMP/words"
check "the same command resumes" grep -qE '^resuming .*/d/.*.part: [0-9]+ % of it is there' "$TMP/words"
check "to the same bytes" same
half
touch -d '2 hours ago' "$source"
check "a model that was only touched goes on, too" "${again[@]}"
check "to the same bytes" same

# --- no space, no permission ----------------------------------------------------------------------------------------
cat >"$TMP/small.sh" <<'EOS'
# SOURCE DIRECTORY CASE KIB
mkdir -p "$2" && mount -t tmpfs -o size=$(($4 * 1024)) tmpfs "$2" || exit 99
[ "$3" != read-only ] || mount -o remount,ro "$2"
"$FERRY" chunk "$1" --chunks 3 -o "$2/d"
status=$?
[ -z "$(find "$2" -mindepth 1)" ] || exit 98
exit $status
EOS
small() { unshare -rm bash "$TMP/small.sh" "$source" "$TMP/small" "$1" "$2"; }
if unshare -rm true 2>/dev/null; then
    check_status "a full disk is reported before the work, and nothing is left" 6 \
        'small/d: needs [0-9]+ bytes, the file system has [0-9]+ free; free some space' small full $((bytes / 2048))
    check_status "a read-only directory is reported" 1 'small/d.*: Read-only file system' small read-only $((bytes / 512))
else
    skip "a full disk is reported before the work, and nothing is left" "no user namespaces here"
    skip "a read-only directory is reported" "no user namespaces here"
fi
rm -rf "$d"
limited() { (ulimit -f "$1" && exec "${again[@]}"); }
check_status "a limit of the shell is no crash" 6 'weights.gguf.part: cannot reserve [0-9]+ bytes: File too large' limited 1000
check "nothing is left" test ! -e "$d"
largest=$(stat -c %s "$source")
check_status "nor one that some pieces fit in" 6 'chunk_[0-9].gguf.part: cannot reserve' limited $((largest / 8192))
check "these are whole" test -e "$d/ggml/weights.gguf" -a -z "$(find "$d" -name '*.part')"
check "and stay" "${again[@]}"
check "in a cut with the same bytes" same
finish
