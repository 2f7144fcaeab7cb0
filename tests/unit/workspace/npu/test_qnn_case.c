/* The table of graphs of one operation: the forms of its operands, and messages for others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "workspace/npu/qnn_case.h"

static fy_qnn_tensor seen[16]; /* the tensors that were made, with their constants' first values */
static int64_t first[16];
static uint32_t n_seen;

static fy_qnn_error make(fy_qnn_handle b, fy_qnn_handle device, fy_qnn_options c,
                         fy_qnn_handle *out)
{
    (void)b, (void)device, (void)c;
    *out = &n_seen;
    return 0;
}

static fy_qnn_error make_graph(fy_qnn_handle c, const char *name, fy_qnn_options configs,
                               fy_qnn_handle *out)
{
    (void)c, (void)name, (void)configs;
    *out = &n_seen;
    return 0;
}

static fy_qnn_error take_tensor(fy_qnn_handle g, fy_qnn_tensor *t)
{
    (void)g;
    if (n_seen < 16) {
        if (t->u.v1.u.buffer.data != NULL)
            first[n_seen] = *(const uint8_t *)t->u.v1.u.buffer.data;
        seen[n_seen++] = *t;
    }
    return 0;
}

static fy_qnn_error take_node(fy_qnn_handle g, fy_qnn_op op)
{
    (void)g, (void)op;
    return 0;
}

static fy_qnn_error no_finalize(fy_qnn_handle g, fy_qnn_handle profile, fy_qnn_handle signal)
{
    (void)g, (void)profile, (void)signal;
    return 6022;
}

static fy_qnn_error no_free(fy_qnn_handle c, fy_qnn_handle profile)
{
    (void)c, (void)profile;
    return 0;
}

static const fy_qnn_table table = {.context_create = make,
                                   .context_free = no_free,
                                   .graph_create = make_graph,
                                   .tensor_create = take_tensor,
                                   .graph_add_node = take_node,
                                   .backend_validate = take_node,
                                   .graph_finalize = no_finalize};
static const fy_qnn_lib lib = {.call = &table};
static const fy_qnn_chip chip = {57, 75, 8};

/* One case with this second operand; its tensor is seen[1]. */
static int try_operand(const char *operand, fy_err *e)
{
    char text[600];
    fy_qnn_answer a;
    const int n =
        snprintf(text, sizeof text,
                 "{\"params\": {}, \"cases\": [{\"name\": \"tried\", \"op\": \"Op\", \"in\": "
                 "[\"u16[1,64] -1 to 3\", \"%s\"], \"out\": [\"u16[1,64] -1 to 1\"]}]}",
                 operand);
    fy_qnn_cases *c = fy_qnn_cases_parse(text, (size_t)n, e);
    if (c == NULL)
        return -1;
    n_seen = 0;
    const int rc = fy_qnn_case_run(c, 0, &lib, NULL, &chip, 10, &a, e);
    if (rc == 0)
        assert_int_equal(a.code[FY_QNN_STEP_FINALIZE], 6022);
    if (rc == 0)
        assert_int_equal(a.code[FY_QNN_STEP_EXECUTE], FY_QNN_UNTRIED);
    fy_qnn_answer_release(&a);
    fy_qnn_cases_free(c);
    return rc;
}

