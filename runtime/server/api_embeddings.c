/* POST /v1/embeddings (OpenAI's form), /embedding (llama-server's), and for api_ollama.c /api/embed
 * and /api/embeddings: the residual stream after
 * the final norm, its mean over all positions or that of the last one. A text is computed in a
 * sequence of its own, and sums go by position, so what a text gets does not depend on the rest of
 * its list. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/process.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"
#include "server/routes.h"

enum { TEXTS_MAX = 2048, NORMALIZE_MAX = 64 };

typedef struct embed embed;

typedef struct {
    fy_seq_task task; /* first: a task is its input */
    embed *of;        /* view */
    double *sum;      /* owned, [n_embd]; while it is computed */
    fy_str text;      /* owned: the vector, as it is answered */
} input;

struct embed {
    fy_exchange *x; /* NULL: it was refused */
    fy_server *server;
    input *inputs; /* owned, [n_inputs] */
    size_t n_inputs, n_ended;
    fy_embed_form form;
    bool base64;
    int32_t normalize;
};

static void embed_free(embed *m)
{
    for (size_t i = 0; i < m->n_inputs; i++) {
        fy_ids_release(&m->inputs[i].task.ids);
        fy_str_release(&m->inputs[i].text);
        free(m->inputs[i].sum);
    }
    free(m->inputs);
    free(m);
}

/* --- answers (engine thread) ------------------------------------------------------------------ */

/* What the values are divided by; 0: they are all 0. */
static double length_of(const double *v, uint32_t n, int32_t p)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double a = fabs(v[i]);
        sum = p > 0 ? sum + (p == 1 ? a : p == 2 ? a * a : pow(a, p)) : fmax(sum, a);
    }
    return p < 0 ? 1 : p == 0 ? sum / 32760 : p == 2 ? sqrt(sum) : pow(sum, 1.0 / p);
}

static void put_vector(input *in)
{
    const embed *m = in->of;
    const uint32_t n = m->server->served.n_embd;
    const double length = length_of(in->sum, n, m->normalize);
    fy_str bytes = {0};
    fy_str_puts(&in->text, m->base64 ? "\"" : "[");
    for (uint32_t i = 0; i < n; i++) {
        const float v = length > 0 ? (float)(in->sum[i] / length) : 0;
        if (m->base64)
            fy_str_add(&bytes, &v, sizeof v);
        else
            fy_str_printf(&in->text, i > 0 ? ",%.9g" : "%.9g", (double)v);
    }
    fy_put_base64(&in->text, fy_str_view(&bytes));
    fy_str_puts(&in->text, m->base64 ? "\"" : "]");
    in->text.oom |= bytes.oom;
    fy_str_release(&bytes);
}

/* Rows [pos, pos + n) of the text. */
static int on_hidden(fy_seq_task *t, uint32_t pos, const float *x, uint32_t n, fy_err *e)
{
    input *in = (input *)t;
    const embed *m = in->of;
    const fy_served *v = &m->server->served;
    const uint32_t len = v->n_embd;
    if (in->sum == NULL)
        in->sum = calloc(len, sizeof *in->sum);
    if (in->sum == NULL)
        return fy_nomem(e);
    if (v->pool_last && pos + n < t->n_prompt)
        return 0;
    const float *y = fy_session_norm(v->session, x, n);
    for (uint32_t i = v->pool_last ? n - 1 : 0; i < n; i++) {
        for (uint32_t j = 0; j < len; j++)
            in->sum[j] += (double)y[(size_t)i * len + j];
    }
    if (pos + n < t->n_prompt)
        return 0;
    for (uint32_t j = 0; j < len && !v->pool_last; j++)
        in->sum[j] /= t->n_prompt;
    for (uint32_t j = 0; j < len; j++) {
        if (!isfinite(in->sum[j]))
            return fy_fail(e, FY_EVERIFY, "the embedding is not a number: the model is damaged");
    }
    put_vector(in);
    free(in->sum);
    in->sum = NULL;
    return in->text.oom ? fy_nomem(e) : 0;
}

static void put_input(const embed *m, size_t i, fy_str *out)
{
    const fy_str *vector = &m->inputs[i].text;
    const bool nested = m->form == FY_EMBED_LLAMA && !m->base64;
    fy_str_printf(out, "%s{\"index\":%zu,", i > 0 ? "," : "", i);
    if (m->form == FY_EMBED_OPENAI)
        fy_str_puts(out, "\"object\":\"embedding\",");
    fy_str_puts(out, nested ? "\"embedding\":[" : "\"embedding\":");
    fy_str_add(out, vector->ptr, vector->len);
    fy_str_puts(out, nested ? "]" : "");
    fy_str_puts(out, m->base64 ? ",\"encoding_format\":\"base64\"}" : "}");
}

