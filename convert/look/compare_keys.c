/* Keys one by one, in A's order and then what B alone has; arrays with an entry per token or merge
 * are compared as the vocabulary. */
#include "convert/look/compare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/names.h"
#include "base/str.h"
#include "convert/look/model_source.h"
#include "model/vocab/vocab.h"

static const struct {
    const char *key, *what;
} tables[] = {
    {FY_KEY_TOKENS, "tokens"},
    {"tokenizer.ggml.scores", "scores"},
    {"tokenizer.ggml.token_type", "token types"},
    {FY_KEY_ADDED_FLAGS, "flags of added tokens"},
    {"tokenizer.ggml.merges", "merges"},
};

static bool is_of_vocab(fy_span key)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (fy_span_is(key, tables[i].key))
            return true;
    }
    return false;
}

static bool is_of_tokenizer(fy_span key)
{
    static const char *const own[] = {FY_KEY_EOS_IDS, FY_KEY_NORMALIZER, FY_KEY_ADDED_FLAGS,
                                      FY_KEY_SPACE_PREFIX, FY_KEY_STRIPS_SPACE};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (fy_span_is(key, own[i]))
            return true;
    }
    return fy_span_begins(key, "tokenizer.") || fy_span_begins(key, "general.sampling.");
}

/* The origin of the model, its name, its storage. Of general.* only the architecture and the
 * sampler's defaults change answers. */
static bool is_provenance(fy_span key)
{
    if (fy_span_begins(key, "general."))
        return !fy_span_is(key, FY_KEY_ARCHITECTURE) && !fy_span_begins(key, "general.sampling.");
    return fy_span_begins(key, "split.") || fy_span_begins(key, "quantize.") ||
           fy_span_is(key, "ferry.source_sha256");
}

static bool is_integer(const fy_gguf_kv *kv)
{
    return kv->type != FY_KV_F32 && kv->type != FY_KV_F64 && kv->type != FY_KV_BOOL &&
           kv->type != FY_KV_STRING && kv->type != FY_KV_ARRAY;
}

static bool same_value(const fy_gguf_kv *a, const fy_gguf_kv *b)
{
    return a->type == b->type && a->elem == b->elem && a->count == b->count &&
           a->bytes == b->bytes && memcmp(a->data, b->data, (size_t)a->bytes) == 0;
}

/* Readers take an integer of any width. */
static bool same_number(const fy_gguf_kv *a, const fy_gguf_kv *b)
{
    return is_integer(a) && is_integer(b) && fy_gguf_int_at(a, 0) == fy_gguf_int_at(b, 0) &&
           (fy_gguf_int_at(a, 0) >= 0 || (a->type != FY_KV_U64 && b->type != FY_KV_U64));
}

/* --- keys ------------------------------------------------------------------------------------- */

/* Element `i` of an array, walked to. */
static void put_nth(fy_str *out, const fy_gguf_kv *kv, uint64_t i)
{
    uint64_t pos = 0;
    for (uint64_t k = 0; k < i && kv->elem == FY_KV_STRING; k++)
        fy_gguf_next_string(kv, &pos);
    fy_kv_put_element(out, kv, i, &pos);
}

static bool same_element(const fy_gguf_kv *a, const fy_gguf_kv *b, uint64_t i, uint64_t *pos_a,
                         uint64_t *pos_b)
{
    if (a->elem == FY_KV_STRING)
        return fy_span_eq(fy_gguf_next_string(a, pos_a), fy_gguf_next_string(b, pos_b));
    size_t n = fy_kv_type_bytes(a->elem);
    return memcmp(a->data + i * n, b->data + i * n, n) == 0;
}

/* Appends the first elements that differ, of two arrays of one type. */
static void put_first_difference(fy_key_pair *k, const fy_gguf_kv *a, const fy_gguf_kv *b)
{
    uint64_t pos_a = 0, pos_b = 0, n = a->count < b->count ? a->count : b->count, i = 0;
    if (a->type != FY_KV_ARRAY || b->type != FY_KV_ARRAY || a->elem != b->elem)
        return;
    while (i < n && same_element(a, b, i, &pos_a, &pos_b))
        i++;
    if (i == n)
        return;
    fy_str_printf(&k->a, "; [%" PRIu64 "] ", i);
    put_nth(&k->a, a, i);
    fy_str_printf(&k->b, "; [%" PRIu64 "] ", i);
    put_nth(&k->b, b, i);
}

static void put_value(fy_str *out, const fy_gguf_kv *kv, const fy_gguf_kv *other)
{
    if (other != NULL && kv->type != other->type)
        fy_str_printf(out, "%s ", fy_kv_type_name(kv->type));
    fy_kv_put(out, kv);
}

