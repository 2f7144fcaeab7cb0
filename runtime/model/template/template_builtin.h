/* What the builtins of the template language (filters, tests, methods, functions) share: Unicode as
 * Python's str sees it, arguments, formatting, tables of names. Strings are UTF-8. Not for use
 * outside runtime/model/template. */
#ifndef FY_TEMPLATE_BUILTIN_H
#define FY_TEMPLATE_BUILTIN_H

#include "model/template/template_value.h"

/* --- strings (template_unicode.c) --- */

/* The code point at *p (< end), which moves after it; an invalid byte is 0x7fffff00 + byte. */
uint32_t fy_tu_next(const char **p, const char *end);
/* The code point that ends at *p (> begin), which moves before it. */
uint32_t fy_tu_prev(const char *begin, const char **p);
size_t fy_tu_put(char out[4], uint32_t cp); /* bytes written; takes what fy_tu_next gives */
size_t fy_tu_length(fy_span s);             /* code points */
fy_span fy_tu_slice(fy_span s, size_t start, size_t stop); /* in code points, clamped to s */

bool fy_tu_is_space(uint32_t cp);
bool fy_tu_is_digit(uint32_t cp);
bool fy_tu_is_printable(uint32_t cp);
/* Has letters with case, and all of them in one case. */
bool fy_tu_all_cased(fy_span s, bool upper);
/* Bytes of the line end that s begins with (str.splitlines' set), else 0. */
size_t fy_tu_line_end(fy_span s);

typedef enum { FY_TU_UPPER, FY_TU_LOWER, FY_TU_CAPITALIZE, FY_TU_TITLE } fy_tu_case;
void fy_tu_put_case(fy_tbuf *b, fy_span s, fy_tu_case to); /* appends */

enum { FY_TU_STRIP_LEFT = 1, FY_TU_STRIP_RIGHT = 2, FY_TU_STRIP_BOTH = 3 };
/* Without the code points of `chars` (NULL: white space) at its ends. */
fy_span fy_tu_strip(fy_tm *m, fy_span s, const fy_span *chars, uint32_t ends);
/* Byte where `needle` begins in s, -1 when it does not occur. */
ptrdiff_t fy_tu_find(fy_span s, fy_span needle);
/* Appends s with the first `max` (< 0: all) occurrences of `old` replaced. */
void fy_tu_replace(fy_tbuf *b, fy_span s, fy_span old, fy_span with, int64_t max);
/* Appends `pattern` n times; the size is checked before. */
void fy_tu_repeat(fy_tbuf *b, fy_span pattern, uint64_t n);
/* Appends s with the characters of HTML replaced, as markupsafe does. */
void fy_tu_put_escaped(fy_tbuf *b, fy_span s);

/* --- arguments (template_functions.c) --- */

#define FY_UNUSED __attribute__((unused))
#define FY_BUILTIN(name)                                                                     \
    fy_tv name(fy_tm *m FY_UNUSED, const fy_tbuiltin *f FY_UNUSED, const fy_tv *v FY_UNUSED, \
               const fy_targs *a FY_UNUSED)

bool fy_targ_absent(const fy_tv *v); /* of a parameter: it was not given */
bool fy_targ_given(const fy_tv *v);  /* false for none, too */
/* An int where Python takes one as an index or count; error for other types. */
int64_t fy_tv_index(fy_tm *m, const fy_tv *v);
/* A string argument of `what`; error for other types. */
fy_span fy_tv_text(fy_tm *m, const char *what, const fy_tv *v);
/* The keyword argument of that name, or NULL. */
const fy_tv *fy_targs_named(const fy_targs *a, fy_span name);
/* A callable of that type: the builtin on `v`. */
fy_tv fy_tbuiltin_bind(fy_tm *m, const char *type, const fy_tbuiltin *f, fy_tv v);
/* "<what> '<name>' is not supported", as fy_tv_hint. */
fy_tv fy_tv_unsupported(fy_tm *m, const char *what, fy_span name);

/* The row of that name in a table that ends with a NULL name; NULL: none. */
const fy_tbuiltin *fy_tbuiltin_find(const fy_tbuiltin *table, fy_span name);
/* Is the name one of the words, which have one space between them? */
bool fy_tword_is_in(fy_span name, const char *words);

/* A name inside a message: "%.*s". */
#define FY_TSHOWN(s) (int)((s).len < 100 ? (s).len : 100), (s).ptr

/* --- formatting (template_format.c) --- */

/* format % args: args is a tuple or a single value. */
fy_tv fy_tv_percent(fy_tm *m, const fy_tv *format, const fy_tv *args);
FY_BUILTIN(fy_tstr_format); /* v.format(args): "{}", "{0}", "{name}" */

/* --- filters --- */

FY_BUILTIN(fy_tstr_case);  /* str(v) in the case of f->variant */
FY_BUILTIN(fy_tstr_strip); /* str(v) without the characters of a->arg[0] at its ends */

extern const fy_tbuiltin fy_tfilters_list[]; /* of sequences; a NULL name ends it */
FY_BUILTIN(fy_tfilter_tojson);

/* The positions 0 .. keys->n - 1 in the stable order of their keys. NULL: error. */
typedef int fy_tcompare(fy_tm *m, const fy_tv *a, const fy_tv *b);
size_t *fy_tlist_order(fy_tm *m, const fy_tlist *keys, bool reverse, fy_tcompare *compare);

#endif
