#include "convert/hf_dir.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/math.h"
#include "base/names.h"
#include "base/quote.h"
#include "format/sniff.h"

#define MAX_SHARDS 10000 /* far above any release; each is a mapping, which the system limits too \
                          */

struct fy_hf_dir {
    fy_st **files; /* owned */
    size_t n_files;
    fy_hf_tensor *tensors; /* owned */
    size_t n_tensors;
    fy_names index; /* name -> index in tensors */
    uint64_t bytes;
};

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

/* --- the index
 * -------------------------------------------------------------------------------------------------
 */

static int add_shard(weight_map *m, fy_span name, uint32_t *index, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    if (fy_names_find(&m->known, name, index))
        return 0;
    if (!fy_path_is_plain(name))
        return fy_fail(e, FY_EFORMAT, "shard '%s' is not a plain file name", quoted(q, name));
    if (m->n_shards == MAX_SHARDS)
        return fy_fail(e, FY_EFORMAT, "more than %d shards", MAX_SHARDS);
    const char **grown = fy_grow(m->shards, m->n_shards, &m->cap, sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    m->shards = grown;
    char *copy = fy_arena_strndup(&m->strings, name.ptr, name.len);
    if (copy == NULL)
        return fy_nomem(e);
    *index = (uint32_t)m->n_shards;
    if (fy_names_add(&m->known, (fy_span){copy, name.len}, *index) < 0)
        return fy_nomem(e);
    m->shards[m->n_shards++] = copy;
    return 0;
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

/* --- files
 * -----------------------------------------------------------------------------------------------------
 */

static int open_file(fy_hf_dir *d, const char *dir, const char *name, fy_err *e)
{
    char *path = fy_path_join(dir, name);
    if (path == NULL)
        return fy_nomem(e);
    fy_st *s = fy_st_open(path, e);
    free(path);
    if (s == NULL)
        return -1;
    d->files[d->n_files++] = s;
    return 0;
}

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

/* Lists all tensors of the opened files; a name in two of them is an error. */
static int gather(fy_hf_dir *d, fy_err *e)
{
    uint64_t n = 0;
    for (size_t i = 0; i < d->n_files; i++)
        n += fy_st_n_tensors(d->files[i]);
    if (n > UINT32_MAX)
        return fy_fail(e, FY_EFORMAT, "more tensors than ferry can count");
    d->tensors = calloc(n > 0 ? (size_t)n : 1, sizeof *d->tensors);
    if (d->tensors == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < d->n_files; i++) {
        for (size_t k = 0; k < fy_st_n_tensors(d->files[i]); k++) {
            const fy_st_tensor *t = fy_st_tensor_at(d->files[i], k);
            char q[FY_QUOTE_BYTES];
            int rc = fy_names_add(&d->index, t->name, (uint32_t)d->n_tensors);
            if (rc < 0)
                return fy_nomem(e);
            if (rc == 1)
                return fy_fail(e, FY_EFORMAT, "%s: tensor '%s' is in another shard too",
                               fy_st_path(d->files[i]), quoted(q, t->name));
            d->tensors[d->n_tensors++] = (fy_hf_tensor){t, d->files[i]};
            d->bytes += t->bytes; /* a part of the file's size: cannot overflow */
        }
    }
    return 0;
}

/* files[i] is shard i: what the map promises is there, and what is there is in the map. */
static int check_map(const fy_hf_dir *d, const weight_map *m, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    for (size_t i = 0; i < d->n_tensors; i++) {
        uint32_t shard;
        if (!fy_names_find(&m->shard_of, d->tensors[i].t->name, &shard))
            return fy_fail(e, FY_EFORMAT, "tensor '%s' is in %s but not in weight_map",
                           quoted(q, d->tensors[i].t->name), fy_st_path(d->tensors[i].file));
        if (d->files[shard] != d->tensors[i].file)
            return fy_fail(e, FY_EFORMAT, "tensor '%s' is in %s; weight_map says %s",
                           quoted(q, d->tensors[i].t->name), fy_st_path(d->tensors[i].file),
                           m->shards[shard]);
    }
    if (m->shard_of.n == d->n_tensors)
        return 0;
    for (size_t i = 0; i < m->shard_of.cap; i++) {
        const fy_names_slot *s = &m->shard_of.slots[i];
        if (s->name.ptr != NULL && !fy_names_find(&d->index, s->name, NULL))
            return fy_fail(e, FY_EFORMAT, "tensor '%s' of weight_map is not in %s",
                           quoted(q, s->name), m->shards[s->value]);
    }
    return 0;
}

static int open_shards(fy_hf_dir *d, const char *dir, weight_map *m, fy_err *e)
{
    if (check_present(m, dir, e))
        return -1;
    d->files = calloc(m->n_shards, sizeof *d->files);
    if (d->files == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < m->n_shards; i++) {
        if (open_file(d, dir, m->shards[i], e))
            return -1;
    }
    return gather(d, e) || check_map(d, m, e) ? -1 : 0;
}

static int open_sharded(fy_hf_dir *d, const char *dir, const char *index, fy_err *e)
{
    weight_map m = {0};
    fy_map file;
    if (fy_map_open(&file, index, e))
        return -1;
    int rc = read_index(&m, &file, e);
    fy_map_close(&file);
    if (rc == 0)
        rc = open_shards(d, dir, &m, e);
    map_release(&m);
    return rc ? fy_ctx(e, "%s", index) : 0;
}

/* --- what else may lie in the directory
 * ------------------------------------------------------------------------ */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* No safetensors: say what is there instead. */
static int nothing_here(const char *dir, fy_err *e)
{
    static const struct {
        const char *end, *what;
    } kinds[] = {
        {".safetensors", "a part of a checkpoint whose index was not downloaded"},
        {".gguf", "a GGUF file, which needs no conversion"},
        {".bin", "a PyTorch checkpoint; save it as safetensors first (save_pretrained does)"},
        {".pth", "a PyTorch checkpoint; save it as safetensors first (save_pretrained does)"},
        {".pt", "a PyTorch checkpoint; save it as safetensors first (save_pretrained does)"},
    };
    enum { N = sizeof kinds / sizeof kinds[0] };
    char found[N][FY_QUOTE_BYTES];
    memset(found, 0, sizeof found);
    DIR *dp = opendir(dir);
    if (dp == NULL)
        return fy_fail_errno(e, "%s", dir);
    for (const struct dirent *f = readdir(dp); f != NULL; f = readdir(dp)) {
        for (size_t i = 0; i < N; i++) {
            if (ends_with(f->d_name, kinds[i].end))
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
    return fy_fail(e, FY_EIO, "%s: neither " FY_HF_SINGLE " nor " FY_HF_INDEX " is in it", dir);
}

static int open_any(fy_hf_dir *d, const char *path, fy_err *e)
{
    if (!fy_file_exists(path))
        return fy_fail(e, FY_EIO, "%s: no such directory", path);
    if (!fy_file_is_dir(path))
        return fy_fail(e, FY_EARG, "%s is a file; give the checkpoint's directory", path);
    char *single = fy_path_join(path, FY_HF_SINGLE), *index = fy_path_join(path, FY_HF_INDEX);
    int rc;
    if (single == NULL || index == NULL) {
        rc = fy_nomem(e);
    } else if (fy_file_exists(single)) { /* as transformers: the single file wins */
        d->files = calloc(1, sizeof *d->files);
        if (d->files == NULL)
            rc = fy_nomem(e);
        else
            rc = open_file(d, path, FY_HF_SINGLE, e) || gather(d, e) ? -1 : 0;
    } else {
        rc = fy_file_exists(index) ? open_sharded(d, path, index, e) : nothing_here(path, e);
    }
    free(single);
    free(index);
    return rc;
}

fy_hf_dir *fy_hf_dir_open(const char *path, fy_err *e)
{
    fy_hf_dir *d = calloc(1, sizeof *d);
    if (d == NULL) {
        fy_nomem(e);
        return NULL;
    }
    if (open_any(d, path, e)) {
        fy_hf_dir_close(d);
        return NULL;
    }
    return d;
}

void fy_hf_dir_close(fy_hf_dir *d)
{
    if (d == NULL)
        return;
    for (size_t i = 0; i < d->n_files; i++)
        fy_st_close(d->files[i]);
    fy_names_release(&d->index);
    free(d->files);
    free(d->tensors);
    free(d);
}

size_t fy_hf_dir_n_tensors(const fy_hf_dir *d)
{
    return d->n_tensors;
}

const fy_hf_tensor *fy_hf_dir_at(const fy_hf_dir *d, size_t i)
{
    return &d->tensors[i];
}

const fy_hf_tensor *fy_hf_dir_find(const fy_hf_dir *d, fy_span name)
{
    uint32_t i;
    return fy_names_find(&d->index, name, &i) ? &d->tensors[i] : NULL;
}

uint64_t fy_hf_dir_bytes(const fy_hf_dir *d)
{
    return d->bytes;
}
