/* What would fit, found by planning. The changes are axes of a search: each has a list of values,
 * the one nearest to what was asked for first; context and layers are bisected. */
#include <stdlib.h>
#include <string.h>

#include "workspace/npu/npu_count.h"

enum { CTX_STEP = 128, MOST_BATCHES = 80 };

#define BIT(change) (1u << (change))

typedef struct {
    uint32_t batch[FY_NPU_BATCHES], n;
} batch_list;

typedef struct {
    const fy_npu_model *m;
    fy_npu_params asked;           /* complete, but for n_chunks and kv_bits: 0 as given */
    const fy_npu_recipe **recipes; /* owned, [n_recipes]; views */
    uint64_t *weights;             /* owned, [n_recipes]: of the model in this recipe */
    size_t n_recipes;
    batch_list batches[MOST_BATCHES];
    size_t n_batches;
    unsigned possible; /* the changes that there are, as bits */
    uint32_t least_ctx;
    bool failed; /* out of memory */
} search;

static bool fits(search *s, const fy_npu_params *p)
{
    fy_err e = {0};
    bool yes = false;
    if (fy_npu_plan_fits(s->m, p, &yes, &e) != 0)
        s->failed = s->failed || e.code == FY_ENOMEM;
    return yes;
}

/* --- values of the axes ----------------------------------------------------------------------- */

/* Largest first among those that are no larger than the recipe asked for; then, smallest first,
 * those that are. */
static bool recipe_before(const search *s, uint64_t asked, size_t a, size_t b)
{
    const uint64_t x = s->weights[a], y = s->weights[b];
    if ((x <= asked) != (y <= asked))
        return x <= asked;
    if (x != y)
        return x <= asked ? x > y : x < y;
    return strcmp(s->recipes[a]->name, s->recipes[b]->name) < 0;
}

static void swap_recipes(search *s, size_t a, size_t b)
{
    const fy_npu_recipe *r = s->recipes[a];
    const uint64_t w = s->weights[a];
    s->recipes[a] = s->recipes[b];
    s->weights[a] = s->weights[b];
    s->recipes[b] = r;
    s->weights[b] = w;
}

/* What was published for one model is nothing for another. */
static int list_recipes(search *s, const fy_npu_recipes *all, fy_err *e)
{
    const size_t n = all != NULL ? fy_npu_recipes_n(all) : 0;
    const uint64_t asked = fy_npu_recipe_weights(s->m, s->asked.recipe);
    s->recipes = calloc(n + 1, sizeof *s->recipes);
    s->weights = calloc(n + 1, sizeof *s->weights);
    if (s->recipes == NULL || s->weights == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < n; i++) {
        const fy_npu_recipe *r = fy_npu_recipes_at(all, i);
        if (r == s->asked.recipe || r->n_models > 0)
            continue;
        s->recipes[s->n_recipes] = r;
        s->weights[s->n_recipes++] = fy_npu_recipe_weights(s->m, r);
        for (size_t k = s->n_recipes - 1; k > 0 && recipe_before(s, asked, k, k - 1); k--)
            swap_recipes(s, k, k - 1);
    }
    return 0;
}

static void put_batches(search *s, const uint32_t *batch, uint32_t n)
{
    if (s->n_batches == MOST_BATCHES)
        return;
    batch_list *l = &s->batches[s->n_batches++];
    l->n = n;
    memcpy(l->batch, batch, n * sizeof *batch);
}

/* One size between the largest and the smallest less; the largest halved until it is the next one;
 * the smallest alone, and halved. */
static void list_batches(search *s)
{
    const uint32_t n = s->asked.n_batches;
    uint32_t b[FY_NPU_BATCHES];
    for (uint32_t drop = 1; drop + 1 < n; drop++) {
        uint32_t k = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (i != drop)
                b[k++] = s->asked.batch[i];
        }
        put_batches(s, b, k);
    }
    memcpy(b, s->asked.batch, sizeof b);
    const uint32_t next = n > 1 ? b[1] : 0;
    for (b[0] /= 2; b[0] > next; b[0] /= 2)
        put_batches(s, b, n);
    for (uint32_t alone = n > 1 ? b[n - 1] : 0; alone > 0; alone /= 2)
        put_batches(s, &alone, 1);
}

/* Contexts first, first + step, ... last; none when first > last. */
typedef struct {
    uint32_t first, last, step;
} contexts;

static uint32_t least_context(const search *s, uint32_t batch)
{
    return batch < s->least_ctx ? s->least_ctx : batch + 1;
}

/* Whole steps below what was asked for; when the batch leaves no room there, the next above it. */
static contexts whole_steps(const search *s, uint32_t batch)
{
    const uint32_t least = least_context(s, batch);
    const uint32_t above = (least + CTX_STEP - 1) / CTX_STEP * CTX_STEP;
    const uint32_t below = (s->asked.n_ctx - 1) / CTX_STEP * CTX_STEP;
    return (contexts){above, s->asked.n_ctx <= batch ? above : below, CTX_STEP};
}

