#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_tree.h"
#include "base/str.h"
#include "convert/tokenizer/pretok_match.h"

#define L3_TAIL                                               \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| " \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*"                 \
    "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define L3 "(?i:'s|'t|'re|'ve|'m|'ll|'d)|" L3_TAIL
#define Q2                                                                            \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| " \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+"                                                      \
    "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define G                                            \
    "'(?:[sdmt]|ll|ve|re)| ?\\\\p{L}+| ?\\\\p{N}+| " \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+"
#define SPLIT_BY(regex, behavior, invert)                                                \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"" behavior \
    "\",\"invert\":" invert "}"
#define SPLIT(regex) SPLIT_BY(regex, "Isolated", "false")
#define SEQ(parts)   "{\"type\":\"Sequence\",\"pretokenizers\":[" parts "]}"
#define BYTES                                                                                 \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":" \
    "false}"
#define BYTES_REGEX           "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true}"
#define DIGITS                "{\"type\":\"Digits\",\"individual_digits\":true}"
#define PUNCTUATION(behavior) "{\"type\":\"Punctuation\",\"behavior\":\"" behavior "\"}"
#define RUNS                  "{\"type\":\"Digits\",\"individual_digits\":false}"
#define CASED(suffix, digits)                                                        \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*"  \
    "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+" suffix                                  \
    "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+" \
    "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*" suffix "|" digits                       \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define TEKKEN CASED("", "\\\\p{N}")
#define O200K  CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "\\\\p{N}{1,3}")
#define HAN    "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+"
#define DEEPSEEK3                                                       \
    "[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+" \
    "|[^\\r\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+"            \
    "| ?[\\\\p{P}\\\\p{S}]+[\\r\\n]*|\\\\s*[\\r\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define CODER         \
    SPLIT("[\\r\\n]") \
    "," SPLIT("\\\\s?\\\\p{L}+") "," SPLIT("\\\\s?\\\\p{P}+") "," SPLIT(EAST_ASIAN) ","
#define EAST_ASIAN "[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+"
#define BLOOM                                                                                  \
    " ?[^(\\\\s|[.,!?\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81\xE0\xA5\xA4\xDB\x94\xD8" \
    "\x8C])]+"
#define POSSESSIVE(digits)                                                   \
    "'(?i:[sdmt]|ll|ve|re)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?+\\\\p{L}+|" digits \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]++[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]|\\\\s+(?!\\\\S)|\\\\s+"
#define NFC         "{\"type\":\"NFC\"}"
#define BLANK       "\xE2\x96\x81"
#define PREPEND     "{\"type\":\"Prepend\",\"prepend\":\"" BLANK "\"}"
#define REPLACE     "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" BLANK "\"}"
#define NORM(parts) "{\"type\":\"Sequence\",\"normalizers\":[" parts "]}"
#define META(rest)  "{\"type\":\"Metaspace\",\"replacement\":\"" BLANK "\"" rest "}"

#define DECODER(parts) "{\"type\":\"Sequence\",\"decoders\":[" parts "]}"
#define STRIP(n)       "{\"type\":\"Strip\",\"content\":\" \",\"start\":" n ",\"stop\":0}"

enum { IGNORE_MERGES = 1, FALLBACK = 2 };

