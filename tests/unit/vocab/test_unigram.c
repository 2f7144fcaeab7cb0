#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "model/vocab/vocab_impl.h"
#include "tests/unit/vocab/small_unigram.h"

#define BL "\xE2\x96\x81"

enum { N = FY_TOKEN_NORMAL, U = FY_TOKEN_UNKNOWN, C = FY_TOKEN_CONTROL };
enum { D = FY_TOKEN_USER, X = FY_TOKEN_UNUSED };

static const small_piece pieces[] = {
    {"<unk>", 0, U},     /* 0 */
    {"</s>", 0, C},      /* 1 */
    {BL, -3, N},         /* 2 */
    {"a", -4, N},        /* 3 */
    {"b", -4, N},        /* 4 */
    {"ab", -6, N},       /* 5 */
    {BL "a", -5, N},     /* 6 */
    {"bab", -9, N},      /* 7 */
    {"abab", -11.5f, N}, /* 8 */
    {"c", -5, N},        /* 9 */
    {"cc", -10, N},      /* 10: exactly as good as two of 9 */
    {"<u>", 0, D},       /* 11 */
    {"Ab", 0, D},        /* 12 */
    {"bb", 0, X},        /* 13 */
    {"\xC3\xA9", -7, N}, /* 14 */
    {BL BL, -5, N},      /* 15 */
};
enum { N_PIECES = sizeof pieces / sizeof pieces[0], FIRST_BYTE = N_PIECES };

static const small_rule rules[] = {
    {"A", "a"},    {"AB", "b"},           {"\t", " "},  {"\x01", ""}, {"e\xCC\x81", "\xC3\xA9"},
    {"W", "abab"}, {"\xE3\x80\x80", " "}, {"S", " a "},
};

typedef struct {
    bool map, bytes, trims, no_prefix;
    const char *mode, *rules;
} how;

static fy_vocab *make(how h)
{
    small_vocab b = {0};
    fy_str map = {0};
    fy_err e = {0};
    if (h.map)
        small_charsmap(rules, sizeof rules / sizeof rules[0], &map);
    small_unigram(&b, pieces, N_PIECES, (fy_span){map.ptr, map.len}, h.bytes);
    small_bool(&b, "tokenizer.ggml.remove_extra_whitespaces", h.trims);
    small_bool(&b, "tokenizer.ggml.add_space_prefix", !h.no_prefix);
    if (h.mode != NULL)
        small_str(&b, FY_KEY_SPACE_PREFIX, h.mode);
    if (h.rules != NULL)
        small_str(&b, FY_KEY_UNIGRAM, h.rules);
    fy_vocab *v = small_vocab_load(&b, &e);
    fy_str_release(&map);
    if (v == NULL)
        fail_msg("%s", e.msg);
    return v;
}

/* ids: ends with -1. back: what they decode to; NULL: the text. */
static void gives_span(how h, fy_span text, const int *ids, const char *back)
{
    fy_vocab *v = make(h);
    fy_ids got = {0};
    fy_str out = {0};
    fy_err e = {0};
    size_t n = 0;
    while (ids[n] >= 0)
        n++;
    assert_int_equal(fy_vocab_encode(v, text, false, true, &got, &e), 0);
    bool same = got.n == n;
    for (size_t i = 0; same && i < n; i++)
        same = got.id[i] == ids[i];
    if (!same) {
        for (size_t i = 0; i < got.n; i++)
            print_message("%d ", got.id[i]);
        fail_msg("ids of '%.*s' differ", (int)text.len, text.ptr);
    }
    assert_int_equal(fy_vocab_decode(v, got.id, got.n, true, &out, &e), 0);
    if (back == NULL)
        assert_true(fy_span_eq((fy_span){out.ptr, out.len}, text));
    else
        assert_string_equal(fy_str_z(&out), back);
    fy_ids_release(&got);
    fy_str_release(&out);
    fy_vocab_free(v);
}

static void gives(how h, const char *text, const int *ids, const char *back)
{
    gives_span(h, fy_span_of(text), ids, back);
}

#define IDS(...) ((const int[]){__VA_ARGS__, -1})
#define NONE     ((const int[]){-1})

