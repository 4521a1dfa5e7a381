/*
 * RoPE: frequencies, table rows and the rotation of a head. Frozen numbers were computed with 300
 * bits of precision; the hard ones are the nearest to a rounding boundary among the 2^20 positions
 * of the usual bases, multiples of pi/2, and small angles on a boundary that their sine is not on.
 */
#include "proto/numerics/layer.h"
#include "test_numerics_common.h"

static void frequencies_are_correctly_rounded(void **state)
{
    (void)state;
    static const struct {
        double base;
        uint32_t size, index;
        double inverse;
    } cases[] = {
        {10000.0, 128, 1, 0x1.bb5fad00ab22cp-1},      {10000.0, 128, 63, 0x1.e459c57e28a47p-14},
        {10000.0, 64, 16, 0x1.47ae147ae147bp-7},      {500000.0, 128, 37, 0x1.09fb7de6f8595p-11},
        {1000000.0, 256, 127, 0x1.2b07b364c5e79p-20}, {10000000.0, 80, 13, 0x1.5beba1425fab8p-8},
        {10000.0, 64, 31, 0x1.17a8e301c4436p-13},     {65536.0, 16, 4, 0x1.0000000000000p-8},
        {65536.0, 16, 7, 0x1.0000000000000p-14},      {500000.0, 64, 1, 0x1.53c38a9afaca0p-1},
        {1000000.0, 128, 5, 0x1.5bf9fe0f1f09bp-2},    {8000000.0, 96, 47, 0x1.75d01874fdde3p-23},
    };
    double frequency[128];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tern_rope_frequencies(cases[i].base, cases[i].size, NULL, 1.0, frequency);
        assert_true(frequency[cases[i].index] == cases[i].inverse);
        assert_true(frequency[0] == 1.0);
    }
}

static void frequencies_are_divided_by_factors(void **state)
{
    (void)state;
    double plain[32], divided[32];
    float factors[32];
    for (int i = 0; i < 32; i++)
        factors[i] = 1.0f + (float)i * 0.3f;
    tern_rope_frequencies(500000.0, 64, NULL, 1.0, plain);
    tern_rope_frequencies(500000.0, 64, factors, 1.0, divided);
    for (int i = 0; i < 32; i++)
        assert_true(divided[i] == plain[i] / (double)factors[i]);
    tern_rope_frequencies(500000.0, 64, NULL, 8.0, divided);
    for (int i = 0; i < 32; i++)
        assert_true(divided[i] == plain[i] / 8.0);
}

static void a_base_that_is_none_gives_nan(void **state)
{
    (void)state;
    const double bases[] = {0.0, -10000.0, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        double frequency[4] = {0};
        tern_rope_frequencies(bases[i], 8, NULL, 1.0, frequency);
        for (int j = 0; j < 4; j++)
            assert_true(isnan(frequency[j]));
    }
}

static void pairs_are_correctly_rounded(void **state)
{
    (void)state;
    static const struct {
        double angle;
        uint32_t cos, sin;
    } cases[] = {
        {0x1.779d623ea1244p+7, 0x3f45bcadu, 0xbf22977cu},
        {0x1.6755d701404d1p+11, 0xbf7dfee3u, 0xbdffc6b4u},
        {0x1.5f4c60182fd16p+19, 0xbf769266u, 0x3e89abbeu},
        {0x1.8cca48fb16e05p+16, 0xbec7d88eu, 0xbf6bb186u},
        {0x1.ebecbeb37d44ep+13, 0xbf1985e1u, 0x3f4cdb96u},
        {0x1.33ce1302d51efp+6, 0x3c919c35u, 0x3f7ff5a6u},
        {0x1.4f7f94d1cc716p+6, 0xbf153ddeu, 0x3f4fff57u},
        {0x1.953703e326e1fp-1, 0x3f33ec56u, 0x3f361be0u},
        {0x1.0be7036025437p+11, 0x3f4b5608u, 0x3f1b8864u},
        {0x1.b9ea6fef52417p+10, 0xbefd29f5u, 0x3f5e83e4u},
        {0x1.2051908351ba2p+1, 0xbf214ec9u, 0x3f46c92cu},
        {0x1.f468ace20037ep+12, 0xbe44bd31u, 0x3f7b3b0eu},
        {0x1.130b0002e66b2p+2, 0xbece5c08u, 0xbf6a4939u},
        {0x1.1cff5b6f87babp+9, 0xbe4f8a02u, 0xbf7aafdfu},
        {0x1.ae012860cac75p+7, 0x3e4842b7u, 0x3f7b0e86u},
        {0x1.921fb54442d18p+0, 0x00000000u, 0x3f800000u},
        {0x1.921fb54442d18p+1, 0xbf800000u, 0x00000000u},
        {0x1.2d97c7f3321d2p+2, 0x00000000u, 0xbf800000u},
        {0x1.16d0fc2ed4544p+9, 0xa929e59cu, 0xbf800000u},
        {0x1.16d0fc2ed4544p+10, 0xbf800000u, 0x29a9e59cu},
        {0x1.921fb54442d18p+19, 0x3f800000u, 0xae0d3132u},
        {0x1.fffd35813b67fp+19, 0xbf800000u, 0x2e218083u},
        {0x1.921f9c22477d4p+20, 0xac71c519u, 0xbf800000u},
        {0x1.000003p-30, 0x3f800000u, 0x30800001u},
        {0x1.fffffbp-46, 0x3f800000u, 0x28fffffdu},
        {0x1.6ac5b262ca1ffp+20, 0xbd67916eu, 0xbf7f972fu},
        {0x1.fffffffcp+30, 0xbf30579au, 0xbf399422u},
        {0x1.dcd65004p+29, 0x3ef27ed5u, 0x3f617757u},
        {0x1p-60, 0x3f800000u, 0x00000000u},
        {0x1p+0, 0x3f0a5140u, 0x3f576aa4u},
        {-0x1.4p+1, 0xbf4d17bfu, 0xbf193578u},
        {-0x1.e848p+19, 0x3f6fcefdu, 0x3eb33259u},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float pair[2];
        tern_rope_row(&cases[i].angle, 1, 1, pair);
        assert_int_equal(tern_bits(pair[0]), cases[i].cos);
        assert_int_equal(tern_bits(pair[1]), cases[i].sin);
    }
}

