/* Dicts keep their items in the order of insertion. Small ones are searched from the front; larger
 * ones have a table of places, hashed with the secret of the process. The work on one key is
 * bounded by `fuel`: a tuple can hold itself many times over. */
#include "model/template/template_value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"

enum {
    ITEM_FUEL = 4,   /* of hashing or comparing one item, in steps */
    LINEAR = 8,      /* items that are searched without a table */
    KEY_FUEL = 4096, /* of an uncharged search */
};

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

/* --- keys ------------------------------------------------------------------------------------- */

static bool burn(uint64_t *fuel, uint64_t n)
{
    if (n >= *fuel) {
        *fuel = 0;
        return false;
    }
    *fuel -= n;
    return true;
}

/* Numbers that are equal are one key, whatever their type: the int when there is one. */
static fy_tv number_key(const fy_tv *v)
{
    if (v->kind == FY_TV_BOOL)
        return fy_tv_int(v->b);
    if (v->kind == FY_TV_FLOAT && v->f >= -0x1p63 && v->f < 0x1p63 && v->f == trunc(v->f))
        return fy_tv_int((int64_t)v->f);
    return *v;
}

static uint32_t hash_bytes(const void *p, size_t n)
{
    return fy_names_hash((fy_span){p, n});
}

static bool hash_of(const fy_tv *key, uint64_t *fuel, int depth, uint32_t *out);

static bool hash_tuple(const fy_tlist *l, uint64_t *fuel, int depth, uint32_t *out)
{
    uint32_t pair[2] = {(uint32_t)l->n, 0};
    if (depth == FY_TV_MAX_DEPTH)
        return false;
    for (size_t i = 0; i < l->n; i++) {
        if (!hash_of(&l->item[i], fuel, depth + 1, &pair[1]))
            return false;
        pair[0] = hash_bytes(pair, sizeof pair);
    }
    *out = pair[0];
    return true;
}

/* False when the key is unhashable or takes too long. */
static bool hash_of(const fy_tv *key, uint64_t *fuel, int depth, uint32_t *out)
{
    fy_tv v = number_key(key);
    if (!burn(fuel, ITEM_FUEL))
        return false;
    switch ((fy_tv_kind)v.kind) {
    case FY_TV_STR:
    case FY_TV_BIGINT:
        *out = fy_names_hash(v.str);
        return depth == 0 || burn(fuel, v.str.len / 16);
    case FY_TV_TUPLE:
        return hash_tuple(v.list, fuel, depth, out);
    case FY_TV_INT:
        *out = hash_bytes(&v.i, sizeof v.i);
        return true;
    case FY_TV_FLOAT:
        *out = hash_bytes(&v.f, sizeof v.f);
        return true;
    case FY_TV_UNDEFINED: /* all of them are equal */
    case FY_TV_NONE:
    case FY_TV_BOOL:
    case FY_TV_RANGE:
        *out = v.kind;
        return true;
    case FY_TV_ITER:
    case FY_TV_NAMESPACE:
    case FY_TV_CALLABLE:
    case FY_TV_OBJECT:
        *out = hash_bytes(&v.call, sizeof v.call);
        return true;
    case FY_TV_LIST:
    case FY_TV_DICT:
    case FY_TV_VIEW:
        break;
    }
    return false;
}

static bool same_key(const fy_tv *x, const fy_tv *y, uint64_t *fuel, int depth)
{
    fy_tv a = number_key(x), b = number_key(y);
    if (a.kind != b.kind || !burn(fuel, depth == 0 ? 1 : ITEM_FUEL))
        return false;
    switch ((fy_tv_kind)a.kind) {
    case FY_TV_STR:
    case FY_TV_BIGINT:
        return fy_span_eq(a.str, b.str) && (depth == 0 || burn(fuel, a.str.len / 16));
    case FY_TV_TUPLE:
        if (a.list->n != b.list->n || depth == FY_TV_MAX_DEPTH)
            return false;
        for (size_t i = 0; i < a.list->n; i++) {
            if (!same_key(&a.list->item[i], &b.list->item[i], fuel, depth + 1))
                return false;
        }
        return true;
    case FY_TV_INT:
        return a.i == b.i;
    case FY_TV_FLOAT:
        return a.f == b.f;
    case FY_TV_UNDEFINED:
    case FY_TV_NONE:
        return true;
    case FY_TV_BOOL:
        return a.b == b.b;
    case FY_TV_RANGE:
        return a.range->n == b.range->n && (a.range->n == 0 || a.range->start == b.range->start) &&
               (a.range->n <= 1 || a.range->step == b.range->step);
    case FY_TV_LIST:
    case FY_TV_ITER:
    case FY_TV_DICT:
    case FY_TV_VIEW:
    case FY_TV_NAMESPACE:
    case FY_TV_CALLABLE:
    case FY_TV_OBJECT:
        break;
    }
    return a.call == b.call;
}

/* --- the table -------------------------------------------------------------------------------- */

/* The place of the key, or the free one where it belongs. */
static place *place_of(const fy_tdict *d, const fy_tv *key, uint32_t hash, uint64_t *fuel)
{
    size_t mask = d->table_cap - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        place *p = &d->table[i];
        if (p->at == 0 || (p->hash == hash && same_key(&d->items[p->at - 1].key, key, fuel, 0)))
            return p;
    }
}

static void place_free(const fy_tdict *d, place q)
{
    size_t mask = d->table_cap - 1, i = q.hash & mask;
    while (d->table[i].at != 0)
        i = (i + 1) & mask;
    d->table[i] = q;
}

