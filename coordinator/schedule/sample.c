/*
 * Sampling in four moves: logits with bias and penalty; candidates, of which only as many are
 * sorted as the filters and the draw must know; the filters, which shorten the sorted list; the
 * draw.
 *
 * What is not sorted still counts in sums of all chances, and these are known but for rounding.
 * Where that leaves a choice open, it is made again with all sorted.
 */
#include "coordinator/schedule/sample.h"
#include "coordinator/schedule/rank.h"

#include <stdlib.h>
#include <string.h>

struct tern_sampler {
    struct tern_rank rank;
    float *adjusted; /* logits with bias and penalty */
    uint32_t room;
};

/* The best `count` sorted candidates, and `rest` others that were not cut yet. */
struct survivors {
    const struct tern_rank *rank;
    uint32_t count, rest;
};

enum { UNDECIDED = -1 };

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

void tern_sampler_free(struct tern_sampler *sampler)
{
    if (sampler == NULL)
        return;
    tern_rank_free(&sampler->rank);
    free(sampler->adjusted);
    free(sampler);
}

static bool reserve(struct tern_sampler *sampler, uint32_t n)
{
    if (n <= sampler->room)
        return true;
    free(sampler->adjusted);
    sampler->adjusted = malloc(n * sizeof *sampler->adjusted);
    sampler->room = sampler->adjusted != NULL ? n : 0;
    return sampler->adjusted != NULL;
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

/* Bounds of the sum of all chances in their order; equal if nothing is left unsorted. */
static void total(const struct survivors *s, double *low, double *high)
{
    double sum = 0;
    if (s->rest > 0) {
        *low = s->rank->all.mass * (1 - TERN_MASS_ERROR);
        *high = s->rank->all.mass * (1 + TERN_MASS_ERROR);
        return;
    }
    for (uint32_t i = 0; i < s->count; i++)
        sum += (double)s->rank->chance[i];
    *low = *high = sum;
}

static bool keep(struct survivors *s, uint32_t count)
{
    s->count = count;
    s->rest = 0;
    return true;
}

/* The filters; false: undecided. */
static bool cut_top_k(struct survivors *s, uint32_t k)
{
    if (k == 0 || k >= s->count + s->rest)
        return true;
    return k <= s->count && keep(s, k);
}

/* Keeps those with less than p of the whole before them. */
static bool cut_top_p(struct survivors *s, double p)
{
    double low, high, before = 0;
    uint32_t kept = 0;
    if (p >= 1)
        return true;
    total(s, &low, &high);
    while (kept < s->count && before < p * low)
        before += (double)s->rank->chance[kept++];
    if (s->rest > 0 && before < p * high)
        return false;
    return keep(s, kept > 0 ? kept : 1);
}

/* `most`: what no chance of the rest exceeds. */
static bool cut_min_p(struct survivors *s, double p, double most)
{
    const float *chance = s->rank->chance;
    const double least = p * (double)chance[0];
    uint32_t kept = s->count;
    if (p <= 0)
        return true;
    if (s->rest > 0 && most >= least)
        return false;
    while (kept > 1 && (double)chance[kept - 1] < least)
        kept--;
    return keep(s, kept);
}

/* The place of the first whose running sum exceeds u * total, or UNDECIDED. */
static int64_t draw(const struct survivors *s, double u)
{
    const uint32_t others = s->rest > 0 ? s->count : s->count - 1; /* the last needs no look */
    double low, high, running = 0;
    total(s, &low, &high);
    for (uint32_t i = 0; i < others; i++) {
        running += (double)s->rank->chance[i];
        if (running > u * low)
            return running > u * high ? (int64_t)i : UNDECIDED;
    }
    return s->rest > 0 ? UNDECIDED : (int64_t)others;
}

/* The first filter that cuts says which bins must be sorted: as many as hold k candidates, as are
 * above min-p's least chance, or as hold the part of all that top-p keeps. Without filters these
 * are the bins that are drawn from. */
static bool by_count(const struct tern_sampling *sampling)
{
    return sampling->top_k > 0;
}
static bool by_chance(const struct tern_sampling *sampling)
{
    return !by_count(sampling) && sampling->top_p >= 1 && sampling->min_p > 0;
}

static uint32_t last_bin(const struct tern_rank *rank, const struct tern_sampling *sampling,
                         double u)
{
    const double part = sampling->top_p < 1 ? sampling->top_p : u;
    const double enough = part * rank->all.mass * (1 + 4 * TERN_MASS_ERROR);
    double mass = 0;
    uint32_t count = 0, bin = 0;
    for (; bin < TERN_BINS - 1; bin++) {
        count += rank->bin[bin].count;
        mass += rank->bin[bin].mass;
        if (by_count(sampling)    ? count >= sampling->top_k
            : by_chance(sampling) ? tern_bin_most(bin + 1) < sampling->min_p
                                  : mass > enough)
            break;
    }
    return bin;
}

/* The id that is drawn when the bins up to `last` are sorted, or UNDECIDED. */
static int64_t choose(struct tern_rank *rank, const struct tern_sampling *sampling, uint32_t last,
                      double u)
{
    tern_rank_sort(rank, last);
    struct survivors s = {rank, rank->sorted, rank->all.count - rank->sorted};
    if (s.count == 0 || !cut_top_k(&s, sampling->top_k) || !cut_top_p(&s, sampling->top_p) ||
        !cut_min_p(&s, sampling->min_p, tern_bin_most(last + 1)))
        return UNDECIDED;
    const int64_t place = draw(&s, u);
    return place == UNDECIDED ? UNDECIDED : (int64_t)rank->place[place].id;
}

uint32_t tern_sample(struct tern_sampler *sampler, const struct tern_sampling *sampling,
                     const float *logits, uint32_t n, const uint32_t *ids, uint32_t count)
{
    struct tern_rank *rank = &sampler->rank;
    if (changes_logits(sampling)) {
        if (!reserve(sampler, n))
            return UINT32_MAX;
        memcpy(sampler->adjusted, logits, n * sizeof *logits);
        adjust(sampler->adjusted, sampling, n, ids, count);
        logits = sampler->adjusted;
    }
    const uint32_t best = argmax(logits, n);
    if (sampling->temperature == 0)
        return best;
    const bool by_mass = !by_count(sampling) && !by_chance(sampling);
    if (!tern_rank_count(rank, logits, n, logits[best], sampling->temperature, by_mass))
        return UINT32_MAX;
    if (rank->all.count == 0)
        return best;
    const double u = (double)(tern_philox(sampling->seed, count) >> 8) * 0x1p-24;
    int64_t id = choose(rank, sampling, last_bin(rank, sampling, u), u);
    if (id == UNDECIDED)
        id = choose(rank, sampling, TERN_BINS - 1, u);
    return (uint32_t)id;
}
