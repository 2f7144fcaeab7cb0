/* Set of names, each with a number: duplicate keys are found and items looked up in O(1), also when
 * the names come from a hostile file (the hash is keyed with a secret of the process). Names are
 * borrowed and must outlive the set. Zero-initialise with fy_names t = {0}. Lookups are thread-safe
 * while nobody adds. */
#ifndef FY_BASE_NAMES_H
#define FY_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct {
    fy_span name; /* view; ptr NULL: the slot is free */
    uint32_t hash;
    uint32_t value;
} fy_names_slot;

typedef struct {
    fy_names_slot *slots; /* owned */
    size_t cap, n;        /* cap: a power of two, or 0 */
} fy_names;

/* Makes room for n names at once; -1: out of memory. */
int fy_names_reserve(fy_names *t, size_t n);

/* 0: added; 1: the name is there already (nothing changes); -1: out of memory. */
int fy_names_add(fy_names *t, fy_span name, uint32_t value);

/* False when absent. *value may be NULL. */
bool fy_names_find(const fy_names *t, fy_span name, uint32_t *value);

/* n lookups at once: value[i] is that of name[i], or FY_NAMES_ABSENT. Faster than one by one in
 * a large table, because the memory reads overlap. */
#define FY_NAMES_ABSENT UINT32_MAX
void fy_names_find_many(const fy_names *t, const fy_span *name, uint32_t *value, size_t n);

/* Prefetches the slot of a name that will be added or looked up a little later. */
void fy_names_expect(const fy_names *t, fy_span name);

/* The keyed hash of a name, for tables of other shapes. */
uint32_t fy_names_hash(fy_span name);

/* The secret of the process, for tables with a hash of their own. */
void fy_names_secret(uint64_t out[2]);

void fy_names_clear(fy_names *t);   /* empty; small tables keep their memory */
void fy_names_release(fy_names *t); /* frees; usable again */

#endif
