/* Collects an importance matrix (format/imatrix.h): while a collector is there, it sees what every
 * weight of the layers ("blk.") is multiplied with in a session, and adds up the squares of each
 * column; of experts for each one, over the tokens that chose it. The router's matrices are
 * weights, too; the embedding and the output are left out, as llama-imatrix does.
 *
 * Sums are of doubles, in the order of the tokens, and become f32 when they are written: the bytes
 * depend neither on the number of threads nor on the batch. Every token counts that a layer
 * computes: ask for the logits of all, or the last layer is computed for some only. Take it down
 * before the session. Memory: 8 bytes for each column of every matrix. */
#ifndef FY_MODEL_IMATRIX_COLLECT_H
#define FY_MODEL_IMATRIX_COLLECT_H

#include "model/model.h"

typedef struct fy_collector fy_collector;

fy_collector *fy_collector_new(fy_session *s, fy_err *e); /* NULL on failure */
void fy_collector_free(fy_collector *c);                  /* NULL is fine */

typedef struct {
    size_t n_tensors;
    uint64_t n_tokens; /* most of a matrix */
    uint64_t n_never;  /* experts' matrices that no token was multiplied with */
    fy_span never;     /* the first tensor with one; view of the model */
} fy_collected;

/* Writes what was collected. dataset: the name of the text; chunk_size: tokens of a piece. FY_EARG
 * when nothing was computed, FY_EFORMAT when an activation was not finite. */
int fy_collector_write(const fy_collector *c, const char *path, fy_span dataset,
                       uint32_t chunk_size, fy_collected *out, fy_err *e);

#endif
