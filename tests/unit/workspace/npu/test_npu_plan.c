#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/workspace/npu_fixture.h"

static fy_npu_plan make(const fy_npu_model *m, const fy_npu_params *p)
{
    fy_err e = {0};
    fy_npu_plan plan;
    if (fy_npu_plan_make(m, p, &plan, &e) != 0)
        fail_msg("%s", e.msg);
    return plan;
}

/* --- counted by hand -------------------------------------------------------------------------- */

static fy_npu_model tiny(void)
{
    const fy_hparams hp = npu_hparams(2, 64, 4, 2, 96, 100);
    return npu_model(&hp, (npu_shape){.tied = true});
}

/* 16a8w: rows padded to 32 inputs, a byte each, and 4 bytes of scale; channels padded to 32, those
 * of each head of 16 by themselves. The operations are those of test_npu_ops.c. */
static void the_bytes_of_a_small_model_are_those_counted_by_hand(void **state)
{
    (void)state;
    fy_npu_model m = tiny();
    const fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A8W, 16);
    const fy_npu_params p = {
        .soc = &soc, .recipe = &r, .n_ctx = 16, .batch = {1, 4}, .n_batches = 2};
    fy_npu_plan plan = make(&m, &p);
    const uint64_t q = 4 * 32 * (64 + 4), k = 2 * 32 * (64 + 4), out = 64 * (64 + 4);
    const uint64_t up = 96 * (64 + 4), down = 64 * (96 + 4);
    const uint64_t layer = q + 2 * k + out + 2 * up + down + 2 * 64 * 4;
    const fy_npu_chunk *c = &plan.chunks[0], *h = &plan.heads[0];
    assert_true(plan.fits);
    assert_int_equal(plan.n_cache, 12);
    assert_int_equal(plan.params.batch[0], 4);
    assert_int_equal(plan.n_chunks, 1);
    assert_int_equal(c->end_layer, 2);
    assert_int_equal(c->weights, 2 * layer);
    assert_int_equal(c->file_bytes, c->weights + c->op_bytes);
    /* x, out; mask; cos, sin; and of 2 layers with 2 KV heads the caches and the new rows */
    const uint64_t cache = 2 * 2 * (2 * 12 * 16 * 2), fresh = 2 * 2 * (2 * 4 * 16 * 2);
    assert_int_equal(c->kv_bytes, cache);
    assert_int_equal(c->io_bytes, 2 * 4 * 64 * 4 + 4 * 16 * 2 + 2 * 4 * 8 * 4 + cache + fresh);
    assert_int_equal(c->scratch, 4 * (2 * 3 * 96 + 2 * 4 * 64)); /* the network is wider */
    assert_int_equal(c->bytes, c->file_bytes + c->io_bytes + c->scratch);
    assert_int_equal(plan.n_heads, 1);
    assert_int_equal(h->end_token, 100);
    assert_int_equal(h->weights, 128 * (64 + 4) + 64 * 4);
    assert_int_equal(h->io_bytes, 4 * 64 * 4 + 4 * 100 * 4);
    assert_int_equal(h->scratch, 4 * (2 * 100 + 2 * 4 * 64));
    assert_int_equal(plan.embedding, 100 * 64 * 2);
    assert_int_equal(plan.weights, c->weights + h->weights);
    assert_int_equal(plan.io, c->io_bytes + h->io_bytes);
    assert_int_equal(plan.kv, cache);
    assert_int_equal(plan.npu_peak, plan.embedding + c->bytes + h->bytes + 256 * NPU_MIB);
    assert_int_equal(plan.n_sessions, 1);
    assert_true(plan.weights_shared);
    fy_npu_plan_release(&plan);
    fy_npu_model_release(&m);
}

/* Published: 513 MB for the layers of Llama 3.2 1B and 137 to 139 MB for its lm_head, both of two
 * graphs (PowerServe's packages for V75 and V79, of an older compiler than the one whose sizes the
 * plan has); buffers of 66.5 MiB. */
