#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "quantize/requantize.h"

enum { ROWS = 300, LONG_ROW = 3 * 8192 + 64 }; /* several pieces, rows of several slices */

static char dir[64];
static char in[96], out[96], out2[96];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-requantize-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(in, sizeof in, "%s/in.gguf", dir);
    snprintf(out, sizeof out, "%s/out.gguf", dir);
    snprintf(out2, sizeof out2, "%s/out2.gguf", dir);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    unlink(in);
    unlink(out);
    unlink(out2);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir);
}

/* What the next make_in puts at one place of one tensor. */
static struct {
    int64_t tensor;
    uint64_t row, element;
    float value;
} poison = {.tensor = -1};

/* A pseudo-random number in (-1, 1) for every place: any thread gets the same. */
static float value_at(int64_t tensor, uint64_t row, uint64_t k)
{
    uint64_t h = (uint64_t)tensor * 0x9e3779b97f4a7c15u + row * 0xbf58476d1ce4e5b9u +
                 k * 0x94d049bb133111ebu;
    h = (h ^ h >> 31) * 0xd6e8feb86659fd93u;
    return (float)(int32_t)(h >> 32) * 0x1p-31f;
}

static int fill_values(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *to, int thread,
                       fy_err *e)
{
    (void)thread;
    (void)e;
    const fy_gguf_tensor *t = fy_gguf_writer_tensor(user, i);
    float *y = to;
    for (uint64_t r = 0; r < n_rows; r++) {
        for (uint64_t k = 0; k < t->ne[0]; k++)
            y[r * t->ne[0] + k] = value_at(i, row + r, k);
        if (i == poison.tensor && row + r == poison.row)
            y[r * t->ne[0] + poison.element] = poison.value;
    }
    return 0;
}

typedef struct {
    const char *name;
    uint32_t n_dims;
    uint64_t ne[3];
} shape;

static const shape shapes[] = {
    {"token_embd.weight", 2, {LONG_ROW, 40, 1}}, {"output_norm.weight", 1, {64, 1, 1}},
    {"blk.0.attn_q.weight", 2, {64, ROWS, 1}},   {"blk.0.odd.weight", 2, {48, 5, 1}},
    {"blk.0.attn_q.bias", 1, {ROWS, 1, 1}},      {"blk.0.ffn_up_exps.weight", 3, {32, 4, 3}},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static fy_gguf_writer *in_keys(void)
{
    fy_err e = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_non_null(w);
    assert_int_equal(fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), &e), 0);
    assert_int_equal(fy_gguf_add_u32(w, "general.file_type", 0, &e), 0);
    assert_int_equal(fy_gguf_add_u32(w, "llama.block_count", 1, &e), 0);
    return w;
}

static void make_in(fy_gguf_writer *w)
{
    fy_err e = {0};
    for (size_t i = 0; i < N_SHAPES; i++)
        assert_int_equal(
            fy_gguf_add_tensor(w, shapes[i].name, FY_F32, shapes[i].n_dims, shapes[i].ne, &e), i);
    assert_int_equal(fy_gguf_write(w, in, fill_values, w, NULL, NULL, &e), 0);
    fy_gguf_writer_free(w);
}

static void make_poisoned(int64_t tensor, uint64_t row, uint64_t element, float value)
{
    poison.tensor = tensor;
    poison.row = row;
    poison.element = element;
    poison.value = value;
    make_in(in_keys());
    poison.tensor = -1;
}

static int convert(const char *from, const char *to, fy_type type, int n_threads,
                   fy_requant_stats *stats, fy_err *e)
{
    fy_requant *q = fy_requant_open(from, &(fy_requant_params){.file.type = type}, e);
    if (q == NULL)
        return -1;
    if (stats != NULL)
        *stats = q->stats;
    fy_pool *pool = fy_pool_new(n_threads, e);
    assert_non_null(pool);
    int rc = fy_requant_write(q, to, pool, NULL, e);
    fy_pool_free(pool);
    fy_requant_close(q);
    return rc;
}

