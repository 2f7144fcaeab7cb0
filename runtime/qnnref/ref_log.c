/* Log lines. A thread of the library's own hands them to the callbacks: callers must not count on
 * their own thread, and may look for a line only after logFree. */
#include "qnnref/ref_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_LINE = 512, MAX_LINES = 256 };

typedef struct {
    uint32_t level;
    uint64_t time;
    char text[MAX_LINE];
} line;

typedef struct ref_logger {
    ref_object object;
    struct ref_logger *next;
    abi_log_callback *callback; /* NULL: lines go nowhere */
    uint32_t level;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    line *lines; /* owned ring */
    uint32_t first, n;
    bool stop;
} ref_logger;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static ref_logger *loggers;

uint64_t ref_microseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void call_back(const ref_logger *l, uint32_t level, uint64_t time, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    l->callback(format, level, time, args);
    va_end(args);
}

static void *deliver(void *user)
{
    ref_logger *l = user;
    pthread_mutex_lock(&l->mutex);
    for (;;) {
        while (l->n == 0 && !l->stop)
            pthread_cond_wait(&l->changed, &l->mutex);
        if (l->n == 0)
            break;
        line now = l->lines[l->first];
        l->first = (l->first + 1) % MAX_LINES;
        l->n--;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->mutex);
        call_back(l, now.level, now.time, "%s", now.text);
        pthread_mutex_lock(&l->mutex);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

static void queue(ref_logger *l, uint32_t level, const char *text)
{
    pthread_mutex_lock(&l->mutex);
    /* A callback that logs cannot wait for itself: its line is dropped when the ring is full. */
    while (l->n == MAX_LINES && !pthread_equal(l->thread, pthread_self()))
        pthread_cond_wait(&l->changed, &l->mutex);
    if (l->n < MAX_LINES) {
        line *at = &l->lines[(l->first + l->n) % MAX_LINES];
        at->level = level;
        at->time = ref_microseconds();
        snprintf(at->text, sizeof at->text, "%s", text);
        l->n++;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->mutex);
}

static void log_va(uint32_t level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static void log_va(uint32_t level, const char *format, va_list args)
{
    char text[MAX_LINE];
    vsnprintf(text, sizeof text, format, args);
    pthread_mutex_lock(&mutex);
    for (ref_logger *l = loggers; l != NULL; l = l->next) {
        if (level <= l->level && l->callback != NULL)
            queue(l, level, text);
    }
    pthread_mutex_unlock(&mutex);
}

void ref_log(uint32_t level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_va(level, format, args);
    va_end(args);
}

abi_error ref_fail(abi_error code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_va(REF_ERROR, format, args);
    va_end(args);
    return code;
}

static abi_error create(abi_log_callback *callback, uint32_t level, abi_handle *out)
{
    if (out == NULL || level < REF_ERROR || level > 5)
        return ABI_LOG_ARGUMENT;
    ref_logger *l = calloc(1, sizeof *l);
    line *lines = calloc(MAX_LINES, sizeof *lines);
    if (l == NULL || lines == NULL || ref_publish(&l->object, REF_LOG, NULL) != 0) {
        free(l);
        free(lines);
        return ABI_MEM_ALLOC;
    }
    l->callback = callback;
    l->level = level;
    l->lines = lines;
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (pthread_create(&l->thread, NULL, deliver, l) != 0) {
        ref_retire(&l->object);
        free(l);
        free(lines);
        return ABI_MEM_ALLOC;
    }
    pthread_mutex_lock(&mutex);
    l->next = loggers;
    loggers = l;
    pthread_mutex_unlock(&mutex);
    *out = l->object.handle;
    ref_log(REF_INFO, "QnnRef %s: the reference library of ferry, not a vendor's",
            ref_release_now()->build_id);
    return 0;
}

abi_error ref_log_create(abi_log_callback *callback, uint32_t level, abi_handle *out)
{
    ref_call c;
    ref_begin(&c, "logCreate", NULL, REF_ANY);
    return ref_end(&c, c.code != 0 ? c.code : create(callback, level, out));
}

abi_error ref_log_level(abi_handle h, uint32_t level)
{
    ref_call c;
    ref_logger *l = ref_begin(&c, "logSetLogLevel", h, REF_LOG);
    if (l != NULL && (level < REF_ERROR || level > 5))
        c.code = ABI_LOG_ARGUMENT;
    else if (l != NULL)
        l->level = level;
    return ref_end(&c, c.code);
}

abi_error ref_log_free(abi_handle h)
{
    ref_call c;
    ref_logger *l = ref_begin(&c, "logFree", h, REF_LOG);
    if (l == NULL)
        return ref_end(&c, c.code);
    if (l->object.n_children > 0)
        return ref_end(&c, ref_fail(ABI_LOG_ARGUMENT, "logFree: a backend or device uses the log"));
    pthread_mutex_lock(&mutex);
    ref_logger **at = &loggers;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    pthread_mutex_unlock(&mutex);
    pthread_mutex_lock(&l->mutex);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    pthread_join(l->thread, NULL);
    ref_end(&c, 0);
    ref_retire(&l->object);
    pthread_mutex_destroy(&l->mutex);
    pthread_cond_destroy(&l->changed);
    free(l->lines);
    free(l);
    return 0;
}
