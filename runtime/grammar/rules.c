/* Rules as trees, and the automaton that is emitted of them. Trees are emitted from their end: each
 * part is given the state that comes after it, so that no state is ever patched but those of loops
 * and nothing leads on without a byte where it need not. */
#include "grammar/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/math.h"

enum { NODE_NONE = 0, NODE_TEXT, NODE_CLASS, NODE_SEQ, NODE_ALT, NODE_REPEAT, NODE_CALL };

/* Text and class: a range of `bytes` or `ranges`; seq and alt: of `items`. */
typedef struct {
    uint32_t kind;
    uint32_t a, b, c;
    uint64_t symbols;
} tree;

typedef struct {
    fy_span name; /* of the arena */
    fy_node node; /* 0: not defined */
} named_rule;

struct fy_rules {
    fy_arena names;
    tree *trees;         /* owned */
    char *bytes;         /* owned */
    fy_cp_range *ranges; /* owned */
    fy_node *items;      /* owned */
    named_rule *rules;   /* owned */
    size_t n_trees, cap_trees, n_bytes, cap_bytes, n_ranges, cap_ranges, n_items, cap_items;
    size_t n_rules, cap_rules;
    bool oom; /* a tree could not be made */
};

/* --- life ------------------------------------------------------------------------------------- */

fy_rules *fy_rules_new(fy_err *e)
{
    fy_rules *r = calloc(1, sizeof *r);
    const tree none = {0};
    if (r == NULL || fy_append(&r->trees, &r->n_trees, &r->cap_trees, &none, sizeof none, e) != 0) {
        fy_rules_free(r);
        fy_nomem(e);
        return NULL;
    }
    return r;
}

void fy_rules_free(fy_rules *r)
{
    if (r == NULL)
        return;
    fy_arena_release(&r->names);
    free(r->trees);
    free(r->bytes);
    free(r->ranges);
    free(r->items);
    free(r->rules);
    free(r);
}

/* --- trees ------------------------------------------------------------------------------------ */

static fy_node add_tree(fy_rules *r, const tree *t)
{
    const size_t at = r->n_trees;
    if (r->oom || at >= UINT32_MAX ||
        fy_append(&r->trees, &r->n_trees, &r->cap_trees, t, sizeof *t, NULL) != 0) {
        r->oom = true;
        return 0;
    }
    return (fy_node)at;
}

/* Room for `more` items after the n of an array; `array` is the address of the pointer to it. */
static bool has_room(fy_rules *r, void *array, size_t n, size_t *cap, size_t more, size_t size)
{
    void *items;
    memcpy(&items, array, sizeof items);
    while (!r->oom && *cap < n + more) {
        void *grown = fy_grow(items, *cap, cap, size);
        r->oom |= grown == NULL || n + more > UINT32_MAX;
        items = grown != NULL ? grown : items;
    }
    memcpy(array, &items, sizeof items);
    return !r->oom;
}

fy_node fy_rules_text(fy_rules *r, fy_span utf8)
{
    tree t = {.kind = NODE_TEXT, .a = (uint32_t)r->n_bytes, .b = (uint32_t)utf8.len};
    if (!has_room(r, &r->bytes, r->n_bytes, &r->cap_bytes, utf8.len + 1, 1))
        return 0;
    for (size_t i = 0; i < utf8.len; i++) {
        r->bytes[r->n_bytes++] = utf8.ptr[i];
        t.symbols += ((uint8_t)utf8.ptr[i] & 0xC0) != 0x80;
    }
    t.symbols += t.symbols == 0;
    return add_tree(r, &t);
}

static size_t negate(fy_cp_range *r, size_t n, fy_cp_range *out)
{
    size_t n_out = 0;
    uint32_t lo = 0;
    for (size_t i = 0; i < n; i++) {
        if (r[i].lo > lo)
            out[n_out++] = (fy_cp_range){lo, r[i].lo - 1};
        lo = r[i].hi + 1;
    }
    if (lo <= 0x10FFFF)
        out[n_out++] = (fy_cp_range){lo, 0x10FFFF};
    return fy_cp_ranges_normalize(out, n_out);
}

fy_node fy_rules_class(fy_rules *r, const fy_cp_range *ranges, size_t n, bool negated)
{
    tree t = {.kind = NODE_CLASS, .a = (uint32_t)r->n_ranges};
    if (!has_room(r, &r->ranges, r->n_ranges, &r->cap_ranges, 2 * n + 6, sizeof *r->ranges))
        return 0;
    fy_cp_range *own = r->ranges + r->n_ranges;
    if (n > 0)
        memcpy(own, ranges, n * sizeof *ranges);
    size_t kept = fy_cp_ranges_normalize(own, n);
    if (negated) {
        const size_t n_other = negate(own, kept, own + kept);
        memmove(own, own + kept, n_other * sizeof *own);
        kept = n_other;
    }
    t.b = (uint32_t)kept;
    t.symbols = 1 + kept / 8;
    r->n_ranges += kept;
    return add_tree(r, &t);
}

