#!/usr/bin/env bash
# The server against its bars: speed as ratios to llama-server (FERRY_PEER_SERVER) and to the engine alone, time to the first
# token, what the cache saves, and what the server itself costs. docs/measuring.md describes rows and variables.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh
# shellcheck source=tests/bench/speeds.sh
. tests/bench/speeds.sh
all_rows='one one-engine four sixteen sixteen-one first-one first-sixteen gap cached-slot cached-running cached-ram schema
cost tales slot-idle slot-running connection memory idle start binary'
load=$build/tests/bench/serve_load
threads=$(nproc)
peer=${FERRY_PEER_SERVER-}
tmp=$(mktemp -d)
servers=()
end() {
    [ ${#servers[@]} = 0 ] || kill "${servers[@]}" 2>/dev/null || true
    wait
    rm -rf "$tmp"
}
trap end EXIT

# --- servers ---------------------------------------------------------------------------------------------------------
# Starts a server on a port of its own and waits until it answers; sets $port and $pid.
start() { # COMMAND...
    port=$((20000 + RANDOM % 12000))
    "$@" --port $port >"$tmp/log" 2>&1 &
    pid=$!
    servers+=("$pid")
    "$load" "$port" wait "$pid" || { tail -3 "$tmp/log" >&2 && exit 1; }
}
start_ferry() { # FILE SLOTS POSITIONS OPTION...
    start $ferry serve -m "$1" -np "$2" -c "$3" -t "$threads" "${@:4}"
}
start_peer() { # FILE SLOTS POSITIONS
    # shellcheck disable=SC2086
    start $peer -m "$1" -np "$2" -c $(($2 * $3)) -t "$threads"
}
stop() {
    kill "${servers[@]}"
    wait "${servers[@]}" || true
    servers=()
}
each() { jq -s "map($1) | $2"; } # JSON lines: the best of a member

# --- streams ---------------------------------------------------------------------------------------------------------
# Both servers in turns, the streams of the rows once for all of them: $tmp/ours.N, $tmp/theirs.N.
streams() { # CLIENTS
    local ours theirs=0 i slots=$(($1 < 4 ? 4 : $1)) file
    [ ! -f "$tmp/ours.$1" ] || return 0
    file=$(model q4_0)
    start_ferry "$file" "$slots" 1024 && ours=$port
    [ -z "$peer" ] || { start_peer "$file" "$slots" 1024 && theirs=$port; }
    for ((i = 1; i <= rounds; i++)); do
        "$load" "$ours" clients "$1" seed "$i" >>"$tmp/ours.$1"
        [ $theirs = 0 ] || "$load" "$theirs" clients "$1" seed "$i" >>"$tmp/theirs.$1"
    done
    touch "$tmp/theirs.$1"
    stop
}
# NAME CLIENTS MEMBER BEST BAR UNIT WORDS: the bar is a ratio to llama-server, at least where `max` is best.
streams_row() {
    streams "$2"
    row_of "$1" "$(each ".$3" "$4" <"$tmp/ours.$2")" "$(each ".$3" "$4" <"$tmp/theirs.$2")" "$5" "$4" "$6" "$7"
}
# NAME OURS THEIRS RATIO BEST UNIT WORDS
row_of() {
    awk -v name="$1" -v ours="$2" -v theirs="$3" -v bar="$4" -v best="$5" -v unit="$6" -v words="$7" 'BEGIN {
        peer = theirs != "null" && theirs != "-"
        ratio = peer ? ours / theirs : 0
        printf "%-15s %10.2f %10s %6s %7s  %-44s %s\n", name, ours, (peer ? sprintf("%.2f", theirs) : "-"),
            (peer ? sprintf("%.2f", ratio) : "-"), (best == "max" ? ">= " : "<= ") (bar ""), unit " " words,
            (!peer ? "-" : (best == "max" ? ratio >= bar : ratio <= bar) ? "ok" : "below") }'
}
# NAME VALUE BAR UNIT WORDS: at most BAR, at least for a negative one
value_row() {
    awk -v name="$1" -v value="$2" -v bar="$3" -v words="$4" 'BEGIN {
        printf "%-15s %10s %10s %6s %7s  %-44s %s\n", name, (value == "-" ? "-" : sprintf("%.2f", value)), "", "",
            (bar < 0 ? ">= " (-bar) : "<= " (bar + 0)), words,
            value == "-" ? "-" : (bar < 0 ? value >= -bar : value <= bar + 0) ? "ok" : "below" }'
}

