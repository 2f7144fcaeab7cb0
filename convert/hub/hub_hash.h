/* The two hashes by which the hub knows contents: SHA-256 of a file that it keeps in LFS, and git's
 * name of any other one, the SHA-1 of "blob SIZE\0" and the contents (git-hash-object). */
#ifndef FY_HUB_HUB_HASH_H
#define FY_HUB_HUB_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct fy_hub_hash fy_hub_hash;

/* Of a file of `size` bytes; digits 64: SHA-256, 40: git's. NULL on failure. */
fy_hub_hash *fy_hub_hash_new(size_t digits, uint64_t size, fy_err *e);
int fy_hub_hash_add(fy_hub_hash *h, const void *p, size_t n, fy_err *e);
/* Ends the hash and frees `h`; hex has room for 65. */
int fy_hub_hash_end(fy_hub_hash *h, char *hex, fy_err *e);
void fy_hub_hash_free(fy_hub_hash *h); /* NULL is fine */

#endif
