/* Conversations of a request: checks messages, joins text parts, and renders the model's template.
 */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/json_tree.h"
#include "model/think.h"
#include "server/ask_read.h"

/* The text of a content: a string, or parts of type "text", joined without a separator. */
static int put_content(const json_t *content, size_t message, fy_str *out, fy_bad_ask *b)
{
    const json_t *part;
    size_t i;
    if (json_is_string(content)) {
        fy_str_add(out, json_string_value(content), json_string_length(content));
        return 0;
    }
    if (!json_is_array(content))
        return fy_bad(b, "messages",
                      "the content of message %zu is %s, expected a string or a list "
                      "of parts",
                      message, fy_json_type_name(content));
    json_array_foreach(content, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        if (type != NULL && strcmp(type, "text") != 0 && strcmp(type, "input_text") != 0 &&
            strcmp(type, "output_text") != 0)
            return fy_bad(b, "messages",
                          "part %zu of message %zu is of type '%.40s'; the model "
                          "reads text only",
                          i, message, type);
        if (!json_is_string(text))
            return fy_bad(b, "messages", "part %zu of message %zu has no text", i, message);
        fy_str_add(out, json_string_value(text), json_string_length(text));
    }
    return 0;
}

static bool knows_developer(const fy_chat_template *t)
{
    const fy_span text = fy_chat_template_text(t, false);
    return memmem(text.ptr, text.len, "developer", 9) != NULL;
}

/* The message as the template gets it; NULL: refused. */
static json_t *take_message(const fy_served *v, const json_t *m, size_t i, fy_bad_ask *b)
{
    const json_t *content = json_object_get(m, "content");
    const char *role = json_string_value(json_object_get(m, "role"));
    const json_t *calls = json_object_get(m, "tool_calls");
    fy_str text = {0};
    if (role == NULL) {
        fy_bad(b, "messages", "message %zu has no role", i);
        return NULL;
    }
    const bool has_calls = calls != NULL && !json_is_null(calls);
    if ((content == NULL || json_is_null(content)) && !has_calls) {
        fy_bad(b, "messages", "message %zu has no content", i);
        return NULL;
    }
    json_t *copy = json_copy((json_t *)(uintptr_t)m);
    if (content != NULL && !json_is_null(content)) {
        if (put_content(content, i, &text, b) != 0) {
            fy_str_release(&text);
            json_decref(copy);
            return NULL;
        }
        json_object_set_new(copy, "content", json_stringn(fy_str_z(&text), text.len));
        fy_str_release(&text);
    }
    if (strcmp(role, "developer") == 0 && !knows_developer(v->chat))
        json_object_set_new(copy, "role", json_string("system"));
    return copy;
}

