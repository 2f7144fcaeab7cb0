/* What a loaded vocabulary answers by looking it up, and the list of ids. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/vocab/vocab_impl.h"

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
    return fy_pieces_at(&v->pieces, id);
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
    return fy_pieces_id(&v->pieces, piece);
}

bool fy_vocab_adds_bos(const fy_vocab *v)
{
    return v->add_bos && v->bos >= 0;
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
    int32_t *p = fy_grow(ids->id, ids->n, &ids->cap, sizeof *p);
    if (p == NULL)
        return fy_nomem(e);
    ids->id = p;
    ids->id[ids->n++] = id;
    return 0;
}

void fy_ids_release(fy_ids *ids)
{
    free(ids->id);
    *ids = (fy_ids){0};
}
