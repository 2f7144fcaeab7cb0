/* The memory of a session: parameters and plan, KV cache, RoPE tables, activations. */
#include "model/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/math.h"
#include "base/thread.h"

/* --- the KV cache --- */

enum { ALIGN = 64, HUGE_PAGE = 2 << 20 };

static bool is_of_floats(fy_type type)
{
    return type == FY_F32 || type == FY_F16;
}

bool fy_kv_owns(const fy_hparams *hp, uint32_t layer)
{
    return !fy_layer_in(&hp->no_attn_layers, layer) && fy_kv_owner(hp, layer) == layer;
}

uint32_t fy_kv_ring(const fy_hparams *hp, uint32_t n_ctx, uint32_t n_batch)
{
    const uint64_t step = n_batch > FY_TREE_MAX ? n_batch : FY_TREE_MAX;
    uint64_t rows;
    fy_align_u64(hp->n_swa + step, FY_ATTEND_CHUNK, &rows); /* below 2^34 */
    return hp->n_swa > 0 && rows < n_ctx ? (uint32_t)rows : n_ctx;
}

static uint32_t rows_of(const fy_hparams *hp, const fy_kv_params *p, uint32_t layer)
{
    return fy_layer_has_window(hp, layer) ? p->n_ring : p->n_ctx;
}

/* What keys, or values, of all layers take of so many bytes that end at a multiple of ALIGN. at:
 * [n_layer] where each begins; NULL: nobody asks. */
static int part_bytes(const fy_hparams *hp, const fy_kv_params *p, bool values, uint64_t *at,
                      uint64_t *bytes, fy_err *e)
{
    const fy_type type = values ? p->type_v : p->type_k;
    *bytes = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const fy_layer_shape s = fy_layer_shape_of(hp, i);
        const uint32_t dim = values ? s.head_dim_v : s.head_dim;
        uint64_t rows, n = fy_type_row_bytes(type, dim);
        if (n == 0)
            return fy_fail(
                e, FY_EARG,
                "KV cache of type %s: the model's heads have %u elements, expected a multiple "
                "of %u; use f16 (-ctk f16 -ctv f16)",
                fy_type_name(type), dim, FY_QK);
        if (type == FY_Q4_0 && dim > FY_KERNEL_SCRATCH_BYTES / sizeof(float)) /* rows are decoded */
            return fy_fail(e, FY_EARG,
                           "KV cache of type q4_0: heads of %u elements, expected at most %u", dim,
                           (unsigned)(FY_KERNEL_SCRATCH_BYTES / sizeof(float)));
        if (at != NULL)
            at[i] = *bytes;
        if (!fy_kv_owns(hp, i))
            continue;
        if (!fy_mul_u64(s.n_head_kv, rows_of(hp, p, i), &rows) ||
            !fy_mul_u64(rows, p->n_seq, &rows) || !fy_mul_u64(n, rows, &n) ||
            !fy_align_u64(n, ALIGN, &n) || !fy_add_u64(*bytes, n, bytes) || *bytes > SIZE_MAX / 4)
            return fy_fail(
                e, FY_EFIT,
                "a KV cache of %llu positions does not fit the address space; use a smaller -c",
                (unsigned long long)p->n_seq * p->n_ctx);
    }
    return 0;
}

int fy_kv_bytes(const fy_hparams *hp, const fy_kv_params *p, uint64_t *bytes, fy_err *e)
{
    uint64_t k, v;
    if (part_bytes(hp, p, false, NULL, &k, e) != 0 || part_bytes(hp, p, true, NULL, &v, e) != 0)
        return -1;
    uint64_t states;
    if (fy_states_bytes(hp, p->n_seq, &states, e) != 0)
        return -1;
    *bytes = k + v + states;
    return 0;
}

/* Not cleared: a position is read only after it was written. A cache that fills huge pages gets
 * them where the system has them: the rows of each head then take part of one from the first token
 * on, which clears it (15 ms at 134 MB), and decoding after 4,096 positions reads a tenth faster.
 */
