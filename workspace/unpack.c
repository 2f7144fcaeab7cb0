/* An archive of unknown origin becomes a workspace, or nothing.
 *
 * Two passes over the archive: the first reads headers until it has the manifest, the second takes
 * each entry only when the manifest lists it, with exactly the listed size and hash. So no entry
 * can decide where it goes or how much it writes, whatever order the archive has. */
#include "workspace/workspace.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/quote.h"
#include "bundle/manifest_read.h"
#include "format/sniff.h"
#include "workspace/digest.h"
#include "workspace/staging.h"

#define READ_BYTES ((size_t)1 << 18)

typedef struct {
    const char *name;  /* for messages, and the path when bytes is NULL */
    const void *bytes; /* view */
    size_t n;
    fy_staging *st; /* owned; NULL: check only */
    char *top;      /* owned; the one directory everything is in */
    char *text;     /* owned; of the manifest */
    size_t text_n;
    fy_manifest manifest;
    bool *seen; /* owned; per entry of the manifest */
    bool seen_manifest;
    fy_progress *progress;
} unpacker;

/* --- the archive ------------------------------------------------------------------------------ */

static int archive_failed(const unpacker *u, struct archive *a, fy_err *e)
{
    char shown[128];
    const char *why = archive_error_string(a);
    return fy_fail(e, FY_EFORMAT, "%s: the archive is cut off or damaged (%s)", u->name,
                   fy_quote(shown, sizeof shown, fy_span_of(why != NULL ? why : "unknown reason")));
}

/* Nothing could be read from it; what it is instead is named, as far as its first bytes tell. */
static int not_an_archive(const unpacker *u, struct archive *a, fy_err *e)
{
    fy_map map = {0};
    const char *what = NULL, *why = archive_error_string(a);
    char shown[128];
    if (u->bytes != NULL) {
        what = fy_sniff(u->bytes, u->n);
    } else if (fy_map_open(&map, u->name, e) != 0) {
        return -1;
    } else {
        what = fy_sniff(map.data, map.size);
        fy_map_close(&map);
    }
    static const char *const ours[] = {FY_SNIFF_ZSTD, FY_SNIFF_GZIP, FY_SNIFF_TAR};
    for (size_t i = 0; what != NULL && i < sizeof ours / sizeof ours[0]; i++)
        what = strcmp(what, ours[i]) == 0 ? NULL : what; /* begins like one, but cannot be read */
    if (what != NULL)
        return fy_fail(e, FY_EFORMAT, "%s: is %s, expected a .tar.zst, .tar.gz or .tar archive",
                       u->name, what);
    return fy_fail(e, FY_EFORMAT,
                   "%s: cut off, damaged, or no .tar.zst, .tar.gz or .tar archive (%s)", u->name,
                   fy_quote(shown, sizeof shown, fy_span_of(why != NULL ? why : "unknown reason")));
}

static struct archive *open_archive(const unpacker *u, fy_err *e)
{
    struct archive *a = archive_read_new();
    if (a == NULL) {
        fy_nomem(e);
        return NULL;
    }
    int rc = archive_read_support_format_tar(a);
    if (rc == ARCHIVE_OK)
        rc = archive_read_support_filter_zstd(a);
    if (rc == ARCHIVE_OK)
        rc = archive_read_support_filter_gzip(a);
    if (rc == ARCHIVE_OK)
        rc = u->bytes != NULL ? archive_read_open_memory(a, u->bytes, u->n)
                              : archive_read_open_filename(a, u->name, READ_BYTES);
    if (rc < ARCHIVE_WARN) {
        not_an_archive(u, a, e);
        archive_read_free(a);
        return NULL;
    }
    return a;
}

/* 1: *en is the next entry; 0: the archive has ended; -1. */
static int next_entry(const unpacker *u, struct archive *a, struct archive_entry **en, fy_err *e)
{
    int rc = archive_read_next_header(a, en);
    if (rc == ARCHIVE_EOF)
        return 0;
    if (rc >= ARCHIVE_WARN)
        return 1;
    return archive_file_count(a) == 0 ? not_an_archive(u, a, e) : archive_failed(u, a, e);
}

