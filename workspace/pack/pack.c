/* The workspace as one archive: the manifest and its signature, then only what it lists, sorted,
 * nothing of this machine in it. We drive zstd ourselves, because libarchive has no option for the
 * size of its jobs: the bytes are the same for any number of threads. */
#include "workspace/pack/workspace.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "bundle/bundle_check.h"
#include "bundle/manifest_read.h"
#include "workspace/pack/manifest.h"
#include "workspace/pack/sign.h"

#define ZSTD_OUT_BYTES ((size_t)1 << 17)

enum { LEVEL_DEFAULT = 3, LEVEL_MAX = 19, JOB_BYTES = 2 << 20, WINDOW_LOG = 21 };

typedef enum { PLAIN, ZSTD, GZIP } method;

static const struct {
    const char *suffix;
    method method;
    int def_level, max_level;
} formats[] = {
    {".tar.zst", ZSTD, LEVEL_DEFAULT, LEVEL_MAX},
    {".tzst", ZSTD, LEVEL_DEFAULT, LEVEL_MAX},
    {".tar.gz", GZIP, 6, 9},
    {".tgz", GZIP, 6, 9},
    {".tar", PLAIN, 0, 0},
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

typedef struct {
    struct archive *a; /* owned */
    ZSTD_CCtx *zstd;   /* owned; between the archive and the file; NULL: nothing is */
    char *zstd_buf;    /* owned; ZSTD_OUT_BYTES */
    fy_out *out;       /* owned */
    uint64_t at;       /* bytes written */
    bool stop;         /* something failed: write no more */
    fy_err *e;
    int64_t mtime;
    fy_progress *progress;
} packer;

static int archive_failed(packer *k, fy_err *e)
{
    const char *why = archive_error_string(k->a);
    return fy_fail(e, FY_EIO, "cannot write the archive: %s", why != NULL ? why : "unknown reason");
}

static int to_file(packer *k, const void *p, size_t n, fy_err *e)
{
    if (fy_out_pwrite(k->out, p, n, k->at, e) != 0)
        return -1;
    fy_out_flush_behind(k->out, k->at, n);
    k->at += n;
    return 0;
}

/* --- zstd ------------------------------------------------------------------------------------- */

/* Workers that stay below 100 MB together (measured with zstd 1.5.4: 5, 16 and 90 MB each). */
static int most_workers(int level)
{
    return level <= 4 ? 16 : level <= 9 ? 4 : 1;
}

/* At least one worker, jobs of one size and one window: the same bytes for any number of threads.
 */
static int zstd_open(packer *k, int level, int n_threads, fy_err *e)
{
    const int most = most_workers(level);
    const struct {
        ZSTD_cParameter p;
        int value;
    } set[] = {{ZSTD_c_compressionLevel, level},
               {ZSTD_c_windowLog, WINDOW_LOG},
               {ZSTD_c_checksumFlag, 1},
               {ZSTD_c_nbWorkers, n_threads < 1      ? 1
                                  : n_threads < most ? n_threads
                                                     : most},
               {ZSTD_c_jobSize, JOB_BYTES}};
    k->zstd = ZSTD_createCCtx();
    k->zstd_buf = malloc(ZSTD_OUT_BYTES);
    if (k->zstd == NULL || k->zstd_buf == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
        size_t rc = ZSTD_CCtx_setParameter(k->zstd, set[i].p, set[i].value);
        if (ZSTD_isError(rc))
            return fy_fail(e, FY_EUNSUPPORTED, "this zstd library cannot compress on threads: %s",
                           ZSTD_getErrorName(rc));
    }
    return 0;
}

/* All of p, and with ZSTD_e_end what the library still holds. */
static int zstd_add(packer *k, const void *p, size_t n, ZSTD_EndDirective end, fy_err *e)
{
    ZSTD_inBuffer in = {p, n, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {k->zstd_buf, ZSTD_OUT_BYTES, 0};
        left = ZSTD_compressStream2(k->zstd, &out, &in, end);
        if (ZSTD_isError(left))
            return fy_fail(e, FY_ENOMEM, "zstd cannot compress: %s", ZSTD_getErrorName(left));
        if (out.pos > 0 && to_file(k, k->zstd_buf, out.pos, e) != 0)
            return -1;
    } while (in.pos < in.size || (end == ZSTD_e_end && left > 0));
    return 0;
}

/* At level 19 a job takes a second, and freeing the context waits for those that run. After Ctrl-C
 * they are left to the end of the process: their buffers are their own. */
static ZSTD_CCtx *abandoned;

static void zstd_close(packer *k)
{
    if (fy_interrupted && k->zstd != NULL)
        abandoned = k->zstd;
    else
        ZSTD_freeCCtx(k->zstd);
    free(k->zstd_buf);
}

/* --- libarchive ------------------------------------------------------------------------------- */

static la_ssize_t on_write(struct archive *a, void *user, const void *p, size_t n)
{
    packer *k = user;
    int rc = k->stop           ? -1
             : k->zstd != NULL ? zstd_add(k, p, n, ZSTD_e_continue, k->e)
                               : to_file(k, p, n, k->e);
    if (rc != 0) {
        archive_set_error(a, EIO, "write failed"); /* k->e has the message */
        return -1;
    }
    return (la_ssize_t)n;
}

/* --- opening ---------------------------------------------------------------------------------- */

static int format_of(const char *path, size_t *out, fy_err *e)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < N_FORMATS; i++) {
        size_t s = strlen(formats[i].suffix);
        if (n > s && strcmp(path + n - s, formats[i].suffix) == 0) {
            *out = i;
            return 0;
        }
    }
    return fy_fail(e, FY_EARG, "%s: the name must end in .tar.zst, .tar.gz or .tar", path);
}

