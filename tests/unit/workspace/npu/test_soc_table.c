#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "tests/unit/workspace/ws_fixture.h"

#include "workspace/npu/soc_table.h"

/* As ExecuTorch's qc_schema.py, rwkv-qualcomm's htp_devices_config.py and QNN's list of chips have
 * them; VTCM 0: none of them says. */
static const struct {
    const char *name;
    uint32_t id, arch, vtcm;
} published[] = {
    {"QCM6490", 93, 68, 2},  {"SA8295", 39, 68, 8},   {"SA8540", 62, 68, 8},
    {"SC8280X", 37, 68, 0},  {"SM7325", 35, 68, 2},   {"SM7350", 32, 68, 0},
    {"SM8350", 30, 68, 4},   {"SM7450", 41, 69, 0},   {"SM7475", 54, 69, 0},
    {"SM8450", 36, 69, 8},   {"SM8475", 42, 69, 8},   {"SXR2230P", 53, 69, 8},
    {"QCS9100", 77, 73, 8},  {"SA8255", 52, 73, 8},   {"SC8380", 60, 73, 0},
    {"SM6450", 50, 73, 0},   {"SM7635", 73, 73, 0},   {"SM7675", 70, 73, 4},
    {"SM8550", 43, 73, 8},   {"SM8635", 68, 73, 0},   {"SM8735", 85, 73, 0},
    {"SSG2115P", 46, 73, 2}, {"SSG2125P", 58, 73, 2}, {"SXR1230P", 45, 73, 2},
    {"SM8650", 57, 75, 8},   {"SM8750", 69, 79, 8},   {"SXR2330P", 75, 79, 8},
    {"SA8797", 72, 81, 16},  {"SAR2230P", 95, 81, 4}, {"SC8480XP", 88, 81, 0},
    {"SM8845", 97, 81, 8},   {"SM8850", 87, 81, 8},   {"SW6100", 96, 81, 4},
};
enum { N_PUBLISHED = sizeof published / sizeof published[0] };

static fy_soc_table *built_in(void)
{
    fy_err e = {0};
    setenv("XDG_CONFIG_HOME", at("none"), 1);
    fy_soc_table *t = fy_soc_table_open(NULL, &e);
    if (t == NULL)
        fail_msg("%s", e.msg);
    return t;
}

static void every_published_chip_is_there(void **state)
{
    (void)state;
    fy_soc_table *t = built_in();
    fy_err e = {0};
    assert_int_equal(fy_soc_table_n(t), N_PUBLISHED);
    for (size_t i = 0; i < N_PUBLISHED; i++) {
        const fy_soc *s = fy_soc_find(t, published[i].name, &e);
        if (s == NULL)
            fail_msg("%s", e.msg);
        assert_string_equal(s->name, published[i].name);
        assert_int_equal(s->soc_id, published[i].id);
        assert_int_equal(s->htp_arch, published[i].arch);
        assert_int_equal(s->vtcm_mb, published[i].vtcm);
        assert_true(s->source[0] != '\0');
        assert_false(s->guessed);
        assert_true(s->n_sessions >= 1 && s->n_sessions <= 4);
        assert_true(s->session_bytes <= 3750000000 && s->session_bytes > 3740000000);
        assert_true(s->context_bytes < 3000000000 && s->file_bytes < 2000000000);
        assert_true(s->file_bytes <= s->context_bytes && s->context_bytes <= s->session_bytes);
    }
    for (size_t i = 1; i < N_PUBLISHED; i++)
        assert_true(strcmp(fy_soc_table_at(t, i - 1)->name, fy_soc_table_at(t, i)->name) < 0);
    fy_soc_table_free(t);
}

static void a_chip_is_found_by_name_alias_title_or_digits(void **state)
{
    (void)state;
    static const struct {
        const char *wanted, *name;
    } cases[] = {{"SM8650", "SM8650"},    {"sm8650", "SM8650"},
                 {"8650", "SM8650"},      {"8 Gen 3", "SM8650"},
                 {"8gen3", "SM8650"},     {"Snapdragon 8 Gen 3", "SM8650"},
                 {"pineapple", "SM8650"}, {"SA8295P", "SA8295"},
                 {"8295", "SA8295"},      {"snapdragon_8_elite", "SM8750"},
                 {"X Elite", "SC8380"},   {"8+ Gen 1", "SM8475"},
                 {"8 Gen 1", "SM8450"},   {"2115P", "SSG2115P"}};
    fy_soc_table *t = built_in();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        const fy_soc *s = fy_soc_find(t, cases[i].wanted, &e);
        if (s == NULL)
            fail_msg("%s", e.msg);
        assert_string_equal(s->name, cases[i].name);
    }
    fy_soc_table_free(t);
}

