/* A GGUF file -> fy_model: every tensor of the family is bound to the bytes of the map and checked;
 * all problems are reported at once. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/str.h"
#include "kernels/row.h"
#include "model/weights.h"

/* --- problems: all of them in one message, as far as it holds them -------------------------- */

enum { PROBLEM_BYTES = 360 };

typedef struct {
    fy_str text;
    size_t n;
    fy_code code;
} problems;

/* One more; beyond the room of the text it is only counted. */
__attribute__((format(printf, 3, 4))) static void add_problem(problems *p, fy_code code,
                                                              const char *fmt, ...)
{
    char text[512];
    va_list args;
    p->code = p->n == 0 || code == FY_EFORMAT ? code : p->code;
    p->n++;
    if (p->text.len > PROBLEM_BYTES)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fy_str_printf(&p->text, "%s%s", p->n == 1 ? "" : "; ", text);
}

static int report_problems(problems *p, const fy_model *m, fy_err *e)
{
    int rc = 0;
    if (p->text.oom)
        rc = fy_nomem(e);
    else if (p->n > 0)
        rc = fy_fail(e, p->code, "%zu tensor%s not as family %s needs: %.*s%s", p->n,
                     p->n == 1 ? " is" : "s are", m->family->name, (int)(PROBLEM_BYTES + 40),
                     fy_str_z(&p->text), p->text.len > PROBLEM_BYTES ? " ..." : "");
    fy_str_release(&p->text);
    return rc;
}

static bool usable_type(const fy_kernels *k, const fy_tensor_row *row, fy_type t)
{
    if (!(row->flags & FY_ROW_MATRIX))
        return t == FY_F32 || (row->slot == FY_T_POSITION_EMBD && fy_row_can_decode(t));
    const bool looked_up = row->slot == FY_T_TOKEN_EMBD || row->slot == FY_T_POSITION_EMBD ||
                           row->slot == FY_T_PL_EMBD;
    return fy_kernels_matmul(k, t) != NULL && (!looked_up || fy_row_can_decode(t));
}

/* --- binding -------------------------------------------------------------------------------- */

/* Files may align tensors to less than a float; such vectors are copied. */
static const void *aligned_vector(fy_model *m, const fy_gguf_tensor *t)
{
    if ((uintptr_t)t->data % _Alignof(float) == 0)
        return t->data;
    void *copy = fy_arena_alloc(&m->arena, t->bytes);
    if (copy != NULL)
        memcpy(copy, t->data, t->bytes);
    return copy;
}

/* Has the file to have it? A head does not find its output matrix in the embedding. */
static bool is_required(const fy_model *m, const fy_tensor_row *row, uint32_t layer)
{
    if (row->slot == FY_T_OUTPUT && m->chunk.kind == FY_CHUNK_HEAD)
        return true;
    return !(row->flags & FY_ROW_OPTIONAL) && fy_row_is_there(&m->hp, row) &&
           fy_row_is_in_layer(&m->hp, row, layer) && !fy_row_is_unused(&m->hp, row, layer);
}

/* The tensor of a row in a layer, and its name; NULL: the file has none. */
static const fy_gguf_tensor *stored(const fy_model *m, const fy_tensor_row *row, uint32_t layer,
                                    char name[FY_ROW_NAME_BYTES])
{
    fy_row_name(row->gguf, layer, name);
    return fy_gguf_tensor_find(m->gguf, name);
}

