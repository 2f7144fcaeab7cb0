/* Commands on the phone: the shell service (protocol v2) and exec. A short command's output is
 * collected; a streamed one has this process's input, output, window size and interrupts. */
#include "workspace/phone/adb_wire.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "base/process.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/verb.h"

void fy_adb_quote(fy_str *cmd, const char *arg)
{
    fy_str_put_word(cmd, arg);
}

/* Names the phone and the beginning of the command in front of a message. */
static int failed(const fy_adb *a, const char *cmd, fy_err *e)
{
    enum { SHOWN = 40 };
    char doing[2 * SHOWN];
    size_t n = strcspn(cmd, "\n");
    snprintf(doing, sizeof doing, "running '%.*s%s'", n < SHOWN ? (int)n : SHOWN, cmd,
             n < SHOWN && cmd[n] == '\0' ? "" : "...");
    return fy_adb_ctx(a->serial, doing, e);
}

/* --- short commands --------------------------------------------------------------------------- */

typedef struct {
    fy_str *out, *err;
    size_t total; /* bytes that came, packets' heads too */
    int status;   /* -1: not yet */
} collection;

static int collect(collection *c, fy_adb_packets *packets, const unsigned char *p, size_t n,
                   fy_err *e)
{
    fy_adb_piece piece;
    int more;
    c->total += n;
    if (c->total > FY_ADB_MAX_OUTPUT)
        return fy_fail(e, FY_EDEVICE, "more than %u MiB of output", FY_ADB_MAX_OUTPUT >> 20);
    for (size_t used = 0; (more = fy_adb_next_piece(packets, p, n, &used, &piece, e)) > 0;) {
        if (piece.id == FY_ADB_EXIT) {
            c->status = piece.p[0];
            return 0;
        }
        fy_str *to = piece.id == FY_ADB_STDOUT ? c->out : piece.id == FY_ADB_STDERR ? c->err : NULL;
        if (to != NULL) {
            fy_str_add(to, piece.p, piece.n);
            if (to->oom)
                return fy_nomem(e);
        }
    }
    return more;
}

static int run(const fy_adb *a, fy_adb_link *l, const char *cmd, collection *c, fy_err *e)
{
    enum { PART = 64 * 1024 };
    fy_adb_packets packets = {0};
    unsigned char no_input[FY_ADB_PACKET_HEAD], *part = malloc(PART);
    int rc = part == NULL ? fy_nomem(e) : fy_adb_service(a, l, "shell,v2,raw:", cmd, e);
    fy_adb_packet_head(no_input, FY_ADB_CLOSE_STDIN, 0);
    if (rc == 0) /* a command that has ended already does not take it: its answer counts */
        fy_adb_link_write(l, no_input, sizeof no_input, NULL);
    while (rc == 0 && c->status < 0) {
        ssize_t n = fy_adb_link_read_some(l, part, PART, e);
        if (n > 0)
            rc = collect(c, &packets, part, (size_t)n, e);
        else
            rc = n < 0 ? -1 : fy_fail(e, FY_EDEVICE, "no exit status came: %s", fy_adb_lost);
    }
    free(part);
    return rc;
}

int fy_adb_shell(const fy_adb *a, const char *cmd, fy_str *out, fy_str *err, int *status, fy_err *e)
{
    fy_adb_link l = {.fd = -1};
    collection c = {.out = out, .err = err, .status = -1};
    int rc = run(a, &l, cmd, &c, e);
    fy_adb_hang_up(&l);
    if (rc != 0)
        return failed(a, cmd, e);
    *status = c.status;
    return 0;
}

int fy_adb_run(const fy_adb *a, fy_str *cmd, fy_str *out, fy_str *err, int *status, fy_err *e)
{
    int rc = cmd->oom ? fy_nomem(e) : fy_adb_shell(a, fy_str_z(cmd), out, err, status, e);
    fy_str_release(cmd);
    return rc;
}

