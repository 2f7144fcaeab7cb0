#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void q_k_v_and_gate_up_stay_whole(void **state)
{
    (void)state;
    const fy_family *f = family_of("Phi3ForCausalLM", "phi3");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"blk.3.attn_qkv.weight", "model.layers.3.self_attn.qkv_proj.weight", 3072, 3 * 3072},
        {"blk.3.attn_output.weight", "model.layers.3.self_attn.o_proj.weight", 3072, 3072},
        {"blk.3.ffn_up.weight", "model.layers.3.mlp.gate_up_proj.weight", 3072, 2 * 8192},
        {"blk.3.ffn_down.weight", "model.layers.3.mlp.down_proj.weight", 8192, 3072},
        {"rope_factors_long.weight", "", 48, 1},
        {"rope_factors_short.weight", "", 48, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    assert_int_equal(row_of(f, "blk.0.ffn_up.weight")->slot, FY_T_FFN_GATE_UP);
}

static void the_window_has_no_default(void **state)
{
    (void)state;
    const fy_family *f = family_of("Phi3ForCausalLM", "phi3");
    assert_int_equal(f->defaults.n_swa, 0);
    assert_string_equal(f->window_keys[0], "sliding_window");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q_k_v_and_gate_up_stay_whole),
        cmocka_unit_test(the_window_has_no_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
