/* A chat whose model is on the phone: what the front end in cli/chat asks for becomes lines to the
 * program there, and its events become pieces of an answer. */
#include "workspace/phone/phone_chat.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/process.h"
#include "cli/chat/chat_io.h"

enum {
    TICK_MS = 100,
    GRACE_S = 10, /* after Ctrl-C: a prompt that is computed ends at its next layer */
    END_S = 5, /* for what the program there does at its end */
    MAX_ANSWER = 64 << 20,
};

typedef struct {
    const fy_adb *a;     /* view */
    const char *cmd;     /* view */
    fy_adb_talk *t;      /* owned; NULL: no program runs there */
    fy_chat_remote face; /* what the front end sees */
    fy_str line;
    char backend[64]; /* of the last answer */
} chat;

static const fy_think_marks marks = {"<think>", "</think>"};

/* --- the program there ------------------------------------------------------------------------ */

static int ended(const chat *c, int status, fy_err *e)
{
    if (status == 128 + SIGKILL)
        return fy_fail(e, FY_EDEVICE,
                       "phone %s: it killed the program: too little memory, or Android's limit of "
                       "processes in the background; 'ferry doctor' shows the memory",
                       fy_adb_name(c->a));
    return fy_fail(e, FY_EDEVICE, "phone %s: the program ended with exit status %d",
                   fy_adb_name(c->a), status);
}

static void hang_up(chat *c)
{
    fy_adb_talk_close(c->t);
    c->t = NULL;
}

/* The next event: 1; 2: none for TICK_MS; 0: the program has ended; -1. What is not an event is
 * FY_EDEVICE. */
static int next_event(chat *c, fy_phone_event *v, int *status, fy_err *e)
{
    int rc = fy_adb_talk_line(c->t, TICK_MS, &c->line, status, e);
    if (rc != 1)
        return rc;
    return fy_phone_event_parse((fy_span){fy_str_z(&c->line), c->line.len}, v, e) == 0 ? 1 : -1;
}

/* Until the model is loaded. 1; 0: it ended before, and has said why; -1. */
static int start(chat *c, int *status, fy_err *e)
{
    c->t = fy_adb_talk_open(c->a, c->cmd, e);
    int rc = c->t != NULL ? 2 : -1;
    while (rc == 2) {
        fy_phone_event v = {0};
        rc = fy_check_interrupt(e) != 0 ? -1 : next_event(c, &v, status, e);
        bool ready = rc == 1 && v.kind == FY_PHONE_EVENT_READY && v.n_ctx > 0;
        if (ready)
            c->face.n_ctx = v.n_ctx;
        else if (rc == 1)
            rc = fy_fail(e, FY_EDEVICE, "phone %s: its program does not begin with 'ready'",
                         fy_adb_name(c->a));
        fy_phone_event_release(&v);
    }
    if (rc != 1)
        hang_up(c);
    return rc;
}

/* The program may have ended since the last answer, or the cable was pulled. */
static int restart(chat *c, fy_err *e)
{
    int status, rc = 2;
    if (c->t != NULL)
        rc = fy_adb_talk_line(c->t, 0, &c->line, &status, NULL);
    if (c->t != NULL && rc == 2)
        return 0;
    hang_up(c);
    fy_log(FY_LOG_INFO, "starting the program on the phone again");
    rc = start(c, &status, e);
    return rc == 0 ? ended(c, status, e) : rc < 0 ? -1 : 0;
}

static int request(chat *c, const fy_chat_messages *m, const char *command, fy_err *e)
{
    fy_str s = {0};
    fy_str_puts(&s, "{\"messages\":");
    fy_chat_messages_json(m, &s);
    if (command != NULL) {
        fy_str_puts(&s, ",\"command\":");
        fy_json_put_string(&s, fy_span_of(command));
    }
    fy_str_puts(&s, "}");
    for (size_t i = 0; i < s.len; i++) { /* a file that was loaded may have lines; strings have none */
        if (s.ptr[i] == '\n' || s.ptr[i] == '\r')
            s.ptr[i] = ' ';
    }
    fy_str_puts(&s, "\n");
    int rc = s.oom                             ? fy_nomem(e)
             : s.len > FY_CHAT_LINE_MAX_BYTES ? fy_fail(e, FY_EFIT,
                                                         "the conversation has %zu bytes, at most "
                                                         "%u can be sent",
                                                         s.len, FY_CHAT_LINE_MAX_BYTES)
                                               : fy_adb_talk_send(c->t, s.ptr, s.len, e);
    fy_str_release(&s);
    return rc;
}

