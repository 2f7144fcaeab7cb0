#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void it_is_llama_with_fatrelu_and_nothing_else(void **state)
{
    (void)state;
    const fy_family *f = family_of("SparseLlamaForCausalLM", "llama");
    fy_hparams hp = whole_model(f);
    expect_rule(f, "hidden_act", "\"fatrelu\"");
    assert_int_equal(f->rope, FY_ROPE_NORM);
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_PERMUTE_Q);
    assert_int_equal(hp.head_dim, 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_llama_with_fatrelu_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
