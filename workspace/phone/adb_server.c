/* Connections to the adb server, and what the server itself knows: phones, their states and
 * features, forwarded ports. `adb start-server` is the only program of Android's that ferry runs.
 */
#include "workspace/phone/adb_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "workspace/phone/explain.h"

/* --- waiting ---------------------------------------------------------------------------------- */

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

/* --- connecting ------------------------------------------------------------------------------- */

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

/* --- requests --------------------------------------------------------------------------------- */

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

int fy_adb_service(const fy_adb *a, fy_adb_link *l, const char *service, const char *arg, fy_err *e)
{
    char *transport = fy_path_format(e, "host:transport:%s", a->serial);
    char *request = transport != NULL ? fy_path_format(e, "%s%s", service, arg) : NULL;
    int rc = request != NULL ? fy_adb_dial(l, &a->at, e) : -1;
    if (rc > 0) /* it was there when the phone was opened */
        rc = fy_fail(e, FY_EDEVICE,
                     "the adb server at %s:%s has ended; run the command again to start it",
                     a->at.host, a->at.port);
    if (rc == 0 && (fy_adb_ask(l, transport, true, e) != 0 || fy_adb_ask(l, request, true, e) != 0))
        rc = -1;
    free(transport);
    free(request);
    if (rc != 0)
        fy_adb_hang_up(l);
    l->limit_s = a->at.stall_s;
    return rc;
}

/* --- adb start-server ------------------------------------------------------------------------- */

/* DIR/adb, or DIR/SUB/adb, when it can be run. */
static bool try_dir(const char *dir, size_t n, const char *sub, char out[PATH_MAX])
{
    int len = snprintf(out, PATH_MAX, "%.*s%s/adb", (int)n, dir, sub);
    return n > 0 && len > 0 && len < PATH_MAX && access(out, X_OK) == 0;
}

static bool find_adb(char out[PATH_MAX])
{
    static const struct {
        const char *variable, *sub;
    } homes[] = {{"ANDROID_HOME", "/platform-tools"},
                 {"ANDROID_SDK_ROOT", "/platform-tools"},
                 {"HOME", "/Android/Sdk/platform-tools"}};
    for (const char *dir = getenv("PATH"); dir != NULL && *dir != '\0';) {
        size_t n = strcspn(dir, ":");
        if (n < PATH_MAX && try_dir(dir, n, "", out))
            return true;
        dir += n + (dir[n] == ':');
    }
    for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
        const char *dir = getenv(homes[i].variable);
        if (dir != NULL && strlen(dir) < PATH_MAX && try_dir(dir, strlen(dir), homes[i].sub, out))
            return true;
    }
    return false;
}

static _Noreturn void become_adb(const char *adb, int output)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execl(adb, adb, "start-server", (char *)NULL);
    dprintf(STDERR_FILENO, "%s", strerror(errno));
    _exit(127);
}

/* The last line of what it wrote, where adb says what went wrong. */
static void last_line(int fd, char *out, size_t size)
{
    char text[2048];
    ssize_t n = pread(fd, text, sizeof text, 0);
    size_t end = n > 0 ? (size_t)n : 0;
    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == '\r'))
        end--;
    const char *line = end > 0 ? memrchr(text, '\n', end) : NULL;
    size_t begin = line != NULL ? (size_t)(line - text) + 1 : 0;
    fy_quote(out, size, (fy_span){text + begin, end - begin});
}

/* Waits for it, killing it when time is up. */
static int wait_for_adb(pid_t pid, double limit_s, int *status, fy_err *e)
{
    double until = fy_now_s() + limit_s;
    const struct timespec nap = {.tv_nsec = 20000000};
    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid)
            return 0;
        if (got < 0 && errno != EINTR)
            return fy_fail_errno(e, "cannot wait for adb");
        bool stop = fy_check_interrupt(e) != 0;
        if (stop || fy_now_s() > until) {
            kill(pid, SIGKILL);
            waitpid(pid, status, 0);
            return fy_fail(e, FY_EDEVICE, "it did not end within %g s", limit_s);
        }
        nanosleep(&nap, NULL);
    }
}

