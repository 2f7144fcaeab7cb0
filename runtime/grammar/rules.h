/* What a grammar is made of. A builder (fy_rules) collects rules as trees, from GBNF or from a
 * schema; fy_rules_compile makes the automaton of them that the matcher runs on. */
#ifndef FY_GRAMMAR_RULES_H
#define FY_GRAMMAR_RULES_H

#include <stdatomic.h>

#include "base/arena.h"
#include "grammar/grammar.h"

/* --- the automaton ---------------------------------------------------------------------------- */

typedef enum {
    FY_STATE_BYTES, /* edges a .. a + b: a byte of their range leads on; none: a dead end */
    FY_STATE_SPLIT, /* targets a .. a + b: on to each of them without a byte */
    FY_STATE_CALL,  /* through rule a, then on to state b */
    FY_STATE_FINAL, /* the end of rule a */
} fy_state_kind;

typedef struct {
    uint32_t kind : 8; /* fy_state_kind */
    uint32_t b : 24;
    uint32_t a;
} fy_state;

typedef struct {
    uint32_t to;
    uint8_t lo, hi; /* the edges of a state do not overlap */
} fy_edge;

typedef struct {
    uint32_t entry;
    uint32_t rank; /* a rule that begins with another has the lower rank */
    bool nullable; /* matches the empty text, too */
} fy_rule;

struct fy_grammar {
    _Atomic uint32_t n_users;
    fy_state *states;  /* owned */
    fy_edge *edges;    /* owned */
    uint32_t *targets; /* owned */
    fy_rule *rules;    /* owned */
    uint32_t n_states, n_edges, n_targets, n_rules, root;
    uint8_t class_of[256]; /* bytes that no state tells apart share a class */
    uint8_t byte_of[256];  /* class: one of its bytes */
    uint32_t n_classes;
};

/* --- the builder ------------------------------------------------------------------------------ */

typedef struct {
    uint32_t lo, hi; /* code points, inclusive */
} fy_cp_range;

typedef uint32_t fy_node;  /* of a tree; 0: could not be made (the builder remembers why) */
#define FY_MANY UINT32_MAX /* no upper limit of a repetition */

typedef struct fy_rules fy_rules;

fy_rules *fy_rules_new(fy_err *e);
void fy_rules_free(fy_rules *r); /* NULL is fine */

fy_node fy_rules_text(fy_rules *r, fy_span utf8); /* may be empty */
/* One character out of ranges in any order. Surrogates are left out; negated: any other. */
fy_node fy_rules_class(fy_rules *r, const fy_cp_range *ranges, size_t n, bool negated);
fy_node fy_rules_seq(fy_rules *r, const fy_node *items, size_t n);
fy_node fy_rules_alt(fy_rules *r, const fy_node *items, size_t n);
fy_node fy_rules_repeat(fy_rules *r, fy_node item, uint32_t min, uint32_t max);
fy_node fy_rules_call(fy_rules *r, uint32_t rule);
uint64_t fy_rules_symbols(const fy_rules *r, fy_node node); /* counts unrolled */

/* Rules are numbers from 0, in the order of declaration. The name is copied. */
int fy_rules_declare(fy_rules *r, fy_span name, uint32_t *rule, fy_err *e);
void fy_rules_define(fy_rules *r, uint32_t rule, fy_node tree);
uint32_t fy_rules_n(const fy_rules *r);
fy_span fy_rules_name(const fy_rules *r, uint32_t rule);
bool fy_rules_is_defined(const fy_rules *r, uint32_t rule);
bool fy_rules_lacks_memory(const fy_rules *r); /* a tree could not be made */
bool fy_rules_is_empty_class(const fy_rules *r, fy_node node); /* no character is in it */

/* All rules must be defined. *bad, where the fault lies in a rule, becomes its number. FY_EFIT beyond
 * symbols_max, counts unrolled. */
fy_grammar *fy_rules_compile(fy_rules *r, uint32_t root, uint64_t symbols_max, uint32_t *bad,
                             fy_err *e);
/* Its last part: finds rules that match the empty text, and refuses those that can never end and
 * those that begin with themselves; then ranks and classes of bytes. */
int fy_rules_check(fy_grammar *g, uint32_t *bad, fy_err *e);

/* --- UTF-8 as ranges of bytes ----------------------------------------------------------------- */

typedef struct {
    uint8_t lo[4], hi[4];
    uint32_t n; /* bytes */
} fy_utf8_row;

/* Sorts and joins ranges in place, without surrogates and what is above U+10FFFF; returns how many
 * are left, at most n + 1 (there must be room for that). */
size_t fy_cp_ranges_normalize(fy_cp_range *ranges, size_t n);
/* The characters of one range as rows of byte ranges, in order: at most 24. */
size_t fy_utf8_rows(fy_cp_range range, fy_utf8_row out[24]);

#endif
