/* The planning half of the GGUF writer: keys are encoded as they are added, tensors get their
 * place. gguf_write_file.c writes the plan. */
#include "format/gguf_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/math.h"
#include "base/str.h"
#include "format/gguf_impl.h"

#define MAX_KEY_BYTES 65535 /* GGUF spec */

fy_gguf_writer *fy_gguf_writer_new(fy_err *e)
{
    fy_gguf_writer *w = calloc(1, sizeof *w);
    if (w == NULL) {
        fy_nomem(e);
        return NULL;
    }
    w->alignment = FY_GGUF_ALIGNMENT;
    const fy_writer_file first = {0};
    if (fy_append(&w->files, &w->n_files, &w->files_cap, &first, sizeof first, e) == 0)
        return w;
    free(w);
    return NULL;
}

void fy_writer_free_keys(fy_gguf_writer *w)
{
    while (w->first != NULL) {
        fy_writer_keys *next = w->first->next;
        free(w->first);
        w->first = next;
    }
    w->last = NULL;
}

void fy_gguf_writer_powerinfer(fy_gguf_writer *w)
{
    w->powerinfer = true;
}

void fy_gguf_writer_free(fy_gguf_writer *w)
{
    if (w == NULL)
        return;
    fy_writer_free_keys(w);
    fy_names_release(&w->keys);
    fy_names_release(&w->names);
    fy_arena_release(&w->arena);
    free(w->tensor);
    free(w->files);
    free(w);
}

/* --- keys ------------------------------------------------------------------------------------- */

/* n bytes in a row (n <= FY_WRITER_KEYS_BYTES), or NULL. */
static uint8_t *reserve(fy_gguf_writer *w, size_t n)
{
    if (w->last == NULL || FY_WRITER_KEYS_BYTES - w->last->used < n) {
        fy_writer_keys *p = malloc(sizeof *p);
        if (p == NULL) {
            w->broken = true;
            return NULL;
        }
        p->next = NULL;
        p->used = 0;
        if (w->last != NULL)
            w->last->next = p;
        else
            w->first = p;
        w->last = p;
    }
    uint8_t *at = w->last->data + w->last->used;
    w->last->used += n;
    w->kv_bytes += n;
    return at;
}

static void put(fy_gguf_writer *w, const void *bytes, uint64_t n)
{
    const uint8_t *from = bytes;
    while (n > 0 && !w->broken) {
        size_t space = w->last != NULL ? FY_WRITER_KEYS_BYTES - w->last->used : 0;
        size_t step = space > 0 ? space : FY_WRITER_KEYS_BYTES;
        if (step > n)
            step = (size_t)n;
        uint8_t *to = reserve(w, step);
        if (to == NULL)
            return;
        memcpy(to, from, step);
        from += step;
        n -= step;
    }
}

static void put_u32(fy_gguf_writer *w, uint32_t v)
{
    put(w, &v, sizeof v);
}

static void put_string(fy_gguf_writer *w, fy_span s)
{
    uint64_t n = s.len;
    put(w, &n, sizeof n);
    put(w, s.ptr, n);
}

int fy_writer_check_open(const fy_gguf_writer *w, const char *what, fy_err *e)
{
    if (w->broken)
        return fy_nomem(e);
    if (w->written)
        return fy_fail(e, FY_EARG, "%s: the file is already written", what);
    if (w->string_count != NULL)
        return fy_fail(e, FY_EARG, "%s: a string array is still open", what);
    return 0;
}

/* Key and value type. */
static int begin_key(fy_gguf_writer *w, fy_span key, fy_kv_type type, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, key);
    if (fy_writer_check_open(w, shown, e) != 0)
        return -1;
    if (key.len == 0 || key.len > MAX_KEY_BYTES)
        return fy_fail(e, FY_EARG, "key '%s' has %zu bytes, expected 1 to %d", shown, key.len,
                       MAX_KEY_BYTES);
    char *copy = fy_arena_strndup(&w->arena, key.ptr, key.len);
    int rc =
        copy != NULL ? fy_names_add(&w->keys, (fy_span){copy, key.len}, (uint32_t)w->n_kv) : -1;
    if (rc < 0)
        return fy_nomem(e);
    if (rc > 0)
        return fy_fail(e, FY_EARG, "key '%s' is added twice", shown);
    w->n_kv++;
    put_string(w, key);
    put_u32(w, type);
    return 0;
}

/* The keys we name ourselves; those copied from other files may look as they like. */
static int begin_own_key(fy_gguf_writer *w, const char *key, fy_kv_type type, fy_err *e)
{
    for (const char *p = key; *p != '\0'; p++) {
        if (*p <= 0x20 || *p >= 0x7f) {
            char shown[FY_QUOTE_BYTES];
            return fy_fail(e, FY_EARG,
                           "key '%s' is malformed, expected printable ASCII without spaces",
                           fy_quote(shown, sizeof shown, fy_span_of(key)));
        }
    }
    return begin_key(w, fy_span_of(key), type, e);
}

