#include "model/likelihood.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/perplexity.h"

/* What Python's str.rstrip takes off. */
static bool is_blank(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 || cp == 0xA0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

static size_t length_without_blanks(fy_span s)
{
    size_t n = s.len;
    while (n > 0) {
        uint32_t cp;
        size_t at = n - 1;
        while (at > 0 && n - at < 4 && ((uint8_t)s.ptr[at] & 0xC0) == 0x80)
            at--;
        if (fy_utf8_next(s.ptr + at, n - at, &cp) != (int)(n - at) || !is_blank(cp))
            break;
        n = at;
    }
    return n;
}

static int encode_whole(const fy_vocab *v, fy_span context, fy_span blanks, fy_span continuation,
                        fy_pair *p, fy_err *e)
{
    fy_str whole = {0};
    fy_str_add(&whole, context.ptr, context.len);
    fy_str_add(&whole, blanks.ptr, blanks.len);
    fy_str_add(&whole, continuation.ptr, continuation.len);
    const fy_span text = {fy_str_z(&whole), whole.len};
    int rc = whole.oom ? fy_nomem(e) : fy_vocab_encode(v, text, false, false, &p->ids, e);
    fy_str_release(&whole);
    return rc;
}

/* Overwrites the beginning with the context's own tokens: they may be others than those which the
 * whole text begins with. */
static int put_context(const fy_vocab *v, fy_span context, fy_pair *p, fy_err *e)
{
    fy_ids ids = {0};
    const size_t n_bos = p->n_context;
    int rc = fy_vocab_encode(v, context, false, false, &ids, e);
    p->n_context += ids.n;
    if (rc == 0 && p->n_context >= p->ids.n)
        rc = fy_fail(e, FY_EARG,
                     "behind the context's %zu tokens the whole has none: the "
                     "continuation becomes part of the context's last token",
                     ids.n);
    if (rc == 0 && ids.n > 0)
        memcpy(p->ids.id + n_bos, ids.id, ids.n * sizeof *ids.id);
    fy_ids_release(&ids);
    return rc;
}

int fy_pair_encode(const fy_vocab *v, fy_span context, fy_span continuation, fy_pair *p, fy_err *e)
{
    const size_t n = length_without_blanks(context);
    const fy_span blanks = {context.ptr + n, context.len - n};
    const int32_t bos = fy_vocab_bos(v);
    p->ids.n = p->n_context = 0;
    context.len = n;
    if (n == 0 && bos < 0)
        return fy_fail(e, FY_EARG,
                       "the context is empty, and the vocabulary has no beginning token "
                       "to stand for it");
    if (bos >= 0 && (n == 0 || fy_vocab_adds_bos(v))) {
        if (fy_ids_push(&p->ids, bos, e) != 0)
            return -1;
        p->n_context = 1;
    }
    if (encode_whole(v, context, blanks, continuation, p, e) != 0)
        return -1;
    return put_context(v, context, p, e);
}

void fy_pair_release(fy_pair *p)
{
    fy_ids_release(&p->ids);
    p->n_context = 0;
}

int fy_scorer_init(fy_scorer *s, fy_session *session, uint32_t n_vocab, fy_err *e)
{
    *s = (fy_scorer){.session = session, .n_vocab = n_vocab};
    s->wants = malloc(fy_session_n_ctx(session));
    fy_session_rewind(session, 0);
    return s->wants != NULL ? 0 : fy_nomem(e);
}

void fy_scorer_release(fy_scorer *s)
{
    fy_ids_release(&s->held);
    free(s->wants);
    *s = (fy_scorer){0};
}

/* What the sink of one call adds up. */
typedef struct {
    const int32_t *next; /* [i] follows token i of the call */
    uint32_t n_vocab;
    double surprise;
    bool greedy;
} tally;

static int add_rows(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)e;
    tally *t = user;
    for (uint32_t r = 0; r < n; r++, logits += t->n_vocab) {
        const int32_t id = t->next[first + r];
        t->surprise += fy_surprise(logits, t->n_vocab, id);
        for (uint32_t i = 0; t->greedy && i < t->n_vocab; i++)
            t->greedy = logits[i] < logits[id] || i == (uint32_t)id ||
                        (logits[i] == logits[id] && i > (uint32_t)id);
    }
    return 0;
}

static int hold(fy_scorer *s, const int32_t *ids, size_t n, fy_err *e)
{
    s->held.n = 0;
    for (size_t i = 0; i < n; i++) {
        if (fy_ids_push(&s->held, ids[i], e) != 0)
            return -1;
    }
    return 0;
}

int fy_scorer_score(fy_scorer *s, const fy_pair *p, fy_likelihood *out, fy_err *e)
{
    const size_t n_ctx = fy_session_n_ctx(s->session), n_continuation = p->ids.n - p->n_context;
    if (n_continuation > n_ctx)
        return fy_fail(e, FY_EFIT,
                       "a continuation of %zu tokens, the context has room for %zu; use "
                       "a larger -c",
                       n_continuation, n_ctx);
    /* the last token is only ever predicted */
    const size_t skip = p->ids.n - 1 > n_ctx ? p->ids.n - 1 - n_ctx : 0;
    const int32_t *ids = p->ids.id + skip;
    const size_t n = p->ids.n - 1 - skip, scored = p->n_context - skip - 1;
    size_t common = 0;
    while (common < scored && common < s->held.n && ids[common] == s->held.id[common])
        common++;
    for (size_t i = common; i < n; i++)
        s->wants[i - common] = i >= scored;
    tally t = {.next = ids + common + 1, .n_vocab = s->n_vocab, .greedy = true};
    const fy_batch b = {.ids = ids + common, .wants = s->wants, .n = (uint32_t)(n - common)};
    const fy_eval_sinks sinks = {.logits = add_rows, .user = &t};
    s->held.n = common;
    fy_session_rewind(s->session, (uint32_t)common);
    if (fy_session_decode(s->session, &b, &sinks, NULL, e) != 0 || hold(s, ids, n, e) != 0)
        return -1;
    if (!isfinite(t.surprise))
        return fy_fail(e, FY_EFORMAT,
                       "the model's logits are not finite numbers: nothing can be "
                       "said about the continuation");
    *out = (fy_likelihood){-t.surprise, t.greedy, skip > 0, b.n};
    return 0;
}
