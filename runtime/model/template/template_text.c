/* Values as text: str() and repr() as Python prints them, and the tojson filter of transformers,
 * json.dumps(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/template_value.h"

enum { VALUE_COST = 64 }; /* of the short pieces of a value, which cost less than a step each */

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

/* --- values, as Python prints them and as JSON --- */

typedef struct {
    fy_tbuf *out;
    fy_tm *m;
    bool json, ascii, sort, pretty; /* the last three: of JSON */
    fy_span indent;                 /* of one level */
    fy_span item, colon;
} printer;

static void put_value(printer *p, const fy_tv *v, size_t level);

static void put_python_escape(fy_tbuf *b, uint32_t cp)
{
    if (cp == '\t' || cp == '\n' || cp == '\r')
        fy_tbuf_z(b, cp == '\t' ? "\\t" : cp == '\n' ? "\\n" : "\\r");
    else
        fy_tbuf_printf(b, cp <= 0xff ? "\\x%02x" : cp <= 0xffff ? "\\u%04x" : "\\U%08x", cp);
}

static void put_json_escape(fy_tbuf *b, uint32_t cp)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *simple = cp > 0 && cp < 0x80 ? strchr(from, (int)cp) : NULL;
    if (simple != NULL)
        fy_tbuf_printf(b, "\\%c", to[simple - from]);
    else if (cp > 0xffff)
        fy_tbuf_printf(b, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                       0xdc00 + ((cp - 0x10000) & 0x3ff));
    else
        fy_tbuf_printf(b, "\\u%04x", cp);
}

/* Between quotes; in Python's form these are the ones that need the fewest escapes. */
static void put_quoted(printer *p, fy_span s)
{
    bool single = s.len > 0 && memchr(s.ptr, '\'', s.len) != NULL;
    bool twofold = s.len > 0 && memchr(s.ptr, '"', s.len) != NULL;
    char quote = p->json || (single && !twofold) ? '"' : '\'';
    fy_tm_charge(p->m, s.len);
    fy_tbuf_add(p->out, &quote, 1);
    const char *at = s.ptr, *end = s.ptr + s.len, *done = at;
    while (at < end) {
        const char *begin = at;
        if (*at >= '0' && *at <= 'z' && *at != '\\') { /* most characters */
            at++;
            continue;
        }
        uint32_t cp = fy_tu_next(&at, end);
        bool marked = cp == (unsigned char)quote || cp == '\\';
        bool plain = p->json ? cp >= ' ' && (!p->ascii || cp < 0x7f) : fy_tu_is_printable(cp);
        if (!marked && plain)
            continue;
        fy_tbuf_add(p->out, done, (size_t)(begin - done));
        if (cp > 0x10ffff) /* a byte that is not UTF-8: as Python's surrogateescape */
            cp = 0xdc00 | (cp & 0xff);
        if (p->json)
            put_json_escape(p->out, cp);
        else if (marked)
            fy_tbuf_printf(p->out, "\\%c", (int)cp);
        else
            put_python_escape(p->out, cp);
        done = at;
    }
    fy_tbuf_add(p->out, done, (size_t)(at - done));
    fy_tbuf_add(p->out, &quote, 1);
}

/* A number or constant; NULL when v is nothing of the kind. */
static const char *bare_word(const fy_tv *v, bool json, char text[32])
{
    switch ((int)v->kind) {
    case FY_TV_NONE:
        return json ? "null" : "None";
    case FY_TV_BOOL:
        return v->b ? json ? "true" : "True" : json ? "false" : "False";
    case FY_TV_INT:
        snprintf(text, 32, "%lld", (long long)v->i);
        return text;
    case FY_TV_FLOAT:
        if (json && !isfinite(v->f))
            return isnan(v->f) ? "NaN" : v->f < 0 ? "-Infinity" : "Infinity";
        fy_float_repr(v->f, text);
        return text;
    default:
        return NULL;
    }
}

