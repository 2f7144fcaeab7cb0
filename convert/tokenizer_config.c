#include "convert/tokenizer_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/quote.h"
#include "base/utf8.h"
#include "convert/json_tree.h"
#include "format/sniff.h"

/* --- files --- */

static int check_kind(const fy_map *m, const char *path, fy_err *e)
{
    const char *what = fy_sniff(m->data, m->size);
    if (what == NULL || strcmp(what, FY_SNIFF_JSON) == 0)
        return 0;
    return fy_fail(e, FY_EFORMAT, "%s: not the file itself but %s", path, what);
}

int fy_tokenizer_config_map(const char *dir, const char *name, fy_map *m, fy_err *e)
{
    char *path = fy_path_join(dir, name);
    if (path == NULL)
        return fy_nomem(e);
    int rc = 1;
    if (fy_file_exists(path)) {
        rc = fy_map_open(m, path, e);
        if (rc == 0 && check_kind(m, path, e) != 0) {
            fy_map_close(m);
            rc = -1;
        }
    }
    free(path);
    return rc;
}

static int read_object(const char *dir, const char *name, json_t **out, fy_err *e)
{
    fy_map m = {0};
    int rc = fy_tokenizer_config_map(dir, name, &m, e);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if ((*out = fy_json_tree(m.data, m.size, e)) == NULL)
        rc = fy_ctx(e, "%s/%s", dir, name);
    else if (!json_is_object(*out))
        rc = fy_fail(e, FY_EFORMAT, "%s/%s: no JSON object", dir, name);
    fy_map_close(&m);
    return rc;
}

/* --- chat templates --- */

/* A second template of the same name is dropped: the callers go from the stronger source to the
 * weaker. */
static int add_template(fy_tokenizer_config *c, fy_span name, fy_span text, fy_err *e)
{
    fy_chat_template t = {.name = {0}};
    for (size_t i = 0; i < name.len; i++) {
        char ch = name.ptr[i];
        bool plain = (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9');
        fy_str_putc(&t.name, plain ? ch : ch >= 'A' && ch <= 'Z' ? (char)(ch - 'A' + 'a') : '_');
    }
    for (size_t i = 0; i < c->n_templates; i++) {
        if (strcmp(fy_str_z(&c->templates[i].name), fy_str_z(&t.name)) == 0) {
            fy_str_release(&t.name);
            return 0;
        }
    }
    fy_str_add(&t.text, text.ptr, text.len);
    fy_chat_template *grown = realloc(c->templates, (c->n_templates + 1) * sizeof *grown);
    if (grown != NULL)
        c->templates = grown;
    if (grown == NULL || t.name.oom || t.text.oom) {
        fy_str_release(&t.name);
        fy_str_release(&t.text);
        return fy_nomem(e);
    }
    c->templates[c->n_templates++] = t;
    return 0;
}

/* "chat_template": a text, or a list of {name, template}. Anything else (null) is no template. */
static int add_templates(fy_tokenizer_config *c, const json_t *v, fy_err *e)
{
    if (json_is_string(v))
        return add_template(c, FY_SPAN("default"),
                            (fy_span){json_string_value(v), json_string_length(v)}, e);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *name = json_object_get(json_array_get(v, i), "name");
        const json_t *text = json_object_get(json_array_get(v, i), "template");
        if (json_string_length(name) == 0 || json_string_length(name) > 100 ||
            !json_is_string(text))
            return fy_fail(e, FY_EFORMAT,
                           "chat_template[%zu]: expected an object with 'name' and 'template'", i);
        if (add_template(c, fy_span_of(json_string_value(name)),
                         (fy_span){json_string_value(text), json_string_length(text)}, e) != 0)
            return -1;
    }
    return 0;
}

/* The template files win over tokenizer_config.json. */
static int read_templates(const char *dir, fy_tokenizer_config *c, fy_err *e)
{
    fy_map m = {0};
    json_t *file = NULL;
    int rc = fy_tokenizer_config_map(dir, "chat_template.jinja", &m, e);
    if (rc < 0)
        return -1;
    if (rc == 0) {
        if (m.size > FY_JSON_TREE_MAX || !fy_utf8_valid((const char *)m.data, m.size))
            rc = fy_fail(e, FY_EFORMAT,
                         "%s/chat_template.jinja: not UTF-8 text of at most %zu bytes", dir,
                         FY_JSON_TREE_MAX);
        else
            rc = add_template(c, FY_SPAN("default"), (fy_span){(const char *)m.data, m.size}, e);
        fy_map_close(&m);
        if (rc != 0)
            return -1;
    }
    rc = read_object(dir, "chat_template.json", &file, e);
    if (rc == 0 && add_templates(c, json_object_get(file, "chat_template"), e) != 0)
        rc = fy_ctx(e, "%s/chat_template.json", dir);
    json_decref(file);
    if (rc == 0 && add_templates(c, json_object_get(c->tokenizer, "chat_template"), e) != 0)
        rc = fy_ctx(e, "%s/tokenizer_config.json", dir);
    return rc;
}

