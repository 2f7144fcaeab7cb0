/* Steps of the recogniser. A step takes the ways that a byte leads on and follows them to where the
 * next byte is needed: into rules, out of rules that end, through forks.
 *
 * A rule that begins in a step, from however many places, gets one frame with all of them. The
 * frame is complete only at the end of the step, so until then it is named by its rule (OPEN). No
 * way out of it is needed before: a rule that can match nothing is skipped where it is called. As
 * no rule begins with itself, frames can be completed from the outer rules to the inner ones.
 *
 * A call that is the last of its rule takes over the frame's ways instead of standing on it: lists
 * that are written as right recursion do not make the stack grow. */
#include "grammar/recognise.h"

#include <stdlib.h>
#include <string.h>

#define OPEN       0x80000000u        /* | rule: a frame of this step */
#define TAKES_OVER UINT32_MAX         /* in place of a state: all ways of the frame */
#define THE_END    (UINT32_MAX - 1)   /* in place of a state: after the root */
#define WAYS_MAX   (1u << 16)         /* of a step */
#define MEMORY_MAX ((size_t)40 << 20) /* of everything that is learned */

/* --- lists of ways ---------------------------------------------------------------------------- */

static inline int push(fy_way **list, size_t *n, size_t *cap, fy_way w, fy_err *e)
{
    if (*n == *cap)
        return fy_append(list, n, cap, &w, sizeof w, e);
    (*list)[(*n)++] = w;
    return 0;
}

/* --- sets of ways ----------------------------------------------------------------------------- */

static uint64_t key_of(fy_way w)
{
    return (uint64_t)w.frame << 32 | w.state;
}

static void sort_few(fy_way *w, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const fy_way x = w[i];
        size_t k = i;
        for (; k > 0 && key_of(x) < key_of(w[k - 1]); k--)
            w[k] = w[k - 1];
        w[k] = x;
    }
}

/* By the bytes of their keys, the lowest first, but for those that are the same in all. Returns the
 * one of the two places where they are in the end. */
static fy_way *sort_many(fy_way *w, fy_way *other, size_t n)
{
    uint64_t differs = 0;
    for (size_t i = 1; i < n; i++)
        differs |= key_of(w[i]) ^ key_of(w[0]);
    for (int shift = 0; shift < 64; shift += 8) {
        uint32_t at[256] = {0}, sum = 0;
        if ((differs >> shift & 0xFF) == 0)
            continue;
        for (size_t i = 0; i < n; i++)
            at[key_of(w[i]) >> shift & 0xFF]++;
        for (int c = 0; c < 256; c++) {
            const uint32_t here = at[c];
            at[c] = sum;
            sum += here;
        }
        for (size_t i = 0; i < n; i++)
            other[at[key_of(w[i]) >> shift & 0xFF]++] = w[i];
        fy_way *swap = w;
        w = other;
        other = swap;
    }
    return w;
}

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 32) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint64_t hash_ways(const fy_way *w, size_t n, bool may_end)
{
    uint64_t h = n * 2 + may_end;
    for (size_t i = 0; i < n; i++)
        h = mix(h + ((uint64_t)w[i].state << 32 | w[i].frame));
    return h;
}

static size_t find_slot(const fy_way_sets *s, const fy_way *w, size_t n, bool may_end)
{
    size_t at = (size_t)hash_ways(w, n, may_end) & (s->n_slots - 1);
    for (; s->slots[at] != 0; at = (at + 1) & (s->n_slots - 1)) {
        const fy_way_set *x = &s->sets[s->slots[at] - 1];
        if (x->n == n && x->may_end == may_end &&
            (n == 0 || memcmp(s->ways + x->first, w, n * sizeof *w) == 0))
            break;
    }
    return at;
}

static int grow_slots(fy_way_sets *s, fy_err *e)
{
    if (s->n_sets * 2 < s->n_slots)
        return 0;
    const size_t n = s->n_slots > 0 ? s->n_slots * 2 : 64;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (slots == NULL)
        return fy_nomem(e);
    free(s->slots);
    s->slots = slots;
    s->n_slots = n;
    for (size_t i = 0; i < s->n_sets; i++) {
        const fy_way_set *x = &s->sets[i];
        const fy_way *ways = x->n > 0 ? s->ways + x->first : NULL;
        s->slots[find_slot(s, ways, x->n, x->may_end)] = (uint32_t)i + 1;
    }
    return 0;
}

