#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/str.h"
#include "model/golden.h"
#include "tests/unit/model/tiny_model.h"

enum { T = 12, V = 96, D = 64, L = 3, N_KV = 2, DIM = 32, N_GREEDY = 6 };

static char model_path[64], golden_path[64];
static fy_model *model;
static int32_t ids[T];
static float logits[T * V], hidden[(L + 1) * T * D], keys[L * N_KV * T * DIM],
    values[L * N_KV * T * DIM];
static int32_t greedy[N_GREEDY];

/* --- what the engine itself computes, to be written as a golden and changed ----------------- */

static int keep_logits(void *user, const float *x, uint32_t pos, uint32_t n, fy_err *e)
{
    (void)user;
    (void)e;
    memcpy(logits + pos * V, x, n * V * sizeof *x);
    return 0;
}

static int keep_hidden(void *user, uint32_t layer, const float *x, uint32_t pos, uint32_t n,
                       fy_err *e)
{
    (void)user;
    (void)e;
    memcpy(hidden + (layer * T + pos) * D, x, n * D * sizeof *x);
    return 0;
}

static int32_t argmax(const float *x)
{
    int32_t best = 0;
    for (int32_t i = 1; i < V; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static fy_session *new_session(void)
{
    fy_err e = {0};
    fy_session *s = fy_session_new(model, &(fy_session_params){.n_batch = 5, .n_threads = 2}, &e);
    assert_non_null(s);
    return s;
}

static int set_up(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    fy_err e = {0};
    snprintf(model_path, sizeof model_path, "/tmp/ferry-golden-m-XXXXXX");
    snprintf(golden_path, sizeof golden_path, "/tmp/ferry-golden-g-XXXXXX");
    int a = mkstemp(model_path), b = mkstemp(golden_path);
    if (a < 0 || b < 0 || close(a) != 0 || close(b) != 0 || tiny_write(&t, model_path, &e) != 0)
        return -1;
    model = fy_model_open(model_path, &e);
    if (model == NULL)
        return -1;
    for (int i = 0; i < T; i++)
        ids[i] = (i * 29 + 3) % V;
    fy_session *s = new_session();
    const float *last;
    if (fy_session_eval(s, ids, T, &(fy_eval_sinks){.logits = keep_logits, .hidden = keep_hidden},
                        &last, &e) != 0)
        return -1;
    for (uint32_t i = 0; i < L * N_KV; i++) {
        if (fy_session_cached(s, i / N_KV, i % N_KV, false, T, keys + i * T * DIM, &e) != 0 ||
            fy_session_cached(s, i / N_KV, i % N_KV, true, T, values + i * T * DIM, &e) != 0)
            return -1;
    }
    for (int i = 0; i < N_GREEDY; i++) {
        greedy[i] = argmax(last);
        if (fy_session_eval(s, &greedy[i], 1, NULL, &last, &e) != 0)
            return -1;
    }
    fy_session_free(s);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fy_model_close(model);
    return unlink(model_path) | unlink(golden_path);
}

/* --- writing goldens ------------------------------------------------------------------------ */

typedef struct {
    const char *name, *dtype, *shape;
    const void *data;
    size_t bytes;
} part;

static void write_golden(const part *parts, size_t n)
{
    fy_str header = {0}, file = {0};
    size_t at = 0;
    fy_err e = {0};
    fy_str_putc(&header, '{');
    for (size_t i = 0; i < n; i++) {
        fy_str_printf(&header,
                      "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                      i > 0 ? "," : "", parts[i].name, parts[i].dtype, parts[i].shape, at,
                      at + parts[i].bytes);
        at += parts[i].bytes;
    }
    fy_str_putc(&header, '}');
    uint64_t len = header.len;
    fy_str_add(&file, &len, sizeof len);
    fy_str_add(&file, header.ptr, header.len);
    for (size_t i = 0; i < n; i++)
        fy_str_add(&file, parts[i].data, parts[i].bytes);
    assert_int_equal(fy_file_write(golden_path, file.ptr, file.len, &e), 0);
    fy_str_release(&header);
    fy_str_release(&file);
}

#define PART(name, dtype, shape, x)      \
    {                                    \
        name, dtype, shape, x, sizeof(x) \
    }
#define IDS       PART("input_ids", "I32", "12", ids)
#define LOGITS(x) PART("logits", "F32", "12,96", x)
#define HIDDEN(x) PART("hidden", "F32", "4,12,64", x)
#define KEYS(x)   PART("keys", "F32", "3,2,12,32", x)
#define VALUES(x) PART("values", "F32", "3,2,12,32", x)
#define GREEDY(x) PART("greedy_ids", "I32", "6", x)

static fy_golden_report compare(const part *parts, size_t n, double tolerance)
{
    fy_err e = {0};
    write_golden(parts, n);
    fy_golden *g = fy_golden_open(golden_path, fy_model_hparams(model), &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    fy_session *s = new_session();
    fy_golden_report r;
    assert_int_equal(fy_golden_compare(g, s, tolerance, &r, &e), 0);
    fy_session_free(s);
    fy_golden_close(g);
    return r;
}

static void a_golden_of_the_engine_itself_agrees_in_everything(void **state)
{
    (void)state;
    fy_golden_report r = compare(
        (part[]){IDS, LOGITS(logits), HIDDEN(hidden), KEYS(keys), VALUES(values), GREEDY(greedy)},
        6, 0);
    assert_true(r.within);
    assert_int_equal(r.n_rows, T);
    assert_int_equal(r.n_top1, T);
    for (uint32_t i = 0; i < r.n_places; i++)
        assert_true(fy_difference_seen(&r.places[i]));
    assert_int_equal(r.n_places, 3 * L + 1);
    assert_int_equal(r.first_wrong, -1);
    assert_int_equal(r.n_equal, N_GREEDY);
    assert_true(fy_difference_max(&r.logits) == 0 && fy_difference_rms(&r.logits) == 0);
    fy_golden_report_release(&r);
}

static void a_different_logit_is_measured_against_the_largest(void **state)
{
    (void)state;
    static float changed[T * V];
    memcpy(changed, logits, sizeof changed);
    float largest = 0;
    for (int i = 0; i < T * V; i++)
        largest = fmaxf(largest, fabsf(logits[i]));
    changed[777] += 0.01f * largest;
    fy_golden_report r = compare((part[]){IDS, LOGITS(changed)}, 2, 1e-4);
    assert_false(r.within);
    assert_true(fabs(fy_difference_max(&r.logits) - 0.01) < 1e-3);
    assert_false(fy_difference_seen(&r.places[0]));
    fy_golden_report_release(&r);
    r = compare((part[]){IDS, LOGITS(changed)}, 2, 0.05);
    assert_true(r.within);
    fy_golden_report_release(&r);
}

static void the_first_layer_beyond_the_tolerance_is_found(void **state)
{
    (void)state;
    for (int64_t layer = 0; layer <= L; layer++) {
        static float changed[(L + 1) * T * D];
        memcpy(changed, hidden, sizeof changed);
        for (int64_t l = layer; l <= L; l++)
            changed[l * T * D + 5] += 1;
        fy_golden_report r = compare((part[]){IDS, HIDDEN(changed)}, 2, 1e-4);
        assert_int_equal(r.first_wrong, layer * FY_GOLDEN_PER_LAYER);
        assert_false(r.within);
        assert_int_equal(r.n_rows, 0);
        fy_golden_report_release(&r);
    }
}

static void keys_and_values_say_where_in_a_layer(void **state)
{
    (void)state;
    static float changed[L * N_KV * T * DIM], later[(L + 1) * T * D];
    memcpy(later, hidden, sizeof later);
    later[2 * T * D] += 1;
    for (size_t i = 0; i < N_KV; i++) {
        const size_t last_of_layer_1 = ((size_t)1 * N_KV + i) * T * DIM + T * DIM - 1;
        memcpy(changed, keys, sizeof changed);
        changed[last_of_layer_1] += 1;
        fy_golden_report r = compare((part[]){IDS, HIDDEN(later), KEYS(changed)}, 3, 1e-4);
        assert_int_equal(r.first_wrong, 1 * FY_GOLDEN_PER_LAYER + FY_GOLDEN_KEYS);
        fy_golden_report_release(&r);
        memcpy(changed, values, sizeof changed);
        changed[last_of_layer_1] += 1;
        r = compare((part[]){IDS, HIDDEN(later), VALUES(changed)}, 3, 1e-4);
        assert_int_equal(r.first_wrong, 1 * FY_GOLDEN_PER_LAYER + FY_GOLDEN_VALUES);
        fy_golden_report_release(&r);
    }
}

static void the_tail_of_the_logits_is_compared_with_the_last_positions(void **state)
{
    (void)state;
    part tail = {"logits_tail", "F32", "5,96", logits + (T - 5) * V, 5 * V * sizeof(float)};
    fy_golden_report r = compare((part[]){IDS, tail}, 2, 0);
    assert_true(r.within);
    assert_int_equal(r.n_rows, 5);
    fy_golden_report_release(&r);
    tail.data = logits;
    r = compare((part[]){IDS, tail}, 2, 1e-4);
    assert_false(r.within);
    fy_golden_report_release(&r);
}

static void greedy_ids_stop_at_the_first_difference(void **state)
{
    (void)state;
    int32_t changed[N_GREEDY];
    memcpy(changed, greedy, sizeof changed);
    changed[4] = (changed[4] + 1) % V;
    fy_golden_report r = compare((part[]){IDS, GREEDY(changed)}, 2, 1);
    assert_false(r.within);
    assert_int_equal(r.n_equal, 4);
    assert_int_equal(r.expected, changed[4]);
    assert_int_equal(r.found, greedy[4]);
    fy_golden_report_release(&r);
}

static void nan_is_never_within_a_tolerance(void **state)
{
    (void)state;
    static float changed[T * V];
    const float bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        memcpy(changed, logits, sizeof changed);
        changed[100] = bad[i];
        fy_golden_report r = compare((part[]){IDS, LOGITS(changed)}, 2, 1e9);
        assert_false(r.within);
        fy_golden_report_release(&r);
    }
}

static void ids_of_64_bits_are_read_as_well(void **state)
{
    (void)state;
    int64_t wide[T];
    for (int i = 0; i < T; i++)
        wide[i] = ids[i];
    fy_golden_report r =
        compare((part[]){{"input_ids", "I64", "12", wide, sizeof wide}, GREEDY(greedy)}, 2, 0);
    assert_true(r.within);
    fy_golden_report_release(&r);
}

static void goldens_that_do_not_fit_the_model_are_refused(void **state)
{
    (void)state;
    static const int32_t too_large[2] = {5, V}, negative[1] = {-1};
    const struct {
        part parts[2];
        size_t n;
        const char *word;
    } cases[] = {
        {{LOGITS(logits)}, 1, "'input_ids' is missing"},
        {{IDS}, 1, "nothing to compare"},
        {{IDS, {"logits", "F32", "96,12", logits, sizeof logits}},
         2,
         "'logits' has shape [96, 12]"},
        {{IDS, {"logits", "F32", "6,96", logits, sizeof logits / 2}},
         2,
         "'logits' has shape [6, 96]"},
        {{IDS, {"logits", "F16", "12,192", logits, sizeof logits}}, 2, "is F16, expected F32"},
        {{IDS, {"hidden", "F32", "3,12,64", hidden, sizeof hidden / 4 * 3}},
         2,
         "'hidden' has shape [3, 12, 64]"},
        {{IDS, {"keys", "F32", "3,12,2,32", keys, sizeof keys}},
         2,
         "'keys' has shape [3, 12, 2, 32]"},
        {{IDS, {"values", "F32", "2,2,12,32", values, sizeof values / 3 * 2}},
         2,
         "'values' has shape [2, 2, 12, 32]"},
        {{IDS, {"logits_tail", "F32", "13,96", logits, 13 * V * 4}},
         2,
         "'logits_tail' has shape [13, 96]"},
        {{{"input_ids", "I32", "2", too_large, 8}, GREEDY(greedy)}, 2, "holds id 96"},
        {{{"input_ids", "I32", "1", negative, 4}, GREEDY(greedy)}, 2, "holds id -1"},
        {{{"input_ids", "F32", "12", ids, sizeof ids}, GREEDY(greedy)}, 2, "expected I32 or I64"},
        {{{"input_ids", "I32", "1,12", ids, sizeof ids}, GREEDY(greedy)}, 2, "rank 2"},
    };
    static float room[13 * V];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        part parts[2] = {cases[i].parts[0], cases[i].parts[1]};
        if (parts[1].bytes > sizeof logits && parts[1].data == logits)
            parts[1].data = room;
        write_golden(parts, cases[i].n);
        assert_null(fy_golden_open(golden_path, fy_model_hparams(model), &e));
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, cases[i].word) == NULL || strstr(e.msg, golden_path) == NULL)
            fail_msg("'%s' is not in: %s", cases[i].word, e.msg);
    }
}

