/*
 * Choosing the next token from a row of logits (NUMERICS section 4). The choice depends on logits,
 * settings, seed and the ids so far alone, so that a replay chooses the same token. The worker
 * finds the argmax of plain greedy rows by itself.
 */
#ifndef TERN_SAMPLE_H
#define TERN_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

/* Added to the logit of one token. */
struct tern_bias {
    uint32_t id;
    float value;
};

/* tern_sampling_greedy() has every filter off. */
struct tern_sampling {
    float temperature; /* 0: the best token; else above 0 and finite */
    uint64_t seed;
    uint32_t top_k; /* candidates that are kept; 0: all */
    double top_p;   /* in [0, 1]; 1: no cut, 0: the best token only */
    double min_p;   /* in [0, 1]; 0: no cut, 1: those as likely as the best */
    float penalty;  /* repetition penalty, above 0 and finite; 1: none */
    const struct tern_bias *bias;
    uint32_t biases;
};

struct tern_sampling tern_sampling_greedy(void);

/* Is the choice the plain argmax of the row? */
bool tern_sampling_is_argmax(const struct tern_sampling *sampling);

enum {
    TERN_PENALTY_TOKENS = 64, /* newest ids that the repetition penalty looks at */
    TERN_MAX_TEMPERATURE = 1000000,
};

struct tern_sampler; /* scratch memory, grown as vocabularies need it */

struct tern_sampler *tern_sampler_new(void); /* NULL: out of memory */
void tern_sampler_free(struct tern_sampler *sampler);

/* Chooses the token that follows ids[0 .. count), from n >= 1 logits. Always returns an id below n,
 * whatever the logits' bits (the worker has checked that they are finite); UINT32_MAX: out of
 * memory. Ids and biased ids of n and above are ignored. */
uint32_t tern_sample(struct tern_sampler *sampler, const struct tern_sampling *sampling,
                     const float *logits, uint32_t n, const uint32_t *ids, uint32_t count);

/* First word of Philox4x32-10 (Salmon et al., SC 2011) with key = (low, high word of the seed) and
 * counter = (position, 0, 0, 0). */
uint32_t tern_philox(uint64_t seed, uint32_t position);

#endif
