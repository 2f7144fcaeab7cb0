/* ferry.h: a model, its vocabulary and its chat template. */
#include <stdlib.h>
#include <string.h>

#include "api/api_impl.h"
#include "model/template/chat_template.h"

/* --- the model --- */

static const ferry_model_params model_defaults = {.struct_size = sizeof(ferry_model_params)};

void ferry_model_params_init(ferry_model_params *p, size_t struct_size)
{
    fy_api_params_init(p, struct_size, &model_defaults, sizeof model_defaults);
}

/* Levels have the same numbers on both sides. */
static void pass_on(void *user, fy_log_level level, const char *text)
{
    const ferry_model *model = user;
    if (model != NULL && model->log != NULL)
        model->log(model->log_user, (int32_t)level, text);
}

fy_api_scope fy_api_enter(ferry_model *model)
{
    fy_api_scope scope = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    scope.before = uselocale(scope.c); /* without one, the program's stays */
    scope.log = fy_log_use((fy_log_target){pass_on, model});
    return scope;
}

void fy_api_leave(const fy_api_scope *scope)
{
    fy_log_use(scope->log);
    uselocale(scope->before);
    if (scope->c != (locale_t)0)
        freelocale(scope->c);
}

/* --- life ----------------------------------------------------------------------------------- */

static ferry_model *new_model(const ferry_model_params *p, fy_err *e)
{
    ferry_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        fy_nomem(e);
        return NULL;
    }
    model->log = p->log;
    model->log_user = p->log_user;
    atomic_init(&model->n_users, 1);
    pthread_mutex_init(&model->lock, NULL); /* cannot fail on Linux */
    return model;
}

static ferry_model *open_model(const char *path, const ferry_model_params *p, fy_err *e)
{
    ferry_model *model = new_model(p, e);
    if (model == NULL)
        return NULL;
    const fy_api_scope scope = fy_api_enter(model);
    const fy_map_options how = {.huge = true,
                                .read = (p->flags & FERRY_MODEL_NO_MMAP) != 0,
                                .lock = (p->flags & FERRY_MODEL_MLOCK) != 0};
    model->m = fy_model_open_as(path, &how, e);
    fy_api_leave(&scope);
    if (model->m != NULL)
        return model;
    fy_api_model_release(model);
    return NULL;
}

ferry_status ferry_model_open(const char *path, const ferry_model_params *params,
                              ferry_model **model, ferry_error *error)
{
    fy_err e = {0};
    ferry_model_params p = model_defaults;
    int rc = fy_api_need(model, "model", &e);
    if (rc == 0)
        *model = NULL;
    if (rc == 0 && fy_api_need(path, "path", &e) == 0 &&
        fy_api_params(params, &p, FY_API_UP_TO(ferry_model_params, log_user), "ferry_model_params",
                      &e) == 0 &&
        fy_api_flags(p.flags, FERRY_MODEL_MLOCK | FERRY_MODEL_NO_MMAP, &e) == 0)
        *model = open_model(path, &p, &e);
    return fy_api_end(rc == 0 && *model != NULL ? 0 : -1, &e, error);
}

void fy_api_model_keep(ferry_model *model)
{
    atomic_fetch_add_explicit(&model->n_users, 1, memory_order_relaxed);
}

void fy_api_model_release(ferry_model *model)
{
    if (model == NULL || atomic_fetch_sub_explicit(&model->n_users, 1, memory_order_acq_rel) > 1)
        return;
    fy_trie_free(model->trie);
    fy_model_close(model->m);
    pthread_mutex_destroy(&model->lock);
    free(model);
}

void ferry_model_free(ferry_model *model)
{
    fy_api_model_release(model);
}

/* --- what it is ----------------------------------------------------------------------------- */

const char *ferry_model_family(const ferry_model *model)
{
    return model != NULL ? fy_model_family(model->m)->name : NULL;
}

uint32_t ferry_model_n_vocab(const ferry_model *model)
{
    return model != NULL ? fy_model_hparams(model->m)->n_vocab : 0;
}

uint32_t ferry_model_n_ctx_train(const ferry_model *model)
{
    return model != NULL ? fy_model_hparams(model->m)->n_ctx_train : 0;
}

uint32_t ferry_model_n_embd(const ferry_model *model)
{
    return model != NULL ? fy_model_hparams(model->m)->n_embd : 0;
}

uint32_t ferry_model_n_layer(const ferry_model *model)
{
    return model != NULL ? fy_model_hparams(model->m)->n_layer : 0;
}

/* --- the vocabulary --- */

