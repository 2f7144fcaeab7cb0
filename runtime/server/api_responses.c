/* POST /v1/responses and /v1/responses/input_tokens: OpenAI's newer API. Nothing is stored: a
 * request has the whole conversation. It is translated into the members that the other APIs read;
 * an answer is a list of items (reasoning, message, function_call), a stream their events. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "server/answer_parts.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"

/* --- requests --------------------------------------------------------------------------------- */

static bool is_given(const json_t *v)
{
    return v != NULL && !json_is_null(v) && !json_is_false(v);
}

/* A message at the end of the list; takes it. */
static int add_message(json_t *list, json_t *m, fy_bad_ask *b)
{
    return json_array_append_new(list, m) != 0 ? fy_nomem(&b->e) : 0;
}

/* The conversation as it is translated. What an assistant thinks, says and calls is one message. */
typedef struct {
    json_t *list;      /* owned */
    json_t *assistant; /* view: the message that such items join; NULL: the next begins one */
    json_t *thinking;  /* owned: of the next assistant's message; NULL: none */
} conversation;

static int begin_assistant(conversation *c, fy_bad_ask *b)
{
    if (c->assistant != NULL)
        return 0;
    c->assistant = json_pack("{s:s, s:n, s:O*}", "role", "assistant", "content",
                             "reasoning_content", c->thinking);
    json_decref(c->thinking);
    c->thinking = NULL;
    return add_message(c->list, c->assistant, b);
}

static int take_message(conversation *c, const json_t *item, size_t i, fy_bad_ask *b)
{
    const char *role = fy_member_word(item, "role");
    json_t *content = json_object_get(item, "content");
    if (strcmp(role, "user") != 0 && strcmp(role, "system") != 0 &&
        strcmp(role, "developer") != 0 && strcmp(role, "assistant") != 0)
        return fy_bad(b, "input",
                      "item %zu: the role is \"user\", \"assistant\", \"system\" or \"developer\"",
                      i);
    if (!json_is_string(content) && !json_is_array(content))
        return fy_bad(b, "input",
                      "item %zu: the content is %s, expected a string or a list of parts", i,
                      content != NULL ? fy_json_type_name(content) : "missing");
    if (role[0] != 'a') {
        c->assistant = NULL;
        return add_message(c->list, json_pack("{s:s, s:O}", "role", role, "content", content), b);
    }
    if (c->assistant != NULL && !json_is_null(json_object_get(c->assistant, "content")))
        c->assistant = NULL; /* two texts */
    if (begin_assistant(c, b) != 0)
        return -1;
    return json_object_set(c->assistant, "content", content) != 0 ? fy_nomem(&b->e) : 0;
}

static int take_call(conversation *c, const json_t *item, size_t i, fy_bad_ask *b)
{
    json_t *name = json_object_get(item, "name"), *arguments = json_object_get(item, "arguments");
    json_t *id = json_object_get(item, "call_id");
    if (!json_is_string(name) || !json_is_string(arguments) || !json_is_string(id))
        return fy_bad(b, "input",
                      "item %zu: a function_call needs call_id, name and arguments, each a string",
                      i);
    if (begin_assistant(c, b) != 0)
        return -1;
    json_t *calls = json_object_get(c->assistant, "tool_calls");
    if (calls == NULL) {
        calls = json_array();
        if (json_object_set_new(c->assistant, "tool_calls", calls) != 0)
            return fy_nomem(&b->e);
    }
    return add_message(calls,
                       json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function",
                                 "function", "name", name, "arguments", arguments),
                       b);
}

static int take_output(conversation *c, const json_t *item, size_t i, fy_bad_ask *b)
{
    json_t *id = json_object_get(item, "call_id"), *output = json_object_get(item, "output");
    if (!json_is_string(id) || !(json_is_string(output) || json_is_array(output)))
        return fy_bad(b, "input",
                      "item %zu: a function_call_output needs a call_id and an output that is a "
                      "string or a list of parts",
                      i);
    c->assistant = NULL;
    return add_message(
        c->list,
        json_pack("{s:s, s:O, s:O}", "role", "tool", "tool_call_id", id, "content", output), b);
}