static void a_chip_that_is_not_there_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *wanted, *says;
    } cases[] = {{"SM8651", "'SM8651' is known, did you mean SM8650?"},
                 {"SM865", "'SM865' is known, did you mean SM8650?"},
                 {"Foo 1", "'Foo 1' is known; give the architecture of its NPU with --htp-arch"},
                 {"", "'' is known; give"},
                 {"2230P", "'2230P' is known"}, /* an XR and an AR chip */
                 {"\x1b[31mKirin", "'\\x1b[31mKirin' is known"}};
    fy_soc_table *t = built_in();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        assert_null(fy_soc_find(t, cases[i].wanted, &e));
        assert_int_equal(e.code, FY_EARG);
        if (strstr(e.msg, cases[i].says) == NULL)
            fail_msg("wanted '%s', got '%s'", cases[i].says, e.msg);
    }
    assert_null(fy_soc_nearest(t, "SM1"));
    fy_soc_table_free(t);
}

static void an_architecture_alone_gets_the_least_limits(void **state)
{
    (void)state;
    const char *text =
        "{\"defaults\": {\"sessions\": 4, \"session_mb\": 3000, \"context_mb\": 2000,"
        " \"file_mb\": 1000}, \"socs\": [{\"name\": \"A\", \"htp_arch\": 75},"
        " {\"name\": \"B\", \"htp_arch\": 75, \"sessions\": 2, \"file_mb\": 900,"
        " \"vtcm_mb\": 8}, {\"name\": \"C\", \"htp_arch\": 79, \"sessions\": 1}]}";
    fy_err e = {0};
    fy_soc s;
    fy_soc_table *t = fy_soc_table_parse(text, strlen(text), "t", &e);
    assert_non_null(t);
    assert_int_equal(fy_soc_of_arch(t, 75, 0, &s, &e), 0);
    assert_string_equal(s.name, "V75");
    assert_int_equal(s.htp_arch, 75);
    assert_int_equal(s.n_sessions, 2);
    assert_int_equal(s.vtcm_mb, 8);
    assert_int_equal(s.session_bytes, 3000u << 20);
    assert_int_equal(s.file_bytes, 900u << 20);
    assert_true(s.guessed);
    fy_soc_release(&s);
    assert_int_equal(fy_soc_of_arch(t, 75, 4, &s, &e), 0);
    assert_int_equal(s.vtcm_mb, 4);
    fy_soc_release(&s);
    assert_int_equal(fy_soc_of_arch(t, 70, 4, &s, &e), -1);
    assert_non_null(strstr(e.msg, "architecture V70; there are V75, V79"));
    e = (fy_err){0};
    assert_int_equal(fy_soc_of_arch(t, -75, 4, &s, &e), -1);
    e = (fy_err){0};
    assert_int_equal(fy_soc_of_arch(t, 75, 65, &s, &e), -1);
    fy_soc_table_free(t);
}

/* --- what is refused -------------------------------------------------------------------------- */

#define LIMITS    "\"sessions\":2,\"session_mb\":3576,\"context_mb\":2861,\"file_mb\":1907"
#define ROW(more) "{\"socs\":[{\"name\":\"X\",\"htp_arch\":75," LIMITS more "}]}"
#define TWO(a, b) \
    "{\"defaults\":{" LIMITS "},\"socs\":[{\"name\":\"A\"," a "},{\"name\":\"B\"," b "}]}"

