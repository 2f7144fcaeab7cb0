/* Reads the YAML at the top of README.md with libyaml's events, within bounds of depth, length and
 * number, and keeps all values as texts. */
#include "convert/source/model_card.h"

#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

enum {
    MAX_BYTES = 1 << 20, /* of the front matter; cards with many evaluations have some 100 kB */
    MAX_DEPTH = 32,
    MAX_ITEMS = 256, /* of a list or object that is kept */
    MAX_TEXT = 4096, /* bytes of a text that is kept */
};

/* --- YAML ----------------------------------------------------------------------------------- */

typedef struct {
    yaml_parser_t parser;
    fy_err *e;
} reader;

static int next(reader *r, yaml_event_t *ev)
{
    if (yaml_parser_parse(&r->parser, ev))
        return 0;
    if (r->parser.error == YAML_MEMORY_ERROR)
        return fy_nomem(r->e);
    return fy_fail(r->e, FY_EFORMAT, "line %zu: %s", r->parser.problem_mark.line + 2,
                   r->parser.problem != NULL ? r->parser.problem : "no YAML");
}

/* A plain word that YAML reads as nothing. */
static bool is_null(const yaml_event_t *ev)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    const char *text = (const char *)ev->data.scalar.value;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

/* NULL without an error: nothing that is kept. */
static int text_of(const reader *r, const yaml_event_t *ev, json_t **out)
{
    const char *text = (const char *)ev->data.scalar.value;
    size_t n = ev->data.scalar.length;
    if (is_null(ev) || n > MAX_TEXT || memchr(text, '\0', n) != NULL)
        return 0;
    *out = json_stringn(text, n);
    return *out != NULL ? 0 : fy_nomem(r->e);
}

static int read_node(reader *r, const yaml_event_t *ev, int depth, bool keep, json_t **out);

/* The next node; *end: there was none, the list or object is at its end. */
static int next_node(reader *r, int depth, bool keep, bool *end, json_t **out)
{
    yaml_event_t ev;
    *end = false;
    *out = NULL;
    if (next(r, &ev) != 0)
        return -1;
    *end = ev.type == YAML_SEQUENCE_END_EVENT || ev.type == YAML_MAPPING_END_EVENT;
    int rc = *end ? 0 : read_node(r, &ev, depth, keep, out);
    yaml_event_delete(&ev);
    return rc;
}

static int read_list(reader *r, int depth, json_t *list)
{
    for (;;) {
        bool end, keep = list != NULL && json_array_size(list) < MAX_ITEMS;
        json_t *item;
        if (next_node(r, depth + 1, keep, &end, &item) != 0)
            return -1;
        if (end)
            return 0;
        if (item != NULL && json_array_append_new(list, item) != 0)
            return fy_nomem(r->e);
    }
}

static int read_object(reader *r, int depth, json_t *object)
{
    for (;;) {
        bool end, keep = object != NULL && json_object_size(object) < MAX_ITEMS;
        json_t *key, *value = NULL;
        if (next_node(r, depth + 1, keep, &end, &key) != 0)
            return -1;
        if (end)
            return 0;
        const char *name = json_string_value(key); /* NULL: a key of another kind */
        int rc = next_node(r, depth + 1, name != NULL, &end, &value);
        if (rc == 0 && value != NULL)
            rc = json_object_set_new(object, name, value) != 0 ? fy_nomem(r->e) : 0;
        json_decref(key);
        if (rc != 0)
            return -1;
    }
}

static int read_node(reader *r, const yaml_event_t *ev, int depth, bool keep, json_t **out)
{
    bool is_list = ev->type == YAML_SEQUENCE_START_EVENT;
    if (ev->type == YAML_SCALAR_EVENT)
        return keep ? text_of(r, ev, out) : 0;
    if (!is_list && ev->type != YAML_MAPPING_START_EVENT)
        return 0; /* an alias */
    if (depth >= MAX_DEPTH)
        return fy_fail(r->e, FY_EFORMAT, "line %zu: nested more than %d levels",
                       ev->start_mark.line + 2, MAX_DEPTH);
    json_t *made = keep ? is_list ? json_array() : json_object() : NULL;
    if (keep && made == NULL)
        return fy_nomem(r->e);
    if (is_list ? read_list(r, depth, made) : read_object(r, depth, made)) {
        json_decref(made);
        return -1;
    }
    *out = made;
    return 0;
}

