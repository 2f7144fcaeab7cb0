#include <stdlib.h>

#include "api/api_impl.h"
#include "model/template/chat_template.h"

struct ferry_chat_template {
    fy_chat_template *t; /* owned */
};

static const ferry_chat_params defaults = {.struct_size = sizeof(ferry_chat_params),
                                           .flags = FERRY_CHAT_ANSWER};

void ferry_chat_params_init(ferry_chat_params *p, size_t struct_size)
{
    fy_api_params_init(p, struct_size, &defaults, sizeof defaults);
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
    ferry_chat_params p = defaults;
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
