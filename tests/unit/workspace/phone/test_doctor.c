#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "workspace/data/data_files.h"
#include "workspace/phone/doctor.h"

static fy_facts facts_of(const char *text)
{
    fy_facts f;
    fy_err e = {0};
    fy_facts_parse(text, strlen(text), &f);
    if (fy_facts_chip(&f, &e) != 0)
        fail_msg("%s", e.msg);
    return f;
}

static void facts_are_read_line_by_line(void **state)
{
    (void)state;
    fy_facts f = facts_of("ro.product.model=Pixel 8\r\nro.build.version.sdk=34\n"
                          "features=fp asimd asimddp\ncpus=9\nMemTotal=1000\nMemAvailable=500\n"
                          "free=10 4096\ndf=/dev/x 1 2 3 4% /data\nbattery.capacity=\n"
                          "battery.level=55\nbattery.temp=305\nbattery.temperature=999\n"
                          "zone=41000 cpu-0\nzone=38 skin\nzone=-5000 cold\nzone=99999999 bad\n"
                          "zone= none\nlib=/vendor/lib64/libQnnHtp.so\npackage=com.termux\n"
                          "unknown=1\nno equals sign\n=\nthermal=3");
    assert_string_equal(f.model, "Pixel 8");
    assert_string_equal(f.soc, "");
    assert_int_equal(f.sdk, 34);
    assert_int_equal(f.mem_total, 1024000);
    assert_int_equal(f.mem_available, 512000);
    assert_int_equal(f.storage_free, 40960);
    assert_int_equal(f.battery_percent, 55);
    assert_true(f.battery_c == 30.5);
    assert_int_equal(f.n_zones, 3);
    assert_true(f.zone[0].c == 41 && f.zone[1].c == 38 && f.zone[2].c == -5);
    assert_string_equal(f.zone[1].type, "skin");
    assert_int_equal(f.n_libs, 1);
    assert_int_equal(f.n_packages, 1);
    assert_int_equal(f.thermal_status, 3);
    assert_int_equal(f.page_bytes, -1);
}

static void df_is_read_when_stat_says_nothing(void **state)
{
    (void)state;
    assert_int_equal(facts_of("free=\ndf=/dev/block/dm-43 100 60 40 60% /data\n").storage_free,
                     40 * 1024);
    assert_int_equal(facts_of("df=100 60 40 60% /data\n").storage_free, 40 * 1024);
    assert_int_equal(facts_of("df=nothing\n").storage_free, -1);
}

static void absurd_answers_are_unknown(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text);
    memcpy(text, "ro.product.model=", 17);
    fy_facts f;
    fy_facts_parse(text, sizeof text, &f);
    assert_int_equal(strlen(f.model), FY_FACT_BYTES - 1);
    assert_int_equal(facts_of("MemTotal=99999999999999999999\n").mem_total, -1);
    assert_int_equal(facts_of("MemTotal=9007199254740992\n").mem_total, -1);
    assert_int_equal(facts_of("free=9000000000000000 9000000000000000\n").storage_free, -1);
    fy_facts_parse("ro.product.model=a\0b\n", 21, &f);
    assert_string_equal(f.model, "a");
    fy_facts_parse(NULL, 0, &f);
    assert_int_equal(f.sdk, -1);
}

static fy_verdict verdict_of(const fy_doctor_report *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->check[i].name, name) == 0)
            return r->check[i].verdict;
    }
    fail_msg("no check %s", name);
    return FY_CHECK_OK;
}

