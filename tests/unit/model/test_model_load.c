#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/model.h"
#include "tests/unit/model/tiny_model.h"

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ferry-model-load-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static fy_model *open_tiny(tiny_model *t, fy_err *e)
{
    fy_err why = {0};
    assert_int_equal(tiny_write(t, path, &why), 0);
    return fy_model_open(path, e);
}

/* Opening fails with this code, and the message holds all of the words. */
static void check_refused(tiny_model *t, fy_code code, const char *const *words)
{
    fy_err e = {0};
    assert_null(open_tiny(t, &e));
    assert_int_equal(e.code, code);
    assert_non_null(strstr(e.msg, path));
    for (; *words != NULL; words++) {
        if (strstr(e.msg, *words) == NULL)
            fail_msg("'%s' is not in: %s", *words, e.msg);
    }
}

static void a_model_is_opened_with_its_family_and_hyperparameters(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    fy_err e = {0};
    fy_model *m = open_tiny(&t, &e);
    assert_non_null(m);
    assert_string_equal(fy_model_family(m)->gguf_arch, "llama");
    assert_int_equal(fy_model_hparams(m)->n_layer, 3);
    assert_int_equal(fy_model_hparams(m)->n_vocab, 96);
    assert_string_equal(fy_gguf_path(fy_model_gguf(m)), path);
    fy_model_close(m);
}

static void optional_tensors_may_be_there_or_not(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        tiny_model t = tiny_default();
        t.tied = i & 1;
        t.biases = i & 2;
        fy_err e = {0};
        fy_model *m = open_tiny(&t, &e);
        assert_non_null(m);
        fy_model_close(m);
    }
}

static void missing_extra_and_misshapen_tensors_are_reported_together(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    t.leave_out = "blk.1.attn_k.weight";
    t.extra = "mystery";
    t.reshape = "blk.2.ffn_up.weight";
    check_refused(
        &t, FY_EFORMAT,
        (const char *[]){"3 tensors", "'blk.1.attn_k.weight' is missing", "'mystery' is unknown",
                         "'blk.2.ffn_up.weight' has shape [64 161], expected [64 160]", NULL});
}

static void a_tensor_of_a_layer_beyond_the_last_is_named(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    t.extra = "blk.3.attn_norm.weight";
    check_refused(
        &t, FY_EUNSUPPORTED,
        (const char *[]){"'blk.3.attn_norm.weight' belongs to no layer", "block_count is 3", NULL});
}

static void a_missing_layer_is_reported_without_overflowing_the_message(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    fy_err e = {0};
    assert_int_equal(tiny_write(&t, path, &e), 0);
    fy_gguf *g = fy_gguf_open(path, &e);
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_true(g != NULL && w != NULL);
    for (size_t i = 0; i < fy_gguf_n_kv(g); i++)
        assert_int_equal(fy_gguf_add_kv(w, fy_gguf_kv_at(g, i), &e), 0);
    fy_gguf_close(g);
    /* (without any tensor it would be a vocabulary) */
    assert_int_equal(
        fy_gguf_add_tensor(w, "output_norm.weight", FY_F32, 1, (uint64_t[]){t.hp.n_embd}, &e), 0);
    assert_int_equal(fy_gguf_write(w, path, tiny_rows, w, NULL, NULL, &e), 0);
    fy_gguf_writer_free(w);
    assert_null(fy_model_open(path, &e));
    assert_int_equal(e.code, FY_EFORMAT);
    assert_non_null(strstr(e.msg, "28 tensors"));
    assert_non_null(strstr(e.msg, "..."));
}

static void weight_types_without_arithmetic_are_refused_with_the_remedy(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    t.retype = "blk.0.ffn_down.weight";
    t.retyped = FY_I8;
    check_refused(&t, FY_EUNSUPPORTED,
                  (const char *[]){"'blk.0.ffn_down.weight' has type i8", "--outtype", NULL});
    tiny_model norm = tiny_default();
    norm.retype = "output_norm.weight";
    norm.retyped = FY_F16;
    check_refused(&norm, FY_EUNSUPPORTED,
                  (const char *[]){"'output_norm.weight' has type f16, expected f32", NULL});
}

