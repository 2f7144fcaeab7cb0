/* The contents of one piece of a cut model: its keys, and which bytes of the model it holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "workspace/npu/chunk_impl.h"

#define STEP_BYTES (4u << 20) /* compared between two looks at the clock and at Ctrl-C */

/* --- keys ------------------------------------------------------------------------------------- */

/* Is it one that hyperparameters are read from, or that a reader of any file wants? */
static bool is_shape_key(const fy_chunk_source *s, fy_span key)
{
    const size_t n = strlen(s->family->gguf_arch);
    if (key.len > n && fy_span_begins(key, s->family->gguf_arch) && key.ptr[n] == '.')
        return true;
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        if ((fy_hparam_rows[i].flags & FY_HP_OWN) && fy_span_is(key, fy_hparam_rows[i].gguf))
            return true;
    }
    return fy_span_is(key, FY_KEY_ARCHITECTURE) || fy_span_is(key, FY_KEY_NAME) ||
           fy_span_is(key, FY_KEY_ALIGNMENT);
}

/* Where a model has no such key, its tokens are counted, which only the embedding has. */
static int add_vocab_size(fy_input *p, fy_err *e)
{
    char key[128];
    snprintf(key, sizeof key, "%s.vocab_size", p->source->family->gguf_arch);
    return fy_gguf_find(p->source->gguf, key) != NULL
               ? 0
               : fy_gguf_add_u32(p->w, key, p->source->hp->n_vocab, e);
}

static int add_keys(fy_input *p, fy_err *e)
{
    const fy_chunk_source *s = p->source;
    const bool all = p->part.kind == FY_CHUNK_EMBEDDING;
    for (size_t i = 0; i < fy_gguf_n_kv(s->gguf); i++) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(s->gguf, i);
        if (!fy_chunk_is_own_key(kv->key) && (all || is_shape_key(s, kv->key)) &&
            fy_gguf_add_kv(p->w, kv, e) != 0)
            return -1;
    }
    return !all && add_vocab_size(p, e) != 0 ? -1 : fy_chunk_info_to_gguf(p->w, s->hp, &p->part, e);
}

static int add_places(fy_input *p, fy_err *e)
{
    uint32_t *places = malloc((p->n_tensors + 1) * sizeof *places);
    if (places == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < p->n_tensors; i++)
        places[i] = p->tensors[i].place;
    const int rc = fy_gguf_add_array(p->w, FY_CHUNK_PLACES, FY_KV_U32, places, p->n_tensors, e);
    free(places);
    return rc;
}

/* --- tensors ---------------------------------------------------------------------------------- */

bool fy_row_is_sliced(const fy_tensor_row *row)
{
    return (row->slot == FY_T_OUTPUT || row->slot == FY_T_OUTPUT_B) && row->dims[0] == FY_D_VOCAB;
}

/* The row as which the piece holds the tensor; NULL: it does not. */
static const fy_tensor_row *row_in(const fy_input *p, const fy_gguf_tensor *t)
{
    const fy_chunk_source *s = p->source;
    uint32_t layer;
    if (t == s->tied && p->part.kind == FY_CHUNK_HEAD) {
        for (size_t i = 0; i < s->family->n_rows; i++) {
            if (s->family->rows[i].slot == FY_T_OUTPUT)
                return &s->family->rows[i];
        }
    }
    const fy_tensor_row *row = fy_row_of_gguf(s->family, t->name, &layer);
    return row != NULL && fy_chunk_holds(&p->part, row, layer) ? row : NULL;
}

