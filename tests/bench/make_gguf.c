/* Writes a GGUF file with random weights, for measurements: any family, type and size, with a
 * tokenizer of bytes and filler words that llama.cpp loads too. The same options give the same
 * bytes; memory does not grow with the model.
 *
 *   make_gguf OUT.gguf [--arch llama] [--type q4_0] [--layers N] ...       (--help lists them)
 *
 * Speed depends on shapes, not on values: block types get random quants below fixed scales, so that
 * a weight is about as large (0.02) as those of a trained model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/opts.h"
#include "format/gguf_write.h"
#include "tests/kcheck/kernel_check.h"
#include "kernels/row.h"

typedef struct {
    const char *arch, *type;
    int64_t layers, embd, ff, heads, heads_kv, head_dim, vocab, ctx, window;
    int64_t experts, experts_used, ff_exp, seed;
    int64_t heads_delta, values; /* of a delta net: heads, and elements of one */
    uint32_t
        attention; /* bit i: layer i of every 16 has attention; of families that mix otherwise */
    double threshold, zeros;
    int64_t predictor;
    double recall;
    bool untied, transpose_down;
} options;

#define NUMBER(name_, field, max_, help_)                                                       \
    {                                                                                           \
        .group = "Shape", .name = name_, .kind = FY_OPT_INT, .arg = "N", .min = 0, .max = max_, \
        .offset = offsetof(options, field), .help = help_, .def = "0"                           \
    }

static const fy_opt opts[] = {
    {.group = "Model",
     .name = "arch",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = offsetof(options, arch),
     .def = "llama",
     .help = "Family, by its own name or by that of its GGUF architecture."},
    {.group = "Model",
     .name = "type",
     .kind = FY_OPT_STR,
     .arg = "TYPE",
     .offset = offsetof(options, type),
     .def = "q4_0",
     .help = "Type of every matrix."},
    {.group = "Model",
     .name = "seed",
     .kind = FY_OPT_INT,
     .arg = "N",
     .min = 0,
     .max = 1e15,
     .offset = offsetof(options, seed),
     .def = "1",
     .help = "Other numbers, other weights."},
    {.group = "Model",
     .name = "untied",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, untied),
     .help = "An output matrix of its own instead of the embedding."},
    {.group = "Model",
     .name = "threshold",
     .kind = FY_OPT_FLOAT,
     .arg = "X",
     .min = 0,
     .max = 100,
     .offset = offsetof(options, threshold),
     .help = "The feed-forward's gate is ReLU that passes what is above X."},
    {.group = "Model",
     .name = "zeros",
     .kind = FY_OPT_FLOAT,
     .arg = "PERCENT",
     .min = 1,
     .max = 99.9,
     .offset = offsetof(options, zeros),
     .help = "Instead of --threshold: so many of 100 activations are 0."},
    {.group = "Model",
     .name = "transpose-down",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, transpose_down),
     .help = "ffn_down_t instead of ffn_down."},
    {.group = "Model",
     .name = "predictor",
     .kind = FY_OPT_INT,
     .arg = "RANK",
     .min = 0,
     .max = 1 << 20,
     .offset = offsetof(options, predictor),
     .def = "0",
     .help = "With --zeros and --transpose-down: predictors of this rank, a multiple of 64, that "
             "keep a quarter more neurons than are not 0."},
    {.group = "Model",
     .name = "recall",
     .kind = FY_OPT_FLOAT,
     .arg = "PERCENT",
     .min = 1,
     .max = 99.9,
     .offset = offsetof(options, recall),
     .def = "98",
     .help = "So many of 100 neurons that are not 0 are among those kept."},
    NUMBER("layers", layers, FY_N_LAYER_MAX, "Layers; 0 here and below: what the preset says."),
    NUMBER("embd", embd, 1 << 20, "Width."),
    NUMBER("ff", ff, 1 << 24, "Width of the feed-forward."),
    NUMBER("heads", heads, 4096, "Heads of attention."),
    NUMBER("heads-kv", heads_kv, 4096, "Heads of keys and values."),
    NUMBER("head-dim", head_dim, 4096, "Elements of a head."),
    NUMBER("vocab", vocab, 1 << 24, "Tokens."),
    NUMBER("ctx", ctx, 1 << 24, "Positions that the model was trained with."),
    NUMBER("window", window, 1 << 24, "Positions that a token sees, of a family with a window."),
    NUMBER("experts", experts, 4096, "Experts of a layer."),
    NUMBER("experts-used", experts_used, 4096, "Experts of a token."),
    NUMBER("ff-exp", ff_exp, 1 << 24, "Width of an expert."),
};
enum { N_OPTS = sizeof opts / sizeof opts[0] };

