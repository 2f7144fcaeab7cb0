/* Prompt cache files: the same bits as without, and whatever else a file may be is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "base/hash.h"
#include "model/prompt_cache.h"
#include "tests/unit/model/tiny_model.h"

enum { T = 60, V = 96 };

static char model_path[64], cache_path[64];
static int32_t ids[T];

static int make_paths(void **state)
{
    (void)state;
    for (int i = 0; i < T; i++)
        ids[i] = (i * 37 + 11) % V;
    snprintf(model_path, sizeof model_path, "/tmp/ferry-pc-XXXXXX");
    int fd = mkstemp(model_path);
    snprintf(cache_path, sizeof cache_path, "%s.cache", model_path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_paths(void **state)
{
    (void)state;
    unlink(cache_path);
    return unlink(model_path);
}

static fy_model *open_tiny(uint32_t n_layer)
{
    tiny_model t = tiny_default();
    fy_err e = {0};
    t.hp.n_layer = n_layer;
    assert_int_equal(tiny_write(&t, model_path, &e), 0);
    fy_model *m = fy_model_open(model_path, &e);
    assert_non_null(m);
    return m;
}

static fy_session *begin(const fy_model *m, fy_type k, fy_type v, uint32_t n_ctx, uint32_t n_seq)
{
    fy_err e = {0};
    fy_session_params p = {
        .n_ctx = n_ctx, .type_k = k, .type_v = v, .n_threads = 1, .n_seq = n_seq};
    fy_session *s = fy_session_new(m, &p, &e);
    assert_non_null(s);
    return s;
}

static void eval(fy_session *s, uint32_t from, uint32_t to, float *last)
{
    const float *logits;
    fy_err e = {0};
    assert_int_equal(fy_session_eval(s, ids + from, to - from, NULL, &logits, &e), 0);
    if (last != NULL)
        memcpy(last, logits, V * sizeof *last);
}

static const fy_type types[][2] = {
    {FY_F32, FY_F32}, {FY_F16, FY_F16}, {FY_Q8_0, FY_Q8_0}, {FY_Q4_0, FY_Q4_0}, {FY_F16, FY_Q8_0}};
enum { N_TYPES = sizeof types / sizeof types[0] };

static void a_session_continues_to_the_same_bits(void **state)
{
    (void)state;
    fy_model *m = open_tiny(3);
    fy_err e = {0};
    for (int i = 0; i < N_TYPES; i++) {
        float want[V], got[V];
        uint32_t n;
        fy_session *a = begin(m, types[i][0], types[i][1], 100, 1);
        eval(a, 0, 40, NULL);
        assert_int_equal(fy_prompt_cache_write(cache_path, a, 0, ids, 40, &e), 0);
        eval(a, 40, T, want);
        fy_session_free(a);
        for (uint32_t part = 1; part <= 40; part += 13) {
            fy_session *b = begin(m, types[i][0], types[i][1], 80, 1); /* of another length */
            fy_prompt_cache *c = fy_prompt_cache_open(cache_path, b, &e);
            assert_non_null(c);
            assert_memory_equal(fy_prompt_cache_ids(c, &n), ids, 40 * sizeof *ids);
            assert_int_equal(n, 40);
            assert_int_equal(fy_prompt_cache_load(c, b, 0, part, &e), 0);
            fy_prompt_cache_close(c);
            assert_int_equal(fy_session_n_past(b), part);
            eval(b, part, T, got);
            assert_memory_equal(got, want, sizeof want);
            fy_session_free(b);
        }
    }
    fy_model_close(m);
}

static void ranges_go_from_any_sequence_to_any_other(void **state)
{
    (void)state;
    fy_model *m = open_tiny(3);
    fy_err e = {0};
    for (int i = 0; i < N_TYPES; i++) {
        float want[V], got[V];
        fy_session *a = begin(m, types[i][0], types[i][1], 100, 1);
        fy_session *b = begin(m, types[i][0], types[i][1], 70, 3);
        eval(a, 0, 50, NULL);
        uint8_t *first = malloc(fy_session_seq_bytes(a, 0, 0, 20)),
                *rest = malloc(fy_session_seq_bytes(a, 0, 20, 50));
        assert_int_equal(fy_session_seq_read(a, 0, 0, 20, first, &e), 0);
        assert_int_equal(fy_session_seq_read(a, 0, 20, 50, rest, &e), 0);
        assert_int_equal(fy_session_saved_keeps(b, 20, first, 11), 11);
        eval(a, 50, T, want);
        assert_int_equal(fy_session_seq_write(b, 2, 0, 20, first, &e), 0);
        assert_int_equal(fy_session_seq_write(b, 2, 20, 50, rest, &e), 0);
        assert_int_equal(fy_session_seq_n_past(b, 2), 50);
        assert_int_equal(fy_session_seq_n_past(b, 1), 0);
        assert_int_equal(fy_session_seq_copy(b, 2, 0, 50, &e), 0);
        eval(b, 50, T, got);
        assert_memory_equal(got, want, sizeof want);
        fy_session_free(a);
        fy_session_free(b);
        free(first);
        free(rest);
    }
    fy_model_close(m);
}

