/* Clients of every kind at once against a ferry serve on 127.0.0.1: good ones, slow ones, some that
 * leave, some that send nonsense. First a table of requests is answered alone; afterwards every
 * good answer has to be the same, byte for byte (but for times, ids, and what came from a cache).
 *
 *   soak_clients PORT PID CLIENTS SECONDS      prints what happened, "name value" per line
 *
 *   soak_clients PORT reset        resets a connection, prints how many requests were cancelled
 *
 * Another connection asks for /health all the time. Memory and file descriptors of the process PID
 * are counted after some seconds of the same, when buffers have their size, and at the end. */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "tests/e2e/http_client.h"

enum { CLIENTS_MAX = 256, N_REQUESTS = 24, BODY_MAX = 1024, HEALTH_MAX = 1 << 20, WARM_S = 6 };

typedef enum { GOOD, SLOW, LEAVES, UNREAD, BAD_JSON, BAD_HEAD, DRIP, TOO_LONG, KINDS } kind;
static const char *const kind_names[KINDS] = {"good",     "slow",     "left",    "unread",
                                              "bad_json", "bad_head", "dripped", "too_long"};

typedef struct {
    const char *path;
    char body[BODY_MAX];
    char *answer; /* owned: what comes when it is alone */
} request;

static request g_requests[N_REQUESTS];
static int g_port, g_pid;
static _Atomic bool g_ends;
static _Atomic long g_done[KINDS], g_differ, g_unexpected;
static double g_health[HEALTH_MAX];
static size_t g_n_health;

/* --- requests --------------------------------------------------------------------------------- */

/* Texts and conversations, with and without streams, choices, probabilities, grammars, stops. */
static void make_requests(void)
{
    static const char *const extra[] = {
        "",
        ",\"n_probs\":2",
        ",\"stop\":[\" the\",\"zzz\"]",
        ",\"grammar\":\"root ::= [a-z ,.]+\"",
        ",\"stream\":true",
        ",\"json_schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}",
    };
    for (int i = 0; i < N_REQUESTS; i++) {
        request *r = &g_requests[i];
        const bool chat = i % 3 == 2,
                   two = i % 7 == 3 && i % 6 != 4; /* (choices of a stream mix) */
        int n = chat
                    ? snprintf(r->body, BODY_MAX,
                               "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell a tale %d\"}]",
                               i % 5)
                    : snprintf(r->body, BODY_MAX, "{\"prompt\":\"Once upon a time, fox %d", i % 4);
        for (int k = 0; !chat && k < i; k++)
            n += snprintf(r->body + n, BODY_MAX - (size_t)n, " and");
        snprintf(r->body + n, BODY_MAX - (size_t)n,
                 "%s,\"max_tokens\":%d,\"temperature\":0.9,\"seed\":%d%s%s}", chat ? "" : "\"",
                 12 + i, i, two ? ",\"n\":2" : "",
                 extra[(size_t)i % (sizeof extra / sizeof *extra)]);
        r->path = chat ? "/v1/chat/completions" : two ? "/v1/completions" : "/completion";
    }
}

/* Cuts the values that may differ between two answers to the same request. */
static void scrub(char *s)
{
    static const char *const names[] = {
        "\"timings\":", "\"id\":", "\"created\":", "\"cached_tokens\":", "\"id_slot\":"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (char *p = s; (p = strstr(p, names[i])) != NULL;) {
            p += strlen(names[i]);
            const size_t n = *p == '{' ? strcspn(p, "}") : strcspn(p, ",}");
            memmove(p, p + n, strlen(p + n) + 1);
        }
    }
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void sleep_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* 1: the answer is whole; -1: the connection ended, or a minute has passed. */
static int wait_answer(http_client *c)
{
    for (;;) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (poll(&p, 1, 60000) <= 0)
            return -1;
        const int rc = http_take(c);
        if (rc != 0)
            return rc;
    }
}

