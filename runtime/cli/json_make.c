#include "cli/json_make.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/quote.h"

void fy_make_append(fy_maker *m, json_t *array, json_t *v)
{
    m->oom |= json_array_append_new(array, v) != 0;
}

void fy_make_set(fy_maker *m, json_t *object, const char *key, json_t *v)
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

void fy_make_set_name(fy_maker *m, json_t *object, fy_span name, json_t *v)
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

static int put_chunk(const char *p, size_t n, void *out)
{
    fy_str_add(out, p, n);
    return 0;
}

int fy_make_end(fy_maker *m, json_t *top, fy_str *out, fy_err *e)
{
    size_t how = JSON_INDENT(1) | JSON_REAL_PRECISION(15);
    bool ok = !m->oom && top != NULL && json_dump_callback(top, put_chunk, out, how) == 0;
    fy_str_putc(out, '\n');
    json_decref(top);
    return ok && !out->oom ? 0 : fy_nomem(e);
}
