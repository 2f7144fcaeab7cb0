# shellcheck shell=bash
# Servers for tests, and their clients: curl, and bash's own sockets. Sourced after tests/lib.sh. Before a start:
#   m               the model
#   serve_options   options of every server
servers=() serve_options=() m=
trap 'kill -KILL "${servers[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$TMP"' EXIT
# start NAME OPTIONS...: a server on a free port; sets $url, $port and $pid. Its stderr is $TMP/NAME.
start() {
    local log=$TMP/$1
    shift
    : >"$log" # (an address that another server wrote there is not this one's)
    "$FERRY" serve -m "$m" --port 0 "${serve_options[@]}" "$@" 2>"$log" &
    pid=$!
    servers+=("$pid")
    wait_address "$log"
}
# wait_address LOG: until the server $pid, which writes there, has said its address
wait_address() {
    local i
    for ((i = 0; i < 600; i++)); do
        url=$(sed -n 's/^listening on //p' "$1")
        [ -z "$url" ] || break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    [ -n "$url" ] || not_ok "a server listens" "$(tail -3 "$1")"
    port=${url##*:}
}
stop() { # [PID]: ends the last one, or that one, and waits
    kill -TERM "${1-$pid}"
    wait "${1-$pid}"
}
post() { curl -s "$url$1" -d "$2" "${@:3}"; }               # PATH JSON OPTIONS...
status() { curl -s -o "$TMP/body" -w '%{http_code}' "$@"; } # URL OPTIONS...: the status; the body goes to $TMP/body
metric() { curl -s "$url/metrics" | awk -v n="ferry_$1" '$1 == n { print $2 }'; }
wait_metric() { # NAME VALUE: until it has that value
    local i
    for ((i = 0; i < 600; i++)); do
        [ "$(metric "$1")" != "$2" ] || return 0
        sleep 0.05
    done
    return 1
}
raw() { # TEXT SECONDS: sends it as it is, prints what comes until the connection ends or the time is over
    exec 9<>"/dev/tcp/127.0.0.1/$port" || return
    printf '%b' "$1" >&9
    timeout "${2:-1}" cat <&9
    exec 9>&-
}