static int bind(fy_model *m, const fy_kernels *k, const fy_tensor_row *row, uint32_t layer,
                fy_weights *into, size_t *n_bound, problems *bad, fy_err *e)
{
    char name[FY_ROW_NAME_BYTES];
    const fy_tensor_row *by_neuron = fy_row_by_neuron(m->family, row->slot);
    if (by_neuron != NULL && stored(m, by_neuron, layer, name) != NULL) {
        if (stored(m, row, layer, name) != NULL)
            add_problem(bad, FY_EFORMAT, "'%s' is there in two forms", name);
        row = by_neuron;
    }
    const fy_gguf_tensor *t = stored(m, row, layer, name);
    if (t != NULL && !fy_row_is_in_layer(&m->hp, row, layer))
        return 0; /* unknown */
    if (t == NULL) {
        if (is_required(m, row, layer))
            add_problem(bad, FY_EFORMAT, "'%s' is missing", name);
        return 0;
    }
    ++*n_bound;
    uint64_t ne[FY_GGUF_MAX_DIMS];
    const fy_hparams like = fy_hparams_of_layer(&m->hp, layer);
    uint32_t n = fy_chunk_row_shape(&m->chunk, fy_row_is_layer(row) ? &like : &m->hp, row, ne);
    const uint32_t skipped =
        row->slot == FY_T_POSITION_EMBD ? fy_skipped_positions(m->gguf, m->family) : 0;
    ne[1] += skipped;
    if (memcmp(t->ne, ne, sizeof ne) != 0) {
        char found[FY_SHAPE_BYTES], expected[FY_SHAPE_BYTES];
        add_problem(bad, FY_EFORMAT, "'%s' has shape %s, expected %s", name,
                    fy_shape_text(t->ne, t->n_dims, found), fy_shape_text(ne, n, expected));
        return 0;
    }
    if (!usable_type(k, row, t->type)) {
        add_problem(bad, FY_EUNSUPPORTED, "'%s' has type %s, expected %s", name,
                    fy_type_name(t->type),
                    row->flags & FY_ROW_MATRIX
                        ? "f32, f16, bf16 or a type of blocks (convert the checkpoint "
                          "with --outtype q8_0, q4_0 or f16)"
                        : "f32");
        return 0;
    }
    fy_matrix *w = &into->w[row->slot];
    *w = (fy_matrix){.data = t->data,
                     .type = t->type,
                     .row_bytes = (size_t)fy_type_row_bytes(t->type, t->ne[0]),
                     .n_rows = (int64_t)(t->ne[1] * t->ne[2] * t->ne[3]), /* experts: one run */
                     .n_cols = (int64_t)t->ne[0]};
    if (skipped > 0) {
        w->data = t->data + skipped * w->row_bytes;
        w->n_rows -= skipped;
    } else if (!(row->flags & FY_ROW_MATRIX))
        w->data = aligned_vector(m, t);
    else if (fy_kernels_wants_q8(t->type) && w->n_cols > m->q8_len)
        m->q8_len = w->n_cols;
    return w->data != NULL ? 0 : fy_nomem(e);
}

static void put_problem(const fy_model *m, fy_slot slot, uint32_t layer, const char *what,
                        problems *bad)
{
    char name[FY_ROW_NAME_BYTES];
    const fy_tensor_row *row = fy_row_of_slot(m->family, slot);
    if (row == NULL)
        return;
    fy_row_name(row->gguf, layer, name);
    add_problem(bad, FY_EFORMAT, "'%s' %s", name, what);
}

/* --- predictors ----------------------------------------------------------------------------- */

