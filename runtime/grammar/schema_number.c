/* Numbers between bounds, digit by digit: integers of at most 18 digits, and decimals of at most 15
 * digits after the point. A number of more digits than its bound is above it, so each length is a
 * case of its own; among numbers of one length the first digit that differs decides. */
#include "grammar/schema_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE_DIGITS    15 /* of a number without a bound on that side */
#define FRACTION_DIGITS 15

/* A bound without its sign. */
typedef struct {
    char whole[24], fraction[24]; /* digits; "0" at least; no zeros at the end */
    bool out;                     /* the bound itself is not valid */
} limit;

/* --- digits ----------------------------------------------------------------------------------- */

static fy_node digits(fy_schema *s, char from, char to)
{
    const fy_cp_range range = {(uint8_t)from, (uint8_t)to};
    return from <= to ? fy_rules_class(s->r, &range, 1, false) : 0;
}

static fy_node any_digits(fy_schema *s, size_t min, size_t max)
{
    return max == 0 ? fy_schema_text(s, "")
                    : fy_rules_repeat(s->r, digits(s, '0', '9'), (uint32_t)min, (uint32_t)max);
}

static fy_node one(fy_schema *s, char c)
{
    return digits(s, c, c);
}

/* --- whole numbers ---------------------------------------------------------------------------- */

/* Numbers of as many digits as a, at least a; or at most b. */
static fy_node whole_from(fy_schema *s, const char *a)
{
    if (*a == '\0')
        return fy_schema_text(s, "");
    const fy_node more = fy_schema_seq(s, digits(s, (char)(*a + 1), '9'),
                                       any_digits(s, strlen(a) - 1, strlen(a) - 1));
    return fy_schema_alt(s, fy_schema_seq(s, one(s, *a), whole_from(s, a + 1)), more);
}

static fy_node whole_to(fy_schema *s, const char *b)
{
    if (*b == '\0')
        return fy_schema_text(s, "");
    const fy_node less = fy_schema_seq(s, digits(s, '0', (char)(*b - 1)),
                                       any_digits(s, strlen(b) - 1, strlen(b) - 1));
    return fy_schema_alt(s, less, fy_schema_seq(s, one(s, *b), whole_to(s, b + 1)));
}

/* Of the same length, a <= b. */
static fy_node whole_same(fy_schema *s, const char *a, const char *b)
{
    if (*a == '\0')
        return fy_schema_text(s, "");
    if (*a == *b)
        return fy_schema_seq(s, one(s, *a), whole_same(s, a + 1, b + 1));
    const size_t rest = strlen(a) - 1;
    const fy_node low = fy_schema_seq(s, one(s, *a), whole_from(s, a + 1));
    const fy_node middle =
        fy_schema_seq(s, digits(s, (char)(*a + 1), (char)(*b - 1)), any_digits(s, rest, rest));
    const fy_node high = fy_schema_seq(s, one(s, *b), whole_to(s, b + 1));
    return fy_schema_alt(s, fy_schema_alt(s, low, middle), high);
}

static int whole_order(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    return n != m ? (n < m ? -1 : 1) : strcmp(a, b);
}

/* a .. b without leading zeros; 0 when there are none. */
static fy_node whole_between(fy_schema *s, const char *a, const char *b)
{
    fy_node all = 0;
    if (whole_order(a, b) > 0)
        return 0;
    for (size_t n = strlen(a); n <= strlen(b); n++) {
        char low[24], high[24];
        memset(low, '0', n);
        memset(high, '9', n);
        low[n] = high[n] = '\0';
        if (n > 1)
            low[0] = '1';
        all = fy_schema_alt(s, all,
                            whole_same(s, n == strlen(a) ? a : low, n == strlen(b) ? b : high));
    }
    return all;
}

static void add_one(char *digits_of)
{
    size_t i = strlen(digits_of);
    while (i > 0 && digits_of[i - 1] == '9')
        digits_of[--i] = '0';
    if (i > 0) {
        digits_of[i - 1]++;
    } else {
        memmove(digits_of + 1, digits_of, strlen(digits_of) + 1);
        digits_of[0] = '1';
    }
}

static bool take_one(char *digits_of) /* false: it was 0 */
{
    size_t i = strlen(digits_of);
    if (strcmp(digits_of, "0") == 0)
        return false;
    while (digits_of[i - 1] == '0')
        digits_of[--i] = '9';
    digits_of[i - 1]--;
    if (digits_of[0] == '0' && digits_of[1] != '\0')
        memmove(digits_of, digits_of + 1, strlen(digits_of));
    return true;
}

/* Whole numbers from lo to hi, both without a sign; NULL: none, but at most WHOLE_DIGITS digits, or
 * as many as lo has. */