# --- ratios to the engine and to the server itself ---------------------------------------------------------------------
one_engine() { # -> the rate of one stream over that of `ferry bench` tg128
    local i file server='' engine=''
    file=$(model q4_0)
    start_ferry "$file" 4 1024
    for ((i = 1; i <= rounds; i++)); do
        server+=$("$load" "$port" prompt 1 seed "$i" predict 129 | jq .decode_rate)$'\n'
        engine+=$(ferry_bench "$file" -p 0 -n 128 -t "$threads" | jq .avg_ts)$'\n'
    done
    stop
    awk -v a="$(best <<<"$server")" -v b="$(best <<<"$engine")" 'BEGIN { print a / b }'
}
sixteen_one() { # -> tokens/s of 16 clients over those of one
    streams 1
    streams 16
    awk -v a="$(each .rate max <"$tmp/ours.16")" -v b="$(each .rate max <"$tmp/ours.1")" 'BEGIN { print a / b }'
}
gap() { # -> ms
    local i
    start_ferry "$(model q4_0)" 4 2560
    for ((i = 1; i <= rounds; i++)); do
        "$load" "$port" clients 3 prompt 32 seed "$i" newcomer 2048
    done | each .gap_ms min
    stop
}
schema_ratio() { # -> decoding held to a schema over decoding freely
    local i free='' held='' schema
    start_ferry "$(model q4_0)" 4 1024
    schema='"json_schema":{"type":"array","minItems":99,"items":{"type":"object","required":["name","age","tags"],"properties":{
        "name":{"type":"string"},"age":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}}}}'
    for ((i = 1; i <= rounds; i++)); do
        free+=$("$load" "$port" prompt 32 seed "$i" | jq .decode_rate)$'\n'
        held+=$("$load" "$port" prompt 32 seed "$i" members "$schema" | jq .decode_rate)$'\n'
    done
    stop
    awk -v a="$(best <<<"$held")" -v b="$(best <<<"$free")" 'BEGIN { print a / b }'
}

# --- the cache -------------------------------------------------------------------------------------------------------
known() { "$load" "$port" prompt 1536 predict "${3:-1}" same "$2" of "$1" seed $RANDOM; } # OF N [PREDICT]
compute_36_ms() { # -> ms of 36 ids after 1500, by the engine
    ferry_bench "$(model q4_0)" -p 36 -n 0 -d 1500 -t "$threads" | jq '36e3 / .avg_ts'
}
ratio_of() { awk -v a="$(grep . <<<"$1" | sort -g | head -1)" -v b="$(grep . <<<"$2" | sort -g | head -1)" 'BEGIN { print a / b }'; }
cached_slot() {
    local i cached='' base=''
    for ((i = 1; i <= rounds; i++)); do
        start_ferry "$(model q4_0)" 2 2048
        known "$i" 1536 >/dev/null
        for _ in 1 2 3; do cached+=$(known "$i" 1500 | jq .ttft_ms)$'\n'; done
        stop
        for _ in 1 2 3; do base+=$(compute_36_ms)$'\n'; done
    done
    ratio_of "$cached" "$base"
}
# From a slot whose answer goes on: compared with a prompt that is in its own slot, beside the same answer.
cached_running() {
    local i cached='' base='' company said
    start_ferry "$(model q4_0)" 2 2560
    for ((i = 1; i <= rounds; i++)); do
        known "1$i" 1536 >/dev/null
        said=$("$load" "$port" said)
        known "2$i" 1536 150 >/dev/null &
        company=$!
        while [ "$("$load" "$port" said)" -le "$said" ]; do sleep 0.1; done
        base+=$(known "1$i" 1500 | jq .ttft_ms)$'\n'
        cached+=$(known "2$i" 1500 | jq .ttft_ms)$'\n'
        wait $company
    done
    stop
    ratio_of "$cached" "$base"
}
cached_ram() {
    local i cached='' base=''
    start_ferry "$(model q4_0)" 1 2048 --cache-ram 1G
    for ((i = 1; i <= rounds; i++)); do
        known "$i" 1536 >/dev/null
        known "9$i" 600 >/dev/null # it takes the slot
        cached+=$(known "$i" 1500 | jq .ttft_ms)$'\n'
        base+=$(compute_36_ms)$'\n'
    done
    stop
    ratio_of "$cached" "$base"
}

