/*
 * Sampling in three moves: candidates with their values, sorted by (value, then lower id); their
 * probabilities; the draw. Filters belong between the moves: they shorten the sorted list.
 */
#include "coordinator/schedule/sample.h"
#include "proto/numerics/functions.h"
#include "proto/numerics/value.h"

#include <stdlib.h>
#include <string.h>

/* exp of anything below is +0 (NUMERICS section 1, point 6): no chance of being drawn. */
#define LEAST_VALUE (-34.0f)

struct candidate {
    uint32_t key; /* the value's bits, made so that a larger value has a smaller key */
    uint32_t id;
};

struct tern_sampler {
    struct candidate *list, *spare;
    uint32_t room;
};

struct tern_sampler *tern_sampler_new(void)
{
    return calloc(1, sizeof(struct tern_sampler));
}

void tern_sampler_free(struct tern_sampler *sampler)
{
    if (sampler == NULL)
        return;
    free(sampler->list);
    free(sampler->spare);
    free(sampler);
}

static bool reserve(struct tern_sampler *sampler, uint32_t n)
{
    if (n <= sampler->room)
        return true;
    free(sampler->list);
    free(sampler->spare);
    sampler->list = malloc(n * sizeof *sampler->list);
    sampler->spare = malloc(n * sizeof *sampler->spare);
    sampler->room = sampler->list != NULL && sampler->spare != NULL ? n : 0;
    return sampler->room != 0;
}

uint32_t tern_philox(uint64_t seed, uint32_t position)
{
    uint32_t counter[4] = {position, 0, 0, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)counter[0] * 0xD2511F53u;
        const uint64_t b = (uint64_t)counter[2] * 0xCD9E8D57u;
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ counter[1] ^ key[0], (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ counter[3] ^ key[1], (uint32_t)a};
        memcpy(counter, next, sizeof counter);
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return counter[0];
}

static float largest(const float *logits, uint32_t n)
{
    float max = logits[0];
    for (uint32_t i = 1; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    return max;
}

/* Values are (x - max) / T, at most 0: the magnitude's bits grow as the value falls. */
static float value_of(uint32_t key)
{
    return -tern_float(key);
}

/* Candidates that can be drawn at all, in order of id. */
static uint32_t gather(struct candidate *list, const float *logits, uint32_t n, float temperature)
{
    const float max = largest(logits, n);
    uint32_t count = 0;
    for (uint32_t id = 0; id < n; id++) {
        const float value = (logits[id] - max) / temperature;
        if (!(value >= LEAST_VALUE && value <= 0))
            continue;
        list[count++] = (struct candidate){.key = tern_bits(value) & 0x7fffffffu, .id = id};
    }
    return count;
}

/* Sorts by key with a radix sort of 11 bits a pass. Each pass is stable, and so equal keys keep the
 * order of their ids: a comparing sort takes 10 times as long on a large vocabulary. */
static void sort(struct tern_sampler *sampler, uint32_t count)
{
    enum { BITS = 11, BUCKETS = 1 << BITS };
    for (int shift = 0; shift < 32; shift += BITS) {
        uint32_t start[BUCKETS] = {0};
        for (uint32_t i = 0; i < count; i++)
            start[(sampler->list[i].key >> shift) % BUCKETS]++;
        uint32_t sum = 0;
        for (int i = 0; i < BUCKETS; i++) {
            const uint32_t here = start[i];
            start[i] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < count; i++)
            sampler->spare[start[(sampler->list[i].key >> shift) % BUCKETS]++] = sampler->list[i];
        struct candidate *sorted = sampler->spare;
        sampler->spare = sampler->list;
        sampler->list = sorted;
    }
}

/* The first whose running sum exceeds u * total. */
static uint32_t draw(const struct candidate *list, uint32_t count, double u)
{
    double total = 0, running = 0;
    for (uint32_t i = 0; i < count; i++)
        total += (double)tern_exp(value_of(list[i].key));
    for (uint32_t i = 0; i + 1 < count; i++) {
        running += (double)tern_exp(value_of(list[i].key));
        if (running > u * total)
            return list[i].id;
    }
    return list[count - 1].id;
}

uint32_t tern_sample(struct tern_sampler *sampler, const struct tern_sampling *sampling,
                     const float *logits, uint32_t n, uint32_t position)
{
    if (!reserve(sampler, n))
        return UINT32_MAX;
    const uint32_t count = gather(sampler->list, logits, n, sampling->temperature);
    if (count == 0)
        return 0;
    sort(sampler, count);
    const double u = (double)(tern_philox(sampling->seed, position) >> 8) * 0x1p-24;
    return draw(sampler->list, count, u);
}
