#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/hash.h"
#include "base/log.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "tests/unit/workspace/ws_fixture.h"
#include "workspace/pack/manifest.h"

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
    if (fy_unpack(archive, dir, NULL, NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
}

/* As standard input: a pipe that a child fills. */
static int unpack_stream(const char *archive, const char *dir, fy_err *e)
{
    char command[700];
    snprintf(command, sizeof command, "cat '%s'", archive);
    FILE *pipe = popen(command, "r");
    int kept = dup(STDIN_FILENO);
    assert_non_null(pipe);
    assert_int_equal(dup2(fileno(pipe), STDIN_FILENO), STDIN_FILENO);
    int rc = fy_unpack("-", dir, NULL, NULL, NULL, e);
    dup2(kept, STDIN_FILENO);
    close(kept);
    int status = pclose(pipe);
    if (rc == 0)
        assert_int_equal(status, 0); /* cat could write all of it */
    return rc;
}

static void refused(const char *archive, fy_code code, const char *says)
{
    fy_err e = {0};
    assert_int_equal(fy_unpack(archive, at("out"), NULL, NULL, NULL, &e), -1);
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
        assert_int_equal(fy_verify(at(dir), NULL, 2, NULL, &r, NULL), 0);
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
        size_t end = i == 2 ? n - 2048 : n - 16; /* the zeros after the last file say nothing */
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
        if (fy_unpack(at("flipped"), at("out"), NULL, NULL, NULL, &e) == 0) {
            /* a bit that no byte of a file depends on */
            fy_verify_report r;
            assert_int_equal(fy_verify(at("out"), NULL, 1, NULL, &r, NULL), 0);
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
    archive_write_set_format_option(a, "pax", "hdrcharset", "BINARY");
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

#define MANIFEST                                    \
    {                                               \
        .path = "t/manifest.json", .manifest = true \
    }
#define FILE_F                         \
    {                                  \
        .path = "t/f", .body = "hello" \
    }

#define LINE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

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
    {{MANIFEST, {.path = "t/f", .type = AE_IFBLK}}, 2, FY_EFORMAT, "device, pipe or socket"},
    {{MANIFEST, {.path = "t/f", .link = "../../x", .type = AE_IFLNK}},
     2,
     FY_EFORMAT,
     "symbolic link"},
    {{MANIFEST, FILE_F, {.path = "t/g", .link = "t/f", .hard = true}}, 3, FY_EFORMAT, "hard link"},
    {{MANIFEST, FILE_F, {.path = "./t/f", .body = "hello"}}, 3, FY_EFORMAT, "is there twice"},
    {{MANIFEST, FILE_F, {.path = "t/./f", .body = "hello"}}, 3, FY_EFORMAT, "not plain"},
    {{MANIFEST, FILE_F, {.path = "t/F", .body = "hello"}}, 3, FY_EFORMAT, "'t/F' is not listed"},
    {{MANIFEST, {.path = "t/f/", .type = AE_IFDIR}, FILE_F, {.path = "t/f/g", .body = "x"}},
     4,
     FY_EFORMAT,
     "'t/f/g' is not listed"},
    {{MANIFEST, FILE_F, {.path = "t/..", .body = "x"}}, 3, FY_EFORMAT, "'..' in its path"},
    {{MANIFEST, FILE_F, {.path = "t/\x7f", .body = "x"}}, 3, FY_EFORMAT, "control characters"},
    {{MANIFEST, FILE_F, {.path = "t/manifest.sig", .body = "too short"}},
     3,
     FY_EVERIFY,
     "manifest.sig does not have 64 bytes"},
    {{MANIFEST, FILE_F, {.path = "t/manifest.sig", .body = LINE LINE}},
     3,
     FY_EFORMAT,
     "its manifest.sig has more than 64 bytes"},
    {{MANIFEST, FILE_F, {.path = "t/manifest.sig", .body = LINE}},
     3,
     FY_EVERIFY,
     "fits no trusted key"},
    {{MANIFEST, FILE_F, {.path = "t/manifest.pub.pem", .body = LINE}},
     3,
     FY_EVERIFY,
     "manifest.pub.pem is there without manifest.sig"},
    {{MANIFEST,
      {.path = "t/manifest.sig", .body = LINE},
      {.path = "t/manifest.sig", .body = LINE},
      FILE_F},
     4,
     FY_EFORMAT,
     "'manifest.sig' is there twice"},
    {{{.path = "t/sub", .type = AE_IFLNK, .link = "/etc"}, MANIFEST, FILE_F},
     3,
     FY_EFORMAT,
     "symbolic link"},
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

static void a_stream_is_read_once_and_refused_alike(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_verify_report r;
    static const char *const archives[] = {"x.tar.zst", "x.tar.gz", "x.tar"};
    ws_make("ws", &(tiny_model){.name = "tiny", .n_vocab = 40000});
    for (size_t i = 0; i < 3; i++) {
        char dir[16];
        snprintf(dir, sizeof dir, "out%zu", i);
        pack(at(archives[i]));
        if (unpack_stream(at(archives[i]), at(dir), &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(fy_verify(at(dir), NULL, 1, NULL, &r, &e), 0);
        assert_int_equal(r.n, 0);
        fy_verify_report_release(&r);
    }
    size_t n;
    char *bytes = get_file(at("x.tar"), &n);
    put_file(at("cut.tar"), bytes, n / 2);
    free(bytes);
    assert_int_equal(unpack_stream(at("cut.tar"), at("out"), &e), -1);
    char says[128];
    snprintf(says, sizeof says, "standard input: cut off: it ends after %zu bytes, in 'ws/", n / 2);
    assert_says(&e, says);
    assert_false(fy_file_exists(at("out")));
    char *manifest = manifest_of("f", "hello", 5);
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        e = (fy_err){0};
        write_archive(at("h.tar"), hostile[i].items, hostile[i].n, manifest);
        assert_int_equal(unpack_stream(at("h.tar"), at("out"), &e), -1);
        assert_false(fy_file_exists(at("out")));
        assert_false(fy_file_exists(at("out.part")));
    }
    item late[] = {FILE_F, MANIFEST};
    write_archive(at("h.tar"), late, 2, manifest);
    e = (fy_err){0};
    assert_int_equal(unpack_stream(at("h.tar"), at("out"), &e), -1);
    assert_says(&e, "begins with t/f; a stream has to begin with manifest.json");
    unpacks(at("h.tar"), at("out"));
    free(manifest);
}

/* --- what libarchive would not write ---------------------------------------------------------- */

/* A tar header of this type, and its body, padded. */
static void put_raw(fy_str *out, const char *name, char type, const char *body, size_t n)
{
    char h[512] = {0};
    static const char zeros[512];
    snprintf(h, 100, "%s", name);
    memcpy(h + 100,
           "0000644\0"
           "0000000\0"
           "0000000\0",
           24);
    snprintf(h + 124, 12, "%011zo", n);
    memcpy(h + 136, "00000000000", 12);
    h[156] = type;
    if (type == '1' || type == '2')
        memcpy(h + 157, "t/manifest.json", 15);
    memcpy(h + 257,
           "ustar\0"
           "00",
           8);
    memset(h + 148, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof h; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    fy_str_add(out, h, sizeof h);
    fy_str_add(out, body, n);
    fy_str_add(out, zeros, (512 - n % 512) % 512);
}

static void put_raw_end(fy_str *out)
{
    static const char zeros[1024];
    fy_str_add(out, zeros, sizeof zeros);
}

/* "NN key=value\n" with a value that may hold anything. */
static void put_pax(fy_str *out, const char *key, const char *value, size_t n)
{
    fy_str record = {0};
    size_t len = strlen(key) + n + 3;
    len += len + 2 > 99 ? 3 : 2;
    fy_str_printf(&record, "%zu %s=", len, key);
    fy_str_add(&record, value, n);
    fy_str_putc(&record, '\n');
    put_raw(out, "pax", 'x', record.ptr, record.len);
    fy_str_release(&record);
}

static void raw_refused(const fy_str *tar, const char *says)
{
    put_file(at("raw.tar"), tar->ptr, tar->len);
    fy_err e = {0};
    assert_int_equal(fy_unpack(at("raw.tar"), at("out"), NULL, NULL, NULL, &e), -1);
    assert_says(&e, says);
    assert_false(fy_file_exists(at("out")));
    assert_false(fy_file_exists(at("out.part")));
}

static void names_that_headers_hide_are_refused(void **state)
{
    (void)state;
    char *manifest = manifest_of("f", "hello", 5);
    static const struct {
        const char *value;
        size_t n;
        const char *says;
    } paths[] = {
        {"/etc/x", 6, "absolute path"},
        {"t/../../x", 9, "'..' in its path"},
        {"t/a\nb", 5, "control characters"},
        {"t/g\0h", 5, "not listed"},
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        fy_str tar = {0};
        put_raw(&tar, "t/manifest.json", '0', manifest, strlen(manifest));
        put_pax(&tar, "path", paths[i].value, paths[i].n);
        put_raw(&tar, "t/f", '0', "hello", 5);
        put_raw_end(&tar);
        raw_refused(&tar, paths[i].says);
        fy_str_release(&tar);
    }
    free(manifest);
}

/* A name ends at its first NUL, for libarchive as for every tar: what counts is what is left. */
static void a_name_with_a_nul_is_its_first_part(void **state)
{
    (void)state;
    char *manifest = manifest_of("f", "hello", 5);
    fy_str tar = {0};
    put_raw(&tar, "t/manifest.json", '0', manifest, strlen(manifest));
    put_pax(&tar, "path", "t/f\0/../../x", 13);
    put_raw(&tar, "t/other", '0', "hello", 5);
    put_raw_end(&tar);
    put_file(at("raw.tar"), tar.ptr, tar.len);
    unpacks(at("raw.tar"), at("out"));
    assert_int_equal(count_entries(at("out")), 2);
    assert_true(fy_file_exists(at("out/f")));
    fy_str_release(&tar);
    free(manifest);
}

static void types_that_only_headers_know_are_refused(void **state)
{
    (void)state;
    static const struct {
        char type;
        const char *says;
    } types[] = {{'1', "hard link"},
                 {'2', "symbolic link"},
                 {'3', "device, pipe or socket"},
                 {'4', "device, pipe or socket"},
                 {'6', "device, pipe or socket"},
                 {'S', ""}};
    char *manifest = manifest_of("f", "hello", 5);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        fy_str tar = {0};
        put_raw(&tar, "t/manifest.json", '0', manifest, strlen(manifest));
        put_raw(&tar, "t/f", types[i].type, "", 0);
        put_raw(&tar, "t/f", '0', "hello", 5);
        put_raw_end(&tar);
        raw_refused(&tar, types[i].says);
        fy_str_release(&tar);
    }
    free(manifest);
}

/* Without a directory to unpack into, the archive's own name counts: it must be harmless to other
 * programs, and what it names a workspace. */
static void an_archive_may_not_choose_any_name_here(void **state)
{
    (void)state;
    static const char *const refused_names[] = {".git",     ".ssh",      "-rf",   "..x",
                                                "a\u202Eb", "a\xc2\x9b", "a\xffz"};
    char *manifest = manifest_of("workspace.json", "hello", 5);
    char *before = getcwd(NULL, 0), manifest_path[64], file_path[64];
    assert_int_equal(chdir(tmp), 0);
    item items[] = {{.path = manifest_path, .manifest = true},
                    {.path = file_path, .body = "hello"}};
    for (size_t i = 0; i < sizeof refused_names / sizeof refused_names[0]; i++) {
        fy_err e = {0};
        snprintf(manifest_path, sizeof manifest_path, "%s/manifest.json", refused_names[i]);
        snprintf(file_path, sizeof file_path, "%s/workspace.json", refused_names[i]);
        write_archive(at("x.tar"), items, 2, manifest);
        assert_int_equal(fy_unpack(at("x.tar"), NULL, NULL, NULL, NULL, &e), -1);
        assert_int_equal(e.code, FY_EARG);
        assert_says(&e, "give -o DIR");
        for (const char *p = e.msg; *p != '\0'; p++)
            assert_in_range(*p, ' ', '~');
        assert_int_equal(count_entries(tmp), 1);
        unpacks(at("x.tar"), at("out"));
        assert_int_equal(rename(at("out/manifest.json"), at("m")), 0);
        assert_int_equal(remove(at("m")) + remove(at("out/workspace.json")) + remove(at("out")), 0);
    }
    strcpy(manifest_path, "\xc3\xa4 b/manifest.json");
    strcpy(file_path, "\xc3\xa4 b/workspace.json");
    write_archive(at("x.tar"), items, 2, manifest);
    unpacks(at("x.tar"), NULL);
    assert_true(fy_file_exists(at("\xc3\xa4 b/workspace.json")));
    free(manifest);
    manifest = manifest_of("f", "hello", 5);
    item other[] = {MANIFEST, FILE_F};
    fy_err e = {0};
    write_archive(at("x.tar"), other, 2, manifest);
    assert_int_equal(fy_unpack(at("x.tar"), NULL, NULL, NULL, NULL, &e), -1);
    assert_says(&e, "lists no workspace.json");
    assert_int_equal(chdir(before), 0);
    free(before);
    free(manifest);
}

/* A directory whose header says 4 TB: the library would skip them in one call. */
static void a_directory_with_a_size_is_refused(void **state)
{
    (void)state;
    char *manifest = manifest_of("f", "hello", 5);
    fy_str tar = {0};
    put_raw(&tar, "t/manifest.json", '0', manifest, strlen(manifest));
    put_pax(&tar, "size", "4398046511104", 13);
    put_raw(&tar, "t/d", '5', "", 0);
    put_raw_end(&tar);
    raw_refused(&tar, "is a directory with contents of its own");
    fy_str_release(&tar);
    free(manifest);
}

/* 300 MB of zeros in some kilobytes, in front of a manifest that lists nothing of it. */
static void what_unfolds_without_end_before_the_manifest_is_refused(void **state)
{
    (void)state;
    char *manifest = manifest_of("f", "hello", 5);
    put_text(at("t.manifest"), manifest);
    char command[512];
    snprintf(
        command, sizeof command,
        "cd %s && mkdir t && mv t.manifest t/manifest.json && truncate -s 300M t/a && tar -c t/a "
        "t/manifest.json | zstd -q -1 -o bomb.tar.zst",
        tmp);
    if (system(command) != 0) {
        free(manifest);
        skip();
    }
    refused(at("bomb.tar.zst"), FY_EFORMAT, "refused as a trap");
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
    refused(at("x.tar"), FY_EFORMAT, "not a .tar.zst, .tar.gz or .tar archive");
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
    assert_int_equal(fy_unpack(at("x.tar.zst"), at("ws"), NULL, NULL, NULL, &e), -1);
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
        TEST(a_stream_is_read_once_and_refused_alike),
        TEST(names_that_headers_hide_are_refused),
        TEST(a_name_with_a_nul_is_its_first_part),
        TEST(types_that_only_headers_know_are_refused),
        TEST(an_archive_may_not_choose_any_name_here),
        TEST(a_directory_with_a_size_is_refused),
        TEST(what_unfolds_without_end_before_the_manifest_is_refused),
        TEST(small_archives_cannot_stand_for_large_files),
        TEST(plain_tar_archives_are_welcome),
        TEST(what_is_no_archive_is_called_by_its_name),
        TEST(an_interrupt_leaves_nothing_and_an_existing_directory_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
