/* Random models on random chips, thousands of them, always the same ones. What a plan says is
 * computed again here from the formulas of docs/npu.md, tensor by tensor and without its code, but
 * for what composed graphs tell (test_npu_ops.c): a plan that fits keeps every limit, cuts where no
 * other cut is better, and needs every chunk; a plan that does not has a suggestion that does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/workspace/npu_fixture.h"
#include "workspace/npu/npu_ops.h"

enum { N_CASES = 1500, SEED = 20240611, MOST_RULES = 3, BRUTE_LAYERS = 10 };

/* --- chance ----------------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t chance(void)
{
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static uint32_t within(uint32_t least, uint32_t most)
{
    return least + (uint32_t)(chance() % ((uint64_t)most - least + 1));
}

static bool one_in(uint32_t n)
{
    return chance() % n == 0;
}

#define ANY_OF(list) ((list)[chance() % (sizeof(list) / sizeof(list)[0])])

/* --- a case ----------------------------------------------------------------------------------- */

typedef struct {
    fy_npu_model m;
    fy_soc soc;
    fy_npu_rule rules[MOST_RULES];
    fy_slot slots[MOST_RULES][2];
    fy_npu_recipe recipe;
    fy_npu_params p;
} one_case;

static fy_npu_model any_model(void)
{
    static const uint32_t head_dims[] = {16, 32, 64, 80, 96, 128, 256};
    static const uint32_t groups[] = {1, 1, 2, 4, 8};
    static const uint32_t vocabs[] = {105, 1000, 32000, 49152, 128256, 151936, 256000, 1000003};
    const uint32_t n_head_kv = within(1, 16), n_head = n_head_kv * ANY_OF(groups);
    const uint32_t head_dim = ANY_OF(head_dims), n_embd = 16 * within(4, one_in(3) ? 512 : 128);
    const uint32_t n_layer = one_in(4) ? within(11, 48) : within(1, BRUTE_LAYERS);
    fy_hparams hp = npu_hparams(n_layer, n_embd, 1, 1, 16 * within(4, n_embd / 4), ANY_OF(vocabs));
    hp.n_head = n_head;
    hp.n_head_kv = n_head_kv;
    hp.head_dim = head_dim;
    hp.head_dim_v = one_in(6) ? head_dim / 2 : head_dim;
    hp.n_rot = one_in(5) ? head_dim / 2 : head_dim;
    hp.n_ctx_train = one_in(4) ? within(1, 4096) : 131072;
    if (one_in(3)) {
        hp.n_swa = within(16, 4096);
        hp.full_layers = fy_layers_of((fy_layer_pattern){within(2, 6), one_in(2)}, n_layer);
        hp.rope_theta_swa = one_in(2) ? 10000 : 0;
    }
    if (one_in(5))
        hp.nope_layers = fy_layers_of((fy_layer_pattern){4, false}, n_layer);
    if (one_in(9))
        hp.n_rot = 0;
    return npu_model(&hp, (npu_shape){.tied = one_in(2),
                                      .biases = one_in(3),
                                      .no_gate = one_in(4),
                                      .learned = one_in(8)});
}

static fy_soc any_soc(void)
{
    static const uint32_t archs[] = {66, 68, 69, 73, 75, 79, 81};
    static const uint32_t vtcm[] = {0, 2, 4, 8, 8, 8};
    fy_soc s = npu_soc();
    s.htp_arch = ANY_OF(archs);
    s.vtcm_mb = ANY_OF(vtcm);
    s.n_sessions = within(1, 4);
    s.session_bytes = within(64, 4000) * NPU_MIB;
    s.context_bytes = one_in(8) ? 5 * NPU_GIB : s.session_bytes * within(2, 10) / 10;
    s.file_bytes = one_in(2) ? 2 * NPU_GIB : s.context_bytes * within(3, 10) / 10;
    s.memory_bytes = one_in(4) ? 0 : within(2500, 24000) * NPU_MIB;
    s.no_fp16 = one_in(10);
    return s;
}

