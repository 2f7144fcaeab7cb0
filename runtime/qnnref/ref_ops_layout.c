/* Operations that move elements: exact copies, but for Concat of parts with encodings of their own.
 */
#include "qnnref/ref_ops.h"

#include <stdlib.h>
#include <string.h>

static void copy_one(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    switch (bytes) {
    case 1:
        *to = *from;
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    default:
        memcpy(to, from, 4);
    }
}

/* Elements of y in order, from x at first + the sum of index times step. */
static void gather_steps(const ref_tensor *y, uint8_t *yp, const uint8_t *xp, int64_t first,
                         const int64_t steps[REF_MAX_RANK])
{
    uint32_t bytes = ref_type_bytes(y->data_type), index[REF_MAX_RANK] = {0};
    int64_t at = first;
    for (uint64_t i = 0; i < y->n; i++) {
        copy_one(yp + i * bytes, xp + at * (int64_t)bytes, bytes);
        for (uint32_t d = y->rank; d-- > 0;) {
            at += steps[d];
            if (++index[d] < y->dims[d])
                break;
            at -= steps[d] * (int64_t)y->dims[d];
            index[d] = 0;
        }
    }
}

static void natural_steps(const ref_tensor *x, int64_t steps[REF_MAX_RANK])
{
    int64_t step = 1;
    for (uint32_t d = x->rank; d-- > 0;) {
        steps[d] = step;
        step *= x->dims[d];
    }
}

abi_error ref_check_reshape(const ref_node *n)
{
    return n->in[0]->n == n->out[0]->n ? 0 : ref_bad_node(n, "numbers of elements differ");
}

abi_error ref_run_copy(ref_run *r, const ref_node *n)
{
    memcpy(ref_output(r, n->out[0]), ref_input(r, n->in[0]), n->out[0]->bytes);
    return 0;
}

abi_error ref_check_transpose(const ref_node *n)
{
    const ref_tensor *x = n->in[0], *y = n->out[0];
    const ref_param *perm = ref_param_of(n, "perm");
    bool used[REF_MAX_RANK] = {false};
    if (perm->n != x->rank || y->rank != x->rank)
        return ref_bad_node(n, "perm has an entry a dimension");
    for (uint32_t i = 0; perm->words != NULL && i < x->rank; i++) {
        uint32_t from = perm->words[i];
        if (from >= x->rank || used[from] || y->dims[i] != x->dims[from])
            return ref_bad_node(n, "perm is not a permutation that fits");
        used[from] = true;
    }
    return 0;
}

abi_error ref_run_transpose(ref_run *r, const ref_node *n)
{
    const ref_param *perm = ref_param_of(n, "perm");
    int64_t own[REF_MAX_RANK], steps[REF_MAX_RANK] = {0};
    natural_steps(n->in[0], own);
    for (uint32_t i = 0; i < n->in[0]->rank; i++)
        steps[i] = own[perm->words[i]];
    gather_steps(n->out[0], ref_output(r, n->out[0]), ref_input(r, n->in[0]), 0, steps);
    return 0;
}

/* --- StridedSlice --- */

typedef struct {
    int64_t begin, end, stride;
} range;

static range range_of(const ref_node *n, uint32_t d)
{
    const ref_param *ranges = ref_param_of(n, "ranges");
    const ref_tensor *x = n->in[0];
    range v = {(int32_t)ranges->words[3 * d], (int32_t)ranges->words[3 * d + 1],
               (int32_t)ranges->words[3 * d + 2]};
    if ((ref_param_word(n, "begin_mask", 0) >> d & 1) != 0)
        v.begin = 0;
    if ((ref_param_word(n, "end_mask", 0) >> d & 1) != 0)
        v.end = x->dims[d];
    return v;
}

