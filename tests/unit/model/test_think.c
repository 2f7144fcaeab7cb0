/* Thinking sections, told apart whatever way the text was cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/think.h"

typedef struct {
    const char *prompt, *text, *thinking, *answer;
} row;

static const row rows[] = {
    {"", "Hello", "", "Hello"},
    {"", "", "", ""},
    {"", "<think>why</think>so", "why", "so"},
    {"", "<think>\nwhy\n</think>\n\nso", "\nwhy\n", "\n\nso"},
    {"", " \n<think>why</think>so", "why", "so"},
    {"", "<think></think>so", "", "so"},
    {"", "<think>no end", "no end", ""},
    {"", "<think>no </thin", "no </thin", ""},
    {"", "<think>a < b </ c </think </think>so", "a < b </ c </think ", "so"},
    {"", "<think><<</</think>so", "<<</", "so"},
    {"", "[THINK]why[/THINK]so", "why", "so"},
    {"", "<thinking>why</think></thinking>so", "why</think>", "so"},
    {"", "<thin", "", "<thin"},
    {"", "<thinner</think>", "", "<thinner</think>"},
    {"", " \n ", "", " \n "},
    {"", "so <think>it is no section</think>", "", "so <think>it is no section</think>"},
    {"", "<think>a</think>b<think>c</think>", "a", "b<think>c</think>"},
    {"...assistant\n<think>\n", "why\n</think>\n\nso", "why\n", "\n\nso"},
    {"...<seed:think>", "why</seed:think>so", "why", "so"},
    {"<think>\n\n</think>\n\n", "so", "", "so"},
    {"...<|start|>assistant",
     "<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>final<|message|>so",
     "why", "so"},
    {"...<|start|>assistant", "<|channel|>analysis<|message|>a<|end|>b", "a<|end|>b", ""},
    {"...<|start|>assistant", "<|channel|>final<|message|>so", "", "so"},
    {"...<|channel|>final<|message|>", "so", "", "so"},
    {"", "<|channel|>other", "", "<|channel|>other"},
    {"...<think>", "<think>again</think>so", "<think>again", "so"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* Feeds text in pieces that end at the bits of `cuts` (bit i: behind byte i) and checks the sums.
 */
static void check(const row *r, uint64_t cuts)
{
    fy_think t = {0};
    fy_err e = {0};
    fy_str thinking = {0}, answer = {0};
    size_t n = strlen(r->text), begin = 0;
    fy_think_begin(&t, fy_span_of(r->prompt));
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && (i >= 64 || !(cuts >> i & 1)))
            continue;
        fy_span piece = {r->text + begin, i + 1 - begin};
        assert_int_equal(fy_think_add(&t, piece, &thinking, &answer, &e), 0);
        begin = i + 1;
    }
    assert_int_equal(fy_think_end(&t, &thinking, &answer, &e), 0);
    assert_string_equal(fy_str_z(&thinking), r->thinking);
    assert_string_equal(fy_str_z(&answer), r->answer);
    fy_str_release(&thinking);
    fy_str_release(&answer);
    fy_think_release(&t);
}

static void the_pieces_do_not_matter(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        size_t n = strlen(rows[i].text);
        n = n < 64 ? n : 64;
        check(&rows[i], 0);
        check(&rows[i], UINT64_MAX);
        for (size_t a = 0; a < n; a++) {
            for (size_t b = a; b < n; b++)
                check(&rows[i], 1ull << a | 1ull << b);
        }
    }
}

static void every_split_of_a_short_one_gives_the_same(void **state)
{
    (void)state;
    static const row shortest = {"", "<think>a</think>b", "a", "b"};
    for (uint64_t cuts = 0; cuts < 1u << 16; cuts++)
        check(&shortest, cuts);
}

static void text_is_handed_on_as_soon_as_it_is_clear(void **state)
{
    (void)state;
    fy_think t = {0};
    fy_str thinking = {0}, answer = {0};
    fy_think_begin(&t, FY_SPAN(""));
    assert_int_equal(fy_think_add(&t, FY_SPAN("<thi"), &thinking, &answer, NULL), 0);
    assert_int_equal(thinking.len + answer.len, 0);
    assert_int_equal(fy_think_add(&t, FY_SPAN("nk>because <"), &thinking, &answer, NULL), 0);
    assert_string_equal(fy_str_z(&thinking), "because ");
    assert_int_equal(t.state, FY_THINK_INSIDE);
    assert_int_equal(fy_think_add(&t, FY_SPAN("/think>x"), &thinking, &answer, NULL), 0);
    assert_string_equal(fy_str_z(&answer), "x");
    fy_str_release(&thinking);
    fy_str_release(&answer);
    fy_think_release(&t);
}

static void an_open_section_is_found_at_the_end_of_a_prompt(void **state)
{
    (void)state;
    const fy_think_marks *marks = NULL;
    fy_span open = fy_think_opened_by(FY_SPAN("user\nhi\nassistant\n<think>\n"), &marks);
    assert_true(fy_span_is(open, "<think>\n"));
    assert_string_equal(marks->end, "</think>");
    assert_int_equal(fy_think_opened_by(FY_SPAN("<think> no"), NULL).len, 0);
    assert_int_equal(fy_think_opened_by(FY_SPAN(""), NULL).len, 0);
    assert_int_equal(fy_think_opened_by(FY_SPAN("think>"), NULL).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pieces_do_not_matter),
        cmocka_unit_test(every_split_of_a_short_one_gives_the_same),
        cmocka_unit_test(text_is_handed_on_as_soon_as_it_is_clear),
        cmocka_unit_test(an_open_section_is_found_at_the_end_of_a_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
