/* `ferry eval --text`: the perplexity of a text, with --kl-save and --kl-base (distributions saved,
 * or compared with those that another model saved) and --imatrix-out (an importance matrix
 * collected on the way). */
#include "cli/measure/eval.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "cli/engine.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "model/imatrix_collect.h"

/* --- distributions ---------------------------------------------------------------------------- */

typedef struct {
    const char *save, *base; /* paths; one of them */
    const fy_vocab *vocab;
    fy_span text;
    fy_ppl_params ppl;
    uint32_t n_vocab; /* logits of a row */
} kl_params;

/* --kl-save or --kl-base: rows go through kl_row as the text is scored. */
typedef struct {
    kl_params p;
    fy_kl_writer *writer; /* owned; of --kl-save */
    uint64_t bytes, n_rows;
    fy_kl_reader *reader; /* owned; of --kl-base */
    float *below;         /* owned, [n_vocab] */
    fy_divergence sums;
    fy_divergence_report report;
} kl_run;

/* Every token's text and kind. */
static int hash_vocab(const fy_vocab *v, uint8_t out[FY_SHA256_BYTES], fy_err *e)
{
    fy_sha256 *h = fy_sha256_new(e);
    if (h == NULL)
        return -1;
    int rc = 0;
    for (uint32_t id = 0; rc == 0 && id < fy_vocab_n(v); id++) {
        const fy_span piece = fy_vocab_piece(v, (int32_t)id);
        const uint32_t head[] = {(uint32_t)piece.len, (uint32_t)fy_vocab_type(v, (int32_t)id)};
        rc = fy_sha256_add(h, head, sizeof head, e);
        if (rc == 0)
            rc = fy_sha256_add(h, piece.ptr, piece.len, e);
    }
    return fy_sha256_end(h, out, e) == 0 ? rc : -1;
}

static const char *method_name(uint32_t method)
{
    return method == FY_PPL_LINES ? " --lines" : method == FY_PPL_LLAMA ? " --llama-cut" : "";
}

/* Are the base's positions those of this run? */
static int check_base(const fy_kl_head *base, const fy_kl_head *now, fy_err *e)
{
    if (base->n_vocab != now->n_vocab)
        return fy_fail(e, FY_EFORMAT,
                       "saved by a model with %u tokens, this one has %u: only models of one "
                       "vocabulary can be compared",
                       base->n_vocab, now->n_vocab);
    if (memcmp(base->vocab_hash, now->vocab_hash, FY_SHA256_BYTES) != 0)
        return fy_fail(e, FY_EFORMAT,
                       "saved by a model with other tokens: only models of one vocabulary can be "
                       "compared");
    if (memcmp(base->text_hash, now->text_hash, FY_SHA256_BYTES) != 0)
        return fy_fail(e, FY_EFORMAT,
                       "saved for another text: give the same --text, or save it again");
    if (base->method != now->method || base->n_ctx != now->n_ctx)
        return fy_fail(e, FY_EFORMAT, "saved with -c %u%s, this is -c %u%s: give the same",
                       base->n_ctx, method_name(base->method), now->n_ctx,
                       method_name(now->method));
    if (base->n_rows == 0)
        return fy_fail(e, FY_EFORMAT, "damaged: it has no position");
    return 0;
}

static int open_base(kl_run *k, const fy_kl_head *now, fy_err *e)
{
    k->reader = fy_kl_open(k->p.base, e);
    if (k->reader == NULL)
        return -1;
    if (check_base(fy_kl_head_of(k->reader), now, e) != 0)
        return fy_ctx(e, "%s", k->p.base);
    k->below = malloc((size_t)k->p.n_vocab * sizeof *k->below);
    return k->below != NULL ? 0 : fy_nomem(e);
}

static void kl_close(kl_run *k)
{
    if (k == NULL)
        return;
    fy_kl_abort(k->writer);
    fy_kl_close(k->reader);
    fy_divergence_release(&k->sums);
    free(k->below);
    free(k);
}