static const struct {
    const char *normalizer, *pre_tokenizer;
    int flags;
    const char *force;
    const char *pre; /* NULL: refused */
    bool nfc;
} bpe[] = {
    {"null", SEQ(SPLIT(L3) "," BYTES), IGNORE_MERGES, NULL, "llama-bpe", false},
    {"null", SEQ(SPLIT(L3) "," BYTES), 0, NULL, "dbrx", false},
    {"null", SEQ(SPLIT("'(?i:[sdmt]|ll|ve|re)|" L3_TAIL) "," BYTES), 0, NULL, "dbrx", false},
    {"null", SEQ(SPLIT_BY(L3, "Removed", "true") "," BYTES), IGNORE_MERGES, NULL, "llama-bpe",
     false},
    {"null", SEQ(SPLIT_BY(L3, "Removed", "false") "," BYTES), IGNORE_MERGES, NULL, NULL, false},
    {"null", SEQ(SPLIT_BY(L3, "Contiguous", "false") "," BYTES), IGNORE_MERGES, NULL, NULL, false},
    {NFC, SEQ(SPLIT(Q2) "," BYTES), 0, NULL, "qwen2", true},
    {NORM(NFC), SEQ(SEQ(SPLIT(Q2)) "," BYTES), 0, NULL, "qwen2", true},
    {NORM(""), BYTES_REGEX, 0, NULL, "gpt-2", false},
    {NFC, BYTES_REGEX, 0, NULL, "gpt-2", true},
    {"null", SEQ(SPLIT(G) "," BYTES), 0, NULL, "gpt-2", false},
    {"null", SEQ(DIGITS "," BYTES_REGEX), 0, NULL, "smollm", false},
    {"null", SEQ(SPLIT("\\\\p{N}") "," BYTES_REGEX), 0, NULL, "smollm", false},
    {"null", SEQ(SPLIT("\\\\d") "," BYTES_REGEX), 0, NULL, NULL,
     false}, /* only Nd, not Nl and No */
    {"null", SEQ("{\"type\":\"Digits\",\"individual_digits\":false}," BYTES_REGEX), 0, NULL, NULL,
     false},
    {"null", "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", 0, NULL, NULL, false},
    {"null", "{\"type\":\"ByteLevel\"}", 0, NULL, NULL, false}, /* the prefix is the default */
    {"{\"type\":\"Lowercase\"}", BYTES_REGEX, 0, NULL, NULL, false},
    {"{\"type\":\"Lowercase\"}", BYTES_REGEX, 0, "gpt-2", "gpt-2", false},
    {"null", SEQ(PUNCTUATION("Contiguous") "," BYTES_REGEX "," RUNS "," SPLIT("[0-9][0-9][0-9]")),
     0, NULL, "falcon", false},
    {"null", SEQ(PUNCTUATION("Isolated") "," BYTES_REGEX "," RUNS "," SPLIT("[0-9][0-9][0-9]")), 0,
     NULL, NULL, false},
    {"null", SEQ(SPLIT(TEKKEN) "," BYTES), IGNORE_MERGES, NULL, "tekken", false},
    {"null", SEQ(SPLIT(O200K) "," BYTES), 0, NULL, "gpt-4o", false},
    {"null", SEQ(SPLIT("\\\\p{N}{1,3}") "," SPLIT(HAN) "," SPLIT(DEEPSEEK3) "," BYTES), 0, NULL,
     "deepseek-v3", false},
    {"null", SEQ(SPLIT_BY(DEEPSEEK3, "Removed", "true") "," BYTES), 0, NULL, NULL, false},
    {"null", SEQ(CODER DIGITS "," BYTES), 0, NULL, "deepseek-coder", false},
    {"null", SEQ(CODER RUNS "," BYTES), 0, NULL, NULL, false},
    {"null", SEQ(SPLIT(BLOOM) "," BYTES), 0, NULL, "bloom", false},
    {"null", SEQ(SPLIT(BLOOM) "," DIGITS "," BYTES), 0, NULL, "viking", false},
    {"null", SEQ(SPLIT_BY(BLOOM, "Removed", "true") "," BYTES), 0, NULL, NULL, false},
    {"null", SEQ(SPLIT(POSSESSIVE("\\\\p{N}{1,3}")) "," BYTES), 0, NULL, "dbrx", false},
    {"null", SEQ(SPLIT(POSSESSIVE("\\\\p{N}")) "," BYTES), 0, NULL, "qwen2", false},
    {"null", SEQ(SEQ("") "," SEQ(SEQ(BYTES_REGEX))), 0, NULL, "gpt-2", false},
    {"null", SEQ(SPLIT_BY(G, "Isolated", "true") "," BYTES), 0, NULL, "gpt-2", false},
    {"null", SEQ(SPLIT_BY(G, "MergedWithPrevious", "false") "," BYTES), 0, NULL, NULL, false},
    {"null", SEQ(SPLIT_BY("\\\\p{N}", "Removed", "true") "," BYTES_REGEX), 0, NULL, NULL, false},
    {"null", SEQ(SPLIT(Q2 "\\u0000x") "," BYTES), 0, NULL, NULL, false}, /* a NUL ends nothing */
    {"null", SEQ(BYTES "," SPLIT(Q2)), 0, NULL, NULL, false}, /* sees the byte alphabet */
    {"null", SEQ(BYTES_REGEX "," DIGITS), 0, NULL, NULL, false},
    {"null", SEQ(SPLIT(Q2) "," BYTES_REGEX), 0, NULL, NULL, false},
    {"null", BYTES, 0, NULL, NULL, false}, /* no words at all */
    {"null", "null", 0, NULL, NULL, false},
    {"null", SEQ(BYTES_REGEX "," BYTES_REGEX), 0, NULL, NULL, false},
    {"null", SEQ(SPLIT(L3) "," BYTES), IGNORE_MERGES, "smaug-bpe", "smaug-bpe", false},
    {REPLACE, "null", 0, NULL, NULL, false}, /* SentencePiece's form without byte fallback */
};