static int add_tensor(fy_input *p, const fy_tensor_row *row, uint32_t place, fy_err *e)
{
    const fy_gguf_tensor *t = fy_gguf_tensor_at(p->source->gguf, place);
    char name[FY_GGUF_MAX_NAME + 1];
    uint64_t ne[FY_GGUF_MAX_DIMS];
    fy_input_tensor *to = &p->tensors[p->n_tensors];
    *to = (fy_input_tensor){.from = t, .place = place};
    if (t == p->source->tied && p->part.kind == FY_CHUNK_HEAD)
        snprintf(name, sizeof name, "%s", row->gguf);
    else
        snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.ptr);
    memcpy(ne, t->ne, sizeof ne);
    if (fy_row_is_sliced(row)) {
        uint64_t shape[FY_GGUF_MAX_DIMS];
        const uint32_t tokens = fy_row_shape(p->source->hp, row, shape) - 1;
        to->at = t->bytes / ne[tokens] * p->part.first_token;
        ne[tokens] = p->part.end_token - p->part.first_token;
    }
    p->n_tensors++;
    return fy_gguf_add_tensor(p->w, name, t->type, t->n_dims, ne, e) < 0 ? -1 : 0;
}

static int add_all(fy_input *p, fy_err *e)
{
    const size_t n = fy_gguf_n_tensors(p->source->gguf);
    p->tensors = calloc(n + 1, sizeof *p->tensors);
    if (p->tensors == NULL)
        return fy_nomem(e);
    if (add_keys(p, e) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const fy_tensor_row *row = row_in(p, fy_gguf_tensor_at(p->source->gguf, i));
        if (row != NULL && add_tensor(p, row, (uint32_t)i, e) != 0)
            return -1;
    }
    return add_places(p, e);
}

int fy_input_init(fy_input *p, const fy_chunk_source *s, const fy_chunk_info *part, fy_err *e)
{
    *p = (fy_input){.source = s, .part = *part, .w = fy_gguf_writer_new(e)};
    if (p->w != NULL && add_all(p, e) == 0)
        return 0;
    fy_input_release(p);
    return -1;
}

void fy_input_release(fy_input *p)
{
    fy_gguf_writer_free(p->w);
    free(p->tensors);
    *p = (fy_input){0};
}

int fy_input_fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                  fy_err *e)
{
    (void)thread;
    (void)e;
    const fy_input *p = user;
    const fy_input_tensor *t = &p->tensors[i];
    const fy_gguf_tensor *to = fy_gguf_writer_tensor(p->w, i);
    const uint64_t row_bytes = fy_type_row_bytes(to->type, to->ne[0]), at = t->at + row * row_bytes,
                   n = n_rows * row_bytes;
    memcpy(out, t->from->data + at, (size_t)n);
    fy_gguf_drop(p->source->gguf, t->from, at, n);
    return 0;
}

/* --- one that is there already ---------------------------------------------------------------- */

int fy_input_is_at(const fy_input *p, const char *path, fy_err *e)
{
    fy_map map;
    fy_str head = {0};
    if (fy_gguf_writer_header(p->w, &head, e) != 0 || fy_map_open(&map, path, e) != 0) {
        fy_str_release(&head);
        return -1;
    }
    const bool same = map.size == fy_gguf_writer_file_bytes(p->w) && map.size >= head.len &&
                      memcmp(map.data, head.ptr, head.len) == 0;
    fy_map_close(&map);
    fy_str_release(&head);
    return same ? 0 : 1;
}

static int compare_tensor(const fy_input *p, const fy_gguf *there, size_t i, fy_progress *progress,
                          fy_err *e)
{
    const fy_input_tensor *t = &p->tensors[i];
    const fy_gguf_tensor *other = fy_gguf_tensor_at(there, i);
    for (uint64_t at = 0; at < other->bytes; at += STEP_BYTES) {
        const uint64_t n = other->bytes - at < STEP_BYTES ? other->bytes - at : STEP_BYTES;
        if (fy_check_interrupt(e) != 0)
            return -1;
        if (memcmp(other->data + at, t->from->data + t->at + at, (size_t)n) != 0)
            return 1;
        fy_gguf_drop(there, other, at, n);
        fy_gguf_drop(p->source->gguf, t->from, t->at + at, n);
        fy_progress_add(progress, n);
    }
    return 0;
}

int fy_input_compare(const fy_input *p, const char *path, fy_progress *progress, fy_err *e)
{
    fy_gguf *there = fy_gguf_open(path, e);
    int rc = there != NULL ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < p->n_tensors; i++)
        rc = compare_tensor(p, there, i, progress, e);
    fy_gguf_close(there);
    return rc;
}
