/* The table of routes, and who may ask: one place for Host, Origin and keys. */
#include "server/routes.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "server/api.h"
#include "server/server.h"

#ifdef FERRY_DEVICE
#define METRICS_AT_ONCE false /* a phone's temperatures take their time */
#else
#define METRICS_AT_ONCE true
#endif

const fy_route fy_routes[] = {
    {"/", FY_HTTP_GET, .is_public = true, .at_once = true, .is_page = true, .handle = fy_handle_page},
    {"/health", FY_HTTP_GET, .v1 = true, .is_public = true, .at_once = true, .handle = fy_handle_health},
    {"/metrics", FY_HTTP_GET, .at_once = METRICS_AT_ONCE, .handle = fy_handle_metrics},
    {"/slots", FY_HTTP_GET, .at_once = true, .handle = fy_handle_slots},
    {"/slots/*", FY_HTTP_POST, .handle = fy_handle_slot},
    {"/props", FY_HTTP_GET, .at_once = true, .handle = fy_handle_props},
    {"/props", FY_HTTP_POST, .handle = fy_handle_props_post},
    {"/models", FY_HTTP_GET, .v1 = true, .at_once = true, .handle = fy_handle_models},
    {"/models/*", FY_HTTP_GET, .v1 = true, .at_once = true, .handle = fy_handle_model},
    {"/tokenize", FY_HTTP_POST, .handle = fy_handle_tokenize},
    {"/detokenize", FY_HTTP_POST, .handle = fy_handle_detokenize},
    {"/apply-template", FY_HTTP_POST, .handle = fy_handle_apply_template},
    {"/infill", FY_HTTP_POST, .handle = fy_handle_infill},
    {"/completion", FY_HTTP_POST, .handle = fy_handle_completion},
    {"/completions", FY_HTTP_POST, .v1 = true, .handle = fy_handle_completions},
    {"/chat/completions", FY_HTTP_POST, .v1 = true, .handle = fy_handle_chat},
    {"/chat/completions/input_tokens", FY_HTTP_POST, .v1 = true, .handle = fy_handle_input_tokens},
    {"/messages", FY_HTTP_POST, .v1 = true, .handle = fy_handle_messages, .put_error = fy_put_messages_error},
    {"/messages/count_tokens", FY_HTTP_POST, .v1 = true, .handle = fy_handle_count_tokens,
     .put_error = fy_put_messages_error},
    {"/embeddings", FY_HTTP_POST, .v1 = true, .handle = fy_handle_embeddings},
    {"/embedding", FY_HTTP_POST, .handle = fy_handle_embedding},
    {"/responses", FY_HTTP_POST, .v1 = true, .handle = fy_handle_responses},
    {"/responses/input_tokens", FY_HTTP_POST, .v1 = true, .handle = fy_handle_response_tokens},
    {"/responses/*", FY_HTTP_GET, .v1 = true, .at_once = true, .handle = fy_handle_stored_response},
    {"/api/chat", FY_HTTP_POST, .handle = fy_handle_ollama_chat, .put_error = fy_put_ollama_error},
    {"/api/generate", FY_HTTP_POST, .handle = fy_handle_ollama_generate, .put_error = fy_put_ollama_error},
    {"/api/embed", FY_HTTP_POST, .handle = fy_handle_ollama_embed, .put_error = fy_put_ollama_error},
    {"/api/embeddings", FY_HTTP_POST, .handle = fy_handle_ollama_embeddings, .put_error = fy_put_ollama_error},
    {"/api/show", FY_HTTP_POST, .at_once = true, .handle = fy_handle_ollama_show, .put_error = fy_put_ollama_error},
    {"/api/tags", FY_HTTP_GET, .at_once = true, .handle = fy_handle_ollama_tags, .put_error = fy_put_ollama_error},
    {"/api/ps", FY_HTTP_GET, .at_once = true, .handle = fy_handle_ollama_ps, .put_error = fy_put_ollama_error},
    {"/api/version", FY_HTTP_GET, .at_once = true, .handle = fy_handle_ollama_version, .put_error = fy_put_ollama_error},
    {"/rerank", FY_HTTP_POST, .v1 = true, .handle = fy_handle_unsupported},
    {"/reranking", FY_HTTP_POST, .v1 = true, .handle = fy_handle_unsupported},
    {"/lora-adapters", FY_HTTP_GET | FY_HTTP_POST, .handle = fy_handle_unsupported},
    {.path = NULL},
};

