#include <math.h>
#include <string.h>

#include "cli/measure/eval_items.h"

typedef struct {
    json_t *results;     /* owned; an entry for each text; NULL: not asked for */
    bool begun, objects; /* each line is a JSON object */
    uint64_t n_right;
    fy_sums nll;
} last_words;

/* LAMBADA's rule: the last word is what follows the last space, with that space. */
static int score_text(last_words *l, fy_eval_scorer *s, fy_span text, bool *cut, fy_err *e)
{
    size_t at = text.len;
    while (at > 0 && text.ptr[at - 1] != ' ')
        at--;
    if (at == text.len)
        return fy_fail(e, FY_EFORMAT,
                       text.len == 0 ? "the text is empty"
                                     : "the text ends with a space, not with a word");
    fy_str word = {0};
    fy_likelihood found;
    fy_str_putc(&word, ' ');
    fy_str_add(&word, text.ptr + at, text.len - at);
    int rc = word.oom ? fy_nomem(e)
                      : fy_eval_score(s, (fy_span){text.ptr, at > 0 ? at - 1 : 0},
                                      (fy_span){word.ptr, word.len}, &found, e);
    fy_str_release(&word);
    if (rc != 0)
        return -1;
    l->nll.sum -= found.logprob;
    l->nll.squares += found.logprob * found.logprob;
    l->n_right += found.greedy;
    *cut = found.cut;
    if (l->results != NULL &&
        json_array_append_new(l->results, json_pack("{s:f, s:b}", "logprob", found.logprob,
                                                    "greedy", found.greedy)) != 0)
        return fy_nomem(e);
    return 0;
}

static bool is_object(fy_span line)
{
    size_t i = 0;
    while (i < line.len && strchr(" \t", line.ptr[i]) != NULL && line.ptr[i] != '\0')
        i++;
    return i < line.len && line.ptr[i] == '{';
}

static int score(void *user, fy_eval_scorer *s, fy_span line, bool *cut, fy_err *e)
{
    last_words *l = user;
    if (!l->begun)
        l->objects = is_object(line);
    l->begun = true;
    if (!l->objects)
        return score_text(l, s, line, cut, e);
    json_t *j = fy_eval_line_json(line, e);
    if (j == NULL)
        return -1;
    const json_t *text = json_object_get(j, "text");
    int rc =
        json_is_string(text)
            ? score_text(l, s, (fy_span){json_string_value(text), json_string_length(text)}, cut, e)
            : fy_fail(e, FY_EFORMAT, "no string \"text\"");
    json_decref(j);
    return rc;
}

static fy_estimate perplexity(const last_words *l, uint64_t n)
{
    const fy_estimate nll = fy_sums_estimate(&l->nll, n);
    return (fy_estimate){exp(nll.mean), nll.error * exp(nll.mean)};
}

static void show(const void *user, uint64_t n, fy_str *out)
{
    const last_words *l = user;
    const fy_estimate acc = fy_eval_share(l->n_right, n), ppl = perplexity(l, n);
    fy_str_printf(out, "acc %.4f +/- %.4f, perplexity %.4f +/- %.4f", acc.mean, acc.error, ppl.mean,
                  ppl.error);
}

static int show_json(const void *user, uint64_t n, json_t *into)
{
    const last_words *l = user;
    const fy_estimate acc = fy_eval_share(l->n_right, n), ppl = perplexity(l, n);
    return json_object_update_new(
        into, json_pack("{s:f, s:o, s:o, s:o, s:O}", "acc", acc.mean, "acc_error",
                        fy_eval_number(acc.error), "perplexity", fy_eval_number(ppl.mean),
                        "perplexity_error", fy_eval_number(ppl.error), "results", l->results));
}

int fy_eval_last_word_run(const fy_eval_items *o, fy_model *m, const fy_session_params *p,
                          fy_err *e)
{
    last_words l = {.results = o->json ? json_array() : NULL};
    const fy_eval_measure measure = {score, show, show_json, "last_word", &l};
    int rc = o->json && l.results == NULL ? fy_nomem(e) : fy_eval_items_run(o, &measure, m, p, e);
    json_decref(l.results);
    return rc;
}
