/* The graph against a computation of the same model in double, token by token and head by head,
 * written without any of the engine's parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/model/by_hand.h"
#include "model/model.h"

enum { T = BY_HAND_T };

static char path[64];
static const int32_t ids[T] = {1,  5, 9,  33, 7, 7,  80, 95, 0,  12,
                               44, 3, 61, 18, 2, 90, 27, 5,  71, 8};

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ferry-forward-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* --- comparison ----------------------------------------------------------------------------- */

static double worst;

static void compare(const float *ours, const double *expected, uint32_t n)
{
    double largest = 0, diff = 0;
    for (uint32_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(expected[i]));
        diff = fmax(diff, fabs((double)ours[i] - expected[i]));
    }
    worst = fmax(worst, diff / largest);
}

static int see_logits(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    (void)e;
    const by_hand *h = user;
    for (uint32_t i = 0; i < n; i++)
        compare(logits + i * h->m->hp.n_vocab, h->logits[pos + i], h->m->hp.n_vocab);
    return 0;
}

static int see_hidden(void *user, uint32_t layer, const float *x, uint32_t pos, uint32_t n,
                      fy_err *e)
{
    (void)e;
    const by_hand *h = user;
    for (uint32_t i = 0; i < n; i++)
        compare(x + i * h->m->hp.n_embd, h->hidden[layer][pos + i], h->m->hp.n_embd);
    return 0;
}

static void check_model_within(tiny_model t, uint32_t n_ctx)
{
    fy_err e = {0};
    if (tiny_write(&t, path, &e) != 0)
        fail_msg("%s: %s", t.arch, e.msg);
    by_hand *h = calloc(1, sizeof *h);
    assert_non_null(h);
    h->m = &t;
    h->f = tiny_family(&t);
    h->n_ctx = n_ctx;
    hand_compute(h, ids);
    fy_model *m = fy_model_open(path, &e);
    if (m == NULL)
        fail_msg("%s: %s", t.arch, e.msg);
    fy_session *s =
        fy_session_new(m, &(fy_session_params){.n_batch = 7, .n_threads = 2, .n_ctx = n_ctx}, &e);
    assert_non_null(s);
    fy_eval_sinks sinks = {.logits = see_logits, .hidden = see_hidden, .user = h};
    const float *last;
    worst = 0;
    assert_int_equal(fy_session_eval(s, ids, T, &sinks, &last, &e), 0);
    compare(last, h->logits[T - 1], t.hp.n_vocab);
    if (!(worst < 1e-5))
        fail_msg("%s: off by %g", t.arch, worst);
    fy_session_free(s);
    fy_model_close(m);
    free(h);
}

static void check_model(tiny_model t)
{
    check_model_within(t, 0);
}

static void a_plain_llama_is_computed_as_by_hand(void **state)
{
    (void)state;
    check_model(tiny_default());
}

static void tied_output_and_biases_are_used(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    t.tied = t.biases = true;
    check_model(t);
}

static void every_query_head_finds_its_key_head(void **state)
{
    (void)state;
    const uint32_t kv[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        tiny_model t = tiny_default();
        t.hp.n_head_kv = kv[i];
        check_model(t);
    }
}

static void a_window_hides_the_keys_that_are_too_old(void **state)
{
    (void)state;
    const uint32_t windows[] = {1, 4, 19, 20, 64};
    for (int i = 0; i < 5; i++) {
        tiny_model t = tiny_default();
        t.hp.n_swa = windows[i];
        check_model(t);
    }
}

static void heads_wider_than_the_model_divides_are_fine(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    t.hp.n_embd = 48;
    t.hp.n_head = 3;
    t.hp.n_head_kv = 1;
    t.hp.head_dim = t.hp.head_dim_v = t.hp.n_rot = 40;
    check_model(t);
}

static void query_and_key_norms_and_half_split_rotation_are_applied(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    t.arch = "qwen3";
    check_model(t);
}

static void soft_caps_and_norms_behind_the_blocks_are_applied(void **state)
{
    (void)state;
    tiny_model t = tiny_of("gemma2", false);
    t.hp.n_swa = 4; /* every second layer */
    t.hp.attn_scale = 0.3f;
    t.hp.attn_softcap = 2;
    t.hp.logit_softcap = 1.5f;
    t.tied = true;
    check_model(t);
}

static void layers_with_the_window_have_their_own_rotation(void **state)
{
    (void)state;
    tiny_model t = tiny_of("gemma3", false);
    t.hp.n_layer = 6; /* the last sees everything */
    t.hp.n_swa = 4;
    t.hp.rope_theta = 100;
    t.hp.rope_theta_swa = 20;
    t.hp.rope_scaling = FY_ROPE_SCALING_LINEAR;
    t.hp.rope_factor = 4;
    t.tied = true;
    check_model(t);
}

static void layers_without_rotation_do_not_rotate(void **state)
{
    (void)state;
    tiny_model t = tiny_of("smollm3", false);
    t.hp.n_layer = 5;
    check_model(t);
}

static void multipliers_scale_embedding_branches_scores_and_logits(void **state)
{
    (void)state;
    tiny_model t = tiny_of("granite", false);
    t.hp.embedding_scale = 3;
    t.hp.residual_scale = 0.3f;
    t.hp.logit_scale = 5;
    t.hp.attn_scale = 0.1f;
    check_model(t);
}

