/* The variables of a rendering, and values from JSON text. A text is copied once and its strings
 * are views of the copy; items of lists wait on a stack until their number is known. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/json.h"
#include "model/template/template_eval.h"

/* --- values from JSON --- */

typedef struct {
    fy_tm *m;
    fy_json *j;
    fy_span text; /* the copy */
    fy_tv *stack; /* owned */
    size_t n, cap;
} reader;

static int read_value(reader *r, fy_tv *out);

static int push(reader *r, fy_tv v)
{
    return fy_append(&r->stack, &r->n, &r->cap, &v, sizeof v, r->m->e);
}

static int read_string(reader *r, fy_tv *out)
{
    fy_span s;
    bool in_input;
    if (fy_json_string(r->j, &s, &in_input, r->m->e) != 0)
        return -1;
    *out = fy_tv_view(s);
    return in_input ? 0 : fy_tv_copy(r->m, s, out);
}

static int read_list(reader *r, fy_tv *out)
{
    size_t begin = r->n;
    fy_tv v;
    int rc = fy_json_array_begin(r->j, r->m->e);
    while (rc == 0 && (rc = fy_json_array_next(r->j, r->m->e)) == 1)
        rc = read_value(r, &v) != 0 || push(r, v) != 0 ? -1 : 0;
    if (rc != 0 || fy_tv_list(r->m, FY_TV_LIST, r->n - begin, out) != 0)
        return -1;
    if (r->n > begin)
        memcpy(out->list->item, r->stack + begin, (r->n - begin) * sizeof *r->stack);
    r->n = begin;
    return 0;
}

/* The reader refuses a key that an object has twice, so the dict never replaces one. */
static int read_dict(reader *r, fy_tv *out)
{
    size_t begin = r->n;
    fy_span key;
    fy_tv k, v;
    int rc = fy_json_object_begin(r->j, r->m->e);
    while (rc == 0 && (rc = fy_json_object_next(r->j, &key, r->m->e)) == 1)
        rc = fy_tv_copy(r->m, key, &k) != 0 || read_value(r, &v) != 0 || push(r, k) != 0 ||
                     push(r, v) != 0
                 ? -1
                 : 0;
    if (rc != 0 || fy_tv_dict(r->m, FY_TV_DICT, (r->n - begin) / 2, out) != 0)
        return -1;
    for (size_t i = begin; i < r->n; i += 2) {
        if (fy_tdict_set(r->m, out->dict, r->stack[i], r->stack[i + 1]) != 0)
            return -1;
    }
    r->n = begin;
    return 0;
}

/* The characters of the number that comes next, before it is checked. */
static fy_span number_ahead(reader *r)
{
    fy_span s = {r->text.ptr + fy_json_offset(r->j), 0};
    size_t rest = (size_t)(r->text.ptr + r->text.len - s.ptr);
    while (s.len < rest && memchr("0123456789+-.eE", s.ptr[s.len], 15) != NULL)
        s.len++;
    return s;
}

static bool has_fraction(fy_span number)
{
    for (size_t i = 0; i < number.len; i++) {
        if (memchr(".eE", number.ptr[i], 3) != NULL)
            return true;
    }
    return false;
}

/* The sum is kept below zero, where there is one number more. */
static bool fits_int64(fy_span digits, int64_t *out)
{
    int64_t v = 0;
    bool minus = digits.ptr[0] == '-';
    for (size_t i = minus; i < digits.len; i++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, digits.ptr[i] - '0', &v))
            return false;
    }
    *out = v;
    return minus || !__builtin_sub_overflow(0, v, out);
}

static int read_number(reader *r, fy_tv *out)
{
    fy_span s = number_ahead(r);
    int64_t i;
    double f;
    if (has_fraction(s)) {
        if (fy_json_double(r->j, &f, r->m->e) != 0)
            return -1;
        *out = fy_tv_float(f);
        return 0;
    }
    if (fy_json_skip(r->j, r->m->e) != 0)
        return -1;
    if (fits_int64(s, &i))
        *out = fy_tv_int(i);
    else
        *out = (fy_tv){.kind = FY_TV_BIGINT, .str = s};
    return 0;
}

static int read_bool(reader *r, fy_tv *out)
{
    bool b;
    if (fy_json_bool(r->j, &b, r->m->e) != 0)
        return -1;
    *out = fy_tv_bool(b);
    return 0;
}

/* Recurses as deep as the reader allows. */
static int read_value(reader *r, fy_tv *out)
{
    switch (fy_json_peek(r->j)) {
    case FY_JSON_OBJECT:
        return read_dict(r, out);
    case FY_JSON_ARRAY:
        return read_list(r, out);
    case FY_JSON_STRING:
        return read_string(r, out);
    case FY_JSON_NUMBER:
        return read_number(r, out);
    case FY_JSON_TRUE:
    case FY_JSON_FALSE:
        return read_bool(r, out);
    case FY_JSON_NULL:
        *out = fy_tv_none();
        return fy_json_null(r->j, r->m->e);
    case FY_JSON_BAD:
        break;
    }
    return fy_json_skip(r->j, r->m->e); /* says what is wrong */
}