static bool path_matches(const char *path, fy_span p)
{
    const size_t n = strlen(path);
    if (n > 0 && path[n - 1] == '*')
        return p.len >= n && memcmp(p.ptr, path, n - 1) == 0;
    return p.len == n && memcmp(p.ptr, path, n) == 0;
}

static bool route_matches(const fy_route *r, fy_span path)
{
    if (path_matches(r->path, path))
        return true;
    return r->v1 && path.len > 3 && memcmp(path.ptr, "/v1", 3) == 0 &&
           path_matches(r->path, (fy_span){path.ptr + 3, path.len - 3});
}

const fy_route *fy_route_find(fy_span path)
{
    const fy_route *r = fy_routes;
    while (r->path != NULL && !route_matches(r, path))
        r++;
    return r->path != NULL ? r : NULL;
}

static unsigned with_head(unsigned methods)
{
    return methods | ((methods & FY_HTTP_GET) != 0 ? FY_HTTP_HEAD : 0);
}

/* The route of path and method; *methods: those that the path has. */
static const fy_route *find(fy_span path, unsigned method, unsigned *methods)
{
    const fy_route *found = NULL;
    *methods = 0;
    for (const fy_route *r = fy_routes; r->path != NULL; r++) {
        if (!route_matches(r, path))
            continue;
        *methods |= with_head(r->methods);
        if (found == NULL && (with_head(r->methods) & method) != 0)
            found = r;
    }
    return found;
}

/* --- Host and Origin -------------------------------------------------------------------------- */

/* "host:port", "[::1]:port" -> the host without port and brackets. */
static fy_span host_name(fy_span s)
{
    if (s.len > 0 && *s.ptr == '[') {
        const char *end = memchr(s.ptr, ']', s.len);
        return end != NULL ? (fy_span){s.ptr + 1, (size_t)(end - s.ptr) - 1} : s;
    }
    const char *colon = memchr(s.ptr, ':', s.len);
    return colon != NULL ? (fy_span){s.ptr, (size_t)(colon - s.ptr)} : s;
}

static bool same_name(fy_span a, const char *b)
{
    return a.len == strlen(b) && strncasecmp(a.ptr, b, a.len) == 0;
}

/* A numeric address cannot be taken over by a name server. */
static bool is_address(fy_span host)
{
    char text[64];
    struct in6_addr out;
    if (host.len == 0 || host.len >= sizeof text)
        return false;
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET, text, &out) == 1 || inet_pton(AF_INET6, text, &out) == 1;
}

static bool host_is_allowed(const fy_server *s, fy_span host)
{
    const fy_server_options *o = s->o;
    const fy_span name = host_name(host);
    if (is_address(name) || same_name(name, "localhost") || name.len == 0)
        return true;
    for (size_t i = 0; i < o->n_hosts; i++) {
        if (same_name(name, o->hosts[i]))
            return true;
    }
    for (size_t i = 0; i < o->n_allowed_hosts; i++) {
        if (same_name(name, o->allowed_hosts[i]) || strcmp(o->allowed_hosts[i], "*") == 0)
            return true;
    }
    return false;
}

bool fy_origin_is_listed(const fy_server *s, fy_span origin)
{
    for (size_t i = 0; i < s->o->n_origins; i++) {
        if (same_name(origin, s->o->origins[i]) || strcmp(s->o->origins[i], "*") == 0)
            return true;
    }
    return false;
}

/* The page of this server itself: its origin is what Host says. */
static bool origin_is_ours(const fy_server *s, const fy_http_head *h)
{
    const char *scheme = s->o->cert_file != NULL ? "https://" : "http://";
    const size_t n = strlen(scheme);
    return h->host.ptr != NULL && h->origin.len == n + h->host.len &&
           memcmp(h->origin.ptr, scheme, n) == 0 &&
           strncasecmp(h->origin.ptr + n, h->host.ptr, h->host.len) == 0;
}

/* --- keys ------------------------------------------------------------------------------------- */

