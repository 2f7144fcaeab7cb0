/* Requests of HTTP/1.1 and 1.0 from bytes: pure, strict, no allocation (RFC 9112).
 *
 * Whatever two readers could take differently is refused: lines that do not end in CRLF, folded
 * lines, spaces before a colon, NUL and control characters, a second Host or Content-Length, both
 * Content-Length and Transfer-Encoding, codings other than chunked, a Content-Length that is not
 * digits alone. Spans are views of the bytes that were given. */
#ifndef FY_SERVER_HTTP_PARSE_H
#define FY_SERVER_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { FY_HTTP_FIELDS_MAX = 100, FY_HTTP_TARGET_MAX = 8 << 10 };

typedef enum { FY_HTTP_GET = 1, FY_HTTP_HEAD = 2, FY_HTTP_POST = 4, FY_HTTP_OPTIONS = 8 } fy_http_method;

typedef struct {
    unsigned method;     /* a fy_http_method; 0: one that no route has */
    fy_span path, query; /* of the target; the query without its '?' */
    int minor;           /* HTTP/1.minor */
    bool keep_alive;     /* the connection may serve another request */
    bool expects_continue, chunked;
    uint64_t length; /* of the body; 0 when it is chunked */
    fy_span host, origin, authorization, api_key, content_type; /* ptr NULL: absent */
} fy_http_head;

typedef struct {
    int status;      /* 400, 414, 431, 505 */
    const char *why; /* static; for people */
} fy_http_refusal;

/* p[0..n): what has arrived. Returns the length of the head, its empty line included; 0: it is not
 * whole yet; -1: *refusal is set, and the connection cannot be used any further. max: most bytes of
 * a head. */
ptrdiff_t fy_http_head_parse(const char *p, size_t n, size_t max, fy_http_head *out,
                             fy_http_refusal *refusal);

/* A body in chunks, read piece by piece. Zero-initialise. */
typedef struct {
    int state;
    int n_digits;
    uint64_t left;      /* of the chunk */
    size_t trailer;     /* bytes of the trailer section so far */
    size_t line;        /* bytes of its current line */
    bool ended;         /* the body is whole */
} fy_http_chunks;

/* Takes p[0..n): returns how many bytes were used, up to the first piece of data, which *data is
 * set to (a view; empty: none); -1: not chunks. Call again with the rest until nothing is used. */
ptrdiff_t fy_http_chunks_take(fy_http_chunks *c, const char *p, size_t n, fy_span *data);

/* Resolves %XX; bytes written, at most in.len; -1: a '%' without two hexadecimal digits, or a NUL. */
ptrdiff_t fy_http_unescape(fy_span in, char *out);
/* The value of `name` in a query, not unescaped; ptr NULL: absent. */
fy_span fy_http_query(fy_span query, const char *name);

#endif
