/* Composes a layer of RWKV 5, 6 or 7: what model/rwkv_layer.c and backend/wkv.c compute. All
 * between the matrices is in 16-bit floats, whatever the recipe: decays lie close to 1, and a state
 * adds up the errors of a whole text.
 *
 * The recurrence is a few small products for each token, of all heads at once: a tensor of it is
 * [tokens, heads, rows, columns], and one of a token is cut out along the first axis. Of padding
 * keys and what is taken away are 0, and the decay is exp(0): the state stays what it was. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "workspace/npu/qgraph_impl.h"

/* Of a layer while it is composed. */
typedef struct {
    fy_q_composer *c;
    const fy_hparams *hp;
    uint32_t layer, rows, width, heads, n; /* n: elements of a head */
} mix;

static mix mix_of(fy_q_composer *c, uint32_t layer)
{
    const fy_hparams *hp = c->of->hp;
    return (mix){.c = c,
                 .hp = hp,
                 .layer = layer,
                 .rows = c->g->n_batch,
                 .width = hp->n_embd,
                 .heads = hp->n_embd / hp->wkv_head,
                 .n = hp->wkv_head};
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* c->name: "L3.r" */
static void call(const mix *b, const char *name)
{
    fy_q_name(b->c, "L%u.%s", b->layer, name);
}

/* A tensor of floats that no matrix reads, like x. */
static uint32_t like(const mix *b, uint32_t x, const char *name)
{
    const fy_q_tensor t = fy_q_at(b->c, x);
    call(b, name);
    return fy_q_inner(b->c, FY_QC_PLAIN, b->c->g->core, fy_q_rows(&t), fy_q_cols(&t), FY_Q_NONE);
}

static uint32_t unary(const mix *b, fy_q_op op, uint32_t x, const char *name)
{
    const uint32_t y = like(b, x, name);
    FY_Q_ADD_NODE(b->c, op, y, x);
    return y;
}

/* x op y of x's shape; y may be narrower. */
static uint32_t binary(const mix *b, fy_q_op op, uint32_t x, uint32_t y, const char *name)
{
    const uint32_t z = like(b, x, name);
    FY_Q_ADD_NODE(b->c, op, z, x, y);
    return z;
}

/* The same, for a matrix to read: it has a range. */
static uint32_t binary_read(const mix *b, fy_q_op op, uint32_t x, uint32_t y, const char *name)
{
    const fy_q_tensor t = fy_q_at(b->c, x);
    call(b, name);
    const uint32_t z = fy_q_act(b->c, fy_q_rows(&t), fy_q_cols(&t));
    FY_Q_ADD_NODE(b->c, op, z, x, y);
    return z;
}

/* A tensor of [tokens, heads, rows, cols]. */
static uint32_t shaped(const mix *b, const uint32_t dims[4], const char *name)
{
    fy_q_composer *c = b->c;
    call(b, name);
    const uint32_t z = fy_q_inner(c, FY_QC_PLAIN, c->g->core, dims[2], dims[3], FY_Q_NONE);
    if (!c->failed)
        memcpy(c->g->tensors[z].dims, dims, sizeof c->g->tensors[z].dims);
    return z;
}

/* What an operation on x and y makes. */
static uint32_t of_heads(const mix *b, fy_q_op op, uint32_t x, uint32_t y, const uint32_t dims[4],
                         const char *name)
{
    const uint32_t z = shaped(b, dims, name);
    FY_Q_ADD_NODE(b->c, op, z, x, y);
    return z;
}

/* x [1, 1, B, width] as [B, heads, 1, n], or its heads as columns. */
static uint32_t as_heads(const mix *b, uint32_t x, bool columns, const char *name)
{
    const uint32_t dims[4] = {b->rows, b->heads, columns ? b->n : 1, columns ? 1 : b->n};
    call(b, name);
    return fy_q_reshape_to(b->c, x, 4, dims);
}

static uint32_t as_rows(const mix *b, uint32_t x, const char *name)
{
    const uint32_t dims[4] = {1, 1, b->rows, b->width};
    call(b, name);
    return fy_q_reshape_to(b->c, x, 4, dims);
}

/* --- values of the model ---------------------------------------------------------------------- */

/* plus + scale * a vector of the layer (-exp of it). */
static uint32_t vector_with(const mix *b, fy_slot slot, float scale, float plus, bool neg_exp,
                            const char *name)
{
    fy_q_static from = fy_q_values_of(slot, b->layer, b->width, scale);
    char full[64];
    from.plus = plus;
    from.neg_exp = neg_exp;
    fy_q_name(b->c, "blk.%u.%s", b->layer, name);
    memcpy(full, b->c->name, sizeof full);
    return fy_q_vector(b->c, full, FY_QC_GAMMA, b->c->g->core, b->width, &from);
}

static uint32_t vector(const mix *b, fy_slot slot, const char *name)
{
    return vector_with(b, slot, 1, 0, false, name);
}

/* Rows [first, first + n_out) of a matrix of the layer; part: which one, FY_Q_NONE: the only one.
 */
static uint32_t product_of(const mix *b, uint32_t x, fy_slot slot, fy_slot bias, uint32_t part,
                           uint32_t n_out, const char *name)
{
    const fy_q_linear l = {.slot = slot,
                           .bias = bias,
                           .layer = b->layer,
                           .head = part,
                           .first = part != FY_Q_NONE ? part * n_out : 0,
                           .n = n_out,
                           .scale = 1};
    call(b, name);
    return fy_q_product(b->c, (fy_q_stream){x, FY_T_COUNT}, &l);
}

static uint32_t product(const mix *b, uint32_t x, fy_slot slot, uint32_t n_out, const char *name)
{
    return product_of(b, x, slot, FY_T_COUNT, FY_Q_NONE, n_out, name);
}

/* Two matrices of low rank, with what stands between them (FY_Q_OP_COUNT: nothing). */
static uint32_t low_rank(const mix *b, uint32_t x, fy_slot first, fy_q_op between, fy_slot second,
                         fy_slot bias, uint32_t rank, const char *name)
{
    char low[32];
    snprintf(low, sizeof low, "%s.low", name);
    uint32_t y = product(b, x, first, rank, low);
    if (between != FY_Q_OP_COUNT) {
        snprintf(low, sizeof low, "%s.squashed", name);
        call(b, low);
        const uint32_t squashed = fy_q_act(b->c, b->rows, rank);
        FY_Q_ADD_NODE(b->c, between, squashed, y);
        y = squashed;
    }
    return product_of(b, y, second, bias, FY_Q_NONE, b->width, name);
}

/* --- the norm, and the token before ----------------------------------------------------------- */

static uint32_t norm(const mix *b, uint32_t x, fy_slot gamma, fy_slot beta, const char *name)
{
    fy_q_composer *c = b->c;
    char g[48], z[48];
    snprintf(g, sizeof g, "%s.weight", name);
    snprintf(z, sizeof z, "%s.bias", name);
    const uint32_t w = vector(b, gamma, g), bias = vector(b, beta, z), y = like(b, x, name);
    FY_Q_ADD_NODE(c, FY_Q_LAYER_NORM, y, x, w, bias)->eps = b->hp->norm_eps;
    return y;
}

/* Of a layer's state in the border: the number of a part. */
static uint32_t state(const mix *b, fy_io_role role, uint32_t part)
{
    return b->c->first[role] + (b->layer - b->c->of->chunk->first_layer) * FY_STATE_PARTS + part;
}

/* h of the token before less h of the token; the last h becomes the state. */
static uint32_t shift(const mix *b, uint32_t h, uint32_t part, const char *name)
{
    fy_q_composer *c = b->c;
    const uint32_t one[4] = {1, 1, 1, b->width}, all[4] = {1, 1, b->rows, b->width};
    char text[32];
    snprintf(text, sizeof text, "%s.before", name);
    call(b, text);
    uint32_t before = fy_q_reshape_to(c, state(b, FY_IO_STATE, part), 4, one), last = h;
    if (b->rows > 1) {
        snprintf(text, sizeof text, "%s.others", name);
        call(b, text);
        const uint32_t others = fy_q_slice_of(c, h, 2, 0, b->rows - 1);
        snprintf(text, sizeof text, "%s.all_before", name);
        const uint32_t joined = shaped(b, all, text);
        FY_Q_ADD_NODE(c, FY_Q_CONCAT, joined, before, others)->axis = 2;
        before = joined;
        snprintf(text, sizeof text, "%s.last", name);
        last = of_heads(b, FY_Q_MATMUL, c->token_last, h, one, text);
    }
    FY_Q_ADD_NODE(c, FY_Q_RESHAPE, state(b, FY_IO_STATE_OUT, part), last);
    snprintf(text, sizeof text, "%s.dx", name);
    return binary(b, FY_Q_SUBTRACT, before, h, text);
}

/* h + dx * (lerp + more): what a matrix reads. more: FY_Q_NONE: nothing. */
static uint32_t moved(const mix *b, uint32_t h, uint32_t dx, fy_slot lerp, uint32_t more,
                      const char *matrix, const char *letter)
{
    char text[48];
    snprintf(text, sizeof text, "%s_lerp_%s.weight", matrix, letter);
    uint32_t by = vector(b, lerp, text);
    if (more != FY_Q_NONE) {
        snprintf(text, sizeof text, "%s.%s.by", matrix, letter);
        by = binary(b, FY_Q_ADD, more, by, text);
    }
    snprintf(text, sizeof text, "%s.%s.step", matrix, letter);
    const uint32_t step = binary(b, FY_Q_MULTIPLY, dx, by, text);
    snprintf(text, sizeof text, "%s.%s.in", matrix, letter);
    return binary_read(b, FY_Q_ADD, h, step, text);
}

#define TIME    "time_mix"
#define CHANNEL "channel_mix"

/* --- what the recurrence reads ---------------------------------------------------------------- */

typedef struct {
    uint32_t r, k, v, gate; /* gate FY_Q_NONE: there is none */
    uint32_t exponent;      /* decay = exp(this), 0 of padding */
    uint32_t first;         /* vector: what the token itself counts, before the norm, or after */
    uint32_t length, taken; /* of version 7: kk of length 1, and kk * a; [B, heads, 1, n] */
} inputs;

/* What padding does not change, which is 0 then. */
static uint32_t masked(const mix *b, uint32_t x, const char *name)
{
    return b->c->token_mask != FY_Q_NONE ? binary(b, FY_Q_MULTIPLY, x, b->c->token_mask, name) : x;
}

/* v + (v of the first layer - v) * share */
static uint32_t with_first_values(const mix *b, uint32_t v, uint32_t in)
{
    fy_q_composer *c = b->c;
    if (b->layer == 0) {
        c->v_first = v;
        if (c->first[FY_IO_V_FIRST_OUT] != FY_Q_NONE)
            fy_q_give(c, v, FY_IO_V_FIRST_OUT);
        return v;
    }
    const uint32_t share = low_rank(b, in, FY_T_MIX_VALUE_1, FY_Q_OP_COUNT, FY_T_MIX_VALUE_2,
                                    FY_T_MIX_VALUE_0, b->hp->n_rank_value, TIME ".v_share");
    const uint32_t part = unary(b, FY_Q_SIGMOID, share, TIME ".v_part");
    const uint32_t more = binary(b, FY_Q_SUBTRACT, c->v_first, v, TIME ".v_more");
    const uint32_t step = binary(b, FY_Q_MULTIPLY, more, part, TIME ".v_step");
    return binary(b, FY_Q_ADD, v, step, TIME ".v_all");
}

/* kk of length 1, kk * a, and k * (1 + (a - 1) k_a). */
static void keys_7(const mix *b, uint32_t a, inputs *q)
{
    fy_q_composer *c = b->c;
    const uint32_t heads[4] = {b->rows, b->heads, 1, b->n};
    const uint32_t k_k = vector(b, FY_T_MIX_K_K, TIME "_k_k.weight");
    const uint32_t k_a = vector(b, FY_T_MIX_K_A, TIME "_k_a.weight");
    const uint32_t rest = vector_with(b, FY_T_MIX_K_A, -1, 1, false, TIME "_k_a.rest");
    const uint32_t kk =
        as_heads(b, binary(b, FY_Q_MULTIPLY, q->k, k_k, TIME ".kk"), false, TIME ".kk_heads");
    q->length = shaped(b, heads, TIME ".kk_unit");
    FY_Q_ADD_NODE(c, FY_Q_RMS_NORM, q->length, kk, c->unit, c->zeros)->eps = 1e-7F; /* of f16 */
    const uint32_t am = masked(b, a, TIME ".a_masked");
    q->taken = of_heads(b, FY_Q_MULTIPLY, q->length, as_heads(b, am, false, TIME ".a_heads"), heads,
                        TIME ".taken");
    const uint32_t by =
        binary(b, FY_Q_ADD, binary(b, FY_Q_MULTIPLY, a, k_a, TIME ".k_by"), rest, TIME ".k_factor");
    q->k = binary(b, FY_Q_MULTIPLY, q->k, by, TIME ".k_all");
}

static inputs inputs_7(const mix *b, uint32_t h, uint32_t dx)
{
    const fy_hparams *hp = b->hp;
    fy_q_composer *c = b->c;
    uint32_t in = moved(b, h, dx, FY_T_MIX_LERP_R, FY_Q_NONE, TIME, "r");
    inputs q = {.r = product(b, in, FY_T_MIX_R, b->width, TIME ".r")};
    in = moved(b, h, dx, FY_T_MIX_LERP_W, FY_Q_NONE, TIME, "w");
    const uint32_t d = low_rank(b, in, FY_T_MIX_DECAY_1, FY_Q_TANH, FY_T_MIX_DECAY_2,
                                FY_T_MIX_DECAY, hp->n_rank_decay, TIME ".w");
    in = moved(b, h, dx, FY_T_MIX_LERP_K, FY_Q_NONE, TIME, "k");
    q.k = product(b, in, FY_T_MIX_K, b->width, TIME ".k");
    in = moved(b, h, dx, FY_T_MIX_LERP_V, FY_Q_NONE, TIME, "v");
    q.v = with_first_values(b, product(b, in, FY_T_MIX_V, b->width, TIME ".v"), in);
    in = moved(b, h, dx, FY_T_MIX_LERP_A, FY_Q_NONE, TIME, "a");
    const uint32_t a = low_rank(b, in, FY_T_MIX_ICLR_1, FY_Q_OP_COUNT, FY_T_MIX_ICLR_2,
                                FY_T_MIX_ICLR, hp->n_rank_iclr, TIME ".a");
    in = moved(b, h, dx, FY_T_MIX_LERP_G, FY_Q_NONE, TIME, "g");
    q.gate = low_rank(b, in, FY_T_MIX_GATE_1, FY_Q_SIGMOID, FY_T_MIX_GATE_2, FY_T_COUNT,
                      hp->n_rank_gate, TIME ".g");
    const uint32_t fast = masked(b, unary(b, FY_Q_SIGMOID, d, TIME ".w_fast"), TIME ".w_masked");
    q.exponent = binary(b, FY_Q_MULTIPLY, fast, c->rate, TIME ".w_exponent");
    q.first = vector(b, FY_T_MIX_R_K, TIME "_r_k.weight");
    keys_7(b, unary(b, FY_Q_SIGMOID, a, TIME ".a_rate"), &q);
    return q;
}

static uint32_t silu(const mix *b, uint32_t x)
{
    return binary(b, FY_Q_MULTIPLY, x, unary(b, FY_Q_SIGMOID, x, TIME ".g_sigmoid"),
                  TIME ".g_silu");
}

/* Input number i of w, k, v, r, g: what the tokens add to the lerp comes from columns of `five`. */
static uint32_t moved_6(const mix *b, uint32_t h, uint32_t dx, uint32_t five, uint32_t i)
{
    static const char *const letters[] = {"w", "k", "v", "r", "g"};
    static const fy_slot lerps[] = {FY_T_MIX_LERP_W, FY_T_MIX_LERP_K, FY_T_MIX_LERP_V,
                                    FY_T_MIX_LERP_R, FY_T_MIX_LERP_G};
    const uint32_t rank = b->hp->n_rank_mix;
    char text[32];
    snprintf(text, sizeof text, TIME ".%s.of_five", letters[i]);
    call(b, text);
    const uint32_t low = fy_q_slice(b->c, five, i * rank, (i + 1) * rank);
    snprintf(text, sizeof text, TIME ".%s.more", letters[i]);
    const uint32_t more = product_of(b, low, FY_T_MIX_W2, FY_T_COUNT, i, b->width, text);
    return moved(b, h, dx, lerps[i], more, TIME, letters[i]);
}

static inputs inputs_6(const mix *b, uint32_t h, uint32_t dx)
{
    const fy_hparams *hp = b->hp;
    fy_q_composer *c = b->c;
    const uint32_t in = moved(b, h, dx, FY_T_MIX_LERP_X, FY_Q_NONE, TIME, "x");
    const uint32_t low = product(b, in, FY_T_MIX_W1, 5 * hp->n_rank_mix, TIME ".five");
    call(b, TIME ".five.squashed");
    const uint32_t five = fy_q_act(c, b->rows, 5 * hp->n_rank_mix);
    FY_Q_ADD_NODE(c, FY_Q_TANH, five, low);
    const uint32_t d = low_rank(b, moved_6(b, h, dx, five, 0), FY_T_MIX_DECAY_1, FY_Q_TANH,
                                FY_T_MIX_DECAY_2, FY_T_MIX_DECAY, hp->n_rank_decay, TIME ".w");
    inputs q = {.length = FY_Q_NONE};
    q.k = product(b, moved_6(b, h, dx, five, 1), FY_T_MIX_K, b->width, TIME ".k");
    q.v = product(b, moved_6(b, h, dx, five, 2), FY_T_MIX_V, b->width, TIME ".v");
    q.r = product(b, moved_6(b, h, dx, five, 3), FY_T_MIX_R, b->width, TIME ".r");
    q.gate = silu(b, product(b, moved_6(b, h, dx, five, 4), FY_T_MIX_G, b->width, TIME ".g"));
    const uint32_t fast = masked(b, unary(b, FY_Q_EXP, d, TIME ".w_fast"), TIME ".w_masked");
    q.exponent = unary(b, FY_Q_NEG, fast, TIME ".w_exponent");
    q.first = vector(b, FY_T_MIX_FIRST, TIME "_first.weight");
    return q;
}

static inputs inputs_5(const mix *b, uint32_t h, uint32_t dx)
{
    inputs q = {.length = FY_Q_NONE, .gate = FY_Q_NONE};
    q.r = product(b, moved(b, h, dx, FY_T_MIX_LERP_R, FY_Q_NONE, TIME, "r"), FY_T_MIX_R, b->width,
                  TIME ".r");
    q.k = product(b, moved(b, h, dx, FY_T_MIX_LERP_K, FY_Q_NONE, TIME, "k"), FY_T_MIX_K, b->width,
                  TIME ".k");
    q.v = product(b, moved(b, h, dx, FY_T_MIX_LERP_V, FY_Q_NONE, TIME, "v"), FY_T_MIX_V, b->width,
                  TIME ".v");
    if (fy_q_has(b->c, FY_T_MIX_G, b->layer)) /* 5.0 has no gate */
        q.gate = silu(b, product(b, moved(b, h, dx, FY_T_MIX_LERP_G, FY_Q_NONE, TIME, "g"),
                                 FY_T_MIX_G, b->width, TIME ".g"));
    const uint32_t fixed = vector_with(b, FY_T_MIX_DECAY, 1, 0, true, TIME "_decay.exponent");
    const uint32_t rows[4] = {1, 1, b->rows, b->width}; /* the same for every token but padding */
    q.exponent = of_heads(b, FY_Q_MULTIPLY, b->c->token_mask, fixed, rows, TIME ".w_exponent");
    q.first = vector(b, FY_T_MIX_FIRST, TIME "_first.weight");
    return q;
}

/* --- the recurrence --------------------------------------------------------------------------- */

/* What one token reads: rows [1, heads, 1, n] and columns [1, heads, n, 1]. */
typedef struct {
    uint32_t r, v, length;    /* rows */
    uint32_t decay, k, taken; /* columns */
} token;

static uint32_t of_token(const mix *b, uint32_t x, uint32_t t, const char *name)
{
    char text[32];
    if (b->rows == 1 || x == FY_Q_NONE)
        return x;
    snprintf(text, sizeof text, TIME ".t%u.%s", t, name);
    call(b, text);
    return fy_q_slice_of(b->c, x, 0, t, t + 1);
}

static const char *text_of(char text[32], uint32_t t, const char *name)
{
    snprintf(text, 32, TIME ".t%u.%s", t, name);
    return text;
}

/* The state after the token; *y: what its query reads. Versions 5 and 6 read the state before, as
 * the token itself counts differently there. */
static uint32_t step(const mix *b, uint32_t t, const token *q, uint32_t s, uint32_t *y)
{
    const uint32_t row[4] = {1, b->heads, 1, b->n}, matrix[4] = {1, b->heads, b->n, b->n};
    char text[32];
    const bool is_7 = q->length != FY_Q_NONE;
    uint32_t lost = FY_Q_NONE;
    if (is_7) {
        const uint32_t at = of_heads(b, FY_Q_MATMUL, q->length, s, row, text_of(text, t, "at_kk"));
        lost = of_heads(b, FY_Q_MATMUL, q->taken, at, matrix, text_of(text, t, "lost"));
    } else {
        *y = of_heads(b, FY_Q_MATMUL, q->r, s, row, text_of(text, t, "y"));
    }
    const uint32_t kv = of_heads(b, FY_Q_MATMUL, q->k, q->v, matrix, text_of(text, t, "kv"));
    s = of_heads(b, FY_Q_MULTIPLY, s, q->decay, matrix, text_of(text, t, "kept"));
    s = of_heads(b, FY_Q_ADD, s, kv, matrix, text_of(text, t, is_7 ? "more" : "state"));
    if (is_7) {
        s = of_heads(b, FY_Q_SUBTRACT, s, lost, matrix, text_of(text, t, "state"));
        *y = of_heads(b, FY_Q_MATMUL, q->r, s, row, text_of(text, t, "y"));
    }
    return s;
}

/* y of all tokens [B, heads, 1, n]; the state goes out. */
static uint32_t recurrence(const mix *b, const token *all)
{
    fy_q_composer *c = b->c;
    const uint32_t matrix[4] = {1, b->heads, b->n, b->n};
    const uint32_t dims[4] = {b->rows, b->heads, 1, b->n};
    uint32_t y[FY_STATE_BATCH_MAX];
    call(b, TIME ".state");
    uint32_t s = fy_q_reshape_to(c, state(b, FY_IO_STATE, 1), 4, matrix);
    for (uint32_t t = 0; t < b->rows && !c->failed; t++) {
        const token one = {.r = of_token(b, all->r, t, "r"),
                           .v = of_token(b, all->v, t, "v"),
                           .length = of_token(b, all->length, t, "kk"),
                           .decay = of_token(b, all->decay, t, "w"),
                           .k = of_token(b, all->k, t, "k"),
                           .taken = of_token(b, all->taken, t, "b")};
        s = step(b, t, &one, s, &y[t]);
    }
    FY_Q_ADD_NODE(c, FY_Q_RESHAPE, state(b, FY_IO_STATE_OUT, 1), s);
    if (b->rows == 1 || c->failed)
        return y[0];
    const uint32_t joined = shaped(b, dims, TIME ".y");
    fy_q_add(c, FY_Q_CONCAT, joined, y, b->rows)->axis = 0;
    return joined;
}

/* norm of each head, with a weight and a bias for each channel. */
static uint32_t norm_heads(const mix *b, uint32_t y)
{
    fy_q_composer *c = b->c;
    const uint32_t dims[4] = {b->rows, b->heads, 1, b->n};
    const uint32_t z = shaped(b, dims, TIME ".normed");
    FY_Q_ADD_NODE(c, FY_Q_LAYER_NORM, z, y, c->ones, c->zeros)->eps = b->hp->group_eps;
    const uint32_t rows = as_rows(b, z, TIME ".normed_rows");
    const uint32_t w = vector(b, FY_T_MIX_NORM, TIME "_ln.weight");
    return binary(b, FY_Q_MULTIPLY, rows, w, TIME ".normed_w");
}

/* What a matrix reads of the heads: normed, and times the gate. */
static uint32_t read_heads(const mix *b, uint32_t y, uint32_t own, const inputs *q)
{
    const uint32_t bias = vector(b, FY_T_MIX_NORM_B, TIME "_ln.bias");
    const bool is_7 = q->length != FY_Q_NONE;
    uint32_t dims[4] = {b->rows, b->heads, 1, b->n};
    if (!is_7)
        y = of_heads(b, FY_Q_ADD, y, own, dims, TIME ".y_own");
    y = norm_heads(b, y);
    if (!is_7 && q->gate == FY_Q_NONE)
        return binary_read(b, FY_Q_ADD, y, bias, TIME ".read");
    y = binary(b, FY_Q_ADD, y, bias, TIME ".y_biased");
    if (is_7)
        y = binary(b, FY_Q_ADD, y, as_rows(b, own, TIME ".own_rows"), TIME ".y_own");
    return binary_read(b, FY_Q_MULTIPLY, y, q->gate, TIME ".read");
}

static uint32_t time_mix(const mix *b, uint32_t x)
{
    const uint32_t h = norm(b, x, FY_T_ATTN_NORM, FY_T_ATTN_NORM_B, "attn_norm");
    const uint32_t dx = shift(b, h, 0, TIME);
    const inputs q = b->hp->n_rank_iclr > 0  ? inputs_7(b, h, dx)
                     : b->hp->n_rank_mix > 0 ? inputs_6(b, h, dx)
                                             : inputs_5(b, h, dx);
    const uint32_t decay = unary(b, FY_Q_EXP, q.exponent, TIME ".decay");
    const uint32_t rk = binary(b, FY_Q_MULTIPLY, q.r, q.first, TIME ".r_first");
    const uint32_t km = masked(b, q.k, TIME ".k_masked");
    uint32_t taken = FY_Q_NONE;
    if (q.length != FY_Q_NONE)
        taken = as_heads(b, q.taken, true, TIME ".taken_columns");
    const token all = {.r = as_heads(b, q.r, false, TIME ".r_heads"),
                       .v = as_heads(b, q.v, false, TIME ".v_heads"),
                       .length = q.length,
                       .decay = as_heads(b, decay, true, TIME ".decay_columns"),
                       .k = as_heads(b, km, true, TIME ".k_columns"),
                       .taken = taken};
    const uint32_t y = recurrence(b, &all);
    const uint32_t number[4] = {b->rows, b->heads, 1, 1}, dims[4] = {b->rows, b->heads, 1, b->n};
    const uint32_t dot = of_heads(b, FY_Q_MATMUL, as_heads(b, rk, false, TIME ".r_first_heads"),
                                  all.k, number, TIME ".own_share");
    const uint32_t own = of_heads(b, FY_Q_MULTIPLY, all.v, dot, dims, TIME ".own");
    return product(b, read_heads(b, y, own, &q), FY_T_MIX_OUT, b->width, TIME ".output");
}

/* --- the channel mix, and the layer ----------------------------------------------------------- */

static uint32_t channel_mix(const mix *b, uint32_t x)
{
    const uint32_t h = norm(b, x, FY_T_FFN_NORM, FY_T_FFN_NORM_B, "attn_norm_2");
    const uint32_t dx = shift(b, h, 2, CHANNEL);
    const uint32_t in = moved(b, h, dx, FY_T_FFN_LERP_K, FY_Q_NONE, CHANNEL, "k");
    const uint32_t k = product(b, in, FY_T_FFN_UP, b->hp->n_ff, CHANNEL ".k");
    const uint32_t relu = unary(b, FY_Q_RELU, k, CHANNEL ".relu");
    const uint32_t square = binary_read(b, FY_Q_MULTIPLY, relu, relu, CHANNEL ".square");
    const uint32_t y = product(b, square, FY_T_FFN_DOWN, b->width, CHANNEL ".v");
    if (!fy_q_has(b->c, FY_T_FFN_R, b->layer))
        return y;
    const uint32_t in_r = moved(b, h, dx, FY_T_FFN_LERP_R, FY_Q_NONE, CHANNEL, "r");
    const uint32_t r = product(b, in_r, FY_T_FFN_R, b->width, CHANNEL ".r");
    return binary(b, FY_Q_MULTIPLY, y, unary(b, FY_Q_SIGMOID, r, CHANNEL ".r_sigmoid"),
                  CHANNEL ".gated");
}

uint32_t fy_q_rwkv_layer(fy_q_composer *c, uint32_t layer, uint32_t x)
{
    const mix b = mix_of(c, layer);
    const uint32_t every = b.hp->rescale_every;
    x = binary(&b, FY_Q_ADD, x, time_mix(&b, x), "mid");
    x = binary_read(&b, FY_Q_ADD, x, channel_mix(&b, x), "out");
    if (every == 0 || (layer + 1) % every != 0)
        return x;
    if (c->half == FY_Q_NONE)
        c->half = fy_q_const(c, "half", 0.5F, FY_Q_NONE);
    return binary(&b, FY_Q_MULTIPLY, x, c->half, "out_half");
}

/* n elements of that value. */
static uint32_t same_values(fy_q_composer *c, const char *name, uint32_t n, float value)
{
    fy_q_static from = fy_q_values_of(FY_T_COUNT, 0, n, 1);
    from.value = value;
    return fy_q_vector(c, name, FY_QC_GAMMA, c->g->core, n, &from);
}

void fy_q_begin_states(fy_q_composer *c)
{
    const fy_hparams *hp = c->of->hp;
    c->half = FY_Q_NONE;
    c->ones = same_values(c, "ones", hp->wkv_head, 1);
    c->zeros = same_values(c, "zeros", hp->wkv_head, 0);
    if (hp->n_rank_iclr > 0) {
        c->rate = fy_q_const(c, "decay_rate", -0.60653066F, FY_Q_NONE); /* -exp(-1/2) */
        c->unit = same_values(c, "unit", hp->wkv_head, 1 / sqrtf((float)hp->wkv_head));
    }
    fy_q_name(c, "token_mask");
    if (c->first[FY_IO_TOKEN_MASK] != FY_Q_NONE)
        c->token_mask = fy_q_take(c, FY_IO_TOKEN_MASK);
    fy_q_name(c, "token_last");
    if (c->first[FY_IO_TOKEN_LAST] != FY_Q_NONE)
        c->token_last = fy_q_take(c, FY_IO_TOKEN_LAST);
    fy_q_name(c, "v_first");
    if (c->first[FY_IO_V_FIRST] != FY_Q_NONE)
        c->v_first = fy_q_take(c, FY_IO_V_FIRST);
}
