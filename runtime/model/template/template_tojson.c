/* The tojson filter of transformers: json.dumps(x, ensure_ascii=False, indent=None,
 * separators=None, sort_keys=False). */
#include "model/template/template_builtin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    fy_tm *m;
    fy_tbuf out;
    bool ascii, sort, pretty;
    fy_span indent; /* of one level */
    fy_span item, colon;
} dump;

static int put_value(dump *d, const fy_tv *v, size_t level);

static int put_z(dump *d, const char *z)
{
    return fy_tbuf_add(d->m, &d->out, z, strlen(z));
}

static int put_unit(dump *d, unsigned unit)
{
    char text[8];
    snprintf(text, sizeof text, "\\u%04x", unit);
    return put_z(d, text);
}

static int put_escape(dump *d, uint32_t cp)
{
    switch (cp) {
    case '"':
        return put_z(d, "\\\"");
    case '\\':
        return put_z(d, "\\\\");
    case '\n':
        return put_z(d, "\\n");
    case '\r':
        return put_z(d, "\\r");
    case '\t':
        return put_z(d, "\\t");
    case '\f':
        return put_z(d, "\\f");
    case '\b':
        return put_z(d, "\\b");
    default:
        break;
    }
    if (cp > 0x10ffff) /* a byte that is not UTF-8: as Python's surrogateescape */
        return put_unit(d, 0xdc00 | (cp & 0xff));
    if (cp > 0xffff)
        return put_unit(d, 0xd800 + ((cp - 0x10000) >> 10)) ||
                       put_unit(d, 0xdc00 + ((cp - 0x10000) & 0x3ff))
                   ? -1
                   : 0;
    return put_unit(d, cp);
}

static int put_string(dump *d, fy_span s)
{
    if (fy_tm_charge(d->m, s.len) || put_z(d, "\""))
        return -1;
    const char *p = s.ptr, *end = s.ptr + s.len, *done = p;
    while (p < end) {
        const char *at = p;
        unsigned char c = (unsigned char)*p;
        if (c < 0x80 || !d->ascii)
            p++;
        else
            fy_tu_next(&p, end);
        if (c >= ' ' && c != '"' && c != '\\' && (!d->ascii || c < 0x7f))
            continue;
        const char *again = at;
        if (fy_tbuf_add(d->m, &d->out, done, (size_t)(at - done)) ||
            put_escape(d, fy_tu_next(&again, end)))
            return -1;
        done = p;
    }
    return fy_tbuf_add(d->m, &d->out, done, (size_t)(p - done)) || put_z(d, "\"") ? -1 : 0;
}

static const char *float_text(double f, char text[32])
{
    if (isnan(f))
        return "NaN";
    if (isinf(f))
        return f < 0 ? "-Infinity" : "Infinity";
    fy_float_repr(f, text);
    return text;
}

/* Text of what JSON writes as a bare word; NULL when v is nothing of the kind. */
static const char *word(const fy_tv *v, char text[32])
{
    switch ((fy_tv_kind)v->kind) {
    case FY_TV_NONE:
        return "null";
    case FY_TV_BOOL:
        return v->b ? "true" : "false";
    case FY_TV_INT:
        snprintf(text, 32, "%lld", (long long)v->i);
        return text;
    case FY_TV_FLOAT:
        return float_text(v->f, text);
    case FY_TV_UNDEFINED:
    case FY_TV_BIGINT:
    case FY_TV_STR:
    case FY_TV_LIST:
    case FY_TV_TUPLE:
    case FY_TV_ITER:
    case FY_TV_DICT:
    case FY_TV_VIEW:
    case FY_TV_RANGE:
    case FY_TV_NAMESPACE:
    case FY_TV_CALLABLE:
    case FY_TV_OBJECT:
        break;
    }
    return NULL;
}

static int put_key(dump *d, const fy_tv *key)
{
    char text[32];
    const char *w = word(key, text);
    if (fy_tv_is(key, FY_TV_STR))
        return put_string(d, key->str);
    if (w)
        return put_string(d, fy_span_of(w));
    if (fy_tv_is(key, FY_TV_BIGINT))
        return put_string(d, key->str);
    return fy_tm_fail(d->m, "keys must be str, int, float, bool or None, not %s",
                      fy_tv_type_name(key));
}

static int put_newline(dump *d, size_t level)
{
    if (!d->pretty)
        return 0;
    return put_z(d, "\n") || fy_tu_repeat(d->m, &d->out, d->indent, level) ? -1 : 0;
}

static int put_list(dump *d, const fy_tlist *list, size_t level)
{
    if (list->n == 0)
        return put_z(d, "[]");
    if (put_z(d, "["))
        return -1;
    for (size_t i = 0; i < list->n; i++)
        if ((i && fy_tbuf_span(d->m, &d->out, d->item)) || put_newline(d, level + 1) ||
            put_value(d, &list->item[i], level + 1))
            return -1;
    return put_newline(d, level) || put_z(d, "]") ? -1 : 0;
}

