#include "workspace/phone/adb_link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"

/* --- waiting -----------------------------------------------------------------------------------
 */

/* Waits in slices: a signal may be taken by another thread, or come just before the wait. */
enum { SLICE_MS = 100 };

static int wait_for(const fy_adb_link *l, short events, fy_err *e)
{
    double until = fy_now_s() + l->limit_s;
    for (;;) {
        if (!l->after_interrupt && fy_check_interrupt(e) != 0)
            return -1;
        struct pollfd p = {.fd = l->fd, .events = events};
        int n = poll(&p, 1, SLICE_MS);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return fy_fail_errno(e, "cannot wait for the adb server");
        if (l->limit_s > 0 && fy_now_s() > until)
            return fy_fail(e, FY_EDEVICE,
                           "no answer for %g s; if it stays like that, plug the phone in again and "
                           "restart the adb server ('adb kill-server')",
                           l->limit_s);
    }
}

const char fy_adb_lost[] = "connection lost: the phone, its cable or the adb server went away; "
                           "check them ('adb devices') and run the command again";

static int lost(fy_err *e)
{
    return fy_fail(e, FY_EDEVICE, "%s", fy_adb_lost);
}

ssize_t fy_adb_link_read_some(fy_adb_link *l, void *p, size_t n, fy_err *e)
{
    for (;;) {
        if (!l->after_interrupt && fy_check_interrupt(e) != 0)
            return -1;
        ssize_t got = recv(l->fd, p, n, MSG_DONTWAIT);
        if (got >= 0)
            return got;
        if (errno != EAGAIN && errno != EINTR)
            return 0;
        if (wait_for(l, POLLIN, e) != 0)
            return -1;
    }
}

static int link_read(fy_adb_source *s, void *p, size_t n, fy_err *e)
{
    fy_adb_link *l = (fy_adb_link *)(void *)s;
    for (char *at = p; n > 0;) {
        ssize_t got = fy_adb_link_read_some(l, at, n, e);
        if (got <= 0)
            return got < 0 ? -1 : lost(e);
        at += got;
        n -= (size_t)got;
    }
    return 0;
}

int fy_adb_link_write(fy_adb_link *l, const void *p, size_t n, fy_err *e)
{
    for (const char *at = p; n > 0;) {
        if (!l->after_interrupt && fy_check_interrupt(e) != 0)
            return -1;
        ssize_t put = send(l->fd, at, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put > 0) {
            at += put;
            n -= (size_t)put;
        } else if (put < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (wait_for(l, POLLOUT, e) != 0)
                return -1;
        } else {
            return lost(e);
        }
    }
    return 0;
}

bool fy_adb_link_has_input(const fy_adb_link *l)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

void fy_adb_hang_up(fy_adb_link *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}

/* --- connecting --------------------------------------------------------------------------------
 */

/* 0; 1: refused; -1 */
static int connect_to(fy_adb_link *l, const struct addrinfo *a, const fy_adb_address *at, fy_err *e)
{
    l->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return fy_fail_errno(e, "cannot make a socket");
    int why = connect(l->fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (why == EINPROGRESS || why == EINTR) {
        socklen_t n = sizeof why;
        if (wait_for(l, POLLOUT, e) != 0)
            return -1;
        getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &why, &n);
    }
    if (why == ECONNREFUSED)
        return 1;
    if (why != 0)
        return fy_fail(e, FY_EDEVICE, "cannot reach the adb server at %s:%s: %s", at->host,
                       at->port, strerror(why));
    int one = 1; /* requests are small and answered before the next one */
    setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(l->fd, F_SETFL, 0); /* a socket that is handed out blocks; ours ask not to, each time */
    return 0;
}

int fy_adb_dial(fy_adb_link *l, const fy_adb_address *at, fy_err *e)
{
    *l = (fy_adb_link){.source = {link_read},
                       .fd = -1,
                       .limit_s = at->answer_s,
                       .after_interrupt = l->after_interrupt};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int bad = getaddrinfo(at->host, at->port, &hints, &list);
    if (bad != 0)
        return fy_fail(e, FY_EDEVICE, "the adb server's machine '%s' is not known: %s", at->host,
                       gai_strerror(bad));
    int rc = 1;
    for (const struct addrinfo *a = list; a != NULL && rc != 0; a = a->ai_next) {
        fy_err why = {0};
        rc = connect_to(l, a, at, &why);
        if (rc == 0)
            break;
        fy_adb_hang_up(l);
        if (why.code == FY_EINTR || (rc < 0 && a->ai_next == NULL)) {
            fy_fail(e, why.code, "%s", why.msg);
            break;
        }
    }
    freeaddrinfo(list);
    return rc;
}

/* The environment that adb itself obeys. */
static int split_socket_spec(const char *spec, fy_adb_address *at, fy_err *e)
{
    const char *rest = strncmp(spec, "tcp:", 4) == 0 ? spec + 4 : NULL;
    const char *colon = rest != NULL ? strrchr(rest, ':') : NULL;
    size_t n = colon != NULL ? (size_t)(colon - rest) : 0;
    if (rest == NULL || n >= sizeof at->host || strlen(colon != NULL ? colon + 1 : rest) > 5) {
        char shown[FY_QUOTE_BYTES];
        return fy_fail(e, FY_EARG, "ADB_SERVER_SOCKET is '%s', expected tcp:PORT or tcp:HOST:PORT",
                       fy_quote(shown, sizeof shown, fy_span_of(spec)));
    }
    if (n >= 2 && rest[0] == '[' && rest[n - 1] == ']')
        snprintf(at->host, sizeof at->host, "%.*s", (int)n - 2, rest + 1);
    else if (n > 0)
        snprintf(at->host, sizeof at->host, "%.*s", (int)n, rest);
    snprintf(at->port, sizeof at->port, "%s", colon != NULL ? colon + 1 : rest);
    return 0;
}

