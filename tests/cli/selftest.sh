#!/usr/bin/env bash
# `ferry selftest` finds what is wrong: a model that answers otherwise than where parity.json was made, a file that is
# none. (A full run, which hashes every file, is in tests/e2e/workspace.sh.)
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

ferry=$(realpath "$FERRY")
# the head of an arm64 program is all that `create` looks at
{ printf '\177ELF\2\1\1'; head -c 9 /dev/zero; printf '\2\0\267\0'; head -c 44 /dev/zero; } >"$TMP/exe"
check "there is a workspace" "$ferry" create tests/data/tales --exe-path "$TMP/exe" -o "$TMP/ws" -q

"$ferry" selftest -d "$TMP/ws" --quick --json >"$TMP/report" 2>"$TMP/err"
check_equal "a good workspace passes" 0 $?
check "the report is one JSON object" jq -es 'length == 1 and (.[0] | type == "object")' "$TMP/report"
check_equal "which reports it" 'true 0' "$(jq -r '"\(.ok) \([.checks[] | select(.ok == false)] | length)"' "$TMP/report")"
check_equal "with the program's version and CPU features" "$("$ferry" --version --json | jq -c '[.version, .cpu_features]')" \
    "$(jq -c '[.ferry.version, .ferry.cpu_features]' "$TMP/report")"
check_equal "the kernel's release and machine" "$(uname -r) $(uname -m)" "$(jq -r '"\(.machine.release) \(.machine.machine)"' "$TMP/report")"
check_equal "the model's hash" "$(sha256sum <"$TMP/ws/tales/ggml/weights.gguf" | cut -d' ' -f1)" "$(jq -r .model.sha256 "$TMP/report")"
check "a rate of everything" jq -e '.speed | .read_bytes_per_s > 0 and .prompt_tokens_per_s > 0 and .generated_tokens_per_s > 0' "$TMP/report"
check "memory" jq -e '.memory.anonymous_bytes > 0 and .memory.peak_bytes > 0' "$TMP/report"
for part in 'parity texts' 'parity conversations' 'parity greedy' threads memory; do
    check "and a verdict about $part" jq -e --arg n "$part" '.checks[] | select(.name == $n) | .ok' "$TMP/report"
done
check_equal "every kernel this CPU runs is there" "" "$(jq -r '(.ferry.cpu_features + ["scalar"]) as $have
    | .checks[] | select(.name | startswith("kernel")) | select((.name | split(" ")[2]) as $isa | $have | index($isa))
    | select(.ok != true) | .name' "$TMP/report")"
check_equal "nothing tells who or where" "" "$(grep -oF -e "$(uname -n)" -e "$TMP" "$TMP/report")"
check_equal "one thread gives the same" true "$("$ferry" selftest -d "$TMP/ws" --quick --json -t 1 2>/dev/null | jq .ok)"
check_equal "so do the scalar kernels, without any other" "true 0" "$(FY_CPU_MASK=0 "$ferry" selftest -d "$TMP/ws" --quick --json 2>/dev/null |
    jq -r '"\(.ok) \([.checks[] | select(.ok == true and (.name | test("avx|neon|dotprod|i8mm")))] | length)"')"

bad() { # NAME PATTERN JQ: changes parity.json and expects the check to fail, with the fewest kernels to look at
    cp -r "$TMP/ws" "$TMP/bad"
    jq -c "$3" "$TMP/ws/tales/parity.json" >"$TMP/bad.json"
    # the manifest's size is checked first, so the text keeps its length
    size=$(stat -c %s "$TMP/ws/tales/parity.json")
    { cat "$TMP/bad.json"; head -c $((size - $(stat -c %s "$TMP/bad.json"))) /dev/zero | tr '\0' ' '; } >"$TMP/bad/tales/parity.json"
    check_status "$1" 4 "$2" env FY_CPU_MASK=0 "$ferry" selftest -d "$TMP/bad" --quick
    rm -rf "$TMP/bad"
}
bad "another id of a text is found" "1 of [0-9]+ checks failed, first 'parity texts': 1 of 90 differ, first: \"Hello, world!\": ids\\[0\\] is [0-9]+, expected 1$" \
    '(.tokenizer_cases[] | select(.text == "Hello, world!") | .ids[0]) = 1'
