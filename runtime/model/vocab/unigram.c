/* SentencePiece Unigram: the text is normalised by the model's map, then cut in the pieces whose
 * scores add up best. Sums are kept as the reference keeps them, in floats and from the left, so
 * that ties fall alike; by_words, as the tokenizers library, in doubles and word by word. Source:
 * google/sentencepiece 0.2.3, normalizer.cc (Normalize), unigram_model.cc (EncodeOptimized);
 * huggingface/tokenizers 0.22 models/unigram/model.rs (encode_optimized). */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "model/vocab/vocab_impl.h"

enum { GROWTH_MAX = 64 };
#define UNKNOWN_PENALTY 10.0
#define SUM_MAX         100000.0 /* beyond it sums are made small again */

int fy_unigram_prepare(fy_vocab *v, fy_err *e)
{
    fy_unigram *u = &v->unigram;
    uint32_t n = v->pieces.n;
    float least = FLT_MAX;
    u->pieces.item = fy_arena_calloc(&v->arena, n, sizeof *u->pieces.item);
    u->user.item = fy_arena_calloc(&v->arena, n, sizeof *u->user.item);
    if (u->pieces.item == NULL || u->user.item == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < n; i++) {
        fy_prefix_item item = {fy_vocab_piece(v, (int32_t)i), (int32_t)i};
        if (fy_vocab_poll(i, e) != 0)
            return -1;
        /* by_words user-defined tokens are cut out of the text, and the text of a byte token is
         * that token. */
        bool user = v->type[i] == FY_TOKEN_USER && !u->by_words,
             byte = v->type[i] == FY_TOKEN_BYTE && u->by_words;
        if ((v->type[i] != FY_TOKEN_NORMAL && !user && !byte) || item.text.len == 0)
            continue;
        u->pieces.item[u->pieces.n++] = item;
        if (user)
            u->user.item[u->user.n++] = item;
        else if (v->score[i] < least)
            least = v->score[i];
    }
    u->unknown_score = (double)least - UNKNOWN_PENALTY;
    if (!u->by_words)
        u->unknown_score = (float)u->unknown_score;
    return fy_prefixes_sort(&u->pieces, e) != 0 ? -1 : fy_prefixes_sort(&u->user, e);
}

/* --- normalisation --- */

/* What stands at the beginning of s, written as the pieces have it; how many bytes it took. */
static size_t next_written(fy_encoder *enc, fy_span s, fy_span *out)
{
    const fy_unigram *u = &enc->v->unigram;
    int32_t id;
    uint32_t cp;
    size_t n = fy_prefixes_longest(&u->user, s, &id, &enc->work);
    if (n == 0 && (n = fy_charsmap_match(&u->map, s, out)) > 0)
        return n;
    if (n == 0)
        n = (size_t)fy_utf8_next(s.ptr, s.len, &cp);
    *out = n > 0 ? (fy_span){s.ptr, n} : FY_SPAN("\xEF\xBF\xBD");
    return n > 0 ? n : 1;
}

static void put_escaped(fy_str *out, fy_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == ' ')
            fy_str_add(out, FY_BLANK, 3);
        else
            fy_str_putc(out, s.ptr[i]);
    }
}

static fy_span behind(fy_span s, size_t n)
{
    return (fy_span){s.ptr + n, s.len - n};
}

int fy_unigram_check_growth(size_t made_bytes, fy_span text, fy_err *e)
{
    if (made_bytes <= text.len * GROWTH_MAX + 3)
        return 0;
    return fy_fail(
        e, FY_EFORMAT,
        "the vocabulary's normaliser map makes a text of %zu bytes more than %d times as "
        "long",
        text.len, GROWTH_MAX);
}

/* Into enc->text. Nothing at all comes of a text of blanks when extra ones are dropped. */
static int normalise(fy_encoder *enc, fy_span text, bool at_start, fy_err *e)
{
    const fy_vocab *v = enc->v;
    const bool trims = v->unigram.trims;
    fy_str *out = &enc->text;
    fy_span rest = text, written;
    fy_str_clear(out);
    while (trims && rest.len > 0) {
        size_t n = next_written(enc, rest, &written);
        if (fy_encoder_poll(enc, n, e) != 0)
            return -1;
        if (!fy_span_is(written, " "))
            break;
        rest = behind(rest, n);
    }
    /* A blank that was dropped counts as the one that goes before. */
    bool blank = fy_needs_blank(v, text, at_start) ||
                 (trims && v->space_prefix != FY_PREFIX_NONE && rest.len < text.len);
    if (rest.len > 0 && blank)
        fy_str_puts(out, FY_BLANK);
    size_t dropped = 0;
    for (bool drop = trims; rest.len > 0;) {
        rest = behind(rest, next_written(enc, rest, &written));
        for (; drop && written.len > 0 && written.ptr[0] == ' '; dropped++)
            written = behind(written, 1);
        put_escaped(out, written);
        if (written.len > 0)
            drop = trims && written.ptr[written.len - 1] == ' ';
        if (fy_unigram_check_growth(out->len + dropped, text, e) != 0 ||
            fy_encoder_poll(enc, written.len, e) != 0)
            return -1;
    }
    while (trims && out->len >= 3 && memcmp(out->ptr + out->len - 3, FY_BLANK, 3) == 0)
        out->len -= 3;
    return out->oom ? fy_nomem(e) : 0;
}

