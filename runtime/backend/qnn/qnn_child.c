/* Runs a job with a QNN library in a child process and passes on what it sends. */
#include "backend/qnn/qnn_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"

#define MAX_MESSAGE (64u << 20)

struct fy_qnn_pipe {
    int fd;
};

typedef enum { DATA, FAILED, END } kind; /* FAILED: a fy_err; END: the job is done */

typedef struct {
    uint32_t kind, n;
} header;

static int send_message(fy_qnn_pipe *to, kind k, const void *p, size_t n, fy_err *e)
{
    const header h = {k, (uint32_t)n};
    return fy_write_all(to->fd, &h, sizeof h, "pipe", e) == 0
               ? fy_write_all(to->fd, p, n, "pipe", e)
               : -1;
}

int fy_qnn_send(fy_qnn_pipe *to, const void *p, size_t n, fy_err *e)
{
    return n <= MAX_MESSAGE ? send_message(to, DATA, p, n, e)
                            : fy_fail(e, FY_EARG, "a message of %zu bytes", n);
}

static void silence(void)
{
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
}

_Noreturn static void be_child(int fd, const char *path, const fy_qnn_record *record,
                               fy_qnn_job *job, void *user)
{
    fy_qnn_pipe to = {fd};
    fy_err e = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    silence();
    fy_qnn_lib *lib = fy_qnn_open(path, record, &e);
    if (lib != NULL)
        job(lib, &to, user, &e);
    fy_qnn_close(lib);
    send_message(&to, e.code != FY_OK ? FAILED : END, &e, sizeof e, NULL);
    _exit(0); /* exit handlers of the library could wait for its threads */
}

/* n bytes of the child. 1: there; 0: it ended; -1: an error, *hung when it was too slow. */
static int receive(int fd, void *p, size_t n, double deadline, bool *hung, fy_err *e)
{
    for (size_t got = 0; got < n;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        const double left = deadline - fy_now_s();
        if (fy_check_interrupt(e) != 0)
            return -1;
        *hung = left <= 0;
        if (*hung)
            return -1;
        const int k = poll(&ready, 1, left < 0.1 ? (int)(left * 1e3) + 1 : 100);
        if (k == 0 || (k < 0 && errno == EINTR))
            continue;
        const ssize_t r = read(fd, (char *)p + got, n - got);
        if (r == 0)
            return 0;
        if (r < 0 && errno != EINTR)
            return fy_fail_errno(e, "cannot read from the process of the QNN library");
        got += r > 0 ? (size_t)r : 0;
    }
    return 1;
}

/* 1: a message was taken, or the job is done (*done); 0: the child ended before that; -1. */
static int take_message(int fd, fy_qnn_take *take, void *user, int timeout_s, bool *done,
                        bool *hung, fy_err *e)
{
    const double deadline = fy_now_s() + timeout_s;
    header h;
    int rc = receive(fd, &h, sizeof h, deadline, hung, e);
    if (rc <= 0)
        return rc;
    if (h.n > MAX_MESSAGE || (h.kind != DATA && h.n != sizeof(fy_err)))
        return fy_fail(e, FY_EDEVICE, "the process of the QNN library sent %u bytes", h.n);
    void *p = malloc((size_t)h.n + 1);
    if (p == NULL)
        return fy_nomem(e);
    rc = receive(fd, p, h.n, deadline, hung, e);
    if (rc > 0 && h.kind == FAILED) {
        fy_err *theirs = p;
        theirs->msg[sizeof theirs->msg - 1] = '\0';
        rc = fy_fail(e, theirs->code, "%s", theirs->msg);
    } else if (rc > 0 && h.kind == END) {
        *done = true;
    } else if (rc > 0) {
        rc = take(user, p, h.n, e) == 0 ? 1 : -1;
    }
    free(p);
    return rc;
}

int fy_qnn_child(const char *path, const fy_qnn_record *record, fy_qnn_job *job, fy_qnn_take *take,
                 void *user, int timeout_s, fy_qnn_end *end, fy_err *e)
{
    int fd[2], rc = 1;
    bool done = false, hung = false;
    if (pipe2(fd, O_CLOEXEC) != 0)
        return fy_fail_errno(e, "cannot start a process for the QNN library");
    const pid_t pid = fork();
    if (pid < 0) {
        close(fd[0]);
        close(fd[1]);
        return fy_fail_errno(e, "cannot start a process for the QNN library");
    }
    if (pid == 0) {
        close(fd[0]);
        be_child(fd[1], path, record, job, user);
    }
    close(fd[1]);
    while (rc > 0 && !done)
        rc = take_message(fd[0], take, user, timeout_s, &done, &hung, e);
    close(fd[0]);
    kill(pid, SIGKILL); /* it has nothing left to do, or is stuck */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *end = hung ? FY_QNN_HUNG : rc == 0 ? FY_QNN_CRASHED : FY_QNN_DONE;
    return hung || rc >= 0 ? 0 : -1;
}
