#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/text_scores.h"

enum { V = 4 };

static void close_to(double got, double want)
{
    if (!(fabs(got - want) <= 1e-7 * fmax(fabs(want), 1e-3)))
        fail_msg("%.12g, wanted %.12g", got, want);
}

/* One position: the base's probabilities in eighths, the model's in eighths, the next token. */
static int add(fy_divergence *d, const int base[V], const int model[V], int32_t next)
{
    float below[V], logits[V];
    int most = 0;
    for (int i = 0; i < V; i++)
        most = base[i] > most ? base[i] : most;
    for (int i = 0; i < V; i++) {
        below[i] = (float)log((double)most / base[i]);
        logits[i] = (float)log(model[i] / 8.0) + 5; /* softmax takes any offset away */
    }
    const fy_kl_token t = {next, (float)log(base[next] / 8.0)};
    return fy_divergence_add(d, &t, below, logits, fy_surprise(logits, V, next), V, NULL);
}

static void a_model_does_not_diverge_from_itself(void **state)
{
    (void)state;
    fy_divergence d = {0};
    fy_divergence_report r;
    for (int i = 0; i < 3; i++)
        assert_int_equal(add(&d, (int[]){1, 2, 4, 1}, (int[]){1, 2, 4, 1}, i), 0);
    fy_divergence_end(&d, &r);
    assert_true(r.n == 3 && r.kld.mean >= 0 && r.kld.mean < 1e-7 && r.kld_at[FY_KLD_MAX] < 1e-7);
    close_to(r.same_top.mean, 1);
    close_to(r.same_top.error, 0);
    close_to(r.ppl.mean, r.ppl_base.mean);
    assert_true(fabs(r.ln_ratio.mean) < 1e-7 && r.delta_p_rms < 1e-7);
    fy_divergence_release(&d);
}

static void the_measures_are_those_computed_by_hand(void **state)
{
    (void)state;
    fy_divergence d = {0};
    fy_divergence_report r;
    /* KL of {1,2,4,1}/8 from {2,2,2,2}/8 is 4/8 ln 2 - 2/8 ln 2 = 0.25 ln 2 */
    assert_int_equal(add(&d, (int[]){1, 2, 4, 1}, (int[]){2, 2, 2, 2}, 2), 0);
    assert_int_equal(add(&d, (int[]){1, 2, 4, 1}, (int[]){1, 2, 4, 1}, 1), 0);
    fy_divergence_end(&d, &r);
    const double ln2 = log(2);
    close_to(r.kld.mean, 0.125 * ln2);
    close_to(r.kld.error, 0.125 * ln2); /* two values: half their distance */
    close_to(r.kld_at[FY_KLD_MEDIAN], 0.125 * ln2);
    close_to(r.kld_at[FY_KLD_90], 0.225 * ln2);
    close_to(r.kld_at[FY_KLD_MAX], 0.25 * ln2);
    close_to(r.same_top.mean, 0.5); /* of four equals the first is the likeliest */
    close_to(r.delta_p.mean, -0.125);
    close_to(r.delta_p_rms, 0.25 / sqrt(2));
    close_to(r.ppl.mean, exp((2 * ln2 + 2 * ln2) / 2));
    close_to(r.ppl_base.mean, exp((ln2 + 2 * ln2) / 2));
    close_to(r.ln_ratio.mean, 0.5 * ln2);
    fy_divergence_release(&d);
}

static void percentiles_are_numpys(void **state)
{
    (void)state;
    /* np.percentile([0..100] / 1000 shuffled, [50, 90, 95, 99, 99.9, 100]), and of one value */
    static const double want[FY_KLD_PERCENTILES] = {0.05, 0.09, 0.095, 0.099, 0.0999, 0.1};
    fy_divergence d = {0};
    fy_divergence_report r;
    float kept[101];
    for (int i = 0; i < 101; i++)
        kept[i] = (float)((i * 37) % 101) / 1000;
    d.kld_of = kept;
    d.n = 101;
    fy_divergence_end(&d, &r);
    for (int i = 0; i < FY_KLD_PERCENTILES; i++)
        close_to(r.kld_at[i], want[i]);
    d.n = 1;
    fy_divergence_end(&d, &r);
    assert_true(r.kld_at[FY_KLD_MEDIAN] == kept[0] && r.kld_at[FY_KLD_MAX] == kept[0]);
    assert_true(isnan(r.kld.error) && isnan(r.ppl.error));
}

static void logits_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    const float below[V] = {0, 1, 2, 3};
    const fy_kl_token next = {0, -0.5f};
    for (int i = 0; i < 2; i++) {
        fy_divergence d = {0};
        fy_err e = {0};
        const float logits[V] = {1, i == 0 ? NAN : -INFINITY, 0, 0};
        assert_int_equal(
            fy_divergence_add(&d, &next, below, logits, fy_surprise(logits, V, 0), V, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_int_equal(d.n, 0);
        fy_divergence_release(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_does_not_diverge_from_itself),
        cmocka_unit_test(the_measures_are_those_computed_by_hand),
        cmocka_unit_test(percentiles_are_numpys),
        cmocka_unit_test(logits_that_are_not_finite_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
