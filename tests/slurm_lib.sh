# shellcheck shell=bash
# A cluster of its own for a test: munged, slurmctld and slurmd of Debian's packages, as the current user, in $TMP/slurm and
# on free ports, without systemd and cgroups. Sourced after tests/lib.sh.
#   slurm_start NODE...   true when the nodes are idle; else $slurm_reason says why not
#   slurm_stop            ends what was started; also at the end of the script
#   slurm_node NODE, slurm_controller    start one again
SLURM=$TMP/slurm
export SLURM_CONF=$SLURM/slurm.conf
PATH=$PATH:/usr/sbin
slurm_reason='' slurm_nodes=() ctld_pid='' munged_pid=''
declare -A slurmd_pid

slurm_missing() { # the first command that is not there
    local c
    for c in munged slurmctld slurmd sbatch squeue scontrol scancel sinfo; do
        command -v $c >/dev/null || { echo $c; return; }
    done
}
slurm_free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000)) # below those that connections get
        (: <>/dev/tcp/127.0.0.1/$port) 2>/dev/null || break
    done
    echo $port
}
slurm_configure() { # NODE...
    local user node
    user=$(id -un)
    mkdir -p "$SLURM/state"
    cat >"$SLURM_CONF" <<END
ClusterName=ferry
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$(slurm_free_port)
AuthType=auth/munge
AuthInfo=socket=$SLURM/munge.socket,cred_expire=12
SlurmUser=$user
SlurmdUser=$user
StateSaveLocation=$SLURM/state
SlurmdSpoolDir=$SLURM/spool.%n
SlurmctldPidFile=$SLURM/slurmctld.pid
SlurmdPidFile=$SLURM/slurmd.%n.pid
SlurmctldLogFile=$SLURM/slurmctld.log
SlurmdLogFile=$SLURM/slurmd.%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SlurmctldTimeout=30
SlurmdTimeout=15
KillWait=5
ReturnToService=2
SchedulerParameters=sched_interval=2,bf_interval=2
END
    for node; do
        echo "NodeName=$node NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$(slurm_free_port) CPUs=1"
    done >>"$SLURM_CONF"
    echo "PartitionName=all Nodes=$(IFS=,; echo "$*") Default=YES MaxTime=INFINITE State=UP" >>"$SLURM_CONF"
    # Without cgroups: 23.02 can be told so; before, the plugin of version 1 does nothing until another one asks it to.
    if [[ $(slurmd -V) =~ ([0-9]+)\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}${BASH_REMATCH[2]}" -lt 2302 ]; then
        echo "CgroupPlugin=cgroup/v1"
    else
        echo "CgroupPlugin=disabled"
    fi >"$SLURM/cgroup.conf"
    head -c 1024 /dev/urandom >"$SLURM/munge.key"
    chmod 600 "$SLURM/munge.key"
}
slurm_controller() {
    slurmctld -D -f "$SLURM_CONF" >>"$SLURM/slurmctld.err" 2>&1 &
    ctld_pid=$!
    wait_for 120 slurm_answers
}
slurm_answers() { scontrol ping | grep -q 'is UP'; }
slurm_node() { # NODE
    mkdir -p "$SLURM/spool.$1"
    slurmd -D -N "$1" -f "$SLURM_CONF" >>"$SLURM/slurmd.$1.err" 2>&1 &
    slurmd_pid[$1]=$!
}
slurm_idle() { [ "$(sinfo -h -N -t idle -o %N | sort -u | wc -l)" -eq "$1" ]; }
slurm_idle_or_dead() {
    local node
    for node in "${slurm_nodes[@]}"; do
        ! is_gone "${slurmd_pid[$node]}" || return 0
    done
    slurm_idle "$1"
}
slurm_tail() { tail -q -n 3 "$@" 2>/dev/null | tr '\n' ' ' | cut -c1-300; }
slurm_start() { # NODE...
    local node
    slurm_reason=$(slurm_missing)
    [ -z "$slurm_reason" ] || { slurm_reason="there is no $slurm_reason (packages slurm-wlm and munge)"; return 1; }
    slurm_nodes=("$@")
    slurm_configure "$@"
    trap 'slurm_stop; rm -rf "$TMP"' EXIT
    munged --force --foreground --socket="$SLURM/munge.socket" --key-file="$SLURM/munge.key" --pid-file="$SLURM/munged.pid" \
        --seed-file="$SLURM/munged.seed" --log-file="$SLURM/munged.log" >"$SLURM/munged.err" 2>&1 &
    munged_pid=$!
    wait_for 120 test -S "$SLURM/munge.socket" || { slurm_reason="munged does not start here: $(slurm_tail "$SLURM"/munged.{err,log})"; return 1; }
    slurm_controller || { slurm_reason="slurmctld does not start here: $(slurm_tail "$SLURM"/slurmctld.{err,log})"; return 1; }
    for node; do slurm_node "$node"; done
    wait_for 180 slurm_idle_or_dead $# && slurm_idle $# || { slurm_reason="slurmd does not start here: $(slurm_tail "$SLURM"/slurmd.*.{err,log})"; return 1; }
}
# The parts that ferry makes in this cluster: "PID TASK NODE" lines.
slurm_parts() {
    local f env task node
    for f in $(grep -lzxF "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ 2>/dev/null); do
        [ "$(readlink "${f%/environ}/exe")" = "$FERRY" ] || continue
        env=$(tr '\0' '\n' <"$f")
        task=$(sed -n 's/^SLURM_ARRAY_TASK_ID=//p' <<<"$env")
        node=$(sed -n 's/^SLURMD_NODENAME=//p' <<<"$env")
        f=${f#/proc/}
        [ -z "$task" ] || echo "${f%/environ} $task $node"
    done 2>/dev/null
}
# Ends a node as a power cut does: its slurmd, and of each of its parts ferry, the script and slurmstepd.
slurm_kill_node() { # NODE
    local pid task node
    kill -KILL "${slurmd_pid[$1]}"
    wait "${slurmd_pid[$1]}" 2>/dev/null
    while read -r pid task node; do
        [ "$node" = "$1" ] || continue
        slurm_kill_upwards "$pid" 3
    done < <(slurm_parts)
}
slurm_kill_upwards() { # PID N
    local parent
    parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
    [ "$2" -le 1 ] || [ "${parent:-1}" -le 1 ] || slurm_kill_upwards "$parent" $(($2 - 1))
    kill -KILL "$1" 2>/dev/null
}
slurm_stop() {
    local pid
    scancel --quiet -u "$(id -un)" 2>/dev/null
    while read -r pid _; do slurm_kill_upwards "$pid" 3; done < <(slurm_parts)
    for pid in "${slurmd_pid[@]}" $ctld_pid $munged_pid; do kill -TERM "$pid" 2>/dev/null; done
    for pid in "${slurmd_pid[@]}" $ctld_pid $munged_pid; do
        wait_for 10 is_gone "$pid" || kill -KILL "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    slurmd_pid=() ctld_pid='' munged_pid=''
}
