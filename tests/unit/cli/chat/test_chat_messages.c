/* Messages as JSON: what is read, kept, refused and written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "cli/chat/chat.h"

static char tmp_dir[] = "/tmp/ferry-test-XXXXXX";
static char path[64];

static int make_tmp(void **state)
{
    (void)state;
    if (mkdtemp(tmp_dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/chat.json", tmp_dir);
    return 0;
}

static int remove_tmp(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(tmp_dir);
}

static void check_json(const fy_chat_messages *m, const char *want)
{
    fy_str out = {0};
    fy_chat_messages_json(m, &out);
    assert_string_equal(fy_str_z(&out), want);
    fy_str_release(&out);
}

static void a_list_an_object_and_a_message_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *json, *want;
        bool one;
    } rows[] = {
        {"[]", "[]", false},
        {"{\"messages\":[]}", "[]", false},
        {" [ {\"role\":\"user\",\"content\":\"hi\"} , {\"content\":null,\"role\":\"x\"} ] ",
         "[{\"role\":\"user\",\"content\":\"hi\"},{\"content\":null,\"role\":\"x\"}]", false},
        {"{\"tools\":[1],\"messages\":[{\"role\":\"user\"}],\"x\":{}}", "[{\"role\":\"user\"}]",
         false},
        {"{\"role\":\"user\",\"content\":\"hi\",\"name\":\"n\"} ",
         "[{\"role\":\"user\",\"content\":\"hi\",\"name\":\"n\"}]", true},
        {"{\"name\":\"n\",\"content\":[1],\"role\":\"user\"}",
         "[{\"name\":\"n\",\"content\":[1],\"role\":\"user\"}]", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fy_chat_messages m = {0};
        fy_err e = {0};
        bool one = !rows[i].one;
        assert_int_equal(fy_chat_messages_read(&m, fy_span_of(rows[i].json), &one, &e), 0);
        assert_int_equal(one, rows[i].one);
        check_json(&m, rows[i].want);
        fy_chat_messages_release(&m);
    }
}

static void what_is_no_message_is_refused_and_nothing_stays(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "7",
        "\"hi\"",
        "{}",
        "[{}]",
        "[1]",
        "[{\"content\":\"hi\"}]",
        "{\"content\":\"hi\"}",
        "{\"role\":7}",
        "{\"role\":\"user\",\"role\":\"user\"}",
        "{\"messages\":{}}",
        "{\"messages\":[{\"role\":\"user\"}]",
        "{\"messages\":[{\"role\":\"user\"}]} x",
        "{\"tools\":[]}",
        "[{\"role\":\"user\"},{\"role\":\"user\",\"content\":\"\xFF\"}]",
        "[{\"role\":\"user\"},]",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fy_chat_messages m = {0};
        fy_err e = {0};
        assert_int_equal(fy_chat_messages_add(&m, "user", FY_SPAN("first"), &e), 0);
        assert_int_equal(fy_chat_messages_read(&m, fy_span_of(rows[i]), NULL, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_int_equal(m.n, 1);
        fy_chat_messages_release(&m);
    }
}

static void the_system_message_stands_first(void **state)
{
    (void)state;
    fy_chat_messages m = {0};
    assert_null(fy_chat_messages_system(&m).ptr);
    assert_int_equal(fy_chat_messages_set_system(&m, (fy_span){0}, NULL), 0);
    assert_int_equal(fy_chat_messages_add(&m, "user", FY_SPAN("hi"), NULL), 0);
    assert_int_equal(fy_chat_messages_set_system(&m, FY_SPAN("be brief"), NULL), 0);
    assert_true(fy_span_is(fy_chat_messages_system(&m), "be brief"));
    assert_int_equal(fy_chat_messages_set_system(&m, FY_SPAN("be kind"), NULL), 0);
    check_json(&m, "[{\"role\":\"system\",\"content\":\"be kind\"},"
                   "{\"role\":\"user\",\"content\":\"hi\"}]");
    assert_int_equal(fy_chat_messages_set_system(&m, (fy_span){0}, NULL), 0);
    check_json(&m, "[{\"role\":\"user\",\"content\":\"hi\"}]");
    assert_true(fy_chat_messages_ends_in(&m, "user"));
    fy_chat_messages_release(&m);
}

static void what_was_saved_is_loaded(void **state)
{
    (void)state;
    fy_chat_messages m = {0}, back = {0};
    fy_err e = {0};
    assert_int_equal(fy_chat_messages_add(&m, "user", FY_SPAN("a \"b\"\n\xC3\xA9\\"), &e), 0);
    assert_int_equal(fy_chat_messages_add(&m, "assistant", FY_SPAN(""), &e), 0);
    assert_int_equal(fy_chat_messages_save(&m, path, &e), 0);
    assert_int_equal(fy_chat_messages_add(&back, "user", FY_SPAN("gone"), &e), 0);
    assert_int_equal(fy_chat_messages_load(&back, path, &e), 0);
    check_json(&back, "[{\"role\":\"user\",\"content\":\"a \\\"b\\\"\\n\xC3\xA9\\\\\"},"
                      "{\"role\":\"assistant\",\"content\":\"\"}]");
    assert_string_equal(fy_str_z(&back.items[0].content), "a \"b\"\n\xC3\xA9\\");
    fy_chat_messages_release(&m);
    fy_chat_messages_release(&back);
}

static void a_file_that_is_no_conversation_leaves_the_old_one(void **state)
{
    (void)state;
    fy_chat_messages m = {0};
    fy_err e = {0};
    assert_int_equal(fy_file_write(path, "{\"messages\":[{\"role\":1}]}", 25, NULL), 0);
    assert_int_equal(fy_chat_messages_add(&m, "user", FY_SPAN("stays"), NULL), 0);
    assert_int_equal(fy_chat_messages_load(&m, path, &e), -1);
    assert_non_null(strstr(e.msg, "chat.json: "));
    assert_int_equal(m.n, 1);
    fy_chat_messages_release(&m);
}

static void a_message_can_be_put_back(void **state)
{
    (void)state;
    fy_chat_messages m = {0};
    assert_int_equal(fy_chat_messages_add(&m, "user", FY_SPAN("hi"), NULL), 0);
    assert_int_equal(fy_chat_messages_add(&m, "assistant", FY_SPAN("yo"), NULL), 0);
    fy_chat_message one = fy_chat_messages_take(&m);
    assert_int_equal(m.n, 1);
    fy_chat_messages_put_back(&m, one);
    assert_true(fy_chat_messages_ends_in(&m, "assistant"));
    fy_chat_messages_cut(&m, 7);
    assert_int_equal(m.n, 2);
    fy_chat_messages_release(&m);
}

static void add(fy_chat_messages *m, const char *role, const char *content)
{
    assert_int_equal(fy_chat_messages_add(m, role, fy_span_of(content), NULL), 0);
}

static void hidden_turns_are_kept_and_not_seen(void **state)
{
    (void)state;
    fy_chat_messages m = {0};
    fy_str summary = {0};
    add(&m, "system", "s");
    add(&m, "user", "a");
    add(&m, "assistant", "b");
    add(&m, "tool", "c");
    add(&m, "assistant", "d");
    add(&m, "user", "e");
    assert_int_equal(fy_chat_messages_next_turn(&m, 0), 4); /* the answers of a turn go with it */
    assert_int_equal(fy_chat_messages_next_turn(&m, 4), 4); /* the last one stays */
    fy_chat_messages_hide(&m, 4, NULL);
    check_json(&m, "[{\"role\":\"system\",\"content\":\"s\"},"
                   "{\"role\":\"user\",\"content\":\"e\"}]");
    assert_int_equal(m.n, 6);
    fy_str_puts(&summary, "sum");
    fy_chat_messages_hide(&m, 4, &summary);
    assert_null(summary.ptr);
    check_json(&m, "[{\"role\":\"system\",\"content\":\"s\"},"
                   "{\"role\":\"user\",\"content\":\"Summarize our conversation so far in a few "
                   "sentences.\"},{\"role\":\"assistant\",\"content\":\"sum\"},"
                   "{\"role\":\"user\",\"content\":\"e\"}]");
    fy_chat_messages_cut(&m, 6);
    assert_int_equal(m.n_hidden, 4);
    fy_chat_messages_cut(&m, 3); /* into what was hidden: it is seen again */
    assert_int_equal(m.n_hidden, 0);
    check_json(&m, "[{\"role\":\"system\",\"content\":\"s\"},"
                   "{\"role\":\"user\",\"content\":\"a\"},"
                   "{\"role\":\"assistant\",\"content\":\"b\"}]");
    fy_chat_messages_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_an_object_and_a_message_are_read),
        cmocka_unit_test(what_is_no_message_is_refused_and_nothing_stays),
        cmocka_unit_test(the_system_message_stands_first),
        cmocka_unit_test(what_was_saved_is_loaded),
        cmocka_unit_test(a_file_that_is_no_conversation_leaves_the_old_one),
        cmocka_unit_test(a_message_can_be_put_back),
        cmocka_unit_test(hidden_turns_are_kept_and_not_seen),
    };
    return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
