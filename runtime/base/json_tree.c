/* jansson trees of JSON text, built value by value from what the strict reader returns, and the
 * small helpers that build and write trees. */
#include "base/json_tree.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct {
    fy_json *j;
    bool is_data; /* integers are kept, and NUL in strings */
} tree;

static json_t *read_value(const tree *t, fy_err *e);

static json_t *fail(json_t *partial, fy_err *e)
{
    json_decref(partial);
    fy_nomem(e); /* unless something else is recorded */
    return NULL;
}

static json_t *read_object(const tree *t, fy_err *e)
{
    json_t *o = json_object();
    fy_span key;
    int rc;
    if (o == NULL || fy_json_object_begin(t->j, e) != 0)
        return fail(o, e);
    while ((rc = fy_json_object_next(t->j, &key, e)) == 1) {
        if (memchr(key.ptr, '\0', key.len) != NULL) {
            fy_fail(e, FY_EFORMAT, "a key with a NUL character");
            return fail(o, e);
        }
        char *name = strndup(key.ptr, key.len); /* reading the value may overwrite the key */
        json_t *v = name != NULL ? read_value(t, e) : NULL;
        int set = v != NULL ? json_object_set_new_nocheck(o, name, v) : -1;
        free(name);
        if (set != 0)
            return fail(o, e);
    }
    return rc == 0 ? o : fail(o, e);
}

static json_t *read_array(const tree *t, fy_err *e)
{
    json_t *a = json_array();
    int rc;
    if (a == NULL || fy_json_array_begin(t->j, e) != 0)
        return fail(a, e);
    while ((rc = fy_json_array_next(t->j, e)) == 1) {
        json_t *v = read_value(t, e);
        if (v == NULL || json_array_append_new(a, v) != 0)
            return fail(a, e);
    }
    return rc == 0 ? a : fail(a, e);
}

static json_t *read_string(const tree *t, fy_err *e)
{
    fy_span s;
    if (fy_json_string(t->j, &s, NULL, e) != 0)
        return NULL;
    if (!t->is_data && s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL) {
        fy_fail(e, FY_EFORMAT, "a string with a NUL character");
        return NULL;
    }
    json_t *v = json_stringn_nocheck(s.ptr, s.len);
    return v != NULL ? v : fail(NULL, e);
}

static json_t *read_number(const tree *t, fy_err *e)
{
    int64_t i = 0;
    double d = 0;
    const int rc = t->is_data ? fy_json_number(t->j, &i, &d, e) : fy_json_double(t->j, &d, e);
    if (rc < 0)
        return NULL;
    json_t *v = rc == 1 ? json_integer(i) : json_real(d);
    return v != NULL ? v : fail(NULL, e);
}

/* The reader bounds the depth. */
static json_t *read_value(const tree *t, fy_err *e)
{
    switch (fy_json_peek(t->j)) {
    case FY_JSON_OBJECT:
        return read_object(t, e);
    case FY_JSON_ARRAY:
        return read_array(t, e);
    case FY_JSON_STRING:
        return read_string(t, e);
    case FY_JSON_NUMBER:
        return read_number(t, e);
    case FY_JSON_TRUE:
        return fy_json_skip(t->j, e) == 0 ? json_true() : NULL;
    case FY_JSON_FALSE:
        return fy_json_skip(t->j, e) == 0 ? json_false() : NULL;
    case FY_JSON_NULL:
    case FY_JSON_BAD:
        break;
    }
    return fy_json_skip(t->j, e) == 0 ? json_null() : NULL;
}

static json_t *read_text(const void *p, size_t n, bool is_data, fy_err *e)
{
    const tree t = {.j = fy_json_new(p, n, e), .is_data = is_data};
    json_t *v = t.j != NULL ? read_value(&t, e) : NULL;
    if (v != NULL && fy_json_end(t.j, e) != 0) {
        json_decref(v);
        v = NULL;
    }
    fy_json_free(t.j);
    return v;
}

json_t *fy_json_tree(const void *p, size_t n, fy_err *e)
{
    if (n > FY_JSON_TREE_MAX) {
        fy_fail(e, FY_EFORMAT, "%zu bytes of JSON, expected at most %zu", n, FY_JSON_TREE_MAX);
        return NULL;
    }
    return read_text(p, n, false, e);
}

/* The length of a word that Python writes for a number and that JSON does not have; 0: p has none.
 */
static size_t no_number(const char *p, size_t n)
{
    static const char *const words[] = {"NaN", "-Infinity", "Infinity"};
    for (int i = 0; i < 3; i++) {
        size_t len = strlen(words[i]);
        if (n >= len && memcmp(p, words[i], len) == 0)
            return len;
    }
    return 0;
}

