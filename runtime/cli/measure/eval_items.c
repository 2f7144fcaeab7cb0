#include "cli/measure/eval_items.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "cli/session_open.h"
#include "cli/terminal.h"
#include "cli/text_in.h"

enum { SECONDS_BETWEEN = 5 };

int fy_eval_score(fy_eval_scorer *s, fy_span context, fy_span continuation, fy_likelihood *out,
                  fy_err *e)
{
    if (fy_pair_encode(s->vocab, context, continuation, &s->pair, e) != 0)
        return -1;
    return fy_scorer_score(&s->scorer, &s->pair, out, e);
}

json_t *fy_eval_line_json(fy_span line, fy_err *e)
{
    json_t *j = fy_json_data_line(line, e);
    if (j == NULL)
        fy_ctx(e, "not JSON");
    if (j == NULL || json_is_object(j))
        return j;
    fy_fail(e, FY_EFORMAT, "expected a JSON object, one a line");
    json_decref(j);
    return NULL;
}

fy_estimate fy_eval_share(uint64_t hits, uint64_t n)
{
    const fy_sums s = {(double)hits, (double)hits};
    return fy_sums_estimate(&s, n);
}

json_t *fy_eval_number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* --- going over the lines ------------------------------------------------------------------- */

typedef struct {
    const fy_eval_items *o;
    const fy_eval_measure *measure;
    fy_eval_scorer scorer;
    uint64_t n_items, n_done, n_cut;
    double shown_s;
} walk;

static bool is_blank(fy_span line)
{
    for (size_t i = 0; i < line.len; i++) {
        if (line.ptr[i] == '\0' || strchr(" \t\r", line.ptr[i]) == NULL)
            return false;
    }
    return true;
}

static void show_running(walk *w)
{
    const double now = fy_now_s();
    if (now - w->shown_s < (double)SECONDS_BETWEEN || w->n_done >= w->n_items)
        return;
    fy_str text = {0};
    w->shown_s = now;
    w->measure->show(w->measure->user, w->n_done, &text);
    fy_log(FY_LOG_INFO, "%llu of %llu: %s", (unsigned long long)w->n_done,
           (unsigned long long)w->n_items, fy_str_z(&text));
    fy_str_release(&text);
}

static int walk_lines(walk *w, fy_span text, fy_err *e)
{
    for (fy_span rest = text; rest.len > 0;)
        w->n_items += !is_blank(fy_span_cut_line(&rest));
    if (w->n_items == 0)
        return fy_fail(e, FY_EARG, "%s: no line with an item", w->o->path);
    uint64_t number = 1;
    for (fy_span rest = text; rest.len > 0; number++) {
        const fy_span line = fy_span_cut_line(&rest);
        bool cut = false;
        if (is_blank(line))
            continue;
        if (fy_check_interrupt(e) != 0 ||
            w->measure->score(w->measure->user, &w->scorer, line, &cut, e) != 0)
            return fy_ctx(e, "%s: line %llu", w->o->path, (unsigned long long)number);
        w->n_done++;
        w->n_cut += cut;
        show_running(w);
    }
    return 0;
}

/* --- the result ----------------------------------------------------------------------------- */

static int put_json(const walk *w, fy_str *out, fy_err *e)
{
    const fy_eval_items *o = w->o;
    json_t *root = json_pack("{s:s, s:s, s:i, s:I, s:I}", "model", o->model, w->measure->name,
                             o->path, "n_ctx", (int)o->n_ctx, "items", (json_int_t)w->n_done, "cut",
                             (json_int_t)w->n_cut);
    char *text = NULL;
    if (root != NULL && w->measure->show_json(w->measure->user, w->n_done, root) == 0)
        text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    json_decref(root);
    if (text == NULL)
        return fy_fail(
            e, FY_ENOMEM,
            "cannot make JSON of the result: out of memory, or a file name is not UTF-8");
    fy_str_printf(out, "%s\n", text);
    free(text);
    return 0;
}

static int put(const walk *w, fy_err *e)
{
    fy_str out = {0};
    int rc = 0;
    if (w->n_cut > 0)
        fy_log(FY_LOG_WARN,
               "%s: %llu of %llu items are longer than %u tokens and lost their beginning; use a "
               "larger -c",
               w->o->path, (unsigned long long)w->n_cut, (unsigned long long)w->n_done,
               w->o->n_ctx);
    if (w->o->json) {
        rc = put_json(w, &out, e);
    } else {
        w->measure->show(w->measure->user, w->n_done, &out);
        fy_str_printf(&out, ", %llu items\n", (unsigned long long)w->n_done);
    }
    if (rc == 0)
        rc = out.oom ? fy_nomem(e) : fy_stdout(out.ptr, out.len, e);
    fy_str_release(&out);
    return rc;
}

static int run(walk *w, fy_session *s, fy_model *m, fy_span text, fy_err *e)
{
    w->scorer.vocab = fy_model_vocab(m, e);
    int rc = w->scorer.vocab != NULL ? 0 : -1;
    if (rc == 0)
        rc = fy_scorer_init(&w->scorer.scorer, s, fy_model_hparams(m)->n_vocab, e);
    if (rc == 0)
        rc = walk_lines(w, text, e);
    if (rc == 0)
        rc = put(w, e);
    fy_scorer_release(&w->scorer.scorer);
    fy_pair_release(&w->scorer.pair);
    return rc;
}

int fy_eval_items_run(const fy_eval_items *o, const fy_eval_measure *measure, fy_model *m,
                      const fy_session_params *p, fy_err *e)
{
    walk w = {.o = o, .measure = measure, .shown_s = fy_now_s()};
    fy_str text = {0};
    fy_session_params own = *p;
    own.n_ctx = o->n_ctx;
    if (fy_text_in_read(o->path, &text, e) != 0) {
        fy_str_release(&text);
        return -1;
    }
    fy_session *s = fy_session_open(m, &own, "-c or -b", e);
    int rc = s != NULL ? run(&w, s, m, (fy_span){fy_str_z(&text), text.len}, e) : -1;
    fy_session_free(s);
    fy_str_release(&text);
    return rc;
}
