#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/sample.h"
#include "model/sample_impl.h"
#include "model/speculate.h"
#include "tests/unit/model/tiny_file.h"

enum { V = TINY_V, CTX = TINY_CTX };

static fy_session *new_session(const fy_model *m)
{
    return tiny_session(m, (fy_session_params){.n_threads = 2, .n_logits = 128});
}

/* --- texts ----------------------------------------------------------------------------------- */

enum { PROMPT = 12, TEXT = 100 };

static void make_prompt(int32_t ids[PROMPT])
{
    for (int i = 0; i < PROMPT; i++)
        ids[i] = (i * 13 + 7) % V;
}

static fy_sampler_params params_of(int which, uint64_t seed)
{
    fy_sampler_params p = fy_sampler_defaults();
    p.seed = seed;
    if (which == 0)
        p.temperature = 0;
    if (which == 2) {
        p.repeat_penalty = 1.2f;
        p.presence_penalty = 0.3f;
    }
    return p;
}

/* A text of the model, with or without speculation; returns its length. */
static uint32_t tell(fy_session *s, fy_speculator *spec, const fy_sampler_params *p,
                     int32_t out[TEXT])
{
    fy_err e = {0};
    int32_t prompt[PROMPT], id = -1;
    const float *logits;
    make_prompt(prompt);
    fy_sampler *sampler = fy_sampler_new(p, V, NULL, &e);
    fy_session_rewind(s, 0);
    assert_int_equal(fy_session_eval(s, prompt, PROMPT, NULL, &logits, &e), 0);
    if (spec != NULL)
        assert_int_equal(fy_speculator_begin(spec, prompt, PROMPT, &e), 0);
    for (uint32_t i = 0; i < TEXT; i++) {
        int rc = 0;
        if (i > 0)
            rc = spec != NULL ? fy_speculator_next(spec, s, id, TEXT - i - 1, &logits, &e)
                              : fy_session_eval(s, &id, 1, NULL, &logits, &e);
        if (rc != 0)
            fail_msg("%s", e.msg);
        out[i] = id = fy_sampler_next(sampler, logits, false, &e);
        assert_true(id >= 0);
        assert_int_equal(fy_sampler_accept(sampler, id, &e), 0);
    }
    if (spec != NULL)
        fy_speculator_settle(spec, s);
    assert_int_equal(fy_session_n_past(s), PROMPT + TEXT - 1);
    fy_sampler_free(sampler);
    return TEXT;
}

/* --- every method gives the same text -------------------------------------------------------- */

enum { METHODS = 6 };

static fy_proposer *new_proposer(int which, const fy_model *m, const int32_t *known)
{
    fy_err e = {0};
    fy_drafter_params d = fy_drafter_defaults();
    fy_proposer *p = NULL;
    d.p_min = 0.02f;
    d.min_prob = 0.001f;
    d.p_base = 0.3f;
    switch (which) {
    case 0:
        p = fy_lookup_new(1, &e);
        break;
    case 1:
        p = fy_known_new(known, PROMPT + TEXT, 0.7, V, 5, &e);
        break;
    case 2: /* the model is its own draft */
        p = fy_drafter_new(new_session(m), V, &d, &e);
        break;
    case 3:
        d.fan_out = 3;
        p = fy_drafter_new(new_session(m), V, &d, &e);
        break;
    case 4:
        p = fy_lookahead_new(&(fy_lookahead_params){3, 4, 3}, V, &e);
        break;
    default:
        p = fy_lookahead_new(&(fy_lookahead_params){5, 8, 8}, V, &e);
    }
    if (p == NULL)
        fail_msg("%s", e.msg);
    return p;
}

static void every_method_gives_the_same_text(void **state)
{
    (void)state;
    const fy_type types[] = {FY_F32, FY_Q8_0, FY_Q4_0};
    fy_err e = {0};
    for (int t = 0; t < 3; t++) {
        tiny_model tiny = tiny_default();
        tiny.type = types[t];
        fy_model *m = tiny_open(tiny);
        fy_session *s = new_session(m);
        for (int k = 0; k < 6; k++) {
            const fy_sampler_params p = params_of(k % 3, (uint64_t)k);
            int32_t want[PROMPT + TEXT], got[TEXT];
            make_prompt(want);
            tell(s, NULL, &p, want + PROMPT);
            for (int which = 0; which < METHODS; which++) {
                fy_proposer *list[] = {new_proposer(which, m, want)};
                fy_speculator *spec = fy_speculator_new(list, 1, 100, (k + which) % 2 == 0, &e);
                assert_non_null(spec);
                tell(s, spec, &p, got);
                if (memcmp(want + PROMPT, got, sizeof got) != 0)
                    fail_msg("method %d, sampling %d: another text", which, k);
                tell(s, spec, &p, got); /* a second text of the same one */
                assert_memory_equal(want + PROMPT, got, sizeof got);
                fy_speculator_free(spec);
            }
        }
        fy_session_free(s);
        fy_model_close(m);
    }
}

