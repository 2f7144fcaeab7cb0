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

static int part_bytes(const fy_hparams *hp, uint32_t n_seq, uint32_t n_ctx, uint32_t dim,
                      fy_type type, uint64_t *layer_bytes, uint64_t *bytes, fy_err *e)
{
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
    if (!fy_mul_u64(hp->n_head_kv, n_ctx, &rows) || !fy_mul_u64(rows, n_seq, &rows) ||
        !fy_mul_u64(n, rows, &n) || !fy_align_u64(n, ALIGN, layer_bytes) ||
        !fy_mul_u64(*layer_bytes, hp->n_layer, bytes) || *bytes > SIZE_MAX / 4)
        return fy_fail(
            e, FY_EFIT,
            "a KV cache of %llu positions does not fit the address space; use a smaller -c",
            (unsigned long long)n_seq * n_ctx);
    return 0;
}

int fy_kv_bytes(const fy_hparams *hp, uint32_t n_seq, uint32_t n_ctx, fy_type type_k,
                fy_type type_v, uint64_t *bytes, fy_err *e)
{
    uint64_t layer, k, v;
    if (part_bytes(hp, n_seq, n_ctx, hp->head_dim, type_k, &layer, &k, e) != 0 ||
        part_bytes(hp, n_seq, n_ctx, hp->head_dim_v, type_v, &layer, &v, e) != 0)
        return -1;
    *bytes = k + v;
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
    *kv = (fy_kv){0};
}

static int kv_init(fy_kv *kv, const fy_hparams *hp, uint32_t n_seq, uint32_t n_ctx, fy_type type_k,
                   fy_type type_v, fy_err *e)
{
    uint64_t layer_k, layer_v, k, v;
    *kv = (fy_kv){.shape = {.type_k = type_k,
                            .type_v = type_v,
                            .n_ctx = n_ctx,
                            .n_head_kv = hp->n_head_kv,
                            .head_dim = hp->head_dim,
                            .head_dim_v = hp->head_dim_v}};
    if (part_bytes(hp, n_seq, n_ctx, hp->head_dim, type_k, &layer_k, &k, e) != 0 ||
        part_bytes(hp, n_seq, n_ctx, hp->head_dim_v, type_v, &layer_v, &v, e) != 0)
        return -1;
    kv->layer_k_bytes = (size_t)layer_k;
    kv->layer_v_bytes = (size_t)layer_v;
    kv->k = take(k);
    kv->v = take(v);
    if (kv->k == NULL || kv->v == NULL) {
        kv_release(kv);
        return fy_fail(e, FY_EFIT,
                       "out of memory: a KV cache of %llu positions takes %llu MB; use a smaller "
                       "-c",
                       (unsigned long long)n_seq * n_ctx, (unsigned long long)((k + v) >> 20));
    }
    return 0;
}

fy_kv_layer fy_kv_at(const fy_kv *kv, uint32_t layer)
{
    fy_kv_layer l = kv->shape;
    l.k = kv->k + layer * kv->layer_k_bytes;
    l.v = kv->v + layer * kv->layer_v_bytes;
    return l;
}

static void copy_rows(uint8_t *cache, const fy_kv_layer *shape, fy_type type, int64_t dim,
                      uint32_t from, uint32_t to, uint32_t n)
{
    const size_t row = (size_t)fy_type_row_bytes(type, (uint64_t)dim);
    const size_t head = row * (size_t)shape->n_ctx, seq = head * (size_t)shape->n_head_kv;
    for (size_t h = 0; h < (size_t)shape->n_head_kv; h++)
        memcpy(cache + to * seq + h * head, cache + from * seq + h * head, n * row);
}

