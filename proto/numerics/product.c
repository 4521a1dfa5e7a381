/*
 * One row of weights times one row of activations (NUMERICS section 2): integers inside a block,
 * ordered floats between blocks.
 */
#include "proto/numerics/product.h"

#include "proto/numerics/block.h"
#include "proto/numerics/chains.h"
#include "proto/numerics/quantize.h"
#include "proto/numerics/value.h"

enum { SUM_VALUES = 16, WIDEN_STRETCH = 256 /* a multiple of the chains */ };

/* ---- Float weights: exact widening, 16 chains ---- */

static float float_product(uint32_t type, const uint8_t *weights, uint32_t columns, const float *x)
{
    const size_t element = type == TERN_F32 ? 4 : 2;
    float chain[TERN_CHAINS];
    for (uint32_t begin = 0; begin < columns; begin += WIDEN_STRETCH) {
        const uint32_t left = columns - begin;
        const uint32_t n = left < WIDEN_STRETCH ? left : WIDEN_STRETCH;
        float w[WIDEN_STRETCH];
        tern_floats_read(type, weights + begin * element, n, w);
        tern_chain_add(w, x + begin, n, begin == 0, chain);
    }
    return tern_join16(chain);
}

/* ---- Quantized weights: one term per block, one chain per row ---- */

struct act_row {
    const int8_t *first, *lo; /* codes or high bytes; low bytes, NULL for 8 bits */
    const float *scale;
    const int32_t *sum;
};

static struct act_row view_act_row(struct tern_act act, uint32_t columns, const uint8_t *row)
{
    const struct tern_act_layout layout = tern_act_layout(act, columns);
    return (struct act_row){
        .first = (const int8_t *)row,
        .lo = act.bits == 16 ? (const int8_t *)row + layout.lo : NULL,
        .scale = (const float *)(const void *)(row + layout.scale),
        .sum = (const int32_t *)(const void *)(row + layout.sum),
    };
}

/* Sum of code*v over n <= 32 elements: at most 32 * 128 * 32639 < 2^31. */
static int32_t sum_codes(const int8_t *code, const int8_t *first, const int8_t *lo, uint32_t n)
{
    int32_t sum = 0;
    if (lo == NULL) {
        for (uint32_t i = 0; i < n; i++)
            sum += code[i] * first[i];
        return sum;
    }
    for (uint32_t i = 0; i < n; i++)
        sum += code[i] * (256 * first[i] + lo[i]);
    return sum;
}

static float block_term(const struct tern_block *block, const struct act_row *x, uint32_t begin)
{
    int64_t isum = 0;
    int64_t minimums = 0;
    for (uint32_t at = 0; at < block->elements; at += block->span) {
        const uint32_t i = at / block->span;
        const int8_t *lo = x->lo == NULL ? NULL : x->lo + begin + at;
        const int32_t sum = sum_codes(block->code + at, x->first + begin + at, lo, block->span);
        isum += (int64_t)block->scale[i] * sum;
        if (block->rule == TERN_MINIMUM_NONE)
            continue;
        for (uint32_t s = (begin + at) / SUM_VALUES; s < (begin + at + block->span) / SUM_VALUES;
             s++)
            minimums += (int64_t)block->minimum[i] * x->sum[s];
    }
    const float scale = x->scale[begin / block->elements];
    const float term = (block->d * scale) * (float)isum;
    if (block->rule == TERN_MINIMUM_NONE)
        return term;
    const float offset = (block->m * scale) * (float)minimums;
    return block->rule == TERN_MINIMUM_ADDED ? term + offset : term - offset;
}

static float block_product(uint32_t type, const uint8_t *weights, uint32_t columns,
                           const struct act_row *x)
{
    const struct tern_type_info *info = tern_type_info(type);
    struct tern_block block;
    float sum = 0.0f;
    for (uint32_t begin = 0; begin < columns; begin += info->block) {
        tern_block_read(type, weights, &block);
        weights += info->bytes;
        const float term = block_term(&block, x, begin);
        sum = begin == 0 ? term : sum + term;
    }
    return sum;
}

float tern_product(uint32_t type, const void *weights, uint32_t columns, struct tern_act act,
                   const void *x)
{
    if (act.block == 0)
        return tern_value(float_product(type, weights, columns, x));
    const struct act_row row = view_act_row(act, columns, x);
    return tern_value(block_product(type, weights, columns, &row));
}
