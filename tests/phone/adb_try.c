/* adb_try [-s SERIAL] SUBCOMMAND ARGUMENTS...: ferry's adb client, one call after another, for
 * tests. The exit status is that of ferry, or of the command that ran on the phone. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "workspace/phone/adb.h"

static int try_devices(const fy_adb *a, char **args, int *status, fy_err *e)
{
    (void)a, (void)args, (void)status;
    fy_adb_device *d = NULL;
    size_t n = 0;
    if (fy_adb_devices(&d, &n, e) != 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        printf("%s|%s|%s|%s|%s\n", d[i].serial, d[i].state, d[i].product, d[i].model, d[i].device);
    fy_adb_devices_free(d, n);
    return 0;
}

static int try_shell(const fy_adb *a, char **args, int *status, fy_err *e)
{
    fy_str out = {0}, err = {0};
    int rc = fy_adb_shell(a, args[0], &out, &err, status, e);
    fwrite(fy_str_z(&out), 1, out.len, stdout);
    fwrite(fy_str_z(&err), 1, err.len, stderr);
    fy_str_release(&out);
    fy_str_release(&err);
    return rc;
}

static int run_stream(const fy_adb *a, const char *cmd, bool tty, int *status, fy_err *e)
{
    fy_adb_streams s = {
        .in_fd = STDIN_FILENO, .out_fd = STDOUT_FILENO, .err_fd = STDERR_FILENO, .tty = tty};
    s.grace_s = getenv("GRACE") != NULL ? atof(getenv("GRACE")) : 10;
    return fy_adb_shell_stream(a, cmd, &s, status, e);
}

static int try_stream(const fy_adb *a, char **args, int *status, fy_err *e)
{
    return run_stream(a, args[0], false, status, e);
}

static int try_tty(const fy_adb *a, char **args, int *status, fy_err *e)
{
    return run_stream(a, args[0], true, status, e);
}

/* Standard input to the command, its output to ours until its end. */
static int try_exec(const fy_adb *a, char **args, int *status, fy_err *e)
{
    static char data[65536];
    (void)status;
    int fd = fy_adb_exec(a, args[0], e), in = STDIN_FILENO;
    ssize_t n = 1;
    while (fd >= 0 && n > 0) {
        struct pollfd f[2] = {{.fd = fd, .events = POLLIN}, {.fd = in, .events = POLLIN}};
        if (poll(f, 2, -1) < 0)
            continue;
        if (f[1].revents != 0) {
            ssize_t got = read(in, data, sizeof data);
            if (got > 0) {
                if (fy_write_all(fd, data, (size_t)got, "the command", e) != 0)
                    break;
            } else {
                in = -1; /* only the command can know that this was all */
            }
        }
        if (f[0].revents != 0 && (n = read(fd, data, sizeof data)) > 0)
            fwrite(data, 1, (size_t)n, stdout);
    }
    if (fd >= 0)
        close(fd);
    return e->code == FY_OK ? 0 : -1;
}

