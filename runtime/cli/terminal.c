/* What a verb writes and how it ends early. Data goes to standard output, messages and progress to
 * standard error; what goes to a terminal is escaped here, once for all verbs. Signals of the user,
 * and a mapped file that cannot be read any more, end the program from here. */
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
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

/* --- text --- */

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

int fy_stdout_text(fy_str *s, fy_err *e)
{
    const int rc = s->oom ? fy_nomem(e) : fy_stdout(fy_str_z(s), s->len, e);
    fy_str_release(s);
    return rc;
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

/* --- progress --- */

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

/* --- questions --- */

bool fy_may_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && g_level >= FY_LOG_INFO;
}

int fy_ask(const char *question, char *answer, size_t size, fy_err *e)
{
    size_t n = 0;
    if (fy_stderr(question, strlen(question), e) != 0)
        return -1;
    for (char c = '\0';;) { /* byte by byte: what follows the line is not ours */
        const bool waited = fy_signals_wait_input(STDIN_FILENO, NULL) == 0;
        const ssize_t got = waited ? read(STDIN_FILENO, &c, 1) : -1;
        if (got != 1)
            fy_stderr("\n", 1, NULL);
        if (!waited)
            return fy_check_interrupt(e);
        if (got != 1)
            return fy_fail(e, FY_EARG, "no answer: standard input has ended");
        if (c == '\n')
            break;
        if (n + 1 < size)
            answer[n++] = c;
    }
    while (n > 0 && (answer[n - 1] == ' ' || answer[n - 1] == '\r'))
        n--;
    answer[n] = '\0';
    return 0;
}

/* --- signals --- */

static volatile sig_atomic_t g_signal, g_hold;
static const char *volatile g_last_words;

static void put_raw(int fd, const char *s)
{
    if (write(fd, s, strlen(s)) < 0)
        return; /* nobody reads it, and nothing else can report it */
}

/* The first Ctrl-C asks the work to end cleanly, the second one ends the program. */
static void on_signal(int sig)
{
    int err = errno;
    if (fy_interrupted && !g_hold) {
        fy_out_unlink_all();
        const char *words = g_last_words;
        if (words != NULL)
            put_raw(STDOUT_FILENO, words);
        signal(sig, SIG_DFL);
        raise(sig);
    }
    if (g_signal == 0 || sig != SIGINT)
        g_signal = sig;
    fy_interrupted = 1;
    errno = err;
}

int fy_signals_take(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int sig = g_signal;
    g_signal = 0;
    fy_interrupted = 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return sig;
}

void fy_signals_hold(bool hold)
{
    g_hold = hold;
}

void fy_signals_last_words(const char *text)
{
    g_last_words = text;
}

int fy_signals_wait_input(int fd, const volatile sig_atomic_t *also)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bool seen = fy_interrupted || (also != NULL && *also);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (!seen && ppoll(&p, 1, NULL, &before) < 0)
        seen = fy_interrupted || (also != NULL && *also);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return seen ? -1 : 0;
}

/* The path of the file that is mapped at `at`, from /proc/self/maps: "begin-end mode offset device
 * inode path". Runs in a signal handler: no allocation, no stdio. */
static const char *mapped_file(uintptr_t at, char *line, size_t size)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    for (char c; fd >= 0 && read(fd, &c, 1) == 1;) {
        if (c != '\n') {
            line[n] = c;
            n += n + 1 < size;
            continue;
        }
        line[n] = '\0';
        n = 0;
        char *end;
        uintptr_t begin = (uintptr_t)strtoull(line, &end, 16);
        if (*end == '-' && at >= begin && at < (uintptr_t)strtoull(end + 1, NULL, 16)) {
            close(fd);
            return strchr(line, '/');
        }
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* A page of a mapped file could not be read: the file was cut short, or its disk failed. No
 * thread that met it can continue. */
static void on_bus(int sig, siginfo_t *info, void *context)
{
    (void)context;
    static char line[4352];
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    int err = errno;
    while (atomic_flag_test_and_set(&busy))
        pause(); /* another thread met the same file and ends the program */
    static char shown[sizeof line];
    const char *path = mapped_file((uintptr_t)info->si_addr, line, sizeof line);
    if (path == NULL) { /* not a file: let it crash where it is */
        atomic_flag_clear(&busy);
        signal(sig, SIG_DFL);
        errno = err;
        return;
    }
    fy_out_unlink_all();
    put_raw(STDERR_FILENO, "ferry: ");
    put_raw(STDERR_FILENO, fy_quote(shown, sizeof shown, fy_span_of(path)));
    put_raw(STDERR_FILENO, ": cannot be read any more: it was cut short while in use, or its disk failed\n");
    _exit(fy_exit_status(FY_EIO));
}

void fy_signals_install(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction sa = {.sa_handler = on_signal}, old;
    sigfillset(&sa.sa_mask); /* one at a time: they share what they write */
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        bool kept =
            ending[i] == SIGHUP && sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
        if (!kept) /* nohup */
            sigaction(ending[i], &sa, NULL);
    }
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the write, with its own message */
    signal(SIGXFSZ, SIG_IGN); /* and so is the end of what the shell allows (ulimit -f) */
    struct sigaction bus = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    sigemptyset(&bus.sa_mask);
    sigaction(SIGBUS, &bus, NULL);
}
