/* POST /v1/messages and /v1/messages/count_tokens: Anthropic's API. A request is translated into
 * the members that the other APIs read; answers have Anthropic's blocks and events. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_tree.h"
#include "server/answer_parts.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"

/* --- requests --------------------------------------------------------------------------------- */

static const char *type_of(const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    return type != NULL ? type : "";
}

/* {"role": role, "content": content} at the end of the list. */
static int add_message(json_t *list, const char *role, const json_t *content, fy_bad_ask *b)
{
    json_t *m = json_pack("{s:s, s:O?}", "role", role, "content", content);
    return json_array_append_new(list, m) != 0 ? fy_nomem(&b->e) : 0;
}

/* A result of a tool is a message of its own. */
static int add_result(json_t *list, const json_t *block, fy_bad_ask *b)
{
    const json_t *content = json_object_get(block, "content");
    json_t *none = content == NULL || json_is_null(content) ? json_string("") : NULL;
    int rc = add_message(list, "tool", none != NULL ? none : content, b);
    json_t *m = json_array_get(list, json_array_size(list) - 1);
    if (rc == 0 && json_object_set(m, "tool_call_id", json_object_get(block, "tool_use_id")) != 0)
        rc = fy_bad(b, "messages", "a tool_result has no tool_use_id");
    json_decref(none);
    return rc;
}

/* {"id", "type", "function": {"name", "arguments"}} of a tool_use block. */
static int add_call(json_t *calls, const json_t *block, fy_bad_ask *b)
{
    const json_t *name = json_object_get(block, "name"), *input = json_object_get(block, "input");
    if (!json_is_string(name) || !json_is_object(input))
        return fy_bad(b, "messages", "a tool_use needs a name and an input that is an object");
    json_t *call = json_pack("{s:O?, s:s, s:{s:O, s:O}}", "id", json_object_get(block, "id"),
                             "type", "function", "function", "name", name, "arguments", input);
    return json_array_append_new(calls, call) != 0 ? fy_nomem(&b->e) : 0;
}

/* The blocks of one message: texts stay together, results come before them, calls after. */
typedef struct {
    json_t *texts, *calls; /* owned */
    const json_t *thinking;
} blocks;

static int take_block(json_t *list, const json_t *block, blocks *k, fy_bad_ask *b)
{
    const char *type = type_of(block);
    if (strcmp(type, "text") == 0)
        return json_array_append(k->texts, (json_t *)(uintptr_t)block) != 0 ? fy_nomem(&b->e) : 0;
    if (strcmp(type, "tool_result") == 0)
        return add_result(list, block, b);
    if (strcmp(type, "tool_use") == 0)
        return add_call(k->calls, block, b);
    if (strcmp(type, "thinking") == 0) {
        k->thinking = json_object_get(block, "thinking");
        return 0;
    }
    if (strcmp(type, "redacted_thinking") == 0)
        return 0;
    return fy_bad(b, "messages",
                  "a block of type '%.40s': the model reads text, tool_use, "
                  "tool_result and thinking",
                  type);
}

static int add_blocks(json_t *list, const char *role, const json_t *content, fy_bad_ask *b)
{
    blocks k = {json_array(), json_array(), NULL};
    const json_t *block;
    size_t i;
    int rc = k.texts == NULL || k.calls == NULL ? fy_nomem(&b->e) : 0;
    json_array_foreach(content, i, block)
    {
        if (rc == 0)
            rc = take_block(list, block, &k, b);
    }
    const bool speaks = json_array_size(k.texts) > 0 || json_array_size(k.calls) > 0;
    if (rc == 0 && speaks)
        rc = add_message(list, role, k.texts, b);
    json_t *m = json_array_get(list, json_array_size(list) - 1);
    if (rc == 0 && json_array_size(k.calls) > 0 && json_object_set(m, "tool_calls", k.calls) != 0)
        rc = fy_nomem(&b->e);
    if (rc == 0 && speaks && json_is_string(k.thinking) &&
        json_object_set(m, "reasoning_content", (json_t *)(uintptr_t)k.thinking) != 0)
        rc = fy_nomem(&b->e);
    json_decref(k.texts);
    json_decref(k.calls);
    return rc;
}

