/* Pair merging in O(n log n): a doubly linked list of symbols and a heap of candidate pairs. A pair
 * that was queued and has changed since is recognised by its length: neighbours only ever grow, so
 * the same place with the same length is the same pair. */
#include <stdlib.h>

#include "base/arena.h"
#include "model/vocab/vocab_impl.h"

void fy_encoder_release(fy_encoder *enc)
{
    free(enc->sym);
    free(enc->heap);
    fy_str_release(&enc->text);
    fy_str_release(&enc->word);
}

void fy_encoder_clear(fy_encoder *enc)
{
    enc->n_sym = 0;
    enc->n_heap = 0;
}

int fy_encoder_add(fy_encoder *enc, fy_span text, int32_t id, fy_err *e)
{
    if (fy_encoder_poll(enc, 1, e) != 0)
        return -1;
    fy_symbol *s = fy_grow(enc->sym, enc->n_sym, &enc->cap_sym, sizeof *s);
    if (s == NULL)
        return fy_nomem(e);
    enc->sym = s;
    uint32_t i = (uint32_t)enc->n_sym++;
    s[i] =
        (fy_symbol){text.ptr, (uint32_t)text.len, id, i == 0 ? FY_NO_SYMBOL : i - 1, FY_NO_SYMBOL};
    if (i > 0)
        s[i - 1].next = i;
    return 0;
}

static int push(fy_encoder *enc, fy_candidate c, fy_err *e)
{
    fy_candidate *h = fy_grow(enc->heap, enc->n_heap, &enc->cap_heap, sizeof *h);
    if (h == NULL)
        return fy_nomem(e);
    enc->heap = h;
    size_t i = enc->n_heap++;
    for (; i > 0 && h[(i - 1) / 2].key > c.key; i = (i - 1) / 2)
        h[i] = h[(i - 1) / 2];
    h[i] = c;
    return 0;
}

static fy_candidate pop(fy_encoder *enc)
{
    fy_candidate *h = enc->heap, top = h[0], last = h[--enc->n_heap];
    size_t i = 0, n = enc->n_heap;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && h[child + 1].key < h[child].key)
            child++;
        if (h[child].key >= last.key)
            break;
        h[i] = h[child];
    }
    h[i] = last;
    return top;
}

static int consider(fy_encoder *enc, uint32_t left, fy_pair_fn *pair, fy_err *e)
{
    if (left == FY_NO_SYMBOL || enc->sym[left].next == FY_NO_SYMBOL)
        return 0;
    const fy_symbol *a = &enc->sym[left], *b = &enc->sym[a->next];
    uint32_t order;
    int32_t id;
    if (!pair(enc->v, a, b, &order, &id))
        return 0;
    return push(enc, (fy_candidate){(uint64_t)order << 32 | left, a->len + b->len, id}, e);
}

int fy_encoder_merge(fy_encoder *enc, fy_pair_fn *pair, fy_err *e)
{
    for (uint32_t i = 0; i + 1 < enc->n_sym; i++) {
        if (consider(enc, i, pair, e) != 0)
            return -1;
    }
    while (enc->n_heap > 0) {
        fy_candidate c = pop(enc);
        if (fy_encoder_poll(enc, c.len, e) != 0)
            return -1;
        uint32_t left = (uint32_t)c.key;
        fy_symbol *a = &enc->sym[left];
        if (a->len == 0 || a->next == FY_NO_SYMBOL || a->len + enc->sym[a->next].len != c.len)
            continue;
        fy_symbol *b = &enc->sym[a->next];
        a->len = c.len;
        a->id = c.id;
        a->next = b->next;
        b->len = 0;
        if (a->next != FY_NO_SYMBOL)
            enc->sym[a->next].prev = left;
        if (consider(enc, a->prev, pair, e) != 0 || consider(enc, left, pair, e) != 0)
            return -1;
    }
    return 0;
}
