/* Values and the machine that renders: its budget and heap, strings that grow, making values,
 * dicts, types, truth and length, iteration, calls, and the errors of undefined values. */
#include "model/template/template_value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/str.h"

/* --- the machine --- */

bool fy_tm_take(fy_tm *m, size_t bytes)
{
    if (bytes > m->bytes_left)
        fy_fail(m->e, FY_EFIT,
                "line %u: the template needs too much memory (its values or its text)", m->line);
    if (!fy_tm_ok(m))
        return false;
    m->bytes_left -= bytes;
    return true;
}

void *fy_tm_alloc(fy_tm *m, size_t bytes)
{
    size_t taken = bytes > SIZE_MAX - 15 ? bytes : (bytes + 15) & ~(size_t)15;
    void *p = fy_tm_take(m, taken) ? fy_arena_alloc(&m->arena, bytes) : NULL;
    if (p == NULL)
        fy_nomem(m->e);
    return p;
}

bool fy_tm_charge(fy_tm *m, uint64_t bytes)
{
    uint64_t steps = bytes / 16 + (bytes % 16 != 0);
    if (!fy_tm_ok(m))
        return false;
    if (steps >= m->steps_left) {
        m->steps_left = 0;
        fy_fail(m->e, FY_EFIT,
                "line %u: the template runs too long (it loops or copies without end)", m->line);
        return false;
    }
    m->steps_left -= steps;
    return true;
}

