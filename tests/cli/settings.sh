#!/usr/bin/env bash
# Where values come from: the command line, then FERRY_* variables, then the configuration file, then the default.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

m=$TMP/m.gguf
"$FERRY" convert tests/data/tales --outtype q8_0 -q -o "$m"
mkdir -p "$TMP/xdg/ferry" "$TMP/home/.config/ferry"
config=$TMP/xdg/ferry/config
in_config() { printf '%s\n' "$@" >"$config"; }
with() { XDG_CONFIG_HOME=$TMP/xdg "$@"; }
# The number of ids says which -n counted; the default is 128.
count() { # VARIABLE=VALUE... -- OPTION...
    local vars=()
    while [ "$1" != -- ]; do
        vars+=("$1")
        shift
    done
    shift
    env "${vars[@]}" "$FERRY" run --prompt-ids 1,2,3 --ignore-eos --print-ids -q "$@" | wc -w
}

# --- precedence --------------------------------------------------------------------------------------------------
check_equal "the default" 128 "$(count X=1 -- -m "$m")"
in_config "model = $m" 'n-predict = 3'
check_equal "the file counts before the default" 3 "$(with count X=1 --)"
in_config "model = $m" 'n_predict = 3' '[run]' 'n-predict = 4'
check_equal "a verb's section counts before the rest of the file" 4 "$(with count X=1 --)"
check_equal "a variable counts before the file" 5 "$(with count FERRY_N_PREDICT=5 --)"
check_equal "the command line counts before the variable" 6 "$(with count FERRY_N_PREDICT=5 -- -n 6)"
check_equal "an empty variable is not set" 4 "$(with count FERRY_N_PREDICT= --)"
check_equal "FERRY_CONFIG names another file" 128 "$(with count FERRY_CONFIG=/dev/null FERRY_MODEL="$m" --)"
check_equal "the command line silences a wrong variable" 2 "$(count FERRY_N_PREDICT=x -- -m "$m" -n 2)"
cp "$config" "$TMP/home/.config/ferry/config"
check_equal "without XDG_CONFIG_HOME it is ~/.config" 4 "$(unset XDG_CONFIG_HOME && HOME=$TMP/home count X=1 --)"

# --- what excludes each other ------------------------------------------------------------------------------------
check_equal "-m silences a folder from elsewhere" 2 "$(count FERRY_WORK_FOLDER=/nonexistent -- -m "$m" -n 2)"
check_status "two of one source are still a mistake" 2 'ferry run: ' \
    env FERRY_MODEL="$m" FERRY_WORK_FOLDER=/nonexistent "$FERRY" run -p hi
check_equal "-v silences FERRY_QUIET" 1 "$(FERRY_QUIET=1 "$FERRY" inspect -v "$m" 2>&1 >/dev/null | grep -c '^ferry ')"
check_equal "FERRY_QUIET silences the words" "" "$(FERRY_QUIET=yes "$FERRY" run -m "$m" -p hi -n 1 2>&1 >/dev/null)"
check "--quiet=no brings them back" grep -q 'tok/s' <<<"$(FERRY_QUIET=yes "$FERRY" run --quiet=no -m "$m" -p hi -n 1 2>&1 >/dev/null)"

# --- what is never taken from elsewhere --------------------------------------------------------------------------
ferry=$(realpath "$FERRY") tales=$PWD/tests/data/tales
mkdir "$TMP/out"
(cd "$TMP/out" && FERRY_OUTFILE=precious FERRY_DRY_RUN=1 "$ferry" convert "$tales" --outtype q8_0 -q >/dev/null)
check_equal "neither the name of an output nor the job of one call is" tales-2.4M-Q8_0.gguf "$(ls "$TMP/out")"

# --- messages ----------------------------------------------------------------------------------------------------
run=("$FERRY" run -m "$m" -p hi -n 1)
check_status "a wrong variable is named" 2 "^ferry run: FERRY_THREADS: 'abc' is not a whole number$" env FERRY_THREADS=abc "${run[@]}"
check_status "one out of range" 2 "FERRY_TOP_P: '2' is out of range, expected 0 to 1" env FERRY_TOP_P=2 "${run[@]}"
check_status "one that is no choice" 2 "FERRY_CACHE_TYPE_K: 'f8' is not one of f32\|f16" env FERRY_CACHE_TYPE_K=f8 "${run[@]}"
check_status "a flag that is neither yes nor no" 2 "FERRY_QUIET: 'perhaps' is neither yes nor no" env FERRY_QUIET=perhaps "${run[@]}"
check_status "a variable that is not an option is nobody's business" 0 '' env FERRY_THREDS=abc "${run[@]}"
in_config '# mine' 'thread = 2'
check_status "a wrong name in the file, with its line" 2 "^ferry run: $config:2: unknown name 'thread'; did you mean 'threads'\?$" with "${run[@]}"
check_status "for every verb" 2 "^ferry inspect: $config:2: " with "$FERRY" inspect "$m"
in_config '[rnu]'
check_status "a wrong section" 2 "$config:1: unknown verb 'rnu'; did you mean 'run'" with "${run[@]}"
in_config '[inspect]' 'temp = 1'
check_status "an option in another verb's section" 2 "$config:2: 'temp' is not an option of inspect" with "${run[@]}"
in_config 'threads = many'
check_status "a wrong value" 2 "$config:1: threads: 'many' is not a whole number" with "${run[@]}"
check_status "which the command line silences" 0 '' with "${run[@]}" -t 1
in_config 'outfile = x'
check_status "what only the command line may say" 2 "$config:1: 'outfile' is taken from the command line only" with "${run[@]}"
in_config 'broken'
check "help does not read the file" with "$FERRY" run --help
check "nor does version" with "$FERRY" version
check_status "a file that was named and is missing" 1 'FERRY_CONFIG: .*missing: cannot open' env FERRY_CONFIG="$TMP/missing" "${run[@]}"
head -c 70000 /dev/zero | tr '\0' '#' >"$config"
check_status "a file too large for one" 2 'larger than 65536 bytes' with "${run[@]}"
printf 'threads = 1\0\n' >"$config"
check_status "a file with a NUL byte" 2 ':1: a NUL byte' with "${run[@]}"
mkfifo "$TMP/fifo"
check_status "a pipe is not waited for" 2 'not a regular file' env FERRY_CONFIG="$TMP/fifo" timeout 120 "${run[@]}"

# --- told --------------------------------------------------------------------------------------------------------
in_config 'threads = 1'
words=$(with env FERRY_TEMP=0.5 FERRY_SEED=1 "${run[@]}" -v 2>&1 >/dev/null)
check "-v names the file" grep -qF "settings of $config" <<<"$words"
check "and the values from it" grep -qF -- "--threads is '1', from $config:1: threads" <<<"$words"
check "and from variables" grep -qF -- "--temp is '0.5', from FERRY_TEMP" <<<"$words"
finish
