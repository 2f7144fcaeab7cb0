#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "quantize/quant_report.h"

enum { N_TENSORS = 7, ROWS = 64 };

static fy_gguf_tensor from[N_TENSORS], to[N_TENSORS];

static const char *const names[N_TENSORS] = {
    "token_embd.weight", "output_norm.weight",    "blk.10.attn_q.weight", "blk.2.attn_q.weight",
    "blk.x.weight",      "blk.2.ffn_up.weight\n", "blk.2.ffn_down.weight"};

static fy_quant_report *make(void)
{
    fy_err e = {0};
    fy_quant_report *r = fy_quant_report_new(N_TENSORS, &e);
    for (size_t i = 0; i < N_TENSORS; i++) {
        from[i] = (fy_gguf_tensor){.name = fy_span_of(names[i]),
                                   .type = FY_F16,
                                   .n_dims = 2,
                                   .ne = {32, ROWS, 1, 1},
                                   .bytes = 64 * ROWS};
        to[i] = from[i];
        to[i].type = i == 1 ? FY_F16 : i == 6 ? FY_Q6_K : FY_Q4_0;
        to[i].bytes = 1000000 * (i + 1);
        if (r != NULL)
            r->tensors[i] = (fy_quant_tensor){.from = &from[i], .to = &to[i]};
    }
    return r;
}

/* Tensor i has an error of about i percent; pieces are alike in nothing. */
static fy_error_sums piece(size_t i, uint64_t row)
{
    const double share = 0.01 * (double)(i + 1), xx = 1.0 / (double)(3 + row);
    return (fy_error_sums){.n = 32,
                           .n_outside = (int64_t)(row % 3 == 0),
                           .xx = xx,
                           .yy = xx * 1.01,
                           .xy = xx,
                           .ee = xx * share * share,
                           .max_x = 1,
                           .max_e = (float)row * 0.001f};
}

static void fill(fy_quant_report *r, size_t step)
{
    fy_err e = {0};
    for (size_t at = 0; at < N_TENSORS * ROWS; at++) {
        const size_t k = at * step % (N_TENSORS * ROWS), i = k / ROWS;
        const fy_error_sums s = piece(i, k % ROWS);
        if (i != 1)
            assert_int_equal(fy_quant_report_add(r, i, k % ROWS, &s, &e), 0);
    }
    fy_quant_report_end(r);
}

static void the_order_of_arrival_changes_no_bit(void **state)
{
    (void)state;
    fy_str first = {0}, second = {0};
    fy_err e = {0};
    for (int turn = 0; turn < 2; turn++) {
        fy_quant_report *r = make();
        fill(r, turn == 0 ? 1 : 173);
        assert_int_equal(
            fy_quant_put_json(r, "in", "out", FY_Q4_0, turn == 0 ? &first : &second, &e), 0);
        fy_error_sums want = {0};
        for (uint64_t row = 0; row < ROWS; row++) {
            const fy_error_sums s = piece(3, row);
            fy_error_sums_join(&want, &s);
        }
        assert_memory_equal(&r->tensors[3].sums, &want, sizeof want);
        assert_int_equal(r->total.n, 6 * ROWS * 32);
        assert_true(fy_quant_report_covered(r) == 1);
        fy_quant_report_free(r);
    }
    assert_string_equal(fy_str_z(&first), fy_str_z(&second));
    assert_non_null(strstr(fy_str_z(&first), "\"name\": \"blk.2.ffn_up.weight\\n\""));
    assert_null(strstr(fy_str_z(&first), "output_norm"));
    assert_non_null(strstr(fy_str_z(&first), "\"kept\": 1"));
    fy_str_release(&first);
    fy_str_release(&second);
}

