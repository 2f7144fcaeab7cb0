#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bundle/public_key.h"

/* RFC 8410, section 10.1. */
static const char pem[] = "-----BEGIN PUBLIC KEY-----\n"
                          "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
                          "-----END PUBLIC KEY-----\n";

static void the_text_of_a_key_comes_back(void **state)
{
    (void)state;
    uint8_t key[FY_PUBLIC_KEY_BYTES];
    char text[FY_PUBLIC_KEY_TEXT_BYTES + 1];
    assert_int_equal(strlen(pem), FY_PUBLIC_KEY_TEXT_BYTES);
    assert_int_equal(fy_public_key_parse((fy_span){pem, strlen(pem)}, key, NULL), 0);
    assert_int_equal(key[0], 0x19);
    assert_int_equal(key[31], 0xe1);
    fy_public_key_text(key, text);
    assert_string_equal(text, pem);
    for (int i = 0; i < 256; i++) {
        memset(key, i, sizeof key);
        key[i % 32] ^= 0x5a;
        uint8_t back[FY_PUBLIC_KEY_BYTES];
        fy_public_key_text(key, text);
        assert_int_equal(fy_public_key_parse((fy_span){text, FY_PUBLIC_KEY_TEXT_BYTES}, back, NULL),
                         0);
        assert_memory_equal(key, back, sizeof key);
    }
}

static void any_changed_bit_is_no_key_or_another_one(void **state)
{
    (void)state;
    uint8_t key[FY_PUBLIC_KEY_BYTES], other[FY_PUBLIC_KEY_BYTES];
    assert_int_equal(fy_public_key_parse((fy_span){pem, strlen(pem)}, key, NULL), 0);
    for (size_t bit = 0; bit < 8 * strlen(pem); bit++) {
        char text[sizeof pem];
        memcpy(text, pem, sizeof pem);
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        if (fy_public_key_parse((fy_span){text, strlen(pem)}, other, NULL) == 0)
            assert_memory_not_equal(key, other, sizeof key);
    }
    for (size_t n = 0; n < strlen(pem); n++)
        assert_int_equal(fy_public_key_parse((fy_span){pem, n}, other, NULL), -1);
    assert_int_equal(fy_public_key_parse((fy_span){pem, sizeof pem}, other, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_of_a_key_comes_back),
        cmocka_unit_test(any_changed_bit_is_no_key_or_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
