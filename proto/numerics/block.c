/*
 * The bit layouts of the weight types (FORMATS, "Bit layouts of the ggml types").
 */
#include "proto/numerics/block.h"

#include "proto/numerics/value.h"
#include "proto/tensor.h"

static float read_half(const uint8_t *bytes)
{
    return tern_half_to_float((uint16_t)(bytes[0] | bytes[1] << 8));
}

/* 32-element types: byte j holds elements j (low nibble) and j + 16; bit e of `fifth` is the fifth
 * bit of element e, codes are offset by `zero`. */
static void read_nibbles(const uint8_t *q, uint32_t fifth, int zero, struct tern_block *block)
{
    for (int j = 0; j < 16; j++) {
        const int low = (q[j] & 15) | (int)(fifth >> j & 1) << 4;
        const int high = q[j] >> 4 | (int)(fifth >> (j + 16) & 1) << 4;
        block->code[j] = (int8_t)(low - zero);
        block->code[j + 16] = (int8_t)(high - zero);
    }
}

static uint32_t read_fifth_bits(const uint8_t *qh)
{
    return qh[0] | (uint32_t)qh[1] << 8 | (uint32_t)qh[2] << 16 | (uint32_t)qh[3] << 24;
}

static void begin_block32(const uint8_t *bytes, struct tern_block *block)
{
    block->d = read_half(bytes);
    block->m = 0.0f;
    block->rule = TERN_MINIMUM_NONE;
    block->elements = block->span = 32;
    block->scale[0] = 1;
    block->minimum[0] = 1;
}

static void read_added_minimum(const uint8_t *bytes, struct tern_block *block)
{
    block->m = read_half(bytes);
    block->rule = TERN_MINIMUM_ADDED;
}

static void read_q8_0(const uint8_t *bytes, struct tern_block *block)
{
    begin_block32(bytes, block);
    memcpy(block->code, bytes + 2, 32);
}

static void read_q4_0(const uint8_t *bytes, struct tern_block *block)
{
    begin_block32(bytes, block);
    read_nibbles(bytes + 2, 0, 8, block);
}

static void read_q4_1(const uint8_t *bytes, struct tern_block *block)
{
    begin_block32(bytes, block);
    read_added_minimum(bytes + 2, block);
    read_nibbles(bytes + 4, 0, 0, block);
}

static void read_q5_0(const uint8_t *bytes, struct tern_block *block)
{
    begin_block32(bytes, block);
    read_nibbles(bytes + 6, read_fifth_bits(bytes + 2), 16, block);
}

static void read_q5_1(const uint8_t *bytes, struct tern_block *block)
{
    begin_block32(bytes, block);
    read_added_minimum(bytes + 2, block);
    read_nibbles(bytes + 8, read_fifth_bits(bytes + 4), 0, block);
}

/* d, dmin and the eight 6-bit scales and minimums packed in 12 bytes. */
static void begin_block_k(const uint8_t *bytes, struct tern_block *block)
{
    const uint8_t *s = bytes + 4;
    block->d = read_half(bytes);
    block->m = read_half(bytes + 2);
    block->rule = TERN_MINIMUM_SUBTRACTED;
    block->elements = 256;
    block->span = 32;
    for (int j = 0; j < 4; j++) {
        block->scale[j] = s[j] & 63;
        block->minimum[j] = s[j + 4] & 63;
        block->scale[j + 4] = (int16_t)((s[j + 8] & 15) | s[j] >> 6 << 4);
        block->minimum[j + 4] = (uint8_t)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
    }
}

static void read_q4_k(const uint8_t *bytes, struct tern_block *block)
{
    begin_block_k(bytes, block);
    const uint8_t *q = bytes + 16;
    for (int g = 0; g < 4; g++) {
        for (int l = 0; l < 32; l++) {
            block->code[64 * g + l] = (int8_t)(q[32 * g + l] & 15);
            block->code[64 * g + 32 + l] = (int8_t)(q[32 * g + l] >> 4);
        }
    }
}

static void read_q5_k(const uint8_t *bytes, struct tern_block *block)
{
    begin_block_k(bytes, block);
    const uint8_t *qh = bytes + 16;
    const uint8_t *q = bytes + 48;
    for (int g = 0; g < 4; g++) {
        for (int l = 0; l < 32; l++) {
            const int low = (q[32 * g + l] & 15) | (qh[l] >> (2 * g) & 1) << 4;
            const int high = q[32 * g + l] >> 4 | (qh[l] >> (2 * g + 1) & 1) << 4;
            block->code[64 * g + l] = (int8_t)low;
            block->code[64 * g + 32 + l] = (int8_t)high;
        }
    }
}

static void read_q6_k(const uint8_t *bytes, struct tern_block *block)
{
    block->d = read_half(bytes + 208);
    block->m = 0.0f;
    block->rule = TERN_MINIMUM_NONE;
    block->elements = 256;
    block->span = 16;
    for (int i = 0; i < 16; i++)
        block->scale[i] = (int8_t)bytes[192 + i];
    for (int h = 0; h < 2; h++) {
        const uint8_t *ql = bytes + 64 * h;
        const uint8_t *qh = bytes + 128 + 32 * h;
        int8_t *code = block->code + 128 * h;
        for (int l = 0; l < 32; l++) {
            code[l] = (int8_t)(((ql[l] & 15) | (qh[l] & 3) << 4) - 32);
            code[l + 32] = (int8_t)(((ql[l + 32] & 15) | (qh[l] >> 2 & 3) << 4) - 32);
            code[l + 64] = (int8_t)((ql[l] >> 4 | (qh[l] >> 4 & 3) << 4) - 32);
            code[l + 96] = (int8_t)((ql[l + 32] >> 4 | (qh[l] >> 6) << 4) - 32);
        }
    }
}

void tern_block_read(uint32_t type, const uint8_t *bytes, struct tern_block *block)
{
    switch (type) {
    case TERN_Q4_0:
        read_q4_0(bytes, block);
        break;
    case TERN_Q4_1:
        read_q4_1(bytes, block);
        break;
    case TERN_Q5_0:
        read_q5_0(bytes, block);
        break;
    case TERN_Q5_1:
        read_q5_1(bytes, block);
        break;
    case TERN_Q8_0:
        read_q8_0(bytes, block);
        break;
    case TERN_Q4_K:
        read_q4_k(bytes, block);
        break;
    case TERN_Q5_K:
        read_q5_k(bytes, block);
        break;
    default: /* TERN_Q6_K: callers pass only types that have an act_block */
        read_q6_k(bytes, block);
        break;
    }
}

void tern_floats_read(uint32_t type, const uint8_t *bytes, uint32_t n, float *out)
{
    if (type == TERN_F32) {
        memcpy(out, bytes, n * sizeof *out);
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * (size_t)k, sizeof half);
        out[k] = type == TERN_F16 ? tern_half_to_float(half) : tern_bf16_to_float(half);
    }
}
