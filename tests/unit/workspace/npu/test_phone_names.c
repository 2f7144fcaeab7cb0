#include "workspace/npu/phone_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "workspace/npu/soc_table.h"

static fy_phone_names names;
static fy_soc_table *socs;

static int open_tables(void **state)
{
    (void)state;
    socs = fy_soc_table_open(NULL, NULL);
    return socs != NULL ? fy_phone_names_open(&names, NULL) : -1;
}

static int close_tables(void **state)
{
    (void)state;
    fy_phone_names_release(&names);
    fy_soc_table_free(socs);
    return 0;
}

static void every_phone_has_a_chip_of_the_table_and_a_source(void **state)
{
    (void)state;
    for (size_t i = 0; i < names.n_phones; i++) {
        const fy_phone *p = &names.phones[i];
        assert_true(strlen(p->source) > 0);
        for (size_t k = 0; k < p->n_names; k++) {
            fy_str full = {0};
            fy_err e = {0};
            fy_str_printf(&full, "%s %s", p->maker, p->names[k]);
            const fy_phone *found = fy_phone_find(&names, fy_str_z(&full));
            if (found != p) /* twice in the table */
                fail_msg("'%s' is found as %s", fy_str_z(&full),
                         found != NULL ? found->soc : "none");
            const fy_soc *soc = fy_soc_find(socs, fy_str_z(&full), &e);
            if (soc == NULL)
                fail_msg("'%s': %s", fy_str_z(&full), e.msg);
            assert_string_equal(soc->name, p->soc);
            fy_str_release(&full);
        }
    }
}

static void names_are_compared_loosely_and_numbers_alone_are_none(void **state)
{
    (void)state;
    assert_string_equal(fy_phone_find(&names, "galaxy-s24")->soc, "SM8650");
    assert_string_equal(fy_phone_find(&names, "Samsung Galaxy S24 Ultra")->soc, "SM8650");
    assert_null(fy_phone_find(&names, "Galaxy S24 Ultra")->where);
    assert_non_null(strstr(fy_phone_find(&names, "Galaxy S24+")->where, "Exynos 2400"));
    assert_string_equal(fy_phone_find(&names, "oneplus12")->soc, "SM8650");
    assert_string_equal(fy_phone_find(&names, "Xiaomi 12")->soc, "SM8450");
    static const char *const none[] = {"12", "13", "", "OnePlus", "Galaxy", "Galaxy S2"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_null(fy_phone_find(&names, none[i]));
}

static void chips_of_other_makers_are_known(void **state)
{
    (void)state;
    assert_string_equal(fy_chip_maker(&names, "Dimensity 9300"), "MediaTek's");
    assert_string_equal(fy_chip_maker(&names, "mt6989"), "MediaTek's");
    assert_string_equal(fy_chip_maker(&names, "exynos2400"), "Samsung's");
    assert_string_equal(fy_chip_maker(&names, "Pixel 8 Pro"), "Google's");
    assert_null(fy_chip_maker(&names, "Snapdragon 8 Gen 3"));
    assert_null(fy_chip_maker(&names, ""));
    for (size_t i = 0; i < fy_soc_table_n(socs); i++)
        assert_null(fy_chip_maker(&names, fy_soc_table_at(socs, i)->name));
    fy_err e = {0};
    assert_null(fy_soc_find(socs, "Dimensity 9300", &e));
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, "plans are for Qualcomm Hexagon NPUs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_phone_has_a_chip_of_the_table_and_a_source),
        cmocka_unit_test(names_are_compared_loosely_and_numbers_alone_are_none),
        cmocka_unit_test(chips_of_other_makers_are_known),
    };
    return cmocka_run_group_tests(tests, open_tables, close_tables);
}