static void the_published_binaries_of_llama_1b_are_near(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_1b();
    const fy_soc soc = npu_soc();
    fy_npu_recipe r = npu_recipe(FY_NPU_16A4W, 16);
    const fy_npu_params p = {.soc = &soc, .recipe = &r};
    r.float_core = true;
    fy_npu_plan plan = make(&m, &p);
    assert_true(plan.fits);
    assert_int_equal(plan.params.n_ctx, 2048);
    assert_int_equal(plan.params.batch[0], 128);
    assert_int_equal(plan.params.batch[1], 1);
    assert_int_equal(plan.n_chunks, 1);
    const double file = (double)plan.chunks[0].file_bytes / 1e6;
    const double head = (double)plan.heads[0].file_bytes / 1e6;
    const double io = (double)plan.chunks[0].io_bytes / NPU_MIB;
    if (file < 513 * 0.97 || file > 513 || head < 137 * 0.97 || head > 139)
        fail_msg("%.1f MB and %.1f MB", file, head);
    assert_true(io > 66.4 && io < 66.6);
    fy_npu_plan_release(&plan);
    fy_npu_model_release(&m);
}

static void below_v73_every_batch_size_has_its_own_weights(void **state)
{
    (void)state;
    fy_npu_model m = tiny();
    fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A8W, 8);
    const fy_npu_params p = {
        .soc = &soc, .recipe = &r, .n_ctx = 64, .batch = {16, 4, 1}, .n_batches = 3};
    fy_npu_plan shared = make(&m, &p);
    soc.htp_arch = 69;
    fy_npu_plan own = make(&m, &p);
    assert_true(shared.weights_shared && !own.weights_shared);
    assert_int_equal(own.weights, 3 * shared.weights);
    const uint64_t rows = 4 * 32 + 2 * 2 * 32 + 64 + 2 * 96 + 64;
    assert_int_equal(own.chunks[0].op_bytes - shared.chunks[0].op_bytes, 2 * 2 * rows * 12);
    fy_npu_plan_release(&shared);
    fy_npu_plan_release(&own);
    fy_npu_model_release(&m);
}

static void rules_count_by_layer_and_tensor(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_1b();
    fy_slot down[] = {FY_T_FFN_DOWN}, head[] = {FY_T_OUTPUT};
    fy_npu_rule rules[] = {{0, UINT32_MAX, head, 1, FY_NPU_16A8W}, {0, 4, down, 1, FY_NPU_16A8W}};
    const fy_soc soc = npu_soc();
    fy_npu_recipe plain = npu_recipe(FY_NPU_16A4W, 8), r = plain;
    r.rules = rules;
    r.n_rules = 2;
    const fy_npu_params a = {.soc = &soc, .recipe = &plain}, b = {.soc = &soc, .recipe = &r};
    fy_npu_plan p = make(&m, &a), q = make(&m, &b);
    assert_int_equal(q.chunks[0].weights - p.chunks[0].weights, 4 * 2048 * 8192 / 2);
    assert_int_equal(q.heads[0].weights - p.heads[0].weights, (uint64_t)128256 * 2048 / 2);
    fy_npu_plan_release(&p);
    fy_npu_plan_release(&q);
    fy_npu_model_release(&m);
}

/* --- where it is cut -------------------------------------------------------------------------- */

static void chunks_are_as_even_as_layers_allow(void **state)
{
    (void)state;
    static const uint32_t ends[] = {9, 19, 28};
    const fy_hparams hp = npu_hparams(28, 3072, 24, 8, 8192, 128256);
    fy_npu_model m = npu_model(&hp, (npu_shape){.tied = true});
    const fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_LPBQ_32, 8);
    const fy_npu_params p = {.soc = &soc, .recipe = &r, .n_chunks = 3};
    fy_npu_plan plan = make(&m, &p);
    assert_true(plan.fits);
    assert_int_equal(plan.n_chunks, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(plan.chunks[i].end_layer, ends[i]);
    fy_npu_plan_release(&plan);
    fy_npu_model_release(&m);
}

/* The first layers are heavier: fewer of them go into a chunk. */
static void chunks_are_balanced_by_bytes_not_by_layers(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_1b();
    fy_npu_rule rules[] = {{0, 8, NULL, 0, FY_NPU_FP16}};
    const fy_soc soc = npu_soc();
    fy_npu_recipe r = npu_recipe(FY_NPU_16A4W, 8);
    r.rules = rules;
    r.n_rules = 1;
    const fy_npu_params p = {.soc = &soc, .recipe = &r, .n_chunks = 2};
    fy_npu_plan plan = make(&m, &p);
    assert_int_equal(plan.chunks[0].end_layer, 5); /* of 8 x 4 + 8 x 1 parts: 20 */
    fy_npu_plan_release(&plan);
    fy_npu_model_release(&m);
}