abi_error ref_check_slice(const ref_node *n)
{
    const ref_tensor *x = n->in[0], *y = n->out[0];
    const ref_param *ranges = ref_param_of(n, "ranges");
    if (ranges->dims[0] != x->rank || ranges->dims[1] != 3)
        return ref_bad_node(n, "ranges has begin, end and stride a dimension");
    if (ref_param_word(n, "shrink_axes", 0) != 0 || ref_param_word(n, "new_axes_mask", 0) != 0 ||
        y->rank != x->rank)
        return ref_bad_node(n, "axes that appear or vanish are not in the reference");
    for (uint32_t d = 0; ranges->words != NULL && d < x->rank; d++) {
        range v = range_of(n, d);
        if (v.stride < 1 || v.begin < 0 || v.end > x->dims[d] || v.begin >= v.end ||
            y->dims[d] != (uint64_t)((v.end - v.begin + v.stride - 1) / v.stride))
            return ref_bad_node(n, "a range does not fit");
    }
    return 0;
}

abi_error ref_run_slice(ref_run *r, const ref_node *n)
{
    int64_t own[REF_MAX_RANK], steps[REF_MAX_RANK] = {0}, first = 0;
    natural_steps(n->in[0], own);
    for (uint32_t d = 0; d < n->in[0]->rank; d++) {
        range v = range_of(n, d);
        first += v.begin * own[d];
        steps[d] = v.stride * own[d];
    }
    gather_steps(n->out[0], ref_output(r, n->out[0]), ref_input(r, n->in[0]), first, steps);
    return 0;
}

/* --- Concat, Split --- */

/* Bytes of one run of t along the axis and after it. */
static uint64_t run_bytes(const ref_tensor *t, uint32_t axis)
{
    uint64_t n = ref_type_bytes(t->data_type);
    for (uint32_t d = axis; d < t->rank; d++)
        n *= t->dims[d];
    return n;
}

static bool same_but_axis(const ref_tensor *a, const ref_tensor *b, uint32_t axis)
{
    for (uint32_t d = 0; d < a->rank; d++) {
        if (d != axis && a->dims[d] != b->dims[d])
            return false;
    }
    return a->rank == b->rank;
}

abi_error ref_check_concat(const ref_node *n)
{
    const ref_tensor *y = n->out[0];
    uint32_t axis = ref_param_word(n, "axis", 0);
    uint64_t sum = 0;
    if (axis >= y->rank)
        return ref_bad_node(n, "there is no such axis");
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!same_but_axis(n->in[i], y, axis))
            return ref_bad_node(n, "shapes do not fit");
        sum += n->in[i]->dims[axis];
    }
    return sum == y->dims[axis] ? 0 : ref_bad_node(n, "shapes do not fit");
}

abi_error ref_run_concat(ref_run *r, const ref_node *n)
{
    const ref_tensor *y = n->out[0];
    uint32_t axis = ref_param_word(n, "axis", 0);
    uint8_t *yp = ref_output(r, y);
    uint64_t all = run_bytes(y, axis), at = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const ref_tensor *x = n->in[i];
        const uint8_t *xp = ref_input(r, x);
        uint64_t each = run_bytes(x, axis), bytes = ref_type_bytes(y->data_type);
        bool same = ref_quant_equal(&x->quant, &y->quant);
        double v;
        for (uint64_t k = 0; k < x->bytes / each; k++) {
            if (same) {
                memcpy(yp + k * all + at, xp + k * each, each);
                continue;
            }
            for (uint64_t j = 0; j < each / bytes; j++) {
                ref_load(&v, x, xp, k * each / bytes + j, 1, false);
                ref_store(yp, y, (k * all + at) / bytes + j, &v, 1, REF_UP, false);
            }
        }
        at += each;
    }
    return 0;
}

abi_error ref_check_split(const ref_node *n)
{
    const ref_tensor *x = n->in[0];
    const ref_param *index = ref_param_of(n, "split_index");
    uint32_t axis = ref_param_word(n, "axis", 0), at = 0;
    if (axis >= x->rank || index->n + 1 != n->n_out)
        return ref_bad_node(n, "one part more than there are places to split");
    for (uint32_t i = 0; i < n->n_out; i++) {
        at += n->out[i]->rank == x->rank ? n->out[i]->dims[axis] : 0;
        bool placed = index->words == NULL || i + 1 == n->n_out || index->words[i] == at;
        if (!same_but_axis(n->out[i], x, axis) || !placed)
            return ref_bad_node(n, "shapes do not fit");
    }
    return at == x->dims[axis] ? 0 : ref_bad_node(n, "shapes do not fit");
}

