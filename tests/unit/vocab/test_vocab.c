#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/vocab/small_vocab.h"

enum { PLAIN = 0, ADD = 1, PARSE = 2 };

/* The ids as text: "1 2 3". */
static const char *ids_of(const fy_vocab *v, fy_span text, int how)
{
    static char out[4096];
    fy_ids ids = {0};
    fy_err e = {0};
    assert_int_equal(fy_vocab_encode(v, text, how & ADD, how & PARSE, &ids, &e), 0);
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ids.n && n < sizeof out - 16; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%d", i > 0 ? " " : "", ids.id[i]);
    fy_ids_release(&ids);
    return out;
}

#define assert_ids(v, text, how, expected) \
    assert_string_equal(ids_of(v, FY_SPAN(text), how), expected)

static void assert_decodes(const fy_vocab *v, const int32_t *ids, size_t n, bool specials,
                           fy_span expected)
{
    fy_str s = {0};
    fy_err e = {0};
    assert_int_equal(fy_vocab_decode(v, ids, n, specials, &s, &e), 0);
    assert_int_equal(s.len, expected.len);
    assert_true(s.len == 0 || memcmp(s.ptr, expected.ptr, s.len) == 0);
    fy_str_release(&s);
}

static fy_vocab *bpe(const char *pre)
{
    small_vocab b = {0};
    fy_err e = {0};
    small_bpe(&b, pre);
    fy_vocab *v = small_vocab_load(&b, &e);
    assert_non_null(v);
    return v;
}

static fy_vocab *spm(bool bytes, const char *prefix_mode)
{
    small_vocab b = {0};
    fy_err e = {0};
    small_spm(&b, bytes);
    if (prefix_mode != NULL)
        small_str(&b, FY_KEY_SPACE_PREFIX, prefix_mode);
    fy_vocab *v = small_vocab_load(&b, &e);
    assert_non_null(v);
    return v;
}

/* As Gemma 4's files have it: SentencePiece's spelling, ranked merges, no scores. */
static fy_vocab *gemma4(bool merges, fy_err *e)
{
    const fy_span token[] = {FY_SPAN("<unk>"),
                             FY_SPAN("<bos>"),
                             FY_SPAN(FY_BLANK),
                             FY_SPAN("a"),
                             FY_SPAN("b"),
                             FY_SPAN("ab"),
                             FY_SPAN("ba"),
                             FY_SPAN(FY_BLANK "a"),
                             FY_SPAN("<turn|>"),
                             FY_SPAN("<0x63>"),
                             FY_SPAN(FY_BLANK FY_BLANK)};
    static const int32_t type[] = {2, 3, 1, 1, 1, 1, 1, 1, 3, 6, 4};
    const fy_span merge[] = {FY_SPAN("b a"), FY_SPAN("a b"), FY_SPAN(FY_BLANK " a")};
    small_vocab b = {0};
    small_str(&b, "tokenizer.ggml.model", "gemma4");
    small_strings(&b, "tokenizer.ggml.tokens", token, sizeof token / sizeof token[0]);
    small_types(&b, type, sizeof type / sizeof type[0]);
    if (merges)
        small_strings(&b, "tokenizer.ggml.merges", merge, sizeof merge / sizeof merge[0]);
    small_id(&b, "tokenizer.ggml.bos_token_id", 1);
    return small_vocab_load(&b, e);
}

static void gemma4_spells_like_sentencepiece_and_merges_by_rank(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_vocab *v = gemma4(true, &e);
    assert_non_null(v);
    assert_ids(v, "aba", PLAIN, "3 6"); /* "b a" comes first */
    assert_ids(v, " ab", PLAIN, "2 5"); /* "a b" comes before the blank's */
    assert_ids(v, " a", ADD, "1 7");
    assert_ids(v, "c", PLAIN, "9");
    assert_ids(v, "<turn|>", PARSE, "8");
    assert_true(fy_vocab_is_eog(v, 8));
    int32_t ids[] = {7, 9, 4};
    assert_decodes(v, ids, 3, false, FY_SPAN(" acb"));
    fy_vocab_free(v);
    assert_null(gemma4(false, &e));
    assert_non_null(strstr(e.msg, "merges' is missing, a gemma4 tokenizer needs it"));
}

/* A user-defined token stands in a text as it is written: U+2581 there is not a space. */
static void a_literal_blank_of_a_user_defined_token_is_itself(void **state)
{
    (void)state;
    fy_vocab *v = gemma4(true, NULL);
    assert_non_null(v);
    assert_ids(v, FY_BLANK FY_BLANK "a", PLAIN, "10 3");
    assert_ids(v, "  a", PLAIN, "2 7");
    fy_vocab_free(v);
}

