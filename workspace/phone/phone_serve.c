/* The server on the phone: started, watched and ended over adb. */
#include "workspace/phone/phone_serve.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/terminal.h"
#include "workspace/phone/adb_wire.h"
#include "workspace/phone/doctor.h"
#include "workspace/phone/phone_workspace.h"

#define STATE  FY_PHONE_DIR "/.serve"
#define LOG    FY_PHONE_DIR "/.serve.log"
#define SETSID "/system/bin/setsid"
#define STAY   "global stay_on_while_plugged_in"

/* In front of every command: when process $1 has started; nothing when it has ended. */
#define SHELL_AT                                                                   \
    "S=" STATE "; at() { set -- $(sed 's/.*) //' \"/proc/$1/stat\" 2>/dev/null); " \
    "case \"$1\" in Z|X) ;; *) echo \"${20}\" ;; esac; }; "
#define SAYS_PID "ferry-server "

enum {
    TICK_MS = 100,
    POLL_MS = 250, /* between looks at a detached server */
    START_S = 20,  /* for its first sign of life */
    HEAT_S = 30,   /* between looks at the temperatures */
    GRACE_S = 35,  /* the server gives its running answers 30 */
    FORCED_S = 5,  /* after a second signal */
    SHELL_S = 5,   /* its shell writes how it ended */
};

typedef struct {
    const fy_adb *a;          /* view */
    const fy_phone_server *s; /* view */
    char digest[24];
    fy_phone_serving seen;
    int64_t pid;     /* of the server there; 0: not known */
    uint16_t named;  /* the port that it named before its shell named the process */
    uint16_t device; /* its port there; 0: it is not ready */
    uint16_t bound;  /* the port here that leads there; 0: none */
    int n_signals;
    double cut_s;       /* when it is given up after a signal; 0: none came */
    double next_heat_s; /* when the temperatures are looked at next */
    bool is_hot;
} run;

/* --- what is read ----------------------------------------------------------------------------- */

static bool take_u32(fy_span s, uint32_t most, uint32_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.len && v <= most; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    if (s.len == 0 || v > most)
        return false;
    *out = (uint32_t)v;
    return true;
}

uint16_t fy_phone_serve_port(fy_span line)
{
    static const char before[] = "listening on http://127.0.0.1:";
    uint32_t port = 0;
    if (!fy_span_begins(line, before))
        return 0;
    line.ptr += sizeof before - 1;
    line.len -= sizeof before - 1;
    return take_u32(line, UINT16_MAX, &port) ? (uint16_t)port : 0;
}

static bool take_word(fy_span w, char *out, size_t size)
{
    if (w.len == 0 || w.len >= size)
        return false;
    memcpy(out, w.ptr, w.len);
    out[w.len] = '\0';
    return true;
}

void fy_phone_serving_parse(fy_span text, fy_phone_serving *out)
{
    uint32_t n;
    *out = (fy_phone_serving){.ended = -1};
    const bool alive = fy_span_is(fy_span_cut_line(&text), "alive");
    fy_span line = fy_span_cut_line(&text);
    out->known = take_u32(fy_span_cut_word(&line), 1 << 30, &n) && n > 1 &&
                 take_word(fy_span_cut_word(&line), out->start, sizeof out->start) &&
                 take_word(fy_span_cut_word(&line), out->digest, sizeof out->digest);
    if (!out->known)
        return;
    out->pid = n;
    out->alive = alive;
    out->detached = fy_span_is(fy_span_cut_word(&line), "detached");
    while (text.len > 0) {
        line = fy_span_cut_line(&text);
        const fy_span name = fy_span_cut_word(&line), value = fy_span_cut_word(&line);
        if (fy_span_is(name, "port") && take_u32(value, UINT16_MAX, &n))
            out->port = (uint16_t)n;
        else if (fy_span_is(name, "exit") && take_u32(value, 255, &n))
            out->ended = (int)n;
    }
}

