/* Connections of the network thread: bytes to requests, answers to bytes, limits and timers. */
#ifndef FY_SERVER_HTTP_CONN_H
#define FY_SERVER_HTTP_CONN_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "server/server.h"

enum { FY_LISTENERS_MAX = 16 };

typedef struct fy_conn fy_conn;
typedef struct fy_net fy_net;

struct fy_net {
    fy_server *s;
    struct event_base *base;                            /* owned */
    struct evconnlistener *listeners[FY_LISTENERS_MAX]; /* owned */
    size_t n_listeners;
    const char *socket_path[FY_LISTENERS_MAX]; /* view; of a Unix socket to be removed; NULL */
    fy_conn *conns;                            /* owned, a list */
    uint32_t n_conns;
    uint32_t n_open; /* exchanges without their whole answer */
    bool accepts;    /* the listeners are on */
    void *tls;       /* owned; NULL: none */
    uint64_t n_requests;
};

/* May one more be accepted? An idle connection makes room. */
bool fy_conn_has_room(const fy_net *net);
/* Takes the socket. */
void fy_conn_accept(fy_net *net, evutil_socket_t fd);
/* Sends what was put into exchanges. */
void fy_conn_flush_ready(fy_net *net);
/* Ends the connections that wait for a request; `all`: every one. */
void fy_conn_close_idle(fy_net *net, bool all);

/* server.c: a connection or an exchange is over. */
void fy_net_changed(fy_net *net);

/* http_tls.c. FY_EUNSUPPORTED in builds for the device. */
int fy_tls_open(const char *cert_file, const char *key_file, void **tls, fy_err *e);
void fy_tls_free(void *tls);
struct bufferevent *fy_tls_accept(void *tls, struct event_base *base, evutil_socket_t fd);

#endif
