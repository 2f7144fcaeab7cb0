#!/usr/bin/env bash
# Speed as ratios inside one run: each row against its bar, which is a ratio to llama.cpp (FERRY_PEER) or a share of a limit
# of this machine. docs/measuring.md describes rows, columns and variables; tests/bench/speeds.sh measures.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh
# shellcheck source=tests/bench/speeds.sh
. tests/bench/speeds.sh

# NAME MODEL TEST THREADS RULE RATIO LIMIT SHARE: the bar is RATIO of llama.cpp's rate and SHARE of what the limit allows,
# the lower of both or the higher; a 0 is no bar, and a row without one is information. SHARE `most` is 0.70 with AVX-512's
# vpdpbusd, 0.60 elsewhere.
speed_rows='
decode-q4_0       q4_0        decode  all lower  1.25 read 0.85
decode-q8_0       q8_0        decode  all lower  1.5  read 0.90
prefill-q4_0      q4_0        prefill all higher 1.7  int8 most
prefill-q8_0      q8_0        prefill all higher 1.7  int8 most
prefill-f16       f16         prefill all higher 1    f32  0
prefill-bf16      bf16        prefill all higher 1    f32  0
prefill-q4_K      q4_K        prefill all higher 1    int8 0
prefill-q6_K      q6_K        prefill all higher 1    int8 0
decode-q4_0-1t    q4_0        decode  1   lower  1.25 read 0.85
decode-q8_0-1t    q8_0        decode  1   lower  1.5  read 0.90
prefill-q4_0-1t   q4_0        prefill 1   higher 1.7  int8 most
prefill-q8_0-1t   q8_0        prefill 1   higher 1.7  int8 most
long-q4_0         q4_0        long    all higher 2    int8 0
long-q8_0         q8_0        long    all higher 2    int8 0
decode-moe        moe-q4_0    decode  all lower  0    read 0
prefill-moe       moe-q4_0    prefill all lower  0    int8 0
decode-sparse     sparse-q4_0 decode  all lower  0    read 0
prefill-sparse    sparse-q4_0 prefill all lower  0    int8 0
decode-lfm2       lfm2-q4_0   decode  all lower  1.25 read 0
prefill-lfm2      lfm2-q4_0   prefill all higher 1.5  int8 0
decode-qwen35     qwen35-q4_0 decode  all lower  1.25 read 0
prefill-qwen35    qwen35-q4_0 prefill all higher 1.5  int8 0
decode-rwkv7      rwkv7-q4_0  decode  all lower  1.25 read 0.85
prefill-rwkv7     rwkv7-q4_0  prefill all higher 1.5  int8 0
decode-rwkv7-q8_0 rwkv7-q8_0  decode  all lower  1.25 read 0.85
prefill-rwkv7-q8_0 rwkv7-q8_0 prefill all higher 1.5  int8 0
'
# Steps of N tokens: the time that N may take of the time of one, of q4_0 and of q8_0.
step_bars='
2 1.15 1.05
4 1.35 1.2
8 1.8 1.4
16 2.6 2.0
'
other_rows='prefill-q4_0-avx2 prefill-q8_0-avx2 step-2 step-4 step-8 step-16 step-2-q8_0 step-4-q8_0 step-8-q8_0 step-16-q8_0
together attention attention-q8_0 attention-q4_0 long-prompt long-prompt-q8_0 window depth deep deep-q8_0 deep-q4_0
memory start binary kernels sampling'

type_of() { # FILE -> the commonest type of its matrices
    ferry_bench "$1" -p 1 -n 0 -t 1 --no-warmup | jq -r '.model_type | split(" ") | last | ascii_downcase'
}
rows_of_file() { # FILE: the rows that a given file can be measured by
    awk -v type="$(type_of "$1")" 'tolower($2) == type { print $1 }' <<<"$speed_rows"
    echo depth memory start
}

header() {
    lscpu | sed -n 's/^Model name: */cpu: /p'
    $ferry --version | head -1
    [ -z "${FERRY_PEER-}" ] || peer --version
    echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) processors; best of $rounds"
    echo "$limits"
    printf '\n%-18s %9s %9s %6s %7s %9s  %-32s %s\n' row ferry llama.cpp ratio limit bar 'which is' verdict
}