static int add_messages(json_t *list, const json_t *o, fy_bad_ask *b)
{
    const json_t *messages = json_object_get(o, "messages"), *m;
    const json_t *system = json_object_get(o, "system");
    size_t i;
    int rc = 0;
    if (system != NULL && !json_is_null(system))
        rc = add_message(list, "system", system, b);
    if (rc == 0 && (!json_is_array(messages) || json_array_size(messages) == 0))
        return fy_bad(b, "messages", "expected a list of messages");
    json_array_foreach(messages, i, m)
    {
        const char *role = json_string_value(json_object_get(m, "role"));
        const json_t *content = json_object_get(m, "content");
        if (rc == 0 &&
            (role == NULL || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)))
            rc = fy_bad(b, "messages", "message %zu: the role is \"user\" or \"assistant\"", i);
        if (rc == 0)
            rc = json_is_array(content) ? add_blocks(list, role, content, b)
                                        : add_message(list, role, content, b);
    }
    return rc;
}

/* [{"name", "description", "input_schema"}] as OpenAI writes it. */
static int add_tools(json_t *q, const json_t *o, fy_bad_ask *b)
{
    const json_t *tools = json_object_get(o, "tools"), *t;
    json_t *list;
    size_t i;
    if (tools == NULL || json_is_null(tools))
        return 0;
    if (!json_is_array(tools))
        return fy_bad(b, "tools", "expected a list");
    list = json_array();
    json_array_foreach(tools, i, t)
    {
        const char *type = type_of(t);
        if (type[0] != '\0' && strcmp(type, "custom") != 0) {
            json_decref(list);
            return fy_bad(b, "tools",
                          "a tool of type '%.40s': only tools of the client are supported", type);
        }
        json_array_append_new(list, json_pack("{s:s, s:{s:O?, s:O?, s:O?}}", "type", "function",
                                              "function", "name", json_object_get(t, "name"),
                                              "description", json_object_get(t, "description"),
                                              "parameters", json_object_get(t, "input_schema")));
    }
    return json_array_size(list) != json_array_size(tools) ||
                   json_object_set_new(q, "tools", list) != 0
               ? fy_nomem(&b->e)
               : 0;
}

static int add_choice(json_t *q, const json_t *o, fy_bad_ask *b)
{
    const json_t *choice = json_object_get(o, "tool_choice");
    const char *type = type_of(choice);
    json_t *v = NULL;
    if (choice == NULL || json_is_null(choice))
        return 0;
    if (strcmp(type, "tool") == 0)
        v = json_pack("{s:s, s:{s:O?}}", "type", "function", "function", "name",
                      json_object_get(choice, "name"));
    else if (strcmp(type, "any") == 0)
        v = json_string("required");
    else if (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0)
        v = json_string(type);
    else
        return fy_bad(b, "tool_choice",
                      "expected the type \"auto\", \"any\", \"tool\" or \"none\"");
    int rc = json_object_set_new(q, "tool_choice", v);
    if (rc == 0 && json_is_true(json_object_get(choice, "disable_parallel_tool_use")))
        rc = json_object_set_new(q, "parallel_tool_calls", json_false());
    return rc != 0 ? fy_nomem(&b->e) : 0;
}

/* The request with the names of the other APIs; NULL: refused. */
static json_t *translate(const json_t *o, fy_bad_ask *b)
{
    static const char *const names[][2] = {
        {"max_tokens", "max_tokens"}, {"temperature", "temperature"},
        {"top_p", "top_p"},           {"top_k", "top_k"},
        {"stop_sequences", "stop"},   {"stream", "stream"},
        {"model", "model"},           {"seed", "seed"},
    };
    json_t *q = json_object(), *list = json_array();
    int rc = q == NULL || list == NULL ? fy_nomem(&b->e) : 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && rc == 0; i++) {
        json_t *v = json_object_get(o, names[i][0]);
        if (v != NULL && json_object_set(q, names[i][1], v) != 0)
            rc = fy_nomem(&b->e);
    }
    if (rc == 0)
        rc = add_messages(list, o, b);
    if (rc == 0 && json_object_set(q, "messages", list) != 0)
        rc = fy_nomem(&b->e);
    json_decref(list);
    if (rc == 0 && add_tools(q, o, b) == 0 && add_choice(q, o, b) == 0)
        return q;
    json_decref(q);
    return NULL;
}