/* An error that the program there reports. */
static int reported(const fy_phone_event *v, fy_err *e)
{
    static const fy_code codes[] = {[2] = FY_EARG,    [3] = FY_EFIT,     [4] = FY_EVERIFY,
                                    [5] = FY_EDEVICE, [6] = FY_ENOSPACE, [130] = FY_EINTR};
    fy_code code = (size_t)v->status < sizeof codes / sizeof codes[0] ? codes[v->status] : FY_OK;
    return fy_fail(e, code != FY_OK ? code : FY_EFORMAT, "%s", v->text);
}

/* The program is of no use any more; the conversation is. */
static int lost(chat *c, int rc, int status, fy_err *e)
{
    fy_err why = {0};
    hang_up(c);
    if (rc == 0)
        ended(c, status, &why);
    else
        why = *e;
    *e = (fy_err){0};
    return fy_fail(e, why.code, "%s; the conversation is kept here: the next message starts the "
                   "program on the phone again",
                   why.msg);
}

/* --- an answer -------------------------------------------------------------------------------- */

typedef struct {
    fy_chat_messages *messages; /* view */
    const fy_chat_sink *sink;
    fy_chat_answer *answer;
    fy_str *content;
    fy_think think;
    double cut_s; /* when the phone is given up after Ctrl-C; 0: nobody pressed it */
} listener;

static int on_token(listener *l, const fy_phone_event *v, fy_err *e)
{
    fy_span text = fy_span_of(v->text);
    fy_str *to = v->thinking ? &l->answer->thinking : &l->answer->text;
    l->think.state = v->thinking ? FY_THINK_INSIDE : FY_THINK_ANSWER;
    if (v->thinking)
        l->think.marks = &marks;
    fy_str_add(to, text.ptr, text.len);
    if (to->oom)
        return fy_nomem(e);
    if (to->len > MAX_ANSWER)
        return fy_fail(e, FY_EDEVICE, "the phone sends an answer of more than %d MB",
                       MAX_ANSWER >> 20);
    fy_chat_piece p = {.id = (int32_t)v->id, .think = &l->think};
    *(v->thinking ? &p.thinking : &p.answer) = text;
    return l->sink->piece(l->sink->user, &p, e);
}

/* The phone has counted what it was sent: an earlier summary there is a turn of two messages. */
static int on_hidden(listener *l, const fy_phone_event *v, fy_err *e)
{
    fy_chat_messages *m = l->messages;
    fy_str summary = {0};
    size_t before = m->summary.len > 0 ? 2 : 0, more = v->n_hidden > before ? v->n_hidden - before : 0;
    if (more >= m->n - (m->n_hidden < m->n ? m->n_hidden : m->n))
        return fy_fail(e, FY_EDEVICE, "the phone hides more messages than there are");
    if (v->summary != NULL)
        fy_str_puts(&summary, v->summary);
    if (summary.oom)
        return fy_nomem(e);
    fy_chat_messages_hide(m, m->n_hidden + more, summary.len > 0 ? &summary : NULL);
    fy_span text = {m->summary.len > 0 ? m->summary.ptr : NULL, m->summary.len};
    return l->sink->hidden != NULL ? l->sink->hidden(l->sink->user, more, text, e) : 0;
}

static int on_answer(chat *c, listener *l, const fy_phone_event *v, fy_err *e)
{
    fy_chat_answer *a = l->answer;
    memcpy(c->backend, v->backend, sizeof c->backend);
    a->why = v->why;
    a->timing = v->timing;
    a->timing.backend = c->backend;
    a->n_used = v->n_used < v->n_ctx ? v->n_used : v->n_ctx;
    a->n_ctx = v->n_ctx;
    fy_str_puts(l->content, v->content != NULL ? v->content : v->text);
    return l->content->oom ? fy_nomem(e) : 0;
}

