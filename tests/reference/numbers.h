/* The float rules of NUMERICS.md, sections 1, 2 (rounding of activations) and 4. */
#ifndef REFERENCE_NUMBERS_H
#define REFERENCE_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* The value rule: below 2^-50, and for -0, +0. */
float value(float x);

/* The exact float of 16 bits: IEEE half, bfloat16. */
float from_f16(uint16_t bits);
float from_bf16(uint16_t bits);

/* x rounded to the nearest half, ties to even, subnormals and -0 kept; |x| below 65520. */
float round_to_f16(float x);

float exponential(float x);
float silu(float x);
float gelu(float x);

/* Sum of 16 interleaved chains by the tree ((0+1)+(2+3))+((4+5)+(6+7)), 8..15 alike, then both. */
float join_chains(const float chain[16]);

/* Sum of a[k]*b[k], k < n, element k in chain k mod 16. */
float dot(const float *a, const float *b, size_t n);

/* One RMS norm of n values: out may be x. */
void norm(float *out, const float *x, const float *gain, size_t n, float epsilon);

/* One block of n activations as integers of at most `steps` (127 or 32639); returns their scale. */
float quantize(int32_t *v, const float *x, size_t n, int steps);

/* out[i] = a[i] + b[i], a value. */
void add(float *out, const float *a, const float *b, size_t n);

#endif
