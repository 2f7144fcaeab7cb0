/* A vocabulary as grammars see it: what each token adds to a text. */
#include <stdlib.h>

#include "model/vocab/vocab.h"

static bool has_text(const fy_vocab *v, int32_t id)
{
    return fy_vocab_is_samplable(v, id) && fy_vocab_type(v, id) != FY_TOKEN_UNKNOWN;
}

typedef struct {
    const fy_vocab *v;
    uint32_t n_ids;
    fy_vocab_is_text *is_text; /* NULL: no control token has a text */
    const void *user;
} speller;

/* Appends all texts to `text`; those of token i end at ends[i]. */
static int spell_all(const speller *s, fy_str *text, size_t *ends, fy_err *e)
{
    for (uint32_t i = 0; i < s->n_ids; i++) {
        const int32_t id = (int32_t)i;
        ends[i] = text->len;
        if (!has_text(s->v, id))
            continue;
        const bool shown = s->is_text != NULL && fy_vocab_type(s->v, id) == FY_TOKEN_CONTROL &&
                           s->is_text(s->user, fy_vocab_piece(s->v, id));
        if (fy_vocab_decode_one(s->v, id, shown, text, e) != 0)
            return -1;
        ends[i] = text->len;
    }
    return 0;
}

static fy_trie *make(const speller *s, fy_err *e)
{
    fy_str text = {0};
    fy_trie *t = NULL;
    size_t *ends = calloc((size_t)s->n_ids + 1, sizeof *ends);
    fy_trie_token *tokens = calloc((size_t)s->n_ids + 1, sizeof *tokens);
    int rc = ends != NULL && tokens != NULL ? spell_all(s, &text, ends, e) : fy_nomem(e);
    for (uint32_t i = 0; rc == 0 && i < s->n_ids; i++) {
        const size_t begin = i > 0 ? ends[i - 1] : 0, n = ends[i] - begin;
        tokens[i] = (fy_trie_token){{n > 0 ? text.ptr + begin : NULL, n},
                                    fy_vocab_is_eog(s->v, (int32_t)i)};
    }
    if (rc == 0)
        t = fy_trie_new(tokens, s->n_ids, e);
    fy_str_release(&text);
    free(ends);
    free(tokens);
    return t;
}

fy_trie *fy_vocab_trie(const fy_vocab *v, uint32_t n_ids, fy_err *e)
{
    return make(&(speller){.v = v, .n_ids = n_ids}, e);
}

fy_trie *fy_vocab_trie_with(const fy_vocab *v, uint32_t n_ids, fy_vocab_is_text *is_text,
                            const void *user, fy_err *e)
{
    return make(&(speller){v, n_ids, is_text, user}, e);
}
