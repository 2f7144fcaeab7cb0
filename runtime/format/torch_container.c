/* The two containers of PyTorch checkpoints.
 *
 * zip (torch >= 1.6): one data.pkl and a stored entry per storage.
 * legacy: five pickles in a row (magic number, protocol, system, the object, the keys of its
 * storages), then for each key the number of elements and the elements.
 * Source: torch/serialization.py, _load and _legacy_load. */
#include <inttypes.h>
#include <string.h>

#include "base/math.h"
#include "base/str.h"
#include "format/torch_impl.h"

/* --- zip ---------------------------------------------------------------------------------------- */

static bool is_under(const fy_zip_entry *entry, fy_span dir, const char *name)
{
    size_t n = strlen(name);
    return entry->name.len >= dir.len + n && memcmp(entry->name.ptr, dir.ptr, dir.len) == 0 &&
           memcmp(entry->name.ptr + dir.len, name, n) == 0;
}

/* Finds the one data.pkl. Its directory, any name with its '/', is that of the checkpoint. */
static int find_pickle(const fy_zip_dir *z, const fy_zip_entry **out, fy_span *dir, fy_err *e)
{
    bool is_export = false;
    *out = NULL;
    for (size_t i = 0; i < z->n; i++) {
        const fy_zip_entry *entry = &z->entries[i];
        is_export |= fy_span_ends(entry->name, "/archive_format");
        if (!fy_span_is(entry->name, "data.pkl") && !fy_span_ends(entry->name, "/data.pkl"))
            continue;
        if (*out != NULL)
            return fy_fail(e, FY_EFORMAT, "the zip archive has more than one data.pkl");
        *out = entry;
        *dir = (fy_span){entry->name.ptr, entry->name.len - strlen("data.pkl")};
    }
    if (*out == NULL && is_export)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "is an archive of torch.export (a program), expected a checkpoint: save its "
                       "weights with torch.save(torch.export.load(FILE).state_dict, OUT)");
    if (*out == NULL)
        return fy_fail(e, FY_EFORMAT,
                       "is a zip archive without data.pkl, so not a checkpoint of PyTorch");
    return 0;
}

/* TorchScript keeps a program next to the weights, and the weights as attributes of its objects. */
static int refuse_script(const fy_zip_dir *z, fy_span dir, fy_err *e)
{
    bool constants = false, code = false;
    for (size_t i = 0; i < z->n; i++) {
        const fy_zip_entry *entry = &z->entries[i];
        constants |= is_under(entry, dir, "constants.pkl");
        code |= is_under(entry, dir, "code/");
    }
    if (constants && code)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "is a TorchScript archive (a program), expected a checkpoint: save its "
                       "weights with torch.save(torch.jit.load(FILE).state_dict(), OUT)");
    return 0;
}

static int check_byte_order(const fy_zip_entry *entry, fy_err *e)
{
    fy_span s = {(const char *)entry->data, (size_t)entry->bytes};
    if (fy_zip_need_stored(entry, e) != 0)
        return -1;
    if (fy_span_is(s, "little"))
        return 0;
    if (fy_span_is(s, "big"))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "is big-endian: load it and save it again on a little-endian machine");
    return fy_fail(e, FY_EFORMAT, "its byteorder entry is neither 'little' nor 'big'");
}

int fy_torch_read_zip(fy_torch_reader *r, const uint8_t *p, size_t n, fy_err *e)
{
    const fy_zip_entry *pickle;
    fy_span dir;
    size_t used;
    if (fy_zip_dir_read(&r->zip, p, n, e) != 0 || find_pickle(&r->zip, &pickle, &dir, e) != 0 ||
        refuse_script(&r->zip, dir, e) != 0 || fy_zip_need_stored(pickle, e) != 0)
        return -1;
    for (size_t i = 0; i < r->zip.n; i++) {
        const fy_zip_entry *entry = &r->zip.entries[i];
        if (is_under(entry, dir, "byteorder") && entry->name.len == dir.len + strlen("byteorder") &&
            check_byte_order(entry, e) != 0)
            return -1;
        if (!is_under(entry, dir, "data/"))
            continue;
        if (fy_zip_need_stored(entry, e) != 0)
            return -1;
        size_t skip = dir.len + strlen("data/");
        fy_torch_storage s = {.key = {entry->name.ptr + skip, entry->name.len - skip},
                              .data = entry->data,
                              .bytes = entry->bytes};
        if (fy_torch_add_storage(r, s, e) != 0)
            return -1;
    }
    r->root = fy_pickle_read(&r->pickle, pickle->data, (size_t)pickle->bytes, &used, e);
    return r->root != NULL ? 0 : fy_ctx(e, "data.pkl");
}

/* --- legacy ------------------------------------------------------------------------------------- */

enum { PROTOCOL = 1001 };
static const char magic[] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"; /* little-endian */

typedef struct {
    const uint8_t *p;
    size_t n, at;
} stream;

static const fy_pickle_node *next(fy_torch_reader *r, stream *s, const char *what, fy_err *e)
{
    size_t used;
    const fy_pickle_node *v = fy_pickle_read(&r->pickle, s->p + s->at, s->n - s->at, &used, e);
    s->at += used;
    if (v == NULL)
        fy_ctx(e, "%s", what);
    return v;
}

