#!/usr/bin/env bash
# A workspace is asked on the phone what it was asked where it was made: bin/ferry selftest by adb.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

there=/data/local/tmp/tales
check "a workspace from a checkpoint" "$FERRY" create tests/data/tales -o "$TMP/tales" -q
phone_start
check "goes to the phone" adb push --sync "$TMP/tales" /data/local/tmp/
status=0
adb shell "cd $there && chmod 755 bin/ferry && bin/ferry selftest -d . --quick --json" >"$TMP/report" 2>"$TMP/words" || status=$?
check_equal "selftest passes there" "0 true" "$status $(jq .ok "$TMP/report")"
check_equal "as arm64, on this phone" "aarch64-linux aarch64 SM8650" "$(jq -r '"\(.ferry.target) \(.machine.machine) \(.machine.soc)"' "$TMP/report")"
check_equal "with kernels of its own, all right" "true" \
    "$(jq '[.checks[] | select(.name | test("^kernel .* neon$")) | .ok] | length > 5 and all' "$TMP/report")"
for part in 'parity texts' 'parity conversations' 'parity greedy' threads memory; do
    check "$part" jq -e --arg n "$part" '.checks[] | select(.name == $n) | .ok' "$TMP/report"
done
check_equal "the model is the one that was made" "$(sha256sum <"$TMP/tales/tales/ggml/weights.gguf" | cut -d' ' -f1)" "$(jq -r .model.sha256 "$TMP/report")"
check "it was measured" jq -e '.speed | .read_bytes_per_s > 0 and .prompt_tokens_per_s > 0 and .generated_tokens_per_s > 0' "$TMP/report"

check "ferry push takes it to its place" "$FERRY" push "$TMP/tales" -q
check_equal "and --device asks there" "true aarch64" \
    "$("$FERRY" selftest --device -d "$TMP/tales" --quick --json 2>/dev/null | jq -r '"\(.ok) \(.machine.machine)"')"

sed 's/"ids": \[[0-9]*/"ids": [1/' "$TMP/tales/tales/parity.json" | head -c "$(stat -c %s "$TMP/tales/tales/parity.json")" >"$TMP/parity.json"
truncate -s "$(stat -c %s "$TMP/tales/tales/parity.json")" "$TMP/parity.json"
tr '\0' ' ' <"$TMP/parity.json" >"$TMP/other.json"
check "another parity.json" adb push "$TMP/other.json" "$there/tales/parity.json"
# (its kernels were looked at above)
check_status "is found out, by the exit status too" 4 "checks failed, first 'parity texts'" adb shell "FY_CPU_MASK=0 $there/bin/ferry selftest -d $there --quick"
finish
