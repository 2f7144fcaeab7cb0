#include "convert/write/out_name.h"

#include <string.h>

#include "base/file.h"
#include "base/str.h"

/* The word between the braces at p, which begins with '{'; 0: there is none of ours. */
static size_t put_word(const char *p, const char *type, fy_str *out)
{
    static const char *const lower[] = {"{}", "{ftype}", "{outtype}"};
    static const char *const upper[] = {"{FTYPE}", "{OUTTYPE}"};
    for (size_t i = 0; i < sizeof lower / sizeof lower[0]; i++) {
        if (strncmp(p, lower[i], strlen(lower[i])) == 0) {
            fy_str_puts(out, type);
            return strlen(lower[i]);
        }
    }
    for (size_t i = 0; i < sizeof upper / sizeof upper[0]; i++) {
        if (strncmp(p, upper[i], strlen(upper[i])) == 0) {
            for (const char *c = type; *c != '\0'; c++)
                fy_str_putc(out, *c >= 'a' && *c <= 'z' ? (char)(*c - ('a' - 'A')) : *c);
            return strlen(upper[i]);
        }
    }
    return 0;
}

static int put_filled(const char *name, const char *type, fy_str *out, fy_err *e)
{
    for (const char *p = name; *p != '\0';) {
        char q[FY_QUOTE_BYTES];
        bool brace = *p == '{' || *p == '}';
        size_t n = brace && p[1] == *p ? 2 : 0;
        if (n == 0 && *p == '{')
            n = put_word(p, type, out);
        else if (n == 2 || !brace)
            fy_str_putc(out, *p);
        if (brace && n == 0)
            return fy_fail(e, FY_EARG,
                           "-o %s: a brace begins {ftype} or {FTYPE}; a brace in the name itself "
                           "is written twice",
                           fy_quote(q, sizeof q, fy_span_of(name)));
        p += n > 0 ? n : 1;
    }
    return 0;
}

int fy_out_name(const char *asked, const char *standard, const char *type, fy_str *out, fy_err *e)
{
    fy_str_clear(out);
    if (asked != NULL && *asked == '\0')
        return fy_fail(e, FY_EARG, "-o has an empty name, expected the name of a file to write");
    if (asked == NULL) {
        fy_str_puts(out, standard);
    } else if (fy_file_is_dir(asked)) {
        size_t n = strlen(asked);
        fy_str_printf(out, "%s%s%s", asked, asked[n - 1] == '/' ? "" : "/", standard);
    } else {
        const char *slash = strrchr(asked, '/'), *name = slash != NULL ? slash + 1 : asked;
        if (*name == '\0')
            return fy_fail(e, FY_EIO, "%s: no such directory", asked);
        fy_str_add(out, asked, (size_t)(name - asked));
        if (put_filled(name, type, out, e))
            return -1;
    }
    return out->oom ? fy_nomem(e) : 0;
}
