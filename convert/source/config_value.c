/* Typed getters for the keys of config.json and of adapter_config.json. */
#include "convert/source/config_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "base/str.h"
#include "format/sniff.h"

json_t *fy_cfg_tree(const void *p, size_t n, const char *name, fy_err *e)
{
    const char *text = p;
    size_t i = 0;
    while (i < n && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n'))
        i++;
    const char *other = i < n && text[i] != '{' && text[i] != '[' ? fy_sniff(p, n) : NULL;
    if (other != NULL)
        fy_fail(e, FY_EFORMAT, "this is %s", other);
    json_t *root = other != NULL  ? NULL
                   : name != NULL ? fy_json_tree_of_python(p, n, name, e)
                                  : fy_json_tree(p, n, e);
    if (root == NULL || json_is_object(root))
        return root;
    json_decref(root);
    fy_fail(e, FY_EFORMAT, "not a JSON object");
    return NULL;
}

json_t *fy_cfg_tree_of(const char *path, fy_err *e)
{
    fy_map m;
    if (fy_map_open(&m, path, e) != 0)
        return NULL;
    json_t *root = fy_cfg_tree(m.data, m.size, path, e);
    if (root == NULL)
        fy_ctx(e, "%s", path);
    fy_map_close(&m);
    return root;
}

fy_cfg fy_cfg_of(const json_t *root, fy_err *e)
{
    return (fy_cfg){root, e, ""};
}

fy_cfg fy_cfg_below(const fy_cfg *s, const char *key)
{
    const json_t *v = fy_cfg_value(s, key);
    fy_cfg below = {.e = s->e};
    if (json_is_object(v))
        below.obj = v;
    else if (v != NULL)
        fy_cfg_bad(s, key, v, "an object");
    snprintf(below.prefix, sizeof below.prefix, "%s%s.", s->prefix, key);
    return below;
}

bool fy_cfg_bad(const fy_cfg *s, const char *key, const json_t *v, const char *expected)
{
    char number[32], q[FY_QUOTE_BYTES];
    char *text = json_is_number(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text == NULL)
        snprintf(number, sizeof number, "%.15g", json_number_value(v));
    fy_fail(s->e, FY_EFORMAT, "%s%s is %s; expected %s", s->prefix, key,
            fy_quote(q, sizeof q, fy_span_of(text != NULL ? text : number)), expected);
    free(text);
    return false;
}

const json_t *fy_cfg_value(const fy_cfg *s, const char *key)
{
    const json_t *v = json_object_get(s->obj, key);
    return json_is_null(v) ? NULL : v;
}

bool fy_cfg_is_null(const fy_cfg *s, const char *key)
{
    return json_is_null(json_object_get(s->obj, key));
}

bool fy_cfg_u32(const fy_cfg *s, const char *key, uint32_t *out)
{
    const json_t *v = fy_cfg_value(s, key);
    double d = json_number_value(v);
    if (v == NULL)
        return false;
    if (!json_is_number(v) || !(d >= 0 && d <= INT32_MAX) || d != floor(d))
        return fy_cfg_bad(s, key, v, "an integer from 0 to 2147483647");
    *out = (uint32_t)d;
    return true;
}

bool fy_cfg_double(const fy_cfg *s, const char *key, double *out)
{
    const json_t *v = fy_cfg_value(s, key);
    if (v == NULL)
        return false;
    if (!json_is_number(v) || !isfinite(json_number_value(v)))
        return fy_cfg_bad(s, key, v, "a number");
    *out = json_number_value(v);
    return true;
}

bool fy_cfg_bool(const fy_cfg *s, const char *key, bool *out)
{
    const json_t *v = json_object_get(s->obj, key);
    if (v == NULL)
        return false;
    if (!json_is_boolean(v) && !json_is_null(v))
        return fy_cfg_bad(s, key, v, "true or false");
    *out = json_is_true(v); /* null is false, as Python has it */
    return true;
}

bool fy_cfg_string(const fy_cfg *s, const char *key, const char **out)
{
    const json_t *v = fy_cfg_value(s, key);
    if (v == NULL)
        return false;
    if (!json_is_string(v))
        return fy_cfg_bad(s, key, v, "a string");
    *out = json_string_value(v);
    return true;
}

const json_t *fy_cfg_list(const fy_cfg *s, const char *key, size_t n)
{
    const json_t *v = fy_cfg_value(s, key);
    char expected[48];
    if (v == NULL || (json_is_array(v) && json_array_size(v) == n))
        return v;
    snprintf(expected, sizeof expected, "a list of %zu", n);
    if (!json_is_array(v))
        fy_cfg_bad(s, key, v, expected);
    else
        fy_fail(s->e, FY_EFORMAT, "%s%s has %zu entries; expected %s", s->prefix, key,
                json_array_size(v), expected);
    return NULL;
}

double fy_cfg_positive(const fy_cfg *s, const char *key, double absent)
{
    double v = absent;
    if (!fy_cfg_double(s, key, &v) && absent == 0)
        fy_fail(s->e, FY_EFORMAT, "%s%s is missing", s->prefix, key);
    if (!(v > 0) || (double)(float)v == 0 || !isfinite((float)v))
        fy_fail(s->e, FY_EFORMAT, "%s%s is %g; expected a positive number", s->prefix, key, v);
    return v;
}
