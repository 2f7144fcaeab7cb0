#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/arch/family_rows.h"

static void positions_lose_their_first_two_rows(void **state)
{
    (void)state;
    const fy_family *f = family_of("OPTForCausalLM", "opt");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"position_embd.weight", "model.decoder.embed_positions.weight", 768, 2048},
    };
    EXPECT_ROWS(f, &hp, cases);
    const fy_tensor_row *row = row_of(f, "position_embd.weight");
    uint64_t dims[FY_GGUF_MAX_DIMS];
    assert_int_equal(fy_row_source_shape(&hp, row, dims), 2);
    assert_int_equal(dims[0], 2050);
    assert_int_equal(fy_transform_row(&hp, row, 0), 2);
    assert_int_equal(fy_transform_row(&hp, row, 2047), 2049);
    assert_int_equal(row->flags, 0);
    assert_int_equal(hp.n_rot, 0);
}

static void names_are_those_of_powerinfer(void **state)
{
    (void)state;
    const fy_family *f = family_of("OPTForCausalLM", "opt");
    fy_hparams hp = whole_model(f);
    static const row_case cases[] = {
        {"token_embd.weight", "model.decoder.embed_tokens.weight", 768, 50272},
        {"blk.3.attn_norm.bias", "model.decoder.layers.3.self_attn_layer_norm.bias", 768, 1},
        {"blk.3.attn_output.bias", "model.decoder.layers.3.self_attn.out_proj.bias", 768, 1},
        {"blk.3.ffn_norm.weight", "model.decoder.layers.3.final_layer_norm.weight", 768, 1},
        {"blk.3.ffn_up.weight", "model.decoder.layers.3.fc1.weight", 768, 3072},
        {"blk.3.ffn_down.weight", "model.decoder.layers.3.fc2.weight", 3072, 768},
        {"output_norm.weight", "model.decoder.final_layer_norm.weight", 768, 1},
    };
    EXPECT_ROWS(f, &hp, cases);
    expect_rule(f, "do_layer_norm_before", "true");
    expect_rule(f, "enable_bias", "true");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_lose_their_first_two_rows),
        cmocka_unit_test(names_are_those_of_powerinfer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
