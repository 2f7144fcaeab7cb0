/* Answers: heads of HTTP, bodies of known length or in chunks, and their way to the network thread. */
#include "server/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/process.h"
#include "server/page.h"
#include "server/routes.h"
#include "server/server.h"

/* --- life ------------------------------------------------------------------------------------- */

fy_exchange *fy_exchange_new(fy_server *s)
{
    fy_exchange *x = calloc(1, sizeof *x);
    if (x == NULL)
        return NULL;
    if (pthread_mutex_init(&x->lock, NULL) != 0) {
        free(x);
        return NULL;
    }
    x->server = s;
    x->begun_s = fy_now_s();
    atomic_init(&x->refs, 1);
    return x;
}

bool fy_asks_compat(const fy_exchange *x)
{
    return fy_span_is(fy_http_query(x->head.query, "compat"), "llama");
}

void fy_exchange_hold(fy_exchange *x)
{
    atomic_fetch_add(&x->refs, 1);
}

void fy_exchange_release(fy_exchange *x)
{
    if (x == NULL || atomic_fetch_sub(&x->refs, 1) > 1)
        return;
    pthread_mutex_destroy(&x->lock);
    fy_str_release(&x->head_bytes);
    fy_str_release(&x->body);
    fy_str_release(&x->out);
    free(x);
}

/* --- heads ------------------------------------------------------------------------------------ */

static const char *reason(int status)
{
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case FY_STATUS_LEFT: return "Client Left";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
    }
}

/* An origin that was let in may read the answer. */
static void put_cors(const fy_exchange *x, fy_str *out)
{
    if (x->head.origin.ptr == NULL || !fy_origin_is_listed(x->server, x->head.origin))
        return;
    fy_str_puts(out, "Access-Control-Allow-Origin: ");
    fy_str_add(out, x->head.origin.ptr, x->head.origin.len);
    fy_str_puts(out, "\r\nVary: Origin\r\n");
    if (x->head.method == FY_HTTP_OPTIONS)
        fy_str_puts(out, "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n"
                         "Access-Control-Allow-Headers: authorization, content-type, x-api-key, "
                         "anthropic-version\r\n"
                         "Access-Control-Max-Age: 600\r\n");
}

static void put_head(fy_exchange *x, int status, const char *type, const fy_api_refusal *r,
                     fy_str *out)
{
    x->status = status;
    fy_str_printf(out, "HTTP/1.1 %d %s\r\nServer: ferry\r\n", status, reason(status));
    if (type != NULL)
        fy_str_printf(out, "Content-Type: %s\r\n", type);
    put_cors(x, out);
    if (x->route != NULL && x->route->is_page)
        fy_str_printf(out,
                      "Content-Security-Policy: %s\r\nX-Content-Type-Options: nosniff\r\n"
                      "Referrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n",
                      fy_server_page.policy);
    if (x->headers != NULL)
        fy_str_puts(out, x->headers);
    if (r != NULL && r->allow != NULL)
        fy_str_printf(out, "Allow: %s\r\n", r->allow);
    if (r != NULL && r->retry_after_s > 0)
        fy_str_printf(out, "Retry-After: %d\r\n", r->retry_after_s);
    if (status == 401)
        fy_str_puts(out, "WWW-Authenticate: Bearer\r\n");
    fy_str_puts(out, x->close_after || !x->head.keep_alive ? "Connection: close\r\n"
                     : x->head.minor == 0                  ? "Connection: keep-alive\r\n"
                                                           : "");
}

/* --- whole answers ---------------------------------------------------------------------------- */

/* Out of memory for an answer: the connection ends without one. */
static void finish(fy_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->ended = true;
    x->close_after |= x->out.oom;
    pthread_mutex_unlock(&x->lock);
    fy_server_answered(x);
}

static void reply(fy_exchange *x, int status, const char *type, const fy_api_refusal *r,
                  fy_span body)
{
    pthread_mutex_lock(&x->lock);
    put_head(x, status, type, r, &x->out);
    if (status != 204)
        fy_str_printf(&x->out, "Content-Length: %zu\r\n", body.len);
    fy_str_puts(&x->out, "\r\n");
    if (x->head.method != FY_HTTP_HEAD)
        fy_str_add(&x->out, body.ptr, body.len);
    pthread_mutex_unlock(&x->lock);
    finish(x);
}

