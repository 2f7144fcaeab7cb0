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

#include "base/cpu.h"

static char dir[256];

static int make_dir(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/ferry-cores-XXXXXX", tmp != NULL ? tmp : "/tmp");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static void assert_is(const fy_cpus *s, const char *want)
{
    fy_str text = {0};
    fy_cpus_text(s, &text);
    assert_string_equal(fy_str_z(&text), want);
    fy_str_release(&text);
}

/* --- what a user writes ---------------------------------------------------------------------- */

static void a_mask_has_a_bit_for_each_cpu(void **state)
{
    (void)state;
    static const struct {
        const char *hex, *want;
    } cases[] = {{"1", "0"},          {"f0", "4-7"},         {"0xF0", "4-7"},
                 {"0Xa5", "0,2,5,7"}, {"00000000fc", "2-7"}, {"10000000000000001", "0,64"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_cpus s = {0};
        assert_int_equal(fy_cpus_add_mask(&s, cases[i].hex, &e), 0);
        assert_is(&s, cases[i].want);
    }
    char all[FY_CPUS_MAX / 4 + 1];
    memset(all, 'f', sizeof all - 1);
    all[sizeof all - 1] = '\0';
    fy_err e = {0};
    fy_cpus s = {0};
    assert_int_equal(fy_cpus_add_mask(&s, all, &e), 0);
    assert_int_equal(fy_cpus_count(&s), FY_CPUS_MAX);
}

static void what_is_no_mask_is_refused(void **state)
{
    (void)state;
    char one_more[FY_CPUS_MAX / 4 + 2];
    memset(one_more, '1', sizeof one_more - 1);
    one_more[sizeof one_more - 1] = '\0';
    const char *const bad[] = {"",   "0",  "0x", "0x0",   "g",     "4-7",
                               " f", "f ", "-1", "0x0x1", one_more};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_err e = {0};
        fy_cpus s = {0};
        assert_int_equal(fy_cpus_add_mask(&s, bad[i], &e), -1);
        assert_int_equal(e.code, FY_EARG);
        assert_non_null(strstr(e.msg, "f0 is CPUs 4 to 7"));
        assert_int_equal(fy_cpus_count(&s), 0);
    }
}

static void a_range_has_both_its_ends(void **state)
{
    (void)state;
    static const struct {
        const char *range, *want;
    } cases[] = {{"4-7", "4-7"}, {"3-3", "3"}, {"-2", "0-2"}, {"1020-", "1020-1023"}, {"0-0", "0"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_cpus s = {0};
        assert_int_equal(fy_cpus_add_range(&s, cases[i].range, &e), 0);
        assert_is(&s, cases[i].want);
    }
    fy_err e = {0};
    fy_cpus both = {0};
    assert_is(&both, "none");
    assert_int_equal(fy_cpus_add_mask(&both, "3", &e), 0);
    assert_int_equal(fy_cpus_add_range(&both, "1-4", &e), 0);
    assert_is(&both, "0-4");
}

static void what_is_no_range_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",       "-",     "4",     "7-4",
                                      "0-1024", "1024-", "--1",   "4--7",
                                      "a-b",    "4-7,9", "4 - 7", "0-99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_err e = {0};
        fy_cpus s = {0};
        assert_int_equal(fy_cpus_add_range(&s, bad[i], &e), -1);
        assert_int_equal(e.code, FY_EARG);
        assert_non_null(strstr(e.msg, "as in 4-7"));
        assert_int_equal(fy_cpus_count(&s), 0);
    }
}

/* --- the calling thread ---------------------------------------------------------------------- */

static void a_thread_is_pinned_to_what_is_there(void **state)
{
    (void)state;
    fy_err e = {0};
    const fy_cpus before = fy_cpus_usable();
    fy_cpus first = {0}, got;
    assert_true(fy_cpus_count(&before) > 0);
    int cpu = 0;
    while (!fy_cpus_has(&before, cpu))
        cpu++;
    fy_cpus_add(&first, cpu);
    fy_cpus more = first;
    fy_cpus_add(&more, FY_CPUS_MAX - 1); /* no machine of ours has it */
    assert_int_equal(fy_cpus_pin(&more, &got, &e), 0);
    assert_memory_equal(&got, &first, sizeof first);
    const fy_cpus now = fy_cpus_usable();
    assert_memory_equal(&now, &first, sizeof first);
    assert_int_equal(fy_cpus_pin(&before, NULL, &e), 0);
}

static void cpus_that_are_not_there_are_refused_with_those_that_are(void **state)
{
    (void)state;
    fy_err e = {0};
    const fy_cpus before = fy_cpus_usable();
    fy_cpus none = {0};
    fy_cpus_add(&none, FY_CPUS_MAX - 2);
    fy_cpus_add(&none, FY_CPUS_MAX - 1);
    assert_int_equal(fy_cpus_pin(&none, NULL, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "1022-1023: none of them is available"));
    fy_str text = {0};
    fy_cpus_text(&before, &text);
    assert_non_null(strstr(e.msg, fy_str_z(&text)));
    fy_str_release(&text);
    const fy_cpus after = fy_cpus_usable();
    assert_memory_equal(&after, &before, sizeof before);
}

/* --- fast and slow --------------------------------------------------------------------------- */

static void put(int cpu, const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/cpu%d", dir, cpu);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/cpu%d/cpufreq", dir, cpu);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/cpu%d/%s", dir, cpu, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* The tree of a phone: groups of cores with a capacity (0: the file is absent) and a clock in kHz
 * (likewise). */
