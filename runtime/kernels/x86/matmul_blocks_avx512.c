/* q8_0, q4_0, q4_1, q5_0, q5_1, q4_K, q5_K and q6_K weights times quantized activations
 * (vnni_blocks.h). These are its vectors in AVX-512: 16 rows.
 *
 * F, BW, DQ, VL and VNNI, what Cascade Lake has; VBMI would not help: its byte permutation puts
 * blocks of one row side by side, and the contract wants a row's blocks one after the other.
 * tests/kcheck also builds this file without the instructions, for an emulation of them. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/vec_avx2.h"

#define FY_V_ISA avx512

enum {
    FY_V_PARTS = 4, /* of 16 bytes */
    FY_V_ROWS = 16,
    /* On Zen 5 AVX2 reads q4_0 at 21 GB/s and q6_K at 17, these vectors at 16 and 9: gathering 16
     * rows' parts into a register costs more than its width saves. */
    FY_V_ONE_COLUMN = 0,
};
/* of a tile: with two groups of rows 12 sums and 12 chains of 32 registers */
#define FY_V_COLS 6
/* columns that go through the file's layout; from 5 on registers spill, which costs less than repacking */
#define FY_V_FEW 8

typedef __m512i fy_vi;
typedef __m512 fy_vf;

/* As FY_KEEP_IN_REGISTER. An emulated vector does not fit one. */
#ifdef __AVX512F__
#define FY_V_KEEP(v) __asm__("" : "+v"(v))
#else
#define FY_V_KEEP(v) (void)(v)
#endif

#define FY_V_OP(op)   _mm512_##op
#define FY_V_BITS(op) _mm512_##op##_si512
#define fy_v_dot      _mm512_dpbusd_epi32 /* the sum, unsigned bytes, signed bytes */
#define fy_v_load     _mm512_loadu_si512
#define fy_v_store    _mm512_storeu_si512

#define fy_v_same_part _mm512_broadcast_i32x4 /* 16 bytes */

/* 16 bytes at p, p + 4 step, p + 8 step, p + 12 step. */
FY_INLINE fy_vi fy_v_load_parts(const uint8_t *p, size_t step)
{
    __m512i v = _mm512_castsi128_si512(fy_load128(p));
    v = _mm512_inserti32x4(v, fy_load128(p + 4 * step), 1);
    v = _mm512_inserti32x4(v, fy_load128(p + 8 * step), 2);
    return _mm512_inserti32x4(v, fy_load128(p + 12 * step), 3);
}

/* 16 in the bytes that have their bit of `which`. */
FY_INLINE fy_vi fy_v_sixteen_if(fy_vi v, fy_vi which)
{
    return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(v, which), _mm512_set1_epi8(16));
}

/* The f16 in the lower halves of the dwords. */
FY_INLINE fy_vf fy_v_widen_f16(fy_vi v)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

#include "kernels/x86/vnni_blocks.h"