static kl_run *kl_open(const kl_params *p, fy_err *e)
{
    fy_kl_head head = {
        .method = (uint32_t)p->ppl.method, .n_ctx = p->ppl.n_ctx, .n_vocab = p->n_vocab};
    kl_run *k = calloc(1, sizeof *k);
    if (k == NULL) {
        fy_nomem(e);
        return NULL;
    }
    k->p = *p;
    int rc = hash_vocab(p->vocab, head.vocab_hash, e);
    if (rc == 0)
        rc = fy_sha256_of(p->text.ptr, p->text.len, head.text_hash, e);
    if (rc == 0 && p->base != NULL)
        rc = open_base(k, &head, e);
    if (rc == 0 && p->base == NULL) {
        k->writer = fy_kl_create(p->save, &head, e);
        rc = k->writer != NULL ? 0 : -1;
    }
    if (rc == 0)
        return k;
    kl_close(k);
    return NULL;
}

static int compare(kl_run *k, int32_t id, double surprise, const float *logits, fy_err *e)
{
    fy_kl_token next;
    if (fy_kl_next(k->reader, &next, k->below, e) != 0)
        return fy_ctx(e, "%s", k->p.base);
    if (next.id != id)
        return fy_fail(e, FY_EFORMAT,
                       "%s: scored position %llu is followed by token %d there and by %d here: the "
                       "text was split into other tokens",
                       k->p.base, (unsigned long long)k->sums.n, next.id, id);
    return fy_divergence_add(&k->sums, &next, k->below, logits, surprise, k->p.n_vocab, e);
}

static int kl_row(void *user, int32_t id, double surprise, const float *logits, fy_err *e)
{
    kl_run *k = user;
    if (k->reader != NULL)
        return compare(k, id, surprise, logits, e);
    k->n_rows++;
    return fy_kl_add(k->writer, logits, (fy_kl_token){id, (float)-surprise}, e);
}

static int kl_end(kl_run *k, fy_err *e)
{
    if (k->reader != NULL) {
        if (fy_kl_end(k->reader, e) != 0)
            return fy_ctx(e, "%s", k->p.base);
        fy_divergence_end(&k->sums, &k->report);
        return 0;
    }
    fy_kl_writer *w = k->writer;
    k->writer = NULL;
    return fy_kl_commit(w, &k->bytes, e);
}

static bool kl_running(const kl_run *k, fy_estimate *out)
{
    if (k == NULL || k->sums.n < 2)
        return false;
    *out = fy_sums_estimate(&k->sums.kld, k->sums.n);
    return true;
}

static void kl_text(const kl_run *k, fy_str *out)
{
    const fy_divergence_report *r = &k->report;
    if (k->reader == NULL) {
        fy_str_printf(out, "saved %llu distributions of %u tokens, %llu bytes, to %s\n",
                      (unsigned long long)k->n_rows, k->p.n_vocab, (unsigned long long)k->bytes,
                      k->p.save);
        return;
    }
    fy_str_printf(out, "base perplexity %.5f +/- %.5f, ratio %.6f, ln ratio %.6f +/- %.6f\n",
                  r->ppl_base.mean, r->ppl_base.error, exp(r->ln_ratio.mean), r->ln_ratio.mean,
                  r->ln_ratio.error);
    fy_str_printf(out, "KL divergence %.6g +/- %.2g\n", r->kld.mean, r->kld.error);
    fy_str_printf(out,
                  "  median %.6g, 90 %% %.6g, 95 %% %.6g, 99 %% %.6g, 99.9 %% %.6g, max %.6g\n",
                  r->kld_at[FY_KLD_MEDIAN], r->kld_at[FY_KLD_90], r->kld_at[FY_KLD_95],
                  r->kld_at[FY_KLD_99], r->kld_at[FY_KLD_99_9], r->kld_at[FY_KLD_MAX]);
    fy_str_printf(out, "same top token %.3f %% +/- %.3f %%\n", 100 * r->same_top.mean,
                  100 * r->same_top.error);
    fy_str_printf(out, "delta p mean %.4f %% +/- %.4f %%, RMS %.4f %%\n", 100 * r->delta_p.mean,
                  100 * r->delta_p.error, 100 * r->delta_p_rms);
}

