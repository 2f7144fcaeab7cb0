/* Pre-tokenizers: patterns compiled by PCRE2, and texts cut by them. */
#include "model/vocab/pretok.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* What a pattern of a file may take: enough for any in use, little enough to be tried blindly. */
enum {
    FILE_PATTERN_BYTES = 4096,
    FILE_NESTING = 32,
    FILE_MATCH_LIMIT = 20000,
    FILE_HEAP_KIB = 1024
};

enum { CHARACTERS = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C };

struct fy_pretok_code {
    pcre2_code *code[FY_PRETOK_PATTERNS]; /* owned */
    int n_codes;
    pcre2_match_context *limits; /* owned */
};

static bool has_word(const char *words, fy_span word)
{
    for (const char *p = words; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (fy_span_eq((fy_span){p, n}, word))
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

const fy_pretok_rule *fy_pretok_find_rule(fy_span pre)
{
    for (size_t i = 0; i < fy_pretok_n_rules; i++) {
        const fy_pretok_rule *r = &fy_pretok_rules[i];
        if (fy_span_is(pre, r->name) || has_word(r->aliases, pre))
            return r;
    }
    return NULL;
}

void fy_pretok_list(fy_str *out)
{
    for (size_t i = 0; i < fy_pretok_n_rules; i++) {
        fy_str_puts(out, fy_pretok_rules[i].name);
        fy_str_puts(out, i + 1 < fy_pretok_n_rules ? ", " : " and their aliases");
    }
}

void fy_pretok_free(fy_pretok_code *p)
{
    if (p == NULL)
        return;
    for (int i = 0; i < p->n_codes; i++)
        pcre2_code_free(p->code[i]);
    pcre2_match_context_free(p->limits);
    free(p);
}

/* --- patterns --------------------------------------------------------------------------------- */

/* White_Space of Unicode, as members of a class: \s of PCRE2 also takes U+180E. */
#define SPACES "\\t-\\r\\x{85}\\p{Z}"

/* What PCRE2 reads in another way than Oniguruma does, or not at all; NULL: nothing. */
static const char *foreign_syntax(fy_span pattern)
{
    bool in_class = false;
    for (size_t i = 0; i < pattern.len; i++) {
        char c = pattern.ptr[i], next = i + 1 < pattern.len ? pattern.ptr[i + 1] : '\0';
        if (c == '\0')
            return "a NUL";
        if (c == '\\') {
            /* hexadecimal digits, line ends, verbs of PCRE2, quoted literals */
            if (next != '\0' && strchr("hHRXCKQEGAZzuNvVy", next) != NULL)
                return "an escape that PCRE2 reads otherwise";
            i++;
            if ((next == 'p' || next == 'P' || next == 'x') && i + 1 < pattern.len &&
                pattern.ptr[i + 1] == '{') {
                while (i < pattern.len && pattern.ptr[i] != '}')
                    i++;
            }
        } else if (!in_class && c == '(' && next == '*') {
            return "a verb";
        } else if (!in_class && c == '[') {
            in_class = true;
            i += next == '^';
            if (i + 1 < pattern.len && pattern.ptr[i + 1] == ']') /* empty, or a member */
                return "']' at the beginning of a class";
        } else if (in_class && (c == '[' || (c == '&' && next == '&'))) {
            return "a class in a class";
        } else if (in_class && c == ']') {
            in_class = false;
        } else if (!in_class && c == '}' && next == '+') {
            return "'}+'"; /* possessive for PCRE2, repeated for Oniguruma */
        }
    }
    return NULL;
}

/* \s and \S spelled out. In a class \S stays: it differs by one character that no text has. */
static void translate(fy_span pattern, fy_str *out)
{
    bool in_class = false;
    for (size_t i = 0; i < pattern.len; i++) {
        char c = pattern.ptr[i], next = i + 1 < pattern.len ? pattern.ptr[i + 1] : '\0';
        if (c == '\\' && next == 's') {
            fy_str_puts(out, in_class ? SPACES : "[" SPACES "]");
            i++;
        } else if (c == '\\' && next == 'S' && !in_class) {
            fy_str_puts(out, "[^" SPACES "]");
            i++;
        } else if (c == '\\') {
            fy_str_putc(out, c);
            if (next != '\0')
                fy_str_putc(out, next);
            i++;
        } else {
            in_class = c == '[' || (in_class && c != ']');
            fy_str_putc(out, c);
        }
    }
}

static int compile(fy_pretok_code *p, fy_span pattern, uint32_t options,
                   pcre2_compile_context *bounds, fy_err *e)
{
    int code;
    PCRE2_SIZE at;
    fy_str spelled = {0};
    translate(pattern, &spelled);
    if (spelled.oom) {
        fy_str_release(&spelled);
        return fy_nomem(e);
    }
    pcre2_code *c =
        pcre2_compile((PCRE2_SPTR)fy_str_z(&spelled), spelled.len, options, &code, &at, bounds);
    fy_str_release(&spelled);
    if (c == NULL && code == PCRE2_ERROR_HEAP_FAILED)
        return fy_nomem(e);
    if (c == NULL) { /* of a rule: a PCRE2 built without Unicode */
        PCRE2_UCHAR why[128];
        char shown[FY_QUOTE_BYTES];
        pcre2_get_error_message(code, why, sizeof why);
        return fy_fail(e, FY_EUNSUPPORTED, "PCRE2 cannot compile the pattern '%s': %s",
                       fy_quote(shown, sizeof shown, pattern), (const char *)why);
    }
    p->code[p->n_codes++] = c;
    return 0;
}

static fy_pretok_code *new_empty(fy_err *e)
{
    fy_pretok_code *p = calloc(1, sizeof *p);
    if (p != NULL && (p->limits = pcre2_match_context_create(NULL)) != NULL)
        return p;
    fy_nomem(e);
    fy_pretok_free(p);
    return NULL;
}

fy_pretok_code *fy_pretok_new(const fy_pretok_rule *rule, fy_err *e)
{
    fy_pretok_code *p = new_empty(e);
    if (p == NULL)
        return NULL;
    /* A run of a million spaces is a legal text, beyond the default limit on backtracking. */
    pcre2_set_match_limit(p->limits, UINT32_MAX);
    for (int i = 0; i < FY_PRETOK_PATTERNS && rule->pattern[i] != NULL; i++) {
        bool bytes = rule->bytes_from > 0 && i >= rule->bytes_from;
        if (compile(p, fy_span_of(rule->pattern[i]), bytes ? 0 : CHARACTERS, NULL, e) != 0) {
            fy_pretok_free(p);
            return NULL;
        }
        /* Where the system forbids it the interpreter matches the same, more slowly. */
        pcre2_jit_compile(p->code[i], PCRE2_JIT_COMPLETE);
    }
    return p;
}

fy_pretok_code *fy_pretok_of_file(fy_span pattern, fy_err *e)
{
    const char *foreign = foreign_syntax(pattern);
    if (pattern.len > FILE_PATTERN_BYTES || foreign != NULL) {
        fy_fail(e, FY_EUNSUPPORTED, "a pattern with %s",
                foreign != NULL ? foreign : "more than 4096 bytes");
        return NULL;
    }
    pcre2_compile_context *bounds = pcre2_compile_context_create(NULL);
    fy_pretok_code *p = bounds != NULL ? new_empty(e) : NULL;
    if (bounds == NULL)
        fy_nomem(e);
    if (p != NULL) {
        pcre2_set_parens_nest_limit(bounds, FILE_NESTING);
        pcre2_set_match_limit(p->limits, FILE_MATCH_LIMIT);
        pcre2_set_heap_limit(p->limits, FILE_HEAP_KIB);
        if (compile(p, pattern, CHARACTERS, bounds, e) != 0) {
            fy_pretok_free(p);
            p = NULL;
        }
    }
    pcre2_compile_context_free(bounds);
    return p;
}

/* --- cutting ---------------------------------------------------------------------------------- */

typedef struct {
    const fy_pretok_code *p;
    pcre2_match_data *match; /* owned */
    fy_word_fn *emit;
    void *ctx;
} splitter;

/* 1 and the match at or after `pos`, 0 when there is none, -1. */
static int next_match(const splitter *s, int level, fy_span text, size_t pos, size_t *begin,
                      size_t *end, fy_err *e)
{
    const pcre2_code *code = s->p->code[level];
    int rc = pcre2_match(code, (PCRE2_SPTR)text.ptr, text.len, pos, PCRE2_NO_UTF_CHECK, s->match,
                         s->p->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, (PCRE2_SPTR)text.ptr, text.len, pos,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match, s->p->limits);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return fy_nomem(e);
    if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT)
        return fy_fail(e, FY_EUNSUPPORTED, "an expression that takes too much work");
    if (rc < 0)
        return fy_fail(e, FY_EUNSUPPORTED, "PCRE2 gave up on the text with error %d", rc);
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(s->match);
    *begin = range[0];
    *end = range[1];
    return 1;
}

/* At most FY_PRETOK_PATTERNS deep. */
static int split(const splitter *s, int level, fy_span text, fy_err *e)
{
    if (level == s->p->n_codes)
        return s->emit(s->ctx, text, e);
    size_t pos = 0, begin = 0, end = 0;
    int rc;
    while (pos < text.len && (rc = next_match(s, level, text, pos, &begin, &end, e)) != 0) {
        if (rc < 0)
            return -1;
        assert(end > begin); /* no pattern of a rule matches nothing */
        if ((begin > pos && split(s, level + 1, (fy_span){text.ptr + pos, begin - pos}, e) != 0) ||
            split(s, level + 1, (fy_span){text.ptr + begin, end - begin}, e) != 0)
            return -1;
        pos = end;
    }
    return pos < text.len ? split(s, level + 1, (fy_span){text.ptr + pos, text.len - pos}, e) : 0;
}

int fy_pretok_split(const fy_pretok_code *p, fy_span text, fy_word_fn *emit, void *ctx, fy_err *e)
{
    splitter s = {p, pcre2_match_data_create(1, NULL), emit, ctx};
    if (s.match == NULL)
        return fy_nomem(e);
    int rc = split(&s, 0, text, e);
    pcre2_match_data_free(s.match);
    return rc;
}

int fy_pretok_next(const fy_pretok_code *p, fy_span text, size_t pos, size_t *begin, size_t *end,
                   fy_err *e)
{
    splitter s = {.p = p, .match = pcre2_match_data_create(1, NULL)};
    if (s.match == NULL)
        return fy_nomem(e);
    int rc = next_match(&s, 0, text, pos, begin, end, e);
    pcre2_match_data_free(s.match);
    return rc;
}
