/* What is typed: slash commands, completion, messages of several lines, the history file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "cli/chat/chat_commands.h"
#include "cli/chat/chat_io.h"

static char tmp_dir[] = "/tmp/ferry-test-XXXXXX";
static char path[64];

static int make_tmp(void **state)
{
    (void)state;
    if (mkdtemp(tmp_dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/conversation.json", tmp_dir);
    return 0;
}

static int remove_tmp(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(tmp_dir);
}

/* --- commands --- */

static const fy_opt few_rows[] = {
    {.group = "Machine", .name = "threads", .kind = FY_OPT_INT, .help = ""},
    {.group = FY_GEN_GROUP, .name = "temp", .kind = FY_OPT_FLOAT, .help = ""},
    {.group = FY_GEN_GROUP, .name = "top-k", .kind = FY_OPT_INT, .help = ""},
    {.group = FY_GEN_GROUP, .name = "top-p", .kind = FY_OPT_FLOAT, .help = ""},
};

typedef struct {
    fy_chat chat;
    fy_chat_params params;
    fy_chat_shell shell;
    fy_str out;
    fy_chat_next next;
    fy_err e;
} talk;

static void begin(talk *t)
{
    *t = (talk){.params = {.rows = few_rows, .n_rows = 4}};
    t->shell = (fy_chat_shell){&t->chat, &t->params};
}

static void end(talk *t)
{
    fy_chat_release(&t->chat);
    fy_str_release(&t->out);
}

/* Runs a command; returns what it shows, or its error. */
static const char *say(talk *t, const char *line)
{
    fy_str_clear(&t->out);
    t->e = (fy_err){0};
    t->next = FY_CHAT_NEXT_LINE;
    int rc = fy_chat_command(&t->shell, fy_span_of(line), &t->out, &t->next, &t->e);
    return rc == 0 ? fy_str_z(&t->out) : t->e.msg;
}

static void a_slash_makes_a_command_and_two_make_a_message(void **state)
{
    (void)state;
    fy_span message;
    assert_true(fy_chat_is_command(FY_SPAN("/help"), &message));
    assert_true(fy_chat_is_command(FY_SPAN("/"), &message));
    assert_false(fy_chat_is_command(FY_SPAN("//etc"), &message));
    assert_true(fy_span_is(message, "/etc"));
    assert_false(fy_chat_is_command(FY_SPAN("hi /there"), &message));
    assert_true(fy_span_is(message, "hi /there"));
    assert_false(fy_chat_is_command(FY_SPAN(""), &message));
}

static void a_wrong_command_names_the_nearest(void **state)
{
    (void)state;
    talk t;
    begin(&t);
    assert_non_null(strstr(say(&t, "/rest"), "did you mean '/reset'?"));
    assert_int_equal(t.e.code, FY_EARG);
    assert_non_null(strstr(say(&t, "/frobnicate"), "/help lists them"));
    assert_non_null(strstr(say(&t, "/"), "no command is called '/'"));
    assert_non_null(strstr(say(&t, "/save"), "/save FILE"));
    assert_non_null(strstr(say(&t, "/undo it"), "takes no argument"));
    assert_non_null(strstr(say(&t, "/r\033[31m"), "\\x1b"));
    end(&t);
}

static void the_system_message_is_set_shown_and_taken_away(void **state)
{
    (void)state;
    talk t;
    begin(&t);
    assert_string_equal(say(&t, "/system"), "no system message\n");
    say(&t, "/system  Be brief. ");
    assert_string_equal(say(&t, "/system"), "Be brief.\n");
    assert_int_equal(fy_chat_messages_add(&t.chat.messages, "user", FY_SPAN("hi"), NULL), 0);
    say(&t, "/reset");
    assert_int_equal(t.chat.messages.n, 1);
    say(&t, "/system -");
    assert_int_equal(t.chat.messages.n, 0);
    end(&t);
}

