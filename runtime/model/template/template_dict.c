/* Dicts keep their items in the order of insertion. Small ones are searched from the front; larger
 * ones have a table of places, hashed with the secret of the process. Keys are strings, numbers,
 * booleans and none. */
#include <math.h>
#include <string.h>

#include "base/names.h"
#include "model/template/template_value.h"

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

/* --- keys --- */

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

/* --- the table --- */

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

/* --- what others use --- */

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
