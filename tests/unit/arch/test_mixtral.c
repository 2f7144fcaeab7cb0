#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/expert_rows.h"

static void it_reads_files_of_architecture_llama_with_experts(void **state)
{
    (void)state;
    const fy_family *f = family_of("MixtralForCausalLM", "llama");
    assert_ptr_equal(fy_family_of_gguf(FY_SPAN("llama"), true), f);
    expect_routing(f, FY_GATING_SOFTMAX, true);
}

static void experts_are_found_each_fused_and_transposed(void **state)
{
    (void)state;
    const fy_family *f = family_of("MixtralForCausalLM", "llama");
    fy_hparams hp = whole_model(f);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_exps.weight",
                 {"model.layers.3.block_sparse_moe.experts.5.w1.weight", FY_X_COPY, {14336, 4096}},
                 {"model.layers.3.mlp.experts.gate_up_proj", FY_X_FIRST_HALF, {8, 2 * 14336, 4096}},
                 {"model.layers.3.mlp.experts.gate_up_proj",
                  FY_X_TRANSPOSE_FIRST_HALF,
                  {8, 4096, 2 * 14336}});
    EXPECT_FORMS(
        f, &hp, "blk.3.ffn_up_exps.weight",
        {"model.layers.3.block_sparse_moe.experts.5.w3.weight", FY_X_COPY, {14336, 4096}},
        {"model.layers.3.mlp.experts.gate_up_proj", FY_X_SECOND_HALF, {8, 2 * 14336, 4096}},
        {"model.layers.3.mlp.experts.gate_up_proj",
         FY_X_TRANSPOSE_SECOND_HALF,
         {8, 4096, 2 * 14336}});
    EXPECT_FORMS(f, &hp, "blk.3.ffn_down_exps.weight",
                 {"model.layers.3.block_sparse_moe.experts.5.w2.weight", FY_X_COPY, {4096, 14336}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_COPY, {8, 4096, 14336}},
                 {"model.layers.3.mlp.experts.down_proj", FY_X_TRANSPOSE, {8, 14336, 4096}});
    expect_stacks(f, &hp);
    EXPECT_FORMS(f, &hp, "blk.3.ffn_gate_inp.weight",
                 {"model.layers.3.block_sparse_moe.gate.weight", FY_X_COPY, {8, 4096}},
                 {"model.layers.3.mlp.gate.weight", FY_X_COPY, {8, 4096}});
}

static void a_window_is_read_but_none_is_the_default(void **state)
{
    (void)state;
    const fy_family *f = family_of("MixtralForCausalLM", "llama");
    assert_string_equal(f->window_keys[0], "sliding_window");
    assert_int_equal(f->defaults.n_swa, 0);
}

static void q_and_k_are_permuted(void **state)
{
    (void)state;
    const fy_family *f = family_of("MixtralForCausalLM", "llama");
    assert_int_equal(row_of(f, "blk.0.attn_q.weight")->transform, FY_X_PERMUTE_Q);
    assert_int_equal(row_of(f, "blk.0.attn_k.weight")->transform, FY_X_PERMUTE_K);
    assert_int_equal(f->rope, FY_ROPE_NORM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_files_of_architecture_llama_with_experts),
        cmocka_unit_test(experts_are_found_each_fused_and_transposed),
        cmocka_unit_test(a_window_is_read_but_none_is_the_default),
        cmocka_unit_test(q_and_k_are_permuted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