/* A connection that was kept may have ended meanwhile: once more on a new one. */
static int ask_and_wait(http_client *c, const char *path, const char *body)
{
    for (int i = 0; i < 2; i++) {
        const bool kept = c->fd >= 0;
        if (http_ask(c, g_port, path, body, body != NULL ? strlen(body) : 0) == 0 &&
            wait_answer(c) > 0)
            return 0;
        http_close(c);
        if (!kept)
            break;
    }
    return -1;
}

static void unexpected(kind k, const http_client *c)
{
    if (atomic_fetch_add(&g_unexpected, 1) < 5)
        fprintf(stderr, "%s: status %d: %.300s\n", kind_names[k], c->status,
                c->body != NULL ? c->body : "");
}

/* --- kinds of clients ---------------------------------------------------------------------------
 */

static uint32_t dice(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

static void compare(const request *r, http_client *c)
{
    if (c->status != 200) {
        unexpected(GOOD, c);
        return;
    }
    scrub(c->body);
    if (strcmp(c->body, r->answer) != 0 && atomic_fetch_add(&g_differ, 1) < 5)
        fprintf(stderr, "%s differs:\n%.600s\nalone:\n%.600s\n", r->body, c->body, r->answer);
}

static void be_good(http_client *c, uint64_t *state)
{
    const request *r = &g_requests[dice(state, N_REQUESTS)];
    if (ask_and_wait(c, r->path, r->body) == 0)
        compare(r, c);
    else
        unexpected(GOOD, c);
    if (dice(state, 2) == 0)
        http_close(c);
}

/* Takes its answer in small portions. */
static void be_slow(http_client *c, uint64_t *state)
{
    const request *r = &g_requests[dice(state, N_REQUESTS)];
    const int small = 2048;
    int rc = 0;
    if (http_connect(c, g_port) != 0)
        return;
    setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (http_ask(c, g_port, r->path, r->body, strlen(r->body)) != 0)
        rc = -1;
    while (rc == 0) {
        sleep_ms(20);
        rc = http_take(c);
    }
    if (rc > 0)
        compare(r, c);
    else
        unexpected(SLOW, c);
    http_close(c);
}

static void leave(http_client *c, uint64_t *state, bool reads)
{
    char body[160];
    snprintf(body, sizeof body,
             "{\"prompt\":\"Once %u\",\"ignore_eos\":true,\"seed\":1,\"n_probs\":20,\"stream\":%s}",
             dice(state, 1000), dice(state, 3) > 0 ? "true" : "false");
    if (http_connect(c, g_port) != 0 || http_ask(c, g_port, "/completion", body, strlen(body)) != 0)
        return;
    for (uint32_t i = dice(state, 10); i > 0; i--) {
        sleep_ms(5 + (long)dice(state, 20));
        if (reads && http_take(c) != 0)
            break;
    }
    if (!reads)
        sleep_ms(300);
    if (dice(state, 2) == 0) { /* with a reset */
        const struct linger l = {1, 0};
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    }
    http_close(c);
}

static void send_bad_json(http_client *c, uint64_t *state)
{
    static const char *const bodies[] = {"{\"prompt\":",
                                         "[1,2",
                                         "{\"prompt\":\"a\",\"temperature\":\"hot\"}",
                                         "{\"prompt\":[-1]}",
                                         "{\"prompt\":\"a\",\"grammar\":\"root ::= (\"}",
                                         "{\"prompt\":\"a\",\"json_schema\":{\"not\":{}}}",
                                         "{\"prompt\":\"\xff\"}",
                                         "{\"prompt\":\"a\",\"prompt\":\"b\"}",
                                         "{\"prompt\":\"a\",\"n\":9999}"};
    const char *body = bodies[dice(state, sizeof bodies / sizeof *bodies)];
    if (ask_and_wait(c, "/completion", body) != 0 || c->status != 400)
        unexpected(BAD_JSON, c);
}

static void send_bad_head(http_client *c, uint64_t *state)
{
    char bytes[300] = "POST /completion HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n";
    size_t n = strlen(bytes);
    if (dice(state, 2) == 0) {
        n = 2 + dice(state, sizeof bytes - 2);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)dice(state, 256);
        bytes[n - 2] = bytes[n - 1] = '\n';
    }
    if (http_connect(c, g_port) != 0)
        return;
    if (http_put(c, bytes, n) == 0 && wait_answer(c) > 0 && c->status != 400 && c->status != 403)
        unexpected(BAD_HEAD, c);
    http_close(c);
}