/* Is a server there, and which? */
static int look(run *r, fy_err *e)
{
    fy_str cmd = {0}, text = {0};
    fy_str_puts(&cmd, SHELL_AT "{ p= b=; [ -f $S ] && read -r p b x <$S; "
                               "[ -n \"$b\" ] && [ \"$(at \"$p\")\" = \"$b\" ] && echo alive || "
                               "echo dead; cat $S 2>/dev/null; true; }");
    const int rc = fy_phone_do(r->a, &cmd, "say which server runs there", &text, e);
    if (rc == 0)
        fy_phone_serving_parse((fy_span){fy_str_z(&text), text.len}, &r->seen);
    fy_str_release(&text);
    return rc;
}

/* What an exit status of a server means. */
static const char *reason(int status, char *out, size_t size)
{
    if (status == 128 + SIGKILL)
        snprintf(out, size,
                 "the phone killed it (exit status 137): too little memory, or Android's limit of "
                 "processes in the background; 'ferry doctor' shows the memory, a smaller -c or "
                 "model needs less");
    else if (status > 128 && status != 130)
        snprintf(out, size, "signal %d ended it (exit status %d)", status - 128, status);
    else
        snprintf(out, size, "it ended with exit status %d", status);
    return out;
}

/* --- commands --------------------------------------------------------------------------------- */

/* Of a server that has ended: the file goes, and the phone may sleep again. */
static void clean_up(run *r)
{
    fy_str cmd = {0};
    int status;
    fy_str_puts(&cmd, "S=" STATE "; o=$(sed -n 's/^stay \\([0-9]*\\)$/\\1/p' $S); "
                      "[ -z \"$o\" ] || settings put " STAY " \"$o\"; rm -f $S");
    fy_adb_run(r->a, &cmd, NULL, NULL, &status, NULL);
}

/* SIGINT to the server, when that is the process with this number. */
static void signal_server(run *r)
{
    fy_str cmd = {0};
    int status;
    if (r->pid > 1 && r->seen.start[0] != '\0')
        fy_str_printf(&cmd, SHELL_AT "[ \"$(at %lld)\" = '%s' ] && kill -INT %lld",
                      (long long)r->pid, r->seen.start, (long long)r->pid);
    else if (r->pid > 1) /* its parent is ours and waits for it: the number is its own */
        fy_str_printf(&cmd, "kill -INT %lld", (long long)r->pid);
    else
        return;
    fy_adb_run(r->a, &cmd, NULL, NULL, &status, NULL);
}

/* Counts a signal of ours and passes it on. */
static void take_signal(run *r)
{
    fy_signals_take();
    r->n_signals++;
    r->cut_s = fy_now_s() + (r->n_signals > 1 ? FORCED_S : GRACE_S);
    if (r->n_signals == 1)
        fy_log(FY_LOG_INFO, "stopping the server on the phone; a second signal ends it at once");
    signal_server(r);
}

static int too_late(const run *r, fy_err *e)
{
    return fy_fail(e, FY_EINTR, "phone %s: the server did not end within %d s", fy_adb_name(r->a),
                   r->n_signals > 1 ? FORCED_S : GRACE_S);
}

/* The script that runs the server and waits for it. */
static void put_script(const run *r, fy_str *out)
{
    const fy_serve_place *p = &r->s->place;
    fy_str_puts(out, SHELL_AT "umask 077; ");
    if (p->detach)
        fy_str_puts(out, "exec >" LOG " 2>&1 </dev/null; ");
    fy_str_puts(out, "trap '' HUP; exec 3<&0; ");
    if (p->stay_on)
        fy_str_puts(out, "o=$(settings get " STAY "); case \"$o\" in ''|*[!0-9]*) o=0;; esac; ");
    fy_str_printf(out, "%s 2>&1 <&3 3<&- & p=$!; exec 3<&- </dev/null; ", r->s->cmd);
    fy_str_printf(out, "(set -C; echo \"$p $(at $p) %s %s%s\" >$S) 2>/dev/null && own=1 || ",
                  r->digest, p->detach ? "detached" : "attached", p->stay_on ? "\nstay $o" : "");
    fy_str_puts(out, "{ own=; kill $p; echo 'error: another server is being started'; }; ");
    if (p->stay_on) /* the file has the old value first: whoever finds it can undo this */
        fy_str_puts(out, "[ -z \"$own\" ] || settings put " STAY " 7 || echo 'warning: the phone "
                         "may sleep: it has no settings for --stay-on'; ");
    fy_str_puts(out, "echo '" SAYS_PID "'$p; wait $p; s=$?; ");
    if (p->stay_on)
        fy_str_puts(out, "[ -z \"$own\" ] || settings put " STAY " $o; ");
    fy_str_printf(out, "[ -z \"$own\" ] || %s; exit $s",
                  p->detach ? "echo \"exit $s\" >>$S" : "rm -f $S");
}