/* The first is what a family without a preset has; most are 0.7 GB as q4_0. */
static const struct {
    const char *arch;
    options o;
} presets[] = {
    {"llama", /* Llama 3.2 1B */
     {.layers = 16,
      .embd = 2048,
      .ff = 8192,
      .heads = 32,
      .heads_kv = 8,
      .head_dim = 64,
      .vocab = 128256,
      .ctx = 131072}},
    {"mistral", /* Mistral 7B but for its depth of 32 */
     {.layers = 8,
      .embd = 4096,
      .ff = 14336,
      .heads = 32,
      .heads_kv = 8,
      .head_dim = 128,
      .vocab = 32000,
      .ctx = 32768}},
    {"sparsellama", /* a ninth of the gate passes, as in ProSparse */
     {.layers = 16,
      .embd = 2048,
      .ff = 8192,
      .heads = 32,
      .heads_kv = 8,
      .head_dim = 64,
      .vocab = 128256,
      .ctx = 131072,
      .threshold = 1.1}},
    {"qwen3moe",
     {.layers = 16,
      .embd = 1024,
      .ff = 3072,
      .heads = 16,
      .heads_kv = 4,
      .head_dim = 64,
      .vocab = 32000,
      .ctx = 131072,
      .experts = 32,
      .experts_used = 4,
      .ff_exp = 704}},
    {"smallthinker", /* 4B-A0.6B: 2.3 GB */
     {.layers = 32,
      .embd = 1536,
      .ff = 768,
      .heads = 12,
      .heads_kv = 2,
      .head_dim = 128,
      .vocab = 151936,
      .ctx = 32768,
      .experts = 32,
      .experts_used = 4,
      .ff_exp = 768}},
    {"lfm2", /* LFM2 1.2B */
     {.layers = 16,
      .embd = 2048,
      .ff = 8192,
      .heads = 32,
      .heads_kv = 8,
      .head_dim = 64,
      .vocab = 65536,
      .ctx = 128000,
      .attention = 1u << 2 | 1u << 5 | 1u << 8 | 1u << 10 | 1u << 12 | 1u << 14}},
    {"qwen35", /* Qwen 3.5 0.8B */
     {.layers = 24,
      .embd = 1024,
      .ff = 3584,
      .heads = 8,
      .heads_kv = 2,
      .head_dim = 256,
      .vocab = 248320,
      .ctx = 262144,
      .heads_delta = 16,
      .values = 128}},
    {"lfm2moe", /* LFM2 8B-A1B but for its depth of 24 */
     {.layers = 16,
      .embd = 2048,
      .ff = 7168,
      .heads = 32,
      .heads_kv = 8,
      .head_dim = 64,
      .vocab = 65536,
      .ctx = 128000,
      .experts = 32,
      .experts_used = 4,
      .ff_exp = 1792,
      .attention = 1u << 2 | 1u << 6 | 1u << 10 | 1u << 14}},
    {"rwkv7", /* RWKV 7 0.4B, heads of 64 */
     {.layers = 24, .embd = 1024, .ff = 4096, .vocab = 65536, .ctx = 1048576}},
};

/* --- shape ------------------------------------------------------------------------------------ */

