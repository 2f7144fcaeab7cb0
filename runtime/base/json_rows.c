/* The reader of JSON objects that tables describe. */
#include "base/json_rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"

static const fy_json_row *find(const fy_json_table *t, fy_span key)
{
    for (size_t i = 0; i < t->n_rows; i++) {
        const fy_json_row *r = &t->rows[i];
        if ((r->in == 0 || (r->in & t->in) != 0) && fy_span_is(key, r->key))
            return r;
    }
    return NULL;
}

/* Names the nearest key, or all of them. */
static int unknown(const fy_json_table *t, fy_span key, fy_err *e)
{
    const char *keys[FY_JSON_ROWS_MAX];
    char shown[FY_QUOTE_BYTES], word[FY_QUOTE_BYTES] = "";
    size_t n = 0;
    for (size_t i = 0; i < t->n_rows; i++) {
        if (t->rows[i].in == 0 || (t->rows[i].in & t->in) != 0)
            keys[n++] = t->rows[i].key;
    }
    fy_quote(shown, sizeof shown, key);
    memcpy(word, key.ptr, key.len < sizeof word ? key.len : sizeof word - 1);
    const char *near = fy_nearest(word, keys, n);
    if (near != NULL)
        return fy_fail(e, FY_EFORMAT, "unknown key '%s'; did you mean '%s'?", shown, near);
    fy_str all = {0};
    for (size_t i = 0; i < n; i++)
        fy_str_printf(&all, "%s%s", i > 0 ? ", " : "", keys[i]);
    fy_fail(e, FY_EFORMAT, "unknown key '%s', expected one of %s", shown, fy_str_z(&all));
    fy_str_release(&all);
    return -1;
}

static int check_fits(const fy_json_row *r, const char *text, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    return r->fits == NULL || r->fits(text)
               ? 0
               : fy_fail(e, FY_EFORMAT, "'%s', expected %s",
                         fy_quote(shown, sizeof shown, fy_span_of(text)), r->expected);
}

static int take_text(fy_json *j, const fy_json_table *t, const fy_json_row *r, char *at, fy_err *e)
{
    fy_span s;
    size_t most = r->max > 0 ? (size_t)r->max : SIZE_MAX;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
    if (s.len < (size_t)r->min || s.len > most || memchr(s.ptr, '\0', s.len) != NULL)
        return fy_fail(e, FY_EFORMAT, "%zu bytes of text, expected %lld to %zu without NUL", s.len,
                       (long long)r->min, most);
    if (r->type == FY_JSON_ROW_CHARS) {
        memcpy(at, s.ptr, s.len);
        at[s.len] = '\0';
        return check_fits(r, at, e);
    }
    char *copy =
        t->strings != NULL ? fy_arena_strndup(t->strings, s.ptr, s.len) : strndup(s.ptr, s.len);
    memcpy(at, &copy, sizeof copy); /* also when it does not fit: `out` owns it */
    return copy != NULL ? check_fits(r, copy, e) : fy_nomem(e);
}

static int take_number(fy_json *j, const fy_json_row *r, char *at, fy_err *e)
{
    int64_t v = 0;
    uint64_t u = 0;
    bool wide = r->type == FY_JSON_ROW_U64;
    if (wide && r->max == 0 ? fy_json_u64(j, &u, e) != 0 : fy_json_i64(j, &v, e) != 0)
        return -1;
    if (r->max != 0 && (v < r->min || v > r->max))
        return fy_fail(e, FY_EFORMAT, "%lld, expected %lld to %lld", (long long)v,
                       (long long)r->min, (long long)r->max);
    u = wide && r->max == 0 ? u : (uint64_t)v * (r->unit > 0 ? r->unit : 1);
    if (r->type == FY_JSON_ROW_U32)
        memcpy(at, &(uint32_t){(uint32_t)u}, sizeof(uint32_t));
    else
        memcpy(at, &u, sizeof u);
    return 0;
}

