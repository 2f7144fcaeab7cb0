#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void the_family_is_found_by_class_and_by_architecture(void **state)
{
    (void)state;
    const fy_family *f = fy_family_of_hf(FY_SPAN("Qwen3ForCausalLM"));
    assert_non_null(f);
    assert_ptr_equal(f, fy_family_of_gguf(FY_SPAN("qwen3"), false));
    assert_int_equal(f->rope, FY_ROPE_NEOX);
}

static void q_and_k_have_a_norm_per_head(void **state)
{
    (void)state;
    const fy_family *f = fy_family_of_gguf(FY_SPAN("qwen3"), false);
    fy_hparams hp = f->defaults;
    hp.n_embd = 1024;
    hp.n_head = 16;
    fy_hparams_derive(&hp, f);
    static const char *const names[] = {"blk.3.attn_q_norm.weight", "blk.3.attn_k_norm.weight"};
    for (size_t i = 0; i < 2; i++) {
        uint32_t layer;
        uint64_t ne[FY_GGUF_MAX_DIMS];
        const fy_tensor_row *row = fy_row_of_gguf(f, fy_span_of(names[i]), &layer);
        assert_non_null(row);
        assert_int_equal(row->flags, 0);
        assert_int_equal(fy_row_shape(&hp, row, ne), 1);
        assert_int_equal(ne[0], 128); /* head_dim, which is not 1024 / 16 */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_family_is_found_by_class_and_by_architecture),
        cmocka_unit_test(q_and_k_have_a_norm_per_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
