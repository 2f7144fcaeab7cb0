#!/usr/bin/env bash
# The workspace from end to end: stock tools read it, the same input gives the same bytes, and one changed byte, a
# missing or an extra file is found and named.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

ferry=$(realpath "$FERRY")
check "tales converts" "$ferry" convert tests/data/tales --outtype q4_0 -o "$TMP/tales.gguf"
check "create makes a workspace" "$ferry" create "$TMP/tales.gguf" -o "$TMP/tales" --copy
check "create makes it again" "$ferry" create "$TMP/tales.gguf" -o "$TMP/again/tales" --copy
check "with the same bytes" diff -r "$TMP/tales" "$TMP/again/tales"
check_status "it does not write over a directory" 2 'exists|not empty' "$ferry" create "$TMP/tales.gguf" -o "$TMP/tales"

check "pack" "$ferry" pack "$TMP/tales" -o "$TMP/a.tar.zst"
(umask 077 && "$ferry" pack "$TMP/again/tales" -o "$TMP/b.tar.zst" 2>/dev/null)
check "the same workspace gives the same archive, whatever the umask and the time" cmp "$TMP/a.tar.zst" "$TMP/b.tar.zst"
for threads in 1 4; do
    check "pack on $threads threads" "$ferry" pack "$TMP/tales" -t "$threads" -o "$TMP/t$threads.tar.zst"
    check "gives the same archive" cmp "$TMP/a.tar.zst" "$TMP/t$threads.tar.zst"
done
if [ "$(id -u)" -eq 0 ]; then
    mkdir "$TMP/owned"
    cp -r "$TMP/tales" "$TMP/owned/tales"
    chown -R 1234:5678 "$TMP/owned"
    check "pack somebody else's" "$ferry" pack "$TMP/owned/tales" -o "$TMP/owned.tar.zst"
    check "gives the same archive, whoever owns the files" cmp "$TMP/a.tar.zst" "$TMP/owned.tar.zst"
else
    skip "gives the same archive, whoever owns the files" "only root can give files away"
fi
for kind in tar tar.gz; do
    check "pack as $kind" "$ferry" pack "$TMP/tales" -o "$TMP/a.$kind"
    check "unpack from $kind" "$ferry" unpack "$TMP/a.$kind" -o "$TMP/from-$kind"
    check "nothing changed on the way ($kind)" diff -r "$TMP/tales" "$TMP/from-$kind"
done
mkdir "$TMP/stock"
check "zstd and tar read the archive" bash -c "zstd -qdc $TMP/a.tar.zst | tar -x -C $TMP/stock"
check "and find the same files" diff -r "$TMP/tales" "$TMP/stock/tales"
check_equal "the manifest's hashes are sha256sum's" "" "$(cd "$TMP/tales" &&
    jq -r '.files[] | "\(.sha256)  \(.path)"' manifest.json | sha256sum -c --quiet 2>&1)"
check_equal "the manifest lists every file but itself" "$(cd "$TMP/tales" && find . -type f ! -name manifest.json | sed 's,^\./,,' | LC_ALL=C sort)" \
    "$(jq -r '.files[].path' "$TMP/tales/manifest.json")"

check "verify is content" "$ferry" verify "$TMP/tales"
check_equal "tokenize takes a workspace" "$("$ferry" tokenize -m "$TMP/tales.gguf" 'Once upon a time')" \
    "$("$ferry" tokenize -m "$TMP/tales" 'Once upon a time')"
while read -r path; do
    cp -r "$TMP/tales" "$TMP/bad"
    size=$(stat -c %s "$TMP/bad/$path")
    printf '\xA5' | dd of="$TMP/bad/$path" bs=1 seek=$((size / 2)) conv=notrunc status=none
    cmp -s "$TMP/bad/$path" "$TMP/tales/$path" && printf '\x5A' | dd of="$TMP/bad/$path" bs=1 seek=$((size / 2)) conv=notrunc status=none
    check_status "verify names $path when a byte changes" "$([ "$path" = manifest.json ] && echo 1 || echo 4)" "$path" "$ferry" verify "$TMP/bad"
    rm -rf "$TMP/bad"
done < <(cd "$TMP/tales" && find . -type f ! -name manifest.json | sed 's,^\./,,')