static fy_span given_key(const fy_http_head *h)
{
    fy_span s = h->authorization;
    if (s.ptr != NULL && s.len > 7 && strncasecmp(s.ptr, "Bearer ", 7) == 0) {
        s.ptr += 7;
        s.len -= 7;
        while (s.len > 0 && *s.ptr == ' ') {
            s.ptr++;
            s.len--;
        }
        return s;
    }
    return h->api_key;
}

int fy_key_find(const fy_api_key *keys, size_t n, const uint8_t *digest)
{
    uint32_t found = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        volatile uint8_t differs = 0; /* or a compiler may end the loop at the first difference */
        for (size_t j = 0; j < FY_SHA256_BYTES; j++)
            differs |= digest[j] ^ keys[i].digest[j];
        const uint32_t same = 0 - (((uint32_t)differs - 1) >> 31); /* all bits, or none */
        found ^= (found ^ (uint32_t)i) & same;
    }
    return (int)found;
}

/* The number of the key; -1: it is none. */
static int find_key(const fy_server *s, const fy_http_head *h)
{
    const fy_server_options *o = s->o;
    const fy_span key = given_key(h);
    uint8_t digest[FY_SHA256_BYTES];
    if (o->n_keys == 0)
        return 0;
    if (key.ptr == NULL || fy_sha256_of(key.ptr, key.len, digest, NULL) != 0)
        return -1;
    return fy_key_find(o->keys, o->n_keys, digest);
}

/* --- the check -------------------------------------------------------------------------------- */

static bool refuse(fy_api_refusal *r, int status, const char **message, const char *text)
{
    r->status = status;
    *message = text;
    return false;
}

static const char *allow_text(unsigned methods)
{
    return (methods & FY_HTTP_GET) == 0   ? "POST, OPTIONS"
           : (methods & FY_HTTP_POST) == 0 ? "GET, HEAD, OPTIONS"
                                           : "GET, HEAD, POST, OPTIONS";
}

static bool is_json(fy_span type)
{
    const char *end = memchr(type.ptr, ';', type.len);
    fy_span t = {type.ptr, end != NULL ? (size_t)(end - type.ptr) : type.len};
    while (t.len > 0 && t.ptr[t.len - 1] == ' ')
        t.len--;
    return same_name(t, "application/json");
}

static bool check_who(fy_exchange *x, fy_api_refusal *r, const char **message)
{
    const fy_http_head *h = &x->head;
    const fy_server *s = x->server;
    if (h->host.ptr != NULL && !host_is_allowed(s, h->host))
        return refuse(r, 403, message, "the Host is not one of this server (--allowed-hosts)");
    if (h->origin.ptr == NULL || origin_is_ours(s, h) || fy_origin_is_listed(s, h->origin))
        return true;
    return refuse(r, 403, message, "pages of this origin may not use the server (--cors-origins)");
}

bool fy_request_check(fy_exchange *x, fy_api_refusal *r, const char **message)
{
    const fy_http_head *h = &x->head;
    unsigned methods;
    if (!check_who(x, r, message))
        return false;
    const fy_route *route = find(h->path, h->method, &methods);
    if (h->method == FY_HTTP_OPTIONS && (methods != 0 || fy_span_is(h->path, "*"))) {
        x->route = NULL;
        return true;
    }
    x->user = find_key(x->server, h);
    if (x->user < 0 && !(route != NULL && route->is_public))
        return refuse(r, 401, message,
                      "the request has no valid API key; send it as 'Authorization: Bearer KEY'");
    if (methods == 0)
        return refuse(r, 404, message, "there is nothing under this path");
    r->allow = allow_text(methods);
    if (route == NULL)
        return refuse(r, 405, message, "the path does not have this method");
    x->route = route;
    r->allow = NULL;
    if (h->origin.ptr != NULL && h->method == FY_HTTP_POST &&
        (h->content_type.ptr == NULL || !is_json(h->content_type)))
        return refuse(r, 415, message, "expected Content-Type: application/json");
    const int state = atomic_load(&x->server->state);
    if (state == FY_SERVER_READY || route->is_public)
        return true;
    r->retry_after_s = 1;
    return refuse(r, 503, message,
                  state == FY_SERVER_LOADING ? "the model is being loaded"
                                             : "the server is shutting down");
}

void fy_handle_options(fy_exchange *x)
{
    fy_reply(x, 200, NULL, (fy_span){0}); /* as llama-server; some proxies take 204 for a failure */
}