/* The order in which a dict is written: positions, sorted by key. */
static int sorted_positions(dump *d, const fy_tdict *dict, const fy_tv **order)
{
    fy_tv keys, positions, sorted;
    size_t n = fy_tdict_n(dict);
    if (fy_tv_list(d->m, FY_TV_LIST, n, &keys) || fy_tv_list(d->m, FY_TV_LIST, n, &positions))
        return -1;
    for (size_t i = 0; i < n; i++) {
        keys.list->item[i] = *fy_tdict_key(dict, i);
        positions.list->item[i] = fy_tv_int((int64_t)i);
    }
    if (fy_tlist_sort(d->m, positions.list, keys.list, false, fy_tv_compare, &sorted))
        return -1;
    *order = sorted.list->item;
    return 0;
}

static int put_dict(dump *d, const fy_tdict *dict, size_t level)
{
    size_t n = fy_tdict_n(dict);
    const fy_tv *order = NULL;
    if (n == 0)
        return put_z(d, "{}");
    if ((d->sort && sorted_positions(d, dict, &order)) || put_z(d, "{"))
        return -1;
    for (size_t k = 0; k < n; k++) {
        size_t i = order ? (size_t)order[k].i : k;
        if ((k && fy_tbuf_span(d->m, &d->out, d->item)) || put_newline(d, level + 1) ||
            put_key(d, fy_tdict_key(dict, i)) || fy_tbuf_span(d->m, &d->out, d->colon) ||
            put_value(d, fy_tdict_at(dict, i), level + 1))
            return -1;
    }
    return put_newline(d, level) || put_z(d, "}") ? -1 : 0;
}

enum { VALUE_COST = 64 }; /* of the short pieces, which cost less than a step each */

static int put_value(dump *d, const fy_tv *v, size_t level)
{
    char text[32];
    const char *w = word(v, text);
    if (fy_tm_charge(d->m, VALUE_COST))
        return -1;
    if (w)
        return put_z(d, w);
    if (fy_tv_is(v, FY_TV_STR))
        return put_string(d, v->str);
    if (fy_tv_is(v, FY_TV_BIGINT))
        return fy_tbuf_span(d->m, &d->out, v->str);
    bool list = fy_tv_is(v, FY_TV_LIST) || fy_tv_is(v, FY_TV_TUPLE);
    if (!list && !fy_tv_is(v, FY_TV_DICT))
        return fy_tm_fail(d->m, "Object of type %s is not JSON serializable", fy_tv_type_name(v));
    if (d->m->depth >= FY_TV_MAX_DEPTH)
        return fy_tm_fail(d->m, "tojson: a value is nested deeper than %d", FY_TV_MAX_DEPTH);
    d->m->depth++;
    int failed = list ? put_list(d, v->list, level) : put_dict(d, v->dict, level);
    d->m->depth--;
    return failed;
}

/* One level of indentation: a string, or so many blanks. */
static int read_indent(dump *d, const fy_tv *v)
{
    if (fy_tv_is(v, FY_TV_NONE))
        return 0;
    d->pretty = true;
    d->item = FY_SPAN(",");
    if (fy_tv_is(v, FY_TV_STR)) {
        d->indent = v->str;
        return 0;
    }
    int64_t blanks;
    fy_tbuf b = {0};
    if (fy_tv_index(d->m, v, &blanks) ||
        fy_tu_repeat(d->m, &b, FY_SPAN(" "), blanks < 0 ? 0 : (uint64_t)blanks))
        return -1;
    d->indent = (fy_span){b.ptr, b.len};
    return 0;
}

/* Of a text nothing but their number matters to Python. */
static int read_separators(dump *d, const fy_tv *v, bool text)
{
    fy_tlist list;
    if (fy_tv_is(v, FY_TV_NONE))
        return 0;
    if (fy_tv_items(d->m, v, &list))
        return -1;
    if (list.n != 2)
        return fy_tm_fail(d->m, "tojson: separators are two strings, found %zu", list.n);
    if (text)
        return 0;
    return fy_tv_text(d->m, "separators", &list.item[0], &d->item) ||
                   fy_tv_text(d->m, "separators", &list.item[1], &d->colon)
               ? -1
               : 0;
}

int fy_tfilter_tojson(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"ensure_ascii", "indent", "separators", "sort_keys"};
    enum { ENSURE_ASCII, INDENT, SEPARATORS, SORT_KEYS, N };
    fy_tv arg[N];
    bool given[N];
    if (fy_targs_bind(m, "tojson", a, names, N, 0, arg, given))
        return -1;
    dump d = {.m = m, .item = FY_SPAN(", "), .colon = FY_SPAN(": ")};
    d.ascii = given[ENSURE_ASCII] && fy_tv_truth(&arg[ENSURE_ASCII]);
    d.sort = given[SORT_KEYS] && fy_tv_truth(&arg[SORT_KEYS]);
    bool text = fy_tv_is(v, FY_TV_STR);
    if ((given[INDENT] && !text && read_indent(&d, &arg[INDENT])) ||
        (given[SEPARATORS] && read_separators(&d, &arg[SEPARATORS], text)) || put_value(&d, v, 0))
        return -1;
    *out = fy_tbuf_value(&d.out, false);
    return 0;
}
