/* A GGUF file into another one whose matrices have another type. One streaming pass: the input is
 * mapped and let go of as it is used, the output is written piece by piece, so memory does not grow
 * with the model.
 *
 * fy_requant_open plans: everything is known then and nothing is written. fy_requant_write does it,
 * once. */
#ifndef FY_QUANTIZE_REQUANTIZE_H
#define FY_QUANTIZE_REQUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/thread.h"
#include "base/types.h"
#include "format/gguf_write.h"
#include "format/imatrix.h"
#include "policy/type_policy.h"
#include "cli/part_options.h"
#include "quantize/hot_order.h"
#include "quantize/quant_report.h"

/* What is to be done; all views, which have to stay. All zeros but the file's type: pure, one file.
 */
typedef struct {
    fy_file_type file;
    const fy_type *output_type, *embedding_type; /* NULL: not given */
    const char *const *tensor_types;             /* "REGEX=TYPE" */
    size_t n_tensor_types;
    const char *imatrix;          /* path of an importance matrix; NULL: none */
    bool fit;                     /* fy_encode_options */
    bool transpose_down;          /* ffn_down becomes ffn_down_t */
    const char *hot;              /* path of a split file: its neurons come first; NULL: none */
    bool allow_requantize;        /* of quantized tensors into another quantized type */
    uint64_t split_bytes;         /* fy_gguf_writer_split */
    const fy_part_options *parts; /* NULL, or n is 0: the whole file is written */
    bool resume; /* resume what an interrupted process has left, and keep it when interrupted */
} fy_requant_params;

/* Of one tensor, in the order of the input and of the output. */
typedef struct {
    const fy_gguf_tensor *from; /* view */
    fy_type to;
    fy_type wanted; /* another than `to`: its blocks do not divide the rows */
    fy_type_why why;
    bool transposed;      /* ffn_down becomes ffn_down_t: a row for each neuron */
    const int32_t *order; /* where rows (of a vector: elements) come from; NULL: they stay */
    bool requantized;     /* quantized already, and now in another quantized type */
    const fy_imatrix_entry *importance; /* for ne[0] columns of ne[2] matrices; view; NULL: none */
} fy_requant_tensor;

typedef struct {
    uint64_t bytes_in, bytes_out; /* of the files */
    uint64_t n_tensors;
    uint64_t n_matrices; /* that have the target type now */
} fy_requant_stats;

typedef struct {
    fy_requant_params p;
    fy_gguf *in;                /* owned */
    fy_imatrix *imatrix;        /* owned; NULL: none */
    fy_hot_order hot;           /* owned */
    fy_requant_tensor *tensors; /* owned; one for each of the input */
    fy_gguf_writer *w;          /* owned; the planned file, with the tensors in the same order */
    fy_kernels kernels;
    fy_requant_stats stats;
    _Atomic uint64_t peak_anon; /* bytes of RssAnon, the most that was seen */
    fy_quant_report *report;    /* owned; NULL: nothing is measured */
} fy_requant;

/* Opens `in` (of a split model, the first file). Fails before anything is written when a tensor
 * cannot be converted, or when the importance matrix is not of this model: it is for a matrix of
 * another shape, has nothing for one that needs it, or for none of the matrices. NULL on failure.
 */
fy_requant *fy_requant_open(const char *in, const fy_requant_params *p, fy_err *e);
/* The same of opened files, which are the plan's from now on, after a failure, too. imatrix may be
 * NULL; p->imatrix names it. */
fy_requant *fy_requant_of(fy_gguf *in, fy_imatrix *imatrix, const fy_requant_params *p, fy_err *e);

/* Before fy_requant_write: measure what the tensors lose, each that changes to a type in
 * which it may. */
int fy_requant_measure(fy_requant *q, fy_err *e);

/* What each part of the work reads and writes: [n] bytes. */
int fy_requant_shares(fy_requant *q, uint32_t n, uint64_t *work, fy_err *e);
/* Seconds of quantizing all of it with these threads, by a sample of the largest matrix, while the
 * file is in memory. False: it has no matrix, or the sample cannot be quantized. */
bool fy_requant_estimate(fy_requant *q, fy_pool *pool, double *seconds);
/* Writes the planned file, or its part. `out` must not be the input. The bytes depend neither on
 * the pool nor on whether it was interrupted on the way. A value that is not finite, or not finite
 * in the new type, is FY_EFORMAT and names tensor, row and element. */
int fy_requant_write(fy_requant *q, const char *out, fy_pool *pool, fy_progress *progress,
                     fy_err *e);
/* A fy_gguf_fill, with which fy_requant_write fills the rows; user is the fy_requant. */
int fy_requant_fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                    fy_err *e);
/* Is it a file of the model that is read, the importance matrix, or the split file? */
bool fy_requant_is_input(const fy_requant *q, const char *path);
void fy_requant_close(fy_requant *q); /* NULL is fine */

#endif
