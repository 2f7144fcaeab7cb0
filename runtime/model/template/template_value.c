/* Values and the machine that renders: its budget and heap, strings that grow, making values,
 * dicts, types, truth and length, iteration, calls, and the errors of undefined values. */
#include "model/template/template_builtin.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/str.h"

/* --- the machine --- */

static int budget_spent(fy_tm *m, const char *what)
{
    return fy_fail(m->e, FY_EFIT, "line %u: %s", m->line, what);
}

int fy_tm_take(fy_tm *m, size_t bytes)
{
    if (bytes > m->bytes_left)
        return budget_spent(m, "the template needs too much memory (its values or its text)");
    m->bytes_left -= bytes;
    return 0;
}

void *fy_tm_alloc(fy_tm *m, size_t bytes)
{
    size_t taken = bytes > SIZE_MAX - 15 ? bytes : (bytes + 15) & ~(size_t)15;
    if (fy_tm_take(m, taken) != 0)
        return NULL;
    void *p = fy_arena_alloc(&m->arena, bytes);
    if (p == NULL)
        fy_nomem(m->e);
    return p;
}

int fy_tm_charge(fy_tm *m, uint64_t bytes)
{
    uint64_t steps = bytes / 16 + (bytes % 16 != 0);
    if (steps >= m->steps_left) {
        m->steps_left = 0;
        return budget_spent(m, "the template runs too long (it loops or copies without end)");
    }
    m->steps_left -= steps;
    return 0;
}

int fy_tm_fail(fy_tm *m, const char *fmt, ...)
{
    char text[sizeof m->e->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fy_fail(m->e, FY_EFORMAT, "line %u: %s", m->line, text);
}

/* Growing leaves the old text on the heap: all of them together are as long as the last. */
int fy_tbuf_add(fy_tm *m, fy_tbuf *b, const char *p, size_t n)
{
    if (fy_tm_charge(m, n) != 0)
        return -1;
    if (n > b->cap - b->len) {
        size_t cap = b->cap < 32 ? 64 : b->cap * 2, need;
        if (__builtin_add_overflow(b->len, n, &need))
            need = SIZE_MAX; /* refused by the budget */
        if (cap < need)
            cap = need;
        char *bigger = fy_tm_alloc(m, cap);
        if (bigger == NULL)
            return -1;
        if (b->len > 0)
            memcpy(bigger, b->ptr, b->len);
        b->ptr = bigger;
        b->cap = cap;
    }
    if (n > 0)
        memcpy(b->ptr + b->len, p, n);
    b->len += n;
    return 0;
}

int fy_tbuf_span(fy_tm *m, fy_tbuf *b, fy_span s)
{
    return fy_tbuf_add(m, b, s.ptr, s.len);
}

/* --- making values --- */

fy_tv fy_tv_undefined(fy_span name)
{
    return (fy_tv){.kind = FY_TV_UNDEFINED, .str = name};
}

fy_tv fy_tv_none(void)
{
    return (fy_tv){.kind = FY_TV_NONE};
}

fy_tv fy_tv_bool(bool b)
{
    return (fy_tv){.kind = FY_TV_BOOL, .b = b};
}

fy_tv fy_tv_int(int64_t i)
{
    return (fy_tv){.kind = FY_TV_INT, .i = i};
}

fy_tv fy_tv_float(double f)
{
    return (fy_tv){.kind = FY_TV_FLOAT, .f = f};
}

fy_tv fy_tv_view(fy_span s)
{
    return (fy_tv){.kind = FY_TV_STR, .str = {s.ptr != NULL ? s.ptr : "", s.len}};
}

int fy_tv_copy(fy_tm *m, fy_span s, fy_tv *out)
{
    char *p = fy_tm_charge(m, s.len) == 0 ? fy_tm_alloc(m, s.len) : NULL;
    if (p == NULL)
        return -1;
    if (s.len > 0)
        memcpy(p, s.ptr, s.len);
    *out = fy_tv_view((fy_span){p, s.len});
    return 0;
}

int fy_tv_list(fy_tm *m, fy_tv_kind kind, size_t n, fy_tv *out)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, sizeof(fy_tv), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(fy_tlist), &bytes))
        bytes = SIZE_MAX; /* refused by the budget */
    fy_tlist *l = fy_tm_charge(m, bytes) == 0 ? fy_tm_alloc(m, bytes) : NULL;
    if (l == NULL)
        return -1;
    *l = (fy_tlist){(fy_tv *)(l + 1), n};
    for (size_t i = 0; i < n; i++)
        l->item[i] = fy_tv_none();
    *out = (fy_tv){.kind = (uint8_t)kind, .list = l};
    return 0;
}

