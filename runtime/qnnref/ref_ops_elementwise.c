/* Operations on each element by itself: unary ones and conversions, and pairs with broadcast. */
#include "qnnref/ref_ops.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

enum { CHUNK = 256 };

/* --- unary --- */

abi_error ref_check_same(const ref_node *n)
{
    return ref_same_shape(n->in[0], n->out[0]) ? 0 : ref_bad_node(n, "shapes differ");
}

abi_error ref_check_unary(const ref_node *n)
{
    return ref_check_same(n);
}

/* Operations of ElementWiseNeuron; -1: not in the reference. */
static int neuron(uint32_t operation)
{
    static const struct {
        uint32_t operation;
        int variant;
    } known[] = {{1, REF_GELU}, {3, REF_HARDSWISH}, {4, REF_RELU}, {6, REF_SIGMOID}, {8, REF_TANH}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].operation == operation)
            return known[i].variant;
    }
    return -1;
}

abi_error ref_check_neuron(const ref_node *n)
{
    if (neuron(ref_param_word(n, "operation", 0)) < 0)
        return ref_bad_node(n, "this operation is not in the reference");
    return ref_check_same(n);
}

static double unary(uint32_t variant, double x)
{
    double h;
    switch (variant) {
    case REF_SIGMOID:
        return 1.0 / (1.0 + ref_exp(-x));
    case REF_TANH:
        return ref_tanh(x);
    case REF_GELU:
        return 0.5 * x * (1.0 + ref_erf(x * 0.70710678118654752));
    case REF_RELU:
        return x > 0 ? x : 0;
    case REF_EXP:
        return ref_exp(x);
    case REF_RSQRT:
        return x > 0 ? 1.0 / __builtin_sqrt(x) : 65504.0;
    case REF_HARDSWISH:
        h = x + 3.0;
        h = h < 0 ? 0 : h > 6.0 ? 6.0 : h;
        return x * h / 6.0;
    case REF_NEG:
        return -x;
    case REF_SIN:
        return ref_sin(x);
    case REF_COS:
        return ref_cos(x);
    default:
        return x > 0 ? __builtin_sqrt(x) : 0;
    }
}

static uint32_t variant_of(const ref_node *n)
{
    return n->op->variant == REF_NEURON ? (uint32_t)neuron(ref_param_word(n, "operation", 0))
                                        : n->op->variant;
}

/* Quantized: every code's result once, then a look-up. */
static abi_error run_table(const ref_node *n, const void *x, void *y)
{
    const ref_tensor *t = n->in[0], *out = n->out[0];
    uint32_t v = variant_of(n);
    bool wide = ref_type_bytes(t->data_type) == 2;
    uint32_t codes = wide ? 65536 : 256;
    uint16_t *table = malloc(codes * sizeof *table), *all = malloc(codes * sizeof *all);
    bool ok = table != NULL && all != NULL;
    for (uint32_t i = 0; ok && i < codes; i++) {
        if (wide)
            all[i] = (uint16_t)i;
        else
            ((uint8_t *)all)[i] = (uint8_t)i;
    }
    for (uint32_t i = 0; ok && i < codes; i++) {
        double real;
        ref_load(&real, t, all, i, 1, false);
        table[i] = (uint16_t)ref_quantize(out, unary(v, real), REF_EVEN);
    }
    for (uint64_t i = 0; ok && i < t->n; i++) {
        if (wide)
            ((uint16_t *)y)[i] = table[((const uint16_t *)x)[i]];
        else
            ((uint8_t *)y)[i] = (uint8_t)table[((const uint8_t *)x)[i]];
    }
    free(table);
    free(all);
    return ok ? 0 : ABI_MEM_ALLOC;
}

abi_error ref_run_unary(ref_run *r, const ref_node *n)
{
    const ref_tensor *x = n->in[0], *y = n->out[0];
    const void *xp = ref_input(r, x);
    void *yp = ref_output(r, y);
    if (ref_is_fixed(x->data_type) && x->n > (ref_type_bytes(x->data_type) == 2 ? 65536 : 256))
        return run_table(n, xp, yp);
    uint32_t v = variant_of(n);
    double row[CHUNK];
    for (uint64_t at = 0; at < x->n; at += CHUNK) {
        uint64_t now = x->n - at < CHUNK ? x->n - at : CHUNK;
        ref_load(row, x, xp, at, now, true);
        for (uint64_t i = 0; i < now; i++)
            row[i] = unary(v, row[i]);
        ref_store(yp, y, at, row, now, REF_EVEN, true);
    }
    return 0;
}

