#include <stdio.h>
#include <stdlib.h>

#include "arch/chunk_info.h"
#include "base/str.h"
#include "workspace/npu/npu_plan.h"

/* --- tensors ---------------------------------------------------------------------------------- */

static const fy_fused_row *fused_row(fy_slot slot)
{
    for (size_t i = 0; i < fy_n_fused_rows; i++) {
        if (fy_fused_rows[i].slot == slot)
            return &fy_fused_rows[i];
    }
    return NULL;
}

static void put(fy_npu_model *m, const fy_npu_tensor *t)
{
    m->tensors[m->n_tensors++] = *t;
    m->file_bytes += t->file_bytes; /* a reader has found all of it in one file */
}

/* One of the family's tensors; of one that holds several matrices each of them: a recipe may give
 * them different types. */
static void put_tensor(fy_npu_model *m, const fy_tensor_row *row, uint32_t layer,
                       const fy_gguf_tensor *t)
{
    const bool matrix = (row->flags & FY_ROW_MATRIX) != 0;
    const fy_fused_row *fused = fused_row(row->slot);
    fy_npu_tensor one = {.slot = row->slot,
                         .layer = layer,
                         .per_layer = fy_row_is_layer(row),
                         .matrix = matrix,
                         .n_out = t->ne[1],
                         .n_in = t->ne[0],
                         .file_bytes = t->bytes};
    if (fused == NULL) {
        put(m, &one);
        return;
    }
    const uint64_t n_rows = matrix ? t->ne[1] : t->ne[0];
    for (int p = 0; p < FY_FUSED_PARTS && fused->parts[p].rows != FY_D_END; p++) {
        const uint64_t n = fy_dim_of(&m->hp, fused->parts[p].rows);
        one.slot = fused->parts[p].slot;
        *(matrix ? &one.n_out : &one.n_in) = n;
        one.file_bytes = t->bytes / n_rows * n;
        put(m, &one);
    }
}

/* --- from the header -------------------------------------------------------------------------- */

static bool same_shape(const fy_hparams *hp, const fy_tensor_row *row, const fy_gguf_tensor *t)
{
    uint64_t ne[FY_GGUF_MAX_DIMS];
    const uint32_t n = fy_row_shape(hp, row, ne);
    for (uint32_t i = 0; i < FY_GGUF_MAX_DIMS; i++) {
        if (t->ne[i] != (i < n ? ne[i] : 1))
            return false;
    }
    return true;
}

/* Tensor by tensor of the family, those of a layer together. */
static int take_row(fy_npu_model *m, const fy_gguf *g, const fy_tensor_row *row, uint32_t layer,
                    size_t *n_taken, fy_err *e)
{
    char name[FY_ROW_NAME_BYTES];
    fy_row_name(row->gguf, layer, name);
    const fy_gguf_tensor *t = fy_gguf_tensor_find(g, name);
    if (t == NULL)
        return (row->flags & FY_ROW_OPTIONAL) || !fy_row_is_there(&m->hp, row)
                   ? 0
                   : fy_fail(e, FY_EFORMAT, "tensor '%s' is missing, which family %s needs", name,
                             m->family->name);
    if (!same_shape(&m->hp, row, t))
        return fy_fail(e, FY_EFORMAT,
                       "tensor '%s' has rows of %llu and %llu of them, which is not the shape that "
                       "the model's keys say",
                       name, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1]);
    put_tensor(m, row, layer, t);
    ++*n_taken;
    return 0;
}

static int take_rows(fy_npu_model *m, const fy_gguf *g, bool layers, uint32_t layer,
                     size_t *n_taken, fy_err *e)
{
    for (size_t i = 0; i < m->family->n_rows; i++) {
        const fy_tensor_row *row = &m->family->rows[i];
        if (fy_row_is_layer(row) != layers || (row->flags & FY_ROW_ALT))
            continue;
        if (take_row(m, g, row, layer, n_taken, e) != 0)
            return -1;
    }
    return 0;
}

