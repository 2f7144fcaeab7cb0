/* Conversions between f32 and the 16-bit floats, against their definition in double. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "tests/kcheck/kernel_check.h"

enum { ALL = 65536, N_VALUES = 6 * 65536 };

/* What lies in fy_kc_case.work. */
typedef struct {
    uint16_t codes[ALL];
    float numbers[N_VALUES];
    float numbers_expected[ALL];
    uint16_t codes_expected[N_VALUES];
} work;
static_assert(sizeof(work) <= FY_KC_WORK_BYTES, "work memory");

/* sign, exponent and mantissa bits of f16 and bf16 */
typedef struct {
    int mantissa_bits, bias;
    unsigned infinity; /* code without sign */
} format;

static format format_of(fy_type type)
{
    return type == FY_F16 ? (format){10, 15, 0x7c00} : (format){7, 127, 0x7f80};
}

/* The magnitude a code without sign stands for. Infinity counts as the number that would follow the
 * largest one: that is where rounding to nearest puts it. */
static double magnitude_of(format f, unsigned code)
{
    const int exponent = (int)(code >> f.mantissa_bits);
    const double mantissa = (double)(code & ((1u << f.mantissa_bits) - 1));
    const double hidden = exponent > 0 ? ldexp(1.0, f.mantissa_bits) : 0.0;
    return ldexp(hidden + mantissa, (exponent > 0 ? exponent : 1) - f.bias - f.mantissa_bits);
}

static void widen(const fy_kernels *k, fy_type type, float *y, const uint16_t *x, int64_t n)
{
    if (type == FY_F16)
        k->f16_to_f32(y, x, n);
    else
        k->bf16_to_f32(y, x, n);
}

static void narrow(const fy_kernels *k, fy_type type, uint16_t *y, const float *x, int64_t n)
{
    if (type == FY_F16)
        k->f32_to_f16(y, x, n);
    else
        k->f32_to_bf16(y, x, n);
}

static float *widen_placed(fy_kc_case *t, const fy_kernels *k, const uint16_t *from, int64_t n)
{
    const uint16_t *x = fy_kc_place_copy(t, FY_KC_X, from, (size_t)n * sizeof *x);
    float *y = fy_kc_place(t, FY_KC_Y, (size_t)n * sizeof *y);
    widen(k, t->type, y, x, n);
    return y;
}

static uint16_t *narrow_placed(fy_kc_case *t, const fy_kernels *k, const float *from, int64_t n)
{
    const float *x = fy_kc_place_copy(t, FY_KC_X, from, (size_t)n * sizeof *x);
    uint16_t *y = fy_kc_place(t, FY_KC_Y, (size_t)n * sizeof *y);
    narrow(k, t->type, y, x, n);
    return y;
}

static void list_codes(work *w)
{
    for (int i = 0; i < ALL; i++)
        w->codes[i] = (uint16_t)i;
}