static fy_spec_stats stats_of(int which, uint32_t draft_max, int n_texts)
{
    fy_err e = {0};
    fy_model *m = tiny_open(tiny_default());
    fy_session *s = new_session(m);
    const fy_sampler_params p = params_of(0, 0);
    int32_t want[PROMPT + TEXT], got[TEXT];
    make_prompt(want);
    tell(s, NULL, &p, want + PROMPT);
    fy_proposer *list[] = {new_proposer(which, m, want)};
    fy_speculator *spec = fy_speculator_new(list, 1, draft_max, false, &e);
    for (int i = 0; i < n_texts; i++)
        tell(s, spec, &p, got);
    fy_spec_stats stats[FY_PROPOSERS_MAX + 1];
    assert_int_equal(fy_speculator_stats(spec, stats), 2);
    fy_speculator_free(spec);
    fy_session_free(s);
    fy_model_close(m);
    return stats[0];
}

static void a_perfect_draft_is_accepted_whole(void **state)
{
    (void)state;
    const fy_spec_stats chain = stats_of(2, 4, 1), tree = stats_of(3, 11, 1);
    /* TEXT - 1 tokens, five a step, the last step with what is left */
    assert_int_equal(chain.n_steps, (TEXT - 1 + 4) / 5);
    assert_int_equal(chain.n_accepted, TEXT - 1 - chain.n_steps);
    assert_int_equal(chain.n_proposed, chain.n_accepted);
    assert_true(tree.n_accepted > tree.n_steps);
    assert_int_equal(chain.n_trees, 0);
    assert_in_range(tree.n_trees, 1, tree.n_steps);
}

static void a_draft_of_known_quality_is_accepted_as_often(void **state)
{
    (void)state;
    const fy_spec_stats s = stats_of(1, 7, 40);
    const double a = 0.7, expected = (1 - pow(a, 8)) / (1 - a) - 1;
    const double got = (double)s.n_accepted / (double)s.n_steps;
    if (fabs(got - expected) > 0.2)
        fail_msg("%.2f accepted a step, expected about %.2f", got, expected);
}

/* --- lookup ---------------------------------------------------------------------------------- */

static void check_lookup(uint32_t least, const int32_t *text, uint32_t n, uint32_t most,
                         const char *want)
{
    fy_err e = {0};
    fy_proposal p = {.n = 0};
    char got[128] = "";
    fy_proposer *l = fy_lookup_new(least, &e);
    assert_int_equal(l->calls->propose(l, text, n, most, &p, &e), 0);
    assert_true(fy_proposal_is_chain(&p));
    for (uint32_t i = 0; i < p.n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), " %d", p.node[i].id);
    assert_string_equal(got, want);
    fy_proposer_free(l);
}

static void lookup_continues_what_stood_there_before(void **state)
{
    (void)state;
    const int32_t text[] = {1, 2, 3, 4, 9, 2, 3, 5, 6, 1, 2, 3};
    check_lookup(2, text, 12, 3, " 4 9 2"); /* 1 2 3 is longer than the later 2 3 */
    check_lookup(2, text + 1, 11, 2, " 5 6");
    check_lookup(4, text, 12, 3, "");
    check_lookup(2, text, 5, 3, "");
    check_lookup(1, text, 1, 3, "");
    check_lookup(1, text, 0 + 6, 9, " 3 4 9 2");
    const int32_t same[] = {7, 7, 7, 7};
    check_lookup(2, same, 4, 9, " 7");
}

/* --- lookahead ------------------------------------------------------------------------------- */

/* The decoding of ExecuTorch's runner, step by step as its source has it, each row by its own
 * sequence; counts calls. */
typedef struct {
    int32_t branch[8][16], pool[V][16][8];
    int cnt[V], head[V];
} reference;

