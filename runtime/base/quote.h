/* The one rule for text of unknown origin (a model, a phone, an archive, a hub) on its way to a
 * terminal or into a message. Escaped as \xNN or \u{NNNN} are bytes that are not UTF-8 and all
 * characters that act on a terminal or cannot be seen: controls (C0, DEL, C1), line and paragraph
 * separators, what changes the direction of text, invisible characters and tags. Kept are joiners
 * and variation selectors, which written languages and emoji need. */
#ifndef FY_BASE_QUOTE_H
#define FY_BASE_QUOTE_H

#include <stddef.h>

#include "base/str.h"

#define FY_QUOTE_BYTES 64 /* a buffer for a name inside a message */

/* Names. Newline, tab and carriage return become \n, \t, \r, and a backslash is doubled.
 * Writes the text to out[0..size), size >= 8; "..." ends it when it had to be cut. Returns `out`.
 */
const char *fy_quote(char *out, size_t size, fy_span text);

/* Appends the whole text, or its beginning and "..." when it takes more than max_bytes. */
void fy_str_put_quoted(fy_str *s, fy_span text, size_t max_bytes);

/* Running text, of a model for example: newlines, tabs and backslashes stay as they are. */
void fy_str_put_shown(fy_str *s, fy_span text);

#endif
