/* The tensors of a graph: names, types, shapes, and what they add up to. */
#include "arch/graph_io.h"

#include <math.h>
#include <stdio.h>

#include "base/math.h"

enum { MOST_ONCE = FY_IO_V_FIRST_OUT + 1, F32_BYTES = 4, F16_BYTES = 2 };

/* Those of a layer and KV head are "layer_L_NAME_J", those of a state "stateI_NAME". */
static const char *const names[] = {
    [FY_IO_X] = "x",
    [FY_IO_BIAS] = "attn_bias",
    [FY_IO_BIAS_SWA] = "attn_bias_swa",
    [FY_IO_COS] = "rope_embed_cos",
    [FY_IO_SIN] = "rope_embed_sin",
    [FY_IO_COS_SWA] = "rope_embed_cos_swa",
    [FY_IO_SIN_SWA] = "rope_embed_sin_swa",
    [FY_IO_COS_Q] = "rope_embed_cos_q",
    [FY_IO_SIN_Q] = "rope_embed_sin_q",
    [FY_IO_V_FIRST] = "v_first_in",
    [FY_IO_TOKEN_MASK] = "token_mask",
    [FY_IO_TOKEN_LAST] = "token_last",
    [FY_IO_KEY_CACHE] = "key_t_cache",
    [FY_IO_VALUE_CACHE] = "value_cache",
    [FY_IO_STATE] = "in",
    [FY_IO_OUT] = "out",
    [FY_IO_LOGITS] = "logits",
    [FY_IO_V_FIRST_OUT] = "v_first_out",
    [FY_IO_KEY] = "key",
    [FY_IO_VALUE] = "value",
    [FY_IO_STATE_OUT] = "out",
};

bool fy_graph_has_states(const fy_hparams *hp)
{
    return hp->wkv_head > 0;
}

bool fy_layer_has_window(const fy_hparams *hp, uint32_t layer)
{
    return hp->n_swa > 0 && !fy_layer_in(&hp->full_layers, layer);
}

bool fy_layer_rotates(const fy_hparams *hp, uint32_t layer)
{
    return hp->n_rot > 0 && !fy_layer_in(&hp->nope_layers, layer);
}

float fy_attn_scale(const fy_hparams *hp)
{
    return hp->attn_scale != 0 ? hp->attn_scale : 1.0f / sqrtf((float)hp->head_dim);
}

float fy_npu_key_scale(const fy_hparams *hp)
{
    const float scale = fy_attn_scale(hp);
    return hp->attn_softcap != 0 ? scale / hp->attn_softcap : scale;
}

bool fy_npu_can_rotate_keys(const fy_hparams *hp)
{
    return (hp->head_dim & (hp->head_dim - 1)) == 0;
}

uint32_t fy_neighbour_of_half(const fy_hparams *hp, uint32_t i)
{
    const uint32_t half = hp->n_rot / 2;
    return i < hp->n_rot ? 2 * (i % half) + i / half : i;
}

/* What layers with states read and give beside them. Version 7 has values of the first layer. */
static void state_roles(const fy_graph_shape *g, bool has[MOST_ONCE])
{
    const fy_chunk_info *p = g->chunk;
    const bool is_7 = g->hp->n_rank_iclr > 0;
    has[FY_IO_V_FIRST] = is_7 && p->first_layer > 0;
    has[FY_IO_V_FIRST_OUT] = is_7 && p->first_layer == 0 && p->end_layer < g->hp->n_layer;
    has[FY_IO_TOKEN_LAST] = g->n_batch > 1;
    has[FY_IO_TOKEN_MASK] = g->n_batch > 1 || g->hp->n_rank_decay == 0;
}