int fy_adb_exec(const fy_adb *a, const char *cmd, fy_err *e)
{
    fy_adb_link l = {.fd = -1};
    return fy_adb_service(a, &l, "exec:", cmd, e) == 0 ? l.fd : failed(a, cmd, e);
}

enum {
    TICK_MS = 100,     /* how often interrupts and the window's size are looked at */
    PART = 64 * 1024,  /* most bytes taken at once, either way */
    ROOM = PART + 256, /* a part with its head, and short packets after it */
    PASS_ON_S = 3,     /* for the phone to take an interrupt */
    CTRL_C = 3,
    CTRL_D = 4, /* what a terminal makes of them */
};

typedef struct {
    const fy_adb *a;
    const fy_adb_streams *s;
    fy_adb_link link;
    fy_adb_packets packets;
    unsigned char in[ROOM], out[PART]; /* from us, waiting to be sent; from the phone */
    size_t n_in, sent;
    bool in_open, sending; /* sending: the phone still takes what we send */
    struct winsize window;
    struct termios saved; /* of in_fd while it is raw */
    bool raw;
    char line[32]; /* the announcement as it comes */
    size_t n_line;
    bool line_over;
    long pid; /* of the phone's shell; 0: unknown, then cutting the connection is what is left */
    fy_adb_link passer; /* the connection that took the interrupt */
    bool passed;
    double cut_s;    /* when the connection is cut; 0: not */
    double silent_s; /* since when a typed Ctrl-C has no echo; 0: none has */
    int status;      /* -1: not yet */
    fy_str half[2];  /* owned; of out and err: what has not come whole yet */
} stream;

/* --- to the phone ----------------------------------------------------------------------------- */

/* Queues a packet; short ones always find room, a part of the input when nothing else waits. */
static void queue(stream *t, int id, const void *p, size_t n)
{
    if (!t->sending || t->n_in + FY_ADB_PACKET_HEAD + n > ROOM)
        return;
    fy_adb_packet_head(t->in + t->n_in, id, n);
    t->n_in += FY_ADB_PACKET_HEAD;
    if (n > 0)
        memcpy(t->in + t->n_in, p, n);
    t->n_in += n;
}

static void flush_input(stream *t)
{
    ssize_t n = t->n_in > t->sent ? send(t->link.fd, t->in + t->sent, t->n_in - t->sent,
                                         MSG_DONTWAIT | MSG_NOSIGNAL)
                                  : 0;
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        t->sending = false; /* the command has ended: what it said may still be on its way */
    if (n > 0)
        t->sent += (size_t)n;
    if (!t->sending || t->sent == t->n_in)
        t->sent = t->n_in = 0;
}

static int end_input(stream *t)
{
    t->in_open = false;
    if (t->s->tty)
        queue(t, FY_ADB_STDIN, &(char){CTRL_D}, 1);
    else
        queue(t, FY_ADB_CLOSE_STDIN, NULL, 0);
    return 0;
}

/* In raw mode Ctrl-C is a byte like any other. One that a phone does not even echo for grace_s
 * makes the next one end the wait. */
static bool gives_up(stream *t, const unsigned char *p, size_t n)
{
    if (!t->raw || memchr(p, CTRL_C, n) == NULL)
        return false;
    double now = fy_now_s();
    if (t->silent_s > 0)
        return now > t->silent_s + t->s->grace_s;
    t->silent_s = now;
    return false;
}

static int cut(const stream *t, fy_err *e)
{
    return fy_fail(e, FY_EINTR,
                   "interrupted; the command did not end within %g s: the connection was cut",
                   t->s->grace_s);
}

static int take_input(stream *t, fy_err *e)
{
    unsigned char part[PART];
    ssize_t n = read(t->s->in_fd, part, sizeof part);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n < 0 && errno != EIO) /* EIO: a terminal that was hung up */
        return fy_fail_errno(e, "cannot read the command's input");
    if (n <= 0)
        return end_input(t);
    if (gives_up(t, part, (size_t)n))
        return cut(t, e);
    queue(t, FY_ADB_STDIN, part, (size_t)n);
    return 0;
}

