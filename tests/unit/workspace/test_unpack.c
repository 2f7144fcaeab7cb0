#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/hash.h"
#include "base/progress.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "tests/unit/workspace/ws_fixture.h"
#include "workspace/manifest.h"

static void pack(const char *archive)
{
    fy_err e = {0};
    fy_pack_params p = {0};
    if (fy_pack(at("ws"), archive, &p, NULL, &e) != 0)
        fail_msg("%s", e.msg);
}

static void unpacks(const char *archive, const char *dir)
{
    fy_err e = {0};
    if (fy_unpack(archive, dir, NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
}

static void refused(const char *archive, fy_code code, const char *says)
{
    fy_err e = {0};
    assert_int_equal(fy_unpack(archive, at("out"), NULL, NULL, &e), -1);
    assert_says(&e, says);
    assert_int_equal(e.code, code);
    assert_false(fy_file_exists(at("out")));
    assert_false(fy_file_exists(at("out.part")));
}

static void a_packed_workspace_comes_back_whole(void **state)
{
    (void)state;
    static const char *const archives[] = {"x.tar.zst", "x.tar.gz", "x.tar", "x.tgz", "x.tzst"};
    ws_make("ws",
            &(tiny_model){.name = "tiny", .n_vocab = 40000}); /* weights of more than one block */
    for (size_t i = 0; i < 5; i++) {
        char dir[16];
        fy_verify_report r;
        struct stat st;
        snprintf(dir, sizeof dir, "out%zu", i);
        pack(at(archives[i]));
        unpacks(at(archives[i]), at(dir));
        assert_int_equal(fy_verify(at(dir), 2, NULL, &r, NULL), 0);
        assert_int_equal(r.n, 0);
        assert_int_equal(r.n_files, 6);
        fy_verify_report_release(&r);
        snprintf(dir + 4, sizeof dir - 4, "/bin");
        assert_int_equal(stat(fy_file_exists(at(dir)) ? at(dir) : "", &st), 0);
    }
}

static void the_umask_does_not_change_the_modes(void **state)
{
    (void)state;
    struct stat st;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    pack(at("x.tar"));
    mode_t mask = umask(077);
    unpacks(at("x.tar"), at("out"));
    umask(mask);
    assert_int_equal(stat(at("out/bin/ferry"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(stat(at("out/manifest.json"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
}

static void every_truncation_leaves_nothing(void **state)
{
    (void)state;
    static const char *const archives[] = {"x.tar.zst", "x.tar.gz", "x.tar"};
    ws_make("ws", &(tiny_model){.name = "tiny"});
    for (size_t i = 0; i < 3; i++) {
        size_t n;
        pack(at(archives[i]));
        char *bytes = get_file(at(archives[i]), &n);
        size_t end = i == 2 ? n - 2048 : n - 16; /* the zeros behind the last file say nothing */
        for (size_t cut = 0; cut < end; cut += 1 + end / 23) {
            put_file(at("cut"), bytes, cut);
            refused(at("cut"), cut % 512 == 0 && i == 2 && cut > 0 ? FY_EVERIFY : FY_EFORMAT,
                    "cut");
        }
        free(bytes);
    }
}

static void flipped_bytes_never_pass(void **state)
{
    (void)state;
    size_t n;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    pack(at("x.tar.zst"));
    char *bytes = get_file(at("x.tar.zst"), &n);
    for (size_t i = 8; i + 16 < n; i += 1 + n / 61) {
        bytes[i] ^= 0x10;
        put_file(at("flipped"), bytes, n);
        bytes[i] ^= 0x10;
        fy_err e = {0};
        if (fy_unpack(at("flipped"), at("out"), NULL, NULL, &e) == 0) {
            /* a bit that no byte of a file depends on */
            fy_verify_report r;
            assert_int_equal(fy_verify(at("out"), 1, NULL, &r, NULL), 0);
            assert_int_equal(r.n, 0);
            fy_verify_report_release(&r);
            assert_int_equal(rename(at("out"), at("kept")), 0);
            char command[128];
            snprintf(command, sizeof command, "rm -rf %s/kept", tmp);
            assert_int_equal(system(command), 0);
        }
        assert_false(fy_file_exists(at("out.part")));
    }
    free(bytes);
}

/* --- archives that nobody packed -------------------------------------------------------------- */

typedef struct {
    const char *path, *body, *link;
    unsigned type; /* AE_IF*; 0: a file */
    bool hard;     /* link is a hard link */
    bool manifest; /* body is made of `listed` */
    int64_t hole;  /* > 0: sparse, of this size */
} item;

static void write_archive(const char *path, const item *items, size_t n, const char *manifest)
{
    struct archive *a = archive_write_new();
    archive_write_set_format_pax(a);
    assert_int_equal(archive_write_open_filename(a, path), ARCHIVE_OK);
    for (size_t i = 0; i < n; i++) {
        const item *m = &items[i];
        const char *body = m->manifest ? manifest : m->body != NULL ? m->body : "";
        struct archive_entry *en = archive_entry_new();
        archive_entry_set_pathname(en, m->path);
        archive_entry_set_filetype(en, m->type != 0 ? m->type : AE_IFREG);
        archive_entry_set_perm(en, 0777);
        archive_entry_set_size(en, m->hole > 0 ? m->hole : (int64_t)strlen(body));
        if (m->hole > 0)
            archive_entry_sparse_add_entry(en, 0, (int64_t)strlen(body));
        if (m->link != NULL && m->hard)
            archive_entry_set_hardlink(en, m->link);
        else if (m->link != NULL)
            archive_entry_set_symlink(en, m->link);
        assert_int_equal(archive_write_header(a, en), ARCHIVE_OK);
        if (m->type == 0 && m->link == NULL)
            archive_write_data(a, body, strlen(body));
        archive_entry_free(en);
    }
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
}

/* A manifest that lists "f" with this text and this size. */
static char *manifest_of(const char *path, const char *body, uint64_t bytes)
{
    fy_manifest m;
    fy_str s = {0};
    fy_digest d = {.bytes = bytes};
    uint64_t n_blocks = fy_manifest_n_blocks(bytes);
    assert_int_equal(fy_manifest_begin(&m, "ferry test", "aarch64-linux", NULL), 0);
    assert_int_equal(fy_sha256_of(body, strlen(body), d.sha256, NULL), 0);
    if (n_blocks > 0)
        d.blocks = calloc((size_t)n_blocks, FY_SHA256_BYTES);
    assert_int_equal(fy_manifest_add(&m, path, 0644, &d, NULL), 0);
    assert_int_equal(fy_manifest_text(&m, &s, NULL), 0);
    fy_manifest_release(&m);
    return s.ptr;
}

#define MANIFEST                                                                                   \
    {                                                                                              \
        .path = "t/manifest.json", .manifest = true                                                \
    }
#define FILE_F                                                                                     \
    {                                                                                              \
        .path = "t/f", .body = "hello"                                                             \
    }

static const struct {
    item items[4];
    size_t n;
    fy_code code;
    const char *says;
} hostile[] = {
    {{MANIFEST, FILE_F, {.path = "/etc/x", .body = "x"}}, 3, FY_EFORMAT, "absolute path"},
    {{{.path = "/t/manifest.json", .manifest = true}}, 1, FY_EFORMAT, "absolute path"},
    {{MANIFEST, FILE_F, {.path = "t/../../x", .body = "x"}}, 3, FY_EFORMAT, "'..' in its path"},
    {{{.path = "../manifest.json", .manifest = true}}, 1, FY_EFORMAT, "'..' in its path"},
    {{MANIFEST, FILE_F, {.path = "t//g", .body = "x"}}, 3, FY_EFORMAT, "not plain"},
    {{MANIFEST, FILE_F, {.path = "t/./g", .body = "x"}}, 3, FY_EFORMAT, "not plain"},
    {{MANIFEST, FILE_F, {.path = "t/g\nh", .body = "x"}}, 3, FY_EFORMAT, "control characters"},
    {{MANIFEST, {.path = "t/f", .type = AE_IFLNK, .link = "/etc/passwd"}},
     2,
     FY_EFORMAT,
     "symbolic link"},
    {{MANIFEST, {.path = "t/d", .type = AE_IFLNK, .link = ".."}, {.path = "t/d/f", .body = "x"}},
     3,
     FY_EFORMAT,
     "symbolic link"},
    {{MANIFEST, {.path = "t/f", .link = "/etc/passwd", .hard = true}}, 2, FY_EFORMAT, "hard link"},
    {{MANIFEST, {.path = "t/f", .type = AE_IFIFO}}, 2, FY_EFORMAT, "device, pipe or socket"},
    {{MANIFEST, {.path = "t/f", .type = AE_IFCHR}}, 2, FY_EFORMAT, "device, pipe or socket"},
    {{MANIFEST, FILE_F, FILE_F}, 3, FY_EFORMAT, "is there twice"},
    {{MANIFEST, FILE_F, MANIFEST}, 3, FY_EFORMAT, "manifest.json twice"},
    {{MANIFEST, FILE_F, {.path = "u/g", .body = "x"}}, 3, FY_EFORMAT, "another top directory"},
    {{{.path = "manifest.json", .manifest = true}},
     1,
     FY_EFORMAT,
     "outside the archive's top directory"},
    {{MANIFEST, FILE_F, {.path = "t/g", .body = "x"}}, 3, FY_EFORMAT, "'t/g' is not listed"},
    {{MANIFEST}, 1, FY_EVERIFY, "ends without f"},
    {{MANIFEST, {.path = "t/f", .body = "hell"}},
     2,
     FY_EVERIFY,
     "f: 4 bytes, the manifest lists 5"},
    {{MANIFEST, {.path = "t/f", .body = "hello, world"}},
     2,
     FY_EVERIFY,
     "f: 12 bytes, the manifest lists 5"},
    {{MANIFEST, {.path = "t/f", .body = "hallo"}}, 2, FY_EVERIFY, "f: changed: SHA-256 differs"},
    {{FILE_F}, 1, FY_EFORMAT, "has no manifest.json"},
    {{{.path = "t/sub/manifest.json", .manifest = true}, FILE_F},
     2,
     FY_EFORMAT,
     "has no manifest.json"},
    {{{.path = "t/manifest.json", .body = "{}"}}, 1, FY_EFORMAT, "manifest.json: lacks"},
    {{{.path = "t/manifest.json", .body = ""}}, 1, FY_EFORMAT, "manifest.json"},
};

static void hostile_archives_are_refused_with_the_reason(void **state)
{
    (void)state;
    char *manifest = manifest_of("f", "hello", 5);
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        write_archive(at("x.tar"), hostile[i].items, hostile[i].n, manifest);
        refused(at("x.tar"), hostile[i].code, hostile[i].says);
    }
    free(manifest);
}

static void small_archives_cannot_stand_for_large_files(void **state)
{
    (void)state;
    uint64_t size = (uint64_t)1 << 30;
    char *manifest = manifest_of("f", "hello", size);
    item items[] = {MANIFEST, {.path = "t/f", .body = "hello", .hole = (int64_t)size}};
    write_archive(at("x.tar"), items, 2, manifest);
    refused(at("x.tar"), FY_EFORMAT, "is a sparse file");
    free(manifest);
    manifest = manifest_of("f", "hello", (uint64_t)1 << 41);
    items[1].hole = 0;
    write_archive(at("x.tar"), items, 2, manifest);
    uint64_t space;
    assert_int_equal(fy_file_space(tmp, &space, NULL), 0);
    bool fits = space >= (uint64_t)1 << 41;
    refused(at("x.tar"), fits ? FY_EVERIFY : FY_ENOSPACE, fits ? "5 bytes" : "needs");
    free(manifest);
}

static void plain_tar_archives_are_welcome(void **state)
{
    (void)state;
    char *manifest = manifest_of("d/f", "hello", 5);
    item items[] = {{.path = "./", .type = AE_IFDIR},
                    {.path = "./t/", .type = AE_IFDIR},
                    {.path = "./t/d/", .type = AE_IFDIR},
                    {.path = "./t/d/f", .body = "hello"}};
    item more[5];
    memcpy(more, items, sizeof items);
    more[4] = (item){.path = "./t/manifest.json", .manifest = true}; /* after the file it lists */
    write_archive(at("x.tar"), more, 5, manifest);
    unpacks(at("x.tar"), at("out"));
    size_t n;
    char *body = get_file(at("out/d/f"), &n);
    assert_string_equal(body, "hello");
    assert_int_equal(count_entries(at("out")), 2);
    free(body);
    free(manifest);
}

static void what_is_no_archive_is_called_by_its_name(void **state)
{
    (void)state;
    put_text(at("x.tar"), "");
    refused(at("x.tar"), FY_EFORMAT, "is an empty file");
    put_text(at("x.tar"), "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
    refused(at("x.tar"), FY_EFORMAT, "Git LFS pointer");
    put_text(at("x.tar"), "nothing that anybody knows");
    refused(at("x.tar"), FY_EFORMAT, "no .tar.zst, .tar.gz or .tar archive");
    refused(tmp, FY_EARG, "is a directory");
    refused(at("nowhere.tar"), FY_EIO, "nowhere.tar");
}

static void an_interrupt_leaves_nothing_and_an_existing_directory_stays(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.name = "tiny"});
    pack(at("x.tar.zst"));
    fy_interrupted = 1;
    refused(at("x.tar.zst"), FY_EINTR, "");
    fy_interrupted = 0;
    fy_err e = {0};
    assert_int_equal(fy_unpack(at("x.tar.zst"), at("ws"), NULL, NULL, &e), -1);
    assert_says(&e, "exists and is not empty");
    fy_bundle b;
    assert_int_equal(fy_bundle_open(at("ws"), &b, NULL), 0);
    fy_bundle_release(&b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_packed_workspace_comes_back_whole),
        TEST(the_umask_does_not_change_the_modes),
        TEST(every_truncation_leaves_nothing),
        TEST(flipped_bytes_never_pass),
        TEST(hostile_archives_are_refused_with_the_reason),
        TEST(small_archives_cannot_stand_for_large_files),
        TEST(plain_tar_archives_are_welcome),
        TEST(what_is_no_archive_is_called_by_its_name),
        TEST(an_interrupt_leaves_nothing_and_an_existing_directory_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
