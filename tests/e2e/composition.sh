#!/usr/bin/env bash
# The graphs that a chunk is compiled from compute what the chunk computes: every dense family, in both types of core and
# both forms of rotation, and with rotated keys and matrices of several types, against the engine, in floats.
cd "$(dirname "$0")/../.." || exit 1
[ ! -w /dev/shm ] || [ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -lt 1000000 ] || export TMPDIR=/dev/shm
# shellcheck source=tests/lib.sh
. tests/lib.sh
COMPARE=build/host/release/tests/e2e/compare_graphs

cat >"$TMP/mixed.json" <<'END'
{"type": "16a8w", "kv_bits": 16, "rotate_keys": true,
 "rules": [{"tensors": ["attn_k", "ffn_up"], "type": "8a4w"}, {"tensors": ["attn_v", "ffn_down"], "type": "fp16"}]}
END

n=0 bad='' most=0
for f in tests/data/families/*; do
    jq -e '[.. | objects | (.num_experts, .num_local_experts, .moe_num_primary_experts, .conv_L_cache, .mamba_d_conv, .conv_kernel, .hidden_size_per_layer_input, .kv_lora_rank, .linear_conv_kernel_dim) // 0] | max > 0' "$f/config.json" >/dev/null && continue
    rm -rf "$TMP/f"
    "$FERRY" convert "$f" --outtype f32 -q -o "$TMP/f.gguf" 2>/dev/null
    "$FERRY" chunk "$TMP/f.gguf" --chunks 2 -c 64 --batch 8,1 -q -o "$TMP/f" 2>"$TMP/err" || bad+="$f: $(cat "$TMP/err")"$'\n'
    for how in "$TMP/f 16a8w" "--rope-nodes $TMP/f fp16" "$TMP/f $TMP/mixed.json"; do
        # shellcheck disable=SC2086
        worst=$("$COMPARE" $how 37 2>&1)
        awk -v w="$worst" 'BEGIN { exit !(w ~ /^[0-9]/ && w + 0 <= 1e-4) }' || bad+="$f, ${how##* }: $worst"$'\n'
        most=$(awk -v a="$most" -v b="$worst" 'BEGIN { print (b + 0 > a + 0) ? b : a }')
    done
    n=$((n + 1))
done
check_equal "the graphs of every dense family give the engine's logits" "" "$bad"
check_equal "how many families" 47 "$n"
echo "# the largest difference is $most of the largest logit"
finish
