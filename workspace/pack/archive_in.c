/* A tar archive through libarchive's reader: where it is at, for messages; what it unfolds to; and
 * that Ctrl-C is heard whatever the library is doing. */
#include "workspace/pack/archive_in.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/math.h"
#include "format/sniff.h"

#define READ_BYTES  ((size_t)1 << 18)
#define DRAIN_BYTES ((size_t)1 << 20)
#define BOMB_RATIO  1000
#define BOMB_FLOOR  ((uint64_t)64 << 20)

/* --- the source ------------------------------------------------------------------------------- */

static la_ssize_t read_fd(fy_archive_in *in)
{
    ssize_t n;
    do
        n = read(in->fd, in->buf, READ_BYTES);
    while (n < 0 && errno == EINTR && !fy_interrupted);
    return n;
}

static la_ssize_t on_read(struct archive *a, void *user, const void **p)
{
    fy_archive_in *in = user;
    la_ssize_t n;
    if (fy_interrupted) { /* the library may read gigabytes before it returns to us */
        archive_set_error(a, EINTR, "interrupted");
        return -1;
    }
    if (in->bytes != NULL) {
        *p = (const char *)in->bytes + in->read_bytes;
        n = (la_ssize_t)(in->n - (size_t)in->read_bytes);
    } else {
        *p = in->buf;
        n = read_fd(in);
    }
    if (n < 0) {
        archive_set_error(a, errno, "cannot read: %s", strerror(errno));
        return -1;
    }
    for (size_t i = (size_t)in->read_bytes; i < sizeof in->head && i < in->read_bytes + (size_t)n;
         i++)
        in->head[i] = ((const uint8_t *)*p)[i - in->read_bytes];
    in->read_bytes += (uint64_t)n;
    in->ended = n == 0;
    return n;
}

/* --- messages --------------------------------------------------------------------------------- */

void fy_archive_in_where(const fy_archive_in *in, char out[160])
{
    int n = snprintf(out, 160, "%s %llu bytes", in->ended ? "ends after" : "within its first",
                     (unsigned long long)in->read_bytes);
    if (in->entry[0] == '\0')
        return;
    if (in->entry_size < 0 || in->entry_read == (uint64_t)in->entry_size)
        snprintf(out + n, 160 - (size_t)n, ", after '%s'", in->entry);
    else
        snprintf(out + n, 160 - (size_t)n, ", in '%s' (%llu of %lld bytes)", in->entry,
                 (unsigned long long)in->entry_read, (long long)in->entry_size);
}

static int failed(const fy_archive_in *in, fy_err *e)
{
    char shown[96], where[160];
    const char *why = archive_error_string(in->a);
    if (fy_check_interrupt(e) != 0)
        return -1;
    fy_archive_in_where(in, where);
    if (in->ended)
        return fy_fail(e, FY_EFORMAT, "%s: cut off: it %s; get it again", in->name, where);
    return fy_fail(e, FY_EFORMAT, "%s: damaged, %s (%s)", in->name, where,
                   fy_quote(shown, sizeof shown, fy_span_of(why != NULL ? why : "unknown reason")));
}

/* Nothing could be read from it: name what it is instead, if its first bytes tell. */
static int not_an_archive(const fy_archive_in *in, fy_err *e)
{
    char shown[96];
    const char *why = archive_error_string(in->a);
    size_t n = in->read_bytes < sizeof in->head ? (size_t)in->read_bytes : sizeof in->head;
    const char *what = fy_sniff(in->head, n);
    static const char *const ours[] = {FY_SNIFF_ZSTD, FY_SNIFF_GZIP, FY_SNIFF_TAR};
    if (fy_check_interrupt(e) != 0)
        return -1;
    bool is_ours = false;
    for (size_t i = 0; what != NULL && i < sizeof ours / sizeof ours[0]; i++)
        is_ours |= strcmp(what, ours[i]) == 0;
    if (what != NULL && !is_ours)
        return fy_fail(e, FY_EFORMAT, "%s: is %s, expected a .tar.zst, .tar.gz or .tar archive",
                       in->name, what);
    if (is_ours && in->ended)
        return fy_fail(e, FY_EFORMAT, "%s: cut off: it ends after %llu bytes; get it again",
                       in->name, (unsigned long long)in->read_bytes);
    return fy_fail(
        e, FY_EFORMAT, "%s: cut off, damaged, or not a .tar.zst, .tar.gz or .tar archive (%s)",
        in->name, fy_quote(shown, sizeof shown, fy_span_of(why != NULL ? why : "unknown reason")));
}

