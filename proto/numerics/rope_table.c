/*
 * A row of the RoPE table: cos and sin of double(position) * frequency, correctly rounded to float,
 * without libm, whose results differ between versions and processors.
 *
 * Two steps. Plain double arithmetic with a proven bound decides all but about one in a million
 * values; where the bound reaches across a rounding boundary, double-double decides. The cosine and
 * sine of a nonzero double are transcendental, hence never on a boundary themselves; a wrong
 * rounding would need one within 2^-95 of it.
 */
#include "proto/numerics/dd.h"
#include "proto/numerics/layer.h"
#include "proto/numerics/value.h"
#include <math.h>

struct cos_sin {
    float cos, sin;
};

static const double two_by_pi = 0x1.45f306dc9c883p-1;
static const double round_magic = 0x1.8p52;

/* cos and sin of r + k*pi/2 from those of r. */
static struct cos_sin turn(int64_t k, float c, float s)
{
    switch (k & 3) {
    case 0:
        return (struct cos_sin){c, s};
    case 1:
        return (struct cos_sin){-s, c};
    case 2:
        return (struct cos_sin){-c, -s};
    default:
        return (struct cos_sin){s, -c};
    }
}

/* ---- Plain double ---- */

/* True and *rounded if all numbers within 2^-49 relative of y round to the same float. */
static bool round_safely(double y, float *rounded)
{
    const double margin = y * 0x1p-49;
    *rounded = (float)(y - margin);
    return *rounded == (float)(y + margin);
}

/* Relative errors stay below 2^-50: pi/2 is taken as 33 + 33 + 53 bits, the first two products are
 * exact for |k| < 2^20, the first difference too, and the rest is off by less than 2^-98, harmless
 * for |r| >= 2^-20; the series (|r| <= pi/4) end below 2^-60. */
static bool evaluate_plainly(double x, double k, struct cos_sin *result)
{
    const double r = ((x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69;
    if (k != 0.0 && (fabs(k) >= 0x1p20 || fabs(r) < 0x1p-20))
        return false;
    const double z = r * r;
    double s = -1.0 / 121645100408832000.0;
    s = s * z + 1.0 / 355687428096000.0;
    s = s * z - 1.0 / 1307674368000.0;
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    double c = 1.0 / 2432902008176640000.0;
    c = c * z - 1.0 / 6402373705728000.0;
    c = c * z + 1.0 / 20922789888000.0;
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = c * z - 0.5;
    float sine, cosine;
    const bool sine_safe = round_safely(s * z * r + r, &sine);
    const bool cosine_safe = round_safely(c * z + 1.0, &cosine);
    *result = turn((int64_t)k, cosine, sine);
    return sine_safe && cosine_safe;
}

/* ---- Double-double ---- */

/* x - k*pi/2 with pi/2 to 217 bits. The exact products are summed by repeated error-free passes,
 * so that cancellation leaves a result good to 2^-100 of itself. */
static struct dd reduce(double x, double k)
{
    enum { PARTS = 4, TERMS = 1 + 2 * PARTS, PASSES = 5 };
    static const double half_pi[PARTS] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                                          -0x1.f1976b7ed8fbcp-110, 0x1.4cf98e804177dp-164};
    double term[TERMS] = {x};
    for (int i = 0; i < PARTS; i++) {
        const struct dd product = dd_product(-k, half_pi[i]);
        term[1 + 2 * i] = product.hi;
        term[2 + 2 * i] = product.lo;
    }
    for (int pass = 0; pass < PASSES; pass++) {
        for (int i = 1; i < TERMS; i++) {
            const struct dd sum = dd_sum(term[i], term[i - 1]);
            term[i] = sum.hi;
            term[i - 1] = sum.lo;
        }
    }
    double rest = term[0];
    for (int i = 1; i < TERMS - 1; i++)
        rest += term[i];
    return dd_sum(term[TERMS - 1], rest);
}

/* 1 - z/(a(a+1)) * (1 - z/((a+2)(a+3)) * (...)): the series of cos (a = 1) or sin(r)/r (a = 2). */
static struct dd alternating_series(struct dd z, int a)
{
    enum { LAST = 28 };
    struct dd p = {1.0, 0.0};
    for (int n = LAST + a; n >= a; n -= 2) {
        const struct dd term = dd_divide(dd_mul(z, p), n * (n + 1));
        p = dd_add((struct dd){1.0, 0.0}, dd_negate(term));
    }
    return p;
}

/* Rounds hi + lo once: hi's last bit is made to remember that lo is not zero (round to odd). */
static float round_to_float(struct dd a)
{
    uint64_t bits;
    memcpy(&bits, &a.hi, sizeof bits);
    if (a.lo != 0.0 && (bits & 1) == 0)
        bits += (a.lo > 0.0) == (a.hi > 0.0) ? 1 : (uint64_t)-1;
    memcpy(&a.hi, &bits, sizeof bits);
    return (float)a.hi;
}

static struct cos_sin evaluate_exactly(double x, double k)
{
    const struct dd r = reduce(x, k);
    const struct dd z = dd_mul(r, r);
    const float cosine = round_to_float(alternating_series(z, 1));
    const float sine = round_to_float(dd_mul(r, alternating_series(z, 2)));
    return turn((int64_t)k, cosine, sine);
}

static struct cos_sin evaluate(double x)
{
    if (!(fabs(x) < 0x1p31))
        return (struct cos_sin){NAN, NAN};
    const double k = (x * two_by_pi + round_magic) - round_magic;
    struct cos_sin result;
    if (!evaluate_plainly(x, k, &result))
        result = evaluate_exactly(x, k);
    return result;
}

void tern_rope_row(const double *frequency, uint32_t count, uint32_t position, float *pairs)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct cos_sin entry = evaluate((double)position * frequency[i]);
        pairs[2 * i] = tern_value(entry.cos);
        pairs[2 * i + 1] = tern_value(entry.sin);
    }
}