static void any_recipe(one_case *c)
{
    static const fy_slot slots[] = {FY_T_ATTN_Q,   FY_T_ATTN_V, FY_T_ATTN_OUT, FY_T_FFN_UP,
                                    FY_T_FFN_DOWN, FY_T_OUTPUT, FY_T_OUTPUT};
    const fy_npu_type type = (fy_npu_type)within(0, FY_NPU_TYPE_COUNT - 1);
    c->recipe = npu_recipe(type, !fy_npu_type_is_float(type) && one_in(2) ? 8 : 16);
    c->recipe.float_core |= c->recipe.kv_bits == 16 && one_in(8);
    c->recipe.rules = c->rules;
    c->recipe.n_rules = within(0, MOST_RULES);
    for (size_t i = 0; i < c->recipe.n_rules; i++) {
        const uint32_t first = one_in(2) ? 0 : within(0, 12);
        c->slots[i][0] = ANY_OF(slots);
        c->slots[i][1] = ANY_OF(slots);
        c->rules[i] = (fy_npu_rule){.first_layer = first,
                                    .end_layer = one_in(2) ? UINT32_MAX : first + within(1, 12),
                                    .slots = c->slots[i],
                                    .n_slots = within(0, 2),
                                    .type = (fy_npu_type)within(0, FY_NPU_TYPE_COUNT - 1)};
    }
}

static void any_case(one_case *c)
{
    static const uint32_t contexts[] = {64, 128, 129, 512, 2048, 2048, 4096, 8192, 32768, 100000};
    static const uint32_t batches[] = {1, 4, 8, 12, 32, 64, 128, 128, 512};
    c->m = any_model();
    c->soc = any_soc();
    any_recipe(c);
    c->p = (fy_npu_params){.soc = &c->soc, .recipe = &c->recipe, .n_ctx = ANY_OF(contexts)};
    for (uint32_t n = within(0, 3); c->p.n_batches < n;) {
        const uint32_t b = ANY_OF(batches);
        bool twice = false;
        for (uint32_t i = 0; i < c->p.n_batches; i++)
            twice = twice || c->p.batch[i] == b;
        if (!twice)
            c->p.batch[c->p.n_batches++] = b;
    }
    c->p.kv_bits = one_in(2) ? 0 : one_in(2) ? 8 : 16;
    c->p.n_chunks = one_in(3) ? within(1, one_in(2) ? 1 : c->m.hp.n_layer) : 0;
    c->p.n_layers = one_in(9) ? within(c->p.n_chunks > 1 ? c->p.n_chunks : 1, c->m.hp.n_layer) : 0;
    c->p.memory_bytes = one_in(9) ? within(2300, 9000) * NPU_MIB : 0;
}

static size_t n_case;

/* --- the formulas ----------------------------------------------------------------------------- */

static const struct {
    uint64_t bits, block, scale, arch;
} types[] = {
    [FY_NPU_16A4W] = {4, 0, 4, 0},     [FY_NPU_LPBQ_16] = {4, 16, 4, 69},
    [FY_NPU_LPBQ_32] = {4, 32, 4, 69}, [FY_NPU_LPBQ_64] = {4, 64, 4, 69},
    [FY_NPU_16A8W] = {8, 0, 4, 0},     [FY_NPU_8A4W] = {4, 0, 4, 0},
    [FY_NPU_FP16] = {16, 0, 0, 73},    [FY_NPU_FP16A8W] = {8, 0, 4, 73},
    [FY_NPU_FP16A4W] = {4, 0, 4, 73},
};

static uint64_t up(uint64_t v, uint64_t to)
{
    return (v + to - 1) / to;
}

static fy_npu_type type_of(const fy_npu_recipe *r, fy_slot slot, uint32_t layer)
{
    fy_npu_type t = r->type;
    for (size_t i = 0; i < r->n_rules; i++) {
        const fy_npu_rule *u = &r->rules[i];
        bool named = u->n_slots == 0;
        for (size_t k = 0; k < u->n_slots; k++)
            named = named || u->slots[k] == slot;
        const bool all = u->first_layer == 0 && u->end_layer == UINT32_MAX;
        if (named && (slot == FY_T_OUTPUT ? all : layer >= u->first_layer && layer < u->end_layer))
            t = u->type;
    }
    return t;
}

static uint64_t matrix(const fy_npu_recipe *r, fy_slot slot, uint32_t layer, uint64_t n_out,
                       uint64_t n_in)
{
    const fy_npu_type t = type_of(r, slot, layer);
    const uint64_t row = up(n_in, 32) * 32;
    const uint64_t blocks = types[t].block != 0 ? up(row, types[t].block) : 0;
    return up(n_out, 32) * 32 * (row * types[t].bits / 8 + blocks + types[t].scale);
}

