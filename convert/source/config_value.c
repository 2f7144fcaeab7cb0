/* Typed getters for the keys of config.json and of adapter_config.json. */
#include "convert/source/config_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"

fy_cfg fy_cfg_of(const json_t *root)
{
    return (fy_cfg){root, ""};
}

fy_cfg fy_cfg_below(const fy_cfg *s, const char *key, const json_t *obj)
{
    fy_cfg below = {.obj = obj};
    snprintf(below.prefix, sizeof below.prefix, "%s%s.", s->prefix, key);
    return below;
}

int fy_cfg_bad(const fy_cfg *s, const char *key, const json_t *v, const char *expected, fy_err *e)
{
    char number[32], q[FY_QUOTE_BYTES];
    char *text = json_is_number(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text == NULL)
        snprintf(number, sizeof number, "%.15g", json_number_value(v));
    fy_fail(e, FY_EFORMAT, "%s%s is %s; expected %s", s->prefix, key,
            fy_quote(q, sizeof q, fy_span_of(text != NULL ? text : number)), expected);
    free(text);
    return -1;
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

bool fy_cfg_is_true(const fy_cfg *s, const char *key)
{
    return json_is_true(json_object_get(s->obj, key));
}

int fy_cfg_u32(const fy_cfg *s, const char *key, uint32_t *out, fy_err *e)
{
    const json_t *v = fy_cfg_value(s, key);
    if (v == NULL)
        return 1;
    double d = json_number_value(v);
    if (!json_is_number(v) || !(d >= 0 && d <= INT32_MAX) || d != floor(d))
        return fy_cfg_bad(s, key, v, "an integer from 0 to 2147483647", e);
    *out = (uint32_t)d;
    return 0;
}

int fy_cfg_double(const fy_cfg *s, const char *key, double *out, fy_err *e)
{
    const json_t *v = fy_cfg_value(s, key);
    if (v == NULL)
        return 1;
    if (!json_is_number(v) || !isfinite(json_number_value(v)))
        return fy_cfg_bad(s, key, v, "a number", e);
    *out = json_number_value(v);
    return 0;
}

int fy_cfg_bool(const fy_cfg *s, const char *key, bool *out, fy_err *e)
{
    const json_t *v = fy_cfg_value(s, key);
    if (v == NULL && fy_cfg_is_null(s, key)) {
        *out = false; /* as Python has it */
        return 0;
    }
    if (v == NULL)
        return 1;
    if (!json_is_boolean(v))
        return fy_cfg_bad(s, key, v, "true or false", e);
    *out = json_is_true(v);
    return 0;
}

int fy_cfg_string(const fy_cfg *s, const char *key, const char **out, fy_err *e)
{
    const json_t *v = fy_cfg_value(s, key);
    if (v == NULL)
        return 1;
    if (!json_is_string(v))
        return fy_cfg_bad(s, key, v, "a string", e);
    *out = json_string_value(v);
    return 0;
}

int fy_cfg_object(const fy_cfg *s, const char *key, const json_t **out, fy_err *e)
{
    const json_t *v = fy_cfg_value(s, key);
    if (v == NULL)
        return 1;
    if (!json_is_object(v))
        return fy_cfg_bad(s, key, v, "an object", e);
    *out = v;
    return 0;
}

int fy_cfg_list(const fy_cfg *s, const char *key, size_t n, const json_t **out, fy_err *e)
{
    const json_t *v = fy_cfg_value(s, key);
    char expected[48];
    if (v == NULL)
        return 1;
    snprintf(expected, sizeof expected, "a list of %zu", n);
    if (!json_is_array(v))
        return fy_cfg_bad(s, key, v, expected, e);
    if (json_array_size(v) != n)
        return fy_fail(e, FY_EFORMAT, "%s%s has %zu entries; expected %s", s->prefix, key,
                       json_array_size(v), expected);
    *out = v;
    return 0;
}

int fy_cfg_positive(const fy_cfg *s, const char *key, double *io, fy_err *e)
{
    int rc = fy_cfg_double(s, key, io, e);
    if (rc < 0)
        return -1;
    if (rc == 1 && *io == 0)
        return fy_fail(e, FY_EFORMAT, "%s%s is missing", s->prefix, key);
    if (!(*io > 0) || (double)(float)*io == 0 || !isfinite((float)*io))
        return fy_fail(e, FY_EFORMAT, "%s%s is %g; expected a positive number", s->prefix, key,
                       *io);
    return 0;
}