static void undo_takes_a_message_and_its_answer_back(void **state)
{
    (void)state;
    talk t;
    begin(&t);
    assert_non_null(strstr(say(&t, "/undo"), "no message to take back"));
    assert_non_null(strstr(say(&t, "/regen"), "no message to answer"));
    say(&t, "/system s");
    assert_non_null(strstr(say(&t, "/regen"), "no message to answer"));
    fy_chat_messages_add(&t.chat.messages, "user", FY_SPAN("one\ntwo"), NULL);
    fy_chat_messages_add(&t.chat.messages, "assistant", FY_SPAN("three"), NULL);
    say(&t, "/regen");
    assert_int_equal(t.next, FY_CHAT_ANSWER);
    assert_string_equal(say(&t, "/undo"), "taken back: one\\ntwo\n");
    assert_int_equal(t.chat.messages.n, 1);
    say(&t, "/quit");
    assert_int_equal(t.next, FY_CHAT_QUIT);
    end(&t);
}

static void conversations_are_saved_and_loaded(void **state)
{
    (void)state;
    talk t;
    char line[128];
    begin(&t);
    fy_chat_messages_add(&t.chat.messages, "user", FY_SPAN("hi"), NULL);
    snprintf(line, sizeof line, "/save %s", path);
    assert_non_null(strstr(say(&t, line), "1 message saved to "));
    say(&t, "/reset");
    snprintf(line, sizeof line, "/load %s", path);
    assert_non_null(strstr(say(&t, line), "1 message loaded from "));
    assert_true(fy_chat_messages_ends_in(&t.chat.messages, "user"));
    assert_non_null(strstr(say(&t, "/load /nowhere/x"), "/nowhere/x: cannot open"));
    assert_int_equal(t.chat.messages.n, 1);
    end(&t);
}

static void tab_completes(void **state)
{
    (void)state;
    talk t;
    char in_dir[128], in_file[128];
    begin(&t);
    snprintf(in_dir, sizeof in_dir, "/load %s/conv", tmp_dir);
    snprintf(in_file, sizeof in_file, "/load %s/none", tmp_dir);
    assert_int_equal(fy_file_write(path, "[]", 2, NULL), 0);
    const struct {
        const char *before, *insert, *list;
    } rows[] = {
        {"/he", "lp", ""},
        {"/help", "", ""},
        {"/sy", "stem ", ""},
        {"/re", "", "/reset  /regen"},
        {"/s", "", "/system   /save   /stats"},
        {"/x", "", ""},
        {"hi", "", ""},
        {"//he", "", ""},
        {"/params te", "mp ", ""},
        {"/params t", "", "temp   top-k   top-p "},
        {"/params top", "-", ""},
        {"/params thr", "", ""},
        {in_dir, "ersation.json", ""},
        {in_file, "", ""},
        {"/load /nowhere/", "", ""},
        {"", "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fy_str insert = {0}, list = {0};
        fy_chat_complete(&t.shell, fy_span_of(rows[i].before), &insert, &list);
        assert_string_equal(fy_str_z(&insert), rows[i].insert);
        assert_string_equal(fy_str_z(&list), rows[i].list);
        fy_str_release(&insert);
        fy_str_release(&list);
    }
    end(&t);
}

/* --- lines --- */

static void lines_become_messages(void **state)
{
    (void)state;
    static const struct {
        const char *lines[4], *message;
    } rows[] = {
        {{"hi"}, "hi"},
        {{""}, ""},
        {{"a\\", "b"}, "a\nb"},
        {{"a\\", "b\\", ""}, "a\nb\n"},
        {{"a\\\\"}, "a\\\\"},
        {{"\\", "b"}, "b"},
        {{"\"\"\"one line\"\"\""}, "one line"},
        {{"\"\"\"", "  a\\", "b", "\"\"\""}, "  a\\\nb"},
        {{"\"\"\"a", "", "b\"\"\""}, "a\n\nb"},
        {{"say \"\"\"hi\"\"\""}, "say \"\"\"hi\"\"\""},
        {{"pasted\nlines"}, "pasted\nlines"},
    };
    fy_chat_gather g = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t k = 0;
        fy_chat_gather_clear(&g);
        for (bool done = false; !done; k++) {
            done = fy_chat_gather_line(&g, fy_span_of(rows[i].lines[k]));
            assert_true(done == (k == 3 || rows[i].lines[k + 1] == NULL));
        }
        assert_string_equal(fy_str_z(&g.text), rows[i].message);
    }
    fy_str_release(&g.text);
}

