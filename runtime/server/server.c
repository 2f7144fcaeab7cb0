/* The life of a server: listeners, signals, threads, and what passes between them. */
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "base/json.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread.h"
#include "server/http_conn.h"
#include "server/routes.h"

enum { ACCEPT_RETRY_MS = 500 };

typedef struct {
    fy_server s;
    fy_net net;
    int wake; /* an eventfd; -1: none */
    struct event *on_wake, *on_term, *on_int, *on_hup, *on_input, *grace, *retry; /* owned */
    fy_str address; /* owned: of the first listener */
    bool stopping, forced, ended;
} run_state;

static run_state *state_of(fy_server *s)
{
    return (run_state *)s; /* s comes first */
}

/* --- between threads -------------------------------------------------------------------------- */

static void wake(fy_server *s)
{
    const uint64_t one = 1;
    if (write(state_of(s)->wake, &one, sizeof one) != (ssize_t)sizeof one && errno != EAGAIN)
        fy_log(FY_LOG_ERROR, "cannot wake the network thread: %s", strerror(errno));
}

/* Puts the exchange into the list of those to send. */
static void list_ready(fy_exchange *x)
{
    fy_server *s = x->server;
    bool first = false;
    pthread_mutex_lock(&s->lock);
    if (!x->waits) {
        x->waits = true;
        fy_exchange_hold(x);
        x->next_ready = NULL;
        if (s->ready != NULL)
            s->last_ready->next_ready = x;
        else
            s->ready = x;
        s->last_ready = x;
        first = !s->woken;
        s->woken = true;
    }
    pthread_mutex_unlock(&s->lock);
    if (first)
        wake(s);
}

void fy_server_put(fy_exchange *x)
{
    list_ready(x);
}

void fy_server_answered(fy_exchange *x)
{
    fy_metrics *m = &x->server->metrics;
    size_t route = 0;
    while (x->route != NULL && fy_routes[route].path != NULL && x->route != &fy_routes[route])
        route++;
    fy_count_request(m, x->route != NULL ? route : FY_METRIC_ROUTES - 1, x->status);
    fy_histogram_add(&m->request, fy_bounds_seconds, fy_now_s() - x->begun_s);
    list_ready(x);
    fy_exchange_release(x);
}

fy_exchange *fy_server_take_ready(fy_server *s)
{
    pthread_mutex_lock(&s->lock);
    fy_exchange *x = s->ready;
    if (x != NULL) {
        s->ready = x->next_ready;
        x->waits = false; /* from here on it may be listed again, at the end */
    }
    s->woken = s->ready != NULL;
    pthread_mutex_unlock(&s->lock);
    return x;
}

