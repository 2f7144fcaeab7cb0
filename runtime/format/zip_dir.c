/* Parsing the directory of a zip archive from the end of the file backwards. */
#include "format/zip_dir.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/math.h"
#include "base/str.h"

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    MAX_COMMENT = 0xFFFF,
    FLAG_ENCRYPTED = 1,
    EXTRA_ZIP64 = 1,
};

typedef struct {
    const uint8_t *p;
    size_t n;
    uint64_t count, at, bytes; /* entries; where the central directory lies */
} archive;

static bool has_mark(const uint8_t *p, const char mark[4])
{
    return memcmp(p, mark, 4) == 0;
}

/* --- the end of the archive ------------------------------------------------------------------- */

/* The end record is the last one whose comment reaches to the end of the file. */
static int find_end(const archive *a, size_t *out, fy_err *e)
{
    size_t lowest = a->n > END_BYTES + MAX_COMMENT ? a->n - END_BYTES - MAX_COMMENT : 0;
    for (size_t at = a->n < END_BYTES ? 0 : a->n - END_BYTES + 1; at-- > lowest;) {
        const uint8_t *r = a->p + at;
        if (has_mark(r, "PK\5\6") && at + END_BYTES + fy_le16(r + 20) == a->n) {
            *out = at;
            return 0;
        }
    }
    return fy_fail(e, FY_EFORMAT,
                   "the zip archive has no directory at its end: it is incomplete; "
                   "download it again");
}

/* The 64-bit record replaces the plain one if a locator points at it. PyTorch always writes it, and
 * the plain one may then hold all ones. */
static int read_end64(archive *a, size_t end, fy_err *e)
{
    const uint8_t *locator = a->p + end - LOCATOR_BYTES;
    uint64_t at = fy_le64(locator + 8), past;
    if (!fy_add_u64(at, END64_BYTES, &past) || past > end - LOCATOR_BYTES ||
        !has_mark(a->p + at, "PK\6\6"))
        return fy_fail(e, FY_EFORMAT, "the zip64 record is not at byte %" PRIu64 " as announced",
                       at);
    const uint8_t *r = a->p + at;
    if (fy_le32(r + 16) != 0 || fy_le32(r + 20) != 0 || fy_le64(r + 24) != fy_le64(r + 32))
        return fy_fail(e, FY_EUNSUPPORTED, "the zip archive is one part of several");
    a->count = fy_le64(r + 32);
    a->bytes = fy_le64(r + 40);
    a->at = fy_le64(r + 48);
    return 0;
}

static int read_end(archive *a, fy_err *e)
{
    size_t end = 0;
    uint64_t past;
    if (find_end(a, &end, e) != 0)
        return -1;
    const uint8_t *r = a->p + end;
    if (end >= LOCATOR_BYTES && has_mark(r - LOCATOR_BYTES, "PK\6\7")) {
        if (read_end64(a, end, e) != 0)
            return -1;
    } else {
        if (fy_le16(r + 4) != 0 || fy_le16(r + 6) != 0 || fy_le16(r + 8) != fy_le16(r + 10))
            return fy_fail(e, FY_EUNSUPPORTED, "the zip archive is one part of several");
        a->count = fy_le16(r + 10);
        a->bytes = fy_le32(r + 12);
        a->at = fy_le32(r + 16);
    }
    if (!fy_add_u64(a->at, a->bytes, &past) || past > end)
        return fy_fail(e, FY_EFORMAT,
                       "the zip directory of %" PRIu64 " bytes at byte %" PRIu64
                       " reaches beyond its end record at %zu",
                       a->bytes, a->at, end);
    if (a->count > a->bytes / CENTRAL_BYTES)
        return fy_fail(e, FY_EFORMAT,
                       "the zip directory of %" PRIu64 " bytes cannot hold %" PRIu64 " entries",
                       a->bytes, a->count);
    return 0;
}

/* --- entries ---------------------------------------------------------------------------------- */

typedef struct {
    uint64_t packed, bytes, local; /* local: where the local header is */
} extent;

/* The extra field holds those of the three numbers that did not fit, in this order. */
static int read_zip64(const uint8_t *extra, size_t n, extent *x, fy_err *e)
{
    uint64_t *wanted[] = {&x->bytes, &x->packed, &x->local};
    while (n >= 4) {
        size_t len = fy_le16(extra + 2), at = 4;
        if (len > n - 4)
            break;
        if (fy_le16(extra) == EXTRA_ZIP64) {
            for (int i = 0; i < 3; i++) {
                if (*wanted[i] != UINT32_MAX)
                    continue;
                if (at + 8 > len + 4)
                    return fy_fail(e, FY_EFORMAT, "its zip64 field is too short");
                *wanted[i] = fy_le64(extra + at);
                at += 8;
            }
            return 0;
        }
        extra += 4 + len;
        n -= 4 + len;
    }
    return 0; /* none: the numbers hold */
}