static int try_push(const fy_adb *a, char **args, int *status, fy_err *e)
{
    (void)status;
    struct stat st;
    int fd = open(args[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fy_fail_errno(e, "%s", args[0]);
    fy_adb_sync *s = fy_adb_sync_open(a, e);
    int rc =
        s == NULL ? -1 : fy_adb_sync_send(s, args[1], st.st_mode, st.st_mtime, fy_adb_fill_fd, &fd, e);
    fy_adb_sync_close(s);
    close(fd);
    return rc;
}

static int take(void *user, const void *p, size_t n, fy_err *e)
{
    return fy_write_all(*(int *)user, p, n, "the file", e);
}

static int try_pull(const fy_adb *a, char **args, int *status, fy_err *e)
{
    (void)status;
    int fd = open(args[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return fy_fail_errno(e, "%s", args[1]);
    fy_adb_sync *s = fy_adb_sync_open(a, e);
    int rc = s == NULL ? -1 : fy_adb_sync_recv(s, args[0], take, &fd, e);
    fy_adb_sync_close(s);
    close(fd);
    return rc;
}

static void show(const char *name, const fy_adb_stat *st)
{
    printf("%o %llu %lld %s\n", st->mode, (unsigned long long)st->size, (long long)st->mtime, name);
}

static int each(void *user, const char *name, const fy_adb_stat *st, fy_err *e)
{
    (void)user, (void)e;
    show(name, st);
    return 0;
}

static int try_list(const fy_adb *a, char **args, int *status, fy_err *e)
{
    (void)status;
    fy_adb_sync *s = fy_adb_sync_open(a, e);
    int rc = s == NULL ? -1 : fy_adb_sync_list(s, args[0], each, NULL, e);
    fy_adb_sync_close(s);
    return rc;
}

static int try_stat(const fy_adb *a, char **args, int *status, fy_err *e)
{
    (void)status;
    fy_adb_stat st;
    fy_adb_sync *s = fy_adb_sync_open(a, e);
    int rc = s == NULL ? -1 : fy_adb_sync_stat(s, args[0], &st, e);
    if (rc == 0)
        show(args[0], &st);
    fy_adb_sync_close(s);
    return rc;
}

/* Stays usable: a refused operation, then another one on the same fy_adb_sync. */
static int try_twice(const fy_adb *a, char **args, int *status, fy_err *e)
{
    (void)status;
    fy_err first = {0};
    fy_adb_stat st;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    fy_adb_sync *s = fy_adb_sync_open(a, e);
    int rc = s == NULL ? -1 : 0;
    if (rc == 0 && fy_adb_sync_recv(s, args[0], take, &fd, &first) == 0)
        rc = fy_fail(e, FY_EVERIFY, "%s could be read", args[0]);
    if (rc == 0)
        rc = fy_adb_sync_stat(s, args[1], &st, e);
    if (rc == 0)
        show(args[1], &st);
    fy_adb_sync_close(s);
    close(fd);
    return rc;
}

static int try_forward(const fy_adb *a, char **args, int *status, fy_err *e)
{
    (void)status;
    uint16_t bound;
    if (fy_adb_forward(a, (uint16_t)atoi(args[0]), (uint16_t)atoi(args[1]), &bound, e) != 0)
        return -1;
    printf("%u\n", bound);
    return 0;
}

static int try_unforward(const fy_adb *a, char **args, int *status, fy_err *e)
{
    (void)status;
    return fy_adb_forward_remove(a, (uint16_t)atoi(args[0]), e);
}

static int try_quote(const fy_adb *a, char **args, int *status, fy_err *e)
{
    fy_str cmd = {0};
    fy_str_puts(&cmd, "printf %s ");
    fy_adb_quote(&cmd, args[0]);
    char *line[] = {cmd.ptr};
    int rc = try_shell(a, line, status, e);
    fy_str_release(&cmd);
    return rc;
}

static const struct {
    const char *name;
    int n_args;
    int (*run)(const fy_adb *a, char **args, int *status, fy_err *e);
} subcommands[] = {
    {"devices", 0, try_devices}, {"shell", 1, try_shell},     {"stream", 1, try_stream},
    {"tty", 1, try_tty},         {"exec", 1, try_exec},       {"push", 2, try_push},
    {"pull", 2, try_pull},       {"list", 1, try_list},       {"stat", 1, try_stat},
    {"twice", 2, try_twice},     {"forward", 2, try_forward}, {"unforward", 1, try_unforward},
    {"quote", 1, try_quote},
};

int main(int argc, char **argv)
{
    fy_err e = {0};
    const char *serial = NULL;
    int at = 1, status = 0, rc = -1;
    fy_signals_install();
    fy_log_set(fy_log_to_stderr, NULL);
    if (argc > 2 && strcmp(argv[1], "-s") == 0) {
        serial = argv[2];
        at = 3;
    }
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0] && at < argc; i++) {
        if (strcmp(argv[at], subcommands[i].name) != 0 || argc - at - 1 != subcommands[i].n_args)
            continue;
        fy_adb *a = subcommands[i].run == try_devices ? NULL : fy_adb_open(serial, &e);
        if (a != NULL || subcommands[i].run == try_devices)
            rc = subcommands[i].run(a, argv + at + 1, &status, &e);
        fy_adb_close(a);
        if (rc == 0 && fflush(stdout) == 0)
            return status;
        fprintf(stderr, "adb_try: %s\n", e.msg);
        return fy_exit_status(e.code);
    }
    fprintf(stderr, "usage: adb_try [-s SERIAL] devices|shell CMD|stream CMD|tty CMD|exec CMD|"
                    "push FILE PATH|pull PATH FILE|list DIR|stat PATH|twice BAD PATH|"
                    "forward HOST DEVICE|unforward HOST|quote WORD\n");
    return 2;
}
