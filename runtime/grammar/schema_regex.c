/* Patterns of strings: regular expressions as ECMA-262 writes them, without what looks around
 * (\b, (?=...)) or back (\1). What they match is spelled as JSON: quotes, backslashes and controls
 * as escapes, everything else as it is; where strings have marks around them instead of quotes, as
 * it is without the character that begins the mark. A pattern without ^ or $ may have anything
 * before or after it. */
#include "grammar/recognise.h"
#include "grammar/schema_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NESTING_MAX 64
#define MANY        UINT32_MAX
#define SYMBOLS_MAX 65536 /* of a pattern that is compiled alone */
#define WAYS_MAX    2500  /* through a pattern at once: a mask of 128,000 tokens takes 40 ms */
#define TEXT_MAX    4096  /* bytes of a text that is looked for */

/* A part of a pattern: its tree, and how many characters it matches. */
typedef struct {
    fy_node node;
    uint32_t min, max;
} part;

typedef struct {
    fy_schema *s;
    const fy_place *place;
    const char *begin, *at; /* view */
    fy_cp_range *set;       /* owned: of the open class */
    size_t n_set, cap_set;
    int depth;
} regex;

/* Part of a class, in JSON. */
typedef struct {
    fy_cp_range *list;
    size_t n;
} ranges;

/* --- characters as JSON ----------------------------------------------------------------------- */

static bool holds(const ranges *r, uint32_t cp)
{
    for (size_t i = 0; i < r->n; i++) {
        if (cp >= r->list[i].lo && cp <= r->list[i].hi)
            return true;
    }
    return false;
}

