/* The two hash tables of a vocabulary: text -> id, and (left id, right id) -> merge rule. */
#include <string.h>

#include "base/names.h"
#include "base/str.h"
#include "model/vocab/vocab_impl.h"

/* Places that are looked up together, so that their reads of memory overlap. */
enum { BATCH = 64 };

/* A product with a secret factor, its halves folded (as in wyhash): which pairs meet in a slot is
 * not known to who writes a file. */
static inline uint64_t hash_pair(const fy_merge_table *m, uint64_t key)
{
    const __uint128_t product = (__uint128_t)(key ^ m->secret[0]) * m->secret[1];
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Slots for n entries at a load of at most two thirds. */
static uint64_t table_size(uint64_t n)
{
    uint64_t size = 16;
    while (size < n + n / 2)
        size *= 2;
    return size;
}

fy_span fy_inputs_at(const fy_inputs *p, int32_t id)
{
    if (id < 0 || (uint32_t)id >= p->n)
        return (fy_span){"", 0};
    return (fy_span){p->text + p->off[id], p->off[id + 1] - p->off[id]};
}

static int32_t find_hashed(const fy_inputs *p, fy_span text, uint32_t hash)
{
    for (uint64_t i = hash;; i++) {
        fy_input_slot s = p->slot[i & p->slot_mask];
        if (s.next_id == 0)
            return -1;
        if (s.hash == hash && fy_span_eq((fy_span){p->text + s.off, s.len}, text))
            return (int32_t)(s.next_id - 1);
    }
}

int32_t fy_inputs_id(const fy_inputs *p, fy_span text)
{
    return text.len > p->longest ? -1 : find_hashed(p, text, fy_names_hash(text));
}

/* Of several ids with one text the table keeps the lowest. */
static void insert_piece(fy_inputs *p, uint32_t id, uint32_t hash)
{
    fy_span text = fy_inputs_at(p, (int32_t)id);
    for (uint64_t i = hash;; i++) {
        fy_input_slot *s = &p->slot[i & p->slot_mask];
        if (s->next_id == 0) {
            *s = (fy_input_slot){hash, id + 1, p->off[id], (uint32_t)text.len};
            return;
        }
        if (s->hash == hash && fy_span_eq((fy_span){p->text + s->off, s->len}, text))
            return;
    }
}

static int index_pieces(fy_inputs *p, fy_err *e)
{
    uint32_t hash[BATCH];
    for (uint32_t first = 0; first < p->n; first += BATCH) {
        uint32_t n = p->n - first < BATCH ? p->n - first : BATCH;
        if (fy_vocab_poll(first, e) != 0)
            return -1;
        for (uint32_t i = 0; i < n; i++) {
            hash[i] = fy_names_hash(fy_inputs_at(p, (int32_t)(first + i)));
            __builtin_prefetch(&p->slot[hash[i] & p->slot_mask]);
        }
        for (uint32_t i = 0; i < n; i++)
            insert_piece(p, first + i, hash[i]);
    }
    return 0;
}

int fy_inputs_load(fy_inputs *p, fy_arena *a, const fy_gguf_kv *tokens, fy_err *e)
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
        if (fy_vocab_poll(i, e) != 0)
            return -1;
        fy_span s = fy_gguf_next_string(tokens, &pos);
        memcpy(p->text + p->off[i], s.ptr, s.len);
        p->off[i + 1] = p->off[i] + (uint32_t)s.len;
        if (s.len > p->longest)
            p->longest = (uint32_t)s.len;
    }
    return index_pieces(p, e);
}

static uint64_t merge_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static void insert_merge(fy_merge_table *m, uint64_t key, uint32_t rank, int32_t result)
{
    for (uint64_t i = hash_pair(m, key);; i++) {
        fy_merge_slot *s = &m->slot[i & m->mask];
        if (s->rank == UINT32_MAX) {
            *s = (fy_merge_slot){key, rank, result};
            return;
        }
        if (s->key == key) /* a rule that is there twice: the first one is reached first */
            return;
    }
}

enum { LEFT, RIGHT, RESULT };
typedef struct {
    fy_str joined;                          /* both parts of each rule in a row */
    size_t begin[BATCH + 1], middle[BATCH]; /* in joined */
    int32_t id[BATCH][3];                   /* of LEFT, RIGHT and RESULT */
    uint32_t n;
} merge_batch;

