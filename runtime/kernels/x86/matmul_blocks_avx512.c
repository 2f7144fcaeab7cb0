/* q8_0, q4_0, q4_1, q5_0, q5_1, q4_K, q5_K and q6_K weights times quantized activations
 * (vnni_blocks.h). These are its vectors in AVX-512: 16 rows.
 *
 * F, BW, DQ, VL and VNNI, what Cascade Lake has; VBMI would not help: its byte permutation puts
 * blocks of one row side by side, and the contract wants a row's blocks one after the other.
 * tests/kcheck also builds this file without the instructions, for an emulation of them. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/tile_avx2.h"

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
/* columns of q6_K that go through the file's layout: more take more registers than there are, so
 * that a tile is faster (6 tokens of a 1.2 B model on Zen 5: 60.1 ms against 63.0) */
#define FY_V_FEW 5
/* columns of the other types that meet the weights in registers */
#define FY_V_SOME 16
/* What is prefetched goes to the second-level cache: on Zen 4 the first has too few places for
 * lines that are under way (two columns of q8_0, one thread: 10 GB/s of 29, now 27). */
#define FY_V_HINT _MM_HINT_T1

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

/* Adds the products of w with four bytes at x, the same for every lane. gcc would load them into a
 * register of their own, of which Zen 4 has too few for the instructions of two blocks. */
FY_INLINE fy_vi fy_v_dot_same4(fy_vi s, fy_vi w, const int8_t *x)
{
#if defined(__AVX512F__) && !defined(__clang__)
    typedef struct {
        int8_t b[4];
    } four;
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(s) : "v"(w), "m"(*(const four *)x));
    return s;
#else
    int32_t v;
    memcpy(&v, x, sizeof v);
    return fy_v_dot(s, w, _mm512_set1_epi32(v));
#endif
}

/* 16 bytes at p, p + 4 step, p + 8 step, p + 12 step. Inserting into half a register is half the
 * work. */
FY_INLINE fy_vi fy_v_load_parts(const uint8_t *p, size_t step)
{
    const __m256i low = fy_load2x128(p, p + 4 * step);
    const __m256i high = fy_load2x128(p + 8 * step, p + 12 * step);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* The dwords at p, p + step, .. Each is loaded from so far before that it comes to lie in its own
 * lane: what is read around it belongs to rows of the group. */
FY_INLINE __m128i four_dwords(const uint8_t *p, size_t step)
{
    __m128i v = fy_load128(p);
    v = _mm_blend_epi32(v, fy_load128(p + step - 4), 1 << 1);
    v = _mm_blend_epi32(v, fy_load128(p + 2 * step - 8), 1 << 2);
    return _mm_blend_epi32(v, fy_load128(p + 3 * step - 12), 1 << 3);
}

FY_INLINE fy_vi fy_v_load_dwords(const uint8_t *p, size_t step)
{
    const __m128i q[4] = {four_dwords(p, step), four_dwords(p + 4 * step, step),
                          four_dwords(p + 8 * step, step), four_dwords(p + 12 * step, step)};
    const __m256i low = _mm256_set_m128i(q[1], q[0]), high = _mm256_set_m128i(q[3], q[2]);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
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
