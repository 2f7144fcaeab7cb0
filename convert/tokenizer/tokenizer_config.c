#include "convert/tokenizer/tokenizer_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "convert/tokenizer/generation_config.h"
#include "base/json_tree.h"
#include "format/sniff.h"

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

int fy_tokenizer_config_object(const char *dir, const char *name, json_t **out, fy_err *e)
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
                 {"config.json", &c->model},
                 {"params.json", &c->params}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (fy_tokenizer_config_object(dir, files[i].name, files[i].out, e) != 0)
            return -1;
    }
    return fy_generation_config_read(dir, &c->generation, e);
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