static void *take(uint64_t bytes)
{
    if (bytes < HUGE_PAGE)
        return aligned_alloc(ALIGN, (size_t)bytes);
    const size_t whole = ((size_t)bytes + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
    void *p = aligned_alloc(HUGE_PAGE, whole);
    if (p != NULL)
        madvise(p, whole, MADV_HUGEPAGE);
    return p;
}

static void kv_release(fy_kv *kv)
{
    free(kv->k);
    free(kv->v);
    free(kv->layers);
    *kv = (fy_kv){0};
}

static void put_layers(fy_kv *kv, const fy_hparams *hp, const fy_kv_params *p, const uint64_t *at_k,
                       const uint64_t *at_v)
{
    fy_kv_layer like = {.type_k = p->type_k, .type_v = p->type_v};
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        if (fy_layer_in(&hp->no_attn_layers, i))
            continue;
        const uint32_t owner = fy_kv_owner(hp, i);
        const fy_layer_shape s = fy_layer_shape_of(hp, owner);
        like.k = kv->k + at_k[owner];
        like.v = kv->v + at_v[owner];
        like.n_rows = rows_of(hp, p, owner);
        like.n_head_kv = s.n_head_kv;
        like.head_dim = s.head_dim;
        like.head_dim_v = s.head_dim_v;
        kv->layers[i] = like;
    }
}

static int kv_init(fy_kv *kv, const fy_hparams *hp, const fy_kv_params *p, fy_err *e)
{
    uint64_t at_k[FY_N_LAYER_MAX], at_v[FY_N_LAYER_MAX], k, v;
    *kv = (fy_kv){.type_k = p->type_k, .type_v = p->type_v};
    if (part_bytes(hp, p, false, at_k, &k, e) != 0 || part_bytes(hp, p, true, at_v, &v, e) != 0)
        return -1;
    kv->k = take(k);
    kv->v = take(v);
    kv->layers = calloc(hp->n_layer, sizeof *kv->layers);
    if (kv->k == NULL || kv->v == NULL || kv->layers == NULL) {
        kv_release(kv);
        return fy_fail(e, FY_EFIT,
                       "out of memory: a KV cache of %llu positions takes %llu MB; use a smaller "
                       "-c",
                       (unsigned long long)p->n_seq * p->n_ctx,
                       (unsigned long long)((k + v) >> 20));
    }
    put_layers(kv, hp, p, at_k, at_v);
    return 0;
}

fy_kv_layer fy_kv_at(const fy_kv *kv, uint32_t layer)
{
    return kv->layers[layer];
}

static void copy_rows(uint8_t *cache, const fy_kv_layer *shape, fy_type type, int64_t dim,
                      uint32_t from, uint32_t to, uint32_t n)
{
    const size_t row = (size_t)fy_type_row_bytes(type, (uint64_t)dim);
    const size_t head = row * (size_t)shape->n_rows, seq = head * (size_t)shape->n_head_kv;
    for (size_t h = 0; h < (size_t)shape->n_head_kv; h++)
        memcpy(cache + to * seq + h * head, cache + from * seq + h * head,
               (n < shape->n_rows ? (size_t)n : (size_t)shape->n_rows) * row);
}

void fy_kv_copy(fy_kv *kv, const fy_hparams *hp, uint32_t from, uint32_t to, uint32_t n)
{
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const fy_kv_layer l = fy_kv_at(kv, i);
        if (!fy_kv_owns(hp, i))
            continue;
        copy_rows(l.k, &l, l.type_k, l.head_dim, from, to, n);
        copy_rows(l.v, &l, l.type_v, l.head_dim_v, from, to, n);
    }
}

/* --- RoPE --- */

static const double PI = 3.14159265358979323846;

/* The (real-valued) pair that turns `turns` times within the original context. */
static double yarn_pair_of(const fy_hparams *hp, double turns)
{
    return hp->n_rot * log(hp->rope_orig_ctx / (turns * 2 * PI)) /
           (2 * log((double)hp->rope_theta));
}

