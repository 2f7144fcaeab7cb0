#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/decoder.h"

static fy_hparams router(uint32_t n_expert, uint32_t n_used, fy_gating gating, bool norm)
{
    return (fy_hparams){
        .n_expert = n_expert, .n_expert_used = n_used, .gating = gating, .expert_norm = norm};
}

static void check_choice(const fy_hparams *hp, const float *logits, const int32_t *ids,
                         const double *weights)
{
    int32_t choice[8];
    float weight[8];
    fy_moe_choose(hp, logits, logits, choice, weight);
    for (uint32_t i = 0; i < hp->n_expert_used; i++) {
        assert_int_equal(choice[i], ids[i]);
        assert_true(fabs((double)weight[i] - weights[i]) < 1e-6);
    }
}

static void the_heaviest_are_chosen_in_ascending_order(void **state)
{
    (void)state;
    const float logits[] = {0, 3, -1, 2, 2.5f};
    const double all = 1 + exp(3) + exp(-1) + exp(2) + exp(2.5);
    fy_hparams hp = router(5, 3, FY_GATING_SOFTMAX, false);
    check_choice(&hp, logits, (int32_t[]){1, 3, 4},
                 (double[]){exp(3) / all, exp(2) / all, exp(2.5) / all});
    hp.expert_norm = true;
    const double chosen = exp(3) + exp(2) + exp(2.5);
    check_choice(&hp, logits, (int32_t[]){1, 3, 4},
                 (double[]){exp(3) / chosen, exp(2) / chosen, exp(2.5) / chosen});
}

static void of_equal_experts_the_lower_are_chosen(void **state)
{
    (void)state;
    const float logits[] = {1, 1, 1, 1, 1, 1};
    const fy_hparams hp = router(6, 2, FY_GATING_SOFTMAX, true);
    check_choice(&hp, logits, (int32_t[]){0, 1}, (double[]){0.5, 0.5});
    const float two[] = {-5, 4, 7, 4, 4, 7};
    const fy_hparams three = router(6, 3, FY_GATING_SOFTMAX, true);
    const double sum = 2 + exp(-3);
    check_choice(&three, two, (int32_t[]){1, 2, 5}, (double[]){exp(-3) / sum, 1 / sum, 1 / sum});
}

static void sigmoid_weights_are_their_own_or_shares_of_the_chosen(void **state)
{
    (void)state;
    const float logits[] = {-1, 0, 2};
    const double s0 = 0.5, s2 = 1 / (1 + exp(-2));
    fy_hparams hp = router(3, 2, FY_GATING_SIGMOID, false);
    check_choice(&hp, logits, (int32_t[]){1, 2}, (double[]){s0, s2});
    hp.expert_norm = true;
    check_choice(&hp, logits, (int32_t[]){1, 2}, (double[]){s0 / (s0 + s2), s2 / (s0 + s2)});
}

static void a_bias_chooses_and_does_not_weigh(void **state)
{
    (void)state;
    const float logits[] = {-1, 0, 2}, score[] = {2.27f, 0.5f, 0.88f};
    const double s0 = 1 / (1 + exp(1)), s2 = 1 / (1 + exp(-2));
    const fy_hparams hp = router(3, 2, FY_GATING_SIGMOID, true);
    int32_t choice[2];
    float weight[2];
    fy_moe_choose(&hp, logits, score, choice, weight);
    assert_true(choice[0] == 0 && choice[1] == 2);
    assert_true(fabs((double)weight[0] - s0 / (s0 + s2)) < 1e-6);
    assert_true(fabs((double)weight[1] - s2 / (s0 + s2)) < 1e-6);
}

static void a_vanishing_sum_does_not_blow_weights_up(void **state)
{
    (void)state;
    const float logits[] = {-40, -41, -42};
    const fy_hparams hp = router(3, 2, FY_GATING_SIGMOID, true);
    check_choice(&hp, logits, (int32_t[]){0, 1}, (double[]){exp(-40) * 16384, exp(-41) * 16384});
}

static void numbers_that_are_none_still_choose_experts_that_exist(void **state)
{
    (void)state;
    const float cases[][4] = {{NAN, NAN, NAN, NAN},
                              {1, NAN, 2, 3},
                              {NAN, 1, 2, 3},
                              {INFINITY, -INFINITY, INFINITY, 0},
                              {-INFINITY, -INFINITY, -INFINITY, -INFINITY}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fy_hparams hp = router(4, 3, FY_GATING_SOFTMAX, true);
        int32_t choice[3];
        float weight[3];
        fy_moe_choose(&hp, cases[i], cases[i], choice, weight);
        assert_true(choice[0] >= 0 && choice[0] < choice[1] && choice[1] < choice[2] &&
                    choice[2] < 4);
    }
}

/* --- computing ------------------------------------------------------------------------------ */

enum { N = 23, D = 32, FF = 48, E = 5, USED = 2 };

static float value(uint64_t i)
{
    return (float)((double)((i * 2654435761u + 12345) % 10007) / 5003.5 - 1);
}

static const float *values(size_t n, uint64_t seed)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = value(i + seed * 100003);
    return x;
}