static int end_key(const fy_gguf_writer *w, fy_err *e)
{
    return w->broken ? fy_nomem(e) : 0;
}

/* Called for every key before it is added: general.alignment is the one that this writer obeys
 * itself. */
static int obey(fy_gguf_writer *w, fy_span key, fy_kv_type type, const void *v, fy_err *e)
{
    if (!fy_span_is(key, FY_KEY_ALIGNMENT))
        return 0;
    if (type != FY_KV_U32)
        return fy_fail(e, FY_EARG, "key 'general.alignment': type %s, expected u32",
                       fy_kv_type_name(type));
    uint32_t alignment = fy_le32(v);
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        return fy_fail(e, FY_EARG, "general.alignment is %" PRIu32 ", expected a power of two",
                       alignment);
    if (w->n_tensors > 0)
        return fy_fail(e, FY_EARG, "general.alignment must be set before the first tensor");
    w->alignment = alignment;
    return 0;
}

static int add_scalar(fy_gguf_writer *w, const char *key, fy_kv_type type, const void *v, fy_err *e)
{
    if (obey(w, fy_span_of(key), type, v, e) != 0 || begin_own_key(w, key, type, e) != 0)
        return -1;
    put(w, v, fy_kv_type_bytes(type));
    return end_key(w, e);
}

int fy_gguf_add_u32(fy_gguf_writer *w, const char *key, uint32_t v, fy_err *e)
{
    return add_scalar(w, key, FY_KV_U32, &v, e);
}

int fy_gguf_add_i32(fy_gguf_writer *w, const char *key, int32_t v, fy_err *e)
{
    return add_scalar(w, key, FY_KV_I32, &v, e);
}

int fy_gguf_add_f32(fy_gguf_writer *w, const char *key, float v, fy_err *e)
{
    return add_scalar(w, key, FY_KV_F32, &v, e);
}

int fy_gguf_add_bool(fy_gguf_writer *w, const char *key, bool v, fy_err *e)
{
    uint8_t byte = v;
    return add_scalar(w, key, FY_KV_BOOL, &byte, e);
}

int fy_gguf_add_str(fy_gguf_writer *w, const char *key, fy_span v, fy_err *e)
{
    if (begin_own_key(w, key, FY_KV_STRING, e) != 0)
        return -1;
    put_string(w, v);
    return end_key(w, e);
}

int fy_gguf_add_array(fy_gguf_writer *w, const char *key, fy_kv_type elem, const void *p,
                      uint64_t n, fy_err *e)
{
    uint64_t bytes;
    if (fy_kv_type_bytes(elem) == 0 || !fy_mul_u64(n, fy_kv_type_bytes(elem), &bytes))
        return fy_fail(e, FY_EARG, "key '%s': array of %" PRIu64 " elements of type %s", key, n,
                       fy_kv_type_name(elem));
    if (begin_own_key(w, key, FY_KV_ARRAY, e) != 0)
        return -1;
    put_u32(w, elem);
    put(w, &n, sizeof n);
    put(w, p, bytes);
    return end_key(w, e);
}

int fy_gguf_begin_strings(fy_gguf_writer *w, const char *key, fy_err *e)
{
    if (begin_own_key(w, key, FY_KV_ARRAY, e) != 0)
        return -1;
    put_u32(w, FY_KV_STRING);
    uint8_t *count = reserve(w, sizeof(uint64_t));
    if (w->broken)
        return fy_nomem(e);
    w->string_count = count;
    w->n_strings = 0;
    return 0;
}

int fy_gguf_add_string(fy_gguf_writer *w, fy_span v, fy_err *e)
{
    if (w->string_count == NULL)
        return fy_fail(e, FY_EARG, "a string without an open string array");
    put_string(w, v);
    w->n_strings++;
    return end_key(w, e);
}

int fy_gguf_end_strings(fy_gguf_writer *w, fy_err *e)
{
    if (w->string_count == NULL)
        return fy_fail(e, FY_EARG, "no string array is open");
    memcpy(w->string_count, &w->n_strings, sizeof w->n_strings);
    w->string_count = NULL;
    return end_key(w, e);
}

