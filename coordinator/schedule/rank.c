/* Ranking: loops that a compiler can make vectors of, and a radix sort of what is left. */
#include "coordinator/schedule/rank.h"
#include "proto/numerics/functions.h"

#include <stdlib.h>

#define LEAST_VALUE (-34.0f) /* see TERN_BINS */

enum {
    BITS = 11, /* of a sorting pass */
    DIGITS = 1 << BITS,
};

void tern_rank_free(struct tern_rank *rank)
{
    free(rank->place);
    free(rank->spare);
    free(rank->chance);
    free(rank->value);
    free(rank->in_bin);
    *rank = (struct tern_rank){0};
}

static bool reserve(struct tern_rank *rank, uint32_t n)
{
    if (n <= rank->room)
        return true;
    tern_rank_free(rank);
    rank->place = malloc(n * sizeof *rank->place);
    rank->spare = malloc(n * sizeof *rank->spare);
    rank->chance = malloc(n * sizeof *rank->chance);
    rank->value = malloc(n * sizeof *rank->value);
    rank->in_bin = malloc(n * sizeof *rank->in_bin);
    const bool all = rank->place != NULL && rank->spare != NULL && rank->chance != NULL &&
                     rank->value != NULL && rank->in_bin != NULL;
    rank->room = all ? n : 0;
    return all;
}

/* TERN_BINS for a value that has no chance, or is no number. */
static uint32_t bin_of(float value)
{
    const float no_chance = -(float)TERN_BINS / TERN_BINS_PER_ONE;
    return (uint32_t)(int32_t)((value >= LEAST_VALUE ? value : no_chance) * -TERN_BINS_PER_ONE);
}

static void count_bins(struct tern_rank *rank, uint32_t n)
{
    uint32_t count[TERN_BINS + 1] = {0};
    for (uint32_t id = 0; id < n; id++)
        count[rank->in_bin[id]]++;
    for (uint32_t i = 0; i < TERN_BINS; i++) {
        rank->bin[i] = (struct tern_bin){.count = count[i]};
        rank->all.count += count[i];
    }
}

static void weigh_bins(struct tern_rank *rank, uint32_t n)
{
    double mass[TERN_BINS + 1] = {0};
    for (uint32_t id = 0; id < n; id++)
        rank->chance[id] = tern_exp(rank->value[id]);
    for (uint32_t id = 0; id < n; id++)
        mass[rank->in_bin[id]] += (double)rank->chance[id];
    for (uint32_t i = 0; i < TERN_BINS; i++) {
        rank->bin[i].mass = mass[i];
        rank->all.mass += mass[i];
    }
}

bool tern_rank_count(struct tern_rank *rank, const float *logits, uint32_t n, float max,
                     float temperature, bool weigh)
{
    if (!reserve(rank, n))
        return false;
    rank->all = (struct tern_bin){0};
    rank->sorted = 0;
    for (uint32_t id = 0; id < n; id++)
        rank->value[id] = (logits[id] - max) / temperature;
    for (uint32_t id = 0; id < n; id++) /* which cannot be predicted: so not where it is counted */
        rank->in_bin[id] = bin_of(rank->value[id]);
    count_bins(rank, n);
    if (weigh)
        weigh_bins(rank, n);
    return true;
}

/* Those of bins 0 .. last, in order of id. Values are at most 0: the magnitude's bits grow as the
 * value falls. */
static void gather(struct tern_rank *rank, uint32_t n, uint32_t last)
{
    rank->sorted = 0;
    for (uint32_t id = 0; id < n; id++)
        if (rank->in_bin[id] <= last)
            rank->place[rank->sorted++] =
                (struct tern_candidate){tern_bits(rank->value[id]) & 0x7fffffffu, id};
}

/* A pass of a radix sort is stable, and so equal keys keep the order of their ids: a comparing sort
 * takes 10 times as long on a large vocabulary. */
static void sort_by(struct tern_rank *rank, int shift)
{
    uint32_t start[DIGITS] = {0}, sum = 0;
    for (uint32_t i = 0; i < rank->sorted; i++)
        start[(rank->place[i].key >> shift) % DIGITS]++;
    for (int i = 0; i < DIGITS; i++) {
        const uint32_t here = start[i];
        start[i] = sum;
        sum += here;
    }
    for (uint32_t i = 0; i < rank->sorted; i++)
        rank->spare[start[(rank->place[i].key >> shift) % DIGITS]++] = rank->place[i];
    struct tern_candidate *sorted = rank->spare;
    rank->spare = rank->place;
    rank->place = sorted;
}

void tern_rank_sort(struct tern_rank *rank, uint32_t n, uint32_t last)
{
    gather(rank, n, last);
    for (int shift = 0; shift < 32; shift += BITS)
        sort_by(rank, shift);
    for (uint32_t i = 0; i < rank->sorted; i++)
        rank->chance[i] = tern_exp(-tern_float(rank->place[i].key));
}

/* The factor is for what rounding does to exp. */
double tern_bin_most(uint32_t bin)
{
    return (double)tern_exp(-(float)bin / TERN_BINS_PER_ONE) * (1 + 1e-6);
}
