/* Opening a checkpoint: finds which files hold the weights, opens them and lists their tensors
 * under their names; for shards, checks the index against what the files hold. meta_checkpoint.c
 * opens Meta's and llama2.c's files. */
#include "convert/source/checkpoint.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/names.h"
#include "base/str.h"
#include "convert/source/checkpoint_impl.h"
#include "convert/source/config_value.h"

/* --- files ------------------------------------------------------------------------------------ */

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

static int list_tensors(fy_ckpt *c, fy_ckpt_file *f, fy_err *e)
{
    size_t n = f->st != NULL ? fy_st_n_tensors(f->st) : fy_torch_n_tensors(f->torch);
    fy_ckpt_tensor *tensors = fy_arena_calloc(&c->arena, n, sizeof *tensors);
    fy_ckpt_part *parts = fy_arena_calloc(&c->arena, n, sizeof *parts);
    if (tensors == NULL || parts == NULL)
        return fy_nomem(e);
    f->path = f->st != NULL ? fy_st_path(f->st) : fy_torch_path(f->torch);
    f->tensors = tensors;
    f->n_tensors = n;
    for (size_t i = 0; i < n; i++) {
        fy_ckpt_tensor *t = &tensors[i];
        t->path = f->path;
        t->parts = &parts[i];
        t->n_parts = 1;
        if (f->st != NULL)
            of_safetensors(f->st, fy_st_tensor_at(f->st, i), t, &parts[i]);
        else
            of_torch(f->torch, fy_torch_tensor_at(f->torch, i), t, &parts[i]);
        parts[i].len = t->rank > 0 ? t->shape[0] : 1;
    }
    return 0;
}

