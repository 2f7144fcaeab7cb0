#!/usr/bin/env bash
# libferry as another program sees it: what is installed, which names it shows and wants, and that the example of
# docs/api.md, compiled as printed, tells what `ferry run` tells.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

repository=$PWD root=$TMP/root
check "make install-lib" make -s install-lib DESTDIR="$root" PREFIX=/usr
export PKG_CONFIG_PATH=$root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
shared=$root/usr/lib/libferry.so.0
declared=$(grep -oE '\bferry_[a-z0-9_]+\(' runtime/ferry.h | tr -d '(' | sort -u)

check_equal "pkg-config knows the program's version" "$("$FERRY" --version | awk '{ print $2 }')" "$(pkg-config --modversion ferry)"

# --- names -----------------------------------------------------------------------------------------------------------
check_equal "the shared library shows what the header declares, with its version, and no more" \
    "$(awk 'NR == FNR { if ($1 ~ /^FERRY_/) node = $1; sub(/;/, "", $1); of[$1] = node; next }
        { print $1 "@@" (of[$1] != "" ? of[$1] : "FERRY_0") }' runtime/ferry.map - <<<"$declared" | sort)" \
    "$(nm -D --defined-only "$shared" | awk '$3 !~ /^FERRY_[0-9]+$/ { print $3 }' | sort)"
check_equal "the static library likewise" "$declared" \
    "$(nm -g --defined-only "$root/usr/lib/libferry.a" | awk 'NF == 3 { print $3 }' | sort)"
check_equal "its name says which programs it serves" libferry.so.0 \
    "$(readelf -d "$shared" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')"
check_equal "it needs libc, libm, pcre2, utf8proc and jansson alone" "" \
    "$(readelf -d "$shared" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
        grep -vE '^(libc|libm|libpthread|libpcre2-8|libutf8proc|libjansson|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$')"
check_equal "nothing in it prints, ends the program or takes signals" "" \
    "$(nm -D --undefined-only "$shared" | awk '{ sub(/@.*/, "", $NF); print $NF }' |
        grep -xE '_?exit|_Exit|quick_exit|abort|raise|kill|f?printf|v?f?printf|f?puts|f?putc|putchar|perror|fwrite|write|std(in|out|err)|__assert_fail|signal|sigaction|setlocale|setenv|putenv|at_?exit|system|fork')"

# --- the header ------------------------------------------------------------------------------------------------------
cat >"$TMP/header.cc" <<'END'
#include <ferry.h>
int main()
{
    ferry_error e = {};
    ferry_sampler_params p;
    ferry_model *model = nullptr;
    ferry_sampler_params_init(&p, sizeof p);
    return ferry_model_open("none", nullptr, &model, &e) == FERRY_OK && ferry_version() != nullptr;
}
END
if command -v g++ >/dev/null; then cxx=g++; else cxx=clang++; fi
if command -v $cxx >/dev/null; then
    check "C++ takes the header" $cxx -std=c++11 -Wall -Wextra -pedantic -Werror -fsyntax-only \
        -I"$root/usr/include" "$TMP/header.cc"
else
    skip "C++ takes the header" "no C++ compiler"
fi
for standard in c99 c11 c17; do
    check "so does $standard" cc -std=$standard -Wall -Wextra -pedantic -Wstrict-prototypes -Werror -fsyntax-only \
        -x c "$root/usr/include/ferry.h"
done

# --- a program with a locale of its own --------------------------------------------------------------------------------
cat >"$TMP/half.c" <<'END'
#include <ferry.h>
#include <locale.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    ferry_model *model = NULL;
    ferry_chat_template *chat = NULL;
    ferry_chat_params p;
    char text[64] = "";
    size_t n;
    ferry_chat_params_init(&p, sizeof p);
    p.variables = "{\"half\": 0.5}";
    if (argc != 3 || setlocale(LC_ALL, "de_DE.UTF-8") == NULL || ferry_model_open(argv[1], NULL, &model, NULL) ||
        ferry_chat_template_open(model, argv[2], &chat, NULL) ||
        ferry_chat_template_render(chat, "[]", &p, text, sizeof text, &n, NULL))
        return 1;
    ferry_chat_template_free(chat);
    ferry_model_free(model);
    return printf("%s %.1f\n", text, 0.5) < 0;
}
END
printf '{{ half }} {{ half + 0.25 }}' >"$TMP/half.jinja"
check "a model is converted" "$FERRY" convert tests/data/tales --outtype q8_0 -o "$TMP/m.gguf" -q
export LD_LIBRARY_PATH=$root/usr/lib
if mkdir "$TMP/locale" && localedef -i de_DE -f UTF-8 "$TMP/locale/de_DE.UTF-8" 2>/dev/null; then
    # shellcheck disable=SC2046
    check "it compiles" cc "$TMP/half.c" $(pkg-config --cflags --libs ferry) -o "$TMP/half"
    check_equal "the library's numbers have points, the program's keep their commas" "0.5 0.75 0,5" \
        "$(LOCPATH=$TMP/locale "$TMP/half" "$TMP/m.gguf" "$TMP/half.jinja")"
