/* The ferry.chunk.* keys of a chunk: read with checks, and written. */
#include "arch/chunk_info.h"

#include <stdio.h>
#include <string.h>

#include "arch/graph_io.h"
#include "base/str.h"

#define KIND        FY_CHUNK_KEYS "kind"
#define INDEX       FY_CHUNK_KEYS "index"
#define COUNT       FY_CHUNK_KEYS "count"
#define FIRST_LAYER FY_CHUNK_KEYS "first_layer"
#define END_LAYER   FY_CHUNK_KEYS "end_layer"
#define FIRST_TOKEN FY_CHUNK_KEYS "first_token"
#define END_TOKEN   FY_CHUNK_KEYS "end_token"
#define TIED        FY_CHUNK_KEYS "tied"
#define MODEL       FY_CHUNK_KEYS "model"

enum { MAX_CHUNKS = FY_N_LAYER_MAX };

static const char *const kinds[] = {
    [FY_CHUNK_EMBEDDING] = "embedding", [FY_CHUNK_LAYERS] = "layers", [FY_CHUNK_HEAD] = "head"};

/* --- reading ---------------------------------------------------------------------------------- */

static int missing(const char *key, fy_err *e)
{
    return fy_fail(e, FY_EFORMAT, "key %s is missing, which every chunk of a model has", key);
}

static int get_u32(const fy_gguf *g, const char *key, uint32_t *out, fy_err *e)
{
    const int rc = fy_gguf_get_u32(g, key, out, e);
    return rc > 0 ? missing(key, e) : rc;
}

/* first and end of a range that is not empty. */
static int get_range(const fy_gguf *g, const char *first_key, const char *end_key, uint32_t most,
                     uint32_t *first, uint32_t *end, fy_err *e)
{
    if (get_u32(g, first_key, first, e) != 0 || get_u32(g, end_key, end, e) != 0)
        return -1;
    return *first < *end && *end <= most
               ? 0
               : fy_fail(e, FY_EFORMAT, "%s %u and %s %u, expected a range within 0 to %u",
                         first_key, *first, end_key, *end, most);
}

static int get_kind(const fy_gguf *g, fy_chunk_kind *out, fy_err *e)
{
    fy_span s;
    char shown[FY_QUOTE_BYTES];
    *out = FY_CHUNK_WHOLE;
    const int rc = fy_gguf_get_str(g, KIND, &s, e);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    for (int k = FY_CHUNK_EMBEDDING; k <= FY_CHUNK_HEAD; k++) {
        if (fy_span_is(s, kinds[k]))
            *out = (fy_chunk_kind)k;
    }
    return *out != FY_CHUNK_WHOLE
               ? 0
               : fy_fail(e, FY_EFORMAT, "%s is '%s', expected embedding, layers or head", KIND,
                         fy_quote(shown, sizeof shown, s));
}

static int get_model(const fy_gguf *g, fy_chunk_info *p, fy_err *e)
{
    fy_span s;
    const int rc = fy_gguf_get_str(g, MODEL, &s, e);
    if (rc != 0)
        return rc > 0 ? missing(MODEL, e) : -1;
    if (s.len + 1 != sizeof p->model)
        return fy_fail(e, FY_EFORMAT, "%s has %zu characters, expected %zu hex digits", MODEL,
                       s.len, sizeof p->model - 1);
    for (size_t i = 0; i < s.len; i++) {
        if (strchr("0123456789abcdef", s.ptr[i]) == NULL || s.ptr[i] == '\0')
            return fy_fail(e, FY_EFORMAT, "%s is not a number in lower-case hex digits", MODEL);
    }
    memcpy(p->model, s.ptr, s.len);
    p->model[s.len] = '\0';
    return 0;
}

bool fy_is_chunk(const fy_gguf *g)
{
    return fy_gguf_find(g, KIND) != NULL;
}

