#!/usr/bin/env bash
# Nothing that a phone sends acts on our terminal: its properties, the texts of its kernel, its file names, the words of its
# shell and programs, the reasons of its sync service hold an ESC sequence, C1 controls
# and overrides of direction. Files and pipes get the bytes.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/phone/phone.sh
. tests/phone/phone.sh

PTY=${PTY:-build/host/release/tests/e2e/pty_drive}
esc=$'\e]0;x\a\e[31m' bidi=$'\xe2\x80\xae\xe2\x81\xa6'
bad=$esc$'\xc2\x9b\x9b'$bidi
there=/data/local/tmp/ferry
elf_head() { printf '\177ELF\2\1\1'; head -c 9 /dev/zero; printf '\2\0\267\0'; head -c 44 /dev/zero; }
elf_head >"$TMP/exe" # the head of an arm64 program
export FERRY_EXE_PATH=$TMP/exe
"$FERRY" convert tests/data/tales --outtype f32 -q -o "$TMP/tales.gguf"
w=$TMP/tales
"$FERRY" create "$TMP/tales.gguf" --no-parity -q -o "$w"
phone_start
export NO_COLOR=1 TERM=dumb LC_ALL=C.UTF-8 XDG_CACHE_HOME=$TMP/cache
root=$(phone_root)

# shown NAME PATTERN COMMAND...: runs it at a pseudo-terminal, where it writes the pattern; its exit status does not matter.
shown() {
    local label=$1 pattern=$2 found
    shift 2
    echo "end 0" >"$TMP/steps"
    rm -f "$TMP/seen"
    "$PTY" -o "$TMP/seen" "$TMP/steps" "$@" >/dev/null 2>&1 </dev/null
    found=$(LC_ALL=C grep -aoP '\x1b.?|\x07|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]' "$TMP/seen" | head -3 | od -An -c)
    iconv -f UTF-8 -t UTF-8 "$TMP/seen" >/dev/null 2>&1 || found+=" bytes that are not UTF-8"
    grep -qaE -- "$pattern" "$TMP/seen" || found+=" no '$pattern' in: $(cat "$TMP/seen")"
    check_equal "$label" "" "$found"
}
ferry() { shown "$1" "$2" "$FERRY" "${@:3}"; }

# --- what the adb server lists --------------------------------------------------------------------------------------
# A server that is not ours: serials, states, models and reasons as it likes. The real one lets no such name in.
own_port=$ANDROID_ADB_SERVER_PORT
adb_server() { # LIST: answers host:devices-l with it, refuses the rest with a hostile reason
    rm -f "$TMP/adb.port"
    BAD=$bad LIST=$1 perl -MIO::Socket::INET -e '
        my $l = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1") or die;
        open my $f, ">", "$ARGV[0].new"; print $f $l->sockport; close $f; rename "$ARGV[0].new", $ARGV[0];
        while (my $c = $l->accept) {
            read $c, my $n, 4; read $c, my $request, hex $n;
            my ($word, $text) = $request eq "host:devices-l" ? ("OKAY", $ENV{LIST}) : ("FAIL", $ENV{BAD});
            printf $c "%s%04x%s", $word, length $text, $text;
        }' "$TMP/adb.port" 9>&- &
    adb_server=$!
    until [ -s "$TMP/adb.port" ]; do kill -0 $adb_server || return; sleep 0.05; done
    ANDROID_ADB_SERVER_PORT=$(cat "$TMP/adb.port")
}
row() { printf '%s device product:%s model:%s device:%s\n' "$1" "$bad" "$bad" "$bad"; } # no spaces in $bad
adb_server "$(row "a$bad"; row "b$bad"; printf 'c%s %s\n' "$bad" "$bad")"$'\n'
shown "two hostile phones" '3 phones are connected: a\\x1b.*\(\\x1b' env -u ANDROID_SERIAL "$FERRY" doctor
shown "none of which is meant" 'no phone has the serial x\\x1b.*connected: a\\x1b' "$FERRY" doctor -s "x$bad"
shown "one, which refuses" 'phone a\\x1b.*\\x1b' "$FERRY" pull -s "a$bad" notes -o "$TMP/none"
shown "one in a hostile state" 'phone c\\x1b.*adb says' "$FERRY" push "$w" -s "c$bad"
shown "for run" 'phone a\\x1b' "$FERRY" run --device="a$bad" -d tales -p a
shown "for up" 'phone a\\x1b|\\x1b' "$FERRY" up tests/data/tales -s "a$bad" --to doctor
kill "$adb_server"
ANDROID_ADB_SERVER_PORT=$own_port

# --- what it is ----------------------------------------------------------------------------------------------------
sed -i "s/^\(ro[^=]*\(manufacturer\|model\|platform\|release\|abilist\)\)=.*/\1=$bad/" "$root/system/build.prop"
sed -i "s/^Features.*/Features\t: $bad/" "$root/fake/cpuinfo"
echo "chip$bad" >"$root/fake/sys/class/thermal/thermal_zone0/type"
echo "$bad" >"$root/fake/sys/class/power_supply/battery/status"
echo "MemTotal: 9$bad kB" >"$root/fake/meminfo"
touch "$root/vendor/lib64/libQnn$bad.so"
for tool in pm:package:com.termux dumpsys:'Thermal Status: 3'; do
    printf '#!/system/bin/sh\necho "%s%s"\n' "${tool#*:}" "$bad" >"$root/system/bin/${tool%%:*}"
    chmod 755 "$root/system/bin/${tool%%:*}"
