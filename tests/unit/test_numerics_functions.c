/*
 * proto/numerics/functions. The bits come from an implementation of NUMERICS in another language
 * (every operation in double, then rounded to float); the bounds from long double.
 */
#include "proto/numerics/functions.h"
#include "test_numerics_common.h"

static void exp_has_the_bits_of_the_definition(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {
        {0x00000000u, 0x3f800000u}, {0x33000000u, 0x3f800000u}, {0x32ffffffu, 0x3f800000u},
        {0xb3000000u, 0x3f800000u}, {0x3f800000u, 0x402df854u}, {0xbf800000u, 0x3ebc5ab2u},
        {0x3eb17218u, 0x3fb504f3u}, {0xbeb17218u, 0x3f3504f3u}, {0x41280000u, 0x470ddb81u},
        {0xc207ffffu, 0x26f7004du}, {0xc2080000u, 0x26f7000fu}, {0xc2080001u, 0x00000000u},
        {0x42ae0000u, 0x7e36d809u}, {0x42b00000u, 0x7ef882b7u}, {0x42b17217u, 0x7f7fff84u},
        {0x42b17218u, 0x7f800000u}, {0xbf000000u, 0x3f1b4598u}, {0x380a697bu, 0x3f800115u},
        {0xc18a0000u, 0x330a7a4fu}, {0xf149f2cau, 0x00000000u},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(tern_bits(tern_exp(tern_float(cases[i][0]))), cases[i][1]);
}

/* Error in units of the last place of the exact result. */
static double exp_error(float x)
{
    const long double exact = expl((long double)x);
    int exponent;
    frexpl(exact, &exponent);
    return (double)(fabsl((long double)tern_exp(x) - exact) / ldexpl(1.0L, exponent - 24));
}

static void exp_stays_within_a_unit(void **state)
{
    (void)state;
    double worst = 0.0;
    for (uint32_t bits = 0; bits <= 0x42b17217u; bits += 1511) {
        worst = fmax(worst, exp_error(tern_float(bits)));
        if (bits <= 0x42080000u)
            worst = fmax(worst, exp_error(-tern_float(bits)));
    }
    assert_true(worst < 0.99);
    assert_true(worst > 0.6); /* or the sweep measured something else */
}

struct function_case {
    float x;
    uint32_t silu, gelu;
};

static void functions_have_the_bits_of_the_definition(void **state)
{
    (void)state;
    static const struct function_case cases[] = {
        {0.0f, 0x00000000u, 0x00000000u},
        {1.0f, 0x3f3b26a8u, 0x3f57585cu},
        {-1.0f, 0xbe89b2b1u, 0xbe229e90u},
        {0x1.99999ap-4f, 0x3d57080fu, 0x3d5d1d05u},
        {-0x1.99999ap-4f, 0xbd42918bu, 0xbd3c7c96u},
        {5.0f, 0x409eeddcu, 0x40a00000u},
        {-5.0f, 0xbd0911d0u, 0xb4761470u},
        {20.5f, 0x41a40000u, 0x41a40000u},
        {-20.5f, 0xb2dc24dcu, 0x82e59ddcu},
        {100.0f, 0x42c80000u, 0x42c80000u},
        {-100.0f, 0x840c0299u, 0x840c0299u},
        {0x1.b7cdfep-34f, 0x2e5be6ffu, 0x2e5be6ffu},
        {-0x1.f75104p-16f, 0xb77ba78au, 0xb77ba6f7u},
        {-87.5f, 0x83f5048cu, 0x83f5048cu},
        {2.34375f, 0x4008dd8du, 0x40149773u},
        {-12.0f, 0xb89a9f8bu, 0x828668e5u},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct function_case *c = &cases[i];
        assert_int_equal(tern_bits(tern_silu(c->x)), c->silu);
        assert_int_equal(tern_bits(tern_gelu(c->x)), c->gelu);
    }
}

static void functions_mean_what_they_say(void **state)
{
    (void)state;
    for (double x = -12.0; x < 12.0; x += 0.0371) {
        const float f = (float)x;
        const double d = f;
        const double sigmoid = 1.0 / (1.0 + exp(-d));
        const double inner = sqrt(2.0 / 3.14159265358979323846) * (d + 0.044715 * d * d * d);
        assert_true(fabs(tern_silu(f) - d * sigmoid) < 2e-6);
        assert_true(fabs(tern_gelu(f) - 0.5 * d * (1.0 + tanh(inner))) < 2e-6);
    }
}

static void functions_take_the_largest_floats(void **state)
{
    (void)state;
    const float large = 0x1.fffffep+127f;
    assert_same_float(tern_silu(large), large);
    assert_same_float(tern_gelu(large), large);
    assert_true(tern_finite(tern_silu(-large)) && tern_finite(tern_gelu(-large)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_has_the_bits_of_the_definition),
        cmocka_unit_test(exp_stays_within_a_unit),
        cmocka_unit_test(functions_have_the_bits_of_the_definition),
        cmocka_unit_test(functions_mean_what_they_say),
        cmocka_unit_test(functions_take_the_largest_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
