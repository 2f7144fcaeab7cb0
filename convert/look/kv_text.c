#include "convert/look/kv_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/math.h"
#include "base/str.h"

enum { TEXT_BYTES = 60, TEXT_ITEMS = 4 };

void fy_format_float(char out[32], double v, bool is_f32)
{
    for (int digits = is_f32 ? 6 : 15; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, v);
        double back = strtod(out, NULL);
        if (is_f32 ? (float)back == (float)v : back == v)
            return;
    }
}

void fy_put_float(fy_str *out, double v, bool is_f32)
{
    char text[32];
    fy_format_float(text, v, is_f32);
    fy_str_puts(out, text);
}

void fy_put_short_string(fy_str *out, fy_span s)
{
    fy_str_putc(out, '"');
    fy_str_put_quoted(out, s, TEXT_BYTES);
    fy_str_putc(out, '"');
}

void fy_kv_put_element(fy_str *out, const fy_gguf_kv *kv, uint64_t i, uint64_t *pos)
{
    if (kv->elem == FY_KV_STRING)
        fy_put_short_string(out, fy_gguf_next_string(kv, pos));
    else if (kv->elem == FY_KV_F32 || kv->elem == FY_KV_F64)
        fy_put_float(out, fy_gguf_float_at(kv, i), kv->elem == FY_KV_F32);
    else if (kv->elem == FY_KV_BOOL)
        fy_str_puts(out, fy_gguf_int_at(kv, i) != 0 ? "true" : "false");
    else if (kv->elem == FY_KV_U64)
        fy_str_printf(out, "%" PRIu64, fy_le64(kv->data + 8 * i));
    else
        fy_str_printf(out, "%" PRId64, fy_gguf_int_at(kv, i));
}

void fy_kv_put(fy_str *out, const fy_gguf_kv *kv)
{
    uint64_t pos = 0, n = kv->count;
    if (kv->type == FY_KV_ARRAY) {
        fy_str_printf(out, "[%" PRIu64 " x %s]", kv->count, fy_kv_type_name(kv->elem));
        n = n > TEXT_ITEMS ? TEXT_ITEMS : n;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (kv->type == FY_KV_ARRAY)
            fy_str_puts(out, i == 0 ? " " : ", ");
        fy_kv_put_element(out, kv, i, &pos);
    }
    if (n < kv->count)
        fy_str_puts(out, ", ...");
}
