/* proto/numerics/value: the value rule, the finite test, half and bfloat16 conversions. */
#include "test_numerics_common.h"

static void small_magnitudes_become_zero(void **state)
{
    (void)state;
    assert_same_float(tern_value(0x1p-50f), 0x1p-50f);
    assert_same_float(tern_value(-0x1p-50f), -0x1p-50f);
    assert_same_float(tern_value(0x1.fffffep-51f), 0.0f);
    assert_same_float(tern_value(-0x1.fffffep-51f), 0.0f);
    assert_same_float(tern_value(-0.0f), 0.0f);
    assert_same_float(tern_value(0x1p-149f), 0.0f);
    assert_same_float(tern_value(-INFINITY), -INFINITY);
    assert_true(isnan(tern_value(NAN)));
}

static void finite_is_a_test_of_bits(void **state)
{
    (void)state;
    assert_true(tern_finite(0.0f));
    assert_true(tern_finite(0x1.fffffep+127f));
    assert_false(tern_finite(INFINITY));
    assert_false(tern_finite(-INFINITY));
    assert_false(tern_finite(tern_float(0x7f800001u)));
    assert_false(tern_finite(tern_float(0xffc00000u)));
}

static void every_half_widens_exactly_and_comes_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        const float x = tern_half_to_float((uint16_t)half);
        if ((half >> 10 & 31) != 31) {
            assert_same_float(x, expect_half(half));
            assert_int_equal(tern_float_to_half(x), half);
        } else if ((half & 1023) == 0) {
            assert_same_float(x, half & 0x8000 ? -INFINITY : INFINITY);
            assert_int_equal(tern_float_to_half(x), half);
        } else {
            assert_true(isnan(x));
            assert_true(isnan(tern_half_to_float(tern_float_to_half(x))));
        }
    }
}

/* Between neighbours: below the middle down, above it up, the middle to the even one. */
static void floats_round_to_the_nearest_half(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x7bff; half++) {
        const float middle = (expect_half(half) + expect_half(half + 1)) / 2;
        const uint32_t even = half & 1 ? half + 1 : half;
        assert_int_equal(tern_float_to_half(nextafterf(middle, 0.0f)), half);
        assert_int_equal(tern_float_to_half(middle), even);
        assert_int_equal(tern_float_to_half(-middle), even | 0x8000);
        assert_int_equal(tern_float_to_half(nextafterf(middle, 1e6f)), half + 1);
    }
}

static void floats_at_the_ends_of_half(void **state)
{
    (void)state;
    assert_int_equal(tern_float_to_half(65519.996f), 0x7bff);
    assert_int_equal(tern_float_to_half(65520.0f), 0x7c00);
    assert_int_equal(tern_float_to_half(-3e38f), 0xfc00);
    assert_int_equal(tern_float_to_half(-0.0f), 0x8000);
    assert_int_equal(tern_float_to_half(0x1p-25f), 0);
    assert_int_equal(tern_float_to_half(0x1.000002p-25f), 1);
    assert_int_equal(tern_float_to_half(-0x1p-149f), 0x8000);
}

static void bfloat_is_the_upper_half(void **state)
{
    (void)state;
    assert_same_float(tern_bf16_to_float(0x3f80), 1.0f);
    assert_same_float(tern_bf16_to_float(0xc2f7), -123.5f);
    assert_same_float(tern_bf16_to_float(0x0001), 0x1p-133f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_magnitudes_become_zero),
        cmocka_unit_test(finite_is_a_test_of_bits),
        cmocka_unit_test(every_half_widens_exactly_and_comes_back),
        cmocka_unit_test(floats_round_to_the_nearest_half),
        cmocka_unit_test(floats_at_the_ends_of_half),
        cmocka_unit_test(bfloat_is_the_upper_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
