#include "base/hub_id.h"

#include <string.h>

#include "base/file.h"

#define PART_BYTES 96

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Bytes of one part, 0: none begins here. */
static size_t part_bytes(const char *p)
{
    size_t n = 0;
    while (is_word(p[n]) || p[n] == '-' || p[n] == '.') {
        if (n > 0 && p[n] != '_' && p[n] == p[n - 1] && !is_word(p[n]))
            return 0;
        n++;
    }
    return n >= 1 && n <= PART_BYTES && is_word(p[0]) && is_word(p[n - 1]) ? n : 0;
}

size_t fy_hub_id_bytes(const char *text)
{
    size_t n = part_bytes(text);
    if (n > 0 && text[n] == '/') {
        size_t name = part_bytes(text + n + 1);
        n = name > 0 ? n + 1 + name : 0;
    }
    if (n == 0 || (text[n] != '\0' && text[n] != '@'))
        return 0;
    return n > 4 && memcmp(text + n - 4, ".git", 4) == 0 ? 0 : n;
}

bool fy_hub_id_is_meant(const char *text)
{
    size_t n = fy_hub_id_bytes(text);
    return n > 0 && memchr(text, '/', n) != NULL && !fy_file_exists(text);
}
