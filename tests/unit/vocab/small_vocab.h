/* Vocabulary files made in memory, for the tests and the fuzzer of the tokenizer: keys are appended
 * one by one and small_vocab_load hands the bytes to the GGUF reader, without a file. */
#ifndef FY_TESTS_SMALL_VOCAB_H
#define FY_TESTS_SMALL_VOCAB_H

#include <string.h>

#include "format/gguf.h"
#include "model/vocab/vocab.h"

typedef struct {
    fy_str keys;
    uint64_t n_keys;
} small_vocab;

static inline void small_put(fy_str *s, const void *p, size_t n)
{
    fy_str_add(s, p, n);
}

static inline void small_u64(fy_str *s, uint64_t v)
{
    small_put(s, &v, sizeof v);
}

static inline void small_u32(fy_str *s, uint32_t v)
{
    small_put(s, &v, sizeof v);
}

static inline void small_span(fy_str *s, fy_span v)
{
    small_u64(s, v.len);
    small_put(s, v.ptr, v.len);
}

static inline void small_key(small_vocab *b, const char *key, fy_kv_type type)
{
    b->n_keys++;
    small_span(&b->keys, fy_span_of(key));
    small_u32(&b->keys, type);
}

static inline void small_str(small_vocab *b, const char *key, const char *value)
{
    small_key(b, key, FY_KV_STRING);
    small_span(&b->keys, fy_span_of(value));
}

static inline void small_id(small_vocab *b, const char *key, uint32_t value)
{
    small_key(b, key, FY_KV_U32);
    small_u32(&b->keys, value);
}

static inline void small_bool(small_vocab *b, const char *key, bool value)
{
    small_key(b, key, FY_KV_BOOL);
    fy_str_putc(&b->keys, value);
}

static inline void small_array(small_vocab *b, const char *key, fy_kv_type elem, uint64_t n)
{
    small_key(b, key, FY_KV_ARRAY);
    small_u32(&b->keys, elem);
    small_u64(&b->keys, n);
}

static inline void small_strings(small_vocab *b, const char *key, const fy_span *s, uint64_t n)
{
    small_array(b, key, FY_KV_STRING, n);
    for (uint64_t i = 0; i < n; i++)
        small_span(&b->keys, s[i]);
}

static inline void small_types(small_vocab *b, const int32_t *type, uint64_t n)
{
    small_array(b, "tokenizer.ggml.token_type", FY_KV_I32, n);
    small_put(&b->keys, type, n * sizeof *type);
}

/* The bytes of the whole file. */
static inline void small_file(const small_vocab *b, fy_str *out)
{
    fy_str_puts(out, "GGUF");
    small_u32(out, 3);
    small_u64(out, 0);
    small_u64(out, b->n_keys);
    small_put(out, b->keys.ptr, b->keys.len);
}

/* Releases the builder in every case. */
static inline fy_vocab *small_vocab_load(small_vocab *b, fy_err *e)
{
    fy_str file = {0};
    small_file(b, &file);
    fy_gguf *g = fy_gguf_parse(file.ptr, file.len, "small.gguf", false, e);
    fy_vocab *v = g != NULL ? fy_vocab_load(g, e) : NULL;
    fy_gguf_close(g);
    fy_str_release(&file);
    fy_str_release(&b->keys);
    return v;
}

/* --- two vocabularies that the tests share --- */

/* Byte-level BPE: the letters a b c d, space (the byte alphabet's U+0120), digits 1 2 and what
 * merges make of them; most other bytes have no token. */
