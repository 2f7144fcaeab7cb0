#!/usr/bin/env bash
# Usage: tests/fuzz/run.sh SECONDS NAME...   Fuzzes each parser for so long; what it finds is kept beside the logs.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=$1
shift
for name in "$@"; do
    work=build/fuzz/$name
    mkdir -p "$work/corpus" tests/fuzz/corpus/"$name"
    echo "fuzz $name for $seconds s"
    build/host/fuzz/fuzz/fuzz_"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="$work/" -print_final_stats=1 "$work/corpus" tests/fuzz/corpus/"$name" >"$work/log" 2>&1 || {
        tail -40 "$work/log"
        exit 1
    }
    grep -E 'stat::number_of_executed_units' "$work/log"
done
