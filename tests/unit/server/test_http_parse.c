/* Heads that two readers could take differently are refused, whatever comes after them; what is not
 * whole waits; bodies in chunks come out as they went in, however they fall on reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/http_parse.h"

enum { HEAD_MAX = 32 << 10 };

static ptrdiff_t parse(const char *text, fy_http_head *h, fy_http_refusal *r)
{
    return fy_http_head_parse(text, strlen(text), HEAD_MAX, h, r);
}

#define HOST "Host: a\r\n"
static const struct {
    const char *name, *text;
    int status; /* 0: taken */
} cases[] = {
    {"a plain request", "GET / HTTP/1.1\r\n" HOST "\r\n", 0},
    {"HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", 0},
    {"an absolute target", "GET http://b/x HTTP/1.1\r\n" HOST "\r\n", 0},
    {"an asterisk", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 0},
    {"a method that nobody has", "BREW /pot HTTP/1.1\r\n" HOST "\r\n", 0},
    {"bytes beyond ASCII in a value", "GET / HTTP/1.1\r\n" HOST "X: \xC3\xA4\r\n\r\n", 0},
    {"an empty value", "GET / HTTP/1.1\r\n" HOST "X:\r\n\r\n", 0},
    {"a bare line feed", "GET / HTTP/1.1\n" HOST "\r\n", 400},
    {"a bare line feed later", "GET / HTTP/1.1\r\nHost: a\n\r\n", 400},
    {"a bare carriage return", "GET / HTTP/1.1\rX\r\n" HOST "\r\n", 400},
    {"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
    {"two Hosts", "GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
    {"two different Content-Lengths",
     "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
    {"two equal Content-Lengths",
     "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
    {"a list of Content-Lengths", "POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\n", 400},
    {"a signed Content-Length", "POST / HTTP/1.1\r\n" HOST "Content-Length: +3\r\n\r\n", 400},
    {"a negative Content-Length", "POST / HTTP/1.1\r\n" HOST "Content-Length: -3\r\n\r\n", 400},
    {"a hexadecimal Content-Length", "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x3\r\n\r\n", 400},
    {"an empty Content-Length", "POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400},
    {"a Content-Length beyond 64 bits",
     "POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", 400},
    {"length and coding",
     "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"another coding", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 400},
    {"chunked twice",
     "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
     400},
    {"identity", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n", 400},
    {"chunks in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"a space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
    {"an empty name", "GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", 400},
    {"a name with a space", "GET / HTTP/1.1\r\n" HOST "X Y: z\r\n\r\n", 400},
    {"no colon", "GET / HTTP/1.1\r\n" HOST "XY\r\n\r\n", 400},
    {"a folded line", "GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n", 400},
    {"a folded line first", "GET / HTTP/1.1\r\n X: a\r\n" HOST "\r\n", 400},
    {"a control character", "GET / HTTP/1.1\r\n" HOST "X: a\x01\r\n\r\n", 400},
    {"a delete character", "GET / HTTP/1.1\r\n" HOST "X: a\x7F\r\n\r\n", 400},
    {"two spaces", "GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"a space in the target", "GET /a b HTTP/1.1\r\n" HOST "\r\n", 400},
    {"no version", "GET /\r\n\r\n", 400},
    {"a strange version", "GET / HTTP/1.1x\r\n" HOST "\r\n", 400},
    {"HTTP/2", "GET / HTTP/2.0\r\n" HOST "\r\n", 505},
    {"an empty line first", "\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"no path", "GET x HTTP/1.1\r\n" HOST "\r\n", 400},
    {"a fragment", "GET /#x HTTP/1.1\r\n" HOST "\r\n", 400},
    {"bytes beyond ASCII in the target", "GET /\xC3\xA4 HTTP/1.1\r\n" HOST "\r\n", 400},
    {"a method that is not a token", "G(T / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"another Expect", "GET / HTTP/1.1\r\n" HOST "Expect: soon\r\n\r\n", 400},
    {"two Authorizations",
     "GET / HTTP/1.1\r\n" HOST "Authorization: a\r\nAuthorization: b\r\n\r\n", 400},
};

static void ambiguous_heads_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_http_head h;
        fy_http_refusal r = {0};
        const ptrdiff_t n = parse(cases[i].text, &h, &r);
        const int status = n < 0 ? r.status : 0;
        if (status != cases[i].status || (n > 0) != (cases[i].status == 0))
            fail_msg("%s: status %d, result %td", cases[i].name, status, n);
    }
}

/* The first byte that makes a head wrong is enough; before that, and of good heads, nothing is said. */
static void a_head_is_judged_alike_however_it_comes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t n = strlen(cases[i].text);
        ptrdiff_t got = 0;
        fy_http_head h;
        fy_http_refusal r = {0};
        for (size_t k = 0; k <= n && got == 0; k++)
            got = fy_http_head_parse(cases[i].text, k, HEAD_MAX, &h, &r);
        if (cases[i].status == 0)
            assert_int_equal(got, n);
        else if (got >= 0 || r.status != cases[i].status)
            fail_msg("%s: %td", cases[i].name, got);
    }
}

static void a_nul_is_refused(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n";
    fy_http_head h;
    fy_http_refusal r = {0};
    (void)state;
    assert_int_equal(fy_http_head_parse(text, sizeof text - 1, HEAD_MAX, &h, &r), -1);
    assert_int_equal(r.status, 400);
}

static void limits_hold(void **state)
{
    static char text[64 << 10];
    fy_http_head h;
    fy_http_refusal r = {0};
    (void)state;
    size_t n = (size_t)sprintf(text, "GET /");
    memset(text + n, 'a', 9000);
    strcpy(text + n + 9000, " HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(parse(text, &h, &r), -1);
    assert_int_equal(r.status, 414);
    assert_int_equal(fy_http_head_parse(text, 8800, HEAD_MAX, &h, &r), -1); /* no line yet */
    assert_int_equal(r.status, 414);
    n = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
    memset(text + n, 'a', 40000);
    strcpy(text + n + 40000, "\r\n\r\n");
    assert_int_equal(parse(text, &h, &r), -1);
    assert_int_equal(r.status, 431);
    n = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 99; i++)
        n += (size_t)sprintf(text + n, "X: a\r\n");
    strcpy(text + n, "\r\n");
    assert_true(parse(text, &h, &r) > 0);
    strcpy(text + n, "X: a\r\n\r\n");
    assert_int_equal(parse(text, &h, &r), -1);
    assert_int_equal(r.status, 431);
}

static void members_are_found(void **state)
{
    fy_http_head h;
    fy_http_refusal r = {0};
    (void)state;
    assert_true(parse("POST /v1/x?a=1&b=%20 HTTP/1.1\r\nhOsT:  h:1 \r\nContent-Length: 12\r\n"
                      "Connection: keep-alive, Close\r\nExpect: 100-Continue\r\nX-API-Key: k\r\n"
                      "Origin: http://o\r\nAuthorization: Bearer z\r\nContent-Type: t\r\n\r\nbody",
                      &h, &r) > 0);
    assert_int_equal(h.method, FY_HTTP_POST);
    assert_true(fy_span_is(h.path, "/v1/x") && fy_span_is(h.host, "h:1"));
    assert_true(h.length == 12 && !h.chunked && !h.keep_alive && h.expects_continue);
    assert_true(fy_span_is(h.api_key, "k") && fy_span_is(h.origin, "http://o") &&
                fy_span_is(h.authorization, "Bearer z") && fy_span_is(h.content_type, "t"));
    assert_true(fy_span_is(fy_http_query(h.query, "b"), "%20"));
    assert_null(fy_http_query(h.query, "c").ptr);
    assert_true(parse("GET http://other:9/y HTTP/1.1\r\nHost: h\r\n\r\n", &h, &r) > 0);
    assert_true(fy_span_is(h.host, "other:9") && fy_span_is(h.path, "/y") && h.keep_alive);
    assert_true(parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &h, &r) > 0);
    assert_true(h.keep_alive && h.minor == 0);
}

static void targets_are_unescaped(void **state)
{
    char out[16];
    (void)state;
    assert_int_equal(fy_http_unescape(fy_span_of("a%2Fb%41"), out), 4);
    assert_memory_equal(out, "a/bA", 4);
    assert_int_equal(fy_http_unescape(fy_span_of("a%"), out), -1);
    assert_int_equal(fy_http_unescape(fy_span_of("%4"), out), -1);
    assert_int_equal(fy_http_unescape(fy_span_of("%zz"), out), -1);
    assert_int_equal(fy_http_unescape(fy_span_of("%00"), out), -1);
}

/* Reads `text` in pieces of k bytes. -1: refused; else the bytes used, and the body in *out. */
static ptrdiff_t read_chunks(const char *text, size_t n, size_t k, fy_str *out, bool *ended)
{
    fy_http_chunks c = {0};
    size_t at = 0, have = 0;
    fy_str_clear(out);
    while (at < n && !c.ended) {
        have = have + k < n ? have + k : n;
        for (;;) {
            fy_span data;
            const ptrdiff_t used = fy_http_chunks_take(&c, text + at, have - at, &data);
            if (used < 0)
                return -1;
            fy_str_add(out, data.ptr, data.len);
            at += (size_t)used;
            if (used == 0)
                break;
        }
        if (have == n)
            break;
    }
    *ended = c.ended;
    return (ptrdiff_t)at;
}

static void chunks_come_out_as_they_went_in(void **state)
{
    static const char good[] = "5\r\nhello\r\n1;x=\"y\"\r\n \r\n00006\r\nworld!\r\n0\r\nT: r\r\n\r\nGET";
    static const char *const bad[] = {"\r\n",         "x\r\n",        "5\nhello",  "5\r\nhello!\r\n",
                                      "1 \r\na\r\n", "-1\r\n",       "5\r\nhelloX", "0\r\nT\n\r\n",
                                      "1111111111111\r\n", "0\r\n\rX"};
    fy_str out = {0};
    bool ended;
    (void)state;
    for (size_t k = 1; k < sizeof good; k++) {
        const ptrdiff_t n = read_chunks(good, sizeof good - 1, k, &out, &ended);
        assert_int_equal(n, sizeof good - 1 - 3);
        assert_true(ended);
        assert_string_equal(out.ptr, "hello world!");
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (read_chunks(bad[i], strlen(bad[i]), 1, &out, &ended) >= 0)
            fail_msg("taken: %s", bad[i]);
    }
    assert_true(read_chunks(good, 20, 3, &out, &ended) >= 0);
    assert_false(ended);
    fy_str_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ambiguous_heads_are_refused),
        cmocka_unit_test(a_head_is_judged_alike_however_it_comes),
        cmocka_unit_test(a_nul_is_refused),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(members_are_found),
        cmocka_unit_test(targets_are_unescaped),
        cmocka_unit_test(chunks_come_out_as_they_went_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
