/* Opening a PyTorch checkpoint: the container gives the graph of its pickle, and a walk over it
 * makes the lists of tensors, values and opaque objects, named by their path. */
#include "format/torch_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/names.h"
#include "base/str.h"
#include "format/sniff.h"
#include "format/torch_impl.h"

enum {
    MAX_DEPTH = 64,
    FREE_VISITS = 1 << 16, /* of values, by any way to them, however small the pickle */
    VISITS_PER_OP = 4,
    MAX_NAME = 4096,
    MAX_NAME_BYTES = 64 << 20, /* of all names together */
};

struct fy_torch {
    char *path; /* owned */
    fy_map map; /* empty when parsed from the caller's bytes */
    const char *container;
    fy_torch_tensor *tensors; /* owned */
    size_t n_tensors, cap_tensors;
    fy_torch_value *values; /* owned */
    size_t n_values, cap_values;
    fy_torch_opaque *opaques; /* owned */
    size_t n_opaques, cap_opaques;
    fy_names tensor_index, value_index;
    fy_arena names;
};

/* --- from the graph to a list of names -------------------------------------------------------- */

typedef struct {
    fy_torch *t;
    const fy_torch_reader *r;
    fy_str name;          /* of the value that is looked at */
    uint32_t visits_left; /* bounds the walk when shared values multiply */
    size_t name_bytes;
    fy_err *e;
} walker;

static int walk(walker *w, const fy_pickle_node *v, int depth);

static const char *shown_name(walker *w, char buf[FY_QUOTE_BYTES])
{
    return fy_quote(buf, FY_QUOTE_BYTES, (fy_span){fy_str_z(&w->name), w->name.len});
}

static int keep_text(walker *w, const char *p, size_t n, fy_span *out)
{
    w->name_bytes += n;
    if (w->name_bytes > MAX_NAME_BYTES)
        return fy_fail(w->e, FY_EUNSUPPORTED, "the names in it take more than %d bytes",
                       MAX_NAME_BYTES);
    char *copy = fy_arena_strndup(&w->t->names, p, n);
    if (copy == NULL)
        return fy_nomem(w->e);
    *out = (fy_span){copy, n};
    return 0;
}

static int keep_name(walker *w, fy_span *out)
{
    if (w->name.oom)
        return fy_nomem(w->e);
    return keep_text(w, fy_str_z(&w->name), w->name.len, out);
}

static int add_tensor(walker *w, const fy_pickle_node *v)
{
    char shown[FY_QUOTE_BYTES];
    fy_torch_tensor tensor = {0};
    fy_torch *t = w->t;
    if (fy_torch_read_tensor(w->r, v, &tensor, w->e) != 0)
        return fy_ctx(w->e, "tensor '%s'", shown_name(w, shown));
    if (keep_name(w, &tensor.name) != 0)
        return -1;
    int rc = fy_names_add(&t->tensor_index, tensor.name, (uint32_t)t->n_tensors);
    if (rc > 0)
        return fy_fail(w->e, FY_EFORMAT, "two tensors are called '%s'", shown_name(w, shown));
    if (rc < 0)
        return fy_nomem(w->e);
    return fy_append(&t->tensors, &t->n_tensors, &t->cap_tensors, &tensor, sizeof tensor, w->e);
}

static int add_value(walker *w, const fy_pickle_node *v, fy_torch_kind kind)
{
    char shown[FY_QUOTE_BYTES];
    fy_torch *t = w->t;
    fy_torch_value value = {.kind = kind};
    if (kind == FY_TORCH_TEXT)
        value.text = v->text;
    else if (kind == FY_TORCH_FLOAT)
        value.f = v->f;
    else
        value.i = v->i;
    if (keep_name(w, &value.name) != 0)
        return -1;
    int rc = fy_names_add(&t->value_index, value.name, (uint32_t)t->n_values);
    if (rc > 0)
        return fy_fail(w->e, FY_EFORMAT, "two values are called '%s'", shown_name(w, shown));
    if (rc < 0)
        return fy_nomem(w->e);
    return fy_append(&t->values, &t->n_values, &t->cap_values, &value, sizeof value, w->e);
}

static int add_opaque(walker *w, const fy_pickle_node *v)
{
    fy_torch *t = w->t;
    fy_torch_opaque opaque;
    fy_str global = {0};
    fy_torch_put_global(&global, v);
    int rc =
        global.oom ? fy_nomem(w->e) : keep_text(w, fy_str_z(&global), global.len, &opaque.global);
    fy_str_release(&global);
    if (rc != 0 || keep_name(w, &opaque.name) != 0)
        return -1;
    return fy_append(&t->opaques, &t->n_opaques, &t->cap_opaques, &opaque, sizeof opaque, w->e);
}

/* Appends a key to the name. False: its kind names nothing (None, a tuple, ...), and its value is
 * ignored. */
