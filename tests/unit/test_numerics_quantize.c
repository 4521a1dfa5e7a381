/* proto/numerics/quantize: layout of a quantized row, codes, scales, sums, and its clean edges. */
#include "proto/numerics/quantize.h"
#include "test_numerics_common.h"

enum { MAX_COLUMNS = 1024, MAX_STRIDE = 4096 };

static const struct tern_act forms[] = {{32, 8}, {32, 16}, {256, 8}, {256, 16}};

static _Alignas(64) uint8_t row[MAX_STRIDE];

static float limit_of(struct tern_act act)
{
    return act.bits == 8 ? 127.0f : 32639.0f;
}

static int code_at(struct tern_act act, struct tern_act_layout layout, uint32_t i)
{
    const int8_t *first = (const int8_t *)row;
    return act.bits == 8 ? first[i] : 256 * first[i] + first[layout.lo + i];
}

static float scale_at(struct tern_act_layout layout, uint32_t block)
{
    float scale;
    memcpy(&scale, row + layout.scale + 4 * block, 4);
    return scale;
}

static int sum_at(struct tern_act_layout layout, uint32_t i)
{
    int32_t sum;
    memcpy(&sum, row + layout.sum + 4 * i, 4);
    return sum;
}

static void quantize(const float *x, uint32_t columns, struct tern_act act)
{
    memset(row, 0xa5, sizeof row);
    tern_quantize_row(x, columns, act, row);
}

static void sections_lie_where_the_header_says(void **state)
{
    (void)state;
    const struct tern_act_layout a8 = tern_act_layout((struct tern_act){32, 8}, 96);
    assert_int_equal(a8.scale, 128);
    assert_int_equal(a8.sum, 192);
    assert_int_equal(a8.stride, 256);
    const struct tern_act_layout a16 = tern_act_layout((struct tern_act){256, 16}, 4352);
    assert_int_equal(a16.lo, 4352);
    assert_int_equal(a16.scale, 8704);
    assert_int_equal(a16.sum, 8704 + 128);
    assert_int_equal(a16.stride, 8704 + 128 + 1088);
    const struct tern_act_layout widest = tern_act_layout((struct tern_act){32, 16}, 1u << 24);
    assert_int_equal(widest.stride, (2u << 24) + (4u << 19) + (4u << 20));
}

/* Code of x: the integer nearest to x * (limit/amax), ties to even, by integer comparison. */
static int expect_code(float x, float amax, float limit)
{
    const double scaled = (double)(x * (limit / amax));
    double whole = floor(scaled);
    const double rest = scaled - whole;
    if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2.0) != 0.0))
        whole += 1.0;
    return (int)fmax(-limit, fmin(limit, whole));
}

static void check_row(const float *x, uint32_t columns, struct tern_act act)
{
    quantize(x, columns, act);
    const struct tern_act_layout layout = tern_act_layout(act, columns);
    for (uint32_t b = 0; b < columns / act.block; b++) {
        float amax = 0.0f;
        for (uint32_t i = 0; i < act.block; i++)
            amax = fmaxf(amax, fabsf(x[b * act.block + i]));
        assert_same_float(scale_at(layout, b), amax == 0.0f ? 0.0f : amax / limit_of(act));
        for (uint32_t i = b * act.block; i < (b + 1) * act.block; i++) {
            const int expected = amax == 0.0f ? 0 : expect_code(x[i], amax, limit_of(act));
            assert_int_equal(code_at(act, layout, i), expected);
        }
    }
    for (uint32_t s = 0; s < columns / 16; s++) {
        int sum = 0;
        for (uint32_t i = 0; i < 16; i++)
            sum += code_at(act, layout, 16 * s + i);
        assert_int_equal(sum_at(layout, s), sum);
    }
}