static int find_data(const archive *a, const extent *x, const uint8_t **out, fy_err *e)
{
    uint64_t end;
    if (x->local > a->n || a->n - x->local < LOCAL_BYTES || !has_mark(a->p + x->local, "PK\3\4"))
        return fy_fail(e, FY_EFORMAT, "has no header at byte %" PRIu64, x->local);
    const uint8_t *r = a->p + x->local;
    uint64_t at = x->local + LOCAL_BYTES + fy_le16(r + 26) + fy_le16(r + 28);
    if (!fy_add_u64(at, x->bytes, &end) || end > a->n)
        return fy_fail(e, FY_EFORMAT,
                       "its %" PRIu64 " bytes at byte %" PRIu64
                       " reach beyond the end of the file at %zu",
                       x->bytes, at, a->n);
    *out = a->p + at;
    return 0;
}

static int check_entry(const archive *a, const uint8_t *r, fy_zip_entry *entry, fy_err *e)
{
    extent x = {fy_le32(r + 20), fy_le32(r + 24), fy_le32(r + 42)};
    if (fy_le16(r + 8) & FLAG_ENCRYPTED)
        return fy_fail(e, FY_EUNSUPPORTED, "is encrypted");
    entry->method = fy_le16(r + 10);
    if (entry->method != 0)
        return 0;
    if (read_zip64(r + CENTRAL_BYTES + fy_le16(r + 28), fy_le16(r + 30), &x, e) != 0)
        return -1;
    if (x.packed != x.bytes)
        return fy_fail(e, FY_EFORMAT,
                       "is stored, but has %" PRIu64 " bytes in the archive and %" PRIu64
                       " outside",
                       x.packed, x.bytes);
    entry->bytes = x.bytes;
    return find_data(a, &x, &entry->data, e);
}

static int add_entry(fy_zip_dir *z, const fy_zip_entry *entry, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    int rc = z->n < UINT32_MAX ? fy_names_add(&z->index, entry->name, (uint32_t)z->n) : -1;
    if (rc > 0)
        return fy_fail(e, FY_EFORMAT, "the zip archive has two entries '%s'",
                       fy_quote(shown, sizeof shown, entry->name));
    if (rc < 0)
        return fy_nomem(e);
    return fy_append(&z->entries, &z->n, &z->cap, entry, sizeof *entry, e);
}

int fy_zip_dir_read(fy_zip_dir *z, const void *p, size_t n, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    archive a = {.p = p, .n = n};
    if (read_end(&a, e) != 0)
        return -1;
    const uint8_t *r = a.p + a.at;
    size_t left = (size_t)a.bytes;
    for (uint64_t i = 0; i < a.count; i++) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        if (left < CENTRAL_BYTES || !has_mark(r, "PK\1\2"))
            return fy_fail(e, FY_EFORMAT, "entry %" PRIu64 " of the zip directory is damaged", i);
        size_t len = CENTRAL_BYTES + (size_t)fy_le16(r + 28) + fy_le16(r + 30) + fy_le16(r + 32);
        if (len > left)
            return fy_fail(e, FY_EFORMAT, "entry %" PRIu64 " of the zip directory is cut off", i);
        fy_zip_entry entry = {.name = {(const char *)r + CENTRAL_BYTES, fy_le16(r + 28)}};
        if (check_entry(&a, r, &entry, e) != 0)
            return fy_ctx(e, "zip entry '%s'", fy_quote(shown, sizeof shown, entry.name));
        if (add_entry(z, &entry, e) != 0)
            return -1;
        r += len;
        left -= len;
    }
    return 0;
}

int fy_zip_need_stored(const fy_zip_entry *entry, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (entry->method == 0)
        return 0;
    return fy_fail(e, FY_EUNSUPPORTED,
                   "zip entry '%s': is compressed (method %u), expected stored as PyTorch writes "
                   "it: unpack the archive and zip it again with -0",
                   fy_quote(shown, sizeof shown, entry->name), entry->method);
}

void fy_zip_dir_release(fy_zip_dir *z)
{
    fy_names_release(&z->index);
    free(z->entries);
    *z = (fy_zip_dir){0};
}

const fy_zip_entry *fy_zip_dir_find(const fy_zip_dir *z, fy_span name)
{
    uint32_t i;
    return fy_names_find(&z->index, name, &i) ? &z->entries[i] : NULL;
}
