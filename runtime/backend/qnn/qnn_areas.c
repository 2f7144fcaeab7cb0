/* Shared memory: taken from libcdsprpc.so, registered in contexts. */
#include "backend/qnn/qnn_areas.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/qnn/qnn_graph.h"
#include "base/arena.h"
#include "base/math.h"

/* The heap of the system, and memory that the driver keeps coherent: what every user of it asks
 * for. */
enum { SYSTEM_HEAP = 25, CACHED = 1 };

/* --- areas ------------------------------------------------------------------------------------ */

void fy_qnn_areas_init(fy_qnn_areas *a, const fy_qnn_lib *lib)
{
    *a = (fy_qnn_areas){0};
    if (lib->call->memory_register == NULL || lib->call->memory_deregister == NULL)
        snprintf(a->why, sizeof a->why, "the QNN library has no function memRegister");
    else
        (void)fy_qnn_rpcmem_open(&a->rpcmem, a->why, sizeof a->why);
}

void fy_qnn_areas_release(fy_qnn_areas *a)
{
    assert(a->n == 0);
    free(a->all);
    *a = (fy_qnn_areas){0};
}

/* False: rpcmem refuses. */
static bool take_shared(fy_qnn_areas *a, fy_qnn_area *to)
{
    if (a->rpcmem.alloc == NULL)
        return false;
    to->p = a->rpcmem.alloc(SYSTEM_HEAP, CACHED, (int)to->bytes);
    to->fd = to->p != NULL ? a->rpcmem.to_fd(to->p) : -1;
    if (to->fd >= 0) {
        memset(to->p, 0, to->bytes);
        return true;
    }
    snprintf(a->why, sizeof a->why, "%s of %llu MB fails",
             to->p != NULL ? "rpcmem_to_fd" : "rpcmem_alloc",
             (unsigned long long)(to->bytes >> 20));
    if (to->p != NULL)
        a->rpcmem.free(to->p);
    return false;
}

/* Pages that nobody writes to are not taken from the system. */
static bool take_own(fy_qnn_area *to)
{
    void *p = to->bytes <= SIZE_MAX / 2 ? mmap(NULL, (size_t)to->bytes, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                        : MAP_FAILED;
    to->p = p != MAP_FAILED ? p : NULL;
    return p != MAP_FAILED;
}

static void free_area(const fy_qnn_areas *a, const fy_qnn_area *area)
{
    if (area->fd >= 0)
        a->rpcmem.free(area->p);
    else
        munmap(area->p, (size_t)area->bytes);
}

void *fy_qnn_area_take(fy_qnn_areas *a, uint64_t bytes, fy_err *e)
{
    fy_qnn_area area = {.fd = -1};
    const unsigned long long mb = bytes >> 20;
    if (!fy_align_u64(bytes, FY_QNN_AREA_ALIGN, &area.bytes) ||
        (a->rpcmem.alloc != NULL && area.bytes > INT_MAX)) {
        fy_fail(e, FY_EFIT,
                "the tensors of one chunk take %llu MB, and memory that is shared with an NPU "
                "comes in pieces of at most 2047 MB: cut the model into more chunks, or with a "
                "smaller -c",
                mb);
        return NULL;
    }
    if (!take_shared(a, &area) && !take_own(&area)) {
        fy_fail(e, FY_EFIT, "out of memory: the tensors of the graphs take %llu MB", mb);
        return NULL;
    }
    if (fy_append(&a->all, &a->n, &a->cap, &area, sizeof area, e) == 0)
        return area.p;
    free_area(a, &area);
    return NULL;
}

/* The area with an address. */
static fy_qnn_area *area_of(const fy_qnn_areas *a, const void *p)
{
    const uintptr_t at = (uintptr_t)p;
    for (size_t i = 0; i < a->n; i++) {
        if (at >= (uintptr_t)a->all[i].p && at - (uintptr_t)a->all[i].p < a->all[i].bytes)
            return &a->all[i];
    }
    return NULL;
}

void fy_qnn_area_give(fy_qnn_areas *a, void *p)
{
    fy_qnn_area *area = area_of(a, p);
    assert(area != NULL && area->p == p);
    free_area(a, area);
    *area = a->all[--a->n];
}

/* --- contexts --------------------------------------------------------------------------------- */

static int add_share(const fy_qnn_area *area, const fy_qnn_lib *lib, fy_qnn_handle context,
                     fy_qnn_shares *s, const fy_qnn_tensor_v1 *t, uint8_t *p, uint32_t bytes,
                     fy_err *e)
{
    uint32_t n = bytes / fy_qnn_type_bytes(t->type);
    fy_qnn_htp_memory where = {.type = FY_QNN_HTP_SHARED_BUFFER,
                               .bytes = area->bytes,
                               .fd = area->fd,
                               .offset = (uint64_t)(p - area->p)};
    const fy_qnn_memory memory = {
        .rank = 1, .dims = &n, .type = t->type, .kind = FY_QNN_MEMORY_CUSTOM, .u.custom = &where};
    fy_qnn_share is = {.p = p, .bytes = bytes};
    fy_qnn_log_mark();
    const fy_qnn_error err = lib->call->memory_register(context, &memory, 1, &is.handle);
    if (err != 0) {
        fy_qnn_fail(lib, "memRegister", err, e);
        return fy_ctx(e, "tensor '%s', in %llu MB of shared memory", t->name,
                      (unsigned long long)(area->bytes >> 20));
    }
    if (fy_append(&s->all, &s->n, &s->cap, &is, sizeof is, e) == 0)
        return 0;
    (void)lib->call->memory_deregister(&is.handle, 1);
    return -1;
}

int fy_qnn_share_tensor(const fy_qnn_areas *a, const fy_qnn_lib *lib, fy_qnn_handle context,
                        fy_qnn_shares *s, fy_qnn_tensor *t, void *p, uint32_t bytes, fy_err *e)
{
    const fy_qnn_area *area = area_of(a, p);
    if (area == NULL || area->fd < 0) {
        t->u.v1.memory = FY_QNN_RAW;
        t->u.v1.u.buffer = (fy_qnn_buffer){p, bytes};
        return 0;
    }
    size_t i = 0;
    while (i < s->n && s->all[i].p != p)
        i++;
    if (i == s->n && add_share(area, lib, context, s, &t->u.v1, p, bytes, e) != 0)
        return -1;
    assert(s->all[i].bytes >= bytes);
    t->u.v1.memory = FY_QNN_MEMHANDLE;
    t->u.v1.u.buffer = (fy_qnn_buffer){0};
    t->u.v1.u.handle = s->all[i].handle;
    return 0;
}

void fy_qnn_shares_clear(fy_qnn_shares *s, const fy_qnn_lib *lib)
{
    while (s->n > 0)
        (void)lib->call->memory_deregister(&s->all[--s->n].handle, 1);
    free(s->all);
    *s = (fy_qnn_shares){0};
}
