/* GBNF: what it means, held against POSIX regular expressions and lists of texts; what is refused,
 * and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/grammar/grammar_samples.h"

#include "tests/unit/alloc_fail.h"

static fy_grammar *made(const char *gbnf)
{
    fy_err e = {0};
    fy_grammar *g = grammar_of(gbnf, &e);
    if (g == NULL)
        fail_msg("%s\n%s", gbnf, e.msg);
    return g;
}

static void expect(const char *gbnf, const char *text, int want)
{
    fy_grammar *g = made(gbnf);
    const int got = verdict(g, text, strlen(text));
    if (got != want)
        fail_msg("'%s' under %s: verdict %d, expected %d", text, gbnf, got, want);
    fy_grammar_free(g);
}

/* --- against regular expressions --- */

static void counts_classes_and_groups_mean_what_regular_expressions_mean(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"root ::= \"a\"", "^a$"},
        {"root ::= \"a\"*", "^a*$"},
        {"root ::= \"a\"+ \"b\"?", "^a+b?$"},
        {"root ::= \"ab\"*", "^(ab)*$"},
        {"root ::= (\"a\" | \"bc\"){2}", "^(a|bc){2}$"},
        {"root ::= (\"a\" | \"b\" \"c\"){2,}", "^(a|bc){2,}$"},
        {"root ::= [ab]{,3}", "^[ab]{0,3}$"},
        {"root ::= [ab]{1,3} \"c\"", "^[ab]{1,3}c$"},
        {"root ::= [ab]{0} \"c\"", "^c$"},
        {"root ::= ([ab] [c]?){2,3}", "^([ab]c?){2,3}$"},
        {"root ::= [^a]+", "^[^a]+$"},
        {"root ::= [^a-b] .", "^[^ab].$"},
        {"root ::= . . .", "^...$"},
        {"root ::= x y x\nx ::= | \"a\"\nz ::= \"c\"\ny ::= z* \"b\"", "^a?c*ba?$"},
        {"root ::= ((\"a\"? \"b\")* \"c\")+", "^((a?b)*c)+$"},
        {"root ::= (\"a\"*)*", "^(a*)*$"},
        {"root ::= (\"a\" | )+ \"b\"", "^(a)*b$"},
        {"root ::= \"a\"{2}{2}", "^aaaa$"},
        {"root ::= (\"a\"?){3}", "^a{0,3}$"},
        {"root ::= \"\" \"a\" \"\"", "^a$"},
        {"root ::= [a-]+", "^[a-]+$"},
        {"root ::= [b-ca]+", "^[abc]+$"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_grammar *g = made(cases[i][0]);
        regex_t re;
        assert_int_equal(regcomp(&re, cases[i][1], REG_EXTENDED | REG_NOSUB), 0);
        for (int n = 0; n <= 6; n++) {
            unsigned total = 1;
            for (int k = 0; k < n; k++)
                total *= 4;
            for (unsigned code = 0; code < total; code++) {
                char text[8] = {0};
                unsigned rest = code;
                for (int k = 0; k < n; k++, rest /= 4)
                    text[k] = "abc-"[rest % 4];
                const bool want = regexec(&re, text, 0, NULL, 0) == 0;
                if ((verdict(g, text, (size_t)n) == 2) != want)
                    fail_msg("%s: '%s', the regular expression says %d", cases[i][0], text, want);
            }
        }
        regfree(&re);
        fy_grammar_free(g);
    }
}