static void the_npu_of_the_workspace_has_to_be_the_phones(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int arch, compiled;
        fy_verdict verdict;
    } cases[] = {
        {"ro.soc.model=SM8650\nlib=/vendor/lib64/libcdsprpc.so\n", 75, 0, FY_CHECK_OK},
        {"ro.soc.model=SM8650\nlib=/vendor/lib64/libcdsprpc.so\n", 75, 75, FY_CHECK_OK},
        {"ro.soc.model=SM8650\nlib=/vendor/lib64/libcdsprpc.so\n", 79, 0, FY_CHECK_FAIL},
        {"ro.soc.model=SM8650\n", 75, 0, FY_CHECK_FAIL},
        {"ro.soc.model=SM8650\nlib=/vendor/lib64/libcdsprpc.so\n", 0, 0, FY_CHECK_WARNING},
        {"ro.soc.model=SM8650\nlib=/vendor/lib64/libcdsprpc.so\n", 0, 75, FY_CHECK_WARNING},
        {"ro.soc.model=SM8650\nlib=/vendor/lib64/libcdsprpc.so\n", 0, 79, FY_CHECK_FAIL},
        {"ro.soc.model=MT6989\nlib=/vendor/lib64/libcdsprpc.so\n", 75, 0, FY_CHECK_WARNING},
        {"ro.soc.model=X\nlib=/vendor/lib64/libcdsprpc.so\nlib=/vendor/lib64/libQnnHtpV79Stub.so\n",
         75, 0, FY_CHECK_FAIL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_doctor_report r = {.facts = facts_of(cases[i].text)};
        r.need = (fy_need){.dir = strdup("d"), .npu = true, .npu_arch = cases[i].arch};
        r.need.compiled = cases[i].compiled;
        r.need.name = strdup("d");
        fy_doctor_checks(&r);
        assert_int_equal(verdict_of(&r, "npu"), cases[i].verdict);
        fy_doctor_release(&r);
    }
}

static void what_a_phone_does_not_say_is_called_unknown(void **state)
{
    (void)state;
    fy_doctor_report r = {.facts = facts_of("")};
    fy_doctor_checks(&r);
    for (size_t i = 0; i < r.n; i++) {
        if (strcmp(r.check[i].name, "phone") == 0)
            assert_string_equal(r.check[i].found, "unknown unknown, chip unknown (unknown)");
        if (strcmp(r.check[i].name, "npu") == 0)
            assert_string_equal(r.check[i].found,
                                "none that ferry knows in unknown; libcdsprpc.so was not found");
    }
    fy_doctor_release(&r);
}

static void a_failure_of_the_phone_comes_before_what_does_not_fit(void **state)
{
    (void)state;
    fy_doctor_report r = {0};
    assert_int_equal(fy_doctor_code(&r), FY_OK);
    fy_doctor_add(&r, "a", FY_CHECK_WARNING, FY_OK, "", "");
    assert_int_equal(fy_doctor_code(&r), FY_OK);
    fy_doctor_add(&r, "b", FY_CHECK_FAIL, FY_EFIT, "", "");
    assert_int_equal(fy_doctor_code(&r), FY_EFIT);
    fy_doctor_add(&r, "c", FY_CHECK_FAIL, FY_EDEVICE, "", "");
    fy_doctor_add(&r, "d", FY_CHECK_FAIL, FY_EFIT, "", "");
    assert_int_equal(fy_doctor_code(&r), FY_EDEVICE);
    assert_int_equal(fy_doctor_count(&r, FY_CHECK_FAIL), 3);
    fy_doctor_release(&r);
}

/* --- quirks ----------------------------------------------------------------------------------- */

static void the_builtin_table_is_whole(void **state)
{
    (void)state;
    const fy_data_file *f = fy_data_find("quirks.json");
    fy_quirks q = {0};
    fy_err e = {0};
    if (f == NULL || fy_quirks_parse(&q, (const char *)f->data, f->size, "table", &e) != 0)
        fail_msg("%s", e.msg);
    assert_true(q.n >= 6);
    for (size_t i = 0; i < q.n; i++)
        assert_true(q.row[i].source[0] != '\0');
    fy_quirks_release(&q);
}

static bool fits(const char *row, const char *facts, const fy_need *need)
{
    fy_quirks q = {0};
    fy_err e = {0};
    char text[600];
    snprintf(text, sizeof text, "[{\"id\":\"x\",\"found\":\"f\",\"verdict\":\"note\"%s%s}]",
             *row != '\0' ? "," : "", row);
    if (fy_quirks_parse(&q, text, strlen(text), "t", &e) != 0)
        fail_msg("%s", e.msg);
    fy_facts f = facts_of(facts);
    bool yes = fy_quirk_fits(&q.row[0], &f, need);
    fy_quirks_release(&q);
    return yes;
}

