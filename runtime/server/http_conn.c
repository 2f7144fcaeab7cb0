/* A connection reads one request at a time, hands it over, and reads the next one when the answer is
 * on its way. While an answer is awaited nothing is read: the kernel holds what else the client
 * sends, and EV_CLOSED reports when it leaves. */
#include "server/http_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "base/log.h"
#include "base/process.h"
#include "server/routes.h"

enum {
    SILENCE_S = 15,  /* of a stream, until a comment; or a quarter of --timeout */
    DRAIN_S = 2,     /* reads on after a refusal, so that the client gets it */
    DRAIN_MAX = 64 << 20,
    UNSENT_MAX = FY_SERVER_UNSENT_MAX,
};

typedef enum { IN_HEAD, IN_BODY, IN_ANSWER, IN_DRAIN } conn_state;

struct fy_conn {
    fy_net *net;
    struct bufferevent *bev; /* owned */
    struct event *closed;    /* owned: the client has left */
    struct event *timer;     /* owned */
    conn_state state;
    fy_exchange *x; /* one reference; NULL: between requests */
    fy_http_chunks chunks;
    size_t body_left, drained;
    size_t looked_at; /* bytes of an unfinished head without an end */
    double begun_s;   /* of the request's first byte; 0: none has come */
    double moved_s;   /* when the client took something last */
    double put_s;     /* when something was put for it last */
    bool served;      /* an answer has gone out */
    fy_conn *prev, *next;
};

static void begin_next(fy_conn *c);
static void read_on(fy_conn *c);

/* --- the end ---------------------------------------------------------------------------------- */

static void close_conn(fy_conn *c)
{
    fy_net *net = c->net;
    if (c->x != NULL) {
        if (c->state == IN_ANSWER)
            net->n_open--;
        atomic_store(&c->x->gone, true);
        c->x->conn = NULL;
        fy_server_poke(net->s);
        fy_exchange_release(c->x);
    }
    if (c->closed != NULL)
        event_free(c->closed);
    if (c->timer != NULL)
        event_free(c->timer);
    if (c->bev != NULL)
        bufferevent_free(c->bev);
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        net->conns = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    net->n_conns--;
    atomic_fetch_sub(&net->s->metrics.connections, 1);
    free(c);
    fy_net_changed(net);
}

static bool is_idle(const fy_conn *c)
{
    return c->state == IN_HEAD && c->begun_s == 0;
}

void fy_conn_close_idle(fy_net *net, bool all)
{
    for (fy_conn *c = net->conns, *next; c != NULL; c = next) {
        next = c->next;
        if (all || is_idle(c))
            close_conn(c);
    }
}

/* --- timers ----------------------------------------------------------------------------------- */

