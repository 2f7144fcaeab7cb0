/* The mask of the next token, and the text's way through the grammar.
 *
 * A mask is a walk through the trie that is cut where a byte leads nowhere. Inside a string of JSON
 * or of free text, nearly all tokens are allowed and nothing cuts; there the plain tokens
 * (token_trie.h) are not walked. How many plain characters may come next decides: n, when any n of
 * them may and n + 1 may not, whichever they are. Then exactly the plain tokens of at most n
 * characters are allowed. Where it is not so, everything is walked.
 *
 * Masks whose walk was long are kept, by situation, in a small ring. */
#include "grammar/recognise.h"
#include "grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#define N_KEPT    32                   /* masks */
#define LONG_WALK 1024                 /* nodes: a mask that is worth being kept */
#define FORGET_AT ((size_t)3 << 19)    /* bytes of what was learned */
#define WORK_MAX  (4ull << 20)         /* ways met for one mask: 50 ms, other answers wait for it */
#define NOT_ALIKE (FY_PLAIN_CHARS + 1) /* a depth: plain characters lead to different places */
#define LEVEL_MAX 8                    /* situations of one level of the search */

struct fy_matcher {
    fy_grammar *g;    /* owned: a share */
    const fy_trie *t; /* view; may be NULL */
    fy_recogniser r;
    uint32_t start, here; /* situations */
    size_t forget_at;     /* bytes of what was learned */
    uint64_t work_max;    /* of the mask that is made */
    bool ended;
    uint64_t *bits;                  /* owned, [n_words]: a mask that is not kept */
    uint64_t *kept;                  /* owned, [N_KEPT][n_words], at the first long walk */
    uint32_t kept_situation[N_KEPT]; /* FY_DEAD: free */
    uint32_t kept_next;
    uint32_t *open_to, *open_end; /* owned, [depth + 1]: of a walk */
    uint8_t plain_class[256];     /* classes of the plain ASCII bytes */
    uint32_t n_plain_classes;
};

/* --- life ------------------------------------------------------------------------------------- */

static void find_plain_classes(fy_matcher *m)
{
    for (uint32_t c = 0; c < m->g->n_classes; c++) {
        const uint8_t b = m->g->byte_of[c];
        if (b >= 0x20 && b < 0x7F && b != '"' && b != '\\')
            m->plain_class[m->n_plain_classes++] = (uint8_t)c;
    }
}

fy_matcher *fy_matcher_new(fy_grammar *g, const fy_trie *trie, fy_err *e)
{
    fy_matcher *m = calloc(1, sizeof *m);
    if (m == NULL) {
        fy_nomem(e);
        return NULL;
    }
    m->g = fy_grammar_keep(g);
    m->t = trie;
    m->forget_at = FORGET_AT;
    find_plain_classes(m);
    int rc = fy_recogniser_init(&m->r, g, e);
    if (rc == 0 && trie != NULL) {
        m->bits = calloc((size_t)trie->n_words + 1, sizeof *m->bits);
        m->open_to = calloc((size_t)trie->depth + 2, sizeof *m->open_to);
        m->open_end = calloc((size_t)trie->depth + 2, sizeof *m->open_end);
        if (m->bits == NULL || m->open_to == NULL || m->open_end == NULL)
            rc = fy_nomem(e);
    }
    if (rc == 0 && fy_recogniser_start(&m->r, &m->start, e) == 0) {
        m->here = m->start;
        return m;
    }
    fy_matcher_free(m);
    return NULL;
}

void fy_matcher_free(fy_matcher *m)
{
    if (m == NULL)
        return;
    fy_recogniser_release(&m->r);
    fy_grammar_free(m->g);
    free(m->bits);
    free(m->kept);
    free(m->open_to);
    free(m->open_end);
    free(m);
}

void fy_matcher_reset(fy_matcher *m)
{
    m->here = m->start;
    m->ended = false;
}

bool fy_matcher_may_end(const fy_matcher *m)
{
    return m->ended || m->r.situations.sets[m->here].may_end;
}

bool fy_matcher_ended(const fy_matcher *m)
{
    return m->ended;
}

