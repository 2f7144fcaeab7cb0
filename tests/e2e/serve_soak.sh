#!/usr/bin/env bash
# Clients of every kind at once: good ones, ones that leave, that send nonsense, that are slow. No answer differs from that of
# the same request alone, no slot stays busy, no memory and no file descriptor is lost. `make soak`: 64 clients for ten minutes.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
soak 8 600 # seconds
clients=12
[ "$rounds" -lt 600 ] || clients=64

m=$TMP/tales.gguf
$FERRY convert tests/data/tales --outtype q8_0 -o "$m" -q 2>/dev/null || not_ok "the demo model converts"
"$FERRY" serve -m "$m" --port 0 -np 8 -c 256 --cache-ram 2M --header-timeout 2 --max-connections 100 2>"$TMP/log" &
pid=$!
trap 'kill -KILL $pid 2>/dev/null; rm -rf "$TMP"' EXIT
for ((i = 0; i < 200; i++)); do
    url=$(sed -n 's/^listening on //p' "$TMP/log" 2>/dev/null)
    [ -z "$url" ] || break
    sleep 0.05
done
port=${url##*:}

request() { # N: one of 20
    echo "{\"prompt\":\"Once upon a time there was a fox $(($1 % 4)) $(printf 'and %.0s' $(seq $(($1 + 1))))\",\"n_predict\":$((20 + $1)),\"temperature\":0.9,\"seed\":$1,\"n_probs\":1}"
}
essence() { jq -c '[.content, .completion_probabilities]'; }
for ((i = 0; i < 20; i++)); do
    curl -s "$url/completion" -d "$(request $i)" | essence >"$TMP/alone.$i"
done
rss() { awk '/^RssAnon/ { print $2 }' "/proc/$pid/status"; }
fds() { find "/proc/$pid/fd" -mindepth 1 | wc -l; }

client() { # SEED
    local n
    RANDOM=$1
    while [ "$SECONDS" -lt "$until" ]; do
        n=$((RANDOM % 20))
        case $((RANDOM % 6)) in
        0 | 1 | 2)
            curl -s "$url/completion" -d "$(request $n)" | essence >"$TMP/got.$1"
            cmp -s "$TMP/alone.$n" "$TMP/got.$1" || echo "request $n differs: $(cat "$TMP/got.$1")" >>"$TMP/differences"
            echo >>"$TMP/answers.$1"
            ;;
        3) timeout 0.0$((RANDOM % 9 + 1)) curl -sN "$url/completion" -d "{\"prompt\":\"Once\",\"ignore_eos\":true,\"stream\":$([ $((RANDOM % 2)) = 0 ] && echo true || echo false)}" >"$TMP/left.$1" ;;
        4) curl -s "$url/completion" -d "{\"prompt\":$(head -c $((RANDOM % 99)) /dev/urandom | tr -d '\0')" >"$TMP/bad.$1" ;;
        5)
            exec 8<>"/dev/tcp/127.0.0.1/$port" && {
                printf 'POST /completion HTTP/1.1\r\nHost: a' >&8
                sleep 0.2
                exec 8>&-
            }
            ;;
        esac
    done 2>/dev/null
}
warm=$((SECONDS + 3)) until=$((SECONDS + 3)) # buffers of threads reach their size
for ((c = 0; c < clients; c++)); do client $c & waited+=($!); done
wait "${waited[@]}"
sleep 0.5
before=$(rss) fds_before=$(fds)
waited=()
until=$((SECONDS + rounds))
for ((c = 0; c < clients; c++)); do client $((c + 100)) & waited+=($!); done
slowest=0
while [ "$SECONDS" -lt "$until" ]; do
    took=$(curl -s -o "$TMP/health" -w '%{time_total}' "$url/health")
    slowest=$(awk -v a="$slowest" -v b="$took" 'BEGIN { print (a > b ? a : b) }')
    sleep 0.1
done
wait "${waited[@]}"
sleep 0.5
echo "# $(cat "$TMP"/answers.* | wc -l) answers in $((SECONDS - warm)) s; RssAnon $before -> $(rss) kB; slowest /health $slowest s"
check_equal "no answer differs from that of the request alone" "" "$(head -3 "$TMP/differences" 2>/dev/null)"
check_equal "no slot stays busy" 0 "$(curl -s "$url/metrics" | awk '$1 == "ferry_slots_busy" { print $2 }')"
check "no memory is lost: $before -> $(rss) kB" test "$(($(rss) - before))" -le 4096
check "no file descriptor is lost: $fds_before -> $(fds)" test "$(($(fds) - fds_before))" -le 3
kill -TERM $pid
wait $pid
check_equal "it ends as it should" 0 $?
finish
