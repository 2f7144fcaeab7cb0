/* Commands on the phone: arm64 programs in its own root, by proot and qemu. shell v2 packets (AOSP
 * adb, shell_protocol.h): {u8 id, u32le length, bytes}. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/phone/phone.h"

enum { ID_STDIN, ID_STDOUT, ID_STDERR, ID_EXIT, ID_CLOSE_STDIN, ID_WINDOW, PACKET_MAX = 1 << 16 };

static _Noreturn void run_command(const phone *p, const char *command)
{
    char meminfo[4200], cpuinfo[4200], sys[4200];
    snprintf(meminfo, sizeof meminfo, "%s/fake/meminfo:/proc/meminfo", p->root);
    snprintf(cpuinfo, sizeof cpuinfo, "%s/fake/cpuinfo:/proc/cpuinfo", p->root);
    snprintf(sys, sizeof sys, "%s/fake/sys:/sys", p->root);
    const char *argv[] = {
        "proot", "-r",    p->root, "-q",    "qemu-aarch64", "-w",    "/",  "-b", "/dev",
        "-b",    "/proc", "-b",    meminfo, "-b",           cpuinfo, "-b", sys,  "/system/bin/sh",
        "-c",    command, NULL};
    /* Phones have no SVE, or keep it off; emulated it is so slow that copying memory is what
     * counts. */
    char *env[] = {(char[]){"PATH=/usr/bin:/bin"},
                   (char[]){"HOME=/"},
                   (char[]){"TERM=xterm"},
                   (char[]){"PROOT_VERBOSE=-1"},
                   (char[]){"ANDROID_ROOT=/system"},
                   (char[]){"QEMU_CPU=max,sve=off"},
                   NULL};
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* proot ends what it traces */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL); /* a script that starts us in the background has it ignored */
    signal(SIGQUIT, SIG_DFL);
    char *args[32];
    size_t n = 0;
    for (; argv[n] != NULL; n++)
        args[n] = strdup(argv[n]);
    args[n] = NULL;
    execve("/usr/bin/proot", args, env);
    fprintf(stderr, "phone: /usr/bin/proot: %s\n", strerror(errno));
    _exit(127);
}

_Noreturn void phone_exec(const phone *p, int fd, const char *command)
{
    dup2(fd, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    run_command(p, command);
}

/* Runs the file as a script of a new session. */
static void start_detached(const phone *p, const char *path)
{
    static char text[1 << 16];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    unlink(path);
    if (n < 0 || fork() != 0)
        return;
    text[n] = '\0';
    signal(SIGCHLD, SIG_DFL);
    setsid();
    const int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    run_command(p, text);
}

_Noreturn void phone_init(const phone *p)
{
    char dir[4096], path[4400];
    snprintf(dir, sizeof dir, "%s/.detached", p->root);
    for (;; usleep(50000)) {
        DIR *d = opendir(dir);
        for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
            const char *dot = strrchr(e->d_name, '.');
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
            if (dot != NULL && strcmp(dot, ".sh") == 0)
                start_detached(p, path);
        }
        if (d != NULL)
            closedir(d);
    }
}

/* --- a child with pipes or a terminal --------------------------------------------------------- */

typedef struct {
    pid_t pid;
    int in, out, err; /* ours; -1: closed. With a terminal in and out are the same, err is -1. */
    char pending[PACKET_MAX + 1]; /* input that the command has not taken yet */
    size_t n_pending, done;
} child;

