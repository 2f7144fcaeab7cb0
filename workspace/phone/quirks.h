/* What is known of certain phones and chips, as data: the table of quirks_table.c, and rows of the
 * user's own $XDG_CONFIG_HOME/ferry/quirks.json, which replace those of the same id. A row says for
 * which phones it is (docs/doctor.md has the schema). */
#ifndef FY_WORKSPACE_QUIRKS_H
#define FY_WORKSPACE_QUIRKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "workspace/phone/doctor.h"

#define FY_QUIRKS_MAX_BYTES (1u << 20) /* of the user's file */

enum { FY_QUIRK_PATTERNS = 16 };
typedef struct {
    const char *pattern[FY_QUIRK_PATTERNS]; /* views; any of them, shell patterns, any case */
    size_t n;                               /* 0: any phone */
} fy_quirk_list;

typedef struct {
    const char *id, *found, *remedy, *source; /* views of the table's arena */
    fy_verdict verdict;                       /* never FY_CHECK_OK */
    fy_quirk_list manufacturer, model, soc, platform, package;
    int64_t android_from, android_below; /* release: 15; -1: any */
    int64_t htp_below;                   /* architecture of the NPU: 73; -1: any */
    bool npu;                            /* only for a workspace that uses the NPU */
    double parameters_above;             /* of the workspace's models; 0: any */
} fy_quirk;

typedef struct {
    fy_quirk *row; /* owned */
    size_t n, cap;
    fy_arena strings;
} fy_quirks;

extern const char fy_quirks_table[]; /* JSON */

/* Adds the rows of a JSON text; `name` begins messages. */
int fy_quirks_parse(fy_quirks *q, const char *text, size_t n, const char *name, fy_err *e);
/* The built-in rows and the user's. */
int fy_quirks_read(fy_quirks *q, fy_err *e);
void fy_quirks_release(fy_quirks *q);

/* Is it for this phone and this workspace? Without a workspace what it asks of one is left open. */
bool fy_quirk_fits(const fy_quirk *q, const fy_facts *f, const fy_need *need);

#endif