static const fy_family *family_of(const char *name)
{
    const fy_family *by_arch = NULL;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        if (strcmp((*f)->name, name) == 0)
            return *f;
        if (by_arch == NULL && strcmp((*f)->gguf_arch, name) == 0)
            by_arch = *f;
    }
    return by_arch;
}

static const options *preset_of(const char *arch)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (strcmp(presets[i].arch, arch) == 0)
            return &presets[i].o;
    }
    return &presets[0].o;
}

static void take(uint32_t *field, int64_t given, int64_t preset)
{
    if (given > 0 || preset > 0)
        *field = (uint32_t)(given > 0 ? given : preset);
}

/* Of a normal distribution: how much lies below z, and the z below which so much lies. */
static double share_below(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

static double quantile(double share)
{
    double low = -8, high = 8;
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        if (share_below(middle) < share)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Of the weights; of those without a block type, and about of the other ones, 0.02. */
static double deviation(fy_type t)
{
    return t == FY_Q4_0 ? 4.34e-3 * sqrt(17.5) : 0.02; /* levels -7 .. 7, 0 twice */
}

/* Above it are 100 - zeros of 100 values of the gate: a normal distribution, whose deviation is
 * that of the weights times the length of what is normed. */
static double threshold_of(double zeros, fy_type t, uint32_t n_embd)
{
    return quantile(zeros / 100) * deviation(t) * sqrt(n_embd);
}

/* --- predictors -------------------------------------------------------------------------------
 *
 * A predictor of rank r sees the first r / 2 elements of the residual stream, fc1 = [1; -1], and
 * multiplies them as the gate does, fc2 = [G, -G]. The gate of n elements has more of its variance
 * in those than in the others: the share c^2, c being the correlation of score and gate. The
 * residual stream is the embedding but for a few per cent, so that all tokens and layers have one
 * length. */

enum { LOUDER = 64 }; /* the embedding; and what layers add to it is so many times quieter */

typedef struct {
    uint64_t n_seen;   /* elements; 0: there are no predictors */
    float first, rest; /* scales of the gate's blocks, times those of the others */
    float threshold;
} predictor;

/* P(score above s | gate above g), by Simpson's rule over the gate. */
static double recall_of(double c, double s, double g)
{
    enum { STEPS = 2000 };
    const double h = (8 - g) / STEPS;
    double sum = 0;
    for (int i = 0; i <= STEPS; i++) {
        const double z = g + i * h, weight = i == 0 || i == STEPS ? 1 : i % 2 == 1 ? 4 : 2;
        sum += weight * exp(-z * z / 2) * share_below((c * z - s) / sqrt(1 - c * c));
    }
    return sum * h / 3 / sqrt(2 * 3.14159265358979323846) / share_below(-g);
}

static predictor predictor_of(const options *o, fy_type t, const fy_hparams *hp)
{
    const double g = quantile(o->zeros / 100), s = quantile(1 - 1.25 * (1 - o->zeros / 100));
    double low = 0, high = 0.99999;
    for (int i = 0; i < 40; i++) {
        const double c = (low + high) / 2;
        if (recall_of(c, s, g) < o->recall / 100)
            low = c;
        else
            high = c;
    }
    const double n = hp->n_embd, seen = (double)(o->predictor / 2);
    return (predictor){.n_seen = (uint64_t)o->predictor / 2,
                       .first = (float)(low * sqrt(n / seen)),
                       .rest = (float)sqrt((1 - low * low) * n / (n - seen)),
                       .threshold =
                           (float)(s * low * sqrt(n) * deviation(t) * deviation(t) * LOUDER)};
}

static int shape_of(const options *o, const fy_family *f, fy_type type, fy_hparams *hp, fy_err *e)
{
    const options *p = preset_of(o->arch);
    *hp = f->defaults;
    take(&hp->n_layer, o->layers, p->layers);
    take(&hp->n_embd, o->embd, p->embd);
    take(&hp->n_ff, o->ff, p->ff);
    take(&hp->n_head, o->heads, p->heads);
    take(&hp->n_head_kv, o->heads_kv, p->heads_kv);
    take(&hp->head_dim, o->head_dim, p->head_dim);
    take(&hp->n_vocab, o->vocab, p->vocab);
    take(&hp->n_ctx_train, o->ctx, p->ctx);
    take(&hp->n_swa, o->window, p->window);
    take(&hp->n_expert, o->experts, p->experts);
    take(&hp->n_expert_used, o->experts_used, p->experts_used);
    take(&hp->n_ff_exp, o->ff_exp, p->ff_exp);
    take(&hp->ssm_heads, 0, p->heads_delta);
    if (p->values > 0) {
        static const uint32_t sections[3] = {11, 11, 10}; /* Qwen 3.5's; llama.cpp wants them */
        hp->ssm_inner = hp->ssm_heads * (uint32_t)p->values;
        memcpy(hp->rope_sections, sections, sizeof sections);
    }
    hp->head_dim_v = hp->head_dim;
    hp->n_rot = (uint32_t)((float)hp->head_dim * f->rot_part);
    const double given = o->zeros > 0 ? threshold_of(o->zeros, type, hp->n_embd) : o->threshold;
    const double threshold = given >= 0 ? given : p->threshold; /* NAN: not given */
    if (threshold > 0 || given >= 0) {
        hp->act = FY_ACT_FATRELU;
        hp->act_threshold = (float)threshold;
    }
    for (uint32_t i = 0; i < hp->n_layer && p->attention != 0; i++)
        fy_layer_put(&hp->no_attn_layers, i, (p->attention >> i % 16 & 1) == 0);
    hp->full_layers = fy_layers_of(f->full_attention, hp->n_layer);
    hp->nope_layers = fy_layers_of(f->no_rope, hp->n_layer);
    fy_hparams_derive(hp, f);
    return fy_hparams_check(hp, f, e);
}

/* --- weights ---------------------------------------------------------------------------------- */

/* splitmix64: a state may begin anywhere, so each row has a stream of its own. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Scale and minimum that give random quants a mean of 0 and a deviation of 0.02. */
static const struct {
    fy_type type;
    float d, m;
} block_scales[] = {
    {FY_Q4_0, 4.34e-3F, 0},         {FY_Q4_1, 4.34e-3F, -3.255e-2F}, {FY_Q5_0, 2.17e-3F, 0},
    {FY_Q5_1, 2.17e-3F, -3.36e-2F}, {FY_Q8_0, 2.71e-4F, 0},          {FY_Q4_K, 7.75e-5F, 5.81e-4F},
    {FY_Q5_K, 3.8e-5F, 5.89e-4F},   {FY_Q6_K, 1.46e-5F, 0},
};
enum { N_BLOCK_SCALES = sizeof block_scales / sizeof block_scales[0] };

static void fill_blocks(int s, uint8_t *out, size_t n_bytes, uint64_t *state)
{
    const size_t block = fy_type_get((uint32_t)block_scales[s].type)->bytes;
    const uint16_t d = fy_f32_to_f16(block_scales[s].d), m = fy_f32_to_f16(block_scales[s].m);
    for (size_t i = 0; i < n_bytes; i += sizeof(uint64_t)) {
        uint64_t r = next(state);
        if (block_scales[s].type ==
            FY_Q4_0) { /* -8 becomes 0: levels have no mean, nor does a sum */
            const uint64_t pairs = r | r >> 1, some = (pairs | pairs >> 2) & 0x1111111111111111u;
            r |= (some ^ 0x1111111111111111u) << 3;
        }
        memcpy(out + i, &r, n_bytes - i < sizeof r ? n_bytes - i : sizeof r);
    }
    for (size_t i = 0; i < n_bytes; i += block)
        fy_kc_set_scales(block_scales[s].type, out + i, d, m);
}

/* About normal: a sum of four uniform values. */
static void fill_values(float *out, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = next(state);
        const uint64_t sum = (r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48);
        out[i] = ((float)sum / 65536.0F - 2.0F) * 0.0346F;
    }
}

typedef struct {
    const fy_gguf_writer *w;
    uint64_t seed;
    fy_kernels k;
    float *values[FY_THREADS_MAX]; /* owned: a row of a type that is encoded; NULL: not yet */
    size_t longest;                /* elements of the longest row */
    predictor predictor;
    bool apart;          /* layers add little to the embedding: with predictors, and where a router
                            would otherwise choose the same experts for all tokens */
    int64_t gate_before; /* tensors from a layer's gate to its fc2, which repeats its blocks */
} filler;

static int scale_index(fy_type t)
{
    int s = 0;
    while (s < N_BLOCK_SCALES && block_scales[s].type != t)
        s++;
    return s;
}

/* Vectors are norms, 1 each, and biases, 0; what a state decays by is below 0. */
static void fill_vector(const fy_gguf_tensor *t, float *out)
{
    const bool is_bias = fy_span_ends(t->name, ".bias"), is_decay = fy_span_ends(t->name, "ssm_a");
    for (uint64_t i = 0; i < t->ne[0]; i++)
        out[i] = is_bias ? 0.0F : is_decay ? -1.0F : 1.0F;
}

/* Rows of the identity, then of its negative. */
static int fill_fc1(filler *f, const fy_gguf_tensor *t, uint64_t row, uint8_t *at, int thread,
                    fy_err *e)
{
    fy_row_fault fault;
    float *x = f->values[thread];
    memset(x, 0, (size_t)t->ne[0] * sizeof *x);
    x[row % f->predictor.n_seen] = row < f->predictor.n_seen ? 1 : -1;
    return fy_row_encode(&f->k, t->type, at, x, (int64_t)t->ne[0], NULL, &fault) == 0
               ? 0
               : fy_fail(e, FY_EARG, "a predictor does not fit %s", fy_type_name(t->type));
}

/* How many times larger than usual the weights of a block are. */
static float loudness(const predictor *p, fy_span name, uint64_t element)
{
    const bool seen = element < p->n_seen;
    if (fy_span_ends(name, "token_embd.weight"))
        return LOUDER;
    if (fy_span_ends(name, "ffn_down_t.weight") || fy_span_ends(name, "ffn_down.weight") ||
        fy_span_ends(name, "ffn_down_exps.weight") || fy_span_ends(name, "attn_output.weight"))
        return 1.0F / LOUDER;
    if (p->n_seen == 0)
        return 1;
    if (fy_span_ends(name, "fc2.weight"))
        return seen ? p->first : -p->first;
    if (fy_span_ends(name, "ffn_gate.weight"))
        return seen ? p->first : p->rest;
    return 1;
}

static void fill_row(const filler *f, const fy_gguf_tensor *t, int s, int64_t i, uint64_t row,
                     uint8_t *at)
{
    const fy_type_info *type = fy_type_get((uint32_t)t->type);
    const size_t row_bytes = (size_t)fy_type_row_bytes(t->type, t->ne[0]);
    const bool repeats = f->predictor.n_seen > 0 && fy_span_ends(t->name, "fc2.weight");
    const size_t fresh = repeats ? row_bytes / 2 : row_bytes;
    uint64_t state = f->seed ^ (uint64_t)(i + 1 - (repeats ? f->gate_before : 0)) << 40 ^ row;
    state = next(&state);
    fill_blocks(s, at, fresh, &state);
    if (repeats)
        memcpy(at + fresh, at, row_bytes - fresh);
    for (uint64_t b = 0; b < t->ne[0] / type->block && f->apart; b++) {
        const float times = loudness(&f->predictor, t->name, b * type->block);
        fy_kc_set_scales(t->type, at + b * type->bytes, fy_f32_to_f16(block_scales[s].d * times),
                         fy_f32_to_f16(block_scales[s].m * times));
    }
}

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    filler *f = user;
    const fy_gguf_tensor *t = fy_gguf_writer_tensor(f->w, i);
    const size_t row_bytes = (size_t)fy_type_row_bytes(t->type, t->ne[0]);
    const int s = scale_index(t->type);
    const bool is_fc1 = f->predictor.n_seen > 0 && fy_span_ends(t->name, "fc1.weight");
    if (t->n_dims == 1) {
        fill_vector(t, out);
        return 0;
    }
    if ((s == N_BLOCK_SCALES || is_fc1) && f->values[thread] == NULL &&
        (f->values[thread] = malloc(f->longest * sizeof(float))) == NULL)
        return fy_nomem(e);
    for (uint64_t r = 0; r < n_rows; r++) {
        uint8_t *at = (uint8_t *)out + r * row_bytes;
        if (is_fc1) {
            if (fill_fc1(f, t, row + r, at, thread, e) != 0)
                return -1;
            continue;
        }
        if (s < N_BLOCK_SCALES) {
            fill_row(f, t, s, i, row + r, at);
            continue;
        }
        uint64_t state = f->seed ^ (uint64_t)(i + 1) << 40 ^ (row + r);
        fy_row_fault fault;
        state = next(&state);
        fill_values(f->values[thread], (size_t)t->ne[0], &state);
        if (fy_row_encode(&f->k, t->type, at, f->values[thread], (int64_t)t->ne[0], NULL, &fault) !=
            0)
            return fy_fail(e, FY_EARG, "tensor %lld: a value does not fit", (long long)i);
    }
    return 0;
}

