#!/usr/bin/env bash
# ferry farm without a cluster: processes here, what is printed for other schedulers, and stand-ins for Slurm's commands that
# fail, forget and print nonsense. tests/e2e/slurm.sh has the real ones.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
FERRY=$(realpath "$FERRY")
PTY=$(realpath "${PTY:-build/host/release/tests/e2e/pty_drive}")
unset SLURM_ARRAY_TASK_ID SLURM_ARRAY_JOB_ID JOB_COMPLETION_INDEX PMI_RANK

"$FERRY" convert tests/data/tales --outtype f16 -q -o "$TMP/f16.gguf"
cp tests/data/held.txt "$TMP"
cd "$TMP" || exit 1
"$FERRY" quantize f16.gguf want.gguf q4_0 -q
farm() { "$FERRY" farm "$@"; }
again() { rm -rf m.gguf m.gguf.* "a b"* ferry-farm-*; } # nothing is left of what was made

# --- which words are whose ------------------------------------------------------------------------------------------
check "the verb's options stand after it" farm --engine local -j 2 quantize f16.gguf m.gguf -q --pure q4_0
check "the bytes of one process" cmp want.gguf m.gguf
check_equal "nothing else is left" "f16.gguf held.txt m.gguf want.gguf" "$(echo *)"
again
check "and farm's too" farm quantize f16.gguf m.gguf q4_0 -j 3 --engine=local
check "the bytes of one process" cmp want.gguf m.gguf
again
check_status "no number of parts" 2 '^ferry farm: -j N is missing' farm quantize f16.gguf m.gguf q4_0
check_status "no verb" 2 'no verb' farm -j 2
check_status "a verb without parts" 2 "'inspect' is not a verb whose work can be cut into parts; expected one of .*convert, quantize" \
    farm -j 2 inspect f16.gguf --json
check_status "a verb that is none" 2 "'qantize' is not a verb" farm -j 2 qantize f16.gguf --pure
check_status "an option that the verb has not" 2 "quantize: unknown option '--pur'; did you mean --pure" farm -j 2 quantize f16.gguf m.gguf q4_0 --pur
check_status "a value that is none" 2 "quantize: --recipe: 'x' is not one of" farm -j 2 quantize f16.gguf m.gguf q4_0 --recipe x
check_status "too few words" 2 'quantize: too few arguments' farm -j 2 quantize f16.gguf
for o in --part=1/2 --finish=2; do
    check_status "$o is farm's to give" 2 'is for farm to give' farm -j 2 quantize f16.gguf m.gguf q4_0 $o
done
check_status "--dry-run is the verb's" 2 'ask the verb itself' farm -j 2 quantize f16.gguf m.gguf q4_0 --dry-run
check_status "-j 0" 2 'is out of range' farm -j 0 quantize f16.gguf m.gguf q4_0
check_status "--as with another engine" 2 'is for --engine print' farm -j 2 --as sbatch quantize f16.gguf m.gguf q4_0
check_status "--sbatch without Slurm" 2 'is for --engine slurm' farm -j 2 --engine local --sbatch=-pfast quantize f16.gguf m.gguf q4_0
check_status "--follow with a verb" 2 'takes no verb' farm --follow 3 quantize f16.gguf m.gguf q4_0
check_status "--follow of no number" 2 'expected the number of a job' farm --follow 3x
check_status "--follow of a job that is not from here" 2 'there is no ferry-farm-3 here' farm --follow 3
check_equal "nothing was begun" "f16.gguf held.txt want.gguf" "$(echo *)"

# --- verbs that print ---------------------------------------------------------------------------------------------------
check_equal "an evaluation prints what one process prints" "$("$FERRY" eval -m want.gguf --text held.txt -c 128 --json -q | jq .perplexity)" \
    "$(farm --engine local -j 3 -q eval -m want.gguf --text held.txt -c 128 --json -q | jq .perplexity)"
"$FERRY" compare f16.gguf want.gguf -q >compared
check_equal "a comparison, too, with its status" "$(cat compared)"$'\n'4 "$(farm --engine local -j 2 -q compare f16.gguf want.gguf -q; echo $?)"
rm -f compared compare-* eval-*

# --- what is printed, and run by what reads it ----------------------------------------------------------------------
out=$'a b\'$(touch hacked)`x`;"$HOME"\n#SBATCH --x'
farm --engine print -j 3 quantize f16.gguf "$out" q4_0 -q >commands
check_equal "a command for each part, and one for the end" 4 "$(grep -c -- '^[^#].* quantize --' commands)"
check "they run in a shell" sh commands
check "and make the file of that name" cmp want.gguf "$out"
check "and no other" test ! -e hacked
rm -f "$out"
farm --engine print --as sbatch -j 3 --sbatch=--partition=long quantize f16.gguf "$out" q4_0 -q >script
check "options of sbatch are in the script" grep -qx '#SBATCH --partition=long' script
check_equal "the lines for Slurm come before all commands" "1,2,3,4,5" "$(awk '!/^#/ { exit } { n = n s NR; s = "," } /^# / { exit } END { print n }' script | cut -d, -f1-5)"
for i in 2 1 3; do
    SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_JOB_ID=7 sh script || not_ok "task $i"
