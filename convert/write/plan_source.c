/* Which tensors of a checkpoint a row of the family's table is made from. */
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "convert/source/checkpoint_read.h"
#include "convert/write/convert_plan_impl.h"

static void source_name(const fy_plan_builder *b, const fy_tensor_row *row, uint32_t layer,
                        uint32_t expert, char out[FY_HF_NAME_BYTES])
{
    char name[FY_ROW_NAME_BYTES];
    fy_row_expert_name(row->hf, layer, expert, name);
    fy_name_in_form(b->form, name, out);
}

static const fy_ckpt_tensor *source(const fy_plan_builder *b, const fy_tensor_row *row,
                                    uint32_t layer, uint32_t expert)
{
    char name[FY_HF_NAME_BYTES];
    source_name(b, row, layer, expert, name);
    return fy_ckpt_find(b->dir, fy_span_of(name));
}

bool fy_plan_row_is_computed(const fy_hf_config *c, const fy_tensor_row *row)
{
    if (row->transform == FY_X_LLAMA3_FREQS)
        return c->llama3.used;
    if (row->transform == FY_X_LONG_FACTORS || row->transform == FY_X_SHORT_FACTORS)
        return c->hp.rope_scaling == FY_ROPE_SCALING_LONGROPE;
    return fy_transform_is_computed(row->transform); /* else a row that readers alone have */
}

bool fy_plan_row_is_required(const fy_hf_config *c, const fy_tensor_row *row)
{
    if ((row->flags & FY_ROW_OPTIONAL) == 0)
        return fy_row_is_there(&c->hp, row);
    if (row->slot == FY_T_OUTPUT)
        return !c->tied;
    return row->required_by != NULL && fy_hf_config_flag(c, row->required_by);
}

/* --- shapes ----------------------------------------------------------------------------------- */

/* The same dimensions, none of them 0; the checkpoint may have further ones of 1 in front. */
static bool same_shape(const fy_ckpt_tensor *t, uint32_t n_dims, const uint64_t *dims)
{
    uint32_t ahead = t->rank > n_dims ? t->rank - n_dims : 0;
    if (t->rank < n_dims)
        return false;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->shape[i] == 0 || t->shape[i] != (i < ahead ? 1 : dims[i - ahead]))
            return false;
    }
    return true;
}

static bool has_its_shape(const fy_plan_builder *b, const fy_tensor_row *row,
                          const fy_ckpt_tensor *src)
{
    uint64_t dims[FY_GGUF_MAX_DIMS];
    uint32_t n = fy_row_source_shape(&b->plan->config->hp, row, dims);
    return same_shape(src, n, dims);
}

/* [a, b] with the slowest dimension first, as PyTorch prints it. */
static const char *shape_text(char *out, size_t size, uint32_t n, const uint64_t *dims)
{
    size_t at = (size_t)snprintf(out, size, "[");
    for (uint32_t i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%llu", i > 0 ? ", " : "",
                               (unsigned long long)dims[i]);
    if (at < size)
        snprintf(out + at, size - at, "]");
    return out;
}

static void put_name(char out[FY_HF_NAME_BYTES], const fy_ckpt_tensor *src)
{
    fy_quote(out, FY_HF_NAME_BYTES, src->name);
}

/* Shape and type of a source; false with the problem told, once for each source. */
static bool check_source(fy_plan_builder *b, const fy_tensor_row *row, const fy_ckpt_tensor *src)
{
    uint64_t dims[FY_GGUF_MAX_DIMS];
    char found[128], wanted[128], name[FY_HF_NAME_BYTES];
    size_t i = fy_plan_index(b, src);
    put_name(name, src);
    b->used[i] = true;
    if (!has_its_shape(b, row, src)) {
        uint32_t n = fy_row_source_shape(&b->plan->config->hp, row, dims);
        if (!b->faulty[i])
            fy_plan_problem(b, "%s has shape %s, config.json says %s", name,
                            shape_text(found, sizeof found, src->rank, src->shape),
                            shape_text(wanted, sizeof wanted, n, dims));
        b->faulty[i] = true;
        return false;
    }
    if (!fy_ckpt_can_read(src)) {
        if (!b->faulty[i])
            fy_plan_problem(b, "%s is of type %s, which ferry does not convert%s", name,
                            fy_dtype_name(src->dtype),
                            src->dtype == FY_DT_F8_E4M3
                                ? " without a quantization_config of method fp8 in config.json"
                                : "");
        b->faulty[i] = true;
        return false;
    }
    return true;
}

/* --- choice ----------------------------------------------------------------------------------- */