static void standard_input_is_read_line_by_line(void **state)
{
    (void)state;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    static const char text[] = "one\r\n\ntwo\0x\nno end";
    assert_int_equal(write(fd[1], text, sizeof text - 1), sizeof text - 1);
    close(fd[1]);
    fy_chat_reader r = {.fd = fd[0]};
    fy_str line = {0};
    fy_err e = {0};
    static const struct {
        const char *text;
        size_t n;
    } want[] = {{"one", 3}, {"", 0}, {"two\0x", 5}, {"no end", 6}};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(fy_chat_read_line(&r, &line, &e), 1);
        assert_int_equal(line.len, want[i].n);
        assert_memory_equal(fy_str_z(&line), want[i].text, want[i].n);
    }
    assert_int_equal(fy_chat_read_line(&r, &line, &e), 0);
    assert_int_equal(fy_chat_read_line(&r, &line, &e), 0);
    fy_chat_reader_release(&r);
    fy_str_release(&line);
    close(fd[0]);
}

/* --- the history --- */

typedef struct {
    size_t n;
    char first[32], last[32];
} entries;

static void count(void *user, const char *entry)
{
    entries *h = user;
    if (h->n++ == 0)
        snprintf(h->first, sizeof h->first, "%s", entry);
    snprintf(h->last, sizeof h->last, "%s", entry);
}

static void the_history_keeps_what_was_typed(void **state)
{
    (void)state;
    entries h = {0};
    struct stat st;
    unlink(path);
    assert_int_equal(fy_history_load(path, count, &h, NULL), 0);
    assert_int_equal(h.n, 0);
    assert_int_equal(fy_history_append(path, FY_SPAN("hi"), NULL), 0);
    assert_int_equal(fy_history_append(path, FY_SPAN("a\n\\n \xC3\xA9"), NULL), 0);
    assert_int_equal(fy_history_load(path, count, &h, NULL), 0);
    assert_int_equal(h.n, 2);
    assert_string_equal(h.first, "hi");
    assert_string_equal(h.last, "a\n\\n \xC3\xA9");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void a_long_history_is_cut_to_its_end(void **state)
{
    (void)state;
    fy_str text = {0};
    entries h = {0};
    for (int i = 0; i <= 2 * FY_HISTORY_MAX; i++)
        fy_str_printf(&text, "entry %d\n", i);
    assert_int_equal(fy_file_write(path, text.ptr, text.len, NULL), 0);
    assert_int_equal(fy_history_load(path, count, &h, NULL), 0);
    assert_int_equal(h.n, FY_HISTORY_MAX);
    assert_string_equal(h.last, "entry 2000");
    h = (entries){0};
    assert_int_equal(fy_history_load(path, count, &h, NULL), 0);
    assert_string_equal(h.first, "entry 1001");
    fy_map m;
    assert_int_equal(fy_map_open(&m, path, NULL), 0);
    assert_int_equal(m.size, FY_HISTORY_MAX * strlen("entry 1001\n"));
    fy_map_close(&m);
    fy_str_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slash_makes_a_command_and_two_make_a_message),
        cmocka_unit_test(a_wrong_command_names_the_nearest),
        cmocka_unit_test(the_system_message_is_set_shown_and_taken_away),
        cmocka_unit_test(undo_takes_a_message_and_its_answer_back),
        cmocka_unit_test(conversations_are_saved_and_loaded),
        cmocka_unit_test(tab_completes),
        cmocka_unit_test(lines_become_messages),
        cmocka_unit_test(standard_input_is_read_line_by_line),
        cmocka_unit_test(the_history_keeps_what_was_typed),
        cmocka_unit_test(a_long_history_is_cut_to_its_end),
    };
    return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
