#!/usr/bin/env bash
# `make TARGET=android` against Android's own headers and libraries, and the program under Android's own linker and C
# library, emulated. $REAL/android (its README.md says what it is) and Debian's clang, lld and compiler-rt for arm64
# (scripts/bootstrap) make a directory like the NDK's. Not shown by it: Google's compiler, Android's kernel, a phone.
# What takes long is kept in build/android-test: libraries (their sources are Debian's source packages) and objects.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL

resources=$(clang -print-resource-dir)
builtins=$PWD/build/sysroot$resources/lib/linux/libclang_rt.builtins-aarch64.a
name="the program for Android runs under its linker and C library"
if [ ! -d "$REAL/android" ]; then
    skip "$name" "$REAL/android is not there"
elif ! command -v ld.lld >/dev/null || [ ! -f "$builtins" ]; then
    skip "$name" "lld or $builtins is not there; run scripts/bootstrap test"
fi
[ "$t_count" -eq 0 ] || { finish; exit; }

# --- a stand-in for the NDK ----------------------------------------------------------------------------------------
kept=$PWD/build/android-test phone=$TMP/phone
tools=$kept/ndk/toolchains/llvm/prebuilt/linux-x86_64
mkdir -p "$tools"/{bin,sysroot} "$kept/resource/lib/linux" "$phone"
zstd -dqc "$REAL"/android/bionic-*.tar.zst | tar x -C "$phone"
if [ ! -f "$tools/sysroot/NOTICE" ]; then
    zstd -dqc "$REAL"/android/ndk-*.tar.zst | tar x -C "$tools/sysroot"
fi
ln -sfn "$resources/include" "$kept/resource/include"
ln -sf "$builtins" "$kept/resource/lib/linux/libclang_rt.builtins-aarch64-android.a"
cat >"$TMP/clang" <<END
#!/bin/sh
exec clang --target=aarch64-linux-android28 --sysroot=$tools/sysroot -resource-dir $kept/resource -rtlib=compiler-rt \\
    -fuse-ld=lld -Wno-unused-command-line-argument "\$@"
END
chmod +x "$TMP/clang"
cmp -s "$TMP/clang" "$tools/bin/aarch64-linux-android28-clang" || cp "$TMP/clang" "$tools/bin/aarch64-linux-android28-clang"
for tool in ar objcopy; do
    ln -sf "$(dirname "$(realpath "$(command -v clang)")")/llvm-$tool" "$tools/bin/llvm-$tool"
done
export ANDROID_NDK_HOME=$kept/ndk SYSROOT_ANDROID=$kept/sysroot

# --- the libraries, the program ------------------------------------------------------------------------------------
cmp -s scripts/android_deps.sh "$kept/android_deps.sh" || rm -rf "$SYSROOT_ANDROID"
if [ ! -f "$SYSROOT_ANDROID/lib/libevent_core.a" ]; then
    check "scripts/android_deps.sh makes the libraries" scripts/android_deps.sh
    cp scripts/android_deps.sh "$kept/android_deps.sh"
fi
check "make TARGET=android builds without warnings" make TARGET=android WERROR=1 CFLAGS=-O1 B="${kept#"$PWD/"}/objects" all qnnref
program=$kept/objects/ferry
check_equal "it needs the system's libraries only" "libc.so libdl.so libm.so" \
    "$(LC_ALL=C aarch64-linux-gnu-readelf -d "$program" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort | xargs)"

# --- it runs -------------------------------------------------------------------------------------------------------
android() { qemu-aarch64 -L "$phone" "$program" "$@"; }
check "a model is made here" "$FERRY" convert tests/data/tales --outtype q8_0 -o "$TMP/tales.gguf" -q
prompt='Once upon a time, naïve Łukasz said: 42 dogs'
check_equal "the ids of a text are the host's" "$("$FERRY" tokenize -m "$TMP/tales.gguf" "$prompt")" \
    "$(android tokenize -m "$TMP/tales.gguf" "$prompt" 2>&1)"
