/* What of an importance matrix is used, and what of it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "quantize/requantize.h"

static char dir[64], in[96], im[96], out[96];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-importance-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(in, sizeof in, "%s/in.gguf", dir);
    snprintf(im, sizeof im, "%s/im.gguf", dir);
    snprintf(out, sizeof out, "%s/out.gguf", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(in);
    unlink(im);
    unlink(out);
    return rmdir(dir);
}

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *to, int thread,
                fy_err *e)
{
    (void)thread;
    (void)e;
    const fy_gguf_tensor *t = fy_gguf_writer_tensor(user, i);
    for (uint64_t k = 0; k < n_rows * t->ne[0]; k++)
        ((float *)to)[k] = (float)((row * t->ne[0] + k) % 7 + 1);
    return 0;
}

typedef struct {
    const char *name;
    uint64_t ne[3];
} shape;

static void finish(fy_gguf_writer *w, const char *path)
{
    fy_err e = {0};
    if (fy_gguf_write(w, path, fill, w, NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    fy_gguf_writer_free(w);
}

static void make_in(void)
{
    static const shape shapes[] = {
        {"token_embd.weight", {32, 4, 1}},        {"output.weight", {32, 4, 1}},
        {"output_norm.weight", {32, 1, 1}},       {"blk.0.attn_q.weight", {32, 4, 1}},
        {"blk.0.ffn_up_exps.weight", {64, 2, 3}}, {"blk.1.attn_q.weight", {32, 4, 1}}};
    fy_err e = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), &e);
    fy_gguf_add_u32(w, "llama.block_count", 2, &e);
    fy_gguf_add_u32(w, "quantize.imatrix.entries_count", 99, &e); /* of what it was made from */
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        assert_true(fy_gguf_add_tensor(w, shapes[i].name, FY_F32,
                                       shapes[i].ne[1] == 1   ? 1
                                       : shapes[i].ne[2] == 1 ? 2
                                                              : 3,
                                       shapes[i].ne, &e) >= 0);
    finish(w, in);
}

/* ne: columns, matrices. */
static void make_imatrix(const shape *entries, size_t n)
{
    fy_err e = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    fy_gguf_add_str(w, "general.type", FY_SPAN("imatrix"), &e);
    fy_gguf_begin_strings(w, "imatrix.datasets", &e);
    fy_gguf_add_string(w, FY_SPAN("tales.txt"), &e);
    fy_gguf_end_strings(w, &e);
    fy_gguf_add_u32(w, "imatrix.chunk_count", 12, &e);
    fy_gguf_add_u32(w, "imatrix.chunk_size", 512, &e);
    for (size_t i = 0; i < n; i++) {
        char name[96];
        const uint64_t counts[] = {1, entries[i].ne[1]};
        snprintf(name, sizeof name, "%s.in_sum2", entries[i].name);
        assert_true(fy_gguf_add_tensor(w, name, FY_F32, 2, entries[i].ne, &e) >= 0);
        snprintf(name, sizeof name, "%s.counts", entries[i].name);
        assert_true(fy_gguf_add_tensor(w, name, FY_F32, 2, counts, &e) >= 0);
    }
    finish(w, im);
}

static const shape all[] = {{"blk.0.attn_q.weight", {32, 1, 0}},
                            {"blk.0.ffn_up_exps.weight", {64, 3, 0}},
                            {"blk.1.attn_q.weight", {32, 1, 0}},
                            {"output.weight", {32, 1, 0}},
                            {"token_embd.weight", {48, 1, 0}}};

static fy_requant *open_with(fy_type target, const char *const *rules, size_t n_rules, fy_err *e)
{
    const fy_requant_params p = {
        .file.type = target, .imatrix = im, .tensor_types = rules, .n_tensor_types = n_rules};
    return fy_requant_open(in, &p, e);
}

