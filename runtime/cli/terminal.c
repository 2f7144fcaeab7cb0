/* What a verb writes: data on standard output, messages and progress on standard error. What goes to
 * a terminal is escaped here, once for all verbs. */
#include "cli/terminal.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process.h"
#include "base/str.h"

bool fy_terminal(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term != NULL && *term != '\0' && strcmp(term, "dumb") != 0;
}

/* https://no-color.org: set and not empty. */
bool fy_colour(int fd)
{
    const char *no = getenv("NO_COLOR");
    return fy_terminal(fd) && (no == NULL || *no == '\0');
}

int fy_terminal_columns(int fd, int otherwise)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

/* --- text ----------------------------------------------------------------------------------- */

static void put_shown(int fd, fy_span text, fy_str *out)
{
    if (isatty(fd))
        fy_str_put_shown(out, text);
    else
        fy_str_add(out, text.ptr, text.len);
}

int fy_stdout_drawn(const void *p, size_t n, fy_err *e)
{
    return fy_write_all(STDOUT_FILENO, p, n, "standard output", e);
}

static int write_to(int fd, fy_str *s, fy_err *e)
{
    int rc = s->oom ? fy_nomem(e)
                    : fy_write_all(fd, fy_str_z(s), s->len,
                                   fd == STDOUT_FILENO ? "standard output" : "standard error", e);
    fy_str_release(s);
    return rc;
}

int fy_stdout(const void *p, size_t n, fy_err *e)
{
    if (!isatty(STDOUT_FILENO)) /* may be large: no copy */
        return fy_stdout_drawn(p, n, e);
    fy_str out = {0};
    fy_str_put_shown(&out, (fy_span){p, n});
    return write_to(STDOUT_FILENO, &out, e);
}

int fy_stderr(const void *p, size_t n, fy_err *e)
{
    fy_str out = {0};
    put_shown(STDERR_FILENO, (fy_span){p, n}, &out);
    return write_to(STDERR_FILENO, &out, e);
}

static fy_log_level g_level = FY_LOG_INFO;

fy_log_level fy_log_show(fy_log_level most)
{
    fy_log_level before = g_level;
    g_level = most;
    return before;
}

void fy_log_to_stderr(void *user, fy_log_level level, const char *text)
{
    (void)user;
    if (level > g_level)
        return;
    const char *mark = level == FY_LOG_ERROR ? "error: " : level == FY_LOG_WARN ? "warning: " : "";
    const bool colour = level <= FY_LOG_WARN && fy_colour(STDERR_FILENO);
    fy_str out = {0};
    fy_str_printf(&out, "%s%s%s", colour ? "\033[1;33m" : "", mark, colour ? "\033[0m" : "");
    put_shown(STDERR_FILENO, fy_span_of(text), &out);
    fy_str_putc(&out, '\n');
    write_to(STDERR_FILENO, &out, NULL);
}

/* --- progress ------------------------------------------------------------------------------- */

/* One progress display at a time: it belongs to the program, not to the library. */
static struct {
    double begin_s;
    _Atomic int64_t next_ms; /* when to draw again */
    bool terminal;
} g_show;

static void draw(const fy_progress *p, double t)
{
    enum { WIDTH = 24 };
    double done = (double)atomic_load_explicit(&p->done_bytes, memory_order_relaxed);
    double rate = t > 0 ? done / t : 0;
    double part = p->total_bytes > 0 ? done / (double)p->total_bytes : 0;
    double left = rate > 0 && p->total_bytes > 0 ? ((double)p->total_bytes - done) / rate : 0;
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++)
        bar[i] = (double)i < part * (double)WIDTH ? '#' : '.';
    bar[WIDTH] = '\0';
    if (!g_show.terminal) {
        fprintf(stderr, "%s: %.0f %%, %.1f MB/s, %.0f s left\n", p->what, part * 100, rate * 1e-6,
                left);
        return;
    }
    /* A line that wraps could not be drawn over. */
    char line[160];
    const int columns = fy_terminal_columns(STDERR_FILENO, sizeof line);
    snprintf(line, sizeof line, "%s [%s] %3.0f %% %7.1f MB/s, %.0f s left", p->what, bar,
             part * 100, rate * 1e-6, left);
    if ((size_t)columns <= strlen(line))
        line[columns - 1] = '\0';
    fprintf(stderr, "\r%s\033[K", line);
}

static void show(fy_progress *p)
{
    double t = fy_now_s() - g_show.begin_s;
    int64_t ms = (int64_t)(t * 1000), next = atomic_load(&g_show.next_ms);
    int64_t step = g_show.terminal ? 100 : 10000;
    if (ms < next || !atomic_compare_exchange_strong(&g_show.next_ms, &next, ms + step))
        return;
    draw(p, t);
}

void fy_show_begin(fy_progress *p, const char *what, uint64_t total_bytes)
{
    *p = (fy_progress){
        .what = what, .total_bytes = total_bytes, .show = g_level >= FY_LOG_INFO ? show : NULL};
    g_show.terminal = fy_terminal(STDERR_FILENO);
    g_show.begin_s = fy_now_s();
    atomic_store(&g_show.next_ms, g_show.terminal ? 300 : 10000);
}

void fy_show_end(fy_progress *p)
{
    if (p->show != NULL && g_show.terminal)
        fputs("\r\033[K", stderr);
    p->show = NULL;
}
