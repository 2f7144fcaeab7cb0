/* Events of a chat on the phone, and lines of a command there over adb. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

#include "tests/unit/workspace/fake_adb.h"
#include "workspace/phone/phone_chat.h"

static fy_phone_event parsed(const char *line)
{
    fy_phone_event v;
    fy_err e = {0};
    if (fy_phone_event_parse(fy_span_of(line), &v, &e) != 0)
        fail_msg("%s", e.msg);
    return v;
}

static void events_are_read(void **state)
{
    (void)state;
    fy_phone_event v = parsed("{\"event\":\"ready\",\"model\":\"m\",\"context_size\":4096}");
    assert_int_equal(v.kind, FY_PHONE_EVENT_READY);
    assert_int_equal(v.n_ctx, 4096);
    fy_phone_event_release(&v);
    v = parsed("{\"event\":\"token\",\"id\":7,\"text\":\"a\\n\",\"thinking\":true}");
    assert_int_equal(v.kind, FY_PHONE_EVENT_TOKEN);
    assert_int_equal(v.id, 7);
    assert_true(v.thinking);
    assert_string_equal(v.text, "a\n");
    fy_phone_event_release(&v);
    v = parsed("{\"event\":\"token\",\"text\":\"held\"}");
    assert_int_equal(v.id, -1);
    assert_false(v.thinking);
    fy_phone_event_release(&v);
    v = parsed("{\"event\":\"hidden\",\"messages\":4,\"summary\":\"s\"}");
    assert_int_equal(v.kind, FY_PHONE_EVENT_HIDDEN);
    assert_int_equal(v.n_hidden, 4);
    assert_string_equal(v.summary, "s");
    fy_phone_event_release(&v);
    v = parsed("{\"event\":\"error\",\"message\":\"no\",\"status\":3}");
    assert_int_equal(v.kind, FY_PHONE_EVENT_ERROR);
    assert_string_equal(v.text, "no");
    assert_int_equal(v.status, 3);
    fy_phone_event_release(&v);
    v = parsed("{\"event\":\"new\",\"text\":\"x\",\"more\":[1,{}]}");
    assert_int_equal(v.kind, FY_PHONE_EVENT_OTHER);
    fy_phone_event_release(&v);
}

static void an_answer_has_its_times(void **state)
{
    (void)state;
    fy_phone_event v = parsed(
        "{\"event\":\"answer\",\"text\":\"b\",\"thinking\":\"a\",\"content\":\"<think>a</think>b\","
        "\"stop\":\"length\",\"ids\":[1,2],\"context_used\":30,\"context_size\":40,\"timing\":{"
        "\"backend\":\"cpu\",\"load_ms\":2.5,\"prompt_tokens\":20,\"cached_tokens\":10,"
        "\"prompt_ms\":100,\"prompt_tokens_per_s\":1,\"first_token_ms\":110,"
        "\"generated_tokens\":5,\"generate_ms\":50,\"peak_memory_bytes\":1}}");
    assert_int_equal(v.kind, FY_PHONE_EVENT_ANSWER);
    assert_string_equal(v.content, "<think>a</think>b");
    assert_int_equal(v.why, FY_STOP_LENGTH);
    assert_int_equal(v.n_used, 30);
    assert_int_equal(v.timing.n_prompt, 20);
    assert_int_equal(v.timing.n_reused, 10);
    assert_int_equal(v.timing.n_generated, 5);
    assert_true(v.timing.generate_s > 0.049 && v.timing.generate_s < 0.051);
    assert_string_equal(v.backend, "cpu");
    fy_phone_event_release(&v);
}

static void what_is_not_an_event_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "hello",
        "[]",
        "{}",
        "{\"event\":1}",
        "{\"event\":\"token\",\"id\":-1,\"text\":\"a\"}",
        "{\"event\":\"token\",\"id\":4294967296,\"text\":\"a\"}",
        "{\"event\":\"token\",\"text\":\"a\\u0000b\"}",
        "{\"event\":\"token\",\"text\":5}",
        "{\"event\":\"token\",\"text\":\"a\",\"text\":\"b\"}",
        "{\"event\":\"answer\",\"text\":\"a\",\"timing\":[]}",
        "{\"event\":\"error\",\"message\":\"a\",\"status\":256}",
        "{\"event\":\"a name that is too long for one\"}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        fy_phone_event v;
        fy_err e = {0};
        if (fy_phone_event_parse(fy_span_of(lines[i]), &v, &e) == 0)
            fail_msg("taken: %s", lines[i]);
        says(&e, FY_EDEVICE, "expected an event");
    }
}

/* --- lines ------------------------------------------------------------------------------------ */

typedef struct {
    int rc, status;
    fy_str line;
    fy_err err;
} got;

/* The nth line of a command whose service answers with these bytes. */
static got line_of(const char *reply, size_t n_reply, int nth)
{
    const fake_rule rules[] = {{"shell,v2", reply, n_reply}, {NULL, NULL, 0}};
    fake_adb *f = fake(rules);
    fy_adb *a = opened();
    got g = {.rc = 2, .status = -1};
    fy_adb_talk *t = fy_adb_talk_open(a, "x", &g.err);
    assert_non_null(t);
    for (int i = 0; i <= nth && g.rc > 0; i++) {
        do
            g.rc = fy_adb_talk_line(t, 100, &g.line, &g.status, &g.err);
        while (g.rc == 2 && atomic_load(&f->budget) != 0);
    }
    fy_adb_talk_close(t);
    fy_adb_close(a);
    fake_stop(f);
    return g;
}
#define LINE(reply, nth) line_of(reply, sizeof(reply) - 1, nth)

static void lines_come_whole_and_the_status_last(void **state)
{
    (void)state;
    static const char reply[] = "OKAY\2\x0d\0\0\0ferry-pid 42\n\1\3\0\0\0a\nb\1\4\0\0\0c\n\nd\3\1\0\0\0\7";
    static const char *const want[] = {"a", "bc", ""};
    for (int i = 0; i < 3; i++) {
        got g = LINE(reply, i);
        assert_int_equal(g.rc, 1);
        assert_string_equal(fy_str_z(&g.line), want[i]);
        fy_str_release(&g.line);
    }
    got g = LINE(reply, 3);
    assert_int_equal(g.rc, 0);
    assert_int_equal(g.status, 7);
    fy_str_release(&g.line);
}

static void packets_that_the_protocol_does_not_have_end_it(void **state)
{
    (void)state;
    got g = LINE("OKAY\1\xff\xff\xff\xff", 0);
    assert_int_equal(g.rc, -1);
    assert_int_equal(g.err.code, FY_EDEVICE);
    fy_str_release(&g.line);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
#define T(f) cmocka_unit_test_setup(f, fresh)
    const struct CMUnitTest tests[] = {
        T(events_are_read),
        T(an_answer_has_its_times),
        T(what_is_not_an_event_is_refused),
        T(lines_come_whole_and_the_status_last),
        T(packets_that_the_protocol_does_not_have_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
