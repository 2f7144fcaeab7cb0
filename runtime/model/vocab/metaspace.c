/* A text as a Unigram of the tokenizers library sees it: its Precompiled normalizer, perhaps Strip
 * and Replace of repeated blanks or WhitespaceSplit, then Metaspace. Precompiled differs from
 * SentencePiece: it takes whole graphemes first, by the shortest rule that fits their beginning.
 * Source: huggingface/tokenizers 0.22, normalizers/precompiled.rs and pre_tokenizers/metaspace.rs,
 * huggingface/spm_precompiled. */
#include <string.h>
#include <utf8proc.h>

#include "base/str.h"
#include "model/vocab/vocab_impl.h"

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
    if (s.len <= GRAPHEME_BYTES_MAX && fy_charsmap_shortest(m, s, &by) > 0) {
        fy_str_add(out, by.ptr, by.len);
        return fy_unigram_check_growth(out->len, text, e);
    }
    for (size_t i = 0; i < s.len;) {
        size_t n = next_char((fy_span){s.ptr + i, s.len - i}, &cp);
        if (fy_charsmap_shortest(m, (fy_span){s.ptr + i, n}, &by) > 0)
            fy_str_add(out, by.ptr, by.len);
        else
            fy_str_put_utf8(out, cp);
        if (fy_unigram_check_growth(out->len, text, e) != 0)
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

static bool begins_blank(fy_span s)
{
    return (s.len >= 1 && s.ptr[0] == ' ') || (s.len >= 3 && memcmp(s.ptr, FY_BLANK, 3) == 0);
}

/* One word, or a text with the blanks between its words. */
static void put_spaced(fy_span s, bool prepend, fy_str *out)
{
    if (s.len > 0 && prepend && !begins_blank(s))
        fy_str_puts(out, FY_BLANK);
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == ' ')
            fy_str_puts(out, FY_BLANK);
        else
            fy_str_putc(out, s.ptr[i]);
    }
}

/* The text without white space at its end; two blanks or more are one. */
static fy_span trim(fy_str *s)
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

/* A blank goes before every word, or words would run together. */
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

int fy_metaspace_normalise(fy_encoder *enc, fy_span text, bool at_start, fy_err *e)
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
        put_spaced(v->unigram.trims ? trim(&enc->word) : whole, prepend, &enc->text);
    return enc->text.oom ? fy_nomem(e) : 0;
}
