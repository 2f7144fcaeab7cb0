/* Reads the small files of a checkpoint directory that complete its tokenizer, and writes the keys
 * that come from them alone: sampling hints and chat templates. */
#include "convert/tokenizer/tokenizer_config.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "base/log.h"
#include "bundle/bundle.h"
#include "format/sniff.h"
#include "model/template/chat_template.h"
#include "model/template/template.h"

/* --- files --- */

static int check_kind(const fy_map *m, const char *path, fy_err *e)
{
    const char *what = fy_sniff(m->data, m->size);
    if (what == NULL || strcmp(what, FY_SNIFF_JSON) == 0)
        return 0;
    return fy_fail(e, FY_EFORMAT, "%s: not the file itself but %s", path, what);
}

int fy_tokenizer_config_map_path(const char *path, fy_map *m, fy_err *e)
{
    if (fy_map_open(m, path, e) != 0)
        return -1;
    if (check_kind(m, path, e) == 0)
        return 0;
    fy_map_close(m);
    return -1;
}

int fy_tokenizer_config_map(const char *dir, const char *name, fy_map *m, fy_err *e)
{
    char *path = fy_path_join(dir, name);
    if (path == NULL)
        return fy_nomem(e);
    int rc = fy_file_exists(path) ? fy_tokenizer_config_map_path(path, m, e) : 1;
    free(path);
    return rc;
}

#define GENERATION_FILE "generation_config.json"
#define MODEL_FILE      "config.json"

/* Reads dir/name as a JSON object. No such file: *out is left as it is, 0. */
static int read_object(const char *dir, const char *name, json_t **out, fy_err *e)
{
    fy_map m = {0};
    char *path = fy_path_join(dir, name);
    if (path == NULL)
        return fy_nomem(e);
    int rc = fy_tokenizer_config_map(dir, name, &m, e);
    if (rc == 0) {
        const bool quiet = strcmp(name, MODEL_FILE) == 0; /* whose own reader has warned */
        *out = fy_json_tree_of_python(m.data, m.size, quiet ? NULL : path, e);
        if (*out == NULL)
            rc = fy_ctx(e, "%s", path);
        else if (!json_is_object(*out))
            rc = fy_fail(e, FY_EFORMAT, "%s: not a JSON object", path);
    }
    fy_map_close(&m);
    free(path);
    return rc < 0 ? -1 : 0;
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
                 {MODEL_FILE, &c->model},
                 {"params.json", &c->params},
                 {GENERATION_FILE, &c->generation}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (read_object(dir, files[i].name, files[i].out, e) != 0)
            return -1;
    }
    return 0;
}

void fy_tokenizer_config_release(fy_tokenizer_config *c)
{
    json_decref(c->tokenizer);
    json_decref(c->special_map);
    json_decref(c->added);
    json_decref(c->generation);
    json_decref(c->model);
    json_decref(c->params);
    *c = (fy_tokenizer_config){0};
}

/* --- added tokens --- */

