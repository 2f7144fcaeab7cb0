#!/usr/bin/env bash
# ferry plan: what it takes for a model, what it says of it, and what it refuses. Numbers are checked against each other:
# tests/unit/workspace has the counting, tests/e2e/plan_published.sh what was published.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

tales=tests/data/tales configs=tests/data/configs
llama=$configs/llama-3.1-8b
plan() { "$FERRY" plan "$@"; }
has() { # NAME PATTERN: in $TMP/text
    if grep -qE -- "$2" "$TMP/text"; then ok "$1"; else not_ok "$1" "$(head -n 40 "$TMP/text")"; fi
}
json() { # NAME FILTER [ARGUMENT...]: the filter is true of $TMP/json
    local name=$1 filter=$2
    shift 2
    check "$name" jq -e "$@" "$filter" "$TMP/json"
}

# --- what a model may be ---------------------------------------------------------------------------------------------
"$FERRY" convert "$tales" --outtype f16 -q -o "$TMP/f16.gguf"
"$FERRY" convert "$tales" --outtype f16 -q --split-max-size 2M -o "$TMP/split.gguf"
first=$(echo "$TMP"/split-00001-of-*.gguf)
mkdir "$TMP/config"
cp "$tales/config.json" "$TMP/config"
cp "$tales/config.json" "$TMP/other-name.json"
{ printf '\177ELF\2\1\1'; head -c 9 /dev/zero; printf '\2\0\267\0'; head -c 44 /dev/zero; } >"$TMP/exe"
"$FERRY" create "$TMP/f16.gguf" --exe-path "$TMP/exe" --no-parity -o "$TMP/workspace" -q 2>/dev/null
plan_of() { plan "$1" --soc SM8650 --json | jq -S 'del(.model.path, .model.name)'; }
want=$(plan_of "$TMP/f16.gguf")
check "a GGUF file" jq -e '.fits and .model.parameters == 2427136' <<<"$want"
for model in "$first" "$tales" "$TMP/config" "$TMP/config/config.json" "$TMP/other-name.json" "$TMP/workspace"; do
    check_equal "${model##*/} has the same plan" "$want" "$(plan_of "$model")"
done
mkdir -p "$TMP/cache/models--tales--tiny/snapshots/abc" "$TMP/cache/models--tales--tiny/refs"
cp "$tales/config.json" "$TMP/cache/models--tales--tiny/snapshots/abc"
echo -n abc >"$TMP/cache/models--tales--tiny/refs/main"
check_equal "and one in the cache" "$want" "$(HF_HUB_CACHE=$TMP/cache plan_of tales/tiny)"
check_equal "its name is what the file says" tales "$(plan "$TMP/f16.gguf" --soc SM8650 --json | jq -r .model.name)"
check_equal "a model that learned little has no more context" 1024 "$(jq .options.context <<<"$want")"
check_status "unless it is asked for" 0 '^warning: a context of 2048 positions, but the model was trained with 1024' plan "$tales" --soc SM8650 -c 2048

