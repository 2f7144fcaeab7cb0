/* Names: a model's name taken apart into organisation, base name, size, version and fine-tune, and
 * the name of the output file. */
#include "convert/write/model_id.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/str.h"

enum { MAX_PARTS = 32, PART_BYTES = 64 };
enum { BASENAME = 1, SIZE_LABEL = 2, FINETUNE = 4, VERSION = 8, TYPE = 16 };

typedef struct {
    char text[PART_BYTES];
    unsigned is; /* of the above */
} part;

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - ('a' - 'A')) : c;
}

/* --- kinds of parts, matched as a whole and in any case ------------------------------------- */

static size_t digits(const char *s)
{
    size_t n = 0;
    while (digit(s[n]))
        n++;
    return n;
}

/* \d+([.]\d+)* */
static bool dotted_numbers(const char *s)
{
    for (;;) {
        size_t n = digits(s);
        if (n == 0)
            return false;
        if (s[n] == '\0')
            return true;
        if (s[n] != '.')
            return false;
        s += n + 1;
    }
}

/* (v|iter)?\d+([.]\d+)* */
static bool is_version(const char *s)
{
    if (lower(*s) == 'v')
        return dotted_numbers(s + 1);
    return dotted_numbers(strncasecmp(s, "iter", 4) == 0 ? s + 4 : s);
}

/* i?q\d(_\w)*|b?fp?(16|32) */
static bool is_type(const char *s)
{
    const char *q = lower(*s) == 'i' ? s + 1 : s, *f = lower(*s) == 'b' ? s + 1 : s;
    if (lower(*q) == 'q' && digit(q[1])) {
        for (q += 2; *q == '_' && (letter(q[1]) || digit(q[1]) || q[1] == '_'); q += 2)
            continue;
        return *q == '\0';
    }
    if (lower(*f) != 'f')
        return false;
    f += lower(f[1]) == 'p' ? 2 : 1;
    return strcmp(f, "16") == 0 || strcmp(f, "32") == 0;
}

static bool is_word(const char *s, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcasecmp(s, *words) == 0)
            return true;
    }
    return false;
}

/* \d+([._]\d+)?[KMBT]\d? */
static bool is_number_with_unit(const char *s)
{
    size_t n = digits(s);
    if (n == 0)
        return false;
    s += n;
    if ((*s == '.' || *s == '_') && digit(s[1]))
        s += 1 + digits(s + 1);
    if (*s == '\0' || strchr("kmbt", lower(*s)) == NULL)
        return false;
    s += digit(s[1]) ? 2 : 1;
    return *s == '\0';
}

/* ((A|\d+x)?\d+([._]\d+)?[KMBT]\d?|small|mini|medium|large|x?xl) */
static bool is_size(const char *s)
{
    static const char *const words[] = {"small", "mini", "medium", "large", "xl", "xxl", NULL};
    size_t n = digits(s);
    if (is_word(s, words) || is_number_with_unit(s))
        return true;
    if (lower(*s) == 'a')
        return is_number_with_unit(s + 1);
    return n > 0 && lower(s[n]) == 'x' && is_number_with_unit(s + n + 1);
}

/* --- annotation ----------------------------------------------------------------------------- */

/* "7b1" is 7.1B, "1_5b" is 1.5B. */
static void normalize_size(char *s)
{
    size_t n = strlen(s);
    for (char *u = s; (u = strchr(u, '_')) != NULL;)
        *u = '.';
    if (digit(s[n - 1]) && n + 1 < PART_BYTES) {
        char unit = s[n - 2], tenth = s[n - 1];
        snprintf(s + n - 2, 4, ".%c%c", tenth, unit);
        n++;
    }
    if (n > 1 && digit(s[n - 2]) && letter(s[n - 1]))
        s[n - 1] = upper(s[n - 1]);
}