/* A table for at least n items; the keys that are there already are hashed once more only when the
 * dict outgrows the linear search. */
static int grow_table(fy_tm *m, fy_tdict *d, size_t n)
{
    fy_tdict bigger = *d;
    bigger.table_cap = 32;
    while (bigger.table_cap < n * 2)
        bigger.table_cap *= 2;
    bigger.table = fy_tm_alloc(m, bigger.table_cap * sizeof *bigger.table);
    if (bigger.table == NULL)
        return -1;
    memset(bigger.table, 0, bigger.table_cap * sizeof *bigger.table);
    for (size_t i = 0; i < d->table_cap; i++) {
        if (d->table[i].at != 0)
            place_free(&bigger, d->table[i]);
    }
    for (size_t i = 0; d->table_cap == 0 && i < d->n; i++) {
        place q = {.at = (uint32_t)i + 1};
        uint64_t before = m->steps_left, fuel = before;
        hash_of(&d->items[i].key, &fuel, 0, &q.hash);
        m->steps_left -= before - fuel;
        place_free(&bigger, q);
    }
    *d = bigger;
    return 0;
}

static int grow_items(fy_tm *m, fy_tdict *d)
{
    size_t cap = d->cap == 0 ? 4 : d->cap * 2;
    if (d->n >= UINT32_MAX / 4)
        return fy_tm_fail(m, "a dict of too many items");
    item *items =
        fy_tm_charge(m, cap * sizeof *items) == 0 ? fy_tm_alloc(m, cap * sizeof *items) : NULL;
    if (items == NULL)
        return -1;
    if (d->n > 0)
        memcpy(items, d->items, d->n * sizeof *items);
    d->items = items;
    d->cap = cap;
    return 0;
}

/* Where the key is, NO_ITEM when it is absent. */
static size_t find(const fy_tdict *d, const fy_tv *key, uint32_t hash, uint64_t *fuel)
{
    if (d->table_cap > 0) {
        const place *p = place_of(d, key, hash, fuel);
        return p->at == 0 ? NO_ITEM : p->at - 1;
    }
    for (size_t i = 0; i < d->n; i++) {
        if (same_key(&d->items[i].key, key, fuel, 0))
            return i;
    }
    return NO_ITEM;
}

/* --- what others use -------------------------------------------------------------------------- */

int fy_tv_dict(fy_tm *m, fy_tv_kind kind, size_t room, fy_tv *out)
{
    fy_tdict *d = fy_tm_alloc(m, sizeof *d);
    if (d == NULL)
        return -1;
    *d = (fy_tdict){0};
    if (room > 0) {
        size_t bytes;
        if (room >= UINT32_MAX / 4 || __builtin_mul_overflow(room, sizeof *d->items, &bytes))
            bytes = SIZE_MAX; /* refused by the budget */
        if (fy_tm_charge(m, bytes) != 0 || (d->items = fy_tm_alloc(m, bytes)) == NULL)
            return -1;
        d->cap = room;
    }
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

const fy_tv *fy_tdict_get(const fy_tdict *d, const fy_tv *key)
{
    uint64_t fuel = KEY_FUEL;
    uint32_t hash = 0;
    if ((d->table_cap > 0 || key->kind != FY_TV_STR) && !hash_of(key, &fuel, 0, &hash))
        return NULL;
    size_t i = find(d, key, hash, &fuel);
    return i == NO_ITEM ? NULL : &d->items[i].value;
}

const fy_tv *fy_tdict_find(const fy_tdict *d, fy_span key)
{
    fy_tv v = fy_tv_view(key);
    return fy_tdict_get(d, &v);
}

/* Hashes the key of a search by `m` and finds it: -1, or 0 with *at (NO_ITEM: absent). */
static int search(fy_tm *m, const fy_tdict *d, const fy_tv *key, uint32_t *hash, size_t *at)
{
    uint64_t fuel = m->steps_left;
    *hash = 0;
    bool ok = (d->table_cap == 0 && key->kind == FY_TV_STR) || hash_of(key, &fuel, 0, hash);
    if (ok)
        *at = find(d, key, *hash, &fuel);
    m->steps_left = fuel;
    if (fy_tm_charge(m, key->kind == FY_TV_STR ? 16 + key->str.len : 16) != 0)
        return -1;
    if (!ok)
        return fy_tm_fail(m, "unhashable type: '%s'",
                          key->kind == FY_TV_TUPLE ? "list" : fy_tv_type_name(key));
    return 0;
}

int fy_tdict_lookup(fy_tm *m, const fy_tdict *d, const fy_tv *key, fy_tv *out)
{
    uint32_t hash;
    size_t at = NO_ITEM;
    if (search(m, d, key, &hash, &at) != 0)
        return -1;
    if (at == NO_ITEM)
        return 0;
    *out = d->items[at].value;
    return 1;
}

int fy_tdict_set(fy_tm *m, fy_tdict *d, fy_tv key, fy_tv value)
{
    uint32_t hash;
    size_t at = NO_ITEM;
    if (search(m, d, &key, &hash, &at) != 0)
        return -1;
    if (at != NO_ITEM) {
        d->items[at].value = value;
        return 0;
    }
    if (d->n == d->cap && grow_items(m, d) != 0)
        return -1;
    d->items[d->n++] = (item){key, value};
    if (d->table_cap == 0 && d->n <= LINEAR)
        return 0;
    bool hashed = d->table_cap > 0; /* else growing places every item */
    if (d->n * 2 > d->table_cap && grow_table(m, d, d->n) != 0)
        return -1;
    if (hashed)
        place_free(d, (place){hash, (uint32_t)d->n});
    return 0;
}
