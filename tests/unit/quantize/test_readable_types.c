/* Models in types made by ggml's encoders (tests/data/quantized; each matrix of mixed.gguf has
 * another of the types that ferry only reads): each computes nearly what its own dequantization
 * computes, the same bits for any batch and number of threads, and a damaged one does no harm. */
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

#include "model/model.h"
#include "quantize/requantize.h"

enum { T = 60, V = 32 };

static const char *const types[] = {"q4_1", "q5_0", "q5_1", "q4_K", "q5_K", "q6_K", "mixed"};
enum { N_TYPES = sizeof types / sizeof types[0] };

static char made[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(made, sizeof made, "/tmp/ferry-readable-XXXXXX");
    const int fd = mkstemp(made);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(made);
}

static const char *file_of(const char *type)
{
    static char path[64];
    snprintf(path, sizeof path, "tests/data/quantized/%s.gguf", type);
    return path;
}

static int keep_logits(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    (void)e;
    memcpy((float *)user + pos * V, logits, n * V * sizeof(float));
    return 0;
}

static void logits_of(const char *path, uint32_t n_batch, int n_threads, float out[T * V])
{
    int32_t ids[T];
    for (int i = 0; i < T; i++)
        ids[i] = (i * 37 + 11) % V;
    fy_err e = {0};
    fy_model *m = fy_model_open(path, &e);
    if (m == NULL)
        fail_msg("%s", e.msg);
    const fy_session_params p = {.n_batch = n_batch, .n_threads = n_threads};
    fy_session *s = fy_session_new(m, &p, &e);
    assert_non_null(s);
    const fy_eval_sinks sinks = {.logits = keep_logits, .user = out};
    const float *last = NULL;
    assert_int_equal(fy_session_eval(s, ids, T, &sinks, &last, &e), 0);
    fy_session_free(s);
    fy_model_close(m);
}

static int dequantize(const char *from, fy_type to, fy_err *e)
{
    fy_requant *q = fy_requant_open(from, &(fy_requant_params){.file.type = to}, e);
    if (q == NULL)
        return -1;
    const int rc = fy_requant_write(q, made, NULL, NULL, e);
    fy_requant_close(q);
    return rc;
}

static double relative_rms(const float *got, const float *want)
{
    double error = 0, size = 0;
    for (int i = 0; i < T * V; i++) {
        error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    return sqrt(error / size);
}

static void every_type_computes_nearly_what_its_dequantization_does(void **state)
{
    (void)state;
    static const fy_type wide[] = {FY_F32, FY_F16, FY_BF16};
    static float got[T * V], want[T * V];
    for (int t = 0; t < N_TYPES; t++) {
        logits_of(file_of(types[t]), 512, 1, got);
        for (int w = 0; w < 3; w++) {
            fy_err e = {0};
            if (dequantize(file_of(types[t]), wide[w], &e) != 0)
                fail_msg("%s", e.msg);
            logits_of(made, 512, 1, want);
            const double rms = relative_rms(got, want);
            if (!(rms > 0 && rms <= 0.05))
                fail_msg("%s against its %s: RMS %g", types[t], fy_type_name(wide[w]), rms);
        }
    }
}

static void every_type_gives_the_same_bits_for_any_threads_and_batches(void **state)
{
    (void)state;
    static const uint32_t batches[] = {2, 3, 7, 16, 512};
    static float got[T * V], want[T * V];
    for (int t = 0; t < N_TYPES; t++) {
        logits_of(file_of(types[t]), 1, 1, want);
        for (int b = 0; b < 5; b++) {
            logits_of(file_of(types[t]), batches[b], 1 + b % 3, got);
            assert_memory_equal(got, want, sizeof want);
        }
    }
}

static void they_are_not_quantized_a_second_time(void **state)
{
    (void)state;
    for (int t = 0; t < N_TYPES; t++) {
        fy_err e = {0};
        assert_null(
            fy_requant_open(file_of(types[t]), &(fy_requant_params){.file.type = FY_Q8_0}, &e));
        assert_int_equal(e.code, FY_EUNSUPPORTED);
        assert_non_null(strstr(e.msg, strcmp(types[t], "mixed") == 0 ? "iq4_nl" : types[t]));
        assert_non_null(strstr(e.msg, "start from the f32, f16 or bf16 file"));
    }
}

/* A copy whose first matrix is all ones: scales that are NaN, the largest quants. */
static void write_damaged(const char *type)
{
    static uint8_t bytes[1 << 20];
    fy_err e = {0};
    fy_gguf *g = fy_gguf_open(file_of(type), &e);
    assert_non_null(g);
    const size_t at = (size_t)fy_gguf_data_offset(g), n = (size_t)fy_gguf_tensor_at(g, 0)->bytes;
    fy_gguf_close(g);
    FILE *f = fopen(file_of(type), "rb");
    assert_non_null(f);
    const size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_true(size > at + n && size < sizeof bytes);
    memset(bytes + at, 0xff, n);
    f = fopen(made, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void scales_that_are_not_finite_do_no_harm(void **state)
{
    (void)state;
    static float got[T * V];
    for (int t = 0; t < N_TYPES; t++) {
        write_damaged(types[t]);
        logits_of(made, 512, 2, got);
        assert_true(isnan(got[0]));
        char out[sizeof made + 4];
        snprintf(out, sizeof out, "%s.out", made);
        fy_err e = {0};
        fy_requant *q = fy_requant_open(made, &(fy_requant_params){.file.type = FY_F16}, &e);
        assert_non_null(q);
        assert_int_equal(fy_requant_write(q, out, NULL, NULL, &e), -1);
        fy_requant_close(q);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_non_null(strstr(e.msg, "row 0, element 0"));
        assert_int_not_equal(access(out, F_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_computes_nearly_what_its_dequantization_does),
        cmocka_unit_test(every_type_gives_the_same_bits_for_any_threads_and_batches),
        cmocka_unit_test(they_are_not_quantized_a_second_time),
        cmocka_unit_test(scales_that_are_not_finite_do_no_harm),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
