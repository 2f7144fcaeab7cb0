/* While its model is being loaded a server answers with 503. A signal ends it then, and so does a
 * model that cannot be loaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* (cmocka.h needs the four above first) */
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "server/server.h"

typedef struct {
    char path[64]; /* of its socket */
    const char *host;
    fy_server_options o;
    _Atomic bool fails;    /* the model cannot be loaded */
    _Atomic bool stubborn; /* loading goes on, whatever comes */
    _Atomic bool in_vain;  /* the time for requests that run was over */
    _Atomic bool said;     /* that it listens */
    int rc;
    fy_err e;
    pthread_t thread;
} run;

static int load(void *user, fy_served *out, fy_err *e)
{
    run *r = user;
    (void)out;
    while (!atomic_load(&r->fails)) {
        if (!atomic_load(&r->stubborn) && fy_check_interrupt(e) != 0)
            return -1;
        usleep(1000);
    }
    return fy_fail(e, FY_EFORMAT, "no model");
}

static void say(void *user, const char *line)
{
    (void)line;
    atomic_store(&((run *)user)->said, true);
}

static void *serve(void *arg)
{
    run *r = arg;
    r->rc = fy_server_run(&r->o, &r->e);
    return NULL;
}

static int dial(const run *r)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", r->path);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

static void start_with(run *r, double idle_s, double grace_s)
{
    memset(r, 0, sizeof *r);
    fy_interrupted = 0;
    snprintf(r->path, sizeof r->path, "/tmp/ferry-test-%d.sock", (int)getpid());
    r->host = r->path;
    r->o = (fy_server_options){.hosts = &r->host,
                               .n_hosts = 1,
                               .queue = 4,
                               .max_body = 1 << 20,
                               .max_head = 4096,
                               .max_connections = 8,
                               .header_timeout_s = 5,
                               .timeout_s = 60,
                               .idle_s = idle_s,
                               .grace_s = grace_s,
                               .load = load,
                               .say = say,
                               .user = r};
    assert_int_equal(pthread_create(&r->thread, NULL, serve, r), 0);
    for (int i = 0, fd; i < 60000; i++, usleep(1000)) {
        if ((fd = dial(r)) >= 0) {
            close(fd);
            return;
        }
    }
    fail_msg("nobody listens: %s", r->e.msg);
}

static void start(run *r)
{
    start_with(r, 0, 0);
}

/* The whole answer; how long it took. */
static double ask(const run *r, const char *head, char *out, size_t size)
{
    const double begin = fy_now_s();
    const int fd = dial(r);
    size_t n = 0;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, head, strlen(head)), (ssize_t)strlen(head));
    for (ssize_t got; n + 1 < size && (got = read(fd, out + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    out[n] = '\0';
    close(fd);
    return fy_now_s() - begin;
}

#define TAIL " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"

static void while_it_loads_everything_is_503(void **state)
{
    static const char *const heads[] = {
        "GET /health" TAIL "\r\n",
        "GET /v1/models" TAIL "\r\n",
        "POST /completion" TAIL "Content-Length: 14\r\n\r\n{\"prompt\":\"a\"}",
        "POST /v1/messages" TAIL "Content-Length: 2\r\n\r\n{}",
    };
    run r;
    char answer[4096];
    (void)state;
    start(&r);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        double best = 9;
        for (int k = 0; k < 1000 && best > 0.01; k++) {
            const double took = ask(&r, heads[i], answer, sizeof answer);
            best = took < best ? took : best;
        }
        if (strncmp(answer, "HTTP/1.1 503 ", 13) != 0 || best > 0.01)
            fail_msg("%s after %.3f s: %s", heads[i], best, answer);
    }
    ask(&r, heads[0], answer, sizeof answer);
    assert_non_null(strstr(answer, "\"type\":\"unavailable_error\""));
    assert_non_null(strstr(answer, "\"code\":503"));
    assert_false(atomic_load(&r.said));
    kill(getpid(), SIGTERM);
    pthread_join(r.thread, NULL);
    assert_int_equal(r.rc, 0);
    assert_int_equal(access(r.path, F_OK), -1);
}

static bool is_closed(int fd)
{
    const struct timeval most = {60, 0};
    char dropped[4096];
    ssize_t n;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    while ((n = read(fd, dropped, sizeof dropped)) > 0)
        ;
    return n == 0;
}

static void a_connection_without_a_request_is_closed(void **state)
{
    static const char head[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    run r;
    char answer[4096] = {0};
    (void)state;
    start_with(&r, 2, 0);
    const int fresh = dial(&r), kept = dial(&r);
    const double begin = fy_now_s();
    assert_true(fresh >= 0 && kept >= 0);
    assert_int_equal(write(kept, head, sizeof head - 1), (ssize_t)sizeof head - 1);
    assert_true(read(kept, answer, sizeof answer - 1) > 0);
    assert_null(strstr(answer, "Connection: close"));
    assert_true(is_closed(kept));
    assert_true(fy_now_s() - begin > 1.9);
    assert_true(is_closed(fresh));
    close(fresh);
    close(kept);
    kill(getpid(), SIGTERM);
    pthread_join(r.thread, NULL);
    assert_int_equal(r.rc, 0);
}

static void note_grace(void *user, fy_log_level level, const char *text)
{
    (void)level;
    if (strstr(text, "requests were not finished within 0.5 s") != NULL)
        atomic_store(&((run *)user)->in_vain, true);
}

/* Until the connection holds what it can: no more has come for a second. */
static void wait_until_full(int fd)
{
    int n = 0, before = 0;
    for (int same = 0; same < 100; usleep(10000)) {
        assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
        same = n > 0 && n == before ? same + 1 : 0;
        before = n;
    }
}

/* A client that does not take its answers, and a model whose loading does not end. */
static void what_runs_has_a_time_to_end(void **state)
{
    static const char head[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    run r;
    (void)state;
    start_with(&r, 0, 0.5);
    fy_log_set(note_grace, &r);
    atomic_store(&r.stubborn, true);
    const int fd = dial(&r);
    assert_true(fd >= 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(write(fd, head, sizeof head - 1), (ssize_t)sizeof head - 1);
    wait_until_full(fd);
    kill(getpid(), SIGTERM);
    for (int i = 0; i < 6000 && !atomic_load(&r.in_vain); i++)
        usleep(10000);
    assert_true(atomic_load(&r.in_vain));
    atomic_store(&r.stubborn, false);
    pthread_join(r.thread, NULL);
    fy_log_set(NULL, NULL);
    close(fd);
}

static void a_model_that_cannot_be_loaded_ends_it(void **state)
{
    run r;
    (void)state;
    start(&r);
    atomic_store(&r.fails, true);
    pthread_join(r.thread, NULL);
    assert_int_equal(r.rc, -1);
    assert_int_equal(r.e.code, FY_EFORMAT);
    assert_non_null(strstr(r.e.msg, "no model"));
    assert_false(atomic_load(&r.said));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_it_loads_everything_is_503),
        cmocka_unit_test(a_model_that_cannot_be_loaded_ends_it),
        cmocka_unit_test(a_connection_without_a_request_is_closed),
        cmocka_unit_test(what_runs_has_a_time_to_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
