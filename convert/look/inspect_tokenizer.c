/* A vocabulary in a few lines: what a reader has to know before it takes the file. */
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "convert/look/inspect_impl.h"
#include "convert/look/kv_text.h"
#include "model/template/chat_template.h"
#include "model/vocab/vocab.h"

static uint64_t count_of(const fy_gguf *g, const char *key)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, key);
    return kv != NULL && kv->type == FY_KV_ARRAY ? kv->count : 0;
}

/* "" when absent, or something else than text. */
static fy_span text_of(const fy_gguf *g, const char *key)
{
    fy_span s = {"", 0};
    fy_gguf_get_str(g, key, &s, NULL);
    return s;
}

/* The next key of a special token from *k on: its name without the beginning, its id. */
static const fy_gguf_kv *next_special(const fy_gguf *g, size_t *k, int64_t *id)
{
    while (*k < fy_gguf_n_kv(g)) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(g, (*k)++);
        bool is_number = kv->type != FY_KV_ARRAY && kv->type != FY_KV_STRING &&
                         kv->type != FY_KV_F32 && kv->type != FY_KV_F64;
        if (!is_number || !fy_span_begins(kv->key, "tokenizer.ggml.") ||
            !fy_span_ends(kv->key, "_token_id"))
            continue;
        *id = fy_gguf_int_at(kv, 0);
        return kv;
    }
    return NULL;
}

static fy_span special_name(const fy_gguf_kv *kv)
{
    size_t front = sizeof "tokenizer.ggml." - 1, back = sizeof "_token_id" - 1;
    size_t n = kv->key.len > front + back ? kv->key.len - front - back : 0;
    return (fy_span){kv->key.ptr + front, n};
}

static fy_span token_text(const fy_gguf *g, int64_t id)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, FY_KEY_TOKENS);
    uint64_t pos = 0;
    fy_span s = {"", 0};
    if (kv == NULL || kv->type != FY_KV_ARRAY || kv->elem != FY_KV_STRING || id < 0 ||
        (uint64_t)id >= kv->count)
        return s;
    for (int64_t i = 0; i <= id; i++)
        s = fy_gguf_next_string(kv, &pos);
    return s;
}

/* The next chat template from *k on: its name, which is empty for the default one. */
static const fy_gguf_kv *next_template(const fy_gguf *g, size_t *k, fy_span *name)
{
    size_t n = sizeof FY_KEY_CHAT_TEMPLATE - 1;
    while (*k < fy_gguf_n_kv(g)) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(g, (*k)++);
        if (kv->type != FY_KV_STRING || !fy_span_begins(kv->key, FY_KEY_CHAT_TEMPLATE) ||
            (kv->key.len > n && kv->key.ptr[n] != '.'))
            continue;
        size_t skip = kv->key.len > n ? n + 1 : n;
        *name = (fy_span){kv->key.ptr + skip, kv->key.len - skip};
        return kv;
    }
    return NULL;
}

static uint64_t text_bytes(const fy_gguf_kv *kv)
{
    uint64_t pos = 0;
    return fy_gguf_next_string(kv, &pos).len;
}

/* --- text ------------------------------------------------------------------------------------- */

static void put_flag(fy_str *out, const fy_gguf *g, const char *key, const char *yes,
                     const char *no)
{
    bool v;
    if (fy_gguf_get_bool(g, key, &v, NULL) == 0)
        fy_str_printf(out, ", %s", v ? yes : no);
}

