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
#include "format/kl_base.h"
#include "tests/unit/alloc_fail.h"

enum { V = 301, N = 5, ROW = 12 + 2 * V };

static char path[64];

static float logit(int row, int i)
{
    return (float)((row * 7919 + i * 104729) % 10007) / 250.0f - 20; /* over 40 apart */
}

static fy_kl_head a_head(void)
{
    fy_kl_head h = {.method = 2, .n_ctx = 512, .n_vocab = V};
    memset(h.vocab_hash, 0x11, sizeof h.vocab_hash);
    memset(h.text_hash, 0x22, sizeof h.text_hash);
    return h;
}

static int write_rows(int n, fy_err *e)
{
    const fy_kl_head h = a_head();
    float x[V];
    fy_kl_writer *w = fy_kl_create(path, &h, e);
    if (w == NULL)
        return -1;
    for (int r = 0; r < n; r++) {
        for (int i = 0; i < V; i++)
            x[i] = logit(r, i);
        if (fy_kl_add(w, x, (fy_kl_token){r * 3, -0.25f * (float)r}, e) != 0) {
            fy_kl_abort(w);
            return -1;
        }
    }
    return fy_kl_commit(w, NULL, e);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ferry-kl-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0 || write_rows(N, NULL) != 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void what_is_written_is_read_within_the_stated_error(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_kl_reader *r = fy_kl_open(path, &e);
    assert_non_null(r);
    const fy_kl_head want = a_head(), *h = fy_kl_head_of(r);
    assert_true(h->n_rows == N && h->n_vocab == V && h->method == 2 && h->n_ctx == 512);
    assert_memory_equal(h->vocab_hash, want.vocab_hash, sizeof want.vocab_hash);
    assert_memory_equal(h->text_hash, want.text_hash, sizeof want.text_hash);
    for (int row = 0; row < N; row++) {
        float below[V], max = logit(row, 0), min = max;
        fy_kl_token t;
        assert_int_equal(fy_kl_next(r, &t, below, &e), 0);
        assert_int_equal(t.id, row * 3);
        assert_true(t.logprob == -0.25f * (float)row);
        for (int i = 1; i < V; i++) {
            max = fmaxf(max, logit(row, i));
            min = fminf(min, logit(row, i));
        }
        for (int i = 0; i < V; i++) {
            const double far = (double)max - (double)logit(row, i),
                         range = (double)max - (double)min;
            /* one and a bit: a float's rounding, and the half step's own square */
            assert_true(fabs((double)below[i] - far) <= 1.01 * sqrt(far * range) / 65535 + 1e-6);
            assert_true((below[i] == 0) == (logit(row, i) == max));
        }
    }
    float below[V];
    fy_kl_token t;
    assert_int_equal(fy_kl_end(r, &e), 0);
    assert_int_equal(fy_kl_next(r, &t, below, &e), -1);
    fy_kl_close(r);
}

static void equal_logits_are_equal_codes(void **state)
{
    (void)state;
    fy_kl_head h = a_head();
    h.n_vocab = 1;
    const float one = -3;
    fy_kl_writer *w = fy_kl_create(path, &h, NULL);
    uint64_t bytes;
    assert_int_equal(fy_kl_add(w, &one, (fy_kl_token){0, 0}, NULL), 0);
    assert_int_equal(fy_kl_commit(w, &bytes, NULL), 0);
    assert_int_equal(bytes, 96 + 14 + 32);
    fy_kl_reader *r = fy_kl_open(path, NULL);
    float below = 1;
    fy_kl_token t;
    assert_int_equal(fy_kl_next(r, &t, &below, NULL), 0);
    assert_true(below == 0);
    fy_kl_close(r);
    assert_int_equal(write_rows(N, NULL), 0);
}

/* Reads all of it; -1 with *e, else 0. */
static int read_all(const void *p, size_t n, fy_err *e)
{
    float below[V];
    fy_kl_token t;
    fy_kl_reader *r = fy_kl_parse(p, n, e);
    int rc = r != NULL ? 0 : -1;
    for (uint64_t i = 0; rc == 0 && i < fy_kl_head_of(r)->n_rows; i++)
        rc = fy_kl_next(r, &t, below, e);
    if (rc == 0)
        rc = fy_kl_end(r, e);
    fy_kl_close(r);
    return rc;
}

static void every_cut_and_every_flipped_byte_is_an_error(void **state)
{
    (void)state;
    fy_map m;
    assert_int_equal(fy_map_open(&m, path, NULL), 0);
    assert_int_equal(m.size, 96 + N * ROW + 32);
    uint8_t *copy = malloc(m.size + 1);
    assert_non_null(copy);
    memcpy(copy, m.data, m.size);
    copy[m.size] = 0;
    assert_int_equal(read_all(copy, m.size, NULL), 0);
    for (size_t n = 0; n <= m.size + 1; n += n < 200 ? 1 : 97) {
        fy_err e = {0};
        if (n != m.size)
            assert_int_equal(read_all(copy, n, &e), -1);
    }
    assert_int_equal(read_all(copy, m.size + 1, NULL), -1);
    for (size_t i = 0; i < m.size; i += i < 120 ? 1 : 13) {
        fy_err e = {0};
        copy[i] ^= 0x40;
        if (i >= 20 && i < 24) { /* n_vocab: too many for below[] */
            fy_kl_reader *r = fy_kl_parse(copy, m.size, &e);
            assert_null(r);
        } else {
            assert_int_equal(read_all(copy, m.size, &e), -1);
        }
        assert_true(e.code == FY_EFORMAT || e.code == FY_EUNSUPPORTED);
        copy[i] ^= 0x40;
    }
    free(copy);
    fy_map_close(&m);
}

static void messages_say_what_is_wrong(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(read_all("GGUF....", 8, &e), -1);
    assert_non_null(strstr(e.msg, "not a file of distributions"));
    e = (fy_err){0};
    assert_int_equal(read_all("FERRYKLB", 8, &e), -1);
    assert_non_null(strstr(e.msg, "cut off"));
    assert_null(fy_kl_open("/nonexistent/base.klb", &(fy_err){0}));
}

static void distributions_that_are_none_are_not_saved(void **state)
{
    (void)state;
    const fy_kl_head h = a_head();
    float x[V] = {0};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    fy_kl_writer *w = fy_kl_create(path, &h, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_err e = {0};
        x[7] = bad[i];
        assert_int_equal(fy_kl_add(w, x, (fy_kl_token){0, 0}, &e), -1);
        assert_non_null(strstr(e.msg, "token 7 at scored position 0"));
    }
    x[7] = 3e38f;
    x[8] = -3e38f;
    assert_int_equal(fy_kl_add(w, x, (fy_kl_token){0, 0}, NULL), -1);
    fy_kl_abort(w); /* the file that was there stays */
    fy_map m;
    assert_int_equal(fy_map_open(&m, path, NULL), 0);
    assert_int_equal(m.size, 96 + N * ROW + 32);
    fy_map_close(&m);
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        int rc = write_rows(1, &e);
        failed = alloc_fail_end();
        assert_true(failed || rc == 0);
        assert_true(rc == 0 || e.code != FY_OK); /* some failures are the system's to make good */
    }
    failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_kl_reader *r = fy_kl_open(path, &e);
        failed = alloc_fail_end();
        assert_true(failed || r != NULL);
        assert_true(r != NULL || e.code != FY_OK);
        fy_kl_close(r);
    }
    assert_int_equal(write_rows(N, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_within_the_stated_error),
        cmocka_unit_test(equal_logits_are_equal_codes),
        cmocka_unit_test(every_cut_and_every_flipped_byte_is_an_error),
        cmocka_unit_test(messages_say_what_is_wrong),
        cmocka_unit_test(distributions_that_are_none_are_not_saved),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