/* Either of both, of any rank: [rank, n_embd] and [n_ff, rank]. */
static void bind_predictor(fy_model *m, const fy_kernels *k, uint32_t layer, fy_weights *into,
                           size_t *n_bound, problems *bad)
{
    const fy_matrix *up = &into->w[FY_T_FFN_UP];
    const fy_gguf_tensor *t[2];
    char name[2][FY_ROW_NAME_BYTES];
    for (int i = 0; i < 2; i++) {
        snprintf(name[i], sizeof name[i], "blk.%u.fc%d.weight", layer, i + 1);
        t[i] = fy_gguf_tensor_find(m->gguf, name[i]);
    }
    if ((t[0] == NULL && t[1] == NULL) || fy_row_by_neuron(m->family, FY_T_FFN_DOWN) == NULL)
        return;
    if (t[0] == NULL || t[1] == NULL) {
        add_problem(bad, FY_EFORMAT, "'%s' is missing", name[t[0] != NULL]);
        return;
    }
    *n_bound += 2;
    if ((int64_t)t[0]->ne[1] > m->predictor_len)
        m->predictor_len = (int64_t)t[0]->ne[1];
    const uint64_t rows[2] = {t[1]->ne[0], up->data != NULL ? (uint64_t)up->n_rows : t[1]->ne[1]};
    const uint64_t cols[2] = {m->hp.n_embd, t[0]->ne[1]};
    for (int i = 0; i < 2; i++) {
        char found[FY_SHAPE_BYTES];
        if (t[i]->n_dims != 2 || t[i]->ne[0] != cols[i] || t[i]->ne[1] != rows[i])
            add_problem(bad, FY_EFORMAT, "'%s' has shape %s, expected [%llu %llu]", name[i],
                        fy_shape_text(t[i]->ne, t[i]->n_dims, found), (unsigned long long)cols[i],
                        (unsigned long long)rows[i]);
        else if (fy_kernels_matmul(k, t[i]->type) == NULL)
            add_problem(bad, FY_EUNSUPPORTED,
                        "'%s' has type %s, which ferry does not multiply with", name[i],
                        fy_type_name(t[i]->type));
        into->w[FY_T_FFN_PRED_1 + i] =
            (fy_matrix){.data = t[i]->data,
                        .type = t[i]->type,
                        .row_bytes = (size_t)fy_type_row_bytes(t[i]->type, t[i]->ne[0]),
                        .n_rows = (int64_t)t[i]->ne[1],
                        .n_cols = (int64_t)t[i]->ne[0]};
        if (fy_kernels_wants_q8(t[i]->type) && (int64_t)t[i]->ne[0] > m->q8_len)
            m->q8_len = (int64_t)t[i]->ne[0];
    }
}

static int read_threshold(fy_model *m, fy_err *e)
{
    if (fy_gguf_get_f32(m->gguf, FY_KEY_SPARSE_THRESHOLD, &m->sparse_threshold, e) < 0)
        return -1;
    return isnan(m->sparse_threshold)
               ? fy_fail(e, FY_EFORMAT, "key " FY_KEY_SPARSE_THRESHOLD " is NaN, expected a number")
               : 0;
}

/* --- several matrices in one tensor --------------------------------------------------------- */

/* The rows of a matrix, or the elements of a vector, from `first` on. */
static fy_matrix part_of(const fy_matrix *w, bool vector, uint64_t first, uint64_t n)
{
    fy_matrix part = *w;
    part.data = (const uint8_t *)w->data + (size_t)first * (vector ? sizeof(float) : w->row_bytes);
    part.row_bytes = vector ? (size_t)n * sizeof(float) : w->row_bytes;
    part.n_rows = vector ? 1 : (int64_t)n;
    part.n_cols = vector ? (int64_t)n : w->n_cols;
    return part;
}

/* Binds the slots of the parts as views. Where a family knows both forms and calls both optional,
 * a file has to have one of them; biases may be absent in any form. */
static void split(fy_model *m, fy_weights *w, uint32_t layer, problems *bad)
{
    for (size_t i = 0; i < fy_n_fused_rows; i++) {
        const fy_fused_row *fused = &fy_fused_rows[i];
        const fy_tensor_row *row = fy_row_of_slot(m->family, fused->slot);
        if (row == NULL)
            continue;
        const fy_matrix *whole = &w->w[row->slot];
        const bool vector = !(row->flags & FY_ROW_MATRIX);
        uint64_t first = 0;
        for (int p = 0; p < FY_FUSED_PARTS && fused->parts[p].rows != FY_D_END; p++) {
            const fy_slot slot = fused->parts[p].slot;
            const uint64_t n = fy_dim_of(&m->hp, fused->parts[p].rows);
            if (whole->data != NULL && fy_bound(w, slot))
                put_problem(m, slot, layer, "is there in two forms", bad);
            else if (whole->data != NULL)
                w->w[slot] = part_of(whole, vector, first, n);
            else if (!fy_bound(w, slot) && !vector && (row->flags & FY_ROW_OPTIONAL))
                put_problem(m, slot, layer, "is missing", bad);
            first += n;
        }
    }
}

/* --- what goes together --------------------------------------------------------------------- */

