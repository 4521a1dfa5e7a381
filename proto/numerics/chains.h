/*
 * Sums in 16 interleaved chains, the order of every float sum within a row (NUMERICS sections 2, 3
 * and 4). Private to proto/numerics.
 */
#ifndef TERN_NUMERICS_CHAINS_H
#define TERN_NUMERICS_CHAINS_H

#include <stdint.h>

/* Sum of a[k]*b[k]: element k belongs to chain k mod 16, each chain starts at its first product, a
 * chain without one is +0. */
float tern_chain_dot(const float *a, const float *b, uint32_t n);

#endif
