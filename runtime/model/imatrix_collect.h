/* Collects an importance matrix (format/imatrix.h): while a collector is there, it sees what every
 * weight of the layers ("blk.") is multiplied with in a session, and adds up the squares of each
 * column; of experts for each one, over the tokens that chose it. The router's matrices are
 * weights, too; the embedding and the output are left out, as llama-imatrix does.
 *
 * Sums are of windows: of one window doubles, in the order of the tokens, as f32 when it ends; then
 * doubles again, in the order of the windows, and f32 in the file. So the bytes depend neither on
 * the number of threads nor on the batch, nor on who computed a window. Every token counts that a
 * layer computes: ask for the logits of all, or the last layer is computed for some only. Take it
 * down before the session. Memory: 16 bytes for each column of every matrix. */
#ifndef FY_MODEL_IMATRIX_COLLECT_H
#define FY_MODEL_IMATRIX_COLLECT_H

#include "model/model.h"

typedef struct fy_collector fy_collector;

fy_collector *fy_collector_new(fy_session *s, fy_err *e); /* NULL on failure */
/* One that watches nothing: for windows that others have computed. */
fy_collector *fy_collector_of(const fy_model *m, fy_err *e);
void fy_collector_free(fy_collector *c); /* NULL is fine */

/* What a window adds to one matrix: number `matrix` of the model's tensor `tensor`. */
typedef struct {
    uint32_t tensor, matrix;
    uint32_t n_tokens;
    const float *sums; /* view, [n_cols] */
    uint64_t n_cols;
} fy_collected_matrix;

typedef int fy_collector_sink(void *user, const fy_collected_matrix *m, fy_err *e);

/* The window is over: shows what it adds, by tensor and matrix, and forgets it. sink NULL: adds it
 * to what was collected. FY_EFORMAT when an activation was not finite. */
int fy_collector_end_window(fy_collector *c, fy_collector_sink *sink, void *user, fy_err *e);
/* FY_EFORMAT when the model has no such matrix, or its sums are not finite, or below 0. */
int fy_collector_add(fy_collector *c, const fy_collected_matrix *m, fy_err *e);

typedef struct {
    size_t n_tensors;
    uint64_t n_tokens; /* most of a matrix */
    uint64_t n_never;  /* experts' matrices that no token was multiplied with */
    fy_span never;     /* the first tensor with one; view of the model */
} fy_collected;

/* Ends the window and writes what was collected. dataset: the name of the text; chunk_size: tokens
 * of a piece. FY_EARG when nothing was computed, FY_EFORMAT when a sum is not finite. */
int fy_collector_write(fy_collector *c, const char *path, fy_span dataset, uint32_t chunk_size,
                       fy_collected *out, fy_err *e);

#endif