bool fy_rules_lacks_memory(const fy_rules *r)
{
    return r->oom;
}

bool fy_rules_is_empty_class(const fy_rules *r, fy_node node)
{
    return r->trees[node].kind == NODE_CLASS && r->trees[node].b == 0;
}

uint64_t fy_rules_symbols(const fy_rules *r, fy_node node)
{
    return r->trees[node].symbols;
}

static fy_node add_list(fy_rules *r, uint32_t kind, const fy_node *items, size_t n)
{
    tree t = {.kind = kind, .a = (uint32_t)r->n_items, .b = (uint32_t)n};
    if (n == 1)
        return items[0];
    if (!has_room(r, &r->items, r->n_items, &r->cap_items, n + 1, sizeof *r->items))
        return 0;
    for (size_t i = 0; i < n; i++) {
        r->items[r->n_items++] = items[i];
        if (!fy_add_u64(t.symbols, r->trees[items[i]].symbols, &t.symbols))
            t.symbols = UINT64_MAX;
    }
    t.symbols += t.symbols == 0;
    return add_tree(r, &t);
}

fy_node fy_rules_seq(fy_rules *r, const fy_node *items, size_t n)
{
    return add_list(r, NODE_SEQ, items, n);
}

fy_node fy_rules_alt(fy_rules *r, const fy_node *items, size_t n)
{
    return add_list(r, NODE_ALT, items, n);
}

fy_node fy_rules_repeat(fy_rules *r, fy_node item, uint32_t min, uint32_t max)
{
    uint64_t copies = max != FY_MANY ? max : (uint64_t)min + (min == 0);
    tree t = {.kind = NODE_REPEAT, .a = item, .b = min, .c = max};
    if (min == 1 && max == 1)
        return item;
    if (!fy_mul_u64(r->trees[item].symbols, copies > 0 ? copies : 1, &t.symbols))
        t.symbols = UINT64_MAX;
    return add_tree(r, &t);
}

fy_node fy_rules_call(fy_rules *r, uint32_t rule)
{
    const tree t = {.kind = NODE_CALL, .a = rule, .symbols = 1};
    return add_tree(r, &t);
}

/* --- rules ------------------------------------------------------------------------------------ */

int fy_rules_declare(fy_rules *r, fy_span name, uint32_t *rule, fy_err *e)
{
    char *copy = fy_arena_strndup(&r->names, name.ptr, name.len);
    const named_rule x = {.name = {copy, name.len}};
    if (copy == NULL)
        return fy_nomem(e);
    *rule = (uint32_t)r->n_rules;
    return fy_append(&r->rules, &r->n_rules, &r->cap_rules, &x, sizeof x, e);
}

void fy_rules_define(fy_rules *r, uint32_t rule, fy_node node)
{
    r->rules[rule].node = node;
}

uint32_t fy_rules_n(const fy_rules *r)
{
    return (uint32_t)r->n_rules;
}

fy_span fy_rules_name(const fy_rules *r, uint32_t rule)
{
    return r->rules[rule].name;
}

bool fy_rules_is_defined(const fy_rules *r, uint32_t rule)
{
    return r->rules[rule].node != 0;
}

/* --- the automaton ---------------------------------------------------------------------------- */

#define STATES_MAX (2u << 20)
#define EDGES_MAX  (4u << 20)
#define NO_STATE   UINT32_MAX

typedef struct {
    const fy_rules *r;
    fy_grammar *g;
    size_t n_states, cap_states, n_edges, cap_edges, n_targets, cap_targets;
    uint32_t full[4]; /* of a class: the state before that many bytes of any value 80-BF */
    fy_err *e;
} emitter;

static uint32_t add_state(emitter *m, fy_state_kind kind, uint32_t a, uint32_t b)
{
    const fy_state s = {.kind = kind, .a = a, .b = b & 0xFFFFFF};
    const size_t at = m->n_states;
    if (at >= STATES_MAX || m->n_edges >= EDGES_MAX || m->n_targets >= EDGES_MAX) {
        fy_fail(m->e, FY_EFIT, "the grammar takes more than %u states; use smaller counts",
                STATES_MAX);
        return NO_STATE;
    }
    return fy_append(&m->g->states, &m->n_states, &m->cap_states, &s, sizeof s, m->e) == 0
               ? (uint32_t)at
               : NO_STATE;
}

