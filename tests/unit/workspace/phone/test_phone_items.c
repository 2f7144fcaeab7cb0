/* What of ours is on a phone: its answer parsed, and which models give way to a new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

#include "tests/unit/workspace/fake_adb.h"
#include "workspace/phone/phone_items.h"

static fy_phone_items parsed(const char *text)
{
    fy_phone_items l;
    fy_err e = {0};
    if (fy_phone_items_parse(fy_span_of(text), &l, &e) != 0)
        fail_msg("%s", e.msg);
    return l;
}

static void the_answer_becomes_items(void **state)
{
    (void)state;
    fy_phone_items l = parsed("1000 4096\n\n"
                              "10\t.versions/tales-0123456789ab\n"
                              "20\t.versions/tales-ba9876543210\n"
                              "7\t.versions/tales-000000000000.part\n"
                              "30\t.models/.versions/Qwen3-4B-Q4_K_M-0123456789ab\n"
                              "40\t.models/.versions/old-model-0123456789ab.part\n"
                              "5\t.agent/ferry-0123456789ab\n"
                              "1\t.tmp/0011223344556677\n\n"
                              "100 .versions/tales-0123456789ab\n"
                              "200 .versions/tales-ba9876543210\n"
                              "300 .models/.versions/old-model-0123456789ab.part\n"
                              "400 .models/.versions/Qwen3-4B-Q4_K_M-0123456789ab\n\n"
                              "tales .versions/tales-0123456789ab\n");
    static const struct {
        fy_phone_kind kind;
        bool part;
        const char *name;
        uint64_t kib;
        int64_t used_s;
    } want[] = {
        {FY_PHONE_WORKSPACE, false, "tales", 10, 100},
        {FY_PHONE_OLDER, false, "tales", 20, 200},
        {FY_PHONE_OLDER, true, "tales", 7, 0},
        {FY_PHONE_MODEL, false, "Qwen3-4B-Q4_K_M", 30, 400},
        {FY_PHONE_MODEL, true, "old-model", 40, 300},
        {FY_PHONE_PROGRAM, false, "ferry-0123456789ab", 5, 0},
        {FY_PHONE_TEMP, false, "0011223344556677", 1, 0},
    };
    assert_int_equal(l.n, sizeof want / sizeof want[0]);
    assert_int_equal(l.space, 4096000);
    for (size_t i = 0; i < l.n; i++) {
        assert_int_equal(l.item[i].kind, want[i].kind);
        assert_int_equal(l.item[i].part, want[i].part);
        assert_string_equal(l.item[i].name, want[i].name);
        assert_int_equal(l.item[i].bytes, want[i].kib * 1024);
        assert_int_equal(l.item[i].used_s, want[i].used_s);
    }
    fy_phone_items_release(&l);
}

static void nothing_else_is_ours(void **state)
{
    (void)state;
    fy_phone_items l = parsed("much\n\n"
                              "1\t.versions/*\n"
                              "1\t.versions/tales\n"
                              "1\t.versions/tales-0123456789abc\n"
                              "1\t.versions/tales-0123456789ab.more\n"
                              "1\t.versions/../../sdcard-0123456789ab\n"
                              "1\t.versions/a/b-0123456789ab\n"
                              "1\t.versions/a\x1b[31m-0123456789ab\n"
                              "1\t.versions/a b-0123456789ab\n"
                              "1\t.versions/-0123456789ab\n"
                              "1\t/sdcard/a-0123456789ab\n"
                              "1\tphotos-0123456789ab\n"
                              "99999999999999999999\t.versions/large-0123456789ab\n"
                              "18014398509481984\t.versions/wraps-0123456789ab\n"
                              "x\t.versions/word-0123456789ab\n"
                              "\t.versions/none-0123456789ab\n");
    assert_int_equal(l.n, 0);
    assert_int_equal(l.space, UINT64_MAX);
    fy_phone_items_release(&l);
}

/* --- asked over adb --------------------------------------------------------------------------- */

/* A shell that prints `said` and the word that ends a command of ours. */
static fake_adb *shell_that_says(const char *said, fy_str *reply, fake_rule rules[2])
{
    static const char word[] = "ferry-ran-all\n";
    size_t n = strlen(said) + sizeof word - 1;
    const char head[] = {1, (char)n, (char)(n >> 8), 0, 0}, exits[] = {3, 1, 0, 0, 0, 0};
    fy_str_puts(reply, "OKAY");
    fy_str_add(reply, head, sizeof head);
    fy_str_puts(reply, said);
    fy_str_puts(reply, word);
    fy_str_add(reply, exits, sizeof exits);
    rules[0] = (fake_rule){"shell,v2", reply->ptr, reply->len};
    rules[1] = (fake_rule){NULL, NULL, 0};
    return fake(rules);
}

