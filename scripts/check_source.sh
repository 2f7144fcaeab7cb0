#!/usr/bin/env bash
# Rules of the tree that a reviewer would otherwise have to remember. Speaks TAP.
#   - includes and symbols point one way: program -> tools -> hub -> {cli, api, server} -> model -> {arch, backend, bundle} -> {format, kernels} -> base
#   - file names are unique, no file is over 800 lines (constant tables named *_table.c excepted)
#   - libraries stay behind their fence, and nothing names a path of the machine it was written on
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

mapfile -t sources < <(find convert quantize workspace runtime -name '*.[ch]' | sort)

# What a module may include besides itself. The rooms of cli and of the tools are modules of their own.
engine="base grammar format kernels arch backend bundle model"
allowed() {
    case $1 in
    base) echo "" ;;
    format | kernels | grammar) echo "base" ;;
    policy) echo "base format" ;;
    toolcall) echo "base" ;;
    arch | backend | bundle) echo "base format kernels" ;;
    model) echo "base grammar format kernels arch backend" ;;
    qnnref) echo "base kernels" ;;
    api) echo "base grammar format kernels arch backend model" ;;
    server) echo "$engine toolcall" ;;
    program) echo "$engine cli hub cli/chat cli/measure cli/serve convert/write workspace/phone" ;; # the list of all verbs
    cli) echo "$engine" ;;
    cli/chat | cli/measure) echo "$engine cli" ;;
    cli/serve) echo "$engine cli server" ;;
    hub) echo "base format kernels cli" ;;
    convert/source | convert/tokenizer) echo "$engine hub" ;;
    convert/write | convert/look) echo "$engine policy cli hub convert/source convert/tokenizer ${1/look/write}" ;;
    quantize) echo "$engine policy cli" ;;
    workspace/farm) echo "base format cli workspace/npu" ;;
    workspace/data) echo "$engine cli" ;;
    workspace/npu) echo "$engine cli hub workspace/data" ;;
    workspace/compile) echo "$engine cli hub workspace/data workspace/npu" ;;
    workspace/pack) echo "$engine policy cli cli/measure hub workspace/data workspace/npu workspace/compile" ;;
    workspace/phone) echo "$engine policy cli cli/chat cli/measure cli/serve hub workspace/data workspace/npu workspace/compile workspace/pack" ;;
    esac
}
module_of() { # the path of a source file, or of a header as it is included -> module
    local p=${1#runtime/}
    case $p in
    convert/hub/* | quantize/policy/*) p=${p#*/} ;; # layers of their own, below the tools
    cli/*/* | convert/*/* | workspace/*/*)
        echo "${p%/*}"
        return
        ;;
    esac
    echo "${p%%/*}"
}
bad=
for f in "${sources[@]}"; do
    m=$(module_of "$f")
    may=" $m $(allowed "$m") "
    while read -r inc; do
        t=$(module_of "$inc")
        [ "$t" = "$inc" ] && bad+="$f: \"$inc\" is not rooted at a module"$'\n' && continue
        case $may in
        *" $t "*) ;;
        *) bad+="$f ($m) includes \"$inc\" ($t)"$'\n' ;;
        esac
    done < <(sed -nE 's/^ *# *include "([^"]+)".*/\1/p' "$f")
done
check_equal "includes point one way" "" "$bad"

# The same for symbols: a declaration in a lower header must not reach what an upper module defines. Needs objects.
objects=build/host/release
if [ ! -d "$objects/runtime" ]; then
    skip "symbols point one way" "no objects in $objects ('make' builds them)"
else
    modules=" $(for f in "${sources[@]}"; do module_of "$f"; done | sort -u | tr '\n' ' ') "
    bad=$(
        for m in $modules; do
            [ "$m" = program ] || echo "may $m $m $(allowed "$m")"
        done
        for f in "${sources[@]}"; do
            [ "${f%.c}" = "$f" ] || [ ! -f "$objects/${f%.c}.o" ] || echo "file $(module_of "$f") $f $objects/${f%.c}.o"
        done
    )
    bad=$(
        {
            grep '^may' <<<"$bad"
            while read -r _ m f o; do
                echo "in $m $f"
                nm -g "$o"
            done < <(grep '^file' <<<"$bad")
        } | awk '
            $1 == "may" { known[$2] = 1; for (i = 3; i <= NF; i++) may[$2, $i] = 1; next }
            $1 == "in" { m = $2; f = $3; next }
            $1 == "U" { n++; name[n] = $2; user[n] = m; file[n] = f; next }
            { home[$3] = m }
            END {
                for (i = 1; i <= n; i++) {
                    h = home[name[i]]
                    if (h != "" && (user[i] in known) && !((user[i], h) in may))
                        print file[i] " (" user[i] ") uses " name[i] " (" h ")"
                }
            }'
    )
    check_equal "symbols point one way" "" "$bad"
fi

check_equal "file names are unique" "" \
    "$(printf '%s\n' "${sources[@]}" | sed 's,.*/,,' | sort | uniq -d)"

check_equal "no source file is over 800 lines" "" \
    "$(find convert quantize workspace runtime tests scripts -name '*.[ch]' -not -name '*_table.[ch]' -exec wc -l {} + |
        awk '$2 != "total" && $1 > 800 { print $2, $1 }')"

