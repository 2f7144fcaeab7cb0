/* Encodings of activations: what each class gets from its range, and ranges that are no good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/alloc_fail.h"
#include "workspace/compile/qencode.h"

/* --- one tensor ------------------------------------------------------------------------------- */

static int encode_one(fy_q_class class, fy_q_type type, const fy_q_range *r, fy_q_encoding *out,
                      fy_err *e)
{
    fy_q_range_of name = {"x", class};
    fy_q_tensor t = {.name = "t",
                     .kind = FY_Q_INNER,
                     .class = class,
                     .type = type,
                     .rank = 4,
                     .dims = {1, 1, 2, 3},
                     .range = r != NULL ? 0 : FY_Q_NONE,
                     .mask = FY_Q_NONE};
    const fy_qgraph g = {.tensors = &t, .n_tensors = 1, .ranges = &name, .n_ranges = 1};
    fy_q_ranges *ranges = fy_q_ranges_new("m", e);
    fy_q_encodings c;
    if (r != NULL)
        *fy_q_ranges_add(ranges, "x", e) = *r;
    const int rc = fy_q_encode(&g, ranges, &c, e);
    if (rc == 0) {
        *out = c.of[0];
        fy_q_encodings_release(&c);
    }
    fy_q_ranges_free(ranges);
    return rc;
}

static fy_q_encoding encoding(fy_q_class class, fy_q_type type, float min, float max)
{
    const fy_q_range r = {min, max, min, max};
    fy_q_encoding c = {0};
    fy_err e = {0};
    if (encode_one(class, type, &r, &c, &e) != 0)
        fail_msg("%s", e.msg);
    return c;
}

static double lowest(fy_q_encoding c)
{
    return (double)c.scale * c.offset;
}
static double highest(fy_q_encoding c, int codes)
{
    return (double)c.scale * (codes + c.offset);
}

/* Within a step. */
static void assert_near(double found, double expected, double step)
{
    if (!(fabs(found - expected) <= step))
        fail_msg("%.9g, expected %.9g", found, expected);
}

/* --- calibrated ------------------------------------------------------------------------------- */

static void activations_have_room_and_zero(void **state)
{
    static const struct {
        float min, max;
        double low, high;
    } cases[] = {
        {-4, 4, -6, 6},
        {-2, 6, -4, 8},
        {0, 8, 0, 10},    /* what is never negative gets no room below 0 */
        {2, 8, 0, 10},    /* 0 is inside, and nothing below */
        {-8, -2, -10, 0}, /* the same above */
        {0, 0, 0, 1e-4},  /* a width that a scale can be made of */
        {-1e-7f, 1e-7f, -1.5e-7, 1e-4 - 1.5e-7},
        {-1e30f, 1e30f, -1.5e30, 1.5e30},
    };
    static const struct {
        fy_q_type type;
        int codes;
    } types[] = {{FY_Q_U16, 65535}, {FY_Q_U8, 255}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t k = 0; k < 2; k++) {
            const fy_q_encoding c = encoding(FY_QC_ACT, types[k].type, cases[i].min, cases[i].max);
            assert_true(c.scale > 0 && isfinite(c.scale));
            assert_in_range(-c.offset, 0, types[k].codes); /* 0 is a code */
            assert_near(lowest(c), cases[i].low, (double)c.scale * 0.51);
            assert_near(highest(c, types[k].codes), cases[i].high, (double)c.scale * 0.51);
        }
    }
}

static void keys_values_and_tables_are_symmetric(void **state)
{
    static const struct {
        fy_q_class class;
        fy_q_type type;
        float steps; /* on each side */
        int32_t offset;
    } cases[] = {
        {FY_QC_KV, FY_Q_U8, 127, -128},
        {FY_QC_KV, FY_Q_S16, 32767, 0},
        {FY_QC_KV, FY_Q_U16, 32767, -32768},
        {FY_QC_TABLE, FY_Q_U16, 32767, -32768},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fy_q_encoding a = encoding(cases[i].class, cases[i].type, -3, 2);
        const fy_q_encoding b = encoding(cases[i].class, cases[i].type, 1, 3);
        const fy_q_encoding none = encoding(cases[i].class, cases[i].type, 0, 0);
        assert_true(a.scale == 3 / cases[i].steps && b.scale == a.scale);
        assert_true(none.scale == 1e-4f / cases[i].steps);
        assert_int_equal(a.offset, cases[i].offset);
    }
}