/* The first document; a card that is a list or a word says nothing. */
static int read_document(reader *r, json_t **out)
{
    for (;;) {
        yaml_event_t ev;
        if (next(r, &ev) != 0)
            return -1;
        bool head = ev.type == YAML_STREAM_START_EVENT || ev.type == YAML_DOCUMENT_START_EVENT;
        int rc = ev.type == YAML_STREAM_END_EVENT || head
                     ? 0
                     : read_node(r, &ev, 0, ev.type == YAML_MAPPING_START_EVENT, out);
        yaml_event_delete(&ev);
        if (!head)
            return rc;
    }
}

/* --- the front matter ----------------------------------------------------------------------- */

/* Where the line at p ends, without its CR; *next is after its LF. */
static size_t line_end(const char *p, size_t n, size_t *next)
{
    const char *lf = memchr(p, '\n', n);
    size_t end = lf != NULL ? (size_t)(lf - p) : n;
    *next = lf != NULL ? end + 1 : n;
    return end > 0 && p[end - 1] == '\r' ? end - 1 : end;
}

/* What stands between the two lines "---"; empty: nothing does. */
static fy_span front_matter(const char *p, size_t n)
{
    size_t next, at;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
        p += 3;
        n -= 3;
    }
    if (!fy_span_is((fy_span){p, line_end(p, n, &at)}, "---"))
        return (fy_span){0};
    n = n < MAX_BYTES ? n : MAX_BYTES;
    for (size_t begin = at; at < n; at += next) {
        size_t len = line_end(p + at, n - at, &next);
        if (fy_span_is((fy_span){p + at, len}, "---"))
            return (fy_span){p + begin, at - begin};
    }
    return (fy_span){0};
}

/* As gguf-py does: some cards have tabs where YAML wants blanks. */
static void without_tabs(fy_span text, fy_str *out)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\t')
            fy_str_puts(out, "  ");
        else
            fy_str_putc(out, text.ptr[i]);
    }
}

int fy_model_card_parse(const void *p, size_t n, json_t **out, fy_err *e)
{
    reader r = {.e = e};
    fy_str text = {0};
    json_t *card = NULL;
    *out = NULL;
    without_tabs(front_matter(p, n), &text);
    if (text.oom || !yaml_parser_initialize(&r.parser)) {
        fy_str_release(&text);
        return fy_nomem(e);
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)fy_str_z(&text), text.len);
    int rc = read_document(&r, &card);
    yaml_parser_delete(&r.parser);
    fy_str_release(&text);
    if (rc == 0 && card == NULL && (card = json_object()) == NULL)
        rc = fy_nomem(e);
    if (rc == 0)
        *out = card;
    return rc;
}

/* No file, a damaged one, one that cannot be opened: the model is converted all the same. */
static int read_file(const char *path, json_t **out, fy_err *e)
{
    fy_map m = {0};
    if (!fy_file_exists(path))
        return fy_model_card_parse("", 0, out, e);
    if (fy_map_open(&m, path, e) != 0)
        return -1;
    int rc = fy_model_card_parse(m.data, m.size, out, e);
    fy_map_close(&m);
    return rc != 0 ? fy_ctx(e, "%s", path) : 0;
}

int fy_model_card_read(const char *dir, json_t **out, fy_err *e)
{
    fy_err why = {0};
    char *path = fy_path_join(dir, FY_MODEL_CARD);
    if (path == NULL)
        return fy_nomem(e);
    int rc = read_file(path, out, &why);
    free(path);
    if (rc == 0)
        return 0;
    if (why.code == FY_ENOMEM)
        return fy_nomem(e);
    char shown[sizeof why.msg];
    fy_log(FY_LOG_WARN, "%s; the model card says nothing then",
           fy_quote(shown, sizeof shown, fy_span_of(why.msg)));
    return fy_model_card_parse("", 0, out, e);
}

void fy_model_card_libraries(fy_str *out)
{
    fy_str_printf(out, "libyaml %s\n", yaml_get_version_string());
}
