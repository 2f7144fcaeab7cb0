#!/usr/bin/env bash
# ferry farm on a real Slurm: slurmctld, two slurmd and munged of Debian's packages, private to this test. A node that dies in
# mid-job, cancelled jobs, a controller that is killed and started again, parts that fail, a follower that leaves: the file has
# the bytes of one process, or it is not there, and the exit status tells which.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/slurm_lib.sh
. tests/slurm_lib.sh
FERRY=$(realpath "$FERRY")
make_gguf=$(realpath build/host/release/tests/bench/make_gguf)
unset "${!SLURM_@}" "${!SBATCH_@}" "${!SQUEUE_@}" "${!SCANCEL_@}"
export SLURM_CONF=$TMP/slurm/slurm.conf

if ! slurm_start n1 n2; then
    skip "farm on Slurm" "$slurm_reason"
    finish
    exit
fi
cd "$TMP" || exit 1
# Work that takes a while: 4 parts of about a second.
"$make_gguf" f16.gguf --type f16 --layers 4 --embd 1024 --ff 3072 --heads 16 --heads-kv 4 --vocab 4096
declare -A known # processes that were there before farm
work=(quantize f16.gguf m.gguf q4_0 --fit -t 1)
"$FERRY" quantize f16.gguf want.gguf q4_0 --fit -q
begin() { # starts farm in the background: $farm_pid; what it writes goes to log
    local p
    known=()
    for p in /proc/[0-9]*; do known[$p]=1; done
    "$FERRY" farm -j 4 -v "$@" "${work[@]}" 2>log &
    farm_pid=$!
}
end() { # waits for it, at most 5 minutes: $status
    wait_for 300 is_gone $farm_pid || kill -KILL $farm_pid
    wait $farm_pid
    status=$?
}
right() { # NAME: the file of one process, and nothing else
    check_equal "$1: exit status" 0 "$status"
    check "$1: the bytes of one process" cmp want.gguf m.gguf
    check_equal "$1: nothing else is left" "" "$(ls -d m.gguf.* ferry-farm-* 2>/dev/null)"
    [ "$status" -eq 0 ] || sed 's/^/# /' log >&2
    rm -rf m.gguf m.gguf.* ferry-farm-*
}
absent() { # NAME STATUS PATTERN: no file, and farm tells why; then the same command makes it
    check_equal "$1: exit status" "$2" "$status"
    check "$1: no file" test ! -e m.gguf
    check "$1: the message" grep -qE "$3" log
    check "$1: no job is left" wait_for 180 no_jobs
    [ "$status" -eq "$2" ] || sed 's/^/# /' log >&2
    rm -rf ferry-farm-*
    begin
    end
    right "$1, and then the same command"
}
no_jobs() { [ -z "$(squeue -h -t PD,R,CG,S)" ]; }
# Stops one part in the middle of its work: $pid, $task, $node. Without starting a process: parts are short. Where all are
# done before one was seen, farm begins again.
stop_a_part() {
    local p v comm ours until=$((SECONDS + 200))
    pid=''
    while [ -z "$pid" ] && [ $SECONDS -lt $until ]; do
        if [ -e m.gguf ]; then
            end
            rm -rf m.gguf ferry-farm-*
            begin
        fi
        for p in /proc/[0-9]*; do
            [ -z "${known[$p]-}" ] && read -r comm <"$p/comm" && [ "$comm" = ferry ] || continue
            task='' node='' ours=''
            while IFS= read -r -d '' v; do
                case $v in
                SLURM_CONF="$SLURM_CONF") ours=1 ;;
                SLURM_ARRAY_TASK_ID=*) task=${v#*=} ;;
                SLURMD_NODENAME=*) node=${v#*=} ;;
                esac
            done <"$p/environ"
            if [ -n "$ours" ] && [ -n "$task" ] && [ -e "m.gguf.$task-of-4.part" ] && kill -STOP "${p#/proc/}"; then
                pid=${p#/proc/}
                break
            fi
        done
    done 2>/dev/null
    check "a part runs" test -n "$pid"
}

begin
end
check_equal "both nodes made parts" "n1 n2" "$(sed -n 's/^part .* \(is running\|is done\) (\(.*\))$/\2/p' log | sort -u | xargs)"
check_equal "a line says of each part that it is done" 4 "$(grep -c '^part .* of 4 is done' log)"
right "four parts on two nodes"

# --- a node dies in mid-job -----------------------------------------------------------------------------------------
begin
stop_a_part
slurm_kill_node "$node"
end
check "the part that was there is made on the other node" grep -qE "^part $task of 4 is done \(n[12]\)" <(grep -v "($node)" log)
right "a node that dies"
slurm_node "$node"
check "the node is back" wait_for 120 slurm_idle 2

# --- cancelled ------------------------------------------------------------------------------------------------------
begin
stop_a_part
wait_for 180 grep -q '^job' log
scancel "$(sed -n 's/^job \([0-9]*\):.*/\1/p' log)"
end
absent "cancelled by scancel" 130 'was cancelled; the same command resumes'
begin
stop_a_part
kill -INT $farm_pid
end
absent "Ctrl-C" 130 'interrupted: . of 4 parts are done'

# --- the controller is killed and started again ------------------------------------------------------------------------
begin
stop_a_part
# What it has not written yet it forgets, and starts a job twice: so another change is waited for.
: >marker
extra=$(sbatch --parsable --hold --wrap true)
wait_for 180 test "$SLURM/state/job_state" -nt marker
kill -KILL "$ctld_pid"
wait "$ctld_pid" 2>/dev/null
kill -CONT "$pid"
check "farm waits for an answer" wait_for 120 grep -q 'asked again' log
slurm_controller
check "slurmctld starts again" slurm_answers
scancel "$extra"
end
check "and got one" grep -q 'Slurm answers again' log
right "a controller that is killed"
check "both nodes are there" wait_for 180 slurm_idle 2

# --- left, and joined again -------------------------------------------------------------------------------------------
begin
stop_a_part
kill -HUP $farm_pid
end
check_equal "when the terminal closes, farm ends" 130 "$status"
job=$(sed -n 's/.*ferry farm --follow //p' log | tail -1)
check "and the jobs run" test -n "$(squeue -h -t R -j "$job")"
kill -CONT "$pid"
"$FERRY" farm -v --follow "$job" 2>log &
farm_pid=$!
end
right "joined again"
job=$("$FERRY" farm -j 4 --detach "${work[@]}")
check "--detach prints the number of the job" grep -qxE '[0-9]+' <<<"$job"
check "the work ends without a follower" wait_for 300 test -e m.gguf
check "who comes late learns that it is done" "$FERRY" farm --follow "$job"
status=0
right "without a follower"

# --- parts that fail --------------------------------------------------------------------------------------------------
mkdir m.gguf.2-of-4.part
begin
check "a part fails" wait_for 200 grep -q '^part 2 of 4 failed.*: exit status 1' log
rmdir m.gguf.2-of-4.part
end
check "it is sent again alone" grep -q '^parts 2 again: try 2 of 3' log
right "a part that fails once"
mkdir m.gguf.2-of-4.part
begin --retries 1
end
check "its log is shown, and kept" grep -q 'part 2 of 4 failed, as often as it was sent: exit status 1: ferry quantize: .*; more in ferry-farm-' log
rmdir m.gguf.2-of-4.part
absent "a part that fails for good" 1 'ferry farm: part 2 of 4 failed'
"$FERRY" quantize f16.gguf m.gguf q8_0 -q --part 1/4
begin
end
check_equal "other work is not sent again" 0 "$(grep -c 'again: try' log)"
check_equal "and the exit status is that of the part" 2 "$status"
check "no job is left" wait_for 180 no_jobs
cd - >/dev/null || exit 1
finish