void fy_inspect_put_tokenizer(fy_str *out, const fy_gguf *g)
{
    const fy_gguf_kv *kv;
    fy_span pre = text_of(g, "tokenizer.ggml.pre"), name;
    int64_t id;
    if (fy_gguf_find(g, FY_KEY_TOKENS) == NULL)
        return;
    fy_str_puts(out, "\ntokenizer\n  ");
    fy_put_short_string(out, text_of(g, "tokenizer.ggml.model"));
    if (pre.len > 0) {
        fy_str_puts(out, ", pre-tokenizer ");
        fy_put_short_string(out, pre);
    }
    fy_str_printf(out, ": %" PRIu64 " tokens, %" PRIu64 " merges", count_of(g, FY_KEY_TOKENS),
                  count_of(g, "tokenizer.ggml.merges"));
    put_flag(out, g, "tokenizer.ggml.add_bos_token", "a text begins with bos", "no bos is added");
    put_flag(out, g, "tokenizer.ggml.add_eos_token", "a text ends with eos", "no eos is added");
    fy_str_putc(out, '\n');
    for (size_t k = 0; (kv = next_special(g, &k, &id)) != NULL;) {
        fy_str_puts(out, "  ");
        fy_str_put_quoted(out, special_name(kv), SIZE_MAX);
        fy_str_printf(out, " %" PRId64 " ", id);
        fy_put_short_string(out, token_text(g, id));
        fy_str_putc(out, '\n');
    }
    for (size_t k = 0; (kv = next_template(g, &k, &name)) != NULL;) {
        fy_str_puts(out, "  chat template ");
        if (name.len > 0)
            fy_put_short_string(out, name);
        fy_str_printf(out, "%sof %" PRIu64 " bytes\n", name.len > 0 ? " " : "", text_bytes(kv));
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *special_json(fy_json_maker *m, const fy_gguf *g)
{
    json_t *list = json_object();
    const fy_gguf_kv *kv;
    fy_str name = {0};
    int64_t id;
    for (size_t k = 0; (kv = next_special(g, &k, &id)) != NULL;) {
        json_t *o = json_object();
        fy_make_set(m, o, "id", json_integer(id));
        fy_make_set(m, o, "text", fy_make_text(token_text(g, id)));
        fy_str_clear(&name);
        fy_str_put_quoted(&name, special_name(kv), SIZE_MAX);
        fy_make_set(m, list, fy_str_z(&name), o);
    }
    m->oom |= name.oom;
    fy_str_release(&name);
    return list;
}

static json_t *templates_json(fy_json_maker *m, const fy_gguf *g)
{
    json_t *list = json_array();
    const fy_gguf_kv *kv;
    fy_span name;
    for (size_t k = 0; (kv = next_template(g, &k, &name)) != NULL;) {
        json_t *o = json_object();
        fy_make_set(m, o, "name", name.len > 0 ? fy_make_text(name) : json_string("default"));
        fy_make_set(m, o, "bytes", fy_make_u64(text_bytes(kv)));
        fy_make_append(m, list, o);
    }
    return list;
}

json_t *fy_inspect_tokenizer_json(fy_json_maker *m, const fy_gguf *g)
{
    static const char *const flags[] = {"add_bos_token", "add_eos_token", "add_space_prefix"};
    if (fy_gguf_find(g, FY_KEY_TOKENS) == NULL)
        return json_null();
    json_t *o = json_object();
    fy_make_set(m, o, "model", fy_make_text(text_of(g, "tokenizer.ggml.model")));
    fy_make_set(m, o, "pre", fy_make_text(text_of(g, "tokenizer.ggml.pre")));
    fy_make_set(m, o, "tokens", fy_make_u64(count_of(g, FY_KEY_TOKENS)));
    fy_make_set(m, o, "merges", fy_make_u64(count_of(g, "tokenizer.ggml.merges")));
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        fy_str key = {0};
        bool v;
        fy_str_printf(&key, "tokenizer.ggml.%s", flags[i]);
        if (fy_gguf_get_bool(g, fy_str_z(&key), &v, NULL) == 0)
            fy_make_set(m, o, flags[i], json_boolean(v));
        m->oom |= key.oom;
        fy_str_release(&key);
    }
    fy_make_set(m, o, "special", special_json(m, g));
    fy_make_set(m, o, "chat_templates", templates_json(m, g));
    return o;
}
