/* Keys and values of one layer, and attention over them (NUMERICS.md section 3). */
#ifndef REFERENCE_ATTENTION_H
#define REFERENCE_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>

/* keys[position][kv head][head size], values alike. */
struct cache {
    float *keys, *values;
    size_t kv_heads, head_size;
    bool half; /* kept as f16 */
};

/* Keeps k and v (kv_heads * head_size each) as those of the position. */
void attention_store(struct cache *cache, size_t position, const float *k, const float *v);

/* out = attention of one query head over one KV head, at `position`; window 0 sees all positions
 * before it, else only the last `window`, its own included. */
void attention_head(float *out, const struct cache *cache, const float *q, size_t kv_head,
                    size_t position, size_t window, float scale);

#endif