static int take_reasoning(conversation *c, const json_t *item, fy_bad_ask *b)
{
    const json_t *content = json_object_get(item, "content"), *part;
    fy_str text = {0};
    size_t i;
    json_array_foreach(content, i, part)
    {
        fy_str_puts(&text, fy_member_word(part, "text"));
    }
    json_decref(c->thinking);
    c->thinking = text.len > 0 ? json_stringn(fy_str_z(&text), text.len) : NULL;
    c->assistant = NULL;
    const bool failed = text.oom || (text.len > 0 && c->thinking == NULL);
    fy_str_release(&text);
    return failed ? fy_nomem(&b->e) : 0;
}

static int take_item(conversation *c, const json_t *item, size_t i, fy_bad_ask *b)
{
    const char *type = fy_member_word(item, "type");
    if (!json_is_object(item))
        return fy_bad(b, "input", "item %zu is %s, expected an object", i, fy_json_type_name(item));
    if (type[0] == '\0' || strcmp(type, "message") == 0)
        return take_message(c, item, i, b);
    if (strcmp(type, "function_call") == 0)
        return take_call(c, item, i, b);
    if (strcmp(type, "function_call_output") == 0)
        return take_output(c, item, i, b);
    if (strcmp(type, "reasoning") == 0)
        return take_reasoning(c, item, b);
    return fy_bad(b, "input",
                  "item %zu is of type '%.40s': the model reads message, function_call, "
                  "function_call_output and reasoning",
                  i, type);
}

static int take_input(json_t *q, const json_t *o, fy_bad_ask *b)
{
    json_t *input = json_object_get(o, "input"), *instructions = json_object_get(o, "instructions");
    conversation c = {.list = json_array()};
    const json_t *item;
    size_t i;
    int rc = json_object_set_new(q, "messages", c.list) != 0 ? fy_nomem(&b->e) : 0;
    if (rc == 0 && is_given(instructions) && !json_is_string(instructions))
        return fy_bad(b, "instructions", "found %s, expected a string",
                      fy_json_type_name(instructions));
    if (rc == 0 && json_is_string(instructions))
        rc = add_message(c.list, json_pack("{s:s, s:O}", "role", "system", "content", instructions),
                         b);
    if (rc == 0 && json_is_string(input))
        return add_message(c.list, json_pack("{s:s, s:O}", "role", "user", "content", input), b);
    if (rc == 0 && (!json_is_array(input) || json_array_size(input) == 0))
        return fy_bad(b, "input", "found %s, expected a string or a list of items",
                      input == NULL          ? "nothing"
                      : json_is_array(input) ? "an empty list"
                                             : fy_json_type_name(input));
    json_array_foreach(input, i, item)
    {
        if (rc == 0)
            rc = take_item(&c, item, i, b);
    }
    json_decref(c.thinking);
    return rc;
}

/* [{"type":"function","name",...}] as chat writes it. */
static int take_tools(json_t *q, const json_t *o, fy_bad_ask *b)
{
    const json_t *tools = json_object_get(o, "tools"), *t;
    json_t *choice = json_object_get(o, "tool_choice"), *list;
    size_t i;
    if (json_is_object(choice) && strcmp(fy_member_word(choice, "type"), "function") != 0)
        return fy_bad(
            b, "tool_choice",
            "expected \"none\", \"auto\", \"required\" or {\"type\":\"function\",\"name\":...}");
    if (json_is_object(choice))
        choice = json_pack("{s:s, s:{s:O?}}", "type", "function", "function", "name",
                           json_object_get(choice, "name"));
    else
        json_incref(choice);
    if (choice != NULL && json_object_set_new(q, "tool_choice", choice) != 0)
        return fy_nomem(&b->e);
    if (!is_given(tools))
        return 0;
    list = json_array();
    if (json_object_set_new(q, "tools", list) != 0)
        return fy_nomem(&b->e);
    if (!json_is_array(tools))
        return fy_bad(b, "tools", "found %s, expected a list", fy_json_type_name(tools));
    json_array_foreach(tools, i, t)
    {
        const char *type = fy_member_word(t, "type");
        if (strcmp(type, "function") != 0)
            return fy_bad(b, "tools",
                          "a tool of type '%.40s': only functions of the client are supported",
                          type);
        json_t *f = json_pack("{s:O?, s:O?, s:O?}", "name", json_object_get(t, "name"),
                              "description", json_object_get(t, "description"), "parameters",
                              json_object_get(t, "parameters"));
        if (add_message(list, json_pack("{s:s, s:o}", "type", "function", "function", f), b) != 0)
            return -1;
    }
    return 0;
}

