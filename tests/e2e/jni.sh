#!/usr/bin/env bash
# docs/android on this machine: the Java half compiles, the native half links libferry.a and has a function for each of
# its native methods, and in a Java VM both tell what `ferry run` tells. (tests/e2e/android_build.sh: under Android's linker.)
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

if ! command -v javac >/dev/null; then
    skip "the example for Android in Java" "no javac"
    finish
    exit
fi
check "the Java half compiles without a warning" javac -Xlint:all -Werror -d "$TMP/classes" -h "$TMP/include" docs/android/org/ferry/Ferry.java
jdk=$(dirname "$(dirname "$(realpath "$(command -v javac)")")")/include
if [ ! -f "$jdk/jni.h" ]; then
    skip "the native half" "no $jdk/jni.h"
    finish
    exit
fi
check "libferry is installed" make -s install-lib DESTDIR="$TMP/installed" PREFIX=/usr
# with javac's header: a method of another name or signature does not compile
check "the native half links libferry.a" cc -std=c11 -Wall -Wextra -Werror -shared -fPIC -I"$jdk" -I"$jdk/linux" -I"$TMP/installed/usr/include" \
    -include "$TMP/include/org_ferry_Ferry.h" docs/android/ferry_jni.c "$TMP/installed/usr/lib/libferry.a" -lpcre2-8 -lutf8proc -ljansson -lm -o "$TMP/libferry_jni.so"
check_equal "it has a function for each native method" "$(grep -oE 'Java_[A-Za-z_]+' "$TMP/include/org_ferry_Ferry.h" | sort -u)" \
    "$(nm -D --defined-only "$TMP/libferry_jni.so" | grep -oE 'Java_[A-Za-z_]+' | sort -u)"
check_equal "and needs no libferry.so" "" "$(readelf -d "$TMP/libferry_jni.so" | grep -o 'libferry.so.*')"

"$FERRY" convert tests/data/tales --outtype q8_0 -o "$TMP/m.gguf" -q
tell() { java -Xcheck:jni -Djava.library.path="$TMP" -cp "$TMP/classes" org.ferry.Ferry "$@"; }
for prompt in 'Once upon a time' 'Élan, 42 owls &'; do
    want=$("$FERRY" run -m "$TMP/m.gguf" -p "$prompt" -n 40 --temp 0 -q)
    check_equal "it tells the tale of '$prompt' in a Java VM" "$want" "$(tell "$TMP/m.gguf" "$prompt" 40 2>/dev/null)"
done
check "the tale is one" test ${#want} -gt 20
check_status "an error is an exception with ferry's message" 1 'IllegalStateException: .*none.gguf: cannot open' tell "$TMP/none.gguf" x 1
finish
