/*
 * Sums in 16 interleaved chains joined by one tree.
 */
#include "proto/numerics/chains.h"

#include "proto/numerics/product.h"

enum { CHAINS = 16 };

float tern_join16(const float chain[16])
{
    float half[2];
    for (int h = 0; h < 2; h++) {
        const float *c = chain + 8 * h;
        half[h] = ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
    }
    return half[0] + half[1];
}

float tern_chain_dot(const float *a, const float *b, uint32_t n)
{
    float chain[CHAINS] = {0};
    for (uint32_t k = 0; k < n && k < CHAINS; k++)
        chain[k] = a[k] * b[k];
    uint32_t k = CHAINS;
    for (; n >= CHAINS && k <= n - CHAINS; k += CHAINS)
        for (uint32_t c = 0; c < CHAINS; c++)
            chain[c] = chain[c] + a[k + c] * b[k + c];
    for (; k < n; k++)
        chain[k % CHAINS] = chain[k % CHAINS] + a[k] * b[k];
    return tern_join16(chain);
}
