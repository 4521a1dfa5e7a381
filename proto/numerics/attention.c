/*
 * Keys and values as stored, and attention over them in ordered blocks of 256 positions (NUMERICS
 * section 3). One head at a time, in a bounded stack frame.
 */
#include "proto/numerics/chains.h"
#include "proto/numerics/functions.h"
#include "proto/numerics/layer.h"
#include "proto/numerics/product.h"
#include "proto/numerics/value.h"

enum { BLOCK_POSITIONS = 256 };

/* Running or block-local state of the softmax-weighted sum. */
struct part {
    float max, weight;
    float sum[TERN_MAX_HEAD];
};

int tern_kv_store(enum tern_kv_type type, const float *x, uint32_t n, void *out)
{
    if (type == TERN_KV_F32) {
        memcpy(out, x, n * sizeof *x);
        return TERN_FAULT_NONE;
    }
    uint16_t *half = out;
    bool fits = true;
    for (uint32_t i = 0; i < n; i++) {
        fits &= (tern_bits(x[i]) & 0x7fffffffu) < tern_bits(65520.0f);
        half[i] = tern_float_to_half(x[i]);
    }
    return fits ? TERN_FAULT_NONE : TERN_FAULT_KV_OVERFLOW;
}

static void widen_vector(const struct tern_kv_layout *kv, const uint8_t *stored, float *out)
{
    if (kv->type == TERN_KV_F32) {
        memcpy(out, stored, kv->head_size * sizeof *out);
        return;
    }
    const uint16_t *half = (const uint16_t *)(const void *)stored;
    for (uint32_t j = 0; j < kv->head_size; j++)
        out[j] = tern_half_to_float(half[j]);
}

/* Scores of positions [begin, end) to score[position - begin], their maximum to *max. */
static bool score_block(const struct tern_attention *a, const float *q, uint32_t begin,
                        uint32_t end, float *score, float *max)
{
    float key[TERN_MAX_HEAD];
    for (uint32_t p = begin; p < end; p++) {
        widen_vector(a->kv, tern_kv_key(a, p), key);
        const float s = tern_chain_dot(q, key, a->kv->head_size) * a->scale;
        if (!tern_finite(s))
            return false;
        score[p - begin] = s;
        *max = p == begin || s > *max ? s : *max;
    }
    return true;
}

/* exp(score - max) in place; returns their sum in 16 chains, chain = position mod 16. */
static float weigh_block(uint32_t begin, uint32_t end, float max, float *score)
{
    float chain[TERN_CHAINS] = {0};
    for (uint32_t p = begin; p < end; p++) {
        const float e = tern_exp(score[p - begin] - max);
        float *sum = &chain[p % TERN_CHAINS];
        *sum = p - begin < TERN_CHAINS ? e : *sum + e;
        score[p - begin] = e;
    }
    return tern_join16(chain);
}

static void sum_values(const struct tern_attention *a, uint32_t begin, uint32_t end,
                       const float *weight, float *sum)
{
    float value[TERN_MAX_HEAD];
    for (uint32_t p = begin; p < end; p++) {
        widen_vector(a->kv, tern_kv_value(a, p), value);
        const float e = weight[p - begin];
        for (uint32_t j = 0; j < a->kv->head_size; j++)
            sum[j] = p == begin ? e * value[j] : sum[j] + e * value[j];
    }
}

static bool attend_block(const struct tern_attention *a, const float *q, uint32_t begin,
                         uint32_t end, struct part *part)
{
    float score[BLOCK_POSITIONS];
    if (!score_block(a, q, begin, end, score, &part->max))
        return false;
    part->weight = weigh_block(begin, end, part->max, score);
    sum_values(a, begin, end, score, part->sum);
    return true;
}

static float merge_value(float a, float by_a, float b, float by_b)
{
    return tern_value(tern_value(a * by_a) + tern_value(b * by_b));
}

static void merge_block(struct part *all, const struct part *block, uint32_t head_size)
{
    const float max = block->max > all->max ? block->max : all->max;
    const float by_all = tern_exp(all->max - max);
    const float by_block = tern_exp(block->max - max);
    all->weight = merge_value(all->weight, by_all, block->weight, by_block);
    for (uint32_t j = 0; j < head_size; j++)
        all->sum[j] = merge_value(all->sum[j], by_all, block->sum[j], by_block);
    all->max = max;
}

static bool attend_head(const struct tern_attention *a, const float *q, float *out)
{
    const uint32_t head_size = a->kv->head_size;
    const uint32_t end = a->position + 1;
    const uint32_t first = a->window != 0 && end > a->window ? end - a->window : 0;
    struct part all, block;
    for (uint32_t begin = first, next; begin < end; begin = next) {
        const uint32_t block_end = (begin / BLOCK_POSITIONS + 1) * BLOCK_POSITIONS;
        next = block_end < end ? block_end : end;
        if (!attend_block(a, q, begin, next, begin == first ? &all : &block))
            return false;
        if (begin != first)
            merge_block(&all, &block, head_size);
    }
    bool finite = true;
    for (uint32_t j = 0; j < head_size; j++) {
        if (!tern_finite(all.sum[j]))
            return false;
        out[j] = tern_value(all.sum[j] / all.weight);
        finite &= tern_finite(out[j]);
    }
    return finite;
}

bool tern_attend(const struct tern_attention *a, const float *q, uint32_t heads, float *out)
{
    const size_t head_size = a->kv->head_size;
    bool finite = true;
    for (uint32_t h = 0; h < heads; h++)
        finite &= attend_head(a, q + h * head_size, out + h * head_size);
    return finite;
}
