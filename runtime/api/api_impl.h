/* What the public functions (ferry.h) share: the objects of the handles, and how errors leave
 * the library. The functions check what a caller could get wrong and leave the
 * work to the engine. */
#ifndef FY_API_API_IMPL_H
#define FY_API_API_IMPL_H

#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <ferry.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "model/model.h"

struct ferry_vocab {
    const fy_vocab *v; /* view of the model; NULL: not loaded yet */
};

/* Lives until its handle and all of its sessions are gone. */
struct ferry_model {
    fy_model *m; /* owned */
    _Atomic uint32_t n_users;
    ferry_log_fn log; /* NULL: none */
    void *log_user;
    pthread_mutex_t lock; /* of vocab and trie */
    ferry_vocab vocab;
    fy_trie *trie; /* owned; NULL: no grammar was made yet */
};

void fy_api_model_keep(ferry_model *model);
void fy_api_model_release(ferry_model *model); /* NULL is fine */
/* Loads the vocabulary at the first call; NULL on failure. */
const ferry_vocab *fy_api_vocab(ferry_model *model, fy_err *e);

/* The vocabulary's trie, made at the first call; NULL on failure. */
const fy_trie *fy_api_trie(ferry_model *model, fy_err *e);

/* Lives until its handle and all samplers that use it are gone. */
struct ferry_grammar {
    fy_grammar *g;       /* owned: a share */
    const fy_trie *trie; /* view of the model */
    ferry_model *model;  /* kept */
    _Atomic uint32_t n_users;
};
void fy_api_grammar_keep(ferry_grammar *grammar);

/* What holds in this thread while the engine works for a caller: its messages go to the model's
 * callback (model NULL: nowhere), numbers are written as in C, whatever the program's locale. */
typedef struct {
    fy_log_target log;
    locale_t c, before;
} fy_api_scope;
fy_api_scope fy_api_enter(ferry_model *model);
void fy_api_leave(const fy_api_scope *scope);

/* Stores the outcome for the caller and returns it. */
ferry_status fy_api_end(int rc, const fy_err *e, ferry_error *out);

/* FY_EARG when the argument `name` is NULL. */
int fy_api_need(const void *p, const char *name, fy_err *e);

/* The size of a struct whose last member is this one. */
#define FY_API_UP_TO(type, last) (offsetof(type, last) + sizeof(((type *)NULL)->last))

/* A parameter struct as this library knows it. A longer one of a later version must have zeroes
 * where this one ends. `known` holds the defaults on entry and begins with its struct_size; `least`
 * is the size in the first version. given NULL: the defaults stay. */
int fy_api_params(const void *given, void *known, size_t least, const char *name, fy_err *e);
/* For ferry_..._params_init: as much of the defaults as the caller's struct has room for. */
void fy_api_params_init(void *p, size_t struct_size, const void *defaults, size_t size);

/* What is inside a session's handle: its model, the session, and what stops it when it is cancelled. */
ferry_model *fy_api_session_model(const ferry_session *session);
fy_session *fy_api_session_of(ferry_session *session);
fy_eval_sinks fy_api_session_sinks(ferry_session *session);

/* Flags outside `known` belong to a later version. */
int fy_api_flags(uint32_t flags, uint32_t known, fy_err *e);

/* Text for a caller's buffer, as ferry_detokenize says. */
int fy_api_put_text(const fy_str *s, char *text, size_t capacity, size_t *n_bytes, fy_err *e);

#endif
