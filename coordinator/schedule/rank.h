/*
 * The candidates of a row of logits, best first (NUMERICS section 4: by value, then lower id), as
 * far as they are needed. Of a large vocabulary nearly all have next to no chance, and sorting them
 * would take most of the time of a draw: so they are counted in bins of value first.
 */
#ifndef TERN_RANK_H
#define TERN_RANK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TERN_BINS_PER_ONE = 8,                 /* bins to a difference of 1 in value */
    TERN_BINS = 34 * TERN_BINS_PER_ONE + 1 /* below -34 exp is +0: no chance of being drawn */
};

/* The sum of the same chances in another order, up to some million, differs by less than this part:
 * each addition in double loses at most 1.2e-16. */
#define TERN_MASS_ERROR 1e-9

/* Candidates of values in (-(i + 1) / TERN_BINS_PER_ONE, -i / TERN_BINS_PER_ONE]. */
struct tern_bin {
    uint32_t count;
    double mass; /* sum of their chances, to within TERN_MASS_ERROR */
};

struct tern_candidate {
    uint32_t key; /* the value's bits, made so that a larger value has a smaller key */
    uint32_t id;
};

struct tern_rank {
    const float *logits; /* borrowed */
    uint32_t n;
    float max, temperature;
    struct tern_bin bin[TERN_BINS], all;

    uint32_t sorted;              /* candidates; all others are behind them */
    struct tern_candidate *place; /* the sorted, best first */
    float *chance;                /* exp(value) of each of them */
    struct tern_candidate *spare;
    uint32_t room;
};

/* Values (logit - max) / temperature of n logits whose largest is `max`, counted in bins. Without
 * `weigh` masses stay 0. No candidate is left if max overflowed. False: out of memory. *rank: zero
 * at first, then as the last call left it. */
bool tern_rank_count(struct tern_rank *rank, const float *logits, uint32_t n, float max,
                     float temperature, bool weigh);
/* Sorts those of bins 0 .. last. */
void tern_rank_sort(struct tern_rank *rank, uint32_t last);
void tern_rank_free(struct tern_rank *rank);

/* No candidate of this bin, or of a later one, has a higher chance. */
double tern_bin_most(uint32_t bin);

#endif
