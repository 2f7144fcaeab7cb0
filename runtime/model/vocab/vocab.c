/* A loaded vocabulary: look-ups, text -> ids (special tokens are cut out first, the text between
 * them goes to the tokenizer of its kind), ids -> text. */
#define PCRE2_CODE_UNIT_WIDTH 8

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/arena.h"
#include "model/vocab/vocab.h"
#include "model/vocab/vocab_impl.h"

/* --- look-ups --- */

size_t fy_unspell_blanks(char *out, fy_span text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len;) {
        bool blank = text.len - i >= 3 && memcmp(text.ptr + i, FY_BLANK, 3) == 0;
        out[n++] = blank ? ' ' : text.ptr[i];
        i += blank ? 3 : 1;
    }
    return n;
}

uint32_t fy_vocab_n(const fy_vocab *v)
{
    return v->pieces.n;
}

fy_span fy_vocab_piece(const fy_vocab *v, int32_t id)
{
    return fy_inputs_at(&v->pieces, id);
}

bool fy_vocab_has(const fy_vocab *v, int32_t id)
{
    return id >= 0 && (uint32_t)id < v->pieces.n;
}

fy_token_type fy_vocab_type(const fy_vocab *v, int32_t id)
{
    return fy_vocab_has(v, id) ? (fy_token_type)v->type[id] : FY_TOKEN_UNDEFINED;
}

int32_t fy_vocab_find(const fy_vocab *v, fy_span piece)
{
    return fy_inputs_id(&v->pieces, piece);
}

bool fy_vocab_adds_bos(const fy_vocab *v)
{
    return v->add_bos && v->bos >= 0;
}

int32_t fy_vocab_fim(const fy_vocab *v, fy_fim_mark m)
{
    return v->fim[m];
}

int32_t fy_vocab_bos(const fy_vocab *v)
{
    return v->bos;
}

bool fy_vocab_is_eog(const fy_vocab *v, int32_t id)
{
    return fy_vocab_has(v, id) && (v->mark[id] & FY_MARK_EOG);
}

bool fy_vocab_is_samplable(const fy_vocab *v, int32_t id)
{
    return fy_vocab_has(v, id) && v->type[id] != FY_TOKEN_UNUSED &&
           v->type[id] != FY_TOKEN_UNDEFINED && !(v->mark[id] & FY_MARK_SUPPRESSED);
}

int fy_byte_piece_value(fy_span p)
{
    if (p.len != 6 || memcmp(p.ptr, "<0x", 3) != 0 || p.ptr[5] != '>')
        return -1;
    int hi = fy_hex_digit(p.ptr[3]), lo = fy_hex_digit(p.ptr[4]);
    return hi < 0 || lo < 0 ? -1 : hi << 4 | lo;
}

int fy_ids_push(fy_ids *ids, int32_t id, fy_err *e)
{
    return fy_append(&ids->id, &ids->n, &ids->cap, &id, sizeof id, e);
}

int fy_ids_append(fy_ids *ids, const int32_t *more, size_t n, fy_err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (fy_ids_push(ids, more[i], e) != 0)
            return -1;
    }
    return 0;
}

void fy_ids_release(fy_ids *ids)
{
    free(ids->id);
    *ids = (fy_ids){0};
}

/* --- text to ids --- */

/* Spelled or normalised text is at most three times as long: positions stay below 2^32. */
enum { MAX_TEXT = 1 << 30 };

static fy_fragment_fn *const encoders[] = {[FY_VOCAB_BPE] = fy_bpe_encode,
                                           [FY_VOCAB_SPM] = fy_spm_encode,
                                           [FY_VOCAB_UNIGRAM] = fy_unigram_encode,
                                           [FY_VOCAB_RWKV] = fy_rwkv_encode};

int fy_encode_around(fy_encoder *enc, const fy_specials *s, fy_span text, fy_fragment_fn *encode,
                     fy_err *e)
{
    size_t pos = 0;
    fy_special_match m;
    int rc;
    while ((rc = fy_specials_next(enc, s, text, pos, &m, e)) != 0) {
        if (rc < 0 || encode(enc, (fy_span){text.ptr + pos, m.begin - pos}, pos == 0, e) != 0 ||
            fy_ids_push(enc->out, m.id, e) != 0)
            return -1;
        pos = m.end;
    }
    return encode(enc, (fy_span){text.ptr + pos, text.len - pos}, pos == 0, e);
}

