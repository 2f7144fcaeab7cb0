/* The two hash tables of a vocabulary: text -> id, and (left id, right id) -> merge rule. */
#include <string.h>

#include "base/quote.h"
#include "model/vocab/vocab_impl.h"

/* FNV-1a over two ranges as if they were one, mixed because the tables use the low bits. */
static uint64_t hash2(fy_span head, fy_span tail)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < head.len; i++)
        h = (h ^ (uint8_t)head.ptr[i]) * 0x100000001b3u;
    for (size_t i = 0; i < tail.len; i++)
        h = (h ^ (uint8_t)tail.ptr[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

static uint64_t hash_pair(uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    return key ^ key >> 32;
}

/* Slots for n entries at a load of at most two thirds. */
static uint64_t table_size(uint64_t n)
{
    uint64_t size = 16;
    while (size < n + n / 2)
        size *= 2;
    return size;
}

fy_span fy_pieces_at(const fy_pieces *p, int32_t id)
{
    if (id < 0 || (uint32_t)id >= p->n)
        return (fy_span){"", 0};
    return (fy_span){p->text + p->off[id], p->off[id + 1] - p->off[id]};
}

static bool is_concat(fy_span s, fy_span head, fy_span tail)
{
    return s.len == head.len + tail.len && memcmp(s.ptr, head.ptr, head.len) == 0 &&
           memcmp(s.ptr + head.len, tail.ptr, tail.len) == 0;
}

int32_t fy_pieces_find2(const fy_pieces *p, fy_span head, fy_span tail)
{
    if (head.len + tail.len > p->longest)
        return -1;
    for (uint64_t i = hash2(head, tail);; i++) {
        uint32_t s = p->slot[i & p->slot_mask];
        if (s == 0)
            return -1;
        if (is_concat(fy_pieces_at(p, (int32_t)(s - 1)), head, tail))
            return (int32_t)(s - 1);
    }
}

/* Of several ids with one text the table keeps the lowest. */
static void insert_piece(fy_pieces *p, uint32_t id)
{
    fy_span text = fy_pieces_at(p, (int32_t)id);
    for (uint64_t i = hash2(text, FY_SPAN(""));; i++) {
        uint32_t *s = &p->slot[i & p->slot_mask];
        if (*s == 0) {
            *s = id + 1;
            return;
        }
        if (fy_span_eq(fy_pieces_at(p, (int32_t)(*s - 1)), text))
            return;
    }
}

int fy_pieces_load(fy_pieces *p, fy_arena *a, const fy_gguf_kv *tokens, fy_err *e)
{
    /* Each string has its length before it, a u64. */
    uint64_t n = tokens->count, text_bytes = tokens->bytes - 8 * n;
    if (n > INT32_MAX || text_bytes > UINT32_MAX)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "a vocabulary of %llu tokens and %llu bytes, at most 2^31 and 2^32",
                       (unsigned long long)n, (unsigned long long)text_bytes);
    uint64_t slots = table_size(n);
    p->off = fy_arena_calloc(a, (size_t)n + 1, sizeof *p->off);
    p->text = fy_arena_alloc(a, (size_t)text_bytes);
    p->slot = fy_arena_calloc(a, (size_t)slots, sizeof *p->slot);
    if (p->off == NULL || p->text == NULL || p->slot == NULL)
        return fy_nomem(e);
    p->n = (uint32_t)n;
    p->slot_mask = slots - 1;
    uint64_t pos = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        fy_span s = fy_gguf_next_string(tokens, &pos);
        memcpy(p->text + p->off[i], s.ptr, s.len);
        p->off[i + 1] = p->off[i] + (uint32_t)s.len;
        if (s.len > p->longest)
            p->longest = (uint32_t)s.len;
        insert_piece(p, i);
    }
    return 0;
}

static void insert_merge(fy_merge_table *m, uint64_t key, uint32_t rank)
{
    for (uint64_t i = hash_pair(key);; i++) {
        uint64_t s = i & m->mask;
        if (m->rank[s] == UINT32_MAX) {
            m->key[s] = key;
            m->rank[s] = rank;
            return;
        }
        if (m->key[s] == key) /* a rule that is there twice: the first one is reached first */
            return;
    }
}

int fy_merge_table_load(fy_merge_table *m, fy_arena *a, const fy_gguf_kv *merges,
                        const fy_pieces *p, uint64_t *unusable, fy_err *e)
{
    if (merges->count > INT32_MAX)
        return fy_fail(e, FY_EUNSUPPORTED, "%llu merge rules, at most 2^31",
                       (unsigned long long)merges->count);
    uint64_t slots = table_size(merges->count);
    m->key = fy_arena_alloc(a, (size_t)slots * sizeof *m->key);
    m->rank = fy_arena_alloc(a, (size_t)slots * sizeof *m->rank);
    m->result = fy_arena_alloc(a, (size_t)merges->count * sizeof *m->result);
    if (m->key == NULL || m->rank == NULL || m->result == NULL)
        return fy_nomem(e);
    memset(m->rank, 0xff, (size_t)slots * sizeof *m->rank);
    m->mask = slots - 1;
    *unusable = 0;
    uint64_t pos = 0;
    for (uint32_t rank = 0; rank < merges->count; rank++) {
        fy_span s = fy_gguf_next_string(merges, &pos), none = FY_SPAN("");
        /* A part may itself begin with a space, so the search starts behind its first byte. */
        const char *space = s.len > 1 ? memchr(s.ptr + 1, ' ', s.len - 1) : NULL;
        if (space == NULL) {
            char shown[FY_QUOTE_BYTES];
            return fy_fail(e, FY_EFORMAT,
                           "merge rule %u '%s' is not two parts with a space between", rank,
                           fy_quote(shown, sizeof shown, s));
        }
        fy_span left = {s.ptr, (size_t)(space - s.ptr)}, right = {space + 1, s.len - left.len - 1};
        int32_t l = fy_pieces_find2(p, left, none), r = fy_pieces_find2(p, right, none);
        m->result[rank] = fy_pieces_find2(p, left, right);
        if (l >= 0 && r >= 0 && m->result[rank] >= 0)
            insert_merge(m, (uint64_t)l << 32 | (uint32_t)r, rank);
        else
            ++*unusable;
    }
    return 0;
}

uint32_t fy_merge_table_find(const fy_merge_table *m, int32_t left, int32_t right, int32_t *result)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (uint64_t i = hash_pair(key);; i++) {
        uint64_t s = i & m->mask;
        if (m->rank[s] == UINT32_MAX)
            return UINT32_MAX;
        if (m->key[s] == key) {
            *result = m->result[m->rank[s]];
            return m->rank[s];
        }
    }
}