/* --- answers ---------------------------------------------------------------------------------- */

typedef struct {
    fy_parts parts;
    fy_str opened; /* the end of the prompt that opens a section of thinking */
    bool begun, splits;
    fy_str *out; /* view: of the piece that is divided; NULL: nothing is shown */
    int kind;    /* of the open block, a fy_part; -1: none */
    size_t n_blocks;
} messages;

static void put_json_event(fy_str *out, const char *name, fy_str *json)
{
    if (json->oom)
        out->oom = true;
    else
        fy_sse_put(out, name, fy_str_view(json));
    fy_str_release(json);
}

/* {"type":"..._delta","...":text} */
static void put_delta(messages *h, const char *type, const char *key, fy_span text)
{
    fy_str json = {0};
    fy_str_printf(&json,
                  "{\"type\":\"content_block_delta\",\"index\":%zu,\"delta\":{\"type\":\"%s\",",
                  h->n_blocks - 1, type);
    fy_put_span(&json, key, text);
    fy_str_puts(&json, "}}");
    put_json_event(h->out, "content_block_delta", &json);
}

static void end_block(messages *h)
{
    fy_str json = {0};
    if (h->kind < 0)
        return;
    if (h->kind == FY_PART_THINKING)
        put_delta(h, "signature_delta", "signature", (fy_span){"", 0});
    fy_str_printf(&json, "{\"type\":\"content_block_stop\",\"index\":%zu}", h->n_blocks - 1);
    put_json_event(h->out, "content_block_stop", &json);
    h->kind = -1;
}

static void begin_block(messages *h, fy_part kind, const fy_answer_call *call)
{
    fy_str json = {0};
    if (h->kind == (int)kind && kind != FY_PART_CALL)
        return;
    end_block(h);
    h->kind = (int)kind;
    fy_str_printf(
        &json, "{\"type\":\"content_block_start\",\"index\":%zu,\"content_block\":", h->n_blocks++);
    if (kind == FY_PART_CALL) {
        fy_str_printf(&json, "{\"type\":\"tool_use\",\"id\":\"toolu_%s\",", call->id);
        fy_put_span(&json, "name", fy_str_view(&call->name));
        fy_str_puts(&json, ",\"input\":{}}}");
    } else {
        fy_str_puts(&json, kind == FY_PART_THINKING
                               ? "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}"
                               : "{\"type\":\"text\",\"text\":\"\"}}");
    }
    put_json_event(h->out, "content_block_start", &json);
}

static void on_part(void *user, fy_part what, size_t call, fy_span text)
{
    messages *h = user;
    if (h->out == NULL)
        return;
    switch (what) {
    case FY_PART_THINKING:
    case FY_PART_CONTENT:
        begin_block(h, what, NULL);
        put_delta(h, what == FY_PART_CONTENT ? "text_delta" : "thinking_delta",
                  what == FY_PART_CONTENT ? "text" : "thinking", text);
        return;
    case FY_PART_CALL:
        begin_block(h, what, &h->parts.calls[call]);
        return;
    case FY_PART_ARGUMENTS:
        put_delta(h, "input_json_delta", "partial_json", text);
        return;
    case FY_PART_CALL_END:
        end_block(h);
        return;
    }
}

