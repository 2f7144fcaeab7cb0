#include "cli/template_verify.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

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

/* Where two texts part, moved back to the beginning of its character. */
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

/* Begins a report line; false once enough lines are there. */
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

/* An error was expected. Texts longer than a message holds are compared as far as it goes. */
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

/* The tokens that stand beside "cases", before or behind it. */
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