static int read_head(fy_torch_reader *r, stream *s, fy_err *e)
{
    const fy_pickle_node *v = next(r, s, "first pickle", e);
    if (v == NULL)
        return -1;
    if (v->kind != FY_PICKLE_BIG || v->text.len != sizeof magic - 1 ||
        memcmp(v->text.ptr, magic, sizeof magic - 1) != 0)
        return fy_fail(e, FY_EFORMAT,
                       "is a Python pickle, but not a checkpoint of PyTorch (its magic number is "
                       "not there)");
    v = next(r, s, "protocol", e);
    if (v == NULL)
        return -1;
    if (v->kind != FY_PICKLE_INT || v->i != PROTOCOL)
        return fy_fail(e, FY_EUNSUPPORTED, "is of another legacy protocol than %d", PROTOCOL);
    v = next(r, s, "system", e);
    if (v == NULL)
        return -1;
    for (uint32_t i = 0; v->kind == FY_PICKLE_DICT && i < v->items.n; i += 2) {
        const fy_pickle_node *key = v->items.at[i], *value = v->items.at[i + 1];
        if (key->kind != FY_PICKLE_TEXT || !fy_span_is(key->text, "little_endian"))
            continue;
        if (value->kind != FY_PICKLE_BOOL || value->i == 0)
            return fy_fail(e, FY_EUNSUPPORTED,
                           "is big-endian: load it and save it again on a little-endian machine");
    }
    return 0;
}

/* The size of the elements is known only where the object refers to a storage, so references are
 * indexed by key. References of one key to elements of different sizes are refused. */
static int index_refs(const fy_torch_reader *r, fy_names *refs, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    for (size_t i = 0; i < r->pickle.n_ids; i++) {
        const fy_pickle_node *id = r->pickle.ids[i]->id;
        fy_torch_ref ref, first;
        uint32_t at;
        if (id->kind == FY_PICKLE_TUPLE && id->items.n > 0 &&
            id->items.at[0]->kind == FY_PICKLE_TEXT && fy_span_is(id->items.at[0]->text, "module"))
            continue; /* the source of a class */
        if (fy_torch_read_ref(id, &ref, e) != 0)
            return -1;
        if (!fy_names_find(refs, ref.key, &at)) {
            if (fy_names_add(refs, ref.key, (uint32_t)i) < 0)
                return fy_nomem(e);
            continue;
        }
        if (fy_torch_read_ref(r->pickle.ids[at]->id, &first, e) != 0)
            return -1;
        if (fy_torch_ref_elem_bytes(&first) != fy_torch_ref_elem_bytes(&ref))
            return fy_fail(e, FY_EFORMAT, "storage '%s' has elements of two sizes",
                           fy_quote(shown, sizeof shown, ref.key));
    }
    return 0;
}

static int read_storage(fy_torch_reader *r, stream *s, const fy_torch_ref *ref, fy_err *e)
{
    uint64_t elems, bytes;
    if (s->n - s->at < 8)
        return fy_fail(e, FY_EFORMAT, "is missing: the file is incomplete; download it again");
    elems = fy_le64(s->p + s->at);
    s->at += 8;
    if (!fy_mul_u64(elems, fy_torch_ref_elem_bytes(ref), &bytes) || bytes > s->n - s->at)
        return fy_fail(e, FY_EFORMAT,
                       "has %" PRIu64 " elements, but only %zu bytes follow: the file is "
                       "incomplete; download it again",
                       elems, s->n - s->at);
    fy_torch_storage storage = {.key = ref->key, .data = s->p + s->at, .bytes = bytes};
    s->at += (size_t)bytes;
    return fy_torch_add_storage(r, storage, e);
}

static int read_storages(fy_torch_reader *r, stream *s, const fy_pickle_node *keys,
                         const fy_names *refs, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    for (uint32_t i = 0; i < keys->items.n; i++) {
        const fy_pickle_node *key = keys->items.at[i];
        fy_torch_ref ref;
        uint32_t at;
        if (key->kind != FY_PICKLE_TEXT)
            return fy_fail(e, FY_EFORMAT, "key %" PRIu32 " of the storages is not a text", i);
        if (!fy_names_find(refs, key->text, &at))
            return fy_fail(e, FY_EFORMAT, "nothing refers to storage '%s'",
                           fy_quote(shown, sizeof shown, key->text));
        if (fy_torch_read_ref(r->pickle.ids[at]->id, &ref, e) != 0)
            return -1;
        if (read_storage(r, s, &ref, e) != 0)
            return fy_ctx(e, "storage '%s'", fy_quote(shown, sizeof shown, key->text));
    }
    return 0;
}

int fy_torch_read_legacy(fy_torch_reader *r, const uint8_t *p, size_t n, fy_err *e)
{
    stream s = {p, n, 0};
    fy_names refs = {0};
    if (read_head(r, &s, e) != 0 || (r->root = next(r, &s, "object", e)) == NULL)
        return -1;
    const fy_pickle_node *keys = next(r, &s, "keys of the storages", e);
    if (keys == NULL)
        return -1;
    if (keys->kind != FY_PICKLE_LIST)
        return fy_fail(e, FY_EFORMAT, "the keys of the storages are not a list");
    int rc = index_refs(r, &refs, e);
    if (rc == 0)
        rc = read_storages(r, &s, keys, &refs, e);
    fy_names_release(&refs);
    return rc;
}