/* "embeddings":[VECTOR,...] and what it took, or the one vector of the older form. */
static void put_ollama(const embed *m, unsigned long long n, fy_str *out)
{
    fy_str_putc(out, '{');
    if (m->form == FY_EMBED_OLLAMA) {
        fy_put_span(out, "model", fy_span_of(m->server->served.name));
        fy_str_puts(out, ",\"embeddings\":[");
    } else {
        fy_str_puts(out, "\"embedding\":");
    }
    for (size_t i = 0; i < m->n_inputs; i++) {
        fy_str_puts(out, i > 0 ? "," : "");
        fy_str_add(out, m->inputs[i].text.ptr, m->inputs[i].text.len);
    }
    if (m->form == FY_EMBED_OLLAMA)
        fy_str_printf(out,
                      "],\"total_duration\":%llu,\"load_duration\":0,\"prompt_eval_count\":%llu",
                      (unsigned long long)((fy_now_s() - m->x->begun_s) * 1e9), n);
    fy_str_putc(out, '}');
}

static void put_list(const embed *m, unsigned long long n, fy_str *out)
{
    if (m->form == FY_EMBED_OPENAI) {
        fy_str_puts(out, "{\"object\":\"list\",");
        fy_put_span(out, "model", fy_span_of(m->server->served.name));
        fy_str_printf(out, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu},\"data\":", n,
                      n);
    }
    fy_str_putc(out, '[');
    for (size_t i = 0; i < m->n_inputs; i++)
        put_input(m, i, out);
    fy_str_puts(out, m->form == FY_EMBED_OPENAI ? "]}" : "]");
}

static void answer(embed *m)
{
    fy_str out = {0};
    unsigned long long n = 0;
    for (size_t i = 0; i < m->n_inputs; i++)
        n += m->inputs[i].task.n_prompt;
    if (m->form == FY_EMBED_OLLAMA || m->form == FY_EMBED_OLLAMA_OLD)
        put_ollama(m, n, &out);
    else
        put_list(m, n, &out);
    fy_reply_json(m->x, 200, &out);
}

static bool is_gone(fy_seq_task *t)
{
    const fy_exchange *x = ((input *)t)->of->x;
    return x == NULL || atomic_load(&x->gone);
}

static bool is_paused(fy_seq_task *t)
{
    (void)t;
    return false;
}

static void fail(embed *m, int status, const char *message)
{
    if (m->x != NULL)
        fy_reply_error(m->x, &(fy_api_refusal){.status = status, .retry_after_s = status == 503},
                       message);
    m->x = NULL;
}

static void on_done(fy_seq_task *t, fy_seq_end end, const fy_err *e)
{
    embed *m = ((input *)t)->of;
    if (m->x != NULL && atomic_load(&m->x->gone))
        fail(m, FY_STATUS_LEFT, "the client has left");
    else if (end == FY_SEQ_FAILED)
        fail(m, fy_error_status(e), e->msg);
    else if (end != FY_SEQ_DONE)
        fail(m, 503, "the server is shutting down");
    if (++m->n_ended < m->n_inputs)
        return;
    if (m->x != NULL)
        answer(m);
    embed_free(m);
}

static const fy_seq_calls calls = {
    .hidden = on_hidden, .gone = is_gone, .paused = is_paused, .done = on_done};

/* --- requests (worker) ------------------------------------------------------------------------ */

static int add_text(const fy_served *v, const json_t *text, const char *param, fy_embed_ask *a,
                    fy_bad_ask *b)
{
    const size_t i = a->n_texts++;
    fy_ids *ids = &a->texts[i];
    if (fy_read_ids(v, text, true, true, param, ids, b) != 0)
        return -1;
    if (ids->n == 0)
        return fy_bad(b, param, "text %zu is empty: it has no embedding", i);
    if (ids->n <= v->n_ctx)
        return 0;
    snprintf(b->param, sizeof b->param, "%s", param);
    return fy_fail(&b->e, FY_EFIT, "text %zu is too large: %zu tokens, a slot has %u (--ctx-size)",
                   i, ids->n, v->n_ctx);
}

/* A text, ids, or a list of those. */
static int add_texts(const fy_served *v, const json_t *list, const char *param, fy_embed_ask *a,
                     fy_bad_ask *b)
{
    bool one = !json_is_array(list);
    const json_t *item;
    size_t i;
    if (!one && json_array_size(list) == 0)
        return fy_bad(b, param, "is an empty list, expected a text or a list of texts");
    json_array_foreach(list, i, item)
    {
        one |= json_is_integer(item);
    }
    const size_t n = one ? 1 : json_array_size(list);
    if (n > TEXTS_MAX)
        return fy_bad(b, param, "%zu texts, expected at most %d", n, TEXTS_MAX);
    a->texts = calloc(n, sizeof *a->texts);
    if (a->texts == NULL)
        return fy_nomem(&b->e);
    if (one)
        return add_text(v, list, param, a, b);
    json_array_foreach(list, i, item)
    {
        if (add_text(v, item, param, a, b) != 0)
            return -1;
    }
    return 0;
}

static const fy_member members[] = {
    {"embd_normalize", FY_MEMBER_I32, offsetof(fy_embed_ask, normalize), -1, NORMALIZE_MAX},
    {"dimensions", FY_MEMBER_I32, offsetof(fy_embed_ask, dimensions), 1, INT32_MAX},
    {.name = NULL}};

