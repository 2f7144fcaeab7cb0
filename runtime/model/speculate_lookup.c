/* Proposers that need no model: the text so far, and a table. */
#include <stdlib.h>
#include <string.h>

#include "model/sample_impl.h"
#include "model/speculate.h"

static int add_chain(fy_proposal *out, const int32_t *ids, uint32_t n)
{
    int32_t at = -1;
    for (uint32_t i = 0; i < n; i++)
        at = fy_proposal_add(out, at, ids[i]);
    return 0;
}

/* --- prompt lookup --------------------------------------------------------------------------- */

enum { LONGEST = 16 }; /* tokens that are compared: what is longer is no more certain */

typedef struct {
    fy_proposer p;
    uint32_t least;
} lookup;

/* How many tokens before `end` are those before the end of the text, at most LONGEST. */
static uint32_t n_alike(const int32_t *text, uint32_t n, uint32_t end)
{
    uint32_t k = 0;
    while (k < end && k < LONGEST && text[end - 1 - k] == text[n - 1 - k])
        k++;
    return k;
}

/* Of equal ones the last. */
static int look_up(fy_proposer *p, const int32_t *text, uint32_t n, uint32_t most, fy_proposal *out,
                   fy_err *e)
{
    (void)e;
    const lookup *l = (const lookup *)p;
    const int32_t last = text[n - 1];
    uint32_t best = 0, at = 0;
    for (uint32_t end = n - 1; end > 0 && best < LONGEST; end--) {
        if (text[end - 1] != last)
            continue;
        const uint32_t k = n_alike(text, n, end);
        if (k > best) {
            best = k;
            at = end;
        }
    }
    if (best < l->least)
        return 0;
    const uint32_t left = n - at;
    return add_chain(out, text + at, left < most ? left : most);
}

static void free_plain(fy_proposer *p)
{
    free(p);
}

fy_proposer *fy_lookup_new(uint32_t least, fy_err *e)
{
    static const fy_proposer_calls calls = {
        .name = "lookup", .propose = look_up, .free = free_plain};
    lookup *l = calloc(1, sizeof *l);
    if (l == NULL) {
        fy_nomem(e);
        return NULL;
    }
    l->p.calls = &calls;
    l->least = least;
    return &l->p;
}

/* --- a known text ---------------------------------------------------------------------------- */

typedef struct {
    fy_proposer p;
    fy_ids ids; /* owned: the text */
    double right;
    uint32_t n_vocab;
    fy_rng rng;
} known;

static int propose_known(fy_proposer *p, const int32_t *text, uint32_t n, uint32_t most,
                         fy_proposal *out, fy_err *e)
{
    (void)text;
    (void)e;
    known *k = (known *)p;
    int32_t at = -1;
    for (uint32_t i = n; i < k->ids.n && i - n < most; i++) {
        const bool right = fy_rng_unit(&k->rng) < k->right;
        at = fy_proposal_add(
            out, at, right ? k->ids.id[i] : (int32_t)(((uint32_t)k->ids.id[i] + 1) % k->n_vocab));
    }
    return 0;
}

static void free_known(fy_proposer *p)
{
    fy_ids_release(&((known *)p)->ids);
    free(p);
}

fy_proposer *fy_known_new(const int32_t *ids, uint32_t n, double right, uint32_t n_vocab,
                          uint64_t seed, fy_err *e)
{
    static const fy_proposer_calls calls = {
        .name = "table", .propose = propose_known, .free = free_known};
    known *k = calloc(1, sizeof *k);
    if (k == NULL) {
        fy_nomem(e);
        return NULL;
    }
    k->p.calls = &calls;
    k->right = right;
    k->n_vocab = n_vocab;
    fy_rng_seed(&k->rng, seed);
    if (fy_ids_append(&k->ids, ids, n, e) != 0) {
        free_known(&k->p);
        return NULL;
    }
    return &k->p;
}
