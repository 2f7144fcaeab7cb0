#!/usr/bin/env bash
# `ferry eval` for quality: divergences from a saved base, multiple choice and last words, against what transformers, numpy
# and the rules of lm-evaluation-harness make of the demo's checkpoints (tests/peer/kl_divergence.py, quality.py).
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

text=tests/data/held.txt data=tests/data/quality f32=$TMP/tales.gguf base=$TMP/base.klb
near() { # FOUND EXPECTED RATIO
    awk -v a="$1" -v b="$2" -v r="$3" 'BEGIN { d = a / b - 1; exit !(d < r && d > -r) }'
}
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }
above() { below "$2" "$1"; }
kl() { "$FERRY" eval -m "$1" --text "$text" --kl-base "$base" --json -q "${@:2}"; }

# --- divergence from a base
for m in tales draft; do "$FERRY" convert tests/data/$m --outtype f32 -o "$TMP/$m.gguf" -q; done
for t in q8_0 q4_0; do "$FERRY" convert tests/data/tales --outtype $t -o "$TMP/$t.gguf" -q; done
out=$("$FERRY" eval -m "$f32" --text $text --kl-save "$base" --json -q)
check_equal "a saved position takes 12 bytes and 2 for each token" \
    "$((96 + 9709 * (12 + 2 * 768) + 32)) $(stat -c %s "$base")" \
    "$(jq -r '"\(.kl_save.bytes) \(.kl_save.bytes)"' <<<"$out")"
check_equal "saving does not change the perplexity" "$(jq .perplexity.ppl tests/data/tales/golden.json | cut -c1-7)" \
    "$(jq .perplexity <<<"$out" | cut -c1-7)"
check "a model does not diverge from itself: what 16 bits cost" below "$(kl "$f32" | jq .kl_divergence.max)" 1e-8
draft=$(kl "$TMP/draft.gguf")
while read -r path want; do # numpy's, of the logits that transformers computes of both checkpoints
    check "$path within 1e-3 of the reference" near "$(jq ".$path" <<<"$draft")" "$want" 1e-3
done <<END
kl_divergence.mean 0.193830422
kl_divergence.error 0.010247726
kl_divergence.median 0.000241794
kl_divergence.p90 0.040930269
kl_divergence.p95 0.560287957
kl_divergence.p99 6.204671735
kl_divergence.p99_9 10.816073495
kl_divergence.max 15.83596946
same_top 0.920589144
delta_p -0.009409913
delta_p_error 0.00136201
delta_p_rms 0.134527256
ln_ratio -0.024663834
ln_ratio_error 0.00904022
base_perplexity 1.712278245
END
q8=$(kl "$TMP/q8_0.gguf" | jq .kl_divergence.mean) q4=$(kl "$TMP/q4_0.gguf" | jq .kl_divergence.mean)
check "q8_0 diverges little" below "$q8" 1e-4
check "and q4_0 ten times more at least" above "$q4" "$(awk -v x="$q8" 'BEGIN { print 10 * x }')"

head -c 6000 $text >"$TMP/short.txt"
text=$TMP/short.txt base=$TMP/short.klb
"$FERRY" eval -m "$f32" --text "$text" --kl-save "$base" -q >/dev/null
"$FERRY" eval -m "$f32" --text "$text" --kl-save "$TMP/again.klb" -q -t 1 -b 37 >/dev/null
check "the same file for any number of threads and batch size" cmp "$base" "$TMP/again.klb"
check_equal "and the same measures" "$(kl "$TMP/q4_0.gguf" -t 2)" "$(kl "$TMP/q4_0.gguf" -t 1 -b 100)"
check_equal "words name them" "base KL same delta" \
    "$("$FERRY" eval -m "$TMP/q4_0.gguf" --text "$text" --kl-base "$base" -q | grep -oE '^(base|KL|same|delta) ' | xargs)"

head -c "$(($(stat -c %s "$base") - 5000))" "$base" >"$TMP/cut.klb"
check_status "a base that was cut off is refused" 1 "cut.klb: damaged or cut off" \
    "$FERRY" eval -m "$f32" --text "$text" --kl-base "$TMP/cut.klb" -q
cp "$base" "$TMP/hurt.klb"
printf '\x01\x02' | dd of="$TMP/hurt.klb" bs=1 seek=700001 conv=notrunc status=none
check_status "and one with other bytes, before a number is shown" 1 "hurt.klb: damaged" \
    "$FERRY" eval -m "$f32" --text "$text" --kl-base "$TMP/hurt.klb" -q
check_equal "nothing is on standard output then" "" \
    "$("$FERRY" eval -m "$f32" --text "$text" --kl-base "$TMP/hurt.klb" -q 2>/dev/null)"
head -c 5999 "$text" >"$TMP/other.txt"
check_status "another text" 1 "saved for another text" "$FERRY" eval -m "$f32" --text "$TMP/other.txt" --kl-base "$base" -q
check_status "another cut" 1 "saved with -c 512, this is -c 256 --lines" \
    "$FERRY" eval -m "$f32" --text "$text" -c 256 --lines --kl-base "$base" -q