static void bad_tables_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "f: "},
        {"[]", "f: "},
        {"{}", "no chip in it"},
        {"{\"socs\":[]}", "no chip in it"},
        {"{\"socs\":[{}]}", "f: row 1 of socs: \"name\" is missing"},
        {"{\"soc\":[]}", "unknown key 'soc'; did you mean 'socs'?"},
        {ROW(",\"vtcm\":8"), "f: socs: X: unknown key 'vtcm'; did you mean 'vtcm_mb'?"},
        {ROW(",\"colour\":8"), "unknown key 'colour', expected one of name, aliases"},
        {ROW(",\"vtcm_mb\":0"), "vtcm_mb: 0, expected 1 to 64"},
        {ROW(",\"vtcm_mb\":-8"), "vtcm_mb: -8, expected 1 to 64"},
        {ROW(",\"soc_id\":65536"), "soc_id: 65536, expected 1 to 65535"},
        {ROW(",\"memory_mb\":99999999999"), "memory_mb: 99999999999, expected"},
        {ROW(",\"memory_mb\":99999999999999999999"), "memory_mb: "},
        {ROW(",\"memory_mb\":1.5"), "memory_mb: "},
        {ROW(",\"no_fp16\":1"), "no_fp16: "},
        {ROW(",\"note\":\"\""), "note: 0 bytes"},
        {ROW(",\"note\":\"a\\u001bb\""), "control characters"},
        {ROW(",\"aliases\":\"a\""), "aliases: "},
        {ROW(",\"aliases\":[\"a\",\"A\"]"), "X: 'A' is there twice"},
        {ROW(",\"aliases\":[\"x\"]"), "X: 'x' is there twice"},
        {ROW(",\"aliases\":[\" - \"]"), "has no letter"},
        {ROW(",\"sessions\":2"), "f: "}, /* a key twice */
        {ROW("}],\"defaults\":{\"name\":\"a\""), "f: "},
        {"{\"defaults\":{\"htp_arch\":75},\"socs\":[]}", "defaults: unknown key 'htp_arch'"},
        {"{\"defaults\":{\"sessions\":0},\"socs\":[]}", "defaults: sessions: 0"},
        {"{\"socs\":[{\"name\":\"X Y\",\"htp_arch\":75," LIMITS "}]}", "name 'X Y', expected"},
        {"{\"socs\":[{\"name\":\"X\"," LIMITS "}]}", "X: \"htp_arch\" is missing"},
        {"{\"socs\":[{\"name\":\"X\",\"htp_arch\":75}]}", "\"sessions\" is missing: neither"},
        {"{\"socs\":[{\"name\":\"X\",\"htp_arch\":7," LIMITS "}]}", "htp_arch: 7, expected"},
        {"{\"defaults\":{" LIMITS "},\"socs\":[{\"name\":\"X\",\"htp_arch\":75,"
         "\"context_mb\":3577}]}",
         "X: context_mb 3577 is more than session_mb 3576"},
        {"{\"defaults\":{" LIMITS "},\"socs\":[{\"name\":\"X\",\"htp_arch\":75,"
         "\"file_mb\":2862}]}",
         "X: file_mb 2862 is more than context_mb 2861"},
        {"{\"defaults\":{" LIMITS "},\"socs\":[{\"name\":\"X\",\"htp_arch\":75,"
         "\"sessions\":16,\"session_mb\":16384}]}",
         "X: 16 sessions of 16384 MB are more than"},
        {TWO("\"htp_arch\":75,\"soc_id\":9", "\"htp_arch\":79,\"soc_id\":9"),
         "f: A and B both have soc_id 9, but one has V75 and the other V79"},
        {TWO("\"htp_arch\":75,\"aliases\":[\"b\"]", "\"htp_arch\":79"), "'B' names both A and B"},
        {TWO("\"htp_arch\":75,\"title\":\"t\"", "\"htp_arch\":79,\"aliases\":[\"T\"]"),
         "'T' names both A and B"},
        {"{\"defaults\":{" LIMITS "},\"socs\":[{\"name\":\"A\",\"htp_arch\":75},"
         "{\"name\":\"a\",\"htp_arch\":75}]}",
         "'a' names both A and a"},
        {ROW("") "x", "f: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_soc_table *t = fy_soc_table_parse(cases[i].text, strlen(cases[i].text), "f", &e);
        if (t != NULL || e.code != FY_EFORMAT || strstr(e.msg, cases[i].says) == NULL)
            fail_msg("%s: wanted '%s', got '%s'", cases[i].text, cases[i].says, e.msg);
    }
}

/* --- the user's files ------------------------------------------------------------------------- */