static void set_timer(fy_conn *c, double seconds)
{
    const struct timeval tv = {(time_t)seconds,
                               (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
    event_add(c->timer, &tv);
}

/* Between requests. */
static double idle_timeout(const fy_conn *c)
{
    const double s = c->net->s->o->idle_s;
    return s > 0 ? s : FY_SERVER_IDLE_S;
}

static double header_timeout(const fy_conn *c)
{
    return c->net->s->o->header_timeout_s;
}

/* Bytes of the answer that the client has not taken. */
static size_t unsent(fy_conn *c)
{
    return evbuffer_get_length(bufferevent_get_output(c->bev));
}

/* The next look at an answer that is awaited: has its stream been silent, does its client read? */
static double silence(const fy_conn *c)
{
    const double part = c->net->s->o->timeout_s / 4;
    return part < SILENCE_S ? part : SILENCE_S;
}

static void watch_answer(fy_conn *c)
{
    set_timer(c, silence(c));
}

static void refuse(fy_conn *c, const fy_api_refusal *r, const char *message);

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    fy_conn *c = arg;
    const double now = fy_now_s();
    (void)fd;
    (void)what;
    switch (c->state) {
    case IN_HEAD:
    case IN_BODY:
        if (c->begun_s == 0) {
            close_conn(c);
            return;
        }
        refuse(c, &(fy_api_refusal){.status = 408},
               "the request did not come whole in time (--header-timeout)");
        return;
    case IN_ANSWER:
        if (unsent(c) > 0 && now - c->moved_s >= c->net->s->o->timeout_s) {
            close_conn(c); /* it does not read */
            return;
        }
        pthread_mutex_lock(&c->x->lock);
        const bool silent = c->x->is_events && !c->x->ended && c->x->out.len == 0 &&
                            now - c->put_s >= 0.9 * silence(c);
        const bool chunked = c->x->chunked;
        pthread_mutex_unlock(&c->x->lock);
        if (silent) {
            c->put_s = now;
            bufferevent_write(c->bev, chunked ? "3\r\n" FY_SSE_COMMENT "\r\n" : FY_SSE_COMMENT,
                              chunked ? 8 : 3);
        }
        watch_answer(c);
        return;
    case IN_DRAIN:
    default: close_conn(c);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

/* The answer is with the client, or as far as it will come. */
static void end_answer(fy_conn *c)
{
    fy_exchange *x = c->x;
    const bool ends = x->close_after || !x->head.keep_alive ||
                      atomic_load(&c->net->s->state) == FY_SERVER_STOPPING;
    fy_server_log(c->net->s, x);
    c->net->n_open--;
    c->x = NULL;
    x->conn = NULL;
    fy_exchange_release(x);
    c->served = true;
    if (c->closed != NULL)
        event_del(c->closed);
    if (!ends) {
        begin_next(c);
        return;
    }
    /* Closing with unread bytes would reset the connection, and the client lose its answer. */
    c->state = IN_DRAIN;
    shutdown(bufferevent_getfd(c->bev), SHUT_WR);
    bufferevent_enable(c->bev, EV_READ);
    set_timer(c, DRAIN_S);
    fy_net_changed(c->net);
}

static void flush(fy_conn *c)
{
    fy_exchange *x = c->x;
    pthread_mutex_lock(&x->lock);
    fy_str out = x->out;
    x->out = (fy_str){0};
    const bool ended = x->ended;
    pthread_mutex_unlock(&x->lock);
    if (out.len > 0) {
        c->put_s = fy_now_s();
        if (unsent(c) == 0)
            c->moved_s = c->put_s;
        atomic_fetch_add(&c->net->s->metrics.bytes_sent, out.len);
    }
    const bool bad = out.oom || (out.len > 0 && bufferevent_write(c->bev, out.ptr, out.len) != 0);
    fy_str_release(&out);
    if (bad)
        close_conn(c);
    else if (ended && unsent(c) == 0)
        end_answer(c);
}

void fy_conn_flush_ready(fy_net *net)
{
    for (fy_exchange *x; (x = fy_server_take_ready(net->s)) != NULL;) {
        if (x->conn != NULL)
            flush(x->conn);
        fy_exchange_release(x);
    }
}

/* Everything was taken by the kernel. */
static void on_write(struct bufferevent *bev, void *arg)
{
    fy_conn *c = arg;
    (void)bev;
    if (c->state != IN_ANSWER || c->x == NULL)
        return;
    pthread_mutex_lock(&c->x->lock);
    const bool over = c->x->ended && c->x->out.len == 0;
    pthread_mutex_unlock(&c->x->lock);
    if (over && unsent(c) == 0)
        end_answer(c);
}

/* The client took bytes, or some were added for it. */
static void on_output(struct evbuffer *b, const struct evbuffer_cb_info *info, void *arg)
{
    fy_conn *c = arg;
    if (c->x == NULL)
        return;
    pthread_mutex_lock(&c->x->lock);
    const size_t left = evbuffer_get_length(b) + c->x->out.len;
    const size_t before = atomic_exchange(&c->x->unsent, left);
    pthread_mutex_unlock(&c->x->lock);
    if (info->n_deleted > 0)
        c->moved_s = fy_now_s();
    if (info->n_deleted > 0 && before > UNSENT_MAX && left <= UNSENT_MAX)
        fy_server_poke(c->net->s);
}

/* --- requests --------------------------------------------------------------------------------- */

static void watch_client(fy_conn *c, short what);

/* A reset is an error of the socket, which libevent shows as EV_READ alone. Bytes of the next request
 * wait: from then on the end of the connection is what counts. */
static void on_closed(evutil_socket_t fd, short what, void *arg)
{
    char byte;
    const ssize_t n = (what & EV_CLOSED) != 0 ? 0 : recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_conn(arg);
    else if (n > 0)
        watch_client(arg, EV_CLOSED);
}

static void watch_client(fy_conn *c, short what)
{
    event_del(c->closed);
    event_assign(c->closed, c->net->base, bufferevent_getfd(c->bev), what | EV_PERSIST, on_closed, c);
    event_add(c->closed, NULL);
}

/* From here on the connection waits for the answer. */
static void await_answer(fy_conn *c)
{
    c->state = IN_ANSWER;
    c->net->n_open++;
    c->moved_s = c->put_s = fy_now_s();
    bufferevent_disable(c->bev, EV_READ);
    watch_client(c, EV_CLOSED | EV_READ);
    watch_answer(c);
}

/* False: out of memory, and the connection is closed. */
static bool make_exchange(fy_conn *c)
{
    if (c->x != NULL)
        return true;
    c->x = fy_exchange_new(c->net->s);
    if (c->x == NULL) {
        close_conn(c);
        return false;
    }
    c->x->conn = c;
    c->x->begun_s = c->begun_s;
    c->x->number = ++c->net->n_requests;
    return true;
}

/* Answers before the request is whole, or instead of it. The connection ends, unless the request was
 * read to its end: x->close_after says. */
static void answer_refusal(fy_conn *c, const fy_api_refusal *r, const char *message)
{
    atomic_fetch_add(&c->net->s->metrics.refused_limit, r->status != 401 && r->status != 403);
    atomic_fetch_add(&c->net->s->metrics.refused_access, r->status == 401 || r->status == 403);
    await_answer(c);
    fy_exchange_hold(c->x);
    fy_reply_error(c->x, r, message);
    flush(c);
}

static void refuse(fy_conn *c, const fy_api_refusal *r, const char *message)
{
    if (make_exchange(c)) {
        c->x->close_after = true;
        answer_refusal(c, r, message);
    }
}

static void dispatch(fy_conn *c)
{
    fy_exchange *x = c->x;
    await_answer(c);
    fy_exchange_hold(x); /* the handler's */
    if (x->head.method == FY_HTTP_OPTIONS) {
        fy_handle_options(x);
        flush(c);
    } else if (x->route->at_once) {
        x->route->handle(x);
        flush(c);
    } else {
        fy_server_queue_job(c->net->s, x);
    }
}

/* Moves bytes of the body. False: the connection is gone, or more have to come. */
static bool take_body(fy_conn *c, struct evbuffer *in)
{
    fy_exchange *x = c->x;
    const size_t max = c->net->s->o->max_body;
    while (x->head.chunked ? !c->chunks.ended : c->body_left > 0) {
        const size_t n = evbuffer_get_contiguous_space(in);
        if (n == 0)
            return false;
        const char *p = (const char *)evbuffer_pullup(in, (ev_ssize_t)n);
        fy_span data = {p, n < c->body_left ? n : c->body_left};
        const ptrdiff_t used = x->head.chunked ? fy_http_chunks_take(&c->chunks, p, n, &data)
                                               : (ptrdiff_t)data.len;
        if (used < 0) {
            refuse(c, &(fy_api_refusal){.status = 400}, "the body is not in chunks");
            return false;
        }
        if (data.len > max - x->body.len) {
            refuse(c, &(fy_api_refusal){.status = 413}, "the body is too long (--max-body)");
            return false;
        }
        fy_str_add(&x->body, data.ptr, data.len);
        c->body_left -= x->head.chunked ? 0 : data.len;
        evbuffer_drain(in, (size_t)used);
        if (x->body.oom) {
            close_conn(c);
            return false;
        }
    }
    return true;
}

/* The head is whole: checks the client and the route, and finds the length of the body. */
static bool begin_body(fy_conn *c)
{
    fy_exchange *x = c->x;
    fy_api_refusal r = {0};
    const char *message = NULL;
    if (!fy_request_check(x, &r, &message)) {
        x->close_after = x->head.length > 0 || x->head.chunked;
        answer_refusal(c, &r, message);
        return false;
    }
    if (x->head.length > c->net->s->o->max_body) {
        refuse(c, &(fy_api_refusal){.status = 413}, "the body is too long (--max-body)");
        return false;
    }
    c->state = IN_BODY;
    c->chunks = (fy_http_chunks){0};
    c->body_left = (size_t)x->head.length;
    if (x->head.expects_continue && (c->body_left > 0 || x->head.chunked))
        bufferevent_write(c->bev, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    return true;
}

/* False: more bytes have to come, or the connection is gone. */
static bool take_head(fy_conn *c, struct evbuffer *in)
{
    const size_t max = c->net->s->o->max_head, n = evbuffer_get_length(in);
    fy_http_refusal no = {0};
    fy_http_head head;
    if (n == 0)
        return false;
    if (c->begun_s == 0) {
        c->begun_s = fy_now_s();
        fy_net_changed(c->net); /* it is idle no more */
        set_timer(c, header_timeout(c));
    }
    const size_t m = n < max ? n : max;
    const char *p = (const char *)evbuffer_pullup(in, (ev_ssize_t)m);
    if (m < max && memchr(p + c->looked_at, '\n', m - c->looked_at) == NULL) {
        c->looked_at = m; /* no line has ended since */
        return false;
    }
    c->looked_at = m;
    const ptrdiff_t len = fy_http_head_parse(p, m, max, &head, &no);
    if (len == 0)
        return false;
    if (len < 0) {
        refuse(c, &(fy_api_refusal){.status = no.status}, no.why);
        return false;
    }
    if (!make_exchange(c))
        return false;
    fy_str_add(&c->x->head_bytes, p, (size_t)len);
    evbuffer_drain(in, (size_t)len);
    c->looked_at = 0;
    if (c->x->head_bytes.oom || fy_http_head_parse(c->x->head_bytes.ptr, (size_t)len, max + 1,
                                                   &c->x->head, &no) != len) {
        close_conn(c);
        return false;
    }
    return begin_body(c);
}

static void read_on(fy_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    if (c->state == IN_HEAD && !take_head(c, in))
        return;
    if (c->state == IN_BODY && take_body(c, in))
        dispatch(c);
}

static void begin_next(fy_conn *c)
{
    c->state = IN_HEAD;
    c->begun_s = 0;
    c->looked_at = 0;
    set_timer(c, idle_timeout(c));
    fy_net_changed(c->net);
    bufferevent_enable(c->bev, EV_READ);
    if (evbuffer_get_length(bufferevent_get_input(c->bev)) > 0)
        bufferevent_trigger(c->bev, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    fy_conn *c = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    if (c->state == IN_DRAIN) {
        c->drained += evbuffer_get_length(in);
        evbuffer_drain(in, evbuffer_get_length(in));
        if (c->drained > DRAIN_MAX)
            close_conn(c);
    } else if (c->state != IN_ANSWER) {
        read_on(c);
    }
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) != 0)
        close_conn(arg);
}

/* --- accepting -------------------------------------------------------------------------------- */

/* The connection that has waited longest for a request; NULL: none does. One whose request is there
 * and was not read yet does not. */
static fy_conn *longest_idle(const fy_net *net)
{
    fy_conn *oldest = NULL;
    char byte;
    for (fy_conn *c = net->conns; c != NULL; c = c->next) {
        if (is_idle(c) &&
            recv(bufferevent_getfd(c->bev), &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
            oldest = c; /* new ones are put first */
    }
    return oldest;
}

bool fy_conn_has_room(const fy_net *net)
{
    return net->n_conns < net->s->o->max_connections || longest_idle(net) != NULL;
}

void fy_conn_accept(fy_net *net, evutil_socket_t fd)
{
    if (net->n_conns >= net->s->o->max_connections) {
        fy_conn *idle = longest_idle(net);
        if (idle == NULL) {
            close(fd);
            return;
        }
        close_conn(idle);
    }
    fy_conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        close(fd);
        return;
    }
    evutil_make_socket_nonblocking(fd);
    c->net = net;
    c->next = net->conns;
    if (c->next != NULL)
        c->next->prev = c;
    net->conns = c;
    net->n_conns++;
    atomic_fetch_add(&net->s->metrics.connections, 1);
    c->bev = net->tls != NULL ? fy_tls_accept(net->tls, net->base, fd)
                              : bufferevent_socket_new(net->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (c->bev == NULL)
        close(fd);
    c->closed = event_new(net->base, fd, EV_CLOSED, on_closed, c);
    c->timer = evtimer_new(net->base, on_timer, c);
    if (c->bev == NULL || c->closed == NULL || c->timer == NULL ||
        evbuffer_add_cb(bufferevent_get_output(c->bev), on_output, c) == NULL) {
        close_conn(c);
        return;
    }
    bufferevent_setcb(c->bev, on_read, on_write, on_event, c);
    set_timer(c, idle_timeout(c) < header_timeout(c) ? idle_timeout(c) : header_timeout(c));
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    fy_net_changed(net);
}
