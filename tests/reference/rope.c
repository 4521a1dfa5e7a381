/* The correctly rounded functions come from plain series in 113-bit arithmetic, which the compilers
 * bring with them: their error lies far below what could change the rounding of a result. */
#include "rope.h"

#include "numbers.h"

#include <float.h>

#if LDBL_MANT_DIG == 113
typedef long double quad;
#else
typedef __float128 quad;
#endif

/* ln(1 + t) - ln(1 - t) = 2 atanh(t), for |t| up to 1/3. */
static quad log_ratio(quad t)
{
    const quad square = t * t;
    quad power = t, sum = 0;
    for (int k = 1; k < 90; k += 2) {
        sum += power / k;
        power *= square;
    }
    return 2 * sum;
}

/* Natural logarithm of x > 0. */
static quad logarithm(quad x)
{
    int twos = 0;
    for (; x > (quad)1.5; x /= 2)
        twos++;
    for (; x < (quad)0.75; x *= 2)
        twos--;
    return log_ratio((x - 1) / (x + 1)) + twos * log_ratio((quad)1 / 3);
}

/* e^-x for x >= 0. */
static quad negative_exponential(quad x)
{
    const quad ln2 = log_ratio((quad)1 / 3);
    const int twos = (int)(x / ln2);
    const quad rest = twos * ln2 - x;
    quad term = 1, sum = 1;
    for (int k = 1; k < 40; k++) {
        term *= rest / k;
        sum += term;
    }
    for (int i = 0; i < twos; i++)
        sum /= 2;
    return sum;
}

/* sin(x) if `start` is 1, cos(x) if it is 0, by the series around 0; |x| < 1. */
static quad sine_series(quad x, int start)
{
    quad term = start ? x : 1, sum = term;
    for (int k = start + 2; k < 36; k += 2) {
        term *= -x * x / (k * (k - 1));
        sum += term;
    }
    return sum;
}

/* cos and sin of an angle from 0 to 2^40, each rounded once to float. */
static void cosine_and_sine(double angle, float *cosine, float *sine)
{
    /* pi/2 = high + low, high with 66 bits: a product with the count of quarters is exact. */
    const quad unit = (quad)0x1p-64;
    const quad high = 1 + (quad)0x921FB54442D18469u * unit;
    const quad low = ((quad)0x898CC51701B839A2u + (quad)0x52049C1114CF98E8u * unit) * unit * unit;
    const long quarters = (long)((quad)angle / high + (quad)0.5);
    const quad rest = ((quad)angle - quarters * high) - quarters * low;
    const float s = (float)sine_series(rest, 1), c = (float)sine_series(rest, 0);
    const float sines[4] = {s, c, -s, -c}; /* sin(rest + quarters * pi/2) */
    *sine = value(sines[quarters % 4]);
    *cosine = value(sines[(quarters + 1) % 4]);
}

void rope_frequencies(double *inverse, size_t dimensions, double base, double factor,
                      const float *factors)
{
    const quad step = logarithm(base) / dimensions;
    for (size_t i = 0; i < dimensions / 2; i++) {
        const double power = (double)negative_exponential(step * (2 * i));
        inverse[i] = power / (factors ? (double)factors[i] : factor);
    }
}

void rope_rotate(float *head, size_t dimensions, const double *inverse, size_t position,
                 bool interleaved)
{
    for (size_t i = 0; i < dimensions / 2; i++) {
        float *first = interleaved ? head + 2 * i : head + i;
        float *second = interleaved ? first + 1 : first + dimensions / 2;
        const float x1 = *first, x2 = *second;
        float c, s;
        cosine_and_sine((double)position * inverse[i], &c, &s);
        *first = value(x1 * c - x2 * s);
        *second = value(x2 * c + x1 * s);
    }
}
