/*
 * Quantized weights for the tests: each type's bit layout read element by element (another way than
 * proto/numerics/block.c), and blocks of random and extreme bytes.
 */
#ifndef TEST_NUMERICS_WEIGHTS_H
#define TEST_NUMERICS_WEIGHTS_H

#include "proto/tensor.h"
#include "test_numerics_common.h"

enum { QUANTIZED_TYPES = 8, MAX_BLOCK_BYTES = 210 };

static const uint32_t quantized_types[QUANTIZED_TYPES] = {
    TERN_Q4_0, TERN_Q4_1, TERN_Q5_0, TERN_Q5_1, TERN_Q8_0, TERN_Q4_K, TERN_Q5_K, TERN_Q6_K,
};

/* One weight: d*s*c, then - m*mn (K types) or + m (Q4_1, Q5_1). */
struct weight {
    float d, m;
    int s, c, mn;
};

static inline bool adds_minimum(uint32_t type)
{
    return type == TERN_Q4_1 || type == TERN_Q5_1;
}
static inline bool subtracts_minimum(uint32_t type)
{
    return type == TERN_Q4_K || type == TERN_Q5_K;
}

/* `count` bits of a little-endian bit string from bit `at` on. */
static inline int bits_at(const uint8_t *bytes, uint32_t at, uint32_t count)
{
    int value = 0;
    for (uint32_t i = 0; i < count; i++)
        value |= (bytes[(at + i) / 8] >> ((at + i) % 8) & 1) << i;
    return value;
}

static inline float half_at(const uint8_t *bytes)
{
    return expect_half((uint32_t)bits_at(bytes, 0, 16));
}

static inline int nibble32(const uint8_t *q, uint32_t e)
{
    return bits_at(q, 8 * (e % 16) + 4 * (e / 16), 4);
}

static inline struct weight weight32(uint32_t type, const uint8_t *b, uint32_t e)
{
    struct weight w = {.d = half_at(b), .s = 1};
    switch (type) {
    case TERN_Q4_0:
        w.c = nibble32(b + 2, e) - 8;
        break;
    case TERN_Q4_1:
        w.m = half_at(b + 2);
        w.c = nibble32(b + 4, e);
        break;
    case TERN_Q5_0:
        w.c = nibble32(b + 6, e) + 16 * bits_at(b + 2, e, 1) - 16;
        break;
    case TERN_Q5_1:
        w.m = half_at(b + 2);
        w.c = nibble32(b + 8, e) + 16 * bits_at(b + 4, e, 1);
        break;
    default: /* TERN_Q8_0 */
        w.c = bits_at(b, 16 + 8 * e, 8);
        w.c -= w.c >= 128 ? 256 : 0;
        break;
    }
    return w;
}

static inline struct weight weight_k(uint32_t type, const uint8_t *b, uint32_t e)
{
    const uint32_t j = e / 32;
    const uint32_t l = e % 32;
    const uint8_t *s = b + 4;
    struct weight w = {.d = half_at(b), .m = half_at(b + 2)};
    w.s = j < 4 ? bits_at(s, 8 * j, 6) : bits_at(s, 8 * j + 32, 4) + 16 * bits_at(s, 8 * j - 26, 2);
    w.mn = j < 4 ? bits_at(s, 8 * j + 32, 6)
                 : bits_at(s, 8 * j + 36, 4) + 16 * bits_at(s, 8 * j + 6, 2);
    const uint8_t *q = b + (type == TERN_Q4_K ? 16 : 48);
    w.c = bits_at(q, 8 * (32 * (j / 2) + l) + 4 * (j % 2), 4);
    if (type == TERN_Q5_K)
        w.c += 16 * bits_at(b + 16, 8 * l + j, 1);
    return w;
}

static inline struct weight weight_q6_k(const uint8_t *b, uint32_t e)
{
    const uint32_t h = e / 128, quarter = e % 128 / 32, l = e % 32;
    struct weight w = {.d = half_at(b + 208), .s = b[192 + e / 16]};
    w.s -= w.s >= 128 ? 256 : 0;
    w.c = bits_at(b, 8 * (64 * h + 32 * (quarter % 2) + l) + 4 * (quarter / 2), 4);
    w.c += 16 * bits_at(b + 128, 8 * (32 * h + l) + 2 * quarter, 2);
    w.c -= 32;
    return w;
}

/* Element e of a row. */
static inline struct weight weight_at(uint32_t type, const uint8_t *row, uint32_t e)
{
    const struct tern_type_info *info = tern_type_info(type);
    const uint8_t *block = row + e / info->block * info->bytes;
    const uint32_t within = e % info->block;
    if (info->block == 32)
        return weight32(type, block, within);
    return type == TERN_Q6_K ? weight_q6_k(block, within) : weight_k(type, block, within);
}

/* A finite half of any kind: subnormal, zero, negative, large. */
static inline void put_random_half(uint8_t *at, uint64_t *seed)
{
    static const uint16_t special[] = {0, 0x8000, 1, 0x8001, 0x03ff, 0x7bff, 0xfbff, 0x0400};
    const uint32_t draw = random_bits(seed);
    uint16_t half = (uint16_t)(draw >> 16);
    if ((half & 0x7c00) == 0x7c00)
        half ^= 0x4000;
    if (draw % 4 == 0)
        half = special[draw / 4 % 8];
    at[0] = (uint8_t)half;
    at[1] = (uint8_t)(half >> 8);
}

/* `blocks` blocks of bytes that are random (fill < 0) or all `fill`, with random finite scales. */
static inline void put_blocks(uint32_t type, uint32_t blocks, int fill, uint64_t *seed,
                              uint8_t *row)
{
    const struct tern_type_info *info = tern_type_info(type);
    for (uint32_t b = 0; b < blocks; b++, row += info->bytes) {
        for (uint32_t i = 0; i < info->bytes; i++)
            row[i] = fill < 0 ? (uint8_t)random_bits(seed) : (uint8_t)fill;
        put_random_half(type == TERN_Q6_K ? row + 208 : row, seed);
        if (adds_minimum(type) || subtracts_minimum(type))
            put_random_half(row + 2, seed);
    }
}

#endif
