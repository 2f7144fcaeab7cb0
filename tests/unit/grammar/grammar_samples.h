/* Grammars for tests: of the kinds that llama.cpp ships (its grammars/ directory), written here. */
#ifndef FY_TESTS_GRAMMAR_SAMPLES_H
#define FY_TESTS_GRAMMAR_SAMPLES_H

#include <string.h>

#include "grammar/grammar.h"

#define JSON_RULES                                                                        \
    "object ::= \"{\" ws (member (\",\" ws member)*)? \"}\" ws\n"                         \
    "member ::= string \":\" ws value\n"                                                  \
    "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"                            \
    "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n" \
    "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" "  \
    "[0-9a-fA-F]{4}))* \"\\\"\" ws\n"                                                     \
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]+)? ([eE] [-+]? [0-9] "    \
    "[1-9]{0,15})? ws\n"                                                                  \
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n"

static const char sample_json[] = "root ::= object\n" JSON_RULES;
static const char sample_json_arr[] =
    "root ::= \"[\\n\" (value (\",\\n\" value)*)? \"]\"\n" JSON_RULES;
static const char sample_arithmetic[] = "root ::= (expr \"=\" ws term \"\\n\")+\n"
                                        "expr ::= term ([-+*/] ws term)*\n"
                                        "term ::= ident | num | \"(\" ws expr \")\" ws\n"
                                        "ident ::= [a-z] [a-z0-9_]* ws\n"
                                        "num ::= [0-9]+ ws\n"
                                        "ws ::= [ \\t\\n]*\n";
static const char sample_chess[] = "# moves of a game\n"
                                   "root ::= (\n  \"1. \" move \" \" move \"\\n\"\n"
                                   "  ([1-9] [0-9]? \". \" move \" \" move \"\\n\")+\n)\n"
                                   "move ::= (pawn | piece | castle) [+#]?\n"
                                   "piece ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
                                   "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\n"
                                   "castle ::= \"O-O\" \"-O\"?\n";
static const char sample_list[] =
    "root ::= item+\n"
    "# another way to write [^\\n]\n"
    "item ::= \"- \" [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\"\n";
static const char sample_japanese[] = "root ::= jp-char+ ([ \\t\\n] jp-char+)*\n"
                                      "jp-char ::= hiragana | katakana | punctuation | cjk\n"
                                      "hiragana ::= [ぁ-ゟ]\nkatakana ::= [ァ-ヿ]\npunctuation ::= "
                                      "[、-〾]\ncjk ::= [一-鿿]\n";
static const char sample_english[] =
    "root ::= en-char+ ([ \\t\\n] en-char+)*\n"
    "en-char ::= letter | digit | punctuation\nletter ::= [a-zA-Z]\ndigit ::= [0-9]\n"
    "punctuation ::= [!\"#$%&'()*+,-./:;<=>?@[\\\\\\]^_`{|}~]\n";
static const char sample_c[] =
    "root ::= (declaration)*\n"
    "declaration ::= type ident \"(\" parameter? \")\" \"{\" statement* \"}\"\n"
    "type ::= \"int\" ws | \"float\" ws | \"char\" ws\n"
    "ident ::= [a-zA-Z_] [a-zA-Z_0-9]*\n"
    "parameter ::= type ident\n"
    "statement ::= type ident ws \"=\" ws sum \";\" | ident ws \"=\" ws sum \";\" |\n"
    "  ident ws \"(\" list? \")\" \";\" | \"return\" ws sum \";\" |\n"
    "  \"while\" \"(\" test \")\" \"{\" statement* \"}\" | \"if\" \"(\" test \")\" \"{\" "
    "statement* "
    "\"}\" (\"else\" \"{\" statement* \"}\")?\n"
    "test ::= sum (\"<=\" | \"<\" | \"==\" | \"!=\" | \">=\" | \">\") sum\n"
    "sum ::= term ((\"+\" | \"-\") term)*\n"
    "term ::= factor ((\"*\" | \"/\") factor)*\n"
    "factor ::= ident | number | \"-\" factor | ident \"(\" list? \")\" | \"(\" sum \")\"\n"
    "list ::= sum (\",\" ws sum)*\n"
    "number ::= [0-9]+\n"
    "ws ::= [ \\t\\n]+\n";

static const char *const samples[] = {sample_json, sample_json_arr, sample_arithmetic, sample_chess,
                                      sample_list, sample_japanese, sample_english,    sample_c};
enum { N_SAMPLES = sizeof samples / sizeof samples[0] };

static inline fy_grammar *grammar_of(const char *gbnf, fy_err *e)
{
    return fy_grammar_gbnf((fy_span){gbnf, strlen(gbnf)}, e);
}

/* 2: the text is whole; 1: more may follow; 0: it does not fit. */
static inline int verdict(fy_grammar *g, const char *text, size_t n)
{
    fy_err e = {0};
    fy_matcher *m = fy_matcher_new(g, NULL, &e);
    int v = m == NULL || fy_matcher_accept_text(m, (fy_span){text, n}, &e) != 0 ? 0 : 1;
    v += v == 1 && fy_matcher_may_end(m);
    fy_matcher_free(m);
    return v;
}

#endif