static void the_best_sum_wins(void **state)
{
    (void)state;
    const how plain = {.no_prefix = true};
    gives(plain, "ab", IDS(5), NULL);   /* -6 against -8 */
    gives(plain, "abab", IDS(8), NULL); /* -11.5 against -12 and -13 */
    gives(plain, "ababab", IDS(5, 8), NULL);
    gives(plain, "bab", IDS(7), NULL);
    gives(plain, "bb", IDS(4, 4), NULL); /* the unused piece is never taken */
    gives(plain, "", NONE, NULL);
}

static void of_equal_sums_the_longer_last_piece_was_there_first(void **state)
{
    (void)state;
    gives((how){.no_prefix = true}, "cc", IDS(10), NULL);
    gives((how){.no_prefix = true}, "ccc", IDS(9, 10), NULL);
}

static void a_run_of_unknown_characters_is_one_token(void **state)
{
    (void)state;
    gives((how){.no_prefix = true}, "axyb", IDS(3, 0, 4), "a \xE2\x81\x87 b");
    gives((how){.no_prefix = true}, "x", IDS(0), " \xE2\x81\x87 ");
    /* invalid UTF-8 reads as U+FFFD, byte by byte */
    gives((how){.no_prefix = true},
          "a\xFF\xC3"
          "b",
          IDS(3, 0, 4), "a \xE2\x81\x87 b");
}

static void with_byte_tokens_nothing_is_unknown(void **state)
{
    (void)state;
    const how h = {.no_prefix = true, .bytes = true};
    gives(h, "axb", IDS(3, FIRST_BYTE + 'x', 4), NULL);
    gives(h, "\xC2\xA0", IDS(FIRST_BYTE + 0xC2, FIRST_BYTE + 0xA0), NULL);
    gives(h, "<0x41>",
          IDS(FIRST_BYTE + '<', FIRST_BYTE + '0', FIRST_BYTE + 'x', FIRST_BYTE + '4',
              FIRST_BYTE + '1', FIRST_BYTE + '>'),
          NULL);
    gives(h, "\xFF", IDS(FIRST_BYTE + 0xEF, FIRST_BYTE + 0xBF, FIRST_BYTE + 0xBD), "\xEF\xBF\xBD");
}

static void the_longest_rule_rewrites(void **state)
{
    (void)state;
    const how h = {.no_prefix = true, .map = true};
    gives(h, "A", IDS(3), "a");
    gives(h, "AB", IDS(4), "b");
    gives(h, "AA", IDS(3, 3), "aa");
    gives(h, "e\xCC\x81", IDS(14), "\xC3\xA9");
    gives(h, "W", IDS(8), "abab");
    gives(h,
          "a\x01"
          "b",
          IDS(5), "ab");
    gives(h, "a\tb", IDS(3, 2, 4), "a b");
    gives((how){.no_prefix = true}, "A", IDS(0), " \xE2\x81\x87 ");
}

static void blanks_are_kept_or_trimmed(void **state)
{
    (void)state;
    const how keeps = {.map = true}, trims = {.map = true, .trims = true};
    gives(keeps, " a ", IDS(2, 6, 2), NULL);
    gives(keeps, "b  b", IDS(2, 4, 15, 4), NULL);
    gives(trims, "  a \t", IDS(6), "a");
    gives(trims, "b \xE3\x80\x80 b", IDS(2, 4, 2, 4), "b b");
    gives(trims, " \t ", NONE, "");
    gives(trims, "\x01 a", IDS(6), "a");
    gives(trims, "SSb", IDS(6, 6, 2, 4), "a a b");
    gives((how){.map = true, .trims = true, .no_prefix = true}, " b a ", IDS(4, 6), "b a");
}

static void user_defined_pieces_stay_as_they_are(void **state)
{
    (void)state;
    const how h = {.map = true};
    gives(h, "a<u>b", IDS(6, 11, 4), NULL);
    gives(h, "Ab", IDS(2, 12), NULL); /* not rewritten to "ab" */
    gives(h, "AAb", IDS(6, 12), "aAb");
}

