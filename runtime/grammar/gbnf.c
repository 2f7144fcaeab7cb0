/* GBNF, the notation of llama.cpp's grammars (its grammars/README.md): names, "text", [classes], .,
 * groups, * + ? {n} {n,} {,m} {n,m}, |, # comments. Its tokens, such as <think> and <[1000]>, are
 * refused. */
#include "grammar/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 1000000000u /* more than any limit allows */

typedef struct {
    fy_span text;
    size_t pos;
    fy_rules *r;
    fy_node *parts; /* owned: of the sequences and alternatives that are open */
    size_t n_parts, cap_parts;
    fy_cp_range *ranges; /* owned: of the open class */
    size_t n_ranges, cap_ranges;
    size_t *places; /* owned, by rule: where it is defined, or where it was first named */
    size_t n_places, cap_places;
    uint32_t *slots; /* owned, [n_slots]: rules by the hash of their names, plus 1 */
    size_t n_slots;
    uint64_t symbols; /* of the rules before the open one */
    uint32_t depth;
    fy_err *e;
} parser;

/* --- messages --------------------------------------------------------------------------------- */

/* Fails at a place of the text: "line 3, column 5: <what>". */
static int fail_at(parser *p, size_t pos, fy_code code, const char *what)
{
    unsigned line = 1, column = 1;
    for (size_t i = 0; i < pos && i < p->text.len; i++) {
        if (p->text.ptr[i] == '\n') {
            line++;
            column = 1;
        } else if (((uint8_t)p->text.ptr[i] & 0xC0) != 0x80) {
            column++;
        }
    }
    return fy_fail(p->e, code, "line %u, column %u: %s", line, column, what);
}

static int bad_syntax(parser *p, const char *expected)
{
    char found[FY_QUOTE_BYTES], what[160];
    fy_span rest = {p->text.ptr + p->pos, p->text.len - p->pos};
    fy_str s = {0};
    uint32_t cp;
    if (rest.len > 0) {
        const int n = fy_utf8_next(rest.ptr, rest.len, &cp);
        fy_str_printf(&s, "found '%s'",
                      fy_quote(found, sizeof found, (fy_span){rest.ptr, n > 0 ? (size_t)n : 1}));
    } else {
        fy_str_puts(&s, "found the end of the text");
    }
    snprintf(what, sizeof what, "%s, expected %s", fy_str_z(&s), expected);
    fy_str_release(&s);
    return fail_at(p, p->pos, FY_EFORMAT, what);
}

static int fail_of_rule(parser *p, uint32_t rule, fy_code code, const char *why)
{
    char name[FY_QUOTE_BYTES], what[400];
    snprintf(what, sizeof what, "rule '%s': %s",
             fy_quote(name, sizeof name, fy_rules_name(p->r, rule)), why);
    return fail_at(p, p->places[rule], code, what);
}

/* --- characters ------------------------------------------------------------------------------- */

static bool at_end(const parser *p)
{
    return p->pos >= p->text.len;
}

