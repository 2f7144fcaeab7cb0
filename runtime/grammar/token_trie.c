/* Makes the trees of a vocabulary's byte strings. */
#include "grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/math.h"

/* A token while they are sorted: its first eight bytes as a number, which decides nearly always. */
typedef struct {
    uint64_t key;
    fy_span bytes; /* view of the trie */
    uint32_t id;
} entry;

/* --- sorting ---------------------------------------------------------------------------------- */

static fy_span bytes_of(const fy_trie *t, uint32_t id)
{
    return (fy_span){t->bytes + t->at[id], t->at[id + 1] - t->at[id]};
}

static uint64_t key_of(fy_span s)
{
    uint64_t key = 0;
    for (size_t i = 0; i < 8; i++)
        key = key << 8 | (i < s.len ? (uint8_t)s.ptr[i] : 0);
    return key;
}

/* By the key, one byte after the other from the last; equal ones keep their order. */
static void sort_by_key(entry *list, entry *other, size_t n)
{
    for (unsigned shift = 0; shift < 64; shift += 8) {
        size_t at[257] = {0};
        for (size_t i = 0; i < n; i++)
            at[(list[i].key >> shift & 0xFF) + 1]++;
        for (int b = 0; b < 256; b++)
            at[b + 1] += at[b];
        for (size_t i = 0; i < n; i++)
            other[at[list[i].key >> shift & 0xFF]++] = list[i];
        entry *swap = list;
        list = other;
        other = swap;
    }
}

/* Among equal keys: by what comes after them. */
static int compare_rest(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = fy_span_order(x->bytes, y->bytes);
    return order != 0 ? order : x->id < y->id ? -1 : 1;
}

static void sort_runs(entry *list, size_t n)
{
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && list[j].key == list[i].key; j++)
            ;
        if (j - i > 1)
            qsort(list + i, j - i, sizeof *list, compare_rest);
    }
}

/* --- trees ------------------------------------------------------------------------------------ */

static size_t common(fy_span a, fy_span b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n])
        n++;
    return n;
}

static uint64_t count_nodes(const entry *list, size_t n)
{
    uint64_t nodes = 0;
    fy_span before = {0};
    for (size_t i = 0; i < n; i++) {
        const fy_span s = list[i].bytes;
        nodes += s.len - common(before, s);
        before = s;
    }
    return nodes;
}

/* A token that is not equal to the one before makes at least the node it ends at, so a node's first
 * token is the one that made it. open[d]: the node of byte d of the token before. */
static void fill_tree(const entry *list, size_t n, fy_tree *out, uint32_t *open)
{
    fy_span before = {0};
    uint32_t n_nodes = 0;
    for (size_t i = 0; i < n; i++) {
        const fy_span s = list[i].bytes;
        const size_t same = common(before, s);
        for (size_t d = same; d < before.len; d++)
            out->nodes[open[d]].next = n_nodes;
        for (size_t d = same; d < s.len; d++) {
            open[d] = n_nodes;
            out->nodes[n_nodes++] =
                (fy_trie_node){.first = (uint32_t)i & 0xFFFFFF, .byte = (uint8_t)s.ptr[d]};
        }
        out->tokens[i] = list[i].id;
        before = s;
    }
    for (size_t d = 0; d < before.len; d++)
        out->nodes[open[d]].next = n_nodes;
    out->nodes[n_nodes] = (fy_trie_node){.next = n_nodes, .first = (uint32_t)n & 0xFFFFFF};
    out->n = n_nodes;
    out->n_tokens = (uint32_t)n;
}

static int make_tree(const fy_trie *t, const entry *list, size_t n, fy_tree *out, fy_err *e)
{
    const uint64_t nodes = count_nodes(list, n);
    if (nodes >= UINT32_MAX)
        return fy_fail(e, FY_EFIT, "a vocabulary whose tokens make %llu nodes, at most %u",
                       (unsigned long long)nodes, UINT32_MAX - 1);
    uint32_t *open = calloc((size_t)t->depth + 1, sizeof *open);
    out->nodes = calloc((size_t)nodes + 1, sizeof *out->nodes);
    out->tokens = calloc(n + 1, sizeof *out->tokens);
    int rc = open != NULL && out->nodes != NULL && out->tokens != NULL ? 0 : fy_nomem(e);
    if (rc == 0)
        fill_tree(list, n, out, open);
    free(open);
    return rc;
}

/* --- plain tokens ----------------------------------------------------------------------------- */

/* Its characters when it is a plain one, else 0. */
static unsigned plain_chars(fy_span s)
{
    unsigned n = 0;
    uint32_t cp;
    for (size_t i = 0; i < s.len; n++) {
        const int bytes = fy_utf8_next(s.ptr + i, s.len - i, &cp);
        if (bytes == 0 || cp < 0x20 || cp == '"' || cp == '\\' || cp == 0x7F)
            return 0;
        i += (size_t)bytes;
    }
    return n <= FY_PLAIN_CHARS ? n : 0;
}

