/* What the builtins of the template language share: Unicode as Python's str sees it, conversion of
 * arguments, Python's two formatting languages. Not for use outside runtime/model/template.
 *
 * Strings are UTF-8; a byte that is not part of valid UTF-8 counts as one code point of no category
 * and is copied as it is. */
#ifndef FY_TEMPLATE_BUILTIN_H
#define FY_TEMPLATE_BUILTIN_H

#include "model/template/template_value.h"

/* --- Unicode (template_unicode.c) --------------------------------------------------------------
 */

/* The code point at *p (< end), which moves behind it; an invalid byte is 0x80000000 | byte. */
uint32_t fy_tu_next(const char **p, const char *end);
/* The code point that ends at *p (> begin), which moves before it. */
uint32_t fy_tu_prev(const char *begin, const char **p);
size_t fy_tu_put(char out[4], uint32_t cp); /* bytes written; takes what fy_tu_next gives */
size_t fy_tu_length(fy_span s);             /* code points */
const char *fy_tu_at(fy_span s,
                     size_t i); /* where code point i begins; the end when there is none */
/* s[start:stop] of 0 <= start, stop in code points. */
fy_span fy_tu_slice(fy_span s, size_t start, size_t stop);

bool fy_tu_is_space(uint32_t cp);
bool fy_tu_is_alpha(uint32_t cp);
bool fy_tu_is_decimal(uint32_t cp);
bool fy_tu_is_digit(uint32_t cp);
bool fy_tu_is_numeric(uint32_t cp);
bool fy_tu_is_word(uint32_t cp); /* \w */
bool fy_tu_is_lower(uint32_t cp);
bool fy_tu_is_upper(uint32_t cp);
bool fy_tu_is_title(uint32_t cp);
bool fy_tu_is_printable(uint32_t cp);
int fy_tu_decimal_value(uint32_t cp); /* 0..9 of a decimal digit of any script, else -1 */
/* Bytes of the line end that s begins with (str.splitlines' set), else 0. */
size_t fy_tu_line_end(fy_span s);

typedef enum {
    FY_TU_UPPER,
    FY_TU_LOWER,
    FY_TU_FOLD,
    FY_TU_CAPITALIZE,
    FY_TU_TITLE,
    FY_TU_SWAP,
} fy_tu_case;
/* Appends s in another case, by Python's full mappings. */
int fy_tu_put_case(fy_tm *m, fy_tbuf *b, fy_span s, fy_tu_case how);

enum { FY_TU_STRIP_LEFT = 1, FY_TU_STRIP_RIGHT = 2 };
/* Without the code points of `chars` (NULL: white space) at its ends. */
int fy_tu_strip(fy_tm *m, fy_span s, const fy_span *chars, int ends, fy_span *out);
/* Where `needle` begins in s, -1 when it does not. */
ptrdiff_t fy_tu_find(fy_span s, fy_span needle);
/* Appends s with the first `max` (< 0: all) occurrences of `old` replaced. */
int fy_tu_replace(fy_tm *m, fy_tbuf *b, fy_span s, fy_span old, fy_span with, int64_t max);
/* Appends `pattern` n times; the size is checked before. */
int fy_tu_repeat(fy_tm *m, fy_tbuf *b, fy_span pattern, uint64_t n);
/* Appends s between `left` and `right` times the code point `fill`. */
int fy_tu_pad(fy_tm *m, fy_tbuf *b, fy_span s, uint64_t left, uint64_t right, fy_span fill);
/* Appends s in the middle of `width` code points, as str.center does. */
int fy_tu_center(fy_tm *m, fy_tbuf *b, fy_span s, int64_t width, fy_span fill);
/* Appends s with the characters of HTML replaced, as markupsafe does. */
int fy_tu_put_escaped(fy_tm *m, fy_tbuf *b, fy_span s);

/* --- values and arguments (template_args.c) --------------------------------------------------- */

