/*
 * Ranking: loops that a compiler can make vectors of, and a radix sort of what is left. Values are
 * computed where they are needed, some thousand at a time: a large vocabulary's do not fit a cache.
 */
#include "coordinator/schedule/rank.h"
#include "proto/numerics/functions.h"

#include <stdlib.h>

enum {
    BITS = 11, /* of a sorting pass */
    DIGITS = 1 << BITS,
    CHUNK = 2048, /* values at a time */
};

void tern_rank_free(struct tern_rank *rank)
{
    free(rank->place);
    free(rank->spare);
    free(rank->chance);
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
    const bool all = rank->place != NULL && rank->spare != NULL && rank->chance != NULL;
    rank->room = all ? n : 0;
    return all;
}

struct chunk {
    uint32_t begin, count; /* ids */
    float value[CHUNK];
    uint32_t bin[CHUNK]; /* TERN_BINS: it has no chance, or its value is no number */
};

static void compute(const struct tern_rank *rank, uint32_t begin, struct chunk *chunk)
{
    const float no_chance = -(float)TERN_BINS / TERN_BINS_PER_ONE;
    const float *logits = rank->logits + begin;
    const uint32_t left = rank->n - begin, count = left < CHUNK ? left : CHUNK;
    chunk->begin = begin;
    chunk->count = count;
    for (uint32_t i = 0; i < count; i++) {
        const float value = (logits[i] - rank->max) / rank->temperature;
        chunk->value[i] = value > no_chance ? value : no_chance;
    }
    for (uint32_t i = 0; i < count; i++)
        chunk->bin[i] = (uint32_t)(int32_t)(chunk->value[i] * -TERN_BINS_PER_ONE);
}

bool tern_rank_count(struct tern_rank *rank, const float *logits, uint32_t n, float max,
                     float temperature, bool weigh)
{
    struct chunk chunk;
    float chance[CHUNK];
    uint32_t count[TERN_BINS + 1] = {0};
    double mass[TERN_BINS + 1] = {0};
    if (!reserve(rank, n))
        return false;
    rank->logits = logits;
    rank->n = n;
    rank->max = max;
    rank->temperature = temperature;
    for (uint32_t begin = 0; begin < n; begin += chunk.count) {
        compute(rank, begin, &chunk);
        for (uint32_t i = 0; i < chunk.count; i++)
            count[chunk.bin[i]]++;
        for (uint32_t i = 0; weigh && i < chunk.count; i++)
            chance[i] = tern_exp(chunk.value[i]);
        for (uint32_t i = 0; weigh && i < chunk.count; i++)
            mass[chunk.bin[i]] += (double)chance[i];
    }
    rank->sorted = 0;
    rank->all = (struct tern_bin){0};
    for (uint32_t i = 0; i < TERN_BINS; i++) {
        rank->bin[i] = (struct tern_bin){count[i], mass[i]};
        rank->all.count += count[i];
        rank->all.mass += mass[i];
    }
    return true;
}

/* Those of bins 0 .. last, in order of id. Values are at most 0: the magnitude's bits grow as the
 * value falls. */
static void gather(struct tern_rank *rank, uint32_t last)
{
    struct chunk chunk;
    rank->sorted = 0;
    for (uint32_t begin = 0; begin < rank->n; begin += chunk.count) {
        compute(rank, begin, &chunk);
        for (uint32_t i = 0; i < chunk.count; i++)
            if (chunk.bin[i] <= last)
                rank->place[rank->sorted++] = (struct tern_candidate){
                    .key = tern_bits(chunk.value[i]) & 0x7fffffffu, .id = begin + i};
    }
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

void tern_rank_sort(struct tern_rank *rank, uint32_t last)
{
    gather(rank, last);
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