bad "another answer is found" "parity greedy.*\"Once upon a time\": id 0 is [0-9]+ \\(ahead by .*\\), expected 1" '.greedy[0].ids[0] = 1'
bad "an id that is none is refused" "parity.json: tokenizer_cases\\[6\\]: ids\\[0\\] is not an id below 768" '.tokenizer_cases[6].ids[0] = 768'
cp -r "$TMP/ws" "$TMP/bad"
head -c "$(stat -c %s "$TMP/ws/tales/parity.json")" /dev/zero | tr '\0' '[' >"$TMP/bad/tales/parity.json"
check_status "what is not JSON is refused" 4 "parity.json: line 1" "$ferry" selftest -d "$TMP/bad" --quick
printf 'x' | dd of="$TMP/bad/tales/ggml/weights.gguf" conv=notrunc status=none
check_status "a model that cannot be loaded is a failed check" 4 "first 'model'" "$ferry" selftest -d "$TMP/bad" --quick
truncate -s -1 "$TMP/bad/tales/ggml/weights.gguf"
check_status "so is a workspace that is not whole" 4 "first 'workspace'" "$ferry" selftest -d "$TMP/bad" --quick
check_status "a name that is none is not" 2 'nowhere' "$ferry" selftest -d "$TMP/nowhere" --quick
check_status "two models are one too many" 2 'two models' "$ferry" selftest -d "$TMP/ws" -m "$TMP/ws/tales/ggml/weights.gguf"
check_equal "a file has no parity.json" null \
    "$("$ferry" selftest -m "$TMP/ws/tales/ggml/weights.gguf" --quick --json 2>/dev/null | jq '.checks[] | select(.name == "parity") | .ok')"

# --- an NPU's library ---------------------------------------------------------------------------------------------------
npu() { # FAULT: name and verdict of each check
    echo "$1" >"$TMP/faults"
    FY_CPU_MASK=0 FERRY_REF_FAULTS=$TMP/faults "$ferry" selftest --qnn-lib reference --quick --json 2>/dev/null |
        jq -r '[.checks[] | select(.name | startswith("npu")) | "\(.name[4:]) \(.ok)"] | join(", ")'
}
npu_says() { # FAULT: the first failed check; without the library's log, which another thread brings in time or not
    echo "$1" >"$TMP/faults"
    FY_CPU_MASK=0 FERRY_REF_FAULTS=$TMP/faults "$ferry" selftest --qnn-lib reference --quick 2>&1 >/dev/null |
        sed -n 's/: deviceCreate: a fault that the test asked for//; s/.*first //p'
}
check_equal "each call of the NPU's library has a verdict" \
    "files true, library true, metadata true, memory null, device true, operation true" "$(npu '')"
check_equal "versions are named" "SDK 2.51 (v2.51.0.reference), core interface 2.40" \
    "$(FY_CPU_MASK=0 "$ferry" selftest --qnn-lib reference --quick --json 2>/dev/null | jq -r '.checks[] | select(.name == "npu library") | .detail')"
check_equal "a device that is refused is named with its code" \
    "'npu device': deviceCreate: QNN error 14001 (0x36b1), invalid configuration of a device; see 'ferry explain 14001'" "$(npu_says 'deviceCreate code 14001')"
check_equal "the rest was asked" "files true, library true, metadata true, memory null, device false" "$(npu 'deviceCreate code 14001')"
check_equal "so is an operation" "files true, library true, metadata true, memory null, device true, operation false" "$(npu 'graphExecute code 6031')"
check_equal "a wrong result is found" "operation false" "$(npu 'output y bit 15' | grep -o 'operation.*')"
check_equal "a missing library of metadata" "metadata false" "$(npu 'system absent' | grep -o 'metadata [a-z]*')"
check_equal "a crash is a verdict" "'npu library': it crashed after 'npu device'" "$(npu_says 'graphFinalize segv')"
check_equal "a library that does not load, too" "files true, library false" "$(npu 'providers 0')"
check_status "no library is one" 4 "first 'npu files': .*no QNN library" env FY_CPU_MASK=0 "$ferry" selftest --qnn-lib "$TMP" --quick
finish
