#!/usr/bin/env bash
# What `make install` puts down works from there: program, data, man pages, completion.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

root=$TMP/root
check "make install" make -s install DESTDIR="$root" PREFIX=/usr
bin=$root/usr/bin/ferry
verbs=$($bin --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
check "the installed program runs" "$bin" --version
check "the reference library for the NPU is installed" test -f "$root/usr/lib/ferry/libQnnRef.so"
check "with that of metadata" test -f "$root/usr/lib/ferry/libQnnRefSystem.so"
check "the installed program checks it" env -u FERRY_REF_FAULTS "$bin" doctor --qnn --sdk reference
check "chips and recipes are there to read" diff -r -x '*.[ch]' workspace/data "$root/usr/share/ferry"
for page in "$root"/usr/share/man/man1/*.1; do
    check_equal "$(basename "$page") is clean" "" "$(mandoc -T lint -W warning "$page" 2>&1)"
done
for verb in $verbs; do
    page=$(mandoc -T ascii "$root/usr/share/man/man1/ferry-$verb.1" | col -b)
    missing=
    for option in $($bin "$verb" --help | grep -oE '^ +(-[a-z]+, )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
        grep -qF -- "$option" <<<"$page" || missing+="$option "
    done
    check_equal "the page of $verb names every option" "" "$missing"
done

complete_bash() { # WORD...
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ferry; printf "%s\n" "${COMPREPLY[@]}"' - \
        "$root/usr/share/bash-completion/completions/ferry" "$@"
}
check_equal "bash completes a verb" convert "$(complete_bash ferry conv)"
check_equal "bash completes an option" --outtype "$(complete_bash ferry convert --outt)"
check_equal "bash completes a choice" q8_0 "$(complete_bash ferry convert --outtype q8)"
check_equal "zsh accepts the completion" "" "$(zsh -n "$root/usr/share/zsh/site-functions/_ferry" 2>&1)"
check_equal "fish completes a verb" convert \
    "$(fish --no-config -c "source $root/usr/share/fish/vendor_completions.d/ferry.fish; complete -C 'ferry conv'" | cut -f1)"
check_equal "fish completes an option" --outtype \
    "$(fish --no-config -c "source $root/usr/share/fish/vendor_completions.d/ferry.fish; complete -C 'ferry convert --outt'" | cut -f1)"

$bin convert tests/data/tales --outtype q8_0 -o "$TMP/m.gguf" 2>/dev/null
check "create finds the installed device program" "$bin" create "$TMP/m.gguf" -o "$TMP/ws"
check "the workspace holds it" cmp "$root/usr/libexec/ferry/aarch64/ferry" "$TMP/ws/bin/ferry"
finish