/* The services that the phone was asked for to make room. */
static int services(const char *said, uint64_t bytes, uint64_t most, char last[256])
{
    fy_str reply = {0};
    fake_rule rules[2];
    fake_adb *f = shell_that_says(said, &reply, rules);
    fy_err e = {0};
    fy_adb *a = opened();
    int before = atomic_load(&f->n_services);
    if (fy_phone_models_make_room(a, ".models/.versions/new-0123456789ab", bytes, most, &e) != 0)
        fail_msg("%s", e.msg);
    int n = atomic_load(&f->n_services) - before;
    memcpy(last, f->last_service, sizeof f->last_service);
    fy_adb_close(a);
    fake_stop(f);
    fy_str_release(&reply);
    return n;
}

static void the_model_that_was_used_longest_ago_gives_way(void **state)
{
    (void)state;
    static const char there[] = "1000 1024\n\n"
                                "9999\t.versions/ws-0123456789ab\n"
                                "100\t.models/.versions/a-0123456789ab\n"
                                "100\t.models/.versions/b-0123456789ab\n"
                                "100\t.models/.versions/c-0123456789ab.part\n\n"
                                "30 .models/.versions/a-0123456789ab\n"
                                "10 .models/.versions/b-0123456789ab\n"
                                "20 .models/.versions/c-0123456789ab.part\n"
                                "1 .versions/ws-0123456789ab\n\n";
    const uint64_t kib = 1024;
    char last[256];
    /* one request to list, and one for each model that goes */
    assert_int_equal(services(there, 100 * kib, 400 * kib, last), 1);
    assert_int_equal(services(there, 100 * kib, 399 * kib, last), 2);
    assert_non_null(strstr(last, ".models/.versions/b-0123456789ab"));
    assert_int_equal(services(there, 100 * kib, 250 * kib, last), 3);
    assert_non_null(strstr(last, ".models/.versions/c-0123456789ab.part"));
    assert_int_equal(services(there, 100 * kib, 0, last), 4);
    assert_int_equal(services(there, 1000 * kib, 9999 * kib, last), 1);
    assert_int_equal(services(there, 1001 * kib, 9999 * kib, last), 2);
    assert_int_equal(services(there, 1300 * kib, 9999 * kib, last), 4);
    /* where nothing helps nothing goes */
    assert_int_equal(services(there, 1301 * kib, 9999 * kib, last), 1);
}

static void what_is_there_of_it_already_needs_no_room(void **state)
{
    (void)state;
    char last[256];
    const uint64_t kib = 1024;
    assert_int_equal(services("100 1024\n\n"
                              "900\t.models/.versions/new-0123456789ab.part\n"
                              "50\t.models/.versions/old-0123456789ab\n\n\n",
                              1000 * kib, 9999 * kib, last),
                     1);
    assert_int_equal(services("10 1024\n\n"
                              "1000\t.models/.versions/new-0123456789ab\n"
                              "50\t.models/.versions/old-0123456789ab\n\n\n",
                              1000 * kib, 9999 * kib, last),
                     1);
}

static void a_shell_that_was_cut_off_has_removed_nothing(void **state)
{
    (void)state;
    static const fake_rule rules[] = {RULE("shell,v2", "OKAY\3\1\0\0\0\0"), {NULL, NULL, 0}};
    fake_adb *f = fake(rules);
    fy_adb *a = opened();
    fy_err e = {0};
    const fy_phone_item item = {.kind = FY_PHONE_MODEL,
                                .path = (char[]){".models/.versions/a-0123456789ab"},
                                .name = (char[]){"a"}};
    assert_int_equal(fy_phone_item_remove(a, &item, &e), -1);
    says(&e, FY_EDEVICE, "the phone cannot remove a");
    fy_adb_close(a);
    fake_stop(f);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
#define T(f) cmocka_unit_test_setup(f, fresh)
    const struct CMUnitTest tests[] = {
        T(the_answer_becomes_items),
        T(nothing_else_is_ours),
        T(the_model_that_was_used_longest_ago_gives_way),
        T(what_is_there_of_it_already_needs_no_room),
        T(a_shell_that_was_cut_off_has_removed_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
