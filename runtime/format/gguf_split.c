#include "format/gguf_split.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "base/str.h"

#define GGUF ".gguf"

static char *name_of(const char *stem, size_t n, uint32_t no, uint32_t count)
{
    fy_str s = {0};
    fy_str_add(&s, stem, n);
    fy_str_printf(&s, "-%05u-of-%05u" GGUF, (unsigned)no + 1, (unsigned)count);
    if (s.oom)
        fy_str_release(&s);
    return s.ptr;
}

char *fy_gguf_split_name(const char *path, uint32_t no, uint32_t count)
{
    size_t n = strlen(path), end = sizeof GGUF - 1;
    if (count == 1)
        return strdup(path);
    if (n > end && strcmp(path + n - end, GGUF) == 0 && path[n - end - 1] != '/')
        n -= end;
    return name_of(path, n, no, count);
}

char *fy_gguf_split_sibling(const char *path, uint32_t of, uint32_t no, uint32_t count, bool *oom)
{
    char tail[48];
    const size_t n = strlen(path), end = (size_t)snprintf(tail, sizeof tail, "-%05u-of-%05u" GGUF,
                                                          (unsigned)of + 1, (unsigned)count);
    *oom = false;
    if (n < end || strcmp(path + n - end, tail) != 0)
        return NULL;
    char *name = name_of(path, n - end, no, count);
    *oom = name == NULL;
    return name;
}

int fy_split_size(const char *text, uint64_t *bytes, fy_err *e)
{
    *bytes = 0;
    if (text == NULL)
        return 0;
    char *end = NULL;
    const bool digit = isdigit((unsigned char)text[0]);
    const uint64_t n = digit ? strtoull(text, &end, 10) : 0;
    const uint64_t unit = !digit                       ? 0
                          : *end == 'K' || *end == 'k' ? 1000
                          : *end == 'M' || *end == 'm' ? 1000000
                          : *end == 'G' || *end == 'g' ? 1000000000
                          : *end == '\0'               ? 1
                                                       : 0;
    if (unit == 0 || (unit > 1 && end[1] != '\0') || n == 0 || !fy_mul_u64(n, unit, bytes) ||
        *bytes > INT64_MAX)
        return fy_fail(e, FY_EARG,
                       "--split-max-size %s: expected a size such as 400M or 2G (decimal)", text);
    return 0;
}
