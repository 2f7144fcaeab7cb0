/* The hub's reply about a repository (hub_list.h): parsed and checked, and the choice of the files
 * that a conversion needs. */
#include "hub/hub_list.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json_tree.h"
#include "base/str.h"
#include "kernels/row.h"

#define NAME_BYTES_MAX 1024
#define PART_BYTES_MAX 255
#define SHOWN_BYTES    200

bool fy_hub_is_hash(const char *text, size_t n)
{
    if (n != 40 && n != 64)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    }
    return true;
}

/* Below a directory, whatever the file system does with it: nothing that climbs, hides or ends
 * early. */
static bool is_safe(fy_span name)
{
    if (name.len == 0 || name.len > NAME_BYTES_MAX)
        return false;
    size_t begin = 0;
    for (size_t i = 0; i <= name.len; i++) {
        if (i < name.len && name.ptr[i] != '/') {
            unsigned char c = (unsigned char)name.ptr[i];
            if (c < ' ' || c == 127 || c == '\\')
                return false;
            continue;
        }
        size_t n = i - begin;
        const char *p = name.ptr + begin;
        if (n == 0 || n > PART_BYTES_MAX || (n <= 2 && memcmp(p, "..", n) == 0))
            return false;
        begin = i + 1;
    }
    return true;
}

static fy_span text_of(const json_t *v)
{
    return (fy_span){json_is_string(v) ? json_string_value(v) : "", json_string_length(v)};
}

/* A hash; nothing when it is absent or null. */
static int read_hash(const json_t *o, const char *key, const char *what, size_t digits,
                     char out[FY_HUB_HASH_BYTES], fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    const json_t *v = json_object_get(o, key);
    fy_span s = text_of(v);
    if (v == NULL || json_is_null(v))
        return 0;
    if (s.len != digits || !fy_hub_is_hash(s.ptr, s.len))
        return fy_fail(e, FY_EFORMAT, "%s '%s', expected %zu hexadecimal digits", what,
                       fy_quote(q, sizeof q, s), digits);
    snprintf(out, FY_HUB_HASH_BYTES, "%s", s.ptr);
    return 0;
}

/* The same of a size: 1, and 0 when it is absent. */
static int read_size(const json_t *o, uint64_t *size, fy_err *e)
{
    const json_t *v = json_object_get(o, "size");
    if (v == NULL || json_is_null(v))
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return fy_fail(e, FY_EFORMAT, "size: expected a number of bytes");
    *size = (uint64_t)json_integer_value(v);
    return 1;
}

static int read_name(fy_hub_list *l, const json_t *v, fy_hub_file *f, fy_err *e)
{
    char q[FY_QUOTE_BYTES], shown[SHOWN_BYTES];
    fy_span s = text_of(v);
    if (v == NULL)
        return fy_fail(e, FY_EFORMAT, "siblings: a file without rfilename");
    if (!is_safe(s))
        return fy_fail(
            e, FY_EFORMAT,
            "a file named '%s', expected a path below the repository; nothing is downloaded",
            fy_quote(q, sizeof q, s));
    fy_quote(shown, sizeof shown, s);
    f->name = fy_arena_strndup(&l->strings, s.ptr, s.len);
    f->shown = fy_arena_strndup(&l->strings, shown, strlen(shown));
    return f->name != NULL && f->shown != NULL ? 0 : fy_nomem(e);
}

static int read_file(fy_hub_list *l, const json_t *o, fy_err *e)
{
    fy_hub_file f = {0};
    char sha256[FY_HUB_HASH_BYTES] = "", blob[FY_HUB_HASH_BYTES] = "";
    const json_t *lfs = json_object_get(o, "lfs");
    uint64_t lfs_size = 0;
    if (read_name(l, json_object_get(o, "rfilename"), &f, e) ||
        read_hash(o, "blobId", "blobId", 40, blob, e) ||
        read_hash(lfs, "sha256", "lfs.sha256", 64, sha256, e))
        return -1;
    int has_size = read_size(o, &f.size, e), has_lfs_size = read_size(lfs, &lfs_size, e);
    if (has_size < 0 || has_lfs_size < 0)
        return -1;
    if (has_size && has_lfs_size && f.size != lfs_size)
        return fy_fail(e, FY_EFORMAT, "%s: two sizes, %llu and %llu", f.shown,
                       (unsigned long long)f.size, (unsigned long long)lfs_size);
    if (has_lfs_size)
        f.size = lfs_size;
    /* of an LFS file blobId is the hash of the pointer that git keeps in its place */
    if (has_size || has_lfs_size)
        memcpy(f.hash, sha256[0] != '\0' ? sha256 : blob, FY_HUB_HASH_BYTES);
    if (l->n == FY_HUB_FILES_MAX)
        return fy_fail(e, FY_EFORMAT, "more than %d files", FY_HUB_FILES_MAX);
    return fy_append(&l->files, &l->n, &l->cap, &f, sizeof f, e);
}

