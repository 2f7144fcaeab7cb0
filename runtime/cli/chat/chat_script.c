/* `ferry chat` for scripts: a message and an answer per line, one JSON event per line, or one
 * message alone. */
#include "cli/chat/chat_io.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json_rows.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/terminal.h"

typedef struct {
    fy_chat_shell *shell; /* view; NULL: without commands */
    fy_chat *chat;
    fy_show_style style;
    bool show_prompt;
    fy_chat_reader in;
    fy_str line;
    fy_chat_show show;
    fy_chat_answer answer;
    fy_str out; /* scratch */
} script;

static void release(script *s)
{
    fy_chat_reader_release(&s->in);
    fy_str_release(&s->line);
    fy_chat_answer_release(&s->answer);
    fy_str_release(&s->out);
}

/* At a terminal fy_chat_show has escaped the text, and may have put colours around it. */
static int flush(script *s, fy_err *e)
{
    int rc = s->out.oom ? fy_nomem(e)
                        : (s->style.terminal ? fy_stdout_drawn : fy_stdout)(fy_str_z(&s->out),
                                                                            s->out.len, e);
    fy_str_clear(&s->out);
    return rc;
}

static bool is_empty(const fy_str *line)
{
    return strspn(fy_str_z(line), " \t") == line->len;
}

/* The message as the conversation keeps it: valid UTF-8. */
static int add_text(script *s, fy_err *e)
{
    fy_str text = {0};
    fy_put_lossy(&text, (fy_span){fy_str_z(&s->line), s->line.len});
    int rc = text.oom ? fy_nomem(e)
                      : fy_chat_messages_add(&s->chat->messages, "user",
                                             (fy_span){fy_str_z(&text), text.len}, e);
    fy_str_release(&text);
    return rc;
}

static void log_end(fy_log_level level, const script *s)
{
    fy_str words = {0};
    fy_chat_notice(s->chat, &s->answer, &words);
    if (words.len > 0)
        fy_log(level, "%s", fy_str_z(&words));
    fy_str_clear(&words);
    fy_timing_line(&s->answer.timing, &words);
    fy_log(s->chat->timings ? FY_LOG_INFO : FY_LOG_DEBUG, "%s", fy_str_z(&words));
    fy_str_release(&words);
}

/* --- lines ------------------------------------------------------------------------------------ */

static int on_piece(void *user, const fy_chat_piece *p, fy_err *e)
{
    script *s = user;
    fy_chat_show_piece(&s->show, p, &s->out);
    return s->out.len > 0 ? flush(s, e) : 0;
}

static int on_hidden(void *user, size_t n, fy_span summary, fy_err *e)
{
    (void)user;
    (void)e;
    fy_str words = {0};
    fy_chat_put_hidden(n, summary, &words);
    fy_log(FY_LOG_WARN, "%s", fy_str_z(&words));
    fy_str_release(&words);
    return 0;
}

/* Ends a line that has begun, also on failure. */
static int answer_line(script *s, fy_err *e)
{
    fy_chat_sink sink = {.prompt = s->show_prompt ? fy_chat_show_prompt : NULL,
                         .piece = on_piece,
                         .hidden = on_hidden,
                         .user = s};
    fy_chat_show_begin(&s->show, s->style);
    int rc = add_text(s, e);
    if (rc == 0)
        rc = fy_chat_answer_next(s->chat, &sink, &s->answer, e);
    if (rc == 0 || s->show.in_line) {
        fy_chat_show_end(&s->show, &s->out);
        if (flush(s, e) != 0)
            return -1;
    }
    if (rc == 0)
        log_end(FY_LOG_WARN, s);
    return rc == 0 ? fy_check_interrupt(e) : -1;
}

int fy_chat_lines(fy_chat *c, fy_show_style style, bool show_prompt, fy_err *e)
{
    script s = {.chat = c, .style = style, .show_prompt = show_prompt};
    int rc;
    while ((rc = fy_chat_read_line(&s.in, &s.line, e)) == 1) {
        rc = is_empty(&s.line) ? 0 : answer_line(&s, e);
        if (rc != 0)
            break;
    }
    release(&s);
    return rc;
}

/* --- events ----------------------------------------------------------------------------------- */

static void put_ids(fy_str *out, const fy_ids *ids)
{
    fy_str_puts(out, ",\"ids\":[");
    for (size_t i = 0; i < ids->n; i++)
        fy_str_printf(out, "%s%d", i > 0 ? "," : "", ids->id[i]);
    fy_str_putc(out, ']');
}

static void put_text(fy_str *out, const char *member, fy_span text)
{
    fy_str_printf(out, ",\"%s\":", member);
    fy_json_put_string(out, text);
}

static void event_ready(fy_str *out, const char *model, const char *template, uint32_t n_ctx)
{
    fy_str_puts(out, "{\"event\":\"ready\"");
    put_text(out, "model", fy_span_of(model));
    put_text(out, "template", fy_span_of(template));
    fy_str_printf(out, ",\"context_size\":%u}\n", n_ctx);
}

