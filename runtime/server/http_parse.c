/* Reads the head of a request and bodies in chunks. One pass over the bytes; nothing is copied. */
#include "server/http_parse.h"

#include <string.h>
#include <strings.h>

static ptrdiff_t refuse(fy_http_refusal *r, int status, const char *why)
{
    *r = (fy_http_refusal){status, why};
    return -1;
}

static bool is_token_char(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(fy_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_token_char((unsigned char)s.ptr[i]))
            return false;
    }
    return s.len > 0;
}

static bool same_word(fy_span s, const char *word)
{
    return s.len == strlen(word) && strncasecmp(s.ptr, word, s.len) == 0;
}

static fy_span trimmed(fy_span s)
{
    while (s.len > 0 && (*s.ptr == ' ' || *s.ptr == '\t')) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* Is the word in a list of words with commas between them? */
static bool list_has(fy_span list, const char *word)
{
    while (list.len > 0) {
        const char *comma = memchr(list.ptr, ',', list.len);
        size_t n = comma != NULL ? (size_t)(comma - list.ptr) : list.len;
        if (same_word(trimmed((fy_span){list.ptr, n}), word))
            return true;
        n += comma != NULL;
        list.ptr += n;
        list.len -= n;
    }
    return false;
}

/* The end of the line that begins at p, its CRLF excluded; NULL: not whole, or *refusal is set. */
static const char *line_end(const char *p, size_t n, fy_http_refusal *r)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        if (c == '\r') {
            if (i + 1 == n)
                return NULL;
            if (p[i + 1] == '\n')
                return p + i;
            refuse(r, 400, "a carriage return without a line feed");
            return NULL;
        }
        if (c == '\n') {
            refuse(r, 400, "a line feed without a carriage return");
            return NULL;
        }
        if ((c < 0x20 && c != '\t') || c == 0x7F) {
            refuse(r, 400, "a control character in the head");
            return NULL;
        }
    }
    return NULL;
}

static unsigned method_of(fy_span s)
{
    static const struct {
        const char *name;
        fy_http_method method;
    } known[] = {{"GET", FY_HTTP_GET},
                 {"HEAD", FY_HTTP_HEAD},
                 {"POST", FY_HTTP_POST},
                 {"OPTIONS", FY_HTTP_OPTIONS}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (fy_span_is(s, known[i].name))
            return known[i].method;
    }
    return 0;
}

/* "/path?query", "http://host/path", or "*". */
static ptrdiff_t take_target(fy_span s, fy_http_head *h, fy_http_refusal *r)
{
    if (s.len > FY_HTTP_TARGET_MAX)
        return refuse(r, 414, "the request's target is longer than 8 KB");
    for (size_t i = 0; i < s.len; i++) {
        const unsigned char c = (unsigned char)s.ptr[i];
        if (c <= 0x20 || c >= 0x7F || c == '#')
            return refuse(r, 400, "a character in the request's target that has to be escaped");
    }
    if (s.len > 7 && strncasecmp(s.ptr, "http://", 7) == 0) {
        const char *host = s.ptr + 7, *end = s.ptr + s.len;
        const char *slash = memchr(host, '/', (size_t)(end - host));
        h->host = (fy_span){host, (size_t)((slash != NULL ? slash : end) - host)};
        s = slash != NULL ? (fy_span){slash, (size_t)(end - slash)} : FY_SPAN("/");
    }
    if (!fy_span_is(s, "*") && (s.len == 0 || *s.ptr != '/'))
        return refuse(r, 400, "the request's target is not a path");
    const char *mark = memchr(s.ptr, '?', s.len);
    h->path = (fy_span){s.ptr, mark != NULL ? (size_t)(mark - s.ptr) : s.len};
    if (mark != NULL)
        h->query = (fy_span){mark + 1, s.len - h->path.len - 1};
    return 0;
}

static ptrdiff_t take_request_line(fy_span line, fy_http_head *h, fy_http_refusal *r)
{
    const char *a = memchr(line.ptr, ' ', line.len);
    const char *b = a != NULL ? memchr(a + 1, ' ', line.len - (size_t)(a + 1 - line.ptr)) : NULL;
    if (b == NULL)
        return refuse(r, 400, "the request line is not METHOD TARGET VERSION");
    const fy_span method = {line.ptr, (size_t)(a - line.ptr)};
    const fy_span target = {a + 1, (size_t)(b - a - 1)};
    const fy_span version = {b + 1, line.len - (size_t)(b + 1 - line.ptr)};
    if (!is_token(method))
        return refuse(r, 400, "the request's method is not a token");
    if (version.len != 8 || memcmp(version.ptr, "HTTP/", 5) != 0 || version.ptr[6] != '.' ||
        version.ptr[5] < '0' || version.ptr[5] > '9' || version.ptr[7] < '0' || version.ptr[7] > '9')
        return refuse(r, 400, "the request line does not end with a version of HTTP");
    if (version.ptr[5] != '1')
        return refuse(r, 505, "a version of HTTP other than 1.0 and 1.1");
    h->minor = version.ptr[7] == '0' ? 0 : 1;
    h->keep_alive = h->minor > 0;
    h->method = method_of(method);
    return take_target(target, h, r);
}