/* Below the first step. */
static contexts single_steps(const search *s, uint32_t batch)
{
    const contexts whole = whole_steps(s, batch);
    const uint32_t asked = s->asked.n_ctx;
    const uint32_t end = asked <= batch || whole.first < asked ? whole.first : asked;
    return (contexts){least_context(s, batch), end - 1, 1};
}

/* --- search ----------------------------------------------------------------------------------- */

static bool find_context_of(search *s, contexts c, fy_npu_params *p)
{
    p->n_ctx = c.first;
    if (c.first > c.last || !fits(s, p))
        return false;
    uint32_t lo = 0, hi = (c.last - c.first) / c.step;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo + 1) / 2;
        p->n_ctx = c.first + mid * c.step;
        if (fits(s, p))
            lo = mid;
        else
            hi = mid - 1;
    }
    p->n_ctx = c.first + lo * c.step;
    return true;
}

static bool find_context(search *s, fy_npu_params *p)
{
    return find_context_of(s, whole_steps(s, p->batch[0]), p) ||
           find_context_of(s, single_steps(s, p->batch[0]), p);
}

static bool find_layers(search *s, fy_npu_params *p)
{
    uint32_t lo = p->n_chunks > 0 ? p->n_chunks : 1, hi = s->asked.n_layers - 1;
    p->n_layers = lo;
    if (lo > hi || !fits(s, p))
        return false;
    while (lo < hi) {
        p->n_layers = lo + (hi - lo + 1) / 2;
        if (fits(s, p))
            lo = p->n_layers;
        else
            hi = p->n_layers - 1;
    }
    p->n_layers = lo;
    return true;
}

/* The axes that are bisected, of a choice of the others. */
static bool find_sizes(search *s, unsigned changes, fy_npu_params *p)
{
    const bool context = (changes & BIT(FY_NPU_CHANGE_CONTEXT)) != 0;
    if (!(changes & BIT(FY_NPU_CHANGE_LAYERS)))
        return context ? find_context(s, p) : fits(s, p);
    const fy_npu_params without = *p;
    const contexts tried[] = {whole_steps(s, p->batch[0]), single_steps(s, p->batch[0])};
    for (int i = 0; context && i < 2; i++) { /* as many layers as can be, with little context */
        *p = without;
        p->n_ctx = tried[i].first;
        if (tried[i].first <= tried[i].last && find_layers(s, p))
            return true;
    }
    return !context && find_layers(s, p);
}

static bool try_changes(search *s, unsigned changes, fy_npu_params *found)
{
    const bool recipe = (changes & BIT(FY_NPU_CHANGE_RECIPE)) != 0;
    const bool batch = (changes & BIT(FY_NPU_CHANGE_BATCH)) != 0;
    for (size_t r = 0; r < (recipe ? s->n_recipes : 1); r++) {
        for (size_t b = 0; b < (batch ? s->n_batches : 1); b++) {
            fy_npu_params p = s->asked;
            if (recipe)
                p.recipe = s->recipes[r];
            if (batch) {
                p.n_batches = s->batches[b].n;
                memcpy(p.batch, s->batches[b].batch, sizeof p.batch);
            }
            if (changes & BIT(FY_NPU_CHANGE_CHUNKS))
                p.n_chunks = 0;
            if (changes & BIT(FY_NPU_CHANGE_KV))
                p.kv_bits = 8;
            if (find_sizes(s, changes, &p)) {
                *found = p;
                return true;
            }
        }
    }
    return false;
}

static int count_bits(unsigned v)
{
    int n = 0;
    for (; v != 0; v &= v - 1)
        n++;
    return n;
}

/* All sets of changes, small ones first, each size in the order of the enum: bit 0 is the cheapest,
 * so of two sets of one size the one that has the lower bit where they first differ comes first. */
static unsigned try_sets(search *s, unsigned with, fy_npu_params *found)
{
    enum { N = FY_NPU_CHANGE_LAYERS };
    for (int size = with != 0 ? 0 : 1; size <= N; size++) {
        for (unsigned reversed = BIT(N); reversed-- > 0;) {
            unsigned set = 0;
            for (int i = 0; i < N; i++)
                set |= (reversed >> i & 1u) << (N - 1 - i);
            if (count_bits(set) != size || (set & ~s->possible) != 0)
                continue;
            if (try_changes(s, set | with, found))
                return set | with;
        }
    }
    return 0;
}

/* Whether any set would do: all changes at once, each but that of the chunks and of the KV cache
 * with or without (another recipe or batch size may be the larger one). */
static bool anything_fits(search *s)
{
    static const unsigned may_stay =
        BIT(FY_NPU_CHANGE_CONTEXT) | BIT(FY_NPU_CHANGE_BATCH) | BIT(FY_NPU_CHANGE_RECIPE);
    fy_npu_params p;
    for (unsigned stay = may_stay;; stay = (stay - 1) & may_stay) {
        if ((stay & ~s->possible) == 0 && try_changes(s, s->possible & ~stay, &p))
            return true;
        if (stay == 0)
            return false;
    }
}