/* "sop" and "eop" are control tokens of ChatGLM, and parts of words. */
static void words_hold_no_special_words_of_chatglm(void **state)
{
    (void)state;
    for (int chatglm = 0; chatglm < 2; chatglm++) {
        small_vocab b = {0};
        const fy_span token[] = {FY_SPAN("<unk>"), FY_SPAN("p"),      FY_SPAN("e"),
                                 FY_SPAN("o"),     FY_SPAN("l"),      FY_SPAN("eop"),
                                 FY_SPAN("sop"),   FY_SPAN("[gMASK]")};
        static const int32_t type[] = {2, 1, 1, 1, 1, 3, 3, 3};
        static const float score[8];
        small_str(&b, "general.architecture", chatglm ? "chatglm" : "llama");
        small_str(&b, "tokenizer.ggml.model", "llama");
        small_strings(&b, "tokenizer.ggml.tokens", token, 8);
        small_types(&b, type, 8);
        small_array(&b, "tokenizer.ggml.scores", FY_KV_F32, 8);
        small_put(&b.keys, score, sizeof score);
        small_bool(&b, "tokenizer.ggml.add_space_prefix", false);
        fy_vocab *v = small_vocab_load(&b, NULL);
        assert_non_null(v);
        assert_ids(v, "people", PARSE, chatglm ? "1 2 3 1 4 2" : "1 5 4 2");
        assert_ids(v, "[gMASK]sop", PARSE, "7 6");
        fy_vocab_free(v);
    }
}

static void byte_level_merges_go_by_rank_then_by_place(void **state)
{
    (void)state;
    fy_vocab *v = bpe("gpt-2");
    assert_ids(v, "", PLAIN, "");
    assert_ids(v, "abc", PLAIN, "9");
    assert_ids(v, "bcab", PLAIN, "8 7");
    assert_ids(v, "aaaaaaa", PLAIN, "12 11 0");
    assert_ids(v, " a a", PLAIN, "10 10");
    assert_ids(v, "\xC3\xA9", PLAIN, "21");
    fy_vocab_free(v);
}

static void a_whole_word_wins_only_where_merges_are_ignored(void **state)
{
    (void)state;
    fy_vocab *v = bpe("gpt-2"), *ignoring = bpe("llama-bpe"), *same_cut = bpe("dbrx");
    assert_ids(v, "abcd", PLAIN, "9 3");
    assert_ids(same_cut, "abcd", PLAIN, "9 3");
    assert_ids(ignoring, "abcd", PLAIN, "13");
    fy_vocab_free(v);
    fy_vocab_free(ignoring);
    fy_vocab_free(same_cut);
    for (int ignore = 0; ignore < 2; ignore++) { /* the file's own word wins */
        small_vocab b = {0};
        small_bpe(&b, ignore ? "gpt-2" : "llama-bpe");
        small_bool(&b, FY_KEY_IGNORE_MERGES, ignore != 0);
        v = small_vocab_load(&b, NULL);
        assert_ids(v, "abcd", PLAIN, ignore ? "13" : "9 3");
        fy_vocab_free(v);
    }
}

static void bytes_without_a_token_vanish_and_their_neighbours_merge(void **state)
{
    (void)state;
    fy_vocab *v = bpe("gpt-2");
    assert_ids(v, "xyz", PLAIN, "");
    assert_ids(v, "axb", PLAIN, "7");
    fy_vocab_free(v);
}

static void invalid_utf8_is_encoded_byte_by_byte(void **state)
{
    (void)state;
    fy_vocab *v = bpe("gpt-2"), *s = spm(true, NULL);
    /* U+00E9 cut in half: its first byte is a token of its own, the cut separates words */
    assert_ids(v,
               "a\xC3"
               "b",
               PLAIN, "0 19 1");
    assert_ids(v, "\xFF", PLAIN, "");
    assert_ids(s,
               "a\xC3"
               "b",
               PLAIN, "6 208 5");
    int32_t ids[] = {6, 208, 5};
    assert_decodes(s, ids, 3, false,
                   FY_SPAN("a\xC3"
                           "b"));
    fy_vocab_free(v);
    fy_vocab_free(s);
}

static void control_tokens_are_parsed_on_request_and_user_tokens_always(void **state)
{
    (void)state;
    fy_vocab *v = bpe("gpt-2");
    assert_ids(v, "a<s>b<u>c<un>", PARSE, "0 14 1 16 2 17");
    assert_ids(v, "a<u>c", PLAIN, "0 16 2");
    assert_ids(v, "a<un>c", PLAIN, "0 2"); /* '<', 'u', 'n' and '>' have no token here */
    assert_ids(v, "<<s>", PARSE, "14");
    fy_vocab_free(v);
}

