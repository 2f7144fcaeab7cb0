#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/sample.h"
#include "tests/unit/model/sample_reference.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/vocab/small_vocab.h"

/* --- tools ------------------------------------------------------------------------------------ */

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

static float random_logit(void)
{
    return (float)random_below(1u << 20) * 0x1p-17f - 4; /* [-4, 4) */
}

/* Everything off; the named steps in order. */
static fy_sampler_params params(const char *order)
{
    fy_sampler_params p = fy_sampler_defaults();
    p.temperature = 1;
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    assert_int_equal(fy_sampler_parse_order(order, &p, NULL), 0);
    return p;
}

static fy_sampler *new_sampler(fy_sampler_params p, uint32_t n)
{
    fy_err e = {0};
    fy_sampler *s = fy_sampler_new(&p, n, NULL, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    return s;
}

static int32_t next_of(fy_sampler_params p, const float *logits, uint32_t n)
{
    fy_sampler *s = new_sampler(p, n);
    int32_t id = fy_sampler_next(s, logits, false, NULL);
    fy_sampler_free(s);
    return id;
}

static int32_t greedy_of(const float *logits, uint32_t n)
{
    return next_of((fy_sampler_params){0}, logits, n);
}

static void accept_all(fy_sampler *s, const int32_t *text, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(fy_sampler_accept(s, text[i], NULL), 0);
}

/* Draws n times with the same window and counts. */
static void count_draws(fy_sampler_params p, const float *logits, uint32_t n_vocab,
                        const int32_t *text, int n_text, int n, int *counts)
{
    memset(counts, 0, n_vocab * sizeof *counts);
    fy_sampler *s = new_sampler(p, n_vocab);
    accept_all(s, text, n_text);
    for (int i = 0; i < n; i++) {
        int32_t id = fy_sampler_next(s, logits, false, NULL);
        assert_in_range(id, 0, n_vocab - 1);
        counts[id]++;
    }
    fy_sampler_free(s);
}

/* How far counts are from a distribution: the chi-square statistic as a normal deviate (Wilson and
 * Hilferty). Ids expected fewer than 5 times share a cell. 1000 stands for a draw of an id that has
 * no probability. */
static double deviation(const int *counts, const double *p, int n_vocab, int n)
{
    double x = 0, few = 0, few_seen = 0;
    int cells = 0;
    for (int i = 0; i < n_vocab; i++) {
        double expected = p[i] * n;
        if (expected == 0 && counts[i] > 0)
            return 1000;
        if (expected < 5) {
            few += expected;
            few_seen += counts[i];
            continue;
        }
        x += (counts[i] - expected) * (counts[i] - expected) / expected;
        cells++;
    }
    if (few >= 1) {
        x += (few_seen - few) * (few_seen - few) / few;
        cells++;
    }
    if (cells < 2)
        return 0;
    double k = cells - 1, v = 2 / (9 * k);
    return (cbrt(x / k) - (1 - v)) / sqrt(v);
}

#define FITS 4.0 /* one true distribution in 30000 is further off; the seeds are fixed */

static double measured(int n, fy_sampler_params drawn, fy_sampler_params expected,
                       const float *logits, int n_vocab, const int32_t *text, int n_text)
{
    int counts[REF_MAX];
    double p[REF_MAX];
    ref_distribution(&expected, logits, n_vocab, text, n_text, p);
    count_draws(drawn, logits, (uint32_t)n_vocab, text, n_text, n, counts);
    return deviation(counts, p, n_vocab, n);
}

/* --- greedy ----------------------------------------------------------------------------------- */

static void greedy_takes_the_largest_and_the_lowest_id_on_ties(void **state)
{
    (void)state;
    assert_int_equal(greedy_of((float[]){0, 3, 1}, 3), 1);
    assert_int_equal(greedy_of((float[]){-5, -1, -1, -2}, 4), 1);
    assert_int_equal(greedy_of((float[]){2, 2, 2}, 3), 0);
    assert_int_equal(greedy_of((float[]){1, INFINITY, 3}, 3), 1);
    float logits[200];
    for (int at = 0; at < 200; at++) { /* every place of a block and after the last whole one */
        for (int i = 0; i < 200; i++)
            logits[i] = i == at || i == 199 ? 7 : -(float)i;
        assert_int_equal(greedy_of(logits, 200), at);
    }
}

static void greedy_counts_penalties_wherever_they_stand(void **state)
{
    (void)state;
    static const char *const orders[] = {"e", "ekpmt", "kte", "tyke", "k"};
    for (int i = 0; i < 5; i++) {
        fy_sampler_params p = params(orders[i]);
        p.temperature = 0;
        p.top_k = 1;
        p.presence_penalty = 2;
        fy_sampler *s = new_sampler(p, 3);
        accept_all(s, (int32_t[]){2}, 1);
        assert_int_equal(fy_sampler_next(s, (float[]){1, 2, 3.5f}, false, NULL), i < 4 ? 1 : 2);
        fy_sampler_free(s);
    }
}

/* --- what is never chosen --------------------------------------------------------------------- */

static void nan_and_minus_infinity_are_never_chosen(void **state)
{
    (void)state;
    static const char *const orders[] = {"t", "kt", "yt", "pt", "mt", "tkypm", "mpykt"};
    assert_int_equal(greedy_of((float[]){NAN, -INFINITY, -100, NAN}, 4), 2);
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        fy_sampler_params p = params(orders[k]);
        p.temperature = 5;
        p.top_k = 3;
        p.top_p = 0.99f;
        p.typical_p = 0.99f;
        p.min_p = 0.001f;
        fy_sampler *s = new_sampler(p, 4);
        for (int i = 0; i < 200; i++) {
            int32_t id = fy_sampler_next(s, (float[]){NAN, 1, -INFINITY, 1.5f}, false, NULL);
            assert_true(id == 1 || id == 3);
        }
        fy_sampler_free(s);
    }
}