done
check "the script without a task ends the work" sh script
check "the bytes of one process" cmp want.gguf "$out"
check "no word was run" test ! -e hacked
check_equal "nothing else is left" "" "$(ls -d ferry-farm* 2>/dev/null)"
rm -f "$out"
check_status "an option of sbatch is one line" 2 "expected one option of sbatch" \
    farm --engine print --as sbatch -j 3 --sbatch $'--x\nrm' quantize f16.gguf m.gguf q4_0
farm --engine print --as kubernetes -j 3 quantize f16.gguf 'a $(HOME) "b".gguf' q4_0 >manifest
check_equal "a manifest has two jobs" "kind: Job kind: Job" "$(grep '^kind' manifest | xargs)"
check "of three pods" grep -qx '  completions: 3' manifest
# `kubernetes-validate --strict`, which has the published schemas, accepts these keys in these places for 1.30 and 1.37.
check_equal "the keys are those of a Job, each in its place" "apiVersion kind metadata .name spec .completionMode .completions .parallelism .backoffLimit \
.template ..spec ...restartPolicy ...containers ....name ....image ....workingDir ....command ....volumeMounts .....name .....mountPath ...volumes ....name \
....persistentVolumeClaim .....claimName" \
    "$(sed '/^---/,$d; /^#/d; s/- /  /' manifest | awk '{ match($0, /^ */); k = $1; sub(/:.*/, "", k); printf "%s%s%s", s, substr("........", 1, RLENGTH / 2), k; s = " " }')"
# JSON is YAML: the list of words is one
sed -n 's/^ *command: //p' manifest >words
check_equal "its words, of which \$\$ is a \$" '["ferry","quantize","--part","auto/3","f16.gguf","a $$(HOME) \"b\".gguf","q4_0"]' "$(head -1 words | jq -c .)"
check_equal "and the end's" '["ferry","quantize","--finish","3","f16.gguf","a $$(HOME) \"b\".gguf","q4_0"]' "$(tail -1 words | jq -c .)"
check_status "a name that is not UTF-8" 2 'is not UTF-8' farm --engine print --as kubernetes -j 3 quantize f16.gguf $'\xff.gguf' q4_0
check_equal "nothing ran" "" "$(ls m.gguf* 2>/dev/null)"
rm -f commands script manifest words

# --- processes here: failures, Ctrl-C ---------------------------------------------------------------------------------
mkdir m.gguf.2-of-3.part
check_status "a part that fails is made again, and then given up" 1 \
    'part 2 of 3 failed: exit status 1.*ferry farm: part 2 of 3 failed, as often as it was sent: exit status 1: ferry quantize: .*m.gguf.2-of-3.part' \
    bash -c "'$FERRY' farm --engine local -j 3 --retries 1 quantize f16.gguf m.gguf q4_0 2>&1 | tr '\n' ' ' >&2; exit \${PIPESTATUS[0]}"
check "the file is absent" test ! -e m.gguf
rmdir m.gguf.2-of-3.part
check "the same command resumes" farm --engine local -j 3 quantize f16.gguf m.gguf q4_0
check "the bytes of one process" cmp want.gguf m.gguf
again
"$FERRY" quantize f16.gguf m.gguf q8_0 -q --part 1/3
check_status "other work is not tried again" 2 'part [123] of 3 failed: exit status 2: .*is of other work' farm --engine local -j 3 quantize f16.gguf m.gguf q4_0
for _ in {1..20}; do # (again where a fast machine has made all before the signal)
    again
    "$FERRY" farm --engine local -j 200 quantize f16.gguf m.gguf q4_0 2>log &
    pid=$!
    until grep -q 'part .* is done' log || is_gone $pid; do :; done
    kill -TERM $pid 2>/dev/null
    wait $pid
    status=$?
    [ $status -eq 0 ] || break
done
check_equal "a signal ends it" 130 $status
check "with what to do next" grep -q 'of 200 parts are done; the same command resumes' log
check "the file is absent" test ! -e m.gguf
check "the same command resumes" farm --engine local -j 200 quantize f16.gguf m.gguf q4_0
check "the bytes of one process" cmp want.gguf m.gguf
again
if [ -x "$PTY" ]; then
    printf 'wait parts [\nend 0\n' >steps
    check "a bar on a terminal" env TERM=xterm "$PTY" -o seen steps "$FERRY" farm --engine local -j 20 quantize f16.gguf m.gguf q4_0
    check_equal "and no line for each change" "" "$(grep -a 'part .* of 20 is running' seen)"
    again
    rm -f steps seen
fi