speed_row() { # NAME MODEL TEST THREADS RULE RATIO LIMIT SHARE
    local name=$1 test=$3 threads=$4 share=$8 file ours theirs allowed bytes
    [ "$threads" != all ] || threads=$all_threads
    [ "$share" != most ] || share=$(grep -q 'vpdpbusd zmm' <<<"$limits" && echo 0.70 || echo 0.60)
    file=$(model "$2")
    read -r ours theirs allowed bytes < <(measure "$file" "$test" "$threads" "$7")
    awk -v name="$name" -v ours="$ours" -v theirs="$theirs" -v allowed="$allowed" -v rule="$5" -v ratio="$6" -v limit="$7" -v share="$share" -v bytes="$bytes" '
        BEGIN {
            peer = theirs > 0
            by_peer = ratio * theirs; by_limit = share * allowed
            bar = by_peer == 0 ? by_limit : by_limit == 0 ? by_peer : (rule == "lower") == (by_peer < by_limit) ? by_peer : by_limit
            if (peer && ratio > 0) words = sprintf("%.2f x llama.cpp", ratio)
            if (words != "" && share > 0) words = words (rule == "lower" ? " or " : " and ")
            if (share > 0) words = words sprintf("%.0f %% of %s", 100 * share, limit)
            if (words == "") words = ratio > 0 ? "none without llama.cpp" : bytes > 0 ? sprintf("%.0f MB per token", bytes / 1e6) : "information"
            verdict = bar == 0 ? "-" : ours < bar ? "below" : "ok"
            printf "%-18s %9.1f %9s %6s %5.0f %% %9s  %-32s %s\n", name, ours, (peer ? sprintf("%.1f", theirs) : "-"),
                (peer ? sprintf("%.2f", ours / theirs) : "-"), 100 * ours / allowed, (bar == 0 ? "-" : sprintf("%.1f", bar)),
                words, verdict
        }'
}

value_row() { # NAME VALUE BAR UNIT WORDS: at most BAR is ok, at least for a negative BAR
    awk -v name="$1" -v value="$2" -v bar="$3" -v unit="$4" -v words="$5" 'BEGIN {
        verdict = value == "-" ? "-" : (bar < 0 ? value >= -bar : value <= bar + 0) ? "ok" : "below"
        printf "%-18s %9s %9s %6s %7s %9s  %-32s %s\n", name, (value == "-" ? "-" : sprintf("%.2f", value)), "", "", "",
            sprintf("%g %s", (bar < 0 ? -bar : bar), unit), words, verdict }'
}

step_row() { # NAME
    local n type=q4_0 column=2
    n=$(cut -d- -f2 <<<"$1")
    [ "${1%-q8_0}" = "$1" ] || { type=q8_0 && column=3; }
    value_row "$1" "$(step_ratio "$(model $type)" "$n")" \
        "$(awk -v n="$n" -v column=$column '$1 == n { print $column }' <<<"$step_bars")" '' 'of the time of one token'
}

row() { # NAME
    local spec cache=f16
    [ "${1##*-}" = "$1" ] || cache=${1##*-}
    case $1 in
    depth) value_row depth "$(depth_share "$(model q4_0)")" -0.90 '' 'of what bytes alone allow' ;;
    prefill-*-avx2) value_row "$1" "$(avx2_share "$(model "$(cut -d- -f2 <<<"$1")")" "$all_threads")" -0.60 '' "of AVX2's int8 peak" ;;
    step-*) step_row "$1" ;;
    together) value_row together "$(together_ratio "$(model q4_0)" 16)" -3.5 x 'tokens/s of one sequence' ;;
    attention*) value_row "$1" "$(attention_share "$cache" "$all_threads")" -0.60 '' "of the f32 peak, cache $cache" ;;
    long-prompt) value_row long-prompt "$(long_prompt_share "$(model q4_0)")" -0.60 '' 'of the speed of 256 tokens' ;;
    long-prompt-q8_0) value_row "$1" "$(long_prompt_share "$(model q8_0)")" -0.60 '' 'of the speed of 256 tokens' ;;
    window) value_row window "$(window_ratio)" 1.05 '' 'last quarter to second' ;;
    deep*) value_row "$1" "$(deep_share "$(model q4_0)" "$cache")" -0.95 '' "of the bandwidth, cache $cache" ;;
    memory) value_row memory "$(memory_beside "$(model q4_0)")" 64 MB 'beside file and KV cache' ;;
    start) value_row start "$(start_ms "$(model q4_0)")" 50 ms 'first token less decoding' ;;
    binary) value_row binary "$(device_binary_mb)" 3.6 MB 'static arm64 program' ;;
    kernels) "$build"/tests/kcheck/kcheck --bench ;;
    sampling) "$build"/tests/bench/sample_bench ;;
    *)
        spec=$(awk -v name="$1" '$1 == name' <<<"$speed_rows")
        [ -n "$spec" ] || { echo "no row '$1'; there are: $(all_rows)" >&2 && exit 2; }
        # shellcheck disable=SC2086
        speed_row $spec
        ;;
    esac
}
all_rows() {
    echo "$(awk '{ print $1 }' <<<"$speed_rows")" "$other_rows" | xargs
}

if [ -n "${ROWS-}" ]; then
    rows=$ROWS
elif [ -f "${FERRY_BENCH_MODEL-}" ]; then
    rows=$(rows_of_file "$FERRY_BENCH_MODEL")
elif [ -d "${FERRY_BENCH_MODEL-}" ]; then
    rows=$(all_rows | xargs -n1 | grep -v _K) # which convert does not write
else
    rows=$(all_rows)
fi
limits=$("$build"/tests/bench/limits)
all_threads=$(awk '$1 == "read" { n = $2 } END { print n }' <<<"$limits")
header
for name in $rows; do
    row "$name"
done