/* A context below a quarter of what was asked for is not a cheap change: it is tried after all
 * others. */
static unsigned find(search *s, fy_npu_params *found)
{
    unsigned set = 0;
    s->least_ctx = 2;
    if (anything_fits(s)) {
        s->least_ctx = s->asked.n_ctx / 4 > 2 ? s->asked.n_ctx / 4 : 2;
        set = try_sets(s, 0, found);
        s->least_ctx = 2;
        set = set != 0 ? set : try_sets(s, 0, found);
    }
    if (set == 0 && s->asked.n_layers > 1)
        set = try_sets(s, BIT(FY_NPU_CHANGE_LAYERS), found);
    return set;
}

static int prepare(search *s, const fy_npu_params *given, const fy_npu_plan *plan,
                   const fy_npu_recipes *recipes, fy_err *e)
{
    s->asked = plan->params;
    s->asked.n_chunks = given->n_chunks;
    s->asked.kv_bits = given->kv_bits;
    if (list_recipes(s, recipes, e) != 0)
        return -1;
    list_batches(s);
    s->possible |= given->n_chunks != 0 ? BIT(FY_NPU_CHANGE_CHUNKS) : 0;
    s->possible |= plan->params.n_ctx > 1 ? BIT(FY_NPU_CHANGE_CONTEXT) : 0;
    s->possible |= plan->params.kv_bits > 8 ? BIT(FY_NPU_CHANGE_KV) : 0;
    s->possible |= s->n_batches > 0 ? BIT(FY_NPU_CHANGE_BATCH) : 0;
    s->possible |= s->n_recipes > 0 ? BIT(FY_NPU_CHANGE_RECIPE) : 0;
    return 0;
}

/* How many chunks it takes is what the plan says, so that the text can name it. */
static int accept(const search *s, unsigned set, const fy_npu_params *found, fy_npu_suggestion *out,
                  fy_err *e)
{
    fy_npu_plan plan;
    if (fy_npu_plan_make(s->m, found, &plan, e) != 0)
        return -1;
    out->found = true;
    out->params = *found;
    for (int i = 0; i < FY_NPU_CHANGE_COUNT; i++)
        out->changed[i] = (set >> i & 1) != 0;
    if (out->changed[FY_NPU_CHANGE_CHUNKS])
        out->params.n_chunks = plan.n_chunks;
    fy_npu_plan_release(&plan);
    return 0;
}

int fy_npu_suggest(const fy_npu_model *m, const fy_npu_params *p, const fy_npu_recipes *recipes,
                   fy_npu_suggestion *out, fy_err *e)
{
    fy_npu_plan plan;
    fy_npu_params found = *p;
    search s = {.m = m};
    int rc = 0;
    *out = (fy_npu_suggestion){.params = *p};
    if (fy_npu_plan_make(m, p, &plan, e) != 0)
        return -1;
    if (plan.fits) {
        out->found = true;
    } else if ((rc = prepare(&s, p, &plan, recipes, e)) == 0) {
        const unsigned set = find(&s, &found);
        if (s.failed)
            rc = fy_nomem(e);
        else if (set != 0)
            rc = accept(&s, set, &found, out, e);
    }
    fy_npu_plan_release(&plan);
    free(s.recipes);
    free(s.weights);
    return rc;
}

/* --- text ------------------------------------------------------------------------------------- */

static void put_options(const fy_npu_suggestion *s, fy_str *out)
{
    const fy_npu_params *p = &s->params;
    const char *gap = "";
    for (int i = 0; i < FY_NPU_CHANGE_LAYERS; i++) {
        if (!s->changed[i])
            continue;
        fy_str_puts(out, gap);
        gap = " ";
        if (i == FY_NPU_CHANGE_CHUNKS)
            fy_str_printf(out, "--chunks %u", p->n_chunks);
        else if (i == FY_NPU_CHANGE_CONTEXT)
            fy_str_printf(out, "-c %u", p->n_ctx);
        else if (i == FY_NPU_CHANGE_KV)
            fy_str_printf(out, "--kv-bits %u", p->kv_bits);
        else if (i == FY_NPU_CHANGE_RECIPE)
            fy_str_printf(out, "--recipe %s", p->recipe->name);
        for (uint32_t b = 0; i == FY_NPU_CHANGE_BATCH && b < p->n_batches; b++)
            fy_str_printf(out, "%s%u", b == 0 ? "--batch " : ",", p->batch[b]);
    }
}

void fy_npu_suggestion_text(const fy_npu_suggestion *s, const fy_npu_model *m, fy_str *out)
{
    bool options = false;
    for (int i = 0; i < FY_NPU_CHANGE_LAYERS; i++)
        options = options || s->changed[i];
    if (!s->found) {
        fy_str_puts(out, "no other context, KV cache, batch size or recipe makes it fit");
        return;
    }
    put_options(s, out);
    if (!s->changed[FY_NPU_CHANGE_LAYERS])
        return;
    fy_str_printf(out, "%sat most %u of %u layers would fit", options ? ": " : "",
                  s->params.n_layers, m->hp.n_layer);
}
