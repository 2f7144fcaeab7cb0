/* Text -> ids: special tokens are cut out first, the text between them goes to the tokenizer of its
 * kind. */
#include "model/vocab/vocab_impl.h"

/* Spelled or normalised text is at most three times as long: positions stay below 2^32. */
enum { MAX_TEXT = 1 << 30 };

static int encode_fragment(fy_encoder *enc, fy_span text, bool at_start, fy_err *e)
{
    switch (enc->v->kind) {
    case FY_VOCAB_BPE:
        return fy_bpe_encode(enc, text, e);
    case FY_VOCAB_SPM:
        return fy_spm_encode(enc, text, at_start, e);
    case FY_VOCAB_UNIGRAM:
        return fy_unigram_encode(enc, text, at_start, e);
    case FY_VOCAB_RWKV:
        return fy_rwkv_encode(enc, text, e);
    }
    return 0;
}

static int encode_text(fy_encoder *enc, fy_span text, fy_err *e)
{
    size_t pos = 0;
    fy_special_match m;
    int rc;
    while ((rc = fy_specials_next(enc, &enc->v->raw, text, pos, &m, e)) != 0) {
        if (rc < 0 ||
            encode_fragment(enc, (fy_span){text.ptr + pos, m.begin - pos}, pos == 0, e) != 0 ||
            fy_ids_push(enc->out, m.id, e) != 0)
            return -1;
        pos = m.end;
    }
    return encode_fragment(enc, (fy_span){text.ptr + pos, text.len - pos}, pos == 0, e);
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
        rc = encode_text(&enc, text, e);
    if (rc == 0 && add_special && v->add_eos && v->eos >= 0)
        rc = fy_ids_push(out, v->eos, e);
    fy_encoder_release(&enc);
    if (rc != 0)
        out->n = n_before;
    return rc;
}
