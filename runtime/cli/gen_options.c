/* Decides how run and chat sample: takes each value from its first source (option, hparams.json,
 * model, default), and parses the seed, the order of the samplers and the biases. */
#include "cli/gen_options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/log.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "cli/verb.h"

#define FROM_BUNDLE  "hparams.json"
#define FROM_MODEL   "generation_config"
#define FROM_DEFAULT "default"

/* --- numbers ---------------------------------------------------------------------------------- */

/* A value from each source, NAN: not given there. Integers fit a double. */
typedef struct {
    const char *name;
    const void *field; /* of the options */
    double flag, bundle, fallback, model;
} source;

static double of_int(int64_t v, int64_t least)
{
    return v >= least ? (double)v : NAN;
}

/* An unusable value is reported and ignored: a recommendation never stops the model from running. */
static double of_model(const fy_gguf *model, fy_hint h)
{
    bool bad = false;
    double v = model != NULL ? fy_hint_of(model, h, &bad) : NAN;
    if (bad)
        fy_log(FY_LOG_WARN, "%s: an unusable value, expected %g to %g; ignored",
               fy_hints[h].gguf, fy_hints[h].min, fy_hints[h].max);
    return v;
}

static void list_sources(const fy_gen_options *o, const fy_bundle *b, const fy_gguf *model,
                         source out[FY_HINTS])
{
    static const fy_bundle none = {.temperature = NAN,
                                   .top_p = NAN,
                                   .min_p = NAN,
                                   .typical_p = NAN,
                                   .top_k = -1,
                                   .penalty_repeat = NAN,
                                   .penalty_freq = NAN,
                                   .penalty_present = NAN,
                                   .penalty_last_n = INT64_MIN};
    b = b != NULL ? b : &none;
    /* INT32_MAX means all tokens, as PowerServe's runtime does not accept 0 */
    double top_k = b->top_k == INT32_MAX ? 0 : of_int(b->top_k, 0);
    fy_sampler_params d = fy_sampler_defaults();
    double hint[FY_HINTS];
    for (int h = 0; h < FY_HINTS; h++)
        hint[h] = of_model(model, (fy_hint)h);
    const source all[FY_HINTS] = {
        [FY_HINT_TEMP] = {"temp", &o->temp, o->temp, b->temperature, (double)d.temperature,
                          hint[FY_HINT_TEMP]},
        [FY_HINT_TOP_K] = {"top-k", &o->top_k, of_int(o->top_k, 0), top_k, d.top_k,
                           hint[FY_HINT_TOP_K]},
        [FY_HINT_TOP_P] = {"top-p", &o->top_p, o->top_p, b->top_p, (double)d.top_p,
                           hint[FY_HINT_TOP_P]},
        [FY_HINT_MIN_P] = {"min-p", &o->min_p, o->min_p, b->min_p, (double)d.min_p,
                           hint[FY_HINT_MIN_P]},
        [FY_HINT_TYPICAL] = {"typical", &o->typical, o->typical, b->typical_p, (double)d.typical_p,
                             hint[FY_HINT_TYPICAL]},
        [FY_HINT_REPEAT] = {"repeat-penalty", &o->repeat_penalty, o->repeat_penalty,
                            b->penalty_repeat, (double)d.repeat_penalty, hint[FY_HINT_REPEAT]},
        [FY_HINT_LAST_N] = {"repeat-last-n", &o->repeat_last_n, of_int(o->repeat_last_n, -1),
                            of_int(b->penalty_last_n, -1), d.repeat_last_n, hint[FY_HINT_LAST_N]},
        [FY_HINT_PRESENCE] = {"presence-penalty", &o->presence_penalty, o->presence_penalty,
                              b->penalty_present, (double)d.presence_penalty,
                              hint[FY_HINT_PRESENCE]},
        [FY_HINT_FREQUENCY] = {"frequency-penalty", &o->frequency_penalty, o->frequency_penalty,
                               b->penalty_freq, (double)d.frequency_penalty,
                               hint[FY_HINT_FREQUENCY]},
    };
    memcpy(out, all, sizeof all);
}

/* An option of a library call without a command line has no source of its own. */
static const char *from_flag(const void *field)
{
    const char *from = fy_option_source(field);
    return from != NULL ? from : "command line";
}

static double resolve(const source *v, const char **from)
{
    const double given[] = {v->flag, v->bundle, v->model, v->fallback};
    const char *names[] = {from_flag(v->field), FROM_BUNDLE, FROM_MODEL, FROM_DEFAULT};
    int i = 0;
    while (i < 3 && isnan(given[i]))
        i++;
    *from = names[i];
    return given[i];
}

