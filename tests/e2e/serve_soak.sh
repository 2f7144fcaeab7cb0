#!/usr/bin/env bash
# Clients of every kind at once (soak_clients.c): good ones, ones that leave, that send nonsense, that are slow. No answer differs
# from that of the same request alone, no slot stays busy, no memory and no file descriptor is lost, and /health answers all the
# time. `make soak`: 64 clients for ten minutes; SECONDS as an argument: 64 clients for so long.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/serve_lib.sh
. tests/serve_lib.sh
soak 8 600 # seconds
[ $# = 0 ] || rounds=$1
clients=12
[ "$rounds" -lt 60 ] || clients=64
tool=build/host/release/tests/e2e/soak_clients

m=$TMP/tales.gguf
$FERRY convert tests/data/tales --outtype q8_0 -o "$m" -q 2>/dev/null || not_ok "the demo model converts"
start log -np 8 -c 256 --cache-ram 2M --header-timeout 6 --max-connections 100 --queue 256
"$tool" "$port" "$pid" $clients "$rounds" >"$TMP/found" 2>"$TMP/complaints"
check_equal "the clients are through" "0 " "$? $(grep '^soak_clients' "$TMP/complaints")"
found() { awk -v name="$1" '$1 == name { print $2 }' "$TMP/found"; }
echo "# $(xargs <"$TMP/found")"
check_equal "no answer differs from that of the request alone" "0" "$(found differ)"
check_equal "whoever waits for an answer gets the one that is due" "0" "$(found unexpected)"
[ "$(found differ)$(found unexpected)" = 00 ] || head -c 4000 "$TMP/complaints" >&2
check_equal "no slot stays busy" 0 "$(found stuck)"
case $FERRY in
*/asan/* | */tsan/*) skip "memory and time" "a sanitizer has its own" ;;
*)
    check "no memory is lost" test $(($(found memory_kb) - $(found memory_before_kb))) -le 4096
    [ $clients -lt 64 ] || check "99 of 100 /health take less than 50 ms" test "$(found health_p99_ms | cut -d. -f1)" -lt 50
    ;;
esac
check "no file descriptor is lost" test $(($(found fds) - $(found fds_before))) -le 3
stop
check_equal "it ends as it should" 0 $?
finish
