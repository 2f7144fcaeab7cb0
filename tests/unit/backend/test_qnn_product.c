/* The product that libraries are tried out with, on the reference library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/qnn/qnn_product.h"
#include "tests/unit/qnnref/compose.h"

enum { N_OUT = FY_QNN_PRODUCT_TOKENS * FY_QNN_PRODUCT_OUT };

static fy_qnn_lib *lib;

static int begin(void **state)
{
    (void)state;
    lib = fy_qnn_open(reference_path("libQnnRef.so"), NULL, NULL);
    return lib != NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    fy_qnn_close(lib);
    return 0;
}

static double error_on(const fy_qnn_chip *chip, uint16_t first_bit)
{
    fy_qnn_handle device = NULL, context = NULL;
    fy_qnn_product g = {0};
    int8_t *weights = malloc(FY_QNN_PRODUCT_IN * FY_QNN_PRODUCT_OUT);
    uint16_t *out = calloc(N_OUT, sizeof *out);
    assert_true(weights != NULL && out != NULL);
    fy_qnn_product_weights(weights);
    assert_int_equal(fy_qnn_device_new(lib, chip, &device, NULL), 0);
    assert_int_equal(fy_qnn_context_new(lib, device, false, &context, NULL), 0);
    assert_int_equal(
        fy_qnn_product_new(lib, context, chip, FY_QNN_PRODUCT_TOKENS, weights, &g, NULL), 0);
    assert_int_equal(fy_qnn_product_run(&g, out, NULL), 0);
    out[N_OUT - 1] ^= first_bit;
    const double steps = fy_qnn_product_error(weights, out);
    fy_qnn_graph_release(&g.graph);
    fy_qnn_context_free(lib, context);
    fy_qnn_device_free(lib, device);
    free(weights);
    free(out);
    return steps;
}

static void is_exact_to_a_step(void **state)
{
    (void)state;
    assert_true(error_on(&(fy_qnn_chip){57, 75, 8}, 0) <= 1);
}

static void old_chips_scale_roughly(void **state)
{
    (void)state;
    const double steps = error_on(&(fy_qnn_chip){30, 68, 4}, 0);
    assert_true(steps > 2 && steps <= 17);
}

static void one_wrong_result_is_seen(void **state)
{
    (void)state;
    assert_true(error_on(&(fy_qnn_chip){57, 75, 8}, 1 << 10) >= 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_exact_to_a_step),
        cmocka_unit_test(old_chips_scale_roughly),
        cmocka_unit_test(one_wrong_result_is_seen),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