/* --- the terminal ----------------------------------------------------------------------------- */

static void send_window(stream *t)
{
    struct winsize w;
    const int fds[] = {t->s->out_fd, t->s->in_fd, t->s->err_fd};
    bool known = false;
    for (size_t i = 0; i < 3 && !known; i++)
        known = fds[i] >= 0 && ioctl(fds[i], TIOCGWINSZ, &w) == 0 && w.ws_row > 0 && w.ws_col > 0;
    if (!known || memcmp(&w, &t->window, sizeof w) == 0)
        return;
    char text[64];
    int n =
        snprintf(text, sizeof text, "%ux%u,%ux%u", w.ws_row, w.ws_col, w.ws_xpixel, w.ws_ypixel);
    t->window = w;
    queue(t, FY_ADB_WINDOW, text, (size_t)n + 1); /* adbd reads it as a C string */
}

/* The phone's terminal edits lines, echoes and makes signals; ours must not do so too. */
static void make_raw(stream *t)
{
    if (!t->s->tty || t->s->in_fd < 0 || tcgetattr(t->s->in_fd, &t->saved) != 0)
        return;
    struct termios raw = t->saved;
    cfmakeraw(&raw);
    fy_signals_hold(true); /* a signal that ended the program would leave it raw */
    t->raw = tcsetattr(t->s->in_fd, TCSADRAIN, &raw) == 0;
    if (!t->raw)
        fy_signals_hold(false);
}

static void make_cooked(stream *t)
{
    if (!t->raw)
        return;
    tcsetattr(t->s->in_fd, TCSADRAIN, &t->saved);
    fy_signals_hold(false);
}

/* --- interrupts ------------------------------------------------------------------------------- */

void fy_adb_pass_interrupt(const fy_adb *a, long pid, fy_adb_link *passer)
{
    char command[160];
    /* The group is asked for here and now: under adbd it is the shell's own id. */
    snprintf(command, sizeof command,
             "g=$(sed 's/.*) . [0-9]* //;s/ .*//' /proc/%ld/stat) && "
             "[ \"$g\" -gt 1 ] && kill -INT -\"$g\"",
             pid);
    fy_adb quick = *a;
    quick.at.answer_s = quick.at.answer_s < PASS_ON_S ? quick.at.answer_s : PASS_ON_S;
    fy_adb_service(&quick, passer, "shell,v2,raw:", command, NULL);
}

static void pass_on(stream *t)
{
    if (t->s->tty)
        queue(t, FY_ADB_STDIN, &(char){CTRL_C}, 1);
    else
        fy_adb_pass_interrupt(t->a, t->pid, &t->passer);
}

/* Between any two waits. */
static int tick(stream *t, fy_err *e)
{
    if (fy_interrupted && t->cut_s == 0)
        t->cut_s = fy_now_s() + t->s->grace_s;
    if (t->cut_s > 0 && !t->passed && (t->s->tty || t->pid > 1)) {
        t->passed = true;
        pass_on(t);
    }
    if (t->s->tty)
        send_window(t);
    return t->cut_s > 0 && fy_now_s() > t->cut_s ? cut(t, e) : 0;
}

/* --- from the phone --------------------------------------------------------------------------- */

