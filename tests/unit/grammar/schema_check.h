/* A validator for JSON Schema that shares nothing with runtime/grammar/schema*.c: it looks at a
 * value, not at a language. For the keywords of tests/data/schemas; -1 for one that it does not
 * know, so that nothing is passed over. */
#ifndef FY_TESTS_SCHEMA_CHECK_H
#define FY_TESTS_SCHEMA_CHECK_H

#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"

/* 1: valid, 0: not, -1: unknown keyword. */
static int schema_valid(const json_t *root, const json_t *schema, const json_t *v);

static inline size_t schema_chars(const json_t *v)
{
    size_t n = 0;
    for (size_t i = 0; i < json_string_length(v); i++)
        n += ((unsigned char)json_string_value(v)[i] & 0xC0) != 0x80;
    return n;
}

/* POSIX knows neither \d nor (?:. Needs a locale with UTF-8. */
static inline int schema_matches(const char *pattern, const char *text)
{
    char ere[1024];
    size_t n = 0;
    for (const char *p = pattern; *p != '\0' && n < sizeof ere - 16; p++) {
        if (p[0] == '\\' && p[1] == 'd') {
            n += (size_t)sprintf(ere + n, "[0-9]");
            p++;
        } else if (p[0] == '[') { /* a backslash is itself there */
            ere[n++] = *p++;
            if (*p == '^')
                ere[n++] = *p++;
            for (; *p != ']'; p++) {
                p += *p == '\\';
                ere[n++] = *p;
            }
            ere[n++] = ']';
        } else {
            ere[n++] = *p;
        }
    }
    ere[n] = '\0';
    regex_t re;
    if (regcomp(&re, ere, REG_EXTENDED | REG_NOSUB) != 0)
        return -1;
    const int rc = regexec(&re, text, 0, NULL, 0) == 0;
    regfree(&re);
    return rc;
}

static inline int schema_date(const char *s)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int y, m, d, n = 0;
    if (sscanf(s, "%4d-%2d-%2d%n", &y, &m, &d, &n) != 3 || n != 10 || y < 1 || m < 1 || m > 12)
        return 0;
    const int leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    return d >= 1 && d <= days[m - 1] + (m == 2 && leap);
}

static inline int schema_time(const char *s)
{
    int h, m, sec, n = 0;
    if (sscanf(s, "%2d:%2d:%2d%n", &h, &m, &sec, &n) != 3 || n != 8 || h > 23 || m > 59 || sec > 59)
        return 0;
    s += n;
    if (*s == '.')
        s += 1 + strspn(s + 1, "0123456789");
    if (strcmp(s, "Z") == 0)
        return 1;
    n = 0;
    return (*s == '+' || *s == '-') && sscanf(s + 1, "%2d:%2d%n", &h, &m, &n) == 2 && n == 5 &&
           s[6] == '\0' && h <= 23 && m <= 59;
}

static inline int schema_format(const char *name, const char *s)
{
    char date[11] = {0};
    if (strcmp(name, "date") == 0)
        return strlen(s) == 10 && schema_date(s);
    if (strcmp(name, "time") == 0)
        return schema_time(s);
    if (strcmp(name, "date-time") == 0) {
        strncpy(date, s, 10);
        return strlen(s) > 11 && s[10] == 'T' && schema_date(date) && schema_time(s + 11);
    }
    if (strcmp(name, "uuid") == 0)
        return schema_matches("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", s);
    if (strcmp(name, "email") == 0)
        return schema_matches("^[^@ .][^@ ]*@[^@ .]+(\\.[^@ .]+)+$", s);
    int a, b, c, d, n = 0;
    return strcmp(name, "ipv4") == 0 && sscanf(s, "%3d.%3d.%3d.%3d%n", &a, &b, &c, &d, &n) == 4 &&
           s[n] == '\0' && a < 256 && b < 256 && c < 256 && d < 256;
}

static inline int schema_is_type(const json_t *type, const json_t *v)
{
    for (size_t i = 0; json_is_array(type) && i < json_array_size(type); i++) {
        if (schema_is_type(json_array_get(type, i), v))
            return 1;
    }
    const char *t = json_is_string(type) ? json_string_value(type) : "";
    return (strcmp(t, "null") == 0 && json_is_null(v)) ||
           (strcmp(t, "boolean") == 0 && json_is_boolean(v)) ||
           (strcmp(t, "string") == 0 && json_is_string(v)) ||
           (strcmp(t, "array") == 0 && json_is_array(v)) ||
           (strcmp(t, "object") == 0 && json_is_object(v)) ||
           (strcmp(t, "number") == 0 && json_is_number(v)) ||
           (strcmp(t, "integer") == 0 && json_is_number(v) &&
            json_number_value(v) == floor(json_number_value(v)));
}