static void a_row_fits_the_phones_that_it_describes(void **state)
{
    (void)state;
    static char dir[] = "d";
    const fy_need none = {0}, cpu = {.dir = dir, .parameters = 1000000000},
                  npu = {.dir = dir, .parameters = 8000000000, .npu = true};
    const char *phone = "ro.product.manufacturer=Honor\nro.soc.model=SA8295P\n"
                        "ro.build.version.release=14\npackage=com.termux\n";
    assert_true(fits("", phone, &none));
    assert_true(fits("\"manufacturer\":[\"x\",\"HONOR\"]", phone, &none));
    assert_false(fits("\"manufacturer\":[\"x\"]", phone, &none));
    assert_true(fits("\"soc\":[\"sa82??*\"]", phone, &none));
    assert_true(fits("\"android_below\":15,\"android_from\":14", phone, &none));
    assert_false(fits("\"android_below\":14", phone, &none));
    assert_false(fits("\"android_below\":14", "", &none));
    assert_false(fits("\"android_from\":14", "", &none));
    assert_false(fits("\"htp_below\":68", phone, &none));
    assert_true(fits("\"package\":[\"com.termux\"]", phone, &none));
    assert_false(fits("\"package\":[\"com.termux\"]", "", &none));
    assert_true(fits("\"npu\":true", phone, &none));
    assert_false(fits("\"npu\":true", phone, &cpu));
    assert_true(fits("\"npu\":true,\"parameters_above\":3e9", phone, &npu));
    assert_false(fits("\"parameters_above\":3e9", phone, &cpu));
}

static void what_is_wrong_in_a_table_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{}", "expected"},
        {"[{}]", "lacks 'id'"},
        {"[{\"id\":\"a\",\"found\":\"b\",\"verdict\":\"ok\"}]", "verdict: 'ok'"},
        {"[{\"id\":\"a\",\"colour\":\"b\"}]", "unknown key 'colour'"},
        {"[{\"soc\":\"a\"}]", "expected"},
        {"[]]", "t: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_quirks q = {0};
        fy_err e = {0};
        assert_int_equal(fy_quirks_parse(&q, cases[i].text, strlen(cases[i].text), "t", &e), -1);
        if (strstr(e.msg, cases[i].message) == NULL)
            fail_msg("%s: %s", cases[i].text, e.msg);
        fy_quirks_release(&q);
    }
}

static void a_later_row_of_the_same_id_replaces(void **state)
{
    (void)state;
    fy_quirks q = {0};
    fy_err e = {0};
    const char *a = "[{\"id\":\"a\",\"found\":\"1\",\"verdict\":\"note\"}]";
    const char *b = "[{\"id\":\"a\",\"found\":\"2\",\"verdict\":\"fail\"}]";
    assert_int_equal(fy_quirks_parse(&q, a, strlen(a), "t", &e), 0);
    assert_int_equal(fy_quirks_parse(&q, b, strlen(b), "t", &e), 0);
    assert_int_equal(q.n, 1);
    assert_string_equal(q.row[0].found, "2");
    fy_quirks_release(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_are_read_line_by_line),
        cmocka_unit_test(df_is_read_when_stat_says_nothing),
        cmocka_unit_test(absurd_answers_are_unknown),
        cmocka_unit_test(the_npu_of_the_workspace_has_to_be_the_phones),
        cmocka_unit_test(what_a_phone_does_not_say_is_called_unknown),
        cmocka_unit_test(a_failure_of_the_phone_comes_before_what_does_not_fit),
        cmocka_unit_test(the_builtin_table_is_whole),
        cmocka_unit_test(a_row_fits_the_phones_that_it_describes),
        cmocka_unit_test(what_is_wrong_in_a_table_is_named),
        cmocka_unit_test(a_later_row_of_the_same_id_replaces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
