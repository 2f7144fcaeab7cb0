/* UTF-8: strict decoding (no overlong forms, no surrogates, nothing above U+10FFFF). */
#ifndef FY_BASE_UTF8_H
#define FY_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one code point of p[0..n), n >= 1. Returns its length in bytes (1..4) and sets *cp;
 * returns 0 when the bytes are not valid UTF-8 (*cp untouched). */
int fy_utf8_next(const char *p, size_t n, uint32_t *cp);

bool fy_utf8_valid(const char *p, size_t n);

/* Length of the longest prefix of p[0..n) that does not end inside a character which more bytes
 * could complete: what a stream may print now. Invalid bytes count as complete. */
size_t fy_utf8_complete(const char *p, size_t n);

#endif
