/* A client of HTTP/1.1 on 127.0.0.1 for tests and measurements: one request, and its answer as it
 * comes, decoded from its chunks. Sending blocks, receiving does not. Static functions: programs
 * that have nothing of ferry in them include it. */
#ifndef FY_TESTS_HTTP_CLIENT_H
#define FY_TESTS_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    int fd;     /* -1: closed */
    int status; /* 0: the head has not come */
    char *in;   /* owned: bytes that were not looked at yet, with a NUL after them */
    size_t n_in, cap_in;
    char *body; /* owned: the body so far, with a NUL after it */
    size_t n_body, cap_body;
    bool chunked, ended;
    size_t left; /* of the body, or of this chunk */
} http_client;

static inline double http_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void http_close(http_client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

static inline void http_free(http_client *c)
{
    http_close(c);
    free(c->in);
    free(c->body);
    *c = (http_client){.fd = -1};
}

/* Forgets the answer, and keeps connection and memory. */
static inline void http_clear(http_client *c)
{
    c->status = 0;
    c->n_in = c->n_body = c->left = 0;
    c->chunked = c->ended = false;
}

static inline int http_connect(http_client *c, int port)
{
    const struct sockaddr_in a = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1;
    http_close(c);
    http_clear(c);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&a, sizeof a) != 0) {
        http_close(c);
        return -1;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return 0;
}

static inline int http_put(http_client *c, const char *p, size_t n)
{
    while (n > 0) {
        const ssize_t k = send(c->fd, p, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return -1;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

/* Connects, unless it is connected, and sends a request; body NULL: a GET. */
static inline int http_ask(http_client *c, int port, const char *path, const char *body, size_t n)
{
    char head[512];
    if (c->fd < 0 && http_connect(c, port) != 0)
        return -1;
    http_clear(c);
    const int len = body == NULL
                        ? snprintf(head, sizeof head,
                                   "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", path, port)
                        : snprintf(head, sizeof head,
                                   "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                                   "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                                   path, port, n);
    return http_put(c, head, (size_t)len) != 0 || (body != NULL && http_put(c, body, n) != 0) ? -1
                                                                                              : 0;
}

static inline void http_append(char **to, size_t *n, size_t *cap, const char *p, size_t more)
{
    if (*n + more + 1 > *cap) {
        *cap = 2 * (*n + more) + 256;
        *to = realloc(*to, *cap);
        if (*to == NULL)
            abort();
    }
    memcpy(*to + *n, p, more);
    *n += more;
    (*to)[*n] = '\0';
}

/* The value of a field of the head, NULL without it. */
static inline const char *http_field(const char *head, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = strstr(head, "\r\n"); p != NULL; p = strstr(p + 2, "\r\n")) {
        if (strncasecmp(p + 2, name, n) == 0 && p[2 + n] == ':')
            return p + 3 + n + strspn(p + 3 + n, " ");
    }
    return NULL;
}

static inline bool http_take_head(http_client *c, size_t *at)
{
    char *end = strstr(c->in, "\r\n\r\n");
    if (end == NULL)
        return false;
    end[2] = '\0';
    const char *length = http_field(c->in, "content-length");
    const char *coding = http_field(c->in, "transfer-encoding");
    c->status = atoi(c->in + strcspn(c->in, " "));
    c->chunked = coding != NULL && strncasecmp(coding, "chunked", 7) == 0;
    c->left = c->chunked ? 0 : length != NULL ? (size_t)atoll(length) : SIZE_MAX;
    c->ended = !c->chunked && c->left == 0;
    *at = (size_t)(end + 4 - c->in);
    return true;
}

/* The line that begins a chunk; before all but the first one the end of the chunk's line. */
static inline bool http_take_chunk(http_client *c, size_t *at)
{
    const size_t skip = strncmp(c->in + *at, "\r\n", 2) == 0 ? 2 : 0;
    const char *line = c->in + *at + skip, *end = strstr(line, "\r\n");
    if (end == NULL)
        return false;
    c->left = (size_t)strtoull(line, NULL, 16);
    if (c->left == 0 && strncmp(end + 2, "\r\n", 2) != 0)
        return false; /* the end of all is still to come */
    c->ended = c->left == 0;
    *at = (size_t)(end + (c->ended ? 4 : 2) - c->in);
    return true;
}

static inline void http_decode(http_client *c)
{
    size_t at = 0;
    if (c->status == 0 && !http_take_head(c, &at))
        return;
    while (!c->ended && at < c->n_in) {
        if (c->chunked && c->left == 0) {
            if (!http_take_chunk(c, &at))
                break;
            continue;
        }
        const size_t have = c->n_in - at, n = have < c->left ? have : c->left;
        http_append(&c->body, &c->n_body, &c->cap_body, c->in + at, n);
        at += n;
        c->left -= n;
        c->ended = !c->chunked && c->left == 0;
    }
    memmove(c->in, c->in + at, c->n_in - at + 1);
    c->n_in -= at;
}

/* Takes what has come: 1: the answer is whole; 0: not yet; -1: the connection ended before it was.
 */
static inline int http_take(http_client *c)
{
    char buffer[65536];
    for (;;) {
        const ssize_t n = recv(c->fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0) {
            c->ended = c->status > 0 && !c->chunked && c->left > SIZE_MAX / 2;
            return c->ended ? 1 : -1;
        }
        http_append(&c->in, &c->n_in, &c->cap_in, buffer, (size_t)n);
        http_decode(c);
        if (c->ended)
            return 1;
        if ((size_t)n < sizeof buffer)
            return 0;
    }
}

#endif
