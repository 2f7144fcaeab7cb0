#include <stdlib.h>

#include "api/api_impl.h"

struct ferry_session {
    ferry_model *model; /* kept */
    fy_session *s;      /* owned */
    _Atomic bool cancelled;
};

/* --- parameters ----------------------------------------------------------------------------- */

static const ferry_session_params defaults = {.struct_size = sizeof(ferry_session_params)};

void ferry_session_params_init(ferry_session_params *p, size_t struct_size)
{
    fy_api_params_init(p, struct_size, &defaults, sizeof defaults);
}

static int kv_type(int32_t type, const char *name, fy_type *out, fy_err *e)
{
    static const fy_type types[] = {
        [FERRY_KV_F16] = FY_F16, [FERRY_KV_F32] = FY_F32, [FERRY_KV_Q8_0] = FY_Q8_0};
    if (type < 0 || (size_t)type >= sizeof types / sizeof types[0])
        return fy_fail(e, FY_EARG, "%s is %d, expected FERRY_KV_F16, _F32 or _Q8_0", name, type);
    *out = types[type];
    return 0;
}

static int read_params(const ferry_session_params *given, fy_session_params *out, fy_err *e)
{
    ferry_session_params p = defaults;
    if (fy_api_params(given, &p, FY_API_UP_TO(ferry_session_params, type_v), "ferry_session_params",
                      e) != 0)
        return -1;
    *out = (fy_session_params){
        .n_ctx = p.n_ctx, .n_batch = p.n_batch, .n_threads = p.n_threads, .n_seq = p.n_seq};
    return kv_type(p.type_k, "type_k", &out->type_k, e) != 0
               ? -1
               : kv_type(p.type_v, "type_v", &out->type_v, e);
}

ferry_status ferry_session_bytes(const ferry_model *model, const ferry_session_params *params,
                                 uint64_t *kv_bytes, uint64_t *scratch_bytes, ferry_error *error)
{
    fy_err e = {0};
    fy_session_params p;
    fy_session_plan plan;
    int rc = -1;
    if (fy_api_need(model, "model", &e) == 0 && fy_api_need(kv_bytes, "kv_bytes", &e) == 0 &&
        fy_api_need(scratch_bytes, "scratch_bytes", &e) == 0 && read_params(params, &p, &e) == 0)
        rc = fy_session_plan_of(model->m, &p, &plan, &e);
    if (rc == 0) {
        *kv_bytes = plan.kv_bytes;
        *scratch_bytes = plan.scratch_bytes;
    }
    return fy_api_end(rc, &e, error);
}

/* --- life ----------------------------------------------------------------------------------- */

static ferry_session *new_session(ferry_model *model, const fy_session_params *p, fy_err *e)
{
    ferry_session *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fy_nomem(e);
        return NULL;
    }
    const fy_api_scope scope = fy_api_enter(model);
    s->s = fy_session_new(model->m, p, e);
    fy_api_leave(&scope);
    if (s->s == NULL) {
        free(s);
        return NULL;
    }
    s->model = model;
    fy_api_model_keep(model);
    return s;
}

ferry_status ferry_session_new(ferry_model *model, const ferry_session_params *params,
                               ferry_session **session, ferry_error *error)
{
    fy_err e = {0};
    fy_session_params p;
    int rc = fy_api_need(session, "session", &e);
    if (rc == 0)
        *session = NULL;
    if (rc == 0 && fy_api_need(model, "model", &e) == 0 && read_params(params, &p, &e) == 0)
        *session = new_session(model, &p, &e);
    return fy_api_end(rc == 0 && *session != NULL ? 0 : -1, &e, error);
}

void ferry_session_free(ferry_session *session)
{
    if (session == NULL)
        return;
    fy_session_free(session->s);
    fy_api_model_release(session->model);
    free(session);
}

uint32_t ferry_session_n_ctx(const ferry_session *session)
{
    return session != NULL ? fy_session_n_ctx(session->s) : 0;
}

uint32_t ferry_session_n_past(const ferry_session *session)
{
    return session != NULL ? fy_session_n_past(session->s) : 0;
}

void ferry_session_rewind(ferry_session *session, uint32_t n_past)
{
    if (session != NULL)
        fy_session_rewind(session->s, n_past);
}

uint32_t ferry_session_n_seq(const ferry_session *session)
{
    return session != NULL ? fy_session_n_seq(session->s) : 0;
}

uint32_t ferry_session_seq_n_past(const ferry_session *session, uint32_t seq)
{
    return session != NULL ? fy_session_seq_n_past(session->s, seq) : 0;
}

void ferry_session_seq_rewind(ferry_session *session, uint32_t seq, uint32_t n_past)
{
    if (session != NULL)
        fy_session_seq_rewind(session->s, seq, n_past);
}

ferry_status ferry_session_seq_copy(ferry_session *session, uint32_t from, uint32_t to,
                                    uint32_t n_past, ferry_error *error)
{
    fy_err e = {0};
    int rc = fy_api_need(session, "session", &e);
    if (rc == 0)
        rc = fy_session_seq_copy(session->s, from, to, n_past, &e);
    return fy_api_end(rc, &e, error);
}

/* --- work ----------------------------------------------------------------------------------- */

void ferry_session_cancel(ferry_session *session)
{
    if (session != NULL)
        atomic_store_explicit(&session->cancelled, true, memory_order_relaxed);
}

/* Between two layers; the values that it is shown do not matter. */
static int stop_if_cancelled(void *user, uint32_t layer, const float *x, uint32_t pos, uint32_t n,
                             fy_err *e)
{
    ferry_session *session = user;
    (void)layer;
    (void)x;
    (void)pos;
    (void)n;
    if (!atomic_load_explicit(&session->cancelled, memory_order_relaxed))
        return 0;
    atomic_store_explicit(&session->cancelled, false, memory_order_relaxed);
    return fy_fail(e, FY_EINTR, "cancelled");
}

static int check_count(const ferry_session *session, size_t n, fy_err *e)
{
    if (n <= UINT32_MAX)
        return 0;
    return fy_fail(e, FY_EFIT, "%zu tokens, the context has %u positions", n,
                   fy_session_n_ctx(session->s));
}

ferry_status ferry_session_eval(ferry_session *session, const int32_t *ids, size_t n,
                                const float **logits, ferry_error *error)
{
    const fy_eval_sinks sinks = {.hidden = stop_if_cancelled, .user = session};
    fy_err e = {0};
    int rc = -1;
    if (fy_api_need(session, "session", &e) == 0 && fy_api_need(ids, "ids", &e) == 0 &&
        check_count(session, n, &e) == 0)
        rc = fy_session_eval(session->s, ids, (uint32_t)n, &sinks, logits, &e);
    return fy_api_end(rc, &e, error);
}

ferry_status ferry_session_decode(ferry_session *session, const int32_t *ids, const uint32_t *seqs,
                                  const uint8_t *wants, size_t n, const float **logits,
                                  ferry_error *error)
{
    const fy_eval_sinks sinks = {.hidden = stop_if_cancelled, .user = session};
    const fy_batch batch = {.ids = ids, .seqs = seqs, .wants = wants, .n = (uint32_t)n};
    fy_err e = {0};
    int rc = -1;
    if (fy_api_need(session, "session", &e) == 0 && fy_api_need(ids, "ids", &e) == 0 &&
        fy_api_need(seqs, "seqs", &e) == 0 && check_count(session, n, &e) == 0)
        rc = fy_session_decode(session->s, &batch, &sinks, logits, &e);
    return fy_api_end(rc, &e, error);
}
