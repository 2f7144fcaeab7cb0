/* A scripted adb server in a thread: it answers requests by a table, then plays the phone's side of
 * one service. A budget of bytes makes it vanish at any place of a conversation. */
#ifndef TESTS_FAKE_ADB_H
#define TESTS_FAKE_ADB_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/math.h"
#include "base/str.h"
#include "workspace/phone/adb.h"

typedef struct {
    const char *request; /* how it begins */
    const char *reply;
    size_t n;
} fake_rule;

#define RULE(request, reply)              \
    {                                     \
        request, reply, sizeof(reply) - 1 \
    }

typedef struct {
    const fake_rule *rules; /* up to a request NULL; then the default ones */
    const char *sync;       /* answers every sync request */
    size_t n_sync;
    bool sync_early;       /* answers SEND at its head, before the data */
    bool silent;           /* takes requests and never answers */
    atomic_llong budget;   /* bytes until everything is closed; -1: no end */
    atomic_int n_services; /* connections that came so far as to a service */
    int listener;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;    /* a call has ended */
    struct fake_call *calls; /* those that are served now */
    fy_str heard;            /* what the services were told */
    char last_service[256];
} fake_adb;

typedef struct fake_call {
    fake_adb *f;
    int fd;
    struct fake_call *next;
} fake_call;

static const fake_rule fake_defaults[] = {
    RULE("host:devices-l", "OKAY0023A  device product:p model:M device:d\n"),
    RULE("host:host-features", "OKAY0015shell_v2,cmd,stat_v2\n"),
    RULE("host-serial:A:features", "OKAY0014shell_v2,cmd,stat_v2"),
    RULE("host:transport:A", "OKAY"),
    RULE("sync:", "OKAY"),
    {NULL, NULL, 0},
};

static bool fake_say(fake_call *c, const char *p, size_t n)
{
    while (n > 0) {
        long long left = atomic_load(&c->f->budget);
        size_t now = left < 0 ? n : (size_t)left < n ? (size_t)left : n;
        if (now == 0)
            return false;
        if (left > 0)
            atomic_fetch_sub(&c->f->budget, (long long)now);
        if (send(c->fd, p, now, MSG_NOSIGNAL) != (ssize_t)now)
            return false;
        p += now;
        n -= now;
    }
    return true;
}

