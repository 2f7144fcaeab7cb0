#!/usr/bin/env bash
# Files of older converters lack keys that change what is computed. Each is named at load, with what is taken: the answer
# is that of a file which says it.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

measured() { # FILE GOLDEN: how far the logits are from the golden ones, to the last digit
    "$FERRY" eval -m "$1" --golden "$2" --tolerance 1e9 --json 2>"$TMP/err" | jq -c 'del(.model, .within, .tolerance)'
}

# family | the key that is left out | a change of config.json with the same meaning | the words
while IFS='|' read -r name key change says; do
    dir=tests/data/families/$name f=$TMP/$name.gguf
    "$FERRY" convert "$dir" --outtype f32 -q -o "$f" 2>/dev/null || not_ok "$name converts"
    LC_ALL=C sed "s/${key//./\\.}/${key%?}_/" "$f" >"$TMP/old.gguf"
    check "$name: $key is renamed in place" bash -c "! cmp -s '$f' '$TMP/old.gguf' && [ \$(stat -c %s '$f') = \$(stat -c %s '$TMP/old.gguf') ]"
    rm -rf "$TMP/said" && cp -r "$dir" "$TMP/said" && chmod -R u+w "$TMP/said"
    jq "$change" "$dir/config.json" >"$TMP/said/config.json"
    "$FERRY" convert "$TMP/said" --outtype f32 -q -o "$TMP/said.gguf" 2>/dev/null
    want=$(measured "$TMP/said.gguf" "$dir/golden.safetensors")
    check_equal "$name: without $key the same as with it" "$want" "$(measured "$TMP/old.gguf" "$dir/golden.safetensors")"
    check "$name: it is said" grep -qF "key '$key' is missing; $says" "$TMP/err"
    check "$name: the fixture has another value" test "$want" != "$(measured "$f" "$dir/golden.safetensors")"
    check_equal "$name: nothing is said of a file that has it" "" "$(grep -F 'is missing' "$TMP/err")"
done <<'END'
stablelm|stablelm.rope.freq_base|.rope_theta = 10000|10000 is taken, as llama.cpp does
stablelm|stablelm.attention.layer_norm_epsilon|.layer_norm_eps = 1e-5|1e-05 is taken, the default of the model's class
phi|phi2.rope.freq_base|.rope_theta = 10000|10000 is taken, as llama.cpp does
phi|phi2.attention.layer_norm_epsilon|.layer_norm_eps = 1e-5|1e-05 is taken, the default of the model's class
gemma2|gemma2.attention.scale|.query_pre_attn_scalar = .head_dim|scores are multiplied by
olmoe|olmoe.attention.layer_norm_rms_epsilon|.rms_norm_eps = 1e-5|1e-05 is taken, the default of the model's class
END
finish