static void same_bytes(const char *a, const char *b)
{
    fy_err e = {0};
    fy_map x, y;
    assert_int_equal(fy_map_open(&x, a, &e), 0);
    assert_int_equal(fy_map_open(&y, b, &e), 0);
    assert_int_equal(x.size, y.size);
    assert_int_equal(memcmp(x.data, y.data, x.size), 0);
    fy_map_close(&x);
    fy_map_close(&y);
}

static void matrices_change_their_type_and_metadata_is_kept_in_order(void **state)
{
    (void)state;
    make_in(in_keys());
    fy_err e = {0};
    fy_requant_stats stats;
    assert_int_equal(convert(in, out, FY_Q4_0, 2, &stats, &e), 0);
    assert_int_equal(stats.n_tensors, N_SHAPES);
    assert_int_equal(stats.n_matrices, 3);
    fy_gguf *a = fy_gguf_open(in, &e), *g = fy_gguf_open(out, &e);
    assert_non_null(a);
    assert_non_null(g);
    static const fy_type expected[N_SHAPES] = {FY_Q4_0, FY_F32, FY_Q4_0, FY_F16, FY_F32, FY_Q4_0};
    for (size_t i = 0; i < N_SHAPES; i++) {
        const fy_gguf_tensor *s = fy_gguf_tensor_at(a, i), *t = fy_gguf_tensor_at(g, i);
        assert_true(fy_span_eq(s->name, t->name));
        assert_int_equal(t->type, expected[i]);
        assert_int_equal(t->n_dims, s->n_dims);
        assert_memory_equal(t->ne, s->ne, sizeof t->ne);
        if (t->type == FY_F32)
            assert_memory_equal(t->data, s->data, t->bytes);
    }
    uint32_t v;
    assert_int_equal(fy_gguf_n_kv(g), 4);
    assert_true(fy_span_is(fy_gguf_kv_at(g, 1)->key, "general.file_type"));
    assert_int_equal(fy_gguf_get_u32(g, "general.file_type", &v, &e), 0);
    assert_int_equal(v, 2);
    assert_int_equal(fy_gguf_get_u32(g, "general.quantization_version", &v, &e), 0);
    assert_int_equal(v, 2);
    fy_gguf_close(a);
    fy_gguf_close(g);
}

static void any_number_of_threads_gives_the_same_file(void **state)
{
    (void)state;
    make_in(in_keys());
    static const fy_type types[] = {FY_F16, FY_BF16, FY_Q8_0, FY_Q4_0, FY_Q4_K};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        fy_err e = {0};
        assert_int_equal(convert(in, out, types[i], 1, NULL, &e), 0);
        assert_int_equal(convert(in, out2, types[i], 3, NULL, &e), 0);
        same_bytes(out, out2);
    }
}

static void values_survive_within_the_error_of_the_type(void **state)
{
    (void)state;
    make_in(in_keys());
    static const struct {
        fy_type type;
        float error; /* of values in (-1, 1) */
    } cases[] = {{FY_F32, 0},
                 {FY_F16, 0x1p-11f},
                 {FY_BF16, 0x1p-8f},
                 {FY_Q8_0, 0.5f / 127 + 1e-3f},
                 {FY_Q4_0, 0.126f}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        assert_int_equal(convert(in, out, cases[i].type, 2, NULL, &e), 0);
        assert_int_equal(convert(out, out2, FY_F32, 2, NULL, &e), 0);
        fy_gguf *g = fy_gguf_open(out2, &e);
        assert_non_null(g);
        for (size_t n = 0; n < N_SHAPES; n++) {
            const fy_gguf_tensor *t = fy_gguf_tensor_at(g, n);
            assert_int_equal(t->type, FY_F32);
            float largest = 0;
            for (uint64_t k = 0; k < t->bytes / 4; k++) {
                float v;
                memcpy(&v, t->data + 4 * k, 4);
                float d = fabsf(v - value_at((int64_t)n, k / t->ne[0], k % t->ne[0]));
                largest = d > largest ? d : largest;
            }
            if (largest > cases[i].error)
                fail_msg("%s through %s: error %g", shapes[n].name, fy_type_name(cases[i].type),
                         (double)largest);
        }
        fy_gguf_close(g);
    }
}

