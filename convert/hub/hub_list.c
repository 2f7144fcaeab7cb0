/* The hub's reply about a repository (hub_list.h): parsed and checked, and the choice of the files
 * that a conversion needs. */
#include "hub/hub_list.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"

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

/* A hash, or null. */
static int read_hash(fy_json *j, const char *what, size_t digits, char out[FY_HUB_HASH_BYTES],
                     fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    fy_span s;
    if (fy_json_peek(j) == FY_JSON_NULL)
        return fy_json_null(j, e);
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
    if (s.len != digits || !fy_hub_is_hash(s.ptr, s.len))
        return fy_fail(e, FY_EFORMAT, "%s '%s', expected %zu hexadecimal digits", what,
                       fy_quote(q, sizeof q, s), digits);
    memcpy(out, s.ptr, s.len);
    out[s.len] = '\0';
    return 0;
}

static int read_size(fy_json *j, uint64_t *size, bool *has_size, fy_err *e)
{
    if (fy_json_peek(j) == FY_JSON_NULL)
        return fy_json_null(j, e);
    *has_size = true;
    return fy_json_u64(j, size, e);
}

/* One of siblings as it is read. */
typedef struct {
    fy_hub_file file;
    char sha256[FY_HUB_HASH_BYTES], blob[FY_HUB_HASH_BYTES];
    uint64_t lfs_size;
    bool has_size, has_lfs_size;
} sibling;

static int read_lfs(sibling *s, fy_json *j, fy_err *e)
{
    fy_span key;
    int rc;
    if (fy_json_peek(j) == FY_JSON_NULL)
        return fy_json_null(j, e);
    if (fy_json_object_begin(j, e) != 0)
        return -1;
    while ((rc = fy_json_object_next(j, &key, e)) == 1) {
        if (fy_span_is(key, "sha256"))
            rc = read_hash(j, "lfs.sha256", 64, s->sha256, e);
        else if (fy_span_is(key, "size"))
            rc = read_size(j, &s->lfs_size, &s->has_lfs_size, e);
        else
            rc = fy_json_skip(j, e);
        if (rc != 0)
            return -1;
    }
    return rc;
}

