/* The messages of a conversation: the list, reading it from JSON, saving and loading it. */
#include "cli/chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/text_io.h"
#include "model/template/chat_template.h"

void fy_chat_message_release(fy_chat_message *one)
{
    fy_str_release(&one->json);
    fy_str_release(&one->role);
    fy_str_release(&one->content);
}

void fy_chat_messages_cut(fy_chat_messages *m, size_t n)
{
    while (m->n > n)
        fy_chat_message_release(&m->items[--m->n]);
    const bool system = fy_chat_messages_system(m).ptr != NULL;
    if (m->n_hidden > 0 && m->n <= m->n_hidden + system) { /* none is left that the model sees */
        m->n_hidden = 0;
        fy_str_clear(&m->summary);
    }
}

void fy_chat_messages_release(fy_chat_messages *m)
{
    fy_chat_messages_cut(m, 0);
    free(m->items);
    fy_str_release(&m->summary);
    *m = (fy_chat_messages){0};
}

size_t fy_chat_messages_last_user(const fy_chat_messages *m)
{
    for (size_t i = m->n; i-- > 0;) {
        if (strcmp(fy_str_z(&m->items[i].role), "user") == 0)
            return i;
    }
    return m->n;
}

fy_chat_message fy_chat_messages_take(fy_chat_messages *m)
{
    return m->items[--m->n];
}

/* There is room: the message was in the list. */
void fy_chat_messages_put_back(fy_chat_messages *m, fy_chat_message one)
{
    m->items[m->n++] = one;
}

/* Takes *one over, also when it fails. */
static int push(fy_chat_messages *m, fy_chat_message *one, fy_err *e)
{
    if (!one->json.oom && !one->role.oom && !one->content.oom &&
        fy_append(&m->items, &m->n, &m->cap, one, sizeof *one, e) == 0)
        return 0;
    fy_chat_message_release(one);
    return fy_nomem(e);
}

int fy_chat_messages_add(fy_chat_messages *m, const char *role, fy_span content, fy_err *e)
{
    fy_chat_message one = {0};
    fy_chat_put_message(&one.json, fy_span_of(role), content);
    fy_str_puts(&one.role, role);
    fy_str_add(&one.content, content.ptr, content.len);
    return push(m, &one, e);
}

/* --- reading JSON ----------------------------------------------------------------------------- */

static int read_text(fy_json *j, fy_str *out, fy_err *e)
{
    fy_span s;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
    fy_str_add(out, s.ptr, s.len);
    return 0;
}

/* The members of a message whose first key was read already. */
static int read_members(fy_json *j, fy_span key, fy_chat_message *one, fy_err *e)
{
    int rc;
    do {
        if (fy_span_is(key, "role"))
            rc = read_text(j, &one->role, e);
        else if (fy_span_is(key, "content") && fy_json_peek(j) == FY_JSON_STRING)
            rc = read_text(j, &one->content, e);
        else
            rc = fy_json_skip(j, e);
        if (rc != 0)
            return -1;
    } while ((rc = fy_json_object_next(j, &key, e)) == 1);
    if (rc == 0 && one->role.len == 0)
        return fy_fail(e, FY_EFORMAT, "a message has no \"role\"");
    return rc;
}

static int finish_message(fy_chat_messages *m, fy_chat_message *one, fy_span json, fy_err *e)
{
    while (json.ptr[json.len - 1] != '}') /* white space: the reader looks ahead */
        json.len--;
    fy_str_add(&one->json, json.ptr, json.len);
    return push(m, one, e);
}