/* YaRN (Peng et al. 2023) as transformers and llama.cpp compute it: pairs below `low` keep their
 * rate, pairs above `high` are slowed by the factor, with a linear ramp between. */
static void yarn_ramp(fy_rope *r, const fy_hparams *hp)
{
    double low = yarn_pair_of(hp, (double)hp->yarn_beta_fast);
    double high = yarn_pair_of(hp, (double)hp->yarn_beta_slow);
    low = fmax(hp->yarn_unrounded ? low : floor(low), 0);
    high = fmin(hp->yarn_unrounded ? high : ceil(high), (double)hp->n_rot - 1);
    for (uint32_t i = 0; i < r->n_pairs; i++) {
        double ramp = fmin(fmax((i - low) / fmax(high - low, 0.001), 0), 1);
        r->rate[i] = r->rate[i] * (1 - ramp) + r->rate[i] / (double)hp->rope_factor * ramp;
    }
}

void fy_rope_init(fy_rope *r, const fy_hparams *hp, const float *freqs, double *rate)
{
    *r = (fy_rope){
        .n_pairs = hp->n_rot / 2, .rate = rate, .magnitude = (double)hp->rope_attn_factor};
    for (uint32_t i = 0; i < r->n_pairs; i++) {
        r->rate[i] = pow((double)hp->rope_theta, -2.0 * i / hp->n_rot);
        if (freqs != NULL)
            r->rate[i] /= (double)freqs[i];
        if (hp->rope_scaling == FY_ROPE_SCALING_LINEAR)
            r->rate[i] /= (double)hp->rope_factor;
    }
    if (hp->rope_scaling == FY_ROPE_SCALING_YARN) {
        yarn_ramp(r, hp);
        if (hp->rope_factor > 1)
            r->magnitude *= 1 + 0.1 * log((double)hp->rope_factor);
    }
}

void fy_rope_init_swa(fy_rope *r, const fy_hparams *hp, double *rate)
{
    const fy_hparams plain = {
        .n_rot = fy_n_rot_swa(hp), .rope_theta = hp->rope_theta_swa, .rope_attn_factor = 1};
    fy_rope_init(r, &plain, NULL, rate);
}

void fy_rope_angles(const fy_rope *r, uint32_t pos, float *angles)
{
    for (uint32_t i = 0; i < r->n_pairs; i++) {
        double a = pos * r->rate[i];
        angles[2 * i] = (float)(cos(a) * r->magnitude);
        angles[2 * i + 1] = (float)(sin(a) * r->magnitude);
    }
}

/* --- the session --- */

enum { DEFAULT_CTX = 4096, DEFAULT_BATCH = 512, ENDLESS_CTX = 1 << 24 };

bool fy_model_is_endless(const fy_model *m)
{
    return fy_layers_count(&m->hp.no_attn_layers) == m->hp.n_layer && m->hp.n_layer > 0;
}

/* What the graphs of a model have fixed. */
static int check_graphs(const fy_model *m, fy_session_params *p, fy_err *e)
{
    const fy_chain *c = m->chain;
    const uint32_t known = fy_model_max_ctx(m);
    if (p->n_ctx == 0)
        p->n_ctx = known;
    const uint32_t room = c->n_cache - fy_chain_first_position(c);
    if (p->n_ctx > room && !fy_model_is_endless(m))
        return fy_fail(e, FY_EFIT,
                       "context of %u positions, but the graphs have %u (cache_size; context_size "
                       "is %u); use -c %u or less, or chunk the model again with a larger -c",
                       p->n_ctx, room, c->n_ctx, room);
    if (p->n_seq > 1)
        return fy_fail(e, FY_EARG, "%u sequences, but graphs of fixed shape hold one", p->n_seq);
    if (c->fixed && !(is_of_floats(p->type_k) && is_of_floats(p->type_v)))
        return fy_fail(e, FY_EARG,
                       "KV cache of types %s and %s, but the graphs were compiled for one of %s: "
                       "drop -ctk and -ctv",
                       fy_type_name(p->type_k), fy_type_name(p->type_v), fy_element_name(c->kv));
    if (!c->fixed && (p->type_k != p->type_v || !is_of_floats(p->type_k)))
        return fy_fail(e, FY_EARG,
                       "KV cache of types %s and %s: that of the graphs is f16, or f32 for both "
                       "(-ctk f32 -ctv f32)",
                       fy_type_name(p->type_k), fy_type_name(p->type_v));
    if (p->n_batch == 0 || p->n_batch > fy_chain_max_batch(c))
        p->n_batch = fy_chain_max_batch(c);
    return 0;
}

