/* Reading what `ferry bench` is to measure: lists of numbers and types, and every combination of
 * them as a test. */
#include "cli/measure/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/math.h"
#include "base/str.h"

void fy_bench_list_release(fy_bench_list *l)
{
    free(l->v);
    *l = (fy_bench_list){0};
}

static int push(fy_bench_list *l, const char *name, uint32_t v, fy_err *e)
{
    if (l->n == FY_BENCH_LIST_MAX)
        return fy_fail(e, FY_EARG, "--%s: more than %d values", name, FY_BENCH_LIST_MAX);
    return fy_append(&l->v, &l->n, &l->cap, &v, sizeof v, e);
}

/* --- numbers ---------------------------------------------------------------------------------- */

static int refuse(const char *name, const char *text, const char *expected, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EARG, "--%s: '%s' is not a %s", name,
                   fy_quote(shown, sizeof shown, fy_span_of(text)), expected);
}

/* Digits only: strtoull alone would take signs and spaces. */
static bool take_number(const char **p, uint32_t *out)
{
    char *end;
    if (**p < '0' || **p > '9')
        return false;
    errno = 0;
    unsigned long long v = strtoull(*p, &end, 10);
    if (errno != 0 || v > UINT32_MAX)
        return false;
    *p = end;
    *out = (uint32_t)v;
    return true;
}

typedef struct {
    uint32_t first, last, step;
    char op; /* '+' or '*' */
} range;

/* "first", "first-last", "first-last+step", "first-last*step", up to a comma or the end. */
static bool take_range(const char **p, range *r)
{
    *r = (range){.step = 1, .op = '+'};
    if (!take_number(p, &r->first))
        return false;
    r->last = r->first;
    if (**p == '-') {
        ++*p;
        if (!take_number(p, &r->last))
            return false;
        if (**p == '+' || **p == '*') {
            r->op = *(*p)++;
            if (!take_number(p, &r->step))
                return false;
        }
    }
    return **p == '\0' || **p == ',';
}

static int push_range(const fy_bench_range *o, const range *r, fy_bench_list *out, fy_err *e)
{
    if (r->first < o->min || r->last > o->max || r->first > o->max)
        return fy_fail(
            e, FY_EARG, "--%s: %" PRIu32 " is out of range, expected %" PRIu32 " to %" PRIu32,
            o->name, r->first < o->min || r->first > o->max ? r->first : r->last, o->min, o->max);
    if (r->last < r->first)
        return fy_fail(e, FY_EARG, "--%s: the range %" PRIu32 "-%" PRIu32 " ends before it begins",
                       o->name, r->first, r->last);
    for (uint64_t v = r->first, next; v <= r->last; v = next) {
        if (push(out, o->name, (uint32_t)v, e) != 0)
            return -1;
        next = r->op == '+' ? v + r->step : v * r->step;
        if (next <= v)
            return fy_fail(e, FY_EARG,
                           "--%s: the range %" PRIu32 "-%" PRIu32 "%c%" PRIu32
                           " never advances from %" PRIu64,
                           o->name, r->first, r->last, r->op, r->step, v);
    }
    return 0;
}

static int push_numbers(const fy_bench_range *o, const char *text, fy_bench_list *out, fy_err *e)
{
    const char *p = text;
    for (;;) {
        range r;
        if (!take_range(&p, &r))
            return refuse(o->name, text,
                          "list of numbers; expected e.g. 512, 1,2,4, 1-4, 1-9+2 or 1-8*2", e);
        if (push_range(o, &r, out, e) != 0)
            return -1;
        if (*p == '\0')
            return 0;
        p++;
    }
}

int fy_bench_numbers(const fy_bench_range *r, const fy_opt_list *given, fy_bench_list *out,
                     fy_err *e)
{
    for (size_t i = 0; i < given->n; i++) {
        if (push_numbers(r, given->items[i], out, e) != 0)
            return -1;
    }
    return given->n > 0 ? 0 : push(out, r->name, r->def, e);
}

int fy_bench_pairs(const fy_bench_range *r, const fy_opt_list *given, fy_bench_list *out, fy_err *e)
{
    for (size_t i = 0; i < given->n; i++) {
        const char *p = given->items[i];
        uint32_t v[2];
        if (!take_number(&p, &v[0]) || *p++ != ',' || !take_number(&p, &v[1]) || *p != '\0' ||
            v[0] > r->max || v[1] > r->max || (v[0] == 0 && v[1] == 0))
            return refuse(r->name, given->items[i],
                          "pair of numbers; expected tokens of the prompt, a comma, and tokens to "
                          "generate: 512,128",
                          e);
        if (push(out, r->name, v[0], e) != 0 || push(out, r->name, v[1], e) != 0)
            return -1;
    }
    return 0;
}

int fy_bench_seconds(const char *name, const char *text, double *out, fy_err *e)
{
    static const struct {
        const char *unit;
        uint32_t seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
    const uint32_t most = 7 * 24 * 3600;
    const char *p = text;
    uint32_t v;
    if (take_number(&p, &v)) {
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
            uint64_t seconds = (uint64_t)v * units[i].seconds;
            if (strcmp(p, units[i].unit) == 0 && seconds >= 1 && seconds <= most) {
                *out = (double)seconds;
                return 0;
            }
        }
    }
    return refuse(name, text, "time; expected 1s to 168h: 90s, 10m, 1h", e);
}

/* --- types ------------------------------------------------------------------------------------ */

