/* Writing JSON: the one part that is easy to get wrong. */
#ifndef FY_BASE_JSON_OUT_H
#define FY_BASE_JSON_OUT_H

#include "base/str.h"

/* Appends text as a JSON string with its quotes. Control characters, quotes and backslashes are
 * escaped, the rest stays UTF-8; a byte that belongs to no character becomes U+FFFD. */
void fy_json_put_string(fy_str *out, fy_span text);

#endif
