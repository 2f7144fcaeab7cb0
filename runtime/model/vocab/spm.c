/* SentencePiece BPE: characters merge by the score of the piece they make, best first; what no
 * piece spells becomes its bytes. Source: google/sentencepiece bpe_model.cc (Encode). */
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "model/vocab/vocab_impl.h"

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
    int32_t id = fy_pieces_id(&v->pieces, text);
    return takes_part(v, id) ? id : -1;
}

static bool pair_score(const fy_vocab *v, const fy_symbol *a, const fy_symbol *b, uint32_t *order,
                       int32_t *id)
{
    *id = find_mergeable(v, (fy_span){a->ptr, (size_t)a->len + b->len}); /* b lies right behind a */
    if (*id < 0)
        return false;
    *order = order_of_score(v->score[*id]);
    return true;
}

bool fy_needs_blank(const fy_vocab *v, fy_span text, bool at_start)
{
    bool begins_blank = (text.len >= 1 && text.ptr[0] == ' ') ||
                        (text.len >= 3 && memcmp(text.ptr, FY_BLANK, 3) == 0);
    switch (v->space_prefix) {
    case FY_PREFIX_ALL:
        return true;
    case FY_PREFIX_METASPACE:
        return !begins_blank;
    case FY_PREFIX_METASPACE_FIRST:
        return at_start && !begins_blank;
    case FY_PREFIX_NONE:
        break;
    }
    return false;
}

static void spell(fy_str *out, fy_span text, bool blank_first)
{
    fy_str_clear(out);
    if (blank_first)
        fy_str_puts(out, FY_BLANK);
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
    spell(&enc->text, text, fy_needs_blank(enc->v, text, at_start));
    if (enc->text.oom)
        return fy_nomem(e);
    fy_encoder_clear(enc);
    for (size_t i = 0; i < enc->text.len;) {
        uint32_t cp;
        int n = fy_utf8_next(enc->text.ptr + i, enc->text.len - i, &cp);
        fy_span character = {enc->text.ptr + i, n > 0 ? (size_t)n : 1};
        if (fy_encoder_add(enc, character, find_mergeable(enc->v, character), e) != 0)
            return -1;
        i += character.len;
    }
    if (fy_encoder_merge(enc, pair_score, e) != 0)
        return -1;
    return put_symbols(enc, e);
}
