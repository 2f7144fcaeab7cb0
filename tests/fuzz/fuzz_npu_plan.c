/* Plans for an NPU: bytes become the shape of a model, a chip, a recipe and a request, each number
 * anything that its reader lets through. A plan that fits keeps the limits, whatever was asked for.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/npu/npu_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    const uint8_t *p;
    size_t n;
} bytes;

/* The next number within the bounds: a byte of how it is scaled, four of what it is. */
static uint32_t number(bytes *b, uint32_t least, uint32_t most)
{
    uint64_t v = 0;
    uint8_t raw[5] = {0};
    const size_t n = b->n < sizeof raw ? b->n : sizeof raw;
    memcpy(raw, b->p, n);
    b->p += n;
    b->n -= n;
    for (int i = 1; i < 5; i++)
        v = v << 8 | raw[i];
    v >>= raw[0] % 32;
    return least + (uint32_t)(v % ((uint64_t)most - least + 1));
}

enum { MOST_LAYERS = 40 };

static fy_hparams any_hparams(bytes *b)
{
    fy_hparams hp = {.n_layer = number(b, 1, MOST_LAYERS),
                     .n_embd = number(b, 1, INT32_MAX),
                     .n_ff = number(b, 1, INT32_MAX),
                     .n_vocab = number(b, 1, INT32_MAX),
                     .n_ctx_train = number(b, 1, INT32_MAX),
                     .n_head = number(b, 1, INT32_MAX / 4)};
    const uint32_t widest = INT32_MAX / 4 / hp.n_head; /* as fy_hparams_check wants it */
    hp.head_dim = number(b, 1, widest);
    hp.head_dim_v = number(b, 1, widest);
    hp.n_head_kv = number(b, 1, hp.n_head);
    hp.n_rot = number(b, 0, hp.head_dim);
    hp.n_swa = number(b, 0, INT32_MAX);
    hp.full_layers.word[0] = number(b, 0, UINT32_MAX);
    hp.nope_layers.word[0] = number(b, 0, UINT32_MAX);
    return hp;
}

static void put(fy_npu_model *m, fy_slot slot, uint32_t layer, bool per_layer, uint64_t n_out,
                uint64_t n_in)
{
    /* A reader has checked that all tensors together are a file. */
    m->tensors[m->n_tensors++] = (fy_npu_tensor){.slot = slot,
                                                 .layer = layer,
                                                 .per_layer = per_layer,
                                                 .matrix = n_out > 1,
                                                 .n_out = n_out,
                                                 .n_in = n_in,
                                                 .file_bytes = (n_out * n_in) >> 10};
}

static fy_npu_model any_model(bytes *b)
{
    fy_npu_model m = {.family = fy_families[0], .hp = any_hparams(b)};
    const fy_hparams *hp = &m.hp;
    m.tied = number(b, 0, 1);
    m.tensors = calloc(4 + 8 * (size_t)hp->n_layer, sizeof *m.tensors);
    if (m.tensors == NULL)
        abort();
    put(&m, FY_T_TOKEN_EMBD, 0, false, hp->n_vocab, hp->n_embd);
    put(&m, FY_T_OUTPUT_NORM, 0, false, 1, hp->n_embd);
    if (!m.tied)
        put(&m, FY_T_OUTPUT, 0, false, hp->n_vocab, hp->n_embd);
    if (number(b, 0, 7) == 0)
        put(&m, FY_T_POSITION_EMBD, 0, false, hp->n_ctx_train, hp->n_embd);
    for (uint32_t l = 0; l < hp->n_layer; l++) {
        put(&m, FY_T_ATTN_NORM, l, true, 1, hp->n_embd);
        put(&m, FY_T_ATTN_Q, l, true, fy_dim_of(hp, FY_D_Q), hp->n_embd);
        put(&m, FY_T_ATTN_K, l, true, fy_dim_of(hp, FY_D_K), hp->n_embd);
        put(&m, FY_T_ATTN_V, l, true, fy_dim_of(hp, FY_D_V), hp->n_embd);
        put(&m, FY_T_ATTN_OUT, l, true, hp->n_embd, fy_dim_of(hp, FY_D_QV));
        put(&m, FY_T_FFN_UP, l, true, hp->n_ff, hp->n_embd);
        put(&m, FY_T_FFN_DOWN, l, true, hp->n_embd, hp->n_ff);
    }
    return m;
}