/* Rows of a head are a matrix of their own. */
static uint64_t parts(const fy_hparams *hp, fy_slot slot)
{
    return slot == FY_T_ATTN_Q                          ? hp->n_head
           : slot == FY_T_ATTN_K || slot == FY_T_ATTN_V ? hp->n_head_kv
                                                        : 1;
}

static uint64_t tables(uint64_t n_out)
{
    return 12 * 32 * up(n_out, 32);
}

static fy_npu_counter graphs_of(const one_case *c, const fy_npu_params *p)
{
    return (fy_npu_counter){.model = &c->m,
                            .params = p,
                            .n_cache = p->n_ctx > p->batch[0] ? p->n_ctx - p->batch[0] : 0};
}

/* Of a layer; those of the case and parameters that were asked for last are remembered. */
static uint64_t layer_nodes(const one_case *c, const fy_npu_params *p, uint32_t layer)
{
    static fy_npu_params last;
    static size_t n_last = SIZE_MAX;
    static uint64_t known[64];
    if (n_last != n_case || memcmp(&last, p, sizeof last) != 0) {
        memset(known, 0, sizeof known);
        last = *p;
        n_last = n_case;
    }
    const fy_npu_counter graphs = graphs_of(c, p);
    if (known[layer] == 0)
        assert_int_equal(fy_npu_layer_ops(&graphs, layer, &known[layer], NULL), 0);
    return known[layer];
}

/* The whole plan's parameters are those that the plan says it took. */
static uint64_t copies(const fy_npu_params *p)
{
    return p->soc->htp_arch >= 73 ? 1 : p->n_batches;
}

static fy_npu_chunk chunk(const one_case *c, const fy_npu_params *p, uint32_t first, uint32_t end)
{
    const fy_hparams *hp = &c->m.hp;
    const uint64_t b = p->batch[0], x = p->n_ctx, kv = p->kv_bits / 8, cache = x > b ? x - b : 0;
    fy_npu_chunk q = {.first_layer = first, .end_layer = end};
    bool mask[2] = {false}, turn[2] = {false};
    for (size_t i = 0; i < c->m.n_tensors; i++) {
        const fy_npu_tensor *t = &c->m.tensors[i];
        if (!t->per_layer || t->layer < first || t->layer >= end)
            continue;
        const uint64_t n = parts(hp, t->slot), rows = t->n_out / n;
        q.weights +=
            t->matrix ? n * matrix(p->recipe, t->slot, t->layer, rows, t->n_in) : 4 * t->n_in;
        q.op_bytes += t->matrix ? n * copies(p) * tables(rows) : 0;
    }
    q.weights *= copies(p);
    q.op_bytes += p->n_batches * 64000;
    for (uint32_t l = first; l < end; l++) {
        const bool window = hp->n_swa > 0 && !fy_layer_in(&hp->full_layers, l);
        mask[window] = true;
        if (hp->n_rot > 0 && !fy_layer_in(&hp->nope_layers, l))
            turn[window && hp->rope_theta_swa != 0] = true;
        q.op_bytes += layer_nodes(c, p, l);
        q.kv_bytes += hp->n_head_kv * cache * (hp->head_dim + hp->head_dim_v) * kv;
        q.io_bytes += hp->n_head_kv * (cache + b) * (hp->head_dim + hp->head_dim_v) * kv;
    }
    q.io_bytes += 2 * b * hp->n_embd * 4 + (mask[0] + mask[1]) * b * x * 2 +
                  (turn[0] + turn[1]) * 2 * b * (hp->n_rot / 2) * 4;
    const uint64_t attention = hp->n_head * (uint64_t)(hp->head_dim + hp->head_dim_v) +
                               hp->n_head_kv * (uint64_t)(hp->head_dim + hp->head_dim_v) +
                               hp->n_head * x;
    const uint64_t network = 3 * (uint64_t)hp->n_ff;
    q.scratch = b * (2 * (attention > network ? attention : network) + 8 * (uint64_t)hp->n_embd);
    q.file_bytes = q.weights + q.op_bytes;
    q.bytes = q.file_bytes + q.io_bytes + q.scratch;
    return q;
}