static void a_blank_goes_before_by_the_mode(void **state)
{
    (void)state;
    gives((how){.mode = "metaspace"}, " b", IDS(2, 4), "b");
    gives((how){0}, " b", IDS(15, 4), NULL);
    gives((how){.mode = "metaspace", .trims = true}, " b", IDS(2, 4), "b");
    gives((how){.mode = "prepend"}, "b</s>b", IDS(2, 4, 1, 2, 4), "b</s> b");
    gives((how){.mode = "metaspace-first"}, "b</s>b", IDS(2, 4, 1, 4), "b</s>b");
    gives((how){.mode = "metaspace-first", .trims = true}, "b</s> b", IDS(2, 4, 1, 2, 4),
          "b</s> b");
}

static void sums_of_a_long_text_do_not_lose_their_digits(void **state)
{
    (void)state;
    enum { PAIRS = 100000 };
    fy_vocab *v = make((how){.no_prefix = true});
    fy_str text = {0};
    fy_ids ids = {0};
    fy_err e = {0};
    for (int i = 0; i < PAIRS; i++)
        fy_str_puts(&text, "abc");
    assert_int_equal(fy_vocab_encode(v, (fy_span){text.ptr, text.len}, false, false, &ids, &e), 0);
    assert_int_equal(ids.n, 2 * PAIRS);
    for (size_t i = 0; i < ids.n; i++)
        assert_int_equal(ids.id[i], i % 2 == 0 ? 5 : 9);
    fy_ids_release(&ids);
    fy_str_release(&text);
    fy_vocab_free(v);
}

/* --- as the tokenizers library does it --- */

#define BY_WORDS .rules = "tokenizers", .mode = "metaspace"

static void words_are_cut_one_by_one(void **state)
{
    (void)state;
    const how h = {BY_WORDS};
    gives(h, "a", IDS(6), NULL);
    gives(h, " a", IDS(6), "a");
    gives(h, "b  b", IDS(2, 4, 2, 2, 4), NULL); /* no piece of two blanks */
    gives(h, "x x", IDS(2, 0, 2, 0), "<unk> <unk>");
    gives(h, " ", IDS(2), "");
    gives(h, "", NONE, NULL);
    gives((how){BY_WORDS, .trims = true}, "  a   a\n ", IDS(6, 6), "a a");
    gives((how){BY_WORDS, .trims = true}, "a\tb", IDS(6, 0, 4), "a<unk>b");
    gives((how){BY_WORDS, .trims = true}, " \n", NONE, "");
}

static void white_space_is_split_away(void **state)
{
    (void)state;
    const how h = {.rules = "tokenizers-words", .mode = "metaspace", .trims = true};
    gives(h,
          "\n a\tb\xC2\xA0"
          "a ",
          IDS(6, 2, 4, 6), "a b a");
    gives(h, "a " BL "b", IDS(6, 2, 4), "a b");
}

static void graphemes_are_rewritten_by_their_shortest_rule(void **state)
{
    (void)state;
    const how h = {BY_WORDS, .map = true};
    gives(h, "e\xCC\x81", IDS(2, 14), "\xC3\xA9");
    gives(h, "AB", IDS(6, 0), "a<unk>"); /* two graphemes: the rule for both is not seen */
    gives(h,
          "A\xCC\x81"
          "b",
          IDS(2, 5), "ab"); /* what the rule for A leaves over is lost */
    gives(h, "A\xCC\x81\xCC\x81\xCC\x81", IDS(6, 0), "a<unk>"); /* 7 bytes: one by one */
    gives(h, "a\xFF", IDS(6, 0), "a<unk>");
}

static void added_tokens_are_cut_out_and_bytes_found_by_name(void **state)
{
    (void)state;
    gives((how){BY_WORDS, .map = true}, "a<u>b", IDS(6, 11, 2, 4), "a<u> b");
    gives((how){.rules = "tokenizers", .mode = "metaspace-first"}, "a<u>b", IDS(6, 11, 4), NULL);
    gives((how){BY_WORDS, .bytes = true}, "a<0x41>x", IDS(6, FIRST_BYTE + 'A', FIRST_BYTE + 'x'),
          "aAx");
}

