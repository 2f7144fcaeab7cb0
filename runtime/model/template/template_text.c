#include "model/template/template_builtin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int put_z(fy_tm *m, fy_tbuf *b, const char *z)
{
    return fy_tbuf_add(m, b, z, strlen(z));
}

/* --- floats -------------------------------------------------------------------------------------
 */

/* The digits of `text` (d.ddde+xx) one unit in the last place up. False when it carries out. */
static bool next_decimal(char *text)
{
    char *p = strchr(text, 'e');
    while (p-- > text) {
        if (*p == '.' || *p == '-')
            continue;
        if (*p != '9') {
            ++*p;
            return true;
        }
        *p = '0';
    }
    return false;
}

/* Fewest digits that read back as d, as d.ddde+xx. The nearest decimal of a length is the one to
 * try, except at powers of two, where the gap above is wider than the one below. */
static void shortest(double d, char text[40])
{
    for (int digits = 1; digits < 17; digits++) {
        snprintf(text, 40, "%.*e", digits - 1, d);
        if (strtod(text, NULL) == d)
            return;
        int exponent;
        if (fabs(frexp(d, &exponent)) != 0.5)
            continue;
        if (next_decimal(text) && strtod(text, NULL) == d)
            return;
    }
    snprintf(text, 40, "%.16e", d);
}

void fy_float_layout(const char *digits, int n, int exponent, int max_exponent, bool alternate,
                     char *out)
{
    char *q = out;
    while (!alternate && n > 1 && digits[n - 1] == '0')
        n--;
    if (exponent < -4 || exponent >= max_exponent) {
        *q++ = digits[0];
        if (n > 1 || alternate) {
            *q++ = '.';
            memcpy(q, digits + 1, (size_t)n - 1);
            q += n - 1;
        }
        snprintf(q, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent) % 1000);
        return;
    }
    if (exponent < 0) {
        memcpy(q, "0.000", (size_t)(1 - exponent));
        q += 1 - exponent;
    }
    for (int i = 0; i < n || i <= exponent; i++) {
        if (i == exponent + 1 && exponent >= 0)
            *q++ = '.';
        *q++ = i < n ? digits[i] : '0';
    }
    if (exponent >= 0 && n <= exponent + 1) {
        *q++ = '.';
        *q++ = '0';
    }
    *q = '\0';
}

void fy_float_repr(double f, char out[32])
{
    fy_float_shortest(f, false, out);
}

void fy_float_shortest(double f, bool alternate, char out[32])
{
    if (!isfinite(f)) {
        strcpy(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    char text[40], digits[24];
    shortest(f, text);
    const char *p = text + (*text == '-');
    int n = 0;
    for (; *p != 'e'; p++)
        if (*p != '.')
            digits[n++] = *p;
    int exponent = atoi(p + 1);
    char *q = out;
    if (*text == '-')
        *q++ = '-';
    fy_float_layout(digits, n, exponent, 16, alternate, q);
}

/* --- strings ------------------------------------------------------------------------------------
 */

static int put_escape(fy_tm *m, fy_tbuf *b, uint32_t cp)
{
    char text[16];
    switch (cp) {
    case '\t':
        return put_z(m, b, "\\t");
    case '\n':
        return put_z(m, b, "\\n");
    case '\r':
        return put_z(m, b, "\\r");
    default:
        break;
    }
    if (cp > 0x10ffff) /* a byte that is not UTF-8: as Python's surrogateescape */
        cp = 0xdc00 | (cp & 0xff);
    if (cp <= 0xff)
        snprintf(text, sizeof text, "\\x%02x", cp);
    else if (cp <= 0xffff)
        snprintf(text, sizeof text, "\\u%04x", cp);
    else
        snprintf(text, sizeof text, "\\U%08x", cp);
    return put_z(m, b, text);
}

static int put_quoted(fy_tm *m, fy_tbuf *b, fy_span s)
{
    if (fy_tm_charge(m, s.len))
        return -1;
    bool single = s.len && memchr(s.ptr, '\'', s.len), dbl = s.len && memchr(s.ptr, '"', s.len);
    char quote = single && !dbl ? '"' : '\'';
    if (fy_tbuf_add(m, b, &quote, 1))
        return -1;
    const char *p = s.ptr, *end = s.ptr + s.len, *done = p;
    while (p < end) {
        const char *at = p;
        uint32_t cp = fy_tu_next(&p, end);
        bool marked = cp == (unsigned char)quote || cp == '\\';
        if (!marked && fy_tu_is_printable(cp))
            continue;
        if (fy_tbuf_add(m, b, done, (size_t)(at - done)))
            return -1;
        done = marked ? at : p;
        if (marked ? put_z(m, b, "\\") : put_escape(m, b, cp))
            return -1;
    }
    return fy_tbuf_add(m, b, done, (size_t)(p - done)) || fy_tbuf_add(m, b, &quote, 1) ? -1 : 0;
}

/* --- containers ---------------------------------------------------------------------------------
 */

static int put_items(fy_tm *m, fy_tbuf *b, const fy_tlist *list)
{
    for (size_t i = 0; i < list->n; i++)
        if ((i && put_z(m, b, ", ")) || fy_tv_put_repr(m, b, &list->item[i]))
            return -1;
    return 0;
}

static int put_list(fy_tm *m, fy_tbuf *b, const char *open, const fy_tlist *list, const char *close)
{
    return put_z(m, b, open) || put_items(m, b, list) || put_z(m, b, close) ? -1 : 0;
}

static int put_dict(fy_tm *m, fy_tbuf *b, const fy_tdict *d)
{
    if (put_z(m, b, "{"))
        return -1;
    for (size_t i = 0; i < fy_tdict_n(d); i++)
        if ((i && put_z(m, b, ", ")) || fy_tv_put_repr(m, b, fy_tdict_key(d, i)) ||
            put_z(m, b, ": ") || fy_tv_put_repr(m, b, fy_tdict_at(d, i)))
            return -1;
    return put_z(m, b, "}");
}

static int put_range(fy_tm *m, fy_tbuf *b, const fy_trange *r)
{
    char text[80];
    if (r->step == 1)
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)r->start, (long long)r->stop);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start,
                 (long long)r->stop, (long long)r->step);
    return put_z(m, b, text);
}