static void the_usual_grammars_take_the_texts_they_are_for(void **state)
{
    (void)state;
    static const struct {
        const char *gbnf, *text;
        int want;
    } cases[] = {
        {sample_json, "{\"a\":1, \"b\": [true, null,\n  \"x\\u00e9\\n\"]}", 2},
        {sample_json, "{\"a\":-0.5e+1}", 2},
        {sample_json, "{\"a\":", 1},
        {sample_json, "{\"a\":01}", 0},
        {sample_json, "[1]", 0},
        {sample_json, "{\"\xC3\xA9\": \"\xF0\x9F\x98\x80\"}", 2},
        {sample_json, "{\"\xC3\"", 0},
        {sample_json_arr, "[\n1,\n{\"a\": []}]", 2},
        {sample_arithmetic, "x + 12*(y-3) = 4\nz=1\n", 2},
        {sample_arithmetic, "(((a=", 0},
        {sample_chess, "1. e4 e5\n2. Nf3 Nc6\n3. O-O exd8=Q+\n", 2},
        {sample_chess, "1. e4 e9\n", 0},
        {sample_list, "- one\n- two \xE2\x82\xAC\n", 2},
        {sample_list, "- one\xE2\x80\xA8", 0},
        {sample_japanese, "\xE3\x81\x82\xE6\xBC\xA2 \xE3\x82\xAB", 2},
        {sample_japanese,
         "\xE3\x81\x82"
         "a",
         0},
        {sample_japanese, "\xE3\x81", 1},
        {sample_english, "Hello, world [ok]\\", 2},
        {sample_english, "caf\xC3\xA9", 0},
        {sample_c, "int f(char c){x =1+2*g(3, 4);while(a<=b){return -1;}}", 0},
        {sample_c, "int f(char c){x = 1+2*g(3, 4);while(a<=b){return -1;}}", 2},
        {sample_c, "int f(){if(a==1){}else{f (2);}}float g(){}", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(cases[i].gbnf, cases[i].text, cases[i].want);
}

static void escapes_are_characters(void **state)
{
    (void)state;
    expect("root ::= \"\\x41\\u00e9\\U0001F600\\n\\t\\r\\\"\\\\\\[\\]\\-\"",
           "A\xC3\xA9\xF0\x9F\x98\x80\n\t\r\"\\[]-", 2);
    expect("root ::= \"\\xe9\"", "\xC3\xA9", 2); /* a character, not a byte */
    expect("root ::= [\\x00-\\x1f]", "\x1f", 2);
    expect("root ::= [\\]\\-\\\\]+", "]-\\", 2);
    expect("root ::= [\xC3\xA9-\xC3\xAB]", "\xC3\xAA", 2);
    expect("root ::= [^\xC3\xA9]", "\xC3\xA9", 0);
    fy_grammar *g = made("root ::= \"\\x00\" .");
    assert_int_equal(verdict(g, "\0\0", 2), 2);
    fy_grammar_free(g);
}

static void a_class_matches_exactly_its_characters(void **state)
{
    (void)state;
    static const struct {
        const char *gbnf;
        uint32_t lo, hi;
    } cases[] = {
        {"root ::= .", 0, 0x10FFFF},
        {"root ::= [\\u07f0-\\u0810]", 0x7F0, 0x810},
        {"root ::= [\\x7f-\\u0080]", 0x7F, 0x80},
        {"root ::= [\\u0fff-\\U00010001]", 0xFFF, 0x10001},
        {"root ::= [\\u3041-\\uffff]", 0x3041, 0xFFFF},
        {"root ::= [\\U0010ffff]", 0x10FFFF, 0x10FFFF},
        {"root ::= [^\\x00-\\ud7ff\\U00010000-\\U0010ffff]", 0xE000, 0xFFFF},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_grammar *g = made(cases[i].gbnf);
        fy_err e = {0};
        fy_matcher *m = fy_matcher_new(g, NULL, &e);
        for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
            fy_str s = {0};
            if (cp >= 0xD800 && cp <= 0xDFFF)
                continue;
            fy_str_put_utf8(&s, cp);
            fy_matcher_reset(m);
            const bool got = fy_matcher_accept_text(m, (fy_span){s.ptr, s.len}, NULL) == 0;
            fy_str_release(&s);
            if (got != (cp >= cases[i].lo && cp <= cases[i].hi))
                fail_msg("%s: U+%04X gives %d", cases[i].gbnf, cp, got);
        }
        /* overlong forms, surrogates and what is above the last character */
        static const char *const bad[] = {"\xC0\x80",     "\xE0\x80\x80", "\xED\xA0\x80",
                                          "\xF0\x80\x80", "\xF4\x90",     "\xF5",
                                          "\x80",         "\xFF"};
        for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
            fy_matcher_reset(m);
            assert_int_not_equal(fy_matcher_accept_text(m, fy_span_of(bad[k]), NULL), 0);
        }
        fy_matcher_free(m);
        fy_grammar_free(g);
    }
}