static int kl_json(const kl_run *k, json_t *into)
{
    static const char *const name[FY_KLD_PERCENTILES] = {"median", "p90",   "p95",
                                                         "p99",    "p99_9", "max"};
    const fy_divergence_report *r = &k->report;
    if (k->reader == NULL)
        return json_object_set_new(into, "kl_save",
                                   json_pack("{s:s, s:I, s:I}", "file", k->p.save, "positions",
                                             (json_int_t)k->n_rows, "bytes", (json_int_t)k->bytes));
    json_t *kld = json_pack("{s:o, s:o}", "mean", fy_eval_number(r->kld.mean), "error",
                            fy_eval_number(r->kld.error));
    int bad = 0;
    for (int i = 0; i < FY_KLD_PERCENTILES; i++)
        bad |= json_object_set_new(kld, name[i], fy_eval_number(r->kld_at[i]));
    bad |= json_object_set_new(into, "kl_base", json_string(k->p.base));
    bad |= json_object_set_new(into, "kl_divergence", kld);
    bad |= json_object_update_new(
        into,
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "same_top",
                  fy_eval_number(r->same_top.mean), "same_top_error",
                  fy_eval_number(r->same_top.error), "delta_p", fy_eval_number(r->delta_p.mean),
                  "delta_p_error", fy_eval_number(r->delta_p.error), "delta_p_rms",
                  fy_eval_number(r->delta_p_rms), "base_perplexity",
                  fy_eval_number(r->ppl_base.mean), "base_perplexity_error",
                  fy_eval_number(r->ppl_base.error), "ln_ratio", fy_eval_number(r->ln_ratio.mean),
                  "ln_ratio_error", fy_eval_number(r->ln_ratio.error)));
    return bad;
}

/* --- importance matrix ------------------------------------------------------------------------ */

static fy_collector *imatrix_begin(fy_session *s, const char *model, const char *out, fy_err *e)
{
    if (fy_file_is_same(model, out)) {
        fy_fail(e, FY_EARG, "%s: is the model, expected another name for the importance matrix",
                out);
        return NULL;
    }
    fy_out *o = fy_out_open(out, 0, e); /* the work may take long: can this be written? */
    if (o == NULL)
        return NULL;
    fy_out_abort(o);
    return fy_collector_new(s, e);
}

static int imatrix_end(const fy_collector *c, const char *out, const char *text, uint32_t n_ctx,
                       fy_err *e)
{
    fy_collected found;
    char shown[FY_QUOTE_BYTES];
    if (fy_collector_write(c, out, fy_span_of(text), n_ctx, &found, e) != 0)
        return -1;
    fy_log(FY_LOG_INFO, "%s: importance of the columns of %zu tensors over %llu tokens", out,
           found.n_tensors, (unsigned long long)found.n_tokens);
    if (found.n_never > 0)
        fy_log(FY_LOG_WARN,
               "%llu matrices of experts were chosen by no token, the first in %s: quantize takes "
               "all their columns for equally important; a longer text may reach them",
               (unsigned long long)found.n_never, fy_quote(shown, sizeof shown, found.never));
    return 0;
}

/* --- perplexity ------------------------------------------------------------------------------- */

enum { SECONDS_BETWEEN = 5 };

/* A text that is being measured. */
typedef struct {
    kl_run *kl; /* owned; NULL: perplexity alone */
    double shown_s;
} progress;

static int show_running(void *user, const fy_ppl *p, fy_err *e)
{
    (void)e;
    progress *g = user;
    double now = fy_now_s();
    if (now - g->shown_s < (double)SECONDS_BETWEEN || p->n_done >= p->n_segments)
        return 0;
    fy_estimate kld;
    char more[80] = "";
    g->shown_s = now;
    if (kl_running(g->kl, &kld))
        snprintf(more, sizeof more, ", KL divergence %.6f +/- %.6f", kld.mean, kld.error);
    fy_log(FY_LOG_INFO, "%llu of %llu: perplexity %.4f +/- %.4f%s", (unsigned long long)p->n_done,
           (unsigned long long)p->n_segments, fy_ppl_value(p), fy_ppl_error(p), more);
    return 0;
}

static int show_row(void *user, int32_t id, double surprise, const float *logits, fy_err *e)
{
    const progress *g = user;
    return kl_row(g->kl, id, surprise, logits, e);
}

