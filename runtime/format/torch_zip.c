#include <string.h>

#include "format/torch_impl.h"

static bool is_under(const fy_zip_entry *entry, fy_span dir, const char *name)
{
    size_t n = strlen(name);
    return entry->name.len >= dir.len + n && memcmp(entry->name.ptr, dir.ptr, dir.len) == 0 &&
           memcmp(entry->name.ptr + dir.len, name, n) == 0;
}

/* The directory in the archive, any name with its '/', is where the one data.pkl is. */
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

/* TorchScript keeps a program beside the weights, and the weights as attributes of its objects. */
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