# --- one plan --------------------------------------------------------------------------------------------------------
plan "$llama" --soc SM8650 >"$TMP/text" 2>"$TMP/err"
check_equal "nothing is said beside it" "" "$(cat "$TMP/err")"
check_equal "it stays within 100 columns" "" "$(awk 'length > 100' "$TMP/text")"
check_equal "and is ASCII without control characters" "" "$(LC_ALL=C grep -n '[^ -~]' "$TMP/text")"
has "the model" '^model +Llama 3.1 8b: llama, 32 layers of width 4096, 32 heads \(8 of KV\), vocabulary of 128256;$'
has "the chip" '^chip +SM8650 \(Snapdragon 8 Gen 3\): HTP V75, VTCM 8 MiB, 4 sessions of 3\.75 GB'
has "the recipe" '^recipe +lpbq-32 \(16a4w, LPBQ 32; head 8 bit\), KV cache of 8 bit$'
has "the graphs" '^graphs +context 2048 \(1920 cached\), batches of 128 and 1, which share the weights$'
has "a chunk with its fill" '^chunk 0 +0-[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +0  \[#+=*-*\.*\] +[0-9]+ % of a (file|context)$'
has "the head" '^lm_head +[0-9.]+ +0\.0 '
has "the embedding" '^embedding +1051, on the CPU$'
has "a session" '^session 0  \[0+1*h+\.*\] [0-9.]+ of 3\.75 GB$'
has "the memory" '^memory +[0-9.]+ GB with the NPU, [0-9.]+ GB with the CPU alone, of the phone'"'"'s 12\.88 GB$'
has "the verdict, and that it is a narrow one" '^fits +[0-9]+ chunks and 1 lm_head in [0-9]+ of 4 sessions; narrowly, and op is estimated \(see --chunks\)$'
check_equal "one with room is none" "fits     3 chunks and 1 lm_head in 2 of 4 sessions" "$("$FERRY" plan $llama --soc SM8650 --chunks 3 | tail -1)"
script -qec "stty cols 80; $FERRY plan $llama --soc SM8650" /dev/null </dev/null | tr -d '\r' >"$TMP/narrow"
check_equal "on a terminal of 80 columns it has 80 columns" "" "$(awk 'length > 80' "$TMP/narrow")"
check_equal "and the same numbers" "$(awk '/^chunk/ { print $2, $4, $8 }' "$TMP/text")" "$(awk '/^chunk/ { print $2, $4, $8 }' "$TMP/narrow")"
check_equal "without colours" "" "$(grep $'\033' "$TMP/narrow")"
plan "$llama" --soc SM8650 --json >"$TMP/json"
check_equal "JSON and text have the same chunks" "$(jq '.chunks | length' "$TMP/json")" "$(grep -c '^chunk ' "$TMP/text")"
json "every layer is in one chunk" '[.chunks[] | range(.first_layer; .end_layer)] == [range(32)]'
json "every token in one head" '[.heads[] | .first_token, .end_token] | .[0] == 0 and .[-1] == 128256 and (.[1:-1] | [.[range(0; length; 2)]] == [.[range(1; length; 2)]])'
json "the cost of compiling is shown" '.compile_seconds > 60 and .compile_peak_bytes == ([.chunks[], .heads[]] | map(.compile_peak_bytes) | max) and .compile_peak_bytes > 5 * .weight_bytes / ((.chunks | length) + 1)'
json "a file is weights and operations" 'all(.chunks[], .heads[]; .file_bytes == .weight_bytes + .op_bytes)'
json "a piece is its file, its I/O and its scratch" 'all(.chunks[], .heads[]; .bytes == .file_bytes + .io_bytes + .scratch_bytes and .io_bytes >= .kv_bytes)'
json "no limit is broken" '.soc as $s | all(.chunks[], .heads[]; .bytes <= $s.context_bytes and .file_bytes <= $s.file_bytes)
    and .sessions <= $s.sessions and ([.chunks[], .heads[]] | group_by(.session) | all(map(.bytes) | add <= $s.session_bytes))'
json "the sums are those of the pieces" '[.chunks[], .heads[]] as $p | .weight_bytes == ($p | map(.weight_bytes) | add) and .kv_bytes == ($p | map(.kv_bytes) | add) and .io_bytes == ($p | map(.io_bytes) | add)'
json "the cache has the context less the largest batch" '.cached_positions == 1920 and .kv_bytes >= 1920 * 32 * 8 * 256'
json "every layer has its matrices" '(.layers | length) == 32 and all(.layers[]; (.matrices | length) == 7 and .bytes == (.matrices | map(.bytes) | add))'
json "which the chunks hold" '(.layers | map(.bytes) | add) <= (.chunks | map(.weight_bytes) | add)'
json "it says that it fits" '.fits and .limit == null and .why == null and .suggestion == null'
json "the CPU needs the file and a cache" '.cpu_peak_bytes > .model.file_bytes'
plan "$configs/llama-3.2-1b" --soc SM8650 --recipe executorch-llama-3.2-1b -v >"$TMP/text" 2>/dev/null
has "-v has the layers that are alike" '^layers 0-3, each [0-9.]+ MB$'
has "in the types that the recipe gives them" '^  ffn_down +16a8w +2048 x 8192 +[0-9.]+ MB$'
check_equal "for each kind of layers" "16a4w-lpbq32 16a8w" "$(sed -n 's/^  ffn_down *\([^ ]*\).*/\1/p' "$TMP/text" | sort | paste -sd' ')"
plan "$configs/phi-4-mini" --soc SM8650 --recipe executorch-phi-4-mini --json >"$TMP/json"
json "of what a family keeps in one tensor each matrix is counted" '.layers[0].matrices | map("\(.name) \(.type)") | index("attn_v 8a4w") and index("attn_q 16a4w-lpbq16")'