static int add_edge(emitter *m, uint8_t lo, uint8_t hi, uint32_t to)
{
    const fy_edge x = {.to = to, .lo = lo, .hi = hi};
    return fy_append(&m->g->edges, &m->n_edges, &m->cap_edges, &x, sizeof x, m->e);
}

static int add_target(emitter *m, uint32_t to)
{
    return fy_append(&m->g->targets, &m->n_targets, &m->cap_targets, &to, sizeof to, m->e);
}

static uint32_t emit_edge(emitter *m, uint8_t lo, uint8_t hi, uint32_t to)
{
    const uint32_t first = (uint32_t)m->n_edges;
    return to == NO_STATE || add_edge(m, lo, hi, to) != 0 ? NO_STATE
                                                          : add_state(m, FY_STATE_BYTES, first, 1);
}

static uint32_t emit_text(emitter *m, const tree *t, uint32_t next)
{
    for (uint32_t i = t->b; i > 0 && next != NO_STATE; i--) {
        const uint8_t byte = (uint8_t)m->r->bytes[t->a + i - 1];
        next = emit_edge(m, byte, byte, next);
    }
    return next;
}

/* The state before n bytes of any value 80-BF. */
static uint32_t emit_full(emitter *m, uint32_t n, uint32_t next)
{
    m->full[0] = next;
    for (uint32_t i = 1; i <= n; i++) {
        if (m->full[i] == NO_STATE)
            m->full[i] = emit_edge(m, 0x80, 0xBF, m->full[i - 1]);
    }
    return m->full[n];
}

static bool is_full(const fy_utf8_row *row, uint32_t from)
{
    bool full = true;
    for (uint32_t i = from; i < row->n; i++)
        full &= row->lo[i] == 0x80 && row->hi[i] == 0xBF;
    return full;
}

/* The state before bytes `at` and on of rows, which agree in the bytes before. Rows that differ in
 * a byte do not overlap there, so a state's edges do not. At most four deep. */
static uint32_t emit_rows(emitter *m, const fy_utf8_row *rows, size_t n, uint32_t at, uint32_t next)
{
    fy_edge *found = NULL; /* owned */
    size_t n_found = 0, cap = 0;
    uint32_t state = NO_STATE;
    if (n == 1 && at > 0 && is_full(rows, at))
        return emit_full(m, rows->n - at, next);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && rows[j].lo[at] == rows[i].lo[at] && at + 1 < rows[i].n; j++)
            ;
        fy_edge x = {.lo = rows[i].lo[at], .hi = rows[i].hi[at], .to = next};
        if (at + 1 < rows[i].n)
            x.to = emit_rows(m, rows + i, j - i, at + 1, next);
        fy_edge *last = n_found > 0 ? &found[n_found - 1] : NULL;
        if (last != NULL && last->to == x.to && last->hi + 1 == x.lo)
            last->hi = x.hi;
        else if (x.to == NO_STATE || fy_append(&found, &n_found, &cap, &x, sizeof x, m->e) != 0)
            goto done;
    }
    const uint32_t first = (uint32_t)m->n_edges;
    for (size_t i = 0; i < n_found; i++) {
        if (add_edge(m, found[i].lo, found[i].hi, found[i].to) != 0)
            goto done;
    }
    state = add_state(m, FY_STATE_BYTES, first, (uint32_t)n_found);
done:
    free(found);
    return state;
}

static uint32_t emit_class(emitter *m, const tree *t, uint32_t next)
{
    fy_utf8_row *rows = calloc((size_t)t->b * 24 + 1, sizeof *rows);
    size_t n = 0;
    if (rows == NULL) {
        fy_nomem(m->e);
        return NO_STATE;
    }
    for (uint32_t i = 0; i < t->b; i++)
        n += fy_utf8_rows(m->r->ranges[t->a + i], rows + n);
    for (int i = 0; i < 4; i++)
        m->full[i] = NO_STATE;
    const uint32_t state = emit_rows(m, rows, n, 0, next);
    free(rows);
    return state;
}

static uint32_t emit(emitter *m, fy_node node, uint32_t next);

static uint32_t emit_alt(emitter *m, const tree *t, uint32_t next)
{
    uint32_t *to = calloc((size_t)t->b + 1, sizeof *to), state = NO_STATE;
    bool ok = to != NULL || fy_nomem(m->e) == 0;
    for (uint32_t i = 0; ok && i < t->b; i++) {
        to[i] = emit(m, m->r->items[t->a + i], next);
        ok = to[i] != NO_STATE;
    }
    const uint32_t first = (uint32_t)m->n_targets;
    for (uint32_t i = 0; ok && i < t->b; i++)
        ok = add_target(m, to[i]) == 0;
    if (ok)
        state = add_state(m, FY_STATE_SPLIT, first, t->b);
    free(to);
    return state;
}