/* --- the plan of the file --------------------------------------------------------------------- */

static bool is_wanted(const fy_hparams *hp, const fy_tensor_row *row, bool untied)
{
    if (!fy_row_is_there(hp, row) || (row->flags & FY_ROW_ALT) != 0)
        return false;
    const bool unread = strncmp(row->gguf, "blk.0.", 6) == 0; /* llama.cpp wants it: rwkv7 */
    return (row->flags & FY_ROW_OPTIONAL) == 0 || unread || (row->slot == FY_T_OUTPUT && untied);
}

static int add_tensor(fy_gguf_writer *w, const fy_hparams *hp, const fy_tensor_row *row,
                      uint32_t layer, fy_type type, size_t *longest, fy_err *e)
{
    char name[FY_ROW_NAME_BYTES];
    uint64_t ne[FY_GGUF_MAX_DIMS];
    const uint32_t n = fy_row_shape(hp, row, ne);
    fy_row_name(row->gguf, layer, name);
    *longest = ne[0] > *longest ? ne[0] : *longest;
    if ((row->flags & FY_ROW_MATRIX) == 0)
        type = FY_F32;
    if (fy_type_row_bytes(type, ne[0]) == 0)
        return fy_fail(e, FY_EARG, "%s: rows of %llu elements are not whole blocks of %s", name,
                       (unsigned long long)ne[0], fy_type_name(type));
    return fy_gguf_add_tensor(w, name, type, n, ne, e) < 0 ? -1 : 0;
}