/* Does the host only look up embeddings and finish logits? */
static bool is_host_alone(const fy_model *m)
{
    return m->chain != NULL && !fy_chain_lacks_head(m->chain);
}

static bool has_predictor(const fy_model *m, uint32_t layer)
{
    return layer >= m->chunk.first_layer && layer < m->chunk.end_layer &&
           fy_bound(fy_layer_at(m, layer), FY_T_FFN_PRED_1);
}

static int check_sparse(const fy_model *m, fy_session_params *p, fy_err *e)
{
    const bool predicts = p->sparse == FY_SPARSE_PREDICT;
    if ((predicts || p->sparse == FY_SPARSE_EXACT) &&
        !fy_act_makes_zeros(m->hp.act, fy_row_of_slot(m->family, FY_T_FFN_GATE) != NULL))
        return fy_fail(e, FY_EARG,
                       "--sparse %s: the activation of this model is %s, which is hardly ever "
                       "exactly 0: there is nothing to leave out",
                       predicts ? "predict" : "exact", fy_act_name(m->hp.act));
    for (uint32_t i = 0; i < m->hp.n_layer && predicts; i++) {
        if (!has_predictor(m, i))
            return fy_fail(e, FY_EARG,
                           "--sparse predict: the file has no 'blk.%u.fc1.weight': predictors are "
                           "trained with a model and written by ferry convert --predictors",
                           i);
    }
    if (predicts && isnan(p->sparse_threshold))
        p->sparse_threshold = m->sparse_threshold;
    return 0;
}

/* The parameters with every 0 replaced and every value checked. */

static int complete_params(const fy_model *m, const fy_session_params *p, fy_session_params *out,
                           fy_err *e)
{
    *out = *p;
    const uint32_t trained = m->hp.n_ctx_train;
    if (m->chain != NULL && check_graphs(m, out, e) != 0)
        return -1;
    if (fy_model_is_endless(m))
        out->n_ctx = ENDLESS_CTX;
    if (out->n_ctx == 0)
        out->n_ctx = trained < DEFAULT_CTX ? trained : DEFAULT_CTX;
    if (out->n_ctx > INT32_MAX)
        return fy_fail(e, FY_EARG, "context of %u positions, expected at most %d", out->n_ctx,
                       INT32_MAX);
    const uint32_t most = fy_model_max_ctx(m);
    if (out->n_ctx > most)
        return fy_fail(e, FY_EFIT,
                       "context of %u positions, but the model has learned embeddings of %u only "
                       "(position_embd); use -c %u or less",
                       out->n_ctx, most, most);
    if (check_sparse(m, out, e) != 0)
        return -1;
    if (out->n_seq == 0)
        out->n_seq = 1;
    if (out->n_seq > FY_SEQ_MAX)
        return fy_fail(e, FY_EARG, "%u sequences, expected 1 to %d", out->n_seq, FY_SEQ_MAX);
    const uint64_t n_positions = (uint64_t)out->n_seq * out->n_ctx;
    if (out->n_batch == 0)
        out->n_batch = DEFAULT_BATCH;
    if (out->n_batch > n_positions)
        out->n_batch = (uint32_t)n_positions;
    if (out->n_threads == 0)
        out->n_threads = fy_default_threads();
    if (out->n_threads < 1 || out->n_threads > FY_THREADS_MAX)
        return fy_fail(e, FY_EARG, "%d threads, expected 1 to %d", out->n_threads, FY_THREADS_MAX);
    const fy_type types[] = {out->type_k, out->type_v};
    for (int i = 0; i < 2; i++) {
        if (!is_of_floats(types[i]) && types[i] != FY_Q8_0 && types[i] != FY_Q4_0)
            return fy_fail(e, FY_EARG, "KV cache of type %s, expected f32, f16, q8_0 or q4_0",
                           fy_type_name(types[i]));
    }
    return 0;
}