/* A reader that is slow (a pager) does not keep interrupts from being passed on. */
static int put(stream *t, int fd, const void *bytes, size_t n, fy_err *e)
{
    const char *p = bytes;
    while (fd >= 0 && n > 0) {
        struct pollfd f = {.fd = fd, .events = POLLOUT};
        int ready = poll(&f, 1, TICK_MS);
        if (tick(t, e) != 0)
            return -1;
        if (ready <= 0)
            continue;
        ssize_t done = write(fd, p, n < PIPE_BUF ? n : PIPE_BUF);
        if (done < 0 && errno != EINTR && errno != EAGAIN)
            return fy_fail_errno(e, "cannot write the command's output");
        p += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

/* What a program with a terminal of its own may do with ours: move the cursor, erase, colour, wrap
 * lines and bracket what is pasted. Returns the bytes of such a sequence at p[0..n), n + 1 when
 * more have to come, 0 for everything else: titles, the clipboard, reports that the terminal would
 * type into the user's shell. */
static size_t drawing(const char *p, size_t n)
{
    enum { LONGEST = 24 };
    static const char *const modes[] = {"4", "?7", "?25", "?2004"};
    if (memchr("\r\b\a", *p, 3) != NULL)
        return 1;
    if (*p != '\033' || (n > 1 && p[1] != '['))
        return 0;
    size_t end = 2;
    while (end < n && end < LONGEST && memchr("?;0123456789", p[end], 12) != NULL)
        end++;
    if (end >= n)
        return n < LONGEST ? n + 1 : 0;
    fy_span parameters = {p + 2, end - 2};
    if (memchr("ABCDEFGHJKLMPSX@dfmsu", p[end], 21) != NULL)
        return memchr(parameters.ptr, '?', parameters.len) == NULL ? end + 1 : 0;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if ((p[end] == 'h' || p[end] == 'l') && fy_span_is(parameters, modes[i]))
            return end + 1;
    }
    return 0;
}

/* Appends text with its drawing; what is neither is escaped. Returns the bytes that it took. */
static size_t put_drawn(fy_str *out, const char *p, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        size_t len = drawing(p + i, n - i);
        if (len > 0) {
            fy_str_put_shown(out, (fy_span){p + from, i - from});
            if (len > n - i)
                return i;
            fy_str_add(out, p + i, len);
            from = i + len;
        }
        i += len > 0 ? len : 1;
    }
    fy_str_put_shown(out, (fy_span){p + from, n - from});
    return n;
}

/* A program on the phone that writes to a pipe there cannot know that it ends at a terminal here.
 * p NULL: the end. */
static int put_text(stream *t, int fd, const void *p, size_t n, fy_err *e)
{
    fy_str *half = &t->half[fd == t->s->err_fd], shown = {0};
    if (fd < 0 || !isatty(fd))
        return put(t, fd, p, n, e);
    if (n > 0)
        fy_str_add(half, p, n);
    if (half->oom)
        return fy_nomem(e);
    if (half->len == 0)
        return 0;
    const char *text = half->ptr;
    size_t used = p != NULL ? fy_utf8_complete(text, half->len) : half->len;
    if (t->s->tty && p != NULL)
        used = put_drawn(&shown, text, used);
    else
        fy_str_put_shown(&shown, (fy_span){text, used});
    half->len -= used;
    memmove(half->ptr, text + used, half->len);
    int rc = shown.oom ? fy_nomem(e) : put(t, fd, fy_str_z(&shown), shown.len, e);
    fy_str_release(&shown);
    return rc;
}

/* The standard error without the announcement in front of it. */
static int put_error(stream *t, const unsigned char *p, size_t n, fy_err *e)
{
    static const char announced[] = FY_ADB_ANNOUNCED;
    const size_t prefix = sizeof announced - 1;
    while (!t->line_over && n > 0) {
        t->line[t->n_line++] = (char)*p++;
        n--;
        bool fits = t->n_line <= prefix ? memcmp(t->line, announced, t->n_line) == 0
                                        : strchr("0123456789\n", t->line[t->n_line - 1]) != NULL &&
                                              t->line[t->n_line - 1] != '\0';
        if (fits && t->line[t->n_line - 1] == '\n') {
            t->line_over = true;
            t->pid = strtol(t->line + prefix, NULL, 10);
        } else if (!fits || t->n_line == sizeof t->line) {
            t->line_over = true; /* something else: the command's own text */
            if (put_text(t, t->s->err_fd, t->line, t->n_line, e) != 0)
                return -1;
        }
    }
    return put_text(t, t->s->err_fd, p, n, e);
}