static void codes_and_sums_follow_the_rule(void **state)
{
    (void)state;
    uint64_t seed = 11;
    float x[MAX_COLUMNS];
    for (int round = 0; round < 200; round++) {
        for (int f = 0; f < 4; f++) {
            const struct tern_act act = forms[f];
            const uint32_t columns =
                act.block * (1 + random_bits(&seed) % (MAX_COLUMNS / act.block));
            for (uint32_t i = 0; i < columns; i++)
                x[i] = round & 1 ? random_value(&seed) : random_unit(&seed);
            if (round % 5 == 0)
                memset(x, 0, act.block * sizeof *x);
            check_row(x, columns, act);
        }
    }
}

static void extremes_and_ties(void **state)
{
    (void)state;
    float x[256] = {0x1.fffffep+127f, -0x1.fffffep+127f, 1.0f, 0x1p-50f};
    for (int f = 0; f < 4; f++)
        check_row(x, 256, forms[f]);
    memset(x, 0, sizeof x);
    x[5] = 0x1p-50f;
    x[6] = -0x1p-50f;
    for (int f = 0; f < 4; f++)
        check_row(x, 256, forms[f]);
    /* amax = 127 makes the factor 1: halves are ties. */
    memset(x, 0, sizeof x);
    const float halves[] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, -127.0f};
    const int codes[] = {127, 0, 2, 2, 0, -2, -2, -127};
    memcpy(x, halves, sizeof halves);
    quantize(x, 32, forms[0]);
    for (int i = 0; i < 8; i++)
        assert_int_equal((int8_t)row[i], codes[i]);
}

/* Every code of 16 bits: the two bytes, the low one down to -128. */
static void sixteen_bits_split_in_two_signed_bytes(void **state)
{
    (void)state;
    const struct tern_act act = {32, 16};
    const struct tern_act_layout layout = tern_act_layout(act, 32);
    int lowest = 0;
    for (int v = -32639; v <= 32639; v++) {
        float x[32] = {32639.0f, (float)v};
        quantize(x, 32, act);
        const int hi = (int8_t)row[1];
        const int lo = (int8_t)row[layout.lo + 1];
        assert_int_equal(256 * hi + lo, v);
        assert_int_equal(hi, (int)floor((v + 128) / 256.0));
        lowest = lo < lowest ? lo : lowest;
    }
    assert_int_equal(lowest, -128);
}

static void padding_is_zero_and_nothing_is_written_beyond(void **state)
{
    (void)state;
    float x[96];
    for (int i = 0; i < 96; i++)
        x[i] = -1.0f;
    for (int f = 0; f < 2; f++) {
        const struct tern_act_layout layout = tern_act_layout(forms[f], 96);
        quantize(x, 96, forms[f]);
        for (uint32_t i = 96; i < 128; i++)
            assert_int_equal(row[i] | row[layout.lo + i], 0);
        for (uint32_t i = layout.scale + 12; i < layout.sum; i++)
            assert_int_equal(row[i], 0);
        for (uint32_t i = layout.sum + 24; i < layout.stride; i++)
            assert_int_equal(row[i], 0);
        for (uint32_t i = layout.stride; i < MAX_STRIDE; i++)
            assert_int_equal(row[i], 0xa5);
    }
}

/* Rows that already failed may still pass through: no undefined conversion (sanitizers watch). */
static void values_that_are_not_finite_do_no_harm(void **state)
{
    (void)state;
    float x[32] = {NAN, INFINITY, -INFINITY, 1.0f};
    for (int f = 0; f < 2; f++) {
        quantize(x, 32, forms[f]);
        const struct tern_act_layout layout = tern_act_layout(forms[f], 32);
        assert_false(tern_finite(scale_at(layout, 0)));
        for (uint32_t i = 0; i < 32; i++)
            assert_true(abs(code_at(forms[f], layout, i)) <= (int)limit_of(forms[f]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_lie_where_the_header_says),
        cmocka_unit_test(codes_and_sums_follow_the_rule),
        cmocka_unit_test(extremes_and_ties),
        cmocka_unit_test(sixteen_bits_split_in_two_signed_bytes),
        cmocka_unit_test(padding_is_zero_and_nothing_is_written_beyond),
        cmocka_unit_test(values_that_are_not_finite_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