/* Optional tensors that the graph cannot use alone. */
static const struct {
    fy_slot has, needs;
} companions[] = {
    {FY_T_ROPE_LONG, FY_T_ROPE_SHORT},
    {FY_T_ROPE_SHORT, FY_T_ROPE_LONG},
    {FY_T_ATTN_NORM_2, FY_T_ATTN_NORM_2_B},
    {FY_T_ATTN_NORM_2_B, FY_T_ATTN_NORM_2},
    {FY_T_FFN_SHEXP_ROUTER, FY_T_FFN_UP_SHEXP},
    {FY_T_FFN_UP_SHEXP, FY_T_FFN_GATE_SHEXP},
    {FY_T_FFN_UP_SHEXP, FY_T_FFN_DOWN_SHEXP},
    {FY_T_FFN_GATE_SHEXP, FY_T_FFN_UP_SHEXP},
    {FY_T_FFN_DOWN_SHEXP, FY_T_FFN_UP_SHEXP},
    {FY_T_MIX_G, FY_T_MIX_LERP_G},
    {FY_T_MIX_LERP_G, FY_T_MIX_G},
};

static void check_companions(const fy_model *m, const fy_weights *w, uint32_t layer, problems *bad)
{
    for (size_t i = 0; i < sizeof companions / sizeof companions[0]; i++) {
        if (fy_bound(w, companions[i].has) && !fy_bound(w, companions[i].needs))
            put_problem(m, companions[i].needs, layer, "is missing", bad);
    }
}

static void complete(fy_model *m, problems *bad)
{
    check_companions(m, &m->once, 0, bad);
    const bool embeds = m->chunk.kind == FY_CHUNK_WHOLE || m->chunk.kind == FY_CHUNK_EMBEDDING;
    if (embeds && m->hp.rope_scaling == FY_ROPE_SCALING_LONGROPE &&
        !fy_bound(&m->once, FY_T_ROPE_LONG))
        put_problem(m, FY_T_ROPE_LONG, 0, "is missing, but rope.scaling.type is longrope", bad);
    for (uint32_t layer = m->chunk.first_layer; layer < m->chunk.end_layer; layer++) {
        fy_weights *w = &m->layers[layer - m->chunk.first_layer];
        split(m, w, layer, bad);
        check_companions(m, w, layer, bad);
        const int64_t lengths[] = {
            w->w[FY_T_FFN_UP].n_rows, w->w[FY_T_FFN_UP_SHEXP].n_rows,
            m->hp.n_expert > 0 ? w->w[FY_T_FFN_UP_EXPS].n_rows / m->hp.n_expert : 0};
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
            m->ff_len = lengths[i] > m->ff_len ? lengths[i] : m->ff_len;
    }
}

static void find_unknown(const fy_model *m, problems *bad)
{
    for (size_t i = 0; i < fy_gguf_n_tensors(m->gguf); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(m->gguf, i);
        uint32_t layer = 0;
        const fy_tensor_row *row = fy_row_of_gguf(m->family, t->name, &layer);
        if (row == NULL && fy_neuron_row_of_gguf(m->family, t->name, &layer) != NULL &&
            layer < m->hp.n_layer)
            continue;
        const bool exists = row != NULL && (!fy_row_is_layer(row) || layer < m->hp.n_layer);
        const bool elsewhere = exists && !fy_row_is_in_layer(&m->hp, row, layer);
        if (exists && !elsewhere && fy_chunk_holds(&m->chunk, row, layer))
            continue;
        char name[FY_QUOTE_BYTES], what[FY_CHUNK_TEXT_BYTES];
        fy_quote(name, sizeof name, t->name);
        if (elsewhere && row->slot == FY_T_ATTN_V && m->hp.k_is_v)
            add_problem(bad, FY_EUNSUPPORTED,
                        "'%s' is of a layer without the window, and the first such layer has none",
                        name);
        else if (elsewhere)
            add_problem(bad, FY_EUNSUPPORTED, "'%s' is of a layer that %s", name,
                        fy_layer_in(&m->hp.no_attn_layers, layer)
                            ? "has no attention by head_count_kv"
                        : fy_layer_in(&m->hp.no_ffn_layers, layer)
                            ? "has no feed-forward by feed_forward_length"
                            : "has attention by head_count_kv");
        else if (exists)
            add_problem(bad, FY_EUNSUPPORTED, "'%s' is not of this chunk (%s)", name,
                        fy_chunk_text(&m->chunk, &m->hp, what));
        else if (row != NULL)
            add_problem(bad, FY_EUNSUPPORTED, "'%s' belongs to no layer: block_count is %u", name,
                        m->hp.n_layer);
        else
            add_problem(bad, FY_EUNSUPPORTED, "'%s' is unknown", name);
    }
}

