#!/usr/bin/env bash
# Models with states: --prompt-cache and files of slots hold them, /undo and a changed prompt go back to a snapshot, and
# no answer changes by it. So it is with the windows that slots keep.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/serve_lib.sh
. tests/serve_lib.sh

PTY=${PTY:-build/host/release/tests/e2e/pty_drive}
export HOME=$TMP/home XDG_STATE_HOME=$TMP/state TERM=xterm
unset XDG_CONFIG_HOME FERRY_CONFIG NO_COLOR LC_ALL LC_CTYPE LANG
mkdir -p "$HOME"

first='I have a small house by the sea and two old dogs who sleep all day.'
second='Tell me about the dogs again, and do not leave out that they are old.'
third='No: what about the house, and the sea, and the way from one to the other?'
counts() { tr -d '\r' <"$TMP/seen" | sed -n 's/.*prompt \([0-9]*\) tokens [0-9.]* tok.*/\1 0/p; s/.*prompt \([0-9]*\) tokens (\([0-9]*\) from the cache).*/\1 \2/p'; }

for name in rwkv/v7 families/lfm2; do
    m=$TMP/model.gguf cache=$TMP/cache
    rm -f "$m" "$cache"
    "$FERRY" convert "tests/data/$name" --outtype f32 -q -o "$m" || exit 1
    run() { "$FERRY" run -m "$m" -q --json --ignore-eos "$@"; }
    ids() { seq -s, "$1" "$2"; }
    told() { jq -c '[.timing.cached_tokens, .ids]'; }

    # --- files -----------------------------------------------------------------------------------------------------
    run --prompt-cache "$cache" --prompt-ids "$(ids 20 80)" -n 0 >/dev/null
    for more in 80 100 73; do # the same text, a longer one, and a shorter one (the snapshot is at 53 of 61)
        [ $more = 100 ] && took=61 || took=53
        check_equal "$name: up to id $more, $took from the file" \
            "[$took,$(run --prompt-ids "$(ids 20 $more)" -n 12 | jq -c .ids)]" \
            "$(cp "$cache" "$TMP/one" && run --prompt-cache "$TMP/one" --prompt-ids "$(ids 20 $more)" -n 12 | told)"
    done
    check_equal "$name: what ends before the first snapshot is computed" \
        "[0,$(run --prompt-ids "$(ids 20 60)" -n 12 | jq -c .ids)]" \
        "$(cp "$cache" "$TMP/one" && run --prompt-cache "$TMP/one" --prompt-ids "$(ids 20 60)" -n 12 | told)"
    check_equal "$name: the same work makes the same bytes" "$(sha256sum <"$cache")" \
        "$(run --prompt-cache "$TMP/two" --prompt-ids "$(ids 20 80)" -n 0 -b 3 -t 1 >/dev/null && sha256sum <"$TMP/two")"
    rm -f "$TMP/two"
    "$FERRY" convert "tests/data/$name" --outtype f16 -q -o "$TMP/other.gguf"
    check_status "$name: a file of another model" 2 'cache: holds the cache of another model' \
        "$FERRY" run -m "$TMP/other.gguf" --prompt-ids 1,2,3 -n 1 --prompt-cache "$cache"

    # --- /undo ------------------------------------------------------------------------------------------------------
    talk() { # LINE... : what each prompt takes from the cache
        local line script=$TMP/script
        : >"$script"
        for line in "$@"; do
            printf 'wait > \nline %s\n' "$line"
            case $line in /undo) echo "wait taken back" ;; *) echo "wait first token" ;; esac
        done >>"$script"
        printf 'wait > \nline /save %s\nwait saved\nwait > \nline /quit\nend 0\n' "$TMP/said.json" >>"$script"
        rm -f "$TMP/said.json"
        "$PTY" -o "$TMP/seen" "$script" "$FERRY" chat -m "$m" --temp 0 -n 12 -v --no-history >/dev/null || not_ok "$name: a conversation"
    }
    talk "$first" "$second" /undo "$third"
    counts >"$TMP/counts"
    check_equal "$name: three prompts" 3 "$(wc -l <"$TMP/counts")"
    check "$name: the second goes on after the first answer" test "$(sed -n '2s/.* //p' "$TMP/counts")" -gt 40
    check_equal "$name: after /undo the third goes on there, too" "$(sed -n '2s/.* //p' "$TMP/counts")" "$(sed -n '3s/.* //p' "$TMP/counts")"
    undone=$(jq -c '[.messages[].content]' "$TMP/said.json")
    talk "$first" "$third"
    check_equal "$name: and its answer is as if nothing had been taken back" "$(jq -c '[.messages[].content]' "$TMP/said.json")" "$undone"

    # --- slots ------------------------------------------------------------------------------------------------------
    mkdir -p "$TMP/slots"
    start "$(basename "$name")" -np 2 -c 512 --slot-save-path "$TMP/slots"
    ask() { # IDS: taken from a cache, and the answer
        curl -s "$url/completion" -d "{\"prompt\":[$1],\"n_predict\":12,\"temperature\":0,\"ignore_eos\":true,\"id_slot\":$2,\"return_tokens\":true}" |
            jq -c '[.timings.cache_n, .tokens]'
    }
    want=$(run --prompt-ids "$(ids 20 100)" -n 12 | jq -c .ids)
    check_equal "$name: a slot computes" "[0,$want]" "$(ask "$(ids 20 100)" 0)"
    check_equal "$name: the same again, but for the last ids" "[73,$want]" "$(ask "$(ids 20 100)" 0)"
    check_equal "$name: another slot takes the same place" "[73,$want]" "$(ask "$(ids 20 100)" 1)"
    curl -s "$url/slots/0?action=save" -d '{"filename":"tale"}' >/dev/null
    curl -s "$url/slots/0?action=erase" -d '{}' >/dev/null
    curl -s "$url/slots/1?action=erase" -d '{}' >/dev/null
    check_equal "$name: a slot is restored" null "$(curl -s "$url/slots/1?action=restore" -d '{"filename":"tale"}' | jq -c .error)"
    check_equal "$name: and has its snapshots" "[73,$want]" "$(ask "$(ids 20 100)" 1)"
    stop
