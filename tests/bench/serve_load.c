/* Clients of a server of /completion on 127.0.0.1, ferry's or llama.cpp's, and what they see of it.
 * One thread that waits for all of them, so that the load costs little beside the server.
 *
 *   serve_load PORT [OPTION VALUE]...      streams, all begun at once; prints one JSON object
 *       clients N    1      prompt N     256   ids of each prompt      predict N    128
 *       seed N       1      of the prompts, which differ in every client
 *       same N       0      of each prompt as many ids are those of `of N` (a seed, 1): a beginning
 *                           that the server may know; it is asked to use its cache
 *       newcomer N   0      when the streams are half way, a prompt of so many ids comes: gap_ms is
 * the longest silence of a stream from then until its first token vocab N      20000  ids are below
 * it members JSON        further members of the request ("grammar":...) pid PID             of the
 * server: CPU time per token serve_load PORT hold N                 N connections that were used
 * once and stay open; prints "held" and waits for the end of its standard input serve_load PORT
 * start COMMAND...       milliseconds from its start to a /health of 200
 *
 * rate: tokens of all streams by the time from the first request to the last token. decode_rate: of
 * the tokens after the first one of each stream, by the time from the first of all to the last. */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>

#include "tests/e2e/http_client.h"

enum { CLIENTS_MAX = 256, IDS_MIN = 300 };

typedef struct {
    int port;
    long clients, prompt, predict, seed, same, of, newcomer, vocab;
    const char *members;
    long pid;
} options;

typedef struct {
    http_client http;
    double begun, first, last, gap;
    long tokens;
    bool over, failed;
} client;

static client g_clients[CLIENTS_MAX + 1]; /* the newcomer is the last one */

static void die(const char *what)
{
    fprintf(stderr, "serve_load: %s\n", what);
    exit(1);
}

/* --- requests --------------------------------------------------------------------------------- */

static long id_of(const options *o, long seed, long at)
{
    const uint64_t x = ((uint64_t)seed << 32 | (uint64_t)at) * 0x9E3779B97F4A7C15u;
    const long low = o->vocab > 2 * IDS_MIN ? IDS_MIN : 1;
    return low + (long)((x >> 33) % (uint64_t)(o->vocab - low));
}

static void ask(const options *o, client *c, long seed, long n_prompt, long n_predict)
{
    char *body = malloc((size_t)n_prompt * 8 + strlen(o->members) + 256);
    size_t n = (size_t)sprintf(body, "{\"prompt\":[");
    for (long i = 0; i < n_prompt; i++)
        n += (size_t)sprintf(body + n, "%s%ld", i > 0 ? "," : "",
                             id_of(o, i < o->same ? o->of : seed, i));
    n += (size_t)sprintf(body + n,
                         "],\"n_predict\":%ld,\"stream\":true,\"temperature\":0,"
                         "\"ignore_eos\":true,\"cache_prompt\":%s%s%s}",
                         n_predict, o->same > 0 ? "true" : "false", *o->members ? "," : "",
                         o->members);
    c->http.fd = -1;
    c->begun = http_now();
    if (http_ask(&c->http, o->port, "/completion", body, n) != 0)
        die("the server does not take a request");
    free(body);
}

/* --- streams ---------------------------------------------------------------------------------- */

/* The whole lines that have come. */
static void take_events(client *c, double now)
{
    http_client *h = &c->http;
    char *line = h->body, *end;
    while (h->n_body > 0 && (end = memchr(line, '\n', (size_t)(h->body + h->n_body - line)))) {
        *end = '\0';
        const char *count = strstr(line, "\"tokens_predicted\":");
        if (strncmp(line, "data: {", 7) == 0 && count != NULL) {
            c->tokens = atol(count + 19);
            if (c->first == 0)
                c->first = now;
            else if (now - c->last > c->gap)
                c->gap = now - c->last;
            c->last = now;
        }
        line = end + 1;
        if (line == h->body + h->n_body)
            break;
    }
    if (h->n_body > 0) {
        h->n_body -= (size_t)(line - h->body);
        memmove(h->body, line, h->n_body + 1);
    }
}

