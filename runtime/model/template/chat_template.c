/* The chat format of a model: finds its Jinja template (in a GGUF, built in, or in a file), sets
 * the variables that transformers' apply_chat_template sets, renders, and tokenizes the prompt. */
#include "model/template/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/opts.h"
#include "base/str.h"
#include "model/template/template.h"

/* Special tokens a template may name, as transformers passes them ("seperator" is GGUF's word). */
static const struct {
    const char *name, *key;
} tokens[] = {
    {"bos_token", "tokenizer.ggml.bos_token_id"},
    {"eos_token", "tokenizer.ggml.eos_token_id"},
    {"unk_token", "tokenizer.ggml.unknown_token_id"},
    {"pad_token", "tokenizer.ggml.padding_token_id"},
    {"sep_token", "tokenizer.ggml.seperator_token_id"},
    {"cls_token", "tokenizer.ggml.cls_token_id"},
    {"mask_token", "tokenizer.ggml.mask_token_id"},
};

enum { N_TOKENS = sizeof tokens / sizeof tokens[0], KEY_MAX = 160 };

/* A template's text and tree; tree NULL: the model has no such template. */
typedef struct {
    fy_str text;
    fy_template *tree; /* owned */
} source;

struct fy_chat_template {
    char *name; /* owned */
    source main, tool_use;
    fy_str token[N_TOKENS];
    bool has_token[N_TOKENS];
};

/* --- making one --- */

static int set_source(source *s, fy_span text, const char *name, fy_err *e)
{
    s->tree = fy_template_parse(text, e);
    if (s->tree == NULL)
        return fy_ctx(e, "%s", name);
    fy_str_add(&s->text, text.ptr, text.len);
    return s->text.oom ? fy_nomem(e) : 0;
}

static fy_chat_template *new_named(const char *name, fy_err *e)
{
    fy_chat_template *t = calloc(1, sizeof *t);
    if (t != NULL)
        t->name = strdup(name);
    if (t == NULL || t->name == NULL) {
        free(t);
        fy_nomem(e);
        return NULL;
    }
    return t;
}

fy_chat_template *fy_chat_template_new(fy_span text, const char *name, fy_err *e)
{
    fy_chat_template *t = new_named(name, e);
    if (t != NULL && set_source(&t->main, text, name, e) != 0) {
        fy_chat_template_free(t);
        return NULL;
    }
    return t;
}

void fy_chat_template_free(fy_chat_template *t)
{
    if (t == NULL)
        return;
    source *both[] = {&t->main, &t->tool_use};
    for (size_t i = 0; i < 2; i++) {
        fy_template_free(both[i]->tree);
        fy_str_release(&both[i]->text);
    }
    for (size_t i = 0; i < N_TOKENS; i++)
        fy_str_release(&t->token[i]);
    free(t->name);
    free(t);
}

const char *fy_chat_template_name(const fy_chat_template *t)
{
    return t->name;
}

static const source *choose(const fy_chat_template *t, bool with_tools)
{
    return with_tools && t->tool_use.tree != NULL ? &t->tool_use : &t->main;
}

fy_span fy_chat_template_text(const fy_chat_template *t, bool with_tools)
{
    const source *s = choose(t, with_tools);
    return (fy_span){fy_str_z(&s->text), s->text.len};
}

int fy_chat_template_set_token(fy_chat_template *t, const char *name, fy_span text, fy_err *e)
{
    for (size_t i = 0; i < N_TOKENS; i++) {
        if (strcmp(tokens[i].name, name) != 0)
            continue;
        fy_str_clear(&t->token[i]);
        fy_str_add(&t->token[i], text.ptr, text.len);
        t->has_token[i] = text.ptr != NULL;
        return t->token[i].oom ? fy_nomem(e) : 0;
    }
    return fy_fail(e, FY_EARG, "%s: not a special token that templates know", name);
}

fy_span fy_chat_template_token(const fy_chat_template *t, const char *name)
{
    for (size_t i = 0; i < N_TOKENS; i++) {
        if (strcmp(tokens[i].name, name) == 0 && t->has_token[i])
            return (fy_span){fy_str_z(&t->token[i]), t->token[i].len};
    }
    return (fy_span){0};
}

/* --- of a GGUF --- */