static void infinite_logits_share_the_draw(void **state)
{
    (void)state;
    static const char *const orders[] = {"t", "kt", "yt", "pt", "mt", "tkypm", "mpykt", "tekpm"};
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        fy_sampler_params p = params(orders[k]);
        p.temperature = 0.5f;
        p.top_k = 3;
        p.top_p = p.typical_p = 0.9f;
        p.min_p = 0.1f;
        p.presence_penalty = 1;
        int counts[5];
        count_draws(p, (float[]){1, INFINITY, 3e38f, NAN, INFINITY}, 5, (int32_t[]){1, 2}, 2, 1000,
                    counts);
        assert_int_equal(counts[1] + counts[4], 1000);
        assert_in_range(counts[1], 400, 600);
    }
}

static void nothing_to_choose_is_an_error_that_points_at_the_weights(void **state)
{
    (void)state;
    const fy_logit_bias ban[] = {{0, -INFINITY}, {1, -INFINITY}};
    for (int i = 0; i < 8; i++) {
        fy_err e = {0};
        fy_sampler_params p = params(i / 2 == 0 ? "kpt" : i / 2 == 1 ? "mpt" : "ypk");
        p.top_k = 2;
        p.top_p = p.typical_p = 0.9f;
        p.min_p = 0.1f;
        p.temperature = i == 7 ? 0 : 1;
        bool banned = i % 2 == 1;
        p.bias = ban;
        p.n_bias = banned ? 2 : 0;
        fy_sampler *s = new_sampler(p, 2);
        const float *logits = banned ? (float[]){1, 2} : (float[]){NAN, -INFINITY};
        assert_int_equal(fy_sampler_next(s, logits, false, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_non_null(strstr(e.msg, "weights"));
        fy_sampler_free(s);
    }
}

static void vocabularies_of_no_and_one_token_are_handled(void **state)
{
    (void)state;
    static const char *const orders[] = {"ekypmt", "t", "pmk", "ym"};
    for (int k = 0; k < 5; k++) {
        fy_err e = {0};
        fy_sampler_params p = fy_sampler_defaults();
        if (k < 4)
            assert_int_equal(fy_sampler_parse_order(orders[k], &p, NULL), 0);
        p.temperature = k < 4 ? 0.7f : 0;
        p.typical_p = 0.5f;
        p.repeat_penalty = 1.3f;
        assert_int_equal(next_of(p, (float[]){-3}, 1), 0);
        fy_sampler *s = new_sampler(p, 0);
        assert_int_equal(fy_sampler_next(s, NULL, true, &e), -1);
        assert_int_equal(fy_sampler_accept(s, 0, NULL), -1);
        fy_sampler_free(s);
    }
}

/* Sixteen rows for thirteen tokens; of these 2 ends the text and 11 is an unused entry. */
static void rows_without_a_token_and_unused_entries_are_never_chosen(void **state)
{
    (void)state;
    enum { V = 16, END = 2, UNUSED = 11, N_TOKENS = 13 };
    static const fy_logit_bias bias = {UNUSED, 100};
    fy_err e = {0};
    small_vocab b = {0};
    small_spm(&b, false);
    small_id(&b, "tokenizer.ggml.eos_token_id", END);
    fy_vocab *v = small_vocab_load(&b, &e);
    if (v == NULL)
        fail_msg("%s", e.msg);
    for (int round = 0; round < 8; round++) {
        bool ban_eog = round % 2 == 1;
        fy_sampler_params p = params(round / 2 == 0 ? "t" : round / 2 == 1 ? "kpt" : "mt");
        p.temperature = round >= 6 ? 0 : 3;
        p.top_k = 15;
        p.min_p = 0.0001f;
        p.bias = &bias;
        p.n_bias = 1;
        float logits[V];
        for (int i = 0; i < V; i++)
            logits[i] = i >= N_TOKENS || i == UNUSED ? 9 : i == END ? 4 : 1;
        fy_sampler *s = fy_sampler_new(&p, V, v, &e);
        assert_non_null(s);
        int ends = 0;
        for (int i = 0; i < 300; i++) {
            int32_t id = fy_sampler_next(s, logits, ban_eog, NULL);
            assert_true(id >= 0 && id < N_TOKENS && id != UNUSED);
            ends += id == END;
        }
        assert_true(ban_eog ? ends == 0 : ends > 30);
        fy_sampler_free(s);
    }
    fy_vocab_free(v);
}

static void parameters_of_steps_left_out_are_not_looked_at(void **state)
{
    (void)state;
    fy_sampler_params p = {.temperature = 1, .top_p = 7, .repeat_penalty = -1, .min_p = NAN};
    int counts[2];
    count_draws(p, (float[]){0, 0}, 2, NULL, 0, 1000, counts);
    assert_in_range(counts[0], 400, 600);
}

/* --- distributions ---------------------------------------------------------------------------- */

static const float eight[8] = {1.0f, -2.0f, 0.5f, 2.5f, 0.0f, 1.5f, -1.0f, 2.0f};

static void draws_follow_the_softmax_at_any_temperature(void **state)
{
    (void)state;
    const float temperatures[] = {0.1f, 0.5f, 1, 2, 50};
    for (int t = 0; t < 5; t++) {
        fy_sampler_params p = params("t");
        p.temperature = temperatures[t];
        p.seed = 11;
        assert_true(measured(12000, p, p, eight, 8, NULL, 0) < FITS);
    }
}

/* The test must be able to fail: a small change of any parameter is far outside. */
static void a_wrong_distribution_does_not_fit(void **state)
{
    (void)state;
    static const int32_t text[] = {3, 3, 5, 0};
    fy_sampler_params right = params("ekypmt");
    right.top_k = 6;
    right.top_p = 0.93f;
    right.typical_p = 0.95f;
    right.min_p = 0.08f;
    right.repeat_penalty = 1.2f;
    right.presence_penalty = 0.2f;
    right.frequency_penalty = 0.3f;
    right.temperature = 0.8f;
    assert_true(measured(40000, right, right, eight, 8, text, 4) < FITS);
    for (int i = 0; i < 10; i++) {
        fy_sampler_params wrong = right;
        wrong.temperature += i == 0 ? 0.15f : 0;
        wrong.top_k -= i == 1 ? 3 : 0;
        wrong.top_p -= i == 2 ? 0.2f : 0;
        wrong.typical_p -= i == 3 ? 0.2f : 0;
        wrong.min_p += i == 4 ? 0.3f : 0;
        wrong.repeat_penalty += i == 5 ? 0.1f : 0;
        wrong.presence_penalty += i == 6 ? 0.2f : 0;
        wrong.frequency_penalty += i == 7 ? 0.1f : 0;
        wrong.repeat_last_n = i == 8 ? 3 : wrong.repeat_last_n;
        if (i == 9)
            assert_int_equal(fy_sampler_parse_order("tmpyke", &wrong, NULL), 0);
        double off = measured(40000, wrong, right, eight, 8, text, 4);
        if (off < 2 * FITS)
            fail_msg("change %d deviates by %g only", i, off);
    }
}

/* Probabilities 0.4 0.3 0.2 0.1 at ids 2 0 3 1. */
static const float four[4] = {-1.2039728f, -2.3025851f, -0.9162907f, -1.6094379f};

static void check_kept(fy_sampler_params p, const double *share)
{
    enum { N = 10000 };
    int counts[4];
    double expected[4], total = 0;
    p.seed = 5;
    count_draws(p, four, 4, NULL, 0, N, counts);
    for (int i = 0; i < 4; i++)
        total += share[i];
    for (int i = 0; i < 4; i++)
        expected[i] = share[i] / total;
    assert_true(deviation(counts, expected, 4, N) < FITS);
}

static void top_k_keeps_the_k_best(void **state)
{
    (void)state;
    const struct {
        int32_t k;
        double share[4];
    } cases[] = {{1, {0, 0, 0.4, 0}}, {3, {0.3, 0, 0.4, 0.2}}, {9, {0.3, 0.1, 0.4, 0.2}}};
    for (int i = 0; i < 3; i++) {
        fy_sampler_params p = params("k");
        p.top_k = cases[i].k;
        check_kept(p, cases[i].share);
    }
}

static void top_p_keeps_the_fewest_that_reach_p(void **state)
{
    (void)state;
    const struct {
        float p;
        double share[4];
    } cases[] = {{0, {0, 0, 0.4, 0}},
                 {0.01f, {0, 0, 0.4, 0}},
                 {0.5f, {0.3, 0, 0.4, 0}},
                 {0.95f, {0.3, 0.1, 0.4, 0.2}}};
    for (int i = 0; i < 4; i++) {
        fy_sampler_params p = params("p");
        p.top_p = cases[i].p;
        check_kept(p, cases[i].share);
    }
}

static void top_p_counts_within_what_top_k_left(void **state)
{
    (void)state;
    /* Of 0.4 and 0.3 the first is 0.571: above 0.5, although 0.4 is not. */
    fy_sampler_params p = params("kp");
    p.top_p = 0.5f;
    p.top_k = 2;
    check_kept(p, (double[]){0, 0, 0.4, 0});
    p.top_k = 3;
    check_kept(p, (double[]){0.3, 0, 0.4, 0});
    p = params("pk"); /* the other way round 0.4 and 0.3 are needed */
    p.top_p = 0.5f;
    p.top_k = 2;
    check_kept(p, (double[]){0.3, 0, 0.4, 0});
}

static void min_p_is_relative_to_the_likeliest(void **state)
{
    (void)state;
    fy_sampler_params p = params("m");
    p.min_p = 0.45f;
    check_kept(p, (double[]){0.3, 0, 0.4, 0.2});
    p.min_p = 1;
    check_kept(p, (double[]){0, 0, 0.4, 0});
    p = params("km");
    p.min_p = 0.6f;
    p.top_k = 3;
    check_kept(p, (double[]){0.3, 0, 0.4, 0});
}

/* The entropy is 1.2799: the surprises -ln p are 0.9163 1.2040 1.6094 2.3026 away from it by
 * 0.3636 0.0759 0.3296 1.0227, so the order is 0.3, 0.2, 0.4, 0.1. */
static void typical_keeps_what_is_as_surprising_as_expected(void **state)
{
    (void)state;
    const struct {
        float p;
        double share[4];
    } cases[] = {{0, {0.3, 0, 0, 0}},
                 {0.25f, {0.3, 0, 0, 0}},
                 {0.45f, {0.3, 0, 0, 0.2}},
                 {0.55f, {0.3, 0, 0.4, 0.2}},
                 {0.95f, {0.3, 0.1, 0.4, 0.2}}};
    for (int i = 0; i < 5; i++) {
        fy_sampler_params p = params("y");
        p.typical_p = cases[i].p;
        check_kept(p, cases[i].share);
    }
}

static fy_sampler_params random_params(int n_vocab)
{
    char order[FY_SAMPLE_STEPS + 1] = "ekypmt";
    for (uint32_t i = FY_SAMPLE_STEPS - 1; i > 0; i--) {
        uint32_t k = random_below(i + 1);
        char c = order[i];
        order[i] = order[k];
        order[k] = c;
    }
    order[1 + random_below(FY_SAMPLE_STEPS)] = '\0';
    fy_sampler_params p = params(order);
    p.temperature = 0.3f + (float)random_below(170) * 0.01f;
    p.top_k = (int32_t)random_below((uint32_t)n_vocab + 2);
    p.top_p = (float)random_below(105) * 0.01f;
    p.top_p = p.top_p > 1 ? 1 : p.top_p;
    p.typical_p = 0.3f + (float)random_below(75) * 0.01f;
    p.typical_p = p.typical_p > 1 ? 1 : p.typical_p;
    p.min_p = (float)random_below(40) * 0.01f;
    p.repeat_penalty = 0.8f + (float)random_below(60) * 0.01f;
    p.presence_penalty = (float)random_below(10) * 0.1f - 0.3f;
    p.frequency_penalty = (float)random_below(10) * 0.05f - 0.1f;
    p.repeat_last_n = (int32_t)random_below(30) - 1;
    p.seed = random_below(1u << 30);
    return p;
}

/* Any steps in any order, small and larger vocabularies, with a text and biases. */
static void any_order_of_any_steps_gives_its_exact_distribution(void **state)
{
    (void)state;
    random_state = 1;
    for (int round = 0; round < 120; round++) {
        float logits[REF_MAX];
        int32_t text[40];
        fy_logit_bias bias[3];
        int n_vocab = round % 3 == 2 ? 32 + (int)random_below(48) : 2 + (int)random_below(30);
        fy_sampler_params p = random_params(n_vocab);
        for (int i = 0; i < n_vocab; i++)
            logits[i] = random_logit();
        for (int i = 0; i < 40; i++)
            text[i] = (int32_t)random_below((uint32_t)n_vocab);
        for (int i = 0; i < 3; i++)
            bias[i] = (fy_logit_bias){(int32_t)random_below((uint32_t)n_vocab), random_logit()};
        p.bias = bias;
        p.n_bias = random_below(4);
        double off = measured(8000, p, p, logits, n_vocab, text, (int)random_below(41));
        if (!(off < FITS)) {
            fy_str s = {0};
            fy_sampler_order_text(&p, &s);
            fail_msg("round %d, %s: off by %g", round, fy_str_z(&s), off);
        }
    }
}

/* What is kept of a larger vocabulary, seen by drawing nearly evenly from it. */
static void cuts_of_a_large_vocabulary_keep_what_a_full_sort_keeps(void **state)
{
    (void)state;
    enum { V = 120, N = 3000 };
    random_state = 7;
    for (int round = 0; round < 40; round++) {
        float logits[V];
        int counts[V];
        double kept[V];
        for (int i = 0; i < V; i++) /* coarse: many ties */
            logits[i] = round % 2 == 0 ? random_logit() * 3 : (float)random_below(8);
        fy_sampler_params p = params(round % 4 < 2 ? "pt" : "yt");
        p.top_p = p.typical_p = 0.05f + (float)random_below(90) * 0.01f;
        p.temperature = 1;
        ref_distribution(&p, logits, V, NULL, 0, kept);
        p.temperature = 1e6f;
        count_draws(p, logits, V, NULL, 0, N, counts);
        for (int i = 0; i < V; i++)
            assert_int_equal(counts[i] > 0, kept[i] > 0);
    }
}

static void equal_logits_are_cut_by_id(void **state)
{
    (void)state;
    static const char *const orders[] = {"k", "tk", "yk", "pk", "p"};
    float logits[50] = {0};
    int counts[50];
    for (int o = 0; o < 5; o++) {
        fy_sampler_params p = params(orders[o]);
        p.top_k = 5;
        p.top_p = o == 4 ? 0.0999f : 0.9f;
        p.typical_p = 0.9f;
        count_draws(p, logits, 50, NULL, 0, 500, counts);
        for (int i = 0; i < 50; i++)
            assert_true(i < 5 ? counts[i] > 50 : counts[i] == 0);
    }
}

/* --- seeds ------------------------------------------------------------------------------------ */

/* Written down once: the generator, the exponential and the order of candidates are ours, so these
 * hold anywhere. */
static void a_seed_gives_the_same_ids_on_every_machine(void **state)
{
    (void)state;
    enum { V = 1000, N = 12 };
    static const char *const orders[] = {"ekpmt", "pmt", "ypt", "tmeyk"};
    static const int32_t want[4][N] = {
        {963, 494, 346, 198, 482, 951, 309, 556, 272, 62, 988, 210},
        {99, 383, 669, 926, 988, 778, 718, 853, 766, 593, 680, 287},
        {99, 383, 668, 926, 988, 778, 718, 853, 766, 593, 680, 286},
        {963, 494, 667, 840, 124, 272, 630, 198, 593, 383, 309, 531}};
    float logits[V];
    for (int i = 0; i < V; i++)
        logits[i] = (float)((i * 7919) % 1000) / 100.0f;
    for (int k = 0; k < 4; k++) {
        fy_sampler_params p = fy_sampler_defaults();
        assert_int_equal(fy_sampler_parse_order(orders[k], &p, NULL), 0);
        p.typical_p = 0.9f;
        p.repeat_penalty = 1.1f;
        p.frequency_penalty = 0.25f;
        p.seed = 42;
        fy_sampler *s = new_sampler(p, V);
        for (int i = 0; i < N; i++) {
            int32_t id = fy_sampler_next(s, logits, false, NULL);
            assert_int_equal(id, want[k][i]);
            assert_int_equal(fy_sampler_accept(s, id, NULL), 0);
        }
        fy_sampler_free(s);
    }
}

static void a_seed_begins_anew_and_others_differ(void **state)
{
    (void)state;
    fy_sampler_params p = params("t");
    int32_t first[20], again[20];
    const uint64_t seeds[] = {0, 1, UINT64_MAX, (uint64_t)1 << 63};
    for (int k = 0; k < 4; k++) {
        p.seed = seeds[k];
        fy_sampler *s = new_sampler(p, 8);
        for (int i = 0; i < 20; i++)
            again[i] = fy_sampler_next(s, eight, false, NULL);
        if (k > 0)
            assert_memory_not_equal(first, again, sizeof first);
        memcpy(first, again, sizeof first);
        fy_sampler_reseed(s, seeds[k]);
        for (int i = 0; i < 20; i++)
            assert_int_equal(fy_sampler_next(s, eight, false, NULL), first[i]);
        fy_sampler_free(s);
    }
}

/* --- penalties and bias ----------------------------------------------------------------------- */

/* Greedy choices with a text that grows, against counting the window anew each time. */
static void penalties_follow_a_recount_of_the_window(void **state)
{
    (void)state;
    enum { V = 40, N = 400 };
    static const int32_t windows[] = {1, 2, 7, 64, 399, 1000, -1, 0};
    random_state = 3;
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        fy_sampler_params p = params("e");
        p.temperature = 0;
        p.repeat_last_n = windows[w];
        p.repeat_penalty = 1.3f;
        p.presence_penalty = 0.4f;
        p.frequency_penalty = 0.15f;
        int32_t text[N];
        fy_sampler *s = new_sampler(p, V);
        for (int n = 0; n < N; n++) {
            float logits[V];
            double best = -INFINITY;
            ref_list l = {.n = V};
            int32_t want = -1;
            for (int i = 0; i < V; i++) {
                logits[i] = random_logit();
                l.t[i] = (ref_token){.logit = (double)logits[i], .id = i};
            }
            if (windows[w] != 0)
                ref_penalties(&l, &p, text, n);
            for (int i = 0; i < V; i++) {
                if (l.t[i].logit > best) {
                    best = l.t[i].logit;
                    want = i;
                }
            }
            assert_int_equal(fy_sampler_next(s, logits, false, NULL), want);
            text[n] = n % 3 == 0 ? want : (int32_t)random_below(V);
            assert_int_equal(fy_sampler_accept(s, text[n], NULL), 0);
        }
        fy_sampler_free(s);
    }
}

static void a_reset_forgets_the_window_and_a_bad_id_is_refused(void **state)
{
    (void)state;
    for (int32_t last_n = -1; last_n < 3; last_n += 3) {
        fy_sampler_params p = params("e");
        fy_err e = {0};
        p.temperature = 0;
        p.presence_penalty = 5;
        p.repeat_last_n = last_n;
        fy_sampler *s = new_sampler(p, 2);
        for (int round = 0; round < 3; round++) {
            assert_int_equal(fy_sampler_next(s, (float[]){0, 1}, false, NULL), 1);
            accept_all(s, (int32_t[]){1, 1, 1}, 3);
            assert_int_equal(fy_sampler_next(s, (float[]){0, 1}, false, NULL), 0);
            fy_sampler_reset(s);
        }
        assert_int_equal(fy_sampler_accept(s, 2, &e), -1);
        assert_int_equal(e.code, FY_EARG);
        assert_int_equal(fy_sampler_accept(s, -1, NULL), -1);
        fy_sampler_free(s);
    }
}

static void a_bias_is_added_and_may_forbid(void **state)
{
    (void)state;
    const fy_logit_bias bias[] = {{1, 2}, {3, -INFINITY}, {1, 1.5f}, {0, -1}};
    static const int32_t text[] = {1};
    fy_sampler_params p = params("ekt");
    p.bias = bias;
    p.n_bias = 4;
    p.presence_penalty = 0.5f;
    assert_true(measured(12000, p, p, eight, 8, text, 1) < FITS);
    p.temperature = 0;
    assert_int_equal(next_of(p, (float[]){2, 0, 3, 9}, 4), 1);
    assert_int_equal(next_of(p, (float[]){NAN, NAN, NAN, INFINITY}, 4), -1);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void running_out_of_memory_is_an_error_at_any_allocation(void **state)
{
    (void)state;
    fy_sampler_params p = fy_sampler_defaults();
    p.repeat_penalty = 1.1f;
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_sampler *s = fy_sampler_new(&p, 300, NULL, &e);
        failed = alloc_fail_end();
        assert_int_equal(s == NULL, failed);
        assert_int_equal(e.code, failed ? FY_ENOMEM : FY_OK);
        fy_sampler_free(s);
        assert_true(n < 50);
    }
}

static void choosing_and_accepting_take_no_memory(void **state)
{
    (void)state;
    static const char *const orders[] = {"ekypmt", "t", "mt", "pt", "yt", "tpe"};
    for (int k = 0; k < 6; k++) {
        fy_sampler_params p = params(orders[k]);
        p.repeat_last_n = -1;
        p.repeat_penalty = 1.1f;
        p.top_p = p.typical_p = 0.9f;
        p.min_p = 0.1f;
        fy_sampler *s = new_sampler(p, 8);
        alloc_fail_after(0);
        for (int i = 0; i < 100; i++)
            fy_sampler_accept(s, fy_sampler_next(s, eight, false, NULL), NULL);
        bool took = alloc_fail_end();
        assert_false(took);
        fy_sampler_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_largest_and_the_lowest_id_on_ties),
        cmocka_unit_test(greedy_counts_penalties_wherever_they_stand),
        cmocka_unit_test(nan_and_minus_infinity_are_never_chosen),
        cmocka_unit_test(infinite_logits_share_the_draw),
        cmocka_unit_test(nothing_to_choose_is_an_error_that_points_at_the_weights),
        cmocka_unit_test(vocabularies_of_no_and_one_token_are_handled),
        cmocka_unit_test(rows_without_a_token_and_unused_entries_are_never_chosen),
        cmocka_unit_test(parameters_of_steps_left_out_are_not_looked_at),
        cmocka_unit_test(draws_follow_the_softmax_at_any_temperature),
        cmocka_unit_test(a_wrong_distribution_does_not_fit),
        cmocka_unit_test(top_k_keeps_the_k_best),
        cmocka_unit_test(top_p_keeps_the_fewest_that_reach_p),
        cmocka_unit_test(top_p_counts_within_what_top_k_left),
        cmocka_unit_test(min_p_is_relative_to_the_likeliest),
        cmocka_unit_test(typical_keeps_what_is_as_surprising_as_expected),
        cmocka_unit_test(any_order_of_any_steps_gives_its_exact_distribution),
        cmocka_unit_test(cuts_of_a_large_vocabulary_keep_what_a_full_sort_keeps),
        cmocka_unit_test(equal_logits_are_cut_by_id),
        cmocka_unit_test(a_seed_gives_the_same_ids_on_every_machine),
        cmocka_unit_test(a_seed_begins_anew_and_others_differ),
        cmocka_unit_test(penalties_follow_a_recount_of_the_window),
        cmocka_unit_test(a_reset_forgets_the_window_and_a_bad_id_is_refused),
        cmocka_unit_test(a_bias_is_added_and_may_forbid),
        cmocka_unit_test(running_out_of_memory_is_an_error_at_any_allocation),
        cmocka_unit_test(choosing_and_accepting_take_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