/* A number that is far from the size of the model: a context length, most likely. */
static bool is_other_size(const char *s, uint64_t n_params)
{
    static const char units[] = " KMBT";
    size_t n = strlen(s);
    const char *unit = strchr(units, s[n - 1]);
    char *end;
    if (n_params == 0 || unit == NULL || !digit(*s))
        return false;
    double label = strtod(s, &end) * pow(1000, (double)(unit - units));
    uint64_t near = n_params - n_params / 8 - (n_params % 8 != 0); /* 7 / 8 of it */
    return end == s + n - 1 && fabs(label - (double)n_params) > (double)near;
}

static void annotate(part *p, bool first, uint64_t n_params)
{
    static const char *const finetunes[] = {"chat", "instruct", "vision", "lora", NULL};
    if (is_version(p->text)) {
        p->is = VERSION;
    } else if (is_type(p->text)) {
        p->is = TYPE;
        for (char *c = p->text; *c != '\0'; c++)
            *c = upper(*c);
    } else if (!first && is_size(p->text)) {
        normalize_size(p->text);
        p->is = SIZE_LABEL;
        if (is_other_size(p->text, n_params)) {
            char *unit = p->text + strlen(p->text) - 1;
            p->is = FINETUNE;
            *unit = lower(*unit);
        }
    } else if (!first && is_word(p->text, finetunes)) {
        p->is = FINETUNE;
    }
}

/* Sizes in words do not count where there is one in numbers. */
static void prefer_numbers(part *p, size_t n)
{
    bool numbers = false;
    for (size_t i = 0; i < n; i++)
        numbers |= (p[i].is & SIZE_LABEL) != 0 && strpbrk(p[i].text, "0123456789") != NULL;
    for (size_t i = 0; i < n && numbers; i++) {
        if ((p[i].is & SIZE_LABEL) != 0 && strpbrk(p[i].text, "0123456789") == NULL)
            p[i].is &= ~(unsigned)SIZE_LABEL;
    }
}

/* The first parts are the base name, a version at its end is none of it. */
static void find_basename(part *p, size_t n)
{
    bool at_start = true;
    for (size_t i = 0; i < n; i++) {
        if (at_start && ((p[i].is == 0 && letter(p[i].text[0])) || (p[i].is & VERSION) != 0)) {
            p[i].is |= BASENAME;
            continue;
        }
        at_start = false;
        if (p[i].is == 0)
            p[i].is = FINETUNE;
    }
    for (size_t i = n; i-- > 0 && (p[i].is & BASENAME) != 0 && p[i].is != BASENAME;)
        p[i].is &= ~(unsigned)BASENAME;
}

/* The parts that are `is` and not `not`, each once if asked. */
static void join(const part *p, size_t n, unsigned is, unsigned not, bool once, fy_str *out)
{
    for (size_t i = 0; i < n; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && once; k++)
            seen |= (p[k].is & is) != 0 && strcmp(p[k].text, p[i].text) == 0;
        if ((p[i].is & is) != 0 && (p[i].is & not ) == 0 && !seen)
            fy_str_printf(out, "%s%s", out->len > 0 ? "-" : "", p[i].text);
    }
}

/* The parts between dashes; 0: too many, or too long ones, to be a name that follows a rule. */
static size_t split(fy_span name, part p[MAX_PARTS])
{
    size_t n = 0;
    for (size_t at = 0; at < name.len;) {
        const char *dash = memchr(name.ptr + at, '-', name.len - at);
        size_t end = dash != NULL ? (size_t)(dash - name.ptr) : name.len, len = end - at;
        if (len >= PART_BYTES - 1 || (len > 0 && n == MAX_PARTS))
            return 0;
        if (len > 0) {
            p[n] = (part){.is = 0};
            memcpy(p[n++].text, name.ptr + at, len);
        }
        at = end + 1;
    }
    return n;
}

