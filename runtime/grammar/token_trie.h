/* The byte strings of a vocabulary as the masks walk them.
 *
 * A tree is an array of nodes in depth-first order: a subtree is a run of nodes, so a walk that is
 * refused at a node goes on after its subtree. Tokens stand in the order of their bytes: those that
 * end at node i are tokens[nodes[i].first] .. tokens[nodes[i + 1].first].
 *
 * Plain tokens are most of every vocabulary: whole characters that a JSON string holds as they are
 * (no quote, backslash or control), at most FY_PLAIN_CHARS of them. Where every such character may
 * come next, all of them may, and the walk needs only the tree of the others (grammar/mask.c). */
#ifndef FY_GRAMMAR_TOKEN_TRIE_H
#define FY_GRAMMAR_TOKEN_TRIE_H

#include "grammar/grammar.h"

#define FY_PLAIN_CHARS 16

typedef struct {
    uint32_t next; /* the node after this one's subtree */
    uint32_t first : 24;
    uint32_t byte : 8;
} fy_trie_node;

typedef struct {
    fy_trie_node *nodes; /* owned, [n + 1] */
    uint32_t n;
    uint32_t *tokens; /* owned */
    uint32_t n_tokens;
} fy_tree;

struct fy_trie {
    uint32_t n_ids, n_words, depth; /* depth: bytes of the longest token */
    fy_tree all, others;
    uint64_t
        *plain; /* owned, [FY_PLAIN_CHARS + 1][n_words]: those of at most that many characters */
    uint64_t *ends; /* owned, [n_words] */
    char *bytes;    /* owned */
    size_t *at;     /* owned, [n_ids + 1]: where the bytes of a token begin */
};

static inline fy_span fy_trie_text(const fy_trie *t, uint32_t id)
{
    return (fy_span){t->bytes + t->at[id], t->at[id + 1] - t->at[id]};
}

static inline bool fy_trie_is_end(const fy_trie *t, uint32_t id)
{
    return t->ends[id / 64] >> id % 64 & 1;
}

#endif