int fy_vocab_encode(const fy_vocab *v, fy_span text, bool add_special, bool parse_special,
                    fy_ids *out, fy_err *e)
{
    if (text.len > MAX_TEXT)
        return fy_fail(e, FY_EARG, "a text of %zu bytes, at most %d at once", text.len, MAX_TEXT);
    fy_encoder enc = {.v = v, .out = out, .parse_special = parse_special};
    size_t n_before = out->n;
    int rc = add_special && fy_vocab_adds_bos(v) ? fy_ids_push(out, v->bos, e) : 0;
    if (rc == 0 && text.len > 0)
        rc = fy_encode_around(&enc, &v->raw, text, encoders[v->kind], e);
    if (rc == 0 && add_special && v->add_eos && v->eos >= 0)
        rc = fy_ids_push(out, v->eos, e);
    fy_encoder_release(&enc);
    if (rc != 0)
        out->n = n_before;
    return rc;
}

/* --- ids to text --- */

/* A piece with its U+2581 written as spaces. */
static void put_spm(fy_span piece, fy_str *out)
{
    fy_str_add(out, piece.ptr, piece.len);
    if (out->oom || piece.len == 0)
        return;
    char *text = out->ptr + out->len - piece.len;
    out->len -= piece.len - fy_unspell_blanks(text, (fy_span){text, piece.len});
    out->ptr[out->len] = '\0';
}

static bool shows_unknown(const fy_vocab *v)
{
    return v->kind == FY_VOCAB_UNIGRAM && !v->unigram.by_words;
}

static void put_token(const fy_vocab *v, int32_t id, bool specials, fy_str *out)
{
    fy_span piece = fy_vocab_piece(v, id);
    switch (fy_vocab_type(v, id)) {
    case FY_TOKEN_NORMAL:
    case FY_TOKEN_USER:
        if (v->kind == FY_VOCAB_RWKV)
            fy_str_add(out, v->bytes[id].ptr, v->bytes[id].len);
        else if (v->kind != FY_VOCAB_BPE)
            put_spm(piece, out);
        else if (v->type[id] == FY_TOKEN_NORMAL)
            fy_bpe_put(piece, out);
        else
            fy_str_add(out, piece.ptr, piece.len);
        break;
    case FY_TOKEN_BYTE:
        if (fy_byte_piece_value(piece) >= 0)
            fy_str_putc(out, (char)fy_byte_piece_value(piece));
        break;
    case FY_TOKEN_UNKNOWN:
    case FY_TOKEN_CONTROL:
        if (fy_vocab_type(v, id) == FY_TOKEN_UNKNOWN && shows_unknown(v))
            fy_str_puts(out, " \xE2\x81\x87 "); /* the reference always shows that it was there */
        else if (specials)
            fy_str_add(out, piece.ptr, piece.len);
        break;
    case FY_TOKEN_UNDEFINED:
    case FY_TOKEN_UNUSED:
        break;
    }
}

static bool is_unknown(const fy_vocab *v, int32_t id)
{
    return fy_vocab_type(v, id) == FY_TOKEN_UNKNOWN;
}

int fy_vocab_decode_one(const fy_vocab *v, int32_t id, bool specials, fy_str *out, fy_err *e)
{
    put_token(v, id, specials, out);
    return out->oom ? fy_nomem(e) : 0;
}

int fy_vocab_decode(const fy_vocab *v, const int32_t *ids, size_t n, bool specials, fy_str *out,
                    fy_err *e)
{
    size_t begin = out->len;
    bool strips = v->strips_space;
    for (size_t i = 0; i < n; i++) {
        put_token(v, ids[i], specials, out);
        if (out->oom)
            return fy_nomem(e);
        bool shown = out->len > begin;
        if (strips && shown && out->ptr[begin] == ' ' && !is_unknown(v, ids[i])) {
            memmove(out->ptr + begin, out->ptr + begin + 1,
                    out->len - begin); /* with the NUL after it */
            out->len--;
        }
        /* Where extra spaces are dropped, every piece before the first text loses one. */
        if (v->unigram.trims && !v->unigram.by_words ? out->len > begin : shown)
            strips = false;
    }
    return 0;
}

void fy_vocab_libraries(fy_str *out)
{
    char version[64] = ""; /* "10.42 2022-12-11": the date is left out */
    if (pcre2_config(PCRE2_CONFIG_VERSION, NULL) < (int)sizeof version)
        pcre2_config(PCRE2_CONFIG_VERSION, version);
    fy_str_printf(out, "pcre2 %.*s\n", (int)strcspn(version, " "), version);
    fy_str_printf(out, "utf8proc %s\n", utf8proc_version());
}
