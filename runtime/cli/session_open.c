/* Opens a session after comparing what it takes with the memory that is available. */
#include "cli/session_open.h"

#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "base/process.h"
#include "base/types.h"

static unsigned long long megabytes(uint64_t bytes)
{
    return (bytes >> 20) + ((bytes & 0xFFFFF) != 0);
}

const char *fy_session_plan_text(const fy_model *m, const fy_session_plan *p,
                                 char out[FY_SESSION_TEXT_BYTES])
{
    const fy_session_params *full = &p->params;
    char sequences[32] = "";
    if (full->n_seq > 1)
        snprintf(sequences, sizeof sequences, "%u sequences x ", full->n_seq);
    snprintf(out, FY_SESSION_TEXT_BYTES,
             "KV cache: %s%u positions x %u layers, %s/%s: %llu MB; scratch: %llu MB", sequences,
             full->n_ctx, fy_model_hparams(m)->n_layer, fy_type_name(full->type_k),
             fy_type_name(full->type_v), megabytes(p->kv_bytes), megabytes(p->scratch_bytes));
    return out;
}

int fy_session_plan_check(const fy_model *m, const fy_session_plan *p, uint64_t available,
                          const char *smaller, fy_err *e)
{
    char text[FY_SESSION_TEXT_BYTES];
    if (available == 0 || (p->kv_bytes <= available && p->scratch_bytes <= available - p->kv_bytes))
        return 0;
    const bool f32 = p->params.type_k == FY_F32 || p->params.type_v == FY_F32;
    return fy_fail(e, FY_EFIT, "%s, but only %llu MB of memory are available; use a smaller %s%s",
                   fy_session_plan_text(m, p, text), megabytes(available), smaller,
                   f32 ? ", or an f16 cache (-ctk f16 -ctv f16)" : "");
}

fy_session *fy_session_open(const fy_model *m, const fy_session_params *p, const char *smaller,
                            fy_err *e)
{
    fy_session_plan plan;
    char text[FY_SESSION_TEXT_BYTES];
    if (fy_session_plan_of(m, p, &plan, e) != 0)
        return NULL;
    fy_log(FY_LOG_DEBUG, "%s", fy_session_plan_text(m, &plan, text));
    if (fy_session_plan_check(m, &plan, fy_meminfo_bytes("MemAvailable"), smaller, e) != 0)
        return NULL;
    return fy_session_new(m, p, e);
}
