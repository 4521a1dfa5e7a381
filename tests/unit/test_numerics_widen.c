/* Embedding rows: every type's bit layout and the order of operations. */
#include "proto/numerics/product.h"
#include "test_numerics_weights.h"

enum { BLOCKS = 3 };

static float expect_widened(uint32_t type, const uint8_t *row, uint32_t e)
{
    const struct weight w = weight_at(type, row, e);
    float x = w.d * (float)w.s;
    x = x * (float)w.c;
    if (adds_minimum(type))
        x = x + w.m;
    if (subtracts_minimum(type)) {
        const float offset = w.m * (float)w.mn;
        x = x - offset;
    }
    return value_of(x);
}

static void check_widened(uint32_t type, const uint8_t *row, uint32_t columns)
{
    float out[BLOCKS * 256 + 1];
    out[columns] = 42.0f;
    assert_true(tern_widen_row(type, row, columns, 1.0f, out));
    for (uint32_t e = 0; e < columns; e++)
        assert_same_float(out[e], expect_widened(type, row, e));
    assert_same_float(out[columns], 42.0f);
    assert_true(tern_widen_row(type, row, columns, 0x1.3p-40f, out));
    for (uint32_t e = 0; e < columns; e++)
        assert_same_float(out[e], value_of(expect_widened(type, row, e) * 0x1.3p-40f));
}

static void every_quantized_type_widens_by_its_layout(void **state)
{
    (void)state;
    static const int fills[] = {-1, -1, -1, 0x00, 0xff, 0x80, 0x0f, 0xf0, 0x7f};
    uint64_t seed = 3;
    uint8_t row[BLOCKS * MAX_BLOCK_BYTES];
    for (int t = 0; t < QUANTIZED_TYPES; t++) {
        const uint32_t type = quantized_types[t];
        for (int round = 0; round < 90; round++) {
            put_blocks(type, BLOCKS, fills[round % 9], &seed, row);
            check_widened(type, row, BLOCKS * tern_type_info(type)->block);
        }
    }
}

/* One block written out by hand, so that the layout reader of this test has a witness too. */
static void a_block_by_hand(void **state)
{
    (void)state;
    uint8_t q4_1[20] = {0x00, 0x3c, 0x00, 0xc0}; /* d = 1, m = -2 */
    q4_1[4] = 0x5f;                              /* element 0: 15, element 16: 5 */
    float out[256];
    assert_true(tern_widen_row(TERN_Q4_1, q4_1, 32, 1.0f, out));
    assert_same_float(out[0], 13.0f);
    assert_same_float(out[16], 3.0f);
    assert_same_float(out[1], -2.0f);

    uint8_t q4_k[144] = {0x00, 0x38, 0x00, 0x3c}; /* d = 0.5, dmin = 1 */
    q4_k[4] = 0xc0 | 3;                           /* scale 0: 3; scale 4: upper bits 3 */
    q4_k[8] = 0x40 | 2;                           /* minimum 0: 2; minimum 4: upper bits 1 */
    q4_k[12] = 0x9a;                              /* scale 4: 10 + 48; minimum 4: 9 + 16 */
    q4_k[16] = 0x07;                              /* element 0: 7 */
    q4_k[16 + 64] = 0x02;                         /* element 128: 2 */
    assert_true(tern_widen_row(TERN_Q4_K, q4_k, 256, 1.0f, out));
    assert_same_float(out[0], 0.5f * 3 * 7 - 2);
    assert_same_float(out[128], 0.5f * 58 * 2 - 25);
    assert_same_float(out[32], 0.0f);
}

static void float_types_widen_exactly(void **state)
{
    (void)state;
    const float f32[] = {1.5f, -0x1p-51f, -0.0f, 3e38f};
    const uint16_t f16[] = {0x3e00, 0x8001, 0x8000, 0x7bff};
    const uint16_t bf16[] = {0x3fc0, 0x0001, 0x8000, 0x7f7f};
    float out[4];
    assert_true(tern_widen_row(TERN_F32, f32, 4, 1.0f, out));
    assert_same_float(out[0], 1.5f);
    assert_same_float(out[1], 0.0f);
    assert_same_float(out[2], 0.0f);
    assert_same_float(out[3], 3e38f);
    assert_true(tern_widen_row(TERN_F16, f16, 4, 1.0f, out));
    assert_same_float(out[0], 1.5f);
    assert_same_float(out[1], -0x1p-24f);
    assert_same_float(out[2], 0.0f);
    assert_same_float(out[3], 65504.0f);
    assert_true(tern_widen_row(TERN_BF16, bf16, 4, 1.0f, out));
    assert_same_float(out[0], 1.5f);
    assert_same_float(out[1], 0.0f);
    assert_same_float(out[2], 0.0f);
    assert_same_float(out[3], 0x1.fep+127f);
}

static void values_that_are_not_finite_are_reported(void **state)
{
    (void)state;
    float out[256];
    const float overflow[] = {1.0f, 3e38f};
    assert_true(tern_widen_row(TERN_F32, overflow, 2, 1.0f, out));
    assert_false(tern_widen_row(TERN_F32, overflow, 2, 2.0f, out));
    const uint16_t infinite[] = {0x3c00, 0xfc00};
    assert_false(tern_widen_row(TERN_F16, infinite, 2, 1.0f, out));
    for (int t = 0; t < QUANTIZED_TYPES; t++) {
        const uint32_t type = quantized_types[t];
        const uint32_t columns = tern_type_info(type)->block;
        uint8_t row[MAX_BLOCK_BYTES];
        memset(row, 0x11, sizeof row);
        assert_true(tern_widen_row(type, row, columns, 1.0f, out));
        row[type == TERN_Q6_K ? 209 : 1] = 0x7e;
        assert_false(tern_widen_row(type, row, columns, 1.0f, out));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_quantized_type_widens_by_its_layout),
        cmocka_unit_test(a_block_by_hand),
        cmocka_unit_test(float_types_widen_exactly),
        cmocka_unit_test(values_that_are_not_finite_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