static void unknown_rules_are_refused(void **state)
{
    (void)state;
    small_vocab b = {0};
    fy_err e = {0};
    small_unigram(&b, pieces, N_PIECES, FY_SPAN(""), false);
    small_str(&b, FY_KEY_UNIGRAM, "other");
    assert_null(small_vocab_load(&b, &e));
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, "tokenizers-words"));
}

/* --- what is refused --- */

static void refused(fy_span map, const char *why)
{
    small_vocab b = {0};
    fy_err e = {0};
    small_unigram(&b, pieces, N_PIECES, map, false);
    assert_null(small_vocab_load(&b, &e));
    if (e.code != FY_EFORMAT || strstr(e.msg, why) == NULL)
        fail_msg("'%s' does not contain '%s'", e.msg, why);
}

static void broken_maps_are_refused(void **state)
{
    (void)state;
    fy_str map = {0};
    small_charsmap(rules, 2, &map);
    refused((fy_span){map.ptr, 3}, "has 3 bytes");
    refused((fy_span){map.ptr, 4}, "has 4 bytes");
    refused((fy_span){map.ptr, 1028}, "its trie takes");
    refused((fy_span){map.ptr, map.len - 1}, "does not end with a NUL");
    map.ptr[0] = 1;
    refused((fy_span){map.ptr, map.len}, "expected a multiple of 1024");
    memset(map.ptr, 0, 4);
    refused((fy_span){map.ptr, map.len}, "its trie takes 0");
    memset(map.ptr, 0xFF, 4);
    refused((fy_span){map.ptr, map.len}, "its trie takes 4294967295");
    fy_str_release(&map);
}

/* Offsets and values that point anywhere find nothing, or a text inside the map. */
static void a_trie_that_points_outside_finds_nothing(void **state)
{
    (void)state;
    fy_str map = {0};
    fy_charsmap m;
    fy_span by;
    small_charsmap(rules, 2, &map);
    for (size_t at = 4; at + 4 < map.len; at++) {
        char kept[4];
        memcpy(kept, map.ptr + at, 4);
        memset(map.ptr + at, 0xFF, 4);
        if (fy_charsmap_parse(&m, map.ptr, map.len, NULL) == 0) {
            const char *texts[] = {"A", "AB", "ABC", "\xFF\xFF", ""};
            for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
                fy_span s = fy_span_of(texts[i]);
                size_t n = fy_charsmap_match(&m, s, false, &by);
                assert_true(n <= s.len);
                assert_true(n == 0 || (by.ptr >= m.text && by.ptr + by.len < m.text + m.n_text));
            }
        }
        memcpy(map.ptr + at, kept, 4);
    }
    fy_str_release(&map);
}

static void a_map_that_explodes_a_text_is_stopped(void **state)
{
    (void)state;
    static char much[400];
    memset(much, 'a', sizeof much - 1);
    const small_rule bomb[] = {{"A", much}};
    small_vocab b = {0};
    fy_str map = {0};
    fy_ids ids = {0};
    fy_err e = {0};
    small_charsmap(bomb, 1, &map);
    small_unigram(&b, pieces, N_PIECES, (fy_span){map.ptr, map.len}, false);
    fy_vocab *v = small_vocab_load(&b, &e);
    assert_non_null(v);
    assert_int_equal(fy_vocab_encode(v, FY_SPAN("AAAAAAAA"), false, false, &ids, &e), -1);
    assert_non_null(strstr(e.msg, "64 times as long"));
    assert_int_equal(ids.n, 0);
    fy_ids_release(&ids);
    fy_str_release(&map);
    fy_vocab_free(v);
}

static void what_a_t5_vocabulary_lacks_is_named(void **state)
{
    (void)state;
    const fy_span tokens[] = {FY_SPAN("a")};
    small_vocab b = {0};
    fy_err e = {0};
    small_str(&b, "tokenizer.ggml.model", "t5");
    small_strings(&b, "tokenizer.ggml.tokens", tokens, 1);
    assert_null(small_vocab_load(&b, &e));
    assert_non_null(strstr(e.msg, "a t5 tokenizer needs it"));
    e = (fy_err){0};
    b = (small_vocab){0};
    small_unigram(&b, pieces, N_PIECES, FY_SPAN(""), false);
    small_str(&b, FY_KEY_CHARSMAP, "text");
    assert_null(small_vocab_load(&b, &e));
    assert_non_null(strstr(e.msg, "precompiled_charsmap"));
}

