/* Answers keep the ids they were generated with, as long as the prompt repeats their text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/chat/chat.h"
#include "tests/unit/vocab/small_vocab.h"

enum { A, B, C, D, SPACE, ONE, TWO, AB, BC, ABC, SPACE_A, AA, AAAA, ABCD, BOS, EOT, USER };

static fy_vocab *vocab;

static int load(void **state)
{
    (void)state;
    small_vocab b = {0};
    small_bpe(&b, "gpt-2");
    vocab = small_vocab_load(&b, NULL);
    return vocab != NULL ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    fy_vocab_free(vocab);
    return 0;
}

static void prompt(fy_chat_splice *s, const char *text, const int32_t *want, size_t n)
{
    fy_err e = {0};
    assert_int_equal(fy_chat_splice_prompt(s, vocab, fy_span_of(text), &e), 0);
    assert_int_equal(s->ids.n, n);
    assert_memory_equal(s->ids.id, want, n * sizeof *want);
}

static void answer(fy_chat_splice *s, const int32_t *ids, size_t n)
{
    assert_int_equal(fy_chat_splice_answer(s, vocab, ids, n, NULL), 0);
}

#define PROMPT(text, ...)                                     \
    do {                                                      \
        static const int32_t want[] = {__VA_ARGS__};          \
        prompt(&s, text, want, sizeof want / sizeof want[0]); \
    } while (0)
#define ANSWER(...)                                  \
    do {                                             \
        static const int32_t ids[] = {__VA_ARGS__};  \
        answer(&s, ids, sizeof ids / sizeof ids[0]); \
    } while (0)

static void an_answer_keeps_its_ids(void **state)
{
    (void)state;
    fy_chat_splice s = {0};
    PROMPT("<s>d", BOS, D);
    ANSWER(A, BC); /* as text it is ABC */
    PROMPT("<s>dabc<e>d", BOS, D, A, BC, EOT, D);
    ANSWER(A, A);
    PROMPT("<s>dabc<e>daa<e>", BOS, D, A, BC, EOT, D, A, A, EOT);
    fy_chat_splice_release(&s);
}

static void without_the_answer_text_is_encoded_as_text(void **state)
{
    (void)state;
    fy_chat_splice s = {0};
    PROMPT("<s>abc", BOS, ABC);
    PROMPT("<s>abc<e>aa", BOS, ABC, EOT, AA);
    fy_chat_splice_release(&s);
}

static void another_text_drops_the_ids(void **state)
{
    (void)state;
    fy_chat_splice s = {0};
    PROMPT("<s>d", BOS, D);
    ANSWER(A, BC);
    PROMPT("<s>c<e>abc<e>", BOS, C, EOT, ABC, EOT); /* another beginning */
    assert_int_equal(s.n_seams, 0);
    ANSWER(A, A);
    PROMPT("<s>c<e>abc<e>a<e>", BOS, C, EOT, ABC, EOT, A, EOT); /* half of the answer */
    fy_chat_splice_release(&s);
}

static void taking_a_message_back_keeps_the_answers_before(void **state)
{
    (void)state;
    fy_chat_splice s = {0};
    PROMPT("<s>d", BOS, D);
    ANSWER(A, BC);
    PROMPT("<s>dabc<e>d", BOS, D, A, BC, EOT, D);
    ANSWER(A, A);
    PROMPT("<s>dabc<e>b", BOS, D, A, BC, EOT, B);
    assert_int_equal(s.n_seams, 1);
    fy_chat_splice_release(&s);
}

static void an_answer_with_a_thought_that_the_template_strips_is_encoded_again(void **state)
{
    (void)state;
    fy_chat_splice s = {0};
    PROMPT("<s>d", BOS, D);
    ANSWER(ONE, TWO, ONE, A, BC); /* "121abc", of which "abc" stays */
    PROMPT("<s>dabc<e>d", BOS, D, ABC, EOT, D);
    fy_chat_splice_release(&s);
}

static void text_that_could_grow_together_is_not_cut(void **state)
{
    (void)state;
    fy_chat_splice s = {0};
    PROMPT("<s>d", BOS, D);
    ANSWER(A);
    PROMPT("<s>daaaa", BOS, D, AAAA); /* no control token after the answer */
    ANSWER(A);
    PROMPT("<s>daaaaa<u>", BOS, D, AAAA, A, USER); /* a user token is none */
    fy_chat_splice_release(&s);
}

static void an_empty_answer_and_an_empty_rest_are_fine(void **state)
{
    (void)state;
    fy_chat_splice s = {0};
    PROMPT("<s>abc", BOS, ABC);
    assert_int_equal(fy_chat_splice_answer(&s, vocab, NULL, 0, NULL), 0);
    PROMPT("<s>abc", BOS, ABC);
    PROMPT("<s>abc<e>", BOS, ABC, EOT);
    fy_chat_splice_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_keeps_its_ids),
        cmocka_unit_test(without_the_answer_text_is_encoded_as_text),
        cmocka_unit_test(another_text_drops_the_ids),
        cmocka_unit_test(taking_a_message_back_keeps_the_answers_before),
        cmocka_unit_test(an_answer_with_a_thought_that_the_template_strips_is_encoded_again),
        cmocka_unit_test(text_that_could_grow_together_is_not_cut),
        cmocka_unit_test(an_empty_answer_and_an_empty_rest_are_fine),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