/* Positions [0, n) of one sequence become those of another. */
static void kv_copy(fy_kv *kv, uint32_t n_layer, uint32_t from, uint32_t to, uint32_t n)
{
    for (uint32_t i = 0; i < n_layer; i++) {
        const fy_kv_layer l = fy_kv_at(kv, i);
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
    double low = floor(yarn_pair_of(hp, (double)hp->yarn_beta_fast));
    double high = ceil(yarn_pair_of(hp, (double)hp->yarn_beta_slow));
    low = fmax(low, 0);
    high = fmin(high, (double)hp->n_rot - 1);
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
        .n_rot = hp->n_rot, .rope_theta = hp->rope_theta_swa, .rope_attn_factor = 1};
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

enum { DEFAULT_CTX = 4096, DEFAULT_BATCH = 512 };

/* What the graphs of a model have fixed. */
static int check_graphs(const fy_model *m, fy_session_params *p, fy_err *e)
{
    const fy_chain *c = m->chain;
    const uint32_t known = fy_model_max_ctx(m);
    if (p->n_ctx == 0)
        p->n_ctx = known;
    const uint32_t room = c->n_cache - fy_chain_first_position(c);
    if (p->n_ctx > room)
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

/* The parameters with every 0 replaced and every value checked. */
static int complete_params(const fy_model *m, const fy_session_params *p, fy_session_params *out,
                           fy_err *e)
{
    *out = *p;
    const uint32_t trained = m->hp.n_ctx_train;
    if (m->chain != NULL && check_graphs(m, out, e) != 0)
        return -1;
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
    const fy_hparams *hp = &m->hp;
    if (is_host_alone(m))
        return (fy_backend_params){.n_threads = 1, .n_tokens = p->n_batch};
    return (fy_backend_params){.n_threads = p->n_threads,
                               .n_tokens = p->n_batch,
                               .q8_len = m->q8_len,
                               .head_dim =
                                   hp->head_dim > hp->head_dim_v ? hp->head_dim : hp->head_dim_v};
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
    if (hp->rope_theta_swa != 0)
        a->angles_swa = fy_lay_out(c, n, hp->n_rot, sizeof *a->angles_swa);
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
        fy_lay_out(&c, hp->rope_theta_swa != 0, fy_dim_of(hp, FY_D_ROT2), sizeof *s->rope_swa.rate);
    s->n_past = fy_lay_out(&c, p->n_seq, 1, sizeof *s->n_past);
    s->next = fy_lay_out(&c, p->n_seq, 1, sizeof *s->next);
    s->end = fy_lay_out(&c, p->n_seq, 1, sizeof *s->end);
    s->ids = fy_lay_out(&c, n, 1, sizeof *s->ids);
    s->pos = fy_lay_out(&c, n, 1, sizeof *s->pos);
    s->wanted = fy_lay_out(&c, n, 1, sizeof *s->wanted);
    s->logits = fy_lay_out(&c, logit_rows(p), hp->n_vocab, sizeof *s->logits);
    if (s->model->chain != NULL)
        lay_out_host(&s->d.act, s->model, n, &c);
    else
        fy_activations_lay_out(&s->d.act, hp, n, (uint64_t)s->model->ff_len, &c);
    if (c.overflow || c.used > SIZE_MAX / 2)
        return fy_fail(e, FY_EFIT,
                       "activations of %u tokens do not fit the address space; use a smaller -b",
                       p->n_batch);
    *bytes = c.used;
    return 0;
}

int fy_session_plan_of(const fy_model *m, const fy_session_params *p, fy_session_plan *out,
                       fy_err *e)
{
    fy_session_params full;
    fy_session counted = {.model = m};
    uint64_t kv, act, backend, io = 0;
    if (complete_params(m, p, &full, e) != 0 || lay_out(&counted, &full, NULL, &act, e) != 0)
        return -1;
    if (m->chain != NULL
            ? fy_chain_run_bytes(m->chain, &m->hp, full.type_k, full.n_threads, &kv, &io, e) != 0
            : fy_kv_bytes(&m->hp, full.n_seq, full.n_ctx, full.type_k, full.type_v, &kv, e) != 0)
        return -1;
    fy_backend_params b = backend_params(m, &full);
    if (fy_backend_bytes(&b, &backend, e) != 0)
        return -1;
    const bool fixed = m->chain != NULL && m->chain->fixed;
    *out = (fy_session_plan){
        .kv_bytes = kv,
        .scratch_bytes = act + io + backend,
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
    if (m->chain == NULL)
        return kv_init(&s->kv, &m->hp, p->n_seq, p->n_ctx, p->type_k, p->type_v, e);
    s->chain = fy_chain_run_new(m->chain, &m->hp, p->type_k, p->n_threads, e);
    return s->chain != NULL ? 0 : -1;
}

const fy_chain_run *fy_session_chain(const fy_session *s)
{
    return s->chain;
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

uint32_t fy_session_n_seq(const fy_session *s)
{
    return s->n_seq;
}

uint32_t fy_session_seq_n_past(const fy_session *s, uint32_t seq)
{
    return seq < s->n_seq ? s->n_past[seq] : 0;
}

void fy_session_seq_rewind(fy_session *s, uint32_t seq, uint32_t n_past)
{
    if (seq < s->n_seq && n_past < s->n_past[seq])
        s->n_past[seq] = n_past;
}

int fy_session_seq_copy(fy_session *s, uint32_t from, uint32_t to, uint32_t n_past, fy_err *e)
{
    if (from >= s->n_seq || to >= s->n_seq)
        return fy_fail(e, FY_EARG, "sequence %u, expected 0 to %u", from >= s->n_seq ? from : to,
                       s->n_seq - 1);
    if (n_past > s->n_past[from])
        return fy_fail(e, FY_EARG, "%u positions of sequence %u asked for, it holds %u", n_past,
                       from, s->n_past[from]);
    if (from != to)
        kv_copy(&s->kv, s->model->hp.n_layer, from, to, n_past);
    s->n_past[to] = n_past;
    return 0;
}

uint32_t fy_session_n_past(const fy_session *s)
{
    return s->n_past[0];
}

void fy_session_rewind(fy_session *s, uint32_t n_past)
{
    fy_session_seq_rewind(s, 0, n_past);
}
