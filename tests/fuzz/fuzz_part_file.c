/* The results of a part: whatever the bytes are, what is read of them lies inside them, and only
 * records under the right hash are shown; with right hashes put in, all whole ones are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/math.h"
#include "format/part_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

typedef struct {
    size_t n, bytes, sum, steps;
} seen;

static int count(void *user, const fy_part_record *r, fy_err *e)
{
    seen *s = user;
    (void)e;
    require(r->kind == FY_PART_DATA || r->kind == FY_PART_STEP);
    for (size_t i = 0; i < r->bytes.len; i++)
        s->sum += (uint8_t)r->bytes.ptr[i]; /* all of them can be read */
    s->bytes += r->bytes.len;
    s->n++;
    s->steps += r->kind == FY_PART_STEP;
    return 0;
}

static int read_as(const uint8_t *data, size_t size, seen *s)
{
    fy_err e = {0};
    fy_part_bytes found;
    *s = (seen){0};
    const int rc = fy_part_bytes_parse(data, size, &found, count, s, &e);
    if (rc != 0) {
        require(e.code != FY_OK && e.msg[0] != '\0');
        return rc;
    }
    require((const uint8_t *)found.identity.ptr >= data && found.identity.len <= size &&
            found.end <= size && s->bytes <= size && found.n_steps_there == s->steps);
    return 0;
}

static void add_hash(uint8_t *p, size_t begin, size_t n, const uint8_t *before)
{
    fy_sha256 *h = fy_sha256_new(NULL);
    require(h != NULL && (before == NULL || fy_sha256_add(h, before, FY_SHA256_BYTES, NULL) == 0) &&
            fy_sha256_add(h, p + begin, n, NULL) == 0);
    require(fy_sha256_end(h, p + begin + n, NULL) == 0);
}

/* The same bytes with a head and right hashes: what would hardly ever come by chance. */
static void repair(const uint8_t *data, size_t size)
{
    enum { HEAD = 24, FRAME = 16 };
    uint8_t *copy = malloc(size);
    size_t n = 0, at = HEAD;
    require(copy != NULL);
    memcpy(copy, data, size);
    memcpy(copy, "FERRYPRT", 8);
    memcpy(copy + 8, &(uint32_t){1}, 4);
    const size_t len =
        size > HEAD + FY_SHA256_BYTES ? fy_le32(copy + 20) % (size - HEAD - FY_SHA256_BYTES) : 0;
    memcpy(copy + 20, &(uint32_t){(uint32_t)len}, 4);
    at += len;
    add_hash(copy, 0, at, NULL);
    at += FY_SHA256_BYTES;
    while (size - at >= FRAME + FY_SHA256_BYTES) {
        const uint32_t kind = 1 + fy_le32(copy + at) % 3,
                       bytes = fy_le32(copy + at + 4) %
                               (uint32_t)(size - at - FRAME - FY_SHA256_BYTES + 1);
        memcpy(copy + at, &kind, 4);
        memcpy(copy + at + 4, &bytes, 4);
        add_hash(copy, at, FRAME + bytes, copy + at - FY_SHA256_BYTES);
        at += FRAME + bytes + FY_SHA256_BYTES;
        if (kind == FY_PART_END)
            break;
        n++;
    }
    seen s;
    require(read_as(copy, size, &s) == 0 && s.n == n);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    seen s;
    read_as(data, size, &s);
    if (size >= 24 + FY_SHA256_BYTES)
        repair(data, size);
    return 0;
}
