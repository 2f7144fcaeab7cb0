/* phone_adbd ROOT CONTROL BANNER PORT_FILE
 *
 * CONTROL.stats holds the bytes that have passed the link, "to the phone, from it", since the
 * start; it is written whenever a stream ends, and with a rate at each message. CONTROL.services gets a line for each service that is
 * asked for ("exec:COMMAND", "shell,v2:COMMAND", "sync:") and each file that sync writes ("SEND
 * PATH").
 *
 * Listens on a free port of 127.0.0.1, writes its number to the port file and serves one adb server
 * at a time, again and again, until it is killed. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/phone/phone.h"

#define TAG(a, b, c, d) \
    ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)
enum { MAX_PAYLOAD = 1 << 18, MAX_STREAMS = 64, VERSION = 0x01000001 };
#define CNXN TAG('C', 'N', 'X', 'N')
#define AUTH TAG('A', 'U', 'T', 'H')
#define OPEN TAG('O', 'P', 'E', 'N')
#define OKAY TAG('O', 'K', 'A', 'Y')
#define CLSE TAG('C', 'L', 'S', 'E')
#define WRTE TAG('W', 'R', 'T', 'E')

typedef struct {
    uint32_t remote; /* the host's id; 0: the slot is free */
    uint32_t id;     /* ours; never used twice, as a late CLSE may still name an old one */
    int fd;          /* our end of the service's socket pair */
    pid_t pid;
    bool may_write; /* the host has acknowledged what we sent */
    char *pending;  /* what the host sent and the service has not taken yet */
    size_t n_pending, done;
} stream;

typedef struct {
    phone phone;
    phone_control control;
    const char *control_path, *banner;
    int link;
    uint64_t passed;               /* bytes of the link since the control file was read */
    uint64_t to_phone, from_phone; /* since the start */
    stream streams[MAX_STREAMS];
    uint32_t last_id;
} daemon_state;

static bool count(daemon_state *d, size_t n)
{
    d->passed += n;
    if (d->control.drop_after == 0 || d->passed < d->control.drop_after)
        return true;
    d->control.drop_after = 0; /* once */
    return false;
}

static void write_stats(const daemon_state *d)
{
    char path[4096], fresh[4096];
    snprintf(path, sizeof path, "%s.stats", d->control_path);
    snprintf(fresh, sizeof fresh, "%s.stats.new", d->control_path);
    FILE *f = fopen(fresh, "w");
    if (f == NULL)
        return;
    fprintf(f, "%llu %llu\n", (unsigned long long)d->to_phone, (unsigned long long)d->from_phone);
    fclose(f);
    rename(fresh, path); /* a reader finds one or the other, whole */
}

static void throttle(const daemon_state *d, size_t n)
{
    if (d->control.rate == 0)
        return;
    uint64_t ns = (uint64_t)n * 1000000000u / d->control.rate;
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&t, NULL);
    write_stats(d);
}

static bool send_message(daemon_state *d, uint32_t command, uint32_t arg0, uint32_t arg1,
                         const void *data, size_t n)
{
    uint32_t head[6] = {command, arg0, arg1, (uint32_t)n, 0, ~command};
    d->from_phone += sizeof head + n;
    if (!count(d, sizeof head + n))
        return false;
    throttle(d, n);
    return phone_write(d->link, head, sizeof head) && phone_write(d->link, data, n);
}

/* --- streams ---------------------------------------------------------------------------------- */

static void end_stream(daemon_state *d, stream *s)
{
    write_stats(d);
    close(s->fd);
    free(s->pending);
    if (s->pid > 0)
        waitpid(s->pid, NULL, WNOHANG);
    *s = (stream){0};
}