fy_tv fy_tm_fail(fy_tm *m, const char *fmt, ...)
{
    char text[sizeof m->e->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fy_fail(m->e, FY_EFORMAT, "line %u: %s", m->line, text);
    return fy_tv_undefined(FY_SPAN(""));
}

/* The old array stays on the heap: all of them together are as large as the last. */
void *fy_tm_grow(fy_tm *m, void *items, size_t n, size_t *cap, size_t more, size_t item_bytes)
{
    size_t room = *cap == 0 ? 64 / item_bytes : *cap * 2, need, bytes;
    if (more <= *cap - n)
        return items;
    if (__builtin_add_overflow(n, more, &need))
        need = SIZE_MAX; /* refused by the budget */
    if (room < need)
        room = need;
    if (__builtin_mul_overflow(room, item_bytes, &bytes))
        bytes = SIZE_MAX;
    void *bigger = fy_tm_alloc(m, bytes);
    if (bigger == NULL)
        return NULL;
    if (n > 0)
        memcpy(bigger, items, n * item_bytes);
    *cap = room;
    return bigger;
}

void fy_tbuf_add(fy_tbuf *b, const char *p, size_t n)
{
    char *ptr = fy_tm_charge(b->m, n) ? fy_tm_grow(b->m, b->ptr, b->len, &b->cap, n, 1) : NULL;
    if (ptr == NULL || n == 0)
        return;
    memcpy(ptr + b->len, p, n);
    b->ptr = ptr;
    b->len += n;
}

void fy_tbuf_span(fy_tbuf *b, fy_span s)
{
    fy_tbuf_add(b, s.ptr, s.len);
}

void fy_tbuf_z(fy_tbuf *b, const char *z)
{
    fy_tbuf_add(b, z, strlen(z));
}

void fy_tbuf_printf(fy_tbuf *b, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fy_tbuf_z(b, text);
}

fy_tv fy_tbuf_value(const fy_tbuf *b, bool markup)
{
    fy_tv v = fy_tv_view((fy_span){b->ptr, b->len});
    v.markup = markup;
    return v;
}

/* --- making values --- */

fy_tv fy_tv_view(fy_span s)
{
    return (fy_tv){.kind = FY_TV_STR, .str = {s.ptr != NULL ? s.ptr : "", s.len}};
}

fy_tv fy_tv_part(const fy_tv *v, fy_span s)
{
    return (fy_tv){.kind = FY_TV_STR, .markup = v->markup, .str = s};
}

fy_tv fy_tv_hint(fy_span text)
{
    return (fy_tv){.kind = FY_TV_UNDEFINED, .view = 'h', .str = text};
}

fy_tv fy_tv_copy(fy_tm *m, fy_span s)
{
    char *p = fy_tm_charge(m, s.len) ? fy_tm_alloc(m, s.len) : NULL;
    if (p != NULL && s.len > 0)
        memcpy(p, s.ptr, s.len);
    return fy_tv_view((fy_span){p, p != NULL ? s.len : 0});
}

fy_tv fy_tv_list(fy_tm *m, fy_tv_kind kind, size_t room)
{
    static fy_tlist nothing;
    size_t bytes;
    if (__builtin_mul_overflow(room, sizeof(fy_tv), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(fy_tlist), &bytes))
        bytes = SIZE_MAX; /* refused by the budget */
    fy_tlist *l = fy_tm_charge(m, bytes) ? fy_tm_alloc(m, bytes) : NULL;
    if (l != NULL)
        *l = (fy_tlist){.item = (fy_tv *)(l + 1), .cap = room};
    return (fy_tv){.kind = (uint8_t)kind, .list = l != NULL ? l : &nothing};
}

void fy_tlist_add(fy_tm *m, fy_tlist *l, fy_tv v)
{
    fy_tv *item = fy_tm_grow(m, l->item, l->n, &l->cap, 1, sizeof v);
    if (item == NULL || !fy_tm_ok(m))
        return;
    l->item = item;
    l->item[l->n++] = v;
}

fy_tv fy_tv_pair(fy_tm *m, fy_tv a, fy_tv b)
{
    fy_tv pair = fy_tv_list(m, FY_TV_TUPLE, 2);
    fy_tlist_add(m, pair.list, a);
    fy_tlist_add(m, pair.list, b);
    return pair;
}

/* --- dicts --- */

/* A table is hashed with the secret of the process. */
enum { LINEAR = 8 }; /* items that are searched without a table */

#define NO_ITEM SIZE_MAX

/* Numbers that are equal are one key, whatever their type: the int if there is one. */
static fy_tv number_key(const fy_tv *v)
{
    if (v->kind == FY_TV_BOOL)
        return fy_tv_int(v->b);
    if (v->kind == FY_TV_FLOAT && v->f >= -0x1p63 && v->f < 0x1p63 && v->f == trunc(v->f))
        return fy_tv_int((int64_t)v->f);
    return *v;
}

static uint32_t hash_of(const fy_tv *key)
{
    fy_tv v = number_key(key);
    if (v.kind == FY_TV_STR || v.kind == FY_TV_BIGINT)
        return fy_names_hash(v.str);
    if (v.kind == FY_TV_NONE || v.kind == FY_TV_UNDEFINED)
        return 0;
    return fy_names_hash((fy_span){(const char *)&v.i, sizeof v.i}); /* or the bits of v.f */
}

static bool same_key(const fy_tv *x, const fy_tv *y)
{
    fy_tv a = number_key(x), b = number_key(y);
    if (a.kind != b.kind || a.kind == FY_TV_NONE || a.kind == FY_TV_UNDEFINED)
        return a.kind == b.kind;
    if (a.kind == FY_TV_STR || a.kind == FY_TV_BIGINT)
        return fy_span_eq(a.str, b.str);
    return a.i == b.i; /* of floats the bits, so that NaN is found again */
}

/* The place of the key, or the free one where it belongs. `key` NULL: a free one. */
static fy_tplace *place_of(const fy_tdict *d, const fy_tv *key, uint32_t hash)
{
    size_t mask = d->table_cap - 1, i = hash & mask;
    for (;; i = (i + 1) & mask) {
        fy_tplace *p = &d->table[i];
        if (p->at == 0 ||
            (key != NULL && p->hash == hash && same_key(&d->items[p->at - 1].key, key)))
            return p;
    }
}

static void enter(fy_tdict *d, size_t i)
{
    uint32_t hash = hash_of(&d->items[i].key);
    *place_of(d, NULL, hash) = (fy_tplace){hash, (uint32_t)i + 1};
}

static void grow_table(fy_tm *m, fy_tdict *d)
{
    size_t cap = d->table_cap == 0 ? 32 : d->table_cap * 2, bytes = cap * sizeof *d->table;
    fy_tplace *table = fy_tm_charge(m, bytes) ? fy_tm_alloc(m, bytes) : NULL;
    if (table == NULL)
        return;
    memset(table, 0, bytes);
    d->table = table;
    d->table_cap = cap;
    for (size_t i = 0; i < d->n; i++)
        enter(d, i);
}

/* Checks the key of a search, charges its work and searches. */
static size_t find(fy_tm *m, const fy_tdict *d, const fy_tv *key)
{
    size_t searched = d->table_cap > 0 ? 1 : d->n / 4 + 1, i = 0;
    if (!fy_tm_charge(m, 16 * searched + (key->kind == FY_TV_STR ? key->str.len : 0)))
        return NO_ITEM;
    if (key->kind == FY_TV_TUPLE)
        fy_tm_fail(m, "a tuple as a key of a dict is not supported");
    else if (key->kind > FY_TV_STR) /* undefined is a key: looking it up finds nothing */
        fy_tm_fail(m, "unhashable type: '%s'", fy_tv_type_name(key));
    if (!fy_tm_ok(m))
        return NO_ITEM;
    if (d->table_cap > 0) {
        const fy_tplace *p = place_of(d, key, hash_of(key));
        return p->at == 0 ? NO_ITEM : p->at - 1;
    }
    while (i < d->n && !same_key(&d->items[i].key, key))
        i++;
    return i < d->n ? i : NO_ITEM;
}

static bool reserve(fy_tm *m, fy_tdict *d, size_t more)
{
    fy_tpair *items = fy_tm_grow(m, d->items, d->n, &d->cap, more, sizeof *items);
    if (items == NULL || !fy_tm_charge(m, more * sizeof *items))
        return false;
    d->items = items;
    return true;
}

fy_tv fy_tv_dict(fy_tm *m, fy_tv_kind kind, size_t room)
{
    static fy_tdict nothing;
    fy_tdict *d = fy_tm_alloc(m, sizeof *d);
    if (d != NULL)
        *d = (fy_tdict){0};
    if (d != NULL && room > 0)
        reserve(m, d, room);
    return (fy_tv){.kind = (uint8_t)kind, .dict = d != NULL ? d : &nothing};
}

const fy_tv *fy_tdict_get(fy_tm *m, const fy_tdict *d, const fy_tv *key)
{
    size_t i = find(m, d, key);
    return i == NO_ITEM ? NULL : &d->items[i].value;
}

void fy_tdict_set(fy_tm *m, fy_tdict *d, fy_tv key, fy_tv value)
{
    size_t i = find(m, d, &key);
    if (!fy_tm_ok(m) || (i == NO_ITEM && !reserve(m, d, 1)))
        return;
    if (i != NO_ITEM) {
        d->items[i].value = value;
        return;
    }
    d->items[d->n++] = (fy_tpair){key, value};
    if (d->n > LINEAR && d->n * 2 > d->table_cap)
        grow_table(m, d);
    else if (d->n > LINEAR)
        enter(d, d->n - 1);
}

/* --- properties of values --- */

const char *fy_tv_type_name(const fy_tv *v)
{
    static const char *const names[] = {
        [FY_TV_UNDEFINED] = "Undefined",
        [FY_TV_NONE] = "NoneType",
        [FY_TV_BOOL] = "bool",
        [FY_TV_INT] = "int",
        [FY_TV_BIGINT] = "int",
        [FY_TV_FLOAT] = "float",
        [FY_TV_STR] = "str",
        [FY_TV_LIST] = "list",
        [FY_TV_TUPLE] = "tuple",
        [FY_TV_ITER] = "generator",
        [FY_TV_DICT] = "dict",
        [FY_TV_RANGE] = "range",
        [FY_TV_NAMESPACE] = "Namespace",
    };
    if (v->kind == FY_TV_CALLABLE || v->kind == FY_TV_OBJECT)
        return v->call->type;
    if (v->kind == FY_TV_VIEW)
        return v->view == 'k' ? "dict_keys" : v->view == 'v' ? "dict_values" : "dict_items";
    return v->kind == FY_TV_STR && v->markup ? "Markup" : names[v->kind];
}

/* How many items or bytes a container has. False: not a container. */
static bool size_of(const fy_tv *v, size_t *n)
{
    switch ((int)v->kind) {
    case FY_TV_UNDEFINED:
        *n = 0;
        return true;
    case FY_TV_STR:
        *n = v->str.len;
        return true;
    case FY_TV_LIST:
    case FY_TV_TUPLE:
    case FY_TV_VIEW:
        *n = v->list->n;
        return true;
    case FY_TV_DICT:
        *n = v->dict->n;
        return true;
    case FY_TV_RANGE:
        *n = v->range->n;
        return true;
    default:
        return false;
    }
}

bool fy_tv_truth(const fy_tv *v)
{
    size_t n;
    if (size_of(v, &n))
        return n > 0;
    if (v->kind == FY_TV_FLOAT)
        return v->f != 0;
    return fy_tv_is_int(v) ? fy_tv_as_int(v) != 0 : v->kind != FY_TV_NONE;
}

bool fy_tv_as_float(const fy_tv *v, double *out)
{
    if (v->kind != FY_TV_FLOAT && !fy_tv_is_int(v))
        return false;
    *out = v->kind == FY_TV_FLOAT ? v->f : (double)fy_tv_as_int(v);
    return true;
}

size_t fy_tv_length(fy_tm *m, const fy_tv *v)
{
    size_t n = 0;
    if (v->kind == FY_TV_STR) /* character by character */
        return fy_tm_charge(m, 2 * (uint64_t)v->str.len) ? fy_tu_length(v->str) : 0;
    if (!size_of(v, &n))
        fy_tm_fail(m, "object of type '%s' has no len()", fy_tv_type_name(v));
    return n;
}

/* --- iteration --- */

bool fy_tv_is_iterable(const fy_tv *v)
{
    return v->kind == FY_TV_UNDEFINED || (v->kind >= FY_TV_STR && v->kind <= FY_TV_RANGE);
}

fy_titer fy_titer_begin(fy_tm *m, const fy_tv *v)
{
    if (!fy_tv_is_iterable(v))
        fy_tm_fail(m, "'%s' object is not iterable", fy_tv_type_name(v));
    return (fy_titer){.of = fy_tm_ok(m) ? *v : fy_tv_none()};
}

bool fy_titer_next(fy_titer *it, fy_tv *out)
{
    fy_tlist *l = it->of.list;
    fy_span s = it->of.str;
    switch ((int)it->of.kind) {
    case FY_TV_STR:
        if (it->at == s.len)
            return false;
        const char *p = s.ptr + it->at, *after = p;
        fy_tu_next(&after, s.ptr + s.len);
        *out = fy_tv_view((fy_span){p, (size_t)(after - p)});
        it->at += out->str.len;
        return true;
    case FY_TV_LIST:
    case FY_TV_TUPLE:
    case FY_TV_VIEW:
        if (it->at == l->n)
            return false;
        *out = l->item[it->at++];
        return true;
    case FY_TV_ITER: /* a generator is used up by whoever iterates it */
        if (l->n == 0)
            return false;
        *out = *l->item++;
        l->n--;
        return true;
    case FY_TV_DICT:
        if (it->at == it->of.dict->n)
            return false;
        *out = it->of.dict->items[it->at++].key;
        return true;
    case FY_TV_RANGE:
        if (it->at == it->of.range->n)
            return false;
        *out = fy_trange_at(it->of.range, it->at++);
        return true;
    default:
        return false;
    }
}

/* In unsigned arithmetic: the item of a range fits, a product on the way may not. */
fy_tv fy_trange_at(const fy_trange *r, size_t i)
{
    return fy_tv_int((int64_t)((uint64_t)r->start + (uint64_t)i * (uint64_t)r->step));
}

fy_tlist fy_tv_items(fy_tm *m, const fy_tv *v)
{
    fy_titer it = fy_titer_begin(m, v);
    fy_tv item;
    if (!fy_tm_ok(m))
        return (fy_tlist){0};
    if (fy_tv_is_list(v) || v->kind == FY_TV_VIEW || v->kind == FY_TV_ITER) {
        fy_tlist items = *v->list;
        if (v->kind == FY_TV_ITER)
            v->list->n = 0;
        return fy_tm_charge(m, items.n) ? items : (fy_tlist){0};
    }
    fy_tv list = fy_tv_list(m, FY_TV_LIST, fy_tv_length(m, v));
    while (fy_tm_ok(m) && fy_titer_next(&it, &item))
        fy_tlist_add(m, list.list, item);
    return *list.list;
}

/* --- calls and undefined values --- */

fy_tv fy_tv_call(fy_tm *m, const fy_tv *f, const fy_targs *a)
{
    if (f->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, f);
    if ((f->kind != FY_TV_CALLABLE && f->kind != FY_TV_OBJECT) || f->call->call == NULL)
        return fy_tm_fail(m, "'%s' object is not callable", fy_tv_type_name(f));
    return fy_tm_ok(m) ? f->call->call(m, f->call, a) : fy_tv_none();
}

fy_tv fy_tv_undefined_fail(fy_tm *m, const fy_tv *v)
{
    char owner[80] = "None", text[400];
    fy_tv of = {.kind = v->of};
    if (v->of == FY_TV_CALLABLE || v->of == FY_TV_OBJECT)
        snprintf(owner, sizeof owner, "callable object");
    else if (v->of != FY_TV_NONE)
        snprintf(owner, sizeof owner, "%s object", fy_tv_type_name(&of));
    fy_quote(text, sizeof text, v->str);
    switch (v->view) {
    case 'a':
        return fy_tm_fail(m, "'%s' has no attribute '%s'", owner, text);
    case 'e':
        return fy_tm_fail(m, "%s has no element %s", owner, text);
    case 'p':
        return fy_tm_fail(m, "parameter '%s' was not provided", text);
    case 'h':
        return fy_tm_fail(m, "%s", text);
    default:
        return fy_tm_fail(m, "'%s' is undefined", text);
    }
}