# --- options ---------------------------------------------------------------------------------------------------------
field() { # FILTER OPTION...: of the plan of an 8B
    local filter=$1
    shift
    plan "$llama" --soc SM8650 --json "$@" 2>/dev/null | jq -c "$filter"
}
check_equal "more context takes more" true "$(jq -n "$(field .kv_bytes -c 4096) > $(field .kv_bytes)")"
check_equal "16 bits are twice 8" 2 "$(jq -n "$(field .kv_bytes --kv-bits 16) / $(field .kv_bytes --kv-bits 8)")"
check_equal "batches stand in any order" '[256,64,1]' "$(field .options.batch --batch 1,256,64)"
check_equal "so many chunks" 5 "$(field '.chunks | length' --chunks 5)"
check_equal "balanced" true "$(field '.chunks | map(.weight_bytes) | max / min < 1.2' --chunks 5)"
check_equal "the first layers alone" 9 "$(field '.chunks[-1].end_layer' --layers 9)"
check_equal "memory of the phone" '[false,"memory"]' "$(field '[.fits, .limit]' --memory 4G)"
check_equal "a chip by its number, other name, any case" '"SM8650" "SM8650" "SM8650"' \
    "$(for name in 8650 '8 gen 3' sm8650p; do plan "$llama" --soc "$name" --json | jq .soc.name; done | paste -sd' ')"
check_equal "by the name of a phone" "SM8650 SM8650 SM8450 SM8550" "$(for name in 'Galaxy S24 Ultra' 'oneplus 12' 'Xiaomi 12' 'Xperia 1 V'; do
    plan "$llama" --soc "$name" --json 2>/dev/null | jq -r .soc.name; done | paste -sd' ')"
check_status "some of which have another chip elsewhere" 0 '^warning: Samsung Galaxy S24 has SM8650 in the USA, Canada and China; elsewhere it mostly has an Exynos 2400$' \
    plan "$llama" --soc 'Galaxy S24'
check_status "a chip of another maker has no Hexagon" 1 "'Dimensity 9300' is not Qualcomm's but MediaTek's: plans are for Qualcomm Hexagon NPUs; .*'ferry up MODEL'" \
    plan "$llama" --soc 'Dimensity 9300'
check_status "a family of chips is not one" 2 "'snapdragon' is not one chip: [0-9]+ have names that begin so; .*--list-socs" plan "$llama" --soc snapdragon
check_status "create knows them, too" 2 "ferry create: --soc: 'snapdragon' is not one chip" "$FERRY" create "$TMP/f16.gguf" -o "$TMP/w" --soc snapdragon
check_status "the phone and a name are two" 2 '--device asks the phone for its chip: leave --soc, --htp-arch out' plan "$llama" --device --soc SM8650
check_equal "a variable" '"SM8750"' "$(FERRY_SOC=SM8750 "$FERRY" plan "$llama" --json | jq .soc.name)"
check_status "an unknown chip by its NPU, with a warning" 0 '^warning: V75 with 4 MiB of VTCM is a guess' plan "$llama" --htp-arch 75 --vtcm 4
check_equal "which the line may say instead of a variable" '"V75"' "$(FERRY_SOC=SM8750 plan "$llama" --htp-arch 75 --json 2>/dev/null | jq .soc.name)"

