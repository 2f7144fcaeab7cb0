/* The values of a checkpoint's tensors as f32: decodes every stored type, hides strides and joined
 * files, multiplies FP8 and MXFP4 matrices by their scales, and adds what LoRA adapters change. */
#include "convert/source/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "convert/source/checkpoint_impl.h"
#include "convert/source/lora_delta.h"
#include "kernels/row.h"

/* --- FP8 -------------------------------------------------------------------------------------- */

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

/* --- MXFP4 ------------------------------------------------------------------------------------ */

enum { BLOCK_BYTES = FY_QK / 2 };

static bool is_blocks(const fy_ckpt_tensor *t)
{
    return t->dtype == FY_DT_U8 && fy_span_ends(t->name, "_blocks");
}

static bool is_mxfp4(const fy_ckpt_tensor *t)
{
    return t->dtype == FY_DT_F4 && t->scale != NULL;
}

static int pair_blocks(fy_ckpt_tensor *t, const fy_ckpt_tensor *scale, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    const uint32_t n = t->rank;
    fy_quote(q, sizeof q, t->name);
    if (scale == NULL)
        return fy_fail(e, FY_EFORMAT, "%s: '%s' is MXFP4, but there are no scales of that name",
                       t->path, q);
    bool good = n >= 2 && t->bytes > 0 && t->shape[n - 1] == BLOCK_BYTES && t->plain &&
                scale->plain && scale->dtype == FY_DT_U8 && scale->rank == n - 1;
    for (uint32_t d = 0; good && d + 1 < n; d++)
        good = scale->shape[d] == t->shape[d];
    if (!good)
        return fy_fail(e, FY_EFORMAT,
                       "%s: '%s' is not MXFP4 of [.., blocks, %d] bytes with a U8 scale for each "
                       "block",
                       t->path, q, BLOCK_BYTES);
    t->dtype = FY_DT_F4;
    t->shape[n - 2] *= FY_QK; /* twice the bytes, which are in a file */
    t->shape[n - 1] = 0;
    t->rank--;
    t->plain = false; /* its bytes alone are not its values */
    t->scale = scale;
    return 0;
}

/* Block b: of the file the elements 2 j and 2 j + 1 are in byte j, of ggml j and j + 16. */
static void read_block(const fy_ckpt_tensor *t, uint64_t b, fy_block_mxfp4 *out)
{
    const uint8_t *from = t->parts[0].data + b * BLOCK_BYTES;
    out->e = t->scale->parts[0].data[b];
    for (int j = 0; j < BLOCK_BYTES; j++) {
        const int low = from[j / 2] >> j % 2 * 4 & 15;
        const int high = from[j / 2 + BLOCK_BYTES / 2] >> j % 2 * 4 & 15;
        out->qs[j] = (uint8_t)(low | high << 4);
    }
}

void fy_ckpt_read_mxfp4(const fy_ckpt_tensor *t, uint64_t first, uint64_t n, fy_block_mxfp4 *out)
{
    for (uint64_t i = 0; i < n / FY_QK; i++)
        read_block(t, first / FY_QK + i, &out[i]);
}

/* Any elements, as f32. */
static void decode_mxfp4(const fy_kernels *k, const fy_ckpt_tensor *t, uint64_t first, uint64_t n,
                         float *out)
{
    while (n > 0) {
        fy_block_mxfp4 block;
        float values[FY_QK];
        const uint64_t at = first % FY_QK, m = FY_QK - at < n ? FY_QK - at : n;
        read_block(t, first / FY_QK, &block);
        k->decode_mxfp4(values, &block, FY_QK);
        memcpy(out, values + at, m * sizeof *out);
        first += m;
        out += m;
        n -= m;
    }
}

/* --- pairs ------------------------------------------------------------------------------------ */

/* NAME, less the ending that is replaced. */
static const fy_ckpt_tensor *companion(const fy_ckpt *c, fy_span name, size_t less,
                                       const char *ending, fy_str *scratch)
{
    fy_str_clear(scratch);
    fy_str_add(scratch, name.ptr, name.len - less);
    fy_str_puts(scratch, ending);
    return scratch->oom ? NULL : fy_ckpt_find(c, (fy_span){scratch->ptr, scratch->len});
}

int fy_ckpt_pair_scales(fy_ckpt *c, const fy_hf_config *config, fy_err *e)
{
    fy_str name = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->n_tensors; i++) {
        fy_ckpt_tensor *t = &c->tensors[i];
        if (config->fp8 && t->dtype == FY_DT_F8_E4M3)
            rc = pair(t, companion(c, t->name, 0, "_scale_inv", &name), config->fp8_block, e);
        else if (config->mxfp4 && is_blocks(t))
            rc = pair_blocks(t, companion(c, t->name, strlen("blocks"), "scales", &name), e);
        else if (is_mxfp4(t)) /* a second time: tensors may have moved */
            t->scale = companion(c, t->name, strlen("blocks"), "scales", &name);
        if (name.oom)
            rc = fy_nomem(e);
    }
    fy_str_release(&name);
    return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

