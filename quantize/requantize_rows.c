#include "quantize/requantize_impl.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "kernels/row_error.h"
#include "quantize/quant_report.h"

/* A row passes through f32 in slices: a multiple of every block, small enough for the stack. */
enum { SLICE = 8192 };

static int report_fault(const fy_gguf_tensor *t, fy_type to, uint64_t row, uint64_t element,
                        const fy_row_fault *f, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, t->name);
    if (f->overflow)
        return fy_fail(e, FY_EFORMAT,
                       "tensor '%s', row %" PRIu64 ", element %" PRIu64
                       ": value %g is too large for "
                       "%s; choose %s",
                       shown, row, element, (double)f->value, fy_type_name(to),
                       to == FY_F16 ? "bf16 or f32" : "a wider type");
    return fy_fail(e, FY_EFORMAT,
                   "tensor '%s', row %" PRIu64 ", element %" PRIu64 ": value %g, expected a finite "
                   "number; the checkpoint is damaged",
                   shown, row, element, (double)f->value);
}

/* As ggml has it, which weighs by it: f32, in the order of the elements. */
static float mean_square(const fy_requant *q, const fy_gguf_tensor *t, const uint8_t *from)
{
    float x[SLICE], sum = 0;
    for (uint64_t at = 0; at < t->ne[0]; at += SLICE) {
        int64_t n = (int64_t)(t->ne[0] - at < SLICE ? t->ne[0] - at : SLICE);
        fy_row_decode(&q->kernels, t->type, x, from + fy_type_row_bytes(t->type, at), n);
        sum = fy_row_squares(sum, x, n);
    }
    return sum / (float)t->ne[0];
}

/* sums: what is added to as the row is measured; NULL: it is not. */
static int convert_row(const fy_requant *q, const fy_requant_tensor *plan, uint64_t row,
                       uint8_t *out, fy_error_sums *sums, fy_err *e)
{
    const fy_gguf_tensor *t = plan->from;
    const fy_type to = plan->to;
    const uint8_t *from = t->data + row * fy_type_row_bytes(t->type, t->ne[0]);
    const uint64_t matrix = row / t->ne[1] % t->ne[2];
    float x[SLICE], importance[SLICE];
    fy_encode_how how = {.fit = q->p.fit};
    if (plan->importance != NULL) {
        how.importance = importance;
        how.mean_square = mean_square(q, t, from);
    }
    for (uint64_t at = 0; at < t->ne[0]; at += SLICE) {
        int64_t n = (int64_t)(t->ne[0] - at < SLICE ? t->ne[0] - at : SLICE);
        uint8_t *slice = out + fy_type_row_bytes(to, at);
        fy_row_fault fault = {0};
        if (plan->importance != NULL)
            fy_imatrix_means(plan->importance, matrix * t->ne[0] + at, (uint64_t)n, importance);
        fy_row_decode(&q->kernels, t->type, x, from + fy_type_row_bytes(t->type, at), n);
        if (fy_row_encode(&q->kernels, to, slice, x, n, &how, &fault) != 0)
            return report_fault(t, to, row, at + (uint64_t)fault.index, &fault, e);
        if (sums != NULL)
            fy_row_error(&q->kernels, to, sums, x, slice, n);
    }
    return 0;
}

/* Floats pass through f32 even when their type stays: that is exact, and it is where damaged values
 * are found. What is quantized or no float is copied. */
int fy_requant_fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                    fy_err *e)
{
    (void)thread;
    fy_requant *q = user;
    const fy_requant_tensor *plan = &q->tensors[i];
    const fy_gguf_tensor *t = plan->from;
    const fy_type to = plan->to;
    if (row == 0)
        fy_requant_peak(q);
    uint64_t from_bytes = fy_type_row_bytes(t->type, t->ne[0]),
             to_bytes = fy_type_row_bytes(to, t->ne[0]);
    if (t->type == to && (fy_requant_is_quantized(to) || !fy_row_can_encode(to))) {
        memcpy(out, t->data + row * from_bytes, n_rows * from_bytes);
    } else {
        const bool measured = q->report != NULL && fy_quant_is_lossy(t->type, to);
        fy_error_sums sums = {0};
        for (uint64_t r = 0; r < n_rows; r++) {
            if (convert_row(q, plan, row + r, (uint8_t *)out + r * to_bytes,
                            measured ? &sums : NULL, e) != 0)
                return -1;
        }
        if (measured && fy_quant_report_add(q->report, (size_t)i, row, &sums, e) != 0)
            return -1;
    }
    fy_gguf_drop(q->in, t, row * from_bytes, n_rows * from_bytes);
    return 0;
}

fy_quant_report *fy_requant_measure(fy_requant *q, fy_err *e)
{
    const size_t n = fy_gguf_n_tensors(q->in);
    q->report = fy_quant_report_new(n, e);
    for (size_t i = 0; i < n && q->report != NULL; i++)
        fy_quant_report_describe(q->report, i, fy_gguf_tensor_at(q->in, i),
                                 fy_gguf_writer_tensor(q->w, (int64_t)i));
    return q->report;
}
