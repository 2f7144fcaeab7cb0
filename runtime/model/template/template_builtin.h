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
bool fy_tu_is_alpha(uint32_t cp);
bool fy_tu_is_digit(uint32_t cp);
bool fy_tu_is_alnum(uint32_t cp);
bool fy_tu_is_printable(uint32_t cp);
/* Has letters with case, and all of them in one case. */
bool fy_tu_all_cased(fy_span s, bool upper);
/* Bytes of the line end that s begins with (str.splitlines' set), else 0. */
size_t fy_tu_line_end(fy_span s);

typedef enum { FY_TU_UPPER, FY_TU_LOWER, FY_TU_CAPITALIZE, FY_TU_TITLE } fy_tu_case;
int fy_tu_put_case(fy_tm *m, fy_tbuf *b, fy_span s, fy_tu_case to); /* appends */

enum { FY_TU_STRIP_LEFT = 1, FY_TU_STRIP_RIGHT = 2, FY_TU_STRIP_BOTH = 3 };
/* Without the code points of `chars` (NULL: white space) at its ends. */
int fy_tu_strip(fy_tm *m, fy_span s, const fy_span *chars, int ends, fy_span *out);
/* Byte where `needle` begins in s, -1 when it does not occur. */
ptrdiff_t fy_tu_find(fy_span s, fy_span needle);
/* Appends s with the first `max` (< 0: all) occurrences of `old` replaced. */
int fy_tu_replace(fy_tm *m, fy_tbuf *b, fy_span s, fy_span old, fy_span with, int64_t max);
/* Appends `pattern` n times; the size is checked before. */
int fy_tu_repeat(fy_tm *m, fy_tbuf *b, fy_span pattern, uint64_t n);
/* Appends s with the characters of HTML replaced, as markupsafe does. */
int fy_tu_put_escaped(fy_tm *m, fy_tbuf *b, fy_span s);

/* --- arguments (template_functions.c) --- */

/* Binds arguments as Python does. `signature` is the function's name and its parameters, optional
 * ones with '?': "replace old new ?count". out[i] is parameter i; one that was not given is
 * undefined, and fy_targ_given is false. */
int fy_targs_bind(fy_tm *m, const char *signature, const fy_targs *a, fy_tv *out);
bool fy_targ_given(const fy_tv *v);                               /* also false for none */
int fy_targs_none(fy_tm *m, const char *what, const fy_targs *a); /* takes no arguments */
/* Positional arguments only, at least `min` and at most `max`. */
int fy_targs_count(fy_tm *m, const char *what, const fy_targs *a, size_t min, size_t max);

bool fy_tv_is_int(const fy_tv *v); /* int or bool that fits 64 bits */
int64_t fy_tv_as_int(const fy_tv *v);
/* An int where Python takes one as an index or count; error for other types. */
int fy_tv_index(fy_tm *m, const fy_tv *v, int64_t *out);
bool fy_tv_as_float(const fy_tv *v, double *out); /* int, bool or float */
/* A string argument of `what`; error for other types. */
int fy_tv_text(fy_tm *m, const char *what, const fy_tv *v, fy_span *out);
/* v itself if it is a string (markup kept), else str(v). */
int fy_tv_soft_str(fy_tm *m, const fy_tv *v, fy_tv *out);
fy_tv fy_tbuf_value(const fy_tbuf *b, bool markup); /* what was built, as a string */
/* An undefined value; using it fails with `text`, which outlives the machine. */
fy_tv fy_tv_hint(const char *text);
/* The same with "<what> '<name>' is not supported". 1, or -1 without memory. */
int fy_tv_unsupported(fy_tm *m, const char *what, fy_span name, fy_tv *out);
int fy_tv_pair(fy_tm *m, fy_tv a, fy_tv b, fy_tv *out); /* the tuple (a, b) */

/* --- formatting (template_format.c) --- */

/* format % args: args is a tuple, a dict or a single value. */
int fy_tv_percent(fy_tm *m, const fy_tv *format, const fy_tv *args, fy_tv *out);
/* format.format(args): "{}", "{0}", "{name}". */
int fy_tv_format(fy_tm *m, fy_span format, const fy_targs *a, fy_tv *out);

/* --- tables --- */

extern const fy_tfilter fy_tfilters_list[]; /* of sequences; a NULL name ends it */
#define FILTER(name)                                                                \
    int name(fy_tm *m, const fy_tfilter *f __attribute__((unused)), const fy_tv *v, \
             const fy_targs *a, fy_tv *out)
FILTER(fy_tfilter_tojson);
/* Known to jinja2 and refused here: "urlize". */
bool fy_tfilter_is_refused(fy_span name);
bool fy_ttest_is_refused(fy_span name);

/* The positions 0 .. keys->n - 1 in the stable order of their keys, on the machine's heap. NULL:
 * error. */
typedef int fy_tcompare(fy_tm *m, const fy_tv *a, const fy_tv *b, int *order);
size_t *fy_tlist_order(fy_tm *m, const fy_tlist *keys, bool reverse, fy_tcompare *compare);

#endif
