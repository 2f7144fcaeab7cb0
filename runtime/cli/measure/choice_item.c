/* Reading one line of a multiple choice file. */
#include "cli/measure/choice_item.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measure/eval_items.h"
#include "model/template/template.h"

size_t fy_choice_length(fy_span text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += ((uint8_t)text.ptr[i] & 0xC0) != 0x80;
    return n;
}

static fy_span text_of(const json_t *j)
{
    return (fy_span){json_string_value(j), json_string_length(j)};
}

/* Where "[...]" that begins at `at` ends: behind the bracket, or `at` when none closes it in its
 * line. */
static size_t bracket_end(fy_span s, size_t at)
{
    for (size_t i = at + 1; i < s.len && s.ptr[i] != '\n'; i++) {
        if (s.ptr[i] == ']')
            return i + 1;
    }
    return at;
}

/* Appends s without its brackets, then every two spaces as one: from left to right, once. */
static void put_unbracketed(fy_span s, fy_str *out)
{
    bool space = false; /* the last byte of out is the first of two spaces */
    for (size_t i = 0; i < s.len;) {
        const size_t end = s.ptr[i] == '[' ? bracket_end(s, i) : i;
        if (end > i) {
            i = end;
            continue;
        }
        if (!(space && s.ptr[i] == ' '))
            fy_str_putc(out, s.ptr[i]);
        space = s.ptr[i] == ' ' && !space;
        i++;
    }
}

/* Appends a text of HellaSwag as lm-evaluation-harness cleans it:
 * text.strip().replace(" [title]", ". "), then without brackets. */
static int clean(fy_span text, fy_str *out, fy_err *e)
{
    const fy_span title = FY_SPAN(" [title]");
    fy_str titled = {0};
    text = fy_text_strip(text);
    for (const char *found; text.len > 0; text.len -= title.len, text.ptr += title.len) {
        found = memmem(text.ptr, text.len, title.ptr, title.len);
        const size_t plain = found != NULL ? (size_t)(found - text.ptr) : text.len;
        fy_str_add(&titled, text.ptr, plain);
        text = (fy_span){text.ptr + plain, text.len - plain};
        if (found == NULL)
            break;
        fy_str_puts(&titled, ". ");
    }
    put_unbracketed((fy_span){fy_str_z(&titled), titled.len}, out);
    const bool oom = titled.oom || out->oom;
    fy_str_release(&titled);
    return oom ? fy_nomem(e) : 0;
}

/* activity_label + ": " + ctx_a + " " + ctx_b.capitalize(), cleaned. */
static int clean_query(const fy_span parts[3], fy_str *out, fy_err *e)
{
    fy_str joined = {0};
    fy_str_add(&joined, parts[0].ptr, parts[0].len);
    fy_str_puts(&joined, ": ");
    fy_str_add(&joined, parts[1].ptr, parts[1].len);
    fy_str_putc(&joined, ' ');
    fy_text_capitalize(parts[2], &joined);
    const int rc =
        joined.oom ? fy_nomem(e) : clean((fy_span){fy_str_z(&joined), joined.len}, out, e);
    fy_str_release(&joined);
    return rc;
}

/* The first of the members that is there. */
static const json_t *member(const json_t *object, const char *const *names, const char **name)
{
    const json_t *j = NULL;
    for (; *names != NULL && j == NULL; names++) {
        *name = *names;
        j = json_object_get(object, *names);
    }
    return j;
}