static int by_name(const void *a, const void *b)
{
    const fy_hub_file *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* No name twice. */
static int check_names(fy_hub_list *l, fy_err *e)
{
    if (l->n > 0)
        qsort(l->files, l->n, sizeof *l->files, by_name);
    for (size_t i = 1; i < l->n; i++) {
        if (strcmp(l->files[i].name, l->files[i - 1].name) == 0)
            return fy_fail(e, FY_EFORMAT, "two files named '%s'", l->files[i].shown);
    }
    return 0;
}

static int read_reply(fy_hub_list *l, const json_t *reply, fy_err *e)
{
    const json_t *siblings = json_object_get(reply, "siblings"),
                 *sha = json_object_get(reply, "sha");
    if (siblings == NULL || sha == NULL)
        return fy_fail(e, FY_EFORMAT,
                       "no \"%s\" in it, expected an object with \"sha\" and \"siblings\"",
                       siblings == NULL ? "siblings" : "sha");
    if (!json_is_array(siblings))
        return fy_fail(e, FY_EFORMAT, "\"siblings\" is not a list, expected one of files");
    if (!fy_hub_is_hash(text_of(sha).ptr, text_of(sha).len))
        return fy_fail(e, FY_EFORMAT, "\"sha\" is not a commit, expected 40 hexadecimal digits");
    snprintf(l->commit, sizeof l->commit, "%s", json_string_value(sha));
    for (size_t i = 0; i < json_array_size(siblings); i++) {
        if (read_file(l, json_array_get(siblings, i), e) != 0)
            return -1;
    }
    return check_names(l, e);
}

int fy_hub_list_read(const void *p, size_t n, fy_hub_list *out, fy_err *e)
{
    fy_hub_list l = {0};
    json_t *reply = fy_json_data((fy_span){p, n}, e);
    int rc = reply != NULL ? read_reply(&l, reply, e) : -1;
    json_decref(reply);
    if (rc != 0) {
        fy_hub_list_release(&l);
        return fy_ctx(e, "the hub's reply");
    }
    *out = l;
    return 0;
}

void fy_hub_list_release(fy_hub_list *l)
{
    free(l->files);
    fy_arena_release(&l->strings);
    *l = (fy_hub_list){0};
}

/* --- which files ----------------------------------------------------------------------------- */

static bool matches(const char *pattern, const char *name)
{
    return fnmatch(pattern, name, 0) == 0;
}

static bool matches_any(const fy_opt_list *patterns, const char *name)
{
    for (size_t i = 0; patterns != NULL && i < patterns->n; i++) {
        if (matches(patterns->items[i], name))
            return true;
    }
    return false;
}

/* Read besides the weights, where present. */
static const char *const companions[] = {
    "config.json",        "generation_config.json",
    "tokenizer.json",     "tokenizer_config.json",
    "tokenizer.model",    "special_tokens_map.json",
    "added_tokens.json",  "vocab.json",
    "merges.txt",         "*.tiktoken",
    "rwkv_vocab*.txt",    "chat_template.jinja",
    "chat_template.json", "additional_chat_templates/*.jinja",
    "README.md",
};

/* Containers of weights, the preferred first. The first name that is there decides; with it come
 * the files of the patterns, which stand for shards: "-NNNNN-of-NNNNN". A variant of a container
 * ("model.fp16-...") has another beginning. */
static const struct {
    const char *first;
    const char *with[3];
} containers[] = {
    {"model.safetensors", {NULL}},
    {"model.safetensors.index.json",
     {"model-[0-9]*-of-[0-9]*.safetensors", "model.safetensors-[0-9]*-of-[0-9]*.safetensors",
      "pytorch_model-[0-9]*-of-[0-9]*.safetensors"}},
    {"pytorch_model.bin", {NULL}},
    {"pytorch_model.bin.index.json", {"pytorch_model-[0-9]*-of-[0-9]*.bin", NULL}},
    {"consolidated.*.pth", {"params.json", NULL}},
    {"adapter_model.safetensors", {"adapter_config.json", NULL}},
};

/* As matches, but for one directory level: shards of another precision lie below. */
static bool is_here(const char *pattern, const char *name)
{
    return pattern != NULL && fnmatch(pattern, name, FNM_PATHNAME) == 0;
}

static bool has_container(const fy_hub_list *l, size_t c)
{
    for (size_t i = 0; i < l->n; i++) {
        if (is_here(containers[c].first, l->files[i].name))
            return true;
    }
    return false;
}

#define N_CONTAINERS (sizeof containers / sizeof containers[0])

bool fy_hub_list_has_weights(const fy_hub_list *l)
{
    for (size_t c = 0; c < N_CONTAINERS; c++) {
        if (has_container(l, c))
            return true;
    }
    return false;
}

bool fy_hub_list_has_gguf(const fy_hub_list *l)
{
    fy_gguf_name name;
    for (size_t i = 0; i < l->n; i++) {
        if (fy_gguf_name_read(l->files[i].name, &name))
            return true;
    }
    return false;
}

static void choose_checkpoint(fy_hub_list *l)
{
    size_t c = 0;
    while (c < N_CONTAINERS && !has_container(l, c))
        c++;
    for (size_t i = 0; i < l->n; i++) {
        fy_hub_file *f = &l->files[i];
        for (size_t k = 0; k < sizeof companions / sizeof companions[0]; k++)
            f->wanted |= is_here(companions[k], f->name);
        for (size_t k = 0; c < N_CONTAINERS && k < 3; k++)
            f->wanted |= is_here(containers[c].with[k], f->name);
        f->wanted |= c < N_CONTAINERS && is_here(containers[c].first, f->name);
    }
}

/* --- a GGUF model ----------------------------------------------------------------------------- */

/* The models among the files that no pattern excludes. */
static int list_models(const fy_hub_list *l, const fy_opt_list *exclude, fy_gguf_variants *out,
                       fy_err *e)
{
    const char **names = calloc(l->n + 1, sizeof *names);
    uint64_t *sizes = calloc(l->n + 1, sizeof *sizes);
    size_t n = 0;
    for (size_t i = 0; names != NULL && sizes != NULL && i < l->n; i++) {
        if (matches_any(exclude, l->files[i].name))
            continue;
        names[n] = l->files[i].name;
        sizes[n++] = l->files[i].size;
    }
    int rc = names == NULL || sizes == NULL
                 ? fy_nomem(e)
                 : fy_gguf_variants_of(names, sizes, n, fy_row_can_decode, out, e);
    free(names);
    free(sizes);
    return rc;
}

int fy_hub_list_models(const fy_hub_list *l, fy_gguf_variants *out, fy_err *e)
{
    return list_models(l, NULL, out, e);
}

static int choose_variant(fy_hub_list *l, const fy_hub_choice *c, const fy_gguf_variants *models,
                          fy_err *e)
{
    const bool given = c->type != NULL && c->type[0] != '\0';
    if (models->n == 0)
        return fy_fail(e, FY_EUNSUPPORTED, "no GGUF file in it is a whole model");
    fy_err why = {0};
    const fy_gguf_variant *v = fy_gguf_variants_choose(models, given ? c->type : "", &why);
    if (!given && models->n > 1 && c->ask != NULL) {
        if (c->ask(c->id, models, &v, e) != 0)
            return -1;
    } else if (v == NULL) {
        return fy_fail(e, why.code, "%s", why.msg);
    }
    l->model = *v;
    l->n_models = models->n;
    for (size_t i = 0; i < l->n; i++) {
        fy_gguf_name name;
        l->files[i].wanted = fy_gguf_name_read(l->files[i].name, &name) &&
                             name.count == v->name.count &&
                             fy_span_eq(name.model, v->name.model);
    }
    return 0;
}

static int choose_gguf(fy_hub_list *l, const fy_hub_choice *c, fy_err *e)
{
    fy_gguf_variants models = {0};
    int rc = list_models(l, c->exclude, &models, e);
    if (rc == 0)
        rc = choose_variant(l, c, &models, e);
    fy_gguf_variants_release(&models);
    return rc;
}

/* --- what is wanted --------------------------------------------------------------------------- */

static int choose_kind(fy_hub_list *l, const fy_hub_choice *c, fy_err *e)
{
    const bool gguf = fy_hub_list_has_gguf(l), weights = fy_hub_list_has_weights(l);
    const bool typed = c->type != NULL && c->type[0] != '\0';
    const bool wants_gguf = typed || c->kind == FY_HUB_GGUF;
    const char *id = c->id != NULL ? c->id : "ORG/NAME";
    if (c->kind == FY_HUB_CHECKPOINT && typed)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "':%s' is a type of GGUF models, which need no conversion; 'ferry fetch "
                       "%s:%s' brings one",
                       c->type, id, c->type);
    if (c->kind == FY_HUB_CHECKPOINT && gguf && !weights)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "holds GGUF files, which need no conversion; 'ferry fetch %s' brings one",
                       id);
    if (wants_gguf && !gguf && weights)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "holds a checkpoint and no GGUF file; 'ferry convert %s --fetch' makes one",
                       id);
    if (gguf && (wants_gguf || !weights))
        return choose_gguf(l, c, e);
    choose_checkpoint(l);
    return weights ? 0
                   : fy_fail(e, FY_EUNSUPPORTED,
                             "none of its %zu files holds weights by a name that ferry knows "
                             "(model.safetensors, pytorch_model.bin, consolidated.*.pth, with an "
                             "index or without, NAME.gguf); --include='*' takes all files, another "
                             "pattern some",
                             l->n);
}

int fy_hub_list_choose(fy_hub_list *l, const fy_hub_choice *c, fy_err *e)
{
    bool patterns = c->include != NULL && c->include->n > 0;
    l->model = (fy_gguf_variant){0};
    for (size_t i = 0; i < l->n; i++)
        l->files[i].wanted = patterns && matches_any(c->include, l->files[i].name);
    if (!patterns && choose_kind(l, c, e) != 0)
        return -1;
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        l->files[i].wanted &= !matches_any(c->exclude, l->files[i].name);
        n += l->files[i].wanted;
    }
    return n > 0 ? 0
                 : fy_fail(e, FY_EUNSUPPORTED,
                           "none of its %zu files is wanted; see --include and --exclude", l->n);
}
