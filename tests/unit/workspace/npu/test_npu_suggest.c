#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/workspace/npu_fixture.h"

static fy_npu_recipes *recipes;

static int open_recipes(void **state)
{
    (void)state;
    recipes = npu_own_recipes();
    return 0;
}

static int close_recipes(void **state)
{
    (void)state;
    fy_npu_recipes_free(recipes);
    return 0;
}

static bool fits(const fy_npu_model *m, const fy_npu_params *p)
{
    bool yes;
    assert_int_equal(fy_npu_plan_fits(m, p, &yes, NULL), 0);
    return yes;
}

/* The words, which are checked, and what they mean. */
static fy_npu_suggestion expect(const fy_npu_model *m, const fy_npu_params *p, const char *words)
{
    fy_npu_suggestion s;
    fy_str text = {0};
    fy_err e = {0};
    if (fy_npu_suggest(m, p, recipes, &s, &e) != 0)
        fail_msg("%s", e.msg);
    fy_npu_suggestion_text(&s, m, &text);
    if (strcmp(fy_str_z(&text), words) != 0)
        fail_msg("'%s', expected '%s'", fy_str_z(&text), words);
    fy_str_release(&text);
    assert_true(!s.found || fits(m, &s.params));
    return s;
}

static void a_plan_that_fits_stays_as_it_is(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_1b();
    const fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A4W, 16);
    const fy_npu_params p = {.soc = &soc, .recipe = &r};
    const fy_npu_suggestion s = expect(&m, &p, "");
    assert_true(s.found);
    for (int i = 0; i < FY_NPU_CHANGE_COUNT; i++)
        assert_false(s.changed[i]);
    fy_npu_model_release(&m);
}

static void the_number_of_chunks_is_given_up_first(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_8b();
    const fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A4W, 16);
    const fy_npu_params p = {.soc = &soc, .recipe = &r, .n_chunks = 1};
    expect(&m, &p, "--chunks 2");
    fy_npu_model_release(&m);
}

/* The largest context of whole steps: one step more does not fit. */
static void a_context_is_the_largest_that_fits(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_1b();
    fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A4W, 8);
    fy_npu_params p = {.soc = &soc, .recipe = &r, .n_ctx = 16384};
    soc.n_sessions = 1;
    soc.session_bytes = soc.context_bytes = 1024 * NPU_MIB;
    fy_npu_suggestion s;
    assert_int_equal(fy_npu_suggest(&m, &p, recipes, &s, NULL), 0);
    assert_true(s.found && s.changed[FY_NPU_CHANGE_CONTEXT]);
    assert_true(s.params.n_ctx % 128 == 0 && s.params.n_ctx >= 16384 / 4);
    p.n_ctx = s.params.n_ctx;
    assert_true(fits(&m, &p));
    p.n_ctx += 128;
    assert_false(fits(&m, &p));
    fy_npu_model_release(&m);
}

static void a_context_far_below_is_no_cheap_change(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_1b();
    fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A4W, 16);
    fy_npu_params p = {.soc = &soc, .recipe = &r, .n_ctx = 8192};
    fy_npu_suggestion s;
    fy_npu_plan plan;
    soc.n_sessions = 1;
    soc.session_bytes = soc.context_bytes = 770 * NPU_MIB; /* a context of 2048 takes 787 */
    assert_int_equal(fy_npu_suggest(&m, &p, recipes, &s, NULL), 0);
    assert_true(s.found && s.params.n_ctx >= 8192 / 4);
    assert_true(s.changed[FY_NPU_CHANGE_CONTEXT] && s.changed[FY_NPU_CHANGE_KV]);
    /* Where nothing else can be changed it is what is left. */
    p = (fy_npu_params){
        .soc = &soc, .recipe = &r, .n_ctx = 1024, .batch = {1}, .n_batches = 1, .kv_bits = 8};
    assert_int_equal(fy_npu_plan_make(&m, &p, &plan, NULL), 0);
    soc.session_bytes = soc.context_bytes = plan.chunks[0].bytes + plan.heads[0].bytes;
    fy_npu_plan_release(&plan);
    p.n_ctx = 8192;
    assert_int_equal(fy_npu_suggest(&m, &p, NULL, &s, NULL), 0);
    assert_true(s.found && s.params.n_ctx == 1024);
    fy_npu_model_release(&m);
}

static void a_batch_without_room_gets_some(void **state)
{
    (void)state;
    fy_hparams hp = npu_hparams(2, 64, 4, 4, 128, 1000);
    hp.n_ctx_train = 128;
    fy_npu_model m = npu_model(&hp, (npu_shape){0}),
                 learned = npu_model(&hp, (npu_shape){.learned = true});
    const fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A8W, 8);
    const fy_npu_params p = {.soc = &soc, .recipe = &r, .n_ctx = 100};
    const fy_npu_params q = {
        .soc = &soc, .recipe = &r, .n_ctx = 300, .batch = {8, 4, 1}, .n_batches = 3};
    expect(&m, &p, "-c 256");
    expect(&learned, &p, "--batch 64,1");
    expect(&learned, &q, "-c 128");
    fy_npu_model_release(&m);
    fy_npu_model_release(&learned);
}