static void numbers_follow_from_the_sums(void **state)
{
    (void)state;
    const fy_error_sums s = {
        .n = 4, .n_outside = 1, .xx = 100, .yy = 81, .xy = 45, .ee = 1, .max_x = 9, .max_e = 0.75f};
    const fy_quant_numbers v = fy_quant_numbers_of(&s);
    assert_true(v.rmse == 0.5 && v.relative == 0.1 && v.max_error == 0.75 && v.cosine == 0.5);
    assert_true(fabs(v.sqnr_db - 20) < 1e-12 && v.saturated == 0.25);
}

static void what_is_not_defined_is_null(void **state)
{
    (void)state;
    const fy_error_sums none = {0}, zeros = {.n = 8}, exact = {.n = 8, .xx = 1, .yy = 1, .xy = 1},
                        lost = {.n = 8, .xx = 1, .ee = 1};
    fy_quant_numbers v = fy_quant_numbers_of(&none);
    assert_true(isnan(v.rmse) && isnan(v.saturated) && isnan(v.max_error) && isnan(v.cosine));
    v = fy_quant_numbers_of(&zeros);
    assert_true(v.rmse == 0 && v.saturated == 0 && isnan(v.relative) && isnan(v.cosine) &&
                isnan(v.sqnr_db));
    v = fy_quant_numbers_of(&exact);
    assert_true(v.rmse == 0 && v.relative == 0 && v.cosine == 1 && isnan(v.sqnr_db));
    v = fy_quant_numbers_of(&lost); /* all became zero */
    assert_true(v.relative == 1 && isnan(v.cosine) && v.sqnr_db == 0);

    fy_err e = {0};
    fy_str text = {0};
    fy_quant_report *r = make();
    assert_int_equal(fy_quant_report_add(r, 0, 0, &zeros, &e), 0);
    fy_quant_report_end(r);
    assert_int_equal(fy_quant_put_json(r, "\xff", "out", FY_Q4_0, &text, &e), 0);
    assert_non_null(strstr(fy_str_z(&text), "\"sqnr_db\": null"));
    assert_non_null(strstr(fy_str_z(&text), "\"in\": \"\\\\xff\""));
    fy_quant_put_table(r, 80, &text);
    assert_non_null(strstr(fy_str_z(&text), "exact"));
    fy_str_release(&text);
    fy_quant_report_free(r);
}

static void the_worst_come_first_and_equals_in_their_order(void **state)
{
    (void)state;
    static const double errors[N_TENSORS] = {3, 0, 5, 1, 5, 2, 0};
    fy_quant_report *r = make();
    fy_err e = {0};
    for (size_t i = 0; i < N_TENSORS; i++) {
        const fy_error_sums s = {.n = 1, .xx = 100, .yy = 100, .xy = 100, .ee = errors[i]};
        if (i != 1)
            assert_int_equal(fy_quant_report_add(r, i, 0, &s, &e), 0);
    }
    fy_quant_report_end(r);
    static const size_t want[] = {2, 4, 0, 5, 3};
    for (size_t n = 0; n <= 6; n++) {
        const fy_quant_tensor *worst[6];
        const size_t found = fy_quant_report_worst(r, worst, n);
        assert_int_equal(found, n < 5 ? n : 5);
        for (size_t i = 0; i < found; i++)
            assert_ptr_equal(worst[i], &r->tensors[want[i]]);
    }
    fy_quant_report_free(r);
}