/* The texts of the special tokens, from their ids. One walk over the vocabulary serves all. */
static int load_tokens(fy_chat_template *t, const fy_gguf *g, fy_err *e)
{
    uint32_t id[N_TOKENS];
    bool wanted[N_TOKENS], any = false;
    const fy_gguf_kv *pieces = NULL;
    for (size_t i = 0; i < N_TOKENS; i++) {
        int rc = fy_gguf_get_u32(g, tokens[i].key, &id[i], e);
        if (rc < 0)
            return -1;
        wanted[i] = rc == 0;
        any = any || wanted[i];
    }
    if (!any)
        return 0;
    int rc = fy_gguf_get_array(g, FY_KEY_TOKENS, FY_KV_STRING, &pieces, e);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    uint64_t pos = 0;
    for (uint64_t at = 0; at < pieces->count; at++) {
        fy_span piece = fy_gguf_next_string(pieces, &pos);
        for (size_t i = 0; i < N_TOKENS; i++) {
            if (wanted[i] && id[i] == at &&
                fy_chat_template_set_token(t, tokens[i].name, piece, e) != 0)
                return -1;
        }
    }
    return 0;
}

static bool plain_name(const char *name)
{
    return strlen(name) > 0 && strlen(name) < KEY_MAX - sizeof FY_KEY_CHAT_TEMPLATE - 1;
}

/* 0: parsed; 1: the model has none of that name ("" is the main one); -1. */
static int load_source(const fy_gguf *g, const char *name, source *s, fy_err *e)
{
    char key[KEY_MAX];
    fy_span text;
    snprintf(key, sizeof key, "%s%s%s", FY_KEY_CHAT_TEMPLATE, *name != '\0' ? "." : "", name);
    int rc = fy_gguf_get_str(g, key, &text, e);
    return rc == 0 ? set_source(s, text, key, e) : rc;
}

static int no_template(const fy_gguf *g, fy_err *e)
{
    const fy_gguf_kv *names = NULL;
    if (fy_gguf_get_array(g, FY_KEY_CHAT_TEMPLATES, FY_KV_STRING, &names, e) < 0)
        return -1;
    if (names == NULL || names->count == 0)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: has no chat template; name its format with --chat-template NAME|FILE "
                       "('ferry template --list' shows the names), or use 'ferry run' for a model "
                       "that is not made for chat",
                       fy_gguf_path(g));
    fy_str list = {0};
    uint64_t pos = 0;
    for (uint64_t i = 0; i < names->count && i < 16; i++) {
        fy_str_puts(&list, i > 0 ? ", " : "");
        fy_str_put_quoted(&list, fy_gguf_next_string(names, &pos), FY_QUOTE_BYTES);
    }
    fy_fail(e, FY_EUNSUPPORTED,
            "%s: has no default chat template, only: %s; choose one with --chat-template NAME",
            fy_gguf_path(g), fy_str_z(&list));
    fy_str_release(&list);
    return -1;
}

static const fy_chat_builtin *builtin_of(fy_span name)
{
    const fy_chat_builtin *b = fy_chat_builtins;
    while (b->name != NULL && !fy_span_is(name, b->name))
        b++;
    return b->name != NULL ? b : NULL;
}

/* The main one. Old converters of RWKV wrote the name of a format instead. */
static int load_main(fy_chat_template *t, const fy_gguf *g, fy_err *e)
{
    fy_span text;
    fy_err ignored = {0};
    const fy_chat_builtin *b = NULL;
    if (fy_gguf_get_str(g, FY_KEY_CHAT_TEMPLATE, &text, &ignored) == 0)
        b = builtin_of(text);
    return b != NULL ? set_source(&t->main, fy_span_of(b->text), b->name, e)
                     : load_source(g, "", &t->main, e);
}

static int load_own(fy_chat_template *t, const fy_gguf *g, fy_err *e)
{
    int main_one = load_main(t, g, e);
    int tool_use = main_one >= 0 ? load_source(g, "tool_use", &t->tool_use, e) : -1;
    if (main_one < 0 || tool_use < 0)
        return fy_ctx(e, "%s", fy_gguf_path(g));
    return main_one == 1 && tool_use == 1 ? no_template(g, e) : 0;
}

/* --- by name --- */

static int load_file(fy_chat_template *t, const char *path, fy_err *e)
{
    fy_map m;
    if (fy_map_open(&m, path, e) != 0)
        return -1;
    fy_span text = {(const char *)m.data, m.size};
    int rc = m.size > FY_TEMPLATE_MAX_BYTES
                 ? fy_fail(e, FY_EFORMAT, "%s: %zu bytes, a template has at most %u", path, m.size,
                           FY_TEMPLATE_MAX_BYTES)
             : !fy_utf8_valid(text.ptr, text.len)
                 ? fy_fail(e, FY_EFORMAT, "%s: not UTF-8 text, expected a Jinja template", path)
                 : set_source(&t->main, text, path, e);
    fy_map_close(&m);
    return rc;
}

