/* `ferry eval --text`: the perplexity of a text, with --kl-save and --kl-base (distributions saved,
 * or compared with those that another model saved, or with those of all neurons where neurons are
 * predicted), --imatrix-out (an importance matrix collected on the way) and --activations-out
 * (active neurons counted on the way). Parts of it keep what each window adds; their end adds it
 * up, in the order of the windows, as one process does. */
#include "cli/measure/eval.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/math.h"
#include "base/process.h"
#include "base/str.h"
#include "cli/engine.h"
#include "cli/measure/eval_part.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "format/write_journal.h"
#include "model/imatrix_collect.h"
#include "model/neuron_count.h"

/* --- distributions ---------------------------------------------------------------------------- */

typedef struct {
    const char *save, *base; /* paths; one of them, or with `beside` none */
    bool beside;             /* compared with a session that computes all neurons */
    const fy_vocab *vocab;
    fy_span text;
    fy_ppl_params ppl;
    uint32_t n_vocab; /* logits of a row */
    bool is_part;     /* rows are saved with the part, and the base is read where it is */
    bool of_parts;    /* which have read it */
} kl_params;

/* --kl-save, --kl-base or neither: rows go through kl_row as the text is scored. */
typedef struct {
    kl_params p;
    fy_kl_writer *writer; /* owned; of --kl-save */
    uint64_t bytes, n_rows;
    fy_kl_reader *reader; /* owned; of --kl-base */
    uint64_t row;         /* of the text, which comes next */
    float *below;         /* owned, [n_vocab]; NULL: nothing is compared */
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
    return check_base(fy_kl_head_of(k->reader), now, e) != 0 ? fy_ctx(e, "%s", k->p.base) : 0;
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
    if (rc == 0 && (p->base != NULL || p->beside)) {
        k->below = malloc((size_t)p->n_vocab * sizeof *k->below);
        rc = k->below != NULL ? 0 : fy_nomem(e);
    }
    if (rc == 0 && p->save != NULL && !p->is_part) {
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
                       k->p.base, (unsigned long long)k->row, next.id, id);
    k->row++;
    return fy_divergence_add(&k->sums, &next, k->below, logits, surprise, k->p.n_vocab, e);
}

static int compare_beside(kl_run *k, int32_t id, double surprise, const float *logits,
                          const float *beside, fy_err *e)
{
    const uint32_t n = k->p.n_vocab;
    const fy_kl_token next = {id, (float)-fy_surprise(beside, n, id)};
    float most = beside[0];
    for (uint32_t i = 1; i < n; i++)
        most = beside[i] > most ? beside[i] : most;
    for (uint32_t i = 0; i < n; i++)
        k->below[i] = most - beside[i];
    return fy_divergence_add(&k->sums, &next, k->below, logits, surprise, n, e);
}

static int kl_row(kl_run *k, int32_t id, double surprise, const float *logits, const float *beside,
                  fy_err *e)
{
    if (beside != NULL)
        return compare_beside(k, id, surprise, logits, beside, e);
    if (k->reader != NULL)
        return compare(k, id, surprise, logits, e);
    k->n_rows++;
    return fy_kl_add(k->writer, logits, (fy_kl_token){id, (float)-surprise}, e);
}

/* Is the base what was written? Parts have read stretches of it. */
static int check_reader(kl_run *k, fy_err *e)
{
    const uint64_t n = fy_kl_head_of(k->reader)->n_rows;
    if (!k->p.of_parts)
        return fy_kl_end(k->reader, e);
    return k->sums.n == n ? fy_kl_check(k->reader, e)
                          : fy_fail(e, FY_EARG, "it has %llu positions, %zu were compared",
                                    (unsigned long long)n, k->sums.n);
}