int fy_chunk_info_from_gguf(const fy_gguf *g, const fy_hparams *hp, fy_chunk_info *out, fy_err *e)
{
    fy_chunk_info p = {0};
    if (get_kind(g, &p.kind, e) != 0)
        return -1;
    if (p.kind == FY_CHUNK_WHOLE) {
        *out = (fy_chunk_info){.count = 1, .end_layer = hp->n_layer, .end_token = hp->n_vocab};
        return 0;
    }
    if (get_u32(g, INDEX, &p.index, e) != 0 || get_u32(g, COUNT, &p.count, e) != 0 ||
        get_model(g, &p, e) != 0)
        return -1;
    if (p.count > MAX_CHUNKS || p.index >= p.count)
        return fy_fail(e, FY_EFORMAT, "%s %u of %s %u, expected one below it, and at most %d",
                       INDEX, p.index, COUNT, p.count, MAX_CHUNKS);
    if (p.kind == FY_CHUNK_LAYERS &&
        get_range(g, FIRST_LAYER, END_LAYER, hp->n_layer, &p.first_layer, &p.end_layer, e) != 0)
        return -1;
    if (p.kind == FY_CHUNK_HEAD &&
        (get_range(g, FIRST_TOKEN, END_TOKEN, hp->n_vocab, &p.first_token, &p.end_token, e) != 0 ||
         fy_gguf_get_bool(g, TIED, &p.tied, e) < 0))
        return -1;
    *out = p;
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* The names of the inputs, or of the outputs, that are no cache. */
static int add_seam(fy_gguf_writer *w, const char *key, const fy_hparams *hp,
                    const fy_chunk_info *p, bool outputs, fy_err *e)
{
    fy_io_tensor t;
    int rc = fy_gguf_begin_strings(w, key, e);
    for (uint32_t i = 0; rc == 0 && fy_graph_seam(hp, p, outputs, i, &t); i++)
        rc = fy_gguf_add_string(w, fy_span_of(t.name), e);
    return rc == 0 ? fy_gguf_end_strings(w, e) : -1;
}

int fy_chunk_info_to_gguf(fy_gguf_writer *w, const fy_hparams *hp, const fy_chunk_info *p,
                          fy_err *e)
{
    const bool layers = p->kind == FY_CHUNK_LAYERS, head = p->kind == FY_CHUNK_HEAD;
    if (fy_gguf_add_str(w, KIND, fy_span_of(kinds[p->kind]), e) != 0 ||
        fy_gguf_add_u32(w, INDEX, p->index, e) != 0 ||
        fy_gguf_add_u32(w, COUNT, p->count, e) != 0 ||
        fy_gguf_add_str(w, MODEL, fy_span_of(p->model), e) != 0)
        return -1;
    if (layers && (fy_gguf_add_u32(w, FIRST_LAYER, p->first_layer, e) != 0 ||
                   fy_gguf_add_u32(w, END_LAYER, p->end_layer, e) != 0))
        return -1;
    if (head && (fy_gguf_add_u32(w, FIRST_TOKEN, p->first_token, e) != 0 ||
                 fy_gguf_add_u32(w, END_TOKEN, p->end_token, e) != 0 ||
                 fy_gguf_add_bool(w, TIED, p->tied, e) != 0))
        return -1;
    if (!layers && !head)
        return 0;
    return add_seam(w, FY_CHUNK_INPUTS, hp, p, false, e) != 0
               ? -1
               : add_seam(w, FY_CHUNK_OUTPUTS, hp, p, true, e);
}

/* --- tensors ---------------------------------------------------------------------------------- */

fy_chunk_kind fy_chunk_kind_of(fy_slot slot)
{
    if (slot >= FY_T_ATTN_NORM)
        return FY_CHUNK_LAYERS;
    return slot >= FY_T_OUTPUT_NORM && slot <= FY_T_OUTPUT_B ? FY_CHUNK_HEAD : FY_CHUNK_EMBEDDING;
}

bool fy_chunk_holds(const fy_chunk_info *p, const fy_tensor_row *row, uint32_t layer)
{
    if (p->kind == FY_CHUNK_WHOLE)
        return true;
    return p->kind == fy_chunk_kind_of(row->slot) &&
           (p->kind != FY_CHUNK_LAYERS || (layer >= p->first_layer && layer < p->end_layer));
}

uint32_t fy_chunk_row_shape(const fy_chunk_info *p, const fy_hparams *hp, const fy_tensor_row *row,
                            uint64_t ne[FY_GGUF_MAX_DIMS])
{
    if (p->kind != FY_CHUNK_HEAD)
        return fy_row_shape(hp, row, ne);
    fy_hparams slice = *hp;
    slice.n_vocab = p->end_token - p->first_token;
    return fy_row_shape(&slice, row, ne);
}

bool fy_chunk_same_range(const fy_chunk_info *a, const fy_chunk_info *b)
{
    return a->kind == b->kind && a->first_layer == b->first_layer && a->end_layer == b->end_layer &&
           a->first_token == b->first_token && a->end_token == b->end_token;
}

const char *fy_cut_refusal(const fy_hparams *hp)
{
    if (hp->ssm_place == FY_SSM_DELTA)
        return "its gated delta nets have a state, which the graphs do not hold yet";
    if (hp->ssm_inner > 0)
        return "its Mamba-2 mixers have a state, which the graphs do not hold yet";
    if (hp->conv_len > 0)
        return "its short convolutions have a state, which the graphs do not hold yet";
    if (hp->n_embd_pl > 0)
        return "each layer gets a part of every token from a table (per-layer embeddings), which "
               "the "
               "graphs have no input for yet";
    if (!fy_layers_alike(hp))
        return "its layers differ in size or share keys and values, which the graphs do not have yet";
    if (hp->kv_lora_rank > 0)
        return "its attention is latent, which the graphs do not compute";
    if (hp->n_expert > 0)
        return "it is a mixture of experts: which weights a token needs is known only at run time, "
               "and the graphs of the NPU are fixed";
    if (hp->act == FY_ACT_SWIGLU_OAI)
        return "its feed-forward network is clamped (swiglu_oai), which the graphs do not compute";
    return NULL;
}

const char *fy_chunk_text(const fy_chunk_info *p, const fy_hparams *hp,
                          char out[FY_CHUNK_TEXT_BYTES])
{
    const bool sliced = p->kind == FY_CHUNK_HEAD && p->end_token - p->first_token < hp->n_vocab;
    if (p->kind == FY_CHUNK_LAYERS)
        snprintf(out, FY_CHUNK_TEXT_BYTES, "layers %u-%u", p->first_layer, p->end_layer - 1);
    else if (sliced)
        snprintf(out, FY_CHUNK_TEXT_BYTES, "lm_head, tokens %u-%u", p->first_token,
                 p->end_token - 1);
    else
        snprintf(out, FY_CHUNK_TEXT_BYTES, "%s",
                 p->kind == FY_CHUNK_HEAD        ? "lm_head"
                 : p->kind == FY_CHUNK_EMBEDDING ? "embedding"
                                                 : "the whole model");
    return out;
}
