#!/usr/bin/env bash
# The libraries of the device build for Android's C library: PCRE2, utf8proc, jansson, libsodium and libevent's core, compiled with the NDK into
# build/sysroot-android (or $SYSROOT_ANDROID). Debian's arm64 packages will not do, they are for glibc.
#   usage: ANDROID_NDK_HOME=NDK scripts/android_deps.sh [SOURCES]
# SOURCES: a directory with the five source trees (pcre2-*, utf8proc-*, jansson-*, libsodium-*, libevent-*). Without it they are
# Debian's source packages, which take apt-get, dpkg-source (package dpkg-dev) and a network; nothing is installed.
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
    echo "android_deps: fetching the sources of pcre2, utf8proc, jansson, libsodium and libevent from $mirror" >&2
    apt-get "${apt[@]}" update
    (cd "$1" && apt-get "${apt[@]}" source --download-only pcre2 utf8proc jansson libsodium libevent)
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
    [ -n "$found" ] || fail "$sources: holds no $1-*; expected the source trees of pcre2, utf8proc, jansson, libsodium and libevent"
    echo "$found"
}

# --- libraries ----------------------------------------------------------------------------------------------------

archive() { # LIBRARY OPTIONS... -- SOURCES...
    local lib=$1 src objects=() options=(-O2 -fPIC -std=gnu11)
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

pcre2=$(tree pcre2) utf8proc=$(tree utf8proc) jansson=$(tree jansson) sodium=$(tree libsodium)/src/libsodium event=$(tree libevent)
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

# Its core: configure's answers for a 64-bit Linux with Android's C library, those that its sources ask for.
mkdir -p "$work/event/event2"
cat >"$work/event/event2/event-config.h" <<'EOF'
#ifndef EVENT2_EVENT_CONFIG_H_INCLUDED_
#define EVENT2_EVENT_CONFIG_H_INCLUDED_
#define EVENT__HAVE_ACCEPT4 1
#define EVENT__HAVE_ARC4RANDOM 1
#define EVENT__HAVE_ARC4RANDOM_BUF 1
#define EVENT__HAVE_ARPA_INET_H 1
#define EVENT__HAVE_CLOCK_GETTIME 1
#define EVENT__HAVE_DECL_CTL_KERN 0
#define EVENT__HAVE_DECL_KERN_ARND 0
#define EVENT__HAVE_DECL_KERN_RANDOM 0
#define EVENT__HAVE_DECL_RANDOM_UUID 0
#define EVENT__HAVE_EPOLL 1
#define EVENT__HAVE_EPOLL_CREATE1 1
#define EVENT__HAVE_EPOLL_CTL 1
#define EVENT__HAVE_ERRNO_H 1
#define EVENT__HAVE_EVENTFD 1
#define EVENT__HAVE_FCNTL 1
#define EVENT__HAVE_FCNTL_H 1
#define EVENT__HAVE_GETADDRINFO 1
#define EVENT__HAVE_GETNAMEINFO 1
#define EVENT__HAVE_GETPROTOBYNUMBER 1
#define EVENT__HAVE_GETTIMEOFDAY 1
#define EVENT__HAVE_INET_NTOP 1
#define EVENT__HAVE_INET_PTON 1
#define EVENT__HAVE_INTTYPES_H 1
#define EVENT__HAVE_MMAP 1
#define EVENT__HAVE_NANOSLEEP 1
#define EVENT__HAVE_NETDB_H 1
#define EVENT__HAVE_NETINET_IN_H 1
#define EVENT__HAVE_NETINET_TCP_H 1
#define EVENT__HAVE_PIPE 1
#define EVENT__HAVE_PIPE2 1
#define EVENT__HAVE_POLL 1
#define EVENT__HAVE_POLL_H 1
#define EVENT__HAVE_PUTENV 1
#define EVENT__HAVE_SA_FAMILY_T 1
#define EVENT__HAVE_SENDFILE 1
#define EVENT__HAVE_SETENV 1
#define EVENT__HAVE_SETFD 1
#define EVENT__HAVE_SIGACTION 1
#define EVENT__HAVE_SIGNAL 1
#define EVENT__HAVE_STDARG_H 1
#define EVENT__HAVE_STDDEF_H 1
#define EVENT__HAVE_STDINT_H 1
#define EVENT__HAVE_STDLIB_H 1
#define EVENT__HAVE_STRING_H 1
#define EVENT__HAVE_STRSEP 1
#define EVENT__HAVE_STRTOK_R 1
#define EVENT__HAVE_STRTOLL 1
#define EVENT__HAVE_STRUCT_ADDRINFO 1
#define EVENT__HAVE_STRUCT_IN6_ADDR 1
#define EVENT__HAVE_STRUCT_IN6_ADDR_S6_ADDR16 1
#define EVENT__HAVE_STRUCT_IN6_ADDR_S6_ADDR32 1
#define EVENT__HAVE_STRUCT_SOCKADDR_IN6 1
#define EVENT__HAVE_STRUCT_SOCKADDR_STORAGE 1
#define EVENT__HAVE_STRUCT_SOCKADDR_STORAGE_SS_FAMILY 1
#define EVENT__HAVE_STRUCT_SOCKADDR_UN 1
#define EVENT__HAVE_STRUCT_LINGER 1
#define EVENT__HAVE_SYS_EPOLL_H 1
#define EVENT__HAVE_SYS_EVENTFD_H 1
#define EVENT__HAVE_SYS_IOCTL_H 1
#define EVENT__HAVE_SYS_MMAN_H 1
#define EVENT__HAVE_SYS_PARAM_H 1
#define EVENT__HAVE_SYS_QUEUE_H 1
#define EVENT__HAVE_SYS_RESOURCE_H 1
#define EVENT__HAVE_SYS_SELECT_H 1
#define EVENT__HAVE_SYS_SENDFILE_H 1
#define EVENT__HAVE_SYS_SOCKET_H 1
#define EVENT__HAVE_SYS_STAT_H 1
#define EVENT__HAVE_SYS_TIME_H 1
#define EVENT__HAVE_SYS_TYPES_H 1
#define EVENT__HAVE_SYS_UIO_H 1
#define EVENT__HAVE_SYS_UN_H 1
#define EVENT__HAVE_SYS_WAIT_H 1
#define EVENT__HAVE_UINT16_T 1
#define EVENT__HAVE_UINT32_T 1
#define EVENT__HAVE_UINT64_T 1
#define EVENT__HAVE_UINT8_T 1
#define EVENT__HAVE_UINTPTR_T 1
#define EVENT__HAVE_UNISTD_H 1
#define EVENT__HAVE_USLEEP 1
#define EVENT__HAVE_VASPRINTF 1
#define EVENT__NUMERIC_VERSION 0x02010c00
#define EVENT__SIZEOF_INT 4
#define EVENT__SIZEOF_LONG 8
#define EVENT__SIZEOF_LONG_LONG 8
#define EVENT__SIZEOF_OFF_T 8
#define EVENT__SIZEOF_PTHREAD_T 8
#define EVENT__SIZEOF_SHORT 2
#define EVENT__SIZEOF_SIZE_T 8
#define EVENT__SIZEOF_SSIZE_T 8
#define EVENT__SIZEOF_TIME_T 8
#define EVENT__SIZEOF_VOID_P 8
#define EVENT__TIME_WITH_SYS_TIME 1
#define EVENT__VERSION "2.1.12-stable"
#define EVENT__DISABLE_DEBUG_MODE 1
#define EVENT__DISABLE_THREAD_SUPPORT 1
#endif
EOF
sed 's/^#undef \(.*\)$/\/* #undef \1 *\//' "$event/evconfig-private.h.in" >"$work/event/evconfig-private.h"
files=(buffer bufferevent bufferevent_filter bufferevent_pair bufferevent_ratelim bufferevent_sock event evmap evthread
    evutil evutil_rand evutil_time listener log signal strlcpy epoll poll)
files=("${files[@]/#/$event/}")
files=("${files[@]/%/.c}")
archive libevent_core -D_GNU_SOURCE -Wno-deprecated-declarations -I"$work/event" -I"$event/include" -I"$event" -- \
    "${files[@]}"

cp "$work/pcre2/pcre2.h" "$utf8proc/utf8proc.h" "$jansson/src/jansson.h" "$jansson/android/jansson_config.h" "$out/include/"
cp -r "$event/include/event2" "$work/event/event2" "$sodium/include/sodium" "$out/include/"
cp "$work/sodium/version.h" "$out/include/sodium/"