static void event_prompt(fy_str *out, fy_span text, const fy_ids *ids)
{
    fy_str_puts(out, "{\"event\":\"prompt\"");
    put_text(out, "text", text);
    put_ids(out, ids);
    fy_str_puts(out, "}\n");
}

static void put_token(fy_str *out, int32_t id, fy_span text, bool thinking)
{
    if (text.len == 0)
        return;
    fy_str_puts(out, "{\"event\":\"token\"");
    if (id >= 0)
        fy_str_printf(out, ",\"id\":%d", id);
    put_text(out, "text", text);
    fy_str_puts(out, thinking ? ",\"thinking\":true}\n" : "}\n");
}

static void event_token(fy_str *out, const fy_chat_piece *p)
{
    put_token(out, p->id, p->thinking, true);
    put_token(out, p->id, p->answer, false);
}

static void event_answer(fy_str *out, const fy_chat_answer *a, const fy_str *content)
{
    fy_str_puts(out, "{\"event\":\"answer\"");
    fy_span text = {fy_str_z(&a->text), a->text.len}, whole = {fy_str_z(content), content->len};
    put_text(out, "text", text);
    if (a->thinking.len > 0)
        put_text(out, "thinking", (fy_span){a->thinking.ptr, a->thinking.len});
    if (!fy_span_eq(text, whole))
        put_text(out, "content", whole);
    fy_str_printf(out, ",\"stop\":\"%s\"", fy_stop_name(a->why));
    if (a->why == FY_STOP_STRING)
        put_text(out, "stop_string", a->stop_string);
    put_ids(out, &a->ids);
    fy_str_printf(out, ",\"context_used\":%u,\"context_size\":%u,\"timing\":{", a->n_used,
                  a->n_ctx);
    fy_timing_json(&a->timing, out);
    fy_str_puts(out, "}}\n");
}

static void event_error(fy_str *out, const fy_err *e)
{
    fy_str_puts(out, "{\"event\":\"error\"");
    put_text(out, "message", fy_span_of(e->msg));
    fy_str_printf(out, ",\"status\":%d}\n", fy_exit_status(e->code));
}

static int on_prompt_event(void *user, fy_span text, const fy_ids *ids, fy_err *e)
{
    script *s = user;
    event_prompt(&s->out, text, ids);
    return flush(s, e);
}

static int on_piece_event(void *user, const fy_chat_piece *p, fy_err *e)
{
    script *s = user;
    event_token(&s->out, p);
    return s->out.len > 0 ? flush(s, e) : 0;
}

static int on_hidden_event(void *user, size_t n, fy_span summary, fy_err *e)
{
    script *s = user;
    fy_str_printf(&s->out, "{\"event\":\"hidden\",\"messages\":%zu", n);
    if (summary.ptr != NULL)
        put_text(&s->out, "summary", summary);
    fy_str_puts(&s->out, "}\n");
    return flush(s, e);
}

/* Takes the line into the conversation; *n is then how much of it stays if the answer fails. */
static int take_line(script *s, size_t *n, fy_err *e)
{
    fy_chat_messages *m = &s->chat->messages, read = {0};
    bool one = false;
    const char *p = fy_str_z(&s->line);
    *n = m->n;
    if (p[strspn(p, " \t")] != '{')
        return add_text(s, e);
    fy_span json = {p, s->line.len};
    if (fy_chat_messages_read(&read, json, &one, e) != 0) {
        fy_chat_messages_release(&read);
        return fy_ctx(e, "the message");
    }
    int rc = 0;
    if (!one) { /* a whole conversation */
        fy_chat_messages_release(m);
        *m = read;
        *n = m->n;
        return 0;
    }
    if (fy_chat_messages_ends_in(&read, "system"))
        rc = fy_chat_messages_set_system(m, fy_chat_messages_system(&read), e);
    else
        rc = fy_chat_messages_read(m, json, NULL, e);
    fy_chat_messages_release(&read);
    return rc;
}

/* Does the conversation wait for an answer? */
static bool waits(const fy_chat_messages *m)
{
    return fy_chat_messages_ends_in(m, "user") || fy_chat_messages_ends_in(m, "tool");
}

/* --- commands --- */

typedef struct {
    char *command; /* owned; NULL: there is none */
    bool messages;
} request;

static int note_messages(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    (void)t;
    *(bool *)at = true;
    return fy_json_skip(j, e);
}

/* Reads "command" of a JSON line. What is not an object, or not JSON, has none. */
static request request_of(const fy_str *line)
{
    static const fy_json_row rows[] = {
        FY_JSON_FIELD(TEXT, "command", request, command, false),
        {.key = "messages",
         .type = FY_JSON_ROW_TAKE,
         .offset = offsetof(request, messages),
         .take = note_messages},
    };
    const fy_json_table table = {FY_JSON_ROWS(rows)};
    request r = {0};
    fy_span text = {fy_str_z(line), line->len};
    if (text.ptr[strspn(text.ptr, " \t")] != '{' ||
        fy_json_document_of(text, &table, &r, NULL) == 0)
        return r;
    free(r.command);
    return (request){0};
}

