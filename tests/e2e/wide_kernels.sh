#!/usr/bin/env bash
# The kernels of AVX-512 and AVX-VNNI hold the instructions they are made for. On a machine without them kcheck runs their
# source over an emulation, which says nothing of what the compiler makes of it.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

objects=${B:-build/host/release}/runtime/kernels/x86
if [ ! -f "$objects/matmul_blocks_avx512.o" ]; then
    skip "instructions of the wide kernels" "no x86 build"
    finish
    exit
fi

# count OBJECT FUNCTION PATTERN: instructions of the function that match.
count() {
    objdump -d --no-show-raw-insn "$objects/$1.o" | awk -v f="<$2" -v p="$3" '
        /^[0-9a-f]+ </ { inside = index($2, f ">:") == 1 || index($2, f ".") == 1 }
        inside && $0 ~ p { n++ }
        END { print n + 0 }'
}
has() { [ "$(count "$@")" -gt 0 ]; }

for t in q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q5_k q6_k; do
    check "$t with AVX-VNNI multiplies 32 bytes at once" has matmul_blocks_avxvnni fy_matmul_${t}__avxvnni \
        '[{]vex[}] vpdpbusd .*%ymm'
done
for run in run_0 run_min_0; do # of the block types; one column is AVX2's
    check "$run with AVX-512 multiplies 64 bytes at once" has matmul_blocks_avx512 $run 'vpdpbusd .*%zmm'
done
check "q6_k with AVX-512 multiplies 64 bytes at once" has matmul_blocks_avx512 fy_matmul_q6_k__avx512 'vpdpbusd .*%zmm'
for t in f32 f16 bf16; do
    check "$t with AVX-512 adds 16 products at once" has matmul_float_avx512 fy_matmul_${t}__avx512 'vfmadd.*%zmm'
done
check "the quantizer's rounding is 64 bytes wide" has act_quantize_avx512 fy_act_quantize__avx512 'vcvttps2dq .*%zmm'

check_equal "a tile of six columns and 32 rows is unrolled" 96 "$(count matmul_blocks_avx512 run_0 'vpdpbusd .*%zmm')"
spilled=$(count matmul_blocks_avx512 run_0 '%zmm[0-9]+,.*[(]%[re][sb]p')
check "and its sums and chains stay in registers ($spilled stores)" [ "$spilled" -le 4 ]
check_equal "nothing of AVX-VNNI needs AVX-512" "" \
    "$(objdump -d --no-show-raw-insn "$objects"/*_avxvnni.o | grep -E '%zmm|%[xy]mm(1[6-9]|[23][0-9])|%k[0-7]' | head -3)"
finish