static void bos_and_eos_are_added_as_the_file_says(void **state)
{
    (void)state;
    fy_vocab *v = bpe("gpt-2"), *llama3 = bpe("llama-bpe"), *s = spm(true, NULL);
    assert_ids(v, "a", ADD, "0");
    assert_ids(llama3, "a", ADD, "14 0");
    assert_ids(s, "", ADD, "1");
    assert_true(fy_vocab_adds_bos(s) && !fy_vocab_adds_bos(v));
    fy_vocab_free(v);
    fy_vocab_free(llama3);
    fy_vocab_free(s);

    small_vocab b = {0};
    small_bpe(&b, "gpt-2");
    small_bool(&b, "tokenizer.ggml.add_bos_token", true);
    small_bool(&b, "tokenizer.ggml.add_eos_token", true);
    v = small_vocab_load(&b, NULL);
    assert_ids(v, "a", ADD, "14 0 15");
    assert_ids(v, "a", PLAIN, "0");
    fy_vocab_free(v);
}

static fy_vocab *with_flag(uint32_t id, uint8_t flag)
{
    small_vocab b = {0};
    small_bpe(&b, "gpt-2");
    small_array(&b, FY_KEY_ADDED_FLAGS, FY_KV_U8, SMALL_BPE_N);
    for (uint32_t i = 0; i < SMALL_BPE_N; i++)
        fy_str_putc(&b.keys, i == id ? (char)flag : 0);
    fy_vocab *v = small_vocab_load(&b, NULL);
    assert_non_null(v);
    return v;
}

/* A control token is not made by merging, unless the tokenizer's own merges make it. */
static void a_control_token_may_be_merged_where_its_flag_says(void **state)
{
    (void)state;
    for (int merged = 0; merged < 2; merged++) {
        small_vocab b = {0};
        const fy_span tokens[] = {FY_SPAN("<unk>"), FY_SPAN("s"), FY_SPAN("t"), FY_SPAN("st")};
        static const int32_t types[] = {2, 1, 1, 3};
        static const float scores[] = {0, -9, -9, -1};
        small_str(&b, "tokenizer.ggml.model", "llama");
        small_strings(&b, "tokenizer.ggml.tokens", tokens, 4);
        small_types(&b, types, 4);
        small_array(&b, "tokenizer.ggml.scores", FY_KV_F32, 4);
        small_put(&b.keys, scores, sizeof scores);
        small_array(&b, FY_KEY_ADDED_FLAGS, FY_KV_U8, 4);
        small_put(&b.keys, merged ? "\0\0\0\x10" : "\0\0\0\0", 4);
        small_bool(&b, "tokenizer.ggml.add_space_prefix", false);
        fy_err e = {0};
        fy_vocab *v = small_vocab_load(&b, &e);
        if (v == NULL)
            fail_msg("%s", e.msg);
        assert_ids(v, "st", PLAIN, merged ? "3" : "1 2");
        fy_vocab_free(v);
    }
}

static void special_tokens_eat_blanks_where_their_flags_say(void **state)
{
    (void)state;
    fy_vocab *none = bpe("gpt-2"), *left = with_flag(14, FY_ADDED_LSTRIP),
             *right = with_flag(14, FY_ADDED_RSTRIP);
    assert_ids(none, "a  <s>  a", PARSE, "0 4 4 14 4 10");
    assert_ids(left, "a  <s>  a", PARSE, "0 14 4 10");
    assert_ids(right, "a \xC2\xA0<s> \xE3\x80\x80\t a", PARSE, "0 4 14 0");
    assert_ids(left, "  <s>  <s>", PARSE, "14 14");
    fy_vocab_free(none);
    fy_vocab_free(left);
    fy_vocab_free(right);
}

static void single_word_tokens_need_a_border_on_both_sides(void **state)
{
    (void)state;
    fy_vocab *v = with_flag(14, FY_ADDED_SINGLE_WORD);
    assert_ids(v, "<s>", PARSE, "14");
    assert_ids(v, "a <s>.", PARSE, "0 4 14");
    assert_ids(v, "a<s>", PARSE, "0");
    assert_ids(v, "<s>\xC3\xA9", PARSE, "21");
    fy_vocab_free(v);
}

static void normalized_tokens_are_matched_behind_the_normaliser(void **state)
{
    (void)state;
    const fy_span token[] = {FY_SPAN("a"), FY_SPAN("\xC3\xA9!"), FY_SPAN("\xC3\xA9?")};
    static const int32_t type[] = {1, 4, 4};
    small_vocab b = {0};
    small_str(&b, "tokenizer.ggml.model", "gpt2");
    small_str(&b, "tokenizer.ggml.pre", "qwen2");
    small_strings(&b, "tokenizer.ggml.tokens", token, 3);
    small_types(&b, type, 3);
    small_strings(&b, "tokenizer.ggml.merges", NULL, 0);
    small_array(&b, FY_KEY_ADDED_FLAGS, FY_KV_U8, 3);
    small_put(&b.keys, "\0\x08\0", 3);
    fy_vocab *v = small_vocab_load(&b, NULL);
    assert_non_null(v);
    assert_ids(v, "ae\xCC\x81!", PLAIN, "0 1");
    assert_ids(v, "ae\xCC\x81?", PLAIN, "0");
    assert_ids(v, "a\xC3\xA9?", PLAIN, "0 2");
    fy_vocab_free(v);
}

