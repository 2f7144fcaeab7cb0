/* SentencePiece's normaliser map (precompiled_charsmap): which bytes at a place of a text are
 * written as which others. A double-array trie whose leaves are offsets of NUL-ended texts.
 *
 * The bytes come from files: every step is checked against their bounds, and a map that makes no
 * sense finds nothing. Source: google/sentencepiece normalizer.cc and s-yata/darts-clone darts.h.
 */
#ifndef FY_VOCAB_CHARSMAP_H
#define FY_VOCAB_CHARSMAP_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* The longest text that is looked up. Those of nfkc have at most 18 bytes; the bound keeps a trie
 * with loops from reading a long text again at every place. */
enum { FY_CHARSMAP_KEY_MAX = 128 };

typedef struct {
    const uint8_t *unit; /* view: u32 each */
    uint32_t n_units;    /* 0: an empty map, which finds nothing */
    const char *text;    /* view: ends with a NUL */
    uint32_t n_text;
} fy_charsmap;

/* p must outlive the map. No bytes at all are an empty map. */
int fy_charsmap_parse(fy_charsmap *m, const void *p, size_t n, fy_err *e);

/* How many bytes at the beginning of s the longest rule replaces (the shortest one), and by what;
 * 0: none. */
size_t fy_charsmap_match(const fy_charsmap *m, fy_span s, fy_span *by);
size_t fy_charsmap_shortest(const fy_charsmap *m, fy_span s, fy_span *by);

#endif