static int read_message(fy_chat_messages *m, fy_json *j, fy_span text, fy_err *e)
{
    fy_chat_message one = {0};
    fy_span key;
    (void)fy_json_peek(j); /* to the first byte of the value */
    size_t begin = fy_json_offset(j);
    int rc = fy_json_object_begin(j, e);
    if (rc == 0)
        rc = fy_json_object_next(j, &key, e);
    if (rc == 0)
        rc = fy_fail(e, FY_EFORMAT, "message %zu is empty, expected \"role\" and \"content\"",
                     m->n + 1);
    if (rc == 1)
        rc = read_members(j, key, &one, e);
    if (rc != 0) {
        fy_chat_message_release(&one);
        return -1;
    }
    fy_span json = {text.ptr + begin, fy_json_offset(j) - begin};
    return finish_message(m, &one, json, e);
}

static int read_list(fy_chat_messages *m, fy_json *j, fy_span text, fy_err *e)
{
    int rc = fy_json_array_begin(j, e);
    while (rc == 0 && (rc = fy_json_array_next(j, e)) == 1)
        rc = read_message(m, j, text, e);
    return rc;
}

/* An object is a message, or holds the list of them as "messages" among other things. */
static int read_object(fy_chat_messages *m, fy_json *j, fy_span text, bool *is_one, fy_err *e)
{
    fy_chat_message one = {0};
    fy_span key;
    size_t begin = fy_json_offset(j);
    bool found = false;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        if (fy_span_is(key, "messages")) {
            found = true;
            rc = read_list(m, j, text, e);
        } else if (!found && (fy_span_is(key, "role") || fy_span_is(key, "content"))) {
            *is_one = true;
            rc = read_members(j, key, &one, e);
            break;
        } else {
            rc = fy_json_skip(j, e);
        }
    }
    if (rc == 0 && *is_one)
        return finish_message(m, &one, (fy_span){text.ptr + begin, fy_json_offset(j) - begin}, e);
    fy_chat_message_release(&one);
    if (rc == 0 && !found)
        return fy_fail(e, FY_EFORMAT,
                       "expected a message with \"role\" and \"content\", or \"messages\"");
    return rc;
}

int fy_chat_messages_read(fy_chat_messages *m, fy_span json, bool *is_one, fy_err *e)
{
    fy_json *j = fy_json_new(json.ptr, json.len, e);
    if (j == NULL)
        return -1;
    size_t before = m->n;
    bool one = false;
    int rc = fy_json_peek(j) == FY_JSON_OBJECT ? read_object(m, j, json, &one, e)
                                               : read_list(m, j, json, e);
    if (rc == 0)
        rc = fy_json_end(j, e);
    fy_json_free(j);
    if (rc != 0)
        fy_chat_messages_cut(m, before);
    else if (is_one != NULL)
        *is_one = one;
    return rc;
}

/* --- the system message ----------------------------------------------------------------------- */

fy_span fy_chat_messages_system(const fy_chat_messages *m)
{
    if (m->n == 0 ||
        !fy_span_is((fy_span){fy_str_z(&m->items[0].role), m->items[0].role.len}, "system"))
        return (fy_span){0};
    return (fy_span){fy_str_z(&m->items[0].content), m->items[0].content.len};
}

int fy_chat_messages_set_system(fy_chat_messages *m, fy_span text, fy_err *e)
{
    bool had = fy_chat_messages_system(m).ptr != NULL;
    if (text.ptr != NULL) {
        if (fy_chat_messages_add(m, "system", text, e) != 0)
            return -1;
        fy_chat_message last = m->items[m->n - 1];
        memmove(m->items + 1, m->items, (m->n - 1) * sizeof *m->items);
        m->items[0] = last;
    }
    if (had) {
        size_t at = text.ptr != NULL ? 1 : 0;
        fy_chat_message_release(&m->items[at]);
        m->n--;
        memmove(m->items + at, m->items + at + 1, (m->n - at) * sizeof *m->items);
    }
    return 0;
}

bool fy_chat_messages_ends_in(const fy_chat_messages *m, const char *role)
{
    return m->n > 0 && strcmp(fy_str_z(&m->items[m->n - 1].role), role) == 0;
}

/* --- what the model sees ---------------------------------------------------------------------- */

