/* What of ours is on this machine, for `ferry list` and `ferry rm`: the entries of the hub's cache,
 * and workspaces, those below the current directory and those that were recorded (pack/known.h).
 *
 * fy_local_item_remove touches nothing else: of a workspace it removes the files that the manifest lists,
 * and the directories that are empty then; files of others stay. No link is followed. */
#ifndef FY_WORKSPACE_LOCAL_ITEMS_H
#define FY_WORKSPACE_LOCAL_ITEMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef enum { FY_LOCAL_MODEL, FY_LOCAL_WORKSPACE } fy_local_kind;

typedef struct {
    fy_local_kind kind;
    char *name;     /* owned: ORG/NAME; of a workspace its path */
    char *path;     /* owned: absolute */
    char *type;     /* owned: "Q4_K_M, Q8_0", "q4_0"; "": unknown */
    uint64_t bytes; /* of its files */
    int64_t used;   /* when one of them was last read or written, in seconds since 1970 */
} fy_local_item;

typedef struct {
    fy_local_item *item; /* owned; models by name, then workspaces by path */
    size_t n, cap;
} fy_local_items;

int fy_local_items_read(fy_local_items *out, fy_err *e);
void fy_local_items_release(fy_local_items *s);

/* The item of this name: ORG/NAME, or a path that leads to a workspace. NULL: not in the list. */
const fy_local_item *fy_local_items_find(const fy_local_items *s, const char *name);

/* *freed: bytes that the disk has again; *left: files in a workspace's directory that are not its
 * own. */
int fy_local_item_remove(const fy_local_item *item, uint64_t *freed, size_t *left, fy_err *e);

/* "4.9 GB" */
void fy_put_bytes_text(fy_str *out, uint64_t bytes);

#endif
