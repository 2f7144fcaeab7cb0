#!/usr/bin/env bash
# docs/perf/arm64.md on stdout: what LLVM's scheduling models say of the hot loops of the arm64 kernels.
#   make TARGET=aarch64 && tests/bench/arm_loops.sh > docs/perf/arm64.md      needs llvm-mca (Debian: llvm-19)
# FERRY_BENCH_OBJECTS=DIR takes the kernels' objects from elsewhere.
set -euo pipefail
cd "$(dirname "$0")/../.."

objects=${FERRY_BENCH_OBJECTS:-build/aarch64/release/runtime/kernels/arm}
mca=llvm-mca-19
cpus="cortex-a520 cortex-a720 cortex-x925"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What it does | object | function | instruction that multiplies | one the loop must not have | one it must have |
# multiply-adds of the first | bytes of weights, keys or values after a multiply-add (0: they are reused). Of the
# innermost loops that match, the one that multiplies most.
loops() {
    cat <<'END'
q4_0, one token, SDOT|matmul_dotprod|matvec_q4_0|sdot|-|fcvtl2|16|0.5625
q4_0, many tokens, SDOT|matmul_dotprod|fy_matmul_q4_0__dotprod|sdot|fcvtl|-|16|0
q4_0, many tokens, SMMLA|matmul_i8mm|fy_matmul_q4_0__i8mm|smmla|-|-|32|0
q8_0, one token, SDOT|matmul_dotprod|matvec_q8_0|sdot|-|fcvtl2|16|1.0625
q8_0, many tokens, SDOT|matmul_dotprod|fy_matmul_q8_0__dotprod|sdot|fcvtl|-|16|0
q8_0, many tokens, SMMLA|matmul_i8mm|fy_matmul_q8_0__i8mm|smmla|-|-|32|0
q4_0, one token, NEON|matmul_neon|matvec_q4_0|smlal2|-|fcvtl2|16|0.5625
q4_0, many tokens, NEON|matmul_neon|fy_matmul_q4_0__neon|smlal2|-|saddw2|16|0
q8_0, one token, NEON|matmul_neon|matvec_q8_0|smlal2|-|fcvtl2|16|1.0625
q8_0, many tokens, NEON|matmul_neon|fy_matmul_q8_0__neon|smlal2|-|scvtf|16|0
f16, largest loop, NEON|matmul_float_neon|fy_matmul_f16__neon|fmla|-|-|4|2
scores of f16 keys, a few queries|attend_neon|fy_attend_dots_f16__neon|fmla|-|fcvtl|4|0
scores of f16 keys, many queries|attend_neon|fy_attend_dots_f16__neon|fmla|fcvtl|-|4|0
sums of f16 values, a few queries|attend_neon|fy_attend_add_f16__neon|fmla|-|fcvtl|4|0
sums of f16 values, many queries|attend_neon|fy_attend_add_f16__neon|fmla|fcvtl|-|4|0
END
}

# OBJECT FUNCTION HAS WITHOUT WITH: its body as assembly, with one label
body() {
    [ -f "$objects/$1.o" ] || return 1
    aarch64-linux-gnu-objdump -d --no-show-raw-insn "$objects/$1.o" | awk -v fn="<$2>:" -v has="$3" -v without="$4" -v with="$5" '
        function wide(s) { return substr("0000000000000000" s, length(s) + 1) }
        /^[0-9a-f]+ </ { inside = $2 == fn; next }
        !inside || !/^ *[0-9a-f]+:\t/ { next }
        {
            n++
            at[wide(substr($1, 1, length($1) - 1))] = n
            text = $0
            sub(/^[^\t]*\t/, "", text)
            sub(/ *(\/\/.*|<.*)/, "", text)
            line[n] = text
            op[n] = $2
            if ($2 ~ /^(b|b\..*|cbn?z|tbn?z)$/) {
                fields = split(text, field, /[ \t,]+/)
                target = wide(field[fields])
                if (target in at) {
                    begin[++loops] = at[target]
                    end[loops] = n
                }
            }
        }
        function count(l, what,   i, c) {
            for (i = begin[l]; i <= end[l]; i++)
                c += op[i] == what
            return c + 0
        }
        function innermost(l,   j) {
            for (j = 1; j <= loops; j++)
                if (j != l && begin[j] >= begin[l] && end[j] <= end[l] && end[j] - begin[j] < end[l] - begin[l])
                    return 0
            return 1
        }
        END {
            for (l = 1; l <= loops; l++) {
                if (!innermost(l) || (without != "-" && count(l, without)) || (with != "-" && !count(l, with)))
                    continue
                if (count(l, has) > most) {
                    most = count(l, has)
                    best = l
                }
            }
            if (!best)
                exit 1
            print "again:"
            for (i = begin[best]; i <= end[best]; i++) {
                if (op[i] ~ /^(b|b\..*|cbn?z|tbn?z)$/)
                    sub(/[^ \t,]+$/, "again", line[i])
                print line[i]
            }
        }'
}

