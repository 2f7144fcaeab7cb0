#!/usr/bin/env bash
# The libraries of the device build for Android's C library: PCRE2, utf8proc, jansson and libsodium, compiled with the NDK into
# build/sysroot-android (or $SYSROOT_ANDROID). Debian's arm64 packages will not do, they are for glibc.
#   usage: ANDROID_NDK_HOME=NDK scripts/android_deps.sh [SOURCES]
# SOURCES: a directory with the four source trees (pcre2-*, utf8proc-*, jansson-*, libsodium-*). Without it they are Debian's
# source packages, which take apt-get, dpkg-source (package dpkg-dev) and a network; nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

api=28
out=${SYSROOT_ANDROID:-build/sysroot-android}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

fail() {
    echo "android_deps: $1" >&2
    exit 1
}
[ -n "${ANDROID_NDK_HOME-}" ] || fail "ANDROID_NDK_HOME is not set; set it to the directory of an Android NDK"
bins=("$ANDROID_NDK_HOME"/toolchains/llvm/prebuilt/*/bin)
cc=${bins[0]}/aarch64-linux-android$api-clang
ar=${bins[0]}/llvm-ar
[ -x "$cc" ] || fail "$cc: not found; expected an Android NDK, r25 or newer, in ANDROID_NDK_HOME"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- sources ------------------------------------------------------------------------------------------------------

fetch() { # by a private apt state, as scripts/bootstrap does
    local apt release
    # shellcheck source=/dev/null
    release=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    mkdir -p "$work"/apt/{state/lists/partial,cache/archives/partial} "$1"
    : >"$work/apt/state/status"
    echo "deb-src $mirror ${release:-bookworm} main" >"$work/apt/sources.list"
    apt=(-qq -o "Dir::State=$work/apt/state" -o "Dir::State::status=$work/apt/state/status" -o "Dir::Cache=$work/apt/cache"
        -o "Dir::Etc::sourcelist=$work/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "APT::Sandbox::User=$(id -un)")
    echo "android_deps: fetching the sources of pcre2, utf8proc, jansson and libsodium from $mirror" >&2
    apt-get "${apt[@]}" update
    (cd "$1" && apt-get "${apt[@]}" source --download-only pcre2 utf8proc jansson libsodium)
    for dsc in "$1"/*.dsc; do
        (cd "$1" && dpkg-source --no-check -x "$dsc") >/dev/null 2>&1 || fail "$dsc: cannot be unpacked"
    done
}

if [ $# -gt 0 ]; then
    sources=$(realpath "$1")
else
    for tool in apt-get dpkg-source; do
        command -v $tool >/dev/null || fail "$tool: not found; install it (dpkg-source is in dpkg-dev), or name a directory of sources"
    done
    sources=$work/sources
    fetch "$sources"
fi
tree() { # NAME: its source directory
    local found
    found=$(find "$sources" -mindepth 1 -maxdepth 1 -type d -name "$1-*" -print -quit)
    [ -n "$found" ] || fail "$sources: holds no $1-*; expected the source trees of pcre2, utf8proc, jansson and libsodium"
    echo "$found"
}

# --- libraries ----------------------------------------------------------------------------------------------------

archive() { # LIBRARY OPTIONS... -- SOURCES...
    local lib=$1 src objects=() options=(-O2 -fPIE -std=gnu11)
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    for src; do
        objects+=("$work/$lib-$(basename "$src" .c).o")
        "$cc" "${options[@]}" -c -o "${objects[-1]}" "$src"
    done
    rm -f "$out/lib/$lib.a"
    "$ar" rcs "$out/lib/$lib.a" "${objects[@]}"
    echo "android_deps: $out/lib/$lib.a" >&2
}

pcre2=$(tree pcre2) utf8proc=$(tree utf8proc) jansson=$(tree jansson) sodium=$(tree libsodium)/src/libsodium
rm -rf "$out"
mkdir -p "$out/include" "$out/lib" "$work/pcre2"
out=$(realpath "$out")

# As its NON-AUTOTOOLS-BUILD says, but for pcre2_ucptables.c, which pcre2_tables.c includes.
cp "$pcre2"/src/*.[ch] "$work/pcre2/"
cp -r "$pcre2/src/sljit" "$work/pcre2/"
cp "$pcre2/src/config.h.generic" "$work/pcre2/config.h"
cp "$pcre2/src/pcre2.h.generic" "$work/pcre2/pcre2.h"
cp "$pcre2/src/pcre2_chartables.c.dist" "$work/pcre2/pcre2_chartables.c"
mapfile -t files < <(sed -n 's/^ \{6,\}\(pcre2_[a-z0-9_]*\.c\)$/\1/p' "$pcre2/NON-AUTOTOOLS-BUILD" | grep -v ucptables | sort -u)
[ ${#files[@]} -gt 20 ] || fail "$pcre2/NON-AUTOTOOLS-BUILD: lists ${#files[@]} sources, expected its usual list"
archive libpcre2-8 -DHAVE_CONFIG_H -DPCRE2_CODE_UNIT_WIDTH=8 -DPCRE2_STATIC -DSUPPORT_PCRE2_8 -DSUPPORT_UNICODE \
    -DSUPPORT_JIT -DHAVE_STDINT_H -DHAVE_INTTYPES_H -DHAVE_MEMMOVE -DHAVE_STRERROR -I"$work/pcre2" -- \
    "${files[@]/#/$work/pcre2/}"

archive libutf8proc -DUTF8PROC_STATIC -- "$utf8proc/utf8proc.c"

# Its own configuration for Android; of the private one, which configure would write, the options below are enough. The seed
# of its hash tables comes from /dev/urandom.
mkdir "$work/jansson"
: >"$work/jansson/jansson_private_config.h"
archive libjansson -DHAVE_STDINT_H=1 -DHAVE_SYS_TYPES_H -DHAVE_SYS_STAT_H -DHAVE_SYS_TIME_H -DHAVE_FCNTL_H \
    -DHAVE_UNISTD_H -DHAVE_OPEN -DHAVE_CLOSE -DHAVE_READ -DHAVE_GETPID -DHAVE_GETTIMEOFDAY -DUSE_URANDOM=1 \
    -I"$work/jansson" -I"$jansson/src" -I"$jansson/android" -- "$jansson"/src/*.c

# All of its sources in plain C: without configure's macros none takes instructions that a CPU may lack. configure would also
# write version.h; the one of its Windows builds says the same.
mkdir "$work/sodium"
cp "$sodium/../../builds/msvc/version.h" "$work/sodium/"
mapfile -t files < <(find "$sodium" -name '*.c' | sort)
archive libsodium -DCONFIGURED=1 -DSODIUM_STATIC -I"$work/sodium" -I"$sodium/include/sodium" -I"$sodium/include" -- "${files[@]}"

cp "$work/pcre2/pcre2.h" "$utf8proc/utf8proc.h" "$jansson/src/jansson.h" "$jansson/android/jansson_config.h" "$out/include/"
cp -r "$sodium/include/sodium" "$out/include/"
cp "$work/sodium/version.h" "$out/include/sodium/"
