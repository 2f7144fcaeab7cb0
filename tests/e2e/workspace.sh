#!/usr/bin/env bash
# The workspace from end to end: stock tools read it, the same input gives the same bytes, and one changed byte, a
# missing or an extra file is found and named.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

ferry=$PWD/$FERRY
check "tales converts" "$ferry" convert tests/data/tales --outtype q4_0 -o "$TMP/tales.gguf"
check "create makes a workspace" "$ferry" create "$TMP/tales.gguf" -o "$TMP/tales" --copy
check "create makes it again" "$ferry" create "$TMP/tales.gguf" -o "$TMP/again/tales" --copy
check "with the same bytes" diff -r "$TMP/tales" "$TMP/again/tales"
check_status "it does not write over a directory" 2 'exists|not empty' "$ferry" create "$TMP/tales.gguf" -o "$TMP/tales"

check "pack" "$ferry" pack "$TMP/tales" -o "$TMP/a.tar.zst"
(umask 077 && "$ferry" pack "$TMP/again/tales" -o "$TMP/b.tar.zst" 2>/dev/null)
check "the same workspace gives the same archive, whatever the umask and the time" cmp "$TMP/a.tar.zst" "$TMP/b.tar.zst"
for kind in tar tar.gz; do
    check "pack as $kind" "$ferry" pack "$TMP/tales" -o "$TMP/a.$kind"
    check "unpack from $kind" "$ferry" unpack "$TMP/a.$kind" -o "$TMP/from-$kind"
    check "nothing changed on the way ($kind)" diff -r "$TMP/tales" "$TMP/from-$kind"
done
mkdir "$TMP/stock"
check "zstd and tar read the archive" bash -c "zstd -qdc $TMP/a.tar.zst | tar -x -C $TMP/stock"
check "and find the same files" diff -r "$TMP/tales" "$TMP/stock/tales"
check_equal "the manifest's hashes are sha256sum's" "" "$(cd "$TMP/tales" &&
    jq -r '.files[] | "\(.sha256)  \(.path)"' manifest.json | sha256sum -c --quiet 2>&1)"
check_equal "the manifest lists every file but itself" "$(cd "$TMP/tales" && find . -type f ! -name manifest.json | sed 's,^\./,,' | LC_ALL=C sort)" \
    "$(jq -r '.files[].path' "$TMP/tales/manifest.json")"

check "verify is content" "$ferry" verify "$TMP/tales"
check_equal "tokenize takes a workspace" "$("$ferry" tokenize -m "$TMP/tales.gguf" 'Once upon a time')" \
    "$("$ferry" tokenize -m "$TMP/tales" 'Once upon a time')"
while read -r path; do
    cp -r "$TMP/tales" "$TMP/bad"
    size=$(stat -c %s "$TMP/bad/$path")
    printf '\xA5' | dd of="$TMP/bad/$path" bs=1 seek=$((size / 2)) conv=notrunc status=none
    cmp -s "$TMP/bad/$path" "$TMP/tales/$path" && printf '\x5A' | dd of="$TMP/bad/$path" bs=1 seek=$((size / 2)) conv=notrunc status=none
    check_status "verify names $path when a byte changes" "$([ "$path" = manifest.json ] && echo 1 || echo 4)" "$path" "$ferry" verify "$TMP/bad"
    rm -rf "$TMP/bad"
done < <(cd "$TMP/tales" && find . -type f ! -name manifest.json | sed 's,^\./,,')

cp -r "$TMP/tales" "$TMP/bad"
truncate -s -100 "$TMP/bad/tales/ggml/weights.gguf"
check_status "run says that the weights are short before it loads them" 4 'weights.gguf' "$ferry" run -d "$TMP/bad" -p x -n 1
rm "$TMP/bad/tales/ggml/weights.gguf"
check_status "run says that the weights are missing" 4 'weights.gguf' "$ferry" run -d "$TMP/bad" -p x -n 1
rm -rf "$TMP/bad"
cp -r "$TMP/tales" "$TMP/bad"
echo more >"$TMP/bad/more"
check_status "verify names a file that is not listed" 4 'more' "$ferry" verify "$TMP/bad"
check_status "a workspace without a manifest is refused" 1 'manifest.json' bash -c "rm $TMP/bad/manifest.json; $ferry run -d $TMP/bad -p x"

head -c 500000 "$TMP/a.tar.zst" >"$TMP/cut.tar.zst"
check_status "an archive cut short is refused" 1 'cut.tar.zst' "$ferry" unpack "$TMP/cut.tar.zst" -o "$TMP/cut"
check "and leaves nothing" test ! -e "$TMP/cut" -a ! -e "$TMP/cut.part"

mkdir -p "$TMP/lonely/bin"
cp "$FERRY" "$TMP/lonely/bin/"
check_status "without a device program create says how to build one" 2 'make TARGET=aarch64' \
    "$TMP/lonely/bin/ferry" create "$TMP/tales.gguf" -o "$TMP/none"
check_status "a program for another machine is refused" 2 'aarch64' \
    "$ferry" create "$TMP/tales.gguf" -o "$TMP/none" --exe-path "$FERRY"
check "two models make one workspace" "$ferry" create "$TMP/tales.gguf" "$TMP/tales.gguf" -o "$TMP/two"
check_equal "the first is the main one" tales "$(jq -r .model_main "$TMP/two/workspace.json")"
finish
