/* exp, tanh, erf, sin and cos from + - * / only, in a stated order: the same bits on every machine.
 * Errors stay below 1e-14 of the result, for sin and cos below 1e-14, for |x| up to 1e5. */
#include "qnnref/ref_impl.h"

#include <string.h>

double ref_floor(double x)
{
    if (!(x > -4503599627370496.0 && x < 4503599627370496.0))
        return x;
    double t = (double)(int64_t)x;
    return t > x ? t - 1.0 : t;
}

double ref_rint(double x)
{
    if (!(x > -4503599627370496.0 && x < 4503599627370496.0))
        return x;
    double f = ref_floor(x), d = x - f;
    if (d != 0.5)
        return d < 0.5 ? f : f + 1.0;
    return ((int64_t)f & 1) == 0 ? f : f + 1.0;
}

double ref_power_of_two(int n)
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* e^x = 2^n e^r with |r| <= ln 2 / 2; e^r by its series to the 14th power. */
double ref_exp(double x)
{
    if (x != x)
        return x;
    if (x > 709.0)
        x = 709.0;
    if (x < -708.0)
        return 0.0;
    double n = ref_rint(x * 1.4426950408889634);
    double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    double sum = 1.0;
    for (int k = 14; k > 0; k--)
        sum = 1.0 + sum * r / k;
    return sum * ref_power_of_two((int)n);
}

double ref_tanh(double x)
{
    double z = x < 0 ? -x : x, y;
    if (z < 0.25) { /* the quotient below would lose digits: sinh and cosh by their series */
        double q = z * z, s = 1.0, c = 1.0;
        for (int k = 8; k > 0; k--) {
            s = 1.0 + s * q / (2 * k * (2 * k + 1));
            c = 1.0 + c * q / (2 * k * (2 * k - 1));
        }
        y = z * s / c;
    } else {
        double e = ref_exp(-2.0 * z);
        y = (1.0 - e) / (1.0 + e);
    }
    return x < 0 ? -y : y;
}

/* Below 3 the series 2 z / sqrt(pi) e^(-z z) sum (2 z z)^k / (1 3 5 ... (2k + 1)), whose terms are
 * all positive; above, the continued fraction of erfc. */
double ref_erf(double x)
{
    double z = x < 0 ? -x : x, y;
    if (z > 6.0) {
        y = 1.0;
    } else if (z < 3.0) {
        double sum = 0.0;
        for (int k = 60; k >= 0; k--)
            sum = 1.0 + sum * (2.0 * z * z) / (2 * k + 3);
        y = 1.1283791670955126 * z * ref_exp(-z * z) * sum;
    } else {
        double f = z;
        for (int k = 60; k > 0; k--)
            f = z + (0.5 * k) / f;
        y = 1.0 - ref_exp(-z * z) / (1.7724538509055160 * f);
    }
    return x < 0 ? -y : y;
}

/* The quadrant of x and the rest, |rest| <= pi / 4. pi / 2 in three parts. */
static double reduce(double x, int *quadrant)
{
    double n = ref_rint(x * 0.63661977236758134);
    double r =
        ((x - n * 0x1.921fb54400000p+0) - n * 0x1.0b4611a600000p-34) - n * 0x1.3198a2e037073p-69;
    *quadrant = (int)((int64_t)n & 3);
    return r;
}

static double sine(double r)
{
    double q = r * r, s = 1.0;
    for (int k = 10; k > 0; k--)
        s = 1.0 - s * q / (2 * k * (2 * k + 1));
    return r * s;
}

static double cosine(double r)
{
    double q = r * r, c = 1.0;
    for (int k = 10; k > 0; k--)
        c = 1.0 - c * q / (2 * k * (2 * k - 1));
    return c;
}

static double circle(double x, int turn)
{
    int quadrant;
    if (!(x > -1e9 && x < 1e9))
        return 0.0;
    double r = reduce(x, &quadrant);
    quadrant = (quadrant + turn) & 3;
    double v = (quadrant & 1) == 0 ? sine(r) : cosine(r);
    return quadrant >= 2 ? -v : v;
}

double ref_sin(double x)
{
    return circle(x, 0);
}

double ref_cos(double x)
{
    return circle(x, 1);
}