static void what_is_saved_is_what_the_session_computes(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_golden_report r;
    fy_session *s = new_session();
    assert_int_equal(fy_golden_save(golden_path, model, s, ids, T, &e), 0);
    fy_golden *g = fy_golden_open(golden_path, fy_model_hparams(model), &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    assert_int_equal(fy_golden_n_tokens(g), T);
    assert_int_equal(fy_golden_compare(g, s, 0, &r, &e), 0);
    assert_true(r.within && r.n_rows == T);
    assert_true(fy_difference_seen(&r.logits));
    for (uint32_t i = 0; i < r.n_places; i++)
        assert_true(fy_difference_seen(&r.places[i]));
    fy_golden_report_release(&r);
    fy_golden_close(g);
    assert_int_equal(fy_golden_save("/nowhere/golden", model, s, ids, T, &e), -1);
    assert_int_equal(e.code, FY_EIO);
    fy_session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_golden_of_the_engine_itself_agrees_in_everything),
        cmocka_unit_test(a_different_logit_is_measured_against_the_largest),
        cmocka_unit_test(the_first_layer_beyond_the_tolerance_is_found),
        cmocka_unit_test(keys_and_values_say_where_in_a_layer),
        cmocka_unit_test(the_tail_of_the_logits_is_compared_with_the_last_positions),
        cmocka_unit_test(greedy_ids_stop_at_the_first_difference),
        cmocka_unit_test(nan_is_never_within_a_tolerance),
        cmocka_unit_test(ids_of_64_bits_are_read_as_well),
        cmocka_unit_test(goldens_that_do_not_fit_the_model_are_refused),
        cmocka_unit_test(what_is_saved_is_what_the_session_computes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
