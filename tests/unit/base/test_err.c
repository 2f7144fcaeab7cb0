#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "base/err.h"

static void the_first_failure_wins(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(fy_fail(&e, FY_EFORMAT, "rank %d, at most %d", 9, 4), -1);
    assert_int_equal(fy_fail(&e, FY_EIO, "later"), -1);
    assert_int_equal(e.code, FY_EFORMAT);
    assert_string_equal(e.msg, "rank 9, at most 4");
}

static void context_is_put_before_the_message(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_fail(&e, FY_EFORMAT, "rank 9, at most 4");
    assert_int_equal(fy_ctx(&e, "tensor '%s'", "a"), -1);
    fy_ctx(&e, "m.gguf");
    assert_string_equal(e.msg, "m.gguf: tensor 'a': rank 9, at most 4");
}

static void context_without_a_failure_changes_nothing(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_ctx(&e, "m.gguf");
    assert_int_equal(e.code, FY_OK);
    assert_string_equal(e.msg, "");
}

static void a_null_error_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(fy_fail(NULL, FY_EIO, "x"), -1);
    assert_int_equal(fy_fail_errno(NULL, "x"), -1);
    assert_int_equal(fy_ctx(NULL, "x"), -1);
    assert_int_equal(fy_nomem(NULL), -1);
}

static void long_messages_and_contexts_are_cut_at_the_end(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    fy_err e = {0};
    fy_fail(&e, FY_EIO, "%s", text);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    fy_ctx(&e, "file");
    assert_memory_equal(e.msg, "file: xxx", 9);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    fy_ctx(&e, "%s", text);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
}

static void errno_gives_the_code_and_its_words(void **state)
{
    (void)state;
    static const struct {
        int err;
        fy_code code;
    } cases[] = {
        {ENOENT, FY_EIO}, {ENOMEM, FY_ENOMEM}, {ENOSPC, FY_ENOSPACE}, {EDQUOT, FY_ENOSPACE},
        {EINTR, FY_EINTR}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        char want[256];
        errno = cases[i].err;
        assert_int_equal(fy_fail_errno(&e, "cannot open %s", "f"), -1);
        assert_int_equal(e.code, cases[i].code);
        strcpy(want, "cannot open f: ");
        assert_string_equal(e.msg, strcat(want, strerror(cases[i].err)));
    }
}

static void every_code_has_its_documented_exit_status(void **state)
{
    (void)state;
    static const int status[] = {
        [FY_OK] = 0,           [FY_ENOMEM] = 1,   [FY_EIO] = 1,    [FY_EFORMAT] = 1,
        [FY_EUNSUPPORTED] = 1, [FY_EARG] = 2,     [FY_EFIT] = 3,   [FY_EVERIFY] = 4,
        [FY_EDEVICE] = 5,      [FY_ENOSPACE] = 6, [FY_EINTR] = 130};
    for (int c = FY_OK; c <= FY_EINTR; c++)
        assert_int_equal(fy_exit_status((fy_code)c), status[c]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failure_wins),
        cmocka_unit_test(context_is_put_before_the_message),
        cmocka_unit_test(context_without_a_failure_changes_nothing),
        cmocka_unit_test(a_null_error_is_allowed),
        cmocka_unit_test(long_messages_and_contexts_are_cut_at_the_end),
        cmocka_unit_test(errno_gives_the_code_and_its_words),
        cmocka_unit_test(every_code_has_its_documented_exit_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