/* A pool of threads would be in the way of the one that computes the graphs. */
static fy_backend_params backend_params(const fy_model *m, const fy_session_params *p)
{
    if (is_host_alone(m))
        return (fy_backend_params){.n_threads = 1, .n_tokens = p->n_batch};
    const fy_layer_shape most = fy_layer_shape_max(&m->hp);
    return (fy_backend_params){.n_threads = p->n_threads,
                               .n_tokens = p->n_batch,
                               .q8_len = m->q8_len,
                               .head_dim = most.head_dim > most.head_dim_v ? most.head_dim
                                                                           : most.head_dim_v};
}

static uint32_t logit_rows(const fy_session_params *p)
{
    const uint32_t most = p->n_seq > p->n_logits ? p->n_seq : p->n_logits;
    return most > FY_LOGIT_ROWS ? most : FY_LOGIT_ROWS;
}

/* Of a model of graphs the host computes only what goes in and what comes out; x is a tensor of the
 * graphs. */
static void lay_out_host(fy_activations *a, const fy_model *m, uint64_t n, fy_layout *c)
{
    const fy_hparams *hp = &m->hp;
    *a = (fy_activations){0};
    a->at = fy_lay_out(c, n, 1, sizeof *a->at);
    if (!is_host_alone(m))
        a->h = fy_lay_out(c, n, hp->n_embd, sizeof *a->h);
    a->branch = fy_lay_out(c, n, hp->n_embd, sizeof *a->branch);
    a->angles = fy_lay_out(c, n, hp->n_rot, sizeof *a->angles);
    if (hp->temp_scale != 0)
        a->angles_q = fy_lay_out(c, n, hp->n_rot, sizeof *a->angles_q);
    if (hp->rope_theta_swa != 0)
        a->angles_swa = fy_lay_out(c, n, fy_n_rot_swa(hp), sizeof *a->angles_swa);
}

/* Where each array lies. */
static int lay_out(fy_session *s, const fy_session_params *p, uint8_t *base, uint64_t *bytes,
                   fy_err *e)
{
    const fy_hparams *hp = &s->model->hp;
    const uint64_t n = p->n_batch;
    fy_layout c = {.base = base};
    s->rope.rate = fy_lay_out(&c, 1, fy_dim_of(hp, FY_D_ROT2), sizeof *s->rope.rate);
    s->rope_swa.rate =
        fy_lay_out(&c, hp->rope_theta_swa != 0, fy_n_rot_swa(hp) / 2, sizeof *s->rope_swa.rate);
    s->n_past = fy_lay_out(&c, p->n_seq, 1, sizeof *s->n_past);
    s->low = fy_lay_out(&c, p->n_seq, 1, sizeof *s->low);
    s->next = fy_lay_out(&c, p->n_seq, 1, sizeof *s->next);
    s->end = fy_lay_out(&c, p->n_seq, 1, sizeof *s->end);
    s->parents = fy_lay_out(&c, FY_TREE_MAX, 1, sizeof *s->parents);
    s->ids = fy_lay_out(&c, n, 1, sizeof *s->ids);
    s->pos = fy_lay_out(&c, n, 1, sizeof *s->pos);
    s->wanted = fy_lay_out(&c, n, 1, sizeof *s->wanted);
    s->logits = fy_lay_out(&c, logit_rows(p), hp->n_vocab, sizeof *s->logits);
    if (s->model->chain != NULL)
        lay_out_host(&s->d.act, s->model, n, &c);
    else
        fy_activations_lay_out(&s->d.act, hp, n, (uint64_t)s->model->ff_len, &c);
    if (p->sparse == FY_SPARSE_PREDICT)
        s->d.act.predictor =
            fy_lay_out(&c, n, (uint64_t)s->model->predictor_len, sizeof *s->d.act.predictor);
    if (s->model->gpu != NULL) {
        s->d.act.gpu_x = fy_lay_out(&c, n, hp->n_embd, sizeof *s->d.act.gpu_x);
        s->d.act.gpu_y = fy_lay_out(&c, n, hp->n_embd, sizeof *s->d.act.gpu_y);
    }
    if (c.overflow || c.used > SIZE_MAX / 2)
        return fy_fail(e, FY_EFIT,
                       "activations of %u tokens do not fit the address space; use a smaller -b",
                       p->n_batch);
    *bytes = c.used;
    return 0;
}

