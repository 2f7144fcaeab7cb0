/* Names: a model's name taken apart into organisation, base name, size, version and fine-tune, and
 * the name of the output file. */
#include "convert/write/model_id.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Kinds of parts, matched as a whole and in any case. */
static const struct {
    unsigned is;
    bool may_be_first;
    const char *regex;
} kinds[] = {
    {VERSION, true, "(v|iter)?\\d+([.]\\d+)*"},
    {TYPE, true, "i?q\\d(_\\w)*|b?fp?(16|32)"},
    {SIZE_LABEL, false, "(a|\\d+x)?\\d+([._]\\d+)?[kmbt]\\d?|small|mini|medium|large|x?xl"},
    {FINETUNE, false, "chat|instruct|vision|lora"},
};

static bool matches(const char *text, const char *regex, bool *oom)
{
    int why;
    size_t at;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED,
                      PCRE2_CASELESS | PCRE2_ANCHORED | PCRE2_ENDANCHORED, &why, &at, NULL);
    pcre2_match_data *data = code != NULL ? pcre2_match_data_create(1, NULL) : NULL;
    const int rc = data != NULL
                       ? pcre2_match(code, (PCRE2_SPTR)text, strlen(text), 0, 0, data, NULL)
                       : PCRE2_ERROR_NOMEMORY;
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    *oom = *oom || (rc < 0 && rc != PCRE2_ERROR_NOMATCH); /* the expressions are right */
    return rc >= 0;
}

/* The kind of the part, 0: none. */
static unsigned kind_of(const char *text, bool first, bool *oom)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if ((!first || kinds[i].may_be_first) && matches(text, kinds[i].regex, oom))
            return kinds[i].is;
    }
    return 0;
}

static void annotate(part *p, bool first, uint64_t n_params, bool *oom)
{
    p->is = kind_of(p->text, first, oom);
    for (char *c = p->text; *c != '\0' && p->is == TYPE; c++)
        *c = upper(*c);
    if (p->is != SIZE_LABEL)
        return;
    normalize_size(p->text);
    if (is_other_size(p->text, n_params)) {
        char *unit = p->text + strlen(p->text) - 1;
        p->is = FINETUNE;
        *unit = lower(*unit);
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

void fy_model_id_parse(fy_span id, uint64_t n_params, fy_str parts[FY_ID_PARTS])
{
    memset(parts, 0, FY_ID_PARTS * sizeof *parts);
    const char *slash = memchr(id.ptr, '/', id.len);
    if (memchr(id.ptr, ' ', id.len) != NULL) { /* a sentence */
        fy_str_add(&parts[FY_ID_NAME], id.ptr, id.len);
        return;
    }
    size_t skip = slash != NULL ? (size_t)(slash - id.ptr) + 1 : 0;
    fy_span name = {id.ptr + skip, id.len - skip};
    fy_str_add(&parts[FY_ID_NAME], name.ptr, name.len);
    if (skip > 1 && id.ptr[0] != '.')
        fy_str_add(&parts[FY_ID_ORG], id.ptr, skip - 1);
    part p[MAX_PARTS];
    size_t n = split(name, p);
    for (size_t i = 0; i < n; i++)
        annotate(&p[i], i == 0, n_params, &parts[FY_ID_NAME].oom);
    prefer_numbers(p, n);
    find_basename(p, n);
    join(p, n, SIZE_LABEL, 0, true, &parts[FY_ID_SIZE_LABEL]);
    join(p, n, FINETUNE, 0, false, &parts[FY_ID_FINETUNE]);
    join(p, n, VERSION, BASENAME, false, &parts[FY_ID_VERSION]);
    if (parts[FY_ID_SIZE_LABEL].len + parts[FY_ID_FINETUNE].len + parts[FY_ID_VERSION].len >
        0) /* else too ambiguous */
        join(p, n, BASENAME, 0, false, &parts[FY_ID_BASENAME]);
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

void fy_size_label(uint32_t n_expert, uint64_t n_params, char out[FY_SIZE_LABEL_BYTES])
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
    int at = n_expert > 0 ? snprintf(out, FY_SIZE_LABEL_BYTES, "%ux", n_expert) : 0;
    snprintf(out + at, (size_t)(FY_SIZE_LABEL_BYTES - at), "%.*f%c", decimals, x, units[u].unit);
}

/* --- the output file -------------------------------------------------------------------------- */

/* The word between the braces at p, which begins with '{'; 0: there is none of ours. */
static size_t put_word(const char *p, const char *type, fy_str *out)
{
    static const struct {
        const char *word;
        bool capitals;
    } words[] = {
        {"{}", false},     {"{ftype}", false},  {"{outtype}", false},
        {"{FTYPE}", true}, {"{OUTTYPE}", true},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t n = strlen(words[i].word);
        if (strncmp(p, words[i].word, n) != 0)
            continue;
        for (const char *c = type; *c != '\0'; c++)
            fy_str_putc(out, words[i].capitals ? upper(*c) : *c);
        return n;
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