typedef struct {
    bool has_length, has_coding, has_host;
    bool closes, keeps;
} seen;

static ptrdiff_t take_length(fy_span v, fy_http_head *h, seen *s, fy_http_refusal *r)
{
    if (s->has_length)
        return refuse(r, 400, "more than one Content-Length");
    s->has_length = true;
    if (v.len == 0 || v.len > 18)
        return refuse(r, 400, "a Content-Length that is not a number of at most 18 digits");
    for (size_t i = 0; i < v.len; i++) {
        if (v.ptr[i] < '0' || v.ptr[i] > '9')
            return refuse(r, 400, "a Content-Length that is not a number of at most 18 digits");
        h->length = h->length * 10 + (uint64_t)(v.ptr[i] - '0');
    }
    return 0;
}

static ptrdiff_t take_once(fy_span *to, fy_span v, const char *why, fy_http_refusal *r)
{
    if (to->ptr != NULL)
        return refuse(r, 400, why);
    *to = v;
    return 0;
}

static ptrdiff_t take_field(fy_span name, fy_span v, fy_http_head *h, seen *s, fy_http_refusal *r)
{
    if (same_word(name, "content-length"))
        return take_length(v, h, s, r);
    if (same_word(name, "transfer-encoding")) {
        if (s->has_coding || !same_word(v, "chunked"))
            return refuse(r, 400, "a Transfer-Encoding other than chunked");
        s->has_coding = h->chunked = true;
    } else if (same_word(name, "host")) {
        if (s->has_host)
            return refuse(r, 400, "more than one Host");
        s->has_host = true;
        if (h->host.ptr == NULL) /* a target with a host counts more */
            h->host = v;
    } else if (same_word(name, "connection")) {
        s->closes |= list_has(v, "close");
        s->keeps |= list_has(v, "keep-alive");
    } else if (same_word(name, "expect")) {
        if (!same_word(v, "100-continue"))
            return refuse(r, 400, "an Expect other than 100-continue");
        h->expects_continue = true;
    } else if (same_word(name, "origin")) {
        return take_once(&h->origin, v, "more than one Origin", r);
    } else if (same_word(name, "authorization")) {
        return take_once(&h->authorization, v, "more than one Authorization", r);
    } else if (same_word(name, "x-api-key")) {
        return take_once(&h->api_key, v, "more than one x-api-key", r);
    } else if (same_word(name, "content-type")) {
        return take_once(&h->content_type, v, "more than one Content-Type", r);
    }
    return 0;
}

static ptrdiff_t take_line(fy_span line, fy_http_head *h, seen *s, fy_http_refusal *r)
{
    if (*line.ptr == ' ' || *line.ptr == '\t')
        return refuse(r, 400, "a folded line in the head");
    const char *colon = memchr(line.ptr, ':', line.len);
    if (colon == NULL)
        return refuse(r, 400, "a line of the head without a colon");
    const fy_span name = {line.ptr, (size_t)(colon - line.ptr)};
    if (!is_token(name))
        return refuse(r, 400, "a name in the head that is not a token");
    return take_field(name, trimmed((fy_span){colon + 1, line.len - name.len - 1}), h, s, r);
}

static ptrdiff_t check_whole(fy_http_head *h, const seen *s, fy_http_refusal *r)
{
    if (h->minor > 0 && !s->has_host)
        return refuse(r, 400, "no Host");
    if (s->has_length && s->has_coding)
        return refuse(r, 400, "both Content-Length and Transfer-Encoding");
    if (h->minor == 0 && s->has_coding)
        return refuse(r, 400, "a Transfer-Encoding in a request of HTTP/1.0");
    h->keep_alive = (h->minor > 0 || s->keeps) && !s->closes;
    h->expects_continue &= h->minor > 0;
    return 0;
}

