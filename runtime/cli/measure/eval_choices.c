#include "cli/measure/choice_item.h"
#include "cli/measure/eval_items.h"

/* What has been answered so far. */
typedef struct {
    json_t *results; /* owned; an entry for each item; NULL: not asked for */
    uint64_t n_right, n_right_by_length;
} choices;

/* The best so far of sum and of sum per character; the first of equals. */
typedef struct {
    double sum, per_character;
    size_t best, best_by_length;
} ranking;

static void rank(ranking *r, size_t i, double logprob, fy_span ending)
{
    const double per_character = logprob / (double)fy_choice_length(ending);
    if (i == 0 || logprob > r->sum) {
        r->sum = logprob;
        r->best = i;
    }
    if (i == 0 || per_character > r->per_character) {
        r->per_character = per_character;
        r->best_by_length = i;
    }
}

static int score_item(choices *c, fy_eval_scorer *s, const fy_choice_item *item, json_t *logprobs,
                      bool *cut, fy_err *e)
{
    const fy_span query = {fy_str_z(&item->query), item->query.len};
    ranking r = {0};
    fy_str ending = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < item->n_choices; i++) {
        const fy_span choice = {item->choices[i].ptr, item->choices[i].len};
        fy_likelihood found;
        fy_str_clear(&ending);
        fy_str_putc(&ending, ' ');
        fy_str_add(&ending, choice.ptr, choice.len);
        rc = ending.oom ? fy_nomem(e)
                        : fy_eval_score(s, query, (fy_span){ending.ptr, ending.len}, &found, e);
        if (rc != 0) {
            fy_ctx(e, "choice %zu", i);
            break;
        }
        rank(&r, i, found.logprob, choice);
        *cut |= found.cut;
        if (logprobs != NULL && json_array_append_new(logprobs, json_real(found.logprob)) != 0)
            rc = fy_nomem(e);
    }
    fy_str_release(&ending);
    if (rc != 0)
        return -1;
    c->n_right += r.best == item->label;
    c->n_right_by_length += r.best_by_length == item->label;
    if (logprobs != NULL &&
        json_array_append_new(c->results, json_pack("{s:O, s:i, s:i, s:i}", "logprobs", logprobs,
                                                    "label", (int)item->label, "best", (int)r.best,
                                                    "best_norm", (int)r.best_by_length)) != 0)
        return fy_nomem(e);
    return 0;
}

static int score(void *user, fy_eval_scorer *s, fy_span line, bool *cut, fy_err *e)
{
    choices *c = user;
    fy_choice_item item = {0};
    json_t *logprobs = c->results != NULL ? json_array() : NULL;
    int rc = fy_choice_read(line, &item, e);
    if (rc == 0)
        rc = score_item(c, s, &item, logprobs, cut, e);
    json_decref(logprobs);
    fy_choice_release(&item);
    return rc;
}

static void show(const void *user, uint64_t n, fy_str *out)
{
    const choices *c = user;
    const fy_estimate acc = fy_eval_share(c->n_right, n);
    const fy_estimate norm = fy_eval_share(c->n_right_by_length, n);
    fy_str_printf(out, "acc %.4f +/- %.4f, acc_norm %.4f +/- %.4f", acc.mean, acc.error, norm.mean,
                  norm.error);
}

static int show_json(const void *user, uint64_t n, json_t *into)
{
    const choices *c = user;
    const fy_estimate acc = fy_eval_share(c->n_right, n);
    const fy_estimate norm = fy_eval_share(c->n_right_by_length, n);
    return json_object_update_new(
        into, json_pack("{s:f, s:o, s:f, s:o, s:O}", "acc", acc.mean, "acc_error",
                        fy_eval_number(acc.error), "acc_norm", norm.mean, "acc_norm_error",
                        fy_eval_number(norm.error), "results", c->results));
}

int fy_eval_choices_run(const fy_eval_items *o, fy_model *m, const fy_session_params *p, fy_err *e)
{
    choices c = {.results = o->json ? json_array() : NULL};
    const fy_eval_measure measure = {score, show, show_json, "choices", &c};
    int rc = -1;
    if (o->json && c.results == NULL)
        fy_nomem(e);
    else
        rc = fy_eval_items_run(o, &measure, m, p, e);
    json_decref(c.results);
    return rc;
}