/* 1: a piece at *p; 0: the entry has ended; -1. `at` is where the piece must begin. */
static int next_piece(const unpacker *u, struct archive *a, uint64_t at, const void **p, size_t *n,
                      fy_err *e)
{
    la_int64_t offset;
    if (fy_check_interrupt(e) != 0)
        return -1;
    int rc = archive_read_data_block(a, p, n, &offset);
    if (rc == ARCHIVE_EOF)
        return 0;
    if (rc < ARCHIVE_WARN)
        return archive_failed(u, a, e);
    if (offset < 0 || (uint64_t)offset != at)
        return fy_fail(e, FY_EFORMAT,
                       "%s: a file with a hole at byte %llu, which a workspace never has", u->name,
                       (unsigned long long)at);
    return 1;
}

/* --- names ------------------------------------------------------------------------------------ */

static int bad_name(const unpacker *u, const char *path, const char *why, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EFORMAT, "%s: entry '%s' %s; nothing was unpacked", u->name,
                   fy_quote(shown, sizeof shown, fy_span_of(path)), why);
}

static const char *refused_type(struct archive_entry *en)
{
    if (archive_entry_hardlink(en) != NULL)
        return "is a hard link; expected only files and directories";
    if (archive_entry_sparse_count(en) > 0)
        return "is a sparse file, which a workspace never has"; /* a few bytes could stand for any
                                                                   size */
    switch (archive_entry_filetype(en)) {
    case AE_IFREG:
    case AE_IFDIR:
        return NULL;
    case AE_IFLNK:
        return "is a symbolic link; expected only files and directories";
    default:
        return "is a device, pipe or socket; expected only files and directories";
    }
}

/* Every segment plain; "./" before and '/' after the path are tar's habit. Returns the trimmed path
 * in out. */
static const char *refused_path(const char *path, char *out, size_t size)
{
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    size_t n = strlen(path);
    if (path[0] == '/')
        return "has an absolute path";
    while (n > 0 && path[n - 1] == '/')
        n--;
    if (n >= size)
        return "has a path that is too long";
    memcpy(out, path, n);
    out[n] = '\0';
    for (const char *p = out; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7F)
            return "has control characters in its path";
    }
    for (const char *p = out; n > 0;) {
        size_t len = strcspn(p, "/");
        if (len == 2 && memcmp(p, "..", 2) == 0)
            return "has '..' in its path";
        if (!fy_path_is_plain((fy_span){p, len}))
            return "has a path that is not plain";
        if (p[len] == '\0')
            break;
        p += len + 1;
    }
    return NULL;
}

/* Checks type and path, and that the entry is in the one top directory. *rel: its path below that
 * (a view of out); "" for the directory itself. */
static int entry_rel(unpacker *u, struct archive_entry *en, char *out, size_t size,
                     const char **rel, fy_err *e)
{
    const char *path = archive_entry_pathname(en);
    if (path == NULL)
        path = archive_entry_pathname_utf8(en);
    if (path == NULL)
        return fy_fail(e, FY_EFORMAT, "%s: an entry's name cannot be read", u->name);
    bool is_dir = archive_entry_filetype(en) == AE_IFDIR;
    const char *why = refused_type(en);
    if (why == NULL)
        why = refused_path(path, out, size);
    size_t n = why == NULL ? strcspn(out, "/") : 0;
    *rel = out + n;
    if (why == NULL && out[n] == '\0' && !is_dir)
        why = "is outside the archive's top directory";
    if (why != NULL)
        return bad_name(u, path, why, e);
    if (n == 0) /* "./" itself */
        return 0;
    if (u->top == NULL && (u->top = strndup(out, n)) == NULL)
        return fy_nomem(e);
    if (strlen(u->top) != n || memcmp(u->top, out, n) != 0)
        return bad_name(u, path, "is in another top directory than the first one", e);
    *rel = out + n + (out[n] == '/');
    return 0;
}

/* --- first pass ------------------------------------------------------------------------------- */

static int read_manifest_text(unpacker *u, struct archive *a, fy_err *e)
{
    const void *p;
    size_t n;
    fy_str text = {0};
    int rc;
    while ((rc = next_piece(u, a, text.len, &p, &n, e)) == 1) {
        if (n > FY_MANIFEST_MAX_BYTES - text.len) {
            rc = fy_fail(e, FY_EFORMAT, "%s: its " FY_MANIFEST_NAME " has more than %u bytes",
                         u->name, FY_MANIFEST_MAX_BYTES);
            break;
        }
        fy_str_add(&text, p, n);
        if (text.oom) {
            rc = fy_nomem(e);
            break;
        }
    }
    if (rc != 0) {
        fy_str_release(&text);
        return rc;
    }
    u->text = text.ptr;
    u->text_n = text.len;
    if (fy_manifest_parse(text.ptr != NULL ? text.ptr : "", text.len, &u->manifest, e) != 0)
        return fy_ctx(e, "%s: " FY_MANIFEST_NAME, u->name);
    return 0;
}