# --- stand-ins for Slurm ----------------------------------------------------------------------------------------------
mkdir bin
cat >bin/sbatch <<'END'
#!/bin/sh
echo "sbatch $*" >>"$CALLS"
[ -z "$SBATCH_SAYS" ] || { echo "$SBATCH_SAYS" >&2; exit 1; }
n=$(($(cat "$CALLS.n" 2>/dev/null || echo 40) + 1))
echo $n >"$CALLS.n"
echo "${SBATCH_PRINTS-$n}"
END
# release: the tasks of the first array run, of later ones those that the last call named
cat >bin/scontrol <<'END'
#!/bin/sh
echo "scontrol $*" >>"$CALLS"
for i in ${TASKS:-1 2 3}; do
    SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_JOB_ID=$2 sh ferry-farm-*/script ferry-farm-41 >ferry-farm-41/$i.log 2>&1
done
[ -n "$TASKS" ] || sh ferry-farm-*/script ferry-farm-41 >ferry-farm-41/finish.out 2>ferry-farm-41/finish.log
exit 0
END
# the first call gets no answer; then the jobs are forgotten, or it prints something else
cat >bin/squeue <<'END'
#!/bin/sh
[ -e "$CALLS.asked" ] || { : >"$CALLS.asked"; echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1; }
[ -z "$SQUEUE_SAYS" ] || { echo "$SQUEUE_SAYS" >&2; exit 1; }
[ -z "$PRINTS" ] || printf '%b' "$PRINTS"
END
cat >bin/scancel <<'END'
#!/bin/sh
echo "scancel $*" >>"$CALLS"
END
chmod +x bin/*
export PATH=$TMP/bin:$PATH CALLS=$TMP/calls
slurm() { # NAME STATUS PATTERN VARIABLE=VALUE... : of a job in three parts
    local name=$1 status=$2 pattern=$3
    shift 3
    rm -f "$CALLS"*
    check_status "$name" "$status" "$pattern" env "$@" "$FERRY" farm -j 3 --retries 1 quantize f16.gguf m.gguf q4_0
}
slurm "jobs that slurmctld has forgotten are known by their files" 0 'Unable to contact slurm controller.*asked again'
check "the bytes of one process" cmp want.gguf m.gguf
check_equal "held until all is there" \
    "sbatch --parsable --array 1-3 --output ferry-farm-%A/%a.log --hold ferry-farm-X/script
sbatch --parsable --dependency afterok:41 --output ferry-farm-41/finish.out --error ferry-farm-41/finish.log --kill-on-invalid-dep=yes ferry-farm-41/script ferry-farm-41
scontrol release 41" "$(sed 's,ferry-farm-[A-Za-z0-9]*/script$,ferry-farm-X/script,' "$CALLS")"
check_equal "its directory is gone" "" "$(ls -d ferry-farm-* 2>/dev/null)"
again
slurm "what is not known of any part is sent again, and then given up" 1 'part 2 of 3 failed, as often as it was sent.*more in ferry-farm-41' TASKS=1
check_equal "the parts that failed alone" "--array 2-3" "$(grep -o -- '--array 2-3' "$CALLS")"
check "its directory is there" test -s ferry-farm-41/script
check_status "following it again" 1 'part 2 of 3 failed' farm --follow 41
again
slurm "sbatch that refuses" 1 'ferry farm: sbatch: sbatch: error: Invalid account' SBATCH_SAYS='sbatch: error: Invalid account'
check_equal "nothing is left" "" "$(ls -d ferry-farm-* m.gguf* 2>/dev/null)"
slurm "sbatch that prints no number" 1 "sbatch printed 'hello" SBATCH_PRINTS=hello
slurm "squeue that prints nonsense" 1 "squeue printed '.x1b.31mx', expected JOB.TASK.STATE" PRINTS='\033[31mx\n'
again
slurm "a part that somebody cancelled" 130 'part 2 of 3 was cancelled; the same command resumes' \
    PRINTS='41|1|COMPLETED|n1|None\n41|2|CANCELLED||None\n41|3|COMPLETED|n1|None\n42|N/A|PENDING||Dependency\n'
check "and the other job is cancelled" grep -q '^scancel --quiet 41 42' "$CALLS"
again
slurm "a part that Slurm could not start is sent again" 0 'part 2 of 3 failed \(launch failed requeued held\)' \
    PRINTS='41|1|COMPLETED|n1|None\n41|2|PENDING||launch failed requeued held\n41|3|COMPLETED|n1|None\n'
check "its old task is cancelled" grep -q '^scancel --quiet 41_2$' "$CALLS"
again
slurm "an end that somebody cancelled" 130 'the end was cancelled' \
    PRINTS='41|1|COMPLETED|n1|None\n41|2|COMPLETED||None\n41|3|COMPLETED|n1|None\n42|N/A|CANCELLED||None\n'
again
check_status "no Slurm here" 1 'sbatch: cannot start: No such file' env PATH=/nowhere "$FERRY" farm -j 3 quantize f16.gguf m.gguf q4_0
check_equal "nothing is left" "" "$(ls -d ferry-farm-* m.gguf* 2>/dev/null)"
cd - >/dev/null || exit 1
finish
