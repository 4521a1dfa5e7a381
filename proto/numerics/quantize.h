/*
 * Quantized activations (NUMERICS section 2), and how a quantized row lies in memory.
 *
 * A row of `columns` values (a multiple of act.block) in the form `act`, sections 64-byte aligned:
 *   bits 8:  int8  code[columns]
 *   bits 16: int8  hi[columns]; int8 lo[columns]     v = 256*hi + lo, hi = (v+128)>>8
 *   then     float scale[columns / block]
 *   then     int32 sum[columns / 16]                 sum of v over each 16 values
 * A row's padding up to its stride is zero after tern_quantize_row.
 */
#ifndef TERN_NUMERICS_QUANTIZE_H
#define TERN_NUMERICS_QUANTIZE_H

#include "proto/tensor.h"

struct tern_act_layout {
    uint32_t lo;     /* offset of lo[], 16 bits only */
    uint32_t scale;  /* offset of scale[] */
    uint32_t sum;    /* offset of sum[] */
    uint32_t stride; /* bytes of a row, a multiple of 64 */
};

/* Layout for act.block != 0; columns <= 2^24. */
struct tern_act_layout tern_act_layout(struct tern_act act, uint32_t columns);

/* x: `columns` finite values. out: tern_act_layout().stride bytes, 64-byte aligned. */
void tern_quantize_row(const float *x, uint32_t columns, struct tern_act act, void *out);

#endif