static int find_manifest(unpacker *u, fy_err *e)
{
    struct archive *a = open_archive(u, e);
    struct archive_entry *en;
    char path[FY_MANIFEST_MAX_PATH + 256];
    const char *rel;
    if (a == NULL)
        return -1;
    int rc;
    bool found = false;
    while (!found && (rc = next_entry(u, a, &en, e)) == 1) {
        if ((rc = entry_rel(u, en, path, sizeof path, &rel, e)) != 0 ||
            (rc = fy_check_interrupt(e)) != 0)
            break;
        found = strcmp(rel, FY_MANIFEST_NAME) == 0 && archive_entry_filetype(en) == AE_IFREG;
        if (found)
            rc = read_manifest_text(u, a, e);
    }
    archive_read_free(a);
    if (rc == 0 && !found)
        rc = fy_fail(e, FY_EFORMAT,
                     "%s: has no " FY_MANIFEST_NAME
                     "; expected an archive made by 'ferry pack', whole",
                     u->name);
    return rc;
}

/* --- second pass ------------------------------------------------------------------------------ */

static int take_manifest(unpacker *u, struct archive *a, fy_err *e)
{
    const void *p;
    size_t n, at = 0;
    int rc;
    while ((rc = next_piece(u, a, at, &p, &n, e)) == 1) {
        if (n > u->text_n - at || memcmp(u->text + at, p, n) != 0)
            break;
        at += n;
    }
    if (rc == 1 || (rc == 0 && (at != u->text_n || u->seen_manifest)))
        return fy_fail(e, FY_EFORMAT,
                       "%s: holds " FY_MANIFEST_NAME " twice, or changes while it is read",
                       u->name);
    u->seen_manifest = true;
    return rc;
}

/* Writes to fd (>= 0) what must become the listed file. */
static int take_bytes(unpacker *u, struct archive *a, const fy_manifest_entry *m, int fd, fy_err *e)
{
    fy_digester *d = fy_digester_new(e);
    fy_digest found;
    const void *p;
    size_t n;
    uint64_t at = 0;
    if (d == NULL)
        return -1;
    int rc;
    while ((rc = next_piece(u, a, at, &p, &n, e)) == 1) {
        if (n > m->bytes - at) {
            rc = fy_fail(e, FY_EVERIFY, "more than the %llu bytes that the manifest lists",
                         (unsigned long long)m->bytes);
            break;
        }
        if ((fd >= 0 && fy_write_all(fd, p, n, "unpacked file", e) != 0) ||
            fy_digester_add(d, p, n, e) != 0) {
            rc = -1;
            break;
        }
        at += n;
        fy_progress_add(u->progress, n);
    }
    int ended = fy_digester_end(d, rc == 0 ? &found : NULL, e);
    if (rc != 0 || ended != 0)
        return -1;
    rc = fy_digest_compare(&found, m, e);
    fy_digest_release(&found);
    return rc;
}

static int take_file(unpacker *u, struct archive *a, struct archive_entry *en, const char *rel,
                     fy_err *e)
{
    const fy_manifest_entry *m = fy_manifest_find(&u->manifest, rel);
    if (m == NULL)
        return bad_name(u, archive_entry_pathname(en) != NULL ? archive_entry_pathname(en) : rel,
                        "is not listed in " FY_MANIFEST_NAME, e);
    size_t i = (size_t)(m - u->manifest.entry);
    if (u->seen[i])
        return bad_name(u, rel, "is there twice", e);
    u->seen[i] = true;
    int rc = 0;
    if (archive_entry_size_is_set(en) && (uint64_t)archive_entry_size(en) != m->bytes)
        rc = fy_fail(e, FY_EVERIFY, "%lld bytes, the manifest lists %llu",
                     (long long)archive_entry_size(en), (unsigned long long)m->bytes);
    int fd = rc == 0 && u->st != NULL ? fy_staging_create(u->st, rel, m->mode, e) : -1;
    if (rc == 0 && u->st != NULL && fd < 0)
        rc = -1;
    if (rc == 0)
        rc = take_bytes(u, a, m, fd, e);
    if (fd >= 0 && close(fd) != 0 && rc == 0)
        rc = fy_fail_errno(e, "cannot close");
    return rc == 0 ? 0 : fy_ctx(e, "%s: %s", u->name, rel);
}

