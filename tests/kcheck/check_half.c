/* Conversions between f32 and the 16-bit floats, against their definition in double. */
#include <math.h>
#include <string.h>

#include "tests/kcheck/kcheck.h"

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

static float *widen_guarded(const fy_kernels *k, fy_type type, const uint16_t *from, int64_t n)
{
    const uint16_t *x = kc_place_copy(KC_X, from, (size_t)n * sizeof *x);
    float *y = kc_place(KC_Y, (size_t)n * sizeof *y);
    widen(k, type, y, x, n);
    return y;
}

static uint16_t *narrow_guarded(const fy_kernels *k, fy_type type, const float *from, int64_t n)
{
    const float *x = kc_place_copy(KC_X, from, (size_t)n * sizeof *x);
    uint16_t *y = kc_place(KC_Y, (size_t)n * sizeof *y);
    narrow(k, type, y, x, n);
    return y;
}

enum { ALL = 65536, N_VALUES = 6 * 65536 };
static uint16_t codes[ALL];
static float numbers[N_VALUES];
static float numbers_expected[ALL];
static uint16_t codes_expected[N_VALUES];

static void list_codes(void)
{
    for (int i = 0; i < ALL; i++)
        codes[i] = (uint16_t)i;
}

bool kc_widen_exact(kc_case *t)
{
    const format f = format_of(t->type);
    list_codes();
    const float *y = widen_guarded(&t->k, t->type, codes, ALL);
    for (unsigned i = 0; i < ALL; i++) {
        const unsigned code = i & 0x7fff;
        const double m = code == f.infinity ? (double)INFINITY : magnitude_of(f, code);
        bool ok = fabs((double)y[i]) == m && (signbit(y[i]) != 0) == (i > 0x7fff);
        if (code > f.infinity)
            ok = isnan(y[i]);
        if (!ok)
            return kc_fail(t, "%04x became %.9g, expected %c%.9g", i, (double)y[i],
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
static int list_numbers(kc_random *r, fy_type type)
{
    const format f = format_of(type);
    int n = 0;
    for (unsigned code = 0; code <= f.infinity; code++) {
        const float here = (float)magnitude_of(f, code);
        const float middle = (float)((magnitude_of(f, code) + magnitude_of(f, code + 1)) / 2);
        const float sign = kc_next(r) & 1 ? 1.0f : -1.0f;
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
        numbers[n++] = float_of((uint32_t)kc_next(r));
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

bool kc_narrow_nearest(kc_case *t)
{
    const format f = format_of(t->type);
    const int n = list_numbers(&t->random, t->type);
    const uint16_t *y = narrow_guarded(&t->k, t->type, numbers, n);
    for (int i = 0; i < n; i++) {
        const unsigned code = y[i] & 0x7fff;
        const double m = fabs((double)numbers[i]);
        bool ok = (signbit(numbers[i]) != 0) == (y[i] > 0x7fff);
        if (isnan(numbers[i]))
            ok = ok && code > f.infinity;
        else if (isinf(numbers[i]))
            ok = ok && code == f.infinity;
        else
            ok = ok && code <= f.infinity && is_nearest(f, code, m);
        if (!ok)
            return kc_fail(t, "%.9g became %04x", (double)numbers[i], y[i]);
    }
    return true;
}

static bool is_widening(const kc_case *t)
{
    return t->type == FY_F16 ? t->k.f16_to_f32 != t->spec.f16_to_f32
                             : t->k.bf16_to_f32 != t->spec.bf16_to_f32;
}

/* Bits, those of a NaN too. */
bool kc_half_equals_spec(kc_case *t)
{
    if (is_widening(t)) {
        list_codes();
        widen(&t->spec, t->type, numbers_expected, codes, ALL);
        const float *y = widen_guarded(&t->k, t->type, codes, ALL);
        for (int i = 0; i < ALL; i++) {
            if (memcmp(&y[i], &numbers_expected[i], sizeof y[i]) != 0)
                return kc_fail(t, "%04x became other bits than the specification's", (unsigned)i);
        }
        return true;
    }
    const int n = list_numbers(&t->random, t->type);
    narrow(&t->spec, t->type, codes_expected, numbers, n);
    const uint16_t *y = narrow_guarded(&t->k, t->type, numbers, n);
    for (int i = 0; i < n; i++) {
        if (y[i] != codes_expected[i])
            return kc_fail(t, "%.9g became %04x, expected %04x", (double)numbers[i], y[i],
                           codes_expected[i]);
    }
    return true;
}

/* Vector bodies and rests give what one value at a time gives. */
bool kc_half_lengths(kc_case *t)
{
    for (int i = 0; i < ALL; i++) {
        codes[i] = (uint16_t)kc_next(&t->random);
        numbers[i] = float_of((uint32_t)kc_next(&t->random));
    }
    for (int n = 0; n <= 70; n++) {
        for (int i = 0; i < n; i++) {
            widen(&t->k, t->type, &numbers_expected[i], &codes[n * 70 + i], 1);
            narrow(&t->k, t->type, &codes_expected[i], &numbers[n * 70 + i], 1);
        }
        const float *y = widen_guarded(&t->k, t->type, codes + n * 70, n);
        if (!kc_same_all(t, "widened", y, numbers_expected, n))
            return false;
        const uint16_t *h = narrow_guarded(&t->k, t->type, numbers + n * 70, n);
        for (int i = 0; i < n; i++) {
            if (h[i] != codes_expected[i])
                return kc_fail(t, "narrowed[%d] of %d is %04x, expected %04x", i, n, h[i],
                               codes_expected[i]);
        }
    }
    return true;
}