static int kl_end(kl_run *k, fy_err *e)
{
    if (k->below != NULL) {
        if (k->reader != NULL && check_reader(k, e) != 0)
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
    *out = fy_sums_estimate(&k->sums.all.kld, k->sums.n);
    return true;
}

static void kl_text(const kl_run *k, fy_str *out)
{
    const fy_divergence_report *r = &k->report;
    if (k->below == NULL) {
        fy_str_printf(out, "saved %llu distributions of %u tokens, %llu bytes, to %s\n",
                      (unsigned long long)k->n_rows, k->p.n_vocab, (unsigned long long)k->bytes,
                      k->p.save);
        return;
    }
    if (k->p.beside)
        fy_str_puts(out, "to all neurons (--sparse exact), the base:\n");
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
    if (k->below == NULL)
        return json_object_set_new(into, "kl_save",
                                   json_pack("{s:s, s:I, s:I}", "file", k->p.save, "positions",
                                             (json_int_t)k->n_rows, "bytes", (json_int_t)k->bytes));
    json_t *kld = json_pack("{s:o, s:o}", "mean", fy_eval_number(r->kld.mean), "error",
                            fy_eval_number(r->kld.error));
    int bad = 0;
    for (int i = 0; i < FY_KLD_PERCENTILES; i++)
        bad |= json_object_set_new(kld, name[i], fy_eval_number(r->kld_at[i]));
    bad |= json_object_set_new(into, "kl_base",
                               json_string(k->p.beside ? "--sparse exact" : k->p.base));
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

/* Of what is collected. */
static int check_out(const char *model, const char *out, bool in_parts, fy_err *e)
{
    if (fy_file_is_same(model, out))
        return fy_fail(e, FY_EARG, "%s: is the model, expected another name for the output", out);
    if (in_parts)
        return 0;
    fy_out *o = fy_out_open(out, 0, e); /* the work may take long: can this be written? */
    fy_out_abort(o);
    return o != NULL ? 0 : -1;
}

static int imatrix_end(fy_collector *c, const char *out, const char *text, uint32_t n_ctx,
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

/* --- active neurons --------------------------------------------------------------------------- */

/* The phone's program counts none. */
static bool counts_neurons(const fy_eval_text *o)
{
#ifdef FERRY_DEVICE
    (void)o;
    return false;
#else
    return o->activations_out != NULL;
#endif
}

static int counts_end(const fy_neuron_counts *c, const fy_eval_text *o, fy_err *e)
{
    double active = 0;
    uint64_t n = 0;
    if (c->n_tokens == 0)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "--activations-out: the neurons of this family are not counted");
    if (fy_neuron_counts_write(c, o->activations_out, fy_span_of(o->text), e) != 0)
        return -1;
    for (uint32_t l = 0; l < c->n_layer; l++) {
        n += c->layers[l].n;
        for (uint64_t i = 0; i < c->layers[l].n; i++)
            active += c->layers[l].of[i];
    }
    fy_log(FY_LOG_INFO, "%s: %llu neurons over %llu tokens, %.1f %% of them active",
           o->activations_out, (unsigned long long)n, (unsigned long long)c->n_tokens,
           100 * active / ((double)n * (double)c->n_tokens));
    return 0;
}

/* --- what parts keep of a window ---------------------------------------------------------------
 */

/* Data begins with one of these. */
enum { OF_MATRIX = 1, OF_ROW = 2, OF_NEURONS = 3 };

/* A text that is being measured. */
typedef struct {
    const fy_eval_text *o;
    kl_run *kl;               /* owned; NULL: perplexity alone */
    fy_collector *collector;  /* owned; NULL: none */
    fy_neuron_counts neurons; /* owned; of --activations-out */
    fy_eval_part part;
    uint64_t window; /* that is computed */
    fy_ppl sums;
    double begin_s, shown_s;
} measuring;

static int put_data(measuring *g, fy_str *s, fy_err *e)
{
    const int rc = s->oom ? fy_nomem(e)
                          : fy_part_file_add(g->part.file, FY_PART_DATA, g->window,
                                             (fy_span){s->ptr, s->len}, e);
    fy_str_release(s);
    return rc;
}

static int put_matrix(void *user, const fy_collected_matrix *m, fy_err *e)
{
    const uint32_t head[] = {OF_MATRIX, m->tensor, m->matrix, m->n_tokens};
    fy_str s = {0};
    fy_str_add(&s, head, sizeof head);
    fy_str_add(&s, m->sums, m->n_cols * sizeof *m->sums);
    return put_data(user, &s, e);
}

static int put_row(measuring *g, int32_t id, double surprise, const float *logits, fy_err *e)
{
    const uint32_t head = OF_ROW;
    fy_str s = {0};
    fy_str_add(&s, &head, sizeof head);
    if (fy_kl_put_row(logits, g->kl->p.n_vocab, (fy_kl_token){id, (float)-surprise}, g->kl->row++,
                      &s, e) == 0)
        return put_data(g, &s, e);
    fy_str_release(&s);
    return -1;
}

/* What the window adds to each layer's neurons; the next one begins at 0. */
static int put_neurons(measuring *g, fy_err *e)
{
    fy_neuron_counts *c = &g->neurons;
    for (uint32_t l = 0; l < c->n_layer; l++) {
        const uint32_t head[] = {OF_NEURONS, l, (uint32_t)c->n_tokens};
        fy_str s = {0};
        fy_str_add(&s, head, sizeof head);
        fy_str_add(&s, c->layers[l].of, (size_t)c->layers[l].n * sizeof(double));
        memset(c->layers[l].of, 0, (size_t)c->layers[l].n * sizeof(double));
        c->n_tokens = 0; /* the first layer's record has them */
        if (put_data(g, &s, e) != 0)
            return -1;
    }
    return 0;
}

/* The window is over: its sums, and those of its divergences with each of these. */
static int put_window(measuring *g, const fy_ppl_window *w, fy_err *e)
{
    fy_str s = {0};
    fy_str_add(&s, w, sizeof *w);
    if (g->kl != NULL && g->kl->below != NULL) {
        const fy_divergence *d = &g->kl->sums;
        fy_str_add(&s, &d->window, sizeof d->window);
        fy_str_add(&s, d->kld_of + d->n_before, (d->n - d->n_before) * sizeof *d->kld_of);
    }
    const int rc =
        s.oom ? fy_nomem(e)
              : fy_part_file_add(g->part.file, FY_PART_STEP, g->window, (fy_span){s.ptr, s.len}, e);
    fy_str_release(&s);
    return rc;
}

static int take_matrix(measuring *g, fy_span bytes, fy_err *e)
{
    uint32_t head[4];
    if (g->collector == NULL || bytes.len < sizeof head ||
        (bytes.len - sizeof head) % sizeof(float) != 0)
        return fy_fail(e, FY_EFORMAT, "has what is not an importance");
    memcpy(head, bytes.ptr, sizeof head);
    const size_t n = (bytes.len - sizeof head) / sizeof(float);
    float *sums = malloc(n * sizeof *sums + 1);
    if (sums == NULL)
        return fy_nomem(e);
    memcpy(sums, bytes.ptr + sizeof head, n * sizeof *sums);
    const fy_collected_matrix m = {head[1], head[2], head[3], sums, n};
    const int rc = fy_collector_add(g->collector, &m, e);
    free(sums);
    return rc;
}

static int take_neurons(measuring *g, fy_span bytes, fy_err *e)
{
    uint32_t head[3] = {0};
    fy_neuron_counts *c = &g->neurons;
    if (bytes.len >= sizeof head)
        memcpy(head, bytes.ptr, sizeof head);
    if (bytes.len < sizeof head || head[1] >= c->n_layer ||
        bytes.len - sizeof head != c->layers[head[1]].n * sizeof(double))
        return fy_fail(e, FY_EFORMAT, "has neurons of another model");
    fy_layer_counts *l = &c->layers[head[1]];
    for (uint64_t i = 0; i < l->n; i++) {
        double v;
        memcpy(&v, bytes.ptr + sizeof head + i * sizeof v, sizeof v);
        l->of[i] += v;
    }
    c->n_tokens += head[2];
    return 0;
}

static int take_data(measuring *g, fy_span bytes, fy_err *e)
{
    const uint32_t of = bytes.len >= sizeof of ? fy_le32(bytes.ptr) : 0;
    if (of == OF_MATRIX)
        return take_matrix(g, bytes, e);
    if (of == OF_NEURONS)
        return take_neurons(g, bytes, e);
    if (of != OF_ROW || g->kl == NULL || g->kl->writer == NULL)
        return fy_fail(e, FY_EFORMAT, "has data of an unknown kind");
    g->kl->n_rows++;
    return fy_kl_add_row(g->kl->writer, (fy_span){bytes.ptr + sizeof of, bytes.len - sizeof of}, e);
}

static int take_divergences(kl_run *k, fy_span bytes, uint64_t n, fy_err *e)
{
    fy_divergence_sums sums;
    uint64_t want;
    if (!fy_mul_u64(n, sizeof(float), &want) || !fy_add_u64(want, sizeof sums, &want) ||
        bytes.len != want)
        return fy_fail(e, FY_EFORMAT, "has divergences of other positions");
    float *kld_of = malloc((size_t)n * sizeof *kld_of + 1);
    if (kld_of == NULL)
        return fy_nomem(e);
    memcpy(&sums, bytes.ptr, sizeof sums);
    memcpy(kld_of, bytes.ptr + sizeof sums, (size_t)n * sizeof *kld_of);
    const int rc = fy_divergence_add_window(&k->sums, &sums, kld_of, (size_t)n, e);
    free(kld_of);
    return rc;
}

static int take_record(void *user, const fy_part_record *r, fy_err *e)
{
    measuring *g = user;
    fy_ppl_window w;
    const bool compares = g->kl != NULL && g->kl->below != NULL;
    if (r->kind == FY_PART_DATA)
        return take_data(g, r->bytes, e);
    if (r->bytes.len < sizeof w || (!compares && r->bytes.len != sizeof w))
        return fy_fail(e, FY_EFORMAT, "has a window of %zu bytes", r->bytes.len);
    memcpy(&w, r->bytes.ptr, sizeof w);
    fy_ppl_add(&g->sums, &w);
    const fy_span rest = {r->bytes.ptr + sizeof w, r->bytes.len - sizeof w};
    return compares ? take_divergences(g->kl, rest, w.n_tokens, e) : 0;
}

/* --- perplexity ------------------------------------------------------------------------------- */

enum { SECONDS_BETWEEN = 5 };

static void show_running(measuring *g, const fy_ppl *p)
{
    double now = fy_now_s();
    if (now - g->shown_s < (double)SECONDS_BETWEEN || p->n_done >= p->n_segments)
        return;
    fy_estimate kld;
    char more[80] = "";
    g->shown_s = now;
    if (kl_running(g->kl, &kld))
        snprintf(more, sizeof more, ", KL divergence %.6f +/- %.6f", kld.mean, kld.error);
    fy_log(FY_LOG_INFO, "%llu of %llu: perplexity %.4f +/- %.4f%s", (unsigned long long)p->n_done,
           (unsigned long long)p->n_segments, fy_ppl_value(p), fy_ppl_error(p), more);
}

static int begin_window(void *user, uint64_t window, uint64_t row, fy_err *e)
{
    measuring *g = user;
    g->window = window;
    if (g->kl == NULL)
        return 0;
    g->kl->row = row;
    if (g->kl->reader == NULL || !fy_eval_is_part(&g->part) ||
        fy_kl_seek(g->kl->reader, row, e) == 0)
        return 0;
    return fy_ctx(e, "%s", g->kl->p.base);
}

static int add_row(void *user, int32_t id, double surprise, const float *logits,
                   const float *beside, fy_err *e)
{
    measuring *g = user;
    return fy_eval_is_part(&g->part) && g->kl->below == NULL
               ? put_row(g, id, surprise, logits, e)
               : kl_row(g->kl, id, surprise, logits, beside, e);
}

static int end_window(void *user, const fy_ppl *p, fy_err *e)
{
    measuring *g = user;
    const bool is_part = fy_eval_is_part(&g->part);
    if (g->collector != NULL &&
        fy_collector_end_window(g->collector, is_part ? put_matrix : NULL, g, e) != 0)
        return -1;
    if (is_part && counts_neurons(g->o) && put_neurons(g, e) != 0)
        return -1;
    if (is_part && put_window(g, &p->window, e) != 0)
        return -1;
    if (g->kl != NULL)
        fy_divergence_end_window(&g->kl->sums);
    show_running(g, p);
    return 0;
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
    bad |= fy_eval_gpu_json(o->gpu, root);
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

/* What the numbers depend on besides the model and the text. */
static int identify(const fy_eval_text *o, fy_str *s, fy_err *e)
{
    int rc = 0;
    fy_str_printf(s, "windows of %u%s\n", o->ppl.n_ctx, method_name((uint32_t)o->ppl.method));
    if (o->imatrix_out != NULL) {
        fy_str_puts(s, "importance over ");
        fy_str_put_quoted(s, fy_span_of(o->text), SIZE_MAX);
        fy_str_putc(s, '\n');
    }
    if (o->activations_out != NULL) {
        fy_str_puts(s, "neurons over ");
        fy_str_put_quoted(s, fy_span_of(o->text), SIZE_MAX);
        fy_str_putc(s, '\n');
    }
    if (o->kl_save != NULL)
        fy_str_puts(s, "distributions are saved\n");
    if (o->kl_base != NULL)
        rc = fy_identity_file(s, FY_IDENTITY_ANYWHERE, "base", o->kl_base, e);
    return s->oom ? fy_nomem(e) : rc;
}

static int prepare(measuring *g, fy_model *m, const fy_session_params *p, fy_span text, fy_err *e)
{
    const fy_eval_text *o = g->o;
    const fy_vocab *v = fy_model_vocab(m, e);
    const bool in_parts = fy_eval_in_parts(o->parts);
    if (v == NULL ||
        (o->imatrix_out != NULL && check_out(o->model, o->imatrix_out, in_parts, e) != 0) ||
        (counts_neurons(o) && (check_out(o->model, o->activations_out, in_parts, e) != 0 ||
                               fy_neuron_counts_of_model(&g->neurons, m, e) != 0)))
        return -1;
    if (in_parts && (identify(o, &g->part.identity, e) != 0 ||
                     fy_eval_part_open(&g->part, o->parts, m, p, text,
                                       o->imatrix_out != NULL       ? o->imatrix_out
                                       : o->activations_out != NULL ? o->activations_out
                                                                    : o->kl_save,
                                       e) != 0))
        return -1;
    if (o->kl_save == NULL && o->kl_base == NULL && p->sparse != FY_SPARSE_PREDICT)
        return 0;
    const kl_params k = {.save = o->kl_save,
                         .base = o->kl_base,
                         .beside = o->kl_save == NULL && o->kl_base == NULL,
                         .vocab = v,
                         .text = text,
                         .ppl = o->ppl,
                         .n_vocab = fy_model_hparams(m)->n_vocab,
                         .is_part = fy_eval_is_part(&g->part),
                         .of_parts = in_parts};
    g->kl = kl_open(&k, e);
    return g->kl != NULL ? 0 : -1;
}

/* Prints, and writes what goes to a file. */
static int show(measuring *g, fy_err *e)
{
    const fy_eval_text *o = g->o;
    if (g->kl != NULL && kl_end(g->kl, e) != 0)
        return -1;
    if (put(o, &g->sums, g->kl, e) != 0)
        return -1;
    if (counts_neurons(o) && counts_end(&g->neurons, o, e) != 0)
        return -1;
    return g->collector != NULL
               ? imatrix_end(g->collector, o->imatrix_out, o->text, o->ppl.n_ctx, e)
               : 0;
}

static int compute(measuring *g, fy_model *m, const fy_session_params *p, fy_span text, fy_err *e)
{
    const fy_eval_text *o = g->o;
    const fy_ppl_sinks sinks = {begin_window, end_window, g->kl != NULL ? add_row : NULL, g};
    fy_ppl_params ppl = o->ppl;
    if (fy_eval_is_part(&g->part)) {
        ppl.part = o->parts->part;
        ppl.done = fy_part_file_next(g->part.file);
    }
    fy_session *s = fy_session_open(m, p, "-c or -b", e);
    int rc = s != NULL ? 0 : -1;
    if (rc == 0 && g->kl != NULL && g->kl->p.beside) {
        fy_session_params all = *p;
        all.sparse = FY_SPARSE_AUTO;
        ppl.beside = fy_session_open(m, &all, "-c or -b", e);
        rc = ppl.beside != NULL ? 0 : -1;
    }
    if (rc == 0 && o->imatrix_out != NULL) {
        g->collector = fy_collector_new(s, e);
        rc = g->collector != NULL ? 0 : -1;
    }
    if (rc == 0 && counts_neurons(o))
        rc = fy_session_count_neurons(s, &g->neurons, e);
    if (rc == 0 && (rc = fy_perplexity(s, fy_model_vocab(m, e), fy_model_hparams(m)->n_vocab, text,
                                       &ppl, &sinks, &g->sums, e)) != 0)
        fy_ctx(e, "%s", o->text);
    if (rc == 0)
        fy_say_neurons(s);
    if (rc == 0)
        rc = fy_eval_is_part(&g->part)
                 ? fy_part_file_end(g->part.file, g->sums.first, g->sums.end, g->sums.n_windows, e)
                 : show(g, e);
    fy_collector_free(g->collector);
    fy_session_free(ppl.beside);
    fy_session_free(s);
    return rc;
}

/* The end of all parts. Those of a file that was written are not needed again. */
static int add_up(measuring *g, const fy_model *m, fy_err *e)
{
    const fy_eval_text *o = g->o;
    if (o->imatrix_out != NULL && (g->collector = fy_collector_of(m, e)) == NULL)
        return -1;
    int rc = fy_eval_part_read(&g->part, take_record, g, e);
    if (rc == 0 && (rc = fy_ppl_check(&g->sums, o->ppl.n_ctx, e)) != 0)
        fy_ctx(e, "%s", o->text);
    if (rc == 0)
        rc = show(g, e);
    if (rc == 0 && (o->imatrix_out != NULL || o->activations_out != NULL || o->kl_save != NULL))
        fy_part_files_remove(fy_str_z(&g->part.base), o->parts->part.n);
    fy_collector_free(g->collector);
    return rc;
}

static int run(measuring *g, fy_model *m, const fy_session_params *p, fy_span text, fy_err *e)
{
    const fy_eval_text *o = g->o;
    if (prepare(g, m, p, text, e) != 0)
        return -1;
    if (!fy_eval_in_parts(o->parts))
        return compute(g, m, p, text, e);
    const int rc = o->parts->finishes                   ? add_up(g, m, e)
                   : fy_part_file_is_done(g->part.file) ? 0
                                                        : compute(g, m, p, text, e);
    return rc == 0 ? fy_part_say_done(o->parts, fy_str_z(&g->part.base), fy_now_s() - g->begin_s)
                   : -1;
}

int fy_eval_text_run(const fy_eval_text *o, fy_model *m, const fy_session_params *p, fy_err *e)
{
    measuring g = {.o = o, .shown_s = fy_now_s(), .begin_s = fy_now_s()};
    fy_str text = {0};
    fy_session_params own = *p;
    own.n_ctx = o->ppl.n_ctx;
    int rc = fy_text_in_read(o->text, &text, e);
    if (rc == 0)
        rc = run(&g, m, &own, (fy_span){fy_str_z(&text), text.len}, e);
    kl_close(g.kl);
    if (counts_neurons(o))
        fy_neuron_counts_release(&g.neurons);
    fy_eval_part_release(&g.part);
    fy_str_release(&text);
    return rc;
}