static void every_form_of_operand_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t type, kind, rank, encoding;
        double scale; /* of the first channel; 0: not looked at */
        int32_t offset;
    } rows[] = {
        {"u8[2,3,4,5,6] 0 to 255", FY_QNN_UFIXED_8, FY_QNN_APP_WRITE, 5, FY_QNN_SCALE_OFFSET, 1, 0},
        {"u16[64] -1 to 3", FY_QNN_UFIXED_16, FY_QNN_APP_WRITE, 1, FY_QNN_SCALE_OFFSET, 4.0 / 65535,
         -16384},
        {"u16[64] -1 to 3 from 0", FY_QNN_UFIXED_16, FY_QNN_APP_WRITE, 1, FY_QNN_SCALE_OFFSET,
         4.0 / 65535, -16384},
        {"s8[64] -1 to 1", FY_QNN_SFIXED_8, FY_QNN_APP_WRITE, 1, FY_QNN_SCALE_OFFSET, 1.0 / 127, 0},
        {"s16[64] sym 2", FY_QNN_SFIXED_16, FY_QNN_APP_WRITE, 1, FY_QNN_SCALE_OFFSET, 2.0 / 32768,
         0},
        {"u16[64] sym 2", FY_QNN_UFIXED_16, FY_QNN_APP_WRITE, 1, FY_QNN_SCALE_OFFSET, 2.0 / 32768,
         -32768},
        {"u16[64] scale 1/32768 -32768 ends", FY_QNN_UFIXED_16, FY_QNN_APP_WRITE, 1,
         FY_QNN_SCALE_OFFSET, 1.0 / 32768, -32768},
        {"const u8[64] scale 0.5 -7 zero", FY_QNN_UFIXED_8, FY_QNN_STATIC, 1, FY_QNN_SCALE_OFFSET,
         0.5, -7},
        {"const s8[4,64] axis 1", FY_QNN_SFIXED_8, FY_QNN_STATIC, 2, FY_QNN_AXIS, 0, 0},
        {"const s8[4,64] axis 1 bits 4", FY_QNN_SFIXED_8, FY_QNN_STATIC, 2, FY_QNN_BW_AXIS, 0, 0},
        {"const s8[4,64] axis 1 bits 4 signed", FY_QNN_SFIXED_8, FY_QNN_STATIC, 2, FY_QNN_BW_AXIS,
         0, 0},
        {"const s8[32,64] axis 1 lpbq 16", FY_QNN_SFIXED_8, FY_QNN_STATIC, 2, FY_QNN_BLOCKWISE, 0,
         0},
        {"const s8[32,64] axis 1 lpbq 16 masked", FY_QNN_SFIXED_8, FY_QNN_STATIC, 2,
         FY_QNN_BLOCKWISE, 0, 0},
        {"const s32[64] bias", FY_QNN_SFIXED_32, FY_QNN_STATIC, 1, FY_QNN_AXIS, 0, 0},
        {"const s32[64] bias zero", FY_QNN_SFIXED_32, FY_QNN_STATIC, 1, FY_QNN_AXIS, 0, 0},
        {"const s32[64] bias tensor", FY_QNN_SFIXED_32, FY_QNN_STATIC, 1, FY_QNN_SCALE_OFFSET, 0,
         0},
        {"const s32[64] scale 0 0 bias", FY_QNN_SFIXED_32, FY_QNN_STATIC, 1, FY_QNN_SCALE_OFFSET, 0,
         0},
        {"i32[64] below 7", FY_QNN_INT_32, FY_QNN_APP_WRITE, 1, FY_QNN_UNDEFINED, 0, 0},
        {"f16[64] -1 to 1", FY_QNN_FLOAT_16, FY_QNN_APP_WRITE, 1, FY_QNN_UNDEFINED, 0, 0},
        {"const f32[64] -1 to 1 zero", FY_QNN_FLOAT_32, FY_QNN_STATIC, 1, FY_QNN_UNDEFINED, 0, 0},
        {"f32[64]", FY_QNN_FLOAT_32, FY_QNN_APP_WRITE, 1, FY_QNN_UNDEFINED, 0, 0},
        {"bool[64]", FY_QNN_BOOL_8, FY_QNN_APP_WRITE, 1, FY_QNN_UNDEFINED, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fy_err e = {0};
        if (try_operand(rows[i].text, &e) != 0)
            fail_msg("%s: %s", rows[i].text, e.msg);
        assert_int_equal(n_seen, 3);
        const fy_qnn_tensor_v1 *t = &seen[1].u.v1;
        if (t->type != rows[i].type || t->kind != rows[i].kind || t->rank != rows[i].rank ||
            t->quant.encoding != rows[i].encoding)
            fail_msg("%s: type %#x, kind %u, rank %u, encoding %u", rows[i].text, t->type, t->kind,
                     t->rank, t->quant.encoding);
        if (rows[i].scale > 0) {
            assert_true(fabs((double)t->quant.u.scale_offset.scale / rows[i].scale - 1) < 1e-6);
            assert_int_equal(t->quant.u.scale_offset.offset, rows[i].offset);
        }
    }
}

static void words_of_constants_have_their_effect(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(try_operand("const u8[64] scale 0.5 -7 zero", &e), 0);
    assert_int_equal(first[1], 7); /* the code of 0 */
}

