/* Structured output: grammars, and which tokens may come next under one.
 *
 *     fy_grammar   rules, from GBNF as llama.cpp writes it, or from a JSON Schema. Immutable;
 * shared by any number of matchers and threads; lives until its last user releases it. fy_trie the
 * byte strings of a vocabulary, made once. Immutable, shared likewise. fy_matcher   one text under
 * a grammar: where it is, the mask of the next token. One thread.
 *
 * The rules are compiled to a pushdown automaton over bytes: a token that ends inside a character
 * is no special case. The matcher follows all ways through the grammar at once, on one stack that
 * branches and joins. It meets the same situation again and again, so situations are kept and
 * numbered, with where each byte leads from there: a mask is a walk through the trie along those.
 *
 * The law: a token is allowed when its bytes can continue the text, an end token exactly where the
 * text may end. A mask that cannot be made is an error, never a mask that allows everything.
 * Everything is bounded: text and rules by the limits below, a matcher's memory and the work for
 * one mask by limits of its own (FY_EFIT). */
#ifndef FY_GRAMMAR_GRAMMAR_H
#define FY_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* --- grammars --- */

#define FY_GRAMMAR_TEXT_MAX (64 << 10) /* bytes of GBNF */
#define FY_GRAMMAR_SYMBOLS_MAX                                                            \
    (32 << 10)                     /* characters, classes and rule names, counts unrolled \
                                    */
#define FY_GRAMMAR_NESTING_MAX 256 /* open parentheses */

typedef struct fy_grammar fy_grammar;

/* The text must match the rule "root". Messages begin with line and column: syntax errors, unknown
 * rules, left recursion, limits (FY_EFORMAT; FY_EUNSUPPORTED for tokens such as <think>, which
 * llama.cpp knows). */
fy_grammar *fy_grammar_gbnf(fy_span text, fy_err *e);
/* JSON texts that are valid under a JSON Schema (docs/structured-output.md); {"type":"object"} for
 * any object. FY_EUNSUPPORTED names a keyword that is not supported, and its place. At most 256 KB,
 * 64 levels, 4096 members (FY_EFIT). */
fy_grammar *fy_grammar_schema(fy_span json, fy_err *e);
/* One of them or, unless `single`, several, with other texts around: first JSON (between JSON)*
 * last. frame NULL: the JSON alone. */
typedef struct {
    const char *before_name, *after_name, *key, *after_key, *value, *after_value, *end;
    const char *mark; /* ends a value for a reader; part of after_value */
} fy_pairs_frame;
/* A name and one object: before_name NAME, perhaps id and nine letters or digits, after_name
 * OBJECT. quote NULL: JSON; else strings stand as they are between quotes, names of members without
 * any, and nothing is between them but ',' and ':'. */
typedef struct {
    const char *before_name, *id, *after_name, *quote; /* id NULL: none */
} fy_named_frame;
typedef struct {
    const char *first, *between, *last;
    bool single;
    /* Calls as pairs instead of JSON: before_name NAME after_name, for each argument that is there
     * key KEY after_key value VALUE after_value, then end. The JSON is a schema of
     * {"name": NAME, "arguments": {...}}, or anyOf of those. A value is JSON, but where its type
     * may be a string it is a text without the mark; FY_EUNSUPPORTED where that cannot be held. */
    const fy_pairs_frame *pairs;
    const fy_named_frame *named; /* of the same JSON */
} fy_schema_frame;
fy_grammar *fy_grammar_schema_framed(fy_span json, const fy_schema_frame *frame, fy_err *e);
fy_grammar *fy_grammar_keep(fy_grammar *g); /* one more user; returns g */
void fy_grammar_free(fy_grammar *g);        /* one less; NULL is fine */

/* --- the vocabulary --- */

typedef struct {
    fy_span bytes; /* what the token adds to a text; empty: it is never allowed by its text */
    bool is_end;   /* ends a text; its bytes do not count */
} fy_trie_token;

typedef struct fy_trie fy_trie;

/* Keeps no view of `tokens`. At most 2^24 - 1 of them. */
fy_trie *fy_trie_new(const fy_trie_token *tokens, uint32_t n, fy_err *e);
void fy_trie_free(fy_trie *t);           /* NULL is fine; after its matchers */
size_t fy_trie_memory(const fy_trie *t); /* bytes */

/* --- one text --- */

typedef struct fy_matcher fy_matcher;

/* trie: a view; NULL for a matcher that only reads text. */
fy_matcher *fy_matcher_new(fy_grammar *g, const fy_trie *trie, fy_err *e);
void fy_matcher_free(fy_matcher *m);  /* NULL is fine */
void fy_matcher_reset(fy_matcher *m); /* back to the beginning of a text; what was learned stays */

typedef struct {
    const uint64_t *bits; /* id i: bits[i / 64] >> i % 64 & 1; valid until the next call on m */
    uint32_t n_words;
    uint32_t n_allowed;
    int32_t only; /* the one allowed id where n_allowed is 1, else -1 */
} fy_mask;
/* FY_EFORMAT when nothing is allowed: no token of the vocabulary continues the text. */
int fy_matcher_mask(fy_matcher *m, fy_mask *out, fy_err *e);

/* The text goes on by this token, or by these bytes. FY_EARG when they do not fit the grammar; the
 * matcher has not moved then. After an end token nothing is accepted. */
int fy_matcher_accept(fy_matcher *m, int32_t id, fy_err *e);
int fy_matcher_accept_text(fy_matcher *m, fy_span text, fy_err *e);
bool fy_matcher_may_end(const fy_matcher *m);
bool fy_matcher_ended(const fy_matcher *m); /* an end token was accepted */
/* The text is whole and nothing but an end token may follow: no mask is needed any more. */
bool fy_matcher_is_complete(const fy_matcher *m);

#endif
