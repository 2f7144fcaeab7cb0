# shellcheck shell=bash
# Sourced by what runs ferry for a known answer: the user's own configuration file and FERRY_* variables must not reach
# it. Those that name programs and data, or choose how often a test repeats itself, stay.
export XDG_CONFIG_HOME=/dev/null
unset NO_COLOR
while read -r name; do
    case $name in
    FERRY_ARM | FERRY_REAL | FERRY_QNN_SDK | FERRY_PEER | FERRY_PEER_ARM64 | FERRY_PEER_SERVER | FERRY_BENCH_* | FERRY_SOAK) ;;
    *) unset "$name" ;;
    esac
done < <(compgen -e FERRY_)
