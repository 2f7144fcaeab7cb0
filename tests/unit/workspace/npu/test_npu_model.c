#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/gguf_write.h"
#include "model/model.h"
#include "tests/unit/model/tiny_model.h"
#include "tests/unit/workspace/npu_fixture.h"

static fy_gguf *header(tiny_model *t, fy_str *text)
{
    fy_err e = {0};
    const fy_family *f = tiny_family(t);
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    fy_hparams_derive(&t->hp, f);
    if (w == NULL || tiny_add_all(t, w, f, &e) != 0 || fy_gguf_writer_header(w, text, &e) != 0)
        fail_msg("%s", e.msg);
    fy_gguf_writer_free(w);
    fy_gguf *g = fy_gguf_parse(text->ptr, text->len, "tiny", true, &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    return g;
}

static uint64_t elements(const fy_npu_model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->n_tensors; i++)
        n += m->tensors[i].n_out * m->tensors[i].n_in;
    return n;
}

/* Experts, and what no graph holds: states, latent attention, several residual streams. */
static bool is_left_out(const fy_family *f)
{
    return f->moe || f->ssm_place != FY_SSM_NONE || fy_row_of_slot(f, FY_T_CONV) != NULL ||
           fy_row_of_slot(f, FY_T_ATTN_OUT) == NULL || fy_row_of_slot(f, FY_T_ATTN_KV_UP) != NULL ||
           fy_row_of_slot(f, FY_T_ALTUP_PROJ) != NULL;
}

/* Every dense family's tensors are there, each element once, the fused ones as their infos. */
static void every_dense_family_is_read_from_its_header(void **state)
{
    (void)state;
    size_t n_families = 0;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        if (is_left_out(*f) || fy_family_of_gguf(fy_span_of((*f)->gguf_arch), false) != *f)
            continue;
        for (int apart = 0; apart < 2; apart++) {
            tiny_model t = tiny_of((*f)->gguf_arch, false);
            fy_str text = {0};
            fy_npu_model m;
            fy_err e = {0};
            t.apart = apart;
            t.tied = t.biases = true;
            fy_gguf *g = header(&t, &text);
            if (fy_npu_model_of(&m, g, &e) != 0)
                fail_msg("%s: %s", (*f)->name, e.msg);
            uint64_t in_file = 0, bytes = 0, of_tensors = 0;
            for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
                const fy_gguf_tensor *one = fy_gguf_tensor_at(g, i);
                in_file += one->ne[0] * one->ne[1];
                bytes += one->bytes;
            }
            for (size_t i = 0; i < m.n_tensors; i++) {
                const fy_slot s = m.tensors[i].slot;
                of_tensors += m.tensors[i].file_bytes;
                assert_true(s != FY_T_ATTN_QKV && s != FY_T_ATTN_QKV_B && s != FY_T_FFN_GATE_UP);
            }
            if (elements(&m) != in_file)
                fail_msg("%s: %llu elements of %llu", (*f)->name, (unsigned long long)elements(&m),
                         (unsigned long long)in_file);
            assert_int_equal(m.file_bytes, bytes);
            assert_int_equal(of_tensors, bytes);
            assert_ptr_equal(m.family, *f);
            fy_npu_model_release(&m);
            fy_gguf_close(g);
            fy_str_release(&text);
            n_families++;
        }
    }
    assert_true(n_families > 30);
}

static void an_output_matrix_of_its_own_is_seen(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        tiny_model t = tiny_default();
        fy_str text = {0};
        fy_npu_model m;
        t.tied = tied;
        fy_gguf *g = header(&t, &text);
        assert_int_equal(fy_npu_model_of(&m, g, NULL), 0);
        assert_int_equal(m.tied, tied);
        fy_npu_model_release(&m);
        fy_gguf_close(g);
        fy_str_release(&text);
    }
}

static void refused(tiny_model *t, fy_code code, const char *says)
{
    fy_str text = {0};
    fy_npu_model m;
    fy_err e = {0};
    fy_gguf *g = header(t, &text);
    assert_int_equal(fy_npu_model_of(&m, g, &e), -1);
    assert_int_equal(e.code, code);
    if (strstr(e.msg, says) == NULL)
        fail_msg("'%s' does not say '%s'", e.msg, says);
    fy_gguf_close(g);
    fy_str_release(&text);
}

