/* The values of a graph's static tensors, from the chunk that it was composed of. */
#include <math.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "base/log.h"
#include "kernels/row.h"
#include "model/weights.h"
#include "workspace/npu/qgraph.h"

static const fy_matrix *matrix_at(const fy_model *m, fy_slot slot, uint32_t layer)
{
    static const fy_matrix none;
    if (slot == FY_T_COUNT)
        return &none;
    if (slot == FY_T_OUTPUT)
        return m->output != NULL ? m->output : &none;
    return slot < FY_T_ATTN_NORM ? &m->once.w[slot] : &fy_layer_at(m, layer)->w[slot];
}

bool fy_qgraph_model_has(const void *model, fy_slot slot, uint32_t layer)
{
    return matrix_at(model, slot, layer)->data != NULL;
}

uint64_t fy_qgraph_row(const fy_hparams *hp, const fy_q_static *s, uint32_t i)
{
    const uint32_t r = s->first + i, in_head = r % hp->head_dim;
    return s->halves ? (uint64_t)r - in_head + fy_neighbour_of_half(hp, in_head) : r;
}

/* +-1 / sqrt(n), by the parity of the bits that row and column share. */
static void hadamard_row(uint32_t r, uint32_t n, float *out)
{
    const float one = 1.0f / sqrtf((float)n);
    for (uint32_t k = 0; k < n; k++)
        out[k] = __builtin_parity(r & k) ? -one : one;
}

void fy_qgraph_matrix(const fy_model *m, const fy_q_tensor *t, uint32_t first, uint32_t n,
                      float *out)
{
    const fy_q_static *s = &t->from;
    const fy_kernels k = fy_kernels_for(fy_cpu_features());
    const fy_matrix *w = matrix_at(m, s->slot, s->layer);
    const uint32_t n_in = t->dims[2];
    for (uint32_t i = 0; i < n; i++) {
        float *row = out + (size_t)i * n_in;
        if (s->hadamard) {
            hadamard_row(first + i, n_in, row);
            continue;
        }
        const uint64_t at = fy_qgraph_row(&m->hp, s, first + i);
        fy_row_decode(&k, w->type, row, (const uint8_t *)w->data + at * w->row_bytes, n_in);
        for (uint32_t j = 0; j < n_in && s->scale != 1; j++)
            row[j] *= s->scale;
    }
}

enum { ROWS_BETWEEN_CHECKS = 1024 };

/* out[i] += W[i] . beta, in double. */
static int add_beta(const fy_model *m, const fy_q_tensor *t, float *out, fy_err *e)
{
    const fy_q_static *s = &t->from;
    const fy_matrix *w = matrix_at(m, s->matrix, s->layer);
    const float *beta = matrix_at(m, s->beta, s->layer)->data;
    const fy_kernels k = fy_kernels_for(fy_cpu_features());
    float *row = malloc((size_t)w->n_cols * sizeof *row);
    int rc = row != NULL ? 0 : fy_nomem(e);
    for (uint32_t i = 0; i < t->dims[0] && rc == 0; i++) {
        if (i % ROWS_BETWEEN_CHECKS == 0)
            rc = fy_check_interrupt(e);
        const uint64_t at = fy_qgraph_row(&m->hp, s, i);
        double sum = 0;
        fy_row_decode(&k, w->type, row, (const uint8_t *)w->data + at * w->row_bytes, w->n_cols);
        for (int64_t j = 0; j < w->n_cols; j++)
            sum += (double)row[j] * beta[j];
        out[i] += (float)sum;
    }
    free(row);
    return rc;
}

int fy_qgraph_vector(const fy_model *m, const fy_q_tensor *t, float *out, fy_err *e)
{
    const fy_q_static *s = &t->from;
    const float *v = matrix_at(m, s->slot, s->layer)->data;
    for (uint32_t i = 0; i < t->dims[0]; i++)
        out[i] = v != NULL ? v[fy_qgraph_row(&m->hp, s, i)] : s->value;
    for (uint32_t i = 0; i < t->dims[0] && s->neg_exp; i++)
        out[i] = -fy_exp(out[i]);
    if (s->beta != FY_T_COUNT && add_beta(m, t, out, e) != 0)
        return -1;
    for (uint32_t i = 0; i < t->dims[0]; i++)
        out[i] *= s->scale;
    for (uint32_t i = 0; i < t->dims[0] && s->plus != 0; i++)
        out[i] += s->plus;
    return 0;
}
