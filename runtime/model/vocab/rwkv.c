/* RWKV World: at every place the longest piece that fits. Pieces are byte strings, which the file
 * writes as Python would print them. Source: BlinkDL/RWKV-LM rwkv_tokenizer.py, and llama.cpp's
 * llm_unescape_rwkv_token. */
#include <string.h>

#include "model/vocab/vocab_impl.h"

static char unescaped(char c)
{
    return c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
}

size_t fy_rwkv_unescape(char *out, fy_span piece)
{
    size_t n = 0;
    for (size_t i = 0; i < piece.len; i++) {
        char c = piece.ptr[i];
        if (c == '\\' && i + 1 < piece.len) {
            c = piece.ptr[++i];
            int hi = c == 'x' && i + 2 < piece.len ? fy_hex_digit(piece.ptr[i + 1]) : -1;
            int lo = hi >= 0 ? fy_hex_digit(piece.ptr[i + 2]) : -1;
            if (lo >= 0) {
                c = (char)(hi << 4 | lo);
                i += 2;
            } else {
                c = unescaped(c);
            }
        }
        out[n++] = c;
    }
    return n;
}

int fy_rwkv_prepare(fy_vocab *v, fy_err *e)
{
    uint32_t n = v->pieces.n;
    v->bytes = fy_arena_calloc(&v->arena, n, sizeof *v->bytes);
    v->world.item = fy_arena_calloc(&v->arena, n, sizeof *v->world.item);
    if (v->bytes == NULL || v->world.item == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < n; i++) {
        fy_span piece = fy_vocab_piece(v, (int32_t)i);
        if (fy_vocab_poll(i, e) != 0)
            return -1;
        if (v->type[i] != FY_TOKEN_NORMAL && v->type[i] != FY_TOKEN_USER)
            continue;
        char *text = fy_arena_alloc(&v->arena, piece.len);
        if (text == NULL)
            return fy_nomem(e);
        v->bytes[i] = (fy_span){text, fy_rwkv_unescape(text, piece)};
        if (v->bytes[i].len > 0)
            v->world.item[v->world.n++] = (fy_prefix_item){v->bytes[i], (int32_t)i};
    }
    return fy_prefixes_sort(&v->world, e);
}

/* A byte that no piece begins with is left out. */
int fy_rwkv_encode(fy_encoder *enc, fy_span text, bool at_start, fy_err *e)
{
    (void)at_start;
    for (size_t i = 0; i < text.len;) {
        int32_t id;
        size_t n = fy_prefixes_longest(&enc->v->world, (fy_span){text.ptr + i, text.len - i}, &id,
                                       &enc->work);
        if (fy_encoder_poll(enc, 0, e) != 0)
            return -1;
        if (n > 0 && fy_ids_push(enc->out, id, e) != 0)
            return -1;
        i += n > 0 ? n : 1;
    }
    return 0;
}

fy_span fy_vocab_turn_text(const fy_vocab *v)
{
    return v->kind == FY_VOCAB_RWKV ? FY_SPAN("\n\nUser:") : (fy_span){0};
}
