/* Which handler answers which request, and who may ask: Host, Origin and key. Network thread, but for
 * fy_origin_is_listed. */
#ifndef FY_SERVER_ROUTES_H
#define FY_SERVER_ROUTES_H

#include "server/exchange.h"

struct fy_route {
    const char *path;   /* one that ends with '*' takes any rest */
    unsigned methods;   /* of fy_http_method; HEAD comes with GET */
    bool v1;            /* the same path after "/v1", too */
    bool is_public;     /* needs no key */
    bool at_once;       /* the network thread answers it: it never waits and needs no model */
    bool is_page;       /* for people: its answers carry the page's policy */
    void (*handle)(fy_exchange *x);
    void (*put_error)(fy_str *out, const fy_api_refusal *r, const char *message); /* NULL: OpenAI's */
};

extern const fy_route fy_routes[]; /* up to a path NULL */

/* The route of a path, or NULL. */
const fy_route *fy_route_find(fy_span path);

/* Everything that can be said before the body is read. Sets x->route and x->user. False: *r and
 * *message are what to answer. */
bool fy_request_check(fy_exchange *x, fy_api_refusal *r, const char **message);

/* The number of the key with this SHA-256; -1: it is none. Whatever comes, and wherever it differs, the
 * same instructions run: all keys are compared in full, and nothing branches on the result. */
typedef struct fy_api_key fy_api_key;
int fy_key_find(const fy_api_key *keys, size_t n, const uint8_t *digest);

/* Is the origin one of --cors-origins? */
bool fy_origin_is_listed(const fy_server *s, fy_span origin);

/* Answers an OPTIONS request that was let in. */
void fy_handle_options(fy_exchange *x);

#endif
