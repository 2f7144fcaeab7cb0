/* Fitted blocks, four side by side. */
#include <arm_neon.h>
#include <math.h>

#include "kernels/arm/vec_neon.h"
#include "kernels/kernel_impl.h"

enum { LANES = 4 };

typedef float32x4_t lanes;

#define all       vdupq_n_f32
#define load      vld1q_f32
#define store     vst1q_f32
#define rounded   vrndnq_f32
#define magnitude vabsq_f32

FY_INLINE lanes where_more(lanes a, lanes b, lanes yes, lanes no)
{
    return vbslq_f32(vcgtq_f32(a, b), yes, no);
}

FY_INLINE lanes most(lanes a, lanes b) /* unlike vmaxnm, b where both are a zero */
{
    return where_more(a, b, a, b);
}

FY_INLINE lanes least(lanes a, lanes b)
{
    return where_more(b, a, a, b);
}

FY_INLINE lanes halved(lanes v)
{
    return vcvt_f32_f16(vcvt_f16_f32(v));
}

#include "kernels/scalar/fit_lanes.h"

DEFINE_FITS(neon)