/* What a server that keeps nothing, and a model that reads and writes texts, cannot do. */
static int refuse_unsupported(const json_t *o, fy_bad_ask *b)
{
    static const char *const names[][2] = {
        {"previous_response_id", "responses are not stored: send the whole conversation as input"},
        {"conversation", "conversations are not stored: send all of it as input"},
        {"background", "responses are not stored: wait for the answer, or stream it"},
        {"prompt", "there are no stored prompts"},
        {"top_logprobs", "this API gives no log probabilities: use /v1/chat/completions"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = json_object_get(o, names[i][0]);
        if (is_given(v) && !(json_is_integer(v) && json_integer_value(v) == 0))
            return fy_bad(b, names[i][0], "%s", names[i][1]);
    }
    return 0;
}

/* The request with the names of the other APIs; NULL: refused. */
static json_t *translate(const json_t *o, fy_bad_ask *b)
{
    static const char *const kept[] = {"temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "seed",
                                       "stop",
                                       "stream",
                                       "frequency_penalty",
                                       "logit_bias",
                                       "model",
                                       "ignore_eos",
                                       "presence_penalty",
                                       "cache_prompt",
                                       "id_slot",
                                       "repeat_penalty",
                                       "parallel_tool_calls",
                                       "chat_template_kwargs",
                                       "grammar"};
    json_t *q = json_object();
    json_t *limit = json_object_get(o, "max_output_tokens");
    json_t *effort = json_object_get(json_object_get(o, "reasoning"), "effort");
    int rc = q == NULL ? fy_nomem(&b->e) : refuse_unsupported(o, b);
    for (size_t i = 0; i < sizeof kept / sizeof *kept && rc == 0; i++) {
        json_t *v = json_object_get(o, kept[i]);
        if (v != NULL && json_object_set(q, kept[i], v) != 0)
            rc = fy_nomem(&b->e);
    }
    if (rc == 0 && is_given(limit) && (!json_is_integer(limit) || json_integer_value(limit) < 1))
        rc = fy_bad(b, "max_output_tokens", "expected a whole number, 1 or more");
    if (rc == 0 && ((limit != NULL && json_object_set(q, "max_tokens", limit) != 0) ||
                    (effort != NULL && json_object_set(q, "reasoning_effort", effort) != 0)))
        rc = fy_nomem(&b->e);
    if (rc == 0 && take_input(q, o, b) == 0 && take_tools(q, o, b) == 0)
        return q;
    json_decref(q);
    return NULL;
}

/* "text": {"format": ...}, read as it stands in the body. */
static int read_format(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    const json_t *text = json_object_get(o, "text"), *format = json_object_get(text, "format");
    const fy_span body = {k->x->body.ptr, k->x->body.len};
    if (is_given(text) && !json_is_object(text))
        return fy_bad(b, "text", "found %s, expected an object", fy_json_type_name(text));
    if (!is_given(format))
        return 0;
    if (k->grammar != NULL)
        return fy_bad(b, "text.format", "the request has a grammar, too: give one of them");
    const fy_span holder = fy_member_text(body, "text", &b->e);
    return fy_ask_read_format(k, format, fy_member_text(holder, "format", &b->e), "text.format", b);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* A part of the answer: where its text lies in the parts', or which call it is. */
typedef struct {
    fy_part kind;
    size_t begin, end, call;
} item;

typedef struct {
    fy_parts parts;
    fy_str opened; /* the end of the prompt that opens a section of thinking */
    fy_str echo;   /* owned: members of the request that the answer repeats */
    bool begun, splits, is_open, cut, failed;
    fy_str *out; /* view: of the piece that is divided; NULL: nothing is shown */
    item *items; /* owned */
    size_t n_items, cap_items;
    uint64_t seq; /* of the next event */
    uint32_t n_reasoning;
    const char *id; /* view: of the answer, without its prefix */
} response;

static fy_span text_of(const response *h, const item *it)
{
    const fy_str *s = it->kind == FY_PART_THINKING  ? &h->parts.thinking
                      : it->kind == FY_PART_CONTENT ? &h->parts.content
                                                    : &h->parts.calls[it->call].arguments;
    return (fy_span){fy_str_z(s) + it->begin, (it->end < s->len ? it->end : s->len) - it->begin};
}

static void put_item_id(const response *h, size_t i, fy_str *out)
{
    const fy_part kind = h->items[i].kind;
    fy_str_printf(out, "\"%s_%s_%zu\"",
                  kind == FY_PART_THINKING  ? "rs"
                  : kind == FY_PART_CONTENT ? "msg"
                                            : "fc",
                  h->id, i);
}

static void put_part(fy_part kind, fy_span text, fy_str *out)
{
    fy_str_puts(out, kind == FY_PART_THINKING ? "{\"type\":\"reasoning_text\","
                                              : "{\"type\":\"output_text\",\"annotations\":[],"
                                                "\"logprobs\":[],");
    fy_put_span(out, "text", text);
    fy_str_putc(out, '}');
}

/* An item; status NULL: it has just begun and is empty. */
static void put_item(const response *h, size_t i, const char *status, fy_str *out)
{
    const item *it = &h->items[i];
    const fy_span text = status != NULL ? text_of(h, it) : (fy_span){"", 0};
    fy_str_puts(out, "{\"id\":");
    put_item_id(h, i, out);
    fy_str_printf(out, ",\"status\":\"%s\",", status != NULL ? status : "in_progress");
    if (it->kind == FY_PART_CALL) {
        const fy_answer_call *call = &h->parts.calls[it->call];
        fy_str_printf(out, "\"type\":\"function_call\",\"call_id\":\"call_%s\",", call->id);
        fy_put_span(out, "name", fy_str_view(&call->name));
        fy_str_putc(out, ',');
        fy_put_span(out, "arguments", text);
    } else {
        fy_str_puts(out, it->kind == FY_PART_THINKING
                             ? "\"type\":\"reasoning\",\"summary\":[],"
                             : "\"type\":\"message\",\"role\":\"assistant\",");
        fy_str_puts(out, "\"content\":[");
        if (status != NULL)
            put_part(it->kind, text, out);
        fy_str_putc(out, ']');
    }
    fy_str_putc(out, '}');
}

/* --- events --- */

/* Appends the event that `rest` is the members of: "\"a\":1". Releases it. */
static void put_event(response *h, const char *name, fy_str *rest)
{
    fy_str json = {0};
    fy_str_printf(&json, "{\"type\":\"%s\",\"sequence_number\":%llu,%s}", name,
                  (unsigned long long)h->seq++, fy_str_z(rest));
    fy_sse_put(h->out, name, fy_str_view(&json));
    h->out->oom |= json.oom || rest->oom;
    fy_str_release(&json);
    fy_str_release(rest);
}

/* The members that place an event. */
static void put_place(const response *h, bool in_part, fy_str *out)
{
    fy_str_printf(out, "\"output_index\":%zu,\"item_id\":", h->n_items - 1);
    put_item_id(h, h->n_items - 1, out);
    fy_str_puts(out, in_part ? ",\"content_index\":0," : ",");
}

static void put_text_event(response *h, const char *name, const char *key, fy_span text)
{
    const fy_part kind = h->items[h->n_items - 1].kind;
    fy_str s = {0};
    put_place(h, kind != FY_PART_CALL, &s);
    if (kind == FY_PART_CONTENT)
        fy_str_puts(&s, "\"logprobs\":[],");
    fy_put_span(&s, key, text);
    put_event(h, name, &s);
}

static void put_item_event(response *h, const char *name, const char *status)
{
    fy_str s = {0};
    fy_str_printf(&s, "\"output_index\":%zu,\"item\":", h->n_items - 1);
    put_item(h, h->n_items - 1, status, &s);
    put_event(h, name, &s);
}

static void put_part_event(response *h, const char *name, fy_span text)
{
    fy_str s = {0};
    put_place(h, true, &s);
    fy_str_puts(&s, "\"part\":");
    put_part(h->items[h->n_items - 1].kind, text, &s);
    put_event(h, name, &s);
}

static void end_item(response *h, const char *status)
{
    if (!h->is_open)
        return;
    h->is_open = false;
    item *it = &h->items[h->n_items - 1];
    it->end = it->begin + text_of(h, it).len;
    if (h->out == NULL)
        return;
    const fy_span text = text_of(h, it);
    if (it->kind == FY_PART_CALL) {
        put_text_event(h, "response.function_call_arguments.done", "arguments", text);
    } else {
        put_text_event(h,
                       it->kind == FY_PART_CONTENT ? "response.output_text.done"
                                                   : "response.reasoning_text.done",
                       "text", text);
        put_part_event(h, "response.content_part.done", text);
    }
    put_item_event(h, "response.output_item.done", status);
}

/* begin: where its text begins in the parts'. */
static int begin_item(response *h, fy_part kind, size_t begin, size_t call)
{
    const item fresh = {.kind = kind, .begin = begin, .end = SIZE_MAX, .call = call};
    if (h->is_open && kind != FY_PART_CALL && h->items[h->n_items - 1].kind == kind)
        return 0;
    end_item(h, "completed");
    if (fy_append(&h->items, &h->n_items, &h->cap_items, &fresh, sizeof fresh, NULL) != 0)
        return -1;
    h->is_open = true;
    if (h->out == NULL)
        return 0;
    put_item_event(h, "response.output_item.added", NULL);
    if (kind != FY_PART_CALL)
        put_part_event(h, "response.content_part.added", (fy_span){"", 0});
    return 0;
}

static void on_part(void *user, fy_part what, size_t call, fy_span text)
{
    response *h = user;
    int rc = 0;
    switch (what) {
    case FY_PART_THINKING:
    case FY_PART_CONTENT: {
        const bool thinks = what == FY_PART_THINKING;
        const fy_str *all = thinks ? &h->parts.thinking : &h->parts.content;
        rc = begin_item(h, what, all->len - text.len, 0);
        if (rc == 0 && h->out != NULL)
            put_text_event(h,
                           thinks ? "response.reasoning_text.delta" : "response.output_text.delta",
                           "delta", text);
        break;
    }
    case FY_PART_CALL:
        rc = begin_item(h, FY_PART_CALL, 0, call);
        break;
    case FY_PART_ARGUMENTS:
        if (h->out != NULL)
            put_text_event(h, "response.function_call_arguments.delta", "delta", text);
        break;
    case FY_PART_CALL_END:
        end_item(h, "completed");
        break;
    }
    h->failed |= rc != 0;
}

/* The next piece of the answer, after which it has n_tokens. */
static void divide(fy_answer *a, fy_span text, uint32_t n_tokens, bool at_end)
{
    response *h = a->ask->state;
    const size_t n_thought = h->parts.thinking.len;
    int rc = 0;
    if (!h->begun)
        rc = fy_parts_begin(&h->parts, h->splits, fy_str_view(&h->opened), &a->ask->tools,
                            a->ask->number, NULL);
    h->begun = true;
    if (rc == 0)
        rc = fy_parts_add(&h->parts, text, on_part, h, NULL);
    if (rc == 0 && at_end)
        rc = fy_parts_end(&h->parts, on_part, h, NULL);
    if (h->parts.thinking.len > n_thought)
        h->n_reasoning = n_tokens;
    h->failed |= rc != 0;
}

static void divide_end(fy_answer *a)
{
    response *h = a->ask->state;
    divide(a, (fy_span){"", 0}, a->n_generated, true);
    h->cut = a->end != FY_END_EOS && a->end != FY_END_WORD;
    if (h->n_items == 0 && begin_item(h, FY_PART_CONTENT, 0, 0) != 0)
        h->failed = true; /* an answer without text is an empty one */
    end_item(h, h->cut ? "incomplete" : "completed");
}

static void put_usage(const fy_ask *k, fy_str *out)
{
    const response *h = k->state;
    const fy_usage u = fy_ask_usage(k);
    fy_str_printf(out,
                  "{\"input_tokens\":%llu,\"input_tokens_details\":{\"cached_tokens\":%llu},"
                  "\"output_tokens\":%llu,\"output_tokens_details\":{\"reasoning_tokens\":%u},"
                  "\"total_tokens\":%llu}",
                  (unsigned long long)u.prompt, (unsigned long long)u.cached,
                  (unsigned long long)u.completion, h->n_reasoning,
                  (unsigned long long)(u.prompt + u.completion));
}

/* failure: NULL: none. */
static void put_response(const fy_ask *k, const char *status, const char *failure, fy_str *out)
{
    const response *h = k->state;
    const bool ended = strcmp(status, "in_progress") != 0;
    const bool cut = strcmp(status, "incomplete") == 0;
    fy_str_printf(out,
                  "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"model\":", k->id,
                  (long long)k->created);
    fy_json_put_string(out, fy_span_of(k->served->name));
    fy_str_printf(out, ",\"status\":\"%s\",\"error\":", status);
    if (failure != NULL) {
        fy_str_puts(out, "{\"code\":\"server_error\",");
        fy_put_span(out, "message", fy_span_of(failure));
        fy_str_putc(out, '}');
    } else {
        fy_str_puts(out, "null");
    }
    fy_str_printf(out,
                  ",\"incomplete_details\":%s,%s,\"background\":false,"
                  "\"previous_response_id\":null,\"store\":false,\"truncation\":\"disabled\","
                  "\"output\":[",
                  cut ? "{\"reason\":\"max_output_tokens\"}" : "null", fy_str_z(&h->echo));
    for (size_t i = 0; ended && i < h->n_items; i++) {
        fy_str_puts(out, i > 0 ? "," : "");
        put_item(h, i, cut && i + 1 == h->n_items ? "incomplete" : "completed", out);
    }
    fy_str_puts(out, "],\"usage\":");
    if (ended)
        put_usage(k, out);
    else
        fy_str_puts(out, "null");
    fy_str_putc(out, '}');
}

static const char *end_status(const response *h)
{
    return h->cut ? "incomplete" : "completed";
}

static void whole(fy_ask *k, fy_str *out)
{
    fy_answer *a = &k->answers[0];
    response *h = k->state;
    for (size_t i = 0; i < a->n_said; i++) /* token by token: some of them are of thinking */
        divide(a, (fy_span){fy_str_z(&a->text) + a->said[i].text, a->said[i].n_text},
               (uint32_t)i + 1, false);
    divide_end(a);
    put_response(k, end_status(h), NULL, out);
    out->oom |= h->failed;
}

static void put_response_event(fy_ask *k, const char *name, const char *status, const char *failure,
                               fy_str *out)
{
    response *h = k->state;
    fy_str s = {0};
    h->out = out;
    fy_str_puts(&s, "\"response\":");
    put_response(k, status, failure, &s);
    put_event(h, name, &s);
}

static void open_stream(fy_ask *k, fy_str *out)
{
    put_response_event(k, "response.created", "in_progress", NULL, out);
    put_response_event(k, "response.in_progress", "in_progress", NULL, out);
}

static void piece(fy_answer *a, fy_span text, size_t token, fy_str *out)
{
    response *h = a->ask->state;
    (void)token;
    h->out = out;
    divide(a, text, a->n_generated, false);
    out->oom |= h->failed;
}

static void end(fy_answer *a, fy_str *out)
{
    response *h = a->ask->state;
    h->out = out;
    divide_end(a);
    out->oom |= h->failed;
}

static void close_stream(fy_ask *k, fy_str *out)
{
    const response *h = k->state;
    put_response_event(k, h->cut ? "response.incomplete" : "response.completed", end_status(h),
                       NULL, out);
}

static void fail(fy_ask *k, const fy_api_refusal *r, const char *message, fy_str *out)
{
    (void)r;
    put_response_event(k, "response.failed", "failed", message, out);
}

static void release(fy_ask *k)
{
    response *h = k->state;
    if (h == NULL)
        return;
    if (h->begun)
        fy_parts_release(&h->parts);
    fy_str_release(&h->opened);
    fy_str_release(&h->echo);
    free(h->items);
    free(h);
}

const fy_reply_form fy_responses_form = {.whole = whole,
                                         .open = open_stream,
                                         .piece = piece,
                                         .end = end,
                                         .close = close_stream,
                                         .fail = fail,
                                         .release = release};

/* --- handlers --------------------------------------------------------------------------------- */

/* "name": what the request says, or `otherwise`. */
static void echo(fy_str *out, const json_t *o, const char *name, const char *otherwise)
{
    const json_t *v = json_object_get(o, name);
    char *text = is_given(v) || json_is_false(v)
                     ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))
                     : NULL;
    fy_str_printf(out, "%s\"%s\":%s", out->len > 0 ? "," : "", name,
                  text != NULL ? text : otherwise);
    free(text);
}

