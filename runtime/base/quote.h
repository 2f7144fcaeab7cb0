/* Untrusted text made fit for a terminal and a message: control characters (C0, C1, DEL), line and
 * paragraph separators and the marks that reverse the direction of text become \n, \t, \r, \xNN or
 * \u{NNNN}, as do bytes that are not UTF-8; a backslash is doubled. Everything else stays as it is.
 */
#ifndef FY_BASE_QUOTE_H
#define FY_BASE_QUOTE_H

#include <stddef.h>

#include "base/str.h"

#define FY_QUOTE_BYTES 64 /* a buffer for a name inside a message */

/* Writes the text to out[0..size), size >= 8; "..." ends it when it had to be cut. Returns `out`.
 */
const char *fy_quote(char *out, size_t size, fy_span text);

/* Appends the whole text, or its beginning and "..." when it takes more than max_bytes. */
void fy_str_put_quoted(fy_str *s, fy_span text, size_t max_bytes);

#endif
