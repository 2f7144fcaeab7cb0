/* ferry.h: grammars. */
#include <stdlib.h>

#include "api/api_impl.h"

const fy_trie *fy_api_trie(ferry_model *model, fy_err *e)
{
    const ferry_vocab *vocab = fy_api_vocab(model, e);
    if (vocab == NULL)
        return NULL;
    pthread_mutex_lock(&model->lock);
    if (model->trie == NULL)
        model->trie = fy_vocab_trie(vocab->v, fy_model_hparams(model->m)->n_vocab, e);
    const fy_trie *trie = model->trie;
    pthread_mutex_unlock(&model->lock);
    return trie;
}

void fy_api_grammar_keep(ferry_grammar *grammar)
{
    atomic_fetch_add_explicit(&grammar->n_users, 1, memory_order_relaxed);
}

void ferry_grammar_free(ferry_grammar *grammar)
{
    if (grammar == NULL ||
        atomic_fetch_sub_explicit(&grammar->n_users, 1, memory_order_acq_rel) > 1)
        return;
    fy_grammar_free(grammar->g);
    fy_api_model_release(grammar->model);
    free(grammar);
}

static fy_grammar *compile(ferry_model *model, uint32_t kind, fy_span text, fy_err *e)
{
    const fy_api_scope scope = fy_api_enter(model);
    fy_grammar *g =
        kind == FERRY_GRAMMAR_GBNF ? fy_grammar_gbnf(text, e) : fy_grammar_schema(text, e);
    fy_api_leave(&scope);
    return g;
}

static ferry_grammar *new_grammar(ferry_model *model, uint32_t kind, fy_span text, fy_err *e)
{
    const fy_trie *trie = fy_api_trie(model, e);
    fy_grammar *g = trie != NULL ? compile(model, kind, text, e) : NULL;
    ferry_grammar *made = g != NULL ? calloc(1, sizeof *made) : NULL;
    if (made == NULL) {
        fy_grammar_free(g);
        fy_nomem(e); /* unless something else is recorded */
        return NULL;
    }
    made->g = g;
    made->trie = trie;
    made->model = model;
    atomic_init(&made->n_users, 1);
    fy_api_model_keep(model);
    return made;
}

ferry_status ferry_grammar_new(ferry_model *model, uint32_t kind, const char *text, size_t n_bytes,
                               ferry_grammar **grammar, ferry_error *error)
{
    fy_err e = {0};
    int rc = fy_api_need(grammar, "grammar", &e);
    if (rc == 0)
        *grammar = NULL;
    if (rc == 0 && fy_api_need(model, "model", &e) == 0 && fy_api_need(text, "text", &e) == 0) {
        if (kind <= FERRY_GRAMMAR_JSON_SCHEMA)
            *grammar = new_grammar(model, kind, (fy_span){text, n_bytes}, &e);
        else
            fy_fail(&e, FY_EARG,
                    "kind of grammar %u, expected FERRY_GRAMMAR_GBNF or FERRY_GRAMMAR_JSON_SCHEMA",
                    kind);
    }
    return fy_api_end(rc == 0 && *grammar != NULL ? 0 : -1, &e, error);
}
