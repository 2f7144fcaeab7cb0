#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <sys/wait.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/log.h"
#include "bundle/manifest_read.h"
#include "tests/unit/workspace/ws_fixture.h"
#include "workspace/pack/manifest.h"
#include "workspace/pack/sign.h"

static void pack(const char *dir, const char *archive, int level, int64_t mtime)
{
    fy_err e = {0};
    fy_pack_params p = {.level = level, .mtime = mtime};
    if (fy_pack(dir, archive, &p, NULL, &e) != 0)
        fail_msg("%s", e.msg);
}

static void refused(const char *dir, const char *archive, int level, fy_code code, const char *says)
{
    fy_err e = {0};
    fy_pack_params p = {.level = level};
    assert_int_equal(fy_pack(dir, archive, &p, NULL, &e), -1);
    assert_int_equal(e.code, code);
    assert_says(&e, says);
    char part[600];
    snprintf(part, sizeof part, "%s.part", archive);
    assert_false(fy_file_exists(archive));
    assert_false(fy_file_exists(part));
}

static void assert_same_files(const char *a, const char *b)
{
    size_t n, k;
    char *x = get_file(a, &n), *y = get_file(b, &k);
    assert_int_equal(n, k);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void sign(const char *dir)
{
    fy_err e = {0};
    char fingerprint[FY_FINGERPRINT_BYTES];
    assert_int_equal(fy_keygen(at("me"), fingerprint, &e), 0);
    assert_int_equal(fy_sign(dir, at("me.pem"), NULL, NULL, fingerprint, &e), 0);
}

static void the_manifest_comes_first_and_nothing_is_of_this_machine(void **state)
{
    (void)state;
    static const char *const names[] = {
        "ws/manifest.json",   "ws/manifest.sig",    "ws/manifest.pub.pem",
        "ws/bin/ferry",       "ws/hparams.json",    "ws/tiny/ggml/weights.gguf",
        "ws/tiny/model.json", "ws/tiny/vocab.gguf", "ws/workspace.json"};
    ws_make("ws", &(tiny_model){.name = "tiny"});
    sign(at("ws"));
    pack(at("ws"), at("ws.tar.zst"), 0, 1700000000);
    struct archive *a = archive_read_new();
    struct archive_entry *en;
    archive_read_support_format_tar(a);
    archive_read_support_filter_zstd(a);
    assert_int_equal(archive_read_open_filename(a, at("ws.tar.zst"), 4096), ARCHIVE_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(archive_read_next_header(a, &en), ARCHIVE_OK);
        assert_string_equal(archive_entry_pathname(en), names[i]);
        assert_int_equal(archive_entry_perm(en), i == 3 ? 0755 : 0644);
        assert_int_equal(archive_entry_mtime(en), 1700000000);
        assert_int_equal(archive_entry_uid(en) | archive_entry_gid(en), 0);
        assert_true(archive_entry_uname(en) == NULL || archive_entry_uname(en)[0] == '\0');
        assert_true(archive_entry_gname(en) == NULL || archive_entry_gname(en)[0] == '\0');
    }
    assert_int_equal(archive_read_next_header(a, &en), ARCHIVE_EOF);
    archive_read_free(a);
}

static void the_same_workspace_gives_the_same_bytes(void **state)
{
    (void)state;
    static const char *const suffixes[] = {"tar.zst", "tar.gz", "tar"};
    char x[64], y[64];
    ws_make("one/ws", &(tiny_model){.name = "tiny"});
    mode_t mask = umask(077);
    ws_make("two/ws", &(tiny_model){.name = "tiny"});
    assert_int_equal(chmod(at("two/ws/hparams.json"), 0600), 0);
    for (size_t i = 0; i < 3; i++) {
        snprintf(x, sizeof x, "one/x.%s", suffixes[i]);
        snprintf(y, sizeof y, "two/y.%s", suffixes[i]);
        umask(022);
        pack(at("one/ws"), at(x), 0, 0);
        umask(077);
        pack(at("two/ws/"), at(y), 0, 0);
        assert_same_files(at(x), at(y));
    }
    umask(mask);
}

/* Several jobs of the compressor, and its last one is not full. */
static void the_number_of_threads_changes_nothing(void **state)
{
    (void)state;
    static const int counts[] = {0, 1, 2, 3, 5, 16, 200};
    ws_make("ws", &(tiny_model){.name = "tiny", .n_vocab = 80000});
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        fy_err e = {0};
        fy_pack_params p = {.n_threads = counts[i], .level = 2};
        if (fy_pack(at("ws"), at(i == 0 ? "a.tar.zst" : "b.tar.zst"), &p, NULL, &e) != 0)
            fail_msg("%s", e.msg);
        if (i > 0)
            assert_same_files(at("a.tar.zst"), at("b.tar.zst"));
    }
    assert_int_equal(fy_unpack(at("b.tar.zst"), at("back"), NULL, NULL, NULL, NULL), 0);
}

