/* A conversation with a model: messages in, an answer out, token by token. What the cache holds of
 * the conversation is not computed again.
 *
 * Three parts, each usable alone: the messages (chat_messages.c); in chat_session.c the splice,
 * from the text of a growing conversation to ids, and the conversation itself. */
#ifndef FY_CLI_CHAT_H
#define FY_CLI_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/engine.h"
#include "model/stop.h"
#include "model/template/chat_template.h"
#include "model/think.h"
#include "model/vocab/vocab.h"

/* --- messages --------------------------------------------------------------------------------- */

/* In memory and as JSON: {"messages": [{"role", "content"}, ...]}, what `ferry template --messages`
 * takes too. A message that came as JSON keeps its other members ("name", "tool_calls", ...), and
 * the template sees them. */
typedef struct {
    fy_str json; /* the whole message as an object */
    fy_str role;
    fy_str content; /* empty if the message has none, or one that is not a string */
} fy_chat_message;

/* Zero-initialise. */
typedef struct {
    fy_chat_message *items; /* owned */
    size_t n, cap;
    /* The oldest ones after the system message that the model does not see any more, and what it
     * sees in their place: its own summary of them; empty: nothing. */
    size_t n_hidden;
    fy_str summary;
} fy_chat_messages;

int fy_chat_messages_add(fy_chat_messages *m, const char *role, fy_span content, fy_err *e);
/* Appends the messages of a JSON text: one message, a list, or an object with "messages". For
 * anything else FY_EFORMAT reports where, and nothing is appended. *is_one (may be NULL): it was
 * one message by itself. */
int fy_chat_messages_read(fy_chat_messages *m, fy_span json, bool *is_one, fy_err *e);
/* Replaces the system message at the beginning, or puts one there; ptr NULL removes it. */
int fy_chat_messages_set_system(fy_chat_messages *m, fy_span text, fy_err *e);
/* Content of the system message at the beginning; ptr NULL: none. */
fy_span fy_chat_messages_system(const fy_chat_messages *m);
bool fy_chat_messages_ends_in(const fy_chat_messages *m, const char *role);
size_t fy_chat_messages_last_user(const fy_chat_messages *m); /* its index; m->n: there is none */
void fy_chat_messages_cut(fy_chat_messages *m, size_t n);     /* keeps the first n */
/* The last message out of the list, and back into it. */
fy_chat_message fy_chat_messages_take(fy_chat_messages *m);
void fy_chat_messages_put_back(fy_chat_messages *m, fy_chat_message one);
void fy_chat_message_release(fy_chat_message *one);
void fy_chat_messages_release(fy_chat_messages *m); /* usable again */

/* Those that the model sees, as a template gets them. */
void fy_chat_messages_json(const fy_chat_messages *m, fy_str *out);
/* The same as if the first n_hidden were hidden without a summary, up to message n; then the
 * request for a summary. */
void fy_chat_messages_ask_summary(const fy_chat_messages *m, size_t n_hidden, size_t n,
                                  fy_str *out);
/* How many are hidden when the oldest turn that the model sees is hidden too: up to the next
 * message of a user. The same as before: only one turn is left. */
size_t fy_chat_messages_next_turn(const fy_chat_messages *m, size_t n_hidden);
/* Hides them; takes *summary, NULL: none. */
void fy_chat_messages_hide(fy_chat_messages *m, size_t n_hidden, fy_str *summary);

/* save writes all, hidden ones too. load replaces the list once the file is read whole. */
int fy_chat_messages_save(const fy_chat_messages *m, const char *path, fy_err *e);
int fy_chat_messages_load(fy_chat_messages *m, const char *path, fy_err *e);

/* --- splice ----------------------------------------------------------------------------------- */

/* Answers keep the ids they were generated with: encoding an answer's text may give other ids than
 * the model chose, and everything after them in the cache would be lost. An answer keeps its ids as
 * long as the prompt repeats everything up to its end byte for byte and continues with a control
 * token (which no token can reach across); otherwise the text is encoded as any text. */
typedef struct {
    size_t n_bytes, n_ids; /* up to the end of an answer */
} fy_chat_seam;

/* Zero-initialise. */
typedef struct {
    fy_str text;         /* the last prompt, and its answer once there is one */
    fy_ids ids;          /* of the same */
    fy_chat_seam *seams; /* owned */
    size_t n_seams, cap;
} fy_chat_splice;

