/* ferry.h: what a sequence holds as bytes, and back. */
#include "api/api_impl.h"
#include "model/prompt_cache.h"

typedef struct {
    ferry_put_fn put;
    void *user;
} target;

static int pass_on(void *user, const void *p, size_t n, uint64_t at, uint64_t bytes, fy_err *e)
{
    const target *t = user;
    return t->put(t->user, p, n) == 0
               ? 0
               : fy_fail(e, FY_EIO, "put has refused bytes %llu to %llu of %llu",
                         (unsigned long long)at, (unsigned long long)(at + n),
                         (unsigned long long)bytes);
}

ferry_status ferry_session_save(ferry_session *session, uint32_t seq, const int32_t *ids, size_t n,
                                ferry_put_fn put, void *user, ferry_error *error)
{
    fy_err e = {0};
    target t = {put, user};
    int rc = -1;
    if (put == NULL)
        fy_fail(&e, FY_EARG, "put is NULL");
    else if (fy_api_need(session, "session", &e) == 0 && fy_api_need(ids, "ids", &e) == 0) {
        const fy_session *s = fy_api_session_of(session);
        const uint32_t has = fy_session_seq_n_past(s, seq);
        rc = n > 0 && n == has
                 ? fy_prompt_cache_put(s, seq, ids, has, pass_on, &t, &e)
                 : fy_fail(&e, FY_EARG, "%zu ids, and sequence %u holds %u positions", n, seq, has);
    }
    return fy_api_end(rc, &e, error);
}

/* How many of these ids the bytes begin with, and the session has room for. */
static uint32_t common(const fy_prompt_cache *c, const fy_session *s, const int32_t *ids, size_t n)
{
    const uint32_t n_ctx = fy_session_n_ctx(s);
    uint32_t has, k = 0;
    const int32_t *its = fy_prompt_cache_ids(c, &has);
    while (k < n && k < has && k < n_ctx && its[k] == ids[k])
        k++;
    return k;
}

static int load(fy_session *s, uint32_t seq, const void *bytes, size_t n_bytes, const int32_t *ids,
                size_t n, fy_err *e)
{
    fy_prompt_cache_shape want;
    if (fy_prompt_cache_shape_of(s, &want, e) != 0)
        return -1;
    fy_prompt_cache *c = fy_prompt_cache_parse(bytes, n_bytes, &want, e);
    const int rc = c != NULL && fy_prompt_cache_check(c, s, e) == 0
                       ? fy_prompt_cache_load(c, s, seq, common(c, s, ids, n), e)
                       : -1;
    fy_prompt_cache_close(c);
    return rc;
}

ferry_status ferry_session_load(ferry_session *session, uint32_t seq, const void *bytes,
                                size_t n_bytes, const int32_t *ids, size_t n, ferry_error *error)
{
    fy_err e = {0};
    int rc = -1;
    if (fy_api_need(session, "session", &e) == 0 && fy_api_need(bytes, "bytes", &e) == 0 &&
        fy_api_need(ids, "ids", &e) == 0)
        rc = load(fy_api_session_of(session), seq, bytes, n_bytes, ids, n, &e);
    return fy_api_end(rc, &e, error);
}