/* The session checks that a type can hold a cache. */
static int push_types(const char *name, const char *text, fy_bench_list *out, fy_err *e)
{
    for (const char *p = text;;) {
        char word[16];
        size_t n = strcspn(p, ",");
        fy_type type;
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), p);
        if (n >= sizeof word || !fy_type_parse(word, &type))
            return refuse(name, text, "list of types; expected e.g. f16 or f16,f32", e);
        if (push(out, name, type, e) != 0)
            return -1;
        if (p[n] == '\0')
            return 0;
        p += n + 1;
    }
}

int fy_bench_types(const char *name, fy_type def, const fy_opt_list *given, fy_bench_list *out,
                   fy_err *e)
{
    for (size_t i = 0; i < given->n; i++) {
        if (push_types(name, given->items[i], out, e) != 0)
            return -1;
    }
    return given->n > 0 ? 0 : push(out, name, def, e);
}

/* --- combinations ----------------------------------------------------------------------------- */

void fy_bench_lists_release(fy_bench_lists *l)
{
    fy_bench_list *all[] = {&l->prompt, &l->gen,   &l->pairs,   &l->depth,  &l->draft,
                            &l->accept, &l->batch, &l->threads, &l->type_k, &l->type_v};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        fy_bench_list_release(all[i]);
}

/* The tests of one machine setting: prompts, then answers, then both. Returns how many; t may be
 * NULL. */
static size_t put_tests(const fy_bench_lists *l, fy_bench_test setting, fy_bench_test *t)
{
    size_t n = 0;
    const struct {
        const fy_bench_list *list;
        bool prompt, gen;
    } kinds[] = {{&l->prompt, true, false}, {&l->gen, false, true}, {&l->pairs, true, true}};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const bool both = kinds[k].prompt && kinds[k].gen;
        for (size_t i = 0; i < kinds[k].list->n; i += 1 + both) {
            const uint32_t *v = &kinds[k].list->v[i];
            setting.n_prompt = kinds[k].prompt ? v[0] : 0;
            setting.n_gen = kinds[k].gen ? v[both] : 0;
            if ((setting.n_prompt == 0 && setting.n_gen == 0) ||
                (setting.n_draft > 0 && setting.n_gen == 0)) /* nothing to guess */
                continue;
            if (t != NULL)
                t[n] = setting;
            n++;
        }
    }
    return n;
}

/* The i-th setting of the machine; the depth changes fastest. */
static fy_bench_test setting_at(const fy_bench_lists *l, size_t i)
{
    fy_bench_test t = {0};
    uint32_t type_k, type_v;
    const struct {
        const fy_bench_list *list;
        uint32_t *field;
    } digits[] = {{&l->draft, &t.n_draft}, {&l->accept, &t.draft_accept},
                  {&l->depth, &t.n_depth}, {&l->threads, &t.n_threads},
                  {&l->type_v, &type_v},   {&l->type_k, &type_k},
                  {&l->batch, &t.n_batch}};
    for (size_t k = 0; k < sizeof digits / sizeof digits[0]; k++) {
        *digits[k].field = digits[k].list->v[i % digits[k].list->n];
        i /= digits[k].list->n;
    }
    t.type_k = (fy_type)type_k;
    t.type_v = (fy_type)type_v;
    return t;
}

int fy_bench_combine(const fy_bench_lists *l, fy_bench_test **tests, size_t *n, fy_err *e)
{
    const size_t each = put_tests(l, (fy_bench_test){0}, NULL);
    size_t made = 0;
    /* no overflow: each list has at most FY_BENCH_LIST_MAX values, 2^10 */
    const uint64_t settings =
        (uint64_t)l->depth.n * l->threads.n * l->type_v.n * l->type_k.n * l->batch.n;
    const uint64_t drafts = (uint64_t)l->draft.n * l->accept.n;
    if (each == 0)
        return fy_fail(e, FY_EARG,
                       "nothing to measure: give tokens of a prompt (-p), tokens to generate (-n) "
                       "or both (-pg)");
    if (settings > FY_BENCH_TESTS_MAX / each || drafts > FY_BENCH_TESTS_MAX / each / settings)
        return fy_fail(e, FY_EARG, "%" PRIu64 " settings of %zu tests, expected at most %d tests",
                       settings, each, FY_BENCH_TESTS_MAX);
    fy_bench_test *t = calloc((size_t)(settings * drafts) * each, sizeof *t);
    if (t == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < settings * drafts; i++)
        made += put_tests(l, setting_at(l, i), t + made);
    *tests = t;
    *n = made;
    return 0;
}

const char *fy_bench_name(const fy_bench_test *t, char out[FY_BENCH_NAME_BYTES])
{
    int n = 0;
    if (t->n_prompt > 0)
        n += snprintf(out, FY_BENCH_NAME_BYTES, "pp%" PRIu32, t->n_prompt);
    if (t->n_gen > 0)
        n += snprintf(out + n, FY_BENCH_NAME_BYTES - (size_t)n, "%stg%" PRIu32,
                      t->n_prompt > 0 ? "+" : "", t->n_gen);
    if (t->n_draft > 0)
        n += snprintf(out + n, FY_BENCH_NAME_BYTES - (size_t)n,
                      " +%" PRIu32 " (%" PRIu32 " %%)", t->n_draft, t->draft_accept);
    if (t->n_depth > 0)
        snprintf(out + n, FY_BENCH_NAME_BYTES - (size_t)n, " @ d%" PRIu32, t->n_depth);
    return out;
}
