/* Pieces of JSON that answers share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/reply_text.h"

static void bytes_become_base64(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        /* RFC 4648, section 10 */
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xff\xfe\xfd", "//79"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_str out = {0};
        fy_put_base64(&out, fy_span_of(cases[i][0]));
        assert_string_equal(fy_str_z(&out), cases[i][1]);
        fy_str_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_become_base64)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