static void qwen2_composes_its_text_unless_the_file_says_otherwise(void **state)
{
    (void)state;
    fy_vocab *plain = bpe("gpt-2"), *qwen = bpe("qwen2");
    assert_ids(plain, "e\xCC\x81", PLAIN, "");
    assert_ids(qwen, "e\xCC\x81", PLAIN, "21");
    fy_vocab_free(plain);
    fy_vocab_free(qwen);
    small_vocab b = {0}, c = {0};
    small_bpe(&b, "qwen2");
    small_str(&b, FY_KEY_NORMALIZER, "none");
    qwen = small_vocab_load(&b, NULL);
    assert_ids(qwen, "e\xCC\x81", PLAIN, "");
    fy_vocab_free(qwen);
    small_bpe(&c, "gpt-2");
    small_str(&c, FY_KEY_NORMALIZER, "nfc");
    plain = small_vocab_load(&c, NULL);
    assert_ids(plain, "e\xCC\x81", PLAIN, "21");
    fy_vocab_free(plain);
}

static void sentencepiece_merges_go_by_score(void **state)
{
    (void)state;
    fy_vocab *v = spm(true, NULL);
    assert_ids(v, "ab", PLAIN, "8"); /* ab (-1) before blank-a (-2); both then make blank-ab */
    assert_ids(v, "a", PLAIN, "6");
    assert_ids(v, "aab", PLAIN, "6 7");
    assert_ids(v, "  ab", PLAIN, "9 8");
    assert_ids(v, "bb", PLAIN, "3 5 5"); /* "bb" is unused: never made */
    assert_ids(v, "\xC3\xA9", PLAIN, "3 12");
    assert_ids(v, "\xC3\xA8", PLAIN, "3 208 181");
    assert_ids(v, "<s>", PLAIN, "3 73 128 75");
    assert_ids(v, "<0x41>", PLAIN, "3 73 61 133 65 62 75");
    fy_vocab_free(v);
}

static void a_blank_goes_before_fragments_as_the_file_says(void **state)
{
    (void)state;
    fy_vocab *all = spm(true, NULL), *meta = spm(true, "metaspace"),
             *first = spm(true, "metaspace-first");
    assert_ids(all, "a<s>a", PARSE, "6 1 6");
    assert_ids(all, " a<s> a", PARSE, "3 6 1 3 6");
    assert_ids(meta, "a<s>a", PARSE, "6 1 6");
    assert_ids(meta,
               " a<s>\xE2\x96\x81"
               "a",
               PARSE, "6 1 6");
    assert_ids(first, "a<s>a", PARSE, "6 1 4");
    assert_ids(first, "<s>a", PARSE, "1 4");
    assert_ids(first, " a", PARSE, "6");
    fy_vocab_free(all);
    fy_vocab_free(meta);
    fy_vocab_free(first);

    small_vocab b = {0};
    small_spm(&b, true);
    small_bool(&b, "tokenizer.ggml.add_space_prefix", false);
    fy_vocab *none = small_vocab_load(&b, NULL);
    assert_ids(none, "a<s>a", PARSE, "4 1 4");
    int32_t ids[] = {6};
    assert_decodes(none, ids, 1, false, FY_SPAN(" a"));
    fy_vocab_free(none);
}

static void a_blank_may_be_stripped_that_encoding_did_not_add(void **state)
{
    (void)state;
    const int32_t ids[] = {3, 6, 6};
    for (int strips = 0; strips < 2; strips++) {
        small_vocab b = {0};
        small_spm(&b, true);
        small_bool(&b, "tokenizer.ggml.add_space_prefix", false);
        small_bool(&b, FY_KEY_STRIPS_SPACE, strips != 0);
        fy_vocab *v = small_vocab_load(&b, NULL);
        assert_ids(v, " a", PLAIN, "6");
        assert_ids(v, "a", PLAIN, "4");
        assert_decodes(v, ids, 3, false, strips ? FY_SPAN(" a a") : FY_SPAN("  a a"));
        assert_decodes(v, ids + 1, 2, false, strips ? FY_SPAN("a a") : FY_SPAN(" a a"));
        assert_decodes(v, ids, 0, false, FY_SPAN(""));
        fy_vocab_free(v);
    }
}

static void unknown_characters_without_byte_tokens_are_one_unknown_token(void **state)
{
    (void)state;
    fy_vocab *v = spm(false, NULL);
    assert_ids(v, "axyza", PLAIN, "6 0 4");
    assert_ids(v, "\xC3\xA8", PLAIN, "3 0");
    fy_vocab_free(v);
}