fy_tv fy_tbuf_value(const fy_tbuf *b, bool markup); /* what was built, as a string */
bool fy_tv_is(const fy_tv *v, fy_tv_kind kind);
bool fy_tv_is_int(const fy_tv *v); /* int or bool that fits 64 bits */
int64_t fy_tv_as_int(const fy_tv *v);
/* An int where Python takes one as an index or count; error for other types. */
int fy_tv_index(fy_tm *m, const fy_tv *v, int64_t *out);
/* int, bool or float as a double. */
bool fy_tv_as_float(const fy_tv *v, double *out);
/* A string argument of `what`; error for other types. */
int fy_tv_text(fy_tm *m, const char *what, const fy_tv *v, fy_span *out);
/* v itself when it is a string (markup kept), else str(v). */
int fy_tv_soft_str(fy_tm *m, const fy_tv *v, fy_tv *out);
/* An undefined whose error is `text` itself, which outlives the machine. */
fy_tv fy_tv_hint(const char *text);
int fy_targs_none(fy_tm *m, const char *what, const fy_targs *a); /* takes no arguments */
/* Positional arguments only, at least `min` and at most `max`. */
int fy_targs_count(fy_tm *m, const char *what, const fy_targs *a, size_t min, size_t max);

/* int(text, base) and float(text): 1, 0 when the text is no number, -1. */
int fy_tv_parse_int(fy_tm *m, fy_span s, int64_t base, fy_tv *out);
int fy_tv_parse_float(fy_tm *m, fy_span s, double *out);
int fy_tv_int_of_float(fy_tm *m, double f, fy_tv *out); /* truncates; f is finite */

/* --- formatting (template_percent.c, template_format.c, template_spec.c) ------------------------
 */

/* How one value is to be written: what Python's format specification and % conversions share. */
typedef struct {
    fy_span fill;      /* one code point */
    char align;        /* '<', '>', '^', '=' (behind the sign) */
    char sign;         /* '-': only of negative numbers; '+', ' ' */
    char grouping;     /* 0, ',' or '_' */
    char type;         /* d b o x X c, e f g % and upper case, s; 0: as str does */
    bool alternate;    /* # */
    int64_t width;     /* code points; 0: none */
    int64_t precision; /* -1: none */
} fy_tspec;
int fy_tspec_put_text(fy_tm *m, fy_tbuf *b, const fy_tspec *spec, fy_span s);
/* An int in a type of d b o x X c; precision is its least number of digits. */
int fy_tspec_put_int(fy_tm *m, fy_tbuf *b, const fy_tspec *spec, const fy_tv *v);
/* A double in a type of e f g % or 0. */
int fy_tspec_put_float(fy_tm *m, fy_tbuf *b, const fy_tspec *spec, double f);

/* format % args: args is a tuple, a mapping or a single value; escapes when format is markup. */
int fy_tv_percent(fy_tm *m, const fy_tv *format, const fy_tv *args, fy_tv *out);
/* format.format(args). */
int fy_tv_format(fy_tm *m, const fy_tv *format, const fy_targs *a, fy_tv *out);
/* Appends repr(v) without characters beyond ASCII. */
int fy_tv_put_ascii(fy_tm *m, fy_tbuf *b, const fy_tv *v);
/* Appends the `n` digits of d.ddd * 10**exponent as Python writes a float; with an exponent when
 * that is below -4 or at least `max_exponent`. Trailing zeros are dropped, but not in the alternate
 * form, which always has its point. */
void fy_float_layout(const char *digits, int n, int exponent, int max_exponent, bool alternate,
                     char *out);
/* fy_float_repr, also in the alternate form. */
void fy_float_shortest(double f, bool alternate, char out[32]);
/* Cased, and all of it in one case. */
bool fy_tu_all_cased(fy_span s, bool upper);
/* strip_tags() of markupsafe, a plain string. */
int fy_tv_striptags(fy_tm *m, fy_span s, fy_tv *out);

