#include "convert/source/fp8.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "convert/source/checkpoint_impl.h"
#include "convert/source/checkpoint_read.h"

/* Exponent and mantissa in the place that they have in an f32, whose exponent is 120 larger. */
static float value(uint8_t x)
{
    uint32_t bits = (uint32_t)(x & 0x7F) << 20;
    float v;
    memcpy(&v, &bits, sizeof v);
    v = (x & 0x7F) == 0x7F ? NAN : v * 0x1p120F;
    return (x & 0x80) != 0 ? -v : v;
}

void fy_fp8_e4m3_decode(float *y, const uint8_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = value(x[i]);
}

static uint64_t n_blocks(uint64_t n, uint64_t block)
{
    return n / block + (n % block != 0);
}

static int pair(fy_ckpt_tensor *t, const fy_ckpt_tensor *scale, const uint32_t block[2], fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    fy_quote(q, sizeof q, t->name);
    if (scale == NULL)
        return fy_fail(e, FY_EFORMAT, "%s: '%s' is FP8, but there is no '%s_scale_inv'", t->path, q,
                       q);
    bool whole = fy_ckpt_n_elements(scale) == 1;
    if (t->rank != 2 || t->bytes == 0 || scale->dtype == FY_DT_F8_E4M3 || !fy_ckpt_can_read(scale))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: '%s' is FP8 of %" PRIu32 " dimensions with a scale of type %s; ferry "
                       "reads matrices with scales of F32, F16 or BF16",
                       t->path, q, t->rank, fy_dtype_name(scale->dtype));
    if (!whole && (scale->rank != 2 || scale->shape[0] != n_blocks(t->shape[0], block[0]) ||
                   scale->shape[1] != n_blocks(t->shape[1], block[1])))
        return fy_fail(e, FY_EFORMAT,
                       "%s: the scales of '%s' [%" PRIu64 ", %" PRIu64
                       "] are not one for each block of %" PRIu32 " x %" PRIu32
                       " (weight_block_size)",
                       t->path, q, t->shape[0], t->shape[1], block[0], block[1]);
    t->scale = scale;
    for (int d = 0; d < 2; d++)
        t->scale_block[d] = whole ? t->shape[d] : block[d];
    return 0;
}

int fy_ckpt_pair_scales(fy_ckpt *c, const fy_hf_config *config, fy_err *e)
{
    fy_str name = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->n_tensors; i++) {
        fy_ckpt_tensor *t = &c->tensors[i];
        if (t->dtype != FY_DT_F8_E4M3)
            continue;
        fy_str_clear(&name);
        fy_str_add(&name, t->name.ptr, t->name.len);
        fy_str_puts(&name, "_scale_inv");
        rc = name.oom
                 ? fy_nomem(e)
                 : pair(t, fy_ckpt_find(c, (fy_span){name.ptr, name.len}), config->fp8_block, e);
    }
    fy_str_release(&name);
    return rc;
}
