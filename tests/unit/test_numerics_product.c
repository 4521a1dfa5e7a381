/* Products of a row of weights and a row of activations, against the formula written plainly. */
#include "proto/numerics/product.h"
#include "proto/numerics/quantize.h"
#include "test_numerics_weights.h"

enum { BLOCKS = 5, MAX_COLUMNS = BLOCKS * 256 };

static _Alignas(64) uint8_t act_row[8 * MAX_COLUMNS];
static uint8_t weights[BLOCKS * MAX_BLOCK_BYTES];
static float x[MAX_COLUMNS];
static int64_t largest_isum;

static int code_at(struct tern_act act, uint32_t columns, uint32_t i)
{
    const int8_t *first = (const int8_t *)act_row;
    const struct tern_act_layout layout = tern_act_layout(act, columns);
    return act.bits == 8 ? first[i] : 256 * first[i] + first[layout.lo + i];
}

/* An integer below 2^53 to float with one rounding: exact in double first. */
static float round_integer(int64_t i)
{
    return (float)(double)i;
}

static float expect_term(uint32_t type, struct tern_act act, uint32_t columns, uint32_t begin)
{
    int64_t isum = 0, minimums = 0;
    for (uint32_t e = begin; e < begin + act.block; e++) {
        const struct weight w = weight_at(type, weights, e);
        const int64_t v = code_at(act, columns, e);
        isum += w.s * w.c * v;
        minimums += (adds_minimum(type) ? 1 : w.mn) * v;
    }
    largest_isum = llabs(isum) > largest_isum ? llabs(isum) : largest_isum;
    float as;
    memcpy(&as, act_row + tern_act_layout(act, columns).scale + begin / act.block * 4, 4);
    const struct weight w = weight_at(type, weights, begin);
    const float scaled = w.d * as;
    const float term = scaled * round_integer(isum);
    if (!adds_minimum(type) && !subtracts_minimum(type))
        return term;
    const float offset_scale = w.m * as;
    const float offset = offset_scale * round_integer(minimums);
    return adds_minimum(type) ? term + offset : term - offset;
}

static float expect_product(uint32_t type, struct tern_act act, uint32_t columns)
{
    float sum = expect_term(type, act, columns, 0);
    for (uint32_t begin = act.block; begin < columns; begin += act.block)
        sum += expect_term(type, act, columns, begin);
    return value_of(sum);
}

static void check_product(uint32_t type, uint32_t columns, enum tern_precision precision)
{
    const struct tern_act act = tern_type_act(type, precision);
    tern_quantize_row(x, columns, act, act_row);
    assert_same_float(tern_product(type, weights, columns, act, act_row),
                      expect_product(type, act, columns));
}

static void check_both_precisions(uint32_t type, uint32_t blocks)
{
    check_product(type, blocks * tern_type_info(type)->block, TERN_FAST);
    check_product(type, blocks * tern_type_info(type)->block, TERN_HIGH);
}

static void random_rows(void **state)
{
    (void)state;
    uint64_t seed = 21;
    for (int t = 0; t < QUANTIZED_TYPES; t++) {
        for (int round = 0; round < 100; round++) {
            for (uint32_t i = 0; i < MAX_COLUMNS; i++)
                x[i] = round & 1 ? random_value(&seed) * 0x1p-20f : random_unit(&seed);
            put_blocks(quantized_types[t], BLOCKS, -1, &seed, weights);
            check_both_precisions(quantized_types[t], 1 + random_bits(&seed) % BLOCKS);
        }
    }
}

/* Largest and smallest codes, sub-scales and activations: 0x80 makes codes of Q8_0 and sub-scales
 * of Q6_K -128; v = 256*h - 128 has lo = -128. */
