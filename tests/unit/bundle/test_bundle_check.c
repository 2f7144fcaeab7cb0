#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "bundle/bundle_check.h"
#include "tests/unit/workspace/ws_fixture.h"
#include "workspace/pack/sign.h"

/* Weights of more than one block. */
static int set_up(void **state)
{
    if (tmp_make(state) != 0)
        return -1;
    ws_make("ws", &(tiny_model){.name = "tiny", .n_vocab = 80000});
    return 0;
}

static void fails(fy_code code, const char *says)
{
    for (int n_threads = 1; n_threads <= 5; n_threads += 2) {
        fy_err e = {0};
        fy_bundle_checked found = {0};
        assert_int_equal(fy_bundle_check(at("ws"), n_threads, NULL, &found, &e), -1);
        assert_int_equal(e.code, code);
        assert_says(&e, says);
    }
}

static void every_byte_is_read_once_on_any_number_of_threads(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 8; n_threads++) {
        fy_err e = {0};
        fy_bundle_checked found;
        fy_progress p = {0};
        if (fy_bundle_check(at("ws"), n_threads, &p, &found, &e) != 0)
            fail_msg("%s", e.msg);
        assert_true(found.n_files >= 6);
        assert_true(found.bytes > 2 * FY_MANIFEST_BLOCK);
        assert_int_equal(p.total_bytes, found.bytes);
        assert_int_equal(p.done_bytes, found.bytes);
        assert_false(found.is_signed);
    }
}

static void the_first_changed_block_is_named(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(stat(at("ws/tiny/ggml/weights.gguf"), &st), 0);
    flip_byte(at("ws/tiny/ggml/weights.gguf"), -1);
    fails(FY_EVERIFY, "weights.gguf: changed: SHA-256 differs");
    flip_byte(at("ws/tiny/ggml/weights.gguf"), FY_MANIFEST_BLOCK);
    fails(FY_EVERIFY, "first in bytes 4194304 to ");
    flip_byte(at("ws/tiny/ggml/weights.gguf"), FY_MANIFEST_BLOCK - 1);
    fails(FY_EVERIFY, "first in bytes 0 to 4194303");
}

static void what_is_no_file_of_the_listed_size_is_named(void **state)
{
    (void)state;
    assert_int_equal(truncate(at("ws/hparams.json"), 3), 0);
    fails(FY_EVERIFY, "hparams.json: 3 bytes, the manifest lists");
    assert_int_equal(unlink(at("ws/hparams.json")), 0);
    fails(FY_EVERIFY, "hparams.json: missing");
    assert_int_equal(symlink("workspace.json", at("ws/hparams.json")), 0);
    fails(FY_EVERIFY, "hparams.json: is a symbolic link");
    assert_int_equal(unlink(at("ws/hparams.json")), 0);
    assert_int_equal(mkfifo(at("ws/hparams.json"), 0600), 0);
    fails(FY_EVERIFY, "hparams.json: is not a regular file");
    flip_byte(at("ws/workspace.json"), 4);
    flip_byte(at("ws/tiny/model.json"), 4);
    fails(FY_EVERIFY, "; so are 2 more files");
    flip_byte(at("ws/manifest.json"), 35); /* in the name of the tool */
    fails(FY_EVERIFY, "manifest.json");
}

static void a_signature_is_held_to_the_key_it_came_with(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_bundle_checked found;
    char fingerprint[FY_FINGERPRINT_BYTES];
    assert_int_equal(fy_keygen(at("me"), fingerprint, &e), 0);
    assert_int_equal(fy_sign(at("ws"), at("me.pem"), NULL, NULL, fingerprint, &e), 0);
    assert_int_equal(fy_bundle_check(at("ws"), 2, NULL, &found, &e), 0);
    assert_true(found.is_signed);
    assert_string_equal(found.fingerprint, fingerprint);
    flip_byte(at("ws/manifest.sig"), 63);
    fails(FY_EVERIFY, "manifest.sig is not the signature of this manifest.json");
    flip_byte(at("ws/manifest.sig"), 63);
    flip_byte(at("ws/manifest.pub.pem"), 60);
    fails(FY_EVERIFY, "manifest.pub.pem");
    assert_int_equal(unlink(at("ws/manifest.pub.pem")), 0);
    assert_int_equal(fy_bundle_check(at("ws"), 2, NULL, &found, &e), 0);
    assert_true(found.is_signed);
    assert_string_equal(found.fingerprint, "");
}

static void an_interrupt_ends_the_check(void **state)
{
    (void)state;
    fy_interrupted = 1;
    fails(FY_EINTR, "");
    fy_interrupted = 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_byte_is_read_once_on_any_number_of_threads),
        TEST(the_first_changed_block_is_named),
        TEST(what_is_no_file_of_the_listed_size_is_named),
        TEST(a_signature_is_held_to_the_key_it_came_with),
        TEST(an_interrupt_ends_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
