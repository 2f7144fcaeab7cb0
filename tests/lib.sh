# shellcheck shell=bash
# Helpers for tests written in bash: they speak TAP. Sourced; run with cwd = repository root.
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
finish() {
    echo "1..$t_count"
    [ "$t_failed" -eq 0 ]
}