static int add_predictor(fy_gguf_writer *w, const fy_hparams *hp, uint32_t layer, fy_type type,
                         const options *o, filler *f, fy_err *e)
{
    const uint64_t rank = (uint64_t)o->predictor;
    const uint64_t ne[2][2] = {{hp->n_embd, rank}, {rank, hp->n_ff}};
    char name[FY_ROW_NAME_BYTES];
    int64_t at = -1;
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "blk.%u.fc%d.weight", layer, i + 1);
        at = fy_gguf_add_tensor(w, name, type, 2, ne[i], e);
        if (at < 0)
            return -1;
    }
    for (f->gate_before = 1;
         !fy_span_ends(fy_gguf_writer_tensor(w, at - f->gate_before)->name, "ffn_gate.weight");)
        f->gate_before++;
    return 0;
}

/* One per model before the layers, as convert has them; the output's at the end. */
static int add_tensors(fy_gguf_writer *w, const fy_family *f, const fy_hparams *hp, fy_type type,
                       const options *o, filler *fill_from, fy_err *e)
{
    const bool untied = o->untied;
    size_t *longest = &fill_from->longest;
    for (size_t i = 0; i < f->n_rows; i++) {
        if (!fy_row_is_layer(&f->rows[i]) && is_wanted(hp, &f->rows[i], untied) &&
            add_tensor(w, hp, &f->rows[i], 0, type, longest, e) != 0)
            return -1;
    }
    for (uint32_t layer = 0; layer < hp->n_layer; layer++) {
        for (size_t i = 0; i < f->n_rows; i++) {
            const fy_tensor_row *row = &f->rows[i], *t = fy_row_by_neuron(f, row->slot);
            if (fy_row_is_layer(row) && is_wanted(hp, row, untied) &&
                fy_row_is_in_layer(hp, row, layer) &&
                add_tensor(w, hp, o->transpose_down && t != NULL ? t : row, layer, type, longest,
                           e) != 0)
                return -1;
        }
        if (o->predictor > 0 && add_predictor(w, hp, layer, type, o, fill_from, e) != 0)
            return -1;
    }
    return 0;
}