static void take(client *c)
{
    const int rc = http_take(&c->http);
    take_events(c, http_now());
    if (rc == 0)
        return;
    c->over = true;
    c->failed = rc < 0 || c->http.status != 200 || c->tokens == 0;
    if (c->failed)
        fprintf(stderr, "serve_load: status %d, %ld tokens\n", c->http.status, c->tokens);
    http_close(&c->http);
}

static bool half_way(const options *o)
{
    for (long i = 0; i < o->clients; i++) {
        if (g_clients[i].tokens < o->predict / 2)
            return false;
    }
    return true;
}

/* Waits for something to come. False: all is over. */
static bool wait_for_any(const options *o)
{
    struct pollfd fds[CLIENTS_MAX + 1];
    client *of[CLIENTS_MAX + 1];
    nfds_t n = 0;
    for (long i = 0; i <= o->clients; i++) {
        client *c = &g_clients[i];
        if (c->begun == 0 || c->over)
            continue;
        fds[n] = (struct pollfd){.fd = c->http.fd, .events = POLLIN};
        of[n++] = c;
    }
    if (n == 0)
        return false;
    if (poll(fds, n, 600000) <= 0)
        die("nothing came for ten minutes");
    for (nfds_t i = 0; i < n; i++) {
        if (fds[i].revents != 0)
            take(of[i]);
    }
    return true;
}

