#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/types.h"

static void ids_names_and_sizes_are_those_of_ggml(void **state)
{
    (void)state;
    static const struct {
        uint32_t id;
        const char *name;
        uint16_t block, bytes;
    } rows[] = {
        {0, "f32", 1, 4},         {1, "f16", 1, 2},         {2, "q4_0", 32, 18},
        {3, "q4_1", 32, 20},      {6, "q5_0", 32, 22},      {7, "q5_1", 32, 24},
        {8, "q8_0", 32, 34},      {10, "q2_K", 256, 84},    {11, "q3_K", 256, 110},
        {12, "q4_K", 256, 144},   {13, "q5_K", 256, 176},   {14, "q6_K", 256, 210},
        {16, "iq2_xxs", 256, 66}, {17, "iq2_xs", 256, 74},  {18, "iq3_xxs", 256, 98},
        {19, "iq1_s", 256, 50},   {20, "iq4_nl", 32, 18},   {21, "iq3_s", 256, 110},
        {22, "iq2_s", 256, 82},   {23, "iq4_xs", 256, 136}, {24, "i8", 1, 1},
        {25, "i16", 1, 2},        {26, "i32", 1, 4},        {27, "i64", 1, 8},
        {28, "f64", 1, 8},        {29, "iq1_m", 256, 56},   {30, "bf16", 1, 2},
        {34, "tq1_0", 256, 54},   {35, "tq2_0", 256, 66},   {39, "mxfp4", 32, 17},
        {40, "nvfp4", 64, 36},    {41, "q1_0", 128, 18},    {42, "q2_0", 64, 18},
    };
    size_t known = 0;
    for (uint32_t id = 0; id < 300; id++)
        known += fy_type_get(id) != NULL;
    assert_int_equal(known, sizeof rows / sizeof rows[0]);
    for (size_t i = 0; i < known; i++) {
        const fy_type_info *info = fy_type_get(rows[i].id);
        assert_non_null(info);
        assert_string_equal(info->name, rows[i].name);
        assert_int_equal(info->block, rows[i].block);
        assert_int_equal(info->bytes, rows[i].bytes);
        fy_type t;
        assert_true(fy_type_parse(rows[i].name, &t));
        assert_int_equal(t, rows[i].id);
    }
}

static void removed_and_unknown_ids_have_no_type(void **state)
{
    (void)state;
    static const uint32_t ids[] = {4, 5, 9, 15, 31, 32, 33, 36, 37, 38, 43, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        assert_null(fy_type_get(ids[i]));
    assert_string_equal(fy_type_name((fy_type)4), "?");
}

static void names_are_read_in_any_case(void **state)
{
    (void)state;
    fy_type t = FY_F32;
    assert_true(fy_type_parse("Q4_0", &t));
    assert_int_equal(t, FY_Q4_0);
    assert_true(fy_type_parse("BF16", &t));
    assert_int_equal(t, FY_BF16);
    assert_false(fy_type_parse("q4", &t));
    assert_false(fy_type_parse("", &t));
    assert_int_equal(t, FY_BF16);
}

static void row_bytes_need_whole_blocks_and_no_overflow(void **state)
{
    (void)state;
    assert_int_equal(fy_type_row_bytes(FY_Q4_0, 64), 36);
    assert_int_equal(fy_type_row_bytes(FY_Q8_0, 4096), 4352);
    assert_int_equal(fy_type_row_bytes(FY_F32, 3), 12);
    assert_int_equal(fy_type_row_bytes(FY_Q4_0, 33), 0);
    assert_int_equal(fy_type_row_bytes(FY_F64, UINT64_MAX), 0);
    assert_int_equal(fy_type_row_bytes(FY_Q8_1, 32), 0);
}

static void file_types_are_those_of_llama_cpp(void **state)
{
    (void)state;
    assert_int_equal(fy_type_ftype(FY_F32), 0);
    assert_int_equal(fy_type_ftype(FY_F16), 1);
    assert_int_equal(fy_type_ftype(FY_Q4_0), 2);
    assert_int_equal(fy_type_ftype(FY_Q8_0), 7);
    assert_int_equal(fy_type_ftype(FY_BF16), 32);
    assert_int_equal(fy_type_ftype(FY_I8), -1);
}

static void rows_that_a_block_does_not_divide_have_another_type(void **state)
{
    (void)state;
    static const struct {
        fy_type wanted;
        uint64_t row;
        fy_type got;
    } cases[] = {
        {FY_F32, 7, FY_F32},     {FY_BF16, 48, FY_BF16},  {FY_Q4_0, 64, FY_Q4_0},
        {FY_Q4_0, 48, FY_F16},   {FY_Q8_0, 33, FY_F16},   {FY_Q5_1, 16, FY_F16},
        {FY_Q4_K, 512, FY_Q4_K}, {FY_Q4_K, 288, FY_Q5_0}, {FY_Q4_K, 48, FY_F16},
        {FY_Q5_K, 32, FY_Q5_1},  {FY_Q6_K, 384, FY_Q8_0}, {FY_Q6_K, 257, FY_F16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(fy_type_for_rows(cases[i].wanted, cases[i].row), cases[i].got);
}

static void types_of_whole_files_have_names(void **state)
{
    (void)state;
    assert_string_equal(fy_ftype_name(0), "F32");
    assert_string_equal(fy_ftype_name(15), "Q4_K_M");
    assert_string_equal(fy_ftype_name(13), "Q3_K_L");
    assert_string_equal(fy_ftype_name(30), "IQ4_XS");
    assert_string_equal(fy_ftype_name(36), "TQ1_0");
    assert_string_equal(fy_ftype_name(38 | FY_FTYPE_GUESSED), "MXFP4_MOE");
    assert_null(fy_ftype_name(5));
    assert_null(fy_ftype_name(42));
    assert_null(fy_ftype_name(UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_names_and_sizes_are_those_of_ggml),
        cmocka_unit_test(removed_and_unknown_ids_have_no_type),
        cmocka_unit_test(names_are_read_in_any_case),
        cmocka_unit_test(row_bytes_need_whole_blocks_and_no_overflow),
        cmocka_unit_test(rows_that_a_block_does_not_divide_have_another_type),
        cmocka_unit_test(file_types_are_those_of_llama_cpp),
        cmocka_unit_test(types_of_whole_files_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