bool fy_matcher_is_complete(const fy_matcher *m)
{
    const fy_way_set *here = &m->r.situations.sets[m->here];
    return m->ended || (here->may_end && here->n == 0);
}

/* Keeps memory bounded in a long text. What a deep stack takes is not forgotten, so the limit goes
 * up with it. *also: a situation that is needed besides `here`. */
static int forget_if_much(fy_matcher *m, uint32_t *also, fy_err *e)
{
    uint32_t keep[] = {m->here, *also, m->start};
    if (fy_recogniser_memory(&m->r) <= m->forget_at)
        return 0;
    if (fy_recogniser_forget(&m->r, keep, 3, e) != 0)
        return -1;
    const size_t left = fy_recogniser_memory(&m->r);
    m->forget_at = FORGET_AT > 2 * left ? FORGET_AT : 2 * left;
    memset(m->kept_situation, 0, sizeof m->kept_situation);
    m->here = keep[0];
    *also = keep[1];
    m->start = keep[2];
    return 0;
}

/* --- how many plain characters may come next -------------------------------------------------- */

typedef struct {
    uint32_t list[LEVEL_MAX];
    uint32_t n;
    bool too_many;
} level;

static void add_to_level(level *l, uint32_t situation)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->list[i] == situation)
            return;
    }
    if (l->n < LEVEL_MAX)
        l->list[l->n++] = situation;
    else
        l->too_many = true;
}

/* What was met on the ways of one level's characters. */
typedef struct {
    bool alive, dead;
} met;

/* For a mask, whose work is limited. */
static int next_situation(fy_matcher *m, uint32_t from, uint32_t class, uint32_t *to, fy_err *e)
{
    if (fy_recogniser_next(&m->r, from, class, to, e) != 0)
        return -1;
    return m->r.work <= m->work_max
               ? 0
               : fy_fail(e, FY_EFIT,
                         "the grammar is too ambiguous here: a mask takes too long; anchor "
                         "patterns, or use smaller counts");
}

static int try_class(fy_matcher *m, uint32_t from, uint32_t class, level *to, met *seen, fy_err *e)
{
    uint32_t next;
    if (next_situation(m, from, class, &next, e) != 0)
        return -1;
    if (next == FY_DEAD) {
        seen->dead = true;
        return 0;
    }
    seen->alive = true;
    add_to_level(to, next);
    return 0;
}

/* Through one row of bytes: all characters of several bytes that it spells. */
static int try_row(fy_matcher *m, uint32_t from, const fy_utf8_row *row, level *out, met *seen,
                   fy_err *e)
{
    level at = {.list = {from}, .n = 1};
    for (uint32_t i = 0; i < row->n; i++) {
        level to = {0};
        const uint32_t last = m->g->class_of[row->hi[i]];
        met here = {0};
        for (uint32_t k = 0; k < at.n; k++) {
            for (uint32_t c = m->g->class_of[row->lo[i]]; c <= last; c++) {
                if (try_class(m, at.list[k], c, &to, &here, e) != 0)
                    return -1;
            }
        }
        seen->dead |= here.dead;
        at = to;
    }
    seen->alive |= at.n > 0;
    out->too_many |= at.too_many;
    for (uint32_t k = 0; k < at.n; k++)
        add_to_level(out, at.list[k]);
    return 0;
}

static int try_plain(fy_matcher *m, uint32_t from, level *out, met *seen, fy_err *e)
{
    static const fy_utf8_row rows[] = {
        {{0xC2, 0x80}, {0xDF, 0xBF}, 2},
        {{0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}, 3},
        {{0xE1, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}, 3},
        {{0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}, 3},
        {{0xEE, 0x80, 0x80}, {0xEF, 0xBF, 0xBF}, 3},
        {{0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}, 4},
        {{0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}, 4},
        {{0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}, 4},
    };
    for (uint32_t i = 0; i < m->n_plain_classes; i++) {
        if (try_class(m, from, m->plain_class[i], out, seen, e) != 0)
            return -1;
        if (seen->alive && seen->dead)
            return 0;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (try_row(m, from, &rows[i], out, seen, e) != 0)
            return -1;
        if (seen->alive && seen->dead)
            return 0;
    }
    return 0;
}