void fy_server_queue_job(fy_server *s, fy_exchange *x)
{
    pthread_mutex_lock(&s->lock);
    x->next_job = NULL;
    if (s->last_job != NULL)
        s->last_job->next_job = x;
    else
        s->jobs = x;
    s->last_job = x;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

void fy_server_poke(fy_server *s)
{
    if (atomic_load(&s->is_loaded))
        fy_schedule_poke(s->schedule);
}

void fy_server_log(fy_server *s, const fy_exchange *x)
{
    const double ms = (fy_now_s() - x->begun_s) * 1e3;
    const char *path = x->route != NULL ? x->route->path : "-";
    fy_log(FY_LOG_DEBUG, "request %llu: %s %d, %.1f ms", (unsigned long long)x->number, path,
           x->status, ms);
    if (!s->o->log_jsonl)
        return;
    fy_str line = {0};
    fy_str_printf(&line, "{\"request\":%llu,\"path\":", (unsigned long long)x->number);
    fy_json_put_string(&line, fy_span_of(path));
    fy_str_printf(&line, ",\"status\":%d,\"ms\":%.3f}", x->status, ms);
    s->o->say(s->o->user, fy_str_z(&line));
    fy_str_release(&line);
}

const fy_trie *fy_server_trie(fy_server *s, fy_err *e)
{
    pthread_mutex_lock(&s->trie_lock);
    if (s->trie == NULL)
        s->trie = fy_vocab_trie(s->served.vocab, s->served.n_vocab, e);
    const fy_trie *t = s->trie;
    pthread_mutex_unlock(&s->trie_lock);
    return t;
}

static bool is_mark(const void *format, fy_span piece)
{
    return fy_tool_format_has_mark(format, piece);
}

const fy_trie *fy_server_call_trie(fy_server *s, const fy_tool_format *f, fy_err *e)
{
    pthread_mutex_lock(&s->trie_lock);
    if (s->call_trie == NULL)
        s->call_trie = fy_vocab_trie_with(s->served.vocab, s->served.n_vocab, is_mark, f, e);
    const fy_trie *t = s->call_trie;
    pthread_mutex_unlock(&s->trie_lock);
    return t;
}

/* --- workers ---------------------------------------------------------------------------------- */

static void *work(void *arg)
{
    fy_server *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->jobs == NULL && !s->ends)
            pthread_cond_wait(&s->work, &s->lock);
        fy_exchange *x = s->jobs;
        if (x == NULL)
            break;
        s->jobs = x->next_job;
        if (s->jobs == NULL)
            s->last_job = NULL;
        pthread_mutex_unlock(&s->lock);
        if (x->resume != NULL)
            x->resume(x);
        else if (atomic_load(&x->gone))
            fy_reply_error(x, &(fy_api_refusal){.status = FY_STATUS_LEFT}, "the client has left");
        else
            x->route->handle(x);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- the engine thread ------------------------------------------------------------------------ */

static int decode(void *user, const fy_batch *b, const fy_eval_sinks *sinks, fy_err *e)
{
    return fy_session_decode(user, b, sinks, NULL, e);
}

static uint32_t rewind_seq(void *user, uint32_t seq, uint32_t n_past)
{
    fy_session_seq_rewind(user, seq, n_past);
    return fy_session_seq_n_past(user, seq);
}

static int copy_seq(void *user, uint32_t from, uint32_t to, uint32_t n_past, fy_err *e)
{
    return fy_session_seq_copy(user, from, to, n_past, e);
}

static uint32_t keeps_seq(void *user, uint32_t seq, uint32_t n)
{
    return fy_session_seq_keeps(user, seq, n);
}

static void snapshot_seq(void *user, uint32_t seq)
{
    fy_session_seq_snapshot(user, seq);
}

static size_t saved_bytes(void *user, uint32_t seq, uint32_t n)
{
    return (size_t)fy_session_seq_bytes(user, seq, 0, n);
}

static int save_seq(void *user, uint32_t seq, uint32_t n, void *out, fy_err *e)
{
    return fy_session_seq_read(user, seq, 0, n, out, e);
}

static int load_seq(void *user, uint32_t seq, uint32_t n, const void *in, fy_err *e)
{
    return fy_session_seq_write(user, seq, 0, n, in, e);
}

static uint32_t saved_keeps(void *user, uint32_t n_saved, const void *in, uint32_t n)
{
    return fy_session_saved_keeps(user, n_saved, in, n);
}

static double now(void *user)
{
    (void)user;
    return fy_now_s();
}

static int begin_schedule(fy_server *s, fy_err *e)
{
    fy_served *v = &s->served;
    const fy_hparams *hp = fy_model_hparams(v->model);
    const fy_compute c = {.n_seq = fy_session_n_seq(v->session),
                          .n_ctx = fy_session_n_ctx(v->session),
                          .n_batch = fy_session_n_batch(v->session),
                          .n_layer = hp->n_layer,
                          .n_vocab = hp->n_vocab,
                          .n_embd = hp->n_embd,
                          .decode = decode,
                          .rewind = rewind_seq,
                          .copy = copy_seq,
                          .now = now,
                          .user = v->session,
                          .keeps = keeps_seq,
                          .snapshot = fy_session_has_snapshots(v->session) ? snapshot_seq : NULL,
                          .saved_bytes = saved_bytes,
                          .save = save_seq,
                          .load = load_seq,
                          .saved_keeps = saved_keeps,
                          .store_bytes =
                              fy_session_check_saves(v->session, NULL) == 0 ? s->o->cache_ram : 0};
    v->n_vocab = c.n_vocab;
    v->n_ctx = c.n_ctx;
    v->n_embd = c.n_embd;
    v->n_slots = c.n_seq;
    s->schedule = fy_schedule_new(&c, s->o->queue, &s->metrics, e);
    atomic_store(&s->is_loaded, s->schedule != NULL);
    return s->schedule != NULL ? 0 : -1;
}

static void *run_engine(void *arg)
{
    fy_server *s = arg;
    fy_err e = {0};
    if (s->o->load(s->o->user, &s->served, &e) != 0 || begin_schedule(s, &e) != 0) {
        s->load_error = e;
        atomic_store(&s->state, FY_SERVER_FAILED);
        wake(s);
        return NULL;
    }
    int loading = FY_SERVER_LOADING;
    if (!atomic_compare_exchange_strong(&s->state, &loading, FY_SERVER_READY))
        fy_schedule_close(s->schedule, true); /* a signal came first */
    wake(s);
    fy_schedule_run(s->schedule);
    wake(s);
    return NULL;
}

/* --- the network thread: events --------------------------------------------------------------- */

static void set_accepting(run_state *r, bool on)
{
    fy_net *net = &r->net;
    if (net->accepts == on)
        return;
    net->accepts = on;
    for (size_t i = 0; i < net->n_listeners; i++) {
        if (on)
            evconnlistener_enable(net->listeners[i]);
        else
            evconnlistener_disable(net->listeners[i]);
    }
}

void fy_net_changed(fy_net *net)
{
    run_state *r = state_of(net->s);
    if (r->stopping && net->n_open == 0)
        event_base_loopexit(net->base, NULL);
    else if (!r->stopping)
        set_accepting(r, fy_conn_has_room(net));
}

static void close_listeners(run_state *r)
{
    for (size_t i = 0; i < r->net.n_listeners; i++) {
        evconnlistener_free(r->net.listeners[i]);
        if (r->net.socket_path[i] != NULL)
            unlink(r->net.socket_path[i]);
    }
    r->net.n_listeners = 0;
}

static void force(run_state *r)
{
    r->forced = true;
    if (atomic_load(&r->s.is_loaded))
        fy_schedule_close(r->s.schedule, true);
    event_base_loopexit(r->net.base, NULL);
}

static double grace_s(const run_state *r)
{
    return r->s.o->grace_s > 0 ? r->s.o->grace_s : FY_SERVER_GRACE_S;
}

static void stop(run_state *r)
{
    const double s = grace_s(r);
    const struct timeval grace = {(time_t)s, (suseconds_t)((s - (double)(time_t)s) * 1e6)};
    int loading = FY_SERVER_LOADING;
    r->stopping = true;
    if (atomic_compare_exchange_strong(&r->s.state, &loading, FY_SERVER_STOPPING))
        fy_interrupted = 1; /* the model is being loaded */
    else if (atomic_load(&r->s.state) == FY_SERVER_READY) {
        atomic_store(&r->s.state, FY_SERVER_STOPPING);
        fy_schedule_close(r->s.schedule, false);
    }
    close_listeners(r);
    fy_conn_close_idle(&r->net, false);
    event_add(r->grace, &grace);
    fy_net_changed(&r->net);
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
    run_state *r = arg;
    (void)sig;
    (void)what;
    if (!r->stopping) {
        fy_log(FY_LOG_INFO, "stopping: %u requests are finished first; a second signal ends them",
               r->net.n_open);
        stop(r);
        return;
    }
    fy_interrupted = 1;
    force(r);
}

static void on_grace(evutil_socket_t fd, short what, void *arg)
{
    run_state *r = arg;
    (void)fd;
    (void)what;
    fy_log(FY_LOG_WARN, "%u requests were not finished within %g s", r->net.n_open, grace_s(r));
    force(r);
}

/* Nothing is expected there but its end: whoever started the server has gone. */
static void on_input(evutil_socket_t fd, short what, void *arg)
{
    run_state *r = arg;
    char dropped[256];
    (void)what;
    const ssize_t n = read(fd, dropped, sizeof dropped);
    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
        return;
    event_del(r->on_input);
    if (r->stopping)
        return;
    fy_log(FY_LOG_INFO, "standard input has ended: stopping");
    stop(r);
}

/* A new certificate, for connections from now on. */
static void on_hangup(evutil_socket_t sig, short what, void *arg)
{
    run_state *r = arg;
    fy_err e = {0};
    void *tls;
    if (r->net.tls == NULL) { /* its terminal was closed */
        on_signal(sig, what, arg);
        return;
    }
    if (fy_tls_open(r->s.o->cert_file, r->s.o->key_file, &tls, &e) != 0) {
        fy_log(FY_LOG_WARN, "%s; the old certificate stays in use", e.msg);
        return;
    }
    fy_tls_free(r->net.tls);
    r->net.tls = tls;
    fy_log(FY_LOG_INFO, "the certificate was read again");
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    run_state *r = arg;
    uint64_t n;
    (void)what;
    while (read(fd, &n, sizeof n) < 0 && errno == EINTR)
        ;
    fy_conn_flush_ready(&r->net);
    const int state = atomic_load(&r->s.state);
    if (state == FY_SERVER_FAILED)
        event_base_loopexit(r->net.base, NULL);
    if (state == FY_SERVER_READY && !r->ended) {
        char line[320];
        r->ended = true; /* of loading */
        snprintf(line, sizeof line, "listening on %s", fy_str_z(&r->address));
        r->s.o->say(r->s.o->user, line);
    }
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    fy_net_changed(&((run_state *)arg)->net);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *a, int n,
                      void *arg)
{
    (void)l;
    (void)a;
    (void)n;
    fy_conn_accept(&((run_state *)arg)->net, fd);
}

/* Out of file descriptors: a pause, not a loop. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
    run_state *r = arg;
    const struct timeval tv = {0, ACCEPT_RETRY_MS * 1000};
    (void)l;
    set_accepting(r, false);
    event_add(r->retry, &tv);
}

/* --- listeners -------------------------------------------------------------------------------- */

enum { LISTEN_FLAGS = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE };

static int add_listener(run_state *r, const struct sockaddr *a, socklen_t len, const char *shown,
                        fy_err *e)
{
    fy_net *net = &r->net;
    if (net->n_listeners == FY_LISTENERS_MAX)
        return fy_fail(e, FY_EARG, "more than %d addresses (--host)", FY_LISTENERS_MAX);
    errno = 0;
    struct evconnlistener *l =
        evconnlistener_new_bind(net->base, on_accept, r, LISTEN_FLAGS, 256, a, (int)len);
    if (l == NULL && errno == EADDRINUSE)
        return fy_fail(e, FY_EIO, "%s is taken by another program; choose another --port", shown);
    if (l == NULL)
        return fy_fail_errno(e, "%s: cannot listen", shown);
    evconnlistener_set_error_cb(l, on_accept_error);
    net->listeners[net->n_listeners++] = l;
    return 0;
}

static int listen_unix(run_state *r, const char *path, fy_err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat st;
    if (strlen(path) >= sizeof a.sun_path)
        return fy_fail(e, FY_EARG, "%s: a path of a socket may have %zu bytes", path,
                       sizeof a.sun_path - 1);
    memcpy(a.sun_path, path, strlen(path) + 1);
    if (stat(path, &st) == 0 && S_ISSOCK(st.st_mode)) { /* left over, unless somebody answers */
        const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const bool alive = fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
        if (fd >= 0)
            close(fd);
        if (alive)
            return fy_fail(e, FY_EIO, "%s is taken by another program", path);
        unlink(path);
    }
    const mode_t before = umask(0177); /* for its owner alone; no other thread runs yet */
    const int rc = add_listener(r, (struct sockaddr *)&a, sizeof a, path, e);
    umask(before);
    if (rc != 0)
        return -1;
    r->net.socket_path[r->net.n_listeners - 1] = path;
    if (r->address.len == 0)
        fy_str_printf(&r->address, "unix:%s", path);
    return 0;
}

static void note_address(run_state *r, evutil_socket_t fd, int *port)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char host[64] = "?";
    if (getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        return;
    const bool six = a.ss_family == AF_INET6;
    *port =
        ntohs(six ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
    if (six)
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&a)->sin6_addr, host, sizeof host);
    else
        inet_ntop(AF_INET, &((struct sockaddr_in *)&a)->sin_addr, host, sizeof host);
    if (r->address.len == 0)
        fy_str_printf(&r->address, six ? "%s://[%s]:%d" : "%s://%s:%d",
                      r->net.tls != NULL ? "https" : "http", host, *port);
}