static fy_npu_chunk head(const one_case *c, const fy_npu_params *p, uint32_t first, uint32_t end)
{
    const uint64_t d = c->m.hp.n_embd, b = p->batch[0], n = end - first;
    fy_npu_chunk q = {.first_token = first, .end_token = end};
    q.weights = copies(p) * (matrix(p->recipe, FY_T_OUTPUT, 0, n, d) + 4 * d);
    const fy_npu_counter graphs = graphs_of(c, p);
    uint64_t nodes, more;
    assert_int_equal(fy_npu_head_ops(&graphs, &nodes, &more, NULL), 0);
    q.op_bytes = p->n_batches * 64000 + copies(p) * tables(n) + nodes + (up(n, 32) - 1) * more;
    q.io_bytes = b * d * 4 + b * n * 4;
    q.scratch = b * (2 * n + 8 * d);
    q.file_bytes = q.weights + q.op_bytes;
    q.bytes = q.file_bytes + q.io_bytes + q.scratch;
    return q;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool keeps(const one_case *c, const fy_npu_chunk *q)
{
    return q->file_bytes <= c->soc.file_bytes &&
           q->bytes <= least(c->soc.context_bytes, c->soc.session_bytes);
}

/* --- what a plan that fits is ----------------------------------------------------------------- */

#define HOLDS(what)                                                \
    do {                                                           \
        if (!(what))                                               \
            fail_msg("case %zu: %s does not hold", n_case, #what); \
    } while (0)

static void same_bytes(const fy_npu_chunk *a, const fy_npu_chunk *b)
{
    HOLDS(a->weights == b->weights);
    HOLDS(a->op_bytes == b->op_bytes);
    HOLDS(a->file_bytes == b->file_bytes);
    HOLDS(a->io_bytes == b->io_bytes);
    HOLDS(a->kv_bytes == b->kv_bytes);
    HOLDS(a->scratch == b->scratch);
    HOLDS(a->bytes == b->bytes);
}

static void check_chunks(const one_case *c, const fy_npu_plan *plan)
{
    uint32_t layer = 0, token = 0;
    for (uint32_t i = 0; i < plan->n_chunks; i++) {
        const fy_npu_chunk *q = &plan->chunks[i];
        HOLDS(q->first_layer == layer && q->end_layer > layer);
        const fy_npu_chunk own = chunk(c, &plan->params, q->first_layer, q->end_layer);
        same_bytes(q, &own);
        layer = q->end_layer;
    }
    for (uint32_t i = 0; i < plan->n_heads; i++) {
        const fy_npu_chunk *q = &plan->heads[i];
        HOLDS(q->first_token == token && q->end_token > token);
        const fy_npu_chunk own = head(c, &plan->params, q->first_token, q->end_token);
        same_bytes(q, &own);
        token = q->end_token;
    }
    HOLDS(layer == plan->params.n_layers);
    HOLDS(token == c->m.hp.n_vocab);
}

static void check_sums(const one_case *c, const fy_npu_plan *plan)
{
    uint64_t used[64] = {0}, all = 0;
    uint64_t embedding = (uint64_t)c->m.hp.n_vocab * c->m.hp.n_embd * 2;
    for (size_t i = 0; i < c->m.n_tensors; i++)
        embedding += c->m.tensors[i].slot == FY_T_POSITION_EMBD ? c->m.tensors[i].file_bytes : 0;
    for (uint32_t i = 0; i < plan->n_chunks + plan->n_heads; i++) {
        const fy_npu_chunk *q =
            i < plan->n_chunks ? &plan->chunks[i] : &plan->heads[i - plan->n_chunks];
        HOLDS(q->session < 64);
        for (uint32_t s = 0; s < q->session; s++) /* the first with room */
            HOLDS(used[s] + q->bytes > c->soc.session_bytes);
        used[q->session] += q->bytes;
        all += q->bytes;
    }
    for (uint32_t s = 0; s < 64; s++)
        HOLDS(used[s] <= c->soc.session_bytes && (used[s] > 0) == (s < plan->n_sessions));
    HOLDS(plan->n_sessions <= c->soc.n_sessions);
    HOLDS(plan->npu_peak == embedding + all + 256 * NPU_MIB);
    if (plan->params.memory_bytes != 0)
        HOLDS(plan->npu_peak + 2 * NPU_GIB <= plan->params.memory_bytes);
}

static void check_limits(const one_case *c, const fy_npu_plan *plan)
{
    const fy_npu_params *p = &plan->params;
    uint64_t widest = p->n_ctx;
    HOLDS(p->n_ctx > p->batch[0] && plan->n_cache == p->n_ctx - p->batch[0]);
    for (uint32_t i = 0; i < plan->n_chunks; i++)
        HOLDS(keeps(c, &plan->chunks[i]));
    for (uint32_t i = 0; i < plan->n_heads; i++)
        HOLDS(keeps(c, &plan->heads[i]));
    for (size_t i = 0; i < c->m.n_tensors; i++) {
        const fy_npu_tensor *t = &c->m.tensors[i];
        if (t->slot == FY_T_POSITION_EMBD)
            HOLDS(p->n_ctx <= t->n_out);
        if (!t->matrix || (!t->per_layer && t->slot != FY_T_OUTPUT))
            continue;
        const fy_npu_type type = type_of(p->recipe, t->slot, t->layer);
        HOLDS(c->soc.htp_arch >= types[type].arch);
        HOLDS(type < FY_NPU_FP16 || !c->soc.no_fp16);
        HOLDS(types[type].block == 0 || t->n_in % types[type].block == 0);
        widest = t->n_in > widest ? t->n_in : widest;
    }
    HOLDS(c->soc.htp_arch >= 73 || p->kv_bits == 8);
    HOLDS(!p->recipe->float_core || (p->kv_bits == 16 && !c->soc.no_fp16));
    HOLDS(c->soc.vtcm_mb == 0 || widest * 128 <= c->soc.vtcm_mb * NPU_MIB);
}

/* The smallest largest chunk of all cuts of layers [first, ...) into n ranges that keep the limits;
 * UINT64_MAX: there is none. */
static uint64_t best(const one_case *c, const fy_npu_params *p, uint32_t first, uint32_t n)
{
    uint64_t found = UINT64_MAX;
    for (uint32_t end = n == 1 ? p->n_layers : first + 1; end + n - 1 <= p->n_layers; end++) {
        const fy_npu_chunk q = chunk(c, p, first, end);
        if (!keeps(c, &q))
            break;
        const uint64_t rest = n == 1 ? 0 : best(c, p, end, n - 1);
        found = least(found, q.bytes > rest ? q.bytes : rest);
    }
    return found;
}

static void check_cut(const one_case *c, const fy_npu_plan *plan)
{
    const fy_npu_params *p = &plan->params;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < plan->n_chunks; i++)
        largest = plan->chunks[i].bytes > largest ? plan->chunks[i].bytes : largest;
    if (p->n_layers <= BRUTE_LAYERS)
        HOLDS(largest == best(c, p, 0, plan->n_chunks));
    if (c->p.n_chunks == 0 && plan->n_chunks > 1) {
        fy_npu_params fewer = *p;
        fy_npu_plan other;
        fewer.n_chunks = plan->n_chunks - 1;
        assert_int_equal(fy_npu_plan_make(&c->m, &fewer, &other, NULL), 0);
        HOLDS(!other.fits);
        HOLDS(other.limit == FY_NPU_LIMIT_CHUNKS || other.limit == FY_NPU_LIMIT_SESSIONS);
        if (other.limit == FY_NPU_LIMIT_CHUNKS && p->n_layers <= BRUTE_LAYERS)
            HOLDS(best(c, p, 0, plan->n_chunks - 1) == UINT64_MAX);
        fy_npu_plan_release(&other);
    }
}

static void check_fit(const one_case *c, const fy_npu_plan *plan)
{
    HOLDS(plan->limit == FY_NPU_LIMIT_NONE && plan->why.msg[0] == '\0');
    check_chunks(c, plan);
    check_sums(c, plan);
    check_limits(c, plan);
    check_cut(c, plan);
}

/* --- what a refusal comes with ---------------------------------------------------------------- */

/* The least that can be asked of the chip, in any recipe. */
static bool nothing_fits(const one_case *c, const fy_npu_recipes *recipes)
{
    for (size_t i = 0; i <= fy_npu_recipes_n(recipes); i++) {
        fy_npu_params p = c->p;
        fy_npu_plan plan;
        const bool own = i == fy_npu_recipes_n(recipes);
        p.recipe = own ? &c->recipe : fy_npu_recipes_at(recipes, i);
        if (!own && p.recipe->n_models > 0)
            continue;
        p.kv_bits = p.recipe->float_core ? 16 : 8;
        p.batch[0] = 1;
        p.n_batches = 1;
        p.n_ctx = 2;
        p.n_chunks = 0;
        p.n_layers = 1;
        assert_int_equal(fy_npu_plan_make(&c->m, &p, &plan, NULL), 0);
        const bool fits = plan.fits;
        fy_npu_plan_release(&plan);
        if (fits)
            return false;
    }
    return true;
}

static void check_changes(const one_case *c, const fy_npu_suggestion *s, const fy_npu_plan *asked)
{
    const fy_npu_params *p = &s->params, *a = &asked->params;
    bool batch = p->n_batches != a->n_batches;
    for (uint32_t i = 0; i < p->n_batches && !batch; i++)
        batch = p->batch[i] != a->batch[i];
    HOLDS((p->n_ctx != a->n_ctx) == s->changed[FY_NPU_CHANGE_CONTEXT]);
    HOLDS((p->recipe != a->recipe) == s->changed[FY_NPU_CHANGE_RECIPE]);
    HOLDS((p->kv_bits != c->p.kv_bits) == s->changed[FY_NPU_CHANGE_KV]);
    HOLDS((p->n_layers != a->n_layers) == s->changed[FY_NPU_CHANGE_LAYERS]);
    HOLDS(batch == s->changed[FY_NPU_CHANGE_BATCH]);
    HOLDS(p->n_chunks == c->p.n_chunks || s->changed[FY_NPU_CHANGE_CHUNKS]);
    HOLDS(p->soc == a->soc && p->memory_bytes == a->memory_bytes);
}

static void check_refusal(one_case *c, const fy_npu_plan *plan, const fy_npu_recipes *recipes,
                          size_t *n_found)
{
    fy_npu_suggestion s;
    fy_str text = {0};
    HOLDS(plan->limit != FY_NPU_LIMIT_NONE && plan->why.code == FY_EFIT &&
          plan->why.msg[0] != '\0');
    assert_int_equal(fy_npu_suggest(&c->m, &c->p, recipes, &s, NULL), 0);
    fy_npu_suggestion_text(&s, &c->m, &text);
    HOLDS(text.len > 0);
    fy_str_release(&text);
    if (!s.found) {
        HOLDS(nothing_fits(c, recipes));
        return;
    }
    ++*n_found;
    fy_npu_plan again;
    const uint32_t n_chunks = c->p.n_chunks;
    assert_int_equal(fy_npu_plan_make(&c->m, &s.params, &again, NULL), 0);
    HOLDS(again.fits);
    check_changes(c, &s, plan);
    c->p.n_chunks = s.params.n_chunks;
    check_fit(c, &again);
    c->p.n_chunks = n_chunks;
    fy_npu_plan_release(&again);
}

static void plans_keep_what_they_say(void **unused)
{
    (void)unused;
    fy_npu_recipes *recipes = npu_own_recipes();
    size_t n_fit = 0, n_found = 0, limits[FY_NPU_LIMIT_FLOOR + 1] = {0}, n_cut = 0;
    state = SEED;
    for (n_case = 0; n_case < N_CASES; n_case++) {
        one_case c;
        fy_npu_plan plan;
        fy_err e = {0};
        any_case(&c);
        if (fy_npu_plan_make(&c.m, &c.p, &plan, &e) != 0)
            fail_msg("case %zu: %s", n_case, e.msg);
        limits[plan.limit]++;
        if (plan.fits) {
            n_fit++;
            n_cut += plan.n_chunks > 1;
            check_fit(&c, &plan);
        } else {
            check_refusal(&c, &plan, recipes, &n_found);
        }
        fy_npu_plan_release(&plan);
        fy_npu_model_release(&c.m);
    }
    /* Chance has to reach everything that is checked. */
    for (int i = 0; i <= FY_NPU_LIMIT_FLOOR; i++) {
        if (limits[i] < N_CASES / 200)
            fail_msg("limit %d: %zu cases of %d", i, limits[i], N_CASES);
    }
    if (n_fit < N_CASES / 10 || n_cut < N_CASES / 50 || n_found < N_CASES / 4)
        fail_msg("%zu fit, %zu of several chunks; %zu suggestions", n_fit, n_cut, n_found);
    fy_npu_recipes_free(recipes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_keep_what_they_say)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