static inline void small_bpe(small_vocab *b, const char *pre)
{
#define SP "\xC4\xA0"
    /* clang-format off */
    const fy_span token[] = {
        FY_SPAN("a"), FY_SPAN("b"), FY_SPAN("c"), FY_SPAN("d"), FY_SPAN(SP), FY_SPAN("1"),
        FY_SPAN("2"),
        FY_SPAN("ab"), FY_SPAN("bc"), FY_SPAN("abc"), FY_SPAN(SP "a"), FY_SPAN("aa"), FY_SPAN("aaaa"),
        FY_SPAN("abcd"), FY_SPAN("<s>"), FY_SPAN("<e>"), FY_SPAN("<u>"), FY_SPAN("<un>"),
        FY_SPAN("[PAD18]"),
        FY_SPAN("\xC3\x83"), FY_SPAN("\xC2\xA9"), FY_SPAN("\xC3\x83\xC2\xA9"),
    };
    const fy_span merge[] = {
        FY_SPAN("a b"), FY_SPAN("b c"), FY_SPAN("ab c"), FY_SPAN(SP " a"), FY_SPAN("a a"), FY_SPAN("aa aa"),
        FY_SPAN("\xC3\x83 \xC2\xA9"),
    };
    /* clang-format on */
    static const int32_t type[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                   1, 1, 1, 3, 3, 4, 2, 5, 1, 1, 1};
#undef SP
    small_str(b, "tokenizer.ggml.model", "gpt2");
    small_str(b, "tokenizer.ggml.pre", pre);
    small_strings(b, "tokenizer.ggml.tokens", token, sizeof token / sizeof token[0]);
    small_types(b, type, sizeof type / sizeof type[0]);
    small_strings(b, "tokenizer.ggml.merges", merge, sizeof merge / sizeof merge[0]);
    small_id(b, "tokenizer.ggml.bos_token_id", 14);
    small_id(b, "tokenizer.ggml.eos_token_id", 15);
}

enum { SMALL_BPE_N = 22 };

/* SentencePiece BPE: <unk> <s> </s>, 256 byte tokens (when `bytes`), blank, a, b, and pieces by
 * score. */
static inline void small_spm(small_vocab *b, bool bytes)
{
#define BL "\xE2\x96\x81"
    /* clang-format off */
    const struct {
        fy_span text;
        float score;
        int32_t type;
    } rows[] = {
        {FY_SPAN("<unk>"), 0, 2}, {FY_SPAN("<s>"), 0, 3}, {FY_SPAN("</s>"), 0, 3}, {FY_SPAN(BL), -10, 1},
        {FY_SPAN("a"), -11, 1}, {FY_SPAN("b"), -12, 1}, {FY_SPAN(BL "a"), -2, 1}, {FY_SPAN("ab"), -1, 1},
        {FY_SPAN(BL "ab"), -3, 1}, {FY_SPAN(BL BL), -4, 1}, {FY_SPAN("<u>"), 0, 4}, {FY_SPAN("bb"), 0, 5},
        {FY_SPAN("\xC3\xA9"), -20, 1},
    };
    /* clang-format on */
#undef BL
    enum { N = sizeof rows / sizeof rows[0] };
    uint64_t n = N + (bytes ? 256 : 0);
    small_str(b, "tokenizer.ggml.model", "llama");
    small_array(b, "tokenizer.ggml.tokens", FY_KV_STRING, n);
    for (uint64_t i = 0; i < N; i++)
        small_span(&b->keys, rows[i].text);
    for (unsigned i = 0; bytes && i < 256; i++) {
        small_u64(&b->keys, 6);
        fy_str_printf(&b->keys, "<0x%02X>", i);
    }
    small_array(b, "tokenizer.ggml.scores", FY_KV_F32, n);
    for (uint64_t i = 0; i < n; i++)
        small_put(&b->keys, i < N ? &rows[i].score : &rows[0].score, sizeof rows[0].score);
    small_array(b, "tokenizer.ggml.token_type", FY_KV_I32, n);
    for (uint64_t i = 0; i < n; i++)
        small_u32(&b->keys, i < N ? (uint32_t)rows[i].type : FY_TOKEN_BYTE);
}

enum { SMALL_SPM_FIRST_BYTE = 13 };

#endif