/* Writes `to` and measures; JSON of what it costs. */
static void measure(const char *from, const char *to, fy_type type, int n_threads, fy_str *json)
{
    fy_err e = {0};
    fy_requant *q = fy_requant_open(from, &(fy_requant_params){.file.type = type}, &e);
    assert_non_null(q);
    assert_int_equal(fy_requant_measure(q, &e), 0);
    fy_quant_report *r = q->report;
    assert_non_null(r);
    fy_pool *pool = fy_pool_new(n_threads, &e);
    assert_non_null(pool);
    assert_int_equal(fy_requant_write(q, to, pool, NULL, &e), 0);
    fy_pool_free(pool);
    fy_quant_report_end(r);
    assert_true(fy_quant_report_covered(r) == 1);
    assert_int_equal(fy_quant_put_json(r, "in", "out", type, json, &e), 0);
    fy_requant_close(q);
}

static void measuring_changes_no_byte_and_does_not_depend_on_threads(void **state)
{
    (void)state;
    make_in(in_keys());
    static const fy_type types[] = {FY_F16, FY_Q8_0, FY_Q4_0, FY_Q4_K};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        fy_err e = {0};
        fy_str one = {0}, three = {0};
        assert_int_equal(convert(in, out, types[i], 1, NULL, &e), 0);
        measure(in, out2, types[i], 1, &one);
        same_bytes(out, out2);
        measure(in, out2, types[i], 3, &three);
        same_bytes(out, out2);
        assert_string_equal(fy_str_z(&one), fy_str_z(&three));
        fy_str_release(&one);
        fy_str_release(&three);
    }
}