/* Addresses alone: a static program cannot ask for names. */
static int listen_host(run_state *r, const char *host, int *port, fy_err *e)
{
    char shown[FY_QUOTE_BYTES + 32], name[FY_QUOTE_BYTES];
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)*port)};
    const char *address = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    const bool is_four = inet_pton(AF_INET, address, &four.sin_addr) == 1;
    fy_quote(name, sizeof name, fy_span_of(host));
    snprintf(shown, sizeof shown, "%s port %d", name, *port);
    if (!is_four && inet_pton(AF_INET6, address, &six.sin6_addr) != 1)
        return fy_fail(e, FY_EARG,
                       "--host: '%s', expected an address (0.0.0.0 is every one of this machine), "
                       "localhost, or a path that ends in .sock",
                       name);
    if ((is_four ? add_listener(r, (struct sockaddr *)&four, sizeof four, shown, e)
                 : add_listener(r, (struct sockaddr *)&six, sizeof six, shown, e)) != 0)
        return -1;
    note_address(r, evconnlistener_get_fd(r->net.listeners[r->net.n_listeners - 1]), port);
    return 0;
}

static int listen_all(run_state *r, fy_err *e)
{
    const fy_server_options *o = r->s.o;
    int port = o->port;
    for (size_t i = 0; i < o->n_hosts; i++) {
        const bool is_path = fy_span_ends(fy_span_of(o->hosts[i]), ".sock");
        if ((is_path ? listen_unix(r, o->hosts[i], e) : listen_host(r, o->hosts[i], &port, e)) != 0)
            return -1;
    }
    r->net.accepts = true;
    return 0;
}