static messages *divide(fy_answer *a, fy_span text, bool at_end, fy_str *out)
{
    fy_ask *k = a->ask;
    messages *h = k->state;
    int rc = 0;
    h->out = k->stream ? out : NULL;
    if (!h->begun)
        rc = fy_parts_begin(&h->parts, h->splits, fy_str_view(&h->opened), &k->tools, k->number,
                            NULL);
    h->begun = true;
    if (rc == 0)
        rc = fy_parts_add(&h->parts, text, on_part, h, NULL);
    if (rc == 0 && at_end)
        rc = fy_parts_end(&h->parts, on_part, h, NULL);
    out->oom |= rc != 0;
    return h;
}

static void put_stop(const fy_answer *a, fy_str *out)
{
    const messages *h = a->ask->state;
    const fy_span word = fy_stopping_word(a);
    const bool limit = a->end != FY_END_EOS && a->end != FY_END_WORD;
    fy_str_printf(out, "\"stop_reason\":\"%s\",",
                  limit                           ? "max_tokens"
                  : fy_parts_have_call(&h->parts) ? "tool_use"
                  : word.ptr != NULL              ? "stop_sequence"
                                                  : "end_turn");
    if (word.ptr != NULL)
        fy_put_span(out, "stop_sequence", word);
    else
        fy_str_puts(out, "\"stop_sequence\":null");
}

static void put_head(const fy_ask *k, fy_str *out)
{
    fy_str_printf(out, "\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",", k->id);
    fy_put_span(out, "model", fy_span_of(k->served->name));
}

static void put_usage(const fy_ask *k, fy_str *out)
{
    const fy_usage u = fy_ask_usage(k);
    fy_str_printf(out,
                  "\"usage\":{\"input_tokens\":%llu,\"cache_creation_input_tokens\":0,"
                  "\"cache_read_input_tokens\":%llu,\"output_tokens\":%llu}",
                  (unsigned long long)(u.prompt - u.cached), (unsigned long long)u.cached,
                  (unsigned long long)u.completion);
}

static bool is_object(const fy_str *s)
{
    json_t *v = fy_json_data(fy_str_view(s), NULL);
    const bool yes = json_is_object(v);
    json_decref(v);
    return yes;
}

static void put_blocks(const fy_parts *p, fy_str *out)
{
    const char *comma = "";
    if (p->thinking.len > 0) {
        fy_str_puts(out, "{\"type\":\"thinking\",");
        fy_put_span(out, "thinking", fy_str_view(&p->thinking));
        fy_str_puts(out, ",\"signature\":\"\"}");
        comma = ",";
    }
    if (p->content.len > 0 || p->n_calls == 0) {
        fy_str_printf(out, "%s{\"type\":\"text\",", comma);
        fy_put_span(out, "text", fy_str_view(&p->content));
        fy_str_putc(out, '}');
        comma = ",";
    }
    for (size_t i = 0; i < p->n_calls; i++, comma = ",") {
        const fy_answer_call *c = &p->calls[i];
        const bool whole = is_object(&c->arguments);
        fy_str_printf(out, "%s{\"type\":\"tool_use\",\"id\":\"toolu_%s\",", comma, c->id);
        fy_put_span(out, "name", fy_str_view(&c->name));
        fy_str_puts(out, ",\"input\":");
        fy_str_puts(out, whole ? fy_str_z(&c->arguments) : "{}"); /* one that was cut is not JSON */
        fy_str_putc(out, '}');
    }
}

static void whole(fy_ask *k, fy_str *out)
{
    fy_answer *a = &k->answers[0];
    const messages *h = divide(a, fy_str_view(&a->text), true, out);
    fy_str_putc(out, '{');
    put_head(k, out);
    fy_str_puts(out, ",\"content\":[");
    put_blocks(&h->parts, out);
    fy_str_puts(out, "],");
    put_stop(a, out);
    fy_str_putc(out, ',');
    put_usage(k, out);
    fy_str_putc(out, '}');
}

static void open_stream(fy_ask *k, fy_str *out)
{
    fy_str json = {0};
    fy_str_puts(&json, "{\"type\":\"message_start\",\"message\":{");
    put_head(k, &json);
    fy_str_puts(&json, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,");
    put_usage(k, &json);
    fy_str_puts(&json, "}}");
    put_json_event(out, "message_start", &json);
}

static void piece(fy_answer *a, fy_span text, size_t token, fy_str *out)
{
    (void)token;
    divide(a, text, false, out);
}

static void end(fy_answer *a, fy_str *out)
{
    fy_str json = {0};
    messages *h = divide(a, (fy_span){"", 0}, true, out);
    if (h->n_blocks == 0)
        begin_block(h, FY_PART_CONTENT, NULL); /* an answer without text is an empty one */
    end_block(h);
    fy_str_puts(&json, "{\"type\":\"message_delta\",\"delta\":{");
    put_stop(a, &json);
    fy_str_puts(&json, "},");
    put_usage(a->ask, &json);
    fy_str_putc(&json, '}');
    put_json_event(out, "message_delta", &json);
}

static void close_stream(fy_ask *k, fy_str *out)
{
    (void)k;
    fy_sse_put(out, "message_stop", FY_SPAN("{\"type\":\"message_stop\"}"));
}

void fy_put_messages_error(fy_str *out, const fy_api_refusal *r, const char *message)
{
    static const struct {
        int status;
        const char *type;
    } types[] = {{401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
                 {413, "request_too_large"},    {429, "rate_limit_error"}, {500, "api_error"},
                 {503, "overloaded_error"}};
    const char *type = "invalid_request_error";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].status == r->status)
            type = types[i].type;
    }
    fy_str_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type);
    fy_json_put_string(out, fy_span_of(message));
    fy_str_puts(out, "}}");
}