/* --- how to sample ---------------------------------------------------------------------------- */

typedef struct {
    source values[FY_HINTS];
    const char *bundle_seed; /* NULL or FROM_BUNDLE */
    bool greedy;             /* no source asks for sampling */
} plan;

/* hparams.json has fewer digits than the float in the file. False for NAN. */
static bool is_copy(const source *v)
{
    return fabs(v->bundle - v->model) <= 1e-6 * fabs(v->model);
}

static bool any_draw_flag(const fy_gen_options *o, const plan *p)
{
    bool any = o->seed != NULL || o->samplers != NULL;
    for (int h = 0; h < FY_HINTS; h++)
        any |= fy_hints[h].draws && !isnan(p->values[h].flag);
    return any;
}

/* PowerServe writes top_k 1 into every workspace, as its runtime does not accept temperature 0: so
 * top_k 1, and the values next to it, do not ask for greedy answers. A workspace's copy of the
 * model's recommendations does not ask for sampling either: run answers the same with a file and
 * with its workspace. */
static void make_plan(const fy_gen_options *o, const fy_bundle *b, const fy_gguf *model,
                      bool greedy, plan *p)
{
    list_sources(o, b, model, p->values);
    bool by_bundle = false, stock = b != NULL && b->top_k == 1 && !(b->temperature == 0);
    for (int h = 0; h < FY_HINTS; h++) {
        source *v = &p->values[h];
        if (fy_hints[h].draws && stock)
            v->bundle = NAN;
        by_bundle |= fy_hints[h].draws && !isnan(v->bundle) && !is_copy(v);
    }
    bool seeded = b != NULL && !stock && b->seed != UINT64_MAX;
    p->bundle_seed = seeded ? FROM_BUNDLE : NULL;
    p->greedy = greedy && !any_draw_flag(o, p) && !by_bundle;
    for (int h = 0; p->greedy && h < FY_HINTS; h++) {
        source *v = &p->values[h];
        if (is_copy(v))
            v->bundle = NAN;
        v->model = NAN;
    }
}

static float take(const plan *p, fy_hint h)
{
    const source *v = &p->values[h];
    const char *from;
    double x = resolve(v, &from);
    fy_log(FY_LOG_DEBUG, "%s %g (%s)", v->name, (double)(float)x, from);
    return (float)x;
}

static int32_t take_int(const plan *p, fy_hint h)
{
    const source *v = &p->values[h];
    const char *from;
    int32_t x = (int32_t)resolve(v, &from);
    fy_log(FY_LOG_DEBUG, "%s %d (%s)", v->name, x, from);
    return x;
}

static void take_values(const plan *p, fy_sampler_params *out)
{
    if (p->greedy) {
        out->temperature = 0;
        fy_log(FY_LOG_DEBUG, "temp 0 (" FROM_DEFAULT ")");
    } else {
        out->temperature = take(p, FY_HINT_TEMP);
    }
    if (out->temperature > 0) {
        out->top_k = take_int(p, FY_HINT_TOP_K);
        out->top_p = take(p, FY_HINT_TOP_P);
        out->min_p = take(p, FY_HINT_MIN_P);
        out->typical_p = take(p, FY_HINT_TYPICAL);
    }
    out->repeat_penalty = take(p, FY_HINT_REPEAT);
    out->presence_penalty = take(p, FY_HINT_PRESENCE);
    out->frequency_penalty = take(p, FY_HINT_FREQUENCY);
    out->repeat_last_n = take_int(p, FY_HINT_LAST_N);
}

/* --- seed, order, bias ------------------------------------------------------------------------ */

static uint64_t new_seed(void)
{
    uint32_t seed = 0; /* short enough to be typed again */
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint32_t)time(NULL);
    return seed;
}

static int take_seed(const fy_gen_options *o, const plan *p, const fy_bundle *b,
                     fy_sampler_params *out, fy_err *e)
{
    char shown[FY_QUOTE_BYTES], *end = NULL;
    const char *flag = o->seed, *from = flag != NULL ? from_flag(&o->seed) : p->bundle_seed;
    uint64_t seed = UINT64_MAX;
    bool drawn = from == NULL || (flag != NULL && strcmp(flag, "-1") == 0);
    if (flag != NULL && !drawn) {
        errno = 0;
        seed = flag[0] >= '0' && flag[0] <= '9' ? strtoull(flag, &end, 10) : 0;
        if (end == NULL || *end != '\0' || errno != 0)
            return fy_fail(e, FY_EARG,
                           "--seed: '%s', expected an integer from 0 to 18446744073709551615, or "
                           "-1 for a new one",
                           fy_quote(shown, sizeof shown, fy_span_of(flag)));
    } else if (!drawn) {
        seed = b->seed;
    }
    if (out->temperature == 0)
        return 0;
    out->seed = drawn ? new_seed() : seed;
    if (drawn)
        fy_log(FY_LOG_INFO, "seed %llu", (unsigned long long)out->seed);
    else
        fy_log(FY_LOG_DEBUG, "seed %llu (%s)", (unsigned long long)seed, from);
    return 0;
}