/* A head that does not end: the server has to end it (408), or the client leaves first. */
static void drip(http_client *c, uint64_t *state)
{
    const bool stays = dice(state, 4) == 0;
    if (http_connect(c, g_port) != 0)
        return;
    http_put(c, "GET /health HTTP/1.1\r\n", 22);
    for (int i = 0; i < 10 && http_put(c, "X", 1) == 0; i++)
        sleep_ms(30);
    if (stays && (wait_answer(c) < 0 || c->status != 408))
        unexpected(DRIP, c);
    http_close(c);
}

static void send_too_much(http_client *c, uint64_t *state)
{
    char head[128];
    const int n =
        snprintf(head, sizeof head,
                 "POST /completion HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %u\r\n\r\n",
                 100000000 + dice(state, 1000));
    if (http_connect(c, g_port) != 0)
        return;
    if (http_put(c, head, (size_t)n) != 0 || wait_answer(c) < 0 || c->status != 413)
        unexpected(TOO_LONG, c);
    http_close(c);
}

static void *be_client(void *arg)
{
    static const kind often[] = {GOOD,   GOOD,   GOOD,     GOOD,     GOOD, SLOW,    LEAVES,
                                 LEAVES, UNREAD, BAD_JSON, BAD_HEAD, DRIP, TOO_LONG};
    uint64_t state = (uint64_t)(uintptr_t)arg;
    http_client c = {.fd = -1};
    while (!atomic_load(&g_ends)) {
        const kind k = often[dice(&state, sizeof often / sizeof *often)];
        switch (k) {
        case GOOD:
            be_good(&c, &state);
            break;
        case SLOW:
            be_slow(&c, &state);
            break;
        case LEAVES:
            leave(&c, &state, true);
            break;
        case UNREAD:
            leave(&c, &state, false);
            break;
        case BAD_JSON:
            send_bad_json(&c, &state);
            break;
        case BAD_HEAD:
            send_bad_head(&c, &state);
            break;
        case DRIP:
            drip(&c, &state);
            break;
        case TOO_LONG:
            send_too_much(&c, &state);
            break;
        case KINDS:
        default:
            break;
        }
        atomic_fetch_add(&g_done[k], 1);
    }
    http_free(&c);
    return NULL;
}

static void *watch_health(void *arg)
{
    http_client c = {.fd = -1};
    (void)arg;
    while (!atomic_load(&g_ends)) {
        const double begin = http_now();
        if (ask_and_wait(&c, "/health", NULL) != 0 || c.status != 200)
            unexpected(GOOD, &c);
        if (g_n_health < HEALTH_MAX)
            g_health[g_n_health++] = 1e3 * (http_now() - begin);
        sleep_ms(10);
    }
    http_free(&c);
    return NULL;
}

/* --- the process --------------------------------------------------------------------------------
 */

static long anonymous_kb(void)
{
    char path[64], line[256];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%d/status", g_pid);
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "RssAnon:", 8) == 0)
            kb = atol(line + 8);
    }
    if (f != NULL)
        fclose(f);
    return kb;
}

static long count_fds(void)
{
    char path[64];
    long n = -2; /* . and .. */
    snprintf(path, sizeof path, "/proc/%d/fd", g_pid);
    DIR *d = opendir(path);
    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n;
}

static long metric(const char *name)
{
    http_client c = {.fd = -1};
    char line[96];
    long value = -1;
    snprintf(line, sizeof line, "\n%s ", name);
    if (ask_and_wait(&c, "/metrics", NULL) == 0) {
        const char *p = strstr(c.body, line);
        value = p != NULL ? atol(p + strlen(line)) : -1;
    }
    http_free(&c);
    return value;
}

