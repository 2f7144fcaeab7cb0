#include "model/perplexity.h"

#include <math.h>
#include <string.h>

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
    if (p->n_tokens < 2)
        return NAN;
    double n = (double)p->n_tokens, mean = p->nll / n;
    double variance = fmax(p->nll_squares / n - mean * mean, 0);
    return sqrt(variance / (n - 1)) * exp(mean);
}

/* One piece: ids as they are computed, and the first position whose token is scored. */
typedef struct {
    const int32_t *ids;
    uint32_t n, first, n_vocab;
    const fy_ppl_sinks *sinks;
    fy_ppl *sums;
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

static int score(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    const piece *p = user;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t next = pos + i + 1;
        if (next < p->first || next >= p->n)
            continue;
        const float *row = logits + (size_t)i * p->n_vocab;
        double s = fy_surprise(row, p->n_vocab, p->ids[next]);
        p->sums->nll += s;
        p->sums->nll_squares += s * s;
        p->sums->n_tokens++;
        if (p->sinks->row != NULL && p->sinks->row(p->sinks->user, p->ids[next], s, row, e) != 0)
            return -1;
    }
    return 0;
}

/* Beginnings of words in a stretch of text; *in_word goes on from one stretch to the next. */
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
    fy_ids buffer; /* owned; the piece that is computed */
    bool in_word;
    const fy_ppl_sinks *sinks;
    fy_ppl sums;
} meter;

/* Computes the buffer, scoring the tokens from position `first` on. */
static int run_piece(meter *m, uint32_t first, fy_err *e)
{
    piece p = {m->buffer.id, (uint32_t)m->buffer.n, first, m->n_vocab, m->sinks, &m->sums};
    fy_eval_sinks sinks = {.logits = score, .user = &p};
    fy_str text = {0};
    fy_session_rewind(m->session, 0);
    /* the last token is only ever predicted */
    const uint32_t n = m->p->compute_last ? p.n : p.n - 1;
    int rc = n > 0 ? fy_session_eval(m->session, p.ids, n, &sinks, NULL, e) : 0;
    if (rc == 0 && first < p.n)
        rc = fy_vocab_decode(m->vocab, p.ids + first, p.n - first, false, &text, e);
    if (rc == 0)
        m->sums.n_words += count_words(fy_str_z(&text), text.len, &m->in_word);
    fy_str_release(&text);
    m->sums.n_done++;
    return rc == 0 && m->sinks->piece != NULL ? m->sinks->piece(m->sinks->user, &m->sums, e) : rc;
}

/* ids in pieces behind BOS, if the vocabulary has one; without it a piece's first token is not
 * predicted by anything. */
static int run_scored(meter *m, const int32_t *ids, size_t n, bool keep_rest, fy_err *e)
{
    int32_t bos = fy_vocab_bos(m->vocab);
    size_t step = bos >= 0 ? m->p->n_ctx - 1 : m->p->n_ctx;
    for (size_t at = 0; at < n; at += step) {
        size_t k = n - at < step ? n - at : step;
        if (k < step && !keep_rest && at > 0)
            break;
        m->buffer.n = 0;
        if (bos >= 0 && fy_ids_push(&m->buffer, bos, e) != 0)
            return -1;
        for (size_t i = 0; i < k; i++) {
            if (fy_ids_push(&m->buffer, ids[at + i], e) != 0)
                return -1;
        }
        if (run_piece(m, 1, e) != 0)
            return -1;
    }
    return 0;
}

static uint64_t count_pieces(const meter *m, size_t n, bool keep_rest)
{
    size_t step = fy_vocab_bos(m->vocab) >= 0 ? m->p->n_ctx - 1 : m->p->n_ctx;
    size_t whole = n / step;
    return n % step != 0 && (keep_rest || whole == 0) ? whole + 1 : whole;
}

static int by_pieces(meter *m, fy_span text, fy_err *e)
{
    fy_ids ids = {0};
    int rc = fy_vocab_encode(m->vocab, text, false, false, &ids, e);
    m->sums.n_pieces = count_pieces(m, ids.n, false);
    if (rc == 0)
        rc = run_scored(m, ids.id, ids.n, false, e);
    fy_ids_release(&ids);
    return rc;
}

/* The next line that is not empty; false at the end. */
static bool next_line(fy_span *rest, fy_span *line)
{
    while (rest->len > 0) {
        const char *end = memchr(rest->ptr, '\n', rest->len);
        size_t n = end != NULL ? (size_t)(end - rest->ptr) : rest->len;
        *line = (fy_span){rest->ptr, n > 0 && rest->ptr[n - 1] == '\r' ? n - 1 : n};
        rest->ptr += end != NULL ? n + 1 : n;
        rest->len -= end != NULL ? n + 1 : n;
        if (line->len > 0)
            return true;
    }
    return false;
}

static int by_lines(meter *m, fy_span text, fy_err *e)
{
    fy_ids ids = {0};
    fy_span rest = text, line;
    int rc = 0;
    while (next_line(&rest, &line))
        m->sums.n_pieces++; /* of one piece each, as nearly all lines are */
    for (rest = text; rc == 0 && next_line(&rest, &line);) {
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
    m->sums.n_pieces = ids.n / n;
    for (size_t at = 0; rc == 0 && at + n <= ids.n; at += n) {
        m->buffer.n = 0;
        for (uint32_t i = 0; rc == 0 && i < n; i++)
            rc =
                fy_ids_push(&m->buffer, i == 0 && bos ? fy_vocab_bos(m->vocab) : ids.id[at + i], e);
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
    if (rc == 0 && m.sums.n_tokens == 0)
        rc = fy_fail(e, FY_EARG,
                     "the text has no token to score: it is empty, or shorter than a piece of %u "
                     "tokens",
                     p->n_ctx);
    *out = m.sums;
    return rc;
}
