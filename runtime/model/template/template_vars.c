#include "model/template/template_eval.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"

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

/* --- for the evaluator ------------------------------------------------------------------------ */

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
