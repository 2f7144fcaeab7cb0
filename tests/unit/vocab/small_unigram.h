/* A Unigram vocabulary made in memory, and normaliser maps for it: what the tests and the fuzzer
 * share. */
#ifndef FY_TESTS_SMALL_UNIGRAM_H
#define FY_TESTS_SMALL_UNIGRAM_H

#include "tests/unit/vocab/small_vocab.h"

typedef struct {
    const char *from, *to;
} small_rule;

/* Appends precompiled_charsmap for the rules. Every node of the trie has a block of 256 units for
 * its children, one after another, so the child for byte b of node k is unit 256 (k + 1) + b, and
 * its leaf is unit 256 (k + 1). */
static inline void small_charsmap(const small_rule *rules, size_t n, fy_str *out)
{
    enum { NODES = 64 };
    static uint32_t unit[256 * (NODES + 1)];
    uint32_t at_of[NODES] = {0}, n_nodes = 1; /* node 0, the root, is unit 0 */
    fy_str texts = {0};
    memset(unit, 0, sizeof unit);
    unit[0] = 256u << 10;
    for (size_t r = 0; r < n; r++) {
        uint32_t node = 0;
        for (const char *c = rules[r].from; *c != '\0'; c++) {
            uint32_t at = 256 * (node + 1) + (uint8_t)*c, child = 0;
            while (child < n_nodes && at_of[child] != at)
                child++;
            if (child == n_nodes && n_nodes < NODES) {
                at_of[n_nodes++] = at;
                unit[at] = (at ^ (256 * (child + 1))) << 10 | (uint8_t)*c;
            }
            node = child;
        }
        unit[at_of[node]] |= 1u << 8;
        unit[256 * (node + 1)] = 1u << 31 | (uint32_t)texts.len;
        fy_str_add(&texts, rules[r].to, strlen(rules[r].to) + 1);
    }
    const uint32_t n_units = 256 * (n_nodes + 1);
    small_u32(out, 4 * n_units);
    for (uint32_t i = 0; i < n_units; i++)
        small_u32(out, unit[i]);
    fy_str_add(out, texts.ptr, texts.len);
    fy_str_release(&texts);
}

typedef struct {
    const char *text;
    float score;
    int32_t type;
} small_piece;

/* map: bytes of a normaliser map; an empty one is left out. bytes: 256 byte tokens follow. */
static inline void small_unigram(small_vocab *b, const small_piece *p, uint64_t n, fy_span map,
                                 bool bytes)
{
    const uint64_t all = n + (bytes ? 256 : 0);
    const float zero = 0;
    small_str(b, "tokenizer.ggml.model", "t5");
    small_array(b, "tokenizer.ggml.tokens", FY_KV_STRING, all);
    for (uint64_t i = 0; i < n; i++)
        small_span(&b->keys, fy_span_of(p[i].text));
    for (unsigned i = 0; bytes && i < 256; i++) {
        small_u64(&b->keys, 6);
        fy_str_printf(&b->keys, "<0x%02X>", i);
    }
    small_array(b, "tokenizer.ggml.scores", FY_KV_F32, all);
    for (uint64_t i = 0; i < all; i++)
        small_put(&b->keys, i < n ? &p[i].score : &zero, sizeof zero);
    small_array(b, "tokenizer.ggml.token_type", FY_KV_I32, all);
    for (uint64_t i = 0; i < all; i++)
        small_u32(&b->keys, i < n ? (uint32_t)p[i].type : FY_TOKEN_BYTE);
    small_id(b, "tokenizer.ggml.unknown_token_id", 0);
    small_id(b, "tokenizer.ggml.eos_token_id", 1);
    small_bool(b, "tokenizer.ggml.add_eos_token", false);
    if (map.len > 0) {
        small_array(b, FY_KEY_CHARSMAP, FY_KV_U8, map.len);
        small_put(&b->keys, map.ptr, map.len);
    }
}

#endif
