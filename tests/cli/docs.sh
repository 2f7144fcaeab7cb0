#!/usr/bin/env bash
# Every command that a reader may copy is run: those of README.md and docs/*.md, and the examples of --help and of the
# manual pages. docs/command-line.md ("Commands in this documentation") states the rules that this test enforces:
#   - In Markdown a command is a line of a code block that begins with "$ ", or whose first word, after NAME=VALUE, is one
#     of $runners below. In --help and manual pages it is a line below Examples that does not begin with '#'.
#   - The commands of one block run in order, in a directory of their own that holds the files named in $prepared.
#   - A command exits with 0, unless a comment after it ends in "exit status N".
#   - Lines after a "$ " command are its output. Numbers with a unit are not compared; "..." stands for any lines;
#     lines that begin with "> " are what the user types.
#   - make is asked whether it knows the target; scripts of the repository must be there; a command that needs a phone
#     or the network is only read, with --help after it (tests/phone and tests/e2e/fetch.sh run such ones). What else
#     cannot run here is listed in $exceptions with its reason; a line there that no page has any more is a failure too.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
export LC_ALL=C.UTF-8

runners='ferry make echo cat printf jq curl wget git adb sudo apt apt-get npm node python python3 ./scripts/* scripts/*'
declare -A exceptions=(
    ['python golden.py checkpoint "Once upon a time there was a" golden.safetensors']="needs torch and transformers"
    ['python tests/peer/compare_logits.py build/ferry tests/data/families/*/']="needs llama.cpp as a Python package"
    ['python tests/peer/random_checkpoints.py build/ferry --seeds 0:20']="needs torch and transformers"
    ['python tests/peer/random_checkpoints.py build/ferry --only gemma4 --seeds 17 --keep /tmp/gemma4']="needs torch and transformers"
    ['python tests/peer/kl_divergence.py build/ferry tests/data/held.txt tests/data/tales tests/data/draft tests/data/relu']="needs torch and transformers"
    ['python tests/peer/quality.py tests/data/tales tests/data/quality --ferry build/ferry']="needs torch and transformers"
    ['ferry plan model.gguf --hot 2G --activations counts.gguf -o model.gpuidx']="needs counts of a model with ReLU (tests/golden/hot.sh)"
    ["ferry run -m hot.gguf -p 'Once upon a time' -n 32 --mlock-hot"]="needs a model with hot neurons (tests/golden/hot.sh)"
    ["ferry run -m hot.gguf -p 'Once upon a time' -n 32 --gpu-hot"]="needs a GPU, or PoCL (tests/e2e/gpu_hot.sh)"
    ['ferry farm -j 64 convert checkpoint --outtype q4_0 -o model.gguf']="needs a cluster (tests/e2e/slurm.sh)"
    ['ferry farm -j 64 --sbatch=--partition=long --sbatch=--cpus-per-task=8 convert checkpoint -o model.gguf']="needs a cluster (tests/e2e/slurm.sh)"
    ['ferry serve -m model.gguf']="serves until it is ended (tests/e2e/serve.sh)"
    ['ferry serve -d workspace --port 9000 -np 8 -c 2048']="serves until it is ended (tests/e2e/serve.sh)"
    ["curl http://127.0.0.1:8080/completion -d '{\"prompt\": \"Once upon a time\"}'"]="needs a server (tests/e2e/serve.sh)"
    ["curl -X POST 'http://127.0.0.1:8080/slots/0?action=save' -d '{\"filename\": \"tale\"}'"]="needs a server (tests/e2e/serve_slots.sh)"
    ["curl -X POST 'http://127.0.0.1:8080/slots/0?action=restore' -d '{\"filename\": \"tale\"}'"]="needs a server (tests/e2e/serve_slots.sh)"
    ["curl -X POST 'http://127.0.0.1:8080/slots/0?action=erase'"]="needs a server (tests/e2e/serve_slots.sh)"
    ['python tests/peer/perplexity_cut.py build/ferry tests/data/held.txt tests/data/tales tests/data/draft']="needs llama.cpp as a Python package"
    ['python tests/peer/llama_server_suite.py build/ferry']="needs llama.cpp's tests"
    ['python tests/peer/powerinfer.py build/ferry PowerInfer/build/libllama.so --source PowerInfer']="needs PowerInfer, built"
    ['python tests/peer/serve_anthropic.py build/ferry tests/data/tales']="needs Anthropic's client as a Python package"
)
prepared='checkpoint model.gguf draft.gguf model-f16.gguf model-f32.gguf model-q8_0.gguf workspace phone.tar.zst device/ferry
    golden.safetensors held.txt hellaswag.jsonl lambada.jsonl prompt.txt messages.json tools.json sweep.json template.jinja parity.json signed key.pem key.pub.pem cut tests'

