/* What an automaton must be before a matcher may run on it: every rule can end, no rule begins with
 * itself. All searches are linear in the automaton and use no recursion. */
#include "grammar/rules.h"

#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

/* States to look at, each at most once. */
typedef struct {
    uint32_t *list; /* owned */
    uint32_t n;
    uint8_t *seen; /* owned */
} agenda;

static int agenda_init(agenda *a, const fy_grammar *g, fy_err *e)
{
    a->list = calloc((size_t)g->n_states + 1, sizeof *a->list);
    a->seen = calloc((size_t)g->n_states + 1, 1);
    a->n = 0;
    return a->list != NULL && a->seen != NULL ? 0 : fy_nomem(e);
}

static void agenda_release(agenda *a)
{
    free(a->list);
    free(a->seen);
}

static void agenda_add(agenda *a, uint32_t state)
{
    if (!a->seen[state])
        a->list[a->n++] = state;
    a->seen[state] = 1;
}

static void add_targets(agenda *a, const fy_grammar *g, const fy_state *s)
{
    for (uint32_t i = 0; i < s->b; i++)
        agenda_add(a, g->targets[s->a + i]);
}

/* --- which rules can end, with bytes or without ----------------------------------------------- */

/* A call waits in a list of its rule until that can end. */
typedef struct {
    uint32_t *first; /* owned, [n_rules]: a waiting call, or NOBODY */
    uint32_t *next;  /* owned, [n_states] */
} waiting;

static void rule_can_end(agenda *a, waiting *w, const fy_grammar *g, uint32_t rule, bool *can)
{
    if (can[rule])
        return;
    can[rule] = true;
    for (uint32_t s = w->first[rule]; s != NOBODY; s = w->next[s])
        agenda_add(a, g->states[s].b);
}

static void search_ends(agenda *a, waiting *w, const fy_grammar *g, bool by_bytes, bool *can)
{
    for (uint32_t i = 0; i < g->n_rules; i++) {
        w->first[i] = NOBODY;
        agenda_add(a, g->rules[i].entry);
    }
    while (a->n > 0) {
        const uint32_t at = a->list[--a->n];
        const fy_state *s = &g->states[at];
        switch ((fy_state_kind)s->kind) {
        case FY_STATE_BYTES:
            for (uint32_t i = 0; by_bytes && i < s->b; i++)
                agenda_add(a, g->edges[s->a + i].to);
            break;
        case FY_STATE_SPLIT:
            add_targets(a, g, s);
            break;
        case FY_STATE_CALL:
            if (can[s->a]) {
                agenda_add(a, s->b);
                break;
            }
            w->next[at] = w->first[s->a];
            w->first[s->a] = at;
            break;
        case FY_STATE_FINAL:
            rule_can_end(a, w, g, s->a, can);
            break;
        }
    }
}

static int find_ends(const fy_grammar *g, bool by_bytes, bool *can, fy_err *e)
{
    agenda a = {0};
    waiting w = {calloc((size_t)g->n_rules + 1, sizeof *w.first),
                 calloc((size_t)g->n_states + 1, sizeof *w.next)};
    int rc = w.first != NULL && w.next != NULL ? agenda_init(&a, g, e) : fy_nomem(e);
    if (rc == 0)
        search_ends(&a, &w, g, by_bytes, can);
    agenda_release(&a);
    free(w.first);
    free(w.next);
    return rc;
}

/* --- which rules begin with which ------------------------------------------------------------- */

typedef struct {
    size_t *first;  /* owned, [n_rules + 1] */
    uint32_t *list; /* owned: those that rule i begins with are first[i] .. first[i + 1] */
    size_t n, cap;
} begins;

static int find_begins(const fy_grammar *g, agenda *a, begins *b, fy_err *e)
{
    for (uint32_t rule = 0; rule < g->n_rules; rule++) {
        b->first[rule] = b->n;
        agenda_add(a, g->rules[rule].entry);
        while (a->n > 0) {
            const fy_state *s = &g->states[a->list[--a->n]];
            if (s->kind == FY_STATE_SPLIT)
                add_targets(a, g, s);
            if (s->kind != FY_STATE_CALL)
                continue;
            const uint32_t called = s->a;
            if (fy_append(&b->list, &b->n, &b->cap, &called, sizeof called, e) != 0)
                return -1;
            if (g->rules[called].nullable)
                agenda_add(a, s->b);
        }
    }
    b->first[g->n_rules] = b->n;
    return 0;
}

