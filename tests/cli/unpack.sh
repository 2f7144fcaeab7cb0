#!/usr/bin/env bash
# Archives of unknown origin at the command line: the name of the directory that they unpack to, and Ctrl-C while they are
# read. What else is refused: tests/unit/workspace/pack/test_unpack.c.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib.sh
ferry=$(realpath "$FERRY")
cd "$TMP" || exit 1

# --- the archive's own name ------------------------------------------------------------------------------------------
# A manifest as ferry writes it; what it lists is one file.
make_tar() { # TOP FILE ARCHIVE
    local head
    mkdir -p "src/$1" && printf hello >"src/$1/$2"
    head=$(printf '{\n "format_version": 1,\n "tool": "t",\n "target": "aarch64-linux",\n "files": [\n  {"path": "%s", "size": 5, "mode": "0644",\n   "sha256": "%s"}\n ]' \
        "$2" "$(printf hello | sha256sum | cut -d' ' -f1)")
    printf '%s,\n "sha256": "%s"\n}\n' "$head" "$(printf %s "$head" | sha256sum | cut -d' ' -f1)" >"src/$1/manifest.json"
    tar -C src -cf "$3" -- "$1/manifest.json" "$1/$2"
}
for name in .git .ssh -rf $'a\u202eb' $'a\u009bb'; do
    make_tar "./$name" workspace.json x.tar
    check_status "$(LC_ALL=C; printf %q "$name") is not taken as a name" 2 'give -o DIR' "$ferry" unpack x.tar
    check_equal "its message holds nothing that acts on a terminal" "" \
        "$("$ferry" unpack x.tar 2>&1 | tr -d '\n' | LC_ALL=C grep -aP '[^ -~]')"
    check_equal "and nothing was unpacked" "src x.tar" "$(echo * .[!.]*' ' | sed 's/ \.\[.*//')"
    check "with -o it is" "$ferry" unpack x.tar -o out -q
    rm -rf out
done
make_tar docs readme x.tar
check_status "what is not a workspace wants a name" 2 'workspace.json.*give -o DIR' "$ferry" unpack x.tar
check "and is unpacked under that" "$ferry" unpack x.tar -o out -q
make_tar phone workspace.json x.tar
check "a workspace is unpacked under its own name" "$ferry" unpack x.tar -q
check_equal "which it has" hello "$(cat phone/workspace.json)"

# --- Ctrl-C ----------------------------------------------------------------------------------------------------------
# Frames that zstd skips: the decompressor reads gigabytes before it returns to its caller.
endless() {
    printf '' | zstd -q
    while printf 'P*M\x18\xff\xff\xff\x7f' && head -c $((0x7fffffff)) /dev/zero; do :; done
}
mkfifo frames
(endless >frames 2>/dev/null &) # (no child of this shell: its computing is not counted)
"$ferry" unpack - -o out2 <frames 2>err &
wait_for 120 has_computed $! 300
interrupt $!
check_equal "Ctrl-C ends unpack while the decompressor skips gigabytes" 130 "$status"
check "within 0.3 s ($took ms)" [ "$took" -lt 300 ]
check_equal "and nothing is left" "" "$(ls -d out2* 2>/dev/null)"
finish
