#include "tests/kcheck/kcheck.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/opts.h"
#include "kernels/kernel_impl.h"

#define FY_KERNEL(op, isa, needs)                   \
    static void install_##op##_##isa(fy_kernels *k) \
    {                                               \
        k->op = fy_##op##__##isa;                   \
    }
#include "kernels/kernel_list.h"
#undef FY_KERNEL

#define FY_KERNEL(op, isa, needs) {#op, #isa, needs, install_##op##_##isa},
const kc_row kc_rows[] = {
#include "kernels/kernel_list.h"
};
#undef FY_KERNEL
const int kc_n_rows = sizeof kc_rows / sizeof kc_rows[0];

/* What is asked of each operation. Properties that compare with the specification are not asked of
 * it. */
static const struct {
    const char *op;
    fy_type type;
    bool against_spec;
    const char *property;
    kc_check *check;
} properties[] = {
    {"act_quantize", 0, true, "equals the specification", kc_act_equals_spec},
    {"act_quantize", 0, false, "is within half a step and sums exactly", kc_act_half_step},
    {"act_quantize", 0, false, "takes NaN and infinity", kc_act_not_finite},
    {"matmul_f32", FY_F32, true, "equals the specification", kc_matmul_equals_spec},
    {"matmul_f32", FY_F32, false, "is near the product in double", kc_matmul_float_near},
    {"matmul_f32", FY_F32, false, "gives the same bits for every batch and row range",
     kc_matmul_any_shape},
    {"matmul_f16", FY_F16, true, "equals the specification", kc_matmul_equals_spec},
    {"matmul_f16", FY_F16, false, "is near the product in double", kc_matmul_float_near},
    {"matmul_f16", FY_F16, false, "gives the same bits for every batch and row range",
     kc_matmul_any_shape},
    {"matmul_bf16", FY_BF16, true, "equals the specification", kc_matmul_equals_spec},
    {"matmul_bf16", FY_BF16, false, "is near the product in double", kc_matmul_float_near},
    {"matmul_bf16", FY_BF16, false, "gives the same bits for every batch and row range",
     kc_matmul_any_shape},
    {"matmul_q8_0", FY_Q8_0, true, "equals the specification", kc_matmul_equals_spec},
    {"matmul_q8_0", FY_Q8_0, false, "is near the product in double", kc_matmul_block_near},
    {"matmul_q8_0", FY_Q8_0, false, "gives the same bits for every batch and row range",
     kc_matmul_any_shape},
    {"matmul_q4_0", FY_Q4_0, true, "equals the specification", kc_matmul_equals_spec},
    {"matmul_q4_0", FY_Q4_0, false, "is near the product in double", kc_matmul_block_near},
    {"matmul_q4_0", FY_Q4_0, false, "gives the same bits for every batch and row range",
     kc_matmul_any_shape},
    {"attend_f32", FY_F32, true, "equals the specification", kc_attend_equals_spec},
    {"attend_f32", FY_F32, false, "is near attention in double", kc_attend_near},
    {"attend_f32", FY_F32, false, "gives the same bits for every stride", kc_attend_any_stride},
    {"attend_f32", FY_F32, false, "does not hide a NaN", kc_attend_keeps_nan},
    {"attend_f16", FY_F16, true, "equals the specification", kc_attend_equals_spec},
    {"attend_f16", FY_F16, false, "is near attention in double", kc_attend_near},
    {"attend_f16", FY_F16, false, "gives the same bits for every stride", kc_attend_any_stride},
    {"attend_f16", FY_F16, false, "does not hide a NaN", kc_attend_keeps_nan},
    {"rms_norm", 0, true, "equals the specification", kc_rms_norm_equals_spec},
    {"rms_norm", 0, false, "is near the norm in double", kc_rms_norm_near},
    {"rms_norm", 0, false, "gives the same bits in place", kc_rms_norm_in_place},
    {"silu_mul", 0, true, "equals the specification", kc_silu_equals_spec},
    {"silu_mul", 0, false, "is near silu in double", kc_silu_near},
    {"f16_to_f32", FY_F16, true, "equals the specification", kc_half_equals_spec},
    {"f16_to_f32", FY_F16, false, "widens all 65536 values exactly", kc_widen_exact},
    {"f16_to_f32", FY_F16, false, "does every length alike", kc_half_lengths},
    {"f32_to_f16", FY_F16, true, "equals the specification", kc_half_equals_spec},
    {"f32_to_f16", FY_F16, false, "rounds to the nearest, ties to even", kc_narrow_nearest},
    {"f32_to_f16", FY_F16, false, "does every length alike", kc_half_lengths},
    {"bf16_to_f32", FY_BF16, true, "equals the specification", kc_half_equals_spec},
    {"bf16_to_f32", FY_BF16, false, "widens all 65536 values exactly", kc_widen_exact},
    {"bf16_to_f32", FY_BF16, false, "does every length alike", kc_half_lengths},
    {"f32_to_bf16", FY_BF16, true, "equals the specification", kc_half_equals_spec},
    {"f32_to_bf16", FY_BF16, false, "rounds to the nearest, ties to even", kc_narrow_nearest},
    {"f32_to_bf16", FY_BF16, false, "does every length alike", kc_half_lengths},
    {"encode_q8_0", FY_Q8_0, true, "equals the specification", kc_encode_equals_spec},
    {"encode_q8_0", FY_Q8_0, false, "decodes to within its step", kc_encode_near},
    {"encode_q8_0", FY_Q8_0, false, "takes NaN and infinity", kc_encode_not_finite},
    {"encode_q4_0", FY_Q4_0, true, "equals the specification", kc_encode_equals_spec},
    {"encode_q4_0", FY_Q4_0, false, "decodes to within its step", kc_encode_near},
    {"encode_q4_0", FY_Q4_0, false, "takes NaN and infinity", kc_encode_not_finite},
    {"decode_q8_0", FY_Q8_0, false, "is exact for every scale and byte", kc_decode_exact},
    {"decode_q4_0", FY_Q4_0, false, "is exact for every scale and byte", kc_decode_exact},
};

