/* Renders a chat template for a request given as JSON, and compares what it renders with the answers
 * of a reference (--verify). */
#include "cli/template_request.h"

#include <stddef.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

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

/* --- comparing with a reference --- */

enum { MAX_SHOWN = 20, EXCERPT = 60 };

typedef struct {
    const fy_template_defaults *d;
    fy_str *report;
    fy_template_request r;
    fy_str text;
    size_t n_compared, n_different;
} comparison;

/* About EXCERPT bytes of s from `at`, as a JSON string, whole characters. */
static void put_excerpt(fy_span s, size_t at, fy_str *out)
{
    if (at >= s.len) {
        fy_str_puts(out, "the end");
        return;
    }
    size_t n = s.len - at < EXCERPT ? s.len - at : EXCERPT;
    fy_json_put_string(out, (fy_span){s.ptr + at, fy_utf8_complete(s.ptr + at, n)});
    fy_str_puts(out, at + n < s.len ? "..." : "");
}

/* The first difference of two texts, moved back to the start of its character. */
static size_t first_difference(fy_span a, fy_span b)
{
    size_t at = 0;
    while (at < a.len && at < b.len && a.ptr[at] == b.ptr[at])
        at++;
    while (at > 0 && at < a.len && ((unsigned char)a.ptr[at] & 0xC0) == 0x80)
        at--;
    return at;
}

static size_t n_chars(const char *p, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)p[i] & 0xC0) != 0x80;
    return count;
}

/* Starts a line of the report; false once MAX_SHOWN lines are there. */
static bool begin_difference(comparison *c, size_t i)
{
    if (++c->n_different > MAX_SHOWN)
        return false;
    fy_str_printf(c->report, "cases[%zu] ", i);
    fy_json_put_string(c->report, (fy_span){fy_str_z(&c->r.name.s), c->r.name.s.len});
    if (c->r.has_add_generation_prompt)
        fy_str_puts(c->report, c->r.add_generation_prompt ? " (with generation prompt)"
                                                          : " (no generation prompt)");
    fy_str_puts(c->report, ": ");
    return true;
}

static void compare_text(comparison *c, size_t i)
{
    fy_span want = {fy_str_z(&c->r.expected.s), c->r.expected.s.len},
            found = {fy_str_z(&c->text), c->text.len};
    if (fy_span_eq(want, found) || !begin_difference(c, i))
        return;
    size_t at = first_difference(want, found);
    fy_str_printf(c->report, "character %zu: expected ", n_chars(want.ptr, at));
    put_excerpt(want, at, c->report);
    fy_str_puts(c->report, ", found ");
    put_excerpt(found, at, c->report);
    fy_str_putc(c->report, '\n');
}

static void report_error(comparison *c, size_t i, const char *expected, fy_span text,
                         const char *found)
{
    if (!begin_difference(c, i))
        return;
    fy_str_puts(c->report, expected);
    put_excerpt(text, 0, c->report);
    fy_str_puts(c->report, ", found ");
    fy_str_puts(c->report, found);
    fy_str_putc(c->report, '\n');
}

/* An error was expected. A text longer than a message is compared up to the length of a message. */
static void compare_error(comparison *c, size_t i, int rc, const fy_err *why)
{
    fy_span want = {fy_str_z(&c->r.error.s), c->r.error.s.len};
    bool any = c->r.kind.there && !c->r.kind.null;
    if (rc == 0)
        report_error(c, i, "expected the error ", want, "a text");
    else if (!any &&
             (why->code != FY_EARG || strncmp(want.ptr, why->msg, sizeof why->msg - 1) != 0))
        report_error(c, i, "expected the error ", want, why->msg);
}

