/* The known pre-tokenizers: values of tokenizer.ggml.pre and their patterns. */
#include "model/vocab/pretok.h"

/* clang-format off */
#define FOLDED "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BLANKS "\\s+(?!\\S)|\\s+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" BLANKS
/* MARKS: combining marks are letters. */
#define LLAMA3(LETTERS, DIGITS, MARKS)                                                         \
    FOLDED "|[^\\r\\n\\p{L}\\p{N}]?" LETTERS "|" DIGITS                                        \
    "| ?[^\\s\\p{L}" MARKS "\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" BLANKS
#define LARGE "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
/* Words end where a capital follows a small letter: o200k, tekken made of it, and Kimi's. */
#define CASED(UPPER, LOWER, SUFFIX, DIGITS, ENDS)                                              \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" SUFFIX                                        \
    "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" SUFFIX                                       \
    "|" DIGITS "| ?[^\\s\\p{L}\\p{N}]+[" ENDS "]*|\\s*[\\r\\n]+|" BLANKS
/* By Script, as tiktoken reads \p{Han}; PCRE2 would read Script_Extensions. */
#define HAN          "\\p{sc:Han}"
#define NO_HAN(SET)  "(?:(?!" HAN ")" SET ")"
#define DEEPSEEK3                                                                              \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"                                    \
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"                  \
    "|\\s*[\\r\\n]+|" BLANKS
/* U+4E00-9FA5, U+3040-309F, U+30A0-30FF */
#define HAN_KANA "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+"
/* U+4E00-9FA5, U+0800-4E00, U+AC00-D7FF */
#define EAST_ASIAN "[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF" \
    "]+"
#define BLOOM " ?[^(\\s|.,!?\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81\xE0\xA5\xA4" \
    "\xDB\x94\xD8\x8C)]+"
/* Letters with case, of Unicode 11. */
#define CASED_LETTERS                                                                          \
    "A-Za-z\xC2\xB5\xC3\x80-\xC3\x96\xC3\x98-\xC3\xB6\xC3\xB8-\xC6\xBA"                        \
    "\xC6\xBC-\xC6\xBF\xC7\x84-\xCA\x93\xCA\x95-\xCA\xAF\xCD\xB0-\xCD\xB3"                     \
    "\xCD\xB6\xCD\xB7\xCD\xBB-\xCD\xBD\xCD\xBF\xCE\x86\xCE\x88-\xCE\x8A"                       \
    "\xCE\x8C\xCE\x8E-\xCE\xA1\xCE\xA3-\xCF\xB5\xCF\xB7-\xD2\x81\xD2\x8A-"                     \
    "\xD4\xAF\xD4\xB1-\xD5\x96\xE1\x82\xA0-\xE1\x83\x85\xE1\x8E\xA0-"                          \
    "\xE1\x8F\xB5\xE1\x8F\xB8-\xE1\x8F\xBD\xE1\xB2\x90-\xE1\xB2\xBA"                           \
    "\xE1\xB2\xBD-\xE1\xB2\xBF\xE1\xB4\x80-\xE1\xB4\xAB\xE1\xB5\xAB-"                          \
    "\xE1\xB5\xB7\xE1\xB5\xB9-\xE1\xB6\x9A\xE1\xB8\x80-\xE1\xBC\x95"                           \
    "\xE1\xBC\x98-\xE1\xBC\x9D\xE1\xBC\xA0-\xE1\xBD\x85\xE1\xBD\x88-"                          \
    "\xE1\xBD\x8D\xE1\xBD\x90-\xE1\xBD\x97\xE1\xBD\x99\xE1\xBD\x9B"                            \
    "\xE1\xBD\x9D\xE1\xBD\x9F-\xE1\xBD\xBD\xE1\xBE\x80-\xE1\xBE\xB4"                           \
    "\xE1\xBE\xB6-\xE1\xBE\xBC\xE1\xBE\xBE\xE1\xBF\x82-\xE1\xBF\x84"                           \
    "\xE1\xBF\x86-\xE1\xBF\x8C\xE1\xBF\x90-\xE1\xBF\x93\xE1\xBF\x96-"                          \
    "\xE1\xBF\x9B\xE1\xBF\xA0-\xE1\xBF\xAC\xE1\xBF\xB2-\xE1\xBF\xB4"                           \
    "\xE1\xBF\xB6-\xE1\xBF\xBC\xE2\x84\x82\xE2\x84\x87\xE2\x84\x8A-"                           \
    "\xE2\x84\x93\xE2\x84\x95\xE2\x84\x99-\xE2\x84\x9D\xE2\x84\xA4"                            \
    "\xE2\x84\xA6\xE2\x84\xA8\xE2\x84\xAA-\xE2\x84\xAD\xE2\x84\xAF-"                           \
    "\xE2\x84\xB4\xE2\x84\xB9\xE2\x84\xBC-\xE2\x84\xBF\xE2\x85\x85-"                           \
    "\xE2\x85\x89\xE2\x85\x8E\xE2\x86\x83\xE2\x86\x84\xE2\xB0\x80-"                            \
    "\xE2\xB1\xBB\xE2\xB1\xBE-\xE2\xB3\xA4\xE2\xB3\xAB-\xE2\xB3\xAE"                           \
    "\xE2\xB3\xB2\xE2\xB3\xB3\xEA\x99\x80-\xEA\x99\xAD\xEA\x9A\x80-"                           \
    "\xEA\x9A\x9B\xEA\x9C\xA2-\xEA\x9D\xAF\xEA\x9D\xB1-\xEA\x9E\x87"                           \
    "\xEA\x9E\x8B-\xEA\x9E\x8E\xEA\xAD\xB0-\xEA\xAE\xBF\xEF\xAC\x80-"                          \
    "\xEF\xAC\x86\xEF\xAC\x93-\xEF\xAC\x97\xEF\xBC\xA1-\xEF\xBC\xBA"                           \
    "\xEF\xBD\x81-\xEF\xBD\x9A\xF0\x90\x90\x80-\xF0\x90\x91\x8F"                               \
    "\xF0\x90\x92\xB0-\xF0\x90\x93\x93\xF0\x90\x93\x98-\xF0\x90\x93\xBB"                       \
    "\xF0\x90\xB2\x80-\xF0\x90\xB2\xB2\xF0\x90\xB3\x80-\xF0\x90\xB3\xB2"                       \
    "\xF0\x91\xA2\xA0-\xF0\x91\xA3\x9F\xF0\x9E\xA4\x80-\xF0\x9E\xA5\x83"