/* Depth first; a rule that is met while it is open begins with itself. Ranks are given from the
 * last, as rules are left. */
static int rank_rules(fy_grammar *g, const begins *b, uint32_t *open, size_t *at, uint8_t *state,
                      uint32_t *bad, fy_err *e)
{
    enum { NEW, OPEN, DONE };
    uint32_t n_open = 0, rank = g->n_rules;
    for (uint32_t root = 0; root < g->n_rules; root++) {
        uint32_t next = root;
        while (next != NOBODY || n_open > 0) {
            if (next != NOBODY && state[next] == OPEN) {
                *bad = next;
                return fy_fail(e, FY_EFORMAT, "left recursion: the rule begins with itself");
            }
            if (next != NOBODY && state[next] == NEW) {
                state[next] = OPEN;
                at[next] = b->first[next];
                open[n_open++] = next;
            }
            if (n_open == 0)
                break;
            const uint32_t top = open[n_open - 1];
            next = at[top] < b->first[top + 1] ? b->list[at[top]++] : NOBODY;
            if (next == NOBODY) {
                state[top] = DONE;
                g->rules[top].rank = --rank;
                n_open--;
            }
        }
    }
    return 0;
}

static int check_left_recursion(fy_grammar *g, uint32_t *bad, fy_err *e)
{
    agenda a = {0};
    begins b = {0};
    const size_t n = (size_t)g->n_rules + 1;
    uint32_t *open = calloc(n, sizeof *open);
    size_t *at = calloc(n, sizeof *at);
    uint8_t *state = calloc(n, 1);
    b.first = calloc(n, sizeof *b.first);
    int rc = open != NULL && at != NULL && state != NULL && b.first != NULL ? agenda_init(&a, g, e)
                                                                            : fy_nomem(e);
    if (rc == 0)
        rc = find_begins(g, &a, &b, e);
    if (rc == 0)
        rc = rank_rules(g, &b, open, at, state, bad, e);
    agenda_release(&a);
    free(b.first);
    free(b.list);
    free(open);
    free(at);
    free(state);
    return rc;
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Where the bytes of UTF-8 change their meaning, and those that the masks' shortcut
 * (grammar/mask.c) leaves out. */
static const uint16_t usual_bounds[] = {0x20, 0x22, 0x23, 0x5C, 0x5D, 0x7F, 0x80, 0x90, 0xA0, 0xC0,
                                        0xC2, 0xE0, 0xE1, 0xED, 0xEE, 0xF0, 0xF1, 0xF4, 0xF5};

static void find_classes(fy_grammar *g)
{
    bool begins_class[257] = {0};
    for (size_t i = 0; i < sizeof usual_bounds / sizeof usual_bounds[0]; i++)
        begins_class[usual_bounds[i]] = true;
    for (uint32_t i = 0; i < g->n_edges; i++)
        begins_class[g->edges[i].lo] = begins_class[g->edges[i].hi + 1] = true;
    begins_class[0] = false;
    g->byte_of[0] = 0;
    g->n_classes = 1;
    for (uint32_t b = 0; b < 256; b++) {
        if (begins_class[b])
            g->byte_of[g->n_classes++] = (uint8_t)b;
        g->class_of[b] = (uint8_t)(g->n_classes - 1);
    }
}

int fy_rules_check(fy_grammar *g, uint32_t *bad, fy_err *e)
{
    bool *can = calloc((size_t)g->n_rules + 1, sizeof *can);
    int rc = can != NULL ? find_ends(g, true, can, e) : fy_nomem(e);
    for (uint32_t i = 0; rc == 0 && i < g->n_rules; i++) {
        *bad = i;
        if (!can[i])
            rc = fy_fail(e, FY_EFORMAT,
                         "the rule can never end: every way through it needs one that cannot");
    }
    if (rc == 0) {
        memset(can, 0, g->n_rules * sizeof *can);
        rc = find_ends(g, false, can, e);
    }
    for (uint32_t i = 0; rc == 0 && i < g->n_rules; i++)
        g->rules[i].nullable = can[i];
    free(can);
    if (rc == 0)
        rc = check_left_recursion(g, bad, e);
    if (rc == 0)
        find_classes(g);
    return rc;
}
