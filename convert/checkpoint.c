#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/quote.h"
#include "convert/checkpoint_impl.h"
#include "convert/fp8.h"
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

/* By name, so that a damaged file gets the words of what it should be. */
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

static void of_safetensors(const fy_st *st, size_t i, fy_ckpt_tensor *t, fy_ckpt_part *part)
{
    const fy_st_tensor *from = fy_st_tensor_at(st, i);
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

static void of_torch(const fy_torch *torch, size_t i, fy_ckpt_tensor *t, fy_ckpt_part *part)
{
    const fy_torch_tensor *from = fy_torch_tensor_at(torch, i);
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

void fy_ckpt_file_tensor(const fy_ckpt_file *f, size_t i, fy_ckpt_tensor *t, fy_ckpt_part *part)
{
    *t = (fy_ckpt_tensor){.path = fy_ckpt_file_path(f), .parts = part, .n_parts = 1};
    *part = (fy_ckpt_part){0};
    if (f->st != NULL)
        of_safetensors(f->st, i, t, part);
    else
        of_torch(f->torch, i, t, part);
    part->len = t->rank > 0 ? t->shape[0] : 1;
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

/* --- Hugging Face directories ----------------------------------------------------------------- */

static int add_tensors_of_first(fy_ckpt *c, fy_err *e)
{
    for (size_t i = 0; i < fy_ckpt_file_n_tensors(&c->files[0]); i++) {
        fy_ckpt_tensor t;
        fy_ckpt_part part;
        fy_ckpt_file_tensor(&c->files[0], i, &t, &part);
        if (fy_ckpt_add_tensor(c, &t, e))
            return -1; /* names are unique within a file */
    }
    return 0;
}

static int open_single(fy_ckpt *c, const char *dir, const char *name, fy_err *e)
{
    return fy_ckpt_add_file(c, dir, name, e) ? -1 : add_tensors_of_first(c, e);
}

int fy_ckpt_has(const char *dir, const char *name, fy_err *e)
{
    char *path = fy_path_join(dir, name);
    int rc = path == NULL ? fy_nomem(e) : fy_file_exists(path) ? 1 : 0;
    free(path);
    return rc;
}

/* No weights under a name of theirs: say what is there instead. */
static int nothing_here(const char *dir, fy_err *e)
{
    static const struct {
        const char *end, *what;
    } kinds[] = {
        {".safetensors", "a part of a checkpoint whose index was not downloaded"},
        {".gguf", "a GGUF file, which needs no conversion"},
        {".bin", "a part of a PyTorch checkpoint whose index was not downloaded"},
        {".pth", "a PyTorch file of no layout that ferry knows (pytorch_model.bin; "
                 "consolidated.00.pth with params.json; model_args inside, as llama2.c)"},
        {".pt", "a PyTorch file of no layout that ferry knows (pytorch_model.bin; "
                "consolidated.00.pth with params.json; model_args inside, as llama2.c)"},
    };
    enum { N = sizeof kinds / sizeof kinds[0] };
    char found[N][FY_QUOTE_BYTES];
    memset(found, 0, sizeof found);
    int has_config = fy_ckpt_has(dir, "config.json", e);
    DIR *dp = has_config < 0 ? NULL : opendir(dir);
    if (dp == NULL)
        return has_config < 0 ? -1 : fy_fail_errno(e, "%s", dir);
    for (const struct dirent *f = readdir(dp); f != NULL; f = readdir(dp)) {
        for (size_t i = 0; i < N; i++) {
            if (fy_span_ends(fy_span_of(f->d_name), kinds[i].end))
                fy_quote(found[i], FY_QUOTE_BYTES, fy_span_of(f->d_name));
        }
    }
    closedir(dp);
    for (size_t i = 0; i < N; i++) {
        if (found[i][0] != '\0')
            return fy_fail(e, FY_EUNSUPPORTED,
                           "%s: neither " FY_HF_SINGLE " nor " FY_HF_INDEX "; %s is %s", dir,
                           found[i], kinds[i].what);
    }
    return fy_fail(e, FY_EIO, "%s: neither " FY_HF_SINGLE " nor " FY_HF_INDEX " is in it%s", dir,
                   has_config ? ""
                              : ", and no config.json: it is no checkpoint, or not all of one");
}

/* As transformers chooses: safetensors before PyTorch, the single file before the index. */
static int open_hf(fy_ckpt *c, const char *dir, fy_err *e)
{
    static const struct {
        const char *name;
        bool is_index;
    } places[] = {{FY_HF_SINGLE, false},
                  {FY_HF_INDEX, true},
                  {FY_TORCH_SINGLE, false},
                  {FY_TORCH_INDEX, true}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int rc = fy_ckpt_has(dir, places[i].name, e);
        if (rc != 0)
            return rc < 0               ? -1
                   : places[i].is_index ? fy_ckpt_open_shards(c, dir, places[i].name, e)
                                        : open_single(c, dir, places[i].name, e);
    }
    return nothing_here(dir, e);
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
        if (is_torch_name(f->d_name) && n++ == 0)
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
    int rc = fy_ckpt_has(path, "config.json", e);
    if (rc == 0)
        rc = fy_ckpt_has(path, FY_HF_SINGLE, e);
    if (rc == 0)
        rc = fy_ckpt_has(path, FY_HF_INDEX, e);
    if (rc != 0)
        return rc < 0 ? -1 : open_hf(c, path, e);
    rc = fy_meta_is_there(path, e);
    if (rc != 0)
        return rc < 0 ? -1 : fy_ckpt_open_meta(c, path, e);
    return open_only_file(c, path, e);
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
    return append_file(c, path, is_safetensors, e) ? -1 : add_tensors_of_first(c, e);
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
    if (rc < 0 || (rc == 1 && fy_hf_config_open(config, path, e)))
        return NULL;
    fy_ckpt *c = fy_ckpt_open(path, e);
    if (c == NULL)
        return NULL;
    rc = config->root != NULL ? 0
         : c->config.len > 0  ? fy_hf_config_parse(config, c->config.ptr, c->config.len, path, e)
                              : fy_hf_config_open(config, path, e); /* there is none: it says so */
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