# --- what the examples take for granted ----------------------------------------------------------------------------
repository=$PWD
mkdir -p "$TMP/bin" "$TMP/home" "$TMP/ready/device"
ln -s "$(realpath "$FERRY")" "$TMP/bin/ferry"
export PATH=$TMP/bin:$PATH HOME=$TMP/home XDG_CONFIG_HOME=$TMP/home/.config SOURCE_DATE_EPOCH=1721995200
if [ -x build/aarch64/release/ferry ]; then
    cp build/aarch64/release/ferry "$TMP/ready/device/ferry"
else # the head of an arm64 program is all that `create` looks at
    { printf '\177ELF\2\1\1'; head -c 9 /dev/zero; printf '\2\0\267\0'; head -c 3000000 /dev/zero; } >"$TMP/ready/device/ferry"
    chmod +x "$TMP/ready/device/ferry"
fi
export FERRY_EXE_PATH=$TMP/ready/device/ferry
export FERRY_QUICK=1 # a selftest in full is in tests/e2e/workspace.sh
(
    set -e
    cd "$TMP/ready"
    ln -s "$repository/tests" tests
    cp -r "$repository/tests/data/tales" checkpoint
    cp checkpoint/golden_long.safetensors golden.safetensors
    cp tests/data/held.txt held.txt
    cp tests/data/quality/choices.jsonl hellaswag.jsonl
    cp tests/data/quality/last_word.jsonl lambada.jsonl
    for type in f32 f16 q8_0; do
        ferry convert checkpoint --outtype $type -o model-$type.gguf -q
    done
    cp model-q8_0.gguf model.gguf
    ferry convert tests/data/draft --outtype q8_0 -o draft.gguf -q
    ferry create model.gguf -o phone -q
    ferry chunk model.gguf --chunks 2 -o cut -q
    ferry pack phone -q
    mv phone workspace
    ferry keygen -o key -q
    cp -r workspace signed
    ferry sign signed --key key.pem -q
    echo 'Once upon a time' >prompt.txt
    echo '[{"role": "user", "content": "Tell me a tale."}]' >messages.json
    echo '[]' >tools.json
    echo '{"models": ["checkpoint"], "types": ["q8_0"], "out": "sweep", "workspaces": false}' >sweep.json
    printf '%s' '{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}' >template.jinja
    # a case for `template --verify`, and for `tokenize --verify` too
    echo '{"cases": [{"name": "one", "messages": [{"role": "user", "content": "Hi"}], "tools": null, "extra": {},' \
        '"add_generation_prompt": true, "expected": "user: Hi;", "text": "user: Hi;",' \
        "\"ids\": [$(ferry tokenize -m model.gguf --no-bos 'user: Hi;' | sed 's/ /, /g')]}]}" >parity.json
) || { not_ok "the files that the examples name can be made" && finish; exit 1; }
for name in $prepared; do
    check "there is $name" test -e "$TMP/ready/$name"
done

