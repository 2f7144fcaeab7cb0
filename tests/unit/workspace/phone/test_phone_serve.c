/* What a phone says of the server that runs there: taken within limits, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "workspace/phone/phone_serve.h"

static fy_phone_serving parsed(const char *text)
{
    fy_phone_serving s;
    fy_phone_serving_parse(fy_span_of(text), &s);
    return s;
}

static void a_line_with_the_address_has_the_port(void **state)
{
    static const struct {
        const char *line;
        uint16_t port;
    } cases[] = {
        {"listening on http://127.0.0.1:43215", 43215},
        {"listening on http://127.0.0.1:65535", 65535},
        {"listening on http://127.0.0.1:65536", 0},
        {"listening on http://127.0.0.1:0", 0},
        {"listening on http://127.0.0.1:", 0},
        {"listening on http://127.0.0.1:80 ", 0},
        {"listening on http://127.0.0.1:-1", 0},
        {"listening on http://0.0.0.0:80", 0},
        {" listening on http://127.0.0.1:80", 0},
        {"listening on http://127.0.0.1:99999999999999999999", 0},
        {"", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(fy_phone_serve_port(fy_span_of(cases[i].line)), cases[i].port);
}

static void the_state_of_a_server_is_read(void **state)
{
    fy_phone_serving s =
        parsed("alive\n4711 998877 0123456789abcdef detached\nstay 0\nport 40123\n");
    (void)state;
    assert_true(s.known && s.alive && s.detached);
    assert_int_equal(s.pid, 4711);
    assert_string_equal(s.start, "998877");
    assert_string_equal(s.digest, "0123456789abcdef");
    assert_int_equal(s.port, 40123);
    assert_int_equal(s.ended, -1);
    s = parsed("dead\n4711 998877 0123456789abcdef attached\nexit 137");
    assert_true(s.known && !s.alive && !s.detached);
    assert_int_equal(s.ended, 137);
}

static void what_is_not_a_state_is_no_server(void **state)
{
    static const char *const texts[] = {"",
                                        "dead\n",
                                        "alive\n",
                                        "alive\n\n",
                                        "alive\n1 2 3 detached",
                                        "alive\n-5 2 3 detached",
                                        "alive\n99999999999 2 3 detached",
                                        "alive\n12x 2 3 detached",
                                        "alive\n12",
                                        "alive\n12 34",
                                        "alive\n12 123456789012345678901234567890 d detached",
                                        "alive\n12 34 123456789012345678901234567890 detached"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const fy_phone_serving s = parsed(texts[i]);
        assert_true(!s.known && !s.alive && s.pid == 0 && s.port == 0);
    }
    const fy_phone_serving s =
        parsed("alive\n12 34 5 detached\nport 70000\nexit 256\nport\nexit x\n");
    assert_true(s.known && s.port == 0 && s.ended == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_with_the_address_has_the_port),
        cmocka_unit_test(the_state_of_a_server_is_read),
        cmocka_unit_test(what_is_not_a_state_is_no_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