static int take_order(const fy_gen_options *o, fy_sampler_params *out, fy_err *e)
{
    if (o->samplers != NULL && fy_sampler_parse_order(o->samplers, out, e) != 0)
        return fy_ctx(e, "--samplers");
    fy_str s = {0};
    fy_sampler_order_text(out, &s);
    fy_log(FY_LOG_DEBUG, "samplers %s (%s)", fy_str_z(&s),
           o->samplers != NULL ? from_flag(&o->samplers) : FROM_DEFAULT);
    fy_str_release(&s);
    return 0;
}

/* "15+2.5", "15-1", "15=-inf": digits, then a sign or '=', then a number. */
static int parse_bias(const char *text, uint32_t n_vocab, fy_logit_bias *out, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, fy_span_of(text));
    char *sign = NULL, *end = NULL;
    unsigned long long id = 0;
    double bias = NAN;
    errno = 0;
    if (text[0] >= '0' && text[0] <= '9')
        id = strtoull(text, &sign, 10);
    bool too_large = errno == ERANGE || id >= n_vocab;
    if (sign != NULL && (*sign == '+' || *sign == '-' || *sign == '=')) {
        const char *number = sign + (*sign == '=');
        bias = strtod(number, &end);
        if (end == number || *end != '\0')
            bias = NAN;
    }
    /* -inf forbids a token; +inf is refused, as the other steps could not work with it */
    if (isnan(bias) || bias > 1e6 || (bias < -1e6 && !isinf(bias)))
        return fy_fail(e, FY_EARG,
                       "--logit-bias: '%s', expected an id and a number up to 1e6, as 15+2.5, 15-1 "
                       "or 15=-inf",
                       shown);
    if (too_large)
        return fy_fail(e, FY_EARG, "--logit-bias: '%s', expected an id below %u, the vocabulary",
                       shown, n_vocab);
    *out = (fy_logit_bias){(int32_t)id, (float)bias};
    return 0;
}

static int take_bias(const fy_opt_list *list, uint32_t n_vocab, fy_gen_params *out, fy_err *e)
{
    if (list->n == 0)
        return 0;
    out->bias = calloc(list->n, sizeof *out->bias);
    if (out->bias == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < list->n; i++) {
        if (parse_bias(list->items[i], n_vocab, &out->bias[i], e) != 0)
            return -1;
        fy_log(FY_LOG_DEBUG, "logit-bias %d: %g (%s)", out->bias[i].id, (double)out->bias[i].bias,
               from_flag(list));
    }
    out->params.bias = out->bias;
    out->params.n_bias = list->n;
    return 0;
}

int fy_gen_params_of(const fy_gen_options *o, const fy_bundle *bundle, const fy_gguf *model,
                     bool greedy, uint32_t n_vocab, fy_gen_params *out, fy_err *e)
{
    plan p;
    fy_gen_params made = {.params = fy_sampler_defaults()};
    make_plan(o, bundle, model, greedy, &p);
    take_values(&p, &made.params);
    if (take_order(o, &made.params, e) != 0 || take_seed(o, &p, bundle, &made.params, e) != 0 ||
        take_bias(&o->logit_bias, n_vocab, &made, e) != 0) {
        fy_gen_params_release(&made);
        *out = made;
        return -1;
    }
    *out = made;
    return 0;
}

int fy_gen_stops_of(const fy_gen_options *o, fy_span turn, fy_stops **out, fy_err *e)
{
    fy_span texts[FY_STOPS_MAX];
    size_t n = o->stop.n;
    *out = NULL;
    for (size_t i = 0; i < o->stop.n && i < FY_STOPS_MAX; i++)
        texts[i] = fy_span_of(o->stop.items[i]);
    if (turn.len > 0 && n < FY_STOPS_MAX)
        texts[n++] = turn;
    if (n == 0)
        return 0;
    *out = fy_stops_new(texts, n, e); /* reads no text when they are too many */
    return *out != NULL ? 0 : fy_ctx(e, "%s", "--stop");
}

void fy_gen_params_release(fy_gen_params *p)
{
    free(p->bias);
    *p = (fy_gen_params){0};
}