/* ASCII and full-width punctuation, quotation marks, CJK punctuation. */
#define DEEPSEEK_MARKS "!-/:-~\xEF\xBC\x81-\xEF\xBC\x8F\xEF\xBC\x9A-\xEF\xBD\x9E\xE2\x80\x98-" \
    "\xE2\x80\x9F\xE3\x80\x80-\xE3\x80\x82"

#define MARK "[\\p{P}$+<=>^~|`]"

const char fy_pretok_gpt2[] = GPT2, fy_pretok_mark[] = MARK;

const fy_pretok_rule fy_pretok_rules[] = {
    {"gpt-2", "phi-2 mpt olmo jais jina-es jina-de roberta-bpe exaone4 modern-bert gigachat "
     "a.x-4.0 trillion granite-docling",
     {GPT2}, false, false, true, 0},
    {"llama-bpe", "llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
     {LLAMA3("\\p{L}+", "\\p{N}{1,3}", "")}, true, true, true, 0},
    {"dbrx", "smaug-bpe glm4 chatglm-bpe",
     {LLAMA3("\\p{L}+", "\\p{N}{1,3}", "")}, false, false, true, 0},
    {"qwen2", "deepseek-r1-qwen megrez stablelm2 hunyuan kormo grok-2 solar-open "
     "bailingmoe bailingmoe2 llada-moe",
     {LLAMA3("\\p{L}+", "\\p{N}", "")}, false, false, true, 0},
    {"smollm", "starcoder refact command-r codeshell exaone minerva-7b mellum2",
     {"\\p{N}", GPT2}, false, false, true, 0},
    /* Its last steps come after ByteLevel and see the byte alphabet: the bytes that are spelled
     * as superscripts and fractions are digits to them. */
    {"falcon", "",
     {MARK "+", GPT2, "[0-9\xB2\xB3\xB9\xBC-\xBE]+", "[0-9][0-9][0-9]"}, false, false, false, 2},
    {"tekken", "",
     {CASED(LARGE, SMALL, "", "\\p{N}", "\\r\\n/")}, true, true, true, 0},
    {"gpt-4o", "llama4 kanana2 minimax-m2",
     {CASED(LARGE, SMALL, FOLDED "?", "\\p{N}{1,3}", "\\r\\n/")}, false, false, true, 0},
    {"kimi-k2", "",
     {HAN "+|" CASED(NO_HAN(LARGE), NO_HAN(SMALL), FOLDED "?", "\\p{N}{1,3}", "\\r\\n")},
     false, false, true, 0},
    {"deepseek-v3", "hunyuan-dense joyai-llm",
     {"\\p{N}{1,3}", HAN_KANA, DEEPSEEK3}, false, false, false, 0},
    {"deepseek-llm", "",
     {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+", "\\s?[" DEEPSEEK_MARKS "]+", "\\s+$", EAST_ASIAN,
      "\\p{N}"}, false, false, false, 0},
    {"deepseek-coder", "",
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", EAST_ASIAN, "\\p{N}"}, false, false, false, 0},
    {"qwen35", "",
     {LLAMA3("[\\p{L}\\p{M}]+", "\\p{N}", "\\p{M}")}, false, false, true, 0},
    {"bloom", "poro-chat gpt3-finnish",
     {BLOOM}, false, false, false, 0},
    {"viking", "",
     {BLOOM, "\\p{N}"}, false, false, false, 0},
    {"minicpm5", "",
     {"\\p{N}{1,3}", LLAMA3("\\p{L}+", "\\p{N}+", "")}, true, false, true, 0},
    {"seed-coder", "",
     {FOLDED "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+"
      "|\\s*[\\r\\n]+|" BLANKS}, false, false, true, 0},
    {"chameleon", "",
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
      "[\\p{P}!-/:-@\\[-`{-~]", GPT2}, false, false, false, 0},
};
const size_t fy_pretok_n_rules = sizeof fy_pretok_rules / sizeof fy_pretok_rules[0];
/* clang-format on */
