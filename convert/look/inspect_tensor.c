/* inspect --tensor: statistics and values of one tensor as f32, whatever it is stored as, in one
 * pass. */
#include "convert/look/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/math.h"
#include "base/opts.h"
#include "base/str.h"
#include "convert/look/model_source.h"

enum { CHUNK = 1 << 16 }; /* elements decoded at a time */

typedef struct {
    uint64_t n_zero, n_nan, n_inf, n_finite;
    float min, max; /* of the finite ones */
    double sum, sum2;
} statistics;

typedef struct {
    fy_source *s; /* owned */
    const fy_source_tensor *t;
    statistics st;
    uint64_t first, n; /* the values that are shown */
    float *values;     /* owned; [n] */
} tensor_view;

static void add_values(statistics *st, const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            st->n_nan += isnan(x[i]) != 0;
            st->n_inf += isinf(x[i]) != 0;
            continue;
        }
        st->min = st->n_finite == 0 || x[i] < st->min ? x[i] : st->min;
        st->max = st->n_finite == 0 || x[i] > st->max ? x[i] : st->max;
        st->n_finite++;
        st->n_zero += x[i] == 0;
        st->sum += (double)x[i];
        st->sum2 += (double)x[i] * (double)x[i];
    }
}

static double mean_of(const statistics *st)
{
    return st->sum / (double)st->n_finite;
}

static double deviation_of(const statistics *st)
{
    double mean = mean_of(st), v = st->sum2 / (double)st->n_finite - mean * mean;
    return v > 0 ? sqrt(v) : 0;
}

/* Copies those of elements [at, at + n) that are to be shown. */
static void keep(tensor_view *v, const float *x, uint64_t at, uint64_t n)
{
    uint64_t from = v->first > at ? v->first : at, to = v->first + v->n;
    to = to < at + n ? to : at + n;
    if (from < to)
        memcpy(v->values + (from - v->first), x + (from - at), (size_t)(to - from) * sizeof *x);
}

static int read_all(tensor_view *v, fy_err *e)
{
    uint64_t unit = v->t->unit, chunk = (CHUNK / unit > 0 ? CHUNK / unit : 1) * unit, bytes;
    float *x = fy_mul_u64(chunk, sizeof *x, &bytes) ? malloc((size_t)bytes) : NULL;
    int rc = x != NULL ? 0 : fy_nomem(e);
    for (uint64_t at = 0; rc == 0 && at < v->t->n_elems; at += chunk) {
        uint64_t n = v->t->n_elems - at < chunk ? v->t->n_elems - at : chunk;
        rc = fy_source_read(v->s, v->t, at, n, x, 0, e) || fy_check_interrupt(e) ? -1 : 0;
        if (rc != 0)
            break;
        add_values(&v->st, x, n);
        keep(v, x, at, n);
        fy_source_drop(v->s, v->t, at, n);
    }
    free(x);
    return rc;
}

/* --- which values ----------------------------------------------------------------------------- */

static int bad_index(const tensor_view *v, const char *text, fy_err *e)
{
    return fy_fail(e, FY_EARG,
                   "--at %s is not an index of the tensor, expected %" PRIu32
                   " numbers as in --at 3,9, each below its dimension",
                   text, v->t->rank);
}

/* "[3, 9]", "3,9": the element's number in row-major order. */
static int parse_index(tensor_view *v, const char *text, fy_err *e)
{
    const char *p = text;
    uint32_t d = 0;
    uint64_t at = 0;
    for (; *p != '\0'; d++) {
        p += strspn(p, " [,]");
        if (*p == '\0')
            break;
        char *end;
        unsigned long long i = *p >= '0' && *p <= '9' ? strtoull(p, &end, 10) : UINT64_MAX;
        if (d >= v->t->rank || i >= v->t->shape[d])
            return bad_index(v, text, e);
        at = at * v->t->shape[d] + i;
        p = end;
    }
    if (d != v->t->rank)
        return bad_index(v, text, e);
    v->first = at;
    return 0;
}

static int choose_values(tensor_view *v, const fy_inspect_options *o, fy_err *e)
{
    if (o->at != NULL && parse_index(v, o->at, e) != 0)
        return -1;
    uint64_t left = v->t->n_elems - v->first;
    v->n = (uint64_t)o->n_values < left ? (uint64_t)o->n_values : left;
    v->values = calloc(v->n > 0 ? (size_t)v->n : 1, sizeof *v->values);
    return v->values != NULL ? 0 : fy_nomem(e);
}

/* --- which tensor ----------------------------------------------------------------------------- */

static int fail_unknown(const fy_source *s, const char *name, fy_err *e)
{
    size_t n = s->n_tensors, i = 0;
    fy_arena strings = {0};
    const char **names = calloc(n + 1, sizeof *names), *near = NULL;
    char quoted[128], near_text[128];
    for (; names != NULL && i < n; i++) {
        fy_span t = s->tensors[i].name;
        names[i] = fy_arena_strndup(&strings, t.len > 0 ? t.ptr : "", t.len);
        if (names[i] == NULL)
            break;
    }
    if (names != NULL && i == n) /* short of memory the message does without */
        near = fy_nearest(name, names, n);
    fy_quote(quoted, sizeof quoted, fy_span_of(name));
    if (near != NULL)
        fy_fail(e, FY_EARG, "%s: no tensor is called '%s'; the nearest name is '%s'", s->path,
                quoted, fy_quote(near_text, sizeof near_text, fy_span_of(near)));
    else
        fy_fail(e, FY_EARG, "%s: no tensor is called '%s'", s->path, quoted);
    fy_arena_release(&strings);
    free(names);
    return -1;
}

