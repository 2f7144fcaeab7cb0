#!/usr/bin/env bash
# The second compiler builds everything without a warning and gives the same model; every header compiles alone; the
# scripts are clean.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

clang=build/clang/release
check "clang builds ferry without a warning" make -s CC=clang B=$clang WERROR=1 $clang/ferry
check "gcc's and clang's ferry write the same file" bash -c "
    $clang/ferry convert tests/data/tales --outtype q4_0 -o $TMP/clang.gguf &&
    $FERRY convert tests/data/tales --outtype q4_0 -o $TMP/gcc.gguf && cmp $TMP/clang.gguf $TMP/gcc.gguf"
tale() { "$1" run -m "$TMP/gcc.gguf" -p 'Once upon a time' -n 100 --print-ids 2>/dev/null; }
check_equal "and generate the same ids" "$(tale "$FERRY")" "$(tale $clang/ferry)"

# kernel_list.h and the templates over vectors say what has to be defined before them.
bad=
while read -r header; do
    gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-function -Wno-psabi -I. -Iruntime -Iconvert -Iquantize -mavx2 -mfma -mf16c -fsyntax-only \
        -include "$header" -x c /dev/null 2>/dev/null || bad+="$header "
done < <(find runtime convert quantize farm workspace -name '*.h' -not -path '*/arm/*' -not -name kernel_list.h -not -name '*_lanes.h' -not -name 'vnni_*.h')
check_equal "every header compiles alone" "" "$bad"
check_equal "the scripts are clean" "" "$(grep -lE "^#!" scripts/* | xargs shellcheck -S warning -x tests/*.sh tests/*/*.sh .ci/run 2>&1 | head -20)"
finish