# --- reading ---------------------------------------------------------------------------------------------------------
# Prints "BLOCK", "CMD LINE TEXT" and "OUT TEXT" lines.
markdown() { # FILE
    awk -v runners="$runners" '
        BEGIN {
            n = split(runners, names)
            for (i = 1; i <= n; i++) { gsub(/[.]/, "[.]", names[i]); gsub(/[*]/, ".*", names[i]) }
        }
        function is_command(text,    words, i, w) {
            while (text ~ /^[A-Z_][A-Z0-9_]*=[^ ]* /) sub(/^[^ ]* /, "", text)
            split(text, words, " ")
            w = words[1]
            for (i = 1; i <= n; i++) if (w ~ "^" names[i] "$") return 1
            return 0
        }
        function line(text) {
            if (!inside) { print "BLOCK"; inside = 1; session = 0 }
            if (text ~ /^\$ /) { session = 1; print "CMD " NR " " substr(text, 3) }
            else if (session) print "OUT " text
            else if (is_command(text)) print "CMD " NR " " text
        }
        /^```/ { fence = !fence; inside = 0; next }
        fence { line($0); next }
        /^    / { line(substr($0, 5)); next }
        /^ *$/ { next }
        { inside = 0 }
    ' "$1"
}
examples() { # TEXT with one example per line
    awk '/^#/ || /^ *$/ { next } { if (!n++) print "BLOCK"; print "CMD " NR " " $0 }' <<<"$1"
}

# --- running ---------------------------------------------------------------------------------------------------------
masked() {
    sed -E 's/[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)? (ms|s|MB|MB\/s|GB|tok\/s)\b/N \3/g; s/[0-9.]+e[-+][0-9]+/N/g; s/ +/ /g; s/ $//' |
        grep -v '^ *$'
}
# Does the text match what the page shows, where a line "..." stands for any lines?
matches() { # SHOWN GOT
    awk -v shown="$1" -v got="$2" '
        function fits(i, j) {
            if (i > n) return j > m
            if (want[i] == "...") return fits(i + 1, j) || (j <= m && fits(i, j + 1))
            return j <= m && want[i] == have[j] && fits(i + 1, j + 1)
        }
        BEGIN { n = split(shown, want, "\n"); m = split(got, have, "\n"); exit !fits(1, 1) }'
}
declare -A used
run_command() { # PLACE COMMAND SHOWN
    local place=$1 command=$2 shown=$3 want=0 status=0 typed got bare
    bare=$(sed -E 's/ +# .*//' <<<"$command")
    [[ $command =~ \#.*exit\ status\ ([0-9]+)$ ]] && want=${BASH_REMATCH[1]}
    typed=$(sed -n 's/^> //p' <<<"$shown")
    shown=$(grep -v '^> ' <<<"$shown")
    local words=$bare
    while [[ $words =~ ^[A-Z_][A-Z0-9_]*=[^\ ]*\ (.*)$ ]]; do
        words=${BASH_REMATCH[1]}
    done
    if [ -n "${exceptions[$bare]+x}" ]; then
        used[$bare]=1
        skip "$place: $bare" "${exceptions[$bare]}"
        return
    fi
    case $words in
    make*)
        # shellcheck disable=SC2086
        check "$place: $bare" make -n -C "$repository" ${words#make}
        return
        ;;
    ./scripts/* | scripts/*)
        check "$place: $bare" bash -n "$repository/${words%% *}"
        return
        ;;
    'ferry doctor --list-quirks') ;;
    'ferry fetch '* | *' --fetch'* | 'ferry push '* | 'ferry pull '* | 'ferry doctor'* | 'ferry up '* | *'--device'* | *' -s R5'*)
        check "$place: $bare" bash -c "cd '$TMP/here' && $bare --help"
        return
        ;;
    esac
    got=$(cd "$TMP/here" && timeout 300 bash -c "$command" 2>&1 <<<"$typed") || status=$?
    if [ "$status" -ne "$want" ]; then
        not_ok "$place: $bare" "exit status $status, wanted $want: $(head -c 2000 <<<"$got")"
    elif [ -n "$shown" ] && ! matches "$(masked <<<"$shown")" "$(masked <<<"$got")"; then
        not_ok "$place: $bare" "shown:"$'\n'"$(masked <<<"$shown")"$'\n'"but it says:"$'\n'"$(masked <<<"$got")"
    else
        ok "$place: $bare"
    fi
}
run_page() { # NAME < what markdown or examples print
    local name=$1 kind number rest command='' place='' shown=''
    flush() {
        [ -z "$command" ] || run_command "$place" "$command" "$shown"
        command='' shown=''
    }
    while IFS= read -r line <&3; do
        kind=${line%% *} rest=${line#* }
        case $kind in
        BLOCK)
            flush
            rm -rf "$TMP/here"
            cp -al "$TMP/ready" "$TMP/here"
            ;;
        CMD)
            flush
            number=${rest%% *} command=${rest#* }
            place=$name:$number
            ;;
        OUT) shown+=${rest}$'\n' ;;
        esac
    done 3<&0
    flush
}

for page in README.md docs/*.md; do
    run_page "$page" < <(markdown "$page")
done
missing=
while read -r path; do
    compgen -G "$path*" >/dev/null || missing+="$path "
done < <(grep -ohE '\b(tests|runtime|convert|quantize|scripts|workspace/(data|npu|pack|phone))/[A-Za-z0-9_./-]+' README.md docs/*.md |
    grep -v NAME | sort -u)
check_equal "every path that a page names is there" "" "$missing"
check_equal "README.md has at most 150 lines" "" "$(wc -l <README.md | awk '$1 > 150')"
run_page 'ferry --help' < <(examples "$(ferry --help | sed -n '/^A first session:$/,/^$/s/^  //p')")
for verb in $(ferry --version --json | jq -r '.verbs[]'); do
    run_page "ferry $verb --help" < <(examples "$(ferry "$verb" --help | sed -n '/^Examples:$/,/^$/s/^  //p')")
done
# A page of the manual has the examples of --help (tests/cli/man.sh); here what its reader would paste is run once.
page=$(ferry man | mandoc -T utf8 -O width=200 | col -bx | sed -n '/^EXAMPLES$/,/^[A-Z]/s/^ \{5,\}//p')
run_page 'ferry(1)' < <(examples "$page")

for command in "${!exceptions[@]}"; do
    check_equal "the exception is still needed: $command" 1 "${used[$command]-}"
done
finish