void fy_model_id_parse(fy_span id, uint64_t n_params, fy_model_id *out)
{
    *out = (fy_model_id){0};
    const char *slash = memchr(id.ptr, '/', id.len);
    if (memchr(id.ptr, ' ', id.len) != NULL) { /* a sentence */
        fy_str_add(&out->name, id.ptr, id.len);
        return;
    }
    size_t skip = slash != NULL ? (size_t)(slash - id.ptr) + 1 : 0;
    fy_span name = {id.ptr + skip, id.len - skip};
    fy_str_add(&out->name, name.ptr, name.len);
    if (skip > 1 && id.ptr[0] != '.')
        fy_str_add(&out->org, id.ptr, skip - 1);
    part p[MAX_PARTS];
    size_t n = split(name, p);
    for (size_t i = 0; i < n; i++)
        annotate(&p[i], i == 0, n_params);
    prefer_numbers(p, n);
    find_basename(p, n);
    join(p, n, SIZE_LABEL, 0, true, &out->size_label);
    join(p, n, FINETUNE, 0, false, &out->finetune);
    join(p, n, VERSION, BASENAME, false, &out->version);
    if (out->size_label.len + out->finetune.len + out->version.len > 0) /* else too ambiguous */
        join(p, n, BASENAME, 0, false, &out->basename);
}

bool fy_model_id_oom(const fy_model_id *id)
{
    return id->name.oom || id->org.oom || id->basename.oom || id->finetune.oom || id->version.oom ||
           id->size_label.oom;
}

void fy_model_id_release(fy_model_id *id)
{
    fy_str_release(&id->name);
    fy_str_release(&id->org);
    fy_str_release(&id->basename);
    fy_str_release(&id->finetune);
    fy_str_release(&id->version);
    fy_str_release(&id->size_label);
}

/* --- titles --------------------------------------------------------------------------------- */

/* Letters, none of them large; not v1.2, nothing that begins with a digit. */
static bool takes_capitals(const char *w, size_t n)
{
    size_t numbers = 1;
    bool letters = false;
    if (digit(w[0]))
        return false;
    for (size_t i = 0; i < n; i++) {
        letters |= letter(w[i]);
        if (w[i] >= 'A' && w[i] <= 'Z')
            return false;
    }
    while (numbers < n && (digit(w[numbers]) || (w[numbers] == '.' && digit(w[numbers - 1]) &&
                                                 numbers + 1 < n && digit(w[numbers + 1]))))
        numbers++;
    return letters && !(w[0] == 'v' && n > 1 && numbers == n);
}

static bool is_gap(char c)
{
    return c == '-' || isspace((unsigned char)c);
}

void fy_model_id_title(fy_span id, fy_str *out)
{
    for (size_t at = 0; at < id.len;) {
        size_t end = at;
        while (end < id.len && !is_gap(id.ptr[end]))
            end++;
        if (end > at && out->len > 0)
            fy_str_putc(out, ' ');
        bool capitals = end > at && takes_capitals(id.ptr + at, end - at);
        for (size_t i = at; i < end; i++) {
            bool begins = i == at || !letter(id.ptr[i - 1]);
            fy_str_putc(out, capitals && begins ? upper(id.ptr[i]) : id.ptr[i]);
        }
        at = end + 1;
    }
}

/* --- sizes ---------------------------------------------------------------------------------- */

void fy_size_label(uint64_t n_params, char out[FY_SIZE_LABEL_BYTES])
{
    static const struct {
        double scale;
        char unit;
    } units[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
    size_t u = 0;
    while (u < 3 && !((double)n_params > units[u].scale))
        u++;
    double x = (double)n_params / units[u].scale;
    int decimals = nearbyint(x) >= 10 ? 0 : nearbyint(x) >= 1 ? 1 : 2;
    snprintf(out, FY_SIZE_LABEL_BYTES, "%.*f%c", decimals, x, units[u].unit);
}

void fy_size_label_of_experts(uint32_t n_expert, uint64_t n_params, char out[FY_SIZE_LABEL_BYTES])
{
    char one[FY_SIZE_LABEL_BYTES];
    fy_size_label(n_params, one);
    if (n_expert > 0)
        snprintf(out, FY_SIZE_LABEL_BYTES, "%ux%.24s", n_expert, one);
    else
        memcpy(out, one, sizeof one);
}

/* --- the output file -------------------------------------------------------------------------- */

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