/* Tensors of a checkpoint have their own names, and those that a conversion gives them. */
static int open_tensor(tensor_view *v, const char *path, const char *name, fy_err *e)
{
    fy_err ignored = {0};
    v->s = fy_source_open(path, e);
    if (v->s == NULL)
        return -1;
    v->t = fy_source_find(v->s, fy_span_of(name));
    if (v->t != NULL)
        return 0;
    fy_source *planned =
        v->s->kind == FY_SOURCE_CHECKPOINT ? fy_source_open_planned(path, 1, &ignored) : NULL;
    const fy_source_tensor *t = planned != NULL ? fy_source_find(planned, fy_span_of(name)) : NULL;
    if (t == NULL) {
        fy_source_close(planned);
        return fail_unknown(v->s, name, e);
    }
    fy_source_close(v->s);
    v->s = planned;
    v->t = t;
    return 0;
}

/* --- output ----------------------------------------------------------------------------------- */

static void put_text(fy_str *out, const tensor_view *v)
{
    const statistics *st = &v->st;
    uint64_t at[FY_MAX_RANK];
    fy_str_put_quoted(out, v->t->name, SIZE_MAX);
    fy_str_printf(out, ": %s ", v->t->type);
    fy_put_shape(out, v->t->rank, v->t->shape);
    fy_str_printf(out, " (row length last), elements %" PRIu64 ", bytes %" PRIu64 "\n",
                  v->t->n_elems, v->t->bytes);
    if (!v->t->readable) {
        fy_str_printf(out, "values of type %s are not decoded\n", v->t->type);
        return;
    }
    if (st->n_finite > 0) {
        fy_str_puts(out, "min ");
        fy_put_float(out, (double)st->min, true);
        fy_str_puts(out, ", max ");
        fy_put_float(out, (double)st->max, true);
        fy_str_printf(out, ", mean %.6g, standard deviation %.6g\n", mean_of(st), deviation_of(st));
    }
    fy_str_printf(out, "zeros %" PRIu64 ", NaN %" PRIu64 ", infinite %" PRIu64 "\n", st->n_zero,
                  st->n_nan, st->n_inf);
    if (v->n > 0) {
        fy_source_index(v->t, v->first, at);
        fy_put_shape(out, v->t->rank, at);
    }
    for (uint64_t i = 0; i < v->n; i++) {
        fy_str_puts(out, i == 0 ? ": " : i % 8 == 0 ? "\n  " : " ");
        fy_put_float(out, (double)v->values[i], true);
    }
    if (v->n > 0)
        fy_str_putc(out, '\n');
}

static int put_json(fy_str *out, const tensor_view *v, fy_err *e)
{
    fy_json_maker m = {0};
    const statistics *st = &v->st;
    const bool any = st->n_finite > 0;
    json_t *top = json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:b}", "path",
                            fy_make_text(fy_span_of(v->s->path)), "name", fy_make_text(v->t->name),
                            "type", v->t->type, "shape", fy_shape_json(&m, v->t->rank, v->t->shape),
                            "elements", fy_make_u64(v->t->n_elems), "bytes",
                            fy_make_u64(v->t->bytes), "decoded", v->t->readable);
    if (v->t->readable) {
        json_t *values = json_array();
        for (uint64_t i = 0; i < v->n; i++)
            fy_make_append(&m, values, fy_inspect_float_json((double)v->values[i], true));
        fy_make_set(&m, top, "min",
                    any ? fy_inspect_float_json((double)st->min, true) : json_null());
        fy_make_set(&m, top, "max",
                    any ? fy_inspect_float_json((double)st->max, true) : json_null());
        fy_make_set(&m, top, "mean", any ? json_real(mean_of(st)) : json_null());
        fy_make_set(&m, top, "std", any ? json_real(deviation_of(st)) : json_null());
        fy_make_set(&m, top, "zeros", fy_make_u64(st->n_zero));
        fy_make_set(&m, top, "nan", fy_make_u64(st->n_nan));
        fy_make_set(&m, top, "infinite", fy_make_u64(st->n_inf));
        fy_make_set(&m, top, "first", fy_make_u64(v->first));
        fy_make_set(&m, top, "values", values);
    }
    return fy_make_end(&m, top, out, e);
}

int fy_inspect_tensor(const char *path, const fy_inspect_options *o, fy_str *out, fy_err *e)
{
    tensor_view v = {0};
    int rc = open_tensor(&v, path, o->tensor, e) || choose_values(&v, o, e) ||
             (v.t->readable && read_all(&v, e));
    if (rc == 0 && o->json)
        rc = put_json(out, &v, e);
    else if (rc == 0)
        put_text(out, &v);
    fy_source_close(v.s);
    free(v.values);
    return rc != 0 ? -1 : out->oom ? fy_nomem(e) : 0;
}
