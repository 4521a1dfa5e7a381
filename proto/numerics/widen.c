/*
 * Embedding rows: weights as floats (NUMERICS section 2), each operation rounded.
 */
#include "proto/numerics/block.h"
#include "proto/numerics/product.h"
#include "proto/numerics/value.h"

static void widen_block(const struct tern_block *block, float *out)
{
    for (uint32_t e = 0; e < block->elements; e++) {
        const uint32_t i = e / block->span;
        const float w = (block->d * (float)block->scale[i]) * (float)block->code[e];
        switch (block->rule) {
        case TERN_MINIMUM_NONE:
            out[e] = w;
            break;
        case TERN_MINIMUM_ADDED:
            out[e] = w + block->m;
            break;
        case TERN_MINIMUM_SUBTRACTED:
            out[e] = w - block->m * (float)block->minimum[i];
            break;
        }
    }
}

static void widen_quantized(const struct tern_type_info *info, uint32_t type,
                            const uint8_t *weights, uint32_t columns, float *out)
{
    struct tern_block block;
    for (uint32_t begin = 0; begin < columns; begin += info->block) {
        tern_block_read(type, weights, &block);
        weights += info->bytes;
        widen_block(&block, out + begin);
    }
}

bool tern_widen_row(uint32_t type, const void *weights, uint32_t columns, float factor, float *out)
{
    const struct tern_type_info *info = tern_type_info(type);
    if (info->act_block == 0)
        tern_floats_read(type, weights, columns, out);
    else
        widen_quantized(info, type, weights, columns, out);
    bool finite = true;
    for (uint32_t k = 0; k < columns; k++) {
        out[k] = tern_value(out[k]);
        if (factor != 1.0f)
            out[k] = tern_value(out[k] * factor);
        finite &= tern_finite(out[k]);
    }
    return finite;
}