/* Splits the next rules at their space. */
static int read_batch(merge_batch *b, const fy_gguf_kv *merges, uint32_t first, uint64_t *pos,
                      fy_err *e)
{
    fy_str_clear(&b->joined);
    b->n = (uint32_t)(merges->count - first < BATCH ? merges->count - first : BATCH);
    for (uint32_t i = 0; i < b->n; i++) {
        fy_span s = fy_gguf_next_string(merges, pos);
        /* A part may itself begin with a space, so the search starts after its first byte. */
        const char *space = s.len > 1 ? memchr(s.ptr + 1, ' ', s.len - 1) : NULL;
        if (space == NULL) {
            char shown[FY_QUOTE_BYTES];
            return fy_fail(e, FY_EFORMAT,
                           "merge rule %u '%s' is not two parts with a space between", first + i,
                           fy_quote(shown, sizeof shown, s));
        }
        size_t left = (size_t)(space - s.ptr);
        fy_str_add(&b->joined, s.ptr, left);
        b->middle[i] = b->joined.len;
        fy_str_add(&b->joined, space + 1, s.len - left - 1);
        b->begin[i + 1] = b->joined.len;
    }
    return b->joined.oom ? fy_nomem(e) : 0;
}

static void find_batch(merge_batch *b, const fy_inputs *p)
{
    fy_span text[BATCH][3];
    uint32_t hash[BATCH][3];
    for (uint32_t i = 0; i < b->n; i++) {
        const char *begin = b->joined.ptr + b->begin[i];
        size_t left = b->middle[i] - b->begin[i], all = b->begin[i + 1] - b->begin[i];
        text[i][LEFT] = (fy_span){begin, left};
        text[i][RIGHT] = (fy_span){begin + left, all - left};
        text[i][RESULT] = (fy_span){begin, all};
        for (int k = 0; k < 3; k++) {
            hash[i][k] = fy_names_hash(text[i][k]);
            __builtin_prefetch(&p->slot[hash[i][k] & p->slot_mask]);
        }
    }
    for (uint32_t i = 0; i < b->n; i++) {
        for (int k = 0; k < 3; k++)
            __builtin_prefetch(p->text + p->slot[hash[i][k] & p->slot_mask].off);
    }
    for (uint32_t i = 0; i < b->n; i++) {
        for (int k = 0; k < 3; k++)
            b->id[i][k] = find_hashed(p, text[i][k], hash[i][k]);
    }
}

static uint64_t insert_batch(fy_merge_table *m, const merge_batch *b, uint32_t first)
{
    uint64_t unusable = 0;
    for (uint32_t i = 0; i < b->n; i++)
        __builtin_prefetch(
            &m->slot[hash_pair(m, merge_key(b->id[i][LEFT], b->id[i][RIGHT])) & m->mask]);
    for (uint32_t i = 0; i < b->n; i++) {
        const int32_t *id = b->id[i];
        if (id[LEFT] >= 0 && id[RIGHT] >= 0 && id[RESULT] >= 0)
            insert_merge(m, merge_key(id[LEFT], id[RIGHT]), first + i, id[RESULT]);
        else
            unusable++;
    }
    return unusable;
}

int fy_merge_table_load(fy_merge_table *m, fy_arena *a, const fy_gguf_kv *merges,
                        const fy_inputs *p, uint64_t *unusable, fy_err *e)
{
    if (merges->count > INT32_MAX)
        return fy_fail(e, FY_EUNSUPPORTED, "%llu merge rules, at most 2^31",
                       (unsigned long long)merges->count);
    uint64_t slots = table_size(merges->count);
    m->slot = fy_arena_alloc(a, (size_t)slots * sizeof *m->slot);
    if (m->slot == NULL)
        return fy_nomem(e);
    memset(m->slot, 0xff, (size_t)slots * sizeof *m->slot);
    m->mask = slots - 1;
    fy_names_secret(m->secret);
    m->secret[1] |= 1; /* it multiplies */
    *unusable = 0;
    uint64_t pos = 0;
    merge_batch b = {.n = 0};
    int rc = 0;
    for (uint32_t first = 0; rc == 0 && first < merges->count; first += BATCH) {
        if ((rc = fy_vocab_poll(first, e)) == 0 &&
            (rc = read_batch(&b, merges, first, &pos, e)) == 0) {
            find_batch(&b, p);
            *unusable += insert_batch(m, &b, first);
        }
    }
    fy_str_release(&b.joined);
    return rc;
}

uint32_t fy_merge_table_find(const fy_merge_table *m, int32_t left, int32_t right, int32_t *result)
{
    uint64_t key = merge_key(left, right);
    for (uint64_t i = hash_pair(m, key);; i++) {
        const fy_merge_slot *s = &m->slot[i & m->mask];
        if (s->rank == UINT32_MAX)
            return UINT32_MAX;
        if (s->key == key) {
            *result = s->result;
            return s->rank;
        }
    }
}