static int compare_case(comparison *c, fy_json *j, fy_span text, size_t i, fy_err *e)
{
    if (fy_template_request_read(&c->r, j, text, e) != 0)
        return fy_ctx(e, "cases[%zu]", i);
    bool fails = c->r.error.there && !c->r.error.null;
    if (!fails && (!c->r.expected.there || c->r.expected.null))
        return fy_fail(e, FY_EFORMAT, "cases[%zu]: has neither \"expected\" nor \"error\"", i);
    if (c->d->loaded == NULL && !c->r.template_text.there)
        return fy_fail(e, FY_EARG,
                       "cases[%zu]: has no template of its own; name one with --file, "
                       "--chat-template or -m",
                       i);
    fy_err why = {0};
    fy_str_clear(&c->text);
    int rc = fy_template_request_render(&c->r, c->d, &c->text, &why);
    c->n_compared++;
    if (fails)
        compare_error(c, i, rc, &why);
    else if (rc != 0)
        report_error(c, i, "expected ", (fy_span){fy_str_z(&c->r.expected.s), c->r.expected.s.len},
                     why.msg);
    else
        compare_text(c, i);
    return 0;
}

static int compare_list(comparison *c, fy_json *j, fy_span text, fy_err *e)
{
    size_t i = 0;
    int rc = fy_json_array_begin(j, e);
    while (rc == 0 && (rc = fy_json_array_next(j, e)) == 1)
        rc = compare_case(c, j, text, i++, e);
    return rc;
}

static int compare_all(comparison *c, fy_span text, fy_err *e)
{
    fy_json *j = fy_json_new(text.ptr, text.len, e);
    fy_span key;
    bool any = false;
    int rc = j != NULL ? fy_json_object_begin(j, e) : -1;
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        bool here = fy_span_is(key, "cases");
        any = any || here;
        rc = here ? compare_list(c, j, text, e) : fy_json_skip(j, e);
    }
    if (rc == 0)
        rc = fy_json_end(j, e);
    fy_json_free(j);
    if (rc == 0 && (!any || c->n_compared == 0))
        rc = fy_fail(e, FY_EFORMAT, "has nothing to compare: no \"cases\"");
    return rc;
}

static int take_token(fy_request_text *to, const fy_request_text *from, fy_err *e)
{
    if (!from->there)
        return 0;
    to->there = true;
    to->null = from->null;
    fy_str_clear(&to->s);
    fy_str_add(&to->s, fy_str_z(&from->s), from->s.len);
    return to->s.oom ? fy_nomem(e) : 0;
}

/* The tokens next to "cases", which may come before or after it. */
static int read_tokens(fy_span text, fy_template_defaults *d, fy_err *e)
{
    fy_template_request r = {0};
    fy_json *j = fy_json_new(text.ptr, text.len, e);
    int rc = j != NULL ? fy_template_request_read(&r, j, text, e) : -1;
    if (rc == 0)
        rc = take_token(&d->bos_token, &r.bos_token, e);
    if (rc == 0)
        rc = take_token(&d->eos_token, &r.eos_token, e);
    fy_json_free(j);
    fy_template_request_release(&r);
    return rc;
}

int fy_template_verify(const char *path, fy_template_defaults *d, fy_str *report, fy_err *e)
{
    fy_map file;
    if (fy_map_open(&file, path, e) != 0)
        return -1;
    fy_span text = {(const char *)file.data, file.size};
    comparison c = {.d = d, .report = report};
    int rc = read_tokens(text, d, e);
    if (rc == 0)
        rc = compare_all(&c, text, e);
    if (rc != 0)
        fy_ctx(e, "%s", path);
    if (rc == 0 && c.n_different > MAX_SHOWN)
        fy_str_printf(report, "... and %zu more\n", c.n_different - MAX_SHOWN);
    if (rc == 0)
        fy_str_printf(report, "%zu cases, %zu differ\n", c.n_compared, c.n_different);
    if (rc == 0 && c.n_different > 0)
        rc = fy_fail(e, FY_EVERIFY, "%s: %zu of %zu cases differ", path, c.n_different,
                     c.n_compared);
    fy_template_request_release(&c.r);
    fy_str_release(&c.text);
    fy_map_close(&file);
    return rc;
}
