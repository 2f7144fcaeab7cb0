#include "convert/tokenizer/hf_templates.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "base/json_tree.h"
#include "convert/tokenizer/tokenizer_config.h"
#include "model/template/chat_template.h"
#include "model/template/template.h"

#define MAIN_FILE "chat_template.jinja"
#define JSON_FILE "chat_template.json"
#define NAMED_DIR "additional_chat_templates"
#define SUFFIX    ".jinja"
#define MAIN_NAME "default"
#define MAX_NAME  100 /* bytes */
#define MAX_NAMED 64  /* files of NAMED_DIR */

/* --- the list --- */

static void put_key_name(fy_str *out, fy_span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        fy_str_putc(out, plain ? c : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : '_');
    }
}

static void release_one(fy_hf_template *t)
{
    fy_str_release(&t->name);
    fy_str_release(&t->text);
    fy_str_release(&t->from);
}

static bool is_there(const fy_hf_templates *t, const fy_str *name)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(fy_str_z(&t->items[i].name), fy_str_z(name)) == 0)
            return true;
    }
    return false;
}

/* A second template of the same name is dropped. */
static int add(fy_hf_templates *t, fy_span name, fy_span text, const char *from, fy_err *e)
{
    fy_hf_template one = {.name = {0}};
    put_key_name(&one.name, name);
    if (is_there(t, &one.name)) {
        release_one(&one);
        return 0;
    }
    fy_str_add(&one.text, text.ptr, text.len);
    fy_str_puts(&one.from, from);
    fy_hf_template *grown = realloc(t->items, (t->n + 1) * sizeof *grown);
    if (grown != NULL)
        t->items = grown;
    if (grown == NULL || one.name.oom || one.text.oom || one.from.oom) {
        release_one(&one);
        return fy_nomem(e);
    }
    t->items[t->n++] = one;
    return 0;
}

void fy_hf_templates_release(fy_hf_templates *t)
{
    for (size_t i = 0; i < t->n; i++)
        release_one(&t->items[i]);
    free(t->items);
    *t = (fy_hf_templates){0};
}

/* --- template files --- */

/* 1: there is no such file. */
static int read_file(const char *dir, const char *file, fy_span name, fy_hf_templates *t, fy_err *e)
{
    fy_map m = {0};
    int rc = fy_tokenizer_config_map(dir, file, &m, e);
    if (rc != 0)
        return rc;
    if (m.size > FY_TEMPLATE_MAX_BYTES || !fy_utf8_valid((const char *)m.data, m.size))
        rc = fy_fail(e, FY_EFORMAT, "%s/%s: not UTF-8 text of at most %u bytes", dir, file,
                     FY_TEMPLATE_MAX_BYTES);
    else
        rc = add(t, name, (fy_span){(const char *)m.data, m.size}, file, e);
    fy_map_close(&m);
    return rc;
}

static int is_template(const struct dirent *d)
{
    size_t n = strlen(d->d_name), suffix = sizeof SUFFIX - 1;
    return n > suffix && n - suffix <= MAX_NAME && d->d_name[0] != '.' &&
           strcmp(d->d_name + n - suffix, SUFFIX) == 0;
}

/* In the order of their names, whatever the file system's. */
static int read_named_files(const char *dir, fy_hf_templates *t, fy_err *e)
{
    char *path = fy_path_join(dir, NAMED_DIR);
    if (path == NULL)
        return fy_nomem(e);
    struct dirent **entries = NULL;
    int n = fy_file_is_dir(path) ? scandir(path, &entries, is_template, alphasort) : 0;
    int rc = n < 0 ? fy_fail_errno(e, "%s", path)
             : n > MAX_NAMED
                 ? fy_fail(e, FY_EFORMAT, "%s: %d templates, at most %d", path, n, MAX_NAMED)
                 : 0;
    for (int i = 0; i < n; i++) {
        char file[sizeof NAMED_DIR + MAX_NAME + sizeof SUFFIX + 1];
        const char *entry = entries[i]->d_name;
        snprintf(file, sizeof file, NAMED_DIR "/%.*s", MAX_NAME + (int)sizeof SUFFIX - 1, entry);
        if (rc == 0 &&
            read_file(dir, file, (fy_span){entry, strlen(entry) - (sizeof SUFFIX - 1)}, t, e) < 0)
            rc = -1;
        free(entries[i]);
    }
    free(entries);
    free(path);
    return rc;
}

/* --- JSON --- */

