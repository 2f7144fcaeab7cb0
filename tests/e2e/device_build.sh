#!/usr/bin/env bash
# Properties of the arm64 programs: for the static one small, the runtime's verbs only; for Android's linker whatever
# it asks of a program. The NDK is not here, so one made of stubs shows what `make TARGET=android` gives its compiler:
# clang compiles for Android, and the cross compiler links a program of the same kind.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL ANDROID_NDK_HOME SYSROOT_ANDROID

elf() { LC_ALL=C aarch64-linux-gnu-readelf -W "$@"; }
misplaced_segments() { # FILE: those that pages of 16 KB could not hold
    local type offset address rest
    while read -r type offset address rest; do
        if [ "$type" = LOAD ] && { ((${rest##* } < 0x4000)) || (((address - offset) % 0x4000)); }; then
            echo "$type $offset $address $rest"
        fi
    done < <(elf -l "$1")
}
check_elf() { # NAME FILE INTERPRETER TYPE
    check_equal "$1 is for AArch64" 1 "$(elf -h "$2" | grep -c 'Machine: *AArch64')"
    check_equal "$1 has the interpreter: ${3:-none}" "$3" "$(elf -l "$2" | sed -n 's/.*program interpreter: \(.*\)\]/\1/p')"
    check_equal "$1 is of type $4" "$4" "$(elf -h "$2" | awk '$1 == "Type:" { print $2 }')"
    check "$1 has segments" grep -q LOAD <<<"$(elf -l "$2")"
    check_equal "$1: its segments suit pages of 16 KB" "" "$(misplaced_segments "$2")"
    check_equal "$1 wants no executable stack" RW "$(elf -l "$2" | awk '$1 == "GNU_STACK" { print $7 }')"
    check_equal "$1 has no text relocations" "" "$(elf -d "$2" | grep TEXTREL)"
}

# --- the static one ------------------------------------------------------------------------------------------------
bin=${FERRY_ARM##* }
check_elf "the static program" "$bin" '' EXEC
check_equal "it has the runtime's verbs" "run chat serve eval bench tune tokenize template selftest agent" \
    "$($FERRY_ARM --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' | xargs)"
for word in libarchive OpenSSL ZSTD_; do
    check_equal "$word is not in it" 0 "$(grep -ac "$word" "$bin")"
done
printf '%s\n' 'outtype = q4_0' '[convert]' 'threads = 1' >"$TMP/config"
check_status "names of verbs that it lacks are no error in a configuration file" 1 'none: cannot open' \
    env FERRY_CONFIG="$TMP/config" $FERRY_ARM run -m "$TMP/none" -p hi
check "a library that is linked is found this way" grep -aqi 'jansson\|duplicate object key' "$bin"
check "it stays below 3.6 MB" test "$(stat -c %s "$bin")" -le 3600000

# --- what TARGET=aarch64 needs ---------------------------------------------------------------------------------------
# Before it compiles anything.
lib=$TMP/part/usr/lib/aarch64-linux-gnu
mkdir -p "$lib" "$TMP/whole/usr/lib/aarch64-linux-gnu"
for a in pcre2-8 utf8proc jansson sodium event_core; do
    touch "$TMP/whole/usr/lib/aarch64-linux-gnu/lib$a.a"
    check_status "without lib$a.a it names scripts/bootstrap" 2 "SYSROOT=$TMP/part holds no lib$a.a.*; run scripts/bootstrap once" \
        make TARGET=aarch64 SYSROOT="$TMP/part"
    touch "$lib/lib$a.a"
done
check_status "nor without the compiler" 2 'there is no aarch64-linux-gnu-none-gcc; run scripts/bootstrap once' \
    make TARGET=aarch64 SYSROOT="$TMP/whole" CC=aarch64-linux-gnu-none-gcc
cp -r "$(dirname "$(realpath "$FERRY")")/ferry" "$TMP/alone"
check_status "create without it says the one command" 2 "'scripts/bootstrap && make TARGET=aarch64' in ferry's source makes it" \
    "$TMP/alone" create tests/data/quantized/tales-q4_K.gguf -o "$TMP/none-built"

# --- what TARGET=android needs ---------------------------------------------------------------------------------------
android() { make TARGET=android "$@"; }
check_status "without an NDK one line reports it" 2 \
    'ANDROID_NDK_HOME is not set; expected the directory of an Android NDK.*TARGET=aarch64 needs none' android
check_status "a directory that is none is named" 2 "ANDROID_NDK_HOME=$TMP holds no toolchains/llvm" android ANDROID_NDK_HOME="$TMP"
check_status "its libraries cannot be made without one either" 1 'ANDROID_NDK_HOME is not set' scripts/android_deps.sh
check_status "nor with a directory that is none" 1 'aarch64-linux-android28-clang: not found' env ANDROID_NDK_HOME="$TMP" scripts/android_deps.sh

tools=$TMP/ndk/toolchains/llvm/prebuilt/linux-x86_64/bin
mkdir -p "$tools" "$TMP"/sysroot/{include,lib}
cat >"$tools/aarch64-linux-android28-clang" <<'EOF'
#!/bin/sh
printf '%s\n' "$*" >>"$NDK_LOG"
case " $* " in
*' -c '*) exec clang --target=aarch64-linux-android28 -idirafter /usr/aarch64-linux-gnu/include "$@" ;;
esac
exec aarch64-linux-gnu-gcc -static-libgcc "$@" -Wl,--dynamic-linker=/system/bin/linker64
EOF
printf '#!/bin/sh\nexec aarch64-linux-gnu-ar "$@"\n' >"$tools/llvm-ar"
chmod +x "$tools"/*
export ANDROID_NDK_HOME=$TMP/ndk NDK_LOG=$TMP/ndk.log SYSROOT_ANDROID=$TMP/sysroot
check_status "libraries that are missing are named, with what makes them" 2 \
    "SYSROOT_ANDROID=$TMP/sysroot holds no lib/libpcre2-8.a .*lib/libsodium.a.*; run scripts/android_deps.sh" android
mkdir "$TMP/sources"
check_status "sources that are missing are named" 1 'holds no pcre2-\*; expected the source trees' scripts/android_deps.sh "$TMP/sources"

# --- a program for Android's linker ----------------------------------------------------------------------------------
# Debian's libraries stand in for those of android_deps.sh, glibc and its headers for Android's.
rm -rf "$TMP/sysroot"
mkdir -p "$TMP"/sysroot/{include,lib}
ln -s "$PWD"/build/sysroot/usr/lib/aarch64-linux-gnu/*.a "$TMP/sysroot/lib/"
ln -s "$PWD"/build/sysroot/usr/include/{,aarch64-linux-gnu/}{pcre2,utf8proc,jansson,sodium,event}* "$TMP/sysroot/include/" 2>/dev/null
check "it builds with the NDK's compiler (a stub), without warnings" android WERROR=1 CFLAGS=-O0 B="$TMP/b"
compiled=$(grep -- ' -c ' "$NDK_LOG") linked=$(grep -v -- ' -c ' "$NDK_LOG")
lacking() { grep -vc -- "$1" <<<"$compiled"; }
for flag in -fPIE -DFERRY_DEVICE '-isystem '"$TMP/sysroot/include"; do
    check_equal "each file is compiled with $flag" 0 "$(lacking "$flag")"
done
check_equal "one program is linked" 1 "$(wc -l <<<"$linked")"
for flag in -pie -Wl,-z,max-page-size=16384 -Wl,-z,common-page-size=16384 -Wl,-z,noexecstack -Wl,-z,text; do
    check "it is linked with $flag" grep -qF -- " $flag " <<<"$linked"
done
check_equal "nothing of this machine's own headers and libraries" "" "$(grep -oE -- '-(I|L|isystem) ?/(usr|lib)[^ ]*' "$NDK_LOG")"
check_elf "the program for Android" "$TMP/b/ferry" /system/bin/linker64 DYN
check "it says that it is position-independent" grep -q 'FLAGS_1.*PIE' <<<"$(elf -d "$TMP/b/ferry")"
check_equal "it needs the system's libraries only" "" "$(elf -d "$TMP/b/ferry" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(lib(c|m|dl)\.so|ld-linux)')"
# Of what Android 9's C library lacks or has only later versions of, nothing may be called.
lacks='reallocarray|timespec_get|explicit_bzero|memfd_create|copy_file_range|renameat2|qsort_r|getloadavg|statx|pthread_(cancel|setcancel.*|[gs]etaffinity_np|tryjoin_np|timedjoin_np|cond_clockwait|mutex_clocklock)|sem_clockwait|strerror(desc|name)_np|sig(abbrev|descr)_np|secure_getenv|canonicalize_file_name|get_current_dir_name|strverscmp|fopencookie|program_invocation.*|error(_at_line)?|argp_.*|backtrace.*|wordexp|posix_spawn_file_actions_addf?chdir_np|close_range|preadv2|pwritev2|thrd_.*|mtx_.*|cnd_.*|tss_.*|call_once|shm_open|mq_.*|getcontext|makecontext|exp10|pow10|eaccess|euidaccess|rawmemchr|obstack_.*|re_.*|__isoc23.*'
check_equal "no function is called that Android 9 lacks" "" \
    "$(aarch64-linux-gnu-nm -u "$TMP/b/libferry.a" "$TMP/b/runtime/program/main.o" 2>/dev/null | awk '$1 == "U" { print $2 }' | sort -u | grep -xE "$lacks")"
check "a model" "$FERRY" convert tests/data/tales -o "$TMP/tales.gguf" -q
mkdir -p "$TMP/phone/system/bin"
ln -s /usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1 "$TMP/phone/system/bin/linker64"
check_equal "and it runs, glibc's linker instead of Android's" "763 408 409 258 410" \
    "$(qemu-aarch64 -L "$TMP/phone" -E LD_LIBRARY_PATH=/usr/aarch64-linux-gnu/lib "$TMP/b/ferry" tokenize -m "$TMP/tales.gguf" 'Once upon a time')"
if [ -x build/android/release/ferry ]; then
    check_elf "what the NDK made here" build/android/release/ferry /system/bin/linker64 DYN
else
    skip "what the NDK made here" "build/android/release/ferry is not there"
fi

# --- workspaces take both --------------------------------------------------------------------------------------------
check "create takes the program for Android" "$FERRY" create "$TMP/tales.gguf" --exe-path "$TMP/b" --no-parity -o "$TMP/ws" -q
check_equal "verify says what it is" "bin/ferry: aarch64, for Android's linker" "$("$FERRY" verify "$TMP/ws" 2>&1 | grep '^bin/')"
check "create takes the static one" "$FERRY" create "$TMP/tales.gguf" --exe-path "$bin" --no-parity -o "$TMP/ws2" -q
check_equal "and verify too" "bin/ferry: aarch64, static" "$("$FERRY" verify "$TMP/ws2" 2>&1 | grep '^bin/')"
printf 'int main(void) { return 0; }\n' >"$TMP/x.c"
aarch64-linux-gnu-gcc -no-pie -Wl,--dynamic-linker=/system/bin/linker64 -o "$TMP/fixed" "$TMP/x.c"
check_status "a program at a fixed address is refused" 2 "fixed address, which Android's linker refuses" \
    "$FERRY" create "$TMP/tales.gguf" --exe-path "$TMP/fixed" --exec bin/fixed --no-parity -o "$TMP/none"
finish
