/* A stream of bytes, compressed by zstd on several threads into the same bytes for any number of
 * them: at least one worker always, jobs of a fixed size, a fixed window. Memory is bounded by the
 * level, which decides how many workers there are at most. */
#ifndef FY_WORKSPACE_ZSTD_OUT_H
#define FY_WORKSPACE_ZSTD_OUT_H

#include <stddef.h>

#include "base/err.h"

#define FY_ZSTD_LEVEL_DEFAULT 3
#define FY_ZSTD_LEVEL_MAX     19

typedef struct fy_zstd_out fy_zstd_out;

/* Takes n compressed bytes. */
typedef int fy_zstd_sink(void *user, const void *p, size_t n, fy_err *e);

fy_zstd_out *fy_zstd_out_new(int level, int n_threads, fy_zstd_sink *sink, void *user, fy_err *e);
int fy_zstd_out_add(fy_zstd_out *z, const void *p, size_t n, fy_err *e);
int fy_zstd_out_end(fy_zstd_out *z, fy_err *e); /* writes the rest; the caller still frees it */
void fy_zstd_out_free(fy_zstd_out *z);          /* NULL is fine */

#endif