static void a_layer_is_a_line_and_the_bar_is_its_error(void **state)
{
    (void)state;
    fy_quant_report *r = make();
    fy_str text = {0};
    fill(r, 1);
    fy_quant_put_table(r, 80, &text);
    assert_string_equal(
        fy_str_z(&text),
        "                      size  type          error      SQNR  saturated\n"
        "  token_embd        1.0 MB  q4_0         1.00 %   40.0 dB    1.074 %  ##.......\n"
        "  blk.x             5.0 MB  q4_0         5.00 %   26.0 dB    1.074 %  ########.\n"
        "  blk.2            17.0 MB  q4_0 q6_K    5.80 %   24.7 dB    1.074 %  #########\n"
        "  blk.10            3.0 MB  q4_0         3.00 %   30.5 dB    1.074 %  #####....\n"
        "  whole model      26.0 MB  q4_0 q6_K    4.76 %   26.4 dB    1.074 %  ########.\n"
        "  worst: blk.2.ffn_down.weight (q6_K) 23.1 dB\n"
        "         blk.2.ffn_up.weight\\n (q4_0) 24.4 dB\n"
        "         blk.x.weight (q4_0) 26.0 dB\n");
    fy_str_clear(&text);
    fy_quant_put_table(r, 40, &text); /* no room for bars */
    assert_null(strchr(fy_str_z(&text), '#'));
    fy_str_clear(&text);
    fy_quant_put_summary(r, &text);
    assert_string_equal(fy_str_z(&text),
                        "quality: SQNR 26.45 dB, error 4.761 %, cosine 0.995037, saturated 1.074 "
                        "%; worst: blk.2.ffn_down.weight (q6_K) 23.10 dB");
    fy_str_release(&text);
    fy_quant_report_free(r);
}

static void what_an_earlier_run_wrote_is_said_to_be_missing(void **state)
{
    (void)state;
    fy_quant_report *r = make();
    fy_str text = {0};
    fy_err e = {0};
    for (uint64_t row = 48; row < ROWS; row++) { /* the last quarter of the last tensor */
        fy_error_sums s = piece(6, row);
        assert_int_equal(fy_quant_report_add(r, 6, row, &s, &e), 0);
    }
    fy_quant_report_end(r);
    assert_true(fabs(fy_quant_report_covered(r) - 0.25 / 6) < 1e-12);
    fy_quant_put_summary(r, &text);
    fy_quant_put_table(r, 80, &text);
    assert_non_null(strstr(fy_str_z(&text), "measured on 4.2 % of the values: an interrupted run"));
    fy_str_clear(&text);
    assert_int_equal(fy_quant_put_json(r, "in", "out", FY_Q4_0, &text, &e), 0);
    assert_non_null(strstr(fy_str_z(&text), "\"covered\": 0.0416666666666667"));
    fy_str_release(&text);
    fy_quant_report_free(r);
}

static void without_memory_it_fails_and_leaks_nothing(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        fy_str text = {0};
        const fy_error_sums s = piece(0, 0);
        alloc_fail_after(n);
        fy_quant_report *r = make();
        int rc = r != NULL ? fy_quant_report_add(r, 0, 0, &s, &e) : -1;
        if (rc == 0) {
            fy_quant_report_end(r);
            fy_quant_put_table(r, 80, &text);
            rc = text.oom ? -1 : fy_quant_put_json(r, "in", "out", FY_Q4_0, &text, &e);
        }
        failed = alloc_fail_end();
        assert_true(failed || rc == 0);
        fy_str_release(&text);
        fy_quant_report_free(r);
    }
}

static void widening_loses_nothing(void **state)
{
    (void)state;
    assert_false(fy_quant_is_lossy(FY_F16, FY_F32));
    assert_false(fy_quant_is_lossy(FY_Q4_0, FY_F32));
    assert_false(fy_quant_is_lossy(FY_Q8_0, FY_Q8_0));
    assert_true(fy_quant_is_lossy(FY_F32, FY_F16));
    assert_true(fy_quant_is_lossy(FY_BF16, FY_F16));
    assert_true(fy_quant_is_lossy(FY_Q8_0, FY_Q4_0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_arrival_changes_no_bit),
        cmocka_unit_test(numbers_follow_from_the_sums),
        cmocka_unit_test(what_is_not_defined_is_null),
        cmocka_unit_test(the_worst_come_first_and_equals_in_their_order),
        cmocka_unit_test(a_layer_is_a_line_and_the_bar_is_its_error),
        cmocka_unit_test(what_an_earlier_run_wrote_is_said_to_be_missing),
        cmocka_unit_test(without_memory_it_fails_and_leaks_nothing),
        cmocka_unit_test(widening_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