static void a_file_that_is_no_model_of_a_known_family_is_refused(void **state)
{
    (void)state;
    const char *archs[] = {"mamba", NULL};
    for (int i = 0; i < 2; i++) {
        fy_err e = {0};
        fy_gguf_writer *w = fy_gguf_writer_new(&e);
        assert_non_null(w);
        if (archs[i] != NULL)
            assert_int_equal(fy_gguf_add_str(w, "general.architecture", fy_span_of(archs[i]), &e),
                             0);
        assert_int_equal(fy_gguf_add_u32(w, "x.y", 1, &e), 0);
        assert_int_equal(fy_gguf_write(w, path, NULL, NULL, NULL, NULL, &e), 0);
        fy_gguf_writer_free(w);
        assert_null(fy_model_open(path, &e));
        assert_int_equal(e.code, archs[i] != NULL ? FY_EUNSUPPORTED : FY_EFORMAT);
        assert_non_null(strstr(e.msg, archs[i] != NULL ? "'mamba'" : "general.architecture"));
        assert_true(archs[i] == NULL || strstr(e.msg, "llama") != NULL);
    }
}

static void neither_the_fused_nor_the_separate_form_is_reported(void **state)
{
    (void)state;
    tiny_model t = tiny_of("chatglm", false);
    t.leave_out = "blk.1.attn_qkv.weight";
    check_refused(&t, FY_EFORMAT,
                  (const char *[]){"3 tensors", "'blk.1.attn_q.weight' is missing",
                                   "'blk.1.attn_v.weight' is missing", NULL});
    t.apart = true;
    t.leave_out = "blk.2.attn_k.weight";
    check_refused(&t, FY_EFORMAT,
                  (const char *[]){"1 tensor is", "'blk.2.attn_k.weight' is missing", NULL});
}

static void both_forms_at_once_are_reported(void **state)
{
    (void)state;
    tiny_model t = tiny_of("chatglm", false);
    t.extra = "blk.0.attn_q.weight";
    t.extra_ne[0] = t.hp.n_embd;
    t.extra_ne[1] = (uint64_t)t.hp.n_head * t.hp.head_dim;
    check_refused(&t, FY_EFORMAT,
                  (const char *[]){"'blk.0.attn_q.weight' is there in two forms", NULL});
}

static void down_is_there_once_whether_transposed_or_not(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    t.extra = "blk.0.ffn_down_t.weight";
    t.extra_ne[0] = t.hp.n_embd;
    t.extra_ne[1] = t.hp.n_ff;
    check_refused(&t, FY_EFORMAT,
                  (const char *[]){"'blk.0.ffn_down.weight' is there in two forms", NULL});
    t.leave_out = "blk.0.ffn_down.weight";
    fy_err e = {0};
    fy_model *m = open_tiny(&t, &e);
    if (m == NULL)
        fail_msg("%s", e.msg);
    fy_model_close(m);
    t.extra_ne[0] = t.hp.n_ff;
    t.extra_ne[1] = t.hp.n_embd;
    check_refused(
        &t, FY_EFORMAT,
        (const char *[]){"'blk.0.ffn_down_t.weight' has shape [160 64], expected [64 160]", NULL});
}

static void a_predictor_has_two_matrices(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    t.extra = "blk.0.fc1.weight";
    t.extra_ne[0] = t.hp.n_embd;
    t.extra_ne[1] = 16;
    check_refused(&t, FY_EFORMAT, (const char *[]){"'blk.0.fc2.weight' is missing", NULL});
    t.extra = "blk.3.fc2.weight";
    check_refused(&t, FY_EUNSUPPORTED, (const char *[]){"'blk.3.fc2.weight' is unknown", NULL});
}

static void fused_tensors_that_are_misshapen_are_reported(void **state)
{
    (void)state;
    tiny_model t = tiny_of("phi3", false);
    t.reshape = "blk.0.attn_qkv.weight";
    check_refused(&t, FY_EFORMAT,
                  (const char *[]){"'blk.0.attn_qkv.weight' has shape [64 257]", NULL});
}

