/*
 * Sampling in four moves: logits with bias and penalty; candidates with their values, of which only
 * those that can survive are sorted by (value, then lower id); filters, which shorten the sorted
 * list; the draw.
 */
#include "coordinator/schedule/sample.h"
#include "proto/numerics/functions.h"
#include "proto/numerics/value.h"

#include <stdlib.h>
#include <string.h>

/* exp of anything below is +0 (NUMERICS section 1, point 6): no chance of being drawn. */
#define LEAST_VALUE (-34.0f)

enum { BITS = 11, BUCKETS = 1 << BITS }; /* of a sorting pass */

struct candidate {
    uint32_t key; /* the value's bits, made so that a larger value has a smaller key */
    uint32_t id;
};

struct tern_sampler {
    struct candidate *list, *spare;
    float *chance;   /* of the sorted candidates */
    float *adjusted; /* logits with bias and penalty */
    uint32_t room;
};

struct tern_sampling tern_sampling_greedy(void)
{
    return (struct tern_sampling){.top_p = 1, .penalty = 1};
}

static bool changes_logits(const struct tern_sampling *sampling)
{
    return sampling->penalty != 1 || sampling->biases > 0;
}

bool tern_sampling_is_argmax(const struct tern_sampling *sampling)
{
    return sampling->temperature == 0 && !changes_logits(sampling);
}

struct tern_sampler *tern_sampler_new(void)
{
    return calloc(1, sizeof(struct tern_sampler));
}

static void free_scratch(struct tern_sampler *sampler)
{
    free(sampler->list);
    free(sampler->spare);
    free(sampler->chance);
    free(sampler->adjusted);
    *sampler = (struct tern_sampler){0};
}

void tern_sampler_free(struct tern_sampler *sampler)
{
    if (sampler == NULL)
        return;
    free_scratch(sampler);
    free(sampler);
}

static bool reserve(struct tern_sampler *sampler, uint32_t n)
{
    if (n <= sampler->room)
        return true;
    free_scratch(sampler);
    sampler->list = malloc(n * sizeof *sampler->list);
    sampler->spare = malloc(n * sizeof *sampler->spare);
    sampler->chance = malloc(n * sizeof *sampler->chance);
    sampler->adjusted = malloc(n * sizeof *sampler->adjusted);
    const bool all = sampler->list != NULL && sampler->spare != NULL && sampler->chance != NULL &&
                     sampler->adjusted != NULL;
    sampler->room = all ? n : 0;
    return all;
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

static bool seen_before(const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count; i++)
        if (ids[i] == ids[count - 1])
            return true;
    return false;
}

/* Bias, then penalty: each of the newest tokens once, however often it stands there. */
static void adjust(float *x, const struct tern_sampling *sampling, uint32_t n, const uint32_t *ids,
                   uint32_t count)
{
    const float r = sampling->penalty;
    for (uint32_t i = 0; i < sampling->biases; i++)
        if (sampling->bias[i].id < n)
            x[sampling->bias[i].id] += sampling->bias[i].value;
    if (r == 1)
        return;
    const uint32_t first = count > TERN_PENALTY_TOKENS ? count - TERN_PENALTY_TOKENS : 0;
    for (uint32_t i = first; i < count; i++) {
        const uint32_t id = ids[i];
        if (id < n && !seen_before(ids + first, i - first + 1))
            x[id] = x[id] > 0 ? x[id] / r : x[id] * r;
    }
}

static uint32_t argmax(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* Values are (x - max) / T, at most 0: the magnitude's bits grow as the value falls. */
static float value_of(uint32_t key)
{
    return -tern_float(key);
}

/* Candidates that can be drawn at all, in order of id. */
static uint32_t gather(struct candidate *list, const float *logits, uint32_t n, float temperature)
{
    const float max = logits[argmax(logits, n)];
    uint32_t count = 0;
    for (uint32_t id = 0; id < n; id++) {
        const float value = (logits[id] - max) / temperature;
        if (!(value >= LEAST_VALUE && value <= 0))
            continue;
        list[count++] = (struct candidate){.key = tern_bits(value) & 0x7fffffffu, .id = id};
    }
    return count;
}

/* Leaves out candidates that the k largest values cannot be among; their order stays. */
static uint32_t keep_likely(struct candidate *list, uint32_t count, uint32_t k)
{
    uint32_t in_bucket[BUCKETS] = {0}, last = 0, sum = 0, kept = 0;
    for (uint32_t i = 0; i < count; i++)
        in_bucket[list[i].key >> (32 - BITS)]++;
    while (sum + in_bucket[last] < k)
        sum += in_bucket[last++];
    for (uint32_t i = 0; i < count; i++)
        if (list[i].key >> (32 - BITS) <= last)
            list[kept++] = list[i];
    return kept;
}

/* Sorts by key with a radix sort. Each pass is stable, and so equal keys keep the order of their
 * ids: a comparing sort takes 10 times as long on a large vocabulary. */
static void sort(struct tern_sampler *sampler, uint32_t count)
{
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

/* How many of the sorted chances top-p keeps: those with less than p of the whole before them. */
static uint32_t cut_top_p(const float *chance, uint32_t count, double p)
{
    double total = 0, before = 0;
    uint32_t kept = 0;
    if (p >= 1)
        return count;
    for (uint32_t i = 0; i < count; i++)
        total += (double)chance[i];
    while (kept < count && before < p * total)
        before += (double)chance[kept++];
    return kept > 0 ? kept : 1;
}

static uint32_t cut_min_p(const float *chance, uint32_t count, double p)
{
    while (count > 1 && (double)chance[count - 1] < p * (double)chance[0])
        count--;
    return count;
}

/* The first whose running sum exceeds u * total. */
static uint32_t draw(const float *chance, uint32_t count, double u)
{
    double total = 0, running = 0;
    for (uint32_t i = 0; i < count; i++)
        total += (double)chance[i];
    for (uint32_t i = 0; i + 1 < count; i++) {
        running += (double)chance[i];
        if (running > u * total)
            return i;
    }
    return count - 1;
}

uint32_t tern_sample(struct tern_sampler *sampler, const struct tern_sampling *sampling,
                     const float *logits, uint32_t n, const uint32_t *ids, uint32_t count)
{
    const uint32_t k = sampling->top_k;
    if (!reserve(sampler, n))
        return UINT32_MAX;
    if (changes_logits(sampling)) {
        memcpy(sampler->adjusted, logits, n * sizeof *logits);
        adjust(sampler->adjusted, sampling, n, ids, count);
        logits = sampler->adjusted;
    }
    if (sampling->temperature == 0)
        return argmax(logits, n);
    uint32_t kept = gather(sampler->list, logits, n, sampling->temperature);
    if (kept == 0)
        return argmax(logits, n);
    if (k > 0 && k < kept)
        kept = keep_likely(sampler->list, kept, k);
    sort(sampler, kept);
    if (k > 0 && k < kept)
        kept = k;
    for (uint32_t i = 0; i < kept; i++)
        sampler->chance[i] = tern_exp(value_of(sampler->list[i].key));
    kept = cut_top_p(sampler->chance, kept, sampling->top_p);
    kept = cut_min_p(sampler->chance, kept, sampling->min_p);
    const double u = (double)(tern_philox(sampling->seed, count) >> 8) * 0x1p-24;
    return sampler->list[draw(sampler->chance, kept, u)].id;
}