/* A state that leads to two others; the first is set afterwards. */
static uint32_t add_fork(emitter *m, uint32_t first, uint32_t second)
{
    const uint32_t at = (uint32_t)m->n_targets;
    return add_target(m, first) != 0 || add_target(m, second) != 0
               ? NO_STATE
               : add_state(m, FY_STATE_SPLIT, at, 2);
}

static uint32_t emit_repeat(emitter *m, const tree *t, uint32_t next)
{
    uint32_t state = next, min = t->b;
    if (t->c == FY_MANY) {
        const uint32_t loop = add_fork(m, next, next);
        const uint32_t body = loop != NO_STATE ? emit(m, t->a, loop) : NO_STATE;
        if (body == NO_STATE)
            return NO_STATE;
        m->g->targets[m->g->states[loop].a] = body;
        state = min > 0 ? body : loop;
        min -= min > 0;
    }
    for (uint32_t i = min; t->c != FY_MANY && i < t->c && state != NO_STATE; i++) {
        state = emit(m, t->a, state);
        state = state != NO_STATE ? add_fork(m, state, next) : NO_STATE;
    }
    for (uint32_t i = 0; i < min && state != NO_STATE; i++)
        state = emit(m, t->a, state);
    return state;
}

/* The state before `node` when `next` comes after it. As deep as the tree. */
static uint32_t emit(emitter *m, fy_node node, uint32_t next)
{
    const tree *t = &m->r->trees[node];
    switch (t->kind) {
    case NODE_TEXT:
        return emit_text(m, t, next);
    case NODE_CLASS:
        return emit_class(m, t, next);
    case NODE_SEQ:
        for (uint32_t i = t->b; i > 0 && next != NO_STATE; i--)
            next = emit(m, m->r->items[t->a + i - 1], next);
        return next;
    case NODE_ALT:
        return emit_alt(m, t, next);
    case NODE_REPEAT:
        return emit_repeat(m, t, next);
    default:
        return add_state(m, FY_STATE_CALL, t->a, next);
    }
}

static int emit_rules(emitter *m, fy_grammar *g)
{
    g->n_rules = (uint32_t)m->r->n_rules;
    g->rules = calloc((size_t)g->n_rules + 1, sizeof *g->rules);
    if (g->rules == NULL)
        return fy_nomem(m->e);
    for (uint32_t i = 0; i < g->n_rules; i++) {
        const uint32_t final = add_state(m, FY_STATE_FINAL, i, 0);
        if (final == NO_STATE)
            return -1;
        g->rules[i].entry = emit(m, m->r->rules[i].node, final);
        if (g->rules[i].entry == NO_STATE)
            return -1;
    }
    g->n_states = (uint32_t)m->n_states;
    g->n_edges = (uint32_t)m->n_edges;
    g->n_targets = (uint32_t)m->n_targets;
    return 0;
}

fy_grammar *fy_rules_compile(fy_rules *r, uint32_t root, uint64_t symbols_max, uint32_t *bad,
                             fy_err *e)
{
    uint64_t symbols = 0;
    *bad = root;
    fy_grammar *g = r->oom ? NULL : calloc(1, sizeof *g);
    if (g == NULL) {
        fy_nomem(e);
        return NULL;
    }
    g->n_users = 1;
    g->root = root;
    emitter m = {.r = r, .g = g, .e = e};
    bool ok = true;
    for (uint32_t i = 0; ok && i < r->n_rules; i++) {
        ok = fy_add_u64(symbols, r->trees[r->rules[i].node].symbols, &symbols) &&
             symbols <= symbols_max;
        if (!ok)
            fy_fail(e, FY_EFIT, "more than %llu symbols with counts unrolled; use smaller counts",
                    (unsigned long long)symbols_max);
    }
    if (ok && emit_rules(&m, g) == 0 && fy_rules_check(g, bad, e) == 0)
        return g;
    fy_grammar_free(g);
    return NULL;
}

fy_grammar *fy_grammar_keep(fy_grammar *g)
{
    atomic_fetch_add_explicit(&g->n_users, 1, memory_order_relaxed);
    return g;
}

void fy_grammar_free(fy_grammar *g)
{
    if (g == NULL || atomic_fetch_sub_explicit(&g->n_users, 1, memory_order_acq_rel) > 1)
        return;
    free(g->states);
    free(g->edges);
    free(g->targets);
    free(g->rules);
    free(g);
}