static void operands_that_are_malformed_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "operand '': not understood from '' on"},
        {"u16", "operand 'u16': not understood from '' on"},
        {"u16[", "operand 'u16[': not understood from '' on"},
        {"u16[64", "operand 'u16[64': not understood from '' on"},
        {"u16[64,", "not understood from '' on"},
        {"u16[0] 0 to 1", "not understood from '0] 0 to 1' on"},
        {"u16[-1] 0 to 1", "not understood from '-1] 0 to 1' on"},
        {"u16[1,1,1,1,1,1] 0 to 1", "not understood"},
        {"u16[1048576,1048576] 0 to 1", "not understood from '1048576] 0 to 1' on"},
        {"u16[65536,65536,65536,65536] 0 to 1", "not understood from '65536,65536,65536]"},
        {"u17[64] 0 to 1", "not understood from '[64] 0 to 1' on"},
        {"constu16[64] 0 to 1", "not understood"},
        {"u16[64] 0 to", "not understood from '' on"},
        {"u16[64] 0 to nan", "not understood"},
        {"u16[64] 0 until 1", "not understood from 'until 1' on"},
        {"u16[64] 0 to 1 and more", "not understood from 'and more' on"},
        {"u16[64] 0 to 1 from", "not understood from '' on"},
        {"u16[64] sym", "not understood from '' on"},
        {"u16[64] scale 1", "not understood from '' on"},
        {"u16[64] scale 1/ 0", "not understood from '"},
        {"u16[64] scale 1/0 0", "not understood from '"},
        {"i32[64] below", "not understood from '' on"},
        {"const s8[4,64] axis", "not understood from '' on"},
        {"const s8[4,64] axis -1", "not understood from '' on"},
        {"const s8[4,64] axis 1.5", "not understood from '' on"},
        {"const s8[4,64] axis 1 bits", "not understood from '' on"},
        {"const s8[4,64] axis 1 lpbq", "not understood from '' on"},
        {"const s8[4,64] axis 2", "axis 2 of rank 2"},
        {"const s8[4,64] axis 4000", "axis 4000 of rank 2"},
        {"const s8[4,64] axis 1 lpbq 0", "blocks of 0 in channels of 4"},
        {"const s8[4,64] axis 1 lpbq 3", "blocks of 3 in channels of 4"},
        {"const s8[1,8192] axis 1", "8192 channels, at most 4096"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fy_err e = {0};
        if (try_operand(rows[i].text, &e) == 0)
            fail_msg("'%s' was taken", rows[i].text);
        assert_int_equal(e.code, FY_EFORMAT);
        if (strncmp(e.msg, "case 'tried': ", 14) != 0 || strstr(e.msg, rows[i].message) == NULL)
            fail_msg("'%s': %s", rows[i].text, e.msg);
    }
}

static void tables_that_are_malformed_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "[]",
                                        "{}",
                                        "{\"params\": {}}",
                                        "{\"params\": [], \"cases\": []}",
                                        "{\"params\": {}, \"cases\": {}}"};
    static const char *const rows[] = {
        "{}",
        "{\"op\": \"Op\"}",
        "{\"op\": \"Op\", \"in\": [], \"out\": [\"f32[1]\"]}",
        "{\"op\": \"Op\", \"in\": [\"f32[1]\"], \"out\": []}",
        "{\"in\": [\"f32[1]\"], \"out\": [\"f32[1]\"]}",
        "{\"op\": \"Op\", \"in\": [1], \"out\": [\"f32[1]\"]}",
        "{\"op\": \"Op\", \"in\": [\"f32[1]\",\"f32[1]\",\"f32[1]\",\"f32[1]\",\"f32[1]\"], "
        "\"out\": [\"f32[1]\"]}",
        "{\"op\": \"Op\", \"in\": [\"f32[1]\"], \"out\": [\"f32[1]\"], \"params\": {\"p\": []}}",
        "{\"op\": \"Op\", \"in\": [\"f32[1]\"], \"out\": [\"f32[1]\"], \"params\": {\"p\": "
        "[[1],[2,3]]}}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fy_err e = {0};
        assert_null(fy_qnn_cases_parse(texts[i], strlen(texts[i]), &e));
        assert_int_not_equal(e.code, FY_OK);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[400];
        fy_err e = {0};
        fy_qnn_answer a;
        const int n = snprintf(text, sizeof text, "{\"params\": {}, \"cases\": [%s]}", rows[i]);
        fy_qnn_cases *c = fy_qnn_cases_parse(text, (size_t)n, &e);
        assert_non_null(c);
        assert_string_equal(fy_qnn_case_name(c, 0), "?");
        assert_int_equal(fy_qnn_case_run(c, 0, &lib, NULL, &chip, 1, &a, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_null(a.values);
        fy_qnn_cases_free(c);
    }
    fy_qnn_cases_free(NULL);
}

static void every_case_of_the_table_can_be_composed(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_qnn_cases *c = fy_qnn_cases_open(&e);
    assert_non_null(c);
    assert_true(fy_qnn_cases_n(c) >= 200);
    for (size_t i = 0; i < fy_qnn_cases_n(c); i++) {
        fy_qnn_answer a;
        n_seen = 0;
        if (fy_qnn_case_run(c, i, &lib, NULL, &chip, 1, &a, &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(a.code[FY_QNN_STEP_TENSOR], 0);
        assert_int_equal(a.code[FY_QNN_STEP_FINALIZE], 6022);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(fy_qnn_case_name(c, i), fy_qnn_case_name(c, k));
        fy_qnn_answer_release(&a);
    }
    fy_qnn_cases_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_operand_is_read),
        cmocka_unit_test(words_of_constants_have_their_effect),
        cmocka_unit_test(operands_that_are_malformed_are_named),
        cmocka_unit_test(tables_that_are_malformed_are_refused),
        cmocka_unit_test(every_case_of_the_table_can_be_composed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
