/* A hub for tests: what ferry fetch asks of huggingface.co, on 127.0.0.1, with the ways in which it
 * can fail.
 *
 *     hub_server DIR        prints "HUB_PORT CDN_PORT", serves until its standard input ends
 *
 *     DIR/api/ORG/NAME/REVISION      replies of /api/models/ORG/NAME/revision/REVISION
 *     DIR/files/ORG/NAME/COMMIT/FILE contents; beside each FILE.etag: its hash. One of 64 digits is
 * an LFS file, which is answered by a redirect to the second port, as by the hub to its CDN
 *     DIR/token                      if there: requests to the hub need this token, else 401
 *     DIR/gated                      if there: 403 for everything, GatedRepo
 *     DIR/faults                     lines "PORT PART ACTION ARGUMENT TIMES": a request to PORT
 * (hub or cdn) whose path has PART gets ACTION, TIMES times (0: always). Counted from the last
 * change of the file on. DIR/log                        one line per request: PORT METHOD PATH
 * STATUS authorization=... range=...
 *
 * Actions: status N | retry SECONDS (429) | cut N (the connection ends N bytes into the body) |
 * hang N (falls silent there) | flip N (byte N is another one) | more N (N bytes too many) |
 * norange - (200 with all of it) | slow MS (per 16 KiB) | drip MS (per byte) | elsewhere URL (a redirect to it) | etag
 * HEX (another X-Linked-Etag)
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HUB, CDN, LINE = 4096, RULES = 64, CHUNK = 16384 };

static const char *g_dir;
static int g_port[2];
static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
    int fd, port; /* HUB, CDN */
    char method[16], path[LINE], authorization[LINE], range[64];
    char action[32], argument[512]; /* of the fault that applies; "" */
} request;

static void path_in(char out[LINE], const char *fmt, ...)
{
    char tail[LINE / 2];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(tail, sizeof tail, fmt, ap);
    va_end(ap);
    snprintf(out, LINE, "%.2000s/%s", g_dir, tail);
}

/* The first line of a file; false: there is none. */
static bool first_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return false;
    if (fgets(out, (int)size, f) == NULL)
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    fclose(f);
    return true;
}

static bool exists(const char *name)
{
    char path[LINE];
    path_in(path, "%s", name);
    return access(path, F_OK) == 0;
}

/* --- faults ----------------------------------------------------------------------------------- */

/* The first rule that fits and is not used up. */
static void find_fault(request *r)
{
    static struct timespec read_at;
    static int used[RULES];
    char path[LINE], line[LINE];
    struct stat st;
    path_in(path, "faults");
    pthread_mutex_lock(&g_lock);
    FILE *f = stat(path, &st) == 0 ? fopen(path, "r") : NULL;
    if (f != NULL && memcmp(&st.st_mtim, &read_at, sizeof read_at) != 0) {
        memset(used, 0, sizeof used);
        read_at = st.st_mtim;
    }
    for (int i = 0; f != NULL && i < RULES && fgets(line, sizeof line, f) != NULL; i++) {
        char port[8], part[256], action[32], argument[512];
        int times;
        if (sscanf(line, "%7s %255s %31s %511s %d", port, part, action, argument, &times) != 5)
            continue;
        if ((strcmp(port, "cdn") == 0) != (r->port == CDN) || strstr(r->path, part) == NULL ||
            (times > 0 && used[i] >= times))
            continue;
        used[i]++;
        snprintf(r->action, sizeof r->action, "%s", action);
        snprintf(r->argument, sizeof r->argument, "%s", argument);
        break;
    }
    if (f != NULL)
        fclose(f);
    pthread_mutex_unlock(&g_lock);
}

static bool fault(const request *r, const char *action)
{
    return strcmp(r->action, action) == 0;
}

static long long argument(const request *r)
{
    return strtoll(r->argument, NULL, 10);
}

/* --- replies ---------------------------------------------------------------------------------- */

static bool send_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = send(fd, p, n, MSG_NOSIGNAL);
        if (w <= 0)
            return false;
        p += w;
        n -= (size_t)w;
    }
    return true;
}

static void note(const request *r, int status)
{
    char path[LINE];
    path_in(path, "log");
    pthread_mutex_lock(&g_lock);
    FILE *f = fopen(path, "a");
    if (f != NULL) {
        fprintf(f, "%s %s %s %d authorization=%s range=%s\n", r->port == CDN ? "cdn" : "hub",
                r->method, r->path, status, r->authorization, r->range);
        fclose(f);
    }
    pthread_mutex_unlock(&g_lock);
}