static bool is_port(const char *s)
{
    return *s != '\0' && strspn(s, "0123456789") == strlen(s) && strlen(s) <= 5 && atoi(s) >= 1 &&
           atoi(s) <= 65535;
}

static const char *set_variable(const char *name)
{
    const char *v = getenv(name);
    return v != NULL && *v != '\0' ? v : NULL;
}

static int get_timeout(fy_adb_address *at, fy_err *e)
{
    const char *text = set_variable("FERRY_ADB_TIMEOUT");
    char *end;
    double s = text != NULL ? strtod(text, &end) : 0;
    at->answer_s = FY_ADB_ANSWER_S;
    at->stall_s = FY_ADB_STALL_S;
    if (text == NULL)
        return 0;
    if (*end != '\0' || !(s > 0 && s <= 86400))
        return fy_fail(e, FY_EARG, "FERRY_ADB_TIMEOUT is '%.40s', expected seconds", text);
    at->answer_s = at->stall_s = s;
    return 0;
}

int fy_adb_address_get(fy_adb_address *at, fy_err *e)
{
    const char *spec = set_variable("ADB_SERVER_SOCKET");
    const char *host = set_variable("ANDROID_ADB_SERVER_ADDRESS");
    const char *port = set_variable("ANDROID_ADB_SERVER_PORT");
    *at = (fy_adb_address){.host = "127.0.0.1", .port = "5037"};
    if (get_timeout(at, e) != 0)
        return -1;
    if (spec != NULL) {
        if (split_socket_spec(spec, at, e) != 0)
            return -1;
    } else {
        if (host != NULL && strlen(host) < sizeof at->host)
            snprintf(at->host, sizeof at->host, "%s", host);
        if (port != NULL)
            snprintf(at->port, sizeof at->port, "%.*s", strlen(port) <= 5 ? 5 : 0, port);
    }
    if (!is_port(at->port))
        return fy_fail(e, FY_EARG, "%s is '%.40s', which holds no port: 1 to 65535",
                       spec != NULL ? "ADB_SERVER_SOCKET" : "ANDROID_ADB_SERVER_PORT",
                       spec != NULL ? spec : port);
    at->local = strcmp(at->host, "localhost") == 0 || strncmp(at->host, "127.", 4) == 0 ||
                strcmp(at->host, "::1") == 0;
    return 0;
}

/* --- requests ----------------------------------------------------------------------------------
 */

int fy_adb_ctx(const char *serial, const char *doing, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, fy_span_of(serial));
    return doing != NULL ? fy_ctx(e, "phone %s: %s", shown, doing) : fy_ctx(e, "phone %s", shown);
}

int fy_adb_take_okay(fy_adb_link *l, bool of_phone, fy_err *e)
{
    fy_str why = {0};
    char shown[2 * FY_ADB_REASON_MAX];
    int rc = fy_adb_read_status(&l->source, &why, e);
    if (rc == 0 && of_phone)
        fy_adb_bad_state(fy_str_z(&why), e);
    else if (rc == 0)
        fy_fail(e, FY_EDEVICE, "the adb server says '%s'",
                fy_quote(shown, sizeof shown, (fy_span){fy_str_z(&why), why.len}));
    fy_str_release(&why);
    return rc == 1 ? 0 : -1;
}

int fy_adb_ask(fy_adb_link *l, const char *request, bool of_phone, fy_err *e)
{
    char head[5];
    size_t n = strlen(request);
    if (n > FY_ADB_TEXT_MAX)
        return fy_fail(e, FY_EARG, "a command of %zu bytes for the phone, at most %d", n,
                       FY_ADB_TEXT_MAX);
    snprintf(head, sizeof head, "%04x", (unsigned)n);
    if (fy_adb_link_write(l, head, 4, e) != 0 || fy_adb_link_write(l, request, n, e) != 0)
        return -1;
    return fy_adb_take_okay(l, of_phone, e);
}

int fy_adb_service(const fy_adb *a, fy_adb_link *l, const char *service, fy_err *e)
{
    fy_str transport = {0};
    int rc = fy_adb_dial(l, &a->at, e);
    if (rc > 0) /* it was there when the phone was opened */
        rc = fy_fail(e, FY_EDEVICE,
                     "the adb server at %s:%s has ended; run the command again to start it",
                     a->at.host, a->at.port);
    fy_str_printf(&transport, "host:transport:%s", a->serial);
    if (rc == 0 && transport.oom)
        rc = fy_nomem(e);
    if (rc == 0)
        rc = fy_adb_ask(l, transport.ptr, true, e);
    if (rc == 0)
        rc = fy_adb_ask(l, service, true, e);
    fy_str_release(&transport);
    if (rc != 0)
        fy_adb_hang_up(l);
    l->limit_s = a->at.stall_s;
    return rc;
}