/* Which roles of one tensor each the graph has, in order. */
static uint32_t once_roles(const fy_graph_shape *g, bool outputs, fy_io_role out[MOST_ONCE])
{
    bool has[MOST_ONCE] = {[FY_IO_X] = true};
    const bool states = fy_graph_has_states(g->hp);
    uint32_t n = 0;
    has[g->chunk->kind == FY_CHUNK_HEAD ? FY_IO_LOGITS : FY_IO_OUT] = true;
    if (states && g->chunk->kind == FY_CHUNK_LAYERS)
        state_roles(g, has);
    for (uint32_t l = g->chunk->first_layer; l < g->chunk->end_layer && !states; l++) {
        const bool window = fy_layer_has_window(g->hp, l);
        const bool own_turn = window && g->hp->rope_theta_swa != 0;
        has[window ? FY_IO_BIAS_SWA : FY_IO_BIAS] = true;
        if (!fy_layer_rotates(g->hp, l))
            continue;
        has[own_turn ? FY_IO_COS_SWA : FY_IO_COS] = true;
        has[own_turn ? FY_IO_SIN_SWA : FY_IO_SIN] = true;
        has[FY_IO_COS_Q] = has[FY_IO_SIN_Q] = g->hp->temp_scale != 0;
    }
    for (int r = 0; r < MOST_ONCE; r++) {
        if (has[r] && (r >= FY_IO_OUT) == outputs)
            out[n++] = (fy_io_role)r;
    }
    return n;
}

/* Tensors of a layer that go in, and as many out: of each KV head key and value, or the state's. */
static uint32_t of_a_layer(const fy_graph_shape *g)
{
    return fy_graph_has_states(g->hp) ? FY_STATE_PARTS : 2 * g->hp->n_head_kv;
}

static uint32_t of_layers(const fy_graph_shape *g)
{
    return (g->chunk->end_layer - g->chunk->first_layer) * of_a_layer(g);
}

uint32_t fy_graph_n_io(const fy_graph_shape *g)
{
    fy_io_role roles[MOST_ONCE];
    return once_roles(g, false, roles) + once_roles(g, true, roles) + 2 * of_layers(g);
}

/* Without their names: counting needs none. */
static fy_io_tensor once(const fy_graph_shape *g, fy_io_role role)
{
    const uint64_t cols[MOST_ONCE] = {
        [FY_IO_X] = g->hp->n_embd,
        [FY_IO_BIAS] = g->n_ctx,
        [FY_IO_BIAS_SWA] = g->n_ctx,
        [FY_IO_COS] = g->hp->n_rot / 2,
        [FY_IO_SIN] = g->hp->n_rot / 2,
        [FY_IO_COS_SWA] = g->hp->n_rot / 2,
        [FY_IO_SIN_SWA] = g->hp->n_rot / 2,
        [FY_IO_COS_Q] = g->hp->n_rot / 2,
        [FY_IO_SIN_Q] = g->hp->n_rot / 2,
        [FY_IO_V_FIRST] = g->hp->n_embd,
        [FY_IO_TOKEN_MASK] = 1,
        [FY_IO_TOKEN_LAST] = g->n_batch,
        [FY_IO_OUT] = g->hp->n_embd,
        [FY_IO_V_FIRST_OUT] = g->hp->n_embd,
        [FY_IO_LOGITS] = g->chunk->end_token - g->chunk->first_token,
    };
    const bool bias = role == FY_IO_BIAS || role == FY_IO_BIAS_SWA;
    fy_io_tensor t = {.role = role,
                      .element_bytes = bias ? F16_BYTES : F32_BYTES,
                      .rows = role == FY_IO_TOKEN_LAST ? 1 : g->n_batch,
                      .cols = cols[role]};
    return t;
}

static fy_io_tensor of_state(const fy_graph_shape *g, uint32_t i, bool outputs)
{
    const uint32_t part = i % FY_STATE_PARTS;
    const bool matrix = part == 1;
    return (fy_io_tensor){.role = outputs ? FY_IO_STATE_OUT : FY_IO_STATE,
                          .layer = g->chunk->first_layer + i / FY_STATE_PARTS,
                          .head = part,
                          .element_bytes = g->kv_bytes,
                          .rows = matrix ? g->hp->n_embd : 1,
                          .cols = matrix ? g->hp->wkv_head : g->hp->n_embd};
}

