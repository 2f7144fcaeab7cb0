#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static fy_log_sink *g_sink;
static void *g_user;

void fy_log_set(fy_log_sink *sink, void *user)
{
    g_sink = sink;
    g_user = user;
}

void fy_log(fy_log_level level, const char *fmt, ...)
{
    if (g_sink == NULL)
        return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    g_sink(g_user, level, text);
}