/* The number of a sorted set. */
static int number_of(fy_way_sets *s, const fy_way *w, size_t n, bool may_end, uint32_t *out,
                     fy_err *e)
{
    if (grow_slots(s, e) != 0)
        return -1;
    const size_t at = find_slot(s, w, n, may_end);
    if (s->slots[at] != 0) {
        *out = s->slots[at] - 1;
        return 0;
    }
    const fy_way_set x = {(uint32_t)s->n_ways, (uint32_t)n, may_end, FY_DEPTH_UNKNOWN};
    for (size_t i = 0; i < n; i++) {
        if (push(&s->ways, &s->n_ways, &s->cap_ways, w[i], e) != 0)
            return -1;
    }
    *out = (uint32_t)s->n_sets;
    if (fy_append(&s->sets, &s->n_sets, &s->cap_sets, &x, sizeof x, e) != 0)
        return -1;
    s->slots[at] = *out + 1;
    return 0;
}

static void sets_release(fy_way_sets *s)
{
    free(s->sets);
    free(s->ways);
    free(s->slots);
    *s = (fy_way_sets){0};
}

static size_t sets_memory(const fy_way_sets *s)
{
    return s->cap_sets * sizeof *s->sets + s->cap_ways * sizeof *s->ways +
           s->n_slots * sizeof *s->slots;
}

/* Sorts r->made, each way once. */
static int sort_made(fy_recogniser *r, fy_err *e)
{
    size_t kept = 0;
    if (r->n_made <= 48) {
        sort_few(r->made, r->n_made);
    } else {
        if (r->cap_sorted < r->cap_made) {
            fy_way *more = realloc(r->sorted, r->cap_made * sizeof *more);
            if (more == NULL)
                return fy_nomem(e);
            r->sorted = more;
            r->cap_sorted = r->cap_made;
        }
        if (sort_many(r->made, r->sorted, r->n_made) == r->sorted)
            memcpy(r->made, r->sorted, r->n_made * sizeof *r->made);
    }
    for (size_t i = 0; i < r->n_made; i++) {
        if (kept == 0 || key_of(r->made[kept - 1]) != key_of(r->made[i]))
            r->made[kept++] = r->made[i];
    }
    r->n_made = kept;
    return 0;
}

/* --- life ------------------------------------------------------------------------------------- */

void fy_recogniser_release(fy_recogniser *r)
{
    sets_release(&r->frames);
    sets_release(&r->situations);
    free(r->next);
    free(r->todo);
    free(r->seen);
    free(r->seen_step);
    free(r->entering);
    free(r->entered_step);
    free(r->entered_head);
    free(r->entered_frame);
    free(r->entered);
    free(r->made);
    free(r->sorted);
    *r = (fy_recogniser){0};
}

int fy_recogniser_init(fy_recogniser *r, const fy_grammar *g, fy_err *e)
{
    const size_t n = (size_t)g->n_rules + 1;
    *r = (fy_recogniser){.g = g, .n_seen = 256};
    r->seen = calloc(r->n_seen, sizeof *r->seen);
    r->seen_step = calloc(r->n_seen, sizeof *r->seen_step);
    r->entered_step = calloc(n, sizeof *r->entered_step);
    r->entered_head = calloc(n, sizeof *r->entered_head);
    r->entered_frame = calloc(n, sizeof *r->entered_frame);
    r->entered = calloc(n, sizeof *r->entered);
    if (r->seen != NULL && r->seen_step != NULL && r->entered_step != NULL &&
        r->entered_head != NULL && r->entered_frame != NULL && r->entered != NULL)
        return 0;
    fy_recogniser_release(r);
    return fy_nomem(e);
}

size_t fy_recogniser_memory(const fy_recogniser *r)
{
    return sets_memory(&r->frames) + sets_memory(&r->situations) + r->cap_next * sizeof *r->next;
}

/* --- one step --------------------------------------------------------------------------------- */

