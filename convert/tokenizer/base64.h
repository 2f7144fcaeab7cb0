/* Base64 (RFC 4648, section 4), as rank files and tokenizer.json hold bytes. */
#ifndef FY_CONVERT_BASE64_H
#define FY_CONVERT_BASE64_H

#include "base/str.h"

/* Appends the bytes. Padding may be left out. False: a character that is no digit of it. */
bool fy_base64_decode(fy_span s, fy_str *out);

#endif
