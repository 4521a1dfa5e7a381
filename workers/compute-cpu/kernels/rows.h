/*
 * Blocks of LANES neighbouring rows: how the codes and scales of each type come out of the file's
 * layout. Codes are delivered unsigned (code + offset, see code_offset), in the order of elements.
 * Bit layouts: FORMATS, "Bit layouts of the ggml types".
 */
#ifndef TERN_KERNELS_ROWS_H
#define TERN_KERNELS_ROWS_H

#include "workers/compute-cpu/kernels/simd.h"

/* The same block of LANES rows: row i's bytes begin at base + i*stride. */
struct rows {
    const uint8_t *base;
    size_t stride;
};

/* Written so that the addresses share four bases and the strides 1 to 3. */
INLINE const uint8_t *row_at(struct rows rows, unsigned i)
{
    return rows.base + (i / 4) * (4 * rows.stride) + (i % 4) * rows.stride;
}
INLINE struct rows rows_ahead(struct rows rows, size_t bytes)
{
    return (struct rows){rows.base + bytes, rows.stride};
}

/* What the delivered code exceeds the code by. */
INLINE int code_offset(enum tern_type type)
{
    switch (type) {
    case TERN_Q8_0:
        return 128;
    case TERN_Q4_0:
        return 8;
    case TERN_Q5_0:
        return 16;
    case TERN_Q6_K:
        return 32;
    default:
        return 0;
    }
}
/* The largest delivered code. */
INLINE unsigned code_limit(enum tern_type type)
{
    switch (type) {
    case TERN_Q8_0:
        return 255;
    case TERN_Q6_K:
        return 63;
    case TERN_Q5_0:
    case TERN_Q5_1:
    case TERN_Q5_K:
        return 31;
    default:
        return 15;
    }
}
INLINE bool adds_minimum(enum tern_type type)
{
    return type == TERN_Q4_1 || type == TERN_Q5_1;
}
INLINE size_t block_bytes(enum tern_type type)
{
    switch (type) {
    case TERN_Q8_0:
        return 34;
    case TERN_Q4_0:
        return 18;
    case TERN_Q4_1:
        return 20;
    case TERN_Q5_0:
        return 22;
    case TERN_Q5_1:
        return 24;
    case TERN_Q4_K:
        return 144;
    case TERN_Q5_K:
        return 176;
    default: /* TERN_Q6_K */
        return 210;
    }
}
/* Offset of a 32-element block's nibbles or bytes; the fifth bits of Q5_0 and Q5_1 lie before. */
INLINE size_t code_start(enum tern_type type)
{
    switch (type) {
    case TERN_Q4_1:
        return 4;
    case TERN_Q5_0:
        return 6;
    case TERN_Q5_1:
        return 8;
    default:
        return 2;
    }
}

#if defined(__AVX512BW__)
#include "workers/compute-cpu/kernels/rows512.h"
#else
#include "workers/compute-cpu/kernels/rows256.h"
#endif

/* Scales of a 32-element block of all rows; `minimum` only for types that add one. */
INLINE vf rows_scales(enum tern_type type, struct rows rows, vf *minimum)
{
    if (!adds_minimum(type))
        return rows_halves(rows, 0);
    const vi both = rows_words(rows, 0);
    *minimum = vf_widen_low_halves(vi_right(both, 16));
    return vf_widen_low_halves(both);
}

/* Integer sums of codes times activations of a 32-element block: one row in each lane. `lo` counts
 * for 16 bits only. |sum| <= 32 * 255 * 32768 < 2^31, also on the way. */
INLINE vi rows_dot32(enum tern_type type, unsigned bits, struct rows rows, const uint8_t *hi,
                     const uint8_t *lo)
{
    const vi x = block32_act(hi);
    const vi x_low = bits == 16 ? block32_act(lo) : vi_zero();
    vi half[2];
#pragma GCC unroll 2
    for (unsigned h = 0; h < 2; h++) {
        vi sum[4];
#pragma GCC unroll 4
        for (unsigned i = 0; i < 4; i++) {
            const vi code = block32_codes(type, rows, 4 * h + i);
            sum[i] = vi_dot(vi_zero(), code, x, code_limit(type));
            if (bits == 16)
                sum[i] = vi_dot(vi_left(sum[i], 8), code, x_low, code_limit(type));
        }
        half[h] = vi_join4(sum[0], sum[1], sum[2], sum[3]);
    }
    return block32_join(half);
}

#endif