static int take_list(fy_json *j, const fy_json_row *r, void *out, fy_err *e)
{
    size_t *n = (size_t *)(void *)((char *)out + r->n_at);
    if (fy_json_list_of(j, r->table, (char *)out + r->offset, n, e) != 0)
        return -1;
    return *n >= (size_t)r->min ? 0
                                : fy_fail(e, FY_EFORMAT, "%zu entries, expected at least %lld", *n,
                                          (long long)r->min);
}

static int take(fy_json *j, const fy_json_table *t, const fy_json_row *r, void *out, fy_err *e)
{
    char *at = (char *)out + r->offset;
    switch (r->type) {
    case FY_JSON_ROW_I64:
    case FY_JSON_ROW_U32:
    case FY_JSON_ROW_U64:
        return take_number(j, r, at, e);
    case FY_JSON_ROW_REAL:
        return fy_json_double(j, (double *)(void *)at, e);
    case FY_JSON_ROW_BOOL:
        return fy_json_bool(j, (bool *)at, e);
    case FY_JSON_ROW_TEXT:
    case FY_JSON_ROW_CHARS:
        return take_text(j, t, r, at, e);
    case FY_JSON_ROW_OBJECT:
        return fy_json_object_of(j, r->table, at, e);
    case FY_JSON_ROW_LIST:
        return take_list(j, r, out, e);
    case FY_JSON_ROW_TAKE:
        break;
    }
    return r->take(j, t, at, e);
}

int fy_json_object_of(fy_json *j, const fy_json_table *t, void *out, fy_err *e)
{
    bool seen[FY_JSON_ROWS_MAX] = {0};
    fy_span key;
    int more;
    assert(t->n_rows <= FY_JSON_ROWS_MAX);
    if (fy_json_object_begin(j, e) != 0)
        return -1;
    while ((more = fy_json_object_next(j, &key, e)) == 1) {
        const fy_json_row *r = find(t, key);
        if (r == NULL && (t->strict ? unknown(t, key, e) : fy_json_skip(j, e)) != 0)
            return -1;
        if (r == NULL)
            continue;
        seen[r - t->rows] = true;
        if (take(j, t, r, out, e) != 0)
            return fy_ctx(e, "%s", r->key);
    }
    for (size_t i = 0; more == 0 && i < t->n_rows; i++) {
        const fy_json_row *r = &t->rows[i];
        if (r->required && (r->in == 0 || (r->in & t->in) != 0) && !seen[i])
            return fy_fail(e, FY_EFORMAT, "lacks '%s'", r->key);
    }
    return more;
}

int fy_json_document_of(fy_span text, const fy_json_table *t, void *out, fy_err *e)
{
    fy_json *j = fy_json_new(text.ptr, text.len, e);
    int rc = j != NULL && fy_json_object_of(j, t, out, e) == 0 ? fy_json_end(j, e) : -1;
    fy_json_free(j);
    return rc;
}

int fy_json_list_of(fy_json *j, const fy_json_table *t, void *items, size_t *n, fy_err *e)
{
    size_t cap = *n;
    void *list;
    int more;
    memcpy(&list, items, sizeof list);
    if (fy_json_array_begin(j, e) != 0)
        return -1;
    while ((more = fy_json_array_next(j, e)) == 1) {
        if (t->most > 0 && *n == t->most)
            return fy_fail(e, FY_EFORMAT, "more than %zu entries", t->most);
        void *grown = fy_grow(list, *n, &cap, t->item_bytes);
        if (grown == NULL)
            return fy_nomem(e);
        list = grown;
        memcpy(items, &list, sizeof list);
        void *item = (char *)list + *n * t->item_bytes;
        memset(item, 0, t->item_bytes);
        if (t->fresh != NULL)
            memcpy(item, t->fresh, t->item_bytes);
        ++*n;
        if (fy_json_object_of(j, t, item, e) != 0 ||
            (t->check != NULL && t->check(t->user, list, *n - 1, e) != 0)) {
            char *name = NULL, shown[FY_QUOTE_BYTES];
            if (t->named)
                memcpy(&name, item, sizeof name);
            return name != NULL ? fy_ctx(e, "%s", fy_quote(shown, sizeof shown, fy_span_of(name)))
                                : fy_ctx(e, "[%zu]", *n - 1);
        }
    }
    return more;
}