static inline int schema_count(const json_t *root, const json_t *list, const json_t *v)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        n += schema_valid(root, json_array_get(list, i), v) == 1;
    return n;
}

static inline int schema_members(const json_t *root, const json_t *schema, json_t *v)
{
    json_t *props = json_object_get(schema, "properties"), *x, *p;
    json_t *patterns = json_object_get(schema, "patternProperties");
    json_t *more = json_object_get(schema, "additionalProperties");
    const char *key, *pattern;
    int ok = 1;
    json_object_foreach(v, key, x)
    {
        bool known = json_object_get(props, key) != NULL;
        if (known)
            ok &= schema_valid(root, json_object_get(props, key), x) == 1;
        json_object_foreach(patterns, pattern, p)
        {
            if (schema_matches(pattern, key) == 1) {
                known = true;
                ok &= schema_valid(root, p, x) == 1;
            }
        }
        if (!known && more != NULL)
            ok &= schema_valid(root, more, x) == 1;
    }
    return ok;
}

static inline int schema_items(const json_t *root, const json_t *schema, const json_t *v)
{
    const json_t *prefix = json_object_get(schema, "prefixItems");
    const json_t *items = json_object_get(schema, "items");
    int ok = 1;
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *s = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        ok &= s == NULL || schema_valid(root, s, json_array_get(v, i)) == 1;
    }
    return ok;
}

static inline int schema_keyword(const json_t *root, const json_t *schema, const char *key,
                                 const json_t *arg, const json_t *v)
{
    const double x = json_number_value(v), n = json_number_value(arg);
    const char *s = json_is_string(v) ? json_string_value(v) : NULL;
    const bool is_number = json_is_number(v), is_array = json_is_array(v);
    const bool null_is_fine = json_is_null(v) && json_is_true(json_object_get(schema, "nullable"));
#define KEYWORD(name, valid)    \
    if (strcmp(key, name) == 0) \
    return (valid) ? 1 : 0
    KEYWORD("type", null_is_fine || schema_is_type(arg, v));
    KEYWORD("const", json_equal(arg, v));
    KEYWORD("minimum", !is_number || x >= n);
    KEYWORD("maximum", !is_number || x <= n);
    KEYWORD("exclusiveMinimum", !is_number || x > n);
    KEYWORD("exclusiveMaximum", !is_number || x < n);
    KEYWORD("minLength", s == NULL || (double)schema_chars(v) >= n);
    KEYWORD("maxLength", s == NULL || (double)schema_chars(v) <= n);
    KEYWORD("pattern", s == NULL || schema_matches(json_string_value(arg), s) == 1);
    KEYWORD("format", s == NULL || schema_format(json_string_value(arg), s));
    KEYWORD("minItems", !is_array || (double)json_array_size(v) >= n);
    KEYWORD("maxItems", !is_array || (double)json_array_size(v) <= n);
    KEYWORD("items", !is_array || schema_items(root, schema, v));
    KEYWORD("prefixItems", !is_array || schema_items(root, schema, v));
    KEYWORD("minProperties", !json_is_object(v) || (double)json_object_size(v) >= n);
    KEYWORD("maxProperties", !json_is_object(v) || (double)json_object_size(v) <= n);
    KEYWORD("anyOf", schema_count(root, arg, v) > 0);
    KEYWORD("oneOf", schema_count(root, arg, v) == 1);
    KEYWORD("allOf", schema_count(root, arg, v) == (int)json_array_size(arg));
    if (strcmp(key, "enum") == 0) {
        for (size_t i = 0; i < json_array_size(arg); i++) {
            if (json_equal(json_array_get(arg, i), v))
                return 1;
        }
        return 0;
    }
    if (strcmp(key, "required") == 0) {
        for (size_t i = 0; json_is_object(v) && i < json_array_size(arg); i++) {
            if (json_object_get(v, json_string_value(json_array_get(arg, i))) == NULL)
                return 0;
        }
        return 1;
    }
    if (strcmp(key, "$ref") == 0) {
        const char *name = strrchr(json_string_value(arg), '/');
        return schema_valid(root, json_object_get(json_object_get(root, "$defs"), name + 1), v);
    }
    if (strstr("properties patternProperties additionalProperties", key) != NULL)
        return !json_is_object(v) || schema_members(root, schema, (json_t *)(uintptr_t)v);
    return strstr("nullable $defs title description", key) != NULL ? 1 : -1;
#undef KEYWORD
}

static int schema_valid(const json_t *root, const json_t *schema, const json_t *v)
{
    const char *key;
    json_t *arg;
    if (json_is_boolean(schema))
        return json_is_true(schema);
    json_object_foreach((json_t *)(uintptr_t)schema, key, arg)
    {
        const int rc = schema_keyword(root, schema, key, arg, v);
        if (rc != 1)
            return rc;
    }
    return 1;
}

#endif
