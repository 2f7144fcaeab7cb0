/* A conversation that fills the context: hides its oldest turns from the model, without a word in
 * their place or with the model's own summary of them. */
#include "base/log.h"
#include "cli/chat/chat.h"
#include "model/text_out.h"

static fy_span view(const fy_str *s)
{
    return (fy_span){fy_str_z(s), s->len};
}

/* --- the summary ------------------------------------------------------------------------------ */

typedef struct {
    fy_text_out out;
    fy_think think;
    fy_str text, thinking; /* scratch, and what is not kept */
    fy_str summary;
} writer;

static int on_token(void *user, int32_t id, const float *logits, fy_err *e)
{
    (void)logits;
    writer *w = user;
    const fy_vocab *v = w->out.vocab;
    fy_span piece = fy_vocab_piece(v, id);
    bool marker = fy_vocab_type(v, id) == FY_TOKEN_CONTROL && fy_think_is_marker(piece);
    fy_str_clear(&w->text);
    int rc = marker ? fy_text_out_bytes(&w->out, piece, &w->text, e)
                    : fy_text_out_token(&w->out, id, &w->text, e);
    return rc < 0 ? -1 : fy_think_add(&w->think, view(&w->text), &w->thinking, &w->summary, e);
}

static void release(writer *w)
{
    fy_text_out_release(&w->out);
    fy_think_release(&w->think);
    fy_str_release(&w->text);
    fy_str_release(&w->thinking);
    fy_str_release(&w->summary);
}

/* The answer to c->splice, of at most n tokens, without thinking. */
static int write_summary(fy_chat *c, fy_span prompt, uint32_t n, fy_str *out, fy_err *e)
{
    writer w = {0};
    fy_timing t;
    fy_stop why;
    fy_generate_params p = {.n = n, .token = on_token, .user = &w};
    fy_text_out_begin(&w.out, c->engine->vocab, NULL, false);
    fy_think_begin(&w.think, prompt);
    int rc = fy_engine_generate(c->engine, c->sampler, &c->splice.ids, &p, &t, &why, e);
    if (rc == 0 && why == FY_STOP_INTERRUPT)
        rc = fy_fail(e, FY_EINTR, "interrupted");
    fy_str_clear(&w.text);
    if (rc == 0 && (fy_text_out_end(&w.out, &w.text, e) != 0 ||
                    fy_think_add(&w.think, view(&w.text), &w.thinking, &w.summary, e) != 0 ||
                    fy_think_end(&w.think, &w.thinking, &w.summary, e) != 0))
        rc = -1;
    if (rc == 0 && w.think.state != FY_THINK_INSIDE) {
        *out = w.summary;
        w.summary = (fy_str){0};
    }
    release(&w);
    return rc;
}

/* Asks for a summary of the messages up to n; of as many of the last ones as the context takes. An
 * empty *out: the model has none. */
static int summarize(fy_chat *c, size_t n, fy_str *out, fy_err *e)
{
    const uint32_t n_ctx = fy_session_n_ctx(c->engine->session), most = n_ctx / 8;
    fy_str json = {0}, text = {0};
    size_t hidden = c->messages.n_hidden, next;
    int rc;
    for (;;) {
        fy_str_clear(&json);
        fy_chat_messages_ask_summary(&c->messages, hidden, n, &json);
        rc = json.oom ? fy_nomem(e) : fy_chat_render(c, view(&json), true, &text, e);
        if (rc != 0 || c->splice.ids.n + most <= n_ctx)
            break;
        next = fy_chat_messages_next_turn(&c->messages, hidden);
        if (next == hidden || next + 1 >= n)
            break;
        hidden = next;
    }
    if (rc == 0 && most > 0 && c->splice.ids.n + most <= n_ctx)
        rc = write_summary(c, view(&text), most, out, e);
    fy_str_release(&json);
    fy_str_release(&text);
    return rc;
}

/* --- making room ------------------------------------------------------------------------------ */

/* Tokens of the prompt when so many messages are hidden; a summary is counted with all it may take.
 */
static int count(fy_chat *c, size_t hidden, size_t *n, fy_err *e)
{
    fy_chat_messages *m = &c->messages;
    fy_str json = {0}, text = {0}, summary = m->summary;
    size_t before = m->n_hidden;
    m->n_hidden = hidden;
    m->summary = (fy_str){0};
    fy_chat_messages_json(m, &json);
    m->n_hidden = before;
    m->summary = summary;
    int rc = json.oom ? fy_nomem(e) : fy_chat_render(c, view(&json), true, &text, e);
    *n = c->splice.ids.n;
    if (c->on_full == FY_FULL_SUMMARIZE)
        *n += fy_session_n_ctx(c->engine->session) / 8;
    fy_str_release(&json);
    fy_str_release(&text);
    return rc;
}

int fy_chat_make_room(fy_chat *c, const fy_chat_sink *sink, bool *changed, fy_err *e)
{
    const size_t n_ctx = fy_session_n_ctx(c->engine->session);
    fy_chat_messages *m = &c->messages;
    size_t hidden = m->n_hidden, next, n = c->splice.ids.n;
    fy_str summary = {0};
    *changed = false;
    if (c->on_full == FY_FULL_STOP || n <= n_ctx - n_ctx / 4)
        return 0;
    while (n > n_ctx / 2 && (next = fy_chat_messages_next_turn(m, hidden)) != hidden) {
        hidden = next;
        if (count(c, hidden, &n, e) != 0)
            return -1;
    }
    *changed = hidden != m->n_hidden; /* c->splice, at least */
    if (!*changed || n > n_ctx)
        return 0; /* the last turn alone is too large: nothing is lost for it */
    size_t upto = hidden + (fy_chat_messages_system(m).ptr != NULL), more = hidden - m->n_hidden;
    if (c->on_full == FY_FULL_SUMMARIZE)
        fy_log(FY_LOG_INFO, "the context is full: summarizing its %zu oldest messages", more);
    if (c->on_full == FY_FULL_SUMMARIZE && summarize(c, upto, &summary, e) != 0)
        return -1;
    bool has = summary.len > 0;
    fy_chat_messages_hide(m, hidden, has ? &summary : NULL);
    fy_str_release(&summary);
    return sink->hidden == NULL
               ? 0
               : sink->hidden(sink->user, more, has ? view(&m->summary) : (fy_span){0}, e);
}
