/* Parameters of sampling: defaults, the order of the steps from a text, checks. */
#include "model/sample_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

fy_sampler_params fy_sampler_defaults(void)
{
    return (fy_sampler_params){.temperature = 0.8f,
                               .top_k = 40,
                               .top_p = 0.95f,
                               .min_p = 0.05f,
                               .typical_p = 1,
                               .repeat_penalty = 1,
                               .repeat_last_n = 64,
                               .order = {FY_SAMPLE_PENALTIES, FY_SAMPLE_TOP_K, FY_SAMPLE_TYPICAL,
                                         FY_SAMPLE_TOP_P, FY_SAMPLE_MIN_P, FY_SAMPLE_TEMPERATURE},
                               .n_order = FY_SAMPLE_STEPS};
}

/* --- the order -------------------------------------------------------------------------------- */

#define KNOWN "penalties (e), top_k (k), typ_p (y), top_p (p), min_p (m), temperature (t)"

static const struct {
    char letter;
    const char *names[3];
} words[FY_SAMPLE_STEPS] = {
    [FY_SAMPLE_PENALTIES] = {'e', {"penalties"}},
    [FY_SAMPLE_TOP_K] = {'k', {"top_k"}},
    [FY_SAMPLE_TYPICAL] = {'y', {"typ_p", "typical", "typical_p"}},
    [FY_SAMPLE_TOP_P] = {'p', {"top_p"}},
    [FY_SAMPLE_MIN_P] = {'m', {"min_p"}},
    [FY_SAMPLE_TEMPERATURE] = {'t', {"temperature", "temp"}},
};

/* -1: no step has this name. */
static int step_named(fy_span word)
{
    for (int i = 0; i < FY_SAMPLE_STEPS; i++) {
        for (int k = 0; k < 3 && words[i].names[k] != NULL; k++) {
            const char *name = words[i].names[k];
            size_t n = 0;
            while (n < word.len && name[n] != '\0' &&
                   (word.ptr[n] == '-' ? '_' : word.ptr[n]) == name[n])
                n++;
            if (n == word.len && name[n] == '\0')
                return i;
        }
    }
    return -1;
}

static int step_lettered(char c)
{
    for (int i = 0; i < FY_SAMPLE_STEPS; i++) {
        if (words[i].letter == c)
            return i;
    }
    return -1;
}

static int add_step(fy_sampler_params *p, int step, fy_span word, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (step < 0)
        return fy_fail(e, FY_EARG, "'%s' is not a sampling step, expected " KNOWN,
                       fy_quote(shown, sizeof shown, word));
    for (int i = 0; i < p->n_order; i++) {
        if (p->order[i] == step)
            return fy_fail(e, FY_EARG,
                           "sampling step %s is given twice, each of " KNOWN " may be given once",
                           words[step].names[0]);
    }
    p->order[p->n_order++] = (uint8_t)step;
    return 0;
}

/* "temp" could be letters too: names go first, and a list of names has separators. */
int fy_sampler_parse_order(const char *text, fy_sampler_params *p, fy_err *e)
{
    fy_sampler_params made = *p;
    made.n_order = 0;
    bool letters = *text != '\0' && strpbrk(text, ";,") == NULL && step_named(fy_span_of(text)) < 0;
    for (const char *c = text; letters && *c != '\0'; c++)
        letters = step_lettered(*c) >= 0;
    for (const char *word = text, *end;; word = letters ? end : end + 1) {
        const size_t n = letters ? 1 : strcspn(word, ";,");
        const fy_span span = {word, n};
        end = word + n;
        if (add_step(&made, letters ? step_lettered(*word) : step_named(span), span, e) != 0)
            return -1;
        if (*end == '\0')
            break;
    }
    *p = made;
    return 0;
}

void fy_sampler_order_text(const fy_sampler_params *p, fy_str *out)
{
    for (int i = 0; i < p->n_order; i++)
        fy_str_printf(out, "%s%s", i > 0 ? ";" : "", words[p->order[i]].names[0]);
}

