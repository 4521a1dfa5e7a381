/* workers/loader/check: the value rule on a file's floats, and every number that is not finite
 * found where it is, in every type that has kernels. */
#include "proto/numerics/value.h"
#include "proto/tensor.h"
#include "workers/loader/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { UNITS = 77 }; /* no multiple of any vector's width */

static _Alignas(64) uint8_t bytes[UNITS * 256];

static void f32_obeys_the_value_rule(void **state)
{
    (void)state;
    static const uint32_t cases[] = {
        0x00000000u, 0x80000000u, 0x00000001u, 0x807fffffu, 0x267fffffu, 0xa67fffffu,
        0x26800000u, 0xa6800000u, 0x3f800000u, 0x7f7fffffu, 0xff7fffffu,
    };
    enum { COUNT = sizeof cases / sizeof cases[0] };
    uint32_t *bits = (uint32_t *)(void *)bytes;
    size_t bad;
    for (size_t i = 0; i < UNITS; i++)
        bits[i] = cases[i % COUNT];
    assert_true(tern_check_values(TERN_F32, bytes, UNITS, &bad));
    for (size_t i = 0; i < UNITS; i++)
        assert_int_equal(bits[i], tern_bits(tern_value(tern_float(cases[i % COUNT]))));
}

static void bf16_obeys_the_value_rule(void **state)
{
    (void)state;
    uint16_t *bits = (uint16_t *)(void *)bytes;
    size_t bad;
    for (uint32_t first = 0; first < 65536; first++) {
        bits[0] = (uint16_t)first;
        const float before = tern_bf16_to_float((uint16_t)first);
        assert_int_equal(tern_check_values(TERN_BF16, bytes, 1, &bad), tern_finite(before));
        if (tern_finite(before))
            assert_int_equal(tern_bits(tern_bf16_to_float(bits[0])), tern_bits(tern_value(before)));
    }
}

static void f16_is_only_tested(void **state)
{
    (void)state;
    uint16_t *bits = (uint16_t *)(void *)bytes;
    size_t bad;
    for (uint32_t first = 0; first < 65536; first++) {
        bits[0] = (uint16_t)first;
        assert_int_equal(tern_check_values(TERN_F16, bytes, 1, &bad),
                         tern_finite(tern_half_to_float((uint16_t)first)));
        assert_int_equal(bits[0], first);
    }
}

/* Puts a number that is not finite into unit `at`, at byte `offset` of it; only it is found. */
static void find_it(uint32_t type, size_t at, size_t offset, const void *number, size_t size)
{
    size_t bad = SIZE_MAX;
    uint8_t *place = bytes + at * tern_check_unit(type) + offset;
    memset(bytes, 0, sizeof bytes);
    assert_true(tern_check_values(type, bytes, UNITS, &bad));
    memcpy(place, number, size);
    assert_false(tern_check_values(type, bytes, UNITS, &bad));
    assert_int_equal(bad, at);
}

static void every_float_is_found_in_its_place(void **state)
{
    (void)state;
    /* Where the half-precision scales lie, from the table in NUMERICS. */
    static const struct {
        uint32_t type, offset;
    } scales[] = {
        {TERN_Q8_0, 0}, {TERN_Q4_0, 0},   {TERN_Q5_0, 0}, {TERN_Q4_1, 0}, {TERN_Q4_1, 2},
        {TERN_Q5_1, 0}, {TERN_Q5_1, 2},   {TERN_Q4_K, 0}, {TERN_Q4_K, 2}, {TERN_Q5_K, 0},
        {TERN_Q5_K, 2}, {TERN_Q6_K, 208}, {TERN_F16, 0},
    };
    static const uint16_t halves[] = {0x7c00, 0xfc00, 0x7e01, 0xffff};
    for (size_t at = 0; at < UNITS; at++) {
        for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
            find_it(scales[i].type, at, scales[i].offset, &halves[at % 4], 2);
        find_it(TERN_BF16, at, 0, (uint16_t[]){at % 2 ? 0x7f80 : 0xffc1}, 2);
        find_it(TERN_F32, at, 0, (uint32_t[]){at % 2 ? 0x7f800000u : 0xff800001u}, 4);
    }
}

static void codes_are_not_taken_for_floats(void **state)
{
    (void)state;
    size_t bad;
    for (uint32_t type = 0; type < TERN_TYPE_LIMIT; type++) {
        const struct tern_type_info *info = tern_type_info(type);
        if (info == NULL || !info->kernels || info->block == 1)
            continue;
        memset(bytes, 0xff, sizeof bytes);
        assert_false(tern_check_values(type, bytes, UNITS, &bad));
        for (size_t unit = 0; unit < UNITS; unit++) {
            uint8_t *block = bytes + unit * info->bytes;
            memset(block + (type == TERN_Q6_K ? 208 : 0), 0, 2);
            if (type == TERN_Q4_1 || type == TERN_Q5_1 || type == TERN_Q4_K || type == TERN_Q5_K)
                memset(block + 2, 0, 2);
        }
        assert_true(tern_check_values(type, bytes, UNITS, &bad));
    }
}

static void every_type_with_kernels_is_known(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < TERN_TYPE_LIMIT; type++)
        if (tern_type_info(type) != NULL && tern_type_info(type)->kernels)
            assert_true(tern_check_knows(type));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_obeys_the_value_rule),
        cmocka_unit_test(bf16_obeys_the_value_rule),
        cmocka_unit_test(f16_is_only_tested),
        cmocka_unit_test(every_float_is_found_in_its_place),
        cmocka_unit_test(codes_are_not_taken_for_floats),
        cmocka_unit_test(every_type_with_kernels_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
