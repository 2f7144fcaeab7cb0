/* Filters of numbers: abs, int, float, round, filesizeformat. */
#include "model/template/template_builtin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fy_tfilter_abs(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    if (fy_targs_count(m, "abs", a, 0, 0))
        return -1;
    *out = *v;
    if (fy_tv_is(v, FY_TV_FLOAT)) {
        out->f = fabs(v->f);
        return 0;
    }
    if (fy_tv_is(v, FY_TV_BIGINT)) {
        size_t sign = v->str.len && v->str.ptr[0] == '-';
        out->str = (fy_span){v->str.ptr + sign, v->str.len - sign};
        return 0;
    }
    if (!fy_tv_is_int(v))
        return fy_tm_fail(m, "bad operand type for abs(): '%s'", fy_tv_type_name(v));
    int64_t i = fy_tv_as_int(v);
    if (i == INT64_MIN)
        return fy_tv_int_of_float(m, 9223372036854775808.0, out);
    *out = fy_tv_int(i < 0 ? -i : i);
    return 0;
}

/* --- int and float ------------------------------------------------------------------------------
 */

/* int(float(text)) where that works, else the default. */
static int int_by_float(fy_tm *m, fy_span s, const fy_tv *otherwise, fy_tv *out)
{
    double f;
    int ok = fy_tv_parse_float(m, s, &f);
    if (ok < 0)
        return -1;
    if (ok && isfinite(f))
        return fy_tv_int_of_float(m, f, out);
    *out = *otherwise;
    return 0;
}

int fy_tfilter_int(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"default", "base"};
    fy_tv arg[2];
    bool given[2];
    if (fy_targs_bind(m, "int", a, names, 2, 0, arg, given))
        return -1;
    if (!given[0])
        arg[0] = fy_tv_int(0);
    if (fy_tv_is(v, FY_TV_UNDEFINED))
        return fy_tv_undefined_fail(m, v);
    if (fy_tv_is(v, FY_TV_STR)) {
        int64_t base = given[1] ? -1 : 10;
        if (fy_tv_is_int(&arg[1]))
            base = fy_tv_as_int(&arg[1]);
        int ok = 0;
        if (base == 0 || (base >= 2 && base <= 36))
            ok = fy_tv_parse_int(m, v->str, base, out);
        return ok > 0 ? 0 : ok < 0 ? -1 : int_by_float(m, v->str, &arg[0], out);
    }
    if (fy_tv_is(v, FY_TV_FLOAT) && isinf(v->f))
        return fy_tm_fail(m, "cannot convert float infinity to integer");
    if (fy_tv_is(v, FY_TV_FLOAT) && !isnan(v->f))
        return fy_tv_int_of_float(m, v->f, out);
    *out = fy_tv_is_int(v) ? fy_tv_int(fy_tv_as_int(v)) : fy_tv_is(v, FY_TV_BIGINT) ? *v : arg[0];
    return 0;
}

int fy_tfilter_float(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"default"};
    fy_tv otherwise;
    bool given;
    double f;
    if (fy_targs_bind(m, "float", a, names, 1, 0, &otherwise, &given))
        return -1;
    if (fy_tv_is(v, FY_TV_UNDEFINED))
        return fy_tv_undefined_fail(m, v);
    int ok = fy_tv_is(v, FY_TV_STR) ? fy_tv_parse_float(m, v->str, &f) : fy_tv_as_float(v, &f);
    if (ok < 0)
        return -1;
    if (!ok && fy_tv_is(v, FY_TV_BIGINT))
        return fy_tm_fail(m, "int too large to convert to float");
    *out = ok ? fy_tv_float(f) : given ? otherwise : fy_tv_float(0);
    return 0;
}

/* --- round --------------------------------------------------------------------------------------
 */

enum { MAX_DIGITS = 323, MIN_DIGITS = -308 }; /* beyond them a double does not change, or is 0 */

/* To so many digits behind the point, ties by the exact value to even: C's conversions round that
 * way. Digits before the point are what is left of a number in scientific notation. */