static int grow_seen(fy_recogniser *r, fy_err *e)
{
    const size_t n = r->n_seen * 2;
    uint64_t *seen = calloc(n, sizeof *seen);
    uint32_t *step = calloc(n, sizeof *step);
    if (seen == NULL || step == NULL) {
        free(seen);
        free(step);
        return fy_nomem(e);
    }
    for (size_t i = 0; i < r->n_seen; i++) {
        if (r->seen_step[i] != r->step)
            continue;
        size_t at = (size_t)mix(r->seen[i]) & (n - 1);
        while (step[at] == r->step)
            at = (at + 1) & (n - 1);
        seen[at] = r->seen[i];
        step[at] = r->step;
    }
    free(r->seen);
    free(r->seen_step);
    r->seen = seen;
    r->seen_step = step;
    r->n_seen = n;
    return 0;
}

/* Follows a way that was not met in this step. */
static int follow(fy_recogniser *r, uint32_t state, uint32_t frame, fy_err *e)
{
    const uint64_t key = (uint64_t)state << 32 | frame;
    const fy_way way = {state, frame};
    size_t at = (size_t)mix(key) & (r->n_seen - 1);
    for (; r->seen_step[at] == r->step; at = (at + 1) & (r->n_seen - 1)) {
        if (r->seen[at] == key)
            return 0;
    }
    r->seen[at] = key;
    r->seen_step[at] = r->step;
    if (r->n_todo >= WAYS_MAX)
        return fy_fail(e, FY_EFIT, "the grammar is too ambiguous here: more than %u ways at once",
                       WAYS_MAX);
    if (push(&r->todo, &r->n_todo, &r->cap_todo, way, e) != 0)
        return -1;
    return r->n_todo * 2 < r->n_seen ? 0 : grow_seen(r, e);
}

static int begin_step(fy_recogniser *r, fy_err *e)
{
    const fy_entering none = {0};
    if (++r->step == 0) { /* after 2^32 steps */
        memset(r->seen_step, 0, r->n_seen * sizeof *r->seen_step);
        memset(r->entered_step, 0, r->g->n_rules * sizeof *r->entered_step);
        r->step = 1;
    }
    r->n_todo = r->n_entering = r->n_entered = r->n_made = 0;
    return fy_append(&r->entering, &r->n_entering, &r->cap_entering, &none, sizeof none, e);
}

static int enter_rule(fy_recogniser *r, uint32_t rule, uint32_t back, uint32_t frame, fy_err *e)
{
    const bool last = r->g->states[back].kind == FY_STATE_FINAL;
    if (r->entered_step[rule] != r->step) {
        r->entered_step[rule] = r->step;
        r->entered_head[rule] = 0;
        r->entered[r->n_entered++] = rule;
        if (follow(r, r->g->rules[rule].entry, OPEN | rule, e) != 0)
            return -1;
    }
    const fy_entering x = {frame, last ? TAKES_OVER : back, r->entered_head[rule]};
    r->entered_head[rule] = (uint32_t)r->n_entering;
    if (fy_append(&r->entering, &r->n_entering, &r->cap_entering, &x, sizeof x, e) != 0)
        return -1;
    return r->g->rules[rule].nullable ? follow(r, back, frame, e) : 0;
}

static int leave_rule(fy_recogniser *r, uint32_t frame, bool *may_end, fy_err *e)
{
    if (frame & OPEN)
        return 0;
    const fy_way_set x = r->frames.sets[frame];
    for (uint32_t i = 0; i < x.n; i++) {
        const fy_way w = r->frames.ways[x.first + i];
        if (w.state == THE_END)
            *may_end = true;
        else if (follow(r, w.state, w.frame, e) != 0)
            return -1;
    }
    return 0;
}

static int add_made(fy_recogniser *r, fy_way w, fy_err *e)
{
    if (r->n_made >= WAYS_MAX)
        return fy_fail(e, FY_EFIT, "the grammar is too ambiguous here: more than %u ways at once",
                       WAYS_MAX);
    return push(&r->made, &r->n_made, &r->cap_made, w, e);
}

/* The number of a frame, once those of outer rules are complete. */
static uint32_t complete(const fy_recogniser *r, uint32_t frame)
{
    return frame & OPEN ? r->entered_frame[frame & ~OPEN] : frame;
}