static const struct {
    const char *normalizer, *pre_tokenizer;
    bool ok, prefix, words;
    const char *mode;
} spm[] = {
    {NORM(PREPEND "," REPLACE), "null", true, true, false, NULL},
    {REPLACE, "null", true, false, false, NULL},
    {NORM(REPLACE),
     "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"MergedWithPrevious\"}",
     true, false, false, NULL},
    {"null", META(",\"prepend_scheme\":\"always\",\"split\":false"), true, true, false,
     "metaspace"},
    {"null", META(",\"prepend_scheme\":\"first\",\"split\":false"), true, true, false,
     "metaspace-first"},
    {"null", META(",\"prepend_scheme\":\"never\",\"split\":false"), true, false, false, NULL},
    {"null", META(",\"add_prefix_space\":true"), true, true, true, "metaspace"},
    {"null", META(",\"add_prefix_space\":false"), true, false, true, NULL},
    {"null", META(",\"prepend_scheme\":\"sometimes\""), false, false, false, NULL},
    {"null", "{\"type\":\"Metaspace\",\"replacement\":\"_\"}", false, false, false, NULL},
    {NORM(PREPEND), "null", false, false, false, NULL},
    {NORM(PREPEND "," REPLACE), META(""), false, false, false, NULL},
    {NORM(NFC "," REPLACE), "null", false, false, false, NULL},
    {"null", "null", false, false, false, NULL},
};

typedef struct {
    json_t *norm, *pre;
    fy_pretok_input in;
} input;

static input load(const char *normalizer, const char *pre_tokenizer, int flags)
{
    input i = {.norm = fy_json_data(fy_span_of(normalizer), NULL),
               .pre = fy_json_data(fy_span_of(pre_tokenizer), NULL)};
    assert_non_null(i.norm);
    assert_non_null(i.pre);
    i.in = (fy_pretok_input){.normalizer = i.norm,
                             .pre_tokenizer = i.pre,
                             .byte_fallback = (flags & FALLBACK) != 0,
                             .ignore_merges = (flags & IGNORE_MERGES) != 0};
    return i;
}

static void unload(input *i)
{
    json_decref(i->norm);
    json_decref(i->pre);
}

static void byte_level_tokenizers_are_known_by_structure(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bpe / sizeof *bpe; i++) {
        input in = load(bpe[i].normalizer, bpe[i].pre_tokenizer, bpe[i].flags);
        fy_pretok p = {.pre = NULL};
        fy_err e = {0};
        int rc = fy_pretok_match(&in.in, bpe[i].force, &p, &e);
        if (rc != (bpe[i].pre != NULL ? 0 : -1) || (rc == 0 && strcmp(p.pre, bpe[i].pre) != 0))
            fail_msg("case %zu: %s (%s)", i, rc == 0 ? p.pre : "refused", e.msg);
        if (rc == 0)
            assert_true(p.kind == FY_TOKENIZER_BPE && p.nfc == bpe[i].nfc && !p.space_prefix);
        else
            assert_int_equal(e.code, FY_EUNSUPPORTED);
        unload(&in);
    }
}

