/* Importance matrices: for every matrix of a model and each of its columns, how large the
 * activations were that it was multiplied with, over a calibration text. quantize weighs errors by
 * them; eval collects them.
 *
 * The file is llama.cpp's GGUF form: general.type "imatrix", imatrix.datasets (strings),
 * imatrix.chunk_count and imatrix.chunk_size (u32), and for the matrix NAME of ne[0] columns, in
 * n_mat matrices (experts; else 1), the f32 tensors NAME.in_sum2 [ne[0], n_mat], sums of squares,
 * and NAME.counts [1, n_mat], of how many tokens; a last dimension of 1 is left out. NAME.in_sum,
 * which newer files have too, is checked and not used; other tensors are ignored. A matrix of
 * several that were counted together has in_sum2 [ne[0] * n_mat, 1] and one count. Source:
 * llama.cpp, tools/imatrix/imatrix.cpp, tools/quantize/quantize.cpp and common/imatrix-loader.cpp.
 * The older form (.dat) is refused. */
#ifndef FY_FORMAT_IMATRIX_H
#define FY_FORMAT_IMATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef struct fy_imatrix fy_imatrix;
typedef struct fy_imatrix_entry fy_imatrix_entry; /* of one matrix, or of the experts of one name */

/* Opens and checks a file: shapes that belong together, finite sums >= 0, counts >= 0. NULL on
 * failure. */
fy_imatrix *fy_imatrix_open(const char *path, fy_err *e);
/* Of bytes, which must outlive it. `name` is for messages. */
fy_imatrix *fy_imatrix_parse(const void *p, size_t n, const char *name, fy_err *e);
void fy_imatrix_close(fy_imatrix *m); /* NULL is fine */

size_t fy_imatrix_n(const fy_imatrix *m); /* matrices */
uint32_t fy_imatrix_n_chunks(const fy_imatrix *m);
fy_span fy_imatrix_dataset(const fy_imatrix *m); /* the first; empty: not given. View */

/* What there is for a matrix by its GGUF name. View, dies with m. NULL with e->code FY_OK when the
 * file has no such entry, FY_EFORMAT when it has another shape. */
const fy_imatrix_entry *fy_imatrix_find(const fy_imatrix *m, fy_span name, uint64_t n_cols,
                                        uint64_t n_mat, fy_err *e);
/* Mean squares as llama-quantize takes them, n of the entry's [n_mat][n_cols] from `at` on: the sum
 * over the count of its matrix, 1 where the count is 0. Worked out from the mapped file each time,
 * so that no model is too large. */
void fy_imatrix_means(const fy_imatrix_entry *x, uint64_t at, uint64_t n, float *out);
/* The i-th matrix's name, in the file's order, for reporting which were not used. */
fy_span fy_imatrix_name(const fy_imatrix *m, size_t i);

#endif