/* --- running ---------------------------------------------------------------------------------- */

static int add_events(run_state *r, fy_err *e)
{
    struct event_config *cfg = event_config_new();
    if (cfg != NULL) {
        event_config_require_features(cfg, EV_FEATURE_EARLY_CLOSE);
        event_config_set_flag(cfg, EVENT_BASE_FLAG_NOLOCK);
        r->net.base = event_base_new_with_config(cfg);
        event_config_free(cfg);
    }
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->net.base == NULL || r->wake < 0)
        return fy_fail_errno(e, "cannot wait for events");
    struct event_base *b = r->net.base;
    r->on_wake = event_new(b, r->wake, EV_READ | EV_PERSIST, on_wake, r);
    r->on_term = evsignal_new(b, SIGTERM, on_signal, r);
    r->on_int = evsignal_new(b, SIGINT, on_signal, r);
    r->on_hup = evsignal_new(b, SIGHUP, on_hangup, r);
    r->grace = evtimer_new(b, on_grace, r);
    r->retry = evtimer_new(b, on_retry, r);
    if (r->on_wake == NULL || r->on_term == NULL || r->on_int == NULL || r->on_hup == NULL ||
        r->grace == NULL || r->retry == NULL)
        return fy_nomem(e);
    event_add(r->on_wake, NULL);
    event_add(r->on_term, NULL);
    event_add(r->on_int, NULL);
    event_add(r->on_hup, NULL);
    if (!r->s.o->end_with_input)
        return 0;
    r->on_input = event_new(b, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, r);
    if (r->on_input == NULL)
        return fy_nomem(e);
    return event_add(r->on_input, NULL) == 0
               ? 0
               : fy_fail(e, FY_EARG, "--end-with-input: standard input is a file or /dev/null, "
                                     "whose end cannot be waited for; expected a pipe");
}