# --- what the server costs ---------------------------------------------------------------------------------------------
tales() {
    [ -f "$work/tales.gguf" ] || $ferry convert tests/data/tales --outtype q8_0 -o "$work/tales.gguf" -q
    echo "$work/tales.gguf"
}
small=(vocab 768 prompt 1 predict 230)
# Microseconds of CPU time that a token of 16 streams takes beside the engine, which one thread computes.
cost_us() {
    local i all='' file threads=1
    file=$(tales)
    start_ferry "$file" 16 256
    for ((i = 1; i <= 2 * rounds; i++)); do
        all+=$("$load" "$port" clients 16 "${small[@]}" seed "$i" pid "$pid" | jq .cpu_us_per_token)$'\n'
    done
    stop
    awk -v all="$(grep . <<<"$all" | sort -g | head -1)" -v engine="$("$build"/tests/bench/engine_bench alone "$file" 16 230 $((2 * rounds)))" \
        'BEGIN { print all - engine }'
}
tales_streams() {
    local i ours theirs=0 file
    file=$(tales)
    start_ferry "$file" 16 256 && ours=$port
    [ -z "$peer" ] || { start_peer "$file" 16 256 && theirs=$port; }
    for ((i = 1; i <= rounds; i++)); do
        "$load" "$ours" clients 16 "${small[@]}" seed "$i" >>"$tmp/ours.tales"
        [ $theirs = 0 ] || "$load" "$theirs" clients 16 "${small[@]}" seed "$i" >>"$tmp/theirs.tales"
    done
    touch "$tmp/theirs.tales"
    stop
}

# --- memory ------------------------------------------------------------------------------------------------------------
# A vocabulary as large as the 1B's, and nothing else.
slim() {
    [ -f "$work/slim.gguf" ] || "$build"/tests/bench/make_gguf "$work/slim.gguf" --type q4_0 --layers 2 --embd 256 --ff 512 --heads 4 \
        --heads-kv 2 --head-dim 64 >&2
    echo "$work/slim.gguf"
}
slim_cache_kb=1 # of a position: 2 layers x 2 heads x 64 x keys and values x 2 bytes
anonymous_kb() { awk '/^Rss(Anon|Shmem)/ { sum += $2 } END { print sum + 0 }' "/proc/$1/status" 2>/dev/null; }
# RssAnon of the server while a command runs, at its peak.
peak_kb() { # COMMAND...
    local peak=0 now job
    "$@" >/dev/null &
    job=$!
    while kill -0 $job 2>/dev/null; do
        now=$(anonymous_kb "$pid")
        peak=$((now > peak ? now : peak))
        sleep 0.01
    done
    wait $job
    echo "$peak"
}
slot_kb() { # idle|running -> KB of each slot but its cache: of 64 slots and of 4
    local n kb=()
    for n in 4 64; do
        start_ferry "$(slim)" $n 160 --cache-ram 0
        if [ "$1" = idle ]; then
            kb+=("$(anonymous_kb "$pid")")
        else
            kb+=($(($(peak_kb "$load" "$port" clients $n prompt 128 predict 32) - n * 160 * slim_cache_kb)))
        fi
        stop
    done
    awk -v a="${kb[0]}" -v b="${kb[1]}" 'BEGIN { print (b - a) / 60 }'
}
connection_kb() {
    local before after
    start_ferry "$(slim)" 4 160
    "$load" "$port" predict 8 prompt 32 >/dev/null
    before=$(anonymous_kb "$pid")
    coproc HOLD { "$load" "$port" hold 200; }
    read -r -u "${HOLD[0]}" _
    after=$(anonymous_kb "$pid")
    eval "exec ${HOLD[1]}>&-"
    wait "$HOLD_PID" || true
    stop
    awk -v a="$before" -v b="$after" 'BEGIN { print (b - a) / 200 }'
}
# MB of the server's peak beyond that of `ferry run` with the same prompt; its answer is held to a grammar.
memory_mb() {
    local file run server
    file=$(model q4_0)
    $ferry run -m "$file" --prompt-ids "$(ids 256)" -n 32 --ignore-eos -c 512 -q >/dev/null 2>&1 &
    pid=$!
    run=0
    while kill -0 $pid 2>/dev/null; do
        server=$(anonymous_kb $pid)
        run=$((server > run ? server : run))
        sleep 0.01
    done
    start_ferry "$file" 1 512
    server=$(peak_kb "$load" "$port" prompt 256 predict 32 members '"grammar":"root ::= [a-z0-9 ]*"')
    stop
    awk -v a="$run" -v b="$server" 'BEGIN { print (b - a) / 1024 }'
}