static fy_matrix matrix(int64_t rows, int64_t cols, uint64_t seed)
{
    return (fy_matrix){.data = values((size_t)(rows * cols), seed),
                       .type = FY_F32,
                       .row_bytes = (size_t)cols * sizeof(float),
                       .n_rows = rows,
                       .n_cols = cols};
}

static fy_experts new_experts(void)
{
    return (fy_experts){.logits = malloc(N * E * sizeof(float)),
                        .score = malloc(E * sizeof(float)),
                        .choice = malloc(N * USED * sizeof(int32_t)),
                        .choice_weight = malloc(N * USED * sizeof(float)),
                        .first = malloc((E + 1) * sizeof(int32_t)),
                        .token = malloc(N * USED * sizeof(int32_t)),
                        .token_weight = malloc(N * USED * sizeof(float)),
                        .shared_weight = malloc(N * sizeof(float)),
                        .rows = malloc(N * D * sizeof(float))};
}

static void free_experts(fy_experts *m)
{
    void *const all[] = {m->logits, m->score,        m->choice,        m->choice_weight, m->first,
                         m->token,  m->token_weight, m->shared_weight, m->rows};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void a_router_adds_its_bias_to_the_sigmoid(void **state)
{
    (void)state;
    static const float rows[E] = {1, 2, 3, 4, 5}, x[2] = {0.25f, -0.25f};
    static const float bias[E] = {0.9f, -0.9f, 0, 0, 0};
    fy_hparams hp = router(E, USED, FY_GATING_SIGMOID, true);
    fy_weights *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->w[FY_T_FFN_ROUTER] = (fy_matrix){
        .data = rows, .type = FY_F32, .row_bytes = sizeof *rows, .n_rows = E, .n_cols = 1};
    l->w[FY_T_FFN_CHOICE_B] = (fy_matrix){.data = bias};
    fy_experts m = new_experts();
    const fy_backend_params p = {.n_threads = 1, .n_tokens = N};
    fy_backend *b = fy_backend_new(&p, NULL);
    assert_non_null(b);
    fy_moe_route(b, &hp, l, &m, x, 2);
    assert_true(m.choice[0] == 0 && m.choice[1] == 4); /* without it 3 and 4 */
    assert_true(m.choice[2] == 0 && m.choice[3] == 2); /* without it 0 and 1 */
    fy_backend_free(b);
    free_experts(&m);
    free(l);
}

/* Tokens grouped by expert, alone, and on more threads: the same bits. */
static void a_token_does_not_depend_on_its_batch(void **state)
{
    (void)state;
    fy_hparams hp = router(E, USED, FY_GATING_SOFTMAX, true);
    hp.n_embd = D;
    hp.act = FY_ACT_SILU;
    fy_weights *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->w[FY_T_FFN_ROUTER] = matrix(E, D, 1);
    l->w[FY_T_FFN_GATE_EXPS] = matrix(E * FF, D, 2);
    l->w[FY_T_FFN_UP_EXPS] = matrix(E * FF, D, 3);
    l->w[FY_T_FFN_DOWN_EXPS] = matrix(E * D, FF, 4);
    l->w[FY_T_FFN_SHEXP_ROUTER] = matrix(1, D, 5);
    l->w[FY_T_FFN_GATE_SHEXP] = matrix(FF, D, 6);
    l->w[FY_T_FFN_UP_SHEXP] = matrix(FF, D, 7);
    l->w[FY_T_FFN_DOWN_SHEXP] = matrix(D, FF, 8);
    fy_experts m = new_experts();
    const float *x = values(N * D, 9);
    float gate[N * FF], up[N * FF], whole[N * D], one[D];
    for (int threads = 1; threads <= 3; threads++) {
        fy_backend_params p = {.n_threads = threads, .n_tokens = N, .q8_len = 0, .head_dim = 0};
        fy_backend *b = fy_backend_new(&p, NULL);
        assert_non_null(b);
        fy_moe_route(b, &hp, l, &m, x, N);
        assert_int_equal(m.first[0], 0);
        assert_int_equal(m.first[E], N * USED);
        fy_moe_ffn(b, &hp, l, &m, x, gate, up, whole, N);
        for (int t = 0; t < N; t++) {
            fy_moe_route(b, &hp, l, &m, x + t * D, 1);
            fy_moe_ffn(b, &hp, l, &m, x + t * D, gate, up, one, 1);
            assert_memory_equal(one, whole + t * D, sizeof one);
        }
        fy_backend_free(b);
    }
    for (int slot = 0; slot < FY_T_COUNT; slot++)
        free((void *)(uintptr_t)l->w[slot].data);
    free((void *)(uintptr_t)x);
    free_experts(&m);
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_heaviest_are_chosen_in_ascending_order),
        cmocka_unit_test(of_equal_experts_the_lower_are_chosen),
        cmocka_unit_test(sigmoid_weights_are_their_own_or_shares_of_the_chosen),
        cmocka_unit_test(a_bias_chooses_and_does_not_weigh),
        cmocka_unit_test(a_router_adds_its_bias_to_the_sigmoid),
        cmocka_unit_test(a_vanishing_sum_does_not_blow_weights_up),
        cmocka_unit_test(numbers_that_are_none_still_choose_experts_that_exist),
        cmocka_unit_test(a_token_does_not_depend_on_its_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