static int32_t best_of(fy_session *s, const int32_t *ids, uint32_t n)
{
    fy_err e = {0};
    const float *logits;
    fy_candidate best;
    fy_session_rewind(s, 0);
    assert_int_equal(fy_session_eval(s, ids, n, NULL, &logits, &e), 0);
    fy_logits_best(logits, V, 1, &best);
    return best.id;
}

/* The likeliest token after row (level, column) of the window. */
static int32_t window_row(fy_session *s, reference *r, const int32_t *text, uint32_t n, int level,
                          int col)
{
    int32_t ids[CTX];
    memcpy(ids, text, n * sizeof *ids);
    for (int j = 1; j <= col; j++)
        ids[n++] = r->branch[0][j];
    for (int i = 1; i <= level; i++)
        ids[n++] = r->branch[i][col];
    return best_of(s, ids, n);
}

static void pool_insert(reference *r, int n1, int g_max, int32_t first, int col)
{
    for (int g = 0; g < r->cnt[first]; g++) {
        int same = 1;
        for (int i = 0; i < n1; i++)
            same &= r->pool[first][g][i] == r->branch[i][col];
        if (same)
            return;
    }
    for (int i = 0; i < n1; i++)
        r->pool[first][r->head[first]][i] = r->branch[i][col];
    r->head[first] = (r->head[first] + 1) % g_max;
    r->cnt[first] += r->cnt[first] < g_max;
}

static uint32_t reference_calls(fy_session *s, int N, int W, int G, int32_t out[TEXT])
{
    static reference r;
    int32_t text[CTX];
    uint32_t n = PROMPT, calls = 0;
    fy_rng rng;
    memset(&r, 0, sizeof r);
    make_prompt(text);
    fy_rng_seed(&rng, 1234);
    for (int i = 0; i < N - 1; i++) {
        for (int j = 0; j < W; j++)
            r.branch[i][j] = text[1 + (uint32_t)(fy_rng_unit(&rng) * (PROMPT - 1))];
    }
    text[n] = best_of(s, text, n);
    n++;
    while (n < PROMPT + TEXT) {
        const int32_t old = text[n - 1];
        int active[16], cnt = r.cnt[old];
        int32_t grams[16][8], next[16];
        for (int g = 0; g < cnt; g++) {
            active[g] = 1;
            memcpy(grams[g], r.pool[old][g], sizeof grams[g]);
        }
        for (int j = 0; j < W; j++)
            next[j] = window_row(s, &r, text, n, N - 2, j);
        calls++;
        for (int v = 0; v < N; v++) {
            int any = v == 0;
            for (int g = 0; g < cnt; g++)
                any |= active[g];
            if (!any || n == PROMPT + TEXT)
                break;
            const int32_t cur = best_of(s, text, n);
            text[n++] = cur;
            for (int g = 0; g < cnt; g++)
                active[g] &= v < N - 1 && grams[g][v] == cur;
            if (v > 0)
                continue;
            int32_t prev[16];
            memcpy(prev, r.branch[0], sizeof prev);
            for (int i = 0; i < N - 2; i++)
                memcpy(r.branch[i], r.branch[i + 1], sizeof prev);
            memcpy(r.branch[N - 2], next, sizeof prev);
            for (int f = 0; f < W; f++)
                pool_insert(&r, N - 1, G, prev[f], f);
        }
    }
    memcpy(out, text + PROMPT, TEXT * sizeof *out);
    return calls;
}

static void lookahead_takes_as_many_calls_as_executorchs(void **state)
{
    (void)state;
    const uint32_t settings[][3] = {{5, 8, 8}, {3, 4, 2}, {2, 5, 3}, {4, 2, 1}};
    fy_model *m = tiny_open(tiny_default());
    fy_session *s = new_session(m), *alone = new_session(m);
    const fy_sampler_params p = params_of(0, 0);
    fy_err e = {0};
    for (int i = 0; i < 4; i++) {
        const uint32_t *o = settings[i];
        int32_t want[TEXT], got[TEXT];
        const uint32_t calls = reference_calls(alone, (int)o[0], (int)o[1], (int)o[2], want);
        fy_proposer *list[] = {fy_lookahead_new(&(fy_lookahead_params){o[0], o[1], o[2]}, V, &e)};
        fy_speculator *spec = fy_speculator_new(list, 1, 127, false, &e);
        fy_spec_stats stats[FY_PROPOSERS_MAX + 1];
        tell(s, spec, &p, got);
        assert_memory_equal(want, got, sizeof got);
        fy_speculator_stats(spec, stats);
        assert_int_equal(stats[0].n_steps + stats[1].n_steps, calls);
        assert_true(calls < TEXT - 1);
        fy_speculator_free(spec);
    }
    fy_session_free(alone);
    fy_session_free(s);
    fy_model_close(m);
}

