/* Byte-level BPE (GPT-2): text -> words -> bytes -> merges by rank. Every byte is spelled as one
 * printable character, so that pieces are text: bytes 33-126, 161-172 and 174-255 stand for
 * themselves, the other 68 for U+0100 + n in order. Source: openai/gpt-2 encoder.py,
 * bytes_to_unicode. */
#include <stdlib.h>
#include <utf8proc.h>

#include "base/str.h"
#include "model/vocab/vocab_impl.h"

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
    fy_encoder_clear(enc);
    for (size_t i = 0; i < word.len; i++) {
        int32_t id = v->byte_id[(uint8_t)word.ptr[i]];
        /* A byte without a token vanishes, as in the reference; its neighbours meet. */
        if (id >= 0 && fy_encoder_add(enc, (fy_span){word.ptr + i, 1}, id, e) != 0)
            return -1;
    }
    if (fy_encoder_merge(enc, pair_rank, e) != 0)
        return -1;
    for (size_t i = 0; i < enc->n_sym; i++) {
        if (enc->sym[i].len > 0 && fy_ids_push(enc->out, enc->sym[i].id, e) != 0)
            return -1;
    }
    return 0;
}

static int encode_words(fy_encoder *enc, fy_span text, fy_err *e)
{
    return text.len == 0 ? 0 : fy_pretok_split(enc->v->pretok, text, encode_word, enc, e);
}

/* Behind the normaliser: added tokens that are matched in normalised text, words between them. */
static int encode_normalized(fy_encoder *enc, fy_span text, fy_err *e)
{
    size_t pos = 0;
    fy_special_match m;
    int rc;
    while ((rc = fy_specials_next(enc, &enc->v->normalized, text, pos, &m, e)) != 0) {
        if (rc < 0 || encode_words(enc, (fy_span){text.ptr + pos, m.begin - pos}, e) != 0 ||
            fy_ids_push(enc->out, m.id, e) != 0)
            return -1;
        pos = m.end;
    }
    return encode_words(enc, (fy_span){text.ptr + pos, text.len - pos}, e);
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

static int encode_valid(fy_encoder *enc, fy_span text, fy_err *e)
{
    if (!enc->v->nfc || !may_change_in_nfc(text))
        return encode_normalized(enc, text, e);
    if (put_nfc(text, &enc->text, e) != 0)
        return -1;
    return encode_normalized(enc, (fy_span){enc->text.ptr, enc->text.len}, e);
}

int fy_bpe_encode(fy_encoder *enc, fy_span text, fy_err *e)
{
    size_t begin = 0, i = 0;
    while (i < text.len) {
        uint32_t cp;
        int n = fy_utf8_next(text.ptr + i, text.len - i, &cp);
        if (n > 0) {
            i += (size_t)n;
            continue;
        }
        /* A byte that is no character is a word of its own: no pattern could read it. */
        if (encode_valid(enc, (fy_span){text.ptr + begin, i - begin}, e) != 0 ||
            encode_word(enc, (fy_span){text.ptr + i, 1}, e) != 0)
            return -1;
        begin = ++i;
    }
    return encode_valid(enc, (fy_span){text.ptr + begin, i - begin}, e);
}