ptrdiff_t fy_http_head_parse(const char *p, size_t n, size_t max, fy_http_head *out,
                             fy_http_refusal *refusal)
{
    const size_t looked_at = n < max ? n : max;
    fy_http_head h = {0};
    seen s = {0};
    size_t at = 0, n_fields = 0;
    refusal->status = 0;
    for (bool first = true;; first = false) {
        const char *end = line_end(p + at, looked_at - at, refusal);
        if (end == NULL && refusal->status != 0)
            return -1;
        if (end == NULL && first && looked_at > FY_HTTP_TARGET_MAX + 64)
            return refuse(refusal, 414, "the request's target is longer than 8 KB");
        if (end == NULL)
            return n < max ? 0 : refuse(refusal, 431, "the head is too long (--max-head)");
        const fy_span line = {p + at, (size_t)(end - p) - at};
        at += line.len + 2;
        if (first) {
            if (take_request_line(line, &h, refusal) != 0)
                return -1;
            continue;
        }
        if (line.len == 0)
            break;
        if (++n_fields > FY_HTTP_FIELDS_MAX)
            return refuse(refusal, 431, "more than 100 fields in the head");
        if (take_line(line, &h, &s, refusal) != 0)
            return -1;
    }
    if (check_whole(&h, &s, refusal) != 0)
        return -1;
    *out = h;
    return (ptrdiff_t)at;
}

/* --- chunks ----------------------------------------------------------------------------------- */

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LF };
enum { TRAILER_MAX = 8 << 10, EXTENSION_MAX = 256 };

/* One byte that is not data; false: not chunks. */
static bool take_byte(fy_http_chunks *c, char ch)
{
    const int digit = fy_hex_digit(ch);
    switch (c->state) {
    case SIZE:
        if (digit >= 0) {
            c->left = c->left * 16 + (uint64_t)digit;
            return ++c->n_digits <= 12;
        }
        c->line = 0;
        c->state = ch == ';' ? EXTENSION : SIZE_LF;
        return c->n_digits > 0 && (ch == ';' || ch == '\r');
    case EXTENSION:
        if (ch == '\r')
            c->state = SIZE_LF;
        return ch == '\r' || ((unsigned char)ch >= 0x20 && ++c->line <= EXTENSION_MAX);
    case SIZE_LF:
        c->state = c->left > 0 ? DATA : TRAILER;
        c->line = 0;
        return ch == '\n';
    case DATA_CR:
        c->state = DATA_LF;
        return ch == '\r';
    case DATA_LF:
        c->state = SIZE;
        c->n_digits = 0;
        return ch == '\n';
    case TRAILER:
        if (ch == '\r')
            c->state = TRAILER_LF;
        else
            c->line++;
        return ++c->trailer <= TRAILER_MAX &&
               (ch == '\r' || ch == '\t' || (unsigned char)ch >= 0x20);
    default:
        c->ended = c->line == 0;
        c->line = 0;
        c->state = TRAILER;
        return ch == '\n';
    }
}

ptrdiff_t fy_http_chunks_take(fy_http_chunks *c, const char *p, size_t n, fy_span *data)
{
    size_t i = 0;
    *data = (fy_span){0};
    while (i < n && !c->ended) {
        if (c->state == DATA) {
            const size_t more = n - i < c->left ? n - i : (size_t)c->left;
            *data = (fy_span){p + i, more};
            c->left -= more;
            if (c->left == 0)
                c->state = DATA_CR;
            return (ptrdiff_t)(i + more);
        }
        if (!take_byte(c, p[i]))
            return -1;
        i++;
    }
    return (ptrdiff_t)i;
}

/* --- targets ---------------------------------------------------------------------------------- */

ptrdiff_t fy_http_unescape(fy_span in, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < in.len; i++) {
        char c = in.ptr[i];
        if (c == '%') {
            const int a = in.len - i > 2 ? fy_hex_digit(in.ptr[i + 1]) : -1;
            const int b = a >= 0 ? fy_hex_digit(in.ptr[i + 2]) : -1;
            if (b < 0)
                return -1;
            c = (char)(a << 4 | b);
            i += 2;
        }
        if (c == '\0')
            return -1;
        out[n++] = c;
    }
    return (ptrdiff_t)n;
}

fy_span fy_http_query(fy_span query, const char *name)
{
    while (query.len > 0) {
        const char *and = memchr(query.ptr, '&', query.len);
        const size_t n = and != NULL ? (size_t)(and - query.ptr) : query.len;
        const char *is = memchr(query.ptr, '=', n);
        const size_t key = is != NULL ? (size_t)(is - query.ptr) : n;
        if (fy_span_is((fy_span){query.ptr, key}, name))
            return is != NULL ? (fy_span){is + 1, n - key - 1} : FY_SPAN("");
        query.ptr += n + (and != NULL);
        query.len -= n + (and != NULL);
    }
    return (fy_span){0};
}
