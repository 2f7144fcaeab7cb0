/* Tokenizer. The first byte chooses what the rest is: a text for one of the vocabularies made here,
 * which must come back from its ids, or the bytes of a GGUF file, whose vocabulary must load and
 * work or be refused with words. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/vocab/small_vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BLANK "\xE2\x96\x81"

static void require(int condition)
{
    if (!condition)
        abort();
}

/* Byte-level BPE with a token for every byte, so that any text can be spelled. */
static void every_byte(small_vocab *b, const char *pre)
{
    static const char *const joined[] = {"ab", "abc",  "\xC4\xA0\x61",
                                         "aa", "aaaa", "\xC3\xA2\xC4\xB8"};
    static const char *const merges[] = {"a b", "ab c",  "\xC4\xA0 a",
                                         "a a", "aa aa", "\xC3\xA2 \xC4\xB8"};
    enum { N = sizeof joined / sizeof joined[0], SPECIALS = 2 };
    int32_t type[256 + N + SPECIALS];
    small_str(b, "tokenizer.ggml.model", "gpt2");
    small_str(b, "tokenizer.ggml.pre", pre);
    small_array(b, "tokenizer.ggml.tokens", FY_KV_STRING, 256 + N + SPECIALS);
    uint32_t next = 0x100;
    for (uint32_t c = 0; c < 256; c++) {
        bool itself = (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || c >= 174;
        fy_str s = {0};
        fy_str_put_utf8(&s, itself ? c : next++);
        small_span(&b->keys, (fy_span){s.ptr, s.len});
        fy_str_release(&s);
        type[c] = FY_TOKEN_NORMAL;
    }
    for (size_t i = 0; i < N + SPECIALS; i++) {
        small_span(&b->keys, fy_span_of(i < N ? joined[i] : i == N ? "<s>" : "<u>"));
        type[256 + i] = i < N ? FY_TOKEN_NORMAL : i == N ? FY_TOKEN_CONTROL : FY_TOKEN_USER;
    }
    small_types(b, type, 256 + N + SPECIALS);
    small_array(b, "tokenizer.ggml.merges", FY_KV_STRING, N);
    for (size_t i = 0; i < N; i++)
        small_span(&b->keys, fy_span_of(merges[i]));
}

/* What each small vocabulary is, and when a text comes back unchanged. */
static const struct {
    const char *pre;    /* of a byte-level one; NULL: SentencePiece */
    const char *prefix; /* mode of the blank in front; NULL: none is added */
    bool bytes, returns;
} kinds[] = {
    {"gpt-2", NULL, true, true},
    {"llama-bpe", NULL, true, true},
    {"smollm", NULL, true, true},
    {"qwen2", NULL, true, false},
    {NULL, NULL, true, true},
    {NULL, "prepend", true, true},
    {NULL, "metaspace-first", true, false},
    {NULL, "metaspace", true, false},
    {NULL, "prepend", false, false},
    {"falcon", NULL, true, true},
    {"tekken", NULL, true, true},
    {"gpt-4o", NULL, true, true},
    {"deepseek-v3", NULL, true, true},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static const fy_vocab *small(unsigned k)
{
    static fy_vocab *made[N_KINDS];
    if (made[k] != NULL)
        return made[k];
    small_vocab b = {0};
    if (kinds[k].pre != NULL) {
        every_byte(&b, kinds[k].pre);
    } else {
        small_spm(&b, kinds[k].bytes);
        small_bool(&b, "tokenizer.ggml.add_space_prefix", kinds[k].prefix != NULL);
        if (kinds[k].prefix != NULL)
            small_str(&b, FY_KEY_SPACE_PREFIX, kinds[k].prefix);
    }
    fy_err e = {0};
    made[k] = small_vocab_load(&b, &e);
    require(made[k] != NULL);
    return made[k];
}

static bool contains(fy_span text, const char *word)
{
    return memmem(text.ptr, text.len, word, strlen(word)) != NULL;
}

static void encode_all_ways(const fy_vocab *v, fy_span text)
{
    for (int how = 0; how < 4; how++) {
        fy_ids ids = {0};
        fy_str back = {0};
        fy_err e = {0};
        require(fy_vocab_encode(v, text, how & 1, how & 2, &ids, &e) == 0);
        for (size_t i = 0; i < ids.n; i++)
            require(ids.id[i] >= 0 && (uint32_t)ids.id[i] < fy_vocab_n(v));
        require(fy_vocab_decode(v, ids.id, ids.n, how & 1, &back, &e) == 0);
        fy_ids_release(&ids);
        fy_str_release(&back);
    }
}

static void comes_back(const fy_vocab *v, fy_span text)
{
    fy_ids ids = {0};
    fy_str back = {0};
    require(fy_vocab_encode(v, text, false, false, &ids, NULL) == 0);
    require(fy_vocab_decode(v, ids.id, ids.n, true, &back, NULL) == 0);
    require(back.len == text.len && (text.len == 0 || memcmp(back.ptr, text.ptr, text.len) == 0));
    fy_ids_release(&ids);
    fy_str_release(&back);
}

static void try_text(unsigned k, fy_span text)
{
    const fy_vocab *v = small(k);
    encode_all_ways(v, text);
    bool spm = kinds[k].pre == NULL;
    /* A blank written as such decodes to a space, and a blank is added after every user-defined
     * token. */
    bool changed =
        spm && (contains(text, BLANK) || (kinds[k].prefix != NULL && contains(text, "<u>")));
    if (kinds[k].returns && !changed)
        comes_back(v, text);
}

static void try_file(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    fy_gguf *g = fy_gguf_parse(data, size, "fuzz", true, &e);
    if (g == NULL)
        return;
    fy_vocab *v = fy_vocab_load(g, &e);
    fy_gguf_close(g);
    if (v == NULL) {
        require(e.code != FY_OK && e.msg[0] != '\0');
        return;
    }
    encode_all_ways(v, FY_SPAN("  Hello <s>wo\xCC\x81rld</s>\xFF 123\n\n it's aabbcc <u> " BLANK));
    fy_str out = {0};
    for (int32_t id = -1; id <= (int32_t)fy_vocab_n(v) && id < 64; id++) {
        fy_span piece = fy_vocab_piece(v, id);
        int32_t found = fy_vocab_find(v, piece);
        require(id < 0 || id >= (int32_t)fy_vocab_n(v) || (found >= 0 && found <= id));
        require(fy_vocab_decode_one(v, id, true, &out, NULL) == 0);
        require(!fy_vocab_is_eog(v, id) || (id >= 0 && id < (int32_t)fy_vocab_n(v)));
        encode_all_ways(v, piece);
    }
    fy_str_release(&out);
    fy_vocab_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] < N_KINDS)
        try_text(data[0], (fy_span){(const char *)data + 1, size - 1});
    else
        try_file(data + 1, size - 1);
    return 0;
}