static void decoding_gives_the_text_back(void **state)
{
    (void)state;
    fy_vocab *v = spm(true, NULL);
    int32_t text[] = {1, 8, 6, SMALL_SPM_FIRST_BYTE + 0xC3, SMALL_SPM_FIRST_BYTE + 0xA8, 10, 11, 2};
    assert_decodes(v, text, 8, false, FY_SPAN("ab a\xC3\xA8<u>"));
    assert_decodes(v, text, 8, true, FY_SPAN("<s> ab a\xC3\xA8<u></s>"));
    int32_t odd[] = {-1, 100000, 0, 11};
    assert_decodes(v, odd, 4, false, FY_SPAN(""));
    fy_vocab_free(v);
    v = bpe("gpt-2");
    int32_t bpe_text[] = {14, 10, 21, 16, 18, 15};
    assert_decodes(v, bpe_text, 6, false, FY_SPAN(" a\xC3\xA9<u>"));
    assert_decodes(v, bpe_text, 6, true, FY_SPAN("<s> a\xC3\xA9<u><e>"));
    fy_vocab_free(v);
}

static void one_token_decodes_without_the_rule_for_the_first_blank(void **state)
{
    (void)state;
    fy_vocab *v = spm(true, NULL);
    fy_str s = {0};
    assert_int_equal(fy_vocab_decode_one(v, 8, false, &s, NULL), 0);
    assert_int_equal(fy_vocab_decode_one(v, SMALL_SPM_FIRST_BYTE + 0xC3, false, &s, NULL), 0);
    assert_int_equal(fy_vocab_decode_one(v, 1, false, &s, NULL), 0);
    assert_string_equal(fy_str_z(&s), " ab\xC3");
    fy_str_release(&s);
    fy_vocab_free(v);
}

static void generation_ends_at_every_token_that_says_so(void **state)
{
    (void)state;
    const fy_span token[] = {
        FY_SPAN("a"),   FY_SPAN("<|im_end|>"), FY_SPAN("</s>"), FY_SPAN("<x>"),
        FY_SPAN("<y>"), FY_SPAN("<z>"),        FY_SPAN("<w>"),  FY_SPAN("[PAD7]"),
    };
    static const int32_t type[] = {1, 3, 1, 3, 3, 3, 1, 5}, more[] = {4}, never[] = {6};
    small_vocab b = {0};
    small_str(&b, "tokenizer.ggml.model", "gpt2");
    small_str(&b, "tokenizer.ggml.pre", "gpt-2");
    small_strings(&b, "tokenizer.ggml.tokens", token, 8);
    small_types(&b, type, 8);
    small_strings(&b, "tokenizer.ggml.merges", NULL, 0);
    small_id(&b, "tokenizer.ggml.eos_token_id", 3);
    small_id(&b, "tokenizer.ggml.eot_token_id", 5);
    small_array(&b, FY_KEY_EOS_IDS, FY_KV_I32, 1);
    small_put(&b.keys, more, sizeof more);
    small_array(&b, "tokenizer.ggml.suppress_tokens", FY_KV_I32, 1);
    small_put(&b.keys, never, sizeof never);
    fy_vocab *v = small_vocab_load(&b, NULL);
    assert_non_null(v);
    const char *eog = "01011100"; /* an ordinary "</s>" is text */
    for (int32_t i = 0; i < 8; i++) {
        assert_int_equal(fy_vocab_is_eog(v, i), eog[i] == '1');
        assert_int_equal(fy_vocab_is_samplable(v, i), i < 6);
    }
    assert_false(fy_vocab_is_eog(v, 8) || fy_vocab_is_eog(v, -1) || fy_vocab_is_samplable(v, 8));
    assert_false(fy_vocab_adds_bos(v));
    assert_true(fy_vocab_is_eog(v, 3));
    fy_vocab_free(v);
}

static void an_end_of_a_message_is_not_always_one_of_the_answer(void **state)
{
    (void)state;
    for (int channels = 0; channels < 2; channels++) {
        const fy_span token[] = {FY_SPAN("a"), FY_SPAN("<|end|>"),
                                 channels ? FY_SPAN("<|return|>") : FY_SPAN("b"),
                                 channels ? FY_SPAN("<|call|>") : FY_SPAN("<|endoftext|>")};
        const int32_t type[] = {FY_TOKEN_NORMAL, FY_TOKEN_CONTROL,
                                channels ? FY_TOKEN_CONTROL : FY_TOKEN_NORMAL, FY_TOKEN_CONTROL};
        small_vocab b = {0};
        small_str(&b, "tokenizer.ggml.model", "gpt2");
        small_str(&b, "tokenizer.ggml.pre", "gpt-2");
        small_strings(&b, "tokenizer.ggml.tokens", token, 4);
        small_types(&b, type, 4);
        small_strings(&b, "tokenizer.ggml.merges", NULL, 0);
        small_id(&b, "tokenizer.ggml.eos_token_id", channels ? 2 : 3);
        fy_vocab *v = small_vocab_load(&b, NULL);
        assert_non_null(v);
        assert_int_equal(fy_vocab_is_eog(v, 1), !channels);
        assert_int_equal(fy_vocab_is_eog(v, 2), channels);
        assert_true(fy_vocab_is_eog(v, 3));
        fy_vocab_free(v);
    }
}