/* {"command": "/params temp 0.7"}; "messages" beside it are the conversation from then on. */
static int command_event(script *s, const request *r, fy_err *e)
{
    size_t n;
    fy_chat_next next;
    fy_str shown = {0};
    if (!fy_chat_asks_model(fy_span_of(r->command)))
        return fy_fail(e, FY_EARG, "\"command\": expected /params or /tokens");
    if (r->messages && take_line(s, &n, e) != 0)
        return -1;
    int rc = fy_chat_command(s->shell, fy_span_of(r->command), &shown, &next, e);
    if (rc == 0) {
        fy_str_puts(&s->out, "{\"event\":\"command\"");
        put_text(&s->out, "text", (fy_span){fy_str_z(&shown), shown.len});
        fy_str_puts(&s->out, "}\n");
        s->out.oom |= shown.oom;
        rc = flush(s, e);
    }
    fy_str_release(&shown);
    return rc;
}

/* On failure the conversation keeps its first n messages. */
static int answer_with_events(script *s, size_t n, fy_err *e)
{
    fy_chat_sink sink = {.prompt = s->show_prompt ? on_prompt_event : NULL,
                         .piece = on_piece_event,
                         .hidden = on_hidden_event,
                         .user = s};
    if (fy_chat_answer_next(s->chat, &sink, &s->answer, e) != 0) {
        fy_chat_messages_cut(&s->chat->messages, n);
        return -1;
    }
    const fy_chat_messages *m = &s->chat->messages;
    event_answer(&s->out, &s->answer, &m->items[m->n - 1].content);
    log_end(FY_LOG_INFO, s);
    return flush(s, e);
}

static int answer_event(script *s, fy_err *e)
{
    size_t n;
    request r = request_of(&s->line);
    if (r.command != NULL) {
        int rc = command_event(s, &r, e);
        free(r.command);
        return rc;
    }
    if (take_line(s, &n, e) != 0)
        return -1;
    return waits(&s->chat->messages) ? answer_with_events(s, n, e) : 0;
}

/* What an answer's end leaves: Ctrl-C is dealt with, other signals end the program. */
static int after_answer(script *s, const fy_err *why, fy_err *e)
{
    int sig = fy_signals_take();
    if (why->code == FY_EIO)
        return fy_fail(e, why->code, "%s", why->msg);
    if (why->code != FY_OK) {
        event_error(&s->out, why);
        if (flush(s, e) != 0)
            return -1;
    }
    return sig != 0 && sig != SIGINT ? fy_fail(e, FY_EINTR, "ended by a signal") : 0;
}

static int begin_events(script *s, fy_err *e)
{
    const fy_chat *c = s->chat;
    event_ready(&s->out, fy_engine_model_path(c->engine), fy_chat_template_name(c->template),
                fy_session_n_ctx(c->engine->session));
    return flush(s, e);
}

int fy_chat_json(fy_chat_shell *sh, bool show_prompt, fy_err *e)
{
    script s = {.shell = sh, .chat = sh->chat, .show_prompt = show_prompt};
    fy_err last = {0};
    int rc;
    if (begin_events(&s, e) != 0) {
        release(&s);
        return -1;
    }
    while ((rc = fy_chat_read_line(&s.in, &s.line, e)) == 1) {
        fy_err why = {0};
        if (is_empty(&s.line))
            continue;
        if (answer_event(&s, &why) != 0)
            last = why;
        rc = after_answer(&s, &why, e);
        if (rc != 0)
            break;
    }
    release(&s);
    if (rc == 0 && last.code != FY_OK)
        return fy_fail(e, last.code, "%s", last.msg);
    return rc;
}

/* --- one message ------------------------------------------------------------------------------ */

static int once_with_events(script *s, fy_err *e)
{
    fy_err why = {0};
    if (begin_events(s, e) != 0)
        return -1;
    if (add_text(s, &why) == 0 && answer_with_events(s, 0, &why) == 0)
        return fy_check_interrupt(e);
    if (why.code != FY_EIO)
        event_error(&s->out, &why);
    return flush(s, e) == 0 ? fy_fail(e, why.code, "%s", why.msg) : -1;
}

int fy_chat_once(fy_chat *c, fy_show_style style, bool json, bool show_prompt, fy_span message,
                 fy_err *e)
{
    script s = {.chat = c, .style = style, .show_prompt = show_prompt};
    fy_str_add(&s.line, message.ptr, message.len);
    int rc = s.line.oom ? fy_nomem(e) : json ? once_with_events(&s, e) : answer_line(&s, e);
    release(&s);
    return rc;
}