static int plan_predictor(fy_gguf_writer *w, const options *o, const fy_hparams *hp, fy_type type,
                          filler *f, fy_err *e)
{
    if (o->predictor == 0)
        return 0;
    if (!(o->zeros > 20) || o->predictor % 64 != 0 || o->predictor >= 2 * (int64_t)hp->n_embd ||
        (type != FY_Q4_0 && type != FY_Q8_0))
        return fy_fail(
            e, FY_EARG,
            "--predictor: expected a multiple of 64 below twice the width, --zeros above "
            "20 and --type q4_0 or q8_0");
    f->predictor = predictor_of(o, type, hp);
    return fy_gguf_add_f32(w, FY_KEY_SPARSE_THRESHOLD, f->predictor.threshold, e);
}

/* Three special tokens, the bytes as GPT-2 writes them, filler words. */
static size_t token_text(uint32_t id, char *out, size_t size)
{
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    enum { N_SPECIAL = 3, N_BYTES = 256 };
    if (id < N_SPECIAL)
        return (size_t)snprintf(out, size, "%s", special[id]);
    if (id >= N_SPECIAL + N_BYTES)
        return (size_t)snprintf(out, size, "w%u", id);
    unsigned shifted = 0, c = 0;
    for (unsigned b = 0; b <= id - N_SPECIAL; b++) {
        const bool keep = (b >= 33 && b < 127) || (b >= 161 && b < 173) || b >= 174;
        c = keep ? b : 256 + shifted;
        shifted += !keep;
    }
    if (c < 0x80)
        return (size_t)snprintf(out, size, "%c", (int)c);
    return (size_t)snprintf(out, size, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 63)));
}