int fy_adb_start_server(const fy_adb_address *at, fy_err *e)
{
    char adb[PATH_MAX], said[2 * FY_ADB_REASON_MAX];
    if (!find_adb(adb))
        return fy_fail(e, FY_EDEVICE,
                       "no adb: nothing listens on %s:%s, and PATH, $ANDROID_HOME/platform-tools "
                       "and $ANDROID_SDK_ROOT/platform-tools hold no 'adb' to start; install it: "
                       "'apt install adb' (Debian, Ubuntu), 'brew install android-platform-tools', "
                       "or https://developer.android.com/tools/releases/platform-tools",
                       at->host, at->port);
    fy_log(FY_LOG_DEBUG, "nothing listens on %s:%s: starting %s", at->host, at->port, adb);
    int status = 0;
    /* Not a pipe: the server that adb leaves behind would keep its other end open. */
    int output = memfd_create("adb", MFD_CLOEXEC);
    if (output < 0)
        return fy_fail_errno(e, "cannot make a file in memory");
    pid_t pid = fork();
    if (pid == 0)
        become_adb(adb, output);
    int rc =
        pid > 0 ? wait_for_adb(pid, at->answer_s, &status, e) : fy_fail_errno(e, "cannot fork");
    if (rc == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
        last_line(output, said, sizeof said);
        rc = fy_fail(e, FY_EDEVICE, "it failed%s%s; run it by hand to see why",
                     said[0] != '\0' ? ": " : "", said);
    }
    close(output);
    return rc == 0 ? 0 : fy_ctx(e, "'%s start-server'", adb);
}

/* --- states ----------------------------------------------------------------------------------- */

int fy_adb_bad_state(const char *said, fy_err *e)
{
    char shown[2 * FY_ADB_REASON_MAX];
    const fy_explain_row *r = fy_explain_text(FY_EXPLAIN_ADB, said);
    if (r != NULL)
        return fy_fail(e, FY_EDEVICE, "%s; %s", r->meaning, r->remedy);
    return fy_fail(e, FY_EDEVICE, "adb says '%s', expected 'device'; 'adb devices' shows its state",
                   fy_quote(shown, sizeof shown, fy_span_of(said)));
}

/* --- questions to the server ------------------------------------------------------------------ */

/* Connected to the server, started when nothing listens. *started may be NULL. */
static int reach(fy_adb_link *l, const fy_adb_address *at, bool *started, fy_err *e)
{
    *l = (fy_adb_link){.fd = -1};
    int rc = fy_adb_dial(l, at, e);
    if (rc <= 0)
        return rc;
    if (!at->local)
        return fy_fail(
            e, FY_EDEVICE,
            "nothing listens on %s:%s; start an adb server there ('adb -a start-server')", at->host,
            at->port);
    if (fy_adb_start_server(at, e) != 0)
        return -1;
    if (started != NULL)
        *started = true;
    rc = fy_adb_dial(l, at, e);
    if (rc > 0)
        return fy_fail(e, FY_EDEVICE, "'adb start-server' ended well, but nothing listens on %s:%s",
                       at->host, at->port);
    return rc;
}

/* Asks for a text of the server. */
static int question(const fy_adb_address *at, const char *request, bool of_phone, fy_str *out,
                    bool *started, fy_err *e)
{
    fy_adb_link l;
    int rc = reach(&l, at, started, e);
    if (rc == 0)
        rc = fy_adb_ask(&l, request, of_phone, e);
    if (rc == 0)
        rc = fy_adb_read_text(&l.source, out, e);
    fy_adb_hang_up(&l);
    return rc;
}

static int list_devices(const fy_adb_address *at, fy_adb_device **out, size_t *n, bool *started,
                        fy_err *e)
{
    fy_str text = {0};
    int rc = question(at, "host:devices-l", false, &text, started, e);
    if (rc != 0)
        fy_ctx(e, "adb server at %s:%s", at->host, at->port);
    else
        rc = fy_adb_parse_devices((fy_span){fy_str_z(&text), text.len}, out, n, e);
    fy_str_release(&text);
    return rc;
}

int fy_adb_devices(fy_adb_device **out, size_t *n, fy_err *e)
{
    fy_adb_address at;
    return fy_adb_address_get(&at, e) == 0 ? list_devices(&at, out, n, NULL, e) : -1;
}

/* --- choosing a phone ------------------------------------------------------------------------- */

static const char no_phone[] =
    "no phone is connected: switch on USB debugging (Settings, Developer options), plug it in and "
    "accept its question; one in the network: 'adb connect HOST:PORT'";