static void extreme_rows(void **state)
{
    (void)state;
    static const int fills[] = {0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0, 0x88};
    static const float codes[] = {32639.0f, -32639.0f,         127.0f, -127.0f, -128.0f,
                                  32384.0f, -32640.0f + 256.0f};
    uint64_t seed = 22;
    for (int t = 0; t < QUANTIZED_TYPES; t++) {
        for (int f = 0; f < 7; f++) {
            for (int c = 0; c < 7; c++) {
                put_blocks(quantized_types[t], BLOCKS, fills[f], &seed, weights);
                for (uint32_t i = 0; i < MAX_COLUMNS; i++)
                    x[i] = i % 32 == 31 ? 32639.0f : codes[i & 8 ? c : (c + f) % 7];
                check_both_precisions(quantized_types[t], BLOCKS);
            }
        }
    }
}

/* Rows near saturation, where an integer sum beyond 32 bits must be rounded only once. */
static void saturated_rows(void **state)
{
    (void)state;
    static const uint32_t types[] = {TERN_Q4_K, TERN_Q5_K, TERN_Q6_K};
    uint64_t seed = 23;
    for (int t = 0; t < 3; t++) {
        largest_isum = 0;
        for (int round = 0; round < 400; round++) {
            const float sign = round & 1 ? -1.0f : 1.0f;
            for (uint32_t i = 0; i < 512; i++)
                x[i] = sign * (32639.0f - (float)(i % 256 == 0 ? 0 : random_bits(&seed) % 400));
            put_blocks(types[t], 2, round & 2 ? 0xff : 0x80, &seed, weights);
            for (int change = 0; change < 20; change++)
                weights[16 + random_bits(&seed) % 100] = (uint8_t)random_bits(&seed);
            check_both_precisions(types[t], 2);
        }
        assert_true(largest_isum > (types[t] == TERN_Q6_K ? 0 : UINT32_MAX));
    }
}

/* NUMERICS section 2: how kernels with 32-bit integers reach the same bits from H and L. */
static void halves_of_an_integer_sum_give_its_float(void **state)
{
    (void)state;
    uint64_t seed = 24;
    for (int round = 0; round < 20000; round++) {
        const int shift = (int)(random_bits(&seed) % 5);
        const int32_t h = (int32_t)(random_bits(&seed) % 62000000) - 31000000;
        const int32_t l = (int32_t)(random_bits(&seed) >> (1 + shift)) - (1 << (30 - shift));
        const int32_t a = (h >> 4) + (l >> 12);
        const int32_t b = ((h & 15) << 8) + (l & 4095);
        const float joined = (float)a * 4096.0f + (float)b;
        assert_same_float(joined, (float)((int64_t)h * 256 + l));
    }
}

static void zeros_give_positive_zero(void **state)
{
    (void)state;
    uint64_t seed = 25;
    memset(x, 0, sizeof x);
    for (int t = 0; t < QUANTIZED_TYPES; t++) {
        put_blocks(quantized_types[t], BLOCKS, -1, &seed, weights);
        check_both_precisions(quantized_types[t], BLOCKS);
        const struct tern_act act = tern_type_act(quantized_types[t], TERN_FAST);
        tern_quantize_row(x, act.block, act, act_row);
        assert_same_float(tern_product(quantized_types[t], weights, act.block, act, act_row), 0.0f);
    }
}

/* Results on both sides of 2^-50, and terms below it that add up to one above. */
static void the_value_rule_applies_to_the_row_only(void **state)
{
    (void)state;
    const struct tern_act act = {32, 8};
    memset(x, 0, sizeof x);
    memset(weights, 0, sizeof weights);
    weights[0] = weights[34] = 0x01; /* d = 2^-24 */
    weights[2] = weights[36] = 1;    /* code of element 0 */
    x[0] = x[32] = 0x1p-26f;
    tern_quantize_row(x, 64, act, act_row);
    const float one = tern_product(TERN_Q8_0, weights, 32, act, act_row);
    assert_same_float(one, expect_product(TERN_Q8_0, act, 32));
    assert_true(one >= 0x1p-50f);
    x[0] = x[32] = 0x1.8p-27f;
    tern_quantize_row(x, 32, act, act_row);
    assert_same_float(tern_product(TERN_Q8_0, weights, 32, act, act_row), 0.0f);
    tern_quantize_row(x, 64, act, act_row);
    const float two = tern_product(TERN_Q8_0, weights, 64, act, act_row);
    assert_same_float(two, expect_product(TERN_Q8_0, act, 64));
    assert_true(two > 0x1p-50f);
}

