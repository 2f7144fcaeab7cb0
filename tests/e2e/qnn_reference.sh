#!/usr/bin/env bash
# `ferry doctor --qnn` on ferry's own reference library, which can be told to fail, crash and lie; recording and replaying.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
export FERRY_REF_FAULTS=$TMP/faults
faults() { printf '%s\n' "$@" >"$FERRY_REF_FAULTS"; }
doctor() { "$FERRY" doctor --qnn --sdk reference "$@"; }
failed() { # JSON on stdin: the checks that fail
    jq -r '.checks[] | select(.verdict == "fail") | "\(.name): \(.found)"'
}

faults
check "every check passes" doctor
doctor --json >"$TMP/report.json"
check_equal "it agrees with itself" 0 "$(jq '[.qnn.cases[] | select(.max? != null and .max != 0)] | length' "$TMP/report.json")"
check_equal "hundreds of cases are executed" true "$(jq '[.qnn.cases[] | select(.elements > 0)] | length >= 200' "$TMP/report.json")"
check_equal "weights are shared" true "$(jq '.qnn.shared_binary_bytes < 1.3 * .qnn.binary_bytes' "$TMP/report.json")"
check_equal "a decoder layer compiles and runs in every recipe, with its weights once" true \
    "$(jq '.qnn.layers | length == 6 and all(.code == 0 and .shared_binary_bytes < 1.3 * .binary_bytes)' "$TMP/report.json")"
for minor in 18 20 27 32 36 39; do
    check_equal "core interface 2.$minor" "2.$minor" \
        "$(FERRY_REF_MINOR=$minor "$FERRY" doctor --qnn --sdk reference --json | jq -r 'select(.ok) | .qnn.core | split(".")[:2] | join(".")')"
done

# What fails is a line of the report, never the end of it.
faults 'deviceCreate code 14001'
check_status "no device" 5 "first objects: deviceCreate: QNN error 14001 \(0x36b1\).*; see 'ferry explain 14001'" doctor
faults 'contextCreate 2 code 1002'
check_status "no memory for a second context" 5 "first objects: contextCreate: QNN error 1002" doctor
faults 'contextGetBinary code 5007'
check_status "no binary" 5 "first binaries: contextGetBinary: QNN error 5007" doctor
faults 'contextCreateFromBinary code 5000'
check_status "what it wrote it cannot read" 5 "first binaries: contextCreateFromBinary: QNN error 5000" doctor
faults 'system absent'
check_status "no library of metadata" 5 "first binaries: .*names no provider" doctor
faults 'encoding x x2'
check_status "metadata that differs from what was composed" 5 "first binaries: the metadata of graph '.*' differs" doctor
faults 'graphFinalize 60 segv'
check_status "a crash is named, and the cases after it are tried" 5 "first crashes: [0-9]+ cases that crash or hang the library: rms norm" doctor
faults 'graphExecute 40 abort'
check_equal "and so is an abort" true "$(doctor --json 2>/dev/null | jq '[.qnn.cases[] | select(.crashed)] | length >= 1')"
faults 'validate RmsNorm refuse'
check_equal "a refusal is an answer" true \
    "$(doctor --json 2>/dev/null | jq '[.qnn.cases[] | select(.name | startswith("rms norm")) | .codes[1] == 3110] | all')"
faults 'validate Softmax refuse'
check_equal "recipes that do not compile are a warning with the first refusal" "warning 16a8w (backendValidateOpConfig of Softmax: 3110)" \
    "$(doctor --json 2>/dev/null | jq -r '.checks[] | select(.name == "decoder layer") | "\(.verdict) \(.found)"' | cut -d, -f1)"
faults 'core 3.0.0'
check_status "another major version" 1 "offers backend 6 with core 3.0" doctor
faults 'providers 0'
check_status "no provider" 1 "offers nothing|names no provider" doctor
faults 'supported empty'
check "no list of operations: nobody needs it" doctor

# A record, made again.
faults
check "calls are recorded" doctor --qnn-record "$TMP/calls" --qnn-record-data
check_equal "a line of JSON each" "$(wc -l <"$TMP/calls")" "$(jq -c . "$TMP/calls" | wc -l)"
replay() { "$FERRY" doctor --sdk reference --qnn-replay "$@"; }
check "made again, they answer the same" replay "$TMP/calls"
check_equal "with the results of the graphs" true "$(replay "$TMP/calls" --json | jq '.qnn.executions_compared >= 200')"
faults 'graphFinalize 5 code 6022'
check_status "the first call that differs is named" 5 "first record: line [0-9]+, graphFinalize: answered 6022, recorded 0" replay "$TMP/calls"
faults 'output out0 bit 9'
check_status "the first result that differs is named" 5 "first record: line [0-9]+, graphExecute: 1 elements of output 0 differ" replay "$TMP/calls"
faults 'graphAddNode 9 segv'
check_status "a crash is named" 5 "first record: the library crashed" replay "$TMP/calls"
faults
check "without the bytes: calls" doctor --qnn-record "$TMP/short"
check_equal "are compared by their answers alone" '[true,0]' "$(replay "$TMP/short" --json | jq -c '[.ok, .qnn.executions_compared]')"
faults 'graphFinalize 60 segv'
doctor --qnn-record "$TMP/crashed" >/dev/null 2>&1
faults
check "a record with a call that never came back" replay "$TMP/crashed"

# Records that are none.
cp "$TMP/calls.data" "$TMP/damaged.data"
damaged() { # NAME PATTERN SED-SCRIPT
    sed "$3" "$TMP/calls" >"$TMP/damaged"
    check_status "$1" 1 "damaged: $2" replay "$TMP/damaged"
}
damaged "not JSON" "line 3: " '3s/.*/{"call"; }/'
damaged "an unknown call" "line 4: call: not as a record has it" '4s/"call": "[A-Za-z]*"/"call": "launch"/'
damaged "a rank that is too large" "line [0-9]+: dims: " 's/"dims": \[1, 1/"dims": [1, 1, 1, 1, 1, 1, 1, 1/'
damaged "a shape that overflows" "line [0-9]+: dims: " 's/"dims": \[1, 1/"dims": [2000000000, 2000000000/'
damaged "more bytes than there are" "line [0-9]+: " 's/"at": [0-9]*/"at": 99999999999/'
damaged "a list of numbers in hexadecimal that is not one" "line [0-9]+: hex: " 's/"hex": "../"hex": "zz/'
damaged "fewer scales than channels" "line [0-9]+: axis: " 's/"scales": \[\[0.00200000009, 0\], /"scales": [/'
check_status "no file" 1 "none: cannot open|none: .*No such file" replay "$TMP/none"
finish
