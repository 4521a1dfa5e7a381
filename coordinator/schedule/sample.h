/*
 * Choosing the next token from a row of logits (NUMERICS section 4). The draw depends on logits,
 * settings, seed and the position of the token to choose alone, so that a replay draws the same
 * token. Greedy rows never come here: the worker finds their argmax.
 */
#ifndef TERN_SAMPLE_H
#define TERN_SAMPLE_H

#include <stdint.h>

struct tern_sampling {
    float temperature; /* 0: greedy; else TERN_MIN_TEMPERATURE or more */
    uint64_t seed;
};

/* Below this a temperature is refused: (x - max) / T must stay a sensible number. */
#define TERN_MIN_TEMPERATURE 1e-6
#define TERN_MAX_TEMPERATURE 1e6

struct tern_sampler; /* scratch memory, grown as vocabularies need it */

struct tern_sampler *tern_sampler_new(void); /* NULL: out of memory */
void tern_sampler_free(struct tern_sampler *sampler);

/* Draws one of n >= 1 tokens for `position` at temperature > 0. Always returns an id below n,
 * whatever the logits' bits (the worker has checked that they are finite); UINT32_MAX: out of
 * memory. */
uint32_t tern_sample(struct tern_sampler *sampler, const struct tern_sampling *sampling,
                     const float *logits, uint32_t n, uint32_t position);

/* First word of Philox4x32-10 (Salmon et al., SC 2011) with key = (low, high word of the seed) and
 * counter = (position, 0, 0, 0). */
uint32_t tern_philox(uint64_t seed, uint32_t position);

#endif