/* --- checks ----------------------------------------------------------------------------------- */

static bool within(double v, double min, double max)
{
    return v >= min && v <= max; /* false for NaN */
}

static int check_step(const fy_sampler_params *p, fy_sample_step step, fy_err *e)
{
    const struct {
        const char *name;
        float v;
    } fractions[FY_SAMPLE_STEPS] = {[FY_SAMPLE_TYPICAL] = {"typical", p->typical_p},
                                    [FY_SAMPLE_TOP_P] = {"top-p", p->top_p},
                                    [FY_SAMPLE_MIN_P] = {"min-p", p->min_p}};
    if (fractions[step].name != NULL && !within((double)fractions[step].v, 0, 1))
        return fy_fail(e, FY_EARG, "%s %g, expected 0 to 1", fractions[step].name,
                       (double)fractions[step].v);
    if (step == FY_SAMPLE_TOP_K && p->top_k < 0)
        return fy_fail(e, FY_EARG, "top-k %d, expected 0 (off) or more", p->top_k);
    if (step != FY_SAMPLE_PENALTIES)
        return 0;
    if (!(p->repeat_penalty > 0 && isfinite(p->repeat_penalty)))
        return fy_fail(e, FY_EARG, "repeat penalty %g, expected above 0; 1 is off",
                       (double)p->repeat_penalty);
    if (!isfinite(p->presence_penalty) || !isfinite(p->frequency_penalty))
        return fy_fail(e, FY_EARG, "presence penalty %g, frequency penalty %g, expected numbers",
                       (double)p->presence_penalty, (double)p->frequency_penalty);
    if (p->repeat_last_n < -1 || p->repeat_last_n > FY_SAMPLE_WINDOW_MAX)
        return fy_fail(e, FY_EARG, "penalties for the last %d tokens, expected -1 (all) to %d",
                       p->repeat_last_n, FY_SAMPLE_WINDOW_MAX);
    return 0;
}

int fy_sampler_check(const fy_sampler_params *p, uint32_t n_vocab, fy_err *e)
{
    if (n_vocab > INT32_MAX)
        return fy_fail(e, FY_EARG, "a vocabulary of %u tokens, at most %d", n_vocab, INT32_MAX);
    if (!within((double)p->temperature, 0, 1e6))
        return fy_fail(e, FY_EARG, "temperature %g, expected 0 (greedy) or more",
                       (double)p->temperature);
    if (p->n_order > FY_SAMPLE_STEPS)
        return fy_fail(e, FY_EARG, "%u sampling steps, there are %d", p->n_order, FY_SAMPLE_STEPS);
    unsigned seen = 0;
    for (int i = 0; i < p->n_order; i++) {
        uint8_t step = p->order[i];
        if (step >= FY_SAMPLE_STEPS || (seen >> step & 1))
            return fy_fail(e, FY_EARG, "sampling step %u is unknown or given twice", step);
        seen |= 1u << step;
        if (check_step(p, (fy_sample_step)step, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < p->n_bias; i++) {
        const fy_logit_bias *b = &p->bias[i];
        if (b->id < 0 || (uint32_t)b->id >= n_vocab || isnan(b->bias))
            return fy_fail(e, FY_EARG,
                           "bias %g for token %d, expected a number for a token below %u",
                           (double)b->bias, b->id, n_vocab);
    }
    return 0;
}

bool fy_sample_step_acts(const fy_sampler_params *p, fy_sample_step step)
{
    switch (step) {
    case FY_SAMPLE_PENALTIES:
        return p->repeat_last_n != 0 &&
               (p->repeat_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0);
    case FY_SAMPLE_TOP_K:
        return p->top_k > 0;
    case FY_SAMPLE_TYPICAL:
        return p->typical_p < 1;
    case FY_SAMPLE_TOP_P:
        return p->top_p < 1;
    case FY_SAMPLE_MIN_P:
        return p->min_p > 0;
    case FY_SAMPLE_TEMPERATURE:
        return p->temperature != 1;
    case FY_SAMPLE_STEPS:
        break;
    }
    return false;
}
