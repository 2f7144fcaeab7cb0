#!/usr/bin/env bash
# A model that convert splits over several files is the model in one: the same tensors and keys, the same answers, and
# one file again by quantize. What is not whole is refused by name.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

convert() { "$FERRY" convert tests/data/tales --outtype f16 -q "$@"; }
hashes() { (cd "$1" && sha256sum -- *); }
tensors() { # name, type, bytes and shape of each, and all keys but those of the split
    "$FERRY" inspect "$1" --json |
        jq -c '[.tensors[] | del(.offset)], (.metadata | with_entries(select(.key | startswith("split.") | not)))'
}
same_words() { [ "$("$FERRY" run -m "$1" -p "Once upon" -n 16 2>/dev/null)" = "$words" ]; }

check "one file" convert -o "$TMP/one.gguf"
words=$("$FERRY" run -m "$TMP/one.gguf" -p "Once upon" -n 16 2>/dev/null)
check "it says something" test -n "$words"
all=$(stat -c %s "$TMP/one.gguf")
for size in 1 100K 1M 3m 2000000; do
    d=$TMP/$size
    mkdir "$d" "$d.again"
    check "convert --split-max-size $size" convert -o "$d/m.gguf" --split-max-size $size
    check "again, with one thread" convert -o "$d.again/m.gguf" --split-max-size $size -t 1
    check_equal "the same bytes each time" "$(hashes "$d")" "$(hashes "$d.again")"
    first=("$d"/m-00001-of-*.gguf)
    files=("$d"/*)
    check_equal "as many files as the names say" "$(printf %05d ${#files[@]})" \
        "$(sed -E 's/.*-of-([0-9]+)\.gguf/\1/' <<<"${first[0]}")"
    check_equal "the same tensors and keys" "$(tensors "$TMP/one.gguf")" "$(tensors "${first[0]}")"
    check "the same words" same_words "${first[0]}"
    check "joined by quantize" "$FERRY" quantize "${first[0]}" "$d.gguf" f16 -q
    check "into the bytes of the one file" cmp "$TMP/one.gguf" "$d.gguf"
    [ "$size" = 1 ] && check_equal "a file for each tensor" \
        "$("$FERRY" inspect "$TMP/one.gguf" --json | jq '.tensors | length')" ${#files[@]}
done
mkdir "$TMP/whole"
check "a limit that is not reached" convert -o "$TMP/whole/m.gguf" --split-max-size 1G
check "makes the file that it is without" cmp "$TMP/one.gguf" "$TMP/whole/m.gguf"
check_equal "under its own name" m.gguf "$(ls "$TMP/whole")"
check_equal "--dry-run tells the number of files" "split into 2 files" \
    "$("$FERRY" convert tests/data/tales --outtype f16 --split-max-size $((all * 2 / 3)) --dry-run 2>/dev/null | tail -1)"

# --- what is not whole ----------------------------------------------------------------------------------------------
d=$TMP/1M n=$(find "$TMP/1M" -name '*.gguf' | wc -l)
last=$(printf '%s/m-%05d-of-%05d.gguf' "$d" "$n" "$n") whole=$(printf '%s/m-00001-of-%05d.gguf' "$d" "$n")
check_status "another than the first file" 2 "is file $n of $n of a split model; give the first one, .*/m-00001-of-" \
    "$FERRY" run -m "$last" -p a -n 1
mv "$last" "$TMP/hidden"
check_status "a file that is absent" 1 "${last##*/}: is absent, file $n of $n" "$FERRY" inspect "$whole"
cp "$TMP/1M.again/m-00002-of-"* "$last"
check_status "one instead of another" 1 "claims to be file 2 of $n, expected $n of $n" "$FERRY" inspect "$whole"
head -c 100000 "$TMP/hidden" >"$last"
check_status "one that is cut off" 1 "${last##*/}: the file is cut off" "$FERRY" inspect "$whole"
mv "$TMP/hidden" "$last"
check_status "create wants one file" 1 "quantize' makes one of them" "$FERRY" create "$whole" -o "$TMP/ws"
check_status "neither may be the output of quantize" 2 'is the input' "$FERRY" quantize "$whole" "$last" f16
for bad in 0 -1 1T 10Mx M 99999999999G ''; do
    check_status "no size: '$bad'" 2 '--split-max-size .*: expected a size such as 400M' \
        "$FERRY" convert tests/data/tales -o "$TMP/no.gguf" "--split-max-size=$bad"
done
check "nothing is left" test -z "$(find "$TMP" -name '*.part' -o -name 'no*')"
finish
