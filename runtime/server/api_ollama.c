/* Ollama's API: POST /api/chat, /api/generate, /api/embed and /api/embeddings, and what its clients
 * ask before: /api/tags, /api/show, /api/ps, /api/version. Requests are translated into the members
 * that the other APIs read. A stream, which is the default, is one JSON object per line. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/json_tree.h"
#include "base/process.h"
#include "server/answer_parts.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"

/* Clients switch features on by the version of Ollama: the one whose API this is. */
#define OLLAMA_VERSION "0.12.0"

static bool is_given(const json_t *v)
{
    return v != NULL && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_string(v) && json_string_length(v) == 0) &&
           !(json_is_array(v) && json_array_size(v) == 0);
}

/* --- messages --------------------------------------------------------------------------------- */

/* Calls and their results have no ids: they belong together by their order. */
typedef struct {
    unsigned n_calls, n_results;
} counts;

static json_t *call_id(unsigned n)
{
    char id[16];
    snprintf(id, sizeof id, "call%05u", n % 100000); /* nine letters, as Mistral's templates ask */
    return json_string(id);
}

static int fix_calls(json_t *m, counts *n, fy_bad_ask *b)
{
    const json_t *calls = json_object_get(m, "tool_calls"), *call;
    json_t *list = json_array();
    size_t i;
    json_array_foreach(calls, i, call)
    {
        const json_t *f = json_object_get(call, "function");
        if (!json_is_string(json_object_get(f, "name")))
            fy_bad(b, "tool_calls", "call %zu has no function with a name", i);
        json_t *given = json_object_get(call, "id");
        json_t *id = json_is_string(given) ? json_incref(given) : call_id(n->n_calls);
        n->n_calls++;
        json_array_append_new(
            list, json_pack("{s:o, s:s, s:O?}", "id", id, "type", "function", "function", f));
    }
    const bool whole = json_array_size(list) == json_array_size(calls);
    const int rc = json_object_set_new(m, "tool_calls", list);
    return b->e.code != FY_OK ? -1 : rc == 0 && whole ? 0 : fy_nomem(&b->e);
}

/* "thinking" and "tool_name" have other names with us. */
static int fix_message(json_t *m, counts *n, fy_bad_ask *b)
{
    const char *role = fy_member_word(m, "role");
    json_t *thinking = json_object_get(m, "thinking"), *name = json_object_get(m, "tool_name");
    int rc = 0;
    if (is_given(json_object_get(m, "images")))
        return fy_bad(b, "images", "the model reads text only");
    if (json_is_string(thinking))
        rc |= json_object_set(m, "reasoning_content", thinking);
    if (json_is_string(name))
        rc |= json_object_set(m, "name", name);
    if (strcmp(role, "tool") == 0 && !json_is_string(json_object_get(m, "tool_call_id")))
        rc |= json_object_set_new(m, "tool_call_id", call_id(n->n_results));
    n->n_results += strcmp(role, "tool") == 0;
    if (rc != 0)
        return fy_nomem(&b->e);
    return is_given(json_object_get(m, "tool_calls")) ? fix_calls(m, n, b) : 0;
}

static int take_messages(json_t *q, const json_t *o, fy_bad_ask *b)
{
    const json_t *messages = json_object_get(o, "messages"), *m;
    json_t *list = json_array();
    counts n = {0};
    size_t i;
    if (json_object_set_new(q, "messages", list) != 0)
        return fy_nomem(&b->e);
    if (!json_is_array(messages))
        return fy_bad(b, "messages", "found %s, expected a list of messages",
                      fy_json_type_name(messages));
    json_array_foreach(messages, i, m)
    {
        json_t *copy = json_copy((json_t *)(uintptr_t)m);
        if (json_array_append_new(list, copy) != 0)
            return fy_nomem(&b->e);
        if (json_is_object(copy) && fix_message(copy, &n, b) != 0)
            return -1;
    }
    return 0;
}

