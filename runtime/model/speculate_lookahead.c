/* Lookahead decoding (Fu et al., "Break the Sequential Dependency of LLM Inference Using Lookahead
 * Decoding"), as ExecuTorch's Qualcomm runner does it after llama.cpp's example. A window of W
 * columns and N - 1 levels holds guesses for the positions ahead: every step computes the window,
 * takes the likeliest token after the last level as the next level, and so iterates all positions
 * at once. The N-grams along its columns go to a pool; those that begin with the text's last token
 * are proposed in the same step. */
#include <stdlib.h>
#include <string.h>

#include "model/sample.h"
#include "model/sample_impl.h"
#include "model/speculate.h"

enum { SEED = 1234 };

/* The N-grams of a first token: a ring. */
typedef struct {
    uint32_t n, next;
} ring;

typedef struct {
    fy_proposer p;
    fy_lookahead_params o;
    uint32_t n_vocab;
    int32_t *window; /* owned, [N - 1][W]; in the first column level 0 is the text's */
    ring *rings;     /* owned, [n_vocab] */
    int32_t *grams;  /* owned, [n_vocab][G][N - 1]: what follows the first token */
    int32_t last[FY_PROPOSAL_MAX]; /* [W] nodes of the last level in the last proposal */
    bool begun;
} lookahead;

static int32_t *level(const lookahead *l, uint32_t i)
{
    return l->window + (size_t)i * l->o.window;
}

static int32_t *gram(const lookahead *l, int32_t first, uint32_t i)
{
    return l->grams + ((size_t)first * l->o.gcap + i) * (l->o.ngram - 1);
}

/* Random tokens of the prompt, not its first; the same ones every time. */
static void begin(fy_proposer *p, const int32_t *text, uint32_t n)
{
    lookahead *l = (lookahead *)p;
    fy_rng rng;
    fy_rng_seed(&rng, SEED);
    memset(l->rings, 0, l->n_vocab * sizeof *l->rings);
    l->begun = n >= 2;
    for (uint32_t i = 0; l->begun && i < (l->o.ngram - 1) * l->o.window; i++)
        l->window[i] = text[1 + (uint32_t)(fy_rng_unit(&rng) * (n - 1))];
}

/* A node that is computed but is no guess, even where one like it is. */
static int32_t add_scout(fy_proposal *out, int32_t parent, int32_t id)
{
    out->node[out->n] = (fy_proposal_node){.id = id, .parent = parent, .scout = true};
    return (int32_t)out->n++;
}

static int propose(fy_proposer *p, const int32_t *text, uint32_t n, uint32_t most, fy_proposal *out,
                   fy_err *e)
{
    (void)e;
    lookahead *l = (lookahead *)p;
    const uint32_t w = l->o.window, levels = l->o.ngram - 1;
    const int32_t cur = text[n - 1];
    if (!l->begun || (uint32_t)cur >= l->n_vocab || most < fy_lookahead_nodes(&l->o))
        return 0;
    l->last[0] = -1;
    for (uint32_t j = 1; j < w; j++)
        l->last[j] = add_scout(out, l->last[j - 1], level(l, 0)[j]);
    for (uint32_t i = 1; i < levels; i++) {
        for (uint32_t j = 0; j < w; j++)
            l->last[j] = add_scout(out, l->last[j], level(l, i)[j]);
    }
    for (uint32_t g = 0; g < l->rings[cur].n; g++) {
        int32_t at = -1;
        for (uint32_t j = 0; j < levels; j++)
            at = fy_proposal_add(out, at, gram(l, cur, g)[j]);
    }
    return 0;
}

static void remember(lookahead *l, int32_t first, const int32_t *follows)
{
    const uint32_t n = l->o.ngram - 1;
    ring *r = &l->rings[first];
    for (uint32_t i = 0; i < r->n; i++) {
        if (memcmp(gram(l, first, i), follows, n * sizeof *follows) == 0)
            return;
    }
    memcpy(gram(l, first, r->next), follows, n * sizeof *follows);
    r->next = (r->next + 1) % l->o.gcap;
    r->n += r->n < l->o.gcap;
}

static int32_t likeliest(const float *logits, uint32_t n_vocab)
{
    fy_candidate best;
    return fy_logits_best(logits, n_vocab, 1, &best) > 0 ? best.id : 0;
}

static void learn(fy_proposer *p, const fy_proposal *was, const float *logits, uint32_t n_vocab)
{
    (void)was;
    lookahead *l = (lookahead *)p;
    const uint32_t w = l->o.window, levels = l->o.ngram - 1;
    int32_t first[FY_PROPOSAL_MAX], follows[FY_PROPOSAL_MAX];
    memcpy(first, level(l, 0), w * sizeof *first);
    memmove(level(l, 0), level(l, 1), (size_t)(levels - 1) * w * sizeof *first);
    for (uint32_t j = 0; j < w; j++)
        level(l, levels - 1)[j] = likeliest(logits + (size_t)(l->last[j] + 1) * n_vocab, n_vocab);
    for (uint32_t j = 0; j < w; j++) {
        for (uint32_t i = 0; i < levels; i++)
            follows[i] = level(l, i)[j];
        if (first[j] >= 0 && (uint32_t)first[j] < l->n_vocab)
            remember(l, first[j], follows);
    }
}

static void free_lookahead(fy_proposer *p)
{
    lookahead *l = (lookahead *)p;
    free(l->window);
    free(l->rings);
    free(l->grams);
    free(l);
}

uint32_t fy_lookahead_nodes(const fy_lookahead_params *o)
{
    return (o->window + o->gcap) * (o->ngram - 1) - 1;
}

fy_proposer *fy_lookahead_new(const fy_lookahead_params *o, uint32_t n_vocab, fy_err *e)
{
    static const fy_proposer_calls calls = {.name = "lookahead",
                                            .wide = true,
                                            .propose = propose,
                                            .learn = learn,
                                            .begin = begin,
                                            .free = free_lookahead};
    if (o->ngram < 2 || o->ngram > FY_PROPOSAL_MAX || o->window < 1 || o->gcap < 1 ||
        o->window > FY_PROPOSAL_MAX || o->gcap > FY_PROPOSAL_MAX ||
        fy_lookahead_nodes(o) > FY_PROPOSAL_MAX) {
        fy_fail(e, FY_EARG,
                "lookahead with ngram %u, window %u and gcap %u: expected ngram of 2 or more, and "
                "(window + gcap) x (ngram - 1) of at most %d",
                o->ngram, o->window, o->gcap, FY_PROPOSAL_MAX + 1);
        return NULL;
    }
    lookahead *l = calloc(1, sizeof *l);
    if (l == NULL) {
        fy_nomem(e);
        return NULL;
    }
    l->p.calls = &calls;
    l->o = *o;
    l->n_vocab = n_vocab;
    l->window = calloc((size_t)(o->ngram - 1) * o->window, sizeof *l->window);
    l->rings = calloc(n_vocab, sizeof *l->rings);
    l->grams = calloc(n_vocab, (size_t)o->gcap * (o->ngram - 1) * sizeof *l->grams);
    if (l->window == NULL || l->rings == NULL || l->grams == NULL) {
        free_lookahead(&l->p);
        fy_nomem(e);
        return NULL;
    }
    return &l->p;
}