static void what_softmax_and_its_like_give_is_fixed(void **state)
{
    static const struct {
        fy_q_class class;
        fy_q_encoding want;
    } cases[] = {
        {FY_QC_UNIT, {1.0f / 65535, 0}},
        {FY_QC_SIGMOID, {1.0f / 65536, 0}},
        {FY_QC_TANH, {1.0f / 32768, -32768}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_q_encoding c;
        fy_err e = {0};
        assert_int_equal(encode_one(cases[i].class, FY_Q_U16, NULL, &c, &e), 0);
        assert_true(c.scale == cases[i].want.scale);
        assert_int_equal(c.offset, cases[i].want.offset);
    }
}

/* The top of the scores stays, the bottom is 20 below the lowest one. */
static void scores_with_the_mask_reach_below(void **state)
{
    (void)state;
    const fy_q_encoding score = encoding(FY_QC_SCORE, FY_Q_U16, -6, 2);
    const fy_q_encoding masked = encoding(FY_QC_MASKED, FY_Q_U16, -6, 2);
    assert_near(lowest(score), -8, 1e-3);
    assert_near(highest(score, 65535), 4, 1e-3);
    assert_near(lowest(masked), -28, 1e-3);
    assert_near(highest(masked, 65535), 4, 1e-3);
}

static void floats_have_none(void **state)
{
    static const fy_q_type types[] = {FY_Q_F32, FY_Q_F16, FY_Q_BOOL};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        fy_q_tensor t = {.name = "t", .kind = FY_Q_INNER, .class = FY_QC_ACT, .type = types[i]};
        const fy_qgraph g = {.tensors = &t, .n_tensors = 1};
        fy_q_encodings c;
        fy_err e = {0};
        assert_int_equal(fy_q_encode(&g, NULL, &c, &e), 0); /* and need no ranges */
        assert_true(c.of[0].scale == 0 && c.of[0].offset == 0);
        fy_q_encodings_release(&c);
    }
}

/* --- the mask --------------------------------------------------------------------------------- */

enum { HEADS = 3 };

/* A mask, and for each head the scores with it; `other`: a range of another chunk. */
static void encode_masks(const fy_q_range *heads, const char *other, fy_q_type type,
                         fy_q_encodings *out)
{
    static const char *const names[HEADS] = {"h0.scores", "h1.scores", "h2.scores"};
    fy_q_range_of of[HEADS];
    fy_q_tensor t[HEADS + 1] = {
        {.name = "mask", .kind = FY_Q_IN, .class = FY_QC_MASK, .type = type, .range = FY_Q_NONE}};
    fy_err e = {0};
    fy_q_ranges *ranges = fy_q_ranges_new("m", &e);
    for (uint32_t i = 0; i < HEADS; i++) {
        of[i] = (fy_q_range_of){names[i], FY_QC_SCORE};
        t[1 + i] = (fy_q_tensor){
            .name = names[i], .kind = FY_Q_INNER, .class = FY_QC_MASKED, .type = type, .range = i};
        *fy_q_ranges_add(ranges, names[i], &e) = heads[i];
    }
    *fy_q_ranges_add(ranges, other, &e) = (fy_q_range){-100, 100, -100, 100};
    const fy_qgraph g = {.tensors = t, .n_tensors = HEADS + 1, .ranges = of, .n_ranges = HEADS};
    if (fy_q_encode(&g, ranges, out, &e) != 0)
        fail_msg("%s", e.msg);
    fy_q_ranges_free(ranges);
}

/* Wherever a score lies, the mask takes it to the bottom of its head's encoding. */
static void the_mask_is_as_deep_as_the_widest_head(void **state)
{
    (void)state;
    const fy_q_range heads[HEADS] = {{-1, 1, -1, 1}, {-40, 60, -40, 60}, {-9, -5, -9, -5}};
    fy_q_encodings c;
    encode_masks(heads, "L9.out", FY_Q_U16, &c);
    assert_near((double)c.mask_depth, 150 + 20, 1e-3);
    assert_int_equal(c.of[0].offset, -65535); /* the highest code is 0 */
    assert_near((double)c.of[0].scale, (double)c.mask_depth / 65535, 1e-9);
    for (size_t i = 0; i < HEADS; i++)
        assert_true(highest(c.of[1 + i], 65535) - (double)c.mask_depth <=
                    lowest(c.of[1 + i]) + (double)c.of[1 + i].scale);
    fy_q_encodings_release(&c);
    encode_masks(heads, "L9.out", FY_Q_F16, &c);
    assert_true(c.of[0].scale == 0);
    fy_q_encodings_release(&c);
}

/* However the model is cut. */
static void the_mask_is_as_deep_in_every_chunk(void **state)
{
    (void)state;
    const fy_q_range heads[HEADS] = {{-1, 1, -1, 1}, {-40, 60, -40, 60}, {-9, -5, -9, -5}};
    fy_q_encodings c;
    encode_masks(heads, "L9.h0.scores", FY_Q_U16, &c);
    assert_near((double)c.mask_depth, 300 + 20, 1e-3);
    assert_near((double)c.of[0].scale, (double)c.mask_depth / 65535, 1e-9);
    fy_q_encodings_release(&c);
}

