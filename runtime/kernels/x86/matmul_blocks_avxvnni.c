/* q8_0, q4_0, q4_1, q5_0, q5_1, q4_K, q5_K and q6_K weights times quantized activations
 * (vnni_blocks.h). These are its vectors in AVX2 with AVX-VNNI: 8 rows. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/vec_avx2.h"

#define FY_V_ISA avxvnni

enum {
    FY_V_PARTS = 2, /* of 16 bytes */
    FY_V_ROWS = 8,
    FY_V_ONE_COLUMN = 1,
};
/* of a tile: with two groups of rows 8 sums; the chains lie in memory */
#define FY_V_COLS 4
/* columns that go through the file's layout */
#define FY_V_FEW  2
#define FY_V_SOME 0 /* there are 16 registers */
#define FY_V_HINT _MM_HINT_T0

typedef __m256i fy_vi;
typedef __m256 fy_vf;

#define FY_V_KEEP(v) FY_KEEP_IN_REGISTER(v)

#define FY_V_OP(op)   _mm256_##op
#define FY_V_BITS(op) _mm256_##op##_si256
#define fy_v_dot      _mm256_dpbusd_avx_epi32 /* the sum, unsigned bytes, signed bytes */
#define fy_v_load     fy_load256
#define fy_v_store    fy_store256

#define fy_v_same_part _mm256_broadcastsi128_si256 /* 16 bytes */

/* 16 bytes at p and p + 4 step. */
FY_INLINE fy_vi fy_v_load_parts(const uint8_t *p, size_t step)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(fy_load128(p)), fy_load128(p + 4 * step),
                                   1);
}

/* The dwords at p, p + step, .. */
FY_INLINE fy_vi fy_v_load_dwords(const uint8_t *p, size_t step)
{
    __m256i v[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = fy_v_load_parts(p + (size_t)i * step, step);
    return _mm256_unpacklo_epi64(_mm256_unpacklo_epi32(v[0], v[1]),
                                 _mm256_unpacklo_epi32(v[2], v[3]));
}

/* 16 in the bytes that have their bit of `which`. */
FY_INLINE fy_vi fy_v_sixteen_if(fy_vi v, fy_vi which)
{
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(v, which), which);
    return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

/* The f16 in the lower halves of the dwords. */
FY_INLINE fy_vf fy_v_widen_f16(fy_vi v)
{
    const __m256i words = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0xd8);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed)); /* packing is per 128 bits */
}

#include "kernels/x86/vnni_blocks.h"
