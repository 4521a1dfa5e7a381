/*
 * A piece of a row of weights, unpacked: what products and embedding rows both start from. The
 * weight of element e of a quantized block is d*scale*code, with i = e / span the index of its
 * sub-block, then - m*minimum[i] (SUBTRACTED) or + m (ADDED). Private to proto/numerics.
 */
#ifndef TERN_NUMERICS_BLOCK_H
#define TERN_NUMERICS_BLOCK_H

#include <stdint.h>

enum { TERN_BLOCK_LIMIT = 256, TERN_SUB_BLOCKS = 16 };

enum tern_minimum { TERN_MINIMUM_NONE, TERN_MINIMUM_SUBTRACTED, TERN_MINIMUM_ADDED };

struct tern_block {
    float d, m;
    enum tern_minimum rule;
    uint32_t elements, span; /* of the block; of a sub-block */
    int8_t code[TERN_BLOCK_LIMIT];
    int16_t scale[TERN_SUB_BLOCKS];
    uint8_t minimum[TERN_SUB_BLOCKS];
};

/* Unpacks the block of a quantized `type` (one with an act_block) that begins at `bytes`. Any bytes
 * are a valid block. */
void tern_block_read(uint32_t type, const uint8_t *bytes, struct tern_block *block);

/* The counterpart for F32, F16 and BF16: n elements, widened exactly; `bytes` need no alignment. */
void tern_floats_read(uint32_t type, const uint8_t *bytes, uint32_t n, float *out);

#endif