# --- what does not fit -----------------------------------------------------------------------------------------------
check_status "a model that is too large" 3 'sessions.*; at most [0-9]+ of 80 layers would fit$' plan "$configs/llama-70b-shape" --soc SM8650
check_equal "is one line" 1 "$(plan "$configs/llama-70b-shape" --soc SM8650 2>&1 >/dev/null | wc -l)"
plan "$configs/llama-70b-shape" --soc SM8650 >"$TMP/text" 2>/dev/null
has "and the table is printed" '^chunk 3 .*\]'
has "with what the chip does not have" '^and [0-9]+ more, which the chip does not have, of [0-9.]+ GB$'
fails_then_fits() { # NAME MODEL OPTION...: what is suggested fits
    local name=$1 options
    shift
    check_status "$name does not fit" 3 '; (try: |at most )' plan --soc SM8650 "$@"
    mapfile -t options < <(plan --soc SM8650 --json "$@" 2>/dev/null | jq -r '.suggestion.options[]')
    check "${options[*]} does" plan --soc SM8650 "$@" "${options[@]}"
}
fails_then_fits "one chunk" "$llama" --chunks 1
plan "$llama" --soc SM8650 --chunks 1 >"$TMP/text" 2>/dev/null
has "what is beyond a limit has no end" '^chunk 0 .*> 1[0-9][0-9] % of a file$'
fails_then_fits "a cache of 16 bits" "$llama" -c 65536 --kv-bits 16
fails_then_fits "a batch as long as the context" "$llama" -c 128
fails_then_fits "the phone's memory" "$llama" --memory 5G
check_status "nothing fits a phone without memory" 3 'memory' plan "$configs/smollm2-135m" --soc SM8650 --memory 1G
check_status "a recipe below the floor" 3 'V69' plan "$llama" --soc SM8350 --recipe lpbq-32
check_status "a cache below the floor" 3 'V73' plan "$configs/qwen3-0.6b" --soc SM8450 --kv-bits 16
plan "$llama" --soc SM8350 --recipe lpbq-32 --json >"$TMP/json" 2>/dev/null
json "JSON reports it, too" '.fits == false and .limit == "floor" and (.why | contains("V69"))'

# --- tables ----------------------------------------------------------------------------------------------------------
plan --list-socs >"$TMP/text"
has "chips" '^SM8650 +V75 +8 +4 x 3\.75 +12\.9  Snapdragon 8 Gen 3, SM8650P, 8 Gen 3'
plan --list-socs --json >"$TMP/json"
json "SM8650, SM8750, SA8295 and at least 25 more" '(.socs | length) >= 28 and ([.socs[].name] | contains(["SM8650", "SM8750", "SA8295"]))'
json "each with its source" 'all(.socs[]; (.source | length) > 10 and .htp_arch >= 68 and .session_bytes > 3e9)'
check_equal "as many lines as chips" "$(jq '.socs | length' "$TMP/json")" "$(tail -n +3 "$TMP/text" | wc -l)"
plan --list-recipes >"$TMP/text"
has "recipes" '^executorch-llama-3.2-1b +u16 +8  16a4w, LPBQ 32; head and w2 of layers 0-3 8 bit$'
plan --list-recipes --json >"$TMP/json"
json "with their models" '.recipes[] | select(.name == "executorch-llama-3.2-1b") | (.models | length) > 0 and .type == "16a4w-lpbq32" and .kv_bits == 8 and .core == "u16" and (.rotate_keys | not)'
plan "$llama" --what-if >"$TMP/text"
has "one chip of each architecture" '^SM8650 +V75  lpbq-32 +[0-9]+/[0-9]+'
check_equal "in seven contexts" "512 1024 2048 4096 8192 16384 32768" "$(awk '/^chip/ { $1 = $2 = $3 = ""; $0 = $0; $1 = $1; print }' "$TMP/text")"
has "an old one cannot" '^SM8350 +V68  16a4w .* -'
has "and why" '^SM8350 from [0-9]+: '
check_equal "within 100 columns" "" "$(awk 'length > 100' "$TMP/text")"
plan "$llama" --what-if=SM8750,8650 -c 4096 --json >"$TMP/json"
json "those that are named, in one context" '[.socs[] | .soc, (.contexts | length), .contexts[0].context] == ["SM8750", 1, 4096, "SM8650", 1, 4096]'
check_equal "the same as the plan itself" "$(field '[.fits, (.chunks | length), .sessions, .npu_peak_bytes]' -c 4096)" \
    "$(jq -c '.socs[1].contexts[0] | [.fits, .chunks, .sessions, .npu_peak_bytes]' "$TMP/json")"

