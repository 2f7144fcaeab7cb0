/* Text: spans and growable strings, UTF-8, and the escaping of text of unknown origin.
 *
 * Zero-initialise a string with fy_str s = {0}. `ptr` is NUL-terminated whenever len > 0 and may
 * hold NULs itself. An allocation failure is sticky: later appends do nothing and `oom` stays set,
 * so a caller checks once at the end. */
#ifndef FY_BASE_STR_H
#define FY_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A borrowed byte range; not NUL-terminated. */
typedef struct {
    const char *ptr; /* view */
    size_t len;
} fy_span;

#define FY_SPAN(literal) ((fy_span){(literal), sizeof(literal) - 1})

typedef struct {
    char *ptr; /* owned */
    size_t len, cap;
    bool oom;
} fy_str;

int fy_hex_digit(char c);          /* 0..15 of either case, -1 */
fy_span fy_span_of(const char *s); /* strlen'd view */
bool fy_span_eq(fy_span a, fy_span b);
int fy_span_order(fy_span a, fy_span b);   /* below, at or above 0: by bytes, then by length */
bool fy_span_is(fy_span a, const char *s); /* equals the C string s */
bool fy_span_begins(fy_span a, const char *with);
bool fy_span_ends(fy_span a, const char *with);
/* Is the word one of the list "a,b,c", whose separator this is? */
bool fy_list_has(const char *list, char separator, const char *word);
/* Takes the first word off *rest, and the spaces and tabs before it; empty: there is none. */
fy_span fy_span_cut_word(fy_span *rest);
/* Takes the first line off *rest; without its end, \n or \r\n. */
fy_span fy_span_cut_line(fy_span *rest);

void fy_str_add(fy_str *s, const void *p, size_t n);
void fy_str_puts(fy_str *s, const char *z);
void fy_str_putc(fy_str *s, char c);
void fy_str_printf(fy_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void fy_str_put_utf8(fy_str *s, uint32_t cp);
/* Appends text wrapped to `width` columns, ended by a newline. All lines but the first are
 * indented; the first continues at column `indent`. */
void fy_str_wrap(fy_str *s, const char *text, size_t indent, size_t width);
void fy_str_clear(fy_str *s);          /* len = 0, memory and oom kept */
void fy_str_release(fy_str *s);        /* frees; usable again */
const char *fy_str_z(const fy_str *s); /* never NULL: "" when empty */

/* --- UTF-8: strict (no overlong forms, no surrogates, nothing above U+10FFFF) --- */

/* Decodes one code point of p[0..n), n >= 1. Returns its length in bytes (1..4) and sets *cp;
 * returns 0 when the bytes are not valid UTF-8 (*cp untouched). */
int fy_utf8_next(const char *p, size_t n, uint32_t *cp);

bool fy_utf8_valid(const char *p, size_t n);

/* Length of the longest prefix of p[0..n) that does not end inside a character which more bytes
 * could complete: what a stream may print now. Invalid bytes count as complete. */
size_t fy_utf8_complete(const char *p, size_t n);

/* Appends s as valid UTF-8: bytes that are not become U+FFFD, one per maximal subpart
 * (Unicode 3.9). */
void fy_put_lossy(fy_str *out, fy_span s);

/* --- escaping: the one rule for text of unknown origin (a model, a phone, an archive, a hub) on
 * its way to a terminal or into a message. Escaped as \xNN or \u{NNNN} are bytes that are not UTF-8
 * and all characters that act on a terminal or cannot be seen: controls (C0, DEL, C1), line and
 * paragraph separators, what changes the direction of text, invisible characters and tags. Kept are
 * joiners and variation selectors, which written languages and emoji need. --- */

#define FY_QUOTE_BYTES 64 /* a buffer for a name inside a message */

/* Names. Newline, tab and carriage return become \n, \t, \r, and a backslash is doubled.
 * Writes the text to out[0..size), size >= 8; "..." ends it when it had to be cut. Returns `out`.
 */
const char *fy_quote(char *out, size_t size, fy_span text);

/* Appends the whole text, or its beginning and "..." when it takes more than max_bytes. */
void fy_str_put_quoted(fy_str *s, fy_span text, size_t max_bytes);

/* Appends one word of a shell's command line, in quotes where it needs them. */
void fy_str_put_word(fy_str *s, const char *word);

/* A list of names for a message: "a, b and 3 more", quoted. Zero-initialised; `text` is released.
 */
typedef struct {
    fy_str text;
    size_t n, n_left; /* all names; those that the text has no room for */
} fy_name_list;

void fy_name_list_add(fy_name_list *l, fy_span name);
const char *fy_name_list_end(fy_name_list *l); /* its text, once all are added */

/* Running text, of a model for example: newlines, tabs and backslashes stay as they are. */
void fy_str_put_shown(fy_str *s, fy_span text);

#endif
