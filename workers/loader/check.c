/*
 * Checks of weights. Floats are tested by their bits in loops without branches, which compilers
 * turn into vector code (memory speed); only when such a loop has found something is the place
 * searched.
 */
#include "workers/loader/check.h"

#include "proto/catalog.h"
#include "proto/numerics/value.h"
#include "proto/tensor.h"

#define F16_INFINITY  0x7c00u
#define BF16_INFINITY 0x7f80u
#define BF16_TINY     0x2680u /* 2^-50 */
#define F32_INFINITY  0x7f800000u
#define F32_TINY      0x26800000u /* 2^-50 */

/* Offsets of the half-precision scales in a block (NUMERICS section 2, FORMATS). */
static const struct scales {
    uint8_t count;
    uint16_t offset[2];
} scales[TERN_TYPE_LIMIT] = {
    [TERN_Q4_0] = {1, {0}},    [TERN_Q4_1] = {2, {0, 2}}, [TERN_Q5_0] = {1, {0}},
    [TERN_Q5_1] = {2, {0, 2}}, [TERN_Q8_0] = {1, {0}},    [TERN_Q4_K] = {2, {0, 2}},
    [TERN_Q5_K] = {2, {0, 2}}, [TERN_Q6_K] = {1, {208}},
};

static bool is_float(uint32_t type)
{
    return type == TERN_F32 || type == TERN_F16 || type == TERN_BF16;
}

size_t tern_check_unit(uint32_t type)
{
    return tern_type_info(type)->bytes;
}

bool tern_check_knows(uint32_t type)
{
    return is_float(type) || (type < TERN_TYPE_LIMIT && scales[type].count > 0);
}

/* Each returns 1 if any element is infinite or NaN. */

static unsigned fix_f32(uint32_t *bits, size_t count)
{
    unsigned bad = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t magnitude = bits[i] & 0x7fffffffu;
        bad |= magnitude >= F32_INFINITY;
        bits[i] = magnitude < F32_TINY ? 0 : bits[i];
    }
    return bad;
}

static unsigned fix_bf16(uint16_t *bits, size_t count)
{
    uint16_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        const uint16_t magnitude = bits[i] & 0x7fffu;
        bad |= magnitude >= BF16_INFINITY;
        bits[i] = magnitude < BF16_TINY ? 0 : bits[i];
    }
    return bad;
}

static unsigned test_f16(const uint16_t *bits, size_t count)
{
    uint16_t bad = 0;
    for (size_t i = 0; i < count; i++)
        bad |= (bits[i] & F16_INFINITY) == F16_INFINITY;
    return bad;
}

static bool half_is_finite(const uint8_t *at)
{
    return ((at[0] | at[1] << 8) & F16_INFINITY) != F16_INFINITY;
}

static unsigned test_scales(const uint8_t *block, size_t block_bytes, size_t count, unsigned offset)
{
    unsigned bad = 0;
    for (size_t i = 0; i < count; i++)
        bad |= !half_is_finite(block + i * block_bytes + offset);
    return bad;
}

static bool unit_is_finite(uint32_t type, const uint8_t *unit)
{
    switch (type) {
    case TERN_F32:
        return tern_finite(*(const float *)(const void *)unit);
    case TERN_BF16:
        return ((unit[0] | unit[1] << 8) & BF16_INFINITY) != BF16_INFINITY;
    case TERN_F16:
        return half_is_finite(unit);
    default:
        for (unsigned i = 0; i < scales[type].count; i++)
            if (!half_is_finite(unit + scales[type].offset[i]))
                return false;
        return true;
    }
}

static size_t find_bad(uint32_t type, const uint8_t *bytes, size_t units)
{
    const size_t unit_bytes = tern_check_unit(type);
    size_t i = 0;
    while (i < units && unit_is_finite(type, bytes + i * unit_bytes))
        i++;
    return i;
}

bool tern_check_values(uint32_t type, void *bytes, size_t units, size_t *bad)
{
    unsigned found = 0;
    if (type == TERN_F32)
        found = fix_f32(bytes, units);
    else if (type == TERN_BF16)
        found = fix_bf16(bytes, units);
    else if (type == TERN_F16)
        found = test_f16(bytes, units);
    else if (tern_check_knows(type))
        for (unsigned i = 0; i < scales[type].count; i++)
            found |= test_scales(bytes, tern_check_unit(type), units, scales[type].offset[i]);
    if (!found)
        return true;
    *bad = find_bad(type, bytes, units);
    return false;
}