static _Noreturn void serve(daemon_state *d, int fd, const char *service)
{
    close(d->link);
    for (size_t i = 0; i < MAX_STREAMS; i++) {
        if (d->streams[i].remote != 0)
            close(d->streams[i].fd);
    }
    signal(SIGCHLD, SIG_DFL);
    const char *colon = strchr(service, ':');
    phone_note(&d->phone, "", service);
    if (strcmp(service, "sync:") == 0)
        phone_sync(&d->phone, fd);
    if (strncmp(service, "exec:", 5) == 0)
        phone_exec(&d->phone, fd, service + 5);
    char args[128] = "";
    snprintf(args, sizeof args, "%.*s", (int)(colon - service), service);
    phone_shell(&d->phone, fd, args, colon + 1);
}

static int free_stream(const daemon_state *d)
{
    size_t i = 0;
    while (i < MAX_STREAMS && d->streams[i].remote != 0)
        i++;
    return i < MAX_STREAMS ? (int)i : -1;
}

static bool add_stream(daemon_state *d, int i, uint32_t remote, int fd, pid_t pid)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    d->streams[i] =
        (stream){.remote = remote, .id = ++d->last_id, .fd = fd, .pid = pid, .may_write = true};
    return send_message(d, OKAY, d->last_id, remote, "", 0);
}