static void put_key(printer *p, const fy_tv *key, size_t level)
{
    char text[32];
    const char *word = bare_word(key, p->json, text);
    if (!p->json)
        put_value(p, key, level);
    else if (word != NULL)
        put_quoted(p, fy_span_of(word));
    else if (key->kind == FY_TV_STR || key->kind == FY_TV_BIGINT)
        put_quoted(p, key->str);
    else
        fy_tm_fail(p->m, "keys must be str, int, float, bool or None, not %s",
                   fy_tv_type_name(key));
}

static void put_newline(printer *p, size_t level)
{
    if (!p->pretty)
        return;
    fy_tbuf_z(p->out, "\n");
    fy_tu_repeat(p->out, p->indent, level);
}

/* The items of a list, between the two texts. */
static void put_list(printer *p, const char *open, const fy_tlist *list, const char *close,
                     size_t level)
{
    fy_tbuf_z(p->out, open);
    for (size_t i = 0; i < list->n && fy_tm_ok(p->m); i++) {
        if (i > 0)
            fy_tbuf_span(p->out, p->item);
        put_newline(p, level + 1);
        put_value(p, &list->item[i], level + 1);
    }
    if (list->n > 0)
        put_newline(p, level);
    fy_tbuf_z(p->out, close);
}

/* The places of the dict's items by the order of their keys; NULL: error. */
static const size_t *order_of(fy_tm *m, const fy_tdict *dict)
{
    fy_tv keys = fy_tv_list(m, FY_TV_LIST, dict->n);
    for (size_t i = 0; i < dict->n && fy_tm_ok(m); i++)
        fy_tlist_add(m, keys.list, dict->items[i].key);
    return fy_tlist_order(m, keys.list, false, fy_tv_compare);
}

static void put_dict(printer *p, const char *open, const fy_tdict *dict, const char *close,
                     size_t level)
{
    const size_t *order = p->sort ? order_of(p->m, dict) : NULL;
    fy_tbuf_z(p->out, open);
    for (size_t i = 0; i < dict->n && fy_tm_ok(p->m); i++) {
        const fy_tpair *pair = &dict->items[p->sort ? order[i] : i];
        if (i > 0)
            fy_tbuf_span(p->out, p->item);
        put_newline(p, level + 1);
        put_key(p, &pair->key, level + 1);
        fy_tbuf_span(p->out, p->colon);
        put_value(p, &pair->value, level + 1);
    }
    if (dict->n > 0)
        put_newline(p, level);
    fy_tbuf_z(p->out, close);
}

/* What only Python prints: JSON has nothing of the kind. */
static void put_object(printer *p, const fy_tv *v)
{
    const char *type = fy_tv_type_name(v);
    if (p->json) {
        fy_tm_fail(p->m, "Object of type %s is not JSON serializable", type);
    } else if (v->kind == FY_TV_VIEW) {
        fy_tbuf_z(p->out, type);
        put_list(p, "([", v->list, "])", 0);
    } else if (v->kind == FY_TV_NAMESPACE) {
        put_dict(p, "<Namespace {", v->dict, "}>", 0);
    } else if (v->kind == FY_TV_RANGE) {
        fy_tbuf_printf(p->out, "range(%lld, %lld", (long long)v->range->start,
                       (long long)v->range->stop);
        if (v->range->step != 1)
            fy_tbuf_printf(p->out, ", %lld", (long long)v->range->step);
        fy_tbuf_z(p->out, ")");
    } else {
        fy_tbuf_printf(p->out, v->kind == FY_TV_UNDEFINED ? "%s" : "<%s>", type);
    }
}