static void ranges_that_a_sequence_does_not_have_are_refused(void **state)
{
    (void)state;
    fy_model *m = open_tiny(1);
    fy_session *s = begin(m, FY_F16, FY_F16, 10, 2);
    uint8_t *bytes = calloc(1, fy_session_seq_bytes(s, 0, 0, 20));
    fy_err e = {0};
    eval(s, 0, 5, NULL);
    assert_int_equal(fy_session_seq_read(s, 0, 2, 6, bytes, NULL), -1);
    assert_int_equal(fy_session_seq_read(s, 0, 4, 3, bytes, NULL), -1);
    assert_int_equal(fy_session_seq_read(s, 1, 0, 1, bytes, NULL), -1);
    assert_int_equal(fy_session_seq_read(s, 2, 0, 1, bytes, NULL), -1);
    assert_int_equal(fy_session_seq_read(s, 0, 5, 5, bytes, NULL), 0);
    assert_int_equal(fy_session_seq_write(s, 0, 6, 7, bytes, NULL), -1);
    assert_int_equal(fy_session_seq_write(s, 2, 0, 1, bytes, NULL), -1);
    assert_int_equal(fy_session_seq_write(s, 0, 0, 11, bytes, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    assert_int_equal(fy_session_n_past(s), 5);
    assert_int_equal(fy_session_seq_write(s, 0, 5, 10, bytes, NULL), 0);
    assert_int_equal(fy_session_n_past(s), 10);
    free(bytes);
    fy_session_free(s);
    fy_model_close(m);
}

/* --- files that are something else --- */

static uint8_t *read_file(size_t *n)
{
    FILE *f = fopen(cache_path, "rb");
    assert_non_null(f);
    struct stat st;
    assert_int_equal(fstat(fileno(f), &st), 0);
    *n = (size_t)st.st_size;
    uint8_t *p = malloc(*n);
    assert_int_equal(fread(p, 1, *n, f), *n);
    fclose(f);
    return p;
}

static void sign(uint8_t *p, size_t n)
{
    assert_int_equal(fy_sha256_of(p, n - FY_SHA256_BYTES, p + n - FY_SHA256_BYTES, NULL), 0);
}

static void refused(const uint8_t *p, size_t n, const fy_prompt_cache_shape *want, fy_code code,
                    const char *words)
{
    fy_err e = {0};
    assert_null(fy_prompt_cache_parse(p, n, want, &e));
    assert_int_equal(e.code, code);
    if (strstr(e.msg, words) == NULL)
        fail_msg("%s", e.msg);
}

static void what_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    fy_model *m = open_tiny(2);
    fy_session *s = begin(m, FY_F16, FY_F16, 100, 1);
    fy_prompt_cache_shape shape, other;
    fy_err e = {0};
    size_t n;
    eval(s, 0, 9, NULL);
    assert_int_equal(fy_prompt_cache_write(cache_path, s, 0, ids, 9, &e), 0);
    assert_int_equal(fy_prompt_cache_shape_of(s, &shape, &e), 0);
    uint8_t *p = read_file(&n);
    fy_prompt_cache_close(fy_prompt_cache_parse(p, n, &shape, &e));
    assert_int_equal(e.code, FY_OK);
    other = shape;
    other.model[0] ^= 1;
    refused(p, n, &other, FY_EARG, "another model");
    other = shape;
    other.type_v = FY_Q8_0;
    refused(p, n, &other, FY_EARG, "types f16 and f16, this one is of f16 and q8_0");
    other = shape;
    other.kernels ^= FY_CPU_NEON;
    refused(p, n, &other, FY_EARG, "kernels of another CPU");
    other = shape;
    other.flags = FY_PROMPT_CACHE_LONG_ROPE;
    refused(p, n, &other, FY_EARG, "longrope");
    for (size_t k = 0; k < n; k++)
        refused(p, k, NULL, FY_EFORMAT, "");
    for (size_t k = 0; k < n; k++) { /* any damage */
        p[k] ^= 0x10;
        refused(p, n, NULL, FY_EFORMAT, "");
        p[k] ^= 0x10;
    }
    fy_session_free(s);
    fy_model_close(m);

    m = open_tiny(3);
    s = begin(m, FY_F16, FY_F16, 100, 1);
    assert_null(fy_prompt_cache_open(cache_path, s, &e));
    assert_non_null(strstr(e.msg, cache_path));
    assert_non_null(strstr(e.msg, "another model"));
    e = (fy_err){0};
    assert_null(fy_prompt_cache_open(model_path, s, &e));
    assert_non_null(strstr(e.msg, "not a prompt cache"));
    fy_session_free(s);
    fy_model_close(m);
    free(p);
}

/* Refused when it is read, or when it is held against the session's model. */
static void refused_for(const uint8_t *p, size_t n, const fy_prompt_cache_shape *want,
                        const fy_session *s, const char *words)
{
    fy_err e = {0};
    fy_prompt_cache *c = fy_prompt_cache_parse(p, n, want, &e);
    if (c != NULL && fy_prompt_cache_check(c, s, &e) == 0)
        fail_msg("taken: %s", words);
    assert_true(e.code == FY_EFORMAT || e.code == FY_EARG); /* FY_EARG: of other types */
    if (strstr(e.msg, words) == NULL)
        fail_msg("%s: %s", words, e.msg);
    fy_prompt_cache_close(c);
}

/* Every field of the head and of the first block, with a hash that is right. */
static void a_file_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    fy_model *m = open_tiny(2);
    fy_session *s = begin(m, FY_F16, FY_F16, 100, 1);
    fy_prompt_cache_shape shape;
    size_t n;
    eval(s, 0, 10, NULL);
    assert_int_equal(fy_prompt_cache_write(cache_path, s, 0, ids, 10, NULL), 0);
    assert_int_equal(fy_prompt_cache_shape_of(s, &shape, NULL), 0);
    uint8_t *p = read_file(&n), *q = malloc(n);
    static const struct {
        size_t at;
        uint32_t value;
        const char *words;
    } cases[] = {
        {8, 2, "version 2"},
        {52, 77, "types"},
        {56, 2, "types f16 and q4_0"},
        {60, 0, "0 layers"},
        {60, ~0u, "the model has 2"},
        {64, 0, "of 0 heads"},
        {64, ~0u, "the model has 2 of 2"},
        {68, 0, "layers of 2 heads"},
        {72, 1u << 30, "layers of 2 heads"},
        {80, 0, "0 tokens and 4 blocks do not fit"},
        {80, ~0u, "do not fit"},
        {80, 8, ""},
        {84, 3, "3 blocks end at byte"},
        {84, 5, ""},
        {84, ~0u, "do not fit"},
        {88, 1, "expected 1"},
        {96, ~0u, "token 0"},
        {136, 0, "kind 0"},
        {136, 7, "kind 7"},
        {136, 2, "there twice"},
        {136, 3, "stands after"},
        {140, 2, "layer 2"},
        {140, 1, "stands after"},
        {144, 1, "positions 1"},
        {144, 10, "positions 10 to 10"},
        {148, 9, ""},
        {148, 11, "to 11 of 10"},
        {152, 8, ""},
        {152, ~0u, "bytes, and"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(q, p, n);
        memcpy(q + cases[i].at, &cases[i].value, 4);
        sign(q, n);
        refused_for(q, n, &shape, s, cases[i].words);
    }
    free(p);
    free(q);
    fy_session_free(s);
    fy_model_close(m);
}

static void running_out_of_memory_is_reported(void **state)
{
    (void)state;
    fy_model *m = open_tiny(1);
    fy_session *s = begin(m, FY_F32, FY_F32, 20, 1);
    eval(s, 0, 5, NULL);
    for (long n = 0;; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        int rc = fy_prompt_cache_write(cache_path, s, 0, ids, 5, &e);
        fy_prompt_cache *c = rc == 0 ? fy_prompt_cache_open(cache_path, s, &e) : NULL;
        bool failed = alloc_fail_end();
        fy_prompt_cache_close(c);
        if (!failed) {
            assert_non_null(c);
            break;
        }
        if (c == NULL)
            assert_true(e.code != FY_OK);
    }
    fy_session_free(s);
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_continues_to_the_same_bits),
        cmocka_unit_test(ranges_go_from_any_sequence_to_any_other),
        cmocka_unit_test(ranges_that_a_sequence_does_not_have_are_refused),
        cmocka_unit_test(what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(a_file_that_contradicts_itself_is_refused),
        cmocka_unit_test(running_out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, make_paths, remove_paths);
}