/* A reply without contents of its own. headers: lines that end in \r\n. */
static bool reply(const request *r, int status, const char *headers)
{
    char head[2 * LINE];
    const char *body = strcmp(r->method, "HEAD") == 0 ? "" : "no\n";
    int n = snprintf(head, sizeof head, "HTTP/1.1 %d X\r\nContent-Length: 3\r\n%s\r\n%s", status,
                     headers, body);
    note(r, status);
    return send_all(r->fd, head, (size_t)n);
}

/* Contents from a file, with the faults of bodies. False: the connection is at its end. */
static bool send_file(const request *r, FILE *f, long long from, long long size)
{
    char buf[CHUNK + 1];
    long long end = fault(r, "cut") || fault(r, "hang") ? from + argument(r) : size;
    fseek(f, (long)from, SEEK_SET);
    for (long long at = from; at < size && at < end;) {
        long long left = (end < size ? end : size) - at;
        const long long most = fault(r, "drip") ? 1 : CHUNK;
        size_t n = fread(buf, 1, (size_t)(left < most ? left : most), f);
        if (n == 0)
            return false;
        if (fault(r, "flip") && argument(r) >= at && argument(r) < at + (long long)n)
            buf[argument(r) - at] ^= 1;
        if (fault(r, "slow") || fault(r, "drip"))
            usleep((useconds_t)argument(r) * 1000);
        if (!send_all(r->fd, buf, n))
            return false;
        at += (long long)n;
    }
    if (fault(r, "hang"))
        recv(r->fd, buf, 1, 0); /* until the other side gives up */
    for (long long i = 0; fault(r, "more") && i < argument(r); i++)
        send_all(r->fd, "x", 1);
    return end >= size && !fault(r, "hang");
}

static bool serve_file(const request *r, const char *path, const char *headers)
{
    struct stat st;
    char head[2 * LINE], range[128] = "";
    FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "r") : NULL;
    if (f == NULL)
        return reply(r, 404, "X-Error-Code: EntryNotFound\r\n");
    long long size = st.st_size, from = 0;
    if (strncmp(r->range, "bytes=", 6) == 0 && !fault(r, "norange")) {
        from = strtoll(r->range + 6, NULL, 10);
        if (from >= size) {
            fclose(f);
            return reply(r, 416, "");
        }
        snprintf(range, sizeof range, "Content-Range: bytes %lld-%lld/%lld\r\n", from, size - 1,
                 size);
    }
    int status = range[0] != '\0' ? 206 : 200;
    int n = snprintf(head, sizeof head, "HTTP/1.1 %d OK\r\nContent-Length: %lld\r\n%s%s\r\n",
                     status, size - from + (fault(r, "more") ? argument(r) : 0), range, headers);
    note(r, status);
    bool go_on = send_all(r->fd, head, (size_t)n);
    if (go_on && strcmp(r->method, "HEAD") != 0)
        go_on = send_file(r, f, from, size);
    fclose(f);
    return go_on;
}

/* /ORG/NAME/resolve/COMMIT/FILE. Percent signs do not occur in the tests' names. */
static bool resolve(const request *r, const char *repo, const char *rest)
{
    char path[LINE], etag[256], headers[LINE], commit[128];
    struct stat st;
    snprintf(commit, sizeof commit, "%.*s", (int)strcspn(rest, "/"), rest);
    path_in(path, "files/%s/%s.etag", repo, rest);
    if (!first_line(path, etag, sizeof etag))
        return reply(r, 404, "X-Error-Code: EntryNotFound\r\n");
    path_in(path, "files/%s/%s", repo, rest);
    if (strlen(etag) != 64) {
        snprintf(headers, sizeof headers, "ETag: \"%s\"\r\nX-Repo-Commit: %s\r\n", etag, commit);
        return serve_file(r, path, headers);
    }
    snprintf(headers, sizeof headers,
             "X-Linked-Etag: \"%s\"\r\nX-Linked-Size: %lld\r\nX-Repo-Commit: %s\r\n"
             "Location: http://127.0.0.1:%d/lfs/%.1000s/%.1000s?signature=abc\r\n",
             fault(r, "etag") ? r->argument : etag,
             stat(path, &st) == 0 ? (long long)st.st_size : -1, commit, g_port[CDN], repo, rest);
    return reply(r, 302, headers);
}

