#!/usr/bin/env bash
# Completion as the shells themselves do it: bash with its own variables filled in, zsh at a pseudo-terminal, fish by
# `complete -C`. What may be completed comes from the option table.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

for shell in bash zsh fish; do
    "$FERRY" completion $shell >"$TMP/ferry.$shell"
done
check_equal "an unknown shell is refused with the nearest one" \
    "ferry: completion: 'bsh' is not one of bash|zsh|fish; did you mean bash?" "$("$FERRY" completion bsh 2>&1)"
verbs=$("$FERRY" --version --json | jq -r '.verbs[]' | sort | xargs)

# A place with names of every kind.
here=$TMP/here
mkdir -p "$here/models" "$here/more"
touch "$here"/{big.gguf,notes.txt,'two words.gguf',messages.json}

# --- bash --------------------------------------------------------------------------------------------------------
check "bash accepts its file" bash -n "$TMP/ferry.bash"
check "shellcheck accepts it" shellcheck -s bash "$TMP/ferry.bash"
cat >"$TMP/drive.bash" <<'EOF'
. "$1"
cd "$2" || exit 1
shift 2
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_ferry
printf '%s\n' "${COMPREPLY[@]}"
EOF
in_bash() { # WORD...: what may stand in the last word's place, sorted
    bash --norc --noprofile "$TMP/drive.bash" "$TMP/ferry.bash" "$here" "$@" 2>&1 | sort | xargs -d '\n'
}

# --- fish --------------------------------------------------------------------------------------------------------
check "fish accepts its file" fish --no-config -n "$TMP/ferry.fish"
in_fish() { # WORD...
    (cd "$here" && HOME=$TMP/home fish --no-config -c "source $TMP/ferry.fish; complete -C '$*'" 2>&1) | cut -f1 | sort | xargs -d '\n'
}

# --- zsh ---------------------------------------------------------------------------------------------------------
check "zsh accepts its file" zsh -n "$TMP/ferry.zsh"
cat >"$TMP/drive.zsh" <<'EOF'
# FILE DIR OUT LINE...: types each line and a TAB at an interactive zsh; OUT gets what the line has become.
file=$1 dir=$2 out=$3
shift 3
zmodload zsh/zpty
zpty shell zsh -f -i
wait_for() { # N: lines in OUT
    for _ in {1..3000}; do
        [[ $(wc -l <$out) -ge $1 ]] && return
        zpty -rt shell part
        sleep 0.02
    done
}
: >$out
zpty -w shell "PS1=; stty -echo; cd ${(q)dir}; autoload -U compinit; compinit -D -u; source ${(q)file}"
zpty -w shell "tell() { print -r -- \$BUFFER >>${(q)out}; BUFFER= }; zle -N tell; bindkey '^X^D' tell; print ready >>${(q)out}"
n=1
wait_for $n
for line; do
    zpty -n -w shell $line$'\t\x18\x04'
    wait_for $((++n))
done
zpty -d shell
sed 1d $out
EOF

# Each case: the line up to the TAB, what bash and fish offer for its last word, and what zsh makes of the line
# ("=": the line and a blank more).
cases=()
case_() { cases+=("$1|$2|$3"); }
case_ 'ferry conv' 'convert' 'ferry convert '
case_ 'ferry completion fi' 'fish' 'ferry completion fish '
case_ 'ferry help quan' 'quantize' 'ferry help quantize '
case_ 'ferry man tok' 'tokenize' 'ferry man tokenize '
case_ 'ferry convert --outt' '--outtype' 'ferry convert --outtype='
case_ 'ferry convert --outtype q8' 'q8_0' 'ferry convert --outtype q8_0 '
case_ 'ferry convert ./mod' './models/' 'ferry convert ./models/'
case_ 'ferry quantize a.gguf b.gguf q8' 'q8_0' 'ferry quantize a.gguf b.gguf q8_0 '
case_ 'ferry quantize -t 2 a.gguf b.gguf bf' 'bf16' 'ferry quantize -t 2 a.gguf b.gguf bf16 '
case_ 'ferry run -ctk f3' 'f32' 'ferry run -ctk f32 '
case_ 'ferry run -m b' 'big.gguf' 'ferry run -m big.gguf '
case_ 'ferry run --model tw' 'two words.gguf' 'ferry run --model two\ words.gguf '
case_ 'ferry run --model=b' '=big.gguf' 'ferry run --model=big.gguf '
case_ 'ferry run -d mod' 'models/' 'ferry run -d models/'
case_ 'ferry run -f no' 'notes.txt' 'ferry run -f notes.txt '
case_ 'ferry create bi' 'big.gguf' 'ferry create big.gguf '
case_ 'ferry create big.gguf bi' 'big.gguf' 'ferry create big.gguf big.gguf '
case_ 'ferry version --j' '--json' ''

lines=()
for c in "${cases[@]}"; do
    lines+=("${c%%|*}")
done
HOME=$TMP zsh -f "$TMP/drive.zsh" "$TMP/ferry.zsh" "$here" "$TMP/zsh.out" "${lines[@]}" >"$TMP/zsh.lines" 2>"$TMP/zsh.err" </dev/null
mapfile -t became <"$TMP/zsh.lines"
for i in "${!cases[@]}"; do
    IFS='|' read -r line want zsh_want <<<"${cases[i]}"
    read -ra typed <<<"$line"
    # bash cuts at the =, fish offers the whole word; the slash after a directory is readline's work
    cut=()
    for word in "${typed[@]}"; do
        case $word in
        *=*) cut+=("${word%%=*}" "=" "${word#*=}") ;;
        *) cut+=("$word") ;;
        esac
    done
    name=${want#=}
    check_equal "bash: $line" "${name%/}" "$(in_bash "${cut[@]}")"
    [[ $want != =* ]] || want=--model=${want#=}
    check_equal "fish: $line" "$want" "$(in_fish "$line")"
    [ -z "$zsh_want" ] || check_equal "zsh: $line" "$zsh_want" "${became[i]}"
done

# What cannot be known is not guessed, and what a verb has not is not offered.
check_equal "bash offers every verb" "$(tr ' ' '\n' <<<"--help --version $verbs completion help man version" | sort | xargs)" "$(in_bash ferry '')"
check_equal "no files in a number's place" "" "$(in_bash ferry run -t '')"
check_equal "nor for fish" "" "$(in_fish 'ferry run -t ')"
check_equal "only models and directories where a model is meant" "big.gguf models more two words.gguf" "$(in_bash ferry run -m '')"
check_equal "only directories where a directory is meant" "models more" "$(in_bash ferry convert '')"
for verb in $verbs; do
    want=$("$FERRY" "$verb" --help | grep -oE '^ +(-[A-Za-z]+, )?--[a-z-]+' | grep -oE -- '--[a-z-]+' | cat - <(echo --help) | sort | xargs)
    check_equal "bash offers every option of $verb" "$want" "$(in_bash ferry "$verb" --)"
    check_equal "fish offers every option of $verb" "${want/--help /}" "$(in_fish "ferry $verb --" | sed 's/--help //')"
done
finish
