/* Values of GGUF keys as short text that is safe for a terminal. */
#ifndef FY_CONVERT_KV_TEXT_H
#define FY_CONVERT_KV_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "format/gguf.h"

/* The shortest decimal that reads back as the same number. */
void fy_format_float(char out[32], double v, bool is_f32);
void fy_put_float(fy_str *out, double v, bool is_f32);
/* In quotes, cut when it is long. */
void fy_put_short_string(fy_str *out, fy_span s);
/* Element i of any kind; *pos walks the strings of an array, beginning with 0. */
void fy_kv_put_element(fy_str *out, const fy_gguf_kv *kv, uint64_t i, uint64_t *pos);
/* The value; of an array its size and first elements. */
void fy_kv_put(fy_str *out, const fy_gguf_kv *kv);

#endif