static bool put_key(walker *w, const fy_pickle_node *key)
{
    size_t dot = w->name.len;
    if (key->kind != FY_PICKLE_TEXT && key->kind != FY_PICKLE_INT)
        return false;
    if (dot > 0)
        fy_str_putc(&w->name, '.');
    if (key->kind == FY_PICKLE_TEXT)
        fy_str_add(&w->name, key->text.ptr, key->text.len);
    else
        fy_str_printf(&w->name, "%" PRId64, key->i);
    return true;
}

static void cut_name(walker *w, size_t len)
{
    w->name.len = len;
    if (w->name.ptr != NULL && !w->name.oom)
        w->name.ptr[len] = '\0';
}

static int walk_dict(walker *w, const fy_pickle_node *v, int depth)
{
    size_t len = w->name.len;
    for (uint32_t i = 0; i < v->items.n; i += 2) {
        if (put_key(w, v->items.at[i]) && walk(w, v->items.at[i + 1], depth + 1) != 0)
            return -1;
        cut_name(w, len);
    }
    return 0;
}

static int walk_list(walker *w, const fy_pickle_node *v, int depth)
{
    size_t len = w->name.len;
    for (uint32_t i = 0; i < v->items.n; i++) {
        fy_pickle_node key = {.kind = FY_PICKLE_INT, .i = i};
        put_key(w, &key);
        if (walk(w, v->items.at[i], depth + 1) != 0)
            return -1;
        cut_name(w, len);
    }
    return 0;
}

static int walk_call(walker *w, const fy_pickle_node *v, int depth)
{
    switch (fy_torch_call_kind(v)) {
    case FY_TORCH_CALL_TENSOR:
        return add_tensor(w, v);
    case FY_TORCH_CALL_SIZE:
        return walk(w, v->call.args->items.at[0], depth + 1);
    case FY_TORCH_CALL_OTHER:
    default:
        return add_opaque(w, v);
    }
}

static int walk(walker *w, const fy_pickle_node *v, int depth)
{
    char shown[FY_QUOTE_BYTES];
    if (fy_check_interrupt(w->e) != 0)
        return -1;
    if (depth > MAX_DEPTH)
        return fy_fail(w->e, FY_EUNSUPPORTED, "'%s' is nested deeper than %d levels",
                       shown_name(w, shown), MAX_DEPTH);
    if (w->name.len > MAX_NAME)
        return fy_fail(w->e, FY_EUNSUPPORTED, "the name '%s' has more than %d bytes",
                       shown_name(w, shown), MAX_NAME);
    if (w->visits_left-- == 0)
        return fy_fail(w->e, FY_EUNSUPPORTED,
                       "'%s' and others are parts of each other too many times over",
                       shown_name(w, shown));
    switch (v->kind) {
    case FY_PICKLE_DICT:
        return walk_dict(w, v, depth);
    case FY_PICKLE_LIST:
    case FY_PICKLE_TUPLE:
        return walk_list(w, v, depth);
    case FY_PICKLE_CALL:
        return walk_call(w, v, depth);
    case FY_PICKLE_BOOL:
        return add_value(w, v, FY_TORCH_BOOL);
    case FY_PICKLE_INT:
        return add_value(w, v, FY_TORCH_INT);
    case FY_PICKLE_FLOAT:
        return add_value(w, v, FY_TORCH_FLOAT);
    case FY_PICKLE_TEXT:
        return add_value(w, v, FY_TORCH_TEXT);
    case FY_PICKLE_GLOBAL:
    case FY_PICKLE_ID: /* a storage by itself: bytes without a shape */
        return add_opaque(w, v);
    case FY_PICKLE_NONE:
    case FY_PICKLE_BIG:
    case FY_PICKLE_BYTES:
    case FY_PICKLE_SET:
    default:
        return 0;
    }
}

/* Refuses a file without tensors that holds an object of some class: it would look empty otherwise.
 */
static int check_opaque(const fy_torch *t, fy_err *e)
{
    char name[FY_QUOTE_BYTES], global[FY_QUOTE_BYTES];
    if (t->n_tensors > 0 || t->n_opaques == 0)
        return 0;
    const fy_torch_opaque *o = &t->opaques[0];
    fy_quote(global, sizeof global, o->global);
    if (o->name.len == 0)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "the pickle asks for %s, which ferry never runs: expected tensors by name, "
                       "as torch.save(model.state_dict(), FILE) writes them",
                       global);
    return fy_fail(e, FY_EUNSUPPORTED,
                   "there are no tensors, and for '%s' the pickle asks for %s, which ferry never "
                   "runs: expected tensors by name, as torch.save(model.state_dict(), FILE) writes "
                   "them",
                   fy_quote(name, sizeof name, o->name), global);
}

/* --- the file --------------------------------------------------------------------------------- */

int fy_torch_add_storage(fy_torch_reader *r, fy_torch_storage s, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    int rc = fy_names_add(&r->by_key, s.key, (uint32_t)r->n_storages);
    if (rc > 0)
        return fy_fail(e, FY_EFORMAT, "there are two storages '%s'",
                       fy_quote(shown, sizeof shown, s.key));
    if (rc < 0)
        return fy_nomem(e);
    return fy_append(&r->storages, &r->n_storages, &r->cap_storages, &s, sizeof s, e);
}