static void sentencepiece_like_tokenizers_say_when_a_space_is_added(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof spm / sizeof *spm; i++) {
        input in = load(spm[i].normalizer, spm[i].pre_tokenizer, FALLBACK);
        fy_pretok p = {.pre = NULL};
        fy_err e = {0};
        int rc = fy_pretok_match(&in.in, NULL, &p, &e);
        if (rc != (spm[i].ok ? 0 : -1))
            fail_msg("case %zu: %s", i, e.msg);
        if (rc == 0) {
            assert_true(p.kind == FY_TOKENIZER_SPM && p.space_prefix == spm[i].prefix);
            assert_true(p.splits_words == spm[i].words);
            assert_string_equal(p.pre, "default");
            assert_string_equal(p.space_mode ? p.space_mode : "", spm[i].mode ? spm[i].mode : "");
        }
        unload(&in);
    }
}

static void an_unknown_structure_is_printed(void **state)
{
    (void)state;
    input in = load("{\"type\":\"Lowercase\"}", SEQ(SPLIT("a\\\\b\\u001b[1m") "," BYTES), 0);
    fy_pretok p;
    fy_err e = {0};
    assert_int_equal(fy_pretok_match(&in.in, NULL, &p, &e), -1);
    assert_non_null(strstr(e.msg,
                           "normalizer: Lowercase; pre_tokenizer: Split(pattern=\"a\\\\b\\x1b[1m\","
                           "behavior=\"Isolated\",invert=false) + ByteLevel(add_prefix_space=false,"
                           "use_regex=false)"));
    assert_non_null(strstr(e.msg, "--pre NAME"));
    unload(&in);
}

