/* How the program ends when it must end early: by a signal of the user, or by a mapped file that
 * went away. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/signals.h"

static volatile sig_atomic_t g_signal, g_hold;
static const char *volatile g_last_words;

static void say_to(int fd, const char *s)
{
    if (write(fd, s, strlen(s)) < 0)
        return; /* nobody listens, and there is no other way to tell */
}

/* The first Ctrl-C asks the work to end cleanly, the second one ends the program. */
static void on_signal(int sig)
{
    int err = errno;
    if (fy_interrupted && !g_hold) {
        fy_out_unlink_all();
        const char *words = g_last_words;
        if (words != NULL)
            say_to(STDOUT_FILENO, words);
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

static void say(const char *s)
{
    say_to(STDERR_FILENO, s);
}

/* A page of a mapped file could not be read: the file was cut short, or its disk failed. The work
 * cannot go on from here, on whichever thread it happened. */
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
    say("ferry: ");
    say(fy_quote(shown, sizeof shown, fy_span_of(path)));
    say(": cannot be read any more: it was cut short while in use, or its disk failed\n");
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