int fy_tv_from_json(fy_tm *m, fy_span json, fy_tv *out)
{
    fy_tv copy, v;
    if (fy_tv_copy(m, json, &copy) != 0)
        return -1;
    reader r = {.m = m, .text = copy.str};
    r.j = fy_json_new(copy.str.ptr, copy.str.len, m->e);
    if (r.j == NULL)
        return -1;
    int rc = read_value(&r, &v) != 0 || fy_json_end(r.j, m->e) != 0 ? -1 : 0;
    if (rc == 0)
        *out = v;
    free(r.stack);
    fy_json_free(r.j);
    return rc;
}

/* --- variables --- */

#define HEAP (SIZE_MAX / 2) /* bytes that a variable may take: no limit */

/* A variable has a heap of its own, so that a new value gives back the memory of the old one. */
typedef struct {
    fy_span name; /* in the heap */
    fy_tv value;
    fy_arena heap;
    size_t bytes; /* of the heap that are in use */
} variable;

struct fy_template_vars {
    variable *vars; /* owned */
    size_t n, cap;
    bool has_clock, clock_utc;
    int64_t clock_s;
};

fy_template_vars *fy_template_vars_new(fy_err *e)
{
    fy_template_vars *v = calloc(1, sizeof *v);
    if (v == NULL)
        fy_nomem(e);
    return v;
}

void fy_template_vars_free(fy_template_vars *v)
{
    if (v == NULL)
        return;
    for (size_t i = 0; i < v->n; i++)
        fy_arena_release(&v->vars[i].heap);
    free(v->vars);
    free(v);
}

static variable *find(const fy_template_vars *v, fy_span name)
{
    for (size_t i = 0; i < v->n; i++) {
        if (fy_span_eq(v->vars[i].name, name))
            return &v->vars[i];
    }
    return NULL;
}

/* Takes over the heap of `m`, in which the value lies. */
static int put(fy_template_vars *v, const char *name, fy_tm *m, fy_tv value)
{
    fy_tv copy;
    if (fy_tv_copy(m, fy_span_of(name), &copy) != 0)
        return -1;
    variable *slot = find(v, copy.str);
    if (slot != NULL) {
        fy_arena_release(&slot->heap);
    } else {
        variable *bigger = fy_grow(v->vars, v->n, &v->cap, sizeof *v->vars);
        if (bigger == NULL)
            return fy_nomem(m->e);
        v->vars = bigger;
        slot = &v->vars[v->n++];
    }
    *slot = (variable){copy.str, value, m->arena, HEAP - m->bytes_left};
    return 0;
}

/* A machine without limits: variables come from the caller, not from the template. */
static fy_tm heap_for(fy_err *e)
{
    return (fy_tm){.bytes_left = HEAP, .steps_left = UINT64_MAX, .e = e};
}

static int finish(int rc, fy_tm *m, fy_err *e)
{
    if (rc == 0)
        return 0;
    fy_arena_release(&m->arena);
    return fy_fail(e, m->e->code, "%s", m->e->msg);
}

int fy_template_set_json(fy_template_vars *v, const char *name, fy_span json, fy_err *e)
{
    fy_err own = {0};
    fy_tm m = heap_for(&own);
    fy_tv value;
    int rc =
        fy_tv_from_json(&m, json, &value) != 0 ? fy_ctx(&own, "%s", name) : put(v, name, &m, value);
    return finish(rc, &m, e);
}

int fy_template_set_string(fy_template_vars *v, const char *name, fy_span text, fy_err *e)
{
    fy_err own = {0};
    fy_tm m = heap_for(&own);
    fy_tv value;
    int rc = fy_tv_copy(&m, text, &value) != 0 ? -1 : put(v, name, &m, value);
    return finish(rc, &m, e);
}

static int set_value(fy_template_vars *v, const char *name, fy_tv value, fy_err *e)
{
    fy_err own = {0};
    fy_tm m = heap_for(&own);
    return finish(put(v, name, &m, value), &m, e);
}

int fy_template_set_bool(fy_template_vars *v, const char *name, bool value, fy_err *e)
{
    return set_value(v, name, fy_tv_bool(value), e);
}

int fy_template_set_none(fy_template_vars *v, const char *name, fy_err *e)
{
    return set_value(v, name, fy_tv_none(), e);
}

void fy_template_set_clock(fy_template_vars *v, int64_t seconds, bool utc)
{
    v->has_clock = true;
    v->clock_s = seconds;
    v->clock_utc = utc;
}

/* --- for the evaluator --- */

bool fy_template_vars_get(const fy_template_vars *v, fy_span name, fy_tv *out)
{
    const variable *slot = find(v, name);
    if (slot == NULL)
        return false;
    *out = slot->value;
    return true;
}

size_t fy_template_vars_bytes(const fy_template_vars *v)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++)
        n += v->vars[i].bytes;
    return n;
}

void fy_template_vars_clock(const fy_template_vars *v, int64_t *seconds, bool *utc)
{
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    char *end;
    *seconds = v->has_clock ? v->clock_s : (int64_t)time(NULL);
    *utc = v->has_clock && v->clock_utc;
    if (v->has_clock || epoch == NULL || *epoch == '\0')
        return;
    long long s = strtoll(epoch, &end, 10);
    if (*end == '\0') {
        *seconds = s;
        *utc = true;
    }
}