static void echo_request(const fy_ask *k, const json_t *o, fy_str *out)
{
    static const char *const names[][2] = {
        {"instructions", "null"},
        {"max_output_tokens", "null"},
        {"metadata", "{}"},
        {"parallel_tool_calls", "true"},
        {"reasoning", "{\"effort\":null,\"summary\":null}"},
        {"text", "{\"format\":{\"type\":\"text\"}}"},
        {"tool_choice", "\"auto\""},
        {"tools", "[]"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        echo(out, o, names[i][0], names[i][1]);
    fy_str_printf(out, ",\"temperature\":%.9g,\"top_p\":%.9g", (double)k->sampler.temperature,
                  (double)k->sampler.top_p);
}

int fy_responses_read(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    response *h = k->state = calloc(1, sizeof *h);
    if (h == NULL)
        return fy_nomem(&b->e);
    h->id = strrchr(k->id, '_') + 1;
    h->splits = !k->served->no_think;
    k->shows_marks = true;
    json_t *q = translate(o, b);
    int rc = q == NULL ? -1 : fy_ask_read_common(k, q, b) != 0 ? -1 : read_format(k, o, b);
    if (rc == 0 && (fy_read_tools(k->served, q, &k->tools, b) != 0 || fy_force_tools(k, b) != 0))
        rc = -1;
    k->return_tokens = !k->stream;
    if (rc == 0) {
        echo_request(k, o, &h->echo);
        rc = fy_ask_read_conversation(k, q, &h->opened, b);
    }
    json_decref(q);
    return rc;
}

void fy_handle_responses(fy_exchange *x)
{
    fy_ask_handle(x, &fy_responses_form, "resp_", fy_responses_read);
}

void fy_handle_response_tokens(fy_exchange *x)
{
    fy_bad_ask b = {0};
    fy_str out = {0};
    size_t n = 0;
    json_t *o = fy_body_read(x), *q = NULL;
    if (o == NULL)
        return;
    q = translate(o, &b);
    const int rc = q != NULL ? fy_count_conversation(&x->server->served, q, &n, &b) : -1;
    json_decref(q);
    json_decref(o);
    if (rc != 0) {
        fy_ask_refuse(x, NULL, &b);
        return;
    }
    fy_str_printf(&out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}", n);
    fy_reply_json(x, 200, &out);
}

void fy_handle_stored_response(fy_exchange *x)
{
    fy_reply_error(x, &(fy_api_refusal){.status = 400, .param = "response_id"},
                   "'response_id': responses are not stored");
}
