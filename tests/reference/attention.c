/* Attention by blocks of 256 positions, merged in increasing order. */
#include "attention.h"

#include "gguf_read.h"
#include "numbers.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256, LARGEST_HEAD = 1024 };

/* Maximum, sum of the exponentials and weighted sum of the values of some positions. */
struct sums {
    float maximum, total;
    float output[LARGEST_HEAD];
};

void attention_store(struct cache *cache, size_t position, const float *k, const float *v)
{
    const size_t n = cache->kv_heads * cache->head_size;
    for (size_t i = 0; i < n; i++) {
        if (cache->half && (fabsf(k[i]) >= 65520.0f || fabsf(v[i]) >= 65520.0f))
            fail("position %zu does not fit an f16 cache", position);
        cache->keys[position * n + i] = cache->half ? round_to_f16(k[i]) : k[i];
        cache->values[position * n + i] = cache->half ? round_to_f16(v[i]) : v[i];
    }
}

static const float *vector(const struct cache *cache, const float *all, size_t position,
                           size_t head)
{
    return all + (position * cache->kv_heads + head) * cache->head_size;
}

/* Positions first..last, all of one block. */
static void sum_block(struct sums *sums, const struct cache *cache, const float *q, size_t head,
                      size_t first, size_t last, float scale)
{
    const size_t n = cache->head_size;
    float score[BLOCK], chain[16] = {0};
    bool started[16] = {false};
    for (size_t p = first; p <= last; p++) {
        score[p - first] = dot(q, vector(cache, cache->keys, p, head), n) * scale;
        if (p == first || score[p - first] > sums->maximum)
            sums->maximum = score[p - first];
    }
    for (size_t p = first; p <= last; p++) {
        const float *v = vector(cache, cache->values, p, head);
        const float e = exponential(score[p - first] - sums->maximum);
        chain[p % 16] = started[p % 16] ? chain[p % 16] + e : e;
        started[p % 16] = true;
        for (size_t j = 0; j < n; j++)
            sums->output[j] = p == first ? e * v[j] : sums->output[j] + e * v[j];
    }
    sums->total = join_chains(chain);
}

static void merge(struct sums *all, const struct sums *block, size_t n)
{
    const float maximum = all->maximum > block->maximum ? all->maximum : block->maximum;
    const float a = exponential(all->maximum - maximum);
    const float c = exponential(block->maximum - maximum);
    all->maximum = maximum;
    all->total = value(value(all->total * a) + value(block->total * c));
    for (size_t j = 0; j < n; j++)
        all->output[j] = value(value(all->output[j] * a) + value(block->output[j] * c));
}

void attention_head(float *out, const struct cache *cache, const float *q, size_t kv_head,
                    size_t position, size_t window, float scale)
{
    const size_t n = cache->head_size;
    const size_t first = window > 0 && position >= window ? position - window + 1 : 0;
    struct sums all, block;
    if (n > LARGEST_HEAD)
        fail("heads of %zu values; at most %d are known", n, LARGEST_HEAD);
    for (size_t begin = first; begin <= position; begin = (begin / BLOCK + 1) * BLOCK) {
        const size_t end = (begin / BLOCK + 1) * BLOCK - 1;
        const size_t last = end < position ? end : position;
        sum_block(begin == first ? &all : &block, cache, q, kv_head, begin, last, scale);
        if (begin != first)
            merge(&all, &block, n);
    }
    for (size_t j = 0; j < n; j++)
        out[j] = value(all.output[j] / all.total);
}
