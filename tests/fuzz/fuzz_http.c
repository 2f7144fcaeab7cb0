/* Heads of HTTP and bodies in chunks: what arrives in pieces is judged as what arrives at once, spans
 * lie in the input, and bodies are the same however they are cut. The first byte says how. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/http_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_MAX = 1 << 12 };

static void check_span(fy_span s, const char *p, size_t n)
{
    if (s.ptr != NULL && s.len > 0 && (s.ptr < p || s.ptr + s.len > p + n) &&
        !fy_span_is(s, "/")) /* of a target that is a host alone */
        abort();
}

static ptrdiff_t head(const char *p, size_t n, fy_http_head *h, int *status)
{
    fy_http_refusal r = {0};
    const ptrdiff_t len = fy_http_head_parse(p, n, HEAD_MAX, h, &r);
    *status = len < 0 ? r.status : 0;
    if (len < 0 && (r.status < 400 || r.why == NULL))
        abort();
    return len;
}

static void check_head(const char *p, size_t n, size_t cut)
{
    fy_http_head whole = {0}, part = {0};
    int status, early;
    const ptrdiff_t len = head(p, n, &whole, &status);
    const ptrdiff_t some = head(p, cut < n ? cut : n, &part, &early);
    if (some > 0 && some != len)
        abort();
    if (some < 0 && (len >= 0 || early != status))
        abort();
    if (len <= 0)
        return;
    if ((size_t)len > n || memcmp(p + len - 4, "\r\n\r\n", 4) != 0)
        abort();
    check_span(whole.path, p, n);
    check_span(whole.query, p, n);
    check_span(whole.host, p, n);
    check_span(whole.origin, p, n);
    check_span(whole.authorization, p, n);
    check_span(whole.api_key, p, n);
    check_span(whole.content_type, p, n);
    if (whole.chunked && whole.length > 0)
        abort();
    char out[HEAD_MAX];
    if (whole.path.len <= sizeof out && fy_http_unescape(whole.path, out) > (ptrdiff_t)whole.path.len)
        abort();
    fy_http_query(whole.query, "a");
}

static ptrdiff_t chunks(const char *p, size_t n, size_t step, fy_str *body)
{
    fy_http_chunks c = {0};
    size_t at = 0, have = 0;
    while (have < n && !c.ended) {
        have = n - have > step ? have + step : n;
        for (;;) {
            fy_span data;
            const ptrdiff_t used = fy_http_chunks_take(&c, p + at, have - at, &data);
            if (used < 0)
                return -1;
            if ((size_t)used > have - at)
                abort();
            fy_str_add(body, data.ptr, data.len);
            at += (size_t)used;
            if (used == 0)
                break;
        }
    }
    return c.ended ? (ptrdiff_t)at : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *p = (const char *)data + 1;
    const size_t cut = data[0] + (size_t)1;
    fy_str a = {0}, b = {0};
    size--;
    check_head(p, size, cut);
    const ptrdiff_t whole = chunks(p, size, size + 1, &a), parts = chunks(p, size, cut, &b);
    if (whole != parts || (whole > 0 && (a.len != b.len || memcmp(fy_str_z(&a), fy_str_z(&b), a.len))))
        abort();
    fy_str_release(&a);
    fy_str_release(&b);
    return 0;
}