static void fail(fy_ask *k, const fy_api_refusal *r, const char *message, fy_str *out)
{
    fy_str json = {0};
    (void)k;
    fy_put_messages_error(&json, r, message);
    put_json_event(out, "error", &json);
}

static void release(fy_ask *k)
{
    messages *h = k->state;
    if (h == NULL)
        return;
    if (h->begun)
        fy_parts_release(&h->parts);
    fy_str_release(&h->opened);
    free(h);
}

static const fy_reply_form form = {.whole = whole,
                                   .open = open_stream,
                                   .piece = piece,
                                   .end = end,
                                   .close = close_stream,
                                   .fail = fail,
                                   .release = release};

/* --- handlers --------------------------------------------------------------------------------- */

static int read_messages(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    messages *h = k->state = calloc(1, sizeof *h);
    if (h == NULL)
        return fy_nomem(&b->e);
    h->kind = -1;
    h->splits = !k->served->no_think;
    k->shows_marks = true;
    if (!json_is_integer(json_object_get(o, "max_tokens")))
        return fy_bad(b, "max_tokens", "is missing, expected a whole number");
    json_t *q = translate(o, b);
    int rc = q == NULL                                                                     ? -1
             : fy_ask_read_common(k, q, b) != 0                                            ? -1
             : fy_read_tools(k->served, q, &k->tools, b) != 0 || fy_force_tools(k, b) != 0 ? -1
                                                                                           : 0;
    if (rc == 0 && k->n_predict < 1)
        rc = fy_bad(b, "max_tokens", "expected 1 or more");
    if (rc == 0)
        rc = fy_ask_read_conversation(k, q, &h->opened, b);
    json_decref(q);
    return rc;
}

void fy_handle_messages(fy_exchange *x)
{
    fy_ask_handle(x, &form, "msg_", read_messages);
}

void fy_handle_count_tokens(fy_exchange *x)
{
    fy_bad_ask b = {0};
    fy_str out = {0};
    size_t n = 0;
    json_t *o = fy_body_read(x);
    if (o == NULL)
        return;
    json_t *q = translate(o, &b);
    const int rc = q != NULL ? fy_count_conversation(&x->server->served, q, &n, &b) : -1;
    json_decref(q);
    json_decref(o);
    if (rc != 0) {
        fy_ask_refuse(x, NULL, &b);
        return;
    }
    fy_str_printf(&out, "{\"input_tokens\":%zu}", n);
    fy_reply_json(x, 200, &out);
}