else
    skip "a program with a locale of its own" "no localedef, or no sources of locales"
fi

# --- the example -----------------------------------------------------------------------------------------------------
mkdir "$TMP/example"
cd "$TMP/example" || exit 1
awk '/^```c$/ { code = 1; n++; next } /^```/ { code = 0 } code { print >(n == 1 ? "tale.c" : "tales.c") }' \
    "$repository/docs/api.md"
awk '/^```sh$/ { code = 1; next } /^```/ { code = 0 } code' "$repository/docs/api.md" >build.sh
lines=$(wc -l <tale.c)
check "the example has at most 40 lines" test "$lines" -gt 10 -a "$lines" -le 40
check "two commands build it" test "$(grep -c ^cc build.sh)" -eq 2
for how in shared static; do
    command=$(grep -E "^cc" build.sh | grep -E "$([ $how = static ] && echo '' || echo '^cc [^-]')" | tail -n 1)
    check "it compiles as printed, $how, without a warning" bash -c "${command/#cc/cc -Wall -Wextra -Werror}"
done
check "the example with two texts compiles" bash -c \
    "$(sed -n 's/^cc tale[.]c \(.*\) -o tale$/cc -Wall -Wextra -Werror tales.c \1 -o tales/p' build.sh)"
cd "$repository" || exit 1
for prompt in 'Once upon a time' 'One day, a brave' 'Élan, 42 owls &'; do
    want=$("$FERRY" run -m "$TMP/m.gguf" -p "$prompt" -n 100 --temp 0 2>/dev/null)
    for program in tale tale-static; do
        check_equal "$program tells the tale of '$prompt' as ferry run does" "$want" \
            "$("$TMP/example/$program" "$TMP/m.gguf" "$prompt")"
    done
done
check "the tale is one" test ${#want} -gt 50
check_equal "tales tells two tales at once, each as ferry run does" \
    "$(for prompt in 'Once upon a time' 'One day, a brave'; do
        "$FERRY" run -m "$TMP/m.gguf" -p "$prompt" -n 100 --temp 0 2>/dev/null
    done)" "$("$TMP/example/tales" "$TMP/m.gguf" 'Once upon a time' 'One day, a brave')"
if command -v python3 >/dev/null; then
    awk '/^```python$/ { code = 1; next } /^```/ { code = 0 } code' docs/api.md >"$TMP/tale.py"
    check "the example for Python has at most 15 lines" test "$(wc -l <"$TMP/tale.py")" -ge 8 -a "$(wc -l <"$TMP/tale.py")" -le 15
    check_equal "through ctypes it tells the tale, too" \
        "$("$FERRY" run -m "$TMP/m.gguf" -p 'Élan, 42 owls &' -n 400 --temp 0 -q)" \
        "$(python3 "$TMP/tale.py" "$TMP/m.gguf" 'Élan, 42 owls &')"
    check_status "and gives the library's message" 1 'no-such.gguf: cannot open' python3 "$TMP/tale.py" no-such.gguf Hi
else
    skip "the example for Python" "no python3"
fi
check_status "without arguments it says how it is used" 2 'usage: tale' "$TMP/example/tale"
check_status "a missing file is named, with ferry's exit status" 1 "no-such.gguf" "$TMP/example/tale" no-such.gguf Hi
needs() { # PROGRAM
    readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'
}
check_equal "the shared program asks for the library by its soname" libferry.so.0 \
    "$(needs "$TMP/example/tale" | grep ferry)"
check_equal "the static one for nothing" "" "$(needs "$TMP/example/tale-static")"
finish