static int read_query(const json_t *object, bool hellaswag, fy_str *out, fy_err *e)
{
    static const char *const plain[] = {"query", "ctx", "context", NULL};
    static const char *const names[] = {"activity_label", "ctx_a", "ctx_b"};
    const char *name = NULL;
    fy_span parts[3];
    for (size_t i = 0; hellaswag && i < 3; i++) {
        const json_t *j = json_object_get(object, names[i]);
        if (!json_is_string(j))
            return fy_fail(e, FY_EFORMAT, "\"%s\" is not a string", names[i]);
        parts[i] = text_of(j);
    }
    if (hellaswag)
        return clean_query(parts, out, e);
    const json_t *j = member(object, plain, &name);
    if (!json_is_string(j))
        return fy_fail(e, FY_EFORMAT,
                       j == NULL ? "no \"query\", \"ctx\" or \"context\""
                                 : "\"query\", \"ctx\" or \"context\" is not a string");
    fy_str_add(out, json_string_value(j), json_string_length(j));
    return out->oom ? fy_nomem(e) : 0;
}

static int read_choice(const json_t *j, bool hellaswag, size_t nth, fy_str *out, fy_err *e)
{
    if (!json_is_string(j))
        return fy_fail(e, FY_EFORMAT, "choice %zu is not a string", nth);
    if (hellaswag) {
        if (clean(text_of(j), out, e) != 0)
            return -1;
    } else {
        fy_str_add(out, json_string_value(j), json_string_length(j));
    }
    if (out->oom)
        return fy_nomem(e);
    return out->len > 0 ? 0 : fy_fail(e, FY_EFORMAT, "choice %zu is empty", nth);
}

static int read_choices(const json_t *object, bool hellaswag, fy_choice_item *out, fy_err *e)
{
    static const char *const names[] = {"choices", "endings", NULL};
    const char *name = NULL;
    const json_t *list = member(object, names, &name);
    if (!json_is_array(list) || json_array_size(list) < 2)
        return fy_fail(e, FY_EFORMAT,
                       "expected \"choices\" or \"endings\", an array of two strings "
                       "or more");
    out->choices = calloc(json_array_size(list), sizeof *out->choices);
    if (out->choices == NULL)
        return fy_nomem(e);
    out->n_choices = json_array_size(list);
    for (size_t i = 0; i < out->n_choices; i++) {
        if (read_choice(json_array_get(list, i), hellaswag, i, &out->choices[i], e) != 0)
            return -1;
    }
    return 0;
}

/* -1: not such a number. */
static int64_t label_of(const json_t *j)
{
    if (json_is_integer(j))
        return json_integer_value(j);
    const char *text = json_string_value(j); /* NULL of what is no string */
    const size_t n = text != NULL ? strspn(text, "0123456789") : 0;
    return n > 0 && n < 10 && n == json_string_length(j) ? strtoll(text, NULL, 10) : -1;
}

static int read_label(const json_t *object, fy_choice_item *out, fy_err *e)
{
    static const char *const names[] = {"gold", "label", NULL};
    const char *name = NULL;
    const json_t *j = member(object, names, &name);
    const int64_t label = label_of(j);
    if (label < 0 || (uint64_t)label >= out->n_choices)
        return fy_fail(e, FY_EFORMAT, "%s \"gold\" or \"label\", expected 0 to %zu",
                       j == NULL ? "no" : "unknown or too large", out->n_choices - 1);
    out->label = (size_t)label;
    return 0;
}

int fy_choice_read(fy_span line, fy_choice_item *out, fy_err *e)
{
    json_t *j = fy_eval_line_json(line, e);
    if (j == NULL)
        return -1;
    const bool hellaswag = json_object_get(j, "activity_label") != NULL &&
                           json_object_get(j, "ctx_a") != NULL &&
                           json_object_get(j, "ctx_b") != NULL;
    int rc = read_query(j, hellaswag, &out->query, e);
    if (rc == 0)
        rc = read_choices(j, hellaswag, out, e);
    if (rc == 0)
        rc = read_label(j, out, e);
    json_decref(j);
    return rc;
}

void fy_choice_release(fy_choice_item *item)
{
    for (size_t i = 0; i < item->n_choices; i++)
        fy_str_release(&item->choices[i]);
    free(item->choices);
    fy_str_release(&item->query);
    *item = (fy_choice_item){0};
}
