/* Makes the plan of a conversion: for every row of the family's table the tensors of the checkpoint
 * that it is made from, for every other tensor the reason why it is dropped, and the type of each
 * matrix. Problems are collected and reported together. */
#include "convert/write/convert_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/math.h"
#include "base/opts.h"
#include "base/str.h"
#include "convert/source/checkpoint.h"
#include "convert/source/family_match.h"
#include "policy/type_policy.h"

enum { MAX_LOGGED = 100, TOLD_BYTES = 330 };

typedef struct {
    fy_convert_plan *plan;
    const fy_ckpt *dir;
    fy_prefix_scheme scheme;
    const fy_plan_options *o; /* view */
    bool *used;   /* owned; per tensor of the directory: it has its place, or its problem */
    bool *faulty; /* owned; the same: a problem with it was reported */
    bool oom;
    /* Problems: collected, then reported together. */
    fy_str told;
    size_t n_problems, n_told, n_unknown;
} builder;

/* --- problems --------------------------------------------------------------------------------- */

/* What does not fit into the error message is still logged, line by line. */
static void problem(builder *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void problem(builder *b, const char *fmt, ...)
{
    char line[480];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    b->n_problems++;
    if (b->n_problems <= MAX_LOGGED)
        fy_log(FY_LOG_DEBUG, "%s", line);
    if (b->n_told + 1 == b->n_problems && b->told.len + strlen(line) < TOLD_BYTES) {
        fy_str_printf(&b->told, "%s%s", b->told.len > 0 ? "; " : "", line);
        b->n_told++;
    }
}

static int tell_problems(const builder *b, fy_err *e)
{
    const size_t n = b->n_problems;
    const char *family = b->plan->config->family->name, *told = fy_str_z(&b->told);
    const char *remedy = b->n_unknown == n ? "; --allow-unmapped leaves out what is unknown" : "";
    if (b->oom || b->told.oom)
        return fy_nomem(e);
    if (n == 0)
        return 0;
    if (n > b->n_told)
        return fy_fail(e, FY_EFORMAT,
                       "%zu tensors do not fit a %s model: %s; and %zu more (-v lists them)%s", n,
                       family, told, n - b->n_told, remedy);
    return fy_fail(e, FY_EFORMAT, "%zu tensor%s not fit a %s model: %s%s", n,
                   n == 1 ? " does" : "s do", family, told, remedy);
}

/* --- building --------------------------------------------------------------------------------- */

static size_t index_of(const builder *b, const fy_ckpt_tensor *src)
{
    return (size_t)(src - fy_ckpt_at(b->dir, 0));
}

static void drop_source(builder *b, const fy_ckpt_tensor *src, const char *reason)
{
    b->used[index_of(b, src)] = true;
    b->plan->drops[b->plan->n_drops++] = (fy_plan_drop){src, reason};
}

/* --- sources of a row ------------------------------------------------------------------------- */

static void source_name(const builder *b, const fy_tensor_row *row, uint32_t layer, uint32_t expert,
                        char out[FY_HF_NAME_BYTES])
{
    char name[FY_ROW_NAME_BYTES];
    fy_row_expert_name(row->hf, layer, expert, name);
    fy_name_in_scheme(b->scheme, name, out);
}

static const fy_ckpt_tensor *source(const builder *b, const fy_tensor_row *row, uint32_t layer,
                                    uint32_t expert)
{
    char name[FY_HF_NAME_BYTES];
    source_name(b, row, layer, expert, name);
    return fy_ckpt_find(b->dir, fy_span_of(name));
}

bool fy_plan_row_is_computed(const fy_hf_config *c, const fy_tensor_row *row)
{
    if (row->transform == FY_X_LLAMA3_FREQS)
        return c->llama3.used;
    if (row->transform == FY_X_PART_FREQS)
        return c->turned_pairs != 0;
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

static uint32_t source_shape(const builder *b, const fy_tensor_row *row, uint32_t layer,
                             uint64_t dims[FY_GGUF_MAX_DIMS])
{
    const fy_hparams like = fy_hparams_of_layer(&b->plan->config->hp, layer);
    return fy_row_source_shape(fy_row_is_layer(row) ? &like : &b->plan->config->hp, row, dims);
}

static bool has_its_shape(const builder *b, const fy_tensor_row *row, uint32_t layer,
                          const fy_ckpt_tensor *src)
{
    uint64_t dims[FY_GGUF_MAX_DIMS];
    uint32_t n = source_shape(b, row, layer, dims);
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

/* Shape and type of a source; false with the problem reported, once for each source. */
static bool check_source(builder *b, const fy_tensor_row *row, uint32_t layer,
                         const fy_ckpt_tensor *src)
{
    uint64_t dims[FY_GGUF_MAX_DIMS];
    char found[128], wanted[128], name[FY_HF_NAME_BYTES];
    const size_t i = index_of(b, src);
    const bool fits = has_its_shape(b, row, layer, src);
    b->used[i] = true;
    if (fits && fy_ckpt_can_read(src))
        return true;
    if (b->faulty[i])
        return false;
    b->faulty[i] = true;
    put_name(name, src);
    const bool blocks = src->dtype == FY_DT_U8 && fy_span_ends(src->name, "_blocks");
    if (!fits && !blocks)
        problem(b, "%s has shape %s, config.json says %s", name,
                shape_text(found, sizeof found, src->rank, src->shape),
                shape_text(wanted, sizeof wanted, source_shape(b, row, layer, dims), dims));
    else
        problem(b, "%s is of type %s, which ferry does not convert%s", name,
                fy_dtype_name(src->dtype),
                src->dtype == FY_DT_F8_E4M3
                    ? " without a quantization_config of method fp8 in config.json"
                : blocks ? " without a quantization_config of method mxfp4 in config.json"
                         : "");
    return false;
}

/* --- choice ----------------------------------------------------------------------------------- */

/* The form whose source is there in its shape, else one whose source is there, else one that is
 * computed; NULL: none. */
static const fy_tensor_row *choose(const builder *b, const fy_tensor_row *rows, size_t n,
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
        if (src != NULL && has_its_shape(b, row, layer, src))
            return row;
        if (src != NULL && there == NULL)
            there = row;
    }
    return there != NULL ? there : computed;
}

static void missing(builder *b, const fy_tensor_row *row, const char *name)
{
    if (row->slot == FY_T_OUTPUT && b->plan->config->tied)
        problem(b, "%s is missing, which this family has even if it is tied", name);
    else if (row->slot == FY_T_OUTPUT)
        problem(b, "%s is missing and tie_word_embeddings is not true", name);
    else if (row->required_by != NULL)
        problem(b, "%s is missing and %s is true", name, row->required_by);
    else
        problem(b, "%s is missing", name);
}

/* The first form speaks for all. */
static bool none_there(builder *b, const fy_tensor_row *row, uint32_t layer)
{
    char name[FY_HF_NAME_BYTES];
    if (row->hf != NULL && fy_plan_row_is_required(b->plan->config, row) &&
        !fy_row_is_unused(&b->plan->config->hp, row, layer)) {
        source_name(b, row, layer, 0, name);
        missing(b, row, name);
    }
    return false;
}

/* The tensors that are stacked, mostly the experts': all or none. Their number comes from
 * config.json: nothing is made for more than there are tensors. */
static bool find_stacked(builder *b, fy_plan_tensor *t)
{
    enum { MAX_MISSING = 16 }; /* beyond which nothing more is looked for */
    const uint32_t n = t->n_stacked;
    char name[FY_HF_NAME_BYTES];
    bool good = true;
    if (n > fy_ckpt_n_tensors(b->dir)) {
        source_name(b, t->row, t->layer, 0, name);
        problem(b, "%s: config.json says %u experts, the checkpoint has %zu tensors", name, n,
                fy_ckpt_n_tensors(b->dir));
        return false;
    }
    t->stacked = calloc(n, sizeof *t->stacked);
    if (t->stacked == NULL) {
        b->oom = true;
        return false;
    }
    uint32_t n_missing = 0;
    for (uint32_t i = 0; i < n && n_missing < MAX_MISSING; i++) {
        t->stacked[i] = source(b, t->row, t->layer, i);
        if (t->stacked[i] != NULL) {
            good = check_source(b, t->row, t->layer, t->stacked[i]) && good;
        } else if (n_missing++ == 0) {
            source_name(b, t->row, t->layer, i, name);
            problem(b, "%s is missing", name);
        }
    }
    return good && n_missing == 0;
}

/* Finds the source of the first of rows[0..n) (one row and its other forms) that is there in the
 * right shape. True: *t has row, source and source type. False: there is none, and a problem was
 * reported if there has to be one. */
static bool find_source(builder *b, const fy_tensor_row *rows, size_t n, uint32_t layer,
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
    const fy_hparams like = fy_hparams_of_layer(&c->hp, layer);
    t->n_dims = fy_row_shape(fy_row_is_layer(row) ? &like : &c->hp, row, t->ne);
    t->n_stacked = fy_row_n_stacked(&c->hp, row);
    if (row->hf == NULL)
        return true;
    t->src = source(b, row, layer, 0);
    if (row->required_by != NULL && !fy_plan_row_is_required(c, row)) {
        char name[FY_HF_NAME_BYTES];
        put_name(name, t->src);
        b->used[index_of(b, t->src)] = true;
        problem(b, "%s is there but %s is not true in config.json", name, row->required_by);
        return false;
    }
    bool good = t->n_stacked > 0 ? find_stacked(b, t) : check_source(b, row, layer, t->src);
    if (good)
        return true;
    free(t->stacked);
    t->stacked = NULL;
    return false;
}

/* --- what no row asks for --------------------------------------------------------------------- */

static const struct {
    const char *end, *reason;
} droppable[] = {
    {".rotary_emb.inv_freq", "rotation frequencies follow from config.json"},
    {".rotary_pos_emb.inv_freq", "rotation frequencies follow from config.json"},
    {".weight_scale_inv", "the scale of an FP8 matrix, which is multiplied by it"},
    {"_proj_scales", "the scales of an MXFP4 matrix, which is multiplied by them"},
    {".activation_scale", "a scale of activations, which ferry scales as it computes"},
    {".input_scale", "a scale of activations, which ferry scales as it computes"},
    {"rope.freqs", "rotation frequencies follow from params.json"},
    {"freqs_cos", "rotation frequencies follow from the configuration"},
    {"freqs_sin", "rotation frequencies follow from the configuration"},
    {".attention.mask", "a causal mask, not a weight"},
    {".attn.masked_bias", "a causal mask, not a weight"},
    {".attn.bias", "a causal mask, not a weight"},
    {".attention.masked_bias", "a causal mask, not a weight"},
    {".attention.bias", "a causal mask, not a weight"},
    {".mlp.predictor.fc1.weight", "a predictor of neurons, which --predictors writes"},
    {".mlp.predictor.fc2.weight", "a predictor of neurons, which --predictors writes"},
};

/* What multi-modal checkpoints have besides the text model; with or without "model." in front. */
static const char *const towers[] = {
    "vision_tower.",      "vision_model.",    "vision_encoder.",
    "vision_projection.", "visual.",          "multi_modal_projector.",
    "mm_projector.",      "image_newline",    "audio_tower.",
    "audio_model.",       "audio_projector.", "embed_vision.",
    "embed_audio.",       "connector.",       "mlp1.",
};

static bool is_of_tower(fy_span name)
{
    const size_t skip = fy_span_begins(name, "model.") ? strlen("model.") : 0;
    name = (fy_span){name.ptr + skip, name.len - skip};
    for (size_t i = 0; i < sizeof towers / sizeof towers[0]; i++) {
        if (fy_span_begins(name, towers[i]))
            return true;
    }
    return false;
}

static const char *drop_reason(const fy_hf_config *c, fy_span name)
{
    const char *const *own = c->family->drop;
    for (size_t i = 0; i < sizeof droppable / sizeof droppable[0]; i++) {
        if (fy_span_ends(name, droppable[i].end))
            return droppable[i].reason;
    }
    for (; own != NULL && *own != NULL; own++) {
        if (fy_span_ends(name, *own))
            return "not a weight of this family";
    }
    if (fy_span_begins(name, "mtp."))
        return "layers that predict more than one token, which ferry does not use";
    return c->nested && is_of_tower(name) ? "not of the text model" : NULL;
}

/* --- unknown ---------------------------------------------------------------------------------- */

#define MAX_CANDIDATES 64

/* The name of the family's table that is nearest, in the layer the unknown name has. */
static const char *nearest(const builder *b, fy_span name, uint32_t layer,
                           char buffer[MAX_CANDIDATES][FY_HF_NAME_BYTES])
{
    const fy_family *f = b->plan->config->family;
    char word[FY_HF_NAME_BYTES];
    const char *candidates[MAX_CANDIDATES];
    size_t n = 0;
    if (name.len >= sizeof word || memchr(name.ptr, '\0', name.len) != NULL)
        return NULL;
    memcpy(word, name.ptr, name.len);
    word[name.len] = '\0';
    for (size_t i = 0; i < f->n_rows && n < MAX_CANDIDATES; i++) {
        char row[FY_ROW_NAME_BYTES];
        if (f->rows[i].hf == NULL)
            continue;
        fy_row_name(f->rows[i].hf, layer, row);
        fy_name_in_scheme(b->scheme, row, buffer[n]);
        candidates[n] = buffer[n];
        n++;
    }
    return fy_nearest(word, candidates, n);
}

/* The number where the family's rows have that of the layer; 0 for other names. */
static uint32_t layer_of(const builder *b, fy_span name)
{
    const fy_family *f = b->plan->config->family;
    for (size_t i = 0; i < f->n_rows; i++) {
        char pattern[FY_HF_NAME_BYTES];
        const char *mark;
        if (f->rows[i].hf == NULL)
            continue;
        fy_name_in_scheme(b->scheme, f->rows[i].hf, pattern);
        mark = strstr(pattern, "%u");
        size_t at = mark != NULL ? (size_t)(mark - pattern) : 0;
        if (mark == NULL || name.len <= at || memcmp(name.ptr, pattern, at) != 0)
            continue;
        uint64_t v = 0;
        for (; at < name.len && name.ptr[at] >= '0' && name.ptr[at] <= '9' && v < INT32_MAX; at++)
            v = v * 10 + (uint64_t)(name.ptr[at] - '0');
        return v < INT32_MAX ? (uint32_t)v : INT32_MAX;
    }
    return 0;
}

static void unexplained(builder *b, fy_span name)
{
    char q[FY_ROW_NAME_BYTES], buffer[MAX_CANDIDATES][FY_HF_NAME_BYTES];
    uint32_t n_layer = b->plan->config->hp.n_layer, layer = layer_of(b, name);
    fy_quote(q, sizeof q, name);
    b->n_unknown++;
    if (layer >= n_layer) {
        problem(b, "%s is unknown (config.json says %u layers)", q, n_layer);
        return;
    }
    const char *near = b->n_problems < MAX_LOGGED ? nearest(b, name, layer, buffer) : NULL;
    if (near != NULL)
        problem(b, "%s is unknown (the nearest known name is %s)", q, near);
    else
        problem(b, "%s is unknown", q);
}

/* Drops what is not a weight and reports what is unknown. */
static void account_for_rest(builder *b)
{
    for (size_t i = 0; i < fy_ckpt_n_tensors(b->dir); i++) {
        if (b->used[i])
            continue;
        const fy_ckpt_tensor *src = fy_ckpt_at(b->dir, i);
        const char *reason = drop_reason(b->plan->config, src->name);
        if (reason == NULL && b->o->allow_unmapped)
            reason = "not of this family (--allow-unmapped)";
        if (reason != NULL)
            drop_source(b, src, reason);
        else
            unexplained(b, src->name);
    }
}

/* --- types ------------------------------------------------------------------------------------ */

/* MXFP4 stays that, byte for byte, unless an option names a type: none of 4 bits is better. */
static bool stays_mxfp4(const fy_plan_tensor *t)
{
    return t->src != NULL && t->src->dtype == FY_DT_F4 && (t->row->flags & FY_ROW_MATRIX) != 0;
}

/* The type of a matrix when all are `outtype`. */
static fy_type pure(const fy_plan_tensor *t, fy_type outtype)
{
    if (outtype != FY_OUTTYPE_AUTO)
        return outtype;
    fy_dtype d = t->src != NULL ? t->src->dtype : FY_DT_F16;
    return d == FY_DT_BF16 || d == FY_DT_F8_E4M3 ? FY_BF16 : FY_F16;
}

static int choose_types(fy_convert_plan *p, const fy_plan_options *o, fy_err *e)
{
    const fy_hparams *hp = &p->config->hp;
    const fy_type_request r = {
        .file = {o->outtype, o->outtype == FY_OUTTYPE_AUTO ? FY_RECIPE_PURE : o->recipe},
        .output = o->output_type,
        .embedding = o->embedding_type,
        .rules = o->rules,
        .model = {.arch = fy_span_of(p->config->family->gguf_arch),
                  .n_layer = hp->n_layer,
                  .n_head = hp->n_head,
                  .n_head_kv = hp->n_head_kv,
                  .n_expert = hp->n_expert}};
    fy_type_item *items = calloc(p->n_tensors + 1, sizeof *items);
    char(*names)[FY_ROW_NAME_BYTES] = calloc(p->n_tensors + 1, sizeof *names);
    int rc = items == NULL || names == NULL ? fy_nomem(e) : 0;
    for (size_t i = 0; rc == 0 && i < p->n_tensors; i++) {
        const fy_plan_tensor *t = &p->tensors[i];
        const bool matrix = (t->row->flags & FY_ROW_MATRIX) != 0 && t->n_dims > 1;
        fy_plan_name(t, names[i]);
        items[i] = (fy_type_item){.name = fy_span_of(names[i]),
                                  .ne0 = t->ne[0],
                                  .matrix = matrix,
                                  .stays = stays_mxfp4(t),
                                  .type = stays_mxfp4(t) ? FY_MXFP4
                                          : matrix       ? pure(t, o->outtype)
                                                         : FY_F32};
    }
    if (rc == 0)
        rc = fy_choose_matrix_types(&r, items, p->n_tensors, e);
    for (size_t i = 0; rc == 0 && i < p->n_tensors; i++) {
        p->tensors[i].type = items[i].type;
        p->tensors[i].fallback = items[i].fallback;
    }
    free(items);
    free(names);
    return rc;
}

/* An output matrix that is stored although the config ties it to the embedding. */
static void tied_output(builder *b, const fy_ckpt_tensor *src)
{
    for (size_t i = 0; i < b->plan->n_tensors; i++) {
        const fy_plan_tensor *t = &b->plan->tensors[i];
        if (t->row->slot == FY_T_TOKEN_EMBD && fy_ckpt_same(src, t->src)) {
            drop_source(b, src, "equal to the embedding it is tied to");
            return;
        }
    }
    char name[FY_HF_NAME_BYTES];
    fy_quote(name, sizeof name, src->name);
    b->used[index_of(b, src)] = true;
    problem(b,
            "%s differs from the embedding although tie_word_embeddings is true (set it to false "
            "in config.json to keep it)",
            name);
}

/* --- a row for each neuron -------------------------------------------------------------------- */

static int check_transposition(const fy_hf_config *c, const char *option, fy_err *e)
{
    const fy_family *f = c->family;
    const bool gated = fy_row_of_slot(f, FY_T_FFN_GATE) != NULL;
    if (c->hp.n_expert > 0)
        return fy_fail(e, FY_EUNSUPPORTED, "%s: the matrices of experts are not transposed",
                       option);
    if (fy_row_by_neuron(f, FY_T_FFN_DOWN) == NULL || !fy_act_makes_zeros(c->hp.act, gated))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: %s, whose activations are hardly ever exactly 0: no neuron could be "
                       "left out",
                       option, fy_act_name(c->hp.act));
    return 0;
}

/* The down matrix, or its bias, under the name that says what its rows are. */
static void transpose(const fy_family *f, fy_plan_tensor *t)
{
    const fy_tensor_row *row = fy_row_by_neuron(f, t->row->slot);
    if (row == NULL)
        return;
    if (row->slot == FY_T_FFN_DOWN_T) {
        const uint64_t n_cols = t->ne[0];
        t->ne[0] = t->ne[1];
        t->ne[1] = n_cols;
        t->transform = t->transform == FY_X_TRANSPOSE ? FY_X_COPY : FY_X_TRANSPOSE;
    }
    t->row = row;
}

/* --- what PowerInfer reads -------------------------------------------------------------------- */

/* The embedding once more: its readers want an output matrix, except of OPT (with positions). */
static void repeat_embedding(builder *b, const fy_tensor_row *output)
{
    fy_convert_plan *p = b->plan;
    if (fy_row_of_slot(p->config->family, FY_T_POSITION_EMBD) != NULL)
        return;
    for (size_t i = 0; i < p->n_tensors; i++) {
        if (p->tensors[i].row->slot == FY_T_TOKEN_EMBD) {
            p->tensors[p->n_tensors] = p->tensors[i];
            p->tensors[p->n_tensors++].row = output;
            return;
        }
    }
}

/* All rows of the positions, also those before the first one. */
static void keep_positions(fy_plan_tensor *t)
{
    if (t->transform != FY_X_SKIP_2)
        return;
    t->transform = FY_X_COPY;
    t->ne[1] += 2;
}

static void add_predictor(builder *b, uint32_t layer)
{
    fy_convert_plan *p = b->plan;
    for (int i = 0; i < 2; i++) {
        char name[FY_ROW_NAME_BYTES];
        uint32_t of;
        snprintf(name, sizeof name, "blk.%u.fc%d.weight", layer, i + 1);
        const fy_ckpt_tensor *src = fy_ckpt_find(b->dir, fy_span_of(name));
        const fy_tensor_row *row = fy_neuron_row_of_gguf(p->config->family, fy_span_of(name), &of);
        b->used[index_of(b, src)] = true;
        p->tensors[p->n_tensors++] = (fy_plan_tensor){.row = row,
                                                      .transform = FY_X_COPY,
                                                      .layer = layer,
                                                      .n_dims = 2,
                                                      .ne = {src->shape[1], src->shape[0], 1, 1},
                                                      .src = src};
    }
}

/* rows[0..n): one row of the output and its other forms. */
static void add_row(builder *b, const fy_tensor_row *rows, size_t n, uint32_t layer)
{
    fy_convert_plan *p = b->plan;
    fy_plan_tensor t;
    const bool found = find_source(b, rows, n, layer, &t);
    if (rows[0].slot == FY_T_OUTPUT && p->config->tied) {
        if (found && t.src != NULL)
            tied_output(b, t.src);
        if (b->o->predictors)
            repeat_embedding(b, &rows[0]);
        return;
    }
    if (!found)
        return;
    if (b->o->transpose_down || b->o->predictors)
        transpose(p->config->family, &t);
    if (b->o->predictors)
        keep_positions(&t);
    p->tensors[p->n_tensors++] = t;
}

/* The row at i and the other forms after it. */
static size_t n_forms(const fy_family *f, size_t i)
{
    size_t n = 1;
    while (i + n < f->n_rows && (f->rows[i + n].flags & FY_ROW_ALT) != 0)
        n++;
    return n;
}

static void add_range(builder *b, size_t first, size_t last, uint32_t layer)
{
    const fy_family *f = b->plan->config->family;
    for (size_t i = first, n; i < last; i += n) {
        n = n_forms(f, i);
        if (fy_row_is_in_layer(&b->plan->config->hp, &f->rows[i], layer))
            add_row(b, &f->rows[i], n, layer);
    }
}

/* Rows before the layers, the layers, rows after them: the order in which the model computes. */
static void add_rows(builder *b)
{
    const fy_family *f = b->plan->config->family;
    size_t first = 0, last = f->n_rows;
    while (first < f->n_rows && !fy_row_is_layer(&f->rows[first]))
        first++;
    while (last > first && !fy_row_is_layer(&f->rows[last - 1]))
        last--;
    add_range(b, 0, first, 0);
    for (uint32_t layer = 0; layer < b->plan->config->hp.n_layer; layer++) {
        add_range(b, first, last, layer);
        if (b->o->predictors)
            add_predictor(b, layer);
    }
    add_range(b, last, f->n_rows, 0);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Elements of all sources. */
static int count_params(fy_convert_plan *p, fy_err *e)
{
    for (size_t i = 0; i < p->n_tensors; i++) {
        const fy_plan_tensor *t = &p->tensors[i];
        uint64_t n = t->ne[0];
        if (t->src == NULL || (t->row->slot == FY_T_OUTPUT && p->config->tied) ||
            (t->row->slot >= FY_T_UNUSED_0 && t->row->slot <= FY_T_UNUSED_2))
            continue;
        for (uint32_t d = 1; d < t->n_dims; d++) {
            if (!fy_mul_u64(n, t->ne[d], &n))
                return fy_fail(e, FY_EFORMAT, "the model has more than 2^64 elements");
        }
        if (!fy_add_u64(p->n_params, n, &p->n_params))
            return fy_fail(e, FY_EFORMAT, "the model has more than 2^64 elements");
        if (t->row->slot == FY_T_FFN_GATE_EXPS || t->row->slot == FY_T_FFN_UP_EXPS ||
            t->row->slot == FY_T_FFN_DOWN_EXPS)
            p->n_expert_params += n;
    }
    return 0;
}

/* What the matrices are, or most of their elements when each keeps its own. */
static fy_type type_of_most(const fy_convert_plan *p, fy_type outtype)
{
    uint64_t by_type[FY_TYPE_COUNT] = {0};
    fy_type most = FY_F16;
    if (outtype != FY_OUTTYPE_AUTO)
        return outtype;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const fy_plan_tensor *t = &p->tensors[i];
        if ((t->row->flags & FY_ROW_MATRIX) != 0)
            by_type[t->type] += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]; /* checked before */
    }
    for (int i = 0; i < FY_TYPE_COUNT; i++) {
        if (by_type[i] > by_type[most])
            most = (fy_type)i;
    }
    return most;
}