/* Objects that show more than their type have the text as an attribute that no template can name.
 */
static int put_object(fy_tm *m, fy_tbuf *b, const fy_tv *v)
{
    fy_tv text;
    if (v->call->attr != NULL) {
        int found = v->call->attr(m, v->call, FY_SPAN("__repr__"), &text);
        if (found != 0)
            return found < 0 ? -1 : fy_tbuf_span(m, b, text.str);
    }
    return put_z(m, b, "<") || put_z(m, b, v->call->type) || put_z(m, b, ">") ? -1 : 0;
}

static int put_container(fy_tm *m, fy_tbuf *b, const fy_tv *v)
{
    switch ((fy_tv_kind)v->kind) {
    case FY_TV_LIST:
        return put_list(m, b, "[", v->list, "]");
    case FY_TV_TUPLE:
        return put_list(m, b, "(", v->list, v->list->n == 1 ? ",)" : ")");
    case FY_TV_VIEW:
        return put_list(m, b,
                        v->view == 'k'   ? "dict_keys(["
                        : v->view == 'v' ? "dict_values(["
                                         : "dict_items([",
                        v->list, "])");
    case FY_TV_NAMESPACE:
        return put_z(m, b, "<Namespace ") || put_dict(m, b, v->dict) || put_z(m, b, ">") ? -1 : 0;
    case FY_TV_DICT:
    case FY_TV_UNDEFINED:
    case FY_TV_NONE:
    case FY_TV_BOOL:
    case FY_TV_INT:
    case FY_TV_BIGINT:
    case FY_TV_FLOAT:
    case FY_TV_STR:
    case FY_TV_ITER:
    case FY_TV_RANGE:
    case FY_TV_CALLABLE:
    case FY_TV_OBJECT:
        break;
    }
    return put_dict(m, b, v->dict);
}

enum { VALUE_COST = 64 }; /* of the short pieces, which cost less than a step each */

int fy_tv_put_repr(fy_tm *m, fy_tbuf *b, const fy_tv *v)
{
    char number[32];
    if (fy_tm_charge(m, VALUE_COST))
        return -1;
    switch ((fy_tv_kind)v->kind) {
    case FY_TV_UNDEFINED:
        return put_z(m, b, "Undefined");
    case FY_TV_NONE:
        return put_z(m, b, "None");
    case FY_TV_BOOL:
        return put_z(m, b, v->b ? "True" : "False");
    case FY_TV_INT:
        snprintf(number, sizeof number, "%lld", (long long)v->i);
        return put_z(m, b, number);
    case FY_TV_FLOAT:
        fy_float_repr(v->f, number);
        return put_z(m, b, number);
    case FY_TV_BIGINT:
        return fy_tbuf_span(m, b, v->str);
    case FY_TV_STR:
        if (!v->markup)
            return put_quoted(m, b, v->str);
        return put_z(m, b, "Markup(") || put_quoted(m, b, v->str) || put_z(m, b, ")") ? -1 : 0;
    case FY_TV_RANGE:
        return put_range(m, b, v->range);
    case FY_TV_ITER:
        return put_z(m, b, "<generator object>");
    case FY_TV_CALLABLE:
    case FY_TV_OBJECT:
        return put_object(m, b, v);
    case FY_TV_LIST:
    case FY_TV_TUPLE:
    case FY_TV_DICT:
    case FY_TV_VIEW:
    case FY_TV_NAMESPACE:
        break;
    }
    if (m->depth >= FY_TV_MAX_DEPTH)
        return fy_tm_fail(m, "a value is nested deeper than %d", FY_TV_MAX_DEPTH);
    m->depth++;
    int failed = put_container(m, b, v);
    m->depth--;
    return failed;
}

int fy_tv_put_str(fy_tm *m, fy_tbuf *b, const fy_tv *v)
{
    if (fy_tv_is(v, FY_TV_STR))
        return fy_tbuf_span(m, b, v->str);
    return fy_tv_is(v, FY_TV_UNDEFINED) ? 0 : fy_tv_put_repr(m, b, v);
}

int fy_tv_str(fy_tm *m, const fy_tv *v, fy_tv *out)
{
    if (fy_tv_is(v, FY_TV_STR)) {
        *out = fy_tv_view(v->str);
        return 0;
    }
    fy_tbuf b = {0};
    if (fy_tv_put_str(m, &b, v))
        return -1;
    *out = fy_tbuf_value(&b, false);
    return 0;
}

int fy_tv_put_ascii(fy_tm *m, fy_tbuf *b, const fy_tv *v)
{
    fy_tbuf full = {0};
    if (fy_tv_put_repr(m, &full, v))
        return -1;
    for (const char *p = full.ptr, *end = p + full.len; p < end;) {
        const char *at = p;
        uint32_t cp = fy_tu_next(&p, end);
        if (cp < 0x80 ? fy_tbuf_add(m, b, at, 1) : put_escape(m, b, cp))
            return -1;
    }
    return 0;
}