/* Marks plain tokens; the others go to the front of the list. Returns how many. */
static size_t part_plain(fy_trie *t, entry *list, size_t n)
{
    size_t n_others = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t id = list[i].id;
        const unsigned chars = plain_chars(list[i].bytes);
        if (chars == 0)
            list[n_others++] = list[i];
        else
            t->plain[(size_t)chars * t->n_words + id / 64] |= 1ull << id % 64;
    }
    for (size_t c = 1; c <= FY_PLAIN_CHARS; c++) {
        for (uint32_t w = 0; w < t->n_words; w++)
            t->plain[c * t->n_words + w] |= t->plain[(c - 1) * t->n_words + w];
    }
    return n_others;
}

/* --- life ------------------------------------------------------------------------------------- */

static int copy_tokens(fy_trie *t, const fy_trie_token *tokens, fy_err *e)
{
    size_t total = 0;
    for (uint32_t i = 0; i < t->n_ids; i++)
        total += tokens[i].is_end ? 0 : tokens[i].bytes.len;
    t->at = calloc((size_t)t->n_ids + 1, sizeof *t->at);
    t->bytes = malloc(total + 1);
    t->ends = calloc((size_t)t->n_words + 1, sizeof *t->ends);
    t->plain = calloc((FY_PLAIN_CHARS + 1) * (size_t)t->n_words + 1, sizeof *t->plain);
    if (t->at == NULL || t->bytes == NULL || t->ends == NULL || t->plain == NULL)
        return fy_nomem(e);
    size_t at = 0;
    for (uint32_t i = 0; i < t->n_ids; i++) {
        const fy_span s = tokens[i].bytes;
        t->at[i] = at;
        if (tokens[i].is_end) {
            t->ends[i / 64] |= 1ull << i % 64;
        } else if (s.len > 0) {
            memcpy(t->bytes + at, s.ptr, s.len);
            at += s.len;
            t->depth = s.len > t->depth ? (uint32_t)s.len : t->depth;
        }
    }
    t->at[t->n_ids] = at;
    return 0;
}

static int make_trees(fy_trie *t, fy_err *e)
{
    entry *list = calloc((size_t)t->n_ids + 1, sizeof *list);
    entry *other = calloc((size_t)t->n_ids + 1, sizeof *other);
    size_t n = 0;
    int rc = list != NULL && other != NULL ? 0 : fy_nomem(e);
    for (uint32_t i = 0; rc == 0 && i < t->n_ids; i++) {
        const fy_span s = bytes_of(t, i);
        if (s.len > 0)
            list[n++] = (entry){key_of(s), s, i};
    }
    if (rc == 0) {
        sort_by_key(list, other, n);
        sort_runs(list, n);
        rc = make_tree(t, list, n, &t->all, e);
    }
    if (rc == 0)
        rc = make_tree(t, list, part_plain(t, list, n), &t->others, e);
    free(list);
    free(other);
    return rc;
}

fy_trie *fy_trie_new(const fy_trie_token *tokens, uint32_t n, fy_err *e)
{
    if (n >= 1u << 24) {
        fy_fail(e, FY_EFIT, "a vocabulary of %u tokens, at most %u", n, (1u << 24) - 1);
        return NULL;
    }
    fy_trie *t = calloc(1, sizeof *t);
    if (t == NULL) {
        fy_nomem(e);
        return NULL;
    }
    t->n_ids = n;
    t->n_words = (n + 63) / 64;
    if (copy_tokens(t, tokens, e) == 0 && make_trees(t, e) == 0)
        return t;
    fy_trie_free(t);
    return NULL;
}

void fy_trie_free(fy_trie *t)
{
    if (t == NULL)
        return;
    free(t->all.nodes);
    free(t->all.tokens);
    free(t->others.nodes);
    free(t->others.tokens);
    free(t->plain);
    free(t->ends);
    free(t->bytes);
    free(t->at);
    free(t);
}

static size_t tree_memory(const fy_tree *t)
{
    return ((size_t)t->n + 1) * sizeof *t->nodes + ((size_t)t->n_tokens + 1) * sizeof *t->tokens;
}

size_t fy_trie_memory(const fy_trie *t)
{
    return sizeof *t + tree_memory(&t->all) + tree_memory(&t->others) +
           (FY_PLAIN_CHARS + 2) * (size_t)t->n_words * sizeof *t->plain +
           ((size_t)t->n_ids + 1) * sizeof *t->at + t->at[t->n_ids];
}