/* "chat_template": a text, or a list of {name, template}. Anything else (null)
 * is no template. */
static int add_json(fy_hf_templates *t, const json_t *v, const char *from, fy_err *e)
{
    if (json_is_string(v))
        return add(t, FY_SPAN(MAIN_NAME), (fy_span){json_string_value(v), json_string_length(v)},
                   from, e);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *name = json_object_get(json_array_get(v, i), "name");
        const json_t *text = json_object_get(json_array_get(v, i), "template");
        if (json_string_length(name) == 0 || json_string_length(name) > MAX_NAME ||
            !json_is_string(text))
            return fy_fail(e, FY_EFORMAT,
                           "%s: chat_template[%zu]: expected an object with 'name' "
                           "and 'template'",
                           from, i);
        if (add(t, fy_span_of(json_string_value(name)),
                (fy_span){json_string_value(text), json_string_length(text)}, from, e) != 0)
            return -1;
    }
    return 0;
}

static int read_json_file(const char *dir, fy_hf_templates *t, fy_err *e)
{
    json_t *file = NULL;
    int rc = fy_tokenizer_config_object(dir, JSON_FILE, &file, e);
    if (rc == 0 && add_json(t, json_object_get(file, "chat_template"), JSON_FILE, e) != 0)
        rc = fy_ctx(e, "%s", dir);
    json_decref(file);
    return rc;
}

int fy_hf_templates_read(const char *dir, const json_t *tokenizer_config, fy_hf_templates *t,
                         fy_err *e)
{
    *t = (fy_hf_templates){0};
    if (read_file(dir, MAIN_FILE, FY_SPAN(MAIN_NAME), t, e) < 0 || read_named_files(dir, t, e) != 0)
        return -1;
    if (t->n == 0 && read_json_file(dir, t, e) != 0)
        return -1;
    if (t->n == 0 && add_json(t, json_object_get(tokenizer_config, "chat_template"),
                              "tokenizer_config.json", e) != 0)
        return fy_ctx(e, "%s", dir);
    return 0;
}

int fy_hf_templates_replace(fy_hf_templates *t, const char *which, fy_err *e)
{
    fy_hf_templates_release(t);
    if (strcmp(which, "none") == 0)
        return 0;
    fy_chat_template *c = fy_chat_template_open(NULL, which, e);
    int rc = c != NULL ? add(t, FY_SPAN(MAIN_NAME), fy_chat_template_text(c, false), which, e) : -1;
    fy_chat_template_free(c);
    return rc;
}

/* --- writing --- */

static int check(const fy_hf_template *t, fy_err *e)
{
    fy_err why = {0};
    fy_template *tree = fy_template_parse((fy_span){fy_str_z(&t->text), t->text.len}, &why);
    if (tree != NULL) {
        fy_template_free(tree);
        return 0;
    }
    return fy_fail(e, why.code,
                   "%s: chat template '%s': %s; --chat-template none leaves the "
                   "templates out, "
                   "--chat-template NAME or FILE puts another one in their place",
                   fy_str_z(&t->from), fy_str_z(&t->name), why.msg);
}

static bool is_main(const fy_hf_template *t)
{
    return strcmp(fy_str_z(&t->name), MAIN_NAME) == 0;
}

static fy_span span_of(const fy_str *s)
{
    return (fy_span){fy_str_z(s), s->len};
}

int fy_hf_templates_write(const fy_hf_templates *t, fy_gguf_writer *w, fy_err *e)
{
    size_t n_named = 0;
    for (size_t i = 0; i < t->n; i++) {
        char key[sizeof FY_KEY_CHAT_TEMPLATE + MAX_NAME + 1] = FY_KEY_CHAT_TEMPLATE;
        if (!is_main(&t->items[i]))
            snprintf(key, sizeof key, FY_KEY_CHAT_TEMPLATE ".%s", fy_str_z(&t->items[i].name));
        n_named += !is_main(&t->items[i]);
        if (check(&t->items[i], e) != 0 ||
            fy_gguf_add_str(w, key, span_of(&t->items[i].text), e) != 0)
            return -1;
    }
    if (n_named == 0)
        return 0;
    int rc = fy_gguf_begin_strings(w, FY_KEY_CHAT_TEMPLATES, e);
    for (size_t i = 0; rc == 0 && i < t->n; i++) {
        if (!is_main(&t->items[i]))
            rc = fy_gguf_add_string(w, span_of(&t->items[i].name), e);
    }
    return rc == 0 ? fy_gguf_end_strings(w, e) : rc;
}
