/* A conversation: its prompt as ids, the answer, and the thinking in it. */
#include "cli/chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/template/chat_template.h"
#include "model/text_out.h"

/* --- splice ----------------------------------------------------------------------------------- */

void fy_chat_splice_release(fy_chat_splice *s)
{
    fy_str_release(&s->text);
    fy_ids_release(&s->ids);
    free(s->seams);
    *s = (fy_chat_splice){0};
}

static bool begins_with_control(const fy_vocab *v, fy_span text, int32_t first)
{
    fy_span piece = fy_vocab_piece(v, first);
    return fy_vocab_type(v, first) == FY_TOKEN_CONTROL && piece.len > 0 && piece.len <= text.len &&
           memcmp(piece.ptr, text.ptr, piece.len) == 0;
}

static int append(fy_ids *to, const int32_t *ids, size_t n, fy_err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (fy_ids_push(to, ids[i], e) != 0)
            return -1;
    }
    return 0;
}

/* Keeps everything before the seam and encodes the rest. 0: done; 1: the rest does not begin with a
 * control token. */
static int continue_from(fy_chat_splice *s, size_t seam, const fy_vocab *v, fy_span prompt,
                         fy_err *e)
{
    fy_chat_seam at = s->seams[seam];
    fy_span rest = {prompt.ptr + at.n_bytes, prompt.len - at.n_bytes};
    fy_ids ids = {0};
    int rc = fy_vocab_encode(v, rest, false, true, &ids, e);
    if (rc == 0 && (ids.n == 0 || !begins_with_control(v, rest, ids.id[0])))
        rc = 1;
    if (rc == 0) {
        s->ids.n = at.n_ids;
        s->n_seams = seam + 1;
        rc = append(&s->ids, ids.id, ids.n, e);
    }
    fy_ids_release(&ids);
    return rc;
}

static size_t n_common(const fy_str *a, fy_span b)
{
    size_t n = 0, most = a->len < b.len ? a->len : b.len;
    while (n < most && a->ptr[n] == b.ptr[n])
        n++;
    return n;
}

static int make_ids(fy_chat_splice *s, const fy_vocab *v, fy_span prompt, fy_err *e)
{
    size_t common = n_common(&s->text, prompt);
    for (size_t i = s->n_seams; i-- > 0;) {
        if (s->seams[i].n_bytes > common)
            continue;
        int rc = continue_from(s, i, v, prompt, e);
        if (rc <= 0)
            return rc;
    }
    s->ids.n = 0;
    s->n_seams = 0;
    return fy_chat_encode_text(v, prompt, &s->ids, e);
}

int fy_chat_splice_prompt(fy_chat_splice *s, const fy_vocab *v, fy_span prompt, fy_err *e)
{
    int rc = make_ids(s, v, prompt, e);
    fy_str_clear(&s->text);
    fy_str_add(&s->text, prompt.ptr, prompt.len);
    if (rc == 0 && s->text.oom)
        rc = fy_nomem(e);
    if (rc != 0)
        fy_chat_splice_release(s);
    return rc;
}

int fy_chat_splice_answer(fy_chat_splice *s, const fy_vocab *v, const int32_t *ids, size_t n,
                          fy_err *e)
{
    size_t n_bytes = s->text.len, n_ids = s->ids.n;
    fy_chat_seam *seams = fy_grow(s->seams, s->n_seams, &s->cap, sizeof *seams);
    if (seams == NULL)
        return fy_nomem(e);
    s->seams = seams;
    int rc = append(&s->ids, ids, n, e);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = fy_vocab_decode_one(v, ids[i], true, &s->text, e);
    if (rc == 0 && s->text.oom)
        rc = fy_nomem(e);
    if (rc != 0) { /* the prompt is still known */
        s->ids.n = n_ids;
        s->text.len = n_bytes;
        return -1;
    }
    seams[s->n_seams++] = (fy_chat_seam){s->text.len, s->ids.n};
    return 0;
}

/* --- the conversation ------------------------------------------------------------------------- */

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

/* --- the prompt ------------------------------------------------------------------------------- */

int fy_chat_render(fy_chat *c, fy_span messages, bool generation, fy_str *text, fy_err *e)
{
    fy_chat_input in = {.messages = messages,
                        .add_generation_prompt = generation,
                        .args = c->args,
                        .n_args = c->n_args};
    fy_str_clear(text);
    if (fy_chat_template_render(c->template, &in, text, e) != 0)
        return fy_ctx(e, "the chat template refuses the conversation");
    return fy_chat_splice_prompt(&c->splice, c->engine->vocab, view(text), e);
}