uint64_t kc_next(kc_random *r) /* splitmix64 */
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

int kc_between(kc_random *r, int low, int high)
{
    return low + (int)(kc_next(r) % (uint64_t)(high - low + 1));
}

float kc_uniform(kc_random *r)
{
    return (float)(kc_next(r) >> 40) * 0x1p-23f - 1.0f;
}

float kc_normal(kc_random *r)
{
    float sum = 0.0f;
    for (int i = 0; i < 3; i++)
        sum += kc_uniform(r);
    return sum;
}

bool kc_fail(kc_case *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(t->why, sizeof t->why, fmt, args);
    va_end(args);
    return false;
}

bool kc_same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

bool kc_same_all(kc_case *t, const char *what, const float *got, const float *expected, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!kc_same(got[i], expected[i]))
            return kc_fail(t, "%s[%d] of %d is %.9g, expected %.9g", what, (int)i, (int)n,
                           (double)got[i], (double)expected[i]);
    }
    return true;
}

static bool holds_on_both_sides(const kc_row *row, size_t property, uint64_t seed, kc_case *t)
{
    for (int side = KC_AT_END; side <= KC_AT_START; side++) {
        *t = (kc_case){.k = fy_kernels_for(0),
                       .spec = fy_kernels_for(0),
                       .type = properties[property].type,
                       .random = {seed + (uint64_t)side}};
        row->install(&t->k);
        kc_slots_side((kc_side)side);
        if (!kc_run_guarded(properties[property].check, t))
            return false;
    }
    return true;
}

static bool is_asked(const kc_row *row, size_t property)
{
    return strcmp(properties[property].op, row->op) == 0 &&
           !(properties[property].against_spec && strcmp(row->isa, "scalar") == 0);
}

/* Checks and prints, or only counts, every kernel and property; returns their number. */
static int check_all(uint32_t features, uint64_t seed, const char *filter, bool only_count,
                     int *n_failed)
{
    int n = 0;
    for (int i = 0; i < kc_n_rows; i++) {
        const kc_row *row = &kc_rows[i];
        if (filter != NULL && strstr(row->op, filter) == NULL)
            continue;
        for (size_t p = 0; p < sizeof properties / sizeof properties[0]; p++) {
            if (!is_asked(row, p))
                continue;
            n++;
            if (only_count)
                continue;
            kc_case t;
            if ((features & row->needs) != row->needs) {
                printf("ok %d - %s %s: %s # SKIP this CPU lacks it\n", n, row->op, row->isa,
                       properties[p].property);
            } else if (holds_on_both_sides(row, p, seed, &t)) {
                printf("ok %d - %s %s: %s\n", n, row->op, row->isa, properties[p].property);
            } else {
                printf("not ok %d - %s %s: %s (%s; --seed %llu)\n", n, row->op, row->isa,
                       properties[p].property, t.why, (unsigned long long)seed);
                ++*n_failed;
            }
            fflush(stdout);
        }
    }
    return n;
}

typedef struct {
    bool bench;
    int64_t seed;
    const char *kernel;
} options;

static const fy_opt option_table[] = {
    {.group = "Options",
     .name = "bench",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, bench),
     .help = "measure the kernels instead of checking them"},
    {.group = "Options",
     .name = "seed",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, seed),
     .def = "1",
     .help = "where the random data begins"},
    {.group = "Options",
     .name = "kernel",
     .kind = FY_OPT_STR,
     .arg = "TEXT",
     .offset = offsetof(options, kernel),
     .help = "only operations whose name contains TEXT"},
};

int main(int argc, char **argv)
{
    options o;
    fy_err e = {0};
    int n_args;
    bool help = false;
    const size_t n_options = sizeof option_table / sizeof option_table[0];
    if (fy_opts_parse(option_table, n_options, &o, argc - 1, argv + 1, &n_args, &help, &e) ||
        n_args > 0) {
        fprintf(stderr, "kcheck: %s\n", e.code ? e.msg : "takes no arguments");
        return 2;
    }
    if (help) {
        fy_str text = {0};
        fy_opts_help(option_table, n_options, &text);
        printf("Usage: kcheck [options]\n%s", fy_str_z(&text));
        fy_str_release(&text);
        return 0;
    }
    const uint32_t features = fy_cpu_features();
    if (o.bench) {
        kc_bench(features, o.kernel);
        return 0;
    }
    kc_slots_open();
    int n_failed = 0;
    printf("1..%d\n", check_all(features, 0, o.kernel, true, NULL));
    printf("# %s, seed %lld\n", fy_cpu_describe(features), (long long)o.seed);
    check_all(features, (uint64_t)o.seed, o.kernel, false, &n_failed);
    return n_failed != 0;
}
