/* Values as text: str() and repr() as Python prints them, and the tojson filter of transformers,
 * json.dumps(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/template_builtin.h"

enum { VALUE_COST = 64 }; /* of the short pieces of a value, which cost less than a step each */

static int put_z(fy_tm *m, fy_tbuf *b, const char *z)
{
    return fy_tbuf_add(m, b, z, strlen(z));
}

/* --- numbers --- */

/* The fewest digits that read back as f, with an exponent below 1e-4 and from 1e16 on. */
void fy_float_repr(double f, char out[32])
{
    char text[40], digits[24];
    if (!isfinite(f)) {
        strcpy(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    for (int n = 0; n < 17; n++) { /* d.ddde+xx */
        snprintf(text, sizeof text, "%.*e", n, f);
        if (strtod(text, NULL) == f)
            break;
    }
    int n = 0, exponent = atoi(strchr(text, 'e') + 1);
    for (const char *p = text; *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    }
    digits[n] = '\0';
    const char *sign = signbit(f) ? "-" : "";
    if (exponent < -4 || exponent >= 16)
        snprintf(out, 32, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        snprintf(out, 32, "%s0.%.*s%s", sign, -exponent - 1, "000", digits);
    else if (n <= exponent + 1)
        snprintf(out, 32, "%s%s%.*s.0", sign, digits, exponent + 1 - n, "0000000000000000");
    else
        snprintf(out, 32, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
}

/* --- repr --- */

static int put_escape(fy_tm *m, fy_tbuf *b, uint32_t cp)
{
    char text[16];
    if (cp == '\t' || cp == '\n' || cp == '\r')
        return put_z(m, b, cp == '\t' ? "\\t" : cp == '\n' ? "\\n" : "\\r");
    if (cp > 0x10ffff) /* a byte that is not UTF-8: as Python's surrogateescape */
        cp = 0xdc00 | (cp & 0xff);
    snprintf(text, sizeof text, cp <= 0xff ? "\\x%02x" : cp <= 0xffff ? "\\u%04x" : "\\U%08x", cp);
    return put_z(m, b, text);
}

static int put_quoted(fy_tm *m, fy_tbuf *b, fy_span s)
{
    bool single = s.len > 0 && memchr(s.ptr, '\'', s.len) != NULL;
    char quote = single && memchr(s.ptr, '"', s.len) == NULL ? '"' : '\'';
    if (fy_tm_charge(m, s.len) != 0 || fy_tbuf_add(m, b, &quote, 1) != 0)
        return -1;
    const char *p = s.ptr, *end = s.ptr + s.len, *done = p;
    while (p < end) {
        const char *at = p;
        uint32_t cp = fy_tu_next(&p, end);
        bool marked = cp == (unsigned char)quote || cp == '\\';
        if (!marked && fy_tu_is_printable(cp))
            continue;
        if (fy_tbuf_add(m, b, done, (size_t)(at - done)) != 0 ||
            (marked ? put_z(m, b, "\\") : put_escape(m, b, cp)) != 0)
            return -1;
        done = marked ? at : p;
    }
    return fy_tbuf_add(m, b, done, (size_t)(p - done)) != 0 ? -1 : fy_tbuf_add(m, b, &quote, 1);
}

static int put_list(fy_tm *m, fy_tbuf *b, const char *open, const fy_tlist *list, const char *close)
{
    if (put_z(m, b, open) != 0)
        return -1;
    for (size_t i = 0; i < list->n; i++) {
        if ((i > 0 && put_z(m, b, ", ") != 0) || fy_tv_put_repr(m, b, &list->item[i]) != 0)
            return -1;
    }
    return put_z(m, b, close);
}

static int put_dict(fy_tm *m, fy_tbuf *b, const char *open, const fy_tdict *d, const char *close)
{
    if (put_z(m, b, open) != 0)
        return -1;
    for (size_t i = 0; i < fy_tdict_n(d); i++) {
        if ((i > 0 && put_z(m, b, ", ") != 0) || fy_tv_put_repr(m, b, fy_tdict_key(d, i)) != 0 ||
            put_z(m, b, ": ") != 0 || fy_tv_put_repr(m, b, fy_tdict_at(d, i)) != 0)
            return -1;
    }
    return put_z(m, b, close);
}

static int put_range(fy_tm *m, fy_tbuf *b, const fy_trange *r)
{
    char text[80];
    int n =
        snprintf(text, sizeof text, "range(%lld, %lld", (long long)r->start, (long long)r->stop);
    if (r->step != 1)
        snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)r->step);
    return put_z(m, b, text) != 0 ? -1 : put_z(m, b, ")");
}

static int put_container(fy_tm *m, fy_tbuf *b, const fy_tv *v)
{
    switch ((int)v->kind) {
    case FY_TV_LIST:
        return put_list(m, b, "[", v->list, "]");
    case FY_TV_TUPLE:
        return put_list(m, b, "(", v->list, v->list->n == 1 ? ",)" : ")");
    case FY_TV_VIEW:
        return put_z(m, b, fy_tv_type_name(v)) != 0 ? -1 : put_list(m, b, "([", v->list, "])");
    case FY_TV_NAMESPACE:
        return put_dict(m, b, "<Namespace {", v->dict, "}>");
    default:
        return put_dict(m, b, "{", v->dict, "}");
    }
}

int fy_tv_put_repr(fy_tm *m, fy_tbuf *b, const fy_tv *v)
{
    char number[32];
    if (fy_tm_charge(m, VALUE_COST) != 0)
        return -1;
    switch ((int)v->kind) {
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
        return put_z(m, b, "Markup(") != 0 || put_quoted(m, b, v->str) != 0 ? -1 : put_z(m, b, ")");
    case FY_TV_RANGE:
        return put_range(m, b, v->range);
    case FY_TV_ITER:
    case FY_TV_CALLABLE:
    case FY_TV_OBJECT:
        return put_z(m, b, "<") != 0 || put_z(m, b, fy_tv_type_name(v)) != 0 ? -1
                                                                             : put_z(m, b, ">");
    default:
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
    if (v->kind == FY_TV_STR)
        return fy_tbuf_span(m, b, v->str);
    return v->kind == FY_TV_UNDEFINED ? 0 : fy_tv_put_repr(m, b, v);
}

int fy_tv_str(fy_tm *m, const fy_tv *v, fy_tv *out)
{
    fy_tbuf b = {0};
    if (v->kind == FY_TV_STR) {
        *out = fy_tv_view(v->str);
        return 0;
    }
    if (fy_tv_put_str(m, &b, v) != 0)
        return -1;
    *out = fy_tbuf_value(&b, false);
    return 0;
}

/* --- tojson --- */

typedef struct {
    fy_tm *m;
    fy_tbuf out;
    bool ascii, sort, pretty;
    fy_span indent; /* of one level */
    fy_span item, colon;
} dump;

static int dump_z(dump *d, const char *z)
{
    return put_z(d->m, &d->out, z);
}

static int dump_escape(dump *d, uint32_t cp)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    char text[16] = "\\";
    const char *simple = cp > 0 && cp < 0x80 ? strchr(from, (int)cp) : NULL;
    if (simple != NULL)
        text[1] = to[simple - from];
    else if (cp > 0x10ffff) /* a byte that is not UTF-8: as Python's surrogateescape */
        snprintf(text, sizeof text, "\\u%04x", 0xdc00 | (cp & 0xff));
    else if (cp > 0xffff)
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                 0xdc00 + ((cp - 0x10000) & 0x3ff));
    else
        snprintf(text, sizeof text, "\\u%04x", cp);
    return dump_z(d, text);
}

static int dump_string(dump *d, fy_span s)
{
    if (fy_tm_charge(d->m, s.len) != 0 || dump_z(d, "\"") != 0)
        return -1;
    const char *p = s.ptr, *end = s.ptr + s.len, *done = p;
    while (p < end) {
        const char *at = p;
        unsigned char c = (unsigned char)*p;
        if (c >= ' ' && c != '"' && c != '\\' && (!d->ascii || c < 0x7f)) {
            p++;
            continue;
        }
        if (fy_tbuf_add(d->m, &d->out, done, (size_t)(at - done)) != 0 ||
            dump_escape(d, fy_tu_next(&p, end)) != 0)
            return -1;
        done = p;
    }
    return fy_tbuf_add(d->m, &d->out, done, (size_t)(p - done)) != 0 ? -1 : dump_z(d, "\"");
}

/* What JSON writes as a bare word; NULL when v is nothing of the kind. */
static const char *bare_word(const fy_tv *v, char text[32])
{
    switch ((int)v->kind) {
    case FY_TV_NONE:
        return "null";
    case FY_TV_BOOL:
        return v->b ? "true" : "false";
    case FY_TV_INT:
        snprintf(text, 32, "%lld", (long long)v->i);
        return text;
    case FY_TV_FLOAT:
        if (!isfinite(v->f))
            return isnan(v->f) ? "NaN" : v->f < 0 ? "-Infinity" : "Infinity";
        fy_float_repr(v->f, text);
        return text;
    default:
        return NULL;
    }
}

static int dump_key(dump *d, const fy_tv *key)
{
    char text[32];
    const char *word = bare_word(key, text);
    if (word != NULL)
        return dump_string(d, fy_span_of(word));
    if (key->kind == FY_TV_STR || key->kind == FY_TV_BIGINT)
        return dump_string(d, key->str);
    return fy_tm_fail(d->m, "keys must be str, int, float, bool or None, not %s",
                      fy_tv_type_name(key));
}

static int dump_newline(dump *d, size_t level)
{
    if (!d->pretty)
        return 0;
    return dump_z(d, "\n") != 0 ? -1 : fy_tu_repeat(d->m, &d->out, d->indent, level);
}

static int dump_value(dump *d, const fy_tv *v, size_t level);

static int dump_list(dump *d, const fy_tlist *list, size_t level)
{
    if (list->n == 0)
        return dump_z(d, "[]");
    for (size_t i = 0; i < list->n; i++) {
        if ((i > 0 ? fy_tbuf_span(d->m, &d->out, d->item) : dump_z(d, "[")) != 0 ||
            dump_newline(d, level + 1) != 0 || dump_value(d, &list->item[i], level + 1) != 0)
            return -1;
    }
    return dump_newline(d, level) != 0 ? -1 : dump_z(d, "]");
}

static int dump_dict(dump *d, const fy_tdict *dict, size_t level)
{
    size_t n = fy_tdict_n(dict);
    const size_t *order = NULL;
    fy_tv keys;
    if (n == 0)
        return dump_z(d, "{}");
    if (d->sort) {
        if (fy_tv_list(d->m, FY_TV_LIST, n, &keys) != 0)
            return -1;
        for (size_t i = 0; i < n; i++)
            keys.list->item[i] = *fy_tdict_key(dict, i);
        if ((order = fy_tlist_order(d->m, keys.list, false, fy_tv_compare)) == NULL)
            return -1;
    }
    for (size_t k = 0; k < n; k++) {
        size_t i = order != NULL ? order[k] : k;
        if ((k > 0 ? fy_tbuf_span(d->m, &d->out, d->item) : dump_z(d, "{")) != 0 ||
            dump_newline(d, level + 1) != 0 || dump_key(d, fy_tdict_key(dict, i)) != 0 ||
            fy_tbuf_span(d->m, &d->out, d->colon) != 0 ||
            dump_value(d, fy_tdict_at(dict, i), level + 1) != 0)
            return -1;
    }
    return dump_newline(d, level) != 0 ? -1 : dump_z(d, "}");
}

static int dump_value(dump *d, const fy_tv *v, size_t level)
{
    char text[32];
    const char *word = bare_word(v, text);
    if (fy_tm_charge(d->m, VALUE_COST) != 0)
        return -1;
    if (word != NULL)
        return dump_z(d, word);
    if (v->kind == FY_TV_STR)
        return dump_string(d, v->str);
    if (v->kind == FY_TV_BIGINT)
        return fy_tbuf_span(d->m, &d->out, v->str);
    bool list = v->kind == FY_TV_LIST || v->kind == FY_TV_TUPLE;
    if (!list && v->kind != FY_TV_DICT)
        return fy_tm_fail(d->m, "Object of type %s is not JSON serializable", fy_tv_type_name(v));
    if (d->m->depth >= FY_TV_MAX_DEPTH)
        return fy_tm_fail(d->m, "tojson: a value is nested deeper than %d", FY_TV_MAX_DEPTH);
    d->m->depth++;
    int failed = list ? dump_list(d, v->list, level) : dump_dict(d, v->dict, level);
    d->m->depth--;
    return failed;
}

/* indent: a string, or a number of spaces. separators: two strings. */
static int read_layout(dump *d, const fy_tv *indent, const fy_tv *separators)
{
    fy_tlist list;
    fy_tbuf spaces = {0};
    int64_t n = 0;
    d->pretty = fy_targ_given(indent);
    if (d->pretty) {
        d->item = FY_SPAN(",");
        if ((indent->kind != FY_TV_STR && fy_tv_index(d->m, indent, &n) != 0) ||
            fy_tu_repeat(d->m, &spaces, FY_SPAN(" "), n > 0 ? (uint64_t)n : 0) != 0)
            return -1;
        d->indent = indent->kind == FY_TV_STR ? indent->str : fy_tbuf_value(&spaces, false).str;
    }
    if (!fy_targ_given(separators))
        return 0;
    if (fy_tv_items(d->m, separators, &list) != 0)
        return -1;
    if (list.n != 2)
        return fy_tm_fail(d->m, "tojson: separators are two strings, found %zu", list.n);
    return fy_tv_text(d->m, "separators", &list.item[0], &d->item) != 0
               ? -1
               : fy_tv_text(d->m, "separators", &list.item[1], &d->colon);
}

FILTER(fy_tfilter_tojson)
{
    fy_tv arg[4];
    dump d = {.m = m, .item = FY_SPAN(", "), .colon = FY_SPAN(": ")};
    if (fy_targs_bind(m, "tojson ?ensure_ascii ?indent ?separators ?sort_keys", a, arg) != 0 ||
        read_layout(&d, &arg[1], &arg[2]) != 0)
        return -1;
    d.ascii = fy_tv_truth(&arg[0]);
    d.sort = fy_tv_truth(&arg[3]);
    if (dump_value(&d, v, 0) != 0)
        return -1;
    *out = fy_tbuf_value(&d.out, false);
    return 0;
}
