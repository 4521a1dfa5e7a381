/*
 * Quantized activations (NUMERICS section 2): one scale and integer codes per block of a row.
 */
#include "proto/numerics/quantize.h"

#include "proto/numerics/value.h"

enum { SECTION = 64, SUM_VALUES = 16 };

static uint32_t align_section(uint32_t bytes)
{
    return (bytes + SECTION - 1) & ~(uint32_t)(SECTION - 1);
}

struct tern_act_layout tern_act_layout(struct tern_act act, uint32_t columns)
{
    const uint32_t code_bytes = align_section(columns);
    const uint32_t scale = act.bits == 16 ? 2 * code_bytes : code_bytes;
    const uint32_t sum = scale + align_section(columns / act.block * (uint32_t)sizeof(float));
    const uint32_t end = sum + align_section(columns / SUM_VALUES * (uint32_t)sizeof(int32_t));
    return (struct tern_act_layout){
        .lo = act.bits == 16 ? code_bytes : 0, .scale = scale, .sum = sum, .stride = end};
}

/* Nearest even integer of |x| < 2^22, limited to +-limit. The comparisons also give NaN, which is
 * refused elsewhere, a defined result. */
static int32_t round_code(float x, float limit)
{
    const float rounded = (x + 12582912.0f) - 12582912.0f;
    const float above = rounded > -limit ? rounded : -limit;
    return (int32_t)(above < limit ? above : limit);
}

static float largest_magnitude(const float *x, uint32_t n)
{
    float largest = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        const float magnitude = tern_float(tern_bits(x[i]) & 0x7fffffffu);
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

/* Codes of one block; returns its scale. */
static float quantize_block(const float *x, uint32_t n, float limit, int32_t *code)
{
    const float largest = largest_magnitude(x, n);
    if (largest == 0.0f) {
        memset(code, 0, n * sizeof *code);
        return 0.0f;
    }
    const float inverse = limit / largest;
    for (uint32_t i = 0; i < n; i++)
        code[i] = round_code(x[i] * inverse, limit);
    return largest / limit;
}

/* Arithmetic shift right by 8 of v + 128, written so that it is defined for negative numbers. */
static int32_t high_byte(int32_t v)
{
    return ((v + 128 + (1 << 16)) >> 8) - (1 << 8);
}

static void store_codes(const int32_t *code, uint32_t n, uint32_t bits, int8_t *first, int8_t *lo)
{
    for (uint32_t i = 0; i < n; i++) {
        if (bits == 8) {
            first[i] = (int8_t)code[i];
            continue;
        }
        const int32_t hi = high_byte(code[i]);
        first[i] = (int8_t)hi;
        lo[i] = (int8_t)(code[i] - 256 * hi);
    }
}

static void store_sums(const int32_t *code, uint32_t n, int32_t *sum)
{
    for (uint32_t i = 0; i < n / SUM_VALUES; i++) {
        sum[i] = 0;
        for (uint32_t j = 0; j < SUM_VALUES; j++)
            sum[i] += code[i * SUM_VALUES + j];
    }
}

static void clear(uint8_t *row, uint32_t begin, uint32_t end)
{
    memset(row + begin, 0, end - begin);
}

void tern_quantize_row(const float *x, uint32_t columns, struct tern_act act, void *out)
{
    const struct tern_act_layout layout = tern_act_layout(act, columns);
    uint8_t *row = out;
    float *scale = (float *)(void *)(row + layout.scale);
    int32_t *sum = (int32_t *)(void *)(row + layout.sum);
    const float limit = act.bits == 16 ? 32639.0f : 127.0f;
    int32_t code[256];
    for (uint32_t begin = 0; begin < columns; begin += act.block) {
        *scale++ = quantize_block(x + begin, act.block, limit, code);
        store_codes(code, act.block, act.bits, (int8_t *)row + begin,
                    (int8_t *)row + layout.lo + begin);
        store_sums(code, act.block, sum + begin / SUM_VALUES);
    }
    clear(row, columns, act.bits == 16 ? layout.lo : layout.scale);
    if (act.bits == 16)
        clear(row, layout.lo + columns, layout.scale);
    clear(row, layout.scale + columns / act.block * (uint32_t)sizeof(float), layout.sum);
    clear(row, layout.sum + columns / SUM_VALUES * (uint32_t)sizeof(int32_t), layout.stride);
}