/* --- conversions --- */

/* Seen of ties: Quantize rounds them away from zero, Convert up to 16 bits and down to 8. */
static ref_rounding rounding_of(const ref_node *n)
{
    if (ref_is_float(n->in[0]->data_type))
        return REF_AWAY;
    return ref_type_bytes(n->out[0]->data_type) == 2 ? REF_UP : REF_DOWN;
}

/* 8 bit codes become f16 by a scale that is rounded to f16 first. */
static void half_scale(const ref_tensor *x, double *row, uint64_t n)
{
    double scale = (double)x->quant.one.scale;
    double half = (double)fy_f16_to_f32(fy_f32_to_f16(x->quant.one.scale));
    for (uint64_t i = 0; i < n; i++)
        row[i] = ref_rint(row[i] / scale) * half;
}

abi_error ref_run_convert(ref_run *r, const ref_node *n)
{
    const ref_tensor *x = n->in[0], *y = n->out[0];
    const void *xp = ref_input(r, x);
    void *yp = ref_output(r, y);
    double row[CHUNK];
    for (uint64_t at = 0; at < x->n; at += CHUNK) {
        uint64_t now = x->n - at < CHUNK ? x->n - at : CHUNK;
        ref_load(row, x, xp, at, now, false);
        if (x->data_type == ABI_U8 && y->data_type == ABI_F16)
            half_scale(x, row, now);
        ref_store(yp, y, at, row, now, rounding_of(n), false);
    }
    return 0;
}

/* --- pairs --- */

/* The element of a broadcast operand for each element of a row of the output. */
typedef struct {
    uint64_t at;
    uint32_t step; /* 0 or 1 along the row */
} place;

static place place_of(const ref_tensor *t, const ref_tensor *y, uint64_t row)
{
    place p = {0, t->dims[t->rank - 1] == 1 ? 0 : 1};
    uint64_t step = t->dims[t->rank - 1];
    for (uint32_t i = 1; i < y->rank; i++) {
        uint32_t dim = y->dims[y->rank - 1 - i];
        uint64_t here = row % dim;
        row /= dim;
        if (i >= t->rank)
            continue;
        uint32_t own = t->dims[t->rank - 1 - i];
        p.at += own == 1 ? 0 : here * step;
        step *= own;
    }
    return p;
}

static bool fits(const ref_tensor *t, const ref_tensor *y)
{
    if (t->rank > y->rank)
        return false;
    for (uint32_t i = 0; i < t->rank; i++) {
        uint32_t own = t->dims[t->rank - 1 - i], dim = y->dims[y->rank - 1 - i];
        if (own != 1 && own != dim)
            return false;
    }
    return true;
}

/* Every dimension of the output comes from an operand. */
static bool covers(const ref_node *n, uint32_t n_in)
{
    const ref_tensor *y = n->out[0];
    for (uint32_t i = 0; i < y->rank; i++) {
        bool any = y->dims[y->rank - 1 - i] == 1;
        for (uint32_t k = 0; k < n_in; k++)
            any = any || (i < n->in[k]->rank &&
                          n->in[k]->dims[n->in[k]->rank - 1 - i] == y->dims[y->rank - 1 - i]);
        if (!any)
            return false;
    }
    return true;
}

abi_error ref_check_binary(const ref_node *n)
{
    return fits(n->in[0], n->out[0]) && fits(n->in[1], n->out[0]) && covers(n, 2)
               ? 0
               : ref_bad_node(n, "shapes do not fit");
}

static double pair(uint32_t variant, double a, double b)
{
    switch (variant) {
    case REF_ADD:
        return a + b;
    case REF_SUB:
        return a - b;
    case REF_MUL:
        return a * b;
    case REF_DIV:
        return b != 0 ? a / b : a > 0 ? 3.4e38 : a < 0 ? -3.4e38 : 0;
    case REF_MAX:
        return a > b ? a : b;
    case REF_MIN:
        return a < b ? a : b;
    default:
        return a > b ? 1 : 0;
    }
}

static void load_place(double *to, const ref_tensor *t, const void *p, place at, uint64_t from,
                       uint64_t n)
{
    ref_load(to, t, p, at.at + from * at.step, at.step == 0 ? 1 : n, true);
    for (uint64_t i = 1; at.step == 0 && i < n; i++)
        to[i] = to[0];
}

/* Sums and differences of 16 bit codes: both scales, as quotients by that of the result, become
 * factors of 16 bits with one binary point, as large as fits; their sum is rounded half up. This is
 * exactly what the vendor's library gives for u16 and s16, whatever the scales and offsets. */