/* The next byte; NUL at the end, which is an error wherever a character is expected. */
static char peek(const parser *p)
{
    return at_end(p) ? '\0' : p->text.ptr[p->pos];
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* White space and comments. */
static void skip_space(parser *p, bool with_newlines)
{
    for (; !at_end(p); p->pos++) {
        char c = peek(p);
        while (c == '#' && !at_end(p) && peek(p) != '\n' && peek(p) != '\r')
            p->pos++;
        c = peek(p);
        if (at_end(p) || (c != ' ' && c != '\t' && !(with_newlines && (c == '\n' || c == '\r'))))
            return;
    }
}

static int read_hex(parser *p, int digits, uint32_t *out)
{
    uint32_t v = 0;
    for (int i = 0; i < digits; i++, p->pos++) {
        const int d = at_end(p) ? -1 : fy_hex_digit(peek(p));
        if (d < 0)
            return bad_syntax(p, digits == 2   ? "two hexadecimal digits after \\x"
                                 : digits == 4 ? "four hexadecimal digits after \\u"
                                               : "eight hexadecimal digits after \\U");
        v = v << 4 | (uint32_t)d;
    }
    *out = v;
    return 0;
}

static int read_escape(parser *p, uint32_t *out)
{
    const size_t begin = p->pos++;
    const char c = peek(p);
    static const char plain[] = "\\\"[]-";
    int rc = 0;
    if (c != '\0' && strchr("xuU", c) != NULL) {
        p->pos++;
        rc = read_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    } else if (c == 'n' || c == 't' || c == 'r') {
        *out = c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
        p->pos++;
    } else if (c != '\0' && strchr(plain, c) != NULL) {
        *out = (uint32_t)c;
        p->pos++;
    } else {
        return bad_syntax(p, "one of n t r x u U \\ \" [ ] - after a backslash");
    }
    if (rc == 0 && (*out > 0x10FFFF || (*out >= 0xD800 && *out <= 0xDFFF)))
        return fail_at(p, begin, FY_EFORMAT,
                       "found an escape for no character, expected at most \\U0010FFFF and no "
                       "surrogate (D800 to DFFF)");
    return rc;
}

static int read_char(parser *p, uint32_t *out)
{
    if (peek(p) == '\\')
        return read_escape(p, out);
    const int n = at_end(p) ? 0 : fy_utf8_next(p->text.ptr + p->pos, p->text.len - p->pos, out);
    if (n == 0)
        return at_end(p) ? bad_syntax(p, "a character")
                         : fail_at(p, p->pos, FY_EFORMAT, "found a byte that is not UTF-8");
    p->pos += (size_t)n;
    return 0;
}

/* --- symbols ---------------------------------------------------------------------------------- */

static int read_text(parser *p, fy_node *out)
{
    fy_str s = {0};
    int rc = 0;
    p->pos++;
    while (rc == 0 && peek(p) != '"') {
        uint32_t cp = 0;
        rc = at_end(p) ? bad_syntax(p, "the closing '\"' of a text") : read_char(p, &cp);
        if (rc == 0)
            fy_str_put_utf8(&s, cp);
    }
    p->pos++;
    if (rc == 0)
        rc = s.oom ? fy_nomem(p->e) : 0;
    *out = rc == 0 ? fy_rules_text(p->r, (fy_span){s.ptr, s.len}) : 0;
    fy_str_release(&s);
    return rc;
}

static int read_range(parser *p)
{
    fy_cp_range x;
    const size_t begin = p->pos;
    if (read_char(p, &x.lo) != 0)
        return -1;
    x.hi = x.lo;
    if (peek(p) == '-' && p->pos + 1 < p->text.len && p->text.ptr[p->pos + 1] != ']') {
        p->pos++;
        if (read_char(p, &x.hi) != 0)
            return -1;
    }
    if (x.lo > x.hi)
        return fail_at(p, begin, FY_EFORMAT, "found a range whose end is before its beginning");
    return fy_append(&p->ranges, &p->n_ranges, &p->cap_ranges, &x, sizeof x, p->e);
}

static int read_class(parser *p, fy_node *out)
{
    const size_t begin = p->pos++;
    const bool negated = peek(p) == '^';
    p->pos += negated;
    p->n_ranges = 0;
    while (peek(p) != ']') {
        if (at_end(p))
            return bad_syntax(p, "the closing ']' of a class");
        if (read_range(p) != 0)
            return -1;
    }
    p->pos++;
    *out = fy_rules_class(p->r, p->ranges, p->n_ranges, negated);
    if (*out != 0 && (p->n_ranges == 0 || fy_rules_is_empty_class(p->r, *out)))
        return fail_at(p, begin, FY_EFORMAT, "found a class without characters");
    return 0;
}

static fy_span read_name(parser *p)
{
    const size_t begin = p->pos;
    while (is_name_char(peek(p)))
        p->pos++;
    return (fy_span){p->text.ptr + begin, p->pos - begin};
}

static size_t slot_of(const parser *p, fy_span name)
{
    uint64_t h = 1469598103934665603u; /* FNV-1a */
    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (uint8_t)name.ptr[i]) * 1099511628211u;
    size_t at = (size_t)h & (p->n_slots - 1);
    while (p->slots[at] != 0 && !fy_span_eq(fy_rules_name(p->r, p->slots[at] - 1), name))
        at = (at + 1) & (p->n_slots - 1);
    return at;
}

/* The rule of this name, declared when it is new. */
static int rule_named(parser *p, fy_span name, uint32_t *rule)
{
    const size_t at = slot_of(p, name);
    const size_t place = (size_t)(name.ptr - p->text.ptr);
    if (p->slots[at] != 0) {
        *rule = p->slots[at] - 1;
        return 0;
    }
    if (fy_rules_declare(p->r, name, rule, p->e) != 0)
        return -1;
    p->slots[at] = *rule + 1;
    return fy_append(&p->places, &p->n_places, &p->cap_places, &place, sizeof place, p->e);
}

static int read_alternatives(parser *p, bool nested, fy_node *out);

