#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/job_part.h"

static void clear(void)
{
    unsetenv("SLURM_ARRAY_TASK_ID");
    unsetenv("JOB_COMPLETION_INDEX");
    unsetenv("PMI_RANK");
}

static void a_part_is_i_of_n(void **state)
{
    (void)state;
    fy_job_part p;
    fy_err e = {0};
    clear();
    assert_int_equal(fy_job_part_parse(NULL, &p, &e), 0);
    assert_int_equal(p.n, 0);
    assert_int_equal(fy_job_part_parse("3/64", &p, &e), 0);
    assert_true(p.i == 3 && p.n == 64);
    assert_int_equal(fy_job_part_parse("65535/65535", &p, &e), 0);
    static const char *const bad[] = {
        "",      "3",     "/",      "3/",           "/3",           "0/3",
        "4/3",   "-1/3",  "1/-3",   "1/65536",      "1/0",          " 1/3",
        "1/3 ",  "1/3/4", "a/3",    "autos/3",      "1/9999999999", "+1/3",
        "1.0/3", "auto",  "auto/0", "99999999999/3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e = (fy_err){0};
        assert_int_equal(fy_job_part_parse(bad[i], &p, &e), -1);
        assert_int_equal(e.code, FY_EARG);
    }
}

static void array_jobs_say_which(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
        int part; /* of 8; 0: refused */
    } cases[] = {
        {"SLURM_ARRAY_TASK_ID", "1", 1},
        {"SLURM_ARRAY_TASK_ID", "8", 8},
        {"SLURM_ARRAY_TASK_ID", "0", 0},
        {"SLURM_ARRAY_TASK_ID", "9", 0},
        {"JOB_COMPLETION_INDEX", "0", 1},
        {"JOB_COMPLETION_INDEX", "7", 8},
        {"JOB_COMPLETION_INDEX", "8", 0},
        {"PMI_RANK", "0", 1},
        {"PMI_RANK", "7", 8},
        {"PMI_RANK", "-1", 0},
        {"PMI_RANK", "", 0},
        {"PMI_RANK", "7x", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_job_part p;
        fy_err e = {0};
        clear();
        assert_int_equal(fy_job_part_parse("auto/8", &p, &e), -1); /* none of them is set */
        assert_non_null(strstr(e.msg, "SLURM_ARRAY_TASK_ID"));
        setenv(cases[i].name, cases[i].value, 1);
        e = (fy_err){0};
        assert_int_equal(fy_job_part_parse("auto/8", &p, &e), cases[i].part > 0 ? 0 : -1);
        if (cases[i].part > 0)
            assert_true((int)p.i == cases[i].part && p.n == 8);
        else
            assert_non_null(strstr(e.msg, cases[i].name));
        assert_int_equal(fy_job_part_parse("2/8", &p, NULL), 0); /* what is typed counts */
        assert_int_equal(p.i, 2);
    }
    clear();
}

static void shares_cover_the_work_evenly(void **state)
{
    (void)state;
    static const uint64_t works[] = {0, 1, 7, 1000, 40000000007, ((uint64_t)1 << 47) - 1};
    static const uint32_t ns[] = {1, 2, 7, 64, FY_PARTS_MAX};
    for (size_t w = 0; w < sizeof works / sizeof *works; w++) {
        for (size_t k = 0; k < sizeof ns / sizeof *ns; k++) {
            assert_int_equal(fy_job_part_begin(works[w], 1, ns[k]), 0);
            assert_int_equal(fy_job_part_begin(works[w], ns[k] + 1, ns[k]), works[w]);
            for (uint32_t i = 1; i <= ns[k]; i++) {
                const uint64_t a = fy_job_part_begin(works[w], i, ns[k]),
                               b = fy_job_part_begin(works[w], i + 1, ns[k]);
                assert_true(a <= b && b - a >= works[w] / ns[k] && b - a <= works[w] / ns[k] + 1);
            }
        }
    }
}

static void whole_pieces_are_dealt_evenly(void **state)
{
    (void)state;
    enum { N = 100 };
    uint64_t work[N], sums[8];
    uint32_t of[N];
    for (int i = 0; i < N; i++)
        work[i] = (uint64_t)(i * 37 % 101 + (i == 40 ? 500 : 0));
    for (uint32_t n = 1; n <= 7; n++) {
        uint64_t most = 0, all = 0;
        memset(sums, 0, sizeof sums);
        assert_int_equal(fy_job_part_deal(work, N, n, of, NULL), 0);
        for (int i = 0; i < N; i++) {
            assert_true(of[i] >= 1 && of[i] <= n);
            sums[of[i]] += work[i];
            all += work[i];
        }
        for (uint32_t i = 1; i <= n; i++)
            most = sums[i] > most ? sums[i] : most;
        assert_true(most * n <= all + all / 50);
    }
    assert_int_equal(fy_job_part_deal(work, 3, FY_PARTS_MAX, of, NULL), 0);
    assert_true(of[0] != of[1] && of[1] != of[2] && of[0] != of[2]);
    assert_int_equal(fy_job_part_deal(NULL, 0, 5, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_is_i_of_n),
        cmocka_unit_test(array_jobs_say_which),
        cmocka_unit_test(shares_cover_the_work_evenly),
        cmocka_unit_test(whole_pieces_are_dealt_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
