/* How the numbers of a graph become codes: the encoding of every activation from what calibration
 * found, and the bytes of every static tensor. value = scale * (code + offset). */
#ifndef FY_WORKSPACE_QENCODE_H
#define FY_WORKSPACE_QENCODE_H

#include "backend/qnn/qnn_abi.h"
#include "base/thread.h"
#include "workspace/compile/ranges.h"
#include "workspace/npu/qgraph.h"

typedef struct {
    float scale; /* 0: none (floats) */
    int32_t offset;
} fy_q_encoding;

typedef struct {
    fy_q_encoding *of; /* owned, [n_tensors]; those of static tensors are not filled in */
    float mask_depth;  /* M: what the lowest code of the mask adds is -M; one for the model */
} fy_q_encodings;

/* ranges NULL: for graphs that need none (all of them floats). FY_EFORMAT names the first range
 * that is missing, empty or not finite. */
int fy_q_encode(const fy_qgraph *g, const fy_q_ranges *ranges, fy_q_encodings *out, fy_err *e);
void fy_q_encodings_release(fy_q_encodings *c);
/* n values of a tensor become those that its type, or its codes, hold. */
void fy_q_round(const fy_q_tensor *t, const fy_q_encoding *c, float *v, size_t n);

/* Sums of squares: of what was lost, and of all there was. */
typedef struct {
    double error, power;
} fy_q_loss;

static inline void fy_q_loss_add(fy_q_loss *to, const fy_q_loss *one)
{
    to->error += one->error;
    to->power += one->power;
}

/* A matrix as QNN wants it: data [in][out], a byte each (4-bit ones too) or f16. */
typedef struct {
    void *data;
    uint64_t bytes;
    float *scales;         /* [out]; NULL: f16 */
    uint8_t *block_scales; /* [out][in / block], 1..16, value = scales[c] * block * code; NULL */
    fy_q_loss weights;     /* weighted by importance */
    fy_q_loss outputs;     /* of the rows that it was tried on; zeros: of none */
} fy_q_matrix;

/* What scales are judged by; zeros: the weights alone. */
typedef struct {
    const double *importance; /* [in]: means of the squares of the inputs; NULL: all 1 */
    const float *inputs;      /* [n_inputs][in]: rows that the matrix multiplies */
    uint32_t n_inputs;
    uint32_t n_candidates; /* scales of each channel that are tried on the inputs, besides the one
                              that the weights alone suggest; 4-bit types only. 0: none */
} fy_q_fit;

/* t: a FY_QC_WEIGHT. Same input, same bytes, for any number of threads. */
int fy_q_matrix_encode(const struct fy_model *m, const fy_q_tensor *t, const fy_q_fit *fit,
                       fy_pool *pool, fy_q_matrix *out, fy_err *e);
/* What n rows [in] of the bytes stand for. */
void fy_q_matrix_decode(const fy_q_matrix *w, const fy_q_tensor *t, uint32_t first, uint32_t n,
                        float *out);
void fy_q_matrix_release(fy_q_matrix *w);

#endif