static bool serve_hub(const request *r)
{
    char path[LINE], repo[LINE], token[256], want[300];
    path_in(path, "token");
    if (first_line(path, token, sizeof token)) {
        snprintf(want, sizeof want, "Bearer %s", token);
        if (strcmp(r->authorization, want) != 0)
            return reply(r, 401,
                         "X-Error-Code: RepoNotFound\r\nX-Error-Message: Invalid credentials\r\n");
    }
    if (exists("gated"))
        return reply(r, 403,
                     "X-Error-Code: GatedRepo\r\nX-Error-Message: Access is restricted\r\n");
    const char *api = "/api/models/", *at = strstr(r->path, "/revision/");
    if (strncmp(r->path, api, strlen(api)) == 0 && at != NULL) {
        snprintf(repo, sizeof repo, "%.*s", (int)(at - r->path) - (int)strlen(api),
                 r->path + strlen(api));
        path_in(path, "api/%s", repo);
        if (access(path, F_OK) != 0)
            return reply(r, 404, "X-Error-Code: RepoNotFound\r\n");
        path_in(path, "api/%s/%s", repo, at + strlen("/revision/"));
        if (access(path, F_OK) != 0)
            return reply(r, 404, "X-Error-Code: RevisionNotFound\r\n");
        return serve_file(r, path, "Content-Type: application/json\r\n");
    }
    at = strstr(r->path, "/resolve/");
    if (at == NULL)
        return reply(r, 404, "");
    snprintf(repo, sizeof repo, "%.*s", (int)(at - r->path) - 1, r->path + 1);
    return resolve(r, repo, at + strlen("/resolve/"));
}

static bool serve_cdn(const request *r)
{
    char path[LINE];
    if (strncmp(r->path, "/lfs/", 5) != 0)
        return reply(r, 404, "");
    path_in(path, "files/%s", r->path + 5);
    return serve_file(r, path, "ETag: \"the-cdn-s-own\"\r\n");
}

static bool answer(request *r)
{
    char headers[LINE];
    find_fault(r);
    r->path[strcspn(r->path, "?")] = '\0';
    if (strstr(r->path, "..") != NULL)
        return reply(r, 400, "");
    if (fault(r, "status"))
        return reply(r, (int)argument(r), "");
    if (fault(r, "retry")) {
        snprintf(headers, sizeof headers, "Retry-After: %lld\r\n", argument(r));
        return reply(r, 429, headers);
    }
    if (fault(r, "elsewhere")) {
        snprintf(headers, sizeof headers, "Location: %s\r\n", r->argument);
        return reply(r, 302, headers);
    }
    return r->port == CDN ? serve_cdn(r) : serve_hub(r);
}

/* --- connections ------------------------------------------------------------------------------ */

static bool read_line(FILE *in, char line[LINE])
{
    if (fgets(line, LINE, in) == NULL)
        return false;
    line[strcspn(line, "\r\n")] = '\0';
    return true;
}

static void header(const char *line, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) == 0 && line[n] == ':')
        snprintf(out, size, "%s", line + n + 1 + strspn(line + n + 1, " "));
}

static void *serve(void *user)
{
    request *from = user;
    FILE *in = fdopen(dup(from->fd), "r");
    char line[LINE];
    while (in != NULL && read_line(in, line)) {
        request r = {.fd = from->fd, .port = from->port};
        if (sscanf(line, "%15s %4095s", r.method, r.path) != 2)
            break;
        while (read_line(in, line) && line[0] != '\0') {
            header(line, "Authorization", r.authorization, sizeof r.authorization);
            header(line, "Range", r.range, sizeof r.range);
        }
        if (!answer(&r))
            break;
    }
    if (in != NULL)
        fclose(in);
    shutdown(from->fd, SHUT_RDWR);
    close(from->fd);
    free(from);
    return NULL;
}

typedef struct {
    int fd, port;
} listener;

static void *accept_all(void *user)
{
    const listener *l = user;
    for (int fd; (fd = accept(l->fd, NULL, NULL)) >= 0;) {
        request *r = calloc(1, sizeof *r);
        pthread_t t;
        if (r == NULL)
            abort();
        r->fd = fd;
        r->port = l->port;
        if (pthread_create(&t, NULL, serve, r) != 0)
            abort();
        pthread_detach(t);
    }
    return NULL;
}

static void listen_at(listener *l, int which)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    l->port = which;
    l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(l->fd, 64) != 0 ||
        getsockname(l->fd, (struct sockaddr *)&a, &n) != 0) {
        perror("hub_server");
        exit(1);
    }
    g_port[which] = ntohs(a.sin_port);
}

int main(int argc, char **argv)
{
    static listener l[2];
    pthread_t t;
    char byte;
    if (argc != 2)
        return 2;
    g_dir = argv[1];
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < 2; i++)
        listen_at(&l[i], i);
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&t, NULL, accept_all, &l[i]) != 0)
            return 1;
    }
    printf("%d %d\n", g_port[HUB], g_port[CDN]);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    return 0;
}
