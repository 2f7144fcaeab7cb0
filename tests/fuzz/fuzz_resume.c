/* The journal of an unfinished output: what it accepts is right in every byte, and whatever is made
 * of it stays inside the bytes that are there. */
#include <stdlib.h>
#include <string.h>

#include "format/write_journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* A file of these bytes after `front` bytes of contents. */
static void read_as(const uint8_t *data, size_t size, uint64_t front)
{
    fy_journal j;
    const uint64_t file = front + size;
    const uint64_t n = fy_journal_bytes(data + size - FY_JOURNAL_FOOT_BYTES, file);
    require(n <= file);
    if (n == 0 || n > size || !fy_journal_parse(&j, data + size - n, (size_t)n, file))
        return;
    require(j.at == file - n && (j.slot == 0 || j.slot == 1));
    require((const uint8_t *)j.identity.ptr >= data &&
            (const uint8_t *)j.identity.ptr + j.identity.len <= data + size);
    fy_str words = {0};
    fy_journal_difference(j.identity, FY_SPAN("ferry\nsource: x\n"), &words);
    fy_journal_difference(FY_SPAN(""), j.identity, &words);
    fy_str_release(&words);
}

/* With a right hash: the random bytes alone would hardly ever have one. */
static void repair(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size), hash[FY_SHA256_BYTES];
    fy_sha256 *h = fy_sha256_new(NULL);
    if (copy == NULL || h == NULL)
        abort();
    memcpy(copy, data, size);
    uint8_t *foot = copy + size - FY_JOURNAL_FOOT_BYTES;
    const size_t fixed = 2 * FY_JOURNAL_SLOT_BYTES + FY_JOURNAL_FOOT_BYTES;
    const uint64_t len = size > fixed ? size - fixed : 0, at = 0;
    memcpy(foot, "FYRESUME", 8);
    memcpy(foot + 8, &at, 8);
    memcpy(foot + 16, &len, 8);
    fy_sha256_add(h, foot, 24, NULL);
    fy_sha256_add(h, foot - len, len, NULL);
    fy_sha256_end(h, hash, NULL);
    memcpy(foot + 24, hash, sizeof hash);
    fy_journal j;
    require(fy_journal_parse(&j, copy, size, size) == (size >= fixed));
    read_as(copy, size, 0);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < FY_JOURNAL_FOOT_BYTES)
        return 0;
    read_as(data, size, 0);
    read_as(data, size, 4096);
    if (size >= 64)
        repair(data, size);
    return 0;
}