fence() { # HEADER ALLOWED_PATTERN
    grep -lE "# *include <$1" "${sources[@]}" | grep -vE "$2"
}
check_equal "libarchive and zstd stay in workspace" "" "$(fence '(archive|zstd)' '^workspace/')"
check_equal "OpenSSL stays in base/hash_openssl.c, bundle/seal.c, hub_cache.c, server/http_tls.c and workspace" "" \
    "$(fence 'openssl/' '^(workspace/|convert/hub/hub_cache.c|runtime/(base/hash_openssl|bundle/seal|server/http_tls).c)')"
check_equal "libsodium stays in bundle/seal.c" "" "$(fence 'sodium' '^runtime/bundle/seal\.c')"
check_equal "libcurl stays in hub_http.c" "" "$(fence 'curl/' '^convert/hub/hub_http.c')"
check_equal "libraries are loaded by qnn_lib.c and opencl_lib.c alone" "" \
    "$(grep -lE '\bdlopen *\(' "${sources[@]}" | grep -vE '^runtime/backend/(qnn/qnn_lib|opencl/opencl_lib)\.c')"
check_equal "libevent stays in the server's files of the network thread" "" \
    "$(fence 'event2/' '^runtime/server/(http_conn|http_tls|server)\.[ch]$')"
check_equal "libyaml stays in convert/source/model_card.c" "" "$(fence 'yaml' '^convert/source/model_card\.c')"
check_equal "PCRE2 stays in the vocabulary and convert/source/lora_config.c" "" \
    "$(fence 'pcre2' '^(runtime/model/vocab/|convert/(source/lora_config|write/model_id)\.c)')"
check_equal "utf8proc stays in vocabulary, templates and chat_wrap.c" "" \
    "$(fence 'utf8proc' '^runtime/(model/(vocab|template)/|cli/chat/chat_wrap\.c)')"
check_equal "jansson stays out of format, kernels, arch, backend, and of base but for json_tree" "" \
    "$(fence 'jansson' '^(convert|quantize|workspace|runtime/(cli|bundle|model|toolcall|server|grammar))/|^runtime/base/json_tree\.')"
check_equal "jansson's parser is used by a driver of its own alone: it loses letters when memory runs out (base/json_tree.h)" "" \
    "$(grep -rnE '\bjson_load(s|b|f|fd|_file|_callback) *\(' --include='*.[ch]' convert quantize workspace runtime tests |
        grep -v '^tests/e2e/qnn_driver\.c:')"
check_equal "the library never exits or prints" "" \
    "$(grep -nE '\b(exit|abort|printf|puts|perror) *\(' "${sources[@]}" |
        grep -vE '^runtime/cli/|fy_[a-z_]*printf|snprintf|fprintf\(stderr' | grep -vE '/cmd_[a-z]+\.c:')"
banned=$(grep -vE '^#' scripts/banned_words | cut -f1 | paste -sd'|')
check_equal "no phrase of scripts/banned_words" "" \
    "$(git ls-files '*.c' '*.h' '*.sh' '*.md' Makefile scripts | grep -vE '^(tests/data/|scripts/banned_words)' | xargs grep -niE -- "$banned" | cut -c1-160)"
unopened=
for f in "${sources[@]}"; do
    [[ $f != *.c || $(head -c 2 "$f") = '/*' ]] || unopened+="$f "
done
check_equal "every .c opens with what it is for" "" "$unopened"
check_equal "nothing of the NPU vendor's package is in the tree" "" \
    "$( (git ls-files | grep -E '(lib(Qnn(Htp|System|Saver|Cpu|Gpu|Ir)|HtpPrepare|Genie)[^/]*\.so|onnxruntime_qnn.*\.whl)$'
        git grep -lIE 'Confidential and Proprietary [-] Qual[c]omm|Copyright \(c\).*Qual[c]omm|QNN_API[^_]|Qnn_ErrorHandle_t' -- . ':!scripts/check_source.sh') 2>/dev/null | head -5)"
check_equal "test scripts can be run" "" "$(find tests/cli tests/e2e tests/golden -name '*.sh' ! -perm -u+x)"
check_equal "no path of one machine is in the tree" "" \
    "$(git grep -nIE '/(home|root|work)/[a-z]' -- . ':!scripts/check_source.sh' ':!tests/data' 2>/dev/null | head -5)"
finish
