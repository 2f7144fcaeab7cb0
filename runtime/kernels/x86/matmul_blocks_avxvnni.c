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

typedef __m256i fy_vi;
typedef __m256 fy_vf;

#define FY_V_KEEP(v) FY_KEEP_IN_REGISTER(v)

#define fy_v_and      _mm256_and_si256
#define fy_v_or       _mm256_or_si256
#define fy_v_xor      _mm256_xor_si256
#define fy_v_shl16    _mm256_slli_epi16
#define fy_v_shr16    _mm256_srli_epi16
#define fy_v_shl32    _mm256_slli_epi32
#define fy_v_shr32    _mm256_srli_epi32
#define fy_v_sar32    _mm256_srai_epi32
#define fy_v_shuffle8 _mm256_shuffle_epi8 /* in each part */
#define fy_v_set8     _mm256_set1_epi8
#define fy_v_set32    _mm256_set1_epi32
#define fy_v_zero     _mm256_setzero_si256
#define fy_v_add32    _mm256_add_epi32
#define fy_v_sub32    _mm256_sub_epi32
#define fy_v_sub8     _mm256_sub_epi8
#define fy_v_mul32    _mm256_mullo_epi32
#define fy_v_low32    _mm256_unpacklo_epi32
#define fy_v_high32   _mm256_unpackhi_epi32
#define fy_v_low64    _mm256_unpacklo_epi64
#define fy_v_high64   _mm256_unpackhi_epi64
#define fy_v_dot      _mm256_dpbusd_avx_epi32 /* the sum, unsigned bytes, signed bytes */
#define fy_v_to_float _mm256_cvtepi32_ps
#define fy_v_setf     _mm256_set1_ps
#define fy_v_zerof    _mm256_setzero_ps
#define fy_v_mulf     _mm256_mul_ps
#define fy_v_fmaf     _mm256_fmadd_ps
#define fy_v_loadf    _mm256_loadu_ps
#define fy_v_storef   _mm256_storeu_ps
#define fy_v_load     fy_load256

FY_INLINE void fy_v_store(void *p, fy_vi v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

#define fy_v_same_part _mm256_broadcastsi128_si256 /* 16 bytes */

/* 16 bytes at p and p + 4 step. */
FY_INLINE fy_vi fy_v_load_parts(const uint8_t *p, size_t step)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(fy_load128(p)), fy_load128(p + 4 * step),
                                   1);
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