/* The form whose source is there in its shape, else one whose source is there, else one that is
 * computed; NULL: none. */
static const fy_tensor_row *choose(const fy_plan_builder *b, const fy_tensor_row *rows, size_t n,
                                   uint32_t layer)
{
    const fy_tensor_row *there = NULL, *computed = NULL;
    for (size_t i = 0; i < n; i++) {
        const fy_tensor_row *row = &rows[i];
        if (row->hf == NULL) {
            if (computed == NULL && fy_plan_row_is_computed(b->plan->config, row))
                computed = row;
            continue;
        }
        const fy_ckpt_tensor *src = source(b, row, layer, 0);
        if (src != NULL && has_its_shape(b, row, src))
            return row;
        if (src != NULL && there == NULL)
            there = row;
    }
    return there != NULL ? there : computed;
}

static void missing(fy_plan_builder *b, const fy_tensor_row *row, const char *name)
{
    if (row->slot == FY_T_OUTPUT && b->plan->config->tied)
        fy_plan_problem(b, "%s is missing, which this family has even if it is tied", name);
    else if (row->slot == FY_T_OUTPUT)
        fy_plan_problem(b, "%s is missing and tie_word_embeddings is not true", name);
    else if (row->required_by != NULL)
        fy_plan_problem(b, "%s is missing and %s is true", name, row->required_by);
    else
        fy_plan_problem(b, "%s is missing", name);
}

/* The first form speaks for all. */
static bool none_there(fy_plan_builder *b, const fy_tensor_row *row, uint32_t layer)
{
    char name[FY_HF_NAME_BYTES];
    if (row->hf != NULL && fy_plan_row_is_required(b->plan->config, row)) {
        source_name(b, row, layer, 0, name);
        missing(b, row, name);
    }
    return false;
}

/* The experts' tensors: all or none. The number comes from config.json: nothing is made for more
 * experts than there are tensors. */
static bool find_experts(fy_plan_builder *b, fy_plan_tensor *t)
{
    enum { MAX_MISSING = 16 }; /* beyond which nothing more is looked for */
    uint32_t n = b->plan->config->hp.n_expert;
    char name[FY_HF_NAME_BYTES];
    bool good = true;
    if (n > fy_ckpt_n_tensors(b->dir)) {
        source_name(b, t->row, t->layer, 0, name);
        fy_plan_problem(b, "%s: config.json says %u experts, the checkpoint has %zu tensors", name,
                        n, fy_ckpt_n_tensors(b->dir));
        return false;
    }
    t->experts = calloc(n, sizeof *t->experts);
    if (t->experts == NULL) {
        b->oom = true;
        return false;
    }
    uint32_t n_missing = 0;
    for (uint32_t i = 0; i < n && n_missing < MAX_MISSING; i++) {
        t->experts[i] = source(b, t->row, t->layer, i);
        if (t->experts[i] != NULL) {
            good = check_source(b, t->row, t->experts[i]) && good;
        } else if (n_missing++ == 0) {
            source_name(b, t->row, t->layer, i, name);
            fy_plan_problem(b, "%s is missing", name);
        }
    }
    return good && n_missing == 0;
}

bool fy_plan_find_source(fy_plan_builder *b, const fy_tensor_row *rows, size_t n, uint32_t layer,
                         fy_plan_tensor *t)
{
    const fy_hf_config *c = b->plan->config;
    const fy_tensor_row *row = choose(b, rows, n, layer);
    if (row == NULL)
        return none_there(b, &rows[0], layer);
    *t = (fy_plan_tensor){.row = row, .layer = layer, .transform = row->transform};
    if (fy_ckpt_rotates_neighbours(b->dir) &&
        (row->transform == FY_X_PERMUTE_Q || row->transform == FY_X_PERMUTE_K))
        t->transform = FY_X_COPY;
    t->n_dims = fy_row_shape(&c->hp, row, t->ne);
    if (row->hf == NULL)
        return true;
    t->src = source(b, row, layer, 0);
    if (row->required_by != NULL && !fy_plan_row_is_required(c, row)) {
        char name[FY_HF_NAME_BYTES];
        put_name(name, t->src);
        b->used[fy_plan_index(b, t->src)] = true;
        fy_plan_problem(b, "%s is there but %s is not true in config.json", name, row->required_by);
        return false;
    }
    bool good = fy_row_is_stacked(row) ? find_experts(b, t) : check_source(b, row, t->src);
    if (good)
        return true;
    free(t->experts);
    t->experts = NULL;
    return false;
}
