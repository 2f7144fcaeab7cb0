/* What HTP computes from which architecture on: LPBQ from V69, 16 x 16 bit products and weights
 * shared by graphs from V73 are documented by ExecuTorch (its pull request 15965); fp16 from V73
 * with exceptions is what QNN's supplement for operations and rwkv-qualcomm say. */
#include "workspace/npu/npu_recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/opts.h"
#include "base/str.h"
#include "workspace/data/data_files.h"

/* --- a recipe --------------------------------------------------------------------------------- */

static bool names(const fy_npu_rule *r, fy_slot slot)
{
    for (size_t i = 0; i < r->n_slots; i++) {
        if (r->slots[i] == slot)
            return true;
    }
    return r->n_slots == 0;
}

fy_npu_type fy_npu_recipe_type(const fy_npu_recipe *r, fy_slot slot, uint32_t layer)
{
    for (size_t i = r->n_rules; i > 0; i--) {
        const fy_npu_rule *rule = &r->rules[i - 1];
        bool all_layers = rule->first_layer == 0 && rule->end_layer == UINT32_MAX;
        bool there = slot == FY_T_OUTPUT ? all_layers
                                         : layer >= rule->first_layer && layer < rule->end_layer;
        if (there && names(rule, slot))
            return rule->type;
    }
    return r->type;
}

/* --- floors ----------------------------------------------------------------------------------- */

static const struct {
    uint32_t arch;
    const char *what;
} floors[] = {
    [FY_HTP_LPBQ] = {69, "LPBQ"},
    [FY_HTP_FP16] = {73, "fp16"},
    [FY_HTP_KV_16] = {73, "a KV cache of 16 bits"},
    [FY_HTP_WEIGHT_SHARING] = {73, "weight sharing"},
};

bool fy_soc_has(const fy_soc *s, fy_htp_feature f)
{
    return s->htp_arch >= floors[f].arch && !(f == FY_HTP_FP16 && s->no_fp16);
}

#define DEFAULT_LPBQ  "lpbq-32"
#define DEFAULT_PLAIN "16a4w"

static const char *default_name(const fy_soc *soc)
{
    return fy_soc_has(soc, FY_HTP_LPBQ) ? DEFAULT_LPBQ : DEFAULT_PLAIN;
}

/* where: "16a4w-lpbq32 of rule 2". */
static int below(const char *recipe, const char *where, fy_htp_feature f, const fy_soc *soc,
                 const char *remedy, fy_err *e)
{
    if (soc->htp_arch >= floors[f].arch)
        return fy_fail(e, FY_EFIT, "recipe %s: %s: the NPU of %s does not compute in %s; %s",
                       recipe, where, soc->name, floors[f].what, remedy);
    return fy_fail(e, FY_EFIT, "recipe %s: %s: %s needs HTP V%u, %s has V%u; %s", recipe, where,
                   floors[f].what, floors[f].arch, soc->name, soc->htp_arch, remedy);
}

static int check_type(const fy_npu_recipe *r, size_t rule, const fy_soc *soc, fy_err *e)
{
    char where[64], remedy[64];
    fy_npu_type t = rule == 0 ? r->type : r->rules[rule - 1].type;
    bool lpbq = t == FY_NPU_LPBQ_16 || t == FY_NPU_LPBQ_32 || t == FY_NPU_LPBQ_64;
    fy_htp_feature f = lpbq ? FY_HTP_LPBQ : FY_HTP_FP16;
    if ((!lpbq && t != FY_NPU_FP16) || fy_soc_has(soc, f))
        return 0;
    if (rule == 0)
        snprintf(where, sizeof where, "%s of its default", fy_npu_type_name(t));
    else
        snprintf(where, sizeof where, "%s of rule %zu", fy_npu_type_name(t), rule);
    snprintf(remedy, sizeof remedy, "it can have --recipe %s", default_name(soc));
    return below(r->name, where, f, soc, remedy, e);
}

int fy_npu_recipe_check(const fy_npu_recipe *r, const fy_soc *soc, uint32_t kv_bits, fy_err *e)
{
    char where[64];
    uint32_t bits = kv_bits != 0 ? kv_bits : r->kv_bits;
    if (bits != 8 && bits != 16)
        return fy_fail(e, FY_EARG, "keys and values of %u bits, expected 8 or 16", bits);
    for (size_t i = 0; i <= r->n_rules; i++) {
        if (check_type(r, i, soc, e) != 0)
            return -1;
    }
    if (bits == 8 || fy_soc_has(soc, FY_HTP_KV_16))
        return 0;
    snprintf(where, sizeof where, "%s", kv_bits != 0 ? "--kv-bits 16" : "its kv_bits 16");
    return below(r->name, where, FY_HTP_KV_16, soc, "it can have --kv-bits 8", e);
}

/* --- the list --------------------------------------------------------------------------------- */

struct fy_npu_recipes {
    fy_npu_recipe **at; /* owned, [n], by name: those that were found stay where they are */
    size_t n, cap;
};

void fy_npu_recipes_free(fy_npu_recipes *r)
{
    for (size_t i = 0; r != NULL && i < r->n; i++) {
        fy_npu_recipe_release(r->at[i]);
        free(r->at[i]);
    }
    if (r != NULL)
        free(r->at);
    free(r);
}

size_t fy_npu_recipes_n(const fy_npu_recipes *r)
{
    return r->n;
}

