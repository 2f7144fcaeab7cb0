/* Perplexity of a text, divergence from a base, likelihood of continuations. */
#include "model/text_scores.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "model/sample_impl.h"

/* --- perplexity --- */

fy_estimate fy_sums_estimate(const fy_sums *s, uint64_t count)
{
    const double n = (double)count, mean = s->sum / n;
    const double variance = fmax(s->squares / n - mean * mean, 0);
    return (fy_estimate){mean, count > 1 ? sqrt(variance / (n - 1)) : NAN};
}

static fy_estimate perplexity(const fy_sums *nll, uint64_t count)
{
    const fy_estimate x = fy_sums_estimate(nll, count);
    return (fy_estimate){exp(x.mean), x.error * exp(x.mean)};
}

double fy_ppl_value(const fy_ppl *p)
{
    return p->n_tokens > 0 ? exp(p->nll / (double)p->n_tokens) : NAN;
}

double fy_ppl_per_word(const fy_ppl *p)
{
    return p->n_words > 0 ? exp(p->nll / (double)p->n_words) : NAN;
}

double fy_ppl_error(const fy_ppl *p)
{
    return perplexity(&(fy_sums){p->nll, p->nll_squares}, p->n_tokens).error;
}

void fy_ppl_add(fy_ppl *p, const fy_ppl_window *w)
{
    p->window = *w;
    p->n_tokens += w->n_tokens;
    p->n_words += w->n_words;
    p->nll += w->nll;
    p->nll_squares += w->nll_squares;
}

int fy_ppl_check(const fy_ppl *p, uint32_t n_ctx, fy_err *e)
{
    return p->n_tokens > 0
               ? 0
               : fy_fail(e, FY_EARG,
                         "the text has no token to score: it is empty, or shorter than a piece of "
                         "%u tokens",
                         n_ctx);
}

/* One piece: ids as they are computed, and the first position whose token is scored. */
typedef struct {
    const int32_t *ids;
    uint32_t n, first, n_vocab;
    fy_session *beside;
    const fy_ppl_sinks *sinks;
    fy_ppl_window sums;
} piece;

double fy_surprise(const float *logits, uint32_t n_vocab, int32_t id)
{
    float max = logits[0];
    for (uint32_t i = 1; i < n_vocab; i++)
        max = logits[i] > max ? logits[i] : max;
    double sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - (double)max);
    return log(sum) - ((double)logits[id] - (double)max);
}

static int hold(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    (void)pos, (void)n, (void)e;
    *(const float **)user = logits;
    return 0;
}

static int score(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    piece *p = user;
    const float *beside = NULL;
    const fy_eval_sinks sinks = {.logits = hold, .user = &beside};
    /* as many as a session holds at once */
    if (p->beside != NULL && fy_session_eval(p->beside, p->ids + pos, n, &sinks, NULL, e) != 0)
        return -1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t next = pos + i + 1;
        if (next < p->first || next >= p->n)
            continue;
        const float *row = logits + (size_t)i * p->n_vocab;
        double s = fy_surprise(row, p->n_vocab, p->ids[next]);
        p->sums.nll += s;
        p->sums.nll_squares += s * s;
        p->sums.n_tokens++;
        if (p->sinks->row != NULL &&
            p->sinks->row(p->sinks->user, p->ids[next], s, row,
                          beside != NULL ? beside + (size_t)i * p->n_vocab : NULL, e) != 0)
            return -1;
    }
    return 0;
}

/* Beginnings of words in a stretch of text; *in_word carries over from one stretch to the next. */
static uint64_t count_words(const char *text, size_t n, bool *in_word)
{
    uint64_t words = 0;
    for (size_t i = 0; i < n; i++) {
        bool blank = text[i] != '\0' && strchr(" \t\r\n\v\f", text[i]) != NULL;
        words += !blank && !*in_word;
        *in_word = !blank;
    }
    return words;
}

typedef struct {
    fy_session *session;
    const fy_vocab *vocab;
    const fy_ppl_params *p;
    uint32_t n_vocab;
    fy_ids buffer;           /* owned; the piece that is computed */
    uint64_t at, begin, end; /* where it is, and the part: in windows, or in bytes of the text */
    uint64_t n_rows;         /* positions that are scored, so far in the text */
    bool in_word;
    const fy_ppl_sinks *sinks;
    fy_ppl sums;
} meter;

/* Which part of so much is computed. */
static void set_part(meter *m, uint64_t n)
{
    const fy_job_part part = m->p->part;
    m->begin = part.n > 0 ? fy_job_part_begin(n, part.i, part.n) : 0;
    m->end = part.n > 0 ? fy_job_part_begin(n, part.i + 1, part.n) : n;
}

