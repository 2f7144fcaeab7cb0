#include "convert/write/convert_identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/convert/checkpoint.h"

static const made_tensor tensors[] = {{"b", 40, 8}, {"a", 8, 0}, {"c", 3, 3}};

static void hash_of(char out[FY_SHA256_HEX])
{
    fy_err e = {0};
    fy_ckpt *c = fy_ckpt_open(made_dir, &e);
    if (c == NULL || fy_source_hash(made_dir, c, out, &e) != 0)
        fail_msg("%s", e.msg);
    fy_ckpt_close(c);
}

static void it_is_what_the_header_says(void **state)
{
    (void)state;
    fy_str text = {0};
    char want[FY_SHA256_HEX], got[FY_SHA256_HEX];
    uint8_t digest[FY_SHA256_BYTES];
    float v;
    put_text("config.json", "{}");
    put_safetensors("model.safetensors", tensors, 3);
    hash_of(got);
    fy_str_puts(&text, "ferry source 1\nfile config.json 2\n{}tensor a F32 [8]\n");
    for (int i = 0; i < 8; i++) { /* all 32 bytes; element k of tensor i is 1000 i + k */
        v = 1000 + (float)i;
        fy_str_add(&text, &v, 4);
    }
    fy_str_puts(&text, "tensor b F32 [40, 8]\n");
    for (int i = 0; i < 16; i++) { /* 64 bytes from (1280 - 64) / 2 on */
        v = 152 + (float)i;
        fy_str_add(&text, &v, 4);
    }
    fy_str_puts(&text, "tensor c F32 [3, 3]\n");
    for (int i = 0; i < 9; i++) {
        v = 2000 + (float)i;
        fy_str_add(&text, &v, 4);
    }
    assert_int_equal(fy_sha256_of(text.ptr, text.len, digest, NULL), 0);
    fy_sha256_to_hex(digest, want);
    assert_string_equal(got, want);
    fy_str_release(&text);
}

static void it_changes_with_the_source(void **state)
{
    (void)state;
    char first[FY_SHA256_HEX], other[FY_SHA256_HEX];
    made_tensor t[3];
    put_text("config.json", "{}");
    put_safetensors("model.safetensors", tensors, 3);
    hash_of(first);
    put_text("config.json", "[]");
    hash_of(other);
    assert_string_not_equal(first, other);
    put_text("config.json", "{}");
    hash_of(other);
    assert_string_equal(first, other);
    memcpy(t, tensors, sizeof t);
    t[2].name = "d";
    put_safetensors("model.safetensors", t, 3);
    hash_of(other);
    assert_string_not_equal(first, other);
    t[2] = tensors[0]; /* the same tensors with other values */
    t[0] = tensors[2];
    put_safetensors("model.safetensors", t, 3);
    hash_of(other);
    assert_string_not_equal(first, other);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, checkpoint_setup, checkpoint_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(it_is_what_the_header_says),
                                       TEST(it_changes_with_the_source)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