static int begin(run_state *r, fy_err *e)
{
    const fy_server_options *o = r->s.o;
    if (add_events(r, e) != 0 ||
        (o->cert_file != NULL && fy_tls_open(o->cert_file, o->key_file, &r->net.tls, e) != 0) ||
        listen_all(r, e) != 0)
        return -1;
    for (int i = 0; i < FY_SERVER_WORKERS; i++) {
        if (fy_thread_start(&r->s.workers[i], work, &r->s, e) != 0)
            return -1;
        r->s.n_workers++;
    }
    if (fy_thread_start(&r->s.engine, run_engine, &r->s, e) != 0)
        return -1;
    r->s.has_engine = true;
    return 0;
}

/* Every thread ends before what it uses is freed. */
static void join_threads(run_state *r)
{
    fy_server *s = &r->s;
    pthread_mutex_lock(&s->lock);
    s->ends = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->n_workers; i++)
        pthread_join(s->workers[i], NULL);
    if (!s->has_engine)
        return;
    int loading = FY_SERVER_LOADING;
    if (atomic_compare_exchange_strong(&s->state, &loading, FY_SERVER_STOPPING))
        fy_interrupted = 1;
    else if (atomic_load(&s->is_loaded))
        fy_schedule_close(s->schedule, true);
    pthread_join(s->engine, NULL);
}