/* --- reading ---------------------------------------------------------------------------------- */

void fy_archive_in_close(fy_archive_in *in)
{
    if (in->a != NULL)
        archive_read_free(in->a);
    free(in->buf);
    in->a = NULL;
    in->buf = NULL;
}

int fy_archive_in_open(fy_archive_in *in, fy_err *e)
{
    fy_archive_in_close(in);
    if (in->read_bytes > 0 && in->bytes == NULL && lseek(in->fd, 0, SEEK_SET) != 0)
        return fy_fail_errno(e, "%s: cannot be read again", in->name);
    in->read_bytes = in->entry_read = 0;
    in->ended = false;
    in->entry[0] = '\0';
    in->entry_size = -1;
    in->buf = in->bytes == NULL ? malloc(READ_BYTES) : NULL;
    in->a = archive_read_new();
    if (in->a == NULL || (in->bytes == NULL && in->buf == NULL)) {
        fy_archive_in_close(in);
        return fy_nomem(e);
    }
    int rc = archive_read_support_format_tar(in->a);
    if (rc == ARCHIVE_OK)
        rc = archive_read_support_filter_zstd(in->a);
    if (rc == ARCHIVE_OK)
        rc = archive_read_support_filter_gzip(in->a);
    if (rc == ARCHIVE_OK)
        rc = archive_read_open(in->a, in, NULL, on_read, NULL);
    if (rc >= ARCHIVE_WARN)
        return 0;
    not_an_archive(in, e);
    fy_archive_in_close(in);
    return -1;
}

/* A few kilobytes must not keep us busy with terabytes, even if we only skip them. */
static int check_ratio(const fy_archive_in *in, fy_err *e)
{
    la_int64_t unfolded = archive_filter_bytes(in->a, 0);
    uint64_t most;
    if (!fy_mul_u64(in->read_bytes, BOMB_RATIO, &most) || !fy_add_u64(most, BOMB_FLOOR, &most) ||
        !fy_add_u64(most, in->expected, &most) || unfolded <= 0 || (uint64_t)unfolded <= most)
        return 0;
    return fy_fail(e, FY_EFORMAT,
                   "%s: its first %llu bytes unfold to more than %llu%s: refused as a trap%s",
                   in->name, (unsigned long long)in->read_bytes, (unsigned long long)most,
                   in->expected == 0 ? " before its manifest comes" : "",
                   in->expected == 0 ? " ('ferry pack' puts the manifest first)" : "");
}

int fy_archive_in_next(fy_archive_in *in, struct archive_entry **en, fy_err *e)
{
    if (fy_check_interrupt(e) != 0)
        return -1;
    int rc = archive_read_next_header(in->a, en);
    if (rc == ARCHIVE_EOF)
        return 0;
    if (rc < ARCHIVE_WARN)
        return archive_file_count(in->a) == 0 ? not_an_archive(in, e) : failed(in, e);
    if (check_ratio(in, e) != 0)
        return -1;
    const char *path = archive_entry_pathname(*en);
    fy_quote(in->entry, sizeof in->entry, fy_span_of(path != NULL ? path : "?"));
    in->entry_read = 0;
    in->entry_size = archive_entry_size_is_set(*en) ? archive_entry_size(*en) : -1;
    return 1;
}

int fy_archive_in_read(fy_archive_in *in, const void **p, size_t *n, fy_err *e)
{
    la_int64_t offset;
    if (fy_check_interrupt(e) != 0)
        return -1;
    int rc = archive_read_data_block(in->a, p, n, &offset);
    if (rc == ARCHIVE_EOF)
        return 0;
    if (rc < ARCHIVE_WARN)
        return failed(in, e);
    if (offset < 0 || (uint64_t)offset != in->entry_read)
        return fy_fail(e, FY_EFORMAT,
                       "%s: a file with a hole at byte %llu, which a workspace never has", in->name,
                       (unsigned long long)in->entry_read);
    in->entry_read += *n;
    return check_ratio(in, e) == 0 ? 1 : -1;
}

int fy_archive_in_skip(fy_archive_in *in, fy_err *e)
{
    const void *p;
    size_t n;
    int rc;
    while ((rc = fy_archive_in_read(in, &p, &n, e)) == 1) {
    }
    return rc;
}

void fy_archive_in_drain(fy_archive_in *in)
{
    size_t left = DRAIN_BYTES;
    while (in->bytes == NULL && in->buf != NULL && !in->ended && left > 0) {
        la_ssize_t n = read_fd(in);
        if (n <= 0)
            break;
        left -= (size_t)n < left ? (size_t)n : left;
    }
}