/* ---- Float weights ---- */

static uint16_t half_weights[1000];
static float float_weights[1000];

static float widened(uint32_t type, uint32_t k)
{
    if (type == TERN_F32)
        return float_weights[k];
    if (type == TERN_F16)
        return expect_half(half_weights[k]);
    return tern_float((uint32_t)half_weights[k] << 16);
}

static void check_float_product(uint32_t type, uint32_t columns)
{
    const struct tern_act none = {0, 0};
    const void *row = type == TERN_F32 ? (const void *)float_weights : half_weights;
    float term[1000];
    for (uint32_t k = 0; k < columns; k++)
        term[k] = widened(type, k) * x[k];
    assert_same_float(tern_product(type, row, columns, none, x),
                      value_of(expect_chains(term, columns, 0)));
}

static void float_weights_sum_in_sixteen_chains(void **state)
{
    (void)state;
    static const uint32_t types[] = {TERN_F32, TERN_F16, TERN_BF16};
    static const uint32_t widths[] = {1, 2, 5, 15, 16, 17, 31, 33, 255, 256, 257, 300, 512, 1000};
    uint64_t seed = 26;
    for (int round = 0; round < 30; round++) {
        for (int t = 0; t < 3; t++) {
            for (uint32_t k = 0; k < 1000; k++) {
                float_weights[k] = round % 3 ? random_unit(&seed) : random_value(&seed);
                const uint16_t half = (uint16_t)random_bits(&seed);
                half_weights[k] = types[t] == TERN_F16 ? half & 0xbfff : half & 0xbf7f;
                x[k] = random_unit(&seed);
            }
            for (int w = 0; w < 14; w++)
                check_float_product(types[t], widths[w]);
        }
    }
}

static void float_products_obey_the_value_rule(void **state)
{
    (void)state;
    const struct tern_act none = {0, 0};
    const float w[] = {-0x1p-25f, 0x1p-25f};
    float a[] = {0x1p-25f, 0.0f};
    assert_same_float(tern_product(TERN_F32, w, 2, none, a), -0x1p-50f);
    a[0] = 0x1.fffffep-26f;
    assert_same_float(tern_product(TERN_F32, w, 2, none, a), 0.0f);
    a[1] = -0x1p-30f; /* both terms are below 2^-50, their sum is not */
    assert_same_float(tern_product(TERN_F32, w, 2, none, a), -0x1.08p-50f);
}

/* Scales that are not finite: any result, but no harm (sanitizers watch). */
static void hostile_bytes_do_no_harm(void **state)
{
    (void)state;
    uint64_t seed = 27;
    uint32_t not_finite = 0;
    for (uint32_t i = 0; i < MAX_COLUMNS; i++)
        x[i] = random_unit(&seed);
    for (int round = 0; round < 800; round++) {
        const uint32_t type = quantized_types[round % QUANTIZED_TYPES];
        const struct tern_act act = tern_type_act(type, round & 8 ? TERN_FAST : TERN_HIGH);
        for (size_t i = 0; i < sizeof weights; i++)
            weights[i] = (uint8_t)random_bits(&seed);
        tern_quantize_row(x, BLOCKS * act.block, act, act_row);
        not_finite += !tern_finite(tern_product(type, weights, BLOCKS * act.block, act, act_row));
    }
    assert_in_range(not_finite, 1, 799);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rows),
        cmocka_unit_test(extreme_rows),
        cmocka_unit_test(saturated_rows),
        cmocka_unit_test(halves_of_an_integer_sum_give_its_float),
        cmocka_unit_test(zeros_give_positive_zero),
        cmocka_unit_test(the_value_rule_applies_to_the_row_only),
        cmocka_unit_test(float_weights_sum_in_sixteen_chains),
        cmocka_unit_test(float_products_obey_the_value_rule),
        cmocka_unit_test(hostile_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