static void a_wrong_signature_is_not_packed(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    sign(at("ws"));
    pack(at("ws"), at("good.tar"), 0, 0);
    assert_int_equal(fy_unpack(at("good.tar"), at("back"), NULL, NULL, NULL, NULL), 0);
    assert_same_files(at("ws/manifest.sig"), at("back/manifest.sig"));
    assert_same_files(at("ws/manifest.pub.pem"), at("back/manifest.pub.pem"));
    flip_byte(at("ws/manifest.sig"), 0);
    refused(at("ws"), at("x.tar"), 0, FY_EVERIFY, "WRONG signature: manifest.sig");
}

/* In a child, whose memory is its own: 80 MB through as many threads as can be. */
static void memory_stays_below_128_mb_on_any_number_of_threads(void **state)
{
    (void)state;
    static const int levels[] = {4, 9};
    ws_make("ws", &(tiny_model){.name = "tiny", .n_vocab = 300000});
    for (size_t i = 0; i < 2; i++) {
        struct rusage used;
        int status;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            fy_pack_params p = {.n_threads = 64, .level = levels[i]};
            _exit(fy_pack(at("ws"), at("x.tar.zst"), &p, NULL, NULL) == 0 ? 0 : 1);
        }
        assert_int_equal(wait4(pid, &status, 0, &used), pid);
        assert_int_equal(status, 0);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
        assert_true(used.ru_maxrss < 128 << 10);
#endif
    }
}

/* --- beyond 8 GiB ----------------------------------------------------------------------------- */

#define LARGE_BYTES (INT64_C(9) << 30)
static char *seen_head; /* owned; what the archive began with when the large file was on its way */
static size_t seen_bytes;

static void look_and_stop(fy_progress *p)
{
    if (p->done_bytes < (8u << 20) || fy_interrupted)
        return;
    free(seen_head);
    seen_head = get_file(at("x.tar.part"), &seen_bytes);
    fy_interrupted = 1;
}

/* A hole stands for the large file; it is stopped long before its end, where its hash would show
 * that the manifest is invented. */
static void a_file_beyond_8_gib_has_a_pax_header(void **state)
{
    (void)state;
    static const char size_line[] = "19 size=9663676416\n";
    fy_err e = {0};
    fy_manifest m;
    fy_str text = {0};
    fy_digest d = {.bytes = LARGE_BYTES,
                   .blocks = calloc((size_t)fy_manifest_n_blocks(LARGE_BYTES), FY_SHA256_BYTES)};
    fy_pack_params p = {0};
    fy_progress progress = {.show = look_and_stop};
    assert_int_equal(mkdir(at("ws"), 0755), 0);
    put_text(at("ws/large"), "");
    assert_int_equal(truncate(at("ws/large"), LARGE_BYTES), 0);
    assert_int_equal(fy_manifest_begin(&m, "ferry test", "aarch64-linux", &e), 0);
    assert_int_equal(fy_manifest_add(&m, "large", 0644, &d, &e), 0);
    assert_int_equal(fy_manifest_text(&m, &text, &e), 0);
    put_file(at("ws/manifest.json"), text.ptr, text.len);
    assert_int_equal(fy_pack(at("ws"), at("x.tar"), &p, &progress, &e), -1);
    fy_interrupted = 0;
    assert_int_equal(e.code, FY_EINTR);
    assert_non_null(seen_head);
    assert_non_null(memmem(seen_head, seen_bytes, size_line, strlen(size_line)));
    /* a reader knows the size from it, and where the archive ends */
    e = (fy_err){0};
    assert_int_equal(fy_unpack_check(seen_head, seen_bytes, "x.tar", &e), -1);
    assert_says(&e, "x.tar: cut off: it ends after ");
    assert_says(&e, "in 'ws/large' (");
    assert_says(&e, " of 9663676416 bytes)");
    free(seen_head);
    seen_head = NULL;
    fy_str_release(&text);
    fy_manifest_release(&m);
}