static void lines_and_comments_are_read_as_llama_cpp_reads_them(void **state)
{
    (void)state;
    expect("# first\n\n  root ::= # what\n  \"a\" |  # or\n  \"b\" # end\n\nx ::= \"c\"", "b", 2);
    expect("root ::= (\n \"a\"\n | \"b\"\n)\r\n", "b", 2);
    expect("root ::= \"a\" |", "", 2);
    expect("a-b_9 ::= \"x\"\nroot ::= a-b_9", "x", 2);
}

/* --- what is refused --- */

static void refused(const char *gbnf, fy_code code, const char *message)
{
    fy_err e = {0};
    fy_grammar *g = grammar_of(gbnf, &e);
    if (g != NULL)
        fail_msg("taken: %s", gbnf);
    if (strcmp(e.msg, message) != 0 || e.code != code)
        fail_msg("%s\nsays:     %s (%d)\nexpected: %s (%d)", gbnf, e.msg, e.code, message, code);
}

static void errors_say_line_and_column(void **state)
{
    (void)state;
    const fy_code f = FY_EFORMAT;
    refused("", f, "there is no rule 'root', where every grammar begins");
    refused("a ::= \"b\"", f, "there is no rule 'root', where every grammar begins");
    refused("root", f,
            "line 1, column 5: found the end of the text, expected '::=' after the name "
            "of a rule");
    refused("root ::= \"a", f,
            "line 1, column 12: found the end of the text, expected the closing "
            "'\"' of a text");
    refused("root ::= [a", f,
            "line 1, column 12: found the end of the text, expected the closing "
            "']' of a class");
    refused("root ::= (\"a\"", f,
            "line 1, column 14: found the end of the text, expected a symbol, "
            "'|' or ')'");
    refused("root ::= \"a\")", f,
            "line 1, column 13: found ')', expected a symbol, '|' or the end "
            "of the line");
    refused("root ::= *", f,
            "line 1, column 10: found '*', expected a symbol before the repetition");
    refused("root ::= \"a\"\n  | \"b\"", f,
            "line 2, column 3: found '|', expected the name of a "
            "rule: letters, digits, '-' and '_'");
    refused("root ::= x\n\ny ::= \xC3\xA9", f,
            "line 3, column 7: found '\xC3\xA9', expected a symbol, "
            "'|' or the end of the line");
    refused("root ::= \"\xC3\xA9\" x", f, "line 1, column 14: rule 'x': is used but not defined");
    refused("root ::= \"a\"\nroot ::= \"b\"", f, "line 2, column 1: rule 'root': is defined twice");
    refused("root ::= \"a\"{5,2}", f, "line 1, column 14: found {n,m} with n larger than m");
    refused("root ::= \"a\"{,}", f,
            "line 1, column 15: found '}', expected a count, as {2}, {2,}, "
            "{,5} or {2,5}");
    refused("root ::= \"a\"{2", f,
            "line 1, column 15: found the end of the text, expected ',' or "
            "'}' in a count");
    refused("root ::= \"\\q\"", f,
            "line 1, column 12: found 'q', expected one of n t r x u U \\ \" "
            "[ ] - after a backslash");
    refused("root ::= \"\\xg0\"", f,
            "line 1, column 13: found 'g', expected two hexadecimal digits "
            "after \\x");
    refused("root ::= \"\\ud800\"", f,
            "line 1, column 11: found an escape for no character, "
            "expected at most \\U0010FFFF and no surrogate (D800 to DFFF)");
    refused("root ::= \"\xFF\"", f, "line 1, column 11: found a byte that is not UTF-8");
    refused("root ::= []", f, "line 1, column 10: found a class without characters");
    refused("root ::= [^\\x00-\\U0010FFFF]", f,
            "line 1, column 10: found a class without characters");
    refused("root ::= [z-a]", f,
            "line 1, column 11: found a range whose end is before its beginning");
    refused("root ::= <think>", FY_EUNSUPPORTED,
            "line 1, column 10: found a token (<name>, <[id]> or its negation), which ferry does "
            "not support; write text in quotes");
}