const ferry_vocab *fy_api_vocab(ferry_model *model, fy_err *e)
{
    const fy_api_scope scope = fy_api_enter(model);
    pthread_mutex_lock(&model->lock);
    if (model->vocab.v == NULL)
        model->vocab.v = fy_model_vocab(model->m, e);
    const bool there = model->vocab.v != NULL;
    pthread_mutex_unlock(&model->lock);
    fy_api_leave(&scope);
    return there ? &model->vocab : NULL;
}

ferry_status ferry_model_vocab(ferry_model *model, const ferry_vocab **vocab, ferry_error *error)
{
    fy_err e = {0};
    int rc = fy_api_need(vocab, "vocab", &e);
    if (rc == 0)
        *vocab = NULL;
    if (rc == 0 && fy_api_need(model, "model", &e) == 0)
        *vocab = fy_api_vocab(model, &e);
    return fy_api_end(rc == 0 && *vocab != NULL ? 0 : -1, &e, error);
}

/* --- tokens --------------------------------------------------------------------------------- */

uint32_t ferry_vocab_size(const ferry_vocab *vocab)
{
    return vocab != NULL ? fy_vocab_n(vocab->v) : 0;
}

int32_t ferry_vocab_bos(const ferry_vocab *vocab)
{
    return vocab != NULL ? fy_vocab_bos(vocab->v) : -1;
}

int ferry_vocab_is_end(const ferry_vocab *vocab, int32_t id)
{
    return vocab != NULL && fy_vocab_is_eog(vocab->v, id);
}

/* --- text to ids ---------------------------------------------------------------------------- */

static int encode(const fy_vocab *v, fy_span text, uint32_t flags, fy_ids *out, fy_err *e)
{
    if (flags & FERRY_RENDERED_CHAT)
        return flags == FERRY_RENDERED_CHAT
                   ? fy_chat_encode_text(v, text, out, e)
                   : fy_fail(e, FY_EARG, "flags %#x, expected FERRY_RENDERED_CHAT alone", flags);
    return fy_vocab_encode(v, text, flags & FERRY_ADD_SPECIAL, flags & FERRY_PARSE_SPECIAL, out, e);
}

static int put_ids(const fy_ids *made, int32_t *ids, size_t capacity, size_t *n_ids, fy_err *e)
{
    *n_ids = made->n;
    if (ids == NULL || made->n == 0)
        return 0;
    if (made->n > capacity)
        return fy_fail(e, FY_EFIT, "a text of %zu tokens, the buffer holds %zu", made->n, capacity);
    memcpy(ids, made->id, made->n * sizeof *ids);
    return 0;
}

ferry_status ferry_tokenize(const ferry_vocab *vocab, const char *text, size_t n_bytes,
                            uint32_t flags, int32_t *ids, size_t capacity, size_t *n_ids,
                            ferry_error *error)
{
    fy_err e = {0};
    fy_ids made = {0};
    int rc = -1;
    if (fy_api_need(vocab, "vocab", &e) == 0 && fy_api_need(text, "text", &e) == 0 &&
        fy_api_need(n_ids, "n_ids", &e) == 0 &&
        fy_api_flags(flags, FERRY_ADD_SPECIAL | FERRY_PARSE_SPECIAL | FERRY_RENDERED_CHAT, &e) == 0)
        rc = encode(vocab->v, (fy_span){text, n_bytes}, flags, &made, &e);
    if (rc == 0)
        rc = put_ids(&made, ids, capacity, n_ids, &e);
    fy_ids_release(&made);
    return fy_api_end(rc, &e, error);
}

/* --- ids to text ---------------------------------------------------------------------------- */

static int check_ids(const fy_vocab *v, const int32_t *ids, size_t n, fy_err *e)
{
    const uint32_t n_vocab = fy_vocab_n(v);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return fy_fail(e, FY_EARG, "token id %d, the vocabulary has %u", ids[i], n_vocab);
    }
    return 0;
}

/* What both ways from ids to text ask of their arguments. */
static int check_decode(const ferry_vocab *vocab, const int32_t *ids, size_t n, uint32_t flags,
                        const size_t *n_bytes, fy_err *e)
{
    if (fy_api_need(vocab, "vocab", e) != 0 || fy_api_need(n_bytes, "n_bytes", e) != 0 ||
        fy_api_flags(flags, FERRY_SHOW_SPECIAL, e) != 0 ||
        (n > 0 && fy_api_need(ids, "ids", e) != 0))
        return -1;
    return check_ids(vocab->v, ids, n, e);
}

