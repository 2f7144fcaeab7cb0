/* A vocabulary as grammars see it: what each token adds to a text. */
#include <stdlib.h>

#include "model/vocab/vocab.h"

static bool has_text(const fy_vocab *v, int32_t id)
{
    return fy_vocab_is_samplable(v, id) && fy_vocab_type(v, id) != FY_TOKEN_UNKNOWN;
}

/* Appends all texts to `text`; those of token i end at ends[i]. */
static int spell_all(const fy_vocab *v, uint32_t n, fy_str *text, size_t *ends, fy_err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        if (has_text(v, (int32_t)i) && fy_vocab_decode_one(v, (int32_t)i, false, text, e) != 0)
            return -1;
        ends[i] = text->len;
    }
    return 0;
}

fy_trie *fy_vocab_trie(const fy_vocab *v, uint32_t n_ids, fy_err *e)
{
    fy_str text = {0};
    fy_trie *t = NULL;
    size_t *ends = calloc((size_t)n_ids + 1, sizeof *ends);
    fy_trie_token *tokens = calloc((size_t)n_ids + 1, sizeof *tokens);
    int rc = ends != NULL && tokens != NULL ? spell_all(v, n_ids, &text, ends, e) : fy_nomem(e);
    for (uint32_t i = 0; rc == 0 && i < n_ids; i++) {
        const size_t begin = i > 0 ? ends[i - 1] : 0, n = ends[i] - begin;
        tokens[i] = (fy_trie_token){{n > 0 ? text.ptr + begin : NULL, n},
                                    fy_vocab_is_eog(v, (int32_t)i)};
    }
    if (rc == 0)
        t = fy_trie_new(tokens, n_ids, e);
    fy_str_release(&text);
    free(ends);
    free(tokens);
    return t;
}
