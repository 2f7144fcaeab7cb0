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
#include <jansson.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "base/thread.h"
#include "convert/look/compare.h"
#include "format/gguf_write.h"

static char dir[256];
static fy_pool *pools[2];

static const char *path_of(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, 512, "%s/%s", dir, name);
    return path;
}

static int make_dir(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/ferry-compare-XXXXXX", tmp != NULL ? tmp : "/tmp");
    pools[0] = fy_pool_new(1, NULL);
    pools[1] = fy_pool_new(3, NULL);
    return mkdtemp(dir) == NULL || pools[0] == NULL || pools[1] == NULL ? -1 : 0;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[300];
    fy_pool_free(pools[0]);
    fy_pool_free(pools[1]);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* What a file is made of; the values are those of a sequence but for one. */
typedef struct {
    uint64_t ne[2];  /* of the tensor big */
    uint64_t at;     /* element of big that has ... */
    float value;     /* ... this value */
    const char *extra; /* name of a further tensor; NULL: none */
    const char *name, *token; /* general.name; token 2 */
    uint32_t n_layer;
    int n_tokens;
} made;

static const made plain = {.ne = {64, 50000},
                           .at = UINT64_MAX,
                           .name = "a",
                           .token = "two",
                           .n_layer = 2,
                           .n_tokens = 3};

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    const made *m = user;
    float *to = out;
    (void)thread;
    (void)e;
    if (i != 0) {
        memset(out, 0, n_rows * 32 * sizeof *to);
        return 0;
    }
    for (uint64_t k = row * m->ne[0]; k < (row + n_rows) * m->ne[0]; k++)
        *to++ = k == m->at ? m->value : (float)((k * 2654435761u) % 2001) * 1e-3f - 1;
    return 0;
}

