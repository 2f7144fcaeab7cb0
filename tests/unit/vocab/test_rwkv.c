#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/template/chat_template.h"
#include "tests/unit/vocab/small_vocab.h"

static fy_vocab *make(void)
{
    const fy_span tokens[] = {
        FY_SPAN("<s>"),     FY_SPAN("a"),      FY_SPAN("ab"),   FY_SPAN("abcd"),
        FY_SPAN("c"),       FY_SPAN("\\n"),    FY_SPAN("\\\\"), FY_SPAN("\\xe6\\x97\\xa5"),
        FY_SPAN("\\xe6"),   FY_SPAN("\\'\""),  FY_SPAN("\\x0"), FY_SPAN("b\\tc\\r"),
        FY_SPAN("[PAD12]"), FY_SPAN("\\n\\n"),
    };
    static const int32_t types[] = {3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5, 1};
    small_vocab b = {0};
    fy_err e = {0};
    small_str(&b, "tokenizer.ggml.model", "rwkv");
    small_strings(&b, "tokenizer.ggml.tokens", tokens, sizeof tokens / sizeof tokens[0]);
    small_types(&b, types, sizeof types / sizeof types[0]);
    small_id(&b, "tokenizer.ggml.bos_token_id", 0);
    small_id(&b, "tokenizer.ggml.eos_token_id", 0);
    small_id(&b, "tokenizer.ggml.eot_token_id", 13);
    fy_vocab *v = small_vocab_load(&b, &e);
    if (v == NULL)
        fail_msg("%s", e.msg);
    return v;
}

static void gives(const char *text, const int *ids, const char *back)
{
    fy_vocab *v = make();
    fy_ids got = {0};
    fy_str out = {0};
    size_t n = 0;
    while (ids[n] >= 0)
        n++;
    assert_int_equal(fy_vocab_encode(v, fy_span_of(text), true, true, &got, NULL), 0);
    assert_int_equal(got.n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(got.id[i], ids[i]);
    assert_int_equal(fy_vocab_decode(v, got.id, got.n, true, &out, NULL), 0);
    assert_string_equal(fy_str_z(&out), back != NULL ? back : text);
    fy_ids_release(&got);
    fy_str_release(&out);
    fy_vocab_free(v);
}

#define IDS(...) ((const int[]){__VA_ARGS__, -1})

static void the_longest_piece_is_taken_at_every_place(void **state)
{
    (void)state;
    gives("abcd", IDS(3), NULL);
    gives("abc", IDS(2, 4), NULL);
    gives("aab", IDS(1, 2), NULL);
    gives("\n\n\n", IDS(13, 5), NULL);
    gives("", ((const int[]){-1}), NULL);
}

static void pieces_are_written_as_python_prints_bytes(void **state)
{
    (void)state;
    gives("\xE6\x97\xA5", IDS(7), NULL);
    gives("\xE6\x97", IDS(8), "\xE6");
    gives("\\c", IDS(6, 4), NULL);
    gives("'\"", IDS(9), NULL);
    gives("b\tc\r", IDS(11), NULL);
    gives("x0", IDS(10), NULL); /* an escape cut short stands for its letters */
}

static void nothing_in_a_text_is_special(void **state)
{
    (void)state;
    gives("<s>a", IDS(1), "a");
    gives("a[PAD12]c", IDS(1, 4), "ac"); /* bytes without a token are left out */
}

static void a_conversation_begins_with_id_0(void **state)
{
    (void)state;
    fy_vocab *v = make();
    fy_ids got = {0};
    fy_err e = {0};
    assert_int_equal(fy_chat_encode_text(v, FY_SPAN("<s>a"), &got, &e), 0);
    assert_int_equal(got.n, 2);
    assert_int_equal(got.id[0], 0);
    assert_int_equal(got.id[1], 1);
    fy_ids_release(&got);
    fy_vocab_free(v);
}

static void id_0_ends_a_text_and_a_role_ends_an_answer(void **state)
{
    (void)state;
    fy_vocab *v = make();
    assert_true(fy_vocab_is_eog(v, 0) && !fy_vocab_is_eog(v, 13));
    assert_true(fy_span_is(fy_vocab_turn_text(v), "\n\nUser:"));
    assert_false(fy_vocab_is_samplable(v, 12));
    assert_false(fy_vocab_adds_bos(v));
    fy_vocab_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_piece_is_taken_at_every_place),
        cmocka_unit_test(pieces_are_written_as_python_prints_bytes),
        cmocka_unit_test(nothing_in_a_text_is_special),
        cmocka_unit_test(a_conversation_begins_with_id_0),
        cmocka_unit_test(id_0_ends_a_text_and_a_role_ends_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