static int append_file(fy_ckpt *c, const char *path, bool is_safetensors, fy_err *e)
{
    fy_ckpt_file *grown = fy_grow(c->files, c->n_files, &c->cap_files, sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    c->files = grown;
    fy_ckpt_file *f = &c->files[c->n_files];
    *f = (fy_ckpt_file){0};
    if (is_safetensors)
        f->st = fy_st_open(path, e);
    else
        f->torch = fy_torch_open(path, e);
    if (f->st == NULL && f->torch == NULL)
        return -1;
    c->n_files++;
    return list_tensors(c, f, e);
}

int fy_ckpt_add_file(fy_ckpt *c, const char *dir, const char *name, fy_err *e)
{
    char *path = fy_path_join(dir, name);
    /* By name, so that the message about a damaged file says what it should be. */
    int rc = path != NULL ? append_file(c, path, fy_span_ends(fy_span_of(path), ".safetensors"), e)
                          : fy_nomem(e);
    free(path);
    return rc;
}

const fy_ckpt_tensor *fy_ckpt_file_find(const fy_ckpt_file *f, fy_span name)
{
    const fy_st_tensor *st = f->st != NULL ? fy_st_find(f->st, name) : NULL;
    const fy_torch_tensor *torch = f->torch != NULL ? fy_torch_find(f->torch, name) : NULL;
    if (st != NULL)
        return &f->tensors[st - fy_st_tensor_at(f->st, 0)];
    return torch != NULL ? &f->tensors[torch - fy_torch_tensor_at(f->torch, 0)] : NULL;
}

int fy_ckpt_add_tensor(fy_ckpt *c, const fy_ckpt_tensor *t, fy_err *e)
{
    if (c->n_tensors >= UINT32_MAX)
        return fy_fail(e, FY_EFORMAT, "more tensors than ferry can count");
    fy_ckpt_tensor *grown = fy_grow(c->tensors, c->n_tensors, &c->cap_tensors, sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    c->tensors = grown;
    int rc = fy_names_add(&c->index, t->name, (uint32_t)c->n_tensors);
    if (rc != 0)
        return rc < 0 ? fy_nomem(e) : 1;
    c->tensors[c->n_tensors++] = *t;
    c->bytes += t->bytes; /* tensors share storages at most 2^32 times */
    return 0;
}

/* --- shards ----------------------------------------------------------------------------------- */

#define MAX_SHARDS                                                                 \
    10000 /* far above any release; each is a mapping, which the system limits too \
           */

/* The index. */
typedef struct {
    json_t *root;        /* owned; all names are views of it */
    fy_names shard_of;   /* tensor -> index in shards */
    fy_names known;      /* shard -> index in shards */
    const char **shards; /* owned */
    size_t n_shards;
} weight_map;

static void map_release(weight_map *m)
{
    fy_names_release(&m->shard_of);
    fy_names_release(&m->known);
    free(m->shards);
    json_decref(m->root);
}

static const char *quoted(char q[FY_QUOTE_BYTES], fy_span s)
{
    return fy_quote(q, FY_QUOTE_BYTES, s);
}

static int add_shard(weight_map *m, const json_t *v, uint32_t *index, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    fy_span name = {json_string_value(v), json_string_length(v)};
    if (!json_is_string(v))
        return fy_fail(e, FY_EFORMAT, "weight_map holds something else than names of shards");
    if (fy_names_find(&m->known, name, index))
        return 0;
    if (!fy_path_is_plain(name))
        return fy_fail(e, FY_EFORMAT, "shard '%s' is not a plain file name", quoted(q, name));
    if (m->n_shards == MAX_SHARDS)
        return fy_fail(e, FY_EFORMAT, "more than %d shards", MAX_SHARDS);
    *index = (uint32_t)m->n_shards;
    m->shards[m->n_shards++] = name.ptr;
    return fy_names_add(&m->known, name, *index) < 0 ? fy_nomem(e) : 0;
}

/* metadata.total_size is advice at best. */
static int read_weight_map(weight_map *m, fy_err *e)
{
    json_t *map = json_object_get(m->root, "weight_map"), *v;
    const char *name;
    uint32_t shard;
    if (json_object_size(map) == 0)
        return fy_fail(e, FY_EFORMAT, "no weight_map in it, or an empty one");
    m->shards = calloc(MAX_SHARDS, sizeof *m->shards);
    if (m->shards == NULL)
        return fy_nomem(e);
    json_object_foreach(map, name, v)
    {
        if (add_shard(m, v, &shard, e))
            return -1;
        if (fy_names_add(&m->shard_of, fy_span_of(name), shard) < 0)
            return fy_nomem(e);
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Every absent shard at once, so that one download mends it; m->shards then holds those. */
static int check_present(weight_map *m, const char *dir, fy_err *e)
{
    fy_name_list absent = {0};
    size_t n = 0;
    for (size_t i = 0; i < m->n_shards; i++) {
        if (!fy_dir_has(dir, m->shards[i]))
            m->shards[n++] = m->shards[i];
    }
    if (n == 0)
        return 0;
    qsort(m->shards, n, sizeof *m->shards, by_name);
    for (size_t i = 0; i < n; i++)
        fy_name_list_add(&absent, fy_span_of(m->shards[i]));
    fy_fail(e, FY_EIO, "%zu of %zu shards are absent; download %s", n, m->n_shards,
            fy_name_list_end(&absent));
    fy_str_release(&absent.text);
    return -1;
}

/* Lists all tensors of the opened files. files[i] is shard i: what it holds is in the map, in its
 * name. */
static int gather(fy_ckpt *c, const weight_map *m, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    for (size_t i = 0; i < c->n_files; i++) {
        for (size_t k = 0; k < c->files[i].n_tensors; k++) {
            const fy_ckpt_tensor *t = &c->files[i].tensors[k];
            uint32_t shard;
            int rc = fy_ckpt_add_tensor(c, t, e);
            if (rc < 0)
                return -1;
            if (rc == 1)
                return fy_fail(e, FY_EFORMAT, "%s: tensor '%s' is in another shard too", t->path,
                               quoted(q, t->name));
            if (!fy_names_find(&m->shard_of, t->name, &shard))
                return fy_fail(e, FY_EFORMAT, "tensor '%s' is in %s but not in weight_map",
                               quoted(q, t->name), t->path);
            if (shard != i)
                return fy_fail(e, FY_EFORMAT, "tensor '%s' is in %s; weight_map says %s",
                               quoted(q, t->name), t->path, m->shards[shard]);
        }
    }
    return 0;
}

/* What the map promises is there. */
static int check_map(const fy_ckpt *c, const weight_map *m, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    const char *name;
    json_t *v;
    json_object_foreach(json_object_get(m->root, "weight_map"), name, v)
    {
        if (fy_ckpt_find(c, fy_span_of(name)) == NULL)
            return fy_fail(e, FY_EFORMAT, "tensor '%s' of weight_map is not in %s",
                           quoted(q, fy_span_of(name)), json_string_value(v));
    }
    return 0;
}

static int open_all(fy_ckpt *c, const char *dir, weight_map *m, fy_err *e)
{
    if (read_weight_map(m, e) || check_present(m, dir, e))
        return -1;
    for (size_t i = 0; i < m->n_shards; i++) {
        if (fy_ckpt_add_file(c, dir, m->shards[i], e))
            return -1;
    }
    return gather(c, m, e) || check_map(c, m, e) ? -1 : 0;
}

static int open_shards(fy_ckpt *c, const char *dir, const char *index, fy_err *e)
{
    fy_err own = {0};
    char *path = fy_path_join(dir, index);
    if (path == NULL)
        return fy_nomem(e);
    weight_map m = {.root = fy_cfg_tree_of(path, e)};
    int rc = m.root == NULL               ? -1
             : open_all(c, dir, &m, &own) ? fy_fail(e, own.code, "%s: %s", path, own.msg)
                                          : 0;
    map_release(&m);
    free(path);
    return rc;
}

/* --- Hugging Face directories ----------------------------------------------------------------- */

/* Do all names have this text at byte `at`? */
static bool all_have(const fy_ckpt_file *f, size_t at, const char *text)
{
    size_t len = strlen(text);
    bool all = f->n_tensors > 0;
    for (size_t i = 0; i < f->n_tensors && all; i++) {
        fy_span name = f->tensors[i].name;
        all = name.len > at + len && memcmp(name.ptr + at, text, len) == 0;
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
    for (size_t i = 0; i < c->files[0].n_tensors; i++) {
        fy_ckpt_tensor t = c->files[0].tensors[i];
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
                                  "llama2.c; RWKV's names)";
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
    DIR *dp = opendir(dir);
    if (dp == NULL)
        return fy_fail_errno(e, "%s", dir);
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
    return fy_fail(e, FY_EIO,
                   "%s: neither " FY_HF_SINGLE " nor " FY_TORCH_SINGLE " nor an index of one%s",
                   dir,
                   fy_dir_has(dir, "config.json")
                       ? ""
                       : ", and no config.json: it is not a checkpoint, or not all of one");
}

/* As transformers chooses: safetensors before PyTorch, the single file before the index. */
static const struct {
    const char *name;
    bool is_index;
} places[] = {
    {FY_HF_SINGLE, false}, {FY_HF_INDEX, true}, {FY_TORCH_SINGLE, false}, {FY_TORCH_INDEX, true}};
enum { N_PLACES = sizeof places / sizeof places[0] };

/* The first that is there: its index in `places`; N_PLACES: none. */
static int find_place(const char *dir)
{
    int i = 0;
    while (i < N_PLACES && !fy_dir_has(dir, places[i].name))
        i++;
    return i;
}

/* A link to nothing under one of the names, as the hub's cache has after an interruption. */
static int refuse_dangling(const char *dir, fy_err *e)
{
    for (int i = 0; i < N_PLACES; i++) {
        struct stat st;
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", dir, places[i].name);
        if (lstat(path, &st) == 0)
            return fy_fail(e, FY_EIO,
                           "%s: is a link to a file that is not there; download it again", path);
    }
    return 0;
}

static int open_hf(fy_ckpt *c, const char *dir, fy_err *e)
{
    int i = find_place(dir);
    if (i == N_PLACES)
        return refuse_dangling(dir, e) ? -1 : nothing_here(dir, e);
    return places[i].is_index ? open_shards(c, dir, places[i].name, e)
                              : open_single(c, dir, places[i].name, e);
}

/* Weights in Meta's form, and none in that of Hugging Face: a config.json next to them is not read.
 */
static bool is_meta(const char *dir)
{
    return find_place(dir) == N_PLACES && fy_meta_is_there(dir);
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
    if (is_meta(path))
        return fy_ckpt_open_meta(c, path, e);
    return fy_dir_has(path, "config.json") || find_place(path) < N_PLACES
               ? open_hf(c, path, e)
               : open_only_file(c, path, e);
}

static fy_ckpt *new_ckpt(fy_err *e)
{
    fy_ckpt *c = calloc(1, sizeof *c);
    if (c == NULL)
        fy_nomem(e);
    return c;
}

/* c, or NULL after a failure. */
static fy_ckpt *kept_if(fy_ckpt *c, bool good)
{
    if (good)
        return c;
    fy_ckpt_close(c);
    return NULL;
}

fy_ckpt *fy_ckpt_open(const char *path, fy_err *e)
{
    fy_ckpt *c = new_ckpt(e);
    return kept_if(c, c != NULL && open_any(c, path, e) == 0);
}

fy_ckpt *fy_ckpt_open_file(const char *path, bool is_safetensors, fy_err *e)
{
    fy_ckpt *c = new_ckpt(e);
    return kept_if(c, c != NULL && append_file(c, path, is_safetensors, e) == 0 &&
                          add_tensors_of_first(c, 0, e) == 0);
}

/* A directory's config.json is read first: what model it is says more than which files are there.
 */
fy_ckpt *fy_ckpt_open_model(const char *path, fy_hf_config *config, fy_err *e)
{
    *config = (fy_hf_config){0};
    if (fy_dir_has(path, "config.json") && !is_meta(path) && fy_hf_config_open(config, path, e))
        return NULL;
    fy_ckpt *c = fy_ckpt_open(path, e);
    int rc = c == NULL              ? -1
             : config->root != NULL ? 0
             : c->config.len > 0
                 ? fy_hf_config_parse(config, c->config.ptr, c->config.len, path, e)
                 : fy_hf_config_open(config, path, e); /* reports that there is none */
    if (rc == 0 && config->hp.wkv_head != 0)
        fy_rwkv_measure(c, config->family, &config->hp);
    if (rc == 0 && (config->fp8 || config->mxfp4))
        rc = fy_ckpt_pair_scales(c, config, e);
    return kept_if(c, rc == 0);
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

const fy_st *fy_ckpt_safetensors(const fy_ckpt *c)
{
    return c->files[0].st;
}

const fy_torch *fy_ckpt_torch(const fy_ckpt *c)
{
    return c->files[0].torch;
}

uint64_t fy_ckpt_n_elements(const fy_ckpt_tensor *t)
{
    return t->bytes * 8 / fy_dtype_bits(t->dtype);
}

bool fy_ckpt_rotates_neighbours(const fy_ckpt *c)
{
    return c->rotates_neighbours;
}
