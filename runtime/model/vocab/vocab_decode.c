/* Ids -> text. */
#include <string.h>

#include "model/vocab/vocab_impl.h"

/* A piece with its blanks written as spaces. */
static void put_spm(fy_span piece, fy_str *out)
{
    for (size_t i = 0; i < piece.len;) {
        bool blank = piece.len - i >= 3 && memcmp(piece.ptr + i, FY_BLANK, 3) == 0;
        fy_str_putc(out, blank ? ' ' : piece.ptr[i]);
        i += blank ? 3 : 1;
    }
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
        if (shows_unknown(v)) { /* the reference always shows that something was there */
            fy_str_puts(out, " \xE2\x81\x87 ");
            break;
        }
        if (specials)
            fy_str_add(out, piece.ptr, piece.len);
        break;
    case FY_TOKEN_CONTROL:
        if (specials)
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
                    out->len - begin); /* with the NUL behind it */
            out->len--;
        }
        /* Where extra blanks are dropped, every piece before the first text loses one. */
        if (v->unigram.trims && !v->unigram.by_words ? out->len > begin : shown)
            strips = false;
    }
    return 0;
}