/* The nearest known type, and the first difference on a text that has a bit of everything. */
static void an_unknown_structure_is_tried_beside_the_known_ones(void **state)
{
    (void)state;
    static const struct {
        const char *pre_tokenizer, *expected;
    } cases[] = {
        {SEQ(SPLIT("\\\\p{N}{1,4}|\\\\p{L}+|[^\\\\p{L}\\\\p{N}]") "," BYTES), "nearest is "},
        {SEQ(RUNS "," BYTES_REGEX),
         "nearest is gpt-2, then smollm: \" 12345\" -> \" \" \"12345\" instead of \" 12345\""},
        {"{\"type\":\"ByteLevel\",\"add_prefix_space\":true}",
         "nearest is gpt-2, then smollm: \"it\" -> \" it\" instead of \"it\""},
        {SEQ(SPLIT_BY(L3, "Removed", "false") "," BYTES), "-> nothing instead of"},
        {SEQ(SPLIT_BY(" ", "MergedWithNext", "false") "," BYTES), "nearest is bloom, then gpt-4o: "},
        {SEQ(SPLIT_BY(" ", "MergedWithPrevious", "false") "," BYTES), "\"it's \""},
        {SEQ(SPLIT_BY("\\\\p{N}", "Contiguous", "false") "," BYTES_REGEX),
         " -> \" \" \"12345\" instead of "},
        {SEQ(SPLIT("(?=(\\\\d{3})+(?!\\\\d))") "," BYTES_REGEX), " -> \" 12\" \"345\" instead of "},
        {SEQ(SPLIT("\\\\p{N}") "," SPLIT(Q2) "," BYTES), "cuts the probe text alike"},
        {SEQ("{\"type\":\"WhitespaceSplit\"}," BYTES_REGEX), "-> \"'s\" \"12345\""},
        {SEQ("{\"type\":\"Whitespace\"}," BYTES_REGEX), "nearest is "},
        {SEQ(PUNCTUATION("Isolated") "," BYTES_REGEX), "nearest is "},
        {SEQ("{\"type\":\"BertPreTokenizer\"}," BYTES_REGEX),
         "cannot be tried (a step BertPreTokenizer)"},
        {"null", "cannot be tried (no ByteLevel"},
        {SEQ(BYTES "," DIGITS), "cannot be tried (a step after ByteLevel)"},
        {SEQ(SPLIT("(") "," BYTES), "cannot be tried (PCRE2 cannot compile the pattern '('"},
        {SEQ(SPLIT("[a&&b]") "," BYTES), "cannot be tried (a pattern with a class in a class)"},
        {SEQ(SPLIT("(((a{1,999}){1,999}){1,999}){1,999}") "," BYTES), "too large"},
        {SEQ(SPLIT("(.*)*$(?<!x)(x+x+)+y") "," BYTES), "too much work"},
        {SEQ(SPLIT("(?R)*a|(?:(?=.*)*)*b") "," BYTES), "unknown tokenizer structure"},
        {SEQ(SPLIT_BY("a", "Sometimes", "false") "," BYTES), "a behavior of an unknown name"},
        {SEQ("{\"type\":\"Split\",\"pattern\":{\"String\":\"(\"},\"behavior\":\"Isolated\"}"
             "," BYTES_REGEX),
         "nearest is gpt-2"},
        {SEQ("{\"type\":\"Split\",\"pattern\":7,\"behavior\":\"Isolated\"}," BYTES),
         "without a pattern"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        input in = load("null", cases[i].pre_tokenizer, 0);
        fy_pretok p;
        fy_err e = {0};
        assert_int_equal(fy_pretok_match(&in.in, NULL, &p, &e), -1);
        assert_int_equal(e.code, FY_EUNSUPPORTED);
        if (strstr(e.msg, cases[i].expected) == NULL || strstr(e.msg, "; --pre ") == NULL)
            fail_msg("case %zu: %s", i, e.msg);
        unload(&in);
    }
}

static void a_long_structure_leaves_room_for_the_remedy(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_str_puts(&s, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < 15; i++)
        fy_str_printf(&s,
                      "%s{\"type\":\"\xC3\xA9t\xC3\xA9-%"
                      "02d\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\"}",
                      i > 0 ? "," : "", i);
    fy_str_puts(&s, "]}");
    input in = load("null", fy_str_z(&s), 0);
    fy_pretok p;
    fy_err e = {0};
    assert_int_equal(fy_pretok_match(&in.in, NULL, &p, &e), -1);
    assert_non_null(strstr(e.msg, "..."));
    assert_non_null(strstr(e.msg, "--pre NAME forces one"));
    unload(&in);
    fy_str_release(&s);
}

static void malformed_steps_are_refused(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "[]",
        "3",
        "{\"type\":\"Sequence\"}",
        "{\"type\":\"Sequence\",\"pretokenizers\":[1]}",
        "{}",
        "{\"type\":7}",
        "{\"type\":\"Split\",\"pattern\":[],\"behavior\":3}",
        SEQ("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}"),
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        input in = load("null", broken[i], FALLBACK);
        fy_pretok p;
        fy_err e = {0};
        assert_int_equal(fy_pretok_match(&in.in, NULL, &p, &e), -1);
        assert_true(e.code == FY_EFORMAT || e.code == FY_EUNSUPPORTED);
        unload(&in);
    }
}

