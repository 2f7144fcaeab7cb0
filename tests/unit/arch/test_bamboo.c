#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void gate_and_up_both_pass_relu(void **state)
{
    (void)state;
    const fy_family *f = family_of("BambooForCausalLM", "bamboo");
    assert_int_equal(f->defaults.act, FY_ACT_DRELU);
    assert_ptr_equal(fy_family_of_gguf(FY_SPAN("bamboo"), false), f);
}

static void the_rest_is_mistral(void **state)
{
    (void)state;
    const fy_family *f = family_of("BambooForCausalLM", "bamboo"),
                    *mistral = family_of("MistralForCausalLM", "llama");
    fy_hparams hp = whole_model(f);
    for (size_t i = 0; i < f->n_rows; i++) {
        uint64_t ne[FY_GGUF_MAX_DIMS], other[FY_GGUF_MAX_DIMS];
        char name[FY_ROW_NAME_BYTES];
        fy_row_name(f->rows[i].gguf, 3, name);
        const fy_tensor_row *same = row_of(mistral, name);
        assert_string_equal(f->rows[i].hf, same->hf);
        assert_int_equal(f->rows[i].transform, same->transform);
        fy_row_shape(&hp, &f->rows[i], ne);
        fy_row_shape(&hp, same, other);
        assert_memory_equal(ne, other, sizeof ne);
    }
    assert_int_equal(f->rope, mistral->rope);
    assert_int_equal(f->defaults.n_swa, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gate_and_up_both_pass_relu),
        cmocka_unit_test(the_rest_is_mistral),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
