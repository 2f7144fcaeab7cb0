/* What quantizing costs: how far the values of each tensor are from what was stored of them.
 *
 * fy_quant_report_new -> name the tensors -> fy_quant_report_add for each piece that is
 * written, from any thread in any order -> fy_quant_report_end -> read. Sums are kept by piece and
 * added in the order of the rows, so that no number depends on threads. Memory: 72 bytes for each
 * piece (a MiB of output) and each tensor. Where an interrupted run had written some pieces, the
 * report covers the others and gives their share. */
#ifndef FY_QUANTIZE_QUANT_REPORT_H
#define FY_QUANTIZE_QUANT_REPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/types.h"
#include "format/gguf.h"
#include "kernels/row.h"

typedef struct {
    const fy_gguf_tensor *from, *to; /* views */
    fy_error_sums sums;
} fy_quant_tensor;

typedef struct {
    size_t tensor;
    uint64_t row;
    fy_error_sums sums;
} fy_quant_piece;

typedef struct {
    fy_quant_tensor *tensors; /* owned; `from` and `to` are the caller's to set */
    size_t n_tensors;
    fy_error_sums total;
    pthread_mutex_t lock;   /* guards the pieces */
    fy_quant_piece *pieces; /* owned; until the end */
    size_t n_pieces, cap_pieces;
} fy_quant_report;

/* Numbers that are not defined are NaN: all of them where nothing was measured, those relative to
 * values that are all zero, and the ratio to an error that is zero. */
typedef struct {
    double rmse, relative; /* root of the mean squared error; over that of the values */
    double max_error, cosine;
    double sqnr_db;   /* 10 log10 of sum x^2 over sum (x - y)^2 */
    double saturated; /* share of the values, see kernels/row_error.h */
} fy_quant_numbers;

/* Does a tensor of this type lose anything in that one? Only such tensors are measured. */
bool fy_quant_is_lossy(fy_type from, fy_type to);

/* NULL on failure. The tensors have to live as long as the report. */
fy_quant_report *fy_quant_report_new(size_t n_tensors, fy_err *e);
void fy_quant_report_free(fy_quant_report *r); /* NULL is fine */

/* What was measured of a piece of tensor i that begins with this row. Thread-safe. */
int fy_quant_report_add(fy_quant_report *r, size_t i, uint64_t row, const fy_error_sums *s,
                        fy_err *e);
void fy_quant_report_end(fy_quant_report *r);

double fy_quant_report_covered(const fy_quant_report *r); /* share of the values, 0..1 */
fy_quant_numbers fy_quant_numbers_of(const fy_error_sums *s);

/* Up to n tensors, those of the largest relative error first; how many. */
size_t fy_quant_report_worst(const fy_quant_report *r, const fy_quant_tensor *worst[], size_t n);

/* --- showing ---------------------------------------------------------------------------------- */

/* Lines for a terminal of so many columns: a line for each layer and for each tensor outside. */
void fy_quant_put_table(const fy_quant_report *r, int columns, fy_str *out);
/* One line, without its end. */
void fy_quant_put_summary(const fy_quant_report *r, fy_str *out);
/* docs/quantization.md. in, out: names of the files. */
int fy_quant_put_json(const fy_quant_report *r, const char *in, const char *out, fy_type type,
                      fy_str *text, fy_err *e);

#endif