static int add_tokens(fy_gguf_writer *w, uint32_t n, fy_err *e)
{
    char text[32];
    if (fy_gguf_begin_strings(w, "tokenizer.ggml.tokens", e) != 0)
        return -1;
    for (uint32_t id = 0; id < n; id++) {
        const size_t len = token_text(id, text, sizeof text);
        if (fy_gguf_add_string(w, (fy_span){text, len}, e) != 0)
            return -1;
    }
    int32_t *types = calloc(n, sizeof *types);
    if (types == NULL)
        return fy_nomem(e);
    for (uint32_t id = 0; id < n; id++)
        types[id] = id < 3 ? 3 : 1; /* control, normal */
    int rc = fy_gguf_end_strings(w, e);
    if (rc == 0)
        rc = fy_gguf_add_array(w, "tokenizer.ggml.token_type", FY_KV_I32, types, n, e);
    free(types);
    return rc;
}

static int add_vocab(fy_gguf_writer *w, uint32_t n, fy_err *e)
{
    if (n < 259)
        return fy_fail(e, FY_EARG, "a vocabulary of %u: expected at least 259, all bytes", n);
    return fy_gguf_add_str(w, "tokenizer.ggml.model", fy_span_of("gpt2"), e) != 0 ||
                   fy_gguf_add_str(w, "tokenizer.ggml.pre", fy_span_of("llama-bpe"), e) != 0 ||
                   add_tokens(w, n, e) != 0 ||
                   fy_gguf_begin_strings(w, "tokenizer.ggml.merges", e) != 0 ||
                   fy_gguf_end_strings(w, e) != 0 ||
                   fy_gguf_add_u32(w, "tokenizer.ggml.bos_token_id", 1, e) != 0 ||
                   fy_gguf_add_u32(w, "tokenizer.ggml.eos_token_id", 2, e) != 0 ||
                   fy_gguf_add_bool(w, "tokenizer.ggml.add_bos_token", true, e) != 0
               ? -1
               : 0;
}