here=$("$FERRY" run -m "$TMP/tales.gguf" -p 'Once upon a time' -n 24 --temp 0 2>/dev/null)
check "the host tells a tale" test -n "$here"
check_equal "and Android tells the same" "$here" "$(android run -m "$TMP/tales.gguf" -p 'Once upon a time' -n 24 --temp 0 2>/dev/null)"
check_equal "selftest passes, every kernel with the recorded results" "true aarch64 true" \
    "$(android selftest -m "$TMP/tales.gguf" --quick --json 2>/dev/null |
        jq -r '"\(.ok) \(.machine.machine) \([.checks[] | select(.name | startswith("kernel")) | .ok] | length > 100 and all)"')"

# --- docs/android --------------------------------------------------------------------------------------------------
# The native half of the example, and a program that stands for the Java VM.
cc=$tools/bin/aarch64-linux-android28-clang
check "libferry.a builds for Android" make TARGET=android WERROR=1 CFLAGS=-O1 B="${kept#"$PWD/"}/objects" lib
check "docs/android links it" "$cc" -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -Iruntime docs/android/ferry_jni.c \
    "$kept/objects/lib/libferry.a" -L"$SYSROOT_ANDROID/lib" -lpcre2-8 -lutf8proc -ljansson -lm \
    -Wl,-z,max-page-size=16384 -Wl,-z,defs -Wl,-soname,libferry_jni.so -o "$TMP/libferry_jni.so"
check_equal "it needs the system's libraries only" "" \
    "$(LC_ALL=C aarch64-linux-gnu-readelf -d "$TMP/libferry_jni.so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vxE 'lib(c|dl|m).so')"
check "the program compiles" "$cc" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror tests/e2e/jni_try.c -ldl -o "$TMP/jni_try"
jni() { qemu-aarch64 -L "$phone" "$TMP/jni_try" "$TMP/libferry_jni.so" "$@"; }
check_equal "Android's linker loads it, and it tells the same, twice" "$here"$'\n'"$here" "$(jni "$TMP/tales.gguf" 'Once upon a time' 24 2>&1)"
check_status "a missing model is an exception" 1 'IllegalStateException: .*none.gguf' jni "$TMP/none.gguf" x 1

# --- with a library for the NPU ------------------------------------------------------------------------------------
# The reference under the vendor's name, loaded by Android's linker.
"$FERRY" convert tests/data/tales --outtype f16 -o "$TMP/f16.gguf" -q
"$FERRY" chunk "$TMP/f16.gguf" --soc SM8650 --recipe fp16 --chunks 2 -c 160 --batch 32,1 -o "$TMP/cut" -q
check "a model is compiled here" "$FERRY" compile "$TMP/cut" --sdk reference --recipe fp16a8w -o "$TMP/npu" -q
mkdir -p "$TMP/libs" "$phone/vendor/lib64"
cp "$kept/objects/qnn/libQnnRef.so" "$TMP/libs/libQnnHtp.so"
cp "$kept/objects/qnn/libQnnRefSystem.so" "$TMP/libs/libQnnSystem.so"
cp "$kept/objects/qnn/libcdsprpc.so" "$phone/vendor/lib64/"
say=(run -m "$TMP/npu" --backend qnn -p 'Once upon a time' -n 12 --temp 0)
here=$("$FERRY" "${say[@]}" --qnn-lib reference -q 2>/dev/null)
check "the host says something" test -n "$here"
check_equal "a library that Android's linker loads says the same" "$here" "$(android "${say[@]}" --qnn-lib "$TMP/libs" 2>"$TMP/words")"
check_equal "with the phone's shared memory" 0 "$(grep -c 'no memory is shared' "$TMP/words")"
rm "$TMP"/npu/qnn/{chunk_0,chunk_1,lm_head}.json
check_equal "the library of metadata describes the binaries there" "$here" "$(android "${say[@]}" --qnn-lib "$TMP/libs" 2>/dev/null)"
finish