static int read_name(fy_hub_list *l, fy_json *j, fy_hub_file *f, fy_err *e)
{
    char q[FY_QUOTE_BYTES], shown[SHOWN_BYTES];
    fy_span s;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
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

static int read_sibling(fy_hub_list *l, fy_json *j, sibling *s, fy_err *e)
{
    fy_span key;
    int rc;
    if (fy_json_object_begin(j, e) != 0)
        return -1;
    while ((rc = fy_json_object_next(j, &key, e)) == 1) {
        if (fy_span_is(key, "rfilename"))
            rc = read_name(l, j, &s->file, e);
        else if (fy_span_is(key, "size"))
            rc = read_size(j, &s->file.size, &s->has_size, e);
        else if (fy_span_is(key, "blobId"))
            rc = read_hash(j, "blobId", 40, s->blob, e);
        else if (fy_span_is(key, "lfs"))
            rc = read_lfs(s, j, e);
        else
            rc = fy_json_skip(j, e);
        if (rc != 0)
            return -1;
    }
    return rc;
}

static int add_file(fy_hub_list *l, sibling *s, fy_err *e)
{
    if (s->file.name == NULL)
        return fy_fail(e, FY_EFORMAT, "siblings: a file without rfilename");
    if (s->has_size && s->has_lfs_size && s->file.size != s->lfs_size)
        return fy_fail(e, FY_EFORMAT, "%s: two sizes, %llu and %llu", s->file.shown,
                       (unsigned long long)s->file.size, (unsigned long long)s->lfs_size);
    if (s->has_lfs_size)
        s->file.size = s->lfs_size;
    /* of an LFS file blobId is the hash of the pointer that git keeps in its place */
    if (s->has_size || s->has_lfs_size)
        memcpy(s->file.hash, s->sha256[0] != '\0' ? s->sha256 : s->blob, FY_HUB_HASH_BYTES);
    if (l->n == FY_HUB_FILES_MAX)
        return fy_fail(e, FY_EFORMAT, "more than %d files", FY_HUB_FILES_MAX);
    return fy_append(&l->files, &l->n, &l->cap, &s->file, sizeof s->file, e);
}

static int read_siblings(fy_hub_list *l, fy_json *j, fy_err *e)
{
    int rc;
    if (fy_json_array_begin(j, e) != 0)
        return -1;
    while ((rc = fy_json_array_next(j, e)) == 1) {
        sibling s = {0};
        if (read_sibling(l, j, &s, e) != 0 || add_file(l, &s, e) != 0)
            return -1;
    }
    return rc;
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

static int read_reply(fy_hub_list *l, fy_json *j, fy_err *e)
{
    fy_span key, s;
    bool siblings = false;
    int rc;
    if (fy_json_object_begin(j, e) != 0)
        return -1;
    while ((rc = fy_json_object_next(j, &key, e)) == 1) {
        if (fy_span_is(key, "siblings")) {
            siblings = true;
            rc = read_siblings(l, j, e);
        } else if (fy_span_is(key, "sha")) {
            rc = fy_json_string(j, &s, NULL, e);
            if (rc == 0 && !fy_hub_is_hash(s.ptr, s.len))
                rc = fy_fail(e, FY_EFORMAT, "\"sha\" is not a commit");
            if (rc == 0)
                memcpy(l->commit, s.ptr, s.len);
        } else {
            rc = fy_json_skip(j, e);
        }
        if (rc != 0)
            return -1;
    }
    if (rc != 0 || fy_json_end(j, e) != 0)
        return -1;
    if (l->commit[0] == '\0' || !siblings)
        return fy_fail(e, FY_EFORMAT, "no \"%s\" in it", siblings ? "sha" : "siblings");
    return check_names(l, e);
}

int fy_hub_list_read(const void *p, size_t n, fy_hub_list *out, fy_err *e)
{
    fy_hub_list l = {0};
    fy_json *j = fy_json_new(p, n, e);
    int rc = j != NULL ? read_reply(&l, j, e) : -1;
    fy_json_free(j);
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

static bool choose_weights(fy_hub_list *l)
{
    for (size_t c = 0; c < sizeof containers / sizeof containers[0]; c++) {
        bool found = false;
        for (size_t i = 0; i < l->n; i++)
            found |= is_here(containers[c].first, l->files[i].name);
        for (size_t i = 0; found && i < l->n; i++) {
            const char *name = l->files[i].name;
            l->files[i].wanted |= is_here(containers[c].first, name);
            for (size_t k = 0; k < 3; k++)
                l->files[i].wanted |= is_here(containers[c].with[k], name);
        }
        if (found)
            return true;
    }
    return false;
}

static bool choose_needed(fy_hub_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        for (size_t k = 0; k < sizeof companions / sizeof companions[0]; k++)
            l->files[i].wanted |= is_here(companions[k], l->files[i].name);
    }
    return choose_weights(l);
}

int fy_hub_list_choose(fy_hub_list *l, const fy_opt_list *include, const fy_opt_list *exclude,
                       fy_err *e)
{
    bool patterns = include != NULL && include->n > 0;
    for (size_t i = 0; i < l->n; i++)
        l->files[i].wanted = patterns && matches_any(include, l->files[i].name);
    if (!patterns && !choose_needed(l))
        return fy_fail(
            e, FY_EUNSUPPORTED,
            "none of its %zu files holds weights by a name that ferry knows (model.safetensors, "
            "pytorch_model.bin, consolidated.*.pth, with an index or without); --include='*' "
            "takes all files, another pattern some",
            l->n);
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        l->files[i].wanted &= !matches_any(exclude, l->files[i].name);
        n += l->files[i].wanted;
    }
    return n > 0 ? 0
                 : fy_fail(e, FY_EUNSUPPORTED,
                           "none of its %zu files is wanted; see --include and --exclude", l->n);
}
