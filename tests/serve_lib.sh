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
listens_or_gone() { grep -q '^listening on ' "$1" || is_gone "$pid"; } # LOG
# wait_address LOG: until the server $pid, which writes there, has said its address
wait_address() {
    wait_for 120 listens_or_gone "$1"
    url=$(sed -n 's/^listening on //p' "$1")
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
has_metric() { [ "$(metric "$1")" = "$2" ]; }
wait_metric() { wait_for 120 has_metric "$1" "$2"; } # NAME VALUE: until it has that value
raw() { # TEXT: sends it as it is, prints what comes until the server ends the connection
    exec 9<>"/dev/tcp/127.0.0.1/$port" || return
    printf '%b' "$1" >&9
    timeout 120 cat <&9
    exec 9>&-
}
# hold JSON: asks for a stream and takes nothing of it. With n_probs 600 for each of hundreds of tokens more is to be sent than
# the connection holds, so the answer goes on until take_held has read it, however fast the machine is.
hold() {
    exec 9<>"/dev/tcp/127.0.0.1/$port" || return
    printf 'POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' ${#1} "$1" >&9
}
take_held() { cat <&9 && exec 9>&-; }
