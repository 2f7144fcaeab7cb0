#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/math.h"
#include "base/thread.h"
#include "model/forward.h"

enum { DEFAULT_CTX = 4096, DEFAULT_BATCH = 512 };

/* What the graphs of a model have fixed. */
static int check_graphs(const fy_model *m, fy_session_params *p, fy_err *e)
{
    const fy_chain *c = m->chain;
    const uint32_t known = fy_model_max_ctx(m);
    if (p->n_ctx == 0)
        p->n_ctx = c->n_cache < known ? c->n_cache : known;
    if (p->n_ctx > c->n_cache)
        return fy_fail(e, FY_EFIT,
                       "context of %u positions, but the graphs have %u (cache_size; context_size "
                       "is %u); use -c %u or less, or chunk the model again with a larger -c",
                       p->n_ctx, c->n_cache, c->n_ctx, c->n_cache);
    if (p->n_seq > 1)
        return fy_fail(e, FY_EARG, "%u sequences, but graphs of fixed shape hold one", p->n_seq);
    if (p->type_k != p->type_v || p->type_k == FY_Q8_0)
        return fy_fail(e, FY_EARG,
                       "KV cache of types %s and %s: that of the graphs is f16, or f32 for both "
                       "(-ctk f32 -ctv f32)",
                       fy_type_name(p->type_k), fy_type_name(p->type_v));
    if (p->n_batch == 0 || p->n_batch > fy_chain_max_batch(c))
        p->n_batch = fy_chain_max_batch(c);
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
    if (out->n_ctx == 0)
        out->n_ctx = trained < DEFAULT_CTX ? trained : DEFAULT_CTX;
    if (out->n_ctx > INT32_MAX)
        return fy_fail(e, FY_EARG, "context of %u positions, expected at most %d", out->n_ctx,
                       INT32_MAX);
    const uint32_t most = fy_model_max_ctx(m);
    if (out->n_ctx > most)
        return fy_fail(e, FY_EFIT,
                       "context of %u positions, but the model knows %u only: it has learned each "
                       "of them (position_embd); use -c %u or less",
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
        if (types[i] != FY_F32 && types[i] != FY_F16 && types[i] != FY_Q8_0)
            return fy_fail(e, FY_EARG, "KV cache of type %s, expected f32, f16 or q8_0",
                           fy_type_name(types[i]));
    }
    return 0;
}

/* Of a model of graphs the host only looks up embeddings and finishes logits: a pool of threads
 * would be in the way of the one that computes the graphs. */
static fy_backend_params backend_params(const fy_model *m, const fy_session_params *p)
{
    const fy_hparams *hp = &m->hp;
    if (m->chain != NULL)
        return (fy_backend_params){.n_threads = 1, .n_tokens = p->n_batch};
    return (fy_backend_params){.n_threads = p->n_threads,
                               .n_tokens = p->n_batch,
                               .q8_len = m->q8_len,
                               .head_dim =
                                   hp->head_dim > hp->head_dim_v ? hp->head_dim : hp->head_dim_v};
}

static uint32_t logit_rows(const fy_session_params *p)
{
    return p->n_seq > FY_LOGIT_ROWS ? p->n_seq : FY_LOGIT_ROWS;
}

/* Of a model of graphs the host computes only what goes in and what comes out; x is a tensor of the
 * graphs. */
static void lay_out_host(fy_activations *a, const fy_hparams *hp, uint64_t n, fy_layout *c)
{
    *a = (fy_activations){0};
    a->at = fy_lay_out(c, n, 1, sizeof *a->at);
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
        lay_out_host(&s->d.act, hp, n, &c);
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
    *out = (fy_session_plan){.kv_bytes = kv, .scratch_bytes = act + io + backend, .params = full};
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

/* The factors of longrope are chosen once: the keys of a session are all turned alike. */
static const float *rope_factors(const fy_model *m, uint32_t n_ctx)
{
    const uint32_t known = m->hp.rope_orig_ctx != 0 ? m->hp.rope_orig_ctx : m->hp.n_ctx_train;
    if (!fy_bound(&m->once, FY_T_ROPE_LONG))
        return fy_vector(&m->once, FY_T_ROPE_FREQS);
    return fy_vector(&m->once, n_ctx > known ? FY_T_ROPE_LONG : FY_T_ROPE_SHORT);
}

static int take_cache(fy_session *s, const fy_session_params *p, fy_err *e)
{
    const fy_model *m = s->model;
    if (m->chain == NULL)
        return fy_kv_init(&s->kv, &m->hp, p->n_seq, p->n_ctx, p->type_k, p->type_v, e);
    s->chain = fy_chain_run_new(m->chain, &m->hp, p->type_k, p->n_threads, e);
    return s->chain != NULL ? 0 : -1;
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
    fy_kv_release(&s->kv);
    free(s->memory);
    free(s);
}

uint32_t fy_session_n_ctx(const fy_session *s)
{
    return s->n_ctx;
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
        fy_kv_copy(&s->kv, s->model->hp.n_layer, from, to, n_past);
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
