/* Operations on rows: norms, Softmax, reductions; RotaryEmbedding. Sums of codes are exact. */
#include "qnnref/ref_ops.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static float float_word(const ref_node *n, const char *name, float otherwise)
{
    const ref_param *p = ref_param_of(n, name);
    float v = otherwise;
    if (p != NULL && p->words != NULL)
        memcpy(&v, p->words, sizeof v);
    return v;
}

/* --- norms --- */

abi_error ref_check_norm(const ref_node *n)
{
    const ref_tensor *x = n->in[0];
    if (!ref_same_shape(x, n->out[0]))
        return ref_bad_node(n, "shapes differ");
    if (x->rank > 4)
        return ref_bad_node(n, "rank 5");
    for (uint32_t i = 1; i < n->n_in; i++) {
        const ref_tensor *t = n->in[i];
        if (t != NULL && (t->rank != 1 || t->dims[0] != x->dims[x->rank - 1]))
            return ref_bad_node(n, "gamma and beta have a value a column");
    }
    const ref_param *axes = ref_param_of(n, "axes");
    uint32_t last = x->rank - 1;
    if (axes != NULL && (axes->n != 1 || (axes->words != NULL && axes->words[0] != last)))
        return ref_bad_node(n, "only the last axis");
    if (ref_param_of(n, "axis") != NULL && ref_param_word(n, "axis", 0) != last)
        return ref_bad_node(n, "only the last axis");
    if (n->op->variant == REF_L2 && axes == NULL && ref_param_of(n, "axis") == NULL)
        return ref_bad_node(n, "axis or axes is missing");
    if (!(float_word(n, "epsilon", 1e-12f) > 0))
        return ref_bad_node(n, "epsilon is not above 0");
    /* Until SDK 2.48 finalize fails without beta; seen on 2.47. */
    if (n->op->variant == REF_RMS && n->sdk < 49 && (n->n_in < 3 || n->in[2] == NULL))
        return ref_bad_node(n, "beta is needed before SDK 2.49");
    return 0;
}

typedef struct {
    double mean, scale; /* y = (x - mean) * scale */
} moments;

