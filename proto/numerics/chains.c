/*
 * Sums in 16 interleaved chains joined by one tree.
 */
#include "proto/numerics/chains.h"

#include "proto/numerics/product.h"

float tern_join16(const float chain[16])
{
    float half[2];
    for (int h = 0; h < 2; h++) {
        const float *c = chain + 8 * h;
        half[h] = ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
    }
    return half[0] + half[1];
}

void tern_chain_add(const float *a, const float *b, uint32_t n, bool begin,
                    float chain[TERN_CHAINS])
{
    uint32_t k = 0;
    if (begin) {
        for (uint32_t c = 0; c < TERN_CHAINS; c++)
            chain[c] = c < n ? a[c] * b[c] : 0.0f;
        k = TERN_CHAINS;
    }
    for (; k < n && n - k >= TERN_CHAINS; k += TERN_CHAINS)
        for (uint32_t c = 0; c < TERN_CHAINS; c++)
            chain[c] = chain[c] + a[k + c] * b[k + c];
    for (; k < n; k++)
        chain[k % TERN_CHAINS] = chain[k % TERN_CHAINS] + a[k] * b[k];
}

float tern_chain_dot(const float *a, const float *b, uint32_t n)
{
    float chain[TERN_CHAINS];
    tern_chain_add(a, b, n, true, chain);
    return tern_join16(chain);
}