static const char ask[] = "Summarize our conversation so far in a few sentences.";

static size_t n_system(const fy_chat_messages *m)
{
    return fy_chat_messages_system(m).ptr != NULL;
}

size_t fy_chat_messages_next_turn(const fy_chat_messages *m, size_t n_hidden)
{
    size_t at = n_system(m) + n_hidden + 1;
    while (at < m->n && strcmp(fy_str_z(&m->items[at].role), "user") != 0)
        at++;
    return at < m->n ? at - n_system(m) : n_hidden;
}

void fy_chat_messages_hide(fy_chat_messages *m, size_t n_hidden, fy_str *summary)
{
    m->n_hidden = n_hidden;
    fy_str_release(&m->summary);
    if (summary != NULL) {
        m->summary = *summary;
        *summary = (fy_str){0};
    }
}

static void put_message(fy_span json, fy_str *out)
{
    if (out->ptr[out->len - 1] != '[')
        fy_str_putc(out, ',');
    fy_str_add(out, json.ptr, json.len);
}

static void put_new(const char *role, fy_span content, fy_str *out)
{
    fy_str one = {0};
    fy_chat_put_message(&one, fy_span_of(role), content);
    put_message((fy_span){fy_str_z(&one), one.len}, out);
    out->oom |= one.oom;
    fy_str_release(&one);
}

/* A summary is a turn as any other, so that templates that want roles to alternate take it. */
static void put_seen(const fy_chat_messages *m, size_t n_hidden, bool summary, size_t n,
                     fy_str *out)
{
    fy_str_putc(out, '[');
    if (out->oom)
        return;
    for (size_t i = 0; i < n; i++) {
        if (i == n_system(m) && summary && m->summary.len > 0) {
            put_new("user", fy_span_of(ask), out);
            put_new("assistant", (fy_span){m->summary.ptr, m->summary.len}, out);
        }
        if (i < n_system(m) || i >= n_system(m) + n_hidden)
            put_message((fy_span){m->items[i].json.ptr, m->items[i].json.len}, out);
    }
}

void fy_chat_messages_json(const fy_chat_messages *m, fy_str *out)
{
    put_seen(m, m->n_hidden, true, m->n, out);
    fy_str_putc(out, ']');
}

void fy_chat_messages_ask_summary(const fy_chat_messages *m, size_t n_hidden, size_t n, fy_str *out)
{
    put_seen(m, n_hidden, n_hidden == m->n_hidden, n, out);
    if (!out->oom)
        put_new("user", fy_span_of(ask), out);
    fy_str_putc(out, ']');
}

/* --- writing ---------------------------------------------------------------------------------- */

int fy_chat_messages_save(const fy_chat_messages *m, const char *path, fy_err *e)
{
    fy_str out = {0};
    fy_str_puts(&out, "{\"messages\": [\n  ");
    for (size_t i = 0; i < m->n; i++) {
        fy_str_puts(&out, i > 0 ? ",\n  " : "");
        fy_str_add(&out, m->items[i].json.ptr, m->items[i].json.len);
    }
    fy_str_puts(&out, "\n]}\n");
    int rc = out.oom ? fy_nomem(e) : fy_file_write(path, out.ptr, out.len, e);
    fy_str_release(&out);
    return rc;
}

int fy_chat_messages_load(fy_chat_messages *m, const char *path, fy_err *e)
{
    fy_str text = {0};
    fy_chat_messages loaded = {0};
    int rc = fy_text_in_read(path, &text, e);
    if (rc == 0 &&
        fy_chat_messages_read(&loaded, (fy_span){fy_str_z(&text), text.len}, NULL, e) != 0)
        rc = fy_ctx(e, "%s", path);
    fy_str_release(&text);
    if (rc != 0) {
        fy_chat_messages_release(&loaded);
        return -1;
    }
    fy_chat_messages_release(m);
    *m = loaded;
    return 0;
}