/* Its tokens, all of this type, and a key or NULL; fim: the ids that have to be found. */
static void check_fim(const fy_span *token, int32_t type, const char *key, uint32_t id,
                      const int32_t fim[FY_FIM_COUNT])
{
    const int32_t types[] = {type, type, type, type, type, type};
    small_vocab b = {0};
    small_str(&b, "tokenizer.ggml.model", "gpt2");
    small_str(&b, "tokenizer.ggml.pre", "gpt-2");
    small_strings(&b, "tokenizer.ggml.tokens", token, 6);
    small_types(&b, types, 6);
    small_strings(&b, "tokenizer.ggml.merges", NULL, 0);
    if (key != NULL)
        small_id(&b, key, id);
    fy_vocab *v = small_vocab_load(&b, NULL);
    assert_int_equal(v != NULL, id < 6);
    for (int m = 0; v != NULL && m < FY_FIM_COUNT; m++)
        assert_int_equal(fy_vocab_fim(v, (fy_fim_mark)m), fim[m]);
    fy_vocab_free(v);
}

static void marks_of_filling_in_are_found_by_key_or_text(void **state)
{
    (void)state;
    const fy_span qwen[] = {FY_SPAN("a"),
                            FY_SPAN("<|fim_middle|>"),
                            FY_SPAN("<|fim_prefix|>"),
                            FY_SPAN("<|repo_name|>"),
                            FY_SPAN("<|fim_suffix|>"),
                            FY_SPAN("<|file_sep|>")};
    const fy_span llama[] = {FY_SPAN("a"),
                             FY_SPAN(FY_BLANK "<PRE>"),
                             FY_SPAN(FY_BLANK "<SUF>"),
                             FY_SPAN(FY_BLANK "<MID>"),
                             FY_SPAN("<PRE>"),
                             FY_SPAN("b")};
    check_fim(qwen, FY_TOKEN_CONTROL, NULL, 0, (int32_t[]){2, 4, 1, 3, 5});
    check_fim(qwen, FY_TOKEN_NORMAL, NULL, 0, (int32_t[]){-1, -1, -1, -1, -1});
    check_fim(llama, FY_TOKEN_NORMAL, NULL, 0, (int32_t[]){1, 2, 3, -1, -1});
    check_fim(llama, FY_TOKEN_NORMAL, "tokenizer.ggml.prefix_token_id", 5,
              (int32_t[]){5, 2, 3, -1, -1});
    check_fim(llama, FY_TOKEN_NORMAL, "tokenizer.ggml.fim_sep_token_id", 0,
              (int32_t[]){1, 2, 3, -1, 0});
    check_fim(llama, FY_TOKEN_NORMAL, "tokenizer.ggml.fim_mid_token_id", 6, NULL);
}

static void pieces_are_found_by_text_with_nuls_and_duplicates(void **state)
{
    (void)state;
    const fy_span token[] = {FY_SPAN("a"), FY_SPAN("a\0b"), FY_SPAN("\0"), FY_SPAN("a"),
                             FY_SPAN("")};
    small_vocab b = {0};
    small_str(&b, "tokenizer.ggml.model", "gpt2");
    small_str(&b, "tokenizer.ggml.pre", "gpt-2");
    small_strings(&b, "tokenizer.ggml.tokens", token, 5);
    small_strings(&b, "tokenizer.ggml.merges", NULL, 0);
    fy_vocab *v = small_vocab_load(&b, NULL);
    assert_non_null(v);
    assert_int_equal(fy_vocab_n(v), 5);
    assert_int_equal(fy_vocab_find(v, FY_SPAN("a")), 0);
    assert_int_equal(fy_vocab_find(v, FY_SPAN("a\0b")), 1);
    assert_int_equal(fy_vocab_find(v, FY_SPAN("\0")), 2);
    assert_int_equal(fy_vocab_find(v, FY_SPAN("")), 4);
    assert_int_equal(fy_vocab_find(v, FY_SPAN("ab")), -1);
    assert_int_equal(fy_vocab_piece(v, 1).len, 3);
    assert_int_equal(fy_vocab_piece(v, 5).len, 0);
    assert_int_equal(fy_vocab_type(v, 0), FY_TOKEN_NORMAL);
    fy_vocab_free(v);
}

static void a_long_run_of_one_letter_takes_little_time(void **state)
{
    (void)state;
    enum { N = 200001 };
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, 'a', N);
    fy_vocab *v[] = {bpe("gpt-2"), bpe("llama-bpe"), spm(true, NULL)};
    for (size_t i = 0; i < 3; i++) {
        fy_ids ids = {0};
        assert_int_equal(fy_vocab_encode(v[i], (fy_span){text, N}, false, false, &ids, NULL), 0);
        assert_int_equal(ids.n, i < 2 ? N / 4 + 1 : N);
        fy_ids_release(&ids);
        fy_vocab_free(v[i]);
    }
    free(text);
}