static moments moments_of(const ref_node *n, const double *x, uint64_t width, double unit)
{
    double sum = 0, squares = 0, mean = 0;
    double epsilon = (double)float_word(n, "epsilon", 1e-12f);
    for (uint64_t i = 0; i < width; i++)
        sum += x[i];
    if (n->op->variant == REF_LAYER)
        mean = sum / (double)width;
    for (uint64_t i = 0; i < width; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    squares *= unit * unit;
    if (n->op->variant == REF_L2)
        return (moments){0, unit / __builtin_sqrt(squares > epsilon ? squares : epsilon)};
    return (moments){mean, unit / __builtin_sqrt(squares / (double)width + epsilon)};
}

abi_error ref_run_norm(ref_run *r, const ref_node *n)
{
    const ref_tensor *x = n->in[0], *y = n->out[0];
    uint64_t width = x->dims[x->rank - 1];
    double *row = malloc(3 * width * sizeof *row), *gamma = row + width, *beta = gamma + width;
    if (row == NULL)
        return ABI_MEM_ALLOC;
    for (uint64_t i = 0; i < width; i++) {
        gamma[i] = 1.0;
        beta[i] = 0.0;
    }
    if (n->n_in > 1 && n->in[1] != NULL)
        ref_load(gamma, n->in[1], ref_input(r, n->in[1]), 0, width, true);
    /* The library leaves beta out of RmsNorm on floats. */
    bool ignored = n->op->variant == REF_RMS && ref_is_float(x->data_type);
    if (n->n_in > 2 && n->in[2] != NULL && !ignored)
        ref_load(beta, n->in[2], ref_input(r, n->in[2]), 0, width, true);
    /* RmsNorm's results are truncated (seen), the others' rounded. */
    ref_rounding how = n->op->variant == REF_RMS ? REF_TRUNC : REF_EVEN;
    for (uint64_t at = 0; at < x->n; at += width) {
        ref_load(row, x, ref_input(r, x), at, width, true);
        moments m = moments_of(n, row, width, 1.0);
        for (uint64_t i = 0; i < width; i++)
            row[i] = (row[i] - m.mean) * m.scale * gamma[i] + beta[i];
        ref_store(ref_output(r, y), y, at, row, width, how, true);
    }
    free(row);
    return 0;
}

/* --- Softmax --- */

abi_error ref_check_softmax(const ref_node *n)
{
    const ref_tensor *x = n->in[0];
    if (!ref_same_shape(x, n->out[0]))
        return ref_bad_node(n, "shapes differ");
    if (ref_param_word(n, "axis", x->rank - 1) != x->rank - 1)
        return ref_bad_node(n, "only the last axis");
    return float_word(n, "beta", 1.0f) == 1.0f ? 0 : ref_bad_node(n, "beta is not 1");
}

abi_error ref_run_softmax(ref_run *r, const ref_node *n)
{
    const ref_tensor *x = n->in[0], *y = n->out[0];
    uint64_t width = x->dims[x->rank - 1];
    double *row = malloc(width * sizeof *row);
    if (row == NULL)
        return ABI_MEM_ALLOC;
    ref_rounding how = ref_type_bytes(y->data_type) == 2 ? REF_TRUNC : REF_EVEN;
    for (uint64_t at = 0; at < x->n; at += width) {
        ref_load(row, x, ref_input(r, x), at, width, true);
        double most = row[0], sum = 0;
        for (uint64_t i = 1; i < width; i++)
            most = row[i] > most ? row[i] : most;
        for (uint64_t i = 0; i < width; i++) {
            row[i] = ref_exp(row[i] - most);
            sum += row[i];
        }
        for (uint64_t i = 0; i < width; i++)
            row[i] /= sum;
        ref_store(ref_output(r, y), y, at, row, width, how, true);
    }
    free(row);
    return 0;
}

/* --- reductions over the last axis --- */

abi_error ref_check_reduce(const ref_node *n)
{
    const ref_tensor *x = n->in[0], *y = n->out[0];
    const ref_param *axes = ref_param_of(n, "axes");
    if (axes->n != 1 || (axes->words != NULL && axes->words[0] != x->rank - 1))
        return ref_bad_node(n, "only the last axis is in the reference");
    bool keep = ref_param_word(n, "keep_dims", 0) != 0;
    uint32_t rank = keep ? x->rank : x->rank - 1;
    if (y->n * x->dims[x->rank - 1] != x->n || (rank > 0 && y->rank != rank) ||
        memcmp(x->dims, y->dims, (x->rank - 1) * sizeof x->dims[0]) != 0)
        return ref_bad_node(n, "shapes do not fit");
    return 0;
}

abi_error ref_run_reduce(ref_run *r, const ref_node *n)
{
    const ref_tensor *x = n->in[0], *y = n->out[0];
    uint64_t width = x->dims[x->rank - 1];
    double *row = malloc(width * sizeof *row);
    if (row == NULL)
        return ABI_MEM_ALLOC;
    for (uint64_t i = 0; i < y->n; i++) {
        ref_load(row, x, ref_input(r, x), i * width, width, true);
        double sum = 0, least = row[0];
        for (uint64_t k = 0; k < width; k++) {
            sum += row[k];
            least = row[k] < least ? row[k] : least;
        }
        double v = n->op->variant == REF_MEAN ? sum / (double)width : least;
        ref_store(ref_output(r, y), y, i, &v, 1, REF_EVEN, true);
    }
    free(row);
    return 0;
}

/* --- RotaryEmbedding: x [1, heads, tokens, 2 h], cos and sin [1, tokens, h] --- */

abi_error ref_check_rope(const ref_node *n)
{
    const ref_tensor *x = n->in[0], *c = n->in[1], *s = n->in[2];
    if (ref_param_of(n, "rotary_embedding_dim") != NULL)
        return ref_bad_node(n, "rotary_embedding_dim is not supported");
    if (!ref_same_shape(x, n->out[0]) || !ref_same_shape(c, s) || x->rank != 4 || c->rank != 3 ||
        x->dims[0] != c->dims[0] || x->dims[2] != c->dims[1] || x->dims[3] != 2 * c->dims[2])
        return ref_bad_node(n, "x [n, heads, tokens, 2 h] with cos and sin [n, tokens, h]");
    return 0;
}

static double product(double a, double b, bool half)
{
    return half ? (double)fy_f16_to_f32(fy_f32_to_f16((float)(a * b))) : a * b;
}

abi_error ref_run_rope(ref_run *r, const ref_node *n)
{
    const ref_tensor *x = n->in[0], *y = n->out[0];
    uint64_t half = x->dims[3] / 2, tokens = x->dims[2], heads = x->dims[1];
    bool pairs = ref_param_word(n, "interleaved", 0) != 0;
    bool half_products = ref_is_float(x->data_type); /* seen: each is rounded to f16 */
    double *row = malloc(4 * 2 * half * sizeof *row);
    if (row == NULL)
        return ABI_MEM_ALLOC;
    double *c = row + 2 * half, *s = c + half, *to = s + half;
    for (uint64_t i = 0; i < x->n / (2 * half); i++) {
        uint64_t token = i / (heads * tokens) * tokens + i % tokens;
        ref_load(row, x, ref_input(r, x), i * 2 * half, 2 * half, true);
        ref_load(c, n->in[1], ref_input(r, n->in[1]), token * half, half, true);
        ref_load(s, n->in[2], ref_input(r, n->in[2]), token * half, half, true);
        for (uint64_t j = 0; j < half; j++) {
            uint64_t a = pairs ? 2 * j : j, b = pairs ? 2 * j + 1 : j + half;
            to[a] = product(row[a], c[j], half_products) - product(row[b], s[j], half_products);
            to[b] = product(row[b], c[j], half_products) + product(row[a], s[j], half_products);
        }
        ref_store(ref_output(r, y), y, i * 2 * half, to, 2 * half, REF_UP, true);
    }
    free(row);
    return 0;
}