static int bind_all(fy_model *m, fy_err *e)
{
    fy_kernels k = fy_kernels_for(fy_cpu_features());
    problems bad = {0};
    size_t n_bound = 0;
    int rc = 0;
    if (fy_gguf_n_tensors(m->gguf) == 0)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "holds a vocabulary and no weights (as --vocab-only writes it): 'ferry "
                       "tokenize' and 'ferry template' take it; convert without --vocab-only");
    for (size_t i = 0; i < m->family->n_rows && rc == 0; i++) {
        const fy_tensor_row *row = &m->family->rows[i];
        if (row->flags & FY_ROW_ALT)
            continue;
        const uint32_t first = m->chunk.first_layer;
        if (!fy_row_is_layer(row)) {
            if (fy_chunk_holds(&m->chunk, row, 0))
                rc = bind(m, &k, row, 0, &m->once, &n_bound, &bad, e);
            continue;
        }
        for (uint32_t layer = first; layer < m->chunk.end_layer && rc == 0; layer++)
            rc = bind(m, &k, row, layer, &m->layers[layer - first], &n_bound, &bad, e);
    }
    for (uint32_t layer = m->chunk.first_layer; rc == 0 && layer < m->chunk.end_layer; layer++)
        bind_predictor(m, &k, layer, &m->layers[layer - m->chunk.first_layer], &n_bound, &bad);
    if (rc == 0)
        rc = read_threshold(m, e);
    if (rc == 0)
        complete(m, &bad);
    if (rc == 0 && n_bound != fy_gguf_n_tensors(m->gguf))
        find_unknown(m, &bad);
    return report_problems(&bad, m, e) != 0 ? -1 : rc;
}

/* --- open and close ------------------------------------------------------------------------- */

/* Is this the first family with its general.architecture? */
static bool names_arch(const fy_family *const *f)
{
    const fy_family *const *first = fy_families;
    while (strcmp((*first)->gguf_arch, (*f)->gguf_arch) != 0)
        first++;
    return first == f;
}

static int find_family(fy_model *m, fy_err *e)
{
    fy_span arch;
    int rc = fy_gguf_get_str(m->gguf, FY_KEY_ARCHITECTURE, &arch, e);
    if (rc < 0)
        return -1;
    if (rc > 0)
        return fy_fail(
            e, FY_EFORMAT,
            "key general.architecture is missing: this file says nothing about its model");
    m->family = fy_family_of_file(m->gguf);
    if (m->family != NULL)
        return 0;
    char name[FY_QUOTE_BYTES];
    for (int experts = 0; experts < 2; experts++) {
        if (fy_family_of_gguf(arch, experts) != NULL)
            return fy_fail(e, FY_EUNSUPPORTED,
                           "general.architecture '%s' %s a mixture of experts (expert_count): "
                           "ferry computes it only %s",
                           fy_quote(name, sizeof name, arch), experts ? "without" : "with",
                           experts ? "with one" : "without");
    }
    fy_str known = {0};
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        if (names_arch(f))
            fy_str_printf(&known, "%s%s", known.len > 0 ? ", " : "", (*f)->gguf_arch);
    }
    rc = fy_fail(e, FY_EUNSUPPORTED, "general.architecture is '%s', expected one of: %s",
                 fy_quote(name, sizeof name, arch), fy_str_z(&known));
    fy_str_release(&known);
    return rc;
}