static void lookahead_of_too_many_rows_is_refused(void **state)
{
    (void)state;
    const fy_lookahead_params bad[] = {{1, 8, 8}, {5, 0, 8}, {5, 8, 0}, {9, 9, 8}, {64, 64, 64}};
    for (int i = 0; i < 5; i++) {
        fy_err e = {0};
        assert_null(fy_lookahead_new(&bad[i], V, &e));
        assert_int_equal(e.code, FY_EARG);
    }
}

/* --- when it pays ---------------------------------------------------------------------------- */

static void what_does_not_pay_is_not_proposed(void **state)
{
    (void)state;
    fy_step_costs c;
    fy_gauge g;
    fy_gauge_begin(&g);
    fy_step_costs_begin(&c, false);
    assert_int_equal(fy_gauge_choose(&g, &c, 8), 0); /* nothing is known yet */
    for (uint32_t i = 1; i <= 9; i++)
        fy_step_costs_add(&c, i, 0.010 * i); /* as expensive as one by one */
    uint32_t n_steps = 0, n_guesses = 0;
    for (; n_steps < 2000; n_steps++) {
        const uint32_t n = fy_gauge_choose(&g, &c, 8);
        fy_gauge_add(&g, n, 0, 0);
        fy_step_costs_count(&c, n + 1, 0, 1);
        n_guesses += n;
    }
    assert_in_range(n_guesses, 10, 100); /* trials, ever fewer */
    for (int i = 0; i < 200; i++)        /* every guess is right, but brings nothing */
        fy_gauge_add(&g, 1, 1, 0);
    assert_in_range(fy_gauge_choose(&g, &c, 8), 0, 1);
    for (uint32_t i = 2; i <= 9; i++)
        for (int k = 0; k < 20; k++)
            fy_step_costs_add(&c, i, 0.0101); /* as cheap as one */
    assert_int_equal(fy_gauge_choose(&g, &c, 8), 8);
    assert_int_equal(fy_gauge_choose(&g, &c, 3), 3);
    for (int i = 0; i < 200; i++)
        fy_gauge_add(&g, 1, 1, 0.02); /* a guess costs more than a step */
    assert_in_range(fy_gauge_choose(&g, &c, 8), 0, 1);
}

static void a_length_is_as_long_as_it_pays(void **state)
{
    (void)state;
    fy_step_costs c;
    fy_gauge g;
    fy_gauge_begin(&g);
    fy_step_costs_begin(&c, false);
    for (uint32_t i = 1; i <= 9; i++)
        fy_step_costs_add(&c, i, 0.010 * (1 + 0.15 * (i - 1)));
    for (int i = 0; i < 500; i++)
        fy_gauge_add(&g, 1, i % 10 < 7, 0); /* a = 0.7 */
    double best = 0;
    uint32_t want = 0;
    for (uint32_t k = 0; k <= 8; k++) {
        const double rate = (1 - pow(0.7, k + 1)) / 0.3 / (1 + 0.15 * k);
        want = rate > best ? k : want;
        best = rate > best ? rate : best;
    }
    c.spare = 8; /* won before */
    const uint32_t got = fy_gauge_choose(&g, &c, 8);
    assert_in_range(got, want - 1, want + 1);
    assert_true(fy_gauge_pays(&g, &c, 1));
}

static void a_step_that_was_not_measured_lies_between(void **state)
{
    (void)state;
    fy_step_costs c;
    fy_step_costs_begin(&c, false);
    assert_true(fy_step_costs_of(&c, 3) == 0);
    fy_step_costs_add(&c, 2, 2);
    fy_step_costs_add(&c, 6, 4);
    assert_true(fy_step_costs_of(&c, 1) == 2 && fy_step_costs_of(&c, 4) == 3);
    assert_true(fy_step_costs_of(&c, 9) == 4 && fy_step_costs_of(&c, 200) == 4);
    fy_step_costs_add(&c, 2, 1e9); /* other work on the machine: it hardly counts */
    fy_step_costs_add(&c, 0, 1);
    fy_step_costs_add(&c, FY_GAUGE_STEP_MAX + 1, 1);
    assert_true(fy_step_costs_of(&c, 6) == 4);
}

