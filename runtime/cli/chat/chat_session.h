/* A conversation with a model: messages in, an answer out, token by token. What the cache holds of
 * the conversation is not computed again. */
#ifndef FY_CLI_CHAT_SESSION_H
#define FY_CLI_CHAT_SESSION_H

#include "base/err.h"
#include "cli/chat/chat_messages.h"
#include "cli/chat/chat_splice.h"
#include "cli/chat/chat_think.h"
#include "cli/engine.h"
#include "model/template/chat_template.h"

typedef struct {
    fy_engine *engine;          /* view */
    fy_chat_template *template; /* view */
    const char *const *args;    /* view: [n_args] variables of the template, "KEY=VALUE" */
    size_t n_args;
    fy_sampler *sampler;       /* view */
    int64_t n;                 /* most tokens of an answer; -1: no limit */
    const char *remedy;        /* what a user can do about a full context */
    fy_chat_messages messages; /* owned */
    fy_chat_splice splice;     /* owned */
} fy_chat;

/* What becomes of one token: the text that can be shown now. t tells where the answer is. */
typedef struct {
    int32_t id;
    fy_span thinking, answer;
    const fy_think *think;
} fy_chat_piece;

typedef struct {
    int (*prompt)(void *user, fy_span text, const fy_ids *ids, fy_err *e); /* may be NULL */
    int (*piece)(void *user, const fy_chat_piece *p, fy_err *e);           /* may be NULL */
    void *user;
} fy_chat_sink;

/* Zero-initialise; may be used again and again. */
typedef struct {
    fy_str thinking, text;
    fy_ids ids; /* what was generated, without an end token */
    fy_stop why;
    fy_timing timing;
    uint32_t n_used, n_ctx; /* positions of the context, taken and all */
} fy_chat_answer;

/* Answers the conversation as it stands and appends the answer to it: whole, thinking included, for
 * a template knows best what to keep of it. On failure, which an interrupt before the first token
 * is too (FY_EINTR), the conversation is as it was. FY_EFIT: the context is too small for it. */
int fy_chat_answer_next(fy_chat *c, const fy_chat_sink *sink, fy_chat_answer *a, fy_err *e);
void fy_chat_answer_release(fy_chat_answer *a);

/* Tokens of the conversation so far. */
int fy_chat_count(fy_chat *c, uint32_t *n, fy_err *e);
void fy_chat_release(fy_chat *c); /* what it owns */

#endif
