/* SentencePiece Unigram: the text is normalised by the model's map, then cut into the pieces whose
 * scores have the largest sum. Sums are kept as the reference keeps them, in floats and from the
 * left, so that ties fall alike; by_words, as the tokenizers library, in doubles and word by word.
 * Sources: google/sentencepiece 0.2.3, normalizer.cc (Normalize), unigram_model.cc
 * (EncodeOptimized); s-yata/darts-clone darts.h; huggingface/tokenizers 0.22
 * models/unigram/model.rs (encode_optimized), normalizers/precompiled.rs,
 * pre_tokenizers/metaspace.rs; huggingface/spm_precompiled. */
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/arena.h"
#include "base/math.h"
#include "base/str.h"
#include "model/vocab/vocab_impl.h"

/* --- the normaliser's map --- */

/* Units come in blocks of 256. */
enum { BLOCK_BYTES = 1024 };

int fy_charsmap_parse(fy_charsmap *m, const void *p, size_t n, fy_err *e)
{
    *m = (fy_charsmap){0};
    if (n == 0)
        return 0;
    uint32_t trie = n > 4 ? fy_le32(p) : 0;
    if (n <= 4 || n > UINT32_MAX || trie >= n - 4 || trie == 0 || trie % BLOCK_BYTES != 0)
        return fy_fail(e, FY_EFORMAT,
                       "the normaliser map has %zu bytes and says that its trie takes %u, expected "
                       "a multiple of %d and texts after it",
                       n, (unsigned)trie, BLOCK_BYTES);
    const uint8_t *b = p;
    if (b[n - 1] != '\0')
        return fy_fail(e, FY_EFORMAT, "the normaliser map: its last text does not end with a NUL");
    *m = (fy_charsmap){.unit = b + 4,
                       .n_units = trie / 4,
                       .text = (const char *)b + 4 + trie,
                       .n_text = (uint32_t)n - 4 - trie};
    return 0;
}

/* Of a unit: where its children are, relative to it; the byte that leads to it, with the top bit
 * set in a leaf; has a child been made a leaf? */
static uint32_t offset_of(uint32_t unit)
{
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

static uint32_t label_of(uint32_t unit)
{
    return unit & (1u << 31 | 0xFF);
}

static bool has_leaf(uint32_t unit)
{
    return unit >> 8 & 1;
}

size_t fy_charsmap_match(const fy_charsmap *m, fy_span s, bool shortest, fy_span *by)
{
    uint32_t value, to = 0;
    size_t found = 0, n = s.len < FY_CHARSMAP_KEY_MAX ? s.len : FY_CHARSMAP_KEY_MAX;
    if (m->n_units == 0)
        return 0;
    uint32_t at = offset_of(fy_le32(m->unit));
    for (size_t i = 0; i < n && !(shortest && found > 0); i++) {
        uint32_t c = (uint8_t)s.ptr[i];
        at ^= c;
        if (at >= m->n_units)
            break;
        uint32_t unit = fy_le32(m->unit + (size_t)4 * at);
        if (label_of(unit) != c)
            break;
        at ^= offset_of(unit);
        if (!has_leaf(unit))
            continue;
        if (at >= m->n_units)
            break;
        value = fy_le32(m->unit + (size_t)4 * at) & 0x7FFFFFFF;
        if (value >= m->n_text)
            break;
        found = i + 1;
        to = value;
    }
    if (found > 0)
        *by = fy_span_of(m->text + to);
    return found;
}

/* A map may write a character as several (18 for U+FDFA); a hostile one must not fill the memory,
 * or make spaces for ever that are dropped. */
static int check_growth(size_t made_bytes, fy_span text, fy_err *e)
{
    enum { GROWTH_MAX = 64 };
    if (made_bytes <= text.len * GROWTH_MAX + 3)
        return 0;
    return fy_fail(
        e, FY_EFORMAT,
        "the vocabulary's normaliser map makes a text of %zu bytes more than %d times as "
        "long",
        text.len, GROWTH_MAX);
}

/* --- the text as the tokenizers library has it: its Precompiled normalizer, perhaps Strip and
 * Replace of repeated spaces or WhitespaceSplit, then Metaspace. Precompiled takes whole graphemes
 * first, by the shortest rule that fits their beginning --- */

/* Longer ones are taken character by character. */
enum { GRAPHEME_BYTES_MAX = 5 };

/* The character at the beginning of s; a byte that is none reads as U+FFFD. */
static size_t next_char(fy_span s, uint32_t *cp)
{
    int n = fy_utf8_next(s.ptr, s.len, cp);
    if (n > 0)
        return (size_t)n;
    *cp = 0xFFFD;
    return 1;
}

static size_t grapheme_bytes(fy_span s)
{
    uint32_t before, cp;
    utf8proc_int32_t state = 0;
    size_t n = next_char(s, &before);
    while (n < s.len) {
        size_t k = next_char((fy_span){s.ptr + n, s.len - n}, &cp);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)cp,
                                             &state))
            break;
        before = cp;
        n += k;
    }
    return n;
}