static void values_that_are_not_finite_are_refused_with_their_place(void **state)
{
    (void)state;
    static const struct {
        int64_t tensor;
        uint64_t row, element;
        float value;
        fy_type type;
        const char *message;
    } cases[] = {
        {2, 117, 33, NAN, FY_Q4_0, "tensor 'blk.0.attn_q.weight', row 117, element 33: value"},
        {2, 0, 0, INFINITY, FY_Q8_0,
         "tensor 'blk.0.attn_q.weight', row 0, element 0: value inf, expected a finite"},
        {0, 39, 8192 + 5, -INFINITY, FY_F16,
         "tensor 'token_embd.weight', row 39, element 8197: value -inf"},
        {1, 0, 63, NAN, FY_Q4_0, "tensor 'output_norm.weight', row 0, element 63"},
        {3, 4, 47, 70000.0f, FY_Q8_0,
         "tensor 'blk.0.odd.weight', row 4, element 47: value 70000 is too large for f16"},
        {2, 299, 63, 1e10f, FY_Q8_0, "row 299, element 63: value 1e+10 is too large for q8_0"},
        {2, 1, 2, 65520.0f, FY_F16,
         "row 1, element 2: value 65520 is too large for f16; choose bf16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_poisoned(cases[i].tensor, cases[i].row, cases[i].element, cases[i].value);
        fy_err e = {0};
        assert_int_equal(convert(in, out, cases[i].type, 2, NULL, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, cases[i].message) == NULL)
            fail_msg("'%s' does not say '%s'", e.msg, cases[i].message);
        assert_non_null(strstr(e.msg, "in.gguf: "));
        assert_false(fy_file_exists(out));
    }
}

static void a_quantized_file_is_copied_or_widened_but_not_quantized_again(void **state)
{
    (void)state;
    make_in(in_keys());
    fy_err e = {0};
    assert_int_equal(convert(in, out, FY_Q8_0, 2, NULL, &e), 0);
    assert_int_equal(convert(out, out2, FY_Q8_0, 2, NULL, &e), 0);
    same_bytes(out, out2);
    assert_int_equal(convert(out, out2, FY_Q4_0, 2, NULL, &e), -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(
        strstr(e.msg, "tensor 'token_embd.weight' is q8_0 already: quantizing it again to q4_0"));
}

static void the_input_is_never_overwritten(void **state)
{
    (void)state;
    make_in(in_keys());
    char part[96], link[96];
    snprintf(part, sizeof part, "%s.part", out);
    snprintf(link, sizeof link, "%s/link.gguf", dir);
    assert_int_equal(symlink(in, link), 0);
    assert_int_equal(rename(in, part), 0);
    fy_err e = {0};
    assert_int_equal(convert(part, out, FY_Q8_0, 1, NULL, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_int_equal(rename(part, in), 0);
    e = (fy_err){0};
    assert_int_equal(convert(in, in, FY_Q8_0, 1, NULL, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    e = (fy_err){0};
    assert_int_equal(convert(in, link, FY_Q8_0, 1, NULL, &e), -1);
    assert_non_null(strstr(e.msg, "is the input"));
    unlink(link);
    e = (fy_err){0};
    assert_int_equal(convert(in, out, FY_Q8_0, 1, NULL, &e), 0);
}

static void a_part_of_a_split_model_is_refused_and_split_keys_are_dropped(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 3; count += 2) {
        fy_err e = {0};
        fy_gguf_writer *w = in_keys();
        assert_int_equal(fy_gguf_add_u32(w, "split.no", count - 1, &e), 0);
        assert_int_equal(fy_gguf_add_u32(w, "split.count", count, &e), 0);
        assert_int_equal(fy_gguf_add_i32(w, "split.tensors.count", N_SHAPES, &e), 0);
        make_in(w);
        int rc = convert(in, out, FY_F16, 1, NULL, &e);
        assert_int_equal(rc, count == 1 ? 0 : -1);
        if (rc == 0) {
            fy_gguf *g = fy_gguf_open(out, &e);
            assert_non_null(g);
            assert_null(fy_gguf_find(g, "split.count"));
            assert_int_equal(fy_gguf_n_kv(g), 4);
            fy_gguf_close(g);
        } else {
            assert_non_null(strstr(e.msg, "is file 3 of 3"));
        }
    }
}

static void another_alignment_is_kept(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_gguf_writer *w = in_keys();
    assert_int_equal(fy_gguf_add_u32(w, "general.alignment", 256, &e), 0);
    make_in(w);
    assert_int_equal(convert(in, out, FY_Q8_0, 2, NULL, &e), 0);
    fy_gguf *g = fy_gguf_open(out, &e);
    assert_non_null(g);
    assert_int_equal(fy_gguf_alignment(g), 256);
    assert_int_equal(fy_gguf_data_offset(g) % 256, 0);
    fy_gguf_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(matrices_change_their_type_and_metadata_is_kept_in_order,
                                  remove_files),
        cmocka_unit_test_teardown(any_number_of_threads_gives_the_same_file, remove_files),
        cmocka_unit_test_teardown(values_survive_within_the_error_of_the_type, remove_files),
        cmocka_unit_test_teardown(measuring_changes_no_byte_and_does_not_depend_on_threads, remove_files),
        cmocka_unit_test_teardown(values_that_are_not_finite_are_refused_with_their_place,
                                  remove_files),
        cmocka_unit_test_teardown(a_quantized_file_is_copied_or_widened_but_not_quantized_again,
                                  remove_files),
        cmocka_unit_test_teardown(the_input_is_never_overwritten, remove_files),
        cmocka_unit_test_teardown(a_part_of_a_split_model_is_refused_and_split_keys_are_dropped,
                                  remove_files),
        cmocka_unit_test_teardown(another_alignment_is_kept, remove_files),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
