/* What the hub's cache holds, for `ferry list`, and its removal, for `ferry rm`. An entry is a
 * directory models--ORG--NAME; other programs' entries (datasets--...) are not looked at. */
#ifndef FY_HUB_HUB_STORE_H
#define FY_HUB_HUB_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct {
    char *id;   /* owned: "ORG/NAME" */
    char *path; /* owned: of the entry */
    char *what; /* owned: "checkpoint", "Q4_K_M, Q8_0", both with ", "; "": nothing that is whole */
    uint64_t bytes;         /* of its blobs, those being downloaded included */
    uint64_t partial_bytes; /* of those alone */
    int64_t used;           /* when a blob was last read or written, in seconds since 1970 */
} fy_hub_entry;

typedef struct {
    fy_hub_entry *entry; /* owned; sorted by id */
    size_t n, cap;
} fy_hub_entries;

/* Of this cache directory; none when it is not there. */
int fy_hub_entries_of(const char *cache, fy_hub_entries *out, fy_err *e);
void fy_hub_entries_release(fy_hub_entries *l);

/* Removes the entry and its locks. FY_EIO while another program downloads into it. Nothing that a
 * link leads to outside of it is touched. */
int fy_hub_entry_remove(const fy_hub_entry *entry, fy_err *e);

#endif