/* A machine whose step of n tokens takes 1 + slope * (n - 1), and a guess `guess`; guesses are
 * right with probability a. wide: proposals of so many nodes, of which one path may be right; 0:
 * chains of up to 15. The rate, in those without guesses. */
typedef struct {
    double slope, guess, a;
    uint32_t wide, n_tokens;
    bool flat;
} machine;

static double rate_on(const machine *m, uint64_t seed)
{
    fy_step_costs c;
    fy_gauge g;
    fy_rng rng;
    double s = 0;
    uint32_t n = 0;
    fy_rng_seed(&rng, seed);
    fy_gauge_begin(&g);
    fy_step_costs_begin(&c, m->flat);
    while (n < m->n_tokens) {
        const uint32_t left = m->n_tokens - n - 1;
        const uint32_t k = m->wide > 0 ? (fy_gauge_pays(&g, &c, m->wide) ? m->wide : 0)
                                       : fy_gauge_choose(&g, &c, left < 15 ? left : 15);
        uint32_t n_right = 0;
        while (n_right < k && n_right < 15 && (double)fy_rng_unit(&rng) < m->a)
            n_right++;
        const double step_s = 1 + m->slope * k;
        fy_step_costs_add(&c, k + 1, step_s);
        fy_step_costs_count(&c, k + 1, k * m->guess, n_right + 1);
        fy_gauge_add(&g, k, n_right, k * m->guess);
        s += step_s + k * m->guess;
        n += n_right + 1;
    }
    return n / s;
}

static void no_text_becomes_slower_by_a_twentieth(void **state)
{
    (void)state;
    const double slopes[] = {0, 0.02, 0.1, 0.3, 0.7, 1}, guesses[] = {0, 0.1, 0.3},
                 rights[] = {0, 0.1, 0.3, 0.5, 0.7, 0.9};
    const uint32_t lengths[] = {64, 128, 500, 2000}, wides[] = {0, 7, 15};
    for (int i = 0; i < 6 * 3 * 6 * 4 * 3; i++) {
        const machine m = {.slope = slopes[i % 6],
                           .guess = guesses[i / 6 % 3],
                           .a = rights[i / 18 % 6],
                           .n_tokens = lengths[i / 108 % 4],
                           .wide = wides[i / 432]};
        for (uint64_t seed = 1; seed <= 4; seed++) {
            const double rate = rate_on(&m, seed);
            if (rate < 0.95)
                fail_msg("slope %.2f, guess %.1f, right %.1f, %u nodes: %u tokens at %.3f", m.slope,
                         m.guess, m.a, m.wide, m.n_tokens, rate);
        }
    }
}

static void what_pays_is_found(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        assert_true(rate_on(&(machine){.slope = 0.02, .a = 0.9, .n_tokens = 128}, seed) > 3.5);
        assert_true(rate_on(&(machine){.slope = 0.1, .a = 0.9, .n_tokens = 128}, seed) > 2.4);
        assert_true(rate_on(&(machine){.slope = 0.1, .a = 0.7, .n_tokens = 500}, seed) > 1.8);
        assert_true(rate_on(&(machine){.slope = 0.3, .a = 0.9, .n_tokens = 128}, seed) > 1.5);
        /* an NPU: from the second step on, however many tokens */
        assert_true(rate_on(&(machine){.a = 0.5, .wide = 63, .n_tokens = 128, .flat = true}, seed) >
                    1.5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_gives_the_same_text),
        cmocka_unit_test(a_perfect_draft_is_accepted_whole),
        cmocka_unit_test(a_draft_of_known_quality_is_accepted_as_often),
        cmocka_unit_test(lookup_continues_what_stood_there_before),
        cmocka_unit_test(lookahead_takes_as_many_calls_as_executorchs),
        cmocka_unit_test(lookahead_of_too_many_rows_is_refused),
        cmocka_unit_test(what_does_not_pay_is_not_proposed),
        cmocka_unit_test(a_length_is_as_long_as_it_pays),
        cmocka_unit_test(no_text_becomes_slower_by_a_twentieth),
        cmocka_unit_test(what_pays_is_found),
        cmocka_unit_test(a_step_that_was_not_measured_lies_between),
    };
    return cmocka_run_group_tests_name("speculate", tests, tiny_make_path, tiny_remove_path);
}