static int complete_frame(fy_recogniser *r, uint32_t rule, fy_err *e)
{
    r->n_made = 0;
    for (uint32_t i = r->entered_head[rule]; i != 0; i = r->entering[i].next) {
        const fy_entering x = r->entering[i];
        const uint32_t frame = complete(r, x.frame);
        if (x.state != TAKES_OVER) {
            if (add_made(r, (fy_way){x.state, frame}, e) != 0)
                return -1;
            continue;
        }
        const fy_way_set from = r->frames.sets[frame];
        for (uint32_t k = 0; k < from.n; k++) {
            if (add_made(r, r->frames.ways[from.first + k], e) != 0)
                return -1;
        }
    }
    if (sort_made(r, e) != 0)
        return -1;
    return number_of(&r->frames, r->made, r->n_made, false, &r->entered_frame[rule], e);
}

static void sort_by_rank(const fy_grammar *g, uint32_t *rules, size_t n)
{
    for (size_t gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) { /* Shell's */
        for (size_t i = gap; i < n; i++) {
            const uint32_t x = rules[i];
            size_t k = i;
            for (; k >= gap && g->rules[rules[k - gap]].rank > g->rules[x].rank; k -= gap)
                rules[k] = rules[k - gap];
            rules[k] = x;
        }
    }
}

static int keep_row(fy_recogniser *r, fy_err *e)
{
    const size_t n_classes = r->g->n_classes, need = r->situations.n_sets * n_classes;
    if (need > r->cap_next) {
        size_t cap = r->cap_next > 0 ? r->cap_next * 2 : 64 * n_classes;
        cap = cap > need ? cap : need;
        uint32_t *next = realloc(r->next, cap * sizeof *next);
        if (next == NULL)
            return fy_nomem(e);
        memset(next + r->cap_next, 0xFF, (cap - r->cap_next) * sizeof *next);
        r->next = next;
        r->cap_next = cap;
    }
    return 0;
}

/* Follows the ways in `todo` to the next byte, and numbers the situation there. */
static int end_step(fy_recogniser *r, uint32_t *out, fy_err *e)
{
    const fy_grammar *g = r->g;
    bool may_end = false;
    for (size_t i = 0; i < r->n_todo; i++) {
        const fy_way w = r->todo[i];
        const fy_state s = g->states[w.state];
        int rc = 0;
        if (s.kind == FY_STATE_CALL)
            rc = enter_rule(r, s.a, s.b, w.frame, e);
        else if (s.kind == FY_STATE_FINAL)
            rc = leave_rule(r, w.frame, &may_end, e);
        for (uint32_t k = 0; rc == 0 && s.kind == FY_STATE_SPLIT && k < s.b; k++)
            rc = follow(r, g->targets[s.a + k], w.frame, e);
        if (rc != 0)
            return -1;
    }
    r->work += r->n_todo + 1;
    sort_by_rank(g, r->entered, r->n_entered);
    for (size_t i = 0; i < r->n_entered; i++) {
        if (complete_frame(r, r->entered[i], e) != 0)
            return -1;
    }
    r->n_made = 0;
    for (size_t i = 0; i < r->n_todo; i++) {
        const fy_way w = r->todo[i];
        if (g->states[w.state].kind == FY_STATE_BYTES &&
            add_made(r, (fy_way){w.state, complete(r, w.frame)}, e) != 0)
            return -1;
    }
    if (sort_made(r, e) != 0 ||
        number_of(&r->situations, r->made, r->n_made, may_end, out, e) != 0 || keep_row(r, e) != 0)
        return -1;
    return fy_recogniser_memory(r) <= MEMORY_MAX
               ? 0
               : fy_fail(e, FY_EFIT, "the grammar takes more than %zu MB here: it is too ambiguous",
                         MEMORY_MAX >> 20);
}

/* Situation 0, and frame 0: the end of the text. */
static int make_first(fy_recogniser *r, fy_err *e)
{
    const fy_way end = {THE_END, 0};
    uint32_t number;
    return number_of(&r->situations, NULL, 0, false, &number, e) == 0 &&
                   number_of(&r->frames, &end, 1, false, &number, e) == 0
               ? keep_row(r, e)
               : -1;
}

