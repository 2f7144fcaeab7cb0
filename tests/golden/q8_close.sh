#!/usr/bin/env bash
# q8_close.sh FILE GOLDEN: the bound for q8_0 weights with 8-bit activations on random models: RMS of the difference
# at most 10 % of the RMS of the logits, top-1 equal at 85 % of the positions.
cd "$(dirname "$0")/../.." || exit 1
out=$(${FERRY:-build/ferry} eval -m "$1" --golden "$2" --tolerance 1 --json) || true
jq -e '.logits.rms_ratio <= 0.10 and .logits.top1_agreement >= 0.85' <<<"$out" >/dev/null || {
    echo "$out"
    exit 1
}
