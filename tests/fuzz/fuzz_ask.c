/* Requests for text as JSON: what the readers of all APIs share takes or refuses, with a message,
 * and what it takes is within its limits. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "server/ask_read.h"
#include "tests/unit/vocab/small_vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static fy_server server;

static void begin(void)
{
    static const char text[] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    fy_err e = {0};
    small_vocab b = {0};
    small_bpe(&b, "gpt-2");
    server.served.vocab = small_vocab_load(&b, &e);
    server.served.chat = fy_chat_template_new(FY_SPAN(text), "fuzz", &e);
    server.served.n_slots = 4;
    server.served.n_ctx = 64;
    server.served.n_embd = 8;
    server.served.sampler = fy_sampler_defaults();
    server.served.n_predict = -1;
    if (server.served.vocab == NULL || server.served.chat == NULL)
        abort();
    server.served.n_vocab = fy_vocab_n(server.served.vocab);
}

static void check_bad(const fy_bad_ask *b)
{
    if (b->e.code == FY_OK || b->e.msg[0] == '\0')
        abort();
}

static void check_ask(const fy_ask *k)
{
    const fy_sampler_params *p = &k->sampler;
    if (!(p->temperature >= 0 && p->temperature <= 100) || p->top_k < 0 || k->n_choices < 1 ||
        k->n_choices > FY_ASK_ANSWERS_MAX || k->n_predict < -1 || k->slot >= 4 ||
        p->n_order > FY_SAMPLE_STEPS || p->n_bias > 1024 || k->n_prompts > FY_ASK_ANSWERS_MAX)
        abort();
    for (size_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].id < 0 || (uint32_t)p->bias[i].id >= server.served.n_vocab ||
            isnan(p->bias[i].bias))
            abort();
    }
    for (size_t i = 0; i < k->n_prompts; i++) {
        for (size_t j = 0; j < k->prompts[i].n; j++) {
            if (k->prompts[i].id[j] < 0 || (uint32_t)k->prompts[i].id[j] >= server.served.n_vocab)
                abort();
        }
    }
}

/* An API that fills the ask by itself. */
static void read_as(int (*read)(fy_ask *k, const json_t *o, fy_bad_ask *b),
                    const fy_reply_form *form, const json_t *o, fy_span body)
{
    fy_bad_ask b = {0};
    fy_exchange *x = fy_exchange_new(&server);
    fy_str_add(&x->body, body.ptr, body.len);
    fy_ask *k = fy_ask_new(x, form, "x_");
    if (k == NULL)
        abort();
    if (read(k, o, &b) != 0)
        check_bad(&b);
    else if (k->n_prompts == 0)
        abort();
    else
        check_ask(k);
    fy_ask_free(k);
    fy_exchange_release(x);
}

static void read_embed(const json_t *o)
{
    fy_bad_ask b = {0};
    fy_embed_ask a;
    if (fy_embed_read(&server.served, o, &a, &b) != 0)
        check_bad(&b);
    else if (a.n_texts == 0 || a.normalize < -1 || (a.dimensions != 0 && a.dimensions != 8))
        abort();
    for (size_t i = 0; b.e.code == FY_OK && i < a.n_texts; i++) {
        if (a.texts[i].n == 0 || a.texts[i].n > server.served.n_ctx)
            abort();
    }
    fy_embed_ask_release(&a);
}

static void read_ask(const json_t *o, fy_span body)
{
    static const fy_reply_form form;
    fy_bad_ask b = {0};
    fy_str text = {0};
    fy_exchange *x = fy_exchange_new(&server);
    fy_str_add(&x->body, body.ptr, body.len);
    fy_ask *k = fy_ask_new(x, &form, "x-");
    if (k == NULL)
        abort();
    const bool refused = fy_ask_read_common(k, o, &b) != 0;
    if (refused)
        check_bad(&b);
    b = (fy_bad_ask){0};
    if (fy_ask_read_prompts(k, json_object_get(o, "prompt"), "prompt", &b) != 0)
        check_bad(&b);
    if (!refused)
        check_ask(k);
    b = (fy_bad_ask){0};
    if (fy_ask_read_suffix(k, json_object_get(o, "suffix"), &b) != 0)
        check_bad(&b);
    b = (fy_bad_ask){0};
    if (fy_ask_read_infill(k, o, &b) != 0)
        check_bad(&b);
    if (!refused)
        check_ask(k);
    b = (fy_bad_ask){0};
    if (fy_read_tools(&server.served, o, &k->tools, &b) != 0 || fy_force_tools(k, &b) != 0)
        check_bad(&b);
    b = (fy_bad_ask){0};
    if (fy_read_messages(&server.served, o, &k->tools, &text, &b) != 0)
        check_bad(&b);
    fy_str_release(&text);
    read_embed(o);
    fy_ask_free(k);
    fy_exchange_release(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    if (server.served.vocab == NULL)
        begin();
    if (size > 1 << 14)
        return 0;
    json_t *o = fy_json_data((fy_span){(const char *)data, size}, &e);
    const fy_span body = {(const char *)data, size};
    if (json_is_object(o)) {
        read_ask(o, body);
        read_as(fy_responses_read, &fy_responses_form, o, body);
        read_as(fy_ollama_read_chat, &fy_ollama_form, o, body);
        if (json_is_string(json_object_get(o, "prompt"))) /* others are answered without an ask */
            read_as(fy_ollama_read_generate, &fy_ollama_form, o, body);
    }
    json_decref(o);
    return 0;
}
