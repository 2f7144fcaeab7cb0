#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void it_is_written_as_llama(void **state)
{
    (void)state;
    const fy_family *f = family_of("InternLM3ForCausalLM", "llama");
    assert_string_equal(fy_family_of_gguf(FY_SPAN("llama"), false)->name, "llama");
    assert_int_equal(f->rope, FY_ROPE_NORM);
}

static void biases_have_two_flags_and_those_of_q_and_k_are_permuted(void **state)
{
    (void)state;
    const fy_family *f = family_of("InternLM3ForCausalLM", "llama");
    static const struct {
        const char *name, *flag;
        fy_transform transform;
    } cases[] = {
        {"blk.0.attn_q.bias", "qkv_bias", FY_X_PERMUTE_Q},
        {"blk.0.attn_k.bias", "qkv_bias", FY_X_PERMUTE_K},
        {"blk.0.attn_v.bias", "qkv_bias", FY_X_COPY},
        {"blk.0.attn_output.bias", "bias", FY_X_COPY},
        {"blk.0.ffn_gate.bias", "bias", FY_X_COPY},
        {"blk.0.ffn_up.bias", "bias", FY_X_COPY},
        {"blk.0.ffn_down.bias", "bias", FY_X_COPY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fy_tensor_row *row = row_of(f, cases[i].name);
        assert_string_equal(row->required_by, cases[i].flag);
        assert_int_equal(row->transform, cases[i].transform);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_written_as_llama),
        cmocka_unit_test(biases_have_two_flags_and_those_of_q_and_k_are_permuted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