static void a_long_run_can_be_interrupted_and_a_short_text_cannot(void **state)
{
    (void)state;
    enum { LONG = 300000 };
    fy_vocab *v[] = {bpe("gpt-2"), spm(true, NULL)};
    char *text = malloc(LONG);
    assert_non_null(text);
    memset(text, 'a', LONG);
    for (int i = 0; i < 2; i++) {
        fy_ids ids = {0};
        fy_err e = {0};
        fy_interrupted = 1;
        int rc = fy_vocab_encode(v[i], (fy_span){text, LONG}, false, false, &ids, &e);
        assert_int_equal(rc, -1);
        assert_int_equal(e.code, FY_EINTR);
        assert_int_equal(fy_vocab_encode(v[i], FY_SPAN("ab a"), false, false, &ids, &e), 0);
        fy_interrupted = 0;
        fy_ids_release(&ids);
        fy_vocab_free(v[i]);
    }
    free(text);
}

static void a_run_of_combining_marks_takes_little_time(void **state)
{
    (void)state;
    enum { N = 100000 };
    char *text = malloc(2 * N + 1);
    assert_non_null(text);
    text[0] = 'a';
    for (size_t i = 0; i < N; i++)
        memcpy(text + 1 + 2 * i, i & 1 ? "\xCC\xA3" : "\xCC\x81", 2);
    fy_vocab *v = bpe("qwen2");
    fy_ids ids = {0};
    assert_int_equal(fy_vocab_encode(v, (fy_span){text, 2 * N + 1}, false, false, &ids, NULL), 0);
    fy_ids_release(&ids);
    fy_vocab_free(v);
    free(text);
}

static void a_broken_vocabulary_is_refused_with_the_key_by_name(void **state)
{
    (void)state;
    const fy_span one[] = {FY_SPAN("a")}, bad_merge[] = {FY_SPAN("ab")};
    static const int32_t bad_type[] = {9}, far[] = {7};
    for (int i = 0; i < 13; i++) {
        static const char *const expected[] = {
            "no tokenizer",
            "'bert' is not supported; supported: gpt2, llama",
            "'tokenizer.ggml.pre' is missing",
            "'martian' is not supported; supported: gpt-2, llama-bpe, dbrx, qwen2, smollm",
            "'tokenizer.ggml.tokens' is missing",
            "'tokenizer.ggml.merges' is missing",
            "merge rule 0 'ab'",
            "token_type': token 0 has type 9",
            "'tokenizer.ggml.scores' is missing",
            "bos_token_id': token 7, but the vocabulary has 1",
            "ferry.eos_token_ids': token 7",
            "'nfkd' is not supported; supported: nfc, none",
            "has 2 entries, expected one for each of the 1 tokens",
        };
        small_vocab b = {0};
        if (i > 0)
            small_str(&b, "tokenizer.ggml.model", i == 1 ? "bert" : i == 8 ? "llama" : "gpt2");
        if (i != 2)
            small_str(&b, "tokenizer.ggml.pre", i == 3 ? "martian" : "gpt-2");
        if (i != 4)
            small_strings(&b, "tokenizer.ggml.tokens", one, 1);
        if (i != 5)
            small_strings(&b, "tokenizer.ggml.merges", bad_merge, i == 6);
        if (i == 7)
            small_types(&b, bad_type, 1);
        if (i == 9)
            small_id(&b, "tokenizer.ggml.bos_token_id", 7);
        if (i == 10) {
            small_array(&b, FY_KEY_EOS_IDS, FY_KV_I32, 1);
            small_put(&b.keys, far, sizeof far);
        }
        if (i == 11)
            small_str(&b, FY_KEY_NORMALIZER, "nfkd");
        if (i == 12) {
            small_array(&b, FY_KEY_ADDED_FLAGS, FY_KV_U8, 2);
            small_put(&b.keys, "\0\0", 2);
        }
        fy_err e = {0};
        assert_null(small_vocab_load(&b, &e));
        assert_non_null(strstr(e.msg, expected[i]));
        assert_non_null(strstr(e.msg, "small.gguf: "));
        assert_int_equal(e.code,
                         i == 1 || i == 2 || i == 3 || i == 11 ? FY_EUNSUPPORTED : FY_EFORMAT);
    }
}