/* Slots that stay busy after the last client has gone. */
static long stuck_slots(void)
{
    long busy = -1;
    for (int i = 0; i < 1200 && busy != 0; i++) {
        sleep_ms(100);
        busy = metric("ferry_slots_busy");
    }
    return busy;
}

static void ask_alone(void)
{
    http_client c = {.fd = -1};
    for (int i = 0; i < N_REQUESTS; i++) {
        request *r = &g_requests[i];
        if (ask_and_wait(&c, r->path, r->body) != 0 || c.status != 200) {
            fprintf(stderr, "soak_clients: %s: status %d: %s\n", r->body, c.status,
                    c.body != NULL ? c.body : "");
            exit(1);
        }
        if (r->answer == NULL) {
            scrub(c.body);
            r->answer = strdup(c.body);
        } else {
            compare(r, &c);
        }
    }
    http_free(&c);
}

static void run(int clients, long seconds, uint64_t seed)
{
    pthread_t threads[CLIENTS_MAX + 1];
    atomic_store(&g_ends, false);
    g_n_health = 0;
    pthread_create(&threads[clients], NULL, watch_health, NULL);
    for (int i = 0; i < clients; i++)
        pthread_create(&threads[i], NULL, be_client, (void *)(uintptr_t)(seed + (uint64_t)i));
    sleep_ms(1000 * seconds);
    atomic_store(&g_ends, true);
    for (int i = 0; i <= clients; i++)
        pthread_join(threads[i], NULL);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* A request without a stream that would take long, and a reset. Prints how many requests were
 * cancelled soon after. */
static int reset_one(void)
{
    static const char body[] =
        "{\"prompt\":\"Once\",\"ignore_eos\":true,\"n_predict\":900,\"n\":32}";
    const struct linger l = {1, 0};
    const long before = metric("ferry_requests_cancelled_total");
    http_client c = {.fd = -1};
    if (http_ask(&c, g_port, "/completion", body, strlen(body)) != 0)
        return 1;
    sleep_ms(100);
    setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    http_close(&c);
    long now = before;
    for (int i = 0; i < 20 && now == before; i++) {
        sleep_ms(50);
        now = metric("ferry_requests_cancelled_total");
    }
    printf("%ld\n", now - before);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "reset") == 0) {
        g_port = atoi(argv[1]);
        return reset_one();
    }
    if (argc != 5 || atoi(argv[3]) < 1 || atoi(argv[3]) > CLIENTS_MAX) {
        fprintf(stderr, "usage: soak_clients PORT PID CLIENTS SECONDS\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    g_port = atoi(argv[1]);
    g_pid = atoi(argv[2]);
    make_requests();
    ask_alone();
    run(atoi(argv[3]), WARM_S, 1);
    long stuck = stuck_slots();
    printf("memory_before_kb %ld\nfds_before %ld\n", anonymous_kb(), count_fds());
    run(atoi(argv[3]), atol(argv[4]), 1000);
    stuck = stuck != 0 ? stuck : stuck_slots();
    ask_alone();
    printf("memory_kb %ld\nfds %ld\n", anonymous_kb(), count_fds());
    for (int i = 0; i < KINDS; i++)
        printf("%s %ld\n", kind_names[i], atomic_load(&g_done[i]));
    qsort(g_health, g_n_health, sizeof *g_health, by_size);
    printf("differ %ld\nunexpected %ld\nstuck %ld\nhealth_n %zu\nhealth_p99_ms %.2f\nhealth_max_ms "
           "%.2f\n",
           atomic_load(&g_differ), atomic_load(&g_unexpected), stuck, g_n_health,
           g_n_health > 0 ? g_health[g_n_health * 99 / 100] : -1,
           g_n_health > 0 ? g_health[g_n_health - 1] : -1);
    return 0;
}