static int put_json(fy_str *s, const fy_eval_text *o, const fy_ppl *p, const kl_run *kl, fy_err *e)
{
    json_t *root = json_pack("{s:s, s:s, s:i, s:I, s:f, s:f, s:f}", "model", o->model, "text",
                             o->text, "n_ctx", (int)o->ppl.n_ctx, "tokens", (json_int_t)p->n_tokens,
                             "nll", p->nll / (double)p->n_tokens, "perplexity", fy_ppl_value(p),
                             "error", p->n_tokens > 1 ? fy_ppl_error(p) : 0.0);
    int bad = root == NULL;
    if (!bad && o->per_word) {
        bad |= json_object_set_new(root, "words", json_integer((json_int_t)p->n_words));
        bad |= json_object_set_new(root, "word_perplexity",
                                   p->n_words > 0 ? json_real(fy_ppl_per_word(p)) : json_null());
    }
    if (!bad && kl != NULL)
        bad |= kl_json(kl, root);
    char *text = bad == 0 ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(root);
    if (text == NULL)
        return fy_fail(e, FY_EARG,
                       "cannot make JSON of the result: a file name is not UTF-8, or the "
                       "perplexity is not finite");
    fy_str_printf(s, "%s\n", text);
    free(text);
    return 0;
}

static void put_words(fy_str *s, const fy_eval_text *o, const fy_ppl *p)
{
    fy_str_printf(s, "perplexity %.5f +/- %.5f, %llu tokens, nll %.6f\n", fy_ppl_value(p),
                  fy_ppl_error(p), (unsigned long long)p->n_tokens, p->nll / (double)p->n_tokens);
    if (o->per_word)
        fy_str_printf(s, "word perplexity %.5f, %llu words\n", fy_ppl_per_word(p),
                      (unsigned long long)p->n_words);
}

static int put(const fy_eval_text *o, const fy_ppl *sums, const kl_run *kl, fy_err *e)
{
    fy_str out = {0};
    int rc = 0;
    if (o->json) {
        rc = put_json(&out, o, sums, kl, e);
    } else {
        put_words(&out, o, sums);
        if (kl != NULL)
            kl_text(kl, &out);
    }
    if (rc == 0)
        rc = fy_stdout_text(&out, e);
    fy_str_release(&out);
    return rc;
}

static int measure(const fy_eval_text *o, fy_model *m, fy_session *s, fy_span text, fy_err *e)
{
    const fy_vocab *v = fy_model_vocab(m, e);
    const uint32_t n_vocab = fy_model_hparams(m)->n_vocab;
    const bool with_kl = o->kl_save != NULL || o->kl_base != NULL;
    progress g = {.shown_s = fy_now_s()};
    fy_ppl sums;
    if (v == NULL)
        return -1;
    if (with_kl) {
        const kl_params p = {o->kl_save, o->kl_base, v, text, o->ppl, n_vocab};
        g.kl = kl_open(&p, e);
        if (g.kl == NULL)
            return -1;
    }
    const fy_ppl_sinks sinks = {show_running, with_kl ? show_row : NULL, &g};
    int rc = fy_perplexity(s, v, n_vocab, text, &o->ppl, &sinks, &sums, e);
    if (rc != 0)
        fy_ctx(e, "%s", o->text);
    if (rc == 0 && with_kl)
        rc = kl_end(g.kl, e);
    if (rc == 0)
        rc = put(o, &sums, g.kl, e);
    kl_close(g.kl);
    return rc;
}

int fy_eval_text_run(const fy_eval_text *o, fy_model *m, const fy_session_params *p, fy_err *e)
{
    fy_str text = {0};
    fy_session_params own = *p;
    own.n_ctx = o->ppl.n_ctx;
    if (fy_text_in_read(o->text, &text, e) != 0)
        return -1;
    fy_session *s = fy_session_open(m, &own, "-c or -b", e);
    fy_collector *c = NULL;
    if (s != NULL && o->imatrix_out != NULL)
        c = imatrix_begin(s, o->model, o->imatrix_out, e);
    const bool ready = s != NULL && (c != NULL || o->imatrix_out == NULL);
    int rc = ready ? measure(o, m, s, (fy_span){fy_str_z(&text), text.len}, e) : -1;
    if (rc == 0 && c != NULL)
        rc = imatrix_end(c, o->imatrix_out, o->text, o->ppl.n_ctx, e);
    fy_collector_free(c);
    fy_session_free(s);
    fy_str_release(&text);
    return rc;
}
