#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bundle/seal.h"
#ifndef FERRY_DEVICE
#include <openssl/evp.h>
#endif

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

/* --- signatures ------------------------------------------------------------------------------- */

static void bytes_of(const char *hex, uint8_t *out)
{
    for (size_t i = 0; hex[2 * i] != '\0'; i++)
        out[i] = (uint8_t)(fy_hex_digit(hex[2 * i]) << 4 | fy_hex_digit(hex[2 * i + 1]));
}

/* RFC 8032, section 7.1: tests 1, 2 and 3. */
static const struct {
    const char *key, *text, *sig;
} vectors[] = {
    {"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b"
     "4"
     "6bd25bf5f0595bbe24655141438e7a100b"},
    {"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11"
     "d"
     "8c387b2eaeb4302aeeb00d291612bb0c00"},
    {"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc"
     "6"
     "594a7c15e9716ed28dc027beceea1ec40a"},
};

static bool fits(const uint8_t key[32], const void *text, size_t n, const uint8_t sig[64])
{
    bool yes = true;
    assert_int_equal(fy_public_key_verify(key, (fy_span){text, n}, sig, &yes, NULL), 0);
    return yes;
}

static void the_vectors_of_the_rfc_fit_and_no_changed_bit_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint8_t key[32], sig[64], text[4] = {0};
        size_t n = strlen(vectors[i].text) / 2;
        bytes_of(vectors[i].key, key);
        bytes_of(vectors[i].sig, sig);
        bytes_of(vectors[i].text, text);
        assert_true(fits(key, text, n, sig));
        for (size_t bit = 0; bit < 512; bit += 1 + 9 * (i > 0)) {
            sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(fits(key, text, n, sig));
            sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        for (size_t bit = 0; bit < 256; bit += 7) {
            key[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(fits(key, text, n, sig));
            key[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        text[0] ^= 1;
        assert_int_equal(fits(key, text, n, sig), n == 0);
        text[0] ^= 1;
        assert_false(fits(key, text, n + 1, sig));
    }
}

/* S + L gives the same point: without the check of the range there would be two signatures. */
static void a_scalar_beyond_the_order_is_refused(void **state)
{
    (void)state;
    static const uint8_t order[32] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58,       0xd6,
                                      0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, [31] = 0x10};
    uint8_t key[32], sig[64];
    bytes_of(vectors[0].key, key);
    bytes_of(vectors[0].sig, sig);
    unsigned carry = 0;
    for (int i = 0; i < 32; i++) {
        carry += (unsigned)sig[32 + i] + order[i];
        sig[32 + i] = (uint8_t)carry;
        carry >>= 8;
    }
    assert_false(fits(key, "", 0, sig));
    memcpy(sig + 32, order, 32);
    assert_false(fits(key, "", 0, sig));
}

/* Keys of small order, to which (R, S) with R = [S]B fits for every text that hashes suitably: with
 * the neutral element as the key, for every text. OpenSSL alone accepts the first three. And points
 * with a second encoding (y at least p), as keys and as R. */
static void weak_keys_and_points_are_refused_on_every_build(void **state)
{
    (void)state;
    static const char *const weak[] = {
        "0100000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    };
    uint8_t key[32], sig[64] = {0}, good[32];
    bytes_of(vectors[0].key, good);
    for (size_t i = 0; i < sizeof weak / sizeof weak[0]; i++) {
        bytes_of(weak[i], key);
        for (int text = 0; text < 16; text++) { /* a key of order n fits one text in n */
            memset(sig, 0, sizeof sig);
            sig[0] = 1; /* R is the neutral element, S is 0 */
            assert_false(fits(key, &text, 1, sig));
            /* R = B, S = 1 */
            memset(sig, 0x66, 32);
            sig[0] = 0x58;
            sig[32] = 1;
            assert_false(fits(key, &text, 1, sig));
        }
        memset(sig, 0, sizeof sig);
        memcpy(sig, key, 32);
        assert_false(fits(good, "", 0, sig));
    }
}

#ifndef FERRY_DEVICE
/* Texts of many lengths. */
static void what_openssl_signs_fits(void **state)
{
    (void)state;
    static uint8_t text[700];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * 37 + i / 256);
    for (size_t i = 0; i < 120; i++) {
        uint8_t key[32], sig[64];
        size_t n_key = 32, n_sig = 64, n = i < 100 ? i * 3 : 100 + i * 5;
        EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();
        assert_int_equal(EVP_PKEY_get_raw_public_key(pkey, key, &n_key), 1);
        assert_int_equal(EVP_DigestSignInit(ctx, NULL, NULL, NULL, pkey), 1);
        assert_int_equal(EVP_DigestSign(ctx, sig, &n_sig, text, n), 1);
        assert_true(fits(key, text, n, sig));
        assert_false(fits(key, text, n + 1, sig));
        sig[i % 64] ^= (uint8_t)(1 << i % 8);
        assert_false(fits(key, text, n, sig));
        EVP_MD_CTX_free(ctx);
        EVP_PKEY_free(pkey);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_of_a_key_comes_back),
        cmocka_unit_test(any_changed_bit_is_no_key_or_another_one),
        cmocka_unit_test(the_vectors_of_the_rfc_fit_and_no_changed_bit_does),
        cmocka_unit_test(a_scalar_beyond_the_order_is_refused),
        cmocka_unit_test(weak_keys_and_points_are_refused_on_every_build),
#ifndef FERRY_DEVICE
        cmocka_unit_test(what_openssl_signs_fits),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
