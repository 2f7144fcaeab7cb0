/* ferry.h: text out of tokens, and stop strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "tests/unit/api/api_model.h"

/* ", there was a little farmer's" of the tales model. */
static const int32_t tale[] = {11, 331, 278, 258, 739, 500, 499};
enum { N_TALE = 7 };

static void add_all(ferry_text *t, int32_t *stop, char *out)
{
    const char *shown;
    size_t n;
    *out = '\0';
    *stop = -1;
    for (int i = 0; i < N_TALE && *stop < 0; i++) {
        assert_ok(ferry_text_add(t, tale[i], &shown, &n, stop, &error));
        assert_int_equal(strlen(shown), n);
        strcat(out, shown);
    }
    assert_ok(ferry_text_end(t, &shown, &n, &error));
    strcat(out, shown);
}

static void a_text_ends_before_its_first_stop_string(void **state)
{
    (void)state;
    ferry_model *m = api_open();
    const char *stops[] = {"nowhere", " a lit", "farmer"};
    ferry_text *t;
    int32_t stop;
    char out[200];
    assert_ok(ferry_text_new(m, FERRY_TEXT_CONTINUES, stops, 3, &t, &error));
    ferry_model_free(m);                      /* the text keeps what it needs */
    for (int round = 0; round < 2; round++) { /* and starts over after its end */
        add_all(t, &stop, out);
        assert_string_equal(out, ", there was");
        assert_int_equal(stop, 1);
    }
    ferry_text_free(t);
}

static void a_text_without_stop_strings_is_whole(void **state)
{
    (void)state;
    ferry_model *m = api_open();
    ferry_text *t;
    int32_t stop;
    char out[200];
    assert_ok(ferry_text_new(m, 0, NULL, 0, &t, &error));
    add_all(t, &stop, out);
    assert_string_equal(out, ", there was a little farmer's");
    assert_int_equal(stop, -1);
    ferry_text_free(t);
    ferry_model_free(m);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    ferry_model *m = api_open();
    const char *stops[17] = {"a", NULL}, *shown;
    ferry_text *t;
    size_t n;
    assert_fails(FERRY_EUSAGE, "model", ferry_text_new(NULL, 0, NULL, 0, &t, &error));
    assert_fails(FERRY_EUSAGE, "text", ferry_text_new(m, 0, NULL, 0, NULL, &error));
    assert_fails(FERRY_EUSAGE, "stops", ferry_text_new(m, 0, NULL, 1, &t, &error));
    assert_fails(FERRY_EUSAGE, "stops", ferry_text_new(m, 0, stops, 2, &t, &error));
    assert_fails(FERRY_EUSAGE, "0x2", ferry_text_new(m, 2, NULL, 0, &t, &error));
    for (int i = 0; i < 17; i++)
        stops[i] = "a";
    assert_fails(FERRY_EUSAGE, "17 stop strings", ferry_text_new(m, 0, stops, 17, &t, &error));
    stops[1] = "";
    assert_fails(FERRY_EUSAGE, "2 is empty", ferry_text_new(m, 0, stops, 2, &t, &error));
    assert_null(t);
    assert_ok(ferry_text_new(m, 0, NULL, 0, &t, &error));
    assert_fails(FERRY_EUSAGE, "768", ferry_text_add(t, 768, &shown, &n, NULL, &error));
    assert_fails(FERRY_EUSAGE, "-1", ferry_text_add(t, -1, &shown, &n, NULL, &error));
    assert_fails(FERRY_EUSAGE, "shown", ferry_text_add(t, 1, NULL, &n, NULL, &error));
    assert_fails(FERRY_EUSAGE, "n_bytes", ferry_text_end(t, &shown, NULL, &error));
    assert_fails(FERRY_EUSAGE, "text", ferry_text_end(NULL, &shown, &n, &error));
    ferry_text_free(t);
    ferry_text_free(NULL);
    ferry_model_free(m);
}

static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    ferry_model *m = api_open();
    api_vocab(m);
    const char *stops[] = {"farmer"}, *shown;
    bool failed = true;
    for (long n = 0; failed; n++) {
        ferry_text *t;
        size_t n_bytes;
        ferry_error error;
        alloc_fail_after(n);
        ferry_status status = ferry_text_new(m, 0, stops, 1, &t, &error);
        if (status == FERRY_OK)
            status = ferry_text_add(t, tale[1], &shown, &n_bytes, NULL, &error);
        failed = alloc_fail_end();
        assert_true(failed == (status != FERRY_OK));
        ferry_text_free(t);
    }
    ferry_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_ends_before_its_first_stop_string),
        cmocka_unit_test(a_text_without_stop_strings_is_whole),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, api_make_model, api_remove_model);
}