static fy_io_tensor of_head(const fy_graph_shape *g, uint32_t i, bool outputs)
{
    static const fy_io_role roles[2][2] = {{FY_IO_KEY_CACHE, FY_IO_VALUE_CACHE},
                                           {FY_IO_KEY, FY_IO_VALUE}};
    const bool value = i % 2 != 0;
    const uint64_t dim = value ? g->hp->head_dim_v : g->hp->head_dim;
    const uint64_t tokens = outputs ? g->n_batch : g->n_cache;
    const bool transposed = !outputs && !value;
    fy_io_tensor t = {.role = roles[outputs][value],
                      .layer = g->chunk->first_layer + i / 2 / g->hp->n_head_kv,
                      .head = i / 2 % g->hp->n_head_kv,
                      .element_bytes = g->kv_bytes,
                      .rows = transposed ? dim : tokens,
                      .cols = transposed ? tokens : dim};
    return t;
}

static fy_io_tensor of_layer(const fy_graph_shape *g, uint32_t i, bool outputs)
{
    return fy_graph_has_states(g->hp) ? of_state(g, i, outputs) : of_head(g, i, outputs);
}

static void name_of_layer(fy_io_tensor *t)
{
    if (t->role == FY_IO_STATE || t->role == FY_IO_STATE_OUT)
        snprintf(t->name, sizeof t->name, "state%u_%s", FY_STATE_PARTS * t->layer + t->head,
                 names[t->role]);
    else
        snprintf(t->name, sizeof t->name, "layer_%u_%s_%u", t->layer, names[t->role], t->head);
}

static fy_io_tensor named_once(const fy_graph_shape *g, fy_io_role role)
{
    fy_io_tensor t = once(g, role);
    snprintf(t.name, sizeof t.name, "%s", names[role]);
    return t;
}

bool fy_graph_seam(const fy_hparams *hp, const fy_chunk_info *chunk, bool outputs, uint32_t i,
                   fy_io_tensor *out)
{
    const fy_graph_shape g = {
        .hp = hp, .chunk = chunk, .n_batch = 2, .n_cache = 1, .n_ctx = 3, .kv_bytes = 2};
    fy_io_role roles[MOST_ONCE];
    if (i >= once_roles(&g, outputs, roles))
        return false;
    *out = named_once(&g, roles[i]);
    return true;
}

void fy_graph_io(const fy_graph_shape *g, uint32_t i, fy_io_tensor *out)
{
    fy_io_role roles[MOST_ONCE];
    for (int outputs = 0; outputs < 2; outputs++) {
        const uint32_t n = once_roles(g, outputs, roles);
        if (i < n) {
            *out = named_once(g, roles[i]);
            return;
        }
        i -= n;
        if (outputs == 0 && i >= of_layers(g)) {
            i -= of_layers(g);
            continue;
        }
        *out = of_layer(g, i, outputs);
        name_of_layer(out);
        return;
    }
}

static bool add_bytes(const fy_io_tensor *t, uint64_t times, uint64_t *sum)
{
    uint64_t n;
    return fy_mul_u64(t->rows, t->cols, &n) && fy_mul_u64(n, t->element_bytes, &n) &&
           fy_mul_u64(n, times, &n) && fy_add_u64(*sum, n, sum);
}

bool fy_graph_count(const fy_graph_shape *g, fy_graph_bytes *out)
{
    fy_graph_bytes sum = {0};
    for (int outputs = 0; outputs < 2; outputs++) {
        fy_io_role roles[MOST_ONCE];
        const uint32_t n = once_roles(g, outputs, roles);
        for (uint32_t i = 0; i < n; i++) {
            const fy_io_tensor t = once(g, roles[i]);
            if (!add_bytes(&t, 1, &sum.once))
                return false;
        }
        const bool states = fy_graph_has_states(g->hp); /* else the key and value of one head */
        for (uint32_t i = 0; i < (states ? FY_STATE_PARTS : 2); i++) {
            const fy_io_tensor t = of_layer(g, i, outputs);
            if (!add_bytes(&t, states ? 1 : g->hp->n_head_kv, &sum.layer))
                return false;
        }
        if (!outputs)
            sum.layer_cache = sum.layer;
    }
    *out = sum;
    return true;
}

bool fy_graph_io_bytes(const fy_graph_shape *g, uint64_t *bytes)
{
    fy_graph_bytes b;
    uint64_t layers;
    return fy_graph_count(g, &b) &&
           fy_mul_u64(b.layer, g->chunk->end_layer - g->chunk->first_layer, &layers) &&
           fy_add_u64(b.once, layers, bytes);
}