abi_error ref_run_split(ref_run *r, const ref_node *n)
{
    const ref_tensor *x = n->in[0];
    uint32_t axis = ref_param_word(n, "axis", 0);
    const uint8_t *xp = ref_input(r, x);
    uint64_t all = run_bytes(x, axis), at = 0;
    for (uint32_t i = 0; i < n->n_out; i++) {
        uint8_t *yp = ref_output(r, n->out[i]);
        uint64_t each = run_bytes(n->out[i], axis);
        for (uint64_t k = 0; k < x->bytes / all; k++)
            memcpy(yp + k * each, xp + k * all + at, each);
        at += each;
    }
    return 0;
}

/* --- Tile, Gather --- */

abi_error ref_check_tile(const ref_node *n)
{
    const ref_tensor *x = n->in[0], *y = n->out[0];
    const ref_param *m = ref_param_of(n, "multiples");
    if (m->n != x->rank || y->rank != x->rank || x->rank > 4)
        return ref_bad_node(n, "a multiple a dimension, rank 4 at most");
    for (uint32_t d = 0; d < x->rank; d++) {
        if (y->dims[d] % x->dims[d] != 0 ||
            (m->words != NULL && m->words[d] != y->dims[d] / x->dims[d]))
            return ref_bad_node(n, "shapes do not fit");
    }
    return 0;
}

abi_error ref_run_tile(ref_run *r, const ref_node *n)
{
    const ref_tensor *x = n->in[0], *y = n->out[0];
    const uint8_t *xp = ref_input(r, x);
    uint8_t *yp = ref_output(r, y);
    uint32_t bytes = ref_type_bytes(y->data_type);
    for (uint64_t i = 0; i < y->n; i++) {
        uint64_t rest = i, at = 0, step = 1;
        for (uint32_t d = y->rank; d-- > 0;) {
            at += rest % y->dims[d] % x->dims[d] * step;
            rest /= y->dims[d];
            step *= x->dims[d];
        }
        copy_one(yp + i * bytes, xp + at * bytes, bytes);
    }
    return 0;
}

/* Rows of a table; the axis is 0. */
abi_error ref_check_gather(const ref_node *n)
{
    const ref_tensor *table = n->in[0], *index = n->in[1], *y = n->out[0];
    if (ref_param_word(n, "axis", 0) != 0)
        return ref_bad_node(n, "only axis 0 is in the reference");
    uint64_t row = table->n / table->dims[0];
    uint32_t rest = table->rank - 1;
    if (y->rank != index->rank + rest || y->n != index->n * row ||
        memcmp(y->dims, index->dims, index->rank * sizeof y->dims[0]) != 0 ||
        memcmp(y->dims + index->rank, table->dims + 1, rest * sizeof y->dims[0]) != 0)
        return ref_bad_node(n, "shapes do not fit");
    return 0;
}

abi_error ref_run_gather(ref_run *r, const ref_node *n)
{
    const ref_tensor *table = n->in[0], *index = n->in[1];
    const uint8_t *from = ref_input(r, table);
    const int32_t *at = ref_input(r, index);
    uint8_t *to = ref_output(r, n->out[0]);
    uint64_t bytes = table->bytes / table->dims[0];
    for (uint64_t i = 0; i < index->n; i++) {
        if (at[i] < 0 || (uint32_t)at[i] >= table->dims[0])
            return ref_fail(ABI_GRAPH_ABORTED, "node '%s': index %d of a table of %u rows", n->name,
                            at[i], table->dims[0]);
        memcpy(to + i * bytes, from + (uint64_t)at[i] * bytes, bytes);
    }
    return 0;
}
