/* The text of metrics: temperatures of zones, whatever their drivers call them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "server/metrics.h"

static char dir[] = "/tmp/ferry_metrics_XXXXXX";

static void put(int zone, const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/sys/class/thermal/thermal_zone%d", dir, zone);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/sys/class/thermal/thermal_zone%d/%s", dir, zone, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int make(void **state)
{
    char path[200];
    static const char *const parts[] = {"sys", "sys/class", "sys/class/thermal"};
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, parts[i]);
        mkdir(path, 0755);
    }
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    return fy_tree_remove(dir);
}

static void zones_become_series(void **state)
{
    fy_str out = {0};
    (void)state;
    fy_metrics_put_heat("/nowhere", &out);
    assert_int_equal(out.len, 0);
    put(0, "type", "cpu-0\n"), put(0, "temp", "41500\n");
    put(1, "type", "battery\n"), put(1, "temp", "30\n");
    put(2, "type", "cpu-0\n"), put(2, "temp", "42000\n");
    put(3, "type", "off\n"), put(3, "temp", "-273000\n");
    put(4, "type", "a\"} 1\\\x01\xff"), put(4, "temp", "50000");
    put(5, "type", "no temperature");
    fy_metrics_put_heat(dir, &out);
    assert_string_equal(fy_str_z(&out), "# HELP ferry_thermal_celsius Temperatures of the phone.\n"
                                        "# TYPE ferry_thermal_celsius gauge\n"
                                        "ferry_thermal_celsius{zone=\"cpu-0\"} 41.5\n"
                                        "ferry_thermal_celsius{zone=\"battery\"} 30\n"
                                        "ferry_thermal_celsius{zone=\"cpu-0#2\"} 42\n"
                                        "ferry_thermal_celsius{zone=\"a__ 1___\"} 50\n");
    fy_str_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(zones_become_series)};
    return cmocka_run_group_tests(tests, make, unmake);
}
