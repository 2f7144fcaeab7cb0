/* Words for the user, and where they go. The library never prints: it calls the sink the program
 * set (one per process, set before threads start). Without a sink the words are dropped. */
#ifndef FY_BASE_LOG_H
#define FY_BASE_LOG_H

typedef enum { FY_LOG_ERROR, FY_LOG_WARN, FY_LOG_INFO, FY_LOG_DEBUG } fy_log_level;

typedef void fy_log_sink(void *user, fy_log_level level, const char *text);

void fy_log_set(fy_log_sink *sink, void *user);

/* A sink of the calling thread alone, which goes before the process's; without one (sink NULL) the
 * process's is used. Returns the one before, to be put back: users of one process do not see each
 * other's words. */
typedef struct {
    fy_log_sink *sink;
    void *user;
} fy_log_target;
fy_log_target fy_log_use(fy_log_target target);

/* One line, without the newline. Thread-safe if the sink is. */
void fy_log(fy_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
