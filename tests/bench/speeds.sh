# shellcheck shell=bash
# What tests/bench/run.sh prints, measured: functions that print numbers. Sourced; $limits is what tests/bench/limits printed.
#   FERRY_BENCH_MODEL   a GGUF file, or a checkpoint directory, instead of random weights
#   FERRY_BENCH_DIR     where model files are kept (build/bench)
#   FERRY_BENCH_ROUNDS  how often each program is measured, in turns (3); the best counts
#   FERRY_PEER          the directory of llama.cpp's node package
ferry=build/ferry
build=${BUILD:-build/host/release}
work=${FERRY_BENCH_DIR:-build/bench}
rounds=${FERRY_BENCH_ROUNDS:-3}
limits=
n_prompt=256 n_long=4096 n_decode=48 decode_depth=32
mkdir -p "$work"

peer() { node tests/bench/peer.mjs "$@"; }
ferry_bench() { # FILE OPTION... -> lines of JSON
    $ferry bench -m "$@" -r 1 -o jsonl -q
}
best() { sort -g -r | head -1; }

# --- models ----------------------------------------------------------------------------------------------------------
model() { # NAME -> its file, made when it is not there
    local name=$1 file=$work/$1.gguf type=${1##*-} arch=llama more=() given=${FERRY_BENCH_MODEL-}
    case $name in
    moe-*) arch=qwen3moe ;;
    sparse-*) arch=sparsellama ;;
    lfm2-*) arch=lfm2 ;;
    qwen35-*) arch=qwen35 ;;
    rwkv7-*) arch=rwkv7 more=(--untied) ;;
    esac
    if [ -f "$given" ]; then
        file=$given
    elif [ -d "$given" ] && [ $arch = llama ]; then
        file=$work/$(basename "$given")-$type.gguf
        [ -f "$file" ] || $ferry convert "$given" --outtype "$type" -o "$file" -q
    elif [ ! -f "$file" ]; then
        "$build"/tests/bench/make_gguf "$file" --arch $arch --type "$type" "${more[@]}"
    fi
    echo "$file"
}

# --- rates -----------------------------------------------------------------------------------------------------------
# Tokens per second, and for decoding what the bandwidth measured beside it allows, and bytes per token.
our_rate() { # FILE TEST THREADS
    case $2 in
    prefill) ferry_bench "$1" -p $n_prompt -n 0 -t "$3" | jq -r '"\(.avg_ts) 0 0"' ;;
    long) ferry_bench "$1" -p $n_long -n 0 -t "$3" | jq -r '"\(.avg_ts) 0 0"' ;;
    decode) ferry_bench "$1" -p 0 -n $n_decode -d $decode_depth -t "$3" | jq -r '"\(.avg_ts) \(.avg_ts / .bandwidth_share) \(.bytes_per_token)"' ;;
    esac
}
peer_rate() { # FILE TEST THREADS
    case $2 in
    prefill) peer "$1" $n_prompt 0 1 "$3" | jq .pp_tok_s ;;
    long) peer "$1" $n_long 0 1 "$3" | jq .pp_tok_s ;;
    decode) peer "$1" $decode_depth $n_decode 1 "$3" | jq .tg_tok_s ;;
    esac
}
# The two programs in turns. Prints tokens per second of ours, of the peer (0 without one) and of what the limit allows, and
# the bytes that decoding a token reads.
measure() { # FILE TEST THREADS LIMIT
    local ours='' theirs='' allowed=0
    [ "$2" = decode ] || allowed=$(allowed_prefill "$1" "$(limit "$4" "$3")")
    for _ in $(seq "$rounds"); do
        ours+=$(our_rate "$1" "$2" "$3")$'\n'
        [ -z "${FERRY_PEER-}" ] || theirs+=$(peer_rate "$1" "$2" "$3")$'\n'
    done
    [ "$2" != decode ] || allowed=$(cut -d' ' -f2 <<<"$ours" | best)
    echo "$(cut -d' ' -f1 <<<"$ours" | best) $(best <<<"${theirs:-0}") $allowed"
}
limit() { # WHAT THREADS -> its rate in units of 1e9
    awk -v what="$1" -v n="$2" '$1 == what && $2 == n { print $3 }' <<<"$limits"
}
# Multiply-adds of a prompt's token: every matrix but those that the last one alone has: the embedding, the output, and of the
# last layer all but keys and values.
macs_per_token() { # FILE
    $ferry inspect "$1" --json 2>/dev/null | jq '
        (.metadata | to_entries | map(select(.key | test("expert_(used_)?count$"))) | map({(.key | sub("^.*expert_"; "")): .value}) | add) as $n
        | (.metadata | to_entries | map(select(.key | endswith(".block_count")))[0].value - 1) as $last
        | [.tensors[] | select((.shape | length) > 1 and (.name | startswith("blk.")))
           | select((.name | startswith("blk.\($last).") | not) or (.name | test("attn_[kv][.]")))
           | (.shape | reduce .[] as $d (1; . * $d)) * (if .name | test("_exps[.]") then $n.used_count / $n.count else 1 end)] | add'
}
allowed_prefill() { # FILE 1E9_PER_SECOND
    awk -v rate="$2" -v each="$(macs_per_token "$1")" 'BEGIN { print rate * 1e9 / each }'
}