static int unknown_name(const char *which, fy_err *e)
{
    const char *names[64];
    size_t n = 0;
    for (; n < 64 && fy_chat_builtins[n].name != NULL; n++)
        names[n] = fy_chat_builtins[n].name;
    const char *near = fy_nearest(which, names, n);
    char q[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EARG,
                   "--chat-template '%s': neither a built-in template%s%s%s nor a file; 'ferry "
                   "template --list' shows the names",
                   fy_quote(q, sizeof q, fy_span_of(which)), near != NULL ? " (nearest: " : "",
                   near != NULL ? near : "", near != NULL ? ")" : "");
}

static int load_named(fy_chat_template *t, const fy_gguf *g, const char *which, fy_err *e)
{
    if (g != NULL && plain_name(which)) {
        int rc = load_source(g, strcmp(which, "default") == 0 ? "" : which, &t->main, e);
        if (rc != 1)
            return rc < 0 ? fy_ctx(e, "%s", fy_gguf_path(g)) : 0;
    }
    const fy_chat_builtin *b = builtin_of(fy_span_of(which));
    if (b != NULL)
        return set_source(&t->main, fy_span_of(b->text), b->name, e);
    return fy_file_exists(which) ? load_file(t, which, e) : unknown_name(which, e);
}

/* The last step of opening: loads the tokens, or frees what failed. */
static fy_chat_template *complete(fy_chat_template *t, int rc, const fy_gguf *g, fy_err *e)
{
    if (rc == 0 && (g == NULL || load_tokens(t, g, e) == 0))
        return t;
    fy_chat_template_free(t);
    return NULL;
}

fy_chat_template *fy_chat_template_open(const fy_gguf *g, const char *which, fy_err *e)
{
    fy_chat_template *t = new_named(which != NULL ? which : FY_KEY_CHAT_TEMPLATE, e);
    if (t == NULL)
        return NULL;
    return complete(t, which != NULL ? load_named(t, g, which, e) : load_own(t, g, e), g, e);
}

fy_chat_template *fy_chat_template_open_file(const fy_gguf *g, const char *path, fy_err *e)
{
    fy_chat_template *t = new_named(path, e);
    return t != NULL ? complete(t, load_file(t, path, e), g, e) : NULL;
}

/* --- rendering --- */

/* 1: the text is JSON; 0: it is not; -1: out of memory. */
static int is_json(fy_span text, fy_err *e)
{
    fy_err why = {0};
    fy_json *j = fy_json_new(text.ptr, text.len, &why);
    int yes = j != NULL && fy_json_skip(j, &why) == 0 && fy_json_end(j, &why) == 0;
    fy_json_free(j);
    return why.code == FY_ENOMEM ? fy_nomem(e) : yes;
}

static bool is_null(fy_span json)
{
    fy_span s = json.len > 0 ? fy_text_strip(json) : json;
    return s.len == 0 || fy_span_is(s, "null");
}

int fy_chat_template_check_arg(const char *arg, fy_err *e)
{
    size_t n = strspn(arg, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (n > 0 && arg[n] == '=' && strchr("0123456789", arg[0]) == NULL)
        return 0;
    char q[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EARG, "template variable '%s': expected KEY=VALUE, KEY a name",
                   fy_quote(q, sizeof q, fy_span_of(arg)));
}

/* Jinja's own spelling of the constants is accepted, too: a string "False" would count as true. */
static fy_span json_constant(const char *value)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(value, words[i][0]) == 0)
            return fy_span_of(words[i][1]);
    }
    return fy_span_of(value);
}

static int set_arg(fy_template_vars *v, const char *arg, fy_err *e)
{
    if (fy_chat_template_check_arg(arg, e) != 0)
        return -1;
    size_t n = strcspn(arg, "=");
    char *name = strndup(arg, n);
    if (name == NULL)
        return fy_nomem(e);
    fy_span value = json_constant(arg + n + 1);
    int rc = is_json(value, e);
    if (rc >= 0)
        rc = rc == 1 ? fy_template_set_json(v, name, value, e)
                     : fy_template_set_string(v, name, value, e);
    free(name);
    return rc;
}

/* Every member of a JSON object becomes a variable. The values are passed on as JSON text, so that
 * no number changes its type. */