static int read_group(parser *p, fy_node *out)
{
    if (p->depth == FY_GRAMMAR_NESTING_MAX)
        return fail_at(p, p->pos, FY_EFIT, "more than 256 parentheses are open");
    p->depth++;
    p->pos++;
    skip_space(p, true);
    if (read_alternatives(p, true, out) != 0)
        return -1;
    if (peek(p) != ')')
        return bad_syntax(p, "a symbol, '|' or ')'");
    p->pos++;
    p->depth--;
    return 0;
}

static int refuse_token(parser *p)
{
    return fail_at(p, p->pos, FY_EUNSUPPORTED,
                   "found a token (<name>, <[id]> or its negation), which ferry does not support; "
                   "write text in quotes");
}

/* One symbol. 0: there is none here. */
static int read_symbol(parser *p, fy_node *out)
{
    static const fy_cp_range any = {0, 0x10FFFF};
    const char c = peek(p);
    uint32_t rule;
    if (c == '"')
        return read_text(p, out) == 0 ? 1 : -1;
    if (c == '[')
        return read_class(p, out) == 0 ? 1 : -1;
    if (c == '(')
        return read_group(p, out) == 0 ? 1 : -1;
    if (c == '<' || c == '!')
        return refuse_token(p);
    if (c == '.') {
        p->pos++;
        *out = fy_rules_class(p->r, &any, 1, false);
        return 1;
    }
    if (!is_name_char(c))
        return 0;
    if (rule_named(p, read_name(p), &rule) != 0)
        return -1;
    *out = fy_rules_call(p->r, rule);
    return 1;
}

/* --- repetition ------------------------------------------------------------------------------- */

/* Digits; false when there are none. */
static bool read_count(parser *p, uint32_t *out)
{
    const size_t begin = p->pos;
    uint32_t v = 0;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->pos++)
        v = v < COUNT_MAX / 10 ? v * 10 + (uint32_t)(peek(p) - '0') : COUNT_MAX;
    if (p->pos > begin)
        *out = v;
    return p->pos > begin;
}

/* After '{'. */
static int read_counts(parser *p, bool nested, uint32_t *min, uint32_t *max)
{
    const size_t begin = p->pos;
    skip_space(p, nested);
    *min = 0;
    const bool has_min = read_count(p, min);
    skip_space(p, nested);
    if (peek(p) == ',') {
        p->pos++;
        skip_space(p, nested);
        *max = FY_MANY;
        if (!read_count(p, max) && !has_min)
            return bad_syntax(p, "a count, as {2}, {2,}, {,5} or {2,5}");
        skip_space(p, nested);
    } else if (has_min) {
        *max = *min;
    } else {
        return bad_syntax(p, "a count, as {2}, {2,}, {,5} or {2,5}");
    }
    if (peek(p) != '}')
        return bad_syntax(p, "',' or '}' in a count");
    p->pos++;
    if (*min > *max)
        return fail_at(p, begin, FY_EFORMAT, "found {n,m} with n larger than m");
    return 0;
}

static int repeat(parser *p, size_t begin, fy_node *item, uint32_t min, uint32_t max)
{
    *item = fy_rules_repeat(p->r, *item, min, max);
    if (fy_rules_symbols(p->r, *item) > FY_GRAMMAR_SYMBOLS_MAX)
        return fail_at(p, begin, FY_EFIT,
                       "this count makes more than 32768 symbols; use a smaller one");
    return 0;
}

/* What follows a symbol, any number of times. */
static int read_repetitions(parser *p, bool nested, fy_node *item)
{
    for (;;) {
        uint32_t min = 0, max = FY_MANY;
        const size_t begin = p->pos;
        switch (peek(p)) {
        case '*':
            break;
        case '+':
            min = 1;
            break;
        case '?':
            max = 1;
            break;
        case '{':
            p->pos++;
            if (read_counts(p, nested, &min, &max) != 0)
                return -1;
            p->pos--;
            break;
        default:
            return 0;
        }
        p->pos++;
        skip_space(p, nested);
        if (repeat(p, begin, item, min, max) != 0)
            return -1;
    }
}

/* --- rules ------------------------------------------------------------------------------------ */

static int push_part(parser *p, fy_node node)
{
    return fy_append(&p->parts, &p->n_parts, &p->cap_parts, &node, sizeof node, p->e);
}

static int read_sequence(parser *p, bool nested, fy_node *out)
{
    const size_t first = p->n_parts;
    fy_node item = 0;
    int rc;
    while ((rc = read_symbol(p, &item)) == 1) {
        skip_space(p, nested);
        if (read_repetitions(p, nested, &item) != 0 || push_part(p, item) != 0)
            return -1;
    }
    if (rc == 0 && peek(p) != '\0' && strchr("*+?{", peek(p)) != NULL)
        return bad_syntax(p, "a symbol before the repetition");
    const fy_node *parts = p->parts != NULL ? p->parts + first : NULL; /* there may be none at all */
    *out = rc == 0 ? fy_rules_seq(p->r, parts, p->n_parts - first) : 0;
    p->n_parts = first;
    return rc;
}