static fy_node whole_range(fy_schema *s, const limit *lo, const limit *hi)
{
    char a[24], b[24];
    snprintf(a, sizeof a, "%s", lo->whole);
    if (lo->fraction[0] != '\0' || lo->out)
        add_one(a);
    if (hi != NULL) {
        snprintf(b, sizeof b, "%s", hi->whole);
        if (hi->fraction[0] == '\0' && hi->out && !take_one(b))
            return 0;
    } else {
        const size_t n = strlen(a) > WHOLE_DIGITS ? strlen(a) : WHOLE_DIGITS;
        memset(b, '9', n);
        b[n] = '\0';
    }
    return whole_between(s, a, b);
}

/* --- fractions -------------------------------------------------------------------------------- */

/* Digits after those that equal the bounds so far. from, to: what is left of the bounds, NULL: no
 * longer near it. May they end here; which digit may be next? */
typedef struct {
    const char *from, *to;
    bool from_out, to_out;
    size_t left; /* digits at most */
} near;

static bool is_zero(const char *d)
{
    return strspn(d, "0") == strlen(d);
}

static bool may_end(const near *n)
{
    if (n->from != NULL && !(is_zero(n->from) && !n->from_out))
        return false;
    return n->to == NULL || !is_zero(n->to) || !n->to_out;
}

static fy_node fraction_rest(fy_schema *s, near n);

/* One digit at least. */
static fy_node fraction_some(fy_schema *s, near n)
{
    fy_node all = 0;
    if (n.left == 0)
        return 0;
    if (n.from == NULL && n.to == NULL)
        return any_digits(s, 1, n.left);
    const char a = n.from == NULL ? '0' : *n.from != '\0' ? *n.from : '0';
    const char b = n.to == NULL ? '9' : *n.to != '\0' ? *n.to : '0';
    for (char c = a; c <= b; c++) {
        near next = n;
        next.left--;
        next.from = n.from != NULL && c == a ? n.from + (*n.from != '\0') : NULL;
        next.to = n.to != NULL && c == b ? n.to + (*n.to != '\0') : NULL;
        char last = c;
        while (last < b && next.from == NULL && next.to == NULL && !(n.to != NULL && last + 1 == b))
            last++;
        all = fy_schema_alt(s, all, fy_schema_seq(s, digits(s, c, last), fraction_rest(s, next)));
        c = last;
    }
    return all;
}

static fy_node fraction_rest(fy_schema *s, near n)
{
    if (n.from == NULL && n.to == NULL)
        return any_digits(s, 0, n.left);
    const fy_node some = fraction_some(s, n);
    if (!may_end(&n))
        return some;
    return fy_schema_optional(s, some);
}

/* What comes after the whole part: nothing, or a point and digits. */
static fy_node fraction(fy_schema *s, const limit *from, const limit *to)
{
    const near n = {from != NULL ? from->fraction : NULL, to != NULL ? to->fraction : NULL,
                    from != NULL && from->out, to != NULL && to->out, FRACTION_DIGITS};
    const fy_node some = fy_schema_seq(s, fy_schema_text(s, "."), fraction_some(s, n));
    if (!may_end(&n))
        return some;
    return fy_schema_optional(s, some);
}

/* Decimals from lo to hi without a sign; hi NULL: none. */
static fy_node decimal_range(fy_schema *s, const limit *lo, const limit *hi)
{
    char a[24], b[24];
    const int order = hi != NULL ? whole_order(lo->whole, hi->whole) : -1;
    if (order > 0)
        return 0;
    const fy_node at_lo = fy_schema_text(s, lo->whole);
    if (order == 0) {
        char x[24], y[24];
        snprintf(x, sizeof x, "%-23s", lo->fraction);
        snprintf(y, sizeof y, "%-23s", hi->fraction);
        const int by_fraction = strcmp(x, y); /* a space is below every digit */
        if (by_fraction > 0 || (by_fraction == 0 && (lo->out || hi->out)))
            return 0;
        return fy_schema_seq(s, at_lo, fraction(s, lo, hi));
    }
    snprintf(a, sizeof a, "%s", lo->whole);
    add_one(a);
    if (hi != NULL) {
        snprintf(b, sizeof b, "%s", hi->whole);
        take_one(b);
    } else {
        const size_t n = strlen(a) > WHOLE_DIGITS ? strlen(a) : WHOLE_DIGITS;
        memset(b, '9', n);
        b[n] = '\0';
    }
    fy_node all = fy_schema_seq(s, at_lo, fraction(s, lo, NULL));
    all = fy_schema_alt(s, all, fy_schema_seq(s, whole_between(s, a, b), fraction(s, NULL, NULL)));
    if (hi != NULL)
        all = fy_schema_alt(s, all,
                            fy_schema_seq(s, fy_schema_text(s, hi->whole), fraction(s, NULL, hi)));
    return all;
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* The shortest digits that mean v >= 0. False: too many of them. */
static bool spell(double v, limit *out)
{
    char text[40];
    for (int n = 1; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, v);
        if (strtod(text, NULL) == v)
            break;
    }
    char all[20] = {0};
    size_t n = 0;
    for (const char *p = text; *p != 'e'; p++) {
        if (*p != '.')
            all[n++] = *p;
    }
    while (n > 1 && all[n - 1] == '0')
        all[--n] = '\0';
    const int point = (int)strtol(strchr(text, 'e') + 1, NULL, 10) + 1; /* digits before it */
    const int after = (int)n - point;
    if (v == 0) {
        snprintf(out->whole, sizeof out->whole, "0");
        return true;
    }
    if (point > 18 || after > FRACTION_DIGITS - 1)
        return false;
    for (int i = 0; i < point; i++)
        out->whole[i] = i < (int)n ? all[i] : '0';
    if (point <= 0)
        out->whole[0] = '0';
    for (int i = point; i < (int)n; i++)
        out->fraction[i - point] = i < 0 ? '0' : all[i];
    return true;
}