static int check_level(size_t f, int level, fy_err *e)
{
    if (formats[f].method == PLAIN)
        return level == 0
                   ? 0
                   : fy_fail(e, FY_EARG, "a .tar archive is not compressed: it takes no level");
    if (level < 0 || level > formats[f].max_level)
        return fy_fail(e, FY_EARG, "level %d, expected 1 to %d for %s", level, formats[f].max_level,
                       formats[f].suffix);
    return 0;
}

/* gzip's header would carry the time of the run. */
static int set_gzip(packer *k, int level, fy_err *e)
{
    char text[16];
    snprintf(text, sizeof text, "%d", level);
    return archive_write_add_filter_gzip(k->a) == ARCHIVE_OK &&
                   archive_write_set_filter_option(k->a, "gzip", "compression-level", text) ==
                       ARCHIVE_OK &&
                   archive_write_set_filter_option(k->a, "gzip", "timestamp", NULL) == ARCHIVE_OK
               ? 0
               : archive_failed(k, e);
}

static int set_method(packer *k, size_t f, const fy_pack_params *p, fy_err *e)
{
    int level = p->level > 0 ? p->level : formats[f].def_level;
    if (formats[f].method == GZIP)
        return set_gzip(k, level, e);
    return formats[f].method == ZSTD ? zstd_open(k, level, p->n_threads, e) : 0;
}

static bool is_ascii(const char *s)
{
    while (*s > 0 && *s <= '~')
        s++;
    return *s == '\0';
}

static int open_archive(packer *k, size_t f, const fy_pack_params *p, const char *top, fy_err *e)
{
    k->a = archive_write_new();
    if (k->a == NULL)
        return fy_nomem(e);
    if (archive_write_set_format_pax_restricted(k->a) != ARCHIVE_OK)
        return archive_failed(k, e);
    /* the bytes of a name must not depend on the locale; costs a header per file, so only if needed
     */
    if (!is_ascii(top) &&
        archive_write_set_format_option(k->a, "pax", "hdrcharset", "BINARY") != ARCHIVE_OK)
        return archive_failed(k, e);
    if (set_method(k, f, p, e) != 0)
        return -1;
    archive_write_set_bytes_in_last_block(k->a, 1);
    return archive_write_open(k->a, k, NULL, on_write, NULL) == ARCHIVE_OK ? 0
                                                                           : archive_failed(k, e);
}