/* As deep as the parentheses. */
static int read_alternatives(parser *p, bool nested, fy_node *out)
{
    const size_t first = p->n_parts;
    for (;;) {
        fy_node item = 0;
        if (read_sequence(p, nested, &item) != 0 || push_part(p, item) != 0)
            return -1;
        if (peek(p) != '|')
            break;
        p->pos++;
        skip_space(p, true);
    }
    *out = fy_rules_alt(p->r, p->parts + first, p->n_parts - first);
    p->n_parts = first;
    return 0;
}

static int read_rule(parser *p)
{
    static const char sign[] = "::=";
    const size_t begin = p->pos;
    fy_span name = read_name(p);
    fy_node tree = 0;
    uint32_t rule;
    if (name.len == 0)
        return bad_syntax(p, "the name of a rule: letters, digits, '-' and '_'");
    skip_space(p, false);
    if (p->text.len - p->pos < 3 || memcmp(p->text.ptr + p->pos, sign, 3) != 0)
        return bad_syntax(p, "'::=' after the name of a rule");
    p->pos += 3;
    skip_space(p, true);
    if (rule_named(p, name, &rule) != 0)
        return -1;
    if (fy_rules_is_defined(p->r, rule)) {
        p->places[rule] = begin;
        return fail_of_rule(p, rule, FY_EFORMAT, "is defined twice");
    }
    p->places[rule] = begin;
    if (read_alternatives(p, false, &tree) != 0)
        return -1;
    if (!at_end(p) && peek(p) != '\n' && peek(p) != '\r')
        return bad_syntax(p, "a symbol, '|' or the end of the line");
    p->symbols += fy_rules_symbols(p->r, tree);
    if (p->symbols > FY_GRAMMAR_SYMBOLS_MAX)
        return fail_of_rule(p, rule, FY_EFIT,
                            "the rules so far make more than 32768 symbols with counts unrolled");
    if (tree == 0)
        return fy_nomem(p->e);
    fy_rules_define(p->r, rule, tree);
    skip_space(p, true);
    return 0;
}

static fy_grammar *finish(parser *p)
{
    fy_err why = {0};
    const size_t at = slot_of(p, FY_SPAN("root"));
    if (p->slots[at] == 0) {
        fy_fail(p->e, FY_EFORMAT, "there is no rule 'root', where every grammar begins");
        return NULL;
    }
    uint32_t bad = 0;
    for (uint32_t i = 0; i < fy_rules_n(p->r); i++) {
        if (!fy_rules_is_defined(p->r, i)) {
            fail_of_rule(p, i, FY_EFORMAT, "is used but not defined");
            return NULL;
        }
    }
    fy_grammar *g = fy_rules_compile(p->r, p->slots[at] - 1, FY_GRAMMAR_SYMBOLS_MAX, &bad, &why);
    if (g == NULL && why.code == FY_EFORMAT)
        fail_of_rule(p, bad, why.code, why.msg);
    else if (g == NULL)
        fy_fail(p->e, why.code, "%s", why.msg);
    return g;
}

/* Twice the names that the text has room for. */
static size_t slots_for(size_t text_bytes)
{
    size_t n = 16;
    while (n < text_bytes)
        n *= 2;
    return n;
}

fy_grammar *fy_grammar_gbnf(fy_span text, fy_err *e)
{
    parser p = {.text = text, .e = e};
    fy_grammar *g = NULL;
    if (text.len > FY_GRAMMAR_TEXT_MAX) {
        fy_fail(e, FY_EFIT, "a grammar of %zu bytes, at most %d", text.len, FY_GRAMMAR_TEXT_MAX);
        return NULL;
    }
    p.n_slots = slots_for(text.len);
    p.slots = calloc(p.n_slots, sizeof *p.slots);
    p.r = p.slots != NULL ? fy_rules_new(e) : NULL;
    if (p.r == NULL)
        fy_nomem(e);
    int rc = p.r != NULL ? 0 : -1;
    if (rc == 0)
        skip_space(&p, true);
    while (rc == 0 && !at_end(&p))
        rc = read_rule(&p);
    if (rc == 0)
        g = finish(&p);
    fy_rules_free(p.r);
    free(p.parts);
    free(p.ranges);
    free(p.places);
    free(p.slots);
    return g;
}