/* --- the best way to cut --- */

static size_t char_bytes(fy_span s, size_t at)
{
    static const uint8_t bytes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    size_t n = bytes[(uint8_t)s.ptr[at] >> 4];
    return n < s.len - at ? n : s.len - at;
}

/* Offers the way to `end` whose last piece begins at `begin`. */
static void offer(const fy_unigram *u, fy_cut *cut, size_t begin, size_t end, int32_t id,
                  double score)
{
    fy_cut *c = &cut[end];
    const double sum =
        u->by_words ? score + cut[begin].sum : (double)((float)score + (float)cut[begin].sum);
    if (c->reached && !(sum > c->sum))
        return;
    *c = (fy_cut){.sum = sum, .begin = (uint32_t)begin, .id = id, .reached = true};
}

static float score_of(const fy_vocab *v, int32_t id, size_t len)
{
    return v->type[id] == FY_TOKEN_USER ? (float)(0.1 * (double)(len - 1)) : v->score[id];
}

static int find_cuts(fy_encoder *enc, fy_span s, fy_cut *cut, fy_err *e)
{
    const fy_vocab *v = enc->v;
    const fy_unigram *u = &v->unigram;
    size_t frontier = 0; /* the furthest end that was reached */
    for (size_t at = 0; at < s.len;) {
        const size_t n = char_bytes(s, at);
        const double sum = cut[at].sum;
        const bool shrink = !u->by_words && (sum > SUM_MAX || sum < -SUM_MAX);
        for (size_t i = at; shrink && i <= frontier; i++) {
            if (i == at || cut[i].reached)
                cut[i].sum = (float)cut[i].sum - (float)sum;
        }
        bool one_char = false;
        fy_prefix_walk w = {0};
        int32_t id;
        for (size_t end = at;
             end < s.len && fy_prefixes_step(&u->pieces, &w, (uint8_t)s.ptr[end], &id);) {
            end++;
            if (id < 0)
                continue;
            offer(u, cut, at, end, id, score_of(v, id, end - at));
            one_char = one_char || end - at == n;
            frontier = end > frontier ? end : frontier;
        }
        if (!one_char) {
            offer(u, cut, at, at + n, -1, u->unknown_score);
            frontier = at + n > frontier ? at + n : frontier;
        }
        if (fy_encoder_poll(enc, w.depth + (shrink ? frontier - at : 0), e) != 0)
            return -1;
        at += n;
    }
    return 0;
}

/* Unknown characters become their bytes, or a run of them one unknown token. */
static int put_unknown(fy_encoder *enc, fy_span s, bool run, fy_err *e)
{
    const fy_vocab *v = enc->v;
    if (v->unigram.byte_fallback) {
        for (size_t i = 0; i < s.len; i++) {
            if (fy_ids_push(enc->out, v->byte_id[(uint8_t)s.ptr[i]], e) != 0)
                return -1;
        }
        return 0;
    }
    return run || v->unk < 0 ? 0 : fy_ids_push(enc->out, v->unk, e);
}

/* cut: s.len + 1 of them, cleared. */
static int put_pieces(fy_encoder *enc, fy_span s, fy_cut *cut, fy_err *e)
{
    if (find_cuts(enc, s, cut, e) != 0)
        return -1;
    /* From the end the chosen pieces are known backwards: turn the links round. */
    uint32_t next = (uint32_t)s.len;
    for (uint32_t end = next; end > 0;) {
        const uint32_t begin = cut[end].begin;
        cut[begin].end = end;
        end = begin;
    }
    int rc = 0;
    bool run = false;
    for (uint32_t at = 0; rc == 0 && at < s.len; at = next) {
        next = cut[at].end;
        const int32_t id = cut[next].id;
        rc = id >= 0 ? fy_ids_push(enc->out, id, e)
                     : put_unknown(enc, (fy_span){s.ptr + at, next - at}, run, e);
        run = id < 0;
    }
    return rc;
}

/* Bytes up to the next blank that is not at the beginning. */
static size_t word_bytes(fy_span s)
{
    const char *next = s.len > 3 ? memmem(s.ptr + 1, s.len - 1, FY_BLANK, 3) : NULL;
    return next != NULL ? (size_t)(next - s.ptr) : s.len;
}

int fy_unigram_encode(fy_encoder *enc, fy_span text, bool at_start, fy_err *e)
{
    const bool by_words = enc->v->unigram.by_words;
    if (text.len == 0)
        return 0;
    if ((by_words ? fy_metaspace_normalise : normalise)(enc, text, at_start, e) != 0)
        return -1;
    fy_span rest = {enc->text.ptr, enc->text.len};
    if (rest.len >= UINT32_MAX)
        return fy_fail(e, FY_EARG, "a text of %zu bytes when normalised, at most 2^32", rest.len);
    int rc = 0;
    fy_cut *cut = NULL;
    for (size_t room = 0; rc == 0 && rest.len > 0;) {
        const fy_span s = {rest.ptr, by_words ? word_bytes(rest) : rest.len};
        if (s.len > room || cut == NULL) {
            free(cut);
            cut = calloc((room = s.len) + 1, sizeof *cut);
        } else {
            memset(cut, 0, (s.len + 1) * sizeof *cut);
        }
        rc = cut != NULL ? put_pieces(enc, s, cut, e) : fy_nomem(e);
        rest = behind(rest, s.len);
    }
    free(cut);
    return rc;
}