/* --- entries ---------------------------------------------------------------------------------- */

static int put_header(packer *k, const char *top, const char *path, uint64_t bytes, uint32_t mode,
                      fy_err *e)
{
    char *name = fy_path_join(top, path);
    struct archive_entry *en = archive_entry_new();
    int rc = name != NULL && en != NULL ? 0 : fy_nomem(e);
    if (rc == 0) {
        archive_entry_copy_pathname(en, name);
        archive_entry_set_filetype(en, AE_IFREG);
        archive_entry_set_perm(en, (mode_t)mode);
        archive_entry_set_size(en, (la_int64_t)bytes);
        archive_entry_set_mtime(en, (time_t)k->mtime, 0);
        archive_entry_set_uid(en, 0);
        archive_entry_set_gid(en, 0);
        if (archive_write_header(k->a, en) < ARCHIVE_WARN)
            rc = archive_failed(k, e);
    }
    archive_entry_free(en);
    free(name);
    return rc;
}

static int put_bytes(packer *k, const void *p, size_t n, fy_err *e)
{
    return archive_write_data(k->a, p, n) == (la_ssize_t)n ? 0 : archive_failed(k, e);
}

typedef struct {
    packer *k;
    uint64_t left; /* bytes that the manifest lists */
} listed;

static int put_listed_bytes(void *user, const void *p, size_t n, fy_err *e)
{
    listed *l = user;
    if (n > l->left)
        return fy_fail(e, FY_EVERIFY, "has grown beyond the bytes of the manifest");
    l->left -= n;
    return put_bytes(l->k, p, n, e);
}

/* One listed file, which must be exactly what the manifest lists. */
static int put_file(packer *k, const char *top, int fd, const fy_manifest_entry *m, fy_err *e)
{
    struct stat st;
    fy_digest found;
    listed l = {k, m->bytes};
    if (fstat(fd, &st) != 0)
        return fy_fail_errno(e, "cannot read its size");
    if (fy_listed_fits(&st, m, false, e) != 0 ||
        put_header(k, top, m->path, m->bytes, m->mode, e) != 0 ||
        fy_digest_fd(fd, "file", put_listed_bytes, &l, k->progress, &found, e) != 0)
        return -1;
    int rc = fy_digest_compare(&found, m, e);
    fy_digest_release(&found);
    return rc;
}

static int put_listed(packer *k, const char *dir, const char *top, const fy_manifest_entry *m,
                      fy_err *e)
{
    char *path = fy_path_join(dir, m->path);
    if (path == NULL)
        return fy_nomem(e);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int rc = fd < 0 ? fy_fail_errno(e, "listed in the manifest, cannot open")
                    : put_file(k, top, fd, m, e);
    if (rc != 0)
        fy_ctx(e, "%s", path);
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

/* The manifest and its signature go first, so that a reader of the stream knows what to expect and
 * from whom before the first file. */
static int put_all(packer *k, const char *dir, const char *top, const fy_manifest *m,
                   const fy_seal *seal, fy_err *e)
{
    const struct {
        const char *name;
        fy_span text;
        bool there;
    } first[] = {{FY_MANIFEST_NAME, seal->manifest, true},
                 {FY_MANIFEST_SIG, seal->sig, seal->has_sig},
                 {FY_MANIFEST_KEY, seal->key, seal->has_key}};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        if (first[i].there && (put_header(k, top, first[i].name, first[i].text.len, 0644, e) != 0 ||
                               put_bytes(k, first[i].text.ptr, first[i].text.len, e) != 0))
            return -1;
    }
    for (size_t i = 0; i < m->n; i++) {
        if (put_listed(k, dir, top, &m->entry[i], e) != 0)
            return -1;
    }
    if (archive_write_close(k->a) != ARCHIVE_OK)
        return archive_failed(k, e);
    return k->zstd != NULL ? zstd_add(k, "", 0, ZSTD_e_end, e) : 0;
}