static void free_event(struct event *ev)
{
    if (ev != NULL)
        event_free(ev);
}

static void end(run_state *r)
{
    close_listeners(r);
    fy_conn_close_idle(&r->net, true);
    join_threads(r);
    for (fy_exchange *x; (x = fy_server_take_ready(&r->s)) != NULL;)
        fy_exchange_release(x);
    fy_schedule_free(r->s.schedule);
    fy_trie_free(r->s.trie);
    fy_trie_free(r->s.call_trie);
    free_event(r->on_wake);
    free_event(r->on_term);
    free_event(r->on_int);
    free_event(r->on_hup);
    free_event(r->on_input);
    free_event(r->grace);
    free_event(r->retry);
    if (r->net.base != NULL)
        event_base_free(r->net.base);
    if (r->wake >= 0)
        close(r->wake);
    fy_tls_free(r->net.tls);
    fy_str_release(&r->address);
    pthread_cond_destroy(&r->s.work);
    pthread_mutex_destroy(&r->s.lock);
    pthread_mutex_destroy(&r->s.trie_lock);
    free(r);
}

int fy_server_run(const fy_server_options *o, fy_err *e)
{
#ifdef __GLIBC__
    /* Large blocks go back to the system when they are freed; else the limit follows what was freed,
     * and what requests and the trie needed for a moment stays. */
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
#endif
    run_state *r = calloc(1, sizeof *r);
    if (r == NULL)
        return fy_nomem(e);
    r->wake = -1;
    r->s.o = o;
    r->s.start_time = (double)time(NULL);
    r->s.net = &r->net;
    r->net.s = &r->s;
    pthread_mutex_init(&r->s.lock, NULL);
    pthread_mutex_init(&r->s.trie_lock, NULL);
    pthread_cond_init(&r->s.work, NULL);
    int rc = begin(r, e);
    if (rc == 0 && event_base_dispatch(r->net.base) < 0)
        rc = fy_fail(e, FY_EIO, "the loop of events has failed");
    if (rc == 0 && atomic_load(&r->s.state) == FY_SERVER_FAILED && !r->stopping)
        rc = fy_fail(e, r->s.load_error.code, "%s", r->s.load_error.msg);
    if (rc == 0 && r->forced && fy_interrupted)
        rc = fy_fail(e, FY_EINTR, "interrupted");
    end(r);
    return rc;
}