/* "A (Pixel_8), B (unauthorized)" */
static void describe(const fy_adb_device *d, size_t n, fy_str *out)
{
    enum { ROOM = 200 };
    for (size_t i = 0; i < n; i++) {
        if (out->len > ROOM) {
            fy_str_printf(out, ", and %zu more", n - i);
            return;
        }
        bool usable = strcmp(d[i].state, "device") == 0;
        fy_str_puts(out, i > 0 ? ", " : "");
        fy_str_put_quoted(out, fy_span_of(d[i].serial), FY_QUOTE_BYTES);
        const char *word = usable ? d[i].model : d[i].state;
        if (*word == '\0')
            continue;
        fy_str_puts(out, " (");
        fy_str_put_quoted(out, fy_span_of(word), usable ? FY_QUOTE_BYTES : 16);
        fy_str_puts(out, ")");
    }
}

/* The device with the serial, or the only one; NULL with *e. */
static const fy_adb_device *choose(const fy_adb_device *d, size_t n, const char *serial, fy_err *e)
{
    if (n == 0) {
        fy_fail(e, FY_EDEVICE, "%s", no_phone);
        return NULL;
    }
    if (serial == NULL && n == 1)
        return d;
    for (size_t i = 0; serial != NULL && i < n; i++) {
        if (strcmp(d[i].serial, serial) == 0)
            return &d[i];
    }
    fy_str list = {0};
    char shown[FY_QUOTE_BYTES];
    describe(d, n, &list);
    if (serial != NULL)
        fy_fail(e, FY_EDEVICE, "no phone has the serial %s; connected: %s",
                fy_quote(shown, sizeof shown, fy_span_of(serial)), fy_str_z(&list));
    else
        fy_fail(e, FY_EDEVICE,
                "%zu phones are connected: %s; choose one with -s SERIAL or ANDROID_SERIAL", n,
                fy_str_z(&list));
    fy_str_release(&list);
    return NULL;
}

/* Is it worth a moment's waiting? */
static bool is_passing(const fy_adb_device *d)
{
    return strcmp(d->state, "connecting") == 0 || strcmp(d->state, "authorizing") == 0;
}

/* The serial (caller frees) of a phone that is there and usable. */
static char *find_phone(const fy_adb_address *at, const char *serial, fy_err *e)
{
    enum { WAIT_S = 3 }; /* for the phones that a server finds after its start */
    const struct timespec nap = {.tv_nsec = 100000000};
    bool started = false;
    double until = fy_now_s() + WAIT_S;
    for (;;) {
        fy_adb_device *d = NULL;
        size_t n = 0;
        char *found = NULL;
        if (list_devices(at, &d, &n, &started, e) != 0)
            return NULL;
        fy_err why = {0};
        const fy_adb_device *one = choose(d, n, serial, &why);
        bool again = one != NULL ? is_passing(one) : started && (n == 0 || serial != NULL);
        if (one != NULL && strcmp(one->state, "device") != 0) {
            fy_adb_bad_state(one->state, &why);
            fy_adb_ctx(one->serial, NULL, &why);
        } else if (one != NULL && (found = strdup(one->serial)) == NULL) {
            fy_nomem(&why);
        }
        fy_adb_devices_free(d, n);
        if (found != NULL)
            return found;
        if (!again || fy_now_s() > until || fy_check_interrupt(e) != 0) {
            fy_fail(e, why.code, "%s", why.msg);
            return NULL;
        }
        nanosleep(&nap, NULL);
    }
}

static char *ask_text(const fy_adb_address *at, const char *request, bool of_phone, fy_err *e)
{
    fy_str text = {0};
    char *out = NULL;
    if (question(at, request, of_phone, &text, NULL, e) == 0) /* ends at a NUL not to be there */
        out = fy_path_format(e, "%s", fy_str_z(&text));
    fy_str_release(&text);
    return out;
}