static void the_level_changes_the_size_only(void **state)
{
    (void)state;
    struct stat fast, small;
    ws_make("ws", &(tiny_model){.name = "tiny", .n_vocab = 3000});
    pack(at("ws"), at("fast.tar.gz"), 1, 0);
    pack(at("ws"), at("small.tar.gz"), 9, 0);
    assert_int_equal(stat(at("fast.tar.gz"), &fast) | stat(at("small.tar.gz"), &small), 0);
    assert_true(small.st_size < fast.st_size);
    assert_int_equal(fy_unpack(at("small.tar.gz"), at("back"), NULL, NULL, NULL, NULL), 0);
}

static void what_has_changed_is_named_and_not_packed(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    flip_byte(at("ws/tiny/ggml/weights.gguf"), -1);
    refused(at("ws"), at("x.tar"), 0, FY_EVERIFY, "weights.gguf: changed");
    put_text(at("ws/hparams.json"), "{}");
    refused(at("ws"), at("x.tar.zst"), 0, FY_EVERIFY, "hparams.json: 2 bytes, the manifest lists");
    assert_int_equal(unlink(at("ws/hparams.json")), 0);
    refused(at("ws"), at("x.tar.gz"), 0, FY_EIO, "hparams.json");
    assert_int_equal(mkfifo(at("ws/hparams.json"), 0600), 0);
    refused(at("ws"), at("x.tar.gz"), 0, FY_EVERIFY, "not a regular file");
}

static void names_and_levels_that_cannot_be_are_refused(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    refused(at("ws"), at("x.zip"), 0, FY_EARG, "must end in .tar.zst, .tar.gz or .tar");
    refused(at("ws"), at("x.tar"), 3, FY_EARG, "takes no level");
    refused(at("ws"), at("x.tar.gz"), 10, FY_EARG, "expected 1 to 9");
    refused(at("nowhere"), at("x.tar"), 0, FY_EARG, "does not exist");
    refused(tmp, at("x.tar"), 0, FY_EFORMAT, "has no manifest.json");
    refused(at("ws"), at("no/such/x.tar"), 0, FY_EIO, "cannot create");
}

static void an_interrupt_leaves_nothing(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    fy_interrupted = 1;
    refused(at("ws"), at("x.tar.zst"), 0, FY_EINTR, "");
    fy_interrupted = 0;
}

static void unlisted_files_stay_outside(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    pack(at("ws"), at("a.tar"), 0, 0);
    put_text(at("ws/notes.txt"), "x");
    pack(at("ws"), at("b.tar"), 0, 0);
    assert_same_files(at("a.tar"), at("b.tar"));
}

static void a_directory_of_any_name_comes_back(void **state)
{
    (void)state;
    char *made = NULL;
    ws_make("mod\xc3\xa8le n\xc2\xb0 1", &(tiny_model){.name = "tiny"});
    pack(at("mod\xc3\xa8le n\xc2\xb0 1"), at("x.tar.zst"), 0, 0);
    char cwd[4096];
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(mkdir(at("there"), 0755), 0);
    assert_int_equal(chdir(at("there")), 0);
    int rc = fy_unpack(at("x.tar.zst"), NULL, NULL, &made, NULL, NULL);
    assert_int_equal(chdir(cwd), 0);
    assert_int_equal(rc, 0);
    assert_string_equal(made, "mod\xc3\xa8le n\xc2\xb0 1");
    assert_true(fy_file_exists(at("there/mod\xc3\xa8le n\xc2\xb0 1/manifest.json")));
    free(made);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_manifest_comes_first_and_nothing_is_of_this_machine),
        TEST(the_same_workspace_gives_the_same_bytes),
        TEST(the_number_of_threads_changes_nothing),
        TEST(a_wrong_signature_is_not_packed),
        TEST(memory_stays_below_128_mb_on_any_number_of_threads),
        TEST(a_file_beyond_8_gib_has_a_pax_header),
        TEST(the_level_changes_the_size_only),
        TEST(what_has_changed_is_named_and_not_packed),
        TEST(names_and_levels_that_cannot_be_are_refused),
        TEST(an_interrupt_leaves_nothing),
        TEST(unlisted_files_stay_outside),
        TEST(a_directory_of_any_name_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
