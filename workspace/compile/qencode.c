/* Encodings of activations: fixed ones, and those that follow from calibrated ranges. The numbers
 * that HTP insists on are in docs/npu-real.md. */
#include "workspace/compile/qencode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernels/kernels.h"

#define HEADROOM     1.5f /* of u16 activations: half a bit for values that calibration did not see */
#define HIDDEN_BELOW 20.0f /* exp(-20): what the bottom of a masked score still weighs */
#define LEAST_RANGE  1e-4f

typedef struct {
    float min, max;
} span;

/* 0 is always inside. */
static span with_headroom(const fy_q_range *r)
{
    const float min = r->min < 0 ? r->min : 0, max = r->max > 0 ? r->max : 0;
    const float middle = (min + max) / 2, half = (max - min) / 2 * HEADROOM;
    span s = {middle - half, middle + half};
    if (min == 0)
        s.min = 0;
    if (max == 0)
        s.max = 0;
    if (s.max - s.min < LEAST_RANGE)
        s.max = s.min + LEAST_RANGE;
    return s;
}

/* Visible scores, and from HIDDEN_BELOW below the lowest of them. */
static span masked(const fy_q_range *r)
{
    span s = with_headroom(r);
    s.min -= HIDDEN_BELOW;
    return s;
}

static float largest(const fy_q_range *r)
{
    const float a = fabsf(r->min), b = fabsf(r->max), most = a > b ? a : b;
    return most > LEAST_RANGE ? most : LEAST_RANGE;
}

static fy_q_encoding asymmetric(span s, float codes)
{
    const float scale = (s.max - s.min) / codes;
    const float below = roundf(s.min / scale);
    return (fy_q_encoding){scale, (int32_t)(below < -codes ? -codes : below)};
}

static fy_q_encoding symmetric(float most, fy_q_type type)
{
    return type == FY_Q_U8    ? (fy_q_encoding){most / 127, -128}
           : type == FY_Q_S16 ? (fy_q_encoding){most / 32767, 0}
                              : (fy_q_encoding){most / 32767, -32768};
}

static bool is_float(const fy_q_tensor *t)
{
    return t->type == FY_Q_F32 || t->type == FY_Q_F16 || t->type == FY_Q_BOOL;
}

static const fy_q_range *range_of(const fy_qgraph *g, const fy_q_ranges *ranges, uint32_t range,
                                  fy_err *e)
{
    const char *name = g->ranges[range].name;
    const fy_q_range *r = ranges != NULL ? fy_q_ranges_find(ranges, name) : NULL;
    if (r == NULL)
        fy_fail(e, FY_EFORMAT,
                "the ranges have no '%s': they are of another model; calibrate again", name);
    else if (r->min > r->max || !isfinite(r->min) || !isfinite(r->max))
        fy_fail(e, FY_EFORMAT, "the range of '%s' is %g to %g, expected two finite numbers", name,
                (double)r->min, (double)r->max);
    else
        return r;
    return NULL;
}

/* Of the classes that calibration decides. */
static fy_q_encoding calibrated(const fy_q_tensor *t, const fy_q_range *r)
{
    if (t->class == FY_QC_KV || t->class == FY_QC_TABLE)
        return symmetric(largest(r), t->type);
    if (t->class == FY_QC_MASKED)
        return asymmetric(masked(r), 65535);
    return asymmetric(with_headroom(r), t->type == FY_Q_U8 ? 255 : 65535);
}

static const fy_q_encoding fixed[] = {
    [FY_QC_UNIT] = {1.0f / 65535, 0},
    [FY_QC_SIGMOID] = {1.0f / 65536, 0},
    [FY_QC_TANH] = {1.0f / 32768, -32768},
};

/* How deep the mask has to be for the sum with any score to end at the bottom. */
static float depth_of(const fy_q_range *r)
{
    const span s = masked(r);
    return s.max - s.min;
}

/* The same for the heads of other chunks, whose ranges end like this one's ("L0.h0.scores"): chunks
 * have one mask, and one depth makes them compute the same however the model is cut. */
static float deepest(const fy_q_ranges *ranges, const char *like)
{
    const char *end = strrchr(like, '.');
    float most = 0;
    for (size_t i = 0; end != NULL && i < fy_q_ranges_n(ranges); i++) {
        const fy_q_range *r = fy_q_ranges_at(ranges, i);
        if (fy_span_ends(fy_span_of(fy_q_ranges_name(ranges, i)), end) && r->min <= r->max &&
            isfinite(r->min) && isfinite(r->max))
            most = fmaxf(most, depth_of(r));
    }
    return most;
}

int fy_q_encode(const fy_qgraph *g, const fy_q_ranges *ranges, fy_q_encodings *out, fy_err *e)
{
    fy_q_encodings c = {.of = calloc(g->n_tensors, sizeof *c.of), .mask_depth = HIDDEN_BELOW};
    if (c.of == NULL)
        return fy_nomem(e);
    const char *like = NULL; /* the range of a head's scores */
    for (size_t i = 0; i < g->n_tensors; i++) {
        const fy_q_tensor *t = &g->tensors[i];
        if (t->kind == FY_Q_STATIC || is_float(t) || t->class == FY_QC_MASK)
            continue;
        if (t->range == FY_Q_NONE) {
            c.of[i] = fixed[t->class];
            continue;
        }
        const fy_q_range *r = range_of(g, ranges, t->range, e);
        if (r == NULL) {
            fy_q_encodings_release(&c);
            return -1;
        }
        c.of[i] = calibrated(t, r);
        if (t->class != FY_QC_MASKED)
            continue;
        like = g->ranges[t->range].name;
        c.mask_depth = fmaxf(c.mask_depth, depth_of(r));
    }
    if (like != NULL)
        c.mask_depth = fmaxf(c.mask_depth, deepest(ranges, like));
    for (size_t i = 0; i < g->n_tensors; i++) {
        const fy_q_tensor *t = &g->tensors[i];
        if (t->class == FY_QC_MASK && !is_float(t))
            c.of[i] = (fy_q_encoding){c.mask_depth / 65535, -65535};
    }
    *out = c;
    return 0;
}

/* Codes of the types that have an encoding. */
static const struct {
    float least, most;
} codes[FY_Q_PACKED + 1] = {
    [FY_Q_U16] = {0, 65535}, [FY_Q_S16] = {-32768, 32767}, [FY_Q_U8] = {0, 255}};

void fy_q_round(const fy_q_tensor *t, const fy_q_encoding *c, float *v, size_t n)
{
    const float most = 65504;
    if (t->type == FY_Q_F16) {
        for (size_t i = 0; i < n; i++)
            v[i] = fy_f16_to_f32(fy_f32_to_f16(v[i] > most ? most : v[i] < -most ? -most : v[i]));
    } else if (c->scale > 0 && codes[t->type].most > 0) {
        const float offset = (float)c->offset, least = codes[t->type].least + offset,
                    largest_code = codes[t->type].most + offset;
        for (size_t i = 0; i < n; i++) {
            const float q = rintf(v[i] / c->scale);
            v[i] = c->scale * (q < least ? least : q > largest_code ? largest_code : q);
        }
    }
}

void fy_q_encodings_release(fy_q_encodings *c)
{
    free(c->of);
    *c = (fy_q_encodings){0};
}