static void every_matrix_that_asks_gets_its_own(void **state)
{
    (void)state;
    fy_err e = {0};
    make_in();
    make_imatrix(all, 5);
    fy_requant *q = open_with(FY_Q4_0, NULL, 0, &e);
    if (q == NULL)
        fail_msg("%s", e.msg);
    assert_null(q->tensors[0].importance); /* of other columns: an embedding may be */
    assert_non_null(q->tensors[1].importance);
    assert_null(q->tensors[2].importance);
    assert_non_null(q->tensors[3].importance);
    assert_non_null(q->tensors[4].importance);
    assert_ptr_not_equal(q->tensors[3].importance,
                         q->tensors[5].importance);
    if (fy_requant_write(q, out, NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    fy_requant_close(q);
    fy_gguf *g = fy_gguf_open(out, &e);
    fy_span text;
    uint32_t n;
    assert_int_equal(fy_gguf_get_str(g, "quantize.imatrix.file", &text, &e), 0);
    assert_true(fy_span_is(text, im));
    assert_int_equal(fy_gguf_get_str(g, "quantize.imatrix.dataset", &text, &e), 0);
    assert_true(fy_span_is(text, "tales.txt"));
    assert_int_equal(fy_gguf_get_u32(g, "quantize.imatrix.entries_count", &n, &e), 0);
    assert_int_equal(n, 5);
    assert_int_equal(fy_gguf_get_u32(g, "quantize.imatrix.chunks_count", &n, &e), 0);
    assert_int_equal(n, 12);
    fy_gguf_close(g);
}

static void types_without_a_choice_do_not_ask(void **state)
{
    (void)state;
    static const char *const rules[] = {"blk\\.1=q8_0"};
    fy_err e = {0};
    make_in();
    make_imatrix(all, 2); /* nothing for blk.1, output and embedding */
    fy_requant *q = open_with(FY_Q8_0, NULL, 0, &e);
    assert_non_null(q);
    assert_null(q->tensors[3].importance);
    fy_requant_close(q);
    q = open_with(FY_Q4_0, rules, 1, &e);
    assert_non_null(q);
    assert_non_null(q->tensors[3].importance);
    assert_null(q->tensors[5].importance);
    fy_requant_close(q);
}

static void what_does_not_fit_the_model_is_refused_by_name(void **state)
{
    (void)state;
    static const shape short_one[] = {{"blk.0.attn_q.weight", {64, 1, 0}}},
                       few_experts[] = {{"blk.0.attn_q.weight", {32, 1, 0}},
                                        {"blk.1.attn_q.weight", {32, 1, 0}},
                                        {"blk.0.ffn_up_exps.weight", {64, 2, 0}}},
                       wide_output[] = {{"output.weight", {64, 1, 0}}},
                       others[] = {{"a.weight", {32, 1, 0}}, {"b.weight", {32, 1, 0}}};
    static const struct {
        const shape *entries;
        size_t n;
        const char *message;
    } cases[] = {
        {all, 1,
         "has nothing for 2 of the 5 matrices that ask for it: blk.0.ffn_up_exps.weight, "
         "blk.1.attn_q.weight; "},
        {short_one, 1, "'blk.0.attn_q.weight': sums [64, 1]"},
        {few_experts, 3, "'blk.0.ffn_up_exps.weight': sums [64, 2]"},
        {wide_output, 1, "'output.weight': sums [64, 1]"},
        {others, 2, "none of its 2 entries is of a matrix of "},
    };
    make_in();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        make_imatrix(cases[i].entries, cases[i].n);
        assert_null(open_with(FY_Q4_0, NULL, 0, &e));
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, cases[i].message) == NULL || strstr(e.msg, im) == NULL)
            fail_msg("'%s' does not say '%s'", e.msg, cases[i].message);
    }
}

static void the_importance_matrix_is_not_overwritten(void **state)
{
    (void)state;
    fy_err e = {0};
    make_in();
    make_imatrix(all, 5);
    fy_requant *q = open_with(FY_Q4_0, NULL, 0, &e);
    assert_int_equal(fy_requant_write(q, im, NULL, NULL, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    fy_requant_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_matrix_that_asks_gets_its_own),
        cmocka_unit_test(types_without_a_choice_do_not_ask),
        cmocka_unit_test(what_does_not_fit_the_model_is_refused_by_name),
        cmocka_unit_test(the_importance_matrix_is_not_overwritten),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