/* token_embd alone; all other sources are dropped. */
static void keep_embedding(builder *b)
{
    fy_convert_plan *p = b->plan;
    size_t n = 0;
    memset(b->used, 0, fy_ckpt_n_tensors(b->dir) * sizeof *b->used);
    for (size_t i = 0; i < p->n_drops; i++)
        b->used[index_of(b, p->drops[i].src)] = true;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const fy_plan_tensor t = p->tensors[i];
        if (t.row->slot != FY_T_TOKEN_EMBD) {
            free(t.stacked);
            continue;
        }
        b->used[index_of(b, t.src)] = true;
        p->tensors[n++] = t;
    }
    p->n_tensors = n;
    for (size_t i = 0; i < fy_ckpt_n_tensors(b->dir); i++) {
        if (!b->used[i])
            drop_source(b, fy_ckpt_at(b->dir, i), "not the embedding (--embedding-only)");
    }
}

/* What is left once all tensors have their place. */
static int finish(builder *b, fy_err *e)
{
    fy_plan_options o = *b->o;
    if (tell_problems(b, e) || count_params(b->plan, e))
        return -1;
    if (o.embedding_only)
        keep_embedding(b);
    if (o.embedding_only && o.outtype == FY_OUTTYPE_AUTO)
        o.outtype = FY_F32;
    if (choose_types(b->plan, &o, e))
        return -1;
    b->plan->file.type = type_of_most(b->plan, o.outtype);
    return 0;
}