static fy_kv_params kv_params(const fy_model *m, const fy_session_params *p)
{
    return (fy_kv_params){.n_seq = p->n_seq,
                          .n_ctx = p->n_ctx,
                          .n_ring = p->ring ? fy_kv_ring(&m->hp, p->n_ctx, p->n_batch) : p->n_ctx,
                          .type_k = p->type_k,
                          .type_v = p->type_v};
}

int fy_session_plan_of(const fy_model *m, const fy_session_params *p, fy_session_plan *out,
                       fy_err *e)
{
    fy_session_params full;
    fy_session counted = {.model = m};
    uint64_t kv, act, backend, io = 0;
    if (complete_params(m, p, &full, e) != 0 || lay_out(&counted, &full, NULL, &act, e) != 0)
        return -1;
    const fy_kv_params shape = kv_params(m, &full);
    if (m->chain != NULL
            ? fy_chain_run_bytes(m->chain, &m->hp, full.type_k, full.n_threads, &kv, &io, e) != 0
            : fy_kv_bytes(&m->hp, &shape, &kv, e) != 0)
        return -1;
    fy_backend_params b = backend_params(m, &full);
    if (fy_backend_bytes(&b, &backend, e) != 0)
        return -1;
    const bool fixed = m->chain != NULL && m->chain->fixed;
    *out = (fy_session_plan){
        .kv_bytes = kv,
        .scratch_bytes = act + io + backend,
        .n_ring = shape.n_ring,
        .type_k = fixed ? fy_element_name(m->chain->kv) : fy_type_name(full.type_k),
        .type_v = fixed ? fy_element_name(m->chain->kv) : fy_type_name(full.type_v),
        .params = full};
    return 0;
}

static int take_memory(fy_session *s, const fy_session_params *p, fy_err *e)
{
    uint64_t bytes;
    if (lay_out(s, p, NULL, &bytes, e) != 0)
        return -1;
    s->memory = aligned_alloc(FY_LAYOUT_ALIGN, (size_t)bytes);
    if (s->memory == NULL)
        return fy_fail(e, FY_EFIT,
                       "out of memory: activations of %u tokens take %llu MB; use a smaller -b",
                       p->n_batch, (unsigned long long)(bytes >> 20));
    if (lay_out(s, p, s->memory, &bytes, e) != 0)
        return -1;
    memset(s->n_past, 0, p->n_seq * sizeof *s->n_past);
    memset(s->low, 0, p->n_seq * sizeof *s->low);
    return 0;
}

/* The factors of longrope are chosen once: the keys of a session all rotate alike. */
static bool is_long(const fy_model *m, uint32_t n_ctx)
{
    const uint32_t known = m->hp.rope_orig_ctx != 0 ? m->hp.rope_orig_ctx : m->hp.n_ctx_train;
    return fy_bound(&m->once, FY_T_ROPE_LONG) && n_ctx > known;
}

bool fy_session_has_long_rope(const fy_session *s)
{
    return is_long(s->model, s->n_ctx);
}

