/* Ranges and importance: kept by name, read and written as JSON. */
#include "workspace/compile/ranges.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/names.h"

enum { VERSION = 1, MODEL_BYTES = 65, MOST_INPUTS = 1 << 22, MOST_NAMES = 1 << 22 };

typedef struct {
    const char *name; /* in the arena */
    double *mean;     /* owned, [n]: sums until they are written */
    uint64_t n;
} matrix;

struct fy_q_ranges {
    fy_arena arena;
    char model[MODEL_BYTES];
    uint64_t n_tokens, n_preset;
    fy_names names, matrix_names;
    fy_q_range *range; /* owned */
    const char **name; /* owned */
    matrix *matrices;  /* owned */
    size_t n, cap, n_name, cap_name, n_matrices, cap_matrices;
};

fy_q_ranges *fy_q_ranges_new(const char *model, fy_err *e)
{
    fy_q_ranges *r = calloc(1, sizeof *r);
    if (r == NULL)
        fy_nomem(e);
    else
        snprintf(r->model, sizeof r->model, "%s", model);
    return r;
}

void fy_q_ranges_free(fy_q_ranges *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n_matrices; i++)
        free(r->matrices[i].mean);
    free(r->matrices);
    free(r->range);
    free(r->name);
    fy_names_release(&r->names);
    fy_names_release(&r->matrix_names);
    fy_arena_release(&r->arena);
    free(r);
}

const char *fy_q_ranges_model(const fy_q_ranges *r)
{
    return r->model;
}

uint64_t *fy_q_ranges_preset(fy_q_ranges *r)
{
    return &r->n_preset;
}

uint64_t *fy_q_ranges_tokens(fy_q_ranges *r)
{
    return &r->n_tokens;
}

size_t fy_q_ranges_n(const fy_q_ranges *r)
{
    return r->n;
}

const char *fy_q_ranges_name(const fy_q_ranges *r, size_t i)
{
    return r->name[i];
}

const fy_q_range *fy_q_ranges_at(const fy_q_ranges *r, size_t i)
{
    return &r->range[i];
}

fy_q_range *fy_q_ranges_add(fy_q_ranges *r, const char *name, fy_err *e)
{
    static const fy_q_range empty = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    uint32_t at;
    if (fy_names_find(&r->names, fy_span_of(name), &at))
        return &r->range[at];
    const char *kept = fy_arena_strndup(&r->arena, name, strlen(name));
    if (kept == NULL) {
        fy_nomem(e);
        return NULL;
    }
    r->n_name = r->n; /* an earlier failure may have left one more */
    if (fy_append(&r->name, &r->n_name, &r->cap_name, &kept, sizeof kept, e) != 0 ||
        fy_append(&r->range, &r->n, &r->cap, &empty, sizeof empty, e) != 0)
        return NULL;
    if (fy_names_add(&r->names, fy_span_of(kept), (uint32_t)r->n - 1) != 0) {
        r->n--;
        fy_nomem(e);
        return NULL;
    }
    return &r->range[r->n - 1];
}

const fy_q_range *fy_q_ranges_find(const fy_q_ranges *r, const char *name)
{
    uint32_t at;
    return fy_names_find(&r->names, fy_span_of(name), &at) ? &r->range[at] : NULL;
}

double *fy_q_ranges_squares(fy_q_ranges *r, const char *name, uint64_t n, fy_err *e)
{
    uint32_t at;
    if (fy_names_find(&r->matrix_names, fy_span_of(name), &at)) {
        if (r->matrices[at].n == n)
            return r->matrices[at].mean;
        fy_fail(e, FY_EFORMAT, "'%s' has %llu inputs, expected %llu", name,
                (unsigned long long)r->matrices[at].n, (unsigned long long)n);
        return NULL;
    }
    const matrix m = {.name = fy_arena_strndup(&r->arena, name, strlen(name)),
                      .mean = calloc(n > 0 ? n : 1, sizeof *m.mean),
                      .n = n};
    if (m.name == NULL || m.mean == NULL ||
        fy_append(&r->matrices, &r->n_matrices, &r->cap_matrices, &m, sizeof m, e) != 0) {
        free(m.mean);
        fy_nomem(e);
        return NULL;
    }
    if (fy_names_add(&r->matrix_names, fy_span_of(m.name), (uint32_t)r->n_matrices - 1) == 0)
        return m.mean;
    fy_nomem(e);
    return NULL;
}

