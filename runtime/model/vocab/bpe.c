/* Byte pair encoding: byte-level as in GPT-2 (text -> words -> bytes -> merges by rank) and as in
 * SentencePiece (characters merge by the score of the piece that they make). The merging itself is
 * the same and takes O(n log n): a doubly linked list of symbols and a heap of candidate pairs.
 *
 * Byte-level: every byte is spelled as one printable character, so that pieces are text: bytes
 * 33-126, 161-172 and 174-255 stand for themselves, the other 68 for U+0100 + n in order. Sources:
 * openai/gpt-2 encoder.py, bytes_to_unicode; google/sentencepiece bpe_model.cc (Encode). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/arena.h"
#include "base/str.h"
#include "model/vocab/vocab_impl.h"

/* --- merging --- */

/* May a and b become one? Sets what decides the order (small first) and the id of the result. */
typedef bool fy_pair_fn(const fy_vocab *v, const fy_symbol *a, const fy_symbol *b, uint32_t *order,
                        int32_t *id);

void fy_encoder_release(fy_encoder *enc)
{
    free(enc->sym);
    free(enc->heap);
    fy_str_release(&enc->text);
    fy_str_release(&enc->word);
}

static void clear(fy_encoder *enc)
{
    enc->n_sym = 0;
    enc->n_heap = 0;
}

static int add_symbol(fy_encoder *enc, fy_span text, int32_t id, fy_err *e)
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

static int push_candidate(fy_encoder *enc, fy_candidate c, fy_err *e)
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

static fy_candidate pop_candidate(fy_encoder *enc)
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
    return push_candidate(enc, (fy_candidate){(uint64_t)order << 32 | left, a->len + b->len, id},
                          e);
}

/* Merges the symbols that were added, best pair first; those that remain keep len > 0. A pair that
 * was queued and has changed since is recognised by its length: neighbours only ever grow, so the
 * same place with the same length is the same pair. */
