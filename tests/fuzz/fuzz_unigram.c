/* Unigram: the first byte chooses the vocabulary's settings, the next two how long the normaliser
 * map is that follows; the rest is a text. Whatever the map is, it is refused with words or the
 * text becomes ids of the vocabulary. A map of all ones stands for a whole one made here. */
#include <stdint.h>
#include <stdlib.h>

#include "tests/unit/vocab/small_unigram.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BL "\xE2\x96\x81"

static const small_piece pieces[] = {
    {"<unk>", 0, FY_TOKEN_UNKNOWN},    {"</s>", 0, FY_TOKEN_CONTROL}, {BL, -3, FY_TOKEN_NORMAL},
    {"a", -4, FY_TOKEN_NORMAL},        {"b", -4, FY_TOKEN_NORMAL},    {"ab", -6, FY_TOKEN_NORMAL},
    {BL "a", -5, FY_TOKEN_NORMAL},     {"<u>", 0, FY_TOKEN_USER},     {"Ab", 0, FY_TOKEN_USER},
    {"\xC3\xA9", -7, FY_TOKEN_NORMAL},
};
enum { N_PIECES = sizeof pieces / sizeof pieces[0] };

/* Made once. */
static fy_span whole_map(void)
{
    static const small_rule rules[] = {
        {"A", "a"},    {"AB", "b"},  {"\t", " "}, {"\x01", ""}, {"e\xCC\x81", "\xC3\xA9"},
        {"W", "abab"}, {"S", " a "},
    };
    static fy_str map;
    if (map.len == 0)
        small_charsmap(rules, sizeof rules / sizeof rules[0], &map);
    return (fy_span){map.ptr, map.len};
}

static void encode(const fy_vocab *v, fy_span text)
{
    for (int how = 0; how < 4; how++) {
        fy_ids ids = {0};
        fy_str back = {0};
        fy_err e = {0};
        if (fy_vocab_encode(v, text, how & 1, how & 2, &ids, &e) != 0 && e.code != FY_EFORMAT)
            abort();
        for (size_t i = 0; i < ids.n; i++) {
            if (ids.id[i] < 0 || (uint32_t)ids.id[i] >= fy_vocab_n(v))
                abort();
        }
        if (fy_vocab_decode(v, ids.id, ids.n, how & 1, &back, &e) != 0)
            abort();
        fy_ids_release(&ids);
        fy_str_release(&back);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    const unsigned how = data[0];
    size_t n = (size_t)data[1] | (size_t)data[2] << 8;
    fy_span map = {(const char *)data + 3, n < size - 3 ? n : size - 3};
    fy_span text = {map.ptr + map.len, size - 3 - map.len};
    if (n == 0xFFFF) {
        text = map;
        map = whole_map();
    }
    small_vocab b = {0};
    fy_err e = {0};
    small_unigram(&b, pieces, N_PIECES, map, how & 1);
    small_bool(&b, "tokenizer.ggml.remove_extra_whitespaces", how & 2);
    small_bool(&b, "tokenizer.ggml.add_space_prefix", how & 4);
    if (how & 8)
        small_str(&b, FY_KEY_SPACE_PREFIX, how & 16 ? "metaspace" : "metaspace-first");
    if (how & 32)
        small_str(&b, FY_KEY_UNIGRAM, how & 64 ? "tokenizers-words" : "tokenizers");
    fy_vocab *v = small_vocab_load(&b, &e);
    if (v != NULL)
        encode(v, text);
    else if (e.code != FY_EFORMAT || e.msg[0] == '\0')
        abort();
    fy_vocab_free(v);
    return 0;
}
