#!/usr/bin/env bash
# The steps of `make demo`, on built programs. Everything it writes goes to a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/no_settings.sh
. scripts/no_settings.sh

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
ferry=$PWD/build/ferry
arm="$PWD/build/aarch64/release/ferry"
prompt='Once upon a time'
step() {
    printf '\n$ %s\n' "$*" | sed "s,$PWD/build/ferry,ferry,; s,$dir/,,g" >&2
    "$@"
}
size() { stat -c %s "$1" | numfmt --to=si --suffix=B; }

echo "== a checkpoint becomes a quantized GGUF file in one pass"
step "$ferry" convert tests/data/tales --outtype q4_0 -o "$dir/tales-q4_0.gguf"

echo "== the file becomes a workspace, the workspace a tarball"
step "$ferry" create "$dir/tales-q4_0.gguf" -o "$dir/tales"
step "$ferry" pack "$dir/tales" -o "$dir/tales.tar.zst"

echo "== unpacked elsewhere and verified"
mkdir "$dir/elsewhere"
step "$ferry" unpack "$dir/tales.tar.zst" -o "$dir/elsewhere/tales"
step "$ferry" verify "$dir/elsewhere/tales"

echo "== the tale, told by this machine"
step "$ferry" run -d "$dir/elsewhere/tales" -p "$prompt" -n 200 >"$dir/host.txt"
echo "$prompt$(cat "$dir/host.txt")"

run_arm=("$dir/elsewhere/tales/bin/ferry")
if [ "$(uname -m)" != aarch64 ]; then
    run_arm=(qemu-aarch64 "${run_arm[@]}")
fi
echo "== and by the arm64 program inside the workspace${run_arm[1]:+, under emulation}"
step "${run_arm[@]}" run -d "$dir/elsewhere/tales" -p "$prompt" -n 200 >"$dir/arm.txt"
echo "$prompt$(cat "$dir/arm.txt")"
if ! cmp -s "$dir/host.txt" "$dir/arm.txt"; then
    echo "demo: the two tales differ" >&2
    exit 4
fi

echo
echo "checkpoint $(size tests/data/tales/model.safetensors), q4_0 file $(size "$dir/tales-q4_0.gguf"), arm64 program" \
    "$(size "$arm"), tarball $(size "$dir/tales.tar.zst"); both tales are the same."
