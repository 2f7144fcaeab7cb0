/* Memory that the processor and the NPU share, so that no tensor is copied at a call: areas from
 * the phone's libcdsprpc.so ("rpcmem"), whose tensors QNN knows by handles. Where that library is
 * absent, or refuses, an area is memory of the process, and QNN copies the tensors in it at every
 * call ("raw" buffers).
 *
 * A handle belongs to one context: with that of another one, the NPU crashes. So each context has a
 * list of its own (fy_qnn_shares); one entry serves all graphs of the context that have a tensor at
 * the same place, and has the size of the first of them, which is therefore the largest. */
#ifndef FY_BACKEND_QNN_QNN_AREAS_H
#define FY_BACKEND_QNN_QNN_AREAS_H

#include "backend/qnn/qnn_lib.h"

/* Where a tensor may begin in an area: no number is published, a page is always right. */
enum { FY_QNN_AREA_ALIGN = 4096 };

typedef struct {
    uint8_t *p;
    uint64_t bytes;
    int fd; /* -1: memory of the process */
} fy_qnn_area;

typedef struct {
    fy_qnn_rpcmem rpcmem; /* without functions: raw buffers */
    char why[160];        /* not all areas are shared; "": all are */
    fy_qnn_area *all;     /* owned */
    size_t n, cap;
} fy_qnn_areas;

/* Looks for the phone's library. Without it areas work, too. */
void fy_qnn_areas_init(fy_qnn_areas *a, const fy_qnn_lib *lib);
void fy_qnn_areas_release(fy_qnn_areas *a); /* of none that was not given back */

void *fy_qnn_area_take(fy_qnn_areas *a, uint64_t bytes, fy_err *e); /* cleared */
/* No context shares any of it any more. */
void fy_qnn_area_give(fy_qnn_areas *a, void *p);

typedef struct {
    const void *p;
    uint64_t bytes;
    fy_qnn_handle handle;
} fy_qnn_share;

typedef struct {
    fy_qnn_share *all; /* owned */
    size_t n, cap;
} fy_qnn_shares;

/* Gives a tensor, complete but for its memory, that at p: `bytes` of an area, known to the context
 * from then on, or raw. */
int fy_qnn_share_tensor(const fy_qnn_areas *a, const fy_qnn_lib *lib, fy_qnn_handle context,
                        fy_qnn_shares *s, fy_qnn_tensor *t, void *p, uint32_t bytes, fy_err *e);
/* The context knows none of them any more, or is lost with all of them. */
void fy_qnn_shares_clear(fy_qnn_shares *s, const fy_qnn_lib *lib);

#endif
