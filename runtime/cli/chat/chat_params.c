#include "cli/chat/chat_params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opts.h"
#include "base/str.h"
#include "cli/terminal.h"

/* --- names ---------------------------------------------------------------------------------- */

#define ANSWER_TOKENS "n-predict"

static bool is_param(const fy_opt *o)
{
    return strcmp(o->group, FY_GEN_GROUP) == 0 || strcmp(o->name, ANSWER_TOKENS) == 0;
}

const char *fy_chat_params_name(const fy_chat_params *p, size_t i)
{
    for (size_t k = 0; k < p->n_rows; k++) {
        if (is_param(&p->rows[k]) && i-- == 0)
            return p->rows[k].name;
    }
    return NULL;
}

/* The row of a name, as long or short option or with underscores. */
static const fy_opt *find(const fy_chat_params *p, fy_span name, fy_err *e)
{
    const char *names[64];
    size_t n = 0;
    for (size_t k = 0; k < p->n_rows; k++) {
        const fy_opt *o = &p->rows[k];
        if (!is_param(o))
            continue;
        if (fy_opt_is_named(o, name.ptr, name.len) ||
            (o->alias != NULL && fy_span_is(name, o->alias)))
            return o;
        if (n < 64)
            names[n++] = o->name;
    }
    char word[FY_QUOTE_BYTES];
    fy_quote(word, sizeof word, name);
    const char *near = fy_nearest(word, names, n);
    if (near != NULL)
        fy_fail(e, FY_EARG, "no parameter is called '%s'; did you mean '%s'?", word, near);
    else
        fy_fail(e, FY_EARG, "no parameter is called '%s'; /params lists them", word);
    return NULL;
}

/* --- values --------------------------------------------------------------------------------- */

static void put_order(const fy_sampler_params *s, fy_str *out)
{
    for (uint8_t i = 0; i < s->n_order; i++)
        fy_str_putc(out, "ekypmt"[s->order[i]]);
}

static void put_bias(const fy_sampler_params *s, fy_str *out)
{
    for (size_t i = 0; i < s->n_bias; i++)
        fy_str_printf(out, "%s%d%+g", i > 0 ? " " : "", s->bias[i].id, (double)s->bias[i].bias);
    if (s->n_bias == 0)
        fy_str_puts(out, "none");
}

typedef enum { REAL, WHOLE, SEED, ORDER, BIAS } value_kind;

static const struct {
    const char *name; /* of the option */
    value_kind kind;
    size_t offset; /* in fy_sampler_params */
} values[] = {
    {"temp", REAL, offsetof(fy_sampler_params, temperature)},
    {"top-k", WHOLE, offsetof(fy_sampler_params, top_k)},
    {"top-p", REAL, offsetof(fy_sampler_params, top_p)},
    {"min-p", REAL, offsetof(fy_sampler_params, min_p)},
    {"typical", REAL, offsetof(fy_sampler_params, typical_p)},
    {"repeat-penalty", REAL, offsetof(fy_sampler_params, repeat_penalty)},
    {"repeat-last-n", WHOLE, offsetof(fy_sampler_params, repeat_last_n)},
    {"presence-penalty", REAL, offsetof(fy_sampler_params, presence_penalty)},
    {"frequency-penalty", REAL, offsetof(fy_sampler_params, frequency_penalty)},
    {"logit-bias", BIAS, 0},
    {"samplers", ORDER, 0},
    {"seed", SEED, 0},
};

static void put_value(const fy_chat_params *p, const char *name, fy_str *out)
{
    const fy_sampler_params *s = &p->now.params;
    if (strcmp(name, ANSWER_TOKENS) == 0)
        fy_str_printf(out, "%lld", (long long)*p->n);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (strcmp(values[i].name, name) != 0)
            continue;
        const char *at = (const char *)s + values[i].offset;
        if (values[i].kind == REAL)
            fy_str_printf(out, "%g", (double)*(const float *)(const void *)at);
        else if (values[i].kind == WHOLE)
            fy_str_printf(out, "%d", *(const int32_t *)(const void *)at);
        else if (values[i].kind == SEED)
            fy_str_printf(out, "%llu", (unsigned long long)s->seed);
        else if (values[i].kind == ORDER)
            put_order(s, out);
        else
            put_bias(s, out);
    }
}