# --- other numbers ---------------------------------------------------------------------------------------------------
# Decoding at 4096 positions : at 64, over what the bytes of the cache alone make of it.
depth_share() { # FILE
    $ferry bench -m "$1" -p 0 -n 16 -d 64,4096 -r "$rounds" -o jsonl -q |
        jq -s 'map({best: (.samples_ts | max), bytes: .bytes_per_token}) | .[1].best / .[0].best / (.[0].bytes / .[1].bytes)'
}
# The share of the bandwidth that decoding after 16384 positions takes, with keys and values of TYPE.
deep_share() { # FILE TYPE
    $ferry bench -m "$1" -p 0 -n 16 -d 16384 -ctk "$2" -ctv "$2" -r $((2 * rounds)) -o jsonl -q |
        jq '(.samples_ts | max) / .avg_ts * .bandwidth_share'
}
# The speed of a prompt of 4096 tokens over that of 256, in turns, best of the rounds.
long_prompt_share() { # FILE
    for _ in $(seq "$rounds"); do
        ferry_bench "$1" -p $n_prompt,$n_long -n 0
    done | jq -s --argjson n $n_long '(map(select(.n_prompt == $n).avg_ts) | max) / (map(select(.n_prompt != $n).avg_ts) | max)'
}
# The time per token of the last quarter of 32768 over that of the second: one thread, a window of 512, a small model.
window_ratio() {
    local file=$work/window.gguf
    [ -f "$file" ] || "$build"/tests/bench/make_gguf "$file" --arch mistral --window 512 --layers 4 --embd 1024 --ff 2048 --heads 16 \
        --heads-kv 4 --head-dim 64 --vocab 4096 --ctx 32768
    $ferry bench -m "$file" -p 8192 -n 0 -d 8192,24576 -t 1 -r "$rounds" --no-warmup -o jsonl -q | jq -s 'map(.samples_ns | min) | .[1] / .[0]'
}
# The time of a step of N tokens over that of one, in turns, best of the rounds.
step_ratio() { # FILE N
    for _ in $(seq "$rounds"); do
        $ferry bench -m "$1" -p "1,$2" -n 0 -r 3 -o jsonl -q
    done | jq -s '(map(select(.n_prompt != 1).samples_ns[]) | min) / (map(select(.n_prompt == 1).samples_ns[]) | min)'
}
# Tokens per second of N sequences that decode together, over those of one.
together_ratio() { # FILE N
    "$build"/tests/bench/engine_bench together "$1" "$2" "$rounds"
}
# Multiply-adds of attention alone over the f32 peak: a prompt of 4096.
attention_share() { # TYPE THREADS
    awk -v rate="$("$build"/tests/bench/engine_bench attention "$2" $((3 * rounds)) "$1")" -v peak="$(limit f32 "$2")" 'BEGIN { print rate / peak }'
}
# The share of AVX2's int8 peak that a prompt of 256 reaches with the kernels for it.
avx2_share() { # FILE THREADS
    local FY_CPU_MASK=1 peak
    export FY_CPU_MASK
    peak=$("$build"/tests/bench/limits | awk -v n="$2" '$1 == "int8" && $2 == n { print $3 }')
    [ -n "$peak" ] || { echo - && return; } # not an x86 processor
    for _ in $(seq "$rounds"); do
        our_rate "$1" prefill "$2"
    done | cut -d' ' -f1 | best | awk -v allowed="$(allowed_prefill "$1" "$peak")" '{ print $1 / allowed }'
}
ids() { seq -s, 100 $((99 + $1)); }
# MB of anonymous and shared memory at the peak, less the KV cache. (The pages of the file are the system's to drop.)
memory_beside() { # FILE
    local n_ctx=512 pid peak=0 now cache
    $ferry run -m "$1" --prompt-ids "$(ids $n_prompt)" -n 32 --ignore-eos -c $n_ctx -q >/dev/null 2>&1 &
    pid=$!
    while now=$(awk '/^Rss(Anon|Shmem)/ { sum += $2 } END { print sum }' /proc/$pid/status 2>/dev/null) && [ -n "$now" ]; do
        peak=$((now > peak ? now : peak))
        sleep 0.01
    done
    wait $pid
    cache=$($ferry inspect "$1" --json 2>/dev/null | jq --argjson n $n_ctx '.metadata | ."general.architecture" as $a
        | .[$a + ".block_count"] * .[$a + ".attention.head_count_kv"] * (.[$a + ".attention.key_length"] + .[$a + ".attention.value_length"]) * 2 * $n')
    awk -v kb=$peak -v cache="$cache" 'BEGIN { print (kb * 1024 - cache) / 1e6 }'
}
# Milliseconds of a process that computes one token, less one token of decoding.
start_ms() { # FILE
    local rate begin all=''
    rate=$(ferry_bench "$1" -p 0 -n 16 | jq .avg_ts)
    for _ in $(seq $((rounds + 2))); do
        begin=$(date +%s%N)
        $ferry run -m "$1" --prompt-ids 100 -n 1 --ignore-eos -q >/dev/null
        all+=$((($(date +%s%N) - begin) / 1000))$'\n'
    done
    awk -v us="$(sort -g <<<"$all" | grep . | head -1)" -v rate="$rate" 'BEGIN { print us / 1000 - 1000 / rate }'
}
device_binary_mb() {
    local file=build/aarch64/release/ferry
    if [ ! -f $file ] || readelf -l $file | grep -q INTERP; then
        echo - # not built, or not static
    else
        stat -Lc %s $file | awk '{ print $1 / 1e6 }'
    fi
}