/* --- reading --- */

int fy_tokenizer_config_read(const char *dir, fy_tokenizer_config *c, fy_err *e)
{
    *c = (fy_tokenizer_config){0};
    const struct {
        const char *name;
        json_t **out;
    } files[] = {{"tokenizer_config.json", &c->tokenizer},
                 {"special_tokens_map.json", &c->special_map},
                 {"added_tokens.json", &c->added},
                 {"generation_config.json", &c->generation},
                 {"config.json", &c->model}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (read_object(dir, files[i].name, files[i].out, e) != 0)
            return -1;
    }
    return read_templates(dir, c, e);
}

void fy_tokenizer_config_release(fy_tokenizer_config *c)
{
    json_decref(c->tokenizer);
    json_decref(c->special_map);
    json_decref(c->added);
    json_decref(c->generation);
    json_decref(c->model);
    for (size_t i = 0; i < c->n_templates; i++) {
        fy_str_release(&c->templates[i].name);
        fy_str_release(&c->templates[i].text);
    }
    free(c->templates);
    *c = (fy_tokenizer_config){0};
}

/* --- added tokens --- */

static int added_id(const char *text, uint64_t *id, fy_err *e)
{
    char q[FY_QUOTE_BYTES], *end;
    unsigned long long v =
        text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : (end = NULL, 0);
    if (end == NULL || *end != '\0')
        return fy_fail(e, FY_EFORMAT, "'%s' is no token id",
                       fy_quote(q, sizeof q, fy_span_of(text)));
    *id = v;
    return 0;
}

int fy_tokenizer_config_added_old(const fy_tokenizer_config *c, fy_added_tokens *a, fy_err *e)
{
    const char *text;
    json_t *v;
    json_object_foreach(c->added, text, v)
    {
        uint32_t id;
        if (!fy_tokenizer_config_id(v, &id)) {
            char q[FY_QUOTE_BYTES];
            return fy_fail(e, FY_EFORMAT, "added_tokens.json: '%s' has no token id",
                           fy_quote(q, sizeof q, fy_span_of(text)));
        }
        fy_span span = fy_span_of(text);
        if (fy_added_tokens_push(a, id, span, fy_added_token_looks_special(span), 0, e) != 0)
            return fy_ctx(e, "added_tokens.json");
    }
    return 0;
}

static int push_decoder_entry(const char *key, const json_t *v, fy_added_tokens *a, fy_err *e)
{
    const json_t *text = json_object_get(v, "content");
    uint64_t id = 0;
    uint8_t flags = 0;
    const char *name;
    json_t *on;
    if (added_id(key, &id, e) != 0)
        return -1;
    if (!json_is_string(text))
        return fy_fail(e, FY_EFORMAT, "token %s: no text 'content'", key);
    json_object_foreach((json_t *)(uintptr_t)v, name, on)
    { /* the iterator takes no const pointer */
        if (json_is_true(on))
            flags |= fy_added_token_flag(fy_span_of(name));
    }
    return fy_added_tokens_push(a, id, (fy_span){json_string_value(text), json_string_length(text)},
                                json_is_true(json_object_get(v, "special")), flags, e);
}

int fy_tokenizer_config_added(const fy_tokenizer_config *c, fy_added_tokens *a, fy_err *e)
{
    const char *key;
    json_t *v;
    json_object_foreach(json_object_get(c->tokenizer, "added_tokens_decoder"), key, v)
    {
        if (push_decoder_entry(key, v, a, e) != 0)
            return fy_ctx(e, "tokenizer_config.json: added_tokens_decoder");
    }
    return 0;
}

/* --- numbers --- */

bool fy_tokenizer_config_id(const json_t *v, uint32_t *id)
{
    if (json_is_array(v))
        v = json_array_get(v, 0);
    double d = json_is_number(v) ? json_number_value(v) : -1;
    if (!(d >= 0 && d < FY_TOKENS_MAX) || d != (double)(uint32_t)d)
        return false;
    *id = (uint32_t)d;
    return true;
}

const json_t *fy_tokenizer_config_model(const fy_tokenizer_config *c, const char *key)
{
    const json_t *v = json_object_get(c->model, key);
    return v != NULL ? v : json_object_get(json_object_get(c->model, "text_config"), key);
}

uint64_t fy_tokenizer_config_vocab_size(const fy_tokenizer_config *c)
{
    double d = json_number_value(fy_tokenizer_config_model(c, "vocab_size"));
    return d >= 1 && d < 0x1p53 ? (uint64_t)d : 0;
}
