# shellcheck shell=bash
# Helpers for tests written in bash, which print TAP. Sourced; run with cwd = repository root.
#   FERRY       the program under test (default build/ferry)
#   FERRY_ARM   the arm64 program with its emulator
#   REAL        third-party data: $FERRY_REAL, else ../shared/real; may be absent
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh
FERRY=${FERRY:-build/ferry}
FERRY_ARM=${FERRY_ARM:-qemu-aarch64 build/aarch64/release/ferry}
REAL=${FERRY_REAL:-../shared/real}
export FERRY FERRY_ARM REAL
TMP=$(mktemp -d)
export XDG_STATE_HOME=$TMP/state # what ferry remembers
trap 'rm -rf "$TMP"' EXIT
t_count=0 t_failed=0

ok() { # NAME
    t_count=$((t_count + 1))
    echo "ok $t_count - $1"
}
not_ok() { # NAME [DETAIL]
    t_count=$((t_count + 1))
    t_failed=$((t_failed + 1))
    echo "not ok $t_count - $1"
    [ -z "${2-}" ] || printf '# %s\n' "${2//$'\n'/$'\n'# }" >&2
}
skip() { # NAME REASON
    t_count=$((t_count + 1))
    echo "ok $t_count - $1 # SKIP $1: $2"
}
# check NAME COMMAND...: passes when the command succeeds; its output is shown when it does not.
check() {
    local name=$1 out
    shift
    if out=$("$@" 2>&1); then ok "$name"; else not_ok "$name" "$* -> $? : $out"; fi
}
# check_status NAME STATUS PATTERN COMMAND...: exit status and a pattern of its stderr.
check_status() {
    local name=$1 want=$2 pattern=$3 status=0 err
    shift 3
    err=$("$@" 2>&1 >/dev/null) || status=$?
    if [ "$status" -eq "$want" ] && grep -qE -- "$pattern" <<<"$err"; then
        ok "$name"
    else
        not_ok "$name" "exit $status, wanted $want; stderr: $err; wanted: $pattern"
    fi
}
check_equal() { # NAME WANT GOT
    if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "wanted: $2"$'\n'"got:    $3"; fi
}
# make_package DIR WEIGHTS MODEL_JSON: a model for the NPU as PowerServe publishes them, its binaries random.
make_package() {
    local qnn=$1/qnn layers heads bytes l h
    mkdir -p "$qnn/kv" "$1/ggml"
    cp "$2" "$1/ggml/weights.gguf"
    jq -n --slurpfile m "$3" '$m[0].llm_config as $l | {
        model_parameters: {n_layers: $l.n_layers, vocab_size: $l.vocab_size, embed_dim: $l.embed_dim, ffn_hidden_dim: $l.ffn_dim,
            head_dim: $l.head_size, n_kv_heads: $l.n_attn_kv_heads, rope_theta: 1e4, rms_norm_eps: 1e-5, attention_mask_value: -50000},
        qnn_parameters: {n_hvx_threads: 4},
        graphs: [1, 128 | {type: "transformers", graph_name: "batch_\(.)", start_layer_id: 0, end_layer_id: $l.n_layers, batch_size: .,
            cache_size: 1920, context_size: 2048, model_path: "tales_0.bin", kv_size: 11, x_name: "x", out_name: "out",
            kv_path_format: "kv/layer_{layer_id}_{kv_type}_{head_id}.raw"}],
        embeddings: [1, 128 | {graph_name: "batch_\(.)", model_path: "lm_head.bin", batch_size: ., x_name: "x", out_name: "logits"}]
        }' >"$qnn/config.json"
    read -r layers heads bytes < <(jq -r '.llm_config | "\(.n_layers) \(.n_attn_kv_heads) \(.head_size * 11 * 4)"' "$3")
    for ((l = 0; l < layers; l++)); do
        for ((h = 0; h < heads; h++)); do
            head -c "$bytes" /dev/urandom >"$qnn/kv/layer_${l}_key_$h.raw"
            head -c "$bytes" /dev/urandom >"$qnn/kv/layer_${l}_value_$h.raw"
        done
    done
    head -c 300000 /dev/urandom >"$qnn/tales_0.bin"
    head -c 100000 /dev/urandom >"$qnn/lm_head.bin"
}
# A test waits for what it needs, never for a time: a machine may be slow, or stand still.
# wait_for SECONDS COMMAND...: until it is true. The limit is for what never comes; a long one costs nothing.
wait_for() {
    local until=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.05
    done
}
is_gone() { ! kill -0 "$1" || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; } 2>/dev/null # PID
hears_signals() { # PID: ferry is started, and has its handlers, the last of them included
    [ "$(cat "/proc/$1/comm")" = ferry ] &&
        [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status") & 0x4042)) -eq $((0x4042)) ]
}
took_signal() { ! grep -qE '^(Sig|Shd)Pnd:.*[1-9a-f]' "/proc/$1/status"; } # PID: what was sent is delivered
computing_ms() { # PID: sets $ms to the time it has had the processors; nothing when it is gone
    local stat
    ms=''
    read -r stat 2>/dev/null <"/proc/$1/stat" || return
    read -ra stat <<<"${stat##*) }"
    ms=$(((stat[11] + stat[12]) * 1000 / $(getconf CLK_TCK)))
}
has_computed() { local ms && computing_ms "$1" && [ $ms -ge "$2" ]; } # PID MILLISECONDS
ended_children_ms() { # sets $ms to the time that they had the processors
    local word all=''
    times >"$TMP/times"
    ms=0
    for word in $(sed -n 2p "$TMP/times"); do # 0m1.234s
        all=${word#*m} all=${all%s}
        ms=$((ms + ${word%m*} * 60000 + 10#${all/[.,]/}))
    done
}
# interrupt PID: sends SIGINT to a job and waits for its end. Sets $status, and $took to the milliseconds until then, or to those
# of computing where they are fewer: on a busy machine others have the processor meanwhile.
interrupt() {
    local ms before begin
    ended_children_ms
    before=$ms
    computing_ms "$1"
    before=$((before + ${ms:-0}))
    begin=${EPOCHREALTIME/[.,]/}
    kill -INT "$1" 2>/dev/null
    status=0
    wait "$1" 2>/dev/null || status=$?
    took=$(((${EPOCHREALTIME/[.,]/} - begin) / 1000))
    ended_children_ms
    [ $((ms - before)) -ge $took ] || took=$((ms - before))
}
# wait_written PID BYTES: waits until the process has written BYTES, or has ended. It uses no clock, so a slow machine
# stops at the same point.
wait_written() {
    local key value n=0
    while [ "$n" -lt "$2" ]; do
        n=none
        while read -r key value; do
            [ "$key" != wchar: ] || n=$value
        done 2>/dev/null <"/proc/$1/io"
        [ "$n" != none ] || return 0
    done
} 2>/dev/null
# stopped_writing FILE COMMAND...: stops the command while it writes FILE, which is not there yet; starts it again where it was done
# before. Sets $pid.
stopped_writing() {
    local i file=$1
    shift
    for ((i = 0; i < 30; i++)); do
        rm -f "$file"
        "$@" 2>/dev/null &
        pid=$!
        wait_written $pid 1000000
        kill -STOP $pid 2>/dev/null && [ ! -e "$file" ] && return
    done
}
# killed_after BYTES COMMAND...: sends SIGKILL when the command has written BYTES. True if that came before its end; stderr
# goes to $TMP/log, other failures to $TMP/failed.
killed_after() {
    local bytes=$1 pid status
    shift
    "$@" 2>>"$TMP/log" &
    pid=$!
    wait_written $pid "$bytes"
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    status=$?
    [ $status -eq 0 ] || [ $status -eq 137 ] || echo "exit $status: $*" >>"$TMP/failed"
    [ $status -eq 137 ]
}
# soak SHORT FULL: sets $rounds, how often a test that searches repeats itself: FULL under `make soak`, else SHORT.
soak() {
    rounds=$1
    [ "${FERRY_SOAK-}" != 1 ] || rounds=$2
    echo "# $rounds of $2 rounds$([ "$rounds" -eq "$2" ] || echo "; make soak runs all")"
}
# kill_often HUNDREDTHS COMMAND...: kills it within so many hundredths of a second and starts it again, until it ends before that, or
# at every fourth kill. Sets $status; counts $kills.
kill_often() {
    local most=$1 pid wait_s
    shift
    while :; do
        printf -v wait_s '0.%02d' $((RANDOM % most))
        "$@" 2>/dev/null &
        pid=$!
        sleep "$wait_s"
        kill -KILL $pid 2>/dev/null
        wait $pid 2>/dev/null
        status=$?
        [ $status = 137 ] || break
        kills=$((kills + 1))
        [ $((kills % 4)) != 0 ] || break
    done
}
finish() {
    echo "1..$t_count"
    [ "$t_failed" -eq 0 ]
}
