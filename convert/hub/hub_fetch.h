/* Repositories of the Hugging Face hub, brought into the cache (hub_cache.h).
 *
 *     fy_hub_ask(&want, &got, e)    what the repository holds, what of it is wanted, and what is in
 * the cache fy_hub_bring(&want, &got, e)  downloads the rest; afterwards got.snapshot is whole
 *     fy_hub_got_release(&got)
 *
 * A file is in its place only when size and hash are those that the hub announced. What an
 * interrupted or failed download leaves is resumed. refs/REVISION is written last. */
#ifndef FY_HUB_HUB_FETCH_H
#define FY_HUB_HUB_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opts.h"
#include "hub/hub_cache.h"
#include "hub/hub_list.h"

#define FY_HUB_PARALLEL 4 /* by default */
#define FY_HUB_RETRIES  8

typedef struct {
    fy_hub_ref ref;
    fy_opt_list include, exclude; /* fy_hub_list_choose; views */
    fy_hub_kind kind;
    int parallel, retries;
} fy_hub_want;

typedef struct {
    fy_hub_list list;
    char *storage, *snapshot; /* owned */
    uint64_t bytes;           /* of the wanted files */
    uint64_t to_bring; /* of those that are not in the cache, without what was downloaded of them */
    size_t n_wanted;
} fy_hub_got;

bool fy_hub_is_offline(void); /* $HF_HUB_OFFLINE or $TRANSFORMERS_OFFLINE */

int fy_hub_ask(const fy_hub_want *want, fy_hub_got *got, fy_err *e);
int fy_hub_bring(const fy_hub_want *want, fy_hub_got *got, fy_err *e);
void fy_hub_got_release(fy_hub_got *got);
/* What the user gives to another verb: the first file of a GGUF model, else the snapshot. NULL on
 * failure. */
char *fy_hub_got_path(const fy_hub_got *got, fy_err *e);

/* For verbs that take a checkpoint: field `fetch` of their `options`, for that call. */
#define FY_ROW_FETCH                                                                               \
    {                                                                                              \
        .group = "Work", .name = "fetch", .kind = FY_OPT_FLAG, .offset = offsetof(options, fetch), \
        .line_only = true,                                                                         \
        .help =                                                                                    \
            "Download ORG/NAME first, or what of it is not in the cache, as 'ferry fetch' does."   \
    }

#endif
