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
    const fy_npu_recipe *recipe; /* view */
    uint64_t weights;            /* of the model in this recipe */
    bool larger;                 /* than in the one asked for */
} recipe;

typedef struct {
    const fy_npu_model *m;
    fy_npu_params asked; /* complete, but for n_chunks and kv_bits: 0 as given */
    recipe *recipes;     /* owned, [n_recipes] */
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
static int by_nearness(const void *pa, const void *pb)
{
    const recipe *a = pa, *b = pb;
    if (a->larger != b->larger)
        return a->larger ? 1 : -1;
    if (a->weights != b->weights)
        return (a->weights > b->weights) == a->larger ? 1 : -1;
    return strcmp(a->recipe->name, b->recipe->name);
}

/* What was published for one model is nothing for another. */
static int list_recipes(search *s, const fy_npu_recipes *all, fy_err *e)
{
    const size_t n = all != NULL ? fy_npu_recipes_n(all) : 0;
    const uint64_t asked = fy_npu_recipe_weights(s->m, s->asked.recipe);
    s->recipes = calloc(n + 1, sizeof *s->recipes);
    if (s->recipes == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < n; i++) {
        const fy_npu_recipe *r = fy_npu_recipes_at(all, i);
        const uint64_t weights = fy_npu_recipe_weights(s->m, r);
        if (r != s->asked.recipe && r->n_models == 0)
            s->recipes[s->n_recipes++] = (recipe){r, weights, weights > asked};
    }
    qsort(s->recipes, s->n_recipes, sizeof *s->recipes, by_nearness);
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

/* Values first, first + step, ... last; none when first > last. */
typedef struct {
    uint32_t first, last, step;
} range;

static uint32_t least_context(const search *s, uint32_t batch)
{
    return batch < s->least_ctx ? s->least_ctx : batch + 1;
}

/* Whole steps below what was asked for; when the batch leaves no room there, the next above it. */
static range whole_steps(const search *s, uint32_t batch)
{
    const uint32_t least = least_context(s, batch);
    const uint32_t above = (least + CTX_STEP - 1) / CTX_STEP * CTX_STEP;
    const uint32_t below = (s->asked.n_ctx - 1) / CTX_STEP * CTX_STEP;
    return (range){above, s->asked.n_ctx <= batch ? above : below, CTX_STEP};
}

/* Below the first step. */
static range single_steps(const search *s, uint32_t batch)
{
    const range whole = whole_steps(s, batch);
    const uint32_t asked = s->asked.n_ctx;
    const uint32_t end = asked <= batch || whole.first < asked ? whole.first : asked;
    return (range){least_context(s, batch), end - 1, 1};
}

/* --- search ----------------------------------------------------------------------------------- */

/* The largest value of `size`, a member of p, with which p fits. */
static bool find_largest(search *s, range r, fy_npu_params *p, uint32_t *size)
{
    *size = r.first;
    if (r.first > r.last || !fits(s, p))
        return false;
    uint32_t lo = 0, hi = (r.last - r.first) / r.step;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo + 1) / 2;
        *size = r.first + mid * r.step;
        if (fits(s, p))
            lo = mid;
        else
            hi = mid - 1;
    }
    *size = r.first + lo * r.step;
    return true;
}

static bool find_context(search *s, fy_npu_params *p)
{
    return find_largest(s, whole_steps(s, p->batch[0]), p, &p->n_ctx) ||
           find_largest(s, single_steps(s, p->batch[0]), p, &p->n_ctx);
}

static bool find_layers(search *s, fy_npu_params *p)
{
    const range r = {p->n_chunks > 0 ? p->n_chunks : 1, s->asked.n_layers - 1, 1};
    return find_largest(s, r, p, &p->n_layers);
}

/* The axes that are bisected, of a choice of the others. */
static bool find_sizes(search *s, unsigned changes, fy_npu_params *p)
{
    const bool context = (changes & BIT(FY_NPU_CHANGE_CONTEXT)) != 0;
    if (!(changes & BIT(FY_NPU_CHANGE_LAYERS)))
        return context ? find_context(s, p) : fits(s, p);
    const fy_npu_params without = *p;
    const range tried[] = {whole_steps(s, p->batch[0]), single_steps(s, p->batch[0])};
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
    const bool recipes = (changes & BIT(FY_NPU_CHANGE_RECIPE)) != 0;
    const bool batch = (changes & BIT(FY_NPU_CHANGE_BATCH)) != 0;
    for (size_t r = 0; r < (recipes ? s->n_recipes : 1); r++) {
        for (size_t b = 0; b < (batch ? s->n_batches : 1); b++) {
            fy_npu_params p = s->asked;
            if (recipes)
                p.recipe = s->recipes[r].recipe;
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
            if (__builtin_popcount(set) != size || (set & ~s->possible) != 0)
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
    return rc;
}

/* --- text ------------------------------------------------------------------------------------- */

const char *fy_npu_change_option(fy_npu_change c, const fy_npu_params *p, fy_str *value)
{
    static const char *const names[] = {
        [FY_NPU_CHANGE_CHUNKS] = "--chunks", [FY_NPU_CHANGE_CONTEXT] = "-c",
        [FY_NPU_CHANGE_KV] = "--kv-bits",    [FY_NPU_CHANGE_BATCH] = "--batch",
        [FY_NPU_CHANGE_RECIPE] = "--recipe", [FY_NPU_CHANGE_LAYERS] = "--layers",
    };
    const uint32_t numbers[] = {[FY_NPU_CHANGE_CHUNKS] = p->n_chunks,
                                [FY_NPU_CHANGE_CONTEXT] = p->n_ctx,
                                [FY_NPU_CHANGE_KV] = p->kv_bits,
                                [FY_NPU_CHANGE_LAYERS] = p->n_layers};
    if (c == FY_NPU_CHANGE_RECIPE)
        fy_str_puts(value, p->recipe->name);
    else if (c != FY_NPU_CHANGE_BATCH)
        fy_str_printf(value, "%u", numbers[c]);
    for (uint32_t b = 0; c == FY_NPU_CHANGE_BATCH && b < p->n_batches; b++)
        fy_str_printf(value, "%s%u", b > 0 ? "," : "", p->batch[b]);
    return names[c];
}

void fy_npu_suggestion_text(const fy_npu_suggestion *s, const fy_npu_model *m, fy_str *out)
{
    const char *gap = "";
    if (!s->found)
        fy_str_puts(out, "no other context, KV cache, batch size or recipe makes it fit");
    for (int i = 0; s->found && i < FY_NPU_CHANGE_LAYERS; i++) {
        fy_str value = {0};
        if (!s->changed[i])
            continue;
        const char *option = fy_npu_change_option((fy_npu_change)i, &s->params, &value);
        fy_str_printf(out, "%s%s %s", gap, option, fy_str_z(&value));
        out->oom |= value.oom;
        fy_str_release(&value);
        gap = " ";
    }
    if (s->found && s->changed[FY_NPU_CHANGE_LAYERS])
        fy_str_printf(out, "%sat most %u of %u layers would fit", *gap != '\0' ? ": " : "",
                      s->params.n_layers, m->hp.n_layer);
}