static void a_wide_head_is_cut_into_equal_slices(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_1b();
    fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A4W, 16);
    fy_npu_params p = {.soc = &soc, .recipe = &r, .n_ctx = 2048};
    static const struct {
        uint64_t file_mib;
        uint32_t batch, n_heads, end;
    } cases[] = {
        {2048, 128, 1, 128256}, /* whole, however wide: nothing breaks */
        {100, 128, 2, 64128},   /* the binary */
        {50, 128, 3, 42752},    /* 42752 = 128256 / 3, already a multiple of 32 */
        {2048, 1024, 3, 42752}, /* the logits: 501 MiB, at most 256 in one region, x beside it */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        soc.file_bytes = cases[i].file_mib * NPU_MIB;
        p.batch[0] = cases[i].batch;
        p.n_batches = 1;
        fy_npu_plan plan = make(&m, &p);
        assert_int_equal(plan.n_heads, cases[i].n_heads);
        assert_int_equal(plan.heads[0].end_token, cases[i].end);
        assert_int_equal(plan.heads[plan.n_heads - 1].end_token, 128256);
        fy_npu_plan_release(&plan);
    }
    fy_npu_model_release(&m);
}

static void chunks_go_into_the_first_session_with_room(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_8b();
    const fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_LPBQ_32, 16);
    const fy_npu_params p = {.soc = &soc, .recipe = &r, .n_chunks = 3};
    fy_npu_plan plan = make(&m, &p);
    assert_true(plan.fits);
    assert_int_equal(plan.n_sessions, 2);
    assert_int_equal(plan.chunks[0].session, 0);
    assert_int_equal(plan.chunks[1].session, 0);
    assert_int_equal(plan.chunks[2].session, 1);
    assert_int_equal(plan.heads[0].session,
                     plan.heads[0].bytes + plan.chunks[0].bytes + plan.chunks[1].bytes >
                         soc.session_bytes);
    fy_npu_plan_release(&plan);
    fy_npu_model_release(&m);
}

/* --- limits ----------------------------------------------------------------------------------- */

static void expect_limit(const fy_npu_model *m, const fy_npu_params *p, fy_npu_limit limit,
                         const char *says)
{
    fy_npu_plan plan = make(m, p);
    assert_false(plan.fits);
    assert_int_equal(plan.limit, limit);
    assert_int_equal(plan.why.code, FY_EFIT);
    if (strstr(plan.why.msg, says) == NULL)
        fail_msg("'%s' does not say '%s'", plan.why.msg, says);
    assert_true(plan.n_chunks > 0 && plan.n_heads > 0);
    fy_npu_plan_release(&plan);
}

static void each_limit_is_named_with_what_was_found(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_8b(), big = npu_llama_70b();
    const fy_hparams learns = {.n_vocab = 1000,
                               .n_ctx_train = 512,
                               .n_embd = 64,
                               .n_layer = 2,
                               .n_ff = 128,
                               .n_head = 4,
                               .n_head_kv = 4,
                               .head_dim = 16,
                               .head_dim_v = 16};
    fy_npu_model learned = npu_model(&learns, (npu_shape){.learned = true});
    fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A4W, 16), odd = npu_recipe(FY_NPU_LPBQ_64, 8);
    fy_npu_params p = {.soc = &soc, .recipe = &r};
    p.n_chunks = 1;
    expect_limit(&m, &p, FY_NPU_LIMIT_CHUNKS, "the largest of 1 chunks has a binary of 3.");
    p.n_chunks = 0;
    p.n_ctx = 128;
    expect_limit(&m, &p, FY_NPU_LIMIT_CONTEXT, "expected at least 129");
    expect_limit(&learned, &p, FY_NPU_LIMIT_CONTEXT, "no room");
    p.n_ctx = 513;
    expect_limit(&learned, &p, FY_NPU_LIMIT_CONTEXT, "knows 512 positions only");
    p.n_ctx = 65537;
    expect_limit(&m, &p, FY_NPU_LIMIT_VTCM, "rows of 65537 elements");
    p.n_ctx = 0;
    expect_limit(&big, &p, FY_NPU_LIMIT_SESSIONS, "a process has 4 on SM8650");
    p.memory_bytes = 6 * NPU_GIB;
    expect_limit(&m, &p, FY_NPU_LIMIT_MEMORY, "of the phone's 6.44 GB the system keeps 2.15 GB");
    p.memory_bytes = 0;
    soc.file_bytes = 64 * NPU_MIB;
    expect_limit(&m, &p, FY_NPU_LIMIT_LAYER, "layer 0 alone has a binary of");
    soc.file_bytes = NPU_MIB;
    expect_limit(&m, &p, FY_NPU_LIMIT_LAYER, "the lm_head takes");
    soc = npu_soc();
    soc.htp_arch = 69;
    expect_limit(&m, &p, FY_NPU_LIMIT_FLOOR, "16");
    const fy_hparams narrow = npu_hparams(2, 96, 4, 4, 128, 1000);
    fy_npu_model n = npu_model(&narrow, (npu_shape){0});
    const fy_npu_params q = {.soc = &soc, .recipe = &odd};
    expect_limit(&n, &q, FY_NPU_LIMIT_FLOOR, "for rows of 96: LPBQ 64 wants");
    fy_npu_model_release(&n);
    fy_npu_model_release(&learned);
    fy_npu_model_release(&big);
    fy_npu_model_release(&m);
}