fy_adb *fy_adb_open(const char *serial, fy_err *e)
{
    const char *variable = getenv("ANDROID_SERIAL");
    bool given = serial != NULL && *serial != '\0';
    bool from_variable = !given && variable != NULL && *variable != '\0';
    char *request = NULL;
    fy_adb *a = calloc(1, sizeof *a);
    if (a == NULL) {
        fy_nomem(e);
        return NULL;
    }
    if (fy_adb_address_get(&a->at, e) != 0)
        goto fail;
    a->serial = find_phone(&a->at, given ? serial : from_variable ? variable : NULL, e);
    if (a->serial == NULL) {
        if (from_variable)
            fy_ctx(e, "ANDROID_SERIAL");
        goto fail;
    }
    fy_quote(a->name, sizeof a->name, fy_span_of(a->serial));
    request = fy_path_format(e, "host-serial:%s:features", a->serial);
    if (request == NULL)
        goto fail;
    a->phone = ask_text(&a->at, request, true, e);
    a->server = a->phone != NULL ? ask_text(&a->at, "host:host-features", false, e) : NULL;
    if (a->server == NULL) {
        fy_adb_ctx(a->serial, "asking for its features", e);
        goto fail;
    }
    if (!fy_list_has(a->phone, ',', "shell_v2")) {
        fy_fail(e, FY_EDEVICE,
                "no shell v2: its adb daemon would lose the exit status of a command; Android 7 "
                "and later have it");
        fy_adb_ctx(a->serial, NULL, e);
        goto fail;
    }
    free(request);
    return a;
fail:
    free(request);
    fy_adb_close(a);
    return NULL;
}

void fy_adb_close(fy_adb *a)
{
    if (a == NULL)
        return;
    free(a->serial);
    free(a->phone);
    free(a->server);
    free(a);
}

const char *fy_adb_serial(const fy_adb *a)
{
    return a->serial;
}

const char *fy_adb_name(const fy_adb *a)
{
    return a->name;
}

bool fy_adb_has(const fy_adb *a, const char *feature)
{
    return fy_list_has(a->phone, ',', feature) && fy_list_has(a->server, ',', feature);
}

/* --- ports ------------------------------------------------------------------------------------ */

/* The server says OKAY to the request, then to its result; a refusal of either is about ports. */
static int forwarding(const fy_adb *a, fy_adb_link *l, const char *request, fy_err *e)
{
    if (reach(l, &a->at, NULL, e) != 0 || fy_adb_ask(l, request, false, e) != 0)
        return -1;
    return fy_adb_take_okay(l, false, e);
}

int fy_adb_forward(const fy_adb *a, uint16_t host, uint16_t device, uint16_t *bound, fy_err *e)
{
    fy_adb_link l = {.fd = -1};
    fy_str port = {0};
    char *request =
        fy_path_format(e, "host-serial:%s:forward:tcp:%u;tcp:%u", a->serial, host, device);
    int rc = request != NULL ? forwarding(a, &l, request, e) : -1;
    unsigned long taken = host;
    if (rc == 0 && host == 0) {
        rc = fy_adb_read_text(&l.source, &port, e);
        taken = strtoul(fy_str_z(&port), NULL, 10);
        if (rc == 0 && (taken == 0 || taken > UINT16_MAX))
            rc = fy_fail(e, FY_EDEVICE, "the adb server names no port");
    }
    fy_adb_hang_up(&l);
    free(request);
    fy_str_release(&port);
    if (rc == 0)
        *bound = (uint16_t)taken;
    else
        fy_ctx(e, "forwarding port %u of this machine to port %u of the phone", host, device);
    return rc;
}

int fy_adb_forward_remove(const fy_adb *a, uint16_t host, fy_err *e)
{
    fy_adb_link l = {.fd = -1};
    char *request = fy_path_format(e, "host-serial:%s:killforward:tcp:%u", a->serial, host);
    int rc = request != NULL ? forwarding(a, &l, request, e) : -1;
    fy_adb_hang_up(&l);
    free(request);
    return rc == 0 ? 0 : fy_ctx(e, "forwarded port %u", host);
}

int fy_adb_forward_forget(const fy_adb *a, uint16_t device, fy_err *e)
{
    fy_str text = {0};
    char to[16];
    snprintf(to, sizeof to, "tcp:%u", device);
    int rc = question(&a->at, "host:list-forward", false, &text, NULL, e);
    fy_span rest = {fy_str_z(&text), text.len};
    while (rc == 0 && rest.len > 0) { /* "SERIAL tcp:8080 tcp:40123" */
        fy_span line = fy_span_cut_line(&rest);
        const fy_span serial = fy_span_cut_word(&line), local = fy_span_cut_word(&line);
        const unsigned long port =
            fy_span_begins(local, "tcp:") ? strtoul(local.ptr + 4, NULL, 10) : 0;
        if (fy_span_is(serial, a->serial) && fy_span_is(fy_span_cut_word(&line), to) && port > 0 &&
            port <= UINT16_MAX)
            rc = fy_adb_forward_remove(a, (uint16_t)port, e);
    }
    fy_str_release(&text);
    return rc;
}
