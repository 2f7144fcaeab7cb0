#include "workspace/pack/zstd_out.h"

#include <stdlib.h>
#include <zstd.h>

#include "base/progress.h"

#define JOB_BYTES  (2 << 20)
#define WINDOW_LOG 21
#define OUT_BYTES  ((size_t)1 << 17)

struct fy_zstd_out {
    ZSTD_CCtx *ctx;     /* owned */
    fy_zstd_sink *sink; /* with user */
    void *user;
    char *buf;         /* owned; OUT_BYTES */
    fy_zstd_out *next; /* abandoned before it */
};

/* Workers that stay below 100 MB together (measured with zstd 1.5.4: 5, 16 and 90 MB each). */
static int most_workers(int level)
{
    return level <= 4 ? 16 : level <= 9 ? 4 : 1;
}

static int set(fy_zstd_out *z, ZSTD_cParameter p, int value, fy_err *e)
{
    size_t rc = ZSTD_CCtx_setParameter(z->ctx, p, value);
    return ZSTD_isError(rc)
               ? fy_fail(e, FY_EUNSUPPORTED, "this zstd library cannot compress on threads: %s",
                         ZSTD_getErrorName(rc))
               : 0;
}

fy_zstd_out *fy_zstd_out_new(int level, int n_threads, fy_zstd_sink *sink, void *user, fy_err *e)
{
    fy_zstd_out *z = calloc(1, sizeof *z);
    int most = most_workers(level);
    if (z == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *z = (fy_zstd_out){ZSTD_createCCtx(), sink, user, malloc(OUT_BYTES), NULL};
    if (z->ctx == NULL || z->buf == NULL)
        fy_nomem(e);
    else if (set(z, ZSTD_c_compressionLevel, level, e) == 0 &&
             set(z, ZSTD_c_windowLog, WINDOW_LOG, e) == 0 &&
             set(z, ZSTD_c_checksumFlag, 1, e) == 0 &&
             set(z, ZSTD_c_nbWorkers,
                 n_threads < 1      ? 1
                 : n_threads < most ? n_threads
                                    : most,
                 e) == 0 &&
             set(z, ZSTD_c_jobSize, JOB_BYTES, e) == 0)
        return z;
    fy_zstd_out_free(z);
    return NULL;
}

static int step(fy_zstd_out *z, ZSTD_inBuffer *in, ZSTD_EndDirective how, size_t *left, fy_err *e)
{
    ZSTD_outBuffer out = {z->buf, OUT_BYTES, 0};
    *left = ZSTD_compressStream2(z->ctx, &out, in, how);
    if (ZSTD_isError(*left))
        return fy_fail(e, FY_ENOMEM, "zstd cannot compress: %s", ZSTD_getErrorName(*left));
    return out.pos > 0 ? z->sink(z->user, z->buf, out.pos, e) : 0;
}

int fy_zstd_out_add(fy_zstd_out *z, const void *p, size_t n, fy_err *e)
{
    ZSTD_inBuffer in = {p, n, 0};
    size_t left;
    while (in.pos < in.size) {
        if (step(z, &in, ZSTD_e_continue, &left, e) != 0)
            return -1;
    }
    return 0;
}

int fy_zstd_out_end(fy_zstd_out *z, fy_err *e)
{
    ZSTD_inBuffer in = {"", 0, 0};
    size_t left;
    do {
        if (step(z, &in, ZSTD_e_end, &left, e) != 0)
            return -1;
    } while (left > 0);
    return 0;
}

/* At level 19 a job takes a second, and zstd would wait for those that run. After Ctrl-C they are
 * left to the end of the process: their buffers are their own. */
static fy_zstd_out *abandoned;

void fy_zstd_out_free(fy_zstd_out *z)
{
    if (z == NULL)
        return;
    if (fy_interrupted) {
        z->next = abandoned;
        abandoned = z;
        return;
    }
    ZSTD_freeCCtx(z->ctx);
    free(z->buf);
    free(z);
}
