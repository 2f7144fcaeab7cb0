#!/usr/bin/env bash
# The trained models of the demo against their reference: logits of the end of 700 tokens, and the greedy continuation of
# every prompt and chat id for id; on this machine, and of some with scalar kernels and on emulated arm64.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

greedy() { # PROGRAM FILE GOLDEN KIND INDEX
    local ids want got
    ids=$(jq -r ".$4[$5].input_ids | map(tostring) | join(\",\")" "$3")
    want=$(jq -r ".$4[$5].output_ids[:-1] | map(tostring) | join(\" \")" "$3")
    got=$($1 run -m "$2" --prompt-ids "$ids" -n 400 --print-ids -ctk f32 -ctv f32 -q)
    [ "$got" = "$want" ] || {
        printf 'wanted %s\ngot    %s\n' "$want" "$got"
        return 1
    }
}
arm_a53="qemu-aarch64 -cpu cortex-a53 ${FERRY_ARM##* }"
demo() { # NAME DIR
    local f=$TMP/$1.gguf golden=$2/golden.json kind i
    check "$1 converts to f32" "$FERRY" convert "$2" --outtype f32 -o "$f"
    check "$1: 700 tokens" "$FERRY" eval -m "$f" --golden "$2/golden_long.safetensors"
    check "$1: 700 tokens, scalar kernels" env FY_CPU_MASK=0 "$FERRY" eval -m "$f" --golden "$2/golden_long.safetensors"
    # relu has tales' shape and draft its activation: the longest of these checks is made for two of the three
    [ "$1" = tales ] || check "$1: 700 tokens, arm64" $FERRY_ARM eval -m "$f" --golden "$2/golden_long.safetensors"
    for kind in plain chat; do
        for i in 0 1 2 3; do
            check "$1: $kind $i, greedy ids" greedy "$FERRY" "$f" "$golden" $kind $i
        done
        for i in 1 2; do
            check "$1: $kind $i, greedy ids, scalar kernels" greedy "env FY_CPU_MASK=0 $FERRY" "$f" "$golden" $kind $i
        done
        check "$1: $kind 1, greedy ids, arm64" greedy "$FERRY_ARM" "$f" "$golden" $kind 1
        check "$1: $kind 2, greedy ids, arm64 without dot product instructions" greedy "$arm_a53" "$f" "$golden" $kind 2
    done
}
demo tales tests/data/tales
demo draft tests/data/draft
demo relu tests/data/relu
finish