static void start(child *c, const phone *p, bool tty, const char *command)
{
    c->in = c->out = c->err = -1;
    if (tty) {
        c->pid = forkpty(&c->in, NULL, NULL, NULL);
        if (c->pid == 0)
            run_command(p, command);
        c->out = c->in;
        return;
    }
    int in[2], out[2], err[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        _exit(1);
    c->pid = fork();
    if (c->pid == 0) {
        setsid();
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        run_command(p, command);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    c->in = in[1];
    c->out = out[0];
    c->err = err[0];
}

static bool send_packet(int fd, int id, const void *data, size_t n)
{
    unsigned char head[5] = {(unsigned char)id, (unsigned char)n, (unsigned char)(n >> 8),
                             (unsigned char)(n >> 16), (unsigned char)(n >> 24)};
    return phone_write(fd, head, 5) && phone_write(fd, data, n);
}

/* Never waits for the command: it may be waiting for us to take its output. */
static void feed(child *c, bool tty)
{
    ssize_t n = write(c->in, c->pending + c->done, c->n_pending - c->done);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        n = (ssize_t)(c->n_pending - c->done); /* the command does not read any more */
        if (!tty) {
            close(c->in);
            c->in = -1;
        }
    }
    c->done += n > 0 ? (size_t)n : 0;
    if (c->done == c->n_pending)
        c->n_pending = c->done = 0;
}

/* One packet of the client; false: it is gone. */
static bool take_packet(int fd, child *c, bool tty)
{
    unsigned char head[5];
    if (!phone_read(fd, head, 5))
        return false;
    char *data = c->pending;
    size_t n = head[1] | (size_t)head[2] << 8 | (size_t)head[3] << 16 | (size_t)head[4] << 24;
    if (n > PACKET_MAX || !phone_read(fd, data, n))
        return false;
    data[n] = '\0';
    struct winsize w = {0};
    if (head[0] == ID_STDIN && c->in >= 0) {
        c->n_pending = n;
        c->done = 0;
        feed(c, tty);
    } else if (head[0] == ID_CLOSE_STDIN && c->in >= 0 && !tty) {
        close(c->in);
        c->in = -1;
    } else if (head[0] == ID_WINDOW && tty && sscanf(data, "%hux%hu", &w.ws_row, &w.ws_col) == 2) {
        ioctl(c->out, TIOCSWINSZ, &w);
    }
    return true;
}

/* Passes what the command wrote; closes the end that has ended. */
static bool pass_output(int fd, int id, int *from, size_t most)
{
    char data[1 << 14];
    ssize_t n = read(*from, data, most > 0 && most < sizeof data ? most : sizeof data);
    if (n < 0 && errno == EAGAIN)
        return true;
    if (n > 0)
        return send_packet(fd, id, data, (size_t)n);
    close(*from);
    *from = -1;
    return true;
}

_Noreturn void phone_shell(const phone *p, int fd, const char *args, const char *command)
{
    bool v2 = strstr(args, "v2") != NULL, tty = strstr(args, "raw") == NULL;
    if (!v2) {
        dup2(fd, STDERR_FILENO);
        phone_exec(p, fd, command);
    }
    signal(SIGPIPE, SIG_IGN);
    static child c;
    start(&c, p, tty, command);
    fcntl(c.in, F_SETFL, O_NONBLOCK);
    bool here = true;
    while (here && (c.out >= 0 || c.err >= 0)) {
        bool waits = c.n_pending > 0;
        struct pollfd f[4] = {{.fd = fd, .events = waits ? 0 : POLLIN},
                              {.fd = c.out, .events = POLLIN},
                              {.fd = c.err, .events = POLLIN},
                              {.fd = waits ? c.in : -1, .events = POLLOUT}};
        if (poll(f, 4, -1) < 0)
            continue;
        if (f[3].revents != 0)
            feed(&c, tty);
        if (f[0].revents != 0)
            here = (f[0].revents & POLLIN) != 0 && !waits ? take_packet(fd, &c, tty) : false;
        if (here && c.out >= 0 && f[1].revents != 0)
            here = pass_output(fd, ID_STDOUT, &c.out, p->control->chunk);
        if (here && c.err >= 0 && f[2].revents != 0)
            here = pass_output(fd, ID_STDERR, &c.err, p->control->chunk);
    }
    if (!here && p->control->lets_live && !tty) {
        const int ends[] = {c.in, c.out, c.err};
        for (int i = 0; i < 3; i++) {
            if (ends[i] >= 0)
                close(ends[i]);
        }
    } else if (!here) {
        kill(-c.pid, SIGHUP);
        usleep(100000);
        kill(-c.pid, SIGKILL);
    }
    int status = 0;
    waitpid(c.pid, &status, 0);
    unsigned char code =
        (unsigned char)(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    if (here && !p->control->exit_lost)
        send_packet(fd, ID_EXIT, &code, 1);
    _exit(0);
}
