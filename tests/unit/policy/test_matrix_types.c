#include "policy/type_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TYPES "f32|f16|q8_0|q4_0|q4_K|q6_K"

enum { EMBD, OUTPUT, NORM, Q, ODD, N };

static void items(fy_type_item t[N], fy_type type)
{
    static const struct {
        const char *name;
        uint64_t ne0;
        bool matrix;
    } made[N] = {{"token_embd.weight", 512, true},
                 {"output.weight", 512, true},
                 {"output_norm.weight", 512, false},
                 {"blk.0.attn_q.weight", 512, true},
                 {"blk.0.ffn_down.weight", 48, true}};
    for (int i = 0; i < N; i++)
        t[i] = (fy_type_item){.name = fy_span_of(made[i].name),
                              .ne0 = made[i].ne0,
                              .matrix = made[i].matrix,
                              .type = made[i].matrix ? type : FY_F32};
}

static const fy_llama_model model = {.arch = {"llama", 5}, .n_layer = 1};
static const fy_type q8_0 = FY_Q8_0, q6_k = FY_Q6_K, f16 = FY_F16;

/* Chooses for a request of q4_0 and expects a type and a reason of tensor i. */
static void expect(fy_type_request r, const char *rule, bool tied, int i, fy_type type,
                   fy_type_why why)
{
    fy_type_item t[N];
    fy_err e = {0};
    items(t, FY_Q4_0);
    if (tied)
        t[OUTPUT].name = FY_SPAN("blk.0.attn_k.weight");
    r.file.type = FY_Q4_0;
    r.model = model;
    if (rule != NULL)
        r.rules = fy_type_rules_new("--r", TYPES, &rule, 1, &e);
    if (fy_choose_matrix_types(&r, t, N, &e) != 0)
        fail_msg("%s", e.msg);
    fy_type_rules_free(r.rules);
    if (t[i].type != type || t[i].why != why)
        fail_msg("%.*s: %s, %s", (int)t[i].name.len, t[i].name.ptr, fy_type_name(t[i].type),
                 fy_type_why_name(t[i].why));
}

static void the_order_is_options_rules_recipe(void **state)
{
    (void)state;
    const fy_type_request pure = {0}, llama = {.file.recipe = FY_RECIPE_LLAMA};
    expect(pure, NULL, false, OUTPUT, FY_Q4_0, FY_TYPE_ASKED);
    expect(pure, NULL, false, NORM, FY_F32, FY_TYPE_KEPT);
    expect(llama, NULL, false, OUTPUT, FY_Q6_K, FY_TYPE_RECIPE);
    expect(llama, NULL, false, Q, FY_Q4_0, FY_TYPE_ASKED);
    expect(llama, NULL, true, EMBD, FY_Q6_K, FY_TYPE_RECIPE);
    expect(llama, "output=f16", false, OUTPUT, FY_F16, FY_TYPE_OPTION);
    expect(pure, "output|attn=f16", false, NORM, FY_F32, FY_TYPE_KEPT);
    expect((fy_type_request){.output = &q8_0}, "output=f16", false, OUTPUT, FY_Q8_0,
           FY_TYPE_OPTION);
    expect((fy_type_request){.embedding = &q8_0}, "embd=f16", false, EMBD, FY_Q8_0, FY_TYPE_OPTION);
    /* the embedding that is the output, too: its own option, a rule, the output's option, the
     * recipe */
    expect((fy_type_request){.file.recipe = FY_RECIPE_LLAMA, .output = &q8_0}, NULL, true, EMBD,
           FY_Q8_0, FY_TYPE_OPTION);
    expect((fy_type_request){.file.recipe = FY_RECIPE_LLAMA, .output = &q8_0, .embedding = &f16},
           NULL, false, EMBD, FY_F16, FY_TYPE_OPTION);
}

static void rows_decide_last(void **state)
{
    (void)state;
    fy_type_item t[N];
    const fy_type_request r = {.file.type = FY_Q4_0, .output = &q6_k};
    items(t, FY_Q4_0);
    t[OUTPUT].ne0 = 64;
    assert_int_equal(fy_choose_matrix_types(&r, t, N, NULL), 0);
    assert_int_equal(t[OUTPUT].type, FY_Q8_0);
    assert_int_equal(t[OUTPUT].wanted, FY_Q6_K);
    assert_true(t[OUTPUT].fallback);
    assert_int_equal(t[ODD].type, FY_F16);
    assert_true(t[ODD].fallback);
    assert_false(t[Q].fallback);
    assert_false(t[NORM].fallback);
}

static void an_option_that_does_nothing_is_an_error(void **state)
{
    (void)state;
    static const char *const rule = "none=f16";
    fy_type_item t[N];
    fy_err e = {0};
    items(t, FY_Q4_0);
    t[OUTPUT].name = FY_SPAN("blk.0.attn_k.weight");
    assert_int_equal(
        fy_choose_matrix_types(&(fy_type_request){.file.type = FY_Q4_0, .output = &q8_0}, t, N, &e),
        -1);
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "name its type with --token-embedding-type"));
    e = (fy_err){0};
    items(t, FY_Q4_0);
    t[EMBD].matrix = false;
    assert_int_equal(fy_choose_matrix_types(
                         &(fy_type_request){.file.type = FY_Q4_0, .embedding = &q8_0}, t, N, &e),
                     -1);
    assert_non_null(strstr(e.msg, "--token-embedding-type: the model has no token_embd.weight"));
    e = (fy_err){0};
    fy_type_request r = {.file.type = FY_Q4_0,
                         .rules = fy_type_rules_new("--r", TYPES, &rule, 1, &e)};
    assert_int_equal(fy_choose_matrix_types(&r, t, N, &e), -1);
    assert_non_null(strstr(e.msg, "--r none=f16: no matrix"));
    fy_type_rules_free(r.rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_is_options_rules_recipe),
        cmocka_unit_test(rows_decide_last),
        cmocka_unit_test(an_option_that_does_nothing_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
