/* Norm, residual add, gated activation, argmax: against the text of NUMERICS, and their reports. */
#include "proto/numerics/functions.h"
#include "proto/numerics/layer.h"
#include "test_numerics_common.h"

enum { WIDEST = 700 };

static const uint32_t widths[] = {1, 7, 15, 16, 17, 64, 100, 576, 700};
static float a[WIDEST], b[WIDEST], out[WIDEST + 1], term[WIDEST];

static void fill(float *x, uint64_t *seed, bool every_magnitude)
{
    for (int i = 0; i < WIDEST; i++)
        x[i] = every_magnitude ? random_value(seed) : random_unit(seed);
}

static float expect_inverse(uint32_t n, float epsilon)
{
    for (uint32_t i = 0; i < n; i++)
        term[i] = a[i] * a[i];
    const float mean = expect_chains(term, n, 0) / (float)n;
    const float root = sqrtf(mean + epsilon);
    return 1.0f / root;
}

static void norm_follows_the_text(void **state)
{
    (void)state;
    uint64_t seed = 31;
    for (int round = 0; round < 45; round++) {
        const uint32_t n = widths[round % 9];
        const float epsilon = round % 2 ? 1e-6f : 0x1p-50f;
        fill(a, &seed, round % 3 == 0);
        fill(b, &seed, round % 4 == 0);
        const float inverse = expect_inverse(n, epsilon);
        out[n] = 42.0f;
        assert_true(tern_norm(a, b, n, epsilon, out));
        for (uint32_t i = 0; i < n; i++) {
            const float scaled = a[i] * inverse;
            assert_same_float(out[i], value_of(scaled * b[i]));
        }
        assert_same_float(out[n], 42.0f);
        memcpy(term, a, sizeof a);
        assert_true(tern_norm(term, b, n, epsilon, term));
        assert_memory_equal(term, out, n * sizeof *out);
    }
}

/* x*inv may be below 2^-50 and stay: only the product with the gain is a value. */
static void norm_keeps_small_intermediates(void **state)
{
    (void)state;
    const float large[2] = {0x1p20f, 0x1p-40f}; /* x*inv = 2^-60 * sqrt(2) */
    float gain[2] = {1.0f, 0x1p30f};
    assert_true(tern_norm(large, gain, 2, 1e-6f, out));
    assert_true(out[1] > 0x1p-31f);
    gain[1] = 1.0f;
    assert_true(tern_norm(large, gain, 2, 1e-6f, out));
    assert_same_float(out[1], 0.0f);
}

static void norm_reports_what_is_not_finite(void **state)
{
    (void)state;
    float x[3] = {1.0f, 2e19f, 1.0f};
    float gain[3] = {1.0f, 1.0f, 1.0f};
    assert_false(tern_norm(x, gain, 3, 1e-6f, out)); /* the sum of squares overflows */
    x[1] = NAN;
    assert_false(tern_norm(x, gain, 3, 1e-6f, out));
    x[1] = 2.0f;
    assert_true(tern_norm(x, gain, 3, 1e-6f, out));
    gain[1] = 3.4e38f;
    assert_false(tern_norm(x, gain, 3, 1e-6f, out));
}

static void add_follows_the_text(void **state)
{
    (void)state;
    uint64_t seed = 32;
    fill(a, &seed, true);
    fill(b, &seed, true);
    a[0] = 0x1.000002p-50f; /* cancels to 2^-73 */
    b[0] = -0x1p-50f;
    a[1] = b[1] = -0x1p-50f;
    assert_true(tern_add_rows(a, b, WIDEST, out));
    for (int i = 0; i < WIDEST; i++)
        assert_same_float(out[i], value_of(a[i] + b[i]));
    assert_same_float(out[0], 0.0f);
    assert_same_float(out[1], -0x1p-49f);
    memcpy(term, b, sizeof b);
    assert_true(tern_add_rows(a, term, WIDEST, term));
    assert_memory_equal(term, out, WIDEST * sizeof *out);
    a[5] = b[5] = 3e38f;
    assert_false(tern_add_rows(a, b, WIDEST, out));
}

static void glu_follows_the_text(void **state)
{
    (void)state;
    uint64_t seed = 33;
    for (int round = 0; round < 20; round++) {
        const uint32_t n = widths[round % 9];
        fill(a, &seed, round % 2);
        fill(b, &seed, round % 2);
        for (int i = 0; i < WIDEST; i += 3)
            a[i] *= 40.0f;
        assert_true(tern_glu(TERN_SILU, a, b, n, out));
        for (uint32_t i = 0; i < n; i++)
            assert_same_float(out[i], value_of(tern_silu(a[i]) * b[i]));
        assert_true(tern_glu(TERN_GELU, a, b, n, out));
        for (uint32_t i = 0; i < n; i++)
            assert_same_float(out[i], value_of(tern_gelu(a[i]) * b[i]));
        memcpy(term, a, sizeof a);
        assert_true(tern_glu(TERN_GELU, term, b, n, term));
        assert_memory_equal(term, out, n * sizeof *out);
    }
}

static void glu_reports_what_is_not_finite(void **state)
{
    (void)state;
    const float gate[] = {2.0f, 3e38f}, up[] = {1.0f, 2.0f};
    assert_true(tern_glu(TERN_SILU, gate, up, 1, out));
    assert_false(tern_glu(TERN_SILU, gate, up, 2, out));
    const float broken[] = {1.0f, -INFINITY, NAN};
    const float ones[] = {1.0f, 1.0f, 1.0f};
    assert_false(tern_glu(TERN_GELU, broken, ones, 2, out)); /* though gelu(-inf) tends to 0 */
    assert_false(tern_glu(TERN_SILU, broken + 2, ones, 1, out));
    assert_false(tern_glu(TERN_SILU, ones, broken, 3, out));
}

static void argmax_finds_the_first_largest(void **state)
{
    (void)state;
    const float x[] = {-3.0f, 2.0f, -0.0f, 2.0f, 0.0f};
    assert_int_equal(tern_argmax(x, 5), 1);
    assert_int_equal(tern_argmax(x, 1), 0);
    assert_int_equal(tern_argmax(x + 2, 1), 0);
    const float zeros[] = {-0.0f, 0.0f};
    assert_int_equal(tern_argmax(zeros, 2), 0);
    const float negative[] = {-5.0f, -4.0f, -4.0f};
    assert_int_equal(tern_argmax(negative, 3), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_follows_the_text),
        cmocka_unit_test(norm_keeps_small_intermediates),
        cmocka_unit_test(norm_reports_what_is_not_finite),
        cmocka_unit_test(add_follows_the_text),
        cmocka_unit_test(glu_follows_the_text),
        cmocka_unit_test(glu_reports_what_is_not_finite),
        cmocka_unit_test(argmax_finds_the_first_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
