/* The journal of an unfinished output: written after the data, read when a run resumes it. */
#include "format/write_journal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/math.h"
#include "base/path.h"
#include "base/process.h"
#include "base/str.h"

#define MAGIC "FYRESUME"
enum {
    HASHED = 24,     /* bytes of the foot in front of its hash */
    KEY_AT = HASHED, /* in the foot */
    SLOTS_BYTES = 2 * FY_JOURNAL_SLOT_BYTES,
    DIGEST_BYTES = 24, /* of a slot */
    SLOT_USED = 8 + DIGEST_BYTES,
    SHOWN_BYTES = 400, /* of a line */
};

static int hash_two(const void *a, size_t n_a, fy_span b, uint8_t out[FY_SHA256_BYTES], fy_err *e)
{
    fy_sha256 *h = fy_sha256_new(e);
    if (h == NULL)
        return -1;
    if (fy_sha256_add(h, a, n_a, e) != 0 || fy_sha256_add(h, b.ptr, b.len, e) != 0) {
        fy_sha256_end(h, NULL, NULL);
        return -1;
    }
    return fy_sha256_end(h, out, e);
}

static int make_slot(const fy_journal *j, uint64_t done, uint8_t out[SLOT_USED], fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    memcpy(out, &done, 8);
    if (hash_two(out, 8, (fy_span){(const char *)j->key, sizeof j->key}, hash, e) != 0)
        return -1;
    memcpy(out + 8, hash, DIGEST_BYTES);
    return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

uint64_t fy_journal_bytes(const uint8_t foot[FY_JOURNAL_FOOT_BYTES], uint64_t file_bytes)
{
    const uint64_t at = fy_le64(foot + 8), identity = fy_le64(foot + 16);
    const uint64_t n = SLOTS_BYTES + FY_JOURNAL_FOOT_BYTES + identity;
    return memcmp(foot, MAGIC, 8) == 0 && identity <= FY_JOURNAL_MAX_IDENTITY && n <= file_bytes &&
                   file_bytes - n == at
               ? n
               : 0;
}

bool fy_journal_parse(fy_journal *j, const void *p, size_t n, uint64_t file_bytes)
{
    const uint8_t *slots = p, *foot = slots + n - FY_JOURNAL_FOOT_BYTES;
    uint8_t key[FY_SHA256_BYTES];
    if (n < SLOTS_BYTES + FY_JOURNAL_FOOT_BYTES || fy_journal_bytes(foot, file_bytes) != n)
        return false;
    *j = (fy_journal){.at = fy_le64(foot + 8),
                      .identity = {(const char *)slots + SLOTS_BYTES, fy_le64(foot + 16)}};
    if (hash_two(foot, HASHED, j->identity, key, NULL) != 0 ||
        memcmp(key, foot + KEY_AT, sizeof key) != 0)
        return false;
    memcpy(j->key, key, sizeof key);
    for (int s = 0; s < 2; s++) {
        const uint8_t *slot = slots + s * FY_JOURNAL_SLOT_BYTES;
        const uint64_t done = fy_le64(slot);
        uint8_t want[SLOT_USED];
        if (make_slot(j, done, want, NULL) != 0 || memcmp(slot, want, sizeof want) != 0 ||
            done < j->done)
            continue;
        j->done = done;
        j->slot = 1 - s;
    }
    return true;
}

int fy_journal_read(fy_journal *j, fy_out *out, fy_str *bytes, fy_err *e)
{
    uint8_t foot[FY_JOURNAL_FOOT_BYTES];
    uint64_t size, n;
    if (fy_out_size(out, &size, e) != 0)
        return -1;
    if (size < sizeof foot)
        return 1;
    if (fy_out_pread(out, foot, sizeof foot, size - sizeof foot, e) != 0)
        return -1;
    n = fy_journal_bytes(foot, size);
    if (n == 0)
        return 1;
    for (uint64_t at = 0; at < n;) {
        uint8_t buf[FY_JOURNAL_SLOT_BYTES];
        const size_t step = n - at < sizeof buf ? (size_t)(n - at) : sizeof buf;
        if (fy_out_pread(out, buf, step, size - n + at, e) != 0)
            return -1;
        fy_str_add(bytes, buf, step);
        at += step;
    }
    if (bytes->oom)
        return fy_nomem(e);
    return fy_journal_parse(j, bytes->ptr, bytes->len, size) ? 0 : 1;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* The old bytes are dropped first, so that no old slot can be taken for a new one. */
int fy_journal_begin(fy_journal *j, fy_out *out, uint64_t at, fy_span identity, fy_err *e)
{
    uint8_t foot[FY_JOURNAL_FOOT_BYTES] = MAGIC;
    const uint64_t len = identity.len, text = at + SLOTS_BYTES, size = text + len + sizeof foot;
    *j = (fy_journal){.at = at};
    memcpy(foot + 8, &at, 8);
    memcpy(foot + 16, &len, 8);
    if (len > FY_JOURNAL_MAX_IDENTITY)
        return fy_fail(
            e, FY_EFIT,
            "%s: too many source files: this conversion cannot be resumed (%zu bytes of names)",
            fy_out_part(out), identity.len);
    if (hash_two(foot, HASHED, identity, j->key, e) != 0 || fy_out_resize(out, 0, e) != 0 ||
        fy_out_resize(out, size, e) != 0)
        return -1;
    memcpy(foot + KEY_AT, j->key, sizeof j->key);
    return fy_out_pwrite(out, identity.ptr, identity.len, text, e) == 0 &&
                   fy_out_pwrite(out, foot, sizeof foot, text + len, e) == 0
               ? 0
               : -1;
}

int fy_journal_mark(fy_journal *j, fy_out *out, uint64_t done, fy_err *e)
{
    uint8_t slot[SLOT_USED];
    if (make_slot(j, done, slot, e) != 0 ||
        fy_out_pwrite(out, slot, sizeof slot, j->at + (uint64_t)j->slot * FY_JOURNAL_SLOT_BYTES,
                      e) != 0)
        return -1;
    j->done = done;
    j->slot = 1 - j->slot;
    return 0;
}

/* --- differences ------------------------------------------------------------------------------ */

static void put_line(fy_str *out, fy_span line, const char *then)
{
    fy_str_putc(out, '\'');
    fy_str_put_quoted(out, line, SHOWN_BYTES);
    fy_str_printf(out, "'%s", then);
}

void fy_journal_difference(fy_span was, fy_span is, fy_str *out)
{
    while (was.len > 0 || is.len > 0) {
        const fy_span a = fy_span_cut_line(&was), b = fy_span_cut_line(&is);
        if (fy_span_eq(a, b))
            continue;
        if (b.len > 0)
            put_line(out, b, a.len > 0 ? ", it was " : " is new");
        if (a.len > 0)
            put_line(out, a, b.len > 0 ? "" : " is gone");
        return;
    }
}

/* --- identity -----------------------------------------------------------------------------------
 */

static int put_place(fy_str *out, const char *what, const char *path, fy_err *e)
{
    struct stat st;
    char *real = realpath(path, NULL);
    if (real == NULL || stat(real, &st) != 0) {
        free(real);
        return fy_fail_errno(e, "%s", path);
    }
    fy_str_printf(out,
                  "%s %s: %" PRIu64 " bytes, changed at %" PRId64 ".%09ld, inode %" PRIu64 "\n",
                  what, real, (uint64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                  (uint64_t)st.st_ino);
    free(real);
    return out->oom ? fy_nomem(e) : 0;
}

static int hash_samples(const fy_map *m, char hex[FY_SHA256_HEX], fy_err *e)
{
    enum { N_SAMPLES = 16, SAMPLE = 4096 };
    uint8_t digest[FY_SHA256_BYTES];
    fy_sha256 *h = fy_sha256_new(e);
    int rc = h != NULL ? 0 : -1;
    for (uint64_t i = 0; rc == 0 && i < N_SAMPLES; i++) {
        const uint64_t room = m->size > SAMPLE ? m->size - SAMPLE : 0;
        const uint64_t at = room / (N_SAMPLES - 1) * i, n = m->size < SAMPLE ? m->size : SAMPLE;
        rc = fy_sha256_add(h, m->data + (i + 1 < N_SAMPLES ? at : room), (size_t)n, e);
    }
    if (h != NULL && fy_sha256_end(h, rc == 0 ? digest : NULL, e) != 0)
        rc = -1;
    if (rc == 0)
        fy_sha256_to_hex(digest, hex);
    return rc;
}

static int put_samples(fy_str *out, const char *what, const char *path, fy_err *e)
{
    char hex[FY_SHA256_HEX];
    fy_map m;
    if (fy_map_open(&m, path, e) != 0)
        return -1;
    const fy_span base = fy_path_base(path);
    const int rc = hash_samples(&m, hex, e);
    if (rc == 0)
        fy_str_printf(out, "%s %.*s: %zu bytes, samples %s\n", what, (int)base.len, base.ptr,
                      m.size, hex);
    fy_map_close(&m);
    return rc == 0 && out->oom ? fy_nomem(e) : rc;
}

int fy_identity_file(fy_str *out, fy_identity_kind kind, const char *what, const char *path,
                     fy_err *e)
{
    return kind == FY_IDENTITY_HERE ? put_place(out, what, path, e)
                                    : put_samples(out, what, path, e);
}

int fy_identity_program(fy_str *out, fy_identity_kind kind, fy_err *e)
{
    static const char self[] = "/proc/self/exe";
    char hex[FY_SHA256_HEX];
    fy_str_puts(out, "ferry " FERRY_VERSION "\n");
    if (kind == FY_IDENTITY_HERE)
        return put_place(out, "program", self, e);
    if (fy_file_sha256(self, hex, e) != 0)
        return -1;
    fy_str_printf(out, "program %s\n", hex);
    return out->oom ? fy_nomem(e) : 0;
}