static bool is_mine(const meter *m)
{
    return m->at >= m->begin && m->at < m->end;
}

/* Computes the buffer, scoring the tokens from position `first` on. */
static int compute(meter *m, uint32_t first, fy_ppl_window *out, fy_err *e)
{
    piece p = {.ids = m->buffer.id,
               .n = (uint32_t)m->buffer.n,
               .first = first,
               .n_vocab = m->n_vocab,
               .beside = m->p->beside,
               .sinks = m->sinks};
    fy_eval_sinks sinks = {.logits = score, .user = &p};
    const fy_ppl_sinks *s = m->sinks;
    if (s->begin != NULL && s->begin(s->user, m->sums.n_windows - 1, m->n_rows, e) != 0)
        return -1;
    fy_session_rewind(m->session, 0);
    if (p.beside != NULL)
        fy_session_rewind(p.beside, 0);
    /* the last token is only ever predicted */
    const uint32_t n = m->p->compute_last ? p.n : p.n - 1;
    const int rc = n > 0 ? fy_session_eval(m->session, p.ids, n, &sinks, NULL, e) : 0;
    *out = p.sums;
    return rc;
}

/* The buffer is the next window: computed, or passed over as it is not of this part. */
static int run_piece(meter *m, uint32_t first, fy_err *e)
{
    const uint32_t n_scored = first < m->buffer.n ? (uint32_t)m->buffer.n - first : 0;
    const uint64_t number = m->sums.n_windows++;
    const bool computed = is_mine(m) && number >= m->p->done;
    fy_ppl_window w = {0};
    fy_str text = {0};
    m->sums.first = m->at < m->begin ? number + 1 : m->sums.first;
    m->sums.end = m->at < m->end ? number + 1 : m->sums.end;
    int rc = computed ? compute(m, first, &w, e) : fy_check_interrupt(e);
    if (rc == 0 && n_scored > 0)
        rc = fy_vocab_decode(m->vocab, m->buffer.id + first, n_scored, false, &text, e);
    if (rc == 0)
        w.n_words = count_words(fy_str_z(&text), text.len, &m->in_word);
    fy_str_release(&text);
    m->n_rows += n_scored;
    if (rc != 0 || !computed)
        return rc;
    m->sums.n_done++;
    fy_ppl_add(&m->sums, &w);
    return m->sinks->piece != NULL ? m->sinks->piece(m->sinks->user, &m->sums, e) : 0;
}

/* ids in pieces after BOS, if the vocabulary has one; without it a piece's first token is not
 * predicted by anything. */
static int run_scored(meter *m, const int32_t *ids, size_t n, bool keep_rest, fy_err *e)
{
    int32_t bos = fy_vocab_bos(m->vocab);
    size_t step = bos >= 0 ? m->p->n_ctx - 1 : m->p->n_ctx;
    for (size_t at = 0; at < n; at += step) {
        size_t k = n - at < step ? n - at : step;
        if (k < step && !keep_rest && at > 0)
            break;
        if (!keep_rest)
            m->at = at / step;
        m->buffer.n = 0;
        if (bos >= 0 && fy_ids_push(&m->buffer, bos, e) != 0)
            return -1;
        if (fy_ids_append(&m->buffer, ids + at, k, e) != 0 || run_piece(m, 1, e) != 0)
            return -1;
    }
    return 0;
}

static uint64_t count_segments(const meter *m, size_t n, bool keep_rest)
{
    size_t step = fy_vocab_bos(m->vocab) >= 0 ? m->p->n_ctx - 1 : m->p->n_ctx;
    size_t whole = n / step;
    return n % step != 0 && (keep_rest || whole == 0) ? whole + 1 : whole;
}

static int by_pieces(meter *m, fy_span text, fy_err *e)
{
    fy_ids ids = {0};
    int rc = fy_vocab_encode(m->vocab, text, false, false, &ids, e);
    set_part(m, count_segments(m, ids.n, false));
    m->sums.n_segments = m->end - m->begin;
    if (rc == 0)
        rc = run_scored(m, ids.id, ids.n, false, e);
    fy_ids_release(&ids);
    return rc;
}

/* The next line that is not empty; false at the end. */
static bool next_line(fy_span *rest, fy_span *line)
{
    *line = (fy_span){0};
    while (rest->len > 0 && line->len == 0)
        *line = fy_span_cut_line(rest);
    return line->len > 0;
}

