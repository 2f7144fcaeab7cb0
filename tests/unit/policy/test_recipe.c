#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/gguf_write.h"
#include "policy/type_policy.h"

static fy_gguf_tensor tensor(const char *name, uint32_t n_dims, uint64_t ne0)
{
    return (fy_gguf_tensor){
        .name = fy_span_of(name), .type = FY_F32, .n_dims = n_dims, .ne = {ne0, 8, 1, 1}};
}

static void matrices_take_the_type_and_everything_else_is_kept(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t n_dims;
        bool matrix;
    } cases[] = {
        {"token_embd.weight", 2, true},
        {"output.weight", 2, true},
        {"blk.0.attn_q.weight", 2, true},
        {"blk.31.ffn_down.weight", 2, true},
        {"blk.3.ffn_down_exps.weight", 3, true},
        {"blk.0.ssm_in.weight", 2, true},
        {"output_norm.weight", 1, false},
        {"blk.0.attn_q_norm.weight", 2, false},
        {"blk.0.attn_q.bias", 1, false},
        {"blk.0.attn_q.bias", 2, false},
        {"rope_freqs.weight", 1, false},
        {"blk.2.ffn_gate_inp.weight", 2, false},
        {"position_embd.weight", 2, false},
        {"blk.0.time_mix_w1.weight", 2, false},
        {"blk.0.ssm_conv1d.weight", 2, false},
        {"weigh", 2, false},
        {"blk.0.attn_q.lora_a", 2, false},
        {"v.patch_embd.weight", 2, false},
        {"blk.0.indexer.k_proj.weight", 2, false},
        {"blk.0.altup_proj.weight", 2, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_gguf_tensor t = tensor(cases[i].name, cases[i].n_dims, 64);
        if (fy_recipe_is_matrix(&t) != cases[i].matrix)
            fail_msg("%s with %u dimensions", cases[i].name, cases[i].n_dims);
    }
}

static void trailing_dimensions_of_one_are_none(void **state)
{
    (void)state;
    const fy_gguf_tensor flat = {
        .name = fy_span_of("a.weight"), .type = FY_F32, .n_dims = 2, .ne = {64, 1, 1, 1}};
    const fy_gguf_tensor stacked = {
        .name = fy_span_of("a.weight"), .type = FY_F32, .n_dims = 3, .ne = {64, 1, 4, 1}};
    assert_false(fy_recipe_is_matrix(&flat));
    assert_true(fy_recipe_is_matrix(&stacked));
}

/* Bytes of a file of keys alone. */
static fy_gguf *keys(fy_gguf_writer *w, fy_str *bytes)
{
    fy_err e = {0};
    assert_int_equal(fy_gguf_writer_header(w, bytes, &e), 0);
    fy_gguf_writer_free(w);
    fy_gguf *g = fy_gguf_parse(bytes->ptr, bytes->len, "keys", true, &e);
    assert_non_null(g);
    return g;
}

static void the_model_is_read_from_the_keys(void **state)
{
    (void)state;
    static const int32_t heads[] = {40, 8, 8};
    fy_err e = {0};
    fy_str bytes = {0};
    fy_llama_model m;
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    fy_gguf_add_str(w, "general.architecture", FY_SPAN("deci"), &e);
    fy_gguf_add_u32(w, "deci.block_count", 3, &e);
    fy_gguf_add_array(w, "deci.attention.head_count", FY_KV_I32, heads, 3, &e);
    fy_gguf *g = keys(w, &bytes);
    assert_int_equal(fy_recipe_model(g, &m, &e), 0);
    assert_true(fy_span_is(m.arch, "deci"));
    assert_int_equal(m.n_layer, 3);
    assert_int_equal(m.n_head, 40);
    assert_int_equal(m.n_head_kv, 40); /* as many when nothing is said */
    assert_int_equal(m.n_expert, 0);
    fy_gguf_close(g);
    fy_str_release(&bytes);
}

static void what_the_recipe_needs_and_is_not_there_is_named(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_str bytes = {0};
    fy_llama_model m;
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), &e);
    fy_gguf *g = keys(w, &bytes);
    assert_int_equal(fy_recipe_model(g, &m, &e), -1);
    assert_non_null(strstr(e.msg, "block_count is missing"));
    fy_gguf_close(g);
    fy_str_release(&bytes);
    e = (fy_err){0};
    w = fy_gguf_writer_new(&e);
    fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), &e);
    fy_gguf_add_u32(w, "llama.block_count", 2, &e);
    fy_gguf_add_array(w, "llama.attention.head_count", FY_KV_F32, &(float){1}, 1, &e);
    g = keys(w, &bytes);
    assert_int_equal(fy_recipe_model(g, &m, &e), -1);
    assert_non_null(strstr(e.msg, "'llama.attention.head_count': expected a number"));
    fy_gguf_close(g);
    fy_str_release(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_take_the_type_and_everything_else_is_kept),
        cmocka_unit_test(trailing_dimensions_of_one_are_none),
        cmocka_unit_test(the_model_is_read_from_the_keys),
        cmocka_unit_test(what_the_recipe_needs_and_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
