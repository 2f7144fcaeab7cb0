#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void every_fourth_layer_does_not_rotate(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmolLM3ForCausalLM", "smollm3");
    fy_layer_set nope = fy_layers_of(f->no_rope, 36);
    for (uint32_t i = 0; i < 36; i++)
        assert_int_equal(fy_layer_in(&nope, i), i % 4 == 3);
    assert_false(f->nope_follows_swa);
}

static void a_window_needs_its_flag_and_has_no_default(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmolLM3ForCausalLM", "smollm3");
    assert_string_equal(f->window_flag, "use_sliding_window");
    assert_string_equal(f->window_keys[0], "sliding_window");
    assert_int_equal(f->defaults.n_swa, 0);
}

static void q_and_k_are_permuted_and_the_output_is_tied(void **state)
{
    (void)state;
    const fy_family *f = family_of("SmolLM3ForCausalLM", "smollm3");
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_PERMUTE_Q);
    assert_int_equal(row_of(f, "blk.0.attn_k.bias")->transform, FY_X_PERMUTE_K);
    assert_int_equal(f->rope, FY_ROPE_NORM);
    assert_true(f->tied_default);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fourth_layer_does_not_rotate),
        cmocka_unit_test(a_window_needs_its_flag_and_has_no_default),
        cmocka_unit_test(q_and_k_are_permuted_and_the_output_is_tied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