/* The longest silence of the streams since they were last told to begin with it. */
static double longest_gap(const options *o)
{
    double gap = 0;
    for (long i = 0; i < o->clients; i++) {
        const client *c = &g_clients[i];
        const double silent = c->over ? 0 : http_now() - c->last;
        gap = c->gap > gap ? c->gap : gap;
        gap = silent > gap ? silent : gap;
    }
    return gap;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double cpu_seconds(long pid)
{
    clockid_t clock;
    struct timespec t;
    if (pid == 0 || clock_getcpuclockid((pid_t)pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report(const options *o, double begin, double cpu_s, double gap)
{
    double ttft[CLIENTS_MAX], first = g_clients[0].first, last = 0;
    long tokens = 0, failed = 0;
    for (long i = 0; i < o->clients; i++) {
        const client *c = &g_clients[i];
        ttft[i] = 1e3 * (c->first - c->begun);
        first = c->first < first ? c->first : first;
        last = c->last > last ? c->last : last;
        tokens += c->tokens;
        failed += c->failed;
    }
    const client *late = &g_clients[o->clients];
    qsort(ttft, (size_t)o->clients, sizeof *ttft, compare);
    printf("{\"clients\":%ld,\"failed\":%ld,\"tokens\":%ld,\"seconds\":%.4f,\"rate\":%.3f,"
           "\"decode_rate\":%.3f,\"ttft_ms\":%.3f,\"ttft_max_ms\":%.3f,\"gap_ms\":%.3f",
           o->clients, failed, tokens, last - begin, (double)tokens / (last - begin),
           last > first ? (double)(tokens - o->clients) / (last - first) : 0,
           ttft[(o->clients - 1) / 2], ttft[o->clients - 1],
           1e3 * (gap > 0 ? gap : longest_gap(o)));
    if (o->newcomer > 0)
        printf(",\"newcomer_ms\":%.3f", 1e3 * (late->first - late->begun));
    if (o->pid > 0)
        printf(",\"cpu_us_per_token\":%.3f", 1e6 * cpu_s / (double)tokens);
    printf("}\n");
    if (failed > 0 || late->failed)
        exit(1);
}

static void run_streams(const options *o)
{
    client *late = &g_clients[o->clients];
    double gap = 0;
    const double cpu_before = cpu_seconds(o->pid), begin = http_now();
    for (long i = 0; i < o->clients; i++)
        ask(o, &g_clients[i], o->seed * 1000 + i, o->prompt, o->predict);
    while (wait_for_any(o)) {
        if (o->newcomer > 0 && late->begun == 0 && half_way(o)) {
            for (long i = 0; i < o->clients; i++)
                g_clients[i].gap = 0;
            ask(o, late, o->seed * 1000 + 999, o->newcomer, 1);
        }
        if (late->first > 0 && gap == 0)
            gap = longest_gap(o);
    }
    report(o, begin, cpu_seconds(o->pid) - cpu_before, gap);
}

/* --- the other uses --------------------------------------------------------------------------- */

static void hold(int port, long n)
{
    for (long i = 0; i < n; i++) {
        http_client c = {.fd = -1};
        struct pollfd p = {.events = POLLIN};
        if (http_ask(&c, port, "/health", NULL, 0) != 0)
            die("a connection is refused");
        do {
            p.fd = c.fd;
            poll(&p, 1, 10000);
        } while (http_take(&c) == 0);
        free(c.in); /* and the connection stays open */
        free(c.body);
    }
    puts("held");
    fflush(stdout);
    while (getchar() != EOF)
        ;
}

/* Fills c with the answer to a GET; its status is 0 where there is none. */
static void get(int port, const char *path, http_client *c)
{
    c->fd = -1;
    int rc = http_ask(c, port, path, NULL, 0) != 0 ? -1 : 0;
    while (rc == 0) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        rc = poll(&p, 1, 10000) <= 0 ? -1 : http_take(c);
    }
    http_close(c);
}

static void wait_ready(int port, pid_t pid)
{
    const struct timespec pause = {0, 500000};
    for (int status = 0; status != 200; nanosleep(&pause, NULL)) {
        http_client c = {.fd = -1};
        if (waitpid(pid, NULL, WNOHANG) > 0 || kill(pid, 0) != 0)
            die("the server has ended");
        get(port, "/health", &c);
        status = c.status;
        http_free(&c);
    }
}

static long said(int port)
{
    http_client c = {.fd = -1};
    get(port, "/metrics", &c);
    const char *line = c.status == 200 ? strstr(c.body, "\nferry_tokens_predicted_total ") : NULL;
    const long n = line != NULL ? atol(line + 30) : -1;
    http_free(&c);
    return n;
}

static void start(int port, char **command)
{
    const double begin = http_now();
    const pid_t pid = fork();
    if (pid == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    wait_ready(port, pid);
    printf("%.3f\n", 1e3 * (http_now() - begin));
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

static void read_options(options *o, char **argv)
{
    const struct {
        const char *name;
        long *value;
    } names[] = {{"clients", &o->clients},   {"prompt", &o->prompt}, {"predict", &o->predict},
                 {"seed", &o->seed},         {"same", &o->same},     {"of", &o->of},
                 {"newcomer", &o->newcomer}, {"vocab", &o->vocab},   {"pid", &o->pid}};
    for (; argv[0] != NULL && argv[1] != NULL; argv += 2) {
        size_t i = 0;
        while (i < sizeof names / sizeof *names && strcmp(argv[0], names[i].name) != 0)
            i++;
        if (strcmp(argv[0], "members") == 0)
            o->members = argv[1];
        else if (i < sizeof names / sizeof *names)
            *names[i].value = atol(argv[1]);
        else
            die("an option is unknown");
    }
    if (argv[0] != NULL || o->clients < 1 || o->clients > CLIENTS_MAX || o->vocab < 2)
        die("an option lacks its value, or it is out of range");
}

int main(int argc, char **argv)
{
    options o = {.clients = 1,
                 .prompt = 256,
                 .predict = 128,
                 .seed = 1,
                 .of = 1,
                 .vocab = 20000,
                 .members = ""};
    signal(SIGPIPE, SIG_IGN);
    o.port = argc > 1 ? atoi(argv[1]) : 0;
    if (o.port <= 0) {
        fprintf(stderr, "usage: serve_load PORT [OPTION VALUE]... | hold N | wait PID | said | "
                        "start COMMAND...\n");
        return 2;
    }
    if (argc > 3 && strcmp(argv[2], "hold") == 0) {
        hold(o.port, atol(argv[3]));
    } else if (argc > 3 && strcmp(argv[2], "wait") == 0) {
        wait_ready(o.port, (pid_t)atol(argv[3]));
    } else if (argc > 2 && strcmp(argv[2], "said") == 0) {
        printf("%ld\n", said(o.port));
    } else if (argc > 3 && strcmp(argv[2], "start") == 0) {
        start(o.port, argv + 3);
    } else {
        read_options(&o, argv + 2);
        run_streams(&o);
    }
    return 0;
}
