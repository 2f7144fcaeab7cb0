#include "cli/chat/chat_session.h"

#include "cli/text_out.h"

void fy_chat_release(fy_chat *c)
{
    fy_chat_messages_release(&c->messages);
    fy_chat_splice_release(&c->splice);
}

void fy_chat_answer_release(fy_chat_answer *a)
{
    fy_str_release(&a->thinking);
    fy_str_release(&a->text);
    fy_ids_release(&a->ids);
    *a = (fy_chat_answer){0};
}

static fy_span view(const fy_str *s)
{
    return (fy_span){fy_str_z(s), s->len};
}

/* --- the prompt ----------------------------------------------------------------------------- */

/* Renders the conversation into *text; its ids are then those of the splice. */
static int make_prompt(fy_chat *c, bool generation, fy_str *text, fy_err *e)
{
    fy_str json = {0};
    fy_chat_messages_json(&c->messages, &json);
    fy_chat_input in = {.messages = view(&json),
                        .add_generation_prompt = generation,
                        .args = c->args,
                        .n_args = c->n_args};
    int rc = json.oom ? fy_nomem(e) : fy_chat_template_render(c->template, &in, text, e);
    fy_str_release(&json);
    if (rc != 0)
        return fy_ctx(e, "the chat template refuses the conversation");
    return fy_chat_splice_prompt(&c->splice, c->engine->vocab, view(text), e);
}

int fy_chat_count(fy_chat *c, uint32_t *n, fy_err *e)
{
    *n = 0;
    if (c->messages.n == 0)
        return 0;
    fy_str text = {0};
    int rc = make_prompt(c, false, &text, e);
    fy_str_release(&text);
    if (rc == 0)
        *n = (uint32_t)c->splice.ids.n;
    return rc;
}

static int check_room(const fy_chat *c, uint32_t n_ctx, fy_err *e)
{
    size_t n = c->splice.ids.n;
    if (n <= n_ctx)
        return 0;
    return fy_fail(e, FY_EFIT, "the conversation takes %zu tokens, the context has room for %u: %s",
                   n, n_ctx, c->remedy);
}

/* --- the answer ----------------------------------------------------------------------------- */

typedef struct {
    fy_chat *c;
    const fy_chat_sink *sink;
    fy_chat_answer *a;
    fy_text_out out;
    fy_think think;
    fy_str content;          /* of the message that the answer becomes */
    fy_str text;             /* scratch: text of one token */
    fy_str thinking, answer; /* scratch: the same, told apart */
} listener;

/* Hands on what is new in l->text, or (at_end) what was held back. */
static int hand_on(listener *l, int32_t id, bool at_end, fy_err *e)
{
    fy_str_clear(&l->thinking);
    fy_str_clear(&l->answer);
    fy_str_add(&l->content, l->text.ptr, l->text.len);
    if (fy_think_add(&l->think, view(&l->text), &l->thinking, &l->answer, e) != 0 ||
        (at_end && fy_think_end(&l->think, &l->thinking, &l->answer, e) != 0))
        return -1;
    fy_str_add(&l->a->thinking, l->thinking.ptr, l->thinking.len);
    fy_str_add(&l->a->text, l->answer.ptr, l->answer.len);
    if (l->content.oom || l->a->thinking.oom || l->a->text.oom)
        return fy_nomem(e);
    fy_chat_piece p = {
        .id = id, .thinking = view(&l->thinking), .answer = view(&l->answer), .think = &l->think};
    return l->sink->piece != NULL ? l->sink->piece(l->sink->user, &p, e) : 0;
}

static int on_token(void *user, int32_t id, const float *logits, fy_err *e)
{
    (void)logits;
    listener *l = user;
    const fy_vocab *v = l->c->engine->vocab;
    fy_str_clear(&l->text);
    if (fy_ids_push(&l->a->ids, id, e) != 0 || fy_text_out_token(&l->out, id, &l->text, e) != 0)
        return -1;
    fy_span piece = fy_vocab_piece(v, id);
    if (fy_vocab_type(v, id) == FY_TOKEN_CONTROL && fy_think_is_marker(piece))
        fy_str_add(&l->text, piece.ptr, piece.len);
    return hand_on(l, id, false, e);
}

static int end_text(listener *l, fy_err *e)
{
    fy_str_clear(&l->text);
    if (fy_text_out_end(&l->out, &l->text, e) != 0)
        return -1;
    return hand_on(l, -1, true, e);
}

static void release(listener *l)
{
    fy_text_out_release(&l->out);
    fy_think_release(&l->think);
    fy_str_release(&l->content);
    fy_str_release(&l->text);
    fy_str_release(&l->thinking);
    fy_str_release(&l->answer);
}

static int generate(listener *l, fy_err *e)
{
    fy_chat *c = l->c;
    fy_chat_answer *a = l->a;
    fy_generate_params p = {.n = c->n, .token = on_token, .user = l};
    if (fy_engine_generate(c->engine, c->sampler, &c->splice.ids, &p, &a->timing, &a->why, e) != 0)
        return -1;
    if (a->why == FY_STOP_INTERRUPT && a->ids.n == 0)
        return fy_fail(e, FY_EINTR, "interrupted");
    return end_text(l, e);
}

static int answer_prompt(listener *l, fy_span prompt, fy_err *e)
{
    fy_chat *c = l->c;
    fy_chat_answer *a = l->a;
    fy_span opened = fy_think_opened_by(prompt, NULL);
    fy_text_out_begin(&l->out, c->engine->vocab, false);
    fy_think_begin(&l->think, prompt);
    fy_str_add(&l->content, opened.ptr, opened.len);
    if (l->sink->prompt != NULL && l->sink->prompt(l->sink->user, prompt, &c->splice.ids, e) != 0)
        return -1;
    if (check_room(c, a->n_ctx, e) != 0 || generate(l, e) != 0)
        return -1;
    size_t n_used = c->splice.ids.n + a->ids.n;
    a->n_used = n_used < a->n_ctx ? (uint32_t)n_used : a->n_ctx; /* the last token needs no place */
    if (fy_chat_messages_add(&c->messages, "assistant", view(&l->content), e) != 0)
        return -1;
    return fy_chat_splice_answer(&c->splice, c->engine->vocab, a->ids.id, a->ids.n, e);
}

int fy_chat_answer_next(fy_chat *c, const fy_chat_sink *sink, fy_chat_answer *a, fy_err *e)
{
    fy_str prompt = {0};
    listener l = {.c = c, .sink = sink, .a = a};
    size_t n_messages = c->messages.n;
    fy_str_clear(&a->thinking);
    fy_str_clear(&a->text);
    a->ids.n = 0;
    a->n_ctx = fy_session_n_ctx(c->engine->session);
    int rc = make_prompt(c, true, &prompt, e);
    if (rc == 0)
        rc = answer_prompt(&l, view(&prompt), e);
    if (rc != 0)
        fy_chat_messages_cut(&c->messages, n_messages);
    fy_str_release(&prompt);
    release(&l);
    return rc;
}
