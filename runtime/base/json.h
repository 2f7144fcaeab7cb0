/* Streaming JSON reader for large or untrusted text (RFC 8259, strict): valid UTF-8 only, no BOM,
 * no comments, nothing after the document but white space, duplicate keys of an object refused,
 * nesting at most FY_JSON_DEPTH, NUL-safe strings. Memory: the keys of the open objects; values are
 * read in place.
 *
 * Pull style, one value at a time. The caller states what it expects; anything else is FY_EFORMAT
 * with line, column, what was found and what was expected:
 *
 *     fy_span key;
 *     if (fy_json_object_begin(j, e)) ...
 *     while ((rc = fy_json_object_next(j, &key, e)) == 1)
 *         if (fy_span_is(key, "dtype")) fy_json_string(j, &s, e) ... else fy_json_skip(j, e);
 *
 * Exactly one value must be consumed (or skipped) after each *_next that returned 1. */
#ifndef FY_BASE_JSON_H
#define FY_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define FY_JSON_DEPTH 64

typedef struct fy_json fy_json;

typedef enum {
    FY_JSON_BAD = 0, /* end of input or a byte that starts no value */
    FY_JSON_OBJECT,
    FY_JSON_ARRAY,
    FY_JSON_STRING,
    FY_JSON_NUMBER,
    FY_JSON_TRUE,
    FY_JSON_FALSE,
    FY_JSON_NULL,
} fy_json_kind;

/* Reader over p[0..n), which must outlive it. NULL when out of memory. */
fy_json *fy_json_new(const void *p, size_t n, fy_err *e);
void fy_json_free(fy_json *j); /* NULL is fine */

fy_json_kind
fy_json_peek(fy_json *j); /* kind of the value that comes next; consumes nothing but white space */

int fy_json_object_begin(fy_json *j, fy_err *e);
/* The same without the check for second keys, for a large object whose keys the caller collects
 * and checks. */
int fy_json_object_begin_unchecked(fy_json *j, fy_err *e);
/* 1: *key is set (view, valid until the next call on j) and its value comes next; 0: the object has
 * ended; -1. */
int fy_json_object_next(fy_json *j, fy_span *key, fy_err *e);

int fy_json_array_begin(fy_json *j, fy_err *e);
int fy_json_array_next(fy_json *j, fy_err *e); /* 1: a value comes next; 0: ended; -1 */

/* Scalars. A string is decoded (escapes resolved, surrogate pairs joined, lone surrogates refused);
 * the view points into the input when the text has no escapes (*in_input, may be NULL, is then
 * true: it lives as long as the input), else into scratch that the next call on j overwrites. */
int fy_json_string(fy_json *j, fy_span *out, bool *in_input, fy_err *e);
int fy_json_u64(fy_json *j, uint64_t *out,
                fy_err *e); /* digits only: no sign, fraction or exponent */
int fy_json_i64(fy_json *j, int64_t *out, fy_err *e);
/* A whole number of min..max; messages begin with the key. */
int fy_json_i64_in(fy_json *j, const char *key, int64_t min, int64_t max, int64_t *out, fy_err *e);
int fy_json_double(fy_json *j, double *out, fy_err *e);
/* A number of either kind: 1, an integer that fits *i; 0, any other, in *d; -1. */
int fy_json_number(fy_json *j, int64_t *i, double *d, fy_err *e);
int fy_json_bool(fy_json *j, bool *out, fy_err *e);
int fy_json_null(fy_json *j, fy_err *e);

int fy_json_skip(fy_json *j,
                 fy_err *e); /* one value of any kind, checked as strictly as if it were read */
int fy_json_end(fy_json *j, fy_err *e); /* the document is complete */

/* Position of the next byte. A caller can remember where a value began and read it again with
 * fy_json_new(p + off, ...). */
size_t fy_json_offset(fy_json *j);

/* Writing: appends text as a JSON string with its quotes. Control characters, quotes and
 * backslashes are escaped, the rest stays UTF-8; a byte that belongs to no character becomes
 * U+FFFD. */
void fy_json_put_string(fy_str *out, fy_span text);

#endif