static void rules_that_begin_with_themselves_are_refused(void **state)
{
    (void)state;
    const fy_code f = FY_EFORMAT;
    refused("root ::= root \"a\" | \"b\"", f,
            "line 1, column 1: rule 'root': left recursion: the rule begins with itself");
    refused("root ::= x\nx ::= \"\"? y\ny ::= z* x \"c\" | \"d\"\nz ::= \"e\"", f,
            "line 2, column 1: rule 'x': left recursion: the rule begins with itself");
    refused("root ::= \"a\"\n\nx ::= n x | \"b\"\nn ::= \"q\"*", f,
            "line 3, column 1: rule 'x': left recursion: the rule begins with itself");
    expect("root ::= \"a\" root | \"b\"", "aaab", 2);
    expect("root ::= \"(\" root \")\" root | ", "(()())()", 2);
}

static void rules_that_cannot_end_are_refused(void **state)
{
    (void)state;
    refused("root ::= \"a\" root", FY_EFORMAT,
            "line 1, column 1: rule 'root': the rule can never end: every way through it needs one "
            "that cannot");
    refused("root ::= \"a\" | x\nx ::= \"b\" y\ny ::= \"c\" x", FY_EFORMAT,
            "line 2, column 1: rule 'x': the rule can never end: every way through it needs one "
            "that cannot");
}

static void limits_hold_before_anything_is_unrolled(void **state)
{
    (void)state;
    refused("root ::= \"a\"{5,99999999999}", FY_EFIT,
            "line 1, column 13: this count makes more than 32768 symbols; use a smaller one");
    refused("root ::= ((\"\"{10000}){10000}){10000}", FY_EFIT,
            "line 1, column 22: this count makes more than 32768 symbols; use a smaller one");
    refused("root ::= a a\na ::= [ab]{30000}\nb ::= [ab]{30000}", FY_EFIT,
            "line 3, column 1: rule 'b': the rules so far make more than 32768 symbols with counts "
            "unrolled");
    fy_str s = {0};
    fy_str_puts(&s, "root ::= ");
    for (int i = 0; i < 256; i++)
        fy_str_putc(&s, '(');
    fy_str_puts(&s, "\"a\"");
    for (int i = 0; i < 256; i++)
        fy_str_putc(&s, ')');
    expect(s.ptr, "a", 2);
    fy_str_clear(&s);
    fy_str_puts(&s, "root ::= ");
    for (int i = 0; i < 257; i++)
        fy_str_putc(&s, '(');
    refused(s.ptr, FY_EFIT, "line 1, column 266: more than 256 parentheses are open");
    fy_str_clear(&s);
    while (s.len <= FY_GRAMMAR_TEXT_MAX)
        fy_str_puts(&s, "# nothing\n");
    refused(s.ptr, FY_EFIT, "a grammar of 65540 bytes, at most 65536");
    fy_str_release(&s);
    expect("root ::= [ab]{32768}", "ababab", 1);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_grammar *g = grammar_of(sample_japanese, &e);
        failed = alloc_fail_end();
        if (failed && (g != NULL || e.code != FY_ENOMEM))
            fail_msg("allocation %ld: %s", n, e.msg);
        if (!failed)
            assert_non_null(g);
        fy_grammar_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_classes_and_groups_mean_what_regular_expressions_mean),
        cmocka_unit_test(the_usual_grammars_take_the_texts_they_are_for),
        cmocka_unit_test(escapes_are_characters),
        cmocka_unit_test(a_class_matches_exactly_its_characters),
        cmocka_unit_test(lines_and_comments_are_read_as_llama_cpp_reads_them),
        cmocka_unit_test(errors_say_line_and_column),
        cmocka_unit_test(rules_that_begin_with_themselves_are_refused),
        cmocka_unit_test(rules_that_cannot_end_are_refused),
        cmocka_unit_test(limits_hold_before_anything_is_unrolled),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