const double *fy_q_ranges_importance(const fy_q_ranges *r, const char *name, uint64_t n)
{
    uint32_t at;
    return fy_names_find(&r->matrix_names, fy_span_of(name), &at) && r->matrices[at].n == n
               ? r->matrices[at].mean
               : NULL;
}

void fy_q_ranges_mean(fy_q_ranges *r)
{
    for (size_t i = 0; i < r->n_matrices && r->n_tokens > 0; i++) {
        for (uint64_t k = 0; k < r->matrices[i].n; k++)
            r->matrices[i].mean[k] /= (double)r->n_tokens;
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

static int read_number(fy_json *j, const char *name, double *out, fy_err *e)
{
    const int rc = fy_json_array_next(j, e);
    if (rc == 0)
        return fy_fail(e, FY_EFORMAT, "'%s': too few numbers, expected four", name);
    return rc == 1 ? fy_json_double(j, out, e) : -1;
}

static int read_range(fy_json *j, fy_q_ranges *r, const char *name, fy_err *e)
{
    double v[4];
    fy_q_range *to = fy_q_ranges_add(r, name, e);
    if (to == NULL || fy_json_array_begin(j, e) != 0)
        return -1;
    for (int i = 0; i < 4; i++) {
        if (read_number(j, name, &v[i], e) != 0)
            return -1;
        /* as a float, because 1e30 is written as 1.00000002e+30 */
        if (!(fabs(v[i]) < 1e31) || fabsf((float)v[i]) > 1e30f)
            return fy_fail(e, FY_EFORMAT, "'%s': %g, expected a number up to 1e30", name, v[i]);
    }
    if (v[0] > v[1])
        return fy_fail(e, FY_EFORMAT, "'%s': from %g to %g, expected the smaller number first",
                       name, v[0], v[1]);
    *to = (fy_q_range){(float)v[0], (float)v[1], (float)v[2], (float)v[3]};
    const int more = fy_json_array_next(j, e);
    return more <= 0 ? more : fy_fail(e, FY_EFORMAT, "'%s': more than four numbers", name);
}

static int read_importance(fy_json *j, fy_q_ranges *r, const char *name, fy_err *e)
{
    double *list = NULL, v = 0;
    size_t n = 0, cap = 0;
    int rc = fy_json_array_begin(j, e);
    while (rc == 0 && (rc = fy_json_array_next(j, e)) == 1) {
        rc = fy_json_double(j, &v, e);
        if (rc == 0 && (!(v >= 0) || !(v <= 1e30) || n >= MOST_INPUTS))
            rc = fy_fail(e, FY_EFORMAT, "'%s': %g, expected at most %d numbers of 0 to 1e30", name,
                         v, MOST_INPUTS);
        if (rc == 0)
            rc = fy_append(&list, &n, &cap, &v, sizeof v, e);
    }
    double *to = rc == 0 ? fy_q_ranges_squares(r, name, n, e) : NULL;
    if (to != NULL && n > 0)
        memcpy(to, list, n * sizeof *to);
    free(list);
    return to != NULL ? 0 : -1;
}

typedef int read_entry(fy_json *j, fy_q_ranges *r, const char *name, fy_err *e);

static int read_entries(fy_json *j, fy_q_ranges *r, read_entry *each, fy_err *e)
{
    char name[128];
    fy_span key;
    int rc = fy_json_object_begin(j, e);
    for (size_t n = 0; rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1; n++) {
        if (key.len >= sizeof name || memchr(key.ptr, '\0', key.len) != NULL || n >= MOST_NAMES)
            return fy_fail(e, FY_EFORMAT, "a name of %zu bytes, expected less than %zu", key.len,
                           sizeof name);
        memcpy(name, key.ptr, key.len);
        name[key.len] = '\0';
        rc = each(j, r, name, e);
        if (rc == 0 && n % 256 == 0)
            rc = fy_check_interrupt(e);
    }
    return rc;
}

static int read_member(fy_json *j, fy_q_ranges *r, fy_span key, uint64_t *version, fy_err *e)
{
    fy_span text;
    if (fy_span_is(key, "version"))
        return fy_json_u64(j, version, e);
    if (fy_span_is(key, "tokens"))
        return fy_json_u64(j, &r->n_tokens, e);
    if (fy_span_is(key, "preset"))
        return fy_json_u64(j, &r->n_preset, e);
    if (fy_span_is(key, "ranges"))
        return read_entries(j, r, read_range, e);
    if (fy_span_is(key, "importance"))
        return read_entries(j, r, read_importance, e);
    if (!fy_span_is(key, "model"))
        return fy_json_skip(j, e);
    if (fy_json_string(j, &text, NULL, e) != 0)
        return -1;
    if (text.len >= MODEL_BYTES)
        return fy_fail(e, FY_EFORMAT, "model: %zu characters, expected 64", text.len);
    memcpy(r->model, text.ptr, text.len);
    r->model[text.len] = '\0';
    return 0;
}

int fy_q_ranges_parse(const void *p, size_t n, fy_q_ranges **out, fy_err *e)
{
    uint64_t version = 0;
    fy_span key;
    fy_q_ranges *r = fy_q_ranges_new("", e);
    fy_json *j = r != NULL ? fy_json_new(p, n, e) : NULL;
    int rc = j != NULL ? fy_json_object_begin(j, e) : -1;
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1)
        rc = read_member(j, r, key, &version, e);
    if (rc == 0)
        rc = fy_json_end(j, e);
    if (rc == 0 && version != VERSION)
        rc = fy_fail(e, FY_EFORMAT, "version %llu of ranges, expected %d",
                     (unsigned long long)version, VERSION);
    fy_json_free(j);
    if (rc != 0)
        fy_q_ranges_free(r);
    else
        *out = r;
    return rc;
}

fy_q_ranges *fy_q_ranges_read(const char *path, fy_err *e)
{
    fy_map m;
    fy_q_ranges *r = NULL;
    if (fy_map_open(&m, path, e) != 0)
        return NULL;
    if (fy_q_ranges_parse(m.data, m.size, &r, e) != 0)
        fy_ctx(e, "%s", path);
    fy_map_close(&m);
    return r;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_key(fy_str *s, const char *name, bool first)
{
    fy_str_puts(s, first ? "\n  " : ",\n  ");
    fy_json_put_string(s, fy_span_of(name));
    fy_str_puts(s, ": [");
}

static double finite_or_0(float x)
{
    return isfinite(x) ? (double)x : 0;
}

void fy_q_ranges_put(const fy_q_ranges *r, fy_str *s)
{
    fy_str_printf(s, "{\"version\": %d, \"model\": ", VERSION);
    fy_json_put_string(s, fy_span_of(r->model));
    fy_str_printf(s, ", \"tokens\": %llu, \"preset\": %llu,\n \"ranges\": {",
                  (unsigned long long)r->n_tokens, (unsigned long long)r->n_preset);
    for (size_t i = 0; i < r->n; i++) {
        const fy_q_range *one = &r->range[i];
        put_key(s, r->name[i], i == 0);
        fy_str_printf(s, "%.9g, %.9g, %.9g, %.9g]", finite_or_0(one->min), finite_or_0(one->max),
                      finite_or_0(one->rest_min), finite_or_0(one->rest_max));
    }
    fy_str_puts(s, "},\n \"importance\": {");
    for (size_t i = 0; i < r->n_matrices; i++) {
        put_key(s, r->matrices[i].name, i == 0);
        for (uint64_t k = 0; k < r->matrices[i].n; k++)
            fy_str_printf(s, "%s%.6g", k > 0 ? ", " : "", r->matrices[i].mean[k]);
        fy_str_puts(s, "]");
    }
    fy_str_puts(s, "}}\n");
}

int fy_q_ranges_write(const fy_q_ranges *r, const char *path, fy_err *e)
{
    fy_str s = {0};
    fy_q_ranges_put(r, &s);
    const int rc = s.oom ? fy_nomem(e) : fy_file_write(path, s.ptr, s.len, e);
    fy_str_release(&s);
    return rc;
}