/* --- ranges that are no good ------------------------------------------------------------------ */

static void ranges_that_are_no_good(void **state)
{
    static const struct {
        fy_q_range r;
        const char *says;
    } cases[] = {
        {{INFINITY, -INFINITY, 0, 0}, "the range of 'x' is inf to -inf, expected two finite"},
        {{3, 2, 2, 3}, "the range of 'x' is 3 to 2"},
        {{-INFINITY, 0, 0, 0}, "the range of 'x' is -inf to 0"},
        {{0, NAN, 0, 0}, "the range of 'x' is 0 to nan"},
    };
    fy_q_encoding c;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        assert_int_equal(encode_one(FY_QC_ACT, FY_Q_U16, &cases[i].r, &c, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, cases[i].says) == NULL)
            fail_msg("%s, expected %s", e.msg, cases[i].says);
    }
}

static void a_range_that_is_missing_is_named(void **state)
{
    (void)state;
    fy_q_range_of name = {"L0.norm", FY_QC_ACT};
    fy_q_tensor t = {.name = "t", .kind = FY_Q_INNER, .class = FY_QC_ACT, .type = FY_Q_U16};
    const fy_qgraph g = {.tensors = &t, .n_tensors = 1, .ranges = &name, .n_ranges = 1};
    fy_err e = {0}, none = {0};
    fy_q_ranges *ranges = fy_q_ranges_new("m", &e);
    fy_q_encodings c;
    assert_int_equal(fy_q_encode(&g, ranges, &c, &e), -1);
    assert_non_null(strstr(e.msg, "the ranges have no 'L0.norm'"));
    assert_int_equal(fy_q_encode(&g, NULL, &c, &none), -1);
    assert_string_equal(e.msg, none.msg);
    fy_q_ranges_free(ranges);
}

static void no_memory(void **state)
{
    (void)state;
    fy_q_tensor t = {.name = "t", .kind = FY_Q_INNER, .class = FY_QC_UNIT, .range = FY_Q_NONE};
    t.type = FY_Q_U16;
    const fy_qgraph g = {.tensors = &t, .n_tensors = 1};
    fy_q_encodings c;
    fy_err e = {0};
    alloc_fail_after(0);
    const int rc = fy_q_encode(&g, NULL, &c, &e);
    assert_true(alloc_fail_end());
    assert_int_equal(rc, -1);
    assert_int_equal(e.code, FY_ENOMEM);
}

/* What a type holds of some values: by hand. */
static void values_become_those_of_their_codes(void **state)
{
    (void)state;
    const fy_q_tensor u8 = {.type = FY_Q_U8}, s16 = {.type = FY_Q_S16}, f16 = {.type = FY_Q_F16},
                      f32 = {.type = FY_Q_F32};
    const fy_q_encoding around_zero = {0.5f, -128}, half = {0.5f, 0}, none = {0};
    float v[] = {0.2f, 0.3f, -63.9f, -1000, 1000};
    fy_q_round(&u8, &around_zero, v, 5);
    const float codes[] = {0, 0.5f, -64, -64, 63.5f};
    assert_memory_equal(v, codes, sizeof codes);
    float wide[] = {-20000, 20000, 1.3f};
    fy_q_round(&s16, &half, wide, 3);
    const float ends[] = {-16384, 16383.5f, 1.5f};
    assert_memory_equal(wide, ends, sizeof ends);
    float floats[] = {1.0001f, -1e30f, 1e30f};
    fy_q_round(&f16, &none, floats, 3);
    const float halves[] = {1, -65504, 65504};
    assert_memory_equal(floats, halves, sizeof halves);
    float same[] = {1.0001f};
    fy_q_round(&f32, &none, same, 1);
    assert_true(same[0] == 1.0001f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_have_room_and_zero),
        cmocka_unit_test(keys_values_and_tables_are_symmetric),
        cmocka_unit_test(what_softmax_and_its_like_give_is_fixed),
        cmocka_unit_test(scores_with_the_mask_reach_below),
        cmocka_unit_test(floats_have_none),
        cmocka_unit_test(the_mask_is_as_deep_as_the_widest_head),
        cmocka_unit_test(the_mask_is_as_deep_in_every_chunk),
        cmocka_unit_test(ranges_that_are_no_good),
        cmocka_unit_test(a_range_that_is_missing_is_named),
        cmocka_unit_test(values_become_those_of_their_codes),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests_name("qencode", tests, NULL, NULL);
}
