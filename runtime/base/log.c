/* Log messages to the sink of the thread or of the process, progress, and the interrupt flag. */
#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static fy_log_target g_target;
static _Thread_local fy_log_target t_target;

void fy_log_set(fy_log_sink *sink, void *user)
{
    g_target = (fy_log_target){sink, user};
}

fy_log_target fy_log_use(fy_log_target target)
{
    fy_log_target before = t_target;
    t_target = target;
    return before;
}

void fy_log(fy_log_level level, const char *fmt, ...)
{
    const fy_log_target to = t_target.sink != NULL ? t_target : g_target;
    if (to.sink == NULL)
        return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    to.sink(to.user, level, text);
}

void fy_log_lines(fy_log_level level, const char *text)
{
    while (*text != '\0') {
        const size_t n = strcspn(text, "\n");
        fy_log(level, "%.*s", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

volatile sig_atomic_t fy_interrupted;

void fy_progress_add(fy_progress *p, uint64_t bytes)
{
    if (p == NULL)
        return;
    atomic_fetch_add_explicit(&p->done_bytes, bytes, memory_order_relaxed);
    if (p->show != NULL)
        p->show(p);
}