enum { GATHER = 256 }; /* elements collected at a time where they do not lie side by side */

bool fy_ckpt_can_read(const fy_ckpt_tensor *t)
{
    fy_type type;
    if (is_mxfp4(t))
        return true;
    if (t->dtype == FY_DT_F8_E4M3)
        return t->scale != NULL && fy_ckpt_can_read(t->scale);
    return fy_dtype_to_type(t->dtype, &type) && fy_row_can_decode(type) &&
           fy_type_get(type)->block == 1;
}

static uint64_t row_length(const fy_ckpt_tensor *t)
{
    return t->rank > 0 ? t->shape[t->rank - 1] : 1;
}

static void decode(const fy_kernels *k, fy_dtype d, const uint8_t *from, uint64_t n, float *out)
{
    fy_type type;
    if (d == FY_DT_F8_E4M3)
        fy_fp8_e4m3_decode(out, from, (int64_t)n);
    else if (fy_dtype_to_type(d, &type))
        fy_row_decode(k, type, out, from, (int64_t)n);
}

/* n elements, `stride` apart. */
static void decode_apart(const fy_kernels *k, fy_dtype d, const uint8_t *from, uint64_t stride,
                         uint64_t n, float *out)
{
    uint8_t side_by_side[GATHER * sizeof(double)];
    uint64_t size = fy_dtype_bits(d) / 8;
    if (stride == 1) {
        decode(k, d, from, n, out);
        return;
    }
    for (uint64_t at = 0; at < n; at += GATHER) {
        uint64_t m = n - at < GATHER ? n - at : GATHER;
        for (uint64_t i = 0; i < m; i++)
            memcpy(side_by_side + i * size, from + (at + i) * stride * size, (size_t)size);
        decode(k, d, side_by_side, m, out + at);
    }
}

/* Elements [col, col + n) of one row, which starts at the coordinates in `at`. */
static void read_in_row(const fy_kernels *k, const fy_ckpt_tensor *t,
                        const uint64_t at[FY_MAX_RANK], uint64_t col, uint64_t n, float *out)
{
    uint32_t last = t->rank - 1;
    uint64_t size = fy_dtype_bits(t->dtype) / 8, begin = 0; /* of the part, along the axis */
    for (uint32_t p = 0; p < t->n_parts && n > 0; begin += t->parts[p++].len) {
        const fy_ckpt_part *part = &t->parts[p];
        uint64_t along = t->axis == last ? col : at[t->axis], offset = 0, m = n;
        if (along - begin >= part->len)
            continue;
        if (t->axis == last && part->len - (col - begin) < m)
            m = part->len - (col - begin);
        for (uint32_t d = 0; d < last; d++)
            offset += (d == t->axis ? at[d] - begin : at[d]) * part->stride[d];
        offset += (t->axis == last ? col - begin : col) * part->stride[last];
        decode_apart(k, t->dtype, part->data + offset * size, part->stride[last], m, out);
        col += m;
        out += m;
        n -= m;
        if (t->axis != last)
            return;
    }
}

/* Values of one row times the scales of their blocks. */
static void apply_scales(const fy_kernels *k, const fy_ckpt_tensor *t, uint64_t row, uint64_t col,
                         uint64_t n, float *out)
{
    uint64_t per_row = row_length(t->scale), block = t->scale_block[1];
    while (n > 0) {
        uint64_t m = block - col % block;
        float scale;
        m = m < n ? m : n;
        fy_ckpt_read(k, t->scale, row / t->scale_block[0] * per_row + col / block, 1, &scale);
        for (uint64_t i = 0; i < m; i++)
            out[i] *= scale;
        col += m;
        out += m;
        n -= m;
    }
}

void fy_ckpt_read(const fy_kernels *k, const fy_ckpt_tensor *t, uint64_t first, uint64_t n,
                  float *out)
{
    uint64_t size = fy_dtype_bits(t->dtype) / 8, width = row_length(t);
    if (is_mxfp4(t)) {
        decode_mxfp4(k, t, first, n, out);
        return;
    }
    if (t->plain && t->scale == NULL) {
        decode(k, t->dtype, t->parts[0].data + first * size, n, out);
        return;
    }
    if (t->rank == 0) {
        decode(k, t->dtype, t->parts[0].data, 1, out);
        return;
    }
    while (n > 0) {
        uint64_t at[FY_MAX_RANK], row = first / width, col = first % width, m = width - col;
        uint64_t rest = row;
        m = m < n ? m : n;
        for (uint32_t d = t->rank - 1; d-- > 0; rest /= t->shape[d])
            at[d] = rest % t->shape[d];
        read_in_row(k, t, at, col, m, out);
        if (t->scale != NULL)
            apply_scales(k, t, row, col, m, out);
        if (t->delta != NULL)
            fy_lora_add(k, t->delta, &row, 1, col, m, out);
        first += m;
        out += m;
        n -= m;
    }
}