# ASSEMBLY CPU: "cycles pressure": of one pass in the long run, and the busiest unit with its cycles
schedule() {
    "$mca" -mtriple=aarch64 -mcpu="$2" -mattr=+dotprod,+i8mm,+fullfp16 -iterations=1000 -instruction-info=0 "$1" | awk '
        /^Total Cycles:/ { cycles = $3 / 1000 }
        /^\[[0-9.]+\] +- / { unit[++n] = $3 }
        /^Resource pressure per iteration:/ { getline; getline; for (i = 1; i <= n; i++) if ($i + 0 > most) { most = $i; busy = unit[i] } }
        END { sub(/^(N2|V2|CortexA510)Unit/, "", busy); printf "%.1f %s:%.1f\n", cycles, busy, most }'
}

cat <<'END'
# The arm64 kernels in LLVM's models of processors

Made by `tests/bench/arm_loops.sh` from the device build: do not edit. It takes the innermost loops out of the objects
and has llvm-mca 19 run them from registers and the first cache for 1000 passes. That tells what the instructions cost and
what they wait for, not what memory costs: decoding on a phone ends at the memory's rate long before these.

No table of LLVM 19, the newest of Debian 12, is one of these cores' own:

* `cortex-a520` is scheduled as Cortex-A510, in order.
* `cortex-a720` is scheduled as Neoverse N2: two vector units.
* `cortex-x925` is scheduled as Neoverse V2, kin of Cortex-X3: four vector units, where Cortex-X925 has six. These rows stand for
  Cortex-X4 too, which has four; LLVM gives it the table of Neoverse N2.

A pass is one turn of the loop; MAC are its multiply-adds; B/cycle are bytes of weights, keys or values that it consumes
per cycle where each is used once. "Busy" is the unit with the most work and its cycles per pass: as many as the pass takes
when the loop is bound by that unit, fewer when it waits for results (latency) or for issue.

| loop | instructions | MAC | processor | cycles | MAC/cycle | B/cycle | busy |
| --- | ---: | ---: | --- | ---: | ---: | ---: | --- |
END
loops | while IFS='|' read -r name object function has without with macs bytes; do
    body "$object" "$function" "$has" "$without" "$with" >"$work/loop.s" || {
        echo "arm_loops.sh: no loop for '$name' in $objects/$object.o" >&2
        continue
    }
    for cpu in $cpus; do
        read -r cycles busy < <(schedule "$work/loop.s" "$cpu")
        awk -v name="$name" -v cpu="$cpu" -v cycles="$cycles" -v busy="$busy" -v has="$has" -v macs="$macs" -v bytes="$bytes" '
            NR > 1 { n++; m += $1 == has ? macs : 0 }
            END {
                b = bytes > 0 ? sprintf("%.1f", m * bytes / cycles) : ""
                sub(":", " ", busy)
                printf "| %s | %d | %d | %s | %.1f | %.1f | %s | %s |\n", name, n, m, cpu, cycles, m / cycles, b, busy
            }' "$work/loop.s"
    done
done