static void own_files_extend_the_table(void **state)
{
    (void)state;
    fy_err e = {0};
    setenv("XDG_CONFIG_HOME", at("config"), 1);
    assert_int_equal(fy_mkdirs(at("config/ferry/soc.d"), &e), 0);
    put_text(
        at("config/ferry/soc.d/10.json"),
        "{\"defaults\": {\"sessions\": 3}, \"socs\": [{\"name\": \"SM9999\", \"htp_arch\": 85},"
        " {\"name\": \"sm8650\", \"htp_arch\": 75, \"vtcm_mb\": 4}]}");
    put_text(at("config/ferry/soc.d/20.json"),
             "{\"socs\": [{\"name\": \"SM9999\", \"htp_arch\": 86, \"source\": \"mine\"}]}");
    put_text(at("config/ferry/soc.d/.hidden.json"), "no JSON");
    put_text(at("config/ferry/soc.d/notes.txt"), "no JSON");
    fy_soc_table *t = fy_soc_table_open(NULL, &e);
    if (t == NULL)
        fail_msg("%s", e.msg);
    assert_int_equal(fy_soc_table_n(t), N_PUBLISHED + 1);
    const fy_soc *s = fy_soc_find(t, "9999", &e);
    assert_non_null(s);
    assert_int_equal(s->htp_arch, 86);
    assert_int_equal(s->n_sessions, 2); /* its own file has no defaults: the built-in ones */
    assert_string_equal(s->source, "mine");
    s = fy_soc_find(t, "SM8650", &e);
    assert_int_equal(s->vtcm_mb, 4);
    assert_int_equal(s->n_sessions, 3);
    assert_int_equal(s->soc_id, 0); /* as a whole */
    assert_string_equal(s->source, at("config/ferry/soc.d/10.json"));
    assert_null(fy_soc_find(t, "8 Gen 3", NULL));
    fy_soc_table_free(t);

    put_text(at("config/ferry/soc.d/30.json"),
             "{\"socs\": [{\"name\": \"MINE\", \"htp_arch\": 75, \"aliases\": [\"sm8750\"]}]}");
    assert_null(fy_soc_table_open(NULL, &e));
    assert_non_null(strstr(e.msg, "soc.d/30.json: "));
    assert_non_null(strstr(e.msg, "names both MINE and SM8750"));
}

static void a_file_replaces_the_table(void **state)
{
    (void)state;
    fy_err e = {0};
    setenv("XDG_CONFIG_HOME", at("config"), 1);
    assert_int_equal(fy_mkdirs(at("config/ferry/soc.d"), &e), 0);
    put_text(at("config/ferry/soc.d/10.json"), "is not read");
    put_text(at("t.json"), ROW(""));
    fy_soc_table *t = fy_soc_table_open(at("t.json"), &e);
    if (t == NULL)
        fail_msg("%s", e.msg);
    assert_int_equal(fy_soc_table_n(t), 1);
    assert_string_equal(fy_soc_table_at(t, 0)->source, at("t.json"));
    fy_soc_table_free(t);
    assert_null(fy_soc_table_open(at("none.json"), &e));
    assert_int_equal(e.code, FY_EIO);
    e = (fy_err){0};
    assert_null(fy_soc_table_open(at("config"), &e));
    e = (fy_err){0};
    assert_null(fy_soc_table_open(NULL, &e));
    assert_non_null(strstr(e.msg, "10.json: "));
}

static void too_large_a_file_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    static char text[(1 << 20) + 2];
    memset(text, ' ', sizeof text - 1);
    put_text(at("t.json"), text);
    assert_null(fy_soc_table_open(at("t.json"), &e));
    assert_non_null(strstr(e.msg, "1048577 bytes, expected at most 1048576"));
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    const char *text =
        TWO("\"htp_arch\":75,\"aliases\":[\"x\",\"y\"],\"title\":\"t\",\"note\":\"n\"",
            "\"htp_arch\":75");
    for (long n = 0;; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_soc_table *t = fy_soc_table_parse(text, strlen(text), "f", &e);
        bool failed = alloc_fail_end();
        assert_true(failed ? t == NULL && e.code == FY_ENOMEM : t != NULL);
        fy_soc_table_free(t);
        if (!failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_published_chip_is_there, tmp_make, tmp_remove),
        cmocka_unit_test_setup_teardown(a_chip_is_found_by_name_alias_title_or_digits, tmp_make,
                                        tmp_remove),
        cmocka_unit_test_setup_teardown(a_chip_that_is_not_there_is_told, tmp_make, tmp_remove),
        cmocka_unit_test(an_architecture_alone_gets_the_least_limits),
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test_setup_teardown(own_files_extend_the_table, tmp_make, tmp_remove),
        cmocka_unit_test_setup_teardown(a_file_replaces_the_table, tmp_make, tmp_remove),
        cmocka_unit_test_setup_teardown(too_large_a_file_is_refused, tmp_make, tmp_remove),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
