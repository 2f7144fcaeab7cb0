#include "convert/tokenizer/pretok_steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

const char *fy_step_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s != NULL ? s : "";
}

bool fy_step_flag(const json_t *o, const char *key, bool absent)
{
    const json_t *v = json_object_get(o, key);
    return v == NULL ? absent : json_is_true(v);
}

int fy_steps_flatten(const json_t *node, const char *list, fy_steps *out, fy_err *e)
{
    if (node == NULL || json_is_null(node))
        return 0;
    if (!json_is_object(node))
        return fy_fail(e, FY_EFORMAT, "a step of '%s' is no object", list);
    if (strcmp(fy_step_text(node, "type"), "Sequence") == 0) {
        const json_t *parts = json_object_get(node, list);
        if (!json_is_array(parts))
            return fy_fail(e, FY_EFORMAT, "a Sequence without the array '%s'", list);
        for (size_t i = 0; i < json_array_size(parts); i++) {
            if (fy_steps_flatten(json_array_get(parts, i), list, out, e) != 0)
                return -1;
        }
        return 0;
    }
    if (out->n == FY_STEPS_MAX)
        return fy_fail(e, FY_EUNSUPPORTED, "'%s': more than %d steps", list, FY_STEPS_MAX);
    out->v[out->n++] = node;
    return 0;
}

bool fy_steps_have(const fy_steps *s, const char *type)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(fy_step_text(s->v[i], "type"), type) == 0)
            return true;
    }
    return false;
}

/* A setting of a step. A pattern is an object with one text: {"Regex": "..."}. */
static void show_value(const json_t *v, fy_str *out)
{
    const json_t *regex = json_object_get(v, "Regex");
    const json_t *text = regex != NULL ? regex : v;
    if (json_is_string(text)) {
        fy_str_putc(out, '"');
        fy_str_put_quoted(out, fy_span_of(json_string_value(text)), 120);
        fy_str_putc(out, '"');
        return;
    }
    char *dump = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    fy_str_put_quoted(out, fy_span_of(dump != NULL ? dump : "?"), 120);
    free(dump);
}

static void show_step(const json_t *step, fy_str *out)
{
    const char *key;
    json_t *v;
    char sep = '(';
    fy_str_put_quoted(out, fy_span_of(fy_step_text(step, "type")), 40);
    json_object_foreach((json_t *)(uintptr_t)step, key, v)
    { /* the iterator takes no const pointer */
        if (strcmp(key, "type") == 0 || strcmp(key, "trim_offsets") == 0 || json_is_null(v))
            continue;
        fy_str_putc(out, sep);
        fy_str_put_quoted(out, fy_span_of(key), 40);
        fy_str_putc(out, '=');
        show_value(v, out);
        sep = ',';
    }
    if (sep == ',')
        fy_str_putc(out, ')');
}

void fy_steps_show(const char *what, const fy_steps *s, fy_str *out)
{
    fy_str_puts(out, what);
    for (size_t i = 0; i < s->n; i++) {
        fy_str_puts(out, i == 0 ? " " : " + ");
        show_step(s->v[i], out);
    }
    if (s->n == 0)
        fy_str_puts(out, " none");
}
