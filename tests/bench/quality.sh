#!/usr/bin/env bash
# What each type costs a small trained model: perplexity by line and by piece of a text it has not seen, KL divergence from
# the f32 file, and size. The importance matrix is collected on tales that the model told itself. Prints a table; the same
# numbers on every machine.
#   quality.sh [CHECKPOINT [TEXT]]      (tests/data/tales, tests/data/held.txt)
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh
ferry=build/ferry
checkpoint=${1:-tests/data/tales}
text=${2:-tests/data/held.txt}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
f32=$work/f32.gguf imatrix=$work/imatrix.gguf

$ferry convert "$checkpoint" --outtype f32 -o "$f32" -q
for seed in $(seq 64); do
    $ferry run -m "$f32" -p 'One day' -n 200 --temp 1 --seed "$seed" -q
    echo
done >"$work/tales.txt"
$ferry eval -m "$f32" --text "$work/tales.txt" --imatrix-out "$imatrix" -q >/dev/null
$ferry eval -m "$f32" --text "$text" --kl-save "$work/base" -q >/dev/null

printf '%-24s %8s %9s %9s %9s %9s\n' type MB 'by line' 'by piece' 'KL' 'top-1'
row() { # NAME FILE
    local lines pieces kl top
    lines=$($ferry eval -m "$2" --text "$text" --lines --json -q | jq .perplexity)
    $ferry eval -m "$2" --text "$text" --kl-base "$work/base" --json -q >"$work/kl.json"
    pieces=$(jq .perplexity "$work/kl.json") kl=$(jq .kl_divergence.mean "$work/kl.json") top=$(jq .same_top "$work/kl.json")
    awk -v n="$1" -v b="$(stat -c %s "$2")" -v l="$lines" -v p="$pieces" -v k="$kl" -v t="$top" 'BEGIN {
        printf "%-24s %8.3f %9.4f %9.4f %9.5f %8.2f%%\n", n, b / 1e6, l, p, k, 100 * t }'
}
row f32 "$f32"
quantized() { # NAME TYPE OPTION...
    local name=$1
    shift
    $ferry quantize "$f32" "$work/q.gguf" "$@" --resume=no -q
    row "$name" "$work/q.gguf"
}
quantized q8_0 q8_0
quantized q6_K q6_K
quantized q5_K q5_K
quantized q4_K q4_K
quantized 'q4_K --imatrix' q4_K --imatrix "$imatrix"
quantized q4_0 q4_0
quantized 'q4_0 --fit' q4_0 --fit
quantized 'q4_0 --imatrix' q4_0 --imatrix "$imatrix"
quantized 'q4_0 --imatrix --fit' q4_0 --imatrix "$imatrix" --fit
quantized 'q4_0 --recipe llama' q4_0 --recipe llama