static int take_entries(unpacker *u, fy_err *e)
{
    struct archive *a = open_archive(u, e);
    struct archive_entry *en;
    char path[FY_MANIFEST_MAX_PATH + 256];
    const char *rel;
    if (a == NULL)
        return -1;
    int rc;
    while ((rc = next_entry(u, a, &en, e)) == 1) {
        if ((rc = entry_rel(u, en, path, sizeof path, &rel, e)) != 0)
            break;
        if (archive_entry_filetype(en) == AE_IFDIR)
            continue; /* made when a file needs them */
        rc = strcmp(rel, FY_MANIFEST_NAME) == 0 ? take_manifest(u, a, e)
                                                : take_file(u, a, en, rel, e);
        if (rc != 0)
            break;
    }
    archive_read_free(a);
    for (size_t i = 0; rc == 0 && i < u->manifest.n; i++) {
        if (!u->seen[i])
            rc = fy_fail(e, FY_EVERIFY, "%s: ends without %s, which its manifest lists", u->name,
                         u->manifest.entry[i].path);
    }
    return rc;
}

/* --- the job ---------------------------------------------------------------------------------- */

static int begin(unpacker *u, uint64_t *bytes, fy_err *e)
{
    if (find_manifest(u, e) != 0)
        return -1;
    *bytes = 0;
    for (size_t i = 0; i < u->manifest.n; i++)
        *bytes += u->manifest.entry[i].bytes < UINT64_MAX - *bytes ? u->manifest.entry[i].bytes
                                                                   : UINT64_MAX - *bytes;
    u->seen = calloc(u->manifest.n + 1, sizeof *u->seen);
    return u->seen != NULL ? 0 : fy_nomem(e);
}

static void end(unpacker *u)
{
    fy_manifest_release(&u->manifest);
    free(u->top);
    free(u->text);
    free(u->seen);
}

int fy_unpack_check(const void *p, size_t n, const char *name, fy_err *e)
{
    unpacker u = {.name = name, .bytes = p, .n = n};
    uint64_t bytes;
    int rc = begin(&u, &bytes, e);
    if (rc == 0)
        rc = take_entries(&u, e);
    end(&u);
    return rc;
}

static int unpack_into(unpacker *u, const char *dir, uint64_t bytes, fy_err *e)
{
    u->st = fy_staging_open(dir, e);
    if (u->st == NULL)
        return -1;
    int rc = fy_staging_need(u->st, bytes, e);
    if (rc == 0)
        rc = take_entries(u, e);
    if (rc == 0)
        rc = fy_staging_write(u->st, FY_MANIFEST_NAME, 0644, u->text, u->text_n, e);
    if (rc == 0)
        return fy_staging_commit(u->st, e);
    fy_staging_abort(u->st);
    return rc;
}

/* Only regular files can be read twice. */
static int check_source(const char *path, fy_err *e)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return fy_fail_errno(e, "%s: cannot open", path);
    return S_ISREG(st.st_mode)
               ? 0
               : fy_fail(e, FY_EARG, "%s: %s, expected an archive file", path,
                         S_ISDIR(st.st_mode) ? "is a directory" : "is not a regular file");
}

int fy_unpack(const char *archive, const char *dir, char **made, fy_progress *progress, fy_err *e)
{
    if (check_source(archive, e) != 0)
        return -1;
    unpacker u = {.name = archive, .progress = progress};
    uint64_t bytes;
    char *name = NULL;
    int rc = begin(&u, &bytes, e);
    if (rc == 0) {
        if (progress != NULL)
            progress->total_bytes = bytes;
        rc = unpack_into(&u, dir != NULL ? dir : u.top, bytes, e);
    }
    if (rc == 0 && made != NULL && (name = strdup(dir != NULL ? dir : u.top)) == NULL)
        rc = fy_nomem(e);
    if (rc == 0 && made != NULL)
        *made = name;
    end(&u);
    return rc;
}
