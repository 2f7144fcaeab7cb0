/* Types, encodings and bytes of a graph's tensors as a QNN library wants them. */
#include "workspace/compile/qstatic.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/kernels.h"

static const uint32_t types[] = {
    [FY_Q_F32] = FY_QNN_FLOAT_32,  [FY_Q_F16] = FY_QNN_FLOAT_16,    [FY_Q_U16] = FY_QNN_UFIXED_16,
    [FY_Q_S16] = FY_QNN_SFIXED_16, [FY_Q_U8] = FY_QNN_UFIXED_8,     [FY_Q_S32] = FY_QNN_SFIXED_32,
    [FY_Q_BOOL] = FY_QNN_BOOL_8,   [FY_Q_PACKED] = FY_QNN_SFIXED_8,
};

static bool is_float_matrix(const fy_q_tensor *t)
{
    return t->type == FY_Q_PACKED && fy_npu_type_bits(t->from.type) == 16;
}

uint32_t fy_q_qnn_type(const fy_q_tensor *t)
{
    return is_float_matrix(t) ? FY_QNN_FLOAT_16 : types[t->type];
}

const char *fy_q_type_text(const fy_q_tensor *t)
{
    return t->type == FY_Q_PACKED ? fy_npu_type_name(t->from.type)
                                  : fy_qnn_type_name(types[t->type]);
}

/* --- encodings -------------------------------------------------------------------------------- */

static bool is_plain(const fy_q_tensor *t)
{
    const uint32_t type = fy_q_qnn_type(t);
    return type == FY_QNN_FLOAT_32 || type == FY_QNN_FLOAT_16 || type == FY_QNN_BOOL_8;
}

static int matrix_quant(fy_qnn_graph *to, const fy_q_tensor *t, const fy_q_matrix *w,
                        fy_qnn_quant *out, fy_err *e)
{
    const uint32_t n_in = t->dims[2], n = t->dims[3], block = fy_npu_type_block(t->from.type);
    const uint32_t n_blocks = block > 0 ? n_in / block : 0;
    if (w != NULL)
        return fy_qnn_quant_channels(to, 3, n, w->scales, fy_npu_type_bits(t->from.type), n_blocks,
                                     w->block_scales, out, e);
    float *scales = malloc(n * sizeof *scales);
    uint8_t *blocks = malloc((size_t)n * n_blocks + 1);
    int rc = scales != NULL && blocks != NULL ? 0 : fy_nomem(e);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        scales[i] = 0.01f;
    for (size_t i = 0; rc == 0 && i < (size_t)n * n_blocks; i++)
        blocks[i] = 8;
    if (rc == 0)
        rc = fy_qnn_quant_channels(to, 3, n, scales, fy_npu_type_bits(t->from.type), n_blocks,
                                   blocks, out, e);
    free(scales);
    free(blocks);
    return rc;
}

/* The scale of the product that it is added to, channel by channel. */
static int bias_quant(fy_qnn_graph *to, const fy_q_encodings *c, const fy_q_tensor *t,
                      const fy_q_node *product, const fy_q_matrix *w, fy_qnn_quant *out, fy_err *e)
{
    const uint32_t n = t->dims[0];
    const float of_input = c->of[product->in[0]].scale;
    float *scales = malloc(n * sizeof *scales);
    if (scales == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < n; i++)
        scales[i] = of_input * (w != NULL ? w->scales[i] : 0.01f);
    const int rc = fy_qnn_quant_channels(to, 0, n, scales, 8, 0, NULL, out, e);
    free(scales);
    return rc;
}

/* The encoding of a tensor with that range whose encoding calibration gave. */
static fy_qnn_quant range_quant(const fy_qgraph *g, const fy_q_encodings *c, uint32_t range)
{
    size_t i = 0;
    while (i < g->n_tensors && (g->tensors[i].kind == FY_Q_STATIC || g->tensors[i].range != range))
        i++;
    return i < g->n_tensors ? fy_qnn_quant_scale(c->of[i].scale, c->of[i].offset)
                            : fy_qnn_no_quant();
}

/* One number: the highest code, or the lowest. */
static fy_qnn_quant number_quant(float v)
{
    if (v == 0)
        return fy_qnn_quant_scale(1.0f / UINT16_MAX, 0);
    return fy_qnn_quant_scale(fabsf(v) / UINT16_MAX, v > 0 ? 0 : -UINT16_MAX);
}

/* Gammas with another offset are refused, or computed wrong by LayerNorm (docs/npu-real.md). */
static fy_qnn_quant symmetric_quant(const float *v, uint32_t n)
{
    float most = 0;
    for (uint32_t i = 0; v != NULL && i < n; i++)
        most = fmaxf(most, fabsf(v[i]));
    return fy_qnn_quant_scale(most > 0 ? most / INT16_MAX : 1.0f / INT16_MAX, INT16_MIN);
}

int fy_q_quant(fy_qnn_graph *to, const fy_qgraph *g, const fy_q_encodings *c, uint32_t i,
               const fy_q_node *product, fy_q_content content, fy_qnn_quant *out, fy_err *e)
{
    const fy_q_tensor *t = &g->tensors[i];
    *out = fy_qnn_no_quant();
    if (is_plain(t))
        return 0;
    if (t->class == FY_QC_WEIGHT)
        return matrix_quant(to, t, content.matrix, out, e);
    if (t->class == FY_QC_BIAS)
        return bias_quant(to, c, t, product, content.matrix, out, e);
    if (t->kind != FY_Q_STATIC)
        *out = fy_qnn_quant_scale(c->of[i].scale, c->of[i].offset);
    else if (t->range != FY_Q_NONE)
        *out = range_quant(g, c, t->range);
    else if (t->class == FY_QC_CONST)
        *out = number_quant(t->from.value * t->from.scale);
    else
        *out = symmetric_quant(content.values, t->dims[0]);
    return 0;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static double code(double value, float scale, int32_t offset, double least, double most)
{
    const double q = scale > 0 ? rint(value / (double)scale) - offset : 0;
    return q < least ? least : q > most ? most : q;
}

void *fy_q_vector_codes(const fy_q_tensor *t, const fy_qnn_quant *quant, const float *values)
{
    const uint32_t n = t->dims[0];
    union {
        uint16_t *u16;
        int32_t *s32;
        void *p;
    } out = {.p = malloc(n * sizeof(int32_t))};
    for (uint32_t i = 0; out.p != NULL && i < n; i++) {
        if (t->type == FY_Q_F16)
            out.u16[i] = fy_f32_to_f16(values[i]);
        else if (t->type == FY_Q_S32)
            out.s32[i] =
                (int32_t)code(values[i], quant->u.axis.channel[i].scale, 0, INT32_MIN, INT32_MAX);
        else
            out.u16[i] = (uint16_t)code(values[i], quant->u.scale_offset.scale,
                                        quant->u.scale_offset.offset, 0, UINT16_MAX);
    }
    return out.p;
}