static void put_container(printer *p, const fy_tv *v, size_t level)
{
    if (p->m->depth >= FY_TV_MAX_DEPTH) {
        fy_tm_fail(p->m, "%sa value is nested deeper than %d", p->json ? "tojson: " : "",
                   FY_TV_MAX_DEPTH);
        return;
    }
    p->m->depth++;
    if (v->kind == FY_TV_DICT)
        put_dict(p, "{", v->dict, "}", level);
    else if (v->kind == FY_TV_LIST || (p->json && v->kind == FY_TV_TUPLE))
        put_list(p, "[", v->list, "]", level);
    else if (v->kind == FY_TV_TUPLE)
        put_list(p, "(", v->list, v->list->n == 1 ? ",)" : ")", level);
    else
        put_object(p, v);
    p->m->depth--;
}

static void put_value(printer *p, const fy_tv *v, size_t level)
{
    char text[32];
    const char *word = bare_word(v, p->json, text);
    if (!fy_tm_charge(p->m, VALUE_COST))
        return;
    if (word != NULL) {
        fy_tbuf_z(p->out, word);
    } else if (v->kind == FY_TV_STR) {
        bool markup = v->markup && !p->json;
        fy_tbuf_z(p->out, markup ? "Markup(" : "");
        put_quoted(p, v->str);
        fy_tbuf_z(p->out, markup ? ")" : "");
    } else if (v->kind == FY_TV_BIGINT) {
        fy_tbuf_span(p->out, v->str);
    } else {
        put_container(p, v, level);
    }
}

/* --- str and repr --- */

void fy_tbuf_repr(fy_tbuf *b, const fy_tv *v)
{
    printer p = {.out = b, .m = b->m, .item = FY_SPAN(", "), .colon = FY_SPAN(": ")};
    put_value(&p, v, 0);
}

void fy_tbuf_str(fy_tbuf *b, const fy_tv *v)
{
    if (v->kind == FY_TV_STR)
        fy_tbuf_span(b, v->str);
    else if (v->kind != FY_TV_UNDEFINED)
        fy_tbuf_repr(b, v);
}

fy_tv fy_tv_str(fy_tm *m, const fy_tv *v)
{
    fy_tbuf b = {.m = m};
    if (v->kind == FY_TV_STR)
        return fy_tv_view(v->str);
    fy_tbuf_str(&b, v);
    return fy_tbuf_value(&b, false);
}

fy_tv fy_tv_soft_str(fy_tm *m, const fy_tv *v)
{
    return v->kind == FY_TV_STR ? *v : fy_tv_str(m, v);
}

/* --- tojson --- */

/* indent: a string, or a number of spaces. separators: two strings. */
static void read_layout(printer *p, const fy_tv *indent, const fy_tv *separators)
{
    fy_tbuf spaces = {.m = p->m};
    if (indent->kind == FY_TV_STR) {
        p->indent = indent->str;
    } else if (fy_targ_given(indent)) {
        int64_t n = fy_tv_index(p->m, indent);
        fy_tu_repeat(&spaces, FY_SPAN(" "), n > 0 ? (uint64_t)n : 0);
        p->indent = fy_tbuf_value(&spaces, false).str;
    }
    p->pretty = fy_targ_given(indent);
    if (p->pretty)
        p->item = FY_SPAN(",");
    if (!fy_targ_given(separators))
        return;
    fy_tlist list = fy_tv_items(p->m, separators);
    if (list.n != 2) {
        fy_tm_fail(p->m, "tojson: separators are two strings, found %zu", list.n);
        return;
    }
    p->item = fy_tv_text(p->m, "separators", &list.item[0]);
    p->colon = fy_tv_text(p->m, "separators", &list.item[1]);
}

FY_BUILTIN(fy_tfilter_tojson)
{
    fy_tbuf b = {.m = m};
    printer p = {.out = &b,
                 .m = m,
                 .json = true,
                 .ascii = fy_tv_truth(&a->arg[0]),
                 .sort = fy_tv_truth(&a->arg[3]),
                 .item = FY_SPAN(", "),
                 .colon = FY_SPAN(": ")};
    read_layout(&p, &a->arg[1], &a->arg[2]);
    put_value(&p, v, 0);
    return fy_tbuf_value(&b, false);
}