ferry_status ferry_detokenize(const ferry_vocab *vocab, const int32_t *ids, size_t n_ids,
                              uint32_t flags, char *text, size_t capacity, size_t *n_bytes,
                              ferry_error *error)
{
    fy_err e = {0};
    fy_str made = {0};
    int rc = check_decode(vocab, ids, n_ids, flags, n_bytes, &e);
    if (rc == 0)
        rc = fy_vocab_decode(vocab->v, ids, n_ids, flags & FERRY_SHOW_SPECIAL, &made, &e);
    if (rc == 0)
        rc = fy_api_put_text(&made, text, capacity, n_bytes, &e);
    fy_str_release(&made);
    return fy_api_end(rc, &e, error);
}

ferry_status ferry_token_text(const ferry_vocab *vocab, int32_t id, uint32_t flags, char *text,
                              size_t capacity, size_t *n_bytes, ferry_error *error)
{
    fy_err e = {0};
    fy_str made = {0};
    int rc = check_decode(vocab, &id, 1, flags, n_bytes, &e);
    if (rc == 0)
        rc = fy_vocab_decode_one(vocab->v, id, flags & FERRY_SHOW_SPECIAL, &made, &e);
    if (rc == 0)
        rc = fy_api_put_text(&made, text, capacity, n_bytes, &e);
    fy_str_release(&made);
    return fy_api_end(rc, &e, error);
}

/* --- the chat template --- */

struct ferry_chat_template {
    fy_chat_template *t; /* owned */
};

static const ferry_chat_params chat_defaults = {.struct_size = sizeof(ferry_chat_params),
                                                .flags = FERRY_CHAT_ANSWER};

void ferry_chat_params_init(ferry_chat_params *p, size_t struct_size)
{
    fy_api_params_init(p, struct_size, &chat_defaults, sizeof chat_defaults);
}

static ferry_chat_template *open_template(ferry_model *model, const char *which, fy_err *e)
{
    ferry_chat_template *chat = calloc(1, sizeof *chat);
    if (chat == NULL) {
        fy_nomem(e);
        return NULL;
    }
    const fy_api_scope scope = fy_api_enter(model);
    chat->t = fy_chat_template_open(fy_model_gguf(model->m), which, e);
    fy_api_leave(&scope);
    if (chat->t != NULL)
        return chat;
    free(chat);
    return NULL;
}

ferry_status ferry_chat_template_open(ferry_model *model, const char *which,
                                      ferry_chat_template **chat, ferry_error *error)
{
    fy_err e = {0};
    int rc = fy_api_need(chat, "chat", &e);
    if (rc == 0)
        *chat = NULL;
    if (rc == 0 && fy_api_need(model, "model", &e) == 0)
        *chat = open_template(model, which, &e);
    return fy_api_end(rc == 0 && *chat != NULL ? 0 : -1, &e, error);
}

void ferry_chat_template_free(ferry_chat_template *chat)
{
    if (chat == NULL)
        return;
    fy_chat_template_free(chat->t);
    free(chat);
}

static int check_render(const ferry_chat_template *chat, const char *messages,
                        const size_t *n_bytes, const ferry_chat_params *given, ferry_chat_params *p,
                        fy_err *e)
{
    if (fy_api_need(chat, "chat", e) != 0 || fy_api_need(messages, "messages", e) != 0 ||
        fy_api_need(n_bytes, "n_bytes", e) != 0 ||
        fy_api_params(given, p, FY_API_UP_TO(ferry_chat_params, variables), "ferry_chat_params",
                      e) != 0)
        return -1;
    return fy_api_flags(p->flags, FERRY_CHAT_ANSWER, e);
}

static fy_span span_of(const char *text)
{
    return text != NULL ? fy_span_of(text) : (fy_span){0};
}

ferry_status ferry_chat_template_render(const ferry_chat_template *chat, const char *messages,
                                        const ferry_chat_params *params, char *text,
                                        size_t capacity, size_t *n_bytes, ferry_error *error)
{
    fy_err e = {0};
    fy_str made = {0};
    ferry_chat_params p = chat_defaults;
    int rc = check_render(chat, messages, n_bytes, params, &p, &e);
    if (rc == 0) {
        const fy_chat_input in = {.messages = span_of(messages),
                                  .tools = span_of(p.tools),
                                  .extra = span_of(p.variables),
                                  .add_generation_prompt = p.flags & FERRY_CHAT_ANSWER};
        const fy_api_scope scope = fy_api_enter(NULL);
        rc = fy_chat_template_render(chat->t, &in, &made, &e);
        fy_api_leave(&scope);
    }
    if (rc == 0)
        rc = fy_api_put_text(&made, text, capacity, n_bytes, &e);
    fy_str_release(&made);
    return fy_api_end(rc, &e, error);
}
