#include "cli/template_request.h"

#include <stddef.h>

/* --- reading --- */

typedef enum { AS_JSON, AS_TEXT, AS_BOOL } member_kind;

static const struct {
    const char *key;
    member_kind kind;
    size_t offset;
} members[] = {
    {"messages", AS_JSON, offsetof(fy_template_request, messages)},
    {"tools", AS_JSON, offsetof(fy_template_request, tools)},
    {"extra", AS_JSON, offsetof(fy_template_request, extra)},
    {"context", AS_JSON, offsetof(fy_template_request, context)},
    {"template", AS_TEXT, offsetof(fy_template_request, template_text)},
    {"bos_token", AS_TEXT, offsetof(fy_template_request, bos_token)},
    {"eos_token", AS_TEXT, offsetof(fy_template_request, eos_token)},
    {"name", AS_TEXT, offsetof(fy_template_request, name)},
    {"expected", AS_TEXT, offsetof(fy_template_request, expected)},
    {"error", AS_TEXT, offsetof(fy_template_request, error)},
    {"kind", AS_TEXT, offsetof(fy_template_request, kind)},
    {"add_generation_prompt", AS_BOOL, 0},
};

enum { N_MEMBERS = sizeof members / sizeof members[0] };

static void *field(fy_template_request *r, size_t i)
{
    return (char *)r + members[i].offset;
}

static void clear(fy_template_request *r)
{
    for (size_t i = 0; i < N_MEMBERS; i++) {
        if (members[i].kind == AS_JSON) {
            *(fy_span *)field(r, i) = (fy_span){0};
        } else if (members[i].kind == AS_TEXT) {
            fy_request_text *t = field(r, i);
            t->there = t->null = false;
            fy_str_clear(&t->s);
        }
    }
    r->has_add_generation_prompt = false;
}

static int read_text(fy_request_text *t, fy_json *j, fy_err *e)
{
    fy_span s;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
    t->there = true;
    fy_str_add(&t->s, s.ptr, s.len);
    return t->s.oom ? fy_nomem(e) : 0;
}

static int read_json(fy_span *out, fy_json *j, fy_span text, fy_err *e)
{
    size_t begin = fy_json_offset(j);
    if (fy_json_skip(j, e) != 0)
        return -1;
    *out = (fy_span){text.ptr + begin, fy_json_offset(j) - begin};
    return 0;
}

static int read_null(fy_template_request *r, size_t i, fy_json *j, fy_err *e)
{
    if (members[i].kind == AS_TEXT) {
        fy_request_text *t = field(r, i);
        t->there = t->null = true;
    }
    return fy_json_null(j, e);
}

static int read_member(fy_template_request *r, size_t i, fy_json *j, fy_span text, fy_err *e)
{
    if (fy_json_peek(j) == FY_JSON_NULL)
        return read_null(r, i, j, e);
    switch (members[i].kind) {
    case AS_JSON:
        return read_json(field(r, i), j, text, e);
    case AS_TEXT:
        return read_text(field(r, i), j, e);
    case AS_BOOL:
        break;
    }
    r->has_add_generation_prompt = true;
    return fy_json_bool(j, &r->add_generation_prompt, e);
}

int fy_template_request_read(fy_template_request *r, fy_json *j, fy_span text, fy_err *e)
{
    fy_span key;
    clear(r);
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        size_t i = 0;
        while (i < N_MEMBERS && !fy_span_is(key, members[i].key))
            i++;
        rc = i < N_MEMBERS ? read_member(r, i, j, text, e) : fy_json_skip(j, e);
        if (rc != 0 && i < N_MEMBERS)
            fy_ctx(e, "\"%s\"", members[i].key);
    }
    return rc;
}

void fy_template_request_release(fy_template_request *r)
{
    for (size_t i = 0; i < N_MEMBERS; i++) {
        if (members[i].kind == AS_TEXT)
            fy_str_release(&((fy_request_text *)field(r, i))->s);
    }
    *r = (fy_template_request){0};
}

void fy_template_defaults_release(fy_template_defaults *d)
{
    fy_chat_template_free(d->loaded);
    fy_str_release(&d->bos_token.s);
    fy_str_release(&d->eos_token.s);
    *d = (fy_template_defaults){0};
}

/* --- rendering --- */

static int set_token(fy_chat_template *t, const char *name, const fy_request_text *own,
                     const fy_request_text *other, fy_err *e)
{
    const fy_request_text *use = own->there ? own : other;
    fy_span text = {fy_str_z(&use->s), use->s.len};
    return fy_chat_template_set_token(t, name, use->there && !use->null ? text : (fy_span){0}, e);
}

static int render(fy_chat_template *t, const fy_template_request *r, const fy_template_defaults *d,
                  fy_str *out, fy_err *e)
{
    fy_chat_input in = {
        .messages = r->messages,
        .tools = r->tools,
        .extra = r->extra.ptr != NULL ? r->extra : r->context,
        .args = d->args,
        .n_args = d->n_args,
        .add_generation_prompt =
            r->has_add_generation_prompt ? r->add_generation_prompt : d->add_generation_prompt,
    };
    if (set_token(t, "bos_token", &r->bos_token, &d->bos_token, e) != 0 ||
        set_token(t, "eos_token", &r->eos_token, &d->eos_token, e) != 0)
        return -1;
    return fy_chat_template_render(t, &in, out, e);
}

int fy_template_request_render(const fy_template_request *r, const fy_template_defaults *d,
                               fy_str *out, fy_err *e)
{
    bool own = r->template_text.there && !r->template_text.null;
    if (r->extra.ptr != NULL && r->context.ptr != NULL)
        return fy_fail(e, FY_EFORMAT, "\"extra\" and \"context\" exclude each other");
    if (r->messages.ptr == NULL && r->context.ptr == NULL)
        return fy_fail(e, FY_EFORMAT, "expected an object with \"messages\", or with \"context\"");
    if (!own && d->loaded == NULL)
        return fy_fail(e, FY_EFORMAT,
                       "no \"template\", and none was loaded (-m, --file or --chat-template)");
    if (!own)
        return render(d->loaded, r, d, out, e);
    fy_span text = {fy_str_z(&r->template_text.s), r->template_text.s.len};
    fy_chat_template *t = fy_chat_template_new(text, "template", e);
    int rc = t != NULL ? render(t, r, d, out, e) : -1;
    fy_chat_template_free(t);
    return rc;
}
