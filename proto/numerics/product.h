/*
 * Rows of weights: products with activations and widening (NUMERICS section 2). Weights are read
 * as the GGUF file stores them, except that the loader has applied the value rule to F32 and BF16
 * elements in place. Memory-safe for any bytes; the result may be non-finite only if a scale or an
 * activation is.
 */
#ifndef TERN_NUMERICS_PRODUCT_H
#define TERN_NUMERICS_PRODUCT_H

#include "proto/tensor.h"

/* One output: weights row (tern_row_bytes(type, columns) bytes) times an activation row, `x` being
 * float[columns] for act.block 0, else a quantized row (quantize.h). The value rule is applied. */
float tern_product(uint32_t type, const void *weights, uint32_t columns, struct tern_act act,
                   const void *x);

/* An embedding row: columns values, each widened by the rules, the value rule applied; times
 * `factor` (and the value rule again) unless it is 1. False if a value is not finite. */
bool tern_widen_row(uint32_t type, const void *weights, uint32_t columns, float factor, float *out);

/* Joins 16 chains: ((0+1)+(2+3))+((4+5)+(6+7)), the same for 8..15, then the two halves. */
float tern_join16(const float chain[16]);

#endif
