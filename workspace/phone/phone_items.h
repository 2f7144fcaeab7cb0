/* What of ours is on a phone, below FY_PHONE_DIR: workspaces, their older versions, models that were
 * sent for a call (phone_model.h), programs, and files of calls that broke off. Names come from the
 * phone: only those that a push makes are taken, whatever else lies there is not ours.
 *
 * The list is one command of the phone's shell. Sizes are of the disk; a file that two items share
 * counts once, for a workspace first: that much is freed when the last of them goes. */
#ifndef FY_WORKSPACE_PHONE_ITEMS_H
#define FY_WORKSPACE_PHONE_ITEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "workspace/phone/adb.h"

typedef enum {
    FY_PHONE_WORKSPACE,
    FY_PHONE_OLDER, /* a version of a workspace that its name does not lead to */
    FY_PHONE_MODEL,
    FY_PHONE_PROGRAM,
    FY_PHONE_TEMP, /* of one call */
} fy_phone_kind;

typedef struct {
    fy_phone_kind kind;
    bool part;  /* a transfer that broke off; the next one resumes it */
    char *path; /* owned; below FY_PHONE_DIR */
    char *name; /* owned; of the workspace or model, else the last part of the path */
    uint64_t bytes;
    int64_t used_s; /* when it was last sent or used; seconds since 1970 */
} fy_phone_item;

typedef struct {
    fy_phone_item *item; /* owned; by kind, then the last used first */
    size_t n, cap;
    uint64_t space; /* free bytes of the disk; UINT64_MAX: unknown */
} fy_phone_items;

int fy_phone_items_list(const fy_adb *a, fy_phone_items *out, fy_err *e);
void fy_phone_items_release(fy_phone_items *l);
const char *fy_phone_kind_name(fy_phone_kind kind); /* "workspace", "older version", "model", ... */

/* What the phone answered, which fy_phone_items_list asked for. */
int fy_phone_items_parse(fy_span text, fy_phone_items *out, fy_err *e);

/* Removes it, and the name that leads to it. */
int fy_phone_item_remove(const fy_adb *a, const fy_phone_item *item, fy_err *e);

/* Makes room for a model of so many bytes, which will lie at `path` (below FY_PHONE_DIR): removes
 * other models, the one that was used longest ago first, until all of them take at most `most` bytes
 * and the rest of this one fits on the disk. None is removed where that would not help. */
int fy_phone_models_make_room(const fy_adb *a, const char *path, uint64_t bytes, uint64_t most,
                              fy_err *e);

#endif
