#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

/* Our own implementation under other names, beside the one that this build links: the device
 * build's code is tested on the host too. */
#define fy_sha256 own_sha256
#define fy_sha256_new own_sha256_new
#define fy_sha256_add own_sha256_add
#define fy_sha256_end own_sha256_end
#define fy_hash_library own_hash_library
typedef struct fy_sha256 fy_sha256;
fy_sha256 *fy_sha256_new(fy_err *e);
int fy_sha256_add(fy_sha256 *h, const void *p, size_t n, fy_err *e);
int fy_sha256_end(fy_sha256 *h, uint8_t out[FY_SHA256_BYTES], fy_err *e);
const char *fy_hash_library(void);
#include "base/hash_own.c"
#undef fy_sha256
#undef fy_sha256_new
#undef fy_sha256_add
#undef fy_sha256_end
#undef fy_hash_library

static void hash_hex(const void *p, size_t n, char hex[FY_SHA256_HEX])
{
    uint8_t out[FY_SHA256_BYTES];
    fy_err e = {0};
    assert_int_equal(fy_sha256_of(p, n, out, &e), 0);
    fy_sha256_to_hex(out, hex);
}

/* compress NULL: the one chosen for this CPU. */
static void own_hex(const void *p, size_t n, size_t piece, compress_fn *compress,
                    char hex[FY_SHA256_HEX])
{
    uint8_t out[FY_SHA256_BYTES];
    own_sha256 *h = own_sha256_new(NULL);
    assert_non_null(h);
    if (compress != NULL)
        h->compress = compress;
    for (size_t at = 0; at < n; at += piece)
        own_sha256_add(h, (const char *)p + at, n - at < piece ? n - at : piece, NULL);
    own_sha256_end(h, out, NULL);
    fy_sha256_to_hex(out, hex);
}

/* FIPS 180-4 examples (NIST CSRC, "SHA256.pdf"). */
static const struct {
    const char *text, *hex;
} vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnop"
     "qrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

static void published_vectors_are_met(void **state)
{
    (void)state;
    char hex[FY_SHA256_HEX];
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        size_t n = strlen(vectors[i].text);
        hash_hex(vectors[i].text, n, hex);
        assert_string_equal(hex, vectors[i].hex);
        own_hex(vectors[i].text, n, 64, NULL, hex);
        assert_string_equal(hex, vectors[i].hex);
        own_hex(vectors[i].text, n, 64, compress_portable, hex);
        assert_string_equal(hex, vectors[i].hex);
    }
}

static void a_million_letters_are_hashed_in_pieces_of_any_size(void **state)
{
    (void)state;
    enum { N = 1000000 };
    static const char want[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    char *text = malloc(N), hex[FY_SHA256_HEX];
    memset(text, 'a', N);
    hash_hex(text, N, hex);
    assert_string_equal(hex, want);
    static const size_t pieces[] = {N, 1, 63, 64, 65, 1000};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        own_hex(text, N, pieces[i], NULL, hex);
        assert_string_equal(hex, want);
    }
    free(text);
}

static void both_implementations_agree_on_every_length_around_a_block(void **state)
{
    (void)state;
    uint8_t text[300];
    char a[FY_SHA256_HEX], b[FY_SHA256_HEX];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * 167 + 13);
    for (size_t n = 0; n <= sizeof text; n++) {
        hash_hex(text, n, a);
        own_hex(text, n, 7, NULL, b);
        assert_string_equal(a, b);
        own_hex(text, n, 300, compress_portable, b);
        assert_string_equal(a, b);
    }
}

static void a_hash_may_be_given_up(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_sha256 *h = fy_sha256_new(&e);
    assert_int_equal(fy_sha256_add(h, "abc", 3, &e), 0);
    assert_int_equal(fy_sha256_add(h, NULL, 0, &e), 0);
    assert_int_equal(fy_sha256_end(h, NULL, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_are_met),
        cmocka_unit_test(a_million_letters_are_hashed_in_pieces_of_any_size),
        cmocka_unit_test(both_implementations_agree_on_every_length_around_a_block),
        cmocka_unit_test(a_hash_may_be_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