# --- data of the user ------------------------------------------------------------------------------------------------
export XDG_CONFIG_HOME=$TMP/xdg
mkdir -p "$XDG_CONFIG_HOME/ferry/soc.d" "$XDG_CONFIG_HOME/ferry/recipes.d"
echo '{"defaults": {"session_mb": 3576, "context_mb": 2861, "file_mb": 1907, "sessions": 2, "source": "measured here"},
    "socs": [{"name": "SM8650", "htp_arch": 75, "vtcm_mb": 8, "sessions": 1, "memory_mb": 8192},
    {"name": "MINE1", "htp_arch": 79, "vtcm_mb": 8, "sessions": 9, "memory_mb": 65536, "source": "measured here"}]}' >"$XDG_CONFIG_HOME/ferry/soc.d/mine.json"
echo '{"title": "all 8 bit", "type": "16a8w", "kv_bits": 8, "source": "mine"}' >"$XDG_CONFIG_HOME/ferry/recipes.d/mine.json"
plan --list-socs --json >"$TMP/json"
json "a chip of soc.d" '[.socs[] | select(.name == "MINE1")] == [.socs[] | select(.sessions == 9)]'
json "takes the place of ours as a whole" '[.socs[] | select(.name == "SM8650") | .sessions, .soc_id] == [1, null]'
check_status "and counts" 3 'has 1 on SM8650' plan "$llama" --soc SM8650
check_equal "a recipe of recipes.d" '"all 8 bit"' "$(plan "$llama" --soc MINE1 --recipe mine --json | jq .recipe.title)"
check_equal "and one from a file" '"all 8 bit"' "$(plan "$llama" --soc MINE1 --recipe "$XDG_CONFIG_HOME/ferry/recipes.d/mine.json" --json | jq .recipe.title)"
check_equal "--soc-table has no others" '["MINE1","SM8650"]' "$(plan --soc-table "$XDG_CONFIG_HOME/ferry/soc.d/mine.json" --list-socs --json | jq -c '[.socs[].name]')"
table() { # NAME PATTERN JSON
    echo "$3" >"$TMP/table.json"
    check_status "$1" 1 "$2" plan --list-socs --soc-table "$TMP/table.json"
}
table "a name that is there twice" 'table.json.*A1' '{"socs": [{"name": "A1", "htp_arch": 75, "source": "x"}, {"name": "a1", "htp_arch": 73, "source": "x"}]}'
table "a table that is cut short" 'table.json' '{"socs": [{"name": "A1", "htp_arch": 75'
table "no number" 'table.json.*htp_arch' '{"socs": [{"name": "A1", "htp_arch": "V75", "source": "x"}]}'
table "a negative one" 'table.json.*vtcm_mb' '{"socs": [{"name": "A1", "htp_arch": 75, "vtcm_mb": -8, "source": "x"}]}'
recipe() { # NAME PATTERN JSON
    echo "$3" >"$TMP/recipe.json"
    check_status "$1" 1 "$2" plan "$llama" --soc MINE1 --recipe "$TMP/recipe.json"
}
recipe "a type that is none" 'recipe.json.*q4_0' '{"title": "x", "type": "q4_0", "kv_bits": 8, "source": "x"}'
recipe "bits that no cache has" 'recipe.json.*kv_bits' '{"title": "x", "type": "16a4w", "kv_bits": 9, "source": "x"}'
recipe "two types for the same matrices" 'recipe.json' '{"title": "x", "type": "16a4w", "kv_bits": 8, "source": "x", "rules": [{"tensors": ["attn_v"], "type": "16a8w"}, {"tensors": ["attn_v"], "type": "8a4w"}]}'
unset XDG_CONFIG_HOME

