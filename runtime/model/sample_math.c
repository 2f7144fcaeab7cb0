#include "model/sample_math.h"

#include <string.h>

/* ln 2 in two parts: an exponent times the first is exact. */
#define LN2_HI 0.6931471803691238
#define LN2_LO 1.9082149292705877e-10

static uint64_t splitmix64(uint64_t *x)
{
    uint64_t z = *x += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t x, int n)
{
    return (x << n) | (x >> (64 - n));
}

void fy_rng_seed(fy_rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->s[i] = splitmix64(&seed);
}

double fy_rng_unit(fy_rng *r)
{
    uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return (double)(result >> 11) * 0x1p-53;
}

/* 2^n times the Taylor series of the rest, |rest| <= ln 2 / 2: its even and its odd terms. */
double fy_exp_neg(double x)
{
    static const double even[] = {1.0 / 479001600, 1.0 / 3628800, 1.0 / 40320, 1.0 / 720,
                                  1.0 / 24,        1.0 / 2,       1.0};
    static const double odd[] = {1.0 / 6227020800, 1.0 / 39916800, 1.0 / 362880, 1.0 / 5040,
                                 1.0 / 120,        1.0 / 6,        1.0};
    if (!(x > -700))
        return 0;
    /* Adding 1.5 * 2^52 rounds to a whole number, which is then in the low bits. */
    double shifted = x * 1.4426950408889634 + 0x1.8p52, n = shifted - 0x1.8p52;
    double r = x - n * LN2_HI - n * LN2_LO, r2 = r * r, sum0 = even[0], sum1 = odd[0];
    for (int i = 1; i < 7; i++) {
        sum0 = sum0 * r2 + even[i];
        sum1 = sum1 * r2 + odd[i];
    }
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; /* all above the exponent is shifted out */
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return (sum0 + r * sum1) * scale;
}

/* x = 2^n m with m in [0.71, 1.42); ln m = 2 artanh((m - 1) / (m + 1)). */
double fy_ln(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* 0x3FE6A09E...: the bits of the square root of one half */
    uint64_t off = bits - 0x3FE6A09E00000000u;
    int64_t n = (int64_t)off >> 52;
    bits -= (uint64_t)n << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    double f = (m - 1) / (m + 1), f2 = f * f, sum = 0;
    for (int i = 23; i >= 3; i -= 2)
        sum = (sum + 1.0 / i) * f2;
    return (double)n * LN2_HI + (2 * f + (2 * f * sum + (double)n * LN2_LO));
}