/* Without its keys a file means what T5 means: it ends texts. */
static void a_text_ends_unless_the_file_says_otherwise(void **state)
{
    (void)state;
    small_vocab b = {0};
    fy_ids ids = {0};
    const fy_span tokens[] = {FY_SPAN("<pad>"), FY_SPAN("</s>"), FY_SPAN("<unk>"), FY_SPAN(BL)};
    const float scores[4] = {0};
    const int32_t types[] = {C, C, U, N};
    small_str(&b, "tokenizer.ggml.model", "t5");
    small_strings(&b, "tokenizer.ggml.tokens", tokens, 4);
    small_array(&b, "tokenizer.ggml.scores", FY_KV_F32, 4);
    small_put(&b.keys, scores, sizeof scores);
    small_types(&b, types, 4);
    fy_vocab *v = small_vocab_load(&b, NULL);
    assert_non_null(v);
    assert_int_equal(fy_vocab_encode(v, FY_SPAN("x"), true, false, &ids, NULL), 0);
    assert_int_equal(ids.n, 3);
    assert_true(ids.id[0] == 3 && ids.id[1] == 2 && ids.id[2] == 1);
    fy_ids_release(&ids);
    fy_vocab_free(v);
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    fy_str map = {0};
    small_charsmap(rules, sizeof rules / sizeof rules[0], &map);
    bool done = false;
    for (long n = 0; !done; n++) {
        small_vocab b = {0};
        fy_ids ids = {0};
        fy_err e = {0};
        fy_str file = {0};
        small_unigram(&b, pieces, N_PIECES, (fy_span){map.ptr, map.len}, true);
        small_file(&b, &file);
        fy_gguf *g = fy_gguf_parse(file.ptr, file.len, "small.gguf", false, &e);
        assert_non_null(g);
        alloc_fail_after(n);
        fy_vocab *v = fy_vocab_load(g, &e);
        if (v != NULL)
            done = fy_vocab_encode(v, FY_SPAN("aAb W x"), true, true, &ids, &e) == 0;
        bool failed = alloc_fail_end();
        assert_true(done ? !failed : failed && e.code == FY_ENOMEM);
        fy_ids_release(&ids);
        fy_vocab_free(v);
        fy_gguf_close(g);
        fy_str_release(&file);
        fy_str_release(&b.keys);
    }
    fy_str_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_sum_wins),
        cmocka_unit_test(of_equal_sums_the_longer_last_piece_was_there_first),
        cmocka_unit_test(a_run_of_unknown_characters_is_one_token),
        cmocka_unit_test(with_byte_tokens_nothing_is_unknown),
        cmocka_unit_test(the_longest_rule_rewrites),
        cmocka_unit_test(blanks_are_kept_or_trimmed),
        cmocka_unit_test(user_defined_pieces_stay_as_they_are),
        cmocka_unit_test(a_blank_goes_before_by_the_mode),
        cmocka_unit_test(sums_of_a_long_text_do_not_lose_their_digits),
        cmocka_unit_test(words_are_cut_one_by_one),
        cmocka_unit_test(white_space_is_split_away),
        cmocka_unit_test(graphemes_are_rewritten_by_their_shortest_rule),
        cmocka_unit_test(added_tokens_are_cut_out_and_bytes_found_by_name),
        cmocka_unit_test(unknown_rules_are_refused),
        cmocka_unit_test(broken_maps_are_refused),
        cmocka_unit_test(a_trie_that_points_outside_finds_nothing),
        cmocka_unit_test(a_map_that_explodes_a_text_is_stopped),
        cmocka_unit_test(what_a_t5_vocabulary_lacks_is_named),
        cmocka_unit_test(a_text_ends_unless_the_file_says_otherwise),
        cmocka_unit_test(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