static double round_digits(double f, int64_t digits)
{
    char text[700];
    if (!isfinite(f) || digits > MAX_DIGITS)
        return f;
    if (digits < MIN_DIGITS)
        return 0.0 * f;
    if (digits >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)digits, f);
        return strtod(text, NULL);
    }
    snprintf(text, sizeof text, "%.*e", 340, f);
    int exponent = f == 0 ? 0 : atoi(strchr(text, 'e') + 1);
    int64_t places = exponent + digits; /* behind the leading digit */
    if (places >= 0) {
        snprintf(text, sizeof text, "%.*e", (int)places, f);
        return strtod(text, NULL);
    }
    snprintf(text, sizeof text, "5e%d", (int)-digits - 1);
    double half = strtod(text, NULL);
    if (places < -1 || fabs(f) <= half)
        return 0.0 * f;
    snprintf(text, sizeof text, "1e%d", (int)-digits);
    return copysign(strtod(text, NULL), f);
}

/* An int to a multiple of 10**-digits, ties to even. */
static int round_int(fy_tm *m, int64_t i, int64_t digits, fy_tv *out)
{
    int64_t unit = 1;
    *out = fy_tv_int(digits < -19 ? 0 : i);
    if (digits >= 0 || digits < -19)
        return 0;
    for (int64_t k = digits; k < 0; k++)
        if (__builtin_mul_overflow(unit, 10, &unit))
            unit = INT64_MAX; /* 10**19: see below */
    if (digits == -19) {      /* the unit does not fit, half of it does */
        const int64_t half = 5000000000000000000;
        if (i > half || i < -half)
            return fy_tm_fail(m, "round(): an int of more than 64 bits");
        *out = fy_tv_int(0);
        return 0;
    }
    int64_t low = i % unit; /* towards zero */
    int64_t twice = low < 0 ? -low : low, base = i - low, up = low < 0 ? -unit : unit;
    bool more = twice > unit / 2 || (twice == unit / 2 && (base / unit) % 2 != 0);
    if (more && __builtin_add_overflow(base, up, &base))
        return fy_tm_fail(m, "round(): an int of more than 64 bits");
    *out = fy_tv_int(base);
    return 0;
}

static int round_to_int(fy_tm *m, double f, fy_tv *out)
{
    if (isnan(f))
        return fy_tm_fail(m, "cannot convert float NaN to integer");
    if (isinf(f))
        return fy_tm_fail(m, "cannot convert float infinity to integer");
    return fy_tv_int_of_float(m, rint(f), out);
}

static int round_common(fy_tm *m, const fy_tv *v, const fy_tv *precision, fy_tv *out)
{
    int64_t digits = 0;
    bool none = fy_tv_is(precision, FY_TV_NONE);
    if (!fy_tv_is_int(v) && !fy_tv_is(v, FY_TV_FLOAT) && !fy_tv_is(v, FY_TV_BIGINT))
        return fy_tm_fail(m, "type %s doesn't define __round__ method", fy_tv_type_name(v));
    if (!none && fy_tv_index(m, precision, &digits))
        return -1;
    if (fy_tv_is(v, FY_TV_BIGINT)) {
        if (digits < 0)
            return fy_tm_fail(m, "round(): an int of more than 64 bits");
        *out = *v;
        return 0;
    }
    if (!fy_tv_is(v, FY_TV_FLOAT))
        return round_int(m, fy_tv_as_int(v), digits, out);
    if (none)
        return round_to_int(m, v->f, out);
    double r = round_digits(v->f, digits);
    if (isinf(r) && !isinf(v->f))
        return fy_tm_fail(m, "rounded value too large to represent");
    *out = fy_tv_float(r);
    return 0;
}

/* 10**p; exact where a double can be, as Python's int is. */
static double power_of_ten(double p)
{
    char text[16];
    if (p != floor(p) || fabs(p) > 22)
        return pow(10.0, p);
    snprintf(text, sizeof text, "1e%d", (int)p);
    return strtod(text, NULL);
}