done

# --- slots whose layers keep a window ------------------------------------------------------------------------------------
# gemma3's: 8 positions in six of seven layers, which keep 192.
m=$TMP/windows.gguf
"$FERRY" convert tests/data/families/gemma3 --outtype f32 -q -o "$m" || exit 1
serve_options=(-np 3 -c 700 -b 4 --cache-ram 2M --slot-save-path "$TMP/slots")
begins() { echo "$(ids 3 $((3 + $1))),$(ids $((20 + $2)) 300)"; } # SHARED I: a prompt
answer() { # URL SHARED I: taken from a cache, and a digest of the tokens with their probabilities
    curl -s "$1/completion" -d "{\"prompt\":[$(begins "$2" "$3")],\"n_predict\":200,\"temperature\":1,\"seed\":$3,\"ignore_eos\":true,\"n_probs\":1}" |
        jq -c '[.timings.cache_n, .completion_probabilities]' >"$TMP/answer.$3.${1##*:}"
    echo "$(jq '.[0]' "$TMP/answer.$3.${1##*:}") $(jq -c '.[1]' "$TMP/answer.$3.${1##*:}" | sha256sum)"
}
start full --full-window-cache
full=$url full_pid=$pid
start windows
check "they keep a window" grep -q 'KV cache: 3 sequences x 700 positions (with a window: 192) x 7 layers' "$TMP/windows"
check "unless all is asked for" grep -q 'KV cache: 3 sequences x 700 positions x 7 layers' "$TMP/full"
first=$(answer "$full" 100 1)
check_equal "one alone" "$first" "$(answer "$url" 100 1)"
check_equal "which has 200 tokens" 200 "$(jq '.[1] | length' "$TMP/answer.1.$port")"
check_equal "the same again, from the snapshot before its end" "373 ${first#* }" "$(answer "$url" 100 1)"
want=$(answer "$full" 100 9)
check_equal "what shares a beginning that nothing remembers is computed" "0 ${want#* }" "$(answer "$url" 100 9)"
want=$(answer "$full" 100 17)
check_equal "and remembered, for the next" "101 ${want#* }" "$(answer "$url" 100 17)"
curl -s "$url/slots/0?action=save" -d '{"filename":"window"}' >/dev/null
for i in 0 1 2; do curl -s "$url/slots/$i?action=erase" -d '{}' >/dev/null; done
check_equal "a slot is restored" null "$(curl -s "$url/slots/2?action=restore" -d '{"filename":"window"}' | jq -c .error)"
check_equal "with its snapshot" "373 ${first#* }" "$(answer "$url" 100 1)"
asked=()
for i in {1..12}; do # of each beginning some, and more of them at a time than there are slots
    for where in "$full" "$url"; do
        answer "$where" $((i % 4 * 60)) "$i" >/dev/null &
        asked+=($!)
    done
    ((i % 6)) || wait "${asked[@]}"
done
check_equal "answers among others are those of a full cache" "$(cd "$TMP" && jq -c '.[1]' answer.{1..12}."${full##*:}")" \
    "$(cd "$TMP" && jq -c '.[1]' answer.{1..12}."$port")"
stop
stop "$full_pid"
finish