void fy_reply(fy_exchange *x, int status, const char *type, fy_span body)
{
    reply(x, status, type, NULL, body);
}

void fy_reply_json(fy_exchange *x, int status, fy_str *body)
{
    if (body->oom)
        fy_reply_error(x, &(fy_api_refusal){.status = 500}, "out of memory");
    else
        reply(x, status, "application/json; charset=utf-8", NULL, (fy_span){body->ptr, body->len});
    fy_str_release(body);
}

/* --- errors ----------------------------------------------------------------------------------- */

static const char *type_of(int status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "server_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return "invalid_request_error";
    }
}

void fy_put_error(fy_str *out, const fy_api_refusal *r, const char *message)
{
    fy_str_puts(out, "{\"error\":{\"message\":");
    fy_json_put_string(out, fy_span_of(message));
    fy_str_printf(out, ",\"type\":\"%s\",\"code\":%d,\"param\":",
                  r->type != NULL ? r->type : type_of(r->status), r->status);
    if (r->param != NULL)
        fy_json_put_string(out, fy_span_of(r->param));
    else
        fy_str_puts(out, "null");
    if (r->extra.len > 0) {
        fy_str_putc(out, ',');
        fy_str_add(out, r->extra.ptr, r->extra.len);
    }
    fy_str_puts(out, "}}");
}

void fy_reply_error(fy_exchange *x, const fy_api_refusal *r, const char *message)
{
    fy_str body = {0};
    const bool own = x->route != NULL && x->route->put_error != NULL;
    (own ? x->route->put_error : fy_put_error)(&body, r, message);
    reply(x, r->status, "application/json; charset=utf-8", r, (fy_span){fy_str_z(&body), body.len});
    fy_str_release(&body);
}

int fy_error_status(const fy_err *e)
{
    switch (e->code) {
    case FY_EARG:
    case FY_EFORMAT:
    case FY_EFIT:
    case FY_EUNSUPPORTED: return 400;
    case FY_OK:
    case FY_ENOMEM:
    case FY_EIO:
    case FY_EVERIFY:
    case FY_EDEVICE:
    case FY_ENOSPACE:
    case FY_EINTR:
    case FY_ELOST:
    default: return 500;
    }
}

void fy_reply_failure(fy_exchange *x, const char *param, const fy_err *e)
{
    fy_reply_error(x, &(fy_api_refusal){.status = fy_error_status(e), .param = param}, e->msg);
}

/* --- streams ---------------------------------------------------------------------------------- */

void fy_stream_begin(fy_exchange *x, const char *type)
{
    pthread_mutex_lock(&x->lock);
    x->is_events = strcmp(type, FY_SSE_TYPE) == 0;
    x->chunked = x->head.minor > 0;
    x->close_after |= !x->chunked;
    put_head(x, 200, type, NULL, &x->out);
    fy_str_puts(&x->out, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    fy_str_puts(&x->out, x->chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
    pthread_mutex_unlock(&x->lock);
}

void fy_stream_put(fy_exchange *x, fy_span bytes)
{
    if (bytes.len == 0 || atomic_load(&x->gone))
        return;
    pthread_mutex_lock(&x->lock);
    if (x->chunked)
        fy_str_printf(&x->out, "%zx\r\n", bytes.len);
    fy_str_add(&x->out, bytes.ptr, bytes.len);
    if (x->chunked)
        fy_str_puts(&x->out, "\r\n");
    atomic_fetch_add(&x->unsent, bytes.len);
    pthread_mutex_unlock(&x->lock);
    fy_server_put(x);
}

void fy_stream_end(fy_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    if (x->chunked)
        fy_str_puts(&x->out, "0\r\n\r\n");
    pthread_mutex_unlock(&x->lock);
    finish(x);
}

void fy_sse_put(fy_str *out, const char *name, fy_span data)
{
    if (name != NULL)
        fy_str_printf(out, "event: %s\n", name);
    fy_str_puts(out, "data: ");
    fy_str_add(out, data.ptr, data.len);
    fy_str_puts(out, "\n\n");
}