/* Renders the conversation into *text; its ids are then those of the splice. */
static int make_prompt(fy_chat *c, bool generation, fy_str *text, fy_err *e)
{
    fy_str json = {0};
    fy_chat_messages_json(&c->messages, &json);
    int rc = json.oom ? fy_nomem(e) : fy_chat_render(c, view(&json), generation, text, e);
    fy_str_release(&json);
    return rc;
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

/* --- the answer ------------------------------------------------------------------------------- */

typedef struct {
    fy_chat *c;
    const fy_chat_sink *sink;
    fy_chat_answer *a;
    fy_text_out out;
    fy_think think;
    fy_str content;          /* of the message that the answer becomes */
    fy_str text;             /* scratch: text of one token */
    fy_str thinking, answer; /* scratch: the same, split */
} listener;

/* Passes on what is new in l->text, and at the end what was held back. */
static int pass_on(listener *l, int32_t id, bool at_end, fy_err *e)
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
    return l->sink->piece(l->sink->user, &p, e);
}

static int on_token(void *user, int32_t id, const float *logits, fy_err *e)
{
    (void)logits;
    listener *l = user;
    const fy_vocab *v = l->c->engine->vocab;
    fy_span piece = fy_vocab_piece(v, id);
    bool marker = fy_vocab_type(v, id) == FY_TOKEN_CONTROL && fy_think_is_marker(piece);
    fy_str_clear(&l->text);
    if (fy_ids_push(&l->a->ids, id, e) != 0)
        return -1;
    int rc = marker ? fy_text_out_bytes(&l->out, piece, &l->text, e)
                    : fy_text_out_token(&l->out, id, &l->text, e);
    if (rc > 0)
        l->a->stop_string = fy_stops_text(l->c->stops, l->out.found);
    return rc < 0 || pass_on(l, id, false, e) != 0 ? -1 : rc;
}

static int end_text(listener *l, fy_err *e)
{
    fy_str_clear(&l->text);
    if (fy_text_out_end(&l->out, &l->text, e) != 0)
        return -1;
    return pass_on(l, -1, true, e);
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

/* What a template begins as thinking is free until its end marker. */
static bool grammar_holds(void *user)
{
    const listener *l = user;
    return l->think.state != FY_THINK_INSIDE;
}

static int generate(listener *l, fy_err *e)
{
    fy_chat *c = l->c;
    fy_chat_answer *a = l->a;
    fy_generate_params p = {
        .n = c->n, .token = on_token, .grammar = c->grammar, .holds = grammar_holds, .user = l};
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
    fy_text_out_begin(&l->out, c->engine->vocab, c->stops, false);
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

static int answer_remotely(fy_chat *c, const fy_chat_sink *sink, fy_chat_answer *a, fy_err *e)
{
    fy_str content = {0};
    int rc = c->remote->answer(c->remote->user, &c->messages, sink, a, &content, e);
    if (rc == 0)
        rc = fy_chat_messages_add(&c->messages, "assistant", view(&content), e);
    fy_str_release(&content);
    return rc;
}

int fy_chat_answer_next(fy_chat *c, const fy_chat_sink *sink, fy_chat_answer *a, fy_err *e)
{
    fy_str prompt = {0};
    listener l = {.c = c, .sink = sink, .a = a};
    size_t n_messages = c->messages.n;
    fy_str_clear(&a->thinking);
    fy_str_clear(&a->text);
    a->ids.n = 0;
    if (c->remote != NULL)
        return answer_remotely(c, sink, a, e);
    a->n_ctx = fy_session_n_ctx(c->engine->session);
    bool changed = false;
    int rc = make_prompt(c, true, &prompt, e);
    if (rc == 0)
        rc = fy_chat_make_room(c, sink, &changed, e);
    if (rc == 0 && changed)
        rc = make_prompt(c, true, &prompt, e);
    if (rc == 0)
        rc = answer_prompt(&l, view(&prompt), e);
    if (rc != 0)
        fy_chat_messages_cut(&c->messages, n_messages);
    fy_str_release(&prompt);
    release(&l);
    return rc;
}
