/* The canary: its file, and the comparison. */
#include "bundle/npu_canary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

enum { VERSION = 1 };
#define LEAST_BOUND 0.01
#define LARGER      4 /* times what the types alone cost */

void fy_canary_release(fy_canary *c)
{
    free(c->ids);
    *c = (fy_canary){0};
}

/* --- reading ---------------------------------------------------------------------------------- */

/* At most `most` tokens. */
static int read_ids(fy_json *j, int32_t *out, size_t most, size_t *n, fy_err *e)
{
    int64_t id;
    int rc = fy_json_array_begin(j, e);
    *n = 0;
    while (rc == 0 && (rc = fy_json_array_next(j, e)) == 1) {
        if (*n == most)
            return fy_fail(e, FY_EFORMAT, "more than %zu tokens", most);
        rc = fy_json_i64_in(j, "ids", 0, INT32_MAX, &id, e);
        if (rc == 0)
            out[(*n)++] = (int32_t)id;
    }
    return rc;
}

static int read_logits(fy_json *j, float *out, size_t *n, fy_err *e)
{
    double v = 0;
    int rc = fy_json_array_begin(j, e);
    *n = 0;
    while (rc == 0 && (rc = fy_json_array_next(j, e)) == 1) {
        if (*n == FY_CANARY_TOP)
            return fy_fail(e, FY_EFORMAT, "more than %d logits", FY_CANARY_TOP);
        rc = fy_json_double(j, &v, e);
        if (rc == 0 && !isfinite((float)v))
            rc = fy_fail(e, FY_EFORMAT, "logits: %g, expected a number that a float holds", v);
        if (rc == 0)
            out[(*n)++] = (float)v;
    }
    return rc;
}

static int read_position(fy_json *j, fy_canary *c, fy_err *e)
{
    const size_t at = c->n_positions;
    size_t n_ids = 0, n_logits = 0;
    fy_span key;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1)
        rc = fy_span_is(key, "ids")      ? read_ids(j, c->top[at], FY_CANARY_TOP, &n_ids, e)
             : fy_span_is(key, "logits") ? read_logits(j, c->logits[at], &n_logits, e)
                                         : fy_json_skip(j, e);
    if (rc != 0)
        return -1;
    if (n_ids == 0 || n_ids != n_logits || (at > 0 && n_ids != c->n_top))
        return fy_fail(e, FY_EFORMAT,
                       "top: %zu tokens with %zu logits, expected as many of both at every "
                       "position, and one at least",
                       n_ids, n_logits);
    c->n_top = n_ids;
    c->n_positions++;
    return 0;
}

static int read_top(fy_json *j, fy_canary *c, fy_err *e)
{
    int rc = fy_json_array_begin(j, e);
    while (rc == 0 && (rc = fy_json_array_next(j, e)) == 1)
        rc = c->n_positions < FY_CANARY_POSITIONS
                 ? read_position(j, c, e)
                 : fy_fail(e, FY_EFORMAT, "top: more than %d positions", FY_CANARY_POSITIONS);
    return rc;
}

static int read_member(fy_json *j, fy_canary *c, fy_span key, uint64_t *version, fy_err *e)
{
    fy_span text;
    if (fy_span_is(key, "version"))
        return fy_json_u64(j, version, e);
    if (fy_span_is(key, "ids"))
        return read_ids(j, c->ids, FY_CANARY_IDS, &c->n_ids, e);
    if (fy_span_is(key, "top"))
        return read_top(j, c, e);
    if (fy_span_is(key, "kl"))
        return fy_json_double(j, &c->kl, e);
    if (!fy_span_is(key, "model"))
        return fy_json_skip(j, e);
    if (fy_json_string(j, &text, NULL, e) != 0)
        return -1;
    if (text.len >= sizeof c->model)
        return fy_fail(e, FY_EFORMAT, "model: %zu characters, expected 64", text.len);
    memcpy(c->model, text.ptr, text.len);
    c->model[text.len] = '\0';
    return 0;
}

static int check(const fy_canary *c, uint64_t version, fy_err *e)
{
    if (version != VERSION)
        return fy_fail(e, FY_EFORMAT, "version %llu of a canary, expected %d",
                       (unsigned long long)version, VERSION);
    if (c->n_positions == 0 || c->n_positions > c->n_ids)
        return fy_fail(e, FY_EFORMAT, "%zu positions of %zu tokens, expected 1 at least",
                       c->n_positions, c->n_ids);
    return isfinite(c->kl) && c->kl >= 0
               ? 0
               : fy_fail(e, FY_EFORMAT, "kl: %g, expected a number from 0 on", c->kl);
}

