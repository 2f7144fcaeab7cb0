#include "convert/write/model_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void what_is_asked_becomes_a_path(void **state)
{
    (void)state;
    static const struct {
        const char *asked, *want; /* want NULL: refused */
    } cases[] = {
        {NULL, "M-Q4_0.gguf"},
        {"/tmp", "/tmp/M-Q4_0.gguf"},
        {"/tmp/", "/tmp/M-Q4_0.gguf"},
        {"/", "/M-Q4_0.gguf"},
        {"x.gguf", "x.gguf"},
        {"a-{ftype}.gguf", "a-q4_0.gguf"},
        {"a-{outtype}-{FTYPE}-{OUTTYPE}-{}", "a-q4_0-Q4_0-Q4_0-q4_0"},
        {"{ftype}/x", "{ftype}/x"}, /* a directory's name is what it is */
        {"{{ftype}}.gguf", "{ftype}.gguf"},
        {"{{{ftype}}}", "{q4_0}"},
        {"", NULL},
        {"a{b", NULL},
        {"a}b", NULL},
        {"{type}", NULL},
        {"/nonexistent/", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_err e = {0};
        fy_str got = {0};
        int rc = fy_out_name(cases[i].asked, "M-Q4_0.gguf", "q4_0", &got, &e);
        assert_int_equal(rc, cases[i].want != NULL ? 0 : -1);
        if (rc == 0)
            assert_string_equal(fy_str_z(&got), cases[i].want);
        else
            assert_true(e.msg[0] != '\0');
        fy_str_release(&got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_asked_becomes_a_path)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