# --- bad input -------------------------------------------------------------------------------------------------------
bad() { # NAME PATTERN OPTION...: exit status 2
    local name=$1 pattern=$2
    shift 2
    check_status "$name" 2 "$pattern" plan "$llama" --soc SM8650 "$@"
}
check_status "no chip" 2 'for which chip\? --soc NAME' plan "$llama"
check_status "no model" 2 'too few arguments; usage: ferry plan' plan --soc SM8650
check_status "an unknown chip has a neighbour" 2 "'SM8655'.*did you mean SM86" plan "$llama" --soc SM8655
check_status "an architecture that nobody has" 2 'V74|74' plan "$llama" --htp-arch 74
bad "no context" "ctx-size|'0'" -c 0
bad "a negative one" "ctx-size|'-5'" -c -5
bad "more than there is" "ctx-size|99999999999" -c 99999999999
bad "a batch of nothing" "--batch '0': no token at a time" --batch 0
bad "twice the same" "--batch '1,1': one number is there twice" --batch 1,1
bad "a negative batch" "--batch '-1': no list of numbers" --batch=-1
bad "no list" "--batch '128,,1': no list of numbers" --batch 128,,1
bad "an end that is none" "--batch '128,': no list of numbers" --batch 128,
bad "an absurd number" "--batch '1000000000000': a number is too large" --batch 1000000000000
bad "too many" "--batch '.*': too many numbers" --batch 1,2,3,4,5,6,7,8,9
bad "more chunks than layers" '1000 chunks of 32 layers' --chunks 1000
bad "more than may be" 'chunks' --chunks 100000
bad "a negative number of them" 'chunks' --chunks -1
bad "more layers than there are" '33' --layers 33
bad "bits that no cache has" "'4' is not one of 8\|16" --kv-bits 4
bad "no memory" 'memory' --memory 0
bad "a recipe that is none" "lpbq-33.*lpbq-32" --recipe lpbq-33
bad "VTCM of a chip that is known" '--vtcm goes with --htp-arch' --vtcm 8
bad "two chips" 'give one of them' --htp-arch 75
bad "a table for chips that are none" "nobody" --what-if=nobody
check_status "two lists" 2 'two lists' plan --list-socs --list-recipes
check_status "a list of a model" 2 'takes no model' plan --list-socs "$llama"
check_status "a recipe file that is not there" 1 'nowhere.json' plan "$llama" --soc SM8650 --recipe "$TMP/nowhere.json"
check_status "a model that is not there" 1 'nowhere.gguf' plan "$TMP/nowhere.gguf" --soc SM8650
check_status "a directory that is not a model" 1 'no config.json' plan "$TMP/xdg" --soc SM8650
head -c 20000 "$TMP/f16.gguf" >"$TMP/short.gguf"
check_status "a GGUF file that is cut short" 1 'short.gguf' plan "$TMP/short.gguf" --soc SM8650
head -c 3000000 "$TMP/f16.gguf" >"$TMP/short.gguf"
check_status "also after its header" 1 'short.gguf' plan "$TMP/short.gguf" --soc SM8650
check_status "a file of another kind" 1 'README.md' plan README.md --soc SM8650
check_status "a mixture of experts, by name" 1 'mixtral.*mixture of experts' plan tests/data/families/mixtral --soc SM8650
echo '{"architectures": ["Rwkv7ForCausalLM"], "model_type": "rwkv7", "hidden_size": 768, "num_hidden_layers": 12}' >"$TMP/config/config.json"
check_status "RWKV, by name" 1 "Rwkv7ForCausalLM" plan "$TMP/config" --soc SM8650
echo '{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 2000000000, "num_attention_heads": 32, "vocab_size": 32000, "intermediate_size": 11008}' >"$TMP/config/config.json"
check_status "more layers than any model has" 1 'config.*2000000000|config.*layers' plan "$TMP/config" --soc SM8650
"$FERRY" convert "$tales" --vocab-only -q -o "$TMP/vocab.gguf"
check_status "a vocabulary alone" 1 'vocab.gguf' plan "$TMP/vocab.gguf" --soc SM8650
check_status "a full disk" 6 'No space' bash -c '"$FERRY" plan "$0" --soc SM8650 >/dev/full' "$llama"
finish