/* 1: the answer is complete; 0: more will come; -1. */
static int on_event(chat *c, listener *l, const fy_phone_event *v, fy_err *e)
{
    const fy_ids none = {0};
    switch (v->kind) {
    case FY_PHONE_EVENT_TOKEN:
        return on_token(l, v, e);
    case FY_PHONE_EVENT_ANSWER:
        return on_answer(c, l, v, e) == 0 ? 1 : -1;
    case FY_PHONE_EVENT_PROMPT:
        return l->sink->prompt != NULL
                   ? l->sink->prompt(l->sink->user, fy_span_of(v->text), &none, e)
                   : 0;
    case FY_PHONE_EVENT_HIDDEN:
        return on_hidden(l, v, e);
    case FY_PHONE_EVENT_ERROR:
        return reported(v, e);
    case FY_PHONE_EVENT_READY:
    case FY_PHONE_EVENT_COMMAND:
    case FY_PHONE_EVENT_OTHER:
        break;
    }
    return fy_fail(e, FY_EDEVICE, "the phone's program sent an event that has no place here");
}

/* Ctrl-C goes to the program there, once, and it has some time to end its answer. */
static int look_at_interrupt(chat *c, listener *l, fy_err *e)
{
    if (!fy_interrupted)
        return 0;
    if (l->cut_s == 0) {
        l->cut_s = fy_now_s() + GRACE_S;
        fy_adb_talk_interrupt(c->t);
    }
    return fy_now_s() < l->cut_s ? 0
                                 : fy_fail(e, FY_EINTR, "the phone did not stop within %d s",
                                           GRACE_S);
}

static int listen_to(chat *c, listener *l, fy_err *e)
{
    int rc = 0, status = 0;
    bool goes_on = true; /* the program there waits for the next message */
    while (rc == 0 && goes_on) {
        fy_phone_event v = {0};
        rc = look_at_interrupt(c, l, e) != 0 ? -1 : next_event(c, &v, &status, e);
        goes_on = rc > 0;
        if (rc == 2) {
            rc = 0;
        } else if (rc == 1) {
            rc = on_event(c, l, &v, e);
            goes_on = rc >= 0 || v.kind == FY_PHONE_EVENT_ERROR;
        }
        fy_phone_event_release(&v);
        if (rc < 0 && goes_on)
            return -1;
    }
    if (rc == 1)
        return 0;
    if (rc < 0 && e->code == FY_EIO) { /* nobody reads here */
        hang_up(c);
        return -1;
    }
    return lost(c, rc, status, e);
}

static int answer(void *user, fy_chat_messages *m, const fy_chat_sink *sink,
                  fy_chat_answer *a, fy_str *content, fy_err *e)
{
    chat *c = user;
    listener l = {.messages = m, .sink = sink, .answer = a, .content = content};
    if (restart(c, e) != 0 || request(c, m, NULL, e) != 0)
        return -1;
    return listen_to(c, &l, e);
}

static int command(void *user, const fy_chat_messages *m, fy_span line, fy_str *out, fy_err *e)
{
    chat *c = user;
    char *text = strndup(line.ptr, line.len);
    int rc = text == NULL ? fy_nomem(e) : restart(c, e) == 0 ? request(c, m, text, e) : -1;
    free(text);
    while (rc == 0) {
        fy_phone_event v = {0};
        int status = 0;
        rc = fy_check_interrupt(e) != 0 ? -1 : next_event(c, &v, &status, e);
        if (rc == 1 && v.kind == FY_PHONE_EVENT_COMMAND)
            fy_str_puts(out, v.text);
        else if (rc == 1)
            rc = v.kind == FY_PHONE_EVENT_ERROR
                     ? reported(&v, e)
                     : fy_fail(e, FY_EDEVICE, "the phone's program did not answer the command");
        else if (rc != 2)
            rc = lost(c, rc, status, e);
        fy_phone_event_release(&v);
        if (rc == 2)
            rc = 0;
        else
            return rc < 0 ? -1 : 0;
    }
    return rc;
}

int fy_phone_chat(const fy_adb *a, const char *cmd, void *options, int *status, fy_err *e)
{
    chat c = {.a = a, .cmd = cmd};
    c.face = (fy_chat_remote){.answer = answer, .command = command, .user = &c};
    fy_log(FY_LOG_DEBUG, "on the phone %s: %s", fy_adb_name(a), cmd);
    int rc = start(&c, status, e);
    if (rc == 1)
        rc = fy_chat_typed(options, &c.face, e);
    if (rc == 0 && c.t != NULL)
        fy_adb_talk_end(c.t, END_S);
    hang_up(&c);
    fy_str_release(&c.line);
    return rc;
}
