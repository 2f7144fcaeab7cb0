#include "format/gguf_split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