/* Nothing new was met. */
static bool is_within(const level *l, const level *all)
{
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t k = 0;
        while (k < all->n && all->list[k] != l->list[i])
            k++;
        if (k == all->n)
            return false;
    }
    return true;
}

/* How many plain characters may come next, whichever they are; NOT_ALIKE: it depends on them. */
static int plain_depth(fy_matcher *m, uint32_t from, uint8_t *out, fy_err *e)
{
    level at = {.list = {from}, .n = 1}, all = at;
    for (uint8_t depth = 0; depth < FY_PLAIN_CHARS; depth++) {
        level to = {0};
        met seen = {0};
        for (uint32_t i = 0; i < at.n; i++) {
            if (try_plain(m, at.list[i], &to, &seen, e) != 0)
                return -1;
        }
        if ((seen.alive && seen.dead) || to.too_many) {
            *out = NOT_ALIKE;
            return 0;
        }
        if (!seen.alive) {
            *out = depth;
            return 0;
        }
        if (is_within(&to, &all))
            break;
        for (uint32_t i = 0; i < to.n; i++)
            add_to_level(&all, to.list[i]);
        at = to;
    }
    *out = FY_PLAIN_CHARS;
    return 0;
}

static int known_depth(fy_matcher *m, uint32_t situation, uint8_t *out, fy_err *e)
{
    *out = m->r.situations.sets[situation].depth;
    if (*out != FY_DEPTH_UNKNOWN)
        return 0;
    if (plain_depth(m, situation, out, e) != 0)
        return -1;
    m->r.situations.sets[situation].depth = *out;
    return 0;
}

/* --- the walk --------------------------------------------------------------------------------- */

static int walk(fy_matcher *m, const fy_tree *tree, uint32_t from, uint64_t *bits,
                uint32_t *n_visited, fy_err *e)
{
    const fy_trie_node *nodes = tree->nodes;
    const uint8_t *class_of = m->g->class_of;
    const uint32_t n_classes = m->g->n_classes;
    uint32_t d = 0, visited = 0;
    m->open_to[0] = from;
    m->open_end[0] = tree->n;
    for (uint32_t i = 0; i < tree->n; visited++) {
        const fy_trie_node node = nodes[i];
        const uint32_t class = class_of[node.byte];
        uint32_t to = m->r.next[(size_t)m->open_to[d] * n_classes + class];
        if (to == FY_NOT_YET && next_situation(m, m->open_to[d], class, &to, e) != 0)
            return -1;
        if (to == FY_DEAD) {
            i = node.next;
        } else {
            const uint32_t end = nodes[i + 1].first;
            for (uint32_t k = node.first; k < end; k++)
                bits[tree->tokens[k] / 64] |= 1ull << tree->tokens[k] % 64;
            if (node.next > i + 1) {
                m->open_to[++d] = to;
                m->open_end[d] = node.next;
            }
            i++;
        }
        while (d > 0 && i == m->open_end[d])
            d--;
    }
    *n_visited += visited;
    return 0;
}

static int fill_mask(fy_matcher *m, uint64_t *bits, uint32_t *n_visited, fy_err *e)
{
    const fy_trie *t = m->t;
    uint8_t depth;
    m->work_max = m->r.work + WORK_MAX;
    if (known_depth(m, m->here, &depth, e) != 0)
        return -1;
    *n_visited = 0;
    if (depth == NOT_ALIKE)
        memset(bits, 0, t->n_words * sizeof *bits);
    else
        memcpy(bits, t->plain + (size_t)depth * t->n_words, t->n_words * sizeof *bits);
    if (m->r.situations.sets[m->here].may_end) {
        for (uint32_t w = 0; w < t->n_words; w++)
            bits[w] |= t->ends[w];
    }
    return walk(m, depth == NOT_ALIKE ? &t->all : &t->others, m->here, bits, n_visited, e);
}

/* --- masks ------------------------------------------------------------------------------------ */