static abi_error run_sum(ref_run *r, const ref_node *n)
{
    const ref_tensor *t[2] = {n->in[0], n->in[1]}, *y = n->out[0];
    const void *p[2] = {ref_input(r, t[0]), ref_input(r, t[1])};
    void *yp = ref_output(r, y);
    uint64_t width = y->dims[y->rank - 1];
    double factor[2], low, high;
    int32_t codes[2][CHUNK];
    for (int k = 0; k < 2; k++)
        factor[k] = (double)t[k]->quant.one.scale / (double)y->quant.one.scale;
    int bits = ref_multiplier_bits(factor[0] > factor[1] ? factor[0] : factor[1]);
    for (int k = 0; k < 2; k++)
        factor[k] = ref_rint(factor[k] * ref_power_of_two(bits)) * ref_power_of_two(-bits);
    if (n->op->variant == REF_SUB)
        factor[1] = -factor[1];
    ref_type_limits(y->data_type, &low, &high);
    for (uint64_t row = 0; row < y->n / width; row++) {
        place at[2] = {place_of(t[0], y, row), place_of(t[1], y, row)};
        for (uint64_t from = 0; from < width; from += CHUNK) {
            uint64_t now = width - from < CHUNK ? width - from : CHUNK;
            for (int k = 0; k < 2; k++)
                ref_load_codes(codes[k], t[k], p[k], at[k].at + from * at[k].step,
                               at[k].step == 0 ? 1 : now);
            for (uint64_t i = 0; i < now; i++) {
                double v =
                    codes[0][i * at[0].step] * factor[0] + codes[1][i * at[1].step] * factor[1];
                v = ref_round(v, REF_UP) - y->quant.one.offset;
                v = v < low ? low : v > high ? high : v;
                ((uint16_t *)yp)[row * width + from + i] = (uint16_t)(int32_t)v;
            }
        }
    }
    return 0;
}

abi_error ref_run_binary(ref_run *r, const ref_node *n)
{
    if (n->op->variant <= REF_SUB && ref_is_fixed(n->in[0]->data_type) &&
        ref_type_bytes(n->in[0]->data_type) == 2)
        return run_sum(r, n);
    const ref_tensor *a = n->in[0], *b = n->in[1], *y = n->out[0];
    const void *ap = ref_input(r, a), *bp = ref_input(r, b);
    void *yp = ref_output(r, y);
    uint64_t width = y->dims[y->rank - 1];
    double left[CHUNK], right[CHUNK];
    for (uint64_t row = 0; row < y->n / width; row++) {
        place pa = place_of(a, y, row), pb = place_of(b, y, row);
        for (uint64_t at = 0; at < width; at += CHUNK) {
            uint64_t now = width - at < CHUNK ? width - at : CHUNK;
            load_place(left, a, ap, pa, at, now);
            load_place(right, b, bp, pb, at, now);
            for (uint64_t i = 0; i < now; i++)
                left[i] = pair(n->op->variant, left[i], right[i]);
            ref_store(yp, y, row * width + at, left, now, REF_UP, true);
        }
    }
    return 0;
}

abi_error ref_check_select(const ref_node *n)
{
    for (uint32_t i = 0; i < 3; i++) {
        if (!fits(n->in[i], n->out[0]))
            return ref_bad_node(n, "shapes do not fit");
    }
    return covers(n, 3) ? 0 : ref_bad_node(n, "shapes do not fit");
}

abi_error ref_run_select(ref_run *r, const ref_node *n)
{
    const ref_tensor *c = n->in[0], *y = n->out[0];
    const uint8_t *cp = ref_input(r, c);
    void *yp = ref_output(r, y);
    uint64_t width = y->dims[y->rank - 1];
    double values[2][CHUNK];
    for (uint64_t row = 0; row < y->n / width; row++) {
        place pc = place_of(c, y, row), p1 = place_of(n->in[1], y, row),
              p2 = place_of(n->in[2], y, row);
        for (uint64_t at = 0; at < width; at += CHUNK) {
            uint64_t now = width - at < CHUNK ? width - at : CHUNK;
            load_place(values[1], n->in[1], ref_input(r, n->in[1]), p1, at, now);
            load_place(values[0], n->in[2], ref_input(r, n->in[2]), p2, at, now);
            for (uint64_t i = 0; i < now; i++)
                values[0][i] = values[cp[pc.at + (at + i) * pc.step] != 0][i];
            ref_store(yp, y, row * width + at, values[0], now, REF_EVEN, true);
        }
    }
    return 0;
}
