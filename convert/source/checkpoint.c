/* Opening a checkpoint: finds which files hold the weights, opens them and lists their tensors
 * under their names; for shards, checks the index against what the files hold. meta_checkpoint.c
 * opens Meta's and llama2.c's files. */
#include "convert/source/checkpoint.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/math.h"
#include "base/names.h"
#include "base/str.h"
#include "convert/source/checkpoint_impl.h"
#include "format/sniff.h"

/* --- files ------------------------------------------------------------------------------------ */

static int append_file(fy_ckpt *c, const char *path, bool is_safetensors, fy_err *e)
{
    fy_ckpt_file f = {0};
    fy_ckpt_file *grown = fy_grow(c->files, c->n_files, &c->cap_files, sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    c->files = grown;
    if (is_safetensors)
        f.st = fy_st_open(path, e);
    else
        f.torch = fy_torch_open(path, e);
    if (f.st == NULL && f.torch == NULL)
        return -1;
    c->files[c->n_files++] = f;
    return 0;
}

/* By name, so that the message about a damaged file says what it should be. */
static int open_path(fy_ckpt *c, const char *path, fy_err *e)
{
    return append_file(c, path, fy_span_ends(fy_span_of(path), ".safetensors"), e);
}

int fy_ckpt_add_file(fy_ckpt *c, const char *dir, const char *name, fy_err *e)
{
    char *path = fy_path_join(dir, name);
    int rc = path != NULL ? open_path(c, path, e) : fy_nomem(e);
    free(path);
    return rc;
}

const char *fy_ckpt_file_path(const fy_ckpt_file *f)
{
    return f->st != NULL ? fy_st_path(f->st) : fy_torch_path(f->torch);
}

size_t fy_ckpt_file_n_tensors(const fy_ckpt_file *f)
{
    return f->st != NULL ? fy_st_n_tensors(f->st) : fy_torch_n_tensors(f->torch);
}

static void of_safetensors(const fy_st *st, const fy_st_tensor *from, fy_ckpt_tensor *t,
                           fy_ckpt_part *part)
{
    uint64_t stride = 1;
    t->name = from->name;
    t->dtype = from->dtype;
    t->rank = from->rank;
    t->bytes = from->bytes;
    t->plain = true;
    memcpy(t->shape, from->shape, sizeof t->shape);
    part->data = from->data;
    part->map = fy_st_map(st);
    for (uint32_t d = from->rank; d-- > 0;) {
        part->stride[d] = stride;
        stride *= from->shape[d]; /* at most the file's size, or 0 */
    }
}

static void of_torch(const fy_torch *torch, const fy_torch_tensor *from, fy_ckpt_tensor *t,
                     fy_ckpt_part *part)
{
    t->name = from->name;
    t->dtype = from->dtype;
    t->rank = from->rank;
    t->bytes = from->bytes;
    t->plain = from->contiguous;
    memcpy(t->shape, from->shape, sizeof t->shape);
    part->data = from->data;
    part->map = fy_torch_map(torch);
    memcpy(part->stride, from->stride, sizeof part->stride);
}

static void tensor_of(const fy_ckpt_file *f, const fy_st_tensor *st, const fy_torch_tensor *torch,
                      fy_ckpt_tensor *t, fy_ckpt_part *part)
{
    *t = (fy_ckpt_tensor){.path = fy_ckpt_file_path(f), .parts = part, .n_parts = 1};
    *part = (fy_ckpt_part){0};
    if (st != NULL)
        of_safetensors(f->st, st, t, part);
    else
        of_torch(f->torch, torch, t, part);
    part->len = t->rank > 0 ? t->shape[0] : 1;
}

void fy_ckpt_file_tensor(const fy_ckpt_file *f, size_t i, fy_ckpt_tensor *t, fy_ckpt_part *part)
{
    tensor_of(f, f->st != NULL ? fy_st_tensor_at(f->st, i) : NULL,
              f->torch != NULL ? fy_torch_tensor_at(f->torch, i) : NULL, t, part);
}

bool fy_ckpt_file_find(const fy_ckpt_file *f, fy_span name, fy_ckpt_tensor *t, fy_ckpt_part *part)
{
    const fy_st_tensor *st = f->st != NULL ? fy_st_find(f->st, name) : NULL;
    const fy_torch_tensor *torch = f->torch != NULL ? fy_torch_find(f->torch, name) : NULL;
    if (st == NULL && torch == NULL)
        return false;
    tensor_of(f, st, torch, t, part);
    return true;
}

int fy_ckpt_add_tensor(fy_ckpt *c, const fy_ckpt_tensor *t, fy_err *e)
{
    if (c->n_tensors >= UINT32_MAX)
        return fy_fail(e, FY_EFORMAT, "more tensors than ferry can count");
    fy_ckpt_tensor *grown = fy_grow(c->tensors, c->n_tensors, &c->cap_tensors, sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    c->tensors = grown;
    fy_ckpt_part *parts = fy_arena_calloc(&c->arena, t->n_parts, sizeof *parts);
    if (parts == NULL)
        return fy_nomem(e);
    memcpy(parts, t->parts, t->n_parts * sizeof *parts);
    int rc = fy_names_add(&c->index, t->name, (uint32_t)c->n_tensors);
    if (rc != 0)
        return rc < 0 ? fy_nomem(e) : 1;
    c->tensors[c->n_tensors] = *t;
    c->tensors[c->n_tensors++].parts = parts;
    c->bytes += t->bytes; /* tensors share storages at most 2^32 times */
    return 0;
}

/* --- shards ----------------------------------------------------------------------------------- */

#define MAX_SHARDS                                                                 \
    10000 /* far above any release; each is a mapping, which the system limits too \
           */

/* weight_map as it is read. */
typedef struct {
    fy_arena strings;
    fy_names shard_of;   /* tensor -> index in shards */
    fy_names known;      /* shard -> index in shards */
    const char **shards; /* owned; strings in the arena */
    size_t n_shards, cap;
} weight_map;

static void map_release(weight_map *m)
{
    fy_names_release(&m->shard_of);
    fy_names_release(&m->known);
    fy_arena_release(&m->strings);
    free(m->shards);
}

static const char *quoted(char q[FY_QUOTE_BYTES], fy_span s)
{
    return fy_quote(q, FY_QUOTE_BYTES, s);
}

/* --- the index -------------------------------------------------------------------------------- */

static int add_shard(weight_map *m, fy_span name, uint32_t *index, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    if (fy_names_find(&m->known, name, index))
        return 0;
    if (!fy_path_is_plain(name))
        return fy_fail(e, FY_EFORMAT, "shard '%s' is not a plain file name", quoted(q, name));
    if (m->n_shards == MAX_SHARDS)
        return fy_fail(e, FY_EFORMAT, "more than %d shards", MAX_SHARDS);
    char *copy = fy_arena_strndup(&m->strings, name.ptr, name.len);
    if (copy == NULL)
        return fy_nomem(e);
    *index = (uint32_t)m->n_shards;
    if (fy_names_add(&m->known, (fy_span){copy, name.len}, *index) < 0)
        return fy_nomem(e);
    return fy_append(&m->shards, &m->n_shards, &m->cap, &copy, sizeof copy, e);
}

static int read_weight_map(weight_map *m, fy_json *j, fy_err *e)
{
    fy_span key, value;
    if (fy_json_object_begin(j, e))
        return -1;
    int rc;
    while ((rc = fy_json_object_next(j, &key, e)) == 1) {
        char *name = fy_arena_strndup(&m->strings, key.ptr, key.len);
        size_t len = key.len; /* key dies with the next call */
        uint32_t shard;
        if (name == NULL)
            return fy_nomem(e);
        if (fy_json_string(j, &value, NULL, e) || add_shard(m, value, &shard, e))
            return -1;
        if (fy_names_add(&m->shard_of, (fy_span){name, len}, shard) < 0)
            return fy_nomem(e);
    }
    return rc;
}

static int read_index_object(weight_map *m, fy_json *j, fy_err *e)
{
    fy_span key;
    bool seen = false;
    int rc;
    if (fy_json_object_begin(j, e))
        return -1;
    while ((rc = fy_json_object_next(j, &key, e)) == 1) {
        if (fy_span_is(key, "weight_map")) {
            seen = true;
            rc = read_weight_map(m, j, e);
        } else {
            rc = fy_json_skip(j, e); /* metadata.total_size is advice at best */
        }
        if (rc != 0)
            return -1;
    }
    if (rc != 0 || fy_json_end(j, e))
        return -1;
    if (!seen || m->n_shards == 0)
        return fy_fail(e, FY_EFORMAT, "no weight_map in it, or an empty one");
    return 0;
}

static int read_index(weight_map *m, const fy_map *file, fy_err *e)
{
    const char *text = (const char *)file->data;
    size_t i = 0;
    while (i < file->size && strchr(" \t\r\n", text[i]) != NULL && text[i] != '\0')
        i++;
    bool json = i < file->size && (text[i] == '{' || text[i] == '[');
    const char *other = json ? NULL : fy_sniff(text, file->size);
    if (other != NULL)
        return fy_fail(e, FY_EFORMAT, "this is %s", other);
    fy_json *j = fy_json_new(file->data, file->size, e);
    if (j == NULL)
        return -1;
    int rc = read_index_object(m, j, e);
    fy_json_free(j);
    return rc;
}

/* --- files ------------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* "a, b, c and 5 more" */
static void list_names(fy_str *s, const char *const *names, size_t n)
{
    enum { LIST_BYTES = 300 };
    for (size_t i = 0; i < n; i++) {
        if (s->len > LIST_BYTES) {
            fy_str_printf(s, " and %zu more", n - i);
            return;
        }
        fy_str_puts(s, i > 0 ? ", " : "");
        fy_str_put_quoted(s, fy_span_of(names[i]), 80);
    }
}

/* Every absent shard at once, so that one download mends it. */
static int check_present(const weight_map *m, const char *dir, fy_err *e)
{
    const char **absent = calloc(m->n_shards, sizeof *absent);
    fy_str list = {0};
    size_t n = 0;
    int rc = absent == NULL ? fy_nomem(e) : 0;
    for (size_t i = 0; i < m->n_shards && rc == 0; i++) {
        char *path = fy_path_join(dir, m->shards[i]);
        if (path == NULL)
            rc = fy_nomem(e);
        else if (!fy_file_exists(path))
            absent[n++] = m->shards[i];
        free(path);
    }
    if (rc == 0 && n > 0) {
        qsort(absent, n, sizeof *absent, by_name);
        list_names(&list, absent, n);
        rc = list.oom ? fy_nomem(e)
                      : fy_fail(e, FY_EIO, "%zu of %zu shards are absent; download %s", n,
                                m->n_shards, fy_str_z(&list));
    }
    fy_str_release(&list);
    free(absent);
    return rc;
}

/* Lists all tensors of the opened files. files[i] is shard i: what it holds is in the map, in its
 * name. */
static int gather(fy_ckpt *c, const weight_map *m, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    for (size_t i = 0; i < c->n_files; i++) {
        for (size_t k = 0; k < fy_ckpt_file_n_tensors(&c->files[i]); k++) {
            fy_ckpt_tensor t;
            fy_ckpt_part part;
            uint32_t shard;
            fy_ckpt_file_tensor(&c->files[i], k, &t, &part);
            int rc = fy_ckpt_add_tensor(c, &t, e);
            if (rc < 0)
                return -1;
            if (rc == 1)
                return fy_fail(e, FY_EFORMAT, "%s: tensor '%s' is in another shard too", t.path,
                               quoted(q, t.name));
            if (!fy_names_find(&m->shard_of, t.name, &shard))
                return fy_fail(e, FY_EFORMAT, "tensor '%s' is in %s but not in weight_map",
                               quoted(q, t.name), t.path);
            if (shard != i)
                return fy_fail(e, FY_EFORMAT, "tensor '%s' is in %s; weight_map says %s",
                               quoted(q, t.name), t.path, m->shards[shard]);
        }
    }
    return 0;
}

/* What the map promises is there. */
static int check_map(const fy_ckpt *c, const weight_map *m, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    if (m->shard_of.n == c->n_tensors)
        return 0;
    for (size_t i = 0; i < m->shard_of.cap; i++) {
        const fy_names_slot *s = &m->shard_of.slots[i];
        if (s->name.ptr != NULL && !fy_names_find(&c->index, s->name, NULL))
            return fy_fail(e, FY_EFORMAT, "tensor '%s' of weight_map is not in %s",
                           quoted(q, s->name), m->shards[s->value]);
    }
    return 0;
}

static int open_all(fy_ckpt *c, const char *dir, const weight_map *m, fy_err *e)
{
    if (check_present(m, dir, e))
        return -1;
    for (size_t i = 0; i < m->n_shards; i++) {
        if (fy_ckpt_add_file(c, dir, m->shards[i], e))
            return -1;
    }
    return gather(c, m, e) || check_map(c, m, e) ? -1 : 0;
}

static int open_shards(fy_ckpt *c, const char *dir, const char *index, fy_err *e)
{
    weight_map m = {0};
    fy_map file;
    char *path = fy_path_join(dir, index);
    if (path == NULL)
        return fy_nomem(e);
    int rc = fy_map_open(&file, path, e);
    if (rc == 0) {
        rc = read_index(&m, &file, e);
        fy_map_close(&file);
        if (rc == 0)
            rc = open_all(c, dir, &m, e);
        if (rc != 0)
            fy_ctx(e, "%s", path);
    }
    map_release(&m);
    free(path);
    return rc;
}

/* --- Hugging Face directories ----------------------------------------------------------------- */

/* Do all names have this text at byte `at`? */
static bool all_have(const fy_ckpt_file *f, size_t at, const char *text)
{
    size_t n = fy_ckpt_file_n_tensors(f), len = strlen(text);
    bool all = n > 0;
    for (size_t i = 0; i < n && all; i++) {
        fy_ckpt_tensor t;
        fy_ckpt_part part;
        fy_ckpt_file_tensor(f, i, &t, &part);
        all = t.name.len > at + len && memcmp(t.name.ptr + at, text, len) == 0;
    }
    return all;
}

/* Bytes in front of all names that come from how a model was trained or saved, not from its class.
 */
static size_t wrapper_bytes(const fy_ckpt_file *f)
{
    static const char *const heads[] = {"state_dict.", "model_state_dict.", "module.",
                                        "_orig_mod."};
    enum { N = sizeof heads / sizeof heads[0] };
    size_t n = 0, i = 0;
    while (i < N) {
        if (all_have(f, n, heads[i])) {
            n += strlen(heads[i]);
            i = 0;
        } else {
            i++;
        }
    }
    return n;
}

static int add_tensors_of_first(fy_ckpt *c, size_t cut, fy_err *e)
{
    for (size_t i = 0; i < fy_ckpt_file_n_tensors(&c->files[0]); i++) {
        fy_ckpt_tensor t;
        fy_ckpt_part part;
        fy_ckpt_file_tensor(&c->files[0], i, &t, &part);
        t.name = (fy_span){t.name.ptr + cut, t.name.len - cut};
        if (fy_ckpt_add_tensor(c, &t, e))
            return -1; /* names are unique within a file */
    }
    return 0;
}

static int open_single(fy_ckpt *c, const char *dir, const char *name, fy_err *e)
{
    return fy_ckpt_add_file(c, dir, name, e)
               ? -1
               : add_tensors_of_first(c, wrapper_bytes(&c->files[0]), e);
}

int fy_ckpt_has(const char *dir, const char *name, fy_err *e)
{
    char *path = fy_path_join(dir, name);
    int rc = path == NULL ? fy_nomem(e) : fy_file_exists(path) ? 1 : 0;
    free(path);
    return rc;
}

/* Files that are not weights, whatever they end with: what a trainer keeps in order to resume. */
static bool is_of_training(fy_span name)
{
    static const char *const names[] = {"optimizer.pt", "optimizer.bin", "scheduler.pt",
                                        "scaler.pt",    "scheduler.bin", "training_args.bin"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (fy_span_is(name, names[i]))
            return true;
    }
    return fy_span_begins(name, "rng_state");
}

/* No weights under a name of theirs: say what is there instead. */
static int nothing_here(const char *dir, fy_err *e)
{
    static const char layouts[] = "a PyTorch file of no layout that ferry knows (" FY_TORCH_SINGLE
                                  "; consolidated.00.pth with params.json; model_args inside, as "
                                  "llama2.c)";
    static const struct {
        const char *begin, *end, *what;
    } kinds[] = {
        {"consolidated.", ".safetensors",
         "the weights under Mistral's own names, which ferry does not read; download the files of "
         "the Hugging Face form (config.json, model*.safetensors)"},
        {"consolidated.", ".pth",
         "a part of a checkpoint in Meta's form, whose params.json is not next to it; download it"},
        {"", ".safetensors", "a part of a checkpoint whose index was not downloaded"},
        {"", ".gguf", "a GGUF file, which needs no conversion"},
        {"pytorch_model", ".bin", "a part of a PyTorch checkpoint whose index was not downloaded"},
        {"", ".pth", layouts},
        {"", ".pt", layouts},
        {"", "", "of a training, not of the model"},
    };
    enum { N = sizeof kinds / sizeof kinds[0] };
    char found[N][FY_QUOTE_BYTES];
    memset(found, 0, sizeof found);
    int has_config = fy_ckpt_has(dir, "config.json", e);
    DIR *dp = has_config < 0 ? NULL : opendir(dir);
    if (dp == NULL)
        return has_config < 0 ? -1 : fy_fail_errno(e, "%s", dir);
    for (const struct dirent *f = readdir(dp); f != NULL; f = readdir(dp)) {
        fy_span name = fy_span_of(f->d_name);
        size_t i = is_of_training(name) ? N - 1 : 0;
        while (i < N - 1 &&
               (!fy_span_begins(name, kinds[i].begin) || !fy_span_ends(name, kinds[i].end)))
            i++;
        if (i < N - 1 || is_of_training(name))
            fy_quote(found[i], FY_QUOTE_BYTES, name);
    }
    closedir(dp);
    for (size_t i = 0; i < N; i++) {
        if (found[i][0] != '\0')
            return fy_fail(e, FY_EUNSUPPORTED,
                           "%s: neither " FY_HF_SINGLE " nor " FY_TORCH_SINGLE
                           " nor an index of one; %s is %s",
                           dir, found[i], kinds[i].what);
    }
    return fy_fail(
        e, FY_EIO, "%s: neither " FY_HF_SINGLE " nor " FY_TORCH_SINGLE " nor an index of one%s",
        dir, has_config ? "" : ", and no config.json: it is not a checkpoint, or not all of one");
}

/* As transformers chooses: safetensors before PyTorch, the single file before the index. */
static const struct {
    const char *name;
    bool is_index;
} places[] = {
    {FY_HF_SINGLE, false}, {FY_HF_INDEX, true}, {FY_TORCH_SINGLE, false}, {FY_TORCH_INDEX, true}};
enum { N_PLACES = sizeof places / sizeof places[0] };

/* The first that is there: its index in `places`; N_PLACES: none; -1. */
static int find_place(const char *dir, fy_err *e)
{
    int i = 0, rc = 0;
    while (i < N_PLACES && (rc = fy_ckpt_has(dir, places[i].name, e)) == 0)
        i++;
    return rc < 0 ? -1 : i;
}

/* A link to nothing under one of the names, as the hub's cache has after an interruption. */
static int refuse_dangling(const char *dir, fy_err *e)
{
    for (int i = 0; i < N_PLACES; i++) {
        struct stat st;
        char *path = fy_path_join(dir, places[i].name);
        int rc = path == NULL ? fy_nomem(e) : 0;
        if (rc == 0 && lstat(path, &st) == 0)
            rc = fy_fail(e, FY_EIO, "%s: is a link to a file that is not there; download it again",
                         path);
        free(path);
        if (rc != 0)
            return -1;
    }
    return 0;
}

static int open_hf(fy_ckpt *c, const char *dir, fy_err *e)
{
    int i = find_place(dir, e);
    if (i < 0)
        return -1;
    if (i == N_PLACES)
        return refuse_dangling(dir, e) ? -1 : nothing_here(dir, e);
    return places[i].is_index ? open_shards(c, dir, places[i].name, e)
                              : open_single(c, dir, places[i].name, e);
}

/* Weights in Meta's form, and none in that of Hugging Face: a config.json next to them is not read.
 */
static int is_meta(const char *dir, fy_err *e)
{
    int place = find_place(dir, e);
    return place < N_PLACES ? (place < 0 ? -1 : 0) : fy_meta_is_there(dir, e);
}

/* --- all -------------------------------------------------------------------------------------- */

static bool is_torch_name(const char *name)
{
    fy_span s = fy_span_of(name);
    return fy_span_ends(s, ".pt") || fy_span_ends(s, ".pth");
}

/* A directory without a configuration: the one .pt or .pth file in it may have its own. */
static int open_only_file(fy_ckpt *c, const char *dir, fy_err *e)
{
    fy_str path = {0};
    int n = 0;
    DIR *dp = opendir(dir);
    if (dp == NULL)
        return fy_fail_errno(e, "%s", dir);
    for (const struct dirent *f = readdir(dp); f != NULL; f = readdir(dp)) {
        if (is_torch_name(f->d_name) && !is_of_training(fy_span_of(f->d_name)) && n++ == 0)
            fy_str_printf(&path, "%s/%s", dir, f->d_name);
    }
    closedir(dp);
    int rc = path.oom ? fy_nomem(e)
             : n == 1 ? fy_ckpt_open_llama2c(c, fy_str_z(&path), e)
                      : open_hf(c, dir, e);
    fy_str_release(&path);
    return rc;
}

static int open_any(fy_ckpt *c, const char *path, fy_err *e)
{
    if (!fy_file_exists(path))
        return fy_fail(e, FY_EIO, "%s: no such directory", path);
    if (!fy_file_is_dir(path)) {
        if (is_torch_name(path))
            return fy_ckpt_open_llama2c(c, path, e);
        return fy_fail(e, FY_EARG,
                       "%s is a file; give the checkpoint's directory, or --vocab-only with a "
                       "tokenizer file",
                       path);
    }
    int rc = is_meta(path, e);
    if (rc != 0)
        return rc < 0 ? -1 : fy_ckpt_open_meta(c, path, e);
    rc = fy_ckpt_has(path, "config.json", e);
    int place = rc < 0 ? -1 : find_place(path, e);
    if (place < 0)
        return -1;
    return rc == 1 || place < N_PLACES ? open_hf(c, path, e) : open_only_file(c, path, e);
}

static fy_ckpt *open_with(int (*open)(fy_ckpt *c, const char *path, fy_err *e), const char *path,
                          fy_err *e)
{
    fy_ckpt *c = calloc(1, sizeof *c);
    if (c == NULL) {
        fy_nomem(e);
        return NULL;
    }
    if (open(c, path, e)) {
        fy_ckpt_close(c);
        return NULL;
    }
    return c;
}

fy_ckpt *fy_ckpt_open(const char *path, fy_err *e)
{
    return open_with(open_any, path, e);
}

static int open_file(fy_ckpt *c, const char *path, fy_err *e)
{
    fy_map m;
    if (fy_map_open(&m, path, e))
        return -1;
    const char *what = fy_sniff(m.data, m.size);
    bool is_safetensors = fy_span_ends(fy_span_of(path), ".safetensors") ||
                          (what != NULL && strcmp(what, FY_SNIFF_SAFETENSORS) == 0);
    fy_map_close(&m);
    return append_file(c, path, is_safetensors, e) ? -1 : add_tensors_of_first(c, 0, e);
}

fy_ckpt *fy_ckpt_open_file(const char *path, fy_err *e)
{
    return open_with(open_file, path, e);
}

/* A directory's config.json is read first: what model it is says more than which files are there.
 */
fy_ckpt *fy_ckpt_open_model(const char *path, fy_hf_config *config, fy_err *e)
{
    *config = (fy_hf_config){0};
    int rc = fy_file_is_dir(path) ? fy_ckpt_has(path, "config.json", e) : 0;
    if (rc == 1) {
        int meta = is_meta(path, e);
        rc = meta < 0 ? -1 : !meta;
    }
    if (rc < 0 || (rc == 1 && fy_hf_config_open(config, path, e)))
        return NULL;
    fy_ckpt *c = fy_ckpt_open(path, e);
    if (c == NULL)
        return NULL;
    rc = config->root != NULL ? 0
         : c->config.len > 0  ? fy_hf_config_parse(config, c->config.ptr, c->config.len, path, e)
                              : fy_hf_config_open(config, path, e); /* reports that there is none */
    if (rc == 0 && config->fp8)
        rc = fy_ckpt_pair_scales(c, config, e);
    if (rc) {
        fy_ckpt_close(c);
        return NULL;
    }
    return c;
}

void fy_ckpt_close(fy_ckpt *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->n_files; i++) {
        fy_st_close(c->files[i].st);
        fy_torch_close(c->files[i].torch);
    }
    fy_names_release(&c->index);
    fy_str_release(&c->config);
    fy_lora_cache_free(c->lora);
    fy_arena_release(&c->arena);
    free(c->files);
    free(c->tensors);
    free(c);
}

size_t fy_ckpt_n_tensors(const fy_ckpt *c)
{
    return c->n_tensors;
}

const fy_ckpt_tensor *fy_ckpt_at(const fy_ckpt *c, size_t i)
{
    return &c->tensors[i];
}

const fy_ckpt_tensor *fy_ckpt_find(const fy_ckpt *c, fy_span name)
{
    uint32_t i;
    return fy_names_find(&c->index, name, &i) ? &c->tensors[i] : NULL;
}

uint64_t fy_ckpt_bytes(const fy_ckpt *c)
{
    return c->bytes;
}

uint64_t fy_ckpt_n_elements(const fy_ckpt_tensor *t)
{
    return t->bytes * 8 / fy_dtype_bits(t->dtype);
}

bool fy_ckpt_rotates_neighbours(const fy_ckpt *c)
{
    return c->rotates_neighbours;
}