static fy_node control_escape(fy_schema *s, uint32_t cp)
{
    static const char *const names[] = {
        ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f", ['\r'] = "\\r"};
    char text[8];
    snprintf(text, sizeof text, "\\u%04x", cp);
    return fy_schema_text(s, cp <= '\r' && names[cp] != NULL ? names[cp] : text);
}

/* One character of normalised ranges: as it is, unless it begins the mark. 0: there is none. */
static fy_node class_as_it_is(fy_schema *s, const ranges *r)
{
    const uint32_t mark = (uint8_t)s->quote[0];
    fy_cp_range *list = calloc(r->n * 2 + 1, sizeof *list);
    size_t n = 0;
    if (list == NULL) {
        fy_nomem(s->e);
        return 0;
    }
    for (size_t i = 0; i < r->n; i++) {
        const fy_cp_range x = {r->list[i].lo > 0 ? r->list[i].lo : 1, r->list[i].hi};
        const bool cut = mark >= x.lo && mark <= x.hi;
        const fy_cp_range low = {x.lo, cut ? mark - 1 : x.hi}, high = {mark + 1, x.hi};
        if (low.lo <= low.hi)
            list[n++] = low;
        if (cut && high.lo <= high.hi)
            list[n++] = high;
    }
    const fy_node made = n > 0 ? fy_rules_class(s->r, list, n, false) : 0;
    free(list);
    return made;
}

/* The same, in JSON. */
static fy_node class_as_json(fy_schema *s, const ranges *r)
{
    fy_cp_range *plain = calloc(r->n * 2 + 8, sizeof *plain);
    fy_node all = 0, escaped = 0;
    size_t n = 0;
    if (plain == NULL) {
        fy_nomem(s->e);
        return 0;
    }
    for (size_t i = 0; i < r->n; i++) {
        static const fy_cp_range usual[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};
        for (int k = 0; k < 3; k++) {
            const fy_cp_range x = {r->list[i].lo > usual[k].lo ? r->list[i].lo : usual[k].lo,
                                   r->list[i].hi < usual[k].hi ? r->list[i].hi : usual[k].hi};
            if (x.lo <= x.hi && n < r->n * 2 + 8)
                plain[n++] = x;
        }
    }
    if (n > 0)
        all = fy_rules_class(s->r, plain, n, false);
    free(plain);
    if (holds(r, '"'))
        escaped = fy_schema_alt(s, escaped, fy_schema_text(s, "\\\""));
    if (holds(r, '\\'))
        escaped = fy_schema_alt(s, escaped, fy_schema_text(s, "\\\\"));
    for (uint32_t cp = 1; cp < 0x20; cp++) { /* NUL is never written */
        if (holds(r, cp))
            escaped = fy_schema_alt(s, escaped, control_escape(s, cp));
    }
    return fy_schema_alt(s, all, escaped);
}

/* --- messages --------------------------------------------------------------------------------- */

static int fail_at(regex *x, fy_code code, const char *what)
{
    return fy_schema_fail(x->s, x->place, code, "'pattern', character %zu: %s",
                          (size_t)(x->at - x->begin) + 1, what);
}

/* --- classes ---------------------------------------------------------------------------------- */

static int add(regex *x, uint32_t lo, uint32_t hi)
{
    const fy_cp_range r = {lo, hi};
    return fy_append(&x->set, &x->n_set, &x->cap_set, &r, sizeof r, x->s->e);
}

/* \d \w \s and their opposites. */
static int add_named(regex *x, char name)
{
    static const fy_cp_range d[] = {{'0', '9'}};
    static const fy_cp_range w[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const fy_cp_range white[] = {
        {9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    const char kind = (char)(name | 0x20);
    const fy_cp_range *list = kind == 'd' ? d : kind == 'w' ? w : white;
    const size_t n = kind == 'd' ? 1 : kind == 'w' ? 4 : sizeof white / sizeof white[0];
    uint32_t lo = 0;
    if (name == kind) {
        for (size_t i = 0; i < n; i++) {
            if (add(x, list[i].lo, list[i].hi) != 0)
                return -1;
        }
        return 0;
    }
    for (size_t i = 0; i < n; lo = list[i++].hi + 1) {
        if (list[i].lo > lo && add(x, lo, list[i].lo - 1) != 0)
            return -1;
    }
    return add(x, lo, 0x10FFFF);
}

static int read_hex(regex *x, int n, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++, x->at++) {
        const int d = fy_hex_digit(*x->at);
        if (d < 0)
            return fail_at(x, FY_EFORMAT, "expected a hexadecimal digit");
        *out = *out << 4 | (uint32_t)d;
    }
    return 0;
}

/* \u: four digits, two of them for a character beyond U+FFFF, or {digits}. */
static int read_unicode(regex *x, uint32_t *out)
{
    uint32_t low;
    if (*x->at == '{') {
        *out = 0;
        for (x->at++; *x->at != '}'; x->at++) {
            const int d = fy_hex_digit(*x->at);
            if (d < 0 || *out > 0x10FFFF)
                return fail_at(x, FY_EFORMAT, "expected \\u{...} with hexadecimal digits");
            *out = *out << 4 | (uint32_t)d;
        }
        x->at++;
        return 0;
    }
    if (read_hex(x, 4, out) != 0)
        return -1;
    if (*out >= 0xD800 && *out <= 0xDBFF && x->at[0] == '\\' && x->at[1] == 'u') {
        x->at += 2;
        if (read_hex(x, 4, &low) != 0)
            return -1;
        *out = 0x10000 + ((*out & 0x3FF) << 10) + (low & 0x3FF);
    }
    return 0;
}

/* After a backslash: one character. */
static int read_escape(regex *x, uint32_t *out)
{
    static const char from[] = "nrtfv0", to[] = "\n\r\t\f\v\0";
    const char c = *x->at;
    const char *known = c != '\0' ? strchr(from, c) : NULL;
    if (known != NULL && !(c == '0' && x->at[1] >= '0' && x->at[1] <= '9')) {
        x->at++;
        *out = (uint8_t)to[known - from];
        return 0;
    }
    if (c == 'x' || c == 'u') {
        x->at++;
        return c == 'x' ? read_hex(x, 2, out) : read_unicode(x, out);
    }
    if (c == '\0')
        return fail_at(x, FY_EFORMAT, "a backslash at the end");
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return fail_at(x, FY_EUNSUPPORTED, "this escape is not supported");
    const int n = fy_utf8_next(x->at, strlen(x->at), out);
    x->at += n > 0 ? n : 1;
    return 0;
}

static int read_class_char(regex *x, uint32_t *out)
{
    if (*x->at == '\\') {
        x->at++;
        if (*x->at == 'b') {
            x->at++;
            *out = '\b';
            return 0;
        }
        return read_escape(x, out);
    }
    if (*x->at == '\0')
        return fail_at(x, FY_EFORMAT, "a class without its end ']'");
    const int n = fy_utf8_next(x->at, strlen(x->at), out);
    x->at += n > 0 ? n : 1;
    return 0;
}

static bool at_named(const char *p)
{
    return p[0] == '\\' && p[1] != '\0' && strchr("dwsDWS", p[1]) != NULL;
}

static int read_class_item(regex *x)
{
    uint32_t lo, hi;
    if (at_named(x->at)) {
        x->at += 2;
        return add_named(x, x->at[-1]);
    }
    if (read_class_char(x, &lo) != 0)
        return -1;
    hi = lo;
    if (x->at[0] == '-' && x->at[1] != ']' && x->at[1] != '\0') {
        x->at++;
        if (at_named(x->at))
            return fail_at(x, FY_EFORMAT, "a range that ends in a class");
        if (read_class_char(x, &hi) != 0)
            return -1;
    }
    if (lo > hi)
        return fail_at(x, FY_EFORMAT, "a range whose end is before its beginning");
    return add(x, lo, hi);
}

static int end_class(regex *x, bool negated, part *out)
{
    fy_cp_range *list = calloc(x->n_set * 2 + 8, sizeof *list);
    if (list == NULL)
        return fy_nomem(x->s->e);
    if (x->n_set > 0)
        memcpy(list, x->set, x->n_set * sizeof *list);
    ranges r = {list, fy_cp_ranges_normalize(list, x->n_set)};
    if (negated) {
        fy_cp_range *other = list + r.n;
        uint32_t lo = 0;
        size_t n = 0;
        for (size_t i = 0; i < r.n; lo = list[i++].hi + 1) {
            if (list[i].lo > lo)
                other[n++] = (fy_cp_range){lo, list[i].lo - 1};
        }
        if (lo <= 0x10FFFF)
            other[n++] = (fy_cp_range){lo, 0x10FFFF};
        memmove(list, other, n * sizeof *list);
        r.n = fy_cp_ranges_normalize(list, n);
    }
    *out = (part){x->s->quote != NULL ? class_as_it_is(x->s, &r) : class_as_json(x->s, &r), 1, 1};
    free(list);
    return 0;
}

static int read_class(regex *x, part *out)
{
    x->n_set = 0;
    x->at++;
    const bool negated = *x->at == '^';
    x->at += negated;
    while (*x->at != ']') {
        if (*x->at == '\0')
            return fail_at(x, FY_EFORMAT, "a class without its end ']'");
        if (read_class_item(x) != 0)
            return -1;
    }
    x->at++;
    return end_class(x, negated, out);
}

/* --- sequences -------------------------------------------------------------------------------- */

static int read_alternatives(regex *x, bool top, part *out);

static int read_group(regex *x, part *out)
{
    if (++x->depth > NESTING_MAX)
        return fail_at(x, FY_EFIT, "more than 64 open groups");
    x->at++;
    if (x->at[0] == '?') {
        if (x->at[1] == ':') {
            x->at += 2;
        } else if (x->at[1] == '<' && x->at[2] != '=' && x->at[2] != '!') {
            while (*x->at != '\0' && *x->at != '>')
                x->at++;
            x->at += *x->at == '>';
        } else {
            return fail_at(x, FY_EUNSUPPORTED, "look-around is not supported");
        }
    }
    if (read_alternatives(x, false, out) != 0)
        return -1;
    if (*x->at != ')')
        return fail_at(x, FY_EFORMAT, "a group without its end ')'");
    x->at++;
    x->depth--;
    return 0;
}

static int read_dot(regex *x, part *out)
{
    x->n_set = 0;
    x->at++;
    if (add(x, '\n', '\n') != 0 || add(x, '\r', '\r') != 0 || add(x, 0x2028, 0x2029) != 0)
        return -1;
    return end_class(x, true, out);
}

static int read_atom(regex *x, part *out)
{
    uint32_t cp;
    switch (*x->at) {
    case '(':
        return read_group(x, out);
    case '[':
        return read_class(x, out);
    case '.':
        return read_dot(x, out);
    case '^':
    case '$':
        return fail_at(x, FY_EUNSUPPORTED, "'^' and '$' are supported at the ends only");
    case '*':
    case '+':
    case '?':
    case '{':
        return fail_at(x, FY_EFORMAT, "a repetition of nothing");
    case '\\':
        if (strchr("bBkpP", x->at[1]) != NULL && x->at[1] != '\0')
            return fail_at(x, FY_EUNSUPPORTED, "this escape is not supported");
        break;
    default:
        break;
    }
    x->n_set = 0;
    if (at_named(x->at)) {
        x->at += 2;
        return add_named(x, x->at[-1]) == 0 ? end_class(x, false, out) : -1;
    }
    if (read_class_char(x, &cp) != 0 || add(x, cp, cp) != 0)
        return -1;
    return end_class(x, false, out);
}

static bool read_number(regex *x, uint32_t *out)
{
    const char *begin = x->at;
    for (*out = 0; *x->at >= '0' && *x->at <= '9'; x->at++)
        *out = *out < 100000000 ? *out * 10 + (uint32_t)(*x->at - '0') : 1000000000;
    return x->at > begin;
}

static uint32_t times(uint32_t a, uint32_t b)
{
    const uint64_t product = (uint64_t)a * b;
    return a == 0 || b == 0                            ? 0
           : a == MANY || b == MANY || product >= MANY ? MANY
                                                       : (uint32_t)product;
}

static uint32_t plus(uint32_t a, uint32_t b)
{
    return a == MANY || b == MANY || (uint64_t)a + b >= MANY ? MANY : a + b;
}

static int repeat(regex *x, part *p, uint32_t min, uint32_t max)
{
    if (min > max)
        return fail_at(x, FY_EFORMAT, "a repetition {n,m} with n larger than m");
    if (p->node == 0) { /* a class without characters */
        *p = min == 0 ? (part){fy_schema_text(x->s, ""), 0, 0} : *p;
        return 0;
    }
    *p =
        (part){fy_rules_repeat(x->s->r, p->node, min, max), times(p->min, min), times(p->max, max)};
    if (fy_rules_symbols(x->s->r, p->node) > 1u << 20)
        return fail_at(x, FY_EFIT, "the count is too large");
    return 0;
}

static int read_repetition(regex *x, part *p)
{
    uint32_t min = 0, max = MANY;
    switch (*x->at) {
    case '*':
        break;
    case '+':
        min = 1;
        break;
    case '?':
        max = 1;
        break;
    case '{':
        x->at++;
        if (!read_number(x, &min))
            return fail_at(x, FY_EFORMAT, "expected a count after '{'");
        max = min;
        if (*x->at == ',') {
            x->at++;
            if (!read_number(x, &max))
                max = MANY;
        }
        if (*x->at != '}')
            return fail_at(x, FY_EFORMAT, "expected '}' after a count");
        break;
    default:
        return 0;
    }
    x->at++;
    x->at += *x->at == '?'; /* the lazy one matches the same texts */
    return repeat(x, p, min, max);
}

static void join(regex *x, part *all, const part *p)
{
    *all = (part){fy_schema_seq(x->s, all->node, p->node), plus(all->min, p->min),
                  plus(all->max, p->max)};
}

/* Whatever is before or after a pattern without an anchor. */
static part anything(regex *x)
{
    return (part){fy_rules_repeat(x->s->r, fy_schema_any(x->s, FY_ANY_CHAR), 0, FY_MANY), 0, MANY};
}

static int read_sequence(regex *x, bool top, part *out)
{
    const part free_text = top ? anything(x) : (part){0};
    *out = (part){fy_schema_text(x->s, ""), 0, 0};
    if (top && *x->at == '^')
        x->at++;
    else if (top)
        *out = free_text;
    while (*x->at != '\0' && *x->at != '|' && *x->at != ')') {
        part p;
        if (top && *x->at == '$' && (x->at[1] == '\0' || x->at[1] == '|')) {
            x->at++;
            return 0;
        }
        if (read_atom(x, &p) != 0 || read_repetition(x, &p) != 0)
            return -1;
        join(x, out, &p);
    }
    if (top)
        join(x, out, &free_text);
    return 0;
}

/* As deep as the groups. */
static int read_alternatives(regex *x, bool top, part *out)
{
    for (bool first = true;; first = false) {
        part p;
        if (read_sequence(x, top, &p) != 0)
            return -1;
        if (first || (out->node == 0 && p.node != 0))
            *out = p;
        else if (p.node != 0)
            *out = (part){fy_schema_alt(x->s, out->node, p.node),
                          out->min < p.min ? out->min : p.min, out->max > p.max ? out->max : p.max};
        if (*x->at != '|')
            return 0;
        x->at++;
    }
}

int fy_schema_regex(fy_schema *s, const char *pattern, const fy_place *place, fy_node *out,
                    uint32_t *min, uint32_t *max)
{
    regex x = {.s = s, .place = place, .begin = pattern, .at = pattern};
    part all = {0};
    int rc = read_alternatives(&x, true, &all);
    if (rc == 0 && *x.at != '\0')
        rc = fail_at(&x, FY_EFORMAT, "a ')' without its '('");
    free(x.set);
    *out = all.node;
    *min = all.min;
    *max = all.max;
    return rc;
}

fy_grammar *fy_schema_regex_alone(fy_schema *s, const char *pattern, const fy_place *place)
{
    fy_schema own = {.root = s->root, .made = s->made, .e = s->e};
    fy_node tree = 0;
    uint32_t rule, min, max, bad;
    fy_grammar *g = NULL;
    own.r = fy_rules_new(own.e);
    if (own.r != NULL && fy_rules_declare(own.r, FY_SPAN("pattern"), &rule, own.e) == 0 &&
        fy_schema_regex(&own, pattern, place, &tree, &min, &max) == 0) {
        fy_rules_define(own.r, rule, tree != 0 ? tree : fy_schema_text(&own, ""));
        g = fy_rules_compile(own.r, rule, SYMBOLS_MAX, &bad, own.e);
    }
    fy_rules_free(own.r);
    return g;
}

/* Of the situations after one ASCII character more the one with the most ways; FY_DEAD: none goes
 * on. */
static int widest_next(fy_recogniser *r, uint32_t from, uint32_t *out, fy_err *e)
{
    *out = FY_DEAD;
    for (uint32_t c = 0; c < r->g->n_classes; c++) {
        uint32_t to = FY_DEAD;
        if (r->g->byte_of[c] < 0x80 && fy_recogniser_next(r, from, c, &to, e) != 0)
            return -1;
        if (r->situations.sets[to].n > r->situations.sets[*out].n)
            *out = to;
    }
    return 0;
}

/* The most ways that a text meets, or more than `enough` of them: one that is this byte again and
 * again; 0: one that takes the widest way at each character. */
static int walk(fy_recogniser *r, uint8_t byte, uint32_t enough, uint32_t *most, fy_err *e)
{
    uint32_t at;
    int rc = fy_recogniser_start(r, &at, e);
    for (uint32_t n = 0; rc == 0 && at != FY_DEAD && *most <= enough && n < TEXT_MAX; n++) {
        *most = r->situations.sets[at].n > *most ? r->situations.sets[at].n : *most;
        rc = byte == 0 ? widest_next(r, at, &at, e)
                       : fy_recogniser_next(r, at, r->g->class_of[byte], &at, e);
    }
    return rc;
}

static int find_ways(const fy_grammar *g, uint32_t enough, uint32_t *most, fy_err *e)
{
    static const uint8_t bytes[] = {0, 'a', 'A', '0', ' '};
    fy_recogniser r;
    *most = 0;
    if (fy_recogniser_init(&r, g, e) != 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof bytes; i++)
        rc = walk(&r, bytes[i], enough, most, e);
    fy_recogniser_release(&r);
    return rc;
}

int fy_schema_regex_check(fy_schema *s, const char *pattern, const fy_place *place)
{
    fy_err why = {0};
    uint32_t most = 0;
    fy_grammar *g = fy_schema_regex_alone(s, pattern, place);
    if (g == NULL)
        return -1;
    const int rc = find_ways(g, WAYS_MAX, &most, &why);
    fy_grammar_free(g);
    if (rc != 0 && why.code != FY_EFIT)
        return fy_fail(s->e, why.code, "%s", why.msg);
    if (rc == 0 && most <= WAYS_MAX)
        return 0;
    return fy_schema_fail(s, place, FY_EFIT,
                          "'pattern': a text can go through it in too many ways at once, and its "
                          "masks take too long; anchor it with ^ and $, or use smaller counts");
}