done
ferry "doctor" 'phone +.*\\x1b\[31m' doctor -v
ferry "doctor with a workspace" 'phone +.*\\x1b' doctor -d "$w" -v
ferry "doctor --json" '\\u001b|\\x1b' doctor --json
ferry "up --dry-run" 'convert' up tests/data/tales -v --dry-run

# --- its files ------------------------------------------------------------------------------------------------------
mkdir -p "$root$there/notes/$esc$bidi"
echo a >"$root$there/notes/$esc$bidi/a$bidi"
ln -s "$bad" "$root$there/notes/link$bad"
ferry "pull of a directory" 'link.*left out' pull notes -v -o "$TMP/notes"
ferry "pull of a hostile name" 'nothing of this name' pull "$there/$bad" -v -o "$TMP/none"
ferry "pull under a hostile name" '\\x1b' pull "$there/notes/$esc$bidi" -v -o "$TMP/$bad"
phone_set reason="$bad"
rm -rf "$TMP/notes"
ferry "push reports why" '.' push "$w" -v --no-helper --to "/proc/x"
ferry "pull reports why" '.' pull "$there/notes" -v -o "$TMP/notes"
phone_set

# --- its programs ---------------------------------------------------------------------------------------------------
# shellcheck disable=SC2016
program='#!/system/bin/sh\nprintf "%s"; echo "%s word" >&2\nexit 3\n'
for name in tales odd; do
    cp -r "$w" "$root$there/$name"
    # shellcheck disable=SC2059
    printf "$program" "out $bad end" "err $bad" >"$root$there/$name/bin/ferry"
done
for call in "run -p a" "tokenize a" "selftest"; do
    # shellcheck disable=SC2086
    set -- $call
    verb=$1
    shift
    option=-d
    [ "$verb" != tokenize ] || option=-m
    shown "$verb --device" 'out \\x1b.* end.*err \\x1b|err \\x1b' bash -c '"$@" </dev/null' - "$FERRY" "$verb" --device $option tales "$@"
    shown "$verb --device, its output a file" 'err \\x1b' bash -c '"$@" >$0 </dev/null' "$TMP/out" "$FERRY" "$verb" --device $option tales "$@"
    check_equal "which gets the bytes" "out $bad end" "$(cat "$TMP/out")"
done
phone_set chunk=1
shown "characters in packets of one byte" 'out \\x1b.*\\u\{9b\}\\x9b\\u\{202e\}\\u\{2066\} end' bash -c '"$@" </dev/null 2>/dev/null' - env \
    "$FERRY" run --device -d tales -p a
phone_set
ferry "no such workspace" "no workspace '.*\\\\x1b" run --device -d "$bad" -p a
jq --arg t "$bad" '.exec = $t' "$w/workspace.json" >"$root$there/odd/workspace.json"
shown "a runtime that came with a workspace" '\\x1b' bash -c '"$@" </dev/null' - "$FERRY" run --device -d odd -p a

# With a terminal at both ends the program may draw, and does nothing else: no titles, no clipboard, no questions that the
# terminal answers as if the user had typed, no bytes that are not UTF-8.
jq '.exec = "bin/ferry"' "$w/workspace.json" >"$root$there/odd/workspace.json" # a runtime of its own
draws=$'\e[1;31mred\e[0m\r\e[2K\e[?25l'
for name in tales odd; do
    program="$draws$bad"$'\e]52;c;eA==\a\e[6n\e[c\e[?1049h\ePq\e\\ end\n'
    printf '#!/system/bin/sh\nprintf %%s '"'%s'"'\n' "$program" >"$root$there/$name/bin/ferry"
    for chunk in 0 1; do
        phone_set chunk=$chunk
        echo "end 0" >"$TMP/steps"
        "$PTY" -o "$TMP/seen" "$TMP/steps" "$FERRY" run --device -d $name -p a >/dev/null 2>&1
        check "$name draws at a terminal (packets: $chunk)" grep -qaF "$draws" "$TMP/seen"
        check_equal "and does nothing else" "" "$(sed 's/\x1b\[\(1;31m\|31m\|0m\|2K\|?25l\)//g' "$TMP/seen" |
            LC_ALL=C grep -aoP '\x1b.?|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]' | head -3 | od -An -c)"
        check "what it tried is shown" grep -qaF '\x1b]52;c;eA==' "$TMP/seen"
        check "as UTF-8" iconv -f UTF-8 -t UTF-8 -o "$TMP/text" "$TMP/seen"
    done
done
phone_set

# --- its shell --------------------------------------------------------------------------------------------------------
rm "$root/system/bin/sh"
printf '#!/system/bin/busybox sh\nprintf "%s"; echo "%s" >&2\nexec /system/bin/busybox sh "$@"\n' "$bad" "$bad" >"$root/system/bin/sh"
chmod 755 "$root/system/bin/sh"
ferry "a shell that says something, doctor" 'phone ' doctor -v
ferry "push" '.' push "$w" -v
ferry "push without the helper" '.' push "$w" -v --no-helper
ferry "pull" '.' pull tales -v -o "$TMP/pulled"
shown "run" 'err|\\x1b' bash -c '"$@" </dev/null' - "$FERRY" run --device -d /data/local/tmp/ferry/tales -p a
phone_stop

finish