int fy_embed_read(const fy_served *v, const json_t *o, fy_embed_ask *a, fy_bad_ask *b)
{
    const json_t *text = json_object_get(o, "input"), *form = json_object_get(o, "encoding_format");
    const json_t *content = json_object_get(o, "content");
    *a = (fy_embed_ask){.normalize = 2};
    a->is_content = (text == NULL || json_is_null(text)) && content != NULL;
    if (a->is_content)
        text = content;
    if (text == NULL || json_is_null(text))
        return fy_bad(b, "input", "is missing, expected a text or a list of texts");
    if (fy_members_read(o, members, a, b) != 0)
        return -1;
    if (a->dimensions > 0 && (uint32_t)a->dimensions != v->n_embd)
        return fy_bad(b, "dimensions", "found %d, the model has %u, and they cannot be reduced",
                      a->dimensions, v->n_embd);
    if (form != NULL && !json_is_null(form)) {
        const char *name = json_is_string(form) ? json_string_value(form) : "";
        a->base64 = strcmp(name, "base64") == 0;
        if (!a->base64 && strcmp(name, "float") != 0)
            return fy_bad(b, "encoding_format", "expected \"float\" or \"base64\"");
    }
    return add_texts(v, text, a->is_content ? "content" : "input", a, b);
}

void fy_embed_ask_release(fy_embed_ask *a)
{
    for (size_t i = 0; i < a->n_texts; i++)
        fy_ids_release(&a->texts[i]);
    free(a->texts);
    *a = (fy_embed_ask){0};
}

/* Takes the texts of `a`. */
static embed *embed_new(fy_exchange *x, fy_embed_ask *a, fy_embed_form form, fy_err *e)
{
    embed *m = calloc(1, sizeof *m);
    input *inputs = calloc(a->n_texts, sizeof *inputs);
    if (m == NULL || inputs == NULL) {
        free(m);
        free(inputs);
        fy_nomem(e);
        return NULL;
    }
    *m = (embed){.x = x,
                 .server = x->server,
                 .inputs = inputs,
                 .n_inputs = a->n_texts,
                 .form = a->is_content && form == FY_EMBED_OPENAI ? FY_EMBED_LLAMA : form,
                 .base64 = a->base64,
                 .normalize = a->normalize};
    for (size_t i = 0; i < a->n_texts; i++) {
        inputs[i] = (input){.of = m,
                            .task = {.calls = &calls,
                                     .ids = a->texts[i],
                                     .n_prompt = (uint32_t)a->texts[i].n,
                                     .want_from = FY_NO_LOGITS,
                                     .slot = -1,
                                     .user = x->user}};
        a->texts[i] = (fy_ids){0};
    }
    return m;
}

/* From here on it is the engine's, or answered. */
static void submit(embed *m)
{
    fy_err e = {0};
    fy_seq_task **tasks = calloc(m->n_inputs, sizeof *tasks);
    int rc = tasks == NULL ? fy_nomem(&e) : 0;
    for (size_t i = 0; rc == 0 && i < m->n_inputs; i++)
        tasks[i] = &m->inputs[i].task;
    if (rc == 0)
        rc = fy_schedule_submit(m->server->schedule, tasks, m->n_inputs, &e);
    free(tasks);
    if (rc == 0)
        return;
    const int status = e.code == FY_EFIT ? 429 : e.code == FY_EINTR ? 503 : 500;
    atomic_fetch_add(&m->server->metrics.refused_queue, status == 429);
    fy_reply_error(m->x, &(fy_api_refusal){.status = status, .retry_after_s = 1}, e.msg);
    embed_free(m);
}

void fy_embed_handle(fy_exchange *x, json_t *o, fy_embed_form form)
{
    fy_bad_ask b = {0};
    fy_embed_ask a;
    embed *m = NULL;
    if (!fy_session_has_norm(x->server->served.session)) {
        json_decref(o);
        fy_reply_error(x, &(fy_api_refusal){.status = 501},
                       fy_model_n_chunks(x->server->served.model) > 0
                           ? "the graphs of this model compute its final norm: embeddings need the "
                             "whole model"
                           : "this model has several residual streams, of which ferry makes no "
                             "embeddings");
        return;
    }
    if (fy_embed_read(&x->server->served, o, &a, &b) == 0)
        m = embed_new(x, &a, form, &b.e);
    fy_embed_ask_release(&a);
    json_decref(o);
    if (m != NULL)
        submit(m);
    else
        fy_ask_refuse(x, NULL, &b);
}

static void handle(fy_exchange *x, fy_embed_form form)
{
    json_t *o = fy_body_read(x);
    if (o != NULL)
        fy_embed_handle(x, o, form);
}

void fy_handle_embeddings(fy_exchange *x)
{
    handle(x, FY_EMBED_OPENAI);
}

void fy_handle_embedding(fy_exchange *x)
{
    handle(x, FY_EMBED_LLAMA);
}