int fy_recogniser_start(fy_recogniser *r, uint32_t *situation, fy_err *e)
{
    if (r->situations.n_sets == 0 && make_first(r, e) != 0)
        return -1;
    return begin_step(r, e) == 0 && follow(r, r->g->rules[r->g->root].entry, 0, e) == 0
               ? end_step(r, situation, e)
               : -1;
}

int fy_recogniser_step(fy_recogniser *r, uint32_t situation, uint32_t class, uint32_t *to,
                       fy_err *e)
{
    const fy_grammar *g = r->g;
    const fy_way_set from = r->situations.sets[situation];
    const uint8_t byte = g->byte_of[class];
    uint32_t found = FY_DEAD;
    if (begin_step(r, e) != 0)
        return -1;
    for (uint32_t i = 0; i < from.n; i++) {
        const fy_way w = r->situations.ways[from.first + i];
        const fy_state s = g->states[w.state];
        const fy_edge *edge = g->edges + s.a, *end = edge + s.b;
        while (edge < end && byte > edge->hi)
            edge++;
        if (edge < end && byte >= edge->lo && follow(r, edge->to, w.frame, e) != 0)
            return -1;
    }
    r->work += from.n;
    if (r->n_todo > 0 && end_step(r, &found, e) != 0)
        return -1;
    r->next[(size_t)situation * g->n_classes + class] = *to = found;
    return 0;
}

/* --- forgetting ------------------------------------------------------------------------------- */

/* Marks the frames that the ways of a set stand on. */
static void mark(const fy_way_sets *s, const fy_way_set *x, uint32_t *used)
{
    for (uint32_t i = 0; i < x->n; i++)
        used[s->ways[x->first + i].frame] = 1;
}

/* Copies a set, with the frames' new numbers. */
static int copy_set(fy_recogniser *to, fy_way_sets *into, const fy_way_sets *s, const fy_way_set *x,
                    const uint32_t *number, uint32_t *out, fy_err *e)
{
    to->n_made = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        const fy_way w = s->ways[x->first + i];
        if (add_made(to, (fy_way){w.state, number[w.frame]}, e) != 0)
            return -1;
    }
    return sort_made(to, e) == 0 ? number_of(into, to->made, to->n_made, x->may_end, out, e) : -1;
}

/* A frame stands on frames with lower numbers, frame 0 on itself. */
static int copy_reached(fy_recogniser *to, const fy_recogniser *from, uint32_t *situations,
                        size_t n, uint32_t *number, fy_err *e)
{
    const fy_way_set *sets = from->situations.sets;
    for (size_t i = 0; i < n; i++)
        mark(&from->situations, &sets[situations[i]], number);
    for (size_t i = from->frames.n_sets; i-- > 0;) {
        if (number[i])
            mark(&from->frames, &from->frames.sets[i], number);
    }
    if (make_first(to, e) != 0)
        return -1;
    number[0] = 0;
    for (size_t i = 1; i < from->frames.n_sets; i++) {
        if (number[i] && copy_set(to, &to->frames, &from->frames, &from->frames.sets[i], number,
                                  &number[i], e) != 0)
            return -1;
    }
    for (size_t i = 0; i < n; i++) {
        if (copy_set(to, &to->situations, &from->situations, &sets[situations[i]], number,
                     &situations[i], e) != 0)
            return -1;
    }
    return keep_row(to, e);
}

int fy_recogniser_forget(fy_recogniser *r, uint32_t *situations, size_t n, fy_err *e)
{
    fy_recogniser fresh;
    uint32_t *number = calloc(r->frames.n_sets + 1, sizeof *number);
    uint32_t *kept = calloc(n + 1, sizeof *kept);
    int rc = number != NULL && kept != NULL ? 0 : fy_nomem(e);
    if (rc == 0)
        rc = fy_recogniser_init(&fresh, r->g, e);
    if (rc == 0) {
        memcpy(kept, situations, n * sizeof *kept);
        fresh.work = r->work;
        rc = copy_reached(&fresh, r, kept, n, number, e);
        if (rc == 0) {
            memcpy(situations, kept, n * sizeof *kept);
            fy_recogniser swap = *r;
            *r = fresh;
            fresh = swap;
        }
        fy_recogniser_release(&fresh);
    }
    free(number);
    free(kept);
    return rc;
}