/* The conversation that a prompt is, unless it is raw. */
static int take_prompt(json_t *q, const json_t *o, fy_bad_ask *b)
{
    json_t *prompt = json_object_get(o, "prompt"), *system = json_object_get(o, "system");
    json_t *list = json_array();
    int rc = json_object_set_new(q, "messages", list);
    if (!json_is_string(prompt))
        return fy_bad(b, "prompt", "found %s, expected a string", fy_json_type_name(prompt));
    if (is_given(system) && !json_is_string(system))
        return fy_bad(b, "system", "found %s, expected a string", fy_json_type_name(system));
    if (is_given(system))
        rc |= json_array_append_new(list,
                                    json_pack("{s:s, s:O}", "role", "system", "content", system));
    rc |= json_array_append_new(list, json_pack("{s:s, s:O}", "role", "user", "content", prompt));
    return rc != 0 ? fy_nomem(&b->e) : 0;
}

/* --- options ---------------------------------------------------------------------------------- */

/* false and true switch thinking by the variable that templates have for it; a word is its effort.
 */
static int take_think(json_t *q, const json_t *o, fy_bad_ask *b)
{
    json_t *think = json_object_get(o, "think");
    if (think == NULL || json_is_null(think))
        return 0;
    if (!json_is_boolean(think) && !json_is_string(think))
        return fy_bad(b, "think", "found %s, expected true, false, or a word",
                      fy_json_type_name(think));
    json_t *args = json_pack("{s:b}", "enable_thinking", !json_is_false(think));
    int rc = json_object_set_new(q, "chat_template_kwargs", args);
    if (json_is_string(think))
        rc |= json_object_set(q, "reasoning_effort", think);
    return rc != 0 ? fy_nomem(&b->e) : 0;
}

static int take_options(const fy_served *v, json_t *q, const json_t *o, fy_bad_ask *b)
{
    static const char *const names[] = {"temperature",    "top_k",
                                        "top_p",          "min_p",
                                        "typical_p",      "seed",
                                        "stop",           "repeat_last_n",
                                        "repeat_penalty", "presence_penalty",
                                        "mirostat",       "frequency_penalty"};
    const json_t *options = json_object_get(o, "options");
    const json_t *limit = json_object_get(options, "num_predict");
    const json_t *ctx = json_object_get(options, "num_ctx");
    int rc = 0;
    if (options != NULL && !json_is_null(options) && !json_is_object(options))
        return fy_bad(b, "options", "found %s, expected an object", fy_json_type_name(options));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(options, names[i]);
        rc |= value != NULL ? json_object_set(q, names[i], value) : 0;
    }
    if (is_given(limit) && !json_is_integer(limit))
        return fy_bad(b, "num_predict", "found %s, expected a whole number",
                      fy_json_type_name(limit));
    if (json_is_integer(limit)) { /* -2: until the context is full, which is what -1 does here */
        const json_int_t n = json_integer_value(limit);
        rc |= json_object_set_new(q, "n_predict", json_integer(n == -2 ? -1 : n));
    }
    if (is_given(ctx) && !json_is_integer(ctx))
        return fy_bad(b, "num_ctx", "found %s, expected a whole number", fy_json_type_name(ctx));
    if (json_is_integer(ctx) && json_integer_value(ctx) > (json_int_t)v->n_ctx)
        return fy_bad(b, "num_ctx", "found %lld, a slot has %u (ferry serve --ctx-size)",
                      (long long)json_integer_value(ctx), v->n_ctx);
    return rc != 0 ? fy_nomem(&b->e) : 0;
}