cp -r "$TMP/tales" "$TMP/bad"
truncate -s -100 "$TMP/bad/tales/ggml/weights.gguf"
check_status "run says that the weights are short before it loads them" 4 'weights.gguf' "$ferry" run -d "$TMP/bad" -p x -n 1
rm "$TMP/bad/tales/ggml/weights.gguf"
check_status "run says that the weights are missing" 4 'weights.gguf' "$ferry" run -d "$TMP/bad" -p x -n 1
rm -rf "$TMP/bad"
cp -r "$TMP/tales" "$TMP/bad"
echo more >"$TMP/bad/more"
check_status "verify names a file that is not listed" 4 'more' "$ferry" verify "$TMP/bad"
check_status "a workspace without a manifest is refused" 1 'manifest.json' bash -c "rm $TMP/bad/manifest.json; $ferry run -d $TMP/bad -p x"

head -c 500000 "$TMP/a.tar.zst" >"$TMP/cut.tar.zst"
check_status "an archive cut short is refused" 1 'cut.tar.zst' "$ferry" unpack "$TMP/cut.tar.zst" -o "$TMP/cut"
check "and leaves nothing" test ! -e "$TMP/cut" -a ! -e "$TMP/cut.part"

mkdir -p "$TMP/lonely/bin"
cp "$FERRY" "$TMP/lonely/bin/"
check_status "without a device program create says how to build one" 2 'make TARGET=aarch64' \
    "$TMP/lonely/bin/ferry" create "$TMP/tales.gguf" -o "$TMP/none"
check_status "a program for another machine is refused" 2 'aarch64' \
    "$ferry" create "$TMP/tales.gguf" -o "$TMP/none" --exe-path "$FERRY"
check "two models make one workspace" "$ferry" create "$TMP/tales.gguf" "$TMP/tales.gguf" -o "$TMP/two"
check_equal "the first is the main one" tales "$(jq -r .model_main "$TMP/two/workspace.json")"

