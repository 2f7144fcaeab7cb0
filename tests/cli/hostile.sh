#!/usr/bin/env bash
# The surroundings are against the program: signals, streams that are closed, names that are taken, files that change
# under it. Each time one message, the documented exit status, and nothing lost or left over.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
tales=tests/data/tales
m=$TMP/m.gguf
"$FERRY" convert $tales --outtype q8_0 -q -o "$m"

# --- names that must not be taken --------------------------------------------------------------------------------
mkfifo "$TMP/fifo"
check_status "an empty output name is refused" 2 'empty name' "$FERRY" convert $tales -o ''
check_status "so is one for the logits" 2 'empty name' "$FERRY" run -m "$m" -p hi -n 1 --logits-out=
check_status "a pipe in the output's place is refused" 2 'fifo: is not a regular file' "$FERRY" convert $tales -o "$TMP/fifo"
check "and is still a pipe" test -p "$TMP/fifo"
check_status "the model is not overwritten with its logits" 2 'is the model' "$FERRY" run -m "$m" -p hi --logits-out "$m"
cp -r $tales "$TMP/ck"
for f in model.safetensors config.json tokenizer.json; do
    check_status "the checkpoint's $f is not overwritten" 2 'is a file of the checkpoint' "$FERRY" convert "$TMP/ck" -o "$TMP/ck/$f"
done
check "and is as it was" diff -r $tales "$TMP/ck"
check "an output beside them is fine" "$FERRY" convert "$TMP/ck" -o "$TMP/ck/new.gguf"
check "and may be written again" "$FERRY" convert "$TMP/ck" -o "$TMP/ck/new.gguf"
echo precious >"$TMP/precious"
ln -s precious "$TMP/s.gguf.part"
check_status "a link in the part file's place is not followed" 1 'symbolic link' "$FERRY" convert $tales -o "$TMP/s.gguf"
check_equal "what it points to is untouched" precious "$(cat "$TMP/precious")"

# --- two at once -------------------------------------------------------------------------------------------------
touch "$TMP/two.gguf.part"
exec 9<"$TMP/two.gguf.part"
flock 9
check_status "a second writer of the same file is refused" 1 'another ferry is writing it' "$FERRY" convert $tales -o "$TMP/two.gguf"
check "and leaves the first one's file" test -e "$TMP/two.gguf.part"
exec 9<&-
check "what a killed run left is no obstacle" "$FERRY" convert $tales -o "$TMP/two.gguf"
check "and is gone" test ! -e "$TMP/two.gguf.part"

if [ "$(id -u)" = 0 ]; then
    touch "$TMP/theirs.gguf.part"
    chown 65534 "$TMP/theirs.gguf.part"
    check_status "the unfinished output of another user is not taken" 1 'theirs.gguf.part: belongs to another user' \
        "$FERRY" convert $tales -o "$TMP/theirs.gguf"
    check "and stays as it is" test "$(stat -c '%u %s' "$TMP/theirs.gguf.part")" = "65534 0"
else
    skip "the unfinished output of another user is not taken" "only root can give a file to another user"
fi
ln "$TMP/precious" "$TMP/linked.gguf.part"
check_status "nor one with a second name" 1 'linked.gguf.part: has 2 names' "$FERRY" convert $tales -o "$TMP/linked.gguf"
check_equal "which keeps its bytes" precious "$(cat "$TMP/precious")"

# --- streams -----------------------------------------------------------------------------------------------------
check_status "closed standard output is an error" 1 'standard output' bash -c "$FERRY run -m $m -p hi -n 4 >&-"
check_status "closed standard input is an error" 1 'standard input' bash -c "$FERRY tokenize -m $m <&-"
bash -c "$FERRY run -m $m -p hi -n 4 --logits-out $TMP/closed.l <&- >&- 2>&-"
"$FERRY" run -m "$m" -p hi -n 4 --logits-out "$TMP/open.l" -q >/dev/null
check "words never go into a file that took a closed stream's number" cmp "$TMP/open.l" "$TMP/closed.l"

# --- signals -----------------------------------------------------------------------------------------------------
mkfifo "$TMP/in"
for sig in INT TERM HUP; do
    exec 8<>"$TMP/in"
    "$FERRY" tokenize -m "$m" --jsonl <&8 2>/dev/null &
    wait_for 120 hears_signals $!
    kill -$sig $!
    status=0
    wait $! || status=$?
    check_equal "SIG$sig while waiting for input ends with 130" 130 "$status"
    exec 8>&-
done

# --- a mapped file cut short while it is used --------------------------------------------------------------------
cp "$m" "$TMP/cut.gguf"
"$FERRY" run -m "$TMP/cut.gguf" --prompt-ids 1,2 -n 200000 -c 200000 --ignore-eos >"$TMP/text" 2>"$TMP/err" &
pid=$!
wait_for 120 test -s "$TMP/text"
truncate -s 4096 "$TMP/cut.gguf"
status=0
wait $pid || status=$?
check_equal "a model cut short under a run is a failure" 1 "$status"
check "whose message names the file" grep -q 'cut.gguf: cannot be read any more: it was cut short' "$TMP/err"

# --- numbers that fit nowhere, and nothing to do -----------------------------------------------------------------
check_status "a context larger than the memory does not fit" 3 'use a smaller -c' "$FERRY" run -m "$m" -p hi -n 1 -c 2147483647
check_status "a prompt longer than the context does not fit" 3 'use a larger -c' "$FERRY" run -m "$m" -p "$(head -c 100000 /dev/zero | tr '\0' a)" -n 1
check_status "a context beyond the training is warned of" 0 'trained with' "$FERRY" run -m "$m" -p hi -n 1 -c 5000
for ids in '' ',' '1,,2' -1 1099511627776; do
    check_status "prompt ids '$ids' are refused" 2 'is not a token id' "$FERRY" run -m "$m" -n 1 --prompt-ids "$ids"
done
for pair in '--temp -1' '--temp nan' '--temp inf' '--temp 0,5' '--top-p 2' '-n -1' '-b 0' '-t 0' '-c -1' '-n='; do
    # shellcheck disable=SC2086
    check_status "$pair is refused" 2 "out of range|is not a" "$FERRY" run -m "$m" -p hi $pair
done
check_equal "a locale with another decimal point changes nothing" "$("$FERRY" run -m "$m" -p hi -n 4 -q --temp 0.5 --seed 1)" \
    "$(LC_ALL=de_DE.UTF-8 "$FERRY" run -m "$m" -p hi -n 4 -q --temp 0.5 --seed 1)"
check_status "a bad JSON line is named by its number" 1 'line 2' bash -c "printf '{\"text\":\"a\"}\r\n{bad\n' | $FERRY tokenize -m $m --jsonl"
echo '{"cases":[]}' >"$TMP/none.json"
check_status "comparing nothing is no success" 1 'nothing to compare' "$FERRY" tokenize -m "$m" --verify "$TMP/none.json"
echo '{"cases":[{"text":"a","ids":"1"}]}' >"$TMP/wrong.json"
check_status "ids that are not a list are an error" 1 'is not a list' "$FERRY" tokenize -m "$m" --verify "$TMP/wrong.json"
finish