bool fy_kc_widen_exact(fy_kc_case *t)
{
    work *w = t->work;
    const format f = format_of(t->type);
    list_codes(w);
    const float *y = widen_placed(t, &t->k, w->codes, ALL);
    for (unsigned i = 0; i < ALL; i++) {
        const unsigned code = i & 0x7fff;
        const double m = code == f.infinity ? (double)INFINITY : magnitude_of(f, code);
        bool ok = fabs((double)y[i]) == m && (signbit(y[i]) != 0) == (i > 0x7fff);
        if (code > f.infinity)
            ok = isnan(y[i]);
        if (!ok)
            return fy_kc_fail(t, "%04x became %.9g, expected %c%.9g", i, (double)y[i],
                              i > 0x7fff ? '-' : '+', m);
    }
    return true;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Every code's value, the midpoints between neighbours and the floats next to those, and random
 * bits. */
static int list_numbers(fy_kc_random *r, fy_type type, float *numbers)
{
    const format f = format_of(type);
    int n = 0;
    for (unsigned code = 0; code <= f.infinity; code++) {
        const float here = (float)magnitude_of(f, code);
        const float middle = (float)((magnitude_of(f, code) + magnitude_of(f, code + 1)) / 2);
        const float sign = fy_kc_next(r) & 1 ? 1.0f : -1.0f;
        numbers[n++] = sign * here;
        numbers[n++] = sign * middle;
        numbers[n++] = sign * nextafterf(middle, 0.0f);
        numbers[n++] = sign * nextafterf(middle, INFINITY);
    }
    /* zeros, subnormals, largest, infinities, NaN; where f16 overflows, vanishes and becomes normal
     */
    static const uint32_t edges[] = {
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
        0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7fffffff, 0x7f800001,
        0xff800001, 0x7f801fff, 0x477fe000, 0x477fefff, 0x477ff000, 0x47800000, 0x33000000,
        0x33000001, 0x32ffffff, 0x387fc000, 0x387fe000, 0x387fffff, 0x38800000,
    };
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        numbers[n++] = float_of(edges[i]);
    while (n < N_VALUES)
        numbers[n++] = float_of((uint32_t)fy_kc_next(r));
    return n;
}

/* No neighbour is nearer, and none as near with an even last bit. */
static bool is_nearest(format f, unsigned code, double magnitude)
{
    const double distance = fabs(magnitude_of(f, code) - magnitude);
    for (int step = -1; step <= 1; step += 2) {
        if ((code == 0 && step < 0) || (code == f.infinity && step > 0))
            continue;
        const double other = fabs(magnitude_of(f, code + (unsigned)step) - magnitude);
        if (other < distance || (other == distance && (code & 1)))
            return false;
    }
    return true;
}

bool fy_kc_narrow_nearest(fy_kc_case *t)
{
    work *w = t->work;
    const format f = format_of(t->type);
    const int n = list_numbers(&t->random, t->type, w->numbers);
    const uint16_t *y = narrow_placed(t, &t->k, w->numbers, n);
    for (int i = 0; i < n; i++) {
        const unsigned code = y[i] & 0x7fff;
        const double m = fabs((double)w->numbers[i]);
        bool ok = (signbit(w->numbers[i]) != 0) == (y[i] > 0x7fff);
        if (isnan(w->numbers[i]))
            ok = ok && code > f.infinity;
        else if (isinf(w->numbers[i]))
            ok = ok && code == f.infinity;
        else
            ok = ok && code <= f.infinity && is_nearest(f, code, m);
        if (!ok)
            return fy_kc_fail(t, "%.9g became %04x", (double)w->numbers[i], y[i]);
    }
    return true;
}

static bool is_widening(const fy_kc_case *t)
{
    return t->type == FY_F16 ? t->k.f16_to_f32 != t->spec.f16_to_f32
                             : t->k.bf16_to_f32 != t->spec.bf16_to_f32;
}

/* Bits, those of a NaN too. */
bool fy_kc_half_equals_spec(fy_kc_case *t)
{
    work *w = t->work;
    if (is_widening(t)) {
        list_codes(w);
        widen(&t->spec, t->type, w->numbers_expected, w->codes, ALL);
        const float *y = widen_placed(t, &t->k, w->codes, ALL);
        for (int i = 0; i < ALL; i++) {
            if (memcmp(&y[i], &w->numbers_expected[i], sizeof y[i]) != 0)
                return fy_kc_fail(t, "%04x became other bits than the specification's",
                                  (unsigned)i);
        }
        return true;
    }
    const int n = list_numbers(&t->random, t->type, w->numbers);
    narrow(&t->spec, t->type, w->codes_expected, w->numbers, n);
    const uint16_t *y = narrow_placed(t, &t->k, w->numbers, n);
    for (int i = 0; i < n; i++) {
        if (y[i] != w->codes_expected[i])
            return fy_kc_fail(t, "%.9g became %04x, expected %04x", (double)w->numbers[i], y[i],
                              w->codes_expected[i]);
    }
    return true;
}

/* Vector bodies and rests give what one value at a time gives. */
bool fy_kc_half_lengths(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < ALL; i++) {
        w->codes[i] = (uint16_t)fy_kc_next(&t->random);
        w->numbers[i] = float_of((uint32_t)fy_kc_next(&t->random));
    }
    for (int n = 0; n <= 70; n++) {
        for (int i = 0; i < n; i++) {
            widen(&t->k, t->type, &w->numbers_expected[i], &w->codes[n * 70 + i], 1);
            narrow(&t->k, t->type, &w->codes_expected[i], &w->numbers[n * 70 + i], 1);
        }
        const float *y = widen_placed(t, &t->k, w->codes + n * 70, n);
        if (!fy_kc_same_all(t, "widened", y, w->numbers_expected, n))
            return false;
        const uint16_t *h = narrow_placed(t, &t->k, w->numbers + n * 70, n);
        for (int i = 0; i < n; i++) {
            if (h[i] != w->codes_expected[i])
                return fy_kc_fail(t, "narrowed[%d] of %d is %04x, expected %04x", i, n, h[i],
                                  w->codes_expected[i]);
        }
    }
    return true;
}
