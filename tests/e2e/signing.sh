#!/usr/bin/env bash
# Signatures, against the openssl command in both directions; and one flipped bit in each file of a signed workspace, which
# `verify` and `run --verify` (here and as arm64 program) refuse, naming the file.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

ferry=$PWD/$FERRY
[[ $FERRY = /* ]] && ferry=$FERRY
arm=$(realpath "${FERRY_ARM##* }")
drive=$(realpath "${PTY:-build/host/release/tests/e2e/pty_drive}")
export XDG_CONFIG_HOME=$TMP/config
check "tales converts" "$ferry" convert tests/data/tales --outtype q4_0 -o "$TMP/tales.gguf" -q
check "create makes a workspace" "$ferry" create "$TMP/tales.gguf" -o "$TMP/ws" --exe-path "$arm" --copy -q
cd "$TMP" || exit 1

# --- keys and signatures ---------------------------------------------------------------------------------------------
check_status "no key: how to make one" 2 'ferry keygen' "$ferry" sign ws
check "keygen makes a pair" "$ferry" keygen -o me
check_equal "the private key is its owner's alone" 600 "$(stat -c %a me.pem)"
check_status "a key is never written over another" 2 'exists' "$ferry" keygen -o me
check "openssl reads the private key" openssl pkey -in me.pem -noout
check_equal "openssl finds the public key that keygen wrote" "$(openssl pkey -in me.pem -pubout)" "$(cat me.pub.pem)"
check_equal "it is not signed" 'not signed' "$("$ferry" verify ws | sed -n 's/.*; //p')"
check_status "which --require-signature refuses" 4 'manifest.sig' "$ferry" verify ws --require-signature

check "sign" "$ferry" sign ws --key me.pem
check "openssl accepts the signature" openssl pkeyutl -verify -pubin -inkey me.pub.pem -rawin -in ws/manifest.json \
    -sigfile ws/manifest.sig
openssl pkeyutl -sign -inkey me.pem -rawin -in ws/manifest.json -out theirs.sig
check "and makes the same one" cmp theirs.sig ws/manifest.sig
fingerprint=SHA256:$(openssl pkey -pubin -in me.pub.pem -outform DER | sha256sum | cut -d' ' -f1)
says() { "$ferry" verify ws | sed -n 's/.*all as listed; //p'; }
check_equal "an unknown key is named by its fingerprint" "signed by an unknown key ($fingerprint)" "$(says | sed 's/; .*//')"
check "verify --key knows it" "$ferry" verify ws --key me.pub.pem
mkdir -p config/ferry/trusted
"$ferry" keygen -o other -q
check_status "another key is not it" 4 'manifest.sig' "$ferry" verify ws --key other.pub.pem
cp other.pub.pem config/ferry/trusted/other.pem
check_equal "another trusted key changes nothing" "signed by an unknown key ($fingerprint)" "$(says | sed 's/; .*//')"
cp ws/manifest.pub.pem config/ferry/trusted/build-server.pem
check_equal "a trusted key is named" "signed by a trusted key, build-server ($fingerprint)" "$(says)"
check "which --require-signature accepts" "$ferry" verify ws --require-signature
check_equal "and --json tells" trusted "$("$ferry" verify --json ws | jq -r .signature.state)"

openssl genpkey -algorithm ed25519 -out theirs.pem 2>/dev/null
openssl pkey -in theirs.pem -pubout -out config/ferry/trusted/theirs.pem
cp -r ws by-openssl
rm by-openssl/manifest.pub.pem
openssl pkeyutl -sign -inkey theirs.pem -rawin -in by-openssl/manifest.json -out by-openssl/manifest.sig
check_equal "a signature by openssl, with a key by openssl" 'trusted theirs' \
    "$("$ferry" verify --json by-openssl | jq -r '"\(.signature.state) \(.signature.name)"')"
rm config/ferry/trusted/theirs.pem
check_status "without its key at hand it is refused" 4 'manifest.sig' "$ferry" verify by-openssl
openssl genpkey -algorithm ed25519 -aes-128-cbc -pass pass:secret -out locked.pem 2>/dev/null
check_status "a passphrase is asked for on a terminal only" 2 'terminal' setsid -w "$ferry" sign ws --key locked.pem
if [ -x "$drive" ]; then
    chmod 600 locked.pem
    cp -r ws locked
    printf '%s\n' 'wait passphrase of locked.pem' 'line secret' 'wait signed by' 'end 0' >passphrase.script
    check "and there it opens the key" "$drive" -o transcript passphrase.script "$ferry" sign locked --key locked.pem
    check_equal "without showing it" 0 "$(grep -c secret transcript)"
    check "the signature is that key's" "$ferry" verify locked --key <(openssl pkey -in locked.pem -passin pass:secret -pubout)
else
    skip "a passphrase on a terminal" "no pty_drive ('make programs' builds it)"
fi
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024 -out rsa.pem 2>/dev/null
check_status "another kind of key is called by its name" 2 'RSA.*expected an Ed25519' "$ferry" sign ws --key rsa.pem

# --- archives --------------------------------------------------------------------------------------------------------
check "pack" "$ferry" pack ws -o a.tar.zst -q
check "unpack from a pipe, knowing the signer" bash -c "cat a.tar.zst | '$ferry' unpack - -o back 2>&1 | grep -q build-server"
check "the signature came along" diff -r ws back
mkdir elsewhere && mv back elsewhere/ws
find elsewhere -exec touch -d 2001-02-03 {} +
for t in 1 2 3 7; do
    (umask 0$((t * 10)) && "$ferry" pack elsewhere/ws -t $t -o "t$t.tar.zst" -q)
    check "the same bytes from another place, umask and time, on $t threads" cmp a.tar.zst "t$t.tar.zst"
done
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 711 "$TMP" && mkdir -m 777 open && chmod -R a+rX elsewhere
    check "another user packs it" setpriv --reuid 65534 --regid 65534 --clear-groups "$ferry" pack elsewhere/ws -o open/u.tar.zst -q
    check "to the same bytes" cmp a.tar.zst open/u.tar.zst
else
    skip "another user packs the same bytes" "needs root and setpriv"
fi
cut=$(($(stat -c %s a.tar.zst) * 3 / 4))
head -c $cut a.tar.zst >cut.tar.zst
check_status "a cut archive says where it ends" 1 "ends after $cut bytes, in 'ws/[a-z/.]*' \([0-9]+ of [0-9]+ bytes\)" "$ferry" unpack cut.tar.zst -o cut
check_status "from a pipe too" 1 "standard input: cut off: it ends after $cut bytes, in 'ws/" \
    bash -c "'$ferry' unpack - -o cut <cut.tar.zst"
check "and leaves nothing" test ! -e cut -a ! -e cut.part
cp -r ws forged
printf 'x' | dd of=forged/manifest.sig bs=1 seek=9 conv=notrunc status=none
check_status "a wrong signature is not packed" 4 'WRONG signature' "$ferry" pack forged -o forged.tar
tar -cf forged.tar forged
check_status "nor unpacked" 4 'WRONG signature' "$ferry" unpack forged.tar -o out
check "nothing is left of it" test ! -e out -a ! -e out.part

# --- one bit ---------------------------------------------------------------------------------------------------------
run_here() { "$ferry" run -d "$1" --verify -p 'Once' -n 4 --temp 0; }
run_arm() { qemu-aarch64 "$arm" run -d "$1" --verify -p 'Once' -n 4 --temp 0; }
check_status "run --verify says how long it took, and whose it is" 0 "all as listed, in [0-9.]+ s; signed by $fingerprint" run_here ws
has_arm=
if [ -x "$arm" ] && qemu-aarch64 "$arm" run --help | grep -q -- --verify; then
    has_arm=1
    check_status "so does the phone's program" 0 "all as listed, in [0-9.]+ s; signed by $fingerprint" run_arm ws
else
    skip "the phone's program refuses changed bits" "no arm64 build that has --verify"
fi
check_status "--verify is about workspaces" 2 'workspace' "$ferry" run -m tales.gguf --verify -p x
# A manifest that cannot be read is a finding of verify, and bad input for run.
check_refused() { # NAME PATTERN COMMAND...
    local name=$1 pattern=$2 status=0 err
    shift 2
    err=$("$@" 2>&1 >/dev/null) || status=$?
    if [[ $status = [14] ]] && grep -qE -- "$pattern" <<<"$err"; then ok "$name"; else not_ok "$name" "exit $status: $err"; fi
}
n=0
while read -r path; do
    size=$(stat -c %s "ws/$path")
    n=$((n + 1))
    for at in 0 $((size / 2)) $((size - 1)); do
        cp -r ws bad
        byte=$(od -An -tu1 -j "$at" -N 1 "bad/$path")
        # shellcheck disable=SC2059
        printf "\\x$(printf %02x $((byte ^ 1 << (at + n) % 8)))" | dd of="bad/$path" bs=1 seek="$at" conv=notrunc status=none
        named=$path
        [ "$path" = manifest.pub.pem ] && named='manifest.(sig|pub.pem)'
        check_status "verify names $path when bit $(((at + n) % 8)) of byte $at flips" 4 "$named" "$ferry" verify bad
        check_refused "run --verify too ($path, $at)" "$named" run_here bad
        [ -z "$has_arm" ] || [ "$at" != 0 ] || check_refused "and the phone's ($path)" "$named" run_arm bad
        rm -rf bad
    done
done < <(cd ws && find . -type f | sed 's,^\./,,' | LC_ALL=C sort)
check "every file had its turn" test "$n" -ge 9
cd "$OLDPWD" || exit 1
finish
