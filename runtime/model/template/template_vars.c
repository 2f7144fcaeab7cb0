/* The variables of a rendering, and values from JSON text. A text is copied once and its strings
 * are views of the copy. */
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
} reader;

static fy_tv read_value(reader *r);

static fy_tv read_string(reader *r)
{
    fy_span s;
    bool in_input;
    if (fy_json_string(r->j, &s, &in_input, r->m->e) != 0)
        return fy_tv_none();
    return in_input ? fy_tv_view(s) : fy_tv_copy(r->m, s);
}

static fy_tv read_list(reader *r)
{
    fy_tv list = fy_tv_list(r->m, FY_TV_LIST, 0);
    fy_json_array_begin(r->j, r->m->e);
    while (fy_tm_ok(r->m) && fy_json_array_next(r->j, r->m->e) == 1)
        fy_tlist_add(r->m, list.list, read_value(r));
    return list;
}

/* The reader refuses a key that an object has twice, so the dict never replaces one. */
static fy_tv read_dict(reader *r)
{
    fy_span name;
    fy_tv dict = fy_tv_dict(r->m, FY_TV_DICT, 0);
    fy_json_object_begin(r->j, r->m->e);
    while (fy_tm_ok(r->m) && fy_json_object_next(r->j, &name, r->m->e) == 1) {
        fy_tv key = fy_tv_copy(r->m, name);
        fy_tdict_set(r->m, dict.dict, key, read_value(r));
    }
    return dict;
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

static fy_tv read_number(reader *r)
{
    fy_span s = number_ahead(r);
    int64_t i;
    double f = 0;
    if (has_fraction(s)) {
        fy_json_double(r->j, &f, r->m->e);
        return fy_tv_float(f);
    }
    if (fy_json_skip(r->j, r->m->e) == 0 && fits_int64(s, &i))
        return fy_tv_int(i);
    return (fy_tv){.kind = FY_TV_BIGINT, .str = s};
}

/* Recurses as deep as the reader allows. */
static fy_tv read_value(reader *r)
{
    bool b = false;
    switch (fy_json_peek(r->j)) {
    case FY_JSON_OBJECT:
        return read_dict(r);
    case FY_JSON_ARRAY:
        return read_list(r);
    case FY_JSON_STRING:
        return read_string(r);
    case FY_JSON_NUMBER:
        return read_number(r);
    case FY_JSON_TRUE:
    case FY_JSON_FALSE:
        fy_json_bool(r->j, &b, r->m->e);
        return fy_tv_bool(b);
    case FY_JSON_NULL:
    case FY_JSON_BAD:
        fy_json_skip(r->j, r->m->e); /* says what is wrong */
    }
    return fy_tv_none();
}

fy_tv fy_tv_from_json(fy_tm *m, fy_span json)
{
    reader r = {.m = m, .text = fy_tv_copy(m, json).str};
    fy_tv v = fy_tv_none();
    if (!fy_tm_ok(m) || (r.j = fy_json_new(r.text.ptr, r.text.len, m->e)) == NULL)
        return v;
    v = read_value(&r);
    if (fy_tm_ok(m))
        fy_json_end(r.j, m->e);
    fy_json_free(r.j);
    return v;
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

/* A machine without limits: variables come from the caller, not from the template. */
static fy_tm heap_for(fy_err *own)
{
    return (fy_tm){.bytes_left = HEAP, .steps_left = UINT64_MAX, .e = own};
}

/* Takes over the heap of `m`, in which the value lies, or its error. */
static int put(fy_template_vars *v, const char *name, fy_tm *m, fy_tv value, fy_err *e)
{
    fy_span copy = fy_tv_copy(m, fy_span_of(name)).str;
    const variable now = {copy, value, m->arena, HEAP - m->bytes_left};
    variable *before = find(v, copy);
    if (fy_tm_ok(m) && before == NULL)
        fy_append(&v->vars, &v->n, &v->cap, &now, sizeof now, m->e);
    if (!fy_tm_ok(m)) {
        fy_arena_release(&m->arena);
        return fy_fail(e, m->e->code, "%s", m->e->msg);
    }
    if (before != NULL) {
        fy_arena_release(&before->heap);
        *before = now;
    }
    return 0;
}

int fy_template_set_json(fy_template_vars *v, const char *name, fy_span json, fy_err *e)
{
    fy_err own = {0};
    fy_tm m = heap_for(&own);
    fy_tv value = fy_tv_from_json(&m, json);
    fy_ctx(&own, "%s", name);
    return put(v, name, &m, value, e);
}

int fy_template_set_string(fy_template_vars *v, const char *name, fy_span text, fy_err *e)
{
    fy_err own = {0};
    fy_tm m = heap_for(&own);
    fy_tv value = fy_tv_copy(&m, text);
    return put(v, name, &m, value, e);
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
