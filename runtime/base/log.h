/* What a long job tells its user (log messages, progress), and the user's wish to stop it.
 *
 * The library never prints. Messages go to the sink that the program set (one per process, set
 * before threads start); without one they are dropped. A job gets a fy_progress (or NULL) and calls
 * fy_progress_add from any thread; the program's callback shows it. fy_interrupted is raised by the
 * program's signal handler; every long loop polls it and ends with FY_EINTR. */
#ifndef FY_BASE_LOG_H
#define FY_BASE_LOG_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

typedef enum { FY_LOG_ERROR, FY_LOG_WARN, FY_LOG_INFO, FY_LOG_DEBUG } fy_log_level;

typedef void fy_log_sink(void *user, fy_log_level level, const char *text);

void fy_log_set(fy_log_sink *sink, void *user);

/* A sink for the calling thread alone, used instead of the process's; sink NULL: the process's
 * again. Returns the previous one, for the caller to restore: users of one process do not see each
 * other's messages. */
typedef struct {
    fy_log_sink *sink;
    void *user;
} fy_log_target;
fy_log_target fy_log_use(fy_log_target target);

/* One line, without the newline. Thread-safe if the sink is. */
void fy_log(fy_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void fy_log_lines(fy_log_level level, const char *text); /* each line of it */

typedef struct fy_progress fy_progress;
struct fy_progress {
    const char *what;     /* view: "converting" */
    uint64_t total_bytes; /* 0: unknown */
    _Atomic uint64_t done_bytes;
    void (*show)(fy_progress *p); /* may be NULL; called from the thread that adds, must be quick */
    void *user;
};

void fy_progress_add(fy_progress *p, uint64_t bytes); /* p may be NULL */

extern volatile sig_atomic_t fy_interrupted;

/* 0, or -1 with FY_EINTR once fy_interrupted is set. Cheap enough for every turn of a loop. */
static inline int fy_check_interrupt(fy_err *e)
{
    return fy_interrupted ? fy_fail(e, FY_EINTR, "interrupted") : 0;
}

#endif