# --- at rest, and the start ----------------------------------------------------------------------------------------------
switches() { cat /proc/"$pid"/task/*/status | awk '/^voluntary/ { sum += $2 } END { print sum }'; }
ticks() { awk '{ print $14 + $15 }' "/proc/$pid/stat"; }
idle() { # -> ticks and voluntary context switches in 10 s
    local before
    start_ferry "$(tales)" 4 256
    "$load" "$port" clients 4 "${small[@]}" >/dev/null
    sleep 3
    before="$(ticks) $(switches)"
    sleep 10
    echo "$before $(ticks) $(switches)" | awk '{ print $3 - $1 + $4 - $2 }'
    stop
}
start_beyond_ms() { # -> ms from the start to /health, less the load of the model
    local file begin server='' run='' rate i
    file=$(model q4_0)
    rate=$(ferry_bench "$file" -p 0 -n 16 | jq .avg_ts)
    for ((i = 0; i < rounds + 2; i++)); do
        port=$((20000 + RANDOM % 12000))
        server+=$("$load" "$port" start $ferry serve -m "$file" -c 512 --port "$port" 2>/dev/null)$'\n'
        begin=$(date +%s%N)
        $ferry run -m "$file" --prompt-ids 100 -n 1 --ignore-eos -c 512 -q >/dev/null 2>&1
        run+=$((($(date +%s%N) - begin) / 1000))$'\n'
    done
    awk -v server="$(grep . <<<"$server" | sort -g | head -1)" -v us="$(grep . <<<"$run" | sort -g | head -1)" -v rate="$rate" \
        'BEGIN { print server - (us / 1000 - 1000 / rate) }'
}

row() { # NAME
    case $1 in
    one) streams_row one 1 rate max 1.20 tokens/s 'of one client' ;;
    one-engine) value_row one-engine "$(one_engine)" -0.97 "of ferry bench tg128" ;;
    four) streams_row four 4 rate max 1.35 tokens/s 'of 4 clients' ;;
    sixteen) streams_row sixteen 16 rate max 1.5 tokens/s 'of 16 clients' ;;
    sixteen-one) value_row sixteen-one "$(sixteen_one)" -2.5 "16 clients' tokens/s over one's" ;;
    first-one) streams_row first-one 1 ttft_ms min 0.62 ms 'to the first token, 256 ids' ;;
    first-sixteen) streams_row first-sixteen 16 ttft_ms min 0.7 ms 'to the first token, 16 clients, p50' ;;
    gap) value_row gap "$(gap)" 250 'ms, longest gap beside a prompt of 2048 ids' ;;
    cached-slot) value_row cached-slot "$(cached_slot)" 1.1 'of computing 36 ids: 1500 of 1536 in the slot' ;;
    cached-running) value_row cached-running "$(cached_running)" 1.2 'the same, in a slot that goes on' ;;
    cached-ram) value_row cached-ram "$(cached_ram)" 1.5 'the same, in --cache-ram' ;;
    schema) value_row schema "$(schema_ratio)" -0.97 'decoding with a JSON schema over without' ;;
    cost) value_row cost "$(cost_us)" 25 'us of CPU per token beside the engine, tales' ;;
    tales)
        tales_streams
        row_of tales "$(each .rate max <"$tmp/ours.tales")" "$(each .rate max <"$tmp/theirs.tales")" 3 max tokens/s 'of 16 clients, tales'
        ;;
    slot-idle) value_row slot-idle "$(slot_kb idle)" 64 'KB of an idle slot beside its cache' ;;
    slot-running) value_row slot-running "$(slot_kb running)" 2048 'KB of a running slot beside its cache' ;;
    connection) value_row connection "$(connection_kb)" 8 'KB of an idle connection' ;;
    memory) value_row memory "$(memory_mb)" 6 "MB beyond ferry run's, grammar included" ;;
    idle) value_row idle "$(idle)" 0 'CPU ticks and wakeups in 10 s' ;;
    start) value_row start "$(start_beyond_ms)" 30 'ms to /health beyond the load of the model' ;;
    binary) value_row binary "$(device_binary_mb)" 3.6 'MB, static arm64 program' ;;
    *) echo "no row '$1'; there are: $(xargs <<<"$all_rows")" >&2 && exit 2 ;;
    esac
}

lscpu | sed -n 's/^Model name: */cpu: /p'
$ferry --version | head -1
# shellcheck disable=SC2086
if [ -n "$peer" ]; then $peer --version; else echo 'no peer was given (FERRY_PEER_SERVER): ratios to llama-server are left out'; fi
echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) processors, $threads threads; best of $rounds"
printf '\n%-15s %10s %10s %6s %7s  %-44s %s\n' row ferry llama ratio bar 'which is' verdict
for name in ${ROWS:-$all_rows}; do
    row "$name"
done