static void write_model(const char *name, const made *m)
{
    fy_err e = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    const char *tokens[] = {"zero", "one", m->token, "three"};
    const uint64_t small[] = {32};
    fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), &e);
    fy_gguf_add_str(w, "general.name", fy_span_of(m->name), &e);
    fy_gguf_add_u32(w, "llama.block_count", m->n_layer, &e);
    fy_gguf_begin_strings(w, "tokenizer.ggml.tokens", &e);
    for (int i = 0; i < m->n_tokens; i++)
        fy_gguf_add_string(w, fy_span_of(tokens[i]), &e);
    fy_gguf_end_strings(w, &e);
    fy_gguf_add_tensor(w, "big", FY_F32, 2, m->ne, &e);
    fy_gguf_add_tensor(w, "small", FY_F32, 1, small, &e);
    if (m->extra != NULL)
        fy_gguf_add_tensor(w, m->extra, FY_F32, 1, small, &e);
    if (fy_gguf_write(w, path_of(name), fill, (void *)(uintptr_t)m, NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    fy_gguf_writer_free(w);
}

static fy_comparison compare_with(const char *a, const char *b, const char *pattern,
                                  double tolerance, fy_pool *pool)
{
    fy_compare_params p = {.pattern = pattern, .tolerance = tolerance, .pool = pool};
    fy_comparison c;
    fy_err e = {0};
    if (fy_compare(path_of(a), path_of(b), &p, &c, &e) != 0)
        fail_msg("%s", e.msg);
    return c;
}

static fy_comparison compare(const char *a, const char *b)
{
    return compare_with(a, b, NULL, 0, pools[1]);
}

static void has(const fy_str *s, const char *part)
{
    if (strstr(fy_str_z(s), part) == NULL)
        fail_msg("no '%s' in:\n%s", part, fy_str_z(s));
}

static fy_str text_of(const fy_comparison *c, bool all)
{
    fy_str s = {0};
    fy_compare_put_text(c, all, &s);
    return s;
}

static void a_model_is_equal_to_itself(void **state)
{
    (void)state;
    write_model("a.gguf", &plain);
    fy_comparison c = compare("a.gguf", "a.gguf");
    assert_true(c.equal && c.within && c.has_vocab);
    assert_int_equal(c.n_of[FY_PAIR_EQUAL], 2);
    assert_int_equal(c.n_keys + c.n_vocab, 0);
    fy_str s = text_of(&c, false);
    has(&s, "2 tensors: 2 equal, 0 differ; keys: 0 differ; one vocabulary\nequal\n");
    assert_null(strstr(s.ptr, "tensors that differ"));
    fy_str_release(&s);
    s = text_of(&c, true);
    has(&s, "\n  big     f32 f32       0.00e+00");
    fy_str_release(&s);
    fy_comparison_release(&c);
}

/* The numbers do not depend on the threads. */
static void one_element_is_found_with_its_index(void **state)
{
    (void)state;
    static const uint64_t places[] = {0, 64 * 777 + 5, 64 * 32768, 64 * 49999 + 63};
    write_model("a.gguf", &plain);
    for (size_t i = 0; i < 4; i++) {
        made m = plain;
        m.at = places[i];
        m.value = 3;
        write_model("b.gguf", &m);
        for (size_t k = 0; k < 2; k++) {
            fy_comparison c = compare_with("a.gguf", "b.gguf", NULL, 0, pools[k]);
            const fy_tensor_pair *p = &c.pairs[0];
            assert_false(c.within);
            assert_int_equal(p->state, FY_PAIR_BEYOND);
            assert_true(fy_span_is(p->a->name, "big"));
            assert_int_equal(p->diff.n, 64 * 50000);
            assert_int_equal(p->diff.n_different, 1);
            assert_int_equal(p->diff.first, places[i]);
            assert_true(p->diff.first_b == 3);
            double d = fabs((double)p->diff.first_a - 3);
            assert_true(fabs(fy_tensor_diff_rmse(&p->diff) - d / sqrt(64 * 50000.0)) < 1e-9);
            fy_comparison_release(&c);
        }
    }
    fy_comparison c = compare("a.gguf", "b.gguf");
    fy_str s = text_of(&c, false);
    has(&s, "1 of 3200000, first [49999, 63]: ");
    has(&s, " | 3\n");
    fy_str_release(&s);
    fy_comparison_release(&c);
}

static void a_tolerance_is_relative_to_the_largest_value_of_a(void **state)
{
    (void)state;
    made m = plain;
    m.at = 7;
    m.value = 1.5f;
    write_model("a.gguf", &plain);
    write_model("b.gguf", &m);
    fy_comparison c = compare("a.gguf", "b.gguf"); /* values of A are -1 to 1 */
    double r = fy_tensor_diff_relative(&c.pairs[0].diff);
    assert_true(c.pairs[0].diff.largest == 1);
    fy_comparison_release(&c);
    c = compare_with("a.gguf", "b.gguf", NULL, r, pools[0]);
    assert_true(c.within && !c.equal);
    assert_int_equal(c.n_of[FY_PAIR_WITHIN], 1);
    fy_comparison_release(&c);
    c = compare_with("a.gguf", "b.gguf", NULL, r * 0.999, pools[0]);
    assert_false(c.within);
    fy_comparison_release(&c);
}

static void nan_is_told(void **state)
{
    (void)state;
    made m = plain;
    m.at = 64 * 10 + 1;
    m.value = NAN;
    write_model("a.gguf", &plain);
    write_model("b.gguf", &m);
    fy_comparison c = compare_with("a.gguf", "b.gguf", NULL, 1e9, pools[1]);
    assert_false(c.within);
    fy_str s = text_of(&c, false), j = {0};
    fy_err e = {0};
    has(&s, "first [10, 1]: ");
    has(&s, " | nan; 1 not finite");
    assert_int_equal(fy_compare_put_json(&c, false, &j, &e), 0);
    has(&j, "\"relative\": \"inf\"");
    has(&j, "\"b\": \"nan\"");
    fy_str_release(&s);
    fy_str_release(&j);
    fy_comparison_release(&c);
    m.ne[1] = 1; /* so small that no byte differs elsewhere */
    m.at = 3;
    write_model("a.gguf", &m);
    c = compare("a.gguf", "a.gguf");
    assert_true(c.equal);
    fy_comparison_release(&c);
}

static void shapes_and_names_that_differ_are_told(void **state)
{
    (void)state;
    made m = plain;
    m.ne[0] = 50000;
    m.ne[1] = 64;
    m.extra = "more\x1B[31m";
    write_model("a.gguf", &plain);
    write_model("b.gguf", &m);
    fy_comparison c = compare("a.gguf", "b.gguf");
    assert_int_equal(c.n_of[FY_PAIR_SHAPE], 1);
    assert_int_equal(c.n_of[FY_PAIR_ONLY_B], 1);
    assert_int_equal(c.n_of[FY_PAIR_EQUAL], 1);
    fy_str s = text_of(&c, false);
    has(&s, "  big: shape [50000, 64] | [64, 50000]\n");
    has(&s, "  more\\x1b[31m: only in B (f32 [32])\n");
    has(&s, "3 tensors: 1 equal, 0 differ, 1 of another shape, 1 only in B");
    fy_str_release(&s);
    fy_comparison_release(&c);
    c = compare_with("a.gguf", "b.gguf", "^small$", 0, pools[1]);
    assert_true(c.equal);
    assert_int_equal(c.n_pairs, 1);
    fy_comparison_release(&c);
}

static void keys_of_provenance_do_not_count(void **state)
{
    (void)state;
    made m = plain;
    m.name = "another";
    write_model("a.gguf", &plain);
    write_model("b.gguf", &m);
    fy_comparison c = compare("a.gguf", "b.gguf");
    assert_true(c.equal);
    assert_int_equal(c.n_keys, 1);
    assert_int_equal(c.n_counting_keys, 0);
    fy_str s = text_of(&c, false);
    has(&s, "  general.name: \"a\" | \"another\"  (does not count)\n");
    fy_str_release(&s);
    fy_comparison_release(&c);
    m.n_layer = 3;
    write_model("b.gguf", &m);
    c = compare("a.gguf", "b.gguf");
    assert_false(c.within);
    assert_int_equal(c.n_counting_keys, 1);
    s = text_of(&c, false);
    has(&s, "  llama.block_count: 2 | 3\n");
    fy_str_release(&s);
    fy_comparison_release(&c);
    c = compare_with("a.gguf", "b.gguf", "", 0, pools[1]); /* tensors alone */
    assert_true(c.equal && c.n_keys == 0);
    fy_comparison_release(&c);
}

static void vocabularies_are_compared_by_entry(void **state)
{
    (void)state;
    made m = plain;
    m.token = "deux";
    m.n_tokens = 4;
    write_model("a.gguf", &plain);
    write_model("b.gguf", &m);
    fy_comparison c = compare("a.gguf", "b.gguf");
    assert_false(c.within);
    assert_int_equal(c.n_keys, 0);
    assert_int_equal(c.n_vocab, 1);
    fy_str s = text_of(&c, false), j = {0};
    fy_err e = {0};
    has(&s, "  tokens: 3 | 4, 1 differ\n    2: \"two\" | \"deux\"\n");
    assert_int_equal(fy_compare_put_json(&c, false, &j, &e), 0);
    json_t *root = fy_json_data((fy_span){j.ptr, j.len}, &e);
    assert_non_null(root);
    json_t *v = json_array_get(json_object_get(root, "vocabulary"), 0);
    assert_int_equal(json_integer_value(json_object_get(v, "entries_b")), 4);
    assert_true(json_is_false(json_object_get(root, "within")));
    json_decref(root);
    fy_str_release(&s);
    fy_str_release(&j);
    fy_comparison_release(&c);
}

/* Part i of two, with one tensor. */
static void write_part(int i)
{
    static const uint64_t ne[] = {32};
    static const made m = {.ne = {32, 1}, .at = UINT64_MAX};
    fy_err e = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    char name[64];
    snprintf(name, sizeof name, "split-%05d-of-00002.gguf", i);
    fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), &e);
    fy_gguf_add_u32(w, "split.no", (uint32_t)i - 1, &e);
    fy_gguf_add_u32(w, "split.count", 2, &e);
    fy_gguf_add_tensor(w, i == 1 ? "one" : "two", FY_F32, 1, ne, &e);
    if (fy_gguf_write(w, path_of(name), fill, (void *)(uintptr_t)&m, NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    fy_gguf_writer_free(w);
}

static void write_safetensors(const char *name, const char *header, const void *data, size_t n)
{
    fy_str s = {0};
    fy_err e = {0};
    uint64_t len = strlen(header);
    fy_str_add(&s, &len, sizeof len);
    fy_str_puts(&s, header);
    fy_str_add(&s, data, n);
    assert_int_equal(fy_file_write(path_of(name), s.ptr, s.len, &e), 0);
    fy_str_release(&s);
}

/* Integers have no values here but bytes; empty tensors are equal. */
static void files_are_compared_under_their_names(void **state)
{
    (void)state;
    static const char header[] =
        "{\"a\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
        "\"e\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[16,16]},"
        "\"f\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[16,24]}}";
    static const char other[] =
        "{\"a\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
        "\"e\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[16,16]},"
        "\"f\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[16,32]}}";
    int64_t x[3] = {5, 6}, y[4] = {5, 7};
    float f[] = {0.5f, -2};
    double d[] = {0.5, -2};
    memcpy(&x[2], f, sizeof f);
    memcpy(&y[2], d, sizeof d);
    write_safetensors("x.safetensors", header, x, 24);
    write_safetensors("y.safetensors", other, y, 32);
    fy_comparison c = compare("x.safetensors", "y.safetensors");
    assert_int_equal(c.n_of[FY_PAIR_UNREAD], 1);
    assert_int_equal(c.n_of[FY_PAIR_EQUAL], 2);
    assert_null(c.keys_a);
    fy_str s = text_of(&c, true);
    has(&s, "  a: stored bytes differ, first in element 1; values of type I64 are not decoded\n");
    fy_str_release(&s);
    fy_comparison_release(&c);
    c = compare("x.safetensors", "x.safetensors");
    assert_true(c.equal);
    fy_comparison_release(&c);
}

static void the_first_file_of_a_split_model_stands_for_all(void **state)
{
    (void)state;
    write_part(1);
    write_part(2);
    fy_comparison c = compare("split-00001-of-00002.gguf", "split-00001-of-00002.gguf");
    assert_true(c.equal);
    assert_int_equal(c.n_pairs, 2);
    fy_comparison_release(&c);
    static const struct {
        const char *name, *words;
    } cases[] = {{"split-00002-of-00002.gguf", "give the first one"},
                 {"split-00001-of-00002.gguf", "00002-of-00002.gguf: is absent"}};
    for (size_t i = 0; i < 2; i++) {
        fy_compare_params p = {.pool = pools[0]};
        fy_err e = {0};
        if (i == 1)
            remove(path_of("split-00002-of-00002.gguf"));
        const char *path = path_of(cases[i].name);
        assert_int_equal(fy_compare(path, path, &p, &c, &e), -1);
        fy_comparison_release(&c);
        if (strstr(e.msg, cases[i].words) == NULL)
            fail_msg("%s", e.msg);
    }
}

static void what_cannot_be_compared_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *pattern, *words;
        int status;
    } cases[] = {
        {"a.gguf", "nothing", NULL, "cannot open", 1},
        {"a.gguf", "", NULL, "name one; its GGUF files are", 1},
        {"a.gguf", "junk", NULL, "junk", 1},
        {"a.gguf", "cut.gguf", NULL, "cut.gguf", 1},
        {"a.gguf", "a.gguf", "*[", "is not a regular expression", 2},
        {"a.gguf", "a.gguf", "nowhere", "no tensor of either", 2},
        {"a.gguf", "lone.safetensors", NULL, "is a file; give the checkpoint's directory", 2},
    };
    fy_err e = {0};
    write_model("a.gguf", &plain);
    fy_file_write(path_of("junk"), "what?", 5, &e);
    fy_file_write(path_of("cut.gguf"), "GGUF\3\0\0\0", 8, &e);
    write_safetensors("lone.safetensors",
                      "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "\0\0\0",
                      4);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_compare_params p = {.pattern = cases[i].pattern, .pool = pools[0]};
        fy_comparison c;
        e = (fy_err){0};
        assert_int_equal(fy_compare(path_of(cases[i].a), path_of(cases[i].b), &p, &c, &e), -1);
        fy_comparison_release(&c);
        if (strstr(e.msg, cases[i].words) == NULL || fy_exit_status(e.code) != cases[i].status)
            fail_msg("%s (%d)", e.msg, fy_exit_status(e.code));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_equal_to_itself),
        cmocka_unit_test(one_element_is_found_with_its_index),
        cmocka_unit_test(a_tolerance_is_relative_to_the_largest_value_of_a),
        cmocka_unit_test(nan_is_told),
        cmocka_unit_test(shapes_and_names_that_differ_are_told),
        cmocka_unit_test(keys_of_provenance_do_not_count),
        cmocka_unit_test(vocabularies_are_compared_by_entry),
        cmocka_unit_test(files_are_compared_under_their_names),
        cmocka_unit_test(the_first_file_of_a_split_model_stands_for_all),
        cmocka_unit_test(what_cannot_be_compared_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