static void forcing_makes_no_sense_for_sentencepiece(void **state)
{
    (void)state;
    input in = load(REPLACE, "null", FALLBACK);
    fy_pretok p;
    fy_err e = {0};
    assert_int_equal(fy_pretok_match(&in.in, "gpt-2", &p, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    unload(&in);
}

static void a_decoder_may_strip_a_space_that_encoding_does_not_add(void **state)
{
    (void)state;
    static const struct {
        const char *normalizer, *decoder;
        bool strips;
    } cases[] = {
        {REPLACE, DECODER(STRIP("1")), true},
        {REPLACE, STRIP("1"), true},
        {REPLACE, DECODER(STRIP("0")), false},
        {REPLACE, DECODER("{\"type\":\"Fuse\"}"), false},
        {REPLACE, "null", false},
        {NORM(PREPEND "," REPLACE), DECODER(STRIP("1")), false}, /* as add_space_prefix says */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        input in = load(cases[i].normalizer, "null", FALLBACK);
        json_t *decoder = fy_json_data(fy_span_of(cases[i].decoder), NULL);
        fy_pretok p;
        fy_err e = {0};
        assert_non_null(decoder);
        in.in.decoder = decoder;
        assert_int_equal(fy_pretok_match(&in.in, NULL, &p, &e), 0);
        if (p.strips_space != cases[i].strips)
            fail_msg("case %zu", i);
        json_decref(decoder);
        unload(&in);
    }
}

static void without_tokenizer_json_the_class_stands_for_the_structure(void **state)
{
    (void)state;
    static const struct {
        const char *class, *model_type, *force, *pre; /* pre NULL: refused */
        bool nfc;
    } cases[] = {
        {"GPT2Tokenizer", "opt", NULL, "gpt-2", false},
        {"GPT2TokenizerFast", NULL, NULL, "gpt-2", false},
        {"CodeGenTokenizer", NULL, NULL, "gpt-2", false},
        {"Qwen2Tokenizer", "gpt2", NULL, "qwen2", true},
        {"ChatGLM4Tokenizer", NULL, NULL, "chatglm-bpe", false},
        {"Qwen2Tokenizer", "qwen2", "dbrx", "dbrx", true},
        {NULL, "opt", NULL, "gpt-2", false},
        {NULL, "qwen3", NULL, "qwen2", true},
        {NULL, "qwen3Fast", NULL, NULL, false},
        {"Fast", NULL, NULL, NULL, false},
        {"", NULL, NULL, NULL, false},
        {"OtherTokenizer", "opt", NULL, NULL, false},
        {"PreTrainedTokenizerFast", "llama4", NULL, "llama4", false},
        {"TokenizersBackend", "opt", NULL, "gpt-2", false},
        {"PreTrainedTokenizerFast", NULL, NULL, NULL, false},
        {"TikTokenTokenizer", NULL, NULL, "kimi-k2", false},
        {"OtherTokenizer", "opt", "smollm", "smollm", false},
        {NULL, NULL, NULL, NULL, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_pretok p = {.pre = NULL};
        fy_err e = {0};
        int rc =
            fy_pretok_of_class(cases[i].class, cases[i].model_type, cases[i].force, NULL, &p, &e);
        if (rc != (cases[i].pre != NULL ? 0 : -1) ||
            (rc == 0 && (strcmp(p.pre, cases[i].pre) != 0 || p.nfc != cases[i].nfc)) ||
            (rc != 0 && e.code != FY_EUNSUPPORTED))
            fail_msg("case %zu: %s (%s)", i, rc == 0 ? p.pre : "refused", e.msg);
    }
}

/* Tokens that a rule would have cut apart were not made with it. */
static void a_vocabulary_names_the_types_that_fit_it(void **state)
{
    (void)state;
    static const struct {
        const char *token, *fit;
    } cases[] = {
        {"a", "; the tokens fit "},
        {"camelCase", "; the tokens fit chameleon best"},
        {".\xC4\x8A", "; the tokens fit "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_token_table t = {0};
        fy_pretok p;
        fy_err e = {0};
        assert_int_equal(fy_token_table_put(&t, 0, fy_span_of(cases[i].token), false, &e), 0);
        assert_int_equal(fy_pretok_of_class("OtherTokenizer", NULL, NULL, &t, &p, &e), -1);
        if (strstr(e.msg, cases[i].fit) == NULL)
            fail_msg("%s: %s", cases[i].token, e.msg);
        fy_token_table_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_tokenizers_are_known_by_structure),
        cmocka_unit_test(sentencepiece_like_tokenizers_say_when_a_space_is_added),
        cmocka_unit_test(an_unknown_structure_is_printed),
        cmocka_unit_test(an_unknown_structure_is_tried_beside_the_known_ones),
        cmocka_unit_test(a_long_structure_leaves_room_for_the_remedy),
        cmocka_unit_test(malformed_steps_are_refused),
        cmocka_unit_test(forcing_makes_no_sense_for_sentencepiece),
        cmocka_unit_test(a_decoder_may_strip_a_space_that_encoding_does_not_add),
        cmocka_unit_test(without_tokenizer_json_the_class_stands_for_the_structure),
        cmocka_unit_test(a_vocabulary_names_the_types_that_fit_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
