/* The memory of a session: its text, and the comparison with what is available. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/model/tiny_model.h"
#include "base/log.h"
#include "cli/engine.h"

static fy_model *model;

static int open_model(void **state)
{
    (void)state;
    char path[] = "/tmp/ferry-open-XXXXXX";
    int fd = mkstemp(path);
    fy_err e = {0};
    tiny_model t = tiny_default();
    if (fd < 0 || close(fd) != 0 || tiny_write(&t, path, &e) != 0)
        return -1;
    model = fy_model_open(path, &e);
    unlink(path);
    return model != NULL ? 0 : -1;
}

static int close_model(void **state)
{
    (void)state;
    fy_model_close(model);
    return 0;
}

static void a_plan_in_words_names_what_was_chosen(void **state)
{
    (void)state;
    char text[FY_SESSION_TEXT_BYTES];
    fy_session_plan p;
    assert_int_equal(fy_session_plan_of(
                         model, &(fy_session_params){.type_k = FY_F16, .type_v = FY_F16}, &p, NULL),
                     0);
    p.kv_bytes = (5 << 20) + 1;
    p.scratch_bytes = 3 << 20;
    assert_string_equal(fy_session_plan_text(model, &p, text),
                        "KV cache: 128 positions x 3 layers, f16/f16: 6 MB; scratch: 3 MB");
    p.params.n_seq = 8;
    assert_string_equal(
        fy_session_plan_text(model, &p, text),
        "KV cache: 8 sequences x 128 positions x 3 layers, f16/f16: 6 MB; scratch: 3 MB");
}

static void too_little_memory_is_refused_with_the_numbers_and_the_remedy(void **state)
{
    (void)state;
    fy_session_plan p;
    fy_err e = {0};
    assert_int_equal(fy_session_plan_of(model, &(fy_session_params){.n_ctx = 100}, &p, NULL), 0);
    p.kv_bytes = 70 << 20;
    p.scratch_bytes = 30 << 20;
    assert_int_equal(fy_session_plan_check(model, &p, 100 << 20, "-c", &e), 0);
    assert_int_equal(fy_session_plan_check(model, &p, 0, "-c", &e), 0); /* not known */
    assert_int_equal(fy_session_plan_check(model, &p, (100 << 20) - 1, "-c", &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    assert_string_equal(e.msg,
                        "KV cache: 100 positions x 3 layers, f32/f32: 70 MB; scratch: 30 MB, but "
                        "only 100 MB of memory are available; use a smaller -c, or an f16 cache "
                        "(-ctk f16 -ctv f16)");
    p.type_k = p.type_v = "f16";
    p.scratch_bytes = UINT64_MAX;
    e = (fy_err){0};
    assert_int_equal(fy_session_plan_check(model, &p, 1000 << 20, "-p", &e), -1);
    assert_non_null(strstr(e.msg, "use a smaller -p"));
    assert_null(strstr(e.msg, "-ctk"));
}

static void keep_words(void *user, fy_log_level level, const char *text)
{
    if (level == FY_LOG_DEBUG && strncmp(text, "KV", 2) == 0)
        strcpy(user, text);
}

static void the_plan_is_said_before_the_session_is_made(void **state)
{
    (void)state;
    char said[256] = "";
    fy_err e = {0};
    fy_log_target before = fy_log_use((fy_log_target){keep_words, said});
    fy_session *s = fy_session_open(model, &(fy_session_params){.n_ctx = 64}, "-c", &e);
    assert_non_null(s);
    fy_session_free(s);
    assert_non_null(strstr(said, "KV cache: 64 positions x 3 layers, f32/f32: 1 MB"));
    said[0] = '\0';
    assert_null(fy_session_open(model, &(fy_session_params){.n_ctx = INT32_MAX}, "-c", &e));
    fy_log_use(before);
    assert_int_equal(e.code, FY_EFIT);
    assert_non_null(strstr(said, "2147483647 positions"));
    assert_non_null(strstr(e.msg, "use a smaller -c"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_in_words_names_what_was_chosen),
        cmocka_unit_test(too_little_memory_is_refused_with_the_numbers_and_the_remedy),
        cmocka_unit_test(the_plan_is_said_before_the_session_is_made),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
