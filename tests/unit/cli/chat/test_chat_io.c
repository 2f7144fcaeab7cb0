/* How answers look: on a terminal, in a script, with thinking shown in every way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/chat/chat_io.h"

/* What a script of pieces looks like. pieces: tokens, of which the splitter tells what they are. */
static void check(fy_show_style style, const char *prompt, const char *const *pieces,
                  const char *want)
{
    fy_think t = {0};
    fy_chat_show show;
    fy_str out = {0}, thinking = {0}, answer = {0};
    fy_think_begin(&t, fy_span_of(prompt));
    fy_chat_show_begin(&show, style);
    for (size_t i = 0;; i++) {
        fy_str_clear(&thinking);
        fy_str_clear(&answer);
        if (pieces[i] != NULL)
            fy_think_add(&t, fy_span_of(pieces[i]), &thinking, &answer, NULL);
        else
            fy_think_end(&t, &thinking, &answer, NULL);
        fy_chat_piece p = {.id = pieces[i] != NULL ? (int32_t)i : -1,
                           .thinking = {fy_str_z(&thinking), thinking.len},
                           .answer = {fy_str_z(&answer), answer.len},
                           .think = &t};
        fy_chat_show_piece(&show, &p, &out);
        if (pieces[i] == NULL)
            break;
    }
    fy_chat_show_end(&show, &out);
    assert_string_equal(fy_str_z(&out), want);
    fy_str_release(&out);
    fy_str_release(&thinking);
    fy_str_release(&answer);
    fy_think_release(&t);
}

#define PIECES(...) ((const char *const[]){__VA_ARGS__, NULL})

static const fy_show_style terminal = {.terminal = true, .colour = true},
                           file = {.one_line = true, .think = FY_SHOW_THINK_HIDE};

static fy_show_style with(fy_show_style s, fy_show_think think)
{
    s.think = think;
    return s;
}

static void plain_text_comes_as_it_is(void **state)
{
    (void)state;
    check(terminal, "", PIECES("Hi", " there", ".\n"), "Hi there.\n");
    check(terminal, "", PIECES("Hi"), "Hi\n");
    check(terminal, "", PIECES(""), "");
}

static void a_terminal_is_kept_from_control_characters(void **state)
{
    (void)state;
    check(terminal, "", PIECES("a\033[31m\tb\r\nc\x7F\xC2\x9B\n"),
          "a\\x1b[31m\tb\\r\nc\\x7f\\u{9b}\n");
}

static void an_answer_for_a_script_is_one_line(void **state)
{
    (void)state;
    check(file, "", PIECES("a\nb\\n\r\n"), "a\\nb\\\\n\\r\\n\n");
    check(file, "", PIECES(""), "\n");
    check(file, "", PIECES("<think>", "why\n", "</think>", "\n\nso"), "so\n");
    check(with(file, FY_SHOW_THINK_SHOW), "", PIECES("<think>", "why\n", "</think>", "\n\nso"),
          "<think>why\\n</think>\\n\\nso\n");
}

static void thinking_is_paler(void **state)
{
    (void)state;
    check(terminal, "", PIECES("<think>", "why", "</think>", "so"),
          "\033[2m<think>why</think>\033[0mso\n");
    check(terminal, "x<think>\n", PIECES("why", "</think>", "so"),
          "\033[2m<think>why</think>\033[0mso\n");
    check(terminal, "", PIECES("<think>", "why"), "\033[2m<think>why\033[0m\n");
    fy_show_style no_colour = terminal;
    no_colour.colour = false;
    check(no_colour, "", PIECES("<think>", "why", "</think>", "so"), "<think>why</think>so\n");
}

static void thinking_is_folded(void **state)
{
    (void)state;
    fy_show_style s = {.terminal = true, .think = FY_SHOW_THINK_FOLD};
    check(s, "<think>", PIECES("why", " not", "</think>", "\n\nso"),
          "\rthinking, 1 token\rthinking, 2 tokens\r\033[Kthought for 2 tokens\nso\n");
    check(s, "<think>", PIECES("why"), "\rthinking, 1 token\r\033[Kthought for 1 token\n");
    s = (fy_show_style){.think = FY_SHOW_THINK_FOLD};
    check(s, "<think>", PIECES("why", "</think>", "so"), "thought for 1 token\nso\n");
}

static void thinking_is_hidden(void **state)
{
    (void)state;
    check(with(terminal, FY_SHOW_THINK_HIDE), "",
          PIECES("<think>", "why", "</think>", "\n", "\n", "so", "\n", "it is"), "so\nit is\n");
    check(with(terminal, FY_SHOW_THINK_HIDE), "", PIECES("\n so"), "\n so\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_comes_as_it_is),
        cmocka_unit_test(a_terminal_is_kept_from_control_characters),
        cmocka_unit_test(an_answer_for_a_script_is_one_line),
        cmocka_unit_test(thinking_is_paler),
        cmocka_unit_test(thinking_is_folded),
        cmocka_unit_test(thinking_is_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