static void release_reader(fy_torch_reader *r)
{
    fy_pickle_release(&r->pickle);
    fy_zip_dir_release(&r->zip);
    fy_names_release(&r->by_key);
    free(r->storages);
}

static bool is_zip(const uint8_t *p, size_t n)
{
    return n >= 4 && memcmp(p, "PK\3\4", 4) == 0;
}

static bool is_pickle(const uint8_t *p, size_t n)
{
    return n >= 2 && p[0] == 0x80 && p[1] >= 2 && p[1] <= 5;
}

bool fy_torch_looks_like(const void *p, size_t n)
{
    return is_zip(p, n) || is_pickle(p, n);
}

static int refuse_other(const uint8_t *p, size_t n, fy_err *e)
{
    const char *what = fy_sniff(p, n);
    if (what == NULL)
        return fy_fail(e, FY_EFORMAT,
                       "is not a PyTorch checkpoint: it begins neither as a zip archive nor as a "
                       "pickle");
    bool tar = strcmp(what, FY_SNIFF_TAR) == 0;
    return fy_fail(e, tar ? FY_EUNSUPPORTED : FY_EFORMAT, "is not a PyTorch checkpoint but %s%s",
                   what,
                   tar ? " (PyTorch before 0.1.10 wrote such: load it and save it again)" : "");
}

static int parse(fy_torch *t, const uint8_t *p, size_t n, fy_err *e)
{
    fy_torch_reader r = {0};
    walker w = {.t = t, .r = &r, .e = e};
    int rc;
    if (!fy_torch_looks_like(p, n))
        return refuse_other(p, n, e);
    t->container = is_zip(p, n) ? "zip" : "legacy";
    rc = is_zip(p, n) ? fy_torch_read_zip(&r, p, n, e) : fy_torch_read_legacy(&r, p, n, e);
    w.visits_left = FREE_VISITS + VISITS_PER_OP * r.pickle.n_ops;
    if (rc == 0)
        rc = walk(&w, r.root, 0);
    if (rc == 0)
        rc = check_opaque(t, e);
    fy_str_release(&w.name);
    release_reader(&r);
    return rc;
}

static fy_torch *torch_new(const char *path, fy_err *e)
{
    fy_torch *t = calloc(1, sizeof *t);
    if (t != NULL && (t->path = strdup(path)) != NULL)
        return t;
    free(t);
    fy_nomem(e);
    return NULL;
}

static fy_torch *parse_or_close(fy_torch *t, const uint8_t *p, size_t n, fy_err *e)
{
    if (parse(t, p, n, e) == 0)
        return t;
    fy_ctx(e, "%s", t->path);
    fy_torch_close(t);
    return NULL;
}

fy_torch *fy_torch_parse(const void *p, size_t n, const char *name, fy_err *e)
{
    fy_torch *t = torch_new(name, e);
    return t != NULL ? parse_or_close(t, p, n, e) : NULL;
}

fy_torch *fy_torch_open(const char *path, fy_err *e)
{
    fy_torch *t = torch_new(path, e);
    if (t == NULL)
        return NULL;
    if (fy_map_open(&t->map, path, e) != 0) { /* names the path by itself */
        fy_torch_close(t);
        return NULL;
    }
    return parse_or_close(t, t->map.data, t->map.size, e);
}

void fy_torch_close(fy_torch *t)
{
    if (t == NULL)
        return;
    fy_map_close(&t->map);
    fy_names_release(&t->tensor_index);
    fy_names_release(&t->value_index);
    fy_arena_release(&t->names);
    free(t->tensors);
    free(t->values);
    free(t->opaques);
    free(t->path);
    free(t);
}

/* --- access ----------------------------------------------------------------------------------- */

const char *fy_torch_path(const fy_torch *t)
{
    return t->path;
}

const char *fy_torch_container(const fy_torch *t)
{
    return t->container;
}

const fy_map *fy_torch_map(const fy_torch *t)
{
    return t->map.data != NULL ? &t->map : NULL;
}

size_t fy_torch_n_tensors(const fy_torch *t)
{
    return t->n_tensors;
}

const fy_torch_tensor *fy_torch_tensor_at(const fy_torch *t, size_t i)
{
    return &t->tensors[i];
}

const fy_torch_tensor *fy_torch_find(const fy_torch *t, fy_span name)
{
    uint32_t i;
    return fy_names_find(&t->tensor_index, name, &i) ? &t->tensors[i] : NULL;
}

size_t fy_torch_n_values(const fy_torch *t)
{
    return t->n_values;
}

const fy_torch_value *fy_torch_value_at(const fy_torch *t, size_t i)
{
    return &t->values[i];
}

const fy_torch_value *fy_torch_find_value(const fy_torch *t, const char *name)
{
    uint32_t i;
    return fy_names_find(&t->value_index, fy_span_of(name), &i) ? &t->values[i] : NULL;
}

size_t fy_torch_n_opaque(const fy_torch *t)
{
    return t->n_opaques;
}

const fy_torch_opaque *fy_torch_opaque_at(const fy_torch *t, size_t i)
{
    return &t->opaques[i];
}
