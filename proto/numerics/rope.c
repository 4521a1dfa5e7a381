/*
 * Rotation of one head by a row of the RoPE table (NUMERICS section 1, point 8).
 */
#include "proto/numerics/layer.h"
#include "proto/numerics/value.h"

bool tern_rope(const float *x, const float *pairs, uint32_t head_size, uint32_t rope_size,
               enum tern_rope_pairs order, float *out)
{
    const uint32_t count = rope_size / 2;
    bool finite = true;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t first = order == TERN_ROPE_INTERLEAVED ? 2 * i : i;
        const uint32_t second = order == TERN_ROPE_INTERLEAVED ? 2 * i + 1 : i + count;
        const float c = pairs[2 * i];
        const float s = pairs[2 * i + 1];
        const float x1 = x[first];
        const float x2 = x[second];
        out[first] = tern_value(x1 * c - x2 * s);
        out[second] = tern_value(x2 * c + x1 * s);
        finite &= tern_finite(out[first]) && tern_finite(out[second]);
    }
    for (uint32_t i = 2 * count; i < head_size; i++)
        out[i] = x[i];
    return finite;
}
