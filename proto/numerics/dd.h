/*
 * Double-double numbers: the unevaluated sum hi + lo of two doubles, |lo| at most half a unit in
 * the last place of hi, good to about 2^-100 relative. Only binary64 operations that IEEE 754
 * defines are used, so every processor and library gives the same bits. Error-free transformations
 * after Knuth (sum) and Dekker and Veltkamp (product). Private to proto/numerics.
 */
#ifndef TERN_NUMERICS_DD_H
#define TERN_NUMERICS_DD_H

struct dd {
    double hi, lo;
};

/* hi + lo = a + b exactly. */
static inline struct dd dd_sum(double a, double b)
{
    const double hi = a + b;
    const double from_b = hi - a;
    return (struct dd){hi, (a - (hi - from_b)) + (b - from_b)};
}

/* The upper 26 bits of a; |a| < 2^996. */
static inline double dd_upper(double a)
{
    const double scaled = a * 134217729.0; /* 2^27 + 1 */
    return scaled - (scaled - a);
}

/* hi + lo = a * b exactly, unless lo would be subnormal. */
static inline struct dd dd_product(double a, double b)
{
    const double a1 = dd_upper(a), a2 = a - a1;
    const double b1 = dd_upper(b), b2 = b - b1;
    const double hi = a * b;
    return (struct dd){hi, ((a1 * b1 - hi) + a1 * b2 + a2 * b1) + a2 * b2};
}

static inline struct dd dd_add(struct dd a, struct dd b)
{
    const struct dd high = dd_sum(a.hi, b.hi);
    const struct dd low = dd_sum(a.lo, b.lo);
    const struct dd mid = dd_sum(high.hi, high.lo + low.hi);
    return dd_sum(mid.hi, mid.lo + low.lo);
}

static inline struct dd dd_mul(struct dd a, struct dd b)
{
    const struct dd high = dd_product(a.hi, b.hi);
    return dd_sum(high.hi, high.lo + (a.hi * b.lo + a.lo * b.hi));
}

static inline struct dd dd_scale(struct dd a, double b)
{
    const struct dd high = dd_product(a.hi, b);
    return dd_sum(high.hi, high.lo + a.lo * b);
}

static inline struct dd dd_negate(struct dd a)
{
    return (struct dd){-a.hi, -a.lo};
}

/* Long division with three quotient digits. */
static inline struct dd dd_div(struct dd a, struct dd b)
{
    const double q1 = a.hi / b.hi;
    const struct dd r1 = dd_add(a, dd_negate(dd_scale(b, q1)));
    const double q2 = r1.hi / b.hi;
    const struct dd r2 = dd_add(r1, dd_negate(dd_scale(b, q2)));
    const struct dd head = dd_sum(q1, q2);
    return dd_add(head, (struct dd){r2.hi / b.hi, 0.0});
}

static inline struct dd dd_divide(struct dd a, double b)
{
    return dd_div(a, (struct dd){b, 0.0});
}

#endif