/* --- ports and files -------------------------------------------------------------------------- */

/* Before a model is loaded for nothing. */
static int check_port(const run *r, fy_err *e)
{
    const uint16_t port = r->s->place.port;
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (port == 0 || !r->a->at.local)
        return 0;
    const int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fy_fail_errno(e, "cannot make a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    const bool taken = bind(fd, (struct sockaddr *)&at, sizeof at) != 0 && errno == EADDRINUSE;
    close(fd);
    return !taken ? 0
                  : fy_fail(e, FY_EIO,
                            "port %u of this machine is taken by another program, or by an older "
                            "forward ('adb forward --list'); choose another --port",
                            port);
}

static int say(const run *r, fy_err *e)
{
    fy_str line = {0};
    fy_str_printf(&line, "listening on http://127.0.0.1:%u (%s)\n", r->bound, fy_adb_name(r->a));
    const int rc = line.oom ? fy_nomem(e) : fy_stderr(line.ptr, line.len, e);
    fy_str_release(&line);
    if (!r->a->at.local)
        fy_log(FY_LOG_WARN, "the port is one of the adb server's machine, %s", r->a->at.host);
    return rc;
}

/* The server is ready on this port of the phone. */
static int open_way(run *r, uint16_t device, fy_err *e)
{
    r->device = device;
    r->next_heat_s = fy_now_s();
    if (r->s->temp != NULL)
        fy_phone_temp_remove(r->a, r->s->temp); /* keys among them */
    if (fy_adb_forward(r->a, r->s->place.port, device, &r->bound, e) != 0)
        return -1;
    return say(r, e);
}

/* --- heat ------------------------------------------------------------------------------------- */

static void look_at_heat(run *r)
{
    fy_str out = {0};
    fy_facts facts;
    char text[200];
    int status;
    r->next_heat_s = fy_now_s() + HEAT_S;
    if (fy_adb_shell(r->a, fy_facts_heat_command, &out, NULL, &status, NULL) == 0) {
        fy_facts_parse(fy_str_z(&out), out.len, &facts);
        const bool hot = fy_facts_heat(&facts, text, sizeof text);
        if (hot && !r->is_hot)
            fy_log(FY_LOG_WARN,
                   "phone %s is hot (%s) and computes slower until it has cooled; out of its case "
                   "and unplugged it cools faster",
                   fy_adb_name(r->a), text);
        else if (!hot && r->is_hot)
            fy_log(FY_LOG_INFO, "phone %s has cooled (%s)", fy_adb_name(r->a), text);
        r->is_hot = hot;
    }
    fy_str_release(&out);
}

/* --- a server that ends with this command ----------------------------------------------------- */

static int on_line(run *r, fy_span line, fy_err *e)
{
    uint32_t pid;
    const fy_span rest = {line.ptr + sizeof SAYS_PID - 1, line.len - (sizeof SAYS_PID - 1)};
    const uint16_t port = r->device == 0 ? fy_phone_serve_port(line) : 0;
    if (r->device == 0 && fy_span_begins(line, SAYS_PID) && take_u32(rest, 1 << 30, &pid)) {
        r->pid = pid;
        if (r->n_signals > 0) /* the first could not be passed on */
            signal_server(r);
        return r->named > 0 ? open_way(r, r->named, e) : 0;
    }
    if (port > 0 && r->pid == 0) { /* a fast one: its shell still writes who it is */
        r->named = port;
        return 0;
    }
    if (port > 0)
        return open_way(r, port, e);
    fy_str shown = {0};
    fy_str_add(&shown, line.ptr, line.len);
    fy_str_putc(&shown, '\n');
    const int rc = shown.oom ? fy_nomem(e) : fy_stderr(shown.ptr, shown.len, e);
    fy_str_release(&shown);
    return rc;
}

static int on_end(run *r, int ended, int *status, fy_err *e)
{
    char why[256];
    if (r->n_signals > 1)
        return fy_fail(e, FY_EINTR, "interrupted");
    if (ended == 128 + SIGKILL || (r->device > 0 && ended != 0))
        return fy_fail(e, FY_EDEVICE, "phone %s: the server has ended: %s", fy_adb_name(r->a),
                       reason(ended, why, sizeof why));
    if (r->device > 0 && r->n_signals == 0)
        fy_log(FY_LOG_INFO, "phone %s: the server was ended there", fy_adb_name(r->a));
    *status = ended;
    return 0;
}

static int watch(run *r, fy_adb_talk *t, int *status, fy_err *e)
{
    fy_str line = {0};
    int rc = 1, ended = 0;
    bool is_lost = false;
    while (rc > 0) {
        if (fy_interrupted)
            take_signal(r);
        rc = fy_adb_talk_line(t, TICK_MS, &line, &ended, e);
        is_lost = rc < 0;
        if (rc == 1 && on_line(r, (fy_span){fy_str_z(&line), line.len}, e) != 0)
            rc = -1;
        else if (rc > 0 && r->cut_s > 0 && fy_now_s() > r->cut_s)
            rc = too_late(r, e);
        else if (rc > 0 && r->device > 0 && r->n_signals == 0 && fy_now_s() >= r->next_heat_s)
            look_at_heat(r);
    }
    fy_str_release(&line);
    if (rc == 0)
        return on_end(r, ended, status, e);
    if (is_lost) {
        const fy_err why = *e;
        *e = (fy_err){0};
        fy_fail(e, why.code,
                "phone %s: %s; the server there ends with the connection (--detach "
                "leaves it running)",
                fy_adb_name(r->a), why.msg);
    }
    return -1;
}

static int serve_attached(run *r, int *status, fy_err *e)
{
    fy_str script = {0};
    put_script(r, &script);
    fy_adb_talk *t =
        script.oom ? (fy_nomem(e), NULL) : fy_adb_talk_open(r->a, fy_str_z(&script), e);
    fy_str_release(&script);
    if (t == NULL)
        return -1;
    fy_signals_hold(true); /* the port here is given back in every case */
    const int rc = watch(r, t, status, e);
    if (r->bound > 0)
        fy_adb_forward_remove(r->a, r->bound, NULL);
    fy_adb_talk_close(t);
    fy_signals_hold(false);
    return rc;
}

/* --- a server that outlives this command ------------------------------------------------------ */

/* What is new: the state, "--", and the lines of its log from *at on. */
static int poll_server(run *r, uint64_t *at, fy_str *log, fy_err *e)
{
    fy_str cmd = {0}, text = {0};
    fy_str_printf(&cmd,
                  "{ echo alive; cat " STATE " 2>/dev/null; echo --; "
                  "tail -c +%llu " LOG " 2>/dev/null; true; }",
                  (unsigned long long)*at + 1);
    const int rc = fy_phone_do(r->a, &cmd, "show the server's log", &text, e);
    const char *begin = fy_str_z(&text), *cut = strstr(begin, "\n--\n");
    if (rc == 0 && cut != NULL) {
        fy_phone_serving_parse((fy_span){begin, (size_t)(cut - begin)}, &r->seen);
        r->pid = r->seen.pid;
        const size_t n = text.len - (size_t)(cut + 4 - begin);
        fy_str_add(log, cut + 4, n);
        *at += n;
    }
    fy_str_release(&text);
    return rc == 0 && log->oom ? fy_nomem(e) : rc;
}

/* The whole lines of the log. 1: the server is ready, 0: not yet. */
static int show_log(run *r, fy_str *log, fy_err *e)
{
    size_t used = 0;
    int rc = 0;
    while (rc == 0 && r->device == 0) {
        const char *begin = fy_str_z(log) + used;
        const char *end = log->len > used ? memchr(begin, '\n', log->len - used) : NULL;
        if (end == NULL)
            break;
        used += (size_t)(end - begin) + 1;
        rc = on_line(r, (fy_span){begin, (size_t)(end - begin)}, e);
    }
    if (used > 0) {
        memmove(log->ptr, log->ptr + used, log->len - used);
        log->len -= used;
    }
    return rc != 0 ? -1 : r->device > 0;
}

static int wait_until_ready(run *r, int *status, fy_err *e)
{
    const struct timespec nap = {.tv_nsec = POLL_MS * 1000000L};
    const double begun_s = fy_now_s();
    uint64_t at = 0;
    fy_str log = {0};
    int rc = 0;
    while (rc == 0) {
        if (fy_interrupted)
            take_signal(r);
        rc = poll_server(r, &at, &log, e);
        if (rc == 0 &&
            r->seen.known) /* a fast server is ready before its shell has said who it is */
            rc = show_log(r, &log, e);
        if (rc < 0 && e->code == FY_EINTR && fy_interrupted) {
            *e = (fy_err){0};
            rc = 0;
        } else if (rc == 0 && r->seen.ended >= 0) {
            clean_up(r);
            rc = r->n_signals > 0                           ? fy_fail(e, FY_EINTR, "interrupted")
                 : on_end(r, r->seen.ended, status, e) == 0 ? 2
                                                            : -1;
        } else if (rc == 0 && r->cut_s > 0 && fy_now_s() > r->cut_s) {
            rc = too_late(r, e);
        } else if (rc == 0 && !r->seen.known && fy_now_s() > begun_s + START_S) {
            rc = fy_fail(e, FY_EDEVICE, "phone %s: the server was not started within %d s",
                         fy_adb_name(r->a), START_S);
        } else if (rc == 0) {
            nanosleep(&nap, NULL);
        }
    }
    fy_str_release(&log);
    return rc;
}

static int serve_detached(run *r, int *status, fy_err *e)
{
    fy_str script = {0}, cmd = {0};
    put_script(r, &script);
    fy_str_puts(&cmd, "{ [ -x " SETSID " ] || { echo 'no " SETSID "' >&2; exit 9; }; "
                      "umask 077; : >" LOG "; " SETSID " sh -c ");
    fy_adb_quote(&cmd, fy_str_z(&script));
    fy_str_puts(&cmd, " </dev/null >/dev/null 2>&1 & }");
    cmd.oom |= script.oom;
    fy_str_release(&script);
    if (fy_phone_do(r->a, &cmd, "start the server", NULL, e) != 0)
        return -1;
    fy_signals_hold(true);
    const int rc = wait_until_ready(r, status, e);
    fy_signals_hold(false);
    if (rc != 1)
        return rc == 2 ? 0 : -1;
    cmd = (fy_str){0};
    fy_str_printf(&cmd, "echo 'port %u' >>" STATE, r->device);
    if (fy_phone_do(r->a, &cmd, "keep the server's port", NULL, e) != 0)
        return -1;
    fy_log(FY_LOG_INFO,
           "process %lld on the phone runs on without this command; 'ferry serve --device "
           "--shutdown' ends it",
           (long long)r->pid);
    return 0;
}

/* --- one that runs ---------------------------------------------------------------------------- */

/* The cable was pulled, or the adb server started anew: the way to it is opened again. */
static int reach_again(run *r, fy_err *e)
{
    fy_adb_forward_forget(r->a, r->seen.port, NULL);
    if (check_port(r, e) != 0 || open_way(r, r->seen.port, e) != 0)
        return -1;
    fy_log(FY_LOG_INFO,
           "this server runs there already, as process %lld; 'ferry serve --device --shutdown' "
           "ends it",
           (long long)r->seen.pid);
    return 0;
}

static int is_there(run *r, fy_err *e)
{
    const fy_phone_serving *n = &r->seen;
    const bool same = strcmp(n->digest, r->digest) == 0 && n->detached && r->s->place.detach;
    if (same && n->port > 0)
        return reach_again(r, e);
    return fy_fail(e, FY_EDEVICE,
                   "phone %s: a server runs there already (process %lld, %s%s); end it first: "
                   "'ferry serve --device --shutdown'",
                   fy_adb_name(r->a), (long long)n->pid,
                   n->detached ? "detached" : "of another call",
                   n->port == 0 && n->detached ? ", still loading"
                   : n->detached               ? ", with another model or other options"
                                               : "");
}

static int shut_down(run *r, fy_err *e)
{
    const struct timespec nap = {.tv_nsec = POLL_MS * 1000000L};
    char why[256];
    const uint16_t port = r->seen.port;
    if (!r->seen.alive) {
        const int ended = r->seen.ended;
        const bool known = r->seen.known;
        clean_up(r);
        return fy_fail(e, FY_EDEVICE, "phone %s: no server of ferry runs there%s%s",
                       fy_adb_name(r->a), known && ended >= 0 ? "; of the last one: " : "",
                       known && ended >= 0 ? reason(ended, why, sizeof why) : "");
    }
    const fy_phone_serving first = r->seen;
    r->pid = first.pid;
    fy_signals_hold(true);
    r->cut_s = fy_now_s() + GRACE_S;
    signal_server(r);
    int rc = 0;
    double until_s = 0; /* for its shell to write the exit status, or to remove the file */
    while (rc == 0 && r->seen.known && strcmp(r->seen.start, first.start) == 0 &&
           (r->seen.alive || (r->seen.ended < 0 && (until_s == 0 || fy_now_s() < until_s)))) {
        if (!r->seen.alive && until_s == 0)
            until_s = fy_now_s() + SHELL_S;
        if (fy_interrupted)
            take_signal(r);
        nanosleep(&nap, NULL);
        rc = look(r, e);
        if (rc != 0 && e->code == FY_EINTR && fy_interrupted) {
            *e = (fy_err){0};
            rc = 0;
        }
        if (rc == 0 && r->seen.alive && fy_now_s() > r->cut_s)
            rc = fy_fail(e, FY_EDEVICE, "phone %s: the server (process %lld) did not end",
                         fy_adb_name(r->a), (long long)first.pid);
    }
    fy_signals_hold(false);
    if (rc != 0)
        return -1;
    if (port > 0)
        fy_adb_forward_forget(r->a, port, NULL);
    if (first.detached && !r->seen.alive)
        clean_up(r);
    fy_log(FY_LOG_INFO, "the server on the phone has ended (process %lld)", (long long)first.pid);
    return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int name_server(run *r, fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    if (fy_sha256_of(r->s->identity.ptr, r->s->identity.len, hash, e) != 0)
        return -1;
    fy_sha256_to_hex(hash, hex);
    snprintf(r->digest, sizeof r->digest, "%.16s", hex);
    return 0;
}

int fy_phone_serve(const fy_adb *a, const fy_phone_server *s, int *status, fy_err *e)
{
    run r = {.a = a, .s = s};
    char why[256];
    if (look(&r, e) != 0)
        return -1;
    if (s->place.shutdown)
        return shut_down(&r, e);
    if (name_server(&r, e) != 0)
        return -1;
    if (r.seen.alive)
        return is_there(&r, e);
    if (r.seen.known && r.seen.ended > 0)
        fy_log(FY_LOG_WARN, "of the server that was there before: %s",
               reason(r.seen.ended, why, sizeof why));
    if (r.seen.known)
        clean_up(&r);
    r.seen = (fy_phone_serving){.ended = -1};
    if (check_port(&r, e) != 0)
        return -1;
    fy_log(FY_LOG_DEBUG, "on the phone %s: %s", fy_adb_name(a), s->cmd);
    return s->place.detach ? serve_detached(&r, status, e) : serve_attached(&r, status, e);
}