static int take_output(stream *t, fy_err *e)
{
    ssize_t n = recv(t->link.fd, t->out, sizeof t->out, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return t->cut_s > 0 ? fy_fail(e, FY_EINTR,
                                      "interrupted; the connection ended without the command's "
                                      "exit status")
                            : fy_fail(e, FY_EDEVICE, "no exit status came: %s", fy_adb_lost);
    fy_adb_piece piece;
    int rc;
    t->silent_s = 0;
    for (size_t used = 0;
         (rc = fy_adb_next_piece(&t->packets, t->out, (size_t)n, &used, &piece, e)) > 0;) {
        if (piece.id == FY_ADB_EXIT) {
            t->status = piece.p[0];
            /* what began like the announcement and was not */
            return t->line_over ? 0 : put_text(t, t->s->err_fd, t->line, t->n_line, e);
        }
        if (piece.id == FY_ADB_STDOUT)
            rc = put_text(t, t->s->out_fd, piece.p, piece.n, e);
        else if (piece.id == FY_ADB_STDERR)
            rc = put_error(t, piece.p, piece.n, e);
        if (rc < 0)
            break;
    }
    return rc < 0 ? -1 : 0;
}

static int carry(stream *t, fy_err *e)
{
    while (t->status < 0) {
        bool waits = t->n_in > t->sent;
        struct pollfd f[2] = {{.fd = t->link.fd, .events = (short)(POLLIN | (waits ? POLLOUT : 0))},
                              {.fd = t->in_open && !waits ? t->s->in_fd : -1, .events = POLLIN}};
        if (poll(f, 2, TICK_MS) < 0 && errno != EINTR)
            return fy_fail_errno(e, "cannot wait for the phone");
        if (tick(t, e) != 0)
            return -1;
        if ((f[0].revents & ~POLLOUT) != 0 && take_output(t, e) != 0)
            return -1;
        if (f[1].revents != 0 && t->status < 0 && take_input(t, e) != 0)
            return -1;
        flush_input(t);
    }
    return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* "shell,v2,TERM=xterm,pty:"; a name of a terminal is plain, or not passed on. */
static void service_name(const fy_adb_streams *s, fy_str *out)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-_";
    const char *term = getenv("TERM");
    fy_str_puts(out, "shell,v2,");
    if (s->tty && term != NULL && *term != '\0' && strspn(term, plain) == strlen(term))
        fy_str_printf(out, "TERM=%s,", term);
    fy_str_puts(out, s->tty ? "pty:" : "raw:");
    fy_str_puts(out, s->tty ? "" : FY_ADB_ANNOUNCE);
}

int fy_adb_shell_stream(const fy_adb *a, const char *cmd, const fy_adb_streams *s, int *status,
                        fy_err *e)
{
    fy_str service = {0};
    stream *t = calloc(1, sizeof *t);
    if (t == NULL)
        return fy_nomem(e);
    t->a = a;
    t->s = s;
    t->link.fd = t->passer.fd = -1;
    t->passer.after_interrupt = true;
    t->sending = true;
    t->in_open = s->in_fd >= 0;
    t->line_over = s->tty;
    t->status = -1;
    service_name(s, &service);
    int rc = service.oom ? fy_nomem(e) : fy_adb_service(a, &t->link, service.ptr, cmd, e);
    if (rc == 0) {
        make_raw(t);
        if (!t->in_open && !s->tty)
            end_input(t);
        rc = carry(t, e);
        for (int i = 0; i < 2 && rc == 0; i++)
            rc = t->half[i].len > 0 ? put_text(t, i == 0 ? s->out_fd : s->err_fd, NULL, 0, e) : 0;
        make_cooked(t);
    }
    if (rc == 0)
        *status = t->status;
    fy_adb_hang_up(&t->link);
    fy_adb_hang_up(&t->passer);
    fy_str_release(&service);
    fy_str_release(&t->half[0]);
    fy_str_release(&t->half[1]);
    free(t);
    return rc == 0 ? 0 : fy_adb_ctx(a->serial, "running a command", e);
}
