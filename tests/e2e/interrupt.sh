#!/usr/bin/env bash
# Ctrl-C ends a verb that writes a large file at once: the exit status is 130 and comes within 0.3 s (the test allows 1.5 s,
# for a slow machine), whatever the verb was doing. What a slow disk does to that is in tests/unit/format/test_gguf_write_resumed.c.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

c=$TMP/checkpoint model=$TMP/m.gguf small=$TMP/small.gguf
check "a sparse checkpoint of 1 GB" build/host/release/tests/bench/make_checkpoint "$c" sparse=1 layers=8 vocab=16384
bytes=$(du -bs "$c" | cut -f1)

ends_at_once() { # NAME OUT BYTES COMMAND...: interrupts it when it has written so much; again if it was done before that
    local name=$1 out=$2 written=$3 status=0 took tries=0
    shift 3
    while [ $status -eq 0 ] && [ $tries -lt 10 ]; do
        tries=$((tries + 1))
        rm -f "$out" "$out.part"
        "$@" 2>"$TMP/err" >"$TMP/out" &
        wait_written $! "$written"
        interrupt $!
    done
    check_equal "$name ends with 130" 130 "$status"
    check "$name ends at once" test "$took" -le 1500
    echo "# $name: $took ms"
}
for share in 1 30 60; do
    ends_at_once "convert at $share %" "$model" $((bytes * share / 100)) "$FERRY" convert "$c" --outtype f16 -o "$model"
    check "no file has the final name" test ! -e "$model"
done
check_status "the model to quantize" 0 '' "$FERRY" convert "$c" --outtype f16 -o "$model"
ends_at_once "quantize" "$small" $((bytes / 10)) "$FERRY" quantize "$model" "$small" q8_0
finish