static int by_lines(meter *m, fy_span text, fy_err *e)
{
    fy_ids ids = {0};
    fy_span rest = text, line;
    int rc = 0;
    set_part(m, text.len);
    while (next_line(&rest, &line)) {
        m->at = (uint64_t)(line.ptr - text.ptr);
        m->sums.n_segments += is_mine(m); /* of one piece each, as nearly all lines are */
    }
    for (rest = text; rc == 0 && next_line(&rest, &line);) {
        m->at = (uint64_t)(line.ptr - text.ptr);
        ids.n = 0;
        m->in_word = false;
        rc = fy_vocab_encode(m->vocab, line, false, false, &ids, e);
        if (rc == 0)
            rc = run_scored(m, ids.id, ids.n, true, e);
    }
    fy_ids_release(&ids);
    return rc;
}

static int as_llama(meter *m, fy_span text, fy_err *e)
{
    fy_ids ids = {0};
    uint32_t n = m->p->n_ctx;
    int rc = fy_vocab_encode(m->vocab, text, true, false, &ids, e);
    bool bos = fy_vocab_adds_bos(m->vocab) && fy_vocab_bos(m->vocab) >= 0;
    set_part(m, ids.n / n);
    m->sums.n_segments = m->end - m->begin;
    for (size_t at = 0; rc == 0 && at + n <= ids.n; at += n) {
        m->at = at / n;
        m->buffer.n = 0;
        rc = fy_ids_append(&m->buffer, ids.id + at, n, e);
        if (rc == 0 && bos)
            m->buffer.id[0] = fy_vocab_bos(m->vocab);
        if (rc == 0)
            rc = run_piece(m, n / 2 + 1, e);
    }
    fy_ids_release(&ids);
    return rc;
}

int fy_perplexity(fy_session *s, const fy_vocab *v, uint32_t n_vocab, fy_span text,
                  const fy_ppl_params *p, const fy_ppl_sinks *sinks, fy_ppl *out, fy_err *e)
{
    meter m = {.session = s, .vocab = v, .p = p, .n_vocab = n_vocab, .sinks = sinks};
    *out = (fy_ppl){0};
    if (p->n_ctx < 2 || p->n_ctx > fy_session_n_ctx(s))
        return fy_fail(e, FY_EARG, "pieces of %u tokens, expected 2 to %u", p->n_ctx,
                       fy_session_n_ctx(s));
    int rc = p->method == FY_PPL_LINES   ? by_lines(&m, text, e)
             : p->method == FY_PPL_LLAMA ? as_llama(&m, text, e)
                                         : by_pieces(&m, text, e);
    fy_ids_release(&m.buffer);
    fy_session_rewind(s, 0);
    if (rc == 0 && (p->part.n == 0 || m.sums.n_windows == 0))
        rc = fy_ppl_check(&m.sums, p->n_ctx, e);
    *out = m.sums;
    return rc;
}

/* --- divergence --- */

static void add(fy_sums *s, double v)
{
    s->sum += v;
    s->squares += v * v;
}

/* KL(base || model): sum of p (ln p - ln q). */
static double divergence(const float *below, const float *logits, double ln_q_offset,
                         uint32_t n_vocab)
{
    double z = 0, sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        const double p = fy_exp_neg(-(double)below[i]);
        z += p;
        sum += p * (-(double)below[i] - ((double)logits[i] + ln_q_offset));
    }
    return sum / z - log(z);
}

static bool same_top(const float *below, const float *logits, uint32_t n_vocab)
{
    uint32_t base = 0, top = 0;
    while (base + 1 < n_vocab && below[base] > 0)
        base++;
    for (uint32_t i = 1; i < n_vocab; i++)
        top = logits[i] > logits[top] ? i : top;
    return base == top;
}

int fy_divergence_add(fy_divergence *d, const fy_kl_token *next, const float *below,
                      const float *logits, double surprise, uint32_t n_vocab, fy_err *e)
{
    /* ln q_i = logit_i - logit_next - surprise */
    const double kld = divergence(below, logits, -(double)logits[next->id] - surprise, n_vocab);
    if (!isfinite(kld))
        return fy_fail(e, FY_EFORMAT,
                       "the model's logits at scored position %llu are not finite numbers: there "
                       "is nothing to compare",
                       (unsigned long long)d->n);
    const float kept = (float)fmax(kld, 0); /* what is below is rounding */
    if (fy_append(&d->kld_of, &d->n, &d->cap, &kept, sizeof kept, e) != 0)
        return -1;
    fy_divergence_sums *s = &d->window;
    s->n_same_top += same_top(below, logits, n_vocab);
    add(&s->kld, fmax(kld, 0));
    add(&s->delta_p, exp(-surprise) - exp((double)next->logprob));
    add(&s->nll, surprise);
    add(&s->nll_base, -(double)next->logprob);
    add(&s->ln_ratio, surprise + (double)next->logprob);
    return 0;
}

static void join(fy_sums *s, const fy_sums *next)
{
    s->sum += next->sum;
    s->squares += next->squares;
}