static int set_extra(fy_template_vars *v, fy_span object, fy_err *e)
{
    fy_json *j = fy_json_new(object.ptr, object.len, e);
    fy_str name = {0};
    fy_span key;
    int rc = j != NULL ? fy_json_object_begin(j, e) : -1;
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        fy_str_clear(&name);
        fy_str_add(&name, key.ptr, key.len);
        size_t begin = fy_json_offset(j);
        rc = name.oom ? fy_nomem(e) : fy_json_skip(j, e);
        if (rc == 0 && memchr(fy_str_z(&name), '\0', name.len) == NULL)
            rc = fy_template_set_json(v, fy_str_z(&name),
                                      (fy_span){object.ptr + begin, fy_json_offset(j) - begin}, e);
    }
    if (rc == 0)
        rc = fy_json_end(j, e);
    fy_json_free(j);
    fy_str_release(&name);
    return rc;
}

static int set_standard(const fy_chat_template *t, fy_template_vars *v, const fy_chat_input *in,
                        fy_err *e)
{
    if (fy_template_set_json(v, "messages", in->messages, e) != 0 ||
        fy_template_set_json(v, "tools", is_null(in->tools) ? FY_SPAN("null") : in->tools, e) !=
            0 ||
        fy_template_set_json(v, "documents", FY_SPAN("null"), e) != 0 ||
        fy_template_set_json(v, "add_generation_prompt",
                             in->add_generation_prompt ? FY_SPAN("true") : FY_SPAN("false"),
                             e) != 0)
        return -1;
    for (size_t i = 0; i < N_TOKENS; i++) {
        fy_span text = {fy_str_z(&t->token[i]), t->token[i].len};
        if (t->has_token[i] && fy_template_set_string(v, tokens[i].name, text, e) != 0)
            return -1;
    }
    return 0;
}

static int set_all(const fy_chat_template *t, fy_template_vars *v, const fy_chat_input *in,
                   fy_err *e)
{
    if (in->messages.ptr != NULL && set_standard(t, v, in, e) != 0)
        return -1;
    for (size_t i = 0; i < in->n_args; i++) {
        if (set_arg(v, in->args[i], e) != 0)
            return -1;
    }
    return is_null(in->extra) ? 0 : set_extra(v, in->extra, e);
}

/* transformers takes "tool_use" when tools are given, the default one otherwise. */
static int render_with(const fy_chat_template *t, const fy_template_vars *v, bool with_tools,
                       fy_str *out, fy_err *e)
{
    const source *s = choose(t, with_tools);
    fy_err why = {0};
    if (s->tree == NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: the model has a template for tools only, and no tools are given; name "
                       "another one with --chat-template",
                       t->name);
    if (fy_template_render(s->tree, v, out, &why) == 0)
        return 0;
    if (why.code != FY_EARG) /* raise_exception's text stays alone */
        fy_ctx(&why, "%s", t->name);
    return fy_fail(e, why.code, "%s", why.msg);
}

int fy_chat_template_render(const fy_chat_template *t, const fy_chat_input *in, fy_str *out,
                            fy_err *e)
{
    fy_template_vars *v = fy_template_vars_new(e);
    if (v == NULL)
        return -1;
    int rc = set_all(t, v, in, e);
    if (in->has_clock)
        fy_template_set_clock(v, in->clock, true);
    if (rc == 0)
        rc = render_with(t, v, !is_null(in->tools), out, e);
    fy_template_vars_free(v);
    return rc;
}

/* --- ids --- */

int fy_chat_encode_text(const fy_vocab *v, fy_span text, fy_ids *out, fy_err *e)
{
    size_t begin = out->n;
    int32_t bos = fy_vocab_adds_bos(v) ? fy_vocab_bos(v) : -1;
    const fy_span world = fy_vocab_turn_text(v), first = fy_vocab_piece(v, 0);
    /* RWKV World has no token in a text, not even that which a template begins with. */
    if (world.len > 0 && bos < 0 && fy_vocab_bos(v) == 0 && first.len <= text.len &&
        memcmp(first.ptr, text.ptr, first.len) == 0) {
        bos = 0;
        text = (fy_span){text.ptr + first.len, text.len - first.len};
    }
    if (bos >= 0 && fy_ids_push(out, bos, e) != 0)
        return -1;
    if (fy_vocab_encode(v, text, false, true, out, e) != 0) {
        out->n = begin;
        return -1;
    }
    if (bos >= 0 && out->n > begin + 1 && out->id[begin + 1] == bos) {
        memmove(out->id + begin, out->id + begin + 1, (out->n - begin - 1) * sizeof *out->id);
        out->n--;
    }
    return 0;
}

void fy_chat_put_message(fy_str *json, fy_span role, fy_span content)
{
    fy_str_puts(json, "{\"role\":");
    fy_json_put_string(json, role);
    fy_str_puts(json, ",\"content\":");
    fy_json_put_string(json, content);
    fy_str_putc(json, '}');
}