fy_convert_plan *fy_convert_plan_new(const fy_ckpt *dir, const fy_hf_config *config,
                                     const fy_plan_options *o, fy_err *e)
{
    const fy_family *f = config->family;
    const size_t n_in = fy_ckpt_n_tensors(dir);
    fy_convert_plan *p = calloc(1, sizeof *p);
    builder b = {.plan = p, .dir = dir, .o = o};
    b.used = calloc(n_in + 1, sizeof *b.used);
    b.faulty = calloc(n_in + 1, sizeof *b.faulty);
    if (p != NULL) {
        *p = (fy_convert_plan){.config = config, .file.recipe = o->recipe};
        p->tensors = calloc((f->n_rows + 2) * config->hp.n_layer + 1, sizeof *p->tensors);
        p->drops = calloc(n_in + 1, sizeof *p->drops);
    }
    int rc = -1;
    if (b.used == NULL || b.faulty == NULL || p == NULL || p->tensors == NULL || p->drops == NULL) {
        fy_nomem(e);
    } else if ((!o->transpose_down && !o->predictors) ||
               check_transposition(config, o->predictors ? "--predictors" : "--transpose-down",
                                   e) == 0) {
        size_t n_found;
        b.scheme = fy_prefix_scheme_of(dir, f, &n_found);
        add_rows(&b);
        account_for_rest(&b);
        rc = finish(&b, e);
    }
    fy_str_release(&b.told);
    free(b.used);
    free(b.faulty);
    if (rc == 0)
        return p;
    fy_convert_plan_free(p);
    return NULL;
}

void fy_convert_plan_free(fy_convert_plan *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->n_tensors; i++)
        free(p->tensors[i].stacked);
    free(p->tensors);
    free(p->drops);
    free(p);
}

void fy_plan_name(const fy_plan_tensor *t, char out[FY_ROW_NAME_BYTES])
{
    fy_row_name(t->row->gguf, t->layer, out);
}