int fy_chat_params_show(const fy_chat_params *p, fy_span name, fy_str *out, fy_err *e)
{
    const fy_opt *only = name.len > 0 ? find(p, name, e) : NULL;
    if (name.len > 0 && only == NULL)
        return -1;
    for (size_t k = 0; k < p->n_rows; k++) {
        const fy_opt *o = &p->rows[k];
        if (!is_param(o) || (only != NULL && o != only))
            continue;
        fy_str_printf(out, "%-18s ", o->name);
        put_value(p, o->name, out);
        fy_str_putc(out, '\n');
    }
    return 0;
}

/* --- changing them -------------------------------------------------------------------------- */

/* Keeps a text for as long as the options may view it; NULL when out of memory. */
static const char *keep(fy_chat_params *p, fy_span text)
{
    char **texts = fy_grow(p->texts, p->n_texts, &p->cap, sizeof *texts);
    if (texts == NULL)
        return NULL;
    p->texts = texts;
    texts[p->n_texts] = strndup(text.ptr, text.len);
    return texts[p->n_texts] != NULL ? texts[p->n_texts++] : NULL;
}

/* A seed that was drawn stays until another one is asked for. */
static int keep_seed(fy_chat_params *p, fy_err *e)
{
    char text[24];
    if (!(p->now.params.temperature > 0))
        return 0;
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)p->now.params.seed);
    p->gen->seed = keep(p, (fy_span){text, (size_t)n});
    return p->gen->seed != NULL ? 0 : fy_nomem(e);
}

/* Takes the options as they are; on failure all stays as it was. */
static int apply(fy_chat_params *p, fy_err *e)
{
    const fy_engine *g = p->engine;
    const fy_hparams *hp = fy_model_hparams(g->model);
    fy_gen_params next;
    if (fy_gen_params_of(p->gen, g->has_bundle ? &g->bundle : NULL, fy_model_gguf(g->model), false,
                         hp->n_vocab, &next, e) != 0)
        return -1;
    fy_sampler *sampler = fy_sampler_new(&next.params, hp->n_vocab, g->vocab, e);
    if (sampler == NULL) {
        fy_gen_params_release(&next);
        return -1;
    }
    fy_sampler_free(p->sampler);
    fy_gen_params_release(&p->now);
    p->sampler = sampler;
    p->now = next;
    return keep_seed(p, e);
}

int fy_chat_params_open(fy_chat_params *p, fy_err *e)
{
    return apply(p, e);
}

void fy_chat_params_close(fy_chat_params *p)
{
    fy_sampler_free(p->sampler);
    fy_gen_params_release(&p->now);
    for (size_t i = 0; i < p->n_texts; i++)
        free(p->texts[i]);
    free(p->texts);
    *p = (fy_chat_params){0};
}

/* Stores the value in the options: all but this row count as given already. */
static int store(fy_chat_params *p, const fy_opt *row, const char *value, fy_err *e)
{
    const char **from = calloc(p->n_rows, sizeof *from);
    if (from == NULL)
        return fy_nomem(e);
    fy_opt_given given = {.row = (size_t)(row - p->rows), .value = value, .source = row->name};
    int rc = fy_opts_fill(p->rows, p->n_rows, p->options, &given, 1, from, e);
    free(from);
    return rc;
}

int fy_chat_params_set(fy_chat_params *p, fy_span name, fy_span value, fy_err *e)
{
    const fy_opt *row = find(p, name, e);
    if (row == NULL)
        return -1;
    fy_gen_options before = *p->gen;
    int64_t n = *p->n;
    const char *text = keep(p, value);
    if (text == NULL)
        return fy_nomem(e);
    fy_log_level words = fy_log_show(FY_LOG_WARN); /* the values were said at the start */
    int rc = store(p, row, text, e);
    if (rc == 0 && strcmp(row->name, ANSWER_TOKENS) != 0)
        rc = apply(p, e);
    fy_log_show(words);
    if (rc != 0) {
        size_t n_bias = before.logit_bias.n;
        before.logit_bias = p->gen->logit_bias; /* its array may have moved */
        before.logit_bias.n = n_bias;
        *p->gen = before;
        *p->n = n;
    }
    return rc;
}