"$FERRY" convert tests/data/families/qwen3 --outtype f32 -o "$TMP/qwen3.gguf" -q 2>/dev/null
check_status "another vocabulary" 1 "only models of one vocabulary" \
    "$FERRY" eval -m "$TMP/qwen3.gguf" --text "$text" --kl-base "$base" -q
check_status "a base that is not there" 1 "nowhere.klb: cannot open" \
    "$FERRY" eval -m "$f32" --text "$text" --kl-base "$TMP/nowhere.klb" -q
check_status "no base of what is not text" 2 "give --text FILE" "$FERRY" eval -m "$f32" --choices $data/choices.jsonl --kl-base "$base"
check_status "save or compare" 2 "give one of them" "$FERRY" eval -m "$f32" --text "$text" --kl-base "$base" --kl-save "$base"
check_status "a text that cannot be scored leaves no file" 2 "no token to score" \
    "$FERRY" eval -m "$f32" --text /dev/null --kl-save "$TMP/none.klb" -q
check_equal "nor a part of one" "" "$(ls "$TMP"/none.klb* 2>/dev/null)"

# --- multiple choice and last words
answers() { jq -c '[.results[] | [.best, .best_norm, .greedy]]'; }
worst() { # EXPECTED FOUND: the largest difference of a log-likelihood
    jq -n --argjson a "$1" --argjson b "$2" '[$a, $b | [.results[] | .logprobs // [.logprob]] | flatten] | transpose |
        map(.[0] - .[1] | fabs) | max'
}
for name in choices last_word; do
    want=$(jq -c .$name $data/expected.json)
    got=$("$FERRY" eval -m "$f32" "--${name/_/-}" $data/$name.jsonl --json -q)
    check_equal "$name: all answers are the reference's" "$(answers <<<"$want")" "$(answers <<<"$got")"
    check "$name: every log-likelihood within 1e-3" below "$(worst "$want" "$got")" 1e-3
    check "$name: acc" near "$(jq .acc <<<"$got")" "$(jq .acc <<<"$want")" 1e-9
    check_equal "$name: the same for any number of threads and batch size" "$got" \
        "$("$FERRY" eval -m "$f32" "--${name/_/-}" $data/$name.jsonl --json -q -t 1 -b 7)"
done
check "last_word: perplexity" near "$(jq .perplexity <<<"$got")" "$(jq .perplexity <<<"$want")" 1e-4
jq -r .text $data/last_word.jsonl >"$TMP/last.txt"
check_equal "a text a line is the same" "$(jq -c .results <<<"$got")" \
    "$("$FERRY" eval -m "$f32" --last-word - --json -q <"$TMP/last.txt" | jq -c .results)"
check_equal "in words, with errors" "acc 0.5600 +/- 0.0709, acc_norm 0.5000 +/- 0.0714, 50 items" \
    "$("$FERRY" eval -m "$f32" --choices $data/choices.jsonl -q)" # acc_norm is the reference's, too

item() { # NAME PATTERN LINE [OPTION...]
    printf '{"query": "One", "choices": ["day", "cat"], "gold": 0}\n\n%b\n' "$3" >"$TMP/item.jsonl"
    check_status "$1" 1 "item.jsonl: line 3: $2" "$FERRY" eval -m "$f32" --choices "$TMP/item.jsonl" -q "${@:4}"
}
item "not JSON" "not JSON" 'One day'
item "a NUL byte" "not JSON" '{"query": "a\0b", "choices": ["a", "b"], "gold": 0}'
item "no choices" "expected \"choices\"" '{"query": "a", "gold": 0}'
item "a label out of range" ".*expected 0 to 1" '{"query": "a", "choices": ["a", "b"], "gold": 2}'
item "an empty ending" "choice 1 is empty" '{"query": "a", "choices": ["a", ""], "gold": 0}'
long=$(printf 'day %.0s' {1..40})
check_status "an ending longer than the context" 3 "choice 1: a continuation of 4. tokens, the context has room for 8" \
    "$FERRY" eval -m "$f32" --choices - -q -c 8 <<<"{\"query\": \"a\", \"choices\": [\"a\", \"$long\"], \"gold\": 0}"
one="{\"query\": \"$long\", \"choices\": [\"day\", \"cat\"], \"gold\": 0}"
check_status "a context that is too long loses its beginning, and that is said" 0 "1 of 1 items are longer than 8 tokens" \
    "$FERRY" eval -m "$f32" --choices - -c 8 <<<"$one"
check_equal "and counted" 1 "$("$FERRY" eval -m "$f32" --choices - -c 8 --json -q <<<"$one" 2>/dev/null | jq .cut)"
check_equal "of one item there is no error" null "$("$FERRY" eval -m "$f32" --choices - --json -q <<<"$one" | jq .acc_error)"
check_status "no item" 2 "no line with an item" "$FERRY" eval -m "$f32" --choices /dev/null -q
check_status "a text without a last word" 1 "line 2: the text ends with a space" \
    "$FERRY" eval -m "$f32" --last-word - -q < <(printf 'One day\nOne day \n')
check_status "an object without a text" 1 "line 1: no string \"text\"" "$FERRY" eval -m "$f32" --last-word - -q <<<'{"t": "a b"}'
check_status "one thing at a time" 2 "expected a model and one measure" \
    "$FERRY" eval -m "$f32" --choices $data/choices.jsonl --last-word $data/last_word.jsonl
finish
