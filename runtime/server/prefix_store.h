/* Texts that left their slot: ids with what a session computed for them, as bytes that lie here. The
 * one that was used longest ago makes room. One thread. */
#ifndef FY_SERVER_PREFIX_STORE_H
#define FY_SERVER_PREFIX_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct fy_prefix_store fy_prefix_store;
typedef struct fy_prefix fy_prefix;

struct fy_prefix {
    int32_t *ids; /* owned, [n] */
    uint32_t n;
    int user;
    size_t n_bytes;
    void *bytes; /* owned */
    fy_prefix *prev, *next;
};

fy_prefix_store *fy_prefix_store_new(size_t max_bytes, fy_err *e);
void fy_prefix_store_free(fy_prefix_store *s); /* NULL is fine */

/* The user's text with the longest common beginning, *n ids of at most `most`; NULL: none has any. It
 * counts as used now. */
fy_prefix *fy_prefix_find(fy_prefix_store *s, int user, const int32_t *ids, uint32_t most,
                          uint32_t *n);

/* Room for a text; the caller fills its bytes, or drops it. Texts that it begins with are dropped.
 * NULL: it is too large, out of memory, or the beginning of one that is there. */
fy_prefix *fy_prefix_add(fy_prefix_store *s, int user, const int32_t *ids, uint32_t n,
                         size_t n_bytes);
void fy_prefix_drop(fy_prefix_store *s, fy_prefix *p);
/* Drops the user's texts whose first `least` ids are this one's, too. */
void fy_prefix_erase(fy_prefix_store *s, int user, const int32_t *ids, uint32_t n, uint32_t least);

size_t fy_prefix_store_bytes(const fy_prefix_store *s);
uint64_t fy_prefix_store_evicted(const fy_prefix_store *s); /* so far */

#endif