/* Appends the machine's clock as strftime shows it in the C locale (template_strftime.c). */
int fy_tv_put_time(fy_tm *m, fy_tbuf *b, fy_span format);

/* --- methods ------------------------------------------------------------------------------------
 */

typedef struct {
    const char *name; /* NULL ends a table */
    uint8_t min, max; /* positional arguments; FY_TMETHOD_OWN: the method binds its own */
    int (*run)(fy_tm *m, const fy_tv *self, const fy_targs *a, fy_tv *out);
} fy_tmethod;
enum { FY_TMETHOD_OWN = 255 };
extern const fy_tmethod fy_tmethods_form[];   /* of str: case, padding (template_methods_form.c) */
extern const fy_tmethod fy_tmethods_search[]; /* of str: find, split (template_methods_search.c) */

/* --- filters of other files, for the table in template_filters.c -------------------------------
 */

#define FY_TFILTER(name) \
    int fy_tfilter_##name(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
FY_TFILTER(abs);
FY_TFILTER(attr);
FY_TFILTER(batch);
FY_TFILTER(capitalize);
FY_TFILTER(center);
FY_TFILTER(default);
FY_TFILTER(dictsort);
FY_TFILTER(escape);
FY_TFILTER(filesizeformat);
FY_TFILTER(first);
FY_TFILTER(float);
FY_TFILTER(forceescape);
FY_TFILTER(format);
FY_TFILTER(groupby);
FY_TFILTER(indent);
FY_TFILTER(int);
FY_TFILTER(items);
FY_TFILTER(join);
FY_TFILTER(last);
FY_TFILTER(length);
FY_TFILTER(list);
FY_TFILTER(lower);
FY_TFILTER(map);
FY_TFILTER(max);
FY_TFILTER(min);
FY_TFILTER(pprint);
FY_TFILTER(random);
FY_TFILTER(reject);
FY_TFILTER(rejectattr);
FY_TFILTER(replace);
FY_TFILTER(reverse);
FY_TFILTER(round);
FY_TFILTER(safe);
FY_TFILTER(select);
FY_TFILTER(selectattr);
FY_TFILTER(slice);
FY_TFILTER(sort);
FY_TFILTER(string);
FY_TFILTER(striptags);
FY_TFILTER(sum);
FY_TFILTER(title);
FY_TFILTER(tojson);
FY_TFILTER(trim);
FY_TFILTER(truncate);
FY_TFILTER(unique);
FY_TFILTER(upper);
FY_TFILTER(urlencode);
FY_TFILTER(wordcount);
FY_TFILTER(wordwrap);
FY_TFILTER(xmlattr);

/* fy_tv.view of a tuple that groupby made: its items are also called grouper and list. */
enum { FY_TV_GROUP = 'g' };

/* --- attribute paths: 'a.0.b' as sort, map, groupby ... take them (template_filters.c) ---------
 */

typedef struct {
    fy_tv *part;
    size_t n;
} fy_tpath;
int fy_tpath_parse(fy_tm *m, const fy_tv *attribute, fy_tpath *out); /* none: no parts */
/* `missing` (NULL: none) replaces what is undefined on the way. */
int fy_tpath_get(fy_tm *m, const fy_tpath *path, const fy_tv *item, const fy_tv *missing,
                 fy_tv *out);
/* A string in lower case, other values as they are: how filters compare without case. */
int fy_tv_fold_case(fy_tm *m, const fy_tv *v, fy_tv *out);

/* --- sorting (template_filters_sort.c) ----------------------------------------------------------
 */

typedef int fy_tcompare(fy_tm *m, const fy_tv *a, const fy_tv *b, int *order);
/* The items in the stable order of their keys, as a new list. */
int fy_tlist_sort(fy_tm *m, const fy_tlist *items, const fy_tlist *keys, bool reverse,
                  fy_tcompare *compare, fy_tv *out);

#endif