/* A forwarded port: the phone's loopback is this machine's. */
static bool open_port(daemon_state *d, uint32_t remote, const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(port)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int i = free_stream(d), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    phone_note(&d->phone, "tcp:", port);
    if (i >= 0 && fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        return add_stream(d, i, remote, fd, 0);
    if (fd >= 0)
        close(fd);
    return send_message(d, CLSE, 0, remote, "", 0);
}

static bool open_stream(daemon_state *d, uint32_t remote, const char *service)
{
    if (strncmp(service, "tcp:", 4) == 0)
        return open_port(d, remote, service + 4);
    bool known = strcmp(service, "sync:") == 0 || strncmp(service, "exec:", 5) == 0 ||
                 (strncmp(service, "shell", 5) == 0 && strchr(service, ':') != NULL);
    const int i = free_stream(d);
    int pair[2];
    if (!known || i < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return send_message(d, CLSE, 0, remote, "", 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        close(pair[0]);
        serve(d, pair[1], service);
    }
    close(pair[1]);
    return add_stream(d, i, remote, pair[0], pid);
}

/* Hands pending bytes to the service; the host gets its OKAY when all are taken. */
static bool feed(daemon_state *d, size_t i)
{
    stream *s = &d->streams[i];
    while (s->done < s->n_pending) {
        ssize_t n = send(s->fd, s->pending + s->done, s->n_pending - s->done, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n < 0)
            break; /* the service does not read any more: as if it had */
        s->done += (size_t)n;
    }
    free(s->pending);
    s->pending = NULL;
    s->n_pending = s->done = 0;
    return send_message(d, OKAY, s->id, s->remote, "", 0);
}

/* Takes what the service says, or its end. */
static bool drain(daemon_state *d, size_t i)
{
    static char data[1 << 16];
    stream *s = &d->streams[i];
    size_t most =
        d->control.chunk > 0 && d->control.chunk < sizeof data ? d->control.chunk : sizeof data;
    ssize_t n = recv(s->fd, data, most, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n > 0) {
        s->may_write = false;
        return send_message(d, WRTE, s->id, s->remote, data, (size_t)n);
    }
    uint32_t id = s->id, remote = s->remote;
    end_stream(d, s);
    return send_message(d, CLSE, id, remote, "", 0);
}

/* --- messages --------------------------------------------------------------------------------- */

static bool greet(daemon_state *d)
{
    static const char token[20] = "nineteen and a half";
    if (d->control.unauthorized)
        return send_message(d, AUTH, 1, 0, token, sizeof token);
    char text[1024];
    int n = snprintf(text, sizeof text, "device::%s;features=%s", d->banner, d->control.features);
    return send_message(d, CNXN, VERSION, MAX_PAYLOAD, text, (size_t)n);
}

static bool handle(daemon_state *d, const uint32_t head[6], char *data)
{
    if (head[0] == CNXN)
        return greet(d);
    if (head[0] == AUTH) /* signatures get another token, a public key waits for ever */
        return head[1] == 2 ? greet(d) : true;
    if (head[0] == OPEN)
        return open_stream(d, head[1], data);
    size_t i = 0;
    while (i < MAX_STREAMS && (d->streams[i].remote == 0 || d->streams[i].id != head[2]))
        i++;
    if (i == MAX_STREAMS)
        return head[0] == CLSE ? true : send_message(d, CLSE, 0, head[1], "", 0);
    stream *s = &d->streams[i];
    if (head[0] == OKAY) {
        s->may_write = true;
    } else if (head[0] == CLSE) {
        end_stream(d, s);
    } else if (head[0] == WRTE && s->pending == NULL) {
        s->pending = malloc(head[3] + 1);
        memcpy(s->pending, data, head[3]);
        s->n_pending = head[3];
        return feed(d, i);
    }
    return true;
}

static bool read_message(daemon_state *d)
{
    static char data[MAX_PAYLOAD + 1];
    uint32_t head[6];
    if (!phone_read(d->link, head, sizeof head) || head[5] != ~head[0] || head[3] > MAX_PAYLOAD ||
        !phone_read(d->link, data, head[3]))
        return false;
    data[head[3]] = '\0';
    d->to_phone += sizeof head + head[3];
    throttle(d, head[3]);
    return count(d, sizeof head + head[3]) && handle(d, head, data);
}

/* One connection of the adb server, until either side ends it. */
static void serve_link(daemon_state *d)
{
    for (bool here = true; here;) {
        struct pollfd f[1 + MAX_STREAMS] = {{.fd = d->link, .events = POLLIN}};
        for (size_t i = 0; i < MAX_STREAMS; i++) {
            const stream *s = &d->streams[i];
            short events =
                (short)((s->may_write ? POLLIN : 0) | (s->pending != NULL ? POLLOUT : 0));
            f[1 + i] =
                (struct pollfd){.fd = s->remote != 0 && events != 0 ? s->fd : -1, .events = events};
        }
        if (poll(f, 1 + MAX_STREAMS, -1) < 0)
            continue;
        if (phone_control_read(d->control_path, &d->control))
            d->passed = 0;
        for (size_t i = 0; here && i < MAX_STREAMS; i++) {
            if ((f[1 + i].revents & POLLOUT) != 0 && d->streams[i].pending != NULL)
                here = feed(d, i);
            if (here && (f[1 + i].revents & (POLLIN | POLLHUP)) != 0 && d->streams[i].remote != 0 &&
                d->streams[i].may_write)
                here = drain(d, i);
        }
        if (here && f[0].revents != 0)
            here = read_message(d);
    }
    for (size_t i = 0; i < MAX_STREAMS; i++) {
        if (d->streams[i].remote != 0)
            end_stream(d, &d->streams[i]);
    }
}

static int listen_free(const char *port_file)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) != 0 || listen(fd, 4) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) != 0)
        return -1;
    FILE *f = fopen(port_file, "w");
    if (f == NULL)
        return -1;
    fprintf(f, "%d\n", ntohs(at.sin_port));
    fclose(f);
    return fd;
}

int main(int argc, char **argv)
{
    static daemon_state d;
    if (argc != 5) {
        fprintf(stderr, "usage: phone_adbd ROOT CONTROL BANNER PORT_FILE\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a test that is killed takes its phone along */
    static char log[4096];
    snprintf(log, sizeof log, "%s.services", argv[2]);
    d.phone = (phone){.root = argv[1], .control = &d.control, .log = log};
    d.control_path = argv[2];
    d.banner = argv[3];
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    int listener = listen_free(argv[4]);
    if (listener < 0) {
        perror("phone_adbd");
        return 1;
    }
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        close(listener);
        phone_init(&d.phone);
    }
    for (;;) {
        d.link = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (d.link < 0)
            continue;
        int one = 1;
        setsockopt(d.link, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        phone_control_read(d.control_path, &d.control);
        d.passed = 0;
        serve_link(&d);
        close(d.link);
    }
}
