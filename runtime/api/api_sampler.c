#include <stdlib.h>

#include "api/api_impl.h"
#include "model/sample.h"

struct ferry_sampler {
    fy_sampler *s;       /* owned */
    fy_logit_bias *bias; /* owned: s looks at it */
    bool ignore_end;
};

/* --- parameters ----------------------------------------------------------------------------- */

/* Greedy, as `ferry run` is: draws are asked for by a temperature. */
static ferry_sampler_params defaults(void)
{
    const fy_sampler_params d = fy_sampler_defaults();
    return (ferry_sampler_params){.struct_size = sizeof(ferry_sampler_params),
                                  .seed = d.seed,
                                  .top_k = d.top_k,
                                  .top_p = d.top_p,
                                  .min_p = d.min_p,
                                  .typical_p = d.typical_p,
                                  .repeat_penalty = d.repeat_penalty,
                                  .presence_penalty = d.presence_penalty,
                                  .frequency_penalty = d.frequency_penalty,
                                  .repeat_last_n = d.repeat_last_n};
}

void ferry_sampler_params_init(ferry_sampler_params *p, size_t struct_size)
{
    const ferry_sampler_params d = defaults();
    fy_api_params_init(p, struct_size, &d, sizeof d);
}

static fy_logit_bias *copy_bias(const ferry_sampler_params *p, fy_err *e)
{
    fy_logit_bias *bias = calloc((size_t)p->n_bias + 1, sizeof *bias);
    if (bias == NULL)
        fy_nomem(e);
    for (uint32_t i = 0; bias != NULL && i < p->n_bias; i++)
        bias[i] = (fy_logit_bias){p->bias[i].id, p->bias[i].bias};
    return bias;
}

static int engine_params(const ferry_sampler_params *p, fy_sampler_params *out, fy_err *e)
{
    *out = fy_sampler_defaults();
    out->seed = p->seed;
    out->temperature = p->temperature;
    out->top_k = p->top_k;
    out->top_p = p->top_p;
    out->min_p = p->min_p;
    out->typical_p = p->typical_p;
    out->repeat_penalty = p->repeat_penalty;
    out->presence_penalty = p->presence_penalty;
    out->frequency_penalty = p->frequency_penalty;
    out->repeat_last_n = p->repeat_last_n;
    return p->order != NULL ? fy_sampler_parse_order(p->order, out, e) : 0;
}

static int check_params(const ferry_sampler_params *p, fy_err *e)
{
    if (fy_api_flags(p->flags, FERRY_IGNORE_END, e) != 0)
        return -1;
    return p->n_bias > 0 ? fy_api_need(p->bias, "bias", e) : 0;
}

/* --- life ----------------------------------------------------------------------------------- */

/* What no token stands for is never chosen, as far as the file says so. A file without a tokenizer
 * is none's fault: its ids are all alike. */
static int find_vocab(ferry_model *model, const fy_vocab **out, fy_err *e)
{
    fy_err why = {0};
    const ferry_vocab *vocab = fy_api_vocab(model, &why);
    *out = vocab != NULL ? vocab->v : NULL;
    if (vocab == NULL && why.code == FY_ENOMEM)
        return fy_nomem(e);
    if (vocab == NULL) {
        const fy_api_scope scope = fy_api_enter(model);
        fy_log(FY_LOG_WARN, "%s; the sampler chooses from all ids", why.msg);
        fy_api_leave(&scope);
    }
    return 0;
}

static ferry_sampler *new_sampler(ferry_model *model, const ferry_sampler_params *p, fy_err *e)
{
    const fy_vocab *vocab;
    fy_sampler_params params;
    if (check_params(p, e) != 0 || engine_params(p, &params, e) != 0 ||
        find_vocab(model, &vocab, e) != 0)
        return NULL;
    ferry_sampler *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fy_nomem(e);
        return NULL;
    }
    s->ignore_end = p->flags & FERRY_IGNORE_END;
    s->bias = copy_bias(p, e);
    if (s->bias != NULL) {
        params.bias = s->bias;
        params.n_bias = p->n_bias;
        s->s = fy_sampler_new(&params, fy_model_hparams(model->m)->n_vocab, vocab, e);
    }
    if (s->s != NULL)
        return s;
    ferry_sampler_free(s);
    return NULL;
}

ferry_status ferry_sampler_new(ferry_model *model, const ferry_sampler_params *params,
                               ferry_sampler **sampler, ferry_error *error)
{
    fy_err e = {0};
    ferry_sampler_params p = defaults();
    int rc = fy_api_need(sampler, "sampler", &e);
    if (rc == 0)
        *sampler = NULL;
    if (rc == 0 && fy_api_need(model, "model", &e) == 0 &&
        fy_api_params(params, &p, FY_API_UP_TO(ferry_sampler_params, order), "ferry_sampler_params",
                      &e) == 0)
        *sampler = new_sampler(model, &p, &e);
    return fy_api_end(rc == 0 && *sampler != NULL ? 0 : -1, &e, error);
}

void ferry_sampler_free(ferry_sampler *sampler)
{
    if (sampler == NULL)
        return;
    fy_sampler_free(sampler->s);
    free(sampler->bias);
    free(sampler);
}

/* --- work ----------------------------------------------------------------------------------- */

ferry_status ferry_sampler_sample(ferry_sampler *sampler, const float *logits, int32_t *id,
                                  ferry_error *error)
{
    fy_err e = {0};
    int32_t chosen = -1;
    if (fy_api_need(sampler, "sampler", &e) == 0 && fy_api_need(logits, "logits", &e) == 0 &&
        fy_api_need(id, "id", &e) == 0)
        chosen = fy_sampler_next(sampler->s, logits, sampler->ignore_end, &e);
    if (chosen >= 0)
        *id = chosen;
    return fy_api_end(chosen >= 0 ? 0 : -1, &e, error);
}

ferry_status ferry_sampler_accept(ferry_sampler *sampler, int32_t id, ferry_error *error)
{
    fy_err e = {0};
    int rc = fy_api_need(sampler, "sampler", &e);
    if (rc == 0)
        rc = fy_sampler_accept(sampler->s, id, &e);
    return fy_api_end(rc, &e, error);
}

void ferry_sampler_reset(ferry_sampler *sampler, uint64_t seed)
{
    if (sampler == NULL)
        return;
    fy_sampler_reset(sampler->s);
    fy_sampler_reseed(sampler->s, seed);
}