static int merge(fy_encoder *enc, fy_pair_fn *pair, fy_err *e)
{
    for (uint32_t i = 0; i + 1 < enc->n_sym; i++) {
        if (consider(enc, i, pair, e) != 0)
            return -1;
    }
    while (enc->n_heap > 0) {
        fy_candidate c = pop_candidate(enc);
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

/* --- byte-level --- */

static bool stands_for_itself(uint32_t b)
{
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
}

/* How many bytes below b have a character of their own: the order among the 68. */
static uint32_t code_of_byte(uint8_t b)
{
    if (stands_for_itself(b))
        return b;
    return 0x100u + (b <= 32 ? b : b <= 160 ? b - 127u + 33u : 67u);
}

/* The byte a character stands for, or -1. */
static int byte_of_code(uint32_t cp)
{
    if (cp < 0x100)
        return stands_for_itself(cp) ? (int)cp : -1;
    uint32_t n = cp - 0x100;
    return n <= 32 ? (int)n : n <= 66 ? (int)(n - 33 + 127) : n == 67 ? 173 : -1;
}

void fy_bpe_spell_byte(uint8_t byte, char out[3], size_t *len)
{
    uint32_t cp = code_of_byte(byte);
    *len = 0;
    if (cp >= 0x80)
        out[(*len)++] = (char)(0xC0 | cp >> 6);
    out[(*len)++] = (char)(cp < 0x80 ? cp : 0x80 | (cp & 0x3F));
    out[*len] = '\0';
}

static bool spells_bytes(fy_span piece)
{
    for (size_t i = 0; i < piece.len;) {
        uint32_t cp;
        int n = fy_utf8_next(piece.ptr + i, piece.len - i, &cp);
        if (n == 0 || byte_of_code(cp) < 0)
            return false;
        i += (size_t)n;
    }
    return true;
}

void fy_bpe_put(fy_span piece, fy_str *out)
{
    if (!spells_bytes(piece)) { /* some vocabularies hold plain text among the others */
        fy_str_add(out, piece.ptr, piece.len);
        return;
    }
    for (size_t i = 0; i < piece.len;) {
        uint32_t cp = 0;
        i += (size_t)fy_utf8_next(piece.ptr + i, piece.len - i, &cp);
        fy_str_putc(out, (char)byte_of_code(cp));
    }
}

static bool pair_rank(const fy_vocab *v, const fy_symbol *a, const fy_symbol *b, uint32_t *order,
                      int32_t *id)
{
    *order = fy_merge_table_find(&v->merges, a->id, b->id, id);
    return *order != UINT32_MAX;
}

/* Sets the id of a word that is a token as a whole, or -1. */
static int find_word(fy_encoder *enc, fy_span word, int32_t *id, fy_err *e)
{
    const fy_vocab *v = enc->v;
    *id = -1;
    if (word.len > v->pieces.longest)
        return 0;
    fy_str_clear(&enc->word);
    for (size_t i = 0; i < word.len; i++) {
        char c[3];
        size_t len;
        fy_bpe_spell_byte((uint8_t)word.ptr[i], c, &len);
        fy_str_add(&enc->word, c, len);
    }
    if (enc->word.oom)
        return fy_nomem(e);
    *id = fy_vocab_find(v, (fy_span){enc->word.ptr, enc->word.len});
    if (*id >= 0 && v->type[*id] != FY_TOKEN_NORMAL)
        *id = -1;
    return 0;
}

static int encode_word(void *ctx, fy_span word, fy_err *e)
{
    fy_encoder *enc = ctx;
    const fy_vocab *v = enc->v;
    int32_t whole = -1;
    if (v->ignore_merges && find_word(enc, word, &whole, e) != 0)
        return -1;
    if (whole >= 0)
        return fy_encoder_poll(enc, word.len, e) != 0 ? -1 : fy_ids_push(enc->out, whole, e);
    clear(enc);
    for (size_t i = 0; i < word.len; i++) {
        int32_t id = v->byte_id[(uint8_t)word.ptr[i]];
        /* A byte without a token vanishes, as in the reference; its neighbours meet. */
        if (id >= 0 && add_symbol(enc, (fy_span){word.ptr + i, 1}, id, e) != 0)
            return -1;
    }
    if (merge(enc, pair_rank, e) != 0)
        return -1;
    for (size_t i = 0; i < enc->n_sym; i++) {
        if (enc->sym[i].len > 0 && fy_ids_push(enc->out, enc->sym[i].id, e) != 0)
            return -1;
    }
    return 0;
}

static int encode_words(fy_encoder *enc, fy_span text, bool at_start, fy_err *e)
{
    (void)at_start;
    return text.len == 0 ? 0 : fy_pretok_split(enc->v->pretok, text, encode_word, enc, e);
}

/* Characters below U+0300 never compose with a neighbour below it and are composed already. */
static bool may_change_in_nfc(fy_span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((uint8_t)text.ptr[i] >= 0xCC)
            return true;
    }
    return false;
}

/* Bytes of text up to where its normal form may be cut: normally all of it. Combining marks are
 * sorted in quadratic time, so a run longer than any writing system has is cut; the reference would
 * sort on. */
static size_t normalizable(fy_span text)
{
    enum { MAX_MARKS = 512 };
    int marks = 0;
    for (size_t i = 0; i < text.len;) {
        uint32_t cp = 0;
        i += (size_t)fy_utf8_next(text.ptr + i, text.len - i, &cp);
        marks = utf8proc_get_property((utf8proc_int32_t)cp)->combining_class != 0 ? marks + 1 : 0;
        if (marks == MAX_MARKS)
            return i;
    }
    return text.len;
}

static int put_nfc(fy_span text, fy_str *out, fy_err *e)
{
    fy_str_clear(out);
    for (size_t i = 0, n; i < text.len; i += n) {
        n = normalizable((fy_span){text.ptr + i, text.len - i});
        utf8proc_uint8_t *composed = NULL;
        utf8proc_ssize_t len =
            utf8proc_map((const utf8proc_uint8_t *)text.ptr + i, (utf8proc_ssize_t)n, &composed,
                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (len < 0)
            return len == UTF8PROC_ERROR_NOMEM
                       ? fy_nomem(e)
                       : fy_fail(e, FY_EARG, "the text cannot be normalised: %s",
                                 utf8proc_errmsg(len));
        fy_str_add(out, composed, (size_t)len);
        free(composed);
    }
    return out->oom ? fy_nomem(e) : 0;
}

/* Added tokens that are matched in normalised text, and words between them. */
static int encode_valid(fy_encoder *enc, fy_span text, fy_err *e)
{
    if (enc->v->nfc && may_change_in_nfc(text)) {
        if (put_nfc(text, &enc->text, e) != 0)
            return -1;
        text = (fy_span){enc->text.ptr, enc->text.len};
    }
    return fy_encode_around(enc, &enc->v->normalized, text, encode_words, e);
}

int fy_bpe_encode(fy_encoder *enc, fy_span text, bool at_start, fy_err *e)
{
    (void)at_start;
    size_t begin = 0, i = 0;
    while (i < text.len) {
        uint32_t cp;
        int n = fy_utf8_next(text.ptr + i, text.len - i, &cp);
        if (n > 0) {
            i += (size_t)n;
            continue;
        }
        /* A byte that is not a character is a word of its own: no pattern could read it. */
        if (encode_valid(enc, (fy_span){text.ptr + begin, i - begin}, e) != 0 ||
            encode_word(enc, (fy_span){text.ptr + i, 1}, e) != 0)
            return -1;
        begin = ++i;
    }
    return encode_valid(enc, (fy_span){text.ptr + begin, i - begin}, e);
}

/* --- SentencePiece --- */

/* Scores as numbers that sort the other way round: the best score first. */
static uint32_t order_of_score(float score)
{
    if (isnan(score))
        return UINT32_MAX;
    score += 0.0f; /* -0 and 0 are one score */
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

/* Texts of control, unknown, unused and byte tokens are not made by merging, unless the file says
 * that this one is. */
static bool takes_part(const fy_vocab *v, int32_t id)
{
    return id >= 0 && (v->type[id] == FY_TOKEN_NORMAL || v->type[id] == FY_TOKEN_USER ||
                       (v->mark[id] & FY_MARK_MERGED));
}

static int32_t find_mergeable(const fy_vocab *v, fy_span text)
{
    int32_t id = fy_inputs_id(&v->pieces, text);
    return takes_part(v, id) ? id : -1;
}

static bool pair_score(const fy_vocab *v, const fy_symbol *a, const fy_symbol *b, uint32_t *order,
                       int32_t *id)
{
    *id = find_mergeable(v, (fy_span){a->ptr, (size_t)a->len + b->len}); /* b lies right after a */
    if (*id < 0)
        return false;
    *order = order_of_score(v->score[*id]);
    return true;
}

bool fy_begins_blank(fy_span text)
{
    return fy_span_begins(text, " ") || fy_span_begins(text, FY_BLANK);
}

bool fy_needs_blank(const fy_vocab *v, fy_span text, bool at_start)
{
    switch (v->space_prefix) {
    case FY_PREFIX_ALL:
        return true;
    case FY_PREFIX_METASPACE:
        return !fy_begins_blank(text);
    case FY_PREFIX_METASPACE_FIRST:
        return at_start && !fy_begins_blank(text);
    case FY_PREFIX_NONE:
        break;
    }
    return false;
}

void fy_spell_blanks(fy_str *out, fy_span text)
{
    for (size_t i = 0; i < text.len;) {
        const char *space = memchr(text.ptr + i, ' ', text.len - i);
        size_t n = space != NULL ? (size_t)(space - text.ptr) - i : text.len - i;
        fy_str_add(out, text.ptr + i, n);
        if (space != NULL)
            fy_str_puts(out, FY_BLANK);
        i += n + (space != NULL);
    }
}

static bool all_bytes_known(const fy_vocab *v, fy_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (v->byte_id[(uint8_t)s.ptr[i]] < 0)
            return false;
    }
    return true;
}

/* A run of characters that neither a piece nor byte tokens can spell is one unknown token. */
static int put_symbols(fy_encoder *enc, fy_err *e)
{
    const fy_vocab *v = enc->v;
    bool in_unknown = false;
    for (size_t i = 0; i < enc->n_sym; i++) {
        const fy_symbol *s = &enc->sym[i];
        if (s->len == 0)
            continue;
        bool known = s->id >= 0, by_bytes = !known && all_bytes_known(v, (fy_span){s->ptr, s->len});
        if (known && fy_ids_push(enc->out, s->id, e) != 0)
            return -1;
        for (size_t k = 0; by_bytes && k < s->len; k++) {
            if (fy_ids_push(enc->out, v->byte_id[(uint8_t)s->ptr[k]], e) != 0)
                return -1;
        }
        bool unknown = !known && !by_bytes;
        if (unknown && !in_unknown && v->unk >= 0 && fy_ids_push(enc->out, v->unk, e) != 0)
            return -1;
        in_unknown = unknown;
    }
    return 0;
}

int fy_spm_encode(fy_encoder *enc, fy_span text, bool at_start, fy_err *e)
{
    if (text.len == 0)
        return 0;
    fy_str_clear(&enc->text);
    if (fy_needs_blank(enc->v, text, at_start))
        fy_str_puts(&enc->text, FY_BLANK);
    fy_spell_blanks(&enc->text, text);
    if (enc->text.oom)
        return fy_nomem(e);
    clear(enc);
    for (size_t i = 0; i < enc->text.len;) {
        uint32_t cp;
        int n = fy_utf8_next(enc->text.ptr + i, enc->text.len - i, &cp);
        fy_span character = {enc->text.ptr + i, n > 0 ? (size_t)n : 1};
        if (add_symbol(enc, character, find_mergeable(enc->v, character), e) != 0)
            return -1;
        i += character.len;
    }
    if (merge(enc, enc->v->by_rank ? pair_rank : pair_score, e) != 0)
        return -1;
    return put_symbols(enc, e);
}
