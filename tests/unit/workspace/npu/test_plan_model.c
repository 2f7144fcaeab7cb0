#include "workspace/npu/plan_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "format/gguf_write.h"
#include "program/program.h"
#include "workspace/npu/plan_show.h"

#define CONFIGS "tests/data/configs/"

static char path[64];

static int setup(void **state)
{
    (void)state;
    strcpy(path, "/tmp/ferry-plan-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static fy_plan_model opened(const char *from)
{
    fy_plan_model m;
    fy_err e = {0};
    if (fy_plan_model_open(&m, from, &e) != 0)
        fail_msg("%s", e.msg);
    return m;
}

/* A vocabulary as large as those of published models: words, and as many merges. */
static void add_vocabulary(fy_gguf_writer *w, uint32_t n)
{
    static const char *const keys[] = {FY_KEY_TOKENS, "tokenizer.ggml.merges"};
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(fy_gguf_begin_strings(w, keys[k], NULL), 0);
        for (uint32_t i = 0; i < n; i++) {
            char word[32];
            const int len = snprintf(word, sizeof word, "word %u", i);
            assert_int_equal(fy_gguf_add_string(w, (fy_span){word, (size_t)len}, NULL), 0);
        }
        assert_int_equal(fy_gguf_end_strings(w, NULL), 0);
    }
}

/* The model of a header as a file of q4_0 with a vocabulary; its weights are a hole. */
static void put_model(const fy_plan_model *m, const char *name)
{
    fy_gguf_writer *w = fy_gguf_writer_new(NULL);
    fy_str head = {0};
    fy_err e = {0};
    fy_gguf_add_str(w, FY_KEY_ARCHITECTURE, fy_span_of(m->npu.family->gguf_arch), &e);
    fy_gguf_add_str(w, FY_KEY_NAME, fy_span_of(name), &e);
    assert_int_equal(fy_hparams_to_gguf(w, m->npu.family, &m->npu.hp, &e), 0);
    add_vocabulary(w, m->npu.hp.n_vocab);
    for (size_t i = 0; i < fy_gguf_n_tensors(m->gguf); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(m->gguf, i);
        char tensor[FY_GGUF_MAX_NAME + 1];
        snprintf(tensor, sizeof tensor, "%.*s", (int)t->name.len, t->name.ptr);
        assert_true(fy_gguf_add_tensor(w, tensor, t->type == FY_F16 ? FY_Q4_0 : t->type, t->n_dims,
                                       t->ne, &e) >= 0);
    }
    assert_int_equal(fy_gguf_writer_header(w, &head, &e), 0);
    assert_int_equal(fy_file_write(path, head.ptr, head.len, &e), 0);
    assert_int_equal(truncate(path, (off_t)fy_gguf_writer_file_bytes(w)), 0);
    fy_str_release(&head);
    fy_gguf_writer_free(w);
}

static int plan(const char *from)
{
    fy_plan_model m = opened(from);
    fy_soc_table *socs = fy_soc_table_open(NULL, NULL);
    fy_npu_recipes *recipes = fy_npu_recipes_open(NULL);
    fy_npu_params p = {.soc = fy_soc_find(socs, "SM8650", NULL), .batch = {128, 1}, .n_batches = 2};
    p.recipe = fy_npu_recipes_default(recipes, p.soc, true);
    fy_npu_plan made;
    fy_str out = {0};
    int rc = fy_npu_plan_make(&m.npu, &p, &made, NULL);
    const fy_plan_view v = {.model = &m, .plan = &made};
    if (rc == 0)
        rc = fy_plan_put_json(&out, &v, NULL);
    if (rc == 0)
        fy_plan_put_text(&out, &v, 100, true);
    rc = rc != 0 || !made.fits || out.oom;
    fy_npu_plan_release(&made);
    fy_str_release(&out);
    fy_npu_recipes_free(recipes);
    fy_soc_table_free(socs);
    fy_plan_model_release(&m);
    return rc;
}

/* In a child, whose memory is its own. */
static void a_plan_of_8b_with_its_vocabulary_takes_less_than_32_mb(void **state)
{
    (void)state;
    struct rusage used;
    int status;
    fy_plan_model m = opened(CONFIGS "llama-3.1-8b");
    put_model(&m, "Large");
    fy_plan_model_release(&m);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(plan(path));
    assert_int_equal(wait4(pid, &status, 0, &used), pid);
    assert_int_equal(status, 0);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
    assert_true(used.ru_maxrss < 32 << 10);
#endif
}

static void a_file_is_counted_as_it_is_and_a_checkpoint_as_f16(void **state)
{
    (void)state;
    fy_plan_model m = opened(CONFIGS "qwen2.5-0.5b"), file;
    put_model(&m, "Small");
    file = opened(path);
    assert_true(m.checkpoint && !file.checkpoint);
    assert_int_equal(fy_plan_model_params(&m), 494032768);
    assert_int_equal(fy_plan_model_params(&file), 494032768);
    assert_true(m.npu.file_bytes > 2 * UINT64_C(494032768));
    assert_true(file.npu.file_bytes < UINT64_C(494032768) * 6 / 10);
    fy_plan_model_release(&file);
    fy_plan_model_release(&m);
}

static void a_name_cannot_draw_on_the_terminal(void **state)
{
    (void)state;
    char name[32];
    fy_plan_model m = opened(CONFIGS "smollm2-135m"), file;
    put_model(&m, "a\033[2Jb");
    file = opened(path);
    fy_plan_model_name(&file, name, sizeof name);
    assert_string_equal(name, "a\\x1b[2Jb");
    fy_plan_model_release(&file);
    fy_plan_model_release(&m);
}

static void the_parts_of_fused_matrices_have_their_own_types(void **state)
{
    (void)state;
    static const char *const names[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                        "ffn_gate", "ffn_up", "ffn_down"};
    fy_plan_model m = opened(CONFIGS "phi-4-mini");
    fy_npu_recipes *recipes = fy_npu_recipes_open(NULL);
    const fy_npu_recipe *r = fy_npu_recipes_find(recipes, "executorch-phi-4-mini", NULL);
    uint64_t sum = 0, bytes;
    fy_plan_matrix t;
    size_t n = 0;
    for (; fy_plan_matrix_at(&m.npu, r, 7, n, &t); n++) {
        assert_true(n < 7);
        assert_string_equal(t.name, names[n]);
        assert_int_equal(t.type, n == 2 ? FY_NPU_8A4W : FY_NPU_LPBQ_16);
        sum += t.bytes;
    }
    assert_int_equal(n, 7);
    assert_true(fy_plan_layer_bytes(&m.npu, r, 7, &bytes));
    assert_int_equal(bytes, sum);
    assert_false(fy_plan_matrix_at(&m.npu, r, 32, 0, &t));
    fy_npu_recipes_free(recipes);
    fy_plan_model_release(&m);
}

int main(void)
{
    fy_program_set(&fy_ferry);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_of_8b_with_its_vocabulary_takes_less_than_32_mb),
        cmocka_unit_test(a_file_is_counted_as_it_is_and_a_checkpoint_as_f16),
        cmocka_unit_test(a_name_cannot_draw_on_the_terminal),
        cmocka_unit_test(the_parts_of_fused_matrices_have_their_own_types),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