int fy_canary_parse(const void *p, size_t n, fy_canary *out, fy_err *e)
{
    uint64_t version = 0;
    fy_span key;
    fy_canary c = {.ids = calloc(FY_CANARY_IDS, sizeof *c.ids)};
    if (c.ids == NULL)
        return fy_nomem(e);
    fy_json *j = fy_json_new(p, n, e);
    int rc = j != NULL ? fy_json_object_begin(j, e) : -1;
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1)
        rc = read_member(j, &c, key, &version, e);
    if (rc == 0)
        rc = fy_json_end(j, e);
    if (rc == 0)
        rc = check(&c, version, e);
    fy_json_free(j);
    if (rc == 0)
        *out = c;
    else
        fy_canary_release(&c);
    return rc;
}

int fy_canary_read(const char *path, fy_canary *out, fy_err *e)
{
    fy_map m;
    if (fy_map_open(&m, path, e) != 0)
        return -1;
    const int rc = fy_canary_parse(m.data, m.size, out, e);
    fy_map_close(&m);
    return rc == 0 ? 0 : fy_ctx(e, "%s", path);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_ids(const int32_t *ids, size_t n, fy_str *s)
{
    fy_str_puts(s, "\"ids\": [");
    for (size_t i = 0; i < n; i++)
        fy_str_printf(s, "%s%d", i > 0 ? ", " : "", ids[i]);
    fy_str_puts(s, "]");
}

void fy_canary_put(const fy_canary *c, fy_str *s)
{
    fy_str_printf(s, "{\"version\": %d, \"model\": ", VERSION);
    fy_json_put_string(s, fy_span_of(c->model));
    fy_str_puts(s, ",\n ");
    put_ids(c->ids, c->n_ids, s);
    fy_str_printf(s, ",\n \"kl\": %.6g,\n \"top\": [", c->kl);
    for (size_t i = 0; i < c->n_positions; i++) {
        fy_str_puts(s, i > 0 ? ",\n  {" : "\n  {");
        put_ids(c->top[i], c->n_top, s);
        fy_str_puts(s, ", \"logits\": [");
        for (size_t k = 0; k < c->n_top; k++)
            fy_str_printf(s, "%s%.9g", k > 0 ? ", " : "", (double)c->logits[i][k]);
        fy_str_puts(s, "]}");
    }
    fy_str_puts(s, "]}\n");
}

/* --- comparing -------------------------------------------------------------------------------- */

void fy_canary_keep(fy_canary *c, size_t position, const float *logits, uint32_t n_vocab)
{
    int32_t *top = c->top[position];
    float *kept = c->logits[position];
    size_t n = 0;
    for (uint32_t id = 0; id < n_vocab; id++) {
        if (n == c->n_top && !(logits[id] > kept[n - 1]))
            continue;
        size_t at = n < c->n_top ? n++ : n - 1;
        for (; at > 0 && logits[id] > kept[at - 1]; at--) {
            kept[at] = kept[at - 1];
            top[at] = top[at - 1];
        }
        kept[at] = logits[id];
        top[at] = (int32_t)id;
    }
}

/* log(sum(exp(v))) */
static double log_sum(const float *v, size_t n)
{
    double most = (double)v[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        most = fmax(most, (double)v[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp((double)v[i] - most);
    return most + log(sum);
}

int fy_canary_kl(const fy_canary *c, size_t position, const float *logits, uint32_t n_vocab,
                 double *kl, fy_err *e)
{
    const float *p = c->logits[position];
    float q[FY_CANARY_TOP];
    *kl = INFINITY;
    for (size_t i = 0; i < c->n_top; i++) {
        const int32_t id = c->top[position][i];
        if (id < 0 || (uint32_t)id >= n_vocab)
            return fy_fail(e, FY_EFORMAT, "canary: token %d, expected one below %u", id, n_vocab);
        q[i] = logits[id];
        if (!isfinite(q[i]))
            return 0;
    }
    const double sum_p = log_sum(p, c->n_top), sum_q = log_sum(q, c->n_top);
    double sum = 0;
    for (size_t i = 0; i < c->n_top; i++) {
        const double log_p = (double)p[i] - sum_p;
        sum += exp(log_p) * (log_p - ((double)q[i] - sum_q));
    }
    *kl = fmax(sum, 0);
    return 0;
}

double fy_canary_bound(const fy_canary *c)
{
    return fmax(LARGER * c->kl, LEAST_BOUND);
}
