#include "base/json_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static json_t *read_value(fy_json *j, fy_err *e);

static json_t *fail(json_t *partial, fy_err *e)
{
    json_decref(partial);
    fy_nomem(e); /* unless something else is recorded */
    return NULL;
}

static json_t *read_object(fy_json *j, fy_err *e)
{
    json_t *o = json_object();
    fy_span key;
    int rc;
    if (o == NULL || fy_json_object_begin(j, e) != 0)
        return fail(o, e);
    while ((rc = fy_json_object_next(j, &key, e)) == 1) {
        if (memchr(key.ptr, '\0', key.len) != NULL) {
            fy_fail(e, FY_EFORMAT, "a key with a NUL character");
            return fail(o, e);
        }
        char *name = strndup(key.ptr, key.len); /* reading the value may overwrite the key */
        json_t *v = name != NULL ? read_value(j, e) : NULL;
        int set = v != NULL ? json_object_set_new_nocheck(o, name, v) : -1;
        free(name);
        if (set != 0)
            return fail(o, e);
    }
    return rc == 0 ? o : fail(o, e);
}

static json_t *read_array(fy_json *j, fy_err *e)
{
    json_t *a = json_array();
    int rc;
    if (a == NULL || fy_json_array_begin(j, e) != 0)
        return fail(a, e);
    while ((rc = fy_json_array_next(j, e)) == 1) {
        json_t *v = read_value(j, e);
        if (v == NULL || json_array_append_new(a, v) != 0)
            return fail(a, e);
    }
    return rc == 0 ? a : fail(a, e);
}

static json_t *read_string(fy_json *j, fy_err *e)
{
    fy_span s;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return NULL;
    if (s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL) {
        fy_fail(e, FY_EFORMAT, "a text with a NUL character");
        return NULL;
    }
    json_t *v = json_stringn_nocheck(s.ptr, s.len);
    return v != NULL ? v : fail(NULL, e);
}

static json_t *read_number(fy_json *j, fy_err *e)
{
    double d;
    if (fy_json_double(j, &d, e) != 0)
        return NULL;
    json_t *v = json_real(d);
    return v != NULL ? v : fail(NULL, e);
}

/* The reader bounds the depth. */
static json_t *read_value(fy_json *j, fy_err *e)
{
    switch (fy_json_peek(j)) {
    case FY_JSON_OBJECT:
        return read_object(j, e);
    case FY_JSON_ARRAY:
        return read_array(j, e);
    case FY_JSON_STRING:
        return read_string(j, e);
    case FY_JSON_NUMBER:
        return read_number(j, e);
    case FY_JSON_TRUE:
        return fy_json_skip(j, e) == 0 ? json_true() : NULL;
    case FY_JSON_FALSE:
        return fy_json_skip(j, e) == 0 ? json_false() : NULL;
    case FY_JSON_NULL:
    case FY_JSON_BAD:
        break;
    }
    return fy_json_skip(j, e) == 0 ? json_null() : NULL;
}

json_t *fy_json_tree(const void *p, size_t n, fy_err *e)
{
    if (n > FY_JSON_TREE_MAX) {
        fy_fail(e, FY_EFORMAT, "%zu bytes of JSON, expected at most %zu", n, FY_JSON_TREE_MAX);
        return NULL;
    }
    fy_json *j = fy_json_new(p, n, e);
    json_t *v = j != NULL ? read_value(j, e) : NULL;
    if (v != NULL && fy_json_end(j, e) != 0) {
        json_decref(v);
        v = NULL;
    }
    fy_json_free(j);
    return v;
}