static json_t *take_messages(const fy_served *v, const json_t *messages, fy_bad_ask *b)
{
    const json_t *m;
    size_t i;
    if (!json_is_array(messages) || json_array_size(messages) == 0) {
        fy_bad(b, "messages", "found %s, expected a list of messages",
               messages == NULL          ? "nothing"
               : json_is_array(messages) ? "an empty list"
                                         : fy_json_type_name(messages));
        return NULL;
    }
    json_t *list = json_array();
    json_array_foreach(messages, i, m)
    {
        json_t *taken = json_is_object(m) ? take_message(v, m, i, b) : NULL;
        if (!json_is_object(m))
            fy_bad(b, "messages", "message %zu is %s, expected an object", i, fy_json_type_name(m));
        if (taken == NULL || json_array_append_new(list, taken) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Variables of the template that the request sets. */
static int take_extra(const json_t *o, char **text, fy_bad_ask *b)
{
    const json_t *args = json_object_get(o, "chat_template_kwargs");
    const json_t *effort = json_object_get(o, "reasoning_effort");
    *text = NULL;
    if (args != NULL && !json_is_null(args) && !json_is_object(args))
        return fy_bad(b, "chat_template_kwargs", "found %s, expected an object",
                      fy_json_type_name(args));
    json_t *all = json_is_object(args) ? json_copy((json_t *)(uintptr_t)args) : json_object();
    if (json_is_string(effort))
        json_object_set(all, "reasoning_effort", (json_t *)(uintptr_t)effort);
    if (json_object_size(all) > 0)
        *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(all);
    return 0;
}

/* The messages as the template can show them, with calls of tools as it writes them. */
static json_t *finish_messages(json_t *list, const fy_ask_tools *tools, fy_bad_ask *b)
{
    int rc = list != NULL ? fy_tool_messages_fix(list, &b->e) : -1;
    if (rc == 0 && !fy_tool_format_shows_tools(tools->format))
        rc = fy_tool_messages_explain(list, tools->tools, &b->e);
    if (rc == 0)
        return list;
    json_decref(list);
    return NULL;
}

/* The variable "tools" of the template; *text is NULL without tools, or when the messages explain
 * them. */
static int take_tools(const fy_ask_tools *tools, char **text, fy_bad_ask *b)
{
    *text = NULL;
    if (tools->tools == NULL || !fy_tool_format_shows_tools(tools->format))
        return 0;
    *text = json_dumps(fy_tools_json(tools->tools), JSON_COMPACT);
    return *text != NULL ? 0 : fy_nomem(&b->e);
}

/* --- answers that have begun -------------------------------------------------------------------
 */

/* Stands after the text of the message that is continued, to be found in what is rendered. A
 * template may trim the text before it, never cut it. */
#define CONTINUE_HERE \
    "\xEE\x80\x80"    \
    "ferry"           \
    "\xEE\x80\x81"

static const char *role_at(const json_t *list, size_t from_end)
{
    const size_t n = json_array_size(list);
    const char *role =
        n > from_end
            ? json_string_value(json_object_get(json_array_get(list, n - 1 - from_end), "role"))
            : NULL;
    return role != NULL ? role : "";
}

/* Is the last message the beginning of the answer? Marks its end, then. A message without text says
 * nothing yet: it is taken away. -1: refused. */
static int begin_continuing(const json_t *o, json_t *list, bool *continues, fy_bad_ask *b)
{
    const json_t *wish = json_object_get(o, "continue_final_message");
    const bool is_answer = strcmp(role_at(list, 0), "assistant") == 0;
    json_t *last = json_array_get(list, json_array_size(list) - 1);
    *continues = false;
    if (wish != NULL && !json_is_null(wish) && !json_is_boolean(wish))
        return fy_bad(b, "continue_final_message", "found %s, expected true or false",
                      fy_json_type_name(wish));
    if (json_is_true(wish) && json_is_true(json_object_get(o, "add_generation_prompt")))
        return fy_bad(b, "continue_final_message",
                      "an answer is continued or begun: not together "
                      "with add_generation_prompt");
    if (json_is_true(wish) && !is_answer)
        return fy_bad(b, "continue_final_message", "the last message is not the assistant's");
    if (json_is_false(wish) || !is_answer || json_object_get(last, "tool_calls") != NULL)
        return 0;
    if (strcmp(role_at(list, 1), "assistant") == 0)
        return fy_bad(b, "messages",
                      "the last two messages are the assistant's: which one is to be "
                      "continued?");
    const json_t *text = json_object_get(last, "content");
    if (json_string_length(text) == 0)
        return json_array_remove(list, json_array_size(list) - 1);
    *continues = true;
    fy_str marked = {0};
    fy_str_add(&marked, json_string_value(text), json_string_length(text));
    fy_str_puts(&marked, CONTINUE_HERE);
    const int rc =
        json_object_set_new(last, "content", json_stringn(fy_str_z(&marked), marked.len));
    fy_str_release(&marked);
    return rc != 0 ? fy_nomem(&b->e) : 0;
}

/* Cuts what is rendered at the end of the last message's text. */
static int end_continuing(fy_str *out, size_t before, fy_bad_ask *b)
{
    const size_t n = sizeof CONTINUE_HERE - 1;
    for (size_t i = out->len; i >= before + n; i--) {
        if (memcmp(out->ptr + i - n, CONTINUE_HERE, n) == 0) {
            out->len = i - n;
            return 0;
        }
    }
    return fy_bad(b, "messages",
                  "the last message cannot be continued: the template does not show "
                  "the end of its text");
}

int fy_read_messages(const fy_served *v, const json_t *o, const fy_ask_tools *tools, fy_str *out,
                     fy_bad_ask *b)
{
    const json_t *add = json_object_get(o, "add_generation_prompt");
    const size_t before = out->len;
    char *extra = NULL, *shown = NULL;
    bool continues = false;
    if (v->chat == NULL)
        return fy_fail(&b->e, FY_EUNSUPPORTED, "%s", v->no_chat);
    json_t *list = take_messages(v, json_object_get(o, "messages"), b);
    if (list != NULL && begin_continuing(o, list, &continues, b) != 0) {
        json_decref(list);
        return -1;
    }
    list = finish_messages(list, tools, b);
    if (list == NULL)
        return b->e.code != FY_OK ? -1 : fy_nomem(&b->e);
    char *messages = json_dumps(list, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(list);
    if (messages == NULL || take_extra(o, &extra, b) != 0 || take_tools(tools, &shown, b) != 0) {
        free(messages);
        free(extra);
        return b->e.code != FY_OK ? -1 : fy_nomem(&b->e);
    }
    const fy_chat_input in = {.messages = fy_span_of(messages),
                              .tools = shown != NULL ? fy_span_of(shown) : (fy_span){0},
                              .add_generation_prompt = !continues && !json_is_false(add),
                              .args = v->template_args,
                              .n_args = v->n_template_args,
                              .extra = extra != NULL ? fy_span_of(extra) : (fy_span){0}};
    snprintf(b->param, sizeof b->param, "messages");
    int rc = fy_chat_template_render(v->chat, &in, out, &b->e);
    if (rc == 0 && continues)
        rc = end_continuing(out, before, b);
    free(messages);
    free(extra);
    free(shown);
    return rc;
}

int fy_ask_read_conversation(fy_ask *k, const json_t *o, fy_str *opened, fy_bad_ask *b)
{
    fy_str text = {0};
    fy_ids ids = {0};
    int rc = fy_read_messages(k->served, o, &k->tools, &text, b);
    if (rc == 0) {
        const fy_span all = {fy_str_z(&text), text.len};
        const fy_span end = fy_think_opened_by(all, &k->tools.opened);
        /* What a schema or a call holds from the first token on is no thinking, wherever the prompt
         * ends; a grammar of the client's own may begin with it. */
        if (k->grammar == NULL || json_is_string(json_object_get(o, "grammar")))
            fy_str_add(opened, end.ptr, end.len);
        rc =
            opened->oom ? fy_nomem(&b->e) : fy_chat_encode_text(k->served->vocab, all, &ids, &b->e);
    }
    fy_str_release(&text);
    if (rc == 0)
        return fy_ask_add_prompt(k, &ids, &b->e);
    fy_ids_release(&ids);
    return -1;
}

int fy_count_conversation(const fy_served *v, const json_t *o, size_t *n, fy_bad_ask *b)
{
    fy_ask_tools tools = {0};
    fy_ids ids = {0};
    fy_str text = {0};
    int rc = fy_read_tools(v, o, &tools, b);
    if (rc == 0)
        rc = fy_read_messages(v, o, &tools, &text, b);
    if (rc == 0)
        rc = fy_chat_encode_text(v->vocab, (fy_span){fy_str_z(&text), text.len}, &ids, &b->e);
    *n = ids.n;
    fy_ids_release(&ids);
    fy_str_release(&text);
    fy_ask_tools_release(&tools);
    return rc;
}
