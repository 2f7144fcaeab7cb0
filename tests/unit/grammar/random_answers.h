/* Random texts under a grammar: tokens drawn from masks, more and more of them such that end
 * something, so that texts come to an end. */
#ifndef FY_TESTS_RANDOM_ANSWERS_H
#define FY_TESTS_RANDOM_ANSWERS_H

#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"

#ifndef ANSWER_TOKENS
#define ANSWER_TOKENS 2000
#endif
#ifndef ANSWER_STEPS
#define ANSWER_STEPS 3000 /* of a text, at most */
#endif
enum { ANSWER_END = ANSWER_TOKENS - 1 };

typedef struct {
    fy_trie_token tokens[ANSWER_TOKENS];
    char bytes[ANSWER_TOKENS][48];
    fy_trie *trie; /* owned */
    uint64_t state;
} answer_maker;

static inline uint32_t answer_dice(answer_maker *a, uint32_t n)
{
    a->state = a->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(a->state >> 33) % n;
}

static inline void answers_begin(answer_maker *a, uint64_t seed)
{
    static const char *const parts[] = {"a",
                                        "e",
                                        "n",
                                        "ab",
                                        "the",
                                        "er",
                                        " ",
                                        "0",
                                        "1",
                                        "9",
                                        "12",
                                        "\"",
                                        "\",",
                                        "\":",
                                        "\": ",
                                        "\"}",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ", ",
                                        ":",
                                        "{\"",
                                        "\\",
                                        "\\n",
                                        "\\\"",
                                        "\\u00",
                                        "-",
                                        ".",
                                        "e",
                                        "-1",
                                        "x_",
                                        "true",
                                        "null",
                                        "name",
                                        "id",
                                        "kind",
                                        "\xC3\xA9",
                                        "\xC3",
                                        "\xE6\xBC\xA2",
                                        "\xF0\x9F",
                                        "\x98\x80",
                                        "2024",
                                        "-02-29",
                                        "T",
                                        "Z",
                                        "@",
                                        ".com",
                                        "A",
                                        "Bc"};
    memset(a, 0, sizeof *a);
    a->state = seed;
    for (uint32_t i = 0; i < ANSWER_TOKENS; i++) {
        size_t n = 0;
        if (i < 256)
            a->bytes[i][n++] = (char)i;
        for (uint32_t k = i < 256 ? 0 : answer_dice(a, 3) + 1; k > 0; k--) {
            const char *p = parts[answer_dice(a, sizeof parts / sizeof parts[0])];
            memcpy(a->bytes[i] + n, p, strlen(p));
            n += strlen(p);
        }
        a->tokens[i].bytes = (fy_span){a->bytes[i], n};
    }
    a->tokens[ANSWER_END].is_end = true;
    a->trie = fy_trie_new(a->tokens, ANSWER_TOKENS, NULL);
}

static inline int32_t answer_choose(answer_maker *a, const fy_mask *mask, uint32_t step)
{
    static const char closers[] = "\"}],0";
    if (answer_dice(a, 30) < step && answer_dice(a, 4) > 0) {
        if (mask->bits[ANSWER_END / 64] >> ANSWER_END % 64 & 1)
            return ANSWER_END;
        for (const char *c = closers; *c != '\0'; c++) {
            const uint32_t id = (uint8_t)*c;
            if ((mask->bits[id / 64] >> id % 64 & 1) && (*c != ',' || step < 60))
                return (int32_t)id;
        }
    }
    uint32_t k = answer_dice(a, mask->n_allowed);
    for (uint32_t w = 0; w < mask->n_words; w++) {
        const uint32_t n = (uint32_t)__builtin_popcountll(mask->bits[w]);
        if (k >= n) {
            k -= n;
            continue;
        }
        uint64_t bits = mask->bits[w];
        for (; k > 0; k--)
            bits &= bits - 1;
        return (int32_t)(w * 64) + __builtin_ctzll(bits);
    }
    return -1;
}

/* Appends a text. -1: it did not end, or an error. */
static inline int answer_make(answer_maker *a, fy_matcher *m, fy_str *out, fy_err *e)
{
    fy_matcher_reset(m);
    for (uint32_t step = 0; step < ANSWER_STEPS; step++) {
        fy_mask mask;
        if (fy_matcher_is_complete(m))
            return 0;
        if (fy_matcher_mask(m, &mask, e) != 0)
            return -1;
        const int32_t id = answer_choose(a, &mask, step);
        if (fy_matcher_accept(m, id, e) != 0)
            return -1;
        if (id == ANSWER_END)
            return 0;
        fy_str_add(out, a->tokens[id].bytes.ptr, a->tokens[id].bytes.len);
    }
    return fy_fail(e, FY_EFIT, "the text does not end");
}

static inline void answers_end(answer_maker *a)
{
    fy_trie_free(a->trie);
}

#endif
