/* Masks held against brute force: every token of the vocabulary tried alone after the text so far,
 * by a matcher without a trie. */
#ifndef FY_TESTS_MASK_CHECK_H
#define FY_TESTS_MASK_CHECK_H

#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"

/* The first id whose bit is wrong, -1: none. */
static inline int32_t first_wrong(fy_grammar *g, const fy_trie_token *tokens, uint32_t n,
                                  fy_span text, const fy_mask *mask)
{
    fy_err e = {0};
    int32_t wrong = -1;
    fy_matcher *m = fy_matcher_new(g, NULL, &e);
    for (uint32_t i = 0; m != NULL && i < n && wrong < 0; i++) {
        fy_matcher_reset(m);
        bool want = fy_matcher_accept_text(m, text, NULL) == 0;
        if (tokens[i].is_end)
            want = want && fy_matcher_may_end(m);
        else
            want = want && tokens[i].bytes.len > 0 &&
                   fy_matcher_accept_text(m, tokens[i].bytes, NULL) == 0;
        if (want != (mask != NULL && (mask->bits[i / 64] >> i % 64 & 1)))
            wrong = (int32_t)i;
    }
    fy_matcher_free(m);
    return wrong;
}

#endif
