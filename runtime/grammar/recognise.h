/* The recogniser: a pushdown automaton over bytes that follows all ways at once.
 *
 * A frame is a set of (state, frame) pairs: where to go on after a rule, and on which frame. A
 * situation is a set of (state, frame) pairs that wait for a byte, and whether the text may end
 * there. Both are kept once and numbered, so equal stacks are one frame, equal situations one
 * number, and what a byte does to a situation is looked up once it is known. Situation 0 has no way
 * on. Nothing is recursive; all memory is bounded. */
#ifndef FY_GRAMMAR_RECOGNISE_H
#define FY_GRAMMAR_RECOGNISE_H

#include "grammar/rules.h"

#define FY_DEAD          0u         /* the situation without a way on */
#define FY_NOT_YET       UINT32_MAX /* in `next`: not known */
#define FY_DEPTH_UNKNOWN UINT8_MAX

typedef struct {
    uint32_t state, frame;
} fy_way;

typedef struct {
    uint32_t first, n; /* of the pool of ways */
    bool may_end;      /* situations */
    uint8_t depth;     /* situations: of the masks' shortcut (grammar/mask.c) */
} fy_way_set;

/* Sets of ways, each kept once. */
typedef struct {
    fy_way_set *sets; /* owned */
    fy_way *ways;     /* owned */
    uint32_t *slots;  /* owned, [n_slots]: numbers of sets by hash */
    size_t n_sets, cap_sets, n_ways, cap_ways, n_slots;
} fy_way_sets;

typedef struct {
    uint32_t frame; /* a number, or one of this step's rules (recognise.c) */
    uint32_t state;
    uint32_t next; /* in `entering`, 0: none */
} fy_entering;

typedef struct {
    const fy_grammar *g; /* view */
    fy_way_sets frames, situations;
    uint32_t *next; /* owned, [situation][class of byte] */
    size_t cap_next;
    /* scratch of a step */
    fy_way *todo; /* owned: every way that was met */
    size_t n_todo, cap_todo;
    uint64_t *seen; /* owned, [n_seen]: hash table of them; a slot's upper half is the step */
    uint32_t *seen_step;
    size_t n_seen;
    uint32_t step;
    fy_entering *entering; /* owned: where rules that begin in this step return to */
    size_t n_entering, cap_entering;
    uint32_t *entered_step, *entered_head, *entered_frame; /* owned, [n_rules] */
    uint32_t *entered;                                     /* owned: rules that begin here */
    size_t n_entered;
    fy_way *made; /* owned: the set that is being made */
    size_t n_made, cap_made;
    fy_way *sorted; /* owned: scratch of its sorting */
    size_t cap_sorted;
    uint64_t work; /* ways met so far */
} fy_recogniser;

int fy_recogniser_init(fy_recogniser *r, const fy_grammar *g, fy_err *e);
void fy_recogniser_release(fy_recogniser *r);
/* The situation before the first byte. */
int fy_recogniser_start(fy_recogniser *r, uint32_t *situation, fy_err *e);
/* Finds where a class of bytes leads from a situation; from then on it stands in `next`. */
int fy_recogniser_step(fy_recogniser *r, uint32_t situation, uint32_t class, uint32_t *to,
                       fy_err *e);
size_t fy_recogniser_memory(const fy_recogniser *r); /* bytes that grow with what is learned */
/* Forgets everything but n situations, whose numbers may change. */
int fy_recogniser_forget(fy_recogniser *r, uint32_t *situations, size_t n, fy_err *e);

static inline int fy_recogniser_next(fy_recogniser *r, uint32_t situation, uint32_t class,
                                     uint32_t *to, fy_err *e)
{
    *to = r->next[(size_t)situation * r->g->n_classes + class];
    return *to != FY_NOT_YET ? 0 : fy_recogniser_step(r, situation, class, to, e);
}

#endif