/* The text with null for such words outside of texts. */
static void put_plain(const char *p, size_t n, fy_str *out)
{
    bool in_text = false;
    for (size_t i = 0; i < n;) {
        size_t word = in_text ? 0 : no_number(p + i, n - i);
        size_t len = word > 0 ? word : in_text && p[i] == '\\' && i + 1 < n ? 2 : 1;
        if (word > 0)
            fy_str_puts(out, "null");
        else
            fy_str_add(out, p + i, len);
        in_text ^= len == 1 && p[i] == '"';
        i += len;
    }
}

/* If the text is wrong in other ways too, the error is about the text as written. */
json_t *fy_json_tree_of_python(const void *p, size_t n, const char *path, fy_err *e)
{
    fy_err strict = {0}, again = {0};
    fy_str plain = {0};
    json_t *read = fy_json_tree(p, n, &strict);
    if (read != NULL)
        return read;
    if (strict.code == FY_EFORMAT && n <= FY_JSON_TREE_MAX) {
        put_plain(p, n, &plain);
        if (plain.oom)
            fy_nomem(&again);
        else
            read = fy_json_tree(fy_str_z(&plain), plain.len, &again);
        fy_str_release(&plain);
    }
    if (read != NULL && path != NULL)
        fy_log(FY_LOG_WARN, "%s: has NaN or Infinity, read as null", path);
    else if (read == NULL && again.code == FY_ENOMEM)
        fy_nomem(e);
    else if (read == NULL)
        fy_fail(e, strict.code, "%s", strict.msg);
    return read;
}

json_t *fy_json_data(fy_span text, fy_err *e)
{
    return read_text(text.ptr, text.len, true, e);
}

json_t *fy_json_data_line(fy_span line, fy_err *e)
{
    static const char place[] = "line 1, ";
    fy_err why = {0};
    json_t *v = fy_json_data(line, &why);
    const size_t skip = strncmp(why.msg, place, sizeof place - 1) == 0 ? sizeof place - 1 : 0;
    if (v == NULL)
        fy_fail(e, why.code, "%s", why.msg + skip);
    return v;
}

json_t *fy_json_data_file(const char *path, fy_err *e)
{
    fy_map m;
    if (fy_map_open(&m, path, e) != 0)
        return NULL;
    json_t *v = fy_json_data((fy_span){(const char *)m.data, m.size}, e);
    if (v == NULL)
        fy_ctx(e, "%s", path);
    fy_map_close(&m);
    return v;
}

/* --- building --------------------------------------------------------------------------------- */

void fy_make_append(fy_json_maker *m, json_t *array, json_t *v)
{
    m->oom |= json_array_append_new(array, v) != 0;
}

void fy_make_set(fy_json_maker *m, json_t *object, const char *key, json_t *v)
{
    m->oom |= json_object_set_new(object, key, v) != 0;
}

json_t *fy_make_text(fy_span s)
{
    bool has_nul = s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL;
    json_t *plain = has_nul ? NULL : json_stringn(s.len > 0 ? s.ptr : "", s.len);
    if (plain != NULL)
        return plain;
    fy_str quoted = {0};
    fy_str_put_quoted(&quoted, s, SIZE_MAX);
    json_t *v = quoted.oom ? NULL : json_stringn(fy_str_z(&quoted), quoted.len);
    fy_str_release(&quoted);
    return v;
}

void fy_make_set_name(fy_json_maker *m, json_t *object, fy_span name, json_t *v)
{
    json_t *key = fy_make_text(name);
    m->oom |= json_object_set_new(object, json_string_value(key), v) != 0;
    json_decref(key);
}

json_t *fy_make_u64(uint64_t v)
{
    char text[32];
    if (v <= INT64_MAX)
        return json_integer((json_int_t)v);
    snprintf(text, sizeof text, "%" PRIu64, v);
    return json_string(text);
}

json_t *fy_make_number(double v)
{
    char text[32];
    if (isfinite(v))
        return json_real(v);
    snprintf(text, sizeof text, "%g", v);
    return json_string(text);
}

static int add_text(const char *p, size_t n, void *out)
{
    fy_str_add(out, p, n);
    return 0;
}

int fy_make_end(fy_json_maker *m, json_t *top, fy_str *out, fy_err *e)
{
    const size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(15);
    bool ok = !m->oom && top != NULL && json_dump_callback(top, add_text, out, flags) == 0;
    fy_str_putc(out, '\n');
    json_decref(top);
    return ok && !out->oom ? 0 : fy_nomem(e);
}