/* A bound of either side. */
typedef struct {
    bool given, negative;
    limit at;
} bound;

static int read_bound(fy_schema *s, const json_t *schema, const char *key, const char *strict,
                      bool is_min, const fy_place *place, bound *out)
{
    const json_t *v = json_object_get(schema, key), *w = json_object_get(schema, strict);
    if ((v != NULL && !json_is_number(v)) || (w != NULL && !json_is_number(w)))
        return fy_schema_fail(s, place, FY_EFORMAT, "'%s' is not a number",
                              v != NULL && !json_is_number(v) ? key : strict);
    if (v == NULL && w == NULL)
        return 0;
    out->given = true;
    const double x = json_number_value(v), y = json_number_value(w);
    const bool by_strict = v == NULL || (w != NULL && (is_min ? y >= x : y <= x));
    const double found = by_strict ? y : x;
    const json_t *from = by_strict ? w : v;
    out->negative = found < 0;
    out->at.out = by_strict;
    if (json_is_integer(from)) { /* a double may be another number */
        const json_int_t i = json_integer_value(from);
        if (i <= -1000000000000000000 || i >= 1000000000000000000)
            return fy_schema_fail(s, place, FY_EUNSUPPORTED,
                                  "'%s' of more than 18 digits is not supported",
                                  by_strict ? strict : key);
        snprintf(out->at.whole, sizeof out->at.whole, "%lld", (long long)(i < 0 ? -i : i));
        return 0;
    }
    if (!spell(fabs(found), &out->at))
        return fy_schema_fail(s, place, FY_EUNSUPPORTED,
                              "'%s' of more than 18 digits before the point or %d after it is not "
                              "supported",
                              by_strict ? strict : key, FRACTION_DIGITS - 1);
    return 0;
}

static bool is_zero_limit(const limit *l)
{
    return strcmp(l->whole, "0") == 0 && l->fraction[0] == '\0';
}

/* Without a bound and without exponents. */
static fy_node between(fy_schema *s, const bound *min, const bound *max, bool whole)
{
    fy_node (*const range)(fy_schema *, const limit *, const limit *) =
        whole ? whole_range : decimal_range;
    limit zero = {.whole = "0"}, above_zero = {.whole = "0", .out = true};
    fy_node all = 0;
    const bool max_below = max->given && max->negative; /* nothing from 0 on */
    if (!max_below)
        all =
            range(s, min->given && !min->negative ? &min->at : &zero, max->given ? &max->at : NULL);
    const bool min_above = min->given && (!min->negative || is_zero_limit(&min->at));
    if (min_above)
        return all;
    const fy_node below =
        range(s, max_below ? &max->at : &above_zero, min->given ? &min->at : NULL);
    return fy_schema_alt(s, all, fy_schema_seq(s, fy_schema_text(s, "-"), below));
}

int fy_schema_number(fy_schema *s, const json_t *schema, bool whole, const fy_place *place,
                     fy_node *out)
{
    bound min = {0}, max = {0};
    if (read_bound(s, schema, "minimum", "exclusiveMinimum", true, place, &min) != 0 ||
        read_bound(s, schema, "maximum", "exclusiveMaximum", false, place, &max) != 0)
        return -1;
    *out = !whole && !min.given && !max.given ? fy_schema_any(s, FY_ANY_NUMBER)
                                              : between(s, &min, &max, whole);
    return 0;
}
