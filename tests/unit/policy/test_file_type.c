#include "policy/type_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void names_mean_types_and_mixtures(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int recipe;
        fy_file_type t;
        const char *called;
    } cases[] = {
        {"Q4_K_M", -1, {FY_Q4_K, FY_RECIPE_LLAMA}, "q4_K_M"},
        {"q4_k_m", FY_RECIPE_LLAMA, {FY_Q4_K, FY_RECIPE_LLAMA}, "q4_K_M"},
        {"Q4_K_S", -1, {FY_Q4_K, FY_RECIPE_LLAMA_SMALL}, "q4_K_S"},
        {"Q5_K_S", FY_RECIPE_LLAMA, {FY_Q5_K, FY_RECIPE_LLAMA_SMALL}, "q5_K_S"},
        {"Q6_K", -1, {FY_Q6_K, FY_RECIPE_LLAMA}, "q6_K"},
        {"q6_K", FY_RECIPE_PURE, {FY_Q6_K, FY_RECIPE_PURE}, "q6_K"},
        {"Q4_K", -1, {FY_Q4_K, FY_RECIPE_PURE}, "q4_K"},
        {"Q3_K_L", -1, {FY_Q3_K, FY_RECIPE_LLAMA_LARGE}, "q3_K_L"},
        {"q3_k_m", -1, {FY_Q3_K, FY_RECIPE_LLAMA}, "q3_K_M"},
        {"Q3_K_S", -1, {FY_Q3_K, FY_RECIPE_LLAMA_SMALL}, "q3_K_S"},
        {"q2_k", -1, {FY_Q2_K, FY_RECIPE_LLAMA}, "q2_K"},
        {"q2_K", FY_RECIPE_PURE, {FY_Q2_K, FY_RECIPE_PURE}, "q2_K"},
        {"IQ4_NL", -1, {FY_IQ4_NL, FY_RECIPE_PURE}, "iq4_nl"},
        {"MXFP4_MOE", -1, {FY_MXFP4, FY_RECIPE_LLAMA}, "mxfp4_moe"},
        {"mxfp4", -1, {FY_MXFP4, FY_RECIPE_PURE}, "mxfp4"},
        {"q4_K", FY_RECIPE_LLAMA, {FY_Q4_K, FY_RECIPE_LLAMA}, "q4_K_M"},
        {"Q4_0", -1, {FY_Q4_0, FY_RECIPE_PURE}, "q4_0"},
        {"Q4_0", FY_RECIPE_LLAMA, {FY_Q4_0, FY_RECIPE_LLAMA}, "q4_0"},
        {"F16", FY_RECIPE_PURE, {FY_F16, FY_RECIPE_PURE}, "f16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_file_type t;
        fy_err e = {0};
        assert_int_equal(fy_file_type_of(cases[i].name, cases[i].recipe, &t, &e), 0);
        assert_int_equal(t.type, cases[i].t.type);
        assert_int_equal(t.recipe, cases[i].t.recipe);
        assert_string_equal(fy_file_type_name(&t), cases[i].called);
    }
}

static void a_mixture_is_not_pure(void **state)
{
    (void)state;
    fy_file_type t;
    fy_err e = {0};
    assert_int_equal(fy_file_type_of("Q4_K_S", FY_RECIPE_PURE, &t, &e), -1);
    assert_string_equal(e.msg,
                        "q4_K_S is a mixture of types, which --recipe llama makes; pure: q4_K");
}

static void llama_quantizes_other_files_are_named(void **state)
{
    (void)state;
    const fy_file_type pure[] = {{FY_Q4_0, FY_RECIPE_PURE}, {FY_Q4_K, FY_RECIPE_PURE}};
    const fy_file_type same[] = {
        {FY_Q8_0, FY_RECIPE_PURE}, {FY_F16, FY_RECIPE_PURE}, {FY_Q4_0, FY_RECIPE_LLAMA}};
    assert_non_null(strstr(fy_file_type_of_llama(&pure[0]), "--recipe llama"));
    assert_non_null(strstr(fy_file_type_of_llama(&pure[1]), "q4_K_M"));
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(fy_file_type_of_llama(&same[i]), "");
}

static void types_that_cannot_be_written_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const others[] = {"Q2_K_S", "iq3_m", "IQ4_XS", "TQ1_0", "NVFP4"};
    static const char *const not_theirs[] = {"q4_0", "Q4_K_M", "f16", "auto", "", "i", "quiet"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_non_null(strstr(fy_file_type_refusal(others[i]), "cannot be written yet"));
    for (size_t i = 0; i < sizeof not_theirs / sizeof not_theirs[0]; i++)
        assert_null(fy_file_type_refusal(not_theirs[i]));
    assert_non_null(strstr(fy_file_type_refusal("COPY"), "'cp' makes one"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_mean_types_and_mixtures),
        cmocka_unit_test(a_mixture_is_not_pure),
        cmocka_unit_test(llama_quantizes_other_files_are_named),
        cmocka_unit_test(types_that_cannot_be_written_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
