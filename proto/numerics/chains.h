/*
 * Sums in 16 interleaved chains, the order of every float sum within a row (NUMERICS sections 2, 3
 * and 4). Private to proto/numerics.
 */
#ifndef TERN_NUMERICS_CHAINS_H
#define TERN_NUMERICS_CHAINS_H

#include <stdbool.h>
#include <stdint.h>

enum { TERN_CHAINS = 16 };

/* Adds a[k]*b[k] to chain k mod 16, k < n. `begin`: these are the sum's first terms, so that each
 * chain starts at its product; a chain without one is +0. */
void tern_chain_add(const float *a, const float *b, uint32_t n, bool begin,
                    float chain[TERN_CHAINS]);

/* Sum of a[k]*b[k] in 16 chains, joined. */
float tern_chain_dot(const float *a, const float *b, uint32_t n);

#endif