/* long double is good to 2^-60 here: wherever it is clear of a boundary it must agree. */
static void rows_agree_with_long_double(void **state)
{
    (void)state;
    double frequency[64];
    float pairs[128];
    uint64_t seed = 41;
    tern_rope_frequencies(10000.0, 128, NULL, 1.0, frequency);
    for (int round = 0; round < 400; round++) {
        const uint32_t position = random_bits(&seed) >> (12 + random_bits(&seed) % 16);
        tern_rope_row(frequency, 64, position, pairs);
        for (int i = 0; i < 64; i++) {
            const double angle = (double)position * frequency[i];
            assert_same_float(pairs[2 * i], value_of((float)cosl((long double)angle)));
            assert_same_float(pairs[2 * i + 1], value_of((float)sinl((long double)angle)));
        }
    }
}

static void position_zero_turns_nothing(void **state)
{
    (void)state;
    const double frequency[2] = {1.0, 0x1p-20};
    float pairs[4];
    tern_rope_row(frequency, 2, 0, pairs);
    for (int i = 0; i < 2; i++) {
        assert_same_float(pairs[2 * i], 1.0f);
        assert_same_float(pairs[2 * i + 1], 0.0f);
    }
}

static void angles_out_of_range_give_nan(void **state)
{
    (void)state;
    const double frequency[] = {NAN, INFINITY, 0x1p31, -1e300};
    float pairs[8];
    tern_rope_row(frequency, 4, 1, pairs);
    for (int i = 0; i < 8; i++)
        assert_true(isnan(pairs[i]));
    const float x[2] = {1.0f, 1.0f};
    float out[2];
    assert_false(tern_rope(x, pairs, 2, 2, TERN_ROPE_HALVES, out));
}

/* ---- Rotation ---- */

static void expect_rotation(float *x, uint32_t first, uint32_t second, const float *pair)
{
    const float a = x[first] * pair[0], b = x[second] * pair[1];
    const float c = x[second] * pair[0], d = x[first] * pair[1];
    x[first] = value_of(a - b);
    x[second] = value_of(c + d);
}

static void heads_rotate_in_both_orders(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{16, 16}, {64, 64}, {80, 32}, {128, 126}, {256, 2}};
    uint64_t seed = 42;
    for (int round = 0; round < 100; round++) {
        const uint32_t size = shapes[round % 5][0], rotated = shapes[round % 5][1];
        float x[256], halves[256], interleaved[256], pairs[256], out[257];
        for (uint32_t i = 0; i < size; i++)
            x[i] = halves[i] = interleaved[i] = random_value(&seed);
        for (uint32_t i = 0; i < rotated; i++)
            pairs[i] = random_unit(&seed);
        for (uint32_t i = 0; i < rotated / 2; i++) {
            expect_rotation(halves, i, i + rotated / 2, pairs + 2 * i);
            expect_rotation(interleaved, 2 * i, 2 * i + 1, pairs + 2 * i);
        }
        out[size] = 42.0f;
        assert_true(tern_rope(x, pairs, size, rotated, TERN_ROPE_HALVES, out));
        assert_memory_equal(out, halves, size * sizeof *out);
        assert_same_float(out[size], 42.0f);
        assert_true(tern_rope(x, pairs, size, rotated, TERN_ROPE_INTERLEAVED, x));
        assert_memory_equal(x, interleaved, size * sizeof *x);
    }
}

static void rotation_reports_overflow(void **state)
{
    (void)state;
    const float x[2] = {3e38f, 3e38f};
    const float pair[2] = {0x1.6a09e6p-1f, 0x1.6a09e6p-1f};
    float out[2];
    assert_false(tern_rope(x, pair, 2, 2, TERN_ROPE_INTERLEAVED, out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_are_correctly_rounded),
        cmocka_unit_test(frequencies_are_divided_by_factors),
        cmocka_unit_test(a_base_that_is_none_gives_nan),
        cmocka_unit_test(pairs_are_correctly_rounded),
        cmocka_unit_test(rows_agree_with_long_double),
        cmocka_unit_test(position_zero_turns_nothing),
        cmocka_unit_test(angles_out_of_range_give_nan),
        cmocka_unit_test(heads_rotate_in_both_orders),
        cmocka_unit_test(rotation_reports_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