/* Below V73 each batch size has weights of its own: one of them fits. */
static void fewer_batch_sizes_are_fewer_copies_of_the_weights(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_8b();
    fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A4W, 8);
    fy_npu_params p = {.soc = &soc, .recipe = &r, .batch = {128, 12, 1}, .n_batches = 3};
    soc.htp_arch = 68;
    soc.memory_bytes = 8 * NPU_GIB;
    expect(&m, &p, "--batch 1");
    soc.memory_bytes = 12 * NPU_GIB;
    expect(&m, &p, "--batch 128,1");
    fy_npu_model_release(&m);
}

static void what_the_architecture_lacks_is_replaced(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_1b();
    fy_soc soc = npu_soc();
    const fy_npu_recipe lpbq = npu_recipe(FY_NPU_LPBQ_32, 8), plain = npu_recipe(FY_NPU_16A4W, 16);
    const fy_npu_params p = {.soc = &soc, .recipe = &lpbq}, q = {.soc = &soc, .recipe = &plain},
                        both = {.soc = &soc, .recipe = &lpbq, .kv_bits = 16};
    soc.htp_arch = 68;
    expect(&m, &p, "--recipe 16a4w");
    expect(&m, &q, "--kv-bits 8");
    expect(&m, &both, "--kv-bits 8 --recipe 16a4w");
    fy_npu_model_release(&m);
}

/* Of recipes the one with most bits that fits: 16a8w of 8B does not, 16a4w does. */
static void a_recipe_has_as_many_bits_as_fit(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_8b();
    fy_soc soc = npu_soc();
    const fy_npu_recipe *half = fy_npu_recipes_find(recipes, "fp16", NULL);
    fy_npu_params p = {.soc = &soc, .recipe = half};
    assert_non_null(half);
    expect(&m, &p, "--recipe 16a8w");
    soc.n_sessions = 2;
    fy_npu_suggestion s;
    assert_int_equal(fy_npu_suggest(&m, &p, recipes, &s, NULL), 0);
    assert_true(s.found && s.changed[FY_NPU_CHANGE_RECIPE]);
    /* No recipe that takes more fits. */
    for (size_t i = 0; i < fy_npu_recipes_n(recipes); i++) {
        const fy_npu_recipe *r = fy_npu_recipes_at(recipes, i);
        fy_npu_plan a, b;
        p.recipe = r;
        assert_int_equal(fy_npu_plan_make(&m, &s.params, &a, NULL), 0);
        assert_int_equal(fy_npu_plan_make(&m, &p, &b, NULL), 0);
        assert_true(r->n_models > 0 || b.weights <= a.weights || !b.fits);
        fy_npu_plan_release(&a);
        fy_npu_plan_release(&b);
    }
    fy_npu_model_release(&m);
}

static void a_model_that_is_too_large_is_told_how_much_of_it_would_fit(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_70b();
    const fy_soc soc = npu_soc();
    const fy_npu_recipe *r = fy_npu_recipes_default(recipes, &soc, true);
    fy_npu_params p = {.soc = &soc, .recipe = r};
    fy_npu_suggestion s;
    assert_int_equal(fy_npu_suggest(&m, &p, recipes, &s, NULL), 0);
    assert_true(s.found && s.changed[FY_NPU_CHANGE_LAYERS]);
    p.n_layers = s.params.n_layers;
    assert_true(fits(&m, &p));
    p.n_layers++;
    assert_false(fits(&m, &p));
    char words[64];
    snprintf(words, sizeof words, "at most %u of 80 layers would fit", s.params.n_layers);
    p.n_layers = 0;
    expect(&m, &p, words);
    fy_npu_model_release(&m);
}

static void when_nothing_fits_that_is_what_it_says(void **state)
{
    (void)state;
    fy_npu_model m = npu_llama_70b();
    fy_soc soc = npu_soc();
    const fy_npu_recipe r = npu_recipe(FY_NPU_16A4W, 8);
    const fy_npu_params p = {.soc = &soc, .recipe = &r},
                        bad = {.soc = &soc, .recipe = &r, .kv_bits = 5};
    fy_npu_suggestion s;
    fy_err e = {0};
    soc.vtcm_mb = 2; /* no row of 28672 */
    s = expect(&m, &p, "no other context, KV cache, batch size or recipe makes it fit");
    assert_false(s.found);
    assert_int_equal(fy_npu_suggest(&m, &bad, recipes, &s, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    fy_npu_model_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_that_fits_stays_as_it_is),
        cmocka_unit_test(the_number_of_chunks_is_given_up_first),
        cmocka_unit_test(a_context_is_the_largest_that_fits),
        cmocka_unit_test(a_context_far_below_is_no_cheap_change),
        cmocka_unit_test(a_batch_without_room_gets_some),
        cmocka_unit_test(fewer_batch_sizes_are_fewer_copies_of_the_weights),
        cmocka_unit_test(what_the_architecture_lacks_is_replaced),
        cmocka_unit_test(a_recipe_has_as_many_bits_as_fit),
        cmocka_unit_test(a_model_that_is_too_large_is_told_how_much_of_it_would_fit),
        cmocka_unit_test(when_nothing_fits_that_is_what_it_says),
    };
    return cmocka_run_group_tests(tests, open_recipes, close_recipes);
}