static int added_id(const char *text, uint64_t *id, fy_err *e)
{
    char q[FY_QUOTE_BYTES], *end;
    unsigned long long v =
        text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : (end = NULL, 0);
    if (end == NULL || *end != '\0')
        return fy_fail(e, FY_EFORMAT, "'%s' is not a token id",
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

/* The attributes of an added token that are true. */
static uint8_t flags_of(const json_t *token)
{
    uint8_t flags = 0;
    const char *name;
    json_t *on;
    json_object_foreach((json_t *)(uintptr_t)token, name, on)
    { /* the iterator takes no const pointer */
        if (json_is_true(on))
            flags |= fy_added_token_flag(fy_span_of(name));
    }
    return flags;
}

static int push_decoder_entry(const char *key, const json_t *v, fy_added_tokens *a, fy_err *e)
{
    const json_t *text = json_object_get(v, "content");
    uint64_t id = 0;
    if (added_id(key, &id, e) != 0)
        return -1;
    if (!json_is_string(text))
        return fy_fail(e, FY_EFORMAT, "token %s: no text 'content'", key);
    return fy_added_tokens_push(a, id, (fy_span){json_string_value(text), json_string_length(text)},
                                json_is_true(json_object_get(v, "special")), flags_of(v), e);
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

/* "<s>" or {"content": "<s>", "lstrip": false, ...} */
static int push_named(const json_t *v, const fy_token_table *t, fy_added_tokens *a, fy_err *e)
{
    const json_t *text = json_is_object(v) ? json_object_get(v, "content") : v;
    uint32_t id;
    if (!json_is_string(text))
        return 0;
    fy_span s = {json_string_value(text), json_string_length(text)};
    return fy_token_table_find(t, s, &id) ? fy_added_tokens_push(a, id, s, true, flags_of(v), e)
                                          : 0;
}

int fy_tokenizer_config_added_named(const fy_tokenizer_config *c, const fy_token_table *t,
                                    fy_added_tokens *a, fy_err *e)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    const json_t *const files[] = {c->special_map, c->tokenizer};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        const json_t *more = json_object_get(files[f], "additional_special_tokens");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (push_named(json_object_get(files[f], names[i]), t, a, e) != 0)
                return -1;
        }
        for (size_t i = 0; i < json_array_size(more); i++) {
            if (push_named(json_array_get(more, i), t, a, e) != 0)
                return -1;
        }
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

/* --- generation_config.json --- */

/* NAN: the file has no such value, or one that cannot be used. */
static double value_of(const json_t *config, const fy_hint_row *r)
{
    const json_t *v = json_object_get(config, r->config);
    if (v == NULL || json_is_null(v))
        return NAN;
    double x = json_is_number(v) ? json_number_value(v) : NAN;
    if (x >= r->min && x <= r->max && (!r->whole || x == floor(x)))
        return x;
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT), shown[FY_QUOTE_BYTES];
    fy_log(FY_LOG_WARN, GENERATION_FILE ": %s is %s, expected %s from %g to %g; left out",
           r->config, fy_quote(shown, sizeof shown, fy_span_of(text != NULL ? text : "?")),
           r->whole ? "an integer" : "a number", r->min, r->max);
    free(text);
    return NAN;
}

int fy_generation_config_write(const json_t *config, fy_gguf_writer *w, fy_err *e)
{
    bool greedy = json_is_false(json_object_get(config, "do_sample"));
    for (int h = 0; h < FY_HINTS; h++) {
        const fy_hint_row *r = &fy_hints[h];
        if (r->config == NULL)
            continue;
        double x = greedy && h == FY_HINT_TEMP ? 0 : value_of(config, r);
        if (isnan(x))
            continue;
        int rc = r->whole ? fy_gguf_add_i32(w, r->gguf, (int32_t)x, e)
                          : fy_gguf_add_f32(w, r->gguf, (float)x, e);
        if (rc != 0)
            return -1;
    }
    return 0;
}

/* --- chat templates --- */

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

/* A second template of the same name is dropped. */
static int add(json_t *t, fy_span name, fy_span text, const char *from, fy_err *e)
{
    fy_str key = {0};
    char shown[512]; /* a path may be anything, JSON is UTF-8 */
    int rc = 0;
    put_key_name(&key, name);
    if (key.oom ||
        (json_object_get(t, fy_str_z(&key)) == NULL &&
         json_object_set_new(t, fy_str_z(&key),
                             json_pack("{s:s%, s:s}", "text", text.ptr, text.len, "from",
                                       fy_quote(shown, sizeof shown, fy_span_of(from)))) != 0))
        rc = fy_nomem(e);
    fy_str_release(&key);
    return rc;
}

/* --- template files --- */

/* 1: there is no such file. */
static int read_file(const char *dir, const char *file, fy_span name, json_t *t, fy_err *e)
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

/* In the order of their names, not in that of the file system. */
static int read_named_files(const char *dir, json_t *t, fy_err *e)
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
 * means that there is none. */
static int add_json(json_t *t, const json_t *v, const char *from, fy_err *e)
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

static int read_json_file(const char *dir, json_t *t, fy_err *e)
{
    json_t *file = NULL;
    int rc = read_object(dir, JSON_FILE, &file, e);
    if (rc == 0 && add_json(t, json_object_get(file, "chat_template"), JSON_FILE, e) != 0)
        rc = fy_ctx(e, "%s", dir);
    json_decref(file);
    return rc;
}

static int read_places(const char *dir, const json_t *tokenizer_config, json_t *t, fy_err *e)
{
    if (read_file(dir, MAIN_FILE, FY_SPAN(MAIN_NAME), t, e) < 0 || read_named_files(dir, t, e) != 0)
        return -1;
    if (json_object_size(t) == 0 && read_json_file(dir, t, e) != 0)
        return -1;
    if (json_object_size(t) == 0 && add_json(t, json_object_get(tokenizer_config, "chat_template"),
                                             "tokenizer_config.json", e) != 0)
        return fy_ctx(e, "%s", dir);
    return 0;
}

/* `t` if rc is 0. */
static json_t *made(json_t *t, int rc, fy_err *e)
{
    if (t == NULL)
        fy_nomem(e);
    if (rc == 0)
        return t;
    json_decref(t);
    return NULL;
}

json_t *fy_hf_templates_read(const char *dir, const json_t *tokenizer_config, fy_err *e)
{
    json_t *t = json_object();
    return made(t, t != NULL ? read_places(dir, tokenizer_config, t, e) : -1, e);
}

json_t *fy_hf_templates_of(const char *which, fy_err *e)
{
    json_t *t = json_object();
    if (strcmp(which, "none") == 0)
        return made(t, 0, e);
    fy_chat_template *c = fy_chat_template_open(NULL, which, e);
    int rc = c != NULL ? add(t, FY_SPAN(MAIN_NAME), fy_chat_template_text(c, false), which, e) : -1;
    fy_chat_template_free(c);
    return made(t, rc, e);
}

/* --- writing --- */

static int check(const char *name, const json_t *t, fy_span text, fy_err *e)
{
    fy_err why = {0};
    fy_template *tree = fy_template_parse(text, &why);
    if (tree != NULL) {
        fy_template_free(tree);
        return 0;
    }
    return fy_fail(e, why.code,
                   "%s: chat template '%s': %s; --chat-template none leaves the templates out, "
                   "--chat-template NAME or FILE replaces them",
                   json_string_value(json_object_get(t, "from")), name, why.msg);
}

int fy_hf_templates_write(json_t *templates, fy_gguf_writer *w, fy_err *e)
{
    size_t n_named = 0;
    const char *name;
    json_t *t;
    json_object_foreach(templates, name, t)
    {
        const json_t *v = json_object_get(t, "text");
        const fy_span text = {json_string_value(v), json_string_length(v)};
        const bool is_main = strcmp(name, MAIN_NAME) == 0;
        char key[sizeof FY_KEY_CHAT_TEMPLATE + MAX_NAME + 1] = FY_KEY_CHAT_TEMPLATE;
        if (!is_main)
            snprintf(key, sizeof key, FY_KEY_CHAT_TEMPLATE ".%s", name);
        n_named += !is_main;
        if (check(name, t, text, e) != 0 || fy_gguf_add_str(w, key, text, e) != 0)
            return -1;
    }
    if (n_named == 0)
        return 0;
    int rc = fy_gguf_begin_strings(w, FY_KEY_CHAT_TEMPLATES, e);
    json_object_foreach(templates, name, t)
    {
        if (rc == 0 && strcmp(name, MAIN_NAME) != 0)
            rc = fy_gguf_add_string(w, fy_span_of(name), e);
    }
    return rc == 0 ? fy_gguf_end_strings(w, e) : rc;
}