static const float *rope_factors(const fy_model *m, uint32_t n_ctx)
{
    if (!fy_bound(&m->once, FY_T_ROPE_LONG))
        return fy_vector(&m->once, FY_T_ROPE_FREQS);
    return fy_vector(&m->once, is_long(m, n_ctx) ? FY_T_ROPE_LONG : FY_T_ROPE_SHORT);
}

static int take_cache(fy_session *s, const fy_session_params *p, fy_err *e)
{
    const fy_model *m = s->model;
    const fy_kv_params shape = kv_params(m, p);
    s->n_ring = shape.n_ring;
    if (m->chain == NULL)
        return kv_init(&s->kv, &m->hp, &shape, e) != 0 ||
                       fy_states_init(&s->states, &m->hp, p->n_seq, e) != 0 ||
                       (p->snapshots && fy_snapshots_init(s, e) != 0)
                   ? -1
                   : 0;
    s->chain = fy_chain_run_new(m->chain, &m->hp, p->type_k, p->n_threads, e);
    if (s->chain == NULL)
        return -1;
    return fy_graph_has_states(&m->hp) ? fy_states_init_of_graphs(&s->states, e) : 0;
}

const fy_chain_run *fy_session_chain(const fy_session *s)
{
    return s->chain;
}

bool fy_session_on_npu(const fy_session *s)
{
    return s->chain != NULL && strcmp(fy_model_backend(s->model), FY_GRAPH_CPU_NAME) != 0;
}

fy_session *fy_session_new(const fy_model *m, const fy_session_params *p, fy_err *e)
{
    fy_session_params full;
    if (complete_params(m, p, &full, e) != 0)
        return NULL;
    fy_session *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fy_nomem(e);
        return NULL;
    }
    s->model = m;
    s->d.model = m;
    s->d.sparse = full.sparse;
    s->d.sparse_threshold = full.sparse_threshold;
    s->pass = m->chain != NULL ? &fy_pass_graphs : &fy_pass_whole;
    s->n_ctx = full.n_ctx;
    s->n_batch = full.n_batch;
    s->n_seq = full.n_seq;
    s->logit_rows = logit_rows(&full);
    if (take_memory(s, &full, e) != 0 || take_cache(s, &full, e) != 0)
        goto fail;
    fy_backend_params b = backend_params(m, &full);
    s->d.backend = fy_backend_new(&b, e);
    if (s->d.backend == NULL)
        goto fail;
    fy_rope_init(&s->rope, &m->hp, rope_factors(m, full.n_ctx), s->rope.rate);
    if (m->hp.rope_theta_swa != 0)
        fy_rope_init_swa(&s->rope_swa, &m->hp, s->rope_swa.rate);
    return s;
fail:
    fy_session_free(s);
    return NULL;
}

void fy_session_free(fy_session *s)
{
    if (s == NULL)
        return;
    fy_backend_free(s->d.backend);
    fy_chain_run_free(s->chain);
    kv_release(&s->kv);
    fy_states_release(&s->states);
    fy_snapshots_release(s);
    free(s->memory);
    free(s);
}

uint32_t fy_session_n_ctx(const fy_session *s)
{
    return s->n_ctx;
}

uint32_t fy_session_n_batch(const fy_session *s)
{
    return s->n_batch;
}

uint32_t fy_session_n_logits(const fy_session *s)
{
    return s->logit_rows;
}

double fy_session_neuron_share(const fy_session *s)
{
    return s->d.n_neurons > 0 ? (double)s->d.n_kept / (double)s->d.n_neurons : NAN;
}

uint32_t fy_session_n_seq(const fy_session *s)
{
    return s->n_seq;
}

uint32_t fy_session_seq_n_past(const fy_session *s, uint32_t seq)
{
    return seq < s->n_seq ? s->n_past[seq] : 0;
}

uint32_t fy_session_n_past(const fy_session *s)
{
    return s->n_past[0];
}

void fy_session_rewind(fy_session *s, uint32_t n_past)
{
    fy_session_seq_rewind(s, 0, n_past);
}
