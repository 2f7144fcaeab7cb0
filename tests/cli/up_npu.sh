#!/usr/bin/env bash
# `ferry up --soc --sdk` as far as the workspace: the model is cut and compiled, what is there is not made again, and
# what was interrupted or changed is. With a phone: tests/phone/up.sh.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset FERRY_QNN_SDK QNN_SDK_ROOT QAIRT_SDK_ROOT VIRTUAL_ENV
export HOME=$TMP XDG_CACHE_HOME=$TMP/cache
# the head of an arm64 program is all that create looks at
{ printf '\177ELF\2\1\1' && head -c 9 /dev/zero && printf '\2\0\267\0\1' && head -c 200 /dev/zero; } >"$TMP/ferry"
export FERRY_EXE_PATH=$TMP/ferry
up() { # OPTION...
    status=0
    "$FERRY" up tests/data/tales --soc SM8650 --sdk reference --to create "$@" >"$TMP/out" 2>"$TMP/words" || status=$?
}
skipped() { sed -n 's/^\([a-z]*\): skipped.*/\1/p' "$TMP/words" | xargs; }
made() { sed -n 's/^\([a-z]*\): \(makes\|cuts\).*/\1/p' "$TMP/out" | xargs; }

up --dry-run
check_equal "a dry run names the steps" "convert compile create" "$(made)"
check "and makes nothing" bash -c "! find $TMP/cache -name '*.gguf' -o -name config.json | grep ."
up -o "$TMP/ws"
check_equal "a checkpoint becomes a workspace with context binaries" 0 $status
check "that verify accepts" "$FERRY" verify "$TMP/ws" -q
check_equal "in the recipe that needs no calibration" "SM8650 fp16a8w" "$(jq -r '.ferry.compiled | "\(.soc) \(.recipe)"' "$TMP/ws/tales/qnn/config.json")"
check_equal "cut from what the checkpoint has" bf16 "$("$FERRY" inspect "$TMP/ws/tales/ggml/weights.gguf" --json | jq -r '.types[0].type')"
check_equal "and runs" 0 "$("$FERRY" run -d "$TMP/ws" --qnn-lib reference -p 'One day' -n 4 -q >/dev/null && echo $?)"
check_equal "the cut is gone" "" "$(find "$TMP/cache" -name 'chunk_0.gguf')"
up -o "$TMP/ws"
check_equal "the second run makes nothing" "convert compile create" "$(skipped)"
up -o "$TMP/ws" --dry-run
check_equal "nor would a dry one" "" "$(made)"
up -o "$TMP/4bit" --recipe 16a4w --calibration tests/data/held.txt -c 96 --batch 32,1
check_equal "another recipe, of the same GGUF file" "0 convert" "$status $(skipped)"
check_equal "calibrated, for a chat of 96 positions" "16a4w u8 96 128" \
    "$(jq -r '.ferry.compiled.recipe + " " + .ferry.compiled.kv + " \(.graphs[0].cache_size) \(.graphs[0].context_size)"' "$TMP/4bit/tales/qnn/config.json")"
up -o "$TMP/4bit" --recipe 16a4w --calibration tests/data/held.txt -c 96 --batch 32,1
check_equal "once" "convert compile create" "$(skipped)"
{ cat tests/data/held.txt && echo more; } >"$TMP/text"
up -o "$TMP/4bit" --recipe 16a4w --calibration "$TMP/text" -c 96 --batch 32,1
check_equal "another text is not" "convert" "$(skipped)"
bin=$(find "$TMP/cache" -path '*compiled/qnn/chunk_0.bin' -size +2000k)
printf x | dd of="$bin" bs=1 seek=100 conv=notrunc status=none
up -o "$TMP/ws3" --to compile
check "a binary that was changed is noticed" grep -q 'was changed since it was made' "$TMP/words"
check_equal "and made again" "0 convert" "$status $(skipped)"
up -o "$TMP/ws3"
check "whole" "$FERRY" verify "$TMP/ws3" -q
rm -rf "$TMP/cache" "$TMP/ws"
echo 'graphFinalize code 1002' >"$TMP/faults"
FERRY_REF_FAULTS=$TMP/faults up -o "$TMP/ws"
check_equal "a failure of the library ends it with compile's status" "3 compile:" "$status $(grep -o 'compile: ' "$TMP/words" | head -1 | xargs)"
check "and makes no workspace" test ! -e "$TMP/ws"
up -o "$TMP/ws"
check_equal "the same command then goes on" "0 convert" "$status $(skipped)"

# --- what is given ----------------------------------------------------------------------------------------------------
check_status "a library without a chip" 2 "--sdk: for which chip\? Name it with --soc" "$FERRY" up tests/data/tales --sdk reference --to create
check_status "an unknown chip" 2 "'SM1'" "$FERRY" up tests/data/tales --sdk reference --soc SM1 --to create
check_status "no library" 5 "/none: no QNN library" "$FERRY" up tests/data/tales --sdk /none --soc SM8650 --to create
check_status "an unknown recipe" 2 "chunk: no recipe 'fp17', did you mean fp16" "$FERRY" up tests/data/tales --sdk reference --soc SM8650 --recipe fp17 --to create
check_status "options of compile without a library" 2 "--calibration: is for a model that is compiled; --sdk DIR" "$FERRY" up tests/data/tales --calibration tests/data/held.txt --to create
check_status "its step without a library" 2 "--to compile: with what\? --sdk DIR" "$FERRY" up tests/data/tales --to compile
check_status "a recipe without a library is that of convert" 2 "convert: --recipe: 'fp16' is not one of pure\|llama" "$FERRY" up tests/data/tales --recipe fp16 --to create
check_status "a chip alone wants its libraries" 2 "where are the libraries for V75" "$FERRY" up tests/data/tales --soc SM8650 --to create
finish
