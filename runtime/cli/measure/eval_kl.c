#include "cli/measure/eval_kl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fy_eval_kl {
    fy_eval_kl_params p;
    fy_kl_writer *writer; /* owned; of --kl-save */
    uint64_t bytes, n_rows;
    fy_kl_reader *reader; /* owned; of --kl-base */
    float *below;         /* owned, [n_vocab] */
    fy_divergence sums;
    fy_divergence_report report;
};

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
        return fy_fail(e, FY_EFORMAT, "saved for another text: give the same --text, or save anew");
    if (base->method != now->method || base->n_ctx != now->n_ctx)
        return fy_fail(e, FY_EFORMAT, "saved with -c %u%s, this is -c %u%s: give the same",
                       base->n_ctx, method_name(base->method), now->n_ctx,
                       method_name(now->method));
    if (base->n_rows == 0)
        return fy_fail(e, FY_EFORMAT, "damaged: it has no position");
    return 0;
}

static int open_base(fy_eval_kl *k, const fy_kl_head *now, fy_err *e)
{
    k->reader = fy_kl_open(k->p.base, e);
    if (k->reader == NULL)
        return -1;
    if (check_base(fy_kl_head_of(k->reader), now, e) != 0)
        return fy_ctx(e, "%s", k->p.base);
    k->below = malloc((size_t)k->p.n_vocab * sizeof *k->below);
    return k->below != NULL ? 0 : fy_nomem(e);
}

fy_eval_kl *fy_eval_kl_open(const fy_eval_kl_params *p, fy_err *e)
{
    fy_kl_head head = {
        .method = (uint32_t)p->ppl.method, .n_ctx = p->ppl.n_ctx, .n_vocab = p->n_vocab};
    fy_eval_kl *k = calloc(1, sizeof *k);
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
    fy_eval_kl_close(k);
    return NULL;
}

void fy_eval_kl_close(fy_eval_kl *k)
{
    if (k == NULL)
        return;
    fy_kl_abort(k->writer);
    fy_kl_close(k->reader);
    fy_divergence_release(&k->sums);
    free(k->below);
    free(k);
}

static int compare(fy_eval_kl *k, int32_t id, double surprise, const float *logits, fy_err *e)
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

int fy_eval_kl_row(void *user, int32_t id, double surprise, const float *logits, fy_err *e)
{
    fy_eval_kl *k = user;
    if (k->reader != NULL)
        return compare(k, id, surprise, logits, e);
    k->n_rows++;
    return fy_kl_add(k->writer, logits, (fy_kl_token){id, (float)-surprise}, e);
}

int fy_eval_kl_end(fy_eval_kl *k, fy_err *e)
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

bool fy_eval_kl_running(const fy_eval_kl *k, fy_estimate *out)
{
    if (k == NULL || k->sums.n < 2)
        return false;
    *out = fy_sums_estimate(&k->sums.kld, k->sums.n);
    return true;
}

void fy_eval_kl_words(const fy_eval_kl *k, fy_str *out)
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

/* JSON has no NaN: the error of one position is null. */
static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

int fy_eval_kl_json(const fy_eval_kl *k, json_t *into)
{
    static const char *const name[FY_KLD_PERCENTILES] = {"median", "p90",   "p95",
                                                         "p99",    "p99_9", "max"};
    const fy_divergence_report *r = &k->report;
    if (k->reader == NULL)
        return json_object_set_new(into, "kl_save",
                                   json_pack("{s:s, s:I, s:I}", "file", k->p.save, "positions",
                                             (json_int_t)k->n_rows, "bytes", (json_int_t)k->bytes));
    json_t *kld =
        json_pack("{s:o, s:o}", "mean", number(r->kld.mean), "error", number(r->kld.error));
    int bad = 0;
    for (int i = 0; i < FY_KLD_PERCENTILES; i++)
        bad |= json_object_set_new(kld, name[i], number(r->kld_at[i]));
    bad |= json_object_set_new(into, "kl_base", json_string(k->p.base));
    bad |= json_object_set_new(into, "kl_divergence", kld);
    bad |= json_object_update_new(
        into,
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "same_top",
                  number(r->same_top.mean), "same_top_error", number(r->same_top.error), "delta_p",
                  number(r->delta_p.mean), "delta_p_error", number(r->delta_p.error), "delta_p_rms",
                  number(r->delta_p_rms), "base_perplexity", number(r->ppl_base.mean),
                  "base_perplexity_error", number(r->ppl_base.error), "ln_ratio",
                  number(r->ln_ratio.mean), "ln_ratio_error", number(r->ln_ratio.error)));
    return bad;
}
