#include "policy/matrix_types.h"

#include <stdlib.h>

const char *fy_type_why_name(fy_type_why w)
{
    static const char *const names[] = {"kept", "asked", "recipe", "option"};
    return names[w];
}

typedef struct {
    const fy_type_request *r;
    bool tied;                        /* the embedding is the output, too */
    bool output_used, embedding_used; /* options */
} state;

/* Does an option name the tensor's type? */
static bool by_option(state *s, fy_type_item *t)
{
    const fy_type_request *r = s->r;
    const bool ruled = r->rules != NULL && fy_type_rules_find(r->rules, t->name, &t->wanted);
    if (r->embedding != NULL && fy_llama_is_embedding(t->name)) {
        t->wanted = *r->embedding;
        return s->embedding_used = true;
    }
    if (r->output != NULL && fy_llama_is_output(t->name)) {
        t->wanted = *r->output;
        return s->output_used = true;
    }
    if (ruled)
        return true;
    if (r->output != NULL && r->llama && s->tied && fy_llama_is_embedding(t->name)) {
        t->wanted = *r->output;
        return s->output_used = true;
    }
    return false;
}

static int by_recipe(const fy_type_request *r, fy_type_item *t, size_t n, fy_err *e)
{
    fy_llama_tensor *all = calloc(n > 0 ? n : 1, sizeof *all);
    if (all == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < n; i++)
        all[i] = (fy_llama_tensor){.name = t[i].name, .asked = t[i].why == FY_TYPE_ASKED};
    const int rc = fy_llama_types(&r->model, r->target, all, n, e);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (all[i].asked && all[i].type != t[i].wanted) {
            t[i].wanted = all[i].type;
            t[i].why = FY_TYPE_RECIPE;
        }
    }
    free(all);
    return rc;
}

static int check_used(const state *s, fy_err *e)
{
    if (s->r->embedding != NULL && !s->embedding_used)
        return fy_fail(e, FY_EARG, "--token-embedding-type: the model has no token_embd.weight");
    if (s->r->output != NULL && !s->output_used)
        return fy_fail(e, FY_EARG,
                       "--output-tensor-type: the model has no output.weight: its embedding is the "
                       "output, too; name its type with --token-embedding-type");
    return s->r->rules != NULL ? fy_type_rules_check_used(s->r->rules, e) : 0;
}

int fy_choose_matrix_types(const fy_type_request *r, fy_type_item *t, size_t n, fy_err *e)
{
    state s = {.r = r, .tied = true};
    for (size_t i = 0; i < n; i++)
        s.tied = s.tied && !fy_llama_is_output(t[i].name);
    for (size_t i = 0; i < n; i++) {
        t[i].wanted = t[i].type;
        t[i].why = !t[i].matrix           ? FY_TYPE_KEPT
                   : by_option(&s, &t[i]) ? FY_TYPE_OPTION
                                          : FY_TYPE_ASKED;
    }
    if (check_used(&s, e) != 0 || (r->llama && by_recipe(r, t, n, e) != 0))
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (t[i].matrix)
            t[i].type = fy_type_for_rows(t[i].wanted, t[i].ne0);
        t[i].fallback = t[i].type != t[i].wanted;
    }
    return 0;
}
