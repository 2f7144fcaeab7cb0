/* `eval --text`: perplexity of a text, on request with a comparison of distributions and an importance
 * matrix collected on the way. */
#include "cli/measure/eval_text.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "cli/measure/eval_kl.h"
#include "cli/session_open.h"
#include "cli/terminal.h"
#include "cli/text_in.h"
#include "model/imatrix_collect.h"

enum { SECONDS_BETWEEN = 5 };

/* A text that is being measured. */
typedef struct {
    fy_eval_kl *kl; /* owned; NULL: perplexity alone */
    double shown_s;
} progress;

static int show_running(void *user, const fy_ppl *p, fy_err *e)
{
    (void)e;
    progress *g = user;
    double now = fy_now_s();
    if (now - g->shown_s < (double)SECONDS_BETWEEN || p->n_done >= p->n_pieces)
        return 0;
    fy_estimate kld;
    char more[80] = "";
    g->shown_s = now;
    if (fy_eval_kl_running(g->kl, &kld))
        snprintf(more, sizeof more, ", KL divergence %.6f +/- %.6f", kld.mean, kld.error);
    fy_log(FY_LOG_INFO, "%llu of %llu: perplexity %.4f +/- %.4f%s", (unsigned long long)p->n_done,
           (unsigned long long)p->n_pieces, fy_ppl_value(p), fy_ppl_error(p), more);
    return 0;
}

static int show_row(void *user, int32_t id, double surprise, const float *logits, fy_err *e)
{
    const progress *g = user;
    return fy_eval_kl_row(g->kl, id, surprise, logits, e);
}

static int put_json(fy_str *s, const fy_eval_text *o, const fy_ppl *p, const fy_eval_kl *kl,
                    fy_err *e)
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
        bad |= fy_eval_kl_json(kl, root);
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

static int put(const fy_eval_text *o, const fy_ppl *sums, const fy_eval_kl *kl, fy_err *e)
{
    fy_str out = {0};
    int rc = 0;
    if (o->json) {
        rc = put_json(&out, o, sums, kl, e);
    } else {
        put_words(&out, o, sums);
        if (kl != NULL)
            fy_eval_kl_words(kl, &out);
    }
    if (rc == 0)
        rc = out.oom ? fy_nomem(e) : fy_stdout(out.ptr, out.len, e);
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
        const fy_eval_kl_params p = {o->kl_save, o->kl_base, v, text, o->ppl, n_vocab};
        g.kl = fy_eval_kl_open(&p, e);
        if (g.kl == NULL)
            return -1;
    }
    const fy_ppl_sinks sinks = {show_running, with_kl ? show_row : NULL, &g};
    int rc = fy_perplexity(s, v, n_vocab, text, &o->ppl, &sinks, &sums, e);
    if (rc != 0)
        fy_ctx(e, "%s", o->text);
    if (rc == 0 && with_kl)
        rc = fy_eval_kl_end(g.kl, e);
    if (rc == 0)
        rc = put(o, &sums, g.kl, e);
    fy_eval_kl_close(g.kl);
    return rc;
}

/* --- the importance matrix ------------------------------------------------------------------ */

/* Begins to collect, when the file can be written. NULL on failure. */
static fy_collector *begin_imatrix(fy_session *s, const char *model, const char *out, fy_err *e)
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

/* Writes it; reports what it holds, and warns of experts that no token chose. */
static int end_imatrix(const fy_collector *c, const char *out, const char *text, uint32_t n_ctx,
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

/* --- the text ------------------------------------------------------------------------------- */

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
        c = begin_imatrix(s, o->model, o->imatrix_out, e);
    const bool ready = s != NULL && (c != NULL || o->imatrix_out == NULL);
    int rc = ready ? measure(o, m, s, (fy_span){fy_str_z(&text), text.len}, e) : -1;
    if (rc == 0 && c != NULL)
        rc = end_imatrix(c, o->imatrix_out, o->text, o->ppl.n_ctx, e);
    fy_collector_free(c);
    fy_session_free(s);
    fy_str_release(&text);
    return rc;
}
