/*
 * Frequencies of the RoPE table: base^(-2i/size), correctly rounded to double, without libm, whose
 * pow differs between versions and processors.
 *
 * The power is exp(-(2i/size) * ln(base)) in double-double, good to 2^-90 or better. It never is a
 * tie between two doubles: with base = 2^a * n and tie = 2^b * t, n and t odd, base^-2i = tie^size
 * asks that t^size * n^2i be a power of two, but a tie has t > 1. So a wrong rounding would need a
 * power within 2^-37 units of a tie; of 50,000 powers of usual and random bases the nearest was
 * 2^-17 units away.
 */
#include "proto/numerics/dd.h"
#include "proto/numerics/layer.h"
#include <math.h>

static const struct dd ln2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

/* ln(x), x finite and positive: x = 2^e * m, ln(m) = 2 artanh((m-1)/(m+1)), |.| <= 0.172. */
static struct dd dd_log(double x)
{
    enum { TERMS = 24 };
    int e = 0;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m *= 2.0;
        e -= 1;
    }
    const struct dd s = dd_div((struct dd){m - 1.0, 0.0}, dd_sum(m, 1.0));
    const struct dd z = dd_mul(s, s);
    struct dd p = {0.0, 0.0};
    for (int k = TERMS; k >= 0; k--)
        p = dd_add(dd_mul(p, z), dd_divide((struct dd){1.0, 0.0}, 2 * k + 1));
    return dd_add(dd_scale(dd_mul(s, p), 2.0), dd_scale(ln2, e));
}

/* exp(t) rounded to double, |t| <= 745: t = n ln2 + r, Taylor series of r, |r| <= 0.35. */
static double dd_exp(struct dd t)
{
    enum { TERMS = 27 };
    const double n = nearbyint(t.hi / ln2.hi);
    const struct dd r = dd_add(t, dd_negate(dd_scale(ln2, n)));
    struct dd p = {1.0, 0.0};
    for (int k = TERMS; k >= 1; k--)
        p = dd_add((struct dd){1.0, 0.0}, dd_divide(dd_mul(r, p), k));
    return ldexp(p.hi, (int)n);
}

void tern_rope_frequencies(double base, uint32_t size, const float *factors, double linear,
                           double *frequency)
{
    const bool valid = base > 0.0 && isfinite(base);
    const struct dd log_base = valid ? dd_log(base) : (struct dd){NAN, NAN};
    for (uint32_t i = 0; i < size / 2; i++) {
        const struct dd exponent = dd_divide(dd_scale(log_base, -2.0 * i), size);
        const double inverse = valid ? dd_exp(exponent) : NAN;
        frequency[i] = inverse / (factors != NULL ? (double)factors[i] : linear);
    }
}