/* Either may be NULL. */
static int add_key(fy_comparison *c, size_t *cap, const fy_gguf_kv *a, const fy_gguf_kv *b,
                   fy_err *e)
{
    fy_key_pair *grown = fy_grow(c->keys, c->n_keys, cap, sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    c->keys = grown;
    fy_key_pair *k = &c->keys[c->n_keys++];
    fy_span name = a != NULL ? a->key : b->key;
    *k = (fy_key_pair){.has_a = a != NULL, .has_b = b != NULL};
    k->is_provenance = is_provenance(name) || (a != NULL && b != NULL && same_number(a, b));
    fy_str_put_quoted(&k->key, name, SIZE_MAX);
    if (a != NULL)
        put_value(&k->a, a, b);
    if (b != NULL)
        put_value(&k->b, b, a);
    if (a != NULL && b != NULL)
        put_first_difference(k, a, b);
    c->n_counting_keys += !k->is_provenance;
    return k->key.oom || k->a.oom || k->b.oom ? fy_nomem(e) : 0;
}

/* Arrays that are reported as the vocabulary. */
static bool are_tables(const fy_gguf_kv *a, const fy_gguf_kv *b)
{
    return is_of_vocab(a->key) && a->type == FY_KV_ARRAY && b->type == FY_KV_ARRAY &&
           a->elem == b->elem;
}

/* Keys may hold NULs: they are looked up by their bytes. */
static int index_keys(const fy_gguf *g, fy_names *index, fy_err *e)
{
    for (size_t i = 0; i < fy_gguf_n_kv(g); i++) {
        if (fy_names_add(index, fy_gguf_kv_at(g, i)->key, (uint32_t)i) < 0)
            return fy_nomem(e);
    }
    return 0;
}

static const fy_gguf_kv *find(const fy_gguf *g, const fy_names *index, fy_span key)
{
    uint32_t i;
    return fy_names_find(index, key, &i) ? fy_gguf_kv_at(g, i) : NULL;
}

static int compare_each(fy_comparison *c, const fy_names *in_a, const fy_names *in_b, fy_err *e)
{
    size_t cap = 0;
    bool no_tokenizer = c->no_tokenizer.code != FY_OK;
    for (size_t i = 0; i < fy_gguf_n_kv(c->keys_a); i++) {
        const fy_gguf_kv *a = fy_gguf_kv_at(c->keys_a, i), *b = find(c->keys_b, in_b, a->key);
        if ((no_tokenizer && is_of_tokenizer(a->key)) ||
            (b != NULL && (are_tables(a, b) || same_value(a, b))))
            continue;
        if (add_key(c, &cap, a, b, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < fy_gguf_n_kv(c->keys_b); i++) {
        const fy_gguf_kv *b = fy_gguf_kv_at(c->keys_b, i);
        if (!(no_tokenizer && is_of_tokenizer(b->key)) && find(c->keys_a, in_a, b->key) == NULL &&
            add_key(c, &cap, NULL, b, e) != 0)
            return -1;
    }
    return 0;
}

static int compare_keys(fy_comparison *c, fy_err *e)
{
    fy_names in_a = {0}, in_b = {0};
    int rc = index_keys(c->keys_a, &in_a, e) || index_keys(c->keys_b, &in_b, e) ||
                     compare_each(c, &in_a, &in_b, e)
                 ? -1
                 : 0;
    fy_names_release(&in_a);
    fy_names_release(&in_b);
    return rc;
}

/* --- the vocabulary --------------------------------------------------------------------------- */

static void compare_entries(fy_vocab_pair *v, const fy_gguf_kv *a, const fy_gguf_kv *b)
{
    uint64_t pos_a = 0, pos_b = 0, n = a->count < b->count ? a->count : b->count;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at_a = pos_a, at_b = pos_b;
        if (same_element(a, b, i, &pos_a, &pos_b))
            continue;
        if (v->n_different < FY_VOCAB_SHOWN) {
            v->first[v->n_different] = i;
            fy_kv_put_element(&v->a[v->n_different], a, i, &at_a);
            fy_kv_put_element(&v->b[v->n_different], b, i, &at_b);
        }
        v->n_different++;
    }
}

static int compare_table(fy_comparison *c, const char *key, const char *what, fy_err *e)
{
    const fy_gguf_kv *a = fy_gguf_find(c->keys_a, key), *b = fy_gguf_find(c->keys_b, key);
    if (a == NULL || b == NULL || !are_tables(a, b) || same_value(a, b))
        return 0; /* one without, or of another kind, is a key that differs */
    fy_vocab_pair *v = &c->vocab[c->n_vocab++];
    *v = (fy_vocab_pair){.what = what, .n_a = a->count, .n_b = b->count};
    compare_entries(v, a, b);
    for (size_t i = 0; i < FY_VOCAB_SHOWN; i++) {
        if (v->a[i].oom || v->b[i].oom)
            return fy_nomem(e);
    }
    return 0;
}

int fy_compare_keys(fy_comparison *c, fy_err *e)
{
    enum { N = sizeof tables / sizeof tables[0] };
    if (compare_keys(c, e) != 0)
        return -1;
    if (c->no_tokenizer.code != FY_OK)
        return 0;
    c->has_vocab = fy_gguf_find(c->keys_a, FY_KEY_TOKENS) != NULL &&
                   fy_gguf_find(c->keys_b, FY_KEY_TOKENS) != NULL;
    c->vocab = calloc(N, sizeof *c->vocab);
    if (c->vocab == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < N; i++) {
        if (compare_table(c, tables[i].key, tables[i].what, e) != 0)
            return -1;
    }
    return 0;
}
