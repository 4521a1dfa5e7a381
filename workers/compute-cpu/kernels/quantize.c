/* Quantized activation rows (NUMERICS section 2; layout: proto/numerics/quantize.h). Compiled once
 * per tier. */
#include "proto/numerics/quantize.h"
#include "workers/compute-cpu/kernels/operations.h"

/* The largest magnitude of n values, a multiple of 16. */
INLINE float largest_magnitude(const float *x, uint32_t n)
{
    vi largest = vi_zero();
    for (uint32_t i = 0; i < n; i += LANES)
        largest = track_magnitude(largest, vf_load(x + i));
    return tern_float(vi_largest_unsigned(largest));
}

/* Codes of one block. |x * inverse| exceeds the limit by less than a half, so rounding limits it.
 */
INLINE void store_codes(const float *x, uint32_t n, unsigned bits, float inverse, int8_t *first,
                        int8_t *lo, int32_t *sum)
{
    const vf by = vf_set1(inverse);
    for (uint32_t i = 0; i < n; i += 16) {
        vi code[PER16], high[PER16], low[PER16];
        for (unsigned c = 0; c < PER16; c++) {
            code[c] = vi_from_float(vf_mul(vf_load(x + i + c * LANES), by));
            high[c] = vi_right_signed(vi_add(code[c], vi_set1(128)), 8);
            low[c] = vi_sub(code[c], vi_left(high[c], 8));
        }
        sum[i / 16] = vi_sum16(code);
        vi_store_bytes16(first + i, bits == 16 ? high : code);
        if (bits == 16)
            vi_store_bytes16(lo + i, low);
    }
}

INLINE void quantize_row(const float *x, uint32_t columns, uint32_t block, unsigned bits,
                         struct tern_act_layout layout, uint8_t *row)
{
    float *scale = (float *)(void *)(row + layout.scale);
    int32_t *sum = (int32_t *)(void *)(row + layout.sum);
    const float limit = bits == 16 ? 32639.0f : 127.0f;
    for (uint32_t begin = 0; begin < columns; begin += block) {
        const float largest = largest_magnitude(x + begin, block);
        const float inverse = largest == 0.0f ? 0.0f : limit / largest;
        *scale++ = largest / limit;
        store_codes(x + begin, block, bits, inverse, (int8_t *)row + begin,
                    (int8_t *)row + layout.lo + begin, sum + begin / 16);
    }
}

INLINE void clear(uint8_t *row, uint32_t begin, uint32_t end)
{
    memset(row + begin, 0, end - begin);
}

void TIER(quantize)(const float *x, uint32_t columns, struct tern_act act, void *out)
{
    const struct tern_act_layout layout = tern_act_layout(act, columns);
    uint8_t *row = out;
    if (act.block == 32 && act.bits == 8)
        quantize_row(x, columns, 32, 8, layout, row);
    else if (act.block == 32)
        quantize_row(x, columns, 32, 16, layout, row);
    else
        quantize_row(x, columns, act.block, act.bits, layout, row);
    clear(row, columns, act.bits == 16 ? layout.lo : layout.scale);
    if (act.bits == 16)
        clear(row, layout.lo + columns, layout.scale);
    clear(row, layout.scale + columns / act.block * (uint32_t)sizeof(float), layout.sum);
    clear(row, layout.sum + columns / 16 * (uint32_t)sizeof(int32_t), layout.stride);
}
