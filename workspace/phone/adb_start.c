/* `adb start-server`, the only program of Android's that ferry runs. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "workspace/phone/adb_link.h"

/* DIR/adb, or DIR/SUB/adb, when it can be run. */
static bool try_dir(const char *dir, size_t n, const char *sub, char out[PATH_MAX])
{
    int len = snprintf(out, PATH_MAX, "%.*s%s/adb", (int)n, dir, sub);
    return n > 0 && len > 0 && len < PATH_MAX && access(out, X_OK) == 0;
}

static bool find_adb(char out[PATH_MAX])
{
    static const struct {
        const char *variable, *sub;
    } homes[] = {{"ANDROID_HOME", "/platform-tools"},
                 {"ANDROID_SDK_ROOT", "/platform-tools"},
                 {"HOME", "/Android/Sdk/platform-tools"}};
    for (const char *dir = getenv("PATH"); dir != NULL && *dir != '\0';) {
        size_t n = strcspn(dir, ":");
        if (n < PATH_MAX && try_dir(dir, n, "", out))
            return true;
        dir += n + (dir[n] == ':');
    }
    for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
        const char *dir = getenv(homes[i].variable);
        if (dir != NULL && strlen(dir) < PATH_MAX && try_dir(dir, strlen(dir), homes[i].sub, out))
            return true;
    }
    return false;
}

static _Noreturn void become_adb(const char *adb, int output)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execl(adb, adb, "start-server", (char *)NULL);
    dprintf(STDERR_FILENO, "%s", strerror(errno));
    _exit(127);
}

/* The last line of what it wrote, where adb says what went wrong. */
static void last_line(int fd, char *out, size_t size)
{
    char text[2048];
    ssize_t n = pread(fd, text, sizeof text, 0);
    size_t end = n > 0 ? (size_t)n : 0;
    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == '\r'))
        end--;
    const char *line = end > 0 ? memrchr(text, '\n', end) : NULL;
    size_t begin = line != NULL ? (size_t)(line - text) + 1 : 0;
    fy_quote(out, size, (fy_span){text + begin, end - begin});
}

/* Waits for it, killing it when time is up. */
static int wait_for_adb(pid_t pid, double limit_s, int *status, fy_err *e)
{
    double until = fy_now_s() + limit_s;
    const struct timespec nap = {.tv_nsec = 20000000};
    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid)
            return 0;
        if (got < 0 && errno != EINTR)
            return fy_fail_errno(e, "cannot wait for adb");
        bool stop = fy_check_interrupt(e) != 0;
        if (stop || fy_now_s() > until) {
            kill(pid, SIGKILL);
            waitpid(pid, status, 0);
            return fy_fail(e, FY_EDEVICE, "it did not end within %g s", limit_s);
        }
        nanosleep(&nap, NULL);
    }
}

int fy_adb_start_server(const fy_adb_address *at, fy_err *e)
{
    char adb[PATH_MAX], said[2 * FY_ADB_REASON_MAX];
    if (!find_adb(adb))
        return fy_fail(e, FY_EDEVICE,
                       "no adb: nothing listens on %s:%s, and PATH, $ANDROID_HOME/platform-tools "
                       "and $ANDROID_SDK_ROOT/platform-tools hold no 'adb' to start; install it: "
                       "'apt install adb' (Debian, Ubuntu), 'brew install android-platform-tools', "
                       "or https://developer.android.com/tools/releases/platform-tools",
                       at->host, at->port);
    fy_log(FY_LOG_DEBUG, "nothing listens on %s:%s: starting %s", at->host, at->port, adb);
    int status = 0;
    /* Not a pipe: the server that adb leaves behind would keep its other end open. */
    int output = memfd_create("adb", MFD_CLOEXEC);
    if (output < 0)
        return fy_fail_errno(e, "cannot make a file in memory");
    pid_t pid = fork();
    if (pid == 0)
        become_adb(adb, output);
    int rc =
        pid > 0 ? wait_for_adb(pid, at->answer_s, &status, e) : fy_fail_errno(e, "cannot fork");
    if (rc == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
        last_line(output, said, sizeof said);
        rc = fy_fail(e, FY_EDEVICE, "it failed%s%s; run it by hand to see why",
                     said[0] != '\0' ? ": " : "", said);
    }
    close(output);
    return rc == 0 ? 0 : fy_ctx(e, "'%s start-server'", adb);
}