static int put_grapheme(const fy_charsmap *m, fy_span s, fy_span text, fy_str *out, fy_err *e)
{
    fy_span by;
    uint32_t cp;
    if (s.len <= GRAPHEME_BYTES_MAX && fy_charsmap_match(m, s, true, &by) > 0) {
        fy_str_add(out, by.ptr, by.len);
        return check_growth(out->len, text, e);
    }
    for (size_t i = 0; i < s.len;) {
        size_t n = next_char((fy_span){s.ptr + i, s.len - i}, &cp);
        if (fy_charsmap_match(m, (fy_span){s.ptr + i, n}, true, &by) > 0)
            fy_str_add(out, by.ptr, by.len);
        else
            fy_str_put_utf8(out, cp);
        if (check_growth(out->len, text, e) != 0)
            return -1;
        i += n;
    }
    return 0;
}

/* Into enc->word, which byte-level BPE alone uses otherwise. */
static int rewrite(fy_encoder *enc, fy_span text, fy_err *e)
{
    const fy_charsmap *m = &enc->v->unigram.map;
    fy_str_clear(&enc->word);
    for (size_t i = 0; i < text.len;) {
        const fy_span rest = {text.ptr + i, text.len - i};
        uint32_t cp;
        size_t n = m->n_units > 0 ? grapheme_bytes(rest) : next_char(rest, &cp);
        if (put_grapheme(m, (fy_span){rest.ptr, n}, text, &enc->word, e) != 0 ||
            fy_encoder_poll(enc, n, e) != 0)
            return -1;
        i += n;
    }
    return enc->word.oom ? fy_nomem(e) : 0;
}

/* One word, or a text with the spaces between its words. */
static void put_spaced(fy_span s, bool prepend, fy_str *out)
{
    if (s.len > 0 && prepend && !fy_begins_blank(s))
        fy_str_puts(out, FY_BLANK);
    fy_spell_blanks(out, s);
}

/* The text without white space at its end; two spaces or more are one. */
static fy_span trim_spaces(fy_str *s)
{
    size_t end = 0, to = 0;
    for (size_t i = 0; i < s->len;) {
        uint32_t cp;
        i += next_char((fy_span){s->ptr + i, s->len - i}, &cp);
        end = fy_is_white_space(cp) ? end : i;
    }
    for (size_t i = 0; i < end; i++) {
        if (!(s->ptr[i] == ' ' && to > 0 && s->ptr[to - 1] == ' '))
            s->ptr[to++] = s->ptr[i];
    }
    return (fy_span){s->ptr, to};
}

/* A space goes before every word, or words would run together. */
static void put_words(fy_span s, fy_str *out)
{
    size_t begin = 0, i = 0;
    while (i < s.len) {
        uint32_t cp;
        const size_t n = next_char((fy_span){s.ptr + i, s.len - i}, &cp);
        if (fy_is_white_space(cp)) {
            put_spaced((fy_span){s.ptr + begin, i - begin}, true, out);
            begin = i + n;
        }
        i += n;
    }
    put_spaced((fy_span){s.ptr + begin, s.len - begin}, true, out);
}

/* Into enc->text; every word in it begins at its beginning or with a space. */
static int metaspace_normalise(fy_encoder *enc, fy_span text, bool at_start, fy_err *e)
{
    const fy_vocab *v = enc->v;
    const bool prepend =
        v->space_prefix == FY_PREFIX_METASPACE_FIRST ? at_start : v->space_prefix != FY_PREFIX_NONE;
    if (rewrite(enc, text, e) != 0)
        return -1;
    const fy_span whole = {enc->word.ptr, enc->word.len};
    fy_str_clear(&enc->text);
    if (v->unigram.splits_blanks)
        put_words(whole, &enc->text);
    else
        put_spaced(v->unigram.trims ? trim_spaces(&enc->word) : whole, prepend, &enc->text);
    return enc->text.oom ? fy_nomem(e) : 0;
}

/* --- the text as SentencePiece has it --- */

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
    if (n == 0 && (n = fy_charsmap_match(&u->map, s, false, out)) > 0)
        return n;
    if (n == 0)
        n = (size_t)fy_utf8_next(s.ptr, s.len, &cp);
    *out = n > 0 ? (fy_span){s.ptr, n} : FY_SPAN("\xEF\xBF\xBD");
    return n > 0 ? n : 1;
}

static fy_span behind(fy_span s, size_t n)
{
    return (fy_span){s.ptr + n, s.len - n};
}

/* Into enc->text. With extra-space removal, an all-space text gives no tokens. */
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
    /* A space that was dropped counts as the one that goes before. */
    bool blank = fy_needs_blank(v, text, at_start) ||
                 (trims && v->space_prefix != FY_PREFIX_NONE && rest.len < text.len);
    if (rest.len > 0 && blank)
        fy_str_puts(out, FY_BLANK);
    size_t dropped = 0;
    for (bool drop = trims; rest.len > 0;) {
        rest = behind(rest, next_written(enc, rest, &written));
        for (; drop && written.len > 0 && written.ptr[0] == ' '; dropped++)
            written = behind(written, 1);
        fy_spell_blanks(out, written);
        if (written.len > 0)
            drop = trims && written.ptr[written.len - 1] == ' ';
        if (check_growth(out->len + dropped, text, e) != 0 ||
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
    /* From the end the chosen pieces are known backwards: reverse the links. */
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

/* Bytes up to the next space that is not at the beginning. */
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
    if ((by_words ? metaspace_normalise : normalise)(enc, text, at_start, e) != 0)
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