static void join_window(fy_divergence *d, const fy_divergence_sums *w)
{
    d->all.n_same_top += w->n_same_top;
    join(&d->all.kld, &w->kld);
    join(&d->all.delta_p, &w->delta_p);
    join(&d->all.nll, &w->nll);
    join(&d->all.nll_base, &w->nll_base);
    join(&d->all.ln_ratio, &w->ln_ratio);
    d->n_before = d->n;
}

void fy_divergence_end_window(fy_divergence *d)
{
    join_window(d, &d->window);
    d->window = (fy_divergence_sums){0};
}

int fy_divergence_add_window(fy_divergence *d, const fy_divergence_sums *sums, const float *kld_of,
                             size_t n, fy_err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (fy_append(&d->kld_of, &d->n, &d->cap, &kld_of[i], sizeof kld_of[i], e) != 0)
            return -1;
    }
    join_window(d, sums);
    return 0;
}

void fy_divergence_release(fy_divergence *d)
{
    free(d->kld_of);
    *d = (fy_divergence){0};
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double percentile(const float *sorted, uint64_t n, double share)
{
    const double at = share * (double)(n - 1);
    const size_t i = (size_t)at;
    if (i + 1 >= n)
        return sorted[n - 1];
    return sorted[i] + (at - (double)i) * ((double)sorted[i + 1] - (double)sorted[i]);
}

void fy_divergence_end(fy_divergence *d, fy_divergence_report *out)
{
    static const double share[FY_KLD_PERCENTILES] = {0.5, 0.9, 0.95, 0.99, 0.999, 1};
    if (d->n > d->n_before)
        fy_divergence_end_window(d);
    const fy_divergence_sums *a = &d->all;
    const fy_sums same = {(double)a->n_same_top, (double)a->n_same_top};
    qsort(d->kld_of, (size_t)d->n, sizeof *d->kld_of, by_value);
    *out = (fy_divergence_report){.n = d->n,
                                  .kld = fy_sums_estimate(&a->kld, d->n),
                                  .same_top = fy_sums_estimate(&same, d->n),
                                  .delta_p = fy_sums_estimate(&a->delta_p, d->n),
                                  .delta_p_rms = sqrt(a->delta_p.squares / (double)d->n),
                                  .ppl = perplexity(&a->nll, d->n),
                                  .ppl_base = perplexity(&a->nll_base, d->n),
                                  .ln_ratio = fy_sums_estimate(&a->ln_ratio, d->n)};
    for (int i = 0; i < FY_KLD_PERCENTILES; i++)
        out->kld_at[i] = percentile(d->kld_of, d->n, share[i]);
}

/* --- likelihood --- */

/* What Python's str.rstrip takes off. */
static bool is_blank(uint32_t cp)
{
    return fy_is_white_space(cp) || (cp >= 0x1C && cp <= 0x1F);
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

static int encode_whole(const fy_vocab *v, fy_span context, fy_span continuation, fy_pair *p,
                        fy_err *e)
{
    fy_str whole = {0};
    fy_str_add(&whole, context.ptr, context.len);
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
                     "the whole text has no token after the context's %zu: the "
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
    const int32_t bos = fy_vocab_bos(v);
    p->ids.n = p->n_context = 0;
    if (n == 0 && bos < 0)
        return fy_fail(e, FY_EARG,
                       "the context is empty, and the vocabulary has no beginning token "
                       "to stand for it");
    if (bos >= 0 && (n == 0 || fy_vocab_adds_bos(v))) {
        if (fy_ids_push(&p->ids, bos, e) != 0)
            return -1;
        p->n_context = 1;
    }
    if (encode_whole(v, context, continuation, p, e) != 0)
        return -1;
    return put_context(v, (fy_span){context.ptr, n}, p, e);
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
    fy_session_rewind(s->session, (uint32_t)common);
    common = fy_session_n_past(s->session);
    for (size_t i = common; i < n; i++)
        s->wants[i - common] = i >= scored;
    tally t = {.next = ids + common + 1, .n_vocab = s->n_vocab, .greedy = true};
    const fy_batch b = {.ids = ids + common, .wants = s->wants, .n = (uint32_t)(n - common)};
    const fy_eval_sinks sinks = {.logits = add_rows, .user = &t};
    s->held.n = common;
    if (fy_session_decode(s->session, &b, &sinks, NULL, e) != 0 ||
        fy_ids_append(&s->held, ids + common, n - common, e) != 0)
        return -1;
    if (!isfinite(t.surprise))
        return fy_fail(e, FY_EFORMAT,
                       "the model's logits are not finite numbers: the "
                       "continuation has no likelihood");
    *out = (fy_likelihood){-t.surprise, t.greedy, skip > 0, b.n};
    return 0;
}