/* func(value * 10**precision) / 10**precision */
static int round_up_or_down(fy_tm *m, const fy_tv *v, const fy_tv *precision, bool up, fy_tv *out)
{
    double f, p;
    if (!fy_tv_as_float(v, &f) || !fy_tv_as_float(precision, &p))
        return fy_tm_fail(m, "must be real number, not %s",
                          fy_tv_type_name(fy_tv_as_float(v, &f) ? precision : v));
    bool integers = !fy_tv_is(v, FY_TV_FLOAT) && fy_tv_is_int(precision) && p >= 0;
    if (integers) { /* exact in Python, and nothing to round */
        *out = fy_tv_float(f);
        return 0;
    }
    double scale = power_of_ten(p);
    if (isinf(scale))
        return fy_tm_fail(m, "int too large to convert to float");
    f *= scale;
    if (!isfinite(f))
        return fy_tm_fail(m, "cannot convert float %s to integer", isnan(f) ? "NaN" : "infinity");
    if (scale == 0)
        return fy_tm_fail(m, "float division by zero");
    *out = fy_tv_float(((up ? ceil(f) : floor(f)) + 0.0) / scale); /* + 0.0: an int has no -0 */
    return 0;
}

int fy_tfilter_round(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"precision", "method"};
    fy_tv arg[2];
    bool given[2];
    if (fy_targs_bind(m, "round", a, names, 2, 0, arg, given))
        return -1;
    if (!given[0])
        arg[0] = fy_tv_int(0);
    if (!given[1])
        arg[1] = fy_tv_view(FY_SPAN("common"));
    fy_span method = fy_tv_is(&arg[1], FY_TV_STR) ? arg[1].str : FY_SPAN("");
    if (fy_span_is(method, "common"))
        return round_common(m, v, &arg[0], out);
    if (fy_span_is(method, "ceil") || fy_span_is(method, "floor"))
        return round_up_or_down(m, v, &arg[0], fy_span_is(method, "ceil"), out);
    return fy_tm_fail(m, "method must be common, ceil or floor");
}

/* --- filesizeformat -----------------------------------------------------------------------------
 */

int fy_tfilter_filesizeformat(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"binary"};
    static const char units[] = "kMGTPEZY";
    static const double decimal[] = {1e3, 1e6, 1e9, 1e12, 1e15, 1e18, 1e21, 1e24, 1e27};
    fy_tv binary;
    bool given;
    double bytes;
    char text[400];
    if (fy_targs_bind(m, "filesizeformat", a, names, 1, 0, &binary, &given))
        return -1;
    if (fy_tv_is(v, FY_TV_UNDEFINED))
        return fy_tv_undefined_fail(m, v);
    int ok =
        fy_tv_is(v, FY_TV_STR) ? fy_tv_parse_float(m, v->str, &bytes) : fy_tv_as_float(v, &bytes);
    if (ok <= 0)
        return ok < 0 ? -1 : fy_tm_fail(m, "could not convert %s to float", fy_tv_type_name(v));
    bool two = fy_tv_truth(&binary);
    double base = two ? 1024 : 1000;
    if (isinf(bytes) && bytes < 0)
        return fy_tm_fail(m, "cannot convert float infinity to integer");
    if (bytes == 1) {
        snprintf(text, sizeof text, "1 Byte");
    } else if (bytes < base) {
        double whole = trunc(bytes);
        snprintf(text, sizeof text, "%.0f Bytes", whole + 0.0);
    } else {
        double unit = 0;
        int i = 0;
        for (; i < 8; i++) {
            unit = two ? ldexp(1, 10 * (i + 2)) : decimal[i + 1];
            if (bytes < unit)
                break;
        }
        i = i < 8 ? i : 7;
        char first = two && i == 0 ? 'K' : units[i];
        double scaled = base * bytes / unit;
        if (isfinite(scaled))
            snprintf(text, sizeof text, "%.1f %c%sB", scaled, first, two ? "i" : "");
        else
            snprintf(text, sizeof text, "%s %c%sB", isnan(scaled) ? "nan" : "inf", first,
                     two ? "i" : "");
    }
    return fy_tv_copy(m, fy_span_of(text), out);
}