static void what_cannot_be_planned_is_refused_by_name(void **state)
{
    (void)state;
    tiny_model moe = tiny_of("qwen3moe", true), lacks = tiny_default(), odd = tiny_default(),
               shape = tiny_default(), none = tiny_of("phi3", false);
    refused(&moe, FY_EUNSUPPORTED, "family qwen3_moe cannot be cut for an NPU: it is a mixture");
    lacks.leave_out = "blk.1.ffn_down.weight";
    refused(&lacks, FY_EFORMAT, "'blk.1.ffn_down.weight' is missing");
    odd.extra = "blk.1.time_mix.weight";
    refused(&odd, FY_EUNSUPPORTED, "'blk.1.time_mix.weight' is none of family");
    shape.reshape = "blk.0.attn_q.weight";
    refused(&shape, FY_EFORMAT, "'blk.0.attn_q.weight' has rows of 64 and 129 of them");
    none.leave_out = "blk.2.attn_qkv.weight";
    refused(&none, FY_EFORMAT, "");
}

static void files_that_are_no_whole_model_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } cases[] = {
        {"general.architecture", "mamba9", "'mamba9', which ferry cannot plan for an NPU"},
        {"ferry.chunk.kind", "layers", "a chunk of a model that was cut already"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_str text = {0};
        fy_npu_model m;
        fy_gguf_writer *w = fy_gguf_writer_new(&e);
        assert_int_equal(fy_gguf_add_str(w, cases[i].key, fy_span_of(cases[i].value), &e), 0);
        assert_int_equal(fy_gguf_writer_header(w, &text, &e), 0);
        fy_gguf *g = fy_gguf_parse(text.ptr, text.len, "x", true, &e);
        assert_non_null(g);
        assert_int_equal(fy_npu_model_of(&m, g, &e), -1);
        if (strstr(e.msg, cases[i].says) == NULL)
            fail_msg("%s", e.msg);
        fy_gguf_close(g);
        fy_gguf_writer_free(w);
        fy_str_release(&text);
    }
}

/* What a plan says of the CPU is what the engine takes: pages of the file, cache and scratch. */
static void the_memory_of_the_cpu_is_counted_by_the_engine(void **state)
{
    (void)state;
    static const fy_type types[] = {FY_Q8_0, FY_Q4_0};
    const fy_soc soc = npu_soc();
    const fy_npu_recipe recipe = npu_recipe(FY_NPU_16A8W, 8);
    for (size_t i = 0; i < 2; i++) {
        tiny_model t = tiny_default();
        char path[] = "/tmp/ferry-test-XXXXXX";
        fy_err e = {0};
        fy_npu_model m;
        fy_npu_plan plan;
        fy_session_plan engine;
        const fy_npu_params p = {
            .soc = &soc, .recipe = &recipe, .n_ctx = 1000, .batch = {32, 1}, .n_batches = 2};
        const fy_session_params s = {
            .n_ctx = 1000, .n_batch = 512, .n_threads = 8, .type_k = FY_F16, .type_v = FY_F16};
        t.type = types[i];
        close(mkstemp(path));
        assert_int_equal(tiny_write(&t, path, &e), 0);
        fy_model *loaded = fy_model_open(path, &e);
        if (loaded == NULL || fy_npu_model_of(&m, fy_model_gguf(loaded), &e) != 0 ||
            fy_npu_plan_make(&m, &p, &plan, &e) != 0 ||
            fy_session_plan_of(loaded, &s, &engine, &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(plan.cpu_peak, m.file_bytes + engine.kv_bytes + engine.scratch_bytes);
        fy_npu_plan_release(&plan);
        fy_npu_model_release(&m);
        fy_model_close(loaded);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dense_family_is_read_from_its_header),
        cmocka_unit_test(an_output_matrix_of_its_own_is_seen),
        cmocka_unit_test(what_cannot_be_planned_is_refused_by_name),
        cmocka_unit_test(files_that_are_no_whole_model_are_refused),
        cmocka_unit_test(the_memory_of_the_cpu_is_counted_by_the_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