/* --- the job ---------------------------------------------------------------------------------- */

/* The directory's own name, also for "." and "..". NULL with *e set. */
static char *top_of(const char *dir, fy_err *e)
{
    fy_span base = fy_path_base(dir);
    char *real = NULL, *top = NULL;
    if (!fy_path_is_plain(base)) {
        real = realpath(dir, NULL);
        base = real != NULL ? fy_path_base(real) : (fy_span){"", 0};
    }
    if (!fy_path_is_plain(base))
        fy_fail(e, FY_EARG, "%s: has no name that an archive could use", dir);
    else if ((top = strndup(base.ptr, base.len)) == NULL)
        fy_nomem(e);
    free(real);
    return top;
}

static int warn_unlisted(const char *dir, const fy_manifest *m, fy_err *e)
{
    fy_tree t;
    char shown[FY_QUOTE_BYTES];
    if (fy_tree_unlisted(dir, m, &t, e) != 0)
        return -1;
    if (t.n > 0)
        fy_log(FY_LOG_WARN, "%s: %zu file%s not in the manifest and not packed, first %s", dir, t.n,
               t.n > 1 ? "s are" : " is", fy_quote(shown, sizeof shown, fy_span_of(t.path[0])));
    fy_tree_release(&t);
    return 0;
}

static int pack_to(packer *k, const char *dir, const char *archive, size_t format,
                   const fy_pack_params *p, const fy_manifest *m, const fy_seal *seal, fy_err *e)
{
    char *top = top_of(dir, e);
    if (top == NULL)
        return -1;
    k->e = e;
    k->out = fy_out_open(archive, 0, e);
    int rc = k->out != NULL ? open_archive(k, format, p, top, e) : -1;
    if (rc == 0)
        rc = put_all(k, dir, top, m, seal, e);
    k->stop = rc != 0; /* archive_write_fail would leak the filters (libarchive 3.6) */
    if (k->a != NULL)
        archive_write_free(k->a);
    zstd_close(k);
    free(top);
    if (rc == 0)
        rc = fy_out_commit(k->out, e);
    else
        fy_out_abort(k->out);
    return rc;
}

static int check_seal(const char *dir, const fy_seal *seal, fy_err *e)
{
    fy_signature s;
    if (fy_signature_check(seal, NULL, &s, e) != 0)
        return -1;
    int rc =
        s.state == FY_SIG_WRONG ? fy_fail(e, FY_EVERIFY, "%s: WRONG signature: %s", dir, s.why) : 0;
    fy_signature_release(&s);
    return rc;
}

int fy_pack(const char *dir, const char *archive, const fy_pack_params *p, fy_progress *progress,
            fy_err *e)
{
    size_t format = 0;
    fy_manifest m;
    fy_seal seal;
    if (format_of(archive, &format, e) != 0 || check_level(format, p->level, e) != 0 ||
        fy_manifest_read(dir, &m, e) != 0)
        return -1;
    int rc = fy_seal_open(dir, &seal, e);
    if (rc == 0) {
        packer k = {.mtime = p->mtime, .progress = progress};
        for (size_t i = 0; progress != NULL && i < m.n; i++)
            progress->total_bytes += m.entry[i].bytes;
        rc = check_seal(dir, &seal, e);
        if (rc == 0)
            rc = warn_unlisted(dir, &m, e);
        if (rc == 0)
            rc = pack_to(&k, dir, archive, format, p, &m, &seal, e);
        fy_seal_close(&seal);
    }
    fy_manifest_release(&m);
    return rc;
}

void fy_archive_libraries(fy_str *out)
{
    const char *zstd = archive_libzstd_version();
    fy_str_printf(out, "libarchive %d.%d.%d\n", archive_version_number() / 1000000,
                  archive_version_number() / 1000 % 1000, archive_version_number() % 1000);
    if (zstd != NULL)
        fy_str_printf(out, "zstd %s\n", zstd);
}