static void parameters_without_meaning_are_refused(void **state)
{
    (void)state;
    static const struct {
        fy_npu_params p;
        const char *says;
    } cases[] = {
        {{.batch = {0}, .n_batches = 1}, "a batch size of 0"},
        {{.batch = {8, 1, 8}, .n_batches = 3}, "batch size 8 is given twice"},
        {{.n_batches = 9}, "9 batch sizes"},
        {{.n_ctx = 0x80000000u}, "a context of 2147483648"},
        {{.kv_bits = 4}, "4 bits, expected 8 or 16"},
        {{.n_layers = 3}, "3 layers, but the model has 2"},
        {{.n_chunks = 3}, "3 chunks of 2 layers"},
        {{.n_layers = 1, .n_chunks = 2}, "2 chunks of 1 layers"},
    };
    fy_npu_model m = tiny();
    const fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A4W, 8);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_npu_params p = cases[i].p;
        fy_npu_plan plan;
        fy_err e = {0};
        p.soc = &soc;
        p.recipe = &r;
        assert_int_equal(fy_npu_plan_make(&m, &p, &plan, &e), -1);
        assert_int_equal(e.code, FY_EARG);
        if (strstr(e.msg, cases[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", e.msg, cases[i].says);
    }
    fy_npu_model_release(&m);
}

/* Each number as large as a header may have it, and all of them: refused, never overflown. */
static void absurd_numbers_fit_nowhere(void **state)
{
    (void)state;
    const uint32_t most = INT32_MAX;
    const fy_hparams shapes[] = {
        npu_hparams(2, most, 1, 1, 128, 1000),   npu_hparams(2, 64, 4, 4, most, 1000),
        npu_hparams(2, 64, 4, 4, 128, most),     npu_hparams(1000, most, 1, 1, most, most),
        npu_hparams(1000, 64, 4, 4, 128, 32000),
    };
    const fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_FP16, 16);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int ctx = 0; ctx < 2; ctx++) {
            fy_npu_model m = npu_model(&shapes[i], (npu_shape){0});
            const fy_npu_params p = {.soc = &soc,
                                     .recipe = &r,
                                     .n_ctx = ctx ? most : 2048,
                                     .batch = {ctx ? most - 1 : 128, 1},
                                     .n_batches = 2};
            fy_npu_plan plan = make(&m, &p);
            assert_int_equal(plan.fits, i == 4 && ctx == 0);
            assert_true(plan.fits || plan.why.msg[0] != '\0');
            fy_npu_plan_release(&plan);
            fy_npu_model_release(&m);
        }
    }
    fy_hparams heads = npu_hparams(1000, 64, 4, 4, 128, 1000);
    heads.n_head = heads.n_head_kv = most / 4;
    heads.head_dim = heads.head_dim_v = 1;
    fy_npu_model m = npu_model(&heads, (npu_shape){0});
    const fy_npu_params p = {.soc = &soc, .recipe = &r};
    expect_limit(&m, &p, FY_NPU_LIMIT_VTCM, "rows of 536870911 elements");
    fy_npu_model_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_of_a_small_model_are_those_counted_by_hand),
        cmocka_unit_test(the_published_binaries_of_llama_1b_are_near),
        cmocka_unit_test(below_v73_every_batch_size_has_its_own_weights),
        cmocka_unit_test(rules_count_by_layer_and_tensor),
        cmocka_unit_test(chunks_are_as_even_as_layers_allow),
        cmocka_unit_test(chunks_are_balanced_by_bytes_not_by_layers),
        cmocka_unit_test(a_wide_head_is_cut_into_equal_slices),
        cmocka_unit_test(chunks_go_into_the_first_session_with_room),
        cmocka_unit_test(each_limit_is_named_with_what_was_found),
        cmocka_unit_test(parameters_without_meaning_are_refused),
        cmocka_unit_test(absurd_numbers_fit_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