/* --- dicts --- */

/* The items lie in the order of insertion. Small dicts are searched from the front; larger ones
 * have a table of places, hashed with the secret of the process. Keys are strings, numbers,
 * booleans and none. */
enum { LINEAR = 8 }; /* items that are searched without a table */

#define NO_ITEM SIZE_MAX

typedef struct {
    fy_tv key, value;
} item;

typedef struct {
    uint32_t hash;
    uint32_t at; /* index of the item + 1; 0: free */
} place;

struct fy_tdict {
    item *items;
    size_t n, cap;
    place *table;
    size_t table_cap; /* a power of two, or 0 */
};

/* Numbers that are equal are one key, whatever their type: the int if there is one. */
static fy_tv number_key(const fy_tv *v)
{
    if (v->kind == FY_TV_BOOL)
        return fy_tv_int(v->b);
    if (v->kind == FY_TV_FLOAT && v->f >= -0x1p63 && v->f < 0x1p63 && v->f == trunc(v->f))
        return fy_tv_int((int64_t)v->f);
    return *v;
}

static bool is_key(const fy_tv *v)
{
    return v->kind <= FY_TV_STR; /* undefined, too: looking it up finds nothing */
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
static place *place_of(const fy_tdict *d, const fy_tv *key, uint32_t hash)
{
    size_t mask = d->table_cap - 1, i = hash & mask;
    for (;; i = (i + 1) & mask) {
        place *p = &d->table[i];
        if (p->at == 0 ||
            (key != NULL && p->hash == hash && same_key(&d->items[p->at - 1].key, key)))
            return p;
    }
}

static int grow_table(fy_tm *m, fy_tdict *d)
{
    d->table_cap = d->table_cap == 0 ? 32 : d->table_cap * 2;
    d->table = fy_tm_alloc(m, d->table_cap * sizeof *d->table);
    if (d->table == NULL || fy_tm_charge(m, d->table_cap * sizeof *d->table) != 0)
        return -1;
    memset(d->table, 0, d->table_cap * sizeof *d->table);
    for (size_t i = 0; i < d->n; i++) {
        uint32_t hash = hash_of(&d->items[i].key);
        *place_of(d, NULL, hash) = (place){hash, (uint32_t)i + 1};
    }
    return 0;
}

static size_t find(const fy_tdict *d, const fy_tv *key)
{
    if (d->table_cap > 0) {
        const place *p = place_of(d, key, hash_of(key));
        return p->at == 0 ? NO_ITEM : p->at - 1;
    }
    size_t i = 0;
    while (i < d->n && !same_key(&d->items[i].key, key))
        i++;
    return i < d->n ? i : NO_ITEM;
}

static int reserve(fy_tm *m, fy_tdict *d, size_t cap)
{
    size_t bytes;
    if (cap >= UINT32_MAX / 4 || __builtin_mul_overflow(cap, sizeof *d->items, &bytes))
        bytes = SIZE_MAX; /* refused by the budget */
    item *items = fy_tm_charge(m, bytes) == 0 ? fy_tm_alloc(m, bytes) : NULL;
    if (items == NULL)
        return -1;
    if (d->n > 0)
        memcpy(items, d->items, d->n * sizeof *items);
    d->items = items;
    d->cap = cap;
    return 0;
}

int fy_tv_dict(fy_tm *m, fy_tv_kind kind, size_t room, fy_tv *out)
{
    fy_tdict *d = fy_tm_alloc(m, sizeof *d);
    if (d == NULL)
        return -1;
    *d = (fy_tdict){0};
    if (room > 0 && reserve(m, d, room) != 0)
        return -1;
    *out = (fy_tv){.kind = (uint8_t)kind, .dict = d};
    return 0;
}

size_t fy_tdict_n(const fy_tdict *d)
{
    return d->n;
}

const fy_tv *fy_tdict_key(const fy_tdict *d, size_t i)
{
    return &d->items[i].key;
}

const fy_tv *fy_tdict_at(const fy_tdict *d, size_t i)
{
    return &d->items[i].value;
}

const fy_tv *fy_tdict_find(const fy_tdict *d, fy_span key)
{
    fy_tv v = fy_tv_view(key);
    size_t i = find(d, &v);
    return i == NO_ITEM ? NULL : &d->items[i].value;
}

/* Checks the key of a search and charges its work. */
static int check_key(fy_tm *m, const fy_tdict *d, const fy_tv *key)
{
    size_t searched = d->table_cap > 0 ? 1 : d->n / 4 + 1;
    if (fy_tm_charge(m, 16 * searched + (key->kind == FY_TV_STR ? key->str.len : 0)) != 0)
        return -1;
    if (key->kind == FY_TV_TUPLE)
        return fy_tm_fail(m, "a tuple as a key of a dict is not supported");
    return is_key(key) ? 0 : fy_tm_fail(m, "unhashable type: '%s'", fy_tv_type_name(key));
}

int fy_tdict_lookup(fy_tm *m, const fy_tdict *d, const fy_tv *key, fy_tv *out)
{
    if (check_key(m, d, key) != 0)
        return -1;
    size_t i = find(d, key);
    if (i == NO_ITEM)
        return 0;
    *out = d->items[i].value;
    return 1;
}

int fy_tdict_set(fy_tm *m, fy_tdict *d, fy_tv key, fy_tv value)
{
    if (check_key(m, d, &key) != 0)
        return -1;
    size_t i = find(d, &key);
    if (i != NO_ITEM) {
        d->items[i].value = value;
        return 0;
    }
    if (d->n == d->cap && reserve(m, d, d->cap == 0 ? 4 : d->cap * 2) != 0)
        return -1;
    d->items[d->n++] = (item){key, value};
    if (d->n <= LINEAR)
        return 0;
    if (d->n * 2 > d->table_cap)
        return grow_table(m, d);
    uint32_t hash = hash_of(&key);
    *place_of(d, NULL, hash) = (place){hash, (uint32_t)d->n};
    return 0;
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

bool fy_tv_truth(const fy_tv *v)
{
    switch ((int)v->kind) {
    case FY_TV_UNDEFINED:
    case FY_TV_NONE:
        return false;
    case FY_TV_BOOL:
        return v->b;
    case FY_TV_INT:
        return v->i != 0;
    case FY_TV_FLOAT:
        return v->f != 0;
    case FY_TV_STR:
        return v->str.len > 0;
    case FY_TV_LIST:
    case FY_TV_TUPLE:
    case FY_TV_VIEW:
        return v->list->n > 0;
    case FY_TV_DICT:
        return fy_tdict_n(v->dict) > 0;
    case FY_TV_RANGE:
        return v->range->n > 0;
    default:
        return true;
    }
}

int fy_tv_length(fy_tm *m, const fy_tv *v, size_t *out)
{
    switch ((int)v->kind) {
    case FY_TV_UNDEFINED:
        *out = 0;
        return 0;
    case FY_TV_STR:
        *out = fy_tu_length(v->str);
        return fy_tm_charge(m, 2 * (uint64_t)v->str.len); /* character by character */
    case FY_TV_LIST:
    case FY_TV_TUPLE:
    case FY_TV_VIEW:
        *out = v->list->n;
        return 0;
    case FY_TV_DICT:
        *out = fy_tdict_n(v->dict);
        return 0;
    case FY_TV_RANGE:
        *out = v->range->n;
        return 0;
    default:
        return fy_tm_fail(m, "object of type '%s' has no len()", fy_tv_type_name(v));
    }
}

/* --- iteration --- */

bool fy_tv_is_iterable(const fy_tv *v)
{
    return v->kind == FY_TV_UNDEFINED || (v->kind >= FY_TV_STR && v->kind <= FY_TV_RANGE);
}

int fy_titer_begin(fy_tm *m, fy_titer *it, const fy_tv *v)
{
    *it = (fy_titer){.of = *v};
    if (!fy_tv_is_iterable(v))
        return fy_tm_fail(m, "'%s' object is not iterable", fy_tv_type_name(v));
    return 0;
}

static bool next_of_str(fy_titer *it, fy_tv *out)
{
    fy_span s = it->of.str;
    if (it->at == s.len)
        return false;
    const char *p = s.ptr + it->at, *after = p;
    fy_tu_next(&after, s.ptr + s.len);
    *out = fy_tv_view((fy_span){p, (size_t)(after - p)});
    it->at += (size_t)(after - p);
    return true;
}

bool fy_titer_next(fy_titer *it, fy_tv *out)
{
    fy_tlist *l = it->of.list;
    switch ((int)it->of.kind) {
    case FY_TV_STR:
        return next_of_str(it, out);
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
        if (it->at == fy_tdict_n(it->of.dict))
            return false;
        *out = *fy_tdict_key(it->of.dict, it->at++);
        return true;
    case FY_TV_RANGE:
        if (it->at == it->of.range->n)
            return false;
        *out = fy_tv_int(fy_trange_at(it->of.range, it->at++));
        return true;
    default:
        return false;
    }
}

/* In unsigned arithmetic: the item of a range fits, a product on the way may not. */
int64_t fy_trange_at(const fy_trange *r, size_t i)
{
    return (int64_t)((uint64_t)r->start + (uint64_t)i * (uint64_t)r->step);
}

int fy_tv_items(fy_tm *m, const fy_tv *v, fy_tlist *out)
{
    fy_titer it;
    fy_tv list;
    size_t n;
    if (fy_titer_begin(m, &it, v) != 0)
        return -1;
    if (v->kind == FY_TV_LIST || v->kind == FY_TV_TUPLE || v->kind == FY_TV_VIEW ||
        v->kind == FY_TV_ITER) {
        *out = *v->list;
        if (v->kind == FY_TV_ITER)
            v->list->n = 0;
        return fy_tm_charge(m, out->n);
    }
    if (fy_tv_length(m, v, &n) != 0 || fy_tv_list(m, FY_TV_LIST, n, &list) != 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        fy_titer_next(&it, &list.list->item[i]);
    *out = *list.list;
    return 0;
}

/* --- calls and undefined values --- */

int fy_tv_call(fy_tm *m, const fy_tv *f, const fy_targs *a, fy_tv *out)
{
    if (f->kind == FY_TV_UNDEFINED)
        return fy_tv_undefined_fail(m, f);
    if ((f->kind != FY_TV_CALLABLE && f->kind != FY_TV_OBJECT) || f->call->call == NULL)
        return fy_tm_fail(m, "'%s' object is not callable", fy_tv_type_name(f));
    return f->call->call(m, f->call, a, out);
}

int fy_tv_undefined_fail(fy_tm *m, const fy_tv *v)
{
    char owner[80] = "None";
    fy_tv of = {.kind = v->of};
    if (v->of == FY_TV_CALLABLE || v->of == FY_TV_OBJECT)
        snprintf(owner, sizeof owner, "callable object");
    else if (v->of != FY_TV_NONE)
        snprintf(owner, sizeof owner, "%s object", fy_tv_type_name(&of));
    char text[400];
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
