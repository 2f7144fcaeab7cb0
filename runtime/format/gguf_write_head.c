/* The beginning of a GGUF file: its bytes, its length, and the hash that names a plan. */
#include <string.h>

#include "base/math.h"
#include "format/gguf_impl.h"

enum { HEADER_BYTES = 4 + 4 + 8 + 8 };

static void add_key(fy_str *s, const char *key, fy_kv_type type, const void *v)
{
    const uint64_t len = strlen(key);
    const uint32_t t = (uint32_t)type;
    fy_str_add(s, &len, sizeof len);
    fy_str_add(s, key, len);
    fy_str_add(s, &t, sizeof t);
    fy_str_add(s, v, fy_kv_type_bytes(type));
}

/* The keys that each file of a split model has of its own; returns how many. */
static uint64_t add_own_keys(const fy_gguf_writer *w, size_t file, fy_str *s)
{
    const uint16_t no = (uint16_t)file, count = (uint16_t)w->n_files;
    const int32_t n_tensors = (int32_t)w->n_tensors;
    const uint32_t alignment = (uint32_t)w->alignment;
    uint64_t n = 3;
    if (w->n_files == 1)
        return 0;
    if (file > 0 && alignment != FY_GGUF_ALIGNMENT) { /* the first one has the caller's */
        add_key(s, FY_KEY_ALIGNMENT, FY_KV_U32, &alignment);
        n++;
    }
    add_key(s, FY_KEY_SPLIT_NO, FY_KV_U16, &no);
    add_key(s, FY_KEY_SPLIT_COUNT, FY_KV_U16, &count);
    add_key(s, FY_KEY_SPLIT_TENSORS, FY_KV_I32, &n_tensors);
    return n;
}

uint64_t fy_writer_data_begin(const fy_gguf_writer *w, size_t file)
{
    fy_str own = {0};
    add_own_keys(w, file, &own);
    uint64_t n = HEADER_BYTES + own.len + (file == 0 ? w->kv_bytes : 0) + w->files[file].info_bytes;
    fy_str_release(&own); /* out of memory is reported when the header is written */
    fy_align_u64(n, w->alignment, &n);
    return n;
}

uint64_t fy_writer_file_bytes(const fy_gguf_writer *w, size_t file)
{
    return fy_writer_data_begin(w, file) + w->files[file].data_bytes;
}

uint64_t fy_gguf_writer_file_bytes(const fy_gguf_writer *w)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < w->n_files; i++)
        sum += fy_writer_file_bytes(w, i);
    return sum;
}

uint32_t fy_gguf_writer_n_files(const fy_gguf_writer *w)
{
    return (uint32_t)w->n_files;
}

static int emit(fy_writer_sink *s, const void *p, size_t n, fy_err *e)
{
    if (n == 0)
        return 0;
    if (s->hash != NULL)
        return fy_sha256_add(s->hash, p, n, e);
    if (s->text != NULL) {
        fy_str_add(s->text, p, n);
        return s->text->oom ? fy_nomem(e) : 0;
    }
    if (fy_out_pwrite(s->out, p, n, s->at, e) != 0)
        return -1;
    s->at += n;
    return 0;
}

static void add_info(fy_str *s, const fy_gguf_tensor *t, bool powerinfer)
{
    uint64_t len = t->name.len;
    uint32_t type = (uint32_t)t->type;
    if (powerinfer && t->type >= FY_I8 && t->type <= FY_I32)
        type -= FY_I8 - FY_POWERINFER_I8;
    fy_str_add(s, &len, sizeof len);
    fy_str_add(s, t->name.ptr, t->name.len);
    fy_str_add(s, &t->n_dims, sizeof t->n_dims);
    fy_str_add(s, t->ne, t->n_dims * sizeof t->ne[0]);
    fy_str_add(s, &type, sizeof type);
    fy_str_add(s, &t->offset, sizeof t->offset);
}

int fy_writer_emit_header(const fy_gguf_writer *w, size_t file, fy_writer_sink *to, fy_err *e)
{
    const fy_writer_file *f = &w->files[file];
    fy_str rest = {0};
    uint8_t head[HEADER_BYTES];
    const uint64_t n_tensors = f->n,
                   n_kv = (file == 0 ? w->n_kv : 0) + add_own_keys(w, file, &rest);
    memcpy(head, w->powerinfer ? FY_GGUF_POWERINFER : "GGUF", 4);
    memcpy(head + 4, &(uint32_t){3}, 4);
    memcpy(head + 8, &n_tensors, 8);
    memcpy(head + 16, &n_kv, 8);
    int rc = emit(to, head, sizeof head, e);
    for (const fy_writer_keys *k = w->first; rc == 0 && file == 0 && k != NULL; k = k->next)
        rc = emit(to, k->data, k->used, e);
    for (size_t i = 0; i < f->n; i++)
        add_info(&rest, w->tensor[f->first + i], w->powerinfer);
    if (rc == 0)
        rc = rest.oom ? fy_nomem(e) : emit(to, rest.ptr, rest.len, e);
    fy_str_release(&rest);
    return rc;
}

int fy_gguf_writer_header(const fy_gguf_writer *w, fy_str *out, fy_err *e)
{
    return fy_writer_check_open(w, "header", e)
               ? -1
               : fy_writer_emit_header(w, 0, &(fy_writer_sink){.text = out}, e);
}

/* SHA-256 of the headers and of how they are cut into pieces, as a line. */
int fy_writer_add_plan(const fy_gguf_writer *w, fy_str *s, fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    fy_writer_sink to = {.hash = fy_sha256_new(e)};
    if (to.hash == NULL)
        return -1;
    for (size_t f = 0; f < w->n_files; f++) {
        if (fy_writer_emit_header(w, f, &to, e) != 0) {
            fy_sha256_end(to.hash, NULL, NULL);
            return -1;
        }
    }
    if (fy_sha256_end(to.hash, hash, e) != 0)
        return -1;
    fy_sha256_to_hex(hash, hex);
    fy_str_printf(s, "keys and tensors: sha256 %s, pieces of %u bytes\n", hex,
                  FY_WRITER_PIECE_BYTES);
    return 0;
}