static void experts_are_one_tensor_per_matrix(void **state)
{
    (void)state;
    tiny_model t = tiny_of("qwen3moe", true);
    fy_err e = {0};
    fy_model *m = open_tiny(&t, &e);
    if (m == NULL)
        fail_msg("%s", e.msg);
    assert_true(fy_model_family(m)->moe);
    fy_model_close(m);
    t.reshape = "blk.1.ffn_up_exps.weight";
    check_refused(&t, FY_EFORMAT,
                  (const char *[]){"'blk.1.ffn_up_exps.weight' has shape [64 96 5]", NULL});
    t.reshape = NULL;
    t.leave_out = "blk.2.ffn_down_exps.weight";
    check_refused(&t, FY_EFORMAT,
                  (const char *[]){"'blk.2.ffn_down_exps.weight' is missing", NULL});
}

static void a_shared_expert_is_there_whole_or_not_at_all(void **state)
{
    (void)state;
    tiny_model t = tiny_of("granitemoe", true);
    t.hp.n_ff_shexp = 64;
    t.leave_out = "blk.1.ffn_down_shexp.weight";
    check_refused(&t, FY_EFORMAT,
                  (const char *[]){"'blk.1.ffn_down_shexp.weight' is missing", NULL});
}

static void longrope_needs_both_of_its_factors(void **state)
{
    (void)state;
    tiny_model t = tiny_of("phi3", false);
    t.hp.rope_scaling = FY_ROPE_SCALING_LONGROPE;
    t.leave_out = "rope_factors_short.weight";
    check_refused(&t, FY_EFORMAT, (const char *[]){"'rope_factors_short.weight' is missing", NULL});
    t.leave_out = "rope_factors_long.weight";
    check_refused(&t, FY_EFORMAT,
                  (const char *[]){"'rope_factors_long.weight' is missing", "longrope", NULL});
}

static void experts_where_the_architecture_has_none_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *arch, *words;
        uint32_t n_expert;
    } cases[] = {{"gemma", "with a mixture of experts", 4},
                 {"olmoe", "without a mixture of experts", 0}};
    for (int i = 0; i < 2; i++) {
        fy_err e = {0};
        char key[64];
        snprintf(key, sizeof key, "%s.expert_count", cases[i].arch);
        fy_gguf_writer *w = fy_gguf_writer_new(&e);
        assert_non_null(w);
        assert_int_equal(fy_gguf_add_str(w, "general.architecture", fy_span_of(cases[i].arch), &e),
                         0);
        assert_int_equal(fy_gguf_add_u32(w, key, cases[i].n_expert, &e), 0);
        assert_int_equal(fy_gguf_write(w, path, NULL, NULL, NULL, NULL, &e), 0);
        fy_gguf_writer_free(w);
        assert_null(fy_model_open(path, &e));
        assert_int_equal(e.code, FY_EUNSUPPORTED);
        if (strstr(e.msg, cases[i].words) == NULL)
            fail_msg("%s", e.msg);
    }
}

static void a_model_without_tokenizer_opens_and_says_so_when_asked(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    fy_err e = {0};
    fy_model *m = open_tiny(&t, &e);
    assert_non_null(m);
    assert_null(fy_model_vocab(m, &e));
    assert_true(e.code != FY_OK);
    assert_non_null(strstr(e.msg, "tokenizer"));
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_opened_with_its_family_and_hyperparameters),
        cmocka_unit_test(optional_tensors_may_be_there_or_not),
        cmocka_unit_test(missing_extra_and_misshapen_tensors_are_reported_together),
        cmocka_unit_test(a_tensor_of_a_layer_beyond_the_last_is_named),
        cmocka_unit_test(a_missing_layer_is_reported_without_overflowing_the_message),
        cmocka_unit_test(weight_types_without_arithmetic_are_refused_with_the_remedy),
        cmocka_unit_test(a_file_that_is_no_model_of_a_known_family_is_refused),
        cmocka_unit_test(neither_the_fused_nor_the_separate_form_is_reported),
        cmocka_unit_test(both_forms_at_once_are_reported),
        cmocka_unit_test(down_is_there_once_whether_transposed_or_not),
        cmocka_unit_test(a_predictor_has_two_matrices),
        cmocka_unit_test(fused_tensors_that_are_misshapen_are_reported),
        cmocka_unit_test(experts_are_one_tensor_per_matrix),
        cmocka_unit_test(a_shared_expert_is_there_whole_or_not_at_all),
        cmocka_unit_test(longrope_needs_both_of_its_factors),
        cmocka_unit_test(experts_where_the_architecture_has_none_are_refused),
        cmocka_unit_test(a_model_without_tokenizer_opens_and_says_so_when_asked),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