static int refuse_unsupported(const json_t *o, fy_bad_ask *b)
{
    static const char *const names[][2] = {
        {"images", "the model reads text only"},
        {"context", "send the conversation to /api/chat instead"},
        {"template", "the template is chosen when the server starts (--chat-template)"},
        {"logprobs", "this API gives no log probabilities: use /v1/chat/completions"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (is_given(json_object_get(o, names[i][0])))
            return fy_bad(b, names[i][0], "%s", names[i][1]);
    }
    return 0;
}

/* "format": "json", or a schema as it stands in the body. */
static int read_format(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    const json_t *format = json_object_get(o, "format");
    const fy_span body = {k->x->body.ptr, k->x->body.len};
    if (!is_given(format))
        return 0;
    if (json_is_string(format) && strcmp(json_string_value(format), "json") == 0)
        return fy_ask_take_schema(k, FY_SPAN("{\"type\":\"object\"}"), "format", b);
    if (!json_is_object(format))
        return fy_bad(b, "format", "expected \"json\" or a JSON schema");
    return fy_ask_take_schema(k, fy_member_text(body, "format", &b->e), "format", b);
}

/* The request with the names of the other APIs; NULL: refused. */
static json_t *translate(const fy_served *v, const json_t *o, bool is_chat, fy_bad_ask *b)
{
    static const char *const kept[] = {"stream", "tools", "model"};
    json_t *q = json_object();
    int rc = q == NULL ? fy_nomem(&b->e) : refuse_unsupported(o, b);
    for (size_t i = 0; i < sizeof kept / sizeof *kept && rc == 0; i++) {
        json_t *value = json_object_get(o, kept[i]);
        if (value != NULL && json_object_set(q, kept[i], value) != 0)
            rc = fy_nomem(&b->e);
    }
    if (rc == 0 && take_options(v, q, o, b) == 0 && take_think(q, o, b) == 0 &&
        (is_chat ? take_messages(q, o, b) : take_prompt(q, o, b)) == 0)
        return q;
    json_decref(q);
    return NULL;
}

/* --- answers ---------------------------------------------------------------------------------- */

typedef struct {
    fy_parts parts;
    fy_str opened; /* the end of the prompt that opens a section of thinking */
    bool begun, splits, is_chat, failed;
    fy_str thinking, text; /* of the piece that is divided */
    fy_str calls;          /* items of "tool_calls" that ended in it */
} ollama;

/* A whole call, as an item of "tool_calls"; left out when its arguments are not an object. */
static void put_call(ollama *h, size_t i)
{
    const fy_answer_call *call = &h->parts.calls[i];
    json_t *arguments = fy_json_data(fy_str_view(&call->arguments), NULL);
    if (json_is_object(arguments)) {
        fy_str_printf(&h->calls, "%s{\"id\":\"call_%s\",\"function\":{\"index\":%zu,",
                      h->calls.len > 0 ? "," : "", call->id, i);
        fy_put_span(&h->calls, "name", fy_str_view(&call->name));
        fy_str_puts(&h->calls, ",\"arguments\":");
        char *text = json_dumps(arguments, JSON_COMPACT | JSON_REAL_PRECISION(17)); /* one line */
        fy_str_puts(&h->calls, text != NULL ? text : "{}");
        h->failed |= text == NULL;
        free(text);
        fy_str_puts(&h->calls, "}}");
    }
    json_decref(arguments);
}

static void on_part(void *user, fy_part what, size_t call, fy_span text)
{
    ollama *h = user;
    if (what == FY_PART_THINKING || what == FY_PART_CONTENT)
        fy_str_add(what == FY_PART_THINKING ? &h->thinking : &h->text, text.ptr, text.len);
    else if (what == FY_PART_CALL_END)
        put_call(h, call);
}

static ollama *divide(fy_answer *a, fy_span text, bool at_end)
{
    const fy_ask *k = a->ask;
    ollama *h = k->state;
    int rc = 0;
    if (!h->begun)
        rc = fy_parts_begin(&h->parts, h->splits, fy_str_view(&h->opened), &k->tools, k->number,
                            NULL);
    h->begun = true;
    fy_str_clear(&h->thinking);
    fy_str_clear(&h->text);
    fy_str_clear(&h->calls);
    if (rc == 0)
        rc = fy_parts_add(&h->parts, text, on_part, h, NULL);
    if (rc == 0 && at_end)
        rc = fy_parts_end(&h->parts, on_part, h, NULL);
    h->failed |= rc != 0 || h->thinking.oom || h->text.oom || h->calls.oom;
    return h;
}

static void put_time(fy_str *out, const char *key, time_t s, long ns)
{
    struct tm tm;
    char text[32];
    gmtime_r(&s, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    fy_str_printf(out, "\"%s\":\"%s.%06ldZ\"", key, text, ns / 1000);
}

/* {"model":...,"created_at":..., */
static void put_head(const char *model, fy_str *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    fy_str_putc(out, '{');
    fy_put_span(out, "model", fy_span_of(model));
    fy_str_putc(out, ',');
    put_time(out, "created_at", now.tv_sec, now.tv_nsec);
    fy_str_putc(out, ',');
}

/* What came with the last piece. */
static void put_text(const ollama *h, fy_str *out)
{
    fy_str_puts(out, h->is_chat ? "\"message\":{\"role\":\"assistant\"," : "");
    fy_put_span(out, h->is_chat ? "content" : "response", fy_str_view(&h->text));
    if (h->thinking.len > 0) {
        fy_str_putc(out, ',');
        fy_put_span(out, "thinking", fy_str_view(&h->thinking));
    }
    if (h->calls.len > 0)
        fy_str_printf(out, ",\"tool_calls\":[%s]", fy_str_z(&h->calls));
    fy_str_puts(out, h->is_chat ? "}" : "");
}

static unsigned long long ns(double from, double to)
{
    return to > from ? (unsigned long long)((to - from) * 1e9) : 0;
}

static void put_end(const fy_answer *a, fy_str *out)
{
    const fy_seq_task *t = &a->task;
    fy_str_printf(out,
                  ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%llu,"
                  "\"load_duration\":0,\"prompt_eval_count\":%u,\"prompt_eval_duration\":%llu,"
                  "\"eval_count\":%u,\"eval_duration\":%llu}",
                  fy_finish_reason(a), ns(a->ask->x->begun_s, fy_now_s()), t->n_prompt,
                  ns(t->begun_s, t->prompted_s), a->n_generated, ns(t->prompted_s, a->last_s));
}

static void whole(fy_ask *k, fy_str *out)
{
    fy_answer *a = &k->answers[0];
    const ollama *h = divide(a, fy_str_view(&a->text), true);
    put_head(k->served->name, out);
    put_text(h, out);
    put_end(a, out);
    out->oom |= h->failed;
}

/* A line, when something has come. */
static void put_line(fy_answer *a, fy_span text, bool at_end, fy_str *out)
{
    const ollama *h = divide(a, text, at_end);
    out->oom |= h->failed;
    if (h->text.len + h->thinking.len + h->calls.len == 0)
        return;
    put_head(a->ask->served->name, out);
    put_text(h, out);
    fy_str_puts(out, ",\"done\":false}\n");
}

static void piece(fy_answer *a, fy_span text, size_t token, fy_str *out)
{
    (void)token;
    put_line(a, text, false, out);
}

static void end(fy_answer *a, fy_str *out)
{
    const ollama empty = {.is_chat = ((ollama *)a->ask->state)->is_chat};
    put_line(a, (fy_span){"", 0}, true, out);
    put_head(a->ask->served->name, out);
    put_text(&empty, out);
    put_end(a, out);
    fy_str_putc(out, '\n');
}

void fy_put_ollama_error(fy_str *out, const fy_api_refusal *r, const char *message)
{
    (void)r;
    fy_str_putc(out, '{');
    fy_put_span(out, "error", fy_span_of(message));
    fy_str_putc(out, '}');
}

static void fail(fy_ask *k, const fy_api_refusal *r, const char *message, fy_str *out)
{
    (void)k;
    fy_put_ollama_error(out, r, message);
    fy_str_putc(out, '\n');
}

static void release(fy_ask *k)
{
    ollama *h = k->state;
    if (h == NULL)
        return;
    if (h->begun)
        fy_parts_release(&h->parts);
    fy_str_release(&h->opened);
    fy_str_release(&h->thinking);
    fy_str_release(&h->text);
    fy_str_release(&h->calls);
    free(h);
}

const fy_reply_form fy_ollama_form = {.stream_type = "application/x-ndjson",
                                      .whole = whole,
                                      .piece = piece,
                                      .end = end,
                                      .fail = fail,
                                      .release = release};

/* --- handlers for texts ----------------------------------------------------------------------- */

static int read_ask(fy_ask *k, const json_t *o, bool is_chat, fy_bad_ask *b)
{
    const json_t *raw = json_object_get(o, "raw");
    ollama *h = k->state = calloc(1, sizeof *h);
    if (h == NULL)
        return fy_nomem(&b->e);
    if (is_given(raw) && !json_is_boolean(raw))
        return fy_bad(b, "raw", "found %s, expected true or false", fy_json_type_name(raw));
    const bool converses = is_chat || !json_is_true(raw);
    h->is_chat = is_chat;
    h->splits = converses && !k->served->no_think;
    k->shows_marks = converses;
    k->stream = true; /* unless the request says otherwise */
    json_t *q = translate(k->served, o, is_chat, b);
    int rc = q != NULL && fy_ask_read_common(k, q, b) == 0 ? read_format(k, o, b) : -1;
    if (rc == 0 && is_chat)
        rc = fy_read_tools(k->served, q, &k->tools, b);
    if (rc == 0)
        rc = converses ? fy_ask_read_conversation(k, q, &h->opened, b)
                       : fy_ask_read_prompts(k, json_object_get(o, "prompt"), "prompt", b);
    json_decref(q);
    return rc;
}

int fy_ollama_read_chat(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    return read_ask(k, o, true, b);
}

int fy_ollama_read_generate(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    return read_ask(k, o, false, b);
}

/* A request without a text only has the model loaded, which it is. */
static void answer_load(fy_exchange *x, const json_t *o, bool is_chat)
{
    const ollama empty = {.is_chat = is_chat};
    const json_t *keep = json_object_get(o, "keep_alive");
    const bool ends = json_is_number(keep) && json_number_value(keep) == 0;
    fy_str out = {0};
    put_head(x->server->served.name, &out);
    put_text(&empty, &out);
    fy_str_printf(&out, ",\"done\":true,\"done_reason\":\"%s\"}", ends ? "unload" : "load");
    fy_reply_json(x, 200, &out);
}

static void handle(fy_exchange *x, bool is_chat)
{
    json_t *o = fy_body_read(x);
    if (o == NULL)
        return;
    const json_t *text = json_object_get(o, is_chat ? "messages" : "prompt");
    if (text == NULL || json_is_null(text) ||
        (json_is_string(text) && json_string_length(text) == 0) ||
        (json_is_array(text) && json_array_size(text) == 0)) {
        answer_load(x, o, is_chat);
        json_decref(o);
    } else {
        fy_ask_handle_body(x, o, &fy_ollama_form, "ollama_",
                           is_chat ? fy_ollama_read_chat : fy_ollama_read_generate);
    }
}

void fy_handle_ollama_chat(fy_exchange *x)
{
    handle(x, true);
}

void fy_handle_ollama_generate(fy_exchange *x)
{
    handle(x, false);
}

/* --- embeddings ------------------------------------------------------------------------------- */

/* The request with OpenAI's names: of length 1, but as they are in the older form. NULL: refused.
 */
static json_t *translate_embed(const fy_served *v, const json_t *o, bool old, fy_bad_ask *b)
{
    json_t *input = json_object_get(o, old ? "prompt" : "input");
    json_t *dimensions = json_object_get(o, "dimensions");
    json_t *q = json_pack("{s:O, s:i}", "input", input, "embd_normalize", old ? -1 : 2);
    int rc = q == NULL ? fy_nomem(&b->e) : 0;
    if (rc == 0 && (old ? !json_is_string(input) : !json_is_string(input) && !json_is_array(input)))
        rc = fy_bad(b, old ? "prompt" : "input", "found %s, expected %s", fy_json_type_name(input),
                    old ? "a string" : "a string or a list of strings");
    if (rc == 0 && dimensions != NULL && json_object_set(q, "dimensions", dimensions) != 0)
        rc = fy_nomem(&b->e);
    if (rc == 0 && take_options(v, q, o, b) == 0)
        return q;
    json_decref(q);
    return NULL;
}

static void handle_embed(fy_exchange *x, bool old)
{
    fy_bad_ask b = {0};
    json_t *o = fy_body_read(x);
    if (o == NULL)
        return;
    if (!is_given(json_object_get(o, old ? "prompt" : "input"))) { /* it only loads the model */
        fy_str out = {0};
        fy_str_putc(&out, '{');
        if (!old) {
            fy_put_span(&out, "model", fy_span_of(x->server->served.name));
            fy_str_putc(&out, ',');
        }
        fy_str_puts(&out, old ? "\"embedding\":[]}" : "\"embeddings\":[]}");
        json_decref(o);
        fy_reply_json(x, 200, &out);
        return;
    }
    json_t *q = translate_embed(&x->server->served, o, old, &b);
    json_decref(o);
    if (q != NULL)
        fy_embed_handle(x, q, old ? FY_EMBED_OLLAMA_OLD : FY_EMBED_OLLAMA);
    else
        fy_ask_refuse(x, NULL, &b);
}

void fy_handle_ollama_embed(fy_exchange *x)
{
    handle_embed(x, false);
}

void fy_handle_ollama_embeddings(fy_exchange *x)
{
    handle_embed(x, true);
}

/* --- what it tells of the model (network thread) ---------------------------------------------- */

/* The type that most bytes of the model have: "Q4_0". */
static void put_quantization(const fy_gguf *g, fy_str *out)
{
    uint64_t bytes[FY_TYPE_COUNT] = {0};
    fy_type most = FY_F32;
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        bytes[t->type] += t->bytes;
        most = bytes[t->type] > bytes[most] ? t->type : most;
    }
    for (const char *c = fy_type_name(most); *c != '\0'; c++)
        fy_str_putc(out, (char)toupper((unsigned char)*c));
}

static void put_details(const fy_served *v, fy_str *out)
{
    const char *arch = fy_model_family(v->model)->gguf_arch;
    const double n = (double)v->n_params;
    fy_str_printf(out,
                  "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":\"%s\","
                  "\"families\":[\"%s\"],",
                  arch, arch);
    fy_str_printf(out, n < 1e9 ? "\"parameter_size\":\"%.2fM\"" : "\"parameter_size\":\"%.1fB\"",
                  n < 1e9 ? n / 1e6 : n / 1e9);
    fy_str_puts(out, ",\"quantization_level\":\"");
    put_quantization(fy_model_gguf(v->model), out);
    fy_str_puts(out, "\"}");
}

/* {"models":[...]}; running: of /api/ps. */
static void answer_models(fy_exchange *x, bool running)
{
    const fy_server *s = x->server;
    const fy_served *v = &s->served;
    fy_str out = {0};
    fy_str_puts(&out, "{\"models\":[{");
    fy_put_span(&out, "name", fy_span_of(v->name));
    fy_str_putc(&out, ',');
    fy_put_span(&out, "model", fy_span_of(v->name));
    fy_str_printf(&out, ",\"size\":%llu,\"digest\":\"%s\",", (unsigned long long)v->size_bytes,
                  v->fingerprint);
    put_details(v, &out);
    fy_str_putc(&out, ',');
    if (running)
        fy_str_printf(&out, "\"size_vram\":0,\"context_length\":%u,", v->n_ctx);
    /* It stays until the server ends: a time far away. */
    put_time(&out, running ? "expires_at" : "modified_at",
             running ? (time_t)4102444800 : (time_t)s->start_time, 0);
    fy_str_puts(&out, "}]}");
    fy_reply_json(x, 200, &out);
}

void fy_handle_ollama_tags(fy_exchange *x)
{
    answer_models(x, false);
}

void fy_handle_ollama_ps(fy_exchange *x)
{
    answer_models(x, true);
}

void fy_handle_ollama_version(fy_exchange *x)
{
    const fy_span text =
        FY_SPAN("{\"version\":\"" OLLAMA_VERSION "\",\"server\":\"ferry " FERRY_VERSION "\"}");
    fy_reply(x, 200, "application/json; charset=utf-8", text);
}

void fy_handle_ollama_show(fy_exchange *x)
{
    const fy_server *s = x->server;
    const fy_served *v = &s->served;
    const fy_hparams *hp = fy_model_hparams(v->model);
    const char *arch = fy_model_family(v->model)->gguf_arch;
    const fy_span template = v->chat != NULL ? fy_chat_template_text(v->chat, false) : FY_SPAN("");
    const fy_span with_tools = v->chat != NULL ? fy_chat_template_text(v->chat, true) : FY_SPAN("");
    fy_str out = {0};
    fy_str_puts(&out, "{\"modelfile\":\"\",\"parameters\":\"\",");
    fy_put_span(&out, "template", template);
    fy_str_putc(&out, ',');
    put_details(v, &out);
    fy_str_printf(&out,
                  ",\"model_info\":{\"general.architecture\":\"%s\","
                  "\"general.parameter_count\":%llu,\"%s.context_length\":%u,"
                  "\"%s.embedding_length\":%u,\"%s.block_count\":%u},\"capabilities\":["
                  "\"completion\"%s%s],",
                  arch, (unsigned long long)v->n_params, arch, hp->n_ctx_train, arch, hp->n_embd,
                  arch, hp->n_layer, v->chat != NULL ? ",\"tools\"" : "",
                  memmem(with_tools.ptr, with_tools.len, "think", 5) != NULL ? ",\"thinking\""
                                                                             : "");
    put_time(&out, "modified_at", (time_t)s->start_time, 0);
    fy_str_putc(&out, '}');
    fy_reply_json(x, 200, &out);
}