/* s->ids becomes the ids of the rendered prompt. On failure s is empty. */
int fy_chat_splice_prompt(fy_chat_splice *s, const fy_vocab *v, fy_span prompt, fy_err *e);
/* The model's answer to the last prompt, without an end token. */
int fy_chat_splice_answer(fy_chat_splice *s, const fy_vocab *v, const int32_t *ids, size_t n,
                          fy_err *e);
void fy_chat_splice_release(fy_chat_splice *s); /* usable again */

/* --- the conversation ------------------------------------------------------------------------- */

/* What happens when a conversation has no room for its next answer. */
typedef enum {                    /* in the order of --on-full */
               FY_FULL_STOP,      /* FY_EFIT */
               FY_FULL_DROP,      /* the model does not see the oldest turns any more */
               FY_FULL_SUMMARIZE, /* it sees its own summary of them */
} fy_on_full;

typedef struct fy_chat_sink fy_chat_sink;
typedef struct fy_chat_answer fy_chat_answer;

/* A model that computes somewhere else, for a conversation that is kept here. */
typedef struct {
    /* As fy_chat_answer_next; *content is the message that the answer becomes. It may hide some. */
    int (*answer)(void *user, fy_chat_messages *m, const fy_chat_sink *sink, fy_chat_answer *a,
                  fy_str *content, fy_err *e);
    /* A command about the model, "/params temp 0.7", and what it shows. */
    int (*command)(void *user, const fy_chat_messages *m, fy_span line, fy_str *out, fy_err *e);
    void *user;
    uint32_t n_ctx; /* of its context */
} fy_chat_remote;

typedef struct {
    const fy_chat_remote *remote; /* view; NULL: engine, template and sampler are here */
    fy_engine *engine;            /* view */
    fy_chat_template *template;   /* view */
    const char *const *args;      /* view: [n_args] variables of the template, "KEY=VALUE" */
    size_t n_args;
    fy_sampler *sampler;   /* view */
    fy_matcher *grammar;   /* view: of every answer, after its thinking; NULL: none */
    int64_t n;             /* most tokens of an answer; -1: no limit */
    const fy_stops *stops; /* view: they end an answer; NULL: none */
    fy_on_full on_full;
    bool timings;              /* times after each answer: a message, not only with -v */
    const char *remedy;        /* what a user can do about a full context */
    fy_chat_messages messages; /* owned */
    fy_chat_splice splice;     /* owned */
} fy_chat;

/* The text that one token allows to show now. */
typedef struct {
    int32_t id;
    fy_span thinking, answer;
    const fy_think *think;
} fy_chat_piece;

struct fy_chat_sink {
    int (*prompt)(void *user, fy_span text, const fy_ids *ids, fy_err *e); /* may be NULL */
    int (*piece)(void *user, const fy_chat_piece *p, fy_err *e);
    /* n messages more are hidden; ptr NULL: without a summary. */
    int (*hidden)(void *user, size_t n, fy_span summary, fy_err *e);
    void *user;
};

/* Zero-initialise; may be used again and again. */
struct fy_chat_answer {
    fy_str thinking, text;
    fy_ids ids; /* what was generated, without an end token */
    fy_stop why;
    fy_span stop_string; /* that ended it (FY_STOP_STRING); view of the chat's */
    fy_timing timing;
    uint32_t n_used, n_ctx; /* positions of the context, taken and all */
};

/* Answers the conversation as it stands and appends the answer to it, thinking included: the
 * template decides what to keep of it. On failure, and on an interrupt before the first token
 * (FY_EINTR), the conversation is as it was. FY_EFIT: the context is too small for it. */
int fy_chat_answer_next(fy_chat *c, const fy_chat_sink *sink, fy_chat_answer *a, fy_err *e);
void fy_chat_answer_release(fy_chat_answer *a);

/* Makes room as c->on_full says when less than a quarter of the context is left for the answer to
 * the prompt (c->splice): then the oldest turns are hidden until half of the context is free.
 * *changed: the conversation has to be rendered again. */
int fy_chat_make_room(fy_chat *c, const fy_chat_sink *sink, bool *changed, fy_err *e);
/* Renders a conversation into *text, for ids in c->splice. */
int fy_chat_render(fy_chat *c, fy_span messages, bool generation, fy_str *text, fy_err *e);

/* Tokens of the conversation so far. */
int fy_chat_count(fy_chat *c, uint32_t *n, fy_err *e);
void fy_chat_release(fy_chat *c); /* what it owns */

#endif
