# shellcheck shell=bash
# An emulated phone for tests, reached through the real adb server. Sourced after tests/lib.sh:
#   phone_start [NAME [SIZE]]  starts one and connects it; sets ANDROID_SERIAL. SIZE ("24m"): /data/local/tmp is a
#                              file system of that size (needs user namespaces: phone_can_limit)
#   phone_set K=V...           what goes wrong from now on (phone.h: phone_control); without arguments: nothing
#   phone_root [NAME]          its files on this machine
#   phone_bytes                bytes that have passed its link, both ways, since it was started
#   phone_used PATTERN         how many of the services asked for, and of the files sent, match (phone_adbd.c: CONTROL.services)
#   phone_stop                 all phones and the adb server of this shell
# Everything is private to the calling shell: adb server port, HOME with the adb key, files below $TMP.
PHONE_ADBD=${PHONE_ADBD:-build/host/release/tests/phone/phone_adbd}
PHONE_BUSYBOX=${PHONE_BUSYBOX:-build/sysroot/bin/busybox}
PHONE_NAME=phone

phone_can_limit() { unshare -rm true 2>/dev/null; }
phone_bytes() { awk '{ print $1 + $2 }' "$TMP/phones/$PHONE_NAME/control.stats"; }
phone_used() { grep -cE -- "$1" "$TMP/phones/$PHONE_NAME/control.services" 2>/dev/null; }
phone_root() { echo "$TMP/phones/${1:-$PHONE_NAME}/files"; }

phone_free_port() { # a port nobody listens on, below the ephemeral ones
    local port
    for _ in $(seq 100); do
        port=$((20000 + RANDOM % 10000))
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            echo "$port"
            return
        fi
    done
}

phone_make_root() { # ROOT
    local root=$1 applet
    mkdir -p "$root"/{system/bin,data/local/tmp,sdcard,vendor/lib64,vendor/dsp/cdsp,proc,dev,sys,tmp} \
        "$root"/fake/sys/class/{thermal/thermal_zone0,power_supply/battery}
    cp "$PHONE_BUSYBOX" "$root/system/bin/busybox"
    for applet in sh cat ls df rm mv cp ln mkdir rmdir sha256sum uname test chmod touch find stat kill sleep id \
        readlink head tail grep sed awk wc env printenv true false echo printf dd du stty tty ps sync date cut tr; do
        ln -sf busybox "$root/system/bin/$applet"
    done
    ln -sfn system/bin "$root/bin"
    cat >"$root/system/bin/getprop" <<'EOF'
#!/system/bin/sh
if [ $# -eq 0 ]; then sed 's/^\([^=]*\)=\(.*\)$/[\1]: [\2]/' /system/build.prop; else sed -n "s/^$1=//p" /system/build.prop; fi
EOF
    chmod 755 "$root/system/bin/getprop"
    mkdir -p "$root/.detached"
    cat >"$root/system/bin/setsid" <<'EOF'
#!/system/bin/sh
# "setsid sh -c SCRIPT": phone_init starts it
printf '%s' "$3" >"/.detached/$$" && mv "/.detached/$$" "/.detached/$$.sh"
EOF
    cat >"$root/system/bin/settings" <<'EOF'
#!/system/bin/sh
if [ "$1" = put ]; then echo "$4" >"/.setting-$3"; else cat "/.setting-$3" 2>/dev/null || echo null; fi
EOF
    chmod 755 "$root/system/bin/setsid" "$root/system/bin/settings"
    cat >"$root/system/build.prop" <<'EOF'
ro.product.manufacturer=Ferry
ro.product.model=Emulated Phone
ro.product.name=emulated
ro.product.device=emulated
ro.soc.manufacturer=QTI
ro.soc.model=SM8650
ro.board.platform=pineapple
ro.build.version.release=14
ro.build.version.sdk=34
ro.product.cpu.abi=arm64-v8a
ro.product.cpu.abilist=arm64-v8a,armeabi-v7a,armeabi
EOF
    printf 'MemTotal:       11721728 kB\nMemFree:         3201234 kB\nMemAvailable:    6543210 kB\nSwapTotal:       0 kB\nSwapFree:        0 kB\n' \
        >"$root/fake/meminfo"
    for applet in 0 1 2 3 4 5 6 7; do
        printf 'processor\t: %s\nBogoMIPS\t: 38.40\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp i8mm bf16\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4d\n\n' "$applet"
    done >"$root/fake/cpuinfo"
    echo cpu-1-0-0 >"$root/fake/sys/class/thermal/thermal_zone0/type"
    echo 41000 >"$root/fake/sys/class/thermal/thermal_zone0/temp"
    echo 87 >"$root/fake/sys/class/power_supply/battery/capacity"
    echo Discharging >"$root/fake/sys/class/power_supply/battery/status"
    echo 305 >"$root/fake/sys/class/power_supply/battery/temp"
}

phone_server() { # this shell's own adb server
    [ -z "${PHONE_SERVER-}" ] || return 0
    PHONE_SERVER=1
    mkdir -p "$TMP/adb-home"
    export ANDROID_ADB_SERVER_PORT ANDROID_USER_HOME=$TMP/adb-home/.android ADB_LOCAL_TRANSPORT_MAX_PORT=5550 ADB_MDNS=0
    export HOME=$TMP/adb-home
    ANDROID_ADB_SERVER_PORT=$(phone_free_port)
    trap 'phone_stop; rm -rf "$TMP"' EXIT
    adb start-server >/dev/null 2>&1
}

phone_start() { # [NAME [SIZE]]
    PHONE_NAME=${1:-phone}
    local dir=$TMP/phones/$PHONE_NAME run=()
    phone_server
    mkdir -p "$dir"
    phone_make_root "$dir/files"
    if ! proot -r "$dir/files" -q qemu-aarch64 -w / /system/bin/true 2>/dev/null; then
        skip "the emulated phone" "proot cannot trace programs on this machine"
        finish
        exit
    fi
    : >"$dir/control"
    if [ -n "${2-}" ]; then
        # shellcheck disable=SC2016
        run=(unshare -rm sh -c 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"' sh "$2" "$dir/files/data/local/tmp")
    fi
    "${run[@]}" "$PHONE_ADBD" "$dir/files" "$dir/control" \
        "ro.product.name=emulated;ro.product.model=Emulated Phone;ro.product.device=emulated" "$dir/port" 2>"$dir/log" &
    echo $! >"$dir/pid"
    disown
    wait_for 120 test -s "$dir/port"
    export ANDROID_SERIAL
    ANDROID_SERIAL=127.0.0.1:$(cat "$dir/port")
    adb connect "$ANDROID_SERIAL" >/dev/null
    phone_wait
}

phone_wait() { wait_for 120 phone_connects; } # until the server calls it usable
phone_connects() { [ "$(adb get-state)" = device ] || { adb connect "$ANDROID_SERIAL" && false; }; }

phone_set() { # K=V...
    local file=$TMP/phones/$PHONE_NAME/control
    printf '%s\n' "$@" "# $RANDOM$RANDOM" >"$file.new"
    mv "$file.new" "$file"
}

phone_stop() {
    local dir
    for dir in "${TMP:?}"/phones/*/; do
        [ -f "$dir/pid" ] && kill "$(cat "$dir/pid")" 2>/dev/null
    done
    [ -z "${ANDROID_ADB_SERVER_PORT-}" ] || adb kill-server >/dev/null 2>&1
    PHONE_SERVER=
}
