/* Starts other programs with posix_spawn, reads their pipes, and waits for their end. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

extern char **environ;

/* --- starting --- */

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0)
            close(pair[i]);
    }
}

/* posix_spawnp takes strings that may be changed; it does not change them. */
static int spawn(pid_t *pid, const char *const *argv, char *const *env, int out, int err)
{
    union {
        const char *const *in;
        char *const *out;
    } words = {argv};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t all, none;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0)
        return rc;
    if ((rc = posix_spawnattr_init(&attr)) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return rc;
    }
    sigfillset(&all);
    sigemptyset(&none);
    rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (rc == 0 && out >= 0)
        rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (rc == 0 && err >= 0)
        rc = posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    if (rc == 0)
        rc =
            posix_spawnattr_setflags(&attr, (short)(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                                                    (err >= 0 ? POSIX_SPAWN_SETPGROUP : 0)));
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(&attr, &all);
    if (rc == 0)
        rc = posix_spawnattr_setsigmask(&attr, &none);
    if (rc == 0)
        rc = posix_spawnp(pid, argv[0], &actions, &attr, words.out, env != NULL ? env : environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

int fy_child_start(fy_child *c, const char *const *argv, char *const *env, fy_child_streams streams,
                   fy_err *e)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    *c = (fy_child){.out = -1, .err = -1};
    if ((streams == FY_CHILD_SEPARATE && pipe2(out, O_CLOEXEC) != 0) ||
        (streams != FY_CHILD_SHOWN && pipe2(err, O_CLOEXEC) != 0)) {
        fy_fail_errno(e, "a pipe to %s", argv[0]);
        close_pair(out);
        return -1;
    }
    const int rc = spawn(&c->pid, argv, env, streams == FY_CHILD_JOINED ? err[1] : out[1], err[1]);
    if (rc != 0) {
        close_pair(out);
        close_pair(err);
        errno = rc;
        return fy_fail_errno(e, "%s: cannot start", argv[0]);
    }
    for (int i = 0; i < 2; i++) {
        int *pair = i == 0 ? out : err;
        if (pair[0] < 0)
            continue;
        close(pair[1]);
        fcntl(pair[0], F_SETFL, O_NONBLOCK); /* on a pipe of our own it cannot fail */
    }
    c->out = out[0];
    c->err = err[0];
    return 0;
}

/* --- reading --- */

static void read_pipe(int *fd, fy_str *to)
{
    char part[16384];
    while (*fd >= 0) {
        const ssize_t n = read(*fd, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            close(*fd);
            *fd = -1;
        } else if (to != NULL) {
            fy_str_add(to, part, (size_t)n);
        }
    }
}

void fy_child_read(fy_child *c, fy_str *out, fy_str *err, int ms)
{
    struct pollfd p[2] = {{.fd = c->out, .events = POLLIN}, {.fd = c->err, .events = POLLIN}};
    if (ms > 0)
        poll(p, 2, ms); /* a negative fd is left out */
    read_pipe(&c->out, out);
    read_pipe(&c->err, err);
}

bool fy_child_ended(fy_child *c, fy_str *out, fy_str *err, int *status)
{
    siginfo_t info = {0};
    int how = 0;
    if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
        return false;
    fy_child_read(c, out, err, 0); /* it cannot print any more, though a child of its own may */
    while (waitpid(c->pid, &how, 0) < 0 && errno == EINTR)
        continue;
    *status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    for (int i = 0; i < 2; i++) {
        int *fd = i == 0 ? &c->out : &c->err;
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
    }
    return true;
}

/* --- to the end --- */

/* Keeps the beginning of what was collected. */
static void cut(fy_str *s, size_t most)
{
    if (s != NULL && s->len > most) {
        s->len = most;
        s->ptr[most] = '\0';
    }
}

int fy_child_run(const char *const *argv, char *const *env, bool whole, size_t most, fy_str *out,
                 fy_str *err, int *status, fy_err *e)
{
    enum { STEP_MS = 20 };
    fy_child c;
    bool ended = false, stopped = false;
    if (fy_child_start(&c, argv, env, FY_CHILD_SEPARATE, e) != 0)
        return -1;
    while (!ended) {
        fy_child_read(&c, out, err, STEP_MS);
        cut(out, most);
        cut(err, most);
        if (!whole && !stopped && fy_interrupted) {
            kill(c.pid, SIGTERM);
            stopped = true;
        }
        ended = fy_child_ended(&c, out, err, status);
    }
    cut(out, most);
    cut(err, most);
    if (stopped)
        return fy_check_interrupt(e);
    return (out != NULL && out->oom) || (err != NULL && err->oom) ? fy_nomem(e) : 0;
}