static void check_fit(const fy_npu_plan *p)
{
    const fy_soc *s = p->params.soc;
    uint64_t used[16] = {0}, all = 0;
    uint32_t layer = 0, token = 0;
    for (uint32_t i = 0; i < p->n_chunks + p->n_heads; i++) {
        const fy_npu_chunk *q = i < p->n_chunks ? &p->chunks[i] : &p->heads[i - p->n_chunks];
        if (q->file_bytes > s->file_bytes || q->bytes > s->context_bytes ||
            q->session >= s->n_sessions || q->first_layer != (i < p->n_chunks ? layer : 0) ||
            q->first_token != (i < p->n_chunks ? 0 : token))
            abort();
        layer = i < p->n_chunks ? q->end_layer : layer;
        token = q->end_token;
        used[q->session] += q->bytes;
        all += q->bytes;
        if (used[q->session] > s->session_bytes)
            abort();
    }
    if (layer != p->params.n_layers || token == 0 || p->npu_peak < all || p->n_cache == 0 ||
        (p->params.memory_bytes != 0 && p->npu_peak > p->params.memory_bytes))
        abort();
}

static void plan_it(const fy_npu_model *m, const fy_npu_params *p)
{
    fy_npu_plan plan;
    fy_npu_suggestion s;
    fy_err e = {0};
    bool fits;
    if (fy_npu_plan_make(m, p, &plan, &e) != 0) {
        if (e.code != FY_EARG)
            abort();
        return;
    }
    if (plan.fits)
        check_fit(&plan);
    else if (plan.limit == FY_NPU_LIMIT_NONE || plan.why.msg[0] == '\0')
        abort();
    if (fy_npu_suggest(m, p, NULL, &s, &e) != 0 ||
        (s.found && (fy_npu_plan_fits(m, &s.params, &fits, &e) != 0 || !fits)))
        abort();
    fy_npu_plan_release(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char name[] = "any";
    bytes b = {data, size};
    fy_npu_model m = any_model(&b);
    fy_npu_recipe r = {
        .name = name, .title = name, .type = (fy_npu_type)number(&b, 0, FY_NPU_TYPE_COUNT - 1)};
    r.kv_bits = number(&b, 0, 1) ? 8 : 16;
    r.float_core = fy_npu_type_is_float(r.type);
    fy_soc soc = {.name = name,
                  .htp_arch = number(&b, 60, 99),
                  .vtcm_mb = number(&b, 0, 64),
                  .n_sessions = number(&b, 1, 16)};
    soc.session_bytes = (uint64_t)number(&b, 64, 16384) << 20;
    soc.context_bytes = soc.session_bytes / number(&b, 1, 8);
    soc.file_bytes = soc.context_bytes / number(&b, 1, 8);
    soc.memory_bytes = (uint64_t)number(&b, 0, 1 << 20) << 20;
    fy_npu_params p = {.soc = &soc,
                       .recipe = &r,
                       .n_ctx = number(&b, 0, UINT32_MAX),
                       .n_batches = number(&b, 0, FY_NPU_BATCHES + 1),
                       .n_chunks = number(&b, 0, MOST_LAYERS),
                       .n_layers = number(&b, 0, MOST_LAYERS)};
    for (uint32_t i = 0; i < p.n_batches && i < FY_NPU_BATCHES; i++)
        p.batch[i] = number(&b, 0, UINT32_MAX);
    plan_it(&m, &p);
    fy_npu_model_release(&m);
    return 0;
}