/* Of a file without the key `pre` the architecture tells, where it has only one. */
static void a_missing_pre_is_known_by_the_architecture(void **state)
{
    (void)state;
    static const char *const architectures[] = {"gptneox", "llama"};
    for (int i = 0; i < 2; i++) {
        small_vocab b = {0};
        const fy_span tokens[] = {FY_SPAN("a"), FY_SPAN("b"), FY_SPAN("1"), FY_SPAN("11")};
        const fy_span merges[] = {FY_SPAN("1 1")};
        small_str(&b, "general.architecture", architectures[i]);
        small_str(&b, "tokenizer.ggml.model", "gpt2");
        small_strings(&b, "tokenizer.ggml.tokens", tokens, 4);
        small_strings(&b, "tokenizer.ggml.merges", merges, 1);
        fy_err e = {0};
        fy_ids ids = {0};
        fy_vocab *v = small_vocab_load(&b, &e);
        if (i == 1) {
            assert_null(v);
            assert_non_null(strstr(e.msg, "'tokenizer.ggml.pre' is missing"));
            continue;
        }
        assert_non_null(v);
        assert_int_equal(fy_vocab_encode(v, FY_SPAN("a11"), false, false, &ids, &e), 0);
        assert_true(ids.n == 2 && ids.id[1] == 3); /* gpt-2 keeps digits together */
        fy_ids_release(&ids);
        fy_vocab_free(v);
    }
}

static void running_out_of_memory_is_an_error_and_leaves_the_ids_alone(void **state)
{
    (void)state;
    small_vocab b[3] = {0};
    small_bpe(&b[0], "qwen2");
    small_bpe(&b[1], "llama-bpe");
    small_spm(&b[2], true);
    for (int k = 0; k < 3; k++) {
        fy_str file = {0};
        small_file(&b[k], &file);
        fy_gguf *g = fy_gguf_parse(file.ptr, file.len, "small.gguf", false, NULL);
        assert_non_null(g);
        bool failed = true;
        for (long n = 0; failed; n++) {
            fy_err e = {0};
            fy_ids ids = {0};
            fy_str text = {0};
            alloc_fail_after(n);
            fy_vocab *v = fy_vocab_load(g, &e);
            int rc = v == NULL ? -1
                               : fy_vocab_encode(v, FY_SPAN("abc ae\xCC\x81<s>ab\xFF 12"), true,
                                                 true, &ids, &e);
            if (rc == 0)
                rc = fy_vocab_decode(v, ids.id, ids.n, true, &text, &e);
            failed = alloc_fail_end();
            /* PCRE2 continues without its compiled code when there is no memory for it: a failure
             * may stay unseen. */
            assert_true(rc == 0 || e.code == FY_ENOMEM);
            assert_true(failed || rc == 0);
            assert_true(rc == 0 || text.oom || ids.n == 0);
            fy_ids_release(&ids);
            fy_str_release(&text);
            fy_vocab_free(v);
        }
        fy_gguf_close(g);
        fy_str_release(&file);
        fy_str_release(&b[k].keys);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_merges_go_by_rank_then_by_place),
        cmocka_unit_test(a_whole_word_wins_only_where_merges_are_ignored),
        cmocka_unit_test(bytes_without_a_token_vanish_and_their_neighbours_merge),
        cmocka_unit_test(invalid_utf8_is_encoded_byte_by_byte),
        cmocka_unit_test(control_tokens_are_parsed_on_request_and_user_tokens_always),
        cmocka_unit_test(bos_and_eos_are_added_as_the_file_says),
        cmocka_unit_test(a_control_token_may_be_merged_where_its_flag_says),
        cmocka_unit_test(special_tokens_eat_blanks_where_their_flags_say),
        cmocka_unit_test(single_word_tokens_need_a_border_on_both_sides),
        cmocka_unit_test(normalized_tokens_are_matched_behind_the_normaliser),
        cmocka_unit_test(qwen2_composes_its_text_unless_the_file_says_otherwise),
        cmocka_unit_test(sentencepiece_merges_go_by_score),
        cmocka_unit_test(a_blank_goes_before_fragments_as_the_file_says),
        cmocka_unit_test(a_blank_may_be_stripped_that_encoding_did_not_add),
        cmocka_unit_test(unknown_characters_without_byte_tokens_are_one_unknown_token),
        cmocka_unit_test(decoding_gives_the_text_back),
        cmocka_unit_test(one_token_decodes_without_the_rule_for_the_first_blank),
        cmocka_unit_test(generation_ends_at_every_token_that_says_so),
        cmocka_unit_test(an_end_of_a_message_is_not_always_one_of_the_answer),
        cmocka_unit_test(marks_of_filling_in_are_found_by_key_or_text),
        cmocka_unit_test(pieces_are_found_by_text_with_nuls_and_duplicates),
        cmocka_unit_test(a_long_run_of_one_letter_takes_little_time),
        cmocka_unit_test(a_long_run_can_be_interrupted_and_a_short_text_cannot),
        cmocka_unit_test(a_run_of_combining_marks_takes_little_time),
        cmocka_unit_test(a_broken_vocabulary_is_refused_with_the_key_by_name),
        cmocka_unit_test(a_missing_pre_is_known_by_the_architecture),
        cmocka_unit_test(gemma4_spells_like_sentencepiece_and_merges_by_rank),
        cmocka_unit_test(a_literal_blank_of_a_user_defined_token_is_itself),
        cmocka_unit_test(words_hold_no_special_words_of_chatglm),
        cmocka_unit_test(running_out_of_memory_is_an_error_and_leaves_the_ids_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
