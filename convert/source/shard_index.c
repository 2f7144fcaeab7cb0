/* The index of a checkpoint in shards: model.safetensors.index.json, pytorch_model.bin.index.json.
 */
#include "convert/source/checkpoint_impl.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/math.h"
#include "base/names.h"
#include "base/str.h"
#include "format/sniff.h"

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

int fy_ckpt_open_shards(fy_ckpt *c, const char *dir, const char *index, fy_err *e)
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