const fy_npu_recipe *fy_npu_recipes_at(const fy_npu_recipes *r, size_t i)
{
    return r->at[i];
}

static fy_npu_recipe *find(const fy_npu_recipes *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->at[i]->name, name) == 0)
            return r->at[i];
    }
    return NULL;
}

/* Takes what *recipe holds; one of the same name is replaced. */
static fy_npu_recipe *put(fy_npu_recipes *r, fy_npu_recipe *recipe, fy_err *e)
{
    fy_npu_recipe *old = find(r, recipe->name);
    if (old != NULL) {
        fy_npu_recipe_release(old);
        *old = *recipe;
        return old;
    }
    fy_npu_recipe **grown = fy_grow(r->at, r->n, &r->cap, sizeof *grown),
                  *copy = malloc(sizeof *copy);
    r->at = grown != NULL ? grown : r->at;
    if (grown == NULL || copy == NULL) {
        free(copy);
        fy_npu_recipe_release(recipe);
        fy_nomem(e);
        return NULL;
    }
    *copy = *recipe;
    size_t i = r->n++;
    for (; i > 0 && strcmp(r->at[i - 1]->name, copy->name) > 0; i--)
        r->at[i] = r->at[i - 1];
    r->at[i] = copy;
    return copy;
}

/* "DIR/lpbq-32.json" -> "lpbq-32"; the caller frees it. */
static char *name_of(const char *path)
{
    fy_span base = fy_path_base(path);
    return strndup(base.ptr, base.len - (fy_span_ends(base, ".json") ? 5 : 0));
}

static fy_npu_recipe *add(fy_npu_recipes *r, const void *p, size_t n, const char *path, fy_err *e)
{
    fy_npu_recipe recipe, *placed = NULL;
    char *name = name_of(path);
    if (name == NULL)
        fy_nomem(e);
    else if (fy_npu_recipe_parse(p, n, name, &recipe, e) == 0)
        placed = put(r, &recipe, e);
    if (placed == NULL)
        fy_ctx(e, "%s", path);
    free(name);
    return placed;
}

static int add_own(void *user, const void *p, size_t n, const char *path, fy_err *e)
{
    return add(user, p, n, path, e) != NULL ? 0 : -1;
}

fy_npu_recipes *fy_npu_recipes_open(fy_err *e)
{
    fy_npu_recipes *r = calloc(1, sizeof *r);
    int rc = r != NULL ? 0 : fy_nomem(e);
    for (const fy_data_file *f = fy_data_files; rc == 0 && f->name != NULL; f++) {
        if (fy_span_begins(fy_span_of(f->name), "recipes/"))
            rc = add_own(r, f->data, f->size, f->name, e);
    }
    if (rc == 0)
        rc = fy_data_read_own("recipes.d", add_own, r, e);
    if (rc == 0)
        return r;
    fy_npu_recipes_free(r);
    return NULL;
}

typedef struct {
    fy_npu_recipes *list;
    const fy_npu_recipe *found;
} named_file;

static int add_named(void *user, const void *p, size_t n, const char *path, fy_err *e)
{
    named_file *f = user;
    f->found = add(f->list, p, n, path, e);
    return f->found != NULL ? 0 : -1;
}

/* Those that are for any model come first; of the others as many as a message holds. */
static void list_names(const fy_npu_recipes *r, fy_str *out)
{
    enum { ROOM = 380 };
    for (int published = 0; published < 2; published++) {
        for (size_t i = 0; i < r->n; i++) {
            if ((r->at[i]->n_models > 0) != published)
                continue;
            if (out->len > ROOM) {
                fy_str_puts(out, ", ...");
                return;
            }
            fy_str_printf(out, "%s%s", out->len > 0 ? ", " : "", r->at[i]->name);
        }
    }
}

static void refuse(const fy_npu_recipes *r, const char *name, fy_err *e)
{
    char shown[FY_QUOTE_BYTES], word[FY_QUOTE_BYTES];
    const char **names = calloc(r->n + 1, sizeof *names), *near = NULL;
    fy_str all = {0};
    snprintf(word, sizeof word, "%s", name);
    for (size_t i = 0; names != NULL && i < r->n; i++)
        names[i] = r->at[i]->name;
    if (names != NULL)
        near = fy_nearest(word, names, r->n);
    free(names);
    list_names(r, &all);
    fy_fail(e, FY_EARG, "no recipe '%s'%s%s%s; there are %s",
            fy_quote(shown, sizeof shown, fy_span_of(name)), near != NULL ? ", did you mean " : "",
            near != NULL ? near : "", near != NULL ? "?" : "", fy_str_z(&all));
    fy_str_release(&all);
}

const fy_npu_recipe *fy_npu_recipes_find(fy_npu_recipes *r, const char *name, fy_err *e)
{
    if (strchr(name, '/') != NULL || fy_span_ends(fy_span_of(name), ".json")) {
        named_file f = {r, NULL};
        return fy_data_read(name, add_named, &f, e) == 0 ? f.found : NULL;
    }
    const fy_npu_recipe *found = find(r, name);
    if (found != NULL)
        return found;
    refuse(r, name, e);
    return NULL;
}

const fy_npu_recipe *fy_npu_recipes_default(const fy_npu_recipes *r, const fy_soc *soc)
{
    return find(r, default_name(soc));
}