/* Of a family that knows one matrix in two forms a file has to have one of them, and not both. */
static int check_layer(const fy_npu_model *m, size_t first, uint32_t layer, fy_err *e)
{
    static const fy_slot needed[] = {FY_T_ATTN_Q,   FY_T_ATTN_K, FY_T_ATTN_V,
                                     FY_T_ATTN_OUT, FY_T_FFN_UP, FY_T_FFN_DOWN};
    for (size_t s = 0; s < sizeof needed / sizeof needed[0]; s++) {
        size_t n = 0;
        for (size_t i = first; i < m->n_tensors; i++)
            n += m->tensors[i].slot == needed[s];
        if (n != 1)
            return fy_fail(e, FY_EFORMAT,
                           "layer %u has %zu matrices of one of attn_q, attn_k, attn_v, "
                           "attn_output, ffn_up and ffn_down; expected one of each, or attn_qkv",
                           layer, n);
    }
    return 0;
}

static int name_unknown(const fy_npu_model *m, const fy_gguf *g, fy_err *e)
{
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        uint32_t layer = 0;
        char name[FY_QUOTE_BYTES];
        const fy_tensor_row *row = fy_row_of_gguf(m->family, t->name, &layer);
        if (row == NULL || (fy_row_is_layer(row) && layer >= m->hp.n_layer))
            return fy_fail(e, FY_EUNSUPPORTED, "tensor '%s' is none of family %s with %u layers",
                           fy_quote(name, sizeof name, t->name), m->family->name, m->hp.n_layer);
    }
    return 0;
}

static int find_family(fy_npu_model *m, const fy_gguf *g, fy_err *e)
{
    fy_span arch = {0};
    char name[FY_QUOTE_BYTES];
    if (fy_is_chunk(g))
        return fy_fail(e, FY_EARG,
                       "this is a piece of a model that was cut already; plan the whole "
                       "model");
    if (fy_gguf_get_str(g, FY_KEY_ARCHITECTURE, &arch, e) < 0)
        return -1;
    m->family = fy_family_of_file(g);
    return m->family != NULL
               ? 0
               : fy_fail(e, FY_EUNSUPPORTED,
                         "general.architecture is '%s', which ferry cannot plan for an NPU: it "
                         "does not know what its layers compute",
                         fy_quote(name, sizeof name, arch));
}

int fy_npu_model_of(fy_npu_model *m, const fy_gguf *header, fy_err *e)
{
    fy_npu_model made = {0};
    size_t n_taken = 0;
    if (find_family(&made, header, e) != 0 ||
        fy_hparams_from_gguf(header, made.family, &made.hp, e) != 0)
        return -1;
    if (fy_cut_refusal(&made.hp) != NULL)
        return fy_fail(e, FY_EUNSUPPORTED, "family %s cannot be cut for an NPU: %s",
                       made.family->name, fy_cut_refusal(&made.hp));
    made.tensors = calloc(fy_gguf_n_tensors(header) * FY_FUSED_PARTS + 1, sizeof *made.tensors);
    if (made.tensors == NULL)
        return fy_nomem(e);
    int rc = take_rows(&made, header, false, 0, &n_taken, e);
    made.tied = true;
    for (size_t i = 0; i < made.n_tensors; i++)
        made.tied = made.tied && made.tensors[i].slot != FY_T_OUTPUT;
    for (uint32_t l = 0; rc == 0 && l < made.hp.n_layer; l++) {
        const size_t first = made.n_tensors;
        rc = take_rows(&made, header, true, l, &n_taken, e);
        rc = rc == 0 ? check_layer(&made, first, l, e) : -1;
    }
    if (rc == 0 && n_taken != fy_gguf_n_tensors(header))
        rc = name_unknown(&made, header, e);
    if (rc != 0) {
        fy_npu_model_release(&made);
        return -1;
    }
    *m = made;
    return 0;
}

void fy_npu_model_release(fy_npu_model *m)
{
    free(m->tensors);
    *m = (fy_npu_model){0};
}