static int plan(fy_gguf_writer *w, const options *o, filler *fill_from, fy_err *e)
{
    const fy_family *f = family_of(o->arch);
    fy_type type;
    fy_hparams hp;
    if (f == NULL)
        return fy_fail(e, FY_EARG, "no family '%s'; ferry convert --list-archs has them", o->arch);
    if (!fy_type_parse(o->type, &type) ||
        (scale_index(type) == N_BLOCK_SCALES && !fy_row_can_encode(type)))
        return fy_fail(e, FY_EARG, "no random weights of type '%s'", o->type);
    if (shape_of(o, f, type, &hp, e) != 0)
        return -1;
    fill_from->apart = o->predictor > 0 || hp.n_expert > 0;
    return fy_gguf_add_str(w, "general.architecture", fy_span_of(f->gguf_arch), e) != 0 ||
                   fy_gguf_add_str(w, "general.name", fy_span_of("random weights"), e) != 0 ||
                   fy_hparams_to_gguf(w, f, &hp, e) != 0 ||
                   fy_gguf_add_u32(w, "general.file_type", (uint32_t)fy_type_ftype(type), e) != 0 ||
                   fy_gguf_add_u32(w, "general.quantization_version", FY_QUANTIZATION_VERSION, e) !=
                       0 ||
                   add_vocab(w, hp.n_vocab, e) != 0 ||
                   plan_predictor(w, o, &hp, type, fill_from, e) != 0 ||
                   add_tensors(w, f, &hp, type, o, fill_from, e) != 0
               ? -1
               : 0;
}

static int make(const char *path, const options *o, fy_err *e)
{
    fy_gguf_writer *w = fy_gguf_writer_new(e);
    fy_pool *pool = fy_pool_new(fy_default_threads(), e);
    filler f = {.w = w, .seed = (uint64_t)o->seed * 0x2545f4914f6cdd1du, .k = fy_kernels_for(0)};
    int rc = w != NULL && pool != NULL && plan(w, o, &f, e) == 0 ? 0 : -1;
    if (rc == 0)
        rc = fy_gguf_write(w, path, fill, &f, pool, NULL, e);
    for (int i = 0; i < FY_THREADS_MAX; i++)
        free(f.values[i]);
    fy_pool_free(pool);
    fy_gguf_writer_free(w);
    return rc;
}

int main(int argc, char **argv)
{
    options o;
    int n_args;
    bool help;
    fy_err e = {0};
    if (fy_opts_parse(opts, N_OPTS, &o, argc - 1, argv + 1, &n_args, &help, &e) == 0 && !help) {
        if (n_args != 1)
            fy_fail(&e, FY_EARG, "expected one file to write, got %d", n_args);
        else
            make(argv[1], &o, &e);
    } else if (help) {
        fy_str text = {0};
        fy_opts_help(opts, N_OPTS, &text);
        printf("usage: make_gguf OUT.gguf [OPTION]...\n%s", fy_str_z(&text));
        fy_str_release(&text);
    }
    if (e.code != FY_OK)
        fprintf(stderr, "make_gguf: %s\n", e.msg);
    return e.code == FY_OK ? 0 : e.code == FY_EARG ? 2 : 1;
}