static bool fake_take(fake_call *c, void *p, size_t n)
{
    for (char *at = p; n > 0;) {
        ssize_t got = recv(c->fd, at, n, 0);
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

static void fake_note(fake_call *c, const void *p, size_t n)
{
    pthread_mutex_lock(&c->f->lock);
    fy_str_add(&c->f->heard, p, n);
    pthread_mutex_unlock(&c->f->lock);
}

/* The phone's side of sync: hears every request, and says what it is reported to. */
static void fake_sync(fake_call *c)
{
    char head[8], data[65536];
    while (fake_take(c, head, 8)) {
        uint32_t n = fy_le32(head + 4);
        if (n >= sizeof data || !fake_take(c, data, n))
            return;
        fake_note(c, head, 4);
        fake_note(c, data, n);
        bool sending = memcmp(head, "SEND", 4) == 0;
        if (sending && c->f->sync_early && !fake_say(c, c->f->sync, c->f->n_sync))
            return;
        while (sending && fake_take(c, head, 8) && memcmp(head, "DATA", 4) == 0) {
            n = fy_le32(head + 4);
            if (n > sizeof data || !fake_take(c, data, n))
                return;
            fake_note(c, data, n);
        }
        if (memcmp(head, "QUIT", 4) == 0 || !fake_say(c, c->f->sync, c->f->n_sync))
            return;
    }
}

static void fake_answer(fake_call *c)
{
    char hex[5] = "", request[70000], data[4096];
    while (fake_take(c, hex, 4)) {
        size_t n = strtoul(hex, NULL, 16);
        if (!fake_take(c, request, n))
            return;
        request[n] = '\0';
        if (c->f->silent)
            continue;
        const fake_rule *r = c->f->rules;
        while (r != NULL && r->request != NULL && strncmp(request, r->request, strlen(r->request)))
            r++;
        if (r == NULL || r->request == NULL) {
            r = fake_defaults;
            while (r->request != NULL && strncmp(request, r->request, strlen(r->request)))
                r++;
        }
        bool service = strncmp(request, "host", 4) != 0;
        if (service) {
            pthread_mutex_lock(&c->f->lock);
            snprintf(c->f->last_service, sizeof c->f->last_service, "%s", request);
            pthread_mutex_unlock(&c->f->lock);
            atomic_fetch_add(&c->f->n_services, 1);
        }
        if (r->request == NULL || !fake_say(c, r->reply, r->n))
            return;
        if (!service)
            continue;
        if (strcmp(request, "sync:") == 0) {
            fake_sync(c);
            return;
        }
        for (ssize_t got; (got = recv(c->fd, data, sizeof data, 0)) > 0;)
            fake_note(c, data, (size_t)got);
        return;
    }
}

static void *fake_serve(void *user)
{
    fake_call *c = user;
    fake_answer(c);
    pthread_mutex_lock(&c->f->lock);
    fake_call **at = &c->f->calls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    close(c->fd);
    pthread_cond_signal(&c->f->ended);
    pthread_mutex_unlock(&c->f->lock);
    free(c);
    return NULL;
}

static void *fake_accept(void *user)
{
    fake_adb *f = user;
    for (int fd; (fd = accept(f->listener, NULL, NULL)) >= 0;) {
        fake_call *c = malloc(sizeof *c);
        pthread_t t;
        pthread_mutex_lock(&f->lock);
        *c = (fake_call){f, fd, f->calls};
        f->calls = c;
        pthread_mutex_unlock(&f->lock);
        pthread_create(&t, NULL, fake_serve, c);
        pthread_detach(t);
    }
    return NULL;
}

static void fake_start(fake_adb *f)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    char port[8];
    atomic_store(&f->budget, -1);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->ended, NULL);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(f->listener, (struct sockaddr *)&at, n) != 0 || listen(f->listener, 8) != 0 ||
        getsockname(f->listener, (struct sockaddr *)&at, &n) != 0)
        abort();
    snprintf(port, sizeof port, "%u", ntohs(at.sin_port));
    setenv("ANDROID_ADB_SERVER_PORT", port, 1);
    pthread_create(&f->thread, NULL, fake_accept, f);
}

/* What the rules point to may go afterwards: no call is served any more. */
static void fake_stop(fake_adb *f)
{
    shutdown(f->listener, SHUT_RDWR);
    pthread_join(f->thread, NULL);
    close(f->listener);
    pthread_mutex_lock(&f->lock);
    for (fake_call *c = f->calls; c != NULL; c = c->next)
        shutdown(c->fd, SHUT_RDWR);
    while (f->calls != NULL)
        pthread_cond_wait(&f->ended, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

/* --- what the tests share --------------------------------------------------------------------- */

enum { TESTS_MAX = 64 };
static fake_adb fakes[TESTS_MAX]; /* they outlive their test: a thread may still close its socket */
static size_t n_fakes;

static fake_adb *fake(const fake_rule *rules)
{
    fake_adb *f = &fakes[n_fakes++];
    assert_true(n_fakes < TESTS_MAX);
    f->rules = rules;
    fake_start(f);
    return f;
}

static int fresh(void **state)
{
    (void)state;
    static const char *const variables[] = {
        "ANDROID_SERIAL", "ADB_SERVER_SOCKET", "ANDROID_ADB_SERVER_ADDRESS",
        "ANDROID_HOME",   "ANDROID_SDK_ROOT",  "TERM"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    setenv("FERRY_ADB_TIMEOUT", "20", 1);
    setenv("PATH", "/nowhere", 1);
    setenv("HOME", "/nowhere", 1);
    fy_interrupted = 0;
    return 0;
}

static void says(const fy_err *e, fy_code code, const char *text)
{
    if (strstr(e->msg, text) == NULL)
        fail_msg("'%s' does not say '%s'", e->msg, text);
    assert_int_equal(e->code, code);
}

static inline fy_adb *opened(void)
{
    fy_err e = {0};
    fy_adb *a = fy_adb_open(NULL, &e);
    if (a == NULL)
        fail_msg("%s", e.msg);
    return a;
}

#endif