/* whole: a chunk is refused. */
static int load(fy_model *m, bool whole, fy_err *e)
{
    char what[FY_CHUNK_TEXT_BYTES];
    if (find_family(m, e) != 0 || fy_hparams_from_gguf(m->gguf, m->family, &m->hp, e) != 0 ||
        fy_chunk_info_from_gguf(m->gguf, &m->hp, &m->chunk, e) != 0)
        return -1;
    if (whole && m->chunk.kind != FY_CHUNK_WHOLE)
        return fy_fail(e, FY_EARG,
                       "is a chunk of a model that was cut: %s; run the directory (-m DIR) or the "
                       "workspace (-d WORKSPACE) that it is of",
                       fy_chunk_text(&m->chunk, &m->hp, what));
    if (m->chunk.kind == FY_CHUNK_WHOLE)
        fy_hparams_tell_missing(m->gguf, m->family, &m->hp);
    const uint32_t n_layer = m->chunk.end_layer - m->chunk.first_layer;
    m->layers = fy_arena_calloc(&m->arena, n_layer, sizeof *m->layers);
    if (m->layers == NULL)
        return fy_nomem(e);
    if (bind_all(m, e) != 0)
        return -1;
    bool tied = m->once.w[FY_T_OUTPUT].data == NULL;
    m->output = &m->once.w[tied ? FY_T_TOKEN_EMBD : FY_T_OUTPUT];
    return 0;
}

fy_model *fy_model_open(const char *path, fy_err *e)
{
    const fy_map_options mapped = {.huge = true};
    return fy_model_open_as(path, &mapped, e);
}

static fy_model *open_model(const char *path, const fy_map_options *how, bool whole, fy_err *e)
{
    fy_model *m = calloc(1, sizeof *m);
    if (m == NULL) {
        fy_nomem(e);
        return NULL;
    }
    m->gguf = fy_gguf_open_as(path, how, e);
    if (m->gguf != NULL && load(m, whole, e) == 0)
        return m;
    if (m->gguf != NULL)
        fy_ctx(e, "%s", path);
    fy_model_close(m);
    return NULL;
}

fy_model *fy_model_open_as(const char *path, const fy_map_options *how, fy_err *e)
{
    return open_model(path, how, true, e);
}

fy_model *fy_model_open_chunk(const char *path, const fy_map_options *how, fy_err *e)
{
    return open_model(path, how, false, e);
}

void fy_model_close(fy_model *m)
{
    if (m == NULL)
        return;
    fy_expert_cache_free(m->experts);
    fy_chain_free(m->chain);
    if (m->gpu != NULL)
        m->gpu->api->close(m->gpu);
    fy_vocab_free(m->vocab);
    fy_arena_release(&m->arena);
    fy_gguf_close(m->gguf);
    free(m);
}

const fy_hparams *fy_model_hparams(const fy_model *m)
{
    return &m->hp;
}

const fy_family *fy_model_family(const fy_model *m)
{
    return m->family;
}

const fy_gguf *fy_model_gguf(const fy_model *m)
{
    return m->gguf;
}

const fy_chunk_info *fy_model_chunk_info(const fy_model *m)
{
    return &m->chunk;
}

size_t fy_model_n_chunks(const fy_model *m)
{
    return m->chain != NULL ? m->chain->n_chunks : 0;
}

const char *fy_model_chunk_path(const fy_model *m, size_t i)
{
    return m->chain->chunks[i].path;
}

const char *fy_model_backend(const fy_model *m)
{
    return m->chain != NULL ? m->chain->device->api->name : m->gpu != NULL ? "cpu+gpu" : "cpu";
}

uint32_t fy_model_max_ctx(const fy_model *m)
{
    const fy_matrix *learned = &m->once.w[FY_T_POSITION_EMBD];
    const uint32_t most = learned->data != NULL ? (uint32_t)learned->n_rows : INT32_MAX;
    const fy_chain *c = m->chain;
    if (c == NULL || fy_model_is_endless(m))
        return most;
    const uint32_t first = fy_chain_first_position(c);
    return (c->n_cache < most ? c->n_cache : most) - first;
}

const fy_vocab *fy_model_vocab(fy_model *m, fy_err *e)
{
    if (m->vocab == NULL) {
        m->vocab = fy_vocab_load(m->gguf, e);
        if (m->vocab == NULL)
            fy_ctx(e, "%s", fy_gguf_path(m->gguf));
    }
    return m->vocab;
}