static void a_parallel_block_reads_the_layers_input_twice(void **state)
{
    (void)state;
    static const char *const archs[] = {"phi2", "falcon", "gptneox"};
    for (int i = 0; i < 4; i++) {
        tiny_model t = tiny_of(archs[i % 3], false);
        t.hp.n_rot = i == 1 ? 0 : 8;
        t.two_norms = i == 3;
        if (i == 3) {
            t.arch = "falcon";
            t.hp.n_rot = 0;
        }
        t.biases = true;
        check_model(t);
    }
}

static void the_same_family_may_be_sequential(void **state)
{
    (void)state;
    tiny_model t = tiny_of("gptneox", false);
    t.hp.parallel = false;
    check_model(t);
}

static void positions_are_learned_and_layer_norms_centred(void **state)
{
    (void)state;
    check_model(tiny_of("opt", false));
    check_model(tiny_of("gpt2", false));
    check_model(tiny_of("starcoder2", false));
}

static void norms_may_stand_behind_the_blocks_only(void **state)
{
    (void)state;
    tiny_model t = tiny_of("olmo2", false);
    t.hp.n_head_kv = 4;
    check_model(t);
}

static void fused_matrices_are_split(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        tiny_model t = tiny_of("chatglm", false);
        t.apart = i & 1;
        t.biases = i & 2;
        t.hp.n_rot = 16;
        check_model(t);
    }
}

static void the_context_chooses_the_factors_of_longrope(void **state)
{
    (void)state;
    tiny_model t = tiny_of("phi3", false);
    t.hp.rope_scaling = FY_ROPE_SCALING_LONGROPE;
    t.hp.rope_orig_ctx = 40;
    t.hp.rope_attn_factor = 1.2f;
    check_model_within(t, 40);
    check_model_within(t, 41);
}

static void queries_keys_and_values_may_come_out_of_latents(void **state)
{
    (void)state;
    tiny_model t = tiny_of("minicpm3", false);
    t.hp.n_head_kv = 4;
    t.hp.head_dim = 24;
    t.hp.head_dim_v = 16;
    t.hp.n_rot = 8;
    t.hp.q_lora_rank = 40;
    t.hp.kv_lora_rank = 32;
    t.hp.rope_scaling = FY_ROPE_SCALING_LONGROPE;
    t.hp.rope_orig_ctx = 40;
    check_model_within(t, 40);
    check_model_within(t, 41);
}

static void every_activation_is_computed(void **state)
{
    (void)state;
    for (int act = 0; act < FY_ACT_COUNT; act++) {
        if (act == FY_ACT_RELU2) /* refused outside of Nemotron-H, whose golden shows it */
            continue;
        tiny_model t = tiny_of("llama", false);
        t.hp.act = (fy_act_kind)act;
        t.hp.act_threshold = act == FY_ACT_FATRELU ? 0.01f : 0;
        check_model(t);
    }
}

static void experts_are_chosen_weighted_and_added(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama", "qwen2moe", "qwen3moe", "olmoe", "granitemoe"};
    for (int i = 0; i < 5; i++) {
        tiny_model t = tiny_of(archs[i], true);
        t.biases = i == 1;
        t.hp.n_expert = i == 2 ? 7 : 4;
        t.hp.n_expert_used = i == 3 ? 4 : i == 4 ? 1 : 2;
        t.hp.n_ff_shexp = i == 1 || i == 4 ? 64 : 0;
        if (i == 3)
            t.hp.n_head_kv = 4;
        check_model(t);
    }
}

static void experts_may_have_biases_and_heads_a_sink(void **state)
{
    (void)state;
    tiny_model t = tiny_of("gpt-oss", true);
    t.biases = true;
    t.hp.n_swa = 4;
    t.hp.full_layers = fy_layers_of((fy_layer_pattern){.period = 2}, t.hp.n_layer);
    check_model(t);
}

static void a_router_may_read_the_layers_input(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        tiny_model t = tiny_of("smallthinker", true);
        t.hp.n_layer = 5;
        t.hp.n_swa = i == 0 ? 0 : 4;
        t.hp.gating = i == 2 ? FY_GATING_SOFTMAX : FY_GATING_SIGMOID;
        check_model(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_llama_is_computed_as_by_hand),
        cmocka_unit_test(tied_output_and_biases_are_used),
        cmocka_unit_test(every_query_head_finds_its_key_head),
        cmocka_unit_test(a_window_hides_the_keys_that_are_too_old),
        cmocka_unit_test(heads_wider_than_the_model_divides_are_fine),
        cmocka_unit_test(query_and_key_norms_and_half_split_rotation_are_applied),
        cmocka_unit_test(soft_caps_and_norms_behind_the_blocks_are_applied),
        cmocka_unit_test(layers_with_the_window_have_their_own_rotation),
        cmocka_unit_test(layers_without_rotation_do_not_rotate),
        cmocka_unit_test(multipliers_scale_embedding_branches_scores_and_logits),
        cmocka_unit_test(a_parallel_block_reads_the_layers_input_twice),
        cmocka_unit_test(the_same_family_may_be_sequential),
        cmocka_unit_test(positions_are_learned_and_layer_norms_centred),
        cmocka_unit_test(norms_may_stand_behind_the_blocks_only),
        cmocka_unit_test(fused_matrices_are_split),
        cmocka_unit_test(the_context_chooses_the_factors_of_longrope),
        cmocka_unit_test(queries_keys_and_values_may_come_out_of_latents),
        cmocka_unit_test(every_activation_is_computed),
        cmocka_unit_test(experts_are_chosen_weighted_and_added),
        cmocka_unit_test(experts_may_have_biases_and_heads_a_sink),
        cmocka_unit_test(a_router_may_read_the_layers_input),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
