/* Strings that stand in a text as they are, between marks instead of quotes, as some models write
 * the arguments of their calls. There are no escapes: a string cannot hold its own end. */
#include <string.h>

#include "grammar/schema_impl.h"

/* How much of the mark a text ends with that ends with n bytes of it, then c. */
static uint32_t matched(const char *mark, uint32_t n, char c)
{
    for (uint32_t k = n + 1; k > 0; k--) {
        if (mark[k - 1] == c && memcmp(mark, mark + n + 1 - k, k - 1) == 0)
            return k;
    }
    return 0;
}

/* One more character of a text that ends with k bytes of the mark, and what comes after it: rule
 * next + i is what may come after i bytes. */
static fy_node next_char(fy_schema *s, const char *mark, uint32_t k, uint32_t next)
{
    const uint32_t n = (uint32_t)strlen(mark);
    fy_cp_range ranges[33] = {{0, 0}}; /* NUL is never written */
    size_t n_ranges = 1;
    fy_node any = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t to = matched(mark, k, mark[i]);
        const fy_cp_range c = {(uint32_t)mark[i], (uint32_t)mark[i]};
        if (to == 0 || memchr(mark, mark[i], i) != NULL)
            continue;
        ranges[n_ranges++] = c;
        if (to < n)
            any = fy_schema_alt(s, any,
                                fy_schema_seq(s, fy_rules_class(s->r, &c, 1, false),
                                              fy_rules_call(s->r, next + to)));
    }
    return fy_schema_alt(
        s, any,
        fy_schema_seq(s, fy_rules_class(s->r, ranges, n_ranges, true), fy_rules_call(s->r, next)));
}

/* As many rules as the mark has bytes; the number of the first. */
static int declare(fy_schema *s, const char *mark, uint32_t *first)
{
    uint32_t rule;
    for (size_t k = 0; k < strlen(mark); k++) {
        if (fy_rules_declare(s->r, FY_SPAN("text"), k == 0 ? first : &rule, s->e) != 0)
            return -1;
    }
    return 0;
}

/* Rule k of a row is what may come after k bytes of the mark: a row for each character that is
 * counted, and one for all that are not. */
fy_node fy_schema_text_without(fy_schema *s, const char *mark, uint32_t min, uint32_t max)
{
    const uint32_t n = (uint32_t)strlen(mark), counted = max == FY_MANY ? min : max;
    uint32_t here, next;
    if (min > max || declare(s, mark, &next) != 0)
        return 0;
    for (uint32_t k = 0; k < n; k++) {
        fy_node end = fy_schema_text(s, "");
        if (max == FY_MANY)
            end = fy_schema_alt(s, end, next_char(s, mark, k, next));
        fy_rules_define(s->r, next + k, end);
    }
    for (uint32_t c = counted; c-- > 0; next = here) {
        if (declare(s, mark, &here) != 0)
            return 0;
        for (uint32_t k = 0; k < n; k++) {
            fy_node more = next_char(s, mark, k, next);
            if (c >= min)
                more = fy_schema_alt(s, fy_schema_text(s, ""), more);
            fy_rules_define(s->r, here + k, more);
        }
    }
    return fy_rules_call(s->r, next);
}

fy_node fy_schema_plain_char(fy_schema *s)
{
    const fy_cp_range but[] = {{0, 0}, {(uint8_t)s->quote[0], (uint8_t)s->quote[0]}};
    return fy_rules_class(s->r, but, 2, true);
}

fy_node fy_schema_plain_literal(fy_schema *s, const char *text, size_t n)
{
    if (memmem(text, n, s->quote, strlen(s->quote)) != NULL || memchr(text, 0, n) != NULL) {
        fy_schema_fail(s, NULL, FY_EUNSUPPORTED,
                       "a value that holds NUL or '%s', the end of a string in this model's calls",
                       s->quote);
        return 0;
    }
    return fy_schema_quoted(s, fy_rules_text(s->r, (fy_span){text, n}));
}

const fy_cp_range fy_schema_not_in_names[FY_NOT_IN_NAMES] = {
    {0, ' '},   {'"', '"'}, {',', ','}, {':', ':'},    {'<', '<'},
    {'[', '['}, {']', ']'}, {'{', '{'}, {'}', '\x7F'},
};

bool fy_schema_is_plain_name(const char *name)
{
    for (const char *c = name; *c != '\0'; c++) {
        for (size_t i = 0; i < FY_NOT_IN_NAMES; i++) {
            if ((uint8_t)*c >= fy_schema_not_in_names[i].lo &&
                (uint8_t)*c <= fy_schema_not_in_names[i].hi)
                return false;
        }
    }
    return name[0] != '\0';
}
