#include "policy/type_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TYPES "f32|f16|q8_0|q4_K"

static void the_first_that_finds_the_name_counts(void **state)
{
    (void)state;
    static const char *const texts[] = {"^blk\\.0\\.=q8_0", "ffn_(up|down)=q4_k", "=a.*=f16"};
    fy_err e = {0};
    fy_type t = FY_F32;
    fy_type_rules *r = fy_type_rules_new("--x", TYPES, texts, 3, &e);
    assert_non_null(r);
    assert_true(fy_type_rules_find(r, FY_SPAN("blk.0.ffn_up.weight"), &t));
    assert_int_equal(t, FY_Q8_0);
    assert_int_equal(fy_type_rules_check_used(r, &e), -1);
    assert_non_null(strstr(e.msg, "--x =a.*=f16: no matrix"));
    assert_true(fy_type_rules_find(r, FY_SPAN("blk.1.ffn_down.weight"), &t));
    assert_int_equal(t, FY_Q4_K);
    assert_false(fy_type_rules_find(r, FY_SPAN("blk.1.ffn_gate.weight"), &t));
    assert_int_equal(t, FY_Q4_K);
    assert_true(fy_type_rules_find(r, FY_SPAN("x=ab"), &t)); /* the last '=' parts the two */
    assert_int_equal(fy_type_rules_check_used(r, NULL), 0);
    char longest[200];
    memset(longest, 'a', sizeof longest);
    assert_false(fy_type_rules_find(r, (fy_span){longest, sizeof longest}, &t));
    fy_type_rules_free(r);
    fy_type_rules_free(NULL);
}

static void what_is_no_rule_is_told_with_the_option(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } wrong[] = {{"ffn_down", "--tensor-type ffn_down: expected REGEX=TYPE"},
                 {"=q8_0", "expected REGEX=TYPE"},
                 {"a=", "the type is none of f32|f16"},
                 {"a=q5_K", "--tensor-type a=q5_K: the type is none of " TYPES},
                 {"a=q9", "the type is none of"},
                 {"(=q8_0", "the regular expression is wrong: "}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fy_err e = {0};
        const char *const texts[] = {"good=f16", wrong[i].text};
        assert_null(fy_type_rules_new("--tensor-type", TYPES, texts, 2, &e));
        assert_int_equal(e.code, FY_EARG);
        if (strstr(e.msg, wrong[i].message) == NULL)
            fail_msg("'%s' does not say '%s'", e.msg, wrong[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_finds_the_name_counts),
        cmocka_unit_test(what_is_no_rule_is_told_with_the_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