typedef struct {
    int n, capacity, khz;
} group;

static int make_phone(const group *g)
{
    char text[300];
    snprintf(text, sizeof text, "rm -rf '%s'/cpu*", dir);
    assert_int_equal(system(text), 0);
    int cpu = 0;
    for (; g->n > 0; g++) {
        for (int i = 0; i < g->n; i++, cpu++) {
            snprintf(text, sizeof text, "%d\n", g->capacity);
            if (g->capacity > 0)
                put(cpu, "cpu_capacity", text);
            snprintf(text, sizeof text, "%d\n", g->khz);
            if (g->khz > 0)
                put(cpu, "cpufreq/cpuinfo_max_freq", text);
        }
    }
    return cpu;
}

static fy_cpus first_cpus(int n)
{
    fy_cpus s = {0};
    for (int i = 0; i < n; i++)
        fy_cpus_add(&s, i);
    return s;
}

/* Capacities as the kernel makes them of capacity-dmips-mhz and the highest operating point in
 * Linux's device trees; 0 where the phone's own kernel is not known to have them. */
static void slow_cores_of_phones_are_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *name, *want;
        group groups[5];
    } phones[] = {
        {"Snapdragon 8 Gen 3: X4, five A720, two A520",
         "2-7",
         {{2, 380, 2265600}, {3, 924, 3148800}, {2, 868, 2956800}, {1, 1024, 3302400}}},
        {"Snapdragon 8 Gen 3 without capacities",
         "2-7",
         {{2, 0, 2265600}, {3, 0, 3148800}, {2, 0, 2956800}, {1, 0, 3302400}}},
        {"Snapdragon 8 Gen 2: X3, two A715, two A710, three A510",
         "3-7",
         {{3, 206, 2016000}, {4, 609, 2803200}, {1, 1024, 3187200}}},
        {"Snapdragon 8 Gen 2 without capacities",
         "3-7",
         {{3, 0, 2016000}, {4, 0, 2803200}, {1, 0, 3187200}}},
        {"Snapdragon 8 Elite: two prime, six performance cores",
         "0-7",
         {{6, 0, 3532800}, {2, 0, 4320000}}},
        {"Tensor G1: two X1, two A76, four A55",
         "4-7",
         {{4, 161, 1803000}, {2, 498, 2253000}, {2, 1024, 2802000}}},
        {"Tensor G1 without capacities",
         "4-7",
         {{4, 0, 1803000}, {2, 0, 2253000}, {2, 0, 2802000}}},
        {"Snapdragon 845: four and four", "4-7", {{4, 385, 1766400}, {4, 1024, 2803200}}},
        {"MT8192: four A76, four A55 that count 40 %",
         "4-7",
         {{4, 415, 1701000}, {4, 1024, 2171000}}},
        {"Dimensity 9300, clocks only: four X4, four A720 at 2 GHz",
         "4-7",
         {{4, 0, 2000000}, {3, 0, 2850000}, {1, 0, 3250000}}},
        {"a kernel that was told nothing: clocks decide",
         "4-7",
         {{4, 1024, 1766400}, {4, 1024, 2803200}}},
        {"all the same", "0-7", {{8, 1024, 2000000}}},
        {"nothing is known", "0-7", {{8, 0, 0}}},
        {"clocks of some only", "0-7", {{4, 0, 1766400}, {4, 0, 0}}},
        {"a capacity that one core lacks", "4-7", {{4, 385, 1766400}, {4, 0, 2803200}}},
    };
    for (size_t i = 0; i < sizeof phones / sizeof phones[0]; i++) {
        const fy_cpus all = first_cpus(make_phone(phones[i].groups));
        const fy_cpus fast = fy_cpus_fast(&all, dir);
        print_message("%s\n", phones[i].name);
        assert_is(&fast, phones[i].want);
    }
}

static void only_cores_that_may_be_used_are_compared(void **state)
{
    (void)state;
    static const group phone[] = {{2, 380, 0}, {5, 868, 0}, {1, 1024, 0}, {0}};
    make_phone(phone);
    const fy_cpus small = first_cpus(2);
    fy_cpus fast = fy_cpus_fast(&small, dir);
    assert_is(&fast, "0-1");
    const fy_cpus four = first_cpus(4);
    fast = fy_cpus_fast(&four, dir);
    assert_is(&fast, "2-3");
    const fy_cpus none = {0};
    fast = fy_cpus_fast(&none, dir);
    assert_is(&fast, "none");
}

static void files_with_anything_in_them_leave_all_cores(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "\n", "fast\n", "-5\n", "0\n", "99999999999999999999\n", "12 13\n"};
    static const group two[] = {{1, 100, 0}, {1, 1024, 0}, {0}};
    const fy_cpus all = first_cpus(make_phone(two));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put(0, "cpu_capacity", bad[i]);
        const fy_cpus fast = fy_cpus_fast(&all, dir);
        assert_is(&fast, "0-1");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_has_a_bit_for_each_cpu),
        cmocka_unit_test(what_is_no_mask_is_refused),
        cmocka_unit_test(a_range_has_both_its_ends),
        cmocka_unit_test(what_is_no_range_is_refused),
        cmocka_unit_test(a_thread_is_pinned_to_what_is_there),
        cmocka_unit_test(cpus_that_are_not_there_are_refused_with_those_that_are),
        cmocka_unit_test(slow_cores_of_phones_are_left_out),
        cmocka_unit_test(only_cores_that_may_be_used_are_compared),
        cmocka_unit_test(files_with_anything_in_them_leave_all_cores),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