# --- from a checkpoint ---------------------------------------------------------------------------------------------
check "a checkpoint becomes a workspace in one go" "$ferry" create tests/data/tales -o "$TMP/one/tales"
check "with the bytes of convert and create" diff -r "$TMP/tales" "$TMP/one/tales"
check_equal "and no other file" tales "$(ls "$TMP/one")"
check "in another type" "$ferry" create tests/data/tales --outtype f16 -o "$TMP/f16" -q
check_equal "as asked" f16 "$("$ferry" inspect "$TMP/f16/tales/ggml/weights.gguf" --json | jq -r '.tensors[] | select(.name == "token_embd.weight") | .type')"
check "with fitted scales" "$ferry" create tests/data/tales --fit --no-parity -o "$TMP/fit" -q
"$ferry" convert tests/data/tales --outtype q4_0 --fit -o "$TMP/fit.gguf" -q
check "which are those of convert --fit" cmp "$TMP/fit.gguf" "$TMP/fit/tales/ggml/weights.gguf"
mkdir "$TMP/broken"
cp tests/data/tales/* "$TMP/broken/"
truncate -s -1000 "$TMP/broken/model.safetensors"
check_status "a broken checkpoint leaves nothing" 1 'model.safetensors' "$ferry" create "$TMP/broken" -o "$TMP/none"
check "neither the name" test ! -e "$TMP/none" -a ! -e "$TMP/none.part"
if unshare -rm true 2>/dev/null; then
    mkdir "$TMP/small"
    cat >"$TMP/full.sh" <<'EOF'
mount -t tmpfs -o size=4m tmpfs "$2/small" || exit 99
"$1" create tests/data/tales --outtype f32 --exe-path "$2/tales/bin/ferry" -o "$2/small/ws" 2>"$2/words"
status=$?
cat "$2/words" >&2
ls -A "$2/small" >&2
! grep -q '^writing' "$2/words" || exit 98
exit $status
EOF
    check_status "a full disk is reported before the work" 6 'needs [0-9.]+ MB, the disk has [0-9.]+ MB free$' \
        unshare -rm bash "$TMP/full.sh" "$ferry" "$TMP"
else
    skip "a full disk is reported before the work" "no user namespaces here"
fi

# --- a draft -------------------------------------------------------------------------------------------------------
check "a draft of the same vocabulary" "$ferry" create "$TMP/f16/tales/ggml/weights.gguf" --draft "$TMP/tales.gguf" -o "$TMP/spec" -q
check_equal "run says once how to use it" 1 \
    "$("$ferry" run -d "$TMP/spec" -p a -n 1 2>&1 | grep -c 'the workspace has a draft model, tales-2: --spec auto uses it')"
check_equal "is named in workspace.json" 'tales tales-2' "$(jq -r '"\(.model_main) \(.model_draft)"' "$TMP/spec/workspace.json")"
check_equal "with an id of its own" 'tales tales-2' "$(jq -rs 'map(.model_id) | join(" ")' "$TMP"/spec/tales{,-2}/model.json)"
check "and verified" "$ferry" verify "$TMP/spec" -q
check_status "one of another vocabulary is refused" 2 'another vocabulary than tales: token [0-9]+ is ' \
    "$ferry" create "$TMP/tales.gguf" -d tests/data/families/qwen2 --outtype f16 -o "$TMP/none"

cp -r tests/data/tales "$TMP/plain"
rm "$TMP/plain/generation_config.json"
check "a model that recommends nothing" "$ferry" create "$TMP/plain" --no-parity -o "$TMP/greedy" -q

# --- PowerServe's layout: every field that its readers want, with its type (nlohmann's get<T>) ----------------------
fields() { # FILE TABLE: lines of "path type"; int is a whole number that fits 32 bits
    local path type
    while read -r path type; do
        check_equal "$(basename "$1"): $path is $type" true "$(jq --arg t "$type" "$path"' |
            if $t == "int" then type == "number" and . == floor and . >= -2147483648 and . < 4294967296
            else type == $t end' "$1" 2>/dev/null)"
    done <<<"$2"
}
fields "$TMP/spec/workspace.json" '.executables string
.hparams_config string
.model_main string
.model_draft string'
fields "$TMP/spec/hparams.json" '.n_threads int
.batch_size int
.sampler object
.sampler.temperature number
.sampler.top_p number'
fields "$TMP/greedy/hparams.json" '.sampler.temperature number
.sampler.top_k int'
check_equal "hparams.json: what aborts its runtime is not there" true \
    "$(jq '.sampler | .temperature > 0 and (.top_k // 40) > 0 and (.penalty_last_n // 64) >= 0' "$TMP/spec/hparams.json" "$TMP/greedy/hparams.json" | sort -u)"
check_equal "hparams.json: without a recommendation it is what PowerServe's create writes" \
    '[4,128,{"temperature":1.0,"top_k":1,"top_p":1.0}]' "$(jq -cS '[.n_threads, .batch_size, .sampler]' "$TMP/greedy/hparams.json" | sed 's/:1,"top_k"/:1.0,"top_k"/; s/:1}/:1.0}/')"
check_equal "workspace.json names what is there" "bin hparams.json tales tales-2" \
    "$(cd "$TMP/spec" && jq -r '.executables, .hparams_config, .model_main, .model_draft' workspace.json | xargs ls -d | xargs)"
fields "$TMP/spec/tales/model.json" '.model_id string
.model_arch string
.version int
.llm_config.embed_dim int
.llm_config.ffn_dim int
.llm_config.n_layers int
.llm_config.n_attn_heads int
.llm_config.n_attn_kv_heads int
.llm_config.n_ctx int
.llm_config.vocab_size int
.llm_config.kv_dim int
.llm_config.head_size int
.llm_config.norm_eps number
.llm_config.rope_config.rope_dim int
.llm_config.rope_config.n_rope_ctx_orig int
.llm_config.rope_config.rope_freq_base number
.llm_config.rope_config.rope_freq_scale number
.llm_config.rope_config.rope_attn_factor number
.llm_config.rope_config.rope_scale_type string
.llm_config.rope_config.rope_type int
.vision object'
check_equal "model.json says what the checkpoint says" true "$(jq --slurpfile c tests/data/tales/config.json '$c[0] as $c | .llm_config as $l |
    .model_arch == "llama" and $l.embed_dim == $c.hidden_size and $l.ffn_dim == $c.intermediate_size and
    $l.n_layers == $c.num_hidden_layers and $l.n_attn_heads == $c.num_attention_heads and
    $l.n_attn_kv_heads == $c.num_key_value_heads and $l.vocab_size == $c.vocab_size and
    $l.rope_config.rope_dim == $l.head_size and $l.rope_config.rope_type == 0 and
    $l.kv_dim == $l.head_size * $l.n_attn_kv_heads and $l.head_size == $l.embed_dim / $l.n_attn_heads and
    $l.n_ctx == ([$c.max_position_embeddings, 4096] | min) and $l.rope_config.n_rope_ctx_orig == $c.max_position_embeddings and
    (($l.norm_eps - $c.rms_norm_eps) | fabs) < 1e-12 and $l.rope_config.rope_freq_base == ($c.rope_theta // $c.rope_parameters.rope_theta) and
    $l.rope_config.rope_freq_scale == 1 and $l.rope_config.rope_attn_factor == 1 and
    $l.rope_config.rope_scale_type == "linear" and .version == 20241202 and .vision == {}' "$TMP/spec/tales/model.json")"
check_equal "vocab.gguf has the keys its tokenizer wants" "" "$("$ferry" inspect "$TMP/spec/tales/vocab.gguf" --json | jq -r '
    (.metadata | keys) as $k | ("general.architecture", "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id", "tokenizer.chat_template") | select(. as $want | $k | index($want) | not)')"
check_equal "vocab.gguf has no tensor" 0 "$("$ferry" inspect "$TMP/spec/tales/vocab.gguf" --json | jq '.tensors | length')"
check_equal "norms are f32" f32 "$("$ferry" inspect "$TMP/tales/tales/ggml/weights.gguf" --json | jq -r '.tensors[] | select(.name | test("norm")) | .type' | sort -u)"
check_equal "weights.gguf has only types that it computes with" "" "$("$ferry" inspect "$TMP/tales/tales/ggml/weights.gguf" --json |
    jq -r '.tensors[] | select(.type | IN("f32", "q4_0") | not) | .name')"
for family in llama qwen2; do
    check_equal "nothing is said about $family, which it knows" "" \
        "$("$ferry" create tests/data/families/$family --outtype q8_0 --no-parity -o "$TMP/known-$family" 2>&1 | grep PowerServe)"
    check "without parity.json" test ! -e "$TMP/known-$family/$family/parity.json"
done
for family in qwen3:'family qwen3 is not llama or qwen2' llama3:'llama3 rope scaling' qwen2-yarn:'yarn rope scaling' \
    llama-linear:'linear rope scaling' llama-bias:'blk.0.attn_q.bias is ignored' mistral:'heads of 32 elements'; do
    check_status "a warning about ${family%%:*}, which it does not" 0 "PowerServe's runtime could not compute.*${family#*:}" \
        "$ferry" create "tests/data/families/${family%%:*}" --outtype q8_0 --no-parity -o "$TMP/other-${family%%:*}"
done
check_status "and about types" 0 'PowerServe.*token_embd.weight is f16' "$ferry" create "$TMP/f16/tales/ggml/weights.gguf" --no-parity -o "$TMP/types"

# --- a package as PowerServe publishes them --------------------------------------------------------------------------
package=$TMP/package/qnn
make_package "$TMP/package" "$TMP/tales.gguf" "$TMP/tales/tales/model.json"
check "a package goes through create" "$ferry" create "$TMP/package" -o "$TMP/npu" -q
check "with all its context binaries" diff -r "$package" "$TMP/npu/tales/qnn"
# Published ones bring their own model.json and vocab.gguf, and the vendor's libraries for two chips.
mkdir "$TMP/published"
cp -r "$TMP/package" "$TMP/published/Tales-PowerServe-QNN29-8G3"
published=$TMP/published/Tales-PowerServe-QNN29-8G3
cp "$TMP"/tales/tales/{model.json,vocab.gguf} "$published/"
echo 'void f(void) {}' >"$TMP/f.c"
for lib in Htp System HtpV75Stub HtpV79Stub; do
    aarch64-linux-gnu-gcc -shared -fPIC -nostdlib -Wl,-z,max-page-size=16384 -o "$published/qnn/libQnn$lib.so" "$TMP/f.c"
done
for lib in HtpV75 HtpV75Skel HtpV79 HtpV79Skel HexagonSkel_dspApp; do # 32 bit, for machine 164
    { printf '\177ELF\1\1\1' && head -c 9 /dev/zero && printf '\3\0\244\0\1' && head -c 100 /dev/zero; } >"$published/qnn/libQnn$lib.so"
done
check "a published one goes through create" env -u QNN_SDK_ROOT "$ferry" create "$published" --soc SM8650 -o "$TMP/npu8g3" -q
check_equal "with the libraries of the one chip" \
    'libQnnHtp.so libQnnHtpV75.so libQnnHtpV75Skel.so libQnnHtpV75Stub.so libQnnSystem.so' "$(cd "$TMP/npu8g3/qnn_libs" && echo *)"
check_equal "and once" "" "$(find "$TMP/npu8g3/tales" -name 'lib*')"
check "with the model's files" diff -r "$TMP/npu/tales" "$TMP/npu8g3/tales"
check "and verify" "$ferry" verify "$TMP/npu8g3" -q
check "for the other chip, too" env -u QNN_SDK_ROOT "$ferry" create "$published" --soc SM8750 -o "$TMP/npu8g4" -q
check_equal "with one library more" 6 "$(find "$TMP/npu8g4/qnn_libs" -type f | wc -l)"
check "verify" "$ferry" verify "$TMP/npu" -q
check "pack and unpack" bash -c "$ferry pack $TMP/npu -o $TMP/npu.tar.zst -q && $ferry unpack $TMP/npu.tar.zst -o $TMP/npu2 -q && diff -r $TMP/npu $TMP/npu2"
check "and still runs on the CPU" "$ferry" run -d "$TMP/npu2" -p 'One day' -n 2 -q
check "the converter's output goes with any model" "$ferry" create "$TMP/tales.gguf" --qnn-path "$package" -o "$TMP/npu3" -q
check "to the same workspace" diff -r "$TMP/npu" "$TMP/npu3"
jq '.graphs[1].end_layer_id = 3' "$package/config.json" >"$TMP/config.json"
cp "$TMP/config.json" "$package/config.json"
check_status "one whose graphs differ is refused" 1 'config.json: graphs: batch size 1 covers 4 layers, batch size 128 covers 3' "$ferry" create "$TMP/package" -o "$TMP/none"
check_status "libraries without an SDK are asked for" 2 'QNN_SDK_ROOT' env -u QNN_SDK_ROOT "$ferry" create "$TMP/tales.gguf" --soc SM8650 -o "$TMP/none"
check_status "an unknown chip is reported" 2 "no chip 'SM1' is known; give the architecture" "$ferry" create "$TMP/tales.gguf" --soc SM1 -o "$TMP/none"

# --- another runtime -----------------------------------------------------------------------------------------------
mkdir -p "$TMP/runtime/lib"
cp "$TMP/tales/bin/ferry" "$TMP/runtime/other-run"
echo words >"$TMP/runtime/lib/notes"
check "another runtime is packaged" "$ferry" create "$TMP/tales.gguf" --exe-path "$TMP/runtime" --exec 'bin/other-run run -d . --temp 0' -o "$TMP/other" -q
check_equal "its command line is recorded" 'bin/other-run run -d . --temp 0' "$(jq -r .exec "$TMP/other/workspace.json")"
check_equal "beside ferry" 'ferry lib other-run' "$(cd "$TMP/other/bin" && echo *)"
check "and verified" "$ferry" verify "$TMP/other" -q
check_status "a command line starts what is there" 2 "'llama-cli', which it does not have" \
    "$ferry" create "$TMP/tales.gguf" --exe-path "$TMP/runtime" --exec 'llama-cli -m' -o "$TMP/none"

# --- selftest, in full ---------------------------------------------------------------------------------------------
check_equal "selftest reads every file and finds nothing" 'true true' \
    "$("$ferry" selftest -d "$TMP/tales" --json 2>/dev/null | jq -r '"\(.ok) \(.checks[] | select(.name == "files") | .ok)"')"
rm -rf "$TMP/bad"
cp -r "$TMP/tales" "$TMP/bad"
printf 'x' | dd of="$TMP/bad/tales/ggml/weights.gguf" bs=1 seek=1000000 conv=notrunc status=none
# (the kernels were looked at just now)
check_status "and a changed byte when there is one" 4 "'files'.*weights.gguf: changed" env FY_CPU_MASK=0 "$ferry" selftest -d "$TMP/bad"
finish