static const uint64_t *find_kept(const fy_matcher *m)
{
    for (uint32_t i = 0; m->kept != NULL && i < N_KEPT; i++) {
        if (m->kept_situation[i] == m->here)
            return m->kept + (size_t)i * m->t->n_words;
    }
    return NULL;
}

/* A mask that cannot be kept is made again. */
static void keep(fy_matcher *m)
{
    const size_t n = m->t->n_words;
    if (m->kept == NULL)
        m->kept = malloc(N_KEPT * n * sizeof *m->kept);
    if (m->kept == NULL)
        return;
    const uint32_t at = m->kept_next++ % N_KEPT;
    memcpy(m->kept + at * n, m->bits, n * sizeof *m->kept);
    m->kept_situation[at] = m->here;
}

static int make_mask(fy_matcher *m, const uint64_t **out, fy_err *e)
{
    uint32_t n_visited = 0, also = m->here;
    if (forget_if_much(m, &also, e) != 0)
        return -1;
    if ((*out = find_kept(m)) != NULL)
        return 0;
    if (fill_mask(m, m->bits, &n_visited, e) != 0)
        return -1;
    *out = m->bits;
    if (n_visited > LONG_WALK)
        keep(m);
    return 0;
}

int fy_matcher_mask(fy_matcher *m, fy_mask *out, fy_err *e)
{
    fy_mask made = {.n_words = m->t != NULL ? m->t->n_words : 0, .only = -1};
    if (m->ended || m->t == NULL)
        return fy_fail(e, FY_EARG,
                       m->ended ? "the text has ended: nothing comes after it"
                                : "a matcher without a vocabulary makes no masks");
    if (make_mask(m, &made.bits, e) != 0)
        return fy_ctx(e, "grammar");
    for (uint32_t w = 0; w < made.n_words; w++) {
        if (made.bits[w] != 0)
            made.only = (int32_t)(w * 64 + (uint32_t)__builtin_ctzll(made.bits[w]));
        made.n_allowed += (uint32_t)__builtin_popcountll(made.bits[w]);
    }
    if (made.n_allowed == 0)
        return fy_fail(e, FY_EFORMAT,
                       "grammar: no token of the vocabulary continues the text; the grammar asks "
                       "for bytes that it cannot spell%s",
                       m->r.situations.sets[m->here].may_end
                           ? ", or for the end, and there is no end token"
                           : "");
    if (made.n_allowed != 1)
        made.only = -1;
    *out = made;
    return 0;
}

/* --- the text --------------------------------------------------------------------------------- */

int fy_matcher_accept_text(fy_matcher *m, fy_span text, fy_err *e)
{
    uint32_t at = m->here;
    if (m->ended && text.len > 0)
        return fy_fail(e, FY_EARG, "the text has ended: nothing comes after it");
    for (size_t i = 0; i < text.len; i++) {
        const uint32_t class = m->g->class_of[(uint8_t)text.ptr[i]];
        if (forget_if_much(m, &at, e) != 0 || fy_recogniser_next(&m->r, at, class, &at, e) != 0)
            return fy_ctx(e, "grammar");
        if (at == FY_DEAD)
            return fy_fail(e, FY_EARG, "the grammar does not allow byte %zu of this text", i + 1);
    }
    m->here = at;
    return 0;
}

int fy_matcher_accept(fy_matcher *m, int32_t id, fy_err *e)
{
    const fy_trie *t = m->t;
    if (t == NULL || id < 0 || (uint32_t)id >= t->n_ids)
        return fy_fail(e, FY_EARG, "token %d, the vocabulary has %u", id, t != NULL ? t->n_ids : 0);
    if (fy_trie_is_end(t, (uint32_t)id)) {
        if (!fy_matcher_may_end(m))
            return fy_fail(e, FY_EARG, "the text may not end here");
        m->ended = true;
        return 0;
    }
    const fy_span bytes = fy_trie_text(t, (uint32_t)id);
    if (bytes.len == 0)
        return fy_fail(e, FY_EARG, "token %d has no text: the grammar does not allow it", id);
    return fy_matcher_accept_text(m, bytes, e);
}