void fy_ckpt_read_rows(const fy_kernels *k, const fy_ckpt_tensor *t, const uint64_t *rows,
                       int n_rows, uint64_t col, uint64_t n, float *out)
{
    fy_ckpt_tensor base = *t;
    base.delta = NULL;
    for (int r = 0; r < n_rows; r++)
        fy_ckpt_read(k, &base, rows[r] * row_length(t) + col, n, out + (uint64_t)r * n);
    for (int r = 0, m; r < n_rows && t->delta != NULL; r += m) {
        m = n_rows - r < FY_LORA_ROWS ? n_rows - r : FY_LORA_ROWS;
        fy_lora_add(k, t->delta, rows + r, m, col, n, out + (uint64_t)r * n);
    }
}

/* From the first byte to the last one that the part's elements touch. */
static uint64_t extent(const fy_ckpt_tensor *t, const fy_ckpt_part *part)
{
    uint64_t last = 0;
    for (uint32_t d = 0; d < t->rank; d++)
        last += ((d == t->axis ? part->len : t->shape[d]) - 1) * part->stride[d];
    return (last + 1) * (fy_dtype_bits(t->dtype) / 8);
}

/* One part, row-major without gaps; also when there is something to add to it. */
static bool is_in_a_row(const fy_ckpt_tensor *t)
{
    uint64_t stride = 1;
    for (uint32_t d = t->rank; d-- > 0; stride *= t->shape[d]) {
        if (t->shape[d] != 1 && t->parts[0].stride[d] != stride)
            return false;
    }
    return t->n_parts == 1;
}

void fy_ckpt_drop(const fy_ckpt_tensor *t, uint64_t first, uint64_t n)
{
    uint64_t size = fy_dtype_bits(t->dtype) / 8;
    if (is_mxfp4(t)) {
        const fy_ckpt_part *part = &t->parts[0];
        fy_map_drop(part->map, (uint64_t)(part->data - part->map->data) + first / 2, n / 2);
        fy_ckpt_drop(t->scale, first / FY_QK, n / FY_QK);
        return;
    }
    if (is_in_a_row(t)) {
        const fy_ckpt_part *part = &t->parts[0];
        fy_map_drop(part->map, (uint64_t)(part->data - part->map->data) + first * size, n * size);
        return;
    }
    for (uint32_t p = 0; p < t->n_parts && t->bytes > 0 && n == fy_ckpt_n_elements(t); p++) {
        const fy_ckpt_part *part = &t->parts[p];
        fy_map_drop(part->map, (uint64_t)(part->data - part->map->data), extent(t, part));
    }
}

/* The sizes of a part; true when its elements lie in a row. */
static bool part_in_a_row(const fy_ckpt_tensor *t, const fy_ckpt_part *part, uint64_t *bytes)
{
    uint64_t n = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        if (part->stride[d] != n)
            return false;
        n *= d == t->axis ? part->len : t->shape[d]; /* inside the file */
    }
    *bytes = n * (fy_dtype_bits(t->dtype) / 8);
    return true;
}

static bool same_part(const fy_ckpt_part *x, const fy_ckpt_part *y, uint64_t bytes)
{
    enum { PIECE = 4 << 20 };
    bool same = true;
    for (uint64_t at = 0; at < bytes && same && x->data != y->data; at += PIECE) {
        uint64_t n = bytes - at < PIECE ? bytes - at : PIECE;
        same = memcmp(x->data + at, y->data + at, (size_t)n) == 0;
        fy_map_drop(x->map, (uint64_t)(x->data - x->map->data) + at, n);
        fy_map_drop(y->map, (uint64_t)(y->data - y->map->data) + at, n);
    }
    return same;
}

bool fy_ckpt_same(const fy_ckpt_tensor *x, const fy_ckpt_tensor *y)
{
    if (x->dtype != y->dtype || x->bytes != y->bytes || x->n_parts != y->n_parts ||
        x->rank != y->rank || x->axis != y->axis)
        return false;
    for (uint32_t p = 0; p < x->n_parts; p++) {
        uint64_t n, m;
        if (!part_in_a_row(x, &x->parts[p], &n) || !part_in_a_row(y, &y->parts[p], &m) || n != m ||
            !same_part(&x->parts[p], &y->parts[p], n))
            return false;
    }
    return true;
}