int fy_gguf_add_kv(fy_gguf_writer *w, const fy_gguf_kv *kv, fy_err *e)
{
    if (obey(w, kv->key, kv->type, kv->data, e) != 0 || begin_key(w, kv->key, kv->type, e) != 0)
        return -1;
    if (kv->type == FY_KV_ARRAY) {
        put_u32(w, kv->elem);
        put(w, &kv->count, sizeof kv->count);
    }
    put(w, kv->data, kv->bytes);
    return end_key(w, e);
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* The file that a tensor of so many bytes goes to; NULL: out of memory. As the converter of
 * llama.cpp does it: a limit for the bytes of tensors, every file has at least one. */
static fy_writer_file *file_for(fy_gguf_writer *w, uint64_t bytes, fy_err *e)
{
    fy_writer_file *f = &w->files[w->n_files - 1];
    uint64_t sum;
    if (w->split_bytes == 0 || f->n == 0 ||
        (fy_add_u64(f->tensor_bytes, bytes, &sum) && sum <= w->split_bytes))
        return f;
    const fy_writer_file next = {.first = w->n_tensors};
    if (fy_append(&w->files, &w->n_files, &w->files_cap, &next, sizeof next, e) != 0)
        return NULL;
    return &w->files[w->n_files - 1];
}

int fy_gguf_writer_split(fy_gguf_writer *w, uint64_t bytes, fy_err *e)
{
    if (w->n_tensors > 0)
        return fy_fail(e, FY_EARG, "the size of files must be set before the first tensor");
    w->split_bytes = bytes;
    return 0;
}

static int check_tensor(fy_gguf_writer *w, fy_gguf_tensor *t, const uint64_t *ne, fy_err *e)
{
    const fy_type_info *info = fy_type_get((uint32_t)t->type);
    if (info == NULL)
        return fy_fail(e, FY_EARG, "type id %d cannot be stored", (int)t->type);
    if (t->name.len == 0 || t->name.len > FY_GGUF_MAX_NAME)
        return fy_fail(e, FY_EARG, "name of %zu bytes, expected 1 to %d", t->name.len,
                       FY_GGUF_MAX_NAME);
    if (t->n_dims > FY_GGUF_MAX_DIMS)
        return fy_fail(e, FY_EARG, "%" PRIu32 " dimensions, at most %d", t->n_dims,
                       FY_GGUF_MAX_DIMS);
    uint64_t n_elems = 1;
    for (uint32_t d = 0; d < FY_GGUF_MAX_DIMS; d++) {
        t->ne[d] = d < t->n_dims ? ne[d] : 1;
        if ((t->ne[d] == 0 && !fy_gguf_may_be_empty(w->powerinfer, t)) ||
            !fy_mul_u64(n_elems, t->ne[d], &n_elems) || n_elems > INT64_MAX)
            return fy_fail(e, FY_EARG,
                           "dimension %" PRIu32 " is %" PRIu64
                           ", expected at least 1 and a product below 2^63",
                           d, t->ne[d]);
    }
    if (t->ne[0] % info->block != 0)
        return fy_fail(e, FY_EARG, "rows of %" PRIu64 " elements, but %s needs a multiple of %u",
                       t->ne[0], info->name, info->block);
    uint64_t end, padded;
    if (!fy_mul_u64(n_elems / info->block, info->bytes, &t->bytes) ||
        !fy_add_u64(w->data_bytes, t->bytes, &end) || !fy_align_u64(end, w->alignment, &padded) ||
        padded > INT64_MAX)
        return fy_fail(e, FY_EARG, "%" PRIu64 " elements of type %s do not fit any file", n_elems,
                       info->name);
    return 0;
}

int64_t fy_gguf_add_tensor(fy_gguf_writer *w, const char *name, fy_type type, uint32_t n_dims,
                           const uint64_t *ne, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, fy_span_of(name));
    if (fy_writer_check_open(w, shown, e) != 0)
        return -1;
    fy_gguf_tensor t = {.name = fy_span_of(name), .type = type, .n_dims = n_dims};
    if (check_tensor(w, &t, ne, e) != 0)
        return fy_ctx(e, "tensor '%s'", shown);
    char *copy = fy_arena_strndup(&w->arena, name, t.name.len);
    fy_gguf_tensor *kept = fy_arena_alloc(&w->arena, sizeof *kept);
    fy_gguf_tensor **list = fy_grow(w->tensor, w->n_tensors, &w->tensor_cap, sizeof *list);
    w->tensor = list != NULL ? list : w->tensor;
    if (copy == NULL || kept == NULL || list == NULL)
        return fy_nomem(e);
    t.name.ptr = copy;
    int rc = fy_names_add(&w->names, t.name, (uint32_t)w->n_tensors);
    if (rc != 0)
        return rc < 0 ? fy_nomem(e) : fy_fail(e, FY_EARG, "tensor '%s' is added twice", shown);
    fy_writer_file *f = file_for(w, t.bytes, e);
    if (f == NULL)
        return -1;
    t.file = (uint32_t)(f - w->files);
    t.offset = f->data_bytes;
    *kept = t;
    w->tensor[w->n_tensors++] = kept;
    f->n++;
    f->info_bytes += 8 + t.name.len + 4 + 8 * (uint64_t)t.n_dims + 4 + 8;
    f->tensor_bytes += t.bytes;
    uint64_t padded = t.bytes;
    fy_align_u64(padded, w->alignment, &padded); /* checked above */
    f->data_bytes += padded;
    w->data_bytes += padded;
    return (int64_t)(w->n_tensors - 1);
}

const fy_gguf_tensor *fy_gguf_writer_tensor(const fy_gguf_writer *w, int64_t i)
{
    return w->tensor[i];
}
